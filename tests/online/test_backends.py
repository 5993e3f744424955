"""duckdb and PostgreSQL answer as a naive evaluator does."""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.data.sql_filter import Condition, Everything, Not
from discretion.engines.scan import Scan
from discretion.errors import DataError, PlanError, QueryRefused
from discretion.online.backends import Backend, Bounded, ClampedFigure, Limits, QueryTimeout, Routed, open_backend
from discretion.online.backends.duckdb import DuckdbBackend
from discretion.online.declare import TableSpec
from discretion.online.question.query import Aggregate, Query
from tests.online import naive, samples
from tests.online.samples import INCOME

Open = Callable[[TableSpec, list[dict[str, Any]]], Backend]
TYPES = {"category": pl.String, "integer": pl.Int64, "number": pl.Float64, "truth": pl.Boolean, "date": pl.Date}
SCHEMA = {name: TYPES[spec["type"]] for name, spec in samples.COLUMNS.items()}
SQL_TYPES = {"category": "text", "integer": "bigint", "number": "double precision", "truth": "boolean", "date": "date"}
COUNT = (Aggregate("count"),)


def frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    columns = {name: [row[name] for row in rows] for name in SCHEMA}
    made = [
        pl.Series(n, v, pl.String).str.to_date() if SCHEMA[n] == pl.Date else pl.Series(n, v, SCHEMA[n])
        for n, v in columns.items()
    ]
    return pl.DataFrame([*made, pl.Series("id", [row["id"] for row in rows], pl.String)])


def fill_postgres(url: str, rows: list[dict[str, Any]]) -> None:
    import psycopg

    names = {n: '"' + n.replace('"', '""') + '"' for n in samples.COLUMNS}
    with psycopg.connect(url) as base:
        base.execute("DROP TABLE IF EXISTS people")
        listed = ", ".join(f"{names[n]} {SQL_TYPES[spec['type']]}" for n, spec in samples.COLUMNS.items())
        base.execute(f"CREATE TABLE people (number bigserial, id text, {listed})")
        append_postgres(base, rows)


def append_postgres(base: Any, rows: list[dict[str, Any]]) -> None:
    names = ", ".join('"' + n.replace('"', '""').replace("%", "%%") + '"' for n in samples.COLUMNS)
    marks = ", ".join(["%s"] * (len(samples.COLUMNS) + 1))
    for row in rows:
        base.execute(
            f"INSERT INTO people (id, {names}) VALUES ({marks})", (row["id"], *(row[n] for n in samples.COLUMNS))
        )


def scanned(rows: list[dict[str, Any]], folder: Path) -> Scan:
    """Put records into two files, and scan these."""
    place = Path(tempfile.mkdtemp(dir=folder))
    made, half = frame(rows), len(rows) // 2
    made[:half].write_parquet(place / "a.parquet")
    made[half:].write_parquet(place / "b.parquet")
    return dc.scan(place, spill=folder)


