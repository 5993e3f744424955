"""Compile kernels with numba, keep the machine code in the user's cache, and say when a compile happens.

Importing this module is cheap: numba itself is imported by the first module that defines a kernel.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = __name__.rpartition(".")[0]
_listener: ContextVar[Callable[[], None] | None] = ContextVar("compile_listener", default=None)
_cache_dir_lock = threading.Lock()


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function to machine code when it is first called, once per machine.

    The code is kept in the folder that `cache_folder` names; without such a folder it is compiled once per
    process. The lock on Python threads is released while the kernel runs.
    """
    import numba

    typed: Callable[P, R] = _cached(numba.njit(nogil=True)(function))
    return typed


def lean_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel that makes no arrays and gives none back: all that it writes to is handed to it.

    References to arrays are not counted then. Counting takes longer than the work of a small helper that is given a row
    of a matrix, and half of the time of compiling.
    """
    import numba

    njit: Any = numba.njit  # numba's types do not know this option
    typed: Callable[P, R] = _cached(njit(nogil=True, _nrt=False)(function))
    return typed


def _cached(compiled: Any) -> Any:
    folder = cache_folder(str(_setting("CACHE_DIR")))
    if folder is not None and hasattr(compiled, "enable_caching"):  # not so when NUMBA_DISABLE_JIT is set
        _cache_in(folder, compiled)
    _announce_compiles()
    return compiled


def helper(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that only kernels call: its code is kept inside theirs."""
    import numba

    typed: Callable[P, R] = numba.njit(nogil=True)(function)
    return typed


def lean_helper(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that lean kernels call: it makes no arrays either."""
    import numba

    njit: Any = numba.njit
    typed: Callable[P, R] = njit(nogil=True, _nrt=False)(function)
    return typed


def cache_folder(chosen: str = "") -> Path | None:
    """Name the folder for compiled kernels, or None when no folder can be written.

    It lies below `chosen` (numba's own setting, NUMBA_CACHE_DIR) or else in `$XDG_CACHE_HOME` or
    `~/.cache`. Its last part is a fingerprint of the kernels' source: numba notices a change in the file
    of a kernel, but not in the file of another kernel that it calls.
    """
    if chosen:
        root = Path(chosen) / "discretion"
    else:
        home = os.environ.get("XDG_CACHE_HOME", "")
        root = (Path(home) if home else Path("~/.cache").expanduser()) / "discretion" / "numba"
    folder = root / _fingerprint()
    return folder if _can_write(folder) else None


@contextmanager
def on_first_compile(callback: Callable[[], None]) -> Iterator[None]:
    """Call `callback` once, just before the first kernel that is really compiled inside the `with` block.

    Kernels that are loaded from the cache, or were compiled before, do not count.
    """
    told = False

    def once() -> None:
        nonlocal told
        if not told:
            told = True
            callback()

    token = _listener.set(once)
    try:
        yield
    finally:
        _listener.reset(token)


def _setting(name: str) -> object:
    import numba

    return vars(numba.config)[name]


def _cache_in(folder: Path, compiled: Any) -> None:
    """Switch on caching in `folder`; numba reads its setting at this moment only, so it is put back after."""
    import numba

    with _cache_dir_lock:
        before = _setting("CACHE_DIR")
        vars(numba.config)["CACHE_DIR"] = str(folder)
        try:
            compiled.enable_caching()
        finally:
            vars(numba.config)["CACHE_DIR"] = before


@functools.cache
def _fingerprint() -> str:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@functools.cache
def _announce_compiles() -> None:
    """Listen to numba's compile events, for as long as the process lives."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            callback = _listener.get()
            if callback is not None and _is_ours(event.data["dispatcher"]):
                callback()

        def on_end(self, event: Any) -> None:
            pass

    register: Any = event.register  # numba has no types
    register("numba:compile", Listener())


def _is_ours(dispatcher: Any) -> bool:
    return str(dispatcher.py_func.__module__).startswith(_PACKAGE)
