"""A ledger in a SQLite file: for one host, any number of processes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from discretion.errors import DataError
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

_WAIT_SECONDS = 60.0
_PAGES_OF_LOG = 4000
"""pages of SQLite's log before it is brought into the file, which takes two syncs more (SQLite's own: 1000)"""
_APPLICATION = int.from_bytes(b"dcld", "big")
_EARLIER = ("questions", "subjects", "users", "tables", "by_table", "by_user")
"""indexes of ledgers that were written before"""
_INSERT = f"INSERT INTO ledger ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS ledger (
        id INTEGER PRIMARY KEY, time INTEGER NOT NULL, who TEXT NOT NULL, subject TEXT NOT NULL, kind TEXT NOT NULL,
        digest TEXT NOT NULL, query TEXT NOT NULL, micro_epsilon INTEGER NOT NULL, nano_rho INTEGER NOT NULL,
        nano_delta INTEGER NOT NULL, sets BLOB, refers INTEGER REFERENCES ledger (id), answer TEXT,
        previous TEXT NOT NULL, hash TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX IF NOT EXISTS ledger_answers ON ledger (refers) WHERE refers IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS ledger_asked ON ledger (subject, digest, who) WHERE kind = 'answer'",
    # one index for kinds in their order and for costs: every further one is a page more that a charge must sync
    f"CREATE INDEX IF NOT EXISTS ledger_entries ON ledger (subject, kind, id, who, time, {', '.join(AMOUNTS)})",
    *(f"DROP INDEX IF EXISTS ledger_{name}" for name in _EARLIER),
    """CREATE TRIGGER IF NOT EXISTS ledger_no_update BEFORE UPDATE ON ledger
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER IF NOT EXISTS ledger_no_delete BEFORE DELETE ON ledger
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END""",
    """CREATE TRIGGER IF NOT EXISTS ledger_in_order BEFORE INSERT ON ledger
        WHEN NEW.id <> (SELECT COALESCE(MAX(id), 0) + 1 FROM ledger)
        BEGIN SELECT RAISE(ABORT, 'the ledger is written in order'); END""",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
_REASONS = {
    "SQLITE_FULL": "the disk is full",
    "SQLITE_READONLY": "it may only be read",
    "SQLITE_BUSY": "another process keeps it to itself",
    "SQLITE_LOCKED": "another process keeps it to itself",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_NOTADB": "it is not a SQLite file",
    "SQLITE_CORRUPT": "the file is damaged",
    "SQLITE_IOERR": "the disk cannot be read or written",
}


class SqliteStore:
    """Entries in a SQLite file in WAL mode; every commit is on disk before it returns (synchronous = FULL).

    A new file can be read by its owner only: it will hold every answer.
    """

    def __init__(self, path: Path, *, create: bool = True) -> None:
        if not create and not path.is_file():
            raise NoLedger(f"there is no ledger at {path}")
        self._where = str(path)
        self._explained = _Explained(self._where)
        with self._explained:
            if create and self._where != ":memory:":
                _make_private(path)
            self._open(path, create)

    def _open(self, path: Path, create: bool) -> None:
        self._connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA fullfsync = ON")
            self._connection.execute(f"PRAGMA wal_autocheckpoint = {_PAGES_OF_LOG}")
            empty = self._check_kind()
            if create:
                self._connection.execute("PRAGMA journal_mode = WAL")
                with self.exclusive():
                    for statement in _SCHEMA:
                        self._connection.execute(statement)
            elif empty:
                raise NoLedger(f"there is no ledger at {path}")
        except BaseException:
            self._connection.close()
            raise

    def _check_kind(self) -> bool:
        """Say whether the file is still empty; raise when it belongs to something else or to a later version."""
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if application == _APPLICATION and version > VERSION:
            raise DataError(f"{self._where} was written by a later version of discretion (form {version})")
        columns = tuple(row[1] for row in self._connection.execute("PRAGMA table_info(ledger)"))
        (objects,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application not in (0, _APPLICATION) or (columns != COLUMNS and objects):
            raise DataError(f"{self._where} cannot be used as a ledger: it holds something else")
        return not objects

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Begin a transaction that no other writer runs beside."""
        with self._explained:
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            with self._explained:
                self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def insert(self, entry: Entry) -> None:
        """Append an entry."""
        with self._explained:
            self._connection.execute(_INSERT, row_of(entry))

    def last(self) -> tuple[int, str, int] | None:
        """Return number, hash and time of the last entry."""
        with self._explained:
            row = self._connection.execute("SELECT id, hash, time FROM ledger ORDER BY id DESC LIMIT 1").fetchone()
        return None if row is None else (row[0], row[1], row[2])

    def select(self, where: str, values: Sequence[Any] = (), tail: str = "ORDER BY id") -> Iterator[Entry]:
        """Read entries; those after a number in the order of the table, so that nothing is sorted."""
        if "id > ?" in where and "kind" not in where:
            where = where.replace("subject", "+subject").replace("who", "+who")  # no index
        query = f"SELECT {', '.join(COLUMNS)} FROM ledger WHERE {where} {tail}"
        with self._explained:
            for row in self._connection.execute(query, values):
                yield entry_of(row)

    def spending(self, where: str, values: Sequence[Any] = ()) -> list[tuple[int, Cost]]:
        """Read times and costs."""
        query = f"SELECT time, micro_epsilon, nano_rho, nano_delta FROM ledger WHERE {COSTS} AND {where} ORDER BY id"
        with self._explained:
            return [(time, Cost(*amounts)) for time, *amounts in self._connection.execute(query, values)]

    def total(self, where: str, values: Sequence[Any] = ()) -> Cost:
        """Add up costs; DataError when somebody put something into them that no ledger writes."""
        wrong = " + ".join(f"(typeof({name}) <> 'integer' OR {name} < 0)" for name in AMOUNTS)
        query = f"SELECT COALESCE(SUM({wrong}), 0), {TOTALS} FROM ledger WHERE {COSTS} AND {where}"
        with self._explained:
            strange, *halves = self._connection.execute(query, values).fetchone()
        if strange:
            raise DataError(f"{self._where} cannot be used as a ledger: it holds costs that no ledger writes")
        return total_of(halves)

    def faults(self) -> list[str]:
        """Let SQLite check its file, indexes included, and whether the triggers that keep it append-only are there."""
        with self._explained:
            found = [str(text) for (text,) in self._connection.execute("PRAGMA integrity_check(5)")]
            there = {
                name for (name,) in self._connection.execute("SELECT name FROM sqlite_master WHERE type='trigger'")
            }
        problems = [] if found == ["ok"] else [f"the file is damaged: {' '.join(text.split())}" for text in found]
        lost = {"ledger_no_update", "ledger_no_delete", "ledger_in_order"} - there
        return problems + [f"the trigger {name} is missing; the service makes it anew" for name in sorted(lost)]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class _Explained:
    """Turns errors of SQLite into ours; its own words may quote what stands in the file."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, sqlite3.Error | UnicodeDecodeError):
            name = getattr(error, "sqlite_errorname", None) or ""
            reason = next((text for start, text in _REASONS.items() if name.startswith(start)), "the file is damaged")
            raise DataError(f"{self._where} cannot be used as a ledger: {reason}") from None


def _make_private(path: Path) -> None:
    """Make an absent file that only its owner can read; SQLite gives its log beside it the same rights."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise DataError(f"{path} cannot be used as a ledger: {error.strerror}") from None
