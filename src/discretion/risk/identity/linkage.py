"""Record linkage by distance: an intruder looks for the nearest published record (R11, R12, R14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family
from discretion.risk.identity.distance_columns import unused
from discretion.risk.identity.distances import Distance, Gaps, Space, make_space
from discretion.risk.identity.intruder import Intruder, View, columns_to_link, intruder_field, view

if TYPE_CHECKING:
    from discretion.risk.identity.transparency.attack import Informed

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Links:
    """For each intruder's record: size of the anonymity set, whether it holds the right one, the first of it."""

    size: NDArray[np.int64]
    right: NDArray[np.bool_]
    first: NDArray[np.int64]
    exact: NDArray[np.bool_]

    @property
    def shares(self) -> Floats:
        """The probability that the intruder, who picks one of the set, picks the right one."""
        return np.where(self.right, 1.0 / np.maximum(self.size, 1), 0.0)

    def figures(self, rows: NDArray[np.int64]) -> dict[str, float]:
        """Give Reid_d, Reid_k and the links the intruder knows are right, as shares of the records."""
        return {
            "reid_d": float((self.first == rows).mean()),
            "reid_k": float(self.shares.mean()),
            "known_reid": float((self.right & (self.size == 1) & self.exact).mean()),
        }


class DistanceLinkage(Measure, kind="distance-linkage"):
    """Share of people an intruder finds by looking for the nearest published record.

    Worst case, unless `intruder` says otherwise: the intruder knows the original values of `columns` for everybody. For
    each of these records the nearest published records are found; those at the same least distance form an anonymity
    set A, and the record counts 1/|A| when the right one is among them. The value is Reid_k; the detail also has
    `reid_d` (the first of the set is taken), `known_reid` (right, alone and at distance zero: the intruder knows it is
    right), and the chance level 1/n.

    Numbers, dates and ordered categories (as positions in their order) are compared by a Euclidean distance, each
    divided by its standard deviation; as soon as a column has categories without an order, by Gower's distance:
    differences divided by the range (of both files), 0 or 1 for categories. A generalized value agrees with
    everything below it in the column's hierarchy, a published interval or set with what is inside; columns whose values
    have nothing in common with the original's tell nothing and are named (`left_out`). `distance` chooses another. A
    value the intruder does not have is left out; what a cell missing in the release counts as is said by `missing`.

    With `intruder: {knows_method: true}` the attack is run twice, without and with the knowledge of the steps
    that made the release: windows of rank swapping intersected over the columns, and inside them how likely each move
    is; groups of microaggregation formed again, differences measured by the known noise, categories weighed by the
    probabilities of their moves, equality of what no step changed. Who has all the records also follows the partners of
    swapped values (`partners_followed`, up to about 30,000 records): who shows my value must have given me theirs. The
    detail has both figures (`plain`, `informed`); the value is the higher one. A step of another kind (shuffling,
    rounding, noise that keeps moments) is attacked as if it were unknown.

    Does not see other attacks: weighted or learned distances, agreement patterns (see probabilistic-linkage), groups
    of records, attributes inferred without a link. Exact; time about O(n log n) for up to ten columns of numbers,
    growing with ties and with columns; memory linear.

    References
    ----------
    Torra, Abowd & Domingo-Ferrer (2006), Using Mahalanobis distance-based record linkage for disclosure risk
    assessment; Nin, Herranz & Torra (2008), Rethinking rank swapping to decrease disclosure risk; Torra (2022), A
    guide to data privacy; catalogue R11, R12, R14.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x = pl.DataFrame({"v1": [10, 0, 30, 20, 30], "v2": [33.4, 28.9, 10.3, 80.0, 59.0]})
    >>> dc.DistanceLinkage(columns=["v1", "v2"])(x, x).value
    1.0
    >>> people = dc.datasets.census(400, seed=1)
    >>> released = dc.RankSwap(columns=["income", "savings", "hours"], percent=10)(people, seed=7)
    >>> attack = dc.DistanceLinkage(columns=["income", "savings", "hours"], intruder={"knows_method": True})
    >>> score = attack(people, released)
    >>> score.detail["plain"] < score.detail["informed"]
    True
    """

    columns: Columns = ()
    """columns to link by, as the release names them; without it, the quasi-identifiers"""
    distance: Distance | None = None
    """how records are compared; default: euclidean, or gower as soon as a column has categories without an order"""
    standardize: bool = True
    """divide each column by the original's standard deviation, so that units do not matter (Euclidean distance)"""
    missing: Gaps = "average"
    """what a missing cell of the release counts as: the average difference, a match, or the record is passed over"""
    intruder: Intruder = intruder_field()
    """whose records and which columns the intruder knows, with what error, and whether the method is known"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Link every record of the intruder to the release."""
        columns = columns_to_link(self.intruder, self.columns, original, released)
        seen, links, used, mute = self._links(original, released, columns, ctx)
        figures, shares = links.figures(seen.rows), links.shares
        detail: dict[str, Any] = {}
        if self.intruder.knows_method:
            informed, told = self._informed(seen, links, ctx)
            known = links if informed is None else informed
            detail |= {"plain": figures["reid_k"], "informed": known.figures(seen.rows)["reid_k"], **told}
            if detail["informed"] >= detail["plain"]:
                figures, shares = known.figures(seen.rows), known.shares
        value = figures["reid_k"]
        chance = 1.0 / len(released)
        return self.score(
            value,
            f"An intruder who {self.intruder.describe(used)} finds {as_percent(value)} of them "
            f"(guessing finds {as_percent(chance)}).{_followed(detail)}{unused(mute)}",
            per_record=seen.spread(shares),
            **figures,
            **detail,
            chance=chance,
            records=len(seen.rows),
            columns=list(used),
            left_out=list(mute),
            intruder=self.intruder.describe(used),
        )

    def _links(
        self, original: Dataset, released: Dataset, columns: tuple[str, ...], ctx: Context
    ) -> tuple[View, Links, tuple[str, ...], tuple[str, ...]]:
        """Find the nearest records; kept with the release, so that a measure and a requirement share the search."""

        def search() -> tuple[View, Links, tuple[str, ...], tuple[str, ...]]:
            seen = view(self.intruder, original, released, columns, ctx)
            space = make_space(seen, self.distance, self.missing, self.standardize, ctx, named=bool(self.columns))
            used = tuple(name for name in seen.columns if name not in space.mute)
            return seen, link(space, seen.rows, ctx), used, space.mute

        if self.intruder.model_copy(update={"knows_method": False, "method": ()}) != Intruder():
            return search()
        how = f"{self.distance}, {self.missing}, standardized {self.standardize}, original {id(original)}"
        how += f", named {bool(self.columns)}"
        if self.distance == "robust-mahalanobis":
            how += f", seed {ctx.seed}"  # the estimate starts at random
        return released.cached((f"nearest, {how}", columns), search)

    def _informed(self, seen: View, plain: Links, ctx: Context) -> tuple[Links | None, dict[str, Any]]:
        """Link again with what the steps tell; a record without any candidate is linked as before."""
        from discretion.risk.identity.transparency.attack import inform

        steps = self.intruder.known_steps(seen.original, seen.released)
        informed = inform(seen, self.intruder, steps, ctx, named=bool(self.columns))
        if informed is None:
            return None, {"known_of": {}}
        found = _informed_search(informed, seen.rows, ctx)
        lost = found.size == 0
        merged = Links(
            *(np.where(lost, before, after) for before, after in zip(_arrays(plain), _arrays(found), strict=True))
        )
        used: dict[str, Any] = {"known_of": dict(informed.used), "without_candidate": int(lost.sum())}
        if any(text.startswith("rank-swap") for text in informed.used.values()):
            used["partners_followed"] = informed.exchange is not None
        if len(informed.space.terms.low):
            used["candidates"] = _mean_candidates(informed.space, ctx)
        return merged, used


