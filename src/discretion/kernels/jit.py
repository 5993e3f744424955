"""Compile kernels with numba, keep the machine code in the user's cache, and say when a compile happens.

Importing this module, or one that defines kernels, does not import numba.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import hashlib
import json
import os
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np

# Machine code of kernels, kept in files and called without numba: importing numba takes longer than most kernels run.
#
# A lean kernel makes no arrays, so that its code needs nothing of numba's. It is called as compiled functions call
# each other: an array is handed over as its address, shape and strides. Code that would need more is refused, and the
# kernel is then called through numba.

_LAYOUT = 0x501  # the flags of an array that its type in numba depends on: order by rows, alignment, may be written to
_ARRAY = "PPqqP"
_CTYPES = {
    "P": ctypes.c_void_p, "q": ctypes.c_int64, "Q": ctypes.c_uint64, "i": ctypes.c_int32, "I": ctypes.c_uint32,
    "B": ctypes.c_uint8, "d": ctypes.c_double,
}  # fmt: skip
_LLVM = {"P": "ptr", "q": "i64", "Q": "i64", "i": "i32", "I": "i32", "B": "i8", "d": "double"}
_RESULT = 8  # numbers that a kernel may give back


class Code(NamedTuple):
    """The object code of a kernel, the name of its function, what it takes and what it gives back."""

    machine: bytes
    name: str
    takes: str
    gives: str


class Refused(Exception):
    """These arguments or this code cannot be called without numba."""


def unpack(arguments: Sequence[Any], kinds: list[str], flat: list[Any]) -> None:
    """Append what tells the arguments' types apart to `kinds`, and the numbers that are handed over to `flat`."""
    for given in arguments:
        kind = type(given)
        if kind is np.ndarray:
            layout = given.flags.num
            kinds.append(f"{given.dtype.str}/{given.ndim}/{layout & (_LAYOUT if layout & 1 else _LAYOUT | 2)}")
            flat += (None, None, given.size, given.itemsize, given.__array_interface__["data"][0])
            flat += given.shape
            flat += given.strides
        elif kind is int:
            if not -(2**63) <= given < 2**63:
                raise Refused
            kinds.append("q")
            flat.append(given)
        elif kind is float:
            kinds.append("d")
            flat.append(given)
        elif given is None:
            kinds.append("P")
            flat.append(None)
        elif kind is bool or kind is np.bool_:
            kinds.append("B")
            flat.append(bool(given))
        elif isinstance(given, np.number) and given.dtype.char in "lLiIdqQ":
            char = given.dtype.char
            kinds.append({"l": f"{given.itemsize}l", "L": f"{given.itemsize}L"}.get(char, char))
            flat.append(given.item())
        elif isinstance(given, tuple):
            kinds.append(f"{kind.__module__}.{kind.__qualname__}({len(given)}")
            unpack(given, kinds, flat)
        else:
            raise Refused


def handed_over(kinds: Sequence[str]) -> str:
    """Give one letter for each number that is handed over."""
    letters = []
    for kind in kinds:
        if "/" in kind:
            letters.append(_ARRAY + "qq" * int(kind.split("/")[1]))
        elif "(" not in kind:
            letters.append({"8l": "q", "8L": "Q", "4l": "i", "4L": "I"}.get(kind, kind))
    return "".join(letters)


def callable_of(code: Code) -> Callable[[list[Any]], Any]:
    """Load machine code and give a function of the numbers that are handed over."""
    engine, address = _load(code)
    call = ctypes.CFUNCTYPE(ctypes.c_int32, *(_CTYPES[letter] for letter in "PP" + code.takes))(address)
    single = len(code.gives) == 1

    def run(flat: list[Any]) -> Any:
        result, error = (ctypes.c_int64 * _RESULT)(), ctypes.c_void_p()
        status = call(ctypes.addressof(result), ctypes.addressof(error), *flat)
        if status:
            raise ArithmeticError(f"{code.name} stopped with status {status}")
        if not code.gives:
            return None
        found = struct.unpack_from(code.gives, result)
        return found[0] if single else found

    run.__dict__["engine"] = engine  # the code lives as long as the engine
    return run


def code_of(compiled: Any, kinds: Sequence[str]) -> Code:
    """Take the machine code out of what numba compiled; refuse what could not run without numba."""
    name, takes = compiled.fndesc.llvm_func_name, handed_over(kinds)
    gives = _gives(compiled.signature.return_type)
    function = compiled.library.get_function(name)
    if [str(argument.type) for argument in function.arguments][2:] != [_LLVM[letter] for letter in takes]:
        raise Refused
    return _without_numba(Code(compiled.library.serialize_using_object_code()[2][0], name, takes, gives))


def _without_numba(code: Code) -> Code:
    if any(symbol.startswith(("numba", "NRT_", "Py", "_Py")) for symbol in _undefined(code.machine)):
        raise Refused
    return code


def _gives(kind: Any) -> str:
    from numba.core import types

    letters = {types.none: "", types.int64: "q", types.float64: "d", types.boolean: "?"}
    kinds = list(getattr(kind, "types", [kind]))
    if len(kinds) > _RESULT or any(one not in letters for one in kinds):
        raise Refused
    return "".join(letters[one] for one in kinds)


def read(file: Path) -> Code | None:
    """Read what `write` wrote; None where there is nothing, or not the whole."""
    try:
        head, _, machine = file.read_bytes().partition(b"\n")
        digest, *rest = json.loads(head)
        code = Code(machine, *rest)
        return code if digest == hashlib.sha256(machine).hexdigest() else None
    except (OSError, ValueError, TypeError):
        return None


