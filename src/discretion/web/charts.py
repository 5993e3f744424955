"""Pictures of the app: bars before and after, drawn like the report's, of a given width; colors come from the style."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from discretion.data.dataset import Dataset
from discretion.release.report import svg
from discretion.release.report.charts import LABELS, shares_of
from discretion.release.report.wording import number, percent, shorten

WIDTH, SMALL, HEIGHT = 340, 215, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 6, 24, 40
_BINS = 12
_MOST_VALUES = 8
_MOST_LYING, _LONGEST = 9, 22
"""Labels that bars may lie beside, and characters of one."""
_NOTE = 11


def bars(
    title: str, labels: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], axis: str, *, width: int = WIDTH
) -> str:
    """Draw one or two bars for each label: shares of records; the second of two series is the release.

    They stand upright, or lie beside their labels where these are too long to stand below.
    """
    room = (width - _RIGHT - _LEFT) / max(len(labels), 1) / 6.3
    if len(labels) <= _MOST_LYING and max((len(label) for label in labels), default=0) > 1.25 * room:
        return _lying(title, labels, series, axis, width)
    top = max([value for _, values in series for value in values] + [0.001])
    up = svg.ChartAxis(0.0, top * 1.08, HEIGHT - _BOTTOM, _TOP)
    slot = (width - _RIGHT - _LEFT) / max(len(labels), 1)
    bar = slot * (0.78 / len(series))
    body = []
    for mark in svg.ticks(0.0, top * 1.05, 3):
        y = up(mark)
        body.append(svg.element("line", x1=_LEFT, y1=y, x2=width - _RIGHT, y2=y, class_="grid"))
        body.append(_note(_LEFT - 5, y + 4, f"{number(100 * mark)}%", "end"))
    fits = max(int(slot / 6.3), 1)
    every = max(1, -(-max((len(label) for label in labels), default=1) // max(int(1.25 * fits), 1)))
    crowded = every > 1 and len(labels) > 6
    for place, label in enumerate(labels):
        x = _LEFT + slot * place + slot * 0.11
        for which, (name, values) in enumerate(series):
            y = up(values[place])
            words = f"<title>{escape(f'{label}: {percent(values[place])} {name}'.strip())}</title>"
            style = "before" if which == 0 and len(series) > 1 else "after"
            body.append(
                svg.element(
                    "rect", words, x=x + which * bar, y=y, width=bar, height=max(up(0.0) - y, 0.0), class_=style, rx=1.5
                )
            )
        if not crowded or place % every == 0:
            fitting = max(fits * (every if crowded else 1), 3)
            body.append(_note(x + slot * 0.39, HEIGHT - _BOTTOM + 15, shorten(label, fitting), "middle"))
    body.append(svg.element("line", x1=_LEFT, y1=up(0.0), x2=width - _RIGHT, y2=up(0.0), class_="base"))
    body.append(_note((_LEFT + width - _RIGHT) / 2, HEIGHT - 6, shorten(axis, width // 6), "middle"))
    body += _legend(series, width)
    return svg.picture(width, HEIGHT, title, _said(labels, series), body)


def _lying(
    title: str, labels: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], axis: str, width: int
) -> str:
    """Draw bars from left to right, each label before its own."""
    left = min(8 + 6.2 * min(max(map(len, labels)), _LONGEST), 0.45 * width)
    slot = 11.0 * len(series) + 7
    bottom = _TOP + slot * len(labels)
    top = max([value for _, values in series for value in values] + [0.001])
    across = svg.ChartAxis(0.0, top * 1.08, left, width - _RIGHT - 6)
    body = []
    for mark in svg.ticks(0.0, top * 1.05, 3):
        x = across(mark)
        body.append(svg.element("line", x1=x, y1=_TOP, x2=x, y2=bottom, class_="grid"))
        body.append(_note(x, bottom + 14, f"{number(100 * mark)}%", "middle"))
    for place, label in enumerate(labels):
        y = _TOP + slot * place + 3
        for which, (name, values) in enumerate(series):
            words = f"<title>{escape(f'{label}: {percent(values[place])} {name}'.strip())}</title>"
            style = "before" if which == 0 and len(series) > 1 else "after"
            long = max(across(values[place]) - left, 0.0)
            body.append(
                svg.element("rect", words, x=left, y=y + 11 * which, width=long, height=10, class_=style, rx=1.5)
            )
        body.append(_note(left - 5, y + slot / 2, shorten(label, max(int((left - 8) / 6.0), 3)), "end"))
    body.append(svg.element("line", x1=left, y1=_TOP, x2=left, y2=bottom, class_="base"))
    body.append(_note((left + width - _RIGHT) / 2, bottom + 30, shorten(axis, width // 8), "middle"))
    body += _legend(series, width)
    return svg.picture(width, int(bottom) + 36, title, _said(labels, series), body)


def _legend(series: Sequence[tuple[str, Sequence[float]]], width: int) -> list[str]:
    """Say which bars are which, and what they are shares of."""
    body, x = [], 4.0
    for which, (name, _) in enumerate(series if len(series) > 1 else ()):
        body.append(svg.element("rect", x=x, y=3, width=10, height=10, rx=1.5, class_="after" if which else "before"))
        body.append(_note(x + 15, 12, name, "start"))
        x += 15 + 6.2 * len(name) + 12
    return [*body, _note(width - _RIGHT, 12, "share of records", "end")] if width >= WIDTH else body


def _said(labels: Sequence[str], series: Sequence[tuple[str, Sequence[float]]]) -> str:
    return "; ".join(
        f"{label}: " + ", ".join(f"{percent(values[place])} {name}".strip() for name, values in series)
        for place, label in enumerate(labels)
    )


def _note(x: float, y: float, words: str, anchor: str) -> str:
    return svg.element("text", escape(words), x=x, y=y, class_="tick", font_size=_NOTE, text_anchor=anchor)


def class_sizes(original: Dataset, released: Dataset | None, columns: tuple[str, ...], width: int = WIDTH) -> str:
    """Draw how many records share the values of the columns with how many others."""
    series: list[tuple[str, Sequence[float]]] = [("original", shares_of(original, columns))]
    if released is not None:
        series.append(("now", shares_of(released, columns)))
    words = "people who look alike (size of the group)" if width >= WIDTH else "size of the group"
    return bars("Groups of people who look alike", LABELS, series, words, width=width)


def column(name: str, original: Dataset, released: Dataset | None = None, width: int = WIDTH) -> str:
    """Draw the distribution of a column: intervals of numbers, the most frequent categories."""
    level = released.levels.get(name) if released is not None and name in released.columns else None
    if isinstance(level, int) and level and original.type_of(name) != "set":
        labels, series = _at_level(name, original, released, level)
    elif original.is_quantity(name) and not original.is_category(name):
        labels, series = _intervals(name, original, released)
    else:
        labels, series = _categories(name, original, released)
    if not labels or (released is not None and len(labels) == 1):  # one bar for everybody shows nothing
        return ""
    return bars(f"Distribution of {name}", labels, series, name, width=width)


def _intervals(name: str, original: Dataset, released: Dataset | None) -> tuple[list[str], list[tuple[str, Any]]]:
    if released is not None and not released.is_numeric(name):
        return [], []
    frames = [original, *([released] if released is not None else [])]
    values = [x[~np.isnan(x)] for x in (data.number(name) for data in frames)]
    if not len(values[0]):
        return [], []
    low, high = (float(edge) for edge in np.quantile(values[0], [0.005, 0.995]))
    whole = bool((values[0] == np.floor(values[0])).all())
    step = svg.nice_step(max(high - low, 1e-12), _BINS, whole=whole)
    first, last = int(np.floor(low / step)), int(np.floor(high / step)) + 1
    edges = np.arange(first, last + 1) * step
    if len(edges) < 2:
        return [], []
    labels = [number(float(edge), 4) for edge in edges[:-1]]
    shares = [
        np.bincount(np.clip(np.searchsorted(edges, x, side="right") - 1, 0, len(edges) - 2), minlength=len(edges) - 1)
        / max(len(x), 1)
        for x in values
    ]
    return labels, [(title, list(share)) for title, share in zip(("original", "now"), shares, strict=False)]


def _at_level(
    name: str, original: Dataset, released: Dataset | None, level: int
) -> tuple[list[str], list[tuple[str, Any]]]:
    """Count the groups of a level of the hierarchy, in the original and now."""
    from discretion.data.hierarchy import canonical

    levels, coded = original.hierarchy(name), original.codes(name)
    counts = np.bincount(coded.codes, minlength=coded.size)
    before: dict[str, int] = {}
    for value, found in zip(coded.values, counts, strict=True):
        row = None if value is None else levels.leaf_index.get(canonical(value))
        if row is not None and found:
            label = str(levels.table[level][row])
            before[label] = before.get(label, 0) + int(found)
    after = _counted(released, name) if released is not None else {}
    order = list(dict.fromkeys(str(label) for label in levels.table[level]))  # as the hierarchy lists them
    shown = [label for label in order if before.get(label) or after.get(label)]
    if len(shown) > _MOST_VALUES:
        shown = sorted(shown, key=lambda label: -before.get(label, 0))[:_MOST_VALUES]
    sizes = (len(original), len(released) if released is not None else 0)
    return shown, [
        (title, [one.get(label, 0) / max(size, 1) for label in shown])
        for title, one, size in zip(("original", "now"), (before, after), sizes, strict=True)
    ]


def _categories(name: str, original: Dataset, released: Dataset | None) -> tuple[list[str], list[tuple[str, Any]]]:
    if original.type_of(name) == "set":
        return [], []
    frames = [original, *([released] if released is not None and name in released.columns else [])]
    counts = [_counted(data, name) for data in frames]
    found = sorted(
        {value for one in counts for value in one}, key=lambda value: -max(one.get(value, 0) for one in counts)
    )
    shown = found[:_MOST_VALUES]
    if not shown:
        return [], []
    labels = [*shown, *(["others"] if len(found) > len(shown) else [])]
    series = []
    for title, one, data in zip(("original", "now"), counts, frames, strict=False):
        total = max(len(data), 1)
        shares = [one.get(value, 0) / total for value in shown]
        series.append(
            (
                title,
                [*shares, *([max(0.0, sum(one.values()) / total - sum(shares))] if len(found) > len(shown) else [])],
            )
        )
    return labels, series


def _counted(data: Dataset, name: str) -> dict[str, int]:
    from discretion.data.hierarchy import canonical

    codes = data.codes(name)
    labels = data.schema[name].value_labels
    counts = np.bincount(codes.codes, minlength=codes.size)
    return {
        str(labels.get(value, canonical(value)) if isinstance(value, str | float | int) else value): int(count)
        for value, count in zip(codes.values, counts, strict=True)
        if value is not None and count
    }
