"""A release made on a cluster: its machines carry out the steps, put the rows in order and write the parts.

Files go through the private folder, which all machines see. A task writes under a name of its own and renames what is
whole, so that one that Spark repeats changes nothing; the public folder gets its name when all of it is there.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from discretion.context import BATCH_ROWS, Progress
from discretion.data.dataset import Dataset, Level, Piece
from discretion.data.schema import Schema
from discretion.engines.scan import Passing, Scan, wider
from discretion.engines.spark import RowFiles, SparkRows, whole
from discretion.kernels.arrays import Ints
from discretion.kernels.order import key_order, keyed_mix
from discretion.release import large
from discretion.release.journal import sha256_of
from discretion.release.order import published_digest

if TYPE_CHECKING:
    import polars as pl

_PIECE = 16 * BATCH_ROWS


def gathered(scan: Scan, positions: Ints) -> list[pl.DataFrame]:
    """Give the rows at some positions, at most those of a sample."""

    def look(piece: Piece) -> pl.DataFrame:
        low, high = np.searchsorted(positions, [piece.place, piece.place + len(piece)])
        return piece.data.frame[positions[low:high] - piece.place]

    return scan.each_batch(scan.columns, look)


@dataclass(frozen=True)
class _State:
    """The sample after a step, and what the step made of the columns."""

    frames: list[pl.DataFrame]
    masks: list[dict[str, NDArray[np.bool_]]]
    changed: frozenset[str]
    schema: Schema
    levels: list[dict[str, Level]]


@dataclass(frozen=True)
class _Made:
    """What a task made of a run of batches."""

    states: list[_State]
    hidden: Counter[str]
    kinds: dict[str, pl.DataType]
    part: Path
    rows: int


@dataclass(frozen=True)
class _Carrier:
    """Carries out the steps on a run of batches, and writes what comes out."""

    files: RowFiles
    rows: Passing
    positions: Ints
    kinds: Mapping[str, pl.DataType]
    folder: Path

    def __call__(self, run: tuple[int, int]) -> _Made:
        import polars as pl
        import pyarrow.parquet as pq

        kinds, hidden = dict(self.kinds), Counter[str]()
        states: list[_State] = []
        part = self.folder / f"rows-{run[0]:09}.parquet"
        places: list[Ints] = []
        repeating = [name for name, kind in kinds.items() if not kind.is_float() and not kind.is_nested()]
        schema = pl.DataFrame(schema=self.kinds).to_arrow().schema
        with whole(part) as new, pq.ParquetWriter(new, schema, use_dictionary=repeating) as writer:
            for number, frame in self.files.batches(run, self.rows.columns):
                every, start = self.rows.states(number, frame), number * BATCH_ROWS
                low, high = np.searchsorted(self.positions, [start, start + len(frame)])
                states = states or [_State([], [], frozenset(), one.schema, []) for one in every[1:]]
                states = [
                    _kept(state, data, self.positions[low:high] - start, start)
                    for state, data in zip(states, every[1:], strict=True)
                ]
                hidden.update(every[-1].suppressed_cells)
                last = every[-1].frame.select(list(kinds))
                kinds = wider(kinds, last.schema)
                if kinds == self.kinds:
                    writer.write_table(last.cast(pl.Schema(self.kinds)).to_arrow())
                    places.append(every[-1].row_ids.astype(np.int64) + start)
        rows = np.concatenate([np.empty(0, np.int64), *places])
        with whole(part.with_suffix(".places")) as new, new.open("wb") as file:
            file.write(rows.tobytes())
        return _Made(states, hidden, kinds, part, len(rows))


def _kept(state: _State, data: Dataset, inside: Ints, start: int) -> _State:
    import polars as pl

    chosen = np.isin(data.row_ids, inside, assume_unique=True)
    frame = data.frame.filter(chosen).with_columns(pl.Series(large.PLACE, data.row_ids[chosen] + start))
    masks = {name: data.suppressed(name)[chosen] for name in data.columns}
    levels = {name: level if isinstance(level, int) else level[chosen] for name, level in data.levels.items()}
    return _State([*state.frames, frame], [*state.masks, masks], data.changed, data.schema, [*state.levels, levels])


def carry_out(current: Scan, original: Dataset, positions: Ints, progress: Progress) -> large.Carried:
    """Let all rows pass through the steps once, where they are: the sample after each comes here."""
    import polars as pl

    store = cast(SparkRows, current.store)
    kinds: dict[str, pl.DataType] = dict(current.kinds)
    while True:
        progress(0, len(current), "carrying out the steps")
        carrier = _Carrier(store.rows, current.passing(), positions, kinds, store.spill)
        made: list[_Made] = store.spread(store.runs, carrier)
        widest = reduce(wider, (one.kinds for one in made))
        if widest == kinds:
            break
        kinds = widest
    progress(len(current), len(current), "carrying out the steps")
    states = []
    for place in range(len(current.pending)):
        each = [one.states[place] for one in made]
        frame = pl.concat([frame for state in each for frame in state.frames], how="vertical_relaxed")
        data = original._derive(frame.drop(large.PLACE), each[-1].changed, {})
        data._rows = np.searchsorted(positions, frame[large.PLACE].to_numpy())
        found = [levels for state in each for levels in state.levels]
        whole_levels = {name: level for name, level in found[-1].items() if isinstance(level, int)}
        several = {name: np.concatenate([levels[name] for levels in found]) for name in found[-1].keys() - whole_levels}
        data.schema, data.levels = each[-1].schema, MappingProxyType({**whole_levels, **several})
        data.steps = current.steps[: place + 1]
        masks = [mask for state in each for mask in state.masks]
        every = {name: np.concatenate([mask[name] for mask in masks]) for name in data.columns}
        data._masks = MappingProxyType({name: mask for name, mask in every.items() if mask.any()})
        states.append(data)
    hidden = sum((one.hidden for one in made), Counter[str]())
    rows = SpreadRows(store, kinds, [one.part for one in made], [one.rows for one in made])
    return large.Carried(tuple(states), rows, dict(hidden))


class SpreadRows(large.CarriedFiles):
    """All rows in private files, a part for each task that made them."""

    def __init__(
        self, store: SparkRows, kinds: dict[str, pl.DataType], parts: list[Path], heights: Sequence[int]
    ) -> None:
        super().__init__(store.spill, kinds, sum(heights))
        self.store, self.parts, self.heights = store, parts, tuple(heights)

    def digest(self, records: int) -> bytes:
        """Hash what is published, in its order: the one piece of work that a single machine does."""
        rows = large.CarriedFiles(self.folder, self.kinds, records)
        rows.parts = self.parts
        found: bytes = self.store.spread([records], lambda count: published_digest(count, rows.kinds, rows.column))[0]
        return found

    def write(self, folder: Path, order: Path, key: bytes | None, progress: Progress) -> dict[str, str]:
        """Write the parts, in the order of the key or as they are, and where each row stood; give their hashes."""
        stood = np.lib.format.open_memmap(order, mode="w+", dtype=np.int64, shape=(sum(self.heights),))
        stood.flush()
        starts = np.concatenate([[0], np.cumsum(self.heights)])[:-1].tolist()
        if key is None:
            named = [folder / f"data-{number:05}.parquet" for number in range(1, len(self.parts) + 1)]
            copies = list(zip(self.parts, named, starts, strict=True))
            hashes = self.store.spread(copies, lambda one: _copied(*one, order))
            _clear(folder)
            return dict(zip((path.name for path in named), hashes, strict=True))
        buckets = max(1, -(-sum(self.heights) // large.PART_ROWS))
        progress(0, 2, "putting rows in order")
        dealing = list(zip(self.parts, starts, strict=True))
        counts = np.array(self.store.spread(dealing, lambda one: _dealt(*one, key, buckets)))
        progress(1, 2, "putting rows in order")
        sizes = counts.sum(axis=0)
        begins = np.cumsum(sizes) - sizes
        chosen = np.flatnonzero(sizes).tolist()
        jobs = [
            (_buckets(self.parts, bucket, counts), folder / f"data-{number:05}.parquet", int(begins[bucket]))
            for number, bucket in enumerate(chosen, start=1)
        ]
        hashes = self.store.spread(jobs, lambda one: _sorted(*one, order))
        _clear(folder)
        for part in self.parts:
            for left in part.parent.glob(f"{part.stem}-*.arrow*"):
                left.unlink()
        progress(2, 2, "putting rows in order")
        return dict(zip((path.name for _, path, _ in jobs), hashes, strict=True))


def _clear(folder: Path) -> None:
    """Remove what tasks left that were lost while they wrote."""
    for left in folder.glob("data-*.parquet.*"):
        left.unlink()


def _places(part: Path) -> Ints:
    return np.fromfile(part.with_suffix(".places"), np.int64)


def _note(order: Path, start: int, places: Ints) -> None:
    """Write where some published rows stood into their part of the file."""
    stood = np.load(order, mmap_mode="r+")
    stood[start : start + len(places)] = places
    stood.flush()


def _copied(part: Path, target: Path, start: int, order: Path) -> str:
    with whole(target) as new:
        shutil.copyfile(part, new)
    _note(order, start, _places(part))
    return sha256_of(target)


def _buckets(parts: Sequence[Path], bucket: int, counts: NDArray[Any]) -> list[Path]:
    return [_bucket(part, bucket) for part, count in zip(parts, counts[:, bucket], strict=True) if count]


def _bucket(part: Path, bucket: int) -> Path:
    return part.with_name(f"{part.stem}-{bucket}.arrow")


def _dealt(part: Path, start: int, key: bytes, buckets: int) -> list[int]:
    """Deal the rows of a part into buckets by the leading bits of their enciphered positions."""
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    places, at = _places(part), 0
    dealt: list[list[pl.DataFrame]] = [[] for _ in range(buckets)]
    with pq.ParquetFile(part) as opened:
        for batch in opened.iter_batches(_PIECE):
            frame = pl.DataFrame(pl.from_arrow(pa.Table.from_batches([batch])))
            keys = keyed_mix(np.arange(start + at, start + at + len(frame)), key)
            stood = pl.Series(large.PLACE, places[at : at + len(frame)])
            bucket = large.bucket_of(keys, buckets)
            order = np.argsort(bucket, kind="stable")
            ends = np.searchsorted(bucket[order], np.arange(buckets + 1)).tolist()
            ranked = frame.with_columns(stood, pl.Series(large.KEY, keys))[order]
            for number in range(buckets):
                dealt[number].append(ranked[ends[number] : ends[number + 1]])
            at += len(frame)
    sizes = []
    for number, frames in enumerate(dealt):
        dealing = pl.concat(frames)
        sizes.append(len(dealing))
        if len(dealing):
            with whole(_bucket(part, number)) as new:
                dealing.write_ipc(new)
    return sizes


def _sorted(files: Sequence[Path], target: Path, start: int, order: Path) -> str:
    """Put the rows of a bucket in order, and write them as a part of the release."""
    import polars as pl

    frame = pl.concat([pl.read_ipc(file) for file in files], rechunk=True)
    part = frame[key_order(frame[large.KEY].to_numpy())]
    with whole(target) as new:
        part.drop(large.KEY, large.PLACE).write_parquet(new, compression="snappy")
    _note(order, start, part[large.PLACE].to_numpy())
    return sha256_of(target)
