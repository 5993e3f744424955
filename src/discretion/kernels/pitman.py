"""Pitman's sampling formula fitted by Newton's method: a fit takes well below a millisecond."""

from __future__ import annotations

import math

import numpy as np

from discretion.kernels.arrays import Ints
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
