from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.tables.restructure import rolled_up

from . import naive


def table(seed: int, n: int = 80, firms: int = 0) -> dc.Cells:
    frame = naive.records(np.random.default_rng(seed), n, firms=firms)
    return dc.tabulate(frame, ["region", "sector"], "money", hierarchies={"region": naive.REGION},
                       contributor="firm" if firms else None)  # fmt: skip


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([dc.Threshold(minimum=6), dc.PPercent(percent=40)]), st.booleans())
def test_nothing_is_sensitive_afterwards_and_the_steps_can_be_repeated(
    seed: int, rule: dc.Threshold, firms: bool
) -> None:
    cells = table(seed, firms=15 if firms else 0)
    if rule(cells)[0]:
        with pytest.raises(dc.Infeasible):
            cells.restructure([rule])
        return
    found = cells.restructure([rule])
    assert not found.cells.primary.any() and not rule(found.cells).any()
    assert found.cells.value[0] == pytest.approx(cells.value[0]) and found.cells.count[0] == cells.count[0]
    assert found.lost == len(cells) - len(found.cells)
    again = rolled_up(cells, found.steps)
    assert again.value.tolist() == found.cells.value.tolist() and again.top.tolist() == found.cells.top.tolist()
    labels = {tuple(cells.label(i).values()): cells.value[i] for i in range(len(cells))}
    for i in range(len(again)):
        key = tuple(again.label(i).values())
        if not any("+" in part for part in key):
            assert again.value[i] == pytest.approx(labels[key])


def test_the_cheapest_group_is_closed_first() -> None:
    frame = pl.DataFrame({"r": list("aaabbb") + list("cccd") + ["e"] * 5 + ["f"] * 5})
    cells = dc.tabulate(frame, ["r"], hierarchies={"r": {"Total": {"P": ["a", "b"], "Q": ["c", "d"], "R": ["e", "f"]}}})
    found = cells.restructure([dc.Threshold(minimum=2)])
    assert found.steps == ({"variable": "r", "roll_up": "Q"},)
    assert found.dims[0].codes == ("Total", "P", "a", "b", "Q", "R", "e", "f")
    assert found.lost == 2


def test_ordered_categories_join_their_neighbors() -> None:
    frame = pl.DataFrame({"age": [1] * 5 + [2] * 4 + [3] + [4] * 2 + [5] * 9})
    found = dc.tabulate(frame, ["age"]).restructure([dc.Threshold(minimum=2)], ordered=["age"])
    assert found.steps == ({"variable": "age", "merge": ["2", "3"]},)


def test_what_may_not_be_touched_makes_it_infeasible() -> None:
    cells = table(0)
    with pytest.raises(dc.Infeasible, match="free a variable in `keep`"):
        cells.restructure([dc.Threshold(minimum=30)], keep=["region", "sector"])
    with pytest.raises(dc.Infeasible, match="loosen the rules"):
        cells.restructure([dc.Threshold(minimum=200)])
    with pytest.raises(dc.PlanError, match="unknown variable"):
        cells.restructure([dc.Threshold()], keep=["regio"])


def test_decisions_stay_with_their_cells() -> None:
    cells = table(3).mark({"region": "N", "sector": "Total"}, "must-publish")
    found = rolled_up(cells, [{"variable": "region", "roll_up": "N"}])
    assert found.status.must_publish.nonzero()[0].tolist() == [found.index({"region": "N"})]


def test_bad_steps_are_refused() -> None:
    with pytest.raises(dc.PlanError, match="only leaves below the same code"):
        rolled_up(table(0), [{"variable": "region", "merge": ["a", "d"]}])
    ready = dc.tables.from_cells(pl.DataFrame({"a": ["x", "y"], "k": [1, 5]}), ["a"], count="k")
    with pytest.raises(dc.PlanError, match="ready-made"):
        ready.restructure([dc.Threshold()])


def test_a_group_that_is_sensitive_although_its_parts_are_not() -> None:
    # nobody lives in S: whoever is in the table lives in N
    frame = pl.DataFrame({"town": list("aaabbb")})
    tree = {"Total": {"N": ["a", "b"], "S": ["c", "d"]}}
    cells = dc.tabulate(frame, ["town"], hierarchies={"town": tree})
    rule = dc.GroupDisclosure()
    assert rule(cells).nonzero()[0].tolist() == [cells.index({"town": "N"})]
    found = cells.restructure([rule])
    assert [dict(step) for step in found.steps] == [
        {"variable": "town", "roll_up": "N"},
        {"variable": "town", "roll_up": "S"},
        {"variable": "town", "merge": ["N", "S"]},
    ]
    assert not found.cells.primary.any()


def test_cells_declared_unsafe_stay_so() -> None:
    cells = table(3).mark({"region": "N", "sector": "Total"}, "unsafe")
    found = rolled_up(cells, [{"variable": "region", "roll_up": "N"}])
    assert found.primary.nonzero()[0].tolist() == [found.index({"region": "N"})]
    assert found.apply_rules([dc.Threshold(minimum=1)]).primary.sum() == 1
