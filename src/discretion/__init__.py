"""Publish data about people without giving anyone away.

`import discretion as dc` loads almost nothing; every public name is loaded when it is first used. The methods, models
and measures (`dc.Mdav`, `dc.KAnonymity`, …) are found by their class name; `dc.parts()` lists them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_NAMES = {
    "BudgetExhausted": "errors",
    "Cancelled": "errors",
    "Cells": "tables.cells",
    "Context": "context",
    "DataError": "errors",
    "Dataset": "data.dataset",
    "Decision": "method",
    "DifferentialPrivacy": "privacy.differential_privacy",
    "Dimension": "tables.dimensions",
    "DiscretionError": "errors",
    "Grid": "release.tune_space",
    "Hierarchy": "data.hierarchy",
    "Infeasible": "errors",
    "Intruder": "risk.identity.intruder",
    "Ledger": "online.ledger",
    "Measure": "measure",
    "Method": "method",
    "Plan": "release.plan",
    "Policy": "policy.policy",
    "PartyLost": "errors",
    "PlanError": "errors",
    "PrivacyBudget": "release.plan",
    "PrivacyModel": "model",
    "QueryRefused": "errors",
    "Range": "release.tune_space",
    "Release": "release.release",
    "RequirementNotMet": "errors",
    "Schema": "data.schema",
    "Score": "measure",
    "StatisticalDatabase": "online.statistical_database",
    "StratifiedMethod": "method",
    "Study": "release.study",
    "Vary": "release.tune_space",
    "Verdict": "model",
    "anonymize": "anonymize.solutions",
    "assess": "release.assess",
    "combine": "utility.combine",
    "compare": "release.compare",
    "confidential": "part",
    "connect": "online.client",
    "propose_roles": "data.detect",
    "read": "data.read",
    "scan": "engines.duckdb",
    "tabulate": "tables.tabulate",
    "tune": "release.tune",
    "write": "data.write",
}
"""Public name → the module that defines it. Parts are not listed here: they are found in their packages."""

_MODULES = ("datasets", "errors", "online", "outputs", "parties", "tables")

__all__ = [*_NAMES, *_MODULES, "__version__", "parts"]  # noqa: PLE0604 - names are loaded on first use


def parts() -> list[str]:
    """List the kinds of all methods, models and measures, those of installed extension packages included."""
    from discretion.part import index

    return list(index())


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"discretion.{name}")
    if name in _NAMES:
        module = import_module(f"discretion.{_NAMES[name]}")
        found = getattr(module, "propose" if name == "propose_roles" else name)
    elif name.startswith("_") or not name[:1].isupper():
        raise AttributeError(f"module 'discretion' has no attribute {name!r}")
    else:
        found = _part(name)
    globals()[name] = found
    return found


def _part(name: str) -> Any:
    from discretion.errors import did_you_mean
    from discretion.part import index

    by_name = {entry.name: entry for entry in index().values()}
    if name not in by_name:
        raise AttributeError(f"module 'discretion' has no attribute {name!r}{did_you_mean(name, [*_NAMES, *by_name])}")
    return by_name[name].load()


def __dir__() -> list[str]:
    from discretion.part import index

    return sorted({*globals(), *_NAMES, *_MODULES, *(entry.name for entry in index().values())})
