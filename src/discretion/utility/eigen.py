"""How far the shape of the data cloud changed: eigenvalues of the correlation matrices, and its inverse (U12)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Floats
from discretion.measure import Better, Measure, Score
from discretion.part import Columns, Scale
from discretion.utility.comparable import numeric_columns, shares_of, unseen


class _Shape(Measure):
    """What measures that compare matrices of the two data sets share; the rows need not belong together."""

    columns: Columns = ()
    """numeric columns; without it, all numbers but identifiers and weights (one generalized is an error)"""

    scale: ClassVar[Scale] = "columns"
    better: ClassVar[Better] = "lower"
    aligned: ClassVar[bool] = False

    def _read(self, data: Dataset, columns: tuple[str, ...], name: str) -> tuple[Floats, Floats, int]:
        """Give the complete records, their shares of the weight, and how many others there are."""
        x = data.numbers(columns)
        complete = ~np.isnan(x).any(axis=1)
        shares = shares_of(data, self.kind)[complete]
        if complete.sum() < 2 or not shares.sum() > 0:
            raise DataError(f"{self.kind}: the {name} has fewer than two complete records of {', '.join(columns)}")
        x, shares = x[complete], shares / shares.sum()
        for j, column in enumerate(columns):
            weighed = x[shares > 0, j]
            if weighed.min() == weighed.max():
                raise DataError(f"{self.kind}: column {column!r} is constant in the complete records of the {name}")
        return x, shares, int((~complete).sum())


def correlation(x: Floats, shares: Floats) -> Floats:
    """Give the weighted correlation matrix."""
    away = x - shares @ x
    covariance = (away * shares[:, None]).T @ away
    sd = np.sqrt(np.diag(covariance))
    return np.asarray(covariance / np.outer(sd, sd))


class _Eigenvalues(_Shape):
    @abstractmethod
    def _matrix(self, x: Floats, shares: Floats, ctx: Context, columns: tuple[str, ...]) -> Floats:
        """Give the matrix whose eigenvalues are compared."""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Compare eigenvalues from the largest to the smallest."""
        columns = numeric_columns(original, released, self.columns, self.kind)
        values, left_out = [], []
        for data, name in ((original, "original"), (released, "release")):
            x, shares, incomplete = self._read(data, columns, name)
            values.append(np.linalg.eigvalsh(self._matrix(x, shares, ctx, columns))[::-1])
            left_out.append(incomplete)
        before, after = values
        if before[-1] <= 1e-12 * before[0]:
            raise DataError(
                f"{self.kind}: a column of the original is determined by the others ({', '.join(columns)}), so that an "
                "eigenvalue is zero; leave one out"
            )
        relative = np.abs(before - after) / before
        value = float(relative.mean())
        note, absent = unseen(original, released, self.columns)
        return self.score(
            value,
            f"The eigenvalues of the {len(columns)} columns' correlations changed by {value:.3%} on average.{note}",
            sum=float(relative.sum()),
            original=before.tolist(),
            released=after.tolist(),
            columns=list(columns),
            incomplete_records=left_out,
            **absent,
        )


class EigenDifference(_Eigenvalues, kind="eigen-difference"):
    """Mean relative difference of the eigenvalues of the correlation matrices.

    Each data set is standardized by its own means and standard deviations, so that units and the number of records do
    not matter; |λ − λ'|/λ is averaged over the eigenvalues λ of the original, largest first (the detail has the sum,
    which other programs print). 0: the clouds have the same shape. It sees how much the columns depend on each other,
    not which ones: exchanging two columns changes nothing, nor do shifts and changes of scale. Weights count; records
    with missing values are left out and counted. Few small eigenvalues can dominate. A column that was generalized is
    no number any more and is an error. Time O(n·m²) for m columns.

    References
    ----------
    Templ & Meindl (2008), Robust statistics meets SDC; catalogue U12.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x = pl.DataFrame({"a": [1.0, 2, 3, 4], "b": [2.0, 1, 4, 3]})
    >>> y = pl.DataFrame({"a": [1.0, 2, 3, 4], "b": [1.0, 2, 4, 3]})
    >>> round(dc.EigenDifference(columns=["a", "b"])(x, y).value, 4)
    0.3125
    """

    def _matrix(self, x: Floats, shares: Floats, ctx: Context, columns: tuple[str, ...]) -> Floats:  # noqa: ARG002
        return correlation(x, shares)


