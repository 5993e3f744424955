"""The intruder: whose records, which columns, with what error, under which names, knowing the method or not (R14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
from pydantic import (
    Field,
    PlainSerializer,
    PlainValidator,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
)

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import people_of
from discretion.data.population_classes import Population, load_population
from discretion.data.schema import Schema
from discretion.errors import DataError, PlanError, unknown
from discretion.kernels.arrays import Floats, Ints
from discretion.measure import as_percent
from discretion.part import HOLDS_PARTS, Columns, FrozenMapping, Part, parse, path_field

if TYPE_CHECKING:
    import polars as pl

# Mistakes in what an intruder knows: noise in numbers and dates, wrong categories.


class Mistakes(Part):
    """How wrong the intruder's values are."""

    sd_share: float = Field(0.0, ge=0)
    """normal error in numbers and dates: its standard deviation as a share of the column's"""
    share: float = Field(0.0, ge=0, le=1)
    """share of the categories that are wrong; a wrong one is any other category of the column"""


def with_errors(data: Dataset, error: Mistakes, ctx: Context) -> pl.DataFrame:
    """Give the data with errors drawn in all its columns."""
    new = []
    for name in data.columns:
        kind = data.frame.schema[name]
        inner = ctx.within(name)
        if (kind.is_numeric() or kind.is_temporal()) and error.sd_share:
            new.append(_with_noise(data.frame[name], error.sd_share, inner))
        elif not (kind.is_numeric() or kind.is_temporal()) and error.share:
            new.append(_with_wrong_categories(data, name, error.share, inner))
    return data.frame.with_columns(new)


def _with_noise(series: pl.Series, sd_share: float, ctx: Context) -> pl.Series:
    import polars as pl

    places = series.to_physical().cast(pl.Float64)
    sd = places.drop_nans().std()
    noise = ctx.rng.normal(0.0, sd_share * (sd if isinstance(sd, float) else 0.0), len(series))
    moved = places + pl.Series(noise)
    return moved.round().cast(pl.Int64).cast(series.dtype) if series.dtype.is_temporal() else moved.alias(series.name)


def _with_wrong_categories(data: Dataset, column: str, share: float, ctx: Context) -> pl.Series:
    codes = data.codes(column)
    present = np.unique(codes.codes[codes.codes != codes.missing])
    if len(present) < 2:
        return data.frame[column]
    rng = ctx.rng
    wrong = (rng.random(len(data)) < share) & (codes.codes != codes.missing)
    shift = rng.integers(1, len(present), len(data))
    place = (np.searchsorted(present, codes.codes) + shift) % len(present)
    donor = np.where(wrong, codes.first_rows[present[place]], np.arange(len(data)))
    return data.frame[column].gather(donor.astype(np.uint32))


_Share = Annotated[float, Field(gt=0, le=1, strict=True)]
_Number = Annotated[int, Field(ge=1, strict=True)]
_Row = Annotated[int, Field(ge=0, strict=True)]


def _accept_method(value: Any) -> Part:
    part = value if isinstance(value, Part) else parse(value, "method")
    if part.family != "method":
        raise PlanError(f"{part.kind!r} is not a method")
    return part


KnownMethod = Annotated[
    Any,
    PlainValidator(_accept_method),
    PlainSerializer(lambda method: method.to_plan()),
    WithJsonSchema({"description": "a method: its kind, or {kind: {fields}}"}),
]
"""A method as the intruder knows it: a Method, its kind, or `{kind: {fields}}`."""


