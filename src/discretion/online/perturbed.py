"""Answers changed a little, always in the same way for the same records: cell keys, rounding, size control (O4).

Every row has a secret key; the keys of the rows in a cell, added up, are the cell's key, which decides its change. Two
questions that choose the same rows get the same figure, however they are worded, and asking again averages nothing
out. Rows without a value do not matter for a sum: whoever adds them to a question hears the same figure. Weaker than
the other modes: nothing is guaranteed about what different answers tell together.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion.data.sql_filter import And, Condition, Filter
from discretion.errors import PlanError, QueryRefused
from discretion.kernels.arrays import Floats, Ints
from discretion.online.backends import Backend, GroupKey, table_of
from discretion.online.declare import PerturbedPolicy, TableSpec
from discretion.online.ledger import Charge
from discretion.online.question.answer import (
    AnswerFigures,
    Desk,
    Estimate,
    FreeMode,
    Reply,
    RequestedAccuracy,
    canonical_text,
    whole,
)
from discretion.online.question.query import Aggregate, Query, admit

if TYPE_CHECKING:
    import polars as pl

_WORD = 8
_HALVINGS = 52
_REFUSED = ("variance", "min", "max", "quantile", "mode")
_TOP = (0.5, 0.3, 0.2)
"""how much the largest contributions weigh in the scale of a sum's change"""


@dataclass
class CellKeys:
    """The keys of a table's rows, from a secret; appended rows get new keys and leave the others as they are."""

    secret: bytes
    table: str
    _keys: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, np.uint64), repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) < 16:
            raise PlanError("the secret of cell keys has at least 16 bytes")

    def of_rows(self, rows: int) -> NDArray[np.uint64]:
        """Return the keys of the first rows."""
        if rows > len(self._keys):
            start = hmac.digest(self.secret, b"rows of " + self.table.encode(), "sha256")
            stream = hashlib.shake_256(start).digest(_WORD * rows)
            self._keys = np.frombuffer(stream, dtype="<u8").astype(np.uint64)
        return self._keys[:rows]

    def draw(self, members: Ints, rows: int, purpose: str) -> float:
        """Return a number in [0, 1) that depends on who is in the cell and what for, and on nothing else."""
        total = int(self.of_rows(rows)[members].sum(dtype=np.uint64))
        text = f"{self.table}\n{purpose}\n{len(members)}\n{total}"
        digest = hmac.digest(self.secret, text.encode(), "sha256")
        return int.from_bytes(digest[:_WORD], "big") / 2.0 ** (8 * _WORD)


@lru_cache(maxsize=1024)
def change_law(count: int, deviation: int, variance: float) -> tuple[float, ...]:
    """Return the probabilities of the changes −min(count, deviation) … deviation of a count.

    Of all laws on these changes with mean 0 and this variance, the one with the largest entropy: p(d) ∝ exp(λd + μd²).
    A count never becomes negative, and nothing stays nothing. Where the variance cannot be reached (small counts), nine
    tenths of what can be.

    Examples
    --------
    >>> [round(p, 4) for p in change_law(100, 1, 0.5)]
    [0.25, 0.5, 0.25]
    """
    low = min(count, deviation)
    if low == 0:
        return (1.0,)
    wanted = min(variance, 0.9 * low * deviation)
    changes = np.arange(-low, deviation + 1, dtype=np.float64)

    def tilted(curve: float) -> Floats:
        return _balanced(changes, curve)

    left, right = -50.0, 50.0
    for _ in range(_HALVINGS):
        middle = (left + right) / 2
        left, right = (middle, right) if tilted(middle) @ changes**2 < wanted else (left, middle)
    return tuple(float(p) for p in tilted((left + right) / 2))


def _balanced(changes: Floats, curve: float) -> Floats:
    """Return p(d) ∝ exp(λd + curve·d²) with the λ that makes the mean 0."""

    def law(slope: float) -> Floats:
        exponents = slope * changes + curve * changes**2
        weights = np.exp(exponents - exponents.max())
        return np.asarray(weights / weights.sum(), dtype=np.float64)

    reach = 100.0 + 2 * abs(curve) * float(np.abs(changes).max())
    left, right = -reach, reach
    for _ in range(_HALVINGS):
        middle = (left + right) / 2
        left, right = (middle, right) if law(middle) @ changes < 0 else (left, middle)
    return law((left + right) / 2)


