"""Linkage with learned distances: against a grid, against what is known of the data, against the integer program."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc

DISTANCES = ("weighted", "owa", "bilinear", "choquet")
UNEQUAL = (0.15, 0.3, 0.6, 1.0, 1.5, 0.2)


def masked(n: int, d: int, seed: int = 0, noise_sd: tuple[float, ...] = UNEQUAL) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Dependent standardized columns, each masked by noise of its own strength."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) @ (np.eye(d) + 0.4 * rng.normal(size=(d, d)))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    names = [f"v{j}" for j in range(d)]
    y = x + np.array(noise_sd[:d]) * rng.normal(size=x.shape)
    return pl.DataFrame(x, schema=names), pl.DataFrame(y, schema=names)


def share_found(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> float:
    """Reid_k of a weighted mean, by comparing everything with everything."""
    distance = ((x[:, None, :] - y[None, :, :]) ** 2) @ weights
    tied = distance <= distance.min(axis=1)[:, None] * (1 + 1e-9)
    return float((np.diag(tied) / tied.sum(axis=1)).mean())


def test_weights_against_an_exhaustive_grid() -> None:
    """Nearly as good as the best of 861 weightings; the uniform figure and the value are what the weights give."""
    for seed in range(4):
        known, published = masked(40, 3, seed)
        x, y = known.to_numpy(), published.to_numpy()
        score = dc.LearnedLinkage(columns=known.columns, folds=0)(known, published)
        sd = x.std(axis=0, ddof=1)
        weights = np.array([score.detail["parameters"]["weights"][name] for name in known.columns])
        assert score.value == pytest.approx(share_found(x / sd, y / sd, weights))
        assert score.detail["uniform"] == pytest.approx(share_found(x / sd, y / sd, np.full(3, 1 / 3)))
        grid = [(a, b, 40 - a - b) for a in range(41) for b in range(41 - a)]
        best = max(share_found(x / sd, y / sd, np.array(w) / 40) for w in grid)
        assert score.value >= best - 2 / 40


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("seed", [1, 2])
def test_never_worse_than_uniform_weights(distance: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    known = pl.DataFrame({"a": rng.integers(0, 5, 50), "b": rng.choice(list("xyz"), 50), "c": rng.normal(size=50)})
    shuffled = known.with_columns(pl.Series("c", rng.permutation(known["c"].to_numpy())))
    holes = shuffled.with_columns(pl.when(pl.int_range(50) % 8 == 3).then(None).otherwise(pl.col("b")).alias("b"))
    for released in (known, shuffled, holes):
        score = dc.LearnedLinkage(columns=["a", "b", "c"], distance=distance, folds=0)(known, released)
        assert score.value >= score.detail["uniform"]
        assert 0 <= score.value <= 1


def test_a_column_of_noise_is_left_out() -> None:
    known, published = masked(150, 3, noise_sd=(0.1, 0.1, 4.0))
    for distance in ("weighted", "bilinear", "choquet"):
        score = dc.LearnedLinkage(columns=known.columns, distance=distance, folds=3)(known, published)
        assert score.value > 2 * score.detail["uniform"], distance
        assert score.detail["cross_validated"] > 1.8 * score.detail["uniform"], distance
        assert score.detail["chance"] == 1 / 150


def test_richer_forms_find_at_least_what_weights_find() -> None:
    known, published = masked(120, 3)
    found = {
        distance: dc.LearnedLinkage(columns=known.columns, distance=distance, folds=0)(known, published).value
        for distance in DISTANCES
    }
    assert found["bilinear"] >= found["weighted"]
    assert found["choquet"] >= found["weighted"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("distance", "at_least"), [("weighted", 0.15), ("owa", 0.01), ("bilinear", 0.15), ("choquet", 0.15)]
)
def test_gain_over_uniform_weights_on_unequal_noise(distance: str, at_least: float) -> None:
    """300 × 4: weights nearly double what equal weights find; OWA cannot tell columns apart and gains little."""
    known, published = masked(300, 4)
    score = dc.LearnedLinkage(columns=known.columns, distance=distance, folds=0)(known, published)
    assert score.value - score.detail["uniform"] >= at_least


@pytest.mark.slow
def test_a_thousand_records_of_six_columns() -> None:
    known, published = masked(1000, 6)
    score = dc.LearnedLinkage(columns=known.columns)(known, published)
    assert score.value > 2.5 * score.detail["uniform"]
    assert score.detail["cross_validated"] > score.value - 0.06


def test_owa_ignores_the_few_columns_that_were_destroyed() -> None:
    """In every record one column, not always the same, is replaced: the largest difference must not count."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(150, 4))
    y = x + 0.05 * rng.normal(size=x.shape)
    y[np.arange(150), rng.integers(0, 4, 150)] = rng.normal(size=150) * 3
    names = list("abcd")
    score = dc.LearnedLinkage(columns=names, distance="owa", folds=3)(
        pl.DataFrame(x, schema=names), pl.DataFrame(y, schema=names)
    )
    weights = score.detail["parameters"]["weights_from_largest"]
    assert weights[0] < 0.05
    assert score.value > 0.85 > score.detail["uniform"] + 0.2
    assert score.detail["cross_validated"] > 0.8


