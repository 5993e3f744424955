"""Start-up: what the import, the help and short commands cost beside importing the libraries they stand on.

Bytecode is kept, as on a user's machine, whatever the environment says: compiling the sources anew takes as long as a
short command, and pip does it when it installs. The first run of the demo compiles the kernels.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.ratio import RUNS, Line

ROWS = 1_000_000
LIBRARIES = "import numpy, polars, pydantic"


def lines() -> Iterator[Line]:
    """Yield the lines on start-up, and those of the commands that a newcomer tries."""
    base = _child(LIBRARIES)
    with tempfile.TemporaryDirectory() as folder:
        cache = {"NUMBA_CACHE_DIR": f"{folder}/kernels", "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
        cache["PYTHONDONTWRITEBYTECODE"] = ""
        source, demo = Path(folder, "in.csv"), _command("demo", "--out", f"{folder}/demo", "--force", "--quiet")
        np.savetxt(source, np.random.default_rng(1).lognormal(10, 1, ROWS), "%.2f", header="income", comments="")
        apply = _command("apply", "mdav", source, f"{folder}/out.csv", "--columns", "income", "--k", 5, "--force")
        _child(demo, {**cache, "NUMBA_CACHE_DIR": f"{folder}/others"}, 1)
        yield Line("demo, first run", LIBRARIES, _child(demo, cache, 1), base, 28.0)
        yield Line("demo, kernels in the cache", LIBRARIES, _child(demo, cache, 3), base, 13.0)
        _child(apply, cache, 1)
        yield Line(f"apply mdav, {ROWS:,} values", LIBRARIES, _child(apply, cache), base, 3.6)
        base = _child("import numpy", cache)
        yield Line("import discretion", "import numpy", _child("import discretion", cache), base, 1.5)
        yield Line("discretion --help", "import numpy", _child(_command("--help"), cache), base, 2.5)


def _command(*arguments: object) -> str:
    given = ["discretion", *map(str, arguments)]
    return f"import sys; sys.argv = {given!r}; from discretion.cli import main; main()"


def _child(code: str, environment: dict[str, str] | None = None, runs: int = RUNS) -> float:
    """Give the least CPU time of a fresh interpreter."""
    best = float("inf")
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | (environment or {}), check=True, capture_output=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = min(best, spent)
    return best
