from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

import discretion as dc
from discretion.context import Context
from discretion.part import parse
from discretion.risk.identity.intruder import view


@pytest.fixture(scope="module")
def people() -> dc.Dataset:
    return dc.datasets.census(300, seed=1)


def swapped(people: dc.Dataset) -> dc.Dataset:
    return dc.RankSwap(columns=["income", "savings"], percent=10)(people, seed=2)  # type: ignore[no-any-return]


def test_the_default_is_the_worst_case_and_says_so(people: dc.Dataset) -> None:
    seen = view(dc.Intruder(), people, people, ["age", "sex"], Context(1))
    assert seen.worst_case and seen.known is people and seen.rows.tolist() == list(range(300))
    assert dc.Intruder().describe(["age"]) == "knows the original values of age for every record (worst case)"
    assert "worst case" not in dc.Intruder(records=10).describe()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"records": 0.25, "columns": "income"},
        {"records": [3, 1], "error": {"sd_share": 0.1, "share": 0.2}},
        {"schema": {"earnings": "income"}, "data": "register.csv", "id": "person"},
        {"knows_method": True, "method": [{"rank-swap": {"percent": 10}}]},
    ],
)
def test_survives_a_plan(fields: dict[str, object]) -> None:
    made = dc.DistanceLinkage(columns=["income"], intruder=fields)
    assert parse(yaml.safe_load(yaml.safe_dump(made.to_plan()))) == made
    assert made.settings().get("intruder", {}).keys() == fields.keys()
    assert "intruder" not in made.settings(public=True)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"records": 0}, "records"),
        ({"records": 1.5}, "records"),
        ({"records": [1, 1]}, "none twice"),
        ({"records": []}, "at least one"),
        ({"nonsense": 1}, "unknown field"),
        ({"error": {"share": 2}}, "share"),
        ({"method": ["mdav"], "knows_method": False}, "knows_method"),
        ({"method": ["k-anonymity"], "knows_method": True}, "method"),
        ({"id": "person"}, "data"),
    ],
)
def test_bad_fields_are_plan_errors(fields: dict[str, object], message: str) -> None:
    with pytest.raises(dc.PlanError, match=message):
        dc.DistanceLinkage(columns=["income"], intruder=fields)


def test_some_records(people: dc.Dataset) -> None:
    people = people.drop(["household"])  # a published number joins records
    released = swapped(people)
    whole = dc.DistanceLinkage(columns=["income", "savings"])(people, released)
    rows = [5, 0, 17]
    columns, blind = ["income", "savings"], {"knows_method": False}
    score = dc.DistanceLinkage(columns=columns, standardize=False, intruder={"records": rows, **blind})(
        people, released
    )
    same = dc.DistanceLinkage(columns=columns, standardize=False, intruder=blind)(people, released)
    assert score.per_record is not None and same.per_record is not None and whole.per_record is not None
    assert np.flatnonzero(~np.isnan(score.per_record)).tolist() == [0, 5, 17]
    assert score.value == pytest.approx(same.per_record[rows].mean())
    assert score.detail["records"] == 3
    drawn = dc.DistanceLinkage(columns=["income"], intruder={"records": 0.1})
    assert drawn(people, released, seed=4).detail["records"] == 30
    assert drawn(people, released, seed=4).value == drawn(people, released, seed=4).value
    with pytest.raises(dc.DataError, match="row 300 does not exist"):
        dc.DistanceLinkage(columns=["income"], intruder={"records": [300]})(people, released)
    with pytest.raises(dc.DataError, match="cannot have 301 records"):
        dc.DistanceLinkage(columns=["income"], intruder={"records": 301})(people, released)


def test_row_numbers_follow_the_original_through_a_sample(people: dc.Dataset) -> None:
    released = swapped(people).take(np.arange(299, 99, -1))
    seen = view(
        dc.Intruder(records=(120, 7, 299)), people.take(np.arange(299, 99, -1)), released, ["income"], Context(1)
    )
    assert seen.rows.tolist() == [179, 0]
    assert seen.known.frame["income"].to_list() == [people.frame["income"][120], people.frame["income"][299]]


def test_some_columns(people: dc.Dataset) -> None:
    released = swapped(people)
    few = dc.DistanceLinkage(columns=["income", "savings"], intruder={"columns": ["income"]})(people, released)
    one = dc.DistanceLinkage(columns=["income"])(people, released)
    assert few.value == one.value and few.detail["columns"] == ["income"]
    with pytest.raises(dc.PlanError, match="must be columns of the measure"):
        dc.DistanceLinkage(columns=["income"], intruder={"columns": ["savings"]})(people, released)


