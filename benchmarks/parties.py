"""Computing between parties: CPU of a party against its limit; as a program also ratios to plaintext, bytes and growth.

`python -m benchmarks.parties` prints the tables of the documentation. CPU is that of one party from the first line to
the result, without reading its file; every party is a process of its own on this machine, over mutual TLS. Encrypted
totals are computed in this process, so that the time of each side is seen.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from benchmarks.ratio import Line, cpu
from discretion.cli.demo import free_ports
from discretion.parties.agreement import Agreement, make_identity, sign_agreement
from discretion.parties.encrypted import EncryptedTotals, Keys, decrypt, encrypt
from discretion.parties.intersection import commit

COLUMNS: dict[str, Any] = {
    **{name: {"lower": 0, "upper": 100, "step": 1} for name in ("age", "a", "b", "c", "d")},
    "income": {"lower": 0, "upper": 200}, "sex": {"categories": ["f", "m"]}, "grade": {"categories": [0, 1, 2, 3, 4]},
    "shift": {"categories": [0, 1, 2]}, "ill": {"categories": ["no", "yes"]},
}  # fmt: skip
Frame = pl.DataFrame
JOBS: dict[str, tuple[Any, Callable[[Frame], object], float]] = {
    "mean": ({"mean": {"columns": ["age", "income"], "decimals": 6}}, lambda f: f.select("age", "income").mean(), 1),
    "covariance": (
        {"covariance": {"columns": ["age", "income"]}},
        lambda f: np.cov(f.select("age", "income").to_numpy(), rowvar=False), 1,
    ),
    "table of 10 cells": ({"table": {"by": ["sex", "grade"]}}, lambda f: f.group_by("sex", "grade").len(), 1),
    "median": ({"quantile": {"column": "age"}}, lambda f: f["age"].median(), 1),
    "linear regression, p = 5": (
        {"linear-regression": {"target": "income", "on": ["age", "a", "b", "c"], "decimals": 8}},
        lambda f: np.linalg.lstsq(f.select(pl.lit(1.0), "age", "a", "b", "c").to_numpy(), f["income"], rcond=None),
        3,
    ),
    "logistic regression, 30 cells": (
        {"logistic-regression": {"target": "ill", "on": ["sex", "grade", "shift"], "decimals": 6}},
        lambda f: _logistic(f), 15,  # noqa: PLW0108 - it stands below
    ),
}  # fmt: skip
"""Statistic, the same on the pooled file, and the CPU seconds that a party may take."""


def people(rows: int, seed: int) -> Frame:
    """Invent people."""
    rng = np.random.default_rng(seed)
    numbers = {name: rng.integers(0, 101, rows) for name in ("age", "a", "b", "c", "d")}
    sex, grade, shift = rng.integers(0, 2, rows), rng.integers(0, 5, rows), rng.integers(0, 3, rows)
    income = np.clip(40 + 0.5 * numbers["age"] + 10 * sex + rng.normal(0, 8, rows), 0, 200)
    ill = rng.random(rows) < 1 / (1 + np.exp(-(-1 + 0.8 * sex + 0.4 * grade - 0.6 * shift)))
    return pl.DataFrame(
        {**numbers, "income": income, "sex": np.array(["f", "m"])[sex], "grade": grade, "shift": shift,
         "ill": np.where(ill, "yes", "no")}
    )  # fmt: skip


def _logistic(frame: Frame) -> object:
    design = frame.select(pl.lit(1.0), (pl.col("sex") == "m").cast(pl.Float64), "grade", "shift").to_numpy()
    y, beta = (frame["ill"] == "yes").to_numpy(), np.zeros(4)
    for _ in range(6):
        p = 1 / (1 + np.exp(-design @ beta))
        beta = beta + np.linalg.solve((design.T * (p * (1 - p))) @ design, design.T @ (y - p))
    return beta


def run(statistic: Any, frames: list[Frame], identifiers: bool = False) -> tuple[float, float, float]:
    """Give the largest CPU seconds of a party, the most kB that one sent, and the seconds until all had the result."""
    with tempfile.TemporaryDirectory() as place:
        folder, names = Path(place), [f"party-{k}" for k in range(len(frames))]
        parties = {}
        for name, port in zip(names, free_ports(len(names)), strict=True):
            text = make_identity(name, folder)[0].read_text(encoding="ascii")
            parties[name] = {"address": f"127.0.0.1:{port}", "certificate": text}
        content = {
            "id": "0" * 16, "parties": parties, "columns": {} if identifiers else COLUMNS,
            "statistics": [statistic, *([{"count": {}}] if "mean" in statistic or "covariance" in statistic else [])],
            "time_out": 600, "people": {"each": 10, "total": 30},
        }  # fmt: skip
        path = folder / "parties.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        for name, frame in zip(names, frames, strict=True):
            frame.write_parquet(folder / f"{name}.parquet")
            made = commit(path, name, Agreement.load(path), folder / f"{name}.parquet") if identifiers else ""
            sign_agreement(path, name, folder / f"{name}.key", made)
        start = time.perf_counter()
        running = [
            subprocess.Popen(
                [sys.executable, "-m", "discretion", "party", "run", path, "--as", name, "--json", "--quiet",
                 *([] if identifiers else ["--data", folder / f"{name}.parquet"])], stdout=subprocess.PIPE, text=True,
            ) for name in names
        ]  # fmt: skip
        found = [json.loads(process.communicate()[0]) for process in running]
        seconds = time.perf_counter() - start
    return max(one["cpu_seconds"] for one in found), max(one["bytes_sent"] for one in found) / 1000, seconds


def identifiers(rows: int) -> list[Frame]:
    """Two lists that share half of their identifiers."""
    return [pl.DataFrame({"id": [f"{i:09d}" for i in range(start, start + rows)]}) for start in (0, rows // 2)]


def lines() -> Iterator[Line]:
    """Yield every line of the table: CPU of a party against the limit on two idle cores."""
    for name, (statistic, _, limit) in JOBS.items():
        spent, _, _ = run(statistic, [people(1450, k) for k in range(3)])
        yield Line(f"parties: {name}", "limit in CPU seconds", spent, limit, 1)
    spent, _, _ = run({"intersection": {"column": "id"}}, identifiers(10_000), identifiers=True)
    yield Line("parties: intersection of 10,000 each", "limit in CPU seconds", spent, 3, 1)


def encrypted(scheme: Any, rows: int) -> tuple[float, float, float, float, float]:
    """Give CPU seconds of three owners, server and holder of the keys, the kB of an owner, and the largest error."""
    frames = [people(rows, k).select("age", "income") for k in range(3)]
    columns = {"age": {"lower": 0, "upper": 100, "step": 1}, "income": {"lower": 0, "upper": 200, "step": 1e-6}}
    with tempfile.TemporaryDirectory() as folder:
        keys = Keys.make(Path(folder) / "keys", columns if scheme == "paillier" else _without_steps(columns), scheme)
        frames = [frame.with_columns(pl.col("income").round(6)) for frame in frames]
        totals = EncryptedTotals.open(scheme, 2, keys.job.public("compute"))
        clock = [time.process_time()]
        parts = [encrypt(keys.job, frame)[1] for frame in frames]
        clock.append(time.process_time())
        for part in parts:
            totals.add(part)
        result = totals.result()
        clock.append(time.process_time())
        found = decrypt(keys, 3, result)
        clock.append(time.process_time())
    pooled = pl.concat(frames)
    error = max(abs(found.sums[name] / float(pooled[name].sum()) - 1) for name in pooled.columns)
    if found.products is not None:
        error = max(error, float(np.abs(found.covariances / np.cov(pooled.to_numpy(), rowvar=False) - 1).max()))
    return clock[1] - clock[0], clock[2] - clock[1], clock[3] - clock[2], sum(map(len, parts[0])) / 1000, error


def _without_steps(columns: dict[str, Any]) -> dict[str, Any]:
    return {name: {key: value for key, value in given.items() if key != "step"} for name, given in columns.items()}


def main() -> None:
    heads = ("owners s", "server s", "holder s", "kB sent")
    print(f"{'encrypted, three owners':34} {' '.join(f'{head:>9}' for head in heads)} {'relative error':>15}")
    for scheme in ("paillier", "ckks"):
        for rows in (1450, 100_000):
            found = encrypted(scheme, rows)
            name = f"{scheme}, {rows:,} rows each"
            print(
                f"{name:34} {found[0]:9.2f} {found[1]:9.2f} {found[2]:9.2f} {found[3]:9.0f} {found[4]:15.1e}",
                flush=True,
            )
    print(f"{'three parties, 4,350 people':34} {'CPU s a party':>14} {'plaintext ms':>13} {'ratio':>8} {'kB sent':>9}")
    for name, (statistic, plain, _) in JOBS.items():
        frames = [people(1450, k) for k in range(3)]
        pooled = pl.concat(frames)
        base = cpu(lambda plain=plain, pooled=pooled: plain(pooled), 3)
        spent, sent, _ = run(statistic, frames)
        print(f"{name:34} {spent:14.2f} {base * 1e3:13.2f} {spent / base:8.0f} {sent:9.0f}", flush=True)
    for name in ("mean", "linear regression, p = 5"):
        for parties in (3, 4, 5, 6, 7):
            spent, sent, _ = run(JOBS[name][0], [people(1000, k) for k in range(parties)])
            print(f"{name + f', {parties} parties':34} {spent:14.2f} {'':13} {'':8} {sent:9.0f}", flush=True)
    for name in ("mean", "median", "linear regression, p = 5"):
        for rows in (1000, 10_000, 100_000, 1_000_000):
            spent, sent, _ = run(JOBS[name][0], [people(rows, k) for k in range(3)])
            print(f"{name + f', {rows:,} rows each':34} {spent:14.2f} {'':13} {'':8} {sent:9.0f}", flush=True)
    for rows in (1000, 10_000, 100_000):
        spent, sent, _ = run({"intersection": {"column": "id"}}, identifiers(rows), identifiers=True)
        print(f"{f'intersection, {rows:,} each':34} {spent:14.2f} {'':13} {'':8} {sent:9.0f}", flush=True)


if __name__ == "__main__":
    main()
