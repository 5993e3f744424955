"""Numbers that can be computed with: infinity and numbers near it are refused, or bounded for private steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from discretion.errors import DataError

if TYPE_CHECKING:
    import polars as pl

LARGEST = 1e150
"""The largest size of a number: the squares of larger ones, and their sums, are soon infinite."""


_BOUND = 1e18
"""Where numbers are bounded: its square fits into the shortest floats that models use."""
_bounded: ContextVar[bool] = ContextVar("bounded", default=False)


@contextmanager
def bounding_numbers(wanted: bool) -> Iterator[None]:
    """Read data for a private step: a number that is too large is bounded; an error would tell of a person."""
    token = _bounded.set(wanted or _bounded.get())
    try:
        yield
    finally:
        _bounded.reset(token)


def finite(frame: pl.DataFrame) -> pl.DataFrame:
    """Raise if a column has infinity or numbers beyond `LARGEST`; says which and how many, never the values."""
    import polars as pl
    import polars.selectors as cs

    if _bounded.get():
        return frame.with_columns(cs.float().clip(-_BOUND, _BOUND))
    ends = frame.select(cs.float().abs().max())
    bad = [one.name for one in ends if one.item() is not None and one.item() > LARGEST]
    if not bad:
        return frame
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