def test_errors_have_the_size_that_was_asked_for() -> None:
    rng = np.random.default_rng(1)
    data = dc.Dataset(pl.DataFrame({"x": rng.normal(5, 3, 20_000), "c": rng.choice(list("abcd"), 20_000)}))
    seen = view(dc.Intruder(error={"sd_share": 0.2, "share": 0.3}), data, data, ["x", "c"], Context(3))
    assert np.std(seen.known.number("x") - data.number("x")) == pytest.approx(0.2 * data.number("x").std(), rel=0.03)
    wrong = (seen.known.frame["c"] != data.frame["c"]).to_numpy()
    assert wrong.mean() == pytest.approx(0.3, abs=0.015)
    counts = seen.known.frame.filter(pl.Series(wrong))["c"].value_counts()["count"]
    assert counts.min() > 0.9 * counts.max()  # type: ignore[operator]


def test_errors_lower_the_figure() -> None:
    x = np.random.default_rng(1).normal(size=(500, 2))
    data = pl.DataFrame(x, schema=["a", "b"])
    clean = dc.DistanceLinkage(columns=["a", "b"])(data, data).value
    noisy = dc.DistanceLinkage(columns=["a", "b"], intruder={"error": {"sd_share": 0.3}})(data, data).value
    assert clean == 1.0 and noisy < 0.2


def test_a_file_with_other_names_matched_by_an_id(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    original = pl.DataFrame({"id": [f"p{i}" for i in range(100)], "income": rng.normal(size=100)})
    own = original[rng.permutation(100)[:40]].rename({"income": "earnings"})
    strangers = pl.DataFrame({"id": ["x1", "x2"], "earnings": [0.1, 0.2]})
    path = tmp_path / "register.csv"
    pl.concat([own, strangers]).write_csv(path)
    fields = {"data": str(path), "id": "id", "schema": {"earnings": "income"}}
    score = dc.DistanceLinkage(columns=["income"], intruder=fields)(original, original)
    assert score.detail["records"] == 42
    assert score.value == pytest.approx(40 / 42)
    assert score.per_record is not None and np.isnan(score.per_record).sum() == 60
    with pytest.raises(dc.DataError, match="nothing tells which belong together"):
        dc.DistanceLinkage(columns=["income"], intruder={"data": str(path), "schema": {"earnings": "income"}})(
            original, original
        )


def test_a_release_with_other_names() -> None:
    data = pl.DataFrame({"age": [1.0, 5.0, 9.0]})
    released = data.rename({"age": "years"})
    score = dc.DistanceLinkage(columns=["years"], intruder={"schema": {"age": "years"}})(data, released)
    assert score.value == 1.0


def test_the_steps_of_a_release_travel_with_it(people: dc.Dataset) -> None:
    released = dc.Generalize(levels={"age": 1})(swapped(people))
    assert [step.kind for step in released.steps] == ["rank-swap", "generalize"]
    assert [step.kind for step in released.take(np.arange(5)).drop(["age"]).steps] == ["rank-swap", "generalize"]
    study = dc.Study(people, seed=1).apply(dc.Mdav(columns=["income"], k=3))
    assert [step.kind for step in study.current.steps] == ["mdav"]
    assert study.undo().current.steps == ()
    assert "rank" not in repr(released)


def test_an_unknown_method_is_scanned_and_can_be_named(people: dc.Dataset) -> None:
    released = swapped(people)
    outside = released.frame
    columns = ["income", "savings"]
    scanned = dc.DistanceLinkage(columns=columns, intruder={"knows_method": True})(people, outside)
    assert "rank-swap" in scanned.detail["assumed"] and scanned.detail["scanned"]
    step = {"rank-swap": {"columns": columns, "percent": 10}}
    told = dc.DistanceLinkage(columns=columns, intruder={"knows_method": True, "method": [step]})(people, outside)
    inside = dc.DistanceLinkage(columns=columns, intruder={"knows_method": True})(people, released)
    assert told.detail["informed"] == inside.detail["informed"]
    unchanged = dc.DistanceLinkage(columns=columns, intruder={"knows_method": True})(people, people)
    assert unchanged.value == dc.DistanceLinkage(columns=columns)(people, people).value


def test_a_path_in_a_plan_starts_at_its_folder(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(
        "confirmed: true\nroles: {income: quasi}\n"
        "measures: [{distance-linkage: {columns: [income], intruder: {data: register.csv, id: person}}}]\n"
    )
    measure = dc.Plan.load(tmp_path / "plan.yaml").measures[0].measure
    assert isinstance(measure, dc.DistanceLinkage)
    assert measure.intruder.data == str(tmp_path / "register.csv")
