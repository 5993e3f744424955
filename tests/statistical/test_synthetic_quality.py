"""What good synthesis means: figures of utility and of copying, on a census and on invented numbers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc

from ..shared import reference

pytestmark = pytest.mark.slow

TARGET = "salary-class"


def split(frame: pl.DataFrame, train: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    order = np.random.default_rng(1).permutation(frame.height)
    return frame[order[:train]], frame[order[train:]]


def unpruned_s(original: pl.DataFrame, made: pl.DataFrame) -> float:
    measure = dc.Propensity(columns=original.columns, leaf_share=0.0, permutations=4)
    return float(measure(dc.Dataset(original), dc.Dataset(made)).detail["s_pmse"])


def found_in(rows: pl.DataFrame, file: pl.DataFrame) -> float:
    return rows.join(file.unique(), on=rows.columns, how="semi", nulls_equal=True).height / rows.height


def accuracy(train: pl.DataFrame, test: pl.DataFrame) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.preprocessing import OrdinalEncoder

    features = [name for name in test.columns if name != TARGET]
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    x = encoder.fit_transform(train.select(features).to_numpy())
    model = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(x, train[TARGET].to_numpy())
    return float(model.score(encoder.transform(test.select(features).to_numpy()), test[TARGET].to_numpy()))


@pytest.fixture(scope="module")
def people() -> tuple[pl.DataFrame, pl.DataFrame]:
    return split(pl.read_csv(reference("data", "adult", "adult.csv"), separator=";"), 24_000)


@pytest.fixture(scope="module", params=[1, 2, 3])
def made(request: pytest.FixtureRequest, people: tuple[pl.DataFrame, pl.DataFrame]) -> pl.DataFrame:
    return dc.SequentialTrees()(people[0], seed=request.param)  # type: ignore[no-any-return]


@pytest.mark.peers
class TestCensus:
    """Adult: 24,000 people to learn from, 6,162 outside."""

    def test_a_tree_cannot_tell_it_from_a_new_sample(
        self, people: tuple[pl.DataFrame, pl.DataFrame], made: pl.DataFrame
    ) -> None:
        assert 0.9 <= unpruned_s(people[0], made) <= 1.15

    def test_rows_equal_those_of_people_as_often_as_people_outside(
        self, people: tuple[pl.DataFrame, pl.DataFrame], made: pl.DataFrame
    ) -> None:
        train, outside = people
        assert found_in(made, train) == pytest.approx(found_in(outside, train), abs=0.02)

    def test_people_are_hardly_found_more_often_than_others(
        self, people: tuple[pl.DataFrame, pl.DataFrame], made: pl.DataFrame
    ) -> None:
        train, outside = people
        data = dc.Dataset(train)
        score = dc.ReplicatedUniques(columns=train.columns, holdout=dc.Dataset(outside))(data, dc.Dataset(made))
        assert score.detail["advantage"] <= 0.03
        assert score.detail["advantage_of_uniques"] <= 0.04
        assert score.detail["advantage"] == pytest.approx(found_in(train, made) - found_in(outside, made), abs=1e-9)

    def test_models_learn_nearly_as_much_from_it(
        self, people: tuple[pl.DataFrame, pl.DataFrame], made: pl.DataFrame
    ) -> None:
        train, outside = people
        assert accuracy(made, outside) >= accuracy(train, outside) - 0.01

    def test_without_pruning_people_are_copied(self, people: tuple[pl.DataFrame, pl.DataFrame]) -> None:
        train, outside = people
        copied = dc.SequentialTrees(pruning=0)(train, seed=1)
        assert found_in(train, copied) - found_in(outside, copied) > 0.1

    def test_independent_margins_copy_nobody_and_are_told_apart(
        self, people: tuple[pl.DataFrame, pl.DataFrame]
    ) -> None:
        train, outside = people
        made = dc.IndependentMargins()(train, seed=1)
        assert abs(found_in(train, made) - found_in(outside, made)) < 0.02
        assert unpruned_s(train, made) > 1.3


def test_a_second_data_set_that_did_not_choose_the_pruning() -> None:
    everybody = dc.datasets.census(30_000, seed=5).frame
    columns = ["region", "age", "sex", "marital_status", "education", "occupation"]
    train, outside = split(everybody.select(columns), 24_000)
    made = dc.SequentialTrees()(train, seed=1)
    assert 0.9 <= unpruned_s(train, made) <= 1.15
    assert found_in(made, train) == pytest.approx(found_in(outside, train), abs=0.02)
    assert found_in(train, made) - found_in(outside, made) <= 0.03


def test_numbers_keep_distributions_and_covariances_and_are_nobodys() -> None:
    from scipy.stats import ks_2samp

    n, rng = 100_000, np.random.default_rng(0)
    z = rng.normal(size=(n, 4)) @ rng.normal(size=(4, 4))
    spike = np.where(rng.random(n) < 0.3, 0.0, np.abs(z[:, 3]) + 1e-9)
    whole = np.round(20 + 5 * z[:, 1] / z[:, 1].std() + 3 * rng.normal(size=n)).astype(np.int64)
    frame = pl.DataFrame(
        {
            "lognormal": np.exp(z[:, 0] / z[:, 0].std()),
            "quadratic": z[:, 1] + 0.5 * z[:, 2] ** 2,
            "normal": z[:, 2],
            "spike": spike,
            "whole": whole,
        }
    )
    made = dc.SequentialTrees()(frame, seed=1)
    assert max(ks_2samp(frame[name], made[name]).statistic for name in frame.columns) <= 0.01
    x = frame.to_numpy()
    sd = x.std(axis=0)
    moved = (np.cov(x.T) - np.cov(made.to_numpy().T)) / np.outer(sd, sd)
    scaled = (x - x.mean(axis=0)) / sd
    chance = np.array([[(scaled[:, i] * scaled[:, j]).std() for i in range(5)] for j in range(5)]) / np.sqrt(n)
    assert (np.abs(moved) <= np.maximum(0.03, 3 * chance)).all()  # the lognormal's variance: a new draw moves it by 3 %
    for name in ("lognormal", "quadratic", "normal", "spike"):
        values = made[name].filter(made[name] != 0)
        assert not values.is_in(frame[name].implode()).any()
    assert unpruned_s(frame[:30_000], made[:30_000]) <= 1.05


@pytest.mark.parametrize("generator", [dc.SequentialTrees, dc.IndependentMargins])
def test_the_refit_null_is_one_for_a_correct_generator(generator: type[dc.SequentialTrees]) -> None:
    """Truth: what a generator made, so that it is the right model; the ratio of mean pMSE to mean refit is 1."""
    n, runs = 2000, 40
    rng = np.random.default_rng(1)
    a = rng.choice(4, 40_000, p=[0.4, 0.3, 0.2, 0.1])
    b = a if generator is dc.SequentialTrees else rng.permutation(a)
    b = (b + rng.choice(2, 40_000)) % 4
    truth = pl.DataFrame(
        {"a": [f"x{v}" for v in a], "b": [f"y{v}" for v in b], "c": rng.normal(size=40_000) + 2 * (a > 1)}
    )
    if generator is dc.IndependentMargins:
        truth = truth.with_columns(pl.Series("c", rng.normal(size=40_000)))
    found = []
    for run in range(runs):
        original = dc.Dataset(truth[rng.choice(40_000, n, replace=False)])
        made = generator()(original, seed=run)
        measure = dc.Propensity(columns=truth.columns, null="refit", permutations=2, leaf_share=0.0)
        detail = measure(original, made, seed=run).detail
        found.append((detail["pmse"], detail["expected"]))
    mean = np.mean(found, axis=0)
    assert mean[0] / mean[1] == pytest.approx(1.0, abs=0.08)
