from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discretion as dc
from discretion.errors import DataError, PlanError

ROWS = 600
RNG = np.random.default_rng(1)
HOMES = np.sort(RNG.integers(0, 200, ROWS))
FRAME = pl.DataFrame(
    {
        "id": np.arange(ROWS),
        "home": HOMES,
        "area": np.array(["north", "south", "west"])[HOMES % 3],
        "w": RNG.integers(1, 9, ROWS),
    }
)
DATA = dc.Dataset(FRAME, roles={"home": "household", "area": "stratum", "w": "weight"})


def test_share_and_size() -> None:
    assert len(dc.Sample(share=0.1)(DATA, seed=1)) == 60
    assert len(dc.Sample(size=7)(DATA, seed=1)) == 7
    assert len(dc.Sample(share=0.0001)(DATA, seed=1)) == 1, "never nothing at all"
    assert dc.Sample(share=1)(DATA, seed=1).frame.equals(FRAME)


def test_rows_keep_their_ids_order_and_values() -> None:
    result = dc.Sample(share=0.3)(DATA, seed=1)
    assert np.array_equal(result.row_ids, result.frame["id"].to_numpy())
    assert result.frame["id"].is_sorted()
    assert result.frame.drop("w").equals(FRAME[result.row_ids].drop("w"))
    assert result.lost_records == 0 and result.suppressed_cells == {}
    assert result.origin is DATA


def test_weights_are_multiplied_by_n_over_n() -> None:
    same = dc.Context(1, "1")
    result = dc.Sample(size=150).apply(DATA, same)
    assert np.allclose(result.frame["w"], FRAME["w"].to_numpy()[result.row_ids] * 4.0)
    named = dc.Sample(size=150, weight="w").apply(dc.Dataset(FRAME), same)
    assert named.frame["w"].equals(result.frame["w"])
    assert dc.Sample(size=150)(FRAME, seed=1)["w"].dtype == pl.Int64, "without a role nothing is a weight"


def test_weighted_totals_are_right_in_expectation() -> None:
    truth = FRAME["w"].sum()
    for method in (dc.Sample(share=0.2), dc.Sample(share=0.2, household=True), dc.Sample(share=0.2, by=["area"])):
        totals = np.array([method(DATA, seed=s).frame["w"].sum() for s in range(200)])
        assert abs(totals.mean() - truth) <= 4 * totals.std() / np.sqrt(len(totals))


def test_strata_have_their_own_share_and_factor() -> None:
    result = dc.Sample(share=0.25, by=["area"])(DATA, seed=1)
    for (area,), part in result.frame.group_by("area"):
        total = (FRAME["area"] == area).sum()
        assert len(part) == round(total / 4)
        assert np.allclose(part["w"], FRAME["w"].to_numpy()[part["id"].to_numpy()] * total / len(part))
    assert dc.Sample(size=5, by=["area"])(DATA, seed=1).frame["area"].value_counts()["count"].to_list() == [5, 5, 5]


@pytest.mark.parametrize("by", [[], ["area"]])
def test_households_stay_whole(by: list[str]) -> None:
    same = dc.Context(1, "1")
    result = dc.Sample(share=0.3, household=True, by=by).apply(DATA, same).frame
    sizes = dict(FRAME["home"].value_counts().iter_rows())
    for home, size in result["home"].value_counts().iter_rows():
        assert size == sizes[home]
    named = dc.Sample(share=0.3, household="home", by=by, weight="w")
    assert named.apply(dc.Dataset(FRAME), same).frame.equals(result)
    if not by:
        homes = FRAME["home"].n_unique()
        assert result["home"].n_unique() == round(0.3 * homes)
        assert np.allclose(result["w"], FRAME["w"].to_numpy()[result["id"]] * homes / round(0.3 * homes))


def test_who_has_no_household_is_alone() -> None:
    data = pl.DataFrame({"home": [1, 1, None, None, None], "x": range(5)})
    sizes = {len(dc.Sample(size=1, household="home")(data, seed=seed)) for seed in range(40)}
    assert sizes == {1, 2}
    drawn = {tuple(dc.Sample(size=1, household="home")(data, seed=s)["x"].to_list()) for s in range(80)}
    assert drawn == {(0, 1), (2,), (3,), (4,)}


def test_every_record_has_the_same_chance() -> None:
    drawn = np.zeros(ROWS)
    runs = 400
    for seed in range(runs):
        drawn[dc.Sample(share=0.25)(DATA, seed=seed).row_ids] += 1
    expected = runs / 4
    assert ((drawn - expected) ** 2).sum() / (expected * 0.75) == pytest.approx(ROWS, abs=4 * np.sqrt(2 * ROWS))


@pytest.mark.parametrize("fields", [{}, {"share": 0.1, "size": 3}, {"share": 0}, {"share": 1.2}, {"size": 0}])
def test_wrong_parameters(fields: dict[str, float]) -> None:
    with pytest.raises(dc.PlanError, match=r"share|size"):
        dc.Sample(**fields)


