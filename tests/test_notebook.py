"""The demo notebook: valid, without outputs, every cell runs, every method is in it."""

from __future__ import annotations

import ast
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from discretion.part import index

NOTEBOOK = Path(__file__).parents[1] / "examples" / "methods.ipynb"
METHODS = {kind: entry.name for kind, entry in index().items() if entry.family == "method"}


@pytest.fixture(scope="module")
def cells() -> list[dict[str, Any]]:
    content = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (content["nbformat"], content["nbformat_minor"]) == (4, 5)
    assert content["metadata"]["kernelspec"]["name"] == "python3"
    found: list[dict[str, Any]] = content["cells"]
    return found


def source_of(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def test_cells_are_well_formed_and_clean(cells: list[dict[str, Any]]) -> None:
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        wanted = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            wanted |= {"execution_count", "outputs"}
            assert cell["outputs"] == [] and cell["execution_count"] is None
        else:
            assert cell["cell_type"] == "markdown"
        assert set(cell) == wanted
        assert all(line.endswith("\n") for line in cell["source"][:-1])


def test_every_method_has_an_entry(cells: list[dict[str, Any]]) -> None:
    """A heading with the class, a sentence with the kind, then a cell that calls it and ends with a look at it."""
    entries = {}
    for cell, following in pairwise(cells):
        text = source_of(cell)
        if cell["cell_type"] == "markdown" and text.startswith("### "):
            name, _, sentence = text.removeprefix("### ").partition("\n\n")
            entries[name] = (sentence, following)
    assert set(entries) == set(METHODS.values())
    for kind, name in METHODS.items():
        sentence, cell = entries[name]
        assert sentence.startswith(f"`{kind}`: ") and sentence.endswith(".")
        assert cell["cell_type"] == "code" and f"dc.{name}(" in source_of(cell)
        assert isinstance(ast.parse(source_of(cell)).body[-1], ast.Expr), f"{name}: the last line shows nothing"


def test_every_cell_runs(cells: list[dict[str, Any]]) -> None:
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile(source_of(cell), cell["id"], "exec"), names)
    assert names["following"].without == ("requirements",)  # only looked at: it would not be published
