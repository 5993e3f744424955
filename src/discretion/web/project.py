"""A project is a folder: the plan, the secret seed, the data, results by content, jobs, and who did what when.

The plan is the state: `discretion run FOLDER/plan.yaml` publishes the same bytes as the app.

A job is a process of its own session that survives the page and the server; `job.json` is replaced by renaming, and
process number and start time tell a worker from a later process of the same number. A spare worker waits with
everything loaded, so that a job begins at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from discretion.data.documents import read_document, write_document
from discretion.data.write import alone_beside, write_text
from discretion.errors import DataError, PlanError, unknown

_NAME = re.compile(r"[^\W_][\w .-]{0,62}")
_FILE_NAME = re.compile(r"[^\w.-]+")
_MOST_RESULTS = 40
"""Results that are kept; older ones are made again when they are asked for."""
_MEASURED = ("data", "roles", "types", "orders", "hierarchies", "missing_codes", "knows_method", "edit_rules")
"""Entries of the plan, besides the steps, on which figures depend."""
FULL_MAP, LIVE_MAP = "balance.json", "balance-live.json"
"""The map of the last search that ended, and that of one that runs or was cancelled."""
K = 5
"""The group size that a new project requires."""


def now() -> str:
    """Give the time, for histories and journals."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def safe_file_name(given: str) -> str:
    """Make the name of an uploaded file one that names a file in one folder and nothing else."""
    plain = given.replace("\\", "/").rpartition("/")[2]
    kept = _FILE_NAME.sub("_", plain).strip("._ ")[-100:].lstrip("._-")
    return kept or "data.csv"


