"""Plans: schema, steps, measures and requirements as one document; the same thing in Python, CLI and web."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from discretion.context import Progress, ignore_progress
from discretion.data.documents import Document, Origin, as_text, read_document, write_document
from discretion.data.population_classes import IN_MEMORY
from discretion.data.schema import Column, Schema
from discretion.display import table
from discretion.errors import PlanError, unknown
from discretion.measure import Measure
from discretion.method import Decision, Method
from discretion.model import PrivacyModel
from discretion.part import Family, Part, find, holds_parts, is_path, parse
from discretion.privacy.accounting import PrivacyFilter, exact
from discretion.release.order import ORDERS, Order
from discretion.release.plan_columns import SCHEMA_SECTIONS
from discretion.release.under_policy import read_policy, read_waivers

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from discretion.data.dataset import Dataset
    from discretion.method import Method
    from discretion.policy.policy import Policy, Waiver
    from discretion.release.order import Order
    from discretion.release.release import Release


@dataclass(frozen=True)
class PrivacyBudget:
    """What all private releases and answers about some people may spend together, and the ledger that counts it.

    Guarantees that a private step runs only if everything that the ledger holds about its people, this step included,
    stays within (ε, δ), whoever spent it: the filter is that of on-line answers (`PrivacyFilter`), which reads ρ at
    half of δ. The charge is on disk before the step reads the data, and stays spent if the step fails. The first charge
    writes (ε, δ) into the ledger; a later one that states more is refused unless `raised` says that this is meant,
    which is written too. One that states less is held to that. A service on the same ledger keeps to its own policy.

    Examples
    --------
    >>> import discretion as dc
    >>> dc.PrivacyBudget("ledger.db", table="census", epsilon=2, delta=1e-6).user
    'owner'
    """

    ledger: str | Path
    """path of the ledger, sqlite:///path or postgresql://user@host/base; made when absent"""
    table: str
    """the people: the name under which a service answers about them"""
    epsilon: float
    """ε of all releases and answers together"""
    delta: float
    """δ of all releases and answers together"""
    user: str = "owner"
    """who spends, for the ledger"""
    raised: bool = False
    """raise what the ledger knows as the limit of these people to this ε and δ; the ledger remembers it"""

    def __post_init__(self) -> None:
        faults = [f"`{name}` is a text" for name in ("table", "user") if not _is_text(getattr(self, name))]
        if not isinstance(self.ledger, str | Path) or not str(self.ledger):
            faults.append("`path` names the ledger")
        if not isinstance(self.raised, bool):
            faults.append("`raised` is true or false")
        if any(isinstance(x, bool) or not isinstance(x, int | float) for x in (self.epsilon, self.delta)):
            faults.append("`epsilon` and `delta` are numbers")
        if faults:
            raise PlanError(faults)
        PrivacyFilter(self.epsilon, self.delta)
        if not self.delta:
            raise PlanError("a private file needs a δ above 0")

    def charge(self, method: Method, data: Dataset) -> None:
        """Write the cost of a private method into the ledger, or raise BudgetExhausted and write nothing.

        What is wrong with the method for this data is raised first.
        """
        method.ready(data)
        from discretion.online.ledger import Charge, Limit, open_ledger

        text = json.dumps({"step": method.to_plan()}, sort_keys=True, ensure_ascii=False, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()
        limit = Limit(PrivacyFilter(self.epsilon, self.delta), self.table)
        with open_ledger(self.ledger) as ledger, ledger.page() as page:
            known = page.latest(self.table, "limit")
            if known is None or self._is_above(json.loads(known.query)):
                told = json.dumps({"delta": self.delta, "epsilon": self.epsilon})
                page.charge(Charge(self.user, self.table, "limit", query=told))
            page.charge(Charge(self.user, self.table, "dp", digest, text, method.cost), (limit,))

    def _is_above(self, known: Mapping[str, float]) -> bool:
        """Tell whether this is more than the ledger knows as the limit; an error where nobody says that it is meant."""
        more = [name for name in ("epsilon", "delta") if exact(getattr(self, name)) > exact(known[name])]
        if more and not self.raised:
            raise PlanError(
                f"the ledger knows ε {known['epsilon']:g} , δ {known['delta']:g} as the limit for {self.table!r}, and "
                f"here a larger {' and '.join(more)} is stated; keep to the limit, or say `raised: true`, which the "
                "ledger remembers"
            )
        return bool(more)

    def account(self) -> str:
        """Say what was spent and what is left, of the stated ε and δ."""
        from discretion.online.ledger import open_ledger

        budget = PrivacyFilter(self.epsilon, self.delta)
        with open_ledger(self.ledger) as ledger:
            spent = ledger.spent(table=self.table)
        left = budget.left(spent, "zcdp" if spent.nano_rho else "approximate")
        return f"privacy budget for {self.table!r} (ε {self.epsilon:g}, δ {self.delta:g}): spent {spent}; left {left}"

    def to_plan(self) -> dict[str, Any]:
        """Give the budget as a plan writes it."""
        told = {"path": str(self.ledger), "table": self.table, "epsilon": self.epsilon, "delta": self.delta}
        more = {"user": self.user} if self.user != "owner" else {}
        return {**told, **more, **({"raised": True} if self.raised else {})}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


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


OUTPUT_FORMATS = {
    "csv": "csv", "parquet": "parquet", "arrow": "arrow", "feather": "feather", "excel": "xlsx", "xlsx": "xlsx",
    "jsonl": "jsonl", "stata": "dta", "dta": "dta", "spss": "sav", "sav": "sav", "sas": "xpt", "xpt": "xpt",
}  # fmt: skip
"""Formats of the published data file, and its extension."""


@dataclass(frozen=True)
class Step:
    """A method in a plan; `publish` lets its confidential parameters into the public report."""

    method: Method
    id: str
    publish: bool = False
    decision: Decision | None = field(default=None, repr=False)
    """what the method decided on an earlier delivery, to be used again; private"""
    origin: Origin | None = field(default=None, repr=False, compare=False)
    """where it stands in the plan file"""

    def to_plan(self) -> dict[str, Any]:
        """Give the step as a plan writes it."""
        known = {} if self.decision is None else {"decision": self.decision.to_plan()}
        return _with_options(self.method, publish=self.publish, **known)


@dataclass(frozen=True)
class Shown:
    """A measure whose figures the report shows; `publish` lets its confidential parameters and figures out."""

    measure: Measure
    publish: bool = False
    origin: Origin | None = field(default=None, repr=False, compare=False)
    """where it stands in the plan file"""

    @property
    def part(self) -> Measure:
        """The measure, as a requirement calls what it is on."""
        return self.measure

    def to_plan(self) -> dict[str, Any]:
        """Give the measure as a plan writes it."""
        return _with_options(self.measure, publish=self.publish)


@dataclass(frozen=True)
class Requirement:
    """What must hold before anything is published: a privacy model, or a bound on a measure."""

    part: Measure | PrivacyModel
    at_most: float | None = None
    at_least: float | None = None
    publish: bool = False
    origin: Origin | None = field(default=None, repr=False, compare=False)
    """where it stands in the plan file"""
    by_policy: str = ""
    """the policy that demands it, where the plan does not say it itself"""

    def to_plan(self) -> dict[str, Any]:
        """Give the requirement as a plan writes it."""
        bounds = {"at_most": self.at_most, "at_least": self.at_least}
        return _with_options(self.part, publish=self.publish, **{k: v for k, v in bounds.items() if v is not None})


def _with_options(part: Part, *, publish: bool = False, **options: Any) -> dict[str, Any]:
    fields = {**part.settings(), **options, **({"publish": True} if publish else {})}
    return {part.kind: fields}


@dataclass(frozen=True)
class Output:
    """Where a release goes: the public folder, the private journal, the format of the data file."""

    folder: str | Path | None = None
    journal: str | Path | None = None
    format: str = "csv"

    def __post_init__(self) -> None:
        for name in ("folder", "journal"):
            object.__setattr__(self, name, as_text(getattr(self, name)))


@dataclass(frozen=True)
class Plan:
    """Schema, steps, measures and requirements. Load it from a file or build it from a Study.

    Examples
    --------
    >>> import discretion as dc
    >>> plan = dc.Study(dc.datasets.census(1000, seed=1), seed=7).apply(dc.DropIdentifiers()).plan()
    >>> [step.method.kind for step in plan.steps]
    ['drop-identifiers']
    """

    schema: Schema = field(default_factory=Schema)
    steps: tuple[Step, ...] = ()
    measures: tuple[Shown, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    no_steps: bool = False
    """the plan says `steps: none`: it may publish the original values"""
    no_requirements: bool = False
    """the plan says `requirements: none`: it may publish although nothing has to hold"""
    confirmed_other: tuple[str, ...] = ()
    """columns of the role `other` that look like something others know, and may go out all the same"""
    confirmed_telling: tuple[str, ...] = ()
    """published columns that tell what was protected in another, and may go out all the same"""
    data: Mapping[str, Any] = field(default_factory=dict)
    output: Output = field(default_factory=Output)
    title: str = ""
    confirmed: bool = True
    seed_file: str | Path | None = None
    order: Order = "permute"
    """whether the published rows are put in a random order, or keep that of the file"""
    knows_method: bool = True
    """whether attacks are also run by an intruder who knows the steps; where not, both reports say so"""
    base: Path = field(default_factory=Path)
    demo: bool = False
    """a demonstration on invented data: a small seed may be used"""
    made_from: Mapping[str, str | Path] = field(default_factory=dict)
    """the release that this one makes coarser: its `journal` folder, and its public `folder` where that was moved"""
    previous: tuple[Mapping[str, str | Path], ...] = ()
    """earlier releases of the same people, named in the same way"""
    budget: PrivacyBudget | None = None
    """the privacy budget from which private steps are paid, and the ledger that counts it (`ledger:`)"""
    policy: Policy | None = None
    """the policy that the plan stands under: what it demands is required here too"""
    waivers: tuple[Waiver, ...] = ()
    """what of it was waived, by whom and why"""
    advice: Mapping[str, str] = field(default_factory=dict)
    """what the data protection officer advised: `by`, `on` (the day) and `text`; for the annex, never for the public"""
    tune: Mapping[str, Any] = field(default_factory=dict)
    """what `discretion tune` explores, as the plan writes it"""
    text: Document = field(default_factory=lambda: Document({}), repr=False, compare=False)
    """the content of the plan file, with its lines"""

    def __post_init__(self) -> None:
        for name in ("data", "seed_file", "made_from", "previous"):
            object.__setattr__(self, name, as_text(getattr(self, name)))
        if self.policy is not None or self.waivers:
            from discretion.release.under_policy import demanded, require_waivers

            require_waivers(self.policy, self.waivers)
            object.__setattr__(self, "requirements", demanded(self))

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan file; every fault of it is reported at once, with its line."""
        return cls.from_text(read_document(path), Path(path).resolve().parent)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], base: str | Path = ".") -> Plan:
        """Take a plan as plain data; relative paths start at `base`, wherever the program goes or journals lie."""
        return cls.from_text(Document(as_text(content)), Path(base).absolute())

    @classmethod
    def from_text(cls, text: Document, base: Path) -> Plan:
        """Parse the content of a plan file."""

        return PlanParser(text, base).plan()

    def to_dict(self) -> dict[str, Any]:
        """Give the plan as plain data; empty sections are left out. Like the plan it is for the owner of the data."""
        columns = self.schema.columns
        content: dict[str, Any] = {
            "title": self.title,
            "data": dict(self.data) if len(self.data) > 1 else self.data.get("path"),
            "roles": {n: c.roles[0] if len(c.roles) == 1 else list(c.roles) for n, c in columns.items() if c.has_role},
            "confirmed": None if self.confirmed else False,
            "confirmed_other": list(self.confirmed_other),
            "confirmed_telling": list(self.confirmed_telling),
            "types": {n: c.type for n, c in columns.items() if c.type and not c.order},
            "orders": {n: list(c.order) for n, c in columns.items() if c.order},
            "hierarchies": {n: c.hierarchy.to_plan() for n, c in columns.items() if c.hierarchy},
            "edit_rules": list(self.schema.edit_rules),
            "missing_codes": {n: list(c.missing_codes) for n, c in columns.items() if c.missing_codes},
            "steps": [step.to_plan() for step in self.steps] or ("none" if self.no_steps else []),
            "measures": [measure.to_plan() for measure in self.measures],
            "requirements": [one.to_plan() for one in self.requirements if not one.by_policy]
            or ("none" if self.no_requirements else []),
            "policy": None if self.policy is None else self.policy.reference,
            "waivers": [one.model_dump(mode="json", exclude_defaults=True) for one in self.waivers],
            "output": {k: v for k, v in vars(self.output).items() if v and (k, v) != ("format", "csv")},
            "seed_file": self.seed_file,
            "order": None if self.order == "permute" else self.order,
            "demo": self.demo or None,
            "from": _place(self.made_from),
            "previous": [_place(one) for one in self.previous],
            "knows_method": None if self.knows_method else False,
            "ledger": None if self.budget is None else self.budget.to_plan(),
            "advice": dict(self.advice),
            "tune": dict(self.tune),
        }
        return {key: value for key, value in content.items() if value not in (None, "", {}, [])}

    def save(self, path: str | Path) -> None:
        """Write the plan file. The seed is not part of it; files beside the plan are named relative to it.

        Only the owner may read a file with decisions: they may hold values of single people.
        """
        content, folder = self.to_dict(), Path(path).resolve().parent
        for section in ("steps", "measures", "requirements"):
            content[section] = map_paths(content.get(section, []), lambda path: _seen_from(folder, path))
        if "path" in self.data:
            named = _seen_from(folder, self.resolve(self.data["path"]))
            content["data"] = {**self.data, "path": named} if len(self.data) > 1 else named
        if self.policy is not None and self.policy.reference not in self.policy.shipped:
            content["policy"] = _seen_from(folder, self.policy.reference)
        for name, spec in content.get("hierarchies", {}).items():
            content["hierarchies"][name] = map_file(spec, lambda path: _seen_from(folder, path))
        content = {key: value for key, value in content.items() if value != []}
        write_document(content, path, private=self.has_decisions)

    @property
    def has_decisions(self) -> bool:
        """Tell whether a step brings what it decided on an earlier delivery."""
        return any(step.decision is not None for step in self.steps)

    def _repr_html_(self) -> str:
        """Show the plan in a notebook, parameters included: like the plan, for the owner of the data."""
        columns = [(name, column.roles) for name, column in self.schema.columns.items() if column.has_role]
        rows = [("role", name, ", ".join(roles)) for name, roles in columns]
        sections: tuple[tuple[str, Sequence[Step | Shown | Requirement]], ...] = (
            ("step", self.steps),
            ("measure", self.measures),
            ("requirement", self.requirements),
        )
        for section, items in sections:
            for item in items:
                ((kind, fields),) = item.to_plan().items()
                shown = "; ".join(f"{name}: {value}" for name, value in fields.items() if name != "decision")
                rows.append((section, kind, shown))
        return table(self.title or "Plan", ("", "", "settings"), rows, "" if self.confirmed else "Not confirmed yet.")

    def resolve(self, path: str | Path) -> str:
        """Give a path of the plan relative to the plan's folder; URLs and absolute paths stay."""
        return resolve_path(self.base, str(path))

    def read(self, source: str | Path | None = None, report: Callable[[str], None] | None = None) -> Dataset:
        """Read the data of the plan (or another delivery of it) with the plan's roles."""
        from discretion.release.run import read_data

        return read_data(self, source, report)

    def run(
        self,
        data: Any = None,
        *,
        seed: int | None = None,
        out: str | Path | None = None,
        journal: str | Path | None = None,
        overwrite: bool = False,
        reuse: Mapping[str, Decision] | None = None,
        progress: Progress = ignore_progress,
    ) -> Release:
        """Protect, measure and check; write the release where the plan or `out` says. Unmet requirements raise.

        Writing needs steps and requirements, or a plan that says that it has none (`discretion.release.gate`).
        """
        from discretion.release.run import run_plan

        folder = out or (self.resolve(self.output.folder) if self.output.folder else None)
        release = run_plan(self, data, seed=seed, reuse=reuse, progress=progress, publish=folder is not None)
        release.require()
        if folder is not None:
            private = journal or (self.resolve(self.output.journal) if self.output.journal else None)
            release.write(folder, private, overwrite=overwrite)
        return release

    def with_data(self, source: str | Path) -> Plan:
        """Give the plan for another delivery of the data; `source` is relative to the working folder."""
        source = str(source)
        is_file = "://" not in source and source != "-"
        return replace(self, data={**self.data, "path": str(Path(source).absolute()) if is_file else source})

    def with_output(self, **changes: Any) -> Plan:
        """Give the plan with another output."""
        return replace(self, output=replace(self.output, **changes))


def _place(named: Mapping[str, str | Path]) -> str | Path | dict[str, str | Path] | None:
    """Write where an earlier release lies: the path of its journal, if that is all there is to say."""
    return named.get("journal") if set(named) <= {"journal"} else dict(named)


def _seen_from(folder: Path, path: str) -> str:
    """Name a file relative to a folder it lies in, otherwise by its full path; URLs stay."""
    if "://" in path or path == "-":
        return path
    full = Path(path).resolve()
    return str(full.relative_to(folder)) if full.is_relative_to(folder) else str(full)


_SECTIONS = (
    "title", "data", "roles", "confirmed", "confirmed_other", "confirmed_telling", "types", "hierarchies",
    "missing_codes", "orders", "steps", "measures", "requirements", "output", "seed_file", "order", "demo", "from",
    "previous", "knows_method", "ledger", "policy", "waivers", "edit_rules", "advice", "tune",
)  # fmt: skip
_DATA_OPTIONS = (
    "path",
    "format",
    "delimiter",
    "decimal",
    "encoding",
    "header",
    "quote",
    "sheet",
    "table",
    "query",
    "columns",
)
_ALONE = {
    "journal": "expected the private journal of a release",
    "folder": "expected the folder of a release",
}
"""What the place of an earlier release is when it is one text: journals for microdata, public folders for tables."""
_NONE = "none"
"""How a plan says that it has no steps, or no requirements, on purpose."""
_T = TypeVar("_T")


def _differing(column: Column) -> dict[str, Any]:
    """Give the properties of a column that were set."""
    plain = vars(Column())
    return {name: value for name, value in vars(column).items() if value != plain[name]}


class PlanParser:
    """Turns the content of a plan file into a Plan and collects every fault on the way."""

    def __init__(self, text: Document, base: Path, alone: str = "journal") -> None:
        self.text, self.base, self.alone = text, base, alone
        self.problems: list[str] = []

    def plan(self) -> Plan:
        """Parse every entry; raise with all the faults there are."""
        content = self.text.content
        for key in content:
            if key not in _SECTIONS:
                self._fault((key,), unknown("entry", str(key), _SECTIONS))
        policy = read_policy(self.text, self.base, self._fault) if "policy" in content else None
        plan = Plan(
            schema=self._schema(),
            steps=self._each("steps", self._step),
            measures=self._each("measures", self._measure),
            requirements=self._each("requirements", self._requirement),
            no_steps=content.get("steps") == _NONE,
            no_requirements=content.get("requirements") == _NONE,
            confirmed_other=self._each("confirmed_other", self._name_in("confirmed_other")),
            confirmed_telling=self._each("confirmed_telling", self._name_in("confirmed_telling")),
            data=self._data(),
            output=self._output(),
            title=str(content.get("title") or ""),
            confirmed=self._flag("confirmed", True),
            seed_file=self._text("seed_file"),
            order=self._order(),
            demo=self._flag("demo", False),
            made_from=self._release(("from",), content["from"]) if "from" in content else {},
            previous=self._each("previous", lambda number, given: self._release(("previous", number), given)),
            knows_method=self._flag("knows_method", True),
            base=self.base,
            budget=self._budget(),
            advice=self._advice(),
            tune=self._tune(),
            text=self.text,
        )
        waivers = read_waivers(self.text, policy, self._fault) if "waivers" in content else ()
        if policy is not None and not self.problems:
            plan = self._attempted(plan, policy, waivers)
        self._check_seed_place(plan)
        if self.problems:
            raise PlanError(self.problems)
        return plan

    def _attempted(self, plan: Plan, policy: Policy, waivers: tuple[Waiver, ...]) -> Plan:
        """Put a plan under its policy; what is weaker names its line itself."""
        try:
            return replace(plan, policy=policy, waivers=waivers)
        except PlanError as error:
            self.problems += error.problems
            return plan

    def _fault(self, place: tuple[str | int, ...], message: str) -> None:
        self.problems.append(f"{self.text.where(*place)}: {message}")

    def _attempt(self, place: tuple[str | int, ...], make: Callable[[], _T]) -> _T | None:
        try:
            return make()
        except PlanError as error:
            for problem in error.problems:
                self._fault(place, problem)
            return None

    def _mapping(self, key: str) -> dict[str, Any]:
        value = self.text.content.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self._fault((key,), "expected a mapping of column names")
            return {}
        return {str(name): item for name, item in value.items()}

    def _list(self, key: str) -> list[Any]:
        value = self.text.content.get(key)
        may_be_none = key in ("steps", "requirements")
        if value is None or (may_be_none and value == _NONE):
            return []
        if not isinstance(value, list):
            wanted = "expected a list, each entry on a line that starts with `- `"
            self._fault((key,), f"{wanted}, or the word `none`" if may_be_none else wanted)
            return []
        return value

    def _each(self, key: str, parse_one: Callable[[int, Any], _T | None]) -> tuple[_T, ...]:
        found = [parse_one(number, spec) for number, spec in enumerate(self._list(key))]
        return tuple(item for item in found if item is not None)

    def _name_in(self, key: str) -> Callable[[int, Any], str | None]:
        def name(number: int, given: Any) -> str | None:
            if not isinstance(given, str):
                self._fault((key, number), "expected the name of a column")
                return None
            return given

        return name

    def _text(self, key: str) -> str | None:
        value = self.text.content.get(key)
        if value is not None and not isinstance(value, str):
            self._fault((key,), "expected text")
            return None
        return value

    def _flag(self, key: str, default: bool) -> bool:
        value = self.text.content.get(key, default)
        if not isinstance(value, bool):
            self._fault((key,), "expected true or false")
            return default
        return value

    def _order(self) -> Order:
        given = self.text.content.get("order", "permute")
        if given not in ORDERS:
            self._fault(("order",), unknown("order", str(given), ORDERS))
        return "keep" if given == "keep" else "permute"

    def _schema(self) -> Schema:
        """Build the schema entry by entry, so that each fault has its line."""
        columns: dict[str, dict[str, Any]] = {}
        for section in SCHEMA_SECTIONS:
            for name, value in self._mapping(section).items():
                given = map_file(value, self._resolve) if section == "hierarchies" else value
                try:
                    property_: dict[str, Any] = {section: {name: given}}
                    found = Schema.build(**property_)
                except PlanError as error:
                    for problem in error.problems:
                        self._fault((section, name), problem.removeprefix(f"{section}.{name}: "))
                else:
                    columns.setdefault(name, {}).update(_differing(found[name]))
        made = MappingProxyType({name: Column(**properties) for name, properties in columns.items()})
        return Schema(made, self._edit_rules())

    def _edit_rules(self) -> tuple[str, ...]:
        """Read what every record fulfils; each fault with its line, circles of sums with that of the section."""
        from discretion.data.rules import read_edit_rules

        good = []
        for number, text in enumerate(self._list("edit_rules")):
            if self._attempt(("edit_rules", number), lambda text=text: read_edit_rules([text])) is not None:  # type: ignore[misc]
                good.append(text)
        if good:
            self._attempt(("edit_rules",), lambda: read_edit_rules(good))
        return tuple(good)

    def _data(self) -> dict[str, Any]:
        value = self.text.content.get("data")
        if value is None:
            return {}
        if isinstance(value, str):
            return {"path": value}
        if not isinstance(value, Mapping) or "path" not in value:
            self._fault(("data",), "expected a path, or a mapping with `path` and reading options")
            return {}
        for key in value:
            if key not in _DATA_OPTIONS:
                self._fault(("data", key), unknown("option", str(key), _DATA_OPTIONS))
        return dict(value)

    def _output(self) -> Output:
        value = self.text.content.get("output")
        if value is None:
            return Output()
        if isinstance(value, str):
            return Output(folder=value)
        known = tuple(Output.__dataclass_fields__)
        if not isinstance(value, Mapping):
            self._fault(("output",), "expected a folder, or a mapping with `folder`, `journal` and `format`")
            return Output()
        for key, item in value.items():
            if key not in known:
                self._fault(("output", key), unknown("option", str(key), known))
            elif not isinstance(item, str):
                self._fault(("output", key), "expected text")
            elif key == "format" and item not in OUTPUT_FORMATS:
                self._fault(("output", key), unknown("format", item, OUTPUT_FORMATS))
        return Output(**{key: value[key] for key in known if isinstance(value.get(key), str)})

    def _release(self, place: tuple[str | int, ...], given: Any) -> dict[str, str]:
        """Read where an earlier release lies: its private journal, its public folder where that was moved, and people.

        `person` names the column by which the people of another delivery are found again.
        """
        named = {self.alone: given} if isinstance(given, str) else given
        known = ("journal", "folder", *(("person", "accepted") if place[0] == "previous" else ()))
        texts = isinstance(named, Mapping) and all(isinstance(value, str) for value in named.values())
        apart = place[0] == "previous" and texts and "folder" in named
        if not texts or not (apart or self.alone in named or "journal" in named):
            self._fault(place, f"{_ALONE[self.alone]}, or a mapping with `journal` and `folder`")
            return {}
        for key in named:
            if key not in known:
                self._fault((*place, key), unknown("option", str(key), known))
        words = ("person", "accepted")
        return {key: named[key] if key in words else self._resolve(named[key]) for key in known if key in named}

    def _split(self, place: tuple[str | int, ...], spec: Any, options: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
        """Take the options of an entry (publish, at_most …) out of the fields of its part."""
        if not isinstance(spec, Mapping) or len(spec) != 1:
            return spec, {}
        ((kind, fields),) = spec.items()
        if not isinstance(fields, Mapping):
            return spec, {}
        options = tuple(option for option in options if option not in self._own_fields(kind))
        found = {key: fields[key] for key in options if key in fields}
        if not isinstance(found.get("publish", False), bool):
            self._fault((*place, kind, "publish"), "expected true or false")
            found["publish"] = False
        rest = {key: value for key, value in fields.items() if key not in options}
        return map_paths({kind: rest}, self._resolve), found

    @staticmethod
    def _own_fields(kind: str) -> tuple[str, ...]:
        """Name the fields of a part, none where it does not exist (which is reported when it is parsed)."""
        try:
            return tuple(find(str(kind)).model_fields)
        except PlanError:
            return ()

    def _resolve(self, path: str) -> str:
        return resolve_path(self.base, path)

    def _part(self, place: tuple[str | int, ...], spec: Any, *families: Family) -> Part | None:
        inner = (*place, next(iter(spec))) if isinstance(spec, Mapping) and len(spec) == 1 else place
        return self._attempt(inner, lambda: parse(spec, *families))

    def _step(self, number: int, spec: Any) -> Step | None:
        place = ("steps", number)
        spec, options = self._split(place, spec, ("publish", "decision"))
        method = self._part(place, spec, "method")
        if not isinstance(method, Method):
            return None
        decision = self._decision((*place, method.kind, "decision"), method, options.get("decision"))
        origin = Origin(self.text, place)
        return Step(method, f"{number + 1}-{method.kind}", options.get("publish", False), decision, origin)

    def _decision(self, place: tuple[str | int, ...], method: Method, given: Any) -> Decision | None:
        """Read what a step decided earlier: a mapping, or the same as JSON text (TOML cannot write every value)."""
        if given is None:
            return None
        if method.by_group:
            self._fault(place, f"{method.kind} works on rows together and has nothing to use again; leave it out")
            return None
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except json.JSONDecodeError as error:
                self._fault(place, f"not valid JSON: {error.msg}")
                return None
        if not isinstance(given, Mapping):
            self._fault(place, "expected a mapping, as `study.plan(fitted=True)` writes it")
            return None
        return Decision(MappingProxyType(dict(given)))

    def _measure(self, number: int, spec: Any) -> Shown | None:
        place = ("measures", number)
        spec, options = self._split(place, spec, ("publish",))
        measure = self._part(place, spec, "risk", "utility")
        if not isinstance(measure, Measure):
            return None
        return Shown(measure, options.get("publish", False), Origin(self.text, place))

    def _requirement(self, number: int, spec: Any) -> Requirement | None:
        place = ("requirements", number)
        spec, options = self._split(place, spec, ("publish", "at_most", "at_least"))
        part = self._part(place, spec, "model", "risk", "utility")
        bounds = {key: options[key] for key in ("at_most", "at_least") if key in options}
        for key, value in bounds.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                self._fault((*place, key), f"{key} must be a number")
                return None
        if isinstance(part, Measure) and not bounds:
            self._fault(place, f"a requirement on the measure {part.kind!r} needs `at_most` or `at_least`")
            return None
        if isinstance(part, PrivacyModel) and bounds:
            self._fault(
                place,
                f"{part.kind!r} is a privacy model: it holds or not, and takes no `at_most` or `at_least`",
            )
            return None
        if not isinstance(part, Measure | PrivacyModel):
            return None
        return Requirement(part, publish=options.get("publish", False), origin=Origin(self.text, place), **bounds)

    def _budget(self) -> PrivacyBudget | None:
        """Read the ledger from which private steps are paid, with the budget that it counts."""
        given = self.text.content.get("ledger")
        if given is None:
            return None
        known = ("path", "table", "epsilon", "delta", "user", "raised")
        lacking = [key for key in known[:4] if key not in given] if isinstance(given, Mapping) else known
        if lacking:
            self._fault(("ledger",), "expected a mapping with `path`, `table`, `epsilon`, `delta` and perhaps `user`")
            return None
        for key in given:
            if key not in known:
                self._fault(("ledger", key), unknown("option", str(key), known))
        fields = {key: given[key] for key in known[1:] if key in given}
        path = str(given["path"])
        file = path.removeprefix("sqlite:///")
        place = path if "://" in file else self._resolve(file)
        return self._attempt(("ledger",), lambda: PrivacyBudget(place, **fields))

    def _advice(self) -> dict[str, str]:
        """Read what the data protection officer advised, by whom and when."""
        given, known = self.text.content.get("advice"), ("by", "on", "text")
        if given is None:
            return {}
        if not isinstance(given, Mapping) or any(not str(given.get(key) or "").strip() for key in known):
            self._fault(("advice",), "expected `by` (name and function), `on` (the day) and `text`")
            return {}
        for key in given:
            if key not in known:
                self._fault(("advice", key), unknown("entry", str(key), known))
        return {key: str(given[key]) for key in known}

    def _tune(self) -> dict[str, Any]:
        if (given := self.text.content.get("tune")) is None:
            return {}
        from discretion.release.tune import check_section

        return check_section(given, self._fault, self._resolve)

    def _check_seed_place(self, plan: Plan) -> None:
        if plan.seed_file and plan.output.folder:
            seed, folder = Path(plan.resolve(plan.seed_file)), Path(plan.resolve(plan.output.folder))
            if seed.resolve().is_relative_to(folder.resolve()):
                self._fault(("seed_file",), "the seed is a secret and cannot lie in the public folder")
