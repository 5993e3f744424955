"""Every part gives on rows that stay in their files what it gives in memory, or refuses by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import discretion as dc
from discretion.engines.scan import Scan
from discretion.errors import DataError, DiscretionError, PlanError
from discretion.measure import Measure
from discretion.method import Method
from discretion.model import PrivacyModel
from discretion.part import all_parts

from .samples import HIERARCHY, ROLES, dataset, fields_for, frame

PARTS = [part for part in all_parts("method", "risk", "utility", "model") if part.__module__.startswith("discretion.")]
SEED = 2**100 + 1
QUICK = ("additive-noise", "k-anonymity", "rank-swap", "mdav", "mse", "distance-linkage", "mondrian")
"""One of each way to scale; the others are tried by test-all."""


@pytest.fixture(
    params=[pytest.param(part, id=part.kind, marks=() if part.kind in QUICK else pytest.mark.slow) for part in PARTS]
)
def part(request: pytest.FixtureRequest, key_file: str) -> Any:
    return request.param(**fields_for(request.param, key_file))


@pytest.fixture(
    params=[
        pytest.param((False, "duckdb"), id="complete", marks=pytest.mark.slow),
        pytest.param((True, "duckdb"), id="missing"),
        pytest.param((True, "spark"), id="spark", marks=[pytest.mark.slow, pytest.mark.xdist_group("spark")]),
    ]
)
def sides(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[dc.Dataset, Scan]:
    missing, engine = request.param
    rows = frame(missing=missing)
    rows[:11].write_parquet(tmp_path / "a.parquet")
    rows[11:].write_parquet(tmp_path / "b.parquet")
    session = request.getfixturevalue("spark") if engine == "spark" else None
    roles = {"roles": ROLES, "hierarchies": {"region": HIERARCHY}}
    return dataset(missing=missing), dc.scan(tmp_path, spill=tmp_path, engine=engine, session=session, **roles)


def released(data: dc.Dataset) -> dc.Study:
    noisy = dc.Study(data, seed=SEED).apply(dc.AdditiveNoise(columns=["income", "hours"], sd_share=0.3))
    return noisy.apply(dc.Generalize(levels={"region": 1}))


def carried_out(part: Any, data: dc.Dataset) -> Any:
    """Give the frame, the figures, or the verdict."""
    if isinstance(part, Method):
        done = dc.Study(data, seed=SEED).apply(part).current
        return rows_of(done) if isinstance(done, Scan) else done.frame
    study = released(data)
    if isinstance(part, PrivacyModel):
        verdict = part(study.current, study.original)
        return {"value": verdict.value, "failing": verdict.failing_records, "holds": verdict.holds}
    assert isinstance(part, Measure)
    found = study.scores(part)[0]
    return {"value": found.value}


def rows_of(scan: Scan) -> pl.DataFrame:
    if not scan.store.remote:
        return scan.collect().frame
    return pl.concat(scan.each_batch(scan.columns, lambda piece: piece.data.frame), how="vertical_relaxed")


def needs_columns(part: Any, scan: Scan) -> bool:
    """Tell whether a part is refused on a cluster, to which whole columns do not come."""
    by_rows = part.kind == "group-attack"  # the sensitive values that it learns were changed before
    by_rows = by_rows or part.scale in ("columns", "blocks", "sampled") or bool(getattr(part, "by", ()))
    return scan.store.remote and by_rows


def test_the_same_in_files_or_refused_by_name(part: Any, sides: tuple[dc.Dataset, Scan]) -> None:
    memory, scan = sides
    if part.scale == "memory":
        with pytest.raises(PlanError, match=f"{part.kind}.* needs all rows in memory"):
            carried_out(part, scan)
        return
    if needs_columns(part, scan):
        with pytest.raises(PlanError, match="use the engine `duckdb`"):
            carried_out(part, scan)
        return
    try:
        expected = carried_out(part, memory)
    except DiscretionError as error:
        with pytest.raises((PlanError, DataError, type(error))):
            carried_out(part, scan)
        return
    found = carried_out(part, scan)
    if isinstance(part, Method):
        assert_frame_equal(found, expected, check_exact=True)
    else:
        assert found == pytest.approx(expected, rel=1e-12)
