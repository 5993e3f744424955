"""A release: the published data, what was measured, whether it may go out, and how it is written."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.data.dataset import Dataset
from discretion.display import figure, table
from discretion.errors import DataError, PlanError, RequirementNotMet, unknown
from discretion.measure import Measure, Score
from discretion.release.gate import Finding
from discretion.release.plan import OUTPUT_FORMATS

if TYPE_CHECKING:
    from discretion.release.plan import Plan
    from discretion.release.study import Study

_PUBLIC_FILES = re.compile(r"data\.\w+|report\.(?:html|json)")
_PRIVATE_FILES = re.compile(r"journal\.json|plan\.yaml|seed|decisions\.json|report\.html")


@dataclass(frozen=True)
class Measured:
    """A measure with its score before (where the original alone can be scored) and after."""

    measure: Measure
    before: Score | None
    after: Score
    publish: bool = False

    @property
    def is_public(self) -> bool:
        """A score that depends on a confidential parameter would give it away, unless the plan publishes it."""
        return self.publish or not set(self.measure.confidential_fields()) & set(self.measure.settings())


@dataclass(frozen=True)
class Release:
    """Everything a finished run gave. `write` publishes it, `require` raises if it may not be published."""

    plan: Plan
    study: Study
    data: Dataset
    measured: tuple[Measured, ...]
    findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        state = "may be published" if self.may_publish else "does not meet its requirements"
        return f"Release({len(self.data)} rows × {len(self.data.columns)} columns; {state})"

    def _repr_html_(self) -> str:
        rows = [
            (m.measure.kind, "" if m.before is None else figure(m.before.value), figure(m.after.value), m.after.better)
            for m in self.measured
        ]
        words = [f"{finding.kind}: {'holds' if finding.holds else 'does not hold'}" for finding in self.findings]
        return table(repr(self), ("measure", "before", "after", "better"), rows, "; ".join(words))

    @cached_property
    def changes(self) -> tuple[frozenset[str], ...]:
        """For each step the columns it changed or dropped."""
        from discretion.release.facts import changed_columns

        states = [self.study.original, *(item.data for item in self.study.done)]
        return tuple(frozenset(changed_columns(before, after)) for before, after in pairwise(states))

    @property
    def may_publish(self) -> bool:
        """Tell whether every requirement holds."""
        return all(finding.holds for finding in self.findings)

    def require(self) -> None:
        """Raise if a requirement does not hold, saying which and by how much."""
        unmet = [finding.explain() for finding in self.findings if not finding.holds]
        if unmet:
            raise RequirementNotMet("nothing was published; not met:\n  " + "\n  ".join(unmet))

    def to_native(self) -> Any:
        """Give the published data in the frame library the original came in."""
        return self.data.to_native()

    def facts(self) -> dict[str, Any]:
        """Give the public facts of the release as plain data (the content of report.json)."""
        from discretion.release.facts import public_facts

        return public_facts(self)

    def places(
        self, folder: str | Path, journal: str | Path | None = None, *, overwrite: bool = False
    ) -> tuple[Path, Path]:
        """Give the folders that `write` would write, or raise where it must not."""
        return check_places(self.plan, folder, journal, overwrite=overwrite)

    def write(
        self, folder: str | Path, journal: str | Path | None = None, *, overwrite: bool = False
    ) -> tuple[Path, Path]:
        """Write the public folder and the private journal, both whole or not at all; give their paths."""
        self.require()
        public, private = self.places(folder, journal, overwrite=overwrite)
        try:
            with _Staged(public) as new_public, _Staged(private) as new_private:
                digest = self._write_public(new_public)
                self._write_private(new_private, digest)
                _swap_in([(new_private, private), (new_public, public)])
        except OSError as error:
            reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or type(error).__name__
            raise DataError(f"{str(public)!r} was not written: {reason}; nothing was published") from error
        return public, private

    def _write_public(self, folder: Path) -> str:
        import json

        from discretion.data.write import write
        from discretion.release.journal import sha256_of
        from discretion.release.report.page import render

        kind = self.plan.output.format
        if kind not in OUTPUT_FORMATS:
            raise PlanError(f"output.format: {unknown('format', kind, OUTPUT_FORMATS)}")
        file = folder / f"data.{OUTPUT_FORMATS[kind]}"
        write(self.data, file)
        facts = {**self.facts(), "data": {"file": file.name, "sha256": sha256_of(file)}}
        (folder / "report.json").write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / "report.html").write_text(render(self, internal=False), encoding="utf-8")
        folder.chmod(0o755)
        return str(facts["data"]["sha256"])

    def _write_private(self, folder: Path, digest: str) -> None:
        from discretion.release.journal import write_journal
        from discretion.release.report.page import render

        write_journal(self, folder, digest)
        report = folder / "report.html"
        report.write_text(render(self, internal=True), encoding="utf-8")
        report.chmod(0o600)


def check_places(
    plan: Plan, folder: str | Path, journal: str | Path | None, *, overwrite: bool = False, seed_file: str | None = None
) -> tuple[Path, Path]:
    """Give the public and the private folder of a release, if both may be written and keep what is secret apart."""
    public = Path(folder) if Path(folder).name not in ("", "..") else Path(folder).resolve()
    private = Path(journal) if journal is not None else public.with_name(public.name + "-private")
    for one, other in ((public, private), (private, public)):
        if one.resolve().is_relative_to(other.resolve()):
            raise PlanError("the private journal and the public folder cannot lie in each other")
    for seed in (seed_file, plan.resolve(plan.seed_file) if plan.seed_file else None):
        if seed is not None and Path(seed).resolve().is_relative_to(public.resolve()):
            raise PlanError("the seed is a secret and cannot lie in the public folder")
    for place, known in ((public, _PUBLIC_FILES), (private, _PRIVATE_FILES)):
        if place.exists() and not overwrite:
            raise DataError(f"{str(place)!r} exists; overwrite it with --force, or choose another folder")
        if place.exists() and not place.is_dir():
            raise DataError(f"{str(place)!r} is a file; a release is a folder")
        _check_replaceable(place, known)
    return public, private


def _check_replaceable(place: Path, known: re.Pattern[str]) -> None:
    """Refuse to overwrite a folder that holds anything but an earlier release."""
    others = sorted(f.name for f in place.iterdir() if not known.fullmatch(f.name)) if place.exists() else []
    if others:
        listed = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        raise DataError(f"{str(place)!r} holds more than an earlier release ({listed}); choose another folder")


class _Staged:
    """A new folder beside its destination that only the owner may read; removed again unless it was moved there."""

    def __init__(self, destination: Path) -> None:
        self.destination = destination

    def __enter__(self) -> Path:
        parent = self.destination.resolve().parent
        parent.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix=f".{self.destination.name}-", dir=parent))
        return self.folder

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def _swap_in(moves: list[tuple[Path, Path]]) -> None:
    """Move finished folders into place; what stood there before comes back if any move fails."""
    undo: list[tuple[Path, Path | None]] = []
    try:
        for new, place in moves:
            for file in new.iterdir():
                with file.open("rb") as handle:
                    os.fsync(handle.fileno())
            old = place.with_name(f".{place.name}.old-{new.name}") if place.exists() else None
            if old is not None:
                place.rename(old)
            undo.append((place, old))
            new.rename(place)
    except BaseException:
        for place, old in reversed(undo):
            shutil.rmtree(place, ignore_errors=True)
            if old is not None:
                old.rename(place)
        raise
    for _, old in undo:
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
