"""`discretion roles IN`: propose a role for each column, with the reason, and write a plan to be read and confirmed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import common_options, print_json, print_table, say
from discretion.cli.output_checks import check_files
from discretion.cli.proposed_steps import ProposedProtection, quoted
from discretion.cli.schema_options import missing_codes_option, reading_options, take_missing_codes, take_reading

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.data.detect import Proposal


@click.command()
@click.argument("source", metavar="IN")
@click.option("--out", "-o", metavar="PLAN", help="write the proposals to this plan file, to be read and confirmed")
@click.option("--force", is_flag=True, help="overwrite the plan file if it exists")
@missing_codes_option
@reading_options
@common_options
def roles(source: str, out: str | None, force: bool, as_json: bool, quiet: bool, **reading: Any) -> None:
    """Propose roles for the columns of a file, with the reasons."""
    from discretion.data.detect import propose
    from discretion.data.missing_codes import with_missing
    from discretion.data.read import read

    given = take_missing_codes(reading)
    options = take_reading(reading)
    if out is not None:
        check_files([out], force=force)
    data = read(source, missing_codes=given, report=lambda text: say(f"{source}: {text}", quiet), **options)
    proposals = propose(data)
    found = {p.column: p.missing_codes for p in proposals if p.missing_codes}
    if out is not None:
        _write_plan(source, with_missing(data, found), proposals, Path(out), options, {**given, **found})
        say(f"proposals written to {out}; read them, then set `confirmed: true`", quiet)
    if as_json:
        fields = ("column", "role", "roles", "type", "reason", "confidence", "distinct", "missing", "missing_codes")
        print_json({"roles": [{name: getattr(p, name) for name in fields} for p in proposals]})
        return
    known = [p for p in proposals if "quasi" in p.roles]
    rows = [(p.column, ", ".join(p.roles), p.type, p.confidence, p.reason) for p in proposals]
    print_table(f"{len(data):,} rows", ("column", "role", "type", "confidence", "reason"), rows)
    if found:
        listed = "; ".join(f"{name}: {', '.join(map(str, codes))}" for name, codes in found.items())
        say(f"taken for codes of missing values, which the plan lists under `missing_codes`: {listed}", quiet)
    if len(known) > _MANY:
        say(f"{len(known)} {_TOO_MANY}", quiet)


def _write_plan(
    source: str,
    data: Dataset,
    proposals: Sequence[Proposal],
    path: Path,
    options: dict[str, Any],
    codes: Mapping[str, Sequence[object]],
) -> None:
    from discretion.data.atomic import write_text
    from discretion.data.detect import propose_hierarchy

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
            f"  path: {quoted(source)}",
            *(f"  {k}: {json.dumps(v, ensure_ascii=False)}" for k, v in options.items()),
        ]
    else:
        lines.append(f"data: {quoted(source)}")
    known = sum("quasi" in p.roles for p in proposals)
    lines += [
        "",
        *([f"# {known} {_TOO_MANY}"] if known > _MANY else []),
        "roles:",
        *(f"  {quoted(p.column)}: {_listed(p.roles)}  # {p.confidence} confidence: {p.reason}" for p in proposals),
    ]
    lines += ["", "types:", *(f"  {quoted(p.column)}: {p.type}" for p in proposals)]
    if codes:
        lines += [
            "",
            "# Numbers that stand for missing values. Take out what is a value: listed here, it is none to any step or",
            "# attack; a column that no step changes goes out as it came in, codes and all.",
            "missing_codes:",
            *(f"  {quoted(name)}: {json.dumps(list(listed), ensure_ascii=False)}" for name, listed in codes.items()),
        ]
    quasi = [p for p in proposals if "quasi" in p.roles]
    found = {p.column: rule for p in quasi if (rule := propose_hierarchy(data, p)) is not None}
    protection = ProposedProtection(data, proposals)
    found |= protection.hierarchies
    if found:
        lines += [
            "",
            "# What a value becomes at each level, from fine to coarse; after the last it is hidden (*). Categories",
            "# are put together by how rare they are: better, write groups that make sense,",
            "# `groups: {levels: [{married: [married, separated], not married: [single, widowed]}]}`.",
        ]
        lines += ["hierarchies:", *(f"  {quoted(n)}: {json.dumps(r, ensure_ascii=False)}" for n, r in found.items())]
    lines += ["", *protection.lines(), "", _output(source), ""]
    write_text(path, "\n".join(lines), overwrite=True)


def _output(source: str) -> str:
    """Write where the release goes; in the format that the data came in, so that labels of codes are kept."""
    from discretion.data.formats import EXTENSIONS
    from discretion.release.plan import OUTPUT_FORMATS

    found = EXTENSIONS.get(Path(source).suffix.lower(), "csv")
    kept = found != "csv" and found in OUTPUT_FORMATS
    return f"output: {{folder: release, format: {found}}}" if kept else "output: release"


def _listed(roles: Sequence[str]) -> str:
    return roles[0] if len(roles) == 1 else f"[{', '.join(roles)}]"


_MANY = 10
_TOO_MANY = (
    "columns count as known to an intruder (quasi): no two people are alike in so many, and most will be hidden. "
    "Give those that nobody outside can know (answers, measurements) the role sensitive, and leave out what nobody "
    "needs."
)
