"""Uniqueness: who is alone with a combination of values? (R10)"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.codes import Missing
from discretion.data.dataset import Dataset
from discretion.data.population_classes import Population, count_population, load_population
from discretion.errors import DataError
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family, Scale, path_field
from discretion.risk.identity.truthful import said, warning


class SampleUniqueness(Measure, kind="sample-uniqueness"):
    """Share of records that nobody else shares the quasi-identifier values of.

    Such a person is found by anybody who knows these values. Without more, the value is the share of unique records.
    With `share` (the sampling fraction π) it is the estimated probability that a unique match is right,
    π·S1/(π·S1 + 2(1−π)·S2), S1 and S2 the numbers of classes with one and two records; with `population` it is the
    share of sample uniques that are unique in the population too (its values are generalized to the levels of the
    release). `per_record` is 1/(size of the record's class): the probability of picking the right record.

    Assumes unperturbed quasi-identifiers, and warns (in the meaning and as `warning` in the detail) where the source of
    the release is known and they were perturbed. Does not see what a class of several records gives away. Time linear.

    References
    ----------
    Skinner & Elliot (2002), JRSS B 64; catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> table = pl.DataFrame({"zip": ["40831", "40831", "97206"], "sex": ["F", "M", "M"]})
    >>> dc.SampleUniqueness(columns=["zip"])(table).value
    0.3333333333333333
    """

    columns: Columns = ()
    """columns an intruder may know; without it, the quasi-identifiers"""
    missing: Missing = "category"
    """how a missing value counts: as a category of its own, as matching anything, or by leaving its record out"""
    share: float | None = Field(None, gt=0, le=1)
    """sampling fraction of the data; gives the probability that a unique match is right"""
    population: Population | None = path_field(None)
    """file (or Dataset) with the same columns for the whole population"""

    family: ClassVar[Family] = "risk"
    scale: ClassVar[Scale] = "classes"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Literal["both", "released"]] = "released"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Count classes of one and two records."""
        columns = released.choose(self.columns, "classes")
        sizes = released.class_sizes(columns, self.missing)
        counted = ~np.isnan(sizes)
        if not counted.any():
            raise DataError(
                f"{self.kind}: every record has a missing value in {', '.join(columns)}; nothing is counted"
            )
        unique = sizes == 1
        records = released.tally(counted)
        share_unique = released.tally(unique) / records
        pairs = released.tally(sizes == 2) / 2
        detail: dict[str, Any] = {
            "columns": list(columns),
            "unique_records": released.tally(unique),
            "share_unique": share_unique,
            "pairs": pairs,
            "records": records,
            "mean_risk": released.average(1.0 / sizes, counted),
        }
        detail["chance"] = (self.share or 1.0) / detail["records"]
        value, meaning = share_unique, f"{as_percent(share_unique)} of the records are alone with their values"
        if self.population is not None:
            in_population, people = self._in_population(released, columns)
            in_population, detail["chance"] = in_population[unique], 1.0 / max(people, 1)
            value = float((in_population == 1).sum() / max(len(in_population), 1))
            detail["not_in_population"] = int((in_population == 0).sum())
            meaning = f"{as_percent(value)} of the records that are alone in the file are alone in the population too"
        elif self.share is not None:
            single = float(released.tally(unique))
            value = self.share * single / max(self.share * single + 2 * (1 - self.share) * pairs, 1e-300)
            meaning = f"A unique match with the population is right with probability {as_percent(value)} (estimated)"
        meaning += f" (guessing finds {as_percent(detail['chance'])} of the people)."
        warned = warning(original, released, columns)
        return self.score(value, said(meaning, warned), per_record=1.0 / sizes, **detail, **warned)

    def _in_population(self, released: Dataset, columns: tuple[str, ...]) -> tuple[NDArray[np.int64], int]:
        """Give for each record the number of people of the population in its class, and the number of all people."""
        classes = released.classes(columns)
        found = count_population(released, columns, classes, load_population(self.population))
        return found.counts[classes.ids], int(found.counts.sum() + found.others.sum())
