"""`discretion assess ORIGINAL RELEASED`: attack and measure a release made here or elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import ARROWS, DIRECTIONS, common_options, print_json, print_table, progress_bar, say, shown
from discretion.cli.schema_options import read_with, schema_options, take_schema
from discretion.errors import PlanError

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.measure import Measure, Score
    from discretion.part import Family, Part
    from discretion.release.ranking import RankedAttack


@click.command()
@click.argument("original")
@click.argument("released")
@click.option("--id", "id_column", metavar="COLUMN", help="column in both files that tells which rows belong together")
@click.option(
    "--measure", "measures", multiple=True, metavar="KIND[:FIELDS]",
    help="measure to run, for example 'interval-risk:{sd_share: 0.2}'; default: a set chosen from roles and types",
)  # fmt: skip
@click.option("--page", metavar="FILE", help="also write an HTML page with tables and pictures (internal)")
@schema_options
@common_options
def assess(
    original: str, released: str, id_column: str | None, measures: tuple[str, ...], page: str | None, **options: Any
) -> None:
    """Attack a release and measure what is left of it, and say what an attacker can do best."""
    from discretion.release.attack_set import attack_set
    from discretion.release.ranking import best_attack, rank_attacks

    quiet, as_json = options.pop("quiet"), options.pop("as_json")
    schema, reading = take_schema(options)
    before = read_with(original, schema, reading, quiet)
    before, after = read_pair(before, released, reading, id_column, quiet)
    chosen = [_parse_measure(text) for text in measures]
    attacks = chosen or attack_set(before, after)
    if not attacks:
        raise PlanError("nothing to measure: give roles (--quasi, --sensitive, …) or --measure")
    scores, failed = _run(attacks, before, after, quiet, strict=bool(chosen))
    ranked = rank_attacks(scores)
    if page is not None:
        _write_page(page, scores, failed, f"{released} against {original}")
        say(f"wrote {page} (not for publication)", quiet)
    if as_json:
        print_json(
            {
                "aligned_by": id_column or "position",
                "scores": [score.to_dict() for score in scores],
                "not_run": failed,
                "ranked": [attack.to_dict() for attack in ranked],
                "best_attack": best_attack(ranked),
            }
        )
        return
    _print_scores(scores, failed, f"{released} against {original} ({DIRECTIONS})")
    _print_ranking(ranked)


def _run(
    measures: list[Measure], before: Dataset, after: Dataset, quiet: bool, *, strict: bool
) -> tuple[list[Score], list[dict[str, str]]]:
    """Run the measures; for one that nobody named, the reason why it cannot run stands in place of a figure."""
    from discretion.context import Context
    from discretion.errors import DataError

    scores: list[Score] = []
    failed: list[dict[str, str]] = []
    with progress_bar(quiet) as progress:
        for number, measure in enumerate(measures):
            progress(number, len(measures), f"measuring: {measure.kind}")
            try:
                scores.append(measure.run(before, after, Context(0, measure.kind, progress)))
            except (DataError, PlanError) as error:
                if strict:
                    raise
                failed.append({"measure": measure.kind, "reason": str(error)})
    return scores, failed


def _print_scores(scores: list[Score], failed: list[dict[str, str]], title: str) -> None:
    rows = [(str(s.family), s.measure, shown(s.value), ARROWS[s.better], s.meaning) for s in scores]
    rows += [("", item["measure"], "not run", "", item["reason"]) for item in failed]
    print_table(title, ("", "measure", "value", "", "meaning"), rows, numeric=(2,))


def _print_ranking(ranked: tuple[RankedAttack, ...]) -> None:
    from discretion.release.ranking import best_attack

    if not ranked:
        return
    rows = [
        (
            a.measure,
            a.aim + (" (if its values were true)" if a.doubtful else ""),
            shown(a.success),
            "" if a.chance is None else shown(a.chance),
            shown(a.gain),
        )
        for a in ranked
    ]
    heads = ("attack", "aim", "succeeds", "guessing", "gain")
    print_table("what an attacker can do, best first", heads, rows, numeric=(2, 3, 4))
    click.echo(best_attack(ranked))


def _write_page(path: str, scores: list[Score], failed: list[dict[str, str]], title: str) -> None:
    from pathlib import Path

    from discretion.data.atomic import write_text
    from discretion.release.report.assessment import assessment_page

    write_text(Path(path), assessment_page(scores, failed, title))


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
    from discretion.cli.apply import part_spec
    from discretion.part import parse

    return parse(part_spec(text, option), *families)


def _parse_measure(text: str) -> Measure:
    from discretion.measure import Measure

    part = parse_part(text, "--measure", "risk", "utility")
    if not isinstance(part, Measure):
        raise PlanError(f"--measure {text!r}: {part.kind} is not a measure")
    return part
