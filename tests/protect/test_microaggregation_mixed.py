"""MDAV on columns that are not all numbers, in blocks, with blurring, and with functions of one's own."""

from __future__ import annotations

import datetime as dt
import doctest
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import discretion as dc
from discretion.part import parse
from tests.protect import test_microaggregation_reference as reference

LEVELS = ["low", "middle", "high"]


def people(n: int = 120, seed: int = 0, missing: float = 0.0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "income": rng.lognormal(3, 0.5, n).round(3),
            "age": rng.integers(18, 90, n),
            "level": pl.Series(rng.choice(LEVELS, n), dtype=pl.Enum(LEVELS)),
            "town": rng.choice(list("abcdef"), n),
            "born": [dt.date(1950, 1, 1) + dt.timedelta(days=int(days)) for days in rng.integers(0, 20_000, n)],
            "owner": rng.random(n) < 0.3,
        }
    )
    if missing:
        frame = frame.with_columns(
            pl.when(pl.Series(rng.random(n) < missing)).then(None).otherwise(pl.col(name)).alias(name)
            for name in frame.columns
        )
    return frame


ALL = people(1).columns


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("k", [2, 5])
def test_mixed_columns_are_k_anonymous_and_keep_their_types(k: int, missing: float) -> None:
    data = dc.Dataset(people(missing=missing))
    released = dc.Mdav(columns=ALL, k=k)(data)
    assert dc.KAnonymity(k=k, columns=ALL)(released).holds
    types = dict(data.frame.schema) | {"age": pl.Float64}
    assert dict(released.frame.schema) == types
    for name in ALL:
        was, now = data.frame[name].is_null().to_numpy(), released.frame[name].is_null().to_numpy()
        assert not (was & ~now).any(), "a missing value was made up"
        assert np.array_equal(now & ~was, released.suppressed(name))
    if not missing:
        assert released.suppressed_cells == {}
        assert released.frame["income"].mean() == pytest.approx(data.frame["income"].mean())


@settings(max_examples=50, deadline=None)
@given(data=st.data(), k=st.integers(2, 4))
def test_k_anonymity_holds_for_any_mixed_data(data: st.DataObject, k: int) -> None:
    cells = map(st.sampled_from, (["x", "y", "z", None], [1, 2, 5, None], [True, False, None]))
    rows = data.draw(st.lists(st.tuples(*cells), min_size=k, max_size=25))
    frame = pl.DataFrame(rows, schema={"a": pl.String, "b": pl.Int64, "c": pl.Boolean}, orient="row")
    method = dc.Mdav(columns=["a", "b", "c"], k=k, aggregate=data.draw(st.sampled_from(["mean", "median", "mode"])))
    released = method(dc.Dataset(frame))
    assert dc.KAnonymity(k=k, columns=["a", "b", "c"])(released).holds


def test_groups_and_values_are_those_of_the_plain_algorithm() -> None:
    frame = people(60, seed=3)
    columns = ["income", "level", "town"]
    x = np.array([
        frame["income"].to_numpy(),
        frame["level"].to_physical().to_numpy().astype(float),
        [float("abcdef".index(town)) for town in frame["town"]],
    ])  # fmt: skip
    labels = reference.mdav(60, 4, *reference.gower(x, ["number", "ordinal", "nominal"], [0, 3, 6]))
    for aggregate in ("mean", "median", "mode"):
        got = dc.Mdav(columns=columns, k=4, aggregate=aggregate)(frame)
        for g in range(labels.max() + 1):
            inside = np.flatnonzero(labels == g)
            want = (
                pytest.approx(reference.stands_for(x[0, inside].tolist(), aggregate)),
                LEVELS[int(reference.stands_for(x[1, inside].tolist(), "low-median"))],
                "abcdef"[int(reference.stands_for(x[2, inside].tolist(), "mode"))],
            )
            assert len(set(got[inside].select(columns).rows())) == 1
            assert got[int(inside[0])].select(columns).row(0) == want


