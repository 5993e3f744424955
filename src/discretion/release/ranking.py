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
_EXPECTED = ("success_rate", "mean_dis")
"""Where a measure whose value is a maximum, or counts records at risk, keeps the expected share of right answers."""
_HIGHEST = ("highest", "highest_dis")
_NO_BASELINE = {
    "suda": "its value counts the records above a threshold, which guessing does not have; the ranking compares the "
    "mean probability of a right match with picking a record at random"
}


@dataclass(frozen=True)
class RankedAttack:
    """One attack: the share it is expected to get right, what guessing does, and the part of the way to certainty.

    `highest` is the risk of the most exposed person, where the measure knows it. `doubtful` tells that the attack takes
    published values as true although they were perturbed.
    """

    measure: str
    aim: str
    success: float
    chance: float | None
    gain: float
    meaning: str
    doubtful: bool
    highest: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give the attack as plain data."""
        return asdict(self)


def rank_attacks(scores: Iterable[Score]) -> tuple[RankedAttack, ...]:
    """Rank attacks from the most to the least successful.

    Every attack counts with the share of people for whom it is expected to be right, also where the value of its
    measure is the risk of the most exposed person: one unique record does not outweigh everybody. An attack that
    succeeds with share s where guessing succeeds with share c gains (s − c) / (1 − c): 0 when it does no better than
    guessing, 1 when it is always right. Without a chance level the gain is the success itself. Figures that are not
    shares (counts, distances) cannot be compared and are left out. Attacks that take perturbed values as true come
    last: they would succeed if nothing had been changed.
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
    known = [attack for attack in ranked if attack.highest is not None and not attack.doubtful]
    worst = max(known, key=lambda attack: attack.highest or 0.0) if known else None
    exposed = (
        "" if worst is None else f" The most exposed person: {as_percent(worst.highest or 0.0)} ({worst.measure})."
    )
    return f"What an attacker can do best: {best.aim} by {best.measure}, {as_percent(best.success)}{beyond}.{exposed}"


def chance_of(score: Score) -> float | None:
    """Give what guessing, or the control group, reaches; None where nothing is known of it."""
    found = score.detail.get("chance")
    return float(found) if isinstance(found, int | float) else None


def why_no_baseline(score: Score) -> str:
    """Say why a risk stands without a baseline; empty where it has one."""
    if score.family != "risk" or chance_of(score) is not None:
        return ""
    return str(score.detail.get("baseline") or _NO_BASELINE.get(score.measure, "none is defined for this measure"))


def _is_share(score: Score) -> bool:
    return getattr(find(score.measure), "limits", None) == (0.0, 1.0) and score.better == "lower"


def _ranked(score: Score) -> RankedAttack:
    room = find(score.measure).__module__.split(".")[-2]
    chance, expected = chance_of(score), _first(score, _EXPECTED)
    success = score.value if expected is None else expected
    if chance is None and score.measure in _NO_BASELINE and score.detail.get("records"):
        chance = 1.0 / score.detail["records"]
    return RankedAttack(
        score.measure,
        _AIMS.get(room, "attack the release"),
        success,
        chance,
        success if chance is None else _gain(success, chance),
        score.meaning,
        "warning" in score.detail,
        _first(score, _HIGHEST),
    )


def _first(score: Score, names: Iterable[str]) -> float | None:
    return next((float(value) for name in names if isinstance(value := score.detail.get(name), int | float)), None)


def _gain(success: float, chance: float) -> float:
    return 0.0 if chance >= 1 else max(0.0, (success - chance) / (1 - chance))
