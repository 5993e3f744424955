"""Plans: schema, steps, measures and requirements as one document; the same thing in Python, CLI and web."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.context import Progress, ignore_progress
from discretion.data.documents import Document, Origin, as_text, read_document, write_document
from discretion.data.schema import Schema
from discretion.display import table
from discretion.measure import Measure
from discretion.method import Decision, Method
from discretion.model import PrivacyModel
from discretion.part import Part
from discretion.release.part_paths import map_file, map_paths, resolve_path
from discretion.release.privacy_budget import PrivacyBudget

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.policy.policy import Policy, Waiver
    from discretion.release.order import Order
    from discretion.release.release import Release

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
        from discretion.release.plan_parser import PlanParser

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
