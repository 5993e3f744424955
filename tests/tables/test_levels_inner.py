"""Room by programs over the inner cells, where most cells are suppressed already."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.tables.attacker import Prior
from discretion.tables.levels import InnerModel, RoomModel, Rooms, costs, first_equal, frame_of, levels
from tests.tables import brute
from tests.tables.test_levels import KINDS, protected


def price(found: Any, cost: Any) -> float:
    """Give what a table costs, infinite where there is none."""
    return np.inf if found is None else float(cost[found[0]] @ np.abs(found[1]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_both_programs_find_tables_of_the_same_cost(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = brute.random_gaps(rng, brute.table(rng, kind))
    frame = frame_of(cells, Prior())
    stays = (rng.random(len(cells)) < 0.2) & ~cells.suppressed
    cost, usable = frame.of_columns(np.where(cells.suppressed, 0.0, costs(cells)), ~stays)
    free = (cost[: frame.shown] == 0) & usable[: frame.shown]
    inner, whole = InnerModel(frame, cost, usable, free), RoomModel(frame, cost, usable)
    for column in np.unique(frame.column[cells.primary & usable[frame.column]])[:8].tolist():
        for above in (True, False):
            asked = rng.uniform(0.1, 3.0) * float(cells.value[frame.column == column][0])
            one, other = (model.room(column, asked, above=above) for model in (inner, whole))
            assert price(one, cost) == pytest.approx(price(other, cost), abs=1e-5)
            if one is not None:
                assert usable[one[0]].all()
                z = dict(zip(one[0].tolist(), one[1].tolist(), strict=True))[column] if asked else 0.0
                least = asked if above else min(asked, float(frame.down[column]))
                assert (z if above else -z) >= least - 1e-6


def test_closing_and_prices_are_the_same_in_both_programs() -> None:
    rng = np.random.default_rng(3)
    cells = brute.random_gaps(rng, brute.table(rng, "three"), 0.5)
    frame = frame_of(cells, Prior())
    cost, usable = frame.of_columns(np.where(cells.primary, 0.0, costs(cells)), np.ones(len(cells), np.bool_))
    free = cost[: frame.shown] == 0
    inner, whole = InnerModel(frame, cost, usable, free), RoomModel(frame, cost, usable)
    target = int(np.flatnonzero(free)[0])
    for _ in range(frame.shown):
        one, other = (model.room(target, 2.0, above=True) for model in (inner, whole))
        assert price(one, cost) == pytest.approx(price(other, cost), abs=1e-6)
        if one is None:
            break
        paid = one[0][cost[one[0]] > 0]
        cost[paid[:1]] *= 3
        for model in (inner, whole):
            model.price(paid[:1], cost[paid[:1]])
            model.close(int(paid[-1]), True)
    else:
        pytest.fail("something must become impossible in the end")


@pytest.mark.parametrize("seed", range(4))
def test_what_somebody_knows_is_held_in_both_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = brute.random_gaps(rng, brute.table(rng, "three"), 0.5)
    frame = frame_of(cells, Prior())
    cost, usable = frame.of_columns(np.where(cells.suppressed, 1e-3, 1.0) * costs(cells), np.ones(len(cells), np.bool_))
    inner, whole = InnerModel(frame, cost, usable, np.zeros(frame.shown, np.bool_)), RoomModel(frame, cost, usable)
    compared = impossible = 0
    for column in np.unique(frame.column[cells.primary])[:6].tolist():
        free = inner.room(column, 2.0, above=True)
        for _ in range(4):
            unknowns = rng.permutation(len(cells.inner_cell))[: rng.integers(2, len(cells.inner_cell))]
            known, partly = np.split(unknowns, [len(unknowns) // 2])
            low = -rng.random(len(partly)) * cells.inner_value[partly]
            own = frame.column[cells.inner_cell]
            inner.hold(known, partly, low)
            whole.hold(own[known], own[partly], low)
            for above in (True, False):
                one, other = (model.room(column, 2.0, above=above) for model in (inner, whole))
                assert price(one, cost) == pytest.approx(price(other, cost), abs=1e-5)
                compared, impossible = compared + 1, impossible + (one is None)
                if other is not None:
                    z = dict(zip(other[0].tolist(), other[1].tolist(), strict=True))
                    assert not z.keys() & set(own[known].tolist())
                    assert all(z.get(int(own[u]), 0.0) >= least - 1e-6 for u, least in zip(partly, low, strict=True))
        inner.release(), whole.release()
        assert price(whole.room(column, 2.0, above=True), cost) == pytest.approx(price(free, cost), abs=1e-5)
    assert 0 < impossible < compared


@pytest.mark.parametrize("seed", range(3))
def test_a_table_with_nearly_all_cells_sensitive(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 25
    frame = pl.DataFrame(
        {
            "region": rng.choice(list("abcde"), n),
            "sector": rng.choice(list("xyz"), n),
            "size": rng.choice(list("12"), n),
            "money": np.ceil(rng.lognormal(2, 1, n)),
        }
    )
    cells = dc.tabulate(frame, ["region", "sector", "size"], "money").apply_rules([dc.PPercent(percent=20)])
    made = frame_of(cells, Prior())
    free = made.of_columns(costs(cells), cells.primary)[1][: made.shown]
    assert InnerModel.suits(made, free) and not InnerModel.suits(frame_of(cells, Prior(percent=50)), free)
    assert protected(cells.with_status(secondary=levels(cells)))


def test_cells_of_the_same_inner_cells_are_one_column() -> None:
    cells = brute.table(np.random.default_rng(2), "tree")
    frame = frame_of(cells, Prior())
    first = first_equal(cells)
    assert (first < np.arange(len(cells))).any(), "the table has such cells"
    inside = cells.x.dense().T
    for cell in range(len(cells)):
        assert np.array_equal(inside[cell], inside[first[cell]])
        assert np.array_equal(frame.inside.toarray()[frame.column[cell]], inside[cell])
    one, other = next((int(first[i]), i) for i in range(len(cells)) if first[i] < i)
    rooms = Rooms(frame, costs(cells), np.ones(len(cells), np.bool_))
    found = rooms.room(one, 1.0, above=True)
    assert found is not None and {one, other} <= set(found[0].tolist())
    rooms.close(other, True)
    assert rooms.room(one, 1.0, above=True) is None
