"""Options that tell how a data file is read, and its roles, types and hierarchies; for commands without a plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import say
from discretion.errors import PlanError

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.data.schema import Schema


def structured(text: str, option: str) -> Any:
    """Read a list or a mapping as a plan writes it; an error names the option."""
    from discretion.data.documents import yaml_value

    try:
        return json.loads(text)
    except json.JSONDecodeError:
        pass
    try:
        return yaml_value(text)
    except ValueError as error:
        raise PlanError(f"{option}: not valid YAML or JSON: {text!r} ({error})") from None


def pairs_of(given: Sequence[str], option: str, shape: str) -> dict[str, Any]:
    """Read options of the form NAME=VALUE, or a mapping of them, into one mapping."""
    found: dict[str, Any] = {}
    for text in given:
        if text.lstrip().startswith("{"):
            pairs = structured(text, option)
            if not isinstance(pairs, dict):
                raise PlanError(f"{option} {text!r}: expected {shape}")
            found |= {str(name): value for name, value in pairs.items()}
            continue
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise PlanError(f"{option} {text!r}: expected {shape}")
        found[name.strip()] = value.strip()
    return found


data_option = click.option(
    "--data", "source", metavar="FILE", help="read this file instead of the plan's (`-`: standard input)"
)
_ENGINE = (
    click.option(
        "--engine", type=click.Choice(["memory", "duckdb", "spark"]), default="memory", show_default=True,
        help="where rows are worked on; duckdb, spark: they stay in their Parquet files, and may be more than memory "
        "holds; spark: by the machines of a cluster, which must see these files and TMPDIR",
    ),
    click.option(
        "--memory", metavar="SIZE", default="4GB", show_default=True,
        help="what duckdb may keep before it spills, or the Java process of Spark on this machine",
    ),
    click.option(
        "--master", metavar="MASTER", help="with --engine spark: the cluster, as Spark names it; default: local[2]"
    ),
)  # fmt: skip


def engine_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where rows are worked on."""
    for option in reversed(_ENGINE):
        command = option(command)
    return command


