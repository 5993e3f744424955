"""`discretion assess ORIGINAL RELEASED`: attack and measure a release made here or elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import ARROWS, DIRECTIONS, common_options, print_json, print_table, progress_bar, say, shown
from discretion.cli.schema_options import read_with, schema_options, take_schema
from discretion.errors import PlanError

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.measure import Measure
    from discretion.part import Family, Part


@click.command()
@click.argument("original")
@click.argument("released")
@click.option("--id", "id_column", metavar="COLUMN", help="column in both files that tells which rows belong together")
@click.option(
    "--measure", "measures", multiple=True, metavar="KIND[:FIELDS]",
    help="measure to run, for example 'interval-risk:{sd_share: 0.2}'; default: a set chosen from roles and types",
)  # fmt: skip
@schema_options
@common_options
def assess(original: str, released: str, id_column: str | None, measures: tuple[str, ...], **options: Any) -> None:
    """Measure the risk and the utility of a release."""
    from discretion.context import Context
    from discretion.release.measures import default_measures

    quiet, as_json = options.pop("quiet"), options.pop("as_json")
    schema, reading = take_schema(options)
    before = read_with(original, schema, reading, quiet)
    before, after = read_pair(before, released, reading, id_column, quiet)
    chosen = [_parse_measure(text) for text in measures] or default_measures(before, after)
    if not chosen:
        raise PlanError("nothing to measure: give roles (--quasi, --sensitive, …) or --measure")
    with progress_bar(quiet) as progress:
        scores = [measure.run(before, after, Context(0, measure.kind, progress)) for measure in chosen]
    if as_json:
        print_json({"aligned_by": id_column or "position", "scores": [score.to_dict() for score in scores]})
        return
    rows = [(s.family, s.measure, shown(s.value), ARROWS[s.better], s.meaning) for s in scores]
    print_table(
        f"{released} against {original} ({DIRECTIONS})", ("", "measure", "value", "", "meaning"), rows, numeric=(2,)
    )


def read_pair(
    original: Dataset, released: str, reading: dict[str, Any], id_column: str | None, quiet: bool
) -> tuple[Dataset, Dataset]:
    """Read a release and match its rows to the original: by an id column, or by position when the counts agree."""
    import numpy as np

    from discretion.measure import match_by

    data = read_with(released, original.schema, reading, quiet, partial=True)
    if id_column is not None:
        return original, match_by(original, data, id_column)
    if len(data) == len(original):
        say("rows aligned by position (give --id COLUMN to align by an id)", quiet)
        return original, data.matched_to(original, np.arange(len(data)))
    return original, data


def parse_part(text: str, option: str, *families: Family) -> Part:
    """Build a part from an option's text: KIND or KIND:{field: value}."""
    import yaml

    from discretion.part import parse

    kind, _, fields = text.partition(":")
    try:
        spec = yaml.safe_load(fields) if fields.strip() else {}
    except yaml.YAMLError:
        raise PlanError(f"{option} {text!r}: expected KIND or KIND:{{field: value}}") from None
    return parse({kind.strip(): spec}, *families)


def _parse_measure(text: str) -> Measure:
    from discretion.measure import Measure

    part = parse_part(text, "--measure", "risk", "utility")
    if not isinstance(part, Measure):
        raise PlanError(f"--measure {text!r}: {part.kind} is not a measure")
    return part
