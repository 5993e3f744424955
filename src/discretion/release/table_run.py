"""Carrying out a table plan: read, edit the records, tabulate, protect, audit, judge, publish."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion import __version__
from discretion.context import Context, Progress, ignore_progress
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.households import person_column, person_ids
from discretion.errors import DataError, DiscretionError, PlanError, RequirementNotMet
from discretion.release.earlier import Earlier
from discretion.release.journal import input_facts, plain, publishing, release_places, sha256_of, versions
from discretion.release.report.page import template
from discretion.release.report.svg import RELEASED, note, picture, rect, text
from discretion.release.report.wording import count, number, settings_of, title_of
from discretion.release.run import check_plan, read_data, seed_of
from discretion.release.study import Study
from discretion.release.under_policy import policy_facts, policy_words
from discretion.tables.cells import Cells
from discretion.tables.previous import Previous, published_table
from discretion.tables.protections import Asked, Perturb, Restructure
from discretion.tables.publish import Pivot, pivoted, write_table
from discretion.tables.tabulate import COUNT, tabulate

if TYPE_CHECKING:
    from discretion.data.text import Dialect
    from discretion.kernels.arrays import Bools, Floats
    from discretion.release.table_plan import TablePlan, TableRequirement
    from discretion.tables.cells import Cells

# A page about one table: the table drawn, what its signs mean, how it was protected.

ROWS, COLUMNS = 400, 40
"""Rows and columns of a table that the page draws; the files have all of them."""

OPEN = 30
"""Rows up to which the parts of groups are shown at once; those of larger tables are folded."""


@dataclass(frozen=True)
class Drawn:
    """One place of the drawn table."""

    text: str
    kind: str
    """value, hidden, primary, secondary or empty"""
    title: str = ""
    note: str = ""
    """what the internal page says below the value"""


def render_table(release: TableRelease, *, internal: bool) -> str:
    """Give the report on a table as one HTML file that needs nothing else.

    The public version marks suppressed cells alike and tells no parameter. The internal version says of every
    suppressed cell whether it is sensitive, by which rules, or suppressed for others, with true values, settings and
    what the audit found, and says on top that it is not for publication.
    """

    cells, plan = release.cells, release.plan
    return template("table_page.html").render(
        internal=internal,
        title=plan.plan.title or f"{title_of(cells.response.name)} by {' and '.join(map(' × '.join, cells.tables))}",
        meaning=_meaning(plan),
        facts=public_facts(release),
        hidden=count(int(cells.suppressed.sum())),
        total=count(len(cells)),
        tables=[_drawn(cells, k, internal) for k in range(len(cells.tables))],
        lost=_lost_by_level(cells, internal),
        verdicts=release.verdicts if internal else (),
        differences=differences(release)[:ROWS] if internal else [],
        override=release.override if internal else None,
        rules=[(title_of(rule.kind), settings_of(rule, internal=True)) for rule in plan.rules] if internal else [],
        options=[(name, str(value)) for name, value in plan.protect_options().items()] if internal else [],
        loss=[(name.replace("_", " "), number(float(value))) for name, value in release.loss.items()]
        if internal
        else [],
        holds=release.holds,
    )


def differences(release: TableRelease) -> list[tuple[str, str]]:
    """Give the sums that no table shows and what was found about each."""
    beside = getattr(release.audit, "unpublished", None)
    return [] if beside is None else list(zip(beside.labels, beside.bounds.status.tolist(), strict=True))


def _drawn(cells: Cells, table: int, internal: bool) -> dict[str, Any]:
    found = pivoted(cells, None, table)
    rows, columns = min(ROWS, len(found.labels)), min(COLUMNS, len(found.columns))
    drawn = [
        {
            "labels": list(zip(found.labels[row], found.depths[row], strict=True)),
            "level": sum(found.depths[row]),
            "places": [_place(found, row, column, internal) for column in range(columns)],
        }
        for row in range(rows)
    ]
    starts = [row for row in range(rows) if row == 0 or sum(found.depths[row]) <= 1]
    groups = [drawn[i:j] for i, j in pairwise([*starts, len(drawn)])]
    return {
        "title": _capital(" × ".join(cells.tables[table])),
        "caption": _capital(cells.response.name),
        "row_names": found.row_names,
        "column_name": found.column_name,
        "columns": found.columns[:columns],
        "groups": groups,
        "folds": sum(len(group) > 1 for group in groups) > 1,
        "open": rows <= OPEN,
        "left_out": len(found.labels) > rows or len(found.columns) > columns,
        "shown": f"{count(rows)} of {count(len(found.labels))} rows, "
        f"{count(columns)} of {count(len(found.columns))} columns",
    }


def _place(found: Pivot, row: int, column: int, internal: bool) -> Drawn:
    cells, cell = found.cells, int(found.place[row, column])
    if cell < 0:
        return Drawn("", "empty") if found.cells.status.released is None else Drawn("0", "value")
    status = cells.status
    truth = _text(float(cells.value[cell]))
    released = cells.value if status.released is None else status.released
    hidden = bool(cells.suppressed[cell])
    if not internal:
        return Drawn("c", "hidden", "confidential") if hidden else Drawn(_text(float(released[cell])), "value")
    reasons = ", ".join(name for bit, name in enumerate(status.reasons) if int(status.reason[cell]) >> bit & 1)
    if status.primary[cell]:
        return Drawn(truth if hidden else _text(float(released[cell])), "primary", f"sensitive: {reasons}", reasons)
    if status.secondary[cell] and hidden:
        return Drawn(truth, "secondary", "suppressed to protect others", "for others")
    title = f"true value {truth}" if status.released is not None and released[cell] != cells.value[cell] else ""
    return Drawn(_text(float(released[cell])), "value", title)


def _lost_by_level(cells: Cells, internal: bool) -> tuple[str, str] | None:
    """Draw what was lost at each level of each variable: cells not shown, or (internally) how far values changed."""
    hidden = cells.suppressed
    changed = cells.status.released is not None
    if not hidden.any() and not (changed and internal):
        return None
    size = np.abs(np.nan_to_num(cells.value))
    off = np.abs(np.asarray(cells.status.released) - cells.value) if changed else np.zeros(len(cells))
    bars = []
    for j, dim in enumerate(cells.dims):
        depth = np.maximum.reduce(dim.depths)[cells.codes[:, j]]
        for level in np.unique(depth).tolist():
            here = depth == level
            if changed:
                share = float(off[here].sum() / size[here].sum()) if size[here].any() else 0.0
            else:
                share = float(hidden[here].mean())
            bars.append((dim.name, "total" if level == 0 else f"level {level}", int(here.sum()), share))
    what = "Mean change of the values, in percent of them" if changed else "Cells not shown, in percent"
    return what, _bars(bars, what)


def _bars(bars: list[tuple[str, str, int, float]], what: str) -> str:
    wide, high, left = 560, 24, 200
    most = max([share for *_, share in bars], default=0.0) or 1.0
    body = []
    for row, (name, level, cells, share) in enumerate(bars):
        y = 8 + high * row
        length = (wide - left - 130) * share / most
        body += [
            text(left - 10, y + 13, f"{name}, {level}", text_anchor="end"),
            rect(left, y, max(length, 1.0), high - 8, RELEASED),
            note(left + length + 6, y + 13, f"{100 * share:.3g} % of {count(cells)}", "start"),
        ]
    told = "; ".join(f"{name}, {level}: {100 * share:.3g} %" for name, level, _, share in bars)
    return picture(wide, 12 + high * len(bars), what, told, body)


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def _text(value: float) -> str:
    if np.isnan(value):
        return "–"
    if value == np.round(value):
        return f"{int(value):,}".replace("-", "−")
    return f"{value:,.6g}".replace("-", "−") if abs(value) < 1e6 else f"{value:,.2f}".replace("-", "−")


_PUBLIC = re.compile(r"table(?:-\d+)?(?:-pivot|-sdmx)?\.(?:csv|xlsx|json)|report\.(?:html|json)")
_PRIVATE = re.compile(r"journal\.json|plan\.yaml|seed|table\.csv|report\.html")


def check_table_places(
    plan: TablePlan, folder: str | Path, journal: str | Path | None, *, overwrite: bool = False
) -> tuple[Path, Path]:
    """Give the public and the private folder, if both may be written and keep what is secret apart."""
    named = filter(None, (plan.plan.seed_file, plan.protect_options().get("key_file")))
    secrets = [plan.resolve(str(secret)) for secret in named]
    return release_places(folder, journal, secrets=secrets, files=(_PUBLIC, _PRIVATE), overwrite=overwrite)


def write_release(
    release: TableRelease, folder: str | Path, journal: str | Path | None, *, overwrite: bool
) -> tuple[Path, Path]:
    """Write both folders, or neither."""
    public, private = check_table_places(release.plan, folder, journal, overwrite=overwrite)
    with publishing(public, private) as (new_public, new_private):
        digests = _write_tables(release, new_public)
        journal_digest = _write_private(release, new_private, digests, public)
        _write_public(release, new_public, digests, journal_digest)
    return public, private


def _write_tables(release: TableRelease, folder: Path) -> dict[str, str]:
    """Write the files of the table; give their hashes."""
    cells, formats = release.cells, release.plan.output.formats
    several = len(cells.tables) > 1
    for place in range(len(cells.tables)):
        stem = f"table-{place + 1}" if several else "table"
        for kind in formats:
            layout: Any = "pivot" if kind == "xlsx" else kind if kind in ("pivot", "sdmx") else "long"
            if kind in ("csv", "json", "xlsx"):
                write_table(cells, folder / f"{stem}.{kind}", layout=layout, table=place, dialect=release.dialect)
            elif kind in ("pivot", "sdmx"):
                write_table(cells, folder / f"{stem}-{kind}.csv", layout=layout, table=place, dialect=release.dialect)
    return {file.name: sha256_of(file) for file in sorted(folder.iterdir())}


def _write_public(release: TableRelease, folder: Path, digests: dict[str, str], journal: str) -> None:
    """Write the public report; the hash of the journal tells later whether it is the one of this release."""
    formats = release.plan.output.formats
    facts = {**public_facts(release), "files": digests, "journal_sha256": journal}
    (folder / "report.json").write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if "html" in formats:
        (folder / "report.html").write_text(render_table(release, internal=False), encoding="utf-8")
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)


def public_facts(release: TableRelease) -> dict[str, Any]:
    """Collect what may be told to everybody: what the table shows and how it was protected, without any parameter."""

    cells = release.cells
    facts: dict[str, Any] = {
        "format": "discretion-table-report",
        "version": 1,
        "software": f"discretion {__version__}",
        "title": release.plan.plan.title,
        "response": cells.response.name,
        "variables": [list(table) for table in cells.tables],
        "cells": len(cells),
        "suppressed": int(cells.suppressed.sum()),
        "protection": release.plan.protection,
        "meaning": _meaning(release.plan),
    }
    if release.plan.policy is not None:
        facts["policy"] = policy_facts(release.plan.policy)
        facts["waivers"] = [{"requirement": one.requirement, "by": one.by} for one in release.plan.waivers]
        facts["notes"] = policy_words(release.plan.policy, release.plan.waivers)
    attackers = _attackers(release.audit)
    if attackers:
        facts["attackers"] = attackers
    if release.holds:
        facts["verdict"] = "the table was attacked as its readers could; everything that had to hold does"
    return facts


_WITH_RESPONDENTS = re.compile(r"[1-9][\d,]* respondent")


def _attackers(audit: Any) -> list[str]:
    """Name who was assumed to attack, without numbers of people."""
    from discretion.tables.audit import Audit, ReleasedAudit

    if isinstance(audit, ReleasedAudit):
        return [audit.attacker]
    if not isinstance(audit, Audit):
        return []
    beside = () if audit.unpublished is None else audit.unpublished.earlier
    earlier = f" and of {len(beside)} earlier release{'s' if len(beside) > 1 else ''}" if beside else ""
    respondents = ["respondents, who know what they contributed"] if _WITH_RESPONDENTS.search(audit.attacker) else []
    return [f"readers of this table{earlier}", *respondents]


def _write_private(release: TableRelease, folder: Path, digests: dict[str, str], public: Path) -> str:
    """Write the journal; give its hash."""
    from discretion.data.documents import to_yaml

    plan = release.plan
    audit = release.audit
    write_table(release.cells, folder / "table.csv", internal=True)
    texts = {
        "plan.yaml": to_yaml(json.loads(json.dumps(dict(plan.source.content), default=plain))),
        "seed": hex(release.seed) + "\n",
        "report.html": render_table(release, internal=True),
    }
    for name, written in texts.items():
        _write_secret(folder / name, written)
    content = {
        "format": "discretion-table-journal",
        "version": 1,
        "written": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "seed": hex(release.seed),
        "input": {"data": plan.plan.data.get("path"), "base": str(plan.plan.base.absolute()), **release.read},
        "folder": str(public.absolute()),
        "policy": None if plan.policy is None else plan.policy.to_dict(),
        "waivers": [one.model_dump(mode="json", exclude_defaults=True) for one in plan.waivers],
        "rules": [{rule.kind: rule.model_dump(mode="json")} for rule in plan.rules],
        "marks": [{decision: dict(where)} for where, decision in plan.marks],
        "protect": {plan.protection: plan.protect_options()},
        "reached": dict(release.facts),
        "audit": None if audit is None else {"holds": bool(audit.holds), "summary": audit.summary},
        "differences": [{"who": who, "status": finding} for who, finding in differences(release)],
        "verdicts": [vars(verdict) for verdict in release.verdicts],
        "override": None if release.override is None else {"reason": release.override},
        "loss": dict(release.loss),
        "notes": list(release.cells.notes),
        "files": digests,
        "private": {file.name: sha256_of(file) for file in sorted(folder.iterdir())},
        "read": hierarchy_digests(plan),
        "versions": versions(),
    }
    _write_secret(folder / "journal.json", json.dumps(content, indent=2, ensure_ascii=False, default=plain) + "\n")
    return sha256_of(folder / "journal.json")


def _write_secret(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)


def hierarchy_digests(plan: TablePlan) -> dict[str, str]:
    """Give the hashes of the files of hierarchies that a plan names."""
    content = plan.source.content
    found: dict[str, str] = {}

    def look(item: Any) -> None:
        if isinstance(item, str):
            if item and "\n" not in item and (file := plan.plan.base / item).is_file():
                found[item] = sha256_of(file)
        elif isinstance(item, dict | list):
            for part in item.values() if isinstance(item, dict) else item:
                look(part)

    look(content.get("hierarchies"))
    look(content.get("table", {}).get("hierarchies"))
    return found


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
        for place, content in enumerate(contents):
            dims, tables, cells = published_table(content)
            table = tables[place]
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
    if isinstance(plan.protect, Restructure):
        cells = plan.protect(cells, plan.rules, seed=seed).cells
    published, hidden = shown.compared(cells)
    off = ~hidden & ~(np.abs(published - cells.value) <= 1e-6 * np.maximum(np.abs(cells.value), 1.0))
    if off.any():
        raise DataError(
            f"previous: {name} cannot be made again: {int(off.sum())} of its published cells are not what its plan "
            "gives now; its data was changed"
        )
    out = cells.with_status(primary=cells.primary & hidden, secondary=hidden & ~cells.primary)
    if any(key in known and known[key] == read.get(key) for key in ("sha256", "rows_sha256")):
        whom, names = (then.row_ids.tolist(), records.row_ids.tolist()), _names(place, then, records)
        note = "its journal was used; it was made of the same data"
    else:
        whom = _people(place, name, then, records)
        names = whom[0]
        note = (
            "its journal was used; it was made of another delivery, whose people were found again (who came or went "
            "can be told by the categories that did not change: that is not judged)"
        )
    return Previous.matched(out, then, *whom, names=names, name=name, note=note)


def _names(place: Place, then: Dataset, now: Dataset) -> list[Any]:
    """Name people of the same data as other deliveries name them, where a column does; by their rows otherwise."""
    try:
        return _people(place, "", then, now)[0]
    except PlanError:
        return [("row", row) for row in then.row_ids.tolist()]


def _people(place: Place, name: str, then: Dataset, now: Dataset) -> tuple[list[Any], list[Any]]:
    try:
        column = person_column(now, str(place.get("person", "")))
        found, wanted = ([canonical(one) for one in person_ids(data, column).to_list()] for data in (then, now))
    except DiscretionError as error:
        raise PlanError(
            f"previous: {name} was made of another delivery, and its people cannot be found in this one: {error} "
            "(`previous: [{folder: …, journal: …, person: COLUMN}]` names a column)"
        ) from None
    if not set(found) & set(wanted):
        raise DataError(f"previous: {name}: column {column!r} finds nobody of it in this data; name another `person`")
    return found, wanted


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
        ids = _names(place, records.origin, records)
    else:
        ids, now = _people(place, name, earlier.plan.read(), records)
        whom = [ids[row] for row in rows.tolist()], now
    names = [ids[row] for row in rows.tolist()]
    note = f"everybody can count its records by {', '.join(columns)}"
    return Previous.matched(cells, data.frame.select(columns), *whom, names=names, name=name, note=note)


def _changed_by(earlier: Earlier, step: Any) -> list[str]:
    columns = getattr(step.method, "columns", ())
    return list(columns) if columns else list(earlier.plan.schema.columns)


def _meaning(plan: TablePlan) -> str:
    """Say what a reader of the table must know of its protection."""
    return "The cells are published as they are." if plan.protect is None else plan.protect.meaning


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
    current = records
    if plan.plan.steps:
        study = Study(records, seed, progress=progress)
        for step in plan.plan.steps:
            study = study.apply(step)
        current = study.current
    before = previous_tables(plan, current, input_facts(plan.plan, records)) if plan.plan.previous else []
    cells = tabulated(plan, current, seed, before)
    cells = cells.apply_rules(plan.rules) if plan.rules else cells
    for where, decision in plan.marks:
        cells = cells.mark(where, decision)  # type: ignore[arg-type]
    asked = Asked(Context(seed, "table", progress), plan.rules, plan.audit)
    found, facts = None, dict[str, Any]()
    if plan.protect is not None:
        found = plan.protect.protect(cells, asked)
        cells, facts = found.cells, plan.protect.facts(found)
    audit, verdict = _audited(plan, cells, found, asked)
    from discretion.tables.audit import Audit

    loss = cells.loss(audit if isinstance(audit, Audit) else None)
    verdicts = (verdict, *(_judged(item, loss) for item in plan.requirements))
    read = input_facts(plan.plan, records)
    return TableRelease(plan, cells, verdicts, loss, seed, facts, audit, read, records.dialect)


def _check_keys(plan: TablePlan) -> None:
    """Refuse noise by keys that nobody keeps: another draw for the same cells, and averages tell the truth."""
    if not isinstance(plan.protect, Perturb) or plan.plan.demo:
        return
    if not (plan.plan.seed_file or plan.protect.key_file or plan.table.get("record_key")):
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
    if isinstance(protection, Perturb) and "record_key" not in options:
        from discretion.tables.cell_key import with_record_keys

        file = protection.key_file
        keys = {"key_file": plan.resolve(file), "by": protection.key_by or None} if file else {"seed": seed}
        records = with_record_keys(records, "_record_key", **keys)
        options["record_key"] = "_record_key"
    need = max((rule.top_needed() for rule in plan.rules), default=1)
    options.setdefault("top", max(3, need))
    return tabulate(records, options.pop("by"), options.pop("value", None), previous=previous, **options)


def _audited(plan: TablePlan, cells: Cells, found: Any, asked: Asked) -> tuple[Any, TableVerdict]:
    """Attack the table as its readers could, and say what was found."""
    from discretion.tables.previous import at_stake

    if (plan.protect is None or plan.protect.shows_truth) and not at_stake(cells):
        return None, TableVerdict("audit", True, f"audit: no cell is sensitive{_differences_judged(cells)}")
    audit = asked.attack(cells) if plan.protect is None else plan.protect.attack(found, asked)
    return audit, TableVerdict("audit", bool(audit.holds), f"audit: {audit.summary}")


def _differences_judged(cells: Cells) -> str:
    judged = 0 if cells.differences is None else cells.differences.judged
    text = f", nor is one of {judged:,} small differences of published cells" if judged else ""
    notes = () if cells.beside is None else cells.beside.notes
    return ". ".join((text, *(f"{note[:1].upper()}{note[1:]}" for note in notes)))


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
