"""An untrusted server computes on encrypted columns: exact sums by Paillier, moments and regression by CKKS.

Somebody holds the keys (`Keys.make`) and opens a job (`begin`), owners encrypt their columns with the public part and
send them (`contribute`), the server adds and multiplies what it cannot read (`create_app`, or `discretion party
server`), and the holder of the keys decrypts the totals (`collect`). Protects the columns from the server. Does not
protect owners from a server and a holder of the keys who collude, nor anybody from what the totals say.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NAMES = {
    "Keys": "keys",
    "Totals": "client",
    "begin": "client",
    "collect": "client",
    "contribute": "client",
    "create_app": "server",
}

__all__ = [*_NAMES]  # noqa: PLE0604 - names are loaded on first use


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'discretion.parties.encrypted' has no attribute {name!r}")
    return getattr(import_module(f"discretion.parties.encrypted.{_NAMES[name]}"), name)
