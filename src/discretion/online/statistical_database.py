"""The statistical database: questions in, statistics out, and a memory of everything that was told."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from discretion.data.conditions import is_text
from discretion.errors import DataError, PlanError, QueryRefused
from discretion.online.backends import Limits, open_backend
from discretion.online.declare.catalog import ServiceSpec, TableSpec, checked_name
from discretion.online.declare.draft import declare
from discretion.online.dp.answer import NOTE, PrivateMode, SyntheticFile
from discretion.online.ledger import Entry, Ledger, open_ledger, utc_now
from discretion.online.mode import RequestedAccuracy
from discretion.online.question.answer import Answer, Estimate, TableBudget
from discretion.online.question.query import Query, admit
from discretion.online.question.sql import parse_sql
from discretion.online.table_service import TableService, Turns, check_budgets, check_people

Question = str | Query | Mapping[str, Any]


class StatisticalDatabase:
    """Answer questions about groups of people so that no sequence of answers gives anyone away.

    The owner declares tables, users and policies; every question is parsed, checked against the policy of its user and
    then answered truly (`exact+audit`), with noise that spends a privacy budget (`dp`), or changed a little
    (`perturbed`). What is told is in the ledger before it is told, so that a crash loses neither a charge nor the
    history. The same question asked again gets the same answer at no cost.

    True sums are told by base groups: fixed, disjoint groups of at least ten people, made from public columns; each
    figure comes with the number and the share of the records it is over, and beyond the sum of their group nothing
    about anybody is told. Of numbers without bounds for which the owner confirms `whole: false`, any sums are told
    under the audit of all earlier answers: it determines nobody over the real numbers and promises no more; whoever
    knows a unit in which the values are whole, or that two people have the same value, computes everybody's. Yes or no,
    columns of fewer than 12 values or of which more than .3 of the people have one value have no true sums: that a
    column is refused tells this much about it.

    Does not protect against: what the mean of a group says about its members, a group in which all have one value, the
    owner's confirmation where it is wrong, many perturbed answers together, users who share one budget
    under several names (limit the table's own ε), and whoever can read the data or the ledger directly. How long an
    answer takes depends on the data; a server tells private answers on a schedule (`answer_step_seconds`).

    Parameters
    ----------
    source
        a service file, a `ServiceSpec`, or the data itself (frame, Dataset or file), then with the keywords below
    columns
        column → what the owner declares of it; default for a Dataset: from the roles of its schema
    table
        what the table is called in questions
    policy
        how questions are answered; default: true answers under the audit
    users
        user → declaration; default: one analyst called "analyst"
    ledger
        where to keep the history; default in memory for data, and what the service file says otherwise
    data
        table → frame, for tables of a `ServiceSpec` without a source
    clock
        gives the time in UTC
    options
        more entries of the table's declaration, such as `person` and `rows_per_person`

    References
    ----------
    Catalogue O1–O4, M4; Adam & Wortmann (1989), ACM Computing Surveys 21(4); Dwork & Roth (2014).

    Examples
    --------
    >>> import discretion as dc
    >>> students = dc.StatisticalDatabase(
    ...     dc.datasets.students(),
    ...     table="students",
    ...     columns={
    ...         "sex": {"role": "public", "type": "category"},
    ...         "major": {"role": "public", "type": "category"},
    ...         "income": {"role": "sensitive", "type": "number", "whole": False},
    ...     },
    ...     policy={"mode": "exact+audit", "min_query_size": 2},
    ... )
    >>> students.ask("SELECT sum(income) AS total FROM students WHERE major = 'EE'").frame["total"].item()
    240000.0
    >>> students.ask("SELECT sum(income) FROM students WHERE major = 'EE' AND sex = 'male'")
    Traceback (most recent call last):
    discretion.errors.QueryRefused: together with earlier answers it would determine somebody's value
    >>> students.close()
    """

    def __init__(
        self,
        source: Any,
        *,
        columns: Mapping[str, Any] | None = None,
        table: str = "data",
        policy: Any = None,
        users: Mapping[str, Any] | None = None,
        ledger: str | Path | None = None,
        data: Mapping[str, Any] | None = None,
        clock: Callable[[], datetime] = utc_now,
        **options: Any,
    ) -> None:
        given = {"columns": columns, "policy": policy, "users": users, **options}
        self.spec, frames = _declared(source, given, table, ledger, data)
        check_budgets(self.spec)
        for declared in self.spec.tables.values():
            if declared.synthetic is not None:
                SyntheticFile.of(declared, None, 1e-6)
        server = self.spec.server
        limits = Limits(server.query_seconds, server.memory, server.threads, server.max_groups)
        self._turns = Turns()
        self.ledger: Ledger = open_ledger(self.spec.ledger, clock=clock)
        opened: list[Any] = [self.ledger]
        try:
            self._backend = open_backend(self.spec.tables.values(), frames, limits)
            opened.append(self._backend)
            check_people(self.spec, self._backend, self.ledger)
            secret, lasting = read_secret(self.spec), secret_place(self.spec) is not None
            self._desks = {
                name: TableService(self.spec, name, self._backend, self.ledger, secret, lasting=lasting)
                for name in self.spec.tables
            }
        except BaseException:
            for one in opened:
                one.close()
            raise

    def __enter__(self) -> StatisticalDatabase:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"StatisticalDatabase({', '.join(self.spec.tables)}; {len(self.spec.users)} users)"

    def read(self, question: Question, *, user: str | None = None) -> Query:
        """Understand a question in SQL, as plain data or as a `Query`; refuse what the user may not ask."""
        name = self._user(user)
        known = {table: self.spec.tables[table] for table in self.spec.tables_for(name)}
        try:
            if isinstance(question, str):
                query = parse_sql(question, known)
            else:
                query = question if isinstance(question, Query) else Query.from_json(dict(question))
                query = admit(query, known)
            for aggregate in query.aggregates:
                if not is_text(aggregate.label) or (aggregate.name and checked_name(aggregate.name) != aggregate.name):
                    raise QueryRefused("a figure has a name that cannot be written")
            query.digest()
        except QueryRefused:
            raise
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise QueryRefused("the question has values or names that cannot be used") from None
        return query

    def ask(
        self,
        question: Question,
        *,
        user: str | None = None,
        epsilon: float | None = None,
        error: float | None = None,
        records: int | None = None,
    ) -> Answer:
        """Answer a question, or raise QueryRefused (BudgetExhausted when the budget does not cover it).

        Under differential privacy say what to spend (`epsilon`) or how exact every figure should be (`error`; for means
        with the number of `records` you expect); otherwise what the owner set is spent.
        """
        name = self._user(user)
        query = self.read(question, user=name)
        desk = self._desks[query.table]
        mode = desk.mode(name)
        with self._turns.take((name, query.table, query.digest())), desk.growth.reading():
            desk.watch(mode)
            told = mode.ask(query, name, RequestedAccuracy(epsilon, error, records))
        values, low, high, covered, share = told.figures.frames(query, desk.table)
        return Answer(
            values, mode.name, low, high, told.figures.confidence, told.cost, mode.remaining(name),
            told.cached, told.figures.notes, query, covered, share,
        )  # fmt: skip

    def dry_run(
        self,
        question: Question,
        *,
        user: str | None = None,
        epsilon: float | None = None,
        error: float | None = None,
        records: int | None = None,
    ) -> Estimate:
        """Tell what an answer would cost and how exact it would be; spends nothing and reads no data."""
        name = self._user(user)
        query = self.read(question, user=name)
        return self._desks[query.table].mode(name).dry_run(query, name, RequestedAccuracy(epsilon, error, records))

    def synthetic(self, table: str, *, user: str | None = None, epsilon: float | None = None) -> Answer:
        """Return a synthetic file of a table, paid from the budget of its user; the same file again costs nothing.

        The owner declares the generator (`synthetic` of the table) and with it the usual ε. The answer's `frame` holds
        the rows; they belong to nobody. For users of mode dp with a δ.
        """
        name = self._user(user)
        self.spec.table_for(name, table)
        desk = self._desks[table]
        mode = desk.mode(name)
        if not isinstance(mode, PrivateMode):
            raise QueryRefused("synthetic files are for users whose answers are differentially private")
        with self._turns.take((name, table, NOTE)), desk.growth.reading():
            rows, cost, cached = mode.synthetic(name, epsilon)
        return Answer(rows, mode.name, cost=cost, remaining=mode.remaining(name), cached=cached, notes=(NOTE,))

    def budget(self, user: str | None = None) -> list[TableBudget]:
        """Return for each table that a user may ask what may be spent and what was spent."""
        name = self._user(user, asks=False)
        return [self._desks[table].mode(name).budget(name) for table in self.spec.tables_for(name)]

    def tables(self, user: str | None = None) -> list[dict[str, Any]]:
        """Describe the tables that a user may ask; everything comes from the declarations, nothing from the data."""
        name = self._user(user, asks=False)
        return [_described(self.spec.tables[t], self._desks[t].mode(name).name) for t in self.spec.tables_for(name)]

    def people(self, table: str) -> int:
        """Count the people of a table: for the owner."""
        return self._backend.people(table)

    def rules(self, table: str) -> dict[str, tuple[str, str]]:
        """Say for each sensitive column by which rule it is answered and why: for the owner.

        `dp only`, `base groups` or `linear audit`; without true answers of the table always `dp only` (perturbed
        answers have no rule).
        """
        return self._desks[table].rules()

    def history(
        self, *, table: str | None = None, of: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Entry]:
        """Return the entries of the ledger, of a table, of a user, after a number: for owner and auditor."""
        found: Iterable[Entry] = self.ledger.history(table, of, after)
        return list(islice(found, limit))

    def refresh(self, table: str, data: Any = None) -> int:
        """Read rows that were appended to a table (or take the longer frame); gives the number of people now.

        Everything told before stays in the history: new people are new unknowns. Answers are computed anew.
        """
        if table not in self._desks:
            raise QueryRefused("unknown table")
        if self.spec.tables[table].join is not None:
            raise QueryRefused("a join is read anew when the service starts")
        return self._desks[table].refresh(data)

    def close(self) -> None:
        """Close the data and the ledger."""
        self._backend.close()
        self.ledger.close()

    def _user(self, user: str | None, *, asks: bool = True) -> str:
        if user is None:
            if len(self.spec.users) != 1:
                raise PlanError("say which `user` asks")
            user = next(iter(self.spec.users))
        if self.spec.user(user).role == "auditor" and asks:
            raise QueryRefused("an auditor reads the ledger and asks nothing")
        return user


def _declared(
    source: Any, given: dict[str, Any], table: str, ledger: str | Path | None, data: Mapping[str, Any] | None
) -> tuple[ServiceSpec, dict[str, Any]]:
    """Return the declaration of the service and the frames of its tables."""
    named = [name for name, value in given.items() if value is not None]
    is_file = isinstance(source, str | Path) and Path(source).suffix.lower() in (".yaml", ".yml")
    if isinstance(source, ServiceSpec) or is_file:
        if named:
            raise PlanError(f"the service declares its tables and users itself; drop {', '.join(named)}")
        spec = source if isinstance(source, ServiceSpec) else ServiceSpec.load(source)
        return (spec if ledger is None else spec.model_copy(update={"ledger": str(ledger)})), dict(data or {})
    spec = declare(source, table=table, ledger=":memory:" if ledger is None else str(ledger), **given)
    return spec, {} if spec.tables[table].source else {table: source}


def _described(table: TableSpec, mode: str) -> dict[str, Any]:
    shown = ("role", "type", "bounds", "categories", "description")
    columns = [
        {"name": name, **table.columns[name].model_dump(mode="json", include={*shown})} for name in table.visible
    ]
    return {"name": table.name, "description": table.description, "mode": mode, "columns": columns}


# The secret of a service: made once, kept in a file that only its owner can read.

_BYTES = 32
_LEAST = 16


def read_secret(spec: ServiceSpec) -> bytes:
    """Return the secret of a service: from its file, made when absent; beside a SQLite ledger unless said otherwise.

    A ledger in memory has a secret that is forgotten with it.
    """
    place = secret_place(spec)
    if place is None:
        return secrets.token_bytes(_BYTES)
    if not place.exists():
        _make(place)
    return _read(place)


def _make(place: Path) -> None:
    """Write a new secret so that it appears whole or not at all; whoever comes second takes the first one's."""
    temporary = place.with_name(f".{secrets.token_hex(6)}.{place.name}")
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as stream:
                stream.write(secrets.token_hex(_BYTES) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(temporary, place)
            folder = os.open(place.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"the secret cannot be written to {place}: {error.strerror}") from None


def secret_place(spec: ServiceSpec) -> Path | None:
    """Name the file of the secret; none when nothing needs to outlive the service."""
    if spec.secret_file is not None:
        return Path(spec.secret_file)
    if spec.ledger == ":memory:":
        return None
    if spec.ledger.startswith("sqlite:///") or "://" not in spec.ledger:
        path = Path(spec.ledger.removeprefix("sqlite:///"))
        return path.with_name(f"{path.name}.secret")
    if any(spec.policy_for(user, table).mode == "perturbed" for user in spec.users for table in spec.tables):
        raise PlanError("perturbed answers need a `secret_file`: without it a restart would change every figure")
    return None


def _read(place: Path) -> bytes:
    try:
        found = bytes.fromhex(place.read_text(encoding="ascii").strip())
    except OSError as error:
        raise DataError(f"the secret in {place} cannot be read: {error.strerror}") from None
    except ValueError:
        raise DataError(f"{place} does not hold the secret of a service") from None
    if len(found) < _LEAST:
        raise DataError(f"{place} holds a secret of fewer than {_LEAST} bytes")
    return found
