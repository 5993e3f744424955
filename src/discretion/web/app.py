"""The routes of the pages: GET shows the state of a project, POST changes it and redirects.

A part of a page is the same address with the header `X-Part`; nothing of the state is in the page.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, StreamingResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import FormData, UploadFile
from starlette.responses import Response

from discretion import __version__
from discretion.data.documents import yaml_value
from discretion.data.schema import ROLES, TYPES
from discretion.errors import DiscretionError, PlanError
from discretion.method import PURPOSES, Method
from discretion.part import all_parts, find, index
from discretion.release.report.wording import count, counted, number, of_people, percent, plain, title_of
from discretion.web import actions as acts
from discretion.web import service as services
from discretion.web.actions import Actions
from discretion.web.form import (
    FormField,
    Typed,
    faults_of,
    fields_of,
    is_used,
    kinds_of,
    rows_of,
    settings_of,
    typed_of,
    value_of,
)
from discretion.web.guard import REPORT_POLICY, WHO, WebUser
from discretion.web.project import (
    FULL_MAP,
    LIVE_MAP,
    RUNNING,
    K,
    Project,
    Projects,
    as_steps,
    cancel,
    hierarchy_files,
    job_of,
    jobs_of,
    last_job,
    read_json,
    required_in,
    write_json,
)

if TYPE_CHECKING:
    from discretion.policy.policy import Policy


class NewProject(BaseModel):
    """A project of a file on the computer of the server."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    path: str = Field(max_length=4000)
    """the file of the data; it stays where it is"""
    name: str = Field("", max_length=63)
    """without it, the name of the file"""


class Wish(BaseModel):
    """Work to be done in a project."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    kind: Annotated[str, Field(pattern="^(read|measure|attacks|release)$")]
    """read the file, measure and judge, run every attack, or publish"""


class ProjectBody(BaseModel):
    """A project as it stands."""

    name: str
    plan: dict[str, Any]
    status: dict[str, Any] | None
    verdicts: list[dict[str, Any]]
    published: list[str]


def add_rest(app: FastAPI, actions: Actions) -> None:
    """Add the routes below /api."""

    projects = actions.projects

    def body(project: Project) -> ProjectBody:
        found = project.result("verdicts") or {"found": []}
        status = project.result()
        kept = (
            None
            if status is None
            else {name: value for name, value in status.items() if name not in ("pictures", "small")}
        )
        return ProjectBody(
            name=project.name, plan=project.plan, status=kept, verdicts=found["found"], published=project.published()
        )

    @app.get("/api/projects", summary="The projects")
    def list_projects(request: Request) -> list[str]:
        return [project.name for project in visible(request, projects)]

    @app.post("/api/projects", status_code=201, summary="A new project of a file on this computer")
    def new_project(request: Request, wish: NewProject) -> ProjectBody:
        return body(actions.open_path(wish.name, str(Path(wish.path)), owner(request)))

    @app.get("/api/projects/{name}", summary="Plan, figures and verdicts of a project")
    def show_project(name: str) -> ProjectBody:
        return body(projects.open(name))

    @app.put("/api/projects/{name}/plan", status_code=202, summary="Another plan; starts a job that carries it out")
    def put_plan(request: Request, name: str, plan: dict[str, Any]) -> dict[str, Any]:
        project = projects.open(name)
        actions.set_plan(project, plan, owner(request))
        return jobs_of(project, 1)[0]

    @app.post("/api/projects/{name}/steps", status_code=202, summary="One more step; it stands in the plan when done")
    def add_step(request: Request, name: str, step: dict[str, Any]) -> dict[str, Any]:
        project = projects.open(name)
        if len(step) != 1:
            raise PlanError("expected one step as {kind: {fields}}")
        actions.add_step(project, step, owner(request))
        return jobs_of(project, 1)[0]

    @app.delete("/api/projects/{name}/steps/last", summary="Undo the last step")
    def undo(request: Request, name: str) -> ProjectBody:
        project = projects.open(name)
        actions.undo(project, owner(request))
        return body(project)

    @app.get("/api/projects/{name}/jobs", summary="The jobs, the last first")
    def list_jobs(name: str) -> list[dict[str, Any]]:
        return jobs_of(projects.open(name))

    @app.post("/api/projects/{name}/jobs", status_code=202, summary="Start a job")
    def start_job(request: Request, name: str, wish: Wish) -> dict[str, Any]:
        project, user = projects.open(name), owner(request)
        work = {"read": actions.read, "measure": actions.judge, "attacks": actions.attack, "release": actions.publish}
        work[wish.kind](project, user)
        return jobs_of(project, 1)[0]

    @app.get("/api/projects/{name}/jobs/{job}", summary="A job")
    def show_job(name: str, job: str) -> dict[str, Any]:
        if (found := job_of(projects.open(name), job)) is None:
            raise LookupError(job)
        return found

    @app.delete("/api/projects/{name}/jobs/{job}", summary="Cancel a job")
    def cancel_job(request: Request, name: str, job: str) -> dict[str, Any]:
        project, user = projects.open(name), owner(request)
        cancel(project, job, user)
        return show_job(name, job)

    @app.get("/api/projects/{name}/results/{what}", summary="Figures: status, attacks, verdicts")
    def show_result(name: str, what: str) -> Any:
        found = projects.open(name).result(what) if what in ("status", "attacks", "verdicts") else None
        if found is None:
            raise LookupError(what)
        return found

    @app.get("/api/projects/{name}/release/{file}", summary="A published file")
    def get_file(name: str, file: str) -> Response:
        found = projects.open(name).published_file(file)
        return FileResponse(found, filename=file, headers={"content-security-policy": REPORT_POLICY})


HERE = Path(__file__).parent
ROWS = 25
"""Rows on a page of the data."""
_LIVE = 0.3
"""Seconds between two looks at the map of a search."""
STEPS = ("data", "roles", "risk", "protect", "balance", "release")
BESIDE = ("tables", "service", "plan", "history")
_STATIC = {"look.css": "text/css", "page.js": "text/javascript"}
_LEADS = {
    "take out": "Leave out columns or records, or keep them apart.",
    "blur groups": "Less detail, so that people share their values with others. What stays is true.",
    "hide exact numbers": "Move numbers a little, or replace them by those of a group.",
    "swap": "Exchange values between people.",
    "make up": "Draw values, or whole records, from a model.",
    "other": "Mend what other steps broke, and methods of other packages.",
}
_PLACES = {
    "read": "data", "attacks": "risk", "release": "release", "tune": "balance", "compare": "balance", "table": "tables",
}  # fmt: skip
"""The pages of jobs: what became of one is said there."""
_OF_STEPS = ("protect", "risk", "release")
_NEEDS: Mapping[str, tuple[str, str]] = {
    "drop-identifiers": ("identifier", "no column has the role identifier"),
    "pseudonymize": ("identifier", "no column has the role identifier"),
    "reissue-weights": ("weight", "no column has the role weight"),
    "at-household-level": ("household", "no column has the role household"),
    "blank-and-impute": ("household", "no column has the role household"),
    "confidentiality-edit": ("geography", "no column has the role geography"),
    "targeted-record-swap": ("geography", "no column has the role geography"),
    "hide-rules": ("set", "no column has sets of items"),
    "km-generalization": ("set", "no column has sets of items"),
    "restore-edit-rules": ("rules", "there are no edit rules"),
}
"""What a method needs, and what is said where the data does not have it."""
_ROLE_WORDS = {
    "identifier": "names a person: never published",
    "quasi": "others may know it about a person",
    "sensitive": "nobody should learn it of a person; published as it is unless a step changes it",
    "weight": "how many people the record stands for",
    "household": "who lives together",
    "unit": "which records are of one person",
    "stratum": "the design of the sample",
    "geography": "a place",
    "other": "none of these: published as it is",
}
Handler = Callable[..., Awaitable[Response] | Response]


class Forbidden(Exception):
    """A reviewer asked for what is the owner's."""


