"""How many identifiers two parties have in common: Diffie–Hellman on blinded identifiers, over ristretto255.

Each identifier becomes a group element of unknown logarithm (RFC 9380, never g^H(x)), raised to a secret of its owner.
Each side raises the other's elements again and hands them back in a new order; equal elements are common identifiers,
and nobody can tell which. The blinded set is fixed when the agreement is signed: its hash is part of the signature and
is compared with what is sent. Whoever counts would see the exact number, so that each side adds noise for the other's
eyes: B mixes a random number of agreed dummies into its set, A adds noise to the number it tells.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.errors import DataError, PlanError, RequirementNotMet, need
from discretion.parties.agreement import Agreement, Signature
from discretion.parties.session import lost
from discretion.parties.sharing import Opened, geometric
from discretion.parties.statistics import Intersection

if TYPE_CHECKING:
    from discretion.parties.session import Network, RunCount

DST = b"discretion-psi-v1-with-ristretto255_XMD:SHA-512_R255MAP_RO_"
_POINT = 32
_BATCH = 2000
_TAIL = 23
"""noise of more than _TAIL/ε dummies is cut off: this happens with a probability of e^−23, about 1e-10"""


def expand_message_xmd(message: bytes, dst: bytes, size: int) -> bytes:
    """Stretch a message to `size` uniform bytes by SHA-512 (RFC 9380, section 5.3.1)."""
    rounds = -(-size // 64)
    if rounds > 255 or len(dst) > 255 or size > 65_535:
        raise ValueError("too long for expand_message_xmd")
    suffix = dst + bytes([len(dst)])
    first = hashlib.sha512(bytes(128) + message + size.to_bytes(2, "big") + b"\0" + suffix).digest()
    found = [hashlib.sha512(first + b"\1" + suffix).digest()]
    for i in range(2, rounds + 1):
        mixed = bytes(x ^ y for x, y in zip(first, found[-1], strict=True))
        found.append(hashlib.sha512(mixed + bytes([i]) + suffix).digest())
    return b"".join(found)[:size]


def hash_to_group(message: bytes) -> bytes:
    """Map a message to an element of ristretto255 whose logarithm nobody knows (RFC 9380, appendix B)."""
    group = need("rbcl", "an intersection", "parties")
    return bytes(group.crypto_core_ristretto255_from_hash(expand_message_xmd(message, DST, 64)))


@dataclass(frozen=True)
class OwnSet:
    """A party's side: its secret exponent and its blinded elements, in the order in which they were committed to."""

    exponent: bytes
    blinded: tuple[bytes, ...]
    people: int
    noise: int

    @property
    def commitment(self) -> str:
        """Give the hash that is signed."""
        return hashlib.sha256(b"".join(self.blinded)).hexdigest()


def _statistic(agreement: Agreement) -> Intersection:
    found = agreement.statistics[0]
    if not isinstance(found, Intersection):
        raise PlanError("the agreement is not about an intersection")
    return found


