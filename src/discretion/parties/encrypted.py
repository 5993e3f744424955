"""An untrusted server computes on encrypted columns: exact sums by Paillier, moments and regression by CKKS.

Somebody holds the keys (`Keys.make`) and opens a job (`begin`), owners encrypt their columns with the public part and
send them (`contribute`), the server adds and multiplies what it cannot read (`create_app`, or `discretion party
server`), and the holder of the keys decrypts the totals (`collect`). Protects the columns from the server. Does not
protect owners from a server and a holder of the keys who collude, nor anybody from what the totals say.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import shutil
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import ValidationError

from discretion.errors import DataError, DiscretionError, PlanError, need, unknown
from discretion.kernels.arrays import Floats
from discretion.parties.agreement import AgreedColumn, check_private, checked_party

if TYPE_CHECKING:
    from fastapi import FastAPI

# Paillier's scheme on gmpy2: whole numbers that can be added while encrypted. All randomness is from `secrets`.

LEAST_BITS = 3072
VALUE_BITS, HEAD_BITS = 48, 16
"""a counter holds numbers below 2^VALUE_BITS, and 2^HEAD_BITS of them can be added without touching the next one"""


def _gmpy2() -> ModuleType:
    return need("gmpy2", "Paillier's scheme", "parties")


class PublicKey:
    """Encrypts, adds and re-randomizes; g = n + 1."""

    def __init__(self, n: int) -> None:
        if n.bit_length() < LEAST_BITS or n % 2 == 0:
            raise DataError(f"a modulus of at least {LEAST_BITS} bits is needed")
        self.n = _gmpy2().mpz(n)
        self.square = self.n**2
        self.slots = (n.bit_length() - 2) // (VALUE_BITS + HEAD_BITS)

    def _mask(self) -> Any:
        """Encrypt zero anew: r^n for a random unit r."""
        gmpy2 = _gmpy2()
        while True:
            r = gmpy2.mpz(secrets.randbelow(int(self.n)))
            if r > 1 and gmpy2.gcd(r, self.n) == 1:
                return gmpy2.powmod(r, self.n, self.square)

    def encrypt(self, message: int) -> int:
        """Encrypt a whole number 0 ≤ message < n."""
        if not 0 <= message < self.n:
            raise DataError("a number is out of the range of the key")
        return int((1 + message * self.n) * self._mask() % self.square)

    def add(self, one: int, other: int) -> int:
        """Add two encrypted numbers."""
        return int(_gmpy2().mpz(one) * other % self.square)

    def refresh(self, ciphertext: int) -> int:
        """Give another ciphertext of the same number, which nobody can connect with the old one."""
        return int(ciphertext * self._mask() % self.square)

    def check(self, ciphertext: int) -> int:
        """Raise unless a number can be a ciphertext under this key."""
        if not 0 < ciphertext < self.square or _gmpy2().gcd(ciphertext, self.n) != 1:
            raise DataError("this is not a ciphertext of the key")
        return ciphertext

    def pack(self, counters: Sequence[int]) -> list[int]:
        """Put many counters in few numbers."""
        if any(not 0 <= value < 1 << VALUE_BITS for value in counters):
            raise DataError(f"a total is not between 0 and 2^{VALUE_BITS}; take a larger step")
        width, found = VALUE_BITS + HEAD_BITS, []
        for start in range(0, len(counters), self.slots):
            block = counters[start : start + self.slots]
            found.append(sum(value << width * place for place, value in enumerate(block)))
        return found

    def unpack(self, numbers: Sequence[int], count: int) -> list[int]:
        """Take counters out again; nothing may be above them."""
        width = VALUE_BITS + HEAD_BITS
        blocks = [min(self.slots, count - start) for start in range(0, count, self.slots)]
        if len(blocks) != len(numbers) or any(n >> width * held for n, held in zip(numbers, blocks, strict=True)):
            raise DataError("the numbers hold something else than the totals: another key, or not what owners sent")
        return [
            numbers[place // self.slots] >> width * (place % self.slots) & ((1 << width) - 1) for place in range(count)
        ]


class SecretKey:
    """Decrypts, by the Chinese remainder theorem."""

    def __init__(self, p: int, q: int) -> None:
        gmpy2 = _gmpy2()
        self.p, self.q = gmpy2.mpz(p), gmpy2.mpz(q)
        self.public = PublicKey(int(self.p * self.q))
        g = self.public.n + 1
        self._hp = gmpy2.invert((gmpy2.powmod(g, self.p - 1, self.p**2) - 1) // self.p, self.p)
        self._hq = gmpy2.invert((gmpy2.powmod(g, self.q - 1, self.q**2) - 1) // self.q, self.q)
        self._inverse = gmpy2.invert(self.p, self.q)

    @classmethod
    def make(cls, bits: int = LEAST_BITS) -> SecretKey:
        """Draw two primes of the same length, so far apart that their product cannot be taken apart by roots."""
        gmpy2 = _gmpy2()
        if bits < LEAST_BITS:
            raise DataError(f"a modulus of at least {LEAST_BITS} bits is needed")
        while True:
            p, q = _prime(bits // 2), _prime(bits // 2)
            if abs(p - q).bit_length() > bits // 2 - 100 and gmpy2.gcd(p * q, (p - 1) * (q - 1)) == 1:
                return cls(int(p), int(q))

    def decrypt(self, ciphertext: int) -> int:
        """Decrypt to a whole number 0 ≤ message < n."""
        gmpy2 = _gmpy2()
        c = gmpy2.mpz(self.public.check(ciphertext))
        mp = (gmpy2.powmod_sec(c % self.p**2, self.p - 1, self.p**2) - 1) // self.p * self._hp % self.p
        mq = (gmpy2.powmod_sec(c % self.q**2, self.q - 1, self.q**2) - 1) // self.q * self._hq % self.q
        return int(mp + self.p * ((mq - mp) * self._inverse % self.q))


def _prime(bits: int) -> Any:
    """Draw a prime with its two highest bits set: strong BPSW and 40 rounds of Miller–Rabin."""
    gmpy2 = _gmpy2()
    while True:
        p = gmpy2.mpz(secrets.randbits(bits) | (3 << bits - 2) | 1)
        if gmpy2.is_strong_bpsw_prp(p) and gmpy2.is_prime(p, 40):
            return p


Scheme = Literal["paillier", "ckks"]
RING, MODULI, SCALE = 16_384, (60, 50, 50, 60), 2.0**50
"""CKKS: 220 bits of moduli at ring dimension 16,384, where 438 would still be 128-bit secure"""
SLOTS = RING // 2


def tenseal() -> Any:
    """Give the library of the CKKS scheme."""
    return need("tenseal", "the CKKS scheme", "parties")


def token_id(token: str) -> str:
    """Give the hash by which the server knows a token."""
    return hashlib.sha256(token.encode()).hexdigest()


class Job:
    """What owners and server know: the scheme, the columns with bounds and steps, and the public key.

    `digest` is the hash of all of that: the server refuses parts made under another key or other bounds.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        file = self.folder / "job.json"
        if not file.is_file():
            raise DataError(f"there is no job in {str(folder)!r}; `Keys.make` writes one")
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            self.id, self.scheme = str(content["id"]), content["scheme"]
            self.least_people = int(content["least_people"])
            self.columns = {name: AgreedColumn.model_validate(given) for name, given in content["columns"].items()}
            self.paillier = PublicKey(int(content["n"])) if self.scheme == "paillier" else None
            self.digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
            encrypt = self.folder / "ckks.encrypt"
            changed = self.paillier is None and hashlib.sha256(encrypt.read_bytes()).hexdigest() != content["key"]
        except (ValueError, KeyError, TypeError, OSError, ValidationError):
            raise DataError(f"{file} does not describe a job") from None
        if changed:
            raise DataError(f"{encrypt} is not the key of the job")

    @property
    def token(self) -> str:
        """Read what proves that this is the folder of one owner: the server takes one part of each."""
        file = self.folder / "token"
        if not file.is_file():
            raise DataError(
                f"{str(self.folder)!r} is not the folder of an owner; take the one in `owners` made for you"
            )
        return check_private(file).read_text(encoding="ascii").strip()

    def public(self, what: Literal["encrypt", "compute"]) -> bytes:
        """Give the public key: to encrypt with, or (larger) to compute with."""
        if self.paillier is not None:
            return str(int(self.paillier.n)).encode()
        return (self.folder / f"ckks.{what}").read_bytes()


