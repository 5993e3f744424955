"""What an exact sampling weight tells about the record that carries it (R8)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.classes import class_ids
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family
from discretion.risk.identity.truthful import source_of

Floats = NDArray[np.float64]


class WeightDisclosure(Measure, kind="weight-disclosure"):
    """Share of records of which the published weight tells a stratum, an area or another quasi-identifier.

    Weights come from the sampling design: everybody of one stratum has the same. Whoever knows which weight belongs to
    which area (from the design's documentation, or from one acquaintance) reads the original area from a record whose
    published area was generalized. The attack guesses, for each record, the most frequent original value among the
    *other* records of the same published weight (ties at random; a weight that nobody else has: the most frequent value
    of all), which is what somebody with an example of each weight can do. The value belongs to the column that gains
    most over the chance level, the share of its most frequent value; the detail has every column.

    Does not see weights in combination with other columns. Rounded or grouped weights tell less: run it after. Where
    rows cannot be matched, the original's own weights are used, as long as the published ones are among them.
    Missing values are values of their own. Time O(n log n), memory linear.

    References
    ----------
    de Waal & Willenborg (1997), Statistical disclosure control and sampling weights, JOS 13(4); catalogue R8.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"area": ["n", "n", "n", "s", "s", "s"], "w": [10.5, 10.5, 10.5, 7.25, 7.25, 7.25]})
    >>> published = people.with_columns(pl.lit("*").alias("area"))
    >>> dc.WeightDisclosure(weight="w", columns=["area"])(people, published).value
    1.0
    """

    weight: str = ""
    """column of published weights; without it, the one whose role is `weight`"""
    columns: Columns = ()
    """original columns to guess; without it, those with the roles quasi, geography and stratum"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    aligned: ClassVar[bool] = False
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Guess each column from the weight."""
        weight = self.weight or _only(original.having("weight"), self.kind)
        released.require([weight])
        known, source, published = self._tables(original, released, weight)
        columns = self.columns or known.having("quasi", "geography", "stratum")
        if not columns:
            raise PlanError(f"{self.kind}: no column to guess; name `columns`, or give roles")
        known.require(columns)
        coded = published.codes(weight)
        found: dict[str, tuple[Floats, float]] = {}
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), f"{self.kind}: {name}")
            values = known.codes(name)
            found[name] = _right(coded.codes, coded.size, values.codes, values.size)
        best = max(found, key=lambda name: _gain(float(found[name][0].mean()), found[name][1]))
        right, chance = found[best]
        value = float(right.mean())
        detail: dict[str, Any] = {
            "target": best,
            "columns": list(columns),
            "weight": weight,
            "chance": chance,
            "records": len(right),
            "different_weights": len(np.unique(coded.codes)),
            "per_column": {
                name: {"share": float(one.mean()), "chance": guessed} for name, (one, guessed) in found.items()
            },
        }
        return self.score(
            value,
            f"The published weight tells {best!r} of {as_percent(value)} of the records (guessing: "
            f"{as_percent(chance)}).",
            per_record=right if source else None,
            **detail,
        )

    def _tables(self, original: Dataset, released: Dataset, weight: str) -> tuple[Dataset, bool, Dataset]:
        """Give the data that has the true values and the data that has the weights, row by row the same people."""
        source = original if original is released else source_of(original, released)
        if source is not None:
            return source, True, released
        original.require([weight])
        if not set(released.frame[weight].drop_nulls()) <= set(original.frame[weight].drop_nulls()):
            raise DataError(
                f"{self.kind}: the weights were changed and nothing tells which rows belong together; name an id column"
            )
        return original, False, original


def _only(found: tuple[str, ...], kind: str) -> str:
    if len(found) != 1:
        raise PlanError(f"{kind}: {len(found)} columns have the role weight; name one as `weight`")
    return found[0]


def _right(weights: NDArray[Any], n_weights: int, values: NDArray[Any], n_values: int) -> tuple[Floats, float]:
    """Give each record the probability that the most frequent value among the others of its weight is its own."""
    cells = class_ids([weights, values], [n_weights, n_values])
    of_weight, of_value = weights[cells.first_row].astype(np.int64), values[cells.first_row].astype(np.int64)
    order = np.lexsort((-cells.counts, of_weight))
    starts = np.concatenate([[True], np.diff(of_weight[order]) != 0])
    group = np.cumsum(starts) - 1
    counts = cells.counts[order]
    first = np.flatnonzero(starts)
    largest = counts[first]
    ties = np.bincount(group, counts == largest[group]).astype(np.int64)
    following = np.append(counts[1:], 0)[first]  # the second largest of the group, 0 where there is none
    following[np.append(np.diff(first), len(counts) - first[-1]) == 1] = 0
    is_top = counts == largest[group]
    others = counts - 1
    rival = np.where(is_top & (ties[group] == 1), following[group], largest[group])
    near = np.bincount(group, counts == following[group]).astype(np.int64)
    equals = np.where(is_top & (ties[group] == 1), near[group], ties[group] - is_top)
    chance_of_tie = 1.0 / (1 + equals)
    right = np.where(others > rival, 1.0, np.where((others == rival) & (others > 0), chance_of_tie, 0.0))
    totals = np.bincount(values, minlength=n_values)
    alone = np.bincount(group, counts)[group] == 1
    right = np.where(alone, of_value[order] == totals.argmax(), right)
    per_cell = np.empty(len(counts))
    per_cell[order] = right
    return per_cell[cells.ids], float(totals.max() / len(values))


def _gain(share: float, chance: float) -> float:
    return 0.0 if chance >= 1 else (share - chance) / (1 - chance)
