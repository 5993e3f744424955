"""Interval audit: values within known bounds stay uncertain by a wanted width, whatever the answer turns out to be."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from discretion.errors import DataError, DiscretionError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints

TOLERANCE = 1e-9
"""How far the solver may miss a bound, in units of the range of one value."""


class WidthProgram:
    """Two copies of everything the attacker cannot exclude, which give the new sum the same value s.

    The unknowns are sums y over atoms (people who are in the same answered sets), between 0 and the number of people,
    in units of a value's range. In the first copy a person of the chosen atom is as high as possible (≤ 1 and ≤ y), in
    the second as low as possible (≥ 0 and ≥ y − people + 1); both are attained, since within an atom every division
    of y is possible. The person's interval given s is at least `width` wide exactly for the s of this program.
    """

    def __init__(self, sizes: Floats, rows: Bools, lower: Floats, upper: Floats, asked: Bools, width: float) -> None:
        import highspy

        self._sizes, self._atoms = sizes, len(sizes)
        make: Any = highspy.Highs  # has no types
        self._highs = make()
        for option, value in (("output_flag", False), ("threads", 1), ("presolve", "off"), ("solver", "simplex")):
            self._highs.setOptionValue(option, value)
        for option in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
            self._highs.setOptionValue(option, TOLERANCE)
        self._optimal, self._infeasible = highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible
        self._minimize, self._maximize = highspy.ObjSense.kMinimize, highspy.ObjSense.kMaximize
        count, infinite = self._atoms, highspy.kHighsInf
        first, second = np.arange(count), np.arange(count, 2 * count)
        self._high, self._low, self._s = 2 * count, 2 * count + 1, 2 * count + 2
        add = self._highs.addVars
        add(count, np.zeros(count), self._sizes)
        add(count, np.zeros(count), self._sizes)
        add(3, np.array([0.0, 0.0, 0.0]), np.array([1.0, 1.0, float(self._sizes[asked].sum())]))
        self._highs.changeColCost(self._s, 1.0)
        for copy in (first, second):
            for row, low, high in zip(rows, lower, upper, strict=True):
                self._row(low, high, copy[row], np.ones(int(row.sum())))
            members = np.append(copy[asked], self._s)
            self._row(0.0, 0.0, members, np.append(np.ones(len(members) - 1), -1.0))
        self._row(width, infinite, np.array([self._high, self._low]), np.array([1.0, -1.0]))
        self._row_high = self._highs.getNumRow()
        self._row(-infinite, infinite, np.array([self._high]), np.array([1.0]))
        self._row(-infinite, infinite, np.array([self._low]), np.array([-1.0]))
        self._infinite = infinite

    def _row(self, low: float, high: float, columns: Ints, values: Floats) -> None:
        self._highs.addRow(low, high, len(columns), columns.astype(np.int32), values)

    def sums(self, atom: int) -> tuple[float, float] | None:
        """Return the least and largest sum that leaves a person of an atom wide enough; None when there is none."""
        highs, row = self._highs, self._row_high
        highs.changeCoeff(row, atom, -1.0)
        highs.changeRowBounds(row, -self._infinite, 0.0)
        highs.changeCoeff(row + 1, self._atoms + atom, 1.0)
        highs.changeRowBounds(row + 1, -self._infinite, float(self._sizes[atom]) - 1.0)
        try:
            least = self._solve(self._minimize)
            largest = None if least is None else self._solve(self._maximize)
        finally:
            highs.changeCoeff(row, atom, 0.0)
            highs.changeCoeff(row + 1, self._atoms + atom, 0.0)
        return None if least is None or largest is None else (least, largest)

    def _solve(self, sense: Any) -> float | None:
        self._highs.changeObjectiveSense(sense)
        self._highs.run()
        status = self._highs.getModelStatus()
        if status == self._infeasible:
            return None
        if status != self._optimal:
            raise DiscretionError("the linear program of the interval audit was not solved")
        return float(self._highs.getInfo().objective_function_value)


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
