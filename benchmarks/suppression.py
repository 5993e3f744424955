"""Local suppression through the public class: census keys that are easy and hard, both readings of missing values."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

import discretion as dc
from benchmarks.ratio import Line, compare, cpu

KEYS = {
    "easy": ["region", "sex", "marital_status", "education", "age5"],
    "hard": ["region", "sex", "age", "marital_status", "education", "occupation"],
}


def census(n: int) -> dc.Dataset:
    frame = dc.datasets.census(n, seed=1).frame
    return dc.Dataset(frame.with_columns((pl.col("age") // 5).alias("age5")))


def lines() -> Iterator[Line]:
    """Yield every line of the table; the base is one grouping of the same records by the same keys."""
    data = census(100_000)
    for keys, missing, limit in (("easy", "wildcard", 25), ("easy", "category", 25), ("hard", "wildcard", 130),
                                 ("hard", "category", 80)):  # fmt: skip
        method = dc.LocalSuppression(columns=KEYS[keys], k=3, missing=missing)
        yield compare(
            f"LocalSuppression(k=3), 100,000, {keys}, {missing}",
            lambda method=method: method(dc.Dataset(data.frame)),
            "polars group_by().len()",
            lambda keys=keys: data.frame.group_by(KEYS[keys]).len(),
            limit,
        )


def main() -> None:
    """Print CPU seconds and suppressed cells at 100,000 and 1,000,000 records."""
    for n in (100_000, 1_000_000):
        frame = census(n).frame
        for keys, columns in KEYS.items():
            for missing in ("wildcard", "category"):
                method = dc.LocalSuppression(columns=columns, k=3, missing=missing)
                seconds = cpu(lambda method=method, frame=frame: method(dc.Dataset(frame)), runs=2)
                cells = sum(method(dc.Dataset(frame)).suppressed_cells.values())
                print(f"{n:>9,} {keys:5} {missing:9} {seconds:7.2f} s {cells:>9,} cells")


if __name__ == "__main__":
    main()
