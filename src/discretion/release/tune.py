"""The balance of risk and utility: try methods and parameters, and find what is best under a limit (U13)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context, Progress, ignore_progress, new_seed
from discretion.data.dataset import Dataset
from discretion.errors import DataError, Infeasible, PlanError, unknown
from discretion.measure import Measure
from discretion.method import Method
from discretion.part import Family
from discretion.release.attack_set import needs_split, run_with_holdout
from discretion.release.gate import Finding, judge
from discretion.release.plan import Change, Plan, Requirement, map_paths
from discretion.release.study import Study
from discretion.release.tune_result import Failed, Point, TuneResult, possible_front
from discretion.release.tune_scales import (
    Figure,
    FigureCache,
    Scale,
    data_digest,
    default_risk,
    default_utility,
    figure_of,
    release_key,
    rows_digest,
    screened,
    take_measures,
    touched,
)
from discretion.release.tune_space import (
    ALL_ROWS,
    DRAWS,
    RUNS,
    SAMPLE,
    Place,
    Setting,
    check_numbers,
    settings_of,
    tolerance_bound,
)
from discretion.risk.identity.intruder import knowing_method

# In which order settings are tried when time is short, and which are worth repeating on all rows.

_ERRORS = 2.0
"""Standard errors by which a figure of a sample may be too bad."""


@dataclass(frozen=True)
class Screening:
    """The figures of a first trial (one run each, some people or rows), and which settings are worth repeating.

    A sample of rows misjudges: figures vary from run to run, and a risk depends on the number of rows, more for some
    methods than for others. So the first round takes what may lie on the front given the errors, and of every method
    at least the setting nearest to it; each further round takes what the figures on all rows do not rule out, if the
    settings that were not repeated gained as much as those that were.
    """

    points: Mapping[int, Point]
    utility: Scale
    max_risk: float | None = None
    min_utility: float | None = None

    def first(self) -> list[int]:
        """Name the settings of the first round, those nearest to the limit first (for a time budget)."""
        numbers = list(self.points)
        found = [self.points[number] for number in numbers]
        costs = [self.utility.cost(point.utility) for point in found]
        errors = [[_error(point, name) for point in found] for name in ("risk", "utility")]
        on_front = possible_front([point.risk for point in found], costs, errors[0], errors[1])
        chosen = [numbers[place] for place in on_front]
        return self._with_probes(chosen)

    def near(self, repeated: Collection[int]) -> list[int]:
        """Name the settings to run again: what may lie on the front if it varies as others of its method do.

        At first nothing is known of that: those on the front, and of every method at least the nearest to it.
        """
        numbers = list(self.points)
        found = [self.points[number] for number in numbers]
        costs = [self.utility.cost(point.utility) for point in found]
        errors = [[self._spread(number, name, repeated) for number in numbers] for name in ("risk", "utility")]
        on_front = [numbers[place] for place in possible_front([p.risk for p in found], costs, errors[0], errors[1])]
        return [number for number in (on_front if repeated else self._with_probes(on_front)) if number not in repeated]

    def _spread(self, number: int, name: str, repeated: Collection[int]) -> float:
        """Give the error of a figure; of one run, with the largest spread of its method's settings that were repeated.

        The people drawn are the same for all settings: which of two is riskier does not hang on who they are.
        """
        point = self.points[number]
        if number in repeated:
            return float(getattr(point, f"{name}_spread")) / math.sqrt(point.runs)
        known = [self.points[one] for one in repeated]
        alike = [one for one in known if one.setting.entry == point.setting.entry] or known
        return max((float(getattr(one, f"{name}_spread")) for one in alike), default=0.0)

    def _with_probes(self, chosen: list[int]) -> list[int]:
        """Add of every method without any the setting nearest to the front; those nearest to the limit first."""
        found = self.points.values()
        missed = {point.setting.entry for point in found} - {self.points[number].setting.entry for number in chosen}
        return [*sorted(chosen, key=self._distance), *(self._nearest(entry) for entry in sorted(missed))]

    def further(self, sure: Mapping[int, Point], left: Collection[int]) -> list[int]:
        """Name the settings of `left` that the confirmed ones do not rule out, if they gained as much by all rows."""
        both = [number for number in sure if number in self.points]
        found: list[int] = []
        for number in left if both else ():
            point = self.points[number]
            own = [other for other in both if self.points[other].setting.entry == point.setting.entry] or both
            ratio = min(_ratio(sure[other].risk, self.points[other].risk) for other in own)
            risk = (point.risk - _ERRORS * _error(point, "risk")) * ratio
            cost = self._least_cost(point, [(sure[other], self.points[other]) for other in own])
            if not any(self._rules_out(other, risk, cost) for other in sure.values()):
                found.append(number)
        return sorted(found, key=self._distance)

    def _least_cost(self, point: Point, pairs: Sequence[tuple[Point, Point]]) -> float:
        """Give the cost of a point if it fell as much as that of a confirmed one, by difference or by ratio."""
        cost = self.utility.cost
        own = cost(point.utility) - _ERRORS * _error(point, "utility")
        least = own - max(cost(before.utility) - cost(after.utility) for after, before in pairs)
        if (ideal := self.utility.ideal) is None:
            return least
        zero = cost(ideal)
        ratio = min(_ratio(cost(after.utility) - zero, cost(before.utility) - zero) for after, before in pairs)
        return min(least, zero + max(own - zero, 0.0) * ratio)

    def _rules_out(self, sure: Point, risk: float, cost: float) -> bool:
        """Tell whether a confirmed point is better than another would be at best, also for the limit."""
        own = self.utility.cost(sure.utility)
        if not (sure.risk <= risk and own <= cost and (sure.risk < risk or own < cost)):
            return False
        if self.max_risk is not None and risk <= self.max_risk < sure.worst_risk:
            return False
        worst = self.utility.cost(sure.worst_utility)
        return self.min_utility is None or not cost <= self.utility.cost(self.min_utility) < worst

    def _nearest(self, entry: int) -> int:
        """Give the setting of a method that others dominate by the least share of the ranges."""
        risks = [point.risk for point in self.points.values()]
        costs = [self.utility.cost(point.utility) for point in self.points.values()]
        wide, high = (max(max(values) - min(values), 1e-300) for values in (risks, costs))

        def behind(number: int) -> float:
            point = self.points[number]
            cost = self.utility.cost(point.utility)
            return max(
                min((point.risk - x) / wide, (cost - y) / high) for x, y in zip(risks, costs, strict=True)
            )  # fmt: skip

        return min((n for n, point in self.points.items() if point.setting.entry == entry), key=behind)

    def _distance(self, number: int) -> float:
        point = self.points[number]
        if self.max_risk is not None:
            return abs(point.risk - self.max_risk)
        return 0.0 if self.min_utility is None else abs(point.utility - self.min_utility)


def _error(point: Point, name: str) -> float:
    """Give the standard error of a mean over the runs, of a risk with that of the people drawn."""
    of_runs = float(getattr(point, f"{name}_spread")) / math.sqrt(point.runs)
    ends = point.risk_interval if name == "risk" else None
    return of_runs if ends is None else math.hypot(of_runs, (ends[1] - ends[0]) / 4)


def _ratio(on_all: float, on_sample: float) -> float:
    """Give how a figure fell from the sample to all rows, at most 1; one below 0 cannot be scaled and stays."""
    return min(on_all / on_sample, 1.0) if on_sample > 0 and on_all >= 0 else 1.0


def coarse_first(settings: Sequence[Setting]) -> list[int]:
    """Order the settings such that every beginning covers each grid evenly: ends first, then halves of the gaps."""
    groups: dict[int, list[int]] = {}
    for number, setting in enumerate(settings):
        groups.setdefault(setting.entry, []).append(number)
    spread = [[group[place] for place in halving(len(group))] for group in groups.values()]
    longest = max(len(group) for group in spread)
    return [group[place] for place in range(longest) for group in spread if place < len(group)]


def halving(size: int) -> list[int]:
    """Give 0 … size − 1 in the order last, first, middle, then the middles of what lies between."""
    order = [size - 1, 0] if size > 1 else [0]
    gaps = [(0, size - 1)]
    while gaps:
        low, high = gaps.pop(0)
        if high - low > 1:
            middle = (low + high) // 2
            order.append(middle)
            gaps += [(low, middle), (middle, high)]
    return order


clock: Callable[[], float] = time.monotonic
_SCREENING = 0.6
"""Share of a time budget for trying settings on a sample; the rest is for all rows."""
_KEEPS_VALUES = ("drop-identifiers", "pseudonymize", "sample", "suppress-records")
"""Methods that change no value of a record that stays."""
_WORTH_SAMPLING = 1.5
"""A sample is drawn from data that is larger than it by this factor."""


def tune(
    dataset: Any,
    methods: Sequence[Any],
    *,
    risk: Any = None,
    utility: Any = None,
    max_risk: float | None = None,
    min_utility: float | None = None,
    before: Sequence[Any] = (),
    runs: int = RUNS,
    sample: int | Literal["auto"] | None = "auto",
    seconds: float | None = None,
    seed: int | None = None,
    cache: str | Path | None = None,
    progress: Progress = ignore_progress,
    requirements: Sequence[Requirement] = (),
    draws: int = DRAWS,
    knows_method: bool = True,
    watch: Callable[[TuneResult], None] | None = None,
) -> TuneResult:
    """Try methods with their grids of parameters; give the risk–utility map and the best setting under a limit.

    `methods` are methods, pipelines (lists of steps), or either with grids: `dc.Vary(dc.RankSwap, columns=["income"],
    percent=dc.Grid([1, 5, 10]))`, or as a plan writes it. `before` are steps that come first in all of them.

    `risk` and `utility` are one measure or several. One keeps its own figure and direction. Several risks give the
    largest gain over guessing, (s − c)/(1 − c); attacks that take perturbed values as true do not count. Several
    utilities give one minus the mean loss, each between 0 and 1. `max_risk` asks for the best utility with at most
    that risk, `min_utility` for the least risk with at least that utility (for a measure where lower is better: at most
    that figure). Attacks count with the larger figure of an intruder who knows the method and one who does not, unless
    `knows_method` is false. Every run must keep the limit. What would be best is drawn `draws` times anew on all rows:
    with 95 % confidence at least 95 % of fresh draws must keep the limit (normal tolerance bound) and the plan's
    `requirements` (a bound in the same way, a model in every draw); if not, it is marked and the next best is tried.

    Each setting runs `runs` times (fewer where it draws nothing). Data of 5,000 rows or more is screened: every setting
    runs once, linkage looks for 1,000 people drawn at random (among all rows), and what may lie on the front runs
    `runs` times; `risk_interval` says how far such a risk is known. What would be best is attacked in full, by looking
    for everybody, and only that counts as `best`. Where methods or measures take long, or beyond 50,000 rows, settings
    are tried on `sample` rows first (5,000 by themselves; whole households where the data has them): what may lie on
    the front is repeated on all rows, then what those figures do not rule out, and only that counts as `front`. Fewer
    rows make people easier to find, by some methods more than by others: such risks are no estimates. `sample=None`
    does everything in full. `seconds` bounds the time: settings are then tried coarsely first, and
    the result names those left out. The same `seed` gives the same result if no `seconds` are given. Figures are kept
    with the data, and in the folder `cache` (private): a repeated or cancelled call goes on where the last one stopped.
    `watch` is called with the map so far whenever a setting was tried.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(600, seed=1)
    >>> swaps = dc.Vary(dc.RankSwap, columns=["savings"], percent=dc.Grid([2, 10, 50]))
    >>> found = dc.tune(people, [swaps], risk=dc.RankInterval(columns=["savings"], percent=5),
    ...                 utility=dc.VariableChange(columns=["savings"]), max_risk=0.6, seed=1)
    >>> found.best.label
    'rank-swap (percent=10)'
    """
    data = Dataset.of(dataset, "tuning")
    settings = settings_of(methods)
    first = _fixed_steps(before)
    check_numbers(max_risk=max_risk, min_utility=min_utility, seconds=seconds, runs=runs, sample=sample, draws=draws)
    figures = _figures(data, settings, risk, utility, knows_method)
    work = _Work(data, first, *figures, new_seed() if seed is None else seed, runs, progress)
    work.requirements, work.draws, work.knows_method = tuple(requirements), draws, knows_method
    work.watch, work.limits = watch, (max_risk, min_utility)
    work.cache = FigureCache(data.cached(("tune",), dict), cache)
    work.in_full = sample is None
    rows = _rows_to_try(work, settings) if sample == "auto" else sample
    return _explore(work, settings, rows, seconds, max_risk, min_utility)


def _rows_to_try(work: _Work, settings: Sequence[Setting]) -> int | None:
    """Give on how many rows to try settings: all where the data is not large, and nothing done with it takes long."""
    methods = (*work.before, *(method for setting in settings for method in setting.methods))
    quick = all(method.scale != "memory" for method in methods)
    quick &= all(measure.screens_with is not None for measure in work.measures)
    return None if quick and len(work.data) <= ALL_ROWS else SAMPLE


def _figures(data: Dataset, settings: Sequence[Setting], risk: Any, utility: Any, known: bool) -> tuple[Scale, Scale]:
    """Take the measures of risk and utility, or choose them; the intruder may be said not to know the method."""
    risks = take_measures(risk, "risk") if risk is not None else default_risk(data, settings)
    gains = take_measures(utility, "utility") if utility is not None else default_utility(data, settings)
    blind = risks if known else tuple(knowing_method(measure, False) for measure in risks)
    return Scale(blind, "risk"), Scale(gains, "utility")


def _fixed_steps(given: Sequence[Any]) -> tuple[Method, ...]:
    if not given:
        return ()
    settings = settings_of([list(given)])
    if len(settings) > 1:
        raise PlanError("before: these steps are the same for all settings; put grids under `methods`")
    return settings[0].methods


@dataclass
class _Rows:
    """The rows that a round works on: all, or a sample."""

    data: Dataset
    digest: str
    studies: dict[int, Study] = field(default_factory=dict)
    """for each seed the last pipeline, so that the next one goes on where they part"""


@dataclass
class _Work:
    """What all settings share."""

    data: Dataset
    before: tuple[Method, ...]
    risk: Scale
    utility: Scale
    seed: int
    runs: int
    progress: Progress
    cache: FigureCache = field(default_factory=lambda: FigureCache({}))
    requirements: tuple[Requirement, ...] = ()
    draws: int = DRAWS
    knows_method: bool = True
    watch: Callable[[TuneResult], None] | None = None
    limits: tuple[float | None, float | None] = (None, None)
    in_full: bool = False
    """whether nothing is tried on some of the people first"""

    def __post_init__(self) -> None:
        self.measures = (*self.risk.measures, *self.utility.measures)
        self.seeds = tuple(self._run_seed(number) for number in range(self.runs))
        self.digest = data_digest(self.data)
        self.done, self.total, self.label = 0, 1, ""

    def _run_seed(self, number: int) -> int:
        draws = Context(self.seed, f"tune/run-{number}").rng.integers(0, 2**32, 4)
        return sum(int(draw) << 32 * place for place, draw in enumerate(draws))

    def sampled(self, size: int | None) -> _Rows:
        """Draw the rows for trying: whole households where the data has them."""
        if size is None or len(self.data) < size * _WORTH_SAMPLING:
            return self.all_rows()
        rng = Context(self.seed, "tune/sample").rng
        homes = self.data.having("household")
        codes = self.data.classes(homes).ids if homes else np.arange(len(self.data))
        order = np.argsort(rng.permutation(int(codes.max()) + 1)[codes], kind="stable")
        rows: NDArray[np.int64] = np.sort(order[:size]) if not homes else _whole(codes, order, size)
        return _Rows(self.data.take(rows), rows_digest(rows))

    def all_rows(self) -> _Rows:
        """Give all rows."""
        return _Rows(self.data, rows_digest(None))

    def tick(self, *_: object) -> None:
        """Pass on the progress of the whole; a cancelled run stops inside a step."""
        self.progress(self.done, self.total, self.label)

    def tried_with(self, rows: _Rows) -> tuple[Measure, ...]:
        """Give the measures as settings are tried with them: some look for a sample of the people."""
        return tuple(one if self.in_full else screened(one, len(rows.data)) for one in self.measures)

    def evaluate(
        self, setting: Setting, rows: _Rows, runs: int | None = None, *, in_full: bool = False
    ) -> Point | Failed:
        """Run a setting several times; where two runs give the same figures (nothing is drawn), that is enough.

        `in_full`: everybody is looked for.
        """
        steps, self.label = (*self.before, *setting.methods), setting.label
        found: list[list[Figure]] = []
        measures = self.measures if in_full else self.tried_with(rows)
        try:
            for seed in self.seeds[:runs]:
                self.tick()
                figures = self._run(steps, rows, seed, measures)
                if found and figures == found[-1]:
                    break
                found.append(figures)
        except (DataError, Infeasible) as error:
            return Failed(setting, str(error))
        finally:
            self.done += 1
        return self._point(setting, found, rows)

    def _run(self, steps: tuple[Method, ...], rows: _Rows, seed: int, measures: tuple[Measure, ...]) -> list[Figure]:
        """Give the figures of one run; the release is made only if one of them is not known."""
        key = release_key(self.digest, rows.digest, steps, seed)
        known = [self.cache.find(key, measure) for measure in measures]
        if all(figure is not None for figure in known):
            return [figure for figure in known if figure is not None]
        released = self._release(steps, rows, seed)
        original = rows.data if steps else released  # without its identifiers
        figures = [
            self._measure(measure, original, released, seed) if figure is None else figure
            for measure, figure in zip(measures, known, strict=True)
        ]
        self.cache.keep(key, list(zip(measures, figures, strict=True)))
        return figures

    def _release(self, steps: tuple[Method, ...], rows: _Rows, seed: int) -> Dataset:
        """Carry out the steps, from where they part from the pipeline before."""
        study = rows.studies.get(seed) or Study(rows.data, seed, progress=self.tick)
        alike = 0
        while alike < min(len(study.done), len(steps)) and study.steps[alike] is steps[alike]:
            alike += 1
        study = study.undo(len(study.done) - alike) if len(study.done) > alike else study
        for method in steps[alike:]:
            study = study.apply(method)
        rows.studies[seed] = study
        left = study.current.having("identifier")
        return study.current.drop(left) if left else study.current

    def draw_anew(self, point: Point, limit: Callable[[float, float], bool]) -> Point:
        """Draw a setting several times on all rows with new seeds; stop at the first draw that is not allowed.

        `limit` tells whether a risk and a utility are within the limit.
        """
        steps, self.label = (*self.before, *point.setting.methods), f"drawing anew: {point.label}"
        cut, found = len(self.risk.measures), _Draws(self.requirements)
        for number in range(self.draws):
            self.tick()
            rows = self.all_rows()  # not kept: one release at a time
            seed = self._run_seed(self.runs + number)
            figures = self._run(steps, rows, seed, self.measures)
            risk, gain = self.risk.value(figures[:cut]), self.utility.value(figures[cut:])
            found.add(risk, gain, self._judged(steps, rows, seed))
            if not limit(risk, gain) or found.unmet or found.is_fixed:
                break
        return replace(
            point,
            draws=len(found.risks),
            risk_bound=tolerance_bound(found.risks),
            utility_bound=-tolerance_bound([-v for v in found.gains])
            if self.utility.better == "higher"
            else tolerance_bound(found.gains),
            unmet=found.broken(),
        )

    def _judged(self, steps: tuple[Method, ...], rows: _Rows, seed: int) -> list[Finding]:
        if not self.requirements:
            return []
        released = self._release(steps, rows, seed)
        ctx = Context(self.seed, "", self.tick)
        return [judge(one, self.data, released, ctx, knows_method=self.knows_method) for one in self.requirements]

    def _measure(self, measure: Measure, original: Dataset, released: Dataset, seed: int) -> Figure:
        """Measure a release; whom attacks draw is the same in every run, but not the people who are put aside."""
        split = needs_split(measure, original, released)
        ctx = Context(seed if split else self.seed, f"measure/{measure.kind}", self.tick)
        score = run_with_holdout(measure, original, released, ctx)
        return figure_of(score, sampled=measure not in self.measures)

    def _point(self, setting: Setting, found: list[list[Figure]], rows: _Rows) -> Point:
        cut = len(self.risk.measures)
        risks = [self.risk.value(figures[:cut]) for figures in found]
        gains = [self.utility.value(figures[cut:]) for figures in found]
        means = [fmean(figures[place].value for figures in found) for place in range(len(self.measures))]
        names = _names([measure.kind for measure in self.measures])
        ends = [[self.risk.value([one.at(end) for one in figures[:cut]]) for figures in found] for end in (0, 1)]
        drawn = any(one.interval is not None for figures in found for one in figures[:cut])
        return Point(
            setting=setting,
            risk=fmean(risks),
            utility=fmean(gains),
            risk_spread=_spread(risks),
            utility_spread=_spread(gains),
            worst_risk=max(risks),
            worst_utility=max(gains, key=self.utility.cost),
            runs=len(found),
            rows=len(rows.data),
            confirmed=rows.data is self.data,
            leading=self.risk.leading(found[0][:cut]),
            measured=dict(zip(names, means, strict=True)),
            risk_interval=(fmean(ends[0]), fmean(ends[1])) if drawn else None,
        )

    def original_risk(self) -> float | None:
        """Give the risk of the original, identifiers aside; None where an attack cannot run on it."""
        try:
            return self.risk.value(self._run((), self.all_rows(), self.seed, self.risk.measures))
        except DataError:
            return None


def _whole(codes: NDArray[np.int64], order: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Complete the last household of a sample."""
    return np.flatnonzero(np.isin(codes, codes[order[:size]]))


