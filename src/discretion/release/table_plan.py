"""Table plans: data, the table to make of it, its rules, protection and requirements as one document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast, get_args

from discretion.data.documents import Document, as_text, read_document
from discretion.errors import PlanError, unknown
from discretion.part import kinds, parse
from discretion.release.plan import Plan, PlanParser
from discretion.release.under_policy import read_policy, read_waivers, require_waivers, table_rules
from discretion.tables.cells import Mark
from discretion.tables.suppression import FIGURES
from discretion.tables.tabulate import table_lists

if TYPE_CHECKING:
    from discretion.context import Progress
    from discretion.policy.policy import Policy, Waiver
    from discretion.release.table_run import TableRelease
    from discretion.tables.protections import Protection
    from discretion.tables.rules.rule import Rule

# From the content of a plan file to a TablePlan, with every fault found on the way.

_OTHER = (
    "title",
    "data",
    "roles",
    "confirmed",
    "types",
    "hierarchies",
    "missing_codes",
    "orders",
    "steps",
    "seed_file",
    "demo",
    "previous",
    "policy",
    "waivers",
    "edit_rules",
)
_TABULATE = (
    "by", "value", "hierarchies", "weight", "contributor", "top", "missing", "empty", "waivers", "requests",
    "record_key", "weights", "cells",
)  # fmt: skip
_CELLS = ("count", "top", "status", "total", "tolerance", "additivity")
_NAMED = ("weight", "contributor", "top", "missing", "empty", "record_key", "weights")
_ENTRIES = (*_TABULATE, "rules", "marks", "protect", "audit", "requirements", "output")
_AUDIT = ("prior", "attacker", "coalition", "seconds", "sums", "chance_percent")


class TablePlanParser:
    """Turns the content of a plan file into a TablePlan and collects every fault on the way."""

    def __init__(self, text: Document, base: Path) -> None:
        self.text, self.base = text, base
        self.problems: list[str] = []
        entry = text.content.get("table")
        self.table: Mapping[str, Any] = entry if isinstance(entry, Mapping) else {}

    def table_plan(self) -> TablePlan:
        """Parse every entry; raise with all the faults there are."""
        content = self.text.content
        if not self.table:
            self._fault((), "expected `table:` with `by` and more")
        for key in content:
            if key not in (*_OTHER, "table"):
                self._fault((key,), unknown("entry", str(key), (*_OTHER, "table")))
        for key in self.table:
            if key not in _ENTRIES:
                self._fault(("table", key), unknown("entry", str(key), _ENTRIES))
        beside = ("policy", "waivers")
        plan = self._plan({key: value for key, value in content.items() if key in _OTHER and key not in beside})
        policy = read_policy(self.text, self.base, self._fault) if "policy" in content else None
        waivers = read_waivers(self.text, policy, self._fault) if "waivers" in content else ()
        made = TablePlan(
            plan=plan,
            table=self._tabulate(),
            rules=self._rules(),
            marks=self._marks(),
            protect=self._protect(),
            audit=self._options("audit", _AUDIT),
            requirements=self._requirements(),
            output=self._output(),
            source=self.text,
        )
        if plan.previous and made.protect is not None and not made.protect.knows_earlier:
            self._fault(("previous",), f"earlier releases are not taken into account by {made.protect.kind}: suppress")
        if self.problems:
            raise PlanError(self.problems)
        return replace(made, policy=policy, waivers=waivers)

    def _fault(self, place: tuple[str | int, ...], message: str) -> None:
        self.problems.append(f"{self.text.where(*place)}: {message}")

    def _plan(self, content: Mapping[str, Any]) -> Plan:
        try:
            return PlanParser(Document(content, self.text.source, self.text.lines), self.base, alone="folder").plan()
        except PlanError as error:
            self.problems += error.problems
            return Plan(base=self.base)

    def _tabulate(self) -> dict[str, Any]:
        found = {key: self.table[key] for key in _TABULATE if key in self.table}
        if not found.get("by"):
            self._fault(("table",), "`by` is required: the classifying variables, or a list of such lists")
        else:
            try:
                found["by"] = [found["by"]] if isinstance(found["by"], str) else found["by"]
                table_lists(found["by"])
            except PlanError as error:
                for problem in error.problems:
                    self._fault(("table", "by"), problem.removeprefix("by: "))
        if not isinstance(found.get("value"), str | None):
            self._fault(("table", "value"), "expected the name of one column; make a plan for each response")
        trees = found.get("hierarchies", {})
        if not isinstance(trees, Mapping):
            self._fault(("table", "hierarchies"), "expected a mapping of variables")
            trees = {}
        from discretion.tables.tabulate import tabulate

        for name, problem in wrong_types(tabulate, {key: found[key] for key in _NAMED if key in found}):
            self._fault(("table", name), problem)
        found["hierarchies"] = {str(name): self._tree(spec) for name, spec in trees.items()}
        if "cells" in found:
            found["cells"] = self._ready(found)
        return found

    def _ready(self, found: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check the entries of a table whose data are cells that are added up already."""
        said = {} if found["cells"] is True else found["cells"]
        if not isinstance(said, Mapping):
            self._fault(("table", "cells"), f"expected true, or a mapping of {', '.join(_CELLS)}")
            return {}
        for name in said:
            if name not in _CELLS:
                self._fault(("table", "cells", name), unknown("entry", str(name), _CELLS))
        for name in found:
            if name not in ("by", "value", "hierarchies", "cells"):
                self._fault(("table", name), "is for records; the data of this plan are `cells`")
        if self.text.content.get("steps"):
            self._fault(("steps",), "steps change records; the data of this plan are `cells`")
        if not found.get("value") and not said.get("count"):
            self._fault(("table", "cells"), "`count` is required where the table has no `value`")
        from discretion.tables.ready import from_cells

        for name, problem in wrong_types(from_cells, said):
            self._fault(("table", "cells", name), problem)
        return dict(said)

    def _tree(self, spec: Any) -> Any:
        """Read paths of hierarchy files relative to the plan's folder."""
        if isinstance(spec, str):
            return str(self.base / spec) if (self.base / spec).is_file() else spec
        if isinstance(spec, list) and all(isinstance(item, str) for item in spec):
            return [self._tree(item) for item in spec]
        if isinstance(spec, Mapping) and isinstance(spec.get("file"), str):
            return str(self.base / spec["file"])
        return spec

    def _rules(self) -> tuple[Any, ...]:
        found = []
        for number, spec in enumerate(self._list("rules")):
            try:
                found.append(parse(spec, "rule"))
            except PlanError as error:
                for problem in error.problems:
                    self._fault(("table", "rules", number), problem)
        return tuple(found)

    def _list(self, key: str) -> list[Any]:
        value = self.table.get(key) or []
        if not isinstance(value, list):
            self._fault(("table", key), "expected a list, each entry on a line that starts with `- `")
            return []
        return value

    def _marks(self) -> tuple[tuple[Mapping[str, Any], str], ...]:
        found = []
        for number, spec in enumerate(self._list("marks")):
            if not isinstance(spec, Mapping) or len(spec) != 1 or not isinstance(next(iter(spec.values())), Mapping):
                self._fault(("table", "marks", number), "expected a decision and codes: `must-publish: {region: A}`")
                continue
            ((decision, where),) = spec.items()
            if decision not in get_args(Mark):
                self._fault(("table", "marks", number), unknown("mark", str(decision), get_args(Mark)))
            found.append((where, str(decision)))
        return tuple(found)

    def _protect(self) -> Protection | None:
        value = self.table.get("protect", UNPROTECTED)
        value = {value: {}} if isinstance(value, str) else value
        known = (UNPROTECTED, *kinds("table-protection"))
        if value is None or value == {UNPROTECTED: {}}:
            return None
        if not isinstance(value, Mapping) or len(value) != 1:
            self._fault(("table", "protect"), f"expected one of {', '.join(known)}, with its options")
            return None
        kind = str(next(iter(value)))
        if kind not in known:
            self._fault(("table", "protect"), unknown("protection", kind, known))
            return None
        try:
            return cast("Protection", parse(value, "table-protection"))
        except PlanError as error:
            for problem, place in zip_longest(error.problems, error.places, fillvalue=()):
                self._fault(("table", "protect", kind, *place), str(problem).removeprefix(f"{kind}: "))
            return None

    def _options(self, key: str, known: tuple[str, ...]) -> Mapping[str, Any]:
        value = self.table.get(key) or {}
        if not isinstance(value, Mapping):
            self._fault(("table", key), "expected a mapping of options")
            return {}
        for name in value:
            if name not in known:
                self._fault(("table", key, name), unknown("option", str(name), known))
        from discretion.tables.audit import audit

        for name, problem in wrong_types(audit, {key: value[key] for key in ("seconds", "coalition") if key in value}):
            self._fault(("table", key, name), problem)
        if "chance_percent" in value and not (
            isinstance(value["chance_percent"], int | float) and 0 < value["chance_percent"] <= 100
        ):
            self._fault(("table", key, "chance_percent"), "expected a number above 0 and at most 100")
        return MappingProxyType(dict(value))

    def _requirements(self) -> tuple[TableRequirement, ...]:
        found = []
        for number, spec in enumerate(self._list("requirements")):
            place = ("table", "requirements", number)
            if not isinstance(spec, Mapping) or len(spec) != 1 or not isinstance(next(iter(spec.values())), Mapping):
                self._fault(place, "expected a figure and its bound: `suppressed_percent: {at_most: 10}`")
                continue
            ((figure, bounds),) = spec.items()
            if figure not in FIGURES:
                self._fault(place, unknown("figure", str(figure), FIGURES))
                continue
            numbers = {k: v for k, v in bounds.items() if isinstance(v, int | float) and not isinstance(v, bool)}
            if not bounds or set(bounds) - {"at_most", "at_least"} or len(numbers) < len(bounds):
                self._fault(place, "expected numbers `at_most` and `at_least`, or one of them")
                continue
            found.append(TableRequirement(str(figure), **numbers))
        return tuple(found)

    def _output(self) -> TableOutput:
        value = self.table.get("output")
        if value is None:
            return TableOutput()
        if isinstance(value, str):
            return TableOutput(folder=value)
        known = tuple(TableOutput.__dataclass_fields__)
        if not isinstance(value, Mapping):
            self._fault(("table", "output"), "expected a folder, or a mapping with `folder`, `journal` and `formats`")
            return TableOutput()
        for key in value:
            if key not in known:
                self._fault(("table", "output", key), unknown("option", str(key), known))
        formats = value.get("formats", list(FORMATS))
        formats = [formats] if isinstance(formats, str) else formats
        if not isinstance(formats, list):
            self._fault(("table", "output", "formats"), f"expected a list of {', '.join(MORE_FORMATS)}")
            formats = []
        for name in formats:
            if name not in MORE_FORMATS:
                self._fault(("table", "output", "formats"), unknown("format", str(name), MORE_FORMATS))
        for key in ("folder", "journal"):
            if not isinstance(value.get(key), str | None):
                self._fault(("table", "output", key), "expected the name of a folder")
        return TableOutput(value.get("folder"), value.get("journal"), tuple(formats))


