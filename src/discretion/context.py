"""What a running step may use besides its data: randomness, progress, the engine."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from discretion.errors import PlanError

if TYPE_CHECKING:
    from discretion.engines.memory import MemoryEngine

Progress = Callable[[int, int, str], None]
"""`progress(done, total, label)`; it may raise `Cancelled`."""

BATCH_ROWS = 65_536
"""Rows per batch of a row-wise method. Part of the reproducibility contract: changing it changes releases."""


def ignore_progress(done: int, total: int, label: str) -> None:
    """Take a progress report and do nothing with it."""


def new_seed() -> int:
    """Draw a seed nobody can guess (128 bits from the operating system)."""
    return secrets.randbits(128)


@dataclass(frozen=True)
class Batch:
    """A run of rows with its own random generator."""

    start: int
    stop: int
    rng: np.random.Generator


@dataclass(frozen=True)
class Context:
    """Randomness, progress and engine of one step.

    All randomness is derived from `seed` and `step`, so that the same plan and seed give the same bytes.
    The generator is Philox: unlike the faster default generators of numpy, no published attack computes its
    state from the draws that somebody who knows a few original values could reconstruct.
    """

    seed: int = field(default_factory=new_seed, repr=False)
    step: str = ""
    progress: Progress = field(default=ignore_progress, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.seed, int | np.integer) or self.seed < 0:
            raise PlanError("a seed is a whole number of at least 0")

    def _generator(self, *more: int) -> np.random.Generator:
        digest = hashlib.blake2b(self.step.encode(), digest_size=8).digest()
        key = (int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:], "big"), *more)
        return np.random.Generator(np.random.Philox(np.random.SeedSequence(self.seed, spawn_key=key)))

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator keyed by (seed, step); every call starts the same sequence again."""
        return self._generator()

    def batches(self, rows: int, label: str = "") -> Iterator[Batch]:
        """Yield batches of 65,536 rows, each with a generator keyed by (seed, step, batch number)."""
        for number, start in enumerate(range(0, rows, BATCH_ROWS)):
            self.progress(start, rows, label or self.step)
            yield Batch(start, min(start + BATCH_ROWS, rows), self._generator(number))
        self.progress(rows, rows, label or self.step)

    def within(self, step: str) -> Context:
        """Give the context of a step (or of a group inside a step): other draws, same seed."""
        return replace(self, step=f"{self.step}/{step}" if self.step else step)

    def key(self, label: str, content: bytes = b"") -> bytes:
        """Derive 16 bytes for one purpose from the seed (keyed BLAKE2b); without the seed they look random."""
        size = max(16, (int(self.seed).bit_length() + 7) // 8)
        secret = hashlib.blake2b(int(self.seed).to_bytes(size, "big")).digest()
        return hashlib.blake2b(label.encode() + b"\0" + content, digest_size=16, key=secret).digest()

    @property
    def engine(self) -> MemoryEngine:
        """Where the data is worked on; polars in memory."""
        from discretion.engines.memory import MemoryEngine

        return MemoryEngine(self)
