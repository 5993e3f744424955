"""Answers and estimates, once for Python, the wire, the client and OpenAPI, and what the ways to answer share."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator

from discretion.errors import QueryRefused, need
from discretion.online.backends import Backend, GroupKey
from discretion.online.declare import TableSpec
from discretion.online.ledger import Entry, Kind, Ledger
from discretion.online.question.query import Aggregate, Query
from discretion.privacy.accounting import FREE, Cost

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class Body(BaseModel):
    """Something that goes over the wire; built when a server or a client first needs it."""

    model_config = ConfigDict(defer_build=True)


class Price(Body):
    """An amount of privacy."""

    epsilon: float
    rho: float
    delta: float


def cost_json(cost: Cost) -> dict[str, float]:
    """Write a cost in ε, ρ and δ."""
    return {"epsilon": cost.micro_epsilon / 10**6, "rho": cost.nano_rho / 10**9, "delta": cost.nano_delta / 10**9}


def cost_of(content: dict[str, float]) -> Cost:
    """Read a cost."""
    return Cost(round(content["epsilon"] * 10**6), round(content["rho"] * 10**9), round(content["delta"] * 10**9))


_Amount = Annotated[
    Cost,
    PlainValidator(lambda given: given if isinstance(given, Cost) else cost_of(given)),
    PlainSerializer(lambda cost: Price(**cost_json(cost)), return_type=Price),
]


def _as_always(schema: dict[str, Any]) -> None:
    """Say in OpenAPI that every field is always there: what Python leaves out is written too."""
    for about in schema["properties"].values():
        about.pop("default", None)
        if "$ref" in str(about):  # what it refers to has its own title
            about.pop("title", None)


class Estimate(Body):
    """Cost and expected error of an answer, before anything is spent; it depends on the declarations only."""

    model_config = ConfigDict(
        frozen=True, json_schema_serialization_defaults_required=True, json_schema_extra=_as_always
    )

    mode: str
    """exact+audit, dp or perturbed"""
    cost: _Amount = FREE
    """what the answer would spend"""
    remaining: _Amount | None = None
    """what the user may spend now; none: there is no budget"""
    affordable: bool = True
    """whether the budget covers it"""
    cached: bool = False
    """whether it was asked before and costs nothing"""
    confidence: float | None = None
    """level of `errors`"""
    errors: Mapping[str, float | None] = Field(default_factory=lambda: MappingProxyType({}))
    """figure → half the width of its expected interval; none where it cannot be known beforehand"""
    notes: tuple[str, ...] = ()
    """what to know before asking"""

    __str__ = BaseModel.__repr__

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Estimate:
        """Read what `to_json` wrote."""
        return cls(**{name: content[name] for name in cls.model_fields})


class EstimateBody(Estimate):
    """What an answer would cost and how exact it would be; nothing was spent."""


class Spending(Body):
    """One charge."""

    time: str
    amount: float


class BudgetBody(Body):
    """The budget of a user for a table."""

    table: str
    mode: str
    unit: str | None
    period: str | None
    limit: float | None
    spent: float | None
    remaining: float | None
    delta_remaining: float | None
    spending: list[Spending]


@dataclass(frozen=True)
class TableBudget:
    """What a user may spend on a table, and has spent."""

    table: str
    mode: str
    """how this user is answered"""
    period: str | None = None
    """after which the budget is full again; none: there is no budget"""
    limit: Cost | None = None
    """the budget of a period; none where answers cost nothing"""
    spent: Cost = FREE
    """spent in the running period"""
    remaining: Cost | None = None
    """what is left for this user, also of what all users together may spend"""
    spending: tuple[tuple[datetime, Cost], ...] = ()
    """the charges of the running period, in their order"""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data, in the unit of the accountant: ε, or ρ of zero-concentrated privacy."""
        told: dict[str, Any] = dict.fromkeys(BudgetBody.model_fields)
        told |= {"table": self.table, "mode": self.mode, "spending": []}
        if self.limit is None or self.remaining is None:
            return told
        sign, place, unit = ("ρ", 1, 10**9) if self.limit.nano_rho else ("ε", 0, 10**6)
        amounts = {name: getattr(self, name).amounts[place] / unit for name in ("limit", "spent", "remaining")}
        charges = [{"time": moment.isoformat(), "amount": cost.amounts[place] / unit} for moment, cost in self.spending]
        left = self.remaining.nano_delta / 10**9
        return told | amounts | {"unit": sign, "period": self.period, "delta_remaining": left, "spending": charges}


