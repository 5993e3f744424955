"""The example of the demo and of the app: the invented census with its hierarchies and a plan, as files."""

from __future__ import annotations

from pathlib import Path

PLAN = """\
title: Census of an invented country
data: census.csv

# The scenario: somebody knows where a person lives, and the age, sex, education, marital status, occupation and hours
# of work. Municipality and date of birth are too detailed for a public file and are not published; nor is the number
# of the household, which would let people recognize families. It is still used: people of one household count once.
roles:
  person_id: identifier
  name: identifier
  municipality: identifier
  birth_date: identifier
  household: household
  region: [quasi, geography]
  age: quasi
  sex: quasi
  education: quasi
  marital_status: quasi
  occupation: quasi
  hours: quasi
  income: sensitive
  savings: sensitive
  diagnoses: sensitive
  weight: weight

types: {diagnoses: set}

hierarchies:
  region: hierarchies/region.csv
  age: {intervals: {cuts: [[0, 10, 20, 30, 40, 50, 60, 70, 80, inf], [0, 20, 40, 60, 80, inf], [0, 40, 80, inf]]}}
  education: hierarchies/education.csv
  marital_status: hierarchies/marital_status.csv
  occupation: hierarchies/occupation.csv

steps:
  - drop-identifiers: {columns: [person_id, name, municipality, birth_date, household]}
  - recode: {column: hours, cuts: [0, 1, 20, 35, 45, 200], labels: [none, 1 to 19, 20 to 34, 35 to 44, 45 and more]}
  - generalize: {levels: {age: 2, region: 1, education: 1, marital_status: 1, occupation: 1}}
  - km-generalization: {columns: diagnoses, k: 5, m: 2, item_hierarchy: hierarchies/diagnoses.csv}
  - top-code: {column: income, quantile: 0.995, replace: mean}
  - top-code: {column: savings, quantile: 0.995, replace: mean}
  - bottom-code: {column: savings, quantile: 0.005, replace: mean}
  - shuffle: {columns: [income, savings], predictors: [region, sex, age, education, occupation, hours]}
  - local-suppression:    # a set of diagnoses tells people apart like any other column
      {columns: [region, age, sex, marital_status, education, occupation, hours, diagnoses], k: 5,
       importance: {diagnoses: 2}}
  - local-suppression: {models: [k-anonymity: {k: 5}, distinct-l-diversity: {l: 3, sensitive: savings}]}
  - reissue-weights: {by: [region]}

measures:
  - sample-uniqueness
  - distance-linkage: {columns: [income, savings]}
  - distance-linkage:    # somebody who knows everything
      {columns: [region, age, sex, marital_status, education, occupation, hours, diagnoses, income, savings]}
  - interval-risk: {columns: [income, savings], sd_share: 0.05}
  - weight-disclosure: {columns: [region]}
  - rare-values
  - row-order: {columns: [region, age]}
  - column-dependence
  - il1s: {columns: [income, savings]}
  - mae: {columns: [income, savings], on: correlation}
  - precision

requirements:
  - k-anonymity: {k: 5}
  - k-anonymity: {k: 5, columns: [region, age, sex, marital_status, education, occupation, hours, diagnoses]}
  - distinct-l-diversity: {l: 3, sensitive: savings}
  - km-anonymity: {k: 5, m: 2, columns: diagnoses}
  - distance-linkage: {columns: [income, savings], at_most: 0.005}
  - distance-linkage:    # the same, limited: about one in k
      {columns: [region, age, sex, marital_status, education, occupation, hours, diagnoses, income, savings],
       at_most: 0.15}
  - mae: {columns: [income, savings], on: correlation, at_most: 0.1}

output: {folder: release, journal: private}
"""
PEOPLE = 30_000
"""How many people the demo invents, at least; with fewer its requirements need not hold."""
_HIERARCHIES = ("region", "education", "marital_status", "occupation")


def write_example(folder: Path, rows: int) -> Path:
    """Write the invented census, its hierarchies and a plan."""
    import polars as pl

    from discretion.data.write import write, write_text
    from discretion.datasets import census
    from discretion.datasets.census_draws import DIAGNOSES

    folder.mkdir(parents=True, exist_ok=True)
    people = census(rows, seed=1)
    whole = people.frame.with_columns(people.frame.select("income", "savings").cast(pl.Int64))
    write(whole, folder / "census.csv", overwrite=True)
    (folder / "hierarchies").mkdir(exist_ok=True)
    for name in _HIERARCHIES:
        rows_of_levels = zip(*people.hierarchy(name).table, strict=True)
        text = "\n".join(";".join(row) for row in rows_of_levels) + "\n"
        write_text(folder / "hierarchies" / f"{name}.csv", text, overwrite=True)
    codes = "".join(f"{code};chapter {code[0]};*\n" for code in DIAGNOSES)
    write_text(folder / "hierarchies" / "diagnoses.csv", codes, overwrite=True)
    plan = folder / "plan.yaml"
    write_text(plan, PLAN, overwrite=True)
    return plan
