"""Models that estimate or bound over the whole table: Grassberger's entropy, uniqueness in the sample."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import polars as pl
import pytest

import discretion as dc


def test_the_estimate_stands_in_for_the_logarithm() -> None:
    """G(1) = −γ − ln 2 and G(2) = 2 − γ − ln 2, and G(n + 2) − G(n) = 2/(n + 1) for odd n, by its recursion."""
    gamma = 0.5772156649015329
    expected = {1: -gamma - math.log(2), 2: 2 - gamma - math.log(2)}
    for n in range(3, 12):
        expected[n] = expected[n - 1] if n % 2 else expected[n - 2] + 2 / (n - 1)
    for n, value in expected.items():
        classes = pl.DataFrame({"q": ["a"] * n, "s": ["x"] * n})
        found = dc.EstimatedEntropyLDiversity(l=1, columns=["q"], sensitive=["s"])(classes).value
        assert math.log(found) == pytest.approx(math.log(n) - value, abs=1e-12)


def test_the_estimate_is_nearer_to_the_truth_than_shares() -> None:
    rng = np.random.default_rng(1)
    truth = np.array([0.5, 0.2, 0.1, 0.1, 0.05, 0.05])
    entropy = -float((truth * np.log(truth)).sum())
    rows = [(str(c), str(v)) for c in range(2000) for v in rng.choice(6, 8, p=truth)]
    frame = pl.DataFrame({"q": [a for a, _ in rows], "s": [b for _, b in rows]})
    plain, estimated = [], []
    for (_,), part in frame.group_by("q"):
        plain.append(math.log(dc.EntropyLDiversity(l=1, columns=["q"], sensitive=["s"])(part).value)) if len(
            plain
        ) < 200 else None
        if len(estimated) < 200:
            estimated.append(math.log(dc.EstimatedEntropyLDiversity(l=1, columns=["q"], sensitive=["s"])(part).value))
    assert abs(np.mean(estimated) - entropy) < 0.1 < entropy - np.mean(plain)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.4, 1.0])
def test_the_fewest_unique_records_go(share: float) -> None:
    for ages in ([1, 2, 3, 3, 4, 4, 5], [1, 1, 2, 2], [1, 2, 3, 4], [1, 1, 1, 2]):
        verdict = dc.SampleUniquenessBound(share=share, columns=["age"])(pl.DataFrame({"age": ages}))
        alone = [age for age in set(ages) if ages.count(age) == 1]
        assert verdict.value == len(alone) / len(ages)
        assert verdict.holds == (len(alone) / len(ages) <= share)
        fewest = next(
            size
            for size in range(len(alone) + 1)
            for gone in combinations(alone, size)
            if len(alone) - size <= share * (len(ages) - size) + 1e-12
        )
        assert verdict.failing_records == fewest