def dummies(epsilon: float | None) -> int:
    """How many dummies the noise can go up or down by."""
    return 0 if epsilon is None else -(-_TAIL * 1000 // max(1, int(epsilon * 1000)))


def _laplace(epsilon: float | None, most: int | None = None) -> int:
    if epsilon is None:
        return 0
    x = Fraction(str(epsilon))
    drawn = geometric(x) - geometric(x)
    return drawn if most is None else min(max(drawn, -most), most)


def blind(agreement: Agreement, party: str, identifiers: Iterable[str]) -> OwnSet:
    """Blind a set: duplicates removed, dummies mixed in, order drawn anew."""
    group = need("rbcl", "an intersection", "parties")
    statistic = _statistic(agreement)
    texts = {unicodedata.normalize("NFC", text).strip() for text in identifiers} - {""}
    if len(texts) < agreement.people.each:
        raise DataError(f"{len(texts):,} different identifiers; the agreement asks for {agreement.people.each:,}")
    most = dummies(statistic.epsilon)
    noise = _laplace(statistic.epsilon, most) if party == agreement.names[1] else most
    salt = agreement.digest.encode()
    messages = [b"id:" + salt + text.encode() for text in texts]
    messages += [b"dummy:" + salt + str(i).encode() for i in range(most + noise)]
    messages += [b"fill:" + secrets.token_bytes(_POINT) for _ in range(most - noise)]
    exponent = bytes(group.crypto_core_ristretto255_scalar_random())
    raised = [bytes(group.crypto_scalarmult_ristretto255(exponent, hash_to_group(text))) for text in messages]
    return OwnSet(exponent, tuple(_shuffled(raised)), len(texts), noise)


def _shuffled(points: list[bytes]) -> list[bytes]:
    secrets.SystemRandom().shuffle(points)
    return points


def commit(path: Path, party: str, agreement: Agreement, data: str | Path) -> str:
    """Blind the identifiers of a file, keep the blinded set beside the agreement, and give the hash to be signed."""
    import polars as pl

    from discretion.data.read import read
    from discretion.data.write import write_text

    column = _statistic(agreement).column
    frame = read(data).frame
    if column not in frame.columns:
        raise DataError(f"the data has no column {column!r} of the agreement")
    own = blind(agreement, party, frame[column].drop_nulls().cast(pl.String).to_list())
    content = {
        "digest": agreement.digest, "exponent": own.exponent.hex(), "people": own.people, "noise": own.noise,
        "blinded": b"".join(own.blinded).hex(),
    }  # fmt: skip
    write_text(_set_file(path, party), json.dumps(content) + "\n", overwrite=True, private=True)
    return own.commitment


def _set_file(path: Path, party: str) -> Path:
    return path.with_name(f"{path.name}.{party}.set")


def own_set(path: Path, party: str, agreement: Agreement, signature: Signature) -> OwnSet:
    """Read the set that this party committed to."""
    from discretion.parties.agreement import check_private

    file = _set_file(path, party)
    if not file.is_file():
        raise PlanError(f"{party} has committed to no set; sign again: discretion party agree … --data FILE")
    check_private(file)
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        points = _points(bytes.fromhex(content["blinded"]))
        own = OwnSet(bytes.fromhex(content["exponent"]), tuple(points), int(content["people"]), int(content["noise"]))
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{file} does not hold the set of a party") from None
    if content["digest"] != agreement.digest or own.commitment != signature.commitment:
        raise DataError(f"{file} is not the set that {party} signed; sign again")
    return own


def _points(data: bytes) -> list[bytes]:
    if len(data) % _POINT:
        raise DataError("this is not a list of group elements")
    return [data[i : i + _POINT] for i in range(0, len(data), _POINT)]


def raise_again(exponent: bytes, points: list[bytes], other: str) -> list[bytes]:
    """Raise the other party's elements; an invalid element or the identity ends the computation."""
    group = need("rbcl", "an intersection", "parties")
    good = group.crypto_core_ristretto255_is_valid_point
    if any(point == bytes(_POINT) or not good(point) for point in points):
        raise lost(other, "protocol")
    return [bytes(group.crypto_scalarmult_ristretto255(exponent, point)) for point in points]


async def intersect(
    network: Network, agreement: Agreement, own: OwnSet, signatures: dict[str, Signature], runs: RunCount,
    opened: list[Opened],
) -> dict[str, Any]:  # fmt: skip
    """Carry out the protocol; strict turns, so that two long lists never wait for each other."""
    statistic, first = _statistic(agreement), network.me == agreement.names[0]
    ((other, link),) = network.links.items()
    extra = 2 * dummies(statistic.epsilon)
    runs.add()

    if first:
        link.greet(b"".join(own.blinded))
    received = await network.hear(link)
    if hashlib.sha256(received).hexdigest() != signatures[other].commitment:
        raise lost(other, "set")
    if not first:
        link.greet(b"".join(own.blinded))
    theirs = _points(received)
    if len(set(theirs)) < len(theirs):
        raise lost(other, "protocol")
    opened.append(Opened(f"number of identifiers of {other}", 1))
    small = min(own.people, len(theirs) - extra) < agreement.people.each
    if small or own.people + len(theirs) - extra < agreement.people.total:
        raise RequirementNotMet("nothing was opened: a party or both together have fewer identifiers than agreed")
    twice = []
    for start in range(0, len(theirs), _BATCH):  # beside the lines, so that signs of life go on
        batch = theirs[start : start + _BATCH]
        twice += await asyncio.get_running_loop().run_in_executor(None, raise_again, own.exponent, batch, other)
    if first:
        back = set(_points(await network.hear(link)))
        if len(back) != len(own.blinded):
            raise lost(other, "protocol")
        count = len(back.intersection(twice)) - dummies(statistic.epsilon) + _laplace(statistic.epsilon)
        told = count if count >= statistic.at_least else -1
        link.greet(str(told).encode())
    else:
        link.greet(b"".join(_shuffled(twice)))
        answer = await network.hear(link)
        told = int(answer) if answer.isdigit() else -1
    opened.append(Opened("size of the intersection", 1))
    if told < statistic.at_least:
        raise RequirementNotMet("the intersection has fewer identifiers than the agreement allows to tell")
    return {"kind": "intersection", "column": statistic.column, "intersection": told}
