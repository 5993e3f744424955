"""Population uniqueness: how many people are alone with their values in the whole population? (R10)"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.population_classes import Population, count_population, load_population
from discretion.errors import DataError
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family, Scale, path_field
from discretion.risk.identity.population_models import ESTIMATORS
from discretion.risk.identity.truthful import said, warning

Estimator = Literal["dankar", "pitman", "zayatz", "snb"]


class PopulationUniqueness(Measure, kind="population-uniqueness"):
    """Share of the people who are alone with their quasi-identifier values in the population.

    Over a simple random sample it is also the expected share of records whose person anybody with a register of the
    population finds for certain. Estimated from the class sizes of the sample: `pitman` (a superpopulation model,
    closest for small fractions), `zayatz` (Bayesian), `snb` (slide negative binomial), or `dankar`, the published rule
    that chooses among them; the detail has all four, None where one does not fit. With a `population` file nothing is
    estimated: the value is the true share, and the detail tells how many unique records are unique there, too; its
    values are generalized to the levels of the release.

    An estimate has an error, large for small samples; it assumes a simple random sample and unperturbed
    quasi-identifiers. Does not see people who share their values with few others. Time linear, plus the fits.

    References
    ----------
    Dankar, El Emam, Neisa & Roffey (2012), BMC Med. Inform. Decis. Mak. 12:66; Hoshino (2001); Chen & Keller-McNulty
    (1998); Zayatz (1991); catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [20, 20, 21, 21, 22, 22, 23]})
    >>> round(dc.PopulationUniqueness(columns=["age"], share=0.5, estimator="zayatz")(ages).value, 4)
    0.0338
    """

    columns: Columns = ()
    """columns an intruder may know; without it, the quasi-identifiers"""
    population_size: int | None = Field(None, ge=1)
    """number of people in the population"""
    share: float | None = Field(None, gt=0, le=1)
    """sampling fraction of the data, where the size of the population is not given"""
    population: Population | None = path_field(None)
    """file (or Dataset) with the same columns for the whole population"""
    frequency: str = ""
    """column of the population with the number of people each row stands for; without it, one"""
    estimator: Estimator = "dankar"
    """how the uniques of the population are estimated"""
    missing: Literal["category", "ignore"] = "category"
    """how a missing value counts: as a category of its own, or by leaving its record out"""

    family: ClassVar[Family] = "risk"
    scale: ClassVar[Scale] = "classes"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Literal["both", "released"]] = "released"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    @model_validator(mode="after")
    def _one_size(self) -> PopulationUniqueness:
        if sum(given is not None for given in (self.population_size, self.share, self.population)) != 1:
            raise ValueError("give one of `population_size`, `share` and `population`")
        if self.frequency and self.population is None:
            raise ValueError("`frequency` names a column of the population: give `population`")
        return self

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Count the classes of each size, then estimate or look up."""
        columns = released.choose(self.columns, "classes")
        rows = np.flatnonzero(~np.isnan(released.class_sizes(columns, self.missing)))
        if not len(rows):
            raise DataError(
                f"{self.kind}: every record has a missing value in {', '.join(columns)}; nothing is counted"
            )
        counted = released if len(rows) == len(released) else released.take(rows)
        warned = warning(original, released, columns)
        classes = counted.classes(columns)
        detail: dict[str, Any] = {
            "columns": list(columns),
            "records": counted.records,
            "sample_uniques": int((classes.counts == 1).sum()),
            "classes": len(classes),
        }
        if self.population is None:
            size = self.population_size or round(counted.records / (self.share or 1))
            frequencies = np.bincount(classes.counts)
            value = min(ESTIMATORS[self.estimator](frequencies, size) / size, 1.0)
            meaning = f"{as_percent(value)} of the people are alone with their values in the population (estimated)."
        else:
            found = count_population(counted, columns, classes, load_population(self.population), self.frequency)
            size = int(found.counts.sum() + found.others.sum())
            if size == 0:
                raise DataError(f"{self.kind}: the population is empty")
            alone = int((found.counts == 1).sum() + (found.others == 1).sum())
            both = int(((classes.counts == 1) & (found.counts == 1)).sum())
            detail |= {"population_uniques": alone, "records_unique_in_population": both}
            value = alone / size
            meaning = f"{as_percent(value)} of the people are alone with their values in the population."
        detail |= {"population_size": size, "estimator": self.estimator, "estimates": _all(classes.counts, size)}
        detail["people"] = value * size
        return self.score(value, said(meaning, warned), **detail, **warned)


def _all(counts: Any, size: int) -> dict[str, float | None]:
    """Estimate the share by every estimator; None where one does not fit."""
    found: dict[str, float | None] = {}
    for name, estimate in ESTIMATORS.items():
        try:
            found[name] = min(estimate(np.bincount(counts), size) / size, 1.0)
        except DataError:
            found[name] = None
    return found
