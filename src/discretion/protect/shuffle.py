"""Model-based shuffling: true values are dealt out anew, by ranks drawn from a model (P21)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discretion.context import BATCH_ROWS, Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats
from discretion.method import Decision, Purpose, StratifiedMethod
from discretion.part import Columns, Scale

Block = Callable[[slice], Floats]
"""From a run of rows to their part of the design matrix."""

MOST_CATEGORIES = 200
"""Nominal predictors with more categories are refused."""


class Shuffle(StratifiedMethod, kind="shuffle"):
    """Deal the values of columns out anew: who gets which is drawn from a model on other columns.

    The ranks of the columns, as normal scores, are modeled as linear in the predictors (normal scores of numeric,
    ordinal and date columns, one indicator per category of nominal and of generalized ones). New scores are drawn from
    the model, given the predictors alone, and the record with the r-th largest drawn score gets the r-th largest true
    value.

    Guarantees that every column keeps exactly its values (mean, quantiles, frequencies), and that given the predictors
    a published value says nothing about the record's own: whoever knows the model learns no more than the predictors
    tell. Rank correlations among the columns and with the predictors are kept approximately, as far as they are
    monotone; relations with columns that are no predictors are lost. Does not protect what the predictors predict: a
    predictor that is generalized or dropped afterwards is still told by the dealt values, so give it less detail first
    (distance-linkage and column-dependence measure it). The extreme values are published (in other records). Missing
    values stay where they are; a missing predictor counts as average, or as a category. Time O(n log n + n·p²) for p
    predictors and indicators, memory linear.

    References
    ----------
    Muralidhar & Sarathy (2006), Data shuffling: a new masking approach for numerical data, Management Science 52(5);
    catalogue P21.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> shuffled = dc.Shuffle(columns=["income"], predictors=["age", "education"])(people, seed=7)
    >>> bool((shuffled.frame["income"].sort() == people.frame["income"].sort()).all())
    True
    """

    columns: Columns = ()
    """columns to shuffle (numeric, ordinal, dates); without it, the numeric quasi-identifiers and sensitive columns"""
    predictors: Columns = ()
    """columns whose relation with the shuffled ones is kept; without it, the other quasi-identifiers"""

    scale: ClassVar[Scale] = "columns"
    random: ClassVar[bool] = True
    by_group: ClassVar[bool] = True
    purpose: ClassVar[Purpose] = "swap"
    effect: ClassVar[str] = (
        "The distribution of each column is exact; relations to the columns that the model knows are kept "
        "approximately as rank correlations, others are lost."
    )
    guarantee: ClassVar[str] = (
        "True values were dealt out anew by a model: each column's distribution is exact, but a value does not belong "
        "to its record; what other columns predict of a value can still be inferred."
    )

    def holds(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to shuffle, the predictors, and those that form groups."""
        columns = data.choose(self.columns, "perturb")
        return self._reads_also(data, (*columns, *self._predictors(data, columns)))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Fit the model, draw new scores, deal the values out by their ranks."""
        columns = data.choose(self.columns, "perturb")
        expected, factor = self.model(data, ctx)
        drawn = np.empty_like(expected)
        for batch in ctx.batches(len(expected), f"{ctx.step}: drawing"):
            rows = slice(batch.start, batch.stop)
            noise = batch.rng.standard_normal((batch.stop - batch.start, expected.shape[1]))
            drawn[rows] = expected[rows] + noise @ factor.T
        new = {
            name: data.frame[name].gather(_dealt(_ordered(data, name), drawn[:, number]))
            for number, name in enumerate(columns)
        }
        return data.with_columns(new)

    def model(self, data: Dataset, ctx: Context) -> tuple[Floats, Floats]:
        """Fit the model: the scores that it expects of each record, and a factor of the covariance of its errors.

        An intruder who knows the method and the predictors computes the same.
        """
        columns = data.choose(self.columns, "perturb")
        scores = self.scores(data, columns)
        for name, x in zip(columns, scores.T, strict=True):
            present = x[~np.isnan(x)]
            if not len(present):
                raise DataError(f"column {name!r} has no values")
            if present.min() == present.max():
                raise DataError(f"column {name!r} is constant: all {len(x)} values are equal or missing")
        design = _design(data, self._predictors(data, columns))
        coefficients, factor = _model(scores, design, ctx)
        expected = np.empty_like(scores)
        for start in range(0, len(scores), BATCH_ROWS):
            rows = slice(start, min(start + BATCH_ROWS, len(scores)))
            expected[rows] = design(rows) @ coefficients
        return expected, factor

    def scores(self, data: Dataset, columns: Sequence[str]) -> Floats:
        """Give the normal scores of ordered columns side by side, missing as NaN."""
        return np.column_stack([normal_scores(_ordered(data, name)) for name in columns])

    def terms(self, data: Dataset, column: str) -> Floats:
        """Give what a column adds to the design of the model: its scores, or an indicator for each category."""
        return _design(data, [column])(slice(0, len(data)))[:, 1:]

    def _predictors(self, data: Dataset, columns: Sequence[str]) -> tuple[str, ...]:
        if both := set(columns) & set(self.predictors):
            raise PlanError(f"{self.kind}: {min(both)!r} stands both in `columns` and in `predictors`")
        chosen = self.predictors or tuple(
            name for name in data.having("quasi") if name not in columns and data.type_of(name) != "set"
        )
        if not chosen:
            raise PlanError(f"{self.kind}: there are no quasi-identifiers besides the columns; give `predictors`")
        return data.choose(chosen, "classes")


def _ordered(data: Dataset, column: str) -> Floats:
    """Give numbers in the order of a column's values, missing as NaN."""
    import polars as pl

    if not isinstance(data.levels.get(column, 0), int):
        raise DataError(f"column {column!r} was generalized record by record; shuffle needs one level")
    series, order = data.frame[column], data.schema[column].order
    if data.is_numeric(column):
        return data.number(column)
    if order:
        places = {name: float(place) for place, name in enumerate(order)}
        coded = data.codes(column)
        known = [np.nan if value is None else places.get(canonical(value), -1.0) for value in coded.values]
        numbers = np.array(known)[coded.codes] if known else np.empty(0)
        if outside := int((numbers < 0).sum()):
            raise DataError(f"column {column!r}: {outside} values do not stand in the order of its schema")
        return numbers
    if series.dtype.is_temporal() or series.dtype == pl.Enum:
        return series.to_physical().cast(pl.Float64).to_numpy()
    raise DataError(f"column {column!r} is {data.type_of(column)}; shuffle needs numbers, dates or an order")


