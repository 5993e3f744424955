"""`discretion tune PLAN`: try the settings of the plan's `tune` section and write the plan of the best."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import (
    ARROWS,
    DIRECTIONS,
    check_files,
    common_options,
    print_json,
    print_table,
    progress_bar,
    say,
    shown,
)
from discretion.cli.schema_options import data_option, seed_option

if TYPE_CHECKING:
    from discretion.release.plan import Plan
    from discretion.release.tune_result import TuneResult


@click.command()
@click.argument("plan_file", metavar="PLAN")
@data_option
@click.option("--out", metavar="PLAN", help="write the plan of the best setting here (.yaml, .toml or .json)")
@click.option(
    "--map", "maps", multiple=True, metavar="FILE", help="write the risk–utility map (.svg, or .html: interactive)"
)
@click.option("--seconds", type=float, metavar="N", help="time budget, instead of the plan's")
@click.option("--cache", metavar="FOLDER", help="private folder that keeps figures for the next call")
@seed_option
@click.option("--force", is_flag=True, help="overwrite files that exist")
@common_options
def tune(plan_file: str, as_json: bool, quiet: bool, **options: Any) -> None:
    """Try methods and parameters; give the best utility under a limit of risk, or the least risk.

    The plan's `tune` section has `methods` with grids, `risk`, `utility`, and `max_risk` or `min_utility`; its `steps`
    come before every setting. Exit code 5 if no setting keeps the limit.
    """
    from discretion.release.plan import Plan
    from discretion.release.run import read_seed
    from discretion.release.tune import tune_plan

    plan = Plan.load(plan_file)
    _check_files(options["out"], options["maps"], options["force"])
    seed = read_seed(options["seed_file"]) if options["seed_file"] else None
    with progress_bar(quiet) as progress:
        result = tune_plan(
            plan, options["source"], seed=seed, seconds=options["seconds"], cache=options["cache"], progress=progress,
            report=lambda text: say(text, quiet),
        )  # fmt: skip
    for file in options["maps"]:
        _write_map(result, Path(file), plan.title or Path(plan_file).stem, options["force"])
        say(f"wrote {file} (not for publication)", quiet)
    if as_json:
        print_json(result.to_dict())
    else:
        _print(result)
    _conclude(result, plan, options, quiet)


def _check_files(out: str | None, maps: tuple[str, ...], force: bool) -> None:
    """Refuse wrong names before any work is done."""
    from discretion.errors import PlanError

    wrong = [name for name in maps if Path(name).suffix.lower() not in (".svg", ".html")]
    problems = [f"--map {name!r}: a map ends in .svg or .html" for name in wrong]
    if out is not None and Path(out).suffix.lower() not in (".yaml", ".yml", ".toml", ".json"):
        problems.append(f"--out {out!r}: a plan ends in .yaml, .yml, .toml or .json")
    if problems:
        raise PlanError(problems)
    check_files([*maps, *([out] if out else [])], force=force)


def _write_map(result: TuneResult, path: Path, title: str, force: bool) -> None:
    from discretion.data.write import write_text

    text = result.svg() if path.suffix.lower() == ".svg" else result.page(title)
    write_text(path, text, overwrite=force)


def _conclude(result: TuneResult, plan: Plan, options: dict[str, Any], quiet: bool) -> None:
    """Write the plan of the best setting; without a limit there is none to write."""
    from discretion.errors import PlanError
    from discretion.release.tune_space import CONFIDENCE, KEPT_SHARE

    if result.untouched:
        say(f"no method changes {', '.join(result.untouched)}: the figures include them unchanged", quiet)
    for point in result.points:
        if point.unmet:
            say(f"not chosen, does not meet the plan's requirements ({', '.join(point.unmet)}): {point.label}", quiet)
    for setting in result.not_tried:
        say(f"not tried for lack of time: {setting.label}", quiet)
    for setting in result.not_confirmed:
        say(f"not repeated on all rows for lack of time: {setting.label}", quiet)
    if result.max_risk is None and result.min_utility is None:
        if options["out"]:
            raise PlanError("no plan was written: the `tune` section has no limit (`max_risk` or `min_utility`)")
        return
    best = result.best
    say(f"best under the limit ({result.limit}): {best.label}", quiet)
    drawn = f"{best.draws} fresh draws" if best.draws > 2 else "nothing is drawn"
    say(f"with {CONFIDENCE:.0%} confidence at least {KEPT_SHARE:.0%} of fresh draws keep it ({drawn})", quiet)
    if options["out"]:
        like = plan if options["source"] is None else plan.with_data(options["source"])
        result.plan(like=like).save(options["out"])
        say(f"wrote {options['out']}; carry it out with: discretion run {options['out']}", quiet)


def _print(result: TuneResult) -> None:
    table = result.table()
    rows = [
        (
            shown(row["risk"]),
            f"± {shown(row['risk_spread'])}" + ("†" if row["risk_low"] is not None else ""),
            shown(row["utility"]),
            f"± {shown(row['utility_spread'])}",
            "front" if row["on_front"] else "",
            "requirements" if row["unmet"] else {True: "keeps", False: "breaks", None: "sample"}[row["keeps_limit"]],
            row["setting"],
        )
        for row in table.iter_rows(named=True)
    ]
    heads = ("risk ↓", "", f"utility {ARROWS[result.utility.better]}", "", "", "limit", "setting")
    title = f"risk: {result.risk.title}; utility: {result.utility.title} ({DIRECTIONS})"
    print_table(title, heads, rows, numeric=(0, 2))
    if any(point.risk_interval is not None for point in result.points):
        say("† found by looking for some people drawn at random (--json has the intervals); the best: for everybody")
    if result.failed:
        print_table(
            "not carried out", ("setting", "reason"), [(one.setting.label, one.reason) for one in result.failed]
        )
