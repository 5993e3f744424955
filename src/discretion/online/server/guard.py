"""Around every request: its key, its size, safe headers, a line in the log, and never a text that tells about data."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import sys
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from starlette.datastructures import Headers
from starlette.responses import Response

from discretion.errors import DataError, DiscretionError
from discretion.online.question.query import Query
from discretion.online.server.access import KeyRing


class AuditLog:
    """Who asked what kind of question when, and what became of it: one line of JSON for each request.

    A line holds the user, the table, functions and columns, the cost and the reason of a refusal. It never holds a
    value that a column was compared with, a figure of an answer, a key or a text that somebody typed.

    Lines go to a file (appended, flushed after each line, new ones for their owner only) or to stderr.

    A line that cannot be written, because the disk is full, goes to stderr: the service answers on.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._lock = threading.Lock()
        self._stream: IO[str] = sys.stderr if path is None else _opened(Path(path))
        self._own = path is not None

    def write(self, **facts: Any) -> None:
        """Write one line; facts that are None are left out."""
        told = {"time": datetime.now(UTC).isoformat(timespec="milliseconds")}
        told |= {name: value for name, value in facts.items() if value is not None}
        line = json.dumps(told) + "\n"
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
            except OSError as error:
                sys.stderr.write(f"the audit log cannot be written ({error.strerror}): {line}")

    def close(self) -> None:
        """Close the file."""
        if self._own:
            with contextlib.suppress(OSError):  # a full disk: the lines went to stderr
                self._stream.close()


def _opened(path: Path) -> IO[str]:
    try:
        return os.fdopen(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "a", encoding="utf-8")
    except OSError as error:
        raise DataError(f"the audit log cannot be written to {path}: {error.strerror}") from None


def shape(query: Query) -> dict[str, Any]:
    """Describe a question without any value: table, figures, groups, and which columns are compared in which way.

    Examples
    --------
    >>> from discretion.data.sql_filter import Condition
    >>> from discretion.online.question.query import Aggregate
    >>> shape(Query("students", (Aggregate("sum", "income"),), Condition("major", "=", ("EE",))))["where"]
    ['major =']
    """
    figures = [a.function if a.column is None else f"{a.function} {a.column}" for a in query.aggregates]
    where = sorted(f"{condition.column} {condition.op}" for condition in query.conditions())
    return {"table": query.table, "figures": figures, "where": where, "group_by": list(query.group_by)}


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
        """Return the moment after the question at which something that took so long is told."""
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


NOTES = "discretion.notes"
"""Where a request keeps what the log shall say about it."""


def reply(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Give JSON in plain ASCII: no text that came in can break it."""
    body = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Response(body, status, dict(headers or {}), "application/json")


def problem(status: int, kind: str, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the reason why there is no answer."""
    return reply({"error": {"kind": kind, "reason": reason}}, status, headers)


USER = "discretion.user"
"""Where a request keeps whose key it brought."""


class Turned(Exception):
    """A request that goes no further."""

    def __init__(self, status: int, kind: str, reason: str, **headers: str) -> None:
        super().__init__(reason)
        self.response = problem(status, kind, reason, {name.replace("_", "-"): text for name, text in headers.items()})


class Gate:
    """Keys and rates. Strangers are counted by their address, users by their name.

    Whatever a stranger sends is answered the same way, whether its form is right or not, and is not read.
    """

    def __init__(self, keys: KeyRing, users: Collection[str], per_minute: int, guarded: Collection[str]) -> None:
        self._keys, self._users, self._guarded = keys, users, frozenset(guarded)
        self._rates, self._strangers = RateLimit(per_minute), RateLimit(per_minute)

    async def pass_in(self, scope: MutableMapping[str, Any]) -> Response | None:
        """Note whose key came with the request, or give what turns it away; pages that anybody may see stay open."""
        if scope["path"] not in self._guarded:
            return None
        try:
            # not in the threads of the questions, which may all be busy
            scope[USER] = await asyncio.to_thread(self._user_of, Headers(scope=scope), scope.get("client"))
        except Turned as turned:
            return turned.response
        except DiscretionError as error:
            scope[NOTES] |= {"outcome": type(error).__name__, "reason": str(error)}
            return problem(503, type(error).__name__, "the service cannot do this now; its log says more")
        return None

    def _user_of(self, headers: Mapping[str, str], client: tuple[str, int] | None) -> str:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        key = given.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
        user = self._keys.user_of(key)
        if user is None or user not in self._users:
            self._slow_down(self._strangers, client[0] if client else "unknown")
            raise Turned(401, "Unauthorized", "no valid key came with the request", WWW_Authenticate="Bearer")
        self._slow_down(self._rates, user)
        return user

    def _slow_down(self, rate: RateLimit, caller: str) -> None:
        if seconds := rate.wait(caller):
            raise Turned(429, "TooManyRequests", "too many requests; wait a little", Retry_After=str(seconds))


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

_BODY_SECONDS = 15.0
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """ASGI middleware: key, size limit, headers, what nobody caught, and the log."""

    def __init__(self, app: Asgi, gate: Gate, most_bytes: int, log: AuditLog, routes: frozenset[str]) -> None:
        self._app, self._gate, self._most, self._log, self._routes = app, gate, most_bytes, log, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0
        notes: dict[str, Any] = {}
        scope[NOTES] = notes

        async def outgoing(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        try:
            # exactly our paths: the router also takes one with a line feed at its end, and redirects to any host
            there = scope["path"] in self._routes
            refused = await self._gate.pass_in(scope) if there else problem(404, "NotFound", "there is nothing here")
            inner = receive
            if refused is None:
                refused, inner = await self._body(scope, receive)
            await (refused(scope, receive, outgoing) if refused else self._app(scope, inner, outgoing))
        except Exception as error:  # whatever happens: its text might hold data
            notes |= {"failure": type(error).__name__, "place": _place(error)}
            if not status:
                await problem(500, "InternalError", "the service failed")(scope, receive, outgoing)
        if USER in scope:
            notes["user"] = scope[USER]
        path = scope["path"] if scope["path"] in self._routes else "other"
        spent = round((time.perf_counter() - start) * 1000, 1)
        self._log.write(method=scope["method"][:8], path=path, status=status, milliseconds=spent, **notes)

    async def _body(self, scope: Scope, receive: Receive) -> tuple[Response | None, Receive]:
        """Read the whole request; it is small, or refused."""
        too_large = problem(413, "TooLarge", f"a request has at most {self._most:,} bytes")
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or int(value[:20]) > self._most):
                return too_large, receive
        try:
            body = await asyncio.wait_for(_read(receive, self._most), _BODY_SECONDS)
        except TimeoutError:
            return problem(408, "Timeout", "the request did not arrive in time"), receive
        if body is None:
            return too_large, receive
        given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return given.pop() if given else await receive()

        return None, again


async def _read(receive: Receive, most: int) -> bytes | None:
    body: bytes = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return body
        body += message.get("body", b"")
        if len(body) > most:
            return None
        if not message.get("more_body", False):
            return body


def _place(error: BaseException) -> str:
    """Say where an error came from: file and line, not its text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "unknown"
    return f"{trace.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}"
