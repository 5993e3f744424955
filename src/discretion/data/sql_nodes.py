"""Looking at nodes of a syntax tree: nothing unexpected inside, constants as plain values."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Any

from discretion.data.conditions import Scalar
from discretion.errors import QueryRefused

_WHOLE = re.compile(r"[0-9]{1,18}")
_DECIMAL = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


def only(node: Any, allowed: Collection[str], names: Mapping[str, str]) -> None:
    """Refuse a node that has anything beside the allowed entries; `names` says what an entry is called in SQL."""
    for key, value in node.args.items():
        if key not in allowed and value not in (None, False, [], ""):
            what = names.get(key, "something in this question")
            raise QueryRefused(f"{what} {'are' if what in _PLURAL else 'is'} not allowed here")


_PLURAL = (
    "joins (one table at a time)",
    "window functions",
    "other names of tables",
    "schemas of tables",
)


def plain_number(node: Any) -> int | float:
    """Give the number that a node is, or refuse."""
    value = constant(node)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QueryRefused("a number is needed here")
    return value


def constant(node: Any) -> Scalar:
    """Give the number, text or truth that a node is, or refuse."""
    from sqlglot import exp

    if type(node) is exp.Boolean:
        return bool(node.this)
    if type(node) is exp.Neg:
        only(node, {"this"}, {})
        if type(node.this) is exp.Literal and not node.this.is_string:
            return -_number(str(node.this.this))
    if type(node) is exp.Literal:
        only(node, {"this", "is_string"}, {})
        return str(node.this) if node.is_string else _number(str(node.this))
    raise QueryRefused("columns are compared with constants: numbers, texts in single quotes, TRUE and FALSE")


def _number(text: str) -> int | float:
    if _WHOLE.fullmatch(text):
        return int(text)
    if not _DECIMAL.fullmatch(text) or len(text) > 40 or not math.isfinite(float(text)):
        raise QueryRefused("a number of this question cannot be read, or is too large")
    return float(text)
