"""Several parties compute a statistic together and learn only that; an untrusted server computes on encrypted data."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NAMES = {
    "Agreement": "agreement",
    "Result": "session",
    "make_identity": "agreement",
    "run_party": "session",
    "sign_agreement": "agreement",
}
"""Public name → the module of this package that defines it, loaded when it is first used."""

_MODULES = ("encrypted",)

__all__ = [*_NAMES, *_MODULES]  # noqa: PLE0604 - names are loaded on first use


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"discretion.parties.{name}")
    if name not in _NAMES:
        raise AttributeError(f"module 'discretion.parties' has no attribute {name!r}")
    return getattr(import_module(f"discretion.parties.{_NAMES[name]}"), name)
