"""What goes over the wire, for OpenAPI and for checking requests."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from discretion.data.conditions import Operator
from discretion.online.query import Function
from discretion.online.sql import LONGEST

_SCALAR = {"type": ["string", "number", "boolean"]}
_CONDITION = {
    "type": "object",
    "description": "a `column`, an `op` and `values`; or one of `and`, `or` (lists of conditions) and `not`",
    "properties": {
        "column": {"type": "string"},
        "op": {"enum": list(Operator.__args__)},  # type: ignore[attr-defined]
        "values": {"type": "array", "items": _SCALAR},
        "and": {"type": "array", "items": {"type": "object"}, "minItems": 1},
        "or": {"type": "array", "items": {"type": "object"}, "minItems": 1},
        "not": {"type": "object"},
    },
    "additionalProperties": False,
}
_AGGREGATE = {
    "type": "object",
    "properties": {
        "function": {"enum": list(Function.__args__)},  # type: ignore[attr-defined]
        "column": {"type": "string"},
        "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "cuts": {"type": "array", "items": {"type": "number"}, "minItems": 2},
        "name": {"type": "string"},
    },
    "required": ["function"],
    "additionalProperties": False,
}
_QUERY = {
    "type": "object",
    "properties": {
        "table": {"type": "string"},
        "aggregates": {"type": "array", "items": _AGGREGATE, "minItems": 1},
        "where": {"anyOf": [_CONDITION, {"type": "null"}]},
        "group_by": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["table", "aggregates"],
    "additionalProperties": False,
}


class Question(BaseModel):
    """A question: in SQL, or as an object. Exactly one of the two."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    sql: str | None = Field(None, max_length=LONGEST)
    """SELECT aggregates FROM table [WHERE …] [GROUP BY …]"""
    query: Annotated[dict[str, Any] | None, WithJsonSchema({"anyOf": [_QUERY, {"type": "null"}]})] = None
    """the same as an object"""
    epsilon: float | None = Field(None, gt=0, le=1000, strict=True)
    """what to spend on the answer (differential privacy); without it, what the owner set"""

    @model_validator(mode="after")
    def _one(self) -> Question:
        if (self.sql is None) == (self.query is None):
            raise ValueError("give `sql` or `query`, one of the two")
        return self

    @property
    def content(self) -> str | dict[str, Any]:
        """The question itself."""
        return self.sql if self.sql is not None else self.query or {}


class FileWish(BaseModel):
    """A wish for a synthetic file of a table."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    table: str = Field(max_length=63)
    """the table"""
    epsilon: float | None = Field(None, gt=0, le=100, strict=True)
    """what to spend on the file; without it, what the owner set"""


class Price(BaseModel):
    """An amount of privacy."""

    epsilon: float
    rho: float
    delta: float


class AnswerBody(BaseModel):
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


class EstimateBody(BaseModel):
    """What an answer would cost and how exact it would be; nothing was spent."""

    mode: str
    cost: Price
    remaining: Price | None
    affordable: bool
    cached: bool
    confidence: float | None
    errors: dict[str, float | None]
    notes: list[str]


class Spending(BaseModel):
    """One charge."""

    time: str
    amount: float


class BudgetBody(BaseModel):
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


class BudgetsBody(BaseModel):
    """The budgets of a user."""

    user: str
    budgets: list[BudgetBody]


class ColumnBody(BaseModel):
    """A column as the owner declared it."""

    name: str
    role: str
    type: str
    bounds: list[float] | None
    categories: list[Any]
    description: str


class TableBody(BaseModel):
    """A table as the owner declared it; nothing here comes from the data."""

    name: str
    description: str
    mode: str
    columns: list[ColumnBody]


class TablesBody(BaseModel):
    """The tables that a user may ask."""

    title: str
    user: str
    role: str
    tables: list[TableBody]


class EntryBody(BaseModel):
    """A line of the ledger, without the answer."""

    id: int
    time: str
    user: str
    table: str
    kind: str
    digest: str
    query: Any
    cost: Price
    refers: int | None
    hash: str


class HistoryBody(BaseModel):
    """Lines of the ledger, in their order."""

    entries: list[EntryBody]
    next: int | None


class RefreshBody(BaseModel):
    """A table after its appended rows were read."""

    table: str
    people: int


class HealthBody(BaseModel):
    """Whether the service is up."""

    status: str
    version: str


class Problem(BaseModel):
    """What went wrong: a kind for programs, a reason for people."""

    kind: str
    reason: str


class ProblemBody(BaseModel):
    """Every answer that is not 200 has this form."""

    error: Problem
