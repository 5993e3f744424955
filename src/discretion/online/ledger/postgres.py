"""A ledger in PostgreSQL: when several servers share it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from discretion.errors import DataError, DiscretionError, PlanError
from discretion.online.ledger.entries import Cost, Entry
from discretion.online.ledger.rows import COLUMNS, entry_of, row_of

_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS {name} (
        id BIGINT PRIMARY KEY, time BIGINT NOT NULL, who TEXT NOT NULL, subject TEXT NOT NULL, kind TEXT NOT NULL,
        digest TEXT NOT NULL, query TEXT NOT NULL, micro_epsilon BIGINT NOT NULL, nano_rho BIGINT NOT NULL,
        nano_delta BIGINT NOT NULL, sets BYTEA, refers BIGINT REFERENCES {name} (id), answer TEXT,
        previous TEXT NOT NULL, hash TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS {name}_answers ON {name} (refers) WHERE refers IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS {name}_questions ON {name} (subject, digest) WHERE kind = 'answer'",
    "CREATE INDEX IF NOT EXISTS {name}_tables ON {name} (subject, kind)",
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
)


class PostgresStore:
    """Entries in a PostgreSQL table; one advisory lock per ledger puts writers in a row.

    The lock is taken before anything is read, at isolation level READ COMMITTED: every statement after it sees all
    that the holders before wrote. A connection that broke is opened again by the next transaction.
    """

    def __init__(self, url: str, *, name: str = "discretion_ledger", create: bool = True) -> None:
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,40}", name):
            raise PlanError("the name of a ledger is made of small letters, digits and underscores")
        self._url, self._name = url, name
        self._key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
        self._connection: Any = self._connect()
        try:
            if create:
                with self.exclusive():
                    for statement in _SCHEMA:
                        self._connection.execute(statement.format(name=name))
            elif self._connection.execute("SELECT to_regclass(%s)", (name,)).fetchone()[0] is None:
                raise DataError("there is no ledger in this database")
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Any:
        try:
            import psycopg
        except ImportError as error:
            raise DiscretionError("a ledger in PostgreSQL needs psycopg: pip install 'discretion[online]'") from error
        try:
            connection: Any = psycopg.connect(self._url, autocommit=True, connect_timeout=30)
        except psycopg.OperationalError as error:
            raise DataError("the PostgreSQL server of the ledger does not answer") from error
        for setting in ("synchronous_commit = on", "client_min_messages = warning"):
            connection.execute(f"SET {setting}")
        return connection

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Begin a transaction that no other writer runs beside."""
        if self._connection.closed or self._connection.broken:
            self._connection = self._connect()
        with self._connection.transaction():
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (self._key,))
            yield

    def insert(self, entry: Entry) -> None:
        """Append an entry."""
        row = row_of(entry)
        places = ", ".join(["%s"] * len(row))
        self._connection.execute(f"INSERT INTO {self._name} ({', '.join(COLUMNS)}) VALUES ({places})", row)

    def last(self) -> tuple[int, str, int] | None:
        """Give number, hash and time of the last entry."""
        query = f"SELECT id, hash, time FROM {self._name} ORDER BY id DESC LIMIT 1"
        row = self._connection.execute(query).fetchone()
        return None if row is None else (row[0], row[1], row[2])

    def select(self, where: str, values: Sequence[Any] = (), tail: str = "ORDER BY id") -> Iterator[Entry]:
        """Read entries."""
        query = f"SELECT {', '.join(COLUMNS)} FROM {self._name} WHERE {where.replace('?', '%s')} {tail}"
        with self._connection.cursor() as cursor:
            for row in cursor.execute(query, values):
                yield entry_of(row)

    def spending(self, where: str, values: Sequence[Any] = ()) -> list[tuple[int, Cost]]:
        """Read times and costs."""
        columns = "time, micro_epsilon, nano_rho, nano_delta"
        query = f"SELECT {columns} FROM {self._name} WHERE {where.replace('?', '%s')} ORDER BY id"
        return [(time, Cost(*amounts)) for time, *amounts in self._connection.execute(query, values)]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
