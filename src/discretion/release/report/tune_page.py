"""A page about one search for the balance: the map whose points tell their settings, the best, and every setting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from discretion.errors import Infeasible, PlanError
from discretion.release.report.page import template
from discretion.release.report.risk_utility_map import NARROW, draw, map_of
from discretion.release.report.wording import counted, number, percent

if TYPE_CHECKING:
    from discretion.release.tune_result import Point, TuneResult


def tune_page(result: TuneResult, title: str) -> str:
    """Give the page as one HTML file that needs nothing else. It names settings, so it is internal."""
    from markupsafe import Markup

    best, trouble = _best(result)
    found = map_of(result)
    front = {id(point) for point in result.front}
    ordered = sorted(result.points, key=lambda one: (result.utility.cost(one.utility), one.risk))
    return template("tune.html").render(
        internal=True,
        title=title,
        lead=_lead(result, best, trouble),
        best=None if best is None else _row(result, best, front),
        steps=[] if best is None else _steps(result, best),
        picture=Markup(draw(found, interactive=True)),
        narrow=Markup(draw(found, interactive=True, width=NARROW)),
        risk=result.risk.title,
        utility=result.utility.title,
        better=result.utility.better,
        several_risks=len(result.risk.measures) > 1,
        several_utilities=len(result.utility.measures) > 1,
        risks=[measure.kind for measure in result.risk.measures],
        utilities=[measure.kind for measure in result.utility.measures],
        limited=result.max_risk is not None or result.min_utility is not None,
        sampled=any(not point.confirmed for point in result.points),
        rows=[_row(result, point, front) for point in ordered],
        failed=result.failed,
        not_tried=result.not_tried,
        untouched=result.untouched,
        drawn=0 if best is None else best.draws,
        not_confirmed=result.not_confirmed,
    )


def _best(result: TuneResult) -> tuple[Point | None, str]:
    try:
        return result.best, ""
    except Infeasible as error:
        return None, str(error)
    except PlanError:
        return None, ""


def _lead(result: TuneResult, best: Point | None, trouble: str) -> str:
    tried = f"{counted(len(result.points), 'setting')} tried, {len(result.front)} on the front."
    if best is not None:
        return f"{tried} Under the limit ({result.limit}) the best is {best.label}."
    return f"{tried} {trouble[:1].upper()}{trouble[1:]}." if trouble else f"{tried} No limit was given."


def _steps(result: TuneResult, best: Point) -> list[dict[str, Any]]:
    from discretion.release.report.wording import setting_text, title_of

    return [
        {
            "title": title_of(method.kind),
            "fields": "; ".join(
                f"{name}: {setting_text(getattr(method, name), reveal=True)}" for name in method.settings()
            ),
        }
        for method in result.steps(best)
    ]


def _limit(result: TuneResult, point: Point) -> str:
    if not point.confirmed:
        return "on all rows unknown"
    kept = "kept" if result.holds(point) else "broken"
    return f"{kept}; requirements not met: {', '.join(point.unmet)}" if point.unmet else kept


def _row(result: TuneResult, point: Point, front: set[int]) -> dict[str, Any]:
    def shown(value: float, share: bool) -> str:
        return percent(value) if share else number(value)

    shares = result.risk.is_share, result.utility.is_share
    return {
        "place": next(place for place, one in enumerate(result.points) if one is point),
        "label": point.label,
        "risk": shown(point.risk, shares[0]),
        "risk_spread": shown(point.risk_spread, shares[0]),
        "by": point.leading,
        "utility": shown(point.utility, shares[1]),
        "utility_spread": shown(point.utility_spread, shares[1]),
        "runs": point.runs,
        "rows": f"{point.rows:,}",
        "on_front": id(point) in front,
        "limit": _limit(result, point),
        "confirmed": point.confirmed,
    }