class Pages:
    """What each address shows and does."""

    def __init__(self, actions: Actions) -> None:
        self.actions, self.projects = actions, actions.projects
        self.jinja = Environment(
            loader=FileSystemLoader(HERE / "pages"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
        )
        self.jinja.globals |= {
            "fields_of": fields_of, "rows_of": rows_of, "is_used": is_used, "index": index, "version": __version__,
        }  # fmt: skip
        self.jinja.filters |= {
            "prose": prose, "percent": percent, "number": number, "count": count, "title_of": title_of,
            "people": of_people, "raw": Markup, "worded": worded, "linked": linked, "here": here,
        }  # fmt: skip

    # --- showing -------------------------------------------------------------------------------------------------

    def show(
        self, request: Request, template: str, project: Project | None = None, *, status: int = 200, **more: Any
    ) -> HTMLResponse:
        """Render a page; of a project with what always stands beside it."""
        user = who(request)
        page = template.partition(".")[0]
        given: dict[str, Any] = {
            "p": project, "user": user, "page": page, "rail": STEPS, "beside": BESIDE, "error": "",
        }  # fmt: skip
        if project is not None:
            given |= self._beside(project)
            given["job_told"] = given["job"] is not None and is_told(given["job"], page, more.get("kind", ""))
        text = self.jinja.get_template(template).render(**given | more)
        return HTMLResponse(text, status)

    def _beside(self, project: Project) -> dict[str, Any]:
        plan = project.plan
        key = project.key(None, plan)
        job, verdicts = last_job(project), project.result("verdicts", key)
        judged = verdicts is not None and verdicts["of"] == required_in(plan)
        now, attacks = project.result("status", key), project.result("attacks", key)
        if now and attacks and "strongest" in attacks:
            now = {**now, **attacks["strongest"], "every": True}
        return {
            "plan": plan,
            "job": job,
            "running": bool(job and job["state"] in RUNNING),
            "now": now,
            "before": project.result("status", project.key([], plan)),
            "steps": [acts.words_of(step) for step in project.steps],
            "required": verdicts["found"] if judged and verdicts else self._stated(plan),
            "measured": not plan.get("confirmed", True),
            "read": project.read() is not None,
            "published": project.published(),
        }

    @staticmethod
    def _stated(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Give the requirements that the plan states, before they were judged."""
        stated = plan.get("requirements")
        specs = [one for one in stated if isinstance(one, dict)] if isinstance(stated, list) else []
        return [{"spec": one, "holds": None, "text": "", "policy": ""} for one in specs]

    # --- projects ------------------------------------------------------------------------------------------------

    def home(self, request: Request, error: str = "", status: int = 200) -> Response:
        """List the projects, and open a new one."""
        found = []
        for project in visible(request, self.projects):
            job = last_job(project)
            state = f"{counted(len(project.steps), 'step')}" + ("; published" if project.published() else "")
            state = state if project.read() else "the file could not be read"
            found.append((project, f"working: {job['title']}" if job and job["state"] in RUNNING else state))
        return self.show(request, "projects.html", projects=found, error=error, status=status)

    async def new(self, request: Request) -> Response:
        """Open a file as a project."""
        user = owner(request)
        async with request.form(max_files=200, max_fields=50) as form:
            name, path = str(form.get("name") or "").strip(), str(form.get("path") or "").strip()
            try:
                if form.get("do") == "demo":
                    project = self.actions.open_demo(user)
                elif path:
                    project = self.actions.open_path(name, path, user)
                else:
                    file, *_ = [*_files(form, "file"), None]
                    if file is None:
                        raise PlanError("choose a file, or give the path of one on this computer")
                    project = self.actions.open_upload(name, *file, user, _files(form, "hierarchies"))
            except DiscretionError as error:
                return self.home(request, str(error), 422)
        return go(f"{project.url}/data")

    # --- 1 data --------------------------------------------------------------------------------------------------

    def data(self, request: Request, name: str, at: int = 0) -> Response:
        """Show what was read: a page of its rows for the owner, and every column."""
        project = self.projects.open(name)
        known = project.read()
        table = None
        if known and who(request).role == "owner":
            table = rows_at(project, max(at, 0), known["rows"])
        if request.headers.get("x-part") and table:
            return self.show(request, "rows.html", project, table=table, known=known)
        return self.show(request, "data.html", project, known=known, table=table)

    async def change_data(self, request: Request, name: str) -> Response:
        """Read another file in place of one that was not read, or read it another way."""
        user, project = owner(request), self.projects.open(name)
        async with request.form(max_files=1) as form:
            typed = typed_in(form)
            try:
                if project.read() is not None:
                    raise PlanError("the file was read already; open another one as a project of its own")
                given = {key: typed.get(key, [""])[0].strip() for key in ("delimiter", "encoding", "decimal")}
                given["delimiter"] = {"tab": "\t", "\\t": "\t"}.get(given["delimiter"], given["delimiter"])
                self.actions.read_otherwise(project, _files(form, "file")[:1], given, user)
            except DiscretionError as error:
                return self.show(request, "data.html", project, known=None, table=None, error=str(error), status=422)
        return go(f"{project.url}/data")

    def ask_delete(self, request: Request, name: str) -> Response:
        """Ask whether a project shall be deleted, and say what goes with it."""
        owner(request)
        project = self.projects.open(name)
        file = project.data_file()
        own = file is not None and file.resolve().is_relative_to(project.folder.resolve())
        return self.show(request, "delete.html", project, file=file, own=own, folder=project.folder)

    def delete(self, request: Request, name: str) -> Response:
        """Delete a project."""
        user, project = owner(request), self.projects.open(name)
        try:
            self.actions.delete(project, user)
        except DiscretionError as error:
            return self.show(request, "trouble.html", project, error=str(error), status=409)
        return go("/")

    # --- 2 roles -------------------------------------------------------------------------------------------------

    def roles(
        self, request: Request, name: str, error: str = "", status: int = 200, typed: Typed | None = None
    ) -> Response:
        """Show the proposal for each column, its role, type and hierarchy; after an error, what was chosen."""
        project = self.projects.open(name)
        known, plan = project.read(), project.plan
        rows = [self._role(project, plan, column, typed or {}) for column in known["columns"]] if known else []
        edits = typed["edit_rules"][0] if typed and "edit_rules" in typed else "\n".join(plan.get("edit_rules", []))
        return self.show(
            request, "roles.html", project, rows=rows, roles=ROLES, types=TYPES, role_words=_ROLE_WORDS, error=error,
            status=status, confirmed=plan.get("confirmed", True), policies=policies(project), edit_rules=edits,
            policy=typed["policy"][0] if typed and "policy" in typed else plan.get("policy"),
        )  # fmt: skip

    def _role(
        self, project: Project, plan: Mapping[str, Any], column: Mapping[str, Any], typed: Typed
    ) -> dict[str, Any]:
        name = column["name"]
        given = plan.get("roles", {}).get(name)
        roles = [given] if isinstance(given, str) else given or column["roles"]
        rule = plan.get("hierarchies", {}).get(name)
        files = hierarchy_files(project, [name])
        chosen = "none"
        if rule is not None:
            chosen = Path(rule).name if isinstance(rule, str) and rule.startswith("hierarchies/") else "plan"
        elif not plan.get("roles") and "quasi" in roles:
            chosen = Path(files[name]).name if name in files else "proposed" if column["hierarchy"] else "none"
        if f"role:{name}" in typed:
            roles, chosen = typed[f"role:{name}"][0].split("+"), typed[f"hierarchy:{name}"][0]
        spec = {"plan": rule, "proposed": column["hierarchy"], "none": None}.get(chosen, f"hierarchies/{chosen}")
        good, words = acts.hierarchy_status(project, name, spec) if spec is not None else (True, "")
        options = [("none", "none")]
        if column["hierarchy"]:
            options.append(("proposed", "proposed"))
        if rule is not None and not (isinstance(rule, str) and rule.startswith("hierarchies/")):
            options.append(("plan", "made here"))
        listed = sorted(file.name for file in (project.folder / "hierarchies").glob("*.*"))
        alike = next((at for at, found in enumerate(zip(*listed, strict=False)) if len({*found}) > 1), 0)
        begin = max(listed[0].rfind(sign, 0, alike) for sign in "_-. ") + 1 if listed else 0  # it tells nothing
        ordered = sorted(listed, key=lambda file: file not in (chosen, Path(files.get(name, "")).name))
        options += [(file, f"file: {file[begin:]}") for file in ordered]
        return {
            **column,
            "given": roles,
            "role": "+".join(roles),
            "kind": typed.get(f"type:{name}", [plan.get("types", {}).get(name) or column["type"]])[0],
            "options": options,
            "chosen": chosen,
            "good": good,
            "status": words,
        }

    async def set_roles(self, request: Request, name: str) -> Response:
        """Take the roles as they stand in the form."""
        user, project = owner(request), self.projects.open(name)
        async with request.form(max_files=200, max_fields=20_000) as form:
            files = _files(form, "hierarchies")
            typed = typed_in(form)
            try:
                if typed.get("do") == ["upload"] and not files:
                    raise PlanError("choose the hierarchy files first")
                known = {column["name"]: column for column in (project.read() or {"columns": []})["columns"]}
                if files:
                    self.actions.add_hierarchies(project, files, user)
                    return go(f"{project.url}/roles")
                roles = {c: typed[f"role:{c}"][0].split("+") for c in known if f"role:{c}" in typed}
                types = {c: typed[f"type:{c}"][0] for c in known if f"type:{c}" in typed}
                rules = {c: typed[f"hierarchy:{c}"][0] for c in known if f"hierarchy:{c}" in typed}
                codes = {c: [yaml_value(one) for one in typed.get(f"codes:{c}", ())] for c in known}
                policy = typed.get("policy", [""])[0]
                edits = [line.strip() for line in typed.get("edit_rules", [""])[0].splitlines() if line.strip()]
                self.actions.set_roles(project, roles, types, rules, codes, user, policy=policy, edit_rules=edits)
            except DiscretionError as error:
                return self.roles(request, name, str(error), 422, typed)
        return go(f"{project.url}/risk")

    def hierarchy(
        self, request: Request, name: str, column: str, typed: Typed | None = None, error: str = "", status: int = 200
    ) -> Response:
        """Build the hierarchy of a column and see what becomes of its values."""
        project = self.projects.open(name)
        known = {one["name"]: one for one in (project.read() or {"columns": []})["columns"]}
        if column not in known:
            raise LookupError(column)
        given: Typed = typed if typed is not None else {}
        rule = project.plan.get("hierarchies", {}).get(column) or known[column]["hierarchy"]
        spec = rule
        try:
            if typed is not None:
                spec = hierarchy_in(project, column, typed)
            levels = acts.levels_of(project, column, spec) if spec else None
        except (DiscretionError, OSError) as fault:
            levels, error, status = None, error or str(fault), 422
        shown = [] if levels is None else shown_levels(levels.table)
        span = acts.span_of(project, column)
        if typed is None:
            given = typed_hierarchy(spec, levels.table if levels else None)
            if given["rule"] == ["table"] and span and not known[column]["values"]:
                given = {"rule": ["slide"]}  # too many numbers for a table
        return self.show(
            request, "hierarchy.html", project, column=known[column], given=given, shown=shown, error=error,
            status=status, span=span,
        )  # fmt: skip

    async def set_hierarchy(self, request: Request, name: str, column: str) -> Response:
        """Try a hierarchy, or take it."""
        user, project = owner(request), self.projects.open(name)
        async with request.form(max_files=1, max_fields=5000) as form:
            typed = typed_in(form)
        if typed.get("do") != ["take"]:
            return self.hierarchy(request, name, column, typed)
        try:
            self.actions.set_hierarchy(project, column, hierarchy_in(project, column, typed), user)
        except DiscretionError as error:
            return self.hierarchy(request, name, column, typed, str(error), 422)
        return go(f"{project.url}/roles")

    # --- 3 risk --------------------------------------------------------------------------------------------------

    def risk(self, request: Request, name: str) -> Response:
        """Show what attackers can do with the file as it is now."""
        project = self.projects.open(name)
        return self.show(request, "risk.html", project, attacks=project.result("attacks"))

    # --- 4 protect -----------------------------------------------------------------------------------------------

    def protect(self, request: Request, name: str, error: str = "", status: int = 200) -> Response:
        """Show the pictures of the data as it is now, the steps so far, and the methods by what they are for."""
        project = self.projects.open(name)
        cards: dict[str, list[type[Method]]] = {}
        for part in all_parts("method"):
            if issubclass(part, Method):
                cards.setdefault(part.purpose, []).append(part)
        unfit = lacking_in(project)
        fitting = {one: [part for part in cards[one] if part.kind not in unfit] for one in cards}
        ordered = [(one, _LEADS[one], _usual_first(fitting[one])) for one in PURPOSES if fitting.get(one)]
        others = [(part, unfit[part.kind]) for one in PURPOSES for part in cards.get(one, ()) if part.kind in unfit]
        return self.show(
            request, "protect.html", project, cards=ordered, others=others, did=project.did(project.plan), error=error,
            status=status,
        )  # fmt: skip

    def method(
        self, request: Request, name: str, kind: str, change: int = -1, typed: Typed | None = None,
        faults: Mapping[str, str] | None = None, errors: Sequence[str] = (), status: int = 200,
    ) -> Response:  # fmt: skip
        """Show the form of a method, with what was typed and what is wrong beside the fields."""
        project = self.projects.open(name)
        if kind not in kinds_of("method"):
            raise LookupError(kind)
        part = find(kind)
        draft = read_json(project.folder / "draft.json") or {}
        given: Typed = typed or (draft["typed"] if draft.get("kind") == kind and draft.get("change") == change else {})
        if not given:
            steps = project.steps
            at = 0 <= change < len(steps)
            given = typed_of(kind, steps[change][kind]) if at and kind in steps[change] else self._start(project, kind)
        job = last_job(project)
        tried = job and job["kind"] == "preview" and kind in job["wanted"]["step"] and job["state"] == "done"
        found = read_json(project.folder / "jobs" / job["id"] / "preview.json") if job and tried else None
        return self.show(
            request, "method.html", project, kind=kind, part=part, given=given, columns=self._columns(project),
            faults=faults or {}, errors=errors, about=about(part), preview=found, change=change, status=status,
        )  # fmt: skip

    @staticmethod
    def _columns(project: Project) -> list[str]:
        """Name the columns that a step may choose: those that the data has now."""
        now = project.result()
        if now:
            return list(now["columns"])
        return [column["name"] for column in (project.read() or {"columns": []})["columns"]]

    @staticmethod
    def _start(project: Project, kind: str) -> dict[str, list[str]]:
        """Begin a form with what the plan requires, and with the limit on dropped records that is usual."""
        names = {one.name for one in fields_of(kind)}
        begun: dict[str, Any] = {}
        if "models" in names:
            begun["models"] = required_models(project) or [{"k-anonymity": {"k": K}}]
        if "suppression_limit" in names:
            begun["suppression_limit"] = 0.05
        return typed_of(kind, begun)

    def inner_form(self, name: str, kind: str, at: str) -> Response:
        """Give the fields of a part inside a part."""
        project = self.projects.open(name)
        if kind not in index() or not re.fullmatch(r"[\w.]{1,200}", at):
            return HTMLResponse("")
        fields = self.jinja.get_template("form.html").module.fields  # type: ignore[attr-defined]
        return HTMLResponse(str(fields(fields_of(kind), f"{at}.", self._columns(project), {}, {})))

    async def run_method(self, request: Request, name: str, kind: str, change: int = -1) -> Response:
        """Try a step on a sample, or carry it out."""
        user, project = owner(request), self.projects.open(name)
        if kind not in kinds_of("method"):
            raise LookupError(kind)
        typed = typed_in(await request.form(max_fields=20_000))
        draft = project.folder / "draft.json"
        write_json(draft, {"kind": kind, "change": change, "typed": typed})
        try:
            spec = {kind: settings_of(kind, typed)}
            if typed.get("do") == ["try"]:
                self.actions.preview(project, spec, user)
                return go(f"{project.url}/protect/{kind}" + (f"?change={change}" if change >= 0 else ""))
            self.actions.add_step(project, spec, user, place=change if change >= 0 else None)
        except PlanError as error:
            beside, rest = faults_of(error, kind)
            return self.method(request, name, kind, change, typed, beside, rest, 422)
        except DiscretionError as error:
            return self.method(request, name, kind, change, typed, {}, [str(error)], 422)
        draft.unlink(missing_ok=True)
        return go(f"{project.url}/protect")

    async def change_steps(self, request: Request, name: str) -> Response:
        """Undo, reorder or take out steps."""
        user, project = owner(request), self.projects.open(name)
        typed = typed_in(await request.form())
        do, place = typed.get("do", [""])[0], int(typed.get("step", ["-1"])[0])
        try:
            if do == "undo":
                self.actions.undo(project, user)
            elif do in ("up", "down"):
                self.actions.move(project, place, -1 if do == "up" else 1, user)
            elif do == "remove":
                self.actions.remove(project, place, user)
        except DiscretionError as error:
            return self.protect(request, name, str(error), 422)
        return go(f"{project.url}/protect")

    # --- jobs ----------------------------------------------------------------------------------------------------

    def job(self, request: Request, name: str) -> Response:
        """Give the running job, as a part of a page."""
        return self.show(request, "job.html", self.projects.open(name))

    async def start_job(self, request: Request, name: str) -> Response:
        """Start what needs nothing but the state of the project."""
        user, project = owner(request), self.projects.open(name)
        typed = typed_in(await request.form())
        do, back = typed.get("do", [""])[0], typed.get("back", ["risk"])[0]
        back = back if back in (*STEPS, *BESIDE) else "risk"
        try:
            if do == "attack":
                self.actions.attack(project, user)
            elif do == "read":
                self.actions.read(project, user)
            elif do == "measure":
                self.actions.judge(project, user)
        except DiscretionError as error:
            return self.show(request, "trouble.html", project, error=str(error), status=409)
        return go(f"{project.url}/{back}")

    async def cancel(self, request: Request, name: str, job: str) -> Response:
        """Stop a job."""
        from starlette.concurrency import run_in_threadpool

        user, project = owner(request), self.projects.open(name)
        found = job_of(project, job)
        if found is None:
            raise LookupError(job)
        await run_in_threadpool(cancel, project, job, user)
        return go(f"{project.url}/{_PLACES.get(found['kind'], 'protect')}")

    # --- 5 balance -----------------------------------------------------------------------------------------------

    def balance(
        self, request: Request, name: str, point: int = -1, typed: Typed | None = None, error: str = "",
        status: int = 200,
    ) -> Response:  # fmt: skip
        """Choose candidates, see the map fill up, take a point, compare some."""
        project = self.projects.open(name)
        job = last_job(project)
        found = project.map(running=bool(job and job["kind"] == "tune" and job["state"] in RUNNING))
        remembered: Typed = typed or read_json(project.folder / "balance-form.json") or {}
        compared = []
        for one in read_json(project.folder / "compared.json") or []:
            figures = project.result("status", one["key"])
            if figures:
                words = [acts.words_of(step) for step in one["steps"]]
                verdicts = project.result("verdicts", one["key"]) or {"of": None, "found": []}
                unmet = [worded(v["spec"])["title"] for v in verdicts["found"] if not v["holds"]]
                judged = verdicts["of"] == required_in(project.plan)
                compared.append({
                    **one, "figures": figures, "words": words, "taken": one["key"] == project.key(),
                    "unmet": unmet if judged else None,
                })  # fmt: skip
        chosen = found["points"][point] if found and 0 <= point < len(found["points"]) else None
        return self.show(
            request, "balance.html", project, found=found, candidates=candidates_of(project), given=remembered,
            compared=compared, chosen=chosen, point=point, error=error, status=status,
        )  # fmt: skip

    async def live(self, name: str) -> Response:
        """Send the map whenever a candidate was tried, as server-sent events; `end` when the search is over."""
        import asyncio

        project = self.projects.open(name)
        drawing = self.jinja.get_template("map.html")

        async def events() -> AsyncIterator[str]:
            seen = -1
            while True:
                job = last_job(project)
                over = job is None or job["state"] not in RUNNING
                file = project.folder / (FULL_MAP if over and (project.folder / FULL_MAP).exists() else LIVE_MAP)
                changed = file.stat().st_mtime_ns if file.exists() else -1
                if changed != seen and (found := read_json(file)):
                    seen = changed
                    lines = drawing.render(found=found).splitlines()
                    yield "event: map\n" + "".join(f"data: {line}\n" for line in lines) + "\n"
                if over:
                    yield "event: end\ndata:\n\n"
                    return
                await asyncio.sleep(_LIVE)

        return StreamingResponse(events(), media_type="text/event-stream")

    async def weigh(self, request: Request, name: str) -> Response:
        """Start the search, take a point, or compare some."""
        user, project = owner(request), self.projects.open(name)
        typed = typed_in(await request.form(max_fields=2000))
        do = typed.get("do", [""])[0]
        try:
            if do == "take":
                self.actions.take_point(project, int(typed["point"][0]), user)
                return go(f"{project.url}/protect")
            if do == "compare":
                self.actions.compare(project, [int(one) for one in typed.get("point", [])], user)
            elif do == "use":
                chosen = (read_json(project.folder / "compared.json") or [])[int(typed["candidate"][0])]
                self.actions.change_steps(project, chosen["steps"], f"Take {chosen['label']}", user)
                return go(f"{project.url}/protect")
            else:
                steps = project.steps if typed.get("start") == ["steps"] else []
                self.actions.weigh(project, section_in(project, typed), steps, user)
                write_json(project.folder / "balance-form.json", typed)
        except DiscretionError as error:
            return self.balance(request, name, -1, typed, str(error), 422)
        return go(f"{project.url}/balance")

    # --- 6 release -----------------------------------------------------------------------------------------------

    def release(self, request: Request, name: str, error: str = "", status: int = 200) -> Response:
        """Show what must hold, publish, and give the public files."""
        project = self.projects.open(name)
        job = last_job(project)
        failed = job if job and job["kind"] == "release" and job["state"] == "failed" else None
        problems = failed["problems"] if failed else []
        return self.show(
            request, "release.html", project, error=error, status=status, problems=problems,
            confirmations=to_confirm(problems), to_waive=to_waive(problems, project), models=kinds_of("model"),
            measures=kinds_of("risk", "utility"),
            version=_version(project), changed=_was_changed(project), folder=project.folder, policies=policies(project),
            policy=policy_of(project), edits=(project.result() or {}).get("edits", []), restated=_was_restated(project),
        )  # fmt: skip

    def requirement(
        self, request: Request, name: str, kind: str, typed: Typed | None = None,
        faults: Mapping[str, str] | None = None, errors: Sequence[str] = (), status: int = 200,
    ) -> Response:  # fmt: skip
        """Show the form of a requirement."""
        project = self.projects.open(name)
        if kind not in kinds_of("model", "risk", "utility"):
            raise LookupError(kind)
        return self.show(
            request, "requirement.html", project, kind=kind, part=find(kind), given=typed or {},
            columns=self._columns(project), faults=faults or {}, errors=errors, about=about(find(kind)), status=status,
            bounded=kind not in kinds_of("model"),
        )  # fmt: skip

    async def add_requirement(self, request: Request, name: str, kind: str) -> Response:
        """Add a requirement."""
        user, project = owner(request), self.projects.open(name)
        if kind not in kinds_of("model", "risk", "utility"):
            raise LookupError(kind)
        typed = typed_in(await request.form())
        try:
            fields = settings_of(kind, typed)
            for bound in ("at_most", "at_least") if kind not in kinds_of("model") else ():
                if text := typed.get(f"require:{bound}", [""])[0].strip():
                    fields[bound] = yaml_value(text)
            self.actions.require(project, {kind: fields}, user)
        except PlanError as error:
            beside, rest = faults_of(error, kind)
            return self.requirement(request, name, kind, typed, beside, rest, 422)
        return go(f"{project.url}/release")

    async def publish(self, request: Request, name: str) -> Response:
        """Publish, drop a requirement, confirm a column, or begin the next version."""
        user, project = owner(request), self.projects.open(name)
        async with request.form(max_files=1) as form:
            typed = typed_in(form)
            do = typed.get("do", [""])[0]
            try:
                if do == "publish":
                    if typed.get("key", [_version(project)])[0] != _version(project):
                        raise PlanError("the plan was changed in another window since this page was shown: look again")
                    if _was_changed(project):
                        raise PlanError("a release of another plan stands here: begin the next version, which keeps it")
                    self.actions.publish(project, user)
                elif do == "policy" and (files := _files(form, "policy_file")):
                    self.actions.add_policy(project, *files[0], user)
                elif do == "drop":
                    self.actions.drop_requirement(project, int(typed["number"][0]), user)
                elif do == "confirm":
                    self.actions.confirm(project, typed["entry"][0], typed.get("column", []), user)
                    self.actions.publish(project, user)
                elif do == "policy":
                    self.actions.set_policy(project, typed.get("policy", [""])[0], user)
                elif do == "mend":
                    self.actions.mend(project, int(typed["number"][0]), user)
                elif do == "waive":
                    self.actions.waive(project, waiver_in(typed), user)
                elif do == "unwaive":
                    self.actions.unwaive(project, int(typed["number"][0]), user)
                elif do == "next":
                    project.next_version(user)
                    self.actions.judge(project, user)
            except DiscretionError as error:
                return self.release(request, name, str(error), 422)
        return go(f"{project.url}/release")

    def published(self, name: str, file: str, look: int = 0) -> Response:
        """Give a public file: to look at, or to keep."""
        project = self.projects.open(name)
        if file == ALL_IN_ONE and project.published():
            return zipped(project.folder / "release", f"{project.name}-release.zip")
        found = project.published_file(file)
        if look and file in ("report.html", "codebook.html"):
            return FileResponse(found, headers={"content-security-policy": REPORT_POLICY}, media_type="text/html")
        return FileResponse(found, filename=file, headers={"content-security-policy": REPORT_POLICY})

    # --- tables and the query service ----------------------------------------------------------------------------

    def tables(
        self, request: Request, name: str, typed: Typed | None = None, error: str = "", status: int = 200
    ) -> Response:
        """Choose variables, rules and a protection; show the table as a person reads it."""
        project = self.projects.open(name)
        found = read_json(project.folder / "table.json") if who(request).role == "owner" else None
        given: Typed = typed or read_json(project.folder / "table-form.json") or {
            "rules.0.kind": ["threshold"], "rules.0.minimum": ["3"], "protect": ["suppress"],
        }  # fmt: skip
        place = project.folder / "table-release"
        files = sorted(file.name for file in place.iterdir()) if place.is_dir() else []
        known = (project.read() or {"columns": []})["columns"]
        return self.show(
            request, "tables.html", project, given=given, found=found, grid=grid_of(found) if found else None,
            columns=[one["name"] for one in known], rule_field=RULES, folder=place,
            numbers=[one["name"] for one in known if one["dtype"].startswith(("int", "uint", "float", "decimal"))],
            layered=list(project.plan.get("hierarchies", {})), protections=PROTECTIONS, files=files, error=error,
            status=status,
        )  # fmt: skip

    async def make_table(self, request: Request, name: str) -> Response:
        """Make a table, or publish it."""
        user, project = owner(request), self.projects.open(name)
        typed = typed_in(await request.form(max_fields=2000))
        try:
            section = table_in(project, typed)
            self.actions.make_table(project, section, user, publish=typed.get("do") == ["publish"])
        except DiscretionError as error:
            return self.tables(request, name, typed, str(error), 422)
        write_json(project.folder / "table-form.json", typed)
        return go(f"{project.url}/tables")

    def table_file(self, name: str, file: str) -> Response:
        """Give a file of the published table."""
        project = self.projects.open(name)
        place = project.folder / "table-release"
        if file == ALL_IN_ONE and place.is_dir():
            return zipped(place, f"{project.name}-table.zip")
        if not place.is_dir() or file not in {one.name for one in place.iterdir()}:
            raise LookupError(file)
        return FileResponse(place / file, filename=file, headers={"content-security-policy": REPORT_POLICY})

    def service(self, request: Request, name: str, text: str = "", error: str = "", status: int = 200) -> Response:
        """Show the query service: its declaration, budgets and ledger."""
        project = self.projects.open(name)
        running = services.state_of(project)
        is_owner = who(request).role == "owner"
        asked = services.asked(running) if running else None
        budgets = services.told(running, "/budget?user=analyst") if running else None
        declared = text or (services.drafted(project) if is_owner and project.read() else "")
        return self.show(
            request, "service.html", project, state=running, declared=declared, asked=asked, budgets=budgets,
            refused=services.refused(project), error=error, status=status,
        )  # fmt: skip

    async def run_service(self, request: Request, name: str) -> Response:
        """Save the declaration, start or stop the service."""
        from starlette.concurrency import run_in_threadpool

        user, project = owner(request), self.projects.open(name)
        typed = typed_in(await request.form())
        do, text = typed.get("do", [""])[0], typed.get("declared", [""])[0]
        try:
            if do in ("save", "start"):
                self.actions.require_inside(yaml_value(text), project)
                await run_in_threadpool(services.save, project, text, user)
            if do == "start":
                await run_in_threadpool(services.start, project, user)
            elif do == "stop":
                await run_in_threadpool(services.stop, project, user)
        except (DiscretionError, OSError) as error:
            return self.service(request, name, text, str(error), 422)
        return go(f"{project.url}/service")

    # --- plan and history ----------------------------------------------------------------------------------------

    def plan(self, request: Request, name: str) -> Response:
        """Show the plan and the script that does the same."""
        project = self.projects.open(name)
        return self.show(request, "plan.html", project, text=project.text, script=project.script())

    def plan_file(self, request: Request, name: str) -> Response:
        """Give the plan as a file."""
        owner(request)
        project = self.projects.open(name)
        return FileResponse(
            project.folder / "plan.yaml", filename=f"{project.name}.yaml", media_type="application/yaml"
        )

    def history(self, request: Request, name: str) -> Response:
        """Show who did what when, and the jobs."""
        project = self.projects.open(name)
        return self.show(request, "history.html", project, lines=project.history(), jobs=jobs_of(project, 20))

    def static(self, file: str) -> Response:
        """Give the style or the script."""
        if file not in _STATIC:
            raise LookupError(file)
        return FileResponse(HERE / file, media_type=_STATIC[file], headers={"cache-control": "max-age=300"})


def worded(spec: Mapping[str, Any]) -> dict[str, str]:
    """Give a requirement as the pages show it: its title and its settings in words."""
    ((kind, fields),) = spec.items()
    bounds = {"at_most": "at most", "at_least": "at least"}
    said = acts.words_of({kind: {name: value for name, value in (fields or {}).items() if name not in bounds}})
    limits = [f"{words} {number(fields[name])}" for name, words in bounds.items() if name in (fields or {})]
    return {**said, "words": "; ".join(filter(None, [said["words"], *limits]))}


# --- helpers of the routes ---------------------------------------------------------------------------------------


def who(request: Request) -> WebUser:
    """Give who makes a request."""
    found: WebUser = request.scope[WHO]
    return found


def visible(request: Request, projects: Projects) -> list[Project]:
    """Give the projects that somebody may open: one's own; who looks at all is a reviewer, or alone on the server."""
    user = who(request)
    return [one for one in projects if user.alone or user.role == "reviewer" or one.owner == user.name]


def require_visible(projects: Projects) -> Callable[[Request], None]:
    """Make the check that stands before every route that has a project in its address."""

    def check(request: Request) -> None:
        name = request.path_params.get("name")
        if name is not None and name not in {one.name for one in visible(request, projects)}:
            raise LookupError(name)

    return check


def owner(request: Request) -> str:
    """Give the name of the owner who makes a request; a reviewer changes nothing."""
    user = who(request)
    if user.role != "owner":
        raise Forbidden
    return user.name


def go(place: str) -> Response:
    """Send the browser to a page after a change."""
    return RedirectResponse(place, 303)


def typed_in(form: FormData) -> dict[str, list[str]]:
    """Give the texts of a form by their names."""
    found: dict[str, list[str]] = {}
    for name, value in form.multi_items():
        if isinstance(value, str):
            found.setdefault(name, []).append(value)
    return found


def _version(project: Project) -> str:
    """Give what tells one state of the plan from another."""
    return hashlib.sha256(project.text.encode()).hexdigest()[:20]


def _was_changed(project: Project) -> bool:
    """Tell whether what was published came of other steps, roles or data than the plan has now."""
    last = next((one for one in jobs_of(project) if one["kind"] == "release" and one["state"] == "done"), None)
    return bool(last and project.published() and last.get("key") != project.key())


def _was_restated(project: Project) -> bool:
    """Tell whether the plan requires other things now than when it was published: another policy, other limits."""
    last = next((one for one in jobs_of(project) if one["kind"] == "release" and one["state"] == "done"), None)
    return bool(last and project.published() and last.get("of", required_in(project.plan)) != required_in(project.plan))


def is_told(job: Mapping[str, Any], page: str, kind: str) -> bool:
    """Tell whether what became of a job is said on a page: on that of its work, and of a step on its method's."""
    if page == "job":
        return True
    if job["kind"] == "preview":
        return page == "method" and kind in job["wanted"].get("step", {})
    if job["kind"] == "steps":
        wanted = as_steps(job["wanted"].get("steps"))
        return page in _OF_STEPS or (page == "method" and bool(wanted) and kind in wanted[-1])
    return _PLACES.get(job["kind"]) == page


def lacking_in(project: Project) -> dict[str, str]:
    """Name the methods that need what the data does not have, with the reason."""
    plan, known = project.plan, (project.read() or {"columns": []})["columns"]
    if not plan.get("roles"):
        return {}
    roles = {role for given in plan["roles"].values() for role in ([given] if isinstance(given, str) else given)}
    kinds = {plan.get("types", {}).get(one["name"], one["type"]) for one in known}
    there = {*roles, *(["set"] if "set" in kinds else []), *(["rules"] if plan.get("edit_rules") else [])}
    return {kind: why for kind, (needed, why) in _NEEDS.items() if needed not in there}


ALL_IN_ONE = "all.zip"


def zipped(folder: Path, name: str) -> Response:
    """Give all files of a folder as one archive, which is made for this answer and removed after it."""
    import os
    import tempfile
    import zipfile

    from starlette.background import BackgroundTask

    handle, path = tempfile.mkstemp(suffix=".zip")
    with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in sorted(folder.iterdir()):
            if one.is_file():
                archive.write(one, f"{Path(name).stem}/{one.name}")
    headers = {"content-security-policy": REPORT_POLICY}
    return FileResponse(path, filename=name, headers=headers, background=BackgroundTask(os.unlink, path))


def _files(form: FormData, name: str) -> list[tuple[str, Any]]:
    """Give the files of a form with their names."""
    found = [one for one in form.getlist(name) if isinstance(one, UploadFile) and one.filename]
    return [(str(one.filename), one.file) for one in found]


def rows_at(project: Project, at: int, total: int) -> dict[str, Any]:
    """Read one page of the rows."""
    import polars as pl

    frame = pl.scan_parquet(project.folder / "results" / "original.parquet").slice(at, ROWS).collect()
    return {
        "names": frame.columns,
        "numeric": [kind.is_numeric() for kind in frame.dtypes],
        "rows": [["" if cell is None else cell for cell in row] for row in frame.rows()],
        "at": at, "last": min(at + ROWS, total), "total": total, "back": max(at - ROWS, 0), "size": ROWS,
    }  # fmt: skip


def prose(text: str) -> Markup:
    """Write a sentence of a docstring as HTML: code and emphasis."""
    safe = str(escape(text))
    return Markup(re.sub(r"(?<!\w)\*(\w[^*]*)\*", r"<em>\1</em>", re.sub(r"`([^`]+)`", r"<code>\1</code>", safe)))


_HERE: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (
        r"; give encoding=, delimiter=, quote=, format=|[;,]? ?\(?give [\w=, ]+=(?:, such as [\w-]+)?\)?",
        "; say below how it is to be read",
    ),
    (r"; give `columns`", "; choose the columns"),
    (r"; ask for it in `measures`", ""),
    (
        r"`(at_most|at_least|suppression_limit|seconds|columns)`",
        lambda found: f"“{title_of(found[1].replace('_', '-'))}”",
    ),
)
"""What errors call things in plans and Python, and what the pages call them."""


def here(text: str, project: Project) -> str:
    """Write a sentence of the library in the words of the pages: fields by their labels, files without their folder."""
    text = text.replace(f"{project.folder}/", "")
    for pattern, words in _HERE:
        text = re.sub(pattern, words, text)
    return text


def linked(text: str, project: Project) -> Markup:
    """Write a sentence that names methods as HTML: each name leads to the form of the method."""

    def link(match: re.Match[str]) -> str:
        place = f"{escape(project.url)}/protect/{match[1]}"
        return f'<a href="{place}">{escape(title_of(match[1]))}</a>' if match[1] in kinds_of("method") else match[0]

    return Markup(re.sub(r"<code>([\w-]+)</code>", link, str(prose(text))))


def about(part: type[Any]) -> list[str]:
    """Give the paragraphs of a part's documentation after its first line, without references and examples."""
    text = re.split(r"\n\s*(?:References|Examples)\s*\n\s*-{3,}", part.documentation())[0]
    paragraphs = re.split(r"\n\s*\n", text.strip())[1:]
    return [" ".join(one.split()) for one in paragraphs if one.strip()]


_USUAL = (
    "optimal-generalization", "local-suppression", "mondrian", "generalize", "drop-identifiers", "sample", "rank-swap",
    "shuffle", "mdav", "additive-noise", "sequential-trees",
)  # fmt: skip


def _usual_first(parts: Sequence[type[Method]]) -> list[type[Method]]:
    place = {kind: number for number, kind in enumerate(_USUAL)}
    return sorted(parts, key=lambda part: (place.get(part.kind, len(place)), part.kind))


def policies(project: Project) -> list[tuple[str, str]]:
    """Name the shipped policies for files and those that came with the project, with their titles."""
    from discretion.policy.policy import Policy

    own = sorted(f"policies/{file.name}" for file in (project.folder / "policies").glob("*.yaml"))
    found = [(name, Policy.load(name, project.folder)) for name in (*Policy.shipped, *own)]
    return [(name, one.title or one.name) for name, one in found if one.scenario != "research-output"]


def policy_of(project: Project) -> Policy | None:
    """Give the policy that the plan of a project stands under."""
    from discretion.policy.policy import Policy

    name = project.plan.get("policy")
    return Policy.load(name, project.folder) if name else None


def waiver_in(typed: Typed) -> dict[str, Any]:
    """Read the waiver that stands in the form; who allowed it is written as `NAME, FUNCTION`."""
    name, function, why = (typed.get(one, [""])[0].strip() for one in ("by", "function", "why"))
    if not name or not why:
        raise PlanError("a waiver needs the name of who allowed it, and the reason")
    by = f"{name}, {function}" if function else name
    return {"requirement": typed["requirement"][0], "by": by, "why": why, "columns": list(typed.get("column", []))}


_CONFIRM = re.compile(r"confirm them by `(confirmed_\w+): (\[.*\])`")


_WAIVER = re.compile(r"; `waivers: \[\{requirement: ([\w-]+)(?:, columns: \[(.*?)\])?, by: …, why: …\}\]`")


def to_waive(problems: Sequence[str], project: Project) -> list[dict[str, Any]]:
    """Find in what the gate says which safeguards of the policy are not kept, and who may waive each."""
    found = [(text, match) for text in problems if (match := _WAIVER.search(text))]
    policy = policy_of(project) if found else None
    return [
        {
            "requirement": match[1],
            "columns": [one.strip() for one in (match[2] or "").split(",") if one.strip()],
            "words": text[: match.start()],
            "may": list(policy.may_waive.get(match[1], ())) if policy else [],
        }
        for text, match in found
    ]


def to_confirm(problems: Sequence[str]) -> list[dict[str, Any]]:
    """Find in what the gate says which columns the owner may confirm, and what speaks against them."""
    found, said = [], []
    for text in problems:
        match = _CONFIRM.search(text)
        if match is None:
            said.append(text)
        else:
            found.append({"entry": match[1], "columns": yaml_value(match[2]), "why": said, "words": plain(text)})
            said = []
    return found


# --- candidates of the balance -----------------------------------------------------------------------------------

_CANDIDATES: tuple[tuple[str, str, str], ...] = (
    ("optimal-generalization", "k", "3, 5, 10, 25"),
    ("local-suppression", "k", "3, 5, 10"),
    ("mondrian", "k", "3, 5, 10, 25"),
    ("rank-swap", "percent", "2, 5, 10, 20"),
    ("mdav", "k", "3, 5, 10, 25"),
    ("additive-noise", "sd_share", "0.05, 0.1, 0.2, 0.5"),
    ("pram", "keep_share", "0.95, 0.9, 0.8, 0.6"),
)
"""Methods that are offered to be weighed, with the field that varies and what is tried."""
_OF_NUMBERS = ("rank-swap", "mdav", "additive-noise")
_OF_CLASSES = ("optimal-generalization", "local-suppression", "mondrian")


def required_models(project: Project) -> list[dict[str, Any]]:
    """Give the models of classes that the plan or its policy requires, as a plan writes them."""
    from discretion.privacy.class_table import ClassModel
    from discretion.release.plan import Plan

    plan = {key: value for key, value in project.plan.items() if key not in ("confirmed", "tune")}
    required = Plan.from_dict(plan, project.folder).requirements
    return [one.part.to_plan() for one in required if isinstance(one.part, ClassModel)]


def candidates_of(project: Project) -> list[dict[str, Any]]:
    """Propose methods that fit the roles and types of the columns, each with values to try."""
    plan = project.plan
    known = {one["name"]: one for one in (project.read() or {"columns": []})["columns"]}
    roles = {name: [given] if isinstance(given, str) else given for name, given in plan.get("roles", {}).items()}
    quasi = [name for name, given in roles.items() if "quasi" in given and name in known]
    kinds = {name: plan.get("types", {}).get(name) or known[name]["type"] for name in roles if name in known}
    numbers = [n for n, given in roles.items() if {"quasi", "sensitive"} & {*given} and kinds.get(n) == "continuous"]
    layered = [name for name in quasi if name in plan.get("hierarchies", {})]
    texts = [name for name in quasi if kinds.get(name) == "nominal"]
    columns = {
        "optimal-generalization": layered, "local-suppression": quasi, "mondrian": quasi, "pram": texts,
        **dict.fromkeys(_OF_NUMBERS, numbers),
    }  # fmt: skip
    return [
        {"kind": kind, "field": field, "values": values, "columns": columns[kind], "first": place < 2}
        for place, (kind, field, values) in enumerate(one for one in _CANDIDATES if columns[one[0]])
    ]


def section_in(project: Project, typed: Typed) -> dict[str, Any]:
    """Read the `tune` section of a plan that stands in the form."""
    methods: list[Any] = []
    beside = [one for one in required_models(project) if "k-anonymity" not in one]
    for one in candidates_of(project):
        if typed.get(f"use:{one['kind']}") != ["1"]:
            continue
        values = [yaml_value(text.strip()) for text in typed[f"values:{one['kind']}"][0].split(",") if text.strip()]
        grid = {"grid": values}
        if one["kind"] in _OF_CLASSES:  # what else is required of classes holds for every candidate
            models = [{"k-anonymity": {"k": grid}}, *beside]
            dropped = {"suppression_limit": 0.05} if one["kind"] == "optimal-generalization" else {}
            methods.append({one["kind"]: {"models": models, **dropped}})
        else:
            methods.append({one["kind"]: {"columns": one["columns"], one["field"]: grid}})
    if text := typed.get("more", [""])[0].strip():
        given = yaml_value(text)
        methods += given if isinstance(given, list) else [given]
    if not methods:
        raise PlanError("choose at least one candidate")
    section: dict[str, Any] = {"methods": methods, "seconds": yaml_value(typed.get("seconds", ["300"])[0] or "300")}
    if limit := typed.get("max_risk", [""])[0].strip():
        section["max_risk"] = yaml_value(limit) / 100
    return section


# --- tables in forms ---------------------------------------------------------------------------------------------

PROTECTIONS = {
    "suppress": "leave out sensitive cells, and others that would give them away",
    "round-controlled": "round so that totals still add up",
    "adjust": "change sensitive cells as little as needed",
    "none": "only look for sensitive cells",
}
RULES = FormField("parts", "rules", options=kinds_of("rule"))


def table_in(project: Project, typed: Typed) -> dict[str, Any]:
    """Read the `table` section of a plan that stands in the form."""
    by = [one for one in typed.get("by", ()) if one]
    if not by:
        raise PlanError("choose the variables of the table")
    rules = value_of(RULES, typed, "rules")
    protect = typed.get("protect", ["suppress"])[0]
    options = {"base": yaml_value(typed.get("base", ["5"])[0] or "5")} if protect == "round-controlled" else {}
    section: dict[str, Any] = {"by": by, "rules": rules, "protect": {protect: options} if options else protect}
    if value := typed.get("value", [""])[0]:
        section["value"] = value
    rules_of = project.plan.get("hierarchies", {})
    if trees := {name: rules_of[name] for name in typed.get("tree", ()) if name in by and name in rules_of}:
        section["hierarchies"] = trees
    return section


def grid_of(found: Mapping[str, Any]) -> dict[str, Any]:
    """Lay cells out as a person reads a table: the last variable across, the others down."""
    across_name = found["by"][-1]
    down: dict[tuple[str, ...], dict[str, Any]] = {}
    across: dict[str, None] = {}
    for cell in found["cells"]:
        row = tuple(cell["by"][name] for name in found["by"][:-1])
        across.setdefault(cell["by"][across_name])
        down.setdefault(row, {})[cell["by"][across_name]] = cell
    return {"across": across_name, "columns": list(across), "rows": down, "names": found["by"][:-1]}


# --- hierarchies in forms ----------------------------------------------------------------------------------------

_MOST_SHOWN = 14


def hierarchy_in(project: Project, column: str, typed: Typed) -> Any:
    """Read the hierarchy that stands in the builder, as a plan writes it; a table of values becomes a file."""
    from discretion.data.hierarchy import hierarchy_text
    from discretion.data.write import write_text
    from discretion.web.project import safe_file_name

    def one(name: str, default: str = "") -> str:
        return typed.get(name, [default])[0].strip()

    rule = one("rule")
    if rule == "width":
        return {"intervals": {"width": yaml_value(one("width", "5")), "levels": yaml_value(one("levels", "4"))}}
    if rule == "slide":
        first = sorted({yaml_value(text) for text in typed.get("cut", ())})
        if not first:
            raise PlanError("add a cut point")
        kept = [first[:: 2**level] for level in range(int(one("coarser", "1")))]
        return {"intervals": {"cuts": [["-inf", *cuts, "inf"] for cuts in kept]}}
    if rule == "cuts":
        lines = [line for line in one("cuts").splitlines() if line.strip()]
        return {"intervals": {"cuts": [[yaml_value(cut.strip()) for cut in line.split(",")] for line in lines]}}
    if rule == "masking":
        return {"masking": {}}
    if rule == "dates":
        return {"dates": {"levels": typed.get("dates", [])}}
    if rule == "table":
        height = max((int(name.split(".")[1]) for name in typed if name.startswith("level.")), default=0)
        values = [str(value) for value in typed.get("value", [])]
        rows = [
            [value, *(typed[f"level.{level}"][place].strip() or value for level in range(1, height + 1)), "*"]
            for place, value in enumerate(values)
        ]
        if not rows or any(len(typed[f"level.{level}"]) != len(values) for level in range(1, height + 1)):
            raise PlanError("the table of values is not whole; open the page again")
        file = project.folder / "hierarchies" / safe_file_name(f"{column}-made-here.csv")
        write_text(file, hierarchy_text(list(zip(*rows, strict=True))), overwrite=True, private=True)
        return f"hierarchies/{file.name}"
    raise PlanError("choose how the values are put together")


def typed_hierarchy(spec: Any, table: Any) -> dict[str, list[str]]:
    """Give what stands in the builder for a hierarchy."""
    found: dict[str, list[str]] = {"rule": ["table"]}
    if isinstance(spec, Mapping) and "intervals" in spec:
        fields = spec["intervals"]
        if "cuts" in fields:
            cuts = fields["cuts"]
            listed = cuts if cuts and isinstance(cuts[0], list) else [cuts]
            found = {"rule": ["cuts"], "cuts": ["\n".join(", ".join(map(str, line)) for line in listed)]}
            first = [str(cut) for cut in listed[0][1:-1]]
            if [["-inf", *listed[0][1:-1][:: 2**level], "inf"] for level in range(len(listed))] == listed:
                found = {"rule": ["slide"], "cut": first, "coarser": [str(len(listed))]}
        else:
            found = {
                "rule": ["width"],
                "width": [str(fields.get("width", 5))],
                "levels": [str(fields.get("levels", 4))],
            }
    elif isinstance(spec, Mapping) and "masking" in spec:
        found = {"rule": ["masking"]}
    elif isinstance(spec, Mapping) and "dates" in spec:
        found = {"rule": ["dates"], "dates": list(spec["dates"].get("levels", []))}
    if found["rule"] == ["table"] and table is not None:
        for level, labels in enumerate(table[1:-1], 1):
            found[f"level.{level}"] = list(labels)
        found["value"] = list(table[0])
    return found


def shown_levels(table: Any) -> list[list[str]]:
    """Give some values, spread over the domain, with what they become at each level."""
    size = len(table[0])
    places = (
        range(size) if size <= _MOST_SHOWN else [round(i * (size - 1) / (_MOST_SHOWN - 1)) for i in range(_MOST_SHOWN)]
    )
    return [[column[place] for column in table] for place in places]


def login_page(error: str) -> str:
    """Give the page that asks for a name and a password."""
    loader = FileSystemLoader(HERE / "pages")
    return Environment(loader=loader, autoescape=True).get_template("login.html").render(error=error)


# --- the app -----------------------------------------------------------------------------------------------------


def create_app(actions: Actions) -> FastAPI:
    """Put the app together; `WebGuard` must stand before it."""

    app = FastAPI(
        title="discretion", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json",
        dependencies=[Depends(require_visible(actions.projects))],
    )  # fmt: skip
    pages = Pages(actions)
    routes: tuple[tuple[str, str, Handler], ...] = (
        ("GET", "/", pages.home),
        ("POST", "/projects", pages.new),
        ("GET", "/static/{file}", pages.static),
        ("GET", "/p/{name}/data", pages.data),
        ("POST", "/p/{name}/data", pages.change_data),
        ("GET", "/p/{name}/delete", pages.ask_delete),
        ("POST", "/p/{name}/delete", pages.delete),
        ("GET", "/p/{name}/roles", pages.roles),
        ("POST", "/p/{name}/roles", pages.set_roles),
        ("GET", "/p/{name}/hierarchy/{column:path}", pages.hierarchy),
        ("POST", "/p/{name}/hierarchy/{column:path}", pages.set_hierarchy),
        ("GET", "/p/{name}/risk", pages.risk),
        ("GET", "/p/{name}/protect", pages.protect),
        ("POST", "/p/{name}/steps", pages.change_steps),
        ("GET", "/p/{name}/fields", pages.inner_form),
        ("GET", "/p/{name}/protect/{kind}", pages.method),
        ("POST", "/p/{name}/protect/{kind}", pages.run_method),
        ("GET", "/p/{name}/job", pages.job),
        ("POST", "/p/{name}/job", pages.start_job),
        ("POST", "/p/{name}/cancel/{job}", pages.cancel),
        ("GET", "/p/{name}/balance", pages.balance),
        ("POST", "/p/{name}/balance", pages.weigh),
        ("GET", "/p/{name}/balance/live", pages.live),
        ("GET", "/p/{name}/release", pages.release),
        ("POST", "/p/{name}/release", pages.publish),
        ("GET", "/p/{name}/require/{kind}", pages.requirement),
        ("POST", "/p/{name}/require/{kind}", pages.add_requirement),
        ("GET", "/p/{name}/release/{file}", pages.published),
        ("GET", "/p/{name}/tables", pages.tables),
        ("POST", "/p/{name}/tables", pages.make_table),
        ("GET", "/p/{name}/tables/{file}", pages.table_file),
        ("GET", "/p/{name}/service", pages.service),
        ("POST", "/p/{name}/service", pages.run_service),
        ("GET", "/p/{name}/plan", pages.plan),
        ("GET", "/p/{name}/plan.yaml", pages.plan_file),
        ("GET", "/p/{name}/history", pages.history),
    )
    for method, path, work in routes:
        app.add_api_route(path, work, methods=[method], include_in_schema=False, response_model=None)
    add_rest(app, actions)
    _add_errors(app, pages)
    return app


def _add_errors(app: FastAPI, pages: Pages) -> None:
    def trouble(request: Request, words: str, status: int) -> Response:
        if request.url.path.startswith("/api/"):
            from fastapi.responses import JSONResponse

            return JSONResponse({"error": words}, status)
        return pages.show(request, "trouble.html", None, error=words, status=status)

    def missing(request: Request, _: Exception) -> Response:
        return trouble(request, "There is nothing at this address.", 404)

    def forbidden(request: Request, _: Exception) -> Response:
        return trouble(request, "This is for owners; reviewers look and change nothing.", 403)

    def wrong(request: Request, error: Exception) -> Response:
        return trouble(request, str(error), 422)

    def unreadable(request: Request, error: Exception) -> Response:
        if request.url.path.startswith("/api/"):
            from fastapi.exception_handlers import request_validation_exception_handler as plainly

            return plainly(request, error)  # type: ignore[arg-type,return-value]
        names = [str(one["loc"][-1]) for one in error.errors()]  # type: ignore[attr-defined]
        return trouble(request, f"This address cannot be read: {', '.join(names)} must be a number.", 422)

    app.add_exception_handler(RequestValidationError, unreadable)
    app.add_exception_handler(LookupError, missing)
    app.add_exception_handler(404, missing)
    app.add_exception_handler(Forbidden, forbidden)
    app.add_exception_handler(DiscretionError, wrong)
