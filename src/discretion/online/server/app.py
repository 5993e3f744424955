"""The routes of the service."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator
from starlette.exceptions import HTTPException
from starlette.responses import Response

from discretion import __version__
from discretion.errors import BudgetExhausted, DiscretionError, QueryRefused
from discretion.online.backends import QueryTimeout
from discretion.online.ledger import Entry
from discretion.online.question.answer import Answer, AnswerBody, BudgetBody, EstimateBody, Price, cost_json
from discretion.online.question.query import LONGEST, QUERY_FORM
from discretion.online.server.access import KeyRing
from discretion.online.server.guard import (
    NOTES,
    USER,
    AtOnce,
    AuditLog,
    Gate,
    Guard,
    Schedule,
    Turned,
    problem,
    reply,
    shape,
)
from discretion.online.statistical_database import StatisticalDatabase


class Question(BaseModel):
    """A question: in SQL, or as an object. Exactly one of the two."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    sql: str | None = Field(None, max_length=LONGEST)
    """SELECT aggregates FROM table [WHERE …] [GROUP BY …]"""
    query: Annotated[dict[str, Any] | None, WithJsonSchema({"anyOf": [QUERY_FORM, {"type": "null"}]})] = None
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


_HERE = Path(__file__).parent
_MOST_NUMBER = 2**62
_OPEN = "/health"
_FAILURES = {
    400: "the request cannot be read",
    401: "no key, or one that opens nothing",
    402: "the privacy budget does not cover the question",
    403: "refused: the answer could give somebody away, or the role does not allow it",
    408: "the request did not arrive in time",
    413: "the request is too large",
    422: "the request has the wrong form",
    429: "too many requests",
    503: "the service cannot answer now",
    504: "the question took too long",
}
_STATUS: tuple[tuple[type[DiscretionError], int], ...] = (
    (BudgetExhausted, 402),
    (QueryTimeout, 504),
    (QueryRefused, 403),
    (DiscretionError, 503),
)


