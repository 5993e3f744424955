"""Models that run an attack against the original: interval protection (M5) and a bound on re-identification (M6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import PlanError
from discretion.measure import Measure, as_percent
from discretion.model import FailingClass, PrivacyModel, Verdict
from discretion.part import HOLDS_PARTS, Columns, confidential, parse
from discretion.privacy.class_table import TOLERANCE


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
