"""A long ledger costs no more than a short one: what a start and an answer read of it, counted and not timed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError
from discretion.online import ledger as ledgers
from discretion.online.ledger import COSTS, EACH, TOTALS, Charge, Cost, Limit, PrivacyFilter, SqliteStore, open_ledger
from discretion.online.question.query import Query
from tests.online.ledgers import Clock, Place, place
from tests.online.services import NOISE, TRUTH

__all__ = ["place"]

COLUMNS: dict[str, Any] = {
    "town": {"role": "public", "type": "category", "categories": ["a", "b"]},
    "income": {"role": "sensitive", "type": "integer", "bounds": (0, 100)},
}
UNIT = Cost(micro_epsilon=1)
COUNT = "SELECT count(*) FROM t WHERE town = 'a'"
SHORT, LONG = 200, 2000


@dataclass
class Work:
    """Entries and costs that were read, and steps of SQLite's machine."""

    rows: int = 0
    steps: int = 0


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    work = Work()
    entry_of, spending, connect = ledgers.entry_of, SqliteStore.spending, sqlite3.connect

    def one_row(*given: Any) -> Any:
        work.rows += 1
        return entry_of(*given)

    def all_costs(*given: Any) -> Any:
        costs = spending(*given)
        work.rows += len(costs)
        return costs

    def step() -> int:
        work.steps += 1
        return 0

    def watched(*given: Any, **more: Any) -> Any:
        connection = connect(*given, **more)
        connection.set_progress_handler(step, 1)
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(ledgers, "entry_of", one_row)
        patch.setattr(SqliteStore, "spending", all_costs)
        patch.setattr(sqlite3, "connect", watched)
        yield work


def service(folder: Path, policy: Any = NOISE, **more: Any) -> dc.StatisticalDatabase:
    frame = pl.DataFrame({"town": ["a", "b"] * 20, "income": range(40)})
    frame.write_parquet(folder / "t.parquet")
    users = {name: {"policy": policy} for name in ("ann", "bob")}
    return dc.StatisticalDatabase(
        folder / "t.parquet", table="t", columns=COLUMNS, users=users, ledger=folder / "ledger.db", **more
    )


def fill(path: Path | str, number: int, name: str = "discretion_ledger") -> None:
    """Write many answered questions, as they would have come one after the other."""
    query = json.dumps(Query.from_json({"table": "t", "aggregates": [{"function": "count"}]}).to_json())
    with open_ledger(path, name=name) as ledger, ledger.page() as page:
        for done in range(number):
            entry = page.charge(Charge(("ann", "bob")[done % 2], "t", "dp", f"d{done}", query, UNIT))
            page.answer(entry.id, "{}")


def measured(folder: Path, monkeypatch: pytest.MonkeyPatch, number: int, policy: Any) -> tuple[Work, Work]:
    """Give the work of a start and of the second answer after it, with so many questions in the ledger."""
    folder.mkdir()
    service(folder, policy).close()
    fill(folder / "ledger.db", number)
    with counted(monkeypatch) as work, service(folder, policy) as database:
        start = Work(work.rows, work.steps)
        database.ask("SELECT sum(income) FROM t", user="ann")
        before = Work(work.rows, work.steps)
        database.ask("SELECT sum(income) FROM t WHERE town IN ('a', 'b')", user="ann")
        return start, Work(work.rows - before.rows, work.steps - before.steps)


@pytest.mark.parametrize("policy", [NOISE, TRUTH], ids=["dp", "exact"])
def test_start_and_answer_read_as_much_of_a_long_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: Any
) -> None:
    short = measured(tmp_path / "short", monkeypatch, SHORT, policy)
    long = measured(tmp_path / "long", monkeypatch, LONG, policy)
    for few, many in zip(short, long, strict=True):
        assert many.rows == few.rows <= 10
        assert many.steps <= 1.2 * few.steps + 200


def test_the_first_answer_adds_up_in_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service(tmp_path).close()
    fill(tmp_path / "ledger.db", LONG)
    with counted(monkeypatch) as work, service(tmp_path, epsilon=5.0) as database:
        before = work.rows
        answer = database.ask(COUNT, user="ann")
        assert work.rows - before <= 10
        spent = LONG // 2 + answer.cost.micro_epsilon
        assert answer.remaining == Cost(2_000_000 - spent)
        (budget,) = database.budget("ann")
        assert budget.spent == Cost(spent) and budget.remaining == answer.remaining
        assert sum(cost.micro_epsilon for _, cost in budget.spending) == spent
        assert len(budget.spending) == LONG // 2 + 1


