"""Which published ranges hold a value: intervals of numbers or dates, sets of categories, masks.

Groups are published as ranges that need stand in no hierarchy: [48, 58], [0.5, 2), < 20, >= 65, {nurse, doctor},
4083*. An intruder who knows an age of 50 sees that it lies in the first. A star stands for any character, stars alone
for any value.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from discretion.errors import DataError

_INTERVAL = re.compile(r"([\[(])\s*([^,\[\]()]+?)\s*,\s*([^,\[\]()]+?)\s*([\])])")
_OPEN = re.compile(r"([<>])(=?)\s*([^<>=]+?)\s*")
_SET = re.compile(r"\{(.+)\}", re.DOTALL)

Reading = Callable[[str], float]

MOST_PAIRS = 50_000_000
"""Pairs of a known value and a published range that are looked at."""


def is_range(label: str) -> bool:
    """Tell whether a label is a set, an interval of numbers or dates, or a mask."""
    return "*" in label or _SET.fullmatch(label) is not None or _bounds(label) is not None


def ranges_holding(values: Sequence[str], labels: Sequence[str], column: str) -> NDArray[np.bool_]:
    """Tell for each value and each label whether the label is a range that holds the value."""
    if len(values) * len(labels) > MOST_PAIRS:
        raise DataError(
            f"column {column!r}: {len(values):,} known values against {len(labels):,} published ranges are too many to "
            "compare; leave the column out of `columns`, or generalize by a hierarchy"
        )
    found = np.zeros((len(values), len(labels)), np.bool_)
    readings: tuple[Reading, ...] = (float, _day)
    places = {read: np.array([_or_nan(read, value) for value in values]) for read in readings}
    index = {value: row for row, value in enumerate(values)}
    for at, label in enumerate(labels):
        if (bounds := _bounds(label)) is not None:
            read, low, high, closed = bounds
            x = places[read]
            found[:, at] = (x >= low if closed[0] else x > low) & (x <= high if closed[1] else x < high)
        elif (members := _SET.fullmatch(label)) is not None:
            rows = [index[member] for member in members[1].split(", ") if member in index]
            found[rows, at] = True
        elif "*" in label:
            mask = re.compile(".".join(map(re.escape, label.split("*"))) if label.strip("*") else ".*", re.DOTALL)
            found[:, at] = [mask.fullmatch(value) is not None for value in values]
    return found


def _day(text: str) -> float:
    return dt.datetime.fromisoformat(text).replace(tzinfo=None).timestamp()


def _or_nan(read: Reading, text: str) -> float:
    try:
        return read(text)
    except (ValueError, OverflowError):
        return float("nan")


def _bounds(label: str) -> tuple[Reading, float, float, tuple[bool, bool]] | None:
    """Read an interval: how its ends are read, the ends, and whether they belong to it."""
    readings: tuple[Reading, ...] = (float, _day)
    if (side := _OPEN.fullmatch(label)) is not None:
        ends = ((read, _or_nan(read, side[3])) for read in readings)
        read, end = next((one for one in ends if math.isfinite(one[1])), (float, math.nan))
        within = (bool(side[2]), bool(side[2]))
        if math.isnan(end):
            return None
        return (read, -math.inf, end, within) if side[1] == "<" else (read, end, math.inf, within)
    match = _INTERVAL.fullmatch(label)
    if match is None:
        return None
    for read in readings:
        low, high = _or_nan(read, match[2]), _or_nan(read, match[3])
        if low <= high:
            return read, low, high, (match[1] == "[", match[4] == "]")
    return None
