"""Doors: how many files of the package a reader passes on the way of the data, counted by following the calls.

`python -m benchmarks.doors [--list]` follows `discretion table PLAN` up to the written table, and a question on-line up
to its answer (true under audit, and private). A file counts when one of its functions runs; what runs because a module
is imported does not.
"""

from __future__ import annotations

import argparse
import inspect
import io
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import discretion as dc

PACKAGE = str(Path(dc.__file__).parent)

TABLE = """
data: people.csv
table:
  by: [region, education]
  value: income
  contributor: household
  rules:
    - threshold: {minimum: 3}
    - p-percent: {percent: 10}
  protect: {suppress: {engine: levels}}
  output: {folder: out, formats: [csv]}
"""

SERVICE = """
ledger: sqlite:///ledger.db
tables:
  people:
    source: people.csv
    columns:
      sex: {role: public, type: category, categories: [female, male]}
      region: {role: public, type: category}
      income: {role: sensitive, type: number, bounds: [0, 200000]}
users:
  ann: {policy: {mode: exact+audit, min_query_size: 5}}
  bob: {policy: {mode: dp, epsilon: 1.0, epsilon_per_query: 0.05}}
"""


class Doors:
    """The files whose functions ran, in the order in which they were first entered."""

    def __init__(self) -> None:
        self.entered: dict[str, str] = {}
        self._importing = threading.local()

    def follow(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(PACKAGE):
            return
        depth = getattr(self._importing, "depth", 0)
        if code.co_name == "<module>":
            self._importing.depth = depth + (1 if event == "call" else -1)
        elif event == "call" and depth == 0 and code.co_flags & inspect.CO_OPTIMIZED:  # class bodies are not functions
            self.entered.setdefault(code.co_filename[len(PACKAGE) + 1 :], code.co_qualname)

    @contextmanager
    def watching(self) -> Iterator[None]:
        threading.setprofile(self.follow)
        sys.setprofile(self.follow)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]


def table(folder: Path, doors: Doors) -> None:
    """Follow `discretion table PLAN` from the command to the written table."""
    from discretion.cli.app import run

    (folder / "plan.yaml").write_text(TABLE, encoding="utf-8")
    with redirect_stdout(io.StringIO()), doors.watching():
        code = run(["table", str(folder / "plan.yaml"), "--quiet"])
    if code != 0 or not list((folder / "out").glob("*.csv")):
        raise SystemExit(f"the table was not written (exit code {code})")


def asking(user: str) -> Callable[[Path, Doors], None]:
    """Follow a question of a user to its answer; the database is open, as a service keeps it."""

    def ask(folder: Path, doors: Doors) -> None:
        (folder / "service.yaml").write_text(SERVICE, encoding="utf-8")
        with dc.StatisticalDatabase(folder / "service.yaml") as database, doors.watching():
            database.ask("SELECT count(*), sum(income) FROM people WHERE sex = 'female'", user=user)

    return ask


WALKS = {"discretion table PLAN": table, "a question, true": asking("ann"), "a question, private": asking("bob")}


def main() -> None:
    """Print the number of files of each walk; `--list` also their names."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--list", action="store_true", help="also name the files, in the order of the way")
    shown = options.parse_args()
    for name, walk in WALKS.items():
        doors = Doors()
        with tempfile.TemporaryDirectory() as made:
            dc.datasets.census(2000, seed=1).frame.drop("diagnoses").write_csv(Path(made, "people.csv"))
            walk(Path(made), doors)
        rooms = Counter(file.partition("/")[0] for file in doors.entered if "/" in file)
        print(f"{len(doors.entered):4d} files  {name} ({', '.join(f'{room} {n}' for room, n in rooms.most_common())})")
        for file, function in doors.entered.items() if shown.list else ():
            print(f"           {file}: {function}")


if __name__ == "__main__":
    main()