class Intruder(Part):
    """Somebody who wants to find people in a release, and what is assumed of them.

    The default is the worst case B = X: the intruder has the original values of every record in all the columns of
    the measure, and knows the steps that made the release where these are known. Every field takes something away. A
    figure holds for the intruder that was assumed and for no other: who knows less finds fewer people, who knows other
    columns may find others.

    References
    ----------
    Torra (2022), A guide to data privacy, ch. 6; catalogue R14.

    Examples
    --------
    >>> import discretion as dc
    >>> dc.Intruder().describe(["age", "zip"])
    'knows the original values of age, zip for every record (worst case)'
    >>> people = dc.datasets.census(500, seed=1)
    >>> swapped = dc.RankSwap(columns=["income"], percent=10)(people, seed=7)
    >>> neighbor = dc.Intruder(records=0.1, error={"sd_share": 0.05})
    >>> score = dc.DistanceLinkage(columns=["income"], intruder=neighbor)(people, swapped)
    >>> score.detail["records"]
    50
    """

    records: _Number | _Share | tuple[_Row, ...] | None = None
    """whose data the intruder has: all (default), a share (0.1) or number (100) at random, or row numbers from 0"""
    columns: Columns = ()
    """those of the measure's columns that the intruder knows, by their names in the release; default: all"""
    error: Mistakes = Mistakes()
    """how wrong the intruder's values are: `sd_share` for numbers, `share` for categories"""
    names: FrozenMapping[str, str] = Field({}, alias="schema", validate_default=True)
    """the intruder's column names → those of the release, where they differ; called `schema` in plans and calls"""
    data: Population | None = path_field(None)
    """the intruder's own file (or Dataset); rows are matched by `id`, or follow the rows of the original"""
    id: str = ""
    """column of the intruder's file and of the original that tells which rows belong together (the truth to test)"""
    knows_method: bool | None = None
    """whether the intruder knows the methods and their parameters; default: attacks with and without, where the steps
    are known; true: also where they are not, over a grid of methods that fit; false: without, and it is reported"""
    method: Annotated[tuple[KnownMethod, ...], HOLDS_PARTS] = ()
    """the methods the intruder knows, for a release that was made elsewhere; default: the steps that made it"""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        if isinstance(self.records, tuple) and (not self.records or len(set(self.records)) < len(self.records)):
            raise PlanError("Intruder: records: expected at least one row number, and none twice")
        if self.id and self.data is None:
            raise PlanError("Intruder: `id` belongs to the intruder's own file; give `data`")
        if self.method and self.knows_method is False:
            raise PlanError("Intruder: `method` is what the intruder knows, and `knows_method` says: nothing")

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write the mapping of names under the name plans use."""
        return {"schema" if name == "names" else name: value for name, value in handler(self).items()}

    @property
    def is_worst_case(self) -> bool:
        """Tell whether nothing is taken away from the intruder who has all the original values."""
        return self.records is None and not self.columns and self.data is None and self.error == Mistakes()

    def describe(self, columns: Sequence[str] = ()) -> str:
        """Say in words what is assumed, given the columns that are compared."""
        known = ", ".join(columns) or ", ".join(self.columns) or "the columns compared"
        whose = _whose(self.records)
        source = "the original values of" if self.data is None else "from a file of its own"
        text = f"knows {source} {known} for {whose}"
        if self.error.sd_share:
            text += f", with errors of {self.error.sd_share:g} standard deviations in numbers"
        if self.error.share:
            text += f", with {100 * self.error.share:g}% wrong categories"
        if self.knows_method:
            text += ", and the methods applied with their parameters"
        elif self.knows_method is False:
            text += ", and is assumed not to know the methods applied"
        return f"{text} (worst case)" if self.is_worst_case and self.knows_method is not False else text

    def known_steps(self, original: Dataset, released: Dataset) -> tuple[Part, ...]:
        """Give the methods the intruder knows of: those named, or those that made the release; none if nobody knows."""
        if self.knows_method is False:
            return ()
        return tuple(self.method or released.steps[len(original.steps) :])


_M = TypeVar("_M", bound=Part)


def knowing_method(measure: _M, knows: bool | None) -> _M:
    """Give an attack for an intruder who knows the method, or does not, unless the attack says so itself."""
    intruder: Any = getattr(measure, "intruder", None)
    inner: Any = getattr(measure, "measure", None)
    fields = type(measure).model_fields
    if knows is None:
        return measure
    if isinstance(inner, Part):
        return measure.model_copy(update={"measure": knowing_method(inner, knows)})
    if "knows_method" in fields and getattr(measure, "knows_method", None) is None:
        return measure.model_copy(update={"knows_method": knows})
    uses = measure.kind == "distance-linkage" or not knows
    if isinstance(intruder, Intruder) and intruder.knows_method is None and not intruder.method and uses:
        return measure.model_copy(update={"intruder": intruder.model_copy(update={"knows_method": knows})})
    return measure


def intruder_field() -> Any:
    """Declare the field `intruder` of a measure: the worst case by default; what is assumed stays internal."""
    return Field(default_factory=Intruder, json_schema_extra={"confidential": True})


def _whose(records: object) -> str:
    if records is None:
        return "every record"
    if isinstance(records, tuple):
        return f"{len(records)} records"
    return f"{100 * records:g}% of the records" if isinstance(records, float) else f"{records} records drawn at random"


@dataclass(frozen=True)
class View:
    """What the intruder holds against the release: records under the release's names, and which row is right."""

    original: Dataset = field(repr=False)
    """the data the release was made from, aligned with it"""
    known: Dataset = field(repr=False)
    """the intruder's records; its columns have the names of the release"""
    released: Dataset = field(repr=False)
    rows: Ints = field(repr=False)
    """for each of the intruder's records its row in the release, −1 where the release does not have it"""
    columns: tuple[str, ...]
    """columns that both sides have and the intruder compares"""
    worst_case: bool
    """the intruder has all the original records with all their values; row i is right for record i"""

    @cached_property
    def people(self) -> Ints | None:
        """The person behind each of the intruder's records, where a column has the role `unit` and some have several.

        A record that the release does not have stands for itself.
        """
        of = people_of(self.original)
        if of is None:
            return None
        apart = len(of) + np.arange(len(self.rows))
        return np.unique(np.where(self.rows >= 0, of[self.rows], apart), return_inverse=True)[1].astype(np.int64)

    def found(self, shares: Floats) -> float:
        """Give the share of the people who are found, from the probability with which each record is linked right.

        A person is found if any record is: with probability 1 − Π(1 − s). A record that was not drawn (NaN) counts as
        the mean of the others. Without a column of people each record is a person.
        """
        if self.people is None:
            return float(np.nanmean(shares))
        missed = np.ones(int(self.people.max()) + 1)
        np.multiply.at(missed, self.people, 1.0 - np.where(np.isnan(shares), np.nanmean(shares), shares))
        return float(1.0 - missed.mean())

    @property
    def chance(self) -> float:
        """The share of the people whom somebody finds who takes any record for each of theirs."""
        return self.found(np.full(len(self.rows), 1.0 / len(self.released)))

    def them(self, shares: Floats) -> str:
        """Say whom a figure counts: records, or people with the figure of their records."""
        if self.people is None:
            return "them"
        by_record = as_percent(float(np.nanmean(shares)))
        return f"the people behind them (a person is found if any record is linked right; of the records {by_record})"

    def counted(self, shares: Floats) -> dict[str, Any]:
        """Give what a score keeps where people have several records: how many there are, and the figure of records."""
        if self.people is None:
            return {}
        people = int(self.people.max()) + 1
        return {"people": people, "people_tested": people, "by_record": float(np.nanmean(shares))}

    def spread(self, values: Floats) -> Floats:
        """Put figures of the intruder's records at the rows of the release; NaN where the intruder has no record."""
        if self.worst_case:
            return values
        whole = np.full(len(self.released), np.nan)
        there = self.rows >= 0
        whole[self.rows[there]] = values[there]
        return whole


