"""Plans on data that stays in its files: decide on the whole, carry out batch by batch, publish parts.

Requirements and measures that count classes are judged on all records. Pictures, and attacks that need rows, are those
of a random sample, through which the same steps went with the same draws; the report says so.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from discretion.context import BATCH_ROWS, Context, Progress, ignore_progress
from discretion.data.dataset import Dataset
from discretion.data.schema import Schema
from discretion.data.text import Given
from discretion.engines.duckdb import DuckdbRows, data_files
from discretion.engines.scan import MOST_OPEN, ManyClasses, Scan, drawn_places, spilling
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Ints
from discretion.kernels.order import key_order, keyed_mix
from discretion.measure import Measure, Scores, match_rows, of_sample
from discretion.method import Decision, Method
from discretion.part import instead, parse
from discretion.protect.synthetic.generator import learned_places
from discretion.release.assess import Assessment, NotRun, no_attack
from discretion.release.attack_set import attack_set, run_with_holdout, too_large
from discretion.release.gate import check_publishable, judge, told_by_others
from discretion.release.journal import appearing
from discretion.release.order import Order, order_key, published_digest
from discretion.release.plan import Plan, Shown, Step
from discretion.release.plan_columns import check_columns
from discretion.release.release import Release
from discretion.release.run import check_plan, check_roles, measure_shown, require_decisions, seed_of, shown_measures
from discretion.release.study import Done, Study

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

SAMPLE = 50_000
"""Records on which pictures and attacks by rows are computed."""
PLACE, KEY = "discretion:place", "discretion:key"
_T = TypeVar("_T")
_ON_SAMPLE = (
    "Computed on this sample: {}. There an attacker has fewer records to confuse with the right one, so that linkages "
    "find more people than among all."
)
_ON_SAMPLE_OF_NEW = (
    "Computed on this sample, and on records from which the model was learned: {}. An attacker has all published rows, "
    "which may tell more."
)
_LEARNED = (
    "The model of {} was learned from a random sample of {:,}{} records of {}; the others did not enter it. "
    "What is estimated from the data is no more exact than from as many records, however many rows it has."
)
_ATTACKED = "Attacks that cannot look at all records look at people of that sample."
_SAY = "give the journal of the release (--journal FOLDER), or say that they are not the same people (--unrelated)"
_IN_BLOCKS = "{} worked in {:,} blocks of similar records, not on all of them together{}."
_REQUIRED = "measures that compare numbers, intervals or the nearest records"
UNNAMED_RECORDS = 1 << 18
"""Records up to which linkages that a plan does not name look at all of them: beyond, they would take longer than the
release itself."""
PART_ROWS = 1 << 21
"""Rows of a published part: as many are in memory while they are put in order."""
_DEALT_ROWS = 1 << 18
"""Rows that are dealt into buckets together."""


def scan_data(
    plan: Plan,
    source: str | Path | None = None,
    *,
    memory: str = "4GB",
    engine: str = "duckdb",
    master: str | None = None,
) -> Scan:
    """Open the data of a plan, or another delivery of it, whose rows stay in their files."""
    path = source or plan.data.get("path")
    if path is None:
        raise PlanError("the plan names no data; give `data:` or a file")
    dialect = {one.name: plan.data.get(one.name) for one in fields(Given)}
    others = sorted(set(plan.data) - {"path", "columns", "format"} - set(dialect))
    if others:
        raise PlanError(
            f"data: {', '.join(others)}: rows that stay in their files are read from Parquet or text, without these"
        )
    place = path if source else plan.resolve(path)
    store = _store(place, engine, master, memory, plan.data.get("columns"), plan.schema, Given(**dialect))
    check_columns(plan, tuple(store.kinds))
    return Scan(store, plan.schema.only(list(store.kinds)))


def scan_file(
    source: str | Path,
    schema: Schema,
    reading: Mapping[str, Any],
    *,
    memory: str = "4GB",
    engine: str = "duckdb",
    master: str | None = None,
) -> Scan:
    """Open data whose rows stay in their files, with the roles of those columns that it has."""
    if others := sorted(set(reading) - {one.name for one in fields(Given)} - {"columns"}):
        raise PlanError(f"{', '.join(others)}: rows that stay in their files are read from Parquet or text, without")
    given = Given(**{name: value for name, value in reading.items() if name != "columns"})
    store = _store(source, engine, master, memory, reading.get("columns"), schema, given)
    return Scan(store, schema.only([name for name in store.kinds if name in schema.columns]))


def _store(
    place: str | Path, engine: str, master: str | None, memory: str, columns: Any, schema: Schema, given: Given
) -> DuckdbRows:
    if engine == "spark":
        from discretion.engines.spark import open_spark

        return open_spark(place, master, None, memory, None, columns, schema, given)
    return DuckdbRows(data_files(place), memory, columns=columns, schema=schema, given=given)


def run_large(
    plan: Plan,
    scan: Scan,
    *,
    seed: int | None = None,
    reuse: Mapping[str, Decision] | None = None,
    progress: Progress = ignore_progress,
    publish: bool = False,
) -> LargeRelease:
    """Carry out a plan on data that stays in its files, and judge the result; nothing is written.

    `publish`: it is to be written, so that what the plan leaves unsaid is refused before any work is done.
    """
    require_decisions(plan, reuse)
    seed = seed_of(plan, release=True) if seed is None else seed
    positions, original = prepared(plan, scan, seed, progress, publish=publish)
    ctx = Context(seed, "", progress)
    current, ran = scan, []
    for number, step in enumerate(plan.steps):
        progress(number, len(plan.steps), f"step {number + 1} of {len(plan.steps)}: {step.method.kind}")
        saved = (reuse or {}).get(step.id) or step.decision
        done = step.method.run(current, ctx.within(step.id), saved)
        if not isinstance(done.data, Scan):
            raise PlanError(f"{step.method.kind} needs all rows in memory")
        current = done.data
        ran.append(Done(step, done.decision, done.data, saved is not None, done.drawn))
    if scan.store.remote and plan.order == "keep" and current.lost_records:
        raise PlanError(
            "order: with `keep`, the sizes of the parts that the machines write would tell among which rows records "
            "were dropped; leave the rows in a random order (`order: permute`), or use the engine `duckdb`"
        )
    if plan.seed_file is not None:
        Release(plan, Study(scan, seed, tuple(ran)), scan, (), ()).seed_file()  # refused before rows are rewritten
    if left := current.having("identifier"):
        current = current.drop(left)
    before = _before_made_up(original, ran)
    if current.has_new_rows:
        positions = drawn_places(len(current.original), SAMPLE, Context(seed, "sample of new rows"))
    carried = _carry_out(current, original, positions, plan.order, progress)
    current.carried = carried.rows
    study = Study(
        original,
        seed,
        tuple(replace(done, data=data) for done, data in zip(ran, (*before, *carried.states), strict=True)),
        progress,
    )
    released = study.current.drop(study.current.having("identifier"))
    released.lost_records = current.lost_records
    if publish:
        told = told_by_others(original, released)
        check_publishable(plan, original, released.columns, made=bool(plan.steps), told=told)
    return _concluded(plan, study, released, current, carried)


def _before_made_up(original: Dataset, ran: Sequence[Done]) -> list[Dataset]:
    """Carry out on the sample what was done before new rows were made up, which takes out columns at most."""
    states = [original]
    for done in ran:
        if not any(one.data.has_new_rows for one in ran) or done.data.has_new_rows:
            break
        states.append(cast(Scan, done.data).pending[-1].carried_out(states[-1]))
    return states[1:]


def prepared(
    plan: Plan, scan: Scan, seed: int, progress: Progress = ignore_progress, *, publish: bool = False
) -> tuple[Ints, Dataset]:
    """Refuse what cannot be carried out on this data, before any work is done; give the sample and where it stands."""
    check_plan(plan)
    _refuse(plan, scan)
    learns = any(step.method.scale == "sampled" for step in plan.steps)
    positions = _positions(len(scan), seed, learned_places(len(scan), seed) if learns else None)
    original = _gathered(scan, positions, progress, [] if learns else _summarized(plan, scan))
    check_roles(original)
    for name, column in scan.schema.columns.items():
        if column.hierarchy is not None:
            scan.hierarchy(name)
    if publish:
        check_publishable(plan, original, made=bool(plan.steps))
    return positions, original


def _refuse(plan: Plan, scan: Scan) -> None:
    """Name everything in a plan that rows in files cannot take, at once."""
    problems = [problem for number in range(len(plan.steps)) for problem in _step_problems(plan, number, scan)]
    for requirement in plan.requirements:
        part = requirement.part
        if isinstance(part, Measure):
            short = part.refuse_scan(scan, scan)
        else:
            short = "" if part.scale == "classes" else f"{part.kind} needs all rows in memory{instead(part.kind)}"
        if short:
            problems.append(f"requirements: {short}; models that count classes can be required, and {_REQUIRED}")
    if units := scan.having("household", "unit"):
        problems.append(f"the numbers of households and people ({', '.join(units)}) are given anew in memory only")
    if plan.schema.edit_rules:
        problems.append("`edit_rules` are checked on all rows in memory")
    if plan.made_from or plan.previous:
        problems.append("`from` and `previous` need all rows in memory")
    if plan.output.format not in ("csv", "parquet"):
        problems.append(f"output.format: {plan.output.format!r} needs all rows in memory; parts are Parquet")
    if problems:
        raise PlanError([*problems, "sample the data, or use the engine `memory`"])


def _step_problems(plan: Plan, number: int, scan: Scan) -> Iterator[str]:
    method = plan.steps[number].method
    if method.private:
        yield f"{method.kind} needs all rows in memory: fit it on a sample that fits there"
        return
    try:
        method.refuse_scan(remote=scan.store.remote)
    except PlanError as error:
        yield str(error)
    earlier = [step.method.kind for step in plan.steps[:number] if step.method.kind != "drop-identifiers"]
    if method.scale == "sampled" and earlier:
        yield (
            f"{method.kind} must come before {earlier[0]}: of rows that stay in their files it learns as they were "
            "read; generalize or perturb what it drew"
        )


def _border(decision: Decision) -> str:
    """Say what a border between blocks costs, as it was measured between two of them."""
    extra = decision["extra_loss_at_a_border"]
    return "" if extra is None else f"; the border between two of them raised their squared error by {extra:.2%}"


def _positions(height: int, seed: int, learned: Ints | None = None) -> Ints:
    """Draw the rows of the sample, which are the same for any engine.

    `learned`: those from which a model was learned: these people are attacked, of the others it knows nothing.
    """
    if learned is None:
        return drawn_places(height, SAMPLE, Context(seed, "sample"))
    return np.asarray(learned[drawn_places(len(learned), SAMPLE, Context(seed, "sample"))])


def _summarized(plan: Plan, scan: Scan) -> list[str]:
    """Name numeric columns that steps look at more than once, which are kept while they are read the first time."""
    named = {
        name
        for method in (step.method for step in plan.steps)
        if method.scale == "rows"
        for name in (*(getattr(method, "columns", None) or ()), getattr(method, "column", None))
    }
    return [name for name, kind in scan.kinds.items() if name in named and kind.is_numeric()][:MOST_OPEN]


def _gathered(scan: Scan, positions: Ints, progress: Progress, keeping: Sequence[str] = ()) -> Dataset:
    """Read the sample as data of its own, with the hierarchies of the whole."""
    if scan.store.remote:
        from discretion.release.spread import gathered

        return scan.in_memory(gathered(scan, positions))
    return scan.in_memory(scan.rows_at(positions, progress, keeping))


def _batches(stream: Iterator[_T], rows: int, progress: Progress, label: str) -> Iterator[tuple[int, _T]]:
    for number, found in enumerate(stream):
        progress(number * BATCH_ROWS, rows, label)
        yield number * BATCH_ROWS, found
    progress(rows, rows, label)


@dataclass(frozen=True)
class Carried:
    """What came of carrying out the steps: the sample after each, and all the rows in a private file."""

    states: tuple[Dataset, ...]
    rows: CarriedFiles
    hidden: Mapping[str, int]
    """suppressed cells of each column that has any"""


def _carry_out(current: Scan, original: Dataset, positions: Ints, order: Order, progress: Progress) -> Carried:
    """Let all rows pass through the steps once: keep the sample after each, and write the result in its order."""
    import polars as pl

    if current.store.remote:
        from discretion.release.spread import carry_out

        return carry_out(current, original, positions, progress)
    rows = CarriedFiles(current.store.spill, dict(current.kinds), len(current), order)
    first = 0 if current.has_new_rows else 1  # rows that were made up are what a step gave
    states: list[list[pl.DataFrame]] = []
    masks: list[list[tuple[dict[str, NDArray[np.bool_]], dict[str, Ints], int]]] = []
    like: list[Dataset] = []
    hidden: Counter[str] = Counter()
    while not rows.complete:
        states, masks = [[] for _ in range(first, len(current.pending) + 1)], []
        masks = [[] for _ in states]
        hidden.clear()
        with spilling(), rows.writing() as add:
            for start, every in _batches(current.stream_states(), len(current), progress, "carrying out the steps"):
                low, high = np.searchsorted(positions, [start, start + len(every[0])])
                like = every[first:]
                for kept, marked, data in zip(states, masks, like, strict=True):
                    places = np.searchsorted(data.row_ids, positions[low:high])
                    found = places < len(data)
                    found[found] = data.row_ids[places[found]] == positions[low:high][found]
                    chosen = places[found]
                    kept.append(data.frame[chosen].hstack([pl.Series(PLACE, data.row_ids[chosen])]))
                    levels = {name: each[chosen] for name, each in data.levels.items() if not isinstance(each, int)}
                    marked.append(
                        ({name: data.suppressed(name)[chosen] for name in data.suppressed_cells}, levels, len(chosen))
                    )
                hidden.update(every[-1].suppressed_cells)
                add(every[-1])
    made = []
    for frames, marked, one in zip(states, masks, like, strict=True):
        frame = pl.concat(frames, how="vertical_relaxed")
        data = original._derive(frame.drop(PLACE), one.changed, {})
        data._rows = np.searchsorted(positions, frame[PLACE].to_numpy()) if first else np.full(len(frame), -1)
        data.schema, data.steps = one.schema, one.steps
        several = {name: np.concatenate([levels[name] for _, levels, _ in marked]) for name in marked[-1][1]}
        data.levels = MappingProxyType({**one.levels, **several})
        data._masks = MappingProxyType(
            {
                name: np.concatenate([mask.get(name, np.zeros(size, np.bool_)) for mask, _, size in marked])
                for name in {name for mask, _, _ in marked for name in mask}
            }
        )
        made.append(data)
    return Carried(tuple(made), rows, dict(hidden))


class CarriedFiles:
    """All rows in private files of one part each, and where each row stood in the original.

    Parts that are published as they stand are Parquet; those that are put in order first are Arrow, which is written
    and read in a fraction of the time. A batch in which no value lies beyond a bound keeps a narrower type than others
    have: where a type turns out too narrow, the rows are written once more, in the wider one.
    """

    def __init__(self, folder: Path, kinds: dict[str, pl.DataType], records: int, order: Order = "keep") -> None:
        self.folder, self.kinds, self.records, self.order, self.complete = folder, kinds, records, order, False
        self.parts: list[Path] = []

    @contextmanager
    def writing(self) -> Iterator[Callable[[Dataset], None]]:
        """Give what adds the rows of a batch."""
        import polars as pl
        import pyarrow as pa
        import pyarrow.parquet as pq

        wider = dict(self.kinds)
        as_arrow = self.order == "permute" and not any(kind.is_nested() for kind in self.kinds.values())
        views = {"compat_level": pl.CompatLevel.newest() if as_arrow else None}
        kept = pl.Schema(self.kinds)
        if as_arrow:  # an Arrow file has one list of categories for all batches
            kept.update({name: pl.String() for name, kind in kept.items() if kind in (pl.Categorical, pl.Enum)})
        schema = pl.DataFrame(schema=kept).to_arrow(**views).schema
        repeating = [name for name, kind in self.kinds.items() if not kind.is_float() and not kind.is_nested()]
        self.parts = []
        rows, writer, waiting = PART_ROWS, cast(Any, None), pl.DataFrame(schema=kept)
        told = [name for name, kind in self.kinds.items() if kind != pl.String]  # bounds of texts take long to find
        with ExitStack() as stack, self.places_file.open("wb") as places:
            header = {"descr": "<i8", "fortran_order": False, "shape": (self.records,)}
            np.lib.format.write_array_header_1_0(places, header)

            def put(frame: pl.DataFrame) -> None:
                nonlocal rows, writer
                if rows >= PART_ROWS:
                    stack.close()
                    rows, part = 0, self.folder / f"data-{len(self.parts) + 1:05}.{'arrow' if as_arrow else 'parquet'}"
                    made = (
                        pa.ipc.new_file(part, schema)
                        if as_arrow
                        else pq.ParquetWriter(part, schema, use_dictionary=repeating, write_statistics=told)
                    )
                    writer = stack.enter_context(made)
                    self.parts.append(part)
                writer.write_table(frame.to_arrow(**views))
                rows += len(frame)

            def add(data: Dataset) -> None:
                nonlocal waiting
                frame = data.frame
                if frame.columns != list(self.kinds):
                    frame = frame.select(list(self.kinds))
                for name, kind in frame.schema.items():
                    if kind != wider[name]:
                        ends = [pl.Series([], dtype=one).to_frame(name) for one in (wider[name], kind)]
                        wider[name] = pl.concat(ends, how="vertical_relaxed").schema[name]
                if wider != self.kinds:
                    return
                if frame.schema != kept:
                    frame = frame.cast(kept)
                # blocks of the file have one size, or they would tell where records were dropped
                waiting = pl.concat([waiting, frame]) if len(waiting) else frame
                while len(waiting) >= BATCH_ROWS:
                    put(waiting[:BATCH_ROWS])
                    waiting = waiting[BATCH_ROWS:]
                places.write(data.row_ids.astype(np.int64).tobytes())

            yield add
            if len(waiting):
                put(waiting)
        self.complete, self.kinds = wider == self.kinds, wider

    @property
    def places(self) -> Ints:
        """Where each row stood in the original."""
        return np.asarray(np.load(self.places_file, mmap_mode="r"))

    @property
    def places_file(self) -> Path:
        """The file that holds them."""
        return self.folder / "places.npy"

    def digest(self, records: int) -> bytes:
        """Hash what is published, in its order."""
        return published_digest(records, self.kinds, self.column)

    def column(self, name: str) -> Iterator[pl.Series]:
        """Give a column batch by batch."""
        return (frame[name] for frame in self.batches([name]))

    def batches(self, names: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Give some columns a batch at a time, none across the border of two parts."""
        import polars as pl
        import pyarrow as pa

        kinds = pl.Schema({name: self.kinds[name] for name in names})
        for part in self.parts:
            for batch in _batches_of(part, names):
                frame = pl.DataFrame(pl.from_arrow(pa.Table.from_batches([batch]).select(names)))
                yield frame if frame.schema == kinds else frame.cast(kinds)


