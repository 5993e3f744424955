"""Risk per record: how many records are at which risk, for one attack. Drawn in the internal version only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discretion.measure import Score
from discretion.release.report import svg
from discretion.release.report.wording import number, percent, title_of

_BARS = 20


@dataclass(frozen=True)
class RecordRisk:
    """Shares of records at or above each level of risk."""

    kind: str
    levels: tuple[float, ...]
    shares: tuple[float, ...]


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
    return RecordRisk(score.measure, tuple(levels.tolist()), tuple(at_least.tolist()))


def draw(found: RecordRisk) -> str:
    """Draw the share of records (up) whose risk is at least the level (across)."""
    top = max(*found.shares, 0.01)
    across = svg.Scale(0.0, found.levels[-1], svg.LEFT, svg.WIDTH - svg.RIGHT)
    up = svg.Scale(0.0, top * 1.05, svg.HEIGHT - svg.BOTTOM, svg.TOP)
    width = across(found.levels[0]) - across(0.0)
    bars = [
        svg.rect(across(level) - width + 1, up(share), width - 2, up(0.0) - up(share), svg.RELEASED)
        for level, share in zip(found.levels, found.shares, strict=True)
    ]
    marks = [(mark, percent(mark)) for mark in svg.ticks(0.0, top * 1.05, 4)]
    places = [(across(level), number(level)) for level in svg.ticks(0.0, found.levels[-1], 5)]
    body = [svg.y_axis(up, marks, "share of records"), *bars, svg.x_axis(places, "risk of the record, at least")]
    return svg.picture(
        svg.WIDTH,
        svg.HEIGHT,
        f"{title_of(found.kind)}: risk per record",
        f"{percent(found.shares[-1])} of the records have the largest risk.",
        body,
    )
