"""Record linkage by distance: numbers, categories, both, and with knowledge of the method."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

import discretion as dc
from benchmarks.ratio import Line, compare

N = 100_000
NUMBERS = ["a", "b", "c"]
WORDS = ["region", "sex", "job"]


_MATCHED = 30_000


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            **{name: rng.normal(size=N) for name in NUMBERS},
            **{
                name: rng.choice([f"{name}{i}" for i in range(m)], N)
                for name, m in zip(WORDS, (20, 2, 40), strict=True)
            },
        }
    )
    noisy = dc.AdditiveNoise(columns=NUMBERS, sd_share=0.1)(frame, seed=1)
    noisy = dc.Pram(columns=WORDS, keep_share=0.9)(noisy, seed=2)
    x, y = frame[NUMBERS].to_numpy(), noisy[NUMBERS].to_numpy()
    base = "cKDTree build + query(k=1), 3 columns"

    def tree() -> object:
        return cKDTree(y).query(x, k=1)

    for name, columns, limit in (
        ("3 numbers + 3 categories", [*NUMBERS, *WORDS], 25.0),
        ("3 categories", WORDS, 1.0),
    ):
        attack = dc.DistanceLinkage(columns=columns)
        yield compare(
            f"DistanceLinkage, {N:,} × {name}", lambda attack=attack: attack(frame, noisy), base, tree, limit
        )  # fmt: skip
    data = dc.Dataset(frame)
    swapped = dc.RankSwap(columns=NUMBERS, percent=10)(data, seed=1)
    steps = {"knows_method": True, "method": [step.to_plan() for step in swapped.steps]}
    informed = dc.DistanceLinkage(columns=NUMBERS, intruder=steps)
    yield compare(
        f"DistanceLinkage, {N:,} × 3 swapped, knows p", lambda: informed(frame, swapped.frame), base, tree, 15.0
    )
    people = dc.Dataset(frame.head(_MATCHED), roles=dict.fromkeys(WORDS, "quasi"))
    known = [NUMBERS[0], *WORDS[:2]]  # forty classes

    def match() -> object:
        """Swap anew, as a release keeps what was found of it; every pair of the file is put together."""
        score = dc.DistanceLinkage(columns=known)(people, dc.RankSwap(columns=NUMBERS[:1], percent=10)(people, seed=1))
        if score.value != score.detail["matched"]:
            raise AssertionError("the attack on everybody at once is no longer the strongest")
        return score

    yield compare(f"DistanceLinkage, {_MATCHED:,} people, all at once", match, base, tree, 15.0, runs=2)
    yield from _assignment()


def _assignment() -> Iterator[Line]:
    x = np.random.default_rng(2).normal(size=(2000, 3))
    y = x + np.random.default_rng(3).normal(0, 0.3, x.shape)
    attack = dc.AssignmentLinkage(columns=NUMBERS)
    frames = pl.DataFrame(x, schema=NUMBERS), pl.DataFrame(y, schema=NUMBERS)
    yield compare(
        "AssignmentLinkage, 2,000 × 3", lambda: attack(*frames), "cdist + linear_sum_assignment",
        lambda: linear_sum_assignment(cdist(x, y)), 2.0,
    )  # fmt: skip
