"""Log-linear risk: how many sample uniques are population uniques, by a model of the table of all keys? (R10)"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Floats, Ints
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family
from discretion.risk.identity.truthful import said, warning

_TOLERANCE = 1e-10
"""largest error of a fitted margin, as a share of the records"""
_CYCLES = 10_000


class _Fit(NamedTuple):
    """The fitted probability of each record's cell, and the sum of the squares over all cells."""

    of_record: Floats
    squares: float


class LogLinearRisk(Measure, kind="log-linear-risk"):
    """Share of the unique records whose person is expected to be unique in the population.

    The counts of all cells of the cross product of `columns` are taken as Poisson with means from a log-linear model
    (main effects, and the `interactions` given), fitted by iterative proportional fitting. With λ = μ̂/π people expected
    in a cell, a sample unique is a population unique with probability exp(−λ(1−π)). The value is the mean of these over
    the sample uniques (0 where there are none); `per_record` is the probability, 0 for records that are not unique. In
    the detail: `tau1`, the expected number of sample uniques that are population uniques; `tau2`, the expected number
    of right matches, Σ (1−exp(−λ(1−π)))/(λ(1−π)); `misfit`, about standard normal where the model holds and large
    where the columns depend on each other in ways that the model leaves out: then name interactions.

    Assumes Poisson (or simple random) sampling with the same fraction everywhere and unperturbed columns. Does not see
    combinations that cannot exist (structural zeros). Columns that no interaction connects are fitted apart, so that
    time and memory are linear in the records and in the cells of the largest connected set of columns.

    References
    ----------
    Skinner & Shlomo (2008), JASA 103(483); Elamir & Skinner (2006); Bishop, Fienberg & Holland (1975); catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> table = pl.DataFrame({"zip": ["40831", "40831", "97206"], "sex": ["F", "F", "M"]})
    >>> score = dc.LogLinearRisk(columns=["zip", "sex"], share=0.5)(table)
    >>> round(score.detail["tau1"], 4), round(score.detail["tau2"], 4)
    (0.7165, 0.8504)
    """

    columns: Columns = ()
    """columns an intruder may know; without it, the quasi-identifiers"""
    share: float | None = Field(None, gt=0, le=1)
    """sampling fraction of the data"""
    population_size: int | None = Field(None, ge=1)
    """number of people in the population, where the sampling fraction is not given"""
    interactions: tuple[Columns, ...] = ()
    """sets of columns whose joint counts the model keeps, e.g. [[age, marital_status]]; without it, main effects"""
    missing: Literal["category", "ignore"] = "category"
    """how a missing value counts: as a category of its own, or by leaving its record out"""
    max_cells: int = Field(20_000_000, ge=1)
    """largest table that is fitted; 16 bytes a cell are needed"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Literal["both", "released"]] = "released"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    @model_validator(mode="after")
    def _one_size(self) -> LogLinearRisk:
        if (self.share is None) == (self.population_size is None):
            raise ValueError("give either `share` or `population_size`")
        if any(len(set(names)) < 2 for names in self.interactions):
            raise ValueError("an interaction is of at least two columns")
        return self

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Fit the model, then judge the sample uniques by it."""
        columns = released.choose(self.columns, "classes")
        if strange := sorted({name for names in self.interactions for name in names} - set(columns)):
            raise DataError(f"{self.kind}: interactions name columns that are not among `columns`: {strange}")
        rows = self._rows(released, columns)
        counted = released if len(rows) == len(released) else released.take(rows)
        n = len(counted)
        pi = self._fraction(n)
        fits = [self._fit(counted, names, ctx) for names in _connected(columns, self.interactions)]
        mean = n * math.prod([fit.of_record for fit in fits], start=np.ones(n))
        squares = n**2 * math.prod(fit.squares for fit in fits)
        classes = counted.classes(columns)
        unique = classes.first_rows[classes.counts == 1]
        others = mean[unique] / pi * (1 - pi)
        alone = np.exp(-others)
        right = np.where(others > 0, -np.expm1(-others) / np.where(others > 0, others, 1.0), 1.0)
        per_record = np.full(len(released), np.nan)
        per_record[rows] = 0.0
        per_record[rows[unique]] = alone
        excess = float((classes.counts.astype(np.float64) ** 2).sum() - 2 * mean.sum() + squares - n)
        value = float(alone.sum() / max(len(unique), 1))
        warned = warning(original, released, columns)
        meaning = (
            f"Of the {len(unique)} records that are alone in the file, {as_percent(value)} are expected to be alone in "
            "the population too."
        )
        return self.score(
            value,
            said(meaning, warned),
            per_record=per_record,
            columns=list(columns),
            records=n,
            share=pi,
            sample_uniques=len(unique),
            tau1=float(alone.sum()),
            tau2=float(right.sum()),
            match_probability=float(right.sum() / max(len(unique), 1)),
            cells=math.prod(len(counted.classes([name])) for name in columns),
            misfit=excess / math.sqrt(2 * squares),
            **warned,
        )

    def _rows(self, data: Dataset, columns: tuple[str, ...]) -> Ints:
        """Give the rows that count."""
        kept = np.ones(len(data), dtype=np.bool_)
        for coded in [data.codes(name) for name in columns] if self.missing == "ignore" else []:
            kept &= coded.codes != coded.missing
        if not kept.any():
            raise DataError(
                f"{self.kind}: every record has a missing value in {', '.join(columns)}; nothing is counted"
            )
        return np.flatnonzero(kept)

    def _fraction(self, records: int) -> float:
        if self.population_size is None:
            return float(self.share or 1)
        if self.population_size < records:
            raise DataError(f"{self.kind}: the population of {self.population_size} is smaller than {records} records")
        return records / self.population_size

    def _fit(self, data: Dataset, columns: tuple[str, ...], ctx: Context) -> _Fit:
        """Fit the columns that interactions connect; one set of all of them is the table as observed."""
        n = len(data)
        sets = [names for names in self.interactions if set(names) <= set(columns)]
        if len(columns) == 1 or any(set(names) == set(columns) for names in sets):
            classes = data.classes(columns)
            probability = classes.counts / n
            return _Fit(probability[classes.ids], float((probability**2).sum()))
        levels = [data.classes([name]) for name in columns]
        shape = tuple(len(found) for found in levels)
        if math.prod(shape) > self.max_cells:
            raise DataError(
                f"{self.kind}: the interactions connect {', '.join(columns)} with {math.prod(shape):,} cells, more "
                f"than `max_cells` {self.max_cells:,}; leave out an interaction, recode a column, or allow more memory"
            )
        axes = [tuple(columns.index(name) for name in names) for names in sets]
        place = np.ravel_multi_index(tuple(found.ids for found in levels), shape)
        table = _proportional_fit(np.bincount(place, minlength=math.prod(shape)).reshape(shape), axes, ctx)
        return _Fit(table.ravel()[place], float((table**2).sum()))


