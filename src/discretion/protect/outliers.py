"""Outliers over several columns: found robustly, pulled back to the edge of the bulk (P4) or given noise (P11)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.method import Decision, Purpose, StratifiedMethod
from discretion.part import Columns, Scale, confidential
from discretion.protect.noise_keep import NoiseMethod, Precision, decimals_of, factor_of, normals, round_columns

# Noise for outliers only (P11).


class OutlierNoise(NoiseMethod, kind="outlier-noise"):
    """Add random noise to the values of outliers, and leave all other values as they are.

    Column by column, a value is an outlier when it lies farther from the median than robust standard deviations (from
    the median absolute deviation) allow, and it alone is changed; with `joint`, a record is an outlier by its robust
    Mahalanobis distance over all columns, and all its values are changed with correlated noise. The noise has mean zero
    and `variance_share` times the variance (with `joint`, covariance) of the whole column: means hold in expectation,
    variances grow by at most the factor 1 + variance_share. Noisy values are rounded to the decimals of the column
    (`precision`): with more digits, or with fractions among whole numbers, everybody could see which were changed.

    Protects the values that stand out; says nothing false about the others, and does *not* protect them at all: an
    intruder who knows an ordinary value still recognizes it. Does not give k-anonymity. Missing values stay missing;
    with `joint`, a record that has some is judged by its other values. The bounds that were found can be re-used on the
    next delivery. Time linear column by column; with `joint` O(n·m²) per step of the search, some tens of steps.

    References
    ----------
    Templ & Meindl (2008), Robustification of microdata masking methods and the comparison with existing methods;
    catalogue P11.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0, 5.0, 500.0]})
    >>> noisy = dc.OutlierNoise(columns=["x"], variance_share=0.1)(x, seed=7)
    >>> noisy["x"].to_list()[:5], noisy["x"][5] == 500
    ([1.0, 2.0, 3.0, 4.0, 5.0], False)
    """

    variance_share: float = confidential(gt=0)
    """variance of the noise as a share of the column's variance (computed with 1/N)"""
    joint: bool = False
    """look for outliers over all columns together instead of column by column"""
    quantile: float = confidential(0.975, gt=0.5, lt=1)
    """quantile of the χ² distribution beyond which a value (or, with `joint`, a record) is an outlier"""

    purpose: ClassVar[Purpose] = "hide exact numbers"
    effect: ClassVar[str] = (
        "Values that stood out carry noise: tails, variances and extreme percentiles are uncertain; the bulk is exact."
    )
    guarantee: ClassVar[str] = (
        "Random noise was added to values that stood out; all other values are published as they are."
    )

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find what is an outlier, and the scale of the noise."""
        columns = self.choose(data)
        values: dict[str, Any] = {"columns": list(columns), "decimals": self.decimals(data, columns)}
        if self.joint:
            x = data.numbers(columns)
            values |= fit_ellipse(x[~np.isnan(x).any(axis=1)], self.quantile, columns, ctx).to_plain()
            covariance = ctx.engine.moments(data, columns).covariance
            values["factor"] = factor_of(covariance * self.variance_share).tolist()
        else:
            scales = [robust_scale(x[~np.isnan(x)]) for x in (data.number(name) for name in columns)]
            values["center"], values["scale"] = [s[0] for s in scales], [s[1] for s in scales]
            variances = [float(ctx.engine.moments(data, [name]).covariance[0, 0]) for name in columns]
            values["sd"] = [math.sqrt(variance * self.variance_share) for variance in variances]
        return Decision(MappingProxyType(values))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Add noise where a value stands out, batch by batch."""
        from scipy.stats import chi2

        if self.joint:
            ellipse, factor = Ellipse.from_plain(decision.values), np.array(decision["factor"])

            def jointly(block: Floats, rng: np.random.Generator) -> Floats:
                noise = normals(block.shape, factor, rng)
                return np.where(ellipse.excess(block)[:, None] > 1, block + noise, block)

            return self.change(data, decision, ctx, jointly)
        reach = math.sqrt(float(chi2.ppf(self.quantile, 1))) * np.array(decision["scale"])
        center, sd = np.array(decision["center"]), np.array(decision["sd"])

        def singly(block: Floats, rng: np.random.Generator) -> Floats:
            noise = rng.standard_normal(block.shape) * sd
            return np.where(np.abs(block - center) > reach, block + noise, block)

        return self.change(data, decision, ctx, singly)


