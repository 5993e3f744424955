"""Running sums that do not drift when values are added and taken away millions of times."""

from __future__ import annotations

from discretion.kernels.arrays import Floats
from discretion.kernels.jit import lean_helper


@lean_helper
def add_exactly(total: Floats, value: float) -> None:
    """Add a value to a sum kept as (sum, rounding error), after Neumaier: it is `total[0] + total[1]`."""
    before = total[0]
    after = before + value
    if abs(before) >= abs(value):
        total[1] += (before - after) + value
    else:
        total[1] += (value - after) + before
    total[0] = after
