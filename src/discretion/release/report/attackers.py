"""The attackers in words: what each knows, can do, and what was not tried."""

from __future__ import annotations

from collections.abc import Sequence

from discretion.release.ranking import AttackerCard
from discretion.release.report.wording import percent, title_of


def card_rows(cards: Sequence[AttackerCard], *, figures: bool = True) -> list[dict[str, str]]:
    """Word the attackers for a page; without `figures`, only who was considered and whether anything was tried."""
    rows = []
    for card in cards:
        by = "" if card.measure is None else f" by {title_of(card.measure)}"
        doubt = " (takes perturbed values as true)" if card.doubtful else ""
        between = "" if card.low is None else f"{percent(card.low)} to {percent(card.high)}"
        done = "not tried" if not card.tried else f"tried: {', '.join(title_of(kind) for kind in card.tried)}"
        rows.append(
            {
                "attacker": card.attacker,
                "knows": card.knows,
                "can": f"{card.can}{by}{doubt}" if figures else done,
                "success": percent(card.success) if figures else "",
                "interval": between if figures else "",
                "chance": percent(card.chance) if figures else "",
                "not_tried": "; ".join(f"{kind} ({why})" for kind, why in card.not_tried.items()) if figures else "",
            }
        )
    return rows
