"""The command line in this process (quick) and in a process of its own (for pipes and start-up)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from discretion.cli.app import run


@dataclass(frozen=True)
class Outcome:
    """Exit code, standard output and standard error of a command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Read all of standard output as one JSON document."""
        return json.loads(self.out)


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return call


def spawn(*arguments: object, text: str | None = None, folder: Path | None = None, **environment: str) -> Outcome:
    """Run `python -m discretion` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "discretion", *map(str, arguments)],
        input=text,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, **environment},
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)
