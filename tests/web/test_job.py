"""The whole job without a browser: everything is a plan, and the plan gives the same bytes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from discretion.cli.app import run
from discretion.web.project import read_json
from tests.web.conftest import App, csv, people

SWAP = {"columns": ["income"], "percent": "8", "do": "run"}


def protected(app: App) -> None:
    project = app.upload()
    app.confirmed(project, age="identifier", income="sensitive")
    answer = app.client.post(f"{project.url}/protect/rank-swap", data=SWAP)
    assert answer.status_code == 200, answer.text


def test_an_upload_is_read_and_roles_are_proposed(app: App) -> None:
    project = app.upload()
    page = app.client.get(f"{project.url}/data").text
    assert "400 rows and 5 columns" in page
    assert "Person 0001" in page
    roles = app.client.get(f"{project.url}/roles").text
    assert 'aria-label="Role of income"' in roles
    assert project.plan["confirmed"] is False
    assert (project.folder / "seed").stat().st_mode & 0o077 == 0


def test_the_published_bytes_are_those_of_discretion_run(app: App, tmp_path: Path) -> None:
    protected(app)
    project = app.projects.open("people")
    assert project.steps == [{"rank-swap": {"columns": ["income"], "percent": 8.0}}]
    answer = app.client.post(f"{project.url}/release", data={"do": "publish"})
    assert app.job(project)["state"] == "done", app.job(project)["label"]
    assert "data.csv" in answer.text
    ours = app.client.get(f"{project.url}/release/data.csv").content
    out, journal = tmp_path / "out", tmp_path / "journal"
    assert run(["run", str(project.folder / "plan.yaml"), "--out", str(out), "--journal", str(journal), "--quiet"]) == 0
    assert ours == (out / "data.csv").read_bytes()
    assert b"Person" not in ours
    report = app.client.get(f"{project.url}/release/report.html?look=1")
    assert "sandbox" in report.headers["content-security-policy"]


def test_what_the_gate_asks_can_be_confirmed(app: App) -> None:
    project = app.upload()
    app.confirmed(project, age="other", income="sensitive")
    app.client.post(f"{project.url}/protect/rank-swap", data=SWAP)
    answer = app.client.post(f"{project.url}/release", data={"do": "publish"})
    assert "Publish age all the same" in answer.text
    assert project.published() == []
    app.client.post(f"{project.url}/release", data={"do": "confirm", "entry": "confirmed_other", "column": ["age"]})
    assert project.plan["confirmed_other"] == ["age"]
    assert "data.csv" in project.published()


def test_the_script_of_the_plan_page_does_the_same(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    protected(app)
    project = app.projects.open("people")
    app.client.post(f"{project.url}/release", data={"do": "publish"})
    ours = (project.folder / "release" / "data.csv").read_bytes()
    monkeypatch.chdir(project.folder)
    exec(compile(project.script(), "script", "exec"), {})
    assert (project.folder / "release" / "data.csv").read_bytes() == ours


def test_undo_is_instant_and_gives_the_figures_of_before(app: App) -> None:
    protected(app)
    project = app.projects.open("people")
    after = project.result()
    jobs = app.job(project)["id"]
    app.client.post(f"{project.url}/steps", data={"do": "undo"})
    assert project.steps == []
    assert project.result() is not None
    assert project.result()["loss"] == 0
    assert after["loss"] > 0
    assert app.job(project)["id"] == jobs, "undo needs no job"


def test_steps_can_be_changed_moved_and_taken_out(app: App) -> None:
    protected(app)
    project = app.projects.open("people")
    app.client.post(f"{project.url}/protect/round", data={"columns": ["income"], "base": "100", "do": "run"})
    assert [next(iter(step)) for step in project.steps] == ["rank-swap", "round"]
    app.client.post(f"{project.url}/steps", data={"do": "up", "step": "1"})
    assert [next(iter(step)) for step in project.steps] == ["round", "rank-swap"]
    page = app.client.get(f"{project.url}/protect/rank-swap?change=1").text
    assert 'value="8.0"' in page
    changed = {**SWAP, "percent": "12"}
    app.client.post(f"{project.url}/protect/rank-swap?change=1", data=changed)
    assert project.steps[1]["rank-swap"]["percent"] == 12
    app.client.post(f"{project.url}/steps", data={"do": "remove", "step": "0"})
    assert [next(iter(step)) for step in project.steps] == ["rank-swap"]


def test_a_wrong_field_is_said_beside_it_and_nothing_typed_is_lost(app: App) -> None:
    protected(app)
    project = app.projects.open("people")
    answer = app.client.post(
        f"{project.url}/protect/rank-swap", data={"columns": ["income"], "percent": "-3", "top_share": "0.01"}
    )
    assert answer.status_code == 422
    assert 'value="-3"' in answer.text
    assert 'value="0.01"' in answer.text
    place = answer.text.index('id="f-percent-help"')
    assert "greater than" in answer.text[place : place + 400]
    assert len(project.steps) == 1


def test_a_preview_shows_a_sample_and_changes_nothing(app: App) -> None:
    protected(app)
    project = app.projects.open("people")
    before = project.text
    answer = app.client.post(f"{project.url}/protect/rank-swap", data={**SWAP, "percent": "20", "do": "try"})
    assert "Before and after" in answer.text
    assert 'value="20"' in answer.text
    assert project.text == before


def test_a_step_that_fails_leaves_the_plan_as_it_was(app: App) -> None:
    protected(app)
    project = app.projects.open("people")
    before = project.text
    wanted = {"models.0.kind": "k-anonymity", "models.0.k": "500", "do": "run"}
    answer = app.client.post(f"{project.url}/protect/optimal-generalization", data=wanted)
    assert app.job(project)["state"] == "failed"
    assert "The plan is as it was" in answer.text
    assert project.text == before


def test_what_must_hold_stops_a_release(app: App) -> None:
    protected(app)
    project = app.projects.open("people")
    app.client.post(f"{project.url}/require/k-anonymity", data={"k": "390"})
    assert project.plan["requirements"][-1] == {"k-anonymity": {"k": 390}}
    answer = app.client.post(f"{project.url}/release", data={"do": "publish"})
    assert app.job(project)["state"] == "failed"
    assert "not met" in answer.text
    assert project.published() == []
    app.client.post(f"{project.url}/release", data={"do": "drop", "number": "1"})
    app.client.post(f"{project.url}/release", data={"do": "publish"})
    assert "data.csv" in project.published()


def test_other_steps_are_published_as_the_next_version_with_new_draws(app: App) -> None:
    protected(app)
    project = app.projects.open("people")
    app.client.post(f"{project.url}/release", data={"do": "publish"})
    first = (project.folder / "seed").read_text().split()[0]
    app.client.post(f"{project.url}/protect/rank-swap?change=0", data={**SWAP, "percent": "15"})
    answer = app.client.post(f"{project.url}/release", data={"do": "publish"})
    assert "begin the next version" in answer.text, "what went out, and its journal, are not written over"
    app.client.post(f"{project.url}/release", data={"do": "next"})
    assert (project.folder / "seed").read_text().split()[0] != first
    app.client.post(f"{project.url}/release", data={"do": "publish"})
    assert app.job(project)["state"] == "done", app.job(project)["label"]
    assert project.plan["previous"]


def test_a_plan_that_another_window_changed_is_not_published_unseen(app: App) -> None:
    protected(app)
    project = app.projects.open("people")
    page = app.client.get(f"{project.url}/release").text
    shown = re.search(r'name="key" value="(\w+)"', page)
    assert shown
    app.client.post(f"{project.url}/require/k-anonymity", data={"k": "2"})
    answer = app.client.post(f"{project.url}/release", data={"do": "publish", "key": shown[1]})
    assert "changed in another window" in answer.text
    assert project.published() == []


def test_a_bad_file_is_said_and_the_project_can_be_read_again(app: App) -> None:
    project = app.upload("bad", "bad.parquet", b"this is no parquet")
    page = app.client.get(f"{project.url}/data").text
    assert "it did not work" in page
    assert "The file could not be read." in page and "Read the file" in page


def test_a_labelled_spss_file_keeps_its_labels(app: App, tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    rng = np.random.default_rng(4)
    frame = pl.DataFrame({"sex": rng.integers(1, 3, 300).astype(float), "income": rng.lognormal(10, 1, 300).round()})
    labels = {"sex": {1.0: "female", 2.0: "male"}}
    file = tmp_path / "survey.sav"
    pyreadstat.write_sav(
        frame.to_pandas(), file, column_labels=["Sex of the person", "Income"], variable_value_labels=labels
    )
    project = app.upload("survey", "survey.sav", file.read_bytes())
    page = app.client.get(f"{project.url}/data").text
    assert "Sex of the person" in page and "2 labels" in page and "female" in page
    app.confirmed(project, sex="quasi", income="sensitive")
    app.client.post(f"{project.url}/protect/rank-swap", data=SWAP)
    app.client.post(f"{project.url}/release", data={"do": "publish"})
    assert app.job(project)["state"] == "done", app.job(project)["label"]
    out = tmp_path / "out.sav"
    out.write_bytes(app.client.get(f"{project.url}/release/data.sav").content)
    read, meta = pyreadstat.read_sav(out)
    assert meta.variable_value_labels == labels
    assert meta.column_names_to_labels["sex"] == "Sex of the person"
    assert sorted(read["sex"]) == sorted(frame["sex"])
    assert "female" in app.client.get(f"{project.url}/release/codebook.html?look=1").text


@pytest.mark.parametrize(
    "name", ["../../etc/passwd.csv", "..\\..\\evil.csv", "a\x00b.csv", "/etc/passwd", "ünï<b>.csv"]
)
def test_hostile_file_names_stay_in_the_project(app: App, name: str) -> None:
    project = app.upload("hostile", name)
    found = [file.resolve() for file in (project.folder / "source").iterdir()]
    assert len(found) == 1
    assert found[0].parent == (project.folder / "source").resolve()
    assert "<b>" not in app.client.get(f"{project.url}/plan").text.replace("&lt;b&gt;", "")


@pytest.mark.parametrize("name", ["..", "../x", "a/b", ".hidden", "", "x" * 80, "a\nb/..", "<script>"])
def test_names_of_projects_are_names(app: App, name: str) -> None:
    app.client.post("/projects", data={"name": name}, files={"file": ("x.csv", b"a,b\n1,2\n")})
    assert all(one.folder.parent == app.projects.root for one in app.projects)
    assert {one.name for one in app.projects} <= {"x", "a b"}


@pytest.mark.parametrize(
    "place",
    ["/p/..%2F..%2Fetc/data", "/p/people/release/..%2Fseed", "/p/people/release/..%2F..%2Fplan.yaml",
     "/static/..%2Fapp.py", "/p/people/protect/..%2F..%2Fx", "/api/projects/people/release/..%2Fseed",
     "/api/projects/..%2F.."],
)  # fmt: skip
def test_paths_lead_nowhere_else(app: App, place: str) -> None:
    protected(app)
    app.client.post("/p/people/release", data={"do": "publish"})
    answer = app.client.get(place)
    assert answer.status_code == 404
    assert "0x" not in answer.text


def test_values_of_the_data_are_text_in_pages(app: App) -> None:
    evil = people(50).with_columns(name=pl.lit("<script>alert(1)</script>")).rename({"region": "<img src=x>"})
    project = app.upload("evil", content=evil.write_csv().encode())
    for page in ("data", "roles"):
        text = app.client.get(f"{project.url}/{page}").text
        assert "<script>alert" not in text
        assert "<img src=x>" not in text


def test_two_starts_at_once_are_one_job(app: App) -> None:
    project = app.upload()
    job = app.job(project)
    file = project.folder / "jobs" / job["id"] / "job.json"
    import json
    import os

    from discretion.web.project import started

    running = {**job, "state": "running", "pid": os.getpid(), "process": started(os.getpid())}
    file.write_text(json.dumps(running))
    answer = app.client.post(f"{project.url}/job", data={"do": "read"})
    assert answer.status_code == 409
    assert "already running" in answer.text
    file.write_text(json.dumps({**running, "process": "1"}))
    assert "gone" in app.client.get(f"{project.url}/job").text, "a worker that was killed is said"


def test_the_plan_page_shows_what_is_saved(app: App) -> None:
    protected(app)
    project = app.projects.open("people")
    page = app.client.get(f"{project.url}/plan").text
    assert "rank-swap" in page
    assert "dc.RankSwap(columns=[&#39;income&#39;], percent=8.0)" in page
    assert yaml.safe_load(project.text)["seed_file"] == "seed"
    assert (project.folder / "seed").read_text().split()[0] not in page


def test_a_hierarchy_is_built_with_a_preview(app: App) -> None:
    project = app.upload()
    place = f"{project.url}/hierarchy/age"
    page = app.client.post(place, data={"rule": "width", "width": "10", "levels": "3", "do": "try"}).text
    assert "covers all" in page
    assert "[20, 29]" in page
    assert "hierarchies" not in project.plan
    app.client.post(place, data={"rule": "width", "width": "10", "levels": "3", "do": "take"})
    assert project.plan["hierarchies"]["age"] == {"intervals": {"width": 10, "levels": 3}}
    cuts = {"rule": "slide", "cut": ["40", "30", "60", "50"], "coarser": "2", "do": "take"}
    app.client.post(place, data=cuts)
    kept = [["-inf", 30, 40, 50, 60, "inf"], ["-inf", 30, 50, "inf"]]
    assert project.plan["hierarchies"]["age"] == {"intervals": {"cuts": kept}}
    page = app.client.get(place).text
    assert page.count('name="cut"') == 5, "four cut points, and the one that is added next"
    assert 'value="slide" selected' in page
    table = {"rule": "table", "value": ["north", "south", "west"], "level.1": ["out", "out", "in"], "do": "take"}
    app.client.post(f"{project.url}/hierarchy/region", data=table)
    assert (project.folder / project.plan["hierarchies"]["region"]).read_text().splitlines()[0] == "north;out;*"


def test_every_method_has_a_form(app: App) -> None:
    from discretion.web.form import kinds_of

    protected(app)
    for kind in kinds_of("method"):
        assert app.client.get(f"/p/people/protect/{kind}").status_code == 200
    for kind in kinds_of("model", "risk", "utility"):
        assert app.client.get(f"/p/people/require/{kind}").status_code == 200


def test_rest_does_what_the_pages_do(app: App, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    people().write_csv(file)
    made = app.client.post("/api/projects", json={"path": str(file), "name": "rest"})
    assert made.status_code == 201, made.text
    roles = {"name": "identifier", "region": "quasi", "sex": "quasi", "age": "identifier", "income": "sensitive"}
    plan = {"roles": roles, "requirements": [{"k-anonymity": {"k": 5}}], "steps": []}
    assert app.client.put("/api/projects/rest/plan", json=plan).status_code == 202
    step = {"rank-swap": {"columns": ["income"], "percent": 8}}
    assert app.client.post("/api/projects/rest/steps", json=step).json()["state"] == "done"
    assert app.client.post("/api/projects/rest/jobs", json={"kind": "release"}).json()["state"] == "done"
    books = ["codebook.html", "codebook.md", "codebook.xml"]
    files = [*books, "data.csv", "report.html", "report.json"]
    assert app.client.get("/api/projects/rest").json()["published"] == files
    assert app.client.get("/api/projects/rest/release/data.csv").content.startswith(b"region,sex,income")
    assert app.client.get("/api/projects/rest/results/status").json()["k"] >= 5
    assert app.client.delete("/api/projects/rest/steps/last").json()["plan"].get("steps") is None
    assert "/api/projects/{name}/jobs" in app.client.get("/api/openapi.json").json()["paths"]


def test_candidates_are_weighed_compared_and_taken(app: App) -> None:
    protected(app)
    project = app.projects.open("people")
    form = {"use:rank-swap": "1", "values:rank-swap": "2, 10, 30", "seconds": "600", "do": "weigh"}
    page = app.client.post(f"{project.url}/balance", data=form).text
    assert app.job(project)["state"] == "done", app.job(project)["label"]
    assert page.count('class="mark"') >= 6, "three points, on the wide and on the narrow map"
    live = app.client.get(f"{project.url}/balance/live")
    assert live.headers["content-type"].startswith("text/event-stream")
    assert live.text.startswith("event: map\ndata: <figure") and live.text.endswith("event: end\ndata:\n\n")
    assert yaml.safe_load((project.folder / "balance.yaml").read_text())["tune"]["methods"]
    assert "Take this setting" in app.client.get(f"{project.url}/balance?point=1").text
    page = app.client.post(f"{project.url}/balance", data={"do": "compare", "point": ["0", "1", "2"]}).text
    assert page.count("Take this one") == 3
    app.client.post(f"{project.url}/balance", data={"do": "use", "candidate": "2"})
    assert project.steps == [{"rank-swap": {"columns": ["income"], "percent": 30.0}}]
    app.client.post(f"{project.url}/balance", data={"do": "take", "point": "0"})
    assert project.steps[0]["rank-swap"]["percent"] == 2
    refused = app.client.post(f"{project.url}/balance", data={"do": "compare", "point": ["0"]})
    assert refused.status_code == 422


def test_a_policy_asks_and_the_forms_begin_with_it(app: App) -> None:
    project = app.upload()
    app.confirmed(project, age="identifier", income="sensitive")
    page = app.client.post(f"{project.url}/release", data={"do": "policy", "policy": "public-use"}).text
    assert project.plan["policy"] == "public-use"
    assert "the policy asks for it" in page
    form = app.client.get(f"{project.url}/protect/optimal-generalization").text
    assert 'value="distinct-l-diversity" selected' in form
    app.client.post(f"{project.url}/release", data={"do": "policy", "policy": ""})
    assert "policy" not in project.plan


def test_what_a_policy_misses_is_said_mended_by_a_click_and_published(app: App, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    branch = rng.choice(["north", "south", "west", "islet"], 2000, p=[0.4, 0.3, 0.295, 0.005])
    ill = np.where((branch == "west") & (rng.random(2000) < 0.999), "flu", rng.choice(["flu", "cancer"], 2000))
    frame = pl.DataFrame({"branch": branch, "age": rng.integers(20, 70, 2000), "diagnosis": ill})
    project = app.upload("survey", "survey.csv", frame.write_csv().encode())
    table = {"rule": "table", "value": ["islet", "north", "south", "west"], "level.1": ["out", "in", "in", "out"]}
    app.client.post(f"{project.url}/hierarchy/branch", data={**table, "do": "take"})
    app.client.post(f"{project.url}/hierarchy/age", data={"rule": "width", "width": "10", "levels": "3", "do": "take"})
    roles = {"role:branch": "quasi", "role:age": "quasi", "role:diagnosis": "sensitive", "hierarchy:branch": "plan"}
    types = {"type:branch": "nominal", "type:age": "continuous", "type:diagnosis": "nominal", "hierarchy:age": "plan"}
    files = {"hierarchy:branch": "branch-made-here.csv", "hierarchy:diagnosis": "none"}
    app.client.post(f"{project.url}/roles", data={**roles, **types, **files, "do": "roles"})
    step = {"models.0.kind": "k-anonymity", "models.0.k": "5", "suppression_limit": "0.05", "do": "run"}
    app.client.post(f"{project.url}/protect/optimal-generalization", data=step)
    page = app.client.post(f"{project.url}/release", data={"do": "policy", "policy": "public-use"}).text
    found = project.result("verdicts")["found"]
    unmet = {next(iter(one["spec"])): place for place, one in enumerate(found) if not one["holds"]}
    assert "distinct-l-diversity" in unmet, found
    assert "Ask Optimal generalization for Distinct l diversity too" in page, found
    app.client.post(f"{project.url}/release", data={"do": "mend", "number": str(unmet["distinct-l-diversity"])})
    models = project.steps[0]["optimal-generalization"]["models"]
    assert models == [{"k-anonymity": {"k": 5}}, {"distinct-l-diversity": {"l": 2}}]
    for _ in range(3):
        open_ = [place for place, one in enumerate(project.result("verdicts")["found"]) if not one["holds"]]
        if not open_:
            break
        app.client.post(f"{project.url}/release", data={"do": "mend", "number": str(open_[0])})
    app.client.post(f"{project.url}/release", data={"do": "publish"})
    assert app.job(project)["state"] == "done", app.job(project)["label"]
    assert "codebook.html" in project.published()
    look = app.client.get(f"{project.url}/release/codebook.html?look=1")
    assert "sandbox" in look.headers["content-security-policy"]
    again = ["--out", str(tmp_path / "out"), "--journal", str(tmp_path / "journal"), "--quiet"]
    assert run(["run", str(project.folder / "plan.yaml"), *again]) == 0
    assert (tmp_path / "out" / "data.csv").read_bytes() == (project.folder / "release" / "data.csv").read_bytes()


def test_a_waiver_needs_a_name_a_function_that_may_and_a_reason(app: App) -> None:
    protected(app)
    project = app.projects.open("people")
    page = app.client.post(f"{project.url}/release", data={"do": "policy", "policy": "scientific-use"}).text
    assert "head of disclosure control" in page, "who may waive what is not met"
    waiver = {"do": "waive", "requirement": "distance-linkage", "function": "head of disclosure control"}
    refused = app.client.post(f"{project.url}/release", data={**waiver, "by": "Ada Stone", "why": ""})
    assert refused.status_code == 422 and "needs the name" in refused.text
    other = {**waiver, "function": "intern", "by": "Bo", "why": "for once"}
    refused = app.client.post(f"{project.url}/release", data=other)
    assert refused.status_code == 422 and "may not waive" in refused.text
    assert "waivers" not in project.plan
    page = app.client.post(f"{project.url}/release", data={**waiver, "by": "Ada Stone", "why": "a test"}).text
    assert project.plan["waivers"] == [
        {"requirement": "distance-linkage", "by": "Ada Stone, head of disclosure control", "why": "a test"}
    ]
    assert "Take back" in page
    named = [one["name"] for one in project.result("verdicts")["found"] if not one["holds"]]
    assert named == ["geography"], "400 people are not the 20,000 of an area"
    app.client.post(
        f"{project.url}/release", data={**waiver, "requirement": "geography", "by": "Ada Stone", "why": "x"}
    )
    app.client.post(f"{project.url}/release", data={"do": "publish"})
    assert app.job(project)["state"] == "done", app.job(project)["label"]
    report = (project.folder / "release" / "report.html").read_text()
    assert "Ada Stone" in report and "a test" not in report, "the reason stays private"
    app.client.post(f"{project.url}/release", data={"do": "unwaive", "number": "0"})
    assert [one["requirement"] for one in project.plan["waivers"]] == ["geography"]


def test_a_policy_of_the_house_comes_as_a_file(app: App) -> None:
    protected(app)
    project = app.projects.open("people")
    ours = b"title: Ours\nscenario: public-file\nextends: public-use\nrequirements:\n"
    ours += b"  - require: {k-anonymity: {k: 11}}\n    rows: records\n    why: health data\n"
    answer = app.client.post(
        f"{project.url}/release", data={"do": "policy"}, files={"policy_file": ("../ours.yaml", ours)}
    )
    assert answer.status_code == 200, answer.text
    assert project.plan["policy"] == "policies/ours.yaml"
    assert "requirements" not in project.plan, "eleven is asked, so that the five of the beginning goes"
    assert {"k-anonymity": {"k": 11}} in [one["spec"] for one in project.result("verdicts")["found"]]
    weak = ours.replace(b"k: 11", b"k: 2")
    answer = app.client.post(
        f"{project.url}/release", data={"do": "policy"}, files={"policy_file": ("weak.yaml", weak)}
    )
    assert answer.status_code == 422 and "weaker" in answer.text
    assert project.plan["policy"] == "policies/ours.yaml"


def test_edit_rules_are_chosen_with_the_roles_counted_and_restored(app: App) -> None:
    frame = people().with_columns(tax=pl.col("income") * 0.2, net=pl.col("income") * 0.8)
    project = app.upload(content=frame.write_csv().encode())
    known = project.read()["columns"]
    form = {"do": "roles", "edit_rules": "income >= 0\nincome == tax +", "policy": "scientific-use"}
    for column in known:
        name = column["name"]
        role = {"name": "identifier", "age": "identifier", "region": "quasi", "sex": "quasi"}.get(name, "sensitive")
        form |= {f"role:{name}": role, f"type:{name}": column["type"], f"hierarchy:{name}": "none"}
    wrong = app.client.post(f"{project.url}/roles", data=form)
    assert wrong.status_code == 422 and "income == tax +" in wrong.text, "what was typed stays"
    app.client.post(f"{project.url}/roles", data={**form, "edit_rules": "income >= 0\nincome == tax + net"})
    assert project.plan["edit_rules"] == ["income >= 0", "income == tax + net"]
    app.client.post(f"{project.url}/protect/rank-swap", data=SWAP)
    edits = project.result()["edits"]
    assert edits[1]["original"] == 0 < edits[1]["now"]
    page = app.client.get(f"{project.url}/release").text
    assert "income == tax + net" in page
    found = project.result("verdicts")["found"]
    place = next(place for place, one in enumerate(found) if "edit-rules" in one["spec"])
    assert not found[place]["holds"]
    app.client.post(f"{project.url}/release", data={"do": "mend", "number": str(place)})
    assert project.steps[-1] == {"restore-edit-rules": {}}
    assert project.result()["edits"][1]["now"] == 0


def test_a_table_is_made_audited_and_published(app: App) -> None:
    project = app.upload(content=csv(120))
    app.confirmed(project, age="identifier", income="sensitive")
    form = {"by": ["region", "sex"], "rules.0.kind": "threshold", "rules.0.minimum": "20", "protect": "suppress"}
    page = app.client.post(f"{project.url}/tables", data={**form, "do": "make"}).text
    assert app.job(project)["state"] == "done", app.job(project)["label"]
    assert "The audit holds" in page
    assert 'class="num primary"' in page
    assert "an attacker finds" in page
    page = app.client.post(f"{project.url}/tables", data={**form, "do": "publish"}).text
    assert "report.html" in page
    assert app.client.get(f"{project.url}/tables/report.json").status_code == 200
    assert app.client.get(f"{project.url}/tables/..%2Fseed").status_code == 404
    wrong = app.client.post(f"{project.url}/tables", data={"do": "make"})
    assert wrong.status_code == 422
    table = {"rule": "table", "value": ["north", "south", "west"], "level.1": ["out", "out", "in"], "do": "take"}
    app.client.post(f"{project.url}/hierarchy/region", data=table)
    page = app.client.post(f"{project.url}/tables", data={**form, "tree": ["region"], "do": "make"}).text
    assert app.job(project)["state"] == "done", app.job(project)["label"]
    labels = [cell["by"]["region"] for cell in read_json(project.folder / "table.json")["cells"]]
    assert {"out", "in", "north", "Total"} <= {*labels}
    assert page.index(">out<") < page.index(">north<"), "a group stands before what is in it"


def test_a_query_service_is_declared_started_asked_and_stopped(app: App) -> None:
    pytest.importorskip("opendp")
    import json
    import urllib.error
    import urllib.request

    project = app.upload()
    page = app.client.get(f"{project.url}/service").text
    assert "role: hidden" in page, "the draft is cautious"
    wrong = app.client.post(f"{project.url}/service", data={"do": "save", "declared": "tables: 3"})
    assert wrong.status_code == 422
    from discretion.web import service

    text = service.drafted(project)
    try:
        page = app.client.post(f"{project.url}/service", data={"do": "start", "declared": text}).text
        assert "The service runs" in page, page[-3000:]
        state = service.state_of(project)
        assert state is not None
        body = json.dumps({"sql": "SELECT count(*) FROM people"}).encode()
        headers = {"X-API-Key": state["keys"]["analyst"], "content-type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(f"{state['address']}/query", body, headers)) as answer:
            assert answer.status == 200
        body = json.dumps({"sql": "SELECT avg(income) FROM people WHERE age = 4711"}).encode()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(f"{state['address']}/query", body, headers))
        refused.value.close()
        page = app.client.get(f"{project.url}/service").text
        assert "count of people" in page and "Refused questions" in page
        assert "mean income of people where age = …" in page and "no declared bounds" in page
        assert "4711" not in page
    finally:
        app.client.post(f"{project.url}/service", data={"do": "stop"})
    assert service.state_of(project) is None
    assert "no declared bounds" in app.client.get(f"{project.url}/service").text, "also when it is over"


def test_a_bad_file_gives_its_name_back_and_another_one_or_another_way_takes_its_place(app: App) -> None:
    ragged = b"a;b\n1;2;3;4\n5\n" * 3
    project = app.upload("bad", "bad.csv", ragged)
    page = app.client.get(f"{project.url}/data").text
    assert "The file could not be read." in page and "=" not in page.split('role="alert"')[1].split("</div>")[0]
    assert str(project.folder) not in page.split('role="alert"')[1].split("</div>")[0]
    assert app.upload("bad", "bad.csv", csv(20)).read() is not None, "what was never read does not keep its name"
    again = app.client.post("/projects", data={"name": "bad"}, files={"file": ("bad.csv", csv(20))})
    assert again.status_code == 422 and "delete that one first" in again.text
    project = app.upload("other", "other.csv", ragged)
    app.client.post(
        f"{project.url}/data", data={"delimiter": "|"}, files={"file": ("good.csv", csv(20).replace(b",", b"|"))}
    )
    assert project.read()["rows"] == 20 and project.plan["data"] == {"path": "source/good.csv", "delimiter": "|"}


def test_a_project_is_deleted_after_a_question(app: App, shared: App) -> None:
    project = app.upload(content=csv(20))
    (project.folder / "release").mkdir()
    (project.folder / "release" / "data.csv").touch()
    page = app.client.get(f"{project.url}/delete").text
    assert "It was published." in page and project.folder.exists(), "asking deletes nothing"
    shared.log_in("rob", "staple battery horse")
    assert shared.client.post(f"{project.url}/delete").status_code == 403
    assert app.client.post(f"{project.url}/delete").status_code == 200
    assert not project.folder.exists() and not [*app.projects.root.iterdir()]


def test_what_a_step_did_is_said(app: App) -> None:
    project = app.upload()
    app.confirmed(project, name="identifier", age="quasi", region="quasi", sex="quasi", income="sensitive")
    step = {"models.0.kind": "k-anonymity", "models.0.k": "5", "suppression_limit": "0.05"}
    preview = app.client.post(f"{project.url}/protect/optimal-generalization", data={**step, "do": "try"}).text
    assert "Tried on all 400 rows." in preview and "It changes" not in preview
    page = app.client.post(f"{project.url}/protect/optimal-generalization", data={**step, "do": "run"}).text
    assert "What Optimal generalization did" in page and "Proven: no other choice of levels loses less." in page
    data = pl.read_ipc(project.place(project.key()) / "data.arrow")
    if gone := 400 - len(data):
        assert f"{gone} record" in page and "of 400" in page
    assert ("age to level" in page or "age wholly hidden" in page) and "income" not in project.did(project.plan)[0]
    for line in project.did(project.plan)[0]:
        assert line in preview.replace("&#39;", "'"), "the preview of a search is what the step does"
    assert "Values learnt" in page and "People found" in page


def test_a_cancelled_search_leaves_the_finished_map(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    from discretion.errors import Cancelled
    from discretion.release import tune as tune_module
    from discretion.web.project import write_json

    project = app.upload()
    app.confirmed(project, name="identifier", age="other", income="sensitive")
    drawn = {"wide": "<svg></svg>", "narrow": "", "risk": "", "utility": "", "failed": [], "not_tried": []}
    finished, live = {**drawn, "points": [], "done": True}, {**drawn, "points": [], "done": False}
    write_json(project.folder / "balance.json", finished)

    def cancelled(*_: object, **__: object) -> None:
        write_json(project.folder / "balance-live.json", live)
        raise Cancelled("cancelled")

    monkeypatch.setattr(tune_module, "tune_plan", cancelled)
    form = {"use:rank-swap": "1", "values:rank-swap": "2, 30", "seconds": "600", "do": "weigh"}
    page = app.client.post(f"{project.url}/balance", data=form).text
    assert app.job(project)["state"] == "cancelled"
    assert project.map() == finished and project.map(running=True) == live
    assert 'value="2, 30"' in page, "what was tried stays in the form"
    assert "of income" in page, "the columns that are swapped"
    (project.folder / "balance.json").unlink()
    assert project.map() == live, "without a finished one, what there is"


def test_messages_stay_with_their_step_and_methods_that_cannot_apply_stand_apart(app: App) -> None:
    project = app.upload()
    app.confirmed(project, name="other", age="quasi", income="sensitive")
    page = app.client.get(f"{project.url}/protect").text
    assert page.index("Not for this data") < page.index("Drop identifiers")
    app.client.post(f"{project.url}/protect/drop-identifiers", data={"do": "run"})
    assert app.job(project)["state"] == "failed"
    assert "choose the columns" in app.client.get(f"{project.url}/protect").text
    for place in ("protect/rank-swap", "balance", "data", "tables"):
        assert "it did not work" not in app.client.get(f"{project.url}/{place}").text, place


def test_another_policy_after_publishing_is_said_and_all_files_come_in_one(app: App) -> None:
    import io
    import zipfile

    from discretion.web.project import required_in, write_json

    project = app.upload(content=csv(20))
    (project.folder / "release").mkdir()
    (project.folder / "release" / "data.csv").write_text("x\n1\n")
    done = {**app.job(project), "kind": "release", "key": project.key(), "of": required_in(project.plan)}
    write_json(project.folder / "jobs" / done["id"] / "job.json", done)
    page = app.client.get(f"{project.url}/release").text
    assert "Published." in page and "was changed since" not in page and f"{project.folder}/release" in page
    got = app.client.get(f"{project.url}/release/all.zip")
    assert zipfile.ZipFile(io.BytesIO(got.content)).read("people-release/data.csv") == b"x\n1\n"
    project.save({**project.plan, "policy": "public-use"}, "", "")
    assert "What must hold was changed since" in app.client.get(f"{project.url}/release").text
    project.save({**project.plan, "steps": [{"round": {"columns": ["age"], "base": 5}}]}, "", "")
    assert "The plan was changed since" in app.client.get(f"{project.url}/release").text


def test_addresses_that_cannot_be_read_are_said_in_a_page(app: App) -> None:
    project = app.upload(content=csv(20))
    for place in ("data?at=zzz", "balance?point=abc"):
        answer = app.client.get(f"{project.url}/{place}")
        assert answer.status_code == 422 and "must be a number" in answer.text and "<h1>" in answer.text


def test_questions_are_written_in_words() -> None:
    from discretion.web.service import _words

    where = {
        "and": [{"column": "sex", "op": "=", "values": ["f"]}, {"not": {"column": "age", "op": "<", "values": [40]}}]
    }
    query = {"aggregates": [{"function": "count"}], "table": "people", "where": where}
    assert _words(query) == 'count of people where sex = "f" and not (age < 40)'
