"""`discretion ledger`: check that nothing was changed, and write it out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from discretion.cli.console import common_options, print_json, say
from discretion.errors import DataError, PlanError, RequirementNotMet

if TYPE_CHECKING:
    from discretion.online.ledger import Entry, Ledger


@click.group()
def ledger() -> None:
    """Check or export the ledger of an on-line service.

    A ledger is a SQLite file, sqlite:///path, postgresql://user@host/base or an export (.jsonl).
    """


@ledger.command()
@click.argument("target")
@click.option("--head", "head_text", metavar="NUMBER:HASH", help="a head kept elsewhere; finds a lost end too")
@click.option("--name", default="discretion_ledger", show_default=True, help="name of the table in PostgreSQL")
@common_options
def verify(target: str, head_text: str | None, name: str, as_json: bool, quiet: bool) -> int:
    """Find entries that were changed, removed or moved; exit code 4 if there are any.

    Prints the head (number and hash of the last entry): keep it elsewhere and check against it later.
    """
    from discretion.online.ledger import Head, verify_chain

    expected = Head.parse(head_text) if head_text is not None else None
    if target.endswith(".jsonl"):
        found = verify_chain(_exported(Path(target)), expected)
    else:
        with _open(target, name) as opened:
            found = opened.verify(expected)
    if as_json:
        about = {"entries": found.entries, "head": str(found.head), "holds": found.holds}
        print_json({**about, "problems": list(found.problems)})
    elif found.holds:
        click.echo(str(found.head))
    if not found.holds:
        if as_json:
            return RequirementNotMet.exit_code
        raise RequirementNotMet("the ledger was tampered with or damaged:\n" + "\n".join(found.problems))
    say(f"{found.entries} entries, nothing changed", quiet)
    return 0


@ledger.command()
@click.argument("target")
@click.option("-o", "--out", default="-", show_default=True, help="file to write; - is standard output")
@click.option("--force", is_flag=True, help="overwrite OUT if it exists")
@click.option("--name", default="discretion_ledger", show_default=True, help="name of the table in PostgreSQL")
@click.option("--quiet", "-q", is_flag=True, help="say nothing but results and errors")
def export(target: str, out: str, force: bool, name: str, quiet: bool) -> None:
    """Write every entry as a line of JSON, answers and query sets included: as confidential as the answers."""
    from discretion.data.atomic import replacing

    with _open(target, name) as opened:
        if out == "-":
            count = opened.export(sys.stdout)
        else:
            whole = replacing(Path(out), overwrite=force, private=True)
            with whole as temporary, temporary.open("w", encoding="utf-8") as stream:
                count = opened.export(stream)
    say(f"{count} entries", quiet)


def _open(target: str, name: str) -> Ledger:
    from discretion.online.ledger import open_ledger

    if not target:
        raise PlanError("name the file or URL of a ledger")
    return open_ledger(target, create=False, name=name)


def _exported(path: Path) -> Iterator[Entry]:
    from discretion.online.ledger import Entry

    with path.open(encoding="utf-8", errors="surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            try:
                content = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"line {number} of {path} is not JSON") from error
            yield Entry.from_json(content)
