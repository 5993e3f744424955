"""Rows from noisy tables of single columns and of pairs: denoise, make consistent, sample, rake, draw.

Reads noisy tables only, so that whatever is done here tells nothing that the tables do not tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from discretion.kernels.arrays import Floats, Ints

CANDIDATES = 100_000
"""Rows that are sampled from the tree and weighted; a table with at most as many cells is taken whole."""
_MOST_CANDIDATES = 2_000_000
_PASSES = 40
_DAMPING = 0.5
_STEP = 20.0
"""Largest factor by which one table may change a weight in one pass."""

Pair = tuple[int, int]


@dataclass(frozen=True)
class PairModel:
    """Consistent estimates: how many rows, the margin of each column, the table of each pair."""

    size: float
    margins: tuple[Floats, ...]
    tables: Mapping[Pair, Floats]


def estimate(margins: Sequence[Floats], tables: Mapping[Pair, Floats], margin_sd: float, pair_sd: float) -> PairModel:
    """Put noisy tables together: equal noise on each cell, `margin_sd` and `pair_sd` its standard deviations.

    Every table tells the number of rows and, summed, the margins of its columns; these are averaged with the inverse
    of their variances and moved to the nearest ones that are not negative. A pair is independence of its margins plus
    a residual, of which the singular values are shrunk as noise of this size demands.
    """
    totals = [(m.sum(), margin_sd**2 * len(m)) for m in margins]
    totals += [(t.sum(), pair_sd**2 * t.size) for t in tables.values()]
    size = max(float(_average(totals)), 1.0)
    one = []
    for column, own in enumerate(margins):
        seen = [(own, margin_sd**2)]
        for pair, table in tables.items():
            if column in pair:
                axis = 1 - pair.index(column)
                seen.append((table.sum(axis), pair_sd**2 * table.shape[axis]))
        found = np.maximum(to_simplex(_average(seen), size), 1e-8 * size)
        one.append(found * (size / found.sum()))
    two = {}
    for (i, j), table in tables.items():
        independent = np.outer(one[i], one[j]) / size
        residual = table - independent
        residual = residual - residual.mean(1, keepdims=True) - residual.mean(0, keepdims=True) + residual.mean()
        nearest = to_simplex(independent + shrink(residual, pair_sd), size)
        two[i, j] = fit_margins(nearest + 1e-9 * independent, one[i], one[j])
    return PairModel(size, tuple(one), two)


def _average(seen: Sequence[tuple[Floats, float]]) -> Floats:
    """Average estimates with weights inverse to their variances."""
    weights = 1 / np.array([variance for _, variance in seen])
    return np.asarray(np.tensordot(weights / weights.sum(), np.array([value for value, _ in seen], np.float64), 1))


def to_simplex(values: Floats, total: float) -> Floats:
    """Give the nearest numbers (least squares) that are not negative and add up to a total above 0."""
    ordered = np.sort(values.ravel())[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, ordered.size + 1)
    kept = np.flatnonzero(ordered > excess).max(initial=0)
    return np.asarray(np.maximum(values - excess[kept], 0.0))


def shrink(residual: Floats, sd: float) -> Floats:
    """Denoise a matrix of which every cell has noise of this standard deviation, by its singular values.

    A singular value y (in units of sd·√b, b the longer side, β the ratio of the sides) becomes
    √((y² − β − 1)² − 4β)/y where y > 1 + √β, else 0: least expected squared error for low rank (Gavish & Donoho 2017).
    """
    shorter, longer = sorted(residual.shape)
    beta, unit = shorter / longer, sd * np.sqrt(longer)
    left, values, right = np.linalg.svd(residual, full_matrices=False)
    y = values / unit
    above = y > 1 + np.sqrt(beta)
    kept = np.sqrt(np.maximum((y**2 - beta - 1) ** 2 - 4 * beta, 0.0)) / np.maximum(y, 1e-9)
    return np.asarray((left * np.where(above, kept * unit, 0.0)) @ right)


def fit_margins(table: Floats, rows: Floats, columns: Floats, passes: int = 30) -> Floats:
    """Scale rows and columns of a table in turn until it has these margins (iterative proportional fitting)."""
    for _ in range(passes):
        table = table * (rows / np.maximum(table.sum(1), 1e-12))[:, None]
        table = table * (columns / np.maximum(table.sum(0), 1e-12))
    return table


def information(table: Floats) -> float:
    """Give the mutual information of the two columns of a table."""
    p = table / table.sum()
    expected = np.outer(p.sum(1), p.sum(0))
    inside = p > 0
    return float((p[inside] * np.log(p[inside] / expected[inside])).sum())


def spanning_tree(model: PairModel) -> list[tuple[int, int | None]]:
    """Order the columns so that each but the first hangs on the earlier one it tells most about (Chow & Liu 1968).

    A column that stands in no table with an earlier one hangs on nothing.
    """
    count = len(model.margins)
    worth = np.full((count, count), -1.0)
    for (i, j), table in model.tables.items():
        worth[i, j] = worth[j, i] = information(table)
    left = set(range(count))
    found: list[tuple[int, int | None]] = []
    while left:
        done = [column for column, _ in found]
        linked = [(worth[i, j], -i, -j) for i in done for j in left if worth[i, j] >= 0]
        if linked:
            _, i, j = max(linked)
            found.append((-j, -i))
        else:
            root = max(left, key=lambda column: (worth[column].clip(0).sum(), -column))
            found.append((root, None))
        left.discard(found[-1][0])
    return found


def sample_tree(model: PairModel, rows: int, rng: np.random.Generator) -> Ints:
    """Draw rows from the tree of pairs."""
    drawn = np.empty((rows, len(model.margins)), np.int64)
    for column, parent in spanning_tree(model):
        margin = model.margins[column]
        if parent is None:
            given, law = np.zeros(rows, np.int64), margin[None, :]
        else:
            given = drawn[:, parent]
            law = model.tables[parent, column] if (parent, column) in model.tables else model.tables[column, parent].T
            law = law + 1e-12 * margin
        cumulative = np.cumsum(law, 1)
        cumulative /= cumulative[:, -1:]
        width = law.shape[1]
        steps = (cumulative + np.arange(len(law))[:, None]).ravel()
        place = np.searchsorted(steps, given + rng.random(rows), side="right")
        drawn[:, column] = np.clip(place - given * width, 0, width - 1)
    return drawn


def every_cell(sizes: Sequence[int]) -> Ints:
    """List every combination of categories."""
    return np.stack([grid.ravel() for grid in np.indices(sizes)], axis=1)


def draw(model: PairModel, rows: int, rng: np.random.Generator) -> Ints:
    """Draw rows whose tables of pairs are near those of the model, in random order; a column of codes for each margin.

    Candidates (rows drawn from the tree, or every cell where there are few) get weights by damped raking to all pairs;
    the rows are a systematic draw along the sorted candidates, which adds little noise of its own.
    """
    sizes = [len(margin) for margin in model.margins]
    wanted = min(max(CANDIDATES, 2 * rows), _MOST_CANDIDATES)
    whole = float(np.prod(np.array(sizes, float))) <= CANDIDATES
    candidates = every_cell(sizes) if whole else sample_tree(model, wanted, rng)
    if whole:
        weights = np.prod([m[candidates[:, j]] / model.size for j, m in enumerate(model.margins)], axis=0)
    else:
        weights = np.full(len(candidates), 1 / len(candidates))
    weights = _rake(candidates, weights, model, rng)
    order = np.lexsort(candidates.T)
    places = np.searchsorted(np.cumsum(weights[order]), (np.arange(rows) + rng.random()) / max(rows, 1))
    return candidates[order[np.minimum(places, len(order) - 1)]][rng.permutation(rows)]


def _rake(candidates: Ints, weights: Floats, model: PairModel, rng: np.random.Generator) -> Floats:
    """Move the weights of candidates toward all tables of pairs, a damped step for each table in each pass."""
    pairs = list(model.tables)
    cells = {(i, j): candidates[:, i] * len(model.margins[j]) + candidates[:, j] for i, j in pairs}
    targets = {pair: model.tables[pair].ravel() / model.size for pair in pairs}
    for _ in range(_PASSES):
        for place in rng.permutation(len(pairs)):
            pair = pairs[place]
            now = np.bincount(cells[pair], weights, targets[pair].size)
            now = now / now.sum()
            factor = np.clip(targets[pair] / np.maximum(now, 1e-15), 1 / _STEP, _STEP) ** _DAMPING
            weights = weights * np.where(now > 0, factor, 1.0)[cells[pair]]
        weights /= weights.sum()
    return weights
