"""Answers changed a little, always in the same way for the same records: cell keys, rounding, size control (O4).

Every row has a secret key; the keys of the rows in a cell, added up, are the cell's key, which decides its change. Two
questions that choose the same rows get the same figure, however they are worded, and asking again averages nothing
out. Weaker than the other modes: there is no bound on what many different answers tell together.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion.errors import PlanError, QueryRefused
from discretion.online.admit import admit
from discretion.online.backend import Backend, GroupKey, table_of
from discretion.online.catalog import TableSpec
from discretion.online.policy import PerturbedPolicy
from discretion.online.query import Aggregate, And, Condition, Filter, Function, Query

if TYPE_CHECKING:
    import polars as pl

_WORD = 8
_HALVINGS = 52
_REFUSED = ("variance", "min", "max", "quantile")


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
        """Give the keys of the first rows."""
        if rows > len(self._keys):
            start = hmac.digest(self.secret, b"rows of " + self.table.encode(), "sha256")
            stream = hashlib.shake_256(start).digest(_WORD * rows)
            self._keys = np.frombuffer(stream, dtype="<u8").astype(np.uint64)
        return self._keys[:rows]

    def draw(self, members: NDArray[np.int64], rows: int, purpose: str) -> float:
        """Give a number in [0, 1) that depends on who is in the cell and what for, and on nothing else."""
        total = int(self.of_rows(rows)[members].sum(dtype=np.uint64))
        text = f"{self.table}\n{purpose}\n{len(members)}\n{total}"
        digest = hmac.digest(self.secret, text.encode(), "sha256")
        return int.from_bytes(digest[:_WORD], "big") / 2.0 ** (8 * _WORD)


@lru_cache(maxsize=1024)
def change_law(count: int, deviation: int, variance: float) -> tuple[float, ...]:
    """Give the probabilities of the changes −min(count, deviation) … deviation of a count.

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

    def tilted(curve: float) -> NDArray[np.float64]:
        return _balanced(changes, curve)

    left, right = -50.0, 50.0
    for _ in range(_HALVINGS):
        middle = (left + right) / 2
        left, right = (middle, right) if tilted(middle) @ changes**2 < wanted else (left, middle)
    return tuple(float(p) for p in tilted((left + right) / 2))


def _balanced(changes: NDArray[np.float64], curve: float) -> NDArray[np.float64]:
    """Give p(d) ∝ exp(λd + curve·d²) with the λ that makes the mean 0."""

    def law(slope: float) -> NDArray[np.float64]:
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

    def count(self, true: int, members: NDArray[np.int64], rows: int, purpose: str = "count") -> int:
        """Give a count with the change that belongs to its cell."""
        if self.policy.deviation == 0 or true == 0:
            return true
        law = change_law(min(true, self.policy.deviation), self.policy.deviation, self.policy.variance)
        low = min(true, self.policy.deviation)
        place = int(np.searchsorted(np.cumsum(law), self.keys.draw(members, rows, purpose), side="right"))
        return true + min(place, len(law) - 1) - low

    def total(
        self, true: float, largest: float, members: NDArray[np.int64], rows: int, purpose: str, *, whole: bool = False
    ) -> float:
        """Give a sum, moved by up to `magnitude_percent` of its largest contribution.

        Sums of whole numbers (`whole`) move by up to `deviation` at least, as counts do: less than one half would be
        rounded away by whoever knows that they are whole, and the true sum of yes and no would stand there.
        """
        reach = largest * self.policy.magnitude_percent / 100
        place = 2 * self.keys.draw(members, rows, purpose) - 1
        return true + place * (max(reach, float(self.policy.deviation)) if whole else reach)

    def rounded(self, value: float) -> float:
        """Round to the nearest multiple of the base, halves away from zero."""
        base = self.policy.rounding_base
        if base is None:
            return value
        return math.copysign(math.floor(abs(value) / base + 0.5) * base, value)


def perturb(query: Query, backend: Backend, policy: PerturbedPolicy, keys: CellKeys) -> pl.DataFrame:
    """Answer counts, sums, means and histograms with perturbed figures; small cells are refused or missing.

    A figure over fewer people than `min_query_size`, or over all but so few, is missing; without groups the question is
    refused. Refusals depend on public columns only. Figures are not additive: groups need not add up to the total.

    References
    ----------
    Fraser & Wooton (2005), A proposed method for confidentialising tabular output to protect against differencing;
    catalogue O4.

    Examples
    --------
    >>> import polars as pl
    >>> from discretion.online.backend import open_backend
    >>> table = TableSpec(name="t", columns={"sex": {"role": "public", "type": "category"}})
    >>> backend = open_backend([table], {"t": pl.DataFrame({"sex": ["f"] * 40 + ["m"] * 60})})
    >>> policy = PerturbedPolicy(mode="perturbed", rounding_base=5)
    >>> perturb(Query("t", (Aggregate("count"),)), backend, policy, CellKeys(b"a secret of 16 b", "t"))["count"].item()
    100.0
    """
    table = table_of(backend.tables, query.table)
    question = admit(query, table)
    for aggregate in question.aggregates:
        if aggregate.function in _REFUSED:
            raise QueryRefused(f"{aggregate.function!r} shows single values; it is not answered with perturbed figures")
    change = Perturbation(policy, keys)
    people = backend.members(question.table, question.where, question.group_by)
    everybody = backend.people(question.table)
    large = [key for key in _sorted(people) if _is_large(len(people[key]), everybody, policy)]
    if not question.group_by and not large:
        raise QueryRefused("the question is about too few people, or about all but too few")
    return _Cells(question, table, backend, change, frozenset(large)).frame(_sorted(people))


