"""The health of the artificial census: a set of diagnoses for each person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discretion.kernels.arrays import Floats, Ints

if TYPE_CHECKING:
    import polars as pl

MOST = 5
"""The greatest number of diagnoses of one person."""

DIAGNOSES: tuple[str, ...] = tuple(f"{chapter}X{number}" for chapter in "ABCDEFGHJKLM" for number in range(1, 5))
"""Invented codes: a chapter letter, an X, a number. Early chapters are those of the young."""


def _cumulative(order: Ints) -> Floats:
    """Give the codes Zipf-like frequencies in some order."""
    share = np.empty(len(order))
    share[order] = 1 / np.arange(2, len(order) + 2)
    return np.cumsum(share / share.sum())[:-1]


def draw_diagnoses(rng: np.random.Generator, age: Ints) -> pl.Series:
    """Draw none to five different diagnoses for each person, more for the old, as a column of lists."""
    import polars as pl

    codes = len(DIAGNOSES)
    number = np.minimum(rng.poisson(0.08 + 1.7 * (age / 80) ** 2), MOST)
    person = np.repeat(np.arange(len(age)), number)
    old = rng.random(len(person)) < age[person] / 90
    draw = rng.random(len(person))
    young_first, old_first = np.arange(codes), np.arange(codes)[::-1]
    code = np.where(
        old,
        np.searchsorted(_cumulative(old_first), draw, side="right"),
        np.searchsorted(_cumulative(young_first), draw, side="right"),
    )
    drawn = pl.DataFrame({"person": person, "code": code}).unique().sort("person", "code")
    label = pl.Series("diagnoses", DIAGNOSES).gather(drawn["code"])
    lists = drawn.with_columns(label).group_by("person", maintain_order=True).agg("diagnoses")
    everyone = pl.DataFrame({"person": np.arange(len(age))}).join(lists, on="person", how="left", maintain_order="left")
    return everyone["diagnoses"].fill_null([])