def _spread(values: list[float]) -> float:
    """Give the standard deviation over the runs; rounding alone is no spread."""
    alike = max(values) - min(values) <= 1e-12 * max(map(abs, values))
    return 0.0 if alike else stdev(values)


def _names(kinds: list[str]) -> list[str]:
    """Number the kinds that stand several times."""
    return [
        kind if kinds.count(kind) == 1 else f"{kind} {kinds[:place].count(kind) + 1}"
        for place, kind in enumerate(kinds)
    ]


def _explore(
    work: _Work,
    settings: tuple[Setting, ...],
    sample: int | None,
    seconds: float | None,
    max_risk: float | None,
    min_utility: float | None,
) -> TuneResult:
    """Try the settings, then repeat what may lie on the front on all rows."""
    start = clock()
    rows = work.sampled(sample)
    sampled = rows.data is not work.data
    work.total = len(settings) * (2 if sampled else 1)
    points: dict[int, Point] = {}
    failed: list[Failed] = []
    end = math.inf if seconds is None else start + seconds * (_SCREENING if sampled else 1.0)
    order = list(range(len(settings))) if seconds is None else coarse_first(settings)
    screens = sampled or work.tried_with(rows) != work.measures
    left = _each(work, settings, order, rows, end, points, failed, runs=1 if screens else None)
    if screens:
        left += _repeat(work, settings, rows, end, points, failed)
    unsure: list[int] = []
    if sampled and points:
        end = math.inf if seconds is None else start + seconds
        unsure = _confirm(
            work, settings, Screening(dict(points), work.utility, max_risk, min_utility), end, points, failed
        )
    if not points:
        reasons = "\n  ".join(f"{one.setting.label}: {one.reason}" for one in failed[:5])
        raise Infeasible(f"no setting could be carried out and measured:\n  {reasons}")
    original = work.original_risk()
    found = TuneResult(
        data=work.data,
        risk=work.risk,
        utility=work.utility,
        points=tuple(points[number] for number in sorted(points)),
        before=work.before,
        max_risk=max_risk,
        min_utility=min_utility,
        failed=tuple(failed),
        not_tried=tuple(settings[number] for number in sorted(set(left)) if number not in points),
        not_confirmed=tuple(settings[number] for number in sorted(unsure)),
        original_risk=original,
        seeds=work.seeds,
        untouched=_untouched(work, settings),
    )
    found = _choose(work, found, math.inf if seconds is None else start + seconds)
    work.progress(work.total, work.total, "done")
    return found


