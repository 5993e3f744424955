"""Quantiles of the normal distribution, without importing scipy for them: that takes longer than most methods run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from discretion.kernels.arrays import Floats

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
