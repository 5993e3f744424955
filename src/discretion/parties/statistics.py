"""What parties can compute together: what each prepares from its own rows, and the protocol that shows the result."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from discretion.data.documents import Faults
from discretion.errors import PlanError, RequirementNotMet, did_you_mean, unknown
from discretion.kernels.arrays import Floats, Ints

if TYPE_CHECKING:
    from discretion.parties.agreement import AgreedColumn, Agreement
    from discretion.parties.sharing import Noise, Sharing

KINDS: dict[str, type[Statistic]] = {}
_GRID = 4096
"""with noise, numbers scaled to −1…1 are rounded to this part before they are added"""
_MOST_CELLS = 10_000
_LARGEST = 2.0**36
_STEPS = 6


@dataclass(frozen=True)
class Local:
    """One party's rows, as the agreement declares them: numbers within bounds and codes of categories."""

    people: int
    numbers: Mapping[str, Floats]
    codes: Mapping[str, Ints]


@dataclass(frozen=True)
class Run:
    """What a protocol works with."""

    agreement: Agreement
    local: Local
    sharing: Sharing
    noise: Noise | None = None

    def column(self, name: str) -> AgreedColumn:
        """Give the declaration of a column."""
        return self.agreement.columns[name]

    def scaled(self, name: str) -> Floats:
        """Give a column scaled to −1…1 by its bounds."""
        column = self.column(name)
        return (self.local.numbers[name] - column.middle) / column.half

    def sums(self, terms: Iterable[Callable[[], Floats]], sensitivity: float, kind: Any = None) -> Any:
        """Share sums over people, with this party's noise; one person changes them all by at most `sensitivity`."""
        found = []
        for term in terms:
            if self.noise is None:
                found.append(float(np.sum(term())))
            else:
                share = self.noise.draw(math.ceil(sensitivity * _GRID))
                found.append((int(np.rint(term() * _GRID).sum()) + share) / _GRID)
        return self.sharing.total(np.array(found), kind)

    def people(self, kind: Any = None) -> Any:
        """Share the number of people; nobody's values change it, so it has no noise."""
        return self.sharing.total([float(self.local.people)], kind)

    async def shown(self, label: str, x: Any, decimals: int) -> Floats:
        """Round inside the protocol and open."""
        found = await self.sharing.reveal(label, self.sharing.rounded(x * float(10**decimals)))
        return np.asarray(np.round(np.asarray(found, dtype=np.float64)) / 10**decimals)


def parse_statistic(given: Any) -> Any:
    """Build a statistic from `kind: {fields}`."""
    if isinstance(given, Statistic):
        return given
    if isinstance(given, str):
        given = {given: {}}
    if not isinstance(given, dict) or len(given) != 1:
        raise ValueError(f"expected one statistic as `kind: {{fields}}`; kinds: {', '.join(KINDS)}")
    ((kind, fields),) = given.items()
    if kind not in KINDS:
        raise ValueError(unknown("statistic", str(kind), KINDS))
    try:
        return KINDS[kind].model_validate(fields or {})
    except ValidationError as error:
        raise Faults({(kind, *item["loc"]): _worded(item, KINDS[kind]) for item in error.errors()}) from None


def _worded(item: Mapping[str, Any], kind: type[Statistic]) -> str:
    if item["type"] == "extra_forbidden":
        return f"unknown entry{did_you_mean(str(item['loc'][-1]), kind.model_fields)}"
    message = str(item["msg"]).removeprefix("Value error, ")
    return "this entry is required" if item["type"] == "missing" else f"{message[:1].lower()}{message[1:]}"


