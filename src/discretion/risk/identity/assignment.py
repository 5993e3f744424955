"""Record linkage one to one: all the intruder's records are linked together, none twice (R11)."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Floats
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family
from discretion.risk.identity.distances import Distance, Gaps, Space, make_space, with_gaps, with_who_lacks
from discretion.risk.identity.intruder import Intruder, columns_to_link, intruder_field, unused, view

LARGEST = 5_000
"""Records on either side up to which all pairs are held in memory (200 MB)."""


class AssignmentLinkage(Measure, kind="assignment-linkage"):
    """Share of people an intruder finds who links all records at once, each to another published record.

    Of all one-to-one links between the intruder's records and the release, those with the least sum of distances are
    taken: who knows that each person is published once finds more than by looking for the nearest record person by
    person, because a record that fits somebody else better is no longer in the way. Where several published records are
    equal the intruder picks one of them, and the link counts 1/(how many they are) when the right one is among them.
    The chance level is 1/n. Where a column has the role `unit`, people are counted as in distance-linkage.

    Distances are those of distance-linkage. The value is not an upper bound: another distance may find more. Where
    different assignments have the same least sum, one of them is taken at random. For up to 5,000 records: time O(n³)
    at worst, memory O(n²); above, use distance-linkage. Does not use knowledge of the method.

    References
    ----------
    Domingo-Ferrer & Torra (2003), Disclosure risk assessment in statistical microdata protection via advanced record
    linkage; Jonker & Volgenant (1987), Computing 38; catalogue R11.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x = pl.DataFrame({"v": [1.0, 2.0, 3.0]})
    >>> y = pl.DataFrame({"v": [1.9, 2.9, 3.9]})
    >>> dc.DistanceLinkage(columns=["v"])(x, y).value, dc.AssignmentLinkage(columns=["v"])(x, y).value
    (0.3333333333333333, 1.0)
    """

    columns: Columns = ()
    """columns to link by, as the release names them; without it, the quasi-identifiers"""
    distance: Distance | None = None
    """how records are compared; default: euclidean, or gower as soon as a column has categories without an order"""
    missing: Gaps = "average"
    """what a missing cell of the release counts as: the average difference, a match, or the record is passed over"""
    intruder: Intruder = intruder_field()
    """whose records and which columns the intruder knows, and with what error"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    @model_validator(mode="after")
    def _method_unknown(self) -> Self:
        if self.intruder.knows_method:
            raise ValueError("assignment-linkage makes no use of the method; `knows_method` is for distance-linkage")
        return self

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Link all the records at the least total distance."""
        columns = columns_to_link(self.intruder, self.columns, original, released)
        seen = view(self.intruder, original, released, columns, ctx)
        _check_size(len(seen.rows), len(released))
        space = make_space(seen, self.distance, self.missing, True, ctx, named=bool(self.columns))
        used = [name for name in seen.columns if name not in space.incomparable]
        space, gaps = with_gaps(seen, self.intruder, space)
        who = with_who_lacks(self.intruder.describe(used), gaps)
        linked, distances = assign(space, ctx)
        shares = _shares(space, linked, seen.rows)
        value, chance = seen.found(shares), seen.chance
        return self.score(
            value,
            f"An intruder who {who} and links all at once finds {as_percent(value)} "
            f"of {seen.them(shares)} (guessing finds {as_percent(chance)}).{unused(space.incomparable)}",
            per_record=seen.spread(shares),
            reid_d=float((linked == seen.rows).mean()),
            reid_k=value,
            total_distance=float(distances.sum()),
            mean_distance=float(distances.mean()),
            **seen.counted(shares),
            chance=chance,
            records=len(seen.rows),
            columns=used,
            left_out=list(space.incomparable),
            gaps=list(gaps),
            intruder=who,
        )


def _check_size(known: int, published: int) -> None:
    if max(known, published) > LARGEST:
        raise DataError(
            f"assignment-linkage compares all pairs, for up to {LARGEST} records; here {known} against {published}; "
            "use distance-linkage, or give the intruder fewer records and sample the release"
        )
    if known > published:
        raise DataError(
            f"assignment-linkage: the intruder has {known} records and the release {published}; one to one, each needs "
            "a record of its own: use distance-linkage"
        )


def assign(space: Space, ctx: Context) -> tuple[NDArray[np.int64], Floats]:
    """Give for each of the intruder's records the row assigned to it, and the distance."""
    from scipy.optimize import linear_sum_assignment

    ctx.progress(0, 2, "assignment: distances")
    costs = _all_distances(space)
    ctx.progress(1, 2, "assignment: least total")
    first, second = _order(space.known), ctx.within("ties").rng.permutation(_order(space.published))
    costs = costs[np.ix_(first, second)]
    try:
        rows, linked = linear_sum_assignment(costs)
    except ValueError as error:
        raise DataError(
            "assignment-linkage: so many published records are passed over (`missing: exclude`) that not everybody can "
            "be linked; use `missing: average`"
        ) from error
    ctx.progress(2, 2, "assignment: done")
    assigned, distances = np.empty(len(first), np.int64), np.empty(len(first))
    assigned[first], distances[first] = second[linked], costs[rows, linked]
    return assigned, distances


def _order(table: Floats) -> NDArray[np.int64]:
    """Order records by their values: assignments of the same sum are not to follow the rows of the file."""
    return np.lexsort(table.T[::-1])


def _all_distances(space: Space) -> Floats:
    """Give all distances as a matrix; the mean over the columns for Gower's."""
    from discretion.kernels.linkage import NOMINAL, SQUARED

    terms = space.terms
    total = np.zeros((len(space.known), len(space.published)))
    for j, kind in enumerate(terms.kinds):
        q, p = space.known[:, j], space.published[:, j]
        if kind == NOMINAL:
            term = np.full(total.shape, terms.scale[0, j])
            codes = np.where(np.isnan(q), 0, q).astype(np.int64) + terms.offsets[j]
            for level in range(terms.alike.shape[1]):
                term[terms.alike[codes, level][:, None] == p[None, :]] = 0.0
        else:
            term = np.abs(q[:, None] - p[None, :])
            term *= terms.scale[0, j]
            if kind == SQUARED:
                term *= term
        term[:, np.isnan(p)] = terms.gap[j]
        term[np.isnan(q)] = 0.0
        total += term
    return np.sqrt(total, out=total) if space.is_rooted else total / len(space.columns)


def _shares(space: Space, linked: NDArray[np.int64], rows: NDArray[np.int64]) -> Floats:
    """Count a link that is right up to equal published records as one part in so many."""
    table = np.where(np.isnan(space.published), np.inf, space.published)  # rows with NaN would all be different
    _, same, counts = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    same = same.ravel()
    right = (rows >= 0) & (same[linked] == same[np.maximum(rows, 0)])
    return np.where(right, 1.0 / counts[same[linked]], 0.0)
