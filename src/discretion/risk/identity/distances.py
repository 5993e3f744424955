"""Distances between an intruder's records and a release: numbers, ranks, dates, categories, generalized values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.large_integers import as_differences
from discretion.errors import DataError, PlanError
from discretion.risk.identity.intruder import View
from discretion.risk.identity.ranges import is_range, ranges_holding

if TYPE_CHECKING:
    import polars as pl

    from discretion.kernels.linkage_mixed import Terms

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Distance = Literal["euclidean", "gower", "mahalanobis", "robust-mahalanobis"]
"""How records are compared; see DistanceLinkage."""
Gaps = Literal["average", "match", "exclude"]
"""What a missing or suppressed cell of the release counts as against a value the intruder knows."""


@dataclass(frozen=True)
class Compared:
    """One column on both sides: places on a line, or categories with those of the release that agree with each."""

    name: str
    known: Floats
    published: Floats
    alike: Ints | None = None
    """for categories: for each code of the intruder's the codes of the release that agree (−1: none)"""

    @property
    def is_mute(self) -> bool:
        """Tell whether no category of the release agrees with any that the intruder has: the column tells nothing."""
        if self.alike is None or np.isnan(self.published).all():
            return False
        known = np.unique(self.known[~np.isnan(self.known)]).astype(np.int64)
        return bool(len(known)) and not bool((self.alike[known] >= 0).any())

    @property
    def has_gaps(self) -> bool:
        """Tell whether a value is missing on either side."""
        return bool(np.isnan(self.known).any() or np.isnan(self.published).any())


@dataclass(frozen=True)
class Space:
    """The records of both sides as numbers, and how each column adds to the distance."""

    columns: tuple[str, ...]
    known: Floats
    published: Floats
    terms: Terms
    distance: Distance
    mute: tuple[str, ...] = ()
    """columns whose published categories have nothing in common with the intruder's"""

    @property
    def is_plain(self) -> bool:
        """Tell whether the distance is Euclidean on complete numbers."""
        from discretion.kernels.linkage_mixed import SQUARED

        squared = bool((self.terms.kinds == SQUARED).all()) and len(self.terms.scale) == 1 and not len(self.terms.low)
        return squared and not np.isnan(self.known).any() and not np.isnan(self.published).any()

    @property
    def is_rooted(self) -> bool:
        """Tell whether the distance is the root of the sum of the terms."""
        return self.distance != "gower"

    def changed(self, **terms: Any) -> Space:
        """Give the space with other terms."""
        return replace(self, terms=self.terms._replace(**terms))


def make_space(view: View, distance: Distance | None, gaps: Gaps, standardize: bool, ctx: Context) -> Space:
    """Compare the columns of a view; without a named distance Euclidean on ordered columns, Gower with categories."""
    compared = [compare_column(view, name) for name in view.columns]
    mute = tuple(column.name for column in compared if column.is_mute)
    if len(mute) == len(compared):
        raise DataError(
            f"no value of {', '.join(map(repr, mute))} in the release occurs in the intruder's data (generalized or "
            "coded anew), so that nothing can be compared; give hierarchies, or other `columns`"
        )
    named = distance or ("euclidean" if all(column.alike is None for column in compared) else "gower")
    if not standardize and named != "euclidean":
        raise PlanError(f"`standardize: false` belongs to the Euclidean distance; {named} has a scale of its own")
    if named in ("mahalanobis", "robust-mahalanobis"):
        return _whitened(view, compared, named, ctx)
    scale = np.array([_scale(column, named, standardize, view.worst_case) for column in compared])
    return replace(_assemble(compared, scale, named, gaps), mute=mute)


def _assemble(compared: list[Compared], scale: Floats, distance: Distance, gaps: Gaps) -> Space:
    from discretion.kernels.linkage_mixed import ABSOLUTE, NOMINAL, SQUARED, Terms

    ordered = ABSOLUTE if distance == "gower" else SQUARED
    kinds = np.array([ordered if column.alike is None else NOMINAL for column in compared], dtype=np.int64)
    tables = [column.alike for column in compared if column.alike is not None]
    width = max((table.shape[1] for table in tables), default=1)
    alike = np.full((sum(map(len, tables)), width), -1, dtype=np.int64)
    offsets, at = np.zeros(len(compared), dtype=np.int64), 0
    for j, column in enumerate(compared):
        offsets[j] = at
        if column.alike is not None:
            alike[at : at + len(column.alike), : column.alike.shape[1]] = column.alike
            at += len(column.alike)
    gap = np.array([_gap(column, s, distance, gaps) for column, s in zip(compared, scale, strict=True)])
    none = np.empty((0, len(compared)))
    return Space(
        tuple(column.name for column in compared),
        np.column_stack([column.known for column in compared]),
        np.column_stack([column.published for column in compared]),
        Terms(kinds, scale.reshape(1, -1), gap, alike, offsets, none, none),
        distance,
    )


