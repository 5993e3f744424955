"""Compile kernels with numba, keep the machine code in the user's cache, and say when a compile happens.

Importing this module, or one that defines kernels, does not import numba.
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
from typing import Any, ParamSpec, TypeVar, cast

from discretion.kernels.machine_code import Refused, callable_of, code_of, file_of, read, unpack, write

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE = __name__.rpartition(".")[0]
_listener: ContextVar[Callable[[], None] | None] = ContextVar("compile_listener", default=None)
_lock = threading.RLock()


class _Kernel:
    """A function that is compiled when it is first needed; importing its module does not import numba."""

    lean = False

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    @functools.cached_property
    def dispatcher(self) -> Any:
        """Numba's function, to be called from Python, with its cache."""
        return _cached(_njit(self.function, self.lean))

    @functools.cached_property
    def inside(self) -> Any:
        """Numba's function, to be called from kernels."""
        return _njit(self.function, self.lean, no_cpython_wrapper=True)

    @property
    def _numba_type_(self) -> Any:
        """What numba takes this object for when it compiles a function that calls it."""
        from numba.core import types

        return types.Dispatcher(self.inside)

    def __call__(self, *arguments: Any) -> Any:
        return self.dispatcher(*arguments)


class _LeanKernel(_Kernel):
    """A kernel whose machine code is loaded without numba."""

    lean = True

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.ready: dict[tuple[str, ...], Callable[[list[Any]], Any] | None] = {}

    def __call__(self, *arguments: Any) -> Any:
        kinds: list[str] = []
        flat: list[Any] = []
        try:
            unpack(arguments, kinds, flat)
        except Refused:
            return self.dispatcher(*arguments)
        key = tuple(kinds)
        if key not in self.ready:
            with _lock:
                self.ready[key] = self._prepared(arguments, kinds)
        run = self.ready[key]
        return self.dispatcher(*arguments) if run is None else run(flat)

    def _prepared(self, arguments: tuple[Any, ...], kinds: list[str]) -> Callable[[list[Any]], Any] | None:
        """Load the code that was kept, or compile and keep it; None where only numba can call it."""
        folder = cache_folder()
        if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
            return None
        file = None if folder is None else file_of(folder, self.function, kinds)
        try:
            code = None if file is None else read(file)
            if code is not None:
                return callable_of(code)
            code = code_of(self._compile(arguments), kinds)
            if file is not None:
                write(file, code)
            return callable_of(code)
        except Refused:
            return None

    def _compile(self, arguments: tuple[Any, ...]) -> Any:
        import numba

        _announce_compiles()
        typeof: Any = numba.typeof
        types = tuple(typeof(argument) for argument in arguments)
        self.inside.compile(types)
        return self.inside.overloads[types]


class _Helper(_Kernel):
    """A function for kernels; called from Python it runs as it is written."""

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


class _LeanHelper(_Helper):
    lean = True


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function to machine code when it is first called, once per machine.

    The code is kept in the folder that `cache_folder` names; without such a folder it is compiled once per
    process. The lock on Python threads is released while the kernel runs.
    """
    return cast(Callable[P, R], _Kernel(function))


def lean_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel that makes no arrays and gives none back: all that it writes to is handed to it.

    References to arrays are not counted then. Counting takes longer than the work of a small helper that is given a row
    of a matrix, and half of the time of compiling. Code that was kept is loaded without numba (see `machine_code`).
    """
    return cast(Callable[P, R], _LeanKernel(function))


def helper(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that only kernels call: its code is kept inside theirs."""
    return cast(Callable[P, R], _Helper(function))


def lean_helper(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that lean kernels call: it makes no arrays either."""
    return cast(Callable[P, R], _LeanHelper(function))


def _njit(function: Callable[..., Any], lean: bool, **options: bool) -> Any:
    import numba

    njit: Any = numba.njit  # numba's types do not know all the options
    return njit(nogil=True, _nrt=not lean, no_cfunc_wrapper=True, **options)(function)


def _cached(compiled: Any) -> Any:
    folder = cache_folder()
    if folder is not None and hasattr(compiled, "enable_caching"):  # not so when NUMBA_DISABLE_JIT is set
        _cache_in(folder, compiled)
    _announce_compiles()
    return compiled


def cache_folder() -> Path | None:
    """Name the folder for compiled kernels, or None when no folder can be written.

    It lies below `$NUMBA_CACHE_DIR` (numba's own setting) or else in `$XDG_CACHE_HOME` or
    `~/.cache`. Its last part is a fingerprint of the kernels' source: numba notices a change in the file
    of a kernel, but not in the file of another kernel that it calls.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR", "")
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


def _cache_in(folder: Path, compiled: Any) -> None:
    """Switch on caching in `folder`; numba reads its setting at this moment only, so it is put back after."""
    import numba

    with _lock:
        before = vars(numba.config)["CACHE_DIR"]
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
