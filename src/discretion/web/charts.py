"""Pictures of the app: bars before and after, drawn like the report's, of a given width; colors come from the style."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from discretion.data.dataset import Dataset
from discretion.release.report import svg
from discretion.release.report.class_sizes import LABELS, shares_of
from discretion.release.report.wording import number, percent, shorten

WIDTH, HEIGHT = 340, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 6, 24, 40
_BINS = 12
_MOST_VALUES = 8
_NOTE = 11


def bars(
    title: str, labels: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], axis: str, *, width: int = WIDTH
) -> str:
    """Draw one or two bars for each label: shares of records; the second of two series is the release."""
    top = max([value for _, values in series for value in values] + [0.001])
    up = svg.ChartAxis(0.0, top * 1.08, HEIGHT - _BOTTOM, _TOP)
    slot = (width - _RIGHT - _LEFT) / max(len(labels), 1)
    bar = slot * (0.78 / len(series))
    body = []
    for mark in svg.ticks(0.0, top * 1.05, 3):
        y = up(mark)
        body.append(svg.element("line", x1=_LEFT, y1=y, x2=width - _RIGHT, y2=y, class_="grid"))
        body.append(_note(_LEFT - 5, y + 4, f"{number(100 * mark)}%", "end"))
    room = max(int(slot / 6.3), 1)
    every = max(1, -(-max((len(label) for label in labels), default=1) // max(int(1.25 * room), 1)))
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
            fitting = max(room * (every if crowded else 1), 3)
            body.append(_note(x + slot * 0.39, HEIGHT - _BOTTOM + 15, shorten(label, fitting), "middle"))
    body.append(svg.element("line", x1=_LEFT, y1=up(0.0), x2=width - _RIGHT, y2=up(0.0), class_="base"))
    body.append(_note((_LEFT + width - _RIGHT) / 2, HEIGHT - 6, shorten(axis, width // 6), "middle"))
    if len(series) > 1:
        x = float(_LEFT)
        for which, (name, _) in enumerate(series):
            style = "before" if which == 0 else "after"
            body.append(svg.element("rect", x=x, y=3, width=10, height=10, rx=1.5, class_=style))
            body.append(_note(x + 15, 12, name, "start"))
            x += 15 + 6.2 * len(name) + 16
    said = "; ".join(
        f"{label}: " + ", ".join(f"{percent(values[place])} {name}".strip() for name, values in series)
        for place, label in enumerate(labels)
    )
    return svg.picture(width, HEIGHT, title, said, body)


def _note(x: float, y: float, words: str, anchor: str) -> str:
    return svg.element("text", escape(words), x=x, y=y, class_="tick", font_size=_NOTE, text_anchor=anchor)


def class_sizes(original: Dataset, released: Dataset | None, columns: tuple[str, ...], width: int = WIDTH) -> str:
    """Draw how many records share the values of the columns with how many others."""
    series: list[tuple[str, Sequence[float]]] = [("original", shares_of(original, columns))]
    if released is not None:
        series.append(("now", shares_of(released, columns)))
    words = "people who look alike (size of the group)"
    return bars("Groups of people who look alike", LABELS, series, words, width=width)


def column(name: str, original: Dataset, released: Dataset | None = None, width: int = WIDTH) -> str:
    """Draw the distribution of a column: intervals of numbers, the most frequent categories."""
    if original.is_quantity(name) and not original.is_category(name):
        labels, series = _intervals(name, original, released)
    else:
        labels, series = _categories(name, original, released)
    if not labels:
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
