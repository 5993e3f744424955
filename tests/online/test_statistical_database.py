"""The statistical database in one process: audit, budget, memory, growth, restart."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.data.sql_filter import Condition
from discretion.online.declare import ServiceSpec
from discretion.online.dp import sensitivity
from discretion.online.dp.sensitivity import Unit
from discretion.online.ledger import Cost
from discretion.online.question.answer import Answer
from discretion.online.question.query import Aggregate, Query
from tests.online.samples import COLUMNS, VALUES, queries
from tests.online.services import CHANGED, INCOMES, NOISE, STUDENTS, TRUTH, students


@pytest.fixture(scope="module")
def shared() -> Iterator[dc.StatisticalDatabase]:
    with students() as database:
        yield database


def kinds(database: dc.StatisticalDatabase) -> list[str]:
    return [entry.kind for entry in database.history()]


# --- true answers ---------------------------------------------------------------------------------------------------


def test_the_nine_students() -> None:
    """O2: 240,000 for EE, then the men of EE would tell one woman's income."""
    with students() as database:
        answer = database.ask("SELECT sum(income) AS total FROM students WHERE major = 'EE'")
        assert answer.frame["total"].to_list() == [240_000]
        assert answer.mode == "exact+audit"
        with pytest.raises(dc.QueryRefused, match="determine somebody's value"):
            database.ask("SELECT sum(income) FROM students WHERE major = 'EE' AND sex = 'male'")
        assert kinds(database) == ["update", "exact", "answer", "refused"]


def test_the_second_question_alone_is_answered() -> None:
    with students() as database:
        answer = database.ask("SELECT sum(income) AS s FROM students WHERE major = 'EE' AND sex = 'male'")
        assert answer.frame["s"].item() == 190_000
        with pytest.raises(dc.QueryRefused):
            database.ask("SELECT avg(income) FROM students WHERE major = 'EE'")


def test_two_users_together_are_one_attacker() -> None:
    with students(users={"ann": {}, "bob": {}}) as database:
        database.ask("SELECT sum(income) FROM students WHERE major = 'EE'", user="ann")
        with pytest.raises(dc.QueryRefused):
            database.ask("SELECT sum(income) FROM students WHERE major = 'EE' AND sex = 'male'", user="bob")
    apart = {**TRUTH, "over_all_users": False}
    with students(apart, users={"ann": {}, "bob": {}}) as database:
        database.ask("SELECT sum(income) FROM students WHERE major = 'EE'", user="ann")
        database.ask("SELECT sum(income) FROM students WHERE major = 'EE' AND sex = 'male'", user="bob")
        with pytest.raises(dc.QueryRefused):
            database.ask("SELECT sum(income) FROM students WHERE major = 'EE' AND sex = 'male'", user="ann")


def test_groups_are_judged_together() -> None:
    """By sex inside EE there is one woman: refused, although each sum alone was never told."""
    with students() as database:
        with pytest.raises(dc.QueryRefused):
            database.ask("SELECT sex, sum(income) FROM students WHERE major = 'EE' GROUP BY sex")
        by_major = database.ask("SELECT major, avg(income) AS mean FROM students GROUP BY major").frame
        assert by_major.rows() == [("CS", 71_600.0), ("EE", 60_000.0)]


def test_what_an_insider_knows_counts() -> None:
    """Of the three men of EE she knows two (rows 2 and 4): their sum would tell the third."""
    asked = "SELECT sum(income) FROM students WHERE major = 'EE' AND sex = 'male'"
    insiders = {"ann": {"knows": {"students": [2, 4]}}, "bob": {}}
    with students(users=insiders) as database, pytest.raises(dc.QueryRefused):
        database.ask(asked, user="ann")
    with students(users={"ann": {}}) as database:
        database.ask(asked)


def test_min_max_quantile_and_sensitive_conditions_have_no_true_answer() -> None:
    with students() as database:
        for asked in ("min(income)", "max(income)", "median(income)", "variance(income)", "count(DISTINCT income)"):
            with pytest.raises(dc.QueryRefused):
                database.ask(f"SELECT {asked} FROM students")
        with pytest.raises(dc.QueryRefused):
            database.ask("SELECT count(*) FROM students WHERE income > 60000")
        assert set(kinds(database)) == {"update", "refused"}


def test_rows_without_a_value_are_in_no_query_set() -> None:
    """Three people, two of them without an income: their sum would be the third one's income."""
    frame = pl.DataFrame({"g": list("aaabbbbcc"), "x": [None, None, 7.0, 1.0, 2.0, 3.0, None, 4.0, 5.0]})
    x = {"role": "sensitive", "type": "number", "whole": False}
    columns = {"g": {"role": "public", "type": "category"}, "x": x}
    with dc.StatisticalDatabase(frame, columns=columns, policy=TRUTH) as database:
        with pytest.raises(dc.QueryRefused):
            database.ask("SELECT sum(x) FROM data WHERE g = 'a'")
        assert database.ask("SELECT avg(x) AS m FROM data WHERE g = 'b'").frame["m"].item() == 2.0


def test_columns_with_values_for_different_people_are_asked_one_by_one() -> None:
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0, None], "y": [1.0, 2.0, 3.0, 4.0, 5.0]})
    columns = {name: {"role": "sensitive", "type": "number", "whole": False} for name in frame.columns}
    with dc.StatisticalDatabase(frame, columns=columns, policy=TRUTH) as database:
        with pytest.raises(dc.QueryRefused, match="one of them at a time"):
            database.ask("SELECT sum(x), sum(y) FROM data")
        assert database.ask("SELECT sum(x) AS s FROM data").frame["s"].item() == 10.0
        assert database.ask("SELECT sum(y) AS s FROM data").frame["s"].item() == 15.0


