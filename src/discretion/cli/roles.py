"""`discretion roles IN`: propose a role for each column, with the reason, and write a plan to be read and confirmed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from discretion.cli.console import common_options, print_json, print_table, say
from discretion.cli.output_checks import check_files
from discretion.cli.schema_options import reading_options, take_reading


@click.command()
@click.argument("source", metavar="IN")
@click.option("--out", "-o", metavar="PLAN", help="write the proposals to this plan file, to be read and confirmed")
@click.option("--force", is_flag=True, help="overwrite the plan file if it exists")
@reading_options
@common_options
def roles(source: str, out: str | None, force: bool, as_json: bool, quiet: bool, **reading: Any) -> None:
    """Propose roles for the columns of a file, with the reasons."""
    from discretion.data.detect import propose
    from discretion.data.read import read

    options = take_reading(reading)
    if out is not None:
        check_files([out], force=force)
    data = read(source, report=lambda text: say(f"{source}: {text}", quiet), **options)
    proposals = propose(data)
    if out is not None:
        _write_plan(source, proposals, Path(out), options)
        say(f"proposals written to {out}; read them, then set `confirmed: true`", quiet)
    if as_json:
        fields = ("column", "role", "roles", "type", "reason", "confidence", "distinct", "missing")
        print_json({"roles": [{name: getattr(p, name) for name in fields} for p in proposals]})
        return
    rows = [(p.column, ", ".join(p.roles), p.type, p.confidence, p.reason) for p in proposals]
    print_table(f"{len(data):,} rows", ("column", "role", "type", "confidence", "reason"), rows)


def _write_plan(source: str, proposals: Sequence[Any], path: Path, options: dict[str, Any]) -> None:
    from discretion.data.atomic import write_text

    if "://" not in source and source != "-":
        source = os.path.relpath(source, path.parent)
    lines = [
        "# Proposed by `discretion roles`. Read every line, correct it, then set `confirmed: true`:",
        "# a plan whose roles are not confirmed does not run.",
        "confirmed: false",
        "",
    ]
    if options:
        lines += [
            "data:",
            f"  path: {_quoted(source)}",
            *(f"  {k}: {json.dumps(v, ensure_ascii=False)}" for k, v in options.items()),
        ]
    else:
        lines.append(f"data: {_quoted(source)}")
    lines += [
        "",
        "roles:",
        *(f"  {_quoted(p.column)}: {_listed(p.roles)}  # {p.confidence} confidence: {p.reason}" for p in proposals),
    ]
    lines += ["", "types:", *(f"  {_quoted(p.column)}: {p.type}" for p in proposals)]
    lines += ["", "steps:", "  - drop-identifiers", "", "requirements: []", "", "output: release", ""]
    write_text(path, "\n".join(lines), overwrite=True)


def _listed(roles: Sequence[str]) -> str:
    return roles[0] if len(roles) == 1 else f"[{', '.join(roles)}]"


def _quoted(text: object) -> str:
    """Write text so that YAML reads it back as text."""
    plain = str(text)
    return (
        plain
        if plain.replace("_", "").isalpha() and plain.lower() not in _YAML_WORDS
        else json.dumps(plain, ensure_ascii=False)
    )


_YAML_WORDS = {"y", "n", "yes", "no", "true", "false", "on", "off", "null"}
