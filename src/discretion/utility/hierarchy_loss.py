"""Loss of detail by generalization: levels applied (U5, U6, U9, U10) and sizes of the classes (U7, U8)."""

from __future__ import annotations

from types import MappingProxyType
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError
from discretion.kernels.arrays import Floats, Ints
from discretion.measure import Better, Measure, Score
from discretion.part import Columns, ColumnWeights, Scale, confidential

# Loss read off the sizes of the equivalence classes (U7, U8).


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

    scale: ClassVar[Scale] = "classes"
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

    scale: ClassVar[Scale] = "classes"
    needs: ClassVar[Literal["both", "released"]] = "released"

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Add the squares of the class sizes."""
        columns = released.choose(self.columns, "classes")
        hidden = np.ones(len(released), dtype=bool)
        for name in columns:
            hidden &= released.suppressed(name)
        gone = released.tally(hidden) + released.lost_records
        total = released.records + released.lost_records
        if hidden.any():
            sizes = released.class_sizes(columns)
            value = float((sizes if released.counts is None else sizes * released.counts)[~hidden].sum())
        else:
            value = float((released.class_counts(columns).astype(np.float64) ** 2).sum())
        value += float(gone) * total
        meaning = f"A record cannot be told from {value / total:.4g} records on average."
        return self.score(value, meaning, mean=value / total, share=value / total**2, suppressed_records=gone)


class _LevelLoss(Measure):
    """What measures on generalization levels share."""

    columns: Columns = ()
    """columns with a hierarchy; without it, all that have one"""

    needs: ClassVar[Literal["both", "released"]] = "released"
    scale: ClassVar[Scale] = "columns"
    screens_with: ClassVar[int | None] = 0

    def _columns(self, data: Dataset) -> tuple[str, ...]:
        known = data.origin.schema.columns
        if self.columns:
            data.require(self.columns)
            without = [name for name in self.columns if name not in known or known[name].hierarchy is None]
            if without:
                raise DataError(f"{self.kind}: column {without[0]!r} has no hierarchy")
            return self.columns
        found = tuple(name for name in data.columns if name in known and known[name].hierarchy is not None)
        if not found:
            raise DataError(f"{self.kind}: no column has a hierarchy")
        return found


def _levels(data: Dataset, column: str) -> Ints:
    """Give each record's level; a suppressed cell stands at the top."""
    levels = np.broadcast_to(np.asarray(data.cell_levels(column)), len(data)).astype(np.int64)
    return np.where(data.suppressed(column), data.hierarchy(column).height, levels)


class Precision(_LevelLoss, kind="precision"):
    """How much detail is left, from 1 (nothing generalized) to 0 (everything at the top of its hierarchy).

    1 − the mean of level/height over all cells. Suppressed cells and records count as fully generalized. Levels of
    different hierarchies weigh the same however many values they merge. Time linear.

    References
    ----------
    Sweeney (2002); catalogue U5.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> dc.Precision(columns=["sex"])(dc.Generalize(levels={"sex": 1})(people)).value
    0.0
    """

    better: ClassVar[Better] = "higher"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Average level over height."""
        columns = self._columns(released)
        total = len(released) + released.lost_records
        per_column = {
            name: 1.0
            - float((_levels(released, name) / max(released.hierarchy(name).height, 1)).sum() + released.lost_records)
            / total
            for name in columns
        }
        value = float(np.mean(list(per_column.values())))
        return self.score(value, f"{value:.1%} of the detail of the hierarchies is left.", per_column=per_column)


class ILoss(_LevelLoss, kind="iloss"):
    """Mean loss per record: the share of a column's values that a generalized value could stand for.

    Per cell (leaves below the published label − 1) / leaves of the hierarchy, times the column's weight, summed over
    the columns, averaged over the records. Suppressed cells and records count as the top. Time linear.

    References
    ----------
    Xiao & Tao (2006); catalogue U6.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> dc.ILoss(columns=["sex"])(dc.Generalize(levels={"sex": 1})(people)).value
    0.5
    """

    weights: ColumnWeights = Field(default_factory=lambda: MappingProxyType({}))
    """weight of each column's loss; columns not named weigh 1"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Average the weighted losses."""
        columns = self._columns(released)
        if wrong := [name for name in self.weights if name not in columns]:
            raise DataError(f"iloss: there is a weight for {wrong[0]!r}, which is not among the columns")
        per_record = np.zeros(len(released))
        lost = 0.0
        for name in columns:
            weight = self.weights.get(name, 1.0)
            per_record += weight * _leaf_share(released, name)
            lost += weight * (released.hierarchy(name).size - 1) / released.hierarchy(name).size
        total = len(released) + released.lost_records
        value = float((per_record.sum() + lost * released.lost_records) / total)
        return self.score(value, f"The mean weighted loss per record is {value:.4g}.", per_record=per_record)


