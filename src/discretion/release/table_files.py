"""The files of a table release: the public folder and the private journal, whole or not at all."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion import __version__
from discretion.release.journal import plain, sha256_of, versions
from discretion.release.staging import publishing, release_places
from discretion.tables.publish import write_table

if TYPE_CHECKING:
    from discretion.release.table_plan import TablePlan
    from discretion.release.table_run import TableRelease

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
    for number in range(len(cells.tables)):
        stem = f"table-{number + 1}" if several else "table"
        for kind in formats:
            layout: Any = "pivot" if kind == "xlsx" else kind if kind in ("pivot", "sdmx") else "long"
            if kind in ("csv", "json", "xlsx"):
                write_table(cells, folder / f"{stem}.{kind}", layout=layout, table=number, dialect=release.dialect)
            elif kind in ("pivot", "sdmx"):
                write_table(cells, folder / f"{stem}-{kind}.csv", layout=layout, table=number, dialect=release.dialect)
    return {file.name: sha256_of(file) for file in sorted(folder.iterdir())}


def _write_public(release: TableRelease, folder: Path, digests: dict[str, str], journal: str) -> None:
    """Write the public report; the hash of the journal tells later whether it is the one of this release."""
    from discretion.release.report.table_page import render_table

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
    from discretion.release.report.table_page import differences, render_table

    plan = release.plan
    audit = release.audit
    write_table(release.cells, folder / "table.csv", internal=True)
    texts = {
        "plan.yaml": to_yaml(json.loads(json.dumps(dict(plan.source.content), default=plain))),
        "seed": hex(release.seed) + "\n",
        "report.html": render_table(release, internal=True),
    }
    for name, text in texts.items():
        _write_secret(folder / name, text)
    content = {
        "format": "discretion-table-journal",
        "version": 1,
        "written": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "seed": hex(release.seed),
        "input": {"data": plan.plan.data.get("path"), "base": str(plan.plan.base.absolute()), **release.read},
        "folder": str(public.absolute()),
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
