"""`discretion run` and `discretion check`: carry out a plan; publish, or only tell whether it could be published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.assess import Matching, matching_options, read_released, take_matching
from discretion.cli.console import ARROWS, DIRECTIONS, common_options, print_json, print_table, progress_bar, say, shown
from discretion.cli.schema_options import (
    data_option,
    dry_run_option,
    engine_option,
    force_option,
    journal_option,
    out_option,
    seed_option,
    take_engine,
)

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.release.plan import Plan
    from discretion.release.release import Release


@click.command(name="run")
@click.argument("plan_file", metavar="PLAN")
@data_option
@engine_option
@out_option
@journal_option
@seed_option
@click.option(
    "--reuse",
    metavar="JOURNAL",
    help="apply what an earlier run decided (its journal folder) to this delivery",
)
@click.option("--no-requirements", is_flag=True, help="publish although the plan requires nothing; the report says so")
@force_option
@dry_run_option
@common_options
def run_command(plan_file: str, as_json: bool, quiet: bool, **options: Any) -> None:
    """Carry out a plan and publish the release if its requirements hold.

    A plan without steps or requirements publishes only if it says so (`steps: none`, `requirements: none`).
    """
    from dataclasses import replace

    from discretion.errors import PlanError
    from discretion.release.journal import read_decisions
    from discretion.release.order import order_words
    from discretion.release.plan import Plan
    from discretion.release.release import check_places
    from discretion.release.report.summary import emptied

    plan = Plan.load(plan_file)
    if options["no_requirements"] and plan.requirements:
        raise PlanError("--no-requirements: the plan has requirements; take them out of it to publish without")
    plan = replace(plan, no_requirements=plan.no_requirements or options["no_requirements"])
    folder = options["out"] or (plan.resolve(plan.output.folder) if plan.output.folder else None)
    if folder is None:
        raise PlanError("the plan names no `output`; give --out FOLDER")
    journal = options["journal"] or (plan.resolve(plan.output.journal) if plan.output.journal else None)
    check_places(plan, folder, journal, overwrite=options["force"], seed_file=options["seed_file"])
    if options["dry_run"]:
        _dry_run(plan, options, as_json, quiet)
        return
    reuse = read_decisions(options["reuse"]) if options["reuse"] else None
    release = _carry_out(plan, options, quiet, reuse)
    if not as_json and not release.may_publish:
        report(release, as_json, {})
    release.require()
    public, private = release.write(folder, journal, overwrite=options["force"])
    report(release, as_json, {"folder": str(public), "journal": str(private)})
    say(order_words(release.plan.order, release.data), quiet)
    read_as = release.data.origin.dialect
    if read_as is not None and not read_as.encoding.startswith("utf-8"):
        say(f"text files are written in utf-8 (the data was read in {read_as.encoding})", quiet)
    if gone := emptied(release):
        say(
            f"nothing is left of {', '.join(gone)}: each has one value for all; others may keep more without them",
            quiet,
        )
    lacking = f" without {' and '.join(release.without)}" if release.without else ""
    say(f"published{lacking} in {public} (report: {public / 'report.html'}); private journal in {private}", quiet)


@click.command()
@click.argument("plan_file", metavar="PLAN")
@data_option
@engine_option
@click.option("--released", metavar="FILE", help="check this finished release against the plan's data and requirements")
@matching_options
@seed_option
@common_options
def check(plan_file: str, as_json: bool, quiet: bool, **options: Any) -> int:
    """Tell whether a plan's requirements hold; publish nothing. Exit code 4 if they do not."""
    from discretion.errors import RequirementNotMet
    from discretion.release.plan import Plan

    plan, matching = Plan.load(plan_file), take_matching(options)
    if options["released"]:
        release = _judge_file(plan, options["source"], options["released"], matching, quiet)
    else:
        release = _carry_out(plan, options, quiet, None)
    report(release, as_json, {})
    try:
        release.require()
    except RequirementNotMet as error:
        say(f"error: {error}")
        return error.exit_code
    say("all requirements hold" if release.findings else "nothing is required: the plan says so", quiet)
    return 0


def _carry_out(plan: Plan, options: Mapping[str, Any], quiet: bool, reuse: Any) -> Release:
    from dataclasses import replace
    from pathlib import Path

    from discretion.release.run import run_plan

    source = options["source"]
    if options["seed_file"]:
        plan = replace(plan, seed_file=str(Path(options["seed_file"]).absolute()))
    with progress_bar(quiet) as progress:
        if (where := take_engine(options)) is not None:
            from discretion.release.large import run_large, scan_data

            scan = scan_data(plan, source, **where)
            release: Release = run_large(plan, scan, reuse=reuse, progress=progress, publish=True)
        else:
            release = run_plan(
                plan, source, reuse=reuse, progress=progress, report=lambda text: say(text, quiet), publish=True
            )
    if plan.budget is not None:
        say(plan.budget.account(), quiet)
    if reused := sum(item.reused for item in release.study.done):
        say(f"{reused} of {len(release.study.done)} steps used what they decided on an earlier delivery", quiet)
    return release


