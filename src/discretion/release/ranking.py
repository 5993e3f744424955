"""What attackers can do: a card for each kind of attacker, and the attacks ranked by what they gain over guessing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from discretion.measure import Score, as_percent
from discretion.part import find

FIND_RECORD = "find whose record it is"
MANY_FOUND = 0.1
"""Share of people found by an attack that no requirement limits, from which a release says so first."""
_AIMS = {
    "identity": FIND_RECORD,
    "attribute": "learn a value about a person",
    "synthetic": "learn about people behind the release",
}
_RECORD_FOUND = ("value-agreement", "interval-risk", "rank-interval", "sd-interval")
"""Attacks that begin where the record of a person has been found: they lead no ranking of what can be done."""
_EXPECTED = ("success_rate", "mean_dis")
"""Where a measure whose value is a maximum, or counts records at risk, keeps the expected share of right answers."""
_HIGHEST = ("highest", "highest_dis")
_CERTAIN = "certain_by_chance"
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
    low: float | None = None
    """lower end of the interval for the success (Wilson, 95%), where the number of people tried is known"""
    high: float | None = None
    note: str = ""
    """what tells it from others of its kind: the column it looks for, who attacks, how many columns are known"""
    unprotected: float | None = None
    """its success on the original itself, where that was run"""
    unprotected_chance: float | None = None

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
    last: they would succeed if nothing had been changed. An attack that was given twice counts once; those of one
    kind are told apart by a note.
    """
    chosen = [score for score in scores if score.family == "risk" and is_share(score)]
    ranked = dict.fromkeys(_ranked(score, note) for score, note in zip(chosen, notes_of(chosen), strict=True))
    return tuple(sorted(ranked, key=lambda attack: (attack.doubtful, -attack.gain, attack.measure, attack.note)))


def success_of(score: Score) -> float:
    """Give the share of people for whom an attack is expected to be right."""
    expected = _first(score, _EXPECTED)
    return score.value if expected is None else expected


def notes_of(scores: Sequence[Score]) -> list[str]:
    """Say of each score what tells it from others of its kind; empty where nothing needs to."""
    kinds = Counter((score.measure, _note(score)) for score in scores)
    notes = []
    for score in scores:
        columns, note = score.detail.get("columns"), _note(score)
        several = kinds[score.measure, note] > 1 and isinstance(columns, list | tuple)
        known = f"{len(columns or ())} column{'s' * (len(columns or ()) != 1)} known"
        notes.append(", ".join(filter(None, (note, known if several else ""))))
    told = {(s.measure, note, tuple(s.detail.get("columns") or ())) for s, note in zip(scores, notes, strict=True)}
    alike = Counter((measure, note) for measure, note, _ in told)
    return [
        f"{note}: {', '.join(score.detail['columns'])}" if note and alike[score.measure, note] > 1 else note
        for score, note in zip(scores, notes, strict=True)
    ]


def _note(score: Score) -> str:
    if score.detail.get("coalition"):
        return "by members of the group"
    target = score.detail.get("target")
    return target if isinstance(target, str) else ""


def best_attack(ranked: tuple[RankedAttack, ...], not_run: Iterable[str] = ()) -> str:
    """Say in one sentence what an attacker can do best of what was run, and name what was not run."""
    names = [name for name in dict.fromkeys(not_run) if find(name).family == "risk"]
    beside = f" Not run, so that nothing is known of them: {', '.join(names)}." if names else ""
    return _best(ranked) + beside


def _best(ranked: tuple[RankedAttack, ...]) -> str:
    best = strongest(ranked)
    if best is None:
        return "No attack whose success is a share of people was run."
    if best.gain <= 0:
        return "No attack that was run does better than guessing."
    beyond = "" if best.chance is None else f" (guessing: {as_percent(best.chance)})"
    known = [attack for attack in ranked if attack.highest is not None and not attack.doubtful]
    worst = max(known, key=lambda attack: attack.highest or 0.0) if known else None
    exposed = (
        f" The most exposed person: {as_percent(worst.highest or 0.0)} ({worst.measure})."
        if worst is not None and (worst.highest or 0.0) >= best.success
        else ""
    )
    return f"What an attacker can do best: {best.aim} by {best.measure}, {as_percent(best.success)}{beyond}.{exposed}"


