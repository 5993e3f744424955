"""The commands of the README do what it says, on its own plan."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.cli.conftest import Cli

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("discretion ")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


def test_every_command_of_the_readme_runs(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    live: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "live.py"))
    monkeypatch.chdir(tmp_path)
    live["prepare"](tmp_path, identifiers=False)
    pl.read_csv("census.csv").head(2500).rename({"weight": "w"}).write_csv("census.csv")
    plan, tuned = blocks("yaml")
    swap = next(line for line in plan.splitlines(keepends=True) if "rank-swap" in line)
    (tmp_path / "tune.yaml").write_text(plan.replace(swap, "") + tuned, encoding="utf-8")
    called = commands()
    assert [words[0] for words in called] == ["run", "check", "assess", "parts", "tune", "run"]
    for words in called:
        done = cli(*words)
        assert done.code == 0, (words, done.err)
    assert all((tmp_path / name).exists() for name in ("map.html", "best.yaml", "tuned", "release-private"))
