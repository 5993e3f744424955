"""Risk per record: how many records are at which risk, for one attack. Drawn in the internal version only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discretion.measure import Score
from discretion.release.ranking import baseline_of
from discretion.release.report import svg
from discretion.release.report.wording import number, percent, title_of

_BARS = 20


@dataclass(frozen=True)
class RecordRisk:
    """Shares of records at or above each level of risk."""

    kind: str
    levels: tuple[float, ...]
    shares: tuple[float, ...]
    chance: float | None = None
    """what guessing reaches, where it is known"""
    certain: bool = False
    """whether a record is found or not, so that guessing finds a share of them; otherwise each is at that risk"""


def record_risk_of(score: Score) -> RecordRisk | None:
    """Take the share of records at or above each of twenty levels; None where a measure has no figure per record."""
    if score.family != "risk" or score.per_record is None or not len(score.per_record):
        return None
    risk: NDArray[np.float64] = np.asarray(score.per_record, dtype=np.float64)
    risk = risk[~np.isnan(risk)]
    if not len(risk) or risk.min() < 0:
        return None
    top = max(1.0, float(risk.max()))
    levels = np.linspace(0, top, _BARS + 1)[1:]
    ordered = np.sort(risk)
    at_least = 1 - np.searchsorted(ordered, levels - 1e-12, side="left") / len(ordered)
    certain = bool(np.isin(risk, (0.0, 1.0)).all())
    return RecordRisk(score.measure, tuple(levels.tolist()), tuple(at_least.tolist()), baseline_of(score), certain)


def draw(found: RecordRisk) -> str:
    """Draw the share of records (up) whose risk is at least the level (across), and what guessing reaches."""
    level = found.chance if found.certain and found.chance is not None else 0.0
    top = max(*found.shares, level, 0.01)
    across = svg.ChartAxis(0.0, found.levels[-1], svg.LEFT, svg.WIDTH - svg.RIGHT)
    up = svg.ChartAxis(0.0, top * 1.05, svg.HEIGHT - svg.BOTTOM, svg.TOP)
    width = across(found.levels[0]) - across(0.0)
    bars = [
        svg.rect(across(level) - width + 1, up(share), width - 2, up(0.0) - up(share), svg.RELEASED)
        for level, share in zip(found.levels, found.shares, strict=True)
    ]
    marks = [(mark, percent(mark)) for mark in svg.ticks(0.0, top * 1.05, 4)]
    places = [(across(level), number(level)) for level in svg.ticks(0.0, found.levels[-1], 5)]
    body = [svg.y_axis(up, marks, "share of records"), *bars, svg.x_axis(places, "risk of the record, at least")]
    guessing = ""
    if found.chance is not None:
        guessing = f" Guessing reaches {percent(found.chance)}."
        x, y = across(min(found.chance, found.levels[-1])), up(found.chance)
        x1, y1, x2, y2 = (svg.LEFT, y, svg.WIDTH - svg.RIGHT, y) if found.certain else (x, svg.TOP - 8, x, up(0.0))
        body.append(svg.line(x1, y1, x2, y2, "#fff", stroke_width=5, stroke_opacity="0.75"))
        body.append(svg.line(x1, y1, x2, y2, svg.CHANCE, stroke_width=1.8, stroke_dasharray="5 3"))
        words = f"guessing: {percent(found.chance)}"
        body.append(svg.text(svg.WIDTH - svg.RIGHT, 14, words, font_size=11, fill=svg.CHANCE, text_anchor="end"))
    return svg.picture(
        svg.WIDTH,
        svg.HEIGHT,
        f"{title_of(found.kind)}: risk per record",
        f"{percent(found.shares[-1])} of the records have the largest risk.{guessing}",
        body,
    )
