"""Estimates from several synthetic copies: the formulas, what is refused, and that intervals cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

import discretion as dc

Floats = NDArray[np.float64]
Q, U = [10.0, 11.0, 9.0, 10.4], [0.5, 0.6, 0.4, 0.5]


def test_partly_synthetic_copies_add_the_variance_between_them() -> None:
    found = dc.combine(Q, U, kind="partly")
    b, m, u = float(np.var(Q, ddof=1)), 4, 0.5
    assert found.estimate == pytest.approx(10.1)
    assert found.variance == pytest.approx(u + b / m)
    assert found.df == pytest.approx((m - 1) * (1 + m * u / b) ** 2)
    from scipy.stats import t

    half = t.ppf(0.975, found.df) * math.sqrt(u + b / m)
    assert found.interval == pytest.approx((10.1 - half, 10.1 + half))


def test_one_partly_synthetic_copy_has_twice_its_variance() -> None:
    found = dc.combine([3.0], [0.25], kind="partly")
    assert (found.variance, found.df) == (0.5, math.inf)
    assert found.interval == pytest.approx((3 - 1.959964 * math.sqrt(0.5), 3 + 1.959964 * math.sqrt(0.5)))


def test_equal_partly_synthetic_copies_have_the_normal_law() -> None:
    found = dc.combine([1.0, 1.0], [0.1, 0.3], kind="partly")
    assert found.variance == pytest.approx(0.2) and found.df == math.inf


@pytest.mark.parametrize(("kind", "factor"), [("fully", 2 + 1 / 4), ("fully-proper", 2 + 3 / 4)])
def test_fully_synthetic_copies_scale_the_mean_variance(kind: str, factor: float) -> None:
    found = dc.combine(Q, U, kind=kind, rows=200, original=100)  # type: ignore[arg-type]
    assert found.variance == pytest.approx(0.5 * factor)
    assert found.standard_error == pytest.approx(math.sqrt(0.5 * factor))


def test_the_rule_for_population_draws_falls_back_where_it_is_negative() -> None:
    wide = dc.combine([0.0, 4.0], [1.0, 1.0], kind="raghunathan", rows=10, original=20, population_draws=True)
    assert wide.variance == pytest.approx(1.5 * 8 - 1) and wide.df == pytest.approx(max(1, (1 - 1 / 12) ** 2))
    narrow = dc.combine([1.0, 1.1], [1.0, 1.0], kind="raghunathan", rows=10, original=20, population_draws=True)
    assert narrow.variance == pytest.approx(0.5) and narrow.df == 1


def test_several_estimates_are_combined_at_once() -> None:
    found = dc.combine(np.column_stack([Q, Q]), np.column_stack([U, U]), kind="partly")
    one = dc.combine(Q, U, kind="partly")
    assert np.allclose(found.variance, [one.variance] * 2) and np.allclose(found.interval[0], one.interval[0])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "fuly"}, "did you mean 'fully'"),
        ({"kind": "fully"}, "needs `rows`"),
        ({"kind": "fully", "rows": 0, "original": 5}, "at least 1"),
        ({"kind": "partly", "rows": 4, "original": 5}, "as many rows"),
        ({"kind": "raghunathan", "rows": 5, "original": 5}, "drawn anew"),
        ({"variances": [1.0]}, "as many variances"),
        ({"variances": [1.0, 1.0, -1.0, 1.0]}, "no variance is negative"),
        ({"confidence": 1.0}, "between 0 and 1"),
        ({"generator": "private-marginals"}, "share the noise"),
    ],
)
def test_what_cannot_be_combined_is_refused(change: dict[str, object], words: str) -> None:
    given = {"estimates": Q, "variances": U, "kind": "partly"} | change
    with pytest.raises(dc.PlanError, match=words):
        dc.combine(given.pop("estimates"), given.pop("variances"), **given)  # type: ignore[arg-type]


def test_copies_of_a_private_generator_are_refused_by_method_and_by_data() -> None:
    pytest.importorskip("opendp")
    import polars as pl

    step = dc.PrivateMarginals(epsilon=1, domain={"sex": ["f", "m"]})
    made = step(dc.Dataset(pl.DataFrame({"sex": ["f", "m"] * 20})))
    for generator in (step, dc.PrivateMarginals, made):
        with pytest.raises(dc.PlanError, match="share the noise"):
            dc.combine(Q, U, kind="fully", rows=40, original=40, generator=generator)
    dc.combine(Q, U, kind="partly", generator=dc.Dataset(pl.DataFrame({"sex": ["f"]})))


# --- coverage ---------------------------------------------------------------------------------------------------------

N, BETA, NOISE, REPEATS = 200, 1.0, 1 / 0.7, 4000


def _line(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    centered = x - x.mean(-1, keepdims=True)
    squares = (centered**2).sum(-1)
    slope = (centered * y).sum(-1) / squares
    rest = y - y.mean(-1, keepdims=True) - slope[..., None] * centered
    spread = (rest**2).sum(-1) / (y.shape[-1] - 2)
    return slope, spread / squares, spread


def _synthesize(
    x: Floats, y: Floats, rows: int, partly: bool, proper: bool, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw a copy from a normal x and a line with normal errors, parameters as estimated or drawn from their law."""
    n, many = x.shape[-1], len(x)
    slope, variance, spread = _line(x, y)
    middle, width, level = x.mean(-1), x.var(-1, ddof=1), y.mean(-1)
    if proper:
        width = width * (n - 1) / rng.chisquare(n - 1, many)
        center = middle + np.sqrt(width / n) * rng.normal(size=many)
        factor = (n - 2) / rng.chisquare(n - 2, many)
        spread, slope = spread * factor, slope + np.sqrt(variance * factor) * rng.normal(size=many)
        level = level + np.sqrt(spread / n) * rng.normal(size=many)
    else:
        center = middle
    xs = x if partly else center[:, None] + np.sqrt(width)[:, None] * rng.normal(size=(many, rows))
    mean = (level - slope * middle)[:, None] + slope[:, None] * xs
    return xs, mean + np.sqrt(spread)[:, None] * rng.normal(size=xs.shape)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "proper", "rows", "copies"),
    [
        ("partly", False, N, 5),
        ("partly", False, N, 20),
        ("partly", True, N, 5),
        ("fully", False, N, 1),
        ("fully", False, N, 5),
        ("fully", False, N // 2, 5),
        ("fully-proper", True, N, 1),
        ("fully-proper", True, N, 5),
        ("fully-proper", True, N // 2, 20),
        ("raghunathan", True, N, 50),
    ],
)
def test_intervals_cover_as_often_as_they_say(kind: str, proper: bool, rows: int, copies: int) -> None:
    rng = np.random.default_rng([copies, rows, proper, len(kind)])
    x = rng.normal(size=(REPEATS, N))
    y = 2 + BETA * x + NOISE * rng.normal(size=(REPEATS, N))
    estimates, variances = [], []
    for _ in range(copies):
        xs, ys = _synthesize(x, y, rows, kind == "partly", proper, rng)
        slope, slope_variance, _ = _line(xs, ys)
        estimates.append(np.concatenate([ys.mean(-1), slope]))
        variances.append(np.concatenate([ys.var(-1, ddof=1) / rows, slope_variance]))
    found = dc.combine(
        estimates,
        variances,
        kind=kind,
        rows=rows,
        original=N,
        population_draws=True,  # type: ignore[arg-type]
    )
    truth = np.repeat([2.0, BETA], REPEATS)
    inside = (found.interval[0] <= truth) & (truth <= found.interval[1])
    for covered in (inside[:REPEATS].mean(), inside[REPEATS:].mean()):
        assert 0.93 <= covered <= 0.97


@pytest.mark.slow
def test_the_refused_rule_would_cover_too_seldom() -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(1000, N))
    y = 2 + BETA * x + NOISE * rng.normal(size=(1000, N))
    means = np.array([_synthesize(x, y, N, False, False, rng)[1] for _ in range(5)])
    estimates, within = means.mean(-1), means.var(-1, ddof=1).mean(0) / N
    variance = np.maximum(1.2 * estimates.var(0, ddof=1) - within, 0)
    assert (np.abs(estimates.mean(0) - 2) <= 1.96 * np.sqrt(variance)).mean() < 0.7


def test_partly_is_refused_for_copies_whose_rows_are_all_new() -> None:
    fully, partly = dc.SequentialTrees(copies=2), dc.SequentialTrees(copies=2, columns=["income"])
    with pytest.raises(dc.PlanError, match="fully synthetic"):
        dc.combine([1.0, 2.0], [0.1, 0.1], kind="partly", generator=fully)
    assert dc.combine([1.0, 2.0], [0.1, 0.1], kind="partly", generator=partly).estimate == 1.5
