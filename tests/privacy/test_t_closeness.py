from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion import datasets
from discretion.privacy import t_closeness

from . import naive

LEVELS = (
    ("a", "b", "c", "d", "e", "f"),
    ("ab", "ab", "c", "de", "de", "f"),
    ("abc", "abc", "abc", "def", "def", "def"),
    ("*",) * 6,
)
ROWS = [list(row) for row in zip(*LEVELS, strict=True)]


def tree(frame: pl.DataFrame, rows: list[list[str]] = ROWS) -> dc.Dataset:
    return dc.Dataset(frame, roles={"q": "quasi", "s": "sensitive"}, hierarchies={"s": rows})


def test_catalogue_values() -> None:
    table = datasets.diverse_classes()
    assert dc.TCloseness(t=1 / 3)(table).value == pytest.approx(1 / 3, abs=1e-15)
    assert dc.TCloseness(t=1 / 3)(table).holds
    assert not dc.TCloseness(t=0.33)(table).holds
    assert dc.TCloseness(t=0.5, distance="equal")(table).value == 0.5


def test_example_of_the_paper() -> None:
    """Li, Li & Venkatasubramanian: {3k, 4k, 5k} against nine salaries is 0.375, {6k, 8k, 11k} is 0.167."""
    salaries = [3, 4, 5, 6, 11, 8, 7, 9, 10]
    frame = pl.DataFrame({"q": [1, 1, 1, 2, 2, 2, 3, 3, 3], "s": salaries})
    verdict = dc.TCloseness(t=0.2, columns=["q"], sensitive=["s"])(frame)
    assert verdict.value == pytest.approx(0.375)
    assert {item.key["q"] for item in verdict.failing} == {"1", "3"}


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abcdef")), min_size=1, max_size=30),
)
@settings(max_examples=60, deadline=None)
def test_hierarchical_is_the_cheapest_transport(rows: list[tuple[int, str]]) -> None:
    frame = pl.DataFrame(rows, schema={"q": pl.Int64, "s": pl.String}, orient="row")
    everybody = [s for _, s in rows]
    cost = naive.tree_cost(LEVELS)
    want = max(
        naive.transport(
            [[s for q, s in rows if q == which].count(v) / sum(q == which for q, _ in rows) for v in LEVELS[0]],
            [everybody.count(v) / len(rows) for v in LEVELS[0]],
            cost,
        )
        for which in {q for q, _ in rows}
    )
    assert dc.TCloseness(t=1, distance="hierarchical")(tree(frame)).value == pytest.approx(want, abs=1e-9)


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=30),
)
@settings(max_examples=30, deadline=None)
def test_ordered_and_equal_are_the_cheapest_transport(rows: list[tuple[int, int]]) -> None:
    frame = pl.DataFrame(rows, schema={"q": pl.Int64, "s": pl.Int64}, orient="row")
    everybody = [s for _, s in rows]
    values = sorted(set(everybody))
    place = np.arange(len(values))
    ways = {
        "ordered": np.abs(place[:, None] - place) / max(len(values) - 1, 1),
        "equal": 1.0 - np.eye(len(values)),
    }
    for distance, cost in ways.items():
        want = max(
            naive.transport(
                [[s for q, s in rows if q == which].count(v) / sum(q == which for q, _ in rows) for v in values],
                [everybody.count(v) / len(rows) for v in values],
                cost,
            )
            for which in {q for q, _ in rows}
        )
        model = dc.TCloseness(t=1, distance=distance, columns=["q"], sensitive=["s"])
        assert model(frame).value == pytest.approx(want, abs=1e-9)


def test_hierarchical_does_not_overflow_at_a_million_rows() -> None:
    rng = np.random.default_rng(3)
    n = 1_000_000
    q = np.where(rng.random(n) < 0.45, 0, rng.integers(1, 4, n))
    s = np.where(q == 0, rng.integers(0, 2, n), rng.integers(0, 6, n))
    frame = pl.DataFrame({"q": q, "s": np.array(LEVELS[0])[s]})
    everybody = Counter(frame["s"].to_list())
    want = max(
        naive.tree_distance(Counter(frame.filter(pl.col("q") == which)["s"].to_list()), everybody, LEVELS)
        for which in range(4)
    )
    verdict = dc.TCloseness(t=0.2, distance="hierarchical")(tree(frame))
    assert verdict.value == float(want)
    assert want > 0.2 and not verdict.holds


def test_ordered_does_not_overflow_with_a_million_different_values() -> None:
    n = 1_000_000
    frame = pl.DataFrame({"q": np.arange(n) >= n // 2, "s": np.arange(n) * 7.0})
    value = dc.TCloseness(t=0.1, columns=["q"], sensitive=["s"])(frame).value
    assert value == pytest.approx(n * n / 4 / n / (n - 1), rel=1e-12)  # both halves at an end: a quarter in the limit


def test_beyond_whole_numbers_the_same_in_floating_point(monkeypatch: pytest.MonkeyPatch) -> None:

    rng = np.random.default_rng(4)
    frame = pl.DataFrame({"q": rng.integers(0, 20, 3000), "s": np.array(LEVELS[0])[rng.integers(0, 6, 3000)]})
    numbers = frame.with_columns(pl.col("s").cast(pl.Categorical).to_physical())
    hierarchical = dc.TCloseness(t=1, distance="hierarchical")
    models = [dc.TCloseness(t=1, distance=d, columns=["q"], sensitive=["s"]) for d in ("ordered", "equal")]
    exact = [hierarchical(tree(frame)).value, *(model(numbers).value for model in models)]
    monkeypatch.setattr(t_closeness, "_EXACT", 0)
    monkeypatch.setattr(t_closeness, "_ADDRESSES", 0)
    rounded = [hierarchical(tree(frame)).value, *(model(numbers).value for model in models)]
    assert rounded == pytest.approx(exact, rel=1e-12)


def test_missing_value_is_a_branch_below_the_top() -> None:
    frame = pl.DataFrame({"q": [1, 1, 2, 2], "s": ["a", "b", None, None]})
    verdict = dc.TCloseness(t=1, distance="hierarchical")(tree(frame))
    assert verdict.value == pytest.approx(0.5)  # half of each class passes the top


def test_a_distance_that_does_not_exist_is_refused() -> None:
    frame = pl.DataFrame({"q": [1, 1, 2, 2], "s": ["a", "b", "c", "d"]})
    with pytest.raises(dc.PlanError, match="'s' have no order"):
        dc.TCloseness(t=0.1)(tree(frame))
    with pytest.raises(dc.DataError, match="'s' has no hierarchy"):
        dc.TCloseness(t=0.1, distance="hierarchical", columns=["q"], sensitive=["s"])(frame)
    with pytest.raises(dc.PlanError, match="ends in 2 labels"):
        dc.TCloseness(t=0.1, distance="hierarchical")(tree(frame, [row[:3] for row in ROWS]))
    with pytest.raises(dc.DataError, match="no parent for 1 of 4 values: 'd'"):
        dc.TCloseness(t=0.1, distance="hierarchical")(tree(frame, [row for row in ROWS if row[0] != "d"]))


def test_one_value_only_is_close() -> None:
    frame = pl.DataFrame({"q": [1, 2], "s": [4, 4]})
    for distance in ("ordered", "equal"):
        assert dc.TCloseness(t=0, distance=distance, columns=["q"], sensitive=["s"])(frame).value == 0
