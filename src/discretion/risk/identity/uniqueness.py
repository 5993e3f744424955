"""Uniqueness: who is alone with a combination of values? (R10)"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.codes import Missing
from discretion.data.dataset import Dataset
from discretion.data.population_classes import Population, count_population, load_population
from discretion.errors import DataError
from discretion.kernels.arrays import Floats
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family, Scale, confidential, path_field
from discretion.risk.identity.population_models import ESTIMATORS
from discretion.risk.identity.truthful import said, warning

# Population uniqueness: how many people are alone with their values in the whole population? (R10)


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


# Rare categories and extreme numbers: who stands out by one published column alone? (R10)


_FENCES = 3.0
"""Interquartile ranges beyond the quartiles at which a number is far from the rest (Tukey's outer fence)."""


class RareValues(Measure, kind="rare-values"):
    """Share of records that stand out by a single published value: a rare category, or an extreme number.

    A category is rare when fewer than `k` records have it. A number is extreme when fewer than `k` records are at it or
    beyond, and it lies more than three interquartile ranges outside the quartiles (where half the values are equal, of
    those that differ from the median): the one large income, the one man of 104. A set counts as a whole: who knows all
    the diagnoses of somebody finds the record that has just these. Columns count whatever their role, because everybody
    may read every published column; identifiers, weights, households and units are left out. Few-valued whole numbers
    are categories. `per_record` is 1/(records that share the rarest such value), 0 for the others; the detail has the
    counts of each column, without the values (of sets also `alone`: records whose set nobody else has).

    Does not see combinations of columns (`SampleUniqueness`, `Suda`). Missing values do not count as rare. Assumes
    unperturbed values, and warns where they were perturbed. Time O(n log n) for each column, memory linear.

    References
    ----------
    Hundepool et al. (2012), Statistical disclosure control, 3.2; Tukey (1977), Exploratory data analysis (fences);
    catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> jobs = pl.DataFrame({"job": ["nurse"] * 20 + ["mayor"]})
    >>> round(dc.RareValues(k=3, columns=["job"])(jobs).value, 4)
    0.0476
    """

    columns: Columns = ()
    """columns to look at; without it, all but identifiers, weights, households and units"""
    k: int = confidential(3, ge=2)
    """a value is rare when fewer records have it"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Literal["both", "released"]] = "released"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Count the records of each rare value."""
        columns = self.columns or released.choose((), "compare")
        released.require(columns)
        risk = np.zeros(len(released))
        per_column: dict[str, dict[str, Any]] = {}
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), f"{self.kind}: {name}")
            is_number = released.is_quantity(name) and not released.is_category(name)
            sharing = _extremes(released.number(name), self.k) if is_number else _rare(released, name, self.k)
            found = sharing > 0
            np.maximum(risk, np.where(found, 1.0 / np.maximum(sharing, 1), 0.0), out=risk)
            if found.any():
                is_set = released.type_of(name) == "set"
                what = "extremes" if is_number else "rare_sets" if is_set else "rare_categories"
                per_column[name] = {what: int(found.sum()), "fewest": int(sharing[found].min())}
                if is_set:
                    per_column[name]["alone"] = int((sharing == 1).sum())
        value = float((risk > 0).mean())
        warned = warning(original, released, tuple(per_column))
        worst = sorted(per_column, key=lambda name: per_column[name]["fewest"])[:3]
        where = f", by {', '.join(worst)}" if worst else ""
        return self.score(
            value,
            said(f"{as_percent(value)} of the records have a rare or extreme value in a single column{where}.", warned),
            per_record=risk,
            columns=list(columns),
            chance=1.0 / len(released),
            records=len(released),
            mean_risk=float(risk.mean()),
            per_column=per_column,
            **warned,
        )


def _rare(data: Dataset, name: str, k: int) -> NDArray[np.int64]:
    """Give the records that share each record's category where they are fewer than k; 0 for the others."""
    coded = data.codes(name)
    counts = np.bincount(coded.codes, minlength=coded.size)
    if coded.missing >= 0:
        counts[coded.missing] = 0
    return np.asarray(np.where(counts < k, counts, 0)[coded.codes])


def _extremes(x: Floats, k: int) -> NDArray[np.int64]:
    """Give for each number far from the rest how many records are at it or beyond, where fewer than k; 0 otherwise."""
    result = np.zeros(len(x), np.int64)
    present = np.flatnonzero(~np.isnan(x))
    if len(present) < 4 * k:
        return result
    values = x[present]
    spread = values
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    if high == low:
        spread = values[values != middle]
        if len(spread) < 4 * k:
            return result
        low, high = np.quantile(spread, [0.25, 0.75])
    reach = _FENCES * (high - low)
    for side, beyond in ((values, values < low - reach), (-values, values > high + reach)):
        outer = side[beyond]
        counts = np.searchsorted(np.sort(outer), outer, "right")  # whoever is farther out is beyond the fence as well
        result[present[beyond]] = np.where(counts < k, counts, 0)
    return result


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
    screens_with: ClassVar[int | None] = 0

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
