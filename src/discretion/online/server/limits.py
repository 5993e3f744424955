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


class Schedule:
    """Let answers go only at moments that hardly depend on the data: one step after the question, two, four, eight …

    How long a private answer takes depends on the rows it is over, and no noise hides that. Answers and refusals alike
    wait for the next of these moments; whoever measures learns how often the step was doubled, at most. Nothing waits
    with a step of 0.

    Examples
    --------
    >>> [Schedule(0.1).due(took) for took in (0.0, 0.1, 0.11, 0.7)]
    [0.1, 0.1, 0.2, 0.8]
    """

    def __init__(
        self, step: float, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._step, self._clock, self._sleep = step, clock, sleep

    def due(self, took: float) -> float:
        """Give the moment after the question at which something that took so long is told."""
        moment = self._step
        while 0 < moment < took:
            moment *= 2
        return max(moment, 0.0)

    @contextmanager
    def keep(self, *, on: bool = True) -> Iterator[None]:
        """Do something, and come back at a moment of the schedule, also with an error."""
        start = self._clock()
        try:
            yield
        finally:
            took = self._clock() - start
            if on and self._step:
                self._sleep(self.due(took) - took)
