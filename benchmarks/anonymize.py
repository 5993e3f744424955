"""The search for the optimal generalization, beside one group-by over the same columns.

The data is the adult census extract with its hierarchies where the reference files are at hand, else the invented
census. Every run starts from the frame as it was read, so that coding the columns is part of the work.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

import discretion as dc
from benchmarks.ratio import Line, compare

SHARED = Path(os.environ.get("DISCRETION_SHARED", Path(__file__).parents[2] / "shared"))
ADULT = SHARED / "data" / "adult"
COPIES = 33
"""Copies of the data that make a million records."""
PEOPLE = 317_238_626
"""The population that the census extract is a sample of."""
BASE = "polars group_by().len()"

_MILLION = """
import resource, time
from benchmarks.anonymize import COPIES, load, search
import polars as pl
frame, hierarchies = load()
frame = pl.concat([frame] * COPIES).rechunk()
search(frame, hierarchies, 0.05, k=5 * COPIES)
start = time.process_time()
search(frame, hierarchies, 0.05, k=5 * COPIES)
spent = time.process_time() - start
start = time.process_time()
frame.group_by(frame.columns).len()
print(spent, time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def load() -> tuple[pl.DataFrame, Mapping[str, dc.Hierarchy]]:
    """Give a frame of text columns and their hierarchies."""
    if ADULT.is_dir():
        frame = pl.read_csv(ADULT / "adult.csv", separator=";", infer_schema=False)
        return frame, {name: dc.Hierarchy.read(ADULT / f"adult_hierarchy_{name}.csv") for name in frame.columns}
    census = dc.datasets.census(30_000, seed=1)
    quasi = census.having("quasi")
    found = {name: hierarchy for name in quasi if (hierarchy := census.schema[name].hierarchy) and "date" not in name}
    return census.frame.select(pl.col(list(found)).cast(pl.String)), found


def search(frame: pl.DataFrame, hierarchies: Mapping[str, dc.Hierarchy], limit: float, k: int = 5) -> object:
    """Search from the frame as it was read."""
    data = dc.Dataset(frame, roles=dict.fromkeys(frame.columns, "quasi"), hierarchies=hierarchies)
    return dc.anonymize(data, [dc.KAnonymity(k=k)], suppression_limit=limit)


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    frame, hierarchies = load()
    rows = f"{len(frame):,} × {frame.width}"
    fewest = 4.0 if ADULT.is_dir() else 10.0  # the group-by of the invented census takes a quarter of the time
    for limit, most in ((0.0, fewest), (0.05, 45.0), (1.0, 100.0)):
        yield compare(
            f"anonymize, k=5, limit {limit:g}, {rows}", lambda limit=limit: search(frame, hierarchies, limit), BASE,
            lambda: frame.group_by(frame.columns).len(), most,
        )  # fmt: skip
    if ADULT.is_dir():
        yield from _models(frame, hierarchies)
    yield from _million(len(frame))


def _models(frame: pl.DataFrame, hierarchies: Mapping[str, dc.Hierarchy]) -> Iterator[Line]:
    """Models about the occupation, with the other columns as quasi-identifiers, and about the population."""
    job: dict[str, Any] = {"sensitive": ["occupation"]}
    five = dc.KAnonymity(k=5)
    others = [name for name in frame.columns if name != "occupation"]
    cases: list[tuple[str, list[Any], float, float]] = [
        ("t-closeness, hierarchical", [five, dc.TCloseness(t=0.2, distance="hierarchical", **job)], 1.0, 50.0),
        ("t-closeness, equal", [five, dc.TCloseness(t=0.2, distance="equal", **job)], 1.0, 50.0),
        ("beta-likeness", [dc.BetaLikeness(beta=2, enhanced=False, **job)], 0.05, 20.0),
        ("delta-disclosure", [dc.DeltaDisclosure(delta=1, absent="ignore", **job)], 0.05, 20.0),
        ("population uniques 0.01", [dc.PopulationUniquenessBound(share=0.01, population_size=PEOPLE)], 0.0, 5.0),
        ("population uniques 0.0001", [dc.PopulationUniquenessBound(share=0.0001, population_size=PEOPLE)], 0.0, 50.0),
    ]
    game = dc.Profitability(benefit=1200, loss=300, gain=300, cost=4)
    cases += [("profitability", [game], 0.0, 5.0), ("means of the age inside classes", [five], 0.05, 10.0)]
    numbered = frame.with_columns(pl.col("age").cast(pl.Int64))
    for name, models, limit, most in cases:
        quasi = frame.columns if name.startswith("population") else others
        means = name.startswith("means")

        def work(
            models: list[Any] = models, limit: float = limit, quasi: list[str] = quasi, means: bool = means
        ) -> object:
            data = dc.Dataset(
                numbered if means else frame, roles=dict.fromkeys(quasi, "quasi"), hierarchies=hierarchies
            )
            more: dict[str, Any] = {"summarize": {"age": "mean"}} if means else {}
            return dc.anonymize(data, models, suppression_limit=limit, **more)

        yield compare(
            f"anonymize, {name}, limit {limit:g}", work, BASE, lambda: frame.group_by(frame.columns).len(), most
        )
    original = dc.Dataset(frame, roles=dict.fromkeys(frame.columns, "quasi"), hierarchies=hierarchies)
    coarse = dc.Generalize(levels=dict.fromkeys(frame.columns, 1))(original)
    yield compare(
        "granularity of a release", lambda: dc.Granularity()(original, coarse), BASE,
        lambda: frame.group_by(frame.columns).len(), 5.0,
    )  # fmt: skip


def _million(rows: int) -> Iterator[Line]:
    """A process of its own: seconds beside 1.5 s, and the peak of its memory beside 1 GB."""
    done = subprocess.run([sys.executable, "-c", _MILLION], check=True, capture_output=True, text=True)
    spent, base, memory = map(float, done.stdout.split())
    yield Line(f"anonymize, limit 0.05, {rows * COPIES:,} rows", BASE, spent, base, 1.5 / base)
    yield Line("  peak memory in GB (whole process)", "1 GB", memory / 1024, 1.0, 1.0)
