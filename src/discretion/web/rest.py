"""REST beside the pages, on the same functions: a pipeline can do what the app does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from discretion.errors import PlanError
from discretion.web.actions import Actions
from discretion.web.guard import REPORT_POLICY
from discretion.web.jobs import cancel, job_of, jobs_of
from discretion.web.project import Project


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
    from discretion.web.app import owner, visible

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
