"""Every example in the docstrings of the tables wing runs and gives what it says."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = ("cells", "dimensions", "ready", "restructure", "tabulate")


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    result = doctest.testmod(import_module(f"discretion.tables.{name}"), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted > 0 and result.failed == 0
