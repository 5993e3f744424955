"""The cheapest complementary suppression: against all subsets, and where the optimum is known."""

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.tables.optimal import optimal
from tests.shared import reference


def table(rows: int, cols: int, seed: int, minimum: int = 4) -> dc.Cells:
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "row": np.repeat(np.arange(rows), cols),
            "col": np.tile(np.arange(cols), rows),
            "n": rng.integers(1, 20, rows * cols),
        }
    )
    cells = dc.tables.from_cells(frame, ["row", "col"], count="n")
    return cells.apply_rules([dc.Threshold(minimum=minimum)])


def cheapest(cells: dc.Cells) -> float:
    """Try subsets of cells in order of size, and give the least value that protects."""
    free = np.flatnonzero(~cells.primary & (cells.value > 0))
    best = np.inf
    for size in range(5):
        for chosen in combinations(free.tolist(), size):
            value = float(cells.value[list(chosen)].sum())
            if value < best:
                mask = np.zeros(len(cells), np.bool_)
                mask[list(chosen)] = True
                if cells.with_status(secondary=mask).audit(exact=False).holds:
                    best = value
    return best


@pytest.mark.parametrize(("rows", "cols", "seed"), [(2, 3, 1), (2, 4, 2), (3, 3, 3), (3, 3, 9)])
def test_equals_the_best_of_all_subsets(rows: int, cols: int, seed: int) -> None:
    cells = table(rows, cols, seed)
    assert cells.primary.any()
    found = optimal(cells)
    assert found.gap_share == 0 and found.cost == pytest.approx(cells.value[found.secondary].sum())
    done = cells.with_status(secondary=found.secondary)
    assert done.audit().holds
    assert found.cost == pytest.approx(cheapest(cells))


def test_cells_without_levels_must_not_be_found_exactly() -> None:
    frame = pl.DataFrame({"row": list("aabb"), "col": list("xyxy"), "turnover": [10.0, 20.0, 30.0, 40.0], "n": [4] * 4})
    cells = dc.tables.from_cells(frame, ["row", "col"], "turnover", count="n").mark({"row": "a", "col": "x"}, "unsafe")
    found = optimal(cells)
    assert found.cost == 90 and cells.with_status(secondary=found.secondary).audit().holds


def test_costs_and_must_publish() -> None:
    cells = table(3, 3, 3)
    one = optimal(cells, cost="unit")
    assert one.cost <= optimal(cells).secondary.sum()
    free = np.flatnonzero(optimal(cells).secondary)[:1]
    kept = optimal(cells.mark(free, "must-publish"))
    assert not kept.secondary[free].any() and kept.cost >= optimal(cells).cost


def test_large_tables_are_refused_and_time_runs_out() -> None:
    cells = table(4, 4, 7)
    with pytest.raises(dc.PlanError, match="levels"):
        optimal(cells, largest=10)
    hurried = optimal(cells, seconds=1e-6)
    assert hurried.gap_share > 0 and cells.with_status(secondary=hurried.secondary).audit().holds


@pytest.mark.peers
@pytest.mark.parametrize("rule", ["freq2", "freq10", "n1k60", "n2k60", "p30"])
def test_never_more_than_sdctable(rule: str) -> None:
    """sdcTable's exact patterns protect each cell's own sum; ours cost no more where the rules are the same."""
    summary = json.loads(reference("golden", "tables", "sdctable_summary.json").read_text())["secondary"]
    case = next(name for name in summary if name.startswith(f"m1_{rule}") and name.endswith(" OPT"))
    frame = pl.read_csv(reference("golden", "tables", "sdctable", "in_microdata1.csv"))
    cells = dc.tabulate(frame, ["region", "gender"])
    listed = pl.read_csv(reference("golden", "tables", "sdctable", "p_microdata1_cells.csv"))
    sensitive = [
        {name: row[f"{name}_o"] if row[f"{name}_o"].lower() != "total" else "Total" for name in ("region", "gender")}
        for row, state in zip(listed.iter_rows(named=True), summary[case]["status"], strict=True)
        if state == "u"
    ]
    found = optimal(cells.mark(sensitive, "unsafe"), cost="frequency")
    assert found.cost <= summary[case]["secondary_freq_sum"]
