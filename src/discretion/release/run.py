"""Running a plan: read, protect, measure, judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from discretion.context import Context, Progress, ignore_progress, new_seed
from discretion.data.dataset import Dataset
from discretion.data.native import bounding_numbers
from discretion.data.rules import check_edit_rules
from discretion.errors import DataError, PlanError
from discretion.measure import Measure, Score
from discretion.method import Decision
from discretion.release.attack_set import report_set, run_with_holdout, unnamed_linkages
from discretion.release.earlier import Earlier
from discretion.release.gate import check_publishable, judge, told_by_others
from discretion.release.journal import SeedFile, input_facts
from discretion.release.order import in_order_of, reordered, secret_order
from discretion.release.plan import Plan, Shown
from discretion.release.plan_columns import check_columns
from discretion.release.release import Measured, Release
from discretion.release.study import Study
from discretion.risk.identity.intruder import knowing_method

_LARGE = 2_000_000
"""Records from which on it is said that they need not be in memory."""


def read_data(plan: Plan, source: str | Path | None = None, report: Callable[[str], None] | None = None) -> Dataset:
    """Read the data of a plan, or another delivery of it from `source`; the plan may name no column it lacks."""
    from discretion.data.read import check_numbers, read_as

    options = {key: value for key, value in plan.data.items() if key != "path"}
    path = source or plan.data.get("path")
    if path is None:
        raise PlanError("the plan names no data; give `data:` or a file")
    with bounding_numbers(any(step.method.private for step in plan.steps)):
        found = read_as(path if source else plan.resolve(path), plan.schema, partial=True, report=report, **options)
    check_columns(plan, found.columns)
    check_numbers(found.frame, found.schema)
    return found


def run_plan(
    plan: Plan,
    data: Any = None,
    *,
    seed: int | None = None,
    reuse: Mapping[str, Decision] | None = None,
    progress: Progress = ignore_progress,
    report: Callable[[str], None] | None = None,
    publish: bool = False,
) -> Release:
    """Carry out a plan on its data (or on `data`) and judge the result; nothing is written.

    `publish`: it is to be written, so that what the plan leaves unsaid is refused before any work is done.
    """
    earlier = Earlier.open(plan.made_from) if plan.made_from else None
    plan = plan if earlier is None else earlier.started(plan)
    check_plan(plan)
    require_decisions(plan, reuse)
    seed = seed_of(plan, release=True) if seed is None else seed
    if isinstance(data, str | Path):
        plan, data = plan.with_data(data), None
    with bounding_numbers(any(step.method.private for step in plan.steps)):
        original = read_data(plan, None, report) if data is None else _with_plan_schema(plan, data)
    if report is not None and len(original) >= _LARGE:
        report(
            f"{len(original):,} records: to measure them takes many times their size in memory; `--engine duckdb` "
            "leaves them in their files"
        )
    if data is not None:
        plan = replace(plan, data={})  # what the plan names was not read; the journal must not say so
    check_data(original)
    if publish:
        check_publishable(plan, original, made=bool(plan.steps or earlier))
    study = Study(original, seed, progress=progress, budget=plan.budget)
    if earlier is not None:
        earlier.require_original(input_facts(plan, original))
        study = study.continuing(earlier)
    for number, step in enumerate(plan.steps):
        progress(number, len(plan.steps), f"step {number + 1} of {len(plan.steps)}: {step.method.kind}")
        study = study.apply(step, decision=(reuse or {}).get(step.id))
    if publish:
        gone, told = study.current.having("identifier"), told_by_others(original, study.current)
        columns = [name for name in study.current.columns if name not in gone]
        check_publishable(plan, original, columns, made=bool(plan.steps or earlier), told=told)
    if plan.seed_file is not None:
        Release(plan, study, study.current, (), ()).seed_file()  # refused before the measuring, which may take long
    return conclude(plan, study)


def check_plan(plan: Plan) -> None:
    """Refuse a plan whose roles nobody has given or confirmed."""
    if not plan.confirmed:
        raise PlanError(
            "the roles of this plan are proposals (`confirmed: false`); read them, then set `confirmed: true`"
        )
    if plan.tune:
        raise PlanError("the plan has a `tune` section and is not finished: `discretion tune` writes the plan to run")
    if not plan.schema.has_roles:
        raise PlanError("the plan gives no roles; `discretion roles DATA` proposes some")


def check_data(data: Dataset) -> None:
    """Refuse data that does not fit its roles and hierarchies, before any work is done."""
    check_roles(data)
    check_hierarchies(data)
    check_edit_rules(data)


def require_decisions(plan: Plan, reuse: Mapping[str, Decision] | None) -> None:
    """Refuse decisions of another plan: a step without one would silently decide anew."""
    lacking = [step.id for step in plan.steps if not step.method.by_group and step.id not in (reuse or {})]
    if reuse is not None and lacking:
        raise PlanError(f"the saved decisions belong to another plan: they have none for {', '.join(lacking)}")


def _with_plan_schema(plan: Plan, data: Any) -> Dataset:
    """Give data the plan's roles; the plan may name no column it lacks."""
    if isinstance(data, Dataset):
        check_columns(plan, data.columns)
        return data if data.schema.columns == plan.schema.columns else Dataset(data.to_native(), schema=plan.schema)
    try:
        made = Dataset(data, schema=plan.schema)
    except PlanError:
        check_columns(plan, Dataset(data).columns)
        raise
    check_columns(plan, made.columns)
    return made