def _choose(work: _Work, result: TuneResult, end: float) -> TuneResult:
    """Draw the best settings anew until one keeps the limit and the requirements; without a limit, all of the front."""
    limited = result.max_risk is not None or result.min_utility is not None
    if not limited and not work.requirements:
        return result
    points = {id(point): point for point in result.points}
    best: Point | None = None
    for place, point in enumerate(_candidates(result) if limited else result.front):
        if (place and clock() >= end) or (best is not None and not _may_be_better(result, point, best)):
            break
        found = point if point.risk_interval is None else work.evaluate(point.setting, work.all_rows(), in_full=True)
        if isinstance(found, Failed):
            continue
        points[id(point)] = found
        if limited and not result.holds(found):
            continue
        points[id(point)] = drawn = work.draw_anew(found, result.allows)
        if limited and result.holds(drawn) and not drawn.unmet:
            best = drawn if best is None or drawn.risk < best.risk else best
    return replace(result, points=tuple(points.values()), judged=True)


def _candidates(result: TuneResult) -> list[Point]:
    """Give what may keep the limit on all rows, what may be best first."""
    able = [point for point in result.points if point.confirmed and result.may_hold(point)]
    if result.max_risk is not None:
        return sorted(able, key=lambda one: (result.utility.cost(one.utility), one.risk))
    return sorted(able, key=lambda one: (_least_risk(one), result.utility.cost(one.utility)))


