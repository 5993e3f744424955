"""Individual risk: how likely is each record found, given what it stands for in the population? (R10)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.codes import ColumnCodes, Missing
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family, confidential
from discretion.risk.identity.inverse_size import approximate_inverse_size, mean_inverse_size
from discretion.risk.identity.truthful import having_column, said, source_of, warning

Floats = NDArray[np.float64]

_SHOWN = 20
"""classes listed in the detail"""


class Sizes(NamedTuple):
    """The sizes of classes in the sample, and estimated in the population; the class of each record."""

    sample: Floats
    """records of each class; NaN where its records are left out"""
    people: Floats
    of_record: NDArray[np.int64]
    total: float
    """people that the records stand for"""

    @property
    def below(self) -> int:
        """Count the records of classes whose weights sum to less than their records."""
        return int((self.people < self.sample)[self.of_record].sum())


class WeightedRisk(Measure):
    """What measures share that estimate the people behind a class from sampling weights."""

    columns: Columns = ()
    """columns an intruder may know; without it, the quasi-identifiers"""
    weight: str = ""
    """column with the sampling weights (how many people a record stands for); without it, the one with that role"""
    share: float | None = Field(None, gt=0, le=1)
    """sampling fraction, where there are no weights: each record stands for 1/share people; 1 for a whole population"""
    missing: Missing = "category"
    """how a missing value counts: as a category of its own, as matching anything, or by leaving its record out"""
    alpha: float = Field(1.0, ge=0, le=1)
    """with `missing: wildcard`, how much a matching record with missing values counts (fully if it is the same in all
    columns)"""
    estimator: Literal["exact", "approximate"] = "exact"
    """the exact formula, or for classes of more than two records the approximation p/(f−(1−p)) of other tools"""
    approximate: bool = False
    """short for `estimator: approximate`"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Literal["both", "released"]] = "released"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    @model_validator(mode="after")
    def _weights_or_share(self) -> WeightedRisk:
        if self.weight and self.share is not None:
            raise ValueError("give either `weight` or `share`")
        if self.approximate and self.estimator == "exact" and "estimator" in self.model_fields_set:
            raise ValueError("`estimator: exact` and `approximate` contradict each other; give one of them")
        if self.alpha != 1 and self.missing != "wildcard":
            raise ValueError("`alpha` has a meaning only with `missing: wildcard`")
        return self

    def risks(self, sizes: Sizes) -> Floats:
        """Give each record's risk, NaN where it is left out."""
        found = np.full(len(sizes.sample), np.nan)
        counted = ~np.isnan(sizes.sample)
        approximate = self.approximate or self.estimator == "approximate"
        formula = approximate_inverse_size if approximate else mean_inverse_size
        found[counted] = formula(sizes.sample[counted], sizes.people[counted])
        return found[sizes.of_record]

    def sizes(self, original: Dataset, released: Dataset, columns: tuple[str, ...]) -> Sizes:
        """Count the records and sum the weights of each class."""
        weights = self._weights(original, released)
        coded = [released.codes(name) for name in columns]
        if self.missing == "wildcard" and any(c.missing >= 0 for c in coded):
            return self._wildcard_sizes(coded, weights)
        classes = released.classes(columns)
        sample = classes.counts.astype(np.float64)
        people = np.bincount(classes.ids, weights, len(classes)).astype(np.float64)
        if self.missing == "ignore":
            for c in coded:
                sample[c.codes[classes.first_rows] == c.missing] = np.nan
        counted = ~np.isnan(sample)
        if not counted.any():
            raise DataError(
                f"{self.kind}: every record has a missing value in {', '.join(columns)}; nothing is counted"
            )
        return Sizes(sample, people, classes.ids, float(people[counted].sum()))

    def _wildcard_sizes(self, coded: Sequence[ColumnCodes], weights: Floats) -> Sizes:
        """Let each record have its own class: all those it may equal."""
        from discretion.kernels.wildcard import wildcard_counts

        empty = [c.missing if c.missing >= 0 else None for c in coded]
        counts, sums = wildcard_counts([c.codes for c in coded], empty, [c.size for c in coded], weights, self.alpha)
        return Sizes(counts, np.asarray(sums, dtype=np.float64), np.arange(len(weights)), float(weights.sum()))

    def _weights(self, original: Dataset, released: Dataset) -> Floats:
        if self.share is not None:
            return np.full(len(released), 1.0 / self.share)
        column = self.weight or self._by_role(original, released)
        weights = having_column(original, released, column).number(column)
        wrong = int((np.isnan(weights) | (weights < 0)).sum())
        if wrong:
            raise DataError(f"{self.kind}: {wrong} weights in column {column!r} are missing or negative")
        return weights

    def _by_role(self, original: Dataset, released: Dataset) -> str:
        source = source_of(original, released)
        found = released.having("weight") or (source.having("weight") if source is not None else ())
        if len(found) == 1:
            return found[0]
        listed = f" ({', '.join(found)})" if found else ""
        raise PlanError(
            f"{self.kind}: {len(found) or 'no'} columns have the role weight{listed}; name one as `weight`, "
            "or give `share`, the sampling fraction (1 where the data is the whole population)"
        )