def test_refused_in_words() -> None:
    with pytest.raises(dc.DataError, match="601 of 600 records cannot be drawn"):
        dc.Sample(size=601)(DATA)
    with pytest.raises(dc.DataError, match=r"in group area=north: sample: 199 of \d+ households cannot be drawn"):
        dc.Sample(size=199, household=True, by=["area"])(DATA)
    with pytest.raises(dc.DataError, match="no records to draw from"):
        dc.Sample(share=0.5)(FRAME.head(0))
    with pytest.raises(dc.PlanError, match="0 columns have the role `household`"):
        dc.Sample(share=0.5, household=True)(FRAME)
    with pytest.raises(dc.DataError, match="unknown column 'hom'; did you mean 'home'"):
        dc.Sample(share=0.5, household="hom")(FRAME)
    with pytest.raises(dc.DataError, match="column 'area' is text"):
        dc.Sample(share=0.5, weight="area")(FRAME)
    with pytest.raises(dc.DataError, match="unknown column 'aera'"):
        dc.Sample(share=0.5, by=["aera"])(FRAME)


def test_households_across_strata_are_refused() -> None:
    torn = FRAME.with_columns(area=pl.Series(["a", "b"] * 300))
    with pytest.raises(dc.DataError, match=r"sample: \d+ households have members in several strata of area"):
        dc.Sample(share=0.5, household="home", by=["area"])(torn)


def test_from_the_command_line() -> None:
    from discretion.cli.apply import build_part

    fields = {f"field_{name}": None for name in dc.Sample.model_fields}
    assert build_part("sample", fields | {"field_share": "0.1", "field_household": "true"}) == dc.Sample(
        share=0.1, household=True
    )


def test_by_household_adjusts_weights_that_differ_inside_households() -> None:
    frame = pl.DataFrame({"h": [1, 1, 2, 2, 3, 3, 4, 4], "w": [1, 2, 3, 4, 5, 6, 7, 8]})
    data = dc.Dataset(frame, roles={"h": "household", "w": "weight"})
    drawn = dc.Sample(share=0.5, by="household")(data, seed=1).frame
    assert drawn.height == 4 and drawn["h"].n_unique() == 2
    assert drawn["w"].to_list() == [2.0 * w for w in frame.filter(pl.col("h").is_in(drawn["h"].implode()))["w"]]
    with pytest.raises(dc.DataError, match="column 'w' is not constant within 4 households"):
        dc.AtHouseholdLevel(method=dc.Sample(share=0.5))(data, seed=1)


CELLS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["x", None]), st.integers(1, 9)), min_size=1)


@given(CELLS)
def test_weighted_counts_by_the_named_columns_stay_and_the_weight_tells_no_more(
    rows: list[tuple[str, str, int]],
) -> None:
    frame = pl.DataFrame(rows, schema={"g": pl.String, "h": pl.String, "w": pl.Float64}, orient="row")
    issued = dc.ReissueWeights(by=["g", "h"], weight="w", smallest=1)(frame)
    sums = [one.group_by("g", "h").agg(pl.col("w").sum()).sort("g", "h") for one in (frame, issued)]
    assert sums[0].drop("w").equals(sums[1].drop("w")) and np.allclose(sums[0]["w"], sums[1]["w"])
    assert issued.group_by("g", "h").agg(pl.col("w").n_unique())["w"].max() == 1


def test_without_columns_everybody_has_the_mean_and_missing_stays_missing() -> None:
    frame = pl.DataFrame({"w": [1.0, None, 3.0], "x": [1, 2, 3]})
    issued = dc.ReissueWeights(weight="w")(frame)
    assert issued["w"].to_list() == [2.0, None, 2.0] and issued["x"].to_list() == [1, 2, 3]


def test_small_groups_and_unclear_columns_are_refused() -> None:
    frame = pl.DataFrame({"g": ["a"] * 10 + ["b"] * 9, "w": [1.0] * 19})
    with pytest.raises(DataError, match="1 groups of g have fewer than 10"):
        dc.ReissueWeights(by="g", weight="w")(frame)
    with pytest.raises(PlanError, match="no columns have the role weight"):
        dc.ReissueWeights(by="g")(frame)


def test_the_weight_of_the_census_no_longer_tells_the_region() -> None:
    people = dc.datasets.census(5000, seed=1)
    coarse = dc.Generalize(levels={"region": 1})(people)
    issued = dc.ReissueWeights(by=["region"])(coarse)

    def told(data: dc.Dataset) -> float:
        """The share of people whose region is right when guessed from the published region and weight."""
        known = pl.DataFrame({"true": people.frame["region"], "seen": data.frame["region"], "w": data.frame["weight"]})
        best = known.group_by("seen", "w", "true").len().group_by("seen", "w").agg(pl.col("len").max())
        return float(best["len"].sum()) / len(people)

    assert told(coarse) > 0.8 > told(issued)
    only_region = pl.DataFrame({"true": people.frame["region"], "seen": coarse.frame["region"]})
    alone = only_region.group_by("seen", "true").len().group_by("seen").agg(pl.col("len").max())["len"].sum()
    assert told(issued) == pytest.approx(alone / len(people))


def test_new_weights_have_as_many_digits_as_asked() -> None:
    frame = pl.DataFrame({"w": [1.0, 1.0, 2.0]})
    assert dc.ReissueWeights(weight="w")(frame)["w"].to_list() == [1.33333] * 3
    exact = dc.ReissueWeights(weight="w", digits=17)(frame)["w"]
    assert exact.sum() == pytest.approx(4.0, rel=1e-15)
