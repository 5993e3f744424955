"""A sparse matrix of small whole numbers: the additive structure of a table, without scipy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Floats, Ints, Ints32


@dataclass(frozen=True, eq=False)
class Sparse:
    """A matrix in compressed rows: row i has `indices[indptr[i]:indptr[i+1]]` (ascending) with `data` beside them."""

    indptr: Ints
    indices: Ints32
    data: NDArray[np.int8]
    shape: tuple[int, int]

    @classmethod
    def from_pairs(cls, rows: Ints, columns: Ints, shape: tuple[int, int], data: Any = None) -> Sparse:
        """Build the matrix from its non-zero places (each given once)."""
        order = np.lexsort((columns, rows))
        indptr = np.zeros(shape[0] + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=shape[0]), out=indptr[1:])
        values = np.ones(len(rows), np.int8) if data is None else np.asarray(data, np.int8)[order]
        return cls(indptr, columns[order].astype(np.int32), values, shape)

    @property
    def nnz(self) -> int:
        """The number of non-zero places."""
        return len(self.indices)

    def row(self, i: int) -> Ints32:
        """Give the columns of one row."""
        return self.indices[self.indptr[i] : self.indptr[i + 1]]

    @cached_property
    def rows(self) -> Ints:
        """The row of every non-zero place."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    @cached_property
    def transposed(self) -> Sparse:
        """The matrix with rows and columns exchanged."""
        return Sparse.from_pairs(self.indices.astype(np.int64), self.rows, (self.shape[1], self.shape[0]), self.data)

    def dot(self, vector: Any) -> Floats:
        """Multiply by a column vector: one number per row."""
        terms = np.asarray(vector, np.float64)[self.indices] * self.data
        sums: Floats = np.bincount(self.rows, terms, self.shape[0]).astype(np.float64, copy=False)
        return sums

    def dense(self) -> NDArray[np.int8]:
        """Give the matrix with all its zeros (for small tables and tests)."""
        full = np.zeros(self.shape, np.int8)
        full[self.rows, self.indices] = self.data
        return full

    def to_scipy(self) -> Any:
        """Give the matrix as a `scipy.sparse.csr_array` of floats."""
        from scipy.sparse import csr_array

        return csr_array((self.data.astype(np.float64), self.indices, self.indptr), shape=self.shape)
