"""Scripts that use the embedded database end in silence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_BACKEND = """
import polars as pl
from discretion.online.backends.duckdb import DuckdbBackend
from discretion.online.declare import TableSpec
from discretion.online.question.query import Aggregate, Query

# the thread that watches the time of questions sleeps on when the script ends
table = TableSpec(name="t", columns={"age": {"role": "public", "type": "integer"}})
backend = DuckdbBackend([table], {"t": pl.DataFrame({"age": [30, 41, 58]})})
backend.exact(Query("t", (Aggregate("mean", "age"),)))
"""
_SCRIPTS = {
    "a question": _BACKEND,
    "a refused question": _BACKEND
    + """
import discretion as dc
try:
    backend.exact(Query("t", (Aggregate("mean", "agee"),)))
except dc.DiscretionError as error:
    kept = error
""",
    "an open service": """
import discretion as dc
base = dc.StatisticalDatabase(
    dc.datasets.students(), table="students", policy={"mode": "exact+audit", "min_query_size": 2},
    columns={
        "major": {"role": "public", "type": "category"},
        "income": {"role": "sensitive", "type": "number", "whole": False},
    },
)
answer = base.ask("SELECT sum(income) FROM students WHERE major = 'EE'")
""",
    "a database file": """
import discretion as dc
dc.write(dc.datasets.students(), "people.duckdb", table="t")
people = dc.read("people.duckdb", table="t")
try:
    dc.read("people.duckdb", query="SELECT nothing FROM t")
except dc.DiscretionError as error:
    kept = error
""",
}


@pytest.mark.parametrize("script", _SCRIPTS.values(), ids=_SCRIPTS)
def test_nothing_is_said_at_exit(script: str, tmp_path: Path) -> None:
    """A daemon thread that outlives the script kept duckdb's library from being freed: "nanobind: leaked …"."""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
