"""Entries as rows of a database table, the same in every store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discretion.online.ledger.entries import Entry, well_formed
from discretion.privacy.accounting import Cost

VERSION = 1
"""The form of the stored table; a ledger of a later form is not touched."""

COLUMNS = (
    "id", "time", "who", "subject", "kind", "digest", "query", "micro_epsilon", "nano_rho", "nano_delta", "sets",
    "refers", "answer", "previous", "hash",
)  # fmt: skip

COSTS = "(micro_epsilon > 0 OR nano_rho > 0 OR nano_delta > 0)"
"""The condition that an entry spends something."""

AMOUNTS = ("micro_epsilon", "nano_rho", "nano_delta")
_HALF = 32
TOTALS = ", ".join(
    f"COALESCE(SUM({name} >> {_HALF}), 0), COALESCE(SUM({name} & {2**_HALF - 1}), 0)" for name in AMOUNTS
)
"""The sums of the upper and of the lower halves of each amount: neither can overflow."""


def total_of(halves: Sequence[Any]) -> Cost:
    """Put the sums of `TOTALS` together."""
    upper, lower = halves[::2], halves[1::2]
    return Cost(*((int(high) << _HALF) + int(low) for high, low in zip(upper, lower, strict=True)))


def row_of(entry: Entry) -> tuple[Any, ...]:
    """Give the values of the columns."""
    return (
        entry.id, entry.time, entry.user, entry.table, entry.kind, entry.digest, entry.query, *entry.cost.amounts,
        entry.sets, entry.refers, entry.answer, entry.previous, entry.hash,
    )  # fmt: skip


def entry_of(row: Sequence[Any]) -> Entry:
    """Give the entry of a row; DataError when somebody put something into it that no ledger writes."""
    number, time, user, table, kind, digest, query, epsilon, rho, delta, sets, refers, answer, previous, own = row
    packed = bytes(sets) if isinstance(sets, memoryview | bytearray) else sets
    cost = Cost(epsilon, rho, delta)
    return well_formed(
        Entry(number, time, user, table, kind, digest, query, cost, packed, refers, answer, previous, own)
    )
