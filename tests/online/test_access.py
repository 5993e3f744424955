"""Keys: hashed, found again, taken back; rates."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from discretion.errors import DataError, PlanError
from discretion.online.declare import ServiceSpec
from discretion.online.server.access import KeyRing, hash_key, keys_beside, matches, new_key
from discretion.online.server.guard import RateLimit


def test_a_key_matches_its_own_hash_only_and_hashes_differ_by_salt() -> None:
    key, other = new_key(), new_key()
    first, second = hash_key(key), hash_key(key)
    assert first != second
    assert matches(key, first)
    assert matches(key, second)
    assert not matches(other, first)
    assert key not in first
    assert not matches(key, "")
    assert not matches(key, "sha256$zz$zz")
    assert not matches(key, "plain$" + key)


def test_keys_have_256_random_bits() -> None:
    keys = {new_key() for _ in range(1000)}
    assert len(keys) == 1000
    assert all(len(key) >= 43 + 3 for key in keys)


def test_a_ring_finds_the_user_of_declared_and_of_kept_keys(tmp_path: Path) -> None:
    declared = new_key()
    ring = KeyRing({"ann": hash_key(declared)}, tmp_path / "keys.json")
    kept = ring.add("bob", ["ann", "bob"])
    assert ring.user_of(declared) == "ann"
    assert ring.user_of(kept) == "bob"
    for wrong in ("", "x", declared[:-1], kept + "x", "é" * 10, "x" * 10_000):
        assert ring.user_of(wrong) is None
    with pytest.raises(PlanError, match="unknown user 'bo'; did you mean 'bob'"):
        ring.add("bo", ["ann", "bob"])


def test_the_file_holds_hashes_only_and_is_private(tmp_path: Path) -> None:
    ring = KeyRing(path=tmp_path / "keys.json")
    key = ring.add("bob", ["bob"])
    text = (tmp_path / "keys.json").read_text()
    assert key not in text
    assert key[3:] not in text
    assert (tmp_path / "keys.json").stat().st_mode & 0o777 == 0o600


def test_another_process_sees_new_and_revoked_keys_at_once(tmp_path: Path) -> None:
    here, there = KeyRing(path=tmp_path / "k.json"), KeyRing(path=tmp_path / "k.json")
    first, second = here.add("ann", ["ann"]), here.add("ann", ["ann"])
    assert there.user_of(first) == there.user_of(second) == "ann"
    one = next(key.id for key in there.stored() if matches(first, key.hash))
    assert here.revoke(one) == 1
    assert there.user_of(first) is None
    assert there.user_of(second) == "ann"
    assert here.revoke("ann") == 1
    assert there.user_of(second) is None
    assert here.revoke("ann") == 0


def test_a_damaged_file_is_an_error_and_not_an_open_door(tmp_path: Path) -> None:
    (tmp_path / "k.json").write_text(json.dumps({"keys": [{"user": "ann"}]}))
    with pytest.raises(DataError, match="not a file of keys"):
        KeyRing(path=tmp_path / "k.json").user_of(new_key())


def test_without_a_file_no_key_can_be_made() -> None:
    with pytest.raises(PlanError, match="no file"):
        KeyRing().add("ann", ["ann"])


def test_keys_of_a_service_file() -> None:
    key = new_key()
    columns = {"sex": {"role": "public", "type": "category"}}
    spec = ServiceSpec(tables={"t": {"columns": columns}}, users={"ann": {"key_hash": hash_key(key)}, "bob": {}})
    assert KeyRing.of(spec).user_of(key) == "ann"
    assert keys_beside("a/service.yaml") == Path("a/service.keys.json")


def test_a_rate_fills_evenly_and_callers_do_not_share_it() -> None:
    now = 0.0
    limit = RateLimit(60, clock=lambda: now)
    assert [limit.wait("ann") for _ in range(60)] == [0] * 60
    assert limit.wait("ann") == 1
    assert limit.wait("bob") == 0
    now = 2.0
    assert [limit.wait("ann") for _ in range(3)] == [0, 0, 1]
    now = 1000.0
    assert [limit.wait("ann") for _ in range(61)] == [0] * 60 + [1]


def test_rates_forget_the_oldest_callers() -> None:
    limit = RateLimit(1, clock=lambda: 0.0)
    assert limit.wait("first") == 0
    for number in range(10_000):
        limit.wait(str(number))
    assert limit.wait("first") == 0


def test_a_key_may_expire(tmp_path: Path) -> None:
    now = datetime(2024, 1, 30, 12, tzinfo=UTC)
    ring = KeyRing(path=tmp_path / "k.json", clock=lambda: now)
    short, long = ring.add("ann", ["ann"], days=2), ring.add("ann", ["ann"])
    assert ring.user_of(short) == ring.user_of(long) == "ann"
    now += timedelta(days=2, seconds=-1)
    assert ring.user_of(short) == "ann"
    now += timedelta(seconds=1)
    assert ring.user_of(short) is None
    assert ring.user_of(long) == "ann"
    assert [key.expires for key in ring.stored()] == ["2024-02-01T12:00:00+00:00", ""]
    for days in (0, -1, 10**6):
        with pytest.raises(PlanError, match="days"):
            ring.add("ann", ["ann"], days=days)


def test_a_file_from_before_keys_expired_opens(tmp_path: Path) -> None:
    key = new_key()
    old = {"id": "1", "user": "ann", "hash": hash_key(key), "made": ""}
    (tmp_path / "k.json").write_text(json.dumps({"version": 1, "keys": [old]}))
    assert KeyRing(path=tmp_path / "k.json").user_of(key) == "ann"


@pytest.mark.parametrize("wrong", [{"hash": 1}, {"user": None}, {"expires": "soon"}, {"expires": "2024-01-01"}])
def test_a_kept_key_of_the_wrong_form_is_an_error(tmp_path: Path, wrong: dict[str, Any]) -> None:
    key = new_key()
    one = {"id": "1", "user": "ann", "hash": hash_key(key), "made": "", **wrong}
    (tmp_path / "k.json").write_text(json.dumps({"keys": [one]}))
    with pytest.raises(DataError, match="not a file of keys"):
        KeyRing(path=tmp_path / "k.json").user_of(key)