def test_the_interval_audit_tells_extremes_as_bounds() -> None:
    """Ten values near 0 between 0 and 100: their sum would tell all of them, so "at most" is told."""
    frame = pl.DataFrame({"x": [i / 10 for i in range(10)]})
    columns = {"x": {"role": "sensitive", "type": "number", "bounds": (0, 100)}}
    policy = {**TRUTH, "interval_audit": True, "interval_percent": 20}
    with dc.StatisticalDatabase(frame, columns=columns, policy=policy) as database:
        answer = database.ask("SELECT sum(x) AS s, avg(x) AS m FROM data")
        assert answer.frame.rows() == [(None, None)]
        assert answer.low is not None
        assert answer.high is not None
        assert answer.low.rows() == [(None, None)]
        assert answer.high.rows() == [(20.0, 2.0)]
        again = database.ask("SELECT avg(x) AS mean, sum(x) AS total FROM data")
        assert again.cached
        assert again.high is not None
        assert again.high.rows() == [(2.0, 20.0)]


# --- noise and budget -----------------------------------------------------------------------------------------------


def test_noise_is_charged_and_the_budget_ends() -> None:
    with students(NOISE) as database:
        for place in range(4):
            answer = database.ask(f"SELECT count(*) FROM students WHERE class > {1970 + place}")
            assert answer.cost.micro_epsilon == 500_000
            assert answer.remaining is not None
            assert answer.remaining.micro_epsilon == 1_500_000 - 500_000 * place
            assert answer.low is not None
            assert answer.high is not None
            low, value, high = (frame.item() for frame in (answer.low, answer.frame, answer.high))
            assert low < value < high
        with pytest.raises(dc.BudgetExhausted, match="left: nothing"):
            database.ask("SELECT count(*) FROM students")
        (budget,) = database.budget()
        assert budget.spent.micro_epsilon == 2_000_000
        assert [cost.micro_epsilon for _, cost in budget.spending] == [500_000] * 4
        assert kinds(database) == ["update", *["dp", "answer"] * 4, "refused"]


def test_asking_again_in_other_words_costs_nothing() -> None:
    with students(NOISE) as database:
        first = database.ask(
            "SELECT sex, count(*) AS n, avg(income) AS m FROM students WHERE class > 1970 AND class < 2000 GROUP BY sex"
        )
        again = database.ask(
            "SELECT sex, avg(income) AS mean, count(*) AS people FROM students "
            "WHERE class < 2000 AND class > 1970.0 GROUP BY sex"
        )
        assert again.cached
        assert again.cost.amounts == (0, 0, 0)
        assert again.frame.columns == ["sex", "mean", "people"]
        assert again.frame["mean"].to_list() == first.frame["m"].to_list()
        assert again.frame["people"].to_list() == first.frame["n"].to_list()


def test_a_better_answer_costs_and_a_worse_one_does_not() -> None:
    with students(NOISE) as database:
        poor = database.ask("SELECT count(*) FROM students", epsilon=0.1)
        rich = database.ask("SELECT count(*) FROM students", epsilon=1)
        assert (poor.cached, rich.cached) == (False, False)
        again = database.ask("SELECT count(*) FROM students", epsilon=0.1)
        assert again.cached
        assert again.frame.equals(rich.frame)


def test_answers_are_not_shared_between_users() -> None:
    """Each has its own budget, so each pays for what it learns."""
    with students(NOISE, users={"ann": {}, "bob": {}}) as database:
        database.ask("SELECT count(*) FROM students", user="ann")
        assert not database.ask("SELECT count(*) FROM students", user="bob").cached


def test_the_table_has_a_budget_over_all_users() -> None:
    with students(NOISE, users={"ann": {}, "bob": {}}, epsilon=1.2) as database:
        database.ask("SELECT count(*) FROM students", user="ann", epsilon=1)
        with pytest.raises(dc.BudgetExhausted, match="of all users"):
            database.ask("SELECT count(*) FROM students", user="bob", epsilon=0.3)
        left = database.budget("bob")[0].remaining
        assert left is not None
        assert left.micro_epsilon == 200_000


def test_a_period_fills_the_budget_again() -> None:
    now = datetime(2024, 1, 31, 12, tzinfo=UTC)
    with students({**NOISE, "period": "month"}, clock=lambda: now) as database:
        database.ask("SELECT count(*) FROM students", epsilon=2)
        with pytest.raises(dc.BudgetExhausted):
            database.ask("SELECT avg(income) FROM students")
        now += timedelta(days=1)
        database.ask("SELECT avg(income) FROM students", epsilon=2)
        assert len(database.budget()[0].spending) == 1


def test_zero_concentrated_accounting_spends_rho() -> None:
    policy = {"mode": "dp", "epsilon": 2.0, "delta": 1e-6, "accountant": "zcdp", "epsilon_per_query": 0.2}
    with students(policy, users={"ann": {}}) as database:
        answer = database.ask("SELECT major, count(*) FROM students GROUP BY major")
        assert answer.cost.nano_rho > 0
        assert answer.cost.nano_delta > 0
        assert answer.cost.micro_epsilon == 0
        more = database.ask("SELECT count(*) FROM students", epsilon=0.5)
        assert more.cost.nano_rho > answer.cost.nano_rho
        assert database.budget()[0].to_json()["unit"] == "ρ"


CONCENTRATED = {"mode": "dp", "epsilon": 2.0, "delta": 1e-6, "accountant": "zcdp", "epsilon_per_query": 0.2}


