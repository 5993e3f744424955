"""The same columns of the original and of the release, read alike, with their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Floats, Ints
from discretion.learning.columns import Labels, Numbers, Values, labels_of, merge, numbers_of_both
from discretion.learning.values import weights_of


@dataclass(frozen=True)
class Pair:
    """One column in both data sets; categories are numbered alike."""

    name: str
    original: Values
    released: Values


def choose_columns(original: Dataset, released: Dataset, named: Sequence[str], who: str) -> tuple[str, ...]:
    """Give the named columns, or all but identifiers and weights that both data sets have (no sets)."""
    chosen = original.choose(named, "compare")
    if named:
        released.require(chosen)
        return chosen
    both = tuple(n for n in chosen if n in released.columns and not original.frame.schema[n].is_nested())
    if not both:
        raise DataError(f"{who}: the release has none of the columns of the original; give `columns`")
    return both


def numeric_columns(original: Dataset, released: Dataset, named: Sequence[str], who: str) -> tuple[str, ...]:
    """Give the named columns, or all numbers of the original that the release has; each must still be a number.

    A generalized column is an error also when nobody named it: left out silently, it would count as unchanged.
    """
    chosen = original.choose(named, "compare-numbers")
    if named:
        released.require(chosen)
    both = tuple(name for name in chosen if name in released.columns)
    if not both:
        raise DataError(f"{who}: the release has none of the numeric columns of the original; give `columns`")
    if other := [repr(name) for name in both if original.is_numeric(name) and not released.is_numeric(name)]:
        raise DataError(
            f"{who}: numeric in the original and not in the release (generalized or recoded): {', '.join(other)}; no "
            "difference can be computed. Name the `columns` to measure without it, and measure what was generalized by "
            "`precision`, `iloss` or `marginals`"
        )
    return both


def unseen(original: Dataset, released: Dataset, named: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Say what a comparison of numbers does not see: suppressed records, and numeric columns not released."""
    detail: dict[str, Any] = {}
    parts = []
    if lost := released.lost_records:
        detail["lost_records"] = lost
        parts.append(f"{lost} suppressed records" if lost > 1 else "1 suppressed record")
    if gone := [name for name in original.choose(named, "compare-numbers") if name not in released.columns]:
        detail["columns_not_released"] = gone
        parts.append(f"columns not released ({', '.join(gone)})")
    return (f" Not in this figure: {'; '.join(parts)}." if parts else ""), detail


def read_pair(original: Dataset, released: Dataset, name: str) -> Pair:
    """Read a column as numbers where both have numbers (or dates), as categories otherwise."""
    numbers = numbers_of_both(original, released, name, "utility")
    if numbers is not None:
        return Pair(name, *numbers)
    return Pair(name, *merge([labels_of(original, name), labels_of(released, name)]))


def shares_of(data: Dataset, who: str) -> Floats:
    """Give each record's share of the total: by its weight where a column has that role, equal otherwise."""
    weights = weights_of(data, who)
    return np.full(len(data), 1 / len(data)) if weights is None else weights / weights.sum()


def bin_edges(values: Floats, shares: Floats, bins: int) -> Floats:
    """Cut numbers at their quantiles: at most so many bins, values up to and with each edge, none empty."""
    present = ~np.isnan(values)
    order = np.argsort(values[present], kind="stable")
    ladder, heights = values[present][order], np.cumsum(shares[present][order])
    if not len(ladder) or heights[-1] <= 0:
        return np.empty(0)
    levels = np.arange(1, bins) / bins * heights[-1] * (1 - 1e-12)
    edges = np.unique(ladder[np.minimum(np.searchsorted(heights, levels), len(ladder) - 1)])
    return np.asarray(edges[edges < ladder[-1]])


def as_codes(pair: Pair, shares: Floats, bins: int) -> tuple[Ints, Ints, int]:
    """Give both sides of a column as codes and their number: categories, or bins of the original; missing last."""
    if isinstance(pair.original, Numbers) and isinstance(pair.released, Numbers):
        edges = bin_edges(pair.original.values, shares, bins)
        size = len(edges) + 2
        sides = [
            np.where(np.isnan(x), size - 1, np.searchsorted(edges, x, "left")).astype(np.int64)
            for x in (pair.original.values, pair.released.values)
        ]
        return sides[0], sides[1], size
    labels = [side for side in (pair.original, pair.released) if isinstance(side, Labels)]
    size = len(labels[0].names) + 1
    first, second = (np.where(side.codes < 0, size - 1, side.codes) for side in labels)
    return first, second, size
