"""Less detail: generalization by hierarchy and global recoding (P2, P3)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import TOP, canonical, interval_label
from discretion.errors import DataError, PlanError
from discretion.method import Decision, Method
from discretion.part import FrozenMapping

_ROUNDING = 1e-9
"""Share of an interval by which division may miss its bound: 0.3 / 0.1 is a little less than 3."""

_MOVED = 0.05
"""Share of an interval's records by which rounding its quantiles may change their number."""

MOST_INTERVALS = 1_000_000
"""More intervals of a width are refused: they would say as much as the numbers."""


class Generalize(Method, kind="generalize"):
    """Replace each value by a broader one, by the column's hierarchy.

    The same level is used for every record of a column (global recoding). Nothing false is said, only less: a column
    whose top or bottom was coded before is refused where the label of the bound does not hold for those who lie beyond
    it (`[60, 79]` for somebody of 90); a hierarchy with open ends (`cuts` up to inf) needs no coding. What it
    guarantees depends on the level: check k-anonymity afterwards. Does not protect against attribute disclosure.
    Missing values stay missing. Time linear in the number of cells.

    References
    ----------
    Samarati & Sweeney (1998); catalogue P3.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.Generalize(levels={"region": 1})(dc.datasets.census(1000, seed=1))
    >>> people.levels["region"]
    1
    """

    levels: FrozenMapping[str, int]
    """level of each column, 0 being the value itself; for example {age: 2, zip: 3}"""

    perturbs: ClassVar[bool] = False
    guarantee: ClassVar[str] = "Values were replaced by broader categories; what is said is true, but less detailed."

    @field_validator("levels", mode="after")
    @classmethod
    def _not_negative(cls, levels: Mapping[str, int]) -> Mapping[str, int]:
        if not levels or any(level < 0 for level in levels.values()):
            raise ValueError("expected at least one column with a level of 0 or more")
        return levels

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Map each distinct value once, then the rows."""
        data.require(self.levels)
        problems = [_level_problem(data, name, level) for name, level in self.levels.items()]
        if found := [text for text in problems if text]:
            raise PlanError(found)
        raised = {name: level for name, level in self.levels.items() if level > 0}
        for name, level in raised.items():
            require_true(data, name, [level], self.kind)
        new = {name: _generalized(data, name, level) for name, level in raised.items()}
        return data.with_columns(new, levels=raised)


def _level_problem(data: Dataset, column: str, level: int) -> str | None:
    if data.schema[column].hierarchy is None:
        return f"generalize: column {column!r} has no hierarchy"
    height = data.hierarchy(column).height
    if level > height:
        return f"generalize: level {level} of {column!r} does not exist; its hierarchy has levels 0 to {height}"
    current = data.levels.get(column, 0)
    if not isinstance(current, int):
        return f"generalize: column {column!r} was generalized record by record"
    if level < current:
        return f"generalize: column {column!r} stands at level {current}; detail cannot be put back (level {level})"
    return None


def require_true(data: Dataset, name: str, levels: Iterable[int], kind: str) -> None:
    """Refuse labels that are false for records whose values lie beyond a bound that top or bottom coding put there."""
    coded = {step.column for step in data.steps if step.kind in ("top-code", "bottom-code") and hasattr(step, "column")}
    if name not in coded or data.levels.get(name, 0) != 0 or not data.is_numeric(name):
        return
    hierarchy, x, true = data.hierarchy(name), data.number(name), data.origin.number(name)[data.row_ids]
    ends = ((x == np.nanmax(x)) & (true > x)) | ((x == np.nanmin(x)) & (true < x))
    if not ends.any():
        return
    pairs, counts = np.unique(np.column_stack([x[ends], true[ends]]), axis=0, return_counts=True)
    for level in levels:
        said, meant = (hierarchy.labels([canonical(float(value)) for value in side], level) for side in pairs.T)
        if false := int(counts[[one != other for one, other in zip(said, meant, strict=True)]].sum()):
            raise PlanError(
                f"{kind}: {name!r} was top- or bottom-coded before, and its label at level {level} would be false "
                f"for {false} records that lie beyond the bound; leave the coding out and give the column a hierarchy "
                f"with open ends, for example `{name}: {{intervals: {{cuts: [[0, 20, 40, 60, 80, inf]]}}}}`"
            )


def _generalized(data: Dataset, column: str, level: int) -> Any:
    import polars as pl

    hierarchy = data.hierarchy(column)
    codes = data.codes(column)
    current = data.levels.get(column, 0)
    if current == 0:
        texts = [None if value is None else canonical(value) for value in codes.values]
        known = [text for text in texts if text is not None]
        upper = dict(zip(known, hierarchy.labels(known, level), strict=True))
    else:
        texts = [None if value is None else str(value) for value in codes.values]
        upper = dict(zip(hierarchy.table[int(current)], hierarchy.table[level], strict=True))
    labels = pl.Series(column, [None if text is None else upper[text] for text in texts], dtype=pl.String)
    return labels.gather(codes.codes.astype(np.uint32))


def _rounded(cuts: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round cuts to the fewest significant digits, at least three, that leave each interval nearly its records."""
    order = np.sort(x)
    sizes = np.diff(np.searchsorted(order, cuts), prepend=0, append=len(x))
    for digits in range(3, 13):
        short = np.array([float(f"{cut:.{digits}g}") for cut in cuts])
        moved = np.abs(np.diff(np.searchsorted(order, short), prepend=0, append=len(x)) - sizes)
        if (np.diff(short) > 0).all() and (moved <= _MOVED * sizes).all():
            return short
    return cuts