def test_the_order_of_an_ordinal_column_comes_from_the_schema() -> None:
    frame = pl.DataFrame({"level": ["high", "low", "middle", "high", "low", "middle"] * 5, "code": [3, 1, 2] * 10})
    ranked = dc.Dataset(frame, orders={"level": LEVELS})
    released = dc.Mdav(columns=["level"], k=30)(ranked).frame["level"]
    assert released.unique().to_list() == ["middle"]
    assert released.dtype == pl.String
    code = dc.Mdav(columns=["code"], k=30)(dc.Dataset(frame, types={"code": "ordinal"})).frame["code"]
    assert code.unique().to_list() == [2] and code.dtype == pl.Int64
    with pytest.raises(dc.DataError, match="'level' is ordinal, but nothing says in which order"):
        dc.Mdav(columns=["level"], k=3)(dc.Dataset(frame, types={"level": "ordinal"}))
    with pytest.raises(dc.DataError, match="'level' has 1 values that its order does not list"):
        dc.Mdav(columns=["level"], k=3)(dc.Dataset(frame, orders={"level": ["low", "middle"]}))


def test_nominal_columns_get_the_most_frequent_value_and_ties_the_first_in_order() -> None:
    frame = pl.DataFrame({"town": ["c", "b", "b", "c", "a"], "code": [9, 7, 7, 9, 8]})
    released = dc.Mdav(columns=["town", "code"], k=5)(dc.Dataset(frame, types={"code": "nominal"})).frame
    assert released.unique().rows() == [("b", 7)]


def test_dates_are_averaged() -> None:
    frame = pl.DataFrame({"born": [dt.date(2000, 1, 1), dt.date(2000, 1, 3), dt.date(2010, 5, 5), dt.date(2010, 5, 7)]})
    released = dc.Mdav(columns=["born"], k=2)(frame)["born"].to_list()
    assert released == [dt.date(2000, 1, 2)] * 2 + [dt.date(2010, 5, 6)] * 2


def test_median_and_mode_of_numbers() -> None:
    frame = pl.DataFrame({"x": [1, 2, 9, 9, 100, 101, 101, 130], "y": [0.0] * 8})
    median = dc.Mdav(columns=["x", "y"], k=4, aggregate="median")(frame)["x"]
    assert median.to_list() == [5.5] * 4 + [101.0] * 4
    mode = dc.Mdav(columns=["x", "y"], k=4, aggregate="mode")(frame)["x"]
    assert mode.to_list() == [9] * 4 + [101] * 4 and mode.dtype == pl.Int64


def test_gower_may_be_asked_for_on_numbers() -> None:
    frame = people(80)
    released = dc.Mdav(columns=["income", "age"], k=4, distance="gower")(frame)
    assert dc.KAnonymity(k=4, columns=["income", "age"])(released).holds
    assert not released.equals(dc.Mdav(columns=["income", "age"], k=4)(frame))


def test_euclidean_refuses_text() -> None:
    with pytest.raises(dc.DataError, match="'town' is text; a numeric column is needed"):
        dc.Mdav(columns=["income", "town"], distance="euclidean")(people())


@pytest.mark.parametrize("kind", ["bool", "int"])
def test_cosine_on_binary_columns(kind: str) -> None:
    rng = np.random.default_rng(5)
    x = rng.random((90, 5)) < 0.4
    x[:4] = False
    names = list("abcde")
    frame = pl.DataFrame(x if kind == "bool" else x.astype(int), schema=names)
    released = dc.Mdav(columns=names, k=3, distance="cosine")(frame)
    assert released.schema == frame.schema
    assert dc.KAnonymity(k=3, columns=names)(released).holds

    def angle(a: np.ndarray, b: np.ndarray) -> float:
        lengths = np.sqrt((a @ a) * (b @ b))
        return 1 - a @ b / lengths if lengths else float(a.any() != b.any())

    far = np.array([[angle(a.astype(float), b.astype(float)) for b in x] for a in x])
    groups = {tuple(row): np.flatnonzero((released.to_numpy() == row).all(axis=1)) for row in released.to_numpy()}
    inside = np.mean([far[np.ix_(rows, rows)].mean() for rows in groups.values()])
    assert inside < 0.5 * far.mean()
    with pytest.raises(dc.DataError, match="'age' is not binary"):
        dc.Mdav(columns=["owner", "age"], distance="cosine")(people())


