"""Totals of a table: figures of inner cells added up along one variable after the other.

Only non-empty cells occur, and every figure is written once, in its final place. Sums add up along every tree. Numbers
of respondents and largest contributions do so too when no respondent is in two cells; respondents that are in several
are taken one by one to all the cells above them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Floats, Ints, Ints32
from discretion.tables.closure import Closure, closed
from discretion.tables.contributions import Contributions
from discretion.tables.dimensions import Dimension


@dataclass(eq=False)
class Amounts:
    """The figures of one response in n cells; what no record makes necessary is None and follows from the others."""

    value: Floats
    count: Ints
    top: Floats
    """(n, t)"""
    ids: Ints32
    """(n, t)"""
    gross: Floats | None = None
    """None: equal to `value`, as nothing is negative"""
    negative: Ints | None = None
    """None: 0"""
    open_count: Ints | None = None
    """None: equal to `count`, as nobody waived protection"""
    open_top: Floats | None = None
    """None: the first of `top`"""
    requested: Floats | None = None
    """None: not known"""

    @property
    def sums(self) -> Iterator[NDArray[Any]]:
        """The figures that add up."""
        yield from (a for a in (self.value, self.count, self.gross, self.negative, self.open_count) if a is not None)

    @property
    def maxima(self) -> Iterator[Floats]:
        """The figures of which the largest counts."""
        yield from (a for a in (self.open_top, self.requested) if a is not None)


@dataclass(eq=False)
class Figures:
    """Cells with everything that is added up."""

    codes: Ints32
    """(n, d)"""
    amounts: tuple[Amounts, ...]
    """one entry per response"""
    weight: Floats
    key: Floats | None = None

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def sums(self) -> Iterator[NDArray[Any]]:
        """The figures that add up."""
        for amounts in self.amounts:
            yield from amounts.sums
        yield self.weight
        if self.key is not None:
            yield self.key

    def take(self, rows: NDArray[Any]) -> Figures:
        """Give some of the cells."""
        return _joined([self], lambda arrays: arrays[0][rows])

    @staticmethod
    def stack(parts: Sequence[Figures], rows: NDArray[Any] | None = None) -> Figures:
        """Put cells one after the other (and give some of them); all parts have the same figures."""
        if rows is None:
            return parts[0] if len(parts) == 1 else _joined(parts, np.concatenate)
        return _joined(parts, lambda arrays: np.concatenate(arrays)[rows])


def _joined(parts: Sequence[Figures], join: Any) -> Figures:
    def each(items: Sequence[Any]) -> Any:
        return None if items[0] is None else join(items)

    amounts = tuple(
        Amounts(**{field.name: each([getattr(one, field.name) for one in same]) for field in fields(Amounts)})
        for same in zip(*(part.amounts for part in parts), strict=True)
    )
    return Figures(
        join([part.codes for part in parts]),
        amounts,
        join([part.weight for part in parts]),
        each([part.key for part in parts]),
    )


def blank(codes: Ints32, like: Figures) -> Figures:
    """Give cells in which nothing is yet, with the figures another set of cells has."""
    n = len(codes)

    def empty(array: Any, fill: float = 0) -> Any:
        if array is None:
            return None
        shape = (n, *array.shape[1:])
        return np.full(shape, fill, array.dtype) if fill else np.zeros(shape, array.dtype)

    amounts = tuple(
        Amounts(**{f.name: empty(getattr(one, f.name), -1 if f.name == "ids" else 0) for f in fields(Amounts)})
        for one in like.amounts
    )
    return Figures(codes, amounts, empty(like.weight), empty(like.key))


def table_figures(entries: Contributions, dims: Sequence[Dimension], variables: Sequence[int], t: int) -> Figures:
    """Give all cells of the table over some of the variables; the others are at their total."""
    cells = closed(entries.inner_codes, dims, variables)
    spread = entries.spread
    found = rolled(_inner_figures(entries, ~spread, t), cells)
    if spread.any():
        _add_spread(found, cells, entries, np.flatnonzero(spread))
    return found


def rolled(inner: Figures, cells: Closure) -> Figures:
    """Put inner cells (rows of the closure) in their places and add them up to all totals."""
    from discretion.kernels.rollup import add_along, larger_along, top_along

    found = blank(cells.codes, inner)
    for one, whole in zip(inner.sums, found.sums, strict=True):
        np.add.at(whole, cells.place, one)
    for one_amounts, amounts in zip(inner.amounts, found.amounts, strict=True):
        for one, whole in zip(one_amounts.maxima, amounts.maxima, strict=True):
            np.maximum.at(whole, cells.place, one)
        every = np.arange(len(inner), dtype=np.int32)
        top_along(one_amounts.top, one_amounts.ids, every, amounts.top, amounts.ids, cells.place)
    for step in cells.steps:
        for column in found.sums:
            add_along(column, step.child, step.parent)
        for amounts in found.amounts:
            for column in amounts.maxima:
                larger_along(column, step.child, step.parent)
            top_along(amounts.top, amounts.ids, step.child, amounts.top, amounts.ids, step.parent)
    return found


def _inner_figures(entries: Contributions, alone: NDArray[np.bool_], t: int) -> Figures:
    """Give the figures of the inner cells: sums of all entries, respondents only of those that are in one cell."""
    n = len(entries.inner_codes)
    amounts = tuple(_amounts(entries, r, np.flatnonzero(alone), n, t) for r in range(len(entries.names)))
    return Figures(
        entries.inner_codes,
        amounts,
        _summed(entries.inner, entries.weight, n),
        None if entries.key is None else _summed(entries.inner, entries.key, n),
    )


def _amounts(entries: Contributions, r: int, alone: Ints, n: int, t: int) -> Amounts:
    from discretion.kernels.rollup import top_along

    x = entries.x[:, r]
    rows = alone[~np.isnan(x[alone])]
    inner, size = entries.inner[rows], np.abs(x[rows])
    is_open, asked = rows[~entries.waived[rows]], rows[entries.requested[rows]]
    signed, waived = bool((x < 0).any()), bool(entries.waived.any())
    found = Amounts(
        value=_summed(entries.inner, np.nan_to_num(x), n),
        count=_counted(inner, n),
        top=np.zeros((n, t)),
        ids=np.full((n, t), -1, np.int32),
        gross=_summed(inner, size, n) if signed else None,
        negative=_counted(inner[x[rows] < 0], n) if signed else None,
        open_count=_counted(entries.inner[is_open], n) if waived else None,
        open_top=_largest(entries.inner[is_open], np.abs(x[is_open]), n) if waived else None,
        requested=_largest(entries.inner[asked], np.abs(x[asked]), n) if entries.knows_requests else None,
    )
    who = entries.contributor[rows]
    every = np.arange(len(rows), dtype=np.int32)
    top_along(size[:, None], who[:, None], every, found.top, found.ids, inner.astype(np.int32))
    return found


def _summed(place: Ints, amounts: Floats, n: int) -> Floats:
    return np.bincount(place, amounts, n).astype(np.float64, copy=False)


def _counted(place: Ints, n: int) -> Ints:
    return np.bincount(place, minlength=n).astype(np.int64, copy=False)


def _largest(place: Ints, amounts: Floats, n: int) -> Floats:
    most = np.zeros(n)
    np.maximum.at(most, place, amounts)
    return most


def _add_spread(found: Figures, cells: Closure, entries: Contributions, rows: Ints) -> None:
    """Count respondents that are in several inner cells once in each cell above them."""
    from discretion.kernels.rollup import add_respondents

    rows = rows[np.argsort(entries.contributor[rows], kind="stable")]
    who = entries.contributor[rows]
    bounds = np.flatnonzero(np.r_[True, who[1:] != who[:-1], True])
    above, variable = cells.upward()
    place = cells.place[entries.inner[rows]]
    none, nobody = np.zeros(0), np.zeros(0, np.int64)
    for r, one in enumerate(found.amounts):
        figures = (
            none if one.gross is None else one.gross,
            one.count,
            nobody if one.negative is None else one.negative,
            nobody if one.open_count is None else one.open_count,
            none if one.open_top is None else one.open_top,
            none if one.requested is None else one.requested,
            one.top,
            one.ids,
        )
        x = np.ascontiguousarray(entries.x[rows, r])
        add_respondents(bounds, place, above, variable, who, x, entries.waived[rows], entries.requested[rows], figures)
