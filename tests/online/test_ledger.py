"""The ledger: append-only, in order, inside budgets, the same on SQLite and PostgreSQL."""

from __future__ import annotations

import io
import json
import threading
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discretion.errors import BudgetExhausted, DataError, PlanError
from discretion.online.ledger import (
    EACH,
    Charge,
    Cost,
    Entry,
    Head,
    Limit,
    PrivacyFilter,
    open_ledger,
    pack_sets,
    unpack_sets,
    verify_chain,
)
from tests.online.ledgers import Clock, Place, place

__all__ = ["place"]

TENTH = Cost(micro_epsilon=100_000)


def test_a_charge_and_its_answer(place: Place) -> None:
    with place.open() as ledger:
        entry = ledger.charge("ann", "people", "d1", TENTH, "dp", query='{"table": "people"}')
        assert (entry.id, entry.user, entry.table, entry.cost, entry.kind) == (1, "ann", "people", TENTH, "dp")
        assert ledger.find_answer("people", "d1") is None
        ledger.record_answer(entry.id, '{"count": 3}')
        found = ledger.find_answer("people", "d1")
        assert found is not None and found.answer == '{"count": 3}' and found.refers == 1
        assert ledger.find_answer("people", "d1", user="bob") is None
        assert ledger.find_answer("people", "d1", user="ann", kind="dp") == found
        assert ledger.find_answer("people", "d1", kind="exact") is None
        assert ledger.find_answer("other", "d1") is None
        assert ledger.spent() == TENTH and ledger.spent(user="bob") == Cost()
    with place.open(create=False) as again:
        assert [e.kind for e in again.history()] == ["dp", "answer"]
        assert again.verify().holds


def test_an_answer_belongs_to_one_charge_and_comes_once(place: Place) -> None:
    with place.open() as ledger:
        refused = ledger.charge("ann", "people", "d", kind="refused")
        charged = ledger.charge("ann", "people", "d", TENTH)
        ledger.record_answer(charged.id, "1")
        for number in (refused.id, charged.id, 99, charged.id + 1):
            with pytest.raises(PlanError):
                ledger.record_answer(number, "2")
        assert [e.kind for e in ledger.history()] == ["refused", "dp", "answer"]


def test_a_charge_without_answer_stays_spent_and_an_update_makes_answers_old(place: Place) -> None:
    with place.open() as ledger:
        ledger.charge("ann", "people", "d", TENTH)
        assert ledger.find_answer("people", "d") is None and ledger.spent(table="people") == TENTH
        second = ledger.charge("ann", "people", "d", TENTH)
        ledger.record_answer(second.id, "7")
        assert ledger.find_answer("people", "d") is not None
        ledger.charge("owner", "other", "", kind="update")
        assert ledger.find_answer("people", "d") is not None
        ledger.charge("owner", "people", "", kind="update")
        assert ledger.find_answer("people", "d") is None
        assert ledger.spent() == Cost(micro_epsilon=200_000)


def test_budgets_hold_to_the_last_unit(place: Place) -> None:
    limits = [Limit(PrivacyFilter(0.25, 5e-9), table="people")]
    with place.open(limits=limits) as ledger:
        ledger.charge("ann", "people", "1", TENTH)
        ledger.charge("bob", "people", "2", Cost(micro_epsilon=150_000, nano_delta=5))
        for cost in (Cost(micro_epsilon=1), Cost(nano_delta=1), Cost(nano_rho=1)):
            with pytest.raises(BudgetExhausted, match="people"):
                ledger.charge("ann", "people", "3", cost)
        ledger.charge("ann", "people", "free")
        ledger.charge("ann", "other", "4", Cost(nano_rho=10**9))
        assert ledger.spent(table="people") == Cost(micro_epsilon=250_000, nano_delta=5)
        assert len(list(ledger.history())) == 4


def test_budgets_of_users(place: Place) -> None:
    each = Limit(PrivacyFilter(0.1), user=EACH)
    with place.open(limits=[each]) as ledger:
        ledger.charge("ann", "a", "1", TENTH)
        ledger.charge("bob", "a", "1", TENTH)
        with pytest.raises(BudgetExhausted, match="ann"):
            ledger.charge("ann", "b", "1", Cost(micro_epsilon=1))
        assert ledger.remaining(each, "ann") == Cost() and ledger.remaining(each, "cid") == TENTH
        with pytest.raises(BudgetExhausted, match="cid"):
            ledger.charge("cid", "a", "1", TENTH, limits=[Limit(PrivacyFilter(0.099999), user="cid")])
        ledger.charge("dan", "a", "1", TENTH, limits=[Limit(PrivacyFilter(0.099999), user="cid")])


