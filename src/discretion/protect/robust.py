"""The ellipse around the bulk of the data: minimum covariance determinant, and how far records lie outside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discretion.context import Context
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints

_SEARCH_ROWS = 20_000
"""Above this many records the search starts on a random sample and ends on all of them."""
_STEPS = 50
_MAD = 1.482602218505602  # makes the median absolute deviation the standard deviation of a normal
_MEAN_AD = 1.2533141373155001  # the same for the mean absolute deviation
_USUAL = 0.975
"""Records inside this quantile of the raw ellipse make the final one."""


@dataclass(frozen=True)
class Ellipse:
    """A center, a covariance, and the quantile of χ² at which records count as outliers."""

    center: Floats
    covariance: Floats
    quantile: float

    def to_plain(self) -> dict[str, Any]:
        """Give the ellipse as plain data."""
        return {"center": self.center.tolist(), "covariance": self.covariance.tolist(), "quantile": self.quantile}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> Ellipse:
        """Read an ellipse that was saved."""
        return cls(np.array(values["center"]), np.array(values["covariance"]), float(values["quantile"]))

    def excess(self, x: Floats) -> Floats:
        """Give each record's squared distance as a multiple of the limit: above 1 it lies outside.

        A record with missing values is judged by its other values, with the marginal ellipse of those.
        """
        from scipy.stats import chi2

        result = np.zeros(len(x))
        for rows, columns in _patterns(np.isnan(x)):
            inner = self.covariance[np.ix_(columns, columns)]
            distance = _squared(x[rows][:, columns], self.center[columns], inner)
            result[rows] = distance / chi2.ppf(self.quantile, len(columns))
        return result


def _patterns(missing: Bools) -> Iterator[tuple[Any, Ints]]:
    """Yield the rows that have the same columns present, and those columns; rows without any are left out."""
    if not missing.any():
        yield slice(None), np.arange(missing.shape[1])
        return
    from discretion.kernels.classes import patterns

    kinds, which = patterns(missing)
    for number, pattern in enumerate(kinds):
        if not pattern.all():
            yield np.flatnonzero(which == number), np.flatnonzero(~pattern)


def _squared(x: Floats, center: Floats, covariance: Floats) -> Floats:
    """Give squared Mahalanobis distances; a singular covariance raises LinAlgError."""
    scaled = np.einsum("ij,kj->ik", x - center, np.linalg.inv(np.linalg.cholesky(covariance)))
    return np.asarray(np.einsum("ij,ij->i", scaled, scaled))


def robust_scale(x: Floats) -> tuple[float, float]:
    """Give the median and a robust standard deviation (from the mean deviation where half the values are equal)."""
    center = float(np.median(x))
    away = np.abs(x - center)
    return center, float(np.median(away)) * _MAD or float(away.mean()) * _MEAN_AD


def fit_ellipse(x: Floats, quantile: float, columns: Sequence[str], ctx: Context) -> Ellipse:
    """Find the ellipse around the bulk of complete records, whatever up to half of them may be.

    The half of the records whose covariance has the smallest determinant is searched by concentration steps from
    several robust starts (deterministic up to 20,000 records: row order and seed do not matter; beyond, the starts are
    found on a random sample and the steps go on with all records). The estimate is then made again from the records
    within the 0.975 quantile of that ellipse. Time O(n·m²) per step for m columns.
    """
    n, m = x.shape
    names = ", ".join(columns)
    if n < 2 * (m + 1):
        raise DataError(f"columns {names}: {n} complete records; the ellipse needs at least {2 * (m + 1)}")
    scales = [robust_scale(x[:, j]) for j in range(m)]
    median, spread = (np.array(part) for part in zip(*scales, strict=True))
    z = (x - median) / spread
    try:
        center, covariance = _search(z, ctx)
        center, covariance = _reweighted(z, center, covariance)
    except np.linalg.LinAlgError:
        raise DataError(
            f"columns {names}: at least half of the records lie on one plane (a column with mostly equal values, or "
            "columns that determine each other), so that no ellipse fits; leave a column out"
        ) from None
    return Ellipse(center * spread + median, covariance * np.outer(spread, spread), quantile)


def _search(z: Floats, ctx: Context) -> tuple[Floats, Floats]:
    """Give center and covariance of the half with the smallest determinant."""
    sample = z if len(z) <= _SEARCH_ROWS else z[ctx.rng.choice(len(z), _SEARCH_ROWS, replace=False)]
    found = [_concentrate(sample, *start, ctx) for start in _starts(sample)]
    best = min(found, key=lambda item: float(np.linalg.slogdet(item[1])[1]))
    return best if sample is z else _concentrate(z, *best, ctx)


def _starts(z: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yield the robust first guesses of the deterministic search."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    length = np.sqrt(np.einsum("ij,ij->i", z, z))
    central = z[np.argpartition(length, len(z) // 2)[: len(z) // 2 + 1]]
    scores = ndtri((rankdata(z, axis=0) - 1 / 3) / (len(z) + 1 / 3))
    signs = z / np.where(length > 0, length, 1.0)[:, None]
    for shape in (np.cov(central, rowvar=False), *(np.cov(y, rowvar=False) for y in (np.tanh(z), scores, signs))):
        _, axes = np.linalg.eigh(np.atleast_2d(shape))
        turned = z @ axes
        parts = [robust_scale(turned[:, j]) for j in range(z.shape[1])]
        center, spread = (np.array(part) for part in zip(*parts, strict=True))
        yield axes @ center, (axes * spread**2) @ axes.T


def _concentrate(z: Floats, center: Floats, covariance: Floats, ctx: Context) -> tuple[Floats, Floats]:
    """Take the half of the records nearest to the center and estimate anew, until nothing changes."""
    half = (len(z) + z.shape[1] + 1) // 2
    before = np.inf
    for step in range(_STEPS):
        ctx.progress(step, _STEPS, f"{ctx.step}: ellipse around the bulk")
        nearest = np.argpartition(_squared(z, center, covariance), half - 1)[:half]
        center, covariance = _moments(z[nearest])
        size = float(np.linalg.slogdet(covariance)[1])
        if not before - size > 1e-7:
            break
        before = size
    return center, covariance


def _reweighted(z: Floats, center: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """Estimate anew from all records that are not far out; covariances made consistent for normal data."""
    from scipy.stats import chi2

    n, m = z.shape
    raw = covariance * _consistency((n + m + 1) // 2 / n, m)
    usual = _squared(z, center, raw) <= chi2.ppf(_USUAL, m)
    center, covariance = _moments(z[usual])
    return center, covariance * (1.0 if usual.all() else _consistency(_USUAL, m))


def _consistency(share: float, m: int) -> float:
    from scipy.stats import chi2

    return share / float(chi2.cdf(chi2.ppf(share, m), m + 2)) if share < 1 else 1.0


def _moments(x: Floats) -> tuple[Floats, Floats]:
    center = x.mean(axis=0)
    away = x - center
    covariance = np.einsum("ij,ik->jk", away, away) / (len(x) - 1)
    if not np.linalg.cond(covariance) < 1e14:
        raise np.linalg.LinAlgError("singular")
    return center, covariance
