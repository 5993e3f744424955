"""What a project remembers of its results, the folder that is handed to a checker, and the checker's signature."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discretion.data.atomic import replacing
from discretion.errors import DataError, PlanError, RequirementNotMet, unknown
from discretion.outputs.history import LEFT_OUT, OutputGroups
from discretion.policy.policy import Policy, Waiver

if TYPE_CHECKING:
    from discretion.outputs.project import ResearchOutput

Decided = Literal["release", "refuse"]
_MANIFEST, _SIGNATURE = "manifest.json", "signature.json"


class ProjectMemory:
    """The private folder of a project: which records stand behind each result that was handed in and not refused."""

    def __init__(self, folder: Path, labels: Sequence[str]) -> None:
        self.folder = folder
        for place in (folder, folder / "requests", self.pictures):
            place.mkdir(parents=True, exist_ok=True)
            place.chmod(0o700)
        self._place = {label: number for number, label in enumerate(labels)}
        self.labels = list(labels)

    @property
    def pictures(self) -> Path:
        """Where pictures are drawn until they are handed in."""
        return self.folder / "pictures"

    def groups(self) -> list[OutputGroups]:
        """Give the records behind every result that was handed in and not refused, as places in the present data.

        Rows that the present data does not have any more are left out, new ones were not counted then.
        """
        found: list[OutputGroups] = []
        for state in sorted((self.folder / "requests").glob("*.json")):
            content = json.loads(state.read_text(encoding="utf-8"))
            with np.load(state.with_suffix(".npz"), allow_pickle=False) as arrays:
                kept = {name: arrays[name] for name in arrays.files}
            places = np.array([self._place.get(label, -1) for label in kept["labels"].tolist()], dtype=np.int64)
            for one in content["outputs"]:
                if one["decision"] == "refuse":
                    continue
                for key, names, variables in one["groups"]:
                    group = self._full(kept[key].astype(np.int64), places, LEFT_OUT)
                    values = {name: self._full(kept[f"{key}-{n}"], places, np.nan) for n, name in enumerate(variables)}
                    found.append(OutputGroups(one["name"], group, tuple(names), values))
        return found

    def _full(self, stored: Any, places: Any, nothing: float) -> Any:
        full = np.full(len(self.labels), nothing, dtype=stored.dtype)
        full[places[places >= 0]] = stored[places >= 0]
        return full

    def remember(self, request: str, outputs: Sequence[ResearchOutput]) -> None:
        """Keep what a request tells; it counts from now on, until a checker refuses it."""
        arrays: dict[str, Any] = {"labels": np.array(self.labels, dtype=np.str_)}
        content = []
        for number, one in enumerate(outputs):
            groups = []
            for part, own in enumerate(one.groups):
                key = f"{number}-{part}"
                arrays[key] = own.group.astype(np.int32)
                arrays |= {f"{key}-{n}": values for n, values in enumerate(own.values.values())}
                groups.append((key, list(own.names), list(own.values)))
            content.append({"name": one.name, "decision": "", "groups": groups})
        place = self.folder / "requests" / f"{request}.json"
        with replacing(place.with_suffix(".npz"), overwrite=False) as temporary, temporary.open("wb") as handle:
            np.savez_compressed(handle, **arrays)
        _write(place, {"format": "discretion-request-memory", "version": 1, "outputs": content})
        place.with_suffix(".npz").chmod(0o600)

    @staticmethod
    def decide(folder: str | Path, request: str, decisions: Mapping[str, Decided]) -> None:
        """Remember what the checker decided on each output of a request."""
        place = Path(folder) / "requests" / f"{request}.json"
        if not place.is_file():
            raise DataError(f"the project {str(folder)!r} knows nothing of this request; was it made elsewhere?")
        content = json.loads(place.read_text(encoding="utf-8"))
        for one in content["outputs"]:
            one["decision"] = decisions[one["name"]]
        _write(place, content)


def _write(place: Path, content: Mapping[str, Any]) -> None:
    with replacing(place, overwrite=True) as temporary:
        temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    place.chmod(0o600)


def _sha256(place: Path) -> str:
    with place.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@dataclass(frozen=True)
class Request:
    """A folder of results for the checker: files, verdicts and reasons, with the hash of everything."""

    folder: Path
    content: Mapping[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> Request:
        """Read a request."""
        place = Path(folder) / _MANIFEST
        if not place.is_file():
            raise DataError(f"no request at {str(folder)!r}; expected a folder with {_MANIFEST}")
        try:
            content = json.loads(place.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise DataError(f"{_MANIFEST}: not valid JSON ({error})") from None
        if not isinstance(content, dict) or content.get("format") != "discretion-outputs":
            raise DataError(f"{_MANIFEST}: not the list of a request")
        return cls(Path(folder), content)

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on each output."""
        return {one["name"]: one["verdict"] for one in self.content["outputs"]}

    @property
    def signature(self) -> dict[str, Any] | None:
        """What the checker signed, if anybody did."""
        place = self.folder / _SIGNATURE
        if not place.is_file():
            return None
        found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        return found

    def changes(self) -> list[str]:
        """Say what is not as it was handed in, or as it was signed."""
        found = []
        known = {_MANIFEST, _SIGNATURE, "review.md"}
        for one in self.content["outputs"]:
            for file in one["files"]:
                place = self.folder / file["file"]
                known.add(file["file"])
                if not place.is_file():
                    found.append(f"{file['file']} is missing")
                elif _sha256(place) != file["sha256"]:
                    found.append(f"{file['file']} was changed")
        found += [f"{one.name} was added" for one in sorted(self.folder.iterdir()) if one.name not in known]
        signed = self.signature
        if signed is not None and signed["manifest_sha256"] != _sha256(self.folder / _MANIFEST):
            found.append(f"{_MANIFEST} was changed after it was signed")
        return found

    def sign(
        self,
        project: str | Path,
        by: str,
        decisions: Mapping[str, Decided] | None = None,
        *,
        note: str = "",
        policy: Policy | None = None,
    ) -> dict[str, Any]:
        """Decide on the outputs and sign: the project remembers what was released, and what was refused.

        Without `decisions`, outputs that pass are released and all others refused. To release one that fails, the
        researcher must have asked for an exception, and the policy must let the checker (`NAME, FUNCTION`) waive it.
        """
        if not by.strip():
            raise PlanError("a signature needs the name of the checker (`NAME, FUNCTION`)")
        if self.signature is not None:
            raise DataError("the request is signed already; what was decided stays")
        if problems := self.changes():
            raise DataError("the request is not as it was handed in: " + "; ".join(problems))
        given = dict(decisions or {})
        names = {one["name"]: one for one in self.content["outputs"]}
        faults = [unknown("output", name, list(names)) for name in given if name not in names]
        chosen: dict[str, Decided] = {
            name: given.get(name, "release" if one["verdict"] == "pass" else "refuse") for name, one in names.items()
        }
        rules = policy or Policy.load(self.content["policy"]["name"])
        if rules.digest != self.content["policy"]["sha256"]:
            raise PlanError("the policy is not the one the outputs were judged by; give that one")
        for name, one in names.items():
            if chosen[name] != "release" or one["verdict"] != "fail":
                continue
            if not one["exception"]:
                faults.append(f"{name} fails, and nobody asked for an exception")
            elif reason := rules.refuses(Waiver(requirement="outputs", by=by, why=one["exception"])):
                faults.append(f"{name}: {reason}")
        if faults:
            raise RequirementNotMet("nothing was signed:\n  " + "\n  ".join(faults))
        signature = {
            "by": by,
            "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "decisions": chosen,
            "note": note,
            "manifest_sha256": _sha256(self.folder / _MANIFEST),
        }
        ProjectMemory.decide(project, self.content["id"], chosen)
        _write(self.folder / _SIGNATURE, signature)
        return signature

    def export(self, folder: str | Path) -> list[Path]:
        """Copy the files of the released outputs to a new folder: what may leave the center."""
        signed, target = self.signature, Path(folder)
        if signed is None:
            raise RequirementNotMet("nobody has signed this request; nothing may leave")
        if problems := self.changes():
            raise DataError("the request is not as it was signed: " + "; ".join(problems))
        if target.exists():
            raise DataError(f"{str(folder)!r} exists; choose another folder")
        target.mkdir(parents=True)
        chosen = [one for one in self.content["outputs"] if signed["decisions"][one["name"]] == "release"]
        files = [file["file"] for one in chosen for file in one["files"]]
        return [Path(shutil.copyfile(self.folder / name, target / name)) for name in files]


