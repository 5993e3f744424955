"""Which options the functions behind a table plan take, and of which types they must be."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

_OWN = {
    "restructure": ("keep", "ordered"),
    "perturb": ("key_file", "key_by"),
}
"""Options of a protection that its function does not take itself."""


def wrong_types(kind: str, options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the options whose values are not of the type that their function says, and what is wrong with each."""
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    function = _function(kind)
    hints = {} if function is None else function.__annotations__
    for name, value in options.items():
        if name not in hints or kind == "suppress":
            continue
        hint = eval(str(hints[name]), function.__globals__)
        try:
            TypeAdapter(hint, config=ConfigDict(strict=True)).validate_python(value)
        except ValidationError as error:
            said = dict.fromkeys(item["msg"][:1].lower() + item["msg"][1:] for item in error.errors())
            yield name, f"{' or '.join(said)}, got {value!r}"


def allowed_options(kind: str) -> tuple[str, ...]:
    """Name the options a protection takes in a plan: those of its function, without what the run gives."""
    given = {"cells", "rules", "seed", "progress", "ctx", "table", "audit", "options"}
    function = _function(kind)
    own = () if function is None else tuple(inspect.signature(function).parameters)
    return tuple(name for name in (*own, *_OWN.get(kind, ())) if name not in given)


def required_options(kind: str) -> tuple[str, ...]:
    """Name the options a protection cannot do without."""
    function = _function(kind)
    if function is None:
        return ()
    empty = inspect.Parameter.empty
    named = inspect.signature(function).parameters.items()
    return tuple(name for name, item in named if item.default is empty and name not in ("cells", "rules", "options"))


def _function(kind: str) -> Any:
    if kind == "tabulate":
        from discretion.tables.tabulate import tabulate

        return tabulate
    if kind == "cells":
        from discretion.tables.ready import from_cells

        return from_cells
    if kind == "audit":
        from discretion.tables.audit import audit

        return audit
    if kind == "suppress":
        from discretion.tables.suppression import suppress

        return suppress
    if kind == "restructure":
        from discretion.tables.restructure import restructure

        return restructure
    if kind == "round-random":
        from discretion.tables.rounding import round_random

        return round_random
    if kind == "round-controlled":
        from discretion.tables.controlled_rounding import round_controlled

        return round_controlled
    if kind == "adjust":
        from discretion.tables.adjustment import adjust

        return adjust
    if kind == "perturb":
        from discretion.tables.cell_key import perturb

        return perturb
    return None
