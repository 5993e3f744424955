"""The linear audit: equal to exact elimination, blind to values, proof against the known attacks."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from discretion.errors import DataError, PlanError, QueryRefused
from discretion.online.audit import SQUARES, SUM, LinearAudit
from discretion.online.audit.linear import is_prime, random_prime
from tests.online.elimination import determined

Mask = NDArray[np.bool_]


def random_masks(rng: np.random.Generator, people: int, count: int) -> Iterator[Mask]:
    """Draw sets of several kinds: dense, thin, intervals, complements, small changes of earlier ones."""
    seen = [np.ones(people, np.bool_)]
    for _ in range(count):
        kind = rng.integers(5)
        if kind == 0:
            mask = rng.random(people) < rng.uniform(0.1, 0.9)
        elif kind == 1:
            low, high = sorted(rng.integers(0, people + 1, 2))
            mask = (np.arange(people) >= low) & (np.arange(people) < high)
        else:
            mask = seen[rng.integers(len(seen))].copy()
            if kind == 2:
                mask = ~mask
            elif kind == 3:
                mask[rng.integers(people)] ^= True
            else:
                mask ^= seen[rng.integers(len(seen))]
        seen.append(mask)
        yield mask


def compare_history(seed: int) -> tuple[int, int]:
    """Let a history run through the audit and through exact elimination; give how many were safe and refused."""
    rng = np.random.default_rng(seed)
    people = int(rng.integers(2, 13))
    audit, rows, refused = LinearAudit(people, primes=1 + seed % 2), [], 0
    for mask in random_masks(rng, people, 16):
        found = determined([*rows, [int(v) for v in mask]])
        verdict = audit.judge([mask])
        assert verdict.safe == (not found)
        if verdict.safe:
            audit.commit()
            rows.append([int(v) for v in mask])
        else:
            refused += 1
    return len(rows), refused


def test_equal_to_exact_elimination() -> None:
    counts = np.array([compare_history(seed) for seed in range(200)])
    assert counts.sum(axis=0).min() > 500  # both verdicts occur often


@pytest.mark.slow
def test_equal_to_exact_elimination_on_many_histories() -> None:
    for seed in range(200, 1000):
        compare_history(seed)


def test_groups_are_judged_together_and_refused_rows_leave_no_trace() -> None:
    rng = np.random.default_rng(5)
    verdicts = []
    for _ in range(150):
        people = int(rng.integers(3, 9))
        audit, rows = LinearAudit(people), []
        for _ in range(6):
            groups = [m for m in random_masks(rng, people, int(rng.integers(1, 4))) if m.any()]
            new = [[int(v) for v in mask] for mask in groups]
            safe = audit.judge(groups).safe
            verdicts.append(safe)
            assert safe == (not determined([*rows, *new]))
            if safe and rng.random() < 0.7:
                audit.commit()
                rows += new
            else:
                audit.discard()
    assert 100 < sum(verdicts) < len(verdicts) - 100


def test_two_groups_together_disclose_what_each_alone_does_not() -> None:
    audit = LinearAudit(5)
    audit.commit([np.array([0, 1, 2, 3, 4])])
    parts = [np.array([0, 1]), np.array([2, 3])]
    assert all(audit.judge([part]).safe for part in parts)
    assert not audit.judge(parts).safe
    assert audit.rank == 1


def test_many_people_against_a_dense_reference() -> None:
    """More people than a block holds, and pivots far away from each other."""
    people, rng = 1700, np.random.default_rng(2)
    audit, rows = LinearAudit(people), []
    base = [rng.random(people) < 0.5 for _ in range(12)]
    for mask in base:
        assert audit.judge([mask]).new_rows == 1
        audit.commit()
        rows.append(mask)
    alone = base[0].copy()
    alone[1650] ^= True  # differs from an answered set by one person
    assert not audit.judge([alone]).safe
    two = base[3].copy()
    two[[5, 1699]] ^= True
    assert audit.judge([two]).safe
    audit.commit()
    one = base[3].copy()
    one[5] ^= True
    assert not audit.judge([one]).safe
    assert audit.judge([two]).new_rows == 0  # asked again: free


def test_dependent_rows_are_free() -> None:
    audit = LinearAudit(6)
    audit.commit([np.array([0, 1, 2]), np.array([3, 4, 5])])
    verdict = audit.judge([np.arange(6), np.array([0, 1, 2])])
    assert verdict.safe and verdict.new_rows == 0
    audit.commit()
    assert audit.rank == 2


def test_large_determinants_do_not_deceive() -> None:
    """Rows whose combination has a large denominator: a set that is told 1/det times over is still told."""
    people = 60
    rng = np.random.default_rng(9)
    rows = [(rng.random(people) < 0.5).astype(int) for _ in range(25)]
    audit = LinearAudit(people)
    for row in rows:
        audit.commit([row.astype(np.bool_)])
    assert audit.rank == 25
    total = np.ones(people, np.bool_)
    assert audit.judge([total]).safe == (not determined([*[list(map(int, r)) for r in rows], [1] * people]))


# --- planted attacks -------------------------------------------------------------------------------------------------


def answer_all(audit: LinearAudit, sets: list[NDArray[np.int64]]) -> list[bool]:
    """Ask one after the other; what is safe is answered."""
    verdicts = []
    for members in sets:
        verdicts.append(audit.judge([members]).safe)
        if verdicts[-1]:
            audit.commit()
    return verdicts


def test_the_nine_students() -> None:
    import discretion as dc

    students = dc.datasets.students().frame
    electrical = (students["major"] == "EE").to_numpy()
    men = (students["sex"] == "male").to_numpy()
    audit = LinearAudit(9)
    assert students.filter(electrical)["income"].sum() == 240_000
    assert audit.judge([electrical]).safe
    audit.commit()
    assert not audit.judge([electrical & men]).safe


def test_the_general_tracker() -> None:
    """q(C) = q(C or T) + q(C or not T) − q(all): four large sets tell a small one."""
    people = np.arange(20)
    target, tracker = np.array([7]), np.arange(10)
    others = np.setdiff1d(people, tracker)
    padded = [np.union1d(target, tracker), np.union1d(target, others)]
    verdicts = answer_all(LinearAudit(20), [tracker, others, *padded])
    assert verdicts == [True, True, True, False]


def test_the_double_tracker() -> None:
    """q(C) = q(U) + q(C or T) − q(T) − q(not (C and T) and U), with T inside U."""
    inner, outer, target = np.arange(6), np.arange(12), np.array([3])
    rest = np.setdiff1d(outer, np.intersect1d(target, inner))
    assert answer_all(LinearAudit(20), [outer, inner, rest]) == [True, True, False]


def test_a_difference_attack_in_steps() -> None:
    """Sums of nested sets that shrink by two are fine; then one that shrinks by one is not."""
    sets = [np.arange(k) for k in (20, 18, 16, 14, 13)]
    assert answer_all(LinearAudit(20), sets) == [True, True, True, True, False]


def test_overlapping_groups() -> None:
    """a+b, b+c and a+c determine all three; a+b, c+d, a+c, b+d only the sum of all."""
    pairs = [np.array(p) for p in combinations(range(3), 2)]
    assert answer_all(LinearAudit(5), pairs) == [True, True, False]
    cycle = [np.array(p) for p in ((0, 1), (2, 3), (0, 2), (1, 3))]
    assert answer_all(LinearAudit(5), cycle) == [True, True, True, True]
    assert answer_all(LinearAudit(5), [*cycle, np.array([0, 3])])[-1] is False


def test_sums_that_pin_one_of_two() -> None:
    """A pair is told; any set with one of them whose other part is known tells both."""
    audit = LinearAudit(8)
    sets = [np.array([0, 1]), np.array([2, 3, 4, 5]), np.array([0, 2, 3, 4, 5])]
    assert answer_all(audit, sets) == [True, True, False]


def test_what_insiders_know() -> None:
    audit = LinearAudit(6)
    assert audit.know([0]) == 0
    assert not audit.judge([np.array([0, 1])]).safe  # a sum with my own value is my neighbor's value
    assert audit.judge([np.array([0, 1, 2])]).safe
    audit.commit()
    assert audit.know([1]) == 1  # knowledge that comes later exposes person 2
    assert audit.judge([np.array([0, 2])]).safe  # nothing new to learn there
    assert not audit.judge([np.array([2, 3])]).safe
    stranger = LinearAudit(6)
    assert stranger.judge([np.array([0, 1])]).safe


def test_new_people_are_new_unknowns_and_old_ones_stay() -> None:
    audit = LinearAudit(3)
    audit.commit([np.arange(3)])
    audit.extend(1)
    assert not audit.judge([np.arange(4)]).safe  # the difference is the new person
    audit.extend(2)
    assert audit.people == 6
    assert audit.judge([np.arange(5)]).safe
    audit.commit()
    assert not audit.judge([np.array([3, 4, 5]), np.arange(6)]).safe
    assert audit.judge([np.arange(6), np.array([0, 5])]).safe is False
    for _ in range(12):
        audit.extend(700)
    assert not audit.judge([np.array([0, 1, 2, 5000])]).safe


# --- squares ---------------------------------------------------------------------------------------------------------


def test_squares_of_two_people_are_refused_and_of_three_are_not() -> None:
    two, three = np.array([0, 1]), np.array([0, 1, 2])
    assert not LinearAudit(6).judge([two, two], [SUM, SQUARES]).safe
    assert LinearAudit(6).judge([two], [SQUARES]).safe
    audit = LinearAudit(6)
    assert audit.judge([three, three], [SUM, SQUARES]).safe
    audit.commit()
    assert not audit.judge([two], [SUM]).safe
    assert not audit.judge([two], [SQUARES]).safe  # the third one's square is out


def test_squares_equal_the_rank_of_the_derivative_at_random_points() -> None:
    rng, both = np.random.default_rng(3), set()
    for _ in range(150):
        people = int(rng.integers(3, 8))
        point = [Fraction(int(v)) for v in rng.integers(-(10**6), 10**6, people)]
        audit, rows = LinearAudit(people), []
        for mask in random_masks(rng, people, 7):
            power = int(rng.integers(2))
            row = [int(v) * (point[i] if power else 1) for i, v in enumerate(mask)]
            safe = audit.judge([mask], [power]).safe
            assert safe == (not determined([*rows, row]))
            both.add((safe, power))
            if safe:
                audit.commit()
                rows.append(row)
    assert len(both) == 4


# --- several records per person --------------------------------------------------------------------------------------


def test_no_combination_of_one_persons_records_gets_out() -> None:
    owner = np.array([0, 0, 1, 1, 2, 3])
    audit = LinearAudit(4, owner=owner)
    assert not audit.judge([np.array([0, 1])]).safe  # the sum of one person
    assert not audit.judge([np.array([0])]).safe
    assert audit.judge([np.arange(6)]).safe
    audit.commit()
    assert not audit.judge([np.array([2, 3, 4, 5])]).safe  # the difference is the sum of person 0
    assert audit.know([0]) == 0
    audit.extend(owner=np.array([4, 0]))
    assert audit.people == 5 and audit.judge([np.array([2, 6])]).safe


def test_records_of_one_person_against_exact_projection() -> None:
    """Sound: whenever some combination of a person's records is in the row space, the audit refuses."""
    rng, refusals = np.random.default_rng(8), 0
    for _ in range(120):
        owner = np.sort(rng.integers(0, 4, 7))
        owner = np.unique(owner, return_inverse=True)[1]
        audit, rows = LinearAudit(int(owner.max()) + 1, owner=owner), []
        for mask in random_masks(rng, 7, 6):
            new = [*rows, [int(v) for v in mask]]
            leaks = any(_combination_inside(new, np.flatnonzero(owner == person)) for person in range(owner.max() + 1))
            safe = audit.judge([mask]).safe
            assert not (safe and leaks)
            refusals += not safe
            if safe:
                audit.commit()
                rows = new
    assert refusals > 50


