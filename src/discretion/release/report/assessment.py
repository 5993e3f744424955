"""A page about one assessment: attackers, attacks, every published column and figure, risk per record. Internal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discretion.measure import Score
from discretion.part import Family, find
from discretion.release.published import PublishedColumn, to_look_at
from discretion.release.ranking import RankedAttack, attacker_cards, best_attack, rank_attacks
from discretion.release.report import record_risk
from discretion.release.report.attackers import card_rows
from discretion.release.report.page import template
from discretion.release.report.wording import figure, percent, title_of


def assessment_page(
    scores: Sequence[Score],
    failed: Sequence[Mapping[str, str]],
    title: str,
    columns: Sequence[PublishedColumn] = (),
    left: Mapping[str, str] | None = None,
) -> str:
    """Give the assessment as one HTML file that needs nothing else; rows are counted, never shown.

    `failed` could not be run, `left` was not chosen, each with its reason.
    """
    ranked = rank_attacks(scores)
    not_run = {**(left or {}), **{item["measure"]: item["reason"] for item in failed}}
    return template("assessment.html").render(
        internal=True,
        title=title,
        best=best_attack(ranked, not_run),
        cards=card_rows(attacker_cards(scores, not_run)),
        columns=to_look_at(columns),
        ranked=[_attack(attack) for attack in ranked],
        families=[
            {"key": "risk", "title": "Risk", "rows": _rows(scores, "risk")},
            {"key": "utility", "title": "Utility: what was lost", "rows": _rows(scores, "utility")},
        ],
        failed=failed,
        pictures=_pictures(scores),
    )


def _attack(attack: RankedAttack) -> dict[str, str]:
    return {
        "title": title_of(attack.measure),
        "aim": attack.aim,
        "success": percent(attack.success),
        "chance": percent(attack.chance),
        "gain": percent(attack.gain),
        "meaning": attack.meaning,
    }


def _rows(scores: Sequence[Score], family: Family) -> list[dict[str, str]]:
    return [
        {
            "title": title_of(score.measure),
            "value": figure(score.value, getattr(find(score.measure), "limits", (None, None))),
            "better": score.better,
            "meaning": score.meaning,
        }
        for score in scores
        if score.family == family
    ]


def _pictures(scores: Sequence[Score]) -> list[tuple[str, Any]]:
    from markupsafe import Markup

    found = [(score, record_risk.record_risk_of(score)) for score in scores]
    return [(title_of(score.measure), Markup(record_risk.draw(risk))) for score, risk in found if risk is not None]