def test_one_budget_counts_every_measure() -> None:
    users = {"ann": {}, "bob": {"policy": CONCENTRATED}}
    with pytest.raises(dc.PlanError, match="give it a δ"):
        students(NOISE, users=users, epsilon=3)
    with students(NOISE, users=users, epsilon=2, delta=1e-6) as database:
        database.ask("SELECT count(*) FROM students", user="bob", epsilon=1.5)
        left = database.budget("ann")[0].remaining
        assert left is not None and left.micro_epsilon <= 500_000
        with pytest.raises(dc.BudgetExhausted, match="of all users"):
            database.ask("SELECT count(*) FROM students", user="ann", epsilon=0.6)


@pytest.mark.parametrize(("first", "then"), [(NOISE, CONCENTRATED), (CONCENTRATED, NOISE)])
def test_another_accountant_refills_nothing(tmp_path: Path, first: Any, then: Any) -> None:
    place = tmp_path / "ledger.db"
    with students(first, ledger=place) as database:
        database.ask("SELECT count(*) FROM students", epsilon=2.0)
    with students(then, ledger=place) as database:
        with pytest.raises(dc.BudgetExhausted):
            database.ask("SELECT avg(income) FROM students", epsilon=0.1)
        left = database.budget()[0].remaining
        assert left is not None and left.micro_epsilon + left.nano_rho == 0


def two_views(first: Any, second: Any, **tables: Any) -> ServiceSpec:
    """Give a service with two views of the same students, the second under other names and in another order."""
    income = {"role": "sensitive", "type": "integer", "bounds": [0, 200_000]}
    columns = {"sex": {"role": "public", "type": "category", "categories": ["female", "male"]}}
    views = {
        "one": {"columns": {**columns, "income": income}, "policy": first, **tables.get("one", {})},
        "two": {"columns": {**columns, "earned": income}, "policy": second, **tables.get("two", {})},
    }
    return ServiceSpec.model_validate({"tables": views, "users": {"ann": {}}, "ledger": "sqlite:///:memory:"})


def views() -> dict[str, pl.DataFrame]:
    frame = pl.DataFrame({"sex": ["female", "male"] * 20, "income": [1000 * n for n in range(40)]})
    return {"one": frame, "two": frame.sample(fraction=1, shuffle=True, seed=1).rename({"income": "earned"})}


def test_the_same_people_under_two_names_have_one_budget(tmp_path: Path) -> None:
    with pytest.raises(dc.PlanError, match=r"hold the same values \(income, earned\).*people: NAME"):
        dc.StatisticalDatabase(two_views(NOISE, NOISE), data=views(), ledger=tmp_path / "a.db")
    same = {"one": {"people": "students"}, "two": {"people": "students"}}
    with dc.StatisticalDatabase(two_views(NOISE, NOISE, **same), data=views(), ledger=tmp_path / "b.db") as database:
        database.ask("SELECT avg(income) FROM one", epsilon=1.5)
        with pytest.raises(dc.BudgetExhausted, match="other tables about the same people"):
            database.ask("SELECT avg(earned) FROM two", epsilon=0.6)
        assert [found.spent.micro_epsilon for found in database.budget()] == [1_500_000] * 2
    renamed = two_views(NOISE, NOISE, **same).model_dump(mode="json")
    renamed["tables"] = {"three": {**renamed["tables"]["two"], "name": "three"}}
    data = {"three": views()["two"]}
    spec = ServiceSpec.model_validate(renamed)
    with (
        dc.StatisticalDatabase(spec, data=data, ledger=tmp_path / "b.db") as database,
        pytest.raises(dc.BudgetExhausted),
    ):
        database.ask("SELECT avg(earned) FROM three", epsilon=0.6)
    apart = {"one": {"people": "a"}, "two": {"people": "b"}}
    with dc.StatisticalDatabase(two_views(NOISE, NOISE, **apart), data=views(), ledger=tmp_path / "c.db") as database:
        database.ask("SELECT avg(income) FROM one", epsilon=1.5)
        database.ask("SELECT avg(earned) FROM two", epsilon=1.5)


@pytest.mark.parametrize("second", [TRUTH, CHANGED], ids=["exact", "perturbed"])
@pytest.mark.parametrize("first", [TRUTH, CHANGED], ids=["exact", "perturbed"])
def test_the_same_people_are_answered_exactly_or_perturbed_from_one_table(
    tmp_path: Path, first: Any, second: Any
) -> None:
    """Neither history knows the other table, and two tables would change the same sum by two independent keys."""
    same = {"one": {"people": "students"}, "two": {"people": "students"}}
    with pytest.raises(dc.PlanError, match="only one of them can be answered exactly"):
        dc.StatisticalDatabase(two_views(first, second, **same), data=views(), ledger=tmp_path / "a.db")
    one = two_views(first, NOISE, **same)
    with dc.StatisticalDatabase(one, data=views(), ledger=tmp_path / "b.db") as database:
        database.ask("SELECT sum(income) FROM one")
    later = {**one.model_dump(mode="json"), "tables": {"three": two_views(first, second, **same).tables["two"]}}
    later["tables"] = {"three": {**later["tables"]["three"].model_dump(mode="json"), "name": "three"}}
    data = {"three": views()["two"]}
    with pytest.raises(dc.PlanError, match="were told from the table 'one': give 'three' a policy of mode dp"):
        dc.StatisticalDatabase(ServiceSpec.model_validate(later), data=data, ledger=tmp_path / "b.db")


