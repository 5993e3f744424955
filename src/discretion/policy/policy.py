"""A release policy: scenario, requirements, limits, waivers and signatures; which of two demands is stricter."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Protocol, Self, get_args

from pydantic import Field, PrivateAttr, model_validator

from discretion.data.documents import Declared, Document, DocumentKind, Faults, Place, parse_yaml, read_document
from discretion.data.schema import Role, Schema
from discretion.errors import PlanError, did_you_mean, unknown
from discretion.part import Family, Part, find, parse

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


POLICY = DocumentKind("policy file", "a policy is a mapping with entries such as `scenario` and `requirements`")
Scenario = Literal["secure-centre", "scientific-file", "public-file", "research-output", "open-table"]
Rows = Literal["records", "synthetic"]
_OPENNESS = (("secure-centre", "scientific-file", "public-file"), ("research-output", "open-table"))
"""Scenarios that can be compared, from the most closed to the most open."""

SAFEGUARDS: Mapping[str, str] = {
    "steps": "a plan with `steps: none` publishes the original values",
    "row-order": "rows that keep the order of the file (`order: keep`) tell who stood where",
    "known-method": "with `knows_method: false` no attack is run by somebody who knows the steps",
    "confirmed-other": "`confirmed_other` lets columns out that look like something others know",
    "confirmed-telling": "`confirmed_telling` lets columns out that tell what was protected in another",
    "roles": "columns that look like something others know, and were given a role that no model counts",
    "edit-rules": "edit rules that the plan declares hold in the release as well as in the original",
    "previous": "earlier releases of the same people are attacked with their journals, and nothing is `accepted`",
    "withheld-parameters": "`publish: true` tells the public parameters that help an attacker",
    "small-seed": "a demonstration (`demo: true`) may draw from a small seed, which anybody can try",
    "marks": "cells of a table that are marked `safe` or `must-publish` escape its rules",
    "audit": "options of a table's audit may assume a weaker attacker",
}
"""What every policy demands beside its requirements; each can be waived under its name."""


class PolicyNumbers(Declared):
    """Limits that are numbers, each with its reason; `stricter` of a field says which way it protects more."""

    why: dict[str, str] = Field(default_factory=dict)
    """field → the reason for its number, with the source in words"""

    @model_validator(mode="after")
    def _reasons(self) -> Self:
        given = [name for name in self.limits() if getattr(self, name) is not None]
        faults: dict[Place, str] = {("why", name): f"gives a reason for nothing{did_you_mean(name, given)}"
                                    for name in self.why if name not in given}  # fmt: skip
        faults |= {(name,): f"a number of a policy needs its reason: write it under `why: {{{name}: …}}`"
                   for name in given if not self.why.get(name, "").strip()}  # fmt: skip
        if faults:
            raise Faults(faults)
        return self

    @classmethod
    def limits(cls) -> dict[str, Stricter]:
        """Give the fields that are limits, and which way each is stricter."""
        found: dict[str, Stricter] = {}
        for name, field in cls.model_fields.items():
            extra = field.json_schema_extra
            if isinstance(extra, dict) and extra.get("stricter") in get_args(Stricter):
                found[name] = "larger" if extra["stricter"] == "larger" else "smaller"
        return found

    def under(self, parent: PolicyNumbers) -> tuple[PolicyNumbers, dict[str, str]]:
        """Give these limits with those of a parent where they say nothing, and what is weaker than there."""
        merged, reasons, faults = dict[str, Any](), dict[str, str](), dict[str, str]()
        for name, order in self.limits().items():
            mine, theirs = getattr(self, name), getattr(parent, name)
            if mine is not None and not as_strict(mine, theirs, order):
                faults[name] = f"is weaker than that of the parent ({mine:g}, there {theirs:g})"
            source = parent if mine is None else self
            merged[name] = getattr(source, name)
            if merged[name] is not None:
                reasons[name] = source.why[name]
        return type(self)(why=reasons, **merged), faults


def limit(stricter: Stricter, default: Any = None, **constraints: Any) -> Any:
    """Declare a number of a policy; `stricter` says whether a larger or a smaller one protects more."""
    return Field(default, json_schema_extra={"stricter": stricter}, **constraints)


class GeographyLimits(PolicyNumbers):
    """How fine places may be; checked where a column has the role geography."""

    min_population: float | None = limit("larger", gt=0)
    """smallest population of a published area: the sum of the weights, or without weights the records"""
    max_areas: int | None = limit("smaller", ge=1)
    """largest number of areas in one column"""


class DetailAllowed(PolicyNumbers):
    """How detailed the other columns may be."""

    max_columns: int | None = limit("smaller", ge=1)
    """largest number of published columns"""
    min_category_size: int | None = limit("larger", ge=1)
    """smallest number of records in a category of a quasi-identifier"""


class OutputRules(PolicyNumbers):
    """Thresholds for the results that leave a research center."""

    min_count: int | None = limit("larger", ge=1)
    """smallest number of units behind a published figure"""
    dominance_n: int | None = limit("larger", ge=1)
    """how many of the largest contributions are taken together"""
    dominance_percent: float | None = limit("smaller", gt=0, le=100)
    """the percentage of a total that they must not reach"""
    p_percent: float | None = limit("larger", gt=0, le=100)
    """how closely, in percent, nobody may be able to estimate the largest contribution"""
    min_degrees_of_freedom: int | None = limit("larger", ge=1)
    """smallest number of residual degrees of freedom of a model"""
    max_group_percent: float | None = limit("smaller", gt=0, le=100)
    """largest percentage of the units of a row or column that one cell may hold"""


class PolicyRequirement(Declared):
    """A requirement as a plan writes it, with its reason and where it applies."""

    require: dict[str, Any]
    """kind → fields, with `at_most` or `at_least` for a measure; rules of tables too"""
    why: str = Field(min_length=1)
    """the reason for its numbers, with the source in words"""
    when: Role | None = None
    """only for data that has a column with this role"""
    rows: Rows | Literal["both"] = "both"
    """for rows of people, for synthetic ones, or for both"""

    _demand: Demand = PrivateAttr()

    @model_validator(mode="after")
    def _readable(self) -> Self:
        self._demand = _demand(self.require)
        return self

    @property
    def demand(self) -> Demand:
        """What has to hold."""
        return self._demand

    @property
    def name(self) -> str:
        """What a waiver calls it: its kind."""
        return self._demand.part.kind

    def applies(self, schema: Schema, rows: Rows) -> bool:
        """Tell whether it is asked of such data."""
        return self.rows in ("both", rows) and (self.when is None or bool(schema.having(self.when)))


def _demand(spec: Mapping[str, Any]) -> Demand:
    if len(spec) != 1:
        raise PlanError("expected one requirement, as a plan writes it: `k-anonymity: {k: 5}`")
    ((kind, fields),) = spec.items()
    fields = {} if fields is None else fields
    if not isinstance(fields, Mapping):
        raise PlanError(f"{kind}: expected a mapping of fields")
    part = find(str(kind))
    bounds = {key: fields[key] for key in ("at_most", "at_least") if key in fields and key not in part.model_fields}
    made = parse({kind: {key: value for key, value in fields.items() if key not in bounds}}, *_REQUIRED)
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in bounds.values()):
        raise PlanError(f"{kind}: a bound must be a number")
    if (made.family in ("risk", "utility")) != bool(bounds):
        needs = "needs `at_most` or `at_least`" if not bounds else "takes no `at_most` or `at_least`"
        raise PlanError(f"{kind} {needs}")
    return Demand(made, **bounds)


_REQUIRED: tuple[Family, ...] = ("model", "risk", "utility", "rule")


class SignedBy(Declared):
    """Who put the policy into force, and when."""

    by: str = Field(min_length=1)
    """name and function"""
    on: dt.date
    """day"""


class Waiver(Declared):
    """A requirement that a plan does not keep, who allowed that, and why."""

    requirement: str = Field(min_length=1)
    """the kind of the requirement, `geography`, `detail`, or one of the safeguards of every policy"""
    by: str = ""
    """who allowed it, as `NAME, FUNCTION`: the policy lists the function, or the person"""
    why: str = ""
    """the reason, for the journal and the report"""
    columns: tuple[str, ...] = ()
    """only for these columns, where the requirement is on single columns"""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        faults: dict[Place, str] = {}
        if not self.by.strip():
            faults["by",] = "a waiver needs the name of who allowed it (`by: NAME, FUNCTION`)"
        if not self.why.strip():
            faults["why",] = "a waiver needs its reason (`why`)"
        if faults:
            raise Faults(faults)
        return self

    @property
    def text(self) -> str:
        """Say it in a sentence."""
        of = f" for {', '.join(self.columns)}" if self.columns else ""
        return f"{self.requirement}{of} was waived by {self.by}: {self.why}"


class Policy(Declared):
    """What must hold before data of a scenario goes out. Load it by name or from a file; plans refer to it.

    Examples
    --------
    >>> import discretion as dc
    >>> policy = dc.Policy.load("public-use")
    >>> policy.scenario, policy.lineage
    ('public-file', ('public-use', 'scientific-use'))
    """

    title: str = ""
    """what it is called in reports"""
    scenario: Scenario
    """who gets the data: a secure center, researchers under contract, everybody; results of research; open tables"""
    extends: str | None = None
    """the parent: a shipped policy by its name, or a file; nothing here may be weaker than there"""
    requirements: tuple[PolicyRequirement, ...] = ()
    """what must hold, each with its reason"""
    geography: GeographyLimits | None = None
    """how fine places may be"""
    detail: DetailAllowed | None = None
    """how detailed other columns may be"""
    outputs: OutputRules | None = None
    """thresholds for results that leave a research center"""
    may_waive: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """requirement → functions, or people as `NAME, FUNCTION`, that may waive it; who is not listed may not"""
    signed: tuple[SignedBy, ...] = ()
    """who put it into force, and when"""
    notes: str = ""
    """what else a reader should know"""

    _name: str = PrivateAttr("policy")
    _reference: str = PrivateAttr("")
    _lineage: tuple[str, ...] = PrivateAttr(())
    _digest: str = PrivateAttr("")

    shipped: ClassVar[tuple[str, ...]] = ("public-use", "research-output", "scientific-use")
    """the policies that come with the package"""

    @property
    def name(self) -> str:
        """The name by which it was loaded."""
        return self._name

    @property
    def reference(self) -> str:
        """How a plan names it: the name of a shipped one, or its file; empty where it was read from a text."""
        return self._reference

    @property
    def lineage(self) -> tuple[str, ...]:
        """Its name and those of its parents."""
        return self._lineage

    @property
    def digest(self) -> str:
        """SHA-256 of its file and those of its parents."""
        return self._digest

    @classmethod
    def load(cls, name: str | Path, base: str | Path = ".") -> Policy:
        """Read a shipped policy by its name, or a file (relative to `base`), with what its parents say.

        Every fault is reported at once, with its line; a policy weaker than its parent is one.
        """
        return _load(str(name), Path(base), ())

    @classmethod
    def parse(cls, text: str, source: str = "policy", base: str | Path = ".") -> Policy:
        """Read the text of a policy file."""
        return _made(parse_yaml(text, source, POLICY), source, text, Path(base), ())

    def demands(self, schema: Schema, rows: Rows = "records") -> dict[str, list[Demand]]:
        """Give what a release of data with these roles must fulfil, by the name a waiver calls it."""
        found: dict[str, list[Demand]] = {}
        for one in self.requirements:
            if one.demand.part.family != "rule" and one.applies(schema, rows):
                found.setdefault(one.name, []).append(one.demand)
        if schema.edit_rules:
            found["edit-rules"] = [Demand(find("edit-rules")())]
        for name, part in (("geography", self._areas(schema)), ("detail", self._details())):
            if part:
                found[name] = [Demand(find("detail-limits")(**part))]
        return found

    def rules(self) -> dict[str, list[Demand]]:
        """Give the rules that tables must be judged by."""
        found: dict[str, list[Demand]] = {}
        for one in self.requirements:
            if one.demand.part.family == "rule":
                found.setdefault(one.name, []).append(one.demand)
        return found

    def _areas(self, schema: Schema) -> dict[str, Any]:
        limits = self.geography if schema.having("geography") else None
        named = {} if limits is None else {"min_area_population": limits.min_population, "max_areas": limits.max_areas}
        return {name: value for name, value in named.items() if value is not None}

    def _details(self) -> dict[str, Any]:
        return {} if self.detail is None else self.detail.model_dump(exclude={"why"}, exclude_none=True)

    @property
    def waivable(self) -> tuple[str, ...]:
        """Everything that a waiver could name."""
        limits = [name for name in ("geography", "detail", "outputs") if getattr(self, name) is not None]
        return tuple(dict.fromkeys([*(one.name for one in self.requirements), *limits, *SAFEGUARDS]))

    def refuses(self, waiver: Waiver) -> str:
        """Say why a waiver does not count; empty where it does."""
        if waiver.requirement not in self.waivable:
            return unknown("requirement", waiver.requirement, self.waivable)
        listed = self.may_waive.get(waiver.requirement, ())
        if not listed:
            return f"nobody may waive {waiver.requirement} under the policy {self.name!r}"
        name, _, function = (text.strip() for text in waiver.by.rpartition(","))
        if name and (waiver.by in listed or function in listed):
            return ""
        return (
            f"{waiver.by!r} may not waive {waiver.requirement} under the policy {self.name!r}; who may: "
            f"{'; '.join(listed)} (write `NAME, FUNCTION`)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the policy as plain data, with what it takes from its parents."""
        content = self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        return {"name": self.name, "lineage": list(self.lineage), "sha256": self.digest, **content}


