"""The share of values published as they are, and its chance level."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc

Values = list[str | None]


def one(values: Values) -> pl.DataFrame:
    return pl.DataFrame({"v": pl.Series(values, dtype=pl.String)})


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from(["a", "b", "d", None])), min_size=1)
)  # fmt: skip
def test_against_the_definition(pairs: list[tuple[str | None, str | None]]) -> None:
    known = [(x, y) for x, y in pairs if x is not None]
    if not known:
        return
    score = dc.ValueAgreement(columns=["v"])(one([x for x, _ in pairs]), one([y for _, y in pairs]), align="position")
    assert score.value == pytest.approx(sum(x == y for x, y in known) / len(known))
    p = Counter(x for x, _ in known)
    assert score.detail["chance"] == pytest.approx(sum((c / len(known)) ** 2 for c in p.values()))
    q = Counter(y for _, y in pairs)
    want = sum(c / len(known) * q[v] / len(pairs) for v, c in p.items())
    assert score.detail["chance_released"]["v"] == pytest.approx(want)


@pytest.mark.parametrize("tolerance", [0.0, 1.0, 2.5])
def test_numbers_within_a_tolerance(tolerance: float) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 12, 60).astype(float), rng.integers(0, 12, 60).astype(float)
    x[:4], y[2:9] = np.nan, np.nan
    frames = pl.DataFrame({"v": x}), pl.DataFrame({"v": y})
    score = dc.ValueAgreement(columns=["v"], tolerance=tolerance)(*frames, align="position")
    known = x[~np.isnan(x)]
    assert score.value == pytest.approx(np.mean(np.abs(x - y)[~np.isnan(x)] <= tolerance))
    assert score.detail["chance"] == pytest.approx(np.mean(np.abs(known[:, None] - known) <= tolerance))
    shown = np.abs(known[:, None] - y) <= tolerance
    assert score.detail["chance_released"]["v"] == pytest.approx(shown.mean())


def test_shuffled_values_agree_by_chance() -> None:
    rng = np.random.default_rng(2)
    true = rng.choice(list("aaaaabbc"), 40_000)
    score = dc.ValueAgreement(columns=["v"])(
        pl.DataFrame({"v": true}), pl.DataFrame({"v": rng.permutation(true)}), align="position"
    )
    assert score.value == pytest.approx(score.detail["chance"], abs=0.01)
    assert score.detail["excess"]["v"] == pytest.approx(0, abs=0.02)


def test_pram_keeps_what_its_matrix_says() -> None:
    """A planted truth: a fifth of the values is replaced by one drawn from a known distribution."""
    rng = np.random.default_rng(3)
    true = rng.integers(0, 4, 50_000)
    published = np.where(rng.random(50_000) < 0.2, rng.integers(0, 4, 50_000), true)
    score = dc.ValueAgreement(columns=["v"])(pl.DataFrame({"v": true}), pl.DataFrame({"v": published}))
    assert score.value == pytest.approx(0.8 + 0.2 / 4, abs=0.01)
    assert score.detail["excess"]["v"] == pytest.approx(0.8, abs=0.01)


def test_several_columns_are_averaged() -> None:
    x = pl.DataFrame({"a": [1, 2, 3, 4], "b": ["p", "q", None, None]})
    y = pl.DataFrame({"a": [1.0, 2.0, 0.0, 4.0], "b": ["p", "p", "p", None]})
    score = dc.ValueAgreement(columns=["a", "b"])(x, y)
    assert score.detail["per_column"] == {"a": 0.75, "b": 0.5}
    assert score.value == 0.625
    assert score.per_record is not None and score.per_record.tolist() == [1.0, 0.5, 0.0, 1.0]
    assert score.detail["values_compared"] == 6


def test_types_may_change_and_generalized_values_differ() -> None:
    x = pl.DataFrame({"v": [20.0, 30.0, 40.0]})
    assert dc.ValueAgreement(columns=["v"])(x, pl.DataFrame({"v": ["20", "[30, 39]", "40"]})).value == pytest.approx(
        2 / 3
    )
    sets = pl.DataFrame({"v": [["a", "b"], ["c"]]})
    assert dc.ValueAgreement(columns=["v"])(sets, pl.DataFrame({"v": [["b", "a"], ["d"]]})).value == 0.5


def test_a_constant_column_tells_nothing() -> None:
    score = dc.ValueAgreement(columns=["v"])(one(["a"] * 5), one(["a"] * 5))
    assert score.value == score.detail["chance"] == 1
    assert score.detail["excess"]["v"] == 0


def test_sensitive_columns_are_the_default() -> None:
    people = dc.Dataset(pl.DataFrame({"a": [1, 2], "s": [1, 2]}), roles={"a": "quasi", "s": "sensitive"})
    assert list(dc.ValueAgreement()(people, people).detail["per_column"]) == ["s"]


def test_nothing_to_compare_is_an_error() -> None:
    with pytest.raises(dc.DataError, match="no values in the original"):
        dc.ValueAgreement(columns=["v"])(one([None, None]), one(["a", "b"]))


def test_large_whole_numbers_and_hidden_values() -> None:
    true = pl.DataFrame({"x": [2**60, 2**60 + 1, 2**60 + 2]})
    shown = pl.DataFrame({"x": [2**60 + 1, 2**60 + 1, None]})
    score = dc.ValueAgreement(columns=["x"])(true, shown)
    assert score.value == pytest.approx(1 / 3)
    assert score.detail["chance"] == pytest.approx(1 / 3)
    assert score.detail["values_hidden"] == {"x": 1}
