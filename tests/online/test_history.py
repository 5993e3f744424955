"""The history: decisions and charges are one, restarts decide the same, values never matter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.data.sql_filter import Condition
from discretion.errors import DataError, QueryRefused
from discretion.online.audit import AnsweredSum
from discretion.online.audit.history import EVERYBODY, AnswerHistory
from discretion.online.declare import ExactPolicy, TableSpec
from discretion.online.ledger import Cost, Limit, PrivacyFilter, open_ledger
from discretion.online.question.query import Aggregate, Query
from tests.online.ledgers import Place, place

__all__ = ["place"]

TABLE = TableSpec(
    name="people",
    columns={
        "sex": {"role": "public", "type": "category"},
        "age": {"role": "public", "type": "integer"},
        "income": {"role": "sensitive", "type": "number", "bounds": (0, 100)},
        "debt": {"role": "sensitive", "type": "number"},
        "ill": {"role": "sensitive", "type": "truth"},
        "name": {"role": "hidden", "type": "category"},
    },
)
FREE = ExactPolicy(min_query_size=2)
Sets = dict[tuple[Any, ...], Any]


def ask(function: str = "sum", column: str | None = "income", **more: Any) -> Query:
    return Query("people", (Aggregate(function, column, **more),))  # type: ignore[arg-type]


def one(*members: int) -> Sets:
    return {(): np.array(members, np.int64)}


def allowed(
    history: AnswerHistory, user: str, sets: Sets, query: Query | None = None, policy: ExactPolicy = FREE
) -> bool:
    try:
        history.admit(user, query or ask(), sets, policy)
    except QueryRefused:
        return False
    return True


def test_the_nine_students(place: Place) -> None:
    students = dc.datasets.students().frame
    spec = TableSpec(
        name="students",
        columns={
            "sex": {"role": "public", "type": "category"},
            "major": {"role": "public", "type": "category"},
            "income": {"role": "sensitive", "type": "number"},
        },
    )
    electrical = (students["major"] == "EE").to_numpy()
    men = (students["sex"] == "male").to_numpy()
    query = Query("students", (Aggregate("sum", "income"),), Condition("major", "=", ("EE",)))
    with place.open() as ledger:
        history = AnswerHistory(ledger, spec, 9)
        sets = {(): np.flatnonzero(electrical)}
        admission = history.admit("ann", query, sets, FREE)
        total = float(students["income"].to_numpy()[electrical].sum())
        told = history.settle(admission, {"income": [total]}, lambda responses: {"sum": responses["income"][0].value})
        assert told == {"income": [AnsweredSum("exact", 240_000.0)]}
        assert history.find_answer(query) == {"sum": 240_000.0} and history.find_answer(query, user="bob") is None
        for user in ("ann", "bob"):  # the same user, and another who may talk to the first
            with pytest.raises(QueryRefused, match="determine"):
                history.admit(user, query, {(): np.flatnonzero(electrical & men)}, FREE)
        assert [e.kind for e in ledger.history()] == ["exact", "answer", "refused", "refused"]
        assert ledger.verify().holds


def test_three_users_together_learn_no_more_than_one(place: Place) -> None:
    sets = [one(0, 1, 2, 3), one(0, 1, 4, 5), one(2, 3, 4, 5, 6)]
    with place.open() as ledger:
        history = AnswerHistory(ledger, TABLE, 12)
        answers = [allowed(history, user, asked) for user, asked in zip(("ann", "bob", "cid"), sets, strict=True)]
        assert answers == [True, True, True]
        # (0123 + 0145 + 23456 − …): 2·(0..5) + 6 is known; whoever adds the sum of 0..5 tells person 6
        assert not any(allowed(history, user, one(0, 1, 2, 3, 4, 5)) for user in ("ann", "bob", "cid", "dan"))
        alone = ExactPolicy(min_query_size=2, over_all_users=False)
        assert allowed(history, "dan", one(0, 1, 2, 3, 4, 5), policy=alone)


def test_a_restart_decides_the_same(place: Place) -> None:
    rng = np.random.default_rng(3)
    asked = [(f"u{rng.integers(3)}", one(*np.flatnonzero(rng.random(10) < 0.5))) for _ in range(40)]
    with place.open() as ledger:
        through = AnswerHistory(ledger, TABLE, 10)
        through.learn("u1", [4])
        first = [allowed(through, *question) for question in asked[:20]]
        restarted = AnswerHistory(ledger, TABLE, 10)
        scopes = [h._memory for h in (through, restarted)]
        for user in ("u0", "u1", "u2", None):
            ranks = [memory.scope(user).audit("income").rank for memory in scopes]
            assert ranks[0] == ranks[1]
        second = []
        for user, sets in asked[20:]:  # by turns: each must see what the other answered
            new = AnswerHistory(ledger, TABLE, 10)
            moments = {"income": (0,)}
            verdicts = []
            for history in (new, restarted):
                history._memory.catch_up(ledger.history("people", after=history._memory.seen))
                scope = history._memory.scope(user)
                verdicts.append(scope.judge(moments, [sets[()]], None))
                scope.discard()
            assert verdicts[0] == verdicts[1]
            second.append(allowed(new if rng.random() < 0.5 else restarted, user, sets))
    assert 0 < sum(first) < 20 and 0 < sum(second) < 20


def test_two_servers_on_one_ledger_decide_as_one(place: Place) -> None:
    with place.open() as first, place.open() as second:
        one_server, other = AnswerHistory(first, TABLE, 9), AnswerHistory(second, TABLE, 9)
        assert allowed(one_server, "ann", one(0, 1, 2, 3))
        assert not allowed(other, "bob", one(0, 1, 2))
        assert allowed(other, "bob", one(4, 5, 6, 7))
        assert not allowed(one_server, "ann", one(4, 5, 6))


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**6))
def test_refusals_do_not_depend_on_values(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Two data sets with equal public columns and different incomes: the same questions are refused."""
    sequences = []
    for data in range(2):
        rng = np.random.default_rng(seed)
        values = np.random.default_rng([seed, data]).lognormal(3, 2, 12)
        folder = tmp_path_factory.mktemp("history")
        refused = []
        with open_ledger(folder / "ledger.db") as ledger:
            history = AnswerHistory(ledger, TABLE, 12)
            policy = ExactPolicy(min_query_size=2, variance=True, max_overlap=8)
            for _ in range(15):
                groups = {(k,): np.flatnonzero(rng.random(12) < 0.4) for k in range(int(rng.integers(1, 3)))}
                query = ask(str(rng.choice(["sum", "mean", "variance", "max"])))
                try:
                    admission = history.admit(f"u{rng.integers(2)}", query, groups, policy)
                except QueryRefused as refusal:
                    refused.append(str(refusal))
                    continue
                history.settle(admission, {"income": [float(values[members].sum()) for members in admission.sets]})
                refused.append("")
        sequences.append(refused)
    assert sequences[0] == sequences[1]


