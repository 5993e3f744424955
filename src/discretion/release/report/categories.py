"""The released categories of columns that were generalized or changed. The original is not looked at."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from discretion.data.hierarchy import canonical
from discretion.release.report import svg
from discretion.release.report.wording import counted, number, shorten

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset

FEWEST = 10
"""Released records a named category has, at least."""
MOST = 12
_ROW = 21
_LEFT = 172


@dataclass(frozen=True)
class Categories:
    """Shares of records (rounded to 0.1 %) of the most frequent categories, and of everything else together."""

    column: str
    labels: tuple[str, ...]
    shares: tuple[float, ...]
    rest: tuple[str, float] | None
    missing: float


def categories_of(data: Dataset, column: str) -> Categories | None:
    """Count the released categories; None where no category has enough records."""
    codes = data.codes(column)
    sizes = np.bincount(codes.codes.astype(np.int64), minlength=codes.size)
    totals: Counter[str] = Counter()
    for value, size in zip(codes.values, sizes.tolist(), strict=True):
        if value is not None and size:
            totals[_label(value)] += size
    ranked = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    named = [item for item in ranked[:MOST] if item[1] >= FEWEST]
    if not named:
        return None
    others = ranked[len(named) :]
    named = _in_natural_order(named)
    n = len(data)
    rest = (f"{counted(len(others), 'other')}", _share(sum(size for _, size in others), n)) if others else None
    return Categories(
        column=column,
        labels=tuple(label for label, _ in named),
        shares=tuple(_share(size, n) for _, size in named),
        rest=rest,
        missing=_share(n - sum(totals.values()), n),
    )


def _label(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(sorted(canonical(item) for item in value)) or "(empty set)"
    return "* (any value)" if value == "*" else canonical(value)


def _in_natural_order(items: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Sort intervals and other labels with a number by that number; everything else stays by frequency."""
    found = [re.search(r"-?\d+(?:\.\d+)?", label) for label, _ in items]
    if not all(found):
        return items
    return sorted(items, key=lambda item: (_first_number(item[0]), item[0]))


def _first_number(label: str) -> float:
    found = re.search(r"-?\d+(?:\.\d+)?", label)
    return float(found[0]) if found else 0.0


def _share(records: int, total: int) -> float:
    return round(1000 * records / max(total, 1)) / 1000


def beside(data: Dataset, found: Categories) -> tuple[float, ...]:
    """Give the shares that the same categories have in other data (the original: never for the public)."""
    codes = data.codes(found.column)
    sizes = np.bincount(codes.codes.astype(np.int64), minlength=codes.size)
    totals: Counter[str] = Counter()
    for value, size in zip(codes.values, sizes.tolist(), strict=True):
        if value is not None and size:
            totals[_label(value)] += size
    return tuple(_share(totals[label], len(data)) for label in found.labels)


def draw(found: Categories, original: tuple[float, ...] = ()) -> str:
    """Draw one horizontal bar for each category; with shares of the original, one of these below each."""
    rows = list(zip(found.labels, found.shares, strict=True))
    bars = [(label, share, svg.RELEASED) for label, share in rows]
    if original:
        pairs = zip(bars, (("in the original", share, svg.ORIGINAL) for share in original), strict=True)
        bars = [bar for pair in pairs for bar in pair]
    if found.rest:
        bars.append((*found.rest, svg.ORIGINAL))
    if found.missing:
        bars.append(("missing or suppressed", found.missing, svg.ORIGINAL))
    top = max(share for _, share, _ in bars) or 0.001
    across = svg.Scale(0.0, top, _LEFT, svg.WIDTH - 60)
    body = [svg.text(_LEFT, 14, "share of released records", fill=svg.MUTED, font_size=11)]
    for place, (label, share, color) in enumerate(bars):
        y = 24 + place * _ROW
        body.append(svg.text(_LEFT - 8, y + 13, shorten(label, 26), text_anchor="end", font_size=11))
        body.append(svg.rect(_LEFT, y + 2, across(share) - _LEFT, _ROW - 6, color))
        body.append(svg.text(across(share) + 6, y + 13, f"{number(100 * share)}%", font_size=11))
    height = 24 + len(bars) * _ROW + 8
    body.append(svg.line(_LEFT, 22, _LEFT, height - 6, svg.MUTED))
    words = "; ".join(f"{label}: {number(100 * share)}%" for label, share, _ in bars)
    return svg.picture(svg.WIDTH, height, f"Released categories of {found.column}", words, body)