def _scale(column: Compared, distance: Distance, standardize: bool, whole: bool) -> float:
    if column.alike is not None or not standardize:
        return 1.0
    if distance == "gower":
        low, high = _extremes(column.known), _extremes(column.published)
        span = max(low[1], high[1]) - min(low[0], high[0])
        return 1.0 / span if np.isfinite(span) and span > 0 else 1.0
    return 1.0 / sd_of(column.known if whole else column.published)


def _extremes(x: Floats) -> tuple[float, float]:
    present = x[~np.isnan(x)]
    return (float(present.min()), float(present.max())) if len(present) else (np.inf, -np.inf)


def sd_of(x: Floats) -> float:
    """Give the standard deviation (N−1) of the values present; 1 where they do not vary."""
    present = x[~np.isnan(x)]
    sd = float(present.std(ddof=1)) if len(present) > 1 else 0.0
    return sd if sd > 0 else 1.0


def _gap(column: Compared, scale: float, distance: Distance, gaps: Gaps) -> float:
    """Give what a missing cell of the release costs: what two records differ by on average, nothing, or everything."""
    if gaps == "exclude":
        return np.inf
    if gaps == "match" or not np.isnan(column.published).any():
        return 0.0
    known, published = (x[~np.isnan(x)] for x in (column.known, column.published))
    if not len(known) or not len(published):
        return 0.0
    if column.alike is not None:
        shares = np.bincount(published.astype(np.int64), minlength=int(column.alike.max()) + 1) / len(published)
        agreeing = np.where(column.alike >= 0, shares[column.alike], 0.0).sum(axis=1)
        return float(scale * (1.0 - agreeing[known.astype(np.int64)].mean()))
    return average_term(known, published, scale, squared=distance != "gower")


def average_term(known: Floats, published: Floats, scale: float, *, squared: bool) -> float:
    """Give what a column adds to the distance of two records on average."""
    known, published = (x[~np.isnan(x)] for x in (known, published))
    if not len(known) or not len(published):
        return 0.0
    if not squared:
        return float(scale * _mean_difference(known, published))
    return float(scale**2 * (known.var() + published.var() + (known.mean() - published.mean()) ** 2))


def _mean_difference(x: Floats, y: Floats) -> float:
    """Give the mean of |x − y| over all pairs, by sorting."""
    y = np.sort(y)
    below = np.searchsorted(y, x)
    sums = np.concatenate([[0.0], np.cumsum(y)])
    lower = x * below - sums[below]
    upper = sums[-1] - sums[below] - x * (len(y) - below)
    return float((lower + upper).mean() / len(y))


def _whitened(view: View, compared: list[Compared], distance: Distance, ctx: Context) -> Space:
    """Turn the columns so that the Mahalanobis distance is the Euclidean one."""
    for column in compared:
        if column.alike is not None:
            raise PlanError(f"the {distance} distance needs ordered columns; {column.name!r} holds categories")
        if column.has_gaps:
            raise DataError(f"the {distance} distance needs complete columns; {column.name!r} has missing values")
    known = np.column_stack([column.known for column in compared])
    published = np.column_stack([column.published for column in compared])
    sds = np.array([sd_of(x) for x in (known if view.worst_case else published).T])
    known, published = known / sds, published / sds
    reference = known if view.worst_case else published
    if len(reference) < 2:
        raise DataError(f"the {distance} distance needs at least two records: one has no covariance")
    covariance = _robust_covariance(reference, ctx) if distance == "robust-mahalanobis" else np.cov(reference.T)
    turn = whitening(np.atleast_2d(covariance))
    new = [Compared(c.name, k, p) for c, k, p in zip(compared, (known @ turn).T, (published @ turn).T, strict=False)]
    return _assemble(new, np.ones(len(new)), distance, "average")


