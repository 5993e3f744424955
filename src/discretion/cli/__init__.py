"""The command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `discretion`; errors become one clear message and their exit code."""
    try:
        from discretion.cli.app import run
    except KeyboardInterrupt:  # while the commands are loaded
        sys.exit(130)
    sys.exit(run(sys.argv[1:]))
