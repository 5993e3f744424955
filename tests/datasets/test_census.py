"""The artificial census is plausible, complete in its roles, and the same for the same seed."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from discretion.data.dataset import Dataset
from discretion.datasets import census, census_frame, census_hierarchies, census_roles
from discretion.errors import PlanError


@pytest.fixture(scope="module")
def people() -> Dataset:
    return census(50_000, seed=3)


@pytest.fixture(scope="module")
def frame(people: Dataset) -> pl.DataFrame:
    return people.frame


def test_columns_and_roles(people: Dataset) -> None:
    assert people.columns == tuple(census_roles())
    assert people.having("identifier") == ("person_id", "name")
    assert people.having("household") == ("household",)
    assert people.having("weight") == ("weight",)
    assert people.having("geography") == ("region", "municipality")
    assert people.having("stratum") == ("region",)
    assert people.having("sensitive") == ("income", "savings", "diagnoses")
    quasi = (
        "region",
        "municipality",
        "age",
        "sex",
        "marital_status",
        "education",
        "occupation",
        "birth_date",
    )
    assert people.having("quasi") == quasi


def test_types(people: Dataset) -> None:
    found = {name: people.type_of(name) for name in people.columns}
    assert found["education"] == "ordinal"
    assert found["occupation"] == "nominal"
    assert found["income"] == "continuous"
    assert found["diagnoses"] == "set"
    assert found["birth_date"] == "date"


def test_education_order_covers_all_levels(people: Dataset) -> None:
    order = people.schema["education"].order
    assert set(people.frame["education"].drop_nulls()) == set(order)
    assert order[0] == "no schooling"
    assert order[-1] == "doctorate"


@pytest.mark.parametrize("seed", [0, 1, 2**63])
@pytest.mark.parametrize("n", [1, 10, 1_000, 50_000])
def test_hierarchies_bind(n: int, seed: int) -> None:
    people = census(n, seed)
    assert len(people) == n
    for column in census_hierarchies():
        levels = people.hierarchy(column)
        assert set(levels.table[-1]) == {"*"}, column


def test_heights_of_hierarchies(people: Dataset) -> None:
    heights = {column: people.hierarchy(column).height for column in census_hierarchies()}
    assert heights == {
        "region": 2,
        "municipality": 3,
        "age": 5,
        "sex": 1,
        "marital_status": 2,
        "education": 2,
        "occupation": 2,
        "birth_date": 4,
    }


def test_labels_tell_their_level(people: Dataset) -> None:
    for column in census_hierarchies():
        levels = people.hierarchy(column)
        for level, labels in enumerate(levels.table):
            assert set(levels.level_of(labels).tolist()) == {level}, column


def test_domains_have_the_promised_sizes(people: Dataset) -> None:
    assert people.hierarchy("region").size == 12
    assert people.hierarchy("municipality").size == 150
    assert people.hierarchy("occupation").size == 36
    assert len(set(people.hierarchy("occupation").table[1])) == 8


def test_households_lie_in_municipalities_and_these_in_regions(frame: pl.DataFrame) -> None:
    homes = frame.group_by("household").agg(pl.col("municipality", "region", "weight").n_unique())
    assert homes.select(pl.col("municipality", "region", "weight").max()).row(0) == (1, 1, 1)
    towns = frame.group_by("municipality").agg(pl.col("region").n_unique())
    assert towns["region"].max() == 1
    assert frame["municipality"].n_unique() == 150


def test_geography_matches_its_hierarchy(people: Dataset) -> None:
    towns = people.frame["municipality"].to_list()
    assert people.hierarchy("municipality").labels(towns, 1) == people.frame["region"].to_list()


def test_sizes_of_households(frame: pl.DataFrame) -> None:
    sizes = frame["household"].value_counts()["count"]
    assert sizes.min() == 1
    assert sizes.max() == 7
    assert 2.2 < sizes.mean() < 2.6


def test_sizes_of_municipalities_are_uneven(frame: pl.DataFrame) -> None:
    sizes = frame["municipality"].value_counts(sort=True)["count"]
    assert sizes[0] > 15 * sizes[-1]
    assert sizes[:15].sum() > 0.3 * len(frame)


def test_ages_and_household_structure(frame: pl.DataFrame) -> None:
    assert frame["age"].min() == 0
    assert 90 <= frame["age"].max() <= 100
    assert 0.1 < (frame["age"] < 16).mean() < 0.35
    assert 0.1 < (frame["age"] >= 65).mean() < 0.3
    homes = frame.group_by("household").agg(oldest=pl.col("age").max())
    assert homes["oldest"].min() >= 18


def test_couples_are_of_similar_age(frame: pl.DataFrame) -> None:
    couples = (
        frame.filter(pl.col("marital_status") == "married")
        .group_by("household")
        .agg(pl.len(), gap=pl.col("age").max() - pl.col("age").min(), sexes=pl.col("sex").n_unique())
        .filter(pl.col("len") == 2)
    )
    assert len(couples) > 5_000
    assert couples["gap"].median() <= 5
    assert (couples["sexes"] == 2).mean() > 0.9


def test_children_are_younger_than_their_parents(frame: pl.DataFrame) -> None:
    homes = frame.group_by("household").agg(
        pl.len(),
        child=pl.col("age").filter(pl.col("age") < 18).max(),
        parent=pl.col("age").filter(pl.col("age") >= 18).max(),
    )
    gap = (homes["parent"] - homes["child"]).drop_nulls()
    assert len(gap) > 3_000
    assert gap.min() >= 16


def test_minors_are_single_children_without_income(frame: pl.DataFrame) -> None:
    assert set(frame.filter(pl.col("age") < 18)["marital_status"]) == {"single"}
    children = frame.filter(pl.col("age") < 16)
    assert set(children["occupation"].drop_nulls()) == {"child"}
    assert children["income"].drop_nulls().max() == 0
    assert children["hours"].max() == 0
    assert set(children["education"].drop_nulls()) <= {"no schooling", "primary", "lower secondary"}


def test_hours_fit_the_occupation(people: Dataset) -> None:
    known = people.frame.filter(pl.col("occupation").is_not_null())
    group = people.hierarchy("occupation").labels(known["occupation"].to_list(), 1)
    idle = pl.Series(group) == "not in work"
    assert known.filter(idle)["hours"].max() == 0
    assert known.filter(~idle)["hours"].min() >= 4
    assert known["hours"].max() <= 80


def test_birth_dates_agree_with_ages(frame: pl.DataFrame) -> None:
    day = dt.date(2024, 12, 31)
    assert frame["birth_date"].max() <= day
    years = frame.select((pl.lit(day.year) - pl.col("birth_date").dt.year()) == pl.col("age"))
    assert years.to_series().all()
    assert (frame["birth_date"].dt.strftime("%m-%d") == "02-29").any()


def test_income_is_skewed_and_depends_on_education(frame: pl.DataFrame) -> None:
    income = frame["income"].drop_nulls()
    assert income.min() == 0
    assert income.mean() > 1.2 * income.median()
    workers = frame.filter((pl.col("hours") >= 30) & pl.col("income").is_not_null())
    assert workers["income"].mean() > 1.2 * workers["income"].median()
    assert workers["income"].max() > 10 * workers["income"].median()
    by_level = dict(workers.group_by("education").agg(pl.col("income").median()).rows())
    assert by_level["master"] > 1.4 * by_level["lower secondary"]
    by_sex = dict(workers.group_by("sex").agg(pl.col("income").median()).rows())
    assert by_sex["male"] > by_sex["female"]


def test_savings_follow_income_and_may_be_negative(frame: pl.DataFrame) -> None:
    adults = frame.filter((pl.col("age") >= 18) & pl.col("income").is_not_null())
    assert 0.05 < (adults["savings"] < 0).mean() < 0.25
    assert adults.select(pl.corr("income", "savings", method="spearman")).item() > 0.3


def test_missing_answers(frame: pl.DataFrame) -> None:
    for column in ("education", "occupation", "income"):
        assert 0.01 < frame[column].null_count() / len(frame) < 0.03, column
    complete = frame.drop("education", "occupation", "income")
    assert sum(complete.null_count().row(0)) == 0


def test_income_is_not_missing_at_random(frame: pl.DataFrame) -> None:
    refused = pl.col("income").is_null().mean()
    by_level = dict(frame.filter(pl.col("hours") > 0).group_by("education").agg(refused).rows())
    assert by_level["master"] > 1.5 * by_level["lower secondary"]


def test_weights(frame: pl.DataFrame) -> None:
    assert frame["weight"].min() > 0
    means = frame.group_by("region").agg(pl.col("weight").mean())["weight"]
    assert means.max() > 3 * means.min()


def test_diagnoses(frame: pl.DataFrame) -> None:
    count = frame["diagnoses"].list.len()
    assert frame["diagnoses"].dtype == pl.List(pl.String)
    assert count.min() == 0
    assert count.max() == 5
    assert (frame["diagnoses"].list.n_unique() == count).all()
    assert count.filter(frame["age"] >= 70).mean() > 3 * count.filter(frame["age"] < 40).mean()


def test_person_ids_are_unique_and_names_artificial(frame: pl.DataFrame) -> None:
    assert frame["person_id"].n_unique() == len(frame)
    assert not frame["person_id"].is_sorted()
    assert frame["name"].str.contains(r"^[A-Z][a-z]+ [A-Z][a-z]+$").all()
    assert frame["name"].n_unique() > 0.9 * len(frame)


def test_no_nan_stands_for_missing(frame: pl.DataFrame) -> None:
    assert not frame["income"].is_nan().any()


def test_same_seed_same_data() -> None:
    assert_frame_equal(census_frame(2_000, 5), census_frame(2_000, 5))
    assert_frame_equal(census_frame(2_000, 5), census(2_000, 5).frame)
    assert not census_frame(2_000, 5).equals(census_frame(2_000, 6))


@pytest.mark.parametrize("n", range(1, 8))
def test_tiny_censuses(n: int) -> None:
    for seed in range(20):
        assert census_frame(n, seed).shape == (n, len(census_roles()))


def test_repr_shows_no_values() -> None:
    people = census(50, 1)
    shown = repr(people)
    assert shown.startswith("Dataset(50 rows × 16 columns: person_id [identifier], ")
    for column in ("name", "municipality", "occupation"):
        assert not any(value in shown for value in people.frame[column].drop_nulls())


@pytest.mark.parametrize("n", [0, -1, 2.5, "many", True, None])
def test_wrong_number_of_persons(n: object) -> None:
    with pytest.raises(PlanError, match="`n` must be a whole number"):
        census(n)  # type: ignore[arg-type]


def test_all_faults_at_once() -> None:
    with pytest.raises(PlanError) as caught:
        census(0, seed=-1)
    assert len(caught.value.problems) == 2


def test_numpy_integers_are_numbers() -> None:
    assert len(census(np.int64(12), np.int32(4))) == 12  # type: ignore[arg-type]


def test_import_is_light() -> None:
    code = (
        "import sys, discretion; assert 'discretion.datasets' not in sys.modules; "
        "import discretion.datasets; assert 'numpy' not in sys.modules and 'polars' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