class Statistic(BaseModel):
    """Something that is computed and shown."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)
    kind: ClassVar[str] = ""
    reads: ClassVar[tuple[str, ...]] = ()
    """fields that name the columns it reads"""
    judges: ClassVar[tuple[str, ...]] = ()
    """those of them whose totals the rules over parties judge"""

    def __init_subclass__(cls, kind: str = "", **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if kind:
            cls.kind = kind
            KINDS[kind] = cls

    def used(self) -> tuple[str, ...]:
        """Name the columns that it reads."""
        return self._named(self.reads)

    def judged(self) -> tuple[str, ...]:
        """Name the columns whose totals the rules over parties judge, besides the numbers of people."""
        return self._named(self.judges)

    def _named(self, fields: tuple[str, ...]) -> tuple[str, ...]:
        given = [getattr(self, field) for field in fields]
        return tuple(name for names in given for name in ([names] if isinstance(names, str) else names))

    def guards(self, agreement: Agreement, local: Local) -> Iterator[tuple[int, int]]:  # noqa: ARG002 - most have none
        """Give own numbers of people, and how many must be left of them whatever coalition subtracts its own."""
        yield from ()

    def warnings(self, agreement: Agreement) -> Iterator[str]:  # noqa: ARG002 - most have none
        """Say what it can disclose although sizes and rules hold."""
        yield from ()

    def faults(self, agreement: Agreement) -> Iterator[str]:
        """Say what is wrong with it under an agreement."""
        for name in self.used():
            if name not in agreement.columns:
                yield unknown("column", name, agreement.columns)

    @abstractmethod
    def reveals(self, agreement: Agreement) -> list[str]:
        """Say what everybody will see."""

    async def compute(self, run: Run) -> dict[str, Any]:  # noqa: ARG002
        """Carry out the protocol among all parties."""
        raise PlanError(f"{self.kind}: is computed between two parties, not by all of them together")


def _numeric(names: Iterable[str], agreement: Agreement) -> Iterator[str]:
    for name in names:
        if name in agreement.columns and agreement.columns[name].categories:
            yield f"{name!r} has categories; bounds (`lower`, `upper`) are needed here"


def _categorical(names: Iterable[str], agreement: Agreement) -> Iterator[str]:
    for name in names:
        if name in agreement.columns and not agreement.columns[name].categories:
            yield f"{name!r} has no `categories`"


def _decimals(decimals: int, scale: float) -> Iterator[str]:
    if scale * 10.0**decimals > _LARGEST:
        most = math.floor(math.log10(_LARGEST / scale))
        if most < 0:
            yield "the bounds are too far apart for this statistic; narrow them or take a larger unit"
        else:
            yield f"`decimals` is at most {most} with these bounds"


class Count(Statistic, kind="count"):
    """The number of people of all parties together."""

    def reveals(self, agreement: Agreement) -> list[str]:
        """Say what everybody will see."""
        return ["the number of people of all parties together" + _noisy(agreement)]

    async def compute(self, run: Run) -> dict[str, Any]:
        """Carry out the protocol."""
        own = run.local.people + (run.noise.draw(1) if run.noise else 0)
        return {"people": int((await run.sharing.reveal("count", run.sharing.counts([own])))[0])}


class _OfSteps(Statistic):
    column: str
    """column with bounds and a step"""

    reads: ClassVar[tuple[str, ...]] = ("column",)

    def faults(self, agreement: Agreement) -> Iterator[str]:
        """Say what is wrong with it under an agreement."""
        yield from super().faults(agreement)
        yield from _numeric([self.column], agreement)
        yield from _stepped(self.column, agreement)


class Sum(_OfSteps, kind="sum"):
    """The total of a column over the people of all parties."""

    judges: ClassVar[tuple[str, ...]] = ("column",)

    def reveals(self, agreement: Agreement) -> list[str]:
        """Say what everybody will see."""
        return [f"the total of {self.column}" + _noisy(agreement)]

    async def compute(self, run: Run) -> dict[str, Any]:
        """Carry out the protocol."""
        column = run.column(self.column)
        step = Fraction(str(column.step))
        own = int(np.rint(run.local.numbers[self.column] / float(step)).astype(np.int64).sum())
        if run.noise:
            own += run.noise.draw(
                math.ceil(Fraction(column.upper or 0.0) / step - Fraction(column.lower or 0.0) / step)
            )
        found = await run.sharing.reveal("sum", run.sharing.counts([own]))
        return {"column": self.column, "sum": float(int(found[0]) * step)}


class _OfColumns(Statistic):
    columns: tuple[str, ...] = Field(min_length=1)
    """columns with bounds"""
    decimals: int = Field(2, ge=0, le=12)
    """the result is rounded to so many decimals before it is opened"""

    reads: ClassVar[tuple[str, ...]] = ("columns",)
    judges: ClassVar[tuple[str, ...]] = ("columns",)

    def faults(self, agreement: Agreement) -> Iterator[str]:
        """Say what is wrong with it under an agreement."""
        yield from super().faults(agreement)
        yield from _numeric(self.columns, agreement)
        if len(set(self.columns)) < len(self.columns):
            yield "a column is named twice"
        known = [agreement.columns[name] for name in self.columns if name in agreement.columns]
        wide = list(_decimals(self.decimals, max((self._unit(column) for column in known), default=1.0)))
        yield from wide
        if not wide and not any(one.kind == "count" for one in agreement.statistics):
            finest = [self._grain(column, agreement.people.total) for column in known if not column.categories]
            most = math.floor(1e-9 - math.log10(max(finest, default=1e-99)))
            if self.decimals > max(0, most):
                yield (
                    f"`decimals` is at most {max(0, most)} for {agreement.people.total:,} people: with more the figures"
                    " tell how many there are; add `count`, which tells it openly, or ask for more people"
                )

    def _unit(self, column: AgreedColumn) -> float:
        return column.half + abs(column.middle)

    def _grain(self, column: AgreedColumn, people: int) -> float:
        """Give the distance between figures that are possible for so many people, by which they could be told."""
        return _step(column) / people

    def reveals(self, agreement: Agreement) -> list[str]:
        """Say what everybody will see."""
        what = f"the {self.kind} of {', '.join(self.columns)}, rounded to {self.decimals} decimals"
        return [what + _noisy(agreement)]


class Mean(_OfColumns, kind="mean"):
    """Means of columns; neither totals nor the number of people are shown."""

    async def compute(self, run: Run) -> dict[str, Any]:
        """Carry out the protocol."""
        sums = run.sums([lambda c=c: run.scaled(c) for c in self.columns], 2 * len(self.columns))  # type: ignore[misc]
        means = sums * (1 / run.people())
        specs = [run.column(name) for name in self.columns]
        means = means * np.array([spec.half for spec in specs]) + _public(run, [spec.middle for spec in specs])
        found = await run.shown("mean", means, self.decimals)
        return {"mean": dict(zip(self.columns, found.tolist(), strict=True))}


class _SecondMoments(_OfColumns):
    def _unit(self, column: AgreedColumn) -> float:
        return column.half**2

    def _grain(self, column: AgreedColumn, people: int) -> float:
        return _step(column) ** 2 / (people * max(1, people - 1))

    def _covariances(self, run: Run) -> tuple[list[tuple[int, int]], Any]:
        """Give pairs of columns and their shared covariances (over n − 1) of numbers scaled to −1…1."""
        names, p = self.columns, len(self.columns)
        pairs = [(i, j) for i in range(p) for j in range(i, p)]
        terms: list[Callable[[], Floats]] = [lambda c=c: run.scaled(c) for c in names]  # type: ignore[misc]
        terms += [lambda i=i, j=j: run.scaled(names[i]) * run.scaled(names[j]) for i, j in pairs]  # type: ignore[misc]
        sums = run.sums(terms, 2 * len(terms))
        people = run.people()
        means = sums[:p] * (1 / people)
        products = run.sharing.joined([sums[i : i + 1] * means[j : j + 1] for i, j in pairs])
        return pairs, (sums[p:] - products) * (1 / (people - 1 / 1024))


class Variance(_SecondMoments, kind="variance"):
    """Variances of columns (over n − 1)."""

    async def compute(self, run: Run) -> dict[str, Any]:
        """Carry out the protocol."""
        pairs, cov = self._covariances(run)
        own = run.sharing.joined([cov[k : k + 1] for k, (i, j) in enumerate(pairs) if i == j])
        own = own * np.array([run.column(name).half ** 2 for name in self.columns])
        found = await run.shown("variance", own, self.decimals)
        return {"variance": dict(zip(self.columns, found.tolist(), strict=True))}


class Covariance(_SecondMoments, kind="covariance"):
    """The matrix of covariances of columns (over n − 1)."""

    async def compute(self, run: Run) -> dict[str, Any]:
        """Carry out the protocol."""
        pairs, cov = self._covariances(run)
        half = [run.column(name).half for name in self.columns]
        cov = cov * np.array([half[i] * half[j] for i, j in pairs])
        return {
            "columns": list(self.columns),
            "covariance": _square(pairs, await run.shown("covariance", cov, self.decimals)),
        }


class Correlation(_SecondMoments, kind="correlation"):
    """The matrix of Pearson correlations of columns; variances are not shown."""

    columns: tuple[str, ...] = Field(min_length=2)
    """columns with bounds"""
    decimals: int = Field(3, ge=0, le=6)
    """the result is rounded to so many decimals before it is opened"""

    def _unit(self, column: AgreedColumn) -> float:  # noqa: ARG002 - correlations have no unit
        return 1.0

    def _grain(self, column: AgreedColumn, people: int) -> float:  # noqa: ARG002
        return 1e-6  # roots of fractions: no even grid

    async def compute(self, run: Run) -> dict[str, Any]:
        """Carry out the protocol."""
        from discretion.parties.sharing import SMALLEST

        pairs, cov = self._covariances(run)
        own = run.sharing.joined([cov[k : k + 1] for k, (i, j) in enumerate(pairs) if i == j])
        await _unless(run, "correlation: every column varies", run.sharing.all_of(own >= SMALLEST), _FLAT)
        root = run.sharing.inverse_root(own)
        other = [(k, i, j) for k, (i, j) in enumerate(pairs) if i != j]
        found = run.sharing.joined([cov[k : k + 1] for k, _, _ in other])
        found = found * run.sharing.joined([root[i : i + 1] for _, i, _ in other])
        found = found * run.sharing.joined([root[j : j + 1] for _, _, j in other])
        shown = await run.shown("correlation", found, self.decimals)
        values = {(i, j): value for (_, i, j), value in zip(other, shown.tolist(), strict=True)}
        matrix = _square(pairs, np.array([values.get(pair, 1.0) for pair in pairs]))
        return {"columns": list(self.columns), "correlation": matrix}


class _OfCells(Statistic):
    at_least: int = Field(10, ge=1)
    """cells where fewer people are left when a coalition subtracts its own are shown empty, as if nobody were there"""

    @abstractmethod
    def labels(self, agreement: Agreement) -> list[tuple[Any, ...]]:
        """Name the cells, in order."""

    @abstractmethod
    def cells(self, run: Run) -> Ints:
        """Give the cell of each own row."""

    def reveals(self, agreement: Agreement) -> list[str]:
        """Say what everybody will see."""
        rule = "by the rules over parties" if not agreement.noise else "by its noisy count"
        what = f"the people in each of {len(self.labels(agreement))} cells of {', '.join(self.used())}"
        few = f"with fewer than {self.at_least}" + (" of the others" if not agreement.noise else "")
        return [f"{what}{_noisy(agreement)}; a cell {few}, or unsafe {rule}, is empty"]

    async def compute(self, run: Run) -> dict[str, Any]:
        """Carry out the protocol."""
        labels, rules = self.labels(run.agreement), run.agreement.rules
        own = np.bincount(self.cells(run), minlength=len(labels)).tolist()
        if run.noise:
            cells = run.sharing.counts([count + run.noise.draw(2) for count in own])
            good = cells >= self.at_least
        else:
            each = run.sharing.each(own)
            cells = sum(each[1:], start=each[0])
            by_size = run.sharing.ordered(each)
            good = run.sharing.left(by_size) >= self.at_least
            good = good * run.sharing.obeys(by_size, rules.p_percent, rules.dominance.parties, rules.dominance.percent)
        found = await run.sharing.reveal(self.kind, cells * good)
        shown = [int(value) if value else None for value in found]
        return {"by": list(self.used()), "cells": [list(label) for label in labels], "people": shown}


class Histogram(_OfCells, kind="histogram"):
    """How many people are in each interval of a column."""

    column: str
    """column with bounds"""
    breaks: tuple[float, ...] = Field(min_length=3)
    """ends of the intervals [a, b); the last one includes its upper end"""

    reads: ClassVar[tuple[str, ...]] = ("column",)

    def faults(self, agreement: Agreement) -> Iterator[str]:
        """Say what is wrong with it under an agreement."""
        yield from super().faults(agreement)
        yield from _numeric([self.column], agreement)
        if list(self.breaks) != sorted(set(self.breaks)):
            yield "`breaks` rise from one to the next"
        column = agreement.columns.get(self.column)
        if (
            column
            and not column.categories
            and (self.breaks[0] > column.middle - column.half or self.breaks[-1] < column.middle + column.half)
        ):
            yield "`breaks` cover all numbers between the bounds of the column"

    def labels(self, agreement: Agreement) -> list[tuple[Any, ...]]:  # noqa: ARG002 - the breaks say it
        """Name the cells, in order."""
        return list(itertools.pairwise(self.breaks))

    def cells(self, run: Run) -> Ints:
        """Give the cell of each own row."""
        found = np.searchsorted(self.breaks, run.local.numbers[self.column], side="right") - 1
        return np.minimum(found, len(self.breaks) - 2).astype(np.int64)


class CategoryTable(_OfCells, kind="table"):
    """How many people are in each combination of categories; no totals beside it."""

    by: tuple[str, ...] = Field(min_length=1, max_length=6)
    """columns with categories"""

    reads: ClassVar[tuple[str, ...]] = ("by",)

    def faults(self, agreement: Agreement) -> Iterator[str]:
        """Say what is wrong with it under an agreement."""
        yield from super().faults(agreement)
        yield from _categorical(self.by, agreement)
        if all(name in agreement.columns for name in self.by) and len(self.labels(agreement)) > _MOST_CELLS:
            yield f"a table has at most {_MOST_CELLS:,} cells"

    def labels(self, agreement: Agreement) -> list[tuple[Any, ...]]:
        """Name the cells, in order."""
        return list(itertools.product(*(agreement.columns[name].categories for name in self.by)))

    def cells(self, run: Run) -> Ints:
        """Give the cell of each own row."""
        return _combined(run, self.by)


class NumberQuantile(_OfSteps, kind="quantile"):
    """The smallest number that at least a share of all people do not exceed; found by halving, digit by digit."""

    share: float = Field(0.5, gt=0, lt=1)
    """0.5 is the median; neither 0 nor 1, which would be one person's value"""
    at_least: int = Field(10, ge=1)
    """so many people are on either side of it, not counting those of any coalition; otherwise nothing is opened"""

    def faults(self, agreement: Agreement) -> Iterator[str]:
        """Say what is wrong with it under an agreement."""
        yield from super().faults(agreement)
        if self.share in self._others(agreement):
            yield f"the {self.share:g} quantile of {self.column!r} is asked for twice"

    def reveals(self, agreement: Agreement) -> list[str]:
        """Say what everybody will see."""
        return [f"the {self.share:g} quantile of {self.column}, binary digit by digit" + _noisy(agreement)]

    def _others(self, agreement: Agreement) -> list[float]:
        """Return the shares of the other quantiles of the column."""
        every = [one for one in agreement.statistics if isinstance(one, NumberQuantile) and one.column == self.column]
        return [one.share for one in every if one is not self]

    def guards(self, agreement: Agreement, local: Local) -> Iterator[tuple[int, int]]:
        """Ask for people on either side, and between this quantile and the next ones of the column."""
        shares = [Fraction(0), Fraction(1), *map(Fraction, map(str, self._others(agreement)))]
        yield local.people, math.ceil(self.at_least / min(abs(Fraction(str(self.share)) - other) for other in shares))

    def warnings(self, agreement: Agreement) -> Iterator[str]:
        """Say what it can disclose."""
        if not agreement.noise:
            yield f"the quantile is the exact {self.column} of somebody"

    async def compute(self, run: Run) -> dict[str, Any]:
        """Carry out the protocol."""
        column, share = run.column(self.column), Fraction(str(self.share))
        step = Fraction(str(column.step))
        first, last = (round(Fraction(str(end)) / step) for end in (column.lower, column.upper))
        own = np.sort(np.rint(run.local.numbers[self.column] / float(step)).astype(np.int64))
        rounds = max(1, (last - first).bit_length())
        while first < last:
            middle = (first + last) // 2
            below = int(np.searchsorted(own, middle, side="right"))
            guarded = run.sharing.each([below, run.local.people - below]) if run.noise is None else None
            below += run.noise.draw(1, parts=rounds) if run.noise else 0
            rest = run.sharing.counts([share.denominator * below - share.numerator * run.local.people])
            digit = rest >= 0
            shown = digit + 1
            if guarded:
                enough = run.sharing.left(run.sharing.ordered(guarded)) >= self.at_least
                shown = shown * (enough[1:] + digit * (enough[:1] - enough[1:]))
            found = (await run.sharing.reveal("quantile digit", shown))[0]
            if not found:
                raise RequirementNotMet(f"the quantile is not told: {_ONE_SIDED}")
            if found == 2:
                last = middle
            else:
                first = middle + 1
        return {"column": self.column, "share": self.share, "quantile": float(first * step)}


