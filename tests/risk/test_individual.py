from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

import discretion as dc
from discretion.risk.identity.household import approximate_inverse_size, mean_inverse_size


def by_integral(f: float, people: float) -> float:
    """Integrate e^(−ft)/(1 + z·e^(−t)), in the scale of 1/f and around the bend at ln z."""
    z = (people - f) / f
    end = 40 + math.log1p(z)
    bend = math.log1p(z)
    marks = sorted(
        {min(max(x, 0.0), end) for x in (0, 0.1 / f, 1 / f, 3 / f, 10 / f, 40 / f, bend - 3, bend, bend + 3)}
    )
    return sum(
        quad(lambda t: math.exp(-f * t) / (1 + z * math.exp(-t)), a, b, epsabs=0, epsrel=1e-12, limit=200)[0]
        for a, b in zip(marks, [*marks[1:], end], strict=True)
        if b > a and math.exp(-f * a) > 1e-30
    )


def by_definition(f: int, p: float) -> float:
    """Sum 1/h over the negative binomial distribution of the class size h ≥ f."""
    total, h, chance = 0.0, f, p**f
    while h < 200_000:
        total += chance / h
        chance *= h * (1 - p) / (h + 1 - f)
        h += 1
        if chance / h < 1e-18 * total and h > 2 * f / p:
            break
    return total


@pytest.mark.parametrize("f", [1, 1.5, 2, 2.5, 3, 5, 9, 9.5, 10, 11, 20, 107, 176, 1000, 12345.5])
@pytest.mark.parametrize("z", [1e-12, 1e-3, 0.5, 1, 8.99, 9.01, 99, 1e4, 1e10])
@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
def test_all_class_sizes_and_fractions_against_the_integral(f: float, z: float) -> None:
    assert mean_inverse_size(f, f * (1 + z)) == pytest.approx(by_integral(f, f * (1 + z)), rel=1e-10)


@pytest.mark.parametrize(("f", "p"), [(1, 0.3), (2, 0.05), (3, 0.2), (7, 0.04), (12, 0.5), (40, 0.9), (60, 0.02)])
def test_against_the_distribution(f: int, p: float) -> None:
    assert mean_inverse_size(f, f / p) == pytest.approx(by_definition(f, p), rel=1e-10)


def test_closed_forms() -> None:
    p = np.array([1e-9, 1e-4, 0.01, 0.3, 0.7])
    odds, log = p / (1 - p), np.log(1 / p)
    assert mean_inverse_size(1, 1 / p) == pytest.approx(odds * log, rel=1e-12)
    assert mean_inverse_size(2, 2 / p) == pytest.approx(odds - odds**2 * log, rel=1e-12)


@given(st.floats(1, 1e6), st.floats(1, 1e9), st.floats(1.001, 100))
@settings(deadline=None, max_examples=300)
def test_bounds_and_order(f: float, ratio: float, factor: float) -> None:
    risk, more_people, more_records = mean_inverse_size(
        [f, f, f * factor], [f * ratio, f * ratio * factor, f * ratio * factor]
    )
    assert 0 < risk <= 1 / f
    assert risk >= 1 / (f * ratio) * (1 - 1e-12)  # the mean of 1/F is at least 1 over the mean of F
    assert more_people <= risk * (1 + 1e-12)
    assert more_records <= risk * (1 + 1e-12)


def test_a_complete_class_is_picked_from_at_random() -> None:
    sizes = np.array([1, 2, 3, 9, 10, 500])
    assert mean_inverse_size(sizes, sizes).tolist() == (1 / sizes).tolist()
    assert approximate_inverse_size(sizes, sizes).tolist() == (1 / sizes).tolist()
    assert mean_inverse_size(sizes, sizes / 2).tolist() == (1 / sizes).tolist()


