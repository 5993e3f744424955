"""Figures that were computed before: kept with the data in memory, and in a private folder where one is named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion import __version__
from discretion.data.population_classes import IN_MEMORY as DATA_IN_MEMORY
from discretion.errors import DataError
from discretion.learning.estimators import IN_MEMORY as ESTIMATOR_IN_MEMORY

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.measure import Measure
    from discretion.method import Method

FORMAT = 3
"""Goes into every key; raised when the same key would stand for another figure."""


@dataclass(frozen=True)
class Figure:
    """What one measure gave for one release."""

    value: float
    chance: float | None = None
    doubtful: bool = False
    """the attack takes perturbed values as true"""
    interval: tuple[float, float] | None = None
    """what the value may be for everybody, where the attack looked for a sample of the people"""

    def at(self, end: int) -> Figure:
        """Give the figure at the lower (0) or upper (1) end of its interval."""
        return self if self.interval is None else replace(self, value=self.interval[end])


class FigureCache:
    """Figures by (data, rows, steps, seed) and measure. A file holds no values of people and no seed.

    Writing is whole or not at all; only the owner may read the folder. What cannot be written as text (data or an
    estimator in memory) is not kept.
    """

    def __init__(self, memory: dict[str, dict[str, Figure]], folder: str | Path | None = None) -> None:
        self._memory = memory
        self._folder = None if folder is None else Path(folder)
        if self._folder is not None:
            if self._folder.exists() and not self._folder.is_dir():
                raise DataError(f"{str(folder)!r} is a file; the cache is a folder")
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def find(self, release: str | None, measure: Measure) -> Figure | None:
        """Give a figure that is known."""
        name = _text_of(measure)
        if release is None or name is None:
            return None
        if release not in self._memory:
            self._memory[release] = self._read(release)
        return self._memory[release].get(name)

    def keep(self, release: str | None, figures: Sequence[tuple[Measure, Figure]]) -> None:
        """Keep the figures of one release."""
        if release is None:
            return
        named = {name: figure for measure, figure in figures if (name := _text_of(measure)) is not None}
        known = self._memory.setdefault(release, self._read(release))
        if all(known.get(name) == figure for name, figure in named.items()):
            return
        known.update(named)
        if self._folder is not None:
            from discretion.data.atomic import write_text

            content = {"format": FORMAT, "figures": {name: asdict(figure) for name, figure in known.items()}}
            write_text(self._folder / f"{release}.json", json.dumps(content), overwrite=True, private=True)

    def _read(self, release: str) -> dict[str, Figure]:
        """Read a file of the folder; one that is damaged is as good as none."""
        if self._folder is None or not (file := self._folder / f"{release}.json").is_file():
            return {}
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            return {str(name): _figure(fields) for name, fields in content["figures"].items()}
        except (ValueError, TypeError, KeyError, AttributeError):
            return {}


def _figure(fields: dict[str, Any]) -> Figure:
    ends = fields.get("interval")
    return Figure(**{**fields, "interval": None if ends is None else (float(ends[0]), float(ends[1]))})


def release_key(data: str, rows: str, steps: tuple[Method, ...], seed: int) -> str | None:
    """Give the hash of a release before it is made; None where it cannot be repeated or written as text."""
    texts = [_text_of(method) for method in steps]
    if any(text is None for text in texts) or not all(method.seeded for method in steps):
        return None
    return _digest([FORMAT, __version__, data, rows, texts, hex(seed)])


def data_digest(data: Dataset) -> str:
    """Give the hash of everything in a data set that methods and measures look at."""
    import polars as pl

    from discretion.release.plan import Plan

    levels = {name: level if isinstance(level, int) else _array(level) for name, level in data.levels.items()}
    masks = {name: _array(data.suppressed(name)) for name in data.suppressed_cells}
    facts = [pl.__version__, data.columns, [str(kind) for kind in data.frame.dtypes], levels, masks]
    steps = [step.to_plan() for step in data.steps]
    schema = Plan(schema=data.schema).to_dict()
    return _digest([_array(data.frame.hash_rows(seed=0).to_numpy()), facts, steps, schema, data.lost_records])


def rows_digest(rows: NDArray[np.int64] | None) -> str:
    """Give the hash of a sample of rows."""
    return "all" if rows is None else _array(rows)


def _array(values: NDArray[Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def _digest(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, default=str, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _text_of(part: Measure | Method) -> str | None:
    """Write a part with all it depends on; None where something of it is only in memory."""
    text = json.dumps(part.to_plan(), sort_keys=True, default=str, ensure_ascii=False)
    if DATA_IN_MEMORY in text or ESTIMATOR_IN_MEMORY in text:
        return None
    files = [getattr(part, name) for name in part.path_fields()]
    stamps = [_stamp(file) for file in files if isinstance(file, str)]
    return f"{text} {stamps}" if stamps else text


def _stamp(file: str) -> tuple[int, int] | None:
    """Tell one version of a file from another."""
    try:
        found = Path(file).stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
