"""The risk–utility map: a mark for every setting, the front, the limit. Left is safer, up is more useful."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from discretion.release.report import svg
from discretion.release.report.wording import number, percent, shorten

if TYPE_CHECKING:
    from discretion.release.tune_result import Point, TuneResult

WIDTH, NARROW, HEIGHT = 720, 372, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 22, 34, 54
_LEGEND_ROW = 20
_COLORS = ("#17568f", "#9c4a00", "#14603a", "#7b2d8b", "#8a1c3b", "#46606e")
_FRONT = "#1b2733"
_LIMIT = "#9b1c1c"
_MOST_NAMED = 6
_MARK = 6.0
_PALE = "0.45"


@dataclass(frozen=True)
class Mark:
    """One setting on the map."""

    label: str
    words: str
    """everything the mark tells when it is pointed at"""
    x: float
    y: float
    family: int
    on_front: bool
    best: bool
    allowed: bool
    confirmed: bool
    short: str = ""
    """what is written beside the mark: its settings, without the method"""

    @property
    def refused(self) -> bool:
        """Whether it was tried on all rows and breaks the limit or a requirement."""
        return self.confirmed and not self.allowed


@dataclass(frozen=True)
class Map:
    """What the picture shows, in the units of the two figures."""

    marks: tuple[Mark, ...]
    families: tuple[str, ...]
    risk: str
    utility: str
    higher_is_better: bool
    shares: tuple[bool, bool]
    max_risk: float | None
    min_utility: float | None
    original_risk: float | None


def map_of(result: TuneResult) -> Map:
    """Gather the marks of a result."""
    from discretion.errors import Infeasible, PlanError

    try:
        best: Point | None = result.best
    except (Infeasible, PlanError):
        best = None
    front = {id(point) for point in result.front}
    families = tuple(dict.fromkeys(point.setting.family for point in result.points))
    marks = tuple(
        Mark(
            label=point.label,
            words=words_of(result, point, best is point, id(point) in front),
            x=point.risk,
            y=point.utility,
            family=families.index(point.setting.family),
            on_front=id(point) in front,
            best=best is point,
            allowed=result.may_hold(point) and not point.unmet,
            confirmed=point.confirmed,
            short=_short(point.label),
        )
        for point in result.points
    )
    return Map(
        marks, families, result.risk.title, result.utility.title, result.utility.better == "higher",
        (result.risk.is_share, result.utility.is_share), result.max_risk, result.min_utility, result.original_risk,
    )  # fmt: skip


def _short(label: str) -> str:
    """Take the settings out of a label, `rank-swap (percent=8)`, without what they stand in; others stay."""
    found = re.fullmatch(r"[^()]*\(([^()]*)\)", label)
    return re.sub(r"(?:[\w-]+\.)+(?=\w+=)", "", found[1]) if found else label


def words_of(result: TuneResult, point: Point, best: bool, on_front: bool) -> str:
    """Say everything about a point in one line."""
    shares = result.risk.is_share, result.utility.is_share
    said = [
        point.label,
        f"risk {_figure(point.risk, shares[0])} ± {_figure(point.risk_spread, shares[0])} (by {point.leading})"
        + _between(point, shares[0]),
        f"utility {_figure(point.utility, shares[1])} ± {_figure(point.utility_spread, shares[1])}",
        f"{point.runs} run{'s' if point.runs > 1 else ''} on {point.rows:,} rows"
        + ("" if point.confirmed else " (sample)"),
    ]
    if best:
        said.append("best under the limit")
    elif on_front:
        said.append("on the front")
    kept = result.kept(point) if result.max_risk is not None or result.min_utility is not None else None
    if kept is not None:
        said.append("keeps the limit" if kept else "breaks the limit")
    if point.unmet:
        said.append(f"does not meet the plan's requirements ({', '.join(point.unmet)})")
    return "; ".join(said)


def _between(point: Point, share: bool) -> str:
    """Say how far a risk is known where the attacks looked for some people drawn at random."""
    if point.risk_interval is None:
        return ""
    return f", by people drawn at random: {' to '.join(_figure(end, share) for end in point.risk_interval)}"


def _figure(value: float, share: bool) -> str:
    return percent(value) if share else number(value)


def draw(found: Map, *, interactive: bool = False, width: int = WIDTH, link: str = "") -> str:
    """Draw the map; `interactive` marks can be reached by the keyboard, and lead to `link` with their number."""
    across, up = _scales(found, width)
    columns = _legend_columns(width)
    rows = -(-len(found.families[:_MOST_NAMED]) // columns) + -(-len(_signs(found)) // columns)
    height = HEIGHT + rows * _LEGEND_ROW + 10
    body = [
        *_forbidden(found, across, up),
        *_axes(found, across, up),
        *_front(found, across, up),
        *[_mark(mark, place, across, up, interactive, link) for place, mark in _painted(found)],
        *_labels(found, across, up),
        *_legend(found, width),
    ]
    best = next((mark.label for mark in found.marks if mark.best), "")
    description = f"{len(found.marks)} settings; left is safer, up is more useful. "
    description += f"Best under the limit: {best}." if best else "None is marked as the best."
    words = f"<title>Risk–utility map</title><desc>{escape(description)}</desc>"
    role = {"role": "group", "aria-label": "Risk–utility map"} if interactive else {"role": "img"}
    box = f"0 0 {width} {height}"
    attributes = {"class": "plot", "viewBox": box, "width": width, "height": height, **role}
    space = {} if interactive else {"xmlns": "http://www.w3.org/2000/svg", "font-family": "system-ui, sans-serif"}
    return svg.element("svg", words + "".join(body), **attributes, **space)


def _painted(found: Map) -> list[tuple[int, Mark]]:
    """Put the marks of the front last, so that they lie on top and are reached in order of risk."""
    return sorted(enumerate(found.marks), key=lambda item: (item[1].best, item[1].on_front, item[1].x))


def _scales(found: Map, width: int) -> tuple[svg.ChartAxis, svg.ChartAxis]:
    xs = [mark.x for mark in found.marks] + ([found.max_risk] if found.max_risk is not None else [])
    ys = [mark.y for mark in found.marks] + ([found.min_utility] if found.min_utility is not None else [])
    if found.original_risk is not None:
        xs.append(found.original_risk)
    (left, right), (low, high) = _padded(xs, found.shares[0]), _padded(ys, found.shares[1])
    across = svg.ChartAxis(left, right, _LEFT, width - _RIGHT)
    bottom, top = float(HEIGHT - _BOTTOM), float(_TOP)
    return across, svg.ChartAxis(low, high, bottom, top) if found.higher_is_better else svg.ChartAxis(
        low, high, top, bottom
    )


def _padded(values: list[float], share: bool) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or max(abs(high) * 0.1, 0.01)
    low, high = low - room, high + room
    return (max(low, -0.02), min(high, 1.02)) if share else (low, high)


def _axes(found: Map, across: svg.ChartAxis, up: svg.ChartAxis) -> list[str]:
    right, bottom = across.stop, HEIGHT - _BOTTOM
    drawn = [svg.note(6, 16, f"{found.utility} (up is better)", "start")]
    for value in svg.ticks(up.low, up.high, 6):
        drawn.append(svg.line(_LEFT, up(value), right, up(value)))
        drawn.append(svg.note(_LEFT - 7, up(value) + 4, _figure(value, found.shares[1]), "end"))
    drawn.append(svg.line(_LEFT, bottom, right, bottom, svg.MUTED))
    for value in svg.ticks(across.low, across.high, int(right) // 80):
        drawn.append(svg.line(across(value), bottom, across(value), bottom + 4, svg.MUTED))
        drawn.append(svg.note(across(value), bottom + 18, _figure(value, found.shares[0])))
    drawn.append(svg.note((_LEFT + right) / 2, bottom + 38, f"risk: {found.risk} (left is better)"))
    if found.original_risk is not None:
        x = across(found.original_risk)
        drawn.append(svg.line(x, _TOP, x, bottom, svg.ORIGINAL, stroke_dasharray="2 3"))
        drawn.append(svg.note(min(x - 4, right), _TOP + 12, "original data", "end"))
    return drawn


def _forbidden(found: Map, across: svg.ChartAxis, up: svg.ChartAxis) -> list[str]:
    """Shade what the limit excludes, and draw its line."""
    right, bottom = across.stop, HEIGHT - _BOTTOM
    if found.max_risk is not None:
        x = min(max(across(found.max_risk), _LEFT), right)
        shade = svg.rect(x, _TOP, right - x, bottom - _TOP, _LIMIT, fill_opacity="0.06")
        line = svg.line(x, _TOP, x, bottom, _LIMIT, stroke_width="1.5", stroke_dasharray="6 4")
        return [shade, line, svg.text(x + 5, bottom - 8, "limit", fill=_LIMIT, font_size=11)]
    if found.min_utility is not None:
        y = up(found.min_utility)
        shade = svg.rect(_LEFT, y, right - _LEFT, bottom - y, _LIMIT, fill_opacity="0.06")
        line = svg.line(_LEFT, y, right, y, _LIMIT, stroke_width="1.5", stroke_dasharray="6 4")
        return [shade, line, svg.text(_LEFT + 6, y + 14, "limit", fill=_LIMIT, font_size=11)]
    return []


def _front(found: Map, across: svg.ChartAxis, up: svg.ChartAxis) -> list[str]:
    """Draw the front as stairs: along each step nothing better was found."""
    chosen = sorted((mark for mark in found.marks if mark.on_front), key=lambda mark: (mark.x, up(mark.y)))
    stairs: list[tuple[float, float]] = []
    for mark in chosen:
        place = across(mark.x), up(mark.y)
        if stairs:
            stairs.append((place[0], stairs[-1][1]))
        stairs.append(place)
    return [svg.polyline(stairs, _FRONT, stroke_width="1.5", stroke_opacity="0.55")] if len(stairs) > 1 else []


def _mark(mark: Mark, place: int, across: svg.ChartAxis, up: svg.ChartAxis, interactive: bool, link: str) -> str:
    x, y, color = across(mark.x), up(mark.y), _COLORS[mark.family % len(_COLORS)]
    shown = f"<title>{escape(mark.words)}</title>"
    if mark.best:
        shown += svg.element("circle", cx=x, cy=y, r=_MARK + 6, fill="none", stroke=_FRONT, stroke_width="2")
    shown += svg.shape(mark.family, x, y, color if mark.on_front else "#fff", color, dashed=not mark.confirmed)
    pale = {"opacity": _PALE} if mark.refused else {}
    if link:
        return svg.element(
            "a", shown, **{"class": "mark", "href": link.format(place), "aria-label": mark.words, **pale}
        )
    reach = {"tabindex": "0", "role": "img", "aria-label": mark.words, "data-point": place} if interactive else {}
    return svg.element("g", shown, **{"class": "mark", **pale, **reach})


def _legend_columns(width: int) -> int:
    return 2 if width > NARROW else 1


def _legend(found: Map, width: int) -> list[str]:
    drawn = []
    columns = _legend_columns(width)
    column = (width - _LEFT - _RIGHT) / columns
    for place, family in enumerate(found.families[:_MOST_NAMED]):
        x, y = _LEFT + 8 + (place % columns) * column, HEIGHT + 4 + (place // columns) * _LEGEND_ROW
        color = _COLORS[place % len(_COLORS)]
        drawn.append(svg.shape(place, x, y, color, color))
        drawn.append(svg.text(x + 14, y + 4, shorten(family, 42), font_size=12))
    if len(found.families) > _MOST_NAMED:
        drawn.append(svg.note(width - _RIGHT, HEIGHT + 8, f"and {len(found.families) - _MOST_NAMED} more", "end"))
    first = HEIGHT + 10 - (-len(found.families[:_MOST_NAMED]) // columns) * _LEGEND_ROW
    for place, (sign, words) in enumerate(_signs(found)):
        x, y = _LEFT + 8 + (place % columns) * column, first + (place // columns) * _LEGEND_ROW
        drawn += [*_sign(sign, x, y), svg.text(x + 14, y + 4, words, font_size=12, fill=svg.MUTED)]
    return drawn


def _signs(found: Map) -> list[tuple[str, str]]:
    """Name the signs that occur on the map, and say what each means."""
    occurs = {
        "filled": (any(mark.on_front for mark in found.marks), "filled: nothing tried is better in both"),
        "hollow": (any(not mark.on_front for mark in found.marks), "hollow: another setting is better in both"),
        "ring": (any(mark.best for mark in found.marks), "ring: the best under the limit"),
        "dashed": (any(not mark.confirmed for mark in found.marks), "dashed: tried on a sample only"),
        "pale": (any(mark.refused for mark in found.marks), "pale: breaks the limit or a requirement"),
        "stairs": (sum(mark.on_front for mark in found.marks) > 1, "line: the front, the best that can be had"),
    }
    return [(sign, words) for sign, (there, words) in occurs.items() if there]


def _sign(sign: str, x: float, y: float) -> list[str]:
    if sign == "stairs":
        return [svg.polyline([(x - 7, y + 4), (x, y + 4), (x, y - 4), (x + 7, y - 4)], _FRONT, stroke_opacity="0.55")]
    ring = [svg.element("circle", cx=x, cy=y, r=8.5, fill="none", stroke=_FRONT, stroke_width="2")]
    shown = svg.shape(
        0, x, y, "#fff" if sign in ("hollow", "dashed") else svg.MUTED, svg.MUTED, size=5.0, dashed=sign == "dashed"
    )
    faded = svg.element("g", shown, opacity=_PALE) if sign == "pale" else shown
    return [*(ring if sign == "ring" else []), faded]


def _labels(found: Map, across: svg.ChartAxis, up: svg.ChartAxis) -> list[str]:
    """Write the settings beside the marks of the front, the best first, where they stand clear of each other."""
    taken = [(across(mark.x) - 8, up(mark.y) - 8, across(mark.x) + 8, up(mark.y) + 8) for mark in found.marks]
    if found.original_risk is not None:
        x = min(across(found.original_risk) - 4, across.stop)
        taken.append((x - 80, _TOP, x + 4, _TOP + 16))
    if found.max_risk is not None:
        x = across(found.max_risk)
        taken.append((x, HEIGHT - _BOTTOM - 20, x + 36, HEIGHT - _BOTTOM))
    drawn = []
    for mark in sorted((one for one in found.marks if one.on_front), key=lambda one: (not one.best, one.x)):
        words = shorten(mark.short, 30)
        x, y, long = across(mark.x), up(mark.y), 6.2 * len(words)
        off = 17 if mark.best else 12
        places = [(x + off, y + 15), (x + off, y - 8), (x - off - long, y - 8), (x - off - long, y + 15)]
        for left, base in places:
            box = (left, base - 10, left + long, base + 3)
            inside = left >= _LEFT + 2 and box[2] <= across.stop and box[1] >= _TOP and box[3] < HEIGHT - _BOTTOM
            clear = all(box[2] < a or c < box[0] or box[3] < b or d < box[1] for a, b, c, d in taken)
            if inside and clear:
                taken.append(box)
                drawn.append(svg.text(left, base, words, font_size=11, font_weight=600 if mark.best else 400))
                break
    return drawn