def wrong_types(function: Callable[..., Any], options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the options whose values are not of the type that their function says, and what is wrong with each."""
    from typing import get_type_hints

    from pydantic import ConfigDict, TypeAdapter, ValidationError

    hints = function.__annotations__
    for name in [name for name in options if name in hints]:
        value = options[name]
        try:
            hint = get_type_hints(type(name, (), {"__annotations__": {name: hints[name]}}), function.__globals__)[name]
            TypeAdapter(hint, config=ConfigDict(strict=True)).validate_python(value)
        except ValidationError as error:
            said = dict.fromkeys(item["msg"][:1].lower() + item["msg"][1:] for item in error.errors())
            yield name, f"{' or '.join(said)}, got {value!r}"


UNPROTECTED = "none"
"""What a plan says that publishes the table as it is, if nothing is sensitive."""

FORMATS = ("csv", "pivot", "xlsx", "json", "html")
"""Files of a published table: long CSV, pivoted CSV, Excel, JSON, report."""

MORE_FORMATS = (*FORMATS, "sdmx")
"""Those that a plan may name: SDMX-CSV too."""


@dataclass(frozen=True)
class TableRequirement:
    """A bound on a figure of information loss (`suppressed_percent`, `mean_change` …)."""

    figure: str
    at_most: float | None = None
    at_least: float | None = None


@dataclass(frozen=True)
class TableOutput:
    """Where a table goes: the public folder, the private journal, the files."""

    folder: str | None = None
    journal: str | None = None
    formats: tuple[str, ...] = FORMATS


@dataclass(frozen=True)
class TablePlan:
    """A plan whose result is a table: read with `TablePlan.load`, carried out with `run`.

    Examples
    --------
    >>> from discretion.release.table_plan import TablePlan
    >>> plan = TablePlan.from_dict({"table": {"by": ["region", "sex"], "rules": [{"threshold": {"minimum": 3}}],
    ...                                       "protect": {"round-controlled": {"base": 5}}}})
    >>> plan.protect.kind, [rule.kind for rule in plan.rules]
    ('round-controlled', ['threshold'])
    """

    plan: Plan
    """data, schema, steps on the records before they are counted, title, seed"""
    table: Mapping[str, Any]
    """what `dc.tabulate` gets: by, value, hierarchies, weight, contributor …; with `cells` what `from_cells` gets"""
    rules: tuple[Rule, ...] = ()
    marks: tuple[tuple[Mapping[str, Any], str], ...] = ()
    """decisions of people: which cells, and what they are"""
    protect: Protection | None = None
    """how the table is protected; none: published as it is, if nothing is sensitive"""
    audit: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """options of the audit: prior, attacker, coalition, seconds, sums; of perturbed tables chance_percent"""
    requirements: tuple[TableRequirement, ...] = ()
    output: TableOutput = field(default_factory=TableOutput)
    source: Document = field(default_factory=lambda: Document({}), repr=False)
    policy: Policy | None = None
    """the policy that the plan stands under: its rules judge the table too"""
    waivers: tuple[Waiver, ...] = ()
    """what of it was waived, by whom and why"""

    def __post_init__(self) -> None:
        if self.policy is not None or self.waivers:
            require_waivers(self.policy, self.waivers)
            object.__setattr__(self, "rules", table_rules(self))

    @classmethod
    def load(cls, path: str | Path) -> TablePlan:
        """Read a plan file; every fault of it is reported at once, with its line."""
        return cls.from_text(read_document(path), Path(path).resolve().parent)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], base: str | Path = ".") -> TablePlan:
        """Take a plan as plain data; relative paths start at `base`."""
        return cls.from_text(Document(as_text(content)), Path(base))

    @classmethod
    def from_text(cls, text: Document, base: Path) -> TablePlan:
        """Parse the content of a plan file."""
        return TablePlanParser(text, base).table_plan()

    @property
    def protection(self) -> str:
        """The kind of the protection, or `none`."""
        return UNPROTECTED if self.protect is None else self.protect.kind

    def protect_options(self) -> dict[str, Any]:
        """Give the options of the protection as the plan has them, explicit defaults too; they are confidential."""
        said = self.source.content["table"].get("protect")
        options = said.get(self.protection) if isinstance(said, Mapping) else None
        return dict(options or {})

    def resolve(self, path: str | Path) -> str:
        """Give a path of the plan relative to the plan's folder; URLs and absolute paths stay."""
        return self.plan.resolve(path)

    def refuse_scan(self, remote: bool = False) -> None:
        """Raise if the table needs more than single columns of its records in memory, or (`remote`) than counts."""
        drawn = self.protection == "perturb" and "record_key" not in self.table
        problems = [
            words
            for found, words in (
                ("cells" in self.table, "cells that are ready are read in memory"),
                (drawn, "perturb: keys of records are made in memory; give a column of them as `record_key`"),
                (bool(self.plan.previous), "`previous` needs all rows in memory"),
            )
            if found
        ]
        if problems:
            raise PlanError([*problems, "use the engine `memory`"])
        if remote:
            from discretion.tables.tabulate import refuse_remote

            names = ("value", "weight", "contributor", "waivers", "requests", "record_key")
            asked = [name for name in names if self.table.get(name)]
            asked += [self.protection] if self.protect is not None and self.protect.needs_records else []
            refuse_remote(asked, len(table_lists(self.table["by"])))

    def run(
        self,
        data: Any = None,
        *,
        seed: int | None = None,
        progress: Progress | None = None,
        report: Callable[[str], None] | None = None,
    ) -> TableRelease:
        """Make the table, protect and audit it; nothing is written."""
        from discretion.context import ignore_progress
        from discretion.release.table_run import run_table

        return run_table(self, data, seed=seed, progress=progress or ignore_progress, report=report)

    def folder(self) -> str:
        """Give the public folder the plan names."""
        if self.output.folder is None:
            raise PlanError("the plan names no `table.output`; give a folder")
        return self.resolve(self.output.folder)