def test_cosine_with_missing_values_and_empty_records() -> None:
    rng = np.random.default_rng(6)
    x = np.where(rng.random((60, 3)) < 0.1, np.nan, rng.integers(0, 2, (60, 3)))
    data = dc.Dataset(pl.DataFrame(x, schema=list("abc")).fill_nan(None))
    assert dc.KAnonymity(k=3, columns=list("abc"))(dc.Mdav(columns=list("abc"), k=3, distance="cosine")(data)).holds


def test_jaccard_on_a_column_of_sets() -> None:
    baskets = [["beer", "chips"], ["beer", "chips", "nuts"], ["beer"], ["milk", "bread"], ["milk"], ["bread", "milk"]]
    frame = pl.DataFrame({"basket": [*baskets, [], [], []]})
    released = dc.Mdav(columns="basket", k=3, distance="jaccard")(frame)
    assert released.schema == frame.schema
    assert released["basket"].to_list() == [["beer", "chips"]] * 3 + [["bread", "milk"]] * 3 + [[]] * 3
    missing = dc.Dataset(pl.DataFrame({"basket": [*baskets, None, None]}))
    hidden = dc.Mdav(columns="basket", k=4, distance="jaccard")(missing)
    assert dc.KAnonymity(k=4, columns=["basket"])(hidden).holds
    assert hidden.frame["basket"].is_null().to_list()[-2:] == [True, True]
    with pytest.raises(dc.DataError, match="'town' does not hold sets"):
        dc.Mdav(columns="town", distance="jaccard")(people())
    with pytest.raises(dc.DataError, match="'basket' holds sets"):
        dc.Mdav(columns="basket")(frame)


def test_edit_distance_on_a_column_of_texts() -> None:
    frame = pl.DataFrame({"name": ["jon", "john", "johan", "mary", "marie", "maria", "mari"]})
    released = dc.Mdav(columns="name", k=3, distance="edit")(frame)["name"].to_list()
    assert released == ["john"] * 3 + [released[3]] * 4 and released[3] in {"mari", "marie", "maria"}
    missing = dc.Dataset(pl.DataFrame({"name": [*frame["name"], None]}, schema={"name": pl.Categorical}))
    hidden = dc.Mdav(columns="name", k=4, distance="edit")(missing)
    assert dc.KAnonymity(k=4, columns=["name"])(hidden).holds and hidden.frame["name"].dtype == pl.Categorical
    with pytest.raises(dc.DataError, match="'age' is not text"):
        dc.Mdav(columns="age", distance="edit")(people())
    with pytest.raises(dc.PlanError, match="edit is for one column, got 2"):
        dc.Mdav(columns=["town", "level"], distance="edit")(people())


def test_too_few_records_for_every_distance() -> None:
    frame = pl.DataFrame({"t": ["a", "b"], "s": [["a"], ["b"]], "z": [0, 1]})
    for column, distance in (("t", None), ("t", "edit"), ("s", "jaccard"), ("z", "cosine"), ("z", None)):
        with pytest.raises(dc.DataError, match="k = 3 is larger than the 2 records"):
            dc.Mdav(columns=column, distance=distance, k=3)(frame)
        with pytest.raises(dc.DataError, match="k = 3 is larger than the 0 records"):
            dc.Mdav(columns=column, distance=distance, k=3)(frame.clear())


