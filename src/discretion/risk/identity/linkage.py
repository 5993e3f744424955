"""Record linkage by distance: an intruder looks for the nearest published record (R11, R12, R14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.kernels.arrays import Floats, Ints
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family, Part, Scale
from discretion.risk.identity.distances import Distance, Gaps, Space, make_space, with_gaps, with_who_lacks
from discretion.risk.identity.intruder import Intruder, View, columns_to_link, intruder_field, unused, view

if TYPE_CHECKING:
    from discretion.kernels.linkage import Tree
    from discretion.risk.identity.transparency.attack import Eliminated, Informed, MatchedPeople


_ALL, _TARGETS, _THOROUGH = 2_000, (1_000, 10_000), 20_000
"""Up to so many records all are attacked by the method, above that some: first few, more if they leave it open."""
_PAIRS, _PAIRS_THOROUGH, _FEWEST = 2_500_000, 25_000_000, 200
"""Pairs of records that are followed, and the fewest records."""
_OPEN = 0.02
"""Width of an interval that asks for more targets."""
_PAIRS_OF_UNITS, _LAWS_COST = 15_000_000, 5
"""Pairs of records up to which people with joined records are looked for, and by how much one with a swap's law takes
longer; units are drawn until they are so many."""
_NEARLY_ALL = 0.98
_SCANNED = 500
"""Records on which guesses at the method are tried, and on which certainty is judged."""
_NOT_MATCHED = (
    " Not tried, because it takes too long here: putting together what is known of everybody, which may find far more "
    "of the people whose values were exchanged."
)
_PAIRS_SAMPLED, _FEWEST_SAMPLED, _WALKED_SAMPLED = 300_000, 50, 10_000_000
"""The same with a `sample`, which is to take little time; and pairs up to which everybody is matched at once then."""


@dataclass(frozen=True)
class Links:
    """For each intruder's record: size of the anonymity set, whether it holds the right one, the first of it."""

    size: NDArray[np.int64]
    right: NDArray[np.bool_]
    first: NDArray[np.int64]
    exact: NDArray[np.bool_]
    lost: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    """who had no candidate by the method and was linked without it"""

    def of(self, places: NDArray[np.int64]) -> Links:
        """Give the links of some of these records."""
        return Links(*(values[places] for values in _arrays(self)))

    @property
    def shares(self) -> Floats:
        """The probability that the intruder, who picks one of the set, picks the right one."""
        return np.where(self.right, 1.0 / np.maximum(self.size, 1), 0.0)

    def figures(self, seen: View, targets: NDArray[np.int64] | None = None) -> dict[str, float]:
        """Give Reid_d as a share of the records, Reid_k and the links that the intruder knows are right of the people.

        `targets`: the intruder's records that these are the links of; without them, all.
        """
        rows = seen.rows if targets is None else seen.rows[targets]
        sure = (self.right & (self.size == 1) & self.exact).astype(np.float64)
        return {
            "reid_d": float((self.first == rows).mean()),
            "reid_k": seen.found(_over(self.shares, targets, len(seen.rows))),
            "known_reid": seen.found(_over(sure, targets, len(seen.rows))),
        }


def _over(values: Floats, targets: NDArray[np.int64] | None, n: int) -> Floats:
    """Put the figures of some records in their places; NaN for the others."""
    if targets is None:
        return values
    whole = np.full(n, np.nan)
    whole[targets] = values
    return whole


@dataclass(frozen=True)
class Joined:
    """What an intruder finds who puts the records together that a published number joins."""

    column: str
    shares: Floats
    """for each record of the intruder, how likely its unit (and in a household, the record in it) is picked; NaN for
    units that were not drawn"""
    units: Ints
    """the unit of each record of the intruder"""
    certain: Floats
    """which records have one unit at no distance, the right one"""
    of_people: bool
    """whether a unit is a person"""

    def found(self, values: Floats) -> float:
        """Give the share of the people who are found: of the units where these are people, else of the records."""
        if not self.of_people:
            return float(np.nanmean(values))
        _, first = np.unique(self.units, return_index=True)
        return float(np.nanmean(values[first]))


def _joining(seen: View) -> list[tuple[str, bool]]:
    """Name the published columns that join records, and whether these are then of one person."""
    released = seen.released
    people, homes = released.having("unit", "identifier"), released.having("household")
    names = [(name, True) for name in people] + [(name, False) for name in homes if name not in people]
    return [one for one in names if 1 < len(released.classes([one[0]])) < len(released)]


