"""Mondrian on classes with counts: what it gives on the rows, which the classes stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.errors import DataError, PlanError
from tests.anonymize.test_mondrian import COLUMNS, JOBS, people


def tables(seed: int, rows: int, missing: float) -> tuple[dc.Dataset, dc.Dataset]:
    """Give some classes with counts, and the records that they stand for."""
    rng = np.random.default_rng(seed)
    data = people(seed, rows, missing, spread=12)
    frame = data.frame.unique(maintain_order=True)
    counts = rng.integers(1, 5, len(frame))
    options: dict[str, Any] = {
        "roles": dict.fromkeys(COLUMNS, "quasi") | {"illness": "sensitive"},
        "hierarchies": {"job": {"tree": JOBS}},
    }
    classes = dc.Dataset(frame.with_columns(pl.Series("n", counts)), counts="n", **options)
    return classes, dc.Dataset(frame[np.repeat(np.arange(len(frame)), counts)], **options)


def expanded(classes: dc.Dataset) -> pl.DataFrame:
    assert classes.counts is not None
    return classes.frame[np.repeat(np.arange(len(classes)), classes.counts)]


MODELS: list[list[Any]] = [[], [dc.DistinctLDiversity(l=2)], [dc.TCloseness(t=0.5)]]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 5000),
    rows=st.integers(8, 90),
    k=st.integers(1, 9),
    models=st.sampled_from(MODELS),
    missing=st.sampled_from([0.0, 0.05, 0.6]),
    loss=st.sampled_from(["loss", "entropy"]),
    limit=st.sampled_from([0.0, 0.1]),
)
def test_classes_give_what_their_records_give(
    seed: int, rows: int, k: int, models: list[Any], missing: float, loss: Any, limit: float
) -> None:
    classes, records = tables(seed, rows, missing)
    method = dc.Mondrian(k=k, models=models, loss=loss, suppression_limit=limit)
    try:
        expected = method(records)
    except (DataError, PlanError, dc.errors.Infeasible) as error:
        with pytest.raises(type(error)):
            method(classes)
        return
    found = method(classes)
    assert expanded(found).equals(expected.frame, null_equal=True)
    assert found.lost_records == expected.lost_records
    for name in COLUMNS:
        assert np.array_equal(np.repeat(found.suppressed(name), found.counts), expected.suppressed(name))
    assert np.array_equal(np.repeat(found.levels["job"], found.counts), expected.levels["job"])


def test_means_are_those_of_the_records() -> None:
    classes, records = tables(3, 80, 0.1)
    method = dc.Mondrian(columns=["age", "job"], k=6, representation="mean")
    found, expected = expanded(method(classes)), method(records).frame
    assert found["age"].to_numpy() == pytest.approx(expected["age"].to_numpy(), rel=1e-12, nan_ok=True)


def test_a_class_is_not_divided() -> None:
    classes, _ = tables(1, 40, 0.0)
    with pytest.raises(DataError, match=r"`strict: false`.* needs every record"):
        dc.Mondrian(k=3, strict=False)(classes)