def _combination_inside(rows: list[list[int]], columns: NDArray[np.int64]) -> bool:
    """Whether the row space holds a nonzero vector that is zero outside some columns: rank falls without them."""
    from tests.online.elimination import reduced

    outside = [[row[i] for i in range(len(row)) if i not in columns] for row in rows]
    return len(reduced(rows)) > len(reduced(outside))


# --- the state -------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6))
def test_decisions_do_not_depend_on_the_secret_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    masks = list(random_masks(rng, 9, 12))
    runs = [[audit_one(audit, mask) for mask in masks] for audit in (LinearAudit(9), LinearAudit(9, primes=3))]
    assert runs[0] == runs[1]


def audit_one(audit: LinearAudit, mask: Mask) -> bool:
    safe = audit.judge([mask]).safe
    if safe:
        audit.commit()
    return safe


def test_discarding_restores_everything() -> None:
    rng = np.random.default_rng(4)
    audit = LinearAudit(40)
    for mask in random_masks(rng, 40, 10):
        audit_one(audit, mask)
    before = [(field.x.copy(), field.inverse[: field.size, : field.size].copy()) for field in audit.fields]
    for _ in range(5):
        audit.would_disclose([rng.random(40) < 0.5, rng.random(40) < 0.5, rng.random(40) < 0.5])
    for field, (x, inverse) in zip(audit.fields, before, strict=True):
        assert np.array_equal(field.x, x) and np.array_equal(field.inverse[: field.size, : field.size], inverse)


