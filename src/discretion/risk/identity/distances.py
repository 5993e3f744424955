"""Distances between an intruder's records and a release: numbers, ranks, dates, categories, generalized values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats
from discretion.learning.columns import ComparedColumn, compare_column, sd_of
from discretion.risk.identity.intruder import Intruder, Mistakes, View

if TYPE_CHECKING:
    from discretion.kernels.linkage import Terms, Tree


Distance = Literal["euclidean", "gower", "mahalanobis", "robust-mahalanobis"]
"""How records are compared; see DistanceLinkage."""
Gaps = Literal["average", "match", "exclude"]
"""What a missing or suppressed cell of the release counts as against a value the intruder knows."""


_FIRST = 1e6
"""How much more a tree is split by columns that exclude candidates."""


@dataclass(frozen=True)
class Space:
    """The records of both sides as numbers, and how each column adds to the distance."""

    columns: tuple[str, ...]
    known: Floats
    published: Floats
    terms: Terms
    distance: Distance
    incomparable: tuple[str, ...] = ()
    """columns that cannot be compared: the published values have nothing in common with the intruder's"""
    gaps: int = 0
    """columns at the end that tell who has a value (see `gaps.py`): trees are split by the others"""

    @property
    def is_plain(self) -> bool:
        """Tell whether the distance is Euclidean on complete numbers."""
        from discretion.kernels.linkage import SQUARED

        squared = bool((self.terms.kinds == SQUARED).all()) and len(self.terms.scale) == 1 and not len(self.terms.low)
        return squared and not np.isnan(self.known).any() and not np.isnan(self.published).any()

    @property
    def is_rooted(self) -> bool:
        """Tell whether the distance is the root of the sum of the terms."""
        return self.distance != "gower"

    @cached_property
    def tree(self) -> Tree:
        """The published records in an order for searches, with any records of the intruder, scales and bounds.

        It is split first by what excludes candidates: categories that must agree, and values that must be equal.
        """
        from discretion.kernels.linkage import build_tree

        scale, low, high = self.terms.scale, self.terms.low, self.terms.high
        spread = np.where(np.isfinite(scale), scale, 1.0).mean(axis=0)
        must = np.isinf(scale).all(axis=0)
        if len(low):
            must |= ((low == high) | np.isnan(self.known)).all(axis=0) & ~np.isnan(low).all(axis=0)
        by = self.split_by(np.where(must, spread * _FIRST, spread))
        return build_tree(self.published, self.terms.kinds, by, len(self.known))

    def split_by(self, spread: Floats) -> Floats:
        """Let a tree be split by columns of values: most records have one, so that gaps divide them badly."""
        return np.where(np.arange(len(spread)) < len(spread) - self.gaps, spread, 1e-9)

    def changed(self, **terms: Any) -> Space:
        """Give the space with other terms."""
        return replace(self, terms=self.terms._replace(**terms))


def make_space(
    view: View, distance: Distance | None, gaps: Gaps, standardize: bool, ctx: Context, *, named: bool = True
) -> Space:
    """Compare the columns of a view; without a chosen distance Euclidean on ordered columns, Gower with categories.

    A column that somebody `named` and that cannot be compared is an error; of all the quasi-identifiers it is left out.
    """
    compared, failed = _compared(view, named)
    incomparable = tuple(column.name for column in compared if column.is_incomparable) + failed
    if len(incomparable) == len(view.columns):
        raise DataError(
            f"no value of {', '.join(map(repr, incomparable))} in the release occurs in the intruder's data "
            "(generalized or coded anew), so that nothing can be compared; give hierarchies, or other `columns`"
        )
    chosen = distance or ("euclidean" if all(column.alike is None for column in compared) else "gower")
    if not standardize and chosen != "euclidean":
        raise PlanError(f"`standardize: false` belongs to the Euclidean distance; {chosen} has a scale of its own")
    if chosen in ("mahalanobis", "robust-mahalanobis"):
        return replace(_whitened(view, compared, chosen, ctx), incomparable=incomparable)
    scale = np.array([_scale(column, chosen, standardize, view.worst_case) for column in compared])
    space = _assemble(compared, scale, chosen, gaps)
    for data in (view.original, view.known, view.released):  # a search needs the room
        data.forget(("number", "codes", "compared with"))
    return replace(space, incomparable=incomparable)


