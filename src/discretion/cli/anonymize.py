"""`discretion anonymize IN OUT`: the least lossy release that satisfies privacy models."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.apply import parse_field, write_released
from discretion.cli.assess import parse_part
from discretion.cli.console import (
    GIVE_HIERARCHY,
    all_or_nothing,
    check_outputs,
    common_options,
    print_json,
    print_table,
    progress_bar,
    say,
    shown,
)
from discretion.cli.schema_options import (
    engine_option,
    keep_order_option,
    order_file_option,
    read_with,
    schema_options,
    seed_option,
    source_options,
    take_engine,
    take_schema,
)
from discretion.errors import PlanError

if TYPE_CHECKING:
    from discretion.anonymize.solutions import Solution
    from discretion.data.dataset import Dataset
    from discretion.data.schema import Schema
    from discretion.method import Method
    from discretion.model import PrivacyModel
    from discretion.release.plan import Plan

_SEARCHES = ("optimal-generalization", "mondrian", "local-recoding")
_LOSSES = (
    "loss", "height", "precision-loss", "aecs", "discernibility", "discernibility-star", "entropy",
    "normalized-entropy", "entropy-based", "ambiguity", "kl", "kl-arx", "payout",
)  # fmt: skip
_AGGREGATES = ("geometric-mean", "mean", "sum", "max", "rank")
_SHORTCUTS = {"k": "k-anonymity", "l": "distinct-l-diversity", "t": "t-closeness"}
_SHOWN = 10
_LIMITS = (0.01, 0.02, 0.05)


@click.command(name="anonymize")
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@click.option("--k", type=int, help="k-anonymity over the quasi-identifiers")
@click.option("--l", type=int, help="distinct l-diversity of the sensitive columns")
@click.option("--t", type=float, help="t-closeness of the sensitive columns (ordered distance)")
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="KIND[:FIELDS]",
    help="any privacy model, for example 'entropy-l-diversity:{l: 3}'; may be given several times",
)
@click.option(
    "--search",
    type=click.Choice(_SEARCHES),
    default=_SEARCHES[0],
    show_default=True,
    help="one level per column (proven optimal), or levels that differ between records",
)
@click.option("--loss", type=click.Choice(_LOSSES), default="loss", show_default=True, help="what is minimized")
@click.option(
    "--suppression-limit",
    type=float,
    default=0.0,
    show_default=True,
    metavar="SHARE",
    help="largest share of the records that may be dropped",
)
@click.option("--importance", metavar="COLUMN=WEIGHT,…", help="weight of each column in the loss")
@click.option(
    "--aggregate", type=click.Choice(_AGGREGATES), help="how the columns' losses are put together; default: as is usual"
)
@click.option(
    "--suppression-factor",
    type=float,
    metavar="SHARE",
    help="0 favors suppression, 1 generalization; default: 0.5, neither",
)
@click.option("--levels", metavar="COLUMN=LEVEL,…", help="choose this node instead of the optimum")
@click.option(
    "--summarize",
    metavar="COLUMN=SUMMARY,…",
    help="give all records of a class one value: mean, geometric-mean, median, interval or set",
)
@click.option("--cluster", metavar="COLUMN,…", help="columns of --summarize whose hierarchies divide the classes too")
@click.option("--seconds", type=float, help="time limit of the search")
@click.option("--space", metavar="FILE", help="write the nodes looked at: a table (.csv) or a picture (.svg)")
@click.option("--step", "step_file", metavar="FILE", help="write the solution as a step of a plan (.yaml)")
@click.option(
    "--plan-out", metavar="FILE", help="write a whole plan that repeats this: `discretion run` carries it out"
)
@keep_order_option
@order_file_option
@seed_option
@click.option("--force", is_flag=True, help="overwrite files that exist")
@click.option("--dry-run", is_flag=True, help="search, but write nothing")
@engine_option
@schema_options
@source_options
@common_options
def anonymize(source: str, target: str, **options: Any) -> None:  # fmt: skip
    """Generalize the quasi-identifiers as little as privacy models allow."""
    from discretion.context import new_seed
    from discretion.release.run import read_seed

    quiet, as_json = options.pop("quiet"), options.pop("as_json")
    models = _models(options)
    left_out = _left_out(options["plan_file"])
    schema, reading = take_schema(options)
    outputs = (target, options["space"], options["step_file"], options["plan_out"], options["order_file"])
    if take_engine(options) is not None:
        _of_files(source, target, models, schema, reading, left_out, options, as_json, quiet)
        return
    check_outputs(*outputs, force=options["force"], as_json=as_json, dry_run=options["dry_run"])
    options["seed"] = read_seed(options["seed_file"]) if options["seed_file"] else new_seed()
    data = read_with(source, schema, reading, quiet)
    data = data.drop([name for name in left_out if name in data.columns])
    with all_or_nothing(*outputs):
        search = _best if options["search"] == _SEARCHES[0] else _local
        search(data, models, options, target, as_json, quiet)


def _of_files(
    source: str, target: str, models: list[PrivacyModel], schema: Schema, reading: dict[str, Any],
    left_out: Collection[str], options: dict[str, Any], as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Search on the counted classes of rows that stay in their files, and write a folder of Parquet parts."""
    from discretion.cli.console import check_files
    from discretion.context import new_seed
    from discretion.part import parse
    from discretion.release.large import scan_file, write_protected
    from discretion.release.run import read_seed

    refused = [name for name in ("plan_out", "step_file", "space", "summarize") if options[name]]
    if refused:
        named = f"--{refused[0].replace('_', '-')}"
        raise PlanError(f"{named} needs all rows in memory (`--engine memory`); `discretion run` writes reports")
    grouping = None if options["search"] == _SEARCHES[0] else _grouping(models, options)
    if grouping is not None:
        grouping.refuse_scan()
    check_files([name for name in (options["order_file"],) if name], force=options["force"])
    if Path(target).exists() and not options["dry_run"]:
        raise PlanError(f"{target!r} exists: rows in files are written as a new folder of parts; name another one")
    seed = read_seed(options["seed_file"]) if options["seed_file"] else new_seed()
    data = scan_file(source, schema, reading, **(take_engine(options) or {}))
    data = data.drop([name for name in left_out if name in data.columns])
    with progress_bar(quiet) as progress:
        solution = _solve(data, models, options, progress) if grouping is None else None
        method: Any = parse(solution.plan_step(), "method") if solution is not None else grouping
        sample = None
        if not options["dry_run"]:
            sample = write_protected(
                data, method, Path(target), seed=seed, order="keep" if options["keep_order"] else "permute",
                order_file=Path(options["order_file"]) if options["order_file"] else None, progress=progress,
            )  # fmt: skip
    _say_dropped(data, quiet)
    if solution is None:
        _tell_groups(method(data, seed=seed), models, options, as_json, stderr=False)
    else:
        _name_fixed(data, solution, quiet)
        gains = [] if options["levels"] else _gains(data, models, options, solution)
        _report(solution, gains, as_json, quiet, stderr=False)
    if sample is not None:
        _warn(sample, quiet)
        say(f"written: {target}", quiet)


