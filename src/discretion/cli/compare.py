"""`discretion compare A B`: the same attacks and measures on two or more finished releases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.assess import parse_part
from discretion.cli.console import ARROWS, DIRECTIONS, common_options, print_json, print_table, progress_bar, say, shown
from discretion.cli.output_checks import check_files
from discretion.cli.schema_options import read_with, schema_options, take_schema
from discretion.errors import PlanError

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.release.comparison import ComparedRelease, Comparison


@click.command()
@click.argument("releases", nargs=-1, required=True, metavar="A B …")
@click.option(
    "--original", metavar="FILE", help="the original data; default: that of the plan in A-private or B-private"
)
@click.option("--id", "id_column", metavar="COLUMN", help="column in all files that tells which rows belong together")
@click.option(
    "--measure", "measures", multiple=True, metavar="KIND[:FIELDS]",
    help="measure to compare by; default: a set chosen from roles and types",
)  # fmt: skip
@click.option("--page", metavar="FILE", help="also write an HTML page (internal)")
@click.option("--force", is_flag=True, help="overwrite the page if it exists")
@schema_options
@common_options
def compare(
    releases: tuple[str, ...], original: str | None, id_column: str | None, measures: tuple[str, ...],
    page: str | None, force: bool, **options: Any,
) -> None:  # fmt: skip
    """Compare finished releases: release folders or data files. Says which is safer and which more useful.

    A release folder knows its original and its roles through the private folder beside it; for data files give
    --original and the roles (--quasi, --sensitive, …, or --plan).
    """
    from discretion.release import compare as comparing

    quiet, as_json = options.pop("quiet"), options.pop("as_json")
    if len(releases) < 2:
        raise PlanError("a comparison needs two releases or more")
    if page is not None:
        check_files([page], force=force)
    before, reading = _original(releases, original, options, quiet)
    comparing.require_one_original(before, releases, named=original is not None)
    found = comparing.read_releases(
        before, releases, lambda file: read_with(str(file), before.schema, reading, quiet, partial=True)
    )
    found = {name: comparing.match(before, data, id_column) for name, data in found.items()}
    for name, data in found.items():
        if data.origin is not before.origin:
            say(f"{name}: nothing tells which rows belong to which of the original; --id COLUMN may", quiet)
    chosen = [parse_part(text, "--measure", "risk", "utility") for text in measures] or None
    with progress_bar(quiet) as progress:
        result = comparing.compare(before, found, measures=chosen, id_column=id_column, progress=progress)
    if page is not None:
        from discretion.data.atomic import write_text

        write_text(Path(page), result.page(" against ".join(result.names)), overwrite=force)
        say(f"wrote {page} (not for publication)", quiet)
    if as_json:
        print_json(result.to_dict())
        return
    _print(result)


def _original(
    releases: tuple[str, ...], original: str | None, options: dict[str, Any], quiet: bool
) -> tuple[Dataset, dict[str, Any]]:
    """Read the original: the named file with the given roles, or that of the plan beside a release folder."""
    from discretion.release.compare import plan_beside

    schema, reading = take_schema(options)
    plan = next((plan for place in releases if (plan := plan_beside(place)) is not None), None)
    if plan is not None:
        plan = replace(plan, schema=plan.schema.overlaid(schema))
        if original is None:
            return plan.read(None, lambda text: say(text, quiet)), reading
        return read_with(original, plan.schema, reading, quiet), reading
    if original is None:
        raise PlanError(
            "no release has its private folder (NAME-private) beside it: give --original FILE and the roles"
        )
    return read_with(original, schema, reading, quiet), reading


def _print(result: Comparison) -> None:
    rows = [_row(row, result.names) for row in sorted(result.rows, key=lambda row: row.family)]
    heads = ("", "measure", "", "original", "guessing", *result.names, "best")
    numeric = range(3, 5 + len(result.names))
    print_table(f"{' · '.join(result.names)} ({DIRECTIONS})", heads, rows, numeric=tuple(numeric))
    overall = [(name, result.overall(name)) for name in result.names]
    print_table(
        "overall (↓ lower is better)",
        ("release", "best attack's gain", "mean loss", "best attack"),
        [(name, shown(one.gain), shown(one.loss), one.attack) for name, one in overall],
        numeric=(1, 2),
    )
    if any(figure.doubtful for row in result.rows for figure in row.figures.values()):
        click.echo("* takes perturbed values as true; counts neither for the best nor overall")
    if any(row.winner is None and row.everywhere for row in result.rows):
        click.echo(
            "– no clear difference: another draw, or other people, could turn it round (or it was not run on all)"
        )
    click.echo(result.verdict)


def _row(row: ComparedRelease, names: tuple[str, ...]) -> tuple[str, ...]:
    cells = [
        shown(row.figures[name].value) + ("*" if row.figures[name].doubtful else "")
        if name in row.figures
        else "not run"
        for name in names
    ]
    return (
        str(row.family), row.title, ARROWS[row.better], shown(row.before), shown(row.chance), *cells, row.winner or "–",
    )  # fmt: skip