class LinearRegression(Statistic, kind="linear-regression"):
    """Least squares of a column on others; only the coefficients are shown."""

    target: str
    """column with bounds that is explained"""
    on: tuple[str, ...] = Field(min_length=1, max_length=30)
    """columns that explain it: with bounds as they are, with categories as one indicator each but for the first"""
    at_least: int = Field(10, ge=1)
    """so many people are in every category, not counting those of any coalition; otherwise nothing is opened"""
    decimals: int = Field(4, ge=0, le=12)
    """coefficients are rounded to so many decimals before they are opened"""

    reads: ClassVar[tuple[str, ...]] = ("target", "on")
    judges: ClassVar[tuple[str, ...]] = ("target",)

    def faults(self, agreement: Agreement) -> Iterator[str]:
        """Say what is wrong with it under an agreement."""
        yield from super().faults(agreement)
        yield from _numeric([self.target], agreement)
        if len(set(self.used())) < len(self.used()):
            yield "a column is named twice"
        if all(name in agreement.columns for name in self.used()):
            own = agreement.columns[self.target]
            parts = [
                1.0,
                *(1 / agreement.columns[name].half for name in self.on if not agreement.columns[name].categories),
            ]
            yield from _decimals(self.decimals, own.half * max(parts) + abs(own.middle))

    def reveals(self, agreement: Agreement) -> list[str]:
        """Say what everybody will see."""
        names = [name for name, *_ in self._terms(agreement)]
        return [
            f"the coefficients of {self.target} on intercept, {', '.join(names)}, rounded to {self.decimals} decimals"
            + _noisy(agreement),
            "whether the columns determine them (one bit)",
        ]

    def guards(self, agreement: Agreement, local: Local) -> Iterator[tuple[int, int]]:
        """Ask for people in every category."""
        yield from _of_levels(self.on, self.at_least, agreement, local)

    def warnings(self, agreement: Agreement) -> Iterator[str]:
        """Say what it can disclose."""
        if not agreement.noise:
            if numbers := [name for name in self.on if not agreement.columns[name].categories]:
                yield f"somebody far from everybody else in {', '.join(numbers)} can determine a coefficient"
            if self.decimals > 1:
                yield "with many decimals the coefficients can tell how many people a category has"

    def _terms(self, agreement: Agreement) -> list[tuple[str, str, int]]:
        found = []
        for name in self.on:
            categories = agreement.columns[name].categories
            found += [(f"{name}={c}", name, k) for k, c in enumerate(categories) if k] or [(name, name, 0)]
        return found

    async def compute(self, run: Run) -> dict[str, Any]:
        """Carry out the protocol."""
        from discretion.parties.sharing import SMALLEST

        terms, sharing = self._terms(run.agreement), run.sharing
        p = len(terms) + 1

        def design(k: int) -> Floats:
            if k == 0:
                return np.ones(run.local.people)
            _, name, code = terms[k - 1]
            return (run.local.codes[name] == code).astype(np.float64) if code else run.scaled(name)

        pairs = [(i, j) for i in range(p) for j in range(i, p) if j]
        inner: list[Callable[[], Floats]] = [lambda i=i, j=j: design(i) * design(j) for i, j in pairs]  # type: ignore[misc]
        inner += [lambda i=i: design(i) * run.scaled(self.target) for i in range(p)]  # type: ignore[misc]
        sums = run.sums(inner, 2 * len(inner))
        sums = sums * (1 / run.people())
        one = sharing.real.array(np.ones(1), integral=False)
        place = {pair: sums[k : k + 1] for k, pair in enumerate(pairs)} | {(0, 0): one}
        gram = sharing.joined([place[min(i, j), max(i, j)] for i in range(p) for j in range(p)])
        solution, pivots = sharing.solved(sharing.runtime.np_reshape(gram, (p, p)), sums[len(pairs) :])
        good = sharing.all_of(pivots >= SMALLEST)
        await _unless(run, "linear-regression: the columns determine the coefficients", good, _SINGULAR)
        back = np.zeros((p, p))
        own = run.column(self.target)
        for k in range(p):
            column = run.column(terms[k - 1][1]) if k and not terms[k - 1][2] else None
            back[k, k] = own.half / (column.half if column else 1.0)
            if column:
                back[0, k] = -own.half * column.middle / column.half
        moved = back @ solution + _public(run, [own.middle] + [0.0] * (p - 1))
        found = await run.shown("linear-regression", moved, self.decimals)
        return {
            "target": self.target,
            "coefficients": dict(zip(["intercept", *(n for n, *_ in terms)], found.tolist(), strict=True)),
        }