def _left_out(plan_file: str | None) -> tuple[str, ...]:
    """Name the columns that the steps of a plan take out: who gives the plan for its roles wants them out here, too."""
    if plan_file is None:
        return ()
    from discretion.release.plan import Plan

    plan = Plan.load(plan_file)
    named = [name for step in plan.steps for name in step.method.removes(plan.schema)]
    return tuple(name for name in named if "identifier" not in plan.schema[name].roles)


def _best(
    data: Dataset, models: list[PrivacyModel], options: dict[str, Any], target: str, as_json: bool, quiet: bool
) -> None:
    with progress_bar(quiet) as progress:
        solution = _solve(data, models, options, progress)
    _name_fixed(data, solution, quiet)
    _say_dropped(data, quiet)
    written = _write(solution, data, target, options, quiet)
    gains = [] if options["levels"] else _gains(data, models, options, solution)
    _report(solution, gains, as_json, quiet, stderr=target == "-")
    _warn(solution.dataset, quiet)
    for path in written:
        say(f"written: {path}", quiet)


def _say_dropped(data: Dataset, quiet: bool) -> None:
    if names := data.having("identifier"):
        say(f"identifiers are left out: {', '.join(names)}", quiet)


def _warn(released: Dataset, quiet: bool) -> None:
    """Say what the models do not hide: values that whole classes share, and what other columns tell."""
    from discretion.release.published import (
        exact_values,
        published_columns,
        shared_values,
        to_look_at,
        together,
        weight_lost,
    )

    found = [f"{column.name}: {'; '.join(column.notes)}" for column in to_look_at(published_columns(released))]
    lost = weight_lost(released.origin, released)
    for words in filter(None, (*shared_values(released), *found, together(released), exact_values(released), *lost)):
        say(f"note: {words}", quiet)


def _models(options: dict[str, Any]) -> list[PrivacyModel]:
    from discretion.model import PrivacyModel
    from discretion.part import find

    found: list[Any] = []
    for name, kind in _SHORTCUTS.items():
        value = options.pop(name)
        if value is not None:
            found.append(find(kind)(**{name: value}))
    found += [parse_part(text, "--model", "model") for text in options.pop("models")]
    if not found:
        raise PlanError("give at least one privacy model: --k, --l, --t or --model")
    return [model for model in found if isinstance(model, PrivacyModel)]