def test_pure_noise_is_not_called_risk_by_cross_validation() -> None:
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(2, 120, 4))
    names = list("abcd")
    score = dc.LearnedLinkage(columns=names, distance="bilinear")(
        pl.DataFrame(x, schema=names), pl.DataFrame(y, schema=names), align="position"
    )
    assert score.value == score.detail["cross_validated"] <= 5 / 120
    assert score.detail["in_sample"] > 2 * score.value
    assert score.per_record is not None and score.per_record.mean() == pytest.approx(score.value)


@pytest.mark.parametrize("distance", DISTANCES)
def test_integer_program_bounds_what_was_learned(distance: str) -> None:
    known, published = masked(25, 3, seed=3)
    measure = dc.LearnedLinkage(columns=known.columns, distance=distance, folds=0, milp_bound=True, milp_seconds=60)
    score = measure(known, published)
    bound = score.detail["bound"]
    assert score.value <= bound["share"] + 1e-12
    if distance == "weighted":
        x, y = known.to_numpy(), published.to_numpy()
        sd = x.std(axis=0, ddof=1)
        grid = [(a, b, 30 - a - b) for a in range(31) for b in range(31 - a)]
        best = max(share_found(x / sd, y / sd, np.array(w) / 30) for w in grid)
        assert bound["proven"]
        assert best <= bound["share"] + 1e-12
        assert bound["share"] <= best + 2 / 25
        assert bound["share"] < 1


def test_the_bound_refuses_large_data_in_words() -> None:
    known, published = masked(600, 2)
    with pytest.raises(dc.DataError, match="at most 500 records, these are 600"):
        dc.LearnedLinkage(columns=known.columns, folds=0, milp_bound=True)(known, published)


def test_learning_on_a_sample_links_everybody() -> None:
    known, published = masked(400, 3)
    measure = dc.LearnedLinkage(columns=known.columns, folds=2, learn_records=100)
    score = measure(known, published)
    assert score.detail["learned_on"] == 100
    assert score.per_record is not None and score.per_record.shape == (400,)
    whole = dc.LearnedLinkage(columns=known.columns, folds=0)(known, published)
    assert score.value >= score.detail["uniform"]
    assert score.value >= whole.value - 0.08
    assert measure(known, published).value == score.value


def test_an_intruder_with_few_records_links_to_the_whole_release() -> None:
    known, published = masked(200, 3)
    score = dc.LearnedLinkage(columns=known.columns, folds=0, intruder={"records": 40})(known, published)
    assert score.detail["records"] == 40
    assert score.detail["chance"] == 1 / 200
    assert score.per_record is not None and (~np.isnan(score.per_record)).sum() == 40


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"intruder": {"knows_method": True}}, "no use of the method"),
        ({"distance": "euclid"}, "distance"),
        ({"folds": -1}, "folds"),
        ({"milp_seconds": 0}, "milp_seconds"),
    ],
)
def test_bad_parameters(fields: dict[str, object], text: str) -> None:
    with pytest.raises(dc.PlanError, match=text):
        dc.LearnedLinkage(**fields)


def test_one_record_and_cancel() -> None:
    known, published = masked(30, 2)
    alone = dc.LearnedLinkage(columns=known.columns)(known[:1], published[:1])
    assert alone.value == 1.0
    assert alone.detail["cross_validated"] is None

    def stop(done: int, total: int, label: str) -> None:
        raise dc.Cancelled("stop")

    with pytest.raises(dc.Cancelled):
        dc.LearnedLinkage(columns=known.columns)(known, published, progress=stop)
