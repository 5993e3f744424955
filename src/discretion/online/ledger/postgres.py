"""A ledger in PostgreSQL: when several servers share it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from discretion.errors import DataError, PlanError, need
from discretion.online.ledger.entries import (
    AMOUNTS,
    COLUMNS,
    COSTS,
    TOTALS,
    VERSION,
    Entry,
    NoLedger,
    entry_of,
    row_of,
    total_of,
)
from discretion.privacy.accounting import Cost

_SETTINGS = (
    "synchronous_commit = on", "client_min_messages = warning", "lock_timeout = '60s'", "tcp_keepalives_idle = 30",
    "tcp_keepalives_interval = 10", "tcp_keepalives_count = 3",
)  # fmt: skip
_TRIGGERS = ("no_change", "no_truncate", "in_order")
_MARK = "discretion ledger, form "

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS {name} (
        id BIGINT PRIMARY KEY, time BIGINT NOT NULL, who TEXT NOT NULL, subject TEXT NOT NULL, kind TEXT NOT NULL,
        digest TEXT NOT NULL, query TEXT NOT NULL, micro_epsilon BIGINT NOT NULL, nano_rho BIGINT NOT NULL,
        nano_delta BIGINT NOT NULL, sets BYTEA, refers BIGINT REFERENCES {name} (id), answer TEXT,
        previous TEXT NOT NULL, hash TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS {name}_answers ON {name} (refers) WHERE refers IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS {name}_asked ON {name} (subject, digest, who) WHERE kind = 'answer'",
    "CREATE INDEX IF NOT EXISTS {name}_kinds ON {name} (subject, kind, id)",
    f"CREATE INDEX IF NOT EXISTS {{name}}_by_table ON {{name}} (subject, id) INCLUDE (time, {', '.join(AMOUNTS)})",
    f"CREATE INDEX IF NOT EXISTS {{name}}_by_user ON {{name}} (who, subject, id) INCLUDE (time, {', '.join(AMOUNTS)})",
    """CREATE OR REPLACE FUNCTION {name}_refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$""",
    """CREATE OR REPLACE TRIGGER {name}_no_change BEFORE UPDATE OR DELETE ON {name}
        FOR EACH ROW EXECUTE FUNCTION {name}_refuse()""",
    """CREATE OR REPLACE TRIGGER {name}_no_truncate BEFORE TRUNCATE ON {name}
        FOR EACH STATEMENT EXECUTE FUNCTION {name}_refuse()""",
    """CREATE OR REPLACE FUNCTION {name}_order() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN
            IF NEW.id <> (SELECT COALESCE(MAX(id), 0) + 1 FROM {name})
            THEN RAISE EXCEPTION 'the ledger is written in order'; END IF;
            RETURN NEW;
        END $$""",
    """CREATE OR REPLACE TRIGGER {name}_in_order BEFORE INSERT ON {name}
        FOR EACH ROW EXECUTE FUNCTION {name}_order()""",
    f"COMMENT ON TABLE {{name}} IS '{_MARK}{VERSION}'",
)


class PostgresStore:
    """Entries in a PostgreSQL table; one advisory lock per ledger puts writers in a row.

    The lock is taken before anything is read, at isolation level READ COMMITTED: every statement after it sees all
    that the holders before wrote. A connection that broke is opened again by the next transaction or read. A server
    that vanished gives the lock back when its connection is found dead.

    A ledger that is there already is not altered: then SELECT and INSERT on its table are rights enough.
    """

    def __init__(self, url: str, *, name: str = "discretion_ledger", create: bool = True) -> None:
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,40}", name):
            raise PlanError("the name of a ledger is made of small letters, digits and underscores")
        self._url, self._name = url, name
        self._key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
        self._inside = False
        self._connection: Any = self._connect()
        try:
            if self._read("SELECT to_regclass(%s)", (self._name,))[0][0] is not None:
                self._check_kind()
            elif not create:
                raise NoLedger("there is no ledger in this database")
            if create and self._lost_triggers():
                with self.exclusive(), _explained():
                    for statement in _SCHEMA:
                        self._connection.execute(statement.format(name=name))
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Any:
        psycopg = need("psycopg", "a ledger in PostgreSQL", "online")
        try:
            connection: Any = psycopg.connect(self._url, autocommit=True, connect_timeout=30)
        except psycopg.OperationalError as error:
            raise DataError("the PostgreSQL server of the ledger does not answer, or does not let us in") from error
        except psycopg.Error:
            raise PlanError("the address of the ledger is not written like postgresql://user@host/base") from None
        for setting in _SETTINGS:
            connection.execute(f"SET {setting}")
        return connection

    def _check_kind(self) -> None:
        """Raise when the table belongs to something else or to a later version."""
        where = "attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        columns = tuple(row[0] for row in self._read(f"SELECT attname FROM pg_attribute WHERE {where}", (self._name,)))
        if columns != COLUMNS:
            raise DataError(f"the table {self._name} cannot be used as a ledger: it holds something else")
        mark = self._read("SELECT obj_description(to_regclass(%s), 'pg_class')", (self._name,))[0][0] or ""
        form = mark.removeprefix(_MARK)
        if mark.startswith(_MARK) and form.isdecimal() and int(form) > VERSION:
            raise DataError(f"the ledger {self._name} was written by a later version of discretion (form {form})")

    def _lost_triggers(self) -> list[str]:
        """Name the triggers that keep the table append-only and are not there, or switched off."""
        query = "SELECT tgname FROM pg_trigger WHERE tgrelid = to_regclass(%s) AND tgenabled <> 'D'"
        there = {row[0] for row in self._read(query, (self._name,))}
        return [name for name in (f"{self._name}_{part}" for part in _TRIGGERS) if name not in there]

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Begin a transaction that no other writer runs beside."""
        self._read("BEGIN ISOLATION LEVEL READ COMMITTED")
        self._inside = True
        try:
            with _explained():
                self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._key,))
            yield
            with _explained():
                self._connection.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise
        finally:
            self._inside = False

    def _roll_back(self) -> None:
        """Undo the transaction; a connection that cannot is closed, which undoes it too."""
        import psycopg

        try:
            self._connection.execute("ROLLBACK")
        except psycopg.Error:
            self._connection.close()

    def insert(self, entry: Entry) -> None:
        """Append an entry."""
        row = row_of(entry)
        places = ", ".join(["%s"] * len(row))
        with _explained():
            self._connection.execute(f"INSERT INTO {self._name} ({', '.join(COLUMNS)}) VALUES ({places})", row)

    def last(self) -> tuple[int, str, int] | None:
        """Return number, hash and time of the last entry."""
        found = self._read(f"SELECT id, hash, time FROM {self._name} ORDER BY id DESC LIMIT 1")
        return (found[0][0], found[0][1], found[0][2]) if found else None

    def select(self, where: str, values: Sequence[Any] = (), tail: str = "ORDER BY id") -> Iterator[Entry]:
        """Read entries."""
        query = f"SELECT {', '.join(COLUMNS)} FROM {self._name} WHERE {where.replace('?', '%s')} {tail}"
        for row in self._read(query, values):
            yield entry_of(row)

    def spending(self, where: str, values: Sequence[Any] = ()) -> list[tuple[int, Cost]]:
        """Read times and costs."""
        columns = "time, micro_epsilon, nano_rho, nano_delta"
        query = f"SELECT {columns} FROM {self._name} WHERE {COSTS} AND {where.replace('?', '%s')} ORDER BY id"
        return [(time, Cost(*amounts)) for time, *amounts in self._read(query, values)]

    def total(self, where: str, values: Sequence[Any] = ()) -> Cost:
        """Add up costs."""
        query = f"SELECT {TOTALS} FROM {self._name} WHERE {COSTS} AND {where.replace('?', '%s')}"
        return total_of(self._read(query, values)[0])

    def faults(self) -> list[str]:
        """Say which triggers are missing or switched off."""
        return [f"the trigger {name} is missing or switched off" for name in self._lost_triggers()]

    def _read(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Run a statement that changes nothing, once more on a new connection when this one broke before it began."""
        import psycopg

        with _explained():
            for last_try in (self._inside, True):
                try:
                    if not self._inside and (self._connection.closed or self._connection.broken):
                        self._connection = self._connect()
                    cursor = self._connection.execute(query, values)
                    return list(cursor.fetchall()) if cursor.description is not None else []
                except psycopg.OperationalError:
                    if last_try or not (self._connection.closed or self._connection.broken):
                        raise
        return []

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@contextmanager
def _explained() -> Iterator[None]:
    """Turn errors of PostgreSQL into ours; its own words may quote what stands in the table."""
    import psycopg

    try:
        yield
    except psycopg.errors.LockNotAvailable:
        raise DataError("another process keeps the ledger to itself") from None
    except psycopg.errors.InsufficientPrivilege:
        raise DataError("the PostgreSQL user may not read or write the ledger") from None
    except psycopg.errors.DiskFull:
        raise DataError("the disk of the PostgreSQL server of the ledger is full") from None
    except psycopg.OperationalError:
        raise DataError("the PostgreSQL server of the ledger does not answer") from None
    except psycopg.Error as error:
        raise DataError(f"the ledger in PostgreSQL cannot be used: {type(error).__name__}") from None
