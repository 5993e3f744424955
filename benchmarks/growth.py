"""Growth: CPU time and memory from 10⁵ to 10⁷ rows, through the public classes (Linux: reads /proc)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

SIZES = (100_000, 1_000_000, 10_000_000)
JOBS = {
    "AdditiveNoise": "dc.AdditiveNoise(columns=['x'], sd_share=0.1)",
    "CorrelatedNoise (2 columns)": "dc.CorrelatedNoise(columns=['x', 'y'], variance_share=0.1)",
    "MultiplicativeNoise": "dc.MultiplicativeNoise(columns=['x'], sd=0.2)",
    "RankSwap(percent=15)": "dc.RankSwap(columns=['x'], percent=15)",
    "BlockRankSwap(percent=15)": "dc.BlockRankSwap(columns=['x'], percent=15)",
    "Mdav(k=5), 1 column": "dc.Mdav(columns=['x'], k=5)",
    "OptimalMicroaggregation(k=5)": "dc.OptimalMicroaggregation(columns=['x'], k=5)",
    "TopCode(quantile)": "dc.TopCode(column='x', quantile=0.99)",
    "Recode(quantiles)": "dc.Recode(column='x', quantiles=20)",
    "Generalize": "dc.Generalize(levels={'g': 1})",
    "KAnonymity (2 columns)": "dc.KAnonymity(k=5, columns=['g', 'h'])",
}
MULTIVARIATE = {"Mdav(k=5), 3 columns": "dc.Mdav(columns=['x', 'y', 'z'], k=5)"}

_CHILD = """
import time
import numpy as np, polars as pl, discretion as dc
n = {n}
def memory(field):
    return next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith(field)) * 1024
def data(n):
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({{'x': rng.lognormal(10, 1, n), 'y': rng.normal(size=n), 'z': rng.normal(size=n),
                          'g': rng.integers(0, 100, n), 'h': rng.integers(0, 50, n)}})
    return dc.Dataset(frame, roles={{'g': 'quasi'}}, hierarchies={{'g': dc.Hierarchy.intervals(width=5, levels=3)}})
part = {part}
used = getattr(part, 'columns', None) or getattr(part, 'levels', None) or [part.column]
part(data(5000))
d = data(n)
open('/proc/self/clear_refs', 'w').write('5')
before = memory('VmRSS')
start = time.process_time()
result = part(d)
spent = time.process_time() - start
size = sum(d.frame[c].estimated_size() for c in used)
print(spent, (memory('VmHWM') - before) / size)
"""


def rows() -> Iterator[tuple[str, list[str]]]:
    """Yield for each job its CPU seconds and its extra memory in multiples of its input columns."""
    for name, part in JOBS.items():
        yield name, [_run(part, n) for n in SIZES]
    for name, part in MULTIVARIATE.items():
        yield name, [_run(part, n) for n in SIZES[:2]]


def _run(part: str, n: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _CHILD.format(n=n, part=part)], check=True, capture_output=True, text=True
    )
    seconds, memory = map(float, done.stdout.split())
    return f"{seconds:.3f} s, {memory:.1f}×"