def test_the_approximation_is_exact_below_three_and_close_above() -> None:
    f = np.array([1, 2, 3, 10, 100])
    exact, near = mean_inverse_size(f, 50 * f), approximate_inverse_size(f, 50 * f)
    assert near[:2].tolist() == exact[:2].tolist()
    assert near == pytest.approx(exact, rel=0.04)
    assert (near[2:] != exact[2:]).all()
    assert near[2] == pytest.approx(0.02 / (3 - 0.98))


def small(rng: np.random.Generator, rows: int = 60) -> pl.DataFrame:
    """Give a table with ties and missing values."""
    return pl.DataFrame(
        {
            "a": rng.choice([None, "x", "y", "z"], rows, p=[0.1, 0.5, 0.3, 0.1]).tolist(),
            "b": rng.choice([None, 1, 2], rows, p=[0.1, 0.6, 0.3]).tolist(),
            "w": rng.integers(1, 40, rows) / 2 + 0.5,
        },
        schema_overrides={"a": pl.String, "b": pl.Int64},
    )


def naive_sizes(frame: pl.DataFrame, missing: str, alpha: float) -> tuple[list[float], list[float]]:
    rows = frame.select("a", "b").rows()
    weights = frame["w"].to_list()
    counts, sums = [], []
    for mine in rows:
        if missing == "ignore" and None in mine:
            counts.append(math.nan)
            sums.append(math.nan)
            continue
        count = total = 0.0
        for j, other in enumerate(rows):
            wild = missing == "wildcard"
            if all(x == y or (wild and (x is None or y is None)) for x, y in zip(mine, other, strict=True)):
                part = alpha if wild and None in other and other != mine else 1.0
                count, total = count + part, total + part * weights[j]
        counts.append(count)
        sums.append(total)
    return counts, sums


@pytest.mark.parametrize(
    ("missing", "alpha"), [("category", 1.0), ("ignore", 1.0), ("wildcard", 1.0), ("wildcard", 0.5), ("wildcard", 0.0)]
)
@pytest.mark.parametrize("seed", range(3))
def test_class_sizes_under_every_reading_of_missing_values(missing: str, alpha: float, seed: int) -> None:
    frame = small(np.random.default_rng(seed))
    score = dc.IndividualRisk(columns=["a", "b"], weight="w", missing=missing, alpha=alpha)(frame)
    counts, sums = naive_sizes(frame, missing, alpha)
    want = [
        math.nan if math.isnan(f) else float(mean_inverse_size(f, total)) for f, total in zip(counts, sums, strict=True)
    ]
    assert score.per_record is not None
    assert score.per_record == pytest.approx(want, rel=1e-10, nan_ok=True)
    kept = [r for r in want if not math.isnan(r)]
    assert score.value == pytest.approx(sum(kept) / len(kept))
    assert score.detail["expected_reidentifications"] == pytest.approx(sum(kept))
    assert score.detail["highest"] == pytest.approx(max(kept))
    assert score.detail["above"]["0.1"] == sum(r > 0.1 for r in kept)
    top = score.detail["classes"][0]
    assert top["risk"] == pytest.approx(max(kept)) and want[top["row"]] == pytest.approx(max(kept))


def test_a_record_with_missing_values_is_never_without_risk() -> None:
    data = pl.DataFrame({"a": ["x", None], "b": [1, 2], "w": [2.0, 3.0]})
    score = dc.IndividualRisk(columns=["a", "b"], weight="w", missing="wildcard", alpha=0)(data)
    assert score.per_record is not None
    assert score.per_record[1] == pytest.approx(mean_inverse_size(1, 3))


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_the_mean_is_the_success_of_an_intruder_where_the_model_holds(share: float) -> None:
    """Class sizes in the population are as the model assumes: a class of F people has a chance like 1/F."""
    rng = np.random.default_rng(1)
    people = np.floor(np.exp(rng.uniform(0, np.log(1001), 6_000))).astype(int)
    keys = np.repeat(np.arange(len(people)), people)
    drawn = keys[rng.random(len(keys)) < share]
    score = dc.IndividualRisk(columns=["a"], share=share)(pl.DataFrame({"a": drawn}))
    assert score.value == pytest.approx((1 / people[drawn]).mean(), rel=0.1)
    assert score.detail["chance"] == pytest.approx(share / len(drawn))


