"""Services for tests: the nine students, a table with a budget, servers in a thread and in a process of their own."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import uvicorn

import discretion as dc
from discretion.online.server import create_app
from discretion.online.server.access import KeyRing, hash_key, new_key
from discretion.online.server.guard import AuditLog

STUDENTS: dict[str, Any] = {
    "sex": {"role": "public", "type": "category", "categories": ["female", "male"]},
    "major": {"role": "public", "type": "category"},
    "class": {"role": "public", "type": "integer"},
    "income": {"role": "sensitive", "type": "integer", "bounds": (0, 100_000)},
}
INCOMES: dict[str, Any] = {**STUDENTS, "income": {"role": "sensitive", "type": "number", "whole": False}}
"""the same for true answers: incomes that could be any number, under the linear audit"""
TRUTH = {"mode": "exact+audit", "min_query_size": 2}
NOISE = {"mode": "dp", "epsilon": 2.0, "epsilon_per_query": 0.5}
CHANGED = {"mode": "perturbed", "min_query_size": 2}


def students(policy: Any = None, **options: Any) -> dc.StatisticalDatabase:
    given = policy or TRUTH
    columns = INCOMES if given["mode"] == "exact+audit" else STUDENTS
    return dc.StatisticalDatabase(dc.datasets.students(), table="students", columns=columns, policy=given, **options)


class Log(AuditLog):
    """A log that tests can read."""

    def __init__(self) -> None:
        super().__init__()
        self._stream = self.text = io.StringIO()


@contextlib.contextmanager
def running(database: dc.StatisticalDatabase, log: AuditLog | None = None) -> Iterator[tuple[str, dict[str, str]]]:
    """Serve a database from a thread; give its address and a key for each user."""
    keys = {user: new_key() for user in database.spec.users}
    ring = KeyRing({user: hash_key(key) for user, key in keys.items()})
    config = uvicorn.Config(create_app(database, ring, log or Log()), port=0, log_level="error")
    listening = config.bind_socket()
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", keys
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()


class Process:
    """`discretion serve` in a process of its own."""

    def __init__(self, service: Path, *options: str) -> None:
        self._service, self._options = service, options

    def start(self) -> str:
        """Start and give the address, once it listens."""
        command = [sys.executable, "-m", "discretion", "serve", str(self._service), "--port", "0", *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        seen = []
        for line in self._process.stderr or ():
            seen.append(line)
            if found := re.search(r"listening on (\S+)", line):
                self._drainer = threading.Thread(target=self._drain, daemon=True)
                self._drainer.start()
                return found[1]
        raise AssertionError("the server did not start: " + "".join(seen))

    def _drain(self) -> None:
        with contextlib.suppress(ValueError):
            for _ in self._process.stderr or ():
                pass

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> int:
        """Ask to stop, and wait."""
        self._process.terminate()
        code = self._process.wait(30)
        self._drainer.join(10)
        if self._process.stderr is not None:
            self._process.stderr.close()
        return code


def census(rows: int) -> pl.DataFrame:
    """A table whose columns are functions of the row, the same each time."""
    number = pl.int_range(rows, eager=True).alias("n")
    return pl.select(
        region=(number % 50).cast(pl.String),
        age=(number * 7919 % 83 + 18),
        income=(number * 104_729 % 100_003).cast(pl.Float64),
    )
