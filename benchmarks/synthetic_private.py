"""Private synthetic rows, beside counting the same tables.

`python -m benchmarks.synthetic_private FILE` draws the figure of the documentation: total variation of all pairs of the
invented census against ε.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import discretion as dc
from benchmarks.ratio import Line, compare
from discretion.protect.synthetic.private_marginals import ColumnDomain
from discretion.release.report import svg

N = 24_000
COLUMNS = ("sex", "age", "marital_status", "education", "region", "occupation", "hours", "income")
CUTS: dict[str, list[float]] = {
    "age": list(range(0, 101, 10)),
    "hours": [0, 1, 10, 20, 30, 36, 40, 45, 60, 80],
    "income": [0, 1, 5_000, 10_000, 15_000, 20_000, 30_000, 40_000, 60_000, 100_000, 1_000_000],
}
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


def people() -> pl.DataFrame:
    return dc.datasets.census(N, seed=1).frame.select(COLUMNS)


def domain_of(data: pl.DataFrame) -> dict[str, Any]:
    """Give the codebook of the invented census."""
    named = {name: data[name].drop_nulls().unique().sort().to_list() for name in COLUMNS if name not in CUTS}
    categories = {name: {"categories": values, "missing": True} for name, values in named.items()}
    return categories | {name: {"cuts": cuts, "missing": True} for name, cuts in CUTS.items()}


def codes(data: pl.DataFrame, domain: dict[str, Any]) -> dict[str, np.ndarray[Any, np.dtype[np.int64]]]:
    whole = dc.Dataset(data)
    return {name: ColumnDomain(**domain[name]).encode(whole, name) for name in COLUMNS}


def error(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Give the mean total variation of all tables of pairs."""
    apart = []
    for a, b in combinations(COLUMNS, 2):
        first, second = (np.bincount(c[a] * 1000 + c[b], minlength=10**5) / len(c[a]) for c in (one, other))
        apart.append(np.abs(first - second).sum() / 2)
    return float(np.mean(apart))


def counting(data: pl.DataFrame, domain: dict[str, Any]) -> object:
    """Count all pairs, as a reader of the true data would."""
    found = codes(data, domain)
    return [np.bincount(found[a] * 1000 + found[b]) for a, b in combinations(COLUMNS, 2)]


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    data = people()
    domain = domain_of(data)
    method = dc.PrivateMarginals(epsilon=1, domain=domain)
    base = "numpy, counting the pairs"
    ran = method.run(dc.Dataset(data), dc.Context(1, "1"))
    jobs = (
        ("private rows", lambda: method(data), 80),
        ("the noisy tables alone", lambda: method.fit(dc.Dataset(data), dc.Context(1)), 12),
        ("rows from saved tables", lambda: method.rewrite(dc.Dataset(data), ran.decision, dc.Context(1)), 75),
    )
    for job, work, limit in jobs:
        yield compare(f"{job}, {N:,} × {len(COLUMNS)}", work, base, lambda: counting(data, domain), limit)


def plot(path: Path) -> None:
    """Draw the error against ε, beside a new sample of the same people and columns that are independent."""
    data = people()
    domain, rng = domain_of(data), np.random.default_rng(1)
    true = codes(data, domain)
    errors = [error(true, codes(dc.PrivateMarginals(epsilon=e, domain=domain)(data), domain)) for e in EPSILONS]
    rows = rng.integers(0, N, N)
    sample = error(true, {name: code[rows] for name, code in true.items()})
    apart = error(true, {name: rng.permutation(code) for name, code in true.items()})
    across = svg.ChartAxis(np.log(EPSILONS[0]), np.log(EPSILONS[-1]), svg.LEFT + 8, svg.WIDTH - svg.RIGHT)
    up = svg.ChartAxis(0.0, max(*errors, apart) * 1.1, svg.HEIGHT - svg.BOTTOM, svg.TOP)
    points = [(across(float(np.log(e))), up(found)) for e, found in zip(EPSILONS, errors, strict=True)]
    left, right = points[0][0], points[-1][0]
    body = [
        svg.y_axis(
            up, [(m, f"{m:g}") for m in svg.ticks(0.0, max(*errors, apart) * 1.1, 5)], "total variation of pairs"
        ),
        svg.line(left, up(apart), right, up(apart), svg.CHANCE, stroke_dasharray="5 4"),
        svg.text(right, up(apart) - 5, "independent columns", text_anchor="end", fill=svg.CHANCE),
        svg.line(left, up(sample), right, up(sample), svg.ORIGINAL, stroke_dasharray="5 4"),
        svg.text(left, up(sample) - 5, "a new sample of the same size", fill=svg.MUTED),
        svg.polyline(points, svg.RELEASED),
        *(svg.shape(0, x, y, svg.RELEASED, svg.RELEASED, size=4) for x, y in points),
        svg.x_axis([(x, f"{e:g}") for (x, _), e in zip(points, EPSILONS, strict=True)], "ε (δ = 1e-9)"),
    ]
    told = "; ".join(f"ε {e:g}: {found:.3f}" for e, found in zip(EPSILONS, errors, strict=True))
    drawn = svg.picture(svg.WIDTH, svg.HEIGHT, "Error of private synthetic rows against ε", told, body)
    if "xmlns" not in drawn[:200]:
        drawn = drawn.replace(
            "<svg", '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11"', 1
        )
    path.write_text(drawn + "\n", encoding="utf-8")
    print(told, f"; sample {sample:.3f}; independent {apart:.3f}")


if __name__ == "__main__":
    plot(Path(sys.argv[1]))
