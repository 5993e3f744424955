"""How many subsets of the columns a measure may look at."""

from __future__ import annotations

from discretion.errors import PlanError

MOST_SUBSETS = 1 << 16
"""Subsets of columns that are looked at in one measure: all of sixteen columns."""


def largest_subset(kind: str, columns: int, max_size: int | None) -> int:
    """Give the size of the largest subset to look at, or refuse when the subsets would be too many."""
    from discretion.kernels.subsets import subset_count

    wanted = columns if max_size is None else min(max_size, columns)
    count = subset_count(columns, wanted)
    if count <= MOST_SUBSETS:
        return wanted
    if columns > MOST_SUBSETS:
        raise PlanError(f"{kind}: {columns:,} columns are too many; at most {MOST_SUBSETS:,}")
    possible = max(size for size in range(1, wanted) if subset_count(columns, size) <= MOST_SUBSETS)
    raise PlanError(
        f"{kind}: {columns} columns have {count:,} subsets of at most {wanted} columns, more than {MOST_SUBSETS:,}; "
        f"set `max_size` to at most {possible} ({subset_count(columns, possible):,} subsets) or name fewer columns"
    )
