"""Attacks as lines from what guessing reaches to what the attack reaches, one for each data set; or losses from 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from discretion.release.report import svg
from discretion.release.report.wording import percent, shorten

WIDTH, NARROW = 960, 372
_SIDE = 300
"""Room for the names at the side, where there is room."""
_GAP = 15
"""From the line of one data set to that of the next."""
_FIGURE = 62
"""Room for a figure beside the last mark."""
_BESIDE = 46
"""Room for the figure of guessing, left of its mark."""
_COLORS = (svg.RELEASED, "#14603a", "#7b2d8b", "#8a1c3b", "#46606e")


@dataclass(frozen=True)
class Line:
    """One attack on each data set: what guessing reaches (None: not defined), and its success (None: not run)."""

    name: str
    beside: str
    chances: tuple[float | None, ...]
    values: tuple[float | None, ...]
    faint: bool = False
    """whether it is drawn but does not count, as an attack that takes perturbed values as true"""


def draw(
    lines: Sequence[Line],
    names: Sequence[str],
    title: str,
    *,
    original: bool = True,
    guessing: bool = True,
    width: int = WIDTH,
) -> str:
    """Draw the lines from top to bottom; with `original`, the first of the data sets is the unprotected one."""
    wide = width > NARROW
    left, right = (_SIDE if wide else 12), width - _FIGURE
    across = svg.ChartAxis(0.0, 1.0, left, right)
    head = 40 + 18 * (-(-(len(names) + guessing) // (4 if wide else 2)) - 1)
    above = 6 if wide else 34
    step = max(above + _GAP * len(names) + 8, 42)
    bottom = head + step * len(lines)
    body = [*_legend(names, original, guessing, width), *_grid(across, head, bottom)]
    for number, line in enumerate(lines):
        body += _row(line, across, head + step * number, above, step, original, wide=wide)
    return svg.picture(width, bottom + 26, title, "; ".join(_words(line, names) for line in lines), body)


def _color(number: int, original: bool) -> str:
    return svg.ORIGINAL if original and not number else _COLORS[(number - original) % len(_COLORS)]


def _mark(number: int, original: bool, x: float, y: float, *, faint: bool = False) -> str:
    """Draw the mark of a data set: the unprotected one hollow, released ones filled and told apart by their shapes."""
    color = _color(number, original)
    hollow = faint or (original and not number)
    return svg.shape(max(number - original, 0), x, y, "#fff" if hollow else color, color, size=4.6)


def _legend(names: Sequence[str], original: bool, guessing: bool, width: int) -> list[str]:
    columns, drawn = 4 if width > NARROW else 2, []
    entries = [*(["guessing"] if guessing else []), *names]
    for place, name in enumerate(entries):
        x, y = 14 + (place % columns) * (width - 20) / columns, 14 + 18 * (place // columns)
        if guessing and not place:
            drawn.append(svg.line(x, y - 8, x, y + 8, svg.CHANCE, stroke_width=2.4))
        else:
            drawn.append(_mark(place - guessing, original, x, y))
        drawn.append(svg.text(x + 11, y + 4, shorten(name, 30 if width > NARROW else 22)))
    return drawn


def _grid(across: svg.ChartAxis, top: float, bottom: float) -> list[str]:
    drawn = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        drawn.append(svg.line(across(share), top, across(share), bottom, svg.MUTED if not share else svg.GRID))
        drawn.append(svg.note(across(share), bottom + 17, percent(share)))
    return drawn


def _row(
    line: Line, across: svg.ChartAxis, top: float, above: float, step: float, original: bool, *, wide: bool
) -> list[str]:
    middle = top + step / 2
    drawn = [svg.line(0, top, across.stop + _FIGURE, top)]
    if wide:
        drawn.append(svg.text(6, middle - 2, shorten(line.name, 42), font_weight=600))
        drawn.append(svg.text(6, middle + 13, shorten(line.beside, 52), fill=svg.MUTED, font_size=11))
    else:
        drawn.append(svg.rect(0, top + 1, across.stop + _FIGURE, above - 2, "#fff"))
        drawn.append(svg.text(4, top + 15, shorten(line.name, 52), font_weight=600))
        drawn.append(svg.text(4, top + 29, shorten(line.beside, 60), fill=svg.MUTED, font_size=11))
    first = top + above + (step - above - _GAP * (len(line.values) - 1)) / 2
    drawn += _guessing(line.chances, across, first)
    for number, (chance, value) in enumerate(zip(line.chances, line.values, strict=True)):
        y, start = first + _GAP * number, across(chance or 0.0)
        if value is None:
            drawn.append(svg.note(start + 6, y + 4, "not run", "start"))
            continue
        x, color = across(min(max(value, 0.0), 1.0)), _color(number, original)
        dashes = {"stroke_dasharray": "3 3"} if line.faint else {}
        drawn.append(svg.line(start, y, x, y, color, stroke_width=2.2, **dashes))
        drawn.append(_mark(number, original, x, y, faint=line.faint))
        drawn.append(svg.text(max(x, start) + 9, y + 4, percent(value), font_size=11, fill=_ink(number, original)))
    return drawn


def _guessing(chances: Sequence[float | None], across: svg.ChartAxis, first: float) -> list[str]:
    """Draw a mark of guessing at each line, and the figure where all share it and there is room beside it."""
    places = [(across(chance), first + _GAP * number) for number, chance in enumerate(chances) if chance is not None]
    drawn = [svg.line(x, y - 8, x, y + 8, svg.CHANCE, stroke_width=2.4) for x, y in places]
    alike = len({percent(chance) for chance in chances}) == 1
    if alike and chances[0] is not None and places[0][0] - across(0.0) > _BESIDE:
        (x, _), y = places[0], first + _GAP * (len(chances) - 1) / 2
        drawn.append(svg.text(x - 6, y + 4, percent(chances[0]), font_size=11, fill=svg.CHANCE, text_anchor="end"))
    return drawn


def _ink(number: int, original: bool) -> str:
    return svg.MUTED if original and not number else _color(number, original)


def _words(line: Line, names: Sequence[str]) -> str:
    told = []
    for name, chance, value in zip(names, line.chances, line.values, strict=True):
        guessing = "" if chance is None else f" (guessing {percent(chance)})"
        told.append(f"{name} {'not run' if value is None else percent(value)}{guessing}")
    return f"{line.name}: {', '.join(told)}"
