"""Texts that resemble each other."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.kernels.pattern_counts import similarity_levels


def jaro_winkler(a: str, b: str) -> float:
    """The textbook definition."""
    if not a or not b:
        return float(a == b)
    reach = max(max(len(a), len(b)) // 2 - 1, 0)
    free = list(range(len(b)))
    matched: list[tuple[int, int]] = []
    for i, letter in enumerate(a):
        for j in free:
            if abs(i - j) <= reach and b[j] == letter:
                matched.append((i, j))
                free.remove(j)
                break
    if not matched:
        return 0.0
    in_a, in_b = [a[i] for i, _ in matched], [b[j] for j in sorted(j for _, j in matched)]
    half = sum(x != y for x, y in zip(in_a, in_b, strict=True)) // 2
    c = len(matched)
    jaro = (c / len(a) + c / len(b) + (c - half) / c) / 3
    prefix = 0
    for x, y in zip(a[:4], b[:4], strict=False):
        if x != y:
            break
        prefix += 1
    return jaro + 0.1 * prefix * (1 - jaro)


@pytest.mark.parametrize(
    ("a", "b", "value"), [("MARTHA", "MARHTA", 0.9611), ("DWAYNE", "DUANE", 0.84), ("DIXON", "DICKSONX", 0.8133)]
)
def test_published_values(a: str, b: str, value: float) -> None:
    assert jaro_winkler(a, b) == pytest.approx(value, abs=1e-4)
    assert similarity_levels([a], [b], [value - 1e-3]) == 1
    assert similarity_levels([a], [b], [value + 1e-3]) == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("abcé", max_size=7), min_size=1, max_size=5), st.lists(st.text("abcé", max_size=7), min_size=1))
def test_against_the_definition(one: list[str], other: list[str]) -> None:
    thresholds = (0.6, 0.8)
    want = [[sum(jaro_winkler(a, b) >= t for t in thresholds) + (a == b) for b in other] for a in one]
    np.testing.assert_array_equal(similarity_levels(one, other, thresholds), want)


def test_names_with_typing_errors_are_found() -> None:
    rng = np.random.default_rng(1)
    names = ["".join(rng.choice(list("abcdefghijklmnop"), 8)) for _ in range(120)]
    typed = [name if i % 2 else name[:5] + name[6] + name[5] + name[7] for i, name in enumerate(names)]
    known, published = pl.DataFrame({"name": names}), pl.DataFrame({"name": typed})
    plain = dc.ProbabilisticLinkage(columns=["name"])(known, published)
    similar = dc.ProbabilisticLinkage(columns=["name"], text_similarity=(0.9,))(known, published)
    assert plain.value < 0.55
    assert similar.value > 0.95
    assert similar.detail["per_column"]["name"]["levels"] == ["differs", "similar by 0.9", "agrees"]
    with pytest.raises(dc.DataError, match="give no candidates on their own"):
        dc.ProbabilisticLinkage(columns=["name"], text_similarity=(0.9,), max_pairs=10)(known, published)
    with pytest.raises(dc.PlanError, match="text_similarity"):
        dc.ProbabilisticLinkage(text_similarity=(1.5,))
