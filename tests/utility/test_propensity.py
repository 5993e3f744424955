from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc

FIELDS = {"columns": ["a", "b", "c"]}


def draw(n: int, rng: np.random.Generator, dependent: bool = True) -> pl.DataFrame:
    a = rng.normal(size=n)
    b = 0.8 * (a if dependent else rng.normal(size=n)) + 0.6 * rng.normal(size=n)
    return pl.DataFrame({"a": a, "b": b, "c": rng.choice(list("xyz"), n)})


@pytest.mark.parametrize("model", ["tree", "logit"])
def test_nothing_and_everything(model: str) -> None:
    x = draw(300, np.random.default_rng(0))
    measure = dc.Propensity(**FIELDS, model=model)
    same = measure(x, x)
    assert same.value == 0
    assert same.detail["pmse"] == pytest.approx(0, abs=1e-12)
    far = measure(x, x.with_columns(pl.col("a") + 100))
    assert far.value == pytest.approx(1, abs=0.01)
    assert far.detail["pmse"] == pytest.approx(0.25, abs=0.005)


def test_logit_finds_dependence_only_in_margins_and_trees_do() -> None:
    rng = np.random.default_rng(1)
    x, y = draw(2000, rng), draw(2000, rng, dependent=False)
    assert dc.Propensity(**FIELDS, model="logit")(x, y).value < 0.01
    assert dc.Propensity(**FIELDS, model="tree")(x, y).value > 0.1


def test_logit_is_the_maximum_of_the_likelihood() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(2)
    x, y = draw(300, rng), draw(150, rng).with_columns(pl.col("a") + 0.4)
    both = pl.concat([x, y])
    design = np.column_stack([both["a"], both["b"], both["c"] == "x", both["c"] == "y"]).astype(float)
    label = np.repeat([0, 1], [300, 150])
    fitted = LogisticRegression(C=np.inf, tol=1e-12, max_iter=5000).fit(design, label).predict_proba(design)[:, 1]
    score = dc.Propensity(**FIELDS, model="logit")(x, y)
    assert score.detail["pmse"] == pytest.approx(((fitted - 1 / 3) ** 2).mean(), rel=1e-5)
    assert score.detail["parameters"] == 5
    c, n = 1 / 3, 450
    assert score.detail["expected"] == pytest.approx(4 * (1 - c) ** 2 * c / n)
    assert score.detail["sd"] == pytest.approx(np.sqrt(8) * (1 - c) ** 2 * c / n)
    assert score.detail["s_pmse"] == pytest.approx(score.detail["pmse"] / score.detail["expected"])


@pytest.mark.parametrize("model", ["tree", "logit"])
def test_two_samples_have_the_chance_level(model: str) -> None:
    rng = np.random.default_rng(3)
    measure = dc.Propensity(**FIELDS, model=model, null="samples", permutations=10)
    found = [measure(draw(200, rng), draw(200, rng)).detail["s_pmse"] for _ in range(25)]
    assert np.mean(found) == pytest.approx(1, abs=0.25)


def test_a_draw_from_the_fitted_model_has_half_of_it() -> None:
    rng = np.random.default_rng(4)
    measure = dc.Propensity(columns=["a", "b"], model="logit")
    found = []
    for _ in range(150):
        x = rng.normal(size=(300, 2))
        fitted = x.mean(axis=0) + rng.normal(size=(300, 2)) @ np.linalg.cholesky(np.cov(x.T, bias=True)).T
        frames = (pl.DataFrame(data, schema=["a", "b"]) for data in (x, fitted))
        found.append(measure(*frames).detail["s_pmse"])
    assert np.mean(found) == pytest.approx(1, abs=0.25)


@pytest.mark.parametrize("model", ["tree", "logit"])
def test_size_does_not_move_the_value(model: str) -> None:
    rng = np.random.default_rng(5)
    values = [
        dc.Propensity(**FIELDS, model=model)(draw(n, rng), draw(n, rng).with_columns(pl.col("a") + 1.0)).value
        for n in (500, 4000)
    ]
    assert values[0] == pytest.approx(values[1], abs=0.1)
    assert 0.1 < values[1] < 0.9


def test_weights_undo_a_biased_sample() -> None:
    rng = np.random.default_rng(6)
    x = draw(3000, rng).with_columns(pl.lit(1.0).alias("w"))
    y = draw(6000, rng)
    kept = 1 / (1 + np.exp(-y["a"].to_numpy()))
    chosen = rng.random(6000) < kept
    y = y.with_columns(pl.Series("w", 1 / kept)).filter(pl.Series(chosen))
    roles = {"a": "quasi", "b": "quasi", "c": "quasi"}
    without = dc.Propensity(model="logit", **FIELDS)(x.drop("w"), y.drop("w")).value
    weighted = [dc.Dataset(frame, roles={**roles, "w": "weight"}) for frame in (x, y)]
    assert dc.Propensity(model="logit")(*weighted).value < without / 5
    assert dc.Propensity(model="tree", smallest_leaf=100)(*weighted).value < 0.1


def test_missing_is_a_value() -> None:
    x = draw(400, np.random.default_rng(7))
    y = x.with_columns(pl.when(pl.int_range(400) % 2 == 0).then(pl.col("a")).alias("a"))
    assert dc.Propensity(**FIELDS, smallest_leaf=5)(x, y).value > 0.2


@pytest.mark.parametrize("model", ["tree", "logit"])
def test_weights_of_zero_are_no_records(model: str) -> None:
    rng = np.random.default_rng(8)
    x, y = draw(60, rng), draw(40, rng)
    roles = {"a": "quasi", "b": "quasi", "c": "quasi", "w": "weight"}
    measure = dc.Propensity(model=model, permutations=5)
    kept = [f.with_columns(w=pl.Series(rng.choice([1.0, 3.0], len(f)))) for f in (x, y)]
    extra = [pl.concat([f, f.with_columns(w=pl.lit(0.0))]) for f in kept]
    few, more = (measure(*(dc.Dataset(f, roles=roles) for f in pair)) for pair in (kept, extra))
    assert few.value == more.value and few.detail == more.detail


def test_the_chance_level_of_weighted_files_is_that_of_balanced_ones() -> None:
    """Nearly all weight on one record of each file: every permutation must still weigh the two sides alike."""
    rng = np.random.default_rng(9)
    frames = [draw(5, rng).with_columns(w=pl.Series([1e6, 1, 1, 1, 1])) for _ in range(2)]
    roles = {"a": "quasi", "b": "quasi", "c": "quasi", "w": "weight"}
    score = dc.Propensity(model="logit", permutations=50)(*(dc.Dataset(f, roles=roles) for f in frames))
    assert score.detail["expected"] <= score.detail["largest"] * 0.5 + 1e-12  # `synthetic` halves it
