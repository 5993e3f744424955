"""The forms a learned distance can have: their parameters, where learning starts, which parameters are allowed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np

from discretion.kernels import learned_distances as kernel
from discretion.kernels.arrays import Floats
from discretion.kernels.learned_distances import onto_monotone, onto_simplex, onto_trace_one

DistanceName = Literal["weighted", "owa", "bilinear", "choquet"]

FULL_MEASURE_COLUMNS = 6
"""Columns up to which a Choquet integral has a parameter for every set of columns; above, for pairs."""


class Form(ABC):
    """A distance Σ p_k·φ_k(differences) with a convex set of allowed parameters."""

    code: ClassVar[int]

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)

    @property
    def size(self) -> int:
        """The number of parameters."""
        return kernel.feature_count(self.code, len(self.columns))

    contains_weighted: ClassVar[bool] = True
    """every weighted mean is a distance of this form, so that learning can start from the best of them"""

    def uniform(self) -> Floats:
        """Give the parameters of the mean of the squared differences: the baseline, and where learning starts."""
        return self.additive(np.full(len(self.columns), 1.0 / len(self.columns)))

    @abstractmethod
    def additive(self, weights: Floats) -> Floats:
        """Give the parameters that make this distance the weighted mean with these weights."""

    @abstractmethod
    def project(self, p: Floats) -> Floats:
        """Give the nearest allowed parameters."""

    @abstractmethod
    def describe(self, p: Floats) -> dict[str, Any]:
        """Name the parameters."""

    def bounds(self) -> tuple[Floats, Floats]:
        """Give the least and the largest value of each parameter."""
        return np.zeros(self.size), np.ones(self.size)

    def conditions(self) -> list[tuple[Floats, float, float]]:
        """Give linear conditions low ≤ a·p ≤ high that allowed parameters satisfy."""
        return [(np.ones(self.size), 1.0, 1.0)]

    def cuts(self, p: Floats) -> list[Floats]:  # noqa: ARG002 - only a form with conditions that are not linear looks
        """Give rows a with a·q ≥ 0 for all allowed q, and a·p < 0: what the linear conditions have not said yet."""
        return []

    def shortfall(self, own: Floats, other: Floats) -> float:
        """Bound how much farther the own record can be than another: max over p of p·(φ(own) − φ(other)), or 0."""
        both = kernel.features(self.code, np.vstack([own, other]))
        return max(0.0, float((both[0] - both[1]).max()))


class Weighted(Form):
    """Weighted mean of the squared differences."""

    code = kernel.WEIGHTED

    def additive(self, weights: Floats) -> Floats:
        """Give the weights themselves."""
        return weights

    def project(self, p: Floats) -> Floats:
        """Project onto the simplex."""
        return onto_simplex(p)

    def describe(self, p: Floats) -> dict[str, Any]:
        """Give the weight of each column."""
        return {"weights": dict(zip(self.columns, p.tolist(), strict=True))}


class Owa(Weighted):
    """Ordered weighted average: weights for the largest, the second largest … difference, whatever its column."""

    code = kernel.OWA
    contains_weighted = False

    def describe(self, p: Floats) -> dict[str, Any]:
        """Give the weights from the largest difference to the smallest."""
        return {"weights_from_largest": p.tolist()}


class Bilinear(Form):
    """vᵀQv with a positive semidefinite matrix Q: Mahalanobis distance generalized."""

    code = kernel.BILINEAR

    def additive(self, weights: Floats) -> Floats:
        """Give the diagonal matrix."""
        return np.diag(weights).ravel()

    def project(self, p: Floats) -> Floats:
        """Project onto positive semidefinite matrices of trace 1."""
        return onto_trace_one(p)

    def describe(self, p: Floats) -> dict[str, Any]:
        """Give the matrix."""
        return {"matrix": p.reshape(len(self.columns), -1).tolist()}

    def bounds(self) -> tuple[Floats, Floats]:
        """Bound the matrix: a positive one of trace 1 has nothing above ½ beside its diagonal."""
        d = len(self.columns)
        low = np.where(np.eye(d, dtype=bool), 0.0, -0.5).ravel()
        return low, np.where(np.eye(d, dtype=bool), 1.0, 0.5).ravel()

    def conditions(self) -> list[tuple[Floats, float, float]]:
        """Trace 1, symmetric."""
        d = len(self.columns)
        rows = [(np.eye(d).ravel(), 1.0, 1.0)]
        for a, b in combinations(range(d), 2):
            equal = np.zeros((d, d))
            equal[a, b], equal[b, a] = 1.0, -1.0
            rows.append((equal.ravel(), 0.0, 0.0))
        return rows

    def cuts(self, p: Floats) -> list[Floats]:
        """Cut off negative eigenvalues: wᵀQw ≥ 0 for their eigenvectors w."""
        d = len(self.columns)
        values, vectors = np.linalg.eigh(p.reshape(d, d))
        return [np.outer(vectors[:, k], vectors[:, k]).ravel() for k in np.flatnonzero(values < -1e-6)]

    def shortfall(self, own: Floats, other: Floats) -> float:
        """Bound by the largest eigenvalue of v_own·v_ownᵀ − v_other·v_otherᵀ."""
        return max(0.0, float(np.linalg.eigvalsh(np.outer(own, own) - np.outer(other, other))[-1]))


class Choquet(Form):
    """Choquet integral with a measure μ(S) for every set S of columns: weights for columns that fail together."""

    code = kernel.CHOQUET

    def additive(self, weights: Floats) -> Floats:
        """Give the additive measure: a set has the weights of its columns together."""
        return np.array([sum(w for j, w in enumerate(weights) if s >> j & 1) for s in range(self.size)])

    def project(self, p: Floats) -> Floats:
        """Project onto monotone measures."""
        return onto_monotone(p)

    def describe(self, p: Floats) -> dict[str, Any]:
        """Give the measure of every set."""
        return {"measure": {self._set(s): float(p[s]) for s in range(1, self.size)}}

    def _set(self, bits: int) -> str:
        return " + ".join(name for j, name in enumerate(self.columns) if bits >> j & 1)

    def bounds(self) -> tuple[Floats, Floats]:
        """Nothing for the empty set, 1 for all columns."""
        low, high = np.zeros(self.size), np.ones(self.size)
        high[0], low[-1] = 0.0, 1.0
        return low, high

    def conditions(self) -> list[tuple[Floats, float, float]]:
        """Larger sets have larger measures."""
        rows = []
        for s in range(self.size):
            for j in range(len(self.columns)):
                if not s >> j & 1:
                    row = np.zeros(self.size)
                    row[s], row[s | 1 << j] = -1.0, 1.0
                    rows.append((row, 0.0, np.inf))
        return rows

    def shortfall(self, own: Floats, other: Floats) -> float:
        """Bound by the largest difference of the own record and the smallest of the other."""
        return max(0.0, float((own**2).max() - (other**2).min()))


class ChoquetPairs(Weighted):
    """Choquet integral of a 2-additive measure: a mixture of single columns and of min and max of pairs of columns.

    These are the extreme points of the 2-additive monotone measures, so that every such measure is a mixture of them.
    """

    code = kernel.CHOQUET_PAIRS

    def additive(self, weights: Floats) -> Floats:
        """Give weight to the single columns only."""
        return np.concatenate([weights, np.zeros(self.size - weights.size)])

    def describe(self, p: Floats) -> dict[str, Any]:
        """Give the weight of each column and of the smaller and the larger of each pair."""
        names = list(self.columns)
        for a, b in combinations(self.columns, 2):
            names += [f"min({a}, {b})", f"max({a}, {b})"]
        return {"weights": {name: float(w) for name, w in zip(names, p, strict=True) if w > 0}}


def form_of(distance: DistanceName, columns: Sequence[str]) -> Form:
    """Give the form of a distance for some columns."""
    if distance == "choquet":
        return Choquet(columns) if len(columns) <= FULL_MEASURE_COLUMNS else ChoquetPairs(columns)
    simple: dict[str, type[Form]] = {"weighted": Weighted, "owa": Owa, "bilinear": Bilinear}
    return simple[distance](columns)