def _leaf_share(data: Dataset, column: str) -> Floats:
    """Give each record (leaves below its label − 1) / leaves."""
    hierarchy = data.hierarchy(column)
    levels = _levels(data, column)
    codes = data.codes(column)
    texts = [None if value is None else canonical(value) for value in codes.values]
    share = np.zeros(len(data))
    for level in np.unique(levels):
        below = hierarchy.leaves_under(int(level))
        counts = np.array([1 if text is None else below.get(text, 1) for text in texts], dtype=float)
        share = np.where(levels == level, (counts[codes.codes] - 1) / hierarchy.size, share)
    return np.where(data.suppressed(column), (hierarchy.size - 1) / hierarchy.size, share)


class Granularity(_LevelLoss, kind="granularity"):
    """How precise the published values are, from 1 (original values) to 0 (all at the top), as ARX reports it.

    Per column 1 − the mean over the records of (leaves below the label − 1) / (leaves of the hierarchy − 1); suppressed
    cells and records count as the top. The value is that of all columns together: what they lose, Σ (leaves − 1) / all
    leaves, over the most that they can lose, so that columns of few values weigh less. The detail holds each column's,
    and the geometric mean as ARX takes it. Levels may differ from record to record: local recoding, one level for all
    and other tools compare on one yardstick. Ignores how frequent values are. Time linear.

    References
    ----------
    Iyengar (2002), KDD; Prasser, Eicher, Spengler, Bild & Kuhn (2020), Software: Practice and Experience 50(7);
    catalogue U6.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> round(dc.Granularity(columns=["sex", "region"])(dc.Generalize(levels={"sex": 1})(people)).value, 3)
    0.647
    """

    better: ClassVar[Better] = "higher"

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Compare what is lost with the most that can be."""
        total = len(released) + released.lost_records
        columns = self._columns(released)
        most = np.array([1 - 1 / released.hierarchy(name).size for name in columns])
        whole = [_leaf_share(released, name).sum() for name in columns] + released.lost_records * most
        lost = np.asarray(whole) / total
        each = 1 - np.divide(lost, most, out=np.zeros(len(columns)), where=most > 0)
        value = 1 - float(lost.sum() / most.sum()) if most.any() else 1.0
        least, reached = (float(np.exp(np.log1p(one).mean())) - 1 for one in (1 - most, 1 - most + lost))
        geometric = 1 - (reached - least) / (1 - least) if most.any() else 1.0
        return self.score(
            value,
            f"Of the detail of the values {value:.4g} is left.",
            per_column=dict(zip(columns, each.tolist(), strict=True)),
            geometric_mean=geometric,
        )


class Height(_LevelLoss, kind="height"):
    """Sum of the generalization levels of all columns.

    Local recoding counts the highest level that occurs in a column. Ignores suppression and how many values a level
    merges. Time linear.

    References
    ----------
    Catalogue U9.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> dc.Height()(dc.Generalize(levels={"sex": 1, "age": 2})(people)).value
    3.0
    """

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Add the levels."""
        columns = self._columns(released)
        per_column = {name: int(np.max(released.cell_levels(name))) for name in columns}
        value = float(sum(per_column.values()))
        highest = sum(released.hierarchy(name).height for name in columns)
        return self.score(
            value, f"The levels add up to {value:g} of {highest}.", per_column=per_column, highest=highest
        )


class NonUniformEntropy(_LevelLoss, kind="non-uniform-entropy"):
    """Bits lost when each value is replaced by its generalized group.

    Σ −log2(frequency of the value / frequency of its group) over all cells, frequencies in the original data. A
    suppressed cell's group is everybody. Cells missing in the original are left out. Time linear.

    References
    ----------
    De Waal & Willenborg (1999); Gionis & Tassa (2009); catalogue U10.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> dc.NonUniformEntropy(columns=["sex"])(people, people).value
    0.0
    """

    needs: ClassVar[Literal["both", "released"]] = "both"

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Add the bits."""
        per_column = {name: float(_bits(original, released, name).sum()) for name in self._columns(released)}
        value = float(sum(per_column.values()))
        cells = len(original) * len(per_column)
        return self.score(
            value, f"{value / cells:.3g} bits are lost per cell.", per_column=per_column, mean=value / cells
        )


def _bits(original: Dataset, released: Dataset, column: str) -> Floats:
    hierarchy = original.hierarchy(column)
    codes = original.codes(column)
    values = codes.values
    present = np.array([value is not None for value in values], dtype=bool)
    counts = np.bincount(codes.codes, minlength=codes.size).astype(float) * present
    rows = np.zeros(codes.size, dtype=np.int64)
    rows[present] = hierarchy.rows([canonical(value) for value in values if value is not None])
    levels = np.broadcast_to(np.asarray(released.cell_levels(column)), len(released))
    group = np.zeros(len(released))
    for level in np.unique(levels):
        labels = np.unique(np.array(hierarchy.table[int(level)]), return_inverse=True)[1][rows]
        sums = np.bincount(labels, weights=counts)
        group = np.where(levels == level, sums[labels][codes.codes], group)
    group = np.where(released.suppressed(column), counts.sum(), group)
    own = counts[codes.codes]
    return np.where(own > 0, np.log2(np.maximum(group, 1.0) / np.maximum(own, 1.0)), 0.0)