def write_request(folder: Path, outputs: Sequence[ResearchOutput], policy: Policy, memory: ProjectMemory) -> Request:
    """Write the folder of a request, whole or not at all, and remember what it tells."""
    if folder.exists():
        raise DataError(f"{str(folder)!r} exists; choose another folder")
    new = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    new.mkdir(parents=True)
    new.chmod(0o700)
    try:
        listed = [_put(one, new) for one in outputs]
        content = {
            "format": "discretion-outputs",
            "version": 1,
            "id": secrets.token_hex(16),
            "written": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "policy": {"name": policy.name, "sha256": policy.digest},
            "outputs": listed,
        }
        (new / _MANIFEST).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (new / "review.md").write_text(_review(listed, policy), encoding="utf-8")
        memory.remember(str(content["id"]), outputs)
        new.rename(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    return Request.open(folder)


def _put(one: ResearchOutput, folder: Path) -> dict[str, Any]:
    """Write the files of an output; give what the list says of it."""
    files = []
    stem = re.sub(r"[^\w.-]", "_", one.name)
    for number, table in enumerate(one.tables):
        place = folder / f"{stem}{'' if not number else f'_{number}'}.csv"
        table.to_csv(place)
        files.append(place)
    for file in one.files:
        place = folder / f"{stem}_{file.name}"
        shutil.copyfile(file, place)
        files.append(place)
    return {
        "name": one.name,
        "kind": one.kind,
        "command": one.command,
        "verdict": one.verdict,
        "reasons": list(one.reasons),
        "notes": list(one.notes),
        "comments": list(one.comments),
        "exception": one.exception,
        "files": [{"file": place.name, "sha256": _sha256(place)} for place in files],
    }


def _review(listed: Sequence[Mapping[str, Any]], policy: Policy) -> str:
    lines = [f"# Outputs for review (policy {policy.name})", ""]
    for one in listed:
        lines += [f"## {one['name']}: {one['verdict']}", "", f"{one['kind']}: `{one['command']}`", ""]
        lines += [f"- {text}" for text in (*one["reasons"], *one["notes"])]
        lines += [f"- comment: {text}" for text in one["comments"]]
        lines += [f"- exception asked for: {one['exception']}"] if one["exception"] else []
        lines += [f"- file: {file['file']}" for file in one["files"]]
        lines.append("")
    return "\n".join(lines)
