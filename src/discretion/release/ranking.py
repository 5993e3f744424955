"""What an attacker can do best: the attacks of an assessment, ranked by what they gain over guessing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from discretion.measure import Score, as_percent
from discretion.part import find

_AIMS = {
    "identity": "find whose record it is",
    "attribute": "learn a value about a person",
    "synthetic": "learn about people behind the release",
}


@dataclass(frozen=True)
class RankedAttack:
    """One attack: how often it succeeds, how often guessing does, and the part of the way to certainty it gains.

    `doubtful` tells that the attack takes published values as true although they were perturbed.
    """

    measure: str
    aim: str
    success: float
    chance: float | None
    gain: float
    meaning: str
    doubtful: bool

    def to_dict(self) -> dict[str, Any]:
        """Give the attack as plain data."""
        return asdict(self)


def rank_attacks(scores: Iterable[Score]) -> tuple[RankedAttack, ...]:
    """Rank attacks from the most to the least successful.

    An attack that succeeds with share s where guessing succeeds with share c gains (s − c) / (1 − c): 0 when it does no
    better than guessing, 1 when it is always right. Without a chance level the gain is the success itself. Figures that
    are not shares (counts, distances) cannot be compared and are left out. Attacks that take perturbed values as true
    come last: they would succeed if nothing had been changed.
    """
    ranked = [_ranked(score) for score in scores if score.family == "risk" and _is_share(score)]
    return tuple(sorted(ranked, key=lambda attack: (attack.doubtful, -attack.gain, attack.measure)))


def best_attack(ranked: tuple[RankedAttack, ...]) -> str:
    """Say in one sentence what an attacker can do best."""
    if not ranked:
        return "No attack whose success is a share of people was run."
    best = ranked[0]
    if best.gain <= 0:
        return "No attack that was run does better than guessing."
    beyond = "" if best.chance is None else f" (guessing: {as_percent(best.chance)})"
    return f"What an attacker can do best: {best.aim} by {best.measure}, {as_percent(best.success)}{beyond}."


def _is_share(score: Score) -> bool:
    return getattr(find(score.measure), "limits", None) == (0.0, 1.0) and score.better == "lower"


def _ranked(score: Score) -> RankedAttack:
    room = find(score.measure).__module__.split(".")[-2]
    chance = score.detail.get("chance")
    base = float(chance) if isinstance(chance, int | float) else None
    gain = score.value if base is None else _gain(score.value, base)
    aim = _AIMS.get(room, "attack the release")
    return RankedAttack(score.measure, aim, score.value, base, gain, score.meaning, "warning" in score.detail)


def _gain(success: float, chance: float) -> float:
    return 0.0 if chance >= 1 else max(0.0, (success - chance) / (1 - chance))
