"""The settings of a method, measure or model, as the report shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo

from discretion.part import Part, is_confidential, is_path
from discretion.release.report.wording import WITHHELD, file_name, plain, setting_text


@dataclass(frozen=True)
class ShownSetting:
    """One setting: its name, its value in words (or that it is withheld), what it means."""

    name: str
    value: str
    meaning: str
    withheld: bool = False


def settings_of(part: Part, *, internal: bool, publish: bool = False) -> tuple[ShownSetting, ...]:
    """List the settings that differ from their defaults; the internal version lists all of them.

    Confidential ones are named and withheld from the public version, unless the plan publishes them.
    """
    shown = []
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        if not internal and not _was_chosen(field, value):
            continue
        if is_confidential(field) and not (internal or publish):
            shown.append(ShownSetting(name, WITHHELD, plain(type(part).about(name)), withheld=True))
            continue
        text = _value_text(field, value, internal=internal, publish=publish)
        shown.append(ShownSetting(name, text, plain(type(part).about(name))))
    return tuple(shown)


def _was_chosen(field: FieldInfo, value: Any) -> bool:
    return field.is_required() or bool(value != field.get_default(call_default_factory=True))


def _value_text(field: FieldInfo, value: Any, *, internal: bool, publish: bool) -> str:
    if isinstance(value, str) and not internal and is_path(field):
        return file_name(value)
    return setting_text(value, reveal=internal or publish)
