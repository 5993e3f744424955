"""Carrying out a table plan: read, edit the records, tabulate, protect, audit, judge, publish."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.context import Context, Progress, ignore_progress
from discretion.data.dataset import Dataset
from discretion.data.persons import person_column, person_ids
from discretion.errors import DataError, DiscretionError, PlanError, RequirementNotMet
from discretion.release.earlier import Earlier
from discretion.release.journal import input_facts, sha256_of
from discretion.release.run import check_plan, read_data, seed_of
from discretion.release.study import Study
from discretion.tables.cells import Cells
from discretion.tables.previous import Previous, published_table
from discretion.tables.tabulate import COUNT, tabulate

if TYPE_CHECKING:
    from discretion.data.dialect import Dialect
    from discretion.kernels.arrays import Bools, Floats
    from discretion.release.table_plan import TablePlan, TableRequirement

# Earlier releases that the readers of a new table have too: tables and microdata, with or without their journals.

_TRUE = ("none", "suppress", "restructure")
"""Protections that leave the values that are shown as they are."""
FEW_VALUES = 100
"""Different values up to which a column of released records counts as a variable of the table made of them."""
Place = Mapping[str, str | Path]


def previous_tables(plan: TablePlan, records: Dataset, read: Mapping[str, Any]) -> list[Previous]:
    """Open the earlier releases of a plan and find its records in them; `read` says what the records were read from.

    With its private journal an earlier table is made again, with its own rules, and its records are found by their
    place (the same data) or by the people they are about. Without it only what everybody has is used: the published
    cells, if the plan's data gives the same figures.
    """
    return [_opened(plan, place, records, read) for place in plan.plan.previous]


def _opened(plan: TablePlan, place: Place, records: Dataset, read: Mapping[str, Any]) -> Previous:
    journal = _json(Path(place["journal"]) / "journal.json", "private journal") if "journal" in place else None
    if journal is not None and journal.get("format") == "discretion-journal":
        return _microdata(plan, place, records, read)
    folder = Path(place.get("folder") or str((journal or {}).get("folder", "")))
    report = _json(folder / "report.json", "release of a table")
    if report.get("format") != "discretion-table-report":
        raise PlanError(
            f"previous: {str(folder)!r} is no release of a table; of a release of records give the private journal"
        )
    if report["protection"] not in _TRUE:
        raise PlanError(
            f"previous: the values of {str(folder)!r} were changed ({report['protection']}); only tables that show "
            "true values can be taken into account"
        )
    _check_files(folder, report, Path(place["journal"]) if journal is not None else None, journal)
    shown = _shown(folder, report)
    if journal is None:
        return _public(plan, folder, shown, records)
    return _private(place, folder, journal, shown, records, read)


def _json(file: Path, what: str) -> dict[str, Any]:
    if not file.is_file():
        raise PlanError(f"previous: {str(file.parent)!r} is no {what}: it has no {file.name}")
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def _check_files(folder: Path, report: Mapping[str, Any], private: Path | None, journal: Any) -> None:
    """Refuse what is not byte for byte what was released."""
    for name, digest in report["files"].items():
        if not (folder / name).is_file() or sha256_of(folder / name) != digest:
            raise DataError(f"previous: {str(folder / name)!r} is not what was released: its hash is another one")
    if private is None:
        return
    if "journal_sha256" not in report:
        raise PlanError(f"previous: {str(folder)!r} does not name its journal; it was written by an older version")
    if sha256_of(private / "journal.json") != report["journal_sha256"] or journal["files"] != report["files"]:
        raise DataError(
            f"previous: the journal {str(private)!r} is not the one of {str(folder)!r}, or it was changed: its hash is "
            "another one"
        )
    if "private" not in journal:
        raise PlanError(f"previous: the journal {str(private)!r} names no hash of its plan; an older version wrote it")
    if sha256_of(private / "plan.yaml") != journal["private"]["plan.yaml"]:
        raise DataError(f"previous: {str(private / 'plan.yaml')!r} is not the plan of this release: its hash differs")


class _Shown:
    """The cells of a release as its public files show them."""

    def __init__(self, contents: list[dict[str, Any]]) -> None:
        self.dims: dict[str, Any] = {}
        self.tables: list[list[str]] = []
        self.cells: dict[tuple[tuple[str, str], ...], float | None] = {}
        self.response = str(contents[0]["response"])
        for number, content in enumerate(contents):
            dims, tables, cells = published_table(content)
            table = tables[number]
            self.tables.append(table)
            self.dims |= {name: dims[name] for name in table}
            names = list(dims)
            for codes, value, _ in cells:
                self.cells[self.key(dict(zip(names, codes, strict=True)), dims)] = value

    @staticmethod
    def key(codes: Mapping[str, str], dims: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        return tuple(sorted((name, code) for name, code in codes.items() if code != dims[name].codes[0]))

    def compared(self, cells: Cells) -> tuple[Floats, Bools]:
        """Give for each cell of a table made again what was published, and whether it was suppressed."""
        dims = {dim.name: dim for dim in cells.dims}
        keys = [self.key(cells.label(cell), dims) for cell in range(len(cells))]
        value = np.array([np.nan if (v := self.cells.get(key, 0.0)) is None else v for key in keys])
        return value, np.array([self.cells.get(key, 0.0) is None for key in keys], np.bool_)


def _shown(folder: Path, report: Mapping[str, Any]) -> _Shown:
    files = sorted(
        (folder / name for name in report["files"] if name.startswith("table") and name.endswith(".json")),
        key=lambda file: (len(file.name), file.name),
    )
    if not files:
        raise PlanError(f"previous: {str(folder)!r} has no table as JSON; release tables with the format json")
    return _Shown([json.loads(file.read_text(encoding="utf-8")) for file in files])


def _public(plan: TablePlan, folder: Path, shown: _Shown, records: Dataset) -> Previous:
    """Make the table again from the new records; it must be what was published, or nobody can be found in it."""
    name = f"the release {folder.name!r}"
    value = None if shown.response == COUNT else shown.response
    try:
        again = tabulate(records, shown.tables, value, hierarchies=shown.dims, weight=plan.table.get("weight"))
    except DiscretionError as error:
        raise DataError(
            f"previous: {name} has other divisions than this data ({error}); give its private journal (`journal`)"
        ) from None
    published, hidden = shown.compared(again)
    off = ~hidden & (np.abs(published - again.value) > 1e-6 * np.maximum(np.abs(again.value), 1.0))
    if off.any():
        raise DataError(
            f"previous: {name} is of other records: {int(off.sum())} of its {int((~hidden).sum())} published cells "
            "are not what this data gives; give its private journal (`journal`), and `person` for another delivery"
        )
    out = again.with_status(secondary=hidden)
    note = "only its public files were used; the rules of this table say which of its suppressed cells are sensitive"
    return Previous.of(out, records, name=name, judged=False, note=note)


def _private(
    place: Place, folder: Path, journal: Mapping[str, Any], shown: _Shown, records: Dataset, read: Mapping[str, Any]
) -> Previous:
    """Carry out the earlier plan again, with its rules, and find the new records among its own."""
    from discretion.data.documents import read_document
    from discretion.release.study import Study
    from discretion.release.table_files import hierarchy_digests
    from discretion.release.table_plan import TablePlan

    name = f"the release {folder.name!r}"
    text = read_document(Path(place["journal"]) / "plan.yaml")
    plan = TablePlan.from_text(text, Path(journal["input"]["base"]))
    seed = int(str(journal["seed"]), 16)
    read_then = read_records(plan)
    known = journal["input"]
    facts = input_facts(plan.plan, read_then)
    if any(known[key] != facts.get(key) for key in ("sha256", "rows_sha256") if key in known):
        raise DataError(f"previous: {name} cannot be made again: its data was changed (another hash)")
    if hierarchy_digests(plan) != journal["read"]:
        raise DataError(f"previous: {name} cannot be made again: a file of its hierarchies was changed (another hash)")
    study = Study(read_then, seed)
    for step in plan.plan.steps:
        study = study.apply(step)
    then = study.current
    cells = tabulated(plan, then, seed)
    cells = cells.apply_rules(plan.rules) if plan.rules else cells
    for where, decision in plan.marks:
        cells = cells.mark(where, decision)  # type: ignore[arg-type]
    if plan.protect.kind == "restructure":
        cells = cells.restructure(plan.rules, **plan.protect.options).cells
    published, hidden = shown.compared(cells)
    off = ~hidden & ~(np.abs(published - cells.value) <= 1e-6 * np.maximum(np.abs(cells.value), 1.0))
    if off.any():
        raise DataError(
            f"previous: {name} cannot be made again: {int(off.sum())} of its published cells are not what its plan "
            "gives now; its data was changed"
        )
    out = cells.with_status(primary=cells.primary & hidden, secondary=hidden & ~cells.primary)
    if any(key in known and known[key] == read.get(key) for key in ("sha256", "rows_sha256")):
        whom = then.row_ids.tolist(), records.row_ids.tolist()
        note = "its journal was used; it was made of the same data"
    else:
        whom = _people(place, name, then, records)
        note = (
            "its journal was used; it was made of another delivery, whose people were found again (who came or went "
            "can be told by the categories that did not change: that is not judged)"
        )
    return Previous.matched(out, then, *whom, name=name, note=note)


def _people(place: Place, name: str, then: Dataset, now: Dataset) -> tuple[list[Any], list[Any]]:
    try:
        column = person_column(now, str(place.get("person", "")))
        return person_ids(then, column).to_list(), person_ids(now, column).to_list()
    except DiscretionError as error:
        raise PlanError(
            f"previous: {name} was made of another delivery, and its people cannot be found in this one: {error} "
            "(`previous: [{folder: …, journal: …, person: COLUMN}]` names a column)"
        ) from None


def _microdata(plan: TablePlan, place: Place, records: Dataset, read: Mapping[str, Any]) -> Previous:
    """Take released records as the table that anybody can make of them.

    By the variables of the new table and all others of few values; columns that were perturbed say nothing for certain
    and are left out.
    """
    earlier = Earlier.open(place)
    name = f"the released records of {earlier.folder.name!r}"
    data = earlier.published()
    rows = earlier.row_ids(len(data))
    by = plan.table["by"]
    wanted = [column for item in by for column in ([item] if isinstance(item, str) else item)]
    noisy = {column for step in earlier.steps if step.method.perturbs for column in _changed_by(earlier, step)}
    columns = [
        column
        for column in data.columns
        if column not in noisy and (column in wanted or data.frame[column].n_unique() <= FEW_VALUES)
    ]
    if not columns:
        raise PlanError(f"previous: {name} shows no column of few values as it was; leave it out")
    cells = tabulate(data.frame.select(columns), columns)
    if earlier.same_input(read):
        whom = rows.tolist(), records.row_ids.tolist()
    else:
        then = earlier.plan.read()
        ids, now = _people(place, name, then, records)
        whom = [ids[row] for row in rows.tolist()], now
    note = f"everybody can count its records by {', '.join(columns)}"
    return Previous.matched(cells, data.frame.select(columns), *whom, name=name, note=note)


def _changed_by(earlier: Earlier, step: Any) -> list[str]:
    columns = getattr(step.method, "columns", ())
    return list(columns) if columns else list(earlier.plan.schema.columns)


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
class TableVerdict:
    """Whether something that must hold does, in words; for the office."""

    name: str
    holds: bool
    text: str


@dataclass(frozen=True)
class TableRelease:
    """A finished table: what goes out, what the audit found, whether it may be published."""

    plan: TablePlan
    cells: Cells
    verdicts: tuple[TableVerdict, ...]
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
        waived = any(one.requirement == "audit" for one in self.plan.waivers)
        if self.plan.policy is not None and not waived:
            raise PlanError(
                f"override: under the policy {self.plan.policy.name!r} a table that fails goes out only with a waiver "
                "of `audit` in the plan"
            )
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


def _audited(plan: TablePlan, cells: Cells, result: Any, ctx: Context) -> tuple[Any, TableVerdict]:
    """Attack the table as its readers could, and say what was found."""
    from discretion.tables.controlled_rounding import Rounded
    from discretion.tables.released_audit import audit_adjusted, audit_perturbed, audit_rounded
    from discretion.tables.widened import at_stake

    if isinstance(result, Rounded):
        found: Any = audit_rounded(result, progress=ctx.progress)
    elif plan.protect.kind == "adjust":
        found = audit_adjusted(cells)
    elif plan.protect.kind == "perturb":
        chance = {name: plan.audit[name] for name in ("chance_percent",) if name in plan.audit}
        found = audit_perturbed(result, progress=ctx.progress, **chance)
    elif not at_stake(cells):
        return None, TableVerdict("audit", True, f"audit: no cell is sensitive{_differences_judged(cells)}")
    elif plan.protect.kind == "suppress":
        found = result.audit
    else:
        found = cells.audit(ctx=ctx.within("audit"), **_audit_options(plan))
    return found, TableVerdict("audit", bool(found.holds), f"audit: {found.summary}")


def _differences_judged(cells: Cells) -> str:
    judged = 0 if cells.differences is None else cells.differences.judged
    return f", nor is one of {judged:,} small differences of published cells" if judged else ""


def _judged(requirement: TableRequirement, loss: Mapping[str, float]) -> TableVerdict:
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
    return TableVerdict(requirement.figure, holds, f"{requirement.figure}: reached {value:.6g}, {' and '.join(parts)}")
