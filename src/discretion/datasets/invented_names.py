"""Invented names of people: syllables put together, so that nobody takes them for real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from discretion.kernels.arrays import Ints

if TYPE_CHECKING:
    import polars as pl

_SYLLABLES = """
Ba Cri Du Fle Go Hy Ju Klo Mi Nu Pla Qua Ri Sve To Vu Wi Xa Yo Zu
ba do fi ge lu mo ni po ra su te vi
la lex mi nor ris tan vo xa
bark dyx flum grin kov lund mott nick pool quist sky vant
"""
_HEADS, _MIDDLES, _GIVEN_TAILS, _FAMILY_TAILS = (line.split() for line in _SYLLABLES.strip().splitlines())

GIVEN: tuple[str, ...] = tuple(a + b + c for a in _HEADS for b in _MIDDLES for c in _GIVEN_TAILS)
FAMILY: tuple[str, ...] = tuple(a + b + c for a in _HEADS for b in _MIDDLES for c in _FAMILY_TAILS)


def draw_names(rng: np.random.Generator, home: Ints, homes: int) -> pl.Series:
    """Draw names; most members of a household share the family name."""
    import polars as pl

    given = rng.integers(0, len(GIVEN), len(home))
    family = rng.integers(0, len(FAMILY), homes)[home]
    own = rng.random(len(home)) < 0.15
    family[own] = rng.integers(0, len(FAMILY), int(own.sum()))
    return (pl.Series("name", GIVEN).gather(given) + " " + pl.Series(FAMILY).gather(family)).alias("name")
