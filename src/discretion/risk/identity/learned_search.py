"""The search for the distance that links best: projected gradient on a soft count of right links (R15).

The number of right links jumps when parameters move, so that it has no gradient. A soft count replaces "the own record
is the nearest" by a probability that gets sharper from one temperature to the next. Only the nearest records of each
query take part; they are searched again every few steps, and the hard count over all records decides what is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.kernels.learned_distances import WEIGHTED, Nearest, Records, nearest, soft_count
from discretion.risk.identity.learned_forms import Form, Weighted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TEMPERATURES = (1.0, 0.3, 0.1, 0.03)
CANDIDATES = 30
_STEPS = 60  # at each temperature
_REFRESH = 10  # steps between two searches for candidates
_LENGTH = 0.05  # of the first step
_MOMENTUM = 0.7


@dataclass(frozen=True)
class Queries:
    """The records whose links are counted: rows of the intruder's data, and the right row of the release for each."""

    records: Records = field(repr=False)
    rows: Ints = field(repr=False)
    own: Ints = field(repr=False)

    def take(self, chosen: Ints) -> Queries:
        """Give some of the queries."""
        return Queries(self.records, self.rows[chosen], self.own[chosen])


@dataclass(frozen=True)
class Learned:
    """Parameters, and the number of right links they give on the queries they were learned on (ties shared)."""

    p: Floats
    right: float


def count_right(found: Nearest) -> float:
    """Count right links, a set of ties as its share."""
    return float(np.where(found.right, 1.0 / found.size, 0.0).sum())


def search(form: Form, queries: Queries, ctx: Context, label: str) -> Learned:
    """Learn the parameters that find most of the queries; never worse on them than the uniform distance.

    A form that contains the weighted means starts from the best weighted mean, and is never worse than it.
    """
    if form.code == WEIGHTED or not form.contains_weighted:
        return _climb(form, queries, form.uniform(), ctx, label)
    weights = _climb(Weighted(form.columns), queries, Weighted(form.columns).uniform(), ctx, f"{label}, weights")
    return _climb(form, queries, form.additive(weights.p), ctx, label)


def _climb(form: Form, queries: Queries, start: Floats, ctx: Context, label: str) -> Learned:
    """Follow the gradient of the soft count from one start, from the highest temperature to the lowest."""
    look = _Look(form, queries, ctx, label)
    p = start
    found = look(p)
    best = Learned(p, count_right(found))
    for temperature in TEMPERATURES:
        if p is not best.p:
            p = best.p
            found = look(p)
        momentum = np.zeros(form.size)
        for round_ in range(_STEPS // _REFRESH):
            scale = temperature * max(float(np.median(found.distance)), 1e-9)
            promising = Learned(p, -1.0)
            for step in range(round_ * _REFRESH, (round_ + 1) * _REFRESH):
                hard, gradient = soft_count(
                    form.code, queries.records, p, queries.rows, queries.own, found.near, scale
                )[1:]
                if hard > promising.right:
                    promising = Learned(p, hard)
                length = float(np.linalg.norm(gradient))
                momentum = _MOMENTUM * momentum + (1 - _MOMENTUM) * gradient / max(length, 1e-300)
                p = form.project(p + _LENGTH / (1 + step / 20) * momentum)
            found = look(p)
            best = _better(best, Learned(p, count_right(found)))
            if promising.right > best.right:
                best = _better(best, Learned(promising.p, count_right(look(promising.p))))
    return best


def _better(best: Learned, other: Learned) -> Learned:
    return other if other.right > best.right else best


class _Look:
    """Searches for the nearest records, and reports progress of the climb as a whole."""

    def __init__(self, form: Form, queries: Queries, ctx: Context, label: str) -> None:
        self._form, self._queries, self._ctx, self._label = form, queries, ctx, label
        self._done, self._most = 0, 1 + len(TEMPERATURES) * (1 + 2 * _STEPS // _REFRESH)

    def __call__(self, p: Floats) -> Nearest:
        def progress(_done: int, _total: int, _label: str) -> None:
            self._ctx.progress(self._done, self._most, self._label)

        q = self._queries
        found = nearest(self._form.code, q.records, p, q.rows, q.own, CANDIDATES, progress)
        self._done += 1
        return found
