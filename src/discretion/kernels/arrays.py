"""The array types that kernels exchange, and the one way to make an array fit for a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Keys = NDArray[np.uint64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.integer[Any]]
Progress = Callable[[int, int, str], object]
"""`progress(done, total, what)`, called several times a second; may raise to cancel."""
Tick = Callable[[int, int], None]
"""`tick(done, total)`: a `Progress` that knows what it is about."""
Index = int | np.signedinteger[Any]  # numba compiles a helper once more for a literal 0, not for np.int64(0)


def as_vector(x: ArrayLike) -> Floats:
    """Return one column as contiguous, writable float64 numbers, copied only if it must be."""
    array = np.require(x, dtype=np.float64, requirements=["C", "A", "W"])
    if array.ndim != 1:
        raise ValueError(f"expected one dimension, got {array.ndim}")
    return array


def as_matrix(x: ArrayLike) -> Floats:
    """Return rows and columns as contiguous, writable float64 numbers, copied only if they must be."""
    array = np.require(x, dtype=np.float64, requirements=["C", "A", "W"])
    if array.ndim != 2:
        raise ValueError(f"expected rows and columns (two dimensions), got {array.ndim}")
    return array


def as_finite_matrix(x: ArrayLike) -> Floats:
    """Return the same as `as_matrix`, and refuse NaN and infinity, which would send a search astray."""
    array = as_matrix(x)
    if not np.isfinite(array).all():
        raise ValueError("the numbers must be finite (no NaN, no infinity)")
    return array


def as_integers(x: ArrayLike) -> Ints:
    """Return one column as contiguous, writable int64 numbers, copied only if it must be."""
    return np.require(x, dtype=np.int64, requirements=["C", "A", "W"])
