"""The secret of a service: made once, kept in a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from discretion.errors import DataError, PlanError
from discretion.online.catalog import ServiceSpec

_BYTES = 32
_LEAST = 16


def read_secret(spec: ServiceSpec) -> bytes:
    """Give the secret of a service: from its file, made when absent; beside a SQLite ledger unless said otherwise.

    A ledger in memory has a secret that is forgotten with it.
    """
    place = _place(spec)
    if place is None:
        return secrets.token_bytes(_BYTES)
    try:
        descriptor = os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return _read(place)
    except OSError as error:
        raise DataError(f"the secret cannot be written to {place}: {error.strerror}") from None
    made = secrets.token_hex(_BYTES)
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(made + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    return bytes.fromhex(made)


def _place(spec: ServiceSpec) -> Path | None:
    if spec.secret_file is not None:
        return Path(spec.secret_file)
    if spec.ledger == ":memory:":
        return None
    if spec.ledger.startswith("sqlite:///") or "://" not in spec.ledger:
        path = Path(spec.ledger.removeprefix("sqlite:///"))
        return path.with_name(f"{path.name}.secret")
    if _is_needed(spec):
        raise PlanError("perturbed answers need a `secret_file`: without it a restart would change every figure")
    return None


def _is_needed(spec: ServiceSpec) -> bool:
    return any(spec.policy_for(user, table).mode == "perturbed" for user in spec.users for table in spec.tables)


def _read(place: Path) -> bytes:
    try:
        found = bytes.fromhex(place.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        raise DataError(f"{place} does not hold the secret of a service") from None
    if len(found) < _LEAST:
        raise DataError(f"{place} holds a secret of fewer than {_LEAST} bytes")
    return found
