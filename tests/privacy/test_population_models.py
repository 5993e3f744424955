"""The estimators of population uniques: by simulation, at their limits, and against published figures of ARX."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import discretion as dc
from discretion.risk.identity import uniqueness
from discretion.risk.identity.uniqueness import (
    ESTIMATORS,
    dankar,
    expected_snb,
    fit_pitman,
    number_of_classes,
    pitman,
    snb,
    zayatz,
)
from tests.shared import reference


def simulated(fraction: float, seed: int = 1) -> tuple[np.ndarray, int, int]:
    """Give the class-size frequencies of a sample, the size of its population and its true number of uniques."""
    rng = np.random.default_rng(seed)
    sizes = rng.negative_binomial(0.4, 0.03, 20_000) + 1
    people = np.repeat(np.arange(len(sizes)), sizes)
    sample = rng.choice(people, round(fraction * len(people)), replace=False)
    counts = np.bincount(sample, minlength=len(sizes))
    return np.bincount(counts[counts > 0]), len(people), int((sizes == 1).sum())


@pytest.mark.parametrize("fraction", [0.05, 0.2, 0.5])
def test_slide_negative_binomial_population(fraction: float) -> None:
    frequencies, population, truth = simulated(fraction)
    if fraction >= 0.2:
        assert snb(frequencies, population) == pytest.approx(truth, rel=0.3)
        assert number_of_classes(frequencies, population) == pytest.approx(20_000, rel=0.1)
        assert zayatz(frequencies, population) == pytest.approx(truth, rel=0.6)
        assert dankar(frequencies, population) == min(snb(frequencies, population), zayatz(frequencies, population))
    else:
        assert dankar(frequencies, population) == pitman(frequencies, population)


def pitman_population(n: int, theta: float, alpha: float, seed: int) -> np.ndarray:
    """Seat n people by the two-parameter Chinese restaurant process; gives each person's class."""
    rng = np.random.default_rng(seed)
    seats, sizes = [0], [1]
    for i in range(1, n):
        if rng.random() * (theta + i) < theta + alpha * len(sizes):
            seats.append(len(sizes))
            sizes.append(1)
            continue
        chosen = seats[rng.integers(i)]  # a class by its size, kept with probability 1 − α/size: by size − α
        while rng.random() < alpha / sizes[chosen]:
            chosen = seats[rng.integers(i)]
        seats.append(chosen)
        sizes[chosen] += 1
    return np.array(seats)


@pytest.fixture(scope="module")
def heavy_tail() -> tuple[np.ndarray, int, int]:
    """Give the class-size frequencies of a sample of a Pitman population, its size and its true number of uniques."""
    seats = pitman_population(20_000, 60.0, 0.5, 2)
    counts = np.bincount(np.random.default_rng(3).choice(seats, 2000, replace=False))
    return np.bincount(counts[counts > 0]), len(seats), int((np.bincount(seats) == 1).sum())


def test_pitman_finds_its_own_parameters(heavy_tail: tuple[np.ndarray, int, int]) -> None:
    frequencies, population, truth = heavy_tail
    theta, alpha = fit_pitman(frequencies, population)
    assert alpha == pytest.approx(0.5, abs=0.08)
    assert theta == pytest.approx(60, rel=0.5)
    assert pitman(frequencies, population) == pytest.approx(truth, rel=0.2)
    assert dankar(frequencies, population) == pitman(frequencies, population)


def likelihood(frequencies: np.ndarray, theta: float, alpha: float) -> float:
    """Sum the log-likelihood of Pitman's model as it is written."""
    n = int((np.arange(len(frequencies)) * frequencies).sum())
    u = int(frequencies[1:].sum())
    value = np.log(theta + np.arange(1, u) * alpha).sum() - np.log(theta + np.arange(1, n)).sum()
    for i in np.flatnonzero(frequencies):
        value += frequencies[i] * np.log(np.arange(1, i) - alpha).sum()
    return float(value)


def test_pitman_is_a_maximum(heavy_tail: tuple[np.ndarray, int, int]) -> None:
    frequencies, population, _ = heavy_tail
    theta, alpha = fit_pitman(frequencies, population)
    best = likelihood(frequencies, theta, alpha)
    for step in (1e-3, 1e-2):
        for dt, da in ((step, 0), (-step, 0), (0, step), (0, -step), (step, step), (-step, -step)):
            assert likelihood(frequencies, theta * (1 + dt), alpha + da) < best


