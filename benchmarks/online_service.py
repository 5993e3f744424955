"""The statistical database beside the plain duckdb query: what privacy, ledger and audit add to an answer.

CPU time counts here as elsewhere. An answer may cost 1.5 times the plain query plus 5 ms; the limit of a line is that
sum as a ratio to the plain query of the same run.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.ratio import Line, compare

ROWS, AUDITED_ROWS = 10_000_000, 100_000
RUNS = 23
_SHARE, _SLACK_SECONDS = 1.5, 0.005
_AUDIT_LIMIT, _AUDIT_SECONDS, _SET_SECONDS = 3.0, 1e-7, 0.005
"""a question under the linear audit costs three times the plain query, 0.1 s for a million people (who is in each query
set is listed, packed for the ledger and added up) and 5 ms for each set (the equations, after a thousand others)"""
_GROUPS_LIMIT, _GROUPS_SECONDS = 1.2, 0.005
"""an answer by base groups costs 1.2 times the plain query on 10⁷ rows, and 5 ms on 10⁵ in the median, at most"""
_SIGNS_LIMIT = 10.0
"""noticing a table under another name, once when the service starts: each column is hashed in its order under a secret
key, and its different values are found, one column after the other and outside the database"""
_COLUMNS = {
    "region": {"role": "public", "type": "category", "categories": [str(i) for i in range(50)]},
    "age": {"role": "public", "type": "integer", "bounds": [0, 120]},
    "income": {"role": "sensitive", "type": "number", "bounds": [0, 100_003]},
}
_QUESTIONS = {
    "count": "SELECT count(*) FROM people WHERE age > {}",
    "mean": "SELECT avg(income) FROM people WHERE age > {}",
    "50 groups": "SELECT region, count(*) FROM people WHERE age > {} GROUP BY region",
}
_MEANS = "SELECT region, avg(income) FROM people WHERE age > {} GROUP BY region"


def lines() -> Iterator[Line]:
    """Yield one line per kind of answer: private answers, true ones by base groups and under the audit."""
    with _tables(ROWS, {"mode": "dp", "epsilon": 1e6, "epsilon_per_query": 1.0}) as (database, plain):
        for name, question in _QUESTIONS.items():
            found = _line(f"private {name}, 10⁷ rows", database, plain, question)
            allowed = (_SHARE * found.base_seconds + _SLACK_SECONDS) / found.base_seconds
            yield Line(found.job, found.base, found.seconds, found.base_seconds, allowed)
        yield _signs(database, plain)
    grouped = {"mean": _QUESTIONS["mean"], "50 groups": _MEANS}
    for rows, people in ((ROWS, "10⁷"), (AUDITED_ROWS, "10⁵")):
        with _tables(rows, {"mode": "exact+audit"}) as (database, plain):
            for name, question in grouped.items():
                found = _line(f"base groups, {name}, {people} people", database, plain, question)
                limit = _GROUPS_LIMIT if rows == ROWS else _GROUPS_SECONDS / found.base_seconds
                yield _with_time(found, limit)
    unbounded = {**_COLUMNS, "income": {"role": "sensitive", "type": "number", "whole": False}}
    for rows, people in ((ROWS, "10⁷"), (AUDITED_ROWS, "10⁵")):
        with _tables(rows, {"mode": "exact+audit"}, unbounded) as (database, plain):
            for name, question in grouped.items():
                found = _line(f"linear audit, {name}, {people} people", database, plain, question)
                own = _AUDIT_SECONDS * rows + _SET_SECONDS * (50 if "GROUP BY" in question else 1)
                yield _with_time(found, _AUDIT_LIMIT + own / found.base_seconds)


def _signs(database: Any, plain: Any) -> Line:
    """Compare the signs by which the same columns are noticed under other names with counting different values."""
    from discretion.online.statistical_database import signs

    def notice() -> None:
        signs(database._backend, "people", bytes(32))
        database._backend.signatures("people")

    counted = ", ".join(f"count(DISTINCT {name})" for name in _COLUMNS)
    found = compare(
        "signs of three columns, 10⁷ rows",
        notice,
        "duckdb count(DISTINCT …)",
        lambda: plain.execute(f"SELECT {counted} FROM people").fetchall(),
        _SIGNS_LIMIT,
        runs=2,
    )
    return _with_time(found, _SIGNS_LIMIT)


def _with_time(line: Line, limit: float) -> Line:
    return Line(f"{line.job} ({1000 * line.seconds:.1f} ms)", line.base, line.seconds, line.base_seconds, limit)


@contextmanager
def _tables(rows: int, policy: dict[str, Any], columns: dict[str, Any] = _COLUMNS) -> Iterator[tuple[Any, Any]]:
    """Give the same table behind a service and in a plain database."""
    import duckdb
    import polars as pl

    import discretion as dc

    number = pl.int_range(rows, eager=True).alias("n")
    frame = pl.select(
        region=(number % 50).cast(pl.String),
        age=(number * 7919 % 83 + 18),
        income=(number * 104_729 % 100_003).cast(pl.Float64),
    )
    plain = duckdb.connect()
    plain.execute("SET enable_progress_bar = false")
    plain.register("given", frame.to_arrow())
    plain.execute("CREATE TABLE people AS SELECT * FROM given")
    plain.unregister("given")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "ledger.db"
        with dc.StatisticalDatabase(frame, table="people", columns=columns, policy=policy, ledger=place) as database:
            yield database, plain
    plain.close()


def _line(job: str, database: Any, plain: Any, question: str) -> Line:
    """Compare medians by turns; every question is new, so that none is answered from memory."""
    spent: tuple[list[float], list[float]] = ([], [])
    for number in range(18, 18 + RUNS):
        for times, ask in zip(spent, (database.ask, lambda sql: plain.execute(sql).fetchall()), strict=True):
            start = time.process_time()
            ask(question.format(number))
            times.append(time.process_time() - start)
    seconds, base = (statistics.median(times[2:]) for times in spent)  # the first two warm up
    return Line(job, "plain duckdb query", seconds, base, 0)
