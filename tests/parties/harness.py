"""Parties for tests: files, keys and a signed agreement; real processes; one party alone for the arithmetic."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml

from discretion.cli.demo import free_ports
from discretion.parties.agreement import Agreement, make_identity, sign_agreement
from discretion.parties.sharing import Sharing, make_runtime
from tests.parties.member import take_part

COLUMNS: dict[str, Any] = {
    "age": {"lower": 0, "upper": 120, "step": 1},
    "income": {"lower": 0, "upper": 200, "step": 0.01},
    "sex": {"categories": ["f", "m"]},
    "grade": {"categories": [0, 1, 2, 3, 4]},
    "ill": {"categories": ["no", "yes"]},
}
NAMES = ("hospital-a", "hospital-b", "hospital-c", "hospital-d", "hospital-e", "hospital-f", "hospital-g")
_SPAWN = multiprocessing.get_context("forkserver")
_SPAWN.set_forkserver_preload(["tests.parties.member"])


def people(rows: int, seed: int) -> pl.DataFrame:
    """Invent the patients of a hospital."""
    rng = np.random.default_rng(seed)
    sex, grade, age = rng.integers(0, 2, rows), rng.integers(0, 5, rows), rng.integers(18, 96, rows)
    income = np.round(np.clip(20 + 0.5 * age + 10 * sex + rng.normal(0, 8, rows), 0, 200), 2)
    ill = rng.random(rows) < 1 / (1 + np.exp(-(-1 + 0.8 * sex + 1.5 * grade / 4)))
    return pl.DataFrame(
        {"age": age, "income": income, "sex": np.array(["f", "m"])[sex], "grade": grade,
         "ill": np.where(ill, "yes", "no")}
    )  # fmt: skip


def certificates(folder: Path, names: Sequence[str]) -> dict[str, str]:
    """Make keys; give the texts of the certificates."""
    return {name: make_identity(name, folder)[0].read_text() for name in names}


def content(texts: Mapping[str, str], statistics: Sequence[Any], **entries: Any) -> dict[str, Any]:
    """Give the content of an agreement."""
    ports = free_ports(len(texts))
    given: dict[str, Any] = {
        "id": "0123456789abcdef",
        "parties": {
            name: {"address": f"127.0.0.1:{port}", "certificate": text}
            for (name, text), port in zip(texts.items(), ports, strict=True)
        },
        "columns": COLUMNS,
        "statistics": list(statistics),
        "people": {"each": 10, "total": 30},
        "time_out": 20,
        "wait": 60,
    }
    return {**given, **entries}


class Parties:
    """Hospitals in a folder: everybody has signed, and `start` makes their processes."""

    def __init__(
        self, folder: Path, statistics: Sequence[Any], frames: Sequence[pl.DataFrame], sign: bool = True, **entries: Any
    ) -> None:
        self.folder = folder
        self.names = NAMES[: len(frames)]
        self.frames = list(frames)
        self.two = any("intersection" in one for one in statistics)
        self.path = folder / "parties.yaml"
        self.path.write_text(
            yaml.safe_dump(content(certificates(folder, self.names), statistics, **entries), sort_keys=False)
        )
        for name, frame in zip(self.names, frames, strict=True):
            frame.write_csv(folder / f"{name}.csv")
            if sign:
                sign_agreement(self.path, name, folder / f"{name}.key")

    @property
    def pooled(self) -> pl.DataFrame:
        """Everybody's rows, which nobody has."""
        return pl.concat(self.frames)

    def start(self, only: Sequence[str] | None = None, paths: Mapping[str, Path] | None = None) -> dict[str, Any]:
        """Start the processes."""
        started = {}
        for name in only or self.names:
            path = (paths or {}).get(name, self.path)
            out = self.folder / f"{name}.result.json"
            for file in (out, out.with_suffix(".said")):
                file.unlink(missing_ok=True)
            data = None if self.two else self.folder / f"{name}.csv"
            process = _SPAWN.Process(target=take_part, args=(path, name, data, out))
            process.start()
            started[name] = process
        return started

    def meet(self, started: Mapping[str, Any]) -> None:
        """Wait until every process says that it is connected with all others, or has ended."""
        for name, process in started.items():
            said = self.folder / f"{name}.result.said"
            while process.is_alive() and not (said.exists() and "are connected" in said.read_text()):
                time.sleep(0.005)

    def finish(self, started: Mapping[str, Any], seconds: float = 120) -> dict[str, dict[str, Any]]:
        """Wait for the processes and give what each wrote; a killed one wrote nothing."""
        found = {}
        for name, process in started.items():
            process.join(seconds)
            assert process.exitcode is not None, f"{name} hangs"
            out = self.folder / f"{name}.result.json"
            found[name] = json.loads(out.read_text()) if out.exists() else {}
        return found

    def run(self) -> dict[str, dict[str, Any]]:
        """Start, wait, and raise what a party raised."""
        found = self.finish(self.start())
        for name, one in found.items():
            assert "error" not in one, f"{name}: {one['error']}"
        return found


@contextmanager
def alone(coalition: int = 0) -> Iterator[Sharing]:
    """Compute with one party only: the same arithmetic, nothing sent."""
    loop = asyncio.new_event_loop()
    try:
        yield Sharing(make_runtime(0, 1, 0, loop), coalition)
    finally:
        loop.close()
        asyncio.set_event_loop(None)


def agreed(folder: Path, statistics: Sequence[Any], **entries: Any) -> Agreement:
    """Give an agreement between three parties that judges nothing but sizes."""
    easy = {"rules": {"p_percent": 0, "dominance": {"percent": 100}}, "people": {"each": 1, "total": 1}}
    return Agreement.model_validate(content(certificates(folder, NAMES[:3]), statistics, **{**easy, **entries}))
