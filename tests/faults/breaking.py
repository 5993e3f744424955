"""Functions of the file system that fail when they are called for the n-th time."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

STAGES: dict[str, tuple[Any, str]] = {
    "fsync": (os, "fsync"),
    "replace": (os, "replace"),
    "rename": (os, "rename"),
    "mkdir": (os, "mkdir"),
    "chmod": (os, "chmod"),
    "write": (Path, "write_text"),
}
"""Where writing a release may fail."""


def disk_full() -> BaseException:
    """Give the error of a full disk."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Counter:
    """Calls a function, and counts; the n-th call does half of the work, if it writes, and then fails."""

    def __init__(self, function: Callable[..., Any], fail_at: int, error: Callable[[], BaseException]) -> None:
        self.function, self.fail_at, self.error = function, fail_at, error
        self.calls = 0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls == self.fail_at:
            if isinstance(arguments[0], Path) and len(arguments) > 1 and isinstance(arguments[1], str):
                self.function(arguments[0], arguments[1][: len(arguments[1]) // 2], **options)
            raise self.error()
        return self.function(*arguments, **options)

    def as_method(self) -> Callable[..., Any]:
        """Give a function, which a class binds to its objects."""

        def method(path: Path, *arguments: Any, **options: Any) -> Any:
            return self(path, *arguments, **options)

        return method


@contextmanager
def failing(stage: str, number: int, error: Callable[[], BaseException] = disk_full) -> Iterator[Counter]:
    """Let the n-th call of a function of the file system fail (0: only count the calls)."""
    owner, name = STAGES[stage]
    counter = Counter(getattr(owner, name), number, error)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, counter.as_method() if owner is Path else counter)
        yield counter
