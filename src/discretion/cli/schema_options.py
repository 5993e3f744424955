"""Options that give a data file its roles and hierarchies, shared by commands that read data without a plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import say
from discretion.errors import PlanError

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.data.schema import Schema

_ROLES = ("identifier", "quasi", "sensitive", "weight", "household", "stratum", "geography")


def schema_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add options for roles, hierarchies and the dialect of text files."""
    for role in reversed(_ROLES):
        function = click.option(
            f"--{role}", metavar="COLUMNS", help=f"columns with the role {role}, separated by commas"
        )(function)
    function = click.option(
        "--plan", "plan_file", metavar="PLAN", help="take roles and hierarchies from this plan file"
    )(function)
    function = click.option(
        "--hierarchy", multiple=True, metavar="COLUMN=SPEC",
        help='hierarchy of a column: a CSV file, or a rule as JSON: \'age={"intervals": {"width": 5, "levels": 4}}\'',
    )(function)  # fmt: skip
    function = click.option("--encoding", help="encoding of text files, instead of the one found")(function)
    function = click.option("--decimal", help="decimal mark of text files, instead of the one found")(function)
    return click.option("--delimiter", help="delimiter of text files, instead of the one found")(function)


def take_schema(options: dict[str, Any]) -> tuple[Schema, dict[str, Any]]:
    """Take the schema and the reading options out of a command's options."""
    from discretion.data.schema import Schema

    roles: dict[str, list[str]] = {}
    for role in _ROLES:
        for name in _names(options.pop(role, None)):
            roles.setdefault(name, []).append(role)
    hierarchies = dict(_hierarchy(text) for text in options.pop("hierarchy"))
    reading = {key: value for key in ("delimiter", "decimal", "encoding") if (value := options.pop(key)) is not None}
    plan_file = options.pop("plan_file")
    if plan_file is None:
        return Schema.build(roles=roles, hierarchies=hierarchies), reading
    from discretion.release.plan import Plan

    plan = Plan.load(plan_file)
    given = Schema.build(roles=roles, hierarchies=hierarchies)
    return Schema({**plan.schema.columns, **given.columns}), {
        **{k: v for k, v in plan.data.items() if k not in ("path", "table", "query")}, **reading,
    }  # fmt: skip


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()] if text else []


def _hierarchy(text: str) -> tuple[str, Any]:
    column, sign, spec = text.partition("=")
    if not sign or not spec:
        raise PlanError(f"--hierarchy {text!r}: expected COLUMN=FILE or COLUMN={{rule}}")
    if spec.lstrip().startswith("{"):
        try:
            return column, json.loads(spec)
        except json.JSONDecodeError as error:
            raise PlanError(f"--hierarchy {column}: not valid JSON ({error})") from None
    return column, str(Path(spec))


def read_with(path: str, schema: Schema, reading: dict[str, Any], quiet: bool, *, partial: bool = False) -> Dataset:
    """Read a file and give it a schema; `partial` leaves out columns the file does not have."""
    from discretion.data.dataset import Dataset
    from discretion.data.read import read

    data = read(path, report=lambda text: say(f"{path}: {text}", quiet), **reading)
    chosen = schema.only(data.columns) if partial else schema
    for name, column in data.schema.columns.items():
        chosen = chosen.with_column(name, label=column.label, value_labels=column.value_labels)
    return Dataset(data.frame, schema=chosen)
