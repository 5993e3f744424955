"""Audits of sums: would the answers with the new ones determine anybody's value, or narrow it more than wanted?"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.errors import DataError, PlanError, QueryRefused
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.solve import GrowingProgram


class WidthProgram:
    """Two copies of everything the attacker cannot exclude, which give the new sum the same value s.

    The unknowns are sums y over atoms (people who are in the same answered sets), between 0 and the number of people,
    in units of a value's range. In the first copy a person of the chosen atom is as high as possible (≤ 1 and ≤ y), in
    the second as low as possible (≥ 0 and ≥ y − people + 1); both are attained, since within an atom every division
    of y is possible. The person's interval given s is at least `width` wide exactly for the s of this program.
    """

    def __init__(self, sizes: Floats, rows: Bools, lower: Floats, upper: Floats, asked: Bools, width: float) -> None:
        self._sizes, count = sizes, len(sizes)
        first, second = np.arange(count), np.arange(count, 2 * count)
        self._high, self._low, self._s = 2 * count, 2 * count + 1, 2 * count + 2
        most = np.concatenate([sizes, sizes, [1.0, 1.0, float(sizes[asked].sum())]])
        cost = (np.arange(len(most)) == self._s).astype(np.float64)
        self._program = GrowingProgram(np.zeros(len(most)), most, cost, tight=True)
        for copy in (first, second):
            for row, low, high in zip(rows, lower, upper, strict=True):
                self._program.add(copy[row], np.ones(int(row.sum())), low, high)
            members = np.append(copy[asked], self._s)
            self._program.add(members, np.append(np.ones(len(members) - 1), -1.0), 0.0, 0.0)
        self._program.add(np.array([self._high, self._low]), np.array([1.0, -1.0]), width)
        self._row_high = self._program.add(np.array([self._high]), np.array([1.0]), -np.inf)
        self._program.add(np.array([self._low]), np.array([-1.0]), -np.inf)

    def sums(self, atom: int) -> tuple[float, float] | None:
        """Return the least and largest sum that leaves a person of an atom wide enough; None when there is none."""
        program, row, count = self._program, self._row_high, len(self._sizes)
        program.put(row, atom, -1.0)
        program.bound_row(row, -np.inf, 0.0)
        program.put(row + 1, count + atom, 1.0)
        program.bound_row(row + 1, -np.inf, float(self._sizes[atom]) - 1.0)
        try:
            least = program.solve()
            largest = program.solve(largest=True) if least.found else least
        finally:
            program.put(row, atom, 0.0)
            program.put(row + 1, count + atom, 0.0)
        return (least.objective, largest.objective) if least.found and largest.found else None


_SLACK = 1e-6
"""Widths hold up to this share of the range: the solver counts in floating point."""


@dataclass(frozen=True)
class Band:
    """Sums that may be told exactly; a smaller one is told as "at most `low`", a larger one as "at least `high`"."""

    low: float
    high: float

    def within(self, other: Band | None) -> Band | None:
        """Return what both bands allow, or None."""
        if other is None or max(self.low, other.low) > min(self.high, other.high):
            return None
        return Band(max(self.low, other.low), min(self.high, other.high))


@dataclass(frozen=True)
class AnsweredSum:
    """What is told about a sum."""

    kind: Literal["exact", "at most", "at least", "withheld"]
    value: float | None = None

    @classmethod
    def to(cls, total: float, band: Band | None) -> AnsweredSum:
        """Tell a sum under a band; without a band nothing."""
        if band is None:
            return cls("withheld")
        if total <= band.low:
            return cls("at most", band.low)
        if total >= band.high:
            return cls("at least", band.high)
        return cls("exact", total)


def _name(members: Ints) -> bytes:
    return hashlib.sha256(members.tobytes()).digest()


class IntervalAudit:
    """Decide which sums of bounded values may be told, so that everybody's value stays uncertain.

    Guarantees: after every response, what an attacker can compute about any value from all responses and the bounds
    is an interval of at least the wanted width (up to a millionth of the range). What is decided before a sum is looked
    at (the `band`) depends on the query sets and on earlier *responses* only, which the attacker has: it is
    simulatable, a refusal tells nothing.

    No exact answer is safe in all cases: a sum of incomes that comes out 0 says that all are 0. "Refuse if any
    possible answer would narrow somebody" therefore refuses everything. Instead the extremes are told less precisely.
    Let P be the values that bounds and responses allow, and w_i(s) the width of person i's interval if the sum were s.
    The largest x_i on P with sum s is a concave function of s and the smallest a convex one, so w_i is concave, and
    {s : w_i(s) ≥ width for all i} is an interval [L, U]. Inside it the exact sum is told. A sum ≤ L is told as "at
    most L": this leaves everything that the sum L itself would leave, so every width is at least that at L. Likewise
    "at least U". When the interval is empty the sum is withheld. L and U are extremes of linear programs, two for each
    atom.

    Conservative: what is required for each s is required without asking how likely s is; sets with somebody whose
    value the attacker knows are withheld; whole-number columns (`integral`, for instance yes/no) are told only while
    the answered sets are nested or disjoint. For such a family the constraint matrix is totally unimodular, so that the
    extremes of the program are attained by whole numbers and its intervals hold for them; other families are withheld.

    Does not protect against probable guesses inside the interval.

    Cost: two small linear programs per atom (people in the same answered sets), with at most `most_atoms` atoms;
    beyond, sums are withheld.

    References
    ----------
    Kenthapadi, Mishra & Nissim (2005), Simulatable auditing, PODS; Li, Wang, Wang & Jajodia (2002), Auditing interval-
    based inference, CAiSE; catalogue O2.

    Examples
    --------
    Ten values between 0 and 100 that must stay uncertain by 20: sums up to 20, and from 980, are told as bounds.

    >>> import numpy as np
    >>> audit = IntervalAudit(10, 0, 100)
    >>> audit.band(np.arange(10), width=20)
    Band(low=20.0, high=980.0)
    """

    def __init__(
        self, people: int, lower: float, upper: float, *, integral: bool = False, most_atoms: int = 300
    ) -> None:
        if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
            raise PlanError("an interval audit needs finite bounds, the lower below the upper")
        self.lower, self.upper, self.integral, self.most_atoms = float(lower), float(upper), integral, most_atoms
        self._labels = np.zeros(people, np.int64)
        self._rows: list[tuple[Ints, float, float]] = []
        self._told: dict[bytes, Band] = {}
        self._known = np.zeros(people, np.bool_)

    @property
    def people(self) -> int:
        """The number of people so far."""
        return len(self._labels)

    def extend(self, people: int) -> None:
        """Take in new people, who are in no answered set."""
        fresh = self._labels.max(initial=-1) + 1 if self._rows else 0
        self._labels = np.append(self._labels, np.full(people, fresh, np.int64))
        self._known = np.append(self._known, np.zeros(people, np.bool_))

    def know(self, people: Iterable[int]) -> None:
        """Take in that the attacker knows these values: sets with them are withheld from now on."""
        self._known[list(people)] = True

    def band(self, members: Ints, *, width: float) -> Band | None:
        """Say which sums over a set may be told; None: nothing. Reads earlier responses, never the sum itself.

        A set that was told before is told again in the same way.
        """
        wanted = self._scaled_width(width)
        if (again := self._told.get(_name(members))) is not None:
            return again
        if len(members) == 0 or self._known[members].any() or not self._fits(members):
            return None
        labels = self._split(members)
        atoms, first, sizes = np.unique(labels, return_index=True, return_counts=True)
        rows = np.array([np.isin(first, row) for row, _, _ in self._rows]).reshape(len(self._rows), len(atoms))
        asked = np.isin(first, members)
        used = asked | rows.any(axis=0)
        if used.sum() > self.most_atoms:
            return None
        return self._band(sizes[used].astype(float), rows[:, used], asked[used], wanted, len(members))

    def _band(self, sizes: Floats, rows: Bools, asked: Bools, wanted: float, count: int) -> Band | None:
        low = np.array([low for _, low, _ in self._rows])
        high = np.array([high for _, _, high in self._rows])
        program = WidthProgram(sizes, rows, low, high, asked, wanted)
        least, largest = -math.inf, math.inf
        for atom in range(len(sizes)):
            found = program.sums(atom)
            if found is None:
                return None
            least, largest = max(least, found[0]), min(largest, found[1])
        span = self.upper - self.lower
        bottom, top = (count * self.lower + s * span for s in (least, largest))
        if self.integral:
            bottom, top = math.ceil(bottom - _SLACK * span), math.floor(top + _SLACK * span)
        else:
            digits = math.ceil(-math.log10(_SLACK / 10 * span))
            bottom, top = round(bottom, digits), round(top, digits)
        return None if bottom > top else Band(float(bottom), float(top))

    def tell(self, members: Ints, response: AnsweredSum) -> None:
        """Remember what was told about the sum over a set."""
        if response.kind == "withheld" or len(members) == 0:
            return
        if response.value is None:
            raise DataError("a response about a sum has a value")
        span = self.upper - self.lower
        value = (response.value - len(members) * self.lower) / span
        low = value if response.kind in ("exact", "at least") else 0.0
        high = value if response.kind in ("exact", "at most") else float(len(members))
        self._labels = self._split(members)
        self._rows.append((members, low, high))
        bottom = response.value if response.kind == "at most" else -math.inf
        self._told[_name(members)] = Band(bottom, response.value if response.kind == "at least" else math.inf)

    def _scaled_width(self, width: float) -> float:
        span = self.upper - self.lower
        if not 0 < width <= span:
            raise PlanError("the wanted width lies above 0 and within the bounds")
        return (max(1.0, math.ceil(width)) if self.integral else width) / span

    def _split(self, members: Ints) -> Ints:
        """Return the atoms that remain when a set is told apart."""
        mask = np.zeros(len(self._labels), np.int64)
        mask[members] = 1
        labels: Ints = np.unique(self._labels * 2 + mask, return_inverse=True)[1].astype(np.int64)
        return labels

    def _fits(self, members: Ints) -> bool:
        """Whole numbers: the set is nested in, contains or avoids every answered set."""
        if not self.integral:
            return True
        for row, _, _ in self._rows:
            common = len(np.intersect1d(row, members, assume_unique=True))
            if common not in (0, len(row), len(members)):
                return False
        return True


LEAST, MOST = 2**62, 2**63
"""Between these lie more than 2⁵⁶·⁵ primes."""
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def is_prime(number: int) -> bool:
    """Say whether a number below 3.3·10²⁴ is prime: Miller–Rabin with witnesses that are proven to suffice."""
    if number < 2:
        return False
    for small in _WITNESSES:
        if number % small == 0:
            return number == small
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in _WITNESSES:
        powers = [pow(witness, odd << square, number) for square in range(twos)]
        if powers[0] != 1 and number - 1 not in powers:
            return False
    return True


def random_prime(generator: np.random.Generator) -> int:
    """Draw a prime between 2⁶² and 2⁶³, each with the same chance."""
    while True:
        number = int(generator.integers(LEAST, MOST, dtype=np.uint64))
        if is_prime(number):
            return number


_FIRST_ROWS = 16


def ascending(numbers: Ints) -> Ints:
    """Return numbers in ascending order without repetition; quick when they are so already.

    Sorting and looking at neighbors is many times quicker than `np.unique`, which hashes every number.
    """
    if (numbers[1:] > numbers[:-1]).all():
        return numbers
    found = np.sort(numbers)
    fresh = np.empty(len(found), np.bool_)
    fresh[0] = True
    np.not_equal(found[1:], found[:-1], out=fresh[1:])
    return found if fresh.all() else found[fresh]


def longer(lines: NDArray[Any], number: int) -> NDArray[Any]:
    """Return the same lines with room for more; what is not used yet takes no memory."""
    grown = np.zeros((number, lines.shape[1]), lines.dtype)
    grown[: len(lines)] = lines
    return grown


class Elements:
    """Records and the person each belongs to; only ever extended."""

    def __init__(self, owner: Ints) -> None:
        self.owner = np.zeros(0, np.int64)
        self.people = 0
        self.extend(owner)

    def extend(self, owner: Ints, people: int = 0) -> None:
        """Add records; their owners are known people or the next new ones."""
        added = np.asarray(owner, np.int64)
        if added.ndim != 1 or (len(added) and added.min() < 0):
            raise DataError("the people of new records are given as a list of numbers from 0")
        self.owner = np.append(self.owner, added)
        self.people = max(self.people, people, int(added.max()) + 1 if len(added) else 0)
        self.order = np.argsort(self.owner, kind="stable").astype(np.int64)
        counts = np.bincount(self.owner, minlength=self.people)
        self.first = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        self.is_alone = len(self.owner) == self.people and bool((self.owner == np.arange(self.people)).all())
        """whether every record is a person of its own, numbered alike"""
        self.is_first = np.zeros(len(self.owner), np.bool_)
        self.is_first[self.order[self.first[:-1][counts > 0]]] = True

    def one_of(self, person: int) -> int:
        """Return the first record of a person."""
        if not 0 <= person < self.people or self.first[person] == self.first[person + 1]:
            raise DataError(f"there is no record of person number {person}")
        return int(self.order[self.first[person]])

    def checked(self, members: Ints | Bools) -> Ints:
        """Return a query set (numbers or a mask over all records) as ascending numbers."""
        given = np.asarray(members)
        if given.dtype == np.bool_:
            if given.shape != self.owner.shape:
                raise DataError(f"a mask of a query set has one entry for each of the {len(self.owner)} records")
            return np.flatnonzero(given).astype(np.int64)
        numbers = ascending(given.astype(np.int64, copy=False))
        if len(numbers) and (numbers[0] < 0 or numbers[-1] >= len(self.owner)):
            raise DataError(f"a query set names a record outside 0 … {len(self.owner) - 1}")
        return numbers


class RowStore:
    """Rows as bit maps over the elements; the last rows can be taken back."""

    def __init__(self) -> None:
        self.count = 0
        self.bits = np.zeros((_FIRST_ROWS, 0), np.uint8)
        self.powers = np.zeros(_FIRST_ROWS, np.int64)
        self.members: dict[int, Ints] = {}

    def extend(self, elements: int) -> None:
        """Make room for more elements, which are in no row yet."""
        more = -(-elements // 8) - self.bits.shape[1]
        if more > 0:
            self.bits = np.hstack([self.bits, np.zeros((len(self.bits), more), np.uint8)])

    def append(self, members: Ints, power: int) -> int:
        """Keep a row and give its number; its members stay listed until `settle`."""
        from discretion.kernels.null_vector import set_bits

        if self.count == len(self.bits):
            more = 3 * self.count
            self.bits = longer(self.bits, self.count + more)
            self.powers = np.append(self.powers, np.zeros(more, np.int64))
        self.bits[self.count] = 0
        set_bits(self.bits[self.count], members)
        self.powers[self.count] = power
        self.members[self.count] = members
        self.count += 1
        return self.count - 1

    def settle(self) -> None:
        """Keep only the bit maps."""
        self.members.clear()

    def drop_last(self) -> None:
        """Take the last row back."""
        self.count -= 1
        self.members.pop(self.count, None)


Words = NDArray[np.uint64]

_BLOCK_BITS = 9
BLOCK = 2**_BLOCK_BITS
"""Columns whose products with a fixed random vector are kept together, to find pivots quickly."""
_PORTIONS = ((0, 4), (4, 64), (64, BLOCK))
"""columns of a block that are tried together: in most questions one of the first is a pivot"""
_FIRST_CAPACITY = 16


@dataclass
class PlannedRow:
    """What a new row would change."""

    pivot: int
    made_of: Words
    moves: Words
    rest: np.uint64
    pivots_after: Words
    pivot_after: np.uint64
    kept: tuple[Words, np.uint64] = (np.zeros(0, np.uint64), np.uint64(0))

    def zeros(self, pivots: Ints) -> Ints:
        """Return the columns that are 0 afterwards."""
        found = pivots[self.pivots_after == 0]
        return found if self.pivot_after != 0 else np.append(found, np.int64(self.pivot))


class NullVector:
    """One secret prime: a random vector that is orthogonal to every answered row, kept up to date.

    Let Q be the rows answered so far (over the field GF(p)). Person i is determined, that is e_i is a combination of
    rows, exactly when every null vector of Q is 0 at i. One *random* null vector x is kept:

    - A new row q that is a combination of kept rows has q·x = 0. One that is not has q·x ≠ 0 except with probability
      1/p, so that the test "is it new?" costs one sum over the query set.
    - For a new row a pivot column b is sought, and x moves along the null vector w of the kept rows with w_b = 1 until
      q·x = 0. On the pivot columns w is −T·c, where c is column b of the kept rows and T the inverse of their pivot
      columns.
    - A determined person has x_i = 0 *for certain*; anybody else has it with probability 1/p. The mistake of this test
      is a refusal too many, never an answer too many.

    Only pivot columns can be determined (a combination of rows that vanishes on all pivot columns is 0), so that t
    entries are looked at, not n. A row costs O(|q| + t²) and O(t·(n/block + block)) for the pivot at worst.
    """

    def __init__(self, prime: int, generator: np.random.Generator, elements: Elements) -> None:
        self.prime = np.uint64(prime)
        self._generator = generator
        self._elements = elements
        self.size = 0
        self.x = np.zeros(0, np.uint64)
        self.y = np.zeros(0, np.uint64)
        self.weights = np.zeros((2, 0), np.uint64)
        self.ready = np.zeros((2, 0), np.uint64)
        self.inverse = np.zeros((_FIRST_CAPACITY, _FIRST_CAPACITY), np.uint64)
        self.pivots = np.zeros(0, np.int64)
        self.stored = np.zeros(0, np.int64)
        self.sums = np.zeros((_FIRST_CAPACITY, 0), np.uint64)
        self.is_pivot = np.zeros(0, np.bool_)
        self.extend()

    def _draw(self, count: int) -> Words:
        return self._generator.integers(1, int(self.prime), count, dtype=np.uint64)

    def extend(self) -> None:
        """Take in new people and new elements: fresh unknowns that occur in no kept row."""
        from discretion.kernels.null_vector import quotients

        people, new = self._elements.people, self._elements.people - len(self.x)
        self.x = np.append(self.x, self._draw(new))
        self.y = np.append(self.y, self._draw(new))
        self.is_pivot = np.append(self.is_pivot, np.zeros(new, np.bool_))
        start = self.weights.shape[1]
        fresh = self._draw(2 * (len(self._elements.owner) - start)).reshape(2, -1)
        fresh[0, self._elements.is_first[start:]] = 1
        self.weights = np.hstack([self.weights, fresh])
        ready = [quotients(np.ascontiguousarray(row), self.prime) for row in fresh]
        self.ready = np.hstack([self.ready, np.vstack(ready)])
        blocks = -(-people // BLOCK)
        self.sums = np.hstack([self.sums, np.zeros((len(self.sums), blocks - self.sums.shape[1]), np.uint64)])

    def plan(self, row: int, power: int, store: RowStore) -> PlannedRow | None:
        """Work out what a stored row would change; None when it is a combination of kept rows."""
        from discretion.kernels import null_vector as algebra

        p, members = self.prime, store.members[row]
        about = self._elements
        weight, ready = self.weights[power], self.ready[power]
        product = np.uint64(algebra.weighted_sum(self.x, self._owner(power), weight, ready, members, p))
        if product == 0:
            return None
        line = store.bits[row : row + 1]
        entries = algebra.row_at_columns(line, weight, about.first, about.order, self.pivots, p)
        made_of = algebra.combine_rows(self.inverse, self.size, entries, p)
        self._remember_sums(row, power, store)
        pivot, rest, column = self._find_pivot(row, line, weight, made_of, store)
        moves = algebra.combine_columns(self.inverse, self.size, column, p)
        shift = np.uint64(algebra.ratio(p - product, rest, p))
        after = algebra.shifted(self.x[self.pivots], moves, shift, p)
        own = np.uint64((int(self.x[pivot]) + int(shift)) % int(p))
        return PlannedRow(pivot, made_of, moves, rest, after, own)

    def _remember_sums(self, row: int, power: int, store: RowStore) -> None:
        from discretion.kernels.null_vector import block_sums

        if row >= len(self.sums):
            self.sums = longer(self.sums, max(row + 1, 4 * len(self.sums)))
        weight, ready, members = self.weights[power], self.ready[power], store.members[row]
        block_sums(self.y, self._owner(power), weight, ready, members, _BLOCK_BITS, self.sums[row], self.prime)

    def _owner(self, power: int) -> Ints:
        """Return the people of the records; none where records are people and have no weights (sums, power 0)."""
        return self._elements.owner[:0] if power == 0 and self._elements.is_alone else self._elements.owner

    def _find_pivot(
        self, row: int, line: NDArray[np.uint8], weight: Words, made_of: Words, store: RowStore
    ) -> tuple[int, np.uint64, Words]:
        """Find a column where the row differs from what the kept rows make of it."""
        from discretion.kernels import null_vector as algebra

        p, about, block = self.prime, self._elements, -1
        while True:
            block = algebra.block_with_rest(self.sums[row], self.sums, self.stored, made_of, block + 1, p)
            if block < 0:
                raise ArithmeticError("a new row has no pivot column")  # contradicts q·x ≠ 0
            columns = np.arange(block * BLOCK, min((block + 1) * BLOCK, about.people), dtype=np.int64)
            columns = columns[~self.is_pivot[columns]]
            own = algebra.row_at_columns(line, weight, about.first, about.order, columns, p)
            order = np.argsort(own == 0, kind="stable")
            columns, own = columns[order], own[order]
            kept = (store.bits, self.stored, store.powers, self.weights, about.first, about.order)
            for start, end in _PORTIONS:
                made = algebra.made_at_columns(*kept, columns[start:end], made_of, p)
                differing = np.flatnonzero(made != own[start:end])
                if len(differing):
                    place = start + int(differing[0])
                    rest = np.uint64((int(own[place]) - int(made[place - start])) % int(p))
                    return int(columns[place]), rest, algebra.column_of_rows(*kept, columns[place], p)

    def keep(self, step: PlannedRow, row: int) -> None:
        """Make a planned row part of the state."""
        from discretion.kernels.null_vector import grow

        if self.size == len(self.inverse):
            capacity = max(_FIRST_CAPACITY, 2 * self.size)
            larger = np.zeros((capacity, capacity), np.uint64)
            larger[: self.size, : self.size] = self.inverse
            self.inverse = larger
        grow(self.inverse, self.size, step.made_of, step.moves, step.rest, self.prime)
        step.kept = (self.x[self.pivots], self.x[step.pivot])
        self.x[self.pivots] = step.pivots_after
        self.x[step.pivot] = step.pivot_after
        self.pivots = np.append(self.pivots, np.int64(step.pivot))
        self.stored = np.append(self.stored, np.int64(row))
        self.is_pivot[step.pivot] = True
        self.size += 1

    def undo(self, step: PlannedRow) -> None:
        """Forget the row kept last."""
        from discretion.kernels.null_vector import shrink

        shrink(self.inverse, self.size, self.prime)
        self.size -= 1
        self.pivots, self.stored = self.pivots[:-1], self.stored[:-1]
        self.is_pivot[step.pivot] = False
        self.x[self.pivots], self.x[step.pivot] = step.kept


Members = Ints | Bools

SUM, SQUARES = 0, 1
"""What a row adds up: the values, or their squares."""
_REASON = "together with earlier answers it would determine somebody's value"


@dataclass(frozen=True)
class AuditVerdict:
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
    `NullVector`). A person who is determined over the rationals is found *for certain* as long as the kept rows have
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
        self._pending: list[list[tuple[NullVector, PlannedRow]]] = []

    @property
    def people(self) -> int:
        """The number of people so far."""
        return self.elements.people

    @property
    def rank(self) -> int:
        """The number of independent rows answered."""
        return max(field.size for field in self.fields)

    def judge(self, sets: Sequence[Members], powers: Sequence[int] | None = None) -> AuditVerdict:
        """Say whether all these rows may be answered together.

        When they may, they stay pending until `commit` or `discard`; a new call discards what is pending.
        """
        self.discard()
        before = self.rank
        for members, power in self._rows(sets, powers):
            if not self._try(members, power, force=False):
                self.discard()
                return AuditVerdict(False, _REASON)
        return AuditVerdict(True, "", self.rank - before)

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
