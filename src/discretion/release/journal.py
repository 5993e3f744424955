"""The private journal: seed, parameters, decisions, hashes and versions, enough to repeat and to audit a release."""

from __future__ import annotations

import datetime as dt
import errno
import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion import __version__
from discretion.context import SMALL_SEED, Context, keyed_hash, new_seed
from discretion.data.write import alone_beside, private_folder, write_text
from discretion.engines.scan import Scan
from discretion.errors import DataError, PlanError
from discretion.method import Decision
from discretion.release.under_policy import waived

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.release.plan import Plan
    from discretion.release.release import Measured, Release
    from discretion.release.study import Done

_HEX_DIGITS = 32
_USED = "used "
OTHER_STEPS = "steps that draw nothing, or the columns"
"""Under this name stands what the steps do as a whole, beside the keys of those that draw."""


def seed_text(seed: int) -> str:
    """Write a seed as 0x and at least 32 digits."""
    return f"0x{seed:0{_HEX_DIGITS}x}\n"


@dataclass(frozen=True)
class SeedFile:
    """A seed with what was published from it; each use holds for every step that drew a keyed hash of its stream."""

    path: Path
    seed: int
    long: bool
    """at least 128 bits as they are written, and not a small number with zeros before it"""
    uses: tuple[Mapping[str, str], ...] = ()

    @classmethod
    def new(cls, path: str | Path) -> SeedFile:
        """Draw a seed and write it into a new file that only the owner may read."""
        file = Path(path)
        write_text(file, seed_text(new_seed()), private=True)
        return cls.read(file)

    @classmethod
    def read(cls, path: str | Path) -> SeedFile:
        """Read a seed file: a whole number, decimal or 0x… hexadecimal, then a line for each published use."""
        file = Path(path)
        if not file.is_file():
            raise PlanError(f"no seed file {str(path)!r}; `discretion seed new {path}` makes one")
        first, *rest = file.read_text(encoding="utf-8").strip().splitlines() or [""]
        if not re.fullmatch(r"\d+|0x[0-9a-fA-F]+", first) or not all(line.startswith(_USED) for line in rest):
            raise PlanError(f"the seed file {file.name!r} must hold one whole number and nothing else but its uses")
        try:
            uses = tuple(json.loads(line.removeprefix(_USED)) for line in rest)
        except json.JSONDecodeError:
            raise PlanError(f"the seed file {file.name!r} is damaged: a line on its use cannot be read") from None
        seed = int(first, 0)
        long = seed >= SMALL_SEED and (not first.startswith("0x") or len(first) >= 2 + _HEX_DIGITS)
        return cls(file, seed, long, uses)

    def require_long(self) -> None:
        """Refuse a seed that somebody could enumerate."""
        if not self.long:
            raise PlanError(
                f"the seed file {self.path.name!r} holds a small seed: anybody who knows one original value could try "
                "them all and undo the protection. `discretion seed new FILE` draws one of 128 bits; for a "
                "demonstration on invented data the plan may say `demo: true`"
            )

    def allow(self, drawn: Mapping[str, bytes]) -> None:
        """Refuse another release from this seed, unless it draws exactly what a published one drew."""
        wanted = hashed(self.seed, drawn)
        if not wanted or not self.uses or wanted in self.uses:
            return
        known = {pair for use in self.uses for pair in use.items()}
        other = [step for step in wanted if step != OTHER_STEPS and (step, wanted[step]) not in known] or [OTHER_STEPS]
        raise PlanError(
            f"the seed file {self.path.name!r} was used for a release that drew otherwise (different here: "
            f"{', '.join(other)}). Two copies of the same people with independent noise can be averaged: two equal "
            "ones leave 0.71 of the noise; and by the same noise the records of two files are joined. Other measures, "
            "requirements and reports are free; for other steps or data "
            "take a new seed file (`discretion seed new FILE`) and name the earlier release under `previous:`, make a "
            "coarser copy by `from:` the journal of the finer one, or let draws belong to people (`by_person: true`) "
            "from the first delivery on"
        )

    def remember(self, drawn: Mapping[str, bytes]) -> None:
        """Add a published use, if it is new; the file is replaced whole, and of two runs at once the second sees it."""
        with alone_beside(self.path):
            now = SeedFile.read(self.path)
            now.allow(drawn)
            if drawn and hashed(self.seed, drawn) not in now.uses:
                text = self.path.read_text(encoding="utf-8").rstrip() + "\n" + use_line(self.seed, drawn)
                write_text(self.path, text, overwrite=True, private=True)


def use_line(seed: int, drawn: Mapping[str, bytes]) -> str:
    """Give the line that a seed file keeps of a use; nothing was drawn: no line."""
    return f"{_USED}{json.dumps(hashed(seed, drawn), sort_keys=True)}\n" if drawn else ""


