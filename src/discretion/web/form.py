"""Forms out of parts: one tree of fields from the JSON schema of a part, and what was typed back into its settings.

No method has a page of its own: labels and help are the docstrings of the fields, columns are chosen among those that
the data has, and parts inside parts are forms inside forms. What no field fits is written as YAML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from discretion.data.documents import yaml_value
from discretion.errors import PlanError
from discretion.part import Family, find, holds_parts, index, is_confidential
from discretion.release.plan_columns import BY_COLUMN, ONE_COLUMN, has_columns
from discretion.release.report.wording import title_of

Control = Literal[
    "choice", "number", "integer", "flag", "text", "scalar", "column", "columns", "list", "map", "group", "part",
    "parts", "words", "pair", "yaml",
]  # fmt: skip
Typed = Mapping[str, Sequence[str]]
"""What stands in the fields of a form, by their names."""

_FIRST = (
    "column", "columns", "k", "l", "t", "models", "percent", "levels", "variance_share", "sd_share", "share", "at",
    "quantile", "keep_share", "suppression_limit", "geography", "epsilon", "method", "measure", "at_most", "cuts",
    "width", "base",
)  # fmt: skip
"""Fields that stand before the further options, though they need not be given."""
_FAMILIES: Mapping[str, tuple[Family, ...]] = {
    "models": ("model",), "method": ("method",), "generator": ("method",), "measure": ("risk",),
}  # fmt: skip


@dataclass(frozen=True)
class FormField:
    """One field of a form, with those inside it."""

    control: Control
    name: str = ""
    help: str = ""
    required: bool = False
    default: Any = None
    confidential: bool = False
    options: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    inner: tuple[FormField, ...] = field(default=())
    """of a list its entry, of a map its value, of a group its fields"""

    @property
    def label(self) -> str:
        """What stands above the field."""
        return title_of(self.name.replace("_", "-")) if len(self.name) > 1 else self.name

    @property
    def is_first(self) -> bool:
        """Whether it stands in sight, and not under further options."""
        return self.required or self.name in _FIRST


@cache
def fields_of(kind: str) -> tuple[FormField, ...]:
    """Give the form of a part: what is required first, then what is usual."""
    part = find(kind)
    schema = part.model_json_schema()
    found = []
    for name, info in part.model_fields.items():
        spec = schema["properties"][info.alias or name]
        made = _field(name, spec, schema.get("$defs", {}))
        if holds_parts(info) or name == "generator":
            several = spec.get("type") == "array"
            options = kinds_of(*_FAMILIES.get(name, ("model", "risk")))
            made = FormField("parts" if several else "part", name, options=options)
        elif made.control == "columns" and not has_columns(info):
            made = replace(made, control="list", inner=(FormField("text"),))
        default = spec.get("default")
        found.append(
            replace(
                made,
                help=" ".join(part.about(name).split()),
                required=info.is_required(),
                default=None if default in ([], {}, "") else default,
                confidential=is_confidential(info),
            )
        )
    place = {name: number for number, name in enumerate(_FIRST)}
    return tuple(sorted(found, key=lambda one: (not one.is_first, not one.required, place.get(one.name, len(place)))))


@cache
def kinds_of(*families: Family) -> tuple[str, ...]:
    """Name the parts of some families; those of other packages too, whose family is known when they are loaded."""
    return tuple(
        kind for kind, entry in index().items() if (entry.family if entry.family else find(kind).family) in families
    )


def _field(name: str, spec: Mapping[str, Any], defs: Mapping[str, Any]) -> FormField:
    if "$ref" in spec:
        spec = {**defs[spec["$ref"].rpartition("/")[2]], **{key: spec[key] for key in ("description",) if key in spec}}
    if "anyOf" in spec:
        return _either(name, spec, defs)
    help_ = " ".join(str(spec.get("description", "")).split())
    low, high = (spec.get(one, spec.get(other)) for one, other in _BOUNDS)
    made = FormField("yaml", name, help_, low=low, high=high)
    kind = spec.get("type")
    if "enum" in spec:
        return replace(made, control="choice", options=tuple(str(option) for option in spec["enum"]))
    if kind in ("number", "integer"):
        return replace(made, control=kind)
    if kind == "boolean":
        return replace(made, control="flag")
    if kind == "string":
        return replace(made, control="column" if name in ONE_COLUMN else "text")
    if kind == "array" and len(spec.get("prefixItems", ())) == 2:
        return replace(made, control="pair")
    if kind == "array" and isinstance(spec.get("items"), Mapping):
        return _array(made, spec, defs)
    if kind == "object" and isinstance(spec.get("additionalProperties"), Mapping):
        inner = _field("", spec["additionalProperties"], defs)
        if inner.control in ("columns", "list") and name != "linked":
            inner = replace(inner, control="words")
        if inner.control not in ("yaml", "map", "parts", "part"):
            return replace(made, control="map", inner=(inner,), options=("columns",) if name in BY_COLUMN else ())
    if kind == "object" and "properties" in spec:
        inside = tuple(
            replace(_field(key, one, defs), required=key in spec.get("required", ()))
            for key, one in spec["properties"].items()
        )
        return replace(made, control="group", inner=inside)
    return made


_BOUNDS = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))


def _array(made: FormField, spec: Mapping[str, Any], defs: Mapping[str, Any]) -> FormField:
    inner = _field("", spec["items"], defs)
    if inner.control == "text":
        return replace(made, control="columns")
    if inner.control in ("yaml", "map"):
        return made
    return replace(made, control="list", inner=(inner,))


def _either(name: str, spec: Mapping[str, Any], defs: Mapping[str, Any]) -> FormField:
    """Take what a field that may stay empty would hold; of several simple kinds, text that is read as YAML reads it."""
    kept = [one for one in spec["anyOf"] if one.get("type") != "null"]
    beside = {key: value for key, value in spec.items() if key != "anyOf"}
    if len(kept) == 1:
        return _field(name, {**beside, **kept[0]}, defs)
    simple = all(one.get("type") in ("string", "number", "integer", "boolean") or "const" in one for one in kept)
    choices = [option for one in kept for option in one.get("enum", [one["const"]] if "const" in one else [])]
    help_ = " ".join(str(spec.get("description", "")).split())
    if choices and all("enum" in one or "const" in one for one in kept):
        return FormField("choice", name, help_, options=tuple(str(option) for option in choices))
    texts = any(one.get("type") == "string" for one in kept)
    return FormField("scalar" if simple or texts else "yaml", name, help_)


# --- what was typed ----------------------------------------------------------------------------------------------


def settings_of(kind: str, typed: Typed, prefix: str = "") -> dict[str, Any]:
    """Give the settings of a part that stand in a form; an empty field is left out, so that the default holds."""
    return _group(fields_of(kind), typed, prefix)


def _group(fields: Sequence[FormField], typed: Typed, prefix: str) -> dict[str, Any]:
    found = {one.name: value_of(one, typed, f"{prefix}{one.name}") for one in fields}
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


def value_of(one: FormField, typed: Typed, at: str) -> Any:
    """Give what stands in one field, with those inside it; None where it is empty."""
    control = one.control
    here = [text.strip() for text in typed.get(at, ())]
    if control == "columns":
        return [text for text in here if text]
    if control == "group":
        return _group(one.inner, typed, f"{at}.")
    if control == "part":
        return _part(typed, at)
    if control in ("list", "map", "parts"):
        return _rows(one, typed, at)
    text = here[-1] if here else ""
    if control == "pair":
        ends = [_yaml(one, at) if one else None for one in here]
        return ends if any(one is not None for one in ends) else None
    if control == "words":
        return [_yaml(word.strip(), at) for word in text.split(",") if word.strip()]
    if control == "flag":
        given = bool(text)
        return None if given == bool(one.default) or (not here and f"{at}:there" not in typed) else given
    if not text:
        return None
    if control in ("number", "integer", "scalar", "yaml"):
        return _yaml(text, at)
    return text


def _yaml(text: str, at: str) -> Any:
    try:
        return yaml_value(text)
    except PlanError:
        raise PlanError(f"{at}: this is not valid YAML", [tuple(at.split("."))]) from None


def rows_of(typed: Typed, at: str) -> list[int]:
    """Give the numbers of the rows of a list that stand in a form."""
    begins = re.compile(re.escape(at) + r"\.(\d+)(?:\.|$)")
    return sorted({int(match[1]) for name in typed if (match := begins.match(name))})


def _rows(one: FormField, typed: Typed, at: str) -> Any:
    numbers = rows_of(typed, at)
    if one.control == "map":
        pairs = [
            (next(iter(typed.get(f"{at}.{n}.key", ("",)))), value_of(one.inner[0], typed, f"{at}.{n}.value"))
            for n in numbers
        ]
        return {key: value for key, value in pairs if key and value not in (None, "", [])}
    if one.control == "parts":
        found = [_part(typed, f"{at}.{n}") for n in numbers]
    else:
        found = [value_of(one.inner[0], typed, f"{at}.{n}") for n in numbers]
    return [value for value in found if value not in (None, "", {}, [])]


def _part(typed: Typed, at: str) -> dict[str, Any] | None:
    kind = next(iter(typed.get(f"{at}.kind", ("",))), "")
    return {kind: settings_of(kind, typed, f"{at}.")} if kind in index() else None


def typed_of(kind: str, settings: Mapping[str, Any], prefix: str = "") -> dict[str, list[str]]:
    """Give what would stand in a form with these settings: the other way round, to change a step."""
    found: dict[str, list[str]] = {}
    for one in fields_of(kind):
        if one.name in settings:
            _typed(one, settings[one.name], f"{prefix}{one.name}", found)
    return found


def _typed(one: FormField, value: Any, at: str, found: dict[str, list[str]]) -> None:  # noqa: PLR0912
    from discretion.data.documents import to_yaml

    if one.control == "columns":
        found[at] = [value] if isinstance(value, str) else [str(item) for item in value]
    elif one.control == "pair":
        found[at] = ["" if item is None else str(item) for item in value]
    elif one.control == "words":
        found[at] = [", ".join(map(str, value))]
    elif one.control == "flag":
        found[f"{at}:there"] = ["1"]
        found[at] = ["1"] if value else []
    elif one.control == "group":
        for inner in one.inner:
            if isinstance(value, Mapping) and inner.name in value:
                _typed(inner, value[inner.name], f"{at}.{inner.name}", found)
    elif one.control in ("part", "parts"):
        several = value if isinstance(value, list) else [value]
        for number, spec in enumerate(several):
            kind, fields = (spec, {}) if isinstance(spec, str) else next(iter(spec.items()))
            place = at if one.control == "part" else f"{at}.{number}"
            found[f"{place}.kind"] = [kind]
            found.update(typed_of(kind, fields or {}, f"{place}."))
    elif one.control == "map":
        for number, (key, item) in enumerate(value.items()):
            found[f"{at}.{number}.key"] = [str(key)]
            _typed(one.inner[0], item, f"{at}.{number}.value", found)
    elif one.control == "list":
        for number, item in enumerate(value):
            _typed(one.inner[0], item, f"{at}.{number}", found)
    elif one.control == "yaml" and isinstance(value, Mapping | list):
        found[at] = [to_yaml(value).strip() if isinstance(value, Mapping) else str(value)]
    else:
        found[at] = [str(value)]


def is_used(one: FormField, given: Typed, at: str) -> bool:
    """Tell whether something else than its default stands in a field, or in those inside it."""
    if one.control == "flag":
        return f"{at}:there" in given and bool(given.get(at)) != bool(one.default)
    usual = ("", "" if one.default is None else str(one.default))
    return any(
        any(text not in usual for text in texts)
        for name, texts in given.items()
        if name == at or (name.startswith(f"{at}.") and not name.endswith(":there"))
    )


def faults_of(error: PlanError, kind: str) -> tuple[dict[str, str], list[str]]:
    """Give what is wrong beside each field, and what belongs to none."""
    beside: dict[str, str] = {}
    rest: list[str] = []
    names = {one.name for one in fields_of(kind)}
    for text, place in zip(error.problems, [*error.places, *[()] * len(error.problems)], strict=False):
        said = text.removeprefix(f"{kind}: ")
        if place and str(place[0]) in names:
            name = str(place[0])
            said = said.removeprefix(f"{'.'.join(map(str, place))}: ")
            beside[name] = f"{beside[name]}; {said}" if name in beside else said
        else:
            rest.append(said)
    return beside, rest
