"""The interval audit: widths hold for every possible sum, and nothing depends on the sum before it is told."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from discretion.errors import PlanError
from discretion.online.audit import AnsweredSum, Band, IntervalAudit

Told = list[tuple[NDArray[np.int64], AnsweredSum]]


def naive_widths(people: int, told: Told, lower: float, upper: float) -> list[float]:
    """Compute everybody's interval by one linear program per person and side, without atoms."""
    equal, equal_to, most, most_to = [], [], [], []
    for members, response in told:
        row = np.zeros(people)
        row[members] = 1
        if response.kind == "exact":
            equal.append(row), equal_to.append(response.value)
        elif response.kind != "withheld":
            sign = 1 if response.kind == "at most" else -1
            most.append(sign * row), most_to.append(sign * (response.value or 0.0))
    widths = []
    for person in range(people):
        ends = []
        for sign in (1, -1):
            cost = np.zeros(people)
            cost[person] = sign
            found = linprog(
                cost, np.array(most) if most else None, most_to or None, np.array(equal) if equal else None,
                equal_to or None, (lower, upper),
            )  # fmt: skip
            assert found.status == 0
            ends.append(sign * found.fun)
        widths.append(ends[1] - ends[0])
    return widths


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6))
def test_everybody_stays_as_uncertain_as_wanted(seed: int) -> None:
    """Also for values that attack: many at the bounds, so that sums are extreme."""
    rng = np.random.default_rng(seed)
    people, width = int(rng.integers(4, 8)), float(rng.uniform(5, 40))
    values = rng.choice([0.0, 100.0, float(rng.uniform(0, 100))], people, p=[0.4, 0.2, 0.4])
    audit, told = IntervalAudit(people, 0, 100), []
    for _ in range(5):
        members = np.flatnonzero(rng.random(people) < rng.uniform(0.3, 1))
        if len(members) == 0:
            continue
        response = AnsweredSum.to(float(values[members].sum()), audit.band(members, width=width))
        audit.tell(members, response)
        told.append((members, response))
    assert min(naive_widths(people, told, 0, 100)) >= width - 1e-3


def test_the_band_is_as_wide_as_it_can_be() -> None:
    """Just outside the band somebody is narrower than wanted."""
    rng, told = np.random.default_rng(1), []
    audit = IntervalAudit(6, 0, 10)
    values = rng.uniform(2, 8, 6)
    for members in (np.arange(6), np.array([0, 1, 2])):
        band = audit.band(members, width=2)
        assert band is not None
        for edge, inside in ((band.low - 0.01, band.low + 0.01), (band.high + 0.01, band.high - 0.01)):
            outside = naive_widths(6, [*told, (members, AnsweredSum("exact", edge))], 0, 10)
            assert min(outside) < 2 <= min(naive_widths(6, [*told, (members, AnsweredSum("exact", inside))], 0, 10))
        response = AnsweredSum.to(float(values[members].sum()), band)
        audit.tell(members, response)
        told.append((members, response))


def test_two_data_sets_with_equal_responses_have_equal_decisions() -> None:
    """What is decided reads responses only: other values behind the same responses change nothing."""
    for values in (np.array([10.0, 30.0, 20.0, 40.0, 50.0]), np.array([20.0, 20.0, 20.0, 35.0, 55.0])):
        audit, bands = IntervalAudit(5, 0, 100), []
        for members in (np.arange(5), np.array([0, 1, 2]), np.array([1, 2, 3, 4]), np.array([0, 1])):
            bands.append(audit.band(members, width=10))
            if len(bands) < 3:
                audit.tell(members, AnsweredSum.to(float(values[members].sum()), bands[-1]))
        if values[0] == 10.0:
            first = bands
    assert first == bands


