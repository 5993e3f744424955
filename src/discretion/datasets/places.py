"""The places of the artificial census: a country of four parts, 12 regions and 150 municipalities.

The country is the same for every seed; only who lives where is drawn.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from discretion.kernels.arrays import Floats, Ints

PARTS = ("north", "east", "south", "west")

_REGIONS = """
Arvenia north 20 14 38  0.12
Belmark north 17 11 34  0.05
Corvia  north  8  4 12 -0.06
Dunmere east  15 12 36  0.08
Elstad  east  13  9 29  0.02
Farrow  east   9  5 16 -0.08
Gildane south 14 11 33  0.00
Hostria south 12  8 27 -0.05
Ivarra  south  8  3 10 -0.12
Jorvale west  13 10 31  0.06
Kestria west  11  8 26 -0.02
Lormont west  10  5 17 -0.10
"""
"""Region, part, municipalities, percent of households, mean sampling weight, effect on log income."""

_ROWS = [line.split() for line in _REGIONS.split("\n") if line]

REGIONS: tuple[str, ...] = tuple(row[0] for row in _ROWS)
PART_OF: tuple[str, ...] = tuple(row[1] for row in _ROWS)
_COUNTS = [int(row[2]) for row in _ROWS]
_SHARES = [float(row[3]) for row in _ROWS]
_WEIGHTS = np.array([float(row[4]) for row in _ROWS])
PAY_EFFECT: Floats = np.array([float(row[5]) for row in _ROWS])

_SYLLABLES = """
Alb Bran Cold Dray Ern Fal Glen Hurst Ist Kel Marl Nor Ost Pell Rav
bury combe dale ford ham ley mouth stead ton wick
"""
_STEMS, _ENDINGS = (line.split() for line in _SYLLABLES.strip().splitlines())
_NAMES = [stem + ending for ending in _ENDINGS for stem in _STEMS]
MUNICIPALITIES: tuple[str, ...] = tuple(_NAMES[(7 * place) % len(_NAMES)] for place in range(len(_NAMES)))
REGION_OF: Ints = np.repeat(np.arange(len(REGIONS)), _COUNTS)


def _household_shares() -> Floats:
    """Share the households out: inside a region the r-th largest municipality has 1/r of the largest."""
    starts = [0, *accumulate(_COUNTS)]
    shares = np.empty(len(MUNICIPALITIES))
    for share, start, count in zip(_SHARES, starts, _COUNTS, strict=False):
        zipf = 1 / np.arange(1, count + 1)
        shares[start : start + count] = share * zipf / zipf.sum()
    return np.asarray(shares / shares.sum())


def draw_municipalities(rng: np.random.Generator, households: int) -> Ints:
    """Draw where each household lives."""
    bounds = np.cumsum(_household_shares())[:-1]
    return np.searchsorted(bounds, rng.random(households), side="right")


def draw_weights(rng: np.random.Generator, regions: Ints) -> Floats:
    """Draw the sampling weight of each household: that of its region, adjusted a little for nonresponse."""
    return np.round(_WEIGHTS[regions] * rng.lognormal(0.0, 0.08, len(regions)), 2)


def municipality_levels() -> list[tuple[str, ...]]:
    """Give the rows of the hierarchy municipality → region → part of the country → *."""
    return [
        (name, REGIONS[region], PART_OF[region], "*")
        for name, region in zip(MUNICIPALITIES, REGION_OF.tolist(), strict=True)
    ]


def region_levels() -> list[tuple[str, ...]]:
    """Give the rows of the hierarchy region → part of the country → *."""
    return [(name, part, "*") for name, part in zip(REGIONS, PART_OF, strict=True)]
