"""Rounding: right on average at random, additive and nearest when controlled, and honest when it cannot be done."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.errors import DataError, Infeasible, PlanError
from discretion.tables.controlled_rounding import parts
from tests.shared import reference


def table(counts: np.ndarray) -> dc.Cells:
    names = [f"v{j}" for j in range(counts.ndim)]
    rows = [(*map(str, place), int(counts[place])) for place in np.ndindex(counts.shape)]
    return dc.tables.from_cells(pl.DataFrame(rows, [*names, "n"], orient="row"), names, count="n")


def released(cells: dc.Cells) -> np.ndarray:
    assert cells.status.released is not None
    return cells.status.released


def test_random_rounding_is_right_on_average() -> None:
    cells = table(np.arange(12).reshape(3, 4))
    draws = np.array([released(cells.round_random(5, seed=seed).cells) for seed in range(1500)])
    assert np.abs(draws - cells.value).max() < 5 and (draws % 5 == 0).all() and draws.min() >= 0
    se = np.sqrt(draws.var(axis=0) / len(draws))
    assert (np.abs(draws.mean(axis=0) - cells.value) <= 4.5 * se).all()
    exact = cells.value % 5 == 0
    assert (draws[:, exact] == cells.value[exact]).all()


def test_random_rounding_repeats_with_its_seed_and_only_then() -> None:
    cells = table(np.arange(40).reshape(8, 5))
    one, two, three = (released(cells.round_random(5, seed=seed).cells) for seed in (1, 1, 2))
    assert (one == two).all() and (one != three).any()


def test_another_base_or_another_delivery_is_rounded_by_other_draws() -> None:
    """With the draws of one seed alike in two releases, two roundings of a cell would narrow each other."""
    counts = np.full((40, 30), 32.0)
    first, again = (released(table(counts + more).round_random(5, seed=3).cells) - more for more in (0, 5))
    coarser = released(table(counts).round_random(10, seed=3).cells)
    cells = table(counts).inner_cell
    assert abs((first == again)[cells].mean() - 0.52) < 0.05  # 0.4² + 0.6² for independent draws
    up, coarse_up = first[cells] > 30, coarser[cells] > 30
    assert abs(np.corrcoef(up, coarse_up)[0, 1]) < 0.1


def test_added_totals_are_additive() -> None:
    cells = table(np.arange(24).reshape(2, 3, 4))
    done = cells.round_random(3, totals="added", seed=5)
    assert done.additive and np.abs(cells.relations().dot(released(done.cells))).max() == 0
    alone = cells.round_random(3, seed=5)
    assert not alone.additive and np.abs(cells.relations().dot(released(alone.cells))).max() > 0
    inner = released(done.cells)[cells.inner_cell]
    assert np.abs(inner - cells.inner_value).max() < 3


def test_keys_round_the_same_cell_alike_in_every_table() -> None:
    people = dc.tables.with_record_keys(dc.datasets.census(900, seed=2), seed=4)
    both = [
        dc.tabulate(people, by, weight=False, record_key="record_key").round_random(7, keys=True).cells
        for by in (["region", "sex"], ["sex", "education"])
    ]
    for code in ("female", "male"):
        values = {float(released(c)[c.index({"sex": code})]) for c in both}
        assert len(values) == 1


def brute_force(cells: dc.Cells, base: int) -> float | None:
    """Try every zero-restricted rounding of the inner cells; give the least sum of changes over all cells."""
    low = np.floor(cells.value / base) * base
    high = np.where(cells.value % base == 0, low, low + base)
    inner = cells.inner_cell
    best = None
    for choice in product(*(sorted({low[c], high[c]}) for c in inner)):
        values = cells.x.transposed.dot(np.array(choice))
        if ((values >= low) & (values <= high)).all():
            moved = float(np.abs(values - cells.value).sum())
            best = moved if best is None else min(best, moved)
    return best


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 9), min_size=8, max_size=8), st.sampled_from([3, 5]), st.booleans())
def test_controlled_rounding_is_the_nearest_additive_table(counts: list[int], base: int, cube: bool) -> None:
    if not any(counts):
        return
    cells = table(np.array(counts).reshape((2, 2, 2) if cube else (2, 4)))
    want = brute_force(cells, base)
    done = cells.round_controlled(base)
    values = released(done.cells)
    assert np.abs(cells.relations().dot(values)).max() == 0 and (values % base == 0).all() and values.min() >= 0
    assert (values[cells.value == 0] == 0).all()
    if want is None:
        assert 0 in done.impossible and done.steps > 0
    else:
        assert done.steps == 0 and done.impossible == () and done.moved == pytest.approx(want)
        assert np.abs(values - cells.value).max() < base


def test_tables_of_two_variables_always_round() -> None:
    rng = np.random.default_rng(0)
    for _ in range(25):
        cells = table(rng.integers(0, 30, (7, 6)))
        done = cells.round_controlled(float(rng.choice([3, 4, 5, 10])))
        assert done.steps == 0 and done.gap == 0


def test_infeasibility_is_proven_said_and_left_behind() -> None:
    cube = [[[2, 0, 0], [1, 0, 2], [0, 0, 0]], [[0, 0, 0], [1, 0, 1], [0, 2, 2]], [[0, 1, 0], [0, 0, 0], [0, 0, 2]]]
    cells = table(np.array(cube))
    assert brute_force(cells, 3) is None
    done = cells.round_controlled(3)
    assert done.impossible == (0,) and done.steps == 1 and "1 steps" in repr(done)
    values = released(done.cells)
    assert np.abs(cells.relations().dot(values)).max() == 0 and np.abs(values - cells.value).max() < 6
    with pytest.raises(Infeasible, match="proven"):
        cells.round_controlled(3, max_steps=0)


def test_fractions_negative_values_and_hierarchies() -> None:
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"r": [f"r{i % 6}" for i in range(60)], "s": [f"s{i // 15}" for i in range(60)],
                          "x": np.round(rng.normal(2, 9, 60), 2)})  # fmt: skip
    tree = {"Total": {"A": ["r0", "r1"], "B": ["r2", "r3", "r4", "r5"]}}
    cells = dc.tabulate(frame, ["r", "s"], "x", hierarchies={"r": tree})
    assert (cells.value < 0).any()
    done = cells.round_controlled(2.5)
    values = released(done.cells)
    assert np.abs(cells.relations().dot(values)).max() < 1e-9
    assert np.abs(values - cells.value).max() < 2.5 * (1 + done.steps)
    assert np.abs(values / 2.5 - np.round(values / 2.5)).max() < 1e-9


def test_multiples_are_seen_through_floating_point_noise() -> None:
    low, above = parts(np.array([0.1 + 0.2, 0.3, 1e9 * 0.1, -0.2, 0.35]), 0.1)
    assert low[:4].tolist() == [3, 3, 1e9, -2] and above[:4].tolist() == [0, 0, 0, 0] and above[4] > 0.04


def test_sensitive_cells_go_to_the_neighbor_that_protects() -> None:
    from discretion.tables.audit import audit_rounded

    counts = np.array([[1, 24, 36], [17, 2, 41], [12, 33, 1]])
    cells = table(counts).apply_rules([dc.Threshold(minimum=3)])
    done = cells.round_controlled(5)
    found = audit_rounded(done)
    assert found.holds and len(found.cell) == 3
    assert (found.low <= cells.value[found.cell]).all() and (found.high >= cells.value[found.cell] + 1).all()


def test_the_audit_of_a_rounded_table_finds_what_enumeration_finds() -> None:
    from discretion.tables.audit import audit_rounded

    rng = np.random.default_rng(8)
    for _ in range(6):
        cells = table(rng.integers(1, 5, (2, 2))).apply_rules([dc.Threshold(minimum=4, range_percent=100)])
        if not cells.primary.any():
            continue
        done = cells.round_controlled(3)
        shown = released(done.cells)
        possible = []
        for inner in product(range(1, 10), repeat=4):  # no cell is listed that is empty
            values = cells.x.transposed.dot(np.array(inner, float))
            if np.abs(values - shown).max() <= 2:
                possible.append(values)
        low, high = np.min(possible, axis=0), np.max(possible, axis=0)
        need_low = np.maximum(cells.value - cells.lower_required, np.diff(cells.x.transposed.indptr))
        truly = (low <= need_low) & (high >= cells.value + cells.upper_required) & (high > low)
        found = audit_rounded(done)
        assert (found.low >= low[found.cell] - 1e-6).all() and (found.high <= high[found.cell] + 1e-6).all()
        assert found.holds_each.tolist() == truly[found.cell].tolist()


def test_the_audit_of_added_totals_knows_that_inner_cells_went_to_a_neighbor() -> None:
    from discretion.tables.audit import audit_rounded

    rng, failing, held = np.random.default_rng(3), 0, 0
    for seed in range(30):
        counts = rng.integers(0, 6, (2, 2))
        cells = table(counts).apply_rules([dc.Threshold(minimum=3)])
        done = cells.round_random(3, totals="added", seed=seed)
        shown, found = released(done.cells)[cells.inner_cell], audit_rounded(done)
        least = int((counts > 0).all())  # where no empty cell is listed, everybody knows that none is empty
        near = [[v for v in range(least, 12) if abs(v - s) < 3] for s in shown]
        values = np.array([cells.x.transposed.dot(np.array(inner, float)) for inner in product(*near)])
        low, high = values.min(axis=0), values.max(axis=0)
        floor = least * np.diff(cells.x.transposed.indptr)
        truly = (low <= np.maximum(cells.value - 1, floor)) & (high >= cells.value + 1)
        assert found.holds_each.tolist() == truly[found.cell].tolist()
        failing, held = failing + (not found.holds), held + found.holds
    assert failing > 5 and held > 5


@pytest.mark.parametrize("base", [3, 5, 10, 50])
def test_the_audit_of_cells_without_a_level_looks_whether_they_are_found_exactly(base: int) -> None:
    from discretion.tables.audit import audit_rounded

    cells = table(np.array([[8, 14], [16, 19]])).mark({"v0": "0", "v1": "0"}, "unsafe")
    done = cells.round_controlled(base)
    shown, found = released(done.cells), audit_rounded(done)
    possible = [
        inner[0]
        for inner in product(range(60), range(60))
        if all(abs(t - s) < base for t, s in ((inner[0], shown[cells.primary][0]), (inner[1], shown[5])))
    ]
    assert found.holds and found.high[0] > found.low[0] and min(possible) <= found.low[0] <= 8 <= found.high[0]
    exact = audit_rounded(cells.round_controlled(1))
    assert not exact.holds and exact.low.tolist() == exact.high.tolist() == [8.0]


def test_the_audit_of_a_rounded_table_tries_again_where_the_solver_loses_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from discretion.tables.attacker import Block
    from discretion.tables.audit import audit_rounded

    done = table(np.array([[1, 14], [16, 19]])).apply_rules([dc.Threshold(minimum=3)]).round_controlled(5)
    right = audit_rounded(done)
    answers, calls = Block._extreme, []

    def lost(block: Block) -> tuple[np.ndarray, bool] | None:
        calls.append(0)
        return None if len(calls) % 2 else answers(block)

    monkeypatch.setattr(Block, "_extreme", lost)
    again = audit_rounded(done)
    assert len(calls) >= 2 and again.holds == right.holds
    assert again.low.tolist() == right.low.tolist() and again.high.tolist() == right.high.tolist()


@pytest.mark.parametrize("base", [0, -3, float("nan"), "5"])
def test_bad_bases(base: Any) -> None:
    cells = table(np.ones((2, 2), int))
    for method in (cells.round_random, cells.round_controlled):
        with pytest.raises(PlanError, match="base"):
            method(base)


def test_bad_calls() -> None:
    cells = table(np.ones((2, 2), int))
    with pytest.raises(PlanError, match="keys"):
        cells.round_random(3, keys=True)
    with pytest.raises(PlanError, match="totals"):
        cells.round_random(3, totals="none")
    gaps = dc.tables.from_cells(
        pl.DataFrame({"a": ["x", "y", "Total"], "n": [None, 3.0, 7.0], "s": ["u", "x", ""]}), ["a"], "n", status="s"
    )
    with pytest.raises(DataError, match="no value"):
        gaps.round_controlled(5)


def test_cancelling_stops_the_solver() -> None:
    def stop(done: int, total: int, label: str) -> None:
        raise dc.errors.Cancelled("stop")

    rng = np.random.default_rng(0)
    cells = table(rng.integers(0, 7, (6, 6, 6)))
    with pytest.raises(dc.errors.Cancelled):
        cells.round_controlled(3, progress=stop)


@pytest.mark.peers
def test_the_square_of_frequencies() -> None:
    file = reference("golden", "tables", "a_50x50.csv")
    cells = dc.tables.from_cells(pl.read_csv(file), ["row", "col"], count="freq")
    done = cells.round_controlled(5)
    assert done.steps == 0 and np.abs(released(done.cells) - cells.value).max() < 5
    assert np.abs(cells.relations().dot(released(done.cells))).max() == 0


def test_loss_says_how_far_cells_moved() -> None:
    done = table(np.array([[4, 6], [3, 9]])).round_random(5, seed=2).cells
    moved, loss = np.abs(released(done) - done.value), done.loss()
    some = done.value > 0
    assert loss["changed"] == (moved > 0).sum() and loss["largest_change"] == moved.max()
    assert loss["mean_change"] == pytest.approx(moved.mean())
    assert loss["root_mean_square_change"] == pytest.approx(np.sqrt((moved**2).mean()))
    assert loss["mean_relative_change_percent"] == pytest.approx(100 * (moved[some] / done.value[some]).mean())
