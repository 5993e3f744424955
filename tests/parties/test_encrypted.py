"""Encrypted totals: against plaintext, over REST with a server in its own process, which never has a secret."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discretion.errors import DataError, PlanError
from discretion.parties.encrypted import (
    HEAD_BITS,
    VALUE_BITS,
    EncryptedTotals,
    Job,
    Keys,
    PublicKey,
    SecretKey,
    begin,
    collect,
    contribute,
    decrypt,
    encrypt,
    framed,
    unframed,
)
from tests.parties.harness import people

COLUMNS = {"age": {"lower": 0, "upper": 120, "step": 1}, "income": {"lower": 0, "upper": 200, "step": 0.01}}


def owner(keys: Keys, k: int) -> Path:
    """Give the folder of an owner."""
    return keys.folder / "owners" / f"owner-{k + 1}"


@pytest.fixture(scope="module")
def key() -> SecretKey:
    return SecretKey.make()


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "discretion", "party", "server", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    found = re.search(r"http://[\d.:]+", process.stderr.readline())
    assert found
    try:
        yield found[0], process.pid
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


@settings(max_examples=6)
@given(st.lists(st.integers(0, 2**VALUE_BITS - 1), min_size=1, max_size=60), st.integers(0, 2**200))
def test_paillier_adds(key: SecretKey, counters: list[int], number: int) -> None:
    public = key.public
    packed = [public.encrypt(value) for value in public.pack(counters)]
    twice = [public.refresh(public.add(one, one)) for one in packed]
    assert public.unpack([key.decrypt(one) for one in twice], len(counters)) == [2 * value for value in counters]
    assert key.decrypt(public.add(public.encrypt(number), public.encrypt(5))) == number + 5


def test_paillier_is_random_and_refuses_what_is_weak(key: SecretKey) -> None:
    public = key.public
    assert int(public.n).bit_length() == 3072 and key.p != key.q
    one = public.encrypt(7)
    assert one != public.encrypt(7) and public.refresh(one) != one and key.decrypt(public.refresh(one)) == 7
    with pytest.raises(DataError, match="3072"):
        SecretKey.make(2048)
    with pytest.raises(DataError, match="3072"):
        PublicKey(2**2048 + 1)
    for wrong in (0, int(public.square), int(key.p)):
        with pytest.raises(DataError, match="not a ciphertext"):
            key.decrypt(wrong)
    with pytest.raises(DataError, match="larger step"):
        public.pack([1 << VALUE_BITS])
    assert VALUE_BITS + HEAD_BITS == 64 and public.slots == 47


def test_exact_totals_over_rest(server: tuple[str, int], tmp_path: Path) -> None:
    url, pid = server
    keys = Keys.make(tmp_path / "keys", COLUMNS)
    begin(url, keys)
    frames = [people(50 + 10 * k, k) for k in range(3)]
    for k, frame in enumerate(frames):
        with pytest.raises(DataError, match=f"{k} owners contributed; 3 are needed"):
            collect(url, keys)
        contribute(url, owner(keys, k), frame)
    found = collect(url, tmp_path / "keys")
    pooled = pl.concat(frames)
    assert (found.parts, found.people, found.exact) == (3, pooled.height, True)
    assert found.sums["age"] == pooled["age"].sum()
    assert found.sums["income"] == pytest.approx(pooled["income"].sum(), abs=1e-9)
    assert found.means["age"] == pytest.approx(pooled["age"].mean())
    with pytest.raises(DataError, match="3 owners contributed; 4 are needed"):
        collect(url, keys, least_parts=4)
    with pytest.raises(PlanError, match="no products"):
        _ = found.variances
    _never_on_the_server(pid, keys)


def _never_on_the_server(pid: int, keys: Keys) -> None:
    """Look through all of the server's memory: the modulus is there, its primes are not."""
    secret = keys.paillier()
    primes = [int(secret.p), int(secret.q)]
    forms = [n.to_bytes(192, order) for n in primes for order in ("little", "big")]  # type: ignore[arg-type]
    forms += [str(n).encode() for n in primes]
    control = [int(secret.public.n).to_bytes(384, "little"), str(int(secret.public.n)).encode()]
    seen = {"secret": 0, "public": 0}
    try:
        memory = Path(f"/proc/{pid}/mem").open("rb", buffering=0)  # noqa: SIM115
    except OSError:
        pytest.skip("the memory of other processes cannot be read here")
    with memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, *rest = line.split()
            if "r" not in rights or rest[-1] in ("[vvar]", "[vsyscall]", "[vvar_vclock]"):
                continue
            start, end = (int(part, 16) for part in span.split("-"))
            try:
                memory.seek(start)
                block = memory.read(end - start)
            except (OSError, OverflowError, ValueError):
                continue
            seen["secret"] += any(form in block for form in forms)
            seen["public"] += any(form in block for form in control)
    assert seen["public"] > 0 and seen["secret"] == 0
    for link in Path(f"/proc/{pid}/fd").iterdir():
        assert "secret" not in str(link.readlink())


