"""What tuning gives back: every setting with its figures, the front, the best one under the limit and its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.errors import Infeasible, PlanError
from discretion.kernels.arrays import Floats
from discretion.method import Method
from discretion.release.report.page import template
from discretion.release.report.risk_utility_map import NARROW, draw, map_of
from discretion.release.report.wording import counted, number, percent
from discretion.release.tune_scales import Scale
from discretion.release.tune_space import CONFIDENCE, KEPT_SHARE, Setting

if TYPE_CHECKING:
    import polars as pl

    from discretion.data.dataset import Dataset
    from discretion.release.plan import Plan
    from discretion.release.study import Study

# The Pareto front: what cannot be bettered in one figure without losing in the other.


def pareto_front(risk: Sequence[float] | Floats, loss: Sequence[float] | Floats) -> list[int]:
    """Give the points that no other point dominates, from the least risk to the least loss.

    A point dominates another if it is at least as good in both figures (lower is better) and better in one. Equal
    points do not dominate each other. Sorting and one sweep: O(n·log n).
    """
    return possible_front(risk, loss, np.zeros(len(risk)), np.zeros(len(loss)))


def possible_front(
    risk: Sequence[float] | Floats,
    loss: Sequence[float] | Floats,
    risk_error: Sequence[float] | Floats,
    loss_error: Sequence[float] | Floats,
) -> list[int]:
    """Give the points that may lie on the front, given the error of each figure.

    A point is left out if another one dominates it even when both figures of the other are too low by their errors
    and its own are too high by theirs. Without errors this is the front. O(n·log n).
    """
    x, y, dx, dy = (np.asarray(values, dtype=np.float64) for values in (risk, loss, risk_error, loss_error))
    worst_x, worst_y, best_x, best_y = x + dx, y + dy, x - dx, y - dy
    order = np.lexsort((worst_y, worst_x))
    ladder = worst_x[order]
    least = np.minimum.accumulate(worst_y[order]) if len(order) else worst_y
    kept = [
        point for point in range(len(x)) if not _dominated(ladder, least, float(best_x[point]), float(best_y[point]))
    ]
    return sorted(kept, key=lambda point: (x[point], y[point], point))


def _dominated(ladder: Floats, least: Floats, x: float, y: float) -> bool:
    """Tell whether a point of the ladder (least loss up to each risk) is as good in both figures and better in one."""
    below = int(np.searchsorted(ladder, x, "left"))
    if below and least[below - 1] <= y:
        return True
    up_to = int(np.searchsorted(ladder, x, "right"))
    return bool(up_to and least[up_to - 1] < y)


# A page about one search for the balance: the map whose points tell their settings, the best, and every setting.


def tune_page(result: TuneResult, title: str) -> str:
    """Give the page as one HTML file that needs nothing else. It names settings, so it is internal."""
    from markupsafe import Markup

    best, trouble = _best(result)
    found = map_of(result)
    front = {id(point) for point in result.front}
    ordered = sorted(result.points, key=lambda one: (result.utility.cost(one.utility), one.risk))
    return template("tune.html").render(
        internal=True,
        title=title,
        lead=_lead(result, best, trouble),
        best=None if best is None else _row(result, best, front),
        steps=[] if best is None else _steps(result, best),
        picture=Markup(draw(found, interactive=True)),
        narrow=Markup(draw(found, interactive=True, width=NARROW)),
        risk=result.risk.title,
        utility=result.utility.title,
        better=result.utility.better,
        several_risks=len(result.risk.measures) > 1,
        several_utilities=len(result.utility.measures) > 1,
        risks=[measure.kind for measure in result.risk.measures],
        utilities=[measure.kind for measure in result.utility.measures],
        limited=result.max_risk is not None or result.min_utility is not None,
        sampled=any(not point.confirmed for point in result.points),
        some_people=any(point.risk_interval is not None for point in result.points),
        rows=[_row(result, point, front) for point in ordered],
        failed=result.failed,
        not_tried=result.not_tried,
        untouched=result.untouched,
        drawn=0 if best is None else best.draws,
        not_confirmed=result.not_confirmed,
    )


def _best(result: TuneResult) -> tuple[Point | None, str]:
    try:
        return result.best, ""
    except Infeasible as error:
        return None, str(error)
    except PlanError:
        return None, ""


def _lead(result: TuneResult, best: Point | None, trouble: str) -> str:
    tried = f"{counted(len(result.points), 'setting')} tried, {len(result.front)} on the front."
    if best is not None:
        return f"{tried} Under the limit ({result.limit}) the best is {best.label}."
    return f"{tried} {trouble[:1].upper()}{trouble[1:]}." if trouble else f"{tried} No limit was given."


def _steps(result: TuneResult, best: Point) -> list[dict[str, Any]]:
    from discretion.release.report.wording import setting_text, title_of

    return [
        {
            "title": title_of(method.kind),
            "fields": "; ".join(
                f"{name}: {setting_text(getattr(method, name), reveal=True)}" for name in method.settings()
            ),
        }
        for method in result.steps(best)
    ]


def _limit(result: TuneResult, point: Point) -> str:
    if not point.confirmed:
        return "on all rows unknown"
    if (keeps := result.kept(point)) is None:
        return "for everybody unknown"
    kept = "kept" if keeps else "broken"
    return f"{kept}; requirements not met: {', '.join(point.unmet)}" if point.unmet else kept


def _row(result: TuneResult, point: Point, front: set[int]) -> dict[str, Any]:
    def shown(value: float, share: bool) -> str:
        return percent(value) if share else number(value)

    shares = result.risk.is_share, result.utility.is_share
    return {
        "place": next(place for place, one in enumerate(result.points) if one is point),
        "label": point.label,
        "risk": shown(point.risk, shares[0]),
        "risk_spread": shown(point.risk_spread, shares[0]),
        "between": "–".join(shown(end, shares[0]) for end in point.risk_interval or ()),
        "by": point.leading,
        "utility": shown(point.utility, shares[1]),
        "utility_spread": shown(point.utility_spread, shares[1]),
        "runs": point.runs,
        "rows": f"{point.rows:,}",
        "on_front": id(point) in front,
        "limit": _limit(result, point),
        "confirmed": point.confirmed,
    }


@dataclass(frozen=True)
class Point:
    """A setting with its figures: means, spreads (standard deviations) and extremes over its runs."""

    setting: Setting
    risk: float
    utility: float
    risk_spread: float
    utility_spread: float
    worst_risk: float
    worst_utility: float
    runs: int
    rows: int
    confirmed: bool
    """whether the figures are those of all rows"""
    leading: str
    """the attack that decides the risk (in the first run)"""
    measured: Mapping[str, float] = field(default_factory=dict)
    """the mean of each measure"""
    draws: int = 0
    """how often it was drawn anew to be chosen"""
    risk_bound: float | None = None
    """with 95 % confidence at least 95 % of fresh draws have at most this risk"""
    utility_bound: float | None = None
    """the same for the utility, on the side of the worse"""
    unmet: tuple[str, ...] = ()
    """requirements of the plan that it does not meet"""
    risk_interval: tuple[float, float] | None = None
    """what the risk may be, where the attacks looked for a sample of the people; None: for everybody"""

    @property
    def label(self) -> str:
        """The methods and what varies."""
        return self.setting.label

    def to_dict(self) -> dict[str, Any]:
        """Give the point as plain data."""
        plain = {name: value for name, value in vars(self).items() if name not in ("setting", "measured")}
        return {"label": self.label, "steps": self.setting.to_plan(), **plain, "measured": dict(self.measured)}


@dataclass(frozen=True)
class Failed:
    """A setting that could not be carried out or measured, and why."""

    setting: Setting
    reason: str


@dataclass(frozen=True)
class TuneResult:
    """The risk–utility map of the settings that were tried.

    `points` are all that gave figures, `front` those that nothing dominates (on all rows; where linkage looked for some
    people only, `risk_interval` says how far the risk is known), `best` the one to take under the limit, attacked by
    looking for everybody. `failed` could not be carried out, `not_tried` is what the time budget did not allow, and
    `not_confirmed` what lay on the front of the sample and was not repeated on all rows for lack of time.
    """

    data: Dataset = field(repr=False)
    risk: Scale
    utility: Scale
    points: tuple[Point, ...]
    before: tuple[Method, ...] = ()
    max_risk: float | None = None
    min_utility: float | None = None
    failed: tuple[Failed, ...] = ()
    not_tried: tuple[Setting, ...] = ()
    not_confirmed: tuple[Setting, ...] = ()
    original_risk: float | None = None
    """the risk of the original data itself"""
    seeds: tuple[int, ...] = field(default=(), repr=False)
    untouched: tuple[str, ...] = ()
    """columns that the measures look at and no method changes: they add the same to every figure"""
    judged: bool = False
    """whether the best settings were drawn anew against the limit and the plan's requirements"""

    def __repr__(self) -> str:
        left = f"; {len(self.not_tried)} not tried" if self.not_tried else ""
        return f"TuneResult({len(self.points)} points, {len(self.front)} on the front{left})"

    @cached_property
    def front(self) -> tuple[Point, ...]:
        """The points that nothing dominates, from the least risk to the best utility; confirmed ones only."""
        sure = [point for point in self.points if point.confirmed]
        chosen = pareto_front([one.risk for one in sure], [self.utility.cost(one.utility) for one in sure])
        return tuple(sure[place] for place in chosen)

    def holds(self, point: Point) -> bool:
        """Tell whether every run of a point kept the limit (true without one), and its bound, if it was drawn anew."""
        return self._excess(point) <= 0

    def allows(self, risk: float, utility: float) -> bool:
        """Tell whether the figures of one run keep the limit."""
        if self.max_risk is not None:
            return risk <= self.max_risk
        return self.min_utility is None or self.utility.cost(utility) <= self.utility.cost(self.min_utility)

    def may_hold(self, point: Point) -> bool:
        """Tell whether a point can keep the limit, given the interval of a risk that was found on a sample."""
        if self.max_risk is None or point.risk_interval is None:
            return self.holds(point)
        return point.risk_interval[0] <= self.max_risk

    def kept(self, point: Point) -> bool | None:
        """Tell whether a point keeps the limit on all rows, for everybody; None where that is not known."""
        if not point.confirmed or (point.risk_interval is not None and self.may_hold(point)):
            return None
        return self.holds(point)

    def _excess(self, point: Point) -> float:
        """Give by how much the worst run, or the bound of fresh draws, misses the limit."""
        if self.max_risk is not None:
            return self._worst(point) - self.max_risk
        if self.min_utility is not None:
            return self.utility.cost(self._worst(point)) - self.utility.cost(self.min_utility)
        return -inf

    def _worst(self, point: Point) -> float:
        """Give the worst figure of those that the limit is on."""
        if self.max_risk is not None:
            return point.worst_risk if point.risk_bound is None else max(point.worst_risk, point.risk_bound)
        bound = point.worst_utility if point.utility_bound is None else point.utility_bound
        return max(point.worst_utility, bound, key=self.utility.cost)

    @property
    def limit(self) -> str:
        """The limit in words."""
        if self.max_risk is not None:
            return f"{self.risk.title} of at most {self.max_risk:g}"
        if self.min_utility is not None:
            bound = "at most" if self.utility.better == "lower" else "at least"
            return f"{self.utility.title} of {bound} {self.min_utility:g}"
        return "none"

    @property
    def best(self) -> Point:
        """The best utility that keeps `max_risk`, or the least risk that keeps `min_utility`, on all rows.

        A setting keeps a limit if each of its runs did, and with 95 % confidence at least 95 % of fresh draws do: one
        run is published, not the mean. It also meets the plan's requirements. Raises `Infeasible` if none does, and
        says which comes nearest.
        """
        if self.max_risk is None and self.min_utility is None:
            raise PlanError("there is no limit: give `max_risk` or `min_utility`, or choose a point of `front`")
        chosen = [one for one in self.ranked if not one.unmet and (one.draws or not self.judged)]
        if not chosen:
            raise Infeasible(self._nearest([point for point in self.points if point.confirmed]))
        return chosen[0]

    @property
    def ranked(self) -> tuple[Point, ...]:
        """The points that keep the limit on all rows, for everybody, the best first."""
        allowed = [point for point in self.points if self.kept(point) and point.risk_interval is None]
        if self.max_risk is not None:
            return tuple(sorted(allowed, key=lambda one: (self.utility.cost(one.utility), one.risk)))
        return tuple(sorted(allowed, key=lambda one: (one.risk, self.utility.cost(one.utility))))

    def _nearest(self, sure: Sequence[Point]) -> str:
        if not sure:
            return "the time ran out before a setting was confirmed on all rows; give more `seconds`"
        if left := [point for point in self.ranked if self.judged and not point.draws]:
            return f"the time ran out before {left[0].label} was drawn anew; give more `seconds`"
        if broken := [point for point in self.ranked if point.unmet]:
            names = ", ".join(dict.fromkeys(name for point in broken for name in point.unmet))
            return (
                f"no setting that keeps the limit ({self.limit}) meets the requirements of the plan; not met in fresh "
                f"draws: {names}; try stronger settings, or other requirements"
            )
        nearest = min(sure, key=self._excess)
        by_risk = self.max_risk is not None
        reached = self._worst(nearest)
        text = f"no setting keeps the limit ({self.limit}); nearest: {nearest.label}, {reached:.4g}"
        alike = {round(point.risk, 6) for point in sure}
        if by_risk and len(alike) == 1 and len(sure) > 1:
            text += f"; the risk by {nearest.leading} is the same for all: no method changes what that attack uses"
        elif by_risk:
            text += f" (by {nearest.leading})"
        return text + "; try stronger settings, another method, or another limit"

    def steps(self, point: Point | None = None) -> tuple[Method, ...]:
        """Give all methods of a point (the best one), in order."""
        return (*self.before, *(point or self.best).setting.methods)

    def study(self, point: Point | None = None, *, seed: int | None = None) -> Study:
        """Carry out a point (the best one) on all rows: its first run again, or anew with another `seed`."""
        from discretion.release.study import Study

        study = Study(self.data, self.seeds[0] if seed is None else seed)
        for method in self.steps(point):
            study = study.apply(method)
        return study

    def plan(self, point: Point | None = None, *, like: Plan | None = None, title: str = "") -> Plan:
        """Give the plan of a point (the best one); the limit on one measure becomes a requirement.

        `like`: take everything but the steps from this plan, its measures and requirements included.
        """
        from discretion.policy.policy import same_subject, shortfall
        from discretion.release.plan import Plan, Requirement, Shown, Step

        methods = self.steps(point)
        steps = tuple(Step(method, f"{number}-{method.kind}") for number, method in enumerate(methods, 1))
        plan = like or Plan(schema=self.data.schema, data=self.data.came_from, title=title)
        measures = plan.measures or tuple(Shown(one) for one in (*self.risk.measures, *self.utility.measures))
        required: list[Requirement] = []
        if self.max_risk is not None and len(self.risk.measures) == 1:
            required.append(Requirement(self.risk.measures[0], at_most=self.max_risk))
        if self.min_utility is not None and len(self.utility.measures) == 1:
            bound = "at_most" if self.utility.better == "lower" else "at_least"
            required.append(Requirement(self.utility.measures[0], **{bound: self.min_utility}))  # type: ignore[arg-type]
        asked = plan.requirements  # a limit that these keep anyway would only weaken what a policy demands
        new = (one for one in required if not any(same_subject(own, one) and not shortfall(own, one) for own in asked))
        kept = (*asked, *new)
        return replace(plan, steps=steps, measures=measures, requirements=kept, tune={})

    def table(self) -> pl.DataFrame:
        """Give one row per point, the best utility first."""
        import polars as pl

        front = {id(point) for point in self.front}
        ordered = sorted(self.points, key=lambda one: (self.utility.cost(one.utility), one.risk))
        return pl.DataFrame(
            {
                "setting": [one.label for one in ordered],
                "risk": [one.risk for one in ordered],
                "risk_spread": [one.risk_spread for one in ordered],
                "utility": [one.utility for one in ordered],
                "utility_spread": [one.utility_spread for one in ordered],
                "runs": [one.runs for one in ordered],
                "rows": [one.rows for one in ordered],
                "on_front": [id(one) in front for one in ordered],
                "keeps_limit": [self.kept(one) for one in ordered],
                "risk_low": [None if one.risk_interval is None else one.risk_interval[0] for one in ordered],
                "risk_high": [None if one.risk_interval is None else one.risk_interval[1] for one in ordered],
                "draws": [one.draws for one in ordered],
                "unmet": [", ".join(one.unmet) for one in ordered],
            }
        )

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain data, without the data and the seeds."""
        front = {id(point) for point in self.front}
        return {
            "risk": {"figure": self.risk.title, "measures": [one.to_plan() for one in self.risk.measures],
                     "better": self.risk.better, "max": self.max_risk, "original": self.original_risk},
            "utility": {"figure": self.utility.title, "measures": [one.to_plan() for one in self.utility.measures],
                        "better": self.utility.better, "min": self.min_utility},
            "points": [
                {**one.to_dict(), "on_front": id(one) in front, "keeps_limit": self.kept(one)} for one in self.points
            ],
            "best": self._best_or_none(),
            "failed": [{"label": one.setting.label, "reason": one.reason} for one in self.failed],
            "untouched": list(self.untouched),
            "confidence": {"kept_share": KEPT_SHARE, "confidence": CONFIDENCE},
            "not_tried": [one.label for one in self.not_tried],
            "not_confirmed": [one.label for one in self.not_confirmed],
        }  # fmt: skip

    def _best_or_none(self) -> dict[str, Any] | None:
        try:
            return self.best.to_dict()
        except (Infeasible, PlanError):
            return None

    def svg(self) -> str:
        """Draw the risk–utility map."""
        from discretion.release.report.risk_utility_map import draw, map_of

        return draw(map_of(self)).replace("<svg ", '<svg style="background:#fff" ', 1)

    def page(self, title: str = "Risk and utility") -> str:
        """Give the map as one HTML file that needs nothing else: points tell their settings when pointed at."""
        return tune_page(self, title)

    def _repr_html_(self) -> str:
        return self.svg()
