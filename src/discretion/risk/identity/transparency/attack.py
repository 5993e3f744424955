"""The informed attack: the distance that fits the method, and only the candidates that the method allows."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import HierarchyLevels, canonical
from discretion.errors import DataError, DiscretionError
from discretion.kernels.arrays import Floats
from discretion.learning.columns import sd_of
from discretion.part import Part
from discretion.risk.identity.distances import Space, average_term, make_space, whitening, with_gaps
from discretion.risk.identity.intruder import Intruder, Mistakes, View
from discretion.risk.identity.transparency.steps import (
    CODING_ITEMS,
    GROUPING,
    MIXING,
    MOVING,
    NOISE,
    ONE_COLUMN,
    SHUFFLE,
    SWAPPING,
    History,
    Window,
    center_window,
    exchange_of,
    swap_window,
    with_shuffles,
    with_swaps,
)

if TYPE_CHECKING:
    import polars as pl

# Categories that were moved at random by known probabilities: how much an agreement tells (PRAM).


def with_moved_categories(view: View, space: Space, history: History, used: dict[str, str], ctx: Context) -> Space:
    """Weigh each column of moved categories by the likelihood of an agreement, for every known record.

    With p the probability that the record's category stays and t its share in the release, an agreement is p/t times
    as likely for the record's own row as for another, and a disagreement (1−p)/(1−t) times. Twice the logarithm of
    their ratio is what a disagreement costs: on the scale of squared differences divided by the variance of noise. A
    category that is kept rarely, or that most of the release has, tells little; one that never moves must agree.
    """
    from discretion.kernels.linkage import NOMINAL

    scale, gap = space.terms.scale, space.terms.gap.copy()
    for j, name in enumerate(space.columns):
        step: Any = history.only_step(name)
        if step is None or step.kind not in MOVING or getattr(step, "by", None) or space.terms.kinds[j] != NOMINAL:
            continue
        try:
            moves = step.fit(view.original if view.worst_case else view.released, ctx)["columns"][name]
        except DataError:
            continue
        costs = _costs(view, name, list(moves["categories"]), np.asarray(moves["matrix"], dtype=np.float64))
        scale = np.broadcast_to(scale, space.known.shape).copy()
        scale[:, j] = costs
        if gap[j] > 0:
            gap[j] *= costs[np.isfinite(costs)].mean() if np.isfinite(costs).any() else 1.0
        used[name] = f"{step.kind}: the probabilities of the categories"
    return space.changed(scale=scale, gap=gap)


def _costs(view: View, name: str, categories: Sequence[str], matrix: Floats) -> Floats:
    """Give what a disagreement costs for each known record; one whose category is not in the matrix costs nothing."""
    stays = np.append(np.diag(matrix), np.nan)
    published = np.bincount(_places(view.released, name, categories), minlength=len(categories) + 1).astype(np.float64)
    shares = published / max(published[:-1].sum(), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        costs = 2 * (np.log(stays / (1 - stays)) - np.log(shares / (1 - shares)))
    return np.asarray(
        np.maximum(np.nan_to_num(costs, nan=0.0, posinf=np.inf, neginf=0.0), 0.0)[_places(view.known, name, categories)]
    )


def _places(data: Dataset, name: str, categories: Sequence[str]) -> NDArray[np.int64]:
    """Give the place of each record's category; one past the last where it is missing or not among them."""
    coded = data.codes(name)
    places = {category: place for place, category in enumerate(categories)}
    of_code = np.array(
        [
            len(categories) if code == coded.missing else places.get(canonical(value), len(categories))
            for code, value in enumerate(coded.values)
        ],
        dtype=np.int64,
    )
    return np.asarray(of_code[coded.codes])


# Items of set-valued columns that were replaced by broader ones: the intruder replaces the known items alike.

Sets = tuple[list[frozenset[str] | None], NDArray[Any]]


