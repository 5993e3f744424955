"""Arrays inside a decision: as text, so that a model stays small and can be saved with the plan."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def pack(array: NDArray[Any]) -> str:
    """Write an array as text: its type, then its compressed bytes; whole numbers in the narrowest type that fits."""
    if array.dtype.kind in "iu" and array.size:
        array = array.astype(np.promote_types(np.min_scalar_type(array.min()), np.min_scalar_type(array.max())))
    kept = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<")))
    return f"{kept.dtype.str}:{base64.b64encode(zlib.compress(kept.tobytes(), 1)).decode()}"


def unpack(text: str) -> NDArray[Any]:
    """Read an array that `pack` wrote; whole numbers come back as 64-bit integers."""
    kind, _, content = text.partition(":")
    found = np.frombuffer(zlib.decompress(base64.b64decode(content)), dtype=kind)
    return found.astype(np.int64) if found.dtype.kind in "iu" else found.astype(found.dtype.newbyteorder("="))
