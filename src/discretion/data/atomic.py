"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from discretion.errors import DataError


@contextlib.contextmanager
def replacing(path: Path, *, overwrite: bool = False, private: bool = False) -> Iterator[Path]:
    """Give a temporary file beside `path`, which takes its place if all goes well.

    The file is flushed to the disk before it takes the name. On any failure, also an interrupt from the
    keyboard, the temporary file is removed and a file that was there before stays as it was. A new file takes over who
    may read the old one; `private`: only the owner may, from the first byte on.
    """
    target = check_target(path, overwrite)
    temporary = target.with_name(f".{secrets.token_hex(6)}.{target.name}")
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666)
        os.close(descriptor)
        yield temporary
        if overwrite and target.exists() and not private:
            temporary.chmod(target.stat().st_mode & 0o7777)
        _flush(temporary)
        check_target(path, overwrite)
        os.replace(temporary, target)  # noqa: PTH105 - named so that tests can make it fail
        _flush_folder(target.parent)
    except OSError as error:
        raise _explain(path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, overwrite: bool = False, private: bool = False) -> None:
    """Write a text file in UTF-8, whole or not at all; `private`: only the owner may read it."""
    with replacing(path, overwrite=overwrite, private=private) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def alone_beside(path: Path) -> Iterator[None]:
    """Keep other processes that ask for the same from changing files of the folder between reading and writing them."""
    try:
        import fcntl
    except ImportError:  # this system has no such locks
        fcntl = None  # type: ignore[assignment]
    if fcntl is None or not path.parent.is_dir():
        yield
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def check_target(path: Path, overwrite: bool) -> Path:
    """Raise unless a file can be put there: a folder, no folder above, or a file that may not be overwritten."""
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder; name a file")
    if not path.parent.is_dir():
        raise DataError(f"there is no folder {str(path.parent)!r}; make it first")
    if path.exists() and not overwrite:
        raise DataError(f"{str(path)!r} exists; overwrite=True replaces it")
    return path.resolve()


def _flush(path: Path) -> None:
    with path.open("rb+") as handle:
        os.fsync(handle.fileno())


def _flush_folder(folder: Path) -> None:
    """Make the new name last; some file systems cannot, and the file is in place in any case."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _explain(path: Path, error: OSError) -> DataError:
    if error.errno == errno.ENOSPC:
        return DataError(f"{str(path)!r} was not written: the disk is full; nothing was changed")
    reason = error.strerror or type(error).__name__
    return DataError(f"{str(path)!r} was not written: {reason}; nothing was changed")
