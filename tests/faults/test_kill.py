"""A process that is killed: the public folder has all of its files or does not exist.

Hidden folders that were being written may remain beside it; they are never taken for a release.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from discretion.cli.app import run
from tests.faults.test_disk_full import PRIVATE, is_whole
from tests.release.survey import put_survey

AT_A_CALL = """\
import os, signal, sys
name, number, *arguments = sys.argv[1:]
real, left = getattr(os, name), [int(number)]
def deadly(*a, **o):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*a, **o)
setattr(os, name, deadly)
from discretion.cli.app import run
sys.exit(run(arguments))
"""
"""Runs the command line and is killed at the n-th call of a function of `os`."""

AGAIN_AND_AGAIN = """\
import sys
from discretion.cli.app import run
while True:
    assert run(sys.argv[1:]) == 0
    sys.stderr.write("done\\n")
    sys.stderr.flush()
"""
"""Runs the command line until it is killed."""


def hidden(folder: Path) -> list[Path]:
    return [f for f in folder.iterdir() if f.name.startswith(".")]


def check_left_over(folder: Path) -> None:
    for place in hidden(folder):
        if (place / "seed").exists():
            assert place.stat().st_mode & 0o077 == 0  # also what is left over keeps its secrets


@pytest.mark.parametrize("rename", [1, 2])
def test_killed_while_a_first_release_is_moved_into_place(tmp_path: Path, rename: int) -> None:
    path = put_survey(tmp_path)
    command = [sys.executable, "-c", AT_A_CALL, "rename", str(rename), "run", str(path), "-q"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()  # it comes last, so that nothing is public without its journal
    assert (tmp_path / "secret").exists() == (rename == 2)
    check_left_over(tmp_path)
    assert run(["run", str(path), "--force", "-q"]) == 0 and is_whole(tmp_path)


@pytest.mark.parametrize("rename", [2, 4])
def test_killed_while_a_release_is_replaced(tmp_path: Path, rename: int) -> None:
    path = put_survey(tmp_path)
    assert run(["run", str(path), "-q"]) == 0
    command = [sys.executable, "-c", AT_A_CALL, "rename", str(rename), "run", str(path), "-q", "--force"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    if rename == 4:  # the old one was moved away: it is hidden, and whole
        assert not (tmp_path / "out").exists()
        (old,) = [f for f in hidden(tmp_path) if f.name.startswith(".out.old")]
        old.rename(tmp_path / "out")
    assert is_whole(tmp_path)
    check_left_over(tmp_path)


def test_killed_at_random_moments(tmp_path: Path) -> None:
    moments = random.Random(8)
    workers = []
    for number in range(4):
        path = put_survey(tmp_path / str(number))
        command = [sys.executable, "-c", AGAIN_AND_AGAIN, "run", str(path), "-q", "--json", "--force"]
        workers.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    for number, worker in enumerate(workers):
        folder = tmp_path / str(number)
        assert worker.stderr is not None and worker.stderr.readline() == "done\n"
        for _ in range(2):  # stopped at a random moment, looked at, and let go; then killed
            time.sleep(moments.uniform(0, 0.3))
            os.kill(worker.pid, signal.SIGSTOP)
            if (folder / "out").exists():
                assert is_whole(folder)
            os.kill(worker.pid, signal.SIGCONT)
        time.sleep(moments.uniform(0, 0.3))
        worker.kill()
        worker.wait()
        worker.stderr.close()
        if (folder / "out").exists():
            assert is_whole(folder)
        if (folder / "secret").exists():
            assert sorted(f.name for f in (folder / "secret").iterdir()) == PRIVATE
        check_left_over(folder)
