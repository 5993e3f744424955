"""The audit log: who asked what kind of question when, and what became of it; one line of JSON for each request.

A line holds the user, the table, functions and columns, the cost and the reason of a refusal. It never holds a value
that a column was compared with, a figure of an answer, a key or a text that somebody typed.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from discretion.errors import DataError
from discretion.online.query import Query


class AuditLog:
    """Lines of JSON, to a file (appended, flushed after each line, new ones for their owner only) or to stderr.

    A line that cannot be written, because the disk is full, goes to stderr: the service answers on.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._lock = threading.Lock()
        self._stream: IO[str] = sys.stderr if path is None else _opened(Path(path))
        self._own = path is not None

    def write(self, **facts: Any) -> None:
        """Write one line; facts that are None are left out."""
        told = {"time": datetime.now(UTC).isoformat(timespec="milliseconds")}
        told |= {name: value for name, value in facts.items() if value is not None}
        line = json.dumps(told) + "\n"
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
            except OSError as error:
                sys.stderr.write(f"the audit log cannot be written ({error.strerror}): {line}")

    def close(self) -> None:
        """Close the file."""
        if self._own:
            with contextlib.suppress(OSError):  # a full disk: the lines went to stderr
                self._stream.close()


def _opened(path: Path) -> IO[str]:
    try:
        return os.fdopen(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "a", encoding="utf-8")
    except OSError as error:
        raise DataError(f"the audit log cannot be written to {path}: {error.strerror}") from None


def shape(query: Query) -> dict[str, Any]:
    """Describe a question without any value: table, figures, groups, and which columns are compared in which way.

    Examples
    --------
    >>> from discretion.data.conditions import Condition
    >>> from discretion.online.query import Aggregate
    >>> shape(Query("students", (Aggregate("sum", "income"),), Condition("major", "=", ("EE",))))["where"]
    ['major =']
    """
    figures = [a.function if a.column is None else f"{a.function} {a.column}" for a in query.aggregates]
    where = sorted(f"{condition.column} {condition.op}" for condition in query.conditions())
    return {"table": query.table, "figures": figures, "where": where, "group_by": list(query.group_by)}
