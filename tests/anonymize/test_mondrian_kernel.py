"""The splits of the kernel against a plain reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion.kernels.mondrian import SplitColumn, group_ends, mondrian_groups


def naive(columns: list[SplitColumn], k: int) -> set[frozenset[int]]:
    """Split strictly, as the docstring of the kernel says, with sorts and sets."""
    done: set[frozenset[int]] = set()
    waiting = [np.arange(columns[0].codes.size)]
    while waiting:
        rows = waiting.pop()
        left = first_split(columns, rows, k)
        if left is None:
            done.add(frozenset(rows.tolist()))
        else:
            waiting += [rows[left], rows[~left]]
    return done


def first_split(columns: list[SplitColumn], rows: np.ndarray, k: int) -> np.ndarray | None:
    def allowed(left: np.ndarray) -> bool:
        return bool(left.sum() >= k and (~left).sum() >= k)

    coded = [column.codes[rows].astype(int) for column in columns]
    for column, codes in zip(columns, coded, strict=True):
        if column.has_missing and codes.min() == 0 < codes.max() and allowed(codes == 0):
            return codes == 0
    widths = [
        round(column.positions[codes.max()] - column.positions[codes.min()], 12)
        for column, codes in zip(columns, coded, strict=True)
    ]
    for j in sorted(range(len(columns)), key=lambda j: (-widths[j], j)):
        column, codes = columns[j], coded[j]
        low, high = codes.min(), codes.max()
        if widths[j] <= 0:
            continue
        inner = low + 1 if column.has_missing and low == 0 else low
        cuts = np.unique(codes)[:-1].tolist()
        if column.boundary is not None:
            apart = max((column.boundary[t] for t in range(inner, high)), default=0)
            cuts = [t for t in range(inner, high) if column.boundary[t] == apart]
        below = [t for t in cuts if (codes <= t).sum() <= len(rows) // 2]
        above = [t for t in cuts if (codes <= t).sum() > len(rows) // 2]
        near = [below[-1]] if below else []
        near += [above[0]] if above else []
        near.sort(key=lambda t: abs(2 * int((codes <= t).sum()) - len(rows)))
        for t in near:
            if allowed(codes <= t):
                return codes <= t
    return None


@st.composite
def spaces(draw: st.DrawFn) -> tuple[list[SplitColumn], int]:
    n = draw(st.integers(2, 120))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    columns = []
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.sampled_from([1, 2, 5, 40, 3000]))
        has_missing = draw(st.booleans())
        codes = np.minimum(rng.integers(0, size, n), rng.integers(0, size, n))
        positions = np.sort(rng.random(size))
        boundary = None
        if size <= 40 and draw(st.booleans()):
            boundary = rng.integers(1, 4, size).astype(np.uint8)
        columns.append(SplitColumn(codes, positions, boundary, has_missing))
    return columns, draw(st.integers(1, 5))


def as_sets(groups: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(groups == g).tolist()) for g in np.unique(groups)}


@settings(max_examples=150, deadline=None)
@given(spaces())
def test_strict_groups_equal_the_reference(case: tuple[list[SplitColumn], int]) -> None:
    columns, k = case
    if k > columns[0].codes.size:
        return
    assert as_sets(mondrian_groups(columns, k, True)) == naive(columns, k)


@settings(max_examples=80, deadline=None)
@given(spaces())
def test_relaxed_groups_are_large_enough_and_smaller_than_2k_where_values_differ(
    case: tuple[list[SplitColumn], int],
) -> None:
    columns, k = case
    if k > columns[0].codes.size:
        return
    groups = mondrian_groups(columns, k, False)
    sizes = np.bincount(groups)
    assert sizes.min() >= k
    for g in np.flatnonzero(sizes >= 2 * k):
        for column in columns:
            if column.boundary is None:
                codes = column.codes[groups == g]
                assert column.positions[codes.max()] == column.positions[codes.min()]


@pytest.mark.parametrize("size", [300, 70_000])
def test_many_rows_many_codes_many_columns(size: int) -> None:
    rng = np.random.default_rng(1)
    n = 5000
    columns = [SplitColumn(rng.integers(0, size, n), np.linspace(0, 1, size)) for _ in range(11)]
    calls: list[int] = []
    groups = mondrian_groups(columns, 7, True, lambda done, total, label: calls.append(done))
    assert as_sets(groups) == naive(columns, 7)
    assert calls[-1] == n


def test_a_progress_that_raises_stops_the_work() -> None:
    column = SplitColumn(np.arange(100), np.linspace(0, 1, 100))

    def stop(done: int, total: int, label: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mondrian_groups([column], 2, True, stop)


def test_more_than_there_are() -> None:
    with pytest.raises(ValueError, match="k = 9"):
        mondrian_groups([SplitColumn(np.arange(5), np.linspace(0, 1, 5))], 9, True)


def test_ends_of_groups() -> None:
    low, high = group_ends(np.array([3, 1, 7, 5]), np.array([0, 0, 1, 1], np.int32), 2)
    assert low.tolist() == [1, 5] and high.tolist() == [3, 7]
