"""The lines between parties: mutual TLS with pinned certificates, frames, signs of life, and how one ends.

MPyC's own connections are not used: there a killed party leaves the others waiting, and any certificate of an authority
could claim any party's number. Here a line belongs to the party whose certificate the agreement holds, a lost or silent
party ends the computation everywhere, and a party that stops says why in one of a few fixed words.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import ssl
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from discretion.errors import DataError, DiscretionError, PartyLost
from discretion.parties.agreement import Agreement, Signature
from discretion.parties.keys import fingerprint, tls

_GREETING, _SHARE, _STOP, _ALIVE = range(4)
_HEAD = struct.Struct("<BqI")
_MOST_BYTES = 1 << 28
_RETRY = 0.1
DONE = b"done"
REASONS = {
    "absent": "did not come within the agreed time",
    "agreement": "has another agreement; compare the files and sign again",
    "data": "stopped: its data does not fit the agreement",
    "late": "is late: no sign of life for the agreed time",
    "left": "left",
    "protocol": "sends what is not of this protocol",
    "session": "is in another session: it was not told the same by everybody",
    "set": "sent another set than it committed to when it signed",
    "signature": "shows a signature that does not hold",
    "stopped": "was stopped, or failed",
    "stranger": "is not who answers at its address",
}
"""All that parties tell each other about an end: who, and one of these words; nothing about data beyond this."""


_BETWEEN = {
    "agreement": "do not have the same agreement; compare the files and sign again",
    "session": "are not in the same session: they were not told the same by everybody",
}


def lost(party: str, reason: str, told_by: str = "") -> PartyLost:
    """Word why a party ended the computation."""
    if told_by and reason in _BETWEEN:  # who of the two differs from everybody else is not known here
        return PartyLost(f"{told_by} and {party} {_BETWEEN[reason]} (says {told_by})", party, reason)
    return PartyLost(f"{party} {REASONS[reason]}" + (f" (says {told_by})" if told_by else ""), party, reason)


class Link(asyncio.Protocol):
    """The line to one other party. `send` and `receive` are what MPyC asks of a line: payloads by program counter."""

    def __init__(self, network: Network, expected: str | None = None) -> None:
        self.network = network
        self.name = expected or ""
        self.expected = expected
        self.heard = 0.0
        self.nbytes_sent = 0
        self.done = False
        self.buffers: dict[int, Any] = {}
        self.greetings: asyncio.Queue[bytes] = asyncio.Queue()
        self._bytes = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Check whose certificate the other side proved to have."""
        self._transport = transport
        shown = transport.get_extra_info("ssl_object").getpeercert(True)
        name = self.network.owners.get(hashlib.sha256(shown).hexdigest(), "")
        if self.expected and name != self.expected:
            self.network.fail(lost(self.expected, "stranger"))
            self._transport.abort()
            return
        self.name, self.heard = name, self.network.loop.time()
        if not name or name == self.network.me or not self.network.admit(self):
            self.name = ""
            self.close()

    def _write(self, kind: int, pc: int, payload: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_HEAD.pack(kind, pc, len(payload)) + payload)
            self.nbytes_sent += _HEAD.size + len(payload)

    def send(self, pc: int, payload: bytes) -> None:
        """Send a share."""
        self._write(_SHARE, pc, bytes(payload))

    def receive(self, pc: int) -> Any:
        """Give the share with this number, or a future of it."""
        payload = self.buffers.pop(pc, None)
        if payload is None:
            payload = self.buffers[pc] = self.network.loop.create_future()
        return payload

    def greet(self, content: Any) -> None:
        """Send a message outside the arithmetic."""
        self._write(_GREETING, 0, content if isinstance(content, bytes) else json.dumps(content).encode())

    def alive(self) -> None:
        """Give a sign of life."""
        self._write(_ALIVE, 0, b"")

    def stop(self, reason: str, party: str) -> None:
        """Say who ended the computation and why, and close."""
        self._write(_STOP, 0, f"{reason} {party}".encode())
        self.close()

    def close(self) -> None:
        """Close the line."""
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Take frames apart."""
        self._bytes += data
        self.heard = self.network.loop.time()
        while len(self._bytes) >= _HEAD.size:
            kind, pc, size = _HEAD.unpack_from(self._bytes)
            if size > _MOST_BYTES or kind > _ALIVE:
                self.network.fail(lost(self.name, "protocol"))
                self._transport.abort()
                return
            if len(self._bytes) < _HEAD.size + size:
                return
            payload = bytes(self._bytes[_HEAD.size : _HEAD.size + size])
            del self._bytes[: _HEAD.size + size]
            self._take(kind, pc, payload)

    def _take(self, kind: int, pc: int, payload: bytes) -> None:
        if kind == _GREETING:
            self.done = self.done or payload == DONE
            self.greetings.put_nowait(payload)
        elif kind == _STOP:
            reason, _, party = payload.decode("ascii", "replace").partition(" ")
            if reason not in REASONS or party not in self.network.agreement.parties or party == self.network.me:
                reason, party = (reason if reason in ("agreement", "session") else "stopped"), self.name
            self.network.fail(lost(party, reason, "" if party == self.name else self.name))
        elif kind == _SHARE:
            if isinstance(waiting := self.buffers.get(pc), asyncio.Future):
                del self.buffers[pc]
                if not waiting.done():
                    waiting.set_result(payload)
            elif waiting is not None:
                self.network.fail(lost(self.name, "protocol"))
            else:
                self.buffers[pc] = payload

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        """End the computation, unless this party had said that it is done."""
        if self.name and not self.done:
            ended = lost(self.name, "left")
            if not self.network.greeted:
                ended = PartyLost(f"{ended} during the greeting; it may not know our certificate", self.name, "left")
            self.network.fail(ended)


class Network:
    """The lines of one party to all others."""

    def __init__(self, agreement: Agreement, me: str, key: Path, say: Callable[[str], None]) -> None:
        self.agreement, self.me, self.key, self._say = agreement, me, key, say
        self.loop = asyncio.get_running_loop()
        self.owners = {fingerprint(party.certificate): name for name, party in agreement.parties.items()}
        self.links: dict[str, Link] = {}
        self.greeted = False
        self.failed: asyncio.Future[None] = self.loop.create_future()
        self._complete = asyncio.Event()

    def fail(self, error: DiscretionError) -> None:
        """End the computation; the first reason counts."""
        if not self.failed.done():
            self.failed.set_exception(error)

    def admit(self, link: Link) -> bool:
        """Take a line unless there is one with this party already."""
        if link.name in self.links:
            return False
        self.links[link.name] = link
        if len(self.links) == len(self.agreement.parties) - 1:
            self._complete.set()
        return True

    async def guard(self, work: Any, seconds: float | None = None) -> Any:
        """Wait for work, or for the first failure of any line, or until time is over."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self.failed}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            if self.failed.done():
                self.failed.result()
            raise TimeoutError
        finally:
            task.cancel()

    async def connect(self) -> None:
        """Listen for the parties after this one, call those before it, and wait until all lines stand."""
        names = self.agreement.names
        own = self.agreement.parties[self.me]
        others = [party.certificate for name, party in self.agreement.parties.items() if name != self.me]
        call = tls(ssl.Purpose.SERVER_AUTH, others, own.certificate, self.key)
        listen = tls(ssl.Purpose.CLIENT_AUTH, others, own.certificate, self.key)
        try:
            server = await self.loop.create_server(
                lambda: Link(self), own.host, own.port, ssl=listen, ssl_handshake_timeout=10
            )
        except OSError as error:
            reason = error.strerror or "it cannot be used"
            raise DataError(f"{self.me} cannot listen on {own.address}: {reason}") from None
        self._say(f"listening on {own.address}; the others have {self.agreement.wait:g} seconds to come")
        calls = [asyncio.ensure_future(self._call(name, call)) for name in names[: names.index(self.me)]]
        try:
            await self.guard(asyncio.gather(self._complete.wait(), *calls), self.agreement.wait)
        except TimeoutError:
            raise lost(next(name for name in names if name not in self.links and name != self.me), "absent") from None
        finally:
            for one in calls:
                one.cancel()
            server.close()

    async def _call(self, name: str, context: ssl.SSLContext) -> None:
        party = self.agreement.parties[name]
        told = False
        while name not in self.links:
            try:
                await self.loop.create_connection(lambda: Link(self, name), party.host, party.port, ssl=context)
            except ssl.SSLCertVerificationError:
                raise lost(name, "stranger") from None
            except (OSError, ssl.SSLError):
                if not told:
                    self._say(f"waiting for {name} at {party.address} …")
                    told = True
                await asyncio.sleep(_RETRY)

    async def greet(self, signature: Signature, runtime: Any = None) -> dict[str, Signature]:
        """Compare agreements and signatures with everybody, and bind this session to everybody's fresh nonces."""
        agreement, nonce = self.agreement, secrets.token_hex(32)
        own = {"digest": agreement.digest, "nonce": nonce, "signature": signature.model_dump()}
        for link in self.links.values():
            link.greet(own)
        found, nonces = {}, {self.me: nonce}
        for name, link in self.links.items():
            try:
                hello = json.loads(await self.hear(link))
                if hello["digest"] != agreement.digest:
                    raise lost(name, "agreement")
                signed = Signature.model_validate(hello["signature"])
                if signed.party != name:
                    raise lost(name, "signature")
                signed.verify(agreement)
                nonces[name] = str(hello["nonce"])
            except DataError:
                raise lost(name, "signature") from None
            except (ValueError, KeyError, TypeError):
                raise lost(name, "protocol") from None
            found[name] = signed
        text = "\n".join([agreement.digest, *(nonces[name] for name in agreement.names)])
        session = hashlib.sha256(text.encode()).hexdigest()
        for name, link in self.links.items():
            keys = b"".join(runtime._prss_keys_to_peer(agreement.names.index(name))) if runtime else b""
            link.greet({"session": session, "keys": keys.hex()})
        for name, link in self.links.items():
            try:
                self._take_keys(name, json.loads(await self.hear(link)), session, runtime)
            except ValueError:
                raise lost(name, "protocol") from None
        self.greeted = True
        return found

    def _take_keys(self, name: str, message: Any, session: str, runtime: Any) -> None:
        if not isinstance(message, dict) or message.get("session") != session:
            raise lost(name, "session")
        if runtime:
            number = self.agreement.names.index(name)
            keys = bytes.fromhex(str(message.get("keys", "")))
            if len(keys) != runtime._prss_keys_from_peer(number):
                raise lost(name, "protocol")
            runtime._prss_keys_from_peer(number, keys)
            runtime.parties[number].protocol = self.links[name]

    async def hear(self, link: Link) -> bytes:
        """Wait for a message outside the arithmetic."""
        try:
            found: bytes = await self.guard(link.greetings.get(), self.agreement.time_out)
        except TimeoutError:
            raise lost(link.name, "late") from None
        return found

    async def keep_alive(self) -> None:
        """Give signs of life, and end the computation when a party gives none."""
        limit = self.agreement.time_out
        while True:
            for link in self.links.values():
                link.alive()
                if not link.done and self.loop.time() - link.heard > limit:
                    self.fail(lost(link.name, "late"))
            await asyncio.sleep(min(1.0, limit / 4))

    async def part(self) -> list[str]:
        """Say that this party has finished and wait until the others have; name those that left before."""
        for link in self.links.values():
            link.greet(DONE)
        left = []
        for name, link in self.links.items():
            try:
                while not link.done:
                    await self.hear(link)
            except PartyLost:
                left.append(name)
        return left

    def end(self, reason: str | None, party: str = "") -> None:
        """Close all lines; `reason`: what to tell the others where this party stops before its time, and who did it."""
        for link in self.links.values():
            link.done = True
            if reason:
                link.stop(reason, party or self.me)
            else:
                link.close()

    @property
    def sent(self) -> int:
        """How many bytes went out, TLS not counted."""
        return sum(link.nbytes_sent for link in self.links.values())
