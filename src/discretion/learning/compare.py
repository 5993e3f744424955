"""Compare two models: by what they predict, and by how they are built."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.learning.designs import Design
from discretion.learning.fitting import Fitted
from discretion.learning.values import Floats, Ints


def agreement(one: NDArray[Any], other: NDArray[Any], weights: Floats | None = None) -> float:
    """Give the share of rows on which two predictions are the same."""
    return float(np.average(one == other, weights=weights))


def chance_agreement(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Give the share on which unrelated predictions with these frequencies would agree."""
    first, second = Counter(one.tolist()), Counter(other.tolist())
    return sum(count * second[value] for value, count in first.items()) / (len(one) * len(other))


def precision_recall(
    truth: Ints, predicted: NDArray[Any], names: tuple[str, ...], weights: Floats | None = None
) -> dict[str, dict[str, float | None]]:
    """Give precision and recall of each class, None where nothing was predicted or nothing is there."""
    w = np.ones(len(truth)) if weights is None else weights
    found: dict[str, dict[str, float | None]] = {}
    for code, name in enumerate(names):
        right = float(w[(truth == code) & (predicted == code)].sum())
        said, there = float(w[predicted == code].sum()), float(w[truth == code].sum())
        found[name] = {
            "precision": right / said if said > 0 else None,
            "recall": right / there if there > 0 else None,
        }
    return found


def describe(fitted: Fitted, design: Design) -> dict[str, Any]:
    """Say how a model is built, as far as its kind allows: tree, importance of the columns, coefficients."""
    core = fitted.estimator
    if core is not None and getattr(core, "steps", None):
        core = core.steps[-1][1]
    found: dict[str, Any] = {}
    if (tree := getattr(core, "tree_", None)) is not None:
        splits = [design.sources[int(place)] for place in tree.feature if place >= 0]
        found |= {"leaves": int(tree.n_leaves), "depth": int(tree.max_depth), "split_columns": splits}
    if (weights := getattr(core, "feature_importances_", None)) is not None and len(weights) == len(design.names):
        found["importance"] = _per_source(np.asarray(weights), design)
    coefficients = getattr(core, "coef_", None)
    if coefficients is not None and np.shape(coefficients)[-1] == len(design.names):
        rows = np.atleast_2d(np.asarray(coefficients, dtype=np.float64))
        found["coefficients"] = {name: [float(v) for v in rows[:, j]] for j, name in enumerate(design.names)}
    return found


def _per_source(weights: Floats, design: Design) -> dict[str, float]:
    found = dict.fromkeys(dict.fromkeys(design.sources), 0.0)
    for source, weight in zip(design.sources, weights, strict=True):
        found[source] += float(weight)
    return found


def compare_structure(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Compare two descriptions: shared splits, distance of importances (0 to 1), distance of coefficients."""
    found: dict[str, Any] = {"original": one, "released": other}
    if "split_columns" in one and "split_columns" in other:
        first, second = Counter(one["split_columns"]), Counter(other["split_columns"])
        union = sum((first | second).values())
        found["same_first_split"] = one["split_columns"][:1] == other["split_columns"][:1]
        found["shared_splits"] = sum((first & second).values()) / union if union else 1.0
    if "importance" in one and "importance" in other:
        gaps = [abs(weight - other["importance"].get(name, 0.0)) for name, weight in one["importance"].items()]
        found["importance_distance"] = float(sum(gaps) / 2)
    if "coefficients" in one and "coefficients" in other:
        found["coefficient_distance"] = _coefficient_distance(one["coefficients"], other["coefficients"])
    return found


def _coefficient_distance(one: dict[str, list[float]], other: dict[str, list[float]]) -> float | None:
    """Give ‖difference‖ / ‖original's‖ over the coefficients that both have; None where they cannot be compared."""
    shared = [name for name in one if name in other and len(one[name]) == len(other[name])]
    first, second = (np.array([v for name in shared for v in side[name]]) for side in (one, other))
    size = float(np.linalg.norm(first))
    return float(np.linalg.norm(first - second)) / size if size > 0 else None
