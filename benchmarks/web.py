"""The web app: weight of pages, pages of a million rows, start and cancel of jobs, memory of the server, 10⁷ rows.

`python -m benchmarks web` compares the figures with those that the app promises. Times are wall times of one request
each, so that a busy machine counts: the best of several is taken.
"""

from __future__ import annotations

import gzip
import http.cookiejar
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.ratio import Line

ROWS, MANY = 1_000_000, 10_000_000
LIMITS = {
    "heaviest page without data (kB)": 40.0,
    "a page of 10^6 rows (s)": 0.1,
    "slowest page at 10^6 rows (s)": 1.0,
    "a job begins (s)": 0.1,
    "a job is cancelled (s)": 0.5,
    "memory of the server (MB)": 200.0,
    "10^7 rows open from a path (s)": 20.0,
}


def lines() -> Iterator[Line]:
    """Give each figure beside the one that the app promises."""
    for name, value in figures().items():
        yield Line(f"web: {name}", "what is promised", value, LIMITS[name], 1.0)


def figures() -> dict[str, float]:
    """Start the app on a million rows and measure."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, rows in (("large", ROWS), ("many", MANY)):
            _people(rows).write_parquet(folder / f"{name}.parquet")
        command = [sys.executable, "-m", "discretion", "web", "--folder", str(folder / "p"), "--port", "0", "--quiet"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                return _measured(server.stdout.readline().strip(), folder, server.pid)
            finally:
                server.terminate()


def _people(rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    columns = {f"x{place}": rng.normal(size=rows).round(3) for place in range(6)}
    places = {"region": rng.choice(["north", "south", "west"], rows), "age": rng.integers(18, 90, rows)}
    return pl.DataFrame({**columns, **places})


def _measured(address: str, folder: Path, pid: int) -> dict[str, float]:
    host = address.partition("/?")[0]
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))

    def get(place: str) -> bytes:
        with opener.open(host + place) as answer:
            content: bytes = answer.read()
        return content

    def post(place: str, **form: str) -> None:
        opener.open(host + place, urllib.parse.urlencode(form).encode()).close()

    opener.open(address).close()
    post("/projects", path=str(folder / "large.parquet"), name="large")
    jobs = _settled(folder, "large")
    looks = sum(len(gzip.compress(get(f"/static/{name}"))) for name in ("look.css", "page.js"))
    pages = (
        "/",
        "/p/large/protect",
        "/p/large/balance",
        "/p/large/release",
        "/p/large/plan",
        "/p/large/protect/rank-swap",
    )
    weight = max(len(get(page)) for page in pages) / 1000
    page = min(_seconds(partial(get, f"/p/large/data?at={at}")) for at in (0, 500_000, 999_950, 123_456, 3))
    shown = (*pages[1:], "/p/large/data", "/p/large/roles", "/p/large/hierarchy/age", "/p/large/tables")
    slowest = max(min(_seconds(partial(get, page)) for _ in range(2)) for page in shown)
    time.sleep(8)  # a spare worker is warm
    post("/p/large/job", do="read", back="data")
    while jobs()[0]["state"] == "waiting":
        time.sleep(0.005)
    begun = jobs()[0]["begun"] - jobs()[0]["asked"]
    cancelled = _seconds(lambda: post(f"/p/large/cancel/{jobs()[0]['id']}"))
    memory = int(
        next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmHWM")).split()[1]
    )
    start = time.perf_counter()
    post("/projects", path=str(folder / "many.parquet"), name="many")
    _settled(folder, "many")
    opened = time.perf_counter() - start
    found = (weight + looks / 1000, page, slowest, begun, cancelled, memory / 1024, opened)
    return dict(zip(LIMITS, found, strict=True))


def _settled(folder: Path, name: str) -> Callable[[], list[dict[str, Any]]]:
    from discretion.web.project import Project, jobs_of

    project = Project(folder / "p" / name)

    def jobs() -> list[dict[str, Any]]:
        return jobs_of(project)

    while jobs()[0]["state"] in ("waiting", "running"):
        time.sleep(0.2)
    return jobs


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
