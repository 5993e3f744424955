"""Record linkage: an intruder who knows original values looks for the nearest published record (R11, R12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family

Floats = NDArray[np.float64]


@dataclass
class _Links:
    """For each intruder's record: size of the anonymity set, whether it holds the right one, the first of it."""

    size: NDArray[np.int64]
    right: NDArray[np.bool_]
    first: NDArray[np.int64]
    exact: NDArray[np.bool_]


class DistanceLinkage(Measure, kind="distance-linkage"):
    """Share of people an intruder finds by looking for the nearest published record.

    Worst case: the intruder knows the original values of `columns` for everybody. For each of these records the nearest
    published records are found (Euclidean distance on columns divided by the original's standard deviation); those
    at the same least distance form an anonymity set A, and the record counts 1/|A| when the right one is among
    them. The value is Reid_k; the detail also has `reid_d` (the first of the set is taken), `known_reid` (right,
    alone and at distance zero: the intruder knows it is right), and the chance level 1/n.

    A record with missing values is linked on the columns it has, among published records that have them too; one
    without any value could be anybody. Exact; time about O(n log n) for up to ten columns, O(n²) above; memory linear.

    References
    ----------
    Torra, Abowd & Domingo-Ferrer (2006); Torra (2022), A guide to data privacy; catalogue R11, R12.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x = pl.DataFrame({"v1": [10, 0, 30, 20, 30], "v2": [33.4, 28.9, 10.3, 80.0, 59.0]})
    >>> dc.DistanceLinkage(columns=["v1", "v2"])(x, x).value
    1.0
    """

    columns: Columns = ()
    """numeric columns the intruder knows; without it, the quasi-identifiers that are numbers"""
    standardize: bool = True
    """divide each column by the original's standard deviation, so that units do not matter"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Link every original record to the release."""
        columns = self._columns(original, released)
        links = self._links(original, released, columns, ctx)
        per_record = np.where(links.right, 1.0 / links.size, 0.0)
        value = float(per_record.mean())
        rows = np.arange(len(original))
        return self.score(
            value,
            f"An intruder who knows {', '.join(columns)} of everybody finds {as_percent(value)} of them "
            f"(guessing finds {as_percent(1 / len(released))}).",
            per_record=per_record,
            reid_d=float((links.first == rows).mean()),
            reid_k=value,
            known_reid=float((links.right & (links.size == 1) & links.exact).mean()),
            chance=1.0 / len(released),
            columns=list(columns),
            intruder="knows the original values of these columns for every record (worst case)",
        )

    def _links(self, original: Dataset, released: Dataset, columns: tuple[str, ...], ctx: Context) -> _Links:
        """Find the nearest records; kept with the release, so that a measure and a requirement share the search."""

        def search() -> tuple[Dataset, _Links]:
            known, published = original.numbers(columns), released.numbers(columns)
            if self.standardize:
                sd = np.array([_sd(known[:, j]) for j in range(len(columns))])
                known, published = known / sd, published / sd
            return original, _link(known, published, ctx)

        key = (f"nearest, standardized {self.standardize}, original {id(original)}", columns)
        return released.cached(key, search)[1]

    def _columns(self, original: Dataset, released: Dataset) -> tuple[str, ...]:
        if self.columns:
            chosen = original.choose(self.columns, "classes")
            released.require(chosen)
            return chosen
        quasi = original.choose((), "classes")
        both = [n for n in quasi if n in released.columns and original.is_numeric(n) and released.is_numeric(n)]
        if not both:
            raise DataError(
                "distance-linkage: no quasi-identifier is a number in both data sets; give `columns` "
                "(generalized columns have become text and are attacked by uniqueness)"
            )
        return tuple(both)


def _sd(x: Floats) -> float:
    present = x[~np.isnan(x)]
    sd = float(present.std(ddof=1)) if len(present) > 1 else 0.0
    return sd if sd > 0 else 1.0


def _link(known: Floats, published: Floats, ctx: Context) -> _Links:
    """Link row i of `known` to `published`, where row i is the right one; each pattern of known columns on its own."""
    n = len(known)
    links = _Links(
        np.full(n, len(published), dtype=np.int64),
        np.ones(n, bool),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, bool),
    )
    absent, lacking = np.isnan(known), np.isnan(published)
    if not absent.any() and not lacking.any():
        everything = np.ones(known.shape[1], bool)
        _link_pattern(links, known, published, np.arange(n), everything, np.ones(len(published), bool), ctx)
        return links
    patterns, pattern = np.unique(absent, axis=0, return_inverse=True)
    for number, missing in enumerate(patterns):
        if not missing.all():
            rows = np.flatnonzero(pattern.ravel() == number)
            _link_pattern(links, known, published, rows, ~missing, np.asarray(~lacking[:, ~missing].any(axis=1)), ctx)
    return links


def _link_pattern(
    links: _Links,
    known: Floats,
    published: Floats,
    rows: NDArray[np.int64],
    columns: NDArray[np.bool_],
    usable: NDArray[np.bool_],
    ctx: Context,
) -> None:
    from discretion.kernels.linkage import nearest_ties

    points = np.flatnonzero(usable)
    if not len(points):
        return
    place = np.full(len(published), -1, dtype=np.int64)
    place[points] = np.arange(len(points))
    complete = len(points) == len(published) and bool(columns.all())
    queries = known if complete and len(rows) == len(known) else known[np.ix_(rows, columns)]
    targets = published if complete else published[np.ix_(points, columns)]
    found = nearest_ties(queries, targets, place[rows], ctx.progress)
    links.size[rows] = found.size
    links.right[rows] = found.has_own
    links.first[rows] = points[found.lowest]
    links.exact[rows] = found.distance == 0