class RobustEigenDifference(_Eigenvalues, kind="robust-eigen-difference"):
    """Mean relative difference of the eigenvalues of robust correlation matrices.

    As `EigenDifference`, with the correlations of the bulk of the records (minimum covariance determinant, reweighted)
    in place of those of all: outliers, which a method may treat apart, do not decide the figure. It is blind for
    what happens to the outliers. Records stand in the order of their values, so that row order does not matter;
    the search starts at random subsets. Weights are not used by the search and are an error. Time O(n·m²) a step.

    References
    ----------
    Rousseeuw & Van Driessen (1999), Technometrics 41; Templ & Meindl (2008); catalogue U12.

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> x = pl.DataFrame(np.random.default_rng(1).normal(size=(200, 2)), schema=["a", "b"])
    >>> dc.RobustEigenDifference(columns=["a", "b"])(x, x).value
    0.0
    """

    support_share: float | None = Field(None, gt=0.5, le=1)
    """share of the records that the ellipse is fitted to; without it, the smallest that is safe (about half)"""

    def _matrix(self, x: Floats, shares: Floats, ctx: Context, columns: tuple[str, ...]) -> Floats:
        if not np.allclose(shares, shares[0], rtol=1e-9):
            raise DataError(f"{self.kind}: it cannot use weights; leave the role `weight` out or use eigen-difference")
        import warnings

        from sklearn.covariance import MinCovDet

        z = (x - x.mean(axis=0)) / x.std(axis=0, ddof=1)
        z = z[np.lexsort(z.T[::-1])]
        ctx.progress(0, 1, ctx.step)
        seed = int(ctx.rng.integers(2**31 - 1))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found: Any = MinCovDet(support_fraction=self.support_share, random_state=seed).fit(z)
        except (ValueError, Warning):
            raise DataError(
                f"{self.kind}: columns {', '.join(columns)}: more than half of the records lie on one plane (many "
                "equal values, or columns that determine each other), so that no ellipse fits; leave a column out"
            ) from None
        sd = np.sqrt(np.diag(found.covariance_))
        return np.asarray(found.covariance_ / np.outer(sd, sd))


class CorrelationChange(_Shape, kind="correlation-change"):
    """Distance between the diagonals of the inverse correlation matrices, between 0 and 1.

    The diagonal of the inverse correlation matrix says how well each column is explained by all others together (its
    entries are 1/(1 − R²)). Both diagonals are scaled to length one; the value is their distance divided by √2. Only
    the pattern counts: when all columns become less dependent alike, or there is no dependence on either side, the
    value is 0, and for weak dependence it is close to 0 whatever happened. Weights count; records with missing
    values are left out. Time O(n·m²).

    References
    ----------
    Młodak (2020), Information loss resulting from statistical disclosure control; IL_correl of sdcMicro; catalogue U12.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x = pl.DataFrame({"a": [1.0, 2, 3, 4], "b": [1.0, 2, 4, 3], "c": [5.0, 1, 2, 6]})
    >>> dc.CorrelationChange(columns=["a", "b", "c"])(x, x).value
    0.0
    """

    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Compare the scaled diagonals."""
        columns = numeric_columns(original, released, self.columns, self.kind)
        if len(columns) < 2:
            raise DataError(f"{self.kind}: it needs at least two columns")
        diagonals = []
        for data, name in ((original, "original"), (released, "release")):
            x, shares, _ = self._read(data, columns, name)
            matrix = correlation(x, shares)
            if np.linalg.cond(matrix) > 1e13:
                raise DataError(f"{self.kind}: a column of the {name} is determined by the others; leave one out")
            diagonal = np.diag(np.linalg.inv(matrix))
            diagonals.append(diagonal)
        a, b = (d / np.sqrt((d**2).sum()) for d in diagonals)
        value = min(float(np.sqrt(((a - b) ** 2).sum() / 2)), 1.0)
        note, absent = unseen(original, released, self.columns)
        return self.score(
            value,
            f"How well each column is explained by the others changed by {value:.3g} (0: the same pattern).{note}",
            original=dict(zip(columns, map(float, diagonals[0]), strict=True)),
            released=dict(zip(columns, map(float, diagonals[1]), strict=True)),
            **absent,
        )