def _informed_search(informed: Informed, rows: NDArray[np.int64], ctx: Context) -> Links:
    if informed.exchange is None:
        return _search(informed.space, rows, ctx)
    from discretion.risk.identity.transparency.swaps import search_exchanged

    near = search_exchanged(informed.space, *informed.exchange, ctx)
    return Links(near.size, near.has_own, near.lowest, near.distance == 0)


def _followed(detail: dict[str, Any]) -> str:
    if not detail.get("partners_followed") or detail["informed"] < detail["plain"]:
        return ""
    return f" Without the method: {as_percent(detail['plain'])}; the partners of swapped values gave people away."


def _arrays(links: Links) -> tuple[NDArray[Any], ...]:
    return links.size, links.right, links.first, links.exact


def link(space: Space, rows: NDArray[np.int64], ctx: Context) -> Links:
    """Link record b of the intruder to the release, where row `rows[b]` is the right one (−1: it is not there).

    A record without any value, or whose values no published record has, could be anybody.
    """
    found = _search(space, rows, ctx)
    anybody = (found.size == 0) | np.isnan(space.known).all(axis=1)
    return Links(
        np.where(anybody, len(space.published), found.size),
        np.where(anybody, rows >= 0, found.right),
        np.where(anybody, 0, found.first),
        found.exact & ~anybody,
    )


def _mean_candidates(space: Space, ctx: Context) -> float:
    """Give the mean number of records inside all the windows of a record: of up to a thousand, drawn at random."""
    from discretion.kernels.linkage_mixed import build_tree
    from discretion.kernels.linkage_windows import count_allowed

    n = len(space.known)
    rows = np.sort(ctx.within("candidates").rng.choice(n, min(n, 1000), replace=False))
    low, high = (np.where(np.isnan(x[rows]), bound, x[rows]) for x, bound in _bounds(space))
    tree = build_tree(space.published, space.terms.kinds, _spread(space))
    return float(count_allowed(tree, space.terms._replace(low=low, high=high)).mean())


def _bounds(space: Space) -> tuple[tuple[Floats, float], tuple[Floats, float]]:
    return (space.terms.low, -np.inf), (space.terms.high, np.inf)


def _spread(space: Space) -> Floats:
    """Give one scale per column, to choose where the tree is split."""
    return np.asarray(np.where(np.isfinite(space.terms.scale), space.terms.scale, 1.0).mean(axis=0))


def _search(space: Space, rows: NDArray[np.int64], ctx: Context) -> Links:
    if space.is_plain:
        from discretion.kernels.linkage import nearest_ties

        scale = space.terms.scale
        near = nearest_ties(space.known * scale, space.published * scale, rows, ctx.progress)
        return Links(near.size, near.has_own, near.lowest, near.distance == 0)
    from discretion.kernels.linkage_mixed import build_tree, nearest_mixed

    tree = build_tree(space.published, space.terms.kinds, _spread(space))
    there = rows >= 0
    own = space.published[np.where(there, rows, 0)]
    near = nearest_mixed(space.known, tree, space.terms, own, ctx.progress)
    return Links(near.size, near.has_own & there, near.lowest, near.distance == 0)
