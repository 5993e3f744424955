"""A score before and after, as two bars within the range of its measure."""

from __future__ import annotations

from discretion.release.report import svg
from discretion.release.report.scores import ScoreRange, ScoreRow

_WIDTH, _HEIGHT, _LEFT = 190, 58, 46
_RIGHT = 8


def draw(row: ScoreRow) -> str:
    """Draw the bars, a mark at the chance level, and the ends of the range; nothing where the range is open."""
    if row.range is None:
        return ""
    where = row.range
    across = svg.Scale(0.0, 1.0, _LEFT, _WIDTH - _RIGHT)
    rows = [("before", where.before, svg.ORIGINAL), ("after", where.after, svg.RELEASED)]
    body = []
    for place, (label, share, color) in enumerate(rows):
        y = 4.0 + place * 18
        body.append(svg.text(_LEFT - 6, y + 10, label, text_anchor="end", font_size=10, fill=svg.MUTED))
        body.append(svg.rect(_LEFT, y, across(1.0) - _LEFT, 12, "#eef2f5"))
        if share is None:
            body.append(svg.text(_LEFT + 4, y + 10, "not defined", font_size=10, fill=svg.MUTED))
        else:
            body.append(svg.rect(_LEFT, y, across(share) - _LEFT, 12, color))
    if where.chance is not None:
        x = across(where.chance)
        body.append(svg.line(x, 0, x, 37, svg.CHANCE, stroke_width=1.5, stroke_dasharray="3 2"))
    body.append(svg.text(_LEFT, 52, where.low, font_size=10, fill=svg.MUTED))
    body.append(svg.text(across(1.0), 52, where.high, text_anchor="end", font_size=10, fill=svg.MUTED))
    return svg.picture(_WIDTH, _HEIGHT, f"{row.title}: before and after", _describe(row, where), body, kind="bar")


def _describe(row: ScoreRow, where: ScoreRange) -> str:
    chance = f", chance level {row.chance}" if where.chance is not None else ""
    return f"Before {row.before}, after {row.after}{chance}; possible from {where.low} to {where.high}."
