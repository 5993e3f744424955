"""`discretion roles IN`: propose a role for each column, with the reason, and write a plan to be read and confirmed."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import common_options, print_json, print_table, say
from discretion.cli.output_checks import check_files
from discretion.cli.schema_options import reading_options, take_reading

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.data.detect import Proposal


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
        _write_plan(source, data, proposals, Path(out), options)
        say(f"proposals written to {out}; read them, then set `confirmed: true`", quiet)
    if as_json:
        fields = ("column", "role", "roles", "type", "reason", "confidence", "distinct", "missing")
        print_json({"roles": [{name: getattr(p, name) for name in fields} for p in proposals]})
        return
    known = [p for p in proposals if "quasi" in p.roles]
    rows = [(p.column, ", ".join(p.roles), p.type, p.confidence, p.reason) for p in proposals]
    print_table(f"{len(data):,} rows", ("column", "role", "type", "confidence", "reason"), rows)
    if len(known) > _MANY:
        say(f"{len(known)} {_TOO_MANY}", quiet)


def _write_plan(source: str, data: Dataset, proposals: Sequence[Proposal], path: Path, options: dict[str, Any]) -> None:
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
            f"  path: {_quoted(source)}",
            *(f"  {k}: {json.dumps(v, ensure_ascii=False)}" for k, v in options.items()),
        ]
    else:
        lines.append(f"data: {_quoted(source)}")
    known = sum("quasi" in p.roles for p in proposals)
    lines += [
        "",
        *([f"# {known} {_TOO_MANY}"] if known > _MANY else []),
        "roles:",
        *(f"  {_quoted(p.column)}: {_listed(p.roles)}  # {p.confidence} confidence: {p.reason}" for p in proposals),
    ]
    lines += ["", "types:", *(f"  {_quoted(p.column)}: {p.type}" for p in proposals)]
    quasi = [p for p in proposals if "quasi" in p.roles]
    found = {p.column: rule for p in quasi if (rule := propose_hierarchy(data, p)) is not None}
    if found:
        lines += [
            "",
            "# What a value becomes at each level, from fine to coarse; after the last it is hidden (*). Categories",
            "# are put together by how rare they are: better, write groups that make sense,",
            "# `groups: {levels: [{married: [married, separated], not married: [single, widowed]}]}`.",
        ]
        lines += ["hierarchies:", *(f"  {_quoted(n)}: {json.dumps(r, ensure_ascii=False)}" for n, r in found.items())]
    lines += ["", *_protection(data, proposals), "", _output(source), ""]
    write_text(path, "\n".join(lines), overwrite=True)


def _output(source: str) -> str:
    """Write where the release goes; in the format that the data came in, so that labels of codes are kept."""
    from discretion.data.formats import EXTENSIONS
    from discretion.release.plan import OUTPUT_FORMATS

    found = EXTENSIONS.get(Path(source).suffix.lower(), "csv")
    kept = found != "csv" and found in OUTPUT_FORMATS
    return f"output: {{folder: release, format: {found}}}" if kept else "output: release"


def _protection(data: Dataset, proposals: Sequence[Proposal]) -> list[str]:
    """Write steps that reach k-anonymity, with two values of each confidential column in every class."""
    from discretion.data.detect import propose_importance

    quasi = any("quasi" in p.roles for p in proposals)
    confidential = [p for p in proposals if "sensitive" in p.roles and p.type != "set" and p.distinct > 1]
    lopsided = [p.column for p in confidential if _commonest(data, p.column) > _LOPSIDED]
    mixed = [p.column for p in confidential if p.column not in lopsided]
    models = [f"distinct-l-diversity: {{l: 2, sensitive: {_quoted(name)}}}" for name in mixed]
    models = ["k-anonymity: {k: 5}", *models] if quasi else []
    steps = ["  - drop-identifiers"] if any("identifier" in p.roles for p in proposals) else []
    steps += _swap([p.column for p in confidential if p.names_records]) if quasi else []
    worth = propose_importance(proposals)
    if models:
        steps += [
            "  - optimal-generalization:",
            "      suppression_limit: 0.05  # largest share of the records that may be dropped",
            "      models:",
            *(f"        - {model}" for model in models),
        ]
    if worth:
        steps += [
            "      # What the detail of a column is worth to users: what weighs little is given up first.",
            "      importance:",
            *(f"        {_quoted(name)}: {weight:g}" for name, weight in worth.items()),
        ]
    if worth and any("weight" in p.roles for p in proposals):
        by = [name for name, weight in worth.items() if weight == max(worth.values())]
        steps += [
            "  # An exact weight tells the stratum it was made for, and often the person.",
            f"  - reissue-weights: {{by: [{', '.join(map(_quoted, by))}], smallest: 5}}",
        ]
    return [
        *(
            ["steps:", *steps]
            if steps
            else ["# Nothing that identifies was found: values go out as they are.", "steps: none"]
        ),
        "",
        "# What must hold before anything is published.",
        *(
            f"# Nearly all records share one value of {_quoted(name)}, so that no class is asked for a second one: "
            "`group-attack` in the report tells what is learned."
            for name in (lopsided if quasi else [])
        ),
        *(["requirements:", *(f"  - {model}" for model in models)] if models else ["requirements: none"]),
    ]


def _commonest(data: Dataset, column: str) -> float:
    """Give the share of the records that have the most common value."""
    return float(data.codes(column).counts_and_rows[0].max() / len(data))


def _swap(columns: Sequence[str]) -> list[str]:
    """Write the step that moves numbers of which nearly each stands once in the file."""
    if not columns:
        return []
    return [
        "  # Most of these numbers stand once in the file: who knows the exact one of a person finds the record.",
        "  # Swapping with neighbors in rank keeps totals and distributions; leave it out if nobody can know them.",
        f"  - rank-swap: {{columns: [{', '.join(map(_quoted, columns))}], percent: 5}}",
    ]


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


_LOPSIDED = 0.9
_MANY = 10
_TOO_MANY = (
    "columns count as known to an intruder (quasi): no two people are alike in so many, and most will be hidden. "
    "Give those that nobody outside can know (answers, measurements) the role sensitive, and leave out what nobody "
    "needs."
)
_YAML_WORDS = {"y", "n", "yes", "no", "true", "false", "on", "off", "null"}
