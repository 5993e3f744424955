"""Categories that were moved at random by known probabilities: how much an agreement tells (PRAM)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError
from discretion.risk.identity.distances import Space
from discretion.risk.identity.intruder import View
from discretion.risk.identity.transparency.steps import MOVING, History

Floats = NDArray[np.float64]


def with_moved_categories(view: View, space: Space, history: History, used: dict[str, str], ctx: Context) -> Space:
    """Weigh each column of moved categories by the likelihood of an agreement, for every known record.

    With p the probability that the record's category stays and t its share in the release, an agreement is p/t times
    as likely for the record's own row as for another, and a disagreement (1−p)/(1−t) times. Twice the logarithm of
    their ratio is what a disagreement costs: on the scale of squared differences divided by the variance of noise. A
    category that is kept rarely, or that most of the release has, tells little; one that never moves must agree.
    """
    from discretion.kernels.linkage_mixed import NOMINAL

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
