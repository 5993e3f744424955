"""Around every request: its key, its size, safe headers, a line in the log, and never a text that tells about data."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.responses import Response

from discretion.online.server.gate import USER, Gate
from discretion.online.server.log import AuditLog
from discretion.online.server.reply import NOTES, problem

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
