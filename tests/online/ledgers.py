"""The same ledger tests on SQLite and on PostgreSQL."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from discretion.online.ledger import Ledger, open_ledger

_NUMBERS = itertools.count()


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = datetime(2024, 1, 30, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def move(self, **amount: float) -> None:
        self.now += timedelta(**amount)


@dataclass(frozen=True)
class Place:
    """Where a ledger is, so that other processes can open it too."""

    url: str
    name: str

    def open(self, **options: Any) -> Ledger:
        return open_ledger(self.url, name=self.name, **options)

    def damage(self, statement: str, values: tuple[Any, ...] = ()) -> None:
        """Change the stored table behind the ledger's back, as an intruder with access to the database could."""
        if self.url.startswith("postgresql"):
            import psycopg

            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(f"ALTER TABLE {self.name} DISABLE TRIGGER ALL")
                connection.execute(statement.format(ledger=self.name).replace("?", "%s"), values)
                connection.execute(f"ALTER TABLE {self.name} ENABLE TRIGGER ALL")
            return
        import sqlite3

        connection = sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None)
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(statement.format(ledger="ledger"), values)
        for _, again in triggers:
            connection.execute(again)
        connection.close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place(f"sqlite:///{tmp_path / 'ledger.db'}", "ledger")
    return Place(request.getfixturevalue("postgres_url"), f"ledger_{os.getpid()}_{next(_NUMBERS)}")
