"""Identity denoising: published sums let one take noise away."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Annotated, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.rules import read_edit_rules
from discretion.data.sql_filter import Condition, Linear
from discretion.errors import DataError, PlanError, unknown
from discretion.kernels.arrays import Floats
from discretion.measure import RiskShare, Score, as_percent

_SEEN = 500
_MOST_COLUMNS = 10
_HOLDS = 0.95
"""Share of the records in which a sum must hold to be one that everybody knows."""


class IdentityDenoising(RiskShare, kind="identity-denoising"):
    """Share of true values that an intruder comes near to by sums that everybody knows to hold.

    Income is wage plus rent: who sees all three with noise has one equation more than unknowns. The intruder projects
    each record on the sums (generalized least squares): y − ΣAᵀ(AΣAᵀ)⁺(Ay − c), with A and c the sums, y the published
    numbers and Σ the covariance of the noise, which he is assumed to know. Of independent noise of equal variance σ² in
    m columns of one sum, σ²/m is taken away from each. Sums that the release keeps (added up anew) give nothing more.
    What then lies outside a range that the schema's edit rules declare (`rent >= 0`) is taken to be its end.

    A value is near within `sd_share` standard deviations of its column. The value is that of the column with the
    largest gain, `chance` what is as near in the published numbers as they are; `per_column` of the detail has both,
    with the root mean square errors before and after. The sums are those named here, those of the schema's edit
    rules, and sums of two or three columns that hold in the original. Records with a missing value in a sum are left
    out. Time O(n·m²).

    References
    ----------
    Rao (1973), Linear statistical inference and its applications, 4a (least squares under restrictions); De Waal,
    Pannekoek & Scholtus (2011), on adjusting records to sums; catalogue R5 (attribute disclosure).

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> rng = np.random.default_rng(1)
    >>> people = pl.DataFrame({"wage": rng.normal(50, 9, 2000), "rent": rng.normal(20, 9, 2000)})
    >>> people = people.with_columns(income=pl.col("wage") + pl.col("rent"))
    >>> noisy = people + pl.DataFrame(rng.normal(0, 3, (2000, 3)), schema=people.columns)
    >>> error = dc.IdentityDenoising()(people, noisy).detail["per_column"]["wage"]
    >>> round(error["rmse_after"] / error["rmse_before"], 1)  # √(2/3)
    0.8
    """

    rules: Annotated[tuple[str, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)] = ()
    """sums that everybody knows, as `income == wage + rent`; without it, those of the schema and those that hold"""
    sd_share: float = Field(0.05, gt=0)
    """a number is near within this many standard deviations"""

    on_original: ClassVar[bool] = False

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Project the published numbers on the sums, and compare with the original."""
        sums = self._named(original) if self.rules else known_sums(original, released)
        if not sums:
            raise DataError(f"{self.kind}: no sum of published numbers is known, or holds in the original")
        columns = list(dict.fromkeys(name for one in sums for name, _ in one.terms))
        lacking = [name for name in columns if name not in released.columns or not released.is_numeric(name)]
        if lacking:
            raise DataError(f"{self.kind}: not published as numbers: {', '.join(lacking)}")
        true, seen = original.numbers(columns), released.numbers(columns)
        whole = ~(np.isnan(true).any(axis=1) | np.isnan(seen).any(axis=1))
        if whole.sum() < 2:
            raise DataError(f"{self.kind}: fewer than two records have all the numbers of the sums")
        true, seen = true[whole], seen[whole]
        low, high = declared_ranges(original, columns)
        guessed = np.clip(projected(seen, true, sums, columns), low, high)
        per_column = {}
        for place, name in enumerate(columns):
            spread = float(true[:, place].std(ddof=1))
            before, after = (np.abs(one[:, place] - true[:, place]) for one in (seen, guessed))
            within = self.sd_share * spread
            per_column[name] = {
                "share": float((after <= within).mean()),
                "chance": float((before <= within).mean()),
                "rmse_before": float(np.sqrt((before**2).mean())),
                "rmse_after": float(np.sqrt((after**2).mean())),
            }
        worst = max(per_column, key=lambda name: _gain(per_column[name]))
        found = per_column[worst]
        meaning = (
            f"By sums that hold ({len(sums)}) {as_percent(found['share'])} of the values of {worst} are known to "
            f"within {self.sd_share:g} standard deviations, {as_percent(found['chance'])} without them."
        )
        return self.score(
            found["share"],
            meaning,
            chance=found["chance"],
            columns=columns,
            worst_column=worst,
            per_column=per_column,
            sums=[_text(one) for one in sums],
            records=int(whole.sum()),
        )

    def _named(self, original: Dataset) -> list[Linear]:
        found = []
        for rule in read_edit_rules(self.rules):
            if rule.identity is None:
                raise PlanError(f"{self.kind}: {rule.text!r} is no sum; write it as `income == wage + rent`")
            for name in sorted(rule.columns - {*original.columns}):
                raise PlanError(f"{self.kind}: {rule.text!r}: {unknown('column', name, original.columns)}")
            found.append(rule.identity)
        return found