def test_what_has_no_true_answer(place: Place) -> None:
    with place.open() as ledger:
        history, half = AnswerHistory(ledger, TABLE, 20), {(): np.arange(10)}
        for function, more in (("min", {}), ("max", {}), ("quantile", {"share": 0.5}), ("count-distinct", {})):
            with pytest.raises(QueryRefused, match="no true answer"):
                history.admit("ann", ask(function, **more), half, FREE)
        with pytest.raises(QueryRefused, match="no true answer"):
            history.admit("ann", ask("histogram", cuts=(0.0, 50.0, 100.0)), half, FREE)
        with pytest.raises(QueryRefused, match="variances"):
            history.admit("ann", ask("variance"), half, FREE)
        with pytest.raises(QueryRefused, match="chosen by the sensitive"):
            history.admit("ann", Query("people", (Aggregate("count"),), Condition("income", ">", (50,))), half, FREE)
        with pytest.raises(QueryRefused, match="chosen by the sensitive"):
            history.admit("ann", Query("people", (Aggregate("count"),), group_by=("ill",)), half, FREE)
        with pytest.raises(QueryRefused, match="unknown column"):
            history.admit("ann", ask("sum", "name"), half, FREE)
        with pytest.raises(QueryRefused, match="yes-or-no"):
            history.admit("ann", ask("sum", "ill"), half, FREE)
        assert {e.kind for e in ledger.history()} == {"refused"}
        text = "".join(e.query for e in ledger.history())
        assert "reason" in text


