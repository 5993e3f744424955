"""Nobody without the token or a password gets anything, and pages of other sites get nothing done."""

from __future__ import annotations

import http.client
import shutil
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from discretion.cli.app import run
from discretion.web.guard import Users
from tests.web.conftest import TOKEN, App, csv

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


def test_owners_see_and_touch_only_what_is_theirs(shared: App) -> None:
    shared.log_in("ada", "correct horse battery")
    project = shared.upload()
    shared.confirmed(project)
    shared.client.post(f"{project.url}/protect/rank-swap", data={"columns": ["income"], "percent": "8", "do": "run"})
    before = project.text
    shared.log_in("bea", "battery correct horse")
    assert "/p/people" not in shared.client.get("/").text
    assert shared.client.get("/api/projects").json() == []
    for place in (
        "data", "roles", "risk", "protect", "protect/rank-swap", "balance", "release", "release/data.csv", "tables",
        "service", "plan", "plan.yaml", "history", "job", "fields?kind=mdav&at=x", "hierarchy/age", "balance/live",
    ):  # fmt: skip
        assert shared.client.get(f"{project.url}/{place}").status_code == 404, place
    for place in ("", "/jobs", "/results/status", "/release/data.csv"):
        assert shared.client.get(f"/api/projects/people{place}").status_code == 404, place
    for place in ("roles", "steps", "release", "job", "protect/rank-swap", "balance", "tables", "service"):
        assert shared.client.post(f"{project.url}/{place}", data={"do": "undo"}).status_code == 404, place
    assert shared.client.put("/api/projects/people/plan", json={"roles": {}}).status_code == 404
    assert shared.client.delete("/api/projects/people/steps/last").status_code == 404
    assert project.text == before
    given = {"file": ("people.csv", csv())}
    assert shared.client.post("/projects", data={"name": "people"}, files=given).status_code == 200
    assert shared.client.get("/api/projects").json() == ["people 2"], "nobody learns that the name is taken"
    shared.client.post("/projects", data={"do": "demo"})
    shared.log_in("ada", "correct horse battery")
    assert shared.client.get("/api/projects").json() == ["people"]


def test_paths_of_a_shared_server_stay_below_what_was_opened(shared: App, tmp_path: Path) -> None:
    shared.log_in("ada", "correct horse battery")
    project = shared.upload()
    shared.confirmed(project)
    shared.log_in("bea", "battery correct horse")
    (tmp_path / "open" / "free.csv").write_bytes(csv())
    (tmp_path / "open" / "link.csv").symlink_to(project.folder / "source" / "people.csv")
    for path in (project.folder / "source" / "people.csv", tmp_path / "open" / "link.csv", "/etc/passwd",
                 tmp_path / "open" / ".." / "projects" / "people" / "source" / "people.csv"):  # fmt: skip
        answer = shared.client.post("/projects", data={"path": str(path), "name": "x"})
        assert answer.status_code == 422 and "only below" in answer.text, path
        assert shared.client.post("/api/projects", json={"path": str(path), "name": "x"}).status_code == 422
    assert shared.client.post("/projects", data={"path": str(tmp_path / "open" / "free.csv")}).status_code == 200
    mine = shared.projects.open("free")
    shared.confirmed(mine)
    before = mine.text
    for plan in (
        {"hierarchies": {"region": "../people/hierarchies/x.csv"}},
        {"hierarchies": {"region": {"file": {"path": str(project.folder / "seed")}}}},
        {"policy": "../people/plan.yaml"},
        {"previous": [{"journal": "../people/private"}]},
    ):
        answer = shared.client.put("/api/projects/free/plan", json={"roles": mine.plan["roles"], **plan})
        assert answer.status_code == 422 and "outside" in answer.text, plan
    assert mine.text == before
    theirs = project.folder / "policies"
    theirs.mkdir()
    (theirs / "theirs.yaml").write_text("scenario: public-file\nextends: public-use\n")
    for parent in ("../../people/policies/theirs.yaml", str(theirs / "theirs.yaml")):
        policy = f"scenario: public-file\nextends: {parent}\n".encode()
        given = {"policy_file": ("ours.yaml", policy)}
        answer = shared.client.post(f"{mine.url}/release", data={"do": "policy"}, files=given)
        assert answer.status_code == 422 and "outside" in answer.text, parent
    text = "tables: {people: {path: ../people/source/people.csv}}"
    answer = shared.client.post(f"{mine.url}/service", data={"do": "save", "declared": text})
    assert answer.status_code == 422 and "outside" in answer.text


def test_passwords_are_not_guessed_by_trying(shared: App) -> None:
    for _ in range(10):
        shared.client.post("/login", data={"name": "ada", "password": "wrong"})
    answer = shared.client.post("/login", data={"name": "ada", "password": "correct horse battery"})
    assert answer.status_code == 429


def test_passwords_are_stored_as_slow_hashes(shared: App) -> None:
    text = shared.guard.users.path.read_text() if shared.guard.users else ""
    assert "correct horse" not in text
    assert text.count("scrypt$") == 3


def test_people_reach_it_over_tls(tmp_path: Path) -> None:
    """As docs/web.md says: a certificate, a users file, and nothing without encryption."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl on this machine")
    key, certificate, users = tmp_path / "tls.key", tmp_path / "tls.crt", tmp_path / "users.yaml"
    made = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    Users.add(users, "ada", "correct horse battery", "owner")
    command = [sys.executable, "-m", "discretion", "web", "--folder", str(tmp_path / "projects"), "--port", "0"]
    command += ["--users", str(users), "--tls-certificate", str(certificate), "--tls-key", str(key), "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            assert address.startswith("https://127.0.0.1:") and "token" not in address
            trusted = ssl.create_default_context(cafile=str(certificate))
            with urllib.request.urlopen(address, context=trusted) as answer:
                assert b"Log in" in answer.read()
            port = int(address.rstrip("/").rpartition(":")[2])
            asked = http.client.HTTPSConnection("127.0.0.1", port, context=trusted)
            asked.request("POST", "/login", "name=ada&password=correct+horse+battery")
            let_in = asked.getresponse()
            assert let_in.status == 303 and "; Secure" in str(let_in.getheader("set-cookie"))
            asked.close()
            with pytest.raises((OSError, http.client.HTTPException)):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10)
        finally:
            server.terminate()


@pytest.mark.parametrize(
    "options", [[], ["--users", "users.yaml"], ["--users", "users.yaml", "--tls-certificate", "x", "--tls-key", "y"]]
)
def test_nobody_is_served_in_the_open(options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Users.add(tmp_path / "users.yaml", "ada", "correct horse battery", "owner")
    assert run(["web", "--host", "0.0.0.0", *options]) == 2, (
        "people need names, passwords encryption, and browsers an address"
    )