class LogisticRegression(Statistic, kind="logistic-regression"):
    """Logistic regression of a column with two categories on columns with categories; only coefficients are shown.

    People are counted in the cells of all columns; Newton steps run on the shared counts, their number is fixed.
    """

    target: str
    """column with two categories; the second one is what is explained"""
    on: tuple[str, ...] = Field(min_length=1, max_length=8)
    """columns with categories: whole numbers as a number, texts as one indicator each but for the first"""
    at_least: int = Field(10, ge=1)
    """so many people of every category have each outcome, not counting those of any coalition; otherwise nothing is
    opened"""
    decimals: int = Field(4, ge=0, le=6)
    """coefficients are rounded to so many decimals before they are opened"""

    reads: ClassVar[tuple[str, ...]] = ("target", "on")

    def faults(self, agreement: Agreement) -> Iterator[str]:
        """Say what is wrong with it under an agreement."""
        yield from super().faults(agreement)
        yield from _categorical(self.used(), agreement)
        if self.target in agreement.columns and len(agreement.columns[self.target].categories) != 2:
            yield f"{self.target!r} needs exactly two categories"
        if len(set(self.used())) < len(self.used()):
            yield "a column is named twice"
        elif all(name in agreement.columns for name in self.used()):
            cells = math.prod(len(agreement.columns[name].categories) for name in self.on)
            if cells > 500:
                yield f"the columns have {cells:,} cells together; 500 at most"

    def reveals(self, agreement: Agreement) -> list[str]:
        """Say what everybody will see."""
        names, _, _ = self._design(agreement)
        return [
            f"the coefficients of {self.target} on {', '.join(names)}, rounded to {self.decimals} decimals"
            + _noisy(agreement),
            "whether the fit converged (one bit)",
        ]

    def guards(self, agreement: Agreement, local: Local) -> Iterator[tuple[int, int]]:
        """Ask for people in every category with every outcome: the coefficients are made of these numbers."""
        outcome = () if agreement.noise else (0, 1)
        for name, code in itertools.product(self.on, outcome):
            codes = local.codes[name][local.codes[self.target] == code]
            for count in np.bincount(codes, minlength=len(agreement.columns[name].categories)):
                yield int(count), self.at_least

    def warnings(self, agreement: Agreement) -> Iterator[str]:
        """Say what it can disclose."""
        if not agreement.noise:
            yield f"the coefficients tell nearly what share of each category is {self.target}"

    def _design(self, agreement: Agreement) -> tuple[list[str], Floats, Floats]:
        """Give names, the public design of the cells (numbers scaled to 0…1), and the way back to units."""
        names, back = ["intercept"], [(1.0, 0.0)]
        makers: list[Callable[[tuple[int, ...]], float]] = [lambda _: 1.0]
        for place, name in enumerate(self.on):
            categories = agreement.columns[name].categories
            if isinstance(categories[0], str):
                for k in range(1, len(categories)):
                    names.append(f"{name}={categories[k]}")
                    makers.append(lambda cell, place=place, k=k: float(cell[place] == k))  # type: ignore[misc]
                    back.append((1.0, 0.0))
            else:
                values = [float(value) for value in categories]
                low, width = min(values), max(values) - min(values)
                names.append(name)
                makers.append(lambda cell, p=place, v=values, a=low, w=width: (v[cell[p]] - a) / w)  # type: ignore[misc]
                back.append((1 / width, -low / width))
        cells = itertools.product(*(range(len(agreement.columns[name].categories)) for name in self.on))
        design = np.array([[make(cell) for make in makers] for cell in cells])
        matrix = np.diag([scale for scale, _ in back])
        matrix[0, :] += [shift for _, shift in back]
        return names, design, matrix

    async def compute(self, run: Run) -> dict[str, Any]:
        """Carry out the protocol."""
        names, design, back = self._design(run.agreement)
        cells, sharing = len(design), run.sharing
        both = np.bincount(_combined(run, self.on) * 2 + run.local.codes[self.target], minlength=2 * cells).tolist()
        if run.noise:
            both = [count + run.noise.draw(2) for count in both]
        counts = sharing.total(np.array(both, dtype=np.float64), sharing.short)
        if run.noise:
            counts = counts * (counts >= 0)
        counts = counts * (1 / sharing.runtime.np_sum(sharing.runtime.np_reshape(counts, (1, 2 * cells)), axis=1))
        no, yes = counts[0::2], counts[1::2]
        people, p = no + yes, design.shape[1]
        outer = np.array([np.outer(row, row).ravel() for row in design]).T
        beta = sharing.short.array(np.zeros(p), integral=False)
        good = []
        for _ in range(_STEPS):
            linear = design @ beta
            good += [linear < 12.0, linear > -12.0]
            chance = _logistic(linear)
            gradient = design.T @ (yes - people * chance)
            hessian = outer @ (people * chance * (1 - chance))
            move, pivots = sharing.solved(sharing.runtime.np_reshape(hessian, (p, p)), gradient)
            good += [pivots >= 2.0**-16]
            beta = beta + move
        good += [move < 2.0**-12, move > -(2.0**-12)]
        await _unless(run, "logistic-regression: the fit converged", sharing.all_of(sharing.joined(good)), _DIVERGED)
        moved = back @ beta
        scaled = moved * float(10**self.decimals)
        near = sharing.runtime.np_trunc(scaled) * 2**40
        near = near + (scaled - near >= 0.5) - (scaled - near < -0.5)
        found = (
            np.round(np.asarray(await sharing.reveal("logistic-regression", near), dtype=np.float64))
            / 10**self.decimals
        )
        return {"target": self.target, "coefficients": dict(zip(names, found.tolist(), strict=True))}


