"""Noise: random numbers added to values or multiplied with them, some keeping means and covariances (P10–P12)."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import PersonDraws
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.method import Decision, Purpose
from discretion.part import Columns, Scale, confidential
from discretion.protect.noise_keep import NoiseMethod, PersonalNoise, Precision, factor_of, normals

# Noise that keeps means and covariances: in expectation (Kim, Brand), or exactly by random rotations (P11).

Rows = Ints

_TRIPLES = 65_536
"""Triples of records that are rotated at a time."""


class VariancePreservingNoise(NoiseMethod, kind="variance-preserving-noise"):
    """Shrink values toward their mean and add noise that makes up for it, so that variances stay the same.

    A record x becomes μ + √(1−p)·(x−μ) + √p·ε with ε normal of the covariance of the data and p the `variance_share`:
    means, variances, covariances and correlations hold in expectation, p is the share of the released variance that is
    noise. The shape of the distribution moves toward the normal. Values that are kept or reflected at a bound are apart
    from these moments, and rounding to the decimals of a column (`precision`; unit u) adds u²/12 to its variance, less
    than it varies by chance unless u is as large as the noise. Does not give k-anonymity; outliers stand out less than
    under added noise, but may still do so. Missing values stay missing; covariances are those of the complete records.
    Time O(n·m²) for m columns, memory linear.

    References
    ----------
    Kim (1986), A method for limiting disclosure in microdata; Brand (2002), Microdata protection through noise addition
    ("correlated noise, method 2"); catalogue P11.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> noisy = dc.VariancePreservingNoise(columns=["income", "savings"], variance_share=0.1)(people, seed=7)
    >>> len(noisy)
    1000
    """

    columns: Columns = ()
    """numeric columns to change together; without it, the numeric quasi-identifiers and sensitive columns"""
    variance_share: float = confidential(gt=0, lt=1)
    """share of the released variance (and covariance) that is noise"""

    purpose: ClassVar[Purpose] = "hide exact numbers"
    effect: ClassVar[str] = (
        "Means, variances and covariances are kept on average; each estimate has a little more variance, and shapes "
        "other than normal are smoothed."
    )
    scale: ClassVar[Scale] = "rows"
    guarantee: ClassVar[str] = (
        "Values were mixed with random noise that keeps means and covariances on average, so no published value can "
        "be taken as exact, though some are by chance; extreme values may still stand out."
    )

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find the means and factor the covariance of the noise."""
        columns = self.choose(data)
        moments = ctx.engine.moments(data, columns)
        # With N−1 the noise has, in expectation, exactly the covariance that the shrinking takes away.
        covariance = moments.covariance * moments.count / (moments.count - 1) * self.variance_share
        means = [ctx.engine.mean(data, name) for name in columns]
        values = {"columns": list(columns), "decimals": self.decimals(data, columns), "mean": means}
        return Decision(MappingProxyType({**values, "factor": factor_of(covariance).tolist()}))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Shrink and add the noise, batch by batch."""
        factor, mean = np.array(decision["factor"]), np.array(decision["mean"])
        keep = math.sqrt(1 - self.variance_share)

        def mix(block: Floats, rng: np.random.Generator) -> Floats:
            noisy = normals(block.shape, factor, rng)
            noisy += keep * (block - mean) + mean
            return noisy

        return self.change(data, decision, ctx, mix)


class OrthogonalNoise(NoiseMethod, kind="orthogonal-noise"):
    """Mix records by a random rotation that keeps means and covariances exactly.

    The data matrix is multiplied by a random orthogonal matrix, close to the identity, that leaves the mean in place
    (random orthogonal matrix masking). The matrix is never built: it is a product of rotations of three records at a
    time about their common mean, in random triples, each record once (the last ones now and then twice) in each of
    `rounds` rounds. Means, variances, covariances and correlations of the complete records are exact up to rounding
    errors; regressions between the columns give the same coefficients. A value's expected squared change is
    `variance_share` times the column's variance.

    Exact only without `keep_zeros`, `keep_sign` and bounds, and with all digits, which are therefore the default here:
    every value is changed, so that digits do not tell which. With `precision: original` a mean is off by about
    u/√(12·n), u the unit of the last decimal, a variance s² grows by u²/12 and covariances are off by about
    u·s/√(12·n). With one round and all digits, the sum of three published values is that of three original ones:
    where these are whole numbers the triples can be found, and with them the values; keep at least two rounds, or
    round. A record with a missing value cannot be
    rotated: its other values get independent noise of the same strength, which keeps means and variances in
    expectation. Does not give k-anonymity, and outliers may still stand out. Needs three complete records. Time
    O(n·columns·rounds), memory linear.

    References
    ----------
    Ting, Fienberg & Trottini (2008), Random orthogonal matrix masking methodology for microdata release, Int. J.
    Information and Computer Security 2(1); catalogue P11 (ROMM).

    Examples
    --------
    >>> import numpy as np, discretion as dc
    >>> people = dc.datasets.census(1000, seed=1).frame.select("savings", "age")
    >>> noisy = dc.OrthogonalNoise(columns=["savings", "age"], variance_share=0.2)(people, seed=7)
    >>> np.allclose(np.cov(noisy.to_numpy().T), np.cov(people.to_numpy().T), rtol=1e-12)
    True
    """

    columns: Columns = ()
    """numeric columns to rotate together; without it, the numeric quasi-identifiers and sensitive columns"""
    variance_share: float = confidential(gt=0, le=1)
    """expected squared change of a value as a share of the column's variance"""
    rounds: int = Field(3, ge=1, le=50)
    """how often every record is mixed with two others; after r rounds it holds parts of up to 3^r records"""
    precision: Precision = "full"
    """`full`: publish all digits, so that the moments are exact; `original`: round to the decimals of the column"""

    by_group: ClassVar[bool] = True
    purpose: ClassVar[Purpose] = "hide exact numbers"
    effect: ClassVar[str] = (
        "Means, variances and covariances are exact; shapes of distributions and relations that are not linear are "
        "smoothed."
    )
    guarantee: ClassVar[str] = (
        "Records were mixed by a random rotation that keeps means and covariances, rounding of values apart, so no "
        "published value can be taken as exact; extreme values may still stand out."
    )

    def fit(self, data: Dataset, ctx: Context) -> Decision:  # noqa: ARG002
        """Count the decimals of the columns; the rotation is drawn for the rows at hand."""
        return Decision(MappingProxyType({"decimals": self.decimals(data, self.choose(data))}))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Rotate the complete records; add noise to the others."""
        columns = self.choose(data)
        x = data.numbers(columns)
        incomplete = np.asarray(np.isnan(x).any(axis=1))
        rows = np.flatnonzero(~incomplete)
        if len(rows) < 3:
            raise DataError(f"columns {', '.join(columns)}: {len(rows)} complete records; a rotation needs three")
        rng = ctx.rng
        mean = x[rows].mean(axis=0)
        centered = x[rows] - mean
        rotate(centered, self.variance_share, self.rounds, rng, ctx)
        new = x.copy()
        new[rows] = centered + mean
        if incomplete.any():
            new[incomplete] = _alone(x, incomplete, self.variance_share, rng)
        new = self.keeper(data, columns, decision["decimals"])(x, new)
        whole = self.precision == "original"
        return data.with_columns({name: new[:, j] for j, name in enumerate(columns)}, integers=whole)


def rotate(x: Floats, variance_share: float, rounds: int, rng: np.random.Generator, ctx: Context) -> None:
    """Multiply centered records (in place) by a random orthogonal matrix that keeps their sum.

    Since lengths stay, the expected squared change after r rounds is 2·(1 − aʳ) times the variance, where one round
    takes a centered x to a·x in expectation. This is solved for the standard deviation of the angles.
    """
    n = len(x)
    sd = _angle_sd(n, (1 - variance_share / 2) ** (1 / rounds))
    triples = n // 3
    for turn in range(rounds):
        order = rng.permutation(n)
        for start in range(0, triples, _TRIPLES):
            ctx.progress(3 * start + turn * n, rounds * n, ctx.step)
            stop = min(start + _TRIPLES, triples)
            thirds = [order[part * triples + start : part * triples + stop] for part in range(3)]
            _turn(x, thirds, rng.normal(0.0, sd, stop - start))
        if n % 3:
            _turn(x, [order[[-1]], order[[-2]], order[[-3]]], rng.normal(0.0, sd, 1))
    ctx.progress(rounds * n, rounds * n, ctx.step)


def _angle_sd(n: int, kept: float) -> float:
    """Give the standard deviation of the angles of a round that takes a centered x to `kept`·x in expectation.

    A rotation of three records about their mean is, over normal angles of standard deviation s, the matrix
    1 − u·P in expectation, u = 1 − exp(−s²/2), P the projection on the plane of the three (trace 2). A round is the
    product of T = ⌊n/3⌋ rotations of separate triples and, where records are left over, one more that shares one or two
    records with earlier ones. Over random orders its expectation is a on centered vectors, and the trace is
    1 + a·(n − 1): a = 1 − (2·m·u − q·u²)/(n − 1), with m rotations, and q the trace of the product of the last
    projection with those before: 4/9 for every shared record, 2/9 more if two are in one triple.
    """
    triples, left = divmod(n, 3)
    rotations = triples + (left > 0)
    q = {0: 0.0, 1: 8 / 9 if triples > 1 else 10 / 9, 2: 4 / 9}[left]
    lost = (n - 1) * (1 - kept)  # = 2·m·u − q·u²
    u = lost / (rotations + math.sqrt(rotations * rotations - q * lost))
    return math.sqrt(-2 * math.log1p(-u))


def _turn(x: Floats, thirds: list[Rows], angles: Floats) -> None:
    """Rotate triples of records about their means: in each column the vector of three turns about (1, 1, 1)."""
    a, b, c = (x[rows] for rows in thirds)
    mean = (a + b + c) / 3
    cos, sin = np.cos(angles)[:, None], (np.sin(angles) / math.sqrt(3))[:, None]
    for rows, own, difference in zip(thirds, (a, b, c), (c - b, a - c, b - a), strict=True):
        x[rows] = mean + cos * (own - mean) + sin * difference


def _alone(x: Floats, rows: Bools, variance_share: float, rng: np.random.Generator) -> Floats:
    """Change records that cannot be rotated, value by value, keeping mean and variance in expectation."""
    mean, sd = np.nanmean(x, axis=0), np.nanstd(x, axis=0, ddof=1)
    kept = 1 - variance_share / 2
    noise = rng.standard_normal((int(rows.sum()), x.shape[1]))
    return np.asarray(mean + kept * (x[rows] - mean) + math.sqrt(1 - kept * kept) * sd * noise)


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

    purpose: ClassVar[Purpose] = "hide exact numbers"
    effect: ClassVar[str] = (
        "Means are unbiased; variances are too large by that of the noise, correlations and regression slopes are "
        "pulled toward zero, extreme percentiles pushed outward."
    )
    scale: ClassVar[Scale] = "rows"
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

    purpose: ClassVar[Purpose] = "hide exact numbers"
    effect: ClassVar[str] = (
        "Means and correlations are unbiased; variances and covariances are too large by one factor, percentiles are "
        "spread."
    )
    scale: ClassVar[Scale] = "rows"
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

    purpose: ClassVar[Purpose] = "hide exact numbers"
    effect: ClassVar[str] = (
        "Means are unbiased and zeros exact; variances are too large, most for large values; slopes are pulled toward "
        "zero, ratios of a record uncertain."
    )
    scale: ClassVar[Scale] = "rows"
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
