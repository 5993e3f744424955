"""Membership by nearness: how far is a person's record from the nearest published one?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.learning.values import encode, outside_view

Floats = NDArray[np.float64]

QUERIES = 4096
"""People looked up between two reports of progress."""


def nearest_distances(
    original: Dataset, released: Dataset, outside: Dataset, features: Sequence[str], who: str, ctx: Context
) -> tuple[Floats, Floats]:
    """Give the distance to the nearest published record of each person in the data and of each person outside.

    Numbers are divided by their standard deviation in the original, a differing category counts 1; columns that were
    generalized are compared at the level of the release.
    """
    inside = {name: outside_view(original, released, name, aligned=False) for name in features}
    others = {name: outside_view(outside, released, name, aligned=False)[0] for name in features}
    known, published, other = encode(
        [
            {name: view[0] for name, view in inside.items()},
            {name: view[1] for name, view in inside.items()},
            others,
        ]
    )
    points = published.scaled(known)
    asked = np.vstack([known.scaled(known), other.scaled(known)])
    found = _nearest(asked, points, who, ctx)
    return found[: len(known)], found[len(known) :]


def _nearest(asked: Floats, points: Floats, who: str, ctx: Context) -> Floats:
    """Give each query's distance to the nearest point; equal points and queries are looked at once."""
    from sklearn.neighbors import NearestNeighbors

    distinct, place = np.unique(asked, axis=0, return_inverse=True)
    targets = np.unique(points, axis=0)
    search = NearestNeighbors(n_neighbors=1).fit(targets)
    found = np.empty(len(distinct))
    for start in range(0, len(distinct), QUERIES):
        ctx.progress(start, len(distinct), who)
        some = distinct[start : start + QUERIES]
        nearest = search.kneighbors(some, return_distance=False)[:, 0]
        found[start : start + QUERIES] = np.linalg.norm(some - targets[nearest], axis=1)  # a copy is at exactly 0
    ctx.progress(len(distinct), len(distinct), who)
    return found[place.ravel()]