def hashed(seed: int, drawn: Mapping[str, bytes]) -> dict[str, str]:
    """Hash the keys from which steps drew, under the seed."""
    secret = Context(seed).secret
    return {step: keyed_hash(secret, "used", step, key).hex()[:32] for step, key in drawn.items()}


def release_places(
    folder: str | Path,
    journal: str | Path | None,
    *,
    secrets: Iterable[str],
    files: tuple[re.Pattern[str], re.Pattern[str]],
    overwrite: bool,
) -> tuple[Path, Path]:
    """Give the public and the private folder, if both may be written and keep what is secret apart.

    `secrets` are files that must not lie in the public folder; `files` are the names that an earlier release may have
    left in the public and in the private folder.
    """
    public = Path(folder) if Path(folder).name not in ("", "..") else Path(folder).resolve()
    private = Path(journal) if journal is not None else public.with_name(public.name + "-private")
    for one, other in ((public, private), (private, public)):
        if one.resolve().is_relative_to(other.resolve()):
            raise PlanError("the private journal and the public folder cannot lie in each other")
    for secret in secrets:
        if Path(secret).resolve().is_relative_to(public.resolve()):
            raise PlanError("a seed is a secret and cannot lie in the public folder, nor can a key")
    for place, known in zip((public, private), files, strict=True):
        if place.exists() and not overwrite:
            raise DataError(f"{str(place)!r} exists; overwrite=True replaces it, or choose another folder")
        if place.exists() and not place.is_dir():
            raise DataError(f"{str(place)!r} is a file; a release is a folder")
        _check_replaceable(place, known)
    return public, private


@contextmanager
def publishing(public: Path, private: Path) -> Iterator[tuple[Path, Path]]:
    """Give two new folders to fill; at the end both are moved into place, or neither."""
    with _explained(public), _Staged(public) as new_public, _Staged(private) as new_private:
        yield new_public, new_private
        _swap_in([(new_private, private), (new_public, public)])


@contextmanager
def appearing(folder: Path) -> Iterator[Path]:
    """Give a new folder to fill; at the end it is moved into place."""
    with _explained(folder), _Staged(folder) as new:
        yield new
        _swap_in([(new, folder)])


