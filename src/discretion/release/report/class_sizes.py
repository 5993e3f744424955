"""How many records share the same quasi-identifier values, before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from discretion.release.report import svg
from discretion.release.report.wording import number

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.release.release import Release

_STARTS = (1, 2, 3, 5, 10, 20, 50)
LABELS = ("1", "2", "3–4", "5–9", "10–19", "20–49", "50+")


@dataclass(frozen=True)
class ClassSizes:
    """Shares of records (rounded to 0.1 %) in classes of each size."""

    columns: tuple[str, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]


def class_sizes_of(release: Release) -> ClassSizes | None:
    """Count the classes over the published quasi-identifiers; None where there are none."""
    original, released = release.study.original, release.data
    columns = tuple(name for name in original.having("quasi") if name in released.columns)
    if not columns or not len(released) or not len(original):
        return None
    return ClassSizes(columns, shares_of(original, columns), shares_of(released, columns))


def shares_of(data: Dataset, columns: tuple[str, ...]) -> tuple[float, ...]:
    """Give the shares of records in classes of 1, 2, 3–4, 5–9, 10–19, 20–49 and 50 or more records."""
    counts = np.asarray(data.class_counts(columns), dtype=np.int64)
    place = np.searchsorted(_STARTS, counts, side="right") - 1
    records = np.bincount(place, weights=counts, minlength=len(_STARTS))
    return tuple(round(1000 * float(inside) / len(data)) / 1000 for inside in records)


def draw(sizes: ClassSizes) -> str:
    """Draw two bars for each size of class."""
    top = max(*sizes.before, *sizes.after, 0.001)
    up = svg.ChartAxis(0.0, top * 1.12, svg.HEIGHT - svg.BOTTOM, svg.TOP)
    slot = (svg.WIDTH - svg.RIGHT - svg.LEFT) / len(LABELS)
    bar = slot * 0.38
    marks = [(mark, f"{number(100 * mark)}%") for mark in svg.ticks(0.0, top * 1.1, 4)]
    body = [
        svg.y_axis(up, marks, "share of records"),
        svg.legend([("original", svg.ORIGINAL_FILL, svg.ORIGINAL), ("released", svg.RELEASED, svg.RELEASED)]),
    ]
    base = up(0.0)
    middles = []
    for number_, (before, after) in enumerate(zip(sizes.before, sizes.after, strict=True)):
        middle = svg.LEFT + slot * (number_ + 0.5)
        middles.append((middle, LABELS[number_]))
        body.append(_bar(middle - bar, up(before), bar, base, svg.ORIGINAL_FILL, svg.ORIGINAL))
        body.append(_bar(middle, up(after), bar, base, svg.RELEASED, svg.RELEASED))
    body.append(svg.x_axis(middles, "records that share the same values (size of the class)"))
    return svg.picture(
        svg.WIDTH, svg.HEIGHT, "Class sizes over the quasi-identifiers, original and released", _describe(sizes), body
    )


def _bar(x: float, y: float, width: float, base: float, fill: str, stroke: str) -> str:
    return svg.rect(x, y, width, base - y, fill, stroke=stroke, stroke_width=0.8) if base - y > 0 else ""


def _describe(sizes: ClassSizes) -> str:
    return "; ".join(
        f"classes of {label}: {number(100 * before)}% before, {number(100 * after)}% after"
        for label, before, after in zip(LABELS, sizes.before, sizes.after, strict=True)
    )
