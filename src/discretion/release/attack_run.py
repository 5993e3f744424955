"""Run the measures of an assessment, several at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import dataclass, replace

from discretion.context import Context, Progress, ignore_progress
from discretion.data.dataset import Dataset
from discretion.errors import Cancelled, DataError, PlanError
from discretion.measure import Measure, Score, align
from discretion.release.ranking import baseline_of, success_of

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
    board = _Board(len(measures), progress)
    fitting = threading.Lock()

    def run(number: int) -> Score | NotRun:
        measure = measures[number]
        alone = fitting if "model" in type(measure).model_fields else nullcontext()
        with alone, board.running(number, measure.kind) as report:
            try:
                score = measure.run(original, released, Context(seed, measure.kind, report))
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
        before = measure.run(original, original, ctx)
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