def _solve(data: Dataset, models: list[PrivacyModel], options: dict[str, Any], progress: Any) -> Solution:
    from discretion.anonymize import anonymize as search

    importance = parse_field(options["importance"] or "", "Mapping", "--importance")
    solution = search(
        data,
        models,
        loss=options["loss"],
        suppression_limit=options["suppression_limit"],
        importance={name: float(weight) for name, weight in importance.items()},
        aggregate=options["aggregate"],
        suppression_factor=0.5 if options["suppression_factor"] is None else options["suppression_factor"],
        summarize=parse_field(options["summarize"] or "", "Mapping", "--summarize"),
        cluster=parse_field(options["cluster"] or "", "tuple", "--cluster"),
        seconds=options["seconds"],
        progress=progress,
    )
    if options["levels"]:
        chosen = {name: int(level) for name, level in parse_field(options["levels"], "Mapping", "--levels").items()}
        return solution.space.choose({**solution.levels, **chosen})
    return solution


def _gains(data: Dataset, models: list[PrivacyModel], options: dict[str, Any], found: Solution) -> list[Solution]:
    """Solve again with 1, 2 and 5 % of the records that may be dropped, where that is more than was allowed."""
    from discretion.context import ignore_progress

    more = [share for share in _LIMITS if share > options["suppression_limit"]]
    if options["seconds"] or not found.proven:
        return []
    return [_solve(data, models, {**options, "suppression_limit": share}, ignore_progress) for share in more]


def _name_fixed(data: Dataset, solution: Solution, quiet: bool) -> None:
    """Name the columns that the search could not generalize."""
    from discretion.anonymize.problem import without_hierarchy

    if fixed := without_hierarchy(data, solution.levels):
        say(f"note: {fixed}; {GIVE_HIERARCHY}", quiet)


def _write(solution: Solution, original: Dataset, target: str, options: dict[str, Any], quiet: bool) -> list[str]:
    """Write the data, the solution space and the plan step, as far as they were asked for."""
    if options["dry_run"]:
        return []
    from discretion.data.documents import to_yaml
    from discretion.data.write import write, write_text

    force = options["force"]
    write_released(solution.dataset, original, options["seed"], target, options, quiet)
    written = [target]
    if options["space"]:
        path = Path(options["space"])
        if path.suffix == ".svg":
            write_text(path, solution.space.picture(), overwrite=force)
        else:
            write(solution.space.table(), path, overwrite=force)
        written.append(str(path))
    if options["step_file"]:
        write_text(Path(options["step_file"]), to_yaml({"steps": [solution.plan_step()]}), overwrite=force)
        written.append(options["step_file"])
    if options["plan_out"]:
        _plan(solution).save(options["plan_out"])
        written.append(options["plan_out"])
    return written


def _plan(solution: Solution) -> Plan:
    """Give the plan that repeats a solution: roles and hierarchies, its levels as a step, its models as required."""
    from dataclasses import replace
    from types import MappingProxyType

    from discretion.data.schema import Schema
    from discretion.part import parse
    from discretion.protect.identifiers import DropIdentifiers
    from discretion.release.plan import Output, Plan, Requirement, Step
    from discretion.release.published import looks_telling

    data = solution.dataset.origin
    if not data.came_from:
        raise PlanError("--plan-out: data from standard input or a database address cannot be named in a plan")
    search: Any = parse(solution.plan_step(), "method")
    methods = [DropIdentifiers(), search] if data.having("identifier") else [search]
    steps = tuple(Step(method, f"{number}-{method.kind}") for number, method in enumerate(methods, 1))
    required = tuple(Requirement(model) for model in search.models)
    open_ = looks_telling(data, data.columns, unnamed=True)
    columns = {**data.schema.columns} | {
        one.column: replace(data.schema[one.column], roles=("sensitive",), has_role=True)
        for one in open_
        if one.role == "sensitive"
    }  # the others stop a run until somebody has decided
    return Plan(
        Schema(MappingProxyType(columns)), steps, requirements=required, data=data.came_from, output=Output("release")
    )


