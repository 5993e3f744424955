"""Noise for outliers only (P11)."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.kernels.arrays import Floats
from discretion.method import Decision
from discretion.part import confidential
from discretion.protect.noise_keep import NoiseMethod, factor_of, normals
from discretion.protect.robust import Ellipse, fit_ellipse, robust_scale


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
