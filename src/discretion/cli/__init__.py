"""The command line."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import MutableMapping, Sequence

_SHORT = 32_000_000
"""Bytes of files up to which a command is a short one."""


def few_threads(arguments: Sequence[str], environment: MutableMapping[str, str]) -> None:
    """Let the libraries use one thread in short commands, unless the environment says how many.

    To wake threads up for pieces of work that take a millisecond, and to let them wait for the next, costs more than
    they save. The libraries read the numbers when they are loaded.
    """
    files = [name for name in arguments[1:] if os.path.isfile(name)]  # noqa: PTH113 - pathlib is not loaded yet
    small = sum(os.path.getsize(name) for name in files) <= _SHORT  # noqa: PTH202
    own = arguments[:1] == ["demo"] and not any(name.startswith("--rows") for name in arguments)
    if own or (arguments[:1] == ["apply"] and files and small):
        for name in ("POLARS_MAX_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
            environment.setdefault(name, "1")


def main() -> None:
    """Run `discretion`; errors become one clear message and their exit code."""
    few_threads(sys.argv[1:], os.environ)
    gc.set_threshold(20_000)  # most of what a command makes stays until its end
    try:
        from discretion.cli.app import run
    except KeyboardInterrupt:  # while the commands are loaded
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))
