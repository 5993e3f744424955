"""Where a command writes, looked at before the work that makes what is written; nothing is left of what failed."""

from __future__ import annotations

import contextlib
import secrets
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
    """If the block fails, take away the files of these names that it made, and put back those it replaced.

    Files are replaced by renaming, so that a second link keeps the old one. What is changed in its place (a database)
    is left to its own transactions.
    """
    paths = [Path(name) for name in names if name is not None]
    kept = {path: path.with_name(f".{path.name}.{secrets.token_hex(8)}") for path in paths if path.is_file()}
    new = [path for path in paths if not path.exists()]
    for path, link in kept.items():
        with contextlib.suppress(OSError):  # a file system without links
            link.hardlink_to(path)
    try:
        yield
    except BaseException:
        for path in new:
            with contextlib.suppress(OSError):  # none, standard output, or the address of a database
                path.unlink()
        for path, link in kept.items():
            if link.exists() and not (path.exists() and path.samefile(link)):
                link.replace(path)
        raise
    finally:
        for link in kept.values():
            link.unlink(missing_ok=True)


def check_files(names: Sequence[str], *, force: bool) -> None:
    """Raise if a text file cannot be put at one of these places."""
    from discretion.data.atomic import check_target

    for name in names:
        check_target(Path(name), force)


def _check_different(names: Sequence[str]) -> None:
    places = [Path(name).resolve() for name in names if name != "-"]
    if len(set(places)) < len(places):
        raise PlanError("two outputs have the same name; each needs a file of its own")
