"""Seeds from the operating system, and streams: who draws the same, and who draws independently."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.context import Context, keyed_hash, new_seed
from discretion.method import Decision, Method
from discretion.release.journal import OTHER_STEPS

_DRAW = "from discretion.context import new_seed; print(new_seed())"


def test_each_process_draws_its_own_seed() -> None:
    calls = [subprocess.run([sys.executable, "-c", _DRAW], capture_output=True, text=True, check=True) for _ in "ab"]
    first, second = (int(call.stdout) for call in calls)
    assert first != second and max(first, second) >= 2**100


def test_contexts_without_a_seed_differ() -> None:
    assert new_seed() != new_seed()
    assert Context().rng.random() != Context().rng.random()


def test_the_same_seed_and_step_give_the_same_draws() -> None:
    assert Context(3, "a").rng.random() == Context(3, "a").rng.random() != Context(3, "b").rng.random()
    drawn = [batch.rng.random() for batch in Context(3).batches(200_000)]
    assert len(set(drawn)) == len(drawn) == 4
    assert Context(3, "a").key("x") == Context(3, "a").key("x") != Context(3, "a").key("y") != Context(4, "a").key("y")


def test_items_of_a_hash_are_kept_apart() -> None:
    assert keyed_hash(b"k", "ab", "c") != keyed_hash(b"k", "a", "bc") != keyed_hash(b"l", "a", "bc")


# --- streams of steps --------------------------------------------------------------------------------------------

X = np.random.default_rng(1).normal(50, 10, 5000)
FRAME = pl.DataFrame({"x": X, "y": X[::-1], "g": ["a", "b"] * 2500})


def noise(method: Method, frame: pl.DataFrame = FRAME, seed: int = 7) -> np.ndarray:
    return method(frame, seed=seed)["x"].to_numpy() - frame["x"].to_numpy()


def correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one, other)[0, 1])


@pytest.mark.parametrize(
    ("weak", "strong"),
    [
        (dc.AdditiveNoise(columns=["x"], sd_share=0.25), dc.AdditiveNoise(columns=["x"], sd_share=0.5)),
        (
            dc.CorrelatedNoise(columns=["x", "y"], variance_share=0.1),
            dc.CorrelatedNoise(columns=["x", "y"], variance_share=0.4),
        ),
        (dc.MultiplicativeNoise(columns=["x"], sd=0.1), dc.MultiplicativeNoise(columns=["x"], sd=0.2)),
        (
            dc.AdditiveNoise(columns=["x"], sd_share=0.25, by=["g"]),
            dc.AdditiveNoise(columns=["x"], sd_share=0.5, by=["g"]),
        ),
    ],
    ids=["additive", "correlated", "multiplicative", "by group"],
)
def test_two_strengths_of_one_file_do_not_give_the_noise_away(weak: Method, strong: Method) -> None:
    a, b = noise(weak), noise(strong)
    assert abs(correlation(a, b)) < 0.05
    assert np.std(2 * a - b) > np.std(a)  # with one stream 2a − b was the original


def test_two_deliveries_draw_independently() -> None:
    method = dc.AdditiveNoise(columns=["x"], sd_share=0.25)
    grown = FRAME.with_columns(pl.col("x") * 1.03)
    one_changed = FRAME.with_columns(
        pl.when(pl.int_range(pl.len()) == 4999).then(0.0).otherwise(pl.col("x")).alias("x")
    )
    for later in (grown, one_changed):
        assert abs(correlation(noise(method), noise(method, later))) < 0.05


def test_what_the_step_does_not_read_does_not_matter() -> None:
    method = dc.AdditiveNoise(columns=["x"], sd_share=0.25)
    other = FRAME.with_columns(pl.col("y") + 1).rename({"g": "group"})
    assert np.array_equal(noise(method), noise(method, other))


def test_the_last_digits_of_a_decision_do_not_change_what_is_drawn() -> None:
    """Processors add up in another order: the same release made elsewhere draws the same; with 1e-7 more, others."""
    method, data = dc.AdditiveNoise(columns=["x"], sd_share=0.25), dc.Dataset(FRAME)
    first = method.run(data, Context(5, "noise"))

    def again(factor: float) -> bytes | None:
        other = Decision({**first.decision.values, "sd": [factor * first.decision["sd"][0]]})
        assert other["sd"] != first.decision["sd"]
        return method.run(data, Context(5, "noise"), other).drawn

    assert again(1 + 4e-16) == first.drawn != again(1 + 1e-7)


def test_a_decision_used_again_draws_as_it_would_anew_and_otherwise_independently() -> None:
    method = dc.AdditiveNoise(columns=["x"], sd_share=0.25)
    data = dc.Dataset(FRAME)
    study = dc.Study(data, 7).apply(method)
    saved = study.decisions["1-additive-noise"]
    other = Decision({**saved.values, "sd": [2 * saved["sd"][0]]})
    later = dc.Dataset(FRAME.with_columns(pl.col("x") + 1))
    first = study.current.number("x") - X
    again = dc.Study(data, 7).apply(method, decision=saved).current.number("x") - X
    stronger = dc.Study(data, 7).apply(method, decision=other).current.number("x") - X
    delivered = dc.Study(later, 7).apply(method, decision=saved).current.number("x") - X - 1
    assert np.array_equal(first, again)
    assert abs(correlation(first, stronger)) < 0.05 and abs(correlation(first, delivered)) < 0.05
    assert np.std(stronger) / np.std(first) == pytest.approx(2, rel=0.05)


def test_the_place_of_a_step_and_the_seed_matter() -> None:
    method = dc.AdditiveNoise(columns=["x"], sd_share=0.25)
    round_y = dc.Round(columns=["y"], base=5)
    first = dc.Study(dc.Dataset(FRAME), 7).apply(method)
    second = dc.Study(dc.Dataset(FRAME), 7).apply(round_y).apply(method)
    assert abs(correlation(first.current.number("x") - X, second.current.number("x") - X)) < 0.05
    assert abs(correlation(noise(method, seed=7), noise(method, seed=8))) < 0.05
    assert set(second.drawn) == {"2-additive-noise", OTHER_STEPS}  # rounding to the nearest draws nothing