def test_costs_are_read_from_an_index_and_entries_in_their_order_without_sorting(tmp_path: Path) -> None:
    asked = {
        f"SELECT {TOTALS} FROM ledger WHERE {COSTS} AND who = ? AND subject = ? AND time >= ? AND id <= ?": "COVERING",
        f"SELECT {TOTALS} FROM ledger WHERE {COSTS} AND subject = ? AND time >= ? AND id <= ?": "COVERING",
        f"SELECT time FROM ledger WHERE {COSTS} AND who = ? AND subject = ? AND time >= ? ORDER BY id": "COVERING",
        "SELECT * FROM ledger WHERE +subject = ? AND +who = ? AND id > ? ORDER BY id LIMIT 500": "PRIMARY KEY",
        "SELECT * FROM ledger WHERE subject = ? AND kind = ? AND id > ? ORDER BY id LIMIT 500": "ledger_entries",
        "SELECT * FROM ledger WHERE id > ? AND +subject = ? ORDER BY id": "PRIMARY KEY",
        "SELECT * FROM ledger WHERE subject = ? AND digest = ? AND kind = 'answer' AND who = ?": "asked",
    }
    with open_ledger(tmp_path / "ledger.db") as ledger:
        connection = ledger._store._connection  # type: ignore[attr-defined]
        for query, index in asked.items():
            plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", [1] * query.count("?")).fetchall()
            assert index in plan[0][-1]
            assert len(plan) == 1 or "SELECT time" in query, "only times and costs are sorted"
        seen: list[str] = []
        connection.set_trace_callback(seen.append)
        list(ledger.history("t", "ann"))
        with ledger.page() as page:
            list(page.entries_after(0, "t"))
        asked_for = [text for text in seen if text.startswith("SELECT id, time, who") and "subject" in text]
        assert len(asked_for) == 2 and all("+subject" in text for text in asked_for)


def test_a_charge_syncs_two_pages(tmp_path: Path) -> None:
    """The entry and one page of one index; each index more was a page more to write and to sync."""
    limits = [Limit(PrivacyFilter(1000), table="people"), Limit(PrivacyFilter(1000), user=EACH, period="day")]
    with open_ledger(tmp_path / "ledger.db", limits=limits) as ledger:
        log = tmp_path / "ledger.db-wal"
        ledger.charge("ann", "people", "a" * 64, Cost(micro_epsilon=1), query=json.dumps({"table": "t" * 80}))
        before = log.stat().st_size
        for _ in range(100):
            ledger.charge("ann", "people", "a" * 64, Cost(micro_epsilon=1), query=json.dumps({"table": "t" * 80}))
        pages = (log.stat().st_size - before) / 4120
    assert pages / 100 < 2.5


def test_entries_of_some_kinds_come_in_their_order(place: Place) -> None:
    kinds = ("update", "dp", "refused", "exact", "insider")
    with place.open() as ledger:
        with ledger.page() as page:
            for number in range(1300):
                page.charge(Charge(f"u{number % 3}", f"t{number % 2}", kinds[number % 5]))  # type: ignore[arg-type]
        everything = list(ledger.history())
        for user in (None, "u1"):
            wanted = [
                entry
                for entry in everything
                if entry.table == "t1" and entry.kind in ("update", "exact") and user in (None, entry.user)
            ]
            assert list(ledger.history("t1", user, kinds=("exact", "update"))) == wanted
            assert list(ledger.history("t1", user, 700, ("exact", "update"))) == [e for e in wanted if e.id > 700]
        updates = [entry for entry in everything if entry.kind == "update" and entry.table == "t0"]
        assert list(ledger.latest("t0", "update")) == updates[::-1]
        assert list(ledger.latest("t2", "update")) == [] == list(ledger.history("t2", kinds=("dp",)))
        assert ledger.entry(7) == everything[6] and ledger.entry(5000) is None


def test_sums_are_exact_and_follow_the_period(place: Place) -> None:
    clock = Clock()
    with place.open(clock=clock) as ledger:
        ledger.charge("ann", "t", "1", Cost(2**61, 3, 2**40 + 1))
        ledger.charge("ann", "t", "2", Cost(2**60 - 1, 0, 1))
        clock.move(days=40)
        charged = ledger.charge("ann", "t", "3", Cost(7, 1))
        assert ledger.answer_to(charged.id) is None
        assert ledger.record_answer(charged.id, "1") == ledger.answer_to(charged.id)
    with place.open(clock=clock) as again:
        assert again.spent("ann", "t") == Cost(2**61 + 2**60 + 6, 4, 2**40 + 2)
        assert again.spent("ann", "t", "month") == Cost(7, 1) == again.spent(None, None, "month")
        assert [cost for _, cost in again.spending("ann", "t", "month")] == [Cost(7, 1)]
        assert len(again.spending("ann", "t")) == 3 and again.spending("bob", "t") == []
        assert again.spent("bob") == Cost()


def test_costs_that_no_ledger_writes_are_not_added_up(tmp_path: Path) -> None:
    for number, strange in enumerate(("many", 1.5, b"\x01")):
        damaged = Place(f"sqlite:///{tmp_path / f'{number}.db'}", "ledger")
        with damaged.open() as ledger:
            ledger.charge("ann", "t", "1", Cost(5))
            ledger.charge("ann", "t", "2", Cost(5))
        damaged.damage("UPDATE {ledger} SET micro_epsilon = ? WHERE id = 1", (strange,))
        with damaged.open() as ledger, pytest.raises(DataError, match="costs"):
            ledger.spent("ann")
