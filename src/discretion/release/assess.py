"""`dc.assess`: attack and measure a release that was made here or elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from discretion.context import Progress, ignore_progress
from discretion.data.dataset import Dataset
from discretion.display import figure, table
from discretion.errors import PlanError
from discretion.measure import Score, Scores
from discretion.release.attack_run import NotRun, default_jobs, run_measures
from discretion.release.attack_set import attack_set
from discretion.release.compare import match
from discretion.release.ranking import AttackerCard, RankedAttack, attacker_cards, best_attack, chance_of, rank_attacks
from discretion.release.tune_scales import take_measures
from discretion.risk.identity.intruder import knowing_method


@dataclass(frozen=True)
class Assessment:
    """What attacks and measures say of a release: for the owner, not for publication."""

    scores: Scores = field(repr=False)
    not_run: tuple[NotRun, ...]
    """measures that nobody asked for and that cannot run, with the reason: not a risk of zero"""

    @property
    def ranked(self) -> tuple[RankedAttack, ...]:
        """The attacks, from what gains most over guessing to what gains least."""
        return rank_attacks(self.scores)

    @property
    def best_attack(self) -> str:
        """What an attacker can do best of what was run, and what was not run."""
        return best_attack(self.ranked, self._reasons)

    @property
    def attackers(self) -> tuple[AttackerCard, ...]:
        """A card for each kind of attacker: what he knows and can do, and what was not tried."""
        return attacker_cards(self.scores, self._reasons)

    @property
    def _reasons(self) -> dict[str, str]:
        return {one.measure: one.reason for one in self.not_run}

    def __getitem__(self, measure: str) -> Score:
        """Give the first score of a measure, by its kind."""
        for score in self.scores:
            if score.measure == measure:
                return score
        raise KeyError(f"{measure!r} was not run; there are {', '.join(score.measure for score in self.scores)}")

    def to_dict(self) -> dict[str, Any]:
        """Give scores, ranking and what did not run as plain data."""
        return {
            "scores": [score.to_dict() for score in self.scores],
            "not_run": [{"measure": one.measure, "reason": one.reason} for one in self.not_run],
            "ranked": [attack.to_dict() for attack in self.ranked],
            "attackers": [card.to_dict() for card in self.attackers],
            "best_attack": self.best_attack,
        }

    def _repr_html_(self) -> str:
        rows: list[tuple[str, ...]] = []
        for score in self.scores:
            chance = chance_of(score)
            guessing = "" if chance is None else figure(chance)
            rows.append((score.family, score.measure, figure(score.value), guessing, score.meaning))
        rows += [("", one.measure, "not run", "", one.reason) for one in self.not_run]
        return table("Assessment", ("", "measure", "value", "guessing", "meaning"), rows, self.best_attack)


def assess(
    original: Any,
    released: Any,
    *,
    measures: Sequence[Any] = (),
    id_column: str | None = None,
    jobs: int | None = None,
    seed: int = 0,
    progress: Progress = ignore_progress,
) -> Assessment:
    """Attack a release and measure what is left of it, by the same attacks as the command `discretion assess`.

    Without `measures`, every attack that roles, types and the matching of rows allow; one of these that cannot run is
    named in `not_run` with the reason. A measure that was asked for and cannot run raises. Rows are matched by their
    hidden ids, by `id_column`, or as `match_rows` finds. The worst case is assumed of the attacker: the original values
    are known for everybody, and so is the method (or it is found out), unless a measure says otherwise.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(200, seed=1)
    >>> released = dc.RankSwap(columns=["income"], percent=10)(people, seed=1)
    >>> found = dc.assess(people, released, measures=[dc.DistanceLinkage(columns=["age", "income"])])
    >>> [score.measure for score in found.scores]
    ['distance-linkage']
    """
    before = Dataset.of(original)
    after = match(before, Dataset.of(released), id_column)
    asked = [knowing_method(measure, True) for measure in take_measures(list(measures), "risk")] if measures else []
    chosen = asked or attack_set(before, after)
    if not chosen:
        raise PlanError("nothing to measure: give the original roles (quasi, sensitive), or `measures`")
    scores, failed = run_measures(
        list(chosen), before, after, jobs=jobs or default_jobs(), seed=seed, strict=bool(measures), progress=progress
    )
    return Assessment(Scores(scores), tuple(failed))
