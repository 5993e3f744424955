"""The web app: weight of pages, a page of a million rows, start and cancel of jobs, memory of the server.

`python -m benchmarks.web` prints the figures and their limits; exit code 1 if one is over its limit. Times are wall
times of one request each, so that a busy machine counts: the best of several is taken.
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
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

ROWS = 1_000_000
LIMITS = {
    "heaviest page without data (kB)": 40.0,
    "a page of 10^6 rows (s)": 0.1,
    "a job begins (s)": 0.1,
    "a job is cancelled (s)": 0.5,
    "memory of the server (MB)": 200.0,
}


def figures() -> dict[str, float]:
    """Start the app on a million rows and measure."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        rng = np.random.default_rng(1)
        columns = {f"x{place}": rng.normal(size=ROWS).round(3) for place in range(6)}
        places = {"region": rng.choice(["north", "south", "west"], ROWS), "age": rng.integers(18, 90, ROWS)}
        pl.DataFrame({**columns, **places}).write_parquet(folder / "large.parquet")
        command = [sys.executable, "-m", "discretion", "web", "--folder", str(folder / "p"), "--port", "0", "--quiet"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                return _measured(server.stdout.readline().strip(), folder, server.pid)
            finally:
                server.terminate()


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
    jobs = _settled(folder)
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
    page = min(_seconds(lambda at=at: get(f"/p/large/data?at={at}")) for at in (0, 500_000, 999_950, 123_456, 3))
    time.sleep(8)  # a spare worker is warm
    post("/p/large/job", do="read", back="data")
    while jobs()[0]["state"] == "waiting":
        time.sleep(0.005)
    begun = jobs()[0]["begun"] - jobs()[0]["asked"]
    cancelled = _seconds(lambda: post(f"/p/large/cancel/{jobs()[0]['id']}"))
    memory = int(
        next(x for x in Path(f"/proc/{pid}/status").read_text().splitlines() if x.startswith("VmHWM")).split()[1]
    )
    return dict(zip(LIMITS, (weight + looks / 1000, page, begun, cancelled, memory / 1024), strict=True))


def _settled(folder: Path) -> Callable[[], list[dict[str, float | str]]]:
    from discretion.web.jobs import jobs_of
    from discretion.web.project import Project

    project = Project(folder / "p" / "large")

    def jobs() -> list[dict[str, float | str]]:
        return jobs_of(project)

    while jobs()[0]["state"] in ("waiting", "running"):
        time.sleep(0.2)
    return jobs


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    found = figures()
    for name, value in found.items():
        print(f"{name:40s} {value:10.3f}  limit {LIMITS[name]:g}{'' if value <= LIMITS[name] else '  OVER'}")
    sys.exit(any(value > LIMITS[name] for name, value in found.items()))
