"""Microaggregation: ratios to numpy and scipy, and growth from 10⁴ to 10⁶ records (Linux: reads /proc).

`python -m benchmarks.microaggregation` prints both tables; `--quick` leaves out the growth.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import polars as pl
from scipy.spatial import cKDTree

import discretion as dc
from benchmarks.ratio import Line, compare

SIZES = (10_000, 100_000, 1_000_000)
JOBS = {
    "Mdav(k=5), 5 columns": ("dc.Mdav(columns=names, k=5)", SIZES),
    "VariableMdav(k=5), 5 columns": ("dc.VariableMdav(columns=names, k=5)", SIZES),
    "ProjectionMicroaggregation(k=5)": ("dc.ProjectionMicroaggregation(columns=names, k=5)", SIZES),
    "IndividualRanking(k=5)": ("dc.IndividualRanking(columns=names, k=5)", SIZES),
    "Mdav(k=5), mixed columns": ("dc.Mdav(columns=['v0', 'v1', 'rank', 'town', 'sex'], k=5)", SIZES[:2]),
}

_CHILD = """
import time
import numpy as np, polars as pl, discretion as dc
names = [f'v{{j}}' for j in range(5)]
def memory(field):
    return next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith(field)) * 1024
def data(n):
    rng = np.random.default_rng(1)
    frame = pl.DataFrame(rng.normal(size=(n, 5)), schema=names).with_columns(
        pl.Series('town', rng.choice(list('abcdefghijkl'), n)), pl.Series('sex', rng.choice(['f', 'm'], n)),
        pl.Series('rank', rng.integers(0, 6, n)))
    return dc.Dataset(frame, types={{'rank': 'ordinal'}})
method = {method}
method(data(5000), seed=1)
d = data({n})
open('/proc/self/clear_refs', 'w').write('5')
before = memory('VmRSS')
start = time.process_time()
released = method(d, seed=1)
spent = time.process_time() - start
more = memory('VmHWM') - before
size = sum(d.frame[name].estimated_size() for name in method.columns)
numbers = [name for name in method.columns if d.is_numeric(name) and released.is_numeric(name)]
loss = dc.Sse(columns=numbers)(d, released).detail['share_of_total']
print(spent, more / size, loss)
"""


def lines() -> Iterator[Line]:
    """Yield every line of the table of ratios."""
    n = 100_000
    rng = np.random.default_rng(3)
    x = rng.normal(size=(n, 5))
    names = [f"v{j}" for j in range(5)]
    frame = pl.DataFrame(x, schema=names)

    def tree() -> object:
        return cKDTree(x).query(x, k=2)

    def sort() -> object:
        return np.argsort(x, axis=0, kind="stable")

    jobs = (
        ("Mdav(k=5)", dc.Mdav(columns=names, k=5), "cKDTree build + query (k=2)", tree, 2.5),
        ("VariableMdav(k=5)", dc.VariableMdav(columns=names, k=5), "cKDTree build + query (k=2)", tree, 4.0),
        ("ProjectionMicroaggregation(k=5)", dc.ProjectionMicroaggregation(columns=names, k=5), "np.argsort", sort, 2.5),
        ("IndividualRanking(k=5)", dc.IndividualRanking(columns=names, k=5), "np.argsort", sort, 1.5),
    )
    for name, method, base, work, limit in jobs:
        yield compare(f"{name}, {n:,} × 5", lambda method=method: method(frame, seed=1), base, work, limit)
    yield _mixed(10_000)


def _mixed(n: int) -> Line:
    """Compare the plain algorithm on mixed columns with as many passes of numpy over the records left."""
    rng = np.random.default_rng(4)
    frame = pl.DataFrame(rng.normal(size=(n, 2)), schema=["a", "b"]).with_columns(
        pl.Series("town", rng.choice(list("abcdefghijkl"), n)), pl.Series("sex", rng.choice(["f", "m"], n))
    )
    x = rng.normal(size=(4, n))

    def passes() -> float:
        total = 0.0
        for left in range(n, 15, -10):
            for _ in range(3):
                total += float(np.abs(x[:, :left] - x[:, :1]).sum(axis=0).max())
        return total

    method = dc.Mdav(columns=["a", "b", "town", "sex"], k=5)
    return compare(f"Mdav(k=5), {n:,} × 4 mixed", lambda: method(frame), "numpy distances, same passes", passes, 1.5)


def growth() -> Iterator[tuple[str, list[str]]]:
    """Yield for each job its CPU seconds, its extra memory in multiples of its input, and SSE/SST, for each size."""
    for name, (method, sizes) in JOBS.items():
        yield name, [_run(method, n) for n in sizes]


def _run(method: str, n: int) -> str:
    code = _CHILD.format(method=method, n=n)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    seconds, memory, loss = map(float, done.stdout.split())
    return f"{seconds:.2f} s, {memory:.1f}×, {loss:.4f}"


def main() -> int:
    failed = 0
    print(f"{'job':44} {'base':30} {'CPU s':>8} {'base s':>8} {'ratio':>7} {'limit':>6}")
    for line in lines():
        failed += not line.holds
        print(
            f"{line.job:44} {line.base:30} {line.seconds:8.3f} {line.base_seconds:8.3f} {line.ratio:7.2f} "
            f"{line.limit:6.2f}{'' if line.holds else '  OVER'}"
        )
    if "--quick" not in sys.argv:
        print(f"\n{'CPU, extra memory (× input), SSE/SST':36}" + "".join(f"{n:>24,}" for n in SIZES))
        for name, cells in growth():
            print(f"{name:36}" + "".join(f"{cell:>24}" for cell in cells))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