def strongest(ranked: Sequence[RankedAttack]) -> RankedAttack | None:
    """Give the attack that gains most over guessing, of those that do not begin where a record has been found."""
    from_scratch = [attack for attack in ranked if attack.measure not in _RECORD_FOUND and attack.gain > 0]
    return next(iter(from_scratch or ranked), None)


def chance_of(score: Score) -> float | None:
    """Give what guessing reaches: the better of a random guess (or the control group) and one guess for everybody."""
    found = [score.detail.get(name) for name in ("chance", "best_constant")]
    known = [float(one) for one in found if isinstance(one, int | float)]
    return max(known) if known else None


def why_no_baseline(score: Score) -> str:
    """Say why a risk stands without a baseline; empty where it has one."""
    if score.family != "risk" or chance_of(score) is not None:
        return ""
    return str(score.detail.get("baseline") or _NO_BASELINE.get(score.measure, "none is defined for this measure"))


def is_share(score: Score) -> bool:
    """Tell whether the figure of a risk is a share of people, which can be compared with others."""
    return getattr(find(score.measure), "limits", None) == (0.0, 1.0) and score.better == "lower"


def baseline_of(score: Score) -> float | None:
    """Give what guessing reaches; for a measure whose value has no chance level, picking a record at random.

    Of what is learnt for certain, what would be certain anyway: a guess is right for some, and certain for nobody.
    """
    chance = _first(score, (_CERTAIN,))
    chance = chance_of(score) if chance is None else chance
    if chance is None and score.measure in _NO_BASELINE and score.detail.get("records"):
        return 1.0 / float(score.detail["records"])
    return chance


def _ranked(score: Score, note: str) -> RankedAttack:
    room = find(score.measure).__module__.split(".")[-2]
    chance, success = baseline_of(score), success_of(score)
    low, high = _interval(score, success)
    return RankedAttack(
        score.measure,
        _AIMS.get(room, "attack the release")
        + (" whose record is found" if score.measure in _RECORD_FOUND else "")
        + (" for certain" if _CERTAIN in score.detail else ""),
        success,
        chance,
        success if chance is None else _gain(success, chance),
        score.meaning,
        "warning" in score.detail,
        _first(score, _HIGHEST),
        low,
        high,
        note,
        *(_first(score, (name,)) for name in ("unprotected", "unprotected_chance")),
    )


def _interval(score: Score, success: float) -> tuple[float | None, float | None]:
    """Give the interval of a share: the measure's own, or Wilson's for as many people as it tried."""
    from discretion.risk.synthetic.records import wilson

    own = score.detail.get("interval")
    if isinstance(own, list | tuple) and len(own) == 2 and own[0] <= success <= own[1]:
        return float(own[0]), float(own[1])
    tried = _first(score, ("people_tested", "records", "values_compared"))
    if tried is None and score.per_record is not None:
        tried = float(len(score.per_record))
    if tried is None or tried < 1 or not 0 <= success <= 1:
        return None, None
    return wilson(success * int(tried), int(tried))


def standard_error(score: Score) -> float:
    """Give the standard error of a risk: of the people it tried, or between synthetic copies if that is more.

    Where guessing is what people outside the data suffer, their error counts too.
    """
    detail = score.detail
    known = (detail.get(name) for name in ("interval", "risk_interval", "auc_interval"))
    own = [one for one in known if isinstance(one, list | tuple) and one[0] <= score.value <= one[1]]
    low, high = own[0] if own else _interval(score, score.value)
    error = (float(high or 0.0) - float(low or 0.0)) / 3.92
    if "control_interval" in detail and detail.get("chance") == detail["control_rate"]:
        error = float(np.hypot(error, (detail["control_interval"][1] - detail["control_interval"][0]) / 3.92))
    copies = detail.get("copies", ())
    return max(error, float(np.std(copies, ddof=1)) if copies[1:] else 0.0)


