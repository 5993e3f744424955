"""What all models that look at classes share: missing values, roles, the order of values, size."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.privacy.class_table import ClassModel, sensitive_counts, sensitive_domain

NAMED = {"columns": ["q"], "sensitive": ["s"]}


def test_missing_sensitive_value_is_a_value() -> None:
    frame = pl.DataFrame({"q": [1, 1, 2, 2], "s": [5, None, 5, 6]})
    assert dc.DistinctLDiversity(l=2, **NAMED)(frame).holds
    nan = pl.DataFrame({"q": [1, 1, 2, 2], "s": [5.0, float("nan"), None, 6.0]})
    assert sensitive_domain(dc.Dataset(nan), "s")[0].totals.tolist() == [1, 1, 2]


def test_missing_quasi_identifier_under_both_readings() -> None:
    frame = pl.DataFrame({"q": [1, 1, 2, 2, None], "s": [5, 6, 5, 6, 5]})
    strict = dc.DistinctLDiversity(l=2, **NAMED)(frame)
    assert (strict.value, strict.failing_records) == (1, 1)
    assert strict.failing[0].key == {"q": None}
    assert strict.detail["value_category"] == 1 and strict.detail["value_ignore"] == 2
    assert strict.detail["failing_records_category"] == 1 and strict.detail["failing_records_ignore"] == 0
    lenient = dc.DistinctLDiversity(l=2, missing="ignore", **NAMED)(frame)
    assert lenient.holds and lenient.value == 2
    with pytest.raises(dc.PlanError, match="missing"):
        dc.DistinctLDiversity(l=2, missing="wildcard", **NAMED)


def test_every_quasi_identifier_missing() -> None:
    frame = pl.DataFrame({"q": [None, None], "s": [5, 6]}, schema={"q": pl.Int64, "s": pl.Int64})
    assert dc.DistinctLDiversity(l=2, **NAMED)(frame).holds
    with pytest.raises(dc.DataError, match="nothing is left to count"):
        dc.DistinctLDiversity(l=2, missing="ignore", **NAMED)(frame)


def test_sensitive_quasi_identifier_is_refused() -> None:
    frame = pl.DataFrame({"q": [1, 1], "s": [1, 2]})
    data = dc.Dataset(frame, roles={"q": "quasi", "s": ["quasi", "sensitive"]})
    with pytest.raises(dc.PlanError, match="'s' is both a quasi-identifier and sensitive"):
        dc.DistinctLDiversity(l=2)(data)
    assert dc.DistinctLDiversity(l=2, columns=["q"])(data).holds


def test_no_sensitive_column() -> None:
    data = dc.Dataset(pl.DataFrame({"q": [1], "s": [1]}), roles={"q": "quasi"})
    with pytest.raises(dc.PlanError, match="give `sensitive`"):
        dc.DistinctLDiversity(l=1)(data)
    with pytest.raises(dc.DataError, match="unknown column 'x'"):
        dc.DistinctLDiversity(l=1, sensitive=["x"])(data)


@pytest.mark.parametrize(
    ("values", "want"),
    [
        ([10, 9, 100], [9, 10, 100]),
        (["b", "a", "c"], ["a", "b", "c"]),
        ([dt.date(2020, 1, 2), dt.date(2019, 5, 5)], [dt.date(2019, 5, 5), dt.date(2020, 1, 2)]),
        ([True, False], [False, True]),
    ],
)
def test_values_stand_in_their_order(values: list[object], want: list[object]) -> None:
    _, records = sensitive_domain(dc.Dataset(pl.DataFrame({"s": values})), "s")
    assert [want[number] for number in records] == values


def test_declared_and_enumerated_order() -> None:
    texts = ["much", "none", "some", None]
    declared = dc.Dataset(pl.DataFrame({"s": texts}), orders={"s": ["none", "some", "much"]})
    assert sensitive_domain(declared, "s")[1].tolist() == [2, 0, 1, 3]
    enum = pl.Series("s", texts, dtype=pl.Enum(["none", "some", "much"]))
    assert sensitive_domain(dc.Dataset(enum.to_frame()), "s")[1].tolist() == [2, 0, 1, 3]


@pytest.mark.parametrize("values", [3, 2000])
def test_counts_are_those_of_a_group_by(values: int) -> None:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"q": rng.integers(0, 500, 2000), "s": rng.integers(0, values, 2000)})
    data = dc.Dataset(frame)
    counts = sensitive_counts(data, "s", data.classes(["q"]))
    order = np.sort(frame["s"].unique().to_numpy())
    first = data.classes(["q"]).first_rows[counts.class_of]
    got = pl.DataFrame({"q": frame["q"].to_numpy()[first], "s": order[counts.values], "len": counts.counts})
    want = frame.group_by("q", "s").agg(pl.len().cast(pl.Int64)).sort("q", "s")
    assert got.sort("q", "s").equals(want)


def test_models_at_a_million_rows() -> None:
    rng = np.random.default_rng(2)
    n = 1_000_000
    s = np.concatenate([rng.integers(0, 40, n - 40), np.arange(40)])
    frame = pl.DataFrame({"q": rng.integers(0, 20_000, n), "s": s, "h": s.astype(str)})
    rows = [[str(v), f"g{v // 5}", f"h{v // 10}", "*"] for v in range(40)]
    data = dc.Dataset(frame, roles={"q": "quasi", "s": "sensitive"}, hierarchies={"h": rows})
    models: list[ClassModel] = [
        dc.DistinctLDiversity(l=2),
        dc.EntropyLDiversity(l=2),
        dc.RecursiveLDiversity(c=3, l=3),
        dc.TCloseness(t=0.2),
        dc.TCloseness(t=0.2, distance="equal"),
        dc.TCloseness(t=0.2, distance="hierarchical", sensitive=["h"]),
        dc.BetaLikeness(beta=2),
        dc.DeltaDisclosure(delta=2, absent="ignore"),
        dc.AlphaK(alpha=0.5, k=5),
    ]
    for model in models:
        assert np.isfinite(model(data).value), model.kind