def test_moments_over_rest(server: tuple[str, int], tmp_path: Path) -> None:
    url, _ = server
    keys = Keys.make(
        tmp_path / "keys", {name: {"lower": 0, "upper": column["upper"]} for name, column in COLUMNS.items()}, "ckks"
    )
    begin(url, keys)
    frames = [people(9000, 1), people(500, 2)]  # the first one has more rows than a ciphertext
    for k, frame in enumerate(frames):
        contribute(url, owner(keys, k), frame)
    found = collect(url, keys, least_parts=2)
    pooled = pl.concat(frames)
    age, income = pooled["age"].to_numpy(), pooled["income"].to_numpy()
    assert found.people == pooled.height and not found.exact
    assert found.means["age"] == pytest.approx(age.mean(), rel=1e-6)
    assert found.covariances == pytest.approx(np.cov(age, income), rel=1e-5)
    slope, intercept = np.polyfit(age, income, 1)
    fitted = found.regression("income", ["age"])
    assert [fitted["age"], fitted["intercept"]] == pytest.approx([slope, intercept], rel=1e-5)
    with pytest.raises(PlanError, match="unknown column 'agee'"):
        found.regression("income", ["agee"])


def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    keys = Keys.make(tmp_path / "keys", COLUMNS)
    secret = tmp_path / "keys" / "secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    public = (tmp_path / "keys" / "job" / "job.json").read_text()
    assert str(json.loads(secret.read_text())["p"]) not in public
    secret.chmod(0o644)
    with pytest.raises(DataError, match="chmod 600"):
        keys.paillier()


def test_a_secret_context_is_refused(tmp_path: Path) -> None:
    Keys.make(tmp_path / "keys", {"age": {"lower": 0, "upper": 120}}, "ckks")
    with pytest.raises(DataError, match="secret key was sent"):
        EncryptedTotals.open("ckks", 1, (tmp_path / "keys" / "secret").read_bytes())


def test_what_the_server_refuses(server: tuple[str, int]) -> None:
    url, _ = server
    assert httpx.get(f"{url}/v1/jobs/none/result", trust_env=False).status_code == 404
    for about in ({"scheme": "paillier", "columns": 1}, {"scheme": "none", "columns": 1}, {"scheme": "ckks"}, [], 7):
        full = about | {"digest": "", "holder": "", "owners": []} if isinstance(about, dict) else about
        reply = httpx.put(f"{url}/v1/jobs/x", content=framed([json.dumps(full).encode(), b"17"]), trust_env=False)
        assert reply.status_code == 422 and "error" in reply.json()
    wide = b'{"scheme": "paillier", "columns": %s, "digest": "", "holder": "", "owners": []}'
    for columns in (b"Infinity", b"NaN", b"-1", b"0", b"1001", b"1" + b"0" * 400, b"[]"):
        content = framed([wide % columns, str((1 << 3072) - 1).encode()])
        assert httpx.put(f"{url}/v1/jobs/x", content=content, trust_env=False).status_code == 422, columns
    assert unframed(framed([b"", b"ab"])) == [b"", b"ab"]
    with pytest.raises(DataError, match="cut off"):
        unframed(framed([b"abc"])[:-1])


def test_columns_of_a_job(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="needs a `step`"):
        Keys.make(tmp_path / "a", {"age": {"lower": 0, "upper": 120}})
    with pytest.raises(PlanError, match="at least one column"):
        Keys.make(tmp_path / "b", {})
    with pytest.raises(PlanError, match="categories"):
        Keys.make(tmp_path / "c", {"sex": {"categories": ["f", "m"]}})
    with pytest.raises(PlanError, match="one person of each owner"):
        Keys.make(tmp_path / "d", AGE, least_people=0)


@pytest.mark.parametrize("scheme", ["paillier", "ckks"])
def test_an_owner_of_few_people_sends_nothing(scheme: Any, tmp_path: Path) -> None:
    keys = Keys.make(tmp_path / "office", AGE, scheme)
    for rows in (0, 9):
        with pytest.raises(DataError, match=f"{rows} people; the job asks every owner for 10"):
            encrypt(Job(owner(keys, 0)), pl.DataFrame({"age": [42] * rows}, schema={"age": pl.Int64}))
    assert encrypt(Job(owner(keys, 0)), pl.DataFrame({"age": [42] * 10}))[0] == 10


AGE = {"age": {"lower": 0, "upper": 120, "step": 1}}


@pytest.fixture
def job(server: tuple[str, int], tmp_path: Path) -> Iterator[tuple[str, Keys]]:
    keys = Keys.make(tmp_path / "office", AGE, least_people=1)
    begin(server[0], keys)
    yield server[0], keys
    proof = {"Authorization": f"Bearer {keys.token}"}
    assert httpx.delete(f"{server[0]}/v1/jobs/{keys.job.id}", headers=proof, trust_env=False).status_code == 204


