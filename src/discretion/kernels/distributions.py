"""Distributions: quantiles of the normal one, and Pitman's sampling formula fitted by Newton's method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from discretion.kernels.arrays import Floats, Ints
from discretion.kernels.jit import lean_helper, lean_kernel

_LARGE_RATIO = 1e3
"""θ/α above which differences of digamma functions lose too many digits."""
_STEPS = 60


@lean_helper
def _psi(x: float) -> tuple[float, float]:
    """Give digamma and trigamma of a positive number, by recurrence up to 10 and the asymptotic series."""
    first, second = 0.0, 0.0
    while x < 10.0:
        first -= 1.0 / x
        second += 1.0 / (x * x)
        x += 1.0
    r = 1.0 / (x * x)
    first += math.log(x) - 0.5 / x - r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r / 132))))
    second += 1.0 / x + r / 2 + r / x * (1 / 6 - r * (1 / 30 - r * (1 / 42 - r * (1 / 30 - r * 5 / 66))))
    return first, second


@lean_helper
def _slopes(
    theta: float, alpha: float, sizes: Ints, counts: Ints, n: int, u: int
) -> tuple[float, float, float, float, float]:
    """Give the derivatives of the log-likelihood by θ and α, and the second ones: θθ, θα, αα."""
    ratio = theta / alpha
    by_theta, by_alpha, tt, ta, aa = 0.0, 0.0, 0.0, 0.0, 0.0
    if abs(ratio) > _LARGE_RATIO:
        for i in range(1, u):
            q = 1.0 / (theta + i * alpha)
            by_theta += q
            by_alpha += i * q
            tt -= q * q
            ta -= i * q * q
            aa -= i * i * q * q
    else:
        d1, t1 = _psi(ratio + u)
        d0, t0 = _psi(ratio + 1)
        rise, bend = d1 - d0, t1 - t0
        by_theta = rise / alpha
        by_alpha = (u - 1) / alpha - rise * theta / alpha**2
        tt = bend / alpha**2
        ta = -rise / alpha**2 - bend * theta / alpha**3
        aa = -(u - 1) / alpha**2 + 2 * rise * theta / alpha**3 + bend * theta**2 / alpha**4
    d1, t1 = _psi(theta + 1)
    d0, t0 = _psi(theta + n)
    by_theta += d1 - d0
    tt += t1 - t0
    d0, t0 = _psi(1 - alpha)
    for i in range(sizes.size):
        if sizes[i] > 1:
            d1, t1 = _psi(sizes[i] - alpha)
            by_alpha -= counts[i] * (d1 - d0)
            aa += counts[i] * (t1 - t0)
    return by_theta, by_alpha, tt, ta, aa


@lean_kernel
def newton(theta: float, alpha: float, sizes: Ints, counts: Ints, n: int, u: int) -> tuple[float, float, bool]:
    """Maximize the likelihood of class sizes (`counts` classes of each of `sizes`) by damped steps in ln(θ+α) and α.

    Gives θ, α and whether it has arrived at a maximum inside 0 < α < 1, θ > −α.
    """
    for _ in range(_STEPS):
        by_theta, by_alpha, tt, ta, aa = _slopes(theta, alpha, sizes, counts, n, u)
        e = theta + alpha
        gx, ga = by_theta * e, by_alpha - by_theta  # by x = ln(θ+α), and by α with x fixed
        xx = tt * e * e + by_theta * e
        xa = (ta - tt) * e
        al = aa - 2 * ta + tt
        det = xx * al - xa * xa
        concave = det > 0 and xx < 0
        if concave:
            dx, da = -(al * gx - xa * ga) / det, -(xx * ga - xa * gx) / det
        else:  # uphill along both axes
            dx, da = gx / (abs(xx) + 1e-9), ga / (abs(al) + 1e-9)
        if not (math.isfinite(dx) and math.isfinite(da)):
            return theta, alpha, False
        scale = min(1.0, 2.0 / max(abs(dx), 1e-300))
        while not 1e-9 < alpha + scale * da < 1 - 1e-9:
            scale *= 0.5
            if scale < 1e-6:
                return theta, alpha, False
        alpha += scale * da
        theta = e * math.exp(scale * dx) - alpha
        if abs(dx) < 1e-9 and abs(da) < 1e-11:
            return theta, alpha, concave and theta > -alpha and 1e-6 < alpha < 1 - 1e-6
    return theta, alpha, False


def fit(theta: float, alpha: float, sizes: Ints, counts: Ints) -> tuple[float, float] | None:
    """Fit from a start; None where the maximum is at the border or was not found."""
    n, u = int((sizes * counts).sum()), int(counts.sum())
    own = np.ascontiguousarray(sizes, np.int64), np.ascontiguousarray(counts, np.int64)
    theta, alpha, found = newton(float(theta), float(alpha), *own, n, u)
    return (theta, alpha) if found else None


# Rational approximations in the center, in the tails and far out (Moshier, Cephes Math Library), as in scipy.
_CENTER = (
    (-59.9633501014107895267, 98.0010754185999661536, -56.6762857469070293439, 13.9312609387279679503,
     -1.23916583867381258016),
    (1.0, 1.95448858338141759834, 4.67627912898881538453, 86.3602421390890590575, -225.462687854119370527,
     200.260212380060660359, -82.0372256168333339912, 15.9056225126211695515, -1.18331621121330003142),
)  # fmt: skip
_TAIL = (
    (4.05544892305962419923, 31.5251094599893866154, 57.1628192246421288162, 44.0805073893200834700,
     14.6849561928858024014, 2.18663306850790267539, -0.140256079171354495875, -0.0350424626827848203418,
     -8.57456785154685413611e-4),
    (1.0, 15.7799883256466749731, 45.3907635128879210584, 41.3172038254672030440, 15.0425385692907503408,
     2.50464946208309415979, -0.142182922854787788574, -0.0380806407691578277194, -9.33259480895457427372e-4),
)  # fmt: skip
_FAR = (
    (3.23774891776946035970, 6.91522889068984211695, 3.93881025292474443415, 1.33303460815807542389,
     0.201485389549179081538, 0.0123716634817820021358, 3.01581553508235416007e-4, 2.65806974686737550832e-6,
     6.23974539184983293730e-9),
    (1.0, 6.02427039364742014255, 3.67983563856160859403, 1.37702099489081330271, 0.216236993594496635890,
     0.0134204006088543189037, 3.28014464682127739104e-4, 2.89247864745380683936e-6, 6.79019408009981274425e-9),
)  # fmt: skip
_EDGE = 0.13533528323661269189  # exp(−2)
_ROOT = 2.50662827463100050242  # √(2π)
_BLOCK = 16384
_log: Any = np.frompyfunc(math.log, 1, 1)  # the C library's, which is the same on every processor; numpy's is not


def normal_quantile(share: Floats | float) -> Floats:
    """Give the number below which this share of a standard normal distribution lies (NaN outside of 0 to 1)."""
    below = np.asarray(share, np.float64)
    found = np.empty(below.shape)
    for first in range(0, below.size, _BLOCK):  # what stays in the processor's cache
        found.ravel()[first : first + _BLOCK] = _quantiles(below.ravel()[first : first + _BLOCK])
    return found


def _quantiles(below: Floats) -> Floats:
    is_upper = below > 1.0 - _EDGE
    y = np.where(is_upper, 1.0 - below, below)
    found = np.full(y.shape, np.nan)
    inner, outer = y > _EDGE, (y > 0) & (y <= _EDGE)
    z = y[inner] - 0.5
    found[inner] = (z + z * _ratio(z * z, _CENTER)) * _ROOT
    x = np.sqrt(-2.0 * _log(y[outer]).astype(np.float64))
    tail = _ratio(1.0 / x, _TAIL)
    if (is_far := x >= 8.0).any():
        tail[is_far] = _ratio(1.0 / x[is_far], _FAR)
    tail = x - _log(x).astype(np.float64) / x - tail
    found[outer] = np.where(is_upper[outer], tail, -tail)
    found[y == 0] = np.where(is_upper[y == 0], np.inf, -np.inf)
    return found


def _ratio(x: Floats, coefficients: tuple[Sequence[float], Sequence[float]]) -> Floats:
    """Give x times the ratio of two polynomials."""
    above, below = (_polynomial(x, some) for some in coefficients)
    return x * above / below


def _polynomial(x: Floats, coefficients: Sequence[float]) -> Floats:
    total = np.full(x.shape, coefficients[0])
    for coefficient in coefficients[1:]:
        total *= x
        total += coefficient
    return total
