"""Forms of learned distances: their features against the definitions, their projections against an optimizer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from discretion.kernels import learned_distances as kernel
from discretion.kernels.learned_distances import onto_monotone, onto_simplex, onto_trace_one
from discretion.risk.identity.learned import Bilinear, Choquet, ChoquetPairs, Form, Owa, Weighted, form_of

FORMS = [Weighted, Owa, Bilinear, Choquet, ChoquetPairs]


def naive_distance(form: Form, p: np.ndarray, v: np.ndarray) -> float:
    """Each distance by its textbook definition."""
    x = v**2
    if isinstance(form, Bilinear):
        return float(v @ p.reshape(len(v), len(v)) @ v)
    if isinstance(form, Choquet):
        order = np.argsort(x, kind="stable")
        total, below = 0.0, 0.0
        for place, j in enumerate(order):
            above = sum(1 << int(k) for k in order[place:])
            total += (x[j] - below) * p[above]
            below = x[j]
        return total
    if isinstance(form, ChoquetPairs):
        parts = [*x]
        for a, b in itertools.combinations(x, 2):
            parts += [min(a, b), max(a, b)]
        return float(p @ parts)
    return float(p @ (np.sort(x)[::-1] if isinstance(form, Owa) else x))


def allowed(form: Form, rng: np.random.Generator) -> np.ndarray:
    return form.project(rng.normal(size=form.size))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), d=st.integers(1, 5), kind=st.sampled_from(FORMS), n=st.integers(1, 9))
def test_distances_ties_and_links_follow_the_definitions(seed: int, d: int, kind: type[Form], n: int) -> None:
    rng = np.random.default_rng(seed)
    form = kind([f"v{j}" for j in range(d)])
    p = allowed(form, rng)
    known, published = rng.integers(0, 3, (2, n, d)).astype(float)
    for side in (known, published):
        side[rng.random((n, d)) < 0.1] = np.nan
    nominal = rng.random(d) < 0.4
    missing = rng.random(d)
    records = kernel.Records(known, published, nominal, missing)
    distance = np.empty((n, n))
    for i in range(n):
        for k in range(n):
            v = np.where(nominal, (known[i] != published[k]).astype(float), known[i] - published[k])
            v = np.where(np.isnan(known[i]) | np.isnan(published[k]), np.sqrt(missing), v)
            distance[i, k] = naive_distance(form, p, v)
    rows = np.arange(n)
    found = kernel.nearest(form.code, records, p, rows, rows, 4, lambda *_: None)
    np.testing.assert_allclose(found.distance, np.maximum(distance.min(axis=1), 0), atol=1e-12)
    tied = distance <= distance.min(axis=1)[:, None] * (1 + 1e-9) + 1e-13
    clear = ((distance - distance.min(axis=1)[:, None] > 1e-6) | tied).all(axis=1)
    np.testing.assert_array_equal(found.size[clear], tied.sum(axis=1)[clear])
    np.testing.assert_array_equal(found.right[clear], np.diag(tied)[clear])
    np.testing.assert_array_equal(found.first[clear], tied.argmax(axis=1)[clear])
    flat = kernel.differences(records, np.repeat(rows, n), np.tile(rows, n))
    np.testing.assert_allclose(kernel.features(form.code, flat) @ p, distance.ravel(), atol=1e-12)


@pytest.mark.parametrize("kind", FORMS)
def test_gradient_of_the_soft_count(kind: type[Form]) -> None:
    rng = np.random.default_rng(2)
    d, n = 3, 20
    form = kind(["a", "b", "c"])
    p = allowed(form, rng)
    x = rng.normal(size=(n, d))
    records = kernel.Records(x, x + 0.5 * rng.normal(size=x.shape), np.zeros(d, bool), np.ones(d))
    rows = np.arange(n)
    near = kernel.nearest(form.code, records, p, rows, rows, 8, lambda *_: None).near

    def soft(q: np.ndarray) -> float:
        return kernel.soft_count(form.code, records, q, rows, rows, near, 0.4)[0]

    gradient = kernel.soft_count(form.code, records, p, rows, rows, near, 0.4)[2]
    step = 1e-6
    for k in range(form.size):
        move = np.zeros(form.size)
        move[k] = step
        assert (soft(p + move) - soft(p - move)) / (2 * step) == pytest.approx(gradient[k], abs=1e-5)


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_projection_is_the_nearest_allowed_point(kind: type[Form], seed: int) -> None:
    """No allowed point (found by an optimizer, or drawn) lies nearer; a projected point stays where it is."""
    rng = np.random.default_rng(seed)
    form = kind(["a", "b", "c"])
    target = rng.normal(size=form.size) * 0.7
    if isinstance(form, Bilinear):
        target = (target.reshape(3, 3) + target.reshape(3, 3).T).ravel() / 2
    p = form.project(target)
    np.testing.assert_allclose(form.project(p), p, atol=1e-7)
    low, high = form.bounds()
    assert (p >= low - 1e-9).all() and (p <= high + 1e-9).all()
    for row, least, most in form.conditions():
        assert least - 1e-9 <= row @ p <= most + 1e-9
    assert not form.cuts(p)
    for _ in range(200):
        other = allowed(form, rng)
        assert (target - p) @ (other - p) <= 1e-6  # the obtuse angle that marks a projection onto a convex set


def test_monotone_projection_against_an_optimizer() -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        target = rng.normal(0.5, 0.6, 8)
        target[0], target[7] = 0.0, 1.0
        edges = [(s, s | 1 << j) for s in range(8) for j in range(3) if not s >> j & 1]
        rules = [{"type": "ineq", "fun": lambda mu, a=a, b=b: mu[b] - mu[a]} for a, b in edges]
        rules += [{"type": "eq", "fun": lambda mu: mu[0]}, {"type": "eq", "fun": lambda mu: mu[7] - 1}]
        best = minimize(
            lambda mu, t=target: ((mu - t) ** 2).sum(), np.linspace(0, 1, 8), constraints=rules, method="SLSQP",
            options={"ftol": 1e-15},
        )  # fmt: skip
        np.testing.assert_allclose(onto_monotone(target), best.x, atol=1e-5)


def test_known_projections() -> None:
    np.testing.assert_allclose(onto_simplex(np.array([0.5, 0.5, 5.0])), [0, 0, 1])
    np.testing.assert_allclose(onto_simplex(np.array([0.2, 0.3, 0.5])), [0.2, 0.3, 0.5])
    np.testing.assert_allclose(onto_trace_one(np.diag([3.0, -1.0]).ravel()), [1, 0, 0, 0], atol=1e-12)
    additive = Choquet(["a", "b"]).additive(np.array([0.3, 0.7]))
    np.testing.assert_allclose(onto_monotone(additive), additive)


@pytest.mark.parametrize("kind", [Weighted, Bilinear, Choquet, ChoquetPairs])
def test_a_weighted_mean_is_a_special_case(kind: type[Form]) -> None:
    rng = np.random.default_rng(3)
    form = kind(["a", "b", "c", "d"])
    weights = onto_simplex(rng.random(4))
    v = rng.normal(size=(10, 4))
    distance = kernel.features(form.code, v) @ form.additive(weights)
    np.testing.assert_allclose(distance, (v**2) @ weights)
    np.testing.assert_allclose(kernel.features(form.code, v) @ form.uniform(), (v**2).mean(axis=1))


def test_extreme_two_additive_measures_are_monotone_and_two_additive() -> None:
    """Their Möbius transforms vanish on three and more columns, and what they mix is a Choquet integral."""
    rng = np.random.default_rng(4)
    pairs, full = ChoquetPairs(["a", "b", "c"]), Choquet(["a", "b", "c"])
    p = allowed(pairs, rng)
    indicators = np.array([[float(s >> j & 1) for j in range(3)] for s in range(8)])
    mu = kernel.features(pairs.code, indicators) @ p
    np.testing.assert_allclose(full.project(mu), mu, atol=1e-9)
    mobius = sum((-1) ** (3 - bin(s).count("1")) * mu[s] for s in range(8))
    assert mobius == pytest.approx(0, abs=1e-12)
    v = rng.normal(size=(20, 3))
    np.testing.assert_allclose(kernel.features(pairs.code, v) @ p, kernel.features(full.code, v) @ mu)


@pytest.mark.parametrize("kind", FORMS)
def test_shortfall_bounds_every_allowed_distance(kind: type[Form]) -> None:
    rng = np.random.default_rng(5)
    form = kind(["a", "b", "c"])
    for _ in range(50):
        own, other = rng.normal(size=(2, 3))
        p = allowed(form, rng)
        gap = kernel.features(form.code, np.vstack([own, other])) @ p
        assert gap[0] - gap[1] <= form.shortfall(own, other) + 1e-9


def test_choquet_has_a_full_measure_up_to_six_columns() -> None:
    assert isinstance(form_of("choquet", list("abcdef")), Choquet)
    assert isinstance(form_of("choquet", list("abcdefg")), ChoquetPairs)
    assert form_of("choquet", list("abcdefg")).size == 49
    assert [type(form_of(name, ["a"])) for name in ("weighted", "owa", "bilinear")] == [Weighted, Owa, Bilinear]
