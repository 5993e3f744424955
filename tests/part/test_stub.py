"""The stub of the public names: editors and type checkers know every part and its fields."""

from __future__ import annotations

import runpy
from pathlib import Path

import discretion

ROOT = Path(discretion.__file__).parents[2]


def test_the_stub_is_current() -> None:
    """`make stubs` writes it again after a part was added or a field changed."""
    text = runpy.run_path(str(ROOT / "docs" / "stubs.py"))["stub"]()
    assert (Path(discretion.__file__).parent / "__init__.pyi").read_text(encoding="utf-8") == text
