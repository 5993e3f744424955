"""Imports go one way."""

from __future__ import annotations

import ast
import importlib
from collections import defaultdict
from pathlib import Path

import pytest

import discretion

ROOT = Path(discretion.__file__).parent
FLOORS = (
    ("errors", "part", "context", "kernels", "display", "solve"),
    ("data",),
    ("engines",),
    ("method", "measure", "model"),
    ("learning",),
    ("datasets", "utility", "risk"),
    ("privacy",),
    ("policy",),
    ("protect", "tables", "online", "parties"),
    ("anonymize", "outputs"),
    ("release",),
    ("cli", "web", "__main__"),
)
LEVEL = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
APART = ("parties", ("protect", "tables", "online"))
"""Computations between parties use data, risk and privacy, and none of the rooms beside them."""
LOOKS_UP = {("context", "engines")}
"""Allowed on purpose: see ARCHITECTURE.md."""

FILES = sorted(path for path in ROOT.rglob("*.py") if path.name != "__init__.py" or path.parent != ROOT)


def room(dotted: str) -> str | None:
    parts = dotted.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "discretion" else None


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ROOT)) for path in FILES])
def test_no_file_imports_from_a_floor_above(path: Path) -> None:
    here = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert here in LEVEL, f"{here} has no place in the floor plan"
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for there in filter(None, map(room, names)):
            if (here, there) not in LOOKS_UP:
                assert there == here or LEVEL[there] <= LEVEL[here], f"{here} imports {there}"
                assert not (here == APART[0] and there in APART[1]), f"{here} imports {there}"
                assert (here, there) != ("web", "cli"), "what both faces need belongs to a floor below"


@pytest.mark.parametrize(
    "package", sorted(path.parent for path in ROOT.rglob("__init__.py")), ids=lambda path: path.name
)
def test_public_names_are_there(package: Path) -> None:
    """Names that are loaded when they are first used: a file that moved must not take them along."""
    module = importlib.import_module(".".join(("discretion", *package.relative_to(ROOT).parts)))
    for name in getattr(module, "__all__", ()):
        assert getattr(module, name) is not None


def test_kernels_know_no_frames() -> None:
    for path in (ROOT / "kernels").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not any(f"import {name}" in text for name in ("polars", "pandas", "pyarrow", "narwhals")), path.name


def test_a_public_class_name_means_one_thing() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in ROOT.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    twice = {name: sorted(files) for name, files in places.items() if len(files) > 1}
    assert not twice, f"qualify these names by what they are: {twice}"
