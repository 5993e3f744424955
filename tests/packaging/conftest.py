"""A folder that is gone after the test: an environment takes a gigabyte."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def spare() -> Iterator[Path]:
    """Give a folder that other users may pass through, as in a container."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
