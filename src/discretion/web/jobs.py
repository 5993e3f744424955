"""Long work: a process of its own session for each job, told and followed through files.

A job survives the page and the server; `job.json` is replaced by renaming, and process number and start time tell a
worker from a later process of the same number. A spare worker waits with everything loaded, so that a job begins at
once.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from discretion.data.atomic import alone_beside
from discretion.errors import PlanError
from discretion.web.project import Project, read_json, write_json

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
