"""Carrying out a table plan: read, edit the records, tabulate, protect, audit, judge, publish."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.context import Context, Progress, ignore_progress
from discretion.data.dataset import Dataset
from discretion.errors import PlanError, RequirementNotMet
from discretion.release.earlier_tables import previous_tables
from discretion.release.journal import input_facts
from discretion.release.run import check_plan, read_data, seed_of
from discretion.release.study import Study
from discretion.tables.cells import Cells

if TYPE_CHECKING:
    from discretion.data.dialect import Dialect
    from discretion.release.table_plan import TablePlan, TableRequirement
    from discretion.tables.previous import Previous

WORDS = {
    "none": "The cells are published as they are.",
    "suppress": "Sensitive cells are suppressed, and others with them, so that they cannot be computed back.",
    "restructure": "Categories were combined until no cell was sensitive.",
    "round-random": "Every cell was rounded up or down by chance, right on average; totals like other cells.",
    "round-controlled": "Every cell was rounded so that totals are still the sums of their parts.",
    "adjust": "Values were changed by chance so that no sensitive value is shown; totals are the sums of their parts.",
    "perturb": "Noise was added to every cell, the same in every table made with the same keys. Totals are perturbed "
    "like other cells and are not exactly the sums of their parts.",
}
"""What a reader of the table must know of its protection."""


@dataclass(frozen=True)
class Verdict:
    """Whether something that must hold does, in words; for the office."""

    name: str
    holds: bool
    text: str


@dataclass(frozen=True)
class TableRelease:
    """A finished table: what goes out, what the audit found, whether it may be published."""

    plan: TablePlan
    cells: Cells
    verdicts: tuple[Verdict, ...]
    loss: Mapping[str, float]
    seed: int = field(repr=False)
    facts: Mapping[str, Any] = field(default_factory=dict)
    """what the protection reached (steps, gaps …); internal"""
    audit: Any = field(default=None, repr=False)
    read: Mapping[str, Any] = field(default_factory=dict)
    """what the table was made of: records, columns, a hash; internal"""
    dialect: Dialect | None = None
    """how the text file that the records came from is written; the table is written alike"""
    override: str | None = None
    """why it is published although it does not hold what it must"""

    @property
    def holds(self) -> bool:
        """Whether the audit and every requirement holds."""
        return all(verdict.holds for verdict in self.verdicts)

    def require(self) -> None:
        """Raise if the table may not be published."""
        if not self.holds and not self.override:
            failing = [verdict.text for verdict in self.verdicts if not verdict.holds]
            raise RequirementNotMet(
                "\n".join(["the table may not be published; nothing was written:", *(f"  {text}" for text in failing),
                           "publish it all the same with --override REASON; the reason goes into the journal"])
            )  # fmt: skip

    def overridden(self, reason: str) -> TableRelease:
        """Give the release with a decision to publish it although it fails; the journal keeps the reason."""
        if not reason.strip():
            raise PlanError("override: give the reason in words; it goes into the journal")
        return replace(self, override=reason.strip())

    def write(
        self, folder: str | Path, journal: str | Path | None = None, *, overwrite: bool = False
    ) -> tuple[Path, Path]:
        """Write the public folder and the private journal, both whole or not at all; give their paths."""
        from discretion.release.table_files import write_release

        self.require()
        return write_release(self, folder, journal, overwrite=overwrite)


def run_table(
    plan: TablePlan,
    data: Any = None,
    *,
    seed: int | None = None,
    progress: Progress = ignore_progress,
    report: Callable[[str], None] | None = None,
) -> TableRelease:
    """Carry out a table plan on its data (or on `data`); nothing is written."""
    _check_keys(plan)
    records = read_records(plan, data, report)
    seed = seed_of(plan.plan, release=True) if seed is None else seed
    study = Study(records, seed, progress=progress)
    for step in plan.plan.steps:
        study = study.apply(step)
    before = previous_tables(plan, study.current, input_facts(plan.plan, records)) if plan.plan.previous else []
    cells = tabulated(plan, study.current, seed, before)
    cells = cells.apply_rules(plan.rules) if plan.rules else cells
    for where, decision in plan.marks:
        cells = cells.mark(where, decision)  # type: ignore[arg-type]
    ctx = Context(seed, "table", progress)
    cells, facts, result = _protected(plan, cells, ctx)
    audit, verdict = _audited(plan, cells, result, ctx)
    from discretion.tables.audit_report import Audit

    loss = cells.loss(audit if isinstance(audit, Audit) else None)
    verdicts = (verdict, *(_judged(item, loss) for item in plan.requirements))
    read = input_facts(plan.plan, records)
    return TableRelease(plan, cells, verdicts, loss, seed, facts, audit, read, records.dialect)


def _check_keys(plan: TablePlan) -> None:
    """Refuse noise by keys that nobody keeps: another draw for the same cells, and averages tell the truth."""
    kept = plan.plan.seed_file or plan.protect.options.get("key_file") or plan.table.get("record_key")
    if plan.protect.kind == "perturb" and not kept and not plan.plan.demo:
        raise PlanError(
            "perturb: the keys of the records would be drawn anew in every run, and the mean of several releases gives "
            "the noise away; make a file with `discretion seed new FILE` and name it in the plan (`seed_file: FILE`), "
            "or give `key_file` with `key_by`, or a column `record_key`"
        )


def read_records(plan: TablePlan, data: Any = None, report: Callable[[str], None] | None = None) -> Dataset:
    """Read the data of the plan, or take other data with the plan's roles."""
    if plan.plan.steps or not plan.plan.confirmed:
        check_plan(plan.plan)
    if data is None or isinstance(data, str | Path):
        return read_data(plan.plan, None if data is None else str(data), report)
    return data if isinstance(data, Dataset) and data.schema.columns else Dataset.of(data)


