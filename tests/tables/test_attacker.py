"""The attacker's intervals are those of dense linear programs over all inner cells."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError, PlanError
from discretion.tables.attacker import Attacker, Prior
from tests.shared import reference
from tests.tables import brute

KINDS = ("flat", "tree", "three", "linked")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_intervals_are_those_of_brute_force(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = brute.random_gaps(rng, brute.table(rng, kind), (0.1, 0.4, 0.8)[seed % 3])
    attacker = Attacker(cells)
    for cell in rng.choice(len(cells), min(len(cells), 12), replace=False).tolist():
        assert attacker.interval(cell) == pytest.approx(brute.one(cells, cell), abs=1e-6), cell


@pytest.mark.parametrize("seed", range(6))
def test_prior_knowledge_narrows_intervals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = brute.random_gaps(rng, brute.table(rng, "tree"), 0.5)
    value = cells.value
    low, high = value * rng.uniform(0.3, 1, len(cells)), value * rng.uniform(1, 2, len(cells))
    attacker = Attacker(cells, prior=Prior(percent=40, lower=low, upper=high))
    own = cells.inner_cell
    inner = np.maximum(low, 0.6 * value)[own], np.minimum(high, 1.4 * value)[own]
    wide = Attacker(cells)
    for cell in np.flatnonzero(cells.suppressed)[:10].tolist():
        found = attacker.interval(cell)
        outer, loose = wide.interval(cell), brute.one(cells, cell, low=inner[0], high=inner[1])
        assert found[0] >= max(outer[0], loose[0], low[cell], 0.6 * value[cell]) - 1e-6
        assert found[1] <= min(outer[1], loose[1], high[cell], 1.4 * value[cell]) + 1e-6
        assert found[0] - 1e-6 <= value[cell] <= found[1] + 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_prior_bounds_of_inner_cells_equal_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = brute.random_gaps(rng, brute.table(rng, "flat"), 0.6)
    cells = cells.with_status(secondary=cells.secondary & np.isin(np.arange(len(cells)), cells.inner_cell))
    cells = cells.with_status(primary=cells.primary & np.isin(np.arange(len(cells)), cells.inner_cell))
    attacker = Attacker(cells, prior=Prior(percent=30))
    v = cells.inner_value
    for cell in np.flatnonzero(cells.suppressed).tolist():
        assert attacker.interval(cell) == pytest.approx(brute.one(cells, cell, low=0.7 * v, high=1.3 * v), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_negative_values_leave_intervals_open(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = brute.random_gaps(rng, brute.table(rng, kind), 0.4)
    attacker = Attacker(cells, prior=Prior(negative=True))
    for cell in np.flatnonzero(cells.suppressed)[:8].tolist():
        found, want = attacker.interval(cell), brute.one(cells, cell, low=-np.inf)
        assert found == pytest.approx(want, abs=1e-6)
        assert found == (-np.inf, np.inf) or found[0] == pytest.approx(found[1], abs=1e-6)


def test_without_values_the_intervals_are_the_same() -> None:
    rng = np.random.default_rng(3)
    full = pl.DataFrame({"r": list("aaabbbccc"), "c": list("xyzxyzxyz"), "v": rng.integers(1, 50, 9).astype(float)})
    full = full.with_columns(s=pl.Series(["u", "x", "", "x", "x", "", "", "", ""]))
    totals = [
        *(full.group_by(k).agg(pl.col("v").sum()).with_columns(pl.lit("Total").alias(o), pl.lit("").alias("s"))
          for k, o in (("r", "c"), ("c", "r"))),
        pl.DataFrame({"r": ["Total"], "c": ["Total"], "v": [full["v"].sum()], "s": [""]}),
    ]  # fmt: skip
    full = pl.concat([full, *(t.select(full.columns) for t in totals)])
    gaps = full.with_columns(v=pl.when(pl.col("s") != "").then(None).otherwise(pl.col("v")))
    known, blind = (dc.tables.from_cells(f, ["r", "c"], "v", status="s") for f in (full, gaps))
    for cell in np.flatnonzero(known.suppressed).tolist():
        assert Attacker(blind).interval(cell) == pytest.approx(Attacker(known).interval(cell), abs=1e-6)


def test_published_cells_are_known_and_unpublished_totals_endless() -> None:
    frame = pl.DataFrame({"r": list("ab"), "v": [3.0, 4.0]})
    cells = dc.tables.from_cells(frame, ["r"], "v")
    attacker = Attacker(cells, suppressed=np.array([True, True, False]))
    assert [attacker.interval(i) for i in range(3)] == [(4.0, np.inf), (0.0, np.inf), (4.0, 4.0)]
    assert "2" not in repr(Attacker(cells)) and "0 unknowns" in repr(Attacker(cells))


def test_bad_input() -> None:
    cells = dc.tables.from_cells(pl.DataFrame({"r": list("ab"), "v": [3.0, -4.0]}), ["r"], "v").mark(
        {"r": "b"}, "unsafe"
    )
    with pytest.raises(DataError, match="1 suppressed cells lie outside"):
        Attacker(cells, prior=Prior())
    with pytest.raises(PlanError, match="one per cell"):
        Attacker(cells, suppressed=np.array([True]))
    with pytest.raises(PlanError, match="3 entries"):
        Attacker(cells, prior=Prior(lower=np.zeros(2)))
    with pytest.raises(PlanError, match="percent"):
        Prior(percent=0)
    with pytest.raises(PlanError, match="other values"):
        Attacker(cells.with_released(cells.value))


@pytest.mark.peers
def test_intervals_of_sdctable() -> None:
    given = pl.read_csv(
        reference("golden", "tables", "sdctable", "problemdata_cells.csv"), schema_overrides={"strID": pl.String}
    )
    frame = given.with_columns(pl.col("v1_o", "v2_o").replace("tot", "Total"))
    cells = dc.tables.from_cells(frame, ["v1_o", "v2_o"], count="freq", status="sdcStatus")
    attack = json.loads(reference("golden", "tables", "problemdata_golden.json").read_text())["attack_before"]
    names = {row["strID"]: (row["v1_o"], row["v2_o"]) for row in frame.iter_rows(named=True)}
    found = cells.audit(prior={"empty": True})  # sdcTable's attacker does not know that listed cells are not empty
    assert len(attack) == len(found.cell) == 9
    for row in attack:
        cell = cells.index(dict(zip(("v1_o", "v2_o"), names[row["strID"]], strict=True)))
        assert found.of(cell) == pytest.approx((row["low"], row["up"]))
        assert (found.status[list(found.cell).index(cell)] == "protected") == row["protected"]