def test_public_counts_and_columns_are_no_danger(place: Place) -> None:
    with place.open() as ledger:
        history = AnswerHistory(ledger, TABLE, 20)
        for query in (ask("count", None), ask("sum", "age"), ask("max", "age")):
            assert allowed(history, "ann", one(3), query)
        assert all(entry.sets is None for entry in ledger.history())


def test_columns_are_systems_of_their_own(place: Place) -> None:
    with place.open() as ledger:
        history = AnswerHistory(ledger, TABLE, 8)
        assert allowed(history, "ann", one(0, 1, 2, 3))
        assert allowed(history, "ann", one(0, 1, 2), ask("sum", "debt"))
        assert not allowed(history, "ann", one(0, 1, 2, 3), ask("mean", "debt"))
        both = Query("people", (Aggregate("sum", "income"), Aggregate("sum", "debt")))
        assert not allowed(history, "bob", one(0, 1, 2, 3), both)
        assert allowed(history, "bob", one(4, 5, 6), both)


def test_variances_when_the_policy_allows_them(place: Place) -> None:
    policy = ExactPolicy(min_query_size=2, variance=True)
    with place.open() as ledger:
        history = AnswerHistory(ledger, TABLE, 9)
        assert not allowed(history, "ann", one(0, 1), ask("variance"), policy)
        assert allowed(history, "ann", one(0, 1, 2), ask("variance"), policy)
        assert not allowed(history, "ann", one(0, 1), ask("sum"), policy)
        assert not allowed(AnswerHistory(ledger, TABLE, 9), "ann", one(1, 2), ask("sum"), policy)


def test_sizes_and_overlaps(place: Place) -> None:
    policy = ExactPolicy(min_query_size=3, max_overlap=2)
    with place.open() as ledger:
        history = AnswerHistory(ledger, TABLE, 20)
        with pytest.raises(QueryRefused, match="too few people are in"):
            history.admit("ann", ask(), one(1, 2), policy)
        with pytest.raises(QueryRefused, match="outside"):
            history.admit("ann", ask(), one(*range(18)), policy)
        assert allowed(history, "ann", one(0, 1, 2, 3), policy=policy)
        with pytest.raises(QueryRefused, match="shares too many"):
            history.admit("ann", ask(), one(1, 2, 3, 4, 5), policy)
        assert allowed(history, "ann", one(2, 3, 4, 5, 6), policy=policy)
        assert allowed(history, "ann", one(0, 1, 2, 3), policy=policy)  # the same again
        assert not allowed(AnswerHistory(ledger, TABLE, 20), "ann", one(1, 2, 3, 4, 5), policy=policy)
        groups = {("a",): np.arange(8, 12), ("b",): np.arange(12, 14)}
        with pytest.raises(QueryRefused, match="too few people are in"):
            history.admit("ann", ask(), groups, policy)
        with pytest.raises(DataError, match="outside 0"):
            history.admit("ann", ask(), one(5, 6, 99), policy)