def test_a_table_under_a_new_name_is_recognized_by_its_values(tmp_path: Path) -> None:
    """Another name alone gives no budget back; `people` says that others are meant."""
    options: dict[str, Any] = {"columns": STUDENTS, "policy": NOISE, "ledger": tmp_path / "ledger.db"}
    frame = pl.concat([dc.datasets.students().frame] * 3).with_columns(income=pl.int_range(27) * 1000)
    with dc.StatisticalDatabase(frame, table="students", **options) as database:
        database.ask("SELECT count(*) FROM students", epsilon=2.0)
    with pytest.raises(dc.PlanError, match=r"'pupils' holds the values \(income\) of the table 'students'"):
        dc.StatisticalDatabase(frame, table="pupils", **options)
    longer = pl.concat([frame, frame.head(2)])
    with pytest.raises(dc.PlanError, match="people: NAME"):
        dc.StatisticalDatabase(longer, table="pupils", **options)
    with dc.StatisticalDatabase(frame.with_columns(income=pl.col("income") + 1), table="others", **options) as database:
        assert database.ask("SELECT count(*) FROM others", epsilon=2.0).cost.micro_epsilon == 2_000_000
    with dc.StatisticalDatabase(frame, table="pupils", people="pupils of today", **options):
        pass


def test_whole_numbers_have_one_way_to_be_compared() -> None:
    with students(NOISE) as database:
        ways = ("class > 2", "class >= 3", "class > 2.5", "class BETWEEN 3 AND 4", "class >= 3 AND class <= 4.2")
        digests = [database.read(f"SELECT count(*) FROM students WHERE {way}").digest() for way in ways]
        assert len(set(digests[:3])) == 1 and len(set(digests[3:])) == 1 and digests[0] != digests[3]


def test_a_dry_run_spends_nothing_and_tells_what_the_answer_will_cost() -> None:
    with students(NOISE) as database:
        before = kinds(database)
        estimate = database.dry_run("SELECT count(*) AS n FROM students", epsilon=0.5)
        assert kinds(database) == before
        assert estimate.affordable
        answer = database.ask("SELECT count(*) AS n FROM students", epsilon=0.5)
        assert answer.cost == estimate.cost
        assert answer.high is not None
        assert answer.high.item() - answer.frame.item() == estimate.errors["n"]
        assert database.dry_run("SELECT count(*) FROM students", epsilon=0.5).cached
        assert not database.dry_run("SELECT count(*) FROM students", epsilon=1.9).affordable


def test_an_error_can_be_ordered() -> None:
    with students({**NOISE, "epsilon": 100.0}) as database:
        estimate = database.dry_run("SELECT count(*) AS n FROM students", error=3)
        assert estimate.errors["n"] <= 3
        assert database.ask("SELECT count(*) AS n FROM students", error=3).cost == estimate.cost


def test_what_cannot_be_priced_is_refused_before_anything_is_charged() -> None:
    with students(NOISE) as database:
        for asked in ("SELECT major, count(*) FROM students GROUP BY major", "SELECT sum(class) FROM students"):
            with pytest.raises(dc.QueryRefused):
                database.ask(asked)
        with pytest.raises(dc.QueryRefused):
            database.ask("SELECT count(*) FROM students", epsilon=0.0)
        assert database.budget()[0].spent.micro_epsilon == 0
        assert "dp" not in kinds(database)


def test_equal_questions_at_once_are_charged_once() -> None:
    with students(NOISE) as database:
        answers: list[Answer] = []
        threads = [
            threading.Thread(target=lambda: answers.append(database.ask("SELECT count(*) FROM students")))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answer.cached for answer in answers) == [False] + [True] * 7
        assert len({answer.frame.item() for answer in answers}) == 1
        assert kinds(database).count("dp") == 1


# --- perturbed answers ----------------------------------------------------------------------------------------------


def test_perturbed_answers_repeat_and_survive_a_restart(tmp_path: Path) -> None:
    with students(CHANGED, ledger=tmp_path / "l.db") as database:
        first = database.ask("SELECT major, count(*) AS n FROM students GROUP BY major")
        other = database.ask("SELECT count(*) AS n FROM students WHERE major = 'CS'")
        assert first.frame.row(0) == ("CS", other.frame.item())
        assert abs(other.frame.item() - 5) <= 2
    assert (tmp_path / "l.db.secret").stat().st_mode & 0o777 == 0o600
    with students(CHANGED, ledger=tmp_path / "l.db", users={"new": {}}) as database:
        assert database.ask("SELECT count(*) AS n FROM students WHERE major = 'CS'").frame.item() == other.frame.item()


# --- history, restart, growth ---------------------------------------------------------------------------------------


def test_history_and_budget_survive_a_restart(tmp_path: Path) -> None:
    users = {"ann": {}, "bob": {"policy": NOISE}}
    with students(ledger=tmp_path / "l.db", users=users) as database:
        database.ask("SELECT sum(income) FROM students WHERE major = 'EE'", user="ann")
        noisy = database.ask("SELECT count(*) FROM students", user="bob")
    with students(ledger=tmp_path / "l.db", users=users) as database:
        assert database.ask("SELECT sum(income) AS s FROM students WHERE major = 'EE'", user="ann").cached
        with pytest.raises(dc.QueryRefused):
            database.ask("SELECT sum(income) FROM students WHERE major = 'EE' AND sex = 'male'", user="ann")
        again = database.ask("SELECT count(*) FROM students", user="bob")
        assert again.cached
        assert again.frame.equals(noisy.frame)
        assert database.budget("bob")[0].spent.micro_epsilon == 500_000
        assert database.ledger.verify().holds


def grown(women: int) -> pl.DataFrame:
    frame = dc.datasets.students().frame
    more = pl.DataFrame(
        {"name": [f"new {i}" for i in range(women)], "sex": "female", "major": "EE", "class": 1982, "income": 55_000}
    )
    return pl.concat([frame, more.cast(dict(frame.schema))]) if women else frame