def test_calendar_periods(place: Place) -> None:
    clock, limit = Clock(), Limit(PrivacyFilter(0.1), user=EACH, period="month")
    with place.open(limits=[limit], clock=clock) as ledger:
        ledger.charge("ann", "t", "1", TENTH)
        clock.move(hours=35.9)  # 31 January, 23:54
        with pytest.raises(BudgetExhausted, match="month"):
            ledger.charge("ann", "t", "2", TENTH)
        clock.move(hours=0.2)
        ledger.charge("ann", "t", "2", TENTH)
        assert ledger.spent("ann", period="month") == TENTH and ledger.spent("ann") == Cost(micro_epsilon=200_000)
        with pytest.raises(BudgetExhausted):
            ledger.charge("ann", "t", "3", TENTH)


def test_rolling_periods(place: Place) -> None:
    clock, limit = Clock(), Limit(PrivacyFilter(0.25), period=timedelta(hours=1))
    with place.open(limits=[limit], clock=clock) as ledger:
        ledger.charge("ann", "t", "1", TENTH)
        clock.move(minutes=40)
        ledger.charge("ann", "t", "2", TENTH)
        with pytest.raises(BudgetExhausted):
            ledger.charge("bob", "t", "3", TENTH)
        clock.move(minutes=20)
        ledger.charge("bob", "t", "3", TENTH)
        with pytest.raises(BudgetExhausted):
            ledger.charge("bob", "t", "4", TENTH)
    with place.open(limits=[limit], clock=clock) as again:
        with pytest.raises(BudgetExhausted):
            again.charge("bob", "t", "4", TENTH)
        clock.move(hours=2)
        again.charge("bob", "t", "4", Cost(micro_epsilon=250_000))


def test_a_clock_that_goes_back_buys_nothing(place: Place) -> None:
    clock = Clock()
    with place.open(limits=[Limit(PrivacyFilter(0.1), period="day")], clock=clock) as ledger:
        ledger.charge("ann", "t", "1", TENTH)
        clock.move(days=-3)
        with pytest.raises(BudgetExhausted):
            ledger.charge("ann", "t", "2", TENTH)
        assert ledger.verify().holds


def test_a_group_is_charged_whole_or_not_at_all(place: Place) -> None:
    limit = Limit(PrivacyFilter(0.25))
    three = [Charge("ann", "t", "dp", f"d{i}", cost=TENTH) for i in range(3)]
    with place.open() as ledger:
        with pytest.raises(BudgetExhausted):
            ledger.charge_all(three, [limit])
        assert list(ledger.history()) == [] and ledger.spent() == Cost()
        assert [e.id for e in ledger.charge_all(three[:2], [limit])] == [1, 2]
        with pytest.raises(BudgetExhausted):
            ledger.charge_all(three[2:], [limit])
        ledger.charge_all([Charge("ann", "t", "dp", "last", cost=Cost(micro_epsilon=50_000))], [limit])
        assert ledger.verify().holds


def test_two_ledgers_on_one_place_see_each_other(place: Place) -> None:
    limit = Limit(PrivacyFilter(0.3))
    with place.open(limits=[limit]) as one, place.open(limits=[limit]) as two:
        one.charge("ann", "t", "1", TENTH)
        two.charge("bob", "t", "2", TENTH)
        one.charge("ann", "t", "3", TENTH)
        for ledger in (one, two):
            with pytest.raises(BudgetExhausted):
                ledger.charge("cid", "t", "4", Cost(micro_epsilon=1))
        assert [e.id for e in two.history()] == [1, 2, 3]
        assert one.verify().holds