def _load(name: str, base: Path, children: tuple[str, ...]) -> Policy:
    """Load a policy by name or path; `children`: those that are being read, each a child of the next."""
    if name in Policy.shipped:
        file = resources.files("discretion.policy") / "shipped" / f"{name}.yaml"
        text = file.read_text(encoding="utf-8")
        return _made(parse_yaml(text, f"{name}.yaml", POLICY), name, text, base, children)
    path = Path(name) if Path(name).is_absolute() else base / name
    if not path.is_file():
        raise PlanError(f"no policy {name!r}: neither a file nor a shipped one{did_you_mean(name, Policy.shipped)}")
    document = read_document(path, POLICY)
    full, text = str(path.resolve()), path.read_text(encoding="utf-8")
    return _made(document, full, text, path.resolve().parent, children)


def _made(document: Document, name: str, text: str, base: Path, children: tuple[str, ...]) -> Policy:
    policy = document.validated(Policy, _siblings)
    faults: list[str] = []
    digest = hashlib.sha256(text.encode()).hexdigest()
    shown = Path(name).stem if "/" in name or "." in name else name
    lineage: tuple[str, ...] = (shown,)
    if policy.extends is not None:
        if policy.extends == name or str((base / policy.extends).resolve()) in (name, *children):
            raise PlanError(f"{document.where('extends')}: the policy extends itself")
        try:
            parent = _load(policy.extends, base, (name, *children))
        except PlanError as error:
            raise PlanError([f"{document.where('extends')}: {one}" for one in error.problems]) from None
        policy, faults = _under(policy, parent, document)
        digest = hashlib.sha256(f"{digest}{parent.digest}".encode()).hexdigest()
        lineage = (shown, *parent.lineage)
    unknown_ = [one for one in policy.may_waive if one not in policy.waivable]
    faults += [
        f"{document.where('may_waive', one)}: {unknown('requirement', one, policy.waivable)}" for one in unknown_
    ]
    if faults:
        raise PlanError(faults)
    policy._name, policy._lineage, policy._digest = shown, lineage, digest
    policy._reference = name if name in Policy.shipped or Path(name).is_file() else ""
    return policy


