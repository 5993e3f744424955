"""The app without a browser: its pages over FastAPI's client, jobs done in the same process."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discretion.web import worker
from discretion.web.actions import Actions
from discretion.web.app import create_app, login_page
from discretion.web.guard import Users, WebGuard
from discretion.web.project import Project, Projects, Workers, last_job

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another client than httpx, which the tests do not need
    from fastapi.testclient import TestClient

TOKEN = "a-token-of-the-tests"
HOST = "127.0.0.1:8080"


class SameProcess(Workers):
    """Does every job before the request that starts it ends."""

    def _hand_over(self, folder: Path) -> None:
        worker.run(folder)


def people(rows: int = 400, seed: int = 3) -> pl.DataFrame:
    """Invent people who are alike in groups of more than five."""
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "name": [f"Person {number:04d}" for number in range(rows)],
            "region": rng.choice(["north", "south", "west"], rows),
            "sex": rng.choice(["f", "m"], rows),
            "age": rng.integers(20, 70, rows),
            "income": rng.lognormal(10, 0.5, rows).round(2),
        }
    )


def csv(rows: int = 400) -> bytes:
    return people(rows).write_csv().encode()


@dataclass
class App:
    """The app with its owner's client."""

    client: TestClient
    projects: Projects
    actions: Actions
    guard: WebGuard

    def stranger(self, **headers: str) -> TestClient:
        return TestClient(self.guard, base_url=f"http://{HOST}", headers=headers, follow_redirects=False)

    def log_in(self, name: str, password: str) -> None:
        self.client.post("/logout")
        assert self.client.post("/login", data={"name": name, "password": password}).status_code == 200

    def upload(self, name: str = "people", file: str = "people.csv", content: bytes | None = None) -> Project:
        given = {"file": (file, csv() if content is None else content)}
        answer = self.client.post("/projects", data={"name": name}, files=given)
        assert answer.status_code == 200, answer.text
        return self.projects.open(name)

    def confirmed(self, project: Project, **roles: str) -> None:
        """Take the roles as they are proposed, and others as given."""
        known = project.read()["columns"]
        form: dict[str, Any] = {"do": "roles"}
        for column in known:
            role = roles.get(column["name"], "+".join(column["roles"]))
            form |= {f"role:{column['name']}": role, f"type:{column['name']}": column["type"]}
            form[f"hierarchy:{column['name']}"] = "proposed" if "quasi" in role and column["hierarchy"] else "none"
        answer = self.client.post(f"{project.url}/roles", data=form)
        assert answer.status_code == 200, answer.text

    def job(self, project: Project) -> dict[str, Any]:
        found = last_job(project)
        assert found is not None
        return found


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    actions = Actions(Projects(tmp_path / "projects"), SameProcess(warm=False))
    actions.projects.root.mkdir()
    guard = WebGuard(create_app(actions), hosts={HOST}, token=TOKEN)
    with TestClient(guard, base_url=f"http://{HOST}") as client:
        assert client.get(f"/?token={TOKEN}").status_code == 200
        yield App(client, actions.projects, actions, guard)


@pytest.fixture
def shared(app: App, tmp_path: Path) -> Iterator[App]:
    """The same projects for people who log in."""
    users = tmp_path / "users.yaml"
    Users.add(users, "ada", "correct horse battery", "owner")
    Users.add(users, "bea", "battery correct horse", "owner")
    Users.add(users, "rob", "staple battery horse", "reviewer")
    open_ = tmp_path / "open"
    open_.mkdir()
    actions = Actions(app.projects, SameProcess(warm=False), (open_,))
    guard = WebGuard(create_app(actions), hosts={HOST}, users=Users(users), login=login_page)
    with TestClient(guard, base_url=f"http://{HOST}") as client:
        yield App(client, app.projects, actions, guard)
