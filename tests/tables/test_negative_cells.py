"""Tables with negative cells: 0 is no bound there, for engines and audits alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError, PlanError
from discretion.tables.attacker import Attacker, Prior
from tests.tables import brute


def table(seed: int, by: Any) -> dc.Cells:
    """Give profits and losses."""
    rng = np.random.default_rng(seed)
    n = 30
    frame = pl.DataFrame(
        {
            "region": rng.choice(list("abc"), n),
            "sector": rng.choice(list("xyz"), n),
            "size": rng.choice(list("12"), n),
            "profit": np.ceil(rng.lognormal(2, 1, n)) * rng.choice([1, -1], n, p=[0.7, 0.3]),
        }
    )
    cells = dc.tabulate(frame, by, "profit")
    return cells.apply_rules([dc.PPercent(percent=20, negatives="absolute")])


@pytest.mark.parametrize("engine", ["elimination", "levels", "optimal"])
@pytest.mark.parametrize("by", [["region", "sector"], [["region", "sector"], ["sector", "size"]]])
@pytest.mark.parametrize("seed", range(3))
def test_engines_and_their_audit_believe_the_same(seed: int, by: Any, engine: str) -> None:
    cells = table(seed, by)
    assert cells.primary.any() and (cells.value < 0).any()
    done = cells.suppress(engine)
    assert done.holds or engine == "elimination"
    for place, cell in enumerate(done.audit.cell.tolist()):
        low, high = brute.one(done.cells, cell, low=-np.inf)
        assert (done.audit.low[place], done.audit.high[place]) == (pytest.approx(low), pytest.approx(high))


def test_sums_that_grow_in_one_part_and_shrink_in_another() -> None:
    frame = pl.DataFrame({"r": list("aabbcc"), "c": list("xyxyxy"), "v": [5.0, -3.0, 4.0, 7.0, 2.0, -6.0]})
    cells = dc.tables.from_cells(frame, ["r", "c"], "v").mark([{"c": "x"}, {"c": "y"}], "unsafe")
    cells = cells.mark([{"r": "a"}, {"r": "b"}, {"r": "c"}], "unsafe")
    cells = cells.mark([{"r": "Total", "c": "x"}, {"r": "Total", "c": "y"}], "plain")
    attacker = Attacker(cells)
    for cell in np.flatnonzero(cells.suppressed).tolist():
        low, high = attacker.interval(cell)
        assert (low, high) == brute.one(cells, cell, low=-np.inf), cells.label(cell)


def test_negative_cells_are_believed_where_there_are_some() -> None:
    cells = table(0, ["region", "sector"])
    assert Prior.of(cells).negative and not Prior.of(cells, {"negative": False}).negative
    assert Prior.of(cells, {"percent": 50}).negative and Prior.of(cells, {"percent": 50}).percent == 50
    with pytest.raises(DataError, match="outside the bounds"):
        cells.with_status(primary=np.ones(len(cells), np.bool_)).audit(prior={"negative": False})


@pytest.mark.parametrize("prior", [{"procent": 3}, {"percent": "many"}, {"percent": 0}, "percent", 3, {"lower": [1.0]}])
def test_a_prior_that_is_none(prior: Any) -> None:
    with pytest.raises(PlanError, match="prior"):
        table(0, ["region", "sector"]).audit(prior=prior)


def test_a_cell_whose_contributions_cancel_out_may_be_suppressed() -> None:
    frame = pl.DataFrame(
        {"r": list("aabbab"), "c": list("xyxyyy"), "v": [5.0, -3.0, 4.0, 7.0, 3.0, 6.0]},
    )
    cells = dc.tabulate(frame, ["r", "c"], "v")
    assert cells.value[cells.index({"r": "a", "c": "y"})] == 0
    cells = cells.mark({"r": "a", "c": "x"}, "unsafe").mark({"r": "a"}, "plain")
    cells = cells.mark([{"r": "Total"}, {"r": "b", "c": "Total"}], "must-publish").mark(
        {"r": "a", "c": "Total"}, "must-publish"
    )
    for engine in ("levels", "optimal"):
        assert cells.suppress(engine).holds


def test_tables_that_protect_sums_too_are_handed_on_to_the_audit() -> None:
    """The levels keep respondents from a sum of gaps, which is no cell of the table that is audited then."""
    frame = pl.DataFrame(
        {
            "r": list("adbbaccadadabdaab"),
            "c": list("zyxxxyzzyyxyyzzyx"),
            "v": [16.0, 40.0, -11.0, 7.0, 11.0, 17.0, 5.0, 11.0, 6.0, 18.0, 195.0, -26.0, 269.0, -9.0, 6.0, 15.0, 23.0],
            "firm": [0, 11, 2, 3, 4, 5, 6, 10, 8, 6, 10, 11, 12, 13, 14, 2, 16],
        }
    )
    rules = [dc.PPercent(percent=10, negatives="absolute"), dc.Threshold(minimum=3, range_percent=10)]
    assert dc.tabulate(frame, ["r", "c"], "v", contributor="firm").apply_rules(rules).suppress("levels").holds
