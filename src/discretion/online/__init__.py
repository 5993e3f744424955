"""On-line releases: questions about people are answered with statistics only, and every answer is remembered."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NAMES = {
    "Additive": "dp.mechanisms",
    "Choice": "dp.mechanisms:ExponentialChoice",
    "Ledger": "ledger",
    "Limit": "ledger",
    "Loss": "dp.mechanisms:PrivacyLoss",
    "RandomAnswer": "dp.mechanisms",
    "Sensitivity": "dp.sensitivity",
    "StatisticalDatabase": "statistical_database",
    "Threshold": "dp.mechanisms:ThresholdedCounts",
    "Unit": "dp.sensitivity",
    "connect": "client",
    "open_ledger": "ledger",
}
"""Public name → the module of this package that defines it (and its name there), loaded when it is first used."""

_MODULES = {"sensitivity": "dp.sensitivity"}

__all__ = [*_NAMES, *_MODULES]  # noqa: PLE0604 - names are loaded on first use


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"discretion.online.{_MODULES[name]}")
    if name not in _NAMES:
        raise AttributeError(f"module 'discretion.online' has no attribute {name!r}")
    module, _, own = _NAMES[name].partition(":")
    return getattr(import_module(f"discretion.online.{module}"), own or name)