def test_an_owner_sends_once(job: tuple[str, Keys]) -> None:
    url, keys = job
    one = pl.DataFrame({"age": [42]})
    contribute(url, owner(keys, 0), one)
    for _ in range(2):
        with pytest.raises(DataError, match="this owner has sent its part"):
            contribute(url, owner(keys, 0), one)
    with pytest.raises(DataError, match="1 owners contributed; 3 are needed"):
        collect(url, keys)
    with pytest.raises(DataError, match="not the folder of an owner"):
        contribute(url, keys.folder / "job", one)
    (owner(keys, 1) / "token").write_text("f" * 64)
    with pytest.raises(DataError, match="none of the owners"):
        contribute(url, owner(keys, 1), one)


def test_a_part_without_its_ciphertexts_is_not_one(job: tuple[str, Keys]) -> None:
    """Empty parts would make the number of owners larger than that of the totals."""
    url, keys = job
    (good,) = encrypt(keys.job, pl.DataFrame({"age": [42]}))[1]
    proof = {"Authorization": f"Bearer {(owner(keys, 0) / 'token').read_text().strip()}", "Job-Digest": keys.job.digest}
    place = f"{url}/v1/jobs/{keys.job.id}/parts"
    for blobs in ([], [b""], [bytes(768)], [b"\xff" * 2000], [good, good]):
        reply = httpx.post(place, content=framed(blobs), headers=proof, trust_env=False)
        assert reply.status_code == 422 and "error" in reply.json()
    assert httpx.post(place, content=framed([good]), headers=proof, trust_env=False).status_code == 201


def test_opening_closes_a_job(job: tuple[str, Keys]) -> None:
    url, keys = job
    for k in range(2):
        contribute(url, owner(keys, k), pl.DataFrame({"age": [10 + k] * 5}))
    first = collect(url, keys, least_parts=2)
    with pytest.raises(DataError, match="takes no more parts"):
        contribute(url, owner(keys, 2), pl.DataFrame({"age": [77]}))
    assert collect(url, keys, least_parts=2) == first and first.sums == {"age": 105}


def test_only_the_holder_opens_and_deletes(job: tuple[str, Keys]) -> None:
    url, keys = job
    contribute(url, owner(keys, 0), pl.DataFrame({"age": [42]}))
    place = f"{url}/v1/jobs/{keys.job.id}"
    token = (owner(keys, 0) / "token").read_text().strip()
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Bearer {token}"}):
        assert httpx.get(f"{place}/result", headers=headers, trust_env=False).status_code == 403
        assert httpx.delete(place, headers=headers, trust_env=False).status_code == 403
    contribute(url, owner(keys, 1), pl.DataFrame({"age": [1]}))  # still there, and not closed
    assert collect(url, keys, least_parts=2).people == 2


def test_another_key_or_other_bounds_are_refused(job: tuple[str, Keys], tmp_path: Path) -> None:
    url, keys = job
    file = owner(keys, 0) / "job.json"
    text = file.read_text()
    given = json.loads(text)
    other = json.loads((Keys.make(tmp_path / "other", AGE).folder / "job" / "job.json").read_text())
    wide = {"age": {"lower": 0, "upper": 1e12, "step": 1}}
    for change in ({"n": other["n"]}, {"columns": wide}):
        file.write_text(json.dumps(given | change))
        with pytest.raises(DataError, match="another key or other bounds"):
            contribute(url, owner(keys, 0), pl.DataFrame({"age": [42]}))
    file.write_text(text)
    assert contribute(url, owner(keys, 0), pl.DataFrame({"age": [42]})) == 1


@pytest.mark.parametrize("counters", [[0, 0], [2, 500], [5, 601], [2**48, 2**48 - 1]])
def test_totals_outside_the_bounds_are_not_believed(key: SecretKey, tmp_path: Path, counters: list[int]) -> None:
    """Three owners with n people have at least three and at most 120 n years."""
    keys = Keys.make(tmp_path / "office", AGE)
    public = keys.job.paillier
    assert public is not None
    size = (int(public.square).bit_length() + 7) // 8

    def opened(numbers: list[int]) -> Any:
        total = public.encrypt(numbers[0] + (numbers[1] << (VALUE_BITS + HEAD_BITS)))
        return decrypt(keys, 3, [total.to_bytes(size, "big")])

    assert opened([5, 600]).sums == {"age": 600}
    if counters[0] != 2**48:
        with pytest.raises(DataError, match="cannot be those of people"):
            opened(counters)
    else:
        assert opened(counters).people == 2**48
        with pytest.raises(DataError, match="cannot be those of people"):
            opened([3 << VALUE_BITS, 0])
    with pytest.raises(DataError, match=r"something else than the totals|not a ciphertext"):  # of another key
        decrypt(keys, 3, [int(key.public.encrypt(5)).to_bytes(size, "big")])