def _batches_of(part: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Read some columns of a private file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if part.suffix == ".parquet":
        with pq.ParquetFile(part) as opened:
            yield from opened.iter_batches(BATCH_ROWS, columns=list(names))
        return
    with pa.OSFile(str(part)) as file:
        columns = pa.ipc.open_file(file).schema
        chosen = pa.ipc.IpcReadOptions(included_fields=[columns.get_field_index(name) for name in names])
        reader = pa.ipc.open_file(file, options=chosen)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def _concluded(plan: Plan, study: Study, released: Dataset, current: Scan, carried: Carried) -> LargeRelease:
    """Measure and judge: by classes on all records, otherwise on the sample."""
    ctx, scan = study.context(), current.read_from
    shown = shown_measures(plan, study.original, released)
    measured, not_run, on_sample = [], {}, []
    for number, item in enumerate(shown):
        study.progress(number, len(shown), f"measuring: {item.measure.kind}")
        named = number < len(plan.measures)
        costly = not named and item.measure.scale == "sampled" and len(current) > UNNAMED_RECORDS
        every = not costly and not item.measure.refuse_scan(scan, current)
        try:
            sides = (scan, current) if every else (study.original, released)
            try:
                found = measure_shown(item, *sides, ctx, plan.knows_method)
            except ManyClasses:
                every, found = False, measure_shown(item, study.original, released, ctx, plan.knows_method)
        except (PlanError, DataError) as error:
            if named:
                raise
            not_run[item.measure.kind] = str(error)
            continue
        if not every and len(released) < len(current):
            after = of_sample(item.measure, found.after, study.original, released, len(current), ctx)
            found = replace(found, after=after)
        measured.append(replace(found, chosen=named))
        on_sample += [] if every else [item.measure.kind]
    findings = tuple(judge(one, scan, current, ctx, knows_method=plan.knows_method) for one in plan.requirements)
    for side in (scan, current):
        side.let_go()
    drawn = tuple(dict.fromkeys(on_sample))
    return LargeRelease(
        plan, study, released, tuple(measured), findings, not_run,
        current=current, rows=carried.rows, hidden=carried.hidden, on_sample=drawn,
    )  # fmt: skip


@dataclass(frozen=True)
class LargeRelease(Release):
    """A release of data that stayed in its files; `study` and `data` are the sample, `current` all the records."""

    several: ClassVar[str] = "parts"
    current: Scan = field(kw_only=True)
    rows: CarriedFiles = field(kw_only=True, repr=False)
    hidden: Mapping[str, int] = field(default_factory=dict, kw_only=True, repr=False)
    """suppressed cells of each column"""
    on_sample: tuple[str, ...] = field(default=(), kw_only=True)
    """measures that were computed on the sample"""

    @property
    def records(self) -> int:
        """The number of published records."""
        return len(self.current)

    @property
    def suppressed_cells(self) -> Mapping[str, int]:
        """The number of suppressed cells of each published column that has any."""
        return {name: count for name, count in self.hidden.items() if name in self.data.columns}

    def counted(self, columns: Sequence[str]) -> list[Dataset]:
        """Give the data in which classes over some columns are counted: all of it."""
        return [self.current.table(columns)]

    def input(self) -> dict[str, Any]:
        """Say what was read: records, columns, and the files with their hashes."""
        from discretion.release.journal import input_facts

        return input_facts(self.plan, self.current.read_from)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What everybody should know, and what was computed on a sample."""
        told = (*super().notes, *self._learned_from())
        if len(self.data) == self.records:
            return told
        said = _ON_SAMPLE_OF_NEW if self.data.has_new_rows else _ON_SAMPLE
        return (
            *told,
            f"Groups of records that look alike were counted on all {self.records:,} records; pictures are those of a "
            f"random sample of {len(self.data):,}.",
            *(
                _IN_BLOCKS.format(one.step.method.kind, one.decision["blocks"], _border(one.decision))
                for one in self.study.done
                if "blocks" in one.decision.values
            ),
            *([said.format(", ".join(self.on_sample))] if self.on_sample else []),
        )

    def _learned_from(self) -> Iterator[str]:
        """Say which steps learned from a sample; how many records there were, only where as many are published."""
        for one in self.study.done:
            if (every := one.decision.values.get("sample_of")) is not None:
                of = f" of {every:,}" if self.records == every else ""
                whose = "another delivery" if one.reused else "the original"
                told = _LEARNED.format(one.step.method.kind, one.decision["records"], of, whose)
                yield told if one.reused else f"{told} {_ATTACKED}"

    @cached_property
    def order(self) -> bytes | None:
        """The key of the order in which the rows are published; None where they stay as they are."""
        if self.plan.order == "keep":
            return None
        return order_key(self.study.seed, self.rows.digest(self.records))

    def write_data(self, folder: Path) -> dict[str, str]:
        """Write the parts, and give their hashes; where each row stood is kept for the journal."""
        from discretion.release.journal import sha256_of

        if self.current.store.remote:
            from discretion.release.spread import SpreadRows

            rows = cast(SpreadRows, self.rows)
            return rows.write(folder, self._order_file, self.order, self.study.progress)
        if self.order is None:
            for part in self.rows.parts:
                _linked(part, folder / part.name)
            self._order_file.unlink(missing_ok=True)
            _linked(self.rows.places_file, self._order_file)
        else:
            self._write_parts(folder, self.order)
        return {file.name: sha256_of(file) for file in sorted(folder.glob("data-*.parquet"))}

    def _write_parts(self, folder: Path, key: bytes) -> None:
        """Write the rows in the order of their enciphered positions, as in memory (`secret_order`).

        They are dealt into buckets by the leading bits of these numbers, a few batches at a time and in order, so that
        each bucket is merged of short runs that stand in order already.
        """
        import polars as pl

        places, start = self.rows.places, 0
        with spilling(), _Buckets(self.rows.folder, max(1, -(-self.records // PART_ROWS))) as buckets:
            for frame in _together(self.rows.batches(list(self.rows.kinds)), _DEALT_ROWS):
                self.study.progress(start, 2 * self.records, "putting rows in order")
                keys = keyed_mix(np.arange(start, start + len(frame)), key)
                stood = pl.Series(PLACE, places[start : start + len(frame)])
                buckets.deal(frame.with_columns(stood, pl.Series(KEY, keys)), keys)
                start += len(frame)
            order = np.lib.format.open_memmap(self._order_file, mode="w+", dtype=np.int64, shape=(self.records,))
            start = 0
            for number, frame in enumerate(buckets.each(), start=1):
                self.study.progress(self.records + start, 2 * self.records, "putting rows in order")
                part = frame[key_order(frame[KEY].to_numpy())]
                part.drop(KEY, PLACE).write_parquet(folder / f"data-{number:05}.parquet", compression="snappy")
                order[start : start + len(part)] = part[PLACE].to_numpy()
                start += len(part)
            order.flush()

    @property
    def _order_file(self) -> Path:
        folder: Path = self.rows.folder
        return folder / "order.npy"

    def write_order(self, path: Path) -> None:
        """Write for each published row its place in the original, as `write_data` left them; −1 for made-up rows."""
        if self.current.has_new_rows:
            np.lib.format.open_memmap(path, mode="w+", dtype=np.int64, shape=(self.records,))[:] = -1
            self._order_file.unlink()
        else:
            shutil.move(self._order_file, path)
        path.chmod(0o600)


def _linked(file: Path, target: Path) -> None:
    """Give a private file a second name in the release, or copy it where that is on another disk."""
    try:
        os.link(file, target)
    except OSError:
        shutil.copyfile(file, target)


def write_protected(
    data: Scan,
    method: Method,
    folder: Path,
    *,
    seed: int,
    order: Order,
    order_file: Path | None = None,
    progress: Progress = ignore_progress,
) -> Dataset:
    """Write data as a method leaves it, a folder of parts that is there whole or not at all; give a sample of it."""
    shown: Any = parse("sample-uniqueness", "risk")
    plan = Plan(data.schema, (Step(method, method.kind),), (Shown(shown),), no_requirements=True, order=order)
    release = run_large(plan, data, seed=seed, progress=progress)
    with appearing(folder) as new:
        release.write_data(new)
    if order_file is not None:
        release.write_order(order_file)
    return release.data


def assess_large(
    original: Scan,
    released: Scan,
    *,
    measures: Sequence[Measure] = (),
    rows: Ints | None = None,
    steps: Sequence[Method] = (),
    unrelated: bool = False,
    seed: int = 0,
    progress: Progress = ignore_progress,
) -> Assessment:
    """Attack and measure a release whose rows, like those of the original, stay in their files.

    `rows` has for each released row its place in the original, as a journal keeps them (with its `steps`); without it
    the rows stand in the same order, which a sample must confirm, or they are `unrelated`. Where it has −1, the rows
    were made up and belong to nobody. A measure that cannot look
    at all records looks at a random sample of them, and says so.
    """
    if not unrelated and rows is None and len(original) != len(released):
        raise DataError(f"the original has {len(original):,} rows and the release {len(released):,}; {_SAY}")
    released.match(original, None if unrelated else np.arange(len(released)) if rows is None else rows)
    released.steps = tuple(steps)
    positions = _positions(len(released), seed)
    after = _gathered(released, positions, progress)
    if unrelated or released.has_new_rows:
        before = _gathered(original, _positions(len(original), seed), progress)
        after = after.matched_to(before, np.full(len(after), -1)) if released.has_new_rows else after
    else:
        places = positions if rows is None else rows[positions]
        chosen, back = np.unique(places, return_inverse=True)
        before = _gathered(original, chosen, progress).take(back)
        before._rows = None
        standing = np.arange(len(after))
        if rows is None and not np.array_equal(match_rows(before, after, "assess").rows, standing):
            raise DataError(f"the rows of the two do not stand in the same order; {_SAY}")
        after = after.matched_to(before, standing)
    if not unrelated:
        for step in steps:
            after = after.after(step, after)
    asked = list(measures) or attack_set(before, after)
    scores, failed = [], []
    for number, measure in enumerate(asked):
        progress(number, len(asked), f"measuring: {measure.kind}")
        every = not measure.refuse_scan(original, released)
        try:
            sides: tuple[Dataset, Dataset] = (original, released) if every else (before, after)
            found = run_with_holdout(measure, *sides, Context(seed, measure.kind))
        except (PlanError, DataError) as error:
            if measures:
                raise
            failed.append(NotRun(measure.kind, str(error)))
            continue
        if not every and len(after) < len(released):
            said = found.meaning
            found = of_sample(measure, found, before, after, len(released), Context(seed, measure.kind))
            on = f" (On a random sample of {len(after):,} records.)" if found.meaning == said else ""
            found = replace(found, meaning=found.meaning + on)
        scores.append(replace(found, per_record=None, more_per_record={}))
    for side in (original, released):
        side.let_go()
    left = {} if measures else too_large(before, after)
    asking = tuple(NotRun(kind, f"takes long ({why})") for kind, why in left.items())
    return Assessment(Scores(scores), tuple(failed), asking, None if measures else no_attack(before, scores), after)


def _together(frames: Iterator[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """Put small frames together to some of at least so many rows; the last may have fewer."""
    import polars as pl

    waiting: list[pl.DataFrame] = []
    for frame in frames:
        waiting.append(frame)
        if sum(len(one) for one in waiting) >= rows:
            yield pl.concat(waiting, rechunk=True)  # rows are picked from one piece ten times as fast as from several
            waiting = []
    if waiting:
        yield pl.concat(waiting, rechunk=True)


def bucket_of(keys: NDArray[np.uint64], buckets: int) -> NDArray[np.uint32]:
    """Tell by the leading bits of keys into which bucket each row goes."""
    return ((keys >> np.uint64(32)) * np.uint64(buckets) >> np.uint64(32)).astype(np.uint32)


class _Buckets:
    """Private files into which rows are dealt by the leading bits of a key."""

    def __init__(self, folder: Path, count: int) -> None:
        self.paths = [folder / f"bucket-{number}.arrow" for number in range(count)]
        self._files: list[Any] = []
        self._writers: list[pa.RecordBatchStreamWriter] = []

    def __enter__(self) -> _Buckets:
        return self

    def deal(self, frame: pl.DataFrame, keys: NDArray[np.uint64]) -> None:
        """Put rows into their buckets."""
        import pyarrow as pa

        order = key_order(keys)
        ends = np.searchsorted(bucket_of(keys[order], len(self.paths)), np.arange(len(self.paths) + 1))
        table = frame[order].to_arrow()
        if not self._writers:
            self._files = [path.open("wb") for path in self.paths]
            self._writers = [pa.ipc.new_stream(file, table.schema) for file in self._files]
        for writer, first, last in zip(self._writers, ends[:-1], ends[1:], strict=True):
            if last > first:
                writer.write_table(table.slice(first, last - first))

    def each(self) -> Iterator[pl.DataFrame]:
        """Give the rows of each bucket that has any; its file is removed."""
        import polars as pl
        import pyarrow as pa

        self._close()
        for path in self.paths:
            with pa.memory_map(str(path)) as file:
                frame = pl.DataFrame(pl.from_arrow(pa.ipc.open_stream(file).read_all())).rechunk()
            path.unlink()
            if len(frame):
                yield frame

    def _close(self) -> None:
        for one in (*self._writers, *self._files):
            one.close()
        self._writers, self._files = [], []

    def __exit__(self, *_: object) -> None:
        self._close()
        for path in self.paths:
            path.unlink(missing_ok=True)
