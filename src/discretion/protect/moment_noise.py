"""Noise that keeps means and covariances: in expectation (Kim, Brand), or exactly by random rotations (P11)."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.method import Decision
from discretion.part import Columns, confidential
from discretion.protect.noise_keep import NoiseMethod, Precision, factor_of, normals

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
        means = [float(np.nanmean(data.number(name))) for name in columns]
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