def _is_large(size: int, everybody: int, policy: PerturbedPolicy) -> bool:
    return size >= policy.min_query_size and not 0 < everybody - size < policy.min_query_size


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
    large: frozenset[GroupKey]

    def frame(self, keys: Sequence[GroupKey]) -> pl.DataFrame:
        """Give one line per group, a column per figure."""
        import polars as pl

        columns: dict[str, Any] = {name: [key[i] for key in keys] for i, name in enumerate(self.query.group_by)}
        for aggregate in self.query.aggregates:
            found = self._histogram(aggregate) if aggregate.function == "histogram" else self._figures(aggregate)
            columns[aggregate.label] = [found.get(key) for key in keys]
        types = {
            aggregate.label: pl.List(pl.Float64) if aggregate.function == "histogram" else pl.Float64
            for aggregate in self.query.aggregates
        }
        return pl.DataFrame(columns, schema_overrides=types, strict=False)

    def _rows(self, where: Filter) -> dict[GroupKey, NDArray[np.int64]]:
        return self.backend.members(self.query.table, where, self.query.group_by, unit="row")

    def _figures(self, aggregate: Aggregate) -> dict[GroupKey, float]:
        cells = self._rows(self.query.where)
        exact = self._exact(aggregate)
        return {key: self._one(aggregate, exact[key], cells[key]) for key in self.large if key in exact}

    def _one(self, aggregate: Aggregate, figures: Sequence[Any], cell: NDArray[np.int64]) -> float:
        rows, change = self.backend.rows(self.query.table), self.change
        column = aggregate.column or ""
        if aggregate.function == "count":
            return change.rounded(change.count(int(figures[0]), cell, rows))
        if aggregate.function == "count-distinct":
            return change.rounded(change.count(int(figures[0]), cell, rows, f"distinct {column}"))
        low, high, total, mean = (0.0 if value is None else float(value) for value in figures)
        kind = self.table.column(column).type
        largest = 1.0 if kind == "truth" else max(abs(low), abs(high))
        whole = kind in ("integer", "truth")
        moved = change.total(total, largest, cell, rows, f"sum {column}", whole=whole)
        if aggregate.function == "sum":
            return change.rounded(moved)
        return change.rounded(mean + (moved - total) / len(cell))

    def _exact(self, aggregate: Aggregate) -> dict[GroupKey, Sequence[Any]]:
        column = aggregate.column
        wanted: tuple[Aggregate, ...] = (Aggregate(aggregate.function, column, name="figure_0"),)
        if aggregate.function in ("sum", "mean"):
            numeric = self.table.column(column or "").type != "truth"
            functions: tuple[Function, ...] = ("min", "max", "sum", "mean")
            functions = functions if numeric else ("mean", "mean", "sum", "mean")
            wanted = tuple(Aggregate(f, column, name=f"figure_{i}") for i, f in enumerate(functions))
        found = self.backend.exact(Query(self.query.table, wanted, self.query.where, self.query.group_by))
        width = len(self.query.group_by)
        return {tuple(row[:width]): row[width:] for row in found.iter_rows()}

    def _histogram(self, aggregate: Aggregate) -> dict[GroupKey, list[float | None]]:
        """Count each bin as the cell it is: the same rows, chosen in another way, have the same count."""
        rows, found = self.backend.rows(self.query.table), {}
        cuts, column = aggregate.cuts, aggregate.column or ""
        bins: list[dict[GroupKey, NDArray[np.int64]]] = []
        for number, (low, high) in enumerate(pairwise(cuts)):
            end: Condition = Condition(column, "<=" if number == len(cuts) - 2 else "<", (high,))
            bins.append(self._rows(And((self.query.where, Condition(column, ">=", (low,)), end))))
        for key in self.large:
            found[key] = [self._bin(cells.get(key, np.zeros(0, np.int64)), rows) for cells in bins]
        return found

    def _bin(self, cell: NDArray[np.int64], rows: int) -> float | None:
        if 0 < len(cell) < self.change.policy.min_query_size:
            return None
        return self.change.rounded(self.change.count(len(cell), cell, rows))
