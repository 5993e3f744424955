"""A small invented survey and plans for it, shared by the tests of plans, releases, the command line and faults."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

ROLES = {
    "person_id": "identifier",
    "age": "quasi",
    "sex": "quasi",
    "region": ["quasi", "stratum"],
    "income": "sensitive",
    "savings": "sensitive",
}

PLAN = """\
title: A small survey
data: survey.csv
roles:
  person_id: identifier
  age: quasi
  sex: quasi
  region: [quasi, stratum]
  income: sensitive
  savings: sensitive
hierarchies:
  age: {intervals: {width: 10, levels: 4}}
  region: region.csv
steps:
  - generalize: {levels: {age: 3, region: 1}}
  - rank-swap: {columns: [income], percent: 10}
  - additive-noise: {columns: savings, sd_share: 0.1}
measures:
  - sample-uniqueness
  - il1s: {columns: [income, savings]}
requirements:
  - k-anonymity: {k: 3}
  - distance-linkage: {columns: [income, savings], at_most: 1.0}
output: {folder: out, journal: secret}
"""


def survey(rows: int = 240, seed: int = 1) -> pl.DataFrame:
    """Draw the survey; there are no missing values and no two equal incomes."""
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "person_id": [f"P-{number:05d}" for number in rng.permutation(rows)],
            "age": rng.integers(18, 80, rows),
            "sex": rng.choice(["f", "m"], rows),
            "region": rng.choice(["coast", "hills", "plain"], rows),
            "income": np.round(np.exp(rng.normal(10, 0.6, rows)), 2),
            "savings": rng.integers(-2000, 90_000, rows),
        }
    )


def put_survey(folder: Path, plan: str = PLAN, rows: int = 240) -> Path:
    """Write data, hierarchy and plan into a folder; give the plan's path."""
    folder.mkdir(parents=True, exist_ok=True)
    survey(rows).write_csv(folder / "survey.csv")
    (folder / "region.csv").write_text("coast;land\nhills;land\nplain;land\n")
    path = folder / "plan.yaml"
    path.write_text(plan, encoding="utf-8")
    return path


def without(plan: str, *starts: str) -> str:
    """Leave out the lines of a plan that start so (after blanks)."""
    return "".join(line for line in plan.splitlines(keepends=True) if not line.strip().startswith(starts))


def line_of(plan: str, start: str) -> int:
    """Give the number of the line that starts so."""
    return next(number for number, line in enumerate(plan.splitlines(), 1) if line.strip().startswith(start))


def files_of(folder: Path) -> dict[str, bytes]:
    """Give every file below a folder, by its relative path."""
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}
