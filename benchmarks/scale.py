"""Rows that stay in their files: ratios to what duckdb takes to count, to copy the file in its order, and to sort it.

Run by itself for other sizes, each in a process of its own, with the peak of its memory:
    python -m benchmarks.scale 1e6 1e7 1e8
and the plan on Spark (two cores of this machine) beside the same written by hand in pyspark, by the clock:
    python -m benchmarks.scale spark 1e7
The files are made in a temporary folder and deleted afterwards (10⁸ rows: about 3 GB).
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

import discretion as dc
from benchmarks.ratio import Line
from discretion.engines.scan import Scan
from discretion.release.large import run_large

QUASI = ("age", "sex", "region", "marital", "education", "nation")
HIERARCHIES: dict[str, object] = {
    "age": {"intervals": {"width": 5, "levels": 5}},
    "region": {"intervals": {"width": 4, "levels": 4}},
    "education": {"intervals": {"width": 2, "levels": 3}},
}
ROLES = {
    **dict.fromkeys(QUASI, "quasi"),
    "income": "sensitive",
    "hours": "sensitive",
    "wealth": "sensitive",
    "area": "other",
}
SEED = 2**120 + 1
ROWS = 2_000_000


def make(folder: Path, rows: int, part: int = 5_000_000) -> None:
    """Write invented people in parts of 5 million rows."""
    for number, start in enumerate(range(0, rows, part)):
        rng, n = np.random.default_rng(number), min(part, rows - start)
        pl.DataFrame(
            {
                "age": rng.integers(0, 100, n, dtype=np.int16),
                "sex": rng.integers(1, 3, n, dtype=np.int8),
                "region": np.minimum(rng.geometric(0.06, n), 60).astype(np.int16),
                "marital": rng.integers(1, 6, n, dtype=np.int8),
                "education": rng.integers(0, 8, n, dtype=np.int8),
                "nation": np.minimum(rng.geometric(0.6, n), 8).astype(np.int8),
                "income": np.round(rng.lognormal(10, 1, n), 2),
                "hours": np.round(rng.normal(35, 10, n), 1),
                "wealth": np.round(rng.lognormal(11, 2, n), 2),
                "area": rng.integers(10, 300, n, dtype=np.int32),
            }
        ).write_parquet(folder / f"part-{number:04}.parquet")


def scan(folder: Path) -> Scan:
    return dc.scan(folder, roles=ROLES, hierarchies=HIERARCHIES, memory="4GB")


def plan(order: str) -> dc.Plan:
    """Top code, generalize, add noise, require k-anonymity, measure uniqueness, publish."""
    return dc.Plan.from_dict(
        {
            "data": {"path": "in memory"},
            "roles": ROLES,
            "hierarchies": HIERARCHIES,
            "confirmed_other": ["area"],
            "order": order,
            "steps": [
                {"top-code": {"column": "wealth", "at": 1e6}},
                {"generalize": {"levels": {"age": 2, "region": 2, "education": 1}}},
                {"additive-noise": {"columns": ["income", "hours", "wealth"], "sd_share": 0.1}},
            ],
            "requirements": [{"k-anonymity": {"k": 1}}],
            "measures": ["sample-uniqueness"],
            "output": {"format": "parquet"},
        }
    )


def _cpu(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _count(files: str) -> None:
    listed = ", ".join(QUASI)
    duckdb.sql(f"SELECT {listed}, count(*) FROM read_parquet('{files}') GROUP BY {listed}").to_arrow_table()


def _copy(files: str, target: Path) -> None:
    duckdb.sql("SET preserve_insertion_order = true")
    duckdb.sql(f"COPY (FROM read_parquet('{files}')) TO '{target}' (FORMAT parquet)")


def _sort(files: str, target: Path, columns: str, by: str) -> None:
    duckdb.sql(f"COPY (SELECT {columns} FROM read_parquet('{files}') ORDER BY {by}) TO '{target}' (FORMAT parquet)")


def _publish(folder: Path, target: Path, order: str) -> None:
    chosen = plan(order)
    release = run_large(chosen, Scan(scan(folder).store, chosen.schema), seed=SEED)
    release.write(target)


def measured(folder: Path, rows: int) -> list[Line]:
    """Measure once each; the base first, so that the files are in the cache of the system for both."""
    files, out = str(folder / "*.parquet"), folder / "out"
    out.mkdir()
    duckdb.sql("SET enable_progress_bar = false")
    count, copy = _cpu(lambda: _count(files)), _cpu(lambda: _copy(files, out / "copy.parquet"))
    sort = _cpu(lambda: _sort(files, out / "sorted.parquet", "*", "hash(income, wealth)"))
    sort_one = _cpu(lambda: _sort(files, out / "column.parquet", "income", "income"))
    size = f"{rows:,} × 10"
    keep = _cpu(lambda: _publish(folder, out / "a", "keep"))
    permute = _cpu(lambda: _publish(folder, out / "b", "permute"))
    swap = _cpu(lambda: dc.Study(scan(folder), seed=SEED).apply(dc.RankSwap(columns=["income"], percent=5)))
    rank = _cpu(lambda: dc.Study(scan(folder), seed=SEED).apply(dc.IndividualRanking(columns=["income"], k=5)))
    lines = [
        Line(f"classes over six columns, {size}", "duckdb GROUP BY", _cpu(lambda: scan(folder).table(QUASI)), count, 4),
        Line(f"plan and release, order kept, {size}", "COPY", keep, copy, 15),
        Line(f"their random order on top, {size}", "duckdb's sort of the file", permute - keep, sort, 6),
        Line(f"rank swap of {rows:,} values", "duckdb's sort of them", swap, sort_one, 5),
        Line(f"individual ranking of {rows:,} values", "duckdb's sort of them", rank, sort_one, 5),
    ]
    search = _cpu(
        lambda: dc.anonymize(scan(folder), models=[dc.KAnonymity(k=5)], suppression_limit=0.02, columns=QUASI)
    )
    return [*lines, Line(f"optimal generalization, {size}", "duckdb GROUP BY", search, count, 15)]


def _by_hand(session: Any, folder: Path, target: Path) -> None:
    """Top code, generalize, add noise, count classes and write, as one would write it for Spark."""
    from pyspark.sql import functions as sql

    noisy = ("income", "hours", "wealth")
    people = session.read.parquet(str(folder / "part-*.parquet"))
    people = people.withColumn("wealth", sql.least("wealth", sql.lit(1e6)))
    for name, width in (("age", 10), ("region", 8), ("education", 2)):
        people = people.withColumn(name, (sql.floor(sql.col(name) / width) * width).cast("string"))
    spread = people.agg(*(sql.stddev(name).alias(name) for name in noisy)).first()
    for name in noisy:
        people = people.withColumn(name, sql.col(name) + 0.1 * spread[name] * sql.randn())
    people.write.parquet(str(target))
    people.groupBy(*QUASI).count().agg(sql.min("count"), sql.sum((sql.col("count") == 1).cast("int"))).first()


def _publish_by_spark(session: Any, folder: Path, target: Path) -> None:
    chosen = plan("keep")
    data = dc.scan(folder / "part-*.parquet", engine="spark", session=session, spill=folder)
    run_large(chosen, Scan(data.store, chosen.schema), seed=SEED).write(target)


def spark(folder: Path, rows: int) -> Line:
    """Measure the plan on Spark beside the same by hand, in one session that has worked before."""
    from discretion.engines.spark import spark_session

    session = spark_session("local[2]", "2GB", folder)
    (folder / "few").mkdir()
    make(folder / "few", 100_000)
    taken = []
    for place, name in ((folder / "few", "first"), (folder, "out")):
        for work in (_by_hand, _publish_by_spark):
            start = time.perf_counter()
            work(session, place, folder / f"{name}-{work.__name__}")
            taken.append(time.perf_counter() - start)
    session.stop()
    return Line(f"plan and release on Spark, order kept, {rows:,} × 10", "by hand", taken[3], taken[2], 2)


def lines() -> list[Line]:
    with tempfile.TemporaryDirectory() as place:
        make(Path(place), ROWS)
        return measured(Path(place), ROWS)


def _alone(size: int, measuring: Callable[[Path, int], list[Line]] = measured) -> None:
    place = Path(tempfile.mkdtemp())
    try:
        make(place, size)
        for line in measuring(place, size):
            print(f"{line.job:60} {line.seconds:8.1f} s  {line.ratio:6.2f}× {line.base}")
    finally:
        shutil.rmtree(place)
    print(f"peak of the process {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB")


if __name__ == "__main__":
    if sys.argv[1] == "spark":
        _alone(round(float(sys.argv[2])), lambda folder, rows: [spark(folder, rows)])
    elif len(sys.argv) == 2:
        _alone(round(float(sys.argv[1])))
    for size in sys.argv[1:] if len(sys.argv) > 2 and sys.argv[1] != "spark" else ():
        subprocess.run([sys.executable, "-m", "benchmarks.scale", size], check=True)
