"""The columns that a plan names, in every section and part, against those that the data has: before any work is done.

Which fields of a part name columns is read off their types and names: fields of the type `Columns` (at any depth),
fields of one name such as `column` and `target`, and mappings from columns such as `levels`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel

from discretion.data.documents import Origin, Place
from discretion.data.rules import read_edit_rules
from discretion.errors import PlanError, unknown
from discretion.part import Columns, Part

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from discretion.method import Method
    from discretion.release.plan import Plan, Requirement, Shown

ONE_COLUMN = ("column", "target", "household", "weight", "sort_by", "id", "person")
"""Fields whose value is the name of one column."""
BY_COLUMN = (
    "levels",
    "coarser",
    "importance",
    "linked",
    "lower",
    "upper",
    "matrix",
    "answers",
    "weights",
    "domain",
    "grid",
    "points",
    "summarize",
)
"""Fields that are mappings from columns."""
TO_COLUMN = ("names",)
"""Fields that are mappings to columns."""
SCHEMA_SECTIONS = ("roles", "types", "hierarchies", "missing_codes", "orders")
"""Sections of a plan that are mappings from columns."""
_ALL_COLUMNS = "*"
_OWN = __name__.partition(".")[0]


@dataclass(frozen=True)
class Named:
    """A column that a part names, and where in the part."""

    place: Place
    column: str
    listed: bool = False
    """stands in a list of columns of the part itself, all of which the release must have"""


@dataclass
class _Present:
    """The columns at one point of a plan."""

    columns: list[str]
    taken_out: dict[str, str] = field(default_factory=dict)
    """columns of the original that a step took out, and which step"""
    certain: bool = True
    """no method of another package ran so far: what it does to the columns only the run can tell"""


def check_columns(plan: Plan, columns: Sequence[str]) -> None:
    """Refuse a plan that names columns that are not there; every fault at once."""
    if problems := column_faults(plan, columns):
        raise PlanError(problems)


def column_faults(plan: Plan, columns: Sequence[str]) -> list[str]:
    """Word every fault: where the plan names a column that the data does not have at that point, and the nearest."""
    found = list(_schema_faults(plan, columns))
    homes = any("household" in column.roles for column in plan.schema.columns.values())
    present = _Present(list(columns))
    for number, step in enumerate(plan.steps):
        origin = step.origin or Origin(place=("steps", number))
        found += _part_faults(step.method, origin, present, homes)
        found += _importance_faults(step.method, origin, present, plan)
        present = _after(step.method, present, f"step {number + 1} ({step.method.kind})", plan)
    judged: dict[str, Sequence[Shown | Requirement]] = {"measures": plan.measures, "requirements": plan.requirements}
    for section, items in judged.items():
        for number, item in enumerate(items):
            origin = item.origin or Origin(place=(section, number))
            found += _part_faults(item.part, origin, present, homes, measured=True)
            lacks = getattr(item.part, "lacks_people_outside", "")
            if lacks and not plan.tune and not any(step.method.makes_rows for step in plan.steps):
                found.append(f"{origin.where(item.part.kind)}: {lacks}")
    return list(dict.fromkeys([*found, *_tune_faults(plan, present, homes)]))


def named_columns(part: BaseModel) -> Iterator[Named]:
    """Name every column that the fields of a part name, also in the parts inside; defaults are no names."""
    for name, info in type(part).model_fields.items():
        yield from _in_field(info.alias or name, name, info, getattr(part, name))


# --- inside a part -----------------------------------------------------------------------------------------------


def _in_field(written: str, name: str, info: FieldInfo, value: Any) -> Iterator[Named]:
    if isinstance(value, BaseModel):
        yield from _inside(value, (written,))
    elif isinstance(value, tuple) and any(isinstance(one, BaseModel) for one in value):
        for number, one in enumerate(value):
            yield from _inside(one, (written, number))
    elif isinstance(value, Mapping) and name in BY_COLUMN:
        for column, inner in value.items():
            if column != _ALL_COLUMNS:
                yield Named((written, str(column)), str(column))
            if has_columns(info):
                yield from (Named((written, str(column), i), one) for i, one in enumerate(inner))
    elif isinstance(value, Mapping) and name in TO_COLUMN:
        yield from (Named((written, str(key)), str(column)) for key, column in value.items())
    elif isinstance(value, str) and value and name in ONE_COLUMN:
        yield Named((written,), value)
    elif isinstance(value, tuple) and has_columns(info):
        yield from _listed((written,), value)


def _inside(inner: BaseModel, place: Place) -> Iterator[Named]:
    """Look into a part (or a group of fields) that a field holds; a part is written below its kind."""
    kind = inner.kind if isinstance(inner, Part) else ""
    for one in named_columns(inner):
        yield Named((*place, *((kind,) if kind else ()), *one.place), one.column)


def _listed(place: Place, value: Iterable[Any]) -> Iterator[Named]:
    for number, one in enumerate(value):
        if isinstance(one, str):
            yield Named((*place, number), one, listed=True)
        else:
            yield from _listed((*place, number), one)


def has_columns(info: FieldInfo) -> bool:
    """Tell whether a field holds names of the type `Columns`, at any depth."""
    return get_args(Columns)[1] in info.metadata or _holds(info.annotation, Columns)


def _holds(annotation: object, wanted: object) -> bool:
    return annotation == wanted or any(_holds(inner, wanted) for inner in get_args(annotation))


# --- against the data --------------------------------------------------------------------------------------------


def _schema_faults(plan: Plan, columns: Sequence[str]) -> Iterator[str]:
    lacking = [name for name in plan.schema.columns if name not in columns]
    placed: set[str] = set()
    for section in SCHEMA_SECTIONS:
        written = plan.text.content.get(section)
        for name in written if isinstance(written, Mapping) else ():
            if str(name) in lacking:
                placed.add(str(name))
                yield f"{plan.text.where(section, str(name))}: {unknown('column', str(name), columns)}"
    yield from (unknown("column", name, columns) for name in lacking if name not in placed)
    for number, rule in enumerate(read_edit_rules(plan.schema.edit_rules) if plan.schema.edit_rules else ()):
        for name in sorted(rule.columns - {*columns}):
            where = plan.text.where("edit_rules", number)
            yield f"{where}: the edit rule {rule.text!r}: {unknown('column', name, columns)}"
    yield from confirmed_faults(plan, columns)


def confirmed_faults(plan: Plan, columns: Sequence[str]) -> Iterator[str]:
    """Word what is wrong with `confirmed_other`: a column that is not there, or that has another role."""
    for number, name in enumerate(plan.confirmed_other):
        where = plan.text.where("confirmed_other", number)
        roles = plan.schema[name].roles
        if name not in columns:
            yield f"{where}: {unknown('column', name, columns)}"
        elif roles != ("other",):
            yield f"{where}: column {name!r} has the role {', '.join(roles)}; only the role `other` is confirmed here"


def unknown_telling(plan: Plan, columns: Sequence[str]) -> Iterator[str]:
    """Word which columns of `confirmed_telling` are not there."""
    for number, name in enumerate(plan.confirmed_telling):
        if name not in columns:
            yield f"{plan.text.where('confirmed_telling', number)}: {unknown('column', name, columns)}"


def _part_faults(
    part: Part, origin: Origin, present: _Present, homes: bool, *, measured: bool = False
) -> Iterator[str]:
    """Word the faults of one part; `measured`: it may look at the original, which has what steps took out."""
    for one in named_columns(part):
        if one.column in present.columns or (one.place[0] == "by" and one.column == "household" and homes):
            continue
        if one.place[-1] == "person" and one.column in present.taken_out:
            continue  # looked up in the original
        where = origin.where(part.kind, *one.place)
        if one.column in present.taken_out:
            if one.listed or not measured:
                yield f"{where}: column {one.column!r} was taken out by {present.taken_out[one.column]}"
        elif present.certain:
            yield f"{where}: {unknown('column', one.column, present.columns)}"


def _importance_faults(part: Part, origin: Origin, present: _Present, plan: Plan) -> Iterator[str]:
    """Word which columns a search is told the importance of although it does not search over them."""
    weights, models = getattr(part, "importance", None), getattr(part, "models", ())
    named = [*getattr(part, "columns", ()), *(name for model in models for name in getattr(model, "columns", ()))]
    searched = named or [name for name in plan.schema.having("quasi") if name in present.columns]
    if not weights or not models or not searched:
        return
    for name in weights:
        if name in present.columns and name not in searched:
            where = origin.where(part.kind, "importance", name)
            yield f"{where}: column {name!r} is not among the columns of the search ({', '.join(searched)})"


def _after(method: Method, present: _Present, step: str, plan: Plan) -> _Present:
    """Give the columns after a step, as far as that can be told without running it."""
    certain = present.certain and type(method).__module__.partition(".")[0] == _OWN
    gone = {*method.removes(plan.schema)} & {*present.columns}
    kept = [name for name in present.columns if name not in gone]
    return _Present(kept, {**present.taken_out, **dict.fromkeys(gone, step)}, certain)


def _tune_faults(plan: Plan, present: _Present, homes: bool) -> Iterator[str]:
    from discretion.release.tune_scales import take_measures
    from discretion.release.tune_space import settings_of

    if not plan.tune:
        return
    methods, found = plan.tune["methods"], []
    for setting in settings_of(methods):
        now, several = present, isinstance(methods[setting.entry], list)
        for number, method in enumerate(setting.methods):
            place: Place = ("tune", "methods", setting.entry, *((number,) if several else ()))
            faults = _part_faults(method, Origin(plan.text, place), now, homes)
            found += [((setting.entry, number), fault) for fault in faults]
            now = _after(method, now, f"step {number + 1} ({method.kind}) of that setting", plan)
    yield from (fault for _, fault in sorted(found, key=lambda one: one[0]))
    for family in ("risk", "utility"):
        given = plan.tune.get(family)
        for number, measure in enumerate(take_measures(given, family) if given is not None else ()):
            place = ("tune", family, *((number,) if isinstance(given, list) else ()))
            yield from _part_faults(measure, Origin(plan.text, place), present, homes, measured=True)