def declared_ranges(data: Dataset, columns: Sequence[str]) -> tuple[Floats, Floats]:
    """Give the smallest and the largest number that the edit rules of the schema allow in each column."""
    low, high = np.full(len(columns), -np.inf), np.full(len(columns), np.inf)
    for rule in read_edit_rules(data.schema.edit_rules):
        where = rule.where
        if not isinstance(where, Condition) or where.column not in columns:
            continue
        ends = [float(value) for value in where.values if isinstance(value, int | float)]
        place = columns.index(where.column)
        if where.op in (">", ">=", "between") and ends:
            low[place] = max(low[place], ends[0])
        if where.op in ("<", "<=", "between") and ends:
            high[place] = min(high[place], ends[-1])
    return low, np.maximum(low, high)


def projected(seen: Floats, true: Floats, sums: Sequence[Linear], columns: Sequence[str]) -> Floats:
    """Move records to the nearest ones that fulfil the sums, near by the covariance of the noise."""
    a = np.zeros((len(sums), len(columns)))
    for row, one in enumerate(sums):
        for name, factor in one.terms:
            a[row, columns.index(name)] += factor
    constants = np.array([one.constant for one in sums])
    noise = seen - true
    covariance = noise.T @ noise / len(noise)  # the second moment: a bias is noise too
    inner = np.linalg.pinv(a @ covariance @ a.T, rcond=1e-10, hermitian=True)
    gap = seen @ a.T - constants
    found: Floats = seen - gap @ inner @ a @ covariance
    return found


def known_sums(original: Dataset, released: Dataset) -> list[Linear]:
    """Give the sums of published numbers that edit rules name or that hold in the original, none twice."""
    published = [name for name in released.columns if name in original.columns]
    published = [name for name in published if released.is_numeric(name) and original.is_numeric(name)]
    rules = [rule for rule in read_edit_rules(original.schema.edit_rules) if rule.columns <= {*published}]
    frame = original.frame  # a declared sum that is not true would lead away from the truth, and hide a true one
    named = [rule.identity for rule in rules if rule.identity and rule.broken(frame).mean() <= 1 - _HOLDS]
    found = [one for one in named if one is not None]
    known = {frozenset(name for name, _ in one.terms) for one in found}
    for one in _holding(original, published):
        if frozenset(name for name, _ in one.terms) not in known:
            known.add(frozenset(name for name, _ in one.terms))
            found.append(one)
    return found


def _holding(data: Dataset, columns: Sequence[str]) -> list[Linear]:
    """Find sums of two or three columns that hold in nearly all of the first records."""
    hidden = data.having("identifier", "household", "unit", "weight")
    chosen = [name for name in columns if name not in hidden and data.is_quantity(name)][:_MOST_COLUMNS]
    x = data.numbers(chosen)[:_SEEN] if len(chosen) > 2 else np.zeros((0, 0))
    x = x[~np.isnan(x).any(axis=1)] if x.size else x
    if len(x) < 20:
        return []
    varied = [place for place in range(len(chosen)) if x[:, place].std() > 0]
    found = []
    for place in varied:
        others = [other for other in varied if other != place]
        for size in (2, 3):
            for parts in combinations(others, size):
                gap = np.abs(x[:, place] - x[:, parts].sum(axis=1))
                fits = gap <= 1e-6 * (np.abs(x[:, place]) + np.abs(x[:, parts]).sum(axis=1)) + 1e-9
                if fits.mean() >= _HOLDS:
                    terms = ((chosen[place], 1.0), *((chosen[part], -1.0) for part in parts))
                    found.append(Linear(terms, "=", 0.0, chosen[place]))
    return found


def _gain(found: dict[str, float]) -> float:
    return (found["share"] - found["chance"]) / max(1 - found["chance"], 1e-12)


def _text(one: Linear) -> str:
    written = " ".join(f"{'+' if factor > 0 else '−'} {abs(factor):g}·{name}" for name, factor in one.terms)
    return f"{written} = {one.constant:g}".replace("1·", "").replace("-0", "0")
