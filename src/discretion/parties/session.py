"""A run: one party's file, its lines to the others, the checks, the statistics, and nothing else."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import ssl
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from discretion.errors import DataError, DiscretionError, PartyLost, PlanError, RequirementNotMet, need
from discretion.parties.agreement import AgreedColumn, Agreement, Signature, fingerprint, read_signature, tls
from discretion.parties.sharing import Noise, Opened, Sharing, load_mpyc, make_runtime
from discretion.parties.statistics import Intersection, Local, Run

# The lines between parties: mutual TLS with pinned certificates, frames, signs of life, and how one ends.
#
# MPyC's own connections are not used: there a killed party leaves the others waiting, and any certificate of an
# authority could claim any party's number. Here a line belongs to the party whose certificate the agreement holds, a
# lost or silent party ends the computation everywhere, and a party that stops says why in one of a few fixed words.

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


@dataclass(frozen=True)
class Result:
    """What a run told: the agreed statistics, and the list of everything that was opened on the way."""

    party: str
    statistics: tuple[dict[str, Any], ...]
    opened: tuple[Opened, ...]
    left: tuple[str, ...] = ()
    """parties that were gone before they said that they have the result too"""
    sent: int = 0
    cpu_seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Give plain data."""
        return {
            "party": self.party,
            "statistics": list(self.statistics),
            "opened": [{"label": one.label, "values": one.values} for one in self.opened],
            "left": list(self.left),
            "bytes_sent": self.sent,
            "cpu_seconds": round(self.cpu_seconds, 3),
        }


