"""Outliers over several columns are pulled back to the edge of the bulk (P4)."""

from __future__ import annotations

from types import MappingProxyType
from typing import ClassVar

import numpy as np

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.kernels.arrays import Floats
from discretion.method import Decision, StratifiedMethod
from discretion.part import Columns, confidential
from discretion.protect.noise_keep import Precision, decimals_of, round_columns
from discretion.protect.robust import Ellipse, fit_ellipse


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
