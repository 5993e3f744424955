"""Small helpers for drawing SVG by hand. Everything that comes from data is escaped here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

INK = "#1b2733"
MUTED = "#52606d"
GRID = "#dde3e9"
ORIGINAL = "#9aa7b4"
ORIGINAL_FILL = "#d3dae1"
RELEASED = "#17568f"
CHANCE = "#9c4a00"

WIDTH, HEIGHT = 460, 270
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 36, 46
_LETTER = 6.2


@dataclass(frozen=True)
class ChartAxis:
    """A straight line from data to picture."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """Give the place of a value."""
        span = self.high - self.low
        return self.start + (value - self.low) / span * (self.stop - self.start) if span else self.start


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """Write one element; `content` is already SVG, attributes are escaped (`stroke_width` becomes `stroke-width`)."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"' for key, value in attributes.items()
    )
    return f"<{name}{given}>{content}</{name}>" if content else f"<{name}{given}/>"


def _short(value: object) -> str:
    if isinstance(value, float):
        rounded = f"{value:.1f}".removesuffix(".0")
        return "0" if rounded == "-0" else rounded
    return str(value)


def picture(width: int, height: int, title: str, description: str, body: Iterable[str], kind: str = "plot") -> str:
    """Put a picture together, with the words a screen reader reads."""
    words = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    box = f"0 0 {width} {height}"
    return element("svg", words + "".join(body), class_=kind, role="img", viewBox=box, width=width, height=height)


def text(x: float, y: float, words: str, **attributes: object) -> str:
    """Write a line of text; anchored at its start unless told otherwise."""
    return element("text", escape(words), x=x, y=y, **{"fill": INK, "font_size": 12, **attributes})


def note(x: float, y: float, words: str, anchor: str = "middle") -> str:
    """Write a small gray label."""
    return text(x, y, words, fill=MUTED, font_size=11, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, color: str = GRID, **attributes: object) -> str:
    """Draw a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=color, **attributes)


def rect(x: float, y: float, width: float, height: float, fill: str, **attributes: object) -> str:
    """Draw a filled rectangle."""
    return element("rect", x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), fill=fill, **attributes)


def polyline(points: Sequence[tuple[float, float]], color: str, **attributes: object) -> str:
    """Draw a line through points."""
    path = "M" + "L".join(f"{_short(float(x))} {_short(float(y))}" for x, y in points)
    return element("path", d=path, fill="none", stroke=color, **{"stroke_width": 2, **attributes})


def shape(number: int, x: float, y: float, fill: str, stroke: str, *, size: float = 6.0, dashed: bool = False) -> str:
    """Draw a circle, square, triangle or diamond; the shape tells kinds apart without color."""
    r = size
    style: dict[str, object] = {"fill": fill, "stroke": stroke, "stroke_width": "1.8"}
    if dashed:
        style["stroke_dasharray"] = "2.5 1.5"
    corners = {
        1: [(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)],
        2: [(x, y - r * 1.2), (x + r * 1.15, y + r), (x - r * 1.15, y + r)],
        3: [(x, y - r * 1.3), (x + r * 1.3, y), (x, y + r * 1.3), (x - r * 1.3, y)],
    }.get(number % 4)
    if corners is None:
        return element("circle", cx=x, cy=y, r=r, **style)
    return element("polygon", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in corners), **style)


def nice_step(span: float, parts: int, *, whole: bool = False) -> float:
    """Give the smallest of 1, 2, 5 × 10ⁿ that cuts `span` into at most `parts` pieces."""
    raw = span / max(parts, 1)
    if not raw > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * (1 - 1e-9))
    return max(step, 1.0) if whole else step


def ticks(low: float, high: float, parts: int = 5) -> list[float]:
    """Give round numbers between two bounds."""
    step = nice_step(high - low, parts)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def y_axis(scale: ChartAxis, marks: Sequence[tuple[float, str]], title: str, right: float = WIDTH - RIGHT) -> str:
    """Draw grid lines with their labels, and the title above the axis."""
    drawn = [note(6, 14, title, "start")]
    for value, label in marks:
        y = scale(value)
        drawn.append(line(LEFT, y, right, y))
        drawn.append(note(LEFT - 7, y + 4, label, "end"))
    return "".join(drawn)


def apart(one: tuple[float, str], other: tuple[float, str]) -> bool:
    """Tell whether two centered labels, one left of the other, stand clear of each other."""
    return other[0] - one[0] > _LETTER * (len(one[1]) + len(other[1])) / 2 + 8


def x_axis(marks: Sequence[tuple[float, str]], title: str, y: float = HEIGHT - BOTTOM) -> str:
    """Draw the base line, the labels at the given places, and the title below."""
    drawn = [line(LEFT, y, WIDTH - RIGHT, y, MUTED)]
    for x, label in marks:
        drawn.append(line(x, y, x, y + 4, MUTED))
        drawn.append(note(x, y + 17, label))
    drawn.append(note((LEFT + WIDTH - RIGHT) / 2, y + 38, title))
    return "".join(drawn)


def legend(entries: Sequence[tuple[str, str, str]], y: float = 14) -> str:
    """Name the colors at the upper right: `(label, fill, stroke)` of each, set from the right."""
    drawn = []
    x = float(WIDTH - RIGHT)
    for label, fill, stroke in reversed(entries):
        x -= _LETTER * len(label)
        drawn.append(text(x, y, label, font_size=11))
        x -= 17
        drawn.append(rect(x, y - 9, 12, 9, fill, stroke=stroke, stroke_width=1.5))
        x -= 14
    return "".join(drawn)