def _may_be_better(result: TuneResult, point: Point, best: Point) -> bool:
    """Tell whether a candidate that comes later can be better than a chosen one: only by a risk less well known."""
    return result.max_risk is None and point.risk_interval is not None and _least_risk(point) < best.risk


def _least_risk(point: Point) -> float:
    return point.risk if point.risk_interval is None else point.risk_interval[0]


def _untouched(work: _Work, settings: Sequence[Setting]) -> tuple[str, ...]:
    """Name the columns that the measures look at and no method changes."""
    every = [method for setting in settings for method in (*work.before, *setting.methods)]
    methods = [method for method in every if method.kind not in _KEEPS_VALUES]
    changed = touched(methods, work.data.columns)
    looked_at = {name for measure in work.measures for name in getattr(measure, "columns", ()) or ()}
    if any(not getattr(measure, "columns", ()) for measure in work.measures):
        looked_at |= set(work.data.having("quasi", "sensitive"))
    return tuple(name for name in work.data.columns if name in looked_at and name not in changed)


class _Draws:
    """The figures of one setting over its draws, and what its requirements gave in each."""

    def __init__(self, requirements: Sequence[Requirement]) -> None:
        self.requirements = requirements
        self.risks: list[float] = []
        self.gains: list[float] = []
        self._findings: list[list[Finding]] = []

    def add(self, risk: float, gain: float, findings: list[Finding]) -> None:
        """Take one more draw."""
        self.risks.append(risk)
        self.gains.append(gain)
        self._findings.append(findings)

    @property
    def unmet(self) -> bool:
        """Tell whether the last draw misses a requirement."""
        return not all(finding.holds for finding in self._findings[-1])

    @property
    def is_fixed(self) -> bool:
        """Tell whether the last two draws gave the same: nothing is drawn."""
        seen = [
            (risk, gain, [one.value for one in findings])
            for risk, gain, findings in zip(self.risks, self.gains, self._findings, strict=True)
        ]
        return len(seen) > 1 and seen[-1] == seen[-2]

    def broken(self) -> tuple[str, ...]:
        """Name the requirements that a draw missed, or whose bound too many fresh draws would miss."""
        found = []
        for place, requirement in enumerate(self.requirements):
            findings = [draw[place] for draw in self._findings]
            values = [finding.value for finding in findings]
            high = requirement.at_most is None or tolerance_bound(values) <= requirement.at_most
            low = requirement.at_least is None or -tolerance_bound([-v for v in values]) >= requirement.at_least
            if not (high and low and all(finding.holds for finding in findings)):
                found.append(requirement.part.kind)
        return tuple(found)


