"""Sensitivities: never smaller than what neighbors show, and no larger where a worst case is known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.online.dp import sensitivity
from discretion.online.dp.mechanisms import scores
from discretion.online.dp.sensitivity import Sensitivity, Unit

Row = tuple[int | None, int]
"""cell (none: in no cell) and value"""
Person = tuple[Row, ...]


def neighbors(unit: Unit, cells: int, values: tuple[int, ...]) -> Iterator[tuple[list[Row], list[Row]]]:
    """Every pair of neighbors that differ in one person, over a fixed crowd of two others."""
    crowd = [(0, values[-1]), (0, values[0])]
    rows: list[Row] = [(cell, value) for cell in (None, *range(cells)) for value in values]
    people = [p for size in range(unit.rows + 1) for p in itertools.combinations_with_replacement(rows, size)]
    if unit.adjacency == "add-remove":
        yield from ((crowd, [*crowd, *person]) for person in people)
    else:
        yield from (([*crowd, *a], [*crowd, *b]) for a in people for b in people)


def largest(pairs: Iterator[tuple[list[Row], list[Row]]], figure: Callable[[list[Row]], list[int]]) -> tuple[int, ...]:
    changes = [[abs(x - y) for x, y in zip(figure(a), figure(b), strict=True)] for a, b in pairs]
    return (
        max(sum(c > 0 for c in change) for change in changes),
        max(sum(change) for change in changes),
        max(sum(c * c for c in change) for change in changes),
        max(max(change) for change in changes),
    )


def norms(found: Sensitivity) -> tuple[int, ...]:
    return found.l0, found.l1, found.l2_squared, found.linf


UNITS = [Unit(m, a) for m in (1, 2) for a in ("add-remove", "replace")]  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("cells", [1, 2, 3])
def test_counts_and_distinct_values(unit: Unit, cells: int) -> None:
    def count(data: list[Row]) -> list[int]:
        return [sum(row[0] == cell for row in data) for cell in range(cells)]

    def different(data: list[Row]) -> list[int]:
        return [len({row[1] for row in data if row[0] == cell}) for cell in range(cells)]

    assert largest(neighbors(unit, cells, (0,)), count) == norms(sensitivity.counts(unit, cells))
    seen = largest(neighbors(unit, cells, (1, 2, 3, 4)), different)
    assert all(s <= c for s, c in zip(seen, norms(sensitivity.distinct(unit, cells)), strict=True))


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("bounds", [(0, 5), (-5, 5), (-7, 2), (3, 5), (-5, -4)])
def test_sums(unit: Unit, cells: int, bounds: tuple[int, int]) -> None:
    def total(data: list[Row]) -> list[int]:
        return [sum(row[1] for row in data if row[0] == cell) for cell in range(cells)]

    seen = largest(neighbors(unit, cells, bounds), total)
    claimed = norms(sensitivity.totals(unit, *bounds, cells))
    assert seen[1:] == claimed[1:] and seen[0] <= claimed[0]


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_people_behind_keys(unit: Unit) -> None:
    def people(data: list[Row]) -> list[int]:
        return [int(any(row[0] == cell for row in data[2:])) for cell in range(4)]

    pairs = neighbors(unit, 4, (0,))
    assert largest(pairs, people) == norms(sensitivity.people(unit, 4))


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("part", [1, 2])
def test_scores_of_quantiles_summed_over_groups(unit: Unit, cells: int, part: int) -> None:
    def all_scores(data: list[Row], target: int) -> list[list[int]]:
        bins = [[sum(row == (cell, value) for row in data) for value in range(3)] for cell in range(cells)]
        return [scores(b, part, 3, target) for b in bins]

    claimed = sensitivity.quantile_scores(unit, part, 3, cells).linf
    for a, b in neighbors(unit, cells, (0, 1, 2)):
        moved = [
            max(abs(x - y) for x, y in zip(first, second, strict=True))
            for first, second in zip(all_scores(a, 1), all_scores(b, 1), strict=True)
        ]
        assert sum(moved) <= claimed


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("cells", [1, 2])
def test_scores_of_extremes_summed_over_groups(unit: Unit, cells: int) -> None:
    claimed = sensitivity.extreme_scores(unit, cells).linf
    worst = 0
    for a, b in neighbors(unit, cells, (0, 1, 2)):
        moved = 0
        for cell in range(cells):
            one, two = ([sum(row == (cell, v) for row in data) for v in range(3)] for data in (a, b))
            pairs = zip(scores(one, 0, 1, 2), scores(two, 0, 1, 2), strict=True)
            moved += max(abs(x - y) for x, y in pairs)
        worst = max(worst, moved)
    assert worst <= claimed


def test_the_count_of_the_ill_has_global_sensitivity_one() -> None:
    counts = [int(d.frame["schizophrenia"].cast(int).sum()) for d in dc.datasets.schizophrenia_counts()]
    assert counts == [2, 3, 1, 2]
    assert max(abs(c - counts[0]) for c in counts) == sensitivity.counts(Unit()).l1 == 1


def test_replacing_doubles_a_histogram_but_not_a_count() -> None:
    add, swap = Unit(1, "add-remove"), Unit(1, "replace")
    assert (sensitivity.counts(add, 50).l1, sensitivity.counts(swap, 50).l1) == (1, 2)
    assert (sensitivity.counts(add).l1, sensitivity.counts(swap).l1) == (1, 1)


@given(st.integers(1, 10**12))
def test_the_euclidean_norm_is_never_rounded_down(square: int) -> None:
    found = Sensitivity(1, 1, square, 1, "")
    assert Fraction(found.l2) ** 2 >= square
    assert found.l2 <= math.sqrt(square) * (1 + 1e-15)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(-200, 200), st.integers(-200, 200)), min_size=1, max_size=5),
    st.sampled_from([2, 3, 8, 64]),
)
def test_coarser_steps_stay_covered(pairs: list[tuple[int, int]], step: int) -> None:
    def measured(changes: list[int]) -> Sensitivity:
        return Sensitivity(
            sum(c > 0 for c in changes), sum(changes), sum(c * c for c in changes), max(changes), "measured"
        )

    fine = measured([abs(a - b) for a, b in pairs])
    coarse = measured([abs(a // step - b // step) for a, b in pairs])
    if fine.l0:
        claimed = fine.coarsened(step)
        assert all(c <= k for c, k in zip(norms(coarse), norms(claimed), strict=True))
