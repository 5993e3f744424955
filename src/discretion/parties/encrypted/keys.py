"""The keys of an encrypted job: a public folder for owners and server, and secrets that only their holder can read."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from discretion.errors import DataError, PlanError, need
from discretion.parties.agreement import ColumnSpec, checked_party
from discretion.parties.encrypted.paillier import PublicKey, SecretKey
from discretion.parties.keys import check_private

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
            self.columns = {name: ColumnSpec.model_validate(given) for name, given in content["columns"].items()}
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
            declared = {name: ColumnSpec.model_validate(dict(given)) for name, given in columns.items()}
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
