"""Distance to the closest record: are released records closer to the data than to other people?"""

from __future__ import annotations

from typing import Any

import numpy as np

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import find_units
from discretion.errors import DataError
from discretion.kernels.arrays import Floats
from discretion.measure import Score, as_percent
from discretion.part import Columns
from discretion.risk.synthetic.records import (
    UnalignedRisk,
    common_columns,
    control_group,
    draw_people,
    encode_together,
    wilson,
)


class ClosestRecord(UnalignedRisk, kind="closest-record"):
    """Share of released records that are closer to a record of the data than to one of a control group.

    A release that learned the population is as close to people it was not made from as to those it was: the value is
    then 1/2 (`chance`). A copy has 1. Every released record is judged. The larger group is reduced at random to as many
    people as the smaller one has, with all their rows: a copy of any of them counts, and people who are told by a unit,
    household or repeated identifier stay whole in both groups. A released record that is as close to both counts one
    half. The distance is the mean over the columns of |x − y|/range (numbers) and 0 or 1 (categories); missing against
    a value counts 1. The detail has Wilson's interval, the median and 5th percentile of the distance to the closest
    record (DCR) of the data and of the control group, of the ratio between the nearest and the second nearest (NNDR;
    near 0: one record sticks out as the source), and the share of exact copies. `per_record` follows the rows of the
    release.

    A small distance is not a disclosure by itself, and a large one no protection where single columns are secret: it
    looks at whole records only. Released records made from the same person are not independent, which the interval
    does not know. Time about O(n·log n) where few columns matter, O(n²) at worst; memory linear.

    References
    ----------
    Platzer & Reutterer (2021), Frontiers in Big Data 4; catalogue R14.

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> people = pl.DataFrame(np.random.default_rng(1).normal(size=(400, 3)), schema=list("abc"))
    >>> dc.ClosestRecord(columns=list("abc"), holdout=people[200:])(people[:200], people[:200]).value
    1.0
    """

    columns: Columns = ()
    """columns to compare; without it, all but identifiers and weights"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Find the nearest original and the nearest control record of each released record."""
        others = control_group(self.holdout, original, self.kind)
        tables = (original, released, others)
        columns = common_columns(self.columns, "compare", tables, self.kind)
        records = encode_together(tables, columns, self.kind)
        people, published, control = records.tables
        who, whom = find_units(original), find_units(others)
        if who is None or whom is None:
            who, whom = np.arange(len(people)), np.arange(len(control))
        size = min(len(np.unique(who)), len(np.unique(whom)))
        if size < 2:
            raise DataError(f"{self.kind}: both the original and the holdout need at least two records")
        found = []
        for table, unit, step in ((people, who, "people"), (control, whom, "control")):
            group = table[draw_people(table, unit, size, ctx.within(step).rng)]
            found.append(_nearest_two(group, published, records.nominal, records.weights, ctx))
        closer = np.where(found[0][:, 0] < found[1][:, 0], 1.0, np.where(found[0][:, 0] == found[1][:, 0], 0.5, 0.0))
        value = float(closer.mean())
        low, high = wilson(float(closer.sum()), len(closer), self.confidence)
        meaning = (
            f"{as_percent(value)} of the released records are closer to a record of the data than to one of the "
            f"control group (by chance 50%; {self.confidence:.0%} interval {low:.3f} to {high:.3f})."
        )
        return self.score(
            value,
            meaning,
            closer,
            chance=0.5,
            interval=[low, high],
            confidence=self.confidence,
            to_data=_distances(found[0]),
            to_control=_distances(found[1]),
            share_as_close=float((closer == 0.5).mean()),
            group_size=size,
            columns=list(columns),
        )


def _nearest_two(group: Floats, published: Floats, nominal: Any, weights: Floats, ctx: Context) -> Floats:
    from discretion.kernels.trees import GowerTree

    total, _ = GowerTree(group, nominal, weights).nearest(published, 2, ctx.progress)
    return np.asarray(total / group.shape[1])


def _distances(nearest: Floats) -> dict[str, float]:
    """Sum up distances to the nearest and second nearest record; two records at distance zero have the ratio 1."""
    ratio = np.where(nearest[:, 1] > 0, nearest[:, 0] / np.where(nearest[:, 1] > 0, nearest[:, 1], 1.0), 1.0)
    return {
        "dcr_median": float(np.median(nearest[:, 0])),
        "dcr_5th_percentile": float(np.quantile(nearest[:, 0], 0.05)),
        "nndr_median": float(np.median(ratio)),
        "nndr_5th_percentile": float(np.quantile(ratio, 0.05)),
        "share_identical": float((nearest[:, 0] == 0).mean()),
    }
