"""Private answers over ten million rows, beside the plain query in duckdb: at most 1.5 times its time plus 5 ms."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb

from benchmarks.ratio import Line, compare
from discretion.online.backends import Backend, open_backend
from discretion.online.declare import DpPolicy, TableSpec
from discretion.online.dp.answer import answer, price
from discretion.online.question.query import Aggregate, Query

N = 10_000_000
GROUPS = 50
SECONDS = 0.005
"""what an answer may take beside 1.5 times the plain query"""
MAKE = f"""
    SELECT (i * 7919) % {GROUPS} AS region, 20000 + 60000 * (hash(i) % 1000003) / 1000003.0 AS income,
           (hash(i + 1) % 100)::BIGINT AS age
    FROM range({N}) AS numbers(i)
"""
TABLE = TableSpec(
    name="people",
    columns={
        "region": {"role": "public", "type": "integer", "categories": tuple(range(GROUPS))},
        "income": {"role": "sensitive", "type": "number", "bounds": (0, 100_000)},
        "age": {"role": "sensitive", "type": "integer", "bounds": (0, 100)},
    },
)
JOBS = (
    ("count", Query("people", (Aggregate("count"),)), "SELECT count(*) FROM people"),
    ("mean of integers", Query("people", (Aggregate("mean", "age"),)), "SELECT avg(age) FROM people"),
    ("mean of numbers", Query("people", (Aggregate("mean", "income"),)), "SELECT avg(income) FROM people"),
    (
        f"{GROUPS}-group histogram",
        Query("people", (Aggregate("count"),), group_by=("region",)),
        "SELECT region, count(*) FROM people GROUP BY region",
    ),
)


def private(query: Query, backend: Backend) -> object:
    """Price a question and draw its answer."""
    return answer(price(query, TABLE, DpPolicy(mode="dp", epsilon=1), epsilon=0.1), backend).frame()


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        plain = duckdb.connect()
        plain.execute(f"CREATE TABLE people AS {MAKE}")
        plain.execute(f"COPY people TO '{path}' (FORMAT parquet)")
        backend = open_backend([TABLE.model_copy(update={"source": str(path)})])
        for job, query, sql in JOBS:
            found = compare(
                f"dp {job}, {N:,} rows", lambda query=query: private(query, backend),
                "duckdb, plain query", lambda sql=sql: plain.execute(sql).fetchall(), 1.5,
            )  # fmt: skip
            yield Line(found.job, found.base, found.seconds, found.base_seconds, 1.5 + SECONDS / found.base_seconds)
        backend.close()
        plain.close()