def _report(solution: Solution, gains: list[Solution], as_json: bool, quiet: bool, *, stderr: bool) -> None:
    classes = solution.classes
    if as_json:
        print_json(
            {
                "levels": solution.levels,
                "score": solution.score,
                "proven": solution.proven,
                "bound": solution.bound,
                "suppressed": solution.suppressed,
                "classes": {
                    "number": classes.number, "mean": classes.mean,
                    "smallest": classes.smallest, "largest": classes.largest,
                },
                "nodes": {"lattice": solution.space.nodes, "evaluated": len(solution.space)},
                "with_more_suppression": [
                    {"suppression_limit": share, "score": one.score, "suppressed": one.suppressed, "levels": one.levels}
                    for share, one in zip(_LIMITS[-len(gains):], gains, strict=True)
                ] if gains else [],
            }
        )  # fmt: skip
        return
    levels = [(name, str(level)) for name, level in solution.levels.items()]
    print_table("Levels", ("column", "level"), levels, (1,), stderr=stderr)
    table = solution.space.table()
    best = table.filter(table["status"].is_in(["optimal", "feasible"])).head(_SHOWN).iter_rows(named=True)
    names = list(solution.levels)
    rows = [
        (shown(row["score"]), str(row["k"] or "–"), f"{row['suppressed_share']:.2%}", row["status"],
         ", ".join(f"{name} {row[name]}" for name in names))
        for row in best
    ]  # fmt: skip
    title = f"The best solutions ({len(solution.space):,} of {solution.space.nodes:,} nodes were evaluated)"
    print_table(title, ("loss", "k", "suppressed", "status", "levels"), rows, (0, 1, 2), stderr=stderr)
    say(solution.words, quiet)
    if gains:
        records = solution.dataset.origin.records
        more = [
            (f"{share:.0%}", shown(one.score), f"{one.suppressed / records:.2%}",
             ", ".join(f"{name} {level}" for name, level in one.levels.items()))
            for share, one in zip(_LIMITS[-len(gains):], gains, strict=True)
        ]  # fmt: skip
        heads = ("limit", "loss", "suppressed", "levels")
        print_table("If more records might be dropped (--suppression-limit)", heads, more, (0, 1, 2), stderr=stderr)


def _refuse_foreign(options: dict[str, Any], known: Collection[str]) -> None:
    """Refuse options that the search chosen does not have; they would be ignored."""
    names = (
        "importance", "aggregate", "levels", "summarize", "cluster", "space", "step_file", "plan_out", "seconds",
    )  # fmt: skip
    given = {name: options[name] for name in names}
    given["suppression_factor"] = options["suppression_factor"] is not None
    given["suppression_limit"] = options["suppression_limit"]
    given["loss"] = options["loss"] != "loss"
    for name, value in given.items():
        if value and name not in known:
            option = name.removesuffix("_file").replace("_", "-")
            raise PlanError(f"--{option} does not go with --search {options['search']}; with {_SEARCHES[0]} it does")


def _grouping(models: list[PrivacyModel], options: dict[str, Any]) -> Method:
    """Give the search whose levels differ between records."""
    from discretion.method import Method
    from discretion.part import find

    kind = find(options["search"])
    _refuse_foreign(options, kind.model_fields)
    fields: dict[str, Any] = {"models": models}
    if options["suppression_limit"]:
        fields["suppression_limit"] = options["suppression_limit"]
    if options["loss"] != "loss":
        fields["loss"] = options["loss"]
    if options["importance"]:
        fields["importance"] = parse_field(options["importance"], "Mapping", "--importance")
    method = kind(**fields)
    if not isinstance(method, Method):
        raise PlanError(f"{options['search']} is not a method")
    return method


def _local(
    data: Dataset, models: list[PrivacyModel], options: dict[str, Any], target: str, as_json: bool, quiet: bool
) -> None:
    method = _grouping(models, options)
    with progress_bar(quiet) as progress:
        released = method(data, seed=options["seed"], progress=progress)
    released = released.drop(released.having("identifier"))
    _say_dropped(data, quiet)
    _warn(released, quiet)
    write_released(released, data, options["seed"], target, options, quiet)
    if not options["dry_run"]:
        say(f"written: {target}", quiet)
    _tell_groups(released, models, options, as_json, stderr=target == "-")


def _tell_groups(
    released: Dataset, models: list[PrivacyModel], options: dict[str, Any], as_json: bool, *, stderr: bool
) -> None:
    """Say how many records are left, and what the models say of them."""
    verdicts = [model(released) for model in models]
    if as_json:
        print_json({"rows": len(released), "suppressed": released.lost_records,
                    "models": [{"model": v.model, "holds": v.holds, "value": v.value} for v in verdicts]})  # fmt: skip
        return
    rows = [("holds" if v.holds else "FAILS", v.model, shown(v.value)) for v in verdicts]
    title = f"{options['search']}: {len(released):,} rows"
    print_table(title, ("", "model", "reached"), rows, (2,), stderr=stderr)