def seed_of(plan: Plan, *, release: bool = False) -> int:
    """Read the seed from the plan's seed file, or draw one; for a release that is no demonstration not a small one."""
    if plan.seed_file is None:
        return new_seed()
    found = SeedFile.read(plan.resolve(plan.seed_file))
    if release and not plan.demo:
        found.require_long()
    return found.seed


def read_seed(path: str | Path) -> int:
    """Read the seed of a seed file."""
    return SeedFile.read(path).seed


def check_roles(data: Dataset) -> None:
    """Refuse data in which a column without a role looks like an identifier: it would be published as it is."""
    from discretion.data.detect import looks_like_identifier

    unlisted = [name for name in data.columns if not data.schema[name].has_role]
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
    """Take the identifiers out, measure before and after, judge the requirements, put the rows in a secret order."""
    left = study.current.having("identifier")
    published = study.current.drop(left) if left else study.current
    order = np.arange(len(published)) if plan.order == "keep" else secret_order(published, study.seed)
    ctx = study.context()
    shown = shown_measures(plan, study.original, published)
    measured, not_run = [], {}
    for number, item in enumerate(shown):
        for data in (study.original, *(step.data for step in study.done), published):
            data.forget()
        study.progress(number, len(shown), f"measuring: {item.measure.kind}")
        seen = reordered(published, order) if item.measure.reads_order else published  # seldom: no second copy is kept
        try:
            found = measure_shown(item, study.original, seen, ctx, plan.knows_method)
        except (PlanError, DataError) as error:
            if number < len(plan.measures):
                raise
            not_run[item.measure.kind] = str(error)  # nobody asked for it: the report says why it is not there
            continue
        stays = item.measure.reads_order or published.has_new_rows
        kept = found.after if stays else in_order_of(found.after, order)
        measured.append(replace(found, after=kept, chosen=number < len(plan.measures)))
    findings = []
    for number, requirement in enumerate(plan.requirements):
        study.progress(number, len(plan.requirements), f"checking: {requirement.part.kind}")
        ordered = isinstance(requirement.part, Measure) and requirement.part.reads_order
        seen = reordered(published, order) if ordered else published
        finding = judge(requirement, study.original, seen, ctx, knows_method=plan.knows_method)
        if isinstance(finding.result, Score) and not ordered and not published.has_new_rows:
            finding = replace(finding, result=in_order_of(finding.result, order))
        findings.append(finding)
    tried = {item.measure.kind for item in measured}
    lacking = {kind: reason for kind, reason in not_run.items() if kind not in tried}
    return Release(plan, study, reordered(published, order), tuple(measured), tuple(findings), lacking)


def shown_measures(plan: Plan, original: Dataset, released: Dataset) -> tuple[Shown, ...]:
    """Give the measures of a plan, and behind them those that a report has whether it names them or not."""
    if not plan.measures:
        return tuple(Shown(measure) for measure in report_set(original, released))
    named = [item.measure for item in plan.measures] + [requirement.part for requirement in plan.requirements]
    return (*plan.measures, *(Shown(measure) for measure in unnamed_linkages(named, original, released)))


def measure_shown(shown: Shown, original: Dataset, released: Dataset, ctx: Context, knows_method: bool) -> Measured:
    """Measure a release, and the original where that says something too."""
    measure = shown.measure if knows_method else knowing_method(shown.measure, False)
    inner = ctx.within(f"measure/{measure.kind}")
    before: Score | None = None
    if measure.on_original and (measure.needs == "released" or measure.family == "risk"):
        before = run_with_holdout(measure, original, original, inner)
    return Measured(shown.measure, before, run_with_holdout(measure, original, released, inner), shown.publish)
