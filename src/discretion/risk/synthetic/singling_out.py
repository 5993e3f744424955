"""Singling out: does a description learned from the release fit exactly one person?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.measure import Score
from discretion.part import Columns
from discretion.risk.synthetic.records import (
    ControlledAttack,
    EncodedRecords,
    Rate,
    by_value,
    common_columns,
    control_group,
    draw,
    encode_together,
)

_TRIES = 5  # sets of columns tried for a released record


@dataclass(frozen=True)
class Description:
    """Conditions on a few columns: a value between two bounds, or (both NaN) no value."""

    columns: Ints
    low: Floats
    high: Floats

    def fits(self, table: Floats, rows: Ints | None = None) -> Ints:
        """Give the rows that meet all conditions, of all or of some."""
        for j, low, high in zip(self.columns, self.low, self.high, strict=True):
            x = table[:, j] if rows is None else table[rows, j]
            met = np.isnan(x) if np.isnan(low) else (x >= low) & (x <= high)
            rows = np.flatnonzero(met) if rows is None else rows[met]
        return np.arange(len(table)) if rows is None else rows


class SinglingOut(ControlledAttack, kind="singling-out"):
    """Share of descriptions learned from the release that fit exactly one person in the data, beyond chance.

    The intruder takes a released record, looks at `size` of its columns, and widens the values (numbers: an interval
    of neighboring values; categories: the value itself) as far as the description still fits this one released record.
    The attack succeeds when exactly one original record fits it. The same descriptions are tried on as many people of
    the control group; the value is the excess (a − c)/(1 − c), with the Wilson intervals in the detail. Each released
    record is used at most once. `per_record`: was the original record singled out by some description?

    A description that fits one person in n on average singles somebody out in 1/e of all cases without knowing
    anything (`trivial` in the detail): only the excess over the control group counts. It does not see an intruder who
    knows something about a certain person (`Linkability`, `InferenceRisk`). Missing is a value like others.
    Time O(attacks·n); memory linear.

    References
    ----------
    Cohen & Nissim (2020), PNAS 117(15); Article 29 Working Party (2014), Opinion 05/2014; catalogue R14.

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> people = pl.DataFrame(np.random.default_rng(1).normal(size=(400, 4)), schema=list("abcd"))
    >>> copied, others = people[:200], people[200:]
    >>> dc.SinglingOut(columns=list("abcd"), holdout=others)(copied, copied).value
    1.0
    """

    columns: Columns = ()
    """columns the descriptions may use; without it, all but identifiers and weights"""
    size: int = Field(3, ge=1)
    """columns in a description (all columns, if there are fewer)"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Describe released records and look for them in both groups."""
        others = control_group(self.holdout, original, self.kind)
        tables = (original, released, others)
        columns = common_columns(self.columns, "compare", tables, self.kind)
        records = encode_together(tables, columns, self.kind)
        people, _, control = records.tables
        equal = min(len(people), len(control))  # the chance to fit exactly one depends on how many there are
        in_data, outside = np.zeros(len(people), np.bool_), np.zeros(len(control), np.bool_)
        in_data[draw(people, equal, ctx.within("people").rng)] = True
        outside[draw(control, equal, ctx.within("control").rng)] = True
        tried, hits, control_hits = 0, 0, 0
        singled = np.zeros(len(people), np.bool_)
        for description in _descriptions(records, self.size, self.attacks, ctx):
            found = description.fits(people)
            if len(found) == 1:
                singled[found] = True
            tried += 1
            hits += int(in_data[found].sum() == 1)
            control_hits += int(outside[description.fits(control)].sum() == 1)
        if not tried:
            raise DataError(
                f"{self.kind}: no released record is alone with the values of {min(self.size, len(columns))} columns; "
                "give a larger `size` or more `columns`"
            )
        trivial = (1 - 1 / equal) ** (equal - 1)
        what = "describes exactly one person"
        rates = Rate(hits, tried), Rate(control_hits, tried)
        return self.compare(
            *rates, trivial, what, singled.astype(np.float64), trivial=trivial, columns=list(columns), group_size=equal
        )


def _descriptions(records: EncodedRecords, size: int, attacks: int, ctx: Context) -> Iterator[Description]:
    """Yield descriptions that fit exactly one released record, at most one for each record."""
    published = records.tables[1][by_value(records.tables[1])]
    rng = ctx.within("descriptions").rng
    ladders = [np.sort(x[~np.isnan(x)]) for x in published.T]
    order = rng.permutation(len(published))[:attacks]
    count = min(size, len(records.columns))
    for number, row in enumerate(order):
        if number % 64 == 0:
            ctx.progress(number, len(order), ctx.step)
        for _ in range(_TRIES):
            chosen = np.sort(rng.choice(len(records.columns), count, replace=False))
            found = _widest(published, row, chosen, records.nominal[chosen], ladders)
            if found is not None:
                yield found
                break


def _widest(published: Floats, row: int, chosen: Ints, nominal: Bools, ladders: Sequence[Floats]) -> Description | None:
    """Shrink intervals around a released record until it is alone in them; None if it never is."""
    values = published[row, chosen]
    rows: Ints | None = None
    wide = len(published) // 4 if not nominal.all() else 0
    while True:
        low, high = values.copy(), values.copy()
        for i in np.flatnonzero(~nominal & ~np.isnan(values)):
            low[i], high[i] = _around(ladders[chosen[i]], values[i], wide)
        description = Description(chosen, low, high)
        rows = description.fits(published, rows)
        if len(rows) == 1:
            return description
        if wide == 0:
            return None
        wide //= 2


def _around(ladder: Floats, value: float, wide: int) -> tuple[float, float]:
    """Give the values so many places below and above a value; infinite beyond the ends."""
    if wide == 0:
        return value, value
    below = int(np.searchsorted(ladder, value, "left")) - wide
    above = int(np.searchsorted(ladder, value, "right")) - 1 + wide
    return (
        float(ladder[below]) if below >= 0 else -np.inf,
        float(ladder[above]) if above < len(ladder) else np.inf,
    )
