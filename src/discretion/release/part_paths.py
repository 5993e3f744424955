"""Paths inside the parts of a plan, at any depth: read relative to the plan's folder, written likewise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.data.population_classes import IN_MEMORY
from discretion.errors import PlanError
from discretion.part import Part, find, holds_parts, is_path

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Change = Callable[[str], str]


def resolve_path(base: Path, path: str) -> str:
    """Give a path relative to a folder; URLs, absolute paths and `-` (standard input) stay."""
    return path if "://" in path or path == "-" or Path(path).is_absolute() else str(base / path)


def map_paths(spec: Any, change: Change) -> Any:
    """Change every path in `{kind: {fields}}`, or a list of them, also in the parts that its fields hold.

    Anything else stays as it is.
    """
    if isinstance(spec, list):
        return [map_paths(one, change) for one in spec]
    if not isinstance(spec, Mapping) or len(spec) != 1:
        return spec
    ((kind, fields),) = spec.items()
    if not isinstance(fields, Mapping):
        return spec
    try:
        known = find(str(kind)).model_fields
    except PlanError:  # reported when the part is parsed
        return spec
    return {kind: {name: _map_field(known.get(str(name)), value, change) for name, value in fields.items()}}


def _map_field(field: FieldInfo | None, value: Any, change: Change) -> Any:
    if field is not None and is_path(field):
        return map_file(value, change)
    if field is not None and isinstance(field.annotation, type) and issubclass(field.annotation, Part):
        inside = field.annotation.model_fields
        fields = value.items() if isinstance(value, Mapping) else ()
        return {name: _map_field(inside.get(str(name)), one, change) for name, one in fields} or value
    if field is None or not holds_parts(field):
        return value
    return map_paths(value, change)


def map_file(spec: Any, change: Change) -> Any:
    """Change the path in a file's name, or in `{file: name}` and `{file: {path: name, …}}` (hierarchies)."""
    if isinstance(spec, str):
        return spec if spec == IN_MEMORY else change(spec)
    if not isinstance(spec, Mapping) or "file" not in spec:
        return spec
    file = spec["file"]
    if isinstance(file, str):
        return {**spec, "file": change(file)}
    if isinstance(file, Mapping) and isinstance(file.get("path"), str):
        return {**spec, "file": {**file, "path": change(file["path"])}}
    return spec
