"""Noise in shares: every party adds its own, and those of any m − t parties together are discrete Laplace noise.

Discrete Laplace noise, P(k) ∝ a^|k| with a = e^(−ε/Δ), is the difference of two geometric variables, and a geometric
variable is the sum of r⁻¹ independent Pólya variables NB(r, a). With r = 1/(m − t) the shares of m − t parties add up
to the noise that ε asks for; a coalition of t parties that takes its own shares away is left with exactly that, and the
other shares only add to it. All draws are exact: whole numbers from `secrets`, and comparisons that never hang on the
last digit of a float.
"""

from __future__ import annotations

import math
import secrets
from fractions import Fraction

_BITS = 53


def below_exp(x: Fraction) -> bool:
    """Be true with probability e^(−x), exactly (Canonne, Kamath & Steinke 2020)."""
    while x > 1:
        if not _below_exp_of_share(Fraction(1)):
            return False
        x -= 1
    return _below_exp_of_share(x)


def _below_exp_of_share(x: Fraction) -> bool:
    k = 1
    while secrets.randbelow(x.denominator * k) < x.numerator:
        k += 1
    return k % 2 == 1


def geometric(x: Fraction) -> int:
    """Draw k = 0, 1, 2 … with P(k) = (1 − e^(−x)) e^(−xk), exactly."""
    s, t = x.numerator, x.denominator
    while True:  # a number of steps of 1/t below one unit, kept with probability e^(−u/t) …
        u = secrets.randbelow(t)
        if below_exp(Fraction(u, t)):
            break
    units = 0
    while below_exp(Fraction(1)):  # … and whole units; s of the steps of 1/t make one step of x
        units += 1
    return (u + t * units) // s


def polya(r: Fraction, x: Fraction) -> int:
    """Draw k with P(k) = C(k + r − 1, k) (1 − a)^r a^k for a = e^(−x) and 0 < r ≤ 1, exactly.

    A geometric k is kept with probability C(k + r − 1, k) = ∏ (i − 1 + r)/i, which is at most one.
    """
    while True:
        k = geometric(x)
        if k == 0 or r == 1 or _below_binomial(k, r):
            return k


def _below_binomial(k: int, r: Fraction) -> bool:
    """Be true with probability C(k + r − 1, k): by floats where they decide, by fractions where they might not."""
    drawn, bits = secrets.randbits(_BITS), _BITS
    share = math.exp(math.lgamma(k + float(r)) - math.lgamma(float(r)) - math.lgamma(k + 1))
    slack = share * 1e-10 * (1 + math.log1p(k)) + 2.0**-_BITS
    if drawn / 2**bits + slack < share:
        return True
    if drawn / 2**bits - slack > share:
        return False
    exact = Fraction(1)
    for i in range(1, k + 1):
        exact *= (i - 1 + r) / i
    while True:
        if Fraction(drawn + 1, 1 << bits) <= exact:
            return True
        if Fraction(drawn, 1 << bits) >= exact:
            return False
        drawn, bits = (drawn << 64) | secrets.randbits(64), bits + 64


class Noise:
    """The shares that one party draws for one statistic."""

    def __init__(self, epsilon: Fraction, parties: int, coalition: int) -> None:
        self.epsilon = epsilon
        self.share = Fraction(1, parties - coalition)

    def draw(self, sensitivity: int, parts: int = 1) -> int:
        """Draw a share for a whole number in a vector that one person changes by at most `sensitivity` in all.

        `parts`: so many such vectors are shown one after the other and divide the ε among them.
        """
        x = self.epsilon / (sensitivity * parts)
        return polya(self.share, x) - polya(self.share, x)
