"""Rows on a Spark cluster (here, one of this machine): the same seed gives the same values, and only summaries come."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.data.dataset import Dataset, Piece
from discretion.engines.scan import Scan
from discretion.engines.spark import SparkRows, spark_session
from discretion.errors import DataError, PlanError
from discretion.method import scaling
from discretion.release.large import run_large, scan_data
from tests.engines.test_scan import METHODS, OPTIONS, folder, frame, make_plan, memory, whole_levels  # noqa: F401 - fixtures

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'discretion[spark]'")
pytestmark = pytest.mark.xdist_group("spark")
SEED = 2**100 + 3
BY_ROWS = scaling("rows")


@pytest.fixture(scope="module")
def scan(folder: Path, spark: Any) -> Scan:  # noqa: F811
    return dc.scan(folder, engine="spark", session=spark, **OPTIONS)


def rows_of(scan: Scan) -> pl.DataFrame:
    """Bring all rows here, which only a test does."""
    return pl.concat(scan.each_batch(scan.columns, lambda piece: piece.data.frame), how="vertical_relaxed")


def compare(kind: str, memory: Dataset, scan: Scan) -> None:  # noqa: F811
    one, other = (dc.Study(data, seed=SEED).apply(METHODS[kind]) for data in (memory, scan))
    assert other.drawn == one.drawn
    assert len({json.dumps(METHODS[kind].facts(study.done[-1].decision)) for study in (one, other)}) == 1
    assert isinstance(other.current, Scan) and len(other.current) == len(one.current)
    assert whole_levels(other.current) == whole_levels(one.current)
    assert rows_of(other.current).select(one.current.columns).equals(one.current.frame, null_equal=True)


def test_rows(memory: Dataset, scan: Scan) -> None:  # noqa: F811
    compare("additive-noise", memory, scan)


def test_quantiles_are_selected_where_the_rows_are(memory: Dataset, scan: Scan) -> None:  # noqa: F811
    shares = [0.0, 0.01, 1 / 3, 0.5, 0.99, 1.0]
    for name in ("income", "hours"):
        assert np.array_equal(scan.quantiles(name, shares), memory.quantiles(name, shares))


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", sorted({*BY_ROWS, "optimal-generalization", "mondrian", "local-suppression"} - {"additive-noise"})
)
def test_every_method_that_works_row_by_row(kind: str, memory: Dataset, scan: Scan) -> None:  # noqa: F811
    compare(kind, memory, scan)


def test_classes_after_draws(memory: Dataset, scan: Scan) -> None:  # noqa: F811
    one, other = (dc.Study(data, seed=SEED).apply(METHODS["pram"]) for data in (memory, scan))
    for study in (dc.KAnonymity(k=30), dc.DistinctLDiversity(l=3, sensitive=["hours"])):
        expected, found = one.check(study)[0], other.check(study)[0]
        assert (found.holds, found.value, found.failing_records) == (
            expected.holds, expected.value, expected.failing_records
        )  # fmt: skip


@pytest.mark.parametrize("kind", sorted(scaling("columns")))
def test_what_needs_whole_columns_is_refused(kind: str, scan: Scan) -> None:
    with pytest.raises(PlanError, match=f"{kind} needs whole columns.*use the engine `duckdb`"):
        METHODS[kind](scan, seed=1)


def test_groups_are_refused(scan: Scan) -> None:
    with pytest.raises(PlanError, match="additive-noise needs whole columns in memory to work within groups"):
        dc.AdditiveNoise(columns=["income"], sd_share=0.2, by=["sex"])(scan, seed=1)


def test_errors_come_back_as_they_are(scan: Scan) -> None:
    with pytest.raises(DataError, match=r"'income': 0 values lie below the lower bound and [0-9]+ above"):
        dc.AdditiveNoise(columns=["income"], sd_share=0.2, upper=10_000)(scan, seed=1)


def test_a_release_is_that_of_memory(
    folder: Path,  # noqa: F811
    frame: pl.DataFrame,  # noqa: F811
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("discretion.release.large.PART_ROWS", 40_000)
    frame.write_parquet(tmp_path / "all.parquet")
    seed = 2**110 + 9
    one = make_plan(tmp_path, "all.parquet").run(seed=seed)
    one.write(tmp_path / "one")
    plan = make_plan(tmp_path, str(folder / "*.parquet"))
    other = run_large(plan, scan_data(plan, engine="spark"), seed=seed, publish=True)
    other.write(tmp_path / "other")
    parts = sorted((tmp_path / "other").glob("data-*.parquet"))
    assert len(parts) == 4
    assert pl.read_parquet(tmp_path / "one" / "data.parquet").equals(pl.concat(map(pl.read_parquet, parts)))
    orders = [np.load(tmp_path / f"{name}-private" / "order.npy") for name in ("one", "other")]
    assert np.array_equal(*orders)
    assert other.findings[0].value == one.findings[0].value


def test_a_machine_that_is_lost(memory: Dataset, scan: Scan, tmp_path: Path) -> None:  # noqa: F811
    marker = tmp_path / "died"

    def look(piece: Piece) -> bytes:
        if os.getpid() != driver and not marker.exists():
            marker.touch()
            os._exit(1)
        return piece.number("income").tobytes()

    driver = os.getpid()
    assert scan.each_batch(["income"], look) == memory.each_batch(["income"], look)
    assert marker.exists()


def test_only_summaries_reach_the_driver(
    scan: Scan,
    folder: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    received = []
    classes = []
    collected, counted = SparkRows._collected, SparkRows._counted

    def counting_classes(self: SparkRows, *given: Any) -> Any:
        before = len(received)
        found = counted(self, *given)
        classes.append(sum(one.nbytes for one in received[before:]))
        return found

    def counting(self: SparkRows, found: Any) -> Any:
        table = collected(self, found)
        received.append(table)
        return table

    monkeypatch.setattr(SparkRows, "_collected", counting)
    monkeypatch.setattr(SparkRows, "_counted", counting_classes)
    study = dc.Study(scan, seed=SEED + 1).apply(METHODS["additive-noise"])
    assert received and sum(one.nbytes for one in received) < len(scan) / 2, "a byte for two records, in all"
    with pytest.raises(DataError, match="needs all rows in memory"):
        study.current.series("income")
    with pytest.raises(PlanError, match="do not come to the driver"):
        study.current.collect()
    monkeypatch.setattr("discretion.release.large.SAMPLE", 1_000)
    received.clear()
    plan = make_plan(tmp_path, str(folder / "*.parquet"))
    run_large(plan, scan_data(plan, engine="spark"), seed=SEED, publish=True).write(tmp_path / "out")
    summaries = sum(one.nbytes for one in received) - sum(classes)
    assert classes and summaries < 4 * len(scan), "of a whole release, with its sample after every step"


def test_classes_that_come_to_the_driver_have_a_limit(
    memory: Dataset,  # noqa: F811
    folder: Path,  # noqa: F811
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("discretion.engines.spark.MOST_CLASSES", 1_000)
    scan = dc.scan(folder, engine="spark", session=spark, **OPTIONS)
    with pytest.raises(DataError, match=r"5,700 different combinations of age, region, sex.*Generalize these columns"):
        dc.KAnonymity(k=5)(scan)
    rougher = dc.Generalize(levels={"age": 2, "region": 1})
    found, expected = (dc.KAnonymity(k=5)(rougher(data, seed=1)) for data in (scan, memory))
    assert found.value == expected.value and found.failing_records == expected.failing_records


def test_a_frame_of_spark(folder: Path, frame: pl.DataFrame, spark: Any, tmp_path: Path) -> None:  # noqa: F811
    given = spark.read.parquet(*map(str, sorted(folder.glob("*.parquet")))).coalesce(1)
    scan = dc.scan(given, engine="spark", spill=tmp_path, **OPTIONS)
    assert scan.store.session is given.sparkSession
    assert rows_of(scan).sort("name").equals(dc.Dataset(frame, **OPTIONS).frame.sort("name"), null_equal=True)
    del scan
    gc.collect()
    assert not list(tmp_path.iterdir())


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)


@pytest.mark.usefixtures("no_session")
def test_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discretion.engines.spark.shutil.which", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(PlanError, match="openjdk-17-jre-headless"):
        spark_session()


@pytest.mark.usefixtures("no_session")
def test_spark_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.SparkContext._gateway", None)
    monkeypatch.setenv("SPARK_HOME", "/nowhere")
    with pytest.raises(PlanError, match=r"did not start with the master 'local\[2\]'.*is Java 17"):
        spark_session()