def columns_to_link(intruder: Intruder, named: Sequence[str], original: Dataset, released: Dataset) -> tuple[str, ...]:
    """Give the columns a linkage compares, by their names in the release: those named, or the quasi-identifiers."""
    if named:
        released.require(named)
        if len(set(named)) < len(named):
            raise PlanError("a column is named twice")
        return tuple(named)
    translated = [intruder.names.get(name, name) for name in original.choose((), "classes")]
    found = tuple(name for name in translated if name in released.columns)
    if not found:
        raise DataError("the release has none of the quasi-identifiers; there is nothing to link by; give `columns`")
    return found


def view(intruder: Intruder, original: Dataset, released: Dataset, columns: Sequence[str], ctx: Context) -> View:
    """Build what the intruder holds: the records, which row of the release is right for each, the columns compared.

    `original` and `released` are aligned (row i of one is row i of the other), `columns` are names in the release.
    """
    compared = _compared(intruder, columns)
    inner = ctx.within("intruder")
    source, rows = _records(intruder, original, released)
    translate = _translation(intruder.names, source, compared)
    chosen = _drawn(intruder, source, inner)
    unchanged = chosen is None and all(name == own for name, own in translate.items())
    if intruder.data is None and unchanged and intruder.error == Mistakes():
        return View(original, source, released, rows, compared, worst_case=True)
    frame = source.frame.select(**_as_expressions(translate))
    if chosen is not None:
        frame, rows = frame[chosen], rows[chosen]
    schema = _schema(original, released, translate)
    known = Dataset(with_errors(Dataset(frame, schema=schema), intruder.error, inner), schema=schema)
    return View(original, known, released, rows, compared, worst_case=False)


def _as_expressions(translate: Mapping[str, str]) -> dict[str, pl.Expr]:
    import polars as pl

    return {name: pl.col(own) for name, own in translate.items()}


