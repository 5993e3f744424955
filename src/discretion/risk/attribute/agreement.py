"""Value agreement: how often is the published value simply the true one? (R4)"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.codes import ColumnCodes
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.large_integers import as_differences
from discretion.errors import DataError
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class AgreementCounts(NamedTuple):
    """One column of a release compared with the original."""

    agree: Bools
    counted: Bools
    chance: float
    """probability that two people drawn from the original agree: Σ p²"""
    chance_released: float
    """probability that the true value of one person agrees with the published one of another: Σ p·p'"""


class ValueAgreement(Measure, kind="value-agreement"):
    """Share of values that the release shows as they are in the original.

    For each column the share of records x with V(x) = V'(x) stands beside its chance level Σ p², the probability that
    two people drawn from the original agree: a column in which nearly everybody has the same value agrees often and
    tells nothing. Several columns are averaged; `per_record` is the share of a record's values that agree. The detail
    has for each column the share, the chance level, the same for a value drawn from the release (Σ p·p'), and the
    excess (share − chance)/(1 − chance): 0 is no better than chance, 1 is full agreement.

    A value missing in the release counts as different, one missing in the original is left out. A generalized value
    counts as different, though it may tell as much: `GroupAttack` and `ModelDisclosure` look at what can be inferred.
    Time O(n log n).

    References
    ----------
    Standard attribute disclosure rate; catalogue R4.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> true, released = pl.DataFrame({"job": list("aabb")}), pl.DataFrame({"job": list("aaba")})
    >>> score = dc.ValueAgreement(columns=["job"])(true, released)
    >>> score.value, score.detail["chance"]
    (0.75, 0.5)
    """

    columns: Columns = ()
    """columns to compare; without it, the sensitive columns, or all but identifiers where there are none"""
    tolerance: float = Field(0.0, ge=0)
    """numbers agree when they differ by at most this"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Compare every value with its own record's."""
        columns = original.choose(self.columns or original.having("sensitive"), "compare")
        released.require(columns)
        found: dict[str, AgreementCounts] = {}
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), f"{self.kind}: {name}")
            found[name] = compare_column(original, released, name, self.tolerance)
            if not found[name].counted.any():
                raise DataError(f"{self.kind}: column {name!r} has no values in the original; nothing can agree")
        per_column = {name: float(one.agree[one.counted].mean()) for name, one in found.items()}
        chances = {name: one.chance for name, one in found.items()}
        value, chance = float(np.mean(list(per_column.values()))), float(np.mean(list(chances.values())))
        counted = np.sum([one.counted for one in found.values()], axis=0)
        agreed = np.sum([one.agree & one.counted for one in found.values()], axis=0)
        return self.score(
            value,
            f"{as_percent(value)} of the values are published as they are ({as_percent(chance)} would be by chance).",
            per_record=np.where(counted > 0, agreed / np.maximum(counted, 1), np.nan),
            chance=chance,
            per_column=per_column,
            chance_per_column=chances,
            chance_released={name: one.chance_released for name, one in found.items()},
            excess={name: _excess(per_column[name], chances[name]) for name in columns},
            values_compared=int(counted.sum()),
            values_hidden={name: _hidden(released, name, one.counted) for name, one in found.items()},
        )


def _hidden(released: Dataset, name: str, counted: Bools) -> int:
    """Count the values that are missing in the release and not in the original."""
    codes = released.codes(name)
    return int(((codes.codes == codes.missing) & counted).sum()) if codes.missing >= 0 else 0


def _excess(share: float, chance: float) -> float:
    """Give the part of the way from chance to full agreement; 0 for a constant column, which tells nothing."""
    return (share - chance) / (1 - chance) if chance < 1 else 0.0


def compare_column(original: Dataset, released: Dataset, name: str, tolerance: float = 0.0) -> AgreementCounts:
    """Compare one column of the release with the original, record by record."""
    if original.is_numeric(name) and released.is_numeric(name):
        exact = as_differences([original.frame[name], released.frame[name]])
        true, published = exact or (original.number(name), released.number(name))
        return _compare_numbers(true, published, tolerance)
    true_codes, published_codes, values = common_codes(original.codes(name), released.codes(name))
    counted = true_codes >= 0
    p = np.bincount(true_codes[counted], minlength=values) / max(int(counted.sum()), 1)
    q = np.bincount(published_codes[published_codes >= 0], minlength=values) / published_codes.size
    return AgreementCounts((true_codes == published_codes) & counted, counted, float(p @ p), float(p @ q))


def _compare_numbers(true: Floats, published: Floats, tolerance: float) -> AgreementCounts:
    agree = np.abs(true - published) <= tolerance
    counted = ~np.isnan(true)
    ranked = np.sort(true[counted])
    total = max(ranked.size, 1)

    def within(values: Floats) -> int:
        """Count the pairs of a true value and one of `values` that agree."""
        last = np.searchsorted(ranked, values + tolerance, side="right")
        return int((last - np.searchsorted(ranked, values - tolerance, side="left")).sum())

    shown = published[~np.isnan(published)]
    return AgreementCounts(agree, counted, within(ranked) / total**2, within(shown) / (total * published.size))


def common_codes(original: ColumnCodes, released: ColumnCodes) -> tuple[Ints, Ints, int]:
    """Give two columns codes that are equal where their values are written alike; −1 for missing values."""
    numbers: dict[str, int] = {}
    coded = []
    for column in (original, released):
        of_code = [-1 if value is None else numbers.setdefault(_text(value), len(numbers)) for value in column.values]
        coded.append(np.array(of_code, np.int64)[column.codes])
    return coded[0], coded[1], len(numbers)


def _text(value: object) -> str:
    """Write a value; a set in a fixed order."""
    if isinstance(value, list):
        return "\x1f".join(sorted({canonical(item) for item in value}))
    return canonical(value)