def _compared(view: View, named: bool) -> tuple[list[ComparedColumn], tuple[str, ...]]:
    """Compare the columns one by one; name those that are text on one side and numbers on the other."""
    compared, failed = [], []
    for name in view.columns:
        try:
            compared.append(_column(view, name))
        except DataError:
            if named or len(view.columns) == 1:
                raise
            failed.append(name)
    return compared, tuple(failed)


def _column(view: View, name: str) -> ComparedColumn:
    """Compare a column; for who has the original itself it is kept with the release, so that all linkages share it."""
    original = view.original
    if view.known is not original:
        return compare_column(view.known, view.released, name, original)
    kept = view.released.cached(
        (f"compared with {id(original)}", name),  # the original is kept too: its id stays its own
        lambda: (original, compare_column(original, view.released, name, original)),
    )
    return kept[1]


def _assemble(compared: list[ComparedColumn], scale: Floats, distance: Distance, gaps: Gaps) -> Space:
    from discretion.kernels.linkage import ABSOLUTE, NOMINAL, SQUARED, Terms

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


def _scale(column: ComparedColumn, distance: Distance, standardize: bool, whole: bool) -> float:
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


def _gap(column: ComparedColumn, scale: float, distance: Distance, gaps: Gaps) -> float:
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


def _whitened(view: View, compared: list[ComparedColumn], distance: Distance, ctx: Context) -> Space:
    """Turn the columns so that the Mahalanobis distance is the Euclidean one."""
    for column in compared:
        if column.alike is not None:
            raise PlanError(f"the {distance} distance needs ordered columns; {column.name!r} holds categories")
        if column.has_gaps:
            raise DataError(
                f"the {distance} distance needs complete columns; {column.name!r} has missing values; use `distance: "
                "euclidean`, which counts a missing value as the average difference, or leave the column out"
            )
    known = np.column_stack([column.known for column in compared])
    published = np.column_stack([column.published for column in compared])
    sds = np.array([sd_of(x) for x in (known if view.worst_case else published).T])
    known, published = known / sds, published / sds
    reference = known if view.worst_case else published
    if len(reference) < 2:
        raise DataError(f"the {distance} distance needs at least two records: one has no covariance")
    covariance = robust_moments(reference, ctx)[1] if distance == "robust-mahalanobis" else np.cov(reference.T)
    turn = whitening(np.atleast_2d(covariance))
    new = [
        ComparedColumn(c.name, k, p) for c, k, p in zip(compared, (known @ turn).T, (published @ turn).T, strict=False)
    ]
    return _assemble(new, np.ones(len(new)), distance, "average")


def whitening(covariance: Floats) -> Floats:
    """Give the matrix that turns records so that this covariance is the identity; directions without spread go."""
    values, vectors = np.linalg.eigh(covariance)
    kept = values > max(values.max(), 0.0) * len(values) * np.finfo(np.float64).eps * 16
    if not kept.any():
        raise DataError("the columns do not vary: there is no covariance to measure distances by")
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))


def robust_moments(x: Floats, ctx: Context) -> tuple[Floats, Floats]:
    """Give center and covariance by the minimum covariance determinant; memory linear."""
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
                "values?); leave a column out, or use a distance that is not robust"
            ) from error
    return np.asarray(fitted.location_, dtype=np.float64), np.asarray(fitted.covariance_, dtype=np.float64)


# What gaps tell: most methods leave a missing value missing, so that who did not answer can be told apart.