def _joined(space: Space, seen: View, links: Links, ctx: Context, *, few: bool = False) -> tuple[Joined, ...]:
    """Attack units as wholes, for each published number that joins records; a missing number joins nothing.

    Nothing where the links of single records find nearly everybody; of the unprotected data, and with `few`, fewer
    units are drawn.
    """
    from discretion.kernels.linkage import SWAPPED, nearest_units

    if float(links.shares.mean()) > _NEARLY_ALL:
        return ()
    pairs = _PAIRS_OF_UNITS // (_LAWS_COST if (space.terms.kinds == SWAPPED).any() else 1)
    pairs //= 5 if few or seen.released is seen.original else 1
    made = []
    there = np.flatnonzero(seen.rows >= 0)
    whole = seen.worst_case
    kept = whole and not seen.released.lost_records and len(seen.original.origin) == len(seen.original)
    for column, of_people in _joining(seen) if len(there) else ():
        coded = seen.released.codes(column)
        alone = coded.size + np.arange(len(coded.codes))
        units = np.unique(np.where(coded.codes == coded.missing, alone, coded.codes), return_inverse=True)[1]
        units = units.astype(np.int64)
        part, mine = _part_of(space, there), units[seen.rows[there]]
        asked = np.unique(mine)
        most = max(_FEWEST, pairs * len(asked) // (len(there) * len(units)))
        targets = asked[np.sort(ctx.within(f"units/{column}").rng.permutation(len(asked))[:most])]
        near = nearest_units(
            part.known, mine, part.published, units, part.terms, targets, ctx.progress, both=whole, equal=kept,
            own=seen.rows[there], tree=space.tree,
        )  # fmt: skip
        inside = np.ones(len(there))
        if not of_people:
            tried = np.flatnonzero(np.isin(mine, targets))
            inside[tried] = _inside(_part_of(part, tried), units, mine[tried], seen.rows[there[tried]])
        figures = np.full((2, int(units.max()) + 1), np.nan)
        figures[0, targets] = np.where(near.has_own, 1.0 / np.maximum(near.size, 1), 0.0)
        figures[1, targets] = near.has_own & (near.size == 1) & (near.distance == 0)
        shares, certain = np.zeros((2, len(seen.rows)))
        shares[there], certain[there] = figures[0, mine] * inside, figures[1, mine] * (inside == 1)
        of = len(units) + np.arange(len(seen.rows))
        of[there] = mine
        made.append(Joined(column, shares, of, certain, of_people))
    return tuple(made)


def _inside(space: Space, units: Ints, of_known: Ints, rows: Ints) -> Floats:
    """Give how likely each known record is linked right among the records of its own unit."""
    from discretion.kernels.linkage import TIE, pair_costs

    order = np.argsort(units, kind="stable")
    sizes = np.bincount(units)
    starts = np.cumsum(sizes) - sizes
    many = sizes[of_known]
    who = np.repeat(np.arange(len(of_known)), many)
    place = np.arange(len(who)) - np.repeat(np.cumsum(many) - many, many)
    record = order[starts[of_known][who] + place]
    asked = _part_of(space, who)
    costs = pair_costs(asked.known, space.published[record], asked.terms)
    least = np.full(len(of_known), np.inf)
    np.minimum.at(least, who, costs)
    near = costs <= least[who] * (1 + TIE)
    size = np.bincount(who, near, minlength=len(of_known))
    right = np.bincount(who, near & (record == rows[who]), minlength=len(of_known))
    return np.asarray(right / np.maximum(size, 1))


class DistanceLinkage(Measure, kind="distance-linkage"):
    """Share of people an intruder finds by looking for the nearest published record.

    Worst case, unless `intruder` says otherwise: the intruder knows the original values of `columns` for everybody. For
    each of these records the nearest published records are found; those at the same least distance form an anonymity
    set A, and the record counts 1/|A| when the right one is among them. The value is Reid_k; the detail also has
    `reid_d` (the first of the set is taken), `known_reid` (right, alone and at distance zero: the intruder knows it is
    right), and the chance level 1/n. Where a column with the role `unit` tells that people have several records,
    people are counted: a person is found if any of the records is linked to its own row (`by_record` has the figure
    of the records; links to another record of the same person do not count).

    Where the release shows which records belong together (a published column of the role `unit` or `household`, or an
    identifier whose values recur), the records of a unit are also attacked together: known records and published ones
    are compared unit by unit, by the sum of the distances of each record to the nearest of the other unit, among units
    with as many records where none were dropped. `joined` of the detail has the figure of each such column (people who
    are found; in households, members whose record in it is the nearest too), and the highest figure counts.

    Numbers, dates and ordered categories (as positions in their order) are compared by a Euclidean distance, each
    divided by its standard deviation; as soon as a column has categories without an order, by Gower's distance:
    differences divided by the range (of both files), 0 or 1 for categories. A generalized value agrees with
    everything below it in the column's hierarchy, a published interval or set with what is inside; columns whose values
    have nothing in common with the original's tell nothing and are named (`left_out`). `distance` chooses another. A
    value the intruder does not have is left out; what a cell suppressed in the release counts as is said by `missing`.
    Who knows the original values also knows who has none: where each gap of the original is one of the release
    (imputation apart, methods leave gaps alone), or each gap of the release was one before (nothing was suppressed), a
    record whose gaps contradict it is nobody's candidate; `gaps` names the columns of which this was used.

    A method must not depend on being secret: where the steps that made the release are known, the attack is run twice,
    without and with their knowledge, and the value is the higher figure; the detail has both (`plain`, `informed`).
    Known are windows of rank swapping intersected over the columns, and inside them how likely each move is; groups of
    microaggregation and rounding carried out again; recoded, grouped and top-coded values coded alike; the distribution
    of noise; the probabilities of moved categories; equality of what no step changed. Who has all the records also
    follows the partners of swapped values (`partners_followed`): who shows my value must have given me theirs.
    And who has everybody's values puts all of this together (`matched`): each person has one record, each move of a
    swapped value another one the other way round, and what is believed of one tells the partners, through the whole
    file (up to 250 million possible pairs, 10 million with a `sample`, and unless nearly everybody is found anyway;
    otherwise the figure is said to lack it, and no requirement holds by it).
    `named` has how many people are named with a belief above 95 %, and how many of these rightly.
    Or eliminates: each record belongs to one person, so that a record goes where keeping
    it would leave somebody without any (`eliminated`, up to 10 million possible pairs); where no partners are followed,
    what remains is assigned one to one at the least total cost, in groups of up to 150 people. The highest of the three
    figures counts. `known_reid` then also counts records for which
    the method allows one candidate alone, and it is the right one: this intruder knows it. A release from elsewhere
    has no known steps: `intruder: {knows_method: true}` scans the methods that fit the rows over a grid of parameters
    (`scanned`) and takes the best; `intruder: {method: […]}` names them. `knows_method: false` leaves all this out.
    Above 2,000 records the informed attack is run on 1,000 drawn at random, on 10,000 where the 95 % `interval` of its
    figure is wider than 0.02 (on fewer where more than 2.5 million pairs would be followed); with `knows_method: true`
    on up to 20,000. With `sample` so many people, drawn at random, are looked for among all the published records, by
    all attacks but elimination (where partners are followed, as many as 300,000 pairs allow, at least 50; of units with
    joined records at least 200; everybody where people have several records); the `interval` of the figure of all is
    stated, and a requirement is judged by its upper end. Values dealt out by a model (shuffle) count by how likely the
    model deals them to somebody with the known predictors, also where only these are known: a published shuffled column
    tells a predictor that was generalized afterwards. A column that several steps changed is attacked as if the method
    were unknown.

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
    >>> score = dc.DistanceLinkage(columns=["income", "savings", "hours"])(people, released)
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
    sample: int = Field(0, ge=0)
    """people drawn at random whom the intruder looks for, with a stated interval; 0: everybody"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)
    scale: ClassVar[Scale] = "sampled"
    screens_with: ClassVar[int | None] = 1_000

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Link every record of the intruder to the release."""
        columns = columns_to_link(self.intruder, self.columns, original, released)
        seen, links, used, left_out, gaps, joined = self._links(original, released, columns, ctx)
        drawn = self._drawn(seen, ctx)
        figures, shares = links.figures(seen, drawn), _over(links.shares, drawn, len(seen.rows))
        detail: dict[str, Any] = {"plain": figures["reid_k"]} | ({} if drawn is None else _tried(seen, links.shares))
        known, told = self._known(original, released, columns, seen, links, ctx)
        detail |= told
        if "known_of" in told:
            detail["informed"] = figures["reid_k"]
        if known is not None:
            informed = known.links.figures(seen, known.targets)
            certain = max(min(seen.found(known.certain), informed["reid_k"]), figures["known_reid"])
            detail |= {"informed": informed["reid_k"], **known.to_detail(seen)}
            detail |= {} if drawn is None else _better_of(seen, known.links.shares, links.shares)
            if informed["reid_k"] >= figures["reid_k"]:
                figures, shares = informed, _over(known.links.shares, known.targets, len(seen.rows))
            figures = {**figures, "known_reid": certain}
            figures, shares = _of_everybody(known, seen, figures, shares, detail)
        every = [*joined, *(known.joined if known is not None else ())]
        together = _best_joined(every, figures["reid_k"])
        if every:
            detail["joined"] = {
                one.column: max(j.found(j.shares) for j in every if j.column == one.column) for one in every
            }
            sure = max(one.found(one.certain) for one in every)
            figures = {**figures, "known_reid": max(figures["known_reid"], sure)}
            most = max(detail["joined"].values())
            ends = [_between(most, _FEWEST), detail.get("interval", (0.0, 0.0))]
            detail |= {} if drawn is None else {"interval": list(map(max, *ends))}
        if together is not None:
            figures, shares = {**figures, "reid_k": together.found(together.shares)}, together.shares
        value, chance = figures["reid_k"], seen.chance
        by_method = known is not None and value > detail["plain"]
        who = (self.intruder.model_copy(update={"knows_method": True}) if by_method else self.intruder).describe(used)
        who = with_who_lacks(who, gaps)
        if _ignores_shuffle(detail, released, used):
            who = f"{who.removesuffix(' (worst case)')} (how values were dealt out by shuffle is not used)"
        if together is not None:
            who += f", and puts the records together that {together.column} joins,"
        elif detail.get("matched") == value > max(detail["plain"], detail["informed"]):
            who += (
                ", and puts together what it tells that each record is one person's and values were exchanged in pairs,"
            )
        elif detail.get("eliminated") == value > max(detail["plain"], detail["informed"]):
            who += ", and crosses out the records that must be other people's"
        if drawn is not None:
            del figures["known_reid"]  # the method may make more of them certain, which nobody looked at
        return self.score(
            value,
            f"An intruder who {who} finds {as_percent(value)} of {_whom(seen, shares, together)} "
            f"(guessing finds {as_percent(chance)}).{_compared(detail)}{_told_of(detail, drawn)}{unused(left_out)}"
            f"{_NOT_MATCHED if 'matched' in detail and detail['matched'] is None else ''}",
            per_record=seen.spread(shares),
            **figures,
            **detail,
            **_counted(seen, shares, together),
            chance=chance,
            records=len(seen.rows),
            columns=list(used),
            weights=[name for name in used if name in original.having("weight")],
            left_out=list(left_out),
            gaps=list(gaps),
            intruder=who,
        )

    def _links(
        self, original: Dataset, released: Dataset, columns: tuple[str, ...], ctx: Context
    ) -> tuple[View, Links, tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[Joined, ...]]:
        """Find the nearest records; kept with the release, so that a measure and a requirement share the search."""

        def search() -> tuple[View, Links, tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[Joined, ...]]:
            seen = view(self.intruder, original, released, columns, ctx)
            space = make_space(seen, self.distance, self.missing, self.standardize, ctx, named=bool(self.columns))
            used = tuple(name for name in seen.columns if name not in space.incomparable)
            space, gaps = with_gaps(seen, self.intruder, space)
            drawn = self._drawn(seen, ctx)
            known, rows = (space, seen.rows) if drawn is None else (_part_of(space, drawn), seen.rows[drawn])
            links = link(known, rows, ctx, space)
            joined = _joined(space, seen, links, ctx, few=drawn is not None)
            return seen, links, used, space.incomparable, gaps, joined

        if not self._is_shared:
            return search()
        how = f"{self.distance}, {self.missing}, standardized {self.standardize}, original {id(original)}"
        how += f", named {bool(self.columns)}" + (f", sample {self.sample}, seed {ctx.seed}" if self.sample else "")
        if self.distance == "robust-mahalanobis":
            how += f", seed {ctx.seed}"  # the estimate starts at random
        return released.cached((f"nearest, {how}", columns), search)

    def _drawn(self, seen: View, ctx: Context) -> NDArray[np.int64] | None:
        """Draw the records to look for; None for all. Those of the informed attack are the first of the same draw."""
        n = len(seen.rows)
        return np.sort(_draw(n, ctx)[: self.sample]) if 0 < self.sample < n and seen.people is None else None

    @property
    def _is_shared(self) -> bool:
        """Tell whether the intruder has nothing of its own, so that the search can be kept with the release."""
        return self.intruder.model_copy(update={"knows_method": None, "method": ()}) == Intruder()

    def _known(
        self, original: Dataset, released: Dataset, columns: tuple[str, ...], seen: View, plain: Links, ctx: Context
    ) -> tuple[_Known | None, dict[str, Any]]:
        """Link with what the method tells; kept with the release as the plain search."""
        if self.intruder.knows_method is False:
            return None, {"assumed": "the intruder does not know the method"}

        def search() -> tuple[_Known | None, dict[str, Any]]:
            return self._informed(seen, plain, ctx)

        if not self._is_shared or self.intruder.method:
            return search()
        how = f"{self.intruder.knows_method}, named {bool(self.columns)}, original {id(original)}, {self.distance}"
        how += f", sample {self.sample}, seed {ctx.seed}" if self.sample else ""
        return released.cached((f"informed, {how}, {self.missing}, {self.standardize}", columns), search)

    def _informed(self, seen: View, plain: Links, ctx: Context) -> tuple[_Known | None, dict[str, Any]]:
        """Link again with what the steps tell, or the best guess; a record without candidate is linked as before."""
        from discretion.risk.identity.transparency.attack import Register, inform

        steps: Sequence[Part] = self.intruder.known_steps(seen.original, seen.released)
        named = bool(self.columns)
        if steps:
            source = "named for the intruder" if self.intruder.method else "the steps that made the release"
            made = not self.intruder.method
            informed = inform(seen, self.intruder, steps, ctx, named=named, made=made)
            told: dict[str, Any] = {"assumed": source}
        elif self.intruder.knows_method:
            informed, told = self._scan(seen, plain, ctx)
        else:
            return None, {}
        if informed is None:
            return None, {"known_of": {}, **told}
        drawn = self._drawn(seen, ctx)
        known = _attacked(informed, seen.rows, plain, ctx, thorough=bool(self.intruder.knows_method), drawn=drawn)
        known = replace(known, joined=_joined(informed.space, seen, plain, ctx, few=drawn is not None))
        if len(informed.space.terms.low) and (drawn is None or informed.exchanged):
            register = Register(informed.space, ctx)
            told["candidates"] = register.candidates
            if seen.worst_case and drawn is None:  # values that were exchanged tell more than an assignment
                known = replace(known, eliminated=register.eliminate(seen.rows, ctx, assign=not informed.exchanged))
            if informed.exchanged and float(known.links.shares.mean()) <= _NEARLY_ALL:
                few = {} if drawn is None else {"most": _WALKED_SAMPLED}
                matched = register.match(seen.rows, informed.exchanged, informed.doubt, ctx, **few)
                if matched is not None and drawn is not None:
                    matched = replace(matched, shares=_over(matched.shares[drawn], drawn, len(seen.rows)))
                known, told["matched"] = replace(known, matched=matched), None
        told |= {"known_of": dict(informed.used), "without_candidate": int(known.links.lost.sum())}
        if any(text.startswith("rank-swap") for text in informed.used.values()):
            told["partners_followed"] = informed.exchange is not None
        return known, told

    def _scan(self, seen: View, plain: Links, ctx: Context) -> tuple[Informed | None, dict[str, Any]]:
        """Try the methods that fit the rows on some targets; give the attack that finds most of them."""
        from discretion.risk.identity.transparency.attack import guesses, inform

        found = guesses(seen)
        best: tuple[float, Informed, str] | None = None
        scanned: dict[str, float] = {}
        drawn = self._drawn(seen, ctx)
        among = np.arange(len(seen.rows)) if drawn is None else drawn
        targets = np.sort(ctx.within("scan").rng.choice(among, min(len(among), _SCANNED), replace=False))
        for guess in found:
            informed = inform(seen, self.intruder, guess.steps, ctx, named=bool(self.columns), unknown=guess.unknown)
            if informed is None:
                continue
            few = targets[: _few(informed, len(targets), _PAIRS)]
            before = plain.of(few if drawn is None else np.searchsorted(drawn, few))
            scanned[guess.label] = float(_linked(informed, seen.rows, few, before, ctx).shares.mean())
            if best is None or scanned[guess.label] > best[0]:
                best = (scanned[guess.label], informed, guess.label)
        if best is None:
            return None, {"assumed": "no method was found that fits the rows; linked as if it were unknown"}
        return best[1], {"assumed": f"guessed from the rows: {best[2]}", "scanned": scanned}


@dataclass(frozen=True)
class _Known:
    """What an intruder who knows the method finds among the targets."""

    links: Links
    targets: NDArray[np.int64]
    certain: Floats
    """whether the method leaves one candidate, the right one; NaN for records that were not judged"""
    eliminated: Eliminated | None = None
    """what is left where everybody is known, and each record belongs to one person"""
    matched: MatchedPeople | None = None
    """what is found where moreover values were exchanged in pairs, and all is put together"""
    joined: tuple[Joined, ...] = ()
    """what is found by records that a published number joins"""

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the figure of all."""
        return _interval(self.links.shares)

    def to_detail(self, seen: View) -> dict[str, Any]:
        """Give how many were drawn, with the interval; nothing where all were attacked."""
        return {} if len(self.targets) == len(seen.rows) else _tried(seen, self.links.shares)


def _of_everybody(
    known: _Known, seen: View, figures: dict[str, float], shares: Floats, detail: dict[str, Any]
) -> tuple[dict[str, float], Floats]:
    """Take what is found by looking at everybody at once instead, where it is more; note it in the detail."""
    if (together := known.matched) is not None:
        named = together.shares[together.sure & ~np.isnan(together.shares)]
        detail["matched"] = seen.found(together.shares)
        detail["named"] = {"people": len(named), "right": float(named.mean()) if len(named) else None}
    if (left := known.eliminated) is not None:
        detail["eliminated"] = seen.found(left.shares)
        detail["eliminated_certain"] = seen.found((left.size == 1).astype(np.float64))
        figures = {**figures, "known_reid": max(figures["known_reid"], detail["eliminated_certain"])}
    for way in (together, left):
        if way is not None and seen.found(way.shares) > figures["reid_k"]:
            figures, shares = {**figures, "reid_k": seen.found(way.shares)}, way.shares
            detail |= _tried(seen, shares)
    return figures, shares


def _interval(shares: Floats) -> tuple[float, float]:
    """Give the 95 % interval of a mean share (Wilson's, by the variance of a yes or no, which is the largest)."""
    return _between(float(shares.mean()), len(shares))


def _between(p: float, m: int) -> tuple[float, float]:
    """Give the 95 % interval of a share p of m."""
    z = 1.959964
    center, half = p + z * z / (2 * m), z * np.sqrt(p * (1 - p) / m + z * z / (4 * m * m))
    low, high = ((center + sign * half) / (1 + z * z / m) for sign in (-1, 1))
    return float(low), float(high)


def _tried(seen: View, shares: Floats) -> dict[str, Any]:
    """Give how many records were drawn, with the interval (where each is a person), also where these are all."""
    there = shares[~np.isnan(shares)]
    return {"targets": len(there), **({"interval": list(_interval(there))} if seen.people is None else {})}


def _better_of(seen: View, informed: Floats, plain: Floats) -> dict[str, Any]:
    """Give how many were drawn, and the interval of the better of two attacks: what either may find of all."""
    tried = [_tried(seen, shares) for shares in (informed, plain)]
    ends = [one["interval"] for one in tried]
    return tried[float(np.mean(informed)) < float(np.mean(plain))] | {"interval": list(map(max, *ends))}


def _few(informed: Informed, n: int, pairs: int, *, sampled: bool = False) -> int:
    """Give how many of n targets can be followed with so many pairs: all where no partners are followed."""
    if informed.exchange is None:
        return n
    return min(n, max(_FEWEST_SAMPLED if sampled else _FEWEST, int(pairs / max(informed.exchange[2], 1.0))))


def _draw(n: int, ctx: Context) -> NDArray[np.int64]:
    """Put the records into the order in which they are drawn."""
    return np.asarray(ctx.within("targets").rng.permutation(n), dtype=np.int64)


def _attacked(
    informed: Informed, rows: NDArray[np.int64], plain: Links, ctx: Context, *, thorough: bool,
    drawn: NDArray[np.int64] | None = None,
) -> _Known:  # fmt: skip
    """Attack everybody, or as many drawn at random as the time allows; more where the first leave the figure open.

    `drawn`: the records that `plain` has links of, among which these are; without them, all.
    """
    n, some = len(rows), drawn is not None
    most = _few(informed, n, _PAIRS_SAMPLED if some else _PAIRS_THOROUGH if thorough else _PAIRS, sampled=some)
    sizes = (len(drawn),) if drawn is not None else (_THOROUGH,) if thorough else (n,) if n <= _ALL else _TARGETS
    order = _draw(n, ctx)[: min(most, n if drawn is None else len(drawn))]

    def attack(size: int) -> _Known:
        targets = np.sort(order[:size])
        there = targets if drawn is None else np.searchsorted(drawn, targets)
        return _Known(_linked(informed, rows, targets, plain.of(there), ctx), targets, np.zeros(n))

    found = attack(sizes[0])
    for size in sizes[1:]:
        low, high = found.interval
        if len(found.targets) < len(order) and high - low > _OPEN:
            found = attack(size)
    return found if some else replace(found, certain=_certain(informed, rows, found.targets, ctx))


def _linked(
    informed: Informed, rows: NDArray[np.int64], targets: NDArray[np.int64], plain: Links, ctx: Context
) -> Links:
    """Link the targets with what the method tells, one without any candidate as before (`plain`: of the targets)."""
    found = _informed_search(informed, rows, targets, ctx)
    lost = found.size == 0
    size, right, first, exact = (
        np.where(lost, old, new) for old, new in zip(_arrays(plain), _arrays(found), strict=True)
    )
    return Links(size, right, first, exact, lost)


def _informed_search(informed: Informed, rows: NDArray[np.int64], targets: NDArray[np.int64], ctx: Context) -> Links:
    if informed.exchange is None:
        return _search(_part_of(informed.space, targets), rows[targets], ctx, informed.space)
    from discretion.risk.identity.transparency.steps import search_exchanged

    near = search_exchanged(informed.space, *informed.exchange[:2], targets, ctx)
    return Links(near.size, near.has_own, near.lowest, near.distance == 0)


def _part_of(space: Space, targets: NDArray[np.int64]) -> Space:
    """Give the space with some of the known records."""
    terms = space.terms
    scale = terms.scale if len(terms.scale) == 1 else terms.scale[targets]
    bounds = {"low": terms.low[targets], "high": terms.high[targets]} if len(terms.low) else {}
    return replace(space, known=space.known[targets]).changed(scale=scale, **bounds)


def _certain(informed: Informed, rows: NDArray[np.int64], targets: NDArray[np.int64], ctx: Context) -> Floats:
    """Tell for which of the targets everybody but the right one is impossible; NaN for records that are not judged.

    Impossible is who lies outside a window, shows another category where it must agree, or (where partners are
    followed) implies a partner for whom that holds. What remains costs nothing, so that the nearest are all of them; a
    suppressed cell may be anything. Noise makes nobody impossible.
    """
    from discretion.kernels.linkage import NOMINAL, SQUARED

    space = informed.space
    if not len(space.terms.low):
        return np.zeros(len(rows))
    if len(targets) > _SCANNED:
        targets = targets[:: -(-len(targets) // _SCANNED)]
    nominal = space.terms.kinds == NOMINAL
    scale = np.where(np.isinf(space.terms.scale) & nominal, np.inf, 0.0)
    kinds = np.where(nominal, NOMINAL, SQUARED)
    free = replace(informed, space=space.changed(kinds=kinds, scale=scale, gap=np.zeros_like(space.terms.gap)))
    if informed.exchange is None and (scale == scale[0]).all():
        alone = _alone(_part_of(free.space, targets), rows[targets], space.tree)
    else:
        found = _informed_search(free, rows, targets, ctx)
        alone = found.right & (found.size == 1)
    return _over(alone.astype(np.float64), targets, len(rows))


def _alone(space: Space, rows: NDArray[np.int64], tree: Tree) -> NDArray[np.bool_]:
    """Tell who has one record at no distance, the right one, in a space where distances are nothing or infinite."""
    from discretion.kernels.linkage import count_allowed, pair_costs

    possible = pair_costs(space.known, space.published[np.maximum(rows, 0)], space.terms) < np.inf
    return np.asarray((rows >= 0) & possible & (count_allowed(space.known, tree, space.terms, enough=2) == 1))


def _best_joined(every: Sequence[Joined], value: float) -> Joined | None:
    """Give the attack on joined records that finds most people, if it finds more than record by record."""
    best = max(every, key=lambda one: one.found(one.shares), default=None)
    return best if best is not None and best.found(best.shares) > value else None


def _whom(seen: View, shares: Floats, together: Joined | None) -> str:
    """Say whom a figure counts."""
    if together is None:
        return seen.them(shares)
    return "the people behind them" if together.of_people else "them"


def _counted(seen: View, shares: Floats, together: Joined | None) -> dict[str, Any]:
    """Give what a score keeps where people have several records; of joined ones the units that were tried."""
    if together is None or not together.of_people:
        return seen.counted(shares)
    tried = len(np.unique(together.units[~np.isnan(shares)]))
    return {**seen.counted(shares), "people": len(np.unique(together.units)), "people_tested": tried}


def _ignores_shuffle(detail: dict[str, Any], released: Dataset, used: Sequence[str]) -> bool:
    """Tell whether a column that was compared was dealt out by a model that the attack did not know."""
    dealt = {name for step in released.steps if step.kind == "shuffle" for name in getattr(step, "columns", ()) or used}
    told = {name for name, text in detail.get("known_of", {}).items() if text.startswith("shuffle")}
    return bool((dealt & set(used)) - told)


def _compared(detail: dict[str, Any]) -> str:
    """Say what the same attack gives without the knowledge of the method."""
    if "known_of" not in detail or not detail["known_of"] or detail["informed"] < detail["plain"]:
        return ""
    guessed = " (here guessed from the rows)" if "scanned" in detail else ""
    text = f" Without the method{guessed}: {as_percent(detail['plain'])}"
    if detail.get("partners_followed") and detail["informed"] > detail["plain"]:
        text += "; the partners of swapped values gave people away"
    return f"{text}."


def _told_of(detail: dict[str, Any], drawn: NDArray[np.int64] | None) -> str:
    """Say how many people were looked for where these were a sample, and what the figure of all may be."""
    if drawn is None:
        return ""
    between = [as_percent(end) for end in detail.get("interval", ())]
    of_all = f"; of all it may be between {between[0]} and {between[1]}" if between else ""
    return f" Looked for {detail['targets']:,} people drawn at random{of_all}."


def _arrays(links: Links) -> tuple[NDArray[Any], ...]:
    return links.size, links.right, links.first, links.exact


def link(space: Space, rows: NDArray[np.int64], ctx: Context, whole: Space | None = None) -> Links:
    """Link record b of the intruder to the release, where row `rows[b]` is the right one (−1: it is not there).

    A record without any value, or whose values no published record has, could be anybody. `whole`: see `_search`.
    """
    found = _search(space, rows, ctx, whole)
    anybody = (found.size == 0) | np.isnan(space.known).all(axis=1)
    return Links(
        np.where(anybody, len(space.published), found.size),
        np.where(anybody, rows >= 0, found.right),
        np.where(anybody, 0, found.first),
        found.exact & ~anybody,
    )


def _search(space: Space, rows: NDArray[np.int64], ctx: Context, whole: Space | None = None) -> Links:
    """Link the records of a space, which may be a part of those of a `whole` one whose tree is shared."""
    if space.is_plain:
        from discretion.kernels.linkage import nearest_ties

        scale = space.terms.scale
        near = nearest_ties(space.known * scale, space.published * scale, rows, ctx.progress)
        return Links(near.size, near.has_own, near.lowest, near.distance == 0)
    from discretion.kernels.linkage import nearest_mixed

    there = rows >= 0
    in_place = len(rows) == len(space.published) and np.array_equal(rows, np.arange(len(rows)))
    own = space.published if in_place else space.published[np.where(there, rows, 0)]
    near = nearest_mixed(space.known, (whole or space).tree, space.terms, own, ctx.progress)
    return Links(near.size, near.has_own & there, near.lowest, near.distance == 0)
