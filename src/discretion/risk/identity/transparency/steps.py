"""Which steps changed a release, and what swapping by rank and dealing out anew by a model tell who knows them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, DiscretionError, PlanError
from discretion.kernels.arrays import Floats, Ints
from discretion.part import Part, find
from discretion.risk.identity.distances import Space
from discretion.risk.identity.intruder import View

if TYPE_CHECKING:
    from discretion.kernels.linkage import Nearest
    from discretion.kernels.swap import Laws

# Windows: the published values that a known value can have become by swapping or by grouping one column.

Window = tuple[Floats, Floats]
"""The smallest and the largest published value for each known value; without bound where it is missing."""


def swap_window(known: Floats, published: Floats, step: Any, gone: int = 0) -> Window:
    """Give the window of (block) rank swapping; the true published value always lies in it.

    The published column has the same values as the original, in other places, so that ranks can be counted in it. Equal
    values may have had any of their ranks; suppressed cells (more missing than were known) may have shifted each rank,
    and so may `gone` records that were dropped afterwards.
    """
    low, high = np.full(len(known), -np.inf), np.full(len(known), np.inf)
    present = ~np.isnan(known)
    ranked = np.sort(published[~np.isnan(published)])
    if not len(ranked):
        return low, high
    lost = count_lost(known, published) + gone
    n = len(ranked) + lost
    x = known[present]
    first, last = np.searchsorted(ranked, x, "left"), np.searchsorted(ranked, x, "right") - 1
    first, last = np.minimum(first, np.maximum(last, 0)), np.maximum(first, last) + lost
    below, above = (int(np.floor(share * n + 1e-9)) for share in (step.bottom_share, step.top_share))
    if step.kind == "rank-swap":
        reach = int(np.floor(step.percent * n / 100 + 1e-9)) + lost
        low_rank, high_rank = first - reach, last + reach
    else:
        low_rank, high_rank = _block_ranks(first, last, below, n - above, step.percent, n)
        low_rank, high_rank = low_rank - lost, high_rank + lost
    stays = (last < below) | (first >= n - above)
    low[present] = np.where(stays, x, ranked[np.clip(low_rank, 0, len(ranked) - 1)])
    high[present] = np.where(stays, x, ranked[np.clip(high_rank, 0, len(ranked) - 1)])
    return low, high


def count_lost(known: Floats, published: Floats) -> int:
    """Count the cells that are missing in the release beyond those that were known to be missing."""
    return max(0, int(np.isnan(published).sum()) - int(np.isnan(known).sum()))


def _block_ranks(
    first: NDArray[np.int64], last: NDArray[np.int64], start: int, stop: int, percent: float, n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the first rank of the block of `first` and the last rank of that of `last`; blocks begin at `start`."""
    size = max(1, int(np.floor(percent * n / 100 + 1e-9)))
    low = start + np.maximum(first - start, 0) // size * size
    high = start + (np.maximum(last - start, 0) // size + 1) * size - 1
    inside_low, inside_high = first >= start, last < stop
    return np.where(inside_low, low, first), np.where(inside_high, np.minimum(high, stop - 1), last)


def center_window(known: Floats, published: Floats) -> Window:
    """Give the window of grouping one sorted column: the centers next to the value on both sides.

    Groups of consecutive values do not overlap, so a record's own center is the nearest one below its value, equal to
    it, or the nearest one above.
    """
    low, high = np.full(len(known), -np.inf), np.full(len(known), np.inf)
    centers = np.unique(published[~np.isnan(published)])
    present = ~np.isnan(known)
    if not len(centers):
        return low, high
    x = known[present]
    below, above = np.searchsorted(centers, x, "left") - 1, np.searchsorted(centers, x, "right")
    low[present] = np.where(below >= 0, centers[np.maximum(below, 0)], -np.inf)
    high[present] = np.where(above < len(centers), centers[np.minimum(above, len(centers) - 1)], np.inf)
    return low, high


@dataclass(frozen=True)
class _Law:
    """The law of one column, by the numbers of its distinct values."""

    parts: tuple[Floats, Floats, Floats]
    ranks: NDArray[np.int64]
    reach: int
    low: int
    stop: int


def with_swaps(space: Space, steps: dict[int, Any], windows: dict[int, Window], whole: bool) -> Space:
    """Rank the candidates inside the windows of swapped columns by the likelihood of the move instead of the distance.

    A value swapped by rank is hardly ever near its own: see `kernels.swap_law`. Inside a block all ranks are equally
    likely. Where groups were swapped apart all the candidates count alike. `whole`: the intruder has all the values, so
    that their ranks are those of the original; otherwise they are those of the release. A suppressed cell counts as
    a value that tells nothing. The records and terms of the space are changed where they are.
    """
    from discretion.kernels.linkage import SQUARED, SWAPPED

    terms = space.terms
    laws: dict[int, _Law] = {}
    for j, step in steps.items():
        terms.kinds[j], terms.scale[:, j], terms.gap[j] = SQUARED, 0.0, 0.0
        x, y = space.known[:, j], space.published[:, j]
        ranked = np.sort(x[~np.isnan(x)] if whole else y[~np.isnan(y)])
        if step.by or not len(ranked):
            continue
        values = np.unique(np.concatenate([ranked, y[~np.isnan(y)]]))  # also those of people who were dropped
        terms.low[:, j], terms.high[:, j] = _numbers(windows[j][0], values), _numbers(windows[j][1], values, "right")
        terms.kinds[j], terms.scale[:, j] = SWAPPED, 1.0 / len(values)
        terms.gap[j] = 2.0 * np.log(len(ranked)) if count_lost(x, y) else np.inf
        space.known[:, j], space.published[:, j] = _numbers(x, values), _numbers(y, values)
        laws[j] = _law_of(ranked, values, step)
    return space.changed(laws=_together(laws, len(space.columns)))


def _together(laws: dict[int, _Law], columns: int) -> Laws:
    """Put the laws of the columns one after another."""
    from discretion.kernels.swap import Laws

    places = np.zeros((columns, 5), dtype=np.int64)
    steps, values = 0, 0
    for j, law in laws.items():
        places[j] = steps, values, law.reach, law.low, law.stop
        steps, values = steps + len(law.parts[0]), values + len(law.ranks)
    none = np.empty(0)
    first, second, most = (np.concatenate([none, *(law.parts[part] for law in laws.values())]) for part in range(3))
    ranks = np.concatenate([np.empty((0, 2), np.int64), *(law.ranks for law in laws.values())])
    return Laws(first, second, most, ranks, places)


def _law_of(ranked: Floats, values: Floats, step: Any) -> _Law:
    from discretion.kernels.swap import swap_law

    n = len(ranked)
    first = np.minimum(np.searchsorted(ranked, values, "left"), n - 1)
    last = np.maximum(np.searchsorted(ranked, values, "right") - 1, first)
    low, high = (int(np.floor(share * n + 1e-9)) for share in (step.bottom_share, step.top_share))
    reach = max(1, int(np.floor(step.percent * n / 100 + 1e-9)))
    ranks = np.column_stack([first, last])
    if step.kind == "block-rank-swap":
        none = np.empty(0)
        return _Law((none, none, none), ranks, -reach, low, n - high)
    return _Law(swap_law(n - low - high, reach), ranks, reach, low, n - high)


def _numbers(x: Floats, values: Floats, side: Literal["left", "right"] = "left") -> Floats:
    """Give the numbers of values in their order, of bounds that of the next value inside; missing stays missing."""
    found = np.searchsorted(values, x, side) - (side == "right")
    return np.where(np.isnan(x), np.nan, np.clip(found, 0, len(values) - 1))


def exchange_of(space: Space, whole: bool) -> tuple[NDArray[np.int64], int, float] | None:
    """Give the columns to follow, the one to walk through and the mean number of records in its window; or None.

    It takes all the original records and two columns or more.
    """
    from discretion.kernels.linkage import SWAPPED, count_pairs

    columns = np.flatnonzero(space.terms.kinds == SWAPPED)
    columns = columns[space.terms.laws.places[columns, 2] > 0]  # blocks are shuffled, not exchanged
    if not whole or len(space.columns) < 2 or not len(columns):
        return None
    work = [float(count_pairs(space.published, space.terms, int(j)).mean()) for j in columns]
    walk = int(np.argmin(work))
    return columns, int(columns[walk]), work[walk]


def search_exchanged(
    space: Space, columns: NDArray[np.int64], walk: int, targets: NDArray[np.int64], ctx: Context
) -> Nearest:
    """Find the likeliest candidates of the targets, together with the partners they imply.

    The targets are moved to the beginning of both sides: the others are needed as partners.
    """
    from discretion.kernels.linkage import nearest_exchanged, who_has_what

    rest = np.ones(len(space.known), np.bool_)
    rest[targets] = False
    order = np.concatenate([targets, np.flatnonzero(rest)])
    known, published = space.known[order], space.published[order]
    own = {name: getattr(space.terms, name)[order] for name in ("low", "high")}
    scale = space.terms.scale if len(space.terms.scale) == 1 else space.terms.scale[order]
    terms = space.terms._replace(**own, scale=scale)
    found = nearest_exchanged(
        known, published, terms, who_has_what(known, published, columns), walk, ctx.progress, most=len(targets)
    )
    return found._replace(lowest=np.where(found.lowest < 0, -1, order[found.lowest]))


SWAPPING = frozenset({"rank-swap", "block-rank-swap"})
ONE_COLUMN = frozenset({"individual-ranking", "optimal-microaggregation"})
GROUPING = frozenset({"mdav", "variable-mdav", "projection-microaggregation"}) | ONE_COLUMN
NOISE = frozenset({"additive-noise", "multiplicative-noise", "outlier-noise"})
MIXING = frozenset({"correlated-noise", "variance-preserving-noise", "orthogonal-noise"})
"""Noise whose columns belong together."""
MOVING = frozenset({"pram", "randomized-response"})
GENERALIZING = frozenset({"generalize", "optimal-generalization", "local-recoding"})
CODING = frozenset({"recode", "top-code", "bottom-code", "group-categories"})
"""Give equal values equal values, by a rule that a codebook tells: whoever has the values can code them alike."""
CODING_ITEMS = "km-generalization"
"""Gives every item of a set one label for all records, along a hierarchy that is published."""

_KEEPS_VALUES = frozenset(
    {"drop-identifiers", "pseudonymize", "sample", "suppress-records", "local-suppression", "suppress-by-risk"}
)
_SEARCHING = frozenset({"optimal-generalization", "local-recoding", "mondrian"})
"""Without columns they work on the quasi-identifiers."""
_DROPS_RECORDS = frozenset({"sample", "suppress-records"})
_NAMES_COLUMNS = frozenset(
    CODING | {"pram", "randomized-response", "winsorize-outliers", "km-generalization", "blank-and-impute"}
)


class History:
    """The steps an intruder knows, by the columns they changed; of the columns `unknown` nothing is known."""

    def __init__(self, original: Dataset, steps: Sequence[Part], unknown: Collection[str] = ()) -> None:
        self.steps, self._unknown = tuple(steps), frozenset(unknown)
        self._touched = [_touched(original, step) for step in steps]

    def only_step(self, column: str) -> Part | None:
        """Give the one step that changed a column; None where there is none or more than one."""
        found = self._of(column)
        return found[0] if len(found) == 1 else None

    def is_untouched(self, column: str) -> bool:
        """Tell whether no step changed the values of a column (some may be suppressed)."""
        return column not in self._unknown and not self._of(column)

    def is_generalized(self, column: str) -> bool:
        """Tell whether a column was made less detailed along its hierarchy or by ranges, and nothing else."""
        return column not in self._unknown and all(map(_is_coarser, self._of(column)))

    def codings(self) -> tuple[Part, ...]:
        """Give the steps that coded the values of a column before anything else happened to it, in their order."""
        found: list[Part] = []
        moved = set(self._unknown)
        for step, names in zip(self.steps, self._touched, strict=True):
            if step.kind in {*CODING, CODING_ITEMS} and not moved & set(names or ()) and not getattr(step, "by", ()):
                found.append(step)
            elif names is None:
                break
            else:
                moved |= set(names)
        return tuple(found)

    def without(self, steps: Collection[Part]) -> History:
        """Give the history of values that some steps were carried out on already."""
        new = object.__new__(History)
        kept = [not any(step is other for other in steps) for step in self.steps]
        new.steps, new._unknown = tuple(s for s, k in zip(self.steps, kept, strict=True) if k), self._unknown
        new._touched = [names for names, k in zip(self._touched, kept, strict=True) if k]
        return new

    def keeps_records_after(self, step: Part) -> bool:
        """Tell whether all the records that a step saw are in the release."""
        return not any(other.kind in _DROPS_RECORDS for other in self.steps[self._place(step) + 1 :])

    def keeps_records_before(self, step: Part) -> bool:
        """Tell whether a step saw all the records of the original."""
        return not any(other.kind in _DROPS_RECORDS for other in self.steps[: self._place(step)])

    def before(self, step: Part) -> tuple[tuple[Part, tuple[str, ...] | None], ...]:
        """Give the steps before one with the columns they changed, None where that may be any."""
        return tuple(zip(self.steps, self._touched, strict=True))[: self._place(step)]

    def stays_after(self, step: Part, column: str, *, itself: bool = False) -> bool:
        """Tell whether no later step (nor the step `itself`) changed the values of a column; some may be suppressed."""
        later = self._touched[self._place(step) + (not itself) :]
        return column not in self._unknown and all(names is not None and column not in names for names in later)

    def _place(self, step: Part) -> int:
        return next(place for place, other in enumerate(self.steps) if other is step)

    def columns_of(self, step: Part) -> tuple[str, ...]:
        """Name the columns a step changed, as far as it is known."""
        return next(names or () for s, names in zip(self.steps, self._touched, strict=True) if s is step)

    def _of(self, column: str) -> list[Part]:
        return [step for step, names in zip(self.steps, self._touched, strict=True) if names is None or column in names]


def _is_coarser(step: Any) -> bool:
    """Tell whether a step publishes labels or ranges that hold the true value."""
    return step.kind in GENERALIZING or (step.kind == "mondrian" and step.representation == "interval")


def _touched(original: Dataset, step: Any) -> tuple[str, ...] | None:
    """Name the columns a step changed; None where it may have changed any."""
    if step.kind in _KEEPS_VALUES:
        return ()
    if step.kind == "generalize":
        return tuple(step.levels)
    if step.kind in SWAPPING | GROUPING | NOISE | MIXING | {"round", "shuffle"}:
        blocks = [name for block in getattr(step, "blocks", None) or () for name in block]
        try:
            return original.choose(tuple(step.columns) or tuple(blocks), "perturb")
        except DiscretionError:
            return tuple(step.columns) or None
    if step.kind == "reissue-weights":
        return (step.weight,) if step.weight else original.having("weight")
    if step.kind in MOVING and not step.columns:
        try:
            return tuple(step.fit(original, Context(0, step.kind))["columns"])
        except DiscretionError:
            return None
    if step.kind == CODING_ITEMS and not step.columns:
        return tuple(name for name in original.having("quasi", "sensitive") if original.type_of(name) == "set")
    if step.kind in _NAMES_COLUMNS | _SEARCHING:
        named = getattr(step, "columns", None) or getattr(step, "column", None)
        if not named and step.kind in _SEARCHING:
            return original.having("quasi")
        return ((named,) if isinstance(named, str) else tuple(named)) if named else None
    return None


SHUFFLE = "shuffle"
_RECORDS_A_TERM, _MOST_TERMS = 20, 100
"""A prediction of unknown predictors has at most so many terms: more would repeat the records it is made from."""
_MOST_PEOPLE, _BLOCK = 100, 4096
"""People of a class on whom it is seen how likely a dealt value is for anybody, and records looked at together."""
_NOTHING = 1e-6
"""Variance of the expected scores, within what agrees anyway, below which they tell nothing."""


@dataclass(frozen=True)
class Dealt:
    """What the model that dealt columns out tells: for known records what is expected, for published what stands there.

    Squared differences plus `offset` are −2 log of how much likelier a published record is for a known one than for
    anybody of its class, but for a constant.
    """

    columns: tuple[str, ...]
    known: Floats
    published: Floats
    offset: Floats


def with_shuffles(view: View, space: Space, history: History, ctx: Context) -> tuple[Space, dict[str, str]]:
    """Compare what the model expects of a person with the values that were dealt out, instead of the person's own.

    Given the predictors, a dealt value is independent of the own one: what tells is how likely the model deals it to a
    record with these predictors, and it tells also who does not know the own value, or only knows the predictors. The
    columns are left out of the space and the turned expectations put at its end. Gives also what was used.
    """
    from discretion.kernels.linkage import ABSOLUTE, SQUARED

    used: dict[str, str] = {}
    for step in history.steps:
        if step.kind != SHUFFLE or (dealt := dealt_out(view, history, step, ctx)) is None:
            continue
        terms = space.terms
        kinds, gap = terms.kinds.copy(), terms.gap.copy()
        scale = terms.scale.copy()
        for name in set(dealt.columns) & set(space.columns):
            j = space.columns.index(name)
            kinds[j], scale[:, j], gap[j] = SQUARED, 0.0, 0.0
        more = dealt.known.shape[1] and dealt.known.shape[1] + 1

        def widened(x: Floats, value: float, more: int = more) -> Floats:
            return np.hstack([x, np.full((len(x), more), value)])

        terms = terms._replace(
            kinds=np.concatenate([kinds, np.full(max(more - 1, 0), SQUARED), np.full(min(more, 1), ABSOLUTE)]),
            scale=widened(scale, 1.0),
            gap=np.append(gap, np.zeros(more)),
            offsets=np.append(terms.offsets, np.zeros(more, np.int64)),
            low=widened(terms.low, -np.inf),
            high=widened(terms.high, np.inf),
        )
        if more:
            none = np.zeros((len(dealt.known), 1))
            known = np.hstack([space.known, dealt.known, none])
            published = np.hstack([space.published, dealt.published, dealt.offset[:, None]])
            space = replace(space, known=known, published=published)
        space = replace(space, terms=terms)
        told = dealt.columns if more else tuple(name for name in dealt.columns if name in space.columns)
        used.update(dict.fromkeys(told, f"{SHUFFLE}: the model that dealt the values out"))
    return space, used


def dealt_out(view: View, history: History, step: Any, ctx: Context) -> Dealt | None:
    """Give what a step of shuffling tells who knows its model, no columns where that is nothing; None if unknown.

    A dealt score z is normal around the expected one, m. A record counts by its density for a person, divided by the
    mean density for the people of its class, of whom it must be one: records that agree in the columns that tell it
    anyway. How z follows m is seen in a draw of the intruder's own from the same model.
    """
    columns = tuple(
        name for name in history.columns_of(step) if name in view.released.columns and history.stays_after(step, name)
    )
    if not columns or step.by:
        return None
    place = f"model of shuffle {len(history.before(step))} of {id(view.original)}"
    model = view.released.cached(
        (place, view.released.columns), lambda: (view.original, _model(view, history, step, ctx))
    )[1]  # linkages by other columns share it
    if model is None:
        return None
    before, computable, all_of, expected, again = model
    try:
        shown = step.scores(view.released, columns)
    except DataError:
        return None
    at = [all_of.index(name) for name in columns]
    drawn = again[:, at]
    told = _expected_by(view, before, step, expected, computable, all_of)[:, at]
    classes = _agreeing(view, history)
    center = _centers(told, classes)
    m, z, n = told - center, np.where(np.isnan(drawn), told, drawn) - center, len(told)
    spread = m.T @ m / n
    if np.trace(spread) <= _NOTHING:
        return Dealt(columns, np.empty((len(view.rows), 0)), np.empty((n, 0)), np.zeros(n))
    slope = np.linalg.pinv(spread, hermitian=True) @ (m.T @ z / n)
    turn = _whitened(z.T @ z / n - slope.T @ spread @ slope)
    gone = np.isnan(shown)
    known, published = (center + m @ slope) @ turn, np.where(gone, center, shown) @ turn
    offset = 2.0 * _log_densities(known, published, classes, ctx)
    published[gone.all(axis=1)], offset[gone.all(axis=1)] = np.nan, 0.0
    return Dealt(columns, known[view.rows], published, offset - offset.min(initial=0.0))


def _whitened(covariance: Floats) -> Floats:
    """Give what turns errors of this covariance to unit ones; where there are none, to large ones."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray(vectors / np.sqrt(np.maximum(values, _NOTHING)))


def _log_densities(known: Floats, published: Floats, classes: Ints, ctx: Context) -> Floats:
    """Give how likely each published record is for anybody of its class: the mean over its people, or some of many."""
    found = np.zeros(len(published))
    rng = ctx.within("class").rng
    order = np.argsort(classes, kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(classes))[:-1]):
        some = rows if len(rows) <= _MOST_PEOPLE else rng.choice(rows, _MOST_PEOPLE, replace=False)
        for part in np.split(rows, range(_BLOCK, len(rows), _BLOCK)):
            gaps = np.zeros((len(part), len(some)))
            for mine, theirs in zip(known[some].T, published[part].T, strict=True):
                gaps += (theirs[:, None] - mine) ** 2
            least = gaps.min(axis=1, initial=np.inf)
            found[part] = np.log(np.exp(-0.5 * (gaps - least[:, None])).mean(axis=1)) - 0.5 * least
    return found


def _model(
    view: View, history: History, step: Any, ctx: Context
) -> tuple[Dataset, frozenset[str], tuple[str, ...], Floats, Floats] | None:
    """Fit the model of a step again: the records it saw, what can be computed of them, expected and dealt scores."""
    before, computable = _as_seen(view, history, step, ctx)
    try:
        columns = before.choose(step.columns, "perturb")
        expected, factor = step.model(before, ctx)
        scores = step.scores(before, columns)
    except (DataError, PlanError):
        return None
    return before, computable, columns, expected, _dealt_again(expected, factor, scores, ctx)


def _dealt_again(expected: Floats, factor: Floats, scores: Floats, ctx: Context) -> Floats:
    """Deal the scores out once more, as anybody can who knows the model."""
    drawn = expected + ctx.within("dealt").rng.standard_normal(expected.shape) @ factor.T
    new = np.full_like(scores, np.nan)
    for j, own in enumerate(scores.T):
        present = np.flatnonzero(~np.isnan(own))
        new[present[np.argsort(drawn[present, j], kind="stable")], j] = np.sort(own[present])
    return new


def _centers(x: Floats, classes: Ints) -> Floats:
    """Give each record the mean of its class, values that are missing left out."""
    there = ~np.isnan(x)
    counts = np.column_stack([np.bincount(classes, column) for column in there.T])
    sums = np.column_stack([np.bincount(classes, column) for column in np.where(there, x, 0.0).T])
    return np.asarray((sums / np.maximum(counts, 1))[classes])


def _agreeing(view: View, history: History) -> Ints:
    """Number the records by the columns in which a candidate must agree anyway: who has the values knows the class.

    These are columns without gaps that give equal values equal labels.
    """
    kept = []
    for name in view.columns:
        if name not in view.original.columns or view.released.count_missing(name) or not history.is_generalized(name):
            continue
        before, after = view.original.classes([name]).ids, view.released.classes([name]).ids
        if len(np.unique(np.column_stack([before, after]), axis=0)) == len(np.unique(before)):
            kept.append(name)
    if not kept:
        return np.zeros(len(view.released), np.int64)
    return view.released.classes(kept).ids.astype(np.int64)


def _as_seen(view: View, history: History, step: Part, ctx: Context) -> tuple[Dataset, frozenset[str]]:
    """Give the records as a step saw them, and the columns that who has the original values computes alike.

    Codings before the step are carried out again and levels of hierarchies applied; a column that was changed otherwise
    before is taken from the release, where nothing changed it later.
    """
    data, computable = view.original, set(view.original.columns)
    levels: dict[str, int] = {}
    for number, (other, touched) in enumerate(history.before(step)):
        names = data.columns if touched is None else touched
        changing: Any = other
        if other.kind in CODING and not getattr(other, "by", ()):
            try:
                inner = ctx.within(f"seen-{number}")
                data = changing.rewrite(data, changing.fit(data, inner), inner)
                continue
            except DataError:
                pass
        level = {name: view.released.levels.get(name) for name in names}
        if other.kind in GENERALIZING and all(isinstance(one, int) for one in level.values()):
            levels |= {name: one for name, one in level.items() if isinstance(one, int)}
        else:
            computable -= set(names)
    moved = {
        name: view.released.frame[name]
        for name in data.columns
        if name not in computable and name in view.released.columns and history.stays_after(step, name, itself=True)
    }
    wanted = {name: level for name, level in levels.items() if level and name in computable}
    try:
        coarser: Any = find("generalize")
        data = coarser(levels=wanted).apply(data, ctx.within("seen")) if wanted else data
    except (DataError, PlanError):
        computable -= set(wanted)
    return data.with_columns(moved) if moved else data, frozenset(computable)


def _expected_by(
    view: View, before: Dataset, step: Any, expected: Floats, computable: frozenset[str], columns: Sequence[str]
) -> Floats:
    """Give the scores expected by what the intruder knows: all the predictors, or others that go together with them.

    Predictors that are not known are predicted by the known columns, the shuffled ones among them.
    """
    predictors = step.predictors or tuple(
        name for name in before.having("quasi") if name not in columns and before.type_of(name) != "set"
    )
    known = [name for name in view.columns if name in computable and name in before.columns]
    if set(predictors) <= set(known):
        return expected
    room = min(len(before) // _RECORDS_A_TERM, _MOST_TERMS)
    parts = [np.ones((len(before), 1))]
    for name in sorted(known, key=lambda name: (name not in predictors, name not in columns)):
        try:
            part = step.terms(before, name)
        except (DataError, PlanError):
            continue
        if part.shape[1] <= room:
            parts.append(np.nan_to_num(part))
            room -= part.shape[1]
    design = np.hstack(parts)
    return np.asarray(design @ np.linalg.lstsq(design, expected, rcond=None)[0])
