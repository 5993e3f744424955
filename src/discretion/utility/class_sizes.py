"""Loss read off the sizes of the equivalence classes (U7, U8)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.measure import Better, Measure, Score
from discretion.part import Columns, confidential


class AverageClassSize(Measure, kind="average-class-size"):
    """Mean number of records per class, divided by k: 1 is the best a k-anonymous release can do.

    (records / classes) / k. Suppressed records do not count. Missing values are a category of their own. Time linear.

    References
    ----------
    LeFevre, DeWitt & Ramakrishnan (2006); catalogue U7.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> dc.AverageClassSize(k=2, columns=["a"])(pl.DataFrame({"a": [1, 1, 2, 2, 2, 2]})).value
    1.5
    """

    k: int = confidential(ge=1)
    """the k of the k-anonymity aimed at"""
    columns: Columns = ()
    """columns that define the classes; without it, the quasi-identifiers"""

    better: ClassVar[Better] = "lower"
    needs: ClassVar[Literal["both", "released"]] = "released"

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Divide records by classes."""
        counts = released.class_counts(released.choose(self.columns, "classes"))
        value = float(counts.sum() / len(counts) / self.k)
        meaning = f"Classes have {counts.mean():.4g} records on average."
        return self.score(value, meaning, classes=len(counts), mean_size=float(counts.mean()))


class Discernibility(Measure, kind="discernibility"):
    """Sum over all records of the number of records each cannot be told from.

    Σ |E|² over the classes; a suppressed record costs as much as the whole data set. A record counts as suppressed when
    it was dropped or all its class columns are. Grows with the square of the data size; the detail has the mean per
    record, and its `share` of all records, which compares between data of different size. Missing values are a category
    of their own. Time linear.

    References
    ----------
    Bayardo & Agrawal (2005); catalogue U8.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> dc.Discernibility(columns=["a"])(pl.DataFrame({"a": [1, 1, 2, 2, 2, 2]})).value
    20.0
    """

    columns: Columns = ()
    """columns that define the classes; without it, the quasi-identifiers"""

    better: ClassVar[Better] = "lower"
    needs: ClassVar[Literal["both", "released"]] = "released"

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Add the squares of the class sizes."""
        columns = released.choose(self.columns, "classes")
        hidden = np.ones(len(released), dtype=bool)
        for name in columns:
            hidden &= released.suppressed(name)
        gone = int(hidden.sum()) + released.lost_records
        total = len(released) + released.lost_records
        if hidden.any():
            value = float(released.class_sizes(columns)[~hidden].sum())
        else:
            value = float((released.class_counts(columns).astype(np.float64) ** 2).sum())
        value += float(gone) * total
        meaning = f"A record cannot be told from {value / total:.4g} records on average."
        return self.score(value, meaning, mean=value / total, share=value / total**2, suppressed_records=gone)
