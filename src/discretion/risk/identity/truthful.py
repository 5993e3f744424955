"""Are the published quasi-identifiers true? Measures of uniqueness say little where they are not (R10).

They count who shares the published values. Sampling, recoding and suppression leave these true, if coarser; noise,
swapping, PRAM or microaggregation do not, and an intruder then errs in ways that a count of classes does not see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion.data.dataset import Dataset
from discretion.kernels.arrays import Bools
from discretion.measure import source_of

if TYPE_CHECKING:
    import polars as pl


def having_column(original: Dataset, released: Dataset, column: str) -> Dataset:
    """Give the release, or its source where only that has the column (weights are often not published)."""
    if column not in released.columns:
        source = source_of(original, released)
        if source is not None and column in source.columns:
            return source
    released.require([column])
    return released


def perturbed_columns(original: Dataset, released: Dataset, columns: Sequence[str]) -> tuple[str, ...]:
    """Name the columns whose published values are not the true ones or coarser ones.

    Looks at cells that are there in both, at level 0 of a hierarchy, in columns that kept their type; of text
    only values that occur in the source (others are groups or ranges). A recoding gives
    equal values equal values, and gives a value it maps to back unchanged; numbers keep their order or move together.
    What else changed was perturbed. Rows from outside that nothing matches are compared as they stand, where there are
    as many: rather a warning too many. Nothing is found where the source is not known. Time linear.
    """
    source = source_of(original, released)
    if source is None and original is not released and len(original) == len(released):
        source = original
    if source is None:
        return ()
    both = [name for name in columns if name in source.columns and name in released.columns]
    return tuple(name for name in both if _perturbed(source, released, name))


def warning(original: Dataset, released: Dataset, columns: Sequence[str]) -> Mapping[str, Any]:
    """Give what a measure of uniqueness adds to its detail where quasi-identifiers were perturbed."""
    found = perturbed_columns(original, released, columns)
    if not found:
        return {}
    names = ", ".join(found)
    text = f"the published values of {names} were perturbed; this figure takes them as true, use a linkage attack"
    return {"warning": text, "perturbed": list(found)}


def said(meaning: str, warned: Mapping[str, Any]) -> str:
    """Give the meaning of a figure with the warning, where there is one."""
    return f"{meaning} Warning: {warned['warning']}." if warned else meaning


def _perturbed(source: Dataset, released: Dataset, column: str) -> bool:
    before, after = source.frame[column], released.frame[column]
    kinds = _kind(before), _kind(after)
    if kinds[0] != kinds[1] or before.equals(after, null_equal=True):
        return False
    compared = _plain_cells(source, released, column)
    if not compared.any():
        return False
    from discretion.kernels.classes import class_ids

    old, new = source.codes(column), released.codes(column)
    pairs = class_ids([old.codes[compared], new.codes[compared]], [old.size, new.size], int(compared.sum()))
    first = np.flatnonzero(compared)[pairs.first_row]
    distinct = len(np.unique(old.codes[first]))
    if distinct < len(first):
        return True  # the same value was published as different ones
    return not _is_recoding(before.gather(first), after.gather(first), pairs.counts)


def _plain_cells(source: Dataset, released: Dataset, column: str) -> Bools:
    """Tell which cells have a value in both that was not generalized."""
    old, new = source.codes(column), released.codes(column)
    plain = np.broadcast_to(released.levels.get(column, 0), len(released)) == 0
    if _kind(source.frame[column]) == "text":
        # a label that no record had is a group or a range, wherever it was made; perturbation draws from the values
        domain = set(map(str, old.values))
        plain = plain & np.array([str(value) in domain for value in new.values], dtype=np.bool_)[new.codes]
    return np.asarray((old.codes != old.missing) & (new.codes != new.missing) & plain)


def _is_recoding(before: pl.Series, after: pl.Series, counts: NDArray[np.int64]) -> bool:
    """Tell whether a map from values to values is a recoding; `counts` tells how many records each value has."""
    ordered = before.dtype.is_numeric() or before.dtype.is_temporal()
    if ordered:
        before, after = before.to_physical().cast(float), after.to_physical().cast(float)
        steps = after[before.arg_sort()].diff().drop_nulls()
        if steps.is_empty() or bool((steps >= 0).all()) or bool((steps <= 0).all()):
            return True
    told = dict(zip(*(map(str, values.to_list()) for values in (before, after)), strict=True))
    if any(told.get(value, value) != value for value in set(told.values())):
        return False
    moved = np.array([old != new for old, new in told.items()])
    # values that each occur once and moved across each other: noise rather than a group that was renamed
    return not ordered or bool((counts[moved] > 1).any())


def _kind(series: pl.Series) -> str:
    """Name the kind of a column's values; those of one kind are compared."""
    import polars as pl

    if series.dtype.is_numeric():
        return "number"
    return "text" if series.dtype in (pl.String, pl.Categorical, pl.Enum) else str(series.dtype)
