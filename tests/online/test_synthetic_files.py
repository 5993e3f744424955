"""Synthetic files of a service: declared by the owner, paid from the ledger, the same again at no cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from tests.online.services import Log, running

pytest.importorskip("opendp")

COLUMNS: dict[str, Any] = {
    "sex": {"role": "public", "type": "category", "categories": ["f", "m"]},
    "smokes": {"role": "sensitive", "type": "truth"},
    "age": {"role": "sensitive", "type": "integer", "bounds": (0, 100)},
    "born": {"role": "sensitive", "type": "date"},
    "note": {"role": "hidden", "type": "category"},
}
BORN = {"cuts": ["1930-01-01", "1960-01-01", "1990-01-01", "2020-01-01"]}
FILE = {"private-marginals": {"epsilon": 0.5, "domain": {"born": BORN}}}
NOISE = {"mode": "dp", "epsilon": 1.0, "delta": 1e-6, "accountant": "zcdp"}


def people(rows: int = 3000) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    who = np.arange(rows) // 3
    born = np.datetime64("1940-01-01") + rng.integers(0, 25_000, rows)
    return pl.DataFrame(
        {
            "sex": rng.choice(["f", "m"], rows), "smokes": rng.random(rows) < 0.3, "age": rng.integers(20, 80, rows),
            "born": born, "note": ["secret"] * rows, "who": who,
        }
    )  # fmt: skip


def service(policy: Any = NOISE, users: Any = None, **options: Any) -> dc.StatisticalDatabase:
    given = {"synthetic": FILE, **options}
    return dc.StatisticalDatabase(people(), table="people", columns=COLUMNS, policy=policy, users=users, **given)


def test_a_file_has_the_declared_values_and_about_as_many_rows() -> None:
    with service() as database:
        found = database.synthetic("people")
        assert set(found.frame.columns) == {"sex", "smokes", "age", "born"}
        assert abs(len(found.frame) - 3000) < 400 and found.mode == "dp"
        assert set(found.frame["sex"].drop_nulls()) == {"f", "m"}
        assert found.frame["age"].is_between(0, 100).sum() + found.frame["age"].null_count() == len(found.frame)
        assert found.cost.nano_rho > 0 and not found.cached


def test_the_same_file_again_costs_nothing_and_another_one_is_paid_until_the_budget_ends() -> None:
    with service() as database:
        first = database.synthetic("people")
        left = first.remaining
        again = database.synthetic("people")
        assert again.cached and again.frame.equals(first.frame) and again.remaining == left
        with pytest.raises(dc.BudgetExhausted):
            database.synthetic("people", epsilon=0.9)
        assert [entry.kind for entry in database.history()][-3:] == ["dp", "answer", "refused"]
        (spent,) = [entry.cost for entry in database.history() if entry.cost.nano_rho]
        assert spent == first.cost


def test_a_number_without_measure_is_bounded_and_an_infinite_one_is_named_when_the_service_starts(
    tmp_path: Path,
) -> None:
    path = tmp_path / "incomes.parquet"
    columns: Any = {"income": {"role": "sensitive", "type": "number", "bounds": (0, 100)}}
    given: Any = {
        "table": "people",
        "columns": columns,
        "policy": NOISE,
        "synthetic": {"private-marginals": {"epsilon": 0.5}},
    }
    pl.DataFrame({"income": [1e200] + [50.0] * 999}).write_parquet(path)
    with dc.StatisticalDatabase(path, **given) as database:
        assert database.synthetic("people").frame["income"].drop_nulls().is_between(0, 100).all()
    pl.DataFrame({"income": [float("inf")] + [50.0] * 999}).write_parquet(path)
    with pytest.raises(dc.DataError, match="income"):
        dc.StatisticalDatabase(path, **given)


def test_files_and_answers_spend_one_budget() -> None:
    with service() as database:
        database.synthetic("people", epsilon=0.8)
        with pytest.raises(dc.BudgetExhausted):
            database.ask("SELECT count(*) FROM people", epsilon=0.9)
    with service(epsilon=1.0, delta=1e-6, users={"ann": {}, "bob": {}}) as database:
        database.synthetic("people", user="ann", epsilon=0.9)
        with pytest.raises(dc.BudgetExhausted):
            database.synthetic("people", user="bob", epsilon=0.9)


def test_a_person_has_as_many_rows_as_the_table_allows() -> None:
    with service(person="who", rows_per_person=1) as database:
        assert abs(len(database.synthetic("people", epsilon=0.9).frame) - 1000) < 400


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"synthetic": {"private-marginals": {}}}, "column 'born' has no declared"),
        ({"synthetic": {"rank-swap": {"percent": 5}}}, "rank-swap gives no differential privacy"),
        ({"synthetic": {"private-marginals": {"person": "sex"}}}, "follows from the table"),
        ({"synthetic": {"a": {}, "b": {}}}, "one generator"),
        ({"adjacency": "replace"}, "presence of people"),
    ],
)
def test_what_an_owner_cannot_declare_is_refused_at_the_start(change: dict[str, Any], words: str) -> None:
    with pytest.raises(dc.PlanError, match=words):
        service(**change)


def test_users_without_a_private_policy_get_no_file() -> None:
    with service(policy={"mode": "dp", "epsilon": 1.0}) as database, pytest.raises(dc.QueryRefused, match="δ"):
        database.synthetic("people")
    with service(policy={"mode": "perturbed"}) as database, pytest.raises(dc.QueryRefused, match="private"):
        database.synthetic("people")
    with (
        service(policy={**NOISE, "max_epsilon_per_query": 0.2}) as database,
        pytest.raises(dc.QueryRefused, match="at most"),
    ):
        database.synthetic("people", epsilon=0.5)
    with service(synthetic=None) as database, pytest.raises(dc.QueryRefused, match="no synthetic file"):
        database.synthetic("people")


def test_a_file_over_the_wire(tmp_path: Path) -> None:
    log = Log()
    users = {"ann": {}, "eve": {"role": "auditor"}}
    with service(users=users) as database, running(database, log) as (url, keys):
        with dc.connect(url, keys["ann"]) as connection:
            found = connection.synthetic("people", epsilon=0.4)
            assert abs(len(found.frame) - 3000) < 500 and found.frame["born"].dtype == pl.String
            assert connection.synthetic("people", epsilon=0.4).frame.equals(found.frame)
            with pytest.raises(dc.BudgetExhausted):
                connection.synthetic("people", epsilon=1.0)
            with pytest.raises(dc.QueryRefused, match="unknown table"):
                connection.synthetic("poeple")
        with dc.connect(url, keys["eve"]) as connection, pytest.raises(dc.DiscretionError):
            connection.synthetic("people")
    lines = [json.loads(line) for line in log.text.getvalue().splitlines()]
    assert {"table": "people", "figures": ["synthetic file"]} in [line.get("question") for line in lines]
    assert "3000" not in log.text.getvalue()
