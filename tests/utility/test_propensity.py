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
    score = dc.Propensity(**FIELDS, model="logit", null="synthpop")(x, y)
    assert score.detail["pmse"] == pytest.approx(((fitted - 1 / 3) ** 2).mean(), rel=1e-5)
    assert score.detail["parameters"] == 5
    c, n = 1 / 3, 450
    assert score.detail["expected"] == pytest.approx(4 * (1 - c) ** 2 * c / n)
    assert score.detail["sd"] == pytest.approx(np.sqrt(8) * (1 - c) ** 2 * c / n)
    assert score.detail["s_pmse"] == pytest.approx(score.detail["pmse"] / score.detail["expected"])
    full = dc.Propensity(**FIELDS, model="logit")(x, y).detail
    assert full["expected"] == pytest.approx(4 * (1 - c) * c / n) and full["pmse"] == score.detail["pmse"]


def copies(n: int, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Draw a file, and three good releases of it: its records again, another sample, the right model's synthesis."""
    mixing = np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.0], [0.0, 0.0, 1.0]])
    x, other = (rng.normal(size=(n, 3)) @ mixing for _ in range(2))
    fitted = x.mean(axis=0) + rng.normal(size=(n, 3)) @ np.linalg.cholesky(np.cov(x.T, bias=True)).T
    return x, {"bootstrap": x[rng.integers(0, n, n)], "sample": other, "synthesis": fitted}


def mean_scores(model: str, null: str, n: int, runs: int, permutations: int) -> dict[str, float]:
    rng = np.random.default_rng(3)
    measure = dc.Propensity(**FIELDS, model=model, null=null, permutations=permutations)
    found: dict[str, list[float]] = {}
    for _ in range(runs):
        x, releases = copies(n, rng)
        for name, y in releases.items():
            frames = (pl.DataFrame(data, schema=FIELDS["columns"]) for data in (x, y))
            found.setdefault(name, []).append(measure(*frames).detail["s_pmse"])
    return {name: float(np.mean(values)) for name, values in found.items()}


TREE = {
    "samples": {"bootstrap": 0.5, "sample": 1.0, "synthesis": 1.0},
    "synthpop": {"bootstrap": 1.0, "sample": 2.0, "synthesis": 2.0},
}
LOGIT = {
    "samples": {"bootstrap": 0.5, "sample": 1.0, "synthesis": 0.5},
    "synthpop": {"bootstrap": 1.0, "sample": 2.0, "synthesis": 1.0},
}


@pytest.mark.parametrize("null", list(TREE))
def test_what_scores_one_under_each_null(null: str) -> None:
    """Standard errors over the runs are about 0.02 for trees and 0.08 for the logit, of scores near 1."""
    assert mean_scores("tree", null, 1000, 6, 3) == pytest.approx(TREE[null], rel=0.12)
    assert mean_scores("logit", null, 1000, 120, 2) == pytest.approx(LOGIT[null], rel=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("null", list(TREE))
def test_what_scores_one_under_each_null_with_more_runs(null: str) -> None:
    assert mean_scores("tree", null, 4000, 40, 5) == pytest.approx(TREE[null], rel=0.04)
    assert mean_scores("logit", null, 4000, 2000, 2) == pytest.approx(LOGIT[null], rel=0.07)


def test_another_sample_is_as_good_as_can_be_and_the_text_names_the_null() -> None:
    """A sample of the same population must not look worse than chance by default, whatever synthpop's null says."""
    rng = np.random.default_rng(4)
    x, y = draw(1000, rng), draw(1000, rng)
    usual, half = (dc.Propensity(**FIELDS, **null)(x, y) for null in ({}, {"null": "synthpop"}))
    assert usual.detail["null"] == "samples" and usual.detail["s_pmse"] == pytest.approx(1, abs=0.3)
    assert half.detail["s_pmse"] == pytest.approx(2 * usual.detail["s_pmse"])
    assert usual.value < 0.04 < half.value
    assert "`samples`: 1 is what another sample of the same population gets" in usual.meaning
    assert "`synthpop`: 1 is what a resample of the original's own records gets" in half.meaning
    assert "dependence" in dc.Propensity(**FIELDS, model="logit")(x, y).meaning


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
    # Half of the released `a` are missing: those 200 of 800 are told apart, of the other 600 a third is released.
    assert dc.Propensity(**FIELDS, smallest_leaf=150)(x, y).value == pytest.approx(1 / 3, abs=0.03)


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
    score = dc.Propensity(model="logit", permutations=50, null="synthpop")(
        *(dc.Dataset(f, roles=roles) for f in frames)
    )
    assert score.detail["expected"] <= score.detail["largest"] * 0.5 + 1e-12  # half of what permuted labels give
