"""Methods for categories and households, through the public classes, with polars frames."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

import discretion as dc
from benchmarks.ratio import Line, compare

N = 10_000_000
PEOPLE = 1_000_000


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    yield from _moves()
    yield from _swaps()
    yield from _shuffle()


def _moves() -> Iterator[Line]:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 9, N).astype(np.uint32)
    frame = pl.DataFrame({"x": pl.Series([f"category {i}" for i in range(9)]).gather(codes).cast(pl.Categorical)})
    for name, method in (
        ("Pram, invariant", dc.Pram(columns=["x"], keep_share=0.8, invariant=True)),
        ("RandomizedResponse", dc.RandomizedResponse(columns=["x"], truth_share=0.5)),
    ):
        yield compare(
            f"{name}, {N:,} codes", lambda method=method: method(frame, seed=1), "rng.random",
            lambda: rng.random(N), 8.0,
        )  # fmt: skip


def _swaps() -> Iterator[Line]:
    rng = np.random.default_rng(2)
    homes = PEOPLE * 2 // 5
    home = rng.integers(0, homes, PEOPLE)
    ages = rng.integers(0, 20, PEOPLE)
    town = rng.integers(0, 1000, homes)
    frame = pl.DataFrame(
        {
            "home": home,
            "region": town[home] // 50,
            "town": town[home],
            "sex": rng.integers(0, 2, PEOPLE),
            "age": ages,
        }
    )
    places = {"geography": ["region", "town"], "household": "home"}

    def base() -> object:
        return np.lexsort((ages, home))

    edit = dc.ConfidentialityEdit(**places, match_on=["sex", "age"], share=0.1)
    yield compare(f"ConfidentialityEdit, {PEOPLE:,}", lambda: edit(frame, seed=1), "np.lexsort, 2 keys", base, 4.0)
    blank = dc.BlankAndImpute(**places, columns=["age"], match_on=["sex"], small_block=400, per_block=40)
    yield compare(f"BlankAndImpute, {PEOPLE:,}", lambda: blank(frame, seed=1), "np.lexsort, 2 keys", base, 4.0)
    swap = dc.TargetedRecordSwap(**places, risk_columns=["sex", "age"], k=15, similar=["sex", "age"], share=0.1)
    yield compare(f"TargetedRecordSwap, {PEOPLE:,}", lambda: swap(frame, seed=1), "np.lexsort, 2 keys", base, 12.0)


def _shuffle() -> Iterator[Line]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(PEOPLE, 4))
    frame = pl.DataFrame(x, schema=["a", "b", "s", "t"])
    method = dc.Shuffle(columns=["a", "b"], predictors=["s", "t"])
    yield compare(
        f"Shuffle, {PEOPLE:,} × 2 by 2", lambda: method(frame, seed=1), "np.argsort stable",
        lambda: np.argsort(x[:, 0], kind="stable"), 10.0,
    )  # fmt: skip