def test_threads_of_one_process(place: Place) -> None:
    refused = []
    with place.open(limits=[Limit(PrivacyFilter(1))]) as ledger:

        def spend(user: str) -> None:
            for number in range(10):
                try:
                    ledger.record_answer(ledger.charge(user, "t", str(number), TENTH).id, "1")
                except BudgetExhausted:
                    refused.append(user)

        threads = [threading.Thread(target=spend, args=(f"u{i}",)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) == 30 and ledger.spent() == Cost(micro_epsilon=1_000_000)
        assert ledger.verify().holds and len(list(ledger.history())) == 20


def test_nothing_can_be_changed_or_removed(place: Place) -> None:
    with place.open() as ledger:
        ledger.charge("ann", "t", "1", TENTH)
        if place.url.startswith("sqlite"):
            import sqlite3

            connection = sqlite3.connect(place.url.removeprefix("sqlite:///"))
            wrong: type[Exception] = sqlite3.IntegrityError
        else:
            import psycopg

            connection = psycopg.connect(place.url, autocommit=True)  # type: ignore[assignment]
            wrong = psycopg.errors.RaiseException
        table = "ledger" if place.url.startswith("sqlite") else place.name
        statements = [f"UPDATE {table} SET micro_epsilon = 0", f"DELETE FROM {table}"]
        for statement in statements if table == "ledger" else [*statements, f"TRUNCATE {table}"]:
            with pytest.raises(wrong, match="append-only"):
                connection.execute(statement)
        connection.close()
        assert ledger.spent() == TENTH


DAMAGES = {
    "a cheaper charge": "UPDATE {ledger} SET micro_epsilon = 1 WHERE id = 3",
    "another user": "UPDATE {ledger} SET who = 'bob' WHERE id = 3",
    "another answer": "UPDATE {ledger} SET answer = '0' WHERE id = 2",
    "other query sets": "UPDATE {ledger} SET sets = NULL WHERE id = 5",
    "another time": "UPDATE {ledger} SET time = time + 1 WHERE id = 3",
    "a negative cost": "UPDATE {ledger} SET micro_epsilon = -5 WHERE id = 3",
    "an entry removed": "DELETE FROM {ledger} WHERE id = 4",
    "the first entry removed": "DELETE FROM {ledger} WHERE id = 1",
    "moved to the end": "UPDATE {ledger} SET id = 99 WHERE id = 4",
}


@pytest.mark.parametrize("damage", DAMAGES, ids=DAMAGES.keys())
def test_verify_finds_damage(place: Place, damage: str) -> None:
    sets = pack_sets([np.array([1, 2])], 5)
    with place.open() as ledger:
        for number in range(1, 4):
            charged = ledger.charge("ann", "t", str(number), TENTH, "exact", sets=sets)
            ledger.record_answer(charged.id, str(number))
        assert ledger.verify().holds
    place.damage(DAMAGES[damage])
    with place.open(create=False) as again:
        assert not again.verify().holds


def test_verify_finds_entries_that_changed_places(place: Place) -> None:
    with place.open() as ledger:
        for number in range(3):
            ledger.charge("ann", "t", str(number), TENTH)
    for old, new in ((2, 77), (3, 2), (77, 3)):
        place.damage(f"UPDATE {{ledger}} SET id = {new} WHERE id = {old}")
    with place.open(create=False) as again:
        assert not again.verify().holds


def test_a_lost_end_is_found_with_a_head_kept_elsewhere(place: Place) -> None:
    with place.open() as ledger:
        assert ledger.verify(Head()).holds
        for number in range(3):
            ledger.charge("ann", "t", str(number), TENTH)
        head = ledger.head()
        assert Head.parse(str(head)) == head
        ledger.charge("ann", "t", "4", TENTH)
        assert ledger.verify(head).holds
    place.damage("DELETE FROM {ledger} WHERE id >= 3")
    with place.open(create=False) as again:
        assert again.verify().holds and not again.verify(head).holds
        again.charge("ann", "t", "3", TENTH)
        assert again.verify().holds and not again.verify(head).holds


def test_the_export_is_a_ledger_too(place: Place) -> None:
    stream = io.StringIO()
    with place.open() as ledger:
        charged = ledger.charge("Ångström", "t", "1", TENTH, "exact", sets=pack_sets([np.array([0, 3])], 4))
        ledger.record_answer(charged.id, '{"sum": 1.5}')
        assert ledger.export(stream) == 2
        listed = list(ledger.history())
    read = [Entry.from_json(json.loads(line)) for line in stream.getvalue().splitlines()]
    assert read == listed and verify_chain(read).holds
    assert not verify_chain(reversed(read)).holds


@given(st.integers(1, 3000), st.lists(st.floats(0, 1), min_size=0, max_size=4), st.integers(0, 2**32))
def test_query_sets_survive_packing(records: int, shares: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets = [np.flatnonzero(rng.random(records) < share) for share in shares]
    packed = pack_sets(sets, records)
    read, count = unpack_sets(packed)
    assert count == records and len(read) == len(sets)
    assert all(np.array_equal(a, b) for a, b in zip(sets, read, strict=True))


def test_packing_is_small() -> None:
    few = pack_sets([np.array([5, 70_000])], 100_000)
    many = pack_sets([np.arange(100_000)], 100_000)
    half = pack_sets([np.flatnonzero(np.random.default_rng(1).random(100_000) < 0.5)], 100_000)
    assert len(few) < 100 and len(many) < 300 and len(half) < 13_000


@pytest.mark.parametrize("amount", [-1, 1.5, True, 2**63])
def test_costs_are_whole(amount: float) -> None:
    with pytest.raises(PlanError, match="micro_epsilon"):
        Cost(micro_epsilon=amount)  # type: ignore[arg-type]


def test_wrong_calls(tmp_path: Path) -> None:
    with pytest.raises(PlanError):
        Charge("ann", "t", "answer")
    with pytest.raises(PlanError):
        Charge("ann", "t", "refused", cost=TENTH)
    with pytest.raises(PlanError):
        Limit(PrivacyFilter(0.1), period=timedelta(0))
    with pytest.raises(PlanError, match="postgresql"):
        open_ledger("mysql://somewhere")
    with pytest.raises(DataError, match="no ledger"):
        open_ledger(tmp_path / "absent.db", create=False)
    (tmp_path / "text.db").write_text("not a database " * 100, encoding="utf-8")
    with pytest.raises(DataError, match="cannot be used"):
        open_ledger(tmp_path / "text.db")
    with pytest.raises(DataError):
        Entry.from_json({"id": 1})
    with pytest.raises(PlanError):
        Head.parse("7")