def with_items_coded(view: View, step: Any, name: str) -> Dataset | None:
    """Give the known records with the items of a set-valued column as the step published them; None without hierarchy.

    Each item has one label for all records: the finest label above it (or itself) that every published set shows whose
    person has the item; an item that no label stands for was suppressed. Whoever has the hierarchy, which is published,
    sees the labels in the release.
    """
    source = step.item_hierarchy or view.original.schema[name].hierarchy
    if source is None or name not in view.original.columns:
        return None
    own = view.original.codes(name), view.known.codes(name)

    def make() -> tuple[Any, pl.Series | None]:
        before, after, mine = (_sets(data, name) for data in (view.original, view.released, view.known))
        items = sorted({item for sets, _ in (before, mine) for found in sets if found for item in found})
        try:
            labels = _labels(source.bind(items, name), items, before, after)
        except DiscretionError:
            return (step, own), None
        import polars as pl

        sets, codes = mine
        made = pl.Series(name, [_coded_items(found, labels) for found in sets], pl.List(pl.String)).gather(codes)
        return (step, own), made.list.join("|") if view.known.frame.schema[name] == pl.String else made

    # kept with the release, so that several linkages share it; what it was made of is kept too: the ids stay its own
    key = f"items coded by {id(step)} of {', '.join(str(id(codes)) for codes in own)}"
    made = view.released.cached((key, name), make)[1]
    return None if made is None else view.known.with_columns({name: made})


def _coded_items(found: frozenset[str] | None, labels: dict[str, str | None]) -> list[str] | None:
    """Give the labels of a set; nothing for one that lost all its items, which is published as missing."""
    if found is None:
        return None
    new = sorted({label for item in found if (label := labels[item]) is not None})
    return new if new or not found else None


def _sets(data: Dataset, name: str) -> Sets:
    """Give the items of each different set, None for a missing one, and which of them each row has."""
    codes = data.codes(name)
    return [_items(value) for value in codes.values], codes.codes


def _items(value: Any) -> frozenset[str] | None:
    if value is None:
        return None
    parts = value if isinstance(value, list) else str(value).split("|")
    return frozenset(text for part in parts if part is not None and (text := canonical(part).strip()))


def _labels(levels: HierarchyLevels, items: Sequence[str], before: Sets, after: Sets) -> dict[str, str | None]:
    """Read off the label of each item, from fine to coarse."""
    shown = {label for found in after[0] if found for label in found}
    above = {item: dict.fromkeys(level[levels.leaf_index[item]] for level in levels.table) for item in items}
    possible = {item: [label for label in labels if label in shown] for item, labels in above.items()}
    for one, other in np.unique(np.column_stack([before[1], after[1]]), axis=0):
        mine, theirs = before[0][one], after[0][other]
        if mine and theirs is not None:
            for item in mine:
                possible[item] = [label for label in possible[item] if label in theirs]
    return {item: labels[0] if labels else None for item, labels in possible.items()}


_LAST_DIGITS = 1e-9
"""Share of a value below which a difference is one of rounding."""


@dataclass
class Informed:
    """A space to link in, and what the intruder used to make it, in words."""

    space: Space = field(repr=False)
    used: dict[str, str]
    """for each column what its method told"""
    exchange: tuple[NDArray[np.int64], int, float] | None = field(default=None, repr=False)
    """columns whose partners can be followed, the one whose windows are walked through, and their mean size"""


def inform(
    view: View,
    intruder: Intruder,
    steps: Sequence[Part],
    ctx: Context,
    *,
    named: bool = True,
    unknown: Collection[str] = (),
    made: bool = False,
) -> Informed | None:
    """Use what the steps tell; None where they tell nothing.

    Every window holds the true record when the intruder's values are exact, so that wrong candidates go and the
    right one stays; among those left, the one counts whose move is the likeliest. Of the columns `unknown` it is not
    known how they were changed; `made`: these are the steps that made the release, not guessed ones.
    """
    whole = history = History(view.original, steps, unknown)
    exact = intruder.data is None and intruder.error == Mistakes()
    shuffled = exact and any(step.kind == SHUFFLE for step in steps)
    true = all(history.is_generalized(name) and not view.released.count_missing(name) for name in view.columns)
    if true and not shuffled:
        return None  # true values without gaps: who agrees is found without this knowledge
    seen = view
    view, history, coded = _coded(view, history, ctx)
    used: dict[str, str] = {}
    known = _done_again(view, history, ctx, used, made) if exact else view
    space = make_space(known, None, "average", True, ctx, named=named)
    space = _with_noise(view, space, history, intruder, used)
    space = with_moved_categories(view, space, history, used, ctx)
    if exact:
        space = _with_windows(view, space, history, used, ctx)
    if shuffled:
        space, dealt = with_shuffles(seen, space, whole, ctx)
        if true and not dealt:
            return None
        used |= dealt
    used |= {name: told for name, told in coded.items() if used.get(name, "not changed") == "not changed"}
    space, gaps = with_gaps(seen, intruder, space)
    used |= {name: "gaps stay gaps" for name in gaps if name not in used}
    return Informed(space, used, exchange_of(space, exact and view.worst_case)) if used else None


