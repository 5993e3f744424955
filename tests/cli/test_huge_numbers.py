"""Numbers too large to compute with end a command with an error, not with infinities and exit code 0."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli


@pytest.mark.parametrize(
    "options",
    [
        ("additive-noise", "--columns", "a", "--sd-share", "0.1"),
        ("correlated-noise", "--columns", "a,b", "--variance-share", "0.1"),
        ("optimal-microaggregation", "--columns", "a", "--k", "3"),
        ("round", "--columns", "a", "--base", "10"),
    ],
    ids=lambda options: options[0],
)
def test_the_command_line_refuses_huge_numbers(options: tuple[str, ...], tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "h160.csv"
    file.write_text("a,b\n1e160,1\n" + "".join(f"{10 + i % 7}.5,{i % 5}\n" for i in range(40)))
    done = cli("apply", options[0], file, "-", *options[1:])
    assert done.code == 3 and done.out == ""
    assert "'a' (1)" in done.err and "missing code" in done.err and "RuntimeWarning" not in done.err
    assert "e160" not in done.err and "e+160" not in done.err
