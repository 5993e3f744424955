"""Numbers, names and settings in the words of the report."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from pydantic.fields import FieldInfo

from discretion.data.hierarchy import Hierarchy
from discretion.part import Part, is_confidential, is_path

WITHHELD = "withheld"
NOTHING = "–"
_NOUGHT = 1e-12
"""Shares below are the errors of floating-point numbers."""


def count(value: int) -> str:
    """Write a whole number with thousands separators."""
    return f"{value:,}"


def counted(value: int, noun: str, plural: str = "") -> str:
    """Write a number of things: `1 record`, `5,000 records`."""
    return f"{count(value)} {noun if value == 1 else plural or noun + 's'}"


def number(value: float | None, digits: int = 3) -> str:
    """Write a number with at most `digits` significant digits (four above a thousand), never in powers of ten."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    places = max(digits, 4 if size >= 3 else digits) - 1 - size
    text = f"{round(value, places):,.{max(places, 0)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")


def percent(share: float | None) -> str:
    """Write a share of one as a percentage."""
    if share is None or not math.isfinite(share):
        return NOTHING
    return "0%" if abs(share) < _NOUGHT else f"{number(100 * share)}%"


def figure(value: float | None, limits: tuple[float | None, float | None]) -> str:
    """Write a score: a percentage where the measure runs from 0 to 1."""
    return percent(value) if limits == (0.0, 1.0) else number(value)


def title_of(kind: str) -> str:
    """Turn the kind of a part into a heading: `rank-swap` becomes `Rank swap`; `k-anonymity` stays as it is."""
    special = {
        "il1s": "IL1s", "mse": "MSE", "mae": "MAE", "mre": "MRE", "sse": "SSE", "mdav": "MDAV", "iloss": "ILoss",
        "pram": "PRAM", "suda": "SUDA", "pq": "p/q rule", "km-anonymity": "km-anonymity", "alpha-k": "(α, k)-anonymity",
    }  # fmt: skip
    if kind in special:
        return special[kind]
    if re.match(r"[a-z]-", kind):
        return kind
    return (kind[:1].upper() + kind[1:]).replace("-", " ")


def plain_summary(measure: Part) -> str:
    """Say what a measure is; where it counts values as close, how close."""
    near = getattr(measure, "sd_share", None) if measure.kind == "interval-risk" else None
    beside = "" if near is None else f" Close: nearer than {percent(near)} of the column's usual spread."
    return measure.summary() + beside


def plain(text: str) -> str:
    """Take the code marks out of a docstring sentence."""
    return re.sub(r"[`*]", "", text)


def caveats(part: type[Part]) -> tuple[str, ...]:
    """Give the sentences of a part's documentation that say what it does not do."""
    text = re.split(r"\n\s*(?:References|Examples)\s*\n\s*-{3,}", part.documentation())[0]
    sentences = re.split(r"(?<=[.])\s+(?=[A-Z`])", " ".join(text.split()))
    return tuple(f"It does not {found[1]}" for s in sentences if (found := re.match(r"Does not (.*)", plain(s))))


def setting_text(value: Any, *, reveal: bool) -> str:
    """Write the value of a setting; parts inside it keep their confidential fields to themselves unless `reveal`."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.10g}"
    if isinstance(value, str):
        return value
    if isinstance(value, Part):
        return _part_text(value, reveal)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {setting_text(item, reveal=reveal)}" for key, item in value.items()) or "not set"
    if isinstance(value, list | tuple):
        return ", ".join(setting_text(item, reveal=reveal) for item in value) or "not set"
    if isinstance(value, set | frozenset):
        return ", ".join(sorted(setting_text(item, reveal=reveal) for item in value)) or "not set"
    if isinstance(value, Hierarchy):
        return f"hierarchy ({file_name(getattr(value, 'source', '')) or value.rule})"
    return f"({type(value).__name__})"


def _part_text(part: Part, reveal: bool) -> str:
    shown = []
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        if not field.is_required() and value == field.get_default(call_default_factory=True):
            continue
        hidden = is_confidential(field) and not reveal
        is_file = is_path(field) and isinstance(value, str)
        text = file_name(value) if is_file else setting_text(value, reveal=reveal)
        shown.append(f"{name}: {WITHHELD if hidden else text}")
    return f"{title_of(part.kind)} ({'; '.join(shown)})" if shown else title_of(part.kind)


def file_name(path: str) -> str:
    """Give the last part of a path, whichever way its slashes lean."""
    return PurePath(path.replace("\\", "/")).name


def listed(names: Sequence[str], most: int = 8) -> str:
    """Name things in a row: `a, b and c`; of more than `most`, the first ones and how many more there are."""
    shown = list(names[:most])
    if len(names) > most:
        return f"{', '.join(shown)} and {counted(len(names) - most, 'more', 'more')}"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def of_people(share: float, who: str = "people") -> str:
    """Write a share as people of a hundred, a thousand, …: `76 of 100 people`, `4 of 10,000`; hardly a tenth off."""
    if share <= 0:
        return "nobody" if who == "people" else f"none of the {who}"
    if share >= 1:
        return "everybody" if who == "people" else f"all {who}"
    base = 100
    while base < 10**9 and not (round(share * base) < base and abs(round(share * base) / (share * base) - 1) <= 0.12):
        base *= 10
    return f"{round(share * base):,} of {base:,} {who}"


def shorten(text: str, width: int) -> str:
    """Cut a label that is too long for a picture."""
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"


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
