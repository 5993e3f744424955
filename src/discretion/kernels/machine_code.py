"""Machine code of kernels, kept in files and called without numba: importing numba takes longer than most kernels run.

A lean kernel makes no arrays, so that its code needs nothing of numba's. It is called as compiled functions call each
other: an array is handed over as its address, shape and strides. Code that would need more is refused, and the kernel
is then called through numba.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import struct
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_LAYOUT = 0x503  # the flags of an array that its type in numba depends on: order, alignment, may be written to
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
            kinds.append(f"{given.dtype.str}/{given.ndim}/{given.flags.num & _LAYOUT}")
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
    code = Code(compiled.library.serialize_using_object_code()[2][0], name, takes, gives)
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


def file_of(folder: Path, function: Callable[..., Any], kinds: Sequence[str]) -> Path:
    """Name the file for the code of a kernel, for these types and this machine."""
    name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
    digest = hashlib.sha256(json.dumps([function.__module__, kinds, _machine()]).encode())
    return folder / f"{name}-{digest.hexdigest()[:20]}.code"


@functools.cache
def _machine() -> list[str]:
    """Say what machine code depends on: processor, versions and numba's settings."""
    import llvmlite.binding as llvm

    settings = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith("NUMBA_") and k != "NUMBA_CACHE_DIR")
    return [
        llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten(),
        version("numba"), version("llvmlite"), sys.version, *settings,
    ]  # fmt: skip


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
