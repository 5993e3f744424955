"""Nobody without the token of the printed address, or a password, gets anything: pages, REST, downloads, static files.

Pure ASGI around the whole app, so that no route can be forgotten. On the loopback address a random token in the printed
address becomes a cookie and keeps other users of the computer out; anywhere else people log in (`users.yaml`).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, parse_qsl, quote, urlencode

from discretion.data.documents import DocumentKind, read_document, write_document
from discretion.data.write import alone_beside
from discretion.errors import PlanError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
UserRole = Literal["owner", "reviewer"]

COOKIE = "discretion"
WHO = "discretion.who"
"""Where a request keeps who makes it."""
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; base-uri 'none'; frame-ancestors 'self'"
)
"""For published reports, which are single files with their style inside: no script of theirs runs in the app."""
_HOURS = 12
_MOST_FAILED = 10
"""Wrong passwords in a minute, from everybody together, after which nobody is let in for the rest of it."""
_LONGEST_LOGIN = 4096
_COST = {"n": 2**14, "r": 8, "p": 1}
_USERS = DocumentKind("users file", "a users file is a mapping with `users`: names with `password` and `role`")


@dataclass(frozen=True)
class WebUser:
    """Who makes a request, and what he may do: an owner everything, a reviewer look at all but rows and secrets."""

    name: str
    role: UserRole = "owner"
    alone: bool = False
    """whether nobody else uses this server: who runs it on the loopback address sees every project"""


def hashed_password(password: str, salt: bytes | None = None) -> str:
    """Hash a password slowly (scrypt), with a salt of its own."""
    salt = secrets.token_bytes(16) if salt is None else salt
    return f"scrypt${salt.hex()}${hashlib.scrypt(password.encode(), salt=salt, **_COST).hex()}"


class Users:
    """The people of a users file; it is read again when it changes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: tuple[int, Mapping[str, Any]] = (-1, {})
        self._known()

    def _known(self) -> Mapping[str, Any]:
        changed = self.path.stat().st_mtime_ns
        if changed != self._read[0]:
            content = read_document(self.path, _USERS).content.get("users")
            if not isinstance(content, Mapping) or not all(
                isinstance(one, Mapping) and isinstance(one.get("password"), str) and one.get("role") in _ROLES
                for one in content.values()
            ):
                raise PlanError(
                    f"{self.path.name}: expected `users:` with a `password` (its hash) and a `role` (owner, reviewer) "
                    "each; `discretion web --users FILE --new-user NAME` adds one"
                )
            self._read = changed, content
        return self._read[1]

    def check(self, name: str, password: str) -> WebUser | None:
        """Give the user if the password is right; an unknown name takes as long as a known one."""
        known = self._known().get(name)
        stored = known["password"] if known else _NOBODY
        _, salt, _ = stored.split("$")
        right = hmac.compare_digest(hashed_password(password, bytes.fromhex(salt)), stored)
        return WebUser(name, known["role"]) if right and known else None

    @staticmethod
    def add(path: Path, name: str, password: str, role: UserRole) -> None:
        """Add a user to the file, or give a known one another password and role."""
        with alone_beside(path):
            content = dict(read_document(path, _USERS).content) if path.exists() else {}
            users = {**content.get("users", {}), name: {"password": hashed_password(password), "role": role}}
            write_document({**content, "users": users}, path, private=True)


_ROLES = ("owner", "reviewer")
_NOBODY = hashed_password(secrets.token_hex(16))


@dataclass
class Sessions:
    """Who is logged in, by the hash of the cookie; in memory, so that a restart asks for the password again."""

    hours: float = _HOURS
    _known: dict[str, tuple[WebUser, float]] = field(default_factory=dict)
    _failed: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, user: WebUser) -> str:
        """Let a user in; give the cookie."""
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            moment = time.monotonic()
            self._known = {key: one for key, one in self._known.items() if one[1] > moment}
            self._known[_digest(cookie)] = user, moment + self.hours * 3600
        return cookie

    def who(self, cookie: str) -> WebUser | None:
        """Give the user of a cookie."""
        found = self._known.get(_digest(cookie))
        return found[0] if found and found[1] > time.monotonic() else None

    def end(self, cookie: str) -> None:
        """Log out."""
        self._known.pop(_digest(cookie), None)

    def may_try(self) -> bool:
        """Tell whether passwords are looked at now."""
        with self._lock:
            self._failed = [moment for moment in self._failed if moment > time.monotonic() - 60]
            return len(self._failed) < _MOST_FAILED

    def failed(self) -> None:
        """Count a wrong password."""
        self._failed.append(time.monotonic())


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode()).hexdigest()


