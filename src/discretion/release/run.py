"""Running a plan: read, protect, measure, judge."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from discretion.context import Context, Progress, ignore_progress, new_seed
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.measure import Measure, Score
from discretion.method import Decision
from discretion.release.gate import judge
from discretion.release.measures import default_measures
from discretion.release.plan import Plan
from discretion.release.release import Measured, Release
from discretion.release.study import Study


def read_data(plan: Plan, source: str | None = None, report: Callable[[str], None] | None = None) -> Dataset:
    """Read the data of a plan, or another delivery of it from `source`."""
    from discretion.data.read import read

    options = {key: value for key, value in plan.data.items() if key != "path"}
    path = source or plan.data.get("path")
    if path is None:
        raise PlanError("the plan names no data; give `data:` or a file")
    frame = read(path if source else plan.resolve(path), report=report, **options)
    labelled = frame.schema
    schema = plan.schema
    for name, column in labelled.columns.items():
        schema = schema.with_column(name, label=column.label, value_labels=column.value_labels)
    return Dataset(frame.frame, schema=schema)


def run_plan(
    plan: Plan,
    data: Any = None,
    *,
    seed: int | None = None,
    reuse: Mapping[str, Decision] | None = None,
    progress: Progress = ignore_progress,
) -> Release:
    """Carry out a plan on its data (or on `data`) and judge the result; nothing is written."""
    if not plan.confirmed:
        raise PlanError(
            "the roles of this plan are proposals (`confirmed: false`); read them, then set `confirmed: true`"
        )
    if not plan.schema.has_roles:
        raise PlanError("the plan gives no roles; `discretion roles DATA` proposes some")
    original = _with_plan_schema(plan, data)
    check_roles(original)
    check_hierarchies(original)
    study = Study(original, seed_of(plan) if seed is None else seed, progress=progress)
    for number, step in enumerate(plan.steps):
        progress(number, len(plan.steps), f"step {number + 1} of {len(plan.steps)}: {step.method.kind}")
        study = study.apply(step, decision=(reuse or {}).get(step.id))
    return conclude(plan, study)


def _with_plan_schema(plan: Plan, data: Any) -> Dataset:
    if data is None or isinstance(data, str | Path):
        return read_data(plan, None if data is None else str(data))
    if isinstance(data, Dataset):
        return data if data.schema.columns == plan.schema.columns else Dataset(data.to_native(), schema=plan.schema)
    return Dataset(data, schema=plan.schema)


def seed_of(plan: Plan) -> int:
    """Read the seed from the plan's seed file, or draw one."""
    return new_seed() if plan.seed_file is None else read_seed(plan.resolve(plan.seed_file))


def read_seed(path: str | Path) -> int:
    """Read a seed file: one whole number, decimal or 0x… hexadecimal."""
    file = Path(path)
    if not file.is_file():
        raise PlanError(f"no seed file {str(path)!r}")
    text = file.read_text(encoding="utf-8").strip()
    if not re.fullmatch(r"\d+|0x[0-9a-fA-F]+", text):
        raise PlanError(f"the seed file {file.name!r} must hold one whole number and nothing else")
    return int(text, 0)


def check_roles(data: Dataset) -> None:
    """Refuse data in which a column without a role looks like an identifier: it would be published as it is."""
    from discretion.data.detect import looks_like_identifier

    unlisted = [name for name in data.columns if name not in data.schema.columns]
    problems = [
        f"column {name!r} has no role and looks like an identifier ({reason}); list it under `roles`"
        for name in unlisted
        if (reason := looks_like_identifier(data, name))
    ]
    if problems:
        raise PlanError(problems)


def check_hierarchies(data: Dataset) -> None:
    """Bind every hierarchy to the data, so that missing values are named before any work is done."""
    from discretion.data.hierarchy import canonical

    problems = []
    for name, column in data.schema.columns.items():
        if column.hierarchy is None:
            continue
        try:
            texts = [canonical(value) for value in data.codes(name).values if value is not None]
            data.hierarchy(name).rows(texts)
        except DataError as error:
            problems.append(str(error))
    if problems:
        raise DataError("\n".join(problems))


def conclude(plan: Plan, study: Study) -> Release:
    """Take the identifiers out, measure before and after, judge the requirements."""
    left = study.current.having("identifier")
    published = study.current.drop(left) if left else study.current
    ctx = study.context()
    measures = plan.measures or tuple(default_measures(study.original, published))
    measured = []
    for number, measure in enumerate(measures):
        study.progress(number, len(measures), f"measuring: {measure.kind}")
        measured.append(_measure(measure, study.original, published, ctx))
    findings = []
    for number, requirement in enumerate(plan.requirements):
        study.progress(number, len(plan.requirements), f"checking: {requirement.part.kind}")
        findings.append(judge(requirement, study.original, published, ctx))
    return Release(plan, study, published, tuple(measured), tuple(findings))


def _measure(measure: Measure, original: Dataset, released: Dataset, ctx: Context) -> Measured:
    inner = ctx.within(f"measure/{measure.kind}")
    before: Score | None = None
    if measure.needs == "released" or measure.family == "risk":
        before = measure.run(original, original, inner)
    return Measured(measure, before, measure.run(original, released, inner))