def _first(score: Score, names: Iterable[str]) -> float | None:
    return next((float(value) for name in names if isinstance(value := score.detail.get(name), int | float)), None)


def _gain(success: float, chance: float) -> float:
    return 0.0 if chance >= 1 else max(0.0, (success - chance) / (1 - chance))


_COMPARED = "the comparison of releases"
AVERAGED = (
    "only with the releases that the plan names: records matched, classes intersected, perturbed numbers averaged, see "
    "the private report"
)


class AttackerKind(NamedTuple):
    """A kind of attacker: what he knows, by which measures he is played, and why some of them may not be run."""

    name: str
    knows: str
    measures: tuple[str, ...]
    otherwise: Mapping[str, str]
    """measures that belong to the card, with the usual reason why they are not run"""


_ATTACKERS = (
    AttackerKind(
        "prosecutor",
        "the quasi-identifiers of a person who is in the file",
        ("sample-uniqueness", "attacker-risk", "suda", "rare-values", "singling-out"),
        {"sample-uniqueness": "no quasi-identifier is known"},
    ),
    AttackerKind(
        "journalist",
        "a register of the population, but not who was sampled",
        ("individual-risk", "population-uniqueness", "log-linear-risk"),
        {
            "individual-risk": "needs published weights, or a sampling share",
            "population-uniqueness": "needs a population size or a sampling share; name it",
        },
    ),
    AttackerKind(
        "marketer",
        "a file with the original values of many people, to be linked as a whole",
        (
            "distance-linkage", "probabilistic-linkage", "assignment-linkage", "learned-linkage", "attacker-risk",
            "replicated-uniques", "linkability", "closest-record",
        ),
        {
            "distance-linkage": "no quasi-identifier is known, or rows cannot be matched",
            "learned-linkage": "takes long; name it",
            "assignment-linkage": "takes long; name it",
        },
    ),
    AttackerKind(
        "one who wants a secret",
        "a person's quasi-identifiers, and that the person is in the file",
        (
            "group-attack", "disco", "model-disclosure", "model-agreement", "inference-risk", "value-agreement",
            "interval-risk", "rank-interval", "sd-interval", "outlier-interval",
        ),
        {"group-attack": "no sensitive column is known", "model-disclosure": "no sensitive column is known"},
    ),
    AttackerKind(
        "neighbor",
        "all members of a household with their quasi-identifiers",
        ("household-uniqueness", "household-risk"),
        {"household-uniqueness": "no household number is published, or none is declared"},
    ),
    AttackerKind(
        "member",
        "the own record, and what others of the same group tell",
        ("group-attack", "membership-inference", "generator-membership"),
        {"membership-inference": "needs a holdout or models trained on the release; name it"},
    ),
    AttackerKind(
        "one who knows the method",
        "the methods and their parameters, not the random draws",
        ("distance-linkage", "probabilistic-linkage", "assignment-linkage", "interval-risk", "rank-interval"),
        {"an informed linkage": "no attack was told which methods made the release, or none exists for them"},
    ),
    AttackerKind(
        "one who knows the design",
        "which sampling weight belongs to which stratum or area, or to which person",
        ("weight-disclosure", "distance-linkage"),
        {"weight-disclosure": "no weight is published, or none is declared"},
    ),
    AttackerKind(
        "one who compares columns",
        "the true values of a few people, and what one published column tells about another",
        ("column-dependence", "identity-denoising"),
        {"column-dependence": "what columns tell about each other was not measured",
         "identity-denoising": "no sum of published numbers is declared, or holds"},
    ),
    AttackerKind(
        "one who knows the order",
        "how the rows of the original were sorted",
        ("row-order",),
        {"row-order": "what the order of rows tells was not measured"},
    ),
    AttackerKind(
        "reader of an earlier release",
        "another release of the same people",
        (),
        {_COMPARED: "no earlier release was named; any two of the same people add up"},
    ),
)  # fmt: skip


def attackers_by(measure: str) -> tuple[AttackerKind, ...]:
    """Give the kinds of attackers that are played by a measure."""
    return tuple(kind for kind in _ATTACKERS if measure in kind.measures)


