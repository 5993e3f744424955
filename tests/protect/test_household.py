from __future__ import annotations

from types import MappingProxyType

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import find_households
from discretion.method import Decision, Method


class HalfOfThem(Method):
    """Keep every other record, as suppression does (not registered: for this test)."""

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        return data.take(np.arange(0, len(data), 2), suppressed=True)


class Hide(Method):
    """Suppress the region of some records (not registered: for this test)."""

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        return data.with_columns({}, suppressed={"region": np.arange(len(data)) % 3 == 0})


@pytest.fixture(scope="module")
def people() -> dc.Dataset:
    return dc.datasets.census(1000, seed=1)


def test_households_are_found_by_role_or_name(people: dc.Dataset) -> None:
    homes = find_households(people)
    assert homes.column == "household" and len(homes) == people.frame["household"].n_unique()
    assert homes.sizes.sum() == 1000
    assert len(find_households(dc.Dataset(people.frame))) == 1000
    assert find_households(dc.Dataset(people.frame), "household").column == "household"


def test_bad_households_are_refused_in_words(people: dc.Dataset) -> None:
    holes = people.frame.with_columns(pl.when(pl.col("age") > 20).then("household").alias("household"))
    young = int((people.frame["age"] <= 20).sum())
    with pytest.raises(dc.DataError, match=f"'household' has {young} missing values"):
        find_households(dc.Dataset(holes, roles={"household": "household"}))
    two = dc.Dataset(people.frame, roles={"household": "household", "weight": "household"})
    with pytest.raises(dc.PlanError, match="several columns have the role household"):
        find_households(two)
    with pytest.raises(dc.DataError, match=r"unknown column 'house'"):
        find_households(people, "house")
    with pytest.raises(dc.PlanError, match="no column has the role household"):
        dc.AtHouseholdLevel(method={"pram": {"keep_share": 0.5}})(people.frame)


def test_varying_columns_are_named_with_the_number_of_households(people: dc.Dataset) -> None:
    varying = int((people.frame.group_by("household").n_unique()["sex"] > 1).sum())
    wanted = f"column 'sex' is not constant within {varying} households"
    with pytest.raises(dc.DataError, match=wanted):
        find_households(people).require_constant(people, ["region", "sex"])
    with pytest.raises(dc.DataError, match=wanted):
        dc.AtHouseholdLevel(method=dc.Pram(columns=["region", "sex"], keep_share=0.5))(people)


def test_all_members_get_the_same_change(people: dc.Dataset) -> None:
    moved = dc.AtHouseholdLevel(method={"pram": {"columns": ["region"], "keep_share": 0.3}})(people, seed=1)
    assert moved.frame.group_by("household").n_unique()["region"].max() == 1
    assert (moved.frame["region"] != people.frame["region"]).mean() > 0.5  # type: ignore[operator]
    assert moved.frame.drop("region").equals(people.frame.drop("region"))


def test_each_household_counts_once(people: dc.Dataset) -> None:
    noisy = dc.AtHouseholdLevel(method=dc.AdditiveNoise(columns=["weight"], sd_share=0.2))
    decision = noisy.decide(people, dc.Context(1, "1"))
    one_each = people.frame.unique("household", keep="first", maintain_order=True)["weight"]
    assert decision["households"]["sd"] == pytest.approx([0.2 * float(one_each.std())])  # type: ignore[arg-type]
    released = noisy(people, seed=1).frame
    assert released.group_by("household").n_unique()["weight"].max() == 1


def test_default_columns_are_those_constant_within_households(people: dc.Dataset) -> None:
    decision = dc.AtHouseholdLevel(method={"pram": {"keep_share": 0.5}}).decide(people, dc.Context(1, "1"))
    assert set(decision["households"]["columns"]) == {"region", "municipality"}


def test_levels_masks_and_dropped_columns_come_back(people: dc.Dataset) -> None:
    general = dc.AtHouseholdLevel(method=dc.Generalize(levels={"municipality": 1}))(people)
    assert general.levels["municipality"] == 1
    assert general.frame["municipality"].equals(people.frame["region"], check_names=False)
    hidden = dc.AtHouseholdLevel(method=Hide())(people)
    assert hidden.suppressed("region").sum() == hidden.frame["region"].null_count() > 300
    assert hidden.frame.group_by("household").n_unique()["region"].max() == 1
    fewer = dc.AtHouseholdLevel(method=dc.DropIdentifiers(columns=["weight"]))(people)
    assert "weight" not in fewer.columns and "age" in fewer.columns


def test_by_household_is_the_same_as_at_household_level(people: dc.Dataset) -> None:
    renamed = dc.Dataset(
        people.frame.rename({"household": "home"}), roles={"home": "household", "region": "quasi", "weight": "weight"}
    )
    for inner in (
        dc.Pram(columns=["region"], keep_share=0.6),
        dc.AdditiveNoise(columns=["weight"], sd_share=0.2),
        dc.TopCode(column="weight", quantile=0.9),
        dc.Mdav(columns=["weight"], k=5),
        dc.RankSwap(columns=["weight"], percent=20),
        dc.Sample(share=0.5),
    ):
        for data in (people, renamed):
            ctx = Context(7, "1")
            short = inner.model_copy(update={"by": ("household",)})
            long = dc.AtHouseholdLevel(method=inner)
            assert short.decide(data, ctx) == long.decide(data, ctx)
            result = short.apply(data, ctx)
            assert result.frame.equals(long.apply(data, ctx).frame), inner.kind
            assert not result.frame.equals(data.frame), inner.kind


