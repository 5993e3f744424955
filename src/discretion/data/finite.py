"""Numbers that can be computed with: infinity and numbers near it are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discretion.errors import DataError

if TYPE_CHECKING:
    import polars as pl

LARGEST = 1e150
"""The largest size of a number: the squares of larger ones, and their sums, are soon infinite."""


def check_finite(frame: pl.DataFrame) -> None:
    """Raise if a column has infinity or numbers beyond `LARGEST`; says which and how many, never the values."""
    import polars as pl
    import polars.selectors as cs

    ends = frame.select(cs.float().abs().max())
    bad = [one.name for one in ends if one.item() is not None and one.item() > LARGEST]
    if not bad:
        return
    infinite = frame.select(pl.col(bad).is_infinite().sum())
    beyond = frame.select((pl.col(bad).is_finite() & (pl.col(bad).abs() > LARGEST)).sum())
    declare = "if they stand for missing values, declare them as a missing code"
    found = (
        ("infinite values", infinite, "replace them or declare a missing code"),
        (f"numbers beyond ±{LARGEST:g}", beyond, declare),
    )
    problems = []
    for what, counts, hint in found:
        if listed := [f"{one.name!r} ({one.item()})" for one in counts if one.item()]:
            problems.append(f"{what} in {', '.join(listed)}; {hint}")
    raise DataError("\n".join(problems))
