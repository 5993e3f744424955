"""`discretion assess ORIGINAL RELEASED`: attack and measure a release made here or elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import (
    ARROWS,
    DIRECTIONS,
    check_files,
    common_options,
    in_options,
    print_json,
    print_table,
    progress_bar,
    say,
    shown,
)
from discretion.cli.schema_options import engine_option, read_with, schema_options, take_engine, take_schema
from discretion.errors import DataError, PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from discretion.data.dataset import Dataset
    from discretion.data.schema import Schema
    from discretion.measure import Measure, Score
    from discretion.part import Family, Part
    from discretion.release.assess import Assessment
    from discretion.release.compare import ComparedRelease, Comparison
    from discretion.release.published import PublishedColumn
    from discretion.release.ranking import AttackerCard, RankedAttack

_MATCHING = (
    click.option(
        "--id", "id_column", metavar="COLUMN", help="column in both files that tells which rows belong together"
    ),
    click.option(
        "--journal", metavar="FOLDER", help="private journal of the release, which knows the order of its rows"
    ),
    click.option("--by-position", is_flag=True, help="the rows of both files stand in the same order"),
    click.option("--unrelated", is_flag=True, help="the rows are not the same people, as in synthetic data"),
)


@dataclass(frozen=True)
class Matching:
    """What the user says about which rows belong together."""

    id_column: str | None = None
    journal: str | None = None
    by_position: bool = False
    unrelated: bool = False


def matching_options(function: Any) -> Any:
    """Add the options that tell which rows of a release belong to which of the original."""
    for option in reversed(_MATCHING):
        function = option(function)
    return function


def take_matching(options: dict[str, Any]) -> Matching:
    """Take the options on rows that belong together out of a command's options; at most one may be given."""
    found = Matching(**{name: options.pop(name) for name in Matching.__dataclass_fields__})
    if sum(bool(value) for value in vars(found).values()) > 1:
        raise PlanError("--id, --journal, --by-position and --unrelated exclude each other; give one of them")
    return found


def read_released(
    original: Dataset, released: str, reading: dict[str, Any], matching: Matching, quiet: bool
) -> tuple[Dataset, str | None]:
    """Read a release and find out which rows of the original its rows are: as the user says, or as the values tell.

    Gives the release and by what it was matched, None where nobody can tell because the numbers of rows differ. Where
    they are equal and the values do not agree, the user must say.
    """
    import numpy as np

    from discretion.measure import Matched, match_by, match_rows
    from discretion.release.journal import in_journal_order

    whole = {name: value for name, value in reading.items() if name != "columns"}  # all that the release has is judged
    data = read_with(released, original.schema, whole, quiet, partial=True)
    if matching.unrelated:
        return data, None
    if matching.id_column is not None:
        return match_by(original, data, matching.id_column), f"column {matching.id_column!r}"
    if matching.journal is not None:
        return in_journal_order(original, data, matching.journal, released), "journal"
    same = len(data) == len(original)
    if matching.by_position and not same:
        raise DataError(f"--by-position: the original has {len(original)} rows and the release {len(data)}")
    try:
        found = (
            Matched(np.arange(len(data)), "position") if matching.by_position else match_rows(original, data, released)
        )
    except DataError as error:
        if same:
            raise DataError(f"{error}; if they are not the same people, as in synthetic data: --unrelated") from None
        return data, None
    left_out = int((found.rows < 0).sum())
    say(f"rows aligned by {found.by}" + (f"; {left_out} rows of the release left out" if left_out else ""), quiet)
    return found.give(original, data), found.by


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
    if (where := take_engine(options)) is not None:
        found, aligned_by = _assess_files(original, released, chosen, schema, reading, matching, where, quiet)
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
    matching: Matching, where: dict[str, Any], quiet: bool,
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
    before = scan_file(original, schema, reading, **where)
    after = scan_file(released, schema, whole, **where)
    rows, steps = None, []
    if matching.journal is not None:
        rows = read_order(matching.journal)
        made_up = len(rows) and rows.max() < 0
        if len(rows) != len(after) or (len(rows) and not made_up and not 0 <= rows.min() <= rows.max() < len(before)):
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

    from discretion.data.write import write_text
    from discretion.release.report.page import assessment_page

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
        from discretion.data.write import write_text

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
