"""The settings of a method, measure or model, as the report shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo

from discretion.part import Part, is_confidential
from discretion.release.report.wording import WITHHELD, file_name, plain, setting_text


@dataclass(frozen=True)
class Setting:
    """One setting: its name, its value in words (or that it is withheld), what it means."""

    name: str
    value: str
    meaning: str
    withheld: bool = False


def settings_of(part: Part, *, internal: bool, publish: bool = False) -> tuple[Setting, ...]:
    """List the settings that differ from their defaults; the internal version lists all of them.

    Confidential ones are named and withheld from the public version, unless the plan publishes them.
    """
    shown = []
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        if not internal and not _was_chosen(field, value):
            continue
        if is_confidential(field) and not (internal or publish):
            shown.append(Setting(name, WITHHELD, plain(field.description or ""), withheld=True))
            continue
        text = _value_text(name, field, value, internal=internal, publish=publish)
        shown.append(Setting(name, text, plain(field.description or "")))
    return tuple(shown)


def withholds(part: Part, *, publish: bool = False) -> bool:
    """Tell whether a setting of this part is kept from the public."""
    return any(setting.withheld for setting in settings_of(part, internal=False, publish=publish))


def _was_chosen(field: FieldInfo, value: Any) -> bool:
    return field.is_required() or bool(value != field.get_default(call_default_factory=True))


def _value_text(name: str, field: FieldInfo, value: Any, *, internal: bool, publish: bool) -> str:
    if isinstance(value, str) and not internal and _is_path(name, field):
        return file_name(value)
    return setting_text(value, reveal=internal or publish)


def _is_path(name: str, field: FieldInfo) -> bool:
    extra = field.json_schema_extra
    marked = isinstance(extra, dict) and bool(extra.get("path"))
    return marked or name == "population" or name.endswith(("_file", "_path"))
