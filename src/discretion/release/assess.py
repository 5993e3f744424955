"""`dc.assess`: attack and measure a release that was made here or elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from discretion.context import Progress, ignore_progress
from discretion.data.dataset import Dataset
from discretion.display import figure, table
from discretion.errors import DataError, PlanError
from discretion.measure import Matched, Score, Scores, match_by, match_rows
from discretion.release.attack_run import NotRun, default_jobs, run_measures
from discretion.release.attack_set import attack_set, left_out, too_large, unlinked
from discretion.release.published import PublishedColumn, published_columns, together
from discretion.release.ranking import (
    AttackerCard,
    RankedAttack,
    attacker_cards,
    best_attack,
    chance_of,
    rank_attacks,
    why_no_baseline,
)
from discretion.release.tune_scales import take_measures
from discretion.risk.identity.intruder import knowing_method

_SHOWN = 3
"""Attacks that the text of an assessment tells."""


@dataclass(frozen=True, repr=False)
class Assessment:
    """What attacks and measures say of a release: for the owner, not for publication."""

    scores: Scores
    not_run: tuple[NotRun, ...]
    """measures that nobody asked for and that cannot run, with the reason: not a risk of zero"""
    left_to_ask: tuple[NotRun, ...]
    """attacks that take long on data of this size and run only when they are asked for"""
    no_attack: str | None
    """why no attack ran, so that figures of utility alone are not taken for safety"""
    released: Dataset
    earlier: bool = False
    """whether the plan names an earlier release of the same people"""

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
        left = unlinked(self.released, self.scores)
        return attacker_cards(self.scores, self._reasons, earlier=self.earlier, unlinked=left)

    @cached_property
    def columns(self) -> tuple[PublishedColumn, ...]:
        """Every published column, whatever its role: what it looks like and gives away."""
        return published_columns(self.released, self.scores)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What the figures do not say: columns that were not compared, attacks without a baseline or not run."""
        bare = {score.measure: reason for score in self.scores if (reason := why_no_baseline(score))}
        found = [
            f"{measure} did not compare {', '.join(columns)}: the published values have nothing in common with the "
            "original's. If the column was generalized, give its hierarchy; the figure understates the risk."
            for measure, columns in left_out(self.scores).items()
        ]
        found += [f"{measure} has no baseline: {reason}." for measure, reason in bare.items()]
        found += [f"{one.measure} was not run: {one.reason}; ask for it in `measures`." for one in self.left_to_ask]
        return tuple(text for text in (*found, together(self.released)) if text)

    @property
    def _reasons(self) -> dict[str, str]:
        return {one.measure: one.reason for one in (*self.left_to_ask, *self.not_run)}

    def __getitem__(self, measure: str) -> Score:
        """Give the first score of a measure, by its kind."""
        for score in self.scores:
            if score.measure == measure:
                return score
        raise KeyError(f"{measure!r} was not run; there are {', '.join(score.measure for score in self.scores)}")

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain data: what `discretion assess --json` writes."""
        return {
            "scores": [score.to_dict() for score in self.scores],
            "not_run": [{"measure": one.measure, "reason": one.reason} for one in self.not_run],
            "no_attack": self.no_attack,
            "notes": list(self.notes),
            "attackers": [card.to_dict() for card in self.attackers],
            "columns": [column.to_dict() for column in self.columns],
            "ranked": [attack.to_dict() for attack in self.ranked],
            "best_attack": self.best_attack,
        }

    def __repr__(self) -> str:
        found = [self.no_attack[:1].upper() + self.no_attack[1:] + "." if self.no_attack else self.best_attack]
        found += [
            f"{attack.measure}{f' ({attack.note})' if attack.note else ''}: {attack.meaning}"
            for attack in self.ranked[:_SHOWN]
            if attack.gain > 0
        ]
        left = len(self.scores) - len(found) + 1
        more = f"{left} more in `scores`; " if left > 0 else ""
        return "\n  ".join(["Assessment (for the owner, not for publication)", *found, f"{more}all as data: to_dict()"])

    def _repr_html_(self) -> str:
        rows: list[tuple[str, ...]] = []
        for score in self.scores:
            chance = chance_of(score)
            guessing = "" if chance is None else figure(chance)
            rows.append((score.family, score.measure, figure(score.value), guessing, score.meaning))
        rows += [("", one.measure, "not run", "", one.reason) for one in (*self.not_run, *self.left_to_ask)]
        return table("Assessment", ("", "measure", "value", "guessing", "meaning"), rows, self.best_attack)


def assess(
    original: Any,
    released: Any,
    *,
    measures: Sequence[Any] = (),
    id_column: str | None = None,
    align: Literal["auto", "position", "none"] = "auto",
    unprotected: bool = False,
    earlier: bool = False,
    jobs: int | None = None,
    seed: int = 0,
    progress: Progress = ignore_progress,
) -> Assessment:
    """Attack a release and measure what is left of it; the command `discretion assess` calls this.

    Without `measures`, every attack that roles, types and the matching of rows allow; one of these that cannot run is
    named in `not_run` with the reason, one that takes long on data of this size in `left_to_ask`. A measure that was
    asked for and cannot run raises. Rows are matched by their hidden ids, by `id_column`, or as `match_rows` finds;
    with `align="position"` they stand in the same order, with `align="none"` they are not the same people, as in
    synthetic data. As many rows as in the original that nothing matches are an error. With `unprotected` every attack
    attacks the original itself too, so that a page can show both. `earlier`: the plan of the release names an earlier
    one of the same people, and the card of its reader says what was done about it. The worst case is assumed of the
    attacker: the original values are known for everybody, and so is the method (or it is found out), unless a measure
    says otherwise.

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
    after = _matched(before, Dataset.of(released), id_column, align)
    asked = [knowing_method(measure, True) for measure in take_measures(list(measures), "risk")] if measures else []
    chosen = asked or attack_set(before, after)
    if not chosen:
        raise PlanError("nothing to measure: give the original roles (quasi, sensitive), or `measures`")
    scores, failed = run_measures(
        list(chosen),
        before,
        after,
        jobs=jobs or default_jobs(),
        seed=seed,
        strict=bool(asked),
        unprotected=unprotected,
        progress=progress,
    )
    left = {} if asked else too_large(before, after)
    return Assessment(
        Scores(scores),
        tuple(failed),
        tuple(NotRun(kind, f"takes long ({why})") for kind, why in left.items()),
        None if asked else _no_attack(before, scores),
        after,
        earlier,
    )


def _matched(before: Dataset, after: Dataset, id_column: str | None, align: str) -> Dataset:
    """Give a release the roles of the original, and the row ids where they can be found."""
    if after.origin is before.origin or (align == "none" and after.schema.columns):
        return after
    data = Dataset(after.frame, schema=before.schema.only(after.columns))
    if align == "none":
        return data
    if id_column is not None:
        return match_by(before, data, id_column)
    same = len(data) == len(before)
    if align == "position":
        if not same:
            raise DataError(f"align='position': the original has {len(before)} rows and the release {len(data)}")
        return Matched(np.arange(len(data)), "position").give(before, data)
    try:
        return match_rows(before, data, "assess").give(before, data)
    except DataError as error:
        if same:
            raise DataError(f"{error}; if they are not the same people, as in synthetic data: align='none'") from None
        return data


def _no_attack(original: Dataset, scores: Sequence[Score]) -> str | None:
    if any(score.family == "risk" for score in scores):
        return None
    if original.having("quasi", "sensitive"):
        return "no attack ran: see under `not run` why"
    return "no attack ran: no quasi-identifier or sensitive column is known; give the original roles (quasi, sensitive)"