def test_blocks_are_grouped_on_their_own() -> None:
    frame = people()
    method = dc.Mdav(blocks=[["income", "age"], ["town"]], k=5)
    released = method(frame)
    for block in (["income", "age"], ["town"]):
        assert_frame_equal(released.select(block), dc.Mdav(columns=block, k=5)(frame).select(block))
    assert dc.KAnonymity(k=5, columns=["income", "age"])(released).holds
    assert dc.KAnonymity(k=5, columns=["town"])(released).holds
    assert not dc.KAnonymity(k=5, columns=["income", "age", "town"])(released).holds
    assert parse(yaml.safe_load(yaml.safe_dump(method.to_plan()))) == method


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"columns": ["a"], "blocks": [["b"]]}, "give `columns` or `blocks`, not both"),
        ({"blocks": [["a"], ["b", "a"]]}, "names 'a' twice"),
        ({"blocks": [["a"], []]}, "a block without columns"),
        ({"blocks": [["a"]], "by": ["a"]}, "'a' stands both in `blocks` and in `by`"),
        ({"distance": "manhattan"}, "distance"),
        ({"replace": "two"}, "replace"),
    ],
)
def test_wrong_fields(fields: dict[str, object], words: str) -> None:
    with pytest.raises(dc.PlanError, match=words):
        dc.Mdav(**fields)


