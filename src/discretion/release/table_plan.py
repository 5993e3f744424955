"""Table plans: data, the table to make of it, its rules, protection and requirements as one document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from discretion.data.documents import Document, as_text, read_document
from discretion.errors import PlanError
from discretion.release.plan import Plan

if TYPE_CHECKING:
    from discretion.context import Progress
    from discretion.release.table_run import TableRelease
    from discretion.tables.rules.rule import Rule

PROTECTIONS = ("none", "suppress", "restructure", "round-random", "round-controlled", "adjust", "perturb")
"""How a table can be protected; `none` publishes it as it is if nothing is sensitive."""

FORMATS = ("csv", "pivot", "xlsx", "json", "html")
"""Files of a published table: long CSV, pivoted CSV, Excel, JSON, report."""

MORE_FORMATS = (*FORMATS, "sdmx")
"""Those that a plan may name: SDMX-CSV too."""


@dataclass(frozen=True)
class Protection:
    """One way to protect the table, with its options; the options are confidential."""

    kind: str = "none"
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


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
    protect: Protection = field(default_factory=Protection)
    audit: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """options of the audit: prior, attacker, coalition, seconds, sums; of perturbed tables chance_percent"""
    requirements: tuple[TableRequirement, ...] = ()
    output: TableOutput = field(default_factory=TableOutput)
    source: Document = field(default_factory=lambda: Document({}), repr=False)

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
        from discretion.release.table_plan_parser import TablePlanParser

        return TablePlanParser(text, base).table_plan()

    def resolve(self, path: str | Path) -> str:
        """Give a path of the plan relative to the plan's folder; URLs and absolute paths stay."""
        return self.plan.resolve(path)

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