def read_json(path: Path) -> Any:
    """Read a small file of the app; None where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def write_json(path: Path, content: Any) -> None:
    """Write a small file of the app, whole or not at all, for the owner alone."""
    write_text(path, json.dumps(content, ensure_ascii=False, default=str), overwrite=True, private=True)


@dataclass(frozen=True)
class Project:
    """One project, by its folder; nothing is kept in memory, so that every browser and process sees the same."""

    folder: Path

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.name

    @property
    def url(self) -> str:
        """Where the project stands in the app."""
        return f"/p/{quote(self.name)}"

    @property
    def owner(self) -> str:
        """Who opened it: where several people use a server, nobody else changes it or sees its rows."""
        file = self.folder / "owner"
        return file.read_text(encoding="utf-8").strip() if file.exists() else ""

    # --- the plan ------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> dict[str, Any]:
        """The plan as plain data."""
        return dict(read_document(self.folder / "plan.yaml").content)

    @property
    def text(self) -> str:
        """The plan as it stands in its file."""
        return (self.folder / "plan.yaml").read_text(encoding="utf-8")

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps of the plan, each as `{kind: {field: value}}`."""
        return as_steps(self.plan.get("steps"))

    def save(self, plan: Mapping[str, Any], what: str, who: str) -> None:
        """Put another plan in place of the present one, and write down who did so."""
        with alone_beside(self.folder / "plan.yaml"):
            kept = {key: value for key, value in plan.items() if value not in (None, "", {}, [])}
            write_document(kept, self.folder / "plan.yaml")
            self.note(what, who)

    def note(self, what: str, who: str) -> None:
        """Add a line to the history."""
        with (self.folder / "history.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"at": now(), "who": who, "what": what}, ensure_ascii=False) + "\n")

    def history(self) -> list[dict[str, str]]:
        """Give who did what when, the last first."""
        file = self.folder / "history.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return [json.loads(line) for line in reversed(lines)]

    def script(self) -> str:
        """Give the Python script that does what the plan does."""
        from discretion.part import parse

        lines = [
            "import discretion as dc",
            "from discretion.release.run import read_seed",
            "",
            'plan = dc.Plan.load("plan.yaml")',
            'study = dc.Study(plan.read(), seed=read_seed("seed"))',
        ]
        for spec in self.steps:
            step = parse(spec, "method")
            given = ", ".join(f"{name}={_written(getattr(step, name))}" for name in step.settings())
            lines.append(f"study = study.apply(dc.{type(step).__name__}({given}))")
        return "\n".join([*lines, 'study.release("release", "private", plan=plan, overwrite=True)', ""])

    # --- what was read and measured ------------------------------------------------------------------------------

    def key(self, steps: Sequence[Mapping[str, Any]] | None = None, plan: Mapping[str, Any] | None = None) -> str:
        """Give the key of the results of some steps: a hash of the data, its roles and the steps."""
        content = self.plan if plan is None else plan
        given = [content.get(name) for name in _MEASURED]
        chosen = as_steps(content.get("steps")) if steps is None else list(steps)
        text = json.dumps([given, self._delivery(content), chosen], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def _delivery(self, plan: Mapping[str, Any]) -> list[int]:
        """Tell one delivery of the data file from the next."""
        file = self.data_file(plan)
        if file is None or not file.exists():
            return []
        found = file.stat()
        return [found.st_size, found.st_mtime_ns]

    def data_file(self, plan: Mapping[str, Any] | None = None) -> Path | None:
        """Give the file of the data, if it is one."""
        given = (self.plan if plan is None else plan).get("data")
        path = given.get("path") if isinstance(given, Mapping) else given
        return None if path is None or "://" in str(path) else self.folder / str(path)

    def place(self, key: str) -> Path:
        """Give the folder of some results."""
        return self.folder / "results" / key

    def result(self, name: str = "status", key: str | None = None) -> Any:
        """Give a result of the present steps (or of a key): `status`, `attacks`; None where it was not made."""
        return read_json(self.place(key or self.key()) / f"{name}.json")

    def read(self) -> Any:
        """Give what is known of the file as it was read: rows, columns, proposals; None before it was read."""
        return read_json(self.folder / "results" / "columns.json")

    def map(self, *, running: bool = False) -> Any:
        """Give the map of the balance: while a search runs its own, otherwise the last whole one; None without any."""
        names = (LIVE_MAP,) if running else (FULL_MAP, LIVE_MAP)
        return next((found for name in names if (found := read_json(self.folder / name))), None)

    def did(self, plan: Mapping[str, Any]) -> list[list[str]]:
        """Give what each step of a plan did, in sentences; nothing where a step was not carried out here."""
        steps = as_steps(plan.get("steps"))
        keys = [self.key(steps[: number + 1], plan) for number in range(len(steps))]
        return [self.result("did", key) or [] for key in keys]

    def forget_results(self) -> None:
        """Keep the results that were used last, and remove the others."""
        found = [place for place in (self.folder / "results").iterdir() if place.is_dir()]
        for place in sorted(found, key=lambda one: one.stat().st_mtime)[:-_MOST_RESULTS]:
            shutil.rmtree(place, ignore_errors=True)

    # --- files ---------------------------------------------------------------------------------------------------

    def published(self) -> list[str]:
        """Name the public files, if the project has published."""
        place = self.folder / "release"
        return sorted(file.name for file in place.iterdir() if file.is_file()) if place.is_dir() else []

    def published_file(self, name: str) -> Path:
        """Give one of the public files; other names are refused."""
        if name not in self.published():
            raise LookupError(name)
        return self.folder / "release" / name

    def next_version(self, who: str) -> None:
        """Put a release aside, so that other steps may be published: new draws, and the earlier release is named."""
        if not self.published():
            raise PlanError("nothing was published yet; there is no next version to begin")
        from discretion.release.journal import SeedFile

        number = len(list((self.folder / "earlier").glob("*"))) + 1
        place = self.folder / "earlier" / str(number)
        place.mkdir(parents=True, mode=0o700)
        for name in ("release", "private", "seed"):
            (self.folder / name).rename(place / name)
        SeedFile.new(self.folder / "seed")
        plan = self.plan
        earlier = {"journal": f"earlier/{number}/private", "folder": f"earlier/{number}/release"}
        self.save({**plan, "previous": [*plan.get("previous", []), earlier]}, f"began version {number + 1}", who)
        for place in (self.folder / "results").iterdir():  # drawn from the earlier seed
            if place.is_dir():
                shutil.rmtree(place, ignore_errors=True)


def output_of(data: Path) -> dict[str, str]:
    """Say where a release goes, and in which format: that of the data, where releases can be written in it."""
    from discretion.data.text import format_of
    from discretion.release.plan import OUTPUT_FORMATS

    try:
        kind = format_of(data, None)
    except PlanError:  # said when the file is read
        kind = "csv"
    return {
        "folder": "release",
        "journal": "private",
        **({"format": kind} if kind in {*OUTPUT_FORMATS} - {"csv"} else {}),
    }


def as_steps(given: Any) -> list[dict[str, Any]]:
    """Give the steps of a plan in one form; `none` and a step that is only a kind are allowed in plans."""
    found = given if isinstance(given, list) else []
    named = [{one: {}} if isinstance(one, str) else one for one in found]
    return [{kind: fields or {} for kind, fields in one.items()} for one in named]


def required_in(plan: Mapping[str, Any]) -> list[Any]:
    """Give what decides the verdicts of a plan: its requirements, its policy and the waivers."""
    return [plan.get(name) for name in ("requirements", "policy", "waivers")]


def _written(value: Any) -> str:
    """Write a setting as Python."""
    from discretion.part import Part

    if isinstance(value, Part):
        given = ", ".join(f"{name}={_written(getattr(value, name))}" for name in value.settings())
        return f"dc.{type(value).__name__}({given})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_written, value)) + "]"
    return repr(value)


@dataclass(frozen=True)
class Projects:
    """The folder in which the projects lie."""

    root: Path

    def __iter__(self) -> Iterator[Project]:
        found = [file.parent for file in self.root.glob("*/plan.yaml")]
        return iter(Project(folder) for folder in sorted(found) if _NAME.fullmatch(folder.name))

    def open(self, name: str) -> Project:
        """Give a project by its name."""
        if not _NAME.fullmatch(name) or not (self.root / name / "plan.yaml").is_file():
            raise LookupError(name)
        return Project(self.root / name)

    def new(self, name: str, who: str, *, data: Path | None = None, title: str = "") -> Project:
        """Make a project; `data` stays where it is, uploaded data is put in place with `take`."""
        from discretion.release.journal import SeedFile

        name = " ".join(name.split()).rstrip(".")
        if not _NAME.fullmatch(name):
            raise PlanError("the name of a project has letters, digits, spaces, dots and dashes, at most 63 of them")
        if data is not None and not data.is_file():
            raise DataError(f"there is no file {str(data)!r} on this computer")
        name, folder = self._free(name, who)
        if folder.exists() and self._was_never_read(Project(folder)):
            shutil.rmtree(folder)
        if folder.exists():
            raise PlanError(f"there is a project {name!r} already; choose another name, or delete that one first")
        folder.mkdir(mode=0o700, parents=True)
        for part in ("jobs", "results", "hierarchies", "source"):
            (folder / part).mkdir(mode=0o700)
        SeedFile.new(folder / "seed")
        write_text(folder / "owner", f"{who}\n", private=True)
        made = Project(folder)
        plan = {
            "title": title or name,
            "data": None if data is None else str(data.resolve()),
            "confirmed": False,
            "seed_file": "seed",
            "output": output_of(Path("data.csv") if data is None else data),
        }
        made.save(plan, "opened" if data is None else f"opened {data.name}", who)
        return made

    @staticmethod
    def _was_never_read(project: Project) -> bool:
        """Tell whether the file of a project was not understood: then another one may take its place."""

        job = last_job(project)
        return project.read() is None and job is not None and job["state"] not in RUNNING

    def _free(self, name: str, who: str) -> tuple[str, Path]:
        """Give the name, with a number behind it where a project of somebody else has it: nobody learns of that one."""
        number, tried = 1, name
        while (folder := self.root / tried).exists() and Project(folder).owner != who:
            number += 1
            tried = f"{name} {number}"
        return tried, folder

    def demo(self, who: str) -> Project:
        """Make the invented census with its hierarchies, whose roles are known, or give it where it is there."""
        from discretion.release.example import PEOPLE, write_example

        name, folder = self._free("demo", who)
        if (folder / "plan.yaml").is_file():
            return self.open(name)
        made = self.new("demo", who, title="Census of an invented country")
        example = made.folder / "source" / "example"
        write_example(example, PEOPLE)
        (example / "census.csv").rename(made.folder / "source" / "census.csv")
        for file in (example / "hierarchies").iterdir():
            file.rename(made.folder / "hierarchies" / file.name)
        known = read_document(example / "plan.yaml").content
        shutil.rmtree(example)
        kept = {name: known[name] for name in ("roles", "types", "hierarchies")}
        made.save({**made.plan, **kept, "data": "source/census.csv"}, "opened the demo", who)
        return made


def hierarchy_files(project: Project, names: Sequence[str]) -> dict[str, str]:
    """Find for each column the uploaded file whose name ends in the column's name: `adult_hierarchy_age.csv`."""
    files = sorted(file.name for file in (project.folder / "hierarchies").glob("*.*"))
    found: dict[str, str] = {}
    for column in names:
        plain = _plain(column)
        fitting = [name for name in files if (stem := _plain(Path(name).stem)) == plain or stem.endswith(f" {plain}")]
        if fitting:
            found[column] = f"hierarchies/{min(fitting, key=len)}"
    return found


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", " ", name).strip().lower()


def require_kind(kind: str, known: Sequence[str], what: str) -> None:
    """Refuse a name that is none of those known."""
    if kind not in known:
        raise PlanError(unknown(what, kind, known))


RUNNING = ("waiting", "running")
_JOB = re.compile(r"\d{8}-\d{6}-\d{6}-[0-9a-f]{6}")
_PATIENCE = 60.0
"""Seconds within which a worker must have taken up its job."""
_SOFT, _STEP = 0.12, 0.01
"""Seconds that a cancelled worker has to clean up before it is killed."""
_KEPT = 50
"""Jobs of a project that are remembered."""


def started(pid: int) -> str:
    """Tell a process from a later one with the same number; empty when it is gone."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        try:
            state, *rest = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            return ""
        return "" if state in "ZX" else rest[18]
    asked = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    found = asked.stdout.strip()
    return "" if found.startswith("Z") else found.partition(" ")[2]


def jobs_of(project: Project, most: int = _KEPT) -> list[dict[str, Any]]:
    """Give the jobs of a project, the last first."""
    names = sorted((file.parent.name for file in (project.folder / "jobs").glob("*/job.json")), reverse=True)
    return [found for name in names[:most] if (found := job_of(project, name))]


def last_job(project: Project) -> dict[str, Any] | None:
    """Give the job that was asked for last."""
    return next(iter(jobs_of(project, 1)), None)


def job_of(project: Project, number: str) -> dict[str, Any] | None:
    """Give a job as it stands; one whose process is gone without a word is lost."""
    if not _JOB.fullmatch(number):
        return None
    file = project.folder / "jobs" / number / "job.json"
    job: dict[str, Any] | None = read_json(file)
    if job is None:
        return None
    if job["state"] == "running" and started(job["pid"]) != job["process"]:
        job = read_json(file)  # it may just have ended
        if job and job["state"] == "running":
            return {**job, "state": "lost", "label": "the process that did it is gone; nothing was changed"}
    elif job["state"] == "waiting" and time.time() - job["asked"] > _PATIENCE:
        return {**job, "state": "lost", "label": "it never began; start it again"}
    return job


def cancel(project: Project, number: str, who: str) -> None:
    """Stop a job: the worker and all it started; what it has not finished is as if it had never begun."""
    end = time.time() + _PATIENCE
    job = job_of(project, number)
    while job and job["state"] == "waiting" and time.time() < end:
        time.sleep(_STEP)
        job = job_of(project, number)
    if not job or job["state"] != "running":
        return
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(job["pid"], sign)
        end = time.monotonic() + _SOFT
        while started(job["pid"]) == job["process"] and time.monotonic() < end:
            time.sleep(_STEP)
    after = read_json(project.folder / "jobs" / number / "job.json")
    if after and after["state"] == "running":
        ended = {**after, "state": "cancelled", "label": "cancelled", "ended": time.time()}
        write_json(project.folder / "jobs" / number / "job.json", ended)
        project.note(f"cancelled: {job['title']}", who)


class Workers:
    """Starts jobs; keeps one spare worker warm. An unused spare ends with the server, a job does not."""

    def __init__(self, *, warm: bool = True) -> None:
        self._spare: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._warm = warm

    def warm(self) -> None:
        """Have a spare worker ready."""
        with self._lock:
            if self._spare is None or self._spare.poll() is not None:
                self._spare = self._new()

    @staticmethod
    def _new() -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "discretion.web.worker"]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
        )

    def start(self, project: Project, kind: str, title: str, who: str, **wanted: Any) -> str:
        """Begin a job in a project in which none runs; give its number."""
        with alone_beside(project.folder / "jobs" / "lock"):
            before = last_job(project)
            if before and before["state"] in RUNNING:
                raise PlanError("something is already running in this project; wait for it, or cancel it")
            moment = time.time()
            part = f"{moment % 1:.6f}"[2:]
            number = time.strftime("%Y%m%d-%H%M%S", time.gmtime(moment)) + f"-{part}-{secrets.token_hex(3)}"
            folder = project.folder / "jobs" / number
            folder.mkdir(mode=0o700)
            job = {"id": number, "kind": kind, "title": title, "who": who, "wanted": wanted, "asked": moment}
            write_json(folder / "job.json", {**job, "state": "waiting", "done": 0, "total": 0, "label": "starting"})
        self._hand_over(folder)
        _forget(project)
        return number

    def _hand_over(self, folder: Path) -> None:
        with self._lock:
            worker, self._spare = self._spare, None
        if worker is None or worker.poll() is not None:
            worker = self._new()
        if worker.stdin is not None:
            worker.stdin.write(f"{folder}\n")
            worker.stdin.close()
        threading.Thread(target=worker.wait, daemon=True).start()  # or it would stay as a zombie
        if self._warm:
            self.warm()

    def close(self) -> None:
        """Let the spare go; jobs run on."""
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None and spare.stdin is not None:
            spare.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                spare.wait(5)


def _forget(project: Project) -> None:
    import shutil

    for folder in sorted((project.folder / "jobs").glob("*-*-*-*"))[:-_KEPT]:
        shutil.rmtree(folder, ignore_errors=True)
