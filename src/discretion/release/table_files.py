"""The files of a table release: the public folder and the private journal, whole or not at all."""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion import __version__
from discretion.release.journal import plain, sha256_of, versions
from discretion.release.report.page import template
from discretion.release.report.svg import RELEASED, note, picture, rect, text
from discretion.release.report.wording import count, number, settings_of, title_of
from discretion.release.staging import publishing, release_places
from discretion.release.under_policy import policy_facts, policy_words
from discretion.tables.pivot import Pivot, pivoted
from discretion.tables.publish import write_table

if TYPE_CHECKING:
    from discretion.release.table_plan import TablePlan
    from discretion.release.table_run import TableRelease
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
    from discretion.release.table_run import WORDS

    cells, plan = release.cells, release.plan
    return template("table_page.html").render(
        internal=internal,
        title=plan.plan.title or f"{title_of(cells.response.name)} by {' and '.join(map(' × '.join, cells.tables))}",
        meaning=WORDS[plan.protect.kind],
        facts=public_facts(release),
        hidden=count(int(cells.suppressed.sum())),
        total=count(len(cells)),
        tables=[_drawn(cells, k, internal) for k in range(len(cells.tables))],
        lost=_lost_by_level(cells, internal),
        verdicts=release.verdicts if internal else (),
        differences=differences(release)[:ROWS] if internal else [],
        override=release.override if internal else None,
        rules=[(title_of(rule.kind), settings_of(rule, internal=True)) for rule in plan.rules] if internal else [],
        options=[(name, str(value)) for name, value in plan.protect.options.items()] if internal else [],
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
    named = filter(None, (plan.plan.seed_file, plan.protect.options.get("key_file")))
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
    from discretion.release.table_run import WORDS

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
        "protection": release.plan.protect.kind,
        "meaning": WORDS[release.plan.protect.kind],
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


def _attackers(audit: Any) -> list[str]:
    """Name who was assumed to attack, without numbers of people."""
    from discretion.tables.audit_report import Audit
    from discretion.tables.released_audit import ReleasedAudit

    if isinstance(audit, ReleasedAudit):
        return [audit.attacker]
    if not isinstance(audit, Audit):
        return []
    beside = () if audit.unpublished is None else audit.unpublished.earlier
    earlier = f" and of {len(beside)} earlier release{'s' if len(beside) > 1 else ''}" if beside else ""
    respondents = ["respondents, who know what they contributed"] if "respondent" in audit.attacker else []
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
        "protect": {plan.protect.kind: dict(plan.protect.options)},
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