def _compared(intruder: Intruder, columns: Sequence[str]) -> tuple[str, ...]:
    if problems := [unknown("column", name, columns) for name in intruder.columns if name not in columns]:
        raise PlanError([f"the intruder's columns must be columns of the measure: {text}" for text in problems])
    return tuple(name for name in columns if not intruder.columns or name in intruder.columns)


def _records(intruder: Intruder, original: Dataset, released: Dataset) -> tuple[Dataset, Ints]:
    """Give all the records the intruder could have, and the row of the release that is right for each."""
    if intruder.data is None:
        return original, np.arange(len(released))
    source = load_population(intruder.data)
    if not len(source):
        raise DataError("the intruder's file has no rows")
    if intruder.id:
        return source, _rows_by_id(source, original, intruder.id)
    if len(source) == len(original.origin):
        place = np.full(len(source), -1, dtype=np.int64)
        place[original.row_ids] = np.arange(len(original))
        return source, place
    if len(source) == len(original):
        return source, np.arange(len(source))
    raise DataError(
        f"the intruder's file has {len(source)} rows and the original {len(original.origin)}, and nothing tells which "
        "belong together; give `id`, a column of both"
    )


def _rows_by_id(source: Dataset, original: Dataset, column: str) -> Ints:
    import polars as pl

    for whose, data in (("the intruder's file", source), ("the original", original)):
        data.require([column])
        if data.frame[column].n_unique() < len(data) or data.count_missing(column):
            raise DataError(f"the id column {column!r} of {whose} has missing or repeated values")
    index = pl.DataFrame({"key": original.frame[column].cast(pl.String), "row": np.arange(len(original))})
    keys = pl.DataFrame({"key": source.frame[column].cast(pl.String)})
    rows = keys.join(index, on="key", how="left", maintain_order="left")["row"].fill_null(-1).to_numpy()
    if (rows < 0).all():
        raise DataError(f"no id of the intruder's file stands in the original's {column!r}")
    return rows.astype(np.int64)


def _translation(names: Mapping[str, str], source: Dataset, columns: Sequence[str]) -> dict[str, str]:
    """Give for each column compared the intruder's name of it."""
    own = {theirs: mine for mine, theirs in names.items()}
    if len(own) < len(names):
        raise PlanError("Intruder: schema: two of the intruder's columns stand for one column of the release")
    source.require([*names, *(own.get(name, name) for name in columns)])
    return {name: own.get(name, name) for name in columns}


def _drawn(intruder: Intruder, source: Dataset, ctx: Context) -> Ints | None:
    """Choose the intruder's records; None for all."""
    n, wanted = len(source), intruder.records
    if wanted is None:
        return None
    if isinstance(wanted, tuple):
        return _named_rows(wanted, source, intruder.data is None)
    size = max(1, round(wanted * n)) if isinstance(wanted, float) else wanted
    if size > n:
        raise DataError(f"the intruder cannot have {size} records: there are {n}")
    return np.sort(ctx.within("records").rng.choice(n, size, replace=False))


def _named_rows(wanted: tuple[int, ...], source: Dataset, of_original: bool) -> Ints:
    """Find rows by number: of the original as it was given, or of the intruder's file."""
    total = len(source.origin) if of_original else len(source)
    if max(wanted) >= total:
        raise DataError(f"the intruder's records: row {max(wanted)} does not exist; rows are numbered 0 to {total - 1}")
    if not of_original:
        return np.array(wanted, dtype=np.int64)
    place = np.full(total, -1, dtype=np.int64)
    place[source.row_ids] = np.arange(len(source))
    found = place[np.array(wanted)]
    if (found < 0).all():
        raise DataError("none of the intruder's records is in the release")
    return np.asarray(found[found >= 0])


def _schema(original: Dataset, released: Dataset, translate: Mapping[str, str]) -> Schema:
    """Give the columns what the original knows of them (order, type), or else the release."""
    known = {
        name: original.schema[own] if own in original.schema.columns else released.schema[name]
        for name, own in translate.items()
    }
    return Schema(known)


def unused(columns: Sequence[str]) -> str:
    """Say which columns a linkage could not compare; a coded column is safe only from those who lack the codes."""
    if not columns:
        return ""
    them = "them" if len(columns) > 1 else "it"
    return (
        f" Not compared: {', '.join(columns)}, whose published values have nothing in common with the original's; "
        f"give a hierarchy that relates {them}, or the figure understates the risk."
    )