def _confirm(
    work: _Work, settings: tuple[Setting, ...], screened: Screening, end: float,
    points: dict[int, Point], failed: list[Failed],
) -> list[int]:  # fmt: skip
    """Repeat on all rows what the sample, and then what was repeated so far, does not rule out; give what is left."""
    rows, wanted = work.all_rows(), screened.first()
    tried: set[int] = set()
    while wanted:
        work.total = work.done + len(wanted)
        unsure = _each(work, settings, wanted, rows, end, points, failed)
        if unsure:
            return unsure
        tried |= set(wanted)
        sure = {number: points[number] for number in tried if number in points}
        wanted = screened.further(sure, [number for number in screened.points if number not in tried])
    return []


def _repeat(
    work: _Work, settings: tuple[Setting, ...], rows: _Rows, end: float, points: dict[int, Point], failed: list[Failed]
) -> list[int]:
    """Run what may lie on the front as often as asked for; give what is left when the time is up."""
    repeated: set[int] = set()
    while points and work.runs > 1 and (near := Screening(points, work.utility, *work.limits).near(repeated)):
        work.total += len(near)
        if left := _each(work, settings, near, rows, end, points, failed):
            return left
        repeated |= set(near)
    return []


def _each(
    work: _Work, settings: tuple[Setting, ...], order: list[int], rows: _Rows, end: float,
    points: dict[int, Point], failed: list[Failed], *, runs: int | None = None,
) -> list[int]:  # fmt: skip
    """Evaluate settings until the time is up (one at least); give those left over."""
    for place, number in enumerate(order):
        if place and clock() >= end:
            return order[place:]
        found = work.evaluate(settings[number], rows, runs)
        if isinstance(found, Point):
            points[number] = found
            if work.watch is not None:
                so_far = tuple(points[one] for one in sorted(points))
                work.watch(TuneResult(work.data, work.risk, work.utility, so_far, work.before, *work.limits))
        else:
            points.pop(number, None)
            failed.append(found)
    return []


