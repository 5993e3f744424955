from __future__ import annotations

import datetime as dt
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import duckdb
import polars as pl
import pytest

from discretion.data.database import parse_url, single_select
from discretion.data.read import read
from discretion.data.write import write
from discretion.errors import DataError, PlanError

POSTGRES = os.environ.get("DISCRETION_TEST_POSTGRES", "")
FRAME = pl.DataFrame(
    {
        "i": [1, None, -3],
        "f": [0.1 + 0.2, None, 1e-7],
        "s": ["Zoë", 'q",\n|;\\', None],
        "b": [True, None, False],
        "d": [dt.date(2020, 1, 31), None, dt.date(1950, 12, 1)],
        "t": [dt.datetime(2020, 1, 31, 10, 30), None, dt.datetime(1999, 12, 31, 23, 59, 59)],
        "k": pl.Series(["a", "b", None], dtype=pl.Categorical),
    }
)
BACK = FRAME.with_columns(pl.col("k").cast(pl.String))


@pytest.fixture(params=["duckdb", "sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param != "postgresql":
        yield f"{request.param}:///{tmp_path}/base.db"
        return
    if not POSTGRES:
        pytest.skip("no server: set DISCRETION_TEST_POSTGRES to a postgresql:// address")
    import psycopg

    def clear() -> None:
        with psycopg.connect(POSTGRES) as base:
            base.execute('drop table if exists people, other; drop table if exists "odd name"')

    clear()
    yield POSTGRES
    clear()


def test_round_trip(url: str) -> None:
    write(FRAME, url, table="people")
    back = read(url, table="people", roles={"i": "quasi"})
    assert back.frame.columns == BACK.columns
    assert [str(a) for a in back.frame.dtypes] == [str(b) for b in BACK.dtypes]
    assert back.frame.rows() == BACK.rows()
    assert read(url, query="select i, f from people where i = 1;").frame.rows() == [(1, 0.1 + 0.2)]
    assert read(url, table="people", columns=["s"]).columns == ("s",)


def test_existing_tables_and_odd_names(url: str) -> None:
    write(FRAME, url, table="people")
    with pytest.raises(DataError, match="overwrite=True"):
        write(FRAME.head(1), url, table="people")
    write(FRAME.head(1), url, table="people", overwrite=True)
    assert len(read(url, table="people")) == 1
    write(pl.DataFrame({'a "b"': [1]}), url, table="odd name")
    assert read(url, table="odd name").columns == ('a "b"',)


def test_missing_tables_are_listed(url: str) -> None:
    write(FRAME, url, table="people")
    with pytest.raises(DataError, match="did you mean 'people'"):
        read(url, table="peeple")
    with pytest.raises(PlanError, match=r"tables: .*people"):
        read(url)
    with pytest.raises(DataError, match="no rows"):
        read(url, query="select * from people where i = 99")


@pytest.mark.parametrize(
    "query",
    [
        "drop table people",
        "select 1; drop table people",
        "with x as (select 1) delete from people",
        "update people set i = 0",
        "pragma journal_mode = off",
        "select nope from people",
        "selec * from people",
        "copy people to 'x.csv'",
        "select * from nowhere",
    ],
)
def test_only_reading(url: str, query: str) -> None:
    write(FRAME, url, table="people")
    with pytest.raises((PlanError, DataError)):
        read(url, query=query)
    assert len(read(url, table="people")) == 3


def test_failed_write_leaves_the_table(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(FRAME, url, table="people")
    real = pl.DataFrame.iter_slices

    def midway(self: pl.DataFrame, n_rows: int = 1) -> Iterator[pl.DataFrame]:
        yield next(iter(real(self, 1)))
        raise KeyboardInterrupt

    if url.startswith("duckdb"):
        pytest.skip("one statement writes the whole table")
    with monkeypatch.context() as patched:
        patched.setattr(pl.DataFrame, "iter_slices", midway)
        with pytest.raises(KeyboardInterrupt):
            write(FRAME.head(2), url, table="people", overwrite=True)
    assert len(read(url, table="people")) == 3


def test_failed_write_removes_a_new_file(tmp_path: Path) -> None:
    for engine in ("duckdb", "sqlite"):
        with pytest.raises(DataError, match="was not written"):
            write(FRAME, f"{engine}:///{tmp_path}/new.db", table="nowhere.t")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not POSTGRES, reason="no server: set DISCRETION_TEST_POSTGRES to a postgresql:// address")
def test_types_of_postgresql() -> None:
    query = (
        "select 1::numeric(9,0) as n, 1.25::numeric as x, gen_random_uuid() as u, array['a','b'] as l, "
        "null::text as e, 1::smallint as i, '2020-01-01'::date as d, '{\"a\": 1}'::json as j"
    )
    frame = read(POSTGRES, query=query).frame
    assert frame["n"].dtype == pl.Int64 and frame["x"].to_list() == [1.25]
    assert frame["u"].dtype == frame["e"].dtype == frame["j"].dtype == pl.String
    assert frame["l"].to_list() == [["a", "b"]] and frame["d"].dtype == pl.Date


def test_lists(tmp_path: Path) -> None:
    frame = pl.DataFrame({"s": [["a", "b"], ["c"]]})
    write(frame, tmp_path / "a.duckdb", table="t")
    write(frame, tmp_path / "a.sqlite", table="t")
    assert read(tmp_path / "a.duckdb", table="t").frame["s"].to_list() == [["a", "b"], ["c"]]
    assert read(tmp_path / "a.sqlite", table="t").frame["s"].to_list() == ["a|b", "c"]
    assert read(tmp_path / "a.sqlite", table="t", types={"s": "set"}).frame["s"].to_list() == [["a", "b"], ["c"]]


def test_files_without_address(tmp_path: Path) -> None:
    duckdb.connect(str(tmp_path / "a.db")).execute("create table t as select 1 as x").close()
    assert read(tmp_path / "a.db", table="t").frame["x"].to_list() == [1]
    assert read(f"duckdb://{tmp_path}/a.db?table=t").frame["x"].to_list() == [1]
    base = sqlite3.connect(tmp_path / "b.db")
    base.executescript("create table t (x, y); insert into t values (1, 'a'), (2, 3);")
    base.close()
    assert read(tmp_path / "b.db", query="select x from t").frame["x"].to_list() == [1, 2]
    with pytest.raises(DataError, match="'y' mixes kinds"):
        read(tmp_path / "b.db", table="t")
    (tmp_path / "junk.db").write_bytes(b"junk" * 100)
    for engine in ("duckdb", "sqlite"):
        with pytest.raises(DataError, match="is not a"):
            read(f"{engine}:///{tmp_path}/junk.db", table="t")
    with pytest.raises(DataError, match="no file"):
        read(f"sqlite:///{tmp_path}/absent.db", table="t")


def test_files_are_out_of_reach_of_queries(tmp_path: Path) -> None:
    write(pl.DataFrame({"a": [1]}), tmp_path / "other.csv")
    write(FRAME, tmp_path / "a.duckdb", table="t")
    with pytest.raises(DataError, match="only tables of the database"):
        read(tmp_path / "a.duckdb", query=f"select * from read_csv('{tmp_path}/other.csv')")


def test_addresses() -> None:
    address = parse_url("postgresql://me:s3cret@host:5433/base?table=t&sslmode=disable", None, None)
    assert address.table == "t" and address.url.endswith("/base?sslmode=disable")
    assert "s3cret" not in address.name and "me" not in address.name
    for wrong in ("duckdb://a.db", "sqlite://"):
        with pytest.raises(PlanError, match="three slashes"):
            parse_url(wrong, "t", None)
    with pytest.raises(PlanError, match="not both"):
        parse_url("sqlite:///a.db", "t", "select 1")
    with pytest.raises(PlanError, match="give it once"):
        parse_url("sqlite:///a.db?table=t", "t", None)
    with pytest.raises(DataError, match="no connection") as caught:
        read("postgresql://me:s3cret@127.0.0.1:1/base", table="t")
    assert "s3cret" not in str(caught.value)


def test_single_select() -> None:
    assert single_select("select ';' as x; ") == "select ';' as x"
    assert single_select("-- note; more\nwith a as (select 1) select * from a").startswith("--")
    for wrong in ("select 1; select 2", "delete from t", "/* select */ drop table t", ""):
        with pytest.raises(PlanError):
            single_select(wrong)
