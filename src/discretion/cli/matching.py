"""Which rows of a finished release belong to which rows of the original: options, and the reading of the release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from discretion.cli.console import say
from discretion.cli.schema_options import read_with
from discretion.errors import DataError, PlanError

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset

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