def _coded(view: View, history: History, ctx: Context) -> tuple[View, History, dict[str, str]]:
    """Code the known records by the rules of the first steps of each column: recoding, top and bottom coding, groups.

    The rules are found again from the original; a codebook tells them anyway. What is left of the history is what came
    after. A bound that was computed again may differ in its last digits: values next to a published one are that one.
    """
    full = view.original if view.original.steps else view.original.origin
    part, known = view.original, view.known
    done: list[Part] = []
    told: dict[str, str] = {}
    failed: set[str] = set()
    for number, step in enumerate(history.codings()):
        coding: Any = step
        if step.kind == CODING_ITEMS:
            for name in (name for name in history.columns_of(step) if name in view.columns):
                if (coded := with_items_coded(replace(view, known=known), coding, name)) is not None:
                    known = coded
                    done.append(step)
                    told[name] = f"{step.kind}: the items coded alike"
            continue
        inner, name = ctx.within(f"coded-{number}"), coding.column
        if name not in view.columns or name in failed:
            continue
        try:
            rule = coding.fit(full if history.keeps_records_before(step) else part, inner)
            different = {id(data): data for data in (full, part, known)}
            made = {key: coding.rewrite(data, rule, inner) for key, data in different.items()}
            full, part, known = made[id(full)], made[id(part)], made[id(known)]
        except DataError:
            failed.add(name)
            continue
        done.append(step)
        told[name] = f"{step.kind}: coded alike"
    numbers = {n: _snapped(known.number(n), view.released.number(n)) for n in told if _both_numeric(known, view, n)}
    known = known.with_columns(numbers) if numbers else known
    return replace(view, original=part, known=known), history.without(done), told


def _both_numeric(known: Dataset, view: View, name: str) -> bool:
    return known.is_numeric(name) and view.released.is_numeric(name)


def _snapped(x: Floats, published: Floats) -> Floats:
    """Give values that differ from a published one by rounding errors alone that value."""
    values = np.unique(published[~np.isnan(published)])
    if not len(values):
        return x
    after = np.clip(np.searchsorted(values, x), 0, len(values) - 1)
    before = np.maximum(after - 1, 0)
    near = np.where(np.abs(values[before] - x) < np.abs(values[after] - x), values[before], values[after])
    return np.where(np.abs(near - x) <= _LAST_DIGITS * np.abs(near), near, x)


def _done_again(view: View, history: History, ctx: Context, used: dict[str, str], made: bool) -> View:
    """Carry out on the known records what draws nothing: they are rounded alike, and grouped alike if all are known.

    Groups formed again on all the records are those of the release: where a step `made` it, they are read off.
    """
    known = view.known
    for number, step in enumerate(history.steps):
        columns = _repeatable(view, history, step)
        if not columns:
            continue
        if made and step.kind in GROUPING and not any(view.released.count_missing(name) for name in columns):
            known = known.with_columns({name: view.released.frame[name] for name in columns})
            used.update(dict.fromkeys(columns, f"{step.kind}: the groups were formed again"))
            continue
        again: Any = step.model_copy(update={"columns": columns}) if step.kind in ONE_COLUMN | {"round"} else step
        try:
            known = again.apply(known, ctx.within(f"again-{number}"))
        except DataError:
            continue
        told = "rounded alike" if step.kind == "round" else "the groups were formed again"
        used.update(dict.fromkeys(columns, f"{step.kind}: {told}"))
    return replace(view, known=known)