@contextmanager
def _explained(public: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = "the disk is full" if error.errno == errno.ENOSPC else error.strerror or type(error).__name__
        raise DataError(f"{str(public)!r} was not written: {reason}; nothing was published") from error


def _check_replaceable(place: Path, known: re.Pattern[str]) -> None:
    """Refuse to overwrite a folder that holds anything but an earlier release."""
    others = sorted(f.name for f in place.iterdir() if not known.fullmatch(f.name)) if place.exists() else []
    if others:
        listed = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        raise DataError(f"{str(place)!r} holds more than an earlier release ({listed}); choose another folder")


class _Staged:
    """A new folder beside its destination that only the owner may read; removed again unless it was moved there.

    What killed runs left of such folders is removed too.
    """

    def __init__(self, destination: Path) -> None:
        self.destination = destination

    def __enter__(self) -> Path:
        parent = self.destination.resolve().parent
        parent.mkdir(parents=True, exist_ok=True)
        self.folder = private_folder(parent, f".{self.destination.name}-")
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


_EXPOSED = 20
ORDER_FILE = "order.npy"


def sha256_of(path: Path) -> str:
    """Hash a file without loading it."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def write_journal(release: Release, folder: Path, published: Mapping[Path, str]) -> str:
    """Write journal.json, plan.yaml, seed, decisions.json and order.npy into a folder that only the owner may read.

    Gives the hash of what the journal says, which the public report names, so that a later change of it is seen.

    `published` says where the data files will lie (several for synthetic copies), with the hash of each.
    """
    from discretion.data.documents import to_yaml

    plan = _with_full_paths(release.plan)
    _write(folder / "plan.yaml", to_yaml(json.loads(json.dumps(plan, default=plain))))
    _write(folder / "seed", seed_text(release.study.seed) + use_line(release.study.seed, release.study.drawn))
    saved = {step: dict(decision.values) for step, decision in release.study.decisions.items()}
    _write(folder / "decisions.json", json.dumps(saved, indent=2, default=plain) + "\n")
    release.write_order(folder / ORDER_FILE)
    content = {
        "format": "discretion-journal",
        "version": 1,
        "written": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "seed": hex(release.study.seed),
        "input": release.input(),
        "output": _output(release, published),
        "order": ORDER_FILE,
        "steps": [_step(done) for done in release.study.done],
        "scores": [_scores(item, release.data) for item in release.measured],
        "edit_rules": [one.to_dict() for one in release.edit_checks],
        "averaging": [vars(found) for found in release.averaging],
        "requirements": [finding.to_dict() for finding in release.findings],
        "policy": None if release.plan.policy is None else release.plan.policy.to_dict(),
        "waivers": waived(release.plan),
        "previous": [one.to_dict() for one in release.combined],
        "private": {name: sha256_of(folder / name) for name in ("plan.yaml", ORDER_FILE, "decisions.json")},
        "versions": versions(),
    }
    _write(folder / "journal.json", json.dumps(content, indent=2, ensure_ascii=False, default=plain) + "\n")
    return journal_digest(folder / "journal.json")


def journal_digest(file: Path) -> str:
    """Hash what a journal says, but for the time and the places where things lie: the same run gives the same hash.

    The public report names it. It holds the seed, so that nobody can guess the rest from the hash.
    """
    content = json.loads(file.read_text(encoding="utf-8"))
    for name in ("written", "versions"):
        content.pop(name, None)
    content.get("private", {}).pop("plan.yaml", None)  # it names folders; its own hash is in the journal
    for one in content.get("previous", ()):
        for name in ("journal", "folder", "through"):
            one.pop(name, None)
    output = content["output"]
    for one in (content["input"], output, *output.get("copies", ()), *output.get("parts", ())):
        if isinstance(one, dict) and "file" in one:
            one["file"] = Path(one["file"]).name
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _output(release: Release, published: Mapping[Path, str]) -> dict[str, Any]:
    files: list[dict[str, Any]] = [
        {"file": str(path.absolute()), "sha256": digest} for path, digest in published.items()
    ]
    if len(files) > 1 and release.several == "copies":
        for file, copy in zip(files, release.data.copies(), strict=True):
            file["records"] = len(copy)
    more = {release.several: files} if len(files) > 1 else {}
    levels = {name: level for name, level in release.data.levels.items() if isinstance(level, int)}
    lost = {"records_suppressed": release.data.lost_records, "levels": levels}
    return {**files[0], "records": release.records, **lost, **more}


def write_order(path: Path, original: Dataset, released: Dataset) -> None:
    """Write for each released row its place in the original, from 0 on (−1: none), as int64 in NumPy's format.

    Of several synthetic copies one after the other, each as its file has the rows.
    """
    rows = np.full(len(released), -1, dtype=np.int64)
    if released.origin is original.origin and not released.has_new_rows:
        ids = np.concatenate([copy.row_ids for copy in released.copies()])
        by_id = np.argsort(original.row_ids, kind="stable")
        place = np.searchsorted(original.row_ids[by_id], ids)
        known = ids >= 0
        rows[known] = by_id[place[known]]
    with path.open("wb") as handle:
        np.save(handle, rows, allow_pickle=False)
    path.chmod(0o600)


def read_order(path: str | Path) -> NDArray[np.int64]:
    """Read for each released row its place in the original, from a journal folder or the file `order.npy` itself."""
    file = Path(path) / ORDER_FILE if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise PlanError(f"no order of rows at {str(path)!r}; expected a journal folder with {ORDER_FILE}")
    try:
        rows = np.load(file, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise PlanError(f"{file.name}: not a file of NumPy ({error})") from None
    if not isinstance(rows, np.ndarray) or rows.ndim != 1 or rows.dtype != np.int64:
        raise PlanError(f"{file.name}: expected one row number for each released row, as a journal keeps them")
    return rows


def read_decisions(path: str | Path) -> dict[str, Decision]:
    """Read the decisions a journal kept; `path` is the journal folder or the file."""
    file = Path(path) / "decisions.json" if Path(path).is_dir() else Path(path)
    if not file.is_file():
        raise PlanError(f"no saved decisions at {str(path)!r}")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise PlanError(f"{file.name}: not valid JSON ({error})") from None
    if not isinstance(content, dict) or not all(isinstance(values, dict) for values in content.values()):
        raise PlanError(f"{file.name}: expected the decision of each step, as a journal keeps them")
    return {step: Decision(MappingProxyType(values)) for step, values in content.items()}


def in_journal_order(original: Dataset, released: Dataset, journal: str | Path, file: str | Path) -> Dataset:
    """Give a release that was read from `file` the row ids, levels, lost records and steps that its journal kept.

    The journal of several synthetic copies has the rows of all, one copy after the other.
    """
    rows = read_order(journal)
    content = Path(journal) / "journal.json"
    output = json.loads(content.read_text(encoding="utf-8"))["output"] if content.is_file() else {}
    copies = output.get("copies", [output] if output else [])
    known = [one["sha256"] for one in copies]
    synthetic = bool(len(rows)) and bool((rows < 0).all())
    if synthetic and len(known) > 1:
        rows = rows[: len(released)]  # one of several copies; no row of any belongs to anybody
    elif len(known) > 1 and "records" in copies[0] and Path(file).is_file() and (own := sha256_of(Path(file))) in known:
        ends = np.cumsum([one["records"] for one in copies])
        rows = np.split(rows, ends[:-1])[known.index(own)]
    if len(rows) != len(released) or (known and Path(file).is_file() and sha256_of(Path(file)) not in known):
        raise DataError(f"the journal {str(journal)!r} does not belong to {str(file)!r}: that is not the file it wrote")
    if not synthetic and len(rows) and (rows.min() < 0 or rows.max() >= len(original)):
        raise DataError(f"the journal {str(journal)!r} does not belong to this original: it has other rows")
    found = released.matched_to(original, rows).with_levels(output.get("levels", {}))
    found.lost_records = output.get("records_suppressed", 0)
    return _with_steps(found, journal) if content.is_file() else found


def _with_steps(data: Dataset, journal: str | Path) -> Dataset:
    """Give data with the steps that made it: attacks play who knows them, and carry synthesis out again."""
    from discretion.release.earlier import Earlier

    for step in Earlier.open({"journal": str(journal)}).steps:
        data = data.after(step.method, data)
    return data


def _step(done: Done) -> dict[str, Any]:
    """Write a step: its fields, whether its decision was used again, what it counted and reached.

    What can be used again stands in decisions.json; of the others the rows they name are left out.
    """
    method = done.step.method
    content = {"id": done.step.id, method.kind: method.model_dump(mode="json"), "reused": done.reused}
    if not method.seeded:
        content["fresh_noise"] = "drawn anew in every run: the same plan and seed give other bytes"
    if done.earlier:
        content["earlier"] = "carried out by the release that this one was made from"
    facts = method.facts(done.decision) if method.by_group or method.makes_values or method.private else {}
    return {**content, **({"facts": facts} if facts else {})}


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


def _with_full_paths(plan: Plan) -> dict[str, Any]:
    """Give the plan as plain data, so that it can be carried out again from another folder."""
    from discretion.release.plan import map_paths, resolve_path

    data, output = dict(plan.data), plan.output
    if "path" in data:
        data["path"] = plan.resolve(data["path"])
    folder, journal = (plan.resolve(place) if place else None for place in (output.folder, output.journal))
    seed_file = plan.resolve(plan.seed_file) if plan.seed_file else None
    made_from, *previous = (
        {key: str(Path(path).absolute()) if key in ("journal", "folder") else str(path) for key, path in place.items()}
        for place in (plan.made_from, *plan.previous)
    )
    moved = replace(
        plan,
        data=data,
        output=replace(output, folder=folder, journal=journal),
        seed_file=seed_file,
        made_from=made_from,
        previous=tuple(previous),
    )
    content = moved.to_dict()
    for section in {"steps", "measures", "requirements"} & content.keys():
        content[section] = map_paths(content[section], lambda path: resolve_path(Path.cwd(), path))
    return content


def input_facts(plan: Plan, original: Dataset) -> dict[str, Any]:
    """Say what was read: records, columns, the file and its hash, or a hash of the rows."""
    facts: dict[str, Any] = {"records": len(original), "columns": list(original.columns)}
    if isinstance(original, Scan):
        files = [{"file": str(file), "sha256": found} for file, found in original.hashes(sha256_of).items()]
        return {**facts, "files": files, "engine": original.store.name}
    path = plan.data.get("path")
    if path and "://" not in path and (file := Path(plan.resolve(path))).is_file():
        return {**facts, "file": path, "sha256": sha256_of(file)}
    rows = original.frame.hash_rows(seed=0).to_numpy()
    return {**facts, "rows_sha256": hashlib.sha256(rows.tobytes()).hexdigest()}


def _scores(measured: Measured, released: Dataset) -> dict[str, Any]:
    content: dict[str, Any] = {
        "measure": measured.measure.to_plan(),
        "before": measured.before.to_dict() if measured.before else None,
        "after": measured.after.to_dict(),
    }
    per_record = measured.after.per_record
    if measured.measure.family == "risk" and per_record is not None and not released.has_new_rows:
        worst = np.argsort(-np.nan_to_num(per_record.astype(float)), kind="stable")[:_EXPOSED]
        content["most_exposed_original_rows"] = (released.row_ids[worst] + 1).tolist()
    return content


def versions() -> dict[str, str]:
    """Name the versions of everything a result may depend on."""
    found = {"discretion": __version__, "python": platform.python_version()}
    for name in ("numpy", "numba", "polars", "pyarrow", "scipy", "pydantic"):
        found[name] = metadata.version(name)
    return found


def plain(value: Any) -> Any:
    """Turn what JSON does not know into plain data."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, MappingProxyType):
        return dict(value)
    return str(value)