@pytest.fixture(params=["duckdb", "scanned", "postgresql"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Open records as a table of each database."""
    backends: list[Backend] = []

    def make(spec: TableSpec, rows: list[dict[str, Any]]) -> Backend:
        for backend in backends:
            backend.close()
        if request.param != "postgresql":
            data = frame(rows) if request.param == "duckdb" else scanned(rows, tmp_path)
            found: Backend = DuckdbBackend([spec], {"people": data}, Limits(threads=1))
        else:
            url = request.getfixturevalue("postgres_url")
            fill_postgres(url, rows)
            settled = spec.model_copy(update={"source": f"{url}?table=people", "row_key": "number"})
            found = open_backend([settled])
        backends[:] = [found]
        return found

    yield make
    for backend in backends:
        backend.close()


def check_exact(backend: Backend, query: Query, rows: list[dict[str, Any]]) -> None:
    answer = backend.exact(query)
    expected = naive.groups(query, rows)
    found = {tuple(row[name] for name in query.group_by): row for row in answer.iter_rows(named=True)}
    assert answer.height == len(found) and set(found) == set(expected)
    assert answer.columns == [*query.group_by, *(a.label for a in query.aggregates)]
    for key, members in expected.items():
        for aggregate in query.aggregates:
            figure, true = found[key][aggregate.label], naive.figure(aggregate, members)
            scale = (
                max([abs(r[aggregate.column]) for r in members if r[aggregate.column]] or [1])
                if aggregate.function == "variance"
                else 1
            )
            assert figure == true or figure == pytest.approx(true, rel=1e-9, abs=1e-7 * scale**2), aggregate


FEW = settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


@FEW
@given(rows=samples.records(), asked=st.lists(samples.queries(), min_size=1, max_size=3))
def test_true_aggregates_equal_a_naive_evaluator(opened: Open, rows: list[dict[str, Any]], asked: list[Query]) -> None:
    backend = opened(samples.table(), rows)
    for query in asked:
        check_exact(backend, query, rows)


@FEW
@given(
    rows=samples.records(),
    asked=st.lists(samples.queries(), min_size=1, max_size=3),
    most=st.sampled_from([None, 1, 2]),
)
def test_bounded_figures_equal_a_naive_evaluator(
    opened: Open, rows: list[dict[str, Any]], asked: list[Query], most: int | None
) -> None:
    spec = samples.table(person="id", rows_per_person=most) if most else samples.table()
    backend = opened(spec, rows)
    for query in asked:
        assert backend.bounded(query) == naive.bounded(query, spec, rows)


@FEW
@given(rows=samples.records())
def test_columns_are_given_in_the_order_of_rows(opened: Open, rows: list[dict[str, Any]]) -> None:
    backend, plain = opened(samples.table(), rows), frame(rows)
    for name in samples.table().visible:
        assert backend.column("people", name).to_list() == plain[name].to_list()
    with pytest.raises(QueryRefused, match="unknown column"):
        backend.column("people", "secret")


@FEW
@given(
    rows=samples.records(),
    where=samples.filters(),
    group_by=st.sampled_from([(), ("sex",), ("region", "married"), ("born",)]),
)
def test_members_are_numbered_people(
    opened: Open, rows: list[dict[str, Any]], where: Any, group_by: tuple[str, ...]
) -> None:
    backend = opened(samples.table(person="id", rows_per_person=2), rows)
    number: dict[str, int] = {}
    of_rows = [number.setdefault(row["id"], len(number)) for row in rows]
    assert backend.people("people") == len(number) and backend.rows("people") == len(rows)
    assert backend.person_of_rows("people").tolist() == of_rows
    assert backend.find_people("people", number).tolist() == list(range(len(number)))
    query = Query("people", COUNT, where, group_by)
    if not query.columns_in_where() <= set(samples.table().public):
        with pytest.raises(QueryRefused, match="sensitive"):
            backend.members("people", where, group_by)
        return
    expected = naive.groups(query, [{**row, "at": i} for i, row in enumerate(rows)])
    people, places = backend.members("people", where, group_by), backend.members("people", where, group_by, unit="row")
    assert {key: found.tolist() for key, found in places.items()} == {
        k: [r["at"] for r in m] for k, m in expected.items()
    }
    assert {k: v.tolist() for k, v in people.items()} == {
        k: sorted({of_rows[r["at"]] for r in m}) for k, m in expected.items()
    }


def example(count: int = 6) -> list[dict[str, Any]]:
    rng = np.random.default_rng(5)
    return [
        {**{n: v[rng.integers(len(v))] for n, v in samples.VALUES.items()}, "id": f"p{i % 4}"} for i in range(count)
    ]


def test_appended_rows_are_new_people_and_old_ones_keep_their_numbers(
    opened: Open, request: pytest.FixtureRequest
) -> None:
    rows = example(6)
    backend = opened(samples.table(person="id", rows_per_person=5), rows)
    before = backend.members("people", Everything(), ("sex",))
    later = [*rows, {**rows[0], "id": "a-new-one"}, {**rows[1], "id": "p1"}]
    if isinstance(backend, DuckdbBackend):
        assert backend.refresh("people", frame(later)) == 5
    else:
        import psycopg

        with psycopg.connect(request.getfixturevalue("postgres_url")) as base:
            append_postgres(base, later[6:])
        assert backend.people("people") == 4 and backend.exact(Query("people", COUNT))["count"].item() == 6
        assert backend.refresh("people") == 5
    assert backend.people("people") == 5 and backend.exact(Query("people", COUNT))["count"].item() == 8
    assert backend.find_people("people", ["p0", "a-new-one"]).tolist() == [0, 4]
    for key, members in before.items():
        assert set(members) <= set(backend.members("people", Everything(), ("sex",))[key])


def test_changed_or_lost_rows_are_noticed(opened: Open, request: pytest.FixtureRequest) -> None:
    rows = example(6)
    backend = opened(samples.table(person="id"), rows)
    if isinstance(backend, DuckdbBackend):
        for wrong in (rows[:5], rows[1:] + rows[:1], [{**rows[0], "age": 77}, *rows[1:]]):
            with pytest.raises(DataError, match="appended"):
                backend.refresh("people", frame(wrong))
        assert backend.refresh("people", frame(rows)) == 4
        return
    import psycopg

    with psycopg.connect(request.getfixturevalue("postgres_url")) as base:
        base.execute("DELETE FROM people WHERE number = 2")
    with pytest.raises(DataError, match="appended"):
        backend.refresh("people")


def test_declared_groups_are_all_there_and_no_others(opened: Open) -> None:
    rows = [{**example(1)[0], "sex": "M", "married": True, "age": 20}, {**example(1)[0], "sex": "other"}]
    found = opened(samples.table(), rows).bounded(
        Query("people", (Aggregate("sum", "age"),), group_by=("sex", "married"))
    )
    assert set(found) == {(s, m) for s in "FM" for m in (False, True)}
    assert found["M", True] == Bounded(1, None, (ClampedFigure(1, 20),))
    assert found["F", True] == Bounded(0, None, (ClampedFigure(),))


def test_values_outside_the_bounds_count_as_the_bounds_and_missing_ones_not_at_all(opened: Open) -> None:
    rows = [{**example(1)[0], "age": age, "debt": None} for age in (-50, 10, 1000, None)]
    found = opened(samples.table(), rows).bounded(
        Query("people", (Aggregate("variance", "age"), Aggregate("sum", "debt")))
    )
    assert found[()].figures == (ClampedFigure(3, 0 + 10 + 100, 100 + 10_000), ClampedFigure(0, 0))


def test_figures_do_not_overflow(opened: Open) -> None:
    debt = {**samples.COLUMNS["debt"], "bounds": (-(2**51), -(2**51) + 2**31), "resolution": 1}
    spec = samples.table(columns={**samples.COLUMNS, "debt": debt})
    rows = [{**example(1)[0], "debt": -(2**62)}] * 40
    figure = opened(spec, rows).bounded(Query("people", (Aggregate("variance", "debt"),)))[()].figures[0]
    assert (figure.total, figure.squares) == (-40 * 2**51, 40 * 2**102)


def test_a_column_without_bounds_gives_nothing_private(opened: Open) -> None:
    spec = samples.table(columns={**samples.COLUMNS, INCOME: {"role": "sensitive", "type": "number"}})
    backend = opened(spec, example())
    for aggregate in (Aggregate("sum", INCOME), Aggregate("quantile", INCOME, 0.5), Aggregate("max", INCOME)):
        with pytest.raises(QueryRefused, match="bounds"):
            backend.bounded(Query("people", (aggregate,)))
    assert backend.bounded(Query("people", (Aggregate("histogram", INCOME, cuts=(0.0, 10.0)),)))[()].rows == 6


def test_hidden_and_unknown_columns_are_refused_by_the_database_too(opened: Open) -> None:
    backend = opened(samples.table(person="id"), example())
    for name in ("secret", "id", "nothing", "age; DROP TABLE people"):
        for query in (
            Query("people", (Aggregate("count-distinct", name),)),
            Query("people", COUNT, Condition(name, "not-missing")),
        ):
            with pytest.raises(QueryRefused, match="unknown column"):
                backend.exact(query)
        with pytest.raises(QueryRefused, match="unknown column"):
            backend.members("people", Everything(), (name,))
    with pytest.raises(QueryRefused, match="unknown table"):
        backend.exact(Query("peple", COUNT))


def test_no_more_groups_than_allowed() -> None:
    backend = DuckdbBackend([samples.table()], {"people": frame(example(40))}, Limits(groups=3))
    for ask in (
        lambda: backend.exact(Query("people", COUNT, group_by=("age",))),
        lambda: backend.members("people", Everything(), ("age",)),
        lambda: backend.bounded(Query("people", COUNT, group_by=("sex", "married"))),
    ):
        with pytest.raises(QueryRefused, match="more than 3 groups"):
            ask()


# --- loading -------------------------------------------------------------------------------------------------------


def test_the_database_is_locked() -> None:
    backend = DuckdbBackend([samples.table()], {"people": frame(example())})
    cursor = backend._loaded["people"].connection.cursor()
    for statement in (
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY data TO '/tmp/discretion-leak.csv'",
        "SET threads = 1",
        "SET enable_external_access = true",
        "ATTACH '/tmp/discretion-other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
    ):
        with pytest.raises(duckdb.Error):
            cursor.execute(statement)
    assert not Path("/tmp/discretion-leak.csv").exists()
    columns = {row[0] for row in cursor.execute("DESCRIBE data").fetchall()}
    assert columns == {*(f"c{i}" for i in range(7)), "k2", "k5", "k6"}, "hidden columns are not even loaded"


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_files_are_read_with_their_declared_types(tmp_path: Path, suffix: str) -> None:
    rows = example(30)
    data, path = frame(rows).with_columns(pl.col("region").replace("", "west")), tmp_path / f"people.{suffix}"
    {"parquet": data.write_parquet, "csv": data.write_csv, "jsonl": data.write_ndjson}[suffix](path)
    backend = open_backend([samples.table(source=str(path), person="id")])
    memory = DuckdbBackend([samples.table(person="id")], {"people": data})
    for name in ("age", INCOME, "debt"):
        query = Query(
            "people", (Aggregate("mean", name), Aggregate("count-distinct", name)), group_by=("region", "born")
        )
        assert backend.exact(query).equals(memory.exact(query))
    assert backend.person_of_rows("people").tolist() == memory.person_of_rows("people").tolist()


@pytest.mark.parametrize(
    ("column", "values", "says"),
    [
        ("age", [30.5, 2.0], "column 'age'.*in 1 rows"),
        (INCOME, [1.0, float("inf")], "infinite in 1 rows"),
        (INCOME, ["12", "private-text"], "not of type number"),
        ("born", ["2020-01-01", "not a date"], "not of type date"),
        ("id", ["a", None], "1 rows have no person"),
    ],
)
def test_wrong_values_are_named_by_column_and_count_only(
    tmp_path: Path, column: str, values: list[Any], says: str
) -> None:
    path = tmp_path / "people.parquet"
    frame(example(2)).with_columns(pl.Series(column, values)).write_parquet(path)
    with pytest.raises(DataError, match=says) as caught:
        open_backend([samples.table(source=str(path), person="id")])
    assert "private-text" not in str(caught.value) and "30.5" not in str(caught.value)


def test_nan_is_missing() -> None:
    backend = DuckdbBackend(
        [samples.table()], {"people": frame(example(2)).with_columns(pl.Series(INCOME, [float("nan"), 2.0]))}
    )
    answer = backend.exact(Query("people", (Aggregate("sum", INCOME), Aggregate("max", INCOME))))
    assert answer.row(0) == (2.0, 2.0)
    assert backend.bounded(Query("people", (Aggregate("sum", INCOME),)))[()].figures[0].present == 1


def test_declarations_that_do_not_fit_the_data() -> None:
    with pytest.raises(PlanError, match="did you mean 'Age'"):
        DuckdbBackend([samples.table()], {"people": frame(example()).rename({"age": "Age"})})
    with pytest.raises(PlanError, match="no source"):
        open_backend([samples.table()])
    with pytest.raises(PlanError, match="no declared table"):
        open_backend([samples.table()], {"people": frame(example()), "others": frame(example())})
    with pytest.raises(DataError, match=r"no file 'gone\.csv'"):
        open_backend([samples.table(source="gone.csv")])
    with pytest.raises(PlanError, match="declared twice"):
        open_backend([samples.table(), samples.table()], {"people": frame(example())})
    with pytest.raises(PlanError, match="row_key"):
        open_backend([samples.table(source="postgresql://nobody@127.0.0.1:1/x?table=people")])


def test_keys_of_nobody() -> None:
    backend = DuckdbBackend([samples.table(person="id")], {"people": frame(example())})
    with pytest.raises(DataError, match="1 of 2 keys"):
        backend.find_people("people", ["p0", "nobody"])
    rows = DuckdbBackend([samples.table()], {"people": frame(example())})
    assert rows.find_people("people", [3, 1]).tolist() == [1, 3]
    for wrong in ([6], [-1], ["p0"]):
        with pytest.raises(DataError, match="number of a row"):
            rows.find_people("people", wrong)


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_question_that_takes_too_long_is_stopped() -> None:
    many = pl.DataFrame({"x": np.random.default_rng(1).normal(size=400_000)})
    spec = TableSpec(name="t", columns={"x": {"role": "public", "type": "number"}})
    backend = DuckdbBackend([spec], {"t": many}, Limits(seconds=0.002, threads=1))
    aggregates = tuple(Aggregate("quantile", "x", share / 32) for share in range(1, 31))
    with pytest.raises(QueryTimeout):
        backend.exact(Query("t", aggregates, group_by=("x",)))
    time.sleep(0.01)
    easy = DuckdbBackend([spec], {"t": many}, Limits(seconds=60, threads=1))
    assert easy.exact(Query("t", COUNT))["count"].item() == 400_000


def test_postgres_stops_a_question_that_takes_too_long(postgres_url: str) -> None:
    import psycopg

    with psycopg.connect(postgres_url) as base:
        base.execute("DROP TABLE IF EXISTS long")
        base.execute("CREATE TABLE long AS SELECT n, random() AS x FROM generate_series(1, 100000) AS n")
    spec = TableSpec(
        name="t", source=f"{postgres_url}?table=long", row_key="n", columns={"x": {"role": "public", "type": "number"}}
    )
    backend = open_backend([spec], limits=Limits(seconds=5))
    assert backend.people("t") == 100_000
    backend._limits = Limits(seconds=0.02)  # type: ignore[attr-defined]
    backend.close()
    aggregates = tuple(Aggregate("quantile", "x", share / 32) for share in range(1, 31))
    with pytest.raises(QueryTimeout):
        backend.exact(Query("t", aggregates, group_by=("x",)))
    backend.close()


def test_postgres_is_only_read_and_checked(postgres_url: str) -> None:
    import psycopg

    fill_postgres(postgres_url, example())
    source = f"{postgres_url}?table=people"
    backend = open_backend([samples.table(source=source, row_key="number")])
    with pytest.raises(QueryRefused), backend._cursor() as cursor:  # type: ignore[attr-defined]
        cursor.execute("DELETE FROM people")
    with psycopg.connect(postgres_url) as base:
        base.execute(f"UPDATE people SET \"{INCOME.replace(chr(34), chr(34) * 2)}\" = 'Infinity' WHERE number = 1")
        base.execute(f"UPDATE people SET \"{INCOME.replace(chr(34), chr(34) * 2)}\" = 'NaN' WHERE number = 2")
    assert (
        backend.exact(Query("people", (Aggregate("sum", INCOME),), Not(Condition(INCOME, "<", (1e9,)))))[
            f"sum_{INCOME}"
        ].item()
        is None
    )
    backend.close()
    for changes, says in (
        ({"row_key": "nmber"}, "did you mean 'number'"),
        ({"row_key": "id"}, "missing or repeated"),
        ({"source": f"{postgres_url}?table=nothing"}, "no table 'nothing'"),
        ({"columns": {"region": {"role": "public", "type": "number"}}}, "declared as number, but has the type text"),
    ):
        with pytest.raises((PlanError, DataError), match=says):
            open_backend([samples.table(**{"source": source, "row_key": "number", **changes})])


def test_several_databases_are_one(postgres_url: str) -> None:
    fill_postgres(postgres_url, example(5))
    remote = samples.table(name="remote", source=f"{postgres_url}?table=people", row_key="number", person="id")
    backend = open_backend([remote, samples.table()], {"people": frame(example(9))})
    assert isinstance(backend, Routed) and set(backend.tables) == {"remote", "people"}
    counts = {name: backend.exact(Query(name, COUNT))["count"].item() for name in backend.tables}
    assert counts == {"remote": 5, "people": 9} == {name: backend.rows(name) for name in backend.tables}
    assert backend.people("remote") == 4 and backend.refresh("remote") == 4
    assert backend.members("remote", Everything())[()].tolist() == [0, 1, 2, 3]
    assert backend.bounded(Query("people", COUNT))[()].rows == 9
    assert backend.person_of_rows("remote").tolist() == [0, 1, 2, 3, 0]
    assert backend.find_people("remote", ["p2"]).tolist() == [2]
    backend.close()


@settings(deadline=None, max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=samples.records())
def test_digests_change_with_the_values_of_the_first_rows_and_with_the_key(
    opened: Open, records: list[dict[str, Any]]
) -> None:
    names = ("", *samples.table().visible)
    first = opened(samples.table(), records).digests("people", names, len(records), b"key")
    longer = opened(samples.table(), records + records)
    assert longer.digests("people", names, len(records), b"key") == first
    if records:
        assert set(longer.digests("people", names, len(records), b"other").values()).isdisjoint(first.values())
        column = next(name for name in names[1:] if samples.COLUMNS[name]["type"] == "integer")
        other = [{**record, column: 77 if number == 0 else record[column]} for number, record in enumerate(records)]
        found = opened(samples.table(), other).digests("people", names, len(records), b"key")
        assert (found[column] == first[column]) == (records[0][column] == 77)
        assert all(found[name] == first[name] for name in names if name != column)


def test_signatures_know_equal_values_in_any_order_and_under_any_name(opened: Open) -> None:
    base: dict[str, Any] = {name: values[0] for name, values in samples.VALUES.items()}
    rows = [{**base, "id": f"p{n}", "age": n, "debt": n % 5, samples.INCOME: n / 8} for n in range(30)]
    first = opened(samples.table(person="id"), rows).signatures("people")
    assert {name for name, sign in first.items() if sign} == {"", "age", samples.INCOME}  # the others have few values
    assert opened(samples.table(person="id"), rows[::-1]).signatures("people") == first
    changed = [{**row, "age": row["age"] + (row["age"] == 7)} for row in rows]
    found = opened(samples.table(person="id"), changed).signatures("people")
    assert found["age"] != first["age"] and found[samples.INCOME] == first[samples.INCOME]
    swapped = [{**row, "debt": row["age"]} for row in rows]
    assert opened(samples.table(person="id"), swapped).signatures("people")["debt"] == first["age"]


@pytest.mark.slow
def test_squares_of_large_codes_do_not_overflow_with_millions_of_records() -> None:
    top, number = 2**52, 8_500_000  # 2¹⁰⁴ each: more than 2¹²⁷ together
    column = {"role": "sensitive", "type": "integer", "bounds": (top - 2**32, top)}
    table = TableSpec(name="t", columns={"x": column})
    backend = open_backend([table], {"t": pl.DataFrame({"x": np.full(number, top)})})
    (figure,) = backend.bounded(Query("t", (Aggregate("variance", "x"),)))[()].figures
    assert (figure.total, figure.squares) == (number * top, number * top * top)
    backend.close()


def test_scanned_rows_lie_in_a_private_file_as_long_as_they_are_served(tmp_path: Path) -> None:
    rows = [samples_row | {"id": str(number)} for number, samples_row in enumerate([dict.fromkeys(SCHEMA)] * 3)]
    data = scanned(rows, tmp_path)
    spill = data.store.spill
    backend = DuckdbBackend([samples.table(person="id", rows_per_person=1)], {"people": data})
    del data
    assert spill.stat().st_mode & 0o077 == 0 and list(spill.glob("service-*.duckdb"))
    assert backend.people("people") == 3
    backend.close()
    del backend
    gc.collect()
    assert not spill.exists()
