"""`dc.assess`: attack and measure a release that was made here or elsewhere."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from discretion.context import Context, Progress, ignore_progress
from discretion.data.dataset import Dataset
from discretion.display import figure, table
from discretion.errors import Cancelled, DataError, PlanError
from discretion.measure import Matched, Measure, Score, Scores, align, match_by, match_rows
from discretion.release.attack_set import attack_set, left_out, prepare_split, run_with_holdout, too_large, unlinked
from discretion.release.published import PublishedColumn, published_columns, together
from discretion.release.ranking import (
    AttackerCard,
    RankedAttack,
    attacker_cards,
    baseline_of,
    best_attack,
    chance_of,
    rank_attacks,
    success_of,
    why_no_baseline,
)
from discretion.release.tune_scales import take_measures
from discretion.risk.identity.intruder import knowing_method

# Run the measures of an assessment, several at a time.

_MOST_JOBS = 4
"""More at a time hardly help: one long attack remains, and each needs memory."""
_PARTS = 1000


@dataclass(frozen=True)
class NotRun:
    """A measure that nobody named and that the data does not allow, and why."""

    measure: str
    reason: str


def default_jobs() -> int:
    """Give the number of measures to run at a time: one for each processor core, four at most."""
    return min(_MOST_JOBS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def run_measures(
    measures: Sequence[Measure],
    original: Dataset,
    released: Dataset,
    *,
    jobs: int = 1,
    seed: int = 0,
    strict: bool = True,
    unprotected: bool = False,
    progress: Progress = ignore_progress,
) -> tuple[list[Score], list[NotRun]]:
    """Run measures, `jobs` at a time, and give their scores in the order of the measures.

    The figures do not depend on `jobs`: every measure draws from the seed and its own name, and sums are not divided
    among threads. Measures that fit models do so one at a time: what limits their threads holds for all. With `strict`
    the first measure that cannot run raises; otherwise its reason is given. `progress` is never called by two threads
    at once, and may raise to cancel: the measures that run stop at their next report. With `unprotected` every attack
    also attacks the original itself; the detail of its score has what it reaches there.
    """
    from threadpoolctl import threadpool_limits

    if jobs < 1:
        raise PlanError(f"jobs: expected a number of at least 1, got {jobs}")
    _prepare(measures, original, released)
    prepare_split(measures, original, released, Context(seed, "holdout", progress))
    board = _Board(len(measures), progress)
    fitting = threading.Lock()

    def run(number: int) -> Score | NotRun:
        measure = measures[number]
        alone = fitting if "model" in type(measure).model_fields else nullcontext()
        with alone, board.running(number, measure.kind) as report:
            try:
                score = run_with_holdout(measure, original, released, Context(seed, measure.kind, report))
                return (
                    _beside_original(score, measure, original, Context(seed, measure.kind, report))
                    if unprotected
                    else score
                )
            except (DataError, PlanError) as error:
                if strict:
                    raise
                return NotRun(measure.kind, str(error))

    with threadpool_limits(1):
        numbers = range(len(measures))
        found = [run(number) for number in numbers] if jobs == 1 else _together(run, len(measures), jobs, board)
    return [one for one in found if isinstance(one, Score)], [one for one in found if isinstance(one, NotRun)]


def _beside_original(score: Score, measure: Measure, original: Dataset, ctx: Context) -> Score:
    """Add what an attack reaches with the original itself; nothing where it cannot run there."""
    if measure.family != "risk" or not measure.on_original:
        return score
    try:
        before = run_with_holdout(measure, original, original, ctx)
    except (DataError, PlanError):
        return score
    reached = {"unprotected": success_of(before), "unprotected_chance": baseline_of(before)}
    return replace(score, detail={**score.detail, **reached})


def _prepare(measures: Sequence[Measure], original: Dataset, released: Dataset) -> None:
    """Compute once what several measures share: rows that belong together, numbers of categories, classes."""
    if len(measures) < 2:
        return
    try:
        before, after = align(original, released)
    except DataError:
        before, after = original, released
    quasi = [name for name in original.having("quasi") if name in after.columns]
    for data in (before, after):
        for name in quasi:
            data.codes(name)
    if quasi:
        after.classes(tuple(quasi))


def _together(run: Callable[[int], Score | NotRun], count: int, jobs: int, board: _Board) -> list[Score | NotRun]:
    with ThreadPoolExecutor(jobs) as pool:
        futures: list[Future[Score | NotRun]] = [pool.submit(copy_context().run, run, n) for n in range(count)]
        try:
            return [future.result() for future in futures]
        except BaseException:
            board.stop()
            for future in futures:
                future.cancel()
            raise


class _Board:
    """What runs, and how far it is; one report of progress for all."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._progress = progress
        self._total = total
        self._lock = threading.Lock()
        self._parts: dict[int, float] = {}
        self._labels: dict[int, str] = {}
        self._stopped = False

    def stop(self) -> None:
        """Let every measure end at its next report."""
        self._stopped = True

    def running(self, number: int, kind: str) -> _Running:
        """Report the beginning and the end of a measure, and give it a function for its own progress."""
        return _Running(self, number, kind)

    def tell(self, number: int, label: str | None, part: float) -> None:
        """Report how far a measure is; a label of None: it has ended."""
        with self._lock:
            if self._stopped:
                raise Cancelled("cancelled")
            self._parts[number] = part
            if label is None:
                self._labels.pop(number, None)
            else:
                self._labels[number] = label
            done = int(_PARTS * sum(self._parts.values()))
            try:
                self._progress(done, _PARTS * self._total, "measuring: " + ", ".join(self._labels.values()))
            except BaseException:
                self._stopped = True
                raise


class _Running:
    """One measure that runs."""

    def __init__(self, board: _Board, number: int, kind: str) -> None:
        self._board, self._number, self._kind = board, number, kind

    def __enter__(self) -> Progress:
        self._board.tell(self._number, self._kind, 0.0)
        return self._report

    def _report(self, done: int, total: int, label: str) -> None:  # noqa: ARG002
        self._board.tell(self._number, self._kind, min(done / max(total, 1), 0.99))

    def __exit__(self, failed: object, *rest: object) -> None:
        if failed is None:
            self._board.tell(self._number, None, 1.0)


def _tells_apart(data: Dataset, name: str) -> bool:
    """Tell whether a column has several values; one for everybody tells nothing, whatever it stands for."""
    codes = data.codes(name)
    return sum(value is not None for value in codes.values) > 1


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
            for measure, named in left_out(self.scores).items()
            if (columns := [name for name in named if _tells_apart(self.released, name)])
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
        None if asked else no_attack(before, scores),
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


def no_attack(original: Dataset, scores: Sequence[Score]) -> str | None:
    """Say why no attack ran; None where one did."""
    if any(score.family == "risk" for score in scores):
        return None
    if original.having("quasi", "sensitive"):
        return "no attack ran: see under `not run` why"
    return "no attack ran: no quasi-identifier or sensitive column is known; give the original roles (quasi, sensitive)"