def test_weights_come_from_the_role_and_from_the_source_when_they_are_not_published() -> None:
    frame = small(np.random.default_rng(1))
    data = dc.Dataset(frame, roles={"a": "quasi", "b": "quasi", "w": "weight"})
    named = dc.IndividualRisk(columns=["a", "b"], weight="w")(frame).value
    assert dc.IndividualRisk()(data).value == named
    published = data.drop(["w"])
    assert dc.IndividualRisk()(published).value == named
    assert dc.IndividualRisk()(data, published).value == named


def test_weights_below_one_make_a_class_complete() -> None:
    score = dc.IndividualRisk(columns=["a"], weight="w")(pl.DataFrame({"a": [1, 1, 2], "w": [0.2, 0.3, 4.0]}))
    assert score.per_record is not None
    assert score.per_record[:2].tolist() == [0.5, 0.5]
    assert score.detail["records_in_classes_below_sample"] == 2


def test_a_census_without_weights_is_share_one() -> None:
    frame = pl.DataFrame({"a": [1, 1, 2]})
    score = dc.IndividualRisk(columns=["a"], share=1)(frame)
    assert score.per_record is not None and score.per_record.tolist() == [0.5, 0.5, 1.0]


def test_what_is_refused() -> None:
    frame = pl.DataFrame({"a": [1, 2], "w": [1.0, None], "v": [1.0, -2.0]})
    with pytest.raises(dc.PlanError, match="no columns have the role weight"):
        dc.IndividualRisk(columns=["a"])(frame)
    with pytest.raises(dc.DataError, match="1 weights in column 'w' are missing or negative"):
        dc.IndividualRisk(columns=["a"], weight="w")(frame)
    with pytest.raises(dc.DataError, match="1 weights in column 'v'"):
        dc.IndividualRisk(columns=["a"], weight="v")(frame)
    with pytest.raises(dc.DataError, match="column 'u'"):
        dc.IndividualRisk(columns=["a"], weight="u")(frame)
    with pytest.raises(dc.DataError, match="nothing is counted"):
        dc.IndividualRisk(columns=["w"], share=0.5, missing="ignore")(pl.DataFrame({"w": [None, None]}))
    with pytest.raises(dc.PlanError, match="either `weight` or `share`"):
        dc.IndividualRisk(weight="w", share=0.1)
    with pytest.raises(dc.PlanError, match="only with `missing: wildcard`"):
        dc.IndividualRisk(alpha=0.5)


@pytest.mark.parametrize("kind", [dc.IndividualRisk, dc.HouseholdRisk])
def test_the_estimator_may_be_named(kind: type[dc.IndividualRisk]) -> None:
    table = pl.DataFrame(
        {"zip": ["a"] * 4 + ["b"] * 2, "w": [18.0, 92.0, 17.0, 4.0, 3.0, 9.0], "home": [1, 1, 2, 3, 4, 4]}
    )
    more = {"household": "home"} if kind is dc.HouseholdRisk else {}
    made = {name: kind(columns=["zip"], weight="w", estimator=name, **more) for name in ("exact", "approximate")}
    exact, rough = made["exact"](table).per_record, made["approximate"](table).per_record
    assert np.array_equal(exact, kind(columns=["zip"], weight="w", **more)(table).per_record)
    assert np.array_equal(rough, kind(columns=["zip"], weight="w", approximate=True, **more)(table).per_record)
    assert not np.array_equal(exact, rough)


def test_estimators_that_there_are_not() -> None:
    with pytest.raises(dc.PlanError, match="estimator: input should be 'exact' or 'approximate'"):
        dc.IndividualRisk(columns=["zip"], share=0.1, estimator="best")
    with pytest.raises(dc.PlanError, match="contradict"):
        dc.IndividualRisk(columns=["zip"], share=0.1, estimator="exact", approximate=True)
