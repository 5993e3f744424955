"""A release: the published data, what was measured, whether it may go out, and how it is written."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError, RequirementNotMet
from discretion.measure import Measure, Score
from discretion.release.gate import Finding

if TYPE_CHECKING:
    from discretion.release.plan import Plan
    from discretion.release.study import Study

_EXTENSIONS = {
    "csv": "csv", "parquet": "parquet", "arrow": "arrow", "feather": "feather", "excel": "xlsx", "xlsx": "xlsx",
    "jsonl": "jsonl", "stata": "dta", "dta": "dta", "spss": "sav", "sav": "sav", "sas": "xpt", "xpt": "xpt",
}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """A measure with its score before (where the original alone can be scored) and after."""

    measure: Measure
    before: Score | None
    after: Score

    @property
    def is_public(self) -> bool:
        """A score that depends on a confidential parameter would give it away."""
        return not set(self.measure.confidential_fields()) & set(self.measure.settings())


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

    def write(
        self, folder: str | Path, journal: str | Path | None = None, *, overwrite: bool = False
    ) -> tuple[Path, Path]:
        """Write the public folder and the private journal, both whole or not at all; give their paths."""
        self.require()
        public = Path(folder)
        private = Path(journal) if journal is not None else public.with_name(public.name + "-private")
        _check_places(public, private, overwrite)
        self._check_seed_place(public)
        with _Staged(public) as new_public, _Staged(private) as new_private:
            digest = self._write_public(new_public)
            self._write_private(new_private, digest)
            _swap_in([(new_public, public), (new_private, private)])
        return public, private

    def _check_seed_place(self, public: Path) -> None:
        if self.plan.seed_file is not None:
            seed = Path(self.plan.resolve(self.plan.seed_file)).resolve()
            if seed.is_relative_to(public.resolve()):
                raise PlanError("the seed is a secret and cannot lie in the public folder")

    def _write_public(self, folder: Path) -> str:
        import json

        from discretion.data.write import write
        from discretion.release.journal import sha256_of
        from discretion.release.report.page import render

        kind = self.plan.output.format
        if kind not in _EXTENSIONS:
            raise PlanError(f"output.format: {kind!r} is not one of {', '.join(_EXTENSIONS)}")
        file = folder / f"data.{_EXTENSIONS[kind]}"
        write(self.data, file)
        facts = {**self.facts(), "data": {"file": file.name, "sha256": sha256_of(file)}}
        (folder / "report.json").write_text(json.dumps(facts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (folder / "report.html").write_text(render(self, internal=False), encoding="utf-8")
        return str(facts["data"]["sha256"])

    def _write_private(self, folder: Path, digest: str) -> None:
        from discretion.release.journal import write_journal
        from discretion.release.report.page import render

        folder.chmod(0o700)
        write_journal(self, folder, digest)
        (folder / "report.html").write_text(render(self, internal=True), encoding="utf-8")


def _check_places(public: Path, private: Path, overwrite: bool) -> None:
    for one, other in ((public, private), (private, public)):
        if one.resolve() == other.resolve() or one.resolve().is_relative_to(other.resolve()):
            raise PlanError("the private journal and the public folder cannot lie in each other")
    for place in (public, private):
        if place.exists() and not overwrite:
            raise DataError(f"{str(place)!r} exists; overwrite it with --force, or choose another folder")
        if place.exists() and not place.is_dir():
            raise DataError(f"{str(place)!r} is a file; a release is a folder")


class _Staged:
    """A new folder beside its destination; removed again unless it was moved there."""

    def __init__(self, destination: Path) -> None:
        self.destination = destination

    def __enter__(self) -> Path:
        parent = self.destination.resolve().parent
        try:
            parent.mkdir(parents=True, exist_ok=True)
            self.folder = Path(tempfile.mkdtemp(prefix=f".{self.destination.name}-", dir=parent))
        except OSError as error:
            raise DataError(f"cannot write to {str(parent)!r}: {error.strerror}") from None
        self.folder.chmod(0o755)
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
