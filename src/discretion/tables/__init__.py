"""Tables: from records or ready-made cells to sums that give nobody away."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NAMES = {
    "Attacker": "attacker",
    "Audit": "audit",
    "Cells": "cells",
    "Contributions": "cells",
    "Dimension": "dimensions",
    "Previous": "previous",
    "Prior": "attacker",
    "Protected": "suppression",
    "Response": "cells",
    "Sparse": "cells",
    "Status": "cells",
    "from_cells": "ready",
    "from_columns": "tabulate",
    "with_record_keys": "cell_key",
    "write_dimension": "dimensions",
}
"""Public name → the module of this package that defines it, loaded when it is first used."""

__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'discretion.tables' has no attribute {name!r}")
    return getattr(import_module(f"discretion.tables.{_NAMES[name]}"), name)
