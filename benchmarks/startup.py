"""Start-up: what `import discretion` and `discretion --help` cost beside `import numpy`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.ratio import RUNS, Line


def lines() -> Iterator[Line]:
    """Yield the two lines on start-up."""
    base = _child("import numpy")
    yield Line("import discretion", "import numpy", _child("import discretion"), base, 1.5)
    help_text = "import sys; sys.argv = ['discretion', '--help']; from discretion.cli import main; main()"
    yield Line("discretion --help", "import numpy", _child(help_text), base, 2.5)


def _child(code: str) -> float:
    """Give the least CPU time of a fresh interpreter."""
    best = float("inf")
    for _ in range(RUNS):
        before = os.times()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        best = min(best, spent)
    return best
