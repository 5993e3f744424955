"""Earlier releases that the readers of a new table have too: tables and microdata, with or without their journals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.data.dataset import Dataset
from discretion.data.persons import person_column, person_ids
from discretion.errors import DataError, DiscretionError, PlanError
from discretion.release.earlier import Earlier
from discretion.release.journal import input_facts, sha256_of
from discretion.tables.previous import Previous, published_table
from discretion.tables.tabulate import COUNT, tabulate

if TYPE_CHECKING:
    from discretion.kernels.arrays import Bools, Floats
    from discretion.release.table_plan import TablePlan
    from discretion.tables.cells import Cells

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
    from discretion.release.table_run import read_records, tabulated

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
