"""The memory of an on-line service: an append-only ledger of questions, costs and answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from discretion.errors import PlanError
from discretion.online.ledger.book import EACH, Ledger, Limit, Page, Period, utc_now
from discretion.online.ledger.entries import (
    Charge,
    Entry,
    Head,
    Kind,
    NoLedger,
    Verification,
    pack_sets,
    unpack_sets,
    verify_chain,
)
from discretion.privacy.accounting import FREE, Cost, PrivacyFilter

__all__ = [
    "EACH",
    "FREE",
    "Charge",
    "Cost",
    "Entry",
    "Head",
    "Kind",
    "Ledger",
    "Limit",
    "NoLedger",
    "Page",
    "Period",
    "PrivacyFilter",
    "Verification",
    "open_ledger",
    "pack_sets",
    "unpack_sets",
    "utc_now",
    "verify_chain",
]


def open_ledger(
    url: str | Path,
    *,
    limits: Iterable[Limit] = (),
    clock: Callable[[], datetime] = utc_now,
    create: bool = True,
    name: str = "discretion_ledger",
) -> Ledger:
    """Open a ledger: a path or sqlite:///path, or postgresql://user@host/base; made when absent, unless told not to.

    `name` is the table in PostgreSQL. `clock` gives the time in UTC.
    """
    from discretion.online.ledger.postgres import PostgresStore
    from discretion.online.ledger.sqlite import SqliteStore

    text = str(url)
    if text.startswith(("postgresql://", "postgres://")):
        return Ledger(PostgresStore(text, name=name, create=create), limits, clock)
    if isinstance(url, str) and "://" in text and not text.startswith("sqlite:///"):
        raise PlanError("a ledger is a path, sqlite:///path or postgresql://user@host/base")
    return Ledger(SqliteStore(Path(text.removeprefix("sqlite:///")), create=create), limits, clock)