def test_growth_keeps_the_history_and_makes_old_answers_old(tmp_path: Path) -> None:
    """After the total of EE, one more person is appended: the new total would tell her income."""
    options: dict[str, Any] = {"table": "students", "columns": INCOMES, "policy": TRUTH, "ledger": tmp_path / "l.db"}
    with dc.StatisticalDatabase(grown(0), **options) as database:
        database.ask("SELECT sum(income) FROM students WHERE major = 'EE'")
        assert database.refresh("students", grown(1)) == 10
        with pytest.raises(dc.QueryRefused, match="determine"):
            database.ask("SELECT sum(income) FROM students WHERE major = 'EE'")
        assert database.refresh("students", grown(2)) == 11
        fresh = database.ask("SELECT sum(income) AS s FROM students WHERE major = 'EE'")
        assert not fresh.cached
        assert fresh.frame.item() == 240_000 + 110_000
        with pytest.raises(dc.DataError, match="only be appended"):
            database.refresh("students", grown(0))
    with dc.StatisticalDatabase(grown(3), **options) as database, pytest.raises(dc.QueryRefused, match="determine"):
        database.ask("SELECT sum(income) FROM students WHERE major = 'EE'")
    with pytest.raises(dc.DataError, match="fewer"):
        dc.StatisticalDatabase(grown(0), **options)


def test_growth_between_two_runs_makes_private_answers_old(tmp_path: Path) -> None:
    options: dict[str, Any] = {"table": "students", "columns": STUDENTS, "policy": NOISE, "ledger": tmp_path / "l.db"}
    with dc.StatisticalDatabase(grown(0), **options) as database:
        database.ask("SELECT count(*) FROM students")
    with dc.StatisticalDatabase(grown(1), **options) as database:
        assert not database.ask("SELECT count(*) FROM students").cached
    with pytest.raises(dc.DataError, match="fewer rows"):
        dc.StatisticalDatabase(grown(0), **options)


# --- forms and refusals ---------------------------------------------------------------------------------------------


def test_from_a_service_file(tmp_path: Path) -> None:
    dc.datasets.students().frame.write_csv(tmp_path / "students.csv")
    (tmp_path / "service.yaml").write_text(
        "tables:\n  students:\n    source: students.csv\n    columns:\n"
        "      sex: {role: public, type: category}\n      major: {role: public, type: category}\n"
        "      income: {role: sensitive, type: number, whole: false}\n"
        "policy: {mode: exact+audit, min_query_size: 2}\nusers:\n  ann: {}\n  eve: {role: auditor}\n"
    )
    with dc.StatisticalDatabase(tmp_path / "service.yaml") as database:
        query = Query("students", (Aggregate("sum", "income", name="s"),), Condition("major", "=", ("EE",)))
        for question in (query, query.to_json(), "SELECT sum(income) AS s FROM students WHERE major = 'EE'"):
            assert database.ask(question, user="ann").frame["s"].item() == 240_000
        with pytest.raises(dc.QueryRefused, match="auditor"):
            database.ask(query, user="eve")
        with pytest.raises(dc.QueryRefused, match="unknown user"):
            database.ask(query, user="nobody")
        with pytest.raises(dc.PlanError, match="which `user`"):
            database.ask(query)
    assert (tmp_path / "ledger.db").is_file()
    with pytest.raises(dc.PlanError, match="drop policy"):
        dc.StatisticalDatabase(tmp_path / "service.yaml", policy=NOISE)


def test_from_a_dataset_with_roles_and_from_a_file(tmp_path: Path) -> None:
    with dc.StatisticalDatabase(dc.datasets.students(), policy=TRUTH) as database:
        with pytest.raises(dc.QueryRefused, match="base group"):  # whole numbers of nine people
            database.ask("SELECT sum(income) AS s FROM data")
        with pytest.raises(dc.QueryRefused, match="unknown column"):
            database.ask("SELECT count(DISTINCT name) FROM data")
    dc.datasets.students().frame.write_parquet(tmp_path / "s.parquet")
    with dc.StatisticalDatabase(tmp_path / "s.parquet", columns=INCOMES, policy=TRUTH) as database:
        assert database.ask("SELECT sum(income) AS s FROM data").frame.item() == 598_000
    with pytest.raises(dc.PlanError, match="declare the `columns`"):
        dc.StatisticalDatabase(dc.datasets.students().frame)


def test_users_see_only_their_tables() -> None:
    columns = {"sex": {"role": "public", "type": "category"}}
    frame = pl.DataFrame({"sex": ["f", "m"] * 10})
    spec = ServiceSpec(
        tables={"open": {"columns": columns}, "closed": {"columns": columns}},
        users={"ann": {"tables": ["open"]}, "bob": {}},
        ledger=":memory:",
    )
    with dc.StatisticalDatabase(spec, data={"open": frame, "closed": frame}) as database:
        assert [table["name"] for table in database.tables("ann")] == ["open"]
        assert [budget.table for budget in database.budget("bob")] == ["open", "closed"]
        with pytest.raises(dc.QueryRefused, match="unknown table"):
            database.ask("SELECT count(*) FROM closed", user="ann")
        assert database.ask("SELECT count(*) AS n FROM closed", user="bob").frame.item() == 20


@pytest.mark.parametrize(
    "question",
    [
        {"table": "students", "aggregates": [{"function": "histogram", "column": "class", "cuts": [1, 10**400]}]},
        {"table": "students", "aggregates": [{"function": "count", "name": "\ud800"}]},
        {"table": "students", "aggregates": [{"function": "count", "name": "a\nb"}]},
        {"table": "students", "aggregates": [{"function": "count", "name": "x" * 100}]},
        {
            "table": "students",
            "aggregates": [{"function": "count"}],
            "where": {"column": "class", "op": "=", "values": [10**400]},
        },
        {"table": "\ud800", "aggregates": [{"function": "count"}]},
        {1: 2},
    ],
)
def test_strange_questions_are_refused(question: Any) -> None:
    with students() as database, pytest.raises(dc.QueryRefused):
        database.ask(question)


