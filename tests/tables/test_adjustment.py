"""Controlled tabular adjustment: safe, additive, little changed; records edited or sampled before they are counted."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.errors import DataError, Infeasible, PlanError, RequirementNotMet
from discretion.tables.audit import audit_adjusted
from tests.tables.test_rounding import released, table


def check(cells: dc.Cells, done: dc.tables.Cells) -> None:
    values = released(done)
    assert np.abs(cells.relations().dot(values)).max() < 1e-6
    change = values - cells.value
    far = (change >= cells.upper_required - 1e-6) | (-change >= cells.lower_required - 1e-6)
    assert far[cells.primary].all() and (np.abs(change[cells.primary]) > 0).all()
    assert (values[cells.value >= 0] >= 0).all() and (values[cells.value == 0] == 0).all()


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, 12), min_size=12, max_size=12), st.booleans())
def test_adjusted_counts_are_safe_whole_and_additive(counts: list[int], cube: bool) -> None:
    if sum(counts) < 1:
        return
    cells = table(np.array(counts).reshape((2, 3, 2) if cube else (3, 4))).apply_rules([dc.Threshold(minimum=3)])
    try:
        done = cells.adjust(seed=1, seconds=5)
    except Infeasible:
        return
    check(cells, done.cells)
    assert (released(done.cells) == np.round(released(done.cells))).all()


def test_the_cost_is_the_least() -> None:
    cells = table(np.array([[1, 9], [8, 7]])).apply_rules([dc.Threshold(minimum=3)])
    done = cells.adjust(weight="equal", seed=1, gap=0.0, spread_percent=0)
    best = np.inf
    for inner in product(range(3), range(6, 13), range(5, 12), range(4, 11)):
        values = cells.x.transposed.dot(np.array(inner, float))
        if values[cells.primary][0] in (0.0, 2.0):
            best = min(best, float(np.abs(values - cells.value).sum()))
    check(cells, done.cells)
    assert done.cost == pytest.approx(best) and done.gap <= 1e-6


def firms(n: int = 400, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame({"r": rng.integers(0, 8, n), "s": rng.integers(0, 9, n), "x": np.ceil(rng.lognormal(3, 2, n))})


def test_sums_with_must_publish_cells_and_limits() -> None:
    cells = dc.tabulate(firms(), ["r", "s"], "x").apply_rules([dc.PPercent(percent=15)])
    assert cells.primary.sum() > 5
    totals = [c for c in np.flatnonzero(cells.codes[:, 1] == 0) if not cells.primary[c]]
    kept = cells.mark(totals, "must-publish")
    done = kept.adjust(seed=2, seconds=5)
    check(kept, done.cells)
    assert (released(done.cells)[totals] == cells.value[totals]).all()
    limited = cells.adjust(seed=2, seconds=5, limit_percent=60)
    change = np.abs(released(limited.cells) - cells.value)
    assert (change[~cells.primary] <= 0.6 * cells.value[~cells.primary] + 1e-6).all()
    check(cells, limited.cells)


def test_cells_of_zero_that_somebody_is_in_move_too() -> None:
    frame = pl.DataFrame({"r": list("aabb"), "c": list("xyxy"), "v": [0, 20, 30, 40], "n": [2, 9, 9, 9]})
    cells = dc.tables.from_cells(frame, ["r", "c"], "v", count="n").apply_rules([dc.Threshold(minimum=3)])
    assert cells.value[cells.primary].tolist() == [0.0]
    done = cells.with_status(upper_required=np.where(cells.primary, 3.0, 0.0)).adjust(
        weight="equal", gap=0.0, spread_percent=0, seed=1
    )
    values = released(done.cells)
    assert values[cells.primary][0] >= 3 and np.abs(cells.relations().dot(values)).max() < 1e-9
    assert done.cost == pytest.approx(4 * 3.0) and done.gap <= 1e-9  # up in one corner of the square, down in two
    beside = cells.mark({"r": "a", "c": "x"}, "safe").mark({"r": "a", "c": "y"}, "unsafe")
    beside = beside.mark({"r": "a", "c": "Total"}, "must-publish")
    beside = beside.with_status(lower_required=np.where(beside.primary, 20.0, 0.0),
                                upper_required=np.where(beside.primary, 90.0, 0.0))  # fmt: skip
    moved = released(beside.adjust(weight="equal", gap=0.0, spread_percent=0, seed=1).cells)
    assert moved[beside.primary][0] == 0 and moved[cells.primary][0] == pytest.approx(20)
    empty = dc.tables.from_cells(frame.with_columns(n=pl.Series([0, 9, 9, 9])), ["r", "c"], "v", count="n")
    kept = released(empty.mark({"r": "a", "c": "y"}, "unsafe").adjust(seed=1).cells)
    assert kept[empty.index({"r": "a", "c": "x"})] == 0


def test_what_must_be_published_can_forbid_it() -> None:
    cells = table(np.array([[1, 9], [8, 7]])).apply_rules([dc.Threshold(minimum=3)])
    with pytest.raises(Infeasible, match="8 cells that must be published"):
        cells.mark(~cells.primary, "must-publish").adjust(seed=1)


def test_the_same_seed_gives_the_same_table() -> None:
    cells = dc.tabulate(firms(200, 3), ["r", "s"], "x").apply_rules([dc.PPercent(percent=10)])
    one, two = (released(cells.adjust(seed=4, gap=0.3).cells) for _ in range(2))
    assert (one == two).all()


def test_amounts_and_directions_are_drawn() -> None:
    """The least change would show 0.7 or 1.3 times every sensitive sum; drawn ones lie between 1 and 2 levels away."""
    cells = dc.tabulate(firms(160, 5), ["r", "s"], "x").apply_rules([dc.Threshold(minimum=3, range_percent=30)])
    shares = []
    for seed in range(4):
        done = cells.adjust(seed=seed)
        check(cells, done.cells)
        shares.append((released(done.cells) / cells.value)[cells.primary & (cells.value > 0)] - 1)
    found = np.concatenate(shares)
    inside = (np.abs(found) >= 0.3 - 1e-6) & (np.abs(found) <= 0.6 + 1e-6)
    assert inside.mean() > 0.9 and (np.abs(np.abs(found) - 0.3) < 1e-3).mean() < 0.1
    assert 0.3 < (found > 0).mean() < 0.7  # up and down
    assert np.abs(np.abs(found[inside]).mean() - 0.45) < 5 * 0.3 / np.sqrt(12 * inside.sum())  # uniform
    assert min(np.abs(one - two).max() for one, two in zip(shares[1:], shares, strict=False)) > 0.1
    counts = table(np.random.default_rng(1).negative_binomial(1.2, 0.15, (6, 6))).apply_rules([dc.Threshold(minimum=5)])
    twos = [released(counts.adjust(seed=seed).cells)[(counts.value == 2) & counts.primary] for seed in range(8)]
    assert set(np.concatenate(twos).tolist()) >= {0.0, 1.0, 3.0, 4.0}


def test_an_adjusted_table_never_holds_against_who_knows_the_method(tmp_path: Path) -> None:
    cells = table(np.array([[1, 9], [8, 7]])).apply_rules([dc.Threshold(minimum=3)])
    done = cells.adjust(seed=1)
    found = audit_adjusted(done.cells)
    assert found.holds_each.all() and not len(found.failing) and not found.holds
    assert "readers who know how values are adjusted nothing is proved" in found.summary
    with pytest.raises(RequirementNotMet, match="nothing is proved"):
        done.cells.publish(tmp_path / "t.csv", audit=found)
    done.cells.publish(tmp_path / "t.csv", audit=found, override="a decision")
    safe = table(np.full((2, 2), 9)).apply_rules([dc.Threshold(minimum=3)])
    assert audit_adjusted(safe.adjust(seed=1).cells).holds


def test_nothing_sensitive_changes_nothing() -> None:
    cells = table(np.full((3, 3), 9)).apply_rules([dc.Threshold(minimum=3)])
    done = cells.adjust(seed=1)
    assert done.changed == 0 and done.cost == 0 and (released(done.cells) == cells.value).all()


def test_bad_calls() -> None:
    cells = table(np.ones((2, 2), int))
    for options in ({"weight": "none"}, {"gap": 1.5}, {"seconds": 0}, {"limit_percent": -1}, {"spread_percent": -1}):
        with pytest.raises(PlanError):
            cells.adjust(**options)
    gaps = dc.tables.from_cells(
        pl.DataFrame({"a": ["x", "y", "Total"], "n": [None, 3.0, 7.0], "s": ["u", "x", ""]}), ["a"], "n", status="s"
    )
    with pytest.raises(DataError, match="no value"):
        gaps.adjust()


def test_loss_of_changed_and_suppressed_tables() -> None:
    cells = table(np.array([[1, 9], [8, 7]]))
    loss = cells.with_released(cells.value + np.array([3, 0, 0, 0, 0, 0, 0, 0, -1.0])).loss()
    assert loss["changed"] == 2 and loss["largest_change"] == 3 and loss["mean_change"] == pytest.approx(4 / 9)
    assert loss["root_mean_square_change"] == pytest.approx(np.sqrt(10 / 9)) and loss["largest_misfit"] == 3
    assert loss["suppressed"] == 0
    hidden = cells.mark({"v0": "0", "v1": "0"}, "unsafe").with_status(secondary=cells.where({"v0": "1", "v1": "1"}))
    loss = hidden.loss(hidden.audit(which="suppressed"))
    assert loss["suppressed"] == 2 and loss["suppressed_primary"] == 1 and loss["suppressed_value"] == 8
    assert loss["suppressed_value_percent"] == pytest.approx(100 * 8 / cells.value.sum())
    assert loss["mean_interval"] == 0 and loss["intervals_without_end"] == 0


def test_a_sample_with_unpublished_weights_feeds_a_table() -> None:
    """T7: who is in the table is not certain, and the weighted totals stay right."""
    people = dc.datasets.census(6000, seed=1)
    truth = dc.tabulate(people, ["region", "sex"], weight="weight")
    totals = []
    for seed in range(30):
        sample = dc.Sample(share=0.2)(people, seed=seed)
        cells = dc.tabulate(sample, ["region", "sex"], weight="weight")
        assert cells.count[0] == 1200 and "weight" not in cells.frame().columns
        totals.append(cells.value[cells.index({"sex": "female"})])
    want = truth.value[truth.index({"sex": "female"})]
    assert abs(np.mean(totals) - want) < 5 * np.std(totals) / np.sqrt(len(totals)) + 1e-9


def test_the_confidentiality_edit_feeds_a_table() -> None:
    """T7: households change places; counts of what was matched stay, finer ones do not."""
    people = dc.datasets.census(1200, seed=1)
    edit = dc.ConfidentialityEdit(geography=["municipality"], match_on=["sex"], share=0.3, household="household")
    edited = edit(people, seed=3)
    one, two = (dc.tabulate(d, ["municipality", "education"], weight=False) for d in (people, edited))
    pairs = [(one.value[c], two.find(one.codes[[c]])[0]) for c in range(len(one))]
    changed = sum(k < 0 or two.value[k] != value for value, k in pairs)
    assert one.value[0] == two.value[0] and changed > 0