def _under(child: Policy, parent: Policy, document: Document) -> tuple[Policy, list[str]]:
    """Give a policy with what its parent says, and where it is weaker."""
    faults = [*_scenario_faults(child, parent, document)]
    changes: dict[str, Any] = {}
    kept = list(parent.requirements)
    for number, one in enumerate(child.requirements):
        same = [other for other in kept if same_subject(one.demand, other.demand)]
        for other in same:
            weak = shortfall(one.demand, other.demand)
            if one.when not in (None, other.when):
                weak.append(f"it is asked only `when: {one.when}`")
            if one.rows not in ("both", other.rows):
                weak.append(f"it is asked only of `rows: {one.rows}`")
            faults += [
                f"{document.where('requirements', number)}: {one.name} is weaker than in the parent: {text}"
                for text in weak
            ]
        kept = [other for other in kept if other not in same]
    changes["requirements"] = (*kept, *child.requirements)
    for name in ("geography", "detail", "outputs"):
        mine, theirs = getattr(child, name), getattr(parent, name)
        if mine is None or theirs is None:
            changes[name] = theirs if mine is None else mine
            continue
        changes[name], weak_numbers = mine.under(theirs)
        faults += [f"{document.where(name, field)}: {text}" for field, text in weak_numbers.items()]
    for name, people in child.may_waive.items():
        allowed = parent.may_waive.get(name, ())
        if name in parent.waivable and (more := [one for one in people if one not in allowed]):
            faults.append(
                f"{document.where('may_waive', name)}: the parent does not let {'; '.join(more)} waive {name}"
            )
    changes["may_waive"] = {**parent.may_waive, **child.may_waive}
    return child.model_copy(update=changes), faults


def _scenario_faults(child: Policy, parent: Policy, document: Document) -> Iterable[str]:
    if child.scenario == parent.scenario:
        return
    for order in _OPENNESS:
        if child.scenario in order and parent.scenario in order[: order.index(child.scenario)]:
            return
    yield (
        f"{document.where('scenario')}: the parent is for {parent.scenario}; a policy for {child.scenario} cannot be "
        "derived from it"
    )


def _siblings(place: Place) -> tuple[str, ...]:
    """Name the entries that may stand at a place."""
    parts: dict[str, type[Declared]] = {
        "requirements": PolicyRequirement,
        "geography": GeographyLimits,
        "detail": DetailAllowed,
        "outputs": OutputRules,
        "signed": SignedBy,
    }
    model = Policy if len(place) == 1 else parts.get(str(place[0]))
    return () if model is None else tuple(model.model_fields)
