"""The front of complementary suppression: engines, options, audit."""

from __future__ import annotations

import doctest
import itertools
import time
from importlib import import_module

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import PlanError, RequirementNotMet
from discretion.part import kinds
from discretion.tables.engines import engine_of


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


@pytest.mark.parametrize("name", ["suppression", "elimination", "engines"])
def test_docstrings(name: str) -> None:
    result = doctest.testmod(import_module(f"discretion.tables.{name}"), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0 and result.failed == 0


def establishments(owners: dict[tuple[str, str], str]) -> pl.DataFrame:
    """Give a table of 3 regions by 4 sectors with six small firms in every cell but some of one owner each."""
    rows: list[tuple[str, str, str, float]] = []
    for r, region in enumerate("NSW"):
        for s, sector in enumerate(("food", "steel", "wood", "other")):
            if (region, sector) in owners:
                rows.append((region, sector, owners[region, sector], 100.0 + 25 * s))
            else:
                rows += [(region, sector, f"{region}{sector}{i}", 37.0 + i + (r + s) % 4) for i in range(6)]
    return pl.DataFrame(rows, schema=["region", "sector", "firm", "turnover"], orient="row")


@pytest.mark.parametrize("engine", kinds("table-engine"))
def test_coalitions_of_a_rule_attack_unless_somebody_says_more(engine: str) -> None:
    firms = establishments({("N", "food"): "A", ("N", "steel"): "B", ("N", "wood"): "C"})
    table = dc.tabulate(firms, ["region", "sector"], "turnover", contributor="firm")
    alone = table.apply_rules([dc.PPercent(percent=10)]).suppress(engine)
    pairs = table.apply_rules([dc.PPercent(percent=10), dc.PPercent(percent=5, coalition=2)])
    assert (table.coalition, pairs.coalition) == (1, 2)
    done = pairs.suppress(engine)
    assert done.engine is not None and done.engine.coalition == 2 and done.holds
    assert "coalitions of up to 2" in done.audit.summary
    # two owners subtract their own cells from what the gaps of their row add up to: another two must be left
    row = done.cells.where({"region": "N", "sector": ["food", "steel", "wood", "other"]})
    assert int((done.cells.suppressed & row).sum()) == 4
    again = pairs.with_status(secondary=alone.cells.secondary)
    assert int((alone.cells.suppressed & row).sum()) == 3 and not again.audit(attacker="contributors").holds
    for call in (
        lambda: pairs.suppress(engine, coalition=1),
        lambda: done.cells.audit(attacker="contributors", coalition=1),
    ):
        with pytest.raises(PlanError, match="more respondents together"):
            call()


@pytest.mark.parametrize("engine", kinds("table-engine"))
@pytest.mark.parametrize("rule", [dc.PPercent(percent=10), dc.Threshold(minimum=3)])
def test_the_gaps_of_a_row_do_not_add_up_to_one_firm(engine: str, rule: dc.PPercent | dc.Threshold) -> None:
    firms = establishments({("N", "food"): "A", ("N", "steel"): "A"})
    cells = dc.tabulate(firms, ["region", "sector"], "turnover", contributor="firm").apply_rules([rule])
    done = cells.suppress(engine)
    assert done.holds
    total = float(firms.filter(pl.col("firm") == "A")["turnover"].sum())
    row = np.flatnonzero(done.cells.where({"region": "N"}))
    shown = {
        c["sector"]: v for c, v in ((cells.label(int(i)), cells.value[i]) for i in row if not done.cells.suppressed[i])
    }
    assert shown.pop("Total") - sum(shown.values()) > total  # the gaps add up to more than the firm's own
    bare = cells.suppress("optimal", audit={"rules": ()})
    assert bare.holds and "Sums of suppressed cells were not judged" in bare.audit.summary
    found = bare.cells.audit()
    assert not found.holds and found.sums is not None and found.sums.value.tolist() == [total]
    assert "Remedy" in found.summary
    with pytest.raises(RequirementNotMet, match="sums of suppressed cells"):
        bare.cells.publish("unused.csv")


def test_a_sum_that_cannot_be_protected_fails_the_audit() -> None:
    firms = establishments({("N", "food"): "A", ("N", "steel"): "A"})
    cells = dc.tabulate(firms, ["region", "sector"], "turnover", contributor="firm")
    cells = cells.mark({"region": "N", "sector": ["wood", "other", "Total"]}, "must-publish")
    done = cells.apply_rules([dc.PPercent(percent=10)]).suppress("optimal")
    assert not done.holds and done.audit.sums is not None and len(done.audit.sums.members) == 1
    assert not len(done.audit.failing) and "1 of them not protected" in done.audit.summary


def test_the_seconds_of_an_engine_bound_the_whole_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that runs with every look at it: start, search and audit end after about as many looks."""
    rng = np.random.default_rng(5)
    columns = {"row": np.repeat(np.arange(12), 12), "col": np.tile(np.arange(12), 12), "n": rng.integers(1, 20, 144)}
    cells = dc.tables.from_cells(pl.DataFrame(columns), ["row", "col"], count="n")
    cells = cells.apply_rules([dc.Threshold(minimum=5)])
    spent = []
    for seconds in (0.5, 2.0, 1000.0):
        begin = time.monotonic()
        looks = itertools.count(begin, 0.02)
        monkeypatch.setattr(time, "monotonic", lambda looks=looks: next(looks))
        done = cells.suppress("optimal", seconds=seconds)
        spent.append(next(looks) - begin)
        monkeypatch.undo()
        assert not done.holds or done.cells.audit().holds  # what is said in haste is true
    assert spent[0] <= 0.5 + 1 and spent[1] <= 2 + 1
    assert spent[2] > 2 + 1  # what it takes without haste
