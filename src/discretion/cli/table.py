"""`discretion table`: make, protect and publish a table; audit a table that was protected elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import common_options, print_json, print_table, progress_bar, say, shown
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
    from discretion.release.table_plan import TablePlan
    from discretion.release.table_run import TableRelease
    from discretion.tables.cells import Cells


class _PlanOrCommand(click.Group):
    """Takes a plan file where a group expects a command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_PlanOrCommand, name="table")
def table() -> None:
    """Make, protect, audit and publish a table (`table PLAN`), or audit one from elsewhere (`table audit FILE`)."""


@table.command(name="run")
@click.argument("plan_file", metavar="PLAN")
@data_option
@engine_option
@out_option
@journal_option
@seed_option
@click.option(
    "--override",
    metavar="REASON",
    help="publish although the audit or a requirement fails; the journal keeps the reason",
)
@force_option
@dry_run_option
@common_options
def run_table_command(plan_file: str, as_json: bool, quiet: bool, **options: Any) -> None:
    """Carry out a table plan and publish the table if its audit and its requirements hold."""
    from dataclasses import replace
    from pathlib import Path

    from discretion.release.table_plan import TablePlan
    from discretion.release.table_run import check_table_places

    plan = TablePlan.load(plan_file)
    if options["seed_file"]:
        plan = replace(plan, plan=replace(plan.plan, seed_file=str(Path(options["seed_file"]).absolute())))
    folder = options["out"] or plan.folder()
    journal = options["journal"] or (plan.resolve(plan.output.journal) if plan.output.journal else None)
    check_table_places(plan, folder, journal, overwrite=options["force"])
    if options["dry_run"]:
        _dry_run(plan, _source(plan, options), as_json, quiet)
        return
    with progress_bar(quiet) as progress:
        release = plan.run(_source(plan, options), progress=progress, report=lambda text: say(text, quiet))
    if options["override"] is not None and not release.holds:
        release = release.overridden(options["override"])
        say("published by override; the reason is in the journal", quiet)
    public, private = release.write(folder, journal, overwrite=options["force"])
    _report(release, as_json, {"folder": str(public), "journal": str(private)})
    say(f"published in {public}; private journal in {private}", quiet)


def _source(plan: TablePlan, options: dict[str, Any]) -> Any:
    """Give the file that was named, or the rows of it where they stay in their files."""
    if (where := take_engine(options)) is None:
        return options["source"]
    from discretion.release.large import scan_data

    plan.refuse_scan(remote=where["engine"] == "spark")
    return scan_data(plan.plan, options["source"], **where)


def _dry_run(plan: TablePlan, source: Any, as_json: bool, quiet: bool) -> None:
    from discretion.release.table_run import read_records

    data = read_records(plan, source, lambda text: say(text, quiet))
    by = plan.table["by"]
    names = [name for item in by for name in ([item] if isinstance(item, str) else item)]
    data.require([*names, *([plan.table["value"]] if plan.table.get("value") else [])])
    if as_json:
        print_json({"plan": "valid", "rows": len(data), "columns": list(data.columns)})
    say(f"the plan is valid: {plan.protection} on {len(data)} rows × {len(data.columns)} columns", quiet)


def _report(release: TableRelease, as_json: bool, places: dict[str, str]) -> None:
    if as_json:
        print_json(
            {
                "cells": len(release.cells),
                "suppressed": int(release.cells.suppressed.sum()),
                "protection": release.plan.protection,
                "verdicts": [vars(verdict) for verdict in release.verdicts],
                "override": release.override,
                "policy": None if release.plan.policy is None else release.plan.policy.name,
                "waivers": [one.model_dump(mode="json", exclude_defaults=True) for one in release.plan.waivers],
                "loss": dict(release.loss),
                **places,
            }
        )
        return
    if release.plan.policy is not None:
        from discretion.release.under_policy import policy_words, waiver_words

        for words in (*policy_words(release.plan.policy, ()), *waiver_words(release.plan.waivers)):
            say(words)
    rows = [(name.replace("_", " "), shown(float(value))) for name, value in release.loss.items()]
    print_table("Information loss", ("figure", "value"), rows, numeric=(1,))
    verdicts = [("holds" if verdict.holds else "FAILS", verdict.text) for verdict in release.verdicts]
    print_table("What must hold", ("", "finding"), verdicts)