def with_gaps(view: View, intruder: Intruder, space: Space) -> tuple[Space, tuple[str, ...]]:
    """Pass over the candidates whose gaps cannot be those of a known record; name the columns that tell it.

    Two things are looked up in the rows that belong together. A gap of the original stays one: all but imputation and
    moved categories keep it. A gap of the release was one before: all but suppression. Who knows the original values
    knows where there are none, and the counts of gaps on both sides, or the steps, tell which of the two holds. Columns
    for which both do are compared by their pattern of gaps, the others one by one. The space gets columns of categories
    that must agree; nothing is told by a file of the intruder's own, or by values with errors.
    """
    if intruder.data is not None or intruder.error != Mistakes():
        return space, ()
    told: dict[str, Floats] = {}
    shown: dict[str, Floats] = {}
    kept: list[tuple[str, Bools, Bools]] = []
    for name in view.columns:
        if not (view.known.count_missing(name) or view.released.count_missing(name)):
            continue
        known, published = _missing(view.known, name), _missing(view.released, name)
        own = published[view.rows]
        stays, was = known.any() and not (known & ~own).any(), published.any() and not (own & ~known).any()
        if stays and was:
            kept.append((name, known, published))
        elif stays or was:
            told[name] = np.where(known, 1.0, np.nan) if stays else np.where(known, np.nan, 0.0)
            shown[name] = published.astype(np.float64)
    names = (*(name for name, *_ in kept), *told)
    if kept:
        told[""], shown[""] = _patterns([known for _, known, _ in kept], [published for *_, published in kept])
    used = {name: x for name, x in told.items() if not np.isnan(x).all() and shown[name].min() < shown[name].max()}
    if not used:
        return space, ()
    pairs = [(x, shown[name]) for name, x in used.items()]
    return _wider(space, pairs), tuple(name for name in names if name in used or (name not in told and "" in used))


def with_who_lacks(who: str, gaps: Sequence[str]) -> str:
    """Add to what an intruder knows that it is also known who has no value in these columns."""
    if not gaps:
        return who
    also = f"also who has no value in {', '.join(gaps)}"
    return f"{who[:-1]}; {also})" if who.endswith(")") else f"{who} ({also})"


def _missing(data: Dataset, name: str) -> Bools:
    series = data.frame[name]
    absent = series.is_null() | series.is_nan().fill_null(True) if series.dtype.is_float() else series.is_null()
    return absent.to_numpy()


def _patterns(known: list[Bools], published: list[Bools]) -> tuple[Floats, Floats]:
    """Number the patterns of gaps of both sides together."""
    from discretion.kernels.classes import distinct_rows

    both = np.vstack([np.column_stack(known), np.column_stack(published)]).astype(np.float64)
    codes = distinct_rows(both).ids.astype(np.float64)
    return codes[: len(known[0])], codes[len(known[0]) :]


def _wider(space: Space, pairs: list[tuple[Floats, Floats]]) -> Space:
    """Add columns of categories that must agree."""
    from discretion.kernels.linkage import NOMINAL

    terms, more = space.terms, len(pairs)
    sizes = [int(max(np.nanmax(known), published.max())) + 1 for known, published in pairs]
    alike = np.full((sum(sizes), max(terms.alike.shape[1], 1)), -1, dtype=np.int64)
    alike[:, 0] = np.concatenate([np.arange(size) for size in sizes])
    table = np.vstack([terms.alike, alike]) if len(terms.alike) else alike
    first = len(terms.alike) + np.concatenate([[0], np.cumsum(sizes[:-1])]).astype(np.int64)

    def widened(x: Floats, value: float) -> Floats:
        return np.hstack([x, np.full((len(x), more), value)])

    return replace(
        space,
        gaps=more,
        known=np.column_stack([space.known, *(known for known, _ in pairs)]),
        published=np.column_stack([space.published, *(published for _, published in pairs)]),
        terms=terms._replace(
            kinds=np.append(terms.kinds, np.full(more, NOMINAL)),
            scale=widened(terms.scale, np.inf),
            gap=np.append(terms.gap, np.zeros(more)),
            alike=table,
            offsets=np.append(terms.offsets, first),
            low=widened(terms.low, -np.inf),
            high=widened(terms.high, np.inf),
        ),
    )
