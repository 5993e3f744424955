"""The keys of an encrypted job: a public folder for owners and server, and secrets that only their holder can read."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from discretion.errors import DataError, PlanError, need
from discretion.parties.agreement import ColumnSpec
from discretion.parties.encrypted.paillier import PublicKey, SecretKey
from discretion.parties.keys import check_private

Scheme = Literal["paillier", "ckks"]
RING, MODULI, SCALE = 16_384, (60, 50, 50, 60), 2.0**50
"""CKKS: 220 bits of moduli at ring dimension 16,384, where 438 would still be 128-bit secure"""
SLOTS = RING // 2


def tenseal() -> Any:
    """Give the library of the CKKS scheme."""
    return need("tenseal", "the CKKS scheme", "parties")


class Job:
    """What owners and server know: the scheme, the columns with bounds and steps, and the public key."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        file = self.folder / "job.json"
        if not file.is_file():
            raise DataError(f"there is no job in {str(folder)!r}; `Keys.make` writes one")
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            self.id, self.scheme = str(content["id"]), content["scheme"]
            self.columns = {name: ColumnSpec.model_validate(given) for name, given in content["columns"].items()}
            self.paillier = PublicKey(int(content["n"])) if self.scheme == "paillier" else None
        except (ValueError, KeyError, TypeError, ValidationError):
            raise DataError(f"{file} does not describe a job") from None

    def public(self, what: Literal["encrypt", "compute"]) -> bytes:
        """Give the public key: to encrypt with, or (larger) to compute with."""
        if self.paillier is not None:
            return str(int(self.paillier.n)).encode()
        return (self.folder / f"ckks.{what}").read_bytes()


class Keys:
    """The keys of one job, in a folder: `secret` for their holder, `job/` for everybody else."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.job = Job(self.folder / "job")

    @classmethod
    def make(cls, folder: str | Path, columns: Mapping[str, Any], scheme: Scheme = "paillier") -> Keys:
        """Draw keys for totals of these columns, each with `lower`, `upper` and, for exact totals, `step`."""
        from discretion.data.atomic import replacing, write_text

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
        if not declared:
            raise PlanError("name at least one column")
        (place / "job").mkdir(parents=True, exist_ok=True)
        content = {
            "id": secrets.token_hex(16), "scheme": scheme,
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
        write_text(place / "job" / "job.json", json.dumps(content, indent=2) + "\n")
        return cls(place)

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
