"""The client: frames, refusals as errors, budgets, history."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

import discretion as dc
from discretion.data.sql_filter import Condition
from discretion.online.client import Connection, ServiceError
from discretion.online.question.query import Aggregate, Query
from tests.online.services import NOISE, running, students


@pytest.fixture(scope="module")
def connections() -> Iterator[dict[str, Connection]]:
    users = {"ann": {}, "bob": {"policy": NOISE}, "eve": {"role": "auditor"}, "oda": {"role": "owner"}}
    with students(users=users) as database, running(database) as (url, keys):
        opened = {user: dc.connect(url, key) for user, key in keys.items()}
        opened["stranger"] = dc.connect(url, "dk_wrong")
        yield opened
        for connection in opened.values():
            connection.close()


def test_frames_come_back_with_their_types(connections: dict[str, Connection]) -> None:
    query = Query(
        "students", (Aggregate("mean", "income", name="m"), Aggregate("count", name="n")), group_by=("major",)
    )
    answer = connections["ann"].ask(query)
    assert answer.frame.rows() == [("CS", 71_600.0, 5), ("EE", 60_000.0, 4)]
    assert [str(kind) for kind in answer.frame.dtypes] == ["String", "Float64", "Int64"]
    again = connections["ann"].frame(
        "SELECT major, count(*) AS n, avg(income) AS m FROM students GROUP BY major", library="pandas"
    )
    assert again["n"].tolist() == [5, 4]


def test_refusals_and_spent_budgets_are_errors(connections: dict[str, Connection]) -> None:
    with pytest.raises(dc.QueryRefused, match="would show rows"):
        connections["ann"].ask("SELECT * FROM students")
    with pytest.raises(dc.QueryRefused, match="too few people"):
        connections["ann"].ask(Query("students", (Aggregate("sum", "income"),), Condition("class", "=", (1979,))))
    with pytest.raises(dc.BudgetExhausted, match="costs ε 3"):
        connections["bob"].ask("SELECT count(*) FROM students", epsilon=3)
    with pytest.raises(ServiceError, match="no valid key"):
        connections["stranger"].budget()
    with pytest.raises(ServiceError, match="roles"):
        connections["ann"].history()


def test_cost_error_and_budget(connections: dict[str, Connection]) -> None:
    bob = connections["bob"]
    estimate = bob.dry_run("SELECT count(*) AS n FROM students", epsilon=0.5)
    answer = bob.ask("SELECT count(*) AS n FROM students", epsilon=0.5)
    assert answer.cost == estimate.cost
    assert answer.low is not None
    assert answer.frame.item() - answer.low.item() == estimate.errors["n"]
    assert bob.budget()["remaining"].to_list() == [1.5]
    assert connections["eve"].budget("bob")["spent"].to_list() == [0.5]
    assert list(bob.tables()) == ["students"]


def test_history_and_growth(connections: dict[str, Connection]) -> None:
    with pytest.raises(dc.QueryRefused, match="too few people"):
        connections["ann"].ask(Query("students", (Aggregate("sum", "income"),), Condition("class", "=", (1979,))))
    entries = connections["eve"].history()
    assert entries["id"].to_list() == list(range(1, len(entries) + 1))
    assert "refused" in entries["kind"].to_list()
    assert connections["oda"].refresh("students") == 9


def test_what_does_not_answer() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with dc.connect(url, "dk_x") as connection, pytest.raises(ServiceError, match="cannot be reached"):
        connection.budget()
    with pytest.raises(dc.PlanError, match="http"):
        dc.connect("ftp://x", "dk_x")
    assert "dk_x" not in repr(connection)