def tabulated(plan: TablePlan, records: Dataset, seed: int, previous: Sequence[Previous] = ()) -> Cells:
    """Make the table of a plan from its records, beside earlier ones."""
    from discretion.tables.tabulate import tabulate

    options = dict(plan.table)
    protection = plan.protect
    if "cells" in options:
        from discretion.tables.ready import from_cells

        return from_cells(
            records.frame, options.pop("by"), options.pop("value", None), **options.pop("cells"), **options
        )
    if protection.kind == "perturb" and "record_key" not in options:
        from discretion.tables.cell_key import with_record_keys

        file = protection.options.get("key_file")
        keys = {"key_file": plan.resolve(file), "by": protection.options.get("key_by")} if file else {"seed": seed}
        records = with_record_keys(records, "_record_key", **keys)
        options["record_key"] = "_record_key"
    need = max((rule.top_needed() for rule in plan.rules), default=1)
    options.setdefault("top", max(3, need))
    return tabulate(records, options.pop("by"), options.pop("value", None), previous=previous, **options)


def _protected(plan: TablePlan, cells: Cells, ctx: Context) -> tuple[Cells, dict[str, Any], Any]:
    """Protect the table; give it, facts for the journal, and what the protection returned."""
    kind = plan.protect.kind
    options = {k: v for k, v in plan.protect.options.items() if k not in ("key_file", "key_by")}
    if kind == "none":
        return cells, {}, None
    if kind == "restructure":
        done = cells.restructure(plan.rules, **options)
        return done.cells, {"steps": [str(step) for step in done.steps]}, done
    if kind == "suppress":
        result: Any = cells.suppress(audit=_audit_options(plan), ctx=ctx.within("suppress"), **options)
        facts = {key: value for key, value in result.facts.items() if isinstance(value, int | float | str | None)}
        return result.cells, {"engine": {result.engine.kind: result.engine.model_dump(mode="json")}, **facts}, result
    if kind == "round-random":
        result = cells.round_random(seed=ctx.seed, **options)
    elif kind == "round-controlled":
        result = cells.round_controlled(progress=ctx.progress, **options)
    elif kind == "adjust":
        result = cells.adjust(seed=ctx.seed, progress=ctx.progress, **options)
    else:
        result = cells.perturb(**options)
    shown = ("steps", "additive", "impossible", "moved", "gap", "cost", "changed")
    return result.cells, {key: getattr(result, key) for key in shown if hasattr(result, key)}, result


def _audit_options(plan: TablePlan) -> dict[str, Any]:
    """Give the plan's options of the audit; `sums` true judges pairs of gaps too, false no sums at all."""
    options = {key: value for key, value in plan.audit.items() if key not in ("sums", "chance_percent")}
    sums = plan.audit.get("sums")
    return {**options, "rules": None if sums is None else plan.rules if sums else ()}


def _audited(plan: TablePlan, cells: Cells, result: Any, ctx: Context) -> tuple[Any, Verdict]:
    """Attack the table as its readers could, and say what was found."""
    from discretion.tables.released_audit import audit_adjusted, audit_perturbed, audit_rounded
    from discretion.tables.rounding import Rounded
    from discretion.tables.widened import at_stake

    if isinstance(result, Rounded):
        found: Any = audit_rounded(result, progress=ctx.progress)
    elif plan.protect.kind == "adjust":
        found = audit_adjusted(cells)
    elif plan.protect.kind == "perturb":
        chance = {name: plan.audit[name] for name in ("chance_percent",) if name in plan.audit}
        found = audit_perturbed(result, progress=ctx.progress, **chance)
    elif not at_stake(cells):
        return None, Verdict("audit", True, f"audit: no cell is sensitive{_differences_judged(cells)}")
    elif plan.protect.kind == "suppress":
        found = result.audit
    else:
        found = cells.audit(ctx=ctx.within("audit"), **_audit_options(plan))
    return found, Verdict("audit", bool(found.holds), f"audit: {found.summary}")


def _differences_judged(cells: Cells) -> str:
    judged = 0 if cells.differences is None else cells.differences.judged
    return f", nor is one of {judged:,} small differences of published cells" if judged else ""


def _judged(requirement: TableRequirement, loss: Mapping[str, float]) -> Verdict:
    if requirement.figure not in loss:
        raise PlanError(
            f"requirements: a table protected so has no figure {requirement.figure!r}; it has {', '.join(loss)}"
        )
    value = float(loss[requirement.figure])
    low, high = requirement.at_least, requirement.at_most
    holds = (high is None or value <= high) and (low is None or value >= low)
    parts = [
        f"required {word} {bound:g}" for word, bound in (("at most", high), ("at least", low)) if bound is not None
    ]
    return Verdict(requirement.figure, holds, f"{requirement.figure}: reached {value:.6g}, {' and '.join(parts)}")
