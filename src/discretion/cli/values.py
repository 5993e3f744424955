"""Values of options that are more than a word: YAML (of which JSON is a part), and `name=value`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from discretion.errors import PlanError


def structured(text: str, option: str) -> Any:
    """Read a list or a mapping as a plan writes it; an error names the option."""
    from discretion.data.documents import yaml_value

    try:
        return json.loads(text)
    except json.JSONDecodeError:
        pass
    try:
        return yaml_value(text)
    except ValueError as error:
        raise PlanError(f"{option}: not valid YAML or JSON: {text!r} ({error})") from None


def pairs_of(given: Sequence[str], option: str, shape: str) -> dict[str, Any]:
    """Read options of the form NAME=VALUE, or a mapping of them, into one mapping."""
    found: dict[str, Any] = {}
    for text in given:
        if text.lstrip().startswith("{"):
            pairs = structured(text, option)
            if not isinstance(pairs, dict):
                raise PlanError(f"{option} {text!r}: expected {shape}")
            found |= {str(name): value for name, value in pairs.items()}
            continue
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise PlanError(f"{option} {text!r}: expected {shape}")
        found[name.strip()] = value.strip()
    return found
