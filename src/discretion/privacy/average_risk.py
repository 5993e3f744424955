"""Models about the whole table: average risk, uniqueness (M9), and attacks against the original (M5, M6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from discretion.context import Context
from discretion.data.codes import Classes
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Ints
from discretion.measure import Measure, as_percent
from discretion.model import FailingClass, PrivacyModel, Verdict
from discretion.part import HOLDS_PARTS, Columns, confidential, parse
from discretion.privacy.class_table import TOLERANCE, ClassModel, ClassTable


def _need(original: Dataset | None, kind: str) -> Dataset:
    if original is None:
        raise PlanError(f"{kind} compares the release with the original: call it with (released, original=…)")
    return original


class IntervalProtection(PrivacyModel, kind="interval-protection"):
    """Only a small share of the published values lies close to the true ones.

    `sd`: close means within `percent` of the original column's standard deviation; `rank`: among the `percent` of the
    records whose ranks surround the published value. Each column must hold; the value reported is the worst column's
    share, per column in the detail, with the share that a random other record's value would hit. Guarantees that a
    published number is no good guess of the true one. Does not protect against finding the record, nor against guesses
    from other columns. Needs the original. Values missing in the release count as protected.

    References
    ----------
    Torra (2022), A guide to data privacy; catalogue M5 (measures R1 and R2).

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> noisy = dc.AdditiveNoise(columns=["income"], sd_share=0.5)(people, seed=7)
    >>> dc.IntervalProtection(percent=5, share=0.2, columns=["income"])(noisy, original=people).holds
    True
    """

    percent: float = confidential(gt=0, le=200)
    """width of the interval: percent of the standard deviation to each side, or percent of the records"""
    share: float = confidential(ge=0, le=1)
    """largest allowed share of values that lie in the interval"""
    knows_method: bool | None = None
    """whether the intruder also uses the steps that made the release, where they are known (default) or not (false)"""
    columns: Columns = ()
    """numeric columns to test; without it, the numeric quasi-identifiers and sensitive columns"""
    interval: Literal["sd", "rank"] = "sd"
    """how closeness is measured: in standard deviations or in ranks"""

    attacker: ClassVar[str] = "somebody who takes a published number for the true one of a person whose record is known"
    needs_original: ClassVar[bool] = True
    """Cannot be checked on a release alone."""

    def check(self, released: Dataset, ctx: Context, *, original: Dataset | None = None) -> Verdict:
        """Test every value of every column."""
        from discretion.risk.attribute.intervals import RankInterval, SdInterval

        kind = SdInterval if self.interval == "sd" else RankInterval
        measure = kind(columns=self.columns, percent=self.percent, knows_method=self.knows_method)
        score = measure.run(_need(original, self.kind), released, ctx)
        shares: Mapping[str, float] = score.detail["per_column"]
        failing = {name: share for name, share in shares.items() if share > self.share + TOLERANCE}
        value = max(shares.values())
        rows = len(released)
        return Verdict(
            model=self.kind,
            holds=not failing,
            value=value,
            required=self.share,
            meaning=f"{as_percent(value)} of the values of the worst column lie close to the true ones.",
            failing_count=len(failing),
            failing_records=round(max(failing.values()) * rows) if failing else 0,
            detail={"per_column": dict(shares), "chance": score.detail["chance"], "measure": measure.kind},
            find_failing=lambda: tuple(
                FailingClass({"column": name}, float(round(share * rows)))
                for name, share in sorted(failing.items(), key=lambda item: item[1])
            ),
        )


def _accept(value: Any) -> Measure:
    part = value if isinstance(value, Measure) else parse(value, "risk")
    if not isinstance(part, Measure) or part.family != "risk":
        raise PlanError("expected a measure of risk")
    if part.limits[1] != 1.0:
        raise PlanError(f"{part.kind!r} is not a share between 0 and 1")
    return part


RiskMeasure = Annotated[
    Any,
    PlainValidator(_accept),
    PlainSerializer(lambda measure: measure.to_plan()),
    WithJsonSchema({"description": "a measure of risk: its kind, or {kind: {fields}}"}),
    HOLDS_PARTS,
]
"""A measure of risk as a field: a Measure, its kind, or `{kind: {fields}}`."""


class ReidentificationBound(PrivacyModel, kind="reidentification-bound"):
    """An attack on the release finds at most a given share of the people.

    The attack is any measure of risk that gives a share (default: distance-based record linkage by an intruder who
    knows the original values), named by its kind with its fields. Guarantees that this attack, run against this
    release, finds no more. Does not protect against other attacks, other knowledge, or attribute disclosure. Needs the
    original, unless the measure looks at the release alone.

    References
    ----------
    Torra (2022), A guide to data privacy; catalogue M6 (measures R10 to R15).

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(500, seed=1)
    >>> noisy = dc.AdditiveNoise(columns=["age", "income"], sd_share=1)(people, seed=7)
    >>> attack = {"distance-linkage": {"columns": ["age", "income"]}}
    >>> dc.ReidentificationBound(at_most=0.2, measure=attack)(noisy, original=people).holds
    True
    """

    at_most: float = confidential(ge=0, le=1)
    """largest allowed share of people that the attack finds"""
    measure: RiskMeasure = Field(default_factory=lambda: _accept("distance-linkage"))
    """the attack: a measure of risk by its kind, with its fields"""

    attacker: ClassVar[str] = "the one that the attack named as `measure` describes, and nobody else"

    def check(self, released: Dataset, ctx: Context, *, original: Dataset | None = None) -> Verdict:
        """Run the attack."""
        attack: Measure = self.measure
        before = released if attack.needs == "released" else _need(original, self.kind)
        score = attack.run(before, released, ctx)
        holds = score.value <= self.at_most + TOLERANCE
        at_risk = score.value * len(released)
        found = 0 if score.per_record is None else int(np.count_nonzero(np.nan_to_num(score.per_record)))
        return Verdict(
            model=self.kind,
            holds=holds,
            value=score.value,
            required=self.at_most,
            meaning=score.meaning,
            failing_count=0 if holds else 1,
            failing_records=0 if holds else found or round(at_risk),
            detail={"measure": attack.to_plan(), **score.detail},
            find_failing=lambda: () if holds else (FailingClass({"measure": attack.kind}, at_risk),),
        )


class AverageRisk(ClassModel, kind="average-risk"):
    """On average over the records, the probability of picking the right one in its class is small.

    A record in a class of size s is picked with probability 1/s; the mean over the records is the number of classes
    over the number of records. Guarantees that an intruder who links everybody finds at most this share (the
    "marketer"). Does not protect any single person: a few records may be unique. Ask for k-anonymity too where that
    matters.

    Where it does not hold, the failing classes are the fewest of the smallest ones whose suppression would make it
    hold. Time linear.

    References
    ----------
    El Emam (2013), Guide to the de-identification of personal health information; catalogue M9.

    Examples
    --------
    >>> import discretion as dc
    >>> round(dc.AverageRisk(risk=0.2)(dc.datasets.three_anonymous()).value, 4)
    0.3333
    """

    risk: float = confidential(gt=0, le=1)
    """largest allowed mean of 1/(class size) over the records"""

    bound: ClassVar[str] = "risk"
    attacker: ClassVar[str] = "somebody who links many records by their quasi-identifiers and counts the right ones"
    monotone: ClassVar[bool] = False  # which classes fail depends on all others
    monotone_without_suppression: ClassVar[bool] = True  # generalization makes fewer classes of the same records
    by_sizes: ClassVar[bool] = True

    def reached(self, table: ClassTable) -> float:
        """Give classes over records."""
        return len(table) / float(table.sizes.sum())

    def failing(self, table: ClassTable) -> Bools:
        """Give the fewest of the smallest classes without which the model holds."""
        return self.suppress(table, np.zeros(len(table), dtype=np.bool_))

    def lost_below(self, table: ClassTable) -> int:
        """What goes here is the least that can go, and finer classes are more for the same records."""
        return int(table.sizes[self.failing(table)].sum())

    def suppress(self, table: ClassTable, gone: Bools, enough: int | None = None) -> Bools:  # noqa: ARG002
        """Drop the smallest classes first, as many as are needed."""
        kept = np.flatnonzero(~gone)
        order = kept[np.argsort(table.sizes[kept], kind="stable")]
        sizes = table.sizes[order]
        classes = len(sizes) - np.arange(len(sizes) + 1)
        records = sizes.sum() - np.concatenate([[0], np.cumsum(sizes)])
        suffices = np.flatnonzero(classes <= self.risk * records * (1 + TOLERANCE))
        result = gone.copy()
        result[order[: suffices[0]]] = True
        return result


class SampleUniquenessBound(ClassModel, kind="sample-uniqueness-bound"):
    """Only a small share of the records is alone with its quasi-identifiers in the file.

    Guarantees that an intruder who knows that somebody is in the file is alone with at most this share of the records.
    Does not protect those few, nor anybody in a class of two: ask for k-anonymity where that matters. Where it does not
    hold, the failing classes are as many of those of one record as must go for the rest to satisfy it. Time linear.

    References
    ----------
    Skinner & Elliot (2002), JRSS B 64(4); catalogue M9, R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> dc.SampleUniquenessBound(share=0.1, columns=["age"])(pl.DataFrame({"age": [20, 20, 21, 22]})).value
    0.5
    """

    share: float = confidential(ge=0, le=1)
    """largest allowed share of records that are unique in the file"""

    bound: ClassVar[str] = "share"
    attacker: ClassVar[str] = "somebody who knows the quasi-identifiers of a person and that the person is in the file"
    monotone: ClassVar[bool] = False  # how many may stand depends on all others
    monotone_without_suppression: ClassVar[bool] = True  # merging classes makes no record unique
    by_sizes: ClassVar[bool] = True

    @property
    def smallest_class(self) -> int:
        """Where nobody may be unique, a class has two records."""
        return 2 if self.share == 0 else 1

    def reached(self, table: ClassTable) -> float:
        """Give the share of unique records."""
        return float((table.sizes == 1).sum() / table.sizes.sum())

    def failing(self, table: ClassTable) -> Bools:
        """Give the unique records that must go, the first ones of the table."""
        return self.suppress(table, np.zeros(len(table), dtype=np.bool_))

    def lost_below(self, table: ClassTable) -> int:
        """Whoever is unique here is so in finer classes."""
        return int(table.sizes[self.failing(table)].sum())

    def suppress(self, table: ClassTable, gone: Bools, enough: int | None = None) -> Bools:  # noqa: ARG002
        """Drop as many unique records as are needed: (u − d) / (n − d) is at most the share."""
        alone = np.flatnonzero((table.sizes == 1) & ~gone)
        records = int(table.sizes[~gone].sum())
        excess = len(alone) - self.share * records
        if excess <= TOLERANCE * max(records, 1):
            return gone.copy()
        needed = len(alone) if self.share == 1 else int(np.ceil(excess / (1 - self.share) - 1e-9))
        result = gone.copy()
        result[alone[:needed]] = True
        return result


Estimator = Literal["dankar", "pitman", "zayatz", "snb"]


class PopulationUniquenessBound(ClassModel, kind="population-uniqueness-bound"):
    """Only a small share of the records belongs to people who are unique in the population.

    The number of people who are alone with their quasi-identifier values in the population is estimated from the class
    sizes of the sample; over the population it is also the expected share among the records of a simple random sample.
    Estimators: `pitman` (a superpopulation model, closest for small fractions), `zayatz` (Bayesian, from the class
    sizes), `snb` (slide negative binomial) and `dankar`, the published rule that chooses among them. It is an estimate
    with an error, not a guarantee. Does not protect people who share their values with few others.

    Assumes a simple random sample and unperturbed quasi-identifiers. Where it does not hold, the failing classes are
    the smallest ones without which the estimate stays below the bound. Time linear, plus the fit.

    References
    ----------
    Dankar, El Emam, Neisa & Roffey (2012), BMC Med. Inform. Decis. Mak. 12:66; Hoshino (2001); Chen & Keller-McNulty
    (1998); Zayatz (1991); catalogue M9, R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [20, 20, 21, 21, 22, 22, 23]})
    >>> model = dc.PopulationUniquenessBound(share=0.05, population_size=7, columns=["age"])
    >>> round(model(ages).value, 4)
    0.1429
    """

    share: float = confidential(ge=0, le=1)
    """largest allowed share of records of people who are unique in the population"""
    population_size: int | None = Field(None, ge=1)
    """number of people in the population"""
    sampling_fraction: float | None = Field(None, gt=0, le=1)
    """share of the population that is in the data, where its size is not given"""
    estimator: Estimator = "dankar"
    """how the uniques of the population are estimated"""

    bound: ClassVar[str] = "share"
    attacker: ClassVar[str] = "somebody who knows the quasi-identifiers of people, but not who was sampled"
    monotone: ClassVar[bool] = False  # which classes fail depends on all others
    monotone_without_suppression: ClassVar[bool] = False  # an estimate may grow when classes are merged
    by_sizes: ClassVar[bool] = True

    @model_validator(mode="after")
    def _one_size(self) -> PopulationUniquenessBound:
        if (self.population_size is None) == (self.sampling_fraction is None):
            raise ValueError("give either `population_size` or `sampling_fraction`")
        return self

    def _size(self, records: int) -> int:
        size = self.population_size or round(records / (self.sampling_fraction or 1))
        if size < records:
            raise DataError(f"{self.kind}: the population of {size} is smaller than the data of {records} records")
        return size

    def table(
        self, data: Dataset, columns: tuple[str, ...], classes: Classes, sensitive: tuple[str, ...]
    ) -> ClassTable:
        """Refuse data that is larger than its population."""
        self._size(data.records)
        return super().table(data, columns, classes, sensitive)

    def _estimate(self, sizes: Ints, population: int) -> float:
        from discretion.risk.identity.uniqueness import ESTIMATORS

        if not len(sizes):
            return 0.0
        uniques = ESTIMATORS[self.estimator](np.bincount(sizes), population)
        return min(uniques / population, 1.0)

    def reached(self, table: ClassTable) -> float:
        """Give the estimated share of population uniques."""
        return self._estimate(table.sizes, self._size(int(table.sizes.sum())))

    def failing(self, table: ClassTable) -> Bools:
        """Give the smallest classes without which the estimate stays below the bound."""
        return self.suppress(table, np.zeros(len(table), dtype=np.bool_))

    def suppress(self, table: ClassTable, gone: Bools, enough: int | None = None) -> Bools:
        """Drop the smallest classes first, as many as are needed (found by halving)."""
        population = self._size(int(table.sizes.sum()))
        kept = np.flatnonzero(~gone)

        def holds(sizes: Ints) -> bool:
            try:
                return self._estimate(sizes, population) <= self.share + TOLERANCE
            except DataError:
                return False

        if holds(table.sizes[kept]):
            return gone.copy()
        most = int(table.sizes.sum()) if enough is None else enough - int(table.sizes[gone].sum())
        if table.sizes[kept].min() > most:
            return np.ones_like(gone)
        order = kept[np.argsort(table.sizes[kept], kind="stable")]
        sizes = table.sizes[order]
        left = int(np.searchsorted(np.cumsum(sizes), most, side="right"))  # classes that may go
        low, high = 0, len(sizes)
        while high - low > 1 and low < left:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(sizes[middle:]) else (middle, high)
        result = gone.copy()
        result[order[:high]] = True
        return result

    def details(self, table: ClassTable) -> dict[str, Any]:
        """Add the size of the population and the uniques of the sample."""
        return {
            "estimator": self.estimator,
            "population_size": self._size(int(table.sizes.sum())),
            "sample_uniques": int((table.sizes == 1).sum()),
        }