class Intersection(Statistic, kind="intersection"):
    """How many identifiers the sets of two parties have in common; not which."""

    column: str
    """column with the identifiers; compared as texts without blanks at their ends, each counted once"""
    at_least: int = Field(20, ge=1)
    """a smaller (noisy) number is not told"""
    epsilon: float | None = Field(1.0, gt=0, le=20)
    """noise that each side adds for the other one's eyes; null for the exact number"""

    def reveals(self, agreement: Agreement) -> list[str]:  # noqa: ARG002 - its noise is its own
        """Say what everybody will see."""
        noise = f"discrete Laplace noise of each party, ε = {self.epsilon:g}" if self.epsilon else "no noise"
        return [
            "to each party: how many different identifiers the other one has",
            f"how many identifiers both have, unless fewer than {self.at_least}",
            noise,
        ]


_ONE_SIDED = "without those of some party, too few people are on one side of it"
_FLAT = "a column hardly varies compared with its declared bounds; narrow the bounds"
_SINGULAR = "the columns do not determine the coefficients: one is nearly a combination of others, or hardly varies"
_DIVERGED = "the fit did not converge: a cell or category without both outcomes, or too few people"


async def _unless(run: Run, label: str, bit: Any, problem: str) -> None:
    """Open one bit, and stop before anything else is opened where it is zero."""
    if not await run.sharing.reveal(label, bit):
        raise RequirementNotMet(f"this statistic was not opened: {problem}")