def take_engine(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Say where rows that stay in their files are worked on; None where all are read into memory."""
    if options["master"] is not None and options["engine"] != "spark":
        raise PlanError("--master names a Spark cluster: give --engine spark, too")
    return None if options["engine"] == "memory" else {name: options[name] for name in ("engine", "memory", "master")}


out_option = click.option(
    "--out", metavar="FOLDER", help="public folder of the release, instead of the plan's `output`"
)
journal_option = click.option(
    "--journal", metavar="FOLDER", help="private folder; default: beside the public one, with `-private` added"
)
seed_option = click.option(
    "--seed-file", metavar="FILE", help="file with the seed (a secret); default: a new random seed"
)
keep_order_option = click.option(
    "--keep-order",
    is_flag=True,
    help="leave the rows in the order of IN, which can tell values; default: a random order",
)
order_file_option = click.option(
    "--order-file", metavar="FILE",
    help="also write the place in IN of each row of OUT (a secret, .npy); `assess --journal` takes it",
)  # fmt: skip
force_option = click.option("--force", is_flag=True, help="overwrite the folders if they exist")
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="check the plan and the data's columns, but make and write nothing"
)


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

_ROLES = ("identifier", "quasi", "sensitive", "weight", "household", "unit", "stratum", "geography")
_TEXT: tuple[Decorator, ...] = (
    click.option("--delimiter", help="delimiter of text files, instead of the one found"),
    click.option("--decimal", help="decimal mark of text files, instead of the one found"),
    click.option("--encoding", help="encoding of text files, instead of the one found"),
    click.option("--quote", help="quote of text files, instead of the one found; '': nothing is quoted"),
    click.option("--header/--no-header", default=None, help="whether the first row has the names of the columns"),
)
_SOURCE: tuple[Decorator, ...] = (
    click.option("--format", metavar="FORMAT", help="format of IN, instead of the one its name says"),
    click.option("--sheet", metavar="NAME", help="sheet of a workbook, instead of the first"),
    click.option("--table", metavar="NAME", help="table of a database"),
    click.option("--query", metavar="SELECT", help="query of a database, instead of a table"),
)
_READING = ("delimiter", "decimal", "encoding", "quote", "header", "format", "sheet", "table", "query")


def _all(decorators: tuple[Decorator, ...]) -> Decorator:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return add


source_options = _all(_SOURCE)
"""Further options that tell how the only input of a command is read."""

reading_options = _all((*_TEXT, *_SOURCE))
"""All options that tell how the only input of a command is read."""

missing_codes_option = click.option(
    "--missing-codes", multiple=True, metavar="COLUMN=CODE",
    help="values of a column that stand for missing ones, with | between several: 'income=NA|-9'",
)  # fmt: skip
"""Option for values that stand for missing ones."""

schema_options = _all(
    (
        click.option("--plan", "plan_file", metavar="PLAN", help="take roles and hierarchies from this plan file"),
        *(
            click.option(f"--{role}", metavar="COLUMNS", help=f"columns with the role {role}, separated by commas")
            for role in _ROLES
        ),
        click.option(
            "--hierarchy", multiple=True, metavar="COLUMN=SPEC",
            help="hierarchy of a column: a CSV file, or a rule: 'age={intervals: {width: 5, levels: 4}}'",
        ),
        click.option(
            "--hierarchies", "hierarchy_folder", metavar="FOLDER",
            help="folder with a file COLUMN.csv (or …hierarchy_COLUMN.csv) for each column that has a hierarchy",
        ),
        click.option(
            "--type", "types", multiple=True, metavar="COLUMN=TYPE",
            help="type of a column: continuous, ordinal, nominal, set or date",
        ),
        missing_codes_option,
        *_TEXT,
    )
)  # fmt: skip
"""Options for roles, types, hierarchies and missing codes, and for the dialect of text files."""


def take_reading(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options that tell how a file is read out of a command's options."""
    given = {key: options.pop(key, None) for key in _READING}
    if isinstance(given["sheet"], str) and given["sheet"].isdigit():
        given["sheet"] = int(given["sheet"])
    return {key: value for key, value in given.items() if value is not None}


def take_missing_codes(options: dict[str, Any]) -> dict[str, Any]:
    """Take the values that stand for missing ones out of a command's options, by column."""
    codes = pairs_of(options.pop("missing_codes", ()), "--missing-codes", "COLUMN=CODE")
    return {name: text.split("|") if isinstance(text, str) else text for name, text in codes.items()}


def take_schema(options: dict[str, Any]) -> tuple[Schema, dict[str, Any]]:
    """Take the schema and the reading options out of a command's options."""
    roles: dict[str, list[str]] = {}
    for role in _ROLES:
        for name in _names(options.pop(role, None)):
            roles.setdefault(name, []).append(role)
    hierarchies = _in_folder(options.pop("hierarchy_folder", None))
    hierarchies |= dict(_hierarchy(text) for text in options.pop("hierarchy", ()))
    types = pairs_of(options.pop("types", ()), "--type", "COLUMN=TYPE")
    given = _built(roles, types, hierarchies, take_missing_codes(options))
    reading = take_reading(options)
    plan_file = options.pop("plan_file", None)
    if plan_file is None:
        return given, reading
    from discretion.release.plan import Plan

    plan = Plan.load(plan_file)
    return plan.schema.overlaid(given), {
        **{k: v for k, v in plan.data.items() if k not in ("path", "table", "query")}, **reading,
    }  # fmt: skip


_OPTIONS = {"roles": "role of", "types": "--type", "hierarchies": "--hierarchy", "missing_codes": "--missing-codes"}


def _built(
    roles: Mapping[str, object], types: Mapping[str, Any], hierarchies: Mapping[str, Any], missing: Mapping[str, Any]
) -> Schema:
    """Build the schema; faults name the option."""
    from discretion.data.schema import Schema

    try:
        return Schema.build(roles, types, hierarchies, missing)
    except PlanError as error:
        places = [text.partition(".") for text in error.problems]
        raise PlanError([f"{_OPTIONS.get(part, part)} {rest}" for part, _, rest in places]) from None


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()] if text else []


def _hierarchy(text: str) -> tuple[str, Any]:
    column, sign, spec = text.partition("=")
    if not sign or not spec:
        raise PlanError(f"--hierarchy {text!r}: expected COLUMN=FILE or COLUMN={{rule}}")
    if spec.lstrip().startswith(("{", "[")):
        return column, structured(spec, f"--hierarchy {column}")
    return column, str(Path(spec))


def _in_folder(folder: str | None) -> dict[str, Any]:
    """Find the hierarchy files of a folder; the column is what the name says, after `hierarchy_` where that stands."""
    if folder is None:
        return {}
    if not Path(folder).is_dir():
        raise PlanError(f"--hierarchies: no folder {folder!r}")
    files = sorted(Path(folder).glob("*.csv"))
    marked = [file for file in files if "hierarchy_" in file.stem]
    if not files:
        raise PlanError(f"--hierarchies: no file COLUMN.csv or …hierarchy_COLUMN.csv in {folder!r}")
    return {file.stem.rpartition("hierarchy_")[2]: str(file) for file in marked or files}


def read_with(path: str, schema: Schema, reading: dict[str, Any], quiet: bool, *, partial: bool = False) -> Dataset:
    """Read a file and give it a schema; `partial` leaves out columns the file does not have."""
    from discretion.data.read import read_as

    return read_as(path, schema, partial=partial, report=lambda text: say(f"{path}: {text}", quiet), **reading)