def _repeatable(view: View, history: History, step: Any) -> tuple[str, ...]:
    """Name the columns for which the intruder can carry out a step alike; none where records or columns lack."""
    columns = history.columns_of(step)
    if step.kind in ONE_COLUMN | {"round"}:
        columns = tuple(name for name in columns if name in view.columns)
    alone = bool(columns) and all(history.only_step(name) is step for name in columns)
    if not alone or not set(columns) <= set(view.columns):
        return ()
    if step.kind == "round":
        return columns if step.how != "random" else ()
    if step.kind not in GROUPING or getattr(step, "replace", "all") != "all" or not view.worst_case:
        return ()
    if not history.keeps_records_after(step) or set(getattr(step, "by", ())) - set(view.columns):
        return ()
    return columns


def _with_noise(view: View, space: Space, history: History, intruder: Intruder, used: dict[str, str]) -> Space:
    """Measure differences by the known distribution of the noise instead of the spread of the column.

    A candidate y counts by f(y|x)/m(y), how much likelier it is for the record x than for anybody: with normal noise of
    variance s·σ² the distance of x from its best prediction μ + (y − μ)/(1 + s), in units of what stays unknown.
    Laplace noise and factors count by f(y|x) alone, their logarithms where they are log-normal.
    """
    from discretion.kernels.linkage import ABSOLUTE, NOMINAL, SQUARED

    space = _with_mixing_noise(view, space, history, used)
    kinds, scale, gap = space.terms.kinds.copy(), space.terms.scale.copy(), space.terms.gap.copy()
    space = replace(space, known=space.known.copy(), published=space.published.copy())
    for j, name in enumerate(space.columns):
        step: Any = history.only_step(name)
        if step is None or step.kind not in NOISE or kinds[j] == NOMINAL or name in used:
            continue
        x, y = space.known[:, j], space.published[:, j]
        error = intruder.error.sd_share * sd_of(x if view.worst_case else y)
        kinds[j] = SQUARED
        if step.kind == "multiplicative-noise" and step.distribution == "lognormal" and not error:
            variance = math.log1p(step.sd**2)
            x, y = _on_log_scale(x, y, -variance / 2)
            space.known[:, j], space.published[:, j], scale[:, j] = x, y, 1.0 / math.sqrt(variance)
        elif step.kind == "multiplicative-noise":
            scale = np.broadcast_to(scale, space.known.shape).copy()
            spread = np.hypot(step.sd * np.abs(x), error)
            scale[:, j] = 1.0 / np.where(spread > 0, spread, sd_of(y))
        elif getattr(step, "distribution", "normal") == "laplace" and not error:
            kinds[j], scale[:, j] = ABSOLUTE, 2 * math.sqrt(2) / _noise_sd(step, x, y, view.worst_case)
        elif step.kind == "additive-noise" and not error and not (step.keep_zeros or step.keep_sign):
            share = step.variance_share if step.sd_share is None else step.sd_share**2
            mean = float(np.nanmean(x if view.worst_case else y))
            spread_of_noise = _noise_sd(step, x, y, view.worst_case)
            y = mean + (y - mean) / (1 + share)
            space.published[:, j] = y
            scale[:, j] = math.sqrt(1 + share) / spread_of_noise
        else:
            scale[:, j] = 1.0 / math.hypot(_noise_sd(step, x, y, view.worst_case), error)
        used[name] = f"{step.kind}: the distribution of the noise"
        if np.isnan(y).any():
            gap[j] = average_term(x, y, float(np.nanmedian(scale[:, j])), squared=bool(kinds[j] == SQUARED))
    return space.changed(kinds=kinds, scale=scale, gap=gap)


def _on_log_scale(x: Floats, y: Floats, shift: float) -> tuple[Floats, Floats]:
    """Give both sides as logarithms: signs stay far apart and zero lies between them; `shift` is where x moves to."""
    both = np.abs(np.concatenate([x, y]))
    present = both[both > 0]
    lift = 10.0 + abs(shift) - (np.log(present.min()) if len(present) else 0.0)
    with np.errstate(divide="ignore"):
        first, second = (
            np.where(v == 0, 0.0, np.sign(v) * (np.log(np.abs(v)) + lift + s)) for v, s in ((x, shift), (y, 0.0))
        )
    return first, second


