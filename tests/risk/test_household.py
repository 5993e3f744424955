from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import discretion as dc


def survey(seed: int, rows: int = 200) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "a": rng.choice(["x", "y", "z", None], rows).tolist(),
            "b": rng.integers(0, 9, rows),
            "w": rng.integers(2, 60, rows) * 1.0,
            "home": rng.choice([f"h{i}" for i in range(70)], rows),
        },
        schema_overrides={"a": pl.String},
    )


@pytest.mark.parametrize("missing", ["category", "wildcard", "ignore"])
@pytest.mark.parametrize("seed", range(3))
def test_one_minus_the_product(seed: int, missing: str) -> None:
    frame = survey(seed)
    single = dc.IndividualRisk(columns=["a", "b"], weight="w", missing=missing)(frame).per_record
    score = dc.HouseholdRisk(columns=["a", "b"], weight="w", household="home", missing=missing)(frame)
    assert single is not None and score.per_record is not None
    homes = frame["home"].to_list()
    want = [
        math.nan
        if math.isnan(single[i])
        else 1 - math.prod(1 - r for r, other in zip(single, homes, strict=True) if other == home and not math.isnan(r))
        for i, home in enumerate(homes)
    ]
    assert score.per_record == pytest.approx(want, rel=1e-10, nan_ok=True)
    assert score.value == pytest.approx(np.nanmean(want))
    per_home = {home: risk for home, risk in zip(homes, want, strict=True) if not math.isnan(risk)}
    assert score.detail["households"] == len(per_home)
    assert score.detail["expected_households"] == pytest.approx(sum(per_home.values()))
    assert score.detail["highest"] == pytest.approx(max(per_home.values()))
    assert score.detail["individual_risk"] == pytest.approx(np.nanmean(single))


def test_a_certain_member_makes_a_certain_household() -> None:
    frame = pl.DataFrame({"a": [1, 2, 2, 3, 3], "home": [1, 1, 2, 2, 3]})
    score = dc.HouseholdRisk(columns=["a"], share=1, household="home")(frame)
    assert score.per_record is not None
    assert score.per_record == pytest.approx([1, 1, 0.75, 0.75, 0.5])


def test_small_risks_keep_their_digits() -> None:
    frame = pl.DataFrame({"a": [1, 1], "home": [1, 1]})
    score = dc.HouseholdRisk(columns=["a"], share=1e-15, household="home")(frame)
    single = dc.IndividualRisk(columns=["a"], share=1e-15)(frame)
    assert score.value == pytest.approx(2 * single.value, rel=1e-12)


def test_alone_in_the_household_is_individual_risk() -> None:
    frame = survey(5).with_row_index("row")
    alone = dc.HouseholdRisk(columns=["a", "b"], weight="w", household="row")(frame)
    assert alone.value == pytest.approx(dc.IndividualRisk(columns=["a", "b"], weight="w")(frame).value, rel=1e-12)


def test_roles_and_a_household_number_that_is_not_published() -> None:
    frame = survey(6)
    roles = {"a": "quasi", "b": "quasi", "w": "weight", "home": "household"}
    data = dc.Dataset(frame, roles=roles)
    named = dc.HouseholdRisk(columns=["a", "b"], weight="w", household="home")(frame).value
    assert dc.HouseholdRisk()(data).value == named
    assert dc.HouseholdRisk()(data.drop(["home"])).value == named
    assert dc.HouseholdRisk(household="home")(data, data.drop(["home", "w"])).value == named


def test_what_is_refused() -> None:
    frame = survey(1)
    with pytest.raises(dc.PlanError, match="no column has the role household"):
        dc.HouseholdRisk(columns=["a"], weight="w")(frame)
    with pytest.raises(dc.DataError, match="1 missing values"):
        holes = frame.with_columns(home=pl.when(pl.int_range(pl.len()) > 0).then("home"))
        dc.HouseholdRisk(columns=["b"], weight="w", household="home")(holes)