_NUMBERS = ("max_risk", "min_utility", "seconds", "runs", "sample", "draws")
_ENTRIES = ("methods", "risk", "utility", *_NUMBERS)

Fault = Callable[[tuple[str | int, ...], str], None]


def check_section(given: Any, fault: Fault, resolve: Change) -> dict[str, Any]:
    """Give the section with full paths; every fault of it is reported with its place."""
    if not isinstance(given, Mapping):
        fault(("tune",), "expected a mapping with `methods`, `risk`, `utility` and a limit")
        return {}
    for key in given:
        if key not in _ENTRIES:
            fault(("tune", str(key)), unknown("entry", str(key), _ENTRIES))
    section = {key: _resolved(value, resolve) for key, value in given.items()}
    if "methods" not in section:
        fault(("tune",), "`methods` is required: a list of methods or pipelines with grids")
    else:
        settings_of(section["methods"], lambda place, message: fault(("tune", "methods", *place), message))
    families: tuple[Family, ...] = ("risk", "utility")
    for family in families:
        if family in section:
            _attempt(("tune", family), fault, partial(_scale, section[family], family))
    _attempt(("tune",), fault, lambda: check_numbers(**{name: section[name] for name in _NUMBERS if name in section}))
    return section


def _scale(given: Any, family: Family) -> Scale:
    return Scale(take_measures(given, family), family)


