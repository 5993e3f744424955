"""Write `src/discretion/__init__.pyi` from the registry: type checkers find misspelled fields, editors complete."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import discretion as dc
from discretion.part import Part, all_parts, is_path

STUB = Path(__file__).parent.parent / "src" / "discretion" / "__init__.pyi"
_PLAIN = {str: "str", int: "int", float: "float", bool: "bool", type(None): "None"}
_RENAMED = {"propose_roles": "propose"}


def stub() -> str:
    """Give the text of the stub: public names from their modules, and every part with its fields."""
    names: dict[str, list[str]] = {}
    for name, module in sorted(dc._NAMES.items()):
        names.setdefault(module, []).append(f"{_RENAMED.get(name, name)} as {name}")
    lines = ['"""Made by `make stubs` from the registry of parts; do not edit."""', ""]
    lines += [
        "from collections.abc import Mapping, Sequence",
        "from pathlib import Path",
        "from typing import Any, Literal",
        "",
    ]
    lines += [f"from discretion import {name} as {name}" for name in dc._MODULES]
    for module, found in sorted(names.items()):
        lines.append(f"from discretion.{module} import (")
        lines += [f"    {one}," for one in sorted(found)] + [")"]
    lines += ["", "__version__: str", "", "def parts() -> list[str]: ..."]
    built_in = [part for part in all_parts() if part.__module__.startswith("discretion.")]
    for part in sorted(built_in, key=lambda part: part.__name__):
        if part.__name__ not in dc._NAMES:
            lines += ["", *_class(part)]
    return "\n".join(lines) + "\n"


def _class(part: type[Part]) -> list[str]:
    own = f"_{part.__name__}"
    lines = [f"from {part.__module__} import {part.__name__} as {own}", "", f"class {part.__name__}({own}):"]
    lines += [f'    """{part.summary()}"""', ""]
    given = []
    for name, field in part.model_fields.items():
        default = "" if field.is_required() else f" = {_default(field.get_default(call_default_factory=True))}"
        kind = _type(field.annotation).replace("str", "str | Path" if is_path(field) else "str")
        given.append(f"        {name}: {kind}{default},")
    head = ["        self,", "        *,", *given] if given else ["        self,"]
    return [*lines, "    def __init__(", *head, "    ) -> None: ..."]


def _type(annotation: Any) -> str:
    """Write a type as it may be given: a tuple as any sequence, what is made from plain data as anything."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, inner))}]"
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(_type(one) for one in inner))
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        return f"Sequence[{_type(inner[0])}]"
    if origin in (Mapping, Sequence, dict):
        whole = "Sequence" if origin is Sequence else "Mapping"
        return f"{whole}[{', '.join(_type(one) for one in inner)}]"
    return "Any"


def _default(value: object) -> str:
    return repr(value) if value is None or value == () or isinstance(value, bool | int | float | str) else "..."


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
    sys.stdout.write(f"wrote {STUB.name}\n")
