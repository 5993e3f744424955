"""Exact audit of sums: would the answers so far, with the new ones, determine anybody's value?"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from discretion.errors import PlanError, QueryRefused
from discretion.kernels.arrays import Bools, Ints
from discretion.online.audit.elements import Elements, RowStore
from discretion.online.audit.null_vector import NullVector, Step
from discretion.online.audit.primes import random_prime

Members = Ints | Bools

SUM, SQUARES = 0, 1
"""What a row adds up: the values, or their squares."""
_REASON = "together with earlier answers it would determine somebody's value"


@dataclass(frozen=True)
class Verdict:
    """Whether rows may be answered; it depends on query sets only, never on values."""

    safe: bool
    reason: str = ""
    new_rows: int = 0
    """rows that are no combination of earlier ones; the others cost nothing"""


class LinearAudit:
    """Remember answered query sets and refuse those that would determine a person's value by linear algebra.

    Guarantees, for sums over sets that are chosen by public properties: as long as only rows judged safe are answered,
    no person's value is a linear combination of the answers and of what is known (`know`). Then every real number is
    possible for that value, whatever the answers were. The decision reads the query sets only, so a refusal tells
    nothing about values.

    **Exactness.** All is computed modulo a secret random prime between 2⁶² and 2⁶³ with a random null vector (see
    `null_vector`). A person who is determined over the rationals is found *for certain* as long as the kept rows have
    the same rank modulo p, and they have unless a row that is new over the rationals passes as a combination of
    earlier ones. After t independent rows this has probability at most 1/p + log₂(D)/62 / 2⁵⁶·⁵, where D ≤
    (t+2)^((t+2)/2) / 2^(t+1) bounds a determinant of zeros and ones (Hadamard) and 2⁵⁶·⁵ is less than the number of
    such primes: 2⁻⁵⁰ for the question after t = 1,000 rows, 2⁻⁴⁶ after 10,000; added up over a history of 1,000
    independent questions less than 2⁻⁴¹, of 10,000 less than 2⁻³⁴. Decisions that are right tell nothing about p, so
    that asking cleverly does not help. `primes=2` keeps two such states and refuses what either refuses, which squares
    these probabilities for twice the time. The prime is secret because for a known one query sets can be built whose
    determinant it divides. The other mistake, a refusal without need, has a probability below t/2⁶².

    **Squares** (variances). With Σx² over sets beside Σx, the answers are a map F of the values x, with the rows 1_Q
    for sums and 2·x∘1_Q for squares in its derivative. For x outside an algebraic set of measure zero this derivative
    has its largest rank, the same all around x; then {F = F(x)} is a smooth surface near x whose tangent space is the
    null space of the derivative (constant rank theorem). So if some null vector is not 0 at person i, that value can
    still vary continuously. Being the null space at *general* x, it is found with random numbers ρ in place of x (a
    nonzero minor, a polynomial of degree ≤ t in ρ, vanishes at random ρ with probability ≤ t/p): a row of squares is
    ρ∘1_Q. Two people with Σx and Σx² are refused, three are not. Exceptions of measure zero exist: a variance of 0
    tells that all are equal, whoever they are. Who cannot accept that refuses variances (`ExactPolicy.variance`).

    **People with several records** (`owner`): no linear combination of one person's values may become known, for
    instance their sum. The attacker is granted all of each person's values but one random direction: a person is then
    one unknown with a random coefficient per record, and a known combination of its records shows as that unknown
    being determined. Sound, and a little stricter than necessary.

    Does not protect against: inference from bounds (a sum of 0/1 values that comes out 0; see `IntervalAudit`),
    probable guesses, predicates on sensitive columns (the caller refuses them), minima, maxima and quantiles (refused).

    Cost: O(|Q|) for a row that is a combination of earlier ones; else O(|Q| + t²) typically, with t independent rows so
    far. Memory: 8·primes·t² bytes and a bit per record and row.

    References
    ----------
    Chin & Özsoyoğlu (1982), IEEE TSE 8(6); Nabar, Kenthapadi, Mishra & Motwani (2008), A survey of query auditing
    techniques; catalogue O2.

    Examples
    --------
    Four people; the sum of all, then of three of them, would give the fourth away.

    >>> import numpy as np
    >>> audit = LinearAudit(4)
    >>> audit.judge([np.array([0, 1, 2, 3])]).safe
    True
    >>> audit.commit()
    >>> audit.judge([np.array([0, 1, 2])])
    Verdict(safe=False, reason="together with earlier answers it would determine somebody's value", new_rows=0)
    """

    def __init__(self, people: int, *, owner: Ints | None = None, primes: int = 1, seed: int | None = None) -> None:
        if people < 0 or primes < 1:
            raise PlanError("an audit needs a number of people from 0 and at least one prime")
        self.elements = Elements(np.arange(people, dtype=np.int64) if owner is None else owner)
        self.elements.extend(np.zeros(0, np.int64), people)
        self.store = RowStore()
        self.store.extend(len(self.elements.owner))
        generator = np.random.default_rng(secrets.randbits(256) if seed is None else seed)
        self.fields = [NullVector(random_prime(generator), generator, self.elements) for _ in range(primes)]
        self.determined = np.zeros(self.elements.people, np.bool_)
        self._pending: list[list[tuple[NullVector, Step]]] = []

    @property
    def people(self) -> int:
        """The number of people so far."""
        return self.elements.people

    @property
    def rank(self) -> int:
        """The number of independent rows answered."""
        return max(field.size for field in self.fields)

    def judge(self, sets: Sequence[Members], powers: Sequence[int] | None = None) -> Verdict:
        """Say whether all these rows may be answered together.

        When they may, they stay pending until `commit` or `discard`; a new call discards what is pending.
        """
        self.discard()
        before = self.rank
        for members, power in self._rows(sets, powers):
            if not self._try(members, power, force=False):
                self.discard()
                return Verdict(False, _REASON)
        return Verdict(True, "", self.rank - before)

    def would_disclose(self, sets: Sequence[Members], powers: Sequence[int] | None = None) -> bool:
        """Say whether answering these rows together would determine somebody; nothing is remembered."""
        safe = self.judge(sets, powers).safe
        self.discard()
        return not safe

    def commit(self, sets: Sequence[Members] | None = None, powers: Sequence[int] | None = None) -> None:
        """Remember the pending rows as answered, or judge and remember `sets` (refused when they disclose)."""
        if sets is not None:
            verdict = self.judge(sets, powers)
            if not verdict.safe:
                raise QueryRefused(verdict.reason)
        self._pending.clear()
        self.store.settle()

    def discard(self) -> None:
        """Forget the pending rows."""
        while self._pending:
            for field, step in reversed(self._pending.pop()):
                field.undo(step)
            self.store.drop_last()

    def remember(self, sets: Sequence[Members], powers: Sequence[int] | None = None) -> int:
        """Take rows in as answered whatever follows (when a history is rebuilt); give how many people are exposed.

        People who are determined by what is already out are exposed: later questions are judged for the others.
        """
        self.discard()
        before = int(self.determined.sum())
        for members, power in self._rows(sets, powers):
            self._try(members, power, force=True)
        self.commit()
        return int(self.determined.sum()) - before

    def know(self, people: Iterable[int]) -> int:
        """Take in that the attacker knows these people's values; give how many *others* this exposes."""
        known = sorted(set(people))
        already = self.determined.copy()
        self.remember([np.array([self.elements.one_of(person)], np.int64) for person in known])
        newly = self.determined & ~already
        newly[known] = False
        return int(newly.sum())

    def extend(self, people: int = 0, *, owner: Ints | None = None) -> None:
        """Take in appended records: `people` new people with one record each, or records with their `owner`.

        New people are new unknowns. Nobody is ever removed: who left the table stays in the answers given before.
        """
        self.discard()
        added = np.arange(self.people, self.people + people, dtype=np.int64) if owner is None else owner
        self.elements.extend(added)
        self.store.extend(len(self.elements.owner))
        for field in self.fields:
            field.extend()
        self.determined = np.append(self.determined, np.zeros(self.people - len(self.determined), np.bool_))

    def _rows(self, sets: Sequence[Members], powers: Sequence[int] | None) -> Iterable[tuple[Ints, int]]:
        chosen = [SUM] * len(sets) if powers is None else list(powers)
        if len(chosen) != len(sets) or not set(chosen) <= {SUM, SQUARES}:
            raise PlanError("each query set adds up values (0) or squares (1)")
        listed = [self.elements.checked(members) for members in sets]
        return [(members, power) for members, power in zip(listed, chosen, strict=True) if len(members)]

    def _try(self, members: Ints, power: int, *, force: bool) -> bool:
        """Take one row in; unless forced, only when it determines nobody new."""
        row = self.store.append(members, power)
        planned = [(field, field.plan(row, power, self.store)) for field in self.fields]
        steps = [(field, step) for field, step in planned if step is not None]
        zeros = [step.zeros(field.pivots) for field, step in steps]
        exposed = np.unique(np.concatenate(zeros)) if zeros else np.zeros(0, np.int64)
        if not force and not self.determined[exposed].all():
            self.store.drop_last()
            return False
        if not steps:
            self.store.drop_last()
            return True
        for field, step in steps:
            field.keep(step, row)
        self.determined[exposed] = True
        self._pending.append(steps)
        return True