@table.command(name="audit")
@click.argument("file", metavar="FILE")
@click.option(
    "--by",
    multiple=True,
    metavar="COLUMNS",
    help="classifying columns, separated by commas (not for .rda files); once for each of several linked tables",
)
@click.option("--value", metavar="COLUMN", help="column of the values; suppressed ones may be empty")
@click.option("--count", metavar="COLUMN", help="column of the numbers of respondents")
@click.option("--top", metavar="COLUMNS", help="columns of the largest contributions, separated by commas")
@click.option(
    "--status",
    metavar="COLUMN",
    help="column that says u (sensitive), x (suppressed for others), c (either), z or nothing",
)
@click.option("--hierarchy", multiple=True, metavar="NAME=FILE", help="hierarchy of a classifying column")
@click.option("--total", default="Total", show_default=True, help="code of the totals without a hierarchy")
@click.option(
    "--rule",
    multiple=True,
    metavar="RULE",
    help="rule that finds sensitive cells, as in a plan: `threshold:{minimum: 3}`",
)
@click.option(
    "--attacker",
    type=click.Choice(["outsider", "contributors"]),
    help="who attacks; without it also respondents, where they are known",
)
@click.option(
    "--coalition", type=click.IntRange(1), help="respondents that work together; without it as many as the rules say"
)
@click.option("--sums", is_flag=True, help="judge pairs of suppressed cells with a common total by the rules too")
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), help="stop after this time; what is open is undecided"
)
@common_options
def audit(file: str, as_json: bool, quiet: bool, **options: Any) -> int:
    """Tell whether the suppressed cells of a table can be computed back. Exit code 4 if one is not protected.

    FILE is a table of cells (CSV, Excel, Parquet …) or a τ-ARGUS .rda file with its .tab file.
    """
    from discretion.context import Context
    from discretion.errors import PlanError, RequirementNotMet

    rules = [_parsed(text) for text in options["rule"]]
    cells = _read(file, options, quiet)
    if rules:
        hidden = cells.suppressed
        cells = cells.apply_rules(rules)
        cells = cells.with_status(secondary=hidden & ~cells.primary)
    elif not cells.primary.any():
        raise PlanError(
            "no cell is sensitive, so that nothing can be audited; mark them u in --status, or give a --rule"
        )
    with progress_bar(quiet) as progress:
        found = cells.audit(
            rules=rules if options["sums"] else None,
            attacker=options["attacker"],
            coalition=options["coalition"],
            seconds=options["seconds"],
            ctx=Context(seed=0, step="audit", progress=progress),
        )
    if as_json:
        print_json({"holds": found.holds, "cells": found.counts, "summary": found.summary, "loss": found.loss})
    else:
        print_table(
            "Sensitive cells", ("status", "cells"), [(k, str(v)) for k, v in found.counts.items()], numeric=(1,)
        )
    say(found.summary, quiet)
    return 0 if found.holds else RequirementNotMet.exit_code


def _parsed(text: str) -> Any:
    from discretion.data.documents import yaml_value
    from discretion.errors import PlanError
    from discretion.part import parse

    kind, _, fields = text.partition(":")
    try:
        spec = yaml_value(fields) if fields.strip() else {}
    except ValueError:
        raise PlanError(f"--rule {text!r}: expected `kind:{{field: value}}`") from None
    return parse({kind.strip(): spec}, "rule")


def _read(file: str, options: dict[str, Any], quiet: bool) -> Cells:
    from discretion.data.read import read
    from discretion.errors import PlanError
    from discretion.tables.formats.argus import read_argus_table
    from discretion.tables.ready import from_cells

    if Path(file).suffix.lower() == ".rda":
        return read_argus_table(file)
    if not options["by"]:
        raise PlanError("give the classifying columns with --by")
    trees = dict(item.partition("=")[::2] for item in options["hierarchy"])
    if not all(trees.values()):
        raise PlanError("--hierarchy: expected NAME=FILE, the classifying column and its hierarchy")
    tables = [_listed(text) for text in options["by"]]
    return from_cells(
        read(file, report=lambda text: say(text, quiet)).frame,
        tables[0] if len(tables) == 1 else tables,
        options["value"],
        count=options["count"],
        top=_listed(options["top"] or ""),
        status=options["status"],
        hierarchies=trees,
        total=options["total"],
    )


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
