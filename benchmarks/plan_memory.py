"""What a plan over a CSV file needs in memory: the peak of its process beside the file and the frame it becomes.

The plan takes identifiers out, generalizes, swaps ranks, adds noise, requires k-anonymity and names no measures. Run by
itself, for one size or several (10⁷ rows take ten minutes; files are made in a temporary folder and deleted):
    python -m benchmarks.plan_memory 1e6 1e7
and with the rows in files, where that is how such a file fits a small machine:
    python -m benchmarks.plan_memory 1e7 --engine duckdb --memory 1GB
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

PLAN = """
title: A large file
data: people.csv
roles: {person: identifier, age: quasi, sex: quasi, region: quasi, education: quasi, visits: other,
        income: sensitive, savings: sensitive}
confirmed_other: [visits]
hierarchies: {age: {intervals: {width: 10, levels: 2}}}
steps:
  - drop-identifiers
  - generalize: {levels: {age: 1}}
  - rank-swap: {columns: [income], percent: 5}
  - additive-noise: {columns: [savings], sd_share: 0.1}
requirements: [{k-anonymity: {k: 5}}]
output: public
"""
_CHILD = """
import resource, sys, time
from discretion.cli.app import run
code = run(["run", "plan.yaml", *sys.argv[1:]])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(time.process_time(), peak, file=sys.stderr)
sys.exit(code)
"""


def people(rows: int) -> pl.DataFrame:
    """Invent people: an identifier, four quasi-identifiers, two of them texts, and three more columns."""
    rng = np.random.default_rng(1)
    education = np.array(["primary", "lower", "upper", "tertiary", "doctor"])
    return pl.DataFrame(
        {
            "person": np.arange(rows) + 1_000_000,
            "age": rng.integers(0, 95, rows),
            "sex": np.array(["female", "male"])[rng.integers(0, 2, rows)],
            "region": np.array([f"R{i:02d}" for i in range(20)])[rng.integers(0, 20, rows)],
            "education": education[rng.integers(0, 5, rows)],
            "visits": rng.zipf(1.7, rows) % 30,
            "income": np.round(rng.lognormal(10, 0.6, rows), 2),
            "savings": np.round(rng.lognormal(8, 1, rows)).astype(np.int64),
        }
    )


def measure(rows: int, options: list[str]) -> str:
    """Run the plan in a process of its own, with options of the command; say what it took."""
    with tempfile.TemporaryDirectory() as folder:
        frame = people(rows)
        frame.write_csv(Path(folder, "people.csv"))
        size, file = frame.estimated_size(), Path(folder, "people.csv").stat().st_size
        del frame
        Path(folder, "plan.yaml").write_text(PLAN)
        command = [sys.executable, "-c", _CHILD, *options]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        seconds, peak = map(float, done.stderr.splitlines()[-1].split())
    return (
        f"{rows:>12,} rows: {seconds:6.1f} s of CPU, peak {peak / 1e6:7,.0f} MB, {peak / size:.1f}× the frame in "
        f"memory ({size / 1e6:,.0f} MB), {peak / file:.1f}× the file ({file / 1e6:,.0f} MB)"
    )


if __name__ == "__main__":
    first = next((i for i, given in enumerate(sys.argv) if given.startswith("--")), len(sys.argv))
    for given in sys.argv[1:first] or ["1e6"]:
        print(measure(int(float(given)), sys.argv[first:]), flush=True)
