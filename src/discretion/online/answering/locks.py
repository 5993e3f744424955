"""Who waits for whom: the same question of the same user, and questions while a table grows."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class Turns:
    """One at a time for each name: of two equal questions asked at once, the second finds the first one's answer."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: dict[Hashable, tuple[threading.Lock, int]] = {}

    @contextmanager
    def take(self, name: Hashable) -> Iterator[None]:
        """Wait until nobody else has this name."""
        with self._guard:
            lock, waiting = self._held.get(name, (threading.Lock(), 0))
            self._held[name] = (lock, waiting + 1)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                lock, waiting = self._held[name]
                if waiting == 1:
                    del self._held[name]
                else:
                    self._held[name] = (lock, waiting - 1)


class Growth:
    """Many read a table, or one lets it grow: an answer and its audit speak about the same rows."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._growing = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep the table as it is."""
        with self._changed:
            self._changed.wait_for(lambda: not self._growing)
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def growing(self) -> Iterator[None]:
        """Wait for the readers and keep new ones out."""
        with self._changed:
            self._changed.wait_for(lambda: not self._growing)
            self._growing = True
            self._changed.wait_for(lambda: self._readers == 0)
        try:
            yield
        finally:
            with self._changed:
                self._growing = False
                self._changed.notify_all()
