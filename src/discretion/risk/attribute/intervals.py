"""Interval disclosure: how often does the published value give the true one away, within a small interval? (R1–R3)"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class _Tests(NamedTuple):
    """For each record and column: disclosed, disclosed by a random other record's value, and counted."""

    hit: Bools
    chance: Bools
    counted: Bools
    columns: tuple[str, ...]
    hidden: int
    """values that are missing in the release and not in the original"""

    @property
    def note(self) -> str:
        """Say how many values count as safe because they are not there."""
        share = self.hidden / max(int(self.counted.sum()), 1)
        return (
            f" {as_percent(share)} of the values are missing in the release and count as safe." if self.hidden else ""
        )


class _Interval(Measure):
    """What the three interval measures share: a test per value, shares per column, the chance level beside them."""

    columns: Columns = ()
    """numeric columns to test; without it, the numeric quasi-identifiers and sensitive columns"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    @abstractmethod
    def _disclosed(self, original: Floats, released: Floats) -> Bools:
        """Tell for each value whether the interval around the published value holds the true one."""

    def _tests(self, original: Dataset, released: Dataset, ctx: Context) -> _Tests:
        """Test every value, and every value against that of a random other record."""
        columns = original.choose(self.columns, "perturb")
        if not self.columns:
            columns = tuple(name for name in columns if not original.is_category(name))
            if not columns:
                raise PlanError(f"{self.kind}: all numeric columns are categories (few whole numbers); give `columns`")
        released.require(columns)
        shuffled = ctx.rng.permutation(len(original))
        hit, chance, counted, hidden = [], [], [], 0
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), f"{self.kind}: {name}")
            true, published = original.number(name), released.number(name)
            if np.isnan(published).all() or np.isnan(true).all():
                raise DataError(f"{self.kind}: column {name!r} has no values to attack")
            hit.append(self._disclosed(true, published))
            chance.append(self._disclosed(true, published[shuffled]))
            counted.append(~np.isnan(true))
            hidden += int((np.isnan(published) & counted[-1]).sum())
        return _Tests(np.column_stack(hit), np.column_stack(chance), np.column_stack(counted), columns, hidden)


def _sd(x: Floats) -> float:
    """Give the standard deviation (N−1) of the values present; 0 for a single one."""
    present = x[~np.isnan(x)]
    return float(present.std(ddof=1)) if len(present) > 1 else 0.0


def _share(hit: Bools, counted: Bools) -> float:
    return float(hit[counted].mean())


def _of_counted(hit: Bools, counted: Bools) -> Floats:
    """Give each record the share of its values that are disclosed; NaN for a record without values."""
    total = counted.sum(axis=1)
    return np.where(total > 0, hit.sum(axis=1) / np.maximum(total, 1), np.nan)


class _PerColumnInterval(_Interval):
    """The value is the mean over columns of the share of disclosed values."""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Test every value."""
        tests = self._tests(original, released, ctx)
        hit, chance, counted, columns, hidden = tests
        per_column = {name: _share(hit[:, j], counted[:, j]) for j, name in enumerate(columns)}
        value = float(np.mean(list(per_column.values())))
        by_chance = float(np.mean([_share(chance[:, j], counted[:, j]) for j in range(len(columns))]))
        return self.score(
            value,
            f"{as_percent(value)} of the true values lie in the interval around the published value "
            f"({as_percent(by_chance)} would by chance).{tests.note}",
            per_record=_of_counted(hit & counted, counted),
            chance=by_chance,
            per_column=per_column,
            values_tested=int(counted.sum()),
            values_hidden=hidden,
        )


class IntervalRisk(_Interval, kind="interval-risk"):
    """Share of records whose true values all lie within a few standard deviations of the published ones.

    The interval is the published value ± sd_share · σ', σ' the standard deviation of the published column; with
    several columns a record counts when it is inside in all of them. Values missing in the release count as
    safe, values missing in the original are left out. Beside it stands the share that a random other record's values
    would hit. Time linear.

    References
    ----------
    Mateo-Sanz, Sebé & Domingo-Ferrer (2004); catalogue R3 (`dRisk` of sdcMicro).

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> noisy = dc.AdditiveNoise(columns=["income"], sd_share=0.5)(people, seed=7)
    >>> dc.IntervalRisk(columns=["income"], sd_share=0.05)(people, noisy).value < 0.2
    True
    """

    sd_share: float = Field(0.05, gt=0)
    """half width of the interval, in standard deviations of the published column"""

    def _disclosed(self, original: Floats, released: Floats) -> Bools:
        half = self.sd_share * _sd(released)
        return (original >= released - half) & (original <= released + half)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Test every record."""
        tests = self._tests(original, released, ctx)
        hit, chance, counted, columns, hidden = tests
        rows = np.asarray(counted.any(axis=1))
        inside: Bools = np.asarray((hit | ~counted).all(axis=1))
        value = float(inside[rows].mean())
        by_chance = float(np.asarray((chance | ~counted).all(axis=1))[rows].mean())
        per_column = {name: _share(hit[:, j], counted[:, j]) for j, name in enumerate(columns)}
        return self.score(
            value,
            f"For {as_percent(value)} of the records the true values lie in the interval around the published ones "
            f"({as_percent(by_chance)} would by chance).{tests.note}",
            per_record=inside & rows,
            chance=by_chance,
            per_column=per_column,
            records_tested=int(rows.sum()),
            values_hidden=hidden,
        )


class SdInterval(_PerColumnInterval, kind="sd-interval"):
    """Share of values whose published value is closer than a percentage of the standard deviation.

    A value counts when |true − published| ≤ percent · σ / 100, σ the standard deviation of the original column.
    Several columns are averaged. Values missing in the release count as safe. Time linear.

    References
    ----------
    Catalogue R2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x, y = pl.DataFrame({"x": [1.0, 2, 3]}), pl.DataFrame({"x": [1.0, 2, 9]})
    >>> dc.SdInterval(columns=["x"], percent=10)(x, y).value
    0.6666666666666666
    """

    percent: float = Field(10.0, gt=0)
    """half width of the interval, in percent of the original column's standard deviation"""

    def _disclosed(self, original: Floats, released: Floats) -> Bools:
        half = self.percent / 100 * _sd(original)
        return np.abs(original - released) <= half


class RankInterval(_PerColumnInterval, kind="rank-interval"):
    """Share of values that lie within a percentage of the ranks around the published value.

    The published values are ranked; the interval reaches from the value w ranks below to the value w ranks above the
    published one, w = percent · N / 200 rounded down; tied published values take the widest interval. Several
    columns are averaged. Values missing in the release count as safe. Time O(n log n).

    References
    ----------
    Catalogue R1 (with the bounds of the source put right).

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x = pl.DataFrame({"x": [1.0, 2, 3, 4]})
    >>> dc.RankInterval(columns=["x"], percent=50)(x, x).value
    1.0
    """

    percent: float = Field(10.0, gt=0, le=200)
    """width of the interval, in percent of the records"""

    def _disclosed(self, original: Floats, released: Floats) -> Bools:
        ranked = np.sort(released[~np.isnan(released)])
        n = len(ranked)
        reach = int(np.floor(self.percent * n / 200 + 1e-9))
        lowest = np.searchsorted(ranked, released, side="left")
        highest = np.searchsorted(ranked, released, side="right") - 1
        below = ranked[np.clip(lowest - reach, 0, n - 1)]
        above = ranked[np.clip(highest + reach, 0, n - 1)]
        return (original >= below) & (original <= above) & ~np.isnan(released)
