"""A process that spends: charge, answer, record, tell; again and again until the budget is gone or it is killed."""

from __future__ import annotations

import os
import sys

from discretion.errors import BudgetExhausted
from discretion.online.ledger import Cost, Limit, PrivacyFilter, open_ledger


def spend(url: str, name: str, told: str, user: str, budget: int) -> None:
    """Write the number of every charge whose answer somebody was told into the file `told`."""
    out = os.open(told, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    ledger = open_ledger(url, name=name, limits=[Limit(PrivacyFilter(budget / 1e6))])
    os.write(out, b"ready\n")
    number = 0
    while True:
        number += 1
        try:
            entry = ledger.charge(user, "t", f"{user} {number}", Cost(micro_epsilon=7))
        except BudgetExhausted:
            return
        ledger.record_answer(entry.id, str(number))
        os.write(out, f"{entry.id}\n".encode())


if __name__ == "__main__":
    spend(*sys.argv[1:5], int(sys.argv[5]))