def write(file: Path, code: Code) -> None:
    """Keep code in a file, which appears whole; a folder that is full or gone is no error."""
    head = json.dumps([hashlib.sha256(code.machine).hexdigest(), *code[1:]]).encode()
    try:
        handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=file.name)
        with os.fdopen(handle, "wb") as stream:
            stream.write(head + b"\n" + code.machine)
        Path(temporary).replace(file)
    except OSError:
        return


def name_of(function: Callable[..., Any], kinds: Sequence[str], machine: Sequence[str] = ()) -> str:
    """Name the code of a kernel for these types, on this machine."""
    name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
    digest = hashlib.sha256(json.dumps([function.__module__, kinds, machine]).encode())
    return f"{name}-{digest.hexdigest()[:20]}"


@functools.cache
def _machine() -> list[str]:
    """Say what machine code depends on: processor, versions and numba's settings."""
    import llvmlite.binding as llvm

    return [
        llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(),
        version("numba"), version("llvmlite"), sys.version, *_settings(),
    ]  # fmt: skip


def _settings() -> list[str]:
    return sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("NUMBA_") and k != "NUMBA_CACHE_DIR")


# Kernels that come with a wheel as LLVM's language, which numba writes and any processor of a family can be served
# from: that is six sevenths of the work of compiling, and done once where the wheel is built (`docs/kernels.py`).

BUILT = Path(__file__).parent / "built.zip"


def built_for() -> list[str]:
    """Say what the kernels that come with a wheel depend on: their sources, the system, the version of LLVM."""
    import llvmlite.binding as llvm

    return [_fingerprint(), llvm.get_process_triple(), version("llvmlite")]


def read_built(function: Callable[..., Any], kinds: Sequence[str]) -> tuple[str, list[str]] | None:
    """Read a kernel that came with the wheel, and what `Code` needs beside; None where there is none that fits.

    Who changes settings of numba is served by numba.
    """
    import zipfile

    if _settings() or not BUILT.exists():
        return None
    try:
        with zipfile.ZipFile(BUILT) as archive:
            if json.loads(archive.comment) != built_for():
                return None
            head, _, text = archive.read(name_of(function, kinds)).decode().partition("\n")
        return text, json.loads(head)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return None


def finish(text: str, rest: Sequence[str]) -> Code:
    """Compile a kernel that came with the wheel for this processor, as numba does it."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3, jit=True
    )
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization, options.slp_vectorization = True, False
    passes = llvm.create_pass_builder(target, options)
    passes.getModulePassManager().run(module, passes)
    return _without_numba(Code(target.emit_object(module), *rest))


def _load(code: Code) -> tuple[Any, int]:
    import llvmlite.binding as llvm

    if any(llvm.address_of_symbol(symbol) is None for symbol in _undefined(code.machine)):
        raise Refused
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.machine))
    engine.finalize_object()
    address = engine.get_function_address(code.name)
    if not address:
        raise Refused
    return engine, address


def _undefined(machine: bytes) -> list[str]:
    """List the symbols that an ELF file of 64 bits needs from elsewhere; refuse other files."""
    if machine[:6] != b"\x7fELF\x02\x01":
        raise Refused
    (start,), (size, count) = struct.unpack_from("<Q", machine, 0x28), struct.unpack_from("<HH", machine, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", machine, start + i * size) for i in range(count)]
    found = []
    for section in sections:
        if section[1] != 2:  # no table of symbols
            continue
        names = sections[section[6]][4]
        for place in range(section[4] + 24, section[4] + section[5], 24):
            name, _, _, where = struct.unpack_from("<IBBH", machine, place)
            if where == 0 and name:
                found.append(machine[names + name : machine.index(b"\0", names + name)].decode())
    return found


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


class _UncountedKernel(_Kernel):
    lean = True


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
        file = None if folder is None else folder / f"{name_of(self.function, kinds, _machine())}.code"
        try:
            code = None if file is None else read(file)
            if code is not None:
                return callable_of(code)
            built = read_built(self.function, kinds)
            if built is not None:
                _tell()
            code = code_of(self._compile(arguments), kinds) if built is None else finish(*built)
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
        with _without_collection():
            self.inside.compile(types)
        return self.inside.overloads[types]


class _Helper(_Kernel):
    """A function for kernels; called from Python it runs as it is written."""

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


class _LeanHelper(_Helper):
    lean = True


class _InlineHelper(_LeanHelper):
    @functools.cached_property
    def inside(self) -> Any:
        return _njit(self.function, self.lean, no_cpython_wrapper=True, forceinline=True)


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function to machine code when it is first called, once per machine.

    The code is kept in the folder that `cache_folder` names; without such a folder it is compiled once per
    process. The lock on Python threads is released while the kernel runs.
    """
    return cast(Callable[P, R], _Kernel(function))


def uncounted_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel as lean as `lean_kernel` does, but call it through numba.

    Numba is quicker where many arrays are handed over, which counts where a kernel is called thousands of times.
    """
    return cast(Callable[P, R], _UncountedKernel(function))


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


def inline_helper(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a lean helper into the place of each call: to hand over tuples of arrays takes longer than small work."""
    return cast(Callable[P, R], _InlineHelper(function))


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


@contextmanager
def _without_collection() -> Iterator[None]:
    """Leave cycles of objects alone while numba compiles: looking for them takes a tenth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


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


def _tell() -> None:
    callback = _listener.get()
    if callback is not None:
        callback()


@functools.cache
def _announce_compiles() -> None:
    """Listen to numba's compile events, for as long as the process lives."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            if _is_ours(event.data["dispatcher"]):
                _tell()

        def on_end(self, event: Any) -> None:
            pass

    register: Any = event.register  # numba has no types
    register("numba:compile", Listener())


def _is_ours(dispatcher: Any) -> bool:
    return str(dispatcher.py_func.__module__).startswith(_PACKAGE)
