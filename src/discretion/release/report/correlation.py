"""How correlations between numeric columns changed: released − original, rounded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discretion.kernels.arrays import Floats
from discretion.release.report import svg
from discretion.release.report.pairs import Sides
from discretion.release.report.wording import shorten

_MOST_COLUMNS = 12
FEWEST_COLUMNS = 3
FEWEST_RECORDS = 100
"""Below so many complete pairs no difference is published."""
_FEWEST_INTERNAL = 10
_NEGATIVE, _POSITIVE = (156, 74, 0), (23, 86, 143)


@dataclass(frozen=True)
class Correlations:
    """Differences of correlations below the diagonal; None where too few records have both values."""

    columns: tuple[str, ...]
    differences: tuple[tuple[float | None, ...], ...]
    """row i holds the differences with columns 0 … i−1"""


def correlations_of(sides: Sides, columns: list[str], *, internal: bool, digits: int = 2) -> Correlations | None:
    """Compare the correlation matrices of up to twelve columns, pair by pair of complete records."""
    fewest = _FEWEST_INTERNAL if internal else FEWEST_RECORDS
    varied = [name for name in columns if all(_varies(values) for values in sides.numbers(name))][:_MOST_COLUMNS]
    if len(varied) < FEWEST_COLUMNS:
        return None
    rows = tuple(
        tuple(_difference(sides, varied[i], varied[j], fewest, digits) for j in range(i)) for i in range(len(varied))
    )
    if all(value is None for row in rows for value in row):
        return None
    return Correlations(tuple(varied), rows)


def _varies(values: Floats) -> bool:
    return len(values) > 1 and bool(values.min() < values.max())


def _difference(sides: Sides, one: str, other: str, fewest: int, digits: int) -> float | None:
    before = (sides.original.number(one), sides.original.number(other))
    after = (sides.released.number(one), sides.released.number(other))
    if sides.aligned:
        present = ~np.isnan(np.array([*before, *after])).any(axis=0)
        masks = (present, present)
    else:
        masks = (~np.isnan(np.array(before)).any(axis=0), ~np.isnan(np.array(after)).any(axis=0))
    found = [_correlation(x[mask], y[mask], fewest) for (x, y), mask in zip((before, after), masks, strict=True)]
    if found[0] is None or found[1] is None:
        return None
    return round(found[1] - found[0], digits) + 0.0


def _correlation(x: Floats, y: Floats, fewest: int) -> float | None:
    if len(x) < fewest or not (_varies(x) and _varies(y)):
        return None
    value = float(np.corrcoef(x, y)[0, 1])
    return value if np.isfinite(value) else None


SIGNED = ("Change of correlations, released minus original", "released is lower ← → released is higher")


def draw(found: Correlations, words: tuple[str, str] = SIGNED) -> str:
    """Draw a triangle of colored cells, rows named and columns numbered, with the color scale beside it.

    `words`: the title, and what stands below the scale; figures that cannot be negative have a scale from 0 on.
    """
    n = len(found.columns)
    cell, left, top = 44 if n <= 6 else 36, 170, 30
    largest = max((abs(v) for row in found.differences for v in row if v is not None), default=0.0)
    bound = max(0.1, np.ceil(largest * 10) / 10)
    body = []
    for i, name in enumerate(found.columns):
        y = top + i * cell
        label = f"{i + 1}  {shorten(name, 22)}"
        body.append(svg.text(left - 8, y + cell / 2 + 4, label, text_anchor="end", font_size=11))
        if i < n - 1:
            body.append(svg.note(left + (i + 0.5) * cell, top - 8, str(i + 1)))
        for j, value in enumerate(found.differences[i]):
            body.append(_cell(left + j * cell, y, cell, value, bound))
    height = top + n * cell + 52
    signed = any(value < 0 for row in found.differences for value in row if value is not None) or words == SIGNED
    body.append(_scale(left, height - 40, bound, words[1], signed))
    width = left + max(n * cell, 240) + 20
    return svg.picture(width, height, words[0], _describe(found), body)


def _cell(x: float, y: float, size: float, value: float | None, bound: float) -> str:
    if value is None:
        return svg.rect(x, y, size - 1.5, size - 1.5, "#ffffff", stroke=svg.GRID)
    drawn = svg.rect(x, y, size - 1.5, size - 1.5, _color(value / bound))
    ink = "#ffffff" if abs(value) / bound > 0.55 else svg.INK
    words = f"{value:+.2f}".replace("-", "−") if value else "0"
    small = 11 if size > 40 else 10
    middle = (x + size / 2 - 0.75, y + size / 2 + 3)
    return drawn + svg.text(*middle, words, text_anchor="middle", font_size=small, fill=ink)


def _color(share: float) -> str:
    target = _POSITIVE if share > 0 else _NEGATIVE
    mixed = (round(247 + (part - 247) * min(abs(share), 1.0)) for part in target)
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _scale(x: float, y: float, bound: float, legend: str, signed: bool) -> str:
    steps = 21
    wide = 200 / steps
    low = -1.0 if signed else 0.0
    colors = [_color(low + (1 - low) * k / (steps - 1)) for k in range(steps)]
    drawn = [svg.rect(x + k * wide, y, wide + 0.5, 10, color) for k, color in enumerate(colors)]
    ends = ((0.0, f"−{bound:.1f}"), (100.0, "0")) if signed else ((0.0, "0"),)
    for place, words in (*ends, (200.0, f"{'+' if signed else ''}{bound:.1f}")):
        drawn.append(svg.note(x + place, y + 23, words))
    drawn.append(svg.note(x + 100, y + 37, legend))
    return "".join(drawn)


def _describe(found: Correlations) -> str:
    pairs = [
        (abs(value), found.columns[j], found.columns[i], value)
        for i, row in enumerate(found.differences)
        for j, value in enumerate(row)
        if value is not None
    ]
    size, one, other, value = max(pairs, key=lambda pair: pair[0])
    if not size:
        return "Nothing changed by 0.01 or more."
    return f"The largest change is {value:+.2f}, between {one} and {other}."