def test_by_household_from_a_plan(people: dc.Dataset) -> None:
    plan = dc.Plan.from_dict(
        {
            "roles": {"household": "household", "name": "identifier", "person_id": "identifier"},
            "steps": [{"pram": {"columns": "region", "keep_share": 0.5, "by": "household"}}],
            "order": "keep",
        }
    )
    released = plan.run(people.frame, seed=3).data.frame
    assert released.group_by("household").n_unique()["region"].max() == 1
    assert 0.2 < (released["region"] != people.frame["region"]).mean() < 0.8


def test_a_column_called_household_without_the_role_is_a_stratum() -> None:
    frame = pl.DataFrame({"household": ["a", "a", "b", "b"], "x": [1.0, 3.0, 10.0, 30.0]})
    method = dc.TopCode(column="x", quantile=0.5, by="household")
    assert method(frame)["x"].to_list() == [1.0, 2.0, 10.0, 20.0]


def test_by_household_needs_one_column_of_that_role(people: dc.Dataset) -> None:
    method = dc.Pram(columns=["region"], keep_share=0.5, by="household")
    with pytest.raises(dc.PlanError, match="pram: by: no column has the role household"):
        method(people.drop(["household"]))
    two = dc.Dataset(people.frame, roles={"household": "household", "weight": "household"})
    with pytest.raises(dc.PlanError, match=r"several columns have the role household \(household, weight\)"):
        method(two)
    with pytest.raises(dc.DataError, match="'sex' is not constant within"):
        dc.Pram(columns=["sex"], keep_share=0.5, by="household")(people)


def test_households_leave_as_wholes(people: dc.Dataset) -> None:
    left = dc.AtHouseholdLevel(method=HalfOfThem())(people)
    sizes = dict(people.frame["household"].value_counts().iter_rows())
    after = dict(left.frame["household"].value_counts().iter_rows())
    assert len(after) == (len(sizes) + 1) // 2
    assert all(sizes[home] == size for home, size in after.items())
    assert left.lost_records == 1000 - len(left)
    assert left.frame.equals(people.frame[left.row_ids])


def test_it_is_as_the_method_inside(people: dc.Dataset) -> None:
    swap = dc.AtHouseholdLevel(method=dc.RankSwap(columns=["weight"], percent=7.31))
    plain = dc.AtHouseholdLevel(method=dc.Generalize(levels={"region": 1}))
    assert swap.by_group and swap.perturbs and not plain.by_group and not plain.perturbs
    assert plain.guarantee.endswith(dc.Generalize.guarantee)
    assert swap.settings(public=True) == {"method": {"rank-swap": {"columns": ["weight"]}}}
    released = swap(people, seed=1).frame.unique("household")["weight"].sort()
    assert released.equals(people.frame.unique("household")["weight"].sort())


def test_decision_is_reused(people: dc.Dataset) -> None:
    method = dc.AtHouseholdLevel(method=dc.Pram(columns=["region"], keep_share=0.5))
    ctx = dc.Context(4, "1")
    saved = Decision.from_json(method.decide(people, ctx).to_json())
    assert method.perform(people, saved, ctx).frame.equals(method.apply(people, ctx).frame)
    assert isinstance(saved.values, MappingProxyType)


def test_bad_methods_are_refused() -> None:
    for wrong in ("pramm", {"k-anonymity": {"k": 2}}, 3, {"pram": {"keep_share": 2}}):
        with pytest.raises(dc.PlanError):
            dc.AtHouseholdLevel(method=wrong)


@pytest.mark.parametrize(
    "method",
    [
        dc.AtHouseholdLevel(method={"pram": {"keep_share": 0.5}}),
        dc.ConfidentialityEdit(match_on=["sex"], share=0.1),
        dc.TargetedRecordSwap(risk_columns=["sex"], k=3, similar=["age"], share=0.2),
        dc.Shuffle(columns=["income"], predictors=["age"]),
        dc.RandomizedResponse(columns=["sex"]),
    ],
    ids=lambda method: method.kind,
)
def test_every_report_of_progress_may_cancel(people: dc.Dataset, method: Method) -> None:
    reports: list[tuple[int, int, str]] = []
    method(people, seed=1, progress=lambda *report: reports.append(report))
    assert reports and all(0 <= done <= total and label for done, total, label in reports)
    for patience in range(len(reports)):
        left = [patience]

        def impatient(done: int, total: int, label: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise dc.Cancelled("enough")

        with pytest.raises(dc.Cancelled):
            method(people, seed=1, progress=impatient)
