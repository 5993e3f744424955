"""Where only counts of cells with somebody are listed, every listed count is at least 1, and everybody knows it."""

from __future__ import annotations

from itertools import product

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.tables.audit import audit_perturbed, audit_rounded
from tests.tables import brute


def people(counts: np.ndarray) -> pl.DataFrame:
    """Give as many records as each cell of a table of two variables has."""
    places = [(f"r{i}", f"c{j}") for i, j in np.ndindex(*counts.shape) for _ in range(counts[i, j])]
    return pl.DataFrame(places, schema=["r", "c"], orient="row")


def square() -> np.ndarray:
    """Give nine cells of one person each, and seven beside them that may be shown."""
    counts = np.full((4, 4), 9)
    counts[:3, :3] = 1
    return counts


def test_three_gaps_of_three_people_are_one_each() -> None:
    cells = dc.tabulate(people(square()), ["r", "c"]).apply_rules([dc.Threshold(minimum=3)])
    assert cells.suppressed.sum() == 9
    found = cells.audit(attacker="outsider")
    assert found.counts["disclosed"] == 9 and (found.low == 1).all() and (found.high == 1).all()
    blind = cells.audit(attacker="outsider", prior={"empty": True})
    assert blind.counts["protected"] == 9 and (blind.low == 0).all() and (blind.high == 3).all()
    kept = dc.tabulate(people(square() * np.eye(4, dtype=int)), ["r", "c"], empty="keep")
    kept = kept.mark(kept.count == 1, "unsafe")  # zeros are listed too: one more gap could be 0
    assert (kept.with_status(secondary=~kept.primary).audit(attacker="outsider").low[kept.primary] == 0).all()


@pytest.mark.parametrize("engine", ["elimination", "levels", "optimal"])
def test_no_table_that_holds_gives_a_count_away(engine: str) -> None:
    rng, held = np.random.default_rng(3), 0
    for _ in range(12):
        counts = rng.poisson(rng.gamma(1.0, rng.choice([1, 3, 6]), (int(rng.integers(3, 6)), 4)))
        cells = dc.tabulate(people(counts), ["r", "c"]).apply_rules([dc.Threshold(minimum=3)])
        done = cells.suppress(engine)
        held += done.holds
        members = cells.x.transposed
        for cell in np.flatnonzero(cells.primary).tolist() if done.holds else ():
            low, high = brute.interval(done.cells, np.eye(len(cells))[cell], low=1.0)
            value = cells.value[cell]
            least = len(members.row(cell))  # so many are in its inner cells at least
            assert value - low >= min(cells.lower_required[cell], value - least) - 1e-6
            assert high - value >= cells.upper_required[cell] - 1e-6
    assert held == 12 or engine == "elimination"


def test_a_second_table_does_not_make_the_listed_cells_empty() -> None:
    frame = people(square()).with_row_index("i").with_columns(t=pl.col("i") % 2).drop("i")
    cells = dc.tabulate(frame, [["r", "c"], ["r", "t"]]).apply_rules([dc.Threshold(minimum=3)])
    found = cells.audit(attacker="outsider")
    ones = cells.value[found.cell] == 1
    assert ones.sum() >= 9 and (found.low[ones] == 1).all() and (found.high[ones] == 1).all()
    assert cells.suppress("levels").holds and cells.suppress("optimal").holds


@pytest.mark.parametrize("engine", ["elimination", "levels", "optimal"])
def test_no_linked_tables_that_hold_give_a_count_away(engine: str) -> None:
    rng, held = np.random.default_rng(5), 0
    for _ in range(12):
        n = int(rng.integers(12, 45))
        frame = pl.DataFrame(
            {name: rng.choice(list("uvwx")[:size], n) for name, size in (("a", 3), ("b", 4), ("c", 2))}
        )
        cells = dc.tabulate(frame, [["a", "b"], ["a", "c"]]).apply_rules([dc.Threshold(minimum=3)])
        try:
            done = cells.suppress(engine)
        except dc.Infeasible:
            continue
        held += done.holds
        floor = np.ones(len(cells))
        for cell in np.flatnonzero(cells.primary).tolist() if done.holds else ():
            low, high = brute.interval(done.cells, np.eye(len(cells))[cell], least=floor)
            everything = done.cells.with_status(secondary=~cells.primary)
            room = cells.value[cell] - brute.interval(everything, np.eye(len(cells))[cell], least=floor)[0]
            assert cells.value[cell] - low >= min(cells.lower_required[cell], room) - 1e-6
            assert high - cells.value[cell] >= cells.upper_required[cell] - 1e-6
    assert held >= (8 if engine != "elimination" else 1)


def test_a_one_that_is_rounded_to_nothing() -> None:
    cells = dc.tabulate(people(square()), ["r", "c"]).apply_rules([dc.Threshold(minimum=3)])
    rounded = cells.round_controlled(2)
    found = audit_rounded(rounded)
    shown = rounded.cells.status.released[found.cell]
    assert (found.low >= 1).all() and (shown == 0).any()
    assert not found.holds_each[shown == 0].any()  # 0 stands for 0 or 1, and nobody is not listed


def test_noise_that_leaves_nothing_of_somebody() -> None:
    frame = dc.tables.with_record_keys(people(np.array([[1]])), seed=1)
    cells = dc.tabulate(frame, ["r"], record_key="record_key").mark({"r": "r0"}, "unsafe")
    keys = np.linspace(0, 1, 60, endpoint=False)
    tried = 0
    for key in keys:  # the one record has each key in turn
        keyed = dc.tabulate(frame.frame.with_columns(record_key=pl.lit(float(key))), ["r"], record_key="record_key")
        done = keyed.mark({"r": "r0"}, "unsafe").perturb(variance=1, maximum=2)
        law = done.table
        assert law is not None
        shown = float(done.cells.status.released[1])
        low, high = done.possible(np.array([shown, shown]))
        beliefs = {}
        for true, move in product(range(1, 6), law.deviations.tolist()):
            if true + move == shown:
                row = min(true, len(law.probability) - 1)
                beliefs[true] = float(law.probability[row, move + 2])
        some = [true for true, p in beliefs.items() if p > 0]
        assert (low[1], high[1]) == (min(some), max(some)) and min(some) >= 1
        chance = audit_perturbed(done).chance
        assert chance is not None and chance[0] == pytest.approx(beliefs[1] / sum(beliefs.values()))
        tried += shown == 0
    assert tried > 0 and len(cells) == 2