NOT_IN_PLAN = "not among the measures of the plan"
_INFORMED = "one who knows the method"
_DESIGN = "one who knows the design"


@dataclass(frozen=True)
class AttackerCard:
    """One kind of attacker: what he knows, what he can do with which success, and what was not tried.

    `success` is the share of people for whom his best attack is expected to be right, `low` and `high` its 95% interval
    (of the people tried, not of other draws of the protection), `chance` what guessing reaches. All are None where
    nothing was tried, which says nothing about the risk. `doubtful`: the attack takes perturbed values as true.
    """

    attacker: str
    knows: str
    can: str
    measure: str | None
    success: float | None
    low: float | None
    high: float | None
    chance: float | None
    gain: float | None
    doubtful: bool
    tried: tuple[str, ...]
    not_tried: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Give the card as plain data."""
        return {**asdict(self), "tried": list(self.tried), "not_tried": dict(self.not_tried)}


def attacker_cards(
    scores: Iterable[Score],
    not_run: Mapping[str, str] | None = None,
    *,
    chosen: str = "",
    earlier: bool = False,
    unlinked: Sequence[str] = (),
) -> tuple[AttackerCard, ...]:
    """Give a card for each kind of attacker, from the scores of the attacks that were run.

    `not_run` has the reasons of measures that were to run and could not; where a measure that belongs to a card was
    not even chosen, the card says so too (with the reason `chosen`, where somebody chose the measures). `earlier`: the
    release was compared with earlier ones. `unlinked`: published columns that no linkage compared, see
    `attack_set.unlinked`; the marketer's card names them. Among the attacks of a card the one that gains most over
    guessing counts, an attack that takes perturbed values as true only where there is no other.
    """
    known = [score for score in scores if score.family == "risk" and is_share(score)]
    cards = [_card(kind, known, not_run or {}) for kind in _ATTACKERS]
    words = {name: chosen for kind in _ATTACKERS for name in kind.measures} if chosen else {}
    words |= {_COMPARED: AVERAGED} if earlier else {}
    left = [{name: words.get(name, why) for name, why in card.not_tried.items()} for card in cards]
    if unlinked:
        place = next(place for place, card in enumerate(cards) if card.attacker == "marketer")
        left[place][f"a linkage by {', '.join(unlinked)}"] = "published, and no linkage that was run compared it"
    return tuple(replace(card, not_tried=names) for card, names in zip(cards, left, strict=True))


def _card(kind: AttackerKind, scores: list[Score], not_run: Mapping[str, str]) -> AttackerCard:
    own = [score for score in scores if score.measure in kind.measures and _plays(kind, score)]
    ranked = rank_attacks(own)
    tried = tuple(dict.fromkeys(score.measure for score in own))
    failed = {name: why.removeprefix(f"{name}: ") for name, why in not_run.items()}
    lacking = {name: failed[name] for name in kind.measures if name in failed and kind.name != _INFORMED}
    lacking |= {name: why for name, why in kind.otherwise.items() if name not in lacking and name not in tried}
    if kind.name == _INFORMED and tried:
        lacking = {}
    if not ranked:
        empty = (None, None, None, None, None, None)
        return AttackerCard(kind.name, kind.knows, "not tried", *empty, False, tried, lacking)
    scratch = [one for one in ranked if one.measure not in _RECORD_FOUND and one.doubtful == ranked[0].doubtful]
    best = next((one for one in scratch if one.gain > 0), ranked[0])  # nobody gave him the record
    can = "nothing better than guessing was found" if best.gain <= 0 else best.aim
    figures = (best.measure, best.success, best.low, best.high, best.chance, best.gain)
    return AttackerCard(kind.name, kind.knows, can, *figures, best.doubtful, tried, lacking)


def _plays(kind: AttackerKind, score: Score) -> bool:
    """Tell whether a score is one of this attacker: insiders attack groups in coalition, some know the method."""
    if score.measure == "group-attack":
        return (kind.name == "member") == bool(score.detail.get("coalition"))
    if kind.name == _DESIGN and score.measure == "distance-linkage":
        return bool(score.detail.get("weights"))
    return kind.name != _INFORMED or score.detail.get("informed") is not None