def _logistic(z: Any) -> Any:
    """Give 1/(1 + e^(−z)) of shared numbers: e by its series at z/64, then six squarings."""
    z = z * (-1 / 64)
    square = z * z
    e = 1 + z + square * 0.5 + square * z * (1 / 6) + square * square * (1 / 24)
    for _ in range(6):
        e = e * e
    return 1 / (e + 1)


def _public(run: Run, values: list[float]) -> Any:
    """Turn public numbers into (trivially) shared ones."""
    return run.sharing.real.array(np.array(values, dtype=np.float64), integral=False)


def _square(pairs: list[tuple[int, int]], values: Floats) -> list[list[float]]:
    p = max(j for _, j in pairs) + 1
    found = np.zeros((p, p))
    for (i, j), value in zip(pairs, values, strict=True):
        found[i, j] = found[j, i] = value
    return [[float(value) for value in row] for row in found]


def _combined(run: Run, names: Iterable[str]) -> Ints:
    found = np.zeros(run.local.people, dtype=np.int64)
    for name in names:
        found = found * len(run.column(name).categories) + run.local.codes[name]
    return found


def _of_levels(names: Iterable[str], least: int, agreement: Agreement, local: Local) -> Iterator[tuple[int, int]]:
    """Guard every category of columns, and both values of a number that has only two.

    Not with noise: whether a category is small would be an answer without it.
    """
    for name in () if agreement.noise else names:
        column = agreement.columns[name]
        if column.categories:
            for count in np.bincount(local.codes[name], minlength=len(column.categories)):
                yield int(count), least
        elif column.step is not None and round(2 * column.half / column.step) == 1:
            high = int((local.numbers[name] > column.middle).sum())
            yield high, least
            yield local.people - high, least


