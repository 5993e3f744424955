"""Nobody without the token or a password gets anything, and pages of other sites get nothing done."""

from __future__ import annotations

import pytest

from tests.web.conftest import TOKEN, App

ADDRESSES = (
    "/", "/static/look.css", "/static/page.js", "/p/people/data", "/p/people/release/data.csv", "/p/people/plan.yaml",
    "/api/projects", "/api/openapi.json", "/api/projects/people/release/data.csv", "/login", "/nowhere",
)  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("how", ["nothing", "wrong cookie", "wrong bearer", "wrong token"])
def test_a_stranger_gets_nothing(app: App, address: str, how: str) -> None:
    app.upload()
    headers = {"wrong cookie": {"Cookie": "discretion=x"}, "wrong bearer": {"Authorization": "Bearer x"}}.get(how, {})
    answer = app.stranger(**headers).get(address + ("?token=wrong" if how == "wrong token" else ""))
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert "people" not in answer.text.replace("discretion web", "")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_stranger_changes_nothing(app: App, method: str) -> None:
    project = app.upload()
    before = project.text
    for place in ("/projects", f"{project.url}/roles", "/api/projects", "/api/projects/people/plan"):
        assert app.stranger().request(method, place, data={"do": "demo"}).status_code == 401
    assert project.text == before
    assert [one.name for one in app.projects] == ["people"]


def test_another_host_name_is_refused_even_with_the_token(app: App) -> None:
    """DNS rebinding: a page of a stranger whose name is suddenly that of this computer."""
    answer = app.client.get("/", headers={"Host": "evil.example:8080"})
    assert answer.status_code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:9999"])
def test_posts_from_other_origins_are_refused(app: App, origin: str) -> None:
    answer = app.client.post("/projects", data={"do": "demo"}, headers={"Origin": origin})
    assert answer.status_code == 403
    assert not list(app.projects)


def test_the_token_becomes_a_cookie_that_scripts_and_other_sites_do_not_get(app: App) -> None:
    answer = app.stranger().get(f"/?token={TOKEN}&a=b")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/?a=b"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


def test_the_token_never_sends_a_browser_elsewhere(app: App) -> None:
    answer = app.stranger().get(f"http://127.0.0.1:8080//evil.example/?token={TOKEN}")
    assert answer.headers["location"].startswith("/evil.example")


def test_every_answer_has_the_strict_policy(app: App) -> None:
    for address in ("/", "/static/page.js", "/api/projects", "/nowhere"):
        headers = app.client.get(address).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_people_log_in_by_name_and_password(shared: App) -> None:
    assert "Log in" in shared.client.get("/").text
    assert shared.client.get("/api/projects").status_code == 401
    assert shared.client.post("/login", data={"name": "ada", "password": "wrong"}).status_code == 401
    assert shared.client.post("/login", data={"name": "nobody", "password": "wrong"}).status_code == 401
    answer = shared.client.post("/login", data={"name": "ada", "password": "correct horse battery"})
    assert "New project" in answer.text
    assert shared.client.get("/api/projects").status_code == 200
    shared.client.post("/logout")
    assert shared.client.get("/api/projects").status_code == 401


def test_a_reviewer_looks_and_changes_nothing(app: App, shared: App) -> None:
    project = app.upload()
    app.confirmed(project)
    shared.client.post("/login", data={"name": "rob", "password": "staple battery horse"})
    before = project.text
    for place in ("roles", "steps", "release", "job", "protect/rank-swap", "require/k-anonymity"):
        assert shared.client.post(f"{project.url}/{place}", data={"do": "undo"}).status_code == 403
    assert shared.client.post("/projects", data={"do": "demo"}).status_code == 403
    for method, place in (("PUT", "plan"), ("POST", "steps"), ("DELETE", "steps/last"), ("POST", "jobs")):
        body = {"kind": "read"} if place == "jobs" else {}
        assert shared.client.request(method, f"/api/projects/people/{place}", json=body).status_code in (403, 422)
    assert project.text == before
    page = shared.client.get(f"{project.url}/data").text
    assert "Person 0001" not in page, "rows are the owner's"
    assert shared.client.get(f"{project.url}/risk").status_code == 200


def test_passwords_are_not_guessed_by_trying(shared: App) -> None:
    for _ in range(10):
        shared.client.post("/login", data={"name": "ada", "password": "wrong"})
    answer = shared.client.post("/login", data={"name": "ada", "password": "correct horse battery"})
    assert answer.status_code == 429


def test_passwords_are_stored_as_slow_hashes(shared: App) -> None:
    text = shared.guard.users.path.read_text() if shared.guard.users else ""
    assert "correct horse" not in text
    assert text.count("scrypt$") == 2
