"""What a running step may use besides its data: randomness, progress, the engine."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.errors import PlanError

if TYPE_CHECKING:
    from discretion.engines.memory import MemoryEngine

Progress = Callable[[int, int, str], None]
"""`progress(done, total, label)`; it may raise `Cancelled`."""

BATCH_ROWS = 65_536
"""Rows per batch of a row-wise method. Part of the reproducibility contract: changing it changes releases."""

SMALL_SEED = 2**96
"""Seeds below can be tried one after the other, or were typed by hand; the operating system draws 128 bits."""


def ignore_progress(done: int, total: int, label: str) -> None:
    """Take a progress report and do nothing with it."""


def new_seed() -> int:
    """Draw a seed nobody can guess: 128 bits from the operating system, never so small that it looks typed."""
    return SMALL_SEED + secrets.randbits(128)


def keyed_hash(key: bytes, *items: bytes | str) -> bytes:
    """Hash a list of items under a key (HMAC-SHA256): without the key nobody can compute it, or tell what went in."""
    made = hmac.new(key, digestmod="sha256")
    for item in items:
        content = item.encode() if isinstance(item, str) else item
        made.update(len(content).to_bytes(8, "big"))
        made.update(content)
    return made.digest()


@dataclass(frozen=True)
class Batch:
    """A run of rows with its own random generator."""

    start: int
    stop: int
    rng: np.random.Generator


class KeyNeeded(Exception):
    """A step that travelled to other machines drew from a key that did not go with it."""


def _not_here() -> bytes:
    raise KeyNeeded


def _arrived(known: dict[str, bytes]) -> Stream:
    stream = Stream(b"", _not_here, _not_here)
    vars(stream).update(known)
    return stream


class Stream:
    """The secret from which one step draws, worked out when it first draws: that takes a pass over the data.

    `steady` follows from the seed, the step, its settings and its decision; `key` from these and the data it reads.
    """

    def __init__(self, root: bytes, told: Callable[[], bytes], read: Callable[[], bytes]) -> None:
        self._root, self._told, self._read = root, told, read

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel with the keys that were used, and without what they are made of."""
        return _arrived, ({name: vars(self)[name] for name in ("steady", "key") if name in vars(self)},)

    @cached_property
    def steady(self) -> bytes:
        """The key of draws that belong to people, whatever data they stand in."""
        return keyed_hash(self._root, self._told())

    @cached_property
    def key(self) -> bytes:
        """The key of draws that belong to this data."""
        return keyed_hash(self.steady, self._read())

    @property
    def used(self) -> bytes | None:
        """The key from which was drawn; None as long as nothing was."""
        drawn: bytes | None = vars(self).get("key", vars(self).get("steady"))
        return drawn


@dataclass(frozen=True)
class Context:
    """Randomness, progress and engine of one step.

    All draws come from Philox, a generator that counts, under a key of 128 bits: a keyed hash (HMAC-SHA256) of what
    identifies the draws, under the secret seed. For a step on data these are its id, its settings, its decision and a
    keyed fingerprint of the columns it reads (see `Stream`): the same step on the same data draws the same, and any
    other strength, decision or delivery draws independently. So do tables. Measures have no stream: seed and name.

    What is claimed: keys of different steps cannot be told from independent random ones, and no published attack
    computes the key of Philox from its output (with numpy's default generator, somebody who knows a few original values
    could compute all the noise). What is not: Philox is no cryptographic cipher, and nobody has shown it hard to break.
    """

    seed: int = field(default_factory=new_seed, repr=False)
    step: str = ""
    progress: Progress = field(default=ignore_progress, repr=False)
    stream: Stream | None = field(default=None, repr=False, compare=False)
    first_batch: int = 0
    """the number of the first batch of rows; more than 0 where the rows are those in the middle of a file"""

    def __post_init__(self) -> None:
        if not isinstance(self.seed, int | np.integer) or self.seed < 0:
            raise PlanError("a seed is a whole number of at least 0")

    @property
    def secret(self) -> bytes:
        """The seed as a key for `keyed_hash`."""
        return hashlib.sha256(str(int(self.seed)).encode()).digest()

    def keyed(self, told: Callable[[], bytes], read: Callable[[], bytes]) -> Context:
        """Give the context of a step on data: `told` says what it does, `read` what it reads, when it first draws."""
        return replace(self, stream=Stream(keyed_hash(self.secret, "step", self.step), told, read))

    def key(self, purpose: str, *, steady: bool = False) -> bytes:
        """Give 16 bytes for a kernel that takes a key; `steady`: the same for this step on any other data."""
        root = self.secret if self.stream is None else self.stream.steady if steady else self.stream.key
        return keyed_hash(root, self.step, purpose)[:16]

    def _generator(self, purpose: str) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=int.from_bytes(self.key(purpose), "big")))

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator; every call starts the same sequence again."""
        return self._generator("draws")

    def batches(self, rows: int, label: str = "") -> Iterator[Batch]:
        """Yield batches of 65,536 rows, each with a generator of its own."""
        for number, start in enumerate(range(0, rows, BATCH_ROWS), self.first_batch):
            self.progress(start, rows, label or self.step)
            yield Batch(start, min(start + BATCH_ROWS, rows), self._generator(f"batch {number}"))
        self.progress(rows, rows, label or self.step)

    def within(self, step: str) -> Context:
        """Give the context of a step (or of a group inside a step): other draws, same seed."""
        return replace(self, step=f"{self.step}/{step}" if self.step else step)

    @property
    def engine(self) -> MemoryEngine:
        """Where the data is worked on; polars in memory."""
        from discretion.engines.memory import MemoryEngine

        return MemoryEngine(self)