@dataclass(frozen=True)
class Perturbation:
    """How figures are changed: by cell keys, then rounded."""

    policy: PerturbedPolicy
    keys: CellKeys

    def __post_init__(self) -> None:
        most = self.policy.deviation**2
        if self.policy.deviation and self.policy.variance >= most:
            raise PlanError(f"`variance` of changes by at most {self.policy.deviation} is below {most}")

    def count(self, true: int, members: Ints, rows: int, purpose: str = "count") -> int:
        """Return a count with the change that belongs to its cell."""
        if self.policy.deviation == 0 or true == 0:
            return true
        law = change_law(min(true, self.policy.deviation), self.policy.deviation, self.policy.variance)
        low = min(true, self.policy.deviation)
        place = int(np.searchsorted(np.cumsum(law), self.keys.draw(members, rows, purpose), side="right"))
        return true + min(place, len(law) - 1) - low

    def total(
        self,
        values: Floats,
        typical: float,
        members: Ints,
        rows: int,
        purpose: str,
        *,
        whole: bool = False,
    ) -> float:
        """Return a sum, moved by up to `magnitude_percent` of its largest contributions, or of a typical value.

        Ten zeros are moved too: their sum would tell all ten. Sums of whole numbers (`whole`) move by up to `deviation`
        at least, as counts do: less than one half would be rounded away by whoever knows that they are whole.
        """
        largest = (-np.sort(-np.abs(values))[: len(_TOP)]).tolist()
        scale = max(math.fsum(weight * size for weight, size in zip(_TOP, largest, strict=False)), typical)
        reach = scale * self.policy.magnitude_percent / 100
        # another scale has another draw: two changes in a known ratio would give both away
        place = 2 * self.keys.draw(members, rows, f"{purpose} {scale!r}") - 1
        return math.fsum(values.tolist()) + place * (max(reach, float(self.policy.deviation)) if whole else reach)

    def rounded(self, value: float) -> float:
        """Round to the nearest multiple of the base, halves away from zero."""
        base = self.policy.rounding_base
        if base is None:
            return value
        return math.copysign(math.floor(abs(value) / base + 0.5) * base, value)


@dataclass
class MeasuredColumns:
    """The values of a table's columns, read once for all questions until the table grows.

    The typical size of a value is the mean size, or three standard deviations where that is more, rounded up to a power
    of two: it stays while the table grows a little, so that the same rows keep their change. So a sum's change has a
    standard deviation of at least √3 of the column's, whoever is in the set.
    """

    backend: Backend
    table: TableSpec
    _found: dict[str, tuple[int, bool, Floats, float]] = field(default_factory=dict, repr=False)

    def of(self, column: str) -> tuple[Floats, float]:
        """Return the values, missing as NaN, and a typical size; refuse columns of few different values."""
        rows = self.backend.rows(self.table.name)
        if column not in self._found or self._found[column][0] != rows:
            self._found[column] = (rows, *self._read(column))
        _, few, numbers, typical = self._found[column]
        if few:
            raise QueryRefused(f"{column!r} has few different values; it is not answered with perturbed figures")
        return numbers, typical

    def _read(self, column: str) -> tuple[bool, Floats, float]:
        import polars as pl

        spec, values = self.table.column(column), self.backend.column(self.table.name, column)
        few = spec.role == "sensitive" and spec.has_few_values(values)
        numbers = values.cast(pl.Float64).to_numpy() if spec.is_numeric else np.zeros(0)
        sizes = np.abs(numbers[~np.isnan(numbers)])
        typical = max(float(sizes.mean()), 3 * float(np.nanstd(numbers))) if len(sizes) else 0.0
        return few, numbers, 2.0 ** math.ceil(math.log2(typical)) if typical else 0.0


def perturb(
    query: Query, backend: Backend, policy: PerturbedPolicy, keys: CellKeys, measured: MeasuredColumns | None = None
) -> pl.DataFrame:
    """Answer counts, sums, means and histograms with perturbed figures; small cells are refused or left out.

    A group of fewer people than `min_query_size`, or of all but so few, is left out with its name, which would tell
    that somebody has it; a question about no other is refused. A mean is the told sum over the told count, so that it
    tells nothing beside them; sums stay between the bounds times the told count. Refusals depend on public columns and
    declarations, and on whether a column has few different values. Figures are not additive: groups need not add up to
    the total.

    Guarantees nothing: who may ask enough questions finds any value, with an error that falls with the root of their
    number (the documentation states the figures). Not offered for yes or no and for few different values.

    References
    ----------
    Fraser & Wooton (2005), A proposed method for confidentialising tabular output to protect against differencing;
    catalogue O4.

    Examples
    --------
    >>> import polars as pl
    >>> from discretion.online.backends import open_backend
    >>> table = TableSpec(name="t", columns={"sex": {"role": "public", "type": "category"}})
    >>> backend = open_backend([table], {"t": pl.DataFrame({"sex": ["f"] * 40 + ["m"] * 60})})
    >>> policy = PerturbedPolicy(mode="perturbed", rounding_base=5)
    >>> perturb(Query("t", (Aggregate("count"),)), backend, policy, CellKeys(b"a secret of 16 b", "t"))["count"].item()
    100.0
    """
    table = table_of(backend.tables, query.table)
    cells = large_cells(query, backend, policy, measured or MeasuredColumns(backend, table))
    change = Perturbation(policy, keys)
    return _Cells(admit(query, table), table, backend, change, cells.keys, cells.measured).frame()


