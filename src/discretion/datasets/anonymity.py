"""Worked tables about classes of records that look the same: k-anonymity, l-diversity, generalization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discretion.datasets import blocks

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset

_INCOME = {"income": "sensitive"}

_PEOPLE = """
occupation     | zip   | age | sex | income
Runner         | 80222 | 42  | M   | 25050
School teacher | 40831 | 28  | F   | 18098
Police det.    | 97206 | 51  | M   | 28760
Professor      | 40831 | 23  | M   | 26062
Student        | 40831 | 12  | F   | 790
Police capt.   | 97206 | 68  | M   | 30033
Boxer          | 80237 | 30  | F   | 55093
Horse rider    | 80911 | 46  | M   | 17330
Military lt.   | 97201 | 55  | F   | 15700
"""


def identified_people() -> Dataset:
    """Give microdata with an identifier, quasi-identifiers and a confidential income (Table 2; D2).

    The figures of `people_without_names`, except that the professor lives in 40505 here.
    """
    import polars as pl

    from discretion.data.dataset import Dataset

    plain = blocks.frame(_PEOPLE)
    names = pl.Series("name", [f"person {number}" for number in range(1, 10)])
    moved = pl.when(pl.col("occupation") == "Professor").then(pl.lit("40505")).otherwise(pl.col("zip")).alias("zip")
    roles = {"name": "identifier", **dict.fromkeys(plain.columns, "quasi"), **_INCOME}
    return Dataset(plain.with_columns(moved).insert_column(0, names), roles=roles)


def people_without_names() -> Dataset:
    """Give microdata whose identifiers were dropped and that still give people away (Table 3; R10).

    Somebody who knows an occupation finds the record with certainty; zip 40831 and woman → 1/2; zip → 1/3;
    woman → 1/4.
    """
    return blocks.dataset(_PEOPLE, _INCOME)


def three_anonymous() -> Dataset:
    """Give a table that is 3-anonymous over occupation, zip and sex (Table 4; M1): two classes of three."""
    return blocks.dataset(
        """
        occupation | zip   | sex | income
        Teacher    | 80122 | M   | 10000
        Teacher    | 80122 | M   | 18098
        Writer     | 97234 | F   | 28000
        Teacher    | 80122 | M   | 20100
        Writer     | 97234 | F   | 30000
        Writer     | 97234 | F   | 9210
        """,
        _INCOME,
    )


def homogeneous_classes() -> Dataset:
    """Give a 3-anonymous table that discloses incomes all the same (Table 5; R8).

    Everybody in 80100 has 10000; everybody in 97222 between 23000 and 28000.
    """
    return blocks.dataset(
        """
        occupation | zip   | sex | income
        Teacher    | 80100 | M   | 10000
        Teacher    | 80100 | M   | 10000
        Teacher    | 80100 | M   | 10000
        Writer     | 97222 | F   | 28000
        Writer     | 97222 | F   | 25000
        Writer     | 97222 | F   | 23000
        """,
        _INCOME,
    )


def diverse_classes() -> Dataset:
    """Give the example of l-diversity and t-closeness (Table 6a; M2, M3).

    Distinct diversity 2; entropies 0.9183 and 1.5850, so entropy diversity 1.8899; recursive (3, 2) holds and
    (2, 2) fails; t-closeness 1/3 with the ordered distance and 1/2 with the equal distance.
    """
    return blocks.dataset(
        """
        occupation | zip   | sex | income
        Teacher    | 80100 | M   | 10000
        Teacher    | 80100 | M   | 20000
        Teacher    | 80100 | M   | 10000
        Writer     | 97222 | F   | 28000
        Writer     | 97222 | F   | 25000
        Writer     | 97222 | F   | 23000
        """,
        _INCOME,
    )


_GENERALIZED = """
occupation     | zip   | age | marital_status || occupation      | zip   | age      | marital_status
Runner         | 80222 | 42  | Married        || Sports          | 80*** | [30, 49] | Married
School teacher | 40831 | 28  | Divorced       || Education       | 40*** | [10, 29] | Divorced or Widow/er
Police det.    | 97206 | 51  | Widow/er       || Law enforcement | 97*** | [50, 69] | Divorced or Widow/er
Professor      | 40831 | 23  | Married        || Education       | 40*** | [10, 29] | Married
Student        | 40831 | 12  | Single         || Education       | 40*** | [10, 29] | Single
Police capt.   | 97206 | 68  | Single         || Law enforcement | 97*** | [50, 69] | Single
Boxer          | 80237 | 30  | Divorced       || Sports          | 80*** | [30, 49] | Divorced or Widow/er
Horse rider    | 80911 | 46  | Married        || Sports          | 80*** | [30, 49] | Married
Military lt.   | 97201 | 55  | Single         || Law enforcement | 97*** | [50, 69] | Single
"""


def generalization_example() -> tuple[Dataset, Dataset]:
    """Give people before and after generalization (Tables 15 and 16; P3).

    The hierarchies of the original lead to the release: occupation level 1 (an ontology), zip level 3 (two
    digits left), age level 1 (intervals of 20 years), marital status level 1 (a grouping). The release is
    3-anonymous over occupation, zip and age only; with marital status k = 1.
    """
    from discretion.data.hierarchy import Hierarchy

    jobs = {
        "Sports": ["Runner", "Boxer", "Horse rider"],
        "Education": ["School teacher", "Professor", "Student"],
        "Law enforcement": ["Police det.", "Police capt.", "Military lt."],
    }
    hierarchies = {
        "occupation": Hierarchy.tree(jobs),
        "zip": Hierarchy.masking(keep=2),
        "age": Hierarchy.intervals(cuts=[[10, 30, 50, 70]]),
        "marital_status": Hierarchy.groups({"Divorced or Widow/er": ["Divorced", "Widow/er"]}),
    }
    before, after = blocks.versions(_GENERALIZED)
    original = blocks.dataset(before, hierarchies=hierarchies)
    levels = {"occupation": 1, "zip": 3, "age": 1, "marital_status": 1}
    return original, blocks.released(original, after, levels)


def generalized_release() -> Dataset:
    """Give a release by generalization that is only 1-anonymous (Table 23; M1, R10).

    (Education, 40***, [10, 29], Married) is unique. With `teachers_list` record 5 is re-identified.
    """
    return blocks.dataset(
        """
        occupation      | zip   | age      | marital_status       | income
        Sports          | 80*** | [30, 49] | Married              | 25050
        Education       | 40*** | [10, 29] | Divorced or Widow/er | 18098
        Law enforcement | 97*** | [50, 69] | Divorced or Widow/er | 28760
        Education       | 40*** | [10, 29] | Married              | 26062
        Education       | 97*** | [10, 29] | Single               | 790
        Law enforcement | 97*** | [50, 69] | Single               | 30033
        Sports          | 80*** | [30, 49] | Divorced or Widow/er | 55093
        Sports          | 80*** | [30, 49] | Married              | 17330
        Law enforcement | 97*** | [50, 69] | Single               | 15700
        """,
        _INCOME,
    )


def teachers_list() -> Dataset:
    """Give a public list of teachers that an intruder links with `generalized_release` (Table 24; R10).

    `zip` is what the intruder knows of it from the city. The Portland teacher is record 5 of the release
    (identity disclosure); the Louisville teacher is record 2 or 4 (attribute disclosure); the others are
    not in it.
    """
    return blocks.dataset(
        """
        name     | occupation | city             | zip
        person 1 | Education  | Portland         | 97***
        person 2 | Education  | Long Beach       | 90***
        person 3 | Education  | Louisville       | 40***
        person 4 | Education  | East Los Angeles | 90***
        person 5 | Education  | Springfield      | 62***
        person 6 | Education  | Anchorage        | 99***
        """,
        {"name": "identifier", "city": "other"},
    )
