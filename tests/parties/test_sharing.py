"""Noise in shares: exact laws, and what is left for a coalition."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from discretion.parties import sharing
from discretion.parties.sharing import Noise, geometric, polya


def fits(drawn: list[int], law: dict[int, float]) -> bool:
    """Compare draws with a law by chi-square; false alarm once in a million."""
    n, counts = len(drawn), Counter(drawn)
    kept = {k: p for k, p in law.items() if n * p >= 8}
    value = sum((counts[k] - n * p) ** 2 / (n * p) for k, p in kept.items())
    rest = 1 - sum(kept.values())
    value += (n - sum(counts[k] for k in kept) - n * rest) ** 2 / (n * max(rest, 1e-9))
    return bool(value < chi2.isf(1e-6, len(kept)))


def negative_binomial(r: float, a: float, k: int) -> float:
    return math.exp(math.lgamma(k + r) - math.lgamma(r) - math.lgamma(k + 1) + r * math.log1p(-a) + k * math.log(a))


@pytest.mark.parametrize(("x", "r"), [(Fraction(1), Fraction(1, 2)), (Fraction(3, 7), Fraction(1, 4))])
def test_laws(x: Fraction, r: Fraction) -> None:
    a, n = math.exp(-x), 4000
    assert fits([geometric(x) for _ in range(n)], {k: (1 - a) * a**k for k in range(60)})
    assert fits([polya(r, x) for _ in range(n)], {k: negative_binomial(float(r), a, k) for k in range(60)})


@pytest.mark.parametrize(("m", "t", "epsilon"), [(3, 1, Fraction(1)), (7, 3, Fraction(1, 2))])
def test_what_a_coalition_cannot_take_away_is_discrete_laplace(m: int, t: int, epsilon: Fraction) -> None:
    shares, a, n = Noise(epsilon, m, t), math.exp(-epsilon), 3000
    drawn = [sum(shares.draw(1) for _ in range(m - t)) for _ in range(n)]
    assert fits(drawn, {k: (1 - a) / (1 + a) * a ** abs(k) for k in range(-60, 61)})


def test_floats_that_do_not_decide_leave_it_to_fractions(monkeypatch: pytest.MonkeyPatch) -> None:
    """C(k + r − 1, k) for k = 3, r = 1/2 is 5/16; a uniform number just below or above it is told apart exactly."""
    edge = (5 << 53) // 16
    for drawn, expected in ((edge - 1, True), (edge, False)):
        bits = iter([drawn])
        monkeypatch.setattr(sharing.secrets, "randbits", lambda _, bits=bits: next(bits))
        assert sharing._below_binomial(3, Fraction(1, 2)) is expected


def test_sensitivity_scales_the_noise() -> None:
    wide = Noise(Fraction(1), 3, 1)
    drawn = np.array([sum(wide.draw(1000) for _ in range(2)) for _ in range(200)])
    assert 0.6 * 1414 < drawn.std() < 1.5 * 1414