def _noise_sd(step: Any, known: Floats, published: Floats, whole: bool) -> float:
    """Give the standard deviation of additive noise, from all the original values or else from the noisy ones."""
    x = known if whole else published
    present = x[~np.isnan(x)]
    sd_share = getattr(step, "sd_share", None)
    share = sd_share**2 if sd_share is not None else step.variance_share
    ddof = 1 if sd_share is not None else 0
    variance = float(present.var(ddof=ddof)) if len(present) > ddof else 0.0
    return math.sqrt(variance * share / (1.0 if whole else 1.0 + share)) or 1.0


def _with_mixing_noise(view: View, space: Space, history: History, used: dict[str, str]) -> Space:
    """Turn the columns of a step whose noise is correlated so that it has the same spread in all directions.

    A record x is published as y = μ + a·(x − μ) + noise of covariance c·Σ: a = 1 for correlated noise, smaller where
    the variance is kept. A rotation keeps a = 1 − s/2 of a record and mixes in 1 − a² of others, s its
    `variance_share`. The best prediction of x is μ + a·(y − μ)/(a² + c); Σ·c/(a² + c) stays unknown.
    """
    from discretion.kernels.linkage import NOMINAL, SQUARED

    for step in history.steps:
        if step.kind not in MIXING:
            continue
        names = [name for name in space.columns if history.only_step(name) is step]
        at = [space.columns.index(name) for name in names]
        known, published = space.known[:, at], space.published[:, at]
        if not at or (space.terms.kinds[at] == NOMINAL).any() or np.isnan(known).any() or np.isnan(published).any():
            continue
        kept, share = _mixture(step)
        source = known if view.worst_case else published
        base = np.atleast_2d(np.cov(source.T, ddof=0)) / (1.0 if view.worst_case else kept**2 + share)
        turn = whitening(base * share / (kept**2 + share))
        square = np.zeros((len(at), len(at)))
        square[:, : turn.shape[1]] = turn
        kinds, scale = space.terms.kinds.copy(), space.terms.scale.copy()
        kinds[at], scale[:, at] = SQUARED, 1.0
        both = [space.known.copy(), space.published.copy()]
        mean = source.mean(axis=0)
        back = kept / (kept**2 + share)
        both[0][:, at], both[1][:, at] = (known - mean) @ square, back * (published - mean) @ square
        space = replace(space, known=both[0], published=both[1]).changed(kinds=kinds, scale=scale)
        used.update(dict.fromkeys(names, f"{step.kind}: the covariance of the noise"))
    return space


def _mixture(step: Any) -> tuple[float, float]:
    """Give the factor by which a step keeps values, and the covariance of its noise as a share of theirs."""
    share = float(step.variance_share)
    if step.kind == "correlated-noise":
        return 1.0, share
    kept = math.sqrt(1 - share) if step.kind == "variance-preserving-noise" else 1 - share / 2
    return kept, 1 - kept**2


def _with_windows(view: View, space: Space, history: History, used: dict[str, str], ctx: Context) -> Space:
    """Keep the candidates that each column allows; a column that no step changed allows equal values only."""
    from discretion.kernels.linkage import NOMINAL

    low, high = np.full(space.known.shape, -np.inf), np.full(space.known.shape, np.inf)
    scale = space.terms.scale.copy()
    swapped: dict[int, Any] = {}
    windows: dict[int, Window] = {}
    for j, name in enumerate(space.columns):
        if space.terms.kinds[j] == NOMINAL:
            if history.is_generalized(name):
                scale[:, j] = np.inf
                used[name] = "not changed" if history.is_untouched(name) else "generalized: the levels"
        elif (window := _window(view, space, history, name, used, ctx)) is not None:
            low[:, j], high[:, j] = window
            step: Any = history.only_step(name)
            if step is not None and step.kind in SWAPPING:
                swapped[j], windows[j] = step, window
    space = space.changed(low=low, high=high, scale=scale)
    return with_swaps(space, swapped, windows, view.worst_case) if swapped else space