class Keys:
    """The keys of one job, in a folder: `secret` and `holder` stay, `owners/NAME` is for one owner, `job` for all."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.job = Job(self.folder / "job")

    @classmethod
    def make(
        cls, folder: str | Path, columns: Mapping[str, Any], scheme: Scheme = "paillier",
        owners: Sequence[str] = ("owner-1", "owner-2", "owner-3"), least_people: int = 10,
    ) -> Keys:  # fmt: skip
        """Draw keys for totals of these columns, each with `lower`, `upper` and, for exact totals, `step`.

        Every one of the `owners` gets a folder of its own with a token, and can send one part; an owner with fewer than
        `least_people` sends none: beside empty parts of others the totals would be those of one owner or person.
        """
        from discretion.data.write import check_target, replacing, write_text

        place = Path(folder)
        try:
            declared = {name: AgreedColumn.model_validate(dict(given)) for name, given in columns.items()}
        except ValidationError as error:
            raise PlanError(
                [f"column {'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
            ) from None
        for name, column in declared.items():
            if column.categories:
                raise PlanError(f"{name!r} has categories; `lower` and `upper` are needed")
            if scheme == "paillier" and column.step is None:
                raise PlanError(f"{name!r} needs a `step`, such as 1 for whole numbers")
        if not declared or least_people < 1:
            raise PlanError("at least one column and one person of each owner are needed")
        if not owners or len({checked_party(name) for name in owners}) < len(owners):
            raise PlanError("name every owner once")
        if place.is_dir():
            check_target(place / "secret", overwrite=False)
        (place / "job").mkdir(parents=True, exist_ok=True)
        content = {
            "id": secrets.token_hex(16), "scheme": scheme, "least_people": least_people,
            "columns": {name: one.model_dump(mode="json", exclude_defaults=True) for name, one in declared.items()},
        }  # fmt: skip
        if scheme == "paillier":
            key = SecretKey.make()
            write_text(place / "secret", json.dumps({"p": str(key.p), "q": str(key.q)}) + "\n", private=True)
            content["n"] = str(key.public.n)
        else:
            context = tenseal().context(tenseal().SCHEME_TYPE.CKKS, RING, coeff_mod_bit_sizes=list(MODULI))
            context.global_scale = SCALE
            context.generate_galois_keys()
            forms = {
                place / "secret": (False, True, False, False),
                place / "job" / "ckks.encrypt": (True, False, False, False),
                place / "job" / "ckks.compute": (True, False, True, True),
            }
            for path, (public, secret, galois, relin) in forms.items():
                saved = context.serialize(
                    save_public_key=public, save_secret_key=secret, save_galois_keys=galois, save_relin_keys=relin
                )
                with replacing(path, private=secret) as temporary:
                    temporary.write_bytes(saved)
            content["key"] = hashlib.sha256((place / "job" / "ckks.encrypt").read_bytes()).hexdigest()
        write_text(place / "job" / "job.json", json.dumps(content, indent=2) + "\n")
        write_text(place / "holder", secrets.token_hex(32) + "\n", private=True)
        for name in owners:
            own = place / "owners" / name
            own.mkdir(parents=True)
            for file in ("job.json",) if scheme == "paillier" else ("job.json", "ckks.encrypt"):
                shutil.copy(place / "job" / file, own / file)
            write_text(own / "token", secrets.token_hex(32) + "\n", private=True)
        return cls(place)

    @property
    def token(self) -> str:
        """Read what proves to the server that this is the holder of the keys."""
        return check_private(self.folder / "holder").read_text(encoding="ascii").strip()

    def owners(self) -> list[str]:
        """Give the hashes of the owners' tokens, which the server knows them by."""
        folders = sorted(path for path in (self.folder / "owners").iterdir() if path.is_dir())
        return [token_id(Job(path).token) for path in folders]

    def paillier(self) -> SecretKey:
        """Read the secret of a Paillier job."""
        file = check_private(self.folder / "secret")
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            return SecretKey(int(content["p"]), int(content["q"]))
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{file} does not hold a secret key") from None

    def ckks(self) -> Any:
        """Read the secret of a CKKS job."""
        return tenseal().context_from(check_private(self.folder / "secret").read_bytes())