@dataclass(frozen=True)
class Large:
    """Which cells of a question are told."""

    keys: tuple[GroupKey, ...]
    measured: MeasuredColumns


def large_cells(query: Query, backend: Backend, policy: PerturbedPolicy, measured: MeasuredColumns) -> Large:
    """Refuse what has no perturbed answer, and find the cells that are large enough."""
    table = measured.table
    question = admit(query, table)
    for aggregate in question.aggregates:
        if aggregate.function in _REFUSED:
            raise QueryRefused(f"{aggregate.function!r} shows single values; it is not answered with perturbed figures")
        if aggregate.column is not None:
            measured.of(aggregate.column)
    people = backend.members(question.table, question.where, question.group_by)
    everybody, least = backend.people(question.table), policy.min_query_size
    large = tuple(
        key for key in _sorted(people) if len(people[key]) >= least and not 0 < everybody - len(people[key]) < least
    )
    if not large:
        raise QueryRefused("the question is about too few people, or about all but too few")
    return Large(large, measured)


def _sorted(keys: Any) -> list[GroupKey]:
    def place(key: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple((value is None, type(value).__name__, 0 if value is None else value) for value in key)

    return sorted(keys, key=place)


@dataclass(frozen=True)
class _Cells:
    """The cells of one answer."""

    query: Query
    table: TableSpec
    backend: Backend
    change: Perturbation
    keys: tuple[GroupKey, ...]
    measured: MeasuredColumns

    def frame(self) -> pl.DataFrame:
        """Return one line per group, a column per figure."""
        import polars as pl

        columns: dict[str, Any] = {name: [key[i] for key in self.keys] for i, name in enumerate(self.query.group_by)}
        for aggregate in self.query.aggregates:
            found = self._histogram(aggregate) if aggregate.function == "histogram" else self._figures(aggregate)
            columns[aggregate.label] = [found[key] for key in self.keys]
        types = {
            aggregate.label: pl.List(pl.Float64) if aggregate.function == "histogram" else pl.Float64
            for aggregate in self.query.aggregates
        }
        return pl.DataFrame(columns, schema_overrides=types, strict=False)

    def _rows(self, where: Filter) -> dict[GroupKey, Ints]:
        return self.backend.members(self.query.table, where, self.query.group_by, unit="row")

    def _figures(self, aggregate: Aggregate) -> dict[GroupKey, float | None]:
        cells = self._rows(self.query.where)
        if aggregate.function in ("sum", "mean"):
            return {key: self._sum(aggregate, cells[key]) for key in self.keys}
        counts = {key: len(cell) for key, cell in cells.items()}
        purpose = "count"
        if aggregate.function == "count-distinct":
            asked = Query(self.query.table, (aggregate,), self.query.where, self.query.group_by)
            width = len(self.query.group_by)
            counts = {tuple(row[:width]): int(row[width]) for row in self.backend.exact(asked).iter_rows()}
            purpose = f"distinct {aggregate.column}"
        rows, change = self.backend.rows(self.query.table), self.change
        return {key: change.rounded(change.count(counts[key], cells[key], rows, purpose)) for key in self.keys}

    def _sum(self, aggregate: Aggregate, cell: Ints) -> float | None:
        """Return a sum, or a mean as the told sum over the told count; both are of the records with a value."""
        rows, change, column = self.backend.rows(self.query.table), self.change, aggregate.column or ""
        values, typical = self.measured.of(column)
        present = cell[~np.isnan(values[cell])]
        spec = self.table.column(column)
        whole = spec.type != "number" or spec.whole is True
        count = change.rounded(change.count(len(present), present, rows))
        total = change.total(values[present], typical, present, rows, f"sum {column}", whole=whole)
        if spec.limits is not None:
            total = min(max(total, spec.limits[0] * count), spec.limits[1] * count)
        total = change.rounded(total)
        if aggregate.function == "sum":
            return total
        return total / count if count else None

    def _histogram(self, aggregate: Aggregate) -> dict[GroupKey, list[float | None]]:
        """Count each bin as the cell it is: the same rows, chosen in another way, have the same count."""
        rows, found = self.backend.rows(self.query.table), {}
        cuts, column = aggregate.cuts, aggregate.column or ""
        bins: list[dict[GroupKey, Ints]] = []
        for number, (low, high) in enumerate(pairwise(cuts)):
            end: Condition = Condition(column, "<=" if number == len(cuts) - 2 else "<", (high,))
            bins.append(self._rows(And((self.query.where, Condition(column, ">=", (low,)), end))))
        for key in self.keys:
            found[key] = [self._bin(cells.get(key, np.zeros(0, np.int64)), rows) for cells in bins]
        return found

    def _bin(self, cell: Ints, rows: int) -> float | None:
        if 0 < len(cell) < self.change.policy.min_query_size:
            return None
        return self.change.rounded(self.change.count(len(cell), cell, rows))


_NOTE = "figures are changed a little, without any guarantee; groups need not add up to their total"

MOST_ANSWERS = 24
"""figures of a column, however many people there are: with all of them on one person the error is 2·√(3/24) = .7"""


class PerturbedMode(FreeMode):
    """Perturbed answers about one table."""

    name = "perturbed"

    def __init__(self, desk: Desk, policy: PerturbedPolicy, keys: CellKeys) -> None:
        self._desk, self._policy, self._keys = desk, policy, keys
        self._measured = MeasuredColumns(desk.backend, desk.table)
        for name in desk.table.visible:  # read now what decides about refusals, not when somebody asks
            if desk.table.columns[name].role == "sensitive":
                with suppress(QueryRefused):
                    self._measured.of(name)
        self._told: dict[str, int] = {}
        self._asked: set[str] = set()
        self._seen = 0
        self._lock = threading.Lock()
        Perturbation(policy, keys)

    def ask(self, query: Query, user: str, wish: RequestedAccuracy) -> Reply:  # noqa: ARG002 - nothing is spent
        """Note the question, compute, record, answer."""
        question = query.canonical()
        found = self._desk.stored(question, user, "perturbed")
        if found is not None and found.answer is not None:
            return Reply(AnswerFigures.from_text(found.answer), cached=True)
        try:
            cells = large_cells(question, self._desk.backend, self._policy, self._measured)
            number = self._charge(question, user, len(cells.keys))
        except QueryRefused as refusal:
            self._desk.note_refusal(question, user, refusal)
            raise
        frame = perturb(question, self._desk.backend, self._policy, self._keys, self._measured)
        plain = AnswerFigures.of_frame(frame, len(question.group_by))
        values = tuple(
            tuple(whole(a, value) for a, value in zip(question.aggregates, row, strict=True)) for row in plain.values
        )
        figures = AnswerFigures(plain.keys, values, notes=(_NOTE,))
        self._desk.confirm()
        self._desk.ledger.record_answer(number, figures.to_text())
        return Reply(figures)

    def _charge(self, question: Query, user: str, cells: int) -> int:
        """Write a question into the ledger, unless all users together would be told too much about a column."""
        table, people = self._desk.table, self._desk.backend.people(self._desk.table.name)
        most = min(MOST_ANSWERS, max(1, people // 2)) if self._policy.max_answers is None else self._policy.max_answers
        asked, name = self._sensitive(question), question.digest()
        with self._lock, self._desk.ledger.page() as page:
            for entry in page.entries_after(self._seen, table.name):
                self._seen = entry.id
                if entry.kind == "perturbed" and entry.digest not in self._asked:
                    self._asked.add(entry.digest)
                    for column in self._sensitive(Query.from_json(json.loads(entry.query))):
                        self._told[column] = self._told.get(column, 0) + int(entry.sets or b"1")
            over = [c for c in asked if self._told.get(c, 0) + asked.count(c) * cells > most]
            if over and name not in self._asked:
                raise QueryRefused(f"more than {most:,} figures of the column {over[0]!r} are not told")
            charge = Charge(user, table.name, "perturbed", name, canonical_text(question), sets=str(cells).encode())
            return page.charge(charge).id

    def _sensitive(self, question: Query) -> list[str]:
        """Name the sensitive columns that a question measures, once for each figure."""
        public = self._desk.table.public
        return [a.column for a in question.aggregates if a.column is not None and a.column not in public]

    def dry_run(self, query: Query, user: str, wish: RequestedAccuracy) -> Estimate:  # noqa: ARG002
        """Perturbed answers cost nothing."""
        cached = self._desk.stored(query.canonical(), user, "perturbed") is not None
        most = self._policy.deviation + (self._policy.rounding_base or 0) / 2
        off = {a.label: most if a.function == "count" else None for a in query.aggregates}
        return Estimate(mode=self.name, cached=cached, errors=off, confidence=1.0, notes=(_NOTE,))