class WebGuard:
    """Stands before the app: looks at host, origin and cookie, and adds the headers that keep strangers' pages out."""

    def __init__(
        self,
        app: App,
        *,
        hosts: Iterable[str],
        token: str = "",
        users: Users | None = None,
        login: Callable[[str], str] | None = None,
        secure: bool = False,
    ) -> None:
        if not token and users is None:
            raise PlanError("the app needs a token or users")
        self.app, self.hosts, self.token, self.users = app, frozenset(hosts), token, users
        self._login_page, self._secure = login, secure
        self.sessions = Sessions()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or turn it away."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no websockets
            await receive()
            await send({"type": "websocket.close", "code": 4401})
            return
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        origin = headers.get("origin", "")
        strange = origin not in ("", *(f"{scheme}://{host}" for host in self.hosts for scheme in ("http", "https")))
        if headers.get("host", "") not in self.hosts or strange:
            await _reply(send, 403, "This address does not belong to the app.")
        elif self.users is None:
            await self._by_token(scope, receive, send, headers)
        else:
            await self._by_password(self.users, scope, receive, send, headers)

    async def _by_token(self, scope: Scope, receive: Receive, send: Send, headers: Mapping[str, str]) -> None:
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        given = next((value for key, value in query if key == "token"), "")
        if given and _same(given, self.token) and scope["method"] == "GET":
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            place = "/" + quote(scope["path"].lstrip("/")) + (f"?{rest}" if rest else "")
            await _reply(send, 303, "", [("location", place), ("set-cookie", self._cookie(self.token))])
        elif _same(_cookie_in(headers), self.token) or _same(_bearer_in(headers), self.token):
            await self._let_in(WebUser("owner", alone=True), scope, receive, send)
        else:
            await _turn_away(send, headers)

    async def _by_password(
        self, users: Users, scope: Scope, receive: Receive, send: Send, headers: Mapping[str, str]
    ) -> None:
        cookie = _cookie_in(headers) or _bearer_in(headers)
        user = self.sessions.who(cookie) if cookie else None
        if scope["path"] == "/login" and scope["method"] == "POST":
            await self._log_in(users, receive, send)
        elif scope["path"] == "/logout" and scope["method"] == "POST":
            self.sessions.end(cookie)
            await _reply(send, 303, "", [("location", "/")])
        elif user is not None:
            await self._let_in(user, scope, receive, send)
        elif scope["path"] == "/static/look.css":
            await self._let_in(WebUser("", "reviewer"), scope, receive, send)
        elif scope["path"].startswith("/api/"):
            await _reply(send, 401, "Log in first: POST /login with name and password.")
        else:
            await self._ask(send, 200 if scope["path"] == "/" else 401)

    async def _log_in(self, users: Users, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more and len(body) <= _LONGEST_LOGIN:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        form = parse_qs(body[:_LONGEST_LOGIN].decode("utf-8", "replace"))
        if not self.sessions.may_try():
            await self._ask(send, 429, "Too many wrong passwords. Wait a minute.")
            return
        from starlette.concurrency import run_in_threadpool

        user = await run_in_threadpool(users.check, form.get("name", [""])[0], form.get("password", [""])[0])
        if user is None:
            self.sessions.failed()
            await self._ask(send, 401, "Name or password is wrong.")
            return
        await _reply(send, 303, "", [("location", "/"), ("set-cookie", self._cookie(self.sessions.begin(user)))])

    async def _ask(self, send: Send, status: int, error: str = "") -> None:
        page = self._login_page(error) if self._login_page else error or "Log in."
        await _reply(send, status, page, [("content-security-policy", PAGE_POLICY)], kind="text/html")

    def _cookie(self, value: str) -> str:
        return f"{COOKIE}={value}; HttpOnly; SameSite=Strict; Path=/{'; Secure' if self._secure else ''}"

    async def _let_in(self, user: WebUser, scope: Scope, receive: Receive, send: Send) -> None:
        scope[WHO] = user

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {key.decode("latin-1").lower() for key, _ in message["headers"]}
                added = [(k, v) for k, v in _HEADERS if k not in known]
                coded = [(key.encode(), value.encode()) for key, value in added]
                message = {**message, "headers": [*message["headers"], *coded]}
            await send(message)

        await self.app(scope, receive, sending)


_STRANGER = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>discretion</title><link rel="icon" href="data:,"><style>:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 46rem; padding: 1rem 2rem; background: light-dark(#f5f7f9, #12181f);
color: light-dark(#1b2733, #e4eaf0); font: 1rem/1.5 system-ui, sans-serif; } h1 { font-size: 1.9rem; line-height: 1.2; }
code { font-size: .9em; }</style></head><body><p><strong>discretion</strong></p><main><h1>Open the printed address</h1>
<p>This app is for who started it. <code>discretion web</code> printed an address that ends with a token: open that one,
or copy it from the terminal again. It also changes whenever the app is started anew.</p></main></body></html>"""


async def _turn_away(send: Send, headers: Mapping[str, str]) -> None:
    """Tell somebody without the token where to find it: a browser by a page, others by a line."""
    if "text/html" in headers.get("accept", ""):
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
        await _reply(send, 401, _STRANGER, [("content-security-policy", policy)], kind="text/html")
    else:
        await _reply(send, 401, "Open the address that `discretion web` printed: it ends with a token.")


_HEADERS = (
    ("content-security-policy", PAGE_POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),  # with no-referrer, posts would have the origin null
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def _cookie_in(headers: Mapping[str, str]) -> str:
    try:
        jar = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return jar[COOKIE].value if COOKIE in jar else ""


def _bearer_in(headers: Mapping[str, str]) -> str:
    kind, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" else ""


async def _reply(
    send: Send, status: int, text: str, headers: Iterable[tuple[str, str]] = (), kind: str = "text/plain"
) -> None:
    every = [("content-type", f"{kind}; charset=utf-8"), *headers]
    known = {key for key, _ in every}
    every += [(key, value) for key, value in _HEADERS if key not in known]
    coded = [(key.encode(), value.encode("latin-1", "replace")) for key, value in every]
    await send({"type": "http.response.start", "status": status, "headers": coded})
    await send({"type": "http.response.body", "body": text.encode()})