# The ellipse around the bulk of the data: minimum covariance determinant, and how far records lie outside it.

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
        # center and covariance of the half with the smallest determinant
        sample = z if len(z) <= _SEARCH_ROWS else z[ctx.rng.choice(len(z), _SEARCH_ROWS, replace=False)]
        found = [_concentrate(sample, *start, ctx) for start in _starts(sample)]
        best = min(found, key=lambda item: float(np.linalg.slogdet(item[1])[1]))
        center, covariance = best if sample is z else _concentrate(z, *best, ctx)
        center, covariance = _reweighted(z, center, covariance)
    except np.linalg.LinAlgError:
        raise DataError(
            f"columns {names}: at least half of the records lie on one plane (a column with mostly equal values, or "
            "columns that determine each other), so that no ellipse fits; leave a column out"
        ) from None
    return Ellipse(center * spread + median, covariance * np.outer(spread, spread), quantile)


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


class WinsorizeOutliers(StratifiedMethod, kind="winsorize-outliers"):
    """Pull records that lie far from the bulk of the data back onto an ellipse around it.

    Top coding for several numeric columns together: center and covariance of the bulk are estimated robustly (minimum
    covariance determinant, so that up to half of the records may be outliers); a record whose squared Mahalanobis
    distance exceeds the χ² quantile moves along the line to the center onto the ellipse. Guarantees that no released
    record lies farther out than the ellipse (rounding to the decimals of the columns apart), so that an extreme
    combination cannot be told from another in the same direction by its size. Records inside the ellipse are published
    unchanged: they are *not* protected. Lowers variances where there were outliers. The ellipse suits symmetric
    columns: of skewed ones (incomes) a large part lies outside.

    Missing values stay missing; a record that has some is judged by its other values, the ellipse is found on the
    complete records. The ellipse that was found can be re-used on the next delivery. Time O(n·m²) per step of the
    search (m columns, some tens of steps), memory linear.

    References
    ----------
    Rousseeuw & Van Driessen (1999), A fast algorithm for the minimum covariance determinant estimator; Hubert,
    Rousseeuw & Verdonck (2012), A deterministic algorithm for robust location and scatter; catalogue P4.

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> x = np.random.default_rng(1).normal(size=(200, 2))
    >>> x[0] = 30, 40
    >>> coded = dc.WinsorizeOutliers(columns=["a", "b"])(pl.DataFrame(x, schema=["a", "b"]), seed=1)
    >>> bool(coded.row(0)[0] < 5)
    True
    """

    columns: Columns = ()
    """numeric columns to look at together; without it, the numeric quasi-identifiers and sensitive columns"""
    quantile: float = confidential(0.975, gt=0.5, lt=1)
    """quantile of the χ² distribution beyond which a record is an outlier; of normal data this share stays unchanged"""
    precision: Precision = "original"
    """`original`: round to the number of decimals of the column (whole numbers stay whole), so that digits do not tell
    which values were changed; `full`: publish all digits"""

    scale: ClassVar[Scale] = "columns"
    purpose: ClassVar[Purpose] = "hide exact numbers"
    effect: ClassVar[str] = (
        "Variances and the largest effects are too small, because outlying records were pulled in; the bulk is exact."
    )
    guarantee: ClassVar[str] = (
        "Records with extreme combinations of values were pulled back toward the bulk of the data; all others are "
        "published as they are."
    )

    def reads(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to pull in and those that form groups."""
        return self._reads_also(data, data.choose(self.columns, "perturb"))

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find the ellipse."""
        columns = data.choose(self.columns, "perturb")
        data.require_spread(columns)
        x = data.numbers(columns)
        ellipse = fit_ellipse(x[~np.isnan(x).any(axis=1)], self.quantile, columns, ctx)
        decimals = decimals_of(data, columns) if self.precision == "original" else {}
        return Decision(MappingProxyType({"columns": list(columns), "decimals": decimals, **ellipse.to_plain()}))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Move the outliers, batch by batch."""
        ellipse = Ellipse.from_plain(decision.values)
        decimals = [decision["decimals"].get(name) for name in decision["columns"]]

        def pull(block: Floats, _: np.random.Generator) -> Floats:
            excess = ellipse.excess(block)
            far = excess > 1
            result = block.copy()
            result[far] = ellipse.center + (block[far] - ellipse.center) / np.sqrt(excess[far])[:, None]
            round_columns(result, decimals)
            return result

        return ctx.engine.map_rows(data, decision["columns"], pull, integers=self.precision == "original")
