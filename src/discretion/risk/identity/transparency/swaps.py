"""Columns that were swapped by rank: the likelihood of each move, and the partners that an exchange implies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.risk.identity.distances import Space
from discretion.risk.identity.transparency.windows import Window, count_lost

if TYPE_CHECKING:
    from discretion.kernels.linkage import Nearest
    from discretion.kernels.swap_law import Laws

Floats = NDArray[np.float64]


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
    a value that tells nothing.
    """
    from discretion.kernels.linkage_mixed import SQUARED, SWAPPED

    terms = space.terms._replace(
        **{name: getattr(space.terms, name).copy() for name in ("kinds", "scale", "gap", "low", "high")}
    )
    space = replace(space, known=space.known.copy(), published=space.published.copy(), terms=terms)
    laws: dict[int, _Law] = {}
    for j, step in steps.items():
        terms.kinds[j], terms.scale[:, j], terms.gap[j] = SQUARED, 0.0, 0.0
        x, y = space.known[:, j], space.published[:, j]
        ranked = np.sort(x[~np.isnan(x)] if whole else y[~np.isnan(y)])
        if step.by or not len(ranked):
            continue
        values = np.unique(ranked)
        terms.low[:, j], terms.high[:, j] = _numbers(windows[j][0], values), _numbers(windows[j][1], values, "right")
        terms.kinds[j], terms.scale[:, j] = SWAPPED, 1.0 / len(values)
        terms.gap[j] = 2.0 * np.log(len(ranked)) if count_lost(x, y) else np.inf
        space.known[:, j], space.published[:, j] = _numbers(x, values), _numbers(y, values)
        laws[j] = _law_of(ranked, step)
    return space.changed(laws=_together(laws, len(space.columns)))


def _together(laws: dict[int, _Law], columns: int) -> Laws:
    """Put the laws of the columns one after another."""
    from discretion.kernels.swap_law import Laws

    places = np.zeros((columns, 5), dtype=np.int64)
    steps, values = 0, 0
    for j, law in laws.items():
        places[j] = steps, values, law.reach, law.low, law.stop
        steps, values = steps + len(law.parts[0]), values + len(law.ranks)
    none = np.empty(0)
    first, second, most = (np.concatenate([none, *(law.parts[part] for law in laws.values())]) for part in range(3))
    ranks = np.concatenate([np.empty((0, 2), np.int64), *(law.ranks for law in laws.values())])
    return Laws(first, second, most, ranks, places)


def _law_of(ranked: Floats, step: Any) -> _Law:
    from discretion.kernels.swap_law import swap_law

    n = len(ranked)
    _, counts = np.unique(ranked, return_counts=True)
    last = np.cumsum(counts) - 1
    low, high = (int(np.floor(share * n + 1e-9)) for share in (step.bottom_share, step.top_share))
    reach = max(1, int(np.floor(step.percent * n / 100 + 1e-9)))
    ranks = np.column_stack([last - counts + 1, last])
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
    from discretion.kernels.exchange import count_pairs
    from discretion.kernels.linkage_mixed import SWAPPED

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
    from discretion.kernels.exchange import nearest_exchanged, who_has_what

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
