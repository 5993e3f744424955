"""Sizes of intersections: the hash of RFC 9380, blinding, commitments, noise, and what is refused."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import rbcl

from discretion.errors import DataError, DiscretionError, PartyLost, PlanError, RequirementNotMet
from discretion.parties.agreement import Agreement, sign_agreement
from discretion.parties.intersection import (
    OwnSet,
    blind,
    commit,
    dummies,
    expand_message_xmd,
    hash_to_group,
    intersect,
    own_set,
    raise_again,
)
from discretion.parties.session import Network, RunCount
from tests.parties.harness import NAMES, Parties

QUUX = b"QUUX-V01-CS02-with-expander-SHA512-256"
VECTORS = {  # RFC 9380, appendix K.3
    (b"", 32): "6b9a7312411d92f921c6f68ca0b6380730a1a4d982c507211a90964c394179ba",
    (b"abc", 32): "0da749f12fbe5483eb066a5f595055679b976e93abe9be6f0f6318bce7aca8dc",
    (b"abcdef0123456789", 32): "087e45a86e2939ee8b91100af1583c4938e0f5fc6c9db4b107b83346bc967f58",
}


@pytest.mark.parametrize(("message", "size"), VECTORS)
def test_the_vectors_of_rfc_9380(message: bytes, size: int) -> None:
    assert expand_message_xmd(message, QUUX, size).hex() == VECTORS[message, size]


def test_hash_to_group() -> None:
    points = {hash_to_group(text) for text in (b"a", b"b", b"a")}
    assert len(points) == 2 and all(rbcl.crypto_core_ristretto255_is_valid_point(point) for point in points)
    with pytest.raises(ValueError, match="too long"):
        expand_message_xmd(b"", QUUX, 1 << 16)


def pair(folder: Path, **fields: Any) -> Parties:
    frames = [pl.DataFrame({"id": [f"p{i}" for i in range(start, start + 60)]}) for start in (0, 20)]
    return Parties(folder, [{"intersection": {"column": "id", **fields}}], frames, sign=False, columns={})


def test_blinding_commutes_and_hides(tmp_path: Path) -> None:
    agreement = Agreement.load(pair(tmp_path).path)
    one = blind(agreement, NAMES[0], [f"p{i}" for i in range(60)] + [" p1 ", "p2"])
    two = blind(agreement, NAMES[1], [f"p{i}" for i in range(20, 80)])
    d = dummies(1.0)
    assert one.people == two.people == 60 and len(one.blinded) == len(two.blinded) == 60 + 2 * d
    assert not set(one.blinded) & set(two.blinded)
    both = set(raise_again(two.exponent, list(one.blinded), "a")) & set(
        raise_again(one.exponent, list(two.blinded), "b")
    )
    assert len(both) == 40 + d + two.noise  # the counting side sees the true size and B's noise only
    again = blind(agreement, NAMES[0], [f"p{i}" for i in range(60)])
    assert not set(one.blinded) & set(again.blinded)


@pytest.mark.parametrize("wrong", [bytes(32), b"\xff" * 32, b"\1" + bytes(31)])
def test_invalid_elements_are_refused(wrong: bytes) -> None:
    with pytest.raises(PartyLost, match="not of this protocol"):
        raise_again(bytes(rbcl.crypto_core_ristretto255_scalar_random()), [wrong], "b")


def test_dummies_cover_the_noise() -> None:
    assert dummies(None) == 0
    for epsilon in (0.1, 1.0, 3.0):
        assert 2.718281828 ** (-epsilon * dummies(epsilon)) < 1.1e-10


def test_too_few_identifiers(tmp_path: Path) -> None:
    agreement = Agreement.load(pair(tmp_path).path)
    with pytest.raises(DataError, match="3 different identifiers; the agreement asks for 10"):
        blind(agreement, NAMES[0], ["a", "b", "c", "a"])


def test_the_committed_set_is_the_one_that_is_sent(tmp_path: Path) -> None:
    parties = pair(tmp_path)
    agreement, name = Agreement.load(parties.path), NAMES[0]
    made = commit(parties.path, name, agreement, tmp_path / f"{name}.csv")
    signed = sign_agreement(parties.path, name, tmp_path / f"{name}.key", made)
    own = own_set(parties.path, name, agreement, signed)
    assert own.commitment == made == hashlib.sha256(b"".join(own.blinded)).hexdigest()
    file = tmp_path / f"parties.yaml.{name}.set"
    assert file.stat().st_mode & 0o077 == 0
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"blinded": content["blinded"][64:]}))
    with pytest.raises(DataError, match="not the set that"):
        own_set(parties.path, name, agreement, signed)
    file.unlink()
    with pytest.raises(PlanError, match="committed to no set"):
        own_set(parties.path, name, agreement, signed)


def meet(parties: Parties, change: Any = None) -> list[Any]:
    """Let two parties meet in one process; `change` what the second one sends."""
    agreement = Agreement.load(parties.path)
    sets, signed = {}, {}
    for name in parties.names:
        made = commit(parties.path, name, agreement, parties.folder / f"{name}.csv")
        signed[name] = sign_agreement(parties.path, name, parties.folder / f"{name}.key", made)
        sets[name] = own_set(parties.path, name, agreement, signed[name])
    if change:
        sets[NAMES[1]] = change(sets[NAMES[1]])

    async def both() -> list[Any]:
        lines = [Network(agreement, name, parties.folder / f"{name}.key", lambda _: None) for name in parties.names]
        await asyncio.gather(*(line.connect() for line in lines))
        found = await asyncio.gather(*(line.greet(signed[line.me]) for line in lines))
        work = [
            line.guard(
                intersect(
                    line,
                    agreement,
                    sets[line.me],
                    papers,
                    RunCount(parties.folder / f"{line.me}.key", agreement),
                    [],
                )
            )
            for line, papers in zip(lines, found, strict=True)
        ]

        async def told(one: Any, line: Network) -> Any:
            try:
                return await one
            except DiscretionError as error:
                line.end(getattr(error, "reason", "stopped"))
                return error

        outcome = await asyncio.gather(*(told(one, line) for one, line in zip(work, lines, strict=True)))
        for line in lines:
            line.end(None)
        await asyncio.sleep(0.05)
        return list(outcome)

    return asyncio.run(both())


def test_both_are_told_the_same_noisy_number(tmp_path: Path) -> None:
    one, two = meet(pair(tmp_path, epsilon=5.0, at_least=10))
    assert one == two and abs(one["intersection"] - 40) < 30


def test_a_small_intersection_is_not_told(tmp_path: Path) -> None:
    for outcome in meet(pair(tmp_path, epsilon=None, at_least=41)):
        assert isinstance(outcome, RequirementNotMet) and "fewer identifiers" in str(outcome)


def test_another_set_than_committed_is_refused(tmp_path: Path) -> None:
    def other(own: OwnSet) -> OwnSet:
        return OwnSet(own.exponent, own.blinded[:-1], own.people, own.noise)

    one, _ = meet(pair(tmp_path), other)
    assert isinstance(one, PartyLost) and "another set than it committed to" in str(one)
