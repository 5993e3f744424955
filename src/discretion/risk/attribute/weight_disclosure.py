"""What an exact sampling weight tells about the record that carries it (R8)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats
from discretion.kernels.classes import class_ids
from discretion.measure import Better, Measure, Score, as_percent, source_of
from discretion.part import Columns, Family


class WeightDisclosure(Measure, kind="weight-disclosure"):
    """Share of records of which the published weight tells a stratum, an area or another quasi-identifier.

    Weights come from the sampling design: everybody of one stratum has the same. Whoever knows which weight belongs to
    which area (from the design's documentation, or from one acquaintance) reads the original area from a record whose
    published area was generalized. The attack guesses, for each record, the most frequent original value among the
    *other* records with the same published weight and the same published value of the column, where it is published
    (ties at random; where nobody else has both: the most frequent value of those with the same published value), which
    is what somebody with an example of each weight can do. The chance level is the most frequent original value of
    those with the same published value: what everybody can do without the weight. The value belongs to the column that
    gains most; the detail has every column. A column published as it is has nothing left to tell: share and chance 1.

    Does not see weights in combination with other columns. Rounded or grouped weights tell less: run it after. Where
    rows cannot be matched, the original's own weights are used without the published values, as long as the published
    weights are among them. Missing values are values of their own. Time O(n log n), memory linear.

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
        known, matched, published = self._tables(original, released, weight)
        columns = self.columns or known.having("quasi", "geography", "stratum")
        if not columns:
            raise PlanError(f"{self.kind}: no column to guess; name `columns`, or give roles")
        known.require(columns)
        coded = published.codes(weight)
        found: dict[str, tuple[Floats, float]] = {}
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), f"{self.kind}: {name}")
            shown = published.codes(name).codes if matched and name in published.columns else np.zeros(len(known))
            found[name] = _right(coded.codes, shown, known.codes(name).codes)
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
        meaning = (
            f"The published weight tells {best!r} of {as_percent(value)} of the records (guessing: "
            f"{as_percent(chance)})."
            if value > chance
            else "The published weight tells no column better than guessing does."
        )
        return self.score(
            value,
            meaning,
            per_record=right if matched else None,
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


def _right(weights: NDArray[Any], shown: NDArray[Any], values: NDArray[Any]) -> tuple[Floats, float]:
    """Give each record the probability that the guess from weight and published value is its own; and the chance level.

    Guessed is the most frequent value among the others of the same weight and published value.
    """
    weights, shown, values = (
        np.unique(codes, return_inverse=True)[1].astype(np.int64) for codes in (weights, shown, values)
    )
    size, published = int(values.max()) + 1, int(shown.max()) + 1
    pairs = class_ids([shown, values], [published, size])
    of_pair, most = shown[pairs.first_row], np.zeros(published, np.int64)
    np.maximum.at(most, of_pair, pairs.counts)
    is_usual = pairs.counts == most[of_pair]
    usual = is_usual / np.bincount(of_pair, is_usual)[of_pair]
    together = class_ids([weights, shown], [int(weights.max()) + 1, published])
    cells = class_ids([together.ids, values], [len(together.counts), size])
    group, counts = together.ids[cells.first_row].astype(np.int64), cells.counts
    order = np.lexsort((-counts, group))
    ranked, first = counts[order], np.searchsorted(group[order], np.arange(len(together.counts)))
    largest = ranked[first]
    at_top = np.bincount(group, counts == largest[group]).astype(np.int64)
    several = np.bincount(group) > 1
    second = np.where(several, np.append(ranked, 0)[first + 1], 0)
    at_second = np.bincount(group, counts == second[group]).astype(np.int64)
    is_top = counts == largest[group]
    leads = is_top & (at_top[group] == 1)  # without this record the others of its value meet the second of the group
    rival = np.where(leads, second[group], largest[group])
    rivals = np.where(leads, at_second[group], at_top[group] - is_top)
    others = counts - 1
    right = np.where(others > rival, 1.0, np.where((others == rival) & (others > 0), 1.0 / (1 + rivals), 0.0))
    alone = together.counts[group] == 1
    right = np.where(alone, usual[pairs.ids[cells.first_row]], right)
    return right[cells.ids], float(most.sum() / len(values))


def _gain(share: float, chance: float) -> float:
    return 0.0 if chance >= 1 else (share - chance) / (1 - chance)
