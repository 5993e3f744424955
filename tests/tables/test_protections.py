"""A protection that a plan names does what the call on the table does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import discretion as dc
from discretion.context import Context
from discretion.part import all_parts, parse
from discretion.tables.audit import audit_perturbed
from discretion.tables.cells import Cells
from discretion.tables.protections import Asked, Protection

RULES = [dc.Threshold(minimum=4)]


@pytest.fixture(scope="module")
def cells() -> Cells:
    people = dc.tables.with_record_keys(dc.datasets.census(400, seed=1), seed=7)
    made = dc.tabulate(people, ["region", "education"], weight=False, record_key="record_key")
    return made.apply_rules(RULES)


CALLS: dict[str, tuple[dict[str, Any], Callable[[Cells], Any]]] = {
    "suppress": (
        {"engine": "levels", "singletons": False},
        lambda cells: cells.suppress("levels", singletons=False),
    ),
    "restructure": ({"ordered": ["education"]}, lambda cells: cells.restructure(RULES, ordered=["education"])),
    "round-random": ({"base": 5}, lambda cells: cells.round_random(5, seed=3)),
    "round-controlled": ({"base": 3, "max_steps": 1}, lambda cells: cells.round_controlled(3, max_steps=1)),
    "adjust": ({"spread_percent": 50}, lambda cells: cells.adjust(spread_percent=50, seed=3)),
    "perturb": ({"variance": 2, "maximum": 5}, lambda cells: cells.perturb(variance=2, maximum=5)),
}


def test_every_protection_is_compared() -> None:
    assert {part.kind for part in all_parts("table-protection")} == set(CALLS)


@pytest.mark.parametrize("kind", CALLS)
def test_the_same_table_as_by_the_call(cells: Cells, kind: str) -> None:
    options, call = CALLS[kind]
    part = parse({kind: options}, "table-protection")
    assert isinstance(part, Protection)
    found, expected = part(cells, RULES, seed=3).cells, call(cells).cells
    assert found.dims == expected.dims or [d.codes for d in found.dims] == [d.codes for d in expected.dims]
    assert np.array_equal(found.suppressed, expected.suppressed)
    for one, other in ((found.value, expected.value), (found.status.released, expected.status.released)):
        assert (one is None and other is None) or np.array_equal(one, other, equal_nan=True)


def test_noise_is_judged_by_the_chance_of_the_plan(cells: Cells) -> None:
    part = dc.Perturb(variance=2, maximum=5)
    found = part(cells, RULES)
    for chance in (5, 90):
        judged = part.attack(found, Asked(Context(0), RULES, {"chance_percent": chance}))
        assert judged.failing.tolist() == audit_perturbed(found, chance_percent=chance).failing.tolist()


def test_fields_of_the_engine_stand_beside_it_or_inside() -> None:
    beside, inside = dc.Suppress(engine="levels", clean=2), dc.Suppress(engine={"levels": {"clean": 2}})
    assert beside == inside and parse(beside.to_plan()) == inside
    with pytest.raises(dc.PlanError, match="unknown engine 'level'; did you mean 'levels'"):
        dc.Suppress(engine="level")
    with pytest.raises(dc.PlanError, match="unknown field 'claen'"):
        dc.Suppress(engine="levels", claen=2)