def _window(view: View, space: Space, history: History, name: str, used: dict[str, str], ctx: Context) -> Window | None:
    j = space.columns.index(name)
    x, y = space.known[:, j], space.published[:, j]
    step: Any = history.only_step(name)
    if history.is_untouched(name):
        used[name] = "not changed"
        return x, x
    if history.is_generalized(name):
        found = _label_window(view, x, y, name)
        if found is not None:
            used[name] = "generalized: the levels"
        return found
    if step is None:
        return None
    if step.kind in NOISE:
        return _noise_window(view, x, name, step, ctx)
    if step.kind == "round":
        if name in used:
            return x, x
        used[name] = "round: the two multiples around the value"
        slack = 1e-9 * np.maximum(np.abs(x), step.base)
        return np.floor(x / step.base + 1e-9) * step.base - slack, np.ceil(x / step.base - 1e-9) * step.base + slack
    if name in used:
        return None
    if step.kind in SWAPPING and history.keeps_records_after(step):
        used[name] = f"{step.kind}: the window, and how likely each move is"
        return _swap_window_by(view, x, y, step) if step.by else swap_window(x, y, step)
    is_sorted = step.kind in ONE_COLUMN or (step.kind in GROUPING and history.columns_of(step) == (name,))
    if is_sorted and not step.by and getattr(step, "replace", "all") == "all":
        used[name] = f"{step.kind}: the centers next to the value"
        return center_window(x, y)
    return None


def _label_window(view: View, x: Floats, y: Floats, name: str) -> Window | None:
    """Give what a generalized column that is still ordered must show: its value at level 0, else the label above it.

    Whoever knows the hierarchy and the level knows the label of each value; here it is read off the rows that belong
    together. None where records of one value have several labels.
    """
    there = view.rows >= 0
    mine, shown = x[there], y[view.rows[there]]
    both = ~np.isnan(mine) & ~np.isnan(shown)
    mine, shown = mine[both], shown[both]
    if (mine == shown).all():
        return x, x
    if np.ndim(view.released.levels.get(name, 0)):
        return None
    values, first, place = np.unique(mine, return_index=True, return_inverse=True)
    labels = shown[first]
    if (labels[place] != shown).any():
        return None
    at = np.minimum(np.searchsorted(values, x), len(values) - 1)
    is_told = values[at] == x
    return np.where(is_told, labels[at], -np.inf), np.where(is_told, labels[at], np.inf)


def _noise_window(view: View, x: Floats, name: str, step: Any, ctx: Context) -> Window | None:
    """Give what noise must leave as it is: signs and zeros of factors, or where asked for; all but outliers."""
    low, high = np.full(len(x), -np.inf), np.full(len(x), np.inf)
    if step.kind == "multiplicative-noise" or step.keep_sign:
        low, high = np.where(x > 0, 0.0, low), np.where(x < 0, 0.0, high)
    if step.kind == "multiplicative-noise" or step.keep_zeros:
        low, high = np.where(x == 0, 0.0, low), np.where(x == 0, 0.0, high)
    if step.kind == "outlier-noise" and not step.joint and view.worst_case and not step.by:
        from scipy.stats import chi2

        try:
            found = step.fit(view.original, ctx)
        except DataError:
            return None
        at = list(found["columns"]).index(name)
        reach = math.sqrt(float(chi2.ppf(step.quantile, 1))) * found["scale"][at]
        stays = np.abs(x - found["center"][at]) <= reach
        low, high = np.where(stays, x, low), np.where(stays, x, high)
    return (low, high) if np.isfinite(low).any() or np.isfinite(high).any() else None


def _swap_window_by(view: View, x: Floats, y: Floats, step: Any) -> Window | None:
    """Count ranks within the groups the step worked in, where the intruder knows them."""
    if not view.worst_case or step.by == ("household",) or set(step.by) - set(view.columns):
        return None
    low, high = np.empty(len(x)), np.empty(len(x))
    groups = view.original.classes(step.by).ids
    for rows in np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1]):
        low[rows], high[rows] = swap_window(x[rows], y[rows], step)
    return low, high