def test_blocks_on_the_command_line(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from discretion.cli.app import app

    people().select("income", "age", "town").write_csv(tmp_path / "in.csv")
    files = [str(tmp_path / "in.csv"), str(tmp_path / "out.csv")]
    done = CliRunner().invoke(app, ["apply", "mdav", *files, "--blocks", "income+age,town", "--k", "4"])
    assert done.exit_code == 0, done.output
    released = pl.read_csv(tmp_path / "out.csv")
    assert dc.KAnonymity(k=4, columns=["income", "age"])(released).holds
    assert dc.KAnonymity(k=4, columns=["town"])(released).holds


def test_within_strata_groups_do_not_mix() -> None:
    frame = people()
    released = dc.Mdav(columns=["income", "town"], k=3, by=["owner"])(frame)
    for owner in (True, False):
        part = frame.filter(pl.col("owner") == owner)
        assert_frame_equal(released.filter(pl.col("owner") == owner), dc.Mdav(columns=["income", "town"], k=3)(part))


@pytest.mark.parametrize("columns", [["income", "age"], ["income", "town", "level"], ["town"], ["income"]])
def test_blurring_replaces_one_value_per_group_and_column(columns: list[str]) -> None:
    frame = people(200, missing=0.05)
    data = dc.Dataset(frame)
    whole = dc.Mdav(columns=columns, k=5)(data, seed=1)
    blurred = dc.Mdav(columns=columns, k=5, replace="one")(data, seed=2)
    other = dc.Mdav(columns=columns, k=5, replace="one")(data, seed=3)
    assert blurred.suppressed_cells == {}
    for name in columns:
        assert np.array_equal(blurred.frame[name].is_null(), frame[name].is_null())
        changed = int((blurred.frame[name] != frame[name]).sum())
        assert 0 < changed <= 200 // 5 or name == "level"
    if "income" in columns and "town" not in columns:
        assert not blurred.frame.equals(other.frame)
    assert not dc.KAnonymity(k=5, columns=columns)(blurred).holds or columns == ["town"]
    assert dc.KAnonymity(k=5, columns=columns)(whole).holds


def test_blurring_draws_every_member_alike() -> None:
    frame = pl.DataFrame({"x": [0.0, 1.0, 5.0], "y": [1.0, 1.0, 1.0]})
    method = dc.Mdav(columns=["x", "y"], k=3, replace="one")
    hits = np.zeros(3)
    for seed in range(600):
        hits += (method(frame, seed=seed)["x"] != frame["x"]).to_numpy()
    assert hits.sum() == 600 and np.abs(hits - 200).max() < 5 * np.sqrt(600 * 2 / 9)


def test_sets_and_texts_can_be_blurred() -> None:
    frame = pl.DataFrame({"s": [["a"], ["a", "b"], ["a", "c"], None], "t": ["x", "xy", "xz", None]})
    sets = dc.Mdav(columns="s", k=4, distance="jaccard", replace="one")(frame, seed=3)["s"].to_list()
    texts = dc.Mdav(columns="t", k=4, distance="edit", replace="one")(frame, seed=3)["t"].to_list()
    assert sets[3] is None and texts[3] is None
    assert sum(a != b for a, b in zip(sets, frame["s"].to_list(), strict=True)) <= 1
    assert sum(a != b for a, b in zip(texts, frame["t"].to_list(), strict=True)) <= 1


def test_frame_libraries_index_and_row_order_do_not_matter() -> None:
    frame = people(80, seed=9)
    columns = ["income", "age", "town", "owner"]
    method = dc.Mdav(columns=columns, k=4)
    want = method(frame)
    odd = frame.to_pandas()
    odd.index = pd.Index(np.arange(80)[::-1] * 3)
    got = method(odd)
    assert got.index.equals(odd.index)
    for name in columns:
        assert got[name].tolist() == want[name].to_list()
    order = np.random.default_rng(1).permutation(80)
    assert_frame_equal(method(frame[order]), want[order])


def test_functions_of_ones_own() -> None:
    frame = people(60)
    plain = dc.Mdav(columns=["income"], k=4)
    same = plain.with_functions(aggregate=lambda records: (sum(value for (value,) in records) / len(records),))
    assert_frame_equal(same(frame), plain(frame))
    near = plain.with_functions(distance=lambda one, other: abs(one[0] - other[0]))(frame)
    assert dc.KAnonymity(k=4, columns=["income"])(near).holds
    assert near["income"].mean() == pytest.approx(frame["income"].mean())
    within = dc.Mdav(columns=["town"], k=3, by=["owner"]).with_functions(distance=lambda a, b: float(a != b))(frame)
    assert dc.KAnonymity(k=3, columns=["town", "owner"])(within).holds


def test_functions_and_missing_values() -> None:
    data = dc.Dataset(people(60, missing=0.15))
    columns = ["income", "town"]

    def first(records: list[tuple[object, ...]]) -> tuple[object, ...]:
        return records[0]

    method = dc.Mdav(columns=columns, k=3)
    released = method.with_functions(distance=lambda a, b: float(a[1] != b[1]), aggregate=first)(data)
    assert dc.KAnonymity(k=3, columns=columns)(released).holds
    blurred = dc.Mdav(columns=columns, k=3, replace="one").with_functions(aggregate=first)(data, seed=1)
    assert blurred.suppressed_cells == {}


def test_wrong_functions_are_refused_in_words() -> None:
    frame = people(20)
    method = dc.Mdav(columns=["income", "town"], k=3)
    with pytest.raises(dc.PlanError, match="give a `distance` or an `aggregate`"):
        method.with_functions()
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(dc.DataError, match="negative or infinite"):
            method.with_functions(distance=lambda a, b, wrong=wrong: wrong)(frame)
    for answer in ((1.0,), "ab", 3):
        with pytest.raises(dc.DataError, match="must give 2 values"):
            method.with_functions(aggregate=lambda records, answer=answer: answer)(frame)
    with pytest.raises(dc.DataError, match="do not fit column 'born'"):
        dc.Mdav(columns=["born"], k=3).with_functions(aggregate=lambda records: ("never",))(frame)
    with pytest.raises(dc.PlanError, match="cannot be written into a plan"):
        method.with_functions(distance=lambda a, b: 0.0).to_plan()


def test_the_example_of_functions_runs() -> None:
    found = doctest.DocTestFinder(recurse=False).find(dc.Mdav.with_functions, "with_functions", globs={})
    assert found[0].examples and doctest.DocTestRunner().run(found[0]).failed == 0


@pytest.mark.parametrize(
    "method",
    [
        dc.Mdav(columns=["income", "town"], k=3),
        dc.Mdav(columns=["town"], k=3, distance="edit"),
        dc.Mdav(columns=["owner"], k=3, distance="cosine"),
        dc.Mdav(columns=["income"], k=3).with_functions(distance=lambda a, b: abs(a[0] - b[0])),
    ],
)
def test_cancel(method: dc.Method) -> None:
    def cancel(done: int, total: int, label: str) -> None:
        raise dc.Cancelled("stop")

    with pytest.raises(dc.Cancelled):
        method(people(40), progress=cancel)