def test_insiders(place: Place) -> None:
    with place.open() as ledger:
        history = AnswerHistory(ledger, TABLE, 12)
        assert history.learn("ann", [0]) == 0 and history.learn("ann", [0]) == 0
        assert len(list(ledger.history())) == 1  # said twice, noted once
        alone = ExactPolicy(min_query_size=2, over_all_users=False)
        assert not allowed(history, "ann", one(0, 1), policy=alone)
        assert allowed(history, "bob", one(0, 1), policy=alone)  # who does not know person 0
        assert not allowed(AnswerHistory(ledger, TABLE, 12), "bob", one(0, 2), policy=FREE)  # but could meet ann
        history.learn(EVERYBODY, [5], ["income"])
        assert not allowed(history, "bob", one(5, 6), policy=alone)
        assert allowed(history, "bob", one(5, 6), ask("sum", "debt"), alone)
        with pytest.raises(DataError):
            history.learn("ann", [12])


def test_appended_people(place: Place) -> None:
    with place.open() as ledger, place.open() as second:
        history, other = AnswerHistory(ledger, TABLE, 6), AnswerHistory(second, TABLE, 6)
        admission = history.admit("ann", ask(), {(): np.arange(6)}, FREE)
        history.settle(admission, {"income": [1.0]}, lambda _: 1.0)
        assert history.find_answer(ask()) == 1.0
        history.extend(1)
        assert history.people == 7 and history.find_answer(ask()) is None
        for server in (history, other, AnswerHistory(ledger, TABLE, 7)):
            assert not allowed(server, "bob", {(): np.arange(7)})  # the difference is the new person
        history.extend(np.array([7, 8]))
        assert allowed(other, "bob", {(): np.arange(9)})
        with pytest.raises(DataError, match="only ever appended"):
            AnswerHistory(ledger, TABLE, 8)
        grown = AnswerHistory(ledger, TABLE, 12)  # grew while no service was running
        assert grown.people == 12 and list(ledger.history())[-1].kind == "update"
        assert allowed(history, "bob", {(): np.arange(12)})


def test_people_with_several_records(place: Place) -> None:
    owner = np.array([0, 0, 1, 2, 2, 3, 4, 5])
    with place.open() as ledger:
        history = AnswerHistory(ledger, TABLE, owner)
        assert history.people == 6
        with pytest.raises(QueryRefused, match="too few people are in"):
            history.admit("ann", ask(), one(0, 1), FREE)  # two records, one person
        assert allowed(history, "ann", one(0, 1, 2, 3))
        assert not allowed(history, "ann", one(2, 3))
        history.extend(np.array([0, 6]))
        assert not allowed(AnswerHistory(ledger, TABLE, np.append(owner, [0, 6])), "ann", one(1, 2, 3))
        with pytest.raises(QueryRefused, match="one record per person"):
            history.admit("ann", ask(), one(5, 6, 7), ExactPolicy(min_query_size=2, interval_audit=True))


def test_budgets_apply_and_a_refused_charge_leaves_no_trace(place: Place) -> None:
    with place.open() as ledger:
        history = AnswerHistory(ledger, TABLE, 9)
        ledger.charge("ann", "people", "x", Cost(micro_epsilon=5))
        limits = [Limit(PrivacyFilter(3e-06), user="ann")]
        assert history.admit("ann", ask(), one(0, 1, 2, 3), FREE, limits).entry.cost == Cost()
        assert allowed(history, "ann", one(4, 5, 6, 7))


def test_a_charged_question_counts_although_nobody_heard_the_answer(place: Place) -> None:
    with place.open() as ledger:
        AnswerHistory(ledger, TABLE, 9).admit("ann", ask(), one(0, 1, 2, 3), FREE)  # and then the power fails
        again = AnswerHistory(ledger, TABLE, 9)
        assert not allowed(again, "ann", one(0, 1, 2))
        assert again.find_answer(ask()) is None


# --- bounded values --------------------------------------------------------------------------------------------------

NARROW = ExactPolicy(min_query_size=2, interval_audit=True, interval_percent=10)


def told(
    history: AnswerHistory, user: str, values: np.ndarray, sets: Sets, column: str = "income"
) -> list[AnsweredSum]:
    admission = history.admit(user, ask("sum", column), sets, NARROW)
    sums = [float(values[members].sum()) for members in admission.sets]
    return history.settle(admission, {column: sums})[column]


