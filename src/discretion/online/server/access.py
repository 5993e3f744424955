"""API keys: made here, shown once, kept as salted hashes, compared in constant time.

A key has 256 random bits, so that a fast hash is enough: there is no dictionary to try. Whoever reads the file of
hashes cannot ask the service; whoever reads a key can, so keys travel over TLS or stay on one machine.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path

from discretion.data.write import alone_beside, write_text
from discretion.errors import DataError, PlanError, unknown
from discretion.online.declare import ServiceSpec
from discretion.online.ledger import utc_now

_SCHEME = "sha256"
_PREFIX = "dk_"
_SALT_BYTES = 16
_KEY_BYTES = 32
_LONGEST_KEY = 200
_MOST_DAYS = 36_500


def new_key() -> str:
    """Make a key that nobody can guess."""
    return _PREFIX + secrets.token_urlsafe(_KEY_BYTES)


def hash_key(key: str, salt: bytes | None = None) -> str:
    """Return what is stored of a key: scheme, salt and hash.

    Examples
    --------
    >>> key = new_key()
    >>> matches(key, hash_key(key)), matches(new_key(), hash_key(key))
    (True, False)
    """
    used = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
    return f"{_SCHEME}${used.hex()}${hashlib.sha256(used + key.encode()).hexdigest()}"


def matches(key: str, stored: str) -> bool:
    """Tell whether a key belongs to a stored hash; takes the same time wherever they differ."""
    scheme, _, rest = stored.partition("$")
    salt, _, _ = rest.partition("$")
    if scheme != _SCHEME:
        return False
    try:
        return hmac.compare_digest(hash_key(key, bytes.fromhex(salt)), stored)
    except ValueError:
        return False


@dataclass(frozen=True)
class StoredKey:
    """A key as it is kept: whose it is and its hash."""

    id: str
    user: str
    hash: str
    made: str
    expires: str = ""
    """when it stops to open (ISO 8601, UTC); empty: never"""

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in (self.id, self.user, self.hash, self.made, self.expires)):
            raise TypeError("a kept key is made of texts")
        if self.expires and datetime.fromisoformat(self.expires).tzinfo is None:
            raise ValueError("the moment at which a key expires needs a time zone")

    def opens_at(self, moment: datetime) -> bool:
        """Say whether the key has not expired."""
        return not self.expires or moment < datetime.fromisoformat(self.expires)


class KeyRing:
    """The keys of a service: those in the service file and those in the file of keys beside it.

    The file is read again when it changes, so that a key that is taken back stops working at once.
    """

    def __init__(
        self,
        declared: Mapping[str, str] | None = None,
        path: str | Path | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._clock = clock
        self._declared = tuple(StoredKey("declared", user, stored, "") for user, stored in (declared or {}).items())
        self.path = None if path is None else Path(path)
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._kept: tuple[StoredKey, ...] = ()

    @classmethod
    def of(cls, spec: ServiceSpec, path: str | Path | None = None) -> KeyRing:
        """Take the keys that a service declares, and those of a file."""
        return cls({name: user.key_hash for name, user in spec.users.items() if user.key_hash}, path)

    def stored(self) -> tuple[StoredKey, ...]:
        """Return all keys that open the service, and those that have expired."""
        with self._lock:
            return (*self._declared, *self._read())

    def user_of(self, key: str) -> str | None:
        """Return whose key it is; every stored hash is compared, whichever fits."""
        if not 0 < len(key) <= _LONGEST_KEY or not key.isascii():
            return None
        found: str | None = None
        moment = self._clock()
        for stored in self.stored():
            if matches(key, stored.hash) and stored.opens_at(moment):
                found = stored.user
        return found

    def add(self, user: str, known: Iterable[str], *, days: int | None = None) -> str:
        """Make a key for a declared user, keep its hash in the file, and give the key: the only time it is seen.

        With `days` it stops to open after so many.
        """
        names = tuple(known)
        if user not in names:
            raise PlanError(unknown("user", user, names))
        if days is not None and not 1 <= days <= _MOST_DAYS:
            raise PlanError(f"a key lasts from 1 to {_MOST_DAYS:,} days")
        key, now = new_key(), self._clock()
        expires = "" if days is None else (now + timedelta(days=days)).isoformat(timespec="seconds")
        made = StoredKey(secrets.token_hex(4), user, hash_key(key), now.isoformat(timespec="seconds"), expires)
        with self._lock, self._alone():
            self._write((*self._read(), made))
        return key

    def revoke(self, what: str) -> int:
        """Take keys back, by the name of their user or by their id; give how many."""
        with self._lock, self._alone():
            kept = self._read()
            left = tuple(key for key in kept if what not in (key.id, key.user))
            if len(left) < len(kept):
                self._write(left)
            return len(kept) - len(left)

    def _alone(self) -> AbstractContextManager[None]:
        """Keep other processes from changing the file between reading and writing it: no key comes back."""
        return nullcontext() if self.path is None else alone_beside(self.path)

    def _read(self) -> tuple[StoredKey, ...]:
        if self.path is None:
            return ()
        try:
            about = self.path.stat()
            stamp = (about.st_mtime_ns, about.st_ino, about.st_size)
            if stamp != self._stamp:
                content = json.loads(self.path.read_text(encoding="utf-8"))
                self._kept = tuple(StoredKey(**key) for key in content["keys"])
                self._stamp = stamp
        except FileNotFoundError:
            self._kept, self._stamp = (), None
        except OSError as error:
            raise DataError(f"{self.path.name} cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{self.path.name} is not a file of keys") from None
        return self._kept

    def _write(self, keys: tuple[StoredKey, ...]) -> None:
        if self.path is None:
            raise PlanError("these keys have no file: give the path of one")
        content = {"version": 1, "keys": [asdict(key) for key in keys]}
        write_text(self.path, json.dumps(content, indent=2) + "\n", overwrite=True, private=True)


def keys_beside(service_file: str | Path) -> Path:
    """Name the file of keys that belongs to a service file."""
    path = Path(service_file)
    return path.with_name(f"{path.stem}.keys.json")