def _connected(columns: Sequence[str], interactions: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Split the columns into sets that no interaction connects."""
    sets = [{name} for name in columns]
    for names in interactions:
        touched = [one for one in sets if one & set(names)]
        sets = [one for one in sets if not one & set(names)] + [set[str]().union(*touched)]
    return [tuple(name for name in columns if name in one) for one in sets]


def _proportional_fit(counts: Ints, margins: Sequence[tuple[int, ...]], ctx: Context) -> Floats:
    """Give the probabilities that have the margins of the table and no other dependence (IPF)."""
    n = counts.sum()
    away = [tuple(axis for axis in range(counts.ndim) if axis not in kept) for kept in margins]
    wanted = [counts.sum(axis=axes, keepdims=True) / n for axes in away]
    fitted = np.full(counts.shape, 1.0 / counts.size)
    for cycle in range(_CYCLES):
        ctx.progress(cycle, _CYCLES, "fitting the log-linear model")
        for axes, target in zip(away, wanted, strict=True):
            now = fitted.sum(axis=axes, keepdims=True)
            fitted *= np.divide(target, now, out=np.zeros_like(now), where=now > 0)
        worst = max(
            float(np.abs(fitted.sum(axis=axes, keepdims=True) - target).max())
            for axes, target in zip(away, wanted, strict=True)
        )
        if worst <= _TOLERANCE:
            ctx.progress(_CYCLES, _CYCLES, "fitting the log-linear model")
            return fitted
    raise DataError(f"log-linear-risk: the model does not converge in {_CYCLES:,} cycles; use fewer interactions")
