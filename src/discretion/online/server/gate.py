"""Who comes in: before anything of a request is read, its key is known and its caller has not asked too much."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, MutableMapping
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response

from discretion.errors import DiscretionError
from discretion.online.server.access import KeyRing
from discretion.online.server.limits import RateLimit
from discretion.online.server.reply import NOTES, problem

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
