"""Write `src/discretion/kernels/built.zip`: the kernels that first commands call, in LLVM's language, for the wheel.

Numba compiles them here once, for any processor of this family and without the last optimizations; where the wheel is
used, LLVM finishes them for the processor at hand, without numba, in less time. They hold for these sources,
this system and this version of LLVM; otherwise, and for all other kernels and types, numba compiles as ever.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import zipfile
from contextlib import redirect_stdout
from typing import Any

from discretion.kernels import jit

SETTINGS = {"NUMBA_OPT": "1", "NUMBA_CPU_NAME": "generic", "NUMBA_LOOP_VECTORIZE": "0", "NUMBA_SLP_VECTORIZE": "0"}
COMMANDS = (
    "demo --out demo --quiet",
    "apply mdav demo/census.csv one.csv --columns age --k 5 --quiet",
    "apply mdav demo/census.csv two.csv --columns savings,age --k 5 --quiet",
    "apply rank-swap demo/census.csv swapped.csv --columns savings,age --percent 5 --quiet",
    "apply local-suppression demo/census.csv suppressed.csv --columns age,sex,education --k 3 --quiet",
)
"""What is run so that kernels are called with the types that commands give them."""


def main() -> int:
    """Run the commands with an empty cache, keep what is compiled."""
    from discretion.cli.app import run

    made: dict[str, str] = {}
    compile_ = jit._LeanKernel._compile

    def compile_and_keep(kernel: Any, arguments: tuple[Any, ...]) -> Any:
        kinds: list[str] = []
        jit.unpack(arguments, kinds, [])
        compiled = compile_(kernel, arguments)
        try:
            code = jit.code_of(compiled, kinds)
        except jit.Refused:
            return compiled
        head = json.dumps(list(code[1:]))
        made[jit.name_of(kernel.function, kinds)] = f"{head}\n{compiled.library.get_llvm_str()}"
        return compiled

    jit._LeanKernel._compile = compile_and_keep  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(SETTINGS, NUMBA_CACHE_DIR=folder)
        os.chdir(folder)
        for command in COMMANDS:
            with redirect_stdout(io.StringIO()):
                failed = run(command.split())
            if failed:
                return failed
    with zipfile.ZipFile(jit.BUILT, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.comment = json.dumps(jit.built_for()).encode()
        for name, text in sorted(made.items()):
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    sys.stdout.write(f"wrote {len(made)} kernels to {jit.BUILT.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