def _judge_file(plan: Plan, source: str | None, released: str, matching: Matching, quiet: bool) -> Release:
    from dataclasses import replace

    from discretion.errors import RequirementNotMet
    from discretion.method import Decision
    from discretion.release.gate import check_publishable
    from discretion.release.plan import Step
    from discretion.release.run import check_data, check_plan, conclude
    from discretion.release.study import Done, Study
    from discretion.risk.identity.intruder import knowing_method

    check_plan(plan)
    original = plan.read(source, lambda text: say(text, quiet))
    check_data(original)
    reading = {key: value for key, value in plan.data.items() if key in ("delimiter", "decimal", "encoding")}
    data, _ = read_released(original, released, reading, matching, quiet)
    if left := [name for name in data.having("identifier") if name != matching.id_column]:
        raise RequirementNotMet(f"{released} holds identifiers: {', '.join(left)}")
    check_publishable(plan, original, data.columns, made=True)
    for step in plan.steps:
        data = data.after(step.method, data)  # an intruder who knows the plan's steps attacks it too
    if not plan.steps and plan.knows_method:
        known = tuple(replace(one, part=knowing_method(one.part, True)) for one in plan.requirements)
        plan = replace(plan, requirements=known)  # nobody says how it was made: see what fits
    study = Study(original, 0)
    elsewhere = Done(Step(_Elsewhere(), "elsewhere"), Decision.EMPTY, data)
    with progress_bar(quiet) as progress:
        return conclude(replace(plan, order="keep"), replace(study, done=(elsewhere,), progress=progress))


def _Elsewhere() -> Any:  # noqa: N802 - stands for a method
    from discretion.protect.identifiers import DropIdentifiers

    return DropIdentifiers()


def _dry_run(plan: Plan, options: Mapping[str, Any], as_json: bool, quiet: bool) -> None:
    from discretion.release.earlier import Earlier
    from discretion.release.gate import check_publishable
    from discretion.release.run import check_data, check_plan

    if (where := take_engine(options)) is not None:
        from discretion.release.large import prepared, scan_data

        data: Dataset = (scan := scan_data(plan, options["source"], **where))
        prepared(plan, scan, 0, publish=True)
    else:
        plan = Earlier.open(plan.made_from).started(plan) if plan.made_from else plan
        check_plan(plan)
        data = plan.read(options["source"], lambda text: say(text, quiet))
        check_data(data)
        check_publishable(plan, data, made=bool(plan.steps or plan.made_from))
    if as_json:
        print_json({"plan": "valid", "rows": len(data), "columns": list(data.columns)})
    say(f"the plan is valid: {len(plan.steps)} steps on {len(data):,} rows × {len(data.columns)} columns", quiet)


def report(release: Release, as_json: bool, places: dict[str, str]) -> None:
    """Print risk and utility before and after, what was found about columns, and the requirements."""
    from discretion.cli.assess import print_columns
    from discretion.release.published import published_columns, together, weight_lost
    from discretion.release.under_policy import policy_facts, waived, waiver_words

    columns = published_columns(release.data, release.attacks(), release.plan.confirmed_other)
    if as_json:
        content = {
            "records": release.records,
            "order": release.plan.order,
            "scores": [
                {"before": m.before.value if m.before else None, "after": m.after.value, "measure": m.measure.kind,
                 "family": m.measure.family, "better": m.after.better}
                for m in release.measured
            ],
            "requirements": [
                {"kind": f.kind, "holds": f.holds, "value": f.value, "text": f.explain(),
                 "attacker": f.attacker}
                for f in release.findings
            ],
            "notes": list(release.notes),
            "policy": None if release.plan.policy is None else policy_facts(release.plan.policy),
            "waivers": waived(release.plan),
            "previous": [one.to_dict() for one in release.combined],
            "edit_rules": [one.to_dict() for one in release.edit_checks],
            "averaging": [vars(found) for found in release.averaging],
            "attackers": [card.to_dict() for card in release.attackers()],
            "columns": [column.to_dict() for column in columns],
            **places,
        }  # fmt: skip
        print_json(content)
        return
    rows: list[tuple[str, ...]] = [
        (m.measure.family, m.measure.kind, shown(m.before.value if m.before else None), shown(m.after.value),
         ARROWS[m.after.better], m.after.meaning)
        for m in release.measured
    ]  # fmt: skip
    rows += [("", kind, "", "not run", "", reason) for kind, reason in release.not_run.items()]
    print_table(
        f"Risk and utility ({DIRECTIONS})", ("", "measure", "before", "after", "", "meaning"), rows, numeric=(2, 3)
    )
    print_columns(columns)
    if release.findings:
        verdicts = [("holds" if f.holds else "FAILS", f.explain(), f.attacker) for f in release.findings]
        print_table("Requirements", ("", "requirement", "assumed attacker"), verdicts)
    averaged = (found.explain(release.lineage.journals) for found in release.averaging)
    weights = () if release.is_private else weight_lost(release.study.original, release.data)
    explained = [*(one.explain() for one in release.edit_checks), *(one.explain() for one in release.combined)]
    for words in (*waiver_words(release.plan.waivers), *explained):
        say(words)
    lost = release.lineage.lost_words()
    notes = (f"warning: {words}" if words in lost else words for words in release.notes)
    unlimited = f"warning: {release.unlimited}" if release.unlimited else ""
    for words in filter(None, (unlimited, together(release.data), *weights, *notes, *averaged)):
        say(words)
