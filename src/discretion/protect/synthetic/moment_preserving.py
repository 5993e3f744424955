"""Synthetic numbers with exactly the means and covariances of the data (P23, P24)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Floats
from discretion.method import Decision, Purpose
from discretion.part import confidential
from discretion.protect.synthetic.generator import FEWEST_ROWS, Generator
from discretion.protect.synthetic.variables import ColumnKind, count_values, describe, is_number

if TYPE_CHECKING:
    import polars as pl

_MOST_LOOKED_AT = 50


class MomentPreserving(Generator, kind="moment-preserving"):
    """Draw normal numbers, then turn them so that their means and covariances are exactly those of the data.

    With `columns`, the other columns stay, and the covariances with the numeric ones among them (those without missing
    values) are exact too: every linear regression gives the same coefficients and standard errors as the data. With
    `by`, this holds in every group. Guarantees means and covariances (1/N) to the precision of floats, and that given
    these a record says nothing about anybody. Does not keep anything else: distributions are normal, whole numbers
    become fractions, signs and bounds are lost. **Every preserved moment is a published figure**: what is not fit to be
    published as a table of means must not be a group here. Groups of at most p + 1 records (p columns), or fewer than
    10, are refused, groups in which one record holds more than `dominance` of a total or of a sum of squares, or two of
    a sum weighted by other columns, and columns in which all but a few have the same value;
    differences between overlapping releases are not seen.
    Moments are those of the records without missing values; a missing value stays missing. Time O(n·p²).

    References
    ----------
    Burridge (2003), Information preserving statistical obfuscation, Statistics and Computing 13; Muralidhar & Sarathy
    (2008), Generating sufficiency-based non-synthetic perturbed data, TDP 1(1); catalogue P23, P24.

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> x = pl.DataFrame(np.random.default_rng(1).lognormal(size=(50, 2)), schema=["a", "b"])
    >>> y = dc.MomentPreserving()(x, seed=7)
    >>> bool(np.allclose(np.cov(y.to_numpy().T), np.cov(x.to_numpy().T)))
    True
    """

    dominance: float = confidential(0.85, gt=0, le=1)
    """largest share of a column's total, in absolute values or in squares, that one record of a group may hold"""

    purpose: ClassVar[Purpose] = "make up"
    effect: ClassVar[str] = (
        "Means, variances and covariances are exactly those of the data; everything else (tails, percentiles, "
        "relations that are not linear) is that of a normal distribution."
    )
    guarantee: ClassVar[str] = (
        "Numbers were drawn with exactly the means and covariances of the data: these are published figures; given "
        "them, a record says nothing about anybody. Two such files of nearly the same people give the difference away: "
        "the moments of those who are in one of them only."
    )

    def fit(self, data: Dataset, ctx: Context) -> Decision:  # noqa: ARG002
        """Compute the moments, if they may be published."""
        self.check(data)
        drawn = [name for name in self.names(data) if name not in self.by]
        keeps = self.constants == "keep" and not self.by  # what all of a group have is a figure about the group
        same = [name for name in drawn if keeps and count_values(data, name) < 2]
        names = self._numeric(data, [name for name in drawn if name not in same])
        data.require_spread(names)
        kept = self._kept(data)
        x, y = _matrix(data, kept), data.numbers(names)
        complete = ~np.isnan(y).any(axis=1)
        x, y = x[complete], y[complete]
        width = len(names) + len(kept)
        if len(y) <= width + 1 or len(y) < FEWEST_ROWS:
            raise DataError(
                f"{self.kind}: {len(y)} records without missing values for {width} columns ({', '.join(names)}): their "
                "moments would give single records away; a group needs more than one record above the number of "
                f"columns, and at least {FEWEST_ROWS}"
            )
        for name, column in zip(names, y.T, strict=True):
            sizes = np.abs(column)
            centered = np.abs(column - column.mean())
            for parts, figure in ((sizes, "mean"), (sizes**2, "variance"), (centered**2, "variance")):
                if parts.sum() > 0 and parts.max() > self.dominance * parts.sum():
                    raise DataError(
                        f"{self.kind}: in column {name!r} one record holds more of the total (of absolute values, or "
                        f"of squares) than `dominance` allows: the {figure} would give it away; form larger groups, or "
                        "top-code the column first"
                    )
        self._refuse_few(np.column_stack([x[:, 1:], y]), (*kept, *names))
        slope = np.linalg.lstsq(x, y, rcond=None)[0]
        left = y - x @ slope
        return Decision(
            MappingProxyType(
                {
                    "records": len(data),
                    "columns": [{"column": name} for name in names],
                    "kept": list(kept),
                    "slope": slope.tolist(),
                    "covariance": (left.T @ left / len(left)).tolist(),
                    "constants": [_constant(data, name) for name in (*self.by, *same)] if self.makes_rows else [],
                    "model": {},
                }
            )
        )

    def _refuse_few(self, values: Floats, names: Sequence[str]) -> None:
        """Refuse columns whose products with others are about a few people: whoever is alone there is published.

        Every published sum of products weighs records by a combination of columns. The one that weighs a record most
        gives it the share of its leverage in the squares of the weights; two records must not have more than
        `dominance` of them, and a column must not be the same for all but a few.
        """
        for name, column in zip(names, values.T, strict=True):
            usual = float(np.unique_counts(column).counts.max())
            if 0 < len(column) - usual < FEWEST_ROWS:
                raise DataError(
                    f"{self.kind}: column {name!r} is the same for all but fewer than {FEWEST_ROWS} records: its "
                    "covariances with the others would give these away; drop it, or form larger groups"
                )
        scaled = values - values.mean(axis=0)
        spread = np.abs(scaled).max(axis=0)
        whole = np.column_stack([np.ones(len(values)), scaled / np.where(spread > 0, spread, 1.0)])
        axes, sizes, _ = np.linalg.svd(whole, full_matrices=False)
        found = axes[:, sizes > 1e-10 * sizes[0]]
        leverage = (found**2).sum(axis=1)
        for record in np.argsort(-leverage)[:_MOST_LOOKED_AT]:
            weights = np.sort((found @ found[record]) ** 2)
            if weights[-2:].sum() > self.dominance * leverage[record]:
                raise DataError(
                    f"{self.kind}: columns {', '.join(names)}: the covariances are decided by two records or fewer "
                    "(more of a weighted sum of squares than `dominance` allows), and would give them away; top-code "
                    "columns of long tails, drop columns that few people have, or form larger groups"
                )

    def _numeric(self, data: Dataset, names: Sequence[str]) -> Sequence[str]:
        if not names:
            raise DataError(f"{self.kind}: there are no columns to draw")
        for name in names:
            if not data.is_numeric(name) or not is_number(data, name):
                raise DataError(
                    f"{self.kind}: column {name!r} is not one of numbers that count or measure; name the `columns` to "
                    "draw (the others stay), or form groups by it (`by`)"
                )
        return names

    def _kept(self, data: Dataset) -> tuple[str, ...]:
        if self.makes_rows:
            return ()
        left_out = {*data.having("identifier", "unit", "household"), *self.columns, *self.by}
        return tuple(
            name
            for name in data.columns
            if name not in left_out
            and data.is_numeric(name)
            and not data.count_missing(name)
            and data.extremes(name)[0] < data.extremes(name)[1]
        )

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Draw the numbers; missing ones stay missing."""
        if self.makes_rows:
            return data.with_new_rows(self.new_rows(data, decision, self.rows or len(data), ctx))
        names = [known["column"] for known in decision["columns"]]
        x, before = _matrix(data, decision["kept"]), data.numbers(names)
        absent = np.isnan(before)
        complete = ~absent.any(axis=1)
        made = np.empty_like(before)
        rng = ctx.rng
        made[complete] = self._drawn(x[complete], decision.values, rng)
        rest = x[~complete] @ np.asarray(decision["slope"])
        made[~complete] = rest + rng.standard_normal(rest.shape) @ _root(decision["covariance"]).T
        made[absent] = np.nan
        return data.with_columns(dict(zip(names, made.T, strict=True)))

    def new_rows(self, data: Dataset, decision: Decision, rows: int, ctx: Context) -> pl.DataFrame:
        """Draw rows that belong to nobody."""
        import polars as pl

        made = self._drawn(np.ones((rows, 1)), decision.values, ctx.rng)
        found = {
            known["column"]: pl.Series(known["column"], column)
            for known, column in zip(decision["columns"], made.T, strict=True)
        }
        for known in decision["constants"]:
            kind = ColumnKind.from_plain(known)
            every = {key: np.full(rows, value) for key, value in known["values"].items()}
            found[kind.column] = kind.series(every, data.frame.schema[kind.column])
        return pl.DataFrame([found[name] for name in data.columns if name in found])

    def _drawn(self, x: Floats, known: Mapping[str, Any], rng: np.random.Generator) -> Floats:
        """Draw numbers whose regression on x and whose residual covariance are exactly those that are known."""
        slope = np.asarray(known["slope"], np.float64)
        rows, width = len(x), slope.shape[1]
        if rows <= x.shape[1] + width:
            raise DataError(f"{self.kind}: {rows} rows are too few to have the moments of {width} columns")
        basis = np.linalg.qr(x / np.maximum(np.abs(x).max(axis=0), 1e-300))[0]
        noise = rng.standard_normal((rows, width))
        for _ in range(2):  # once more takes the rounding of the first away
            noise = noise - basis @ (basis.T @ noise)
            noise = np.linalg.qr(noise)[0]
        return np.asarray(x @ slope + np.sqrt(rows) * noise @ _root(known["covariance"]).T, np.float64)

    def facts(self, decision: Decision) -> dict[str, Any]:
        """Give the number of records; moments stand in the data."""
        groups = decision.values.get("groups", {"": decision.values})
        return {"records": sum(int(one["records"]) for one in groups.values())}


def _constant(data: Dataset, column: str) -> dict[str, Any]:
    """Give a column of one value (or none) as plain data."""
    kind, variables = describe(data, column, MomentPreserving.kind)
    return kind.to_plain() | {"values": {one.key: float(one.values[0]) for one in variables}}


def _matrix(data: Dataset, names: Sequence[str]) -> Floats:
    """Give a constant and some columns."""
    return np.column_stack([np.ones(len(data)), *(data.number(name) for name in names)])


def _root(covariance: Any) -> Floats:
    """Give a factor of a covariance, worked out on the scale of correlations: columns may differ by orders."""
    matrix = np.asarray(covariance, np.float64)
    sd = np.sqrt(np.diag(matrix))
    scale = np.where(sd > 0, sd, 1.0)
    roots, axes = np.linalg.eigh(matrix / np.outer(scale, scale))
    return np.asarray(scale[:, None] * axes * np.sqrt(np.maximum(roots, 0.0)), np.float64)
