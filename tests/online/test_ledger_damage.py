"""Ledgers that were tampered with, cut off, filled up, taken away or made by somebody else."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discretion.errors import DataError, DiscretionError
from discretion.online.ledger import (
    COLUMNS,
    EACH,
    Cost,
    Entry,
    Head,
    Ledger,
    Limit,
    NoLedger,
    PrivacyFilter,
    open_ledger,
    pack_sets,
    verify_chain,
)
from tests.online.ledgers import Clock, Place, place

__all__ = ["place"]

TENTH = Cost(micro_epsilon=100_000)
STRANGE: tuple[Any, ...] = (None, "", "x", -1, 0, 2**62, 2**63 - 1, 1.5, b"\x00\xff", b"", "1", "\x00")


def filled(path: Path) -> Head:
    with open_ledger(path) as ledger:
        for number in range(4):
            sets = pack_sets([np.array([0, 3])], 40) if number % 2 else None
            entry = ledger.charge("ann", "people", f"d{number}", TENTH, query='{"a": "x"}', sets=sets)
            ledger.record_answer(entry.id, f'{{"x": {number}}}')
        return ledger.head()


def holds(path: Path, head: Head | None = None) -> bool:
    """Verify; what cannot be opened does not hold, and nothing but our own errors comes out."""
    try:
        with open_ledger(path, create=False) as ledger:
            return ledger.verify(head).holds
    except DiscretionError:
        return False


@pytest.mark.parametrize("column", COLUMNS)
def test_whatever_is_put_into_a_field_is_found(tmp_path: Path, column: str) -> None:
    filled(tmp_path / "ledger.db")
    whole = (tmp_path / "ledger.db").read_bytes()
    tried = 0
    for number, value in enumerate(STRANGE):
        path = tmp_path / f"{number}.db"
        path.write_bytes(whole)
        damaged = Place(f"sqlite:///{path}", "ledger")
        before = _row(path)
        try:
            damaged.damage(f"UPDATE {{ledger}} SET {column} = ? WHERE id = 3", (value,))
        except sqlite3.Error:
            continue
        if [(type(v), v) for v in _row(path)] != [(type(v), v) for v in before]:
            tried += 1
            assert not holds(path), f"{column} became {value!r} unnoticed"
    assert tried >= 3


def _row(path: Path) -> list[Any]:
    connection = sqlite3.connect(path)
    found = [value for row in connection.execute("SELECT * FROM ledger ORDER BY id") for value in row]
    connection.close()
    return found


def test_a_file_cut_off_anywhere_does_not_hold(tmp_path: Path) -> None:
    head = filled(tmp_path / "ledger.db")
    whole = (tmp_path / "ledger.db").read_bytes()
    cut = tmp_path / "cut.db"
    for length in [*range(0, len(whole), 211), len(whole) - 1]:
        cut.write_bytes(whole[:length])
        assert not holds(cut, head), f"{length} of {len(whole)} bytes pass"
    cut.write_bytes(whole)
    assert holds(cut, head)


def test_turned_bits_are_told_in_our_own_words(tmp_path: Path) -> None:
    filled(tmp_path / "ledger.db")
    whole = (tmp_path / "ledger.db").read_bytes()
    used = [number for number, byte in enumerate(whole) if byte]
    rng = np.random.default_rng(3)
    found = 0
    for number in rng.choice(used, 150, replace=False):
        changed = bytearray(whole)
        changed[number] ^= 1 << int(rng.integers(8))
        (tmp_path / "turned.db").write_bytes(bytes(changed))
        found += not holds(tmp_path / "turned.db")
    assert found > 75


def test_an_export_that_was_changed_in_any_field_does_not_hold(tmp_path: Path) -> None:
    filled(tmp_path / "ledger.db")
    stream = io.StringIO()
    with open_ledger(tmp_path / "ledger.db", create=False) as ledger:
        ledger.export(stream)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert verify_chain(Entry.from_json(line) for line in lines).holds
    for name, value in lines[2].items():
        for other in (None, "", "é", "\ud800", -1, 0, 1, 1.5, True, [], {}, 2**70):
            if type(other) is type(value) and other == value:
                continue
            changed = [dict(line) for line in lines]
            changed[2][name] = other
            assert not verify_chain(Entry.from_json(line) for line in changed).holds, (name, other)


def test_moved_repeated_and_missing_lines(tmp_path: Path) -> None:
    filled(tmp_path / "ledger.db")
    with open_ledger(tmp_path / "ledger.db", create=False) as ledger:
        entries = list(ledger.history())
    for place_ in range(len(entries) - 1):
        swapped = [*entries[:place_], entries[place_ + 1], entries[place_], *entries[place_ + 2 :]]
        repeated = [*entries[: place_ + 1], *entries[place_:]]
        missing = [*entries[:place_], *entries[place_ + 1 :]]
        assert not any(verify_chain(wrong).holds for wrong in (swapped, repeated, missing))


def test_a_trigger_that_was_dropped_is_told_and_made_anew(tmp_path: Path) -> None:
    filled(tmp_path / "ledger.db")
    connection = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    connection.execute("DROP TRIGGER ledger_no_delete")
    connection.close()
    with open_ledger(tmp_path / "ledger.db", create=False) as ledger:
        assert "ledger_no_delete" in " ".join(ledger.verify().problems)
    assert holds(tmp_path / "ledger.db") is False
    open_ledger(tmp_path / "ledger.db").close()
    assert holds(tmp_path / "ledger.db")


def test_only_the_owner_can_read_a_new_ledger(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "ledger.db") as ledger:
        ledger.charge("ann", "t", "1", TENTH)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert set(modes) >= {"ledger.db", "ledger.db-wal"}
    assert set(modes.values()) == {0o600}


def test_files_of_others_are_left_as_they_are(tmp_path: Path) -> None:
    for number, statement in enumerate(("CREATE TABLE notes (x)", "CREATE TABLE ledger (id INTEGER, amount REAL)")):
        path = tmp_path / f"{number}.db"
        connection = sqlite3.connect(path)
        connection.execute(statement)
        connection.commit()
        connection.close()
        before = path.read_bytes()
        with pytest.raises(DataError, match="something else"):
            open_ledger(path)
        assert path.read_bytes() == before
    (tmp_path / "empty.db").touch()
    with pytest.raises(NoLedger):
        open_ledger(tmp_path / "empty.db", create=False)


def test_a_ledger_of_a_later_version_is_not_touched(place: Place) -> None:
    place.open().close()
    if place.url.startswith("postgresql"):
        place.damage("COMMENT ON TABLE {ledger} IS 'discretion ledger, form 2'")
    else:
        place.damage("PRAGMA user_version = 2")
    for create in (True, False):
        with pytest.raises(DataError, match="later version"):
            place.open(create=create)


def test_a_ledger_from_before_forms_were_noted_opens(tmp_path: Path) -> None:
    filled(tmp_path / "ledger.db")
    connection = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    for pragma in ("application_id", "user_version"):
        connection.execute(f"PRAGMA {pragma} = 0")
    connection.close()
    assert holds(tmp_path / "ledger.db")
    with open_ledger(tmp_path / "ledger.db") as ledger:
        ledger.charge("ann", "people", "more", TENTH)
        assert ledger.verify().holds


def test_a_full_disk_charges_nothing_and_breaks_nothing(tmp_path: Path) -> None:
    limit = Limit(PrivacyFilter(1000))
    with open_ledger(tmp_path / "ledger.db", limits=[limit]) as ledger:
        first = ledger.charge("ann", "t", "1", TENTH)
        connection = ledger._store._connection  # type: ignore[attr-defined]
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(DataError, match="the disk is full"):
            for number in range(100):
                ledger.charge("ann", "t", str(number), TENTH, query=json.dumps("x" * 1000))
        told = ledger.spent()
        written = sum((entry.cost for entry in ledger.history()), start=Cost())
        assert told == written
        connection.execute("PRAGMA max_page_count = 100000")
        ledger.record_answer(first.id, "1")
        assert ledger.verify().holds
        assert ledger.spent() == written


def test_a_ledger_that_may_only_be_read(tmp_path: Path) -> None:
    head = filled(tmp_path / "ledger.db")
    with open_ledger(tmp_path / "ledger.db") as ledger:
        ledger._store._connection.execute("PRAGMA query_only = ON")  # type: ignore[attr-defined]
        with pytest.raises(DataError, match="only be read"):
            ledger.charge("ann", "t", "1", TENTH)
        assert ledger.verify(head).holds
        assert ledger.head() == head


def test_two_writers_of_one_file_wait_for_each_other(tmp_path: Path) -> None:
    with open_ledger(tmp_path / "ledger.db") as one, open_ledger(tmp_path / "ledger.db") as two:
        two._store._connection.execute("PRAGMA busy_timeout = 10")  # type: ignore[attr-defined]
        with one.page() as page:
            with pytest.raises(DataError, match="another process"):
                two.charge("bob", "t", "2", TENTH)
            page.charge(_charge(), [])
        two.charge("bob", "t", "2", TENTH)
        assert [entry.user for entry in one.history()] == ["ann", "bob"]


def _charge() -> Any:
    from discretion.online.ledger import Charge

    return Charge("ann", "t", "dp", "1", cost=TENTH)


def test_a_clock_that_goes_back_gives_no_budget_back(place: Place) -> None:
    clock = Clock()
    limit = Limit(PrivacyFilter(0.1), user=EACH, period="day")
    with place.open(limits=[limit], clock=clock) as ledger:
        ledger.charge("ann", "t", "1", TENTH)
        clock.move(days=-3)
        assert ledger.remaining(limit, "ann") == Cost()
        assert ledger.spent("ann", period="day") == TENTH
        with pytest.raises(DiscretionError, match="does not cover"):
            ledger.charge("ann", "t", "2", TENTH)
        clock.move(days=4)
        ledger.charge("ann", "t", "2", TENTH)
        assert ledger.verify().holds


def test_totals_equal_a_plain_sum_whoever_wrote(place: Place) -> None:
    rng = np.random.default_rng(5)
    clock = Clock()
    with place.open(clock=clock) as one, place.open(clock=clock) as two:
        for number in range(40):
            writer: Ledger = (one, two)[rng.integers(2)]
            user, table = f"u{rng.integers(3)}", f"t{rng.integers(2)}"
            writer.charge(user, table, str(number), Cost(int(rng.integers(3)), int(rng.integers(3)), 0))
            clock.move(hours=float(rng.integers(9)))
            for reader in (one, two):
                for who in (None, "u0", "u1"):
                    entries = [e for e in reader.history() if who in (None, e.user)]
                    today = [e for e in entries if e.moment.date() == clock.now.date()]
                    assert reader.spent(who) == sum((e.cost for e in entries), start=Cost())
                    assert reader.spent(who, period="day") == sum((e.cost for e in today), start=Cost())


# --- PostgreSQL -----------------------------------------------------------------------------------------------------


@pytest.fixture
def postgres(postgres_url: str, request: pytest.FixtureRequest) -> Iterator[tuple[Ledger, Place]]:
    where = Place(postgres_url, f"lost_{abs(hash(request.node.name)) % 10**9}")
    with where.open() as ledger:
        yield ledger, where


def _cut_off(ledger: Ledger, url: str) -> None:
    import psycopg

    pid = ledger._store._connection.info.backend_pid  # type: ignore[attr-defined]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))


def test_a_lost_connection_is_opened_again(postgres: tuple[Ledger, Place]) -> None:
    ledger, where = postgres
    first = ledger.charge("ann", "t", "1", TENTH)
    _cut_off(ledger, where.url)
    assert ledger.find_answer("t", "1") is None
    _cut_off(ledger, where.url)
    assert ledger.spent() == TENTH
    _cut_off(ledger, where.url)
    ledger.record_answer(first.id, "1")
    _cut_off(ledger, where.url)
    assert ledger.verify().holds
    assert [entry.kind for entry in ledger.history()] == ["dp", "answer"]


def test_a_connection_lost_inside_a_transaction_writes_nothing(postgres: tuple[Ledger, Place]) -> None:
    ledger, where = postgres
    ledger.charge("ann", "t", "1", TENTH)
    with pytest.raises(DataError, match="does not answer"), ledger.page() as page:
        page.charge(_charge())
        _cut_off(ledger, where.url)
        page.charge(_charge())
    assert ledger.spent() == TENTH
    ledger.charge("ann", "t", "2", TENTH)
    assert [entry.id for entry in ledger.history()] == [1, 2]
    assert ledger.verify().holds


def test_a_table_of_somebody_else_and_a_wrong_address(postgres_url: str) -> None:
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS not_ours (id BIGINT, amount REAL)")
    for create in (True, False):
        with pytest.raises(DataError, match="something else"):
            open_ledger(postgres_url, name="not_ours", create=create)
    with pytest.raises(DiscretionError, match="address"):
        open_ledger("postgresql://host/base?nonsense=1")
    with pytest.raises(DataError, match="does not answer"):
        open_ledger("postgresql://127.0.0.1:1/base")


def test_rights_to_read_and_append_are_enough(postgres: tuple[Ledger, Place]) -> None:
    import psycopg

    ledger, where = postgres
    ledger.charge("ann", "t", "1", TENTH)
    role = f"{where.name}_role"
    with psycopg.connect(where.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"GRANT SELECT, INSERT ON {where.name} TO {role}")
    low = where.url.replace("tester@", f"{role}@")
    if low == where.url:
        pytest.skip("the given server has no user called tester")
    with open_ledger(low, name=where.name) as humble:
        humble.charge("bob", "t", "2", TENTH)
        assert humble.verify().holds
    with open_ledger(where.url, name=where.name) as again:
        assert [entry.user for entry in again.history()] == ["ann", "bob"]


def test_triggers_switched_off_are_told(postgres: tuple[Ledger, Place]) -> None:
    import psycopg

    ledger, where = postgres
    ledger.charge("ann", "t", "1", TENTH)
    with psycopg.connect(where.url, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {where.name} DISABLE TRIGGER {where.name}_no_change")
    assert "no_change" in " ".join(ledger.verify().problems)