Value = int | float | str | None | list[int | float | None]
_KEY_TYPES = {"integer": "Int64", "number": "Float64", "truth": "Boolean"}
_LONG = 10_000
"""whole numbers from here on are shown with marks between the thousands"""


@dataclass(frozen=True)
class AnswerFigures:
    """The answer to a canonical question: per group one value for each aggregate, maybe with limits of its error."""

    keys: tuple[GroupKey, ...]
    values: tuple[tuple[Value, ...], ...]
    """per group, in the order of the canonical aggregates; a histogram is a list"""
    low: tuple[tuple[Value, ...], ...] | None = None
    high: tuple[tuple[Value, ...], ...] | None = None
    confidence: float | None = None
    """level of the intervals from low to high"""
    notes: tuple[str, ...] = ()
    """what a reader of the answer must know"""
    price: int = 0
    """what was paid: millionths of ε or billionths of ρ; asking again for no more than this is free"""
    covered: tuple[tuple[Value, ...], ...] | None = None
    """records that a figure is over, where that is not everybody asked about; none within: all of them"""
    asked: tuple[tuple[Value, ...], ...] | None = None
    """records with a value that were asked about"""

    def to_json(self) -> dict[str, Any]:
        """Return plain data for the ledger."""
        return {
            "keys": self.keys, "values": self.values, "low": self.low, "high": self.high,
            "confidence": self.confidence, "notes": self.notes, "price": self.price,
            **({} if self.covered is None else {"covered": self.covered, "asked": self.asked}),
        }  # fmt: skip

    def to_text(self) -> str:
        """Write for the ledger."""
        return json.dumps(self.to_json(), ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_text(cls, text: str) -> AnswerFigures:
        """Read from the ledger."""
        return cls.from_json(json.loads(text))

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> AnswerFigures:
        """Read what `to_json` gave."""
        names = ("low", "high", "covered", "asked")
        low, high, *reach = (None if found.get(name) is None else _rows(found[name]) for name in names)
        keys, notes = tuple(map(tuple, found["keys"])), tuple(found["notes"])
        return cls(keys, _rows(found["values"]), low, high, found["confidence"], notes, found["price"], *reach)

    @classmethod
    def of_frame(cls, frame: pl.DataFrame, groups: int) -> AnswerFigures:
        """Take a frame with the columns of the groups first."""
        rows = frame.rows()
        return cls(tuple(row[:groups] for row in rows), tuple(row[groups:] for row in rows))

    def frames(
        self, query: Query, table: TableSpec
    ) -> tuple[pl.DataFrame, pl.DataFrame | None, pl.DataFrame | None, pl.DataFrame | None, pl.DataFrame | None]:
        """Return values, lower and upper limits, numbers and shares of the records that figures are over.

        In the words of a question, groups in the order of their keys.
        """
        canonical = query.canonical()
        key_places = [canonical.group_by.index(name) for name in query.group_by]
        places = [canonical.place_of(aggregate) for aggregate in query.aggregates]
        keys = [tuple(key[i] for i in key_places) for key in self.keys]
        order = sorted(
            range(len(keys)), key=lambda i: [(value is None, "" if value is None else value) for value in keys[i]]
        )

        def frame(
            rows: Sequence[Sequence[Value]] | None, column: Callable[[Aggregate, list[Any]], pl.Series] = _column
        ) -> pl.DataFrame | None:
            if rows is None:
                return None
            columns = [_key_column(name, [keys[i][j] for i in order], table) for j, name in enumerate(query.group_by)]
            found = zip(query.aggregates, places, strict=True)
            return _joined([*columns, *(column(a, [rows[i][place] for i in order]) for a, place in found)])

        values = frame(self.values)
        if values is None:
            raise TypeError("an answer has values")
        share = None
        if self.covered is not None and self.asked is not None:
            pairs = (zip(some, most, strict=True) for some, most in zip(self.covered, self.asked, strict=True))
            share = tuple(tuple(_share(part, whole) for part, whole in line) for line in pairs)
        return values, frame(self.low), frame(self.high), frame(self.covered, _numbers), frame(share, _numbers)


@dataclass(frozen=True)
class Answer:
    """What an analyst gets: figures, how far they may be off, what they cost and what is left.

    Examples
    --------
    >>> import polars as pl
    >>> Answer(pl.DataFrame({"count": [12]}), mode="perturbed")
    Answer(1 rows × 1 columns, perturbed, cost nothing)
    """

    frame: pl.DataFrame
    """the columns of the groups, then one column per figure; a histogram is a list"""
    mode: str
    """exact+audit, dp or perturbed"""
    low: pl.DataFrame | None = None
    """of the shape of `frame`: lower ends of the confidence intervals; none where figures are exact"""
    high: pl.DataFrame | None = None
    """upper ends of the confidence intervals"""
    confidence: float | None = None
    """how often such an interval holds the value without noise"""
    cost: Cost = FREE
    """what this answer spent"""
    remaining: Cost | None = None
    """what the user may still spend on the table; none: there is no budget"""
    cached: bool = False
    """whether it was asked before, and cost nothing"""
    notes: tuple[str, ...] = ()
    """what a reader must know"""
    query: Query | None = field(default=None, compare=False)
    """the question as it was understood"""
    covered: pl.DataFrame | None = None
    """of the shape of `frame`: how many records a figure is over, where true sums are told by base groups"""
    share: pl.DataFrame | None = None
    """of the shape of `frame`: the share of the records asked about that a figure is over"""

    def __repr__(self) -> str:
        again = ", asked before" if self.cached else ""
        left = "" if self.remaining is None else f", left {self.remaining}"
        rows, columns = self.frame.shape
        return f"Answer({rows} rows × {columns} columns, {self.mode}, cost {self.cost}{left}{again})"

    def _repr_html_(self) -> str:
        """Show figures with their intervals, then cost and budget, in a notebook."""
        from discretion.display import table

        level = "" if self.confidence is None else f", {100 * self.confidence:g} % intervals"
        cost = "asked before, at no cost" if self.cached else f"cost: {self.cost}"
        left = "" if self.remaining is None else f"; left: {self.remaining}"
        notes = "".join(f". {note[:1].upper()}{note[1:]}" for note in self.notes)
        lines = zip(*(frame.rows() for frame in (self.frame, self.low, self.high) if frame is not None), strict=True)
        rows = [[_shown(*cell) for cell in zip(*line, strict=True)] for line in lines]
        return table(
            f"Answer ({self.mode}{level})", self.frame.columns, rows, f"{cost[:1].upper()}{cost[1:]}{left}{notes}."
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return the figures as a pandas frame."""
        library = need("pandas", "a pandas frame", "io")
        found: pd.DataFrame = library.DataFrame({column.name: column.to_list() for column in self.frame})
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the answer as plain data, in the form of `AnswerBody`."""
        groups = 0 if self.query is None else len(self.query.group_by)
        kinds = [_type_name(kind) for kind in self.frame.dtypes]
        own = {"columns": self.frame.columns, "types": kinds, "groups": groups, "rows": self.frame}
        return {name: _plain(own[name] if name in own else getattr(self, name)) for name in AnswerBody.model_fields}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Answer:
        """Read what `to_json` wrote."""
        told: dict[str, Any] = {name: content[name] for name in AnswerBody.model_fields}
        told |= {name: _read_frame(content, name) for name in ("rows", "low", "high", "covered", "share")}
        left = told["remaining"]
        told |= {"cost": cost_of(told["cost"]), "remaining": None if left is None else cost_of(left)}
        told |= {"frame": told["rows"], "notes": tuple(told["notes"])}
        return cls(**{one.name: told[one.name] for one in fields(cls) if one.name in told})


class AnswerBody(Body):
    """Figures, their errors and what they cost."""

    columns: list[str]
    types: list[str]
    groups: int
    rows: list[list[Any]]
    low: list[list[Any]] | None
    high: list[list[Any]] | None
    confidence: float | None
    mode: str
    cost: Price
    remaining: Price | None
    cached: bool
    notes: list[str]
    covered: list[list[Any]] | None
    share: list[list[Any]] | None


def _plain(value: Any) -> Any:
    """Write frames as lists of rows and costs in ε, ρ and δ."""
    if isinstance(value, Cost):
        return cost_json(value)
    if isinstance(value, tuple):
        return list(value)
    return [list(row) for row in value.rows()] if hasattr(value, "rows") else value


def _share(part: Value, whole: Value) -> float | None:
    """Return a part of what was asked about; nothing of nobody is nothing."""
    if not isinstance(part, int | float) or not isinstance(whole, int | float):
        return None
    return part / whole if whole else 0.0


def _shown(value: Any, low: Any = None, high: Any = None) -> str:
    """Write a figure, and the interval where it has one."""
    if isinstance(value, list):
        lows, highs = (ends if isinstance(ends, list) else [None] * len(value) for ends in (low, high))
        return "; ".join(map(_shown, value, lows, highs))
    text = "–" if value is None else _number(value)
    if low == value == high or (low is None and high is None):
        return text
    ends = [("−∞", "∞")[side] if end is None else _number(end) for side, end in enumerate((low, high))]
    return f"{text} ({' to '.join(ends)})"


def _number(value: Any) -> str:
    """Write whole numbers in full, others with six digits; years stay years."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if not float(value).is_integer():
        places = max(0, 5 - math.floor(math.log10(abs(value))))
        return f"{value:,.{places}f}".rstrip("0").rstrip(".") if places else f"{value:,.0f}"
    return f"{int(value):,}" if abs(value) >= _LONG else str(int(value))


def _rows(content: Any) -> tuple[tuple[Value, ...], ...]:
    return tuple(map(tuple, content))


def _key_column(name: str, values: list[Any], table: TableSpec) -> pl.Series:
    import polars as pl

    kind = getattr(pl, _KEY_TYPES.get(table.column(name).type, "String"))
    return pl.Series(name, values, dtype=kind)


def _column(aggregate: Aggregate, values: list[Any]) -> pl.Series:
    import polars as pl

    if aggregate.function == "mode":
        found = pl.Series(aggregate.label, values, strict=False)
        return found.cast(pl.String) if found.dtype == pl.Null else found
    whole = aggregate.function not in ("mean", "variance", "quantile")
    whole = whole and all(isinstance(item, int | None) for item in _flat(values))
    kind: Any = pl.Int64 if whole else pl.Float64
    return pl.Series(aggregate.label, values, dtype=pl.List(kind) if aggregate.function == "histogram" else kind)


def _numbers(aggregate: Aggregate, values: list[Any]) -> pl.Series:
    """Return numbers or shares of records."""
    import polars as pl

    whole = all(isinstance(item, int | None) for item in values)
    return pl.Series(aggregate.label, values, dtype=pl.Int64 if whole else pl.Float64)


def _flat(values: list[Any]) -> list[Any]:
    return [item for value in values for item in (value if isinstance(value, list | tuple) else (value,))]


def _joined(columns: list[pl.Series]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(columns)


def _type_name(kind: Any) -> str:
    import polars as pl

    if isinstance(kind, pl.List):
        return f"list of {_type_name(kind.inner)}"
    return {pl.Int64: "integer", pl.Float64: "number", pl.Boolean: "truth"}.get(type(kind), "text")


def _read_frame(content: dict[str, Any], part: str) -> pl.DataFrame | None:
    import polars as pl

    if content[part] is None:
        if part == "rows":
            raise ValueError("an answer has rows")
        return None
    kinds: dict[str, Any] = {"integer": pl.Int64, "number": pl.Float64, "truth": pl.Boolean, "text": pl.String}
    columns = []
    for i, (name, kind) in enumerate(zip(content["columns"], content["types"], strict=True)):
        values = [row[i] for row in content[part]]
        inner, several = kinds[kind.removeprefix("list of ")], kind.startswith("list of ")
        if part in ("covered", "share") and i >= content["groups"]:
            inner, several = (pl.Int64 if all(isinstance(v, int | None) for v in values) else pl.Float64), False
        if part != "rows" and any(isinstance(item, float) for item in _flat(values)):
            inner = pl.Float64
        columns.append(pl.Series(name, values, dtype=pl.List(inner) if several else inner))
    return pl.DataFrame(columns)


_COUNTS = ("count", "count-distinct", "histogram")


@dataclass(frozen=True)
class RequestedAccuracy:
    """What a user wants to spend, or how exact the answer should be; of neither, what the owner set."""

    epsilon: float | None = None
    error: float | None = None
    records: int | None = None

    def __post_init__(self) -> None:
        if any(isinstance(wish, bool) for wish in (self.epsilon, self.error, self.records)):
            raise QueryRefused("`epsilon`, `error` and `records` are numbers, not true or false")


@dataclass(frozen=True)
class Reply:
    """Figures and how they came."""

    figures: AnswerFigures
    cost: Cost = FREE
    cached: bool = False


@dataclass(frozen=True)
class Desk:
    """Where the questions about one table are answered: its declaration, its rows and the ledger."""

    table: TableSpec
    backend: Backend
    ledger: Ledger
    max_groups: int | None = None
    """most groups of one answer"""
    confirm: Callable[[], None] = lambda: None
    """raises DataError when rows were written to since the question came; asked before a true answer is recorded"""

    def stored(self, query: Query, user: str, kind: Kind) -> Entry | None:
        """Find the answer that this user got to the same question since the table last grew."""
        return self.ledger.find_answer(self.table.name, query.digest(), user=user, kind=kind)

    def charge(self, query: Query, user: str, kind: Kind, cost: Cost = FREE, limits: Sequence[Any] = ()) -> Entry:
        """Write a question and its cost into the ledger, before there is an answer."""
        return self.ledger.charge(
            user, self.table.name, query.digest(), cost, kind, query=canonical_text(query), limits=limits
        )

    def note_refusal(self, query: Query, user: str, reason: QueryRefused) -> None:
        """Remember a question that was not answered, and why."""
        content = {"query": query.canonical().to_json(), "reason": str(reason)}
        text = json.dumps(content, ensure_ascii=False)
        self.ledger.charge(user, self.table.name, query.digest(), FREE, "refused", query=text)


class AnswerMode(Protocol):
    """One way to answer."""

    name: str

    def ask(self, query: Query, user: str, wish: RequestedAccuracy) -> Reply:
        """Answer a question, or refuse; what an answer costs is charged before it exists."""
        ...

    def dry_run(self, query: Query, user: str, wish: RequestedAccuracy) -> Estimate:
        """Say what an answer would cost and how exact it would be."""
        ...

    def budget(self, user: str) -> TableBudget:
        """Say what a user has spent, and when, and has left."""
        ...

    def remaining(self, user: str) -> Cost | None:
        """Say what a user has left; none where answers cost nothing."""
        ...


class FreeMode:
    """A way to answer that spends nothing."""

    name: str
    _desk: Desk

    def budget(self, user: str) -> TableBudget:  # noqa: ARG002
        """Return that there is no budget."""
        return TableBudget(self._desk.table.name, self.name)

    def remaining(self, user: str) -> None:
        """Return nothing: there is no budget."""


def canonical_text(query: Query) -> str:
    """Write the canonical question for the ledger."""
    return json.dumps(query.canonical().to_json(), sort_keys=True, ensure_ascii=False)


def whole(aggregate: Aggregate, value: Value) -> Value:
    """Return counts as integers, and nothing but finite numbers."""
    if isinstance(value, list | tuple):
        return [_one(aggregate, item) for item in value]
    return value if isinstance(value, str) else _one(aggregate, value)


def _one(aggregate: Aggregate, value: int | float | None) -> int | float | None:
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return int(value) if aggregate.function in _COUNTS and value.is_integer() else value
