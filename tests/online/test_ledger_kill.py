"""Kill −9 at any moment: never an answer without its charge, never spent twice, the chain intact."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from discretion.online.ledger import Cost
from tests.online.ledgers import Place, place

__all__ = ["place"]

ROOT = Path(__file__).parents[2]


def start(place: Place, told: Path, user: str, budget: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.online.spender", place.url, place.name, str(told), user, str(budget)]
    return subprocess.Popen(command, cwd=ROOT)


def wait_until_ready(told: Path) -> None:
    for _ in range(3000):
        if told.exists() and told.read_text(encoding="ascii").startswith("ready"):
            return
        time.sleep(0.02)
    raise AssertionError("the process did not start")


def answers_told(folder: Path) -> list[int]:
    """Give the charges whose answers were told; a line that was cut off by the kill does not count."""
    lines = [line for file in folder.glob("told-*") for line in file.read_text(encoding="ascii").split("\n")[:-1]]
    return [int(line) for line in lines if line != "ready"]


def check(place: Place, folder: Path, budget: int) -> int:
    """Check everything that must hold; give the number of answers that were told."""
    with place.open(create=False) as ledger:
        assert ledger.verify().holds
        entries = list(ledger.history())
        charged = {entry.id for entry in entries if entry.kind == "dp"}
        recorded = [entry.refers for entry in entries if entry.kind == "answer"]
        told = answers_told(folder)
        assert len(told) == len(set(told)) and set(told) <= set(recorded) <= charged
        assert len(recorded) == len(set(recorded))
        assert ledger.spent() == Cost(micro_epsilon=7 * len(charged)) and 7 * len(charged) <= budget
    return len(told)


def kill_many_times(place: Place, folder: Path, kills: int, together: int) -> None:
    budget, rng = 7 * 10**6, random.Random(kills)
    place.open().close()
    for round_ in range(kills // together):
        told = [folder / f"told-{round_}-{i}" for i in range(together)]
        processes = [start(place, path, f"u{round_}-{i}", budget) for i, path in enumerate(told)]
        for path in told:
            wait_until_ready(path)
        time.sleep(rng.uniform(0, 0.1))
        for process in processes:
            time.sleep(rng.uniform(0, 0.02))
            process.kill()
            assert process.wait() == -9
    assert check(place, folder, budget) > 0


def test_killed_at_random_moments(place: Place, tmp_path: Path) -> None:
    kill_many_times(place, tmp_path, kills=20, together=4)


@pytest.mark.slow
def test_killed_at_two_hundred_random_moments(place: Place, tmp_path: Path) -> None:
    kill_many_times(place, tmp_path, kills=200, together=8)


def test_eight_processes_spend_a_budget_once(place: Place, tmp_path: Path) -> None:
    budget = 7 * 120 + 6
    place.open().close()
    processes = [start(place, tmp_path / f"told-{i}", f"u{i}", budget) for i in range(8)]
    assert [process.wait(timeout=120) for process in processes] == [0] * 8
    assert check(place, tmp_path, budget) == 120
