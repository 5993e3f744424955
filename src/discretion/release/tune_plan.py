"""The `tune` section of a plan: methods with grids, the measures, the limit; and carrying it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from discretion.context import Progress, ignore_progress
from discretion.errors import PlanError, unknown
from discretion.part import Family
from discretion.release.part_paths import Change, map_paths
from discretion.release.plan import Plan
from discretion.release.tune import tune
from discretion.release.tune_limits import check_numbers
from discretion.release.tune_result import TuneResult
from discretion.release.tune_scales import Scale, take_measures
from discretion.release.tune_space import Place, settings_of

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
