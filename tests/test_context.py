"""Seeds: from the operating system unless given."""

from __future__ import annotations

import subprocess
import sys

from discretion.context import Context, new_seed

_DRAW = "from discretion.context import new_seed; print(new_seed())"


def test_each_process_draws_its_own_seed() -> None:
    calls = [subprocess.run([sys.executable, "-c", _DRAW], capture_output=True, text=True, check=True) for _ in "ab"]
    first, second = (int(call.stdout) for call in calls)
    assert first != second and max(first, second) >= 2**100


def test_contexts_without_a_seed_differ() -> None:
    assert new_seed() != new_seed()
    assert Context().rng.random() != Context().rng.random()


def test_the_same_seed_and_step_give_the_same_draws() -> None:
    assert Context(3, "a").rng.random() == Context(3, "a").rng.random() != Context(3, "b").rng.random()
    drawn = [batch.rng.random() for batch in Context(3).batches(200_000)]
    assert len(set(drawn)) == len(drawn) == 4
