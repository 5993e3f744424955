"""Where a command writes, looked at before the work that makes what is written; nothing is left of what failed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
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


@contextlib.contextmanager
def all_or_nothing(*names: str | None) -> Iterator[None]:
    """Take away the files of these names that were written meanwhile if the block fails."""
    before = {name: _state(name) for name in names if name is not None}
    try:
        yield
    except BaseException:
        for name, state in before.items():
            if _state(name) != state:
                Path(name).unlink(missing_ok=True)
        raise


def _state(name: str) -> tuple[int, int] | None:
    try:
        found = Path(name).stat()
    except OSError:  # none, standard output, or the address of a database
        return None
    return found.st_ino, found.st_mtime_ns


def check_files(names: Sequence[str], *, force: bool) -> None:
    """Raise if a text file cannot be put at one of these places."""
    from discretion.data.atomic import check_target

    for name in names:
        check_target(Path(name), force)


def _check_different(names: Sequence[str]) -> None:
    places = [Path(name).resolve() for name in names if name != "-"]
    if len(set(places)) < len(places):
        raise PlanError("two outputs have the same name; each needs a file of its own")
