"""The informed attack: the distance that fits the method, and only the candidates that the method allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.errors import DataError
from discretion.part import Part
from discretion.risk.identity.distances import Space, average_term, make_space, sd_of, whitening
from discretion.risk.identity.intruder import Intruder, View
from discretion.risk.identity.mistakes import Mistakes
from discretion.risk.identity.transparency.moves import with_moved_categories
from discretion.risk.identity.transparency.steps import GROUPING, NOISE, ONE_COLUMN, SWAPPING, History
from discretion.risk.identity.transparency.swaps import exchange_of, with_swaps
from discretion.risk.identity.transparency.windows import Window, center_window, swap_window

if TYPE_CHECKING:
    from discretion.kernels.exchange import Exchange

Floats = NDArray[np.float64]


@dataclass
class Informed:
    """A space to link in, and what the intruder used to make it, in words."""

    space: Space = field(repr=False)
    used: dict[str, str]
    """for each column what its method told"""
    exchange: tuple[Exchange, int] | None = field(default=None, repr=False)
    """who has and who shows the swapped values, where the intruder can follow them"""


def inform(
    view: View, intruder: Intruder, steps: Sequence[Part], ctx: Context, *, named: bool = True
) -> Informed | None:
    """Use what the steps tell; None where they tell nothing.

    Every window holds the true record when the intruder's values are exact, so that wrong candidates go and the
    right one stays; among those left, the one counts whose move is the likeliest.
    """
    history = History(view, steps)
    exact = intruder.data is None and intruder.error == Mistakes()
    used: dict[str, str] = {}
    known = _grouped_again(view, history, ctx, used) if exact and view.worst_case else view
    space = make_space(known, None, "average", True, ctx, named=named)
    space = _with_noise(view, space, history, intruder, used)
    space = with_moved_categories(view, space, history, used, ctx)
    if exact:
        space = _with_windows(view, space, history, used)
    return Informed(space, used, exchange_of(space, exact and view.worst_case)) if used else None


def _grouped_again(view: View, history: History, ctx: Context, used: dict[str, str]) -> View:
    """Carry out microaggregation again on the known records: the groups, and their centers, are the same."""
    known = view.known
    for number, step in enumerate(history.steps):
        if step.kind not in GROUPING or getattr(step, "replace", "all") != "all":
            continue
        columns = history.columns_of(step)
        if step.kind in ONE_COLUMN:
            columns = tuple(name for name in columns if name in view.columns)
        alone = all(history.only_step(name) is step for name in columns)
        if not columns or not alone or not set(columns) <= set(view.columns) or not history.keeps_records_after(step):
            continue
        if set(getattr(step, "by", ())) - set(view.columns):
            continue
        again: Any = step.model_copy(update={"columns": columns}) if step.kind in ONE_COLUMN else step
        try:
            known = again.apply(known, ctx.within(f"again-{number}"))
        except DataError:
            continue
        used.update(dict.fromkeys(columns, f"{step.kind}: the groups were formed again"))
    return replace(view, known=known)


def _with_noise(view: View, space: Space, history: History, intruder: Intruder, used: dict[str, str]) -> Space:
    """Measure differences by the known spread of the noise instead of that of the column."""
    from discretion.kernels.linkage_mixed import ABSOLUTE, NOMINAL, SQUARED

    space = _with_correlated_noise(view, space, history, used)
    kinds, scale, gap = space.terms.kinds.copy(), space.terms.scale.copy(), space.terms.gap.copy()
    for j, name in enumerate(space.columns):
        step: Any = history.only_step(name)
        if step is None or step.kind not in NOISE or kinds[j] == NOMINAL or name in used:
            continue
        x, y = space.known[:, j], space.published[:, j]
        error = intruder.error.sd_share * sd_of(x if view.worst_case else y)
        kinds[j] = SQUARED
        if step.kind == "multiplicative-noise":
            scale = np.broadcast_to(scale, space.known.shape).copy()
            spread = np.hypot(step.sd * np.abs(x), error)
            scale[:, j] = 1.0 / np.where(spread > 0, spread, sd_of(y))
        elif getattr(step, "distribution", "normal") == "laplace" and not error:
            kinds[j], scale[:, j] = ABSOLUTE, 2 * math.sqrt(2) / _noise_sd(step, x, y, view.worst_case)
        else:
            scale[:, j] = 1.0 / math.hypot(_noise_sd(step, x, y, view.worst_case), error)
        used[name] = f"{step.kind}: the distribution of the noise"
        if np.isnan(y).any():
            gap[j] = average_term(x, y, float(np.nanmedian(scale[:, j])), squared=bool(kinds[j] == SQUARED))
    return space.changed(kinds=kinds, scale=scale, gap=gap)


def _noise_sd(step: Any, known: Floats, published: Floats, whole: bool) -> float:
    """Give the standard deviation of additive noise, from all the original values or else from the noisy ones."""
    x = known if whole else published
    present = x[~np.isnan(x)]
    sd_share = getattr(step, "sd_share", None)
    share = sd_share**2 if sd_share is not None else step.variance_share
    ddof = 1 if sd_share is not None else 0
    variance = float(present.var(ddof=ddof)) if len(present) > ddof else 0.0
    return math.sqrt(variance * share / (1.0 if whole else 1.0 + share)) or 1.0


def _with_correlated_noise(view: View, space: Space, history: History, used: dict[str, str]) -> Space:
    """Turn the columns of a step with correlated noise so that the noise has the same spread in all directions."""
    from discretion.kernels.linkage_mixed import NOMINAL, SQUARED

    for step in history.steps:
        if step.kind != "correlated-noise":
            continue
        names = [name for name in space.columns if history.only_step(name) is step]
        at = [space.columns.index(name) for name in names]
        known, published = space.known[:, at], space.published[:, at]
        if not at or (space.terms.kinds[at] == NOMINAL).any() or np.isnan(known).any() or np.isnan(published).any():
            continue
        share = _variance_share(step)
        base = np.atleast_2d(np.cov((known if view.worst_case else published).T, ddof=0))
        turn = whitening(base * share / (1.0 if view.worst_case else 1.0 + share))
        square = np.zeros((len(at), len(at)))
        square[:, : turn.shape[1]] = turn
        kinds, scale = space.terms.kinds.copy(), space.terms.scale.copy()
        kinds[at], scale[:, at] = SQUARED, 1.0
        both = [space.known.copy(), space.published.copy()]
        both[0][:, at], both[1][:, at] = known @ square, published @ square
        space = replace(space, known=both[0], published=both[1]).changed(kinds=kinds, scale=scale)
        used.update(dict.fromkeys(names, "correlated-noise: the covariance of the noise"))
    return space


def _variance_share(step: Any) -> float:
    return float(step.variance_share)


def _with_windows(view: View, space: Space, history: History, used: dict[str, str]) -> Space:
    """Keep the candidates that each column allows; a column that no step changed allows equal values only."""
    from discretion.kernels.linkage_mixed import NOMINAL

    low, high = np.full(space.known.shape, -np.inf), np.full(space.known.shape, np.inf)
    scale = space.terms.scale.copy()
    swapped: dict[int, Any] = {}
    windows: dict[int, Window] = {}
    for j, name in enumerate(space.columns):
        if space.terms.kinds[j] == NOMINAL:
            if history.is_generalized(name):
                scale[:, j] = np.inf
                used[name] = "not changed" if history.is_untouched(name) else "generalized: the levels"
        elif (window := _window(view, space, history, name, used)) is not None:
            low[:, j], high[:, j] = window
            step: Any = history.only_step(name)
            if step is not None and step.kind in SWAPPING:
                swapped[j], windows[j] = step, window
    space = space.changed(low=low, high=high, scale=scale)
    return with_swaps(space, swapped, windows, view.worst_case) if swapped else space


def _window(view: View, space: Space, history: History, name: str, used: dict[str, str]) -> Window | None:
    j = space.columns.index(name)
    x, y = space.known[:, j], space.published[:, j]
    step: Any = history.only_step(name)
    if history.is_untouched(name):
        used[name] = "not changed"
        return x, x
    if step is None or name in used:
        return _sign_window(x) if step is not None and step.kind == "multiplicative-noise" else None
    if step.kind in SWAPPING and history.keeps_records_after(step):
        used[name] = f"{step.kind}: the window, and how likely each move is"
        return _swap_window_by(view, x, y, step) if step.by else swap_window(x, y, step)
    is_sorted = step.kind in ONE_COLUMN or (step.kind in GROUPING and history.columns_of(step) == (name,))
    if is_sorted and not step.by and getattr(step, "replace", "all") == "all":
        used[name] = f"{step.kind}: the centers next to the value"
        return center_window(x, y)
    return None


def _sign_window(x: Floats) -> Window:
    """Give the window of factors that are never negative: signs stay, and zeros."""
    return np.where(x > 0, 0.0, np.where(x == 0, 0.0, -np.inf)), np.where(x < 0, 0.0, np.where(x == 0, 0.0, np.inf))


def _swap_window_by(view: View, x: Floats, y: Floats, step: Any) -> Window | None:
    """Count ranks within the groups the step worked in, where the intruder knows them."""
    if not view.worst_case or step.by == ("household",) or set(step.by) - set(view.columns):
        return None
    low, high = np.empty(len(x)), np.empty(len(x))
    groups = view.original.classes(step.by).ids
    for rows in np.split(np.argsort(groups, kind="stable"), np.cumsum(np.bincount(groups))[:-1]):
        low[rows], high[rows] = swap_window(x[rows], y[rows], step)
    return low, high
