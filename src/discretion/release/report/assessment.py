"""A page about one assessment: attackers, attacks, every published column and figure, risk per record. Internal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discretion.measure import Score
from discretion.part import Family, find
from discretion.release.published import PublishedColumn, to_look_at
from discretion.release.ranking import (
    AttackerCard,
    RankedAttack,
    attacker_cards,
    best_attack,
    is_share,
    notes_of,
    rank_attacks,
)
from discretion.release.report.attack_lines import NARROW, WIDTH, Line, draw
from discretion.release.report.charts import draw_record_risk, record_risk_of
from discretion.release.report.page import card_rows, template
from discretion.release.report.wording import figure, percent, title_of


def assessment_page(
    scores: Sequence[Score],
    failed: Sequence[Mapping[str, str]],
    title: str,
    columns: Sequence[PublishedColumn] = (),
    left: Mapping[str, str] | None = None,
    cards: Sequence[AttackerCard] = (),
) -> str:
    """Give the assessment as one HTML file that needs nothing else; rows are counted, never shown.

    `failed` could not be run, `left` was not chosen, each with its reason. `cards`: those of the assessment;
    without them, what the scores say.
    """
    from markupsafe import Markup

    ranked = rank_attacks(scores)
    not_run = {**(left or {}), **{item["measure"]: item["reason"] for item in failed}}
    return template("assessment.html").render(
        internal=True,
        title=title,
        best=best_attack(ranked, not_run),
        cards=card_rows(tuple(cards) or attacker_cards(scores, not_run)),
        columns=to_look_at(columns),
        picture=[Markup(attack_picture(ranked, width)) for width in (WIDTH, NARROW)] if ranked else [],
        ranked=[_attack(attack) for attack in ranked],
        before=any(attack.unprotected is not None for attack in ranked),
        families=[
            {"key": "risk", "title": "Risks that are not shares of people", "rows": _rows(scores, "risk")},
            {"key": "utility", "title": "Utility: what was lost", "rows": _rows(scores, "utility")},
        ],
        failed=failed,
        pictures=_pictures(scores),
    )


def attack_picture(ranked: Sequence[RankedAttack], width: int) -> str:
    """Draw every attack as a line from guessing to success, before (where it was run) and after, ranked."""
    before = any(attack.unprotected is not None for attack in ranked)
    lines = [
        Line(
            _name(attack.measure, attack.note),
            attack.aim + (" (takes perturbed values as true)" if attack.doubtful else ""),
            (attack.unprotected_chance, attack.chance) if before else (attack.chance,),
            (attack.unprotected, attack.success) if before else (attack.success,),
            attack.doubtful,
        )
        for attack in ranked
    ]
    names = ("before: the original", "after: the release") if before else ("the release",)
    return draw(lines, names, "Every attack, from guessing to success", original=before, width=width)


def _name(measure: str, note: str) -> str:
    return title_of(measure) + (f" ({note})" if note else "")


def _attack(attack: RankedAttack) -> dict[str, str]:
    return {
        "title": _name(attack.measure, attack.note),
        "aim": attack.aim,
        "before": percent(attack.unprotected),
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
        if score.family == family and not (family == "risk" and is_share(score))
    ]


def _pictures(scores: Sequence[Score]) -> list[tuple[str, Any]]:
    from markupsafe import Markup

    drawn = {}
    for score, note in zip(scores, notes_of(scores), strict=True):
        risk = record_risk_of(score)
        if risk is not None:
            drawn[_name(score.measure, note), risk] = Markup(draw_record_risk(risk))
    return [(title, picture) for (title, _), picture in drawn.items()]
