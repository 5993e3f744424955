"""The secret of a service: made once, kept in a file that only its owner can read."""

from __future__ import annotations

import contextlib
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
    place = secret_place(spec)
    if place is None:
        return secrets.token_bytes(_BYTES)
    if not place.exists():
        _make(place)
    return _read(place)


def _make(place: Path) -> None:
    """Write a new secret so that it appears whole or not at all; whoever comes second takes the first one's."""
    temporary = place.with_name(f".{secrets.token_hex(6)}.{place.name}")
    try:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as stream:
                stream.write(secrets.token_hex(_BYTES) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(temporary, place)
            folder = os.open(place.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"the secret cannot be written to {place}: {error.strerror}") from None


def secret_place(spec: ServiceSpec) -> Path | None:
    """Name the file of the secret; none when nothing needs to outlive the service."""
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
    except OSError as error:
        raise DataError(f"the secret in {place} cannot be read: {error.strerror}") from None
    except ValueError:
        raise DataError(f"{place} does not hold the secret of a service") from None
    if len(found) < _LEAST:
        raise DataError(f"{place} holds a secret of fewer than {_LEAST} bytes")
    return found
