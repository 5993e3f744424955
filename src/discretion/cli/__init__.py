"""The command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `discretion`; errors become one clear message and their exit code."""
    from discretion.cli.app import run

    sys.exit(run(sys.argv[1:]))
