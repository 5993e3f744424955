"""Where the reference files of other tools lie; tests that need them skip with a reason when they are absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("DISCRETION_SHARED", Path(__file__).parents[2] / "shared"))


def reference(*parts: str) -> Path:
    """Give the path of a reference file, or skip the test."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"reference file {'/'.join(parts)} is not here (set DISCRETION_SHARED)")
    return path