def normal_scores(x: Floats) -> Floats:
    """Give the normal quantile of each value's rank; equal values share the mean of their ranks, NaN stays NaN."""
    from discretion.kernels.distributions import normal_quantile
    from discretion.kernels.order import sorted_with_order

    scores = np.full(len(x), np.nan)
    present = np.flatnonzero(~np.isnan(x))
    if not len(present):
        return scores
    ordered, order = sorted_with_order(x[present])
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    ends = np.append(starts[1:], len(ordered))
    middle = np.repeat((starts + ends) / 2, ends - starts)
    scores[present[order]] = normal_quantile(middle / len(ordered))
    return scores


def _design(data: Dataset, predictors: Sequence[str]) -> Block:
    """Give the function that builds the design matrix of some rows: a constant, scores, indicators."""
    scored: list[Floats] = []
    coded: list[tuple[NDArray[Any], int]] = []
    for name in predictors:
        coarser = bool(np.any(data.levels.get(name, 0))) and not data.is_numeric(name)
        if coarser or data.type_of(name) in ("nominal", "set"):
            if data.type_of(name) == "set" or len(data.classes([name])) > MOST_CATEGORIES:
                raise DataError(f"predictor {name!r} holds sets or more than {MOST_CATEGORIES} categories: recode it")
            coded.append((data.classes([name]).ids, len(data.classes([name]))))
        else:
            scored.append(np.nan_to_num(normal_scores(_ordered(data, name)), nan=0.0))

    def block(rows: slice) -> Floats:
        size = len(range(*rows.indices(len(data))))
        parts = [np.ones((size, 1)), *(x[rows, None] for x in scored)]
        for ids, count in coded:
            parts.append(np.zeros((size, count)))
            parts[-1][np.arange(size), ids[rows]] = 1.0
        return np.hstack(parts)

    return block


def _model(scores: Floats, design: Block, ctx: Context) -> tuple[Floats, Floats]:
    """Fit the model on the complete records: its coefficients, and a factor of the covariance of its errors."""
    width = design(slice(0, 0)).shape[1]
    xx, xz = np.zeros((width, width)), np.zeros((width, scores.shape[1]))
    zz, count = np.zeros((scores.shape[1], scores.shape[1])), 0
    for rows in _blocks(len(scores), ctx):
        complete = ~np.isnan(scores[rows]).any(axis=1)
        x, z = design(rows)[complete], scores[rows][complete]
        xx, xz, zz, count = xx + x.T @ x, xz + x.T @ z, zz + z.T @ z, count + len(z)
    coefficients, _, rank, _ = np.linalg.lstsq(xx, xz, rcond=None)
    if count <= rank + 1:
        raise DataError(f"shuffle: {count} complete records are too few for a model with {rank} terms")
    covariance = (zz - coefficients.T @ xx @ coefficients) / (count - rank)
    roots, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray(coefficients, np.float64), np.asarray(vectors * np.sqrt(np.maximum(roots, 0.0)), np.float64)


def _blocks(rows: int, ctx: Context) -> Iterator[slice]:
    for start in range(0, rows, BATCH_ROWS):
        ctx.progress(start, rows, f"{ctx.step}: fitting")
        yield slice(start, min(start + BATCH_ROWS, rows))


def _dealt(values: Floats, drawn: Floats) -> NDArray[np.uint32]:
    """Give for each row the row whose value it gets: that of the same rank; rows without a value keep theirs."""
    from discretion.kernels.order import stable_order

    present = np.flatnonzero(~np.isnan(values))
    source = np.arange(len(values), dtype=np.uint32)
    source[present[stable_order(drawn[present])]] = present[stable_order(values[present])]
    return source
