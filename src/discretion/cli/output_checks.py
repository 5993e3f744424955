"""Where a command writes, looked at before the work that makes what is written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from discretion.errors import PlanError


def check_outputs(target: str, *others: str | None, force: bool, as_json: bool = False, dry_run: bool = False) -> None:
    """Raise if data cannot be written to `target` or text to the other files, or if two of them are the same."""
    from discretion.data.write import check_output

    if dry_run:
        force = True
    elif as_json and target == "-":
        raise PlanError("--json and OUT `-` both go to standard output; write the data to a file")
    try:
        check_output(target, overwrite=force)
    except PlanError as error:
        raise PlanError([text.removesuffix("; or say which it is with format=") for text in error.problems]) from None
    check_files([name for name in others if name is not None], force=force)
    _check_different([name for name in (target, *others) if name is not None])


def check_files(names: Sequence[str], *, force: bool) -> None:
    """Raise if a text file cannot be put at one of these places."""
    from discretion.data.atomic import check_target

    for name in names:
        check_target(Path(name), force)


def _check_different(names: Sequence[str]) -> None:
    places = [Path(name).resolve() for name in names if name != "-"]
    if len(set(places)) < len(places):
        raise PlanError("two outputs have the same name; each needs a file of its own")
