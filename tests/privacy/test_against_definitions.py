"""Each model about sensitive values, on random small tables, against its definition in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

import discretion as dc

from . import naive

CASES: dict[str, tuple[Callable[[], Any], Callable, Callable]] = {
    "distinct": (lambda: dc.DistinctLDiversity(l=1, **NAMED), naive.distinct, min),
    "entropy": (lambda: dc.EntropyLDiversity(l=1, **NAMED), lambda q, p: math.exp(naive.entropy(q, p)), min),
    "recursive 1": (lambda: dc.RecursiveLDiversity(c=1, l=1, **NAMED), naive.recursive(1), max),
    "recursive 2": (lambda: dc.RecursiveLDiversity(c=1, l=2, **NAMED), naive.recursive(2), max),
    "recursive 3": (lambda: dc.RecursiveLDiversity(c=1, l=3, **NAMED), naive.recursive(3), max),
    "ordered": (lambda: dc.TCloseness(t=0.1, **NAMED), naive.ordered, max),
    "equal": (lambda: dc.TCloseness(t=0.1, distance="equal", **NAMED), naive.equal, max),
    "beta": (lambda: dc.BetaLikeness(beta=1, enhanced=False, **NAMED), naive.beta, max),
    "delta": (lambda: dc.DeltaDisclosure(delta=1, **NAMED), naive.delta, max),
    "alpha": (lambda: dc.AlphaK(alpha=1, k=1, **NAMED), naive.largest_share, max),
    "p": (lambda: dc.PSensitive(p=1, k=1, **NAMED), naive.distinct, min),
}
NAMED = {"columns": ["q"], "sensitive": ["s"]}


@pytest.mark.parametrize("case", CASES)
@given(rows=naive.TABLES)
@settings(max_examples=60, deadline=None)
def test_value(case: str, rows: naive.Rows) -> None:
    make, definition, pick = CASES[case]
    model = make()
    if len({s for _, s in rows}) < getattr(model, "l", 1):
        with pytest.raises(dc.PlanError, match="only"):
            model(naive.frame(rows))
        return
    assert model(naive.frame(rows)).value == pytest.approx(naive.worst(rows, definition, pick), abs=1e-12)


def failing_records(rows: naive.Rows, breaks: Callable[[list, list], bool]) -> int:
    everybody = [s for _, s in rows]
    return sum(len(members) for members in naive.by_class(rows).values() if breaks(members, everybody))


def beats(members: list, everybody: list, bound: float) -> bool:
    """Tell whether a value's gain is above min(bound, −ln P)."""
    for value in set(everybody):
        p = float(naive.share(everybody, value))
        if float(naive.share(members, value)) / p - 1 > min(bound, -math.log(p)) + 1e-12:
            return True
    return False


BOUNDS: list[tuple[Callable[[], Any], Callable[[list, list], bool]]] = [
    (lambda: dc.EntropyLDiversity(l=2, **NAMED), lambda q, p: naive.entropy(q, p) < math.log(2) - 1e-12),
    (lambda: dc.RecursiveLDiversity(c=2, l=2, **NAMED), lambda q, p: naive.recursive(2)(q, p) >= 2),
    (lambda: dc.TCloseness(t=0.25, **NAMED), lambda q, p: naive.ordered(q, p) > 0.25 + 1e-12),
    (lambda: dc.BetaLikeness(beta=0.5, enhanced=False, **NAMED), lambda q, p: naive.beta(q, p) > 0.5 + 1e-12),
    (lambda: dc.BetaLikeness(beta=1.5, **NAMED), lambda q, p: beats(q, p, 1.5)),
    (lambda: dc.DeltaDisclosure(delta=1, **NAMED), lambda q, p: naive.delta(q, p) >= 1 - 1e-12),
    (lambda: dc.AlphaK(alpha=0.5, k=3, **NAMED), lambda q, p: len(q) < 3 or naive.largest_share(q, p) > 0.5),
    (lambda: dc.PSensitive(p=2, k=3, **NAMED), lambda q, p: len(q) < 3 or len(set(q)) < 2),
    (lambda: dc.DistinctLDiversity(l=2, **NAMED), lambda q, p: len(set(q)) < 2),
]


@pytest.mark.parametrize(("make", "breaks"), BOUNDS)
@given(rows=naive.TABLES)
@settings(max_examples=60, deadline=None)
def test_failing_classes(make: Callable[[], Any], breaks: Callable[[list, list], bool], rows: naive.Rows) -> None:
    if len({s for _, s in rows}) < 2:
        return
    verdict = make()(naive.frame(rows))
    assert verdict.failing_records == failing_records(rows, breaks)
    assert verdict.holds == (verdict.failing_records == 0)
    everybody = [s for _, s in rows]
    failing = {q for q, members in naive.by_class(rows).items() if breaks(members, everybody)}
    assert {int(item.key["q"]) for item in verdict.failing} == failing


@given(rows=naive.TABLES)
@settings(max_examples=60, deadline=None)
def test_enhanced_likeness_value_agrees_with_its_verdict(rows: naive.Rows) -> None:
    verdict = dc.BetaLikeness(beta=0.7, **NAMED)(naive.frame(rows))
    assert verdict.holds == (verdict.value <= verdict.required + 1e-12)
