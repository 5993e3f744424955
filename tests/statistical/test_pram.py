"""Random moves follow their matrix; frequencies hold, or can be estimated, within statistical bounds."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.protect.pram import estimate_errors, estimate_frequencies

N = 200_000
SHARES = np.array([0.5, 0.25, 0.15, 0.08, 0.02])
NAMES = np.array(["a", "b", "c", "d", "e"])


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(11)
    return pl.DataFrame({"x": NAMES[rng.choice(5, N, p=SHARES)]})


def counts(frame: pl.DataFrame) -> np.ndarray:  # type: ignore[type-arg]
    found = dict(frame["x"].value_counts().iter_rows())
    return np.array([found.get(name, 0) for name in NAMES], dtype=float)


def matrix_of(method: dc.Pram, frame: pl.DataFrame) -> np.ndarray:  # type: ignore[type-arg, name-defined]
    decision = method.decide(dc.Dataset(frame), dc.Context(1, "1"))
    return np.array(decision["columns"]["x"]["matrix"])


@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize("spread", ["proportional", "uniform"])
def test_moves_follow_the_matrix(frame: pl.DataFrame, spread: str, invariant: bool) -> None:
    method = dc.Pram(columns=["x"], keep_share=0.7, spread=spread, invariant=invariant)
    matrix, true = matrix_of(method, frame), counts(frame)
    released = method(frame, seed=5)
    for row, name in enumerate(NAMES):
        got = counts(released.filter(frame["x"] == name)) / true[row]
        assert np.all(np.abs(got - matrix[row]) <= 4.5 * np.sqrt(matrix[row] * (1 - matrix[row]) / true[row]) + 1e-12)


def test_invariant_frequencies_hold_and_plain_ones_do_not(frame: pl.DataFrame) -> None:
    true = counts(frame)
    for invariant in (False, True):
        method = dc.Pram(columns=["x"], keep_share=0.7, spread="uniform", invariant=invariant)
        matrix = matrix_of(method, frame)
        sd = np.sqrt(np.diag(np.diag(true @ matrix) - (matrix * true[:, None]).T @ matrix))
        far = np.abs(counts(method(frame, seed=5)) - true) / sd
        assert np.all(far <= 4.5) == invariant


def test_true_frequencies_are_estimated_without_bias(frame: pl.DataFrame) -> None:
    method = dc.Pram(columns=["x"], keep_share=0.6, spread="uniform")
    matrix, true = matrix_of(method, frame), counts(frame)
    part = frame.head(5000)
    true = counts(part)
    drawn = np.array([counts(method(part, seed=seed)) for seed in range(60)])
    estimates = np.array([estimate_frequencies(c, matrix) for c in drawn])
    errors = estimate_errors(true @ matrix, matrix)
    assert np.all(np.abs(estimates.mean(axis=0) - true) <= 4.5 * errors / math.sqrt(60))
    assert estimates.std(axis=0, ddof=1) == pytest.approx(errors, rel=0.4)


def test_two_coins_estimate_the_share_with_the_promised_error() -> None:
    answers = np.array(["no", "yes"])
    frame = pl.DataFrame({"x": np.repeat(answers, [700, 300])})
    method = dc.RandomizedResponse(columns=["x"])
    estimates = np.array([method.estimate(method(frame, seed=seed), "x")["yes"].share for seed in range(400)])
    assert abs(estimates.mean() - 0.3) <= 4.5 * 0.031 / math.sqrt(400)
    # Over samples of people the error is 0.03098; with the same 1000 people only the coins vary: 2·√(.1875/1000).
    assert estimates.std(ddof=1) == pytest.approx(2 * math.sqrt(0.1875 / 1000), rel=0.15)
    rng = np.random.default_rng(3)
    drawn = [
        method.estimate(method(pl.DataFrame({"x": answers[(rng.random(1000) < 0.3).astype(int)]}), seed=seed), "x")
        for seed in range(400)
    ]
    shares = np.array([estimate["yes"].share for estimate in drawn])
    assert shares.std(ddof=1) == pytest.approx(0.03098, rel=0.15)
    assert np.mean([estimate["yes"].standard_error for estimate in drawn]) == pytest.approx(0.03098, rel=0.01)