WORDS = (
    "table",
    "aggregates",
    "where",
    "group_by",
    "function",
    "column",
    "op",
    "values",
    "and",
    "cuts",
    "share",
    "name",
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
ANYTHING = st.recursive(
    LEAVES | st.sampled_from(["students", "sum", "income", "count", "class"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=5),
    max_leaves=20,
)


@settings(deadline=None, max_examples=60)
@given(ANYTHING)
def test_no_json_breaks_the_reader(shared: dc.StatisticalDatabase, content: Any) -> None:
    question = content if isinstance(content, dict) else {"table": "students", "aggregates": content}
    with contextlib.suppress(dc.QueryRefused):
        shared.read(question)


def test_answers_travel_as_json() -> None:
    with students(NOISE) as database:
        answer = database.ask(
            "SELECT sex, count(*) AS n, histogram(income, [0, 60000, 100000]) AS h, avg(income) AS m "
            "FROM students GROUP BY sex"
        )
        back = Answer.from_json(json.loads(json.dumps(answer.to_json(), allow_nan=False)))
        assert back.frame.equals(answer.frame)
        assert back.frame.schema == answer.frame.schema
        assert back.low is not None
        assert answer.low is not None
        assert back.low.equals(answer.low)
        assert (back.cost, back.remaining, back.mode) == (answer.cost, answer.remaining, answer.mode)
        assert answer.to_pandas().shape == (2, 4)


def test_refusals_tell_the_same_whatever_the_values_are() -> None:
    """Other incomes, the same questions: the same questions are refused, with the same words."""

    def told(factor: int) -> list[str]:
        frame = dc.datasets.students().frame.with_columns(pl.col("income") * factor % 97_001)
        said = []
        with dc.StatisticalDatabase(frame, table="students", columns=INCOMES, policy=TRUTH) as database:
            for where in (
                "major = 'EE'",
                "sex = 'male'",
                "class > 1979",
                "major = 'EE' AND sex = 'male'",
                "class < 1981",
            ):
                for figure in ("sum(income)", "min(income)"):
                    try:
                        database.ask(f"SELECT {figure} FROM students WHERE {where}")
                        said.append("answered")
                    except dc.QueryRefused as refusal:
                        said.append(str(refusal))
        return said

    assert told(1) == told(31) == told(17)


@pytest.fixture(scope="module", params=[TRUTH, {**NOISE, "epsilon": 1e6}, CHANGED], ids=["exact", "dp", "perturbed"])
def people(request: pytest.FixtureRequest) -> Iterator[dc.StatisticalDatabase]:
    """A table with every type of column, missing values, strange names and strange values."""
    size = 40
    rows = {name: [VALUES[name][(i * 7 + i // 3) % len(VALUES[name])] for i in range(size)] for name in VALUES}
    frame = pl.DataFrame(rows, strict=False)
    columns = {name: dict(spec) for name, spec in COLUMNS.items()}
    with dc.StatisticalDatabase(frame, table="people", columns=columns, policy=request.param) as database:
        yield database


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(queries())
def test_every_question_is_answered_or_refused_and_the_same_when_asked_again(
    people: dc.StatisticalDatabase, query: Query
) -> None:
    try:
        answer = people.ask(query)
    except dc.QueryRefused:
        return
    assert answer.frame.columns == [*query.group_by, *(aggregate.label for aggregate in query.aggregates)]
    json.dumps(answer.to_json(), allow_nan=False)
    again = people.ask(query.canonical())
    assert again.cached
    assert sorted(map(str, again.frame.select(sorted(answer.frame.columns)).rows())) == sorted(
        map(str, answer.frame.select(sorted(answer.frame.columns)).rows())
    )


def test_an_answer_in_a_notebook_shows_figures_errors_cost_and_budget() -> None:
    with students(NOISE) as database:
        asked = "SELECT sex, count(*) AS n, histogram(income, [0, 50000, 100000]) AS h FROM students GROUP BY sex"
        answer = database.ask(asked)
        assert answer.low is not None and answer.high is not None
        shown = answer._repr_html_()
        (sex, n, h), low, high = answer.frame.row(0), answer.low.row(0), answer.high.row(0)
        assert "<strong>Answer (dp, 95 % intervals)" in shown
        assert f">{sex}<" in shown and f">{n} ({low[1]} to {high[1]})<" in shown
        assert f"{h[0]} ({low[2][0]} to {high[2][0]}); " in shown
        assert "Cost: ε 0.5; left: ε 1.5." in shown
        assert "Asked before, at no cost; left: ε 1.5." in database.ask(asked)._repr_html_()
    with students() as database:
        shown = database.ask("SELECT major, min(class) AS first, sum(income) AS total FROM students GROUP BY major")
        text = shown._repr_html_()
        assert ">240,000<" in text and ">1978<" in text and " to " not in text
        assert "Cost: nothing. Sums under the linear audit" in text


@pytest.mark.parametrize("with_sum", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_counts_of_few_people_are_not_told(with_sum: bool, several: bool) -> None:
    """A country of three people is left out, alone it is refused, and so is everybody but them; rows are not people."""
    n = 600
    country = ["A"] * (n // 2) + ["B"] * (n // 2 - 3) + ["Z"] * 3
    frame = pl.DataFrame({"country": country, "pay": [(i * 37) % 101 for i in range(n)], "who": range(n)})
    options: dict[str, Any] = {}
    if several:  # each person has four rows, so that three people have twelve
        frame, options = pl.concat([frame] * 4), {"person": "who", "rows_per_person": 4}
    columns = {"country": {"role": "public", "type": "category"}, "pay": {"role": "sensitive", "type": "integer"}}
    policy = {"mode": "exact+audit", "min_query_size": 10}
    figures = "count(*) AS n, sum(pay)" if with_sum else "count(*) AS n"
    with dc.StatisticalDatabase(frame, table="t", columns=columns, policy=policy, **options) as database:
        by = database.ask(f"SELECT country, {figures} FROM t GROUP BY country")
        told = dict(by.frame.select("country", "n").drop_nulls().rows())
        assert told == {"A": n // 2 * (4 if several else 1), "B": (n // 2 - 3) * (4 if several else 1)}
        assert by.notes[-1] == "counts of too few people, inside or outside, are not told"
        for condition in ("= 'Z'", "!= 'Z'"):
            with pytest.raises(dc.QueryRefused, match="too few people"):
                database.ask(f"SELECT count(*) FROM t WHERE country {condition}")
        assert database.ask("SELECT count(*) AS n FROM t WHERE country = 'Y'").frame.item() == 0
        assert [entry.kind for entry in database.history()].count("refused") == 2


@pytest.mark.parametrize("several", [False, True])
def test_figures_of_public_columns_and_bins_over_few_people_are_not_told(several: bool) -> None:
    """A sum of a public column that is 1 for everybody is a count, and so is the bin of a histogram."""
    n = 600
    frame = pl.DataFrame(
        {
            "country": ["A"] * (n // 2) + ["B"] * (n // 2 - 3) + ["Z"] * 3,
            "one": [1] * n,
            "age": [20] * 8 + [30] * 300 + [40] * (n - 308),
            "pay": [(i * 37) % 101 for i in range(n)],
            "who": range(n),
        }
    )
    options: dict[str, Any] = {}
    if several:
        frame, options = pl.concat([frame] * 4), {"person": "who", "rows_per_person": 4}
    public = {"role": "public", "type": "integer"}
    columns = {
        "country": {"role": "public", "type": "category"}, "one": public, "age": public,
        "pay": {"role": "sensitive", "type": "integer"},
    }  # fmt: skip
    times = 4 if several else 1
    with dc.StatisticalDatabase(
        frame, table="t", columns=columns, policy={"mode": "exact+audit", "min_query_size": 10}, **options
    ) as database:
        by = database.ask("SELECT country, sum(one) AS n, sum(pay) FROM t GROUP BY country").frame
        assert dict(by.select("country", "n").rows()) == {"A": 300 * times, "B": 297 * times}
        for figures in ("histogram(age, [0, 25, 35, 45])", "histogram(age, [0, 25, 35, 45]), sum(pay)"):
            bins = database.ask(f"SELECT {figures} FROM t").frame["histogram_age"].to_list()
            assert bins == [[None, 300 * times, 292 * times]]


def test_truths_are_read_from_numbers_and_texts() -> None:
    """0 and 1, yes and no are truths; a 2 is none, and is no yes."""
    columns = {"ill": {"role": "public", "type": "truth"}}
    for values in (
        [1, 0, 1, None],
        [1.0, 0.0, 1.0, float("nan")],
        ["Yes", "no", " y ", None],
        [True, False, True, None],
    ):
        frame = pl.DataFrame({"ill": values * 5})
        with dc.StatisticalDatabase(frame, table="t", columns=columns) as database:
            assert database.ask("SELECT sum(ill) AS n, avg(ill) AS share FROM t").frame.rows() == [(10, 2 / 3)]
    with pytest.raises(dc.DataError, match="not of type truth"):
        dc.StatisticalDatabase(pl.DataFrame({"ill": [0, 1, 2]}), table="t", columns=columns)


MAJORS: dict[str, Any] = {
    "major": {"role": "sensitive", "type": "category", "categories": ("CS", "EE", "MA")},
    "sex": {"role": "public", "type": "category", "categories": ("f", "m")},
    "paid": {"role": "sensitive", "type": "truth"},
    "year": {"role": "sensitive", "type": "integer", "categories": (1, 2)},
    "town": {"role": "public", "type": "category"},
}


def test_modes_of_declared_categories() -> None:
    """Only declared categories are told, a person counts with its first rows, groups are chosen one by one."""
    n = 300
    frame = pl.DataFrame(
        {
            "who": [*range(n), *[1000] * 5000, *[1001] * 5000],
            "major": [*(["EE"] * 200 + ["MA"] * 100), *["CS"] * 5000, *["XX"] * 5000],
            "sex": [*(["f"] * 200 + ["m"] * 100), *["f"] * 10_000],
            "paid": [*([True] * 250 + [False] * 50), *[False] * 10_000],
            "year": [*([1] * 90 + [2] * 210), *[1] * 10_000],
            "town": ["a"] * (n + 10_000),
        }
    )
    policy = {"mode": "dp", "epsilon": 100, "epsilon_per_query": 10}
    options = {"table": "t", "columns": MAJORS, "person": "who", "rows_per_person": 2}
    with dc.StatisticalDatabase(frame, policy=policy, **options) as database:
        answer = database.ask("SELECT mode(major) AS m, mode(paid) AS p, mode(year) FROM t")
        assert answer.frame.rows() == [("EE", True, 2)]
        assert answer.low is not None and answer.low["m"].item() is None
        assert Answer.from_json(answer.to_json()).frame.rows() == answer.frame.rows()
        by = database.ask("SELECT sex, mode(major) AS m, count(*) AS n FROM t GROUP BY sex")
        assert by.frame.select("sex", "m").rows() == [("f", "EE"), ("m", "MA")]
        assert "below the most frequent" in database.dry_run("SELECT mode(major) FROM t").notes[-1]
        again = database.ask("SELECT mode(year) AS y, mode(paid), mode(major) FROM t")
        assert again.cached and again.frame["y"].item() == 2
        with pytest.raises(dc.QueryRefused, match="no declared categories"):
            database.ask("SELECT mode(town) FROM t")
        assert [entry.kind for entry in database.history()][-1] == "refused"
    for other in (TRUTH, CHANGED):
        with dc.StatisticalDatabase(frame, policy=other, **options) as database:
            for column in ("major", "town"):
                with pytest.raises(dc.QueryRefused):
                    database.ask(f"SELECT mode({column}) FROM t")


PEOPLE: dict[str, Any] = {"sex": {"role": "public", "type": "category", "categories": ("f", "m")}}
VISITS: dict[str, Any] = {"cost": {"role": "sensitive", "type": "integer", "bounds": (0, 100)}}


def joined(policy: Any, people: pl.DataFrame, visits: pl.DataFrame, **more: Any) -> dc.StatisticalDatabase:
    tables = {
        "people": {"columns": PEOPLE, "person": "id", "rows_per_person": 2, "people": "patients"},
        "visits": {"columns": VISITS, "person": "who", "rows_per_person": 3, "people": "patients"},
        "both": {"join": ("people", "visits"), **more},
    }
    spec = ServiceSpec(tables=tables, users={"ann": {}}, policy=policy, ledger=":memory:")
    return dc.StatisticalDatabase(spec, data={"people": people, "visits": visits})


def test_a_join_holds_the_pairs_of_kept_rows_of_each_person() -> None:
    """Against a naive join: two of the people's rows, three of the visits, then the first rows of a person."""
    rng = np.random.default_rng(5)
    people = pl.DataFrame({"id": rng.integers(0, 60, 150), "sex": rng.choice(["f", "m"], 150)})
    visits = pl.DataFrame({"who": rng.integers(0, 80, 400).astype(str), "cost": rng.integers(0, 101, 400)})
    wanted: dict[str, list[int]] = {"f": [], "m": []}
    pairs: dict[str, list[tuple[str, int]]] = {}
    for person in range(80):
        sexes = people.filter(pl.col("id") == person)["sex"].to_list()[:2]
        costs = visits.filter(pl.col("who") == str(person))["cost"].to_list()[:3]
        pairs[str(person)] = [(sex, cost) for sex in sexes for cost in costs]
    for found in pairs.values():
        for sex, cost in found:
            wanted[sex].append(cost)
    policy = {"mode": "dp", "epsilon": 10_000, "epsilon_per_query": 2000}
    sql = "SELECT sex, count(*) AS n, sum(cost) AS s FROM both GROUP BY sex"
    with joined(policy, people, visits) as database:
        assert database.spec.tables["both"].rows_per_person == 6
        told = database.ask(sql).frame
        assert told["n"].to_list() == [len(wanted["f"]), len(wanted["m"])]
        assert told["s"].to_list() == pytest.approx([sum(wanted["f"]), sum(wanted["m"])], abs=5)
        database.ask("SELECT count(*) FROM people")
        left = database.ask("SELECT count(*) FROM visits").remaining
        assert left == Cost(4_000_000_000), "one budget of the people, whichever table is asked"
        with pytest.raises(dc.QueryRefused, match="starts"):
            database.refresh("both")
    with joined(policy, people, visits, rows_per_person=1) as database:
        assert database.ask("SELECT count(*) AS n FROM both").frame.item() == sum(
            bool(found) for found in pairs.values()
        )


def test_one_person_moves_a_join_by_no_more_than_its_bound() -> None:
    """The person with the most rows in both tables, there or not: at most 2 · 3 rows, each at most 100."""
    people = pl.DataFrame({"id": [1, 2, 2, 2, 2], "sex": ["f", "m", "m", "f", "f"]})
    visits = pl.DataFrame({"who": [1, *[2] * 50], "cost": [7, *[100] * 50]})
    query = Query("both", (Aggregate("count"), Aggregate("sum", "cost")))
    found = []
    for keep in (True, False):
        some = people if keep else people.filter(pl.col("id") != 2)
        few = visits if keep else visits.filter(pl.col("who") != 2)
        with joined(NOISE, some, few) as database:
            (group,) = database._backend.bounded(query).values()
            found.append((group.rows, group.figures[1].total))
            unit = Unit.of(database.spec.tables["both"])
    assert (found[0][0] - found[1][0], found[0][1] - found[1][1]) == (6, 600)
    assert (sensitivity.counts(unit).l1, sensitivity.totals(unit, 0, 100).l1) == (6, 600)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"both": {"join": ("people", "nothing")}}, "names two other tables"),
        ({"both": {"join": ("people", "visits"), "rows_per_person": 7}}, "at most 6"),
        ({"both": {"join": ("people", "visits"), "source": "x.csv"}}, "comes from the joined tables"),
        ({"visits": {"columns": VISITS, "people": "patients"}}, "has no `person`"),
        ({"visits": {"columns": VISITS, "person": "who", "people": "others"}}, "same `people`"),
        ({"visits": {"columns": PEOPLE, "person": "who", "people": "patients"}}, "rename or hide"),
    ],
)
def test_joins_that_cannot_be(change: dict[str, Any], why: str) -> None:
    tables = {
        "people": {"columns": PEOPLE, "person": "id", "rows_per_person": 2, "people": "patients"},
        "visits": {"columns": VISITS, "person": "who", "rows_per_person": 3, "people": "patients"},
        "both": {"join": ("people", "visits")},
    }
    with pytest.raises(dc.PlanError, match=why):
        ServiceSpec(tables={**tables, **change}, users={"ann": {}}, policy=NOISE)


@pytest.mark.parametrize("policy", [TRUTH, CHANGED])
def test_joins_are_answered_under_differential_privacy_only(policy: Any) -> None:
    frame = pl.DataFrame({"id": range(30), "sex": ["f", "m"] * 15})
    visits = pl.DataFrame({"who": range(30), "cost": range(30)})
    with pytest.raises(dc.PlanError, match="only policies of mode dp"):
        joined(policy, frame, visits)