def test_bounded_sums_are_told_as_bounds_at_the_extremes(place: Place) -> None:
    values = np.array([0.0, 0.0, 0.0, 0.0, 50.0, 60.0, 70.0, 80.0])
    with place.open() as ledger:
        history = AnswerHistory(ledger, TABLE, 8)
        assert told(history, "ann", values, one(0, 1, 2, 3)) == [AnsweredSum("at most", 10.0)]
        assert told(history, "ann", values, one(4, 5, 6, 7)) == [AnsweredSum("exact", 260.0)]
        restarted = AnswerHistory(ledger, TABLE, 8)
        for user, server in (("ann", history), ("bob", restarted)):
            # the second group less the first would cut "at most 10" of four people into two halves below 10
            got = told(server, user, values, {("x",): np.array([4, 5]), ("y",): np.array([0, 1, 4, 5])})
            assert got == [AnsweredSum("exact", 110.0), AnsweredSum("withheld")]
        with pytest.raises(QueryRefused, match="bounds"):
            history.admit("ann", ask("sum", "debt"), one(0, 1, 2), NARROW)
        with pytest.raises(QueryRefused, match="variances"):
            history.admit("ann", ask("variance"), one(0, 1, 2), NARROW.model_copy(update={"variance": True}))


def test_counts_of_a_sensitive_property(place: Place) -> None:
    ill = np.array([1.0, 0, 0, 0, 0, 0, 0, 0, 1, 1])
    with place.open() as ledger:
        history = AnswerHistory(ledger, TABLE, 10)
        assert told(history, "ann", ill, one(*range(10)), "ill") == [AnsweredSum("exact", 3.0)]
        assert told(history, "ann", ill, one(1, 2, 3, 4, 5), "ill") == [AnsweredSum("at most", 1.0)]
        restarted = AnswerHistory(ledger, TABLE, 10)
        assert told(restarted, "bob", ill, one(1, 2, 6, 7), "ill") == [AnsweredSum("withheld")]


def test_a_failed_record_leaves_the_interval_audit_as_it_was(place: Place) -> None:
    values = np.full(8, 50.0)
    with place.open() as ledger:
        history = AnswerHistory(ledger, TABLE, 8)
        told(history, "ann", values, one(4, 5, 6, 7))
        admission = history.admit("ann", ask(), one(0, 1, 2, 3), NARROW)

        def fail(_: object) -> object:
            raise RuntimeError("the power fails")

        with pytest.raises(RuntimeError):
            history.settle(admission, {"income": [200.0]}, fail)
        assert history._memory.scope(None).intervals == {}
        assert history.settle(admission, {"income": [200.0]})["income"] == [AnsweredSum("exact", 200.0)]
        with pytest.raises(DataError):
            history.settle(admission, {"income": [1.0, 2.0]})


def test_a_file_that_is_already_there(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "a.db") as ledger:
        assert allowed(AnswerHistory(ledger, TABLE, 9), "ann", one(0, 1, 2))
    with open_ledger(tmp_path / "a.db") as ledger:
        assert not allowed(AnswerHistory(ledger, TABLE, 9), "ann", one(0, 1))


def test_what_an_insider_knows_is_not_told_to_others_who_asked_before(place: Place) -> None:
    with place.open() as ledger:
        history = AnswerHistory(ledger, TABLE, 10)
        assert allowed(history, "bob", one(0, 1, 2, 3))  # bob is not watched alone so far
        history.learn("ann", [3])
        assert not allowed(history, "bob", one(0, 1, 2))  # all together know person 3; bob would learn it
        assert allowed(history, "ann", one(0, 1, 2))  # ann knows it, and nothing new follows
        assert not allowed(history, "ann", one(0, 1))
        assert not allowed(AnswerHistory(ledger, TABLE, 10), "bob", one(0, 1, 2))
