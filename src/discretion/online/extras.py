"""The libraries of the extra `online` are imported when they are used."""

from __future__ import annotations

import importlib
from types import ModuleType

from discretion.errors import DiscretionError


def need(module: str, purpose: str) -> ModuleType:
    """Import an optional library, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise DiscretionError(f'{purpose} needs the library {module}; pip install "discretion[online]"') from None
