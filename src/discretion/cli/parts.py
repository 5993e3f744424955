"""`discretion parts`: what there is, and what each part takes."""

from __future__ import annotations

import inspect
from typing import Any

import click

from discretion.cli.console import common_options, print_json, print_table

_TITLES = {
    "method": "Methods",
    "model": "Privacy models",
    "risk": "Measures of risk",
    "utility": "Measures of utility",
    "rule": "Rules for cells of tables",
    "table-protection": "Protections of tables",
    "table-engine": "Engines of cell suppression",
}


@click.command()
@click.argument("kind", required=False)
@common_options
def parts(kind: str | None, as_json: bool, quiet: bool) -> None:  # noqa: ARG001
    """List methods, models and measures, or describe one of them."""
    if kind is None:
        _list(as_json)
    else:
        _describe(kind, as_json)


def _list(as_json: bool) -> None:
    from discretion.part import IndexEntry, find, index

    def family(entry: IndexEntry) -> str:
        return entry.family or find(entry.kind).family

    def summary(entry: IndexEntry) -> str:
        return entry.summary or find(entry.kind).summary()

    entries = list(index().values())
    if as_json:
        print_json(
            {"parts": [{"kind": e.kind, "name": e.name, "family": family(e), "summary": summary(e)} for e in entries]}
        )
        return
    for name, title in _TITLES.items():
        rows = [(e.kind, summary(e)) for e in entries if family(e) == name]
        print_table(title, ("kind", "what it does"), rows)


def _describe(kind: str, as_json: bool) -> None:
    from discretion.part import IN_FILES, find, is_confidential

    part = find(kind)
    if as_json:
        facts = {"name": part.__name__, "family": part.family, "scale": part.scale}
        print_json({"kind": kind, **facts, "schema": part.model_json_schema()})
        return
    click.echo(f"{kind} ({part.__name__})\n\n{inspect.cleandoc(part.documentation())}\n")
    click.echo(f"Rows that stay in their files (scale {part.scale}): {IN_FILES[part.scale]}.\n")
    rows: list[tuple[str, str, str]] = []
    for name, field in part.model_fields.items():
        default: Any = "required" if field.is_required() else repr(field.get_default(call_default_factory=True))
        mark = " (confidential)" if is_confidential(field) else ""
        rows.append((name, str(default), part.about(name) + mark))
    print_table("Fields", ("field", "default", "meaning"), rows)
