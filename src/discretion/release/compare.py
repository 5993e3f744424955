"""`dc.compare`: attack and measure several finished releases alike, and read them from their folders."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.context import Context, Progress, ignore_progress
from discretion.data.dataset import Dataset
from discretion.errors import DataError, Infeasible, PlanError
from discretion.measure import Measure, match_by
from discretion.part import find
from discretion.release.comparison import Compared, Comparison
from discretion.release.tune_cache import Figure
from discretion.release.tune_scales import NEVER, figure_of, take_measures

if TYPE_CHECKING:
    from discretion.release.plan import Plan

_UTILITIES = ("marginals", "contingency", "variable-change", "interval-overlap", "correlation-change", "propensity")
_MOST_TREES = 20_000
"""Above so many records the propensity score is left to those who ask for it."""


def compare(
    original: Any,
    releases: Mapping[str, Any],
    *,
    measures: Sequence[Any] | None = None,
    id_column: str | None = None,
    seed: int = 0,
    progress: Progress = ignore_progress,
) -> Comparison:
    """Run the same attacks and utility measures on several releases of one original, and say which way is better.

    Without `measures`, all attacks that roles, types and the matching of rows allow for any of the releases, and
    general measures of utility. A measure that cannot run on a release says why, and counts for none overall. The
    overall risk of a release is the largest gain over guessing, (s − c)/(1 − c), of the attacks that ran on all of them
    and do not take perturbed values as true; the overall loss is the mean loss, each between 0 and 1, of the utilities
    that have such limits. One release is better if it is at least as good in both and better in one.

    Rows are matched by their hidden ids, by `id_column`, or by position where the counts agree.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(300, seed=1)
    >>> light, heavy = (dc.RankSwap(columns=["income"], percent=p)(people, seed=1) for p in (2, 30))
    >>> measures = [dc.RankInterval(columns=["income"]), dc.VariableChange(columns=["income"])]
    >>> dc.compare(people, {"light": light, "heavy": heavy}, measures=measures).better is None
    True
    """
    before = Dataset.of(original)
    if len(releases) < 2:
        raise PlanError("a comparison needs two releases or more")
    matched = {str(name): match(before, Dataset.of(data), id_column) for name, data in releases.items()}
    chosen = _chosen(measures) if measures is not None else comparable_measures(before, list(matched.values()))
    if not chosen:
        raise PlanError("nothing to compare by: give the original roles, or `measures`")
    rows = []
    for number, measure in enumerate(chosen):
        progress(number, len(chosen), f"measuring: {measure.kind}")
        rows.append(_row(measure, before, matched, Context(seed, f"measure/{measure.kind}", progress)))
    wanted = [name for name in before.columns if name not in before.having("identifier")]
    return Comparison(
        tuple(rows),
        tuple(matched),
        {name: len(data) for name, data in matched.items()},
        {name: tuple(c for c in wanted if c not in data.columns) for name, data in matched.items()},
    )


def _chosen(given: Sequence[Any]) -> tuple[Measure, ...]:
    measures = take_measures(list(given), "utility")
    if refused := [measure.kind for measure in measures if measure.kind in NEVER]:
        raise PlanError(f"{refused[0]} is not zero for identical data and says nothing about loss; leave it out")
    return measures


def match(original: Dataset, released: Dataset, id_column: str | None = None) -> Dataset:
    """Give a release the roles of the original, and its row ids where they can be found."""
    if released.origin is original.origin:
        return released
    schema = original.schema.only(released.columns)
    data = Dataset(released.frame, schema=schema)
    if id_column is not None:
        return match_by(original, data, id_column)
    return data.matched_to(original, np.arange(len(data))) if len(data) == len(original) else data


def comparable_measures(original: Dataset, releases: Sequence[Dataset]) -> tuple[Measure, ...]:
    """Choose the attacks that fit any of the releases, and general measures of utility on columns that all have."""
    from discretion.release.attack_set import attack_set

    found: dict[str, Measure] = {}
    for released in releases:
        for measure in attack_set(original, released):
            if measure.kind not in NEVER:
                found.setdefault(json.dumps(measure.to_plan(), sort_keys=True, default=str), measure)
    columns = [
        name
        for name in original.choose((), "compare")
        if original.type_of(name) != "set" and all(name in released.columns for released in releases)
    ]
    numbers = [name for name in columns if all(data.is_numeric(name) for data in (original, *releases))]
    for kind in _UTILITIES:
        named = numbers if kind in ("interval-overlap", "correlation-change") else columns
        least = 2 if kind in ("correlation-change", "contingency") else 1
        large = kind == "propensity" and len(original) > _MOST_TREES
        if len(named) >= least and not large:
            part = find(kind)(columns=named)
            if isinstance(part, Measure):
                found.setdefault(json.dumps(part.to_plan(), sort_keys=True), part)
    return tuple(found.values())


def _row(measure: Measure, original: Dataset, releases: Mapping[str, Dataset], ctx: Context) -> Compared:
    figures: dict[str, Figure] = {}
    reasons: dict[str, str] = {}
    for name, released in releases.items():
        try:
            figures[name] = figure_of(measure.run(original, released, ctx))
        except (DataError, PlanError, Infeasible) as error:
            reasons[name] = str(error)
    before: float | None = None
    if measure.family == "risk" or measure.needs == "released":
        try:
            before = measure.run(original, original, ctx).value
        except (DataError, PlanError, Infeasible):
            before = None
    return Compared(measure, before, figures, reasons)


# --- releases on disk --------------------------------------------------------------------------------------------


def data_file(place: str | Path) -> Path:
    """Give the data file of a release: the path itself, or the one that the folder's report.json names."""
    path = Path(place)
    if not path.is_dir():
        return path
    report = path / "report.json"
    if not report.is_file():
        raise DataError(f"{str(place)!r} is not the folder of a release: it has no report.json")
    try:
        content = json.loads(report.read_text(encoding="utf-8"))
        file = path / Path(str(content["data"]["file"])).name
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{str(report)!r} is not the report of a release") from None
    if not file.is_file():
        raise DataError(f"the release {str(place)!r} lacks its data file {file.name!r}")
    return file


def plan_beside(place: str | Path) -> Plan | None:
    """Give the plan in the private folder beside a release, where it is: it knows the original and its roles."""
    from discretion.release.plan import Plan

    path = Path(place)
    beside = path.with_name(path.name + "-private") / "plan.yaml"
    return Plan.load(beside) if path.is_dir() and beside.is_file() else None


def short_names(places: Sequence[str]) -> list[str]:
    """Name releases by the last part of their path; by the whole path where that is not enough."""
    names = [Path(place).name or str(place) for place in places]
    return names if len(set(names)) == len(names) else list(places)


def read_releases(original: Dataset, places: Sequence[str], read: Callable[[Path], Dataset]) -> dict[str, Dataset]:
    """Read several releases by name, each with the part of the original's roles that it has."""
    if len(set(places)) < len(places):
        raise PlanError("a release is named twice")
    found = {}
    for name, place in zip(short_names(places), places, strict=True):
        data = read(data_file(place))
        found[name] = Dataset(data.frame, schema=original.schema.only(data.columns))
    return found
