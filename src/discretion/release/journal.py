"""The private journal: seed, parameters, decisions, hashes and versions, enough to repeat and to audit a release."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion import __version__
from discretion.engines.scan import Scan
from discretion.errors import DataError, PlanError
from discretion.method import Decision
from discretion.release.plan import map_paths, resolve_path
from discretion.release.under_policy import waived

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.release.plan import Plan
    from discretion.release.release import Measured, Release
    from discretion.release.study import Done

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
    from discretion.release.seeds import seed_text, use_line

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
