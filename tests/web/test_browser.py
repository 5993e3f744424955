"""The app as a person uses it: Debian's chromium, visible labels, no address typed but the one that was printed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.web.conftest import people

CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("there is no chromium on this machine (apt-get install chromium)", allow_module_level=True)
sync_api = pytest.importorskip("playwright.sync_api")

pytestmark = pytest.mark.xdist_group("browser")
_PATIENCE = 600


class Server:
    """`discretion web` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "discretion", "web", "--folder", str(folder), "--port", "0", "--quiet"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        self.host = self.address.partition("/?")[0]

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)
        if self.process.stdout is not None:
            self.process.stdout.close()


class Person:
    """Somebody at a browser: counts what is done, and notes what goes elsewhere or is complained of."""

    def __init__(self, browser: Any, server: Server, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(_PATIENCE * 1000)
        self.done, self.elsewhere, self.complaints = 0, [], []
        self.page.on("request", lambda one: self._watch(one.url, server.host))
        self.page.on("console", lambda one: self.complaints.append(one.text) if one.type == "error" else None)
        self.page.goto(server.address)

    def _watch(self, url: str, host: str) -> None:
        if not url.startswith((host, "data:")):
            self.elsewhere.append(url)

    def click(self, role: str, name: str | re.Pattern[str], *, exact: bool = True) -> None:
        self.done += 1
        kind = {} if isinstance(name, re.Pattern) else {"exact": exact}
        self.page.get_by_role(role, name=name, **kind).first.click()

    def fill(self, label: str, text: str) -> None:
        self.done += 1
        self.page.get_by_label(label, exact=True).first.fill(text)

    def choose(self, label: str, option: str) -> None:
        self.done += 1
        self.page.get_by_label(label, exact=True).select_option(label=option)

    def upload(self, label: str, *files: Path) -> None:
        self.done += 1
        self.page.get_by_label(label, exact=True).set_input_files(list(files))

    def wait(self) -> None:
        """Wait until nothing runs and the page has come back."""
        end = time.monotonic() + _PATIENCE
        wrong: list[str] = ["it takes too long"]
        while time.monotonic() < end:
            try:
                self.page.wait_for_load_state()
                if not self.page.locator("[data-running]").count():
                    self.page.wait_for_timeout(300)
                    self.page.wait_for_load_state()
                    if not self.page.locator("[data-running]").count():
                        wrong = self.page.locator(".notice.wrong").all_inner_texts()
                        break
            except sync_api.Error:
                continue  # the page is just loaded again
            self.page.wait_for_timeout(100)
        assert not wrong, wrong

    def step(self, name: str) -> None:
        """Go to a page by the rail."""
        self.done += 1
        self.page.get_by_role("navigation", name="Steps").get_by_role("link", name=name).click()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path / "projects")
    yield found
    found.end()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Fetch axe-core (MPL-2.0, for the tests only, never part of the package) from the registry."""
    npm = shutil.which("npm")
    place = tmp_path_factory.mktemp("axe")
    got = npm and subprocess.run([npm, "pack", "axe-core@4"], cwd=place, capture_output=True, check=False)
    if not got or got.returncode:
        pytest.skip("axe-core cannot be fetched from the registry")
    (archive,) = place.glob("*.tgz")
    with tarfile.open(archive) as opened:
        member = opened.extractfile("package/axe.min.js")
        assert member is not None
        return member.read().decode()


def serious(person: Person, axe: str) -> list[str]:
    """Name the serious and critical violations of accessibility on a page."""
    person.page.evaluate(axe)
    found = person.page.evaluate("axe.run(document, {iframes: false})")["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in ("serious", "critical")
    ]


def adult(folder: Path) -> tuple[Path, list[Path]]:
    """Give adult with its hierarchies where the shared files are, otherwise people like them."""
    shared = Path(os.environ.get("DISCRETION_SHARED", "../shared")) / "data" / "adult"
    if (shared / "adult.csv").exists():
        return shared / "adult.csv", sorted(shared.glob("adult_hierarchy_*.csv"))
    rng = np.random.default_rng(1)
    count = 3000
    age = rng.integers(17, 90, count)
    made = pl.DataFrame(
        {
            "sex": rng.choice(["Male", "Female"], count),
            "age": age,
            "education": rng.choice(["Bachelors", "Masters", "10th", "11th", "Doctorate"], count),
            "salary-class": np.where((age > 40) & (rng.random(count) < 0.5), ">50K", "<=50K"),  # told by groups of age
        }
    )
    made.write_csv(folder / "adult.csv", separator=";")
    rows = [
        f"{age};{age // 10 * 10}-{age // 10 * 10 + 9};{age // 20 * 20}-{age // 20 * 20 + 19};*" for age in range(17, 91)
    ]
    (folder / "adult_hierarchy_age.csv").write_text("\n".join(rows) + "\n")
    return folder / "adult.csv", [folder / "adult_hierarchy_age.csv"]


@pytest.mark.slow
def test_the_whole_job_in_at_most_forty_interactions(browser: Any, server: Server, tmp_path: Path) -> None:
    data, hierarchies = adult(tmp_path)
    person = Person(browser, server)
    side = person.page.get_by_label("Where the data stands")
    person.done += 1
    person.page.get_by_text("Hierarchies, a large file, another name").click()
    person.upload("Data file", data)
    person.upload("Hierarchy files", *hierarchies)
    person.click("button", "Open")
    person.wait()
    person.click("link", "Choose the roles")
    person.click("button", "Use these roles")
    person.wait()
    assert "stand alone" in side.inner_text()
    person.click("button", "Run every attack")
    person.wait()
    assert person.page.get_by_text("Every attack, from guessing to success").count()
    person.click("link", "Protect the data")
    person.click("link", re.compile("^Optimal generalization"))
    assert person.page.get_by_label("k", exact=True).first.input_value() == "5"
    person.click("button", "Run this step")
    person.wait()
    assert "Optimal generalization" in side.inner_text() and "holds k-anonymity" in side.inner_text()
    assert re.search(r"everybody looks like (\d+) others", side.inner_text())
    person.click("link", "Weigh risk and utility")
    person.click("checkbox", "Rank swap")
    person.click("button", "Draw the map")
    person.wait()
    for name, place in (("Optimal generalization", 0), ("Optimal generalization", 1), ("Rank swap", 0)):
        person.done += 1
        person.page.get_by_role("checkbox", name=re.compile(f"^Compare {name}, ")).nth(place).check()
    person.click("button", "Compare the chosen ones")
    person.wait()
    swapped = person.page.get_by_role("figure").filter(has_text=re.compile("Rank swap, percent"))
    assert "not met: k-anonymity" in swapped.last.inner_text()
    person.step("Release")
    person.choose("Policy", "Public-use file")
    person.click("button", "Use this policy")
    person.wait()
    mended = 0
    while (unmet := person.page.get_by_role("button", name=re.compile("^(Ask|Make) "))).count():
        assert (mended := mended + 1) < 4, "each click brings the release nearer"
        person.done += 1
        unmet.first.click()
        person.wait()
    assert mended, "k-anonymity alone is not what the policy asks for"
    person.click("button", "Publish")
    person.wait()
    with person.page.expect_download() as got:
        person.click("link", "data.csv")
    ours = Path(got.value.path()).read_bytes()
    report = person.page.frame_locator('iframe[title="Public report"]')
    assert "Public-use file" in report.locator("body").inner_text()
    plan = next(server.folder.glob("*/plan.yaml"))
    out = ["--out", str(tmp_path / "out"), "--journal", str(tmp_path / "journal"), "--quiet"]
    subprocess.run([sys.executable, "-m", "discretion", "run", str(plan), *out], check=True, stdout=subprocess.DEVNULL)
    assert ours == (tmp_path / "out" / "data.csv").read_bytes()
    assert person.done <= 40, person.done
    assert not person.elsewhere
    assert not person.complaints
    print(f"{person.done} interactions")


def opened(person: Person, folder: Path, name: str = "people", rows: int = 400) -> None:
    file = folder / f"{name}.csv"
    people(rows, seed=len(name)).write_csv(file)
    person.upload("Data file", file)
    person.click("button", "Open")
    person.wait()
    person.click("link", "Choose the roles")
    person.click("button", "Use these roles")
    person.wait()


@pytest.mark.parametrize("look", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_pages_are_accessible_and_ask_nobody_else(
    browser: Any, server: Server, tmp_path: Path, axe: str, look: str
) -> None:
    person = Person(browser, server, color_scheme=look, bypass_csp=True)
    assert serious(person, axe) == []
    opened(person, tmp_path, f"people-{look}")
    found: dict[str, list[str]] = {}
    for name in ("Data", "Roles", "Risk", "Protect", "Balance", "Release", "Tables", "Service", "Plan", "History"):
        person.step(name)
        person.wait()
        found |= {name: wrong} if (wrong := serious(person, axe)) else {}
    for step, link in (
        ("Roles", "Build the hierarchy of age"),
        ("Roles", "Build the hierarchy of region"),
        ("Protect", re.compile("^Rank swap")),
    ):
        person.step(step)
        person.click("link", link)
        found |= {str(link): wrong} if (wrong := serious(person, axe)) else {}
    person.step("Release")
    person.choose("Policy", "Scientific-use file")
    person.click("button", "Use this policy")
    person.wait()
    found |= {"policy": wrong} if (wrong := serious(person, axe)) else {}
    assert not found
    assert not person.elsewhere + person.complaints
    person.page.set_viewport_size({"width": 390, "height": 844})
    for name in ("Data", "Roles", "Protect", "Release"):
        person.step(name)
        wide = person.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, (name, wide)


def test_a_form_with_parts_inside_and_an_undo(browser: Any, server: Server, tmp_path: Path) -> None:
    person = Person(browser, server)
    opened(person, tmp_path)
    person.click("link", "Protect the data")
    person.click("link", re.compile("^Local suppression"))
    person.page.get_by_label("Models: which", exact=True).first.select_option(label="k-anonymity")
    person.click("button", "Add to Models")
    person.page.get_by_label("Models: which", exact=True).last.select_option(label="(α, k)-anonymity")
    person.page.locator('[data-inner="models.1"] .field').first.wait_for()
    person.page.get_by_role("button", name="Remove").last.click()
    person.page.get_by_label("k", exact=True).last.fill("6")
    person.click("button", "Run this step")
    person.wait()
    side = person.page.get_by_label("Where the data stands")
    assert "Local suppression" in side.inner_text()
    person.click("button", "Undo the last step")
    person.wait()
    assert "None yet" in side.inner_text()
    assert not person.complaints


def test_groups_by_dragging_and_cut_points_by_keys(browser: Any, server: Server, tmp_path: Path) -> None:
    person = Person(browser, server)
    opened(person, tmp_path)
    person.step("Roles")
    person.click("link", "Build the hierarchy of region")
    person.choose("How values are put together", "a table of values")
    bins = person.page.locator(".bins > div")
    assert bins.count() == 4, "three regions, and room for a new group"
    bins.filter(has_text="south").locator("span").drag_to(bins.filter(has_text="north"))
    assert person.page.get_by_label("Level 1 of south").input_value() == "north"
    person.page.get_by_label("Level 1 of west").fill("north")  # without a mouse
    assert bins.count() == 2
    person.click("button", "Preview")
    assert person.page.get_by_text("It covers all 3 values, and its levels nest.").count()
    person.step("Roles")
    person.click("link", "Build the hierarchy of age")
    person.choose("How values are put together", "bands of numbers, cut where you drag")
    person.page.get_by_role("button", name="Add a cut point").click()
    slider = person.page.get_by_label("Cut point", exact=True).last
    slider.focus()
    before = int(slider.input_value())
    slider.press("ArrowRight")
    assert int(slider.input_value()) == before + 1
    person.click("button", "Preview")
    person.page.get_by_text(f">= {before + 1}").first.wait_for()
    assert not person.complaints


def test_two_browsers_see_their_projects_and_the_same_state(browser: Any, server: Server, tmp_path: Path) -> None:
    one, two = Person(browser, server), Person(browser, server)
    opened(one, tmp_path, "north")
    opened(two, tmp_path, "southern")
    assert "southern" not in one.page.locator("header").inner_text()
    one.click("link", "Protect the data")
    two.click("link", "Protect the data")
    two.click("link", re.compile("^Rank swap"))
    two.fill("Percent", "7")
    two.done += 1
    two.page.get_by_role("group", name="Columns").first.get_by_text("income", exact=True).click()
    two.click("button", "Run this step")
    two.wait()
    one.page.reload()
    assert "Rank swap" not in one.page.get_by_label("Where the data stands").inner_text()
    one.page.get_by_role("link", name="discretion", exact=True).click()
    one.click("link", re.compile("^southern"))
    assert "Rank swap" in one.page.get_by_label("Where the data stands").inner_text()


def long_job(person: Person, tmp_path: Path) -> None:
    """Begin something that takes long: groups of many people over all columns."""
    opened(person, tmp_path, rows=60_000)
    person.click("link", "Protect the data")
    person.click("link", re.compile("^MDAV"))
    for column in ("region", "sex", "age", "income"):
        person.page.get_by_role("group", name="Columns").first.get_by_text(column, exact=True).click()
    person.click("button", "Run this step")
    person.page.get_by_role("button", name="Cancel").wait_for()


@pytest.mark.slow
def test_a_long_job_survives_reload_and_server_and_cancel_ends_it(browser: Any, tmp_path: Path) -> None:
    from discretion.web.project import Project, last_job, started

    server = Server(tmp_path / "projects")
    person = Person(browser, server)
    long_job(person, tmp_path)
    person.page.reload()
    person.page.get_by_role("button", name="Cancel").wait_for()
    project = Project(tmp_path / "projects" / "people")
    before = last_job(project)
    while before is None or before["state"] == "waiting":
        time.sleep(0.1)
        before = last_job(project)
    server.process.kill()
    server.process.wait()
    assert started(before["pid"]) == before["process"], "the worker goes on without the server"
    again = Server(tmp_path / "projects")
    other = Person(browser, again)
    other.click("link", re.compile("^people"))
    other.step("Protect")
    other.page.get_by_role("button", name="Cancel").wait_for()
    other.page.get_by_role("button", name="Cancel").focus()
    other.page.wait_for_timeout(2000)
    assert other.page.evaluate("document.activeElement.textContent") == "Cancel", "progress takes no focus away"
    other.page.keyboard.press("Enter")
    other.page.get_by_text("was cancelled. The plan is as it was.").wait_for()
    assert started(before["pid"]) != before["process"], "it is really gone"
    assert project.steps == []
    again.end()
    if server.process.stdout is not None:
        server.process.stdout.close()
