"""What somebody who knows the law of cell-key noise, but not the keys, can tell about the cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from discretion.kernels.arrays import Floats, Ints
from discretion.tables.cell_key_table import PerturbationTable

if TYPE_CHECKING:
    from discretion.tables.cell_key import Perturbed
    from discretion.tables.cells import Cells

MANY = 100
"""Parts of a sum above which their noise together is taken for normal."""


def possible_values(perturbed: Perturbed, shown: Floats) -> tuple[Floats, Floats]:
    """Give the bounds of each true value that the values shown and the law of the noise leave."""
    cells = perturbed.cells
    if perturbed.table is not None and (cells.value == cells.count).all():
        likely = _beliefs(perturbed.table, shown) > 0
        d = perturbed.table.deviations
        return shown - d[likely.shape[1] - 1 - likely[:, ::-1].argmax(axis=1)], shown - d[likely.argmax(axis=1)]
    (support, _), scales = _noise(perturbed)
    reach = float(np.abs(support).max()) * scales.sum(axis=1)
    return shown - reach, shown + reach


def chances(perturbed: Perturbed, where: Ints, lower: Floats, upper: Floats) -> Floats:
    """Give how likely an attacker holds some cells to lie nearer to the truth than so far below and above it.

    The attacker begins with no opinion, and uses the value shown and every sum that the cell is in. For counts the
    chances are exact (sums of more than `MANY` parts: normal); other noise is taken for normal, or by its own law
    without the sums where that comes closer.
    """
    cells = perturbed.cells
    if perturbed.table is not None and (cells.value == cells.count).all():
        return _chances_of_counts(cells, perturbed.table, where, lower, upper)
    law, scales = _noise(perturbed)
    off = (np.asarray(cells.status.released) - cells.value)[where]
    sd = np.sqrt(law[0] ** 2 @ law[1]) * np.sqrt((scales**2).sum(axis=1))
    found = _normal_chances(cells, sd, where, off - upper, off + lower)
    if scales.shape[1] > 1:
        return found
    noise = law[0] * scales[where]
    inside = (noise > (off - upper)[:, None]) & (noise < (off + lower)[:, None])
    return np.maximum(found, inside @ law[1])


def _noise(perturbed: Perturbed) -> tuple[tuple[Floats, Floats], Floats]:
    """Give the law of noise (support, probabilities), and (cells, k) the numbers by which k such noises are multiplied.

    Of sums these are the largest contributions, of weighted counts what one respondent more or less changes.
    """
    cells = perturbed.cells
    if perturbed.table is not None:
        law = perturbed.table.deviations.astype(np.float64), perturbed.table.probability[-1]
        return law, np.abs(cells.value / np.maximum(cells.count, 1))[:, None]
    support, likely = perturbed.law or (np.zeros(1), np.ones(1))
    return (support / 100, likely), cells.top[:, : perturbed.contributions]


def _beliefs(table: PerturbationTable, shown: Floats) -> Floats:
    """(cells, deviations) how likely each deviation is given the value shown, with no opinion about the true count."""
    true = np.round(shown).astype(np.int64)[:, None] - table.deviations
    row = np.clip(true, 0, len(table.probability) - 1)
    p = np.where(true >= 0, table.probability[row, np.arange(len(table.deviations))], 0.0)
    found: Floats = p / p.sum(axis=1, keepdims=True)
    return found


def _chances_of_counts(cells: Cells, table: PerturbationTable, where: Ints, lower: Floats, upper: Floats) -> Floats:
    shown = np.asarray(cells.status.released)
    belief = _beliefs(table, shown)
    posterior = belief[where].copy()
    place = {cell: k for k, cell in enumerate(where.tolist())}
    d = table.deviations
    for members, signs in _sums_of(cells, where):
        miss = int(np.round(signs @ shown[members]))
        laws = [belief[j] if sign > 0 else belief[j][::-1] for j, sign in zip(members.tolist(), signs, strict=True)]
        for k, (cell, sign) in enumerate(zip(members.tolist(), signs.tolist(), strict=True)):
            if cell in place:
                posterior[place[cell]] *= _sum_of_others(laws, k, table.maximum, miss - int(sign) * d)
    posterior /= posterior.sum(axis=1, keepdims=True)
    off = shown[where, None] - d - cells.value[where, None]
    near = (off == 0) | ((off > -lower[:, None]) & (off < upper[:, None]))
    chance: Floats = (posterior * near).sum(axis=1)
    return chance


def _sum_of_others(laws: list[Floats], left_out: int, most: int, at: Ints) -> Floats:
    """Give how likely the noise of all but one part of a sum adds up to each of some numbers."""
    others = [law for k, law in enumerate(laws) if k != left_out]
    d = np.arange(-most, most + 1)
    if len(others) > MANY:
        mean = sum(float(law @ d) for law in others)
        variance = sum(float(law @ d**2 - (law @ d) ** 2) for law in others)
        near: Floats = np.exp(-((at - mean) ** 2) / (2 * variance))
        return near
    law = others[0]
    for other in others[1:]:
        law = np.convolve(law, other)
    middle = len(law) // 2
    inside = np.abs(at) <= middle
    return np.where(inside, law[np.where(inside, at + middle, 0)], 0.0)


def _sums_of(cells: Cells, where: Ints) -> Iterator[tuple[Ints, Floats]]:
    """Give the sums with at least two parts that some cells are in; a total of one part has the same noise as it."""
    sums = cells.relations()
    wanted = np.zeros(len(cells), np.bool_)
    wanted[where] = True
    rows = np.unique(sums.rows[wanted[sums.indices]])
    for row in rows.tolist():
        inside = slice(int(sums.indptr[row]), int(sums.indptr[row + 1]))
        if inside.stop - inside.start > 2:
            yield sums.indices[inside].astype(np.int64), sums.data[inside].astype(np.float64)


def _normal_chances(cells: Cells, sd: Floats, where: Ints, low: Floats, high: Floats) -> Floats:
    """Give how likely normal noise lies between bounds, given every sum of a cell."""
    from scipy.special import ndtr

    shown = np.asarray(cells.status.released)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = 1 / sd**2
        pull = np.zeros(len(sd))
        for members, signs in _sums_of(cells, where):
            told = 1 / np.maximum((sd[members] ** 2).sum() - sd[members] ** 2, 0.0)
            pull[members] += told * signs * float(signs @ shown[members])
            precision[members] += told
        left = 1 / np.sqrt(precision[where])
        middle = pull[where] / precision[where]
        found: Floats = ndtr((high - middle) / left) - ndtr((low - middle) / left)
    return np.where(left > 0, np.nan_to_num(found, nan=1.0), 1.0)
