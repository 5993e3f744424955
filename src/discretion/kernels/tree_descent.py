"""Which leaf of a binary tree each row reaches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Floats, Ints
from discretion.kernels.jit import lean_kernel


def descend(x: NDArray[np.float32], feature: Ints, threshold: Floats, left: Ints, right: Ints) -> Ints:
    """Return for each row of `x` the node without children it comes to: left where its value is at most the threshold.

    `left` is −1 for a leaf. Rows are 32-bit floats, as the trees were fitted. Time O(rows · depth).
    """
    leaves = np.zeros(len(x), np.int64)
    if len(left) > 1:
        _descend(np.ascontiguousarray(x, np.float32), feature, threshold, left, right, leaves)
    return leaves


@lean_kernel
def _descend(x: NDArray[np.float32], feature: Ints, threshold: Floats, left: Ints, right: Ints, leaves: Ints) -> None:
    for row in range(leaves.size):
        node = 0
        while left[node] >= 0:
            node = left[node] if x[row, feature[node]] <= threshold[node] else right[node]
        leaves[row] = node
