"""Somebody who stops the work: exit code 130, nothing written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import discretion as dc
from discretion.cli.app import run
from discretion.context import Progress
from discretion.errors import Cancelled
from tests.faults.test_disk_full import tree
from tests.release.survey import put_survey


class Impatient:
    """A progress function that gives up at its n-th call."""

    def __init__(self, patience: int, error: type[BaseException]) -> None:
        self.patience, self.error, self.calls = patience, error, 0

    def __call__(self, done: int, total: int, label: str) -> None:
        assert 0 <= done <= total and label
        self.calls += 1
        if self.calls == self.patience:
            raise self.error("enough")


def calls_of_a_run(path: Path) -> int:
    patient = Impatient(0, Cancelled)
    dc.Plan.load(path).run(seed=1, out=path.parent / "probe", journal=path.parent / "probe-secret", progress=patient)
    for place in ("probe", "probe-secret"):
        for file in (path.parent / place).iterdir():
            file.unlink()
        (path.parent / place).rmdir()
    return patient.calls


@pytest.mark.parametrize("error", [Cancelled, KeyboardInterrupt])
def test_stopped_at_any_moment_nothing_is_written(tmp_path: Path, error: type[BaseException]) -> None:
    path = put_survey(tmp_path)
    calls = calls_of_a_run(path)
    before = tree(tmp_path)
    assert calls >= 10  # three steps, two measures and two requirements report
    for number in range(1, calls + 1):
        with pytest.raises(error):
            dc.Plan.load(path).run(seed=1, progress=Impatient(number, error))
        assert tree(tmp_path) == before


@pytest.mark.parametrize("error", [Cancelled, KeyboardInterrupt])
@pytest.mark.parametrize("command", ["run", "check"])
def test_the_command_line_exits_130(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: type[BaseException],
    command: str,
) -> None:
    @contextmanager
    def impatient(quiet: bool) -> Iterator[Progress]:
        yield Impatient(4, error)

    monkeypatch.setattr("discretion.cli.run.progress_bar", impatient)
    path = put_survey(tmp_path)
    before = tree(tmp_path)
    assert run([command, str(path)]) == 130
    out, err = capsys.readouterr()
    assert err.splitlines()[-1].startswith("error: ") and out == "" and tree(tmp_path) == before


def test_apply_exits_130_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def impatient(quiet: bool) -> Iterator[Progress]:
        yield Impatient(1, KeyboardInterrupt)

    monkeypatch.setattr("discretion.cli.apply.progress_bar", impatient)
    put_survey(tmp_path)
    before = tree(tmp_path)
    command = ["apply", "rank-swap", str(tmp_path / "survey.csv"), str(tmp_path / "new.csv")]
    assert run([*command, "--columns", "income", "--percent", "5"]) == 130
    assert tree(tmp_path) == before
