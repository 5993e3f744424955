"""Which of two demands is stricter. What cannot be compared counts as weaker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, Protocol

from discretion.data.schema import Role, Schema
from discretion.part import Part

Stricter = Literal["larger", "smaller"]


class Demanded(Protocol):
    """What a plan or a policy requires: a part, with bounds if it is a measure."""

    @property
    def part(self) -> Part:
        """The model, measure or rule."""

    @property
    def at_most(self) -> float | None:
        """The largest allowed figure."""

    @property
    def at_least(self) -> float | None:
        """The smallest allowed figure."""


@dataclass(frozen=True)
class Demand:
    """One demand of a policy."""

    part: Part
    at_most: float | None = None
    at_least: float | None = None

    def to_plan(self) -> dict[str, Any]:
        """Give it as a plan writes a requirement."""
        bounds = {"at_most": self.at_most, "at_least": self.at_least}
        return {self.part.kind: {**self.part.settings(), **{k: v for k, v in bounds.items() if v is not None}}}


_NUMBERS: Mapping[str, Mapping[str, Stricter]] = MappingProxyType({
    "k-anonymity": {"k": "larger"},
    "household-k-anonymity": {"k": "larger"},
    "k-map": {"k": "larger"},
    "km-anonymity": {"k": "larger", "m": "larger"},
    "distinct-l-diversity": {"l": "larger"},
    "entropy-l-diversity": {"l": "larger"},
    "estimated-entropy-l-diversity": {"l": "larger"},
    "recursive-l-diversity": {"l": "larger", "c": "smaller"},
    "t-closeness": {"t": "smaller"},
    "beta-likeness": {"beta": "smaller"},
    "delta-disclosure": {"delta": "smaller"},
    "alpha-k": {"alpha": "smaller", "k": "larger"},
    "p-sensitive": {"p": "larger", "k": "larger"},
    "average-risk": {"risk": "smaller"},
    "sample-uniqueness-bound": {"share": "smaller"},
    "population-uniqueness-bound": {"share": "smaller"},
    "delta-presence": {"delta_min": "larger", "delta_max": "smaller"},
    "interval-protection": {"percent": "larger", "share": "smaller"},
    "reidentification-bound": {"at_most": "smaller"},
    "detail-limits": {
        "max_columns": "smaller",
        "min_category_size": "larger",
        "max_areas": "smaller",
        "min_area_population": "larger",
    },
    "threshold": {"minimum": "larger", "range_percent": "larger"},
    "p-percent": {"percent": "larger", "coalition": "larger"},
    "pq": {"p_percent": "larger", "q_percent": "smaller", "coalition": "larger"},
    "dominance": {"n": "larger", "percent": "smaller"},
    "k-disclosure": {"coalition": "larger"},
    "special-rule": {"range_percent": "larger"},
})  # fmt: skip
"""Fields whose size orders a part from weak to strict, all others being equal."""

_OPTIONS: Mapping[tuple[str, str], tuple[str, ...]] = MappingProxyType({
    ("k-anonymity", "count"): ("units", "records"),  # a class has at most as many units as records
    ("alpha-k", "count"): ("units", "records"),
    ("p-sensitive", "count"): ("units", "records"),
    ("threshold", "zeros"): ("sensitive", "safe"),
    ("dominance", "boundary"): ("sensitive", "safe"),
    ("delta-disclosure", "absent"): ("fail", "ignore"),
})  # fmt: skip
"""Options from the strictest on."""

_ROLE_OF: Mapping[str, Role] = MappingProxyType(
    {"columns": "quasi", "sensitive": "sensitive", "geography": "geography"}
)
"""The columns that a field means where it names none."""


def same_subject(own: Demanded, demanded: Demanded) -> bool:
    """Tell whether two demands are on the same thing, so that one is a stronger or weaker form of the other."""
    if own.part.kind == demanded.part.kind == "detail-limits":
        limits = _NUMBERS["detail-limits"]
        return any(getattr(own.part, name) is not None and getattr(demanded.part, name) is not None for name in limits)
    inner = [getattr(one.part, "measure", None) for one in (own, demanded)]
    kinds = {getattr(part, "kind", None) for part in inner}
    return own.part.kind == demanded.part.kind and len(kinds) == 1


def shortfall(own: Demanded, demanded: Demanded, schema: Schema | None = None) -> list[str]:
    """Say in what a demand is weaker than another one of its kind; nothing where it is at least as strict.

    `schema` says which columns a demand is on that names none; without it only equal names are comparable.
    """
    kind = demanded.part.kind
    if own.part.kind != kind:
        return [f"{own.part.kind} says nothing about {kind}"]
    found = []
    for name in type(demanded.part).model_fields:
        mine, theirs = getattr(own.part, name), getattr(demanded.part, name)
        if mine != theirs and (text := _field(own.part, demanded.part, name, schema)):
            found.append(text)
    for name, bound, asked in (
        ("at_most", own.at_most, demanded.at_most),
        ("at_least", own.at_least, demanded.at_least),
    ):
        if asked is not None and (bound is None or (bound > asked if name == "at_most" else bound < asked)):
            found.append(f"`{name}` is {_shown(bound)}, {asked:g} is demanded")
    return found


def narrower(own: Demanded, demanded: Demanded, schema: Schema | None = None) -> tuple[str, ...]:
    """Give the sensitive columns of a demand that is strict enough but names some only; empty where it is not.

    Sensitive columns must satisfy a model one by one, so that lines for single columns add up, and such a line beside
    the demand for all of them asks for more.
    """
    if own.part.kind != demanded.part.kind or "sensitive" not in type(own.part).model_fields:
        return ()
    theirs: tuple[str, ...] = getattr(demanded.part, "sensitive")  # noqa: B009 - a field of some parts
    widened = Demand(own.part.model_copy(update={"sensitive": theirs}), own.at_most, own.at_least)
    return () if shortfall(widened, demanded, schema) else _named(own.part, "sensitive", schema) or ()


def _field(own: Part, demanded: Part, name: str, schema: Schema | None) -> str:
    mine, theirs = getattr(own, name), getattr(demanded, name)
    order = _NUMBERS.get(own.kind, {}).get(name)
    if order is not None:
        return "" if as_strict(mine, theirs, order) else f"`{name}` is {_shown(mine)}, {_shown(theirs)} is demanded"
    options = _OPTIONS.get((own.kind, name), ())
    if mine in options and theirs in options:
        weaker = options.index(mine) > options.index(theirs)
        return f"`{name}` is {mine}, {theirs} is demanded" if weaker else ""
    if name == "knows_method":
        return "" if mine is True or theirs is False else "`knows_method` is false"
    if name == "intruder" and mine.model_copy(update={"knows_method": theirs.knows_method}) == theirs:
        return _field(mine, theirs, "knows_method", schema)
    if name == "missing":
        return "" if _stricter_missing(own, demanded) else f"`missing` is {mine}, {theirs} is demanded"
    if name in _ROLE_OF:
        return _columns(own, demanded, name, schema)
    return f"`{name}` is {_shown(mine)}, {_shown(theirs)} is demanded, and the two cannot be compared"


def as_strict(mine: float | None, theirs: float | None, order: Stricter) -> bool:
    """Tell whether a number is at least as strict as another one; none at all is no limit."""
    if theirs is None or mine is None:
        return theirs is None
    return mine >= theirs if order == "larger" else mine <= theirs


def _stricter_missing(own: Part, demanded: Part) -> bool:
    """Of k-anonymity, classes by a category of its own are those of the other readings, or smaller."""
    return (
        own.kind == "k-anonymity"
        and getattr(own, "missing", None) == "category"
        and getattr(demanded, "alpha", None) == 1
    )


def _columns(own: Part, demanded: Part, name: str, schema: Schema | None) -> str:
    mine, theirs = (_named(part, name, schema) for part in (own, demanded))
    lacking = None if mine is None or theirs is None else [one for one in theirs if one not in mine]
    if lacking == [] and _more_is_stricter(own, demanded, name):
        return ""
    if mine is not None and theirs is not None and set(mine) == set(theirs):
        return ""
    if lacking:
        return f"`{name}` lacks {', '.join(lacking)}"
    return f"`{name}` names others than demanded, and the two cannot be compared"


def _named(part: Part, name: str, schema: Schema | None) -> tuple[str, ...] | None:
    """Give the columns of a field; None where it means all of a role and nobody says which those are."""
    given: tuple[str, ...] = getattr(part, name) or ()
    if given or schema is None:
        return given or None
    return schema.having(_ROLE_OF[name])


def _more_is_stricter(own: Part, demanded: Part, name: str) -> bool:
    """Tell whether what holds for more columns holds for fewer.

    Sensitive columns must satisfy a model one by one. Fewer quasi-identifiers merge classes: models say whether they
    survive that, and only if every record counts (a record left out for a missing value would come back).
    """
    if name == "sensitive" or own.kind in ("group-disclosure", "k-disclosure", "interval-protection"):
        return True
    if name == "geography":
        return own.kind == "detail-limits"
    if own.kind == "detail-limits":
        return True
    readings = {getattr(part, "missing", "category") for part in (own, demanded)}
    merges = getattr(own, "monotone_without_suppression", False) is True or own.kind == "household-k-anonymity"
    return merges and "ignore" not in readings


def _shown(value: Any) -> str:
    if value is None:
        return "not given"
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