def whitening(covariance: Floats) -> Floats:
    """Give the matrix that turns records so that this covariance is the identity; directions without spread go."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > max(values.max(), 0.0) * len(values) * np.finfo(np.float64).eps * 16
    if not kept.any():
        raise DataError("the columns do not vary: there is no covariance to measure distances by")
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def _robust_covariance(x: Floats, ctx: Context) -> Floats:
    """Give the minimum covariance determinant estimate; memory linear."""
    import warnings

    from sklearn.covariance import MinCovDet

    if len(x) < 5 * x.shape[1]:
        raise DataError(f"a robust covariance of {x.shape[1]} columns needs at least {5 * x.shape[1]} records")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            fitted = MinCovDet(random_state=int(ctx.within("mcd").rng.integers(2**31))).fit(x)
        except (UserWarning, RuntimeWarning, ValueError) as error:
            raise DataError(
                "the robust covariance does not exist: more than half of the records lie in a plane (many equal "
                "values?); use `distance: mahalanobis`"
            ) from error
    return np.asarray(fitted.covariance_, dtype=np.float64)


# --- one column ------------------------------------------------------------------------------------------------------


def compare_column(view: View, name: str) -> Compared:
    """Give a column of both sides as places on a line where both have an order, otherwise as categories."""
    known, published = places_of(view.known, name), places_of(view.released, name)
    if known is not None and published is not None:
        exact = as_differences([view.known.frame[name], view.released.frame[name]])
        return Compared(name, known, published) if exact is None or _has_order(view, name) else Compared(name, *exact)
    if (known is None) != (published is None) and not (_has_hierarchy(view, name) or _has_ranges(view.released, name)):
        texts, numbers = ("the release", "the intruder's data") if published is None else ("the data", "the release")
        raise DataError(
            f"column {name!r} is text in {texts} and ordered in {numbers}, and no hierarchy relates the two; "
            "give the column a hierarchy, or leave it out of `columns`"
        )
    return _categories(view, name)


def comparable(original: Dataset, released: Dataset, columns: Sequence[str]) -> tuple[str, ...]:
    """Name the columns that a distance can compare: ordered in both, or categories that have something in common."""
    view = View(original, original, released, np.empty(0, np.int64), tuple(columns), worst_case=True)
    found = []
    for name in columns:
        try:
            mute = compare_column(view, name).is_mute
        except DataError:
            continue
        if not mute:
            found.append(name)
    return tuple(found)


def places_of(data: Dataset, name: str) -> Floats | None:
    """Give the places of an ordered column (numbers, dates, positions in the order); None for categories."""
    import polars as pl

    series, kind = data.frame[name], data.type_of(name)
    order = data.schema[name].order or (tuple(series.dtype.categories) if isinstance(series.dtype, pl.Enum) else ())
    if order:
        return _positions(data, name, tuple(order))
    if kind == "nominal":
        return None
    if series.dtype.is_numeric():
        return data.number(name)
    return _days(series) if kind == "date" else None


def _positions(data: Dataset, name: str, order: tuple[str, ...]) -> Floats | None:
    """Give positions in an order; None where some labels do not stand in it (generalized)."""
    codes = data.codes(name)
    index = {label: float(place) for place, label in enumerate(order)}
    found = [np.nan if value is None else index.get(canonical(value), -1.0) for value in codes.values]
    if -1.0 in found:
        return None
    return np.array(found)[codes.codes] if codes.size else np.empty(0)


def _days(series: pl.Series) -> Floats | None:
    import polars as pl

    if series.dtype == pl.String:
        dates = series.str.to_date("%Y-%m-%d", strict=False)
        if dates.null_count() > series.null_count():
            return None
        series = dates
    if isinstance(series.dtype, pl.Datetime):
        series = series.cast(pl.Datetime("us", series.dtype.time_zone))
    return series.to_physical().cast(pl.Float64).to_numpy()


def _has_hierarchy(view: View, name: str) -> bool:
    return name in view.original.columns and view.original.schema[name].hierarchy is not None


def _has_order(view: View, name: str) -> bool:
    return bool(view.known.schema[name].order or view.released.schema[name].order)


def _has_ranges(released: Dataset, name: str) -> bool:
    """Tell whether a release shows intervals or sets of values."""
    import polars as pl

    if released.frame.schema[name] not in (pl.String, pl.Categorical, pl.Enum):
        return False
    return any(value is not None and is_range(_text(value)) for value in released.codes(name).values)


def _categories(view: View, name: str) -> Compared:
    """Number the categories of both sides together; a generalized one agrees with everything below or inside it."""
    index: dict[str, int] = {}
    published = _codes(view.released, name, index)
    size = len(index)
    known = _codes(view.known, name, index)
    texts = list(index)
    alike = np.arange(len(texts)).reshape(-1, 1)
    if _has_hierarchy(view, name):
        levels = view.original.hierarchy(name)
        alike = np.column_stack([alike, np.full((len(texts), levels.height), -1)])
        for code, text in enumerate(texts):
            row = levels.leaf_index.get(text)
            if row is not None:
                alike[code, 1:] = [index.get(level[row], -1) for level in levels.table[1:]]
    alike = np.where(alike < size, alike, -1)
    if _has_ranges(view.released, name):
        alike = np.column_stack([alike, _inside(texts, texts[:size], name)])
    return Compared(name, known, published, alike)


def _inside(values: list[str], labels: list[str], name: str) -> Ints:
    """Give for each value the published ranges that hold it, by their codes (−1 to fill up)."""
    ranges = [code for code, label in enumerate(labels) if is_range(label)]
    holding = ranges_holding(values, [labels[code] for code in ranges], name)
    found = np.full((len(values), int(holding.sum(axis=1).max(initial=0))), -1, dtype=np.int64)
    rows, places = np.nonzero(holding)
    first = np.concatenate([[0], np.cumsum(holding.sum(axis=1))])[rows]
    found[rows, np.arange(len(rows)) - first] = np.array(ranges, dtype=np.int64)[places]
    return found


def _codes(data: Dataset, name: str, index: dict[str, int]) -> Floats:
    codes = data.codes(name)
    found = [np.nan if value is None else float(index.setdefault(_text(value), len(index))) for value in codes.values]
    return np.array(found)[codes.codes] if codes.size else np.empty(0)


def _text(value: Any) -> str:
    return "|".join(sorted(map(canonical, value))) if isinstance(value, list) else canonical(value)