def test_a_person_alone_is_withheld_and_extremes_are_bounds() -> None:
    audit = IntervalAudit(10, 0, 100)
    assert audit.band(np.array([3]), width=1) is None
    band = audit.band(np.arange(10), width=20)
    assert band == Band(20.0, 980.0)
    assert AnsweredSum.to(0, band) == AnsweredSum("at most", 20.0) and AnsweredSum.to(20, band) == AnsweredSum(
        "at most", 20.0
    )
    assert AnsweredSum.to(1000, band) == AnsweredSum("at least", 980.0) and AnsweredSum.to(500, band) == AnsweredSum(
        "exact", 500.0
    )
    assert AnsweredSum.to(500, None) == AnsweredSum("withheld")
    audit.tell(np.arange(10), AnsweredSum("exact", 500.0))
    assert audit.band(np.arange(9), width=20) is None  # the difference is one person
    assert AnsweredSum.to(500, audit.band(np.arange(10), width=20)) == AnsweredSum("exact", 500.0)  # told again


def test_what_was_told_as_a_bound_is_told_so_again() -> None:
    audit = IntervalAudit(10, 0, 100)
    for members, total in ((np.arange(5), 3.0), (np.arange(5, 10), 495.0)):
        first = AnsweredSum.to(total, audit.band(members, width=20))
        audit.tell(members, first)
        assert first.kind != "exact" and AnsweredSum.to(total, audit.band(members, width=20)) == first


def integer_widths(people: int, told: Told) -> list[int]:
    """Go through all yes/no values."""
    possible = []
    for values in product((0, 1), repeat=people):
        held = True
        for members, response in told:
            total, value = sum(values[i] for i in members), response.value
            held &= {
                "exact": total == value, "at most": value is not None and total <= value,
                "at least": value is not None and total >= value, "withheld": True,
            }[response.kind]  # fmt: skip
        if held:
            possible.append(values)
    return [max(v[i] for v in possible) - min(v[i] for v in possible) for i in range(people)]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6))
def test_yes_and_no_stay_possible(seed: int) -> None:
    rng = np.random.default_rng(seed)
    people = int(rng.integers(2, 9))
    values = (rng.random(people) < rng.choice([0.1, 0.5, 0.95])).astype(float)
    audit, told = IntervalAudit(people, 0, 1, integral=True), []
    for _ in range(6):
        members = np.flatnonzero(rng.random(people) < rng.uniform(0.2, 1))
        response = AnsweredSum.to(float(values[members].sum()), audit.band(members, width=1))
        audit.tell(members, response)
        told.append((members, response))
    assert min(integer_widths(people, told)) == 1


def test_yes_no_counts_are_told_while_sets_are_nested() -> None:
    audit = IntervalAudit(8, 0, 1, integral=True)
    assert audit.band(np.arange(8), width=1) == Band(1.0, 7.0)
    audit.tell(np.arange(8), AnsweredSum("exact", 4.0))
    assert audit.band(np.arange(4), width=1) == Band(1.0, 3.0)
    audit.tell(np.arange(4), AnsweredSum("exact", 2.0))
    assert audit.band(np.arange(2, 6), width=1) is None  # crosses an answered set


def test_knowledge_growth_and_limits() -> None:
    audit = IntervalAudit(6, 0, 1)
    audit.know([2])
    assert audit.band(np.array([1, 2, 3]), width=0.1) is None and audit.band(np.array([0, 1, 3]), width=0.1) is not None
    audit.tell(np.array([0, 1, 3]), AnsweredSum("exact", 1.0))
    audit.extend(2)
    assert audit.people == 8
    assert audit.band(np.array([0, 1, 3, 6]), width=0.1) is None
    assert audit.band(np.array([0, 1, 3, 6, 7]), width=0.1) is not None
    small = IntervalAudit(6, 0, 1, most_atoms=1)
    small.tell(np.array([0, 1, 2]), AnsweredSum("exact", 1.5))
    assert small.band(np.array([0, 1]), width=0.1) is None
    for wrong in ((0, 1, 2.0), (0, 1, 0.0)):
        with pytest.raises(PlanError):
            IntervalAudit(3, *wrong[:2]).band(np.arange(3), width=wrong[2])
    with pytest.raises(PlanError):
        IntervalAudit(3, 1, 1)
