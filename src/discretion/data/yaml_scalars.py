"""How plans and service files read bare words and numbers: as in YAML 1.2, where `no` is text and `1e-3` is a number.

In YAML 1.1 `NO` (Norway) is false, `1:30` is ninety, `0123` is eighty-three and `1e-3` is text; none of this is
what somebody means who lists categories, postal codes and bounds. Dates stay text, as in JSON.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

_PREFIX = "tag:yaml.org,2002:"
_SCALARS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
)


class PlanLoader(yaml.SafeLoader):
    """Reads a plan or a service file."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - as in the base class


class PlanDumper(yaml.SafeDumper):
    """Writes a plan file so that it is read back the same, here and by readers of YAML 1.1."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:
        """Write lists of numbers on one line."""
        numbers = bool(sequence) and all(isinstance(item, int | float) for item in sequence)
        return super().represent_sequence(tag, sequence, flow_style or numbers or None)


for _name, _pattern, _first in _SCALARS:
    for _class in (PlanLoader, PlanDumper):
        _class.add_implicit_resolver(_PREFIX + _name, re.compile(rf"^(?:{_pattern})$"), _first)