def _attempt(place: Place, fault: Fault, make: Callable[[], object]) -> None:
    try:
        make()
    except PlanError as error:
        for problem in error.problems:
            fault(place, problem.removeprefix(f"{place[-1]}: "))


def _resolved(value: Any, resolve: Change) -> Any:
    """Make the paths in parts start at the plan's folder, in lists and pipelines too."""
    if isinstance(value, list):
        return [_resolved(item, resolve) for item in value]
    return map_paths(value, resolve)


def tune_plan(
    plan: Plan,
    source: str | Path | None = None,
    *,
    seed: int | None = None,
    seconds: float | None = None,
    cache: str | Path | None = None,
    progress: Progress = ignore_progress,
    report: Callable[[str], None] | None = None,
    watch: Callable[[TuneResult], None] | None = None,
) -> TuneResult:
    """Carry out the `tune` section of a plan on its data; the plan's `steps` come before every setting."""
    from discretion.release.run import check_data, check_plan, seed_of

    if not plan.tune:
        raise PlanError("the plan has no `tune` section: give `tune:` with `methods`, `risk`, `utility` and a limit")
    check_plan(replace(plan, tune={}))
    data = plan.read(source, report)
    check_data(data)
    options = dict(plan.tune)
    if seconds is not None:
        options["seconds"] = seconds
    return tune(
        data,
        options.pop("methods"),
        before=[step.method for step in plan.steps],
        seed=seed_of(plan) if seed is None else seed,
        cache=cache,
        progress=progress,
        requirements=plan.requirements,
        knows_method=plan.knows_method,
        watch=watch,
        **options,
    )
