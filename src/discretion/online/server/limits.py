"""How much one user may ask in a minute, and how much at once."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_MOST_CALLERS = 10_000


class RateLimit:
    """A bucket of requests for every caller, filled evenly over the minute.

    Examples
    --------
    >>> limit = RateLimit(2, clock=lambda: 0.0)
    >>> limit.wait("ann"), limit.wait("ann"), limit.wait("ann")
    (0, 0, 30)
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = float(per_minute), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, caller: str) -> int:
        """Take one request; give 0, or the seconds after which there is one again."""
        now = self._clock()
        with self._lock:
            left, before = self._buckets.pop(caller, (self._most, now))
            left = min(self._most, left + (now - before) * self._most / 60)
            allowed = left >= 1
            self._buckets[caller] = (left - 1 if allowed else left, now)
            while len(self._buckets) > _MOST_CALLERS:
                self._buckets.popitem(last=False)
        return 0 if allowed else max(1, math.ceil((1 - left) * 60 / self._most))


class AtOnce:
    """How many questions of one caller run at the same time: nobody takes all threads of the service.

    Examples
    --------
    >>> running = AtOnce(1)
    >>> with running.take("ann") as first, running.take("ann") as second, running.take("bob") as other:
    ...     first, second, other
    (True, False, True)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def take(self, caller: str) -> Iterator[bool]:
        """Say whether one more may run, and count it while it does."""
        with self._lock:
            allowed = self._running[caller] < self._most
            self._running[caller] += allowed
        try:
            yield allowed
        finally:
            with self._lock:
                self._running[caller] -= allowed
                if not self._running[caller]:
                    del self._running[caller]
