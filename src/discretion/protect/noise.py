"""Noise: random numbers added to values, or multiplied with them (P10–P12)."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.persons import PersonDraws
from discretion.kernels.arrays import Floats
from discretion.method import Decision
from discretion.part import Columns, confidential
from discretion.protect.noise_keep import NoiseMethod, PersonalNoise, factor_of, normals


class AdditiveNoise(PersonalNoise, kind="additive-noise"):
    """Add independent random noise of mean zero to each value.

    Means and covariances between columns hold in expectation; variances grow by the factor 1 + variance_share and
    correlations shrink by 1/(1 + variance_share). Give exactly one of the two strengths. Noise can give impossible
    values (a negative age); with `keep_zeros`, `keep_sign`, `lower` or `upper`, values near zero or a bound are
    reflected, and the moments hold only away from them. Does not give k-anonymity, and small noise does not hide
    outliers: the largest income stays the largest. Missing values stay missing. Time and memory are linear in the
    number of values.

    Results are rounded to the decimals of the column (`precision`): further digits would tell changed values from
    others, and hide nothing, since whoever knows the unit u of the last decimal can round himself. Rounding adds u²/12
    to variances, and a share erf(u/(√8·sd)) of the values comes out as it was under normal noise: 38 % at sd = u, 95 %
    at sd = u/4. Noise must be large beside u; for small counts and codes `Pram` is the method.

    References
    ----------
    Brand (2002), Microdata protection through noise addition; catalogue P10.

    Examples
    --------
    >>> import discretion as dc
    >>> noisy = dc.AdditiveNoise(columns=["income"], sd_share=0.2)(dc.datasets.census(1000, seed=1), seed=7)
    >>> len(noisy)
    1000
    """

    variance_share: float | None = confidential(None, gt=0)
    """how strong the noise is: its variance as a share of the column's variance (computed with 1/N)"""
    sd_share: float | None = confidential(None, gt=0)
    """how strong the noise is: its usual size as a share of the column's usual spread (the sd, with N−1)"""
    distribution: Literal["normal", "laplace"] = "normal"
    """shape of the noise; laplace has heavier tails at the same variance"""

    guarantee: ClassVar[str] = (
        "Random noise was added to values, so no published value can be taken as exact, though some are by chance; "
        "extreme values may still stand out."
    )

    @model_validator(mode="after")
    def _one_strength(self) -> Self:
        if (self.variance_share is None) == (self.sd_share is None):
            raise ValueError("give exactly one of `variance_share` and `sd_share`")
        return self

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Work out the standard deviation of each column's noise."""
        columns = self.choose(data)
        sds = []
        for name in columns:
            moments = ctx.engine.moments(data, [name])
            if self.sd_share is not None:
                sds.append(self.sd_share * float(moments.sd[0]))
            else:
                sds.append(math.sqrt((self.variance_share or 0.0) * float(moments.covariance[0, 0])))
        return Decision(
            MappingProxyType({"columns": list(columns), "decimals": self.decimals(data, columns), "sd": sds})
        )

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Add the noise, batch by batch."""
        sd = np.array(decision["sd"])
        if self.by_person:
            draws = PersonDraws(data, self.person, ctx)
            return self.change_people(data, decision, draws, lambda x, u: x + self._quantiles(u) * sd)

        def add(block: Floats, rng: np.random.Generator) -> Floats:
            if self.distribution == "normal":
                noise = rng.standard_normal(block.shape)
                noise *= sd
            else:
                noise = rng.laplace(0.0, sd / math.sqrt(2), block.shape)
            noise += block
            return noise

        return self.change(data, decision, ctx, add)

    def _quantiles(self, u: Floats) -> Floats:
        """Turn numbers between 0 and 1 into noise of standard deviation one."""
        from scipy.special import ndtri

        if self.distribution == "normal":
            return np.asarray(ndtri(u))
        return np.asarray(np.sign(u - 0.5) * -np.log1p(-2 * np.abs(u - 0.5)) / math.sqrt(2))


class CorrelatedNoise(NoiseMethod, kind="correlated-noise"):
    """Add noise whose correlations are those of the data.

    The noise is normal with mean zero and covariance variance_share · Σ, Σ the covariance of the columns (1/N):
    means and correlations hold in expectation, variances and covariances grow by 1 + variance_share (values that are
    kept or reflected at a bound apart; rounding to decimals of unit u adds u²/12 to a variance). Does not give
    k-anonymity, and does not hide outliers. Missing values stay missing; Σ is taken from the complete records. Time
    O(n·m²) for m columns, memory linear.

    References
    ----------
    Kim (1986), A method for limiting disclosure in microdata; catalogue P11.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> noisy = dc.CorrelatedNoise(columns=["income", "savings"], variance_share=0.1)(people, seed=7)
    >>> len(noisy)
    1000
    """

    columns: Columns = ()
    """numeric columns to change together; without it, the numeric quasi-identifiers and sensitive columns"""
    variance_share: float = confidential(gt=0)
    """covariance of the noise as a share of the covariance of the columns"""

    guarantee: ClassVar[str] = (
        "Correlated random noise was added to values, so no published value can be taken as exact, though some are by "
        "chance; extreme values may still stand out."
    )

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Factor the covariance of the noise."""
        columns = self.choose(data)
        covariance = ctx.engine.moments(data, columns).covariance * self.variance_share
        factor = factor_of(covariance)
        decimals = self.decimals(data, columns)
        return Decision(MappingProxyType({"columns": list(columns), "decimals": decimals, "factor": factor.tolist()}))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Add the noise, batch by batch."""
        factor = np.array(decision["factor"])

        def add(block: Floats, rng: np.random.Generator) -> Floats:
            noise = normals(block.shape, factor, rng)
            noise += block
            return noise

        return self.change(data, decision, ctx, add)


class MultiplicativeNoise(PersonalNoise, kind="multiplicative-noise"):
    """Multiply each value by a random factor of mean one that is never negative.

    Large values change more than small ones, no sign turns, and means hold in expectation; variances grow. Zeros stay
    zero: they are *not* protected. Values are rounded to the decimals of the column (`precision`), so that one near the
    last decimal may come out as it was, or as zero (not with `keep_sign`). Missing values stay missing. Normal factors
    below zero are drawn again and the factors are scaled so that their mean is one. Time and memory linear.

    References
    ----------
    Kim & Winkler (2003), Multiplicative noise for masking continuous data; catalogue P12.

    Examples
    --------
    >>> import discretion as dc
    >>> noisy = dc.MultiplicativeNoise(columns=["income"], sd=0.3)(dc.datasets.census(1000, seed=1), seed=7)
    >>> len(noisy)
    1000
    """

    sd: float = confidential(gt=0, le=1)
    """standard deviation of factors (of normal ones before those below zero are drawn again: above 0.4 it is less)"""
    distribution: Literal["normal", "lognormal"] = "normal"
    """shape of the factor; lognormal factors are positive without redrawing"""

    guarantee: ClassVar[str] = (
        "Values were multiplied by random factors, so no published value can be taken as exact, though some are by "
        "chance, and zeros stayed zero."
    )

    def fit(self, data: Dataset, ctx: Context) -> Decision:  # noqa: ARG002
        """Check the columns; there is nothing else to learn."""
        columns = self.choose(data)
        return Decision(MappingProxyType({"columns": list(columns), "decimals": self.decimals(data, columns)}))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Multiply, batch by batch."""
        if self.by_person:
            draws = PersonDraws(data, self.person, ctx)
            return self.change_people(data, decision, draws, lambda x, u: x * self._quantiles(u))

        def multiply(block: Floats, rng: np.random.Generator) -> Floats:
            factors = self._factors(rng, block.shape)
            factors *= block
            return factors

        return self.change(data, decision, ctx, multiply)

    def _factors(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        if self.distribution == "lognormal":
            variance = math.log1p(self.sd**2)
            return rng.lognormal(-variance / 2, math.sqrt(variance), shape)
        factors = rng.normal(1.0, self.sd, shape)
        while (negative := factors < 0).any():
            factors[negative] = rng.normal(1.0, self.sd, int(negative.sum()))
        factors /= _truncated_mean(self.sd)
        return factors

    def _quantiles(self, u: Floats) -> Floats:
        """Turn numbers between 0 and 1 into factors of mean one."""
        from scipy.special import ndtr, ndtri

        if self.distribution == "lognormal":
            variance = math.log1p(self.sd**2)
            return np.exp(math.sqrt(variance) * ndtri(u) - variance / 2)
        below = ndtr(-1.0 / self.sd)
        return np.maximum(1.0 + self.sd * ndtri(below + u * (1.0 - below)), 0.0) / _truncated_mean(self.sd)


def _truncated_mean(sd: float) -> float:
    """Give the mean of N(1, sd²) given that it is not negative."""
    cut = 1.0 / sd
    density = math.exp(-cut * cut / 2) / math.sqrt(2 * math.pi)
    return 1.0 + sd * density / (0.5 * math.erfc(-cut / math.sqrt(2)))
