"""Folders that appear whole or not at all: written beside their place, then moved there, with a way back."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from discretion.errors import DataError, PlanError


def release_places(
    folder: str | Path,
    journal: str | Path | None,
    *,
    secrets: Iterable[str],
    files: tuple[re.Pattern[str], re.Pattern[str]],
    overwrite: bool,
) -> tuple[Path, Path]:
    """Give the public and the private folder, if both may be written and keep what is secret apart.

    `secrets` are files that must not lie in the public folder; `files` are the names that an earlier release may have
    left in the public and in the private folder.
    """
    public = Path(folder) if Path(folder).name not in ("", "..") else Path(folder).resolve()
    private = Path(journal) if journal is not None else public.with_name(public.name + "-private")
    for one, other in ((public, private), (private, public)):
        if one.resolve().is_relative_to(other.resolve()):
            raise PlanError("the private journal and the public folder cannot lie in each other")
    for secret in secrets:
        if Path(secret).resolve().is_relative_to(public.resolve()):
            raise PlanError("a seed is a secret and cannot lie in the public folder, nor can a key")
    for place, known in zip((public, private), files, strict=True):
        if place.exists() and not overwrite:
            raise DataError(f"{str(place)!r} exists; overwrite=True replaces it, or choose another folder")
        if place.exists() and not place.is_dir():
            raise DataError(f"{str(place)!r} is a file; a release is a folder")
        _check_replaceable(place, known)
    return public, private


@contextmanager
def publishing(public: Path, private: Path) -> Iterator[tuple[Path, Path]]:
    """Give two new folders to fill; at the end both are moved into place, or neither."""
    with _explained(public), _Staged(public) as new_public, _Staged(private) as new_private:
        yield new_public, new_private
        _swap_in([(new_private, private), (new_public, public)])


@contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Give a new folder to fill; at the end it is moved into place."""
    with _explained(folder), _Staged(folder) as new:
        yield new
        _swap_in([(new, folder)])


@contextmanager
def _explained(public: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or type(error).__name__
        raise DataError(f"{str(public)!r} was not written: {reason}; nothing was published") from error


def _check_replaceable(place: Path, known: re.Pattern[str]) -> None:
    """Refuse to overwrite a folder that holds anything but an earlier release."""
    others = sorted(f.name for f in place.iterdir() if not known.fullmatch(f.name)) if place.exists() else []
    if others:
        listed = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        raise DataError(f"{str(place)!r} holds more than an earlier release ({listed}); choose another folder")


class _Staged:
    """A new folder beside its destination that only the owner may read; removed again unless it was moved there."""

    def __init__(self, destination: Path) -> None:
        self.destination = destination

    def __enter__(self) -> Path:
        parent = self.destination.resolve().parent
        parent.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix=f".{self.destination.name}-", dir=parent))
        return self.folder

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _swap_in(moves: list[tuple[Path, Path]]) -> None:
    """Move finished folders into place; what stood there before comes back if any move fails."""
    undo: list[tuple[Path, Path | None]] = []
    try:
        for new, place in moves:
            for file in new.iterdir():
                with file.open("rb") as handle:
                    os.fsync(handle.fileno())
            old = place.with_name(f".{place.name}.old-{new.name}") if place.exists() else None
            if old is not None:
                place.rename(old)
            undo.append((place, old))
            new.rename(place)
    except BaseException:
        for place, old in reversed(undo):
            shutil.rmtree(place, ignore_errors=True)
            if old is not None:
                old.rename(place)
        raise
    for _, old in undo:
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