class IndividualRisk(WeightedRisk, kind="individual-risk"):
    """Probability that each record is found, estimated from the sampling weights of its class.

    A record in a class of f records whose weights sum to F̂ stands among an unknown number F of people in the
    population; an intruder who finds the class picks one of them. The risk of the record is the mean of 1/F given f
    (negative binomial with p = f/F̂): (p^f/f)·₂F₁(f, f; f+1; 1−p), computed without loss of digits for every f and p.
    The value is the mean over the records, Σ r/n; the expected number of re-identifications Σ r is in the detail, with
    the number of records above each threshold and the classes at highest risk by row number. `per_record` is r.

    Assumes that weights are those of the design, unperturbed quasi-identifiers, and an intruder who does not know who
    is in the sample (who does finds a unique record for certain: see `SampleUniqueness`). Weights alone do not tell how
    rare a combination is: where rare ones are many and the fraction is small, the figure is too low (compare
    `LogLinearRisk`). Does not see attribute disclosure. A class whose weights sum to less than its records counts as
    complete: risk 1/f. Time linear.

    References
    ----------
    Benedetti & Franconi (1998); Franconi & Polettini (2004), LNCS 3050; Rinott (2003); catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> table = pl.DataFrame({"zip": ["40831", "40831", "97206"], "w": [18.0, 92.0, 17.0]})
    >>> dc.IndividualRisk(columns=["zip"], weight="w")(table).per_record.round(6).tolist()
    [0.017144, 0.017144, 0.177076]
    """

    thresholds: tuple[float, ...] = confidential((0.01, 0.05, 0.1, 0.2, 0.5))
    """levels of risk; the records above each are counted"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Estimate every class."""
        columns = released.choose(self.columns, "classes")
        sizes = self.sizes(original, released, columns)
        risk = self.risks(sizes)
        counted = ~np.isnan(risk)
        expected, records = float(risk[counted].sum()), int(counted.sum())
        warned = warning(original, released, columns)
        meaning = (
            f"An intruder who looks everybody up is expected to find {as_percent(expected / records)} of the records, "
            f"{expected:.3g} of {records}."
        )
        return self.score(
            expected / records,
            said(meaning, warned),
            per_record=risk,
            columns=list(columns),
            records=records,
            expected_reidentifications=expected,
            highest=float(risk[counted].max()),
            chance=1.0 / max(sizes.total, 1.0),
            above={f"{level:g}": int((risk[counted] > level).sum()) for level in self.thresholds},
            records_in_classes_below_sample=sizes.below,
            classes=_riskiest(released, columns, sizes, risk),
            **warned,
        )


def _riskiest(data: Dataset, columns: tuple[str, ...], sizes: Sizes, risk: Floats) -> list[dict[str, Any]]:
    """List the classes at highest risk, by one of their rows and never by their values."""
    rows = data.classes(columns).first_rows
    rows = rows[~np.isnan(risk[rows])]
    top = rows[np.lexsort((rows, -risk[rows]))[:_SHOWN]]
    sample, people = sizes.sample[sizes.of_record[top]], sizes.people[sizes.of_record[top]]
    return [
        {"row": int(row), "records": float(f), "people": float(total), "risk": float(risk[row])}
        for row, f, total in zip(top, sample, people, strict=True)
    ]