_MOST_BYTES, _MOST_JOBS, _MOST_COLUMNS = 1 << 28, 16, 1000


def framed(blobs: Sequence[bytes]) -> bytes:
    """Put byte strings one after the other, each with its length."""
    return b"".join(struct.pack("<I", len(blob)) + blob for blob in blobs)


def unframed(data: bytes) -> list[bytes]:
    """Take byte strings apart again."""
    found, place = [], 0
    while place < len(data):
        if place + 4 > len(data):
            raise DataError("the message is cut off")
        (size,) = struct.unpack_from("<I", data, place)
        if place + 4 + size > len(data):
            raise DataError("the message is cut off")
        found.append(data[place + 4 : place + 4 + size])
        place += 4 + size
    return found


@dataclass
class EncryptedTotals:
    """The totals of one job; parts of owners are added as they come and not kept, one of each owner.

    Owners and holder are known by the hashes of their tokens, key and bounds by the digest of the job.
    """

    scheme: str
    key: Any
    columns: int
    digest: str = ""
    holder: str = ""
    waiting: set[str] = field(default_factory=set)
    """owners who have not sent their part"""
    sent: set[str] = field(default_factory=set)
    closed: bool = False
    """the totals were handed out: no more parts, whose owners would be told by the difference"""
    parts: int = 0
    totals: list[Any] = field(default_factory=list)

    @classmethod
    def open(cls, scheme: str, columns: int, key: bytes) -> EncryptedTotals:
        """Begin a job under a public key; a secret one is refused."""
        if not 0 < columns <= _MOST_COLUMNS:
            raise DataError(f"a job has 1 to {_MOST_COLUMNS:,} columns")
        if scheme == "paillier":
            return cls(scheme, PublicKey(int(key)), columns)
        if scheme != "ckks":
            raise DataError("the scheme is paillier or ckks")
        context = tenseal().context_from(key)
        if context.has_secret_key():
            raise DataError("a secret key was sent: it is not safe any more; make new keys")
        return cls(scheme, context, columns)

    def take(self, owner: str, digest: str, blobs: Sequence[bytes]) -> None:
        """Add the part of one of the owners, who sends it once and before the job is closed."""
        if owner in self.sent:
            raise DataError("this owner has sent its part; one of each is taken")
        if owner not in self.waiting:
            raise DataError("this is none of the owners of the job")
        if digest != self.digest:
            raise DataError("the part was made under another key or other bounds than those of the job")
        if self.closed:
            raise DataError("the totals were opened; the job takes no more parts")
        self.add(blobs)
        self.waiting.remove(owner)
        self.sent.add(owner)

    def close(self, least: int) -> list[bytes]:
        """Give the totals and take no more parts; with fewer parts than `least` the job stays open."""
        if self.parts < least:
            raise DataError(f"{self.parts} owners contributed; {least} are needed")
        found = self.result()
        self.closed = True
        return found

    def add(self, blobs: Sequence[bytes]) -> None:
        """Add an owner's part."""
        if self.parts + 1 >= 1 << HEAD_BITS:
            raise DataError("the job has as many parts as its counters can hold")
        added = self._paillier(blobs) if self.scheme == "paillier" else self._ckks(blobs)
        if not self.totals:
            self.totals = added
        elif self.scheme == "paillier":
            self.totals = [self.key.add(one, other) for one, other in zip(self.totals, added, strict=True)]
        else:
            self.totals = [one + other for one, other in zip(self.totals, added, strict=True)]
        self.parts += 1

    def _paillier(self, blobs: Sequence[bytes]) -> list[int]:
        if len(blobs) != -(-(self.columns + 1) // self.key.slots):
            raise DataError("a part has its counters of people and columns in as few ciphertexts as hold them")
        return [self.key.check(int.from_bytes(blob, "big")) for blob in blobs]

    def _ckks(self, blobs: Sequence[bytes]) -> list[Any]:
        """Add the blocks of every column, and the products of every pair of columns; column 0 says who is there."""
        width = self.columns + 1
        if not blobs or len(blobs) % width:
            raise DataError("a part has one ciphertext for each column and block of rows")
        sums: list[Any] = []
        for start in range(0, len(blobs), width):
            block = [tenseal().ckks_vector_from(self.key, blob) for blob in blobs[start : start + width]]
            if any(vector.size() != SLOTS for vector in block):
                raise DataError("a ciphertext has another number of rows than a block")
            found = [*block, *(block[i] * block[j] for i in range(1, width) for j in range(i, width))]
            sums = [one + other for one, other in zip(sums, found, strict=True)] if sums else found
        return sums

    def result(self) -> list[bytes]:
        """Give the encrypted totals: re-randomized, or added up over all rows so that no row can be told."""
        if not self.parts:
            raise DataError("the job has no parts yet")
        if self.scheme == "paillier":
            size = (int(self.key.square).bit_length() + 7) // 8
            return [self.key.refresh(total).to_bytes(size, "big") for total in self.totals]
        return [total.sum().serialize() for total in self.totals]


def create_app() -> FastAPI:
    """Give the ASGI application of the untrusted server; any ASGI server can run it."""
    fastapi = need("fastapi", "the server", "parties")
    responses = need("fastapi.responses", "the server", "parties")
    app = fastapi.FastAPI(
        title="discretion: totals of encrypted columns", docs_url=None, redoc_url=None, openapi_url=None
    )
    jobs: dict[str, EncryptedTotals] = {}
    lock = threading.Lock()

    async def body(request: Any) -> bytes:
        found = bytearray()
        async for piece in request.stream():
            found += piece
            if len(found) > _MOST_BYTES:
                raise DataError("the message is too large")
        return bytes(found)

    def answered(work: Any) -> Any:
        async def answer(request: Any) -> Any:
            try:
                name, data = request.path_params["job"], await body(request)
                with lock:
                    return work(name, data, request)
            except PermissionError:
                return responses.JSONResponse({"error": "only the holder of the keys can do this"}, 403)
            except KeyError:
                return responses.JSONResponse({"error": "there is no such job"}, 404)
            except (DataError, ValueError, TypeError, ArithmeticError, RuntimeError) as error:
                text = str(error) if isinstance(error, DataError) else "the message cannot be read"
                return responses.JSONResponse({"error": text}, 422)

        return answer

    def known(request: Any) -> str:
        return token_id(request.headers.get("authorization", "").removeprefix("Bearer "))

    def held(name: str, request: Any) -> EncryptedTotals:
        if not hmac.compare_digest(known(request), jobs[name].holder):
            raise PermissionError
        return jobs[name]

    def begin(name: str, data: bytes, _: Any) -> Any:
        if name in jobs or len(jobs) >= _MOST_JOBS:
            raise DataError("the job exists, or the server has too many")
        about, key = unframed(data)
        given = json.loads(about)
        if not isinstance(given, dict) or not {"scheme", "columns", "digest", "holder", "owners"} <= set(given):
            raise DataError("a job has a scheme, columns, a digest, a holder and owners")
        made = EncryptedTotals.open(str(given["scheme"]), int(given["columns"]), key)
        made.digest, made.holder, made.waiting = str(given["digest"]), str(given["holder"]), set(given["owners"])
        jobs[name] = made
        return responses.JSONResponse({"job": name}, 201)

    def part(name: str, data: bytes, request: Any) -> Any:
        jobs[name].take(known(request), request.headers.get("job-digest", ""), unframed(data))
        return responses.JSONResponse({"parts": jobs[name].parts}, 201)

    def result(name: str, _: bytes, request: Any) -> Any:
        found = held(name, request)
        blobs = found.close(int(request.query_params.get("least", "1")))
        return responses.Response(framed([str(found.parts).encode(), *blobs]), media_type="application/octet-stream")

    def drop(name: str, _: bytes, request: Any) -> Any:
        held(name, request)
        del jobs[name]
        return responses.Response(status_code=204)

    app.add_route("/v1/jobs/{job}", answered(begin), methods=["PUT"])
    app.add_route("/v1/jobs/{job}", answered(drop), methods=["DELETE"])
    app.add_route("/v1/jobs/{job}/parts", answered(part), methods=["POST"])
    app.add_route("/v1/jobs/{job}/result", answered(result), methods=["GET"])
    return app  # type: ignore[no-any-return]


_IMPLAUSIBLE = (
    "the totals cannot be those of people within the declared bounds: a part was made under another key or other"
    " bounds, or the server did not add up what it got"
)


@dataclass(frozen=True)
class Totals:
    """What the totals say; moments only under CKKS, whose figures are near and for the holder of the keys only."""

    parts: int
    people: float
    sums: dict[str, float]
    exact: bool
    products: Floats | None = None
    """sums of products of columns, in units"""

    @property
    def means(self) -> dict[str, float]:
        """Give the mean of each column."""
        return {name: total / self.people for name, total in self.sums.items()}

    @property
    def covariances(self) -> Floats:
        """Give the covariances (over n − 1) of the columns, in their order."""
        if self.products is None:
            raise PlanError("exact totals have no products; take the scheme ckks")
        means = np.array(list(self.means.values()))
        return np.asarray((self.products - self.people * np.outer(means, means)) / (self.people - 1))

    @property
    def variances(self) -> dict[str, float]:
        """Give the variance (over n − 1) of each column."""
        return dict(zip(self.sums, np.diag(self.covariances).tolist(), strict=True))

    def regression(self, target: str, on: Sequence[str]) -> dict[str, float]:
        """Give the least-squares coefficients of one column on others."""
        names = list(self.sums)
        for name in (target, *on):
            if name not in names:
                raise PlanError(unknown("column", name, names))
        cov = self.covariances
        own, others = names.index(target), [names.index(name) for name in on]
        slopes = np.linalg.solve(cov[np.ix_(others, others)], cov[others, own])
        means = self.means
        found = dict(zip(on, slopes.tolist(), strict=True))
        return {"intercept": means[target] - sum(found[name] * means[name] for name in on), **found}


def _ask(method: str, url: str, verify: str | bool = True, **given: Any) -> bytes:
    httpx = need("httpx", "the server of encrypted totals", "parties")
    try:
        reply = httpx.request(method, url, timeout=600, verify=verify, trust_env=False, **given)
    except httpx.HTTPError as error:
        raise DiscretionError(f"the server cannot be reached: {type(error).__name__}") from None
    if reply.status_code >= 400:
        text = reply.json().get("error", "") if "json" in reply.headers.get("content-type", "") else ""
        raise DataError(f"the server refused ({reply.status_code}): {text}")
    return bytes(reply.content)


def begin(server: str, keys: Keys | str | Path, verify: str | bool = True) -> str:
    """Open the job on a server: it gets the public key and hashes of the tokens, and nothing else."""
    keys = keys if isinstance(keys, Keys) else Keys(keys)
    job = keys.job
    about = {
        "scheme": job.scheme, "columns": len(job.columns), "digest": job.digest, "holder": token_id(keys.token),
        "owners": keys.owners(),
    }  # fmt: skip
    message = framed([json.dumps(about).encode(), job.public("compute")])
    _ask("PUT", f"{server}/v1/jobs/{job.id}", verify, content=message)
    return job.id


def contribute(server: str, job: Job | str | Path, data: Any, verify: str | bool = True) -> int:
    """Encrypt the columns of a job with its public key and send them; give the number of people.

    `job` is the folder that the holder of the keys made for this owner (`owners/NAME`); each owner sends once.
    """
    job = job if isinstance(job, Job) else Job(job)
    proof = {"Authorization": f"Bearer {job.token}", "Job-Digest": job.digest}
    people, blobs = encrypt(job, data)
    _ask("POST", f"{server}/v1/jobs/{job.id}/parts", verify, content=framed(blobs), headers=proof)
    return people


def encrypt(job: Job, data: Any) -> tuple[int, list[bytes]]:
    """Encrypt the columns of a job: totals by Paillier, blocks of rows by CKKS; give also the number of people."""
    from discretion.parties.session import prepared

    ready = prepared(job.columns, data)
    people = ready.height
    if people < job.least_people:
        raise DataError(f"{people:,} people; the job asks every owner for {job.least_people:,}")
    columns = [ready[name].to_numpy().astype(np.float64) for name in job.columns]
    specs = list(job.columns.values())
    if job.paillier is not None:
        counters = [people]
        for values, spec in zip(columns, specs, strict=True):
            steps = np.rint((values - float(spec.lower or 0.0)) / float(spec.step or 1.0)).astype(np.int64)
            counters.append(int(steps.sum()))
        size = (int(job.paillier.square).bit_length() + 7) // 8
        blobs = [job.paillier.encrypt(number).to_bytes(size, "big") for number in job.paillier.pack(counters)]
    else:
        context = tenseal().context_from(job.public("encrypt"))
        scaled = [np.ones(people), *((x - spec.middle) / spec.half for x, spec in zip(columns, specs, strict=True))]
        blobs = []
        for start in range(0, people, SLOTS):
            for values in scaled:
                block = np.zeros(SLOTS)
                part = values[start : start + SLOTS]
                block[: len(part)] = part
                blobs.append(tenseal().ckks_vector(context, block.tolist()).serialize())
    return people, blobs


def collect(server: str, keys: Keys | str | Path, least_parts: int = 3, verify: str | bool = True) -> Totals:
    """Fetch the encrypted totals and open them; refuse when fewer owners than `least_parts` contributed.

    This closes the job: the server takes no more parts, so that two openings cannot be subtracted from each other.
    """
    keys = keys if isinstance(keys, Keys) else Keys(keys)
    proof = {"Authorization": f"Bearer {keys.token}"}
    answer = _ask(
        "GET", f"{server}/v1/jobs/{keys.job.id}/result", verify, headers=proof, params={"least": str(least_parts)}
    )
    parts, *blobs = unframed(answer)
    if int(parts) < least_parts:
        raise DataError(f"{int(parts)} owners contributed; {least_parts} are needed")
    return decrypt(keys, int(parts), blobs)


def decrypt(keys: Keys, parts: int, blobs: Sequence[bytes]) -> Totals:
    """Open encrypted totals; refuse what cannot be the totals of people within the declared bounds."""
    job = keys.job
    specs = list(job.columns.values())
    if job.paillier is not None:
        secret = keys.paillier()
        numbers = [secret.decrypt(int.from_bytes(blob, "big")) for blob in blobs]
        people, *totals = job.paillier.unpack(numbers, len(specs) + 1)
        sums = {}
        if not parts <= people < parts << VALUE_BITS:
            raise DataError(_IMPLAUSIBLE)
        for name, spec, total in zip(job.columns, specs, totals, strict=True):
            if total > people * round(2 * spec.half / float(spec.step or 1.0)):
                raise DataError(_IMPLAUSIBLE)
            exact = Fraction(str(spec.step)) * total + Fraction(str(spec.lower)) * people
            sums[name] = float(exact)
        return Totals(parts, people, sums, exact=True)
    context = keys.ckks()
    opened = [float(tenseal().ckks_vector_from(context, blob).decrypt()[0]) for blob in blobs]
    p = len(specs)
    people, scaled, flat = round(opened[0]), np.array(opened[1 : p + 1]), opened[p + 1 :]
    most = people * (1 + 1e-6) + 1e-3  # columns are scaled to −1…1: neither sums nor products can be more
    if people < parts or abs(opened[0] - people) > 1e-2 or max(map(abs, opened)) > most:
        raise DataError(_IMPLAUSIBLE)
    middle, half = np.array([spec.middle for spec in specs]), np.array([spec.half for spec in specs])
    inner = np.zeros((p, p))
    inner[np.triu_indices(p)] = flat
    inner = np.triu(inner) + np.triu(inner, 1).T
    sums_of = middle * people + half * scaled
    cross = np.outer(middle, half * scaled)
    products = np.outer(half, half) * inner + cross + cross.T + people * np.outer(middle, middle)
    return Totals(parts, people, dict(zip(job.columns, sums_of.tolist(), strict=True)), False, products)
