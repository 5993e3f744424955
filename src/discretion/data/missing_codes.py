"""Numbers that stand for missing values: −9, 99, 99999998. Found by their usual form and because they stand apart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from discretion.data.dataset import Dataset
from discretion.data.words import says_age
from discretion.kernels.arrays import Floats, Ints

MissingCodes = Mapping[str, tuple[int | float, ...]]

_USUAL = re.compile(r"9*[6-9]|6{2,}|7{2,}|8{2,}")
_SAID = re.compile(
    r"refus|verweiger|don.?t know|do not know|wei(?:ss|ß) nicht|no answer|not answered|keine ang|\bk\. ?a\.|missing|"
    r"fehlt|fehlend|not applicable|inapplicable|trifft nicht zu|entf[aä]llt|not stated|not available|unknown|unbekannt|"
    r"no sabe|no contesta|ns/nc|\bn[ao]o sabe|não (?:sabe|responde)|non risponde|non sa\b|ne sait pas|sans r[eé]ponse|"
    r"no ho sap|nicht erhoben|would not say|prefer not",
    re.IGNORECASE,
)
_FEW = 20
_MOST_CODES = 8
_FARTHEST_SINGLE = -6
"""From here on down a negative number says by itself that it is none of a count or a scale."""


def find_missing_codes(data: Dataset) -> dict[str, tuple[int | float, ...]]:
    """Find the numbers of each column that seem to stand for missing values; columns with declared codes are passed.

    Negative numbers of the usual form (−1 … −9, −77, −99, −999, …) where nothing else is negative, or ten times as
    common as anything else that is, and nines, eights and the like above everything else (9, 98, 99, 9999, 99999998),
    if they stand apart from the other values: by more than the range of these where there are few of them, by three
    times the range where there are many (half of it for two or more codes in a row). Ages of 97 to 99 count if they are
    far commoner than the ages before. Where values have labels, the label of a code must say so. A code in the middle
    of the other values cannot be found.
    """
    found = {name: _codes(data, name) for name in data.columns if not data.schema[name].missing_codes}
    return {name: codes for name, codes in found.items() if codes}


def with_missing(data: Dataset, codes: MissingCodes) -> Dataset:
    """Give the data with these codes declared and made missing; the schema stays otherwise."""
    if not codes:
        return data
    schema = data.schema
    for name, values in codes.items():
        schema = schema.with_column(name, missing_codes=(*schema[name].missing_codes, *values))
    new = Dataset(data.frame, schema=schema)
    new.came_from, new.dialect = data.came_from, data.dialect
    return new


def _codes(data: Dataset, name: str) -> tuple[int | float, ...]:
    if not data.is_numeric(name):
        return ()
    column = data.frame[name].drop_nulls()
    values, counts = np.unique(column.to_numpy().astype(np.float64), return_counts=True)
    values, counts = values[np.isfinite(values)], counts[np.isfinite(values)].astype(np.int64)
    below = _negative(values, counts)
    rest = ~np.isin(values, below)
    found = sorted([*below, *_large(values[rest], counts[rest], says_age(data.schema[name].label or name))])
    labels: dict[Any, str] = dict(data.schema[name].value_labels)
    said = [value for value in found if not labels or _SAID.search(labels.get(value, "missing"))]
    whole = data.frame.schema[name].is_integer() or all(value.is_integer() for value in said)
    return tuple(int(value) if whole else value for value in said)


def _negative(values: Floats, counts: Ints) -> list[float]:
    below = values < 0
    usual = np.array([_is_usual(-value, single=True) for value in values[below]], dtype=np.bool_)
    if 0 < usual.sum() < len(usual):  # others are negative too: only far commoner ones are codes
        most = counts[below][~usual].max()
        return list(values[below][usual & (counts[below] >= max(5, 10 * most))])
    codes, rest = values[below], values[~below]
    if not 1 <= len(codes) <= _MOST_CODES or len(rest) < 2 or not usual.all():
        return []
    gap, far = rest[0] - codes[-1], codes[-1] <= _FARTHEST_SINGLE
    if len(rest) > _FEW:
        common = bool((counts[below] >= 3 * counts[~below].mean()).all())
        return codes.tolist() if common or (far and counts[below].sum() > 1) else []
    return codes.tolist() if far or gap > np.diff(rest).max() else []


def _large(values: Floats, counts: Ints, age: bool) -> list[float]:
    for size in range(4, 0, -1):
        codes, rest = values[-size:], values[:-size]
        if len(rest) < 2 or not all(_is_usual(code) for code in codes):
            continue
        gap, span = codes[0] - rest[-1], rest[-1] - rest[0]
        if len(rest) <= _FEW:
            often = counts[-size:].min() >= max(5, 0.01 * counts.sum())
            apart = gap >= 3 and gap > span and (codes[0] > 9 or often)
        else:
            row = size > 1 and bool((np.diff(codes) == 1).all())
            apart = gap >= (0.5 if row else 3) * span
        if apart or (age and codes[0] >= 97 and codes[-1] <= 99 and _is_spike(values, counts, size)):
            return list(codes)
    return []


def _is_spike(values: Floats, counts: Ints, size: int) -> bool:
    """Tell whether each of the last values is far commoner than the five whole numbers before them."""
    before = counts[:-size][values[:-size] >= values[-size] - 5].sum() / 5
    return bool(counts[-size:].min() >= 5 * max(float(before), 1.0))


def _is_usual(value: float, *, single: bool = False) -> bool:
    """Tell the usual forms of codes; `single`: any one digit is one."""
    if not float(value).is_integer():
        return False
    text = str(int(value))
    return (bool(_USUAL.fullmatch(text)) and text != "6") or (single and len(text) == 1 and value > 0)