def test_pitman_at_the_border_is_the_model_of_ewens() -> None:
    """Without a heavy tail α is 0, and the expected number of uniques is θ."""
    frequencies, population, _ = simulated(0.05)
    theta, alpha = fit_pitman(frequencies, population)
    assert alpha < 1e-6
    assert pitman(frequencies, population) == pytest.approx(theta, rel=1e-6)
    best = likelihood(frequencies, theta, 0)
    assert likelihood(frequencies, theta, 1e-3) < best
    assert max(likelihood(frequencies, theta * 1.01, 0), likelihood(frequencies, theta * 0.99, 0)) < best


def test_expected_counts_of_the_slide_negative_binomial() -> None:
    rng = np.random.default_rng(4)
    a, b, fraction, classes = 0.7, 0.2, 0.3, 2_000_000
    sizes = rng.negative_binomial(a, b, classes) + 1
    drawn = rng.binomial(sizes, fraction)
    one, two = expected_snb(classes, fraction, a, b)
    assert (drawn == 1).sum() == pytest.approx(one, rel=0.01)
    assert (drawn == 2).sum() == pytest.approx(two, rel=0.01)


def test_zayatz_by_its_definition() -> None:
    frequencies = np.array([0, 5, 3, 0, 2])
    population, n, u = 60, 19, 10
    once = {i: i * math.comb(population - i, n - 1) / math.comb(population, n) for i in (1, 2, 4)}
    unique = 5 / u * (n / population) / sum(frequencies[i] / u * once[i] for i in once)
    assert zayatz(frequencies, population) == pytest.approx(5 * unique / (n / population), rel=1e-12)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_limits(name: str) -> None:
    estimate = ESTIMATORS[name]
    assert estimate(np.array([0, 0, 5, 2]), 1000) == 0  # no sample uniques
    assert estimate(np.array([0, 4, 3]), 10) == 4  # everybody is in the sample
    assert estimate(np.array([0, 7]), 100) == 100  # everybody is alone
    assert estimate(np.array([0, 0, 5, 2]), 16) == 0
    with pytest.raises(dc.DataError, match="smaller than"):
        estimate(np.array([0, 4, 3]), 9)
    with pytest.raises(dc.DataError, match="no classes"):
        estimate(np.array([0, 0]), 9)


@pytest.mark.parametrize("seed", range(6))
def test_estimates_never_exceed_the_population(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4 + seed * 3, 40)
    for population in (int(sizes.sum()) + 1, int(sizes.sum()) * 3, int(sizes.sum()) * 1000):
        for name in ("dankar", "pitman", "zayatz"):
            assert 0 <= ESTIMATORS[name](np.bincount(sizes), population) <= population


@pytest.mark.peers
def test_arx_on_adult() -> None:
    golden = json.loads(reference("golden", "arx", "risk_adult_raw_5qi.json").read_text())
    pairs = np.array(golden["histogram_size_count_pairs"]).reshape(-1, 2)
    frequencies = np.zeros(pairs[:, 0].max() + 1, dtype=np.int64)
    frequencies[pairs[:, 0]] = pairs[:, 1]
    for case in golden["population_uniqueness"].values():
        for name in ("pitman", "zayatz", "dankar"):
            got = ESTIMATORS[name](frequencies, case["population_size"])
            assert got == pytest.approx(case[name]["n"], rel=1e-9)
        assert snb(frequencies, case["population_size"]) > 0  # ARX's own fails here


@pytest.mark.parametrize("seed", range(6))
def test_newton_finds_the_maximum_that_a_search_within_bounds_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    theta, alpha = float(np.exp(rng.uniform(0, 5))), float(rng.uniform(0.15, 0.85))
    frequencies = np.bincount(np.bincount(pitman_population(3000, theta, alpha, seed)))
    sample = uniqueness._sample(frequencies, 10**6)
    start = uniqueness._pitman_start(sample)
    quick = uniqueness.fit_pitman(frequencies, 10**6)
    slow = uniqueness._fit_within_bounds(sample, start)
    assert quick.alpha == pytest.approx(slow.alpha, rel=1e-6)
    assert quick.theta == pytest.approx(slow.theta, rel=1e-6)
    slope = uniqueness._pitman_likelihood(sample, *quick)[1]
    assert np.abs(slope).max() < 1e-6


def test_a_maximum_at_the_border_is_left_to_the_search_within_bounds() -> None:
    """Classes of equal sizes: α tends to 0, where Newton's steps do not arrive."""
    from discretion.kernels.distributions import fit

    sizes, counts = np.array([1, 20]), np.array([1, 40])
    assert fit(30.0, 0.3, sizes, counts) is None
    frequencies = np.bincount(np.repeat(sizes, counts))
    assert fit_pitman(frequencies, 10**5).alpha < 1e-3
