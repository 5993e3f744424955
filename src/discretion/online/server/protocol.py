"""Connections that are too many, or do not send their request in time, are closed: a few cannot keep everybody out."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 15.0
"""how long the first lines of a request (and its headers) may take"""

MOST_CONNECTIONS = 1000
"""how many connections may be open at the same time"""


def patient(most: int) -> type[PatientProtocol]:
    """Return the protocol with a limit of open connections."""
    return type("LimitedProtocol", (PatientProtocol,), {"most": most})


class PatientProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn, which by itself waits for ever for the end of the headers."""

    head_seconds = HEAD_SECONDS
    most = MOST_CONNECTIONS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a request, unless too many do already."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        """Take what came; the headers of a request that has begun must end in time."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop()
        super().connection_lost(exc)

    @property
    def _is_waiting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        if not self._is_waiting:
            self._stop()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self._is_waiting and not self.transport.is_closing():
            self.transport.close()
