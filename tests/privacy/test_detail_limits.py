from __future__ import annotations

import polars as pl
import pytest

import discretion as dc

FRAME = pl.DataFrame(
    {
        "job": ["nurse"] * 6 + ["mayor"] + [None] * 3,
        "sex": ["f"] * 5 + ["m"] * 5,
        "age": list(range(10)),
        "town": ["big"] * 7 + ["small"] * 2 + [None],
        "w": [100.0] * 10,
    }
)
ROLES = {"job": "quasi", "sex": "quasi", "age": "quasi", "town": "geography", "w": "weight"}
DATA = dc.Dataset(FRAME, roles=ROLES)


def failing(verdict: dc.Verdict) -> list[tuple[dict[str, str | None], float]]:
    return [(dict(item.key), item.size) for item in verdict.failing]


def test_number_of_columns() -> None:
    assert dc.DetailLimits(max_columns=5)(DATA).holds
    verdict = dc.DetailLimits(max_columns=4)(DATA)
    assert not verdict.holds and verdict.value == 1
    assert failing(verdict) == [({"(columns)": "(all)"}, 5.0)]


def test_small_categories_are_named_with_their_count() -> None:
    verdict = dc.DetailLimits(min_category_size=4)(DATA)
    assert failing(verdict) == [({"job": "mayor"}, 1.0), ({"job": None}, 3.0)]
    assert (verdict.value, verdict.required, verdict.failing_count, verdict.failing_records) == (2, 0, 2, 4)
    assert verdict.detail["smallest_category"]["sex"] == {"category": 5.0, "wildcard": 5.0, "ignore": 5.0}
    assert "age" not in verdict.detail["smallest_category"], "a continuous column has no categories"
    assert dc.DetailLimits(min_category_size=1)(DATA).holds


@pytest.mark.parametrize(("missing", "want"), [("wildcard", []), ("ignore", [({"job": "mayor"}, 1.0)])])
def test_other_readings_of_missing(missing: str, want: list[object]) -> None:
    assert failing(dc.DetailLimits(min_category_size=4, columns=["job"], missing=missing)(DATA)) == want
    verdict = dc.DetailLimits(min_category_size=4, columns=["job"])(DATA)
    assert verdict.detail["smallest_category"]["job"] == {"category": 1.0, "wildcard": 4.0, "ignore": 1.0}


def test_named_columns_may_be_numbers() -> None:
    assert dc.DetailLimits(min_category_size=2, columns=["age"])(FRAME).failing_count == 10


def test_geography_by_number_and_population() -> None:
    assert dc.DetailLimits(max_areas=2, min_area_population=200)(DATA).holds
    verdict = dc.DetailLimits(max_areas=1, min_area_population=500)(DATA)
    assert failing(verdict) == [({"town": "(all areas)"}, 2.0), ({"town": "small"}, 200.0)]
    assert verdict.detail["areas"] == {"town": {"areas": 2, "smallest_population": 200.0}}
    assert verdict.failing_records == 2


def test_without_weights_the_records_are_the_population() -> None:
    verdict = dc.DetailLimits(min_area_population=3, geography=["town"])(FRAME)
    assert failing(verdict) == [({"town": "small"}, 2.0)]
    weighted = dc.DetailLimits(min_area_population=250, geography=["town"], weight="w")(FRAME)
    assert failing(weighted) == [({"town": "small"}, 200.0)]


def test_several_limits_at_once() -> None:
    verdict = dc.DetailLimits(max_columns=3, min_category_size=4, max_areas=1)(DATA)
    assert verdict.value == verdict.failing_count == 4
    assert verdict.meaning == "4 limits on detail are broken."


def test_grouping_small_categories_makes_it_hold() -> None:
    people = dc.datasets.census(2000, seed=1)
    limit = dc.DetailLimits(min_category_size=50, columns=["occupation"], missing="ignore")
    assert not limit(people).holds
    assert limit(dc.GroupCategories(column="occupation", smaller_than=50)(people)).holds


@pytest.mark.parametrize("fields", [{}, {"max_columns": 0}, {"min_category_size": 0}, {"min_area_population": 0}])
def test_wrong_parameters(fields: dict[str, int]) -> None:
    with pytest.raises(dc.PlanError):
        dc.DetailLimits(**fields)


def test_refused_in_words() -> None:
    with pytest.raises(dc.PlanError, match="no column has the role `geography`"):
        dc.DetailLimits(max_areas=2)(FRAME)
    with pytest.raises(dc.PlanError, match="no quasi-identifier has categories"):
        dc.DetailLimits(min_category_size=2)(dc.Dataset(FRAME, roles={"age": "quasi"}))
    with pytest.raises(dc.DataError, match="unknown column 'twn'; did you mean 'town'"):
        dc.DetailLimits(max_areas=2, geography=["twn"])(FRAME)
    holes = FRAME.with_columns(w=pl.when(pl.col("age") < 2).then(None).otherwise(pl.col("w")))
    with pytest.raises(dc.DataError, match="column 'w' has 2 missing values"):
        dc.DetailLimits(min_area_population=2, geography=["town"], weight="w")(holes)


def test_as_a_requirement_of_a_plan() -> None:
    part = dc.DetailLimits(max_columns=9, min_category_size=0x2E7)
    assert part.to_plan() == {"detail-limits": {"max_columns": 9, "min_category_size": 743}}
    assert part.settings(public=True) == {"max_columns": 9}
