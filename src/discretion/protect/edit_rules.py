"""Bringing a protected file back within its edit rules."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.rules import LevelRule, broken_rows, edit_rules_of, resummed
from discretion.data.sql_filter import Condition, Filter, Not, Or
from discretion.kernels.arrays import Bools
from discretion.method import Decision, Method
from discretion.privacy.edit_rules import RuleTexts


class RestoreEditRules(Method, kind="restore-edit-rules"):
    """Change values that break edit rules so that they hold again: clip to ranges, set what follows, add sums anew.

    Looks at the protected values and the rules only, never at the original, so that it tells nothing that the rules and
    the release do not tell already. A number outside its range becomes the nearest bound; where `condition -> column ==
    constant` (or `IS NULL`) is broken, the column becomes the constant (or missing); the sum on the left of
    `income == wage + rent` is added up from its parts, after all that. Rules of other forms are left alone: require
    `edit-rules` to stop what remains. Clipping piles records up at the bounds, and a sum added anew has the errors of
    all its parts. Does not protect anything by itself. Time linear.

    References
    ----------
    De Waal, Pannekoek & Scholtus (2011), Handbook of statistical data editing and imputation, on adjusting records;
    catalogue, what institutions need.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> noisy = pl.DataFrame({"income": [5.2, 7.1], "wage": [2.5, -0.4], "rent": [3.0, 7.0]})
    >>> step = dc.RestoreEditRules(rules=["wage >= 0", "income == wage + rent"])
    >>> step(noisy).rows()
    [(5.5, 2.5, 3.0), (7.0, 0.0, 7.0)]
    """

    rules: RuleTexts = ()
    """rules as in a WHERE of SQL, sums of columns and `condition -> condition` too; without it, those of the schema"""

    guarantee: ClassVar[str] = "Values that contradicted each other were made to agree."
    effect: ClassVar[str] = "Numbers pile up at the bounds of their ranges; sums have the errors of their parts."

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Restore range by range, consequence by consequence, then the sums."""
        return restored(edit_rules_of(data, self.rules, self.kind), data)


def restored(rules: tuple[LevelRule, ...], data: Dataset) -> Dataset:
    """Give the data with values clipped, set and added up anew where rules are broken."""
    for rule in rules:
        broken = broken_rows(rule, data)
        if broken is not None and broken.any() and rule.identity is None:
            data = _restored(rule, data, broken)
    return with_sums(rules, data)


def with_sums(rules: tuple[LevelRule, ...], data: Dataset) -> Dataset:
    """Give the data with the sums added anew in the records where they do not hold."""
    numbers = {name for name, kind in data.frame.schema.items() if kind.is_numeric()}
    sums = [rule for rule in rules if rule.identity is not None and rule.identity.target and rule.columns <= numbers]
    order = [name for rule in sums for name in resummed([rule], data.frame)] if sums else []
    for _ in order:  # a sum of sums holds at the latest after as many rounds
        for rule in sums:
            broken = broken_rows(rule, data)
            if broken is None or not broken.any():
                continue
            for name, column in resummed([rule], data.frame).items():
                data = _with(data, name, broken, column)
    return data


def _with(data: Dataset, name: str, rows: Bools, value: Any) -> Dataset:
    import polars as pl

    kind = data.frame.schema[name]
    new = value if isinstance(value, pl.Series) else pl.lit(value).cast(kind)
    column = data.frame.select(pl.when(pl.Series(rows)).then(new).otherwise(pl.col(name)).alias(name)).to_series()
    return data.with_columns({name: column})


def _restored(rule: LevelRule, data: Dataset, broken: Bools) -> Dataset:
    where: Filter | None = rule.where
    if isinstance(where, Or) and isinstance(where.parts[0], Not) and len(where.parts) == 2:
        where = where.parts[1]  # the condition holds in these records: what follows must too
    if not isinstance(where, Condition):
        return data
    name, kind = where.column, data.frame.schema[where.column]
    if where.op == "is-missing":
        return _with(data, name, broken, None)
    if where.op == "=" or (where.op == "in" and len(where.values) == 1):
        numeric = isinstance(where.values[0], int | float) and not isinstance(where.values[0], bool)
        return _with(data, name, broken, where.values[0]) if numeric == kind.is_numeric() else data
    bounds = {"between": where.values, ">=": (*where.values, np.inf), "<=": (-np.inf, *where.values)}.get(where.op)
    if bounds is None or not kind.is_numeric():
        return data
    low, high = (float(bound) for bound in bounds)
    if kind.is_integer():
        low, high = np.ceil(low), np.floor(high)
    clipped = np.clip(data.number(name), low, high)
    return data.with_columns({name: np.where(broken, clipped, data.number(name))}, integers=True)
