"""Save the state of a linear audit and go on from it: quicker than asking the ledger again.

The bytes hold the secret primes and null vectors. Keep them as secret as the data: who knows a prime can build query
sets that pass as combinations of earlier ones.
"""

from __future__ import annotations

import io
import secrets
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.errors import DataError
from discretion.online.audit.linear import LinearAudit
from discretion.online.audit.null_vector import NullVector

_VERSION = 1
_PARTS = ("x", "y", "weights", "ready", "pivots", "stored", "is_pivot")


def to_bytes(audit: LinearAudit) -> bytes:
    """Give the state of an audit (without pending rows) as bytes.

    Examples
    --------
    >>> import numpy as np
    >>> audit = LinearAudit(4)
    >>> audit.commit([np.array([0, 1, 2, 3])])
    >>> from_bytes(to_bytes(audit)).judge([np.array([1, 2, 3])]).safe
    False
    """
    audit.discard()
    store = audit.store
    arrays = {
        "about": np.array([_VERSION, audit.people, store.count, len(audit.fields)], np.int64),
        "owner": audit.elements.owner,
        "determined": audit.determined,
        "bits": store.bits[: store.count],
        "powers": store.powers[: store.count],
    }
    for number, field in enumerate(audit.fields):
        arrays[f"prime_{number}"] = np.array([field.prime], np.uint64)
        arrays[f"inverse_{number}"] = field.inverse[: field.size, : field.size]
        arrays[f"sums_{number}"] = field.sums[: store.count]
        arrays |= {f"{part}_{number}": getattr(field, part) for part in _PARTS}
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()


def from_bytes(content: bytes) -> LinearAudit:
    """Give the audit that `to_bytes` saved."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = dict(file)
        version, people, count, primes = (int(number) for number in arrays["about"])
    except (ValueError, KeyError, OSError, EOFError) as error:
        raise DataError("this is not the saved state of an audit") from error
    if version != _VERSION:
        raise DataError("the saved state of the audit is of another version; rebuild it from the ledger")
    audit = LinearAudit(people, owner=arrays["owner"], primes=1)
    audit.determined = arrays["determined"]
    audit.store.bits, audit.store.powers, audit.store.count = arrays["bits"], arrays["powers"], count
    audit.fields = [_field(audit, arrays, number) for number in range(primes)]
    return audit


def _field(audit: LinearAudit, arrays: dict[str, NDArray[Any]], number: int) -> NullVector:
    generator = np.random.default_rng(secrets.randbits(256))
    field = NullVector(int(arrays[f"prime_{number}"][0]), generator, audit.elements)
    for part in (*_PARTS, "inverse", "sums"):
        setattr(field, part, arrays[f"{part}_{number}"])
    field.size = len(field.pivots)
    return field
