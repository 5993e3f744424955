"""The keys of an encrypted job: a public folder for owners and server, and secrets that only their holder can read."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from pydantic import ValidationError

from discretion.errors import DataError, PlanError, need
from discretion.parties.agreement import AgreedColumn, check_private, checked_party

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
        from discretion.data.atomic import check_target, replacing, write_text

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
