"""Files of other programs: τ-ARGUS (.tab, .asc, .rda, .hst) and JJ, in and out.

They hold true values, contributions and protection levels: internal files, readable by their owner only.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NAMES = {
    "ArgusMicrodata": "argus",
    "JJ": "jj",
    "read_argus_microdata": "argus",
    "read_argus_table": "argus",
    "read_history": "argus",
    "read_jj": "jj",
    "write_argus_microdata": "argus",
    "write_argus_table": "argus",
    "write_history": "argus",
    "write_jj": "jj",
}

__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'discretion.tables.formats' has no attribute {name!r}")
    return getattr(import_module(f"discretion.tables.formats.{_NAMES[name]}"), name)
