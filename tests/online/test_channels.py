"""What a refusal, an error and the time of an answer may depend on: never on values, for every type of question."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import discretion as dc
from discretion.online.server.app import Service
from discretion.online.server.guard import Schedule
from tests.online.services import NOISE, running, students

FIGURES = {
    "count": "count(*)",
    "count-distinct": "count(DISTINCT town)",
    "sum": "sum(income)",
    "mean": "avg(income)",
    "variance": "variance(income)",
    "min": "min(income)",
    "max": "max(income)",
    "quantile": "quantile_cont(income, 0.9)",
    "histogram": "histogram(income, [0, 10, 50, 100])",
    "yes or no": "sum(ill)",
}
COLUMNS: dict[str, Any] = {
    "town": {"role": "public", "type": "category", "categories": ["a", "b", "c"]},
    "age": {"role": "public", "type": "integer", "bounds": (0, 100)},
    "income": {"role": "sensitive", "type": "number", "bounds": (0, 100)},
    "ill": {"role": "sensitive", "type": "truth"},
}
READS = ("members", "missing", "exact", "bounded")
TYPES = {"town": pl.String, "age": pl.Int64, "income": pl.Float64, "ill": pl.Boolean}


class Spy:
    """A backend that writes down what is read of the data; public columns may be read at any time."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.read: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in READS:
            self.read.append(name)
        return getattr(self._inner, name)

    def column(self, table: str, name: str) -> Any:
        if COLUMNS[name]["role"] == "sensitive":
            self.read.append("column")
        return self._inner.column(table, name)


def people(income: list[float | None]) -> pl.DataFrame:
    rows = len(income)
    content = {
        "town": [["a", "b", "c"][i % 3] for i in range(rows)],
        "age": [i % 90 for i in range(rows)],
        "income": income,
        "ill": [None if x is None else x > 50 for x in income],
    }
    return pl.DataFrame(content, schema=TYPES)


def watched(frame: pl.DataFrame, policy: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    import discretion.online.statistical_database as module

    opened, spies = module.open_backend, []

    def spied(*args: Any) -> Any:
        spies.append(Spy(opened(*args)))
        return spies[-1]

    monkeypatch.setattr(module, "open_backend", spied)
    database = dc.StatisticalDatabase(frame, columns=COLUMNS, policy=policy)
    spies[0].read.clear()
    return database, spies[0]


ORDINARY = [float(7 * i % 97) + 0.5 for i in range(90)]


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
@pytest.mark.parametrize("group", ["", " GROUP BY town"])
def test_a_spent_budget_refuses_before_the_data_are_touched(
    figure: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, spy = watched(people(ORDINARY), {"mode": "dp", "epsilon": 1.0, "epsilon_per_query": 0.9}, monkeypatch)
    with database:
        database.ask("SELECT count(*) FROM data WHERE age < 50")
        assert spy.read == ["bounded"]
        spy.read.clear()
        with pytest.raises(dc.BudgetExhausted):
            database.ask(f"SELECT {figure} AS f FROM data{group}")
        with pytest.raises(dc.BudgetExhausted):
            database.ask(f"SELECT {figure} AS f FROM data{group}", epsilon=5)
        database.dry_run(f"SELECT {figure} AS f FROM data{group}", epsilon=0.1)
        assert spy.read == []


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
@pytest.mark.parametrize("mode", ["exact+audit", "perturbed"])
def test_other_refusals_come_before_the_values_are_touched(
    figure: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sensitive condition, too few people, a figure of single values: refused by declarations and public columns."""
    database, spy = watched(people(ORDINARY), {"mode": mode}, monkeypatch)
    refused = []
    with database:
        for where in ("income > 40", "age = 1", "town != 'c'"):
            spy.read.clear()
            try:
                database.ask(f"SELECT {figure} AS f FROM data WHERE {where}")
            except dc.QueryRefused:
                refused.append(where)
                assert not {"column", "exact", "bounded"} & set(spy.read)
    assert "income > 40" in refused
    assert ("town != 'c'" in refused) == (
        not figure.startswith("count") and figure not in ("sum(income)", "avg(income)")
    )


@pytest.mark.parametrize("figure", FIGURES.values(), ids=FIGURES)
@pytest.mark.parametrize("group", ["", " GROUP BY town"])
def test_private_answers_have_one_form_whatever_the_data_are(figure: str, group: str) -> None:
    """Nobody, nothing known, one person, everybody at a bound or far outside: the same lines, never an error."""
    policy = {"mode": "dp", "epsilon": 1.0, "epsilon_per_query": 0.5}
    tables = ([], [None] * 30, [1e149], [0.0] * 30, [-1e9, 1e9] * 15, ORDINARY)
    forms = set()
    for income in tables:
        with dc.StatisticalDatabase(people(list(income)), columns=COLUMNS, policy=policy) as database:
            answer = database.ask(f"SELECT {figure} AS f FROM data{group}")
            keys = answer.frame.drop("f").rows()
            lengths = [len(value) if isinstance(value, list) else 0 for value in answer.frame["f"].to_list()]
            forms.add(str((keys, lengths, answer.frame.columns, answer.cost, answer.notes)))
    assert len(forms) == 1


def test_moments_of_the_schedule_depend_on_doublings_only() -> None:
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    schedule = Schedule(0.1, clock=lambda: now[0], sleep=sleep)
    for took in (0.0, 0.04, 0.1, 0.13, 0.35):
        start = now[0]
        with pytest.raises(dc.QueryRefused), schedule.keep():  # refusals wait as answers do
            now[0] += took
            raise dc.QueryRefused("no")
        passed = now[0] - start
        assert min(abs(passed - 0.1 * 2**k) for k in range(4)) < 1e-9 and took - 1e-9 <= passed <= max(0.1, 2 * took)
    slept.clear()
    with schedule.keep(on=False), Schedule(0, clock=lambda: now[0], sleep=sleep).keep():
        now[0] += 0.3
    assert slept == []


@pytest.mark.parametrize("figure", ["count(*)", "sum(income)", "median(income)"])
def test_the_service_keeps_the_schedule_for_private_answers_and_their_refusals(
    figure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    original = Service.__init__

    def watched_init(self: Service, database: Any) -> None:
        original(self, database)
        self._schedule = Schedule(0.01, sleep=waits.append)

    monkeypatch.setattr(Service, "__init__", watched_init)
    with students(NOISE, users={"ann": {}}) as database, running(database) as (url, keys):
        connection = dc.connect(url, keys["ann"])
        connection.ask(f"SELECT {figure} AS f FROM students")
        with pytest.raises(dc.BudgetExhausted):
            connection.ask(f"SELECT {figure} AS f FROM students", epsilon=100)
        connection.close()
    assert len(waits) == 2
    with students(users={"ann": {}}) as database, running(database) as (url, keys):
        connection = dc.connect(url, keys["ann"])
        connection.ask("SELECT count(*) AS f FROM students")
        connection.close()
    assert len(waits) == 2