def test_the_null_vector_is_orthogonal_to_every_answered_row() -> None:
    rng = np.random.default_rng(6)
    audit = LinearAudit(30)
    rows = [mask for mask in random_masks(rng, 30, 25) if audit_one(audit, mask)]
    for field in audit.fields:
        for mask in rows:
            assert sum(int(v) for v in field.x[mask]) % int(field.prime) == 0


def test_primes() -> None:
    sieve = [n for n in range(2, 2000) if all(n % d for d in range(2, int(n**0.5) + 1))]
    assert [n for n in range(2000) if is_prime(n)] == sieve
    assert is_prime(2**61 - 1) and not is_prime((2**31 - 1) ** 2) and not is_prime(3215031751)
    drawn = {random_prime(np.random.default_rng(seed)) for seed in range(20)}
    assert len(drawn) == 20 and all(2**62 < p < 2**63 and is_prime(p) for p in drawn)


def test_wrong_calls() -> None:
    audit = LinearAudit(4)
    with pytest.raises(DataError):
        audit.judge([np.array([4])])
    with pytest.raises(DataError):
        audit.judge([np.ones(3, np.bool_)])
    with pytest.raises(PlanError):
        audit.judge([np.array([1, 2])], [7])
    with pytest.raises(PlanError):
        LinearAudit(-1)
    with pytest.raises(DataError):
        audit.know([9])
    with pytest.raises(QueryRefused):
        audit.commit([np.array([2])])
    assert audit.judge([np.zeros(4, np.bool_)]).safe  # nobody
