"""Mondrian and local recoding: the division of records as a ratio to sorting their columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

import discretion as dc
from benchmarks.ratio import Line, compare

N = 1_000_000


def lines() -> Iterator[Line]:
    """Yield every line of the table."""
    yield from _mondrian()
    yield from _local_recoding()


def _mondrian() -> Iterator[Line]:
    from discretion.kernels.mondrian import SplitColumn, mondrian_groups

    rng = np.random.default_rng(1)
    for values, limit in ((1000, 6.0), (60_000, 4.0)):
        coded = [rng.integers(0, values, N) for _ in range(8)]
        columns = [SplitColumn(codes.astype(np.uint16), np.linspace(0, 1, values)) for codes in coded]
        yield compare(
            f"mondrian_groups(k=5), {N:,} × 8, {values:,} values",
            lambda columns=columns: mondrian_groups(columns, 5, True),
            "np.sort of each column",
            lambda coded=coded: [np.sort(codes) for codes in coded],
            limit,
        )
        yield compare(
            f"mondrian_groups(k=5), {N:,} × 8, {values:,} values",
            lambda columns=columns: mondrian_groups(columns, 5, True),
            "np.argsort stable of each",
            lambda coded=coded: [np.argsort(codes, kind="stable") for codes in coded],
            2.0,
        )
    frame = pl.DataFrame({f"v{j}": codes for j, codes in enumerate(coded)})
    method = dc.Mondrian(columns=frame.columns, k=5, representation="mean")
    yield compare(
        f"Mondrian(k=5, mean), {N:,} × 8",
        lambda: method(frame),
        "np.argsort stable of each",
        lambda: [np.argsort(codes, kind="stable") for codes in coded],
        3.0,
    )
    texts = dc.Mondrian(columns=frame.columns, k=5)
    yield compare(
        f"Mondrian(k=5), {N:,} × 8",
        lambda: texts(frame),
        "np.argsort stable of each",
        lambda: [np.argsort(codes, kind="stable") for codes in coded],
        6.0,
    )


def _local_recoding() -> Iterator[Line]:
    rng = np.random.default_rng(2)
    sizes = (2, 70, 5, 7, 16, 40, 8, 14)
    shares = [rng.dirichlet(np.full(size, 0.5)) for size in sizes]
    frame = pl.DataFrame({f"q{j}": rng.choice(len(p), 30_000, p=p) for j, p in enumerate(shares)})
    rule = {"intervals": {"width": 4, "levels": 3}}
    data = dc.Dataset(
        frame, roles=dict.fromkeys(frame.columns, "quasi"), hierarchies=dict.fromkeys(frame.columns, rule)
    )
    method = dc.LocalRecoding(k=5)
    yield compare(
        "LocalRecoding(k=5), 30,000 × 8",
        lambda: method(data),
        "100 × polars group_by().len()",
        lambda: [frame.group_by(frame.columns).len() for _ in range(100)],
        10.0,
    )
