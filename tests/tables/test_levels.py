"""The levels engine: everybody gets the room required, cells that must stay do, and little is suppressed for it."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.context import Context
from discretion.errors import Cancelled, Infeasible, PlanError
from discretion.tables.attacker import Prior
from discretion.tables.elimination import eliminate
from discretion.tables.levels import Rooms, costs, frame_of, levels
from tests.shared import reference
from tests.tables import brute
from tests.tables.test_audit import verdict

KINDS = ("flat", "tree", "three", "linked")


def protected(cells: dc.Cells) -> bool:
    """Tell by brute force whether all sensitive cells have the room required."""
    for cell in np.flatnonzero(cells.primary).tolist():
        need = cells.lower_required[cell], cells.upper_required[cell]
        if verdict(*brute.one(cells, cell), cells.value[cell], *need) != "protected":
            return False
    return True


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_no_attacker_beats_the_result(kind: str, seed: int, started: bool) -> None:
    rng = np.random.default_rng(seed)
    cells = brute.table(rng, kind)
    start = (rng.random(len(cells)) < 0.3) & ~cells.primary if started else None
    found = cells.with_status(secondary=levels(cells, start=start))
    assert protected(found)
    assert found.audit(attacker="outsider", rules=()).holds


@pytest.mark.parametrize("seed", range(6))
def test_nothing_superfluous_stays_and_the_optimum_is_near(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = brute.table(rng, "flat")
    found = levels(cells, clean=100_000)
    for cell in np.flatnonzero(found).tolist():
        fewer = found.copy()
        fewer[cell] = False
        assert not protected(cells.with_status(secondary=fewer)), "a cell more than needed"
    candidates = np.flatnonzero(~cells.primary & (cells.value > 0))
    best = np.inf
    for size in range(4):
        for chosen in combinations(candidates.tolist(), size):
            mask = np.isin(np.arange(len(cells)), chosen)
            cost = cells.value[mask].sum()
            if cost < best and protected(cells.with_status(secondary=mask)):
                best = cost
    assert cells.value[found].sum() <= 3 * best


def test_cells_that_must_stay_are_published() -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        cells = brute.table(rng, "tree")
        stay = (rng.random(len(cells)) < 0.15) & ~cells.primary
        cells = cells.with_status(must_publish=stay)
        try:
            found = cells.with_status(secondary=levels(cells))
        except Infeasible as error:
            assert "must be published" in str(error) or "empty cells" in str(error)
            free = cells.with_status(must_publish=np.zeros(len(cells), bool))
            assert not protected(free.with_status(secondary=~cells.primary & ~stay & (cells.value > 0)))
        else:
            assert protected(found)


def test_infeasible_names_the_cells_in_the_way() -> None:
    frame = pl.DataFrame({"r": list("aabb"), "c": list("xyxy"), "n": [1, 5, 6, 7]})
    cells = dc.tables.from_cells(frame, ["r", "c"], count="n").apply_rules([dc.Threshold(minimum=3)])
    stay = [cells.index({"r": "a", "c": "y"}), cells.index({"r": "a"})]
    tight = cells.with_status(must_publish=np.isin(np.arange(len(cells)), stay))
    with pytest.raises(Infeasible, match=r"\(r=a, c=x\) cannot be protected .* \(r=a, c=(y|Total)\)"):
        levels(tight)


def test_a_cell_without_level_is_not_found_exactly() -> None:
    frame = pl.DataFrame({"r": list("aabb"), "c": list("xyxy"), "v": [500.0, 3.0, 4.0, 70.0]})
    cells = dc.tables.from_cells(frame, ["r", "c"], "v").mark({"r": "a", "c": "x"}, "unsafe")
    assert cells.audit().counts["disclosed"] == 1
    cells = cells.with_status(secondary=levels(cells))
    assert cells.audit().holds and cells.secondary.any()


def test_costs_decide_what_is_suppressed() -> None:
    frame = pl.DataFrame({"r": list("aaabbb"), "c": list("xyzxyz"), "n": [1, 50, 60, 30, 70, 20]})
    cells = dc.tables.from_cells(frame, ["r", "c"], count="n").apply_rules([dc.Threshold(minimum=3)])

    def hidden(table: dc.Cells, **options: Any) -> set[tuple[str, ...]]:
        return {tuple(table.label(i).values()) for i in np.flatnonzero(levels(table, **options)).tolist()}

    assert hidden(cells) == {("a", "y"), ("b", "x"), ("b", "y")} or hidden(cells) == {
        ("a", "z"),
        ("b", "x"),
        ("b", "z"),
    }
    dear = np.where(cells.where({"c": ["z", "Total"]}) | cells.where({"r": "Total"}), 1e6, 1.0)
    assert hidden(cells, cost=dear) == {("a", "y"), ("b", "x"), ("b", "y")}
    assert hidden(cells.with_status(cost=dear)) == {("a", "y"), ("b", "x"), ("b", "y")}
    wanted = cells.with_status(cost=np.where(dear > 1, 30.0, 20.0)).mark(
        [{"r": "a", "c": "y"}, {"r": "b", "c": "y"}], "preferred"
    )
    assert hidden(wanted) == {("a", "y"), ("b", "x"), ("b", "y")}
    assert costs(cells, "frequency").tolist() == np.maximum(cells.count, 1).tolist()
    assert set(costs(cells, "unit")) == {1.0}


def test_empty_cells_are_not_suppressed_for_others() -> None:
    frame = pl.DataFrame({"r": list("aaabbb"), "c": list("xyzxyz"), "n": [1, 0, 60, 30, 0, 20]})
    cells = dc.tables.from_cells(frame, ["r", "c"], count="n").apply_rules([dc.Threshold(minimum=3)])
    found = levels(cells)
    assert not (found & (cells.value == 0)).any() and found.any()


def test_same_seed_same_result_and_cancel() -> None:
    cells = brute.table(np.random.default_rng(5), "three")
    assert levels(cells).tolist() == levels(cells).tolist()

    def stop(done: int, total: int, label: str) -> None:
        raise Cancelled("stop")

    with pytest.raises(Cancelled):
        levels(cells, ctx=Context(seed=0, progress=stop))


@pytest.mark.parametrize(
    "options",
    [{"cost": "weight"}, {"cost": [1.0]}, {"start": [True]}],
)
def test_bad_input(options: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match=r"cost|start"):
        levels(brute.table(np.random.default_rng(0), "flat"), **options)


def test_start_may_not_take_cells_that_must_stay() -> None:
    cells = brute.table(np.random.default_rng(0), "flat")
    stay = np.flatnonzero(~cells.primary)[:1]
    cells = cells.with_status(must_publish=np.isin(np.arange(len(cells)), stay))
    with pytest.raises(PlanError, match="must be published"):
        levels(cells, start=cells.status.must_publish)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_room_found_around_a_cell_protects_it(kind: str, seed: int) -> None:
    cells = brute.table(np.random.default_rng(seed), kind)
    frame = frame_of(cells, Prior())
    usable = (cells.value != 0) | cells.primary
    whole = Rooms(frame, costs(cells), usable)
    for cell in np.flatnonzero(cells.primary)[:6].tolist():
        need = float(cells.upper_required[cell])
        cheapest = whole.room(cell, need, above=True)
        assert cheapest is not None
        for around in (1, 4, 12):
            near = Rooms(frame, costs(cells), usable, around)
            column = int(frame.column[cell])
            region = near.region(column, around)
            assert region[column] and region.sum() >= min(around, len(np.unique(frame.column[usable])))
            found = near.room(cell, need, above=True)
            assert found is not None, "all cells are taken in where those around leave no room"
            alone = cells.with_status(primary=np.arange(len(cells)) == cell)
            others = np.isin(np.arange(len(cells)), found[0]) & ~alone.primary
            _, high = brute.one(alone.with_status(secondary=others), cell)
            assert high >= cells.value[cell] + need - 1e-6
            spent = [float(costs(cells)[used] @ np.abs(z)) for used, z in (found, cheapest)]
            assert spent[0] >= spent[1] - 1e-6


def test_closed_cells_stay_as_they_are() -> None:
    cells = brute.table(np.random.default_rng(1), "three")
    cell = int(np.flatnonzero(cells.primary)[0])
    for around in (4, 10_000):
        rooms = Rooms(frame_of(cells, Prior()), costs(cells), cells.value != 0, around)
        found = rooms.room(cell, 1.0, above=True)
        closed: set[int] = set()
        while found is not None:
            assert not closed & set(found[0].tolist())
            other = int(found[0][found[0] != cell][0])
            closed.add(other)
            rooms.close(other, True)
            found = rooms.room(cell, 1.0, above=True)
        rooms.close(other, False)
        found = rooms.room(cell, 1.0, above=True)
        assert found is not None and other in found[0]


def businesses(name: str) -> dc.Cells:
    """Give a reference table of businesses with its sensitive cells."""
    frame = pl.read_csv(reference("golden", "tables", name))
    columns = ("nace", "region", "size")
    hierarchies = {column: reference("golden", "tables", f"hier_{column}.csv") for column in columns}
    return dc.tabulate(frame, columns, "value", hierarchies=hierarchies).apply_rules([dc.PPercent(percent=10)])


@pytest.mark.slow
@pytest.mark.peers
def test_many_businesses_are_all_protected() -> None:
    cells = businesses("b_micro.csv.gz")
    assert int(cells.primary.sum()) == 5_550
    start = eliminate(cells)
    labels: set[str] = set()
    ctx = Context(seed=0, progress=lambda done, total, label: labels.add(label))
    found = cells.with_status(secondary=levels(cells, start=start, ctx=ctx))
    assert found.audit(attacker="outsider", rules=(), exact=False).holds
    assert found.secondary[start].all() and found.value[found.secondary].sum() <= 31_500_000
    assert {"room for sensitive cells", "taking suppressions back"} <= labels


@pytest.mark.peers
def test_businesses_are_all_protected_for_less_than_others_leave_open() -> None:
    cells = businesses("s_micro.csv")
    found = cells.with_status(secondary=levels(cells))
    assert found.audit(attacker="outsider", rules=(), exact=False).holds
    assert found.value[found.secondary].sum() <= 1.1 * 1_136_386


@pytest.mark.peers
def test_square_of_frequencies_is_protected_at_the_price_of_elimination() -> None:
    given = pl.read_csv(reference("golden", "tables", "a_50x50.csv"))
    cells = dc.tables.from_cells(given, ["row", "col"], count="freq").apply_rules([dc.Threshold(minimum=3)])
    found = cells.with_status(secondary=levels(cells))
    assert found.audit(attacker="outsider", rules=()).holds
    assert found.value[found.secondary].sum() == 19


@pytest.mark.parametrize("engine", ["levels", "optimal"])
def test_a_cell_that_can_only_be_smaller_is_not_found_exactly(engine: str) -> None:
    frame = pl.DataFrame({"r": list("aabbb"), "c": list("xyxyy"), "v": [25.0, 0.0, 8.0, 9.0, 4.0]})
    cells = dc.tabulate(frame, ["r", "c"], "v").mark({"r": "a", "c": "x"}, "unsafe")
    cells = cells.mark({"r": "a", "c": "Total"}, "must-publish")
    options = {"singletons": False} if engine == "levels" else {}
    assert not cells.suppress(engine, **options).holds  # whoever has the 0 in a, y reads x off the published total
    done = cells.suppress(engine, respondents=False, audit={"attacker": "outsider"}, **options)
    cell = cells.index({"r": "a", "c": "x"})
    low, high = brute.one(done.cells, cell)
    assert done.holds and low < 25 - 1e-3 and high == pytest.approx(25)
