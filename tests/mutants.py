"""Do the tests notice? Change one operator at a time and count the changes that some test catches.

`python -m tests.mutants learning --places 40` draws places of a room by a seed, writes a copy of the package with one
comparison, sum, product or Boolean operator changed, and runs tests on it: those that bear the file's name, those that
import it, those that name what it defines, most often first, and others of the room, `--files` in all (`--tests` names
others, `--only` a part of the room's files). A change that no test fails on is printed with its line. Changes that
cannot be seen from outside (the order of equal summands, a limit of work) are counted as missed, too.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHANGES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.And: ast.Or, ast.Or: ast.And,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


def operators(tree: ast.AST) -> list[tuple[ast.AST, int | None]]:
    """Give the places of operators inside functions: the node, and which of its comparisons."""
    found: list[tuple[ast.AST, int | None]] = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in (inner for statement in function.body for inner in ast.walk(statement)):
            if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in CHANGES:
                found.append((node, None))
            elif isinstance(node, ast.Compare):
                found += [(node, at) for at, op in enumerate(node.ops) if type(op) in CHANGES]
    return list(dict.fromkeys(found))


def change(path: Path, number: int) -> tuple[int, str]:
    """Change the operator of a number in a file; give its line and what became of it."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    node, at = operators(tree)[number]
    old = node.op if at is None else node.ops[at]  # type: ignore[attr-defined]
    new = CHANGES[type(old)]()
    if at is None:
        node.op = new  # type: ignore[attr-defined]
    else:
        node.ops[at] = new  # type: ignore[attr-defined]
    lines = text.splitlines(keepends=True)
    first, last = node.lineno - 1, node.end_lineno - 1  # type: ignore[attr-defined]
    encoded = [line.encode() for line in lines]
    before = encoded[first][: node.col_offset]  # type: ignore[attr-defined]
    after = encoded[last][node.end_col_offset :]  # type: ignore[attr-defined]
    written = ast.unparse(node) if isinstance(node, ast.AugAssign) else f"({ast.unparse(node)})"
    encoded[first : last + 1] = [before + written.encode() + after]
    path.write_bytes(b"".join(encoded))
    return first + 1, f"{type(old).__name__} → {type(new).__name__}: {lines[first].strip()}"


def tests_of(path: Path, room: str, most: int) -> list[str]:
    """List the files of tests that are likeliest to notice a change of a file, the likeliest first."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    public = "|".join(node.name for node in body if isinstance(node, ast.ClassDef) and node.name[0] != "_")
    module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    imported = re.compile(rf"\b{re.escape(module)}\b")
    named = re.compile(rf"\b({re.escape(module)}|dc\.({public or path.stem}))\b")
    found = {}
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        here = room in test.relative_to(ROOT / "tests").parts[:1]
        text = test.read_text(encoding="utf-8")
        uses = len(named.findall(text))
        if here or uses:
            bears, direct = here and path.stem in test.stem, imported.search(text) is not None
            found[str(test.relative_to(ROOT))] = (bears, direct, here and uses > 0, uses)
    return sorted(found, key=lambda test: found[test], reverse=True)[:most]


def is_caught(source: Path, tests: list[str], seconds: float) -> bool:
    """Tell whether some test fails, or does not end, with a changed package."""
    paths = os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow", *tests]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def main() -> None:
    """Draw places, change them one by one, and say how many changes were caught."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("room")
    asked.add_argument("--places", type=int, default=200)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--only", default="", help="files of the room whose path contains this")
    asked.add_argument("--tests", nargs="*", help="in place of those that may notice a change")
    asked.add_argument("--files", type=int, default=8, help="files of tests run for a change, at most")
    asked.add_argument("--seconds", type=float, default=600)
    given = asked.parse_args()
    files = [p for p in sorted((ROOT / "src/discretion" / given.room).rglob("*.py")) if given.only in str(p)]
    places = [(p, n) for p in files for n in range(len(operators(ast.parse(p.read_text(encoding="utf-8")))))]
    drawn = random.Random(given.seed).sample(places, min(given.places, len(places)))
    caught = 0
    for count, (path, number) in enumerate(drawn, 1):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / "src", Path(folder) / "src", ignore=shutil.ignore_patterns("__pycache__"))
            place = path.relative_to(ROOT)
            line, what = change(Path(folder) / place, number)
            seen = is_caught(
                Path(folder) / "src", given.tests or tests_of(path, given.room, given.files), given.seconds
            )
        caught += seen
        print(f"{caught}/{count} {'caught' if seen else 'MISSED'} {place}:{line} {what}", flush=True)
    print(f"{given.room}: {caught} of {len(drawn)} changes caught ({len(places)} places)")


if __name__ == "__main__":
    main()
