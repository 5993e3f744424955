"""The worked tables have the shape and carry the plain facts that the catalogue states."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from discretion import datasets
from discretion.data.dataset import Dataset
from discretion.errors import PlanError


def classes(data: Dataset, columns: list[str] | None = None) -> list[int]:
    return sorted(data.frame.group_by(columns or list(data.having("quasi"))).len()["len"].to_list())


def versions(name: str) -> tuple[Dataset, ...]:
    found = datasets.table(name)
    return found if isinstance(found, tuple) else (found,)


SHAPES = {
    "identified-people": [(9, 6)],
    "people-without-names": [(9, 5)],
    "three-anonymous": [(6, 4)],
    "homogeneous-classes": [(6, 4)],
    "diverse-classes": [(6, 4)],
    "generalization-example": [(9, 4)] * 2,
    "generalized-release": [(9, 5)],
    "teachers-list": [(6, 4)],
    "adjacent-ages": [(10, 1), (9, 1), (9, 1)],
    "coin-answers": [(6, 5)],
    "schizophrenia-counts": [(5, 2), (6, 2), (4, 2), (6, 2)],
    "students": [(9, 5)],
    "linkage-example": [(5, 3)] * 3,
    "divergence-example": [(5, 3)] * 3,
    "error-example": [(10, 2)] * 3,
    "noise-example": [(10, 2)] * 3,
    "rank-swap-example": [(10, 1)] * 2,
    "microaggregation-example": [(10, 1)] * 2,
    "precision-example": [(4, 2)] * 5,
    "class-sizes": [(6, 3), (6, 3), (7, 3)],
    "entropy-example": [(10, 1)] * 3,
    "tree-predictions": [(8, 5)],
}


def test_names_are_those_expected() -> None:
    assert set(datasets.names()) == set(SHAPES)


@pytest.mark.parametrize("name", list(SHAPES))
def test_shapes(name: str) -> None:
    assert [data.frame.shape for data in versions(name)] == SHAPES[name]


@pytest.mark.parametrize("name", list(SHAPES))
def test_every_table_is_described_and_exported(name: str) -> None:
    assert datasets.describe(name).startswith("Give ")
    function = getattr(datasets, name.replace("-", "_"))
    assert function.__name__ in datasets.__all__


@pytest.mark.parametrize("name", list(SHAPES))
def test_hierarchies_bind(name: str) -> None:
    for data in versions(name):
        for column in data.columns:
            if data.schema[column].hierarchy is not None:
                assert data.hierarchy(column).height >= 1


@pytest.mark.parametrize("name", list(SHAPES))
def test_repr_shows_no_values(name: str) -> None:
    for data in versions(name):
        texts = data.frame.select(pl.col(pl.String)).to_dict(as_series=False)
        for column, cells in texts.items():
            assert not any(cell in repr(data) for cell in cells if len(cell) > 3), column


def test_unknown_name() -> None:
    for look in (datasets.table, datasets.describe):
        with pytest.raises(PlanError, match="did you mean 'three-anonymous'"):
            look("three-anonymos")


def test_zip_codes_are_text() -> None:
    assert datasets.people_without_names().frame.schema["zip"] == pl.String
    assert datasets.people_without_names().frame.schema["age"] == pl.Int64


def test_knowledge_of_an_intruder() -> None:
    frame = datasets.people_without_names().frame
    assert frame["occupation"].n_unique() == 9
    here, woman = pl.col("zip") == "40831", pl.col("sex") == "F"
    assert [frame.filter(known).height for known in (here & woman, here, woman)] == [2, 3, 4]
    assert frame.filter(here & woman)["income"].to_list() == [18098, 790]


def test_identified_people_are_the_same_but_for_a_zip() -> None:
    named, plain = datasets.identified_people(), datasets.people_without_names()
    assert named.having("identifier") == ("name",)
    assert named.frame.drop("name", "zip").equals(plain.frame.drop("zip"))
    assert (named.frame["zip"] != plain.frame["zip"]).sum() == 1


def test_three_anonymous() -> None:
    assert classes(datasets.three_anonymous()) == [3, 3]


def test_homogeneous_classes() -> None:
    data = datasets.homogeneous_classes()
    assert classes(data) == [3, 3]
    spans = data.frame.group_by("zip").agg(low=pl.col("income").min(), high=pl.col("income").max()).sort("zip")
    assert spans.rows() == [("80100", 10000, 10000), ("97222", 23000, 28000)]


def test_diverse_classes() -> None:
    data = datasets.diverse_classes()
    assert classes(data) == [3, 3]
    counts = [
        group["income"].value_counts()["count"].to_numpy() / 3
        for _, group in data.frame.group_by("zip", maintain_order=True)
    ]
    entropies = [float(-(share * np.log2(share)).sum()) for share in counts]
    assert [len(share) for share in counts] == [2, 3]
    assert entropies == pytest.approx([0.9183, 1.5850], abs=5e-5)
    assert 2 ** min(entropies) == pytest.approx(1.8899, abs=5e-5)


def test_generalization_follows_the_hierarchies() -> None:
    original, released = datasets.generalization_example()
    for column, level in released.levels.items():
        assert isinstance(level, int)
        leaves = [str(value) for value in original.frame[column]]
        assert original.hierarchy(column).labels(leaves, level) == released.frame[column].to_list()
    assert classes(released, ["occupation", "zip", "age"]) == [3, 3, 3]
    assert min(classes(released)) == 1
    assert released.hierarchy("zip") is original.hierarchy("zip")


def test_generalized_release_and_the_teachers() -> None:
    release, teachers = datasets.generalized_release(), datasets.teachers_list()
    assert min(classes(release)) == 1
    alone = release.frame.with_row_index("record", 1)
    unique = alone.filter(pl.len().over(release.having("quasi")) == 1)["record"].to_list()
    assert 4 in unique
    linked = teachers.frame.join(alone, on=["occupation", "zip"], how="left").group_by("city").agg("record")
    found = {city: sorted(r for r in records if r is not None) for city, records in linked.rows()}
    assert found.pop("Portland") == [5]
    assert found.pop("Louisville") == [2, 4]
    assert set(map(tuple, found.values())) == {()}


def test_adjacent_ages() -> None:
    means = [data.frame["age"].mean() for data in datasets.adjacent_ages()]
    assert means == pytest.approx([41.7, 41.67, 45.0], abs=5e-3)
    first, second, third = (sorted(data.frame["age"]) for data in datasets.adjacent_ages())
    assert sorted([*second, 42]) == first == sorted([*third, 12])


def test_coin_answers() -> None:
    frame = datasets.coin_answers().frame
    chance = {(t, a): p for t, a, p in frame.group_by("truth", "answer").agg(pl.col("probability").sum()).rows()}
    assert chance == {("yes", "yes"): 0.75, ("yes", "no"): 0.25, ("no", "yes"): 0.25, ("no", "no"): 0.75}
    assert math.log(chance["yes", "yes"] / chance["no", "yes"]) == pytest.approx(math.log(3))


def test_schizophrenia_counts() -> None:
    lists = datasets.schizophrenia_counts()
    assert [data.frame["schizophrenia"].sum() for data in lists] == [2, 3, 1, 2]
    first, *others = (set(data.frame.rows()) for data in lists)
    assert all(len(first ^ other) == 1 for other in others)


def test_students() -> None:
    frame = datasets.students().frame
    electrical = pl.col("major") == "EE"
    assert frame.filter(electrical)["income"].sum() == 240_000
    assert frame.filter(electrical & (pl.col("sex") == "male"))["income"].sum() == 190_000
    assert frame.filter(electrical & (pl.col("sex") == "female"))["income"].to_list() == [50_000]


def test_releases_keep_rows_and_roles() -> None:
    for name in ("linkage-example", "noise-example", "rank-swap-example", "entropy-example"):
        original, *releases = versions(name)
        for data in releases:
            assert data.origin is original
            assert data.row_ids.tolist() == original.row_ids.tolist()
            assert data.having("quasi") == original.having("quasi")