def completed(statistics: Sequence[Statistic]) -> Iterator[tuple[int, int, str]]:
    """Give pairs of statistics of which one tells totals that fill the empty cells of the other, and why.

    Every table without empty cells tells the number of all people, and so do a sum and a mean of the same column.
    """
    cells = [place for place, one in enumerate(statistics) if isinstance(one, _OfCells)]
    for first, second in itertools.combinations(cells, 2):
        yield first, second, "the cells of one add up to cells or to the total of the other"
    for place, one in enumerate(statistics):
        if cells and isinstance(one, Count):
            yield place, cells[0], "the number of all people, less the other cells, is an empty cell"
        if cells and isinstance(one, Sum):
            for mean in statistics:
                if isinstance(mean, Mean) and one.column in mean.columns:
                    yield place, cells[0], "the sum divided by the mean is the number of all people, which fills cells"


def _step(column: AgreedColumn) -> float:
    """Give the step of a column; numbers without one are taken as whole."""
    return column.step if column.step is not None else min(1.0, 2 * column.half)


def _stepped(name: str, agreement: Agreement) -> Iterator[str]:
    column = agreement.columns.get(name)
    if column and not column.categories:
        if column.step is None:
            yield f"{name!r} needs a `step`, such as 1 for whole numbers"
        elif column.half / column.step > 2.0**20 * 1000 or abs(column.middle) / column.step > 2.0**30:
            yield f"{name!r} has more than 2³⁰ steps between its bounds"


def _noisy(agreement: Agreement) -> str:
    return ", with joint noise" if agreement.noise else ""
