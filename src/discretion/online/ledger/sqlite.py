"""A ledger in a SQLite file: for one host, any number of processes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from discretion.errors import DataError
from discretion.online.ledger.entries import Cost, Entry
from discretion.online.ledger.rows import COLUMNS, entry_of, row_of

_WAIT_SECONDS = 60.0
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS ledger (
        id INTEGER PRIMARY KEY, time INTEGER NOT NULL, who TEXT NOT NULL, subject TEXT NOT NULL, kind TEXT NOT NULL,
        digest TEXT NOT NULL, query TEXT NOT NULL, micro_epsilon INTEGER NOT NULL, nano_rho INTEGER NOT NULL,
        nano_delta INTEGER NOT NULL, sets BLOB, refers INTEGER REFERENCES ledger (id), answer TEXT,
        previous TEXT NOT NULL, hash TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS ledger_answers ON ledger (refers) WHERE refers IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS ledger_questions ON ledger (subject, digest) WHERE kind = 'answer'",
    "CREATE INDEX IF NOT EXISTS ledger_tables ON ledger (subject, kind)",
    """CREATE TRIGGER IF NOT EXISTS ledger_no_update BEFORE UPDATE ON ledger
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER IF NOT EXISTS ledger_no_delete BEFORE DELETE ON ledger
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER IF NOT EXISTS ledger_in_order BEFORE INSERT ON ledger
        WHEN NEW.id <> (SELECT COALESCE(MAX(id), 0) + 1 FROM ledger)
        BEGIN SELECT RAISE(ABORT, 'the ledger is written in order'); END""",
)


class SqliteStore:
    """Entries in a SQLite file in WAL mode; every commit is on disk before it returns (synchronous = FULL)."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        if not create and not path.is_file():
            raise DataError(f"there is no ledger at {path}")
        try:
            self._open(path, create)
        except sqlite3.DatabaseError as error:
            raise DataError(f"{path} cannot be used as a ledger: {error}") from error

    def _open(self, path: Path, create: bool) -> None:
        self._connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            if create:
                self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA fullfsync = ON")
            if create:
                with self.exclusive():
                    for statement in _SCHEMA:
                        self._connection.execute(statement)
            self._connection.execute("SELECT id FROM ledger LIMIT 1")
        except BaseException:
            self._connection.close()
            raise

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Begin a transaction that no other writer runs beside."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def insert(self, entry: Entry) -> None:
        """Append an entry."""
        row = row_of(entry)
        self._connection.execute(f"INSERT INTO ledger ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(row))})", row)

    def last(self) -> tuple[int, str, int] | None:
        """Give number, hash and time of the last entry."""
        row = self._connection.execute("SELECT id, hash, time FROM ledger ORDER BY id DESC LIMIT 1").fetchone()
        return None if row is None else (row[0], row[1], row[2])

    def select(self, where: str, values: Sequence[Any] = (), tail: str = "ORDER BY id") -> Iterator[Entry]:
        """Read entries."""
        try:
            for row in self._connection.execute(
                f"SELECT {', '.join(COLUMNS)} FROM ledger WHERE {where} {tail}", values
            ):
                yield entry_of(row)
        except sqlite3.DatabaseError as error:
            raise DataError(f"the file of the ledger is damaged: {error}") from error

    def spending(self, where: str, values: Sequence[Any] = ()) -> list[tuple[int, Cost]]:
        """Read times and costs."""
        query = f"SELECT time, micro_epsilon, nano_rho, nano_delta FROM ledger WHERE {where} ORDER BY id"
        return [(time, Cost(*amounts)) for time, *amounts in self._connection.execute(query, values)]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()
