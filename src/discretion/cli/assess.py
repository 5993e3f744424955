"""`discretion assess ORIGINAL RELEASED`: attack and measure a release made here or elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import ARROWS, DIRECTIONS, common_options, print_json, print_table, progress_bar, say, shown
from discretion.cli.matching import Matching, matching_options, read_released, take_matching
from discretion.cli.output_checks import check_files
from discretion.cli.plan_options import engine_option
from discretion.cli.schema_options import read_with, schema_options, take_schema
from discretion.cli.wording import in_options
from discretion.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discretion.data.schema import Schema
    from discretion.measure import Measure, Score
    from discretion.part import Family, Part
    from discretion.release.assess import Assessment
    from discretion.release.published import PublishedColumn
    from discretion.release.ranking import AttackerCard, RankedAttack


@click.command()
@click.argument("original")
@click.argument("released")
@matching_options
@click.option(
    "--measure", "measures", multiple=True, metavar="KIND[:FIELDS]",
    help="measure to run, for example 'interval-risk:{sd_share: 0.2}'; default: a set chosen from roles and types",
)  # fmt: skip
@click.option(
    "--page",
    metavar="FILE",
    help="also write an HTML page with pictures and tables (internal); attacks the original too, to compare",
)
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="N", help="measures to run at a time; default: cores, up to 4"
)
@engine_option
@schema_options
@common_options
def assess(
    original: str,
    released: str,
    measures: tuple[str, ...],
    page: str | None,
    jobs: int | None,
    **options: Any,
) -> None:
    """Attack a release and measure what is left of it, and say what each kind of attacker can do."""
    quiet, as_json = options.pop("quiet"), options.pop("as_json")
    matching = take_matching(options)
    earlier = _names_earlier(options["plan_file"], matching.journal)
    schema, reading = take_schema(options)
    if page is not None:
        check_files([page], force=False)
    chosen = [_parse_measure(text) for text in measures]
    if options["engine"] == "duckdb":
        found, aligned_by = _assess_files(original, released, chosen, schema, reading, matching, options, quiet)
    else:
        found, aligned_by = _assess_data(
            original, released, chosen, schema, reading, matching, quiet,
            unprotected=page is not None, earlier=earlier, jobs=jobs,
        )  # fmt: skip
    content = {
        "aligned_by": aligned_by,
        **found.to_dict(),
        "no_attack": found.no_attack and in_options(found.no_attack, ["assess"]),
        "notes": [in_options(note, ["assess"]) for note in found.notes],
    }
    if content["no_attack"]:
        say(content["no_attack"])
    title = f"{released} against {original}"
    if page is not None:
        left = {one.measure: one.reason for one in found.left_to_ask}
        _write_page(page, found.scores, content["not_run"], title, found.columns, left, found.attackers)
        say(f"wrote {page} (not for publication)", quiet)
    if as_json:
        print_json(content)
        return
    _print_scores(found.scores, content["not_run"], f"{title} ({DIRECTIONS})")
    _print_ranking(found.ranked)
    print_columns(found.columns)
    print_cards(found.attackers)
    click.echo(found.best_attack)
    for note in content["notes"]:
        click.echo(f"Note: {note}")


def _assess_data(
    original: str, released: str, measures: Sequence[Measure], schema: Schema, reading: dict[str, Any],
    matching: Matching, quiet: bool, **how: Any,
) -> tuple[Assessment, str | None]:  # fmt: skip
    from discretion.release.assess import assess as assess_data

    before = read_with(original, schema, reading, quiet)
    after, aligned_by = read_released(before, released, reading, matching, quiet)
    with progress_bar(quiet) as progress:
        return assess_data(before, after, measures=measures, align="none", progress=progress, **how), aligned_by


def _assess_files(
    original: str, released: str, measures: Sequence[Measure], schema: Schema, reading: dict[str, Any],
    matching: Matching, options: dict[str, Any], quiet: bool,
) -> tuple[Assessment, str | None]:  # fmt: skip
    """Assess rows that stay in their files."""
    from pathlib import Path

    from discretion.release.earlier import Earlier
    from discretion.release.journal import read_order
    from discretion.release.large import assess_large, scan_file
    from discretion.risk.identity.intruder import knowing_method

    if matching.id_column is not None:
        raise PlanError("--id: rows that stay in their files are matched as they stand, or by --journal")
    whole = {name: value for name, value in reading.items() if name != "columns"}
    before = scan_file(original, schema, reading, memory=options["memory"])
    after = scan_file(released, schema, whole, memory=options["memory"])
    rows, steps = None, []
    if matching.journal is not None:
        rows = read_order(matching.journal)
        if len(rows) != len(after) or (len(rows) and not 0 <= rows.min() <= rows.max() < len(before)):
            raise PlanError(f"the journal {matching.journal!r} does not belong to these files: it has other rows")
        if (Path(matching.journal) / "journal.json").is_file():
            steps = [step.method for step in Earlier.open({"journal": matching.journal}).steps]
    asked = [knowing_method(measure, True) for measure in measures]
    with progress_bar(quiet) as progress:
        found = assess_large(
            before, after, measures=asked, rows=rows, steps=steps, unrelated=matching.unrelated, progress=progress
        )
    return found, None if matching.unrelated else "position" if rows is None else "journal"


def _names_earlier(plan_file: str | None, journal: str | None) -> bool:
    """Tell whether the plan or the one that the journal kept names an earlier release of the same people."""
    from pathlib import Path

    from discretion.release.plan import Plan

    named = [Path(plan_file)] if plan_file is not None else []
    kept = [file] if journal is not None and (file := Path(journal) / "plan.yaml").is_file() else []
    return any(Plan.load(plan).previous for plan in (*named, *kept))


def _print_scores(scores: Sequence[Score], failed: list[dict[str, str]], title: str) -> None:
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
    if not ranked:
        return
    rows = [
        (
            a.measure
            + (f" ({a.note})" if a.note else "")
            + (" (takes perturbed values as true)" if a.doubtful else ""),
            a.aim,
            shown(a.success),
            "none" if a.chance is None else shown(a.chance),
            shown(a.gain),
            "" if a.highest is None else shown(a.highest),
        )
        for a in ranked
    ]
    heads = ("attack", "aim", "right for", "guessing", "gain", "most exposed")
    print_table("attacks that were run, by what they gain over guessing", heads, rows, numeric=(2, 3, 4, 5))


def print_columns(columns: tuple[PublishedColumn, ...]) -> None:
    """Print what was found about published columns, whatever their roles."""
    from discretion.release.published import to_look_at

    found = to_look_at(columns)
    if found:
        rows = [(one.name, ", ".join(one.roles), "; ".join(one.notes)) for one in found]
        print_table("every published column: what was found", ("column", "role", "found"), rows)


def print_cards(cards: tuple[AttackerCard, ...]) -> None:
    """Print what each kind of attacker knows and can do, and what was not tried; 80 columns are enough."""
    from textwrap import fill

    from discretion.measure import as_percent

    click.echo("attackers: what each knows, can do, and what was not tried (95% intervals of the people tried)\n")
    for card in cards:
        lines = [f" {card.attacker}: knows {card.knows}"]
        if card.measure is not None:
            doubt = ", which takes perturbed values as true" if card.doubtful else ""
            reached = "" if card.success is None else f": right for {as_percent(card.success)}"
            if card.low is not None and card.high is not None:
                reached += f" ({as_percent(card.low)} to {as_percent(card.high)})"
            guessing = "" if card.chance is None else f", guessing {as_percent(card.chance)}"
            lines.append(f"   {card.can} by {card.measure}{doubt}{reached}{guessing}")
        lines += [f"   not tried: {kind} ({why})" for kind, why in card.not_tried.items()]
        click.echo("\n".join(fill(line, 80, subsequent_indent="     ") for line in lines))
    click.echo("")


def _write_page(
    path: str,
    scores: Sequence[Score],
    failed: list[dict[str, str]],
    title: str,
    columns: tuple[PublishedColumn, ...],
    left: dict[str, str],
    cards: tuple[AttackerCard, ...],
) -> None:
    from pathlib import Path

    from discretion.data.atomic import write_text
    from discretion.release.report.assessment import assessment_page

    write_text(Path(path), assessment_page(scores, failed, title, columns, left, cards))


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
