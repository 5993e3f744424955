"""Values that change between two runs are noticed; a declaration may change; a charge comes when all is ready."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError, QueryRefused
from discretion.online.backends import open_backend
from discretion.online.declare import TableSpec
from discretion.online.dp.mechanisms import PrivacyLoss, ThresholdedCounts
from discretion.online.dp.sensitivity import Unit, people
from tests.online.services import CHANGED, NOISE, TRUTH

COLUMNS: dict[str, dict[str, Any]] = {
    "town": {"role": "public", "type": "category"},
    "income": {"role": "sensitive", "type": "integer", "bounds": (0, 1000)},
    "debt": {"role": "sensitive", "type": "number", "bounds": (0, 1)},
    "owns": {"role": "sensitive", "type": "integer", "bounds": (0, 1)},
}
UNBOUNDED: dict[str, dict[str, Any]] = {
    **COLUMNS,
    "income": {"role": "sensitive", "type": "number", "whole": False},
    "debt": {"role": "sensitive", "type": "number", "whole": False},
}
"""for true answers under the linear audit"""
FRAME = pl.DataFrame(
    {
        "who": [str(number // 2) for number in range(20)],
        "town": ["a", "b"] * 10,
        "income": [None, *range(19)],
        "debt": [0.5, None, *np.linspace(0, 1, 18)],
        "owns": [0, 1] * 10,
    }
)
SUM = "SELECT sum(income) AS s FROM t"


def opened(tmp_path: Path, frame: pl.DataFrame, policy: Any = TRUTH, **more: Any) -> dc.StatisticalDatabase:
    frame.write_parquet(tmp_path / "t.parquet")
    given = {"columns": UNBOUNDED if policy["mode"] == "exact+audit" else COLUMNS, **more}
    return dc.StatisticalDatabase(
        tmp_path / "t.parquet", table="t", policy=policy, ledger=tmp_path / "ledger.db", **given
    )


def changed(column: str, value: Any, row: int = 3) -> pl.DataFrame:
    values = FRAME[column].to_list()
    values[row] = value
    return FRAME.with_columns(pl.Series(column, values, dtype=FRAME[column].dtype))


@pytest.mark.parametrize("policy", [TRUTH, CHANGED], ids=["exact", "perturbed"])
def test_changed_values_that_were_told_are_noticed(tmp_path: Path, policy: dict[str, Any]) -> None:
    with opened(tmp_path, FRAME, policy) as database:
        told = database.ask(SUM).frame["s"].item()
    for frame in (changed("income", 999), changed("income", None), FRAME.reverse()):
        with pytest.raises(DataError, match=r"column 'income'.*another name") as error:
            opened(tmp_path, frame, policy)
        assert "999" not in str(error.value)
    with opened(tmp_path, FRAME, policy) as database:
        again = database.ask(SUM)
        assert again.cached and again.frame["s"].item() == told


def test_changes_that_tell_nothing_are_let_in_and_make_answers_old(tmp_path: Path) -> None:
    with opened(tmp_path, FRAME) as database:
        database.ask(SUM)
        database.ask("SELECT sum(income) FROM t WHERE town = 'a'")
    with opened(tmp_path, changed("debt", 0.25)) as database:  # nobody asked about debts
        assert not database.ask(SUM).cached
    with opened(tmp_path, changed("town", "a").with_columns(debt=pl.col("debt") / 2)) as database:
        with pytest.raises(QueryRefused, match="determine"):  # one person moved: the sets differ by that person
            database.ask("SELECT sum(income) FROM t WHERE town = 'a'")
        database.ask("SELECT sum(debt) FROM t")
    with pytest.raises(DataError, match="column 'debt'"):
        opened(tmp_path, FRAME)


def test_private_answers_do_not_rely_on_earlier_values(tmp_path: Path) -> None:
    with opened(tmp_path, FRAME, NOISE) as database:
        database.ask(SUM)
    with opened(tmp_path, FRAME, NOISE) as database:
        assert database.ask(SUM).cached
    with opened(tmp_path, changed("income", 999), NOISE) as database:
        assert not database.ask(SUM).cached


def test_appended_rows_and_people_who_change(tmp_path: Path) -> None:
    longer = pl.concat([FRAME, FRAME.head(4).with_columns(who=pl.lit("new"))])
    with opened(tmp_path, FRAME, person="who") as database:
        database.ask(SUM)
    with opened(tmp_path, longer, person="who") as database:
        assert database.people("t") == 11
    with pytest.raises(DataError, match="column 'income'"):
        opened(tmp_path, longer.with_columns(income=pl.col("income").fill_null(7)), person="who")
    with pytest.raises(DataError, match="the people of earlier rows"):
        opened(tmp_path, longer.with_columns(who=pl.lit("one")), person="who")


def test_the_ledger_keeps_no_digest_that_can_be_tried_out(tmp_path: Path) -> None:
    table = TableSpec(name="t", columns=COLUMNS)
    backend = open_backend([table], {"t": FRAME})
    names = ("", *COLUMNS)
    first = backend.digests("t", names, 20, b"one key")
    assert first == backend.digests("t", names, 20, b"one key")
    assert set(first.values()).isdisjoint(backend.digests("t", names, 20, b"another").values())
    assert set(first.values()).isdisjoint(backend.digests("t", names, 19, b"one key").values())
    assert len(set(first.values())) == len(names)
    same = open_backend([table], {"t": pl.concat([FRAME, FRAME])})
    assert first == same.digests("t", names, 20, b"one key")


@pytest.mark.parametrize(
    "columns",
    [
        {**UNBOUNDED, "town": {"role": "sensitive", "type": "category"}},
        {name: spec for name, spec in UNBOUNDED.items() if name != "town"},
        {**UNBOUNDED, "income": {"role": "hidden", "type": "integer"}},
    ],
    ids=["condition sensitive", "condition gone", "measured hidden"],
)
def test_a_declaration_may_change_and_nothing_is_forgotten(tmp_path: Path, columns: dict[str, Any]) -> None:
    with opened(tmp_path, FRAME) as database:
        database.ask(SUM)
        database.ask("SELECT sum(income) FROM t WHERE town = 'a'")
    with opened(tmp_path, FRAME, columns=columns):
        pass
    with opened(tmp_path, changed("town", "a")) as database, pytest.raises(QueryRefused, match="determine"):
        database.ask("SELECT sum(income) FROM t WHERE town = 'a'")


def test_integers_of_two_values_are_yes_or_no(tmp_path: Path) -> None:
    for policy in (TRUTH, {**TRUTH, "interval_audit": True}):
        with opened(tmp_path, FRAME, policy) as database, pytest.raises(QueryRefused, match="'owns' are not told"):
            database.ask("SELECT sum(owns) FROM t")


def test_too_many_groups_are_refused_before_anything_is_charged() -> None:
    wide = {"role": "public", "type": "category", "categories": [str(number) for number in range(101)]}
    frame = pl.DataFrame({"a": ["1"], "b": ["2"]})
    with dc.StatisticalDatabase(frame, table="t", columns={"a": wide, "b": wide}, policy=NOISE) as database:
        with pytest.raises(QueryRefused, match="10,000 groups"):
            database.ask("SELECT a, b, count(*) FROM t GROUP BY a, b")
        assert str(database.budget()[0].spent) == "nothing"


def test_the_library_agrees_with_every_threshold() -> None:
    for rows, units, delta in ((100, 8, 8), (100, 7, 1), (100, 37, 1), (1, 1, 1), (7, 10**6, 10**6)):
        ThresholdedCounts(people(Unit(rows)), PrivacyLoss.micro_epsilon(units), Fraction(delta, 10**9)).prepare()


@pytest.mark.parametrize("policy", [{**TRUTH, "min_query_size": 2}, {**NOISE, "epsilon": 500.0}, CHANGED], ids=str)
def test_two_histograms_of_one_column(policy: dict[str, Any]) -> None:
    frame = pl.DataFrame({"age": list(range(100))})
    columns = {"age": {"role": "public", "type": "integer", "bounds": (0, 100)}}
    asked = "SELECT histogram(age, [0, 50, 100]) AS halves, histogram(age, [0, 25, 50, 100]) FROM t"
    with dc.StatisticalDatabase(frame, table="t", columns=columns, policy=policy) as database:
        how = {"epsilon": 200.0} if policy["mode"] == "dp" else {}
        line = database.ask(asked, **how).frame.row(0, named=True)
        assert line["halves"] == pytest.approx([50, 50], abs=3)
        assert line["histogram_age"] == pytest.approx([25, 25, 50], abs=3)
        other = "SELECT histogram(age, [0, 25, 50, 100]) AS quarters, histogram(age, [0, 50, 100]) FROM t"
        again = database.ask(other, **how)
        assert again.cached and again.frame.row(0) == (line["histogram_age"], line["halves"])


@pytest.mark.parametrize("view", [False, True], ids=["table", "view"])
def test_values_that_change_in_a_database_between_two_answers_are_noticed(postgres_url: str, view: bool) -> None:
    """A value of which a sum was told changed: no answer more; other columns and appended rows do not matter."""
    import psycopg

    source, even = "watched_view" if view else "watched", sum(map(math.sqrt, range(2, 41, 2)))
    with psycopg.connect(postgres_url, autocommit=True) as base:
        base.execute("DROP VIEW IF EXISTS watched_view")
        base.execute("DROP TABLE IF EXISTS watched")
        base.execute("CREATE TABLE watched (n bigint, town text, income double precision, debt double precision)")
        base.execute("INSERT INTO watched SELECT i, chr(97 + i % 2), sqrt(i), i / 7.0 FROM generate_series(1, 40) i")
        base.execute("CREATE VIEW watched_view AS SELECT * FROM watched")
        columns = {
            "town": {"role": "public", "type": "category"},
            "income": {"role": "sensitive", "type": "number", "whole": False},
            "debt": {"role": "sensitive", "type": "number", "whole": False},
        }
        options = {"table": "t", "row_key": "n", "columns": columns, "policy": TRUTH}
        from discretion.online.declare import declare

        spec = declare(f"{postgres_url}?table={source}", ledger=":memory:", **options)
        with dc.StatisticalDatabase(spec) as database:
            assert database.ask(SUM).frame.item() == pytest.approx(sum(map(math.sqrt, range(1, 41))))
            base.execute("INSERT INTO watched VALUES (41, 'a', 5.5, 6.5)")
            base.execute("UPDATE watched SET debt = 1000.5 WHERE n = 7")
            assert database.ask("SELECT sum(income) AS s FROM t WHERE town = 'a'").frame.item() == pytest.approx(even)
            base.execute("UPDATE watched SET income = 1000.5 WHERE n = 7")
            for _ in range(2):
                with pytest.raises(DataError, match="'income': earlier values are not what they were"):
                    database.ask("SELECT sum(debt) AS s FROM t")
            base.execute("UPDATE watched SET income = sqrt(7) WHERE n = 7")
            assert database.ask("SELECT sum(debt) AS s FROM t").frame.item() > 1000
            base.execute("DELETE FROM watched WHERE n = 7")
            with pytest.raises(DataError, match="people"):
                database.ask(SUM)


@pytest.mark.parametrize("policy", [TRUTH, CHANGED], ids=["exact", "perturbed"])
@pytest.mark.parametrize("column", ["income", "town"])
def test_an_answer_during_which_values_changed_is_never_told(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, policy: dict[str, Any], column: str
) -> None:
    """Not when it was computed, and not as an earlier answer after the old values are back: it is not recorded."""
    import psycopg

    from discretion.online.declare import declare

    with psycopg.connect(postgres_url, autocommit=True) as base:
        base.execute("DROP TABLE IF EXISTS moving")
        base.execute("CREATE TABLE moving (n bigint, town text, income double precision)")
        base.execute("INSERT INTO moving SELECT i, chr(97 + i % 2), sqrt(i) FROM generate_series(1, 40) i")
        new, old = ("1000.5", "sqrt(7)") if column == "income" else ("'a'", "'b'")
        income = {"role": "sensitive", "type": "number", "whole": False}
        columns = {"town": {"role": "public", "type": "category"}, "income": income}
        spec = declare(
            f"{postgres_url}?table=moving", ledger=":memory:", table="t", row_key="n", columns=columns, policy=policy
        )
        asked = "SELECT sum(income) AS s FROM t WHERE town = 'a'"
        with dc.StatisticalDatabase(spec) as database:
            desk = database._desks["t"]._desk
            charge = desk.ledger.page

            def write(value: str) -> None:
                base.execute(f"UPDATE moving SET {column} = {value} WHERE n = 7")

            @contextlib.contextmanager
            def meanwhile() -> Iterator[Any]:
                with charge() as page:
                    yield page
                monkeypatch.undo()
                write(new)  # after the question was judged and charged, before its answer is computed

            monkeypatch.setattr(desk.ledger, "page", meanwhile)
            with pytest.raises(DataError, match="not what they were" if column == "income" else "was written to while"):
                database.ask(asked)
            (entry,) = [entry for entry in desk.ledger.history("t") if entry.kind in ("exact", "perturbed")]
            assert desk.ledger.answer_to(entry.id) is None
            if column == "town" and policy is TRUTH:  # judged beside the charge, as if that had been told
                with pytest.raises(QueryRefused, match="determine"):
                    database.ask(asked)
            write(old)
            again = database.ask(asked)
            assert not again.cached
            even = sum(map(math.sqrt, range(2, 41, 2)))
            assert again.frame.item() == pytest.approx(even, abs=1e-6 if policy is TRUTH else 15)
