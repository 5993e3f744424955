"""Blocks of similar records: groups of at least k over the whole, and the same cuts wherever rows are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.data.dataset import Dataset
from discretion.engines.memory import similar
from discretion.engines.scan import Scan
from discretion.release.large import run_large, scan_data

SEED = 2**100 + 21
ROLES = {"age": "quasi", "income": "sensitive", "hours": "sensitive", "region": "quasi"}


def table(rows: int = 3_000) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    gone = rng.random((rows, 2)) < [0.3, 0.001]
    return pl.DataFrame(
        {
            "age": rng.integers(0, 90, rows),
            "income": np.where(gone[:, 0], np.nan, np.round(rng.lognormal(10, 1, rows), 2)),
            "hours": np.where(gone[:, 1], np.nan, rng.normal(35, 10, rows)),
            "region": rng.choice(list("abcde"), rows),
        }
    ).fill_nan(None)


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return table()


@pytest.fixture(scope="module")
def folder(frame: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("register")
    frame[:1].write_parquet(place / "a.parquet")
    frame[1:].write_parquet(place / "b.parquet")
    return place


@pytest.mark.parametrize("seed", range(5))
def test_blocks_divide_all_records(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, 3, 500).astype(float), rng.normal(0, 1, 500), np.ones(500)]
    columns[1][rng.random(500) < 0.4] = np.nan
    columns[0][rng.random(500) < 0.01] = np.nan
    blocks = list(similar(columns, 64))
    assert np.array_equal(np.sort(np.concatenate(blocks)), np.arange(500))
    few = sum(np.isnan(columns[0]))
    assert all(len(rows) <= 64 + (few if not place else 0) for place, rows in enumerate(blocks))
    assert all(len(rows) >= 32 for rows in blocks)
    complete = [rows for rows in blocks if not np.isnan(columns[1][rows]).any()]
    assert len(complete) >= 5  # records that miss a value stand apart


def test_a_block_is_narrower_than_the_whole() -> None:
    x = np.random.default_rng(1).normal(0, 1, (4_096, 2))
    blocks = list(similar(list(x.T), 512))
    assert len(blocks) == 8
    assert np.mean([x[rows].var(axis=0).sum() for rows in blocks]) < 0.4 * x.var(axis=0).sum()


METHODS: dict[str, Any] = {
    "mdav": dc.Mdav(columns=["age", "income", "hours"], k=4),
    "mdav of categories": dc.Mdav(columns=["age", "region"], k=4),
    "variable-mdav": dc.VariableMdav(columns=["income", "hours"], k=4),
}


@pytest.mark.parametrize("kind", METHODS)
def test_groups_have_k_records_over_the_whole(
    kind: str, frame: pl.DataFrame, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("discretion.engines.memory.BLOCK_ROWS", 400)
    method = METHODS[kind]
    study = dc.Study(dc.scan(folder, roles=ROLES), seed=SEED).apply(method)
    assert isinstance(study.current, Scan)
    released = study.current.collect().frame
    assert study.done[0].decision["blocks"] >= 8
    counts = released.group_by(method.columns).len()["len"]
    assert counts.min() >= 4
    others = [name for name in frame.columns if name not in method.columns]
    assert released.select(others).equals(frame.select(others))


@pytest.mark.parametrize("kind", METHODS)
def test_one_block_is_what_memory_gives(kind: str, frame: pl.DataFrame, folder: Path) -> None:
    one, other = (
        dc.Study(data, seed=SEED).apply(METHODS[kind]).current
        for data in (Dataset(frame, roles=ROLES), dc.scan(folder, roles=ROLES))
    )
    assert isinstance(other, Scan)
    found = other.collect()
    assert found.frame.equals(one.frame) and found.suppressed_cells == one.suppressed_cells


def test_the_report_says_what_borders_cost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discretion.engines.memory.BLOCK_ROWS", 400)
    monkeypatch.setattr("discretion.release.large.SAMPLE", 500)
    plan = dc.Plan.from_dict(
        {
            "data": {"path": str(folder)},
            "roles": ROLES,
            "steps": [METHODS["mdav"].to_plan()],
            "requirements": [{"k-anonymity": {"k": 4, "columns": ["age", "income", "hours"]}}],
            "measures": [{"mse": {"columns": ["income"]}}],
        }
    )
    release = run_large(plan, scan_data(plan), seed=SEED)
    assert release.findings[0].holds
    said = " ".join(release.notes)
    assert "blocks of similar records" in said and "raised their squared error by" in said
    values = pl.concat(release.rows.batches(["age", "income", "hours"]))
    lost = values["hours"].null_count() - table()["hours"].null_count()
    assert release.facts()["cells_suppressed"].get("hours", 0) == lost
