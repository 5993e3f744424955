"""`discretion assess ORIGINAL RELEASED`: attack and measure a release made here or elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import ARROWS, DIRECTIONS, common_options, print_json, print_table, progress_bar, say, shown
from discretion.cli.output_checks import check_files
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
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="measures to run at a time; default: cores, up to 4"
)
@schema_options
@common_options
def assess(
    original: str,
    released: str,
    id_column: str | None,
    measures: tuple[str, ...],
    page: str | None,
    jobs: int | None,
    **options: Any,
) -> None:
    """Attack a release and measure what is left of it, and say what an attacker can do best."""
    from discretion.release.attack_set import attack_set
    from discretion.release.ranking import best_attack, rank_attacks
    from discretion.risk.identity.intruder import knowing_method

    quiet, as_json = options.pop("quiet"), options.pop("as_json")
    schema, reading = take_schema(options)
    if page is not None:
        check_files([page], force=False)
    before = read_with(original, schema, reading, quiet)
    before, after = read_pair(before, released, reading, id_column, quiet)
    chosen = [knowing_method(_parse_measure(text), True) for text in measures]
    attacks = chosen or attack_set(before, after)
    if not attacks:
        raise PlanError("nothing to measure: give roles (--quasi, --sensitive, …) or --measure")
    scores, failed = _run(attacks, before, after, jobs, quiet, strict=bool(chosen))
    no_attack = None if chosen else _no_attack(before, scores)
    if no_attack:
        say(no_attack)
    notes = _notes(scores) + ([] if chosen else _left_to_ask(before, after))
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
                "no_attack": no_attack,
                "notes": notes,
                "ranked": [attack.to_dict() for attack in ranked],
                "best_attack": best_attack(ranked),
            }
        )
        return
    _print_scores(scores, failed, f"{released} against {original} ({DIRECTIONS})")
    _print_ranking(ranked)
    for note in notes:
        click.echo(f"Note: {note}")


def _run(
    measures: list[Measure], before: Dataset, after: Dataset, jobs: int | None, quiet: bool, *, strict: bool
) -> tuple[list[Score], list[dict[str, str]]]:
    """Run the measures; for one that nobody named, the reason why it cannot run stands in place of a figure."""
    from discretion.release.attack_run import default_jobs, run_measures

    with progress_bar(quiet) as progress:
        scores, failed = run_measures(
            measures, before, after, jobs=jobs or default_jobs(), strict=strict, progress=progress
        )
    return scores, [{"measure": one.measure, "reason": one.reason} for one in failed]


def _no_attack(original: Dataset, scores: list[Score]) -> str | None:
    """Say that no attack ran, so that figures of utility alone are not taken for safety."""
    if any(score.family == "risk" for score in scores):
        return None
    if original.having("quasi", "sensitive"):
        return "no attack ran: see under `not run` why"
    return (
        "no attack ran: no quasi-identifier or sensitive column is known; "
        "give --quasi and --sensitive, or see `discretion roles`"
    )


def _notes(scores: list[Score]) -> list[str]:
    """Say which quasi-identifiers the linkages could not use, and why a figure has no baseline."""
    from discretion.release.attack_set import left_out
    from discretion.release.ranking import why_no_baseline

    bare = {score.measure: reason for score in scores if (reason := why_no_baseline(score))}
    return [
        f"{measure} did not compare {', '.join(columns)}: the published values have nothing in common with the "
        "original's. If the column was generalized, give its hierarchy; the figure understates the risk."
        for measure, columns in left_out(scores).items()
    ] + [f"{measure} has no baseline: {reason}." for measure, reason in bare.items()]


def _left_to_ask(before: Dataset, after: Dataset) -> list[str]:
    """Say which attacks were not run because they take long."""
    from discretion.release.attack_set import too_large

    found = too_large(before, after)
    return [f"not run because it takes long: {', '.join(found)}; ask for it by --measure."] if found else []


def _print_scores(scores: list[Score], failed: list[dict[str, str]], title: str) -> None:
    from discretion.release.ranking import chance_of

    rows = []
    for score in scores:
        chance = chance_of(score)
        guessing = "–" if score.family != "risk" else "none" if chance is None else shown(chance)
        rows.append(
            (str(score.family), score.measure, shown(score.value), ARROWS[score.better], guessing, score.meaning)
        )
    rows += [("", item["measure"], "not run", "", "", item["reason"]) for item in failed]
    print_table(title, ("", "measure", "value", "", "guessing", "meaning"), rows, numeric=(2, 4))


def _print_ranking(ranked: tuple[RankedAttack, ...]) -> None:
    from discretion.release.ranking import best_attack

    if not ranked:
        return
    rows = [
        (
            a.measure,
            a.aim + (" (if its values were true)" if a.doubtful else ""),
            shown(a.success),
            "none" if a.chance is None else shown(a.chance),
            shown(a.gain),
            "" if a.highest is None else shown(a.highest),
        )
        for a in ranked
    ]
    heads = ("attack", "aim", "right for", "guessing", "gain", "most exposed")
    print_table("what an attacker can do, best first", heads, rows, numeric=(2, 3, 4, 5))
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
