"""Suppression of records at risk: their most telling cells, or the whole record (P5, P6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.engines.scan import Scan, without_classes
from discretion.errors import DataError, DiscretionError, Infeasible, PlanError
from discretion.kernels.arrays import Bools
from discretion.measure import Measure, as_percent
from discretion.method import Decision, Method, Purpose
from discretion.part import HOLDS_PARTS, Columns, Scale, confidential, parse
from discretion.privacy.class_table import ClassModel
from discretion.privacy.k_anonymity import KAnonymity
from discretion.protect.suppress_search import ReachesModels, has_value


def _risk(given: object) -> Measure:
    try:
        part = given if isinstance(given, Measure) else parse(given, "risk")
    except DiscretionError as error:
        raise ValueError(str(error)) from None
    if not isinstance(part, Measure) or part.family != "risk":
        raise ValueError("expected a measure of risk")
    return part


RecordRisk = Annotated[
    Any,
    PlainValidator(_risk),
    PlainSerializer(lambda measure: measure.to_plan()),
    WithJsonSchema({"description": "a measure of risk: its kind, or {kind: {fields}}"}),
    HOLDS_PARTS,
]
"""A measure of risk as a field: a Measure, its kind, or `{kind: {fields}}`."""


class SuppressByRisk(Method, kind="suppress-by-risk"):
    """Make cells of the records missing whose risk is above a bound, or drop these records.

    The risk of a record is what the measure says of each record: without a measure, 1/(size of its class), the
    probability of picking the right record among those that share its quasi-identifier values. Guarantees that every
    record whose risk was above the bound has lost these cells (or is gone). Does not guarantee that no record is above
    the bound afterwards: the decision says how many still are; `local-suppression` reaches a bound on class sizes. If
    more than `limit` of the records are above the bound, nothing is suppressed: it is an error that says how many. A
    record without a risk (left out by the measure) is kept. Missing values stay missing. Time as the measure's.

    References
    ----------
    Templ, Kowarik & Meindl (2015), JSS 67(4); catalogue P5, R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = dc.Dataset(pl.DataFrame({"zip": [8, 8, 9], "job": ["x", "x", "y"]}), roles={"zip": "quasi"})
    >>> dc.SuppressByRisk(at_most=0.5, columns=["job"])(people).frame["job"].to_list()
    ['x', 'x', None]
    """

    at_most: float = confidential(ge=0)
    """largest risk of a record that keeps its cells"""
    measure: RecordRisk = Field(default_factory=lambda: _risk("sample-uniqueness"))
    """a measure of risk that gives a figure for each record: its kind, with its fields"""
    columns: Columns = ()
    """columns whose cells are suppressed; without it, the quasi-identifier with the most different values"""
    drop: bool = False
    """drop the records instead of suppressing cells"""
    limit: float = Field(1.0, ge=0, le=1)
    """largest share of the records that may lose cells or be dropped"""

    by_group: ClassVar[bool] = True
    perturbs: ClassVar[bool] = False
    purpose: ClassVar[Purpose] = "take out"
    effect: ClassVar[str] = (
        "Cells are missing for a reason that depends on the values: rare combinations are under-represented among "
        "complete cases; treat them as missing and do not drop the records."
    )
    guarantee: ClassVar[str] = (
        "Records whose risk of being found was above a bound lost cells or were left out; others may still be rare."
    )

    @model_validator(mode="after")
    def _cells_or_records(self) -> Self:
        if self.drop and self.columns:
            raise ValueError("`columns` names cells to suppress; with `drop` whole records go")
        return self

    def _risks(self, data: Dataset, ctx: Context) -> Any:
        measure: Measure = self.measure
        before = data if measure.needs == "released" else data.origin
        found = measure.run(before, data, ctx.within(measure.kind)).per_record
        if found is None:
            raise PlanError(f"suppress-by-risk: {measure.kind!r} gives no figure for each record")
        return np.asarray(found, dtype=np.float64)

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find the records above the bound, and how many still are afterwards."""
        columns = self._cells(data)
        risky = self._above(data, ctx)
        rows = np.flatnonzero(risky).tolist()
        _check_limit(self.kind, len(rows), len(data), self.limit, "suppressed")
        known: dict[str, Any] = {"rows": rows, "columns": list(columns), "records_above": len(rows)}
        after = self.rewrite(data, Decision(MappingProxyType(known)), ctx)
        known["records_above_afterwards"] = int(self._above(after, ctx).sum()) if len(rows) else 0
        return Decision(MappingProxyType(known))

    def _above(self, data: Dataset, ctx: Context) -> Bools:
        if not len(data):
            return np.zeros(0, np.bool_)
        return np.asarray(self._risks(data, ctx) > self.at_most + 1e-12)

    def _cells(self, data: Dataset) -> tuple[str, ...]:
        if self.drop:
            return ()
        if self.columns:
            return data.choose(self.columns, "classes")
        keys = data.choose(getattr(self.measure, "columns", ()), "classes")
        return (max(keys, key=lambda name: data.frame[name].n_unique()),)

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Suppress the cells, or drop the records."""
        risky = np.zeros(len(data), np.bool_)
        risky[decision["rows"]] = True
        if self.drop:
            return data.take(~risky, suppressed=True)
        present = {name: risky & has_value(data, name) for name in decision["columns"]}
        return data.with_columns({}, suppressed={name: mask for name, mask in present.items() if mask.any()})


class SuppressRecords(ReachesModels, kind="suppress-records"):
    """Drop the records of classes that break privacy models, up to a limit.

    Guarantees that the models hold for the records that stay, checked before they are returned. If more than `limit`
    of the records had to go, nothing is dropped: it is an error that says how many would have to. Does not protect
    against anything the models do not cover; who is missing from the file may tell something. Missing values count as a
    category of their own and stay missing. Time linear (for models about sensitive values: a few passes).

    References
    ----------
    Samarati & Sweeney (1998); catalogue P6.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"zip": [8, 8, 8, 9], "sex": ["F", "F", "F", "M"]})
    >>> len(dc.SuppressRecords(columns=["zip", "sex"], k=2, limit=0.25)(people))
    3
    """

    columns: Columns = ()
    """columns an intruder may know, for models that name none; without it, the quasi-identifiers"""
    limit: float = Field(0.05, ge=0, le=1)
    """largest share of the records that may be dropped"""

    scale: ClassVar[Scale] = "classes"
    by_group: ClassVar[bool] = True
    perturbs: ClassVar[bool] = False
    purpose: ClassVar[Purpose] = "take out"
    effect: ClassVar[str] = (
        "Records with rare combinations are left out: totals are too low, and groups with many rare people have "
        "too small a share."
    )
    guarantee: ClassVar[str] = (
        "Records that shared their identifying values with too few others were left out; the remaining values are true."
    )

    @model_validator(mode="after")
    def _missing_is_a_category(self) -> Self:
        for model in self.models:
            if model.missing != "category":
                raise ValueError(f"models: {model.kind!r} must count missing as a category here")
        return self

    def _models(self, data: Dataset) -> list[ClassModel]:
        wanted: list[ClassModel] = [*self.models, *([KAnonymity(k=self.k)] if self.k is not None else [])]
        return [
            model.model_copy(update={"columns": data.choose(model.columns or self.columns, "classes")})
            for model in wanted
        ]

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find the records to drop: dropping some may make others fail, so it is repeated until all models hold."""
        models, scan = self._models(data), isinstance(data, Scan)
        if isinstance(data, Scan):
            tables = [model.classes_of(data) for model in models]
            data = data.table(list(dict.fromkeys(name for table in tables for name in table.columns)))
        keep = np.arange(len(data))
        left = data
        while len(left):
            gone = np.zeros(len(left), np.bool_)
            for number, model in enumerate(models):
                ctx.progress(number, len(models), f"suppressing for {model.kind}")
                gone |= _to_drop(model, left)
            if not gone.any():
                break
            keep = keep[~gone]
            left = data.take(keep)
        if len(data) and not len(keep):
            raise DataError(
                f"suppress-records: none of the {data.records} records satisfies the models; nothing would be left"
            )
        lost = data.records - left.records
        _check_limit(self.kind, lost, data.records, self.limit, "dropped")
        dropped = np.setdiff1d(np.arange(len(data)), keep)
        reached: list[Mapping[str, Any]] = []
        for model in models if len(left) else []:
            verdict = model.check(left, ctx)
            if not verdict.holds:
                raise Infeasible(f"suppress-records: {model.kind} was not reached by dropping records")
            reached.append({"model": model.kind, "value": verdict.value})
        known = {"share": lost / max(data.records, 1), "reached": reached}
        if scan:
            return Decision(MappingProxyType({"rows": [], **known}), data.frame[dropped])
        return Decision(MappingProxyType({"rows": dropped.tolist(), **known}))

    def for_rows(self, data: Scan, decision: Decision) -> tuple[Decision, int]:
        """Give the decision, and the records that it drops."""
        if decision.dropped is None:
            raise PlanError(f"{self.kind}: a saved decision names rows of other data; let the step decide anew")
        return decision, round(decision["share"] * len(data))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Drop the records."""
        if decision.dropped is not None:
            return without_classes(data, decision.dropped)
        keep = np.ones(len(data), np.bool_)
        keep[decision["rows"]] = False
        return data.take(keep, suppressed=True) if decision["rows"] else data


def _check_limit(kind: str, lost: int, records: int, limit: float, done: str) -> None:
    """Raise if more than the allowed share of the records would be lost."""
    if lost > limit * records + 1e-9:
        enough = math.ceil(lost / records * 1e4) / 1e4
        raise Infeasible(
            f"{kind}: {lost} of {records} records ({as_percent(lost / records)}) would have to be {done}, more than "
            f"the limit of {as_percent(limit)}; generalize first, or raise `limit` to {enough:g}"
        )


def _to_drop(model: ClassModel, data: Dataset) -> Bools:
    """Tell which records a model wants out."""
    classes = data.classes(model.columns)
    table = model.table(data, model.columns, classes, model.sensitive_columns(data))
    model.refuse_impossible(table)
    return np.asarray(model.suppress(table, np.zeros(len(table), np.bool_))[classes.ids])