def run_party(
    path: str | Path,
    party: str,
    data: str | Path | Any = None,
    key: str | Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Take part in the computation of an agreement as one of its parties.

    `data` is a file, a frame or a `Dataset` (none for an intersection, whose set was signed); `key` the party's key
    file, `PARTY.key` beside the agreement by default. Raises `PartyLost` when another party leaves, is late or comes
    with something else, `RequirementNotMet` when a size or rule does not hold, `DataError` when this party's data does
    not fit; the others are told that it does not.
    """
    path = Path(path)
    agreement = Agreement.load(path)
    agreement.party(party)
    signature = read_signature(path, party, agreement)
    key = Path(key) if key else path.with_name(f"{party}.key")
    runs = RunCount(key, agreement)
    runs.check()
    problem: DiscretionError | None = None
    content: Any = None
    if two := isinstance(agreement.statistics[0], Intersection):
        if data is not None:
            raise PlanError("the set of an intersection was fixed when it was signed; run it without --data")
        need("rbcl", "an intersection", "parties")
    else:
        load_mpyc()
    try:
        if two:
            from discretion.parties.intersection import own_set

            content = own_set(path, party, agreement, signature)
        elif data is None:
            raise PlanError("name this party's file: --data FILE")
        else:
            content = load_local(agreement, data)
    except DiscretionError as error:
        problem = error
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_take_part(agreement, party, key, signature, content, problem, runs, say, loop))
    except RuntimeError as error:
        if "Event loop stopped" not in str(error):
            raise
        raise DiscretionError("the protocol failed: a share could not be computed; nothing more was opened") from None
    finally:
        _wind_up(loop)


async def _take_part(
    agreement: Agreement, party: str, key: Path, signature: Signature, content: Any, problem: DiscretionError | None,
    runs: RunCount, say: Callable[[str], None], loop: asyncio.AbstractEventLoop,
) -> Result:  # fmt: skip
    two = isinstance(agreement.statistics[0], Intersection)
    started = time.process_time()
    network = Network(agreement, party, key, say)
    runtime = None
    if not two:
        runtime = make_runtime(agreement.names.index(party), len(agreement.parties), agreement.threshold, loop)
    reason: str | None = "stopped"
    culprit = party
    opened: list[Opened] = []
    try:
        await network.connect()
        if problem is not None:
            reason = "data"
            raise problem
        alive = asyncio.ensure_future(network.keep_alive())
        signatures = await network.guard(network.greet(signature, runtime))
        say(f"{len(agreement.parties)} parties are connected and signed the same agreement")
        outcome: RequirementNotMet | None = None
        found: tuple[dict[str, Any], ...] = ()
        try:
            if two:
                from discretion.parties.intersection import intersect

                found = (await network.guard(intersect(network, agreement, content, signatures, runs, opened)),)
            else:
                sharing = Sharing(runtime, agreement.threshold, opened)
                found = await network.guard(compute(agreement, content, sharing, before=runs.add))
        except RequirementNotMet as error:
            outcome = error
        left = tuple(await network.part())
        reason = None
        alive.cancel()
        if outcome is not None:
            raise outcome
        return Result(party, found, tuple(opened), left, network.sent, time.process_time() - started)
    except PartyLost as error:
        reason, culprit = error.reason, error.party
        error.opened = tuple(one.label for one in opened)
        raise
    finally:
        network.end(reason, culprit)
        await asyncio.sleep(0)


def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    """Let lines close, drop what still waits, and leave no event loop behind."""
    loop.set_exception_handler(lambda *_: None)
    try:
        loop.run_until_complete(_drop_tasks(loop))
    except RuntimeError:  # a share that failed stops the loop again
        pass
    finally:
        loop.close()
        asyncio.set_event_loop(None)


async def _drop_tasks(loop: asyncio.AbstractEventLoop) -> None:
    waiting = asyncio.all_tasks(loop) - {asyncio.current_task()}
    for task in waiting:
        task.cancel()
    if waiting:
        await asyncio.wait(waiting, timeout=1)
    await asyncio.sleep(0.02)


async def compute(
    agreement: Agreement, local: Local, sharing: Sharing, before: Callable[[], None] = lambda: None
) -> tuple[dict[str, Any], ...]:
    """Check sizes and rules inside the protocol, then compute and open the statistics.

    `before` is called before the first bit is opened: it is an answer too, and whoever changes its own rows and asks
    again would learn the others' numbers from it.
    """
    admitted = _admitted(agreement, local, sharing)
    await sharing.ready(admitted)
    before()
    if not await sharing.reveal("sizes and rules hold", admitted):
        own = f"; {local.people:,} people of this party were counted" if local.people < agreement.people.each else ""
        raise RequirementNotMet(
            "nothing was opened: a party or all together have fewer people than agreed, a category of a regression or a"
            " side of a quantile has too few, or the contribution of one party could be computed too closely from the"
            f" result{own}"
        )
    noise = None
    if agreement.noise:
        share = Fraction(str(agreement.noise.epsilon)) / len(agreement.statistics)
        noise = Noise(share, len(agreement.parties), agreement.threshold)
    run = Run(agreement, local, sharing, noise)
    return tuple([{"kind": one.kind, **await one.compute(run)} for one in agreement.statistics])


def _admitted(agreement: Agreement, local: Local, sharing: Sharing) -> Any:
    """Give one shared bit: enough people everywhere, whoever subtracts its own, and no party too large a part.

    With noise the rules judge numbers of people only: a rule on values would be an answer without noise.
    """
    values = [local.people]
    if agreement.noise is None:
        for name in dict.fromkeys(name for one in agreement.statistics for name in one.judged()):
            column = agreement.columns[name]
            largest = column.half + abs(column.middle)
            values.append(round(float(np.abs(local.numbers[name]).sum()) / largest * 1024))
    each = sharing.each(values, sharing.judged)
    rules = agreement.rules
    by_size = sharing.ordered(each)
    bits = [sharing.obeys(by_size, rules.p_percent, rules.dominance.parties, rules.dominance.percent)]
    if guards := [guard for one in agreement.statistics for guard in one.guards(agreement, local)]:
        by_size = sharing.ordered(sharing.each([own for own, _ in guards], sharing.judged))
        least = sharing.judged.array(np.array([least for _, least in guards], dtype=object))
        bits.append(sharing.left(by_size) - least >= 0)
    bits += [one[:1] >= agreement.people.each for one in each]
    bits.append(sum((one[:1] for one in each[1:]), start=each[0][:1]) >= agreement.people.total)
    return sharing.all_of(sharing.joined(bits))


def load_local(agreement: Agreement, data: str | Path | Any) -> Local:
    """Read the columns of the agreement and check them."""
    ready = prepared(agreement.columns, data, skip=agreement.missing == "skip")
    numbers, codes = {}, {}
    for name, column in agreement.columns.items():
        if column.categories:
            codes[name] = ready[name].to_numpy().astype(np.int64)
        else:
            numbers[name] = ready[name].to_numpy().astype(np.float64)
    return Local(ready.height, numbers, codes)


def prepared(columns: Mapping[str, AgreedColumn], data: str | Path | Any, *, skip: bool = False) -> Any:
    """Give declared columns as numbers within bounds and codes of categories; errors name columns and counts only.

    `skip`: rows with a missing value are left out; otherwise they are an error.
    """
    from discretion.data.dataset import Dataset
    from discretion.data.read import read

    source = read(data) if isinstance(data, str | Path) else data
    frame = (source if isinstance(source, Dataset) else Dataset(source)).frame
    absent = [name for name in columns if name not in frame.columns]
    if absent:
        raise DataError(f"the data has no column {', '.join(map(repr, absent))} of the agreement")
    if not columns:
        return frame
    problems: list[str] = []
    ready = frame.select([_prepared(frame[name], column, problems) for name, column in columns.items()])
    if not skip:
        missing = {name: ready[name].null_count() for name in columns}
        problems += [f"column {name!r}: {count:,} values are missing" for name, count in missing.items() if count]
    if problems:
        raise DataError("; ".join(problems))
    return ready.drop_nulls()


def _prepared(values: Any, column: AgreedColumn, problems: list[str]) -> Any:
    import polars as pl

    name = values.name
    if column.categories:
        texts = values.cast(pl.String, strict=False)
        codes = texts.replace_strict(
            {str(c): k for k, c in enumerate(column.categories)}, default=None, return_dtype=pl.Int64
        )
        if outside := codes.null_count() - texts.null_count():
            problems.append(f"column {name!r}: {outside:,} values are none of the agreed categories")
            codes = codes.fill_null(0)
        return codes
    if values.dtype in (pl.String, pl.Categorical, pl.Enum):
        texts = values.cast(pl.String)
        values = texts.str.strip_chars().cast(pl.Float64, strict=False)
        if odd := values.null_count() - texts.null_count():
            problems.append(f"column {name!r}: {odd:,} values are not numbers; a missing value is an empty field")
            values = values.fill_null(column.lower)
    elif not values.dtype.is_numeric():
        problems.append(f"column {name!r} has no numbers")
        return pl.Series(name, [0.0] * len(values))
    numbers = values.cast(pl.Float64).fill_nan(None)
    low, high = float(column.lower or 0.0), float(column.upper or 0.0)
    outside = int(((numbers < low) | (numbers > high)).sum())
    if outside and column.outside == "refuse":
        problems.append(f"column {name!r}: {outside:,} values are outside the agreed bounds")
    numbers = numbers.clip(low, high)
    if column.step is not None:
        steps = numbers / column.step
        uneven = int(((steps - steps.round()).abs() > 1e-6).sum())
        if uneven:
            problems.append(f"column {name!r}: {uneven:,} values are not multiples of the agreed step")
    return numbers


class RunCount:
    """How often a party ran an agreement: kept by its digest beside the party's key, whatever its file is called."""

    def __init__(self, key: Path, agreement: Agreement) -> None:
        self.file = key.with_name(f"{key.name}.runs")
        self.agreement = agreement

    def _read(self) -> dict[str, int]:
        if not self.file.is_file():
            return {}
        try:
            found = json.loads(self.file.read_text(encoding="utf-8"))
            return {str(digest): int(count) for digest, count in found.items()}
        except (ValueError, AttributeError):
            raise DataError(f"{self.file} does not hold the count of runs") from None

    def check(self) -> None:
        """Raise when the agreed number is used up."""
        if self._read().get(self.agreement.digest, 0) >= self.agreement.runs:
            raise RequirementNotMet(
                f"this agreement was run {self.agreement.runs} times as agreed, refused runs included; for more, sign"
                " one with another `id`"
            )

    def others(self) -> int:
        """Return under how many other agreements this key took part in a computation."""
        return len(self._read().keys() - {self.agreement.digest})

    def add(self) -> None:
        """Count a run, before its first value is opened (whether it is allowed is such a value)."""
        from discretion.data.write import alone_beside, write_text

        with alone_beside(self.file):
            found = self._read()
            found[self.agreement.digest] = found.get(self.agreement.digest, 0) + 1
            write_text(self.file, json.dumps(found) + "\n", overwrite=True, private=True)