class Service:
    """What each route does; every method checks the role first, `Gate` did so with key and rate."""

    def __init__(self, database: StatisticalDatabase) -> None:
        self._database = database
        self._running = AtOnce(database.spec.server.questions_at_once)
        self._schedule = Schedule(database.spec.server.answer_step_seconds)

    def ask(self, request: Request, question: Question) -> Response:
        """Answer a question; a question asked before is answered from memory at no cost."""
        user = self._caller(request, "analyst", "owner")
        query = self._database.read(question.content, user=user)
        request.scope[NOTES]["question"] = shape(query)
        private = self._database.spec.policy_for(user, query.table).mode == "dp"
        return self._told(
            request, user, private, lambda: self._database.ask(query, user=user, epsilon=question.epsilon)
        )

    def synthetic(self, request: Request, wish: FileWish) -> Response:
        """Write a synthetic file of a table, paid from one's budget; the same file again costs nothing."""
        user = self._caller(request, "analyst", "owner")
        table = self._database.spec.table_for(user, wish.table).name
        request.scope[NOTES]["question"] = {"table": table, "figures": ["synthetic file"]}
        return self._told(request, user, True, lambda: self._database.synthetic(table, user=user, epsilon=wish.epsilon))

    def _told(self, request: Request, user: str, private: bool, ask: Callable[[], Answer]) -> Response:
        """Answer unless too much runs for this user, private answers on the schedule, and note it for the log."""
        with self._running.take(user) as allowed:
            if not allowed:
                reason = "too many questions of yours are being answered; wait for one"
                raise Turned(429, "TooManyRequests", reason, Retry_After="1")
            with self._schedule.keep(on=private):
                answer = ask()
        request.scope[NOTES] |= {"mode": answer.mode, "cached": answer.cached, "cost": cost_json(answer.cost)}
        return reply(answer.to_json())

    def dry_run(self, request: Request, question: Question) -> Response:
        """Tell what an answer would cost and how exact it would be; nothing is spent, nothing is looked up."""
        user = self._caller(request, "analyst", "owner")
        query = self._database.read(question.content, user=user)
        request.scope[NOTES]["question"] = shape(query)
        return reply(self._database.dry_run(query, user=user, epsilon=question.epsilon).to_json())

    def budget(self, request: Request, user: Annotated[str | None, Query(max_length=63)] = None) -> Response:
        """Give budgets and what was spent: one's own; auditor and owner may name a user."""
        caller = self._caller(request, "analyst", "auditor", "owner")
        if user is not None and user != caller:
            self._require(caller, "auditor", "owner")
        whose = caller if user is None else user
        budgets = [budget.to_json() for budget in self._database.budget(whose)]
        return reply({"user": whose, "budgets": budgets})

    def tables(self, request: Request) -> Response:
        """List the tables that one may ask, as the owner declared them."""
        user = self._caller(request, "analyst", "auditor", "owner")
        spec = self._database.spec
        return reply(
            {"title": spec.title, "user": user, "role": spec.user(user).role, "tables": self._database.tables(user)}
        )

    def history(
        self,
        request: Request,
        table: Annotated[str | None, Query(max_length=63)] = None,
        user: Annotated[str | None, Query(max_length=63)] = None,
        after: Annotated[int, Query(ge=0, le=_MOST_NUMBER)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    ) -> Response:
        """Give lines of the ledger, without answers, to auditors and owners."""
        self._caller(request, "auditor", "owner")
        entries = self._database.history(table=table, of=user, after=after, limit=limit)
        following = entries[-1].id if len(entries) == limit else None
        return reply({"entries": [_entry_json(entry) for entry in entries], "next": following})

    def refresh(self, request: Request, table: Annotated[str, Query(max_length=63)]) -> Response:
        """Read the rows that were appended to a table; owners only."""
        self._caller(request, "owner")
        return reply({"table": table, "people": self._database.refresh(table)})

    async def health(self) -> Response:
        """Tell that the service is up; it does not wait for questions that run."""
        return reply({"status": "ok", "version": __version__})

    def _caller(self, request: Request, *roles: str) -> str:
        """Give whose request it is, if the role fits."""
        user = str(request.scope[USER])
        self._require(user, *roles)
        return user

    def _require(self, user: str, *roles: str) -> None:
        if self._database.spec.user(user).role not in roles:
            raise Turned(403, "Forbidden", f"this is for the roles {', '.join(roles)}")


def _entry_json(entry: Entry) -> dict[str, Any]:
    own = {"time": entry.moment.isoformat(), "query": json.loads(entry.query), "cost": cost_json(entry.cost)}
    return {name: own[name] if name in own else getattr(entry, name) for name in EntryBody.model_fields}


def build(database: StatisticalDatabase, keys: KeyRing | None = None, log: AuditLog | None = None) -> FastAPI:
    """Put the application together."""
    spec = database.spec
    app = FastAPI(
        title=spec.title, version=__version__, description=__doc__ or "", docs_url=None, redoc_url=None,
        redirect_slashes=False,
        responses={code: {"model": ProblemBody, "description": text} for code, text in _FAILURES.items()},
    )  # fmt: skip
    guarded = _add_routes(app, Service(database))
    _add_page(app)
    app.add_exception_handler(Turned, _on_turned)
    app.add_exception_handler(DiscretionError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_form)
    app.add_exception_handler(HTTPException, _on_http)
    paths = frozenset(path for route in app.routes if (path := getattr(route, "path", None)))
    journal = AuditLog(spec.server.log) if log is None else log
    limits = spec.server
    gate = Gate(KeyRing.of(spec) if keys is None else keys, spec.users, limits.requests_per_minute, guarded)
    app.add_middleware(Guard, gate=gate, most_bytes=limits.max_request_bytes, log=journal, routes=paths)
    _describe_keys(app)
    return app


def _add_routes(app: FastAPI, service: Service) -> list[str]:
    """Add the routes; give the paths that need a key."""
    routes: tuple[tuple[str, str, Callable[..., Response | Awaitable[Response]], Any, str], ...] = (
        ("POST", "/query", service.ask, AnswerBody, "Ask"),
        ("POST", "/dry-run", service.dry_run, EstimateBody, "Cost and expected error of an answer"),
        ("POST", "/synthetic", service.synthetic, AnswerBody, "Synthetic file of a table"),
        ("GET", "/budget", service.budget, BudgetsBody, "Budgets"),
        ("GET", "/tables", service.tables, TablesBody, "Tables"),
        ("GET", "/history", service.history, HistoryBody, "Ledger"),
        ("POST", "/refresh", service.refresh, RefreshBody, "Read appended rows"),
        ("GET", _OPEN, service.health, HealthBody, "Health"),
    )
    for method, path, work, model, summary in routes:
        app.add_api_route(
            path, work, methods=[method], summary=summary, responses={200: {"model": model}}, response_class=Response,
            openapi_extra=None if path == _OPEN else {"security": [{"key": []}, {"header": []}]},
        )  # fmt: skip
    return [path for _, path, *_ in routes if path != _OPEN]


def _describe_keys(app: FastAPI) -> None:
    """Say in OpenAPI how keys are sent."""
    content = app.openapi()
    schemes = content.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["key"] = {"type": "http", "scheme": "bearer", "description": "the API key"}
    schemes["header"] = {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "the API key, otherwise"}


def _add_page(app: FastAPI) -> None:
    files = (
        ("/", "page.html", "text/html"),
        ("/page.css", "page.css", "text/css"),
        ("/page.js", "page.js", "text/javascript"),
    )
    for path, name, kind in files:
        app.add_api_route(path, _sender(_HERE / name, kind), methods=["GET"], include_in_schema=False)


def _sender(file: Path, kind: str) -> Callable[[], Awaitable[Response]]:
    async def send() -> Response:
        return FileResponse(file, media_type=f"{kind}; charset=utf-8")

    return send


async def _on_turned(_: Request, error: Exception) -> Response:
    return error.response if isinstance(error, Turned) else problem(500, "InternalError", "the service failed")


async def _on_error(request: Request, error: Exception) -> Response:
    """Give the reason of a refusal; other errors of the service are told by their kind only."""
    notes, kind = request.scope[NOTES], type(error).__name__
    status = next(code for group, code in _STATUS if isinstance(error, group))
    reason = str(error) if isinstance(error, QueryRefused) else "the service cannot do this now; its log says more"
    notes |= {"outcome": kind, "reason": str(error) if "question" in notes or status == 503 else None}
    return problem(status, kind, reason)


async def _on_form(_: Request, error: Exception) -> Response:
    """Say which entries have the wrong form, without repeating them."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    known = ("body", "query", "sql", "epsilon", "user", "table", "after", "limit")
    texts = []
    for item in found:
        place = ".".join(str(part) for part in item["loc"] if part in known)
        texts.append(f"{place}: {str(item['msg']).removeprefix('Value error, ')}")
    return problem(422, "WrongForm", "; ".join(dict.fromkeys(texts)) or "the request has the wrong form")


async def _on_http(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return problem(500, "InternalError", "the service failed")
    kinds = {404: "NotFound", 405: "MethodNotAllowed", 400: "Unreadable"}
    reason = _FAILURES.get(error.status_code, "there is nothing here")
    return problem(error.status_code, kinds.get(error.status_code, "Refused"), reason, error.headers)