def _bound(cut: float) -> str:
    return canonical(cut) if cut.is_integer() else f"{cut:.12g}"


class Recode(Method, kind="recode"):
    """Replace the numbers of a column by labeled intervals.

    The intervals come from given cuts, from a width, or from quantiles of the data (about equally many records in
    each). Intervals are closed below and open above; the last one of given cuts is closed. Quantiles are rounded to
    three significant digits, or to as many as keep the number of records in every interval within a twentieth, and the
    outermost intervals are open ("< 2310", ">= 3950"): the smallest and the largest value are somebody's. Nothing false
    is said, only less. Does not by itself give k-anonymity. Missing values stay missing; a value outside the cuts is an
    error. The cuts that were found can be re-used on the next delivery (intervals of a width go on beyond them). Time
    O(n log c) for c cuts.

    References
    ----------
    Catalogue P2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [12, 23, 42, 68]})
    >>> dc.Recode(column="age", cuts=[0, 18, 65, 120], labels=["child", "adult", "senior"])(ages)["age"].to_list()
    ['child', 'adult', 'adult', 'senior']
    """

    column: str
    """numeric column to recode"""
    cuts: tuple[float, ...] | None = None
    """ascending bounds of the intervals, the first and the last included"""
    width: float | None = Field(None, gt=0)
    """width of equal intervals, counted from `origin`"""
    origin: float = 0.0
    """where the intervals of `width` start to count"""
    quantiles: int | None = Field(None, ge=2)
    """number of intervals with about equally many records"""
    labels: tuple[str, ...] | None = None
    """names of the intervals, from low to high; without it, the bounds"""

    perturbs: ClassVar[bool] = False
    guarantee: ClassVar[str] = "Numbers were replaced by intervals; what is said is true, but less detailed."

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = [name for name in ("cuts", "width", "quantiles") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of `cuts`, `width` and `quantiles`")
        if self.cuts is not None and (len(self.cuts) < 2 or any(b <= a for a, b in pairwise(self.cuts))):
            raise ValueError("`cuts` must be at least two ascending numbers")
        if self.labels is not None and self.cuts is not None and len(self.labels) != len(self.cuts) - 1:
            raise ValueError(f"{len(self.cuts) - 1} intervals need as many labels, got {len(self.labels)}")
        if self.labels is not None and self.width is not None:
            raise ValueError("`labels` go with `cuts` or `quantiles`")
        return self

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find the cuts."""
        data.require([self.column])
        x = data.number(self.column)
        x = x[~np.isnan(x)]
        if not len(x):
            raise DataError(f"column {self.column!r} has no values")
        whole = bool(np.all(x == np.floor(x)))
        if self.cuts is not None:
            cuts = list(self.cuts)
        elif self.width is not None:
            cuts = self._equal(float(x.min()), float(x.max()))
        else:
            shares = np.linspace(0, 1, int(self.quantiles or 2) + 1)
            found = np.unique(ctx.engine.quantiles(data, self.column, shares.tolist()))
            if len(found) < 2:
                raise DataError(f"column {self.column!r} is constant; it has no quantile intervals")
            inner = _rounded(np.unique(np.ceil(found[1:-1])) if whole else found[1:-1], x)
            cuts = [-math.inf, *inner.tolist(), math.inf]
        bounds = [cut if math.isfinite(cut) else None for cut in cuts]
        return Decision(MappingProxyType({"cuts": bounds, "labels": self._names(cuts, whole), "whole": whole}))

    def _equal(self, least: float, most: float) -> list[float]:
        """Give the bounds of equal intervals that hold the values; rounded to 15 digits, so that 0.3 is 3 × 0.1."""
        width = self.width or 1.0
        first = math.floor((least - self.origin) / width + _ROUNDING)
        last = math.floor((most - self.origin) / width + _ROUNDING) + 1
        if last - first > MOST_INTERVALS:
            raise DataError(
                f"column {self.column!r}: a width of {width:g} gives {last - first} intervals; at most "
                f"{MOST_INTERVALS} are made: take a larger width"
            )
        exact = (self.origin + width * step for step in range(first, last + 1))
        cuts = [cut if cut.is_integer() else float(f"{cut:.15g}") for cut in exact]
        if any(high <= low for low, high in pairwise(cuts)):
            raise DataError(f"column {self.column!r}: its numbers are too large for intervals of width {width:g}")
        return cuts

    def _names(self, cuts: list[float], whole: bool) -> list[str]:
        if self.labels is not None:
            if len(self.labels) != len(cuts) - 1:
                raise DataError(f"the data gives {len(cuts) - 1} distinct intervals for {len(self.labels)} labels")
            return list(self.labels)
        names = [interval_label(low, high, whole) for low, high in pairwise(cuts)]
        if self.quantiles is not None:
            names[0], names[-1] = (f"< {_bound(cuts[1])}", f">= {_bound(cuts[-2])}") if cuts[1:-1] else (TOP, TOP)
        elif self.width is None:
            names[-1] = f"[{_bound(cuts[-2])}, {_bound(cuts[-1])}]"
        if len(set(names)) < len(names):  # bounds that differ in their last digits only
            names = [f"[{canonical(low)}, {canonical(high)})" for low, high in pairwise(cuts)]
        return names

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Find each value's interval."""
        import polars as pl

        data.require([self.column])
        x = data.number(self.column)
        given, names = self._for(x, decision)
        cuts = np.array(given, dtype=float)
        place = np.searchsorted(cuts, x, side="right") - 1
        place[x == cuts[-1]] = len(cuts) - 2
        missing = np.isnan(x)
        outside = int((((place < 0) | (place > len(cuts) - 2)) & ~missing).sum())
        if outside:
            raise DataError(
                f"column {self.column!r}: {outside} values lie outside the cuts {_bound(given[0])} to "
                f"{_bound(given[-1])}; widen them"
            )
        place[missing] = len(cuts) - 1
        labels = pl.Series(self.column, [*names, None], dtype=pl.String)
        return data.with_columns({self.column: labels.gather(place.astype(np.uint32))})

    def _for(self, x: NDArray[np.float64], decision: Decision) -> tuple[list[float], list[str]]:
        """Give cuts and labels for these values: intervals of a width go on beyond the data they were fitted on."""
        cuts, names = list(decision["cuts"]), decision["labels"]
        cuts[0], cuts[-1] = (
            open_ if cut is None else cut for cut, open_ in ((cuts[0], -math.inf), (cuts[-1], math.inf))
        )
        fractions = int((x != np.floor(x)).sum() - np.isnan(x).sum()) if decision["whole"] else 0
        if fractions and self._names(cuts, True) != self._names(cuts, False):
            raise DataError(
                f"column {self.column!r}: {fractions} values are not whole, and the intervals were named for whole "
                "numbers; fit the step anew"
            )
        if self.width is None or np.isnan(x).all():
            return cuts, names
        least, most = float(np.nanmin(x)), float(np.nanmax(x))
        if least >= cuts[0] and most < cuts[-1]:
            return cuts, names
        cuts = self._equal(min(least, cuts[0]), max(most, cuts[-2]))
        return cuts, self._names(cuts, decision["whole"])
