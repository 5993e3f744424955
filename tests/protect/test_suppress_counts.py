"""Local suppression on classes with counts, and on rows in files: what it gives on the rows in memory."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.errors import DataError, DiscretionError, PlanError

QUASI = ["a", "b", "c"]
ROLES = dict.fromkeys(QUASI, "quasi") | {"ill": "sensitive"}


def people(seed: int, rows: int, values: int = 4) -> pl.DataFrame:
    rng = np.random.default_rng(seed)

    def draw() -> list[int | None]:
        found = np.minimum(rng.integers(0, values, rows), rng.integers(0, values, rows))
        return [None if gone else int(value) for value, gone in zip(found, rng.random(rows) < 0.05, strict=True)]

    return pl.DataFrame({name: draw() for name in QUASI} | {"ill": rng.choice(["x", "y", "z"], rows).tolist()})


def outcome(method: Any, data: dc.Dataset) -> Any:
    try:
        return method(data)
    except DiscretionError as error:
        return type(error)


METHODS: list[dict[str, Any]] = [
    {"k": 3},
    {"k": 6, "importance": {"a": 5, "b": "never"}},
    {"k": 3, "subsets": [{"columns": ["a", "b"], "k": 7}]},
    {"models": [dc.DistinctLDiversity(l=2)]},
    {"k": 4, "models": [dc.DistinctLDiversity(l=2)]},
]


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 5000), st.integers(8, 60), st.sampled_from(METHODS))
def test_classes_lose_the_cells_of_their_records(seed: int, rows: int, fields: dict[str, Any]) -> None:
    frame = people(seed, rows).unique(maintain_order=True)
    counts = np.random.default_rng(seed).integers(1, 5, len(frame))
    classes = dc.Dataset(frame.with_columns(pl.Series("n", counts)), counts="n", roles=ROLES)
    records = dc.Dataset(frame[np.repeat(np.arange(len(frame)), counts)], roles=ROLES)
    method = dc.LocalSuppression(**fields)
    expected, found = outcome(method, records), outcome(method, classes)
    if isinstance(expected, type):
        assert found is expected
        return
    each = np.repeat(np.arange(len(found)), found.counts)
    assert found.frame[each].equals(expected.frame, null_equal=True)
    for name in QUASI:
        assert np.array_equal(found.suppressed(name)[each], expected.suppressed(name))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 5000), st.integers(8, 300), st.sampled_from(METHODS))
def test_rows_in_files_lose_the_cells_they_lose_in_memory(seed: int, rows: int, fields: dict[str, Any]) -> None:
    frame = people(seed, rows, 8)
    method = dc.LocalSuppression(**fields)
    with TemporaryDirectory() as folder:
        frame.write_parquet(Path(folder) / "a.parquet")
        scanned = outcome(method, dc.scan(folder, roles=ROLES, spill=folder))
        expected = outcome(method, dc.Dataset(frame, roles=ROLES))
        if isinstance(expected, type):
            assert scanned is expected
            return
        found = scanned.collect()
    if "k" in fields and fields.keys() & {"models", "subsets"}:  # which of equal records lose cells is not the same
        for model in [dc.KAnonymity(k=fields["k"]), *fields.get("models", ())]:
            assert model(found).holds
        assert np.array_equal(found.frame["ill"], frame["ill"])
        return
    assert found.frame.equals(expected.frame, null_equal=True)
    assert found.suppressed_cells == expected.suppressed_cells


def test_what_needs_every_record_is_refused() -> None:
    classes = dc.Dataset(pl.DataFrame({"a": [1, 2], "n": [3, 4]}), counts="n")
    with pytest.raises(DataError, match="`missing: wildcard`"):
        dc.LocalSuppression(columns=["a"], k=2, missing="wildcard")(classes)


def test_places_count_before_records_are_dropped(tmp_path: Path) -> None:
    people(1, 200).write_parquet(tmp_path / "a.parquet")
    study = dc.Study(dc.scan(tmp_path, roles=ROLES), seed=2**100).apply(dc.SuppressRecords(k=3, limit=1.0))
    with pytest.raises(PlanError, match="before the step that drops records"):
        study.apply(dc.LocalSuppression(k=5))
