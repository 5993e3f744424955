"""The area under the ROC curve and its intervals, against all pairs, scikit-learn and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion.risk.attribute.membership import area, newcombe, recognized


def pairs(members: np.ndarray, others: np.ndarray) -> np.ndarray:
    difference = members[:, None] - others[None, :]
    return (difference > 0) + 0.5 * (difference == 0)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), m=st.integers(2, 25), n=st.integers(2, 25), levels=st.sampled_from([3, 1000]))
def test_against_all_pairs_with_ties(seed: int, m: int, n: int, levels: int) -> None:
    from scipy.stats import norm

    rng = np.random.default_rng(seed)
    members, others = rng.integers(0, levels, m).astype(float), rng.integers(0, levels, n).astype(float)
    kernel = pairs(members, others)
    found = area(members, others)
    assert found.value == pytest.approx(kernel.mean())
    variance = kernel.mean(axis=1).var(ddof=1) / m + kernel.mean(axis=0).var(ddof=1) / n
    if variance > 1e-12:
        half = norm.ppf(0.975) * np.sqrt(variance)
        assert found.interval[0] == pytest.approx(max(0, kernel.mean() - half))
        assert found.interval[1] == pytest.approx(min(1, kernel.mean() + half))


def test_complete_separation_is_not_certainty() -> None:
    low, high = area(np.arange(5.0) + 10, np.arange(4.0)).interval
    assert high == 1.0 and 0.4 < low < 0.8


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), levels=st.sampled_from([3, 20, 10_000]), share=st.sampled_from([0.01, 0.1, 0.5]))
def test_recognized_members_lie_on_the_roc_curve(seed: int, levels: int, share: float) -> None:
    from sklearn.metrics import roc_curve

    rng = np.random.default_rng(seed)
    members, others = rng.integers(0, levels, 40).astype(float), rng.integers(0, levels, 150).astype(float)
    seen = np.repeat([1, 0], [40, 150])
    fpr, tpr, _ = roc_curve(seen, np.concatenate([members, others]), drop_intermediate=False)
    highest = np.flatnonzero(fpr <= share)[-1]  # where the curve rises straight up, its upper end
    want = tpr[highest]
    if highest + 1 < len(fpr) and fpr[highest] < share:
        want += (share - fpr[highest]) / (fpr[highest + 1] - fpr[highest]) * (tpr[highest + 1] - tpr[highest])
    assert recognized(members, others, share) / 40 == pytest.approx(want)


def test_newcombe_published_values() -> None:
    """Newcombe (1998), table II, method 10: 56/70 − 48/80 and 9/10 − 3/10."""
    assert newcombe(56, 70, 48, 80) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert newcombe(9, 10, 3, 10) == pytest.approx((0.1705, 0.8090), abs=5e-5)


@pytest.mark.slow
@pytest.mark.parametrize("paired", [False, True])
def test_the_interval_covers(paired: bool) -> None:
    """95 % of simulated intervals hold the true area, also where each person appears on both sides."""
    from scipy.stats import norm

    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(1000):
        person = rng.normal(size=150)
        members = person + 0.5 + rng.normal(size=150)
        others = (person if paired else rng.normal(size=150)) + rng.normal(size=150)
        low, high = area(members, others, paired=paired).interval
        hits += low <= norm.cdf(0.5 / 2) <= high
    assert 925 <= hits <= 975
