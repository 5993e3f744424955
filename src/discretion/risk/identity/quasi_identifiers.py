"""Which columns identify? Distinction and separation of every subset of columns (R10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family, Scale
from discretion.risk.identity.suda import largest_subset
from discretion.risk.identity.truthful import said, warning

if TYPE_CHECKING:
    import polars as pl

_SUBSETS_SHOWN = 50


@dataclass(frozen=True)
class ColumnSubset:
    """How well some columns tell the records apart."""

    columns: tuple[str, ...]
    distinction: float
    """different combinations of values, as a share of the records"""
    separation: float
    """share of all pairs of records that differ in at least one of the columns"""
    is_key: bool
    """no two records agree"""

    def to_dict(self) -> dict[str, Any]:
        """Give plain data."""
        return {"columns": list(self.columns), "distinction": self.distinction, "separation": self.separation}


class QuasiIdentifiers(Measure, kind="quasi-identifiers"):
    """How well subsets of the columns tell the records apart, and which columns identify.

    For every subset of at most `max_size` columns: *distinction*, the number of different combinations of values
    divided by the number of records (1: nobody is like anybody else), and *separation*, the share of all pairs of
    records that differ in it. The value is the largest distinction that an intruder reaches who knows at most `known`
    columns. The detail has the best subset of each size, each column alone, the distinction that would be lost without
    each column, the subsets of highest distinction, and the minimal keys: the smallest sets of columns that tell all
    records apart. `per_record` is 1/(size of the record's class) on the best subset of at most `known` columns.
    With `smaller_than` the detail also has `small_cells`: for every subset how many of its combinations fewer records
    share, and how many records these are (the risky cells of a threshold). `table` gives the same as a frame.

    Exact. Warns where the source of the release is known and columns were perturbed. Does not tell whether an intruder
    can know a column, nor how many people of the population share a combination. Time at most linear in the rows for
    each subset, memory linear.

    References
    ----------
    Motwani & Xu (2007), Efficient algorithms for masking and finding quasi-identifiers; catalogue R10.

    Examples
    --------
    >>> import discretion as dc
    >>> table = dc.datasets.people_without_names()
    >>> score = dc.QuasiIdentifiers(columns=["zip", "age", "sex"], known=1)(table)
    >>> score.value, score.detail["minimal_keys"]
    (1.0, [['age']])
    >>> round(dc.QuasiIdentifiers(columns=["zip", "sex"])(table).value, 4)
    0.7778
    """

    columns: Columns = ()
    """columns to combine; without it, the quasi-identifiers"""
    known: int = Field(3, ge=1)
    """largest number of columns that an intruder knows (or `max_size`, where that is smaller)"""
    max_size: int | None = Field(None, ge=1)
    """largest subset of columns to look at; without it, all"""
    missing: Literal["category", "ignore"] = "category"
    """how a missing value counts: as a category of its own, or by leaving its record out"""
    smaller_than: int | None = Field(None, ge=2)
    """count the combinations that fewer records than this share; without it, they are not counted"""

    family: ClassVar[Family] = "risk"
    scale: ClassVar[Scale] = "classes"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Literal["both", "released"]] = "released"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Count the combinations of every subset."""
        columns = released.choose(self.columns, "classes")
        subsets = self.subsets(released, ctx)
        best = _best([s for s in subsets if len(s.columns) <= self.known])
        sizes = sorted({len(s.columns) for s in subsets})
        by_size = {size: _best([s for s in subsets if len(s.columns) == size]).to_dict() for size in sizes}
        shown = sorted(subsets, key=_rank)[:_SUBSETS_SHOWN]
        warned = warning(original, released, columns)
        names = " and ".join(best.columns) if len(best.columns) < 3 else ", ".join(best.columns)
        meaning = f"{names}: {as_percent(best.distinction)} as many different combinations as there are records."
        small: dict[str, Any] = {}
        if self.smaller_than is not None:
            rows = self._small_cells(released, subsets, self.smaller_than)
            total = sum(row["small_cells"] for row in rows)
            small = {"small_cells": rows, "small_cells_in_all": total}
            meaning += (
                f" {total:,} combinations of up to {sizes[-1]} columns have fewer than {self.smaller_than} records."
            )
        return self.score(
            best.distinction,
            said(meaning, warned),
            per_record=self._per_record(released, columns, best.columns),
            columns=list(columns),
            records=released.records,
            chance=1.0 / released.records,
            best=best.to_dict(),
            best_of_size=by_size,
            single={s.columns[0]: s.to_dict() for s in subsets if len(s.columns) == 1},
            lost_without=_lost_without(subsets, columns),
            minimal_keys=[list(s.columns) for s in minimal_keys(subsets)[:_SUBSETS_SHOWN]],
            subsets=[s.to_dict() for s in shown],
            subsets_counted=len(subsets),
            **small,
            **warned,
        )

    def subsets(self, data: Dataset, ctx: Context | None = None) -> list[ColumnSubset]:
        """Give distinction and separation of every subset, small ones first, columns in their order."""
        from discretion.kernels.subsets import CodedColumn, separations

        ctx = ctx or Context(0, self.kind)
        columns = data.choose(self.columns, "classes")
        size = largest_subset(self.kind, len(columns), self.max_size)
        if "known" in self.model_fields_set and size < min(self.known, len(columns)):
            raise PlanError(f"{self.kind}: `max_size` is {size}, less than the {self.known} columns `known`")
        data = self._counted(data, columns)
        classes = data.classes(columns)
        coded = [CodedColumn.of(data.codes(name).codes[classes.first_rows]) for name in columns]
        order = sorted(range(len(columns)), key=lambda j: coded[j].size)
        found = separations([coded[j] for j in order], classes.counts, size, ctx.progress, "subsets of columns")
        n = data.records
        pairs = n * (n - 1) // 2
        result = []
        for mask, counted in found.items():
            chosen = sorted(order[bit] for bit in range(len(columns)) if mask >> bit & 1)
            separated = 1 - counted.together / pairs if pairs else 1.0
            names = tuple(columns[j] for j in chosen)
            result.append((chosen, ColumnSubset(names, counted.distinct / n, separated, counted.distinct == n)))
        return [subset for _, subset in sorted(result, key=lambda pair: (len(pair[0]), pair[0]))]

    def table(self, data: Any, smaller_than: int | None = None) -> pl.DataFrame:
        """Give a row for every subset: its columns, how many they are, distinction and separation.

        With `smaller_than` also the combinations that fewer records share (`small_cells`), and the records in them.
        """
        import polars as pl

        limit = self.smaller_than if smaller_than is None else smaller_than
        if limit is not None and limit < 2:
            raise PlanError(f"{self.kind}: `smaller_than` must be 2 or more, not {limit}")
        dataset = Dataset.of(data)
        subsets = self.subsets(dataset)
        table = pl.DataFrame(
            {
                "columns": [list(s.columns) for s in subsets],
                "size": [len(s.columns) for s in subsets],
                "distinction": [s.distinction for s in subsets],
                "separation": [s.separation for s in subsets],
            }
        )
        if limit is None:
            return table
        small = self._small_cells(dataset, subsets, limit)
        return table.with_columns(
            pl.Series(name, [row[name] for row in small], pl.Int64) for name in ("small_cells", "small_records")
        )

    def _small_cells(self, data: Dataset, subsets: list[ColumnSubset], limit: int) -> list[dict[str, Any]]:
        """For every subset, count the combinations that fewer records share, and these records."""
        kept = self._counted(data, data.choose(self.columns, "classes"))
        rows = []
        for subset in subsets:
            counts = kept.class_counts(subset.columns)
            small = counts[counts < limit]
            rows.append({"columns": list(subset.columns), "small_cells": len(small), "small_records": int(small.sum())})
        return rows

    def _per_record(self, data: Dataset, columns: tuple[str, ...], best: tuple[str, ...]) -> NDArray[np.float64]:
        """Give 1/(size of the class) among the records that count; NaN for the others."""
        kept = self._counted(data, columns)
        sizes = kept.class_sizes(best)
        if kept is data:
            return 1.0 / sizes
        complete = np.logical_and.reduce([c.codes != c.missing for c in map(data.codes, columns)])
        found = np.full(len(data), np.nan)
        found[complete] = 1.0 / sizes
        return found

    def _counted(self, data: Dataset, columns: tuple[str, ...]) -> Dataset:
        """Leave incomplete records out where they are to be ignored."""
        if self.missing == "category" or not any(data.count_missing(name) for name in columns):
            return data
        coded = [data.codes(name) for name in columns]
        complete = np.logical_and.reduce([c.codes != c.missing for c in coded])
        if not complete.any():
            raise DataError(f"{self.kind}: every record has a missing value in {', '.join(columns)}; none is left")
        return data.take(complete)


def minimal_keys(subsets: list[ColumnSubset]) -> list[ColumnSubset]:
    """Give the subsets that tell all records apart and of which no smaller part does, small ones first."""
    keys = {subset.columns: subset for subset in subsets if subset.is_key}
    return [
        key
        for names, key in keys.items()
        if not any(names[:place] + names[place + 1 :] in keys for place in range(len(names)))
    ]


def _rank(subset: ColumnSubset) -> tuple[float, float, int]:
    return -subset.distinction, -subset.separation, len(subset.columns)


def _best(subsets: list[ColumnSubset]) -> ColumnSubset:
    return min(subsets, key=_rank)


def _lost_without(subsets: list[ColumnSubset], columns: tuple[str, ...]) -> dict[str, float]:
    """Give the distinction that is lost without each column; empty where not all sizes were counted."""
    known = {subset.columns: subset.distinction for subset in subsets}
    if columns not in known:
        return {}
    rest = {name: tuple(other for other in columns if other != name) for name in columns}
    return {name: known[columns] - known.get(rest[name], 0.0) for name in columns}
