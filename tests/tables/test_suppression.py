"""The front of complementary suppression: engines, options, audit."""

from __future__ import annotations

import doctest
from importlib import import_module

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.tables.suppression import engine_of


@pytest.fixture
def cells() -> dc.Cells:
    given = pl.DataFrame({"row": list("aaabbb"), "col": list("xyzxyz"), "n": [1, 20, 30, 25, 9, 40]})
    return dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])


@pytest.mark.parametrize(
    "engine", ["elimination", "levels", "optimal", dc.Levels(clean=0), {"optimal": {"seconds": 9}}]
)
def test_every_engine_is_followed_by_the_audit(cells: dc.Cells, engine: object) -> None:
    done = cells.suppress(engine)
    assert done.cells.secondary.any() and (done.cells.primary == cells.primary).all()
    assert done.audit.cells is done.cells and done.holds == done.cells.audit().holds
    assert done.engine is not None and done.engine.kind in repr(done)
    assert not cells.secondary.any()


def test_options_reach_the_engine(cells: dc.Cells) -> None:
    done = cells.suppress("elimination", singletons=False, cost="unit")
    assert done.engine == dc.Elimination(singletons=False)
    assert engine_of("optimal", {"seconds": 3}) == dc.Optimal(seconds=3)
    for engine, options in (("simplex", {}), ("levels", {"speed": 1}), (dc.Levels(), {"clean": 1}), ("mdav", {})):
        with pytest.raises(dc.PlanError):
            engine_of(engine, options)
    with pytest.raises(dc.PlanError, match="inside"):
        engine_of({"levels": {}}, {"clean": 1})
    with pytest.raises(dc.PlanError):
        engine_of({"threshold": {}}, {})


def test_costs_decide(cells: dc.Cells) -> None:
    cost = np.ones(len(cells))
    cost[cells.index({"row": "a", "col": "y"})] = 1000
    assert not cells.suppress("optimal", cost=cost).cells.secondary[cells.index({"row": "a", "col": "y"})]
    with pytest.raises(dc.PlanError, match="cost"):
        cells.suppress(cost="weight")


def test_by_hand(cells: dc.Cells) -> None:
    poor = cells.suppress_by_hand({"row": "a", "col": "y"})
    assert not poor.holds and poor.engine is None and poor.audit.counts["disclosed"] == 1
    good = cells.suppress_by_hand(cells.suppress("levels").cells.secondary)
    assert good.holds


def test_audit_options_and_nothing_to_do(cells: dc.Cells) -> None:
    assert cells.suppress(audit={"attacker": "outsider"}).audit.attacker != cells.suppress().audit.attacker
    safe = cells.mark({"row": "a", "col": "x"}, "safe")
    assert safe.suppress().holds and not safe.suppress().cells.suppressed.any()


def test_tables_that_cannot_be_suppressed(cells: dc.Cells) -> None:
    with pytest.raises(dc.PlanError, match="other values"):
        cells.with_released(cells.value).suppress()
    given = pl.DataFrame(
        {"row": ["a", "b", "Total"], "n": [None, None, 5.0], "status": ["u", "x", "s"], "k": [1, 2, 3]}
    )
    with pytest.raises(dc.PlanError, match="no value"):
        dc.tables.from_cells(given, ["row"], "n", count="k", status="status").suppress()


def test_infeasible_names_the_cells(cells: dc.Cells) -> None:
    stuck = cells.mark([{"row": "a", "col": ["Total", "y", "z"]}], "must-publish")
    for engine in ("elimination", "levels", "optimal"):
        with pytest.raises(dc.Infeasible, match="row=a, col="):
            stuck.suppress(engine)


@pytest.mark.parametrize("name", ["suppression", "elimination", "engines.algorithms"])
def test_docstrings(name: str) -> None:
    result = doctest.testmod(import_module(f"discretion.tables.{name}"), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0 and result.failed == 0
