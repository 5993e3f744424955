"""A query service on the data of a project: its file, its process, its ledger. It outlives the app, as a job does."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any

from discretion.data.write import write_text
from discretion.errors import DataError, PlanError
from discretion.web.project import Project, read_json, started, write_json

_SECONDS = 60.0
"""Seconds within which a service must listen."""
_LISTENING = re.compile(r"listening on (\S+)")
FILE, STATE, LOG = "service.yaml", "service.json", "service.log"


def drafted(project: Project) -> str:
    """Give the service file of a project; the first one is cautious and declares nothing that the owner must."""
    file = project.folder / FILE
    if file.exists():
        return file.read_text(encoding="utf-8")
    from discretion.online.declare import draft
    from discretion.release.plan import Plan

    plan = project.plan
    data = Plan.from_dict({"data": plan["data"]}, project.folder).read()
    given = plan["data"]["path"] if isinstance(plan["data"], dict) else plan["data"]
    return draft(data, str(given))


def save(project: Project, text: str, who: str) -> None:
    """Keep the service file, if it can be read."""
    from discretion.online.declare import ServiceSpec

    file, before = project.folder / FILE, None
    if file.exists():
        before = file.read_text(encoding="utf-8")
    write_text(file, text.replace("\r\n", "\n"), overwrite=True, private=True)
    try:
        ServiceSpec.load(str(file))
    except BaseException:
        if before is None:
            file.unlink()
        else:
            write_text(file, before, overwrite=True, private=True)
        raise
    project.note("declared the query service", who)


def state_of(project: Project) -> dict[str, Any] | None:
    """Give the running service: its address and keys; None where none runs."""
    found: dict[str, Any] | None = read_json(project.folder / STATE)
    return found if found and started(found["pid"]) == found["process"] else None


def start(project: Project, who: str) -> None:
    """Start the service on a free port of this computer, with new keys for an analyst and an auditor."""
    if state_of(project) is not None:
        raise PlanError("the service runs already")
    if not (project.folder / FILE).exists():
        raise PlanError("save the declaration of the service first")
    log = project.folder / LOG
    before = log.stat().st_size if log.exists() else 0  # what was refused earlier stays
    command = [sys.executable, "-m", "discretion", "serve", FILE, "--port", "0", "--host", "127.0.0.1"]
    command += ["--new-key", "analyst", "--new-key", "auditor"]
    with os.fdopen(os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "a") as errors:
        process = subprocess.Popen(
            command, cwd=project.folder, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
    known: dict[str, str] = {}
    if process.stdout is not None:
        with process.stdout:  # the keys come first, and nothing after them
            lines = [process.stdout.readline().strip() for _ in range(2)]
        known = dict(line.split("\t", 1) for line in lines if "\t" in line)
    threading.Thread(target=process.wait, daemon=True).start()  # or it would stay as a zombie
    end = time.monotonic() + _SECONDS
    while (address := _LISTENING.search(log.read_text()[before:])) is None:
        if process.poll() is not None or time.monotonic() > end:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            raise DataError(f"the service did not start: {log.read_text()[before:].strip()[-500:]}")
        time.sleep(0.1)
    state = {"pid": process.pid, "process": started(process.pid), "address": address[1], "keys": known}
    write_json(project.folder / STATE, state)
    project.note("started the query service", who)


def stop(project: Project, who: str) -> None:
    """End the service; questions that run are answered."""
    state = state_of(project)
    if state is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(state["pid"], signal.SIGTERM)
    end = time.monotonic() + 10
    while started(state["pid"]) == state["process"] and time.monotonic() < end:
        time.sleep(0.05)
    (project.folder / STATE).unlink(missing_ok=True)
    project.note("stopped the query service", who)


def told(state: dict[str, Any], what: str) -> Any:
    """Ask the running service as its auditor: budgets, the ledger; None where it does not answer."""
    request = urllib.request.Request(
        f"{state['address']}{what}", headers={"X-API-Key": state["keys"].get("auditor", "")}
    )
    try:
        with urllib.request.urlopen(request, timeout=3) as answer:
            return json.load(answer)
    except (OSError, urllib.error.URLError, ValueError):
        return None


_ASKED = ("exact", "dp", "perturbed", "refused")
_SHOWN = 50


def asked(state: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Give the last questions of the ledger, the last first; None where the service does not answer."""
    found: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = told(state, f"/history?limit=1000&after={after}")
        if page is None:
            return None
        found = [*found, *(one for one in page["entries"] if one["kind"] in _ASKED)][-_SHOWN:]
        after = page["next"]
    return [
        {"time": one["time"], "user": one["user"], "kind": one["kind"], "words": _words(one["query"])}
        for one in reversed(found)
    ]


def refused(project: Project) -> list[dict[str, str]]:
    """Give the questions that were refused, with the reason, the last first; also those of earlier runs.

    They come from the log of the service, which never holds a value that somebody compared a column with.
    """
    log = project.folder / LOG
    found = []
    for line in log.read_text().splitlines() if log.exists() else ():
        if not line.startswith("{") or '"status": 403' not in line:
            continue
        one = json.loads(line)
        question = one.get("question")
        words = _shape(question) if question else "a question that cannot be asked here"
        found.append({"time": one["time"], "user": one.get("user", ""), "words": words, "why": one.get("reason", "")})
    return found[: -_SHOWN - 1 : -1]


def _shape(one: dict[str, Any]) -> str:
    """Write the shape of a question: figures, what was compared, groups."""
    where = f" where {', '.join(one['where'])} …" if one["where"] else ""
    by = f" by {', '.join(one['group_by'])}" if one["group_by"] else ""
    return f"{', '.join(one['figures'])} of {one['table']}{where}{by}"


def _words(query: dict[str, Any]) -> str:
    """Write a question of the ledger; conditions as they were asked."""
    if "aggregates" not in query:
        return ""
    figures = [" ".join(filter(None, (one["function"], one.get("column")))) for one in query["aggregates"]]
    where = f" where {_condition(query['where'])}" if query.get("where") else ""
    by = f" by {', '.join(query['group_by'])}" if query.get("group_by") else ""
    return f"{', '.join(figures)} of {query.get('table', '')}{where}{by}"


def _condition(one: Any) -> str:
    """Write a condition of a question as a person reads it: `sex = "f" and age >= 40`."""
    if not isinstance(one, dict):
        return str(one)
    for joint in ("and", "or"):
        if joint in one:
            return f" {joint} ".join(
                f"({_condition(part)})" if {"and", "or"} & {*part} else _condition(part) for part in one[joint]
            )
    if "not" in one:
        return f"not ({_condition(one['not'])})"
    compared = [json.dumps(value, ensure_ascii=False) for value in one.get("values", ())]
    return f"{one.get('column', '')} {one.get('op', '')} {', '.join(compared)}".strip()
