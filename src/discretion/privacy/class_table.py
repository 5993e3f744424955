"""What privacy models look at: equivalence classes with the counts of sensitive values in each.

The same table is built from a data set (`class_table`) and from a node of a generalization lattice, so that a model is
written once and serves as a check, as a requirement and inside a search.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discretion.context import Context
from discretion.data.codes import Classes, ColumnCodes, add_counts
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.households import count_units, unit_codes
from discretion.engines.scan import Scan
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.kernels.classes import ORDERED, SHARES, TRANSPORT, ClassTest
from discretion.model import FailingClass, PrivacyModel, Verdict
from discretion.part import Columns, Scale

Count = Literal["units", "records"]
"""What k counts: different households (or other units) where the schema declares them, or records."""

SHOWN = 100
"""Failing classes that a verdict lists."""

TOLERANCE = 1e-12
"""By how much rounding may miss a bound that is met exactly."""


@dataclass(frozen=True)
class SensitiveDomain:
    """The values of a sensitive column: numbered in their order, with totals over the whole table."""

    column: str
    totals: Ints
    """records with each value"""
    parents: tuple[Ints, ...] = ()
    """for each hierarchy level from 1 up, the number of each value's label; empty without a hierarchy"""

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self.totals)

    @cached_property
    def records(self) -> int:
        """The number of records of the whole table."""
        return int(self.totals.sum())

    @cached_property
    def distribution(self) -> Floats:
        """The share of each value in the whole table."""
        return np.asarray(self.totals / self.records)


@dataclass(frozen=True)
class SensitiveCounts:
    """How often each value occurs in each class, as triples sorted by class, then value; zero counts are left out."""

    domain: SensitiveDomain
    starts: Ints
    """triples of class i stand at starts[i] … starts[i+1]−1"""
    values: Ints
    counts: Ints

    @cached_property
    def class_of(self) -> Ints:
        """The class of each triple."""
        return np.repeat(np.arange(len(self.starts) - 1), self.distinct)

    @cached_property
    def distinct(self) -> Ints:
        """The number of different values in each class."""
        return np.diff(self.starts)

    def per_triple(self, of_class: NDArray[Any]) -> NDArray[Any]:
        """Give each triple a figure of its class."""
        return np.repeat(of_class, self.distinct)

    def shares(self, sizes: Ints) -> Floats:
        """The share of each triple's value in its class."""
        return np.asarray(self.counts / self.per_triple(sizes))

    def per_class(self, reduce: np.ufunc, figures: NDArray[Any]) -> NDArray[Any]:
        """Reduce a figure of the triples to one per class; a class without records gets 0."""
        begins = self.starts[:-1]
        filled = self.distinct > 0
        if filled.all():
            return np.asarray(reduce.reduceat(figures, begins))
        result = np.zeros(len(begins), dtype=figures.dtype)
        if filled.any():
            result[filled] = reduce.reduceat(figures, begins[filled])
        return result


@dataclass(frozen=True)
class ClassTable:
    """Equivalence classes: their sizes, sensitive values, and sizes in the population where one is given."""

    sizes: Ints
    sensitive: Mapping[str, SensitiveCounts] = field(default_factory=lambda: MappingProxyType({}))
    population: Mapping[str, Ints] = field(default_factory=lambda: MappingProxyType({}))
    """records of each population (by its name, see `ClassModel.population_name`) in each class"""
    units: Ints | None = None
    """different households, persons or employers in each class; None where every record stands for itself"""
    lost: Floats | None = None
    """the entropy-based loss of each class, from 0 to 1, where a model asks for it (see `ClassModel.looks_at_loss`)"""

    def counted(self, what: Count) -> Ints:
        """Give what k counts in each class: different units where some are declared, or records."""
        return self.sizes if what == "records" or self.units is None else self.units

    def __len__(self) -> int:
        return len(self.sizes)


@dataclass(frozen=True)
class _Judged:
    """A data set as a model sees it under one reading of missing values."""

    data: Dataset
    classes: Classes
    table: ClassTable
    failing: Bools


class ClassModel(PrivacyModel):
    """A privacy model that looks at equivalence classes only."""

    columns: Columns = ()
    """columns an intruder may know; without it, the quasi-identifiers"""
    missing: Literal["category", "ignore"] = "category"
    """how a missing quasi-identifier counts: as a category of its own, or by leaving its record out"""

    scale: ClassVar[Scale] = "classes"
    monotone: ClassVar[bool] = False
    """Further generalization never makes a record fail that did not fail before, whatever the others do."""
    monotone_without_suppression: ClassVar[bool] = False
    """Where all classes satisfy the model, they do so after further generalization too."""
    bound: ClassVar[str] = ""
    """The field that says which value must be reached."""
    by_sizes: ClassVar[bool] = False
    """Whether the sizes of the classes are all that the model looks at."""
    looks_at_loss: ClassVar[bool] = False
    """Whether the model asks what each class lost by generalization."""

    @abstractmethod
    def failing(self, table: ClassTable) -> Bools:
        """Tell which classes break the model."""

    @abstractmethod
    def reached(self, table: ClassTable) -> float:
        """Give the value reached by the classes of the table (the worst class decides)."""

    @property
    def required(self) -> float:
        """The value that must be reached."""
        value: float = getattr(self, self.bound)
        return value

    @property
    def smallest_class(self) -> int:
        """The size below which a class certainly fails; guides searches."""
        return 1

    @property
    def needs_every_class(self) -> bool:
        """Whether a class of the population without a record in the release breaks the model.

        A search can then neither pass over such a class nor suppress one: what is suppressed leaves it empty.
        """
        return False

    @property
    def counts_units(self) -> bool:
        """Whether the model asks how many different units a class has, where the schema declares units."""
        return getattr(self, "count", "records") == "units"

    @property
    def population_name(self) -> str | None:
        """The name under which `ClassTable.population` holds the population the model looks at, if it needs one."""
        return None

    def sensitive_columns(self, data: Dataset) -> tuple[str, ...]:  # noqa: ARG002
        """Name the sensitive columns the model looks at."""
        return ()

    def refuse_impossible(self, table: ClassTable) -> None:
        """Raise if no generalization of this data could ever satisfy the model (l above the number of values)."""

    def suppress(self, table: ClassTable, gone: Bools, enough: int | None = None) -> Bools:  # noqa: ARG002
        """Give the classes that a search suppresses so that the rest satisfies the model; `gone` are out already.

        Where more than `enough` records must go, any answer will do that suppresses more than these.
        """
        return gone | self.failing(table)

    def kept_below(self, table: ClassTable) -> Ints:
        """Give the records of each class that any less general release could keep at most, by this model alone."""
        return np.where(self.failing(table), 0, table.sizes) if self.monotone else table.sizes

    def lost_below(self, table: ClassTable) -> int:
        """Give the records that every less general release loses by this model alone."""
        return int((table.sizes - self.kept_below(table)).sum())

    def check(self, released: Dataset, ctx: Context, *, original: Dataset | None = None) -> Verdict:  # noqa: ARG002
        """Count the classes and judge each."""
        columns = released.choose(self.columns, "classes")
        sensitive = self.sensitive_columns(released)
        _refuse_overlap(self.kind, columns, sensitive)
        judged = self._judge(released, columns, sensitive, self.missing)
        table, failing = judged.table, judged.failing
        alone = self._of_one_person(judged)
        said = f" Records are counted, not people: {alone} of them stand in classes of several records of one person."
        return Verdict(
            model=self.kind,
            holds=not failing.any(),
            value=self.reached(table),
            required=self.required,
            meaning=self.meaning(table) + (said if alone else ""),
            failing_count=int(failing.sum()),
            failing_records=int(table.sizes[failing].sum()),
            detail={
                "columns": list(columns),
                "sensitive": list(sensitive),
                "missing": self.missing,
                **({"records_of_one_person": alone} if alone else {}),
                **self.details(table),
                **self._other_reading(released, columns, sensitive, judged),
            },
            find_failing=lambda: self.list_failing(judged.data, columns, judged.classes, failing),
        )

    def _of_one_person(self, judged: _Judged) -> int:
        """Count the records that look like several and are of one person, where the model counts records."""
        people = None if self.counts_units else unit_codes(judged.data, ("unit",))
        if not people:
            return 0
        persons = count_units(people, judged.classes.ids, len(judged.classes))
        return int(judged.table.sizes[(persons == 1) & (judged.table.sizes > 1)].sum())

    def classes_of(self, released: Scan) -> Dataset:
        """Count the classes over the columns of the model and its sensitive columns."""
        if self.counts_units and released.original.having("household", "unit"):
            raise PlanError(
                f"{self.kind}: the schema declares households or people, and data that stays in its files is counted "
                "by records; say `count: records`, or read the data with the engine `memory`"
            )
        return released.table([*released.choose(self.columns, "classes"), *self.sensitive_columns(released)])

    def _judge(self, released: Dataset, columns: tuple[str, ...], sensitive: tuple[str, ...], missing: str) -> _Judged:
        data = released if missing == "category" else released.take(complete_rows(released, columns))
        if not len(data):
            raise DataError(f"{self.kind}: every record has a missing quasi-identifier; nothing is left to count")
        classes = data.classes(columns)
        table = self.table(data, columns, classes, sensitive)
        self.refuse_impossible(table)
        return _Judged(data, classes, table, self.failing(table))

    def _other_reading(
        self, released: Dataset, columns: tuple[str, ...], sensitive: tuple[str, ...], judged: _Judged
    ) -> dict[str, Any]:
        """Where quasi-identifiers are missing, give the figures under both readings of missing."""
        if not any(released.count_missing(name) for name in columns):
            return {}
        other = "ignore" if self.missing == "category" else "category"
        if other == "ignore" and not complete_rows(released, columns).any():
            return {}
        found = {self.missing: judged, other: self._judge(released, columns, sensitive, other)}
        return {
            f"{word}_{reading}": figure
            for reading, one in found.items()
            for word, figure in (
                ("value", self.reached(one.table)),
                ("failing_records", int(one.table.sizes[one.failing].sum())),
            )
        }

    def table(
        self,
        data: Dataset,
        columns: tuple[str, ...],  # noqa: ARG002 - models with a population need them
        classes: Classes,
        sensitive: tuple[str, ...],
    ) -> ClassTable:
        """Build the table of a data set; models with a population add it here."""
        return self.table_of_rows(data, None, classes, sensitive)

    def table_of_rows(
        self, data: Dataset, rows: Ints | None, classes: Classes, sensitive: tuple[str, ...]
    ) -> ClassTable:
        """Build the table of classes of some rows, or of all; the values of sensitive columns are those of all rows."""
        counts = {name: sensitive_counts(data, name, classes, rows) for name in sensitive}
        units = None
        if self.counts_units:
            of = unit_codes(data)
            of = of if rows is None else tuple(unit[rows] for unit in of)
            units = count_units(of, classes.ids, len(classes))
        return ClassTable(classes.counts, MappingProxyType(counts), units=units)

    def details(self, table: ClassTable) -> dict[str, Any]:  # noqa: ARG002
        """Give further figures for the verdict's detail."""
        return {}

    def meaning(self, table: ClassTable) -> str:
        """Say what was reached in one sentence."""
        return f"{self.summary().rstrip('.')}: reached {self.reached(table):.4g}, required {self.required:g}."

    def list_failing(
        self, data: Dataset, columns: tuple[str, ...], classes: Classes, failing: Bools
    ) -> tuple[FailingClass, ...]:
        """List failing classes by key and size, smallest first."""
        return list_failing(data, columns, classes, failing)


class SensitiveModel(ClassModel):
    """A class model about the values of sensitive columns in each class: each class has a figure, the worst decides."""

    sensitive: Columns = ()
    """sensitive columns, all of which must satisfy the model; without it, the columns whose role is `sensitive`"""

    attacker: ClassVar[str] = (
        "somebody who finds a person's class by the quasi-identifiers and wants the sensitive value, without other "
        "knowledge of who has which value"
    )
    better: ClassVar[Literal["higher", "lower"]] = "higher"
    """Whether the figure of a class must be at least or at most the required one."""

    @abstractmethod
    def values_for(self, counts: SensitiveCounts, sizes: Ints) -> NDArray[Any]:
        """Give the figure of each class for one sensitive column."""

    def class_test(self, domain: SensitiveDomain) -> ClassTest | None:  # noqa: ARG002
        """Give the model as a test of single classes that says what can be kept of those that fail, if it is one."""
        return None

    def failing_for(self, counts: SensitiveCounts, sizes: Ints) -> Bools:
        """Tell which classes fail for one sensitive column."""
        values = self.values_for(counts, sizes)
        if self.better == "higher":
            return np.asarray(values < self.required - TOLERANCE)
        return np.asarray(values > self.required + TOLERANCE)

    def sensitive_columns(self, data: Dataset) -> tuple[str, ...]:
        """Give the named columns, or those with the role `sensitive`."""
        if self.sensitive:
            data.require(self.sensitive)
            return self.sensitive
        found = data.having("sensitive")
        if not found:
            raise PlanError(f"{self.kind}: no column has the role `sensitive`; give `sensitive`")
        return found

    def failing(self, table: ClassTable) -> Bools:
        """A class fails when it fails for any sensitive column."""
        result = np.zeros(len(table), dtype=np.bool_)
        for name in self._looked_at(table):
            result |= self.failing_for(table.sensitive[name], table.sizes)
        return result

    def reached(self, table: ClassTable) -> float:
        """Give the figure of the worst class and column."""
        worst = min if self.better == "higher" else max
        return worst(self._per_column(table).values())

    def details(self, table: ClassTable) -> dict[str, Any]:
        """Give the figure of each sensitive column."""
        return {"per_column": self._per_column(table)}

    def _per_column(self, table: ClassTable) -> dict[str, float]:
        worst = np.min if self.better == "higher" else np.max
        looked_at = self._looked_at(table)
        return {name: float(worst(self.values_for(table.sensitive[name], table.sizes))) for name in looked_at}

    def _looked_at(self, table: ClassTable) -> Sequence[str]:
        return [name for name in table.sensitive if not self.sensitive or name in self.sensitive]

    def refuse_fewer_values(self, table: ClassTable, least: float, what: str) -> None:
        """Raise if a sensitive column has fewer different values than the model asks of every class."""
        for name in self._looked_at(table):
            size = table.sensitive[name].domain.size
            if size < least - TOLERANCE:
                values = "value" if size == 1 else "different values"
                raise PlanError(
                    f"{self.kind}: {what}, but column {name!r} has only {size} {values} in the data "
                    "(missing counted as one); no class can have more"
                )


def _refuse_overlap(kind: str, columns: Sequence[str], sensitive: Sequence[str]) -> None:
    both = sorted(set(columns) & set(sensitive))
    if both:
        raise PlanError(
            f"{kind}: {both[0]!r} is both a quasi-identifier and sensitive here; a class would know its own secret. "
            "Name `columns` without it"
        )


def complete_rows(data: Dataset, columns: Sequence[str]) -> Bools:
    """Tell which records have a value in every column."""
    present = np.ones(len(data), dtype=np.bool_)
    for name in columns:
        codes = data.codes(name)
        present &= codes.codes != codes.missing
    return present


def sensitive_domain(data: Dataset, column: str) -> tuple[SensitiveDomain, Ints]:
    """Number the values of a sensitive column in their order (numbers, dates, declared order, else text).

    Gives the domain and the value of each record. A missing value is a value of its own, the last.
    """

    def make() -> tuple[SensitiveDomain, Ints]:
        codes = data.codes(column)
        occurring = np.flatnonzero(codes.first_rows >= 0)
        used = _in_order(data, column, codes, occurring[occurring != codes.missing])
        if codes.missing >= 0:
            used = np.append(used, codes.missing)
        number = np.zeros(codes.size, dtype=np.int64)
        number[used] = np.arange(len(used))
        records = number[codes.codes]
        totals = add_counts(records, data.counts, len(used))
        return SensitiveDomain(column, totals, _parents(data, column, codes, used)), records

    return data.cached(("sensitive-domain", column), make)


def _in_order(data: Dataset, column: str, codes: ColumnCodes, present: Ints) -> Ints:
    """Sort codes by what they stand for."""
    import polars as pl

    declared = {text: place for place, text in enumerate(data.schema[column].order)}
    kind = codes.series.dtype
    if declared or kind.is_nested() or kind == pl.Boolean:
        texts = {code: canonical(codes.values[code]) for code in present.tolist()}
        return np.array(
            sorted(texts, key=lambda code: (declared.get(texts[code], len(declared)), texts[code])), dtype=np.int64
        )
    values = codes.series.gather(codes.first_rows[present])
    if kind == pl.Enum:
        values = values.to_physical()
    elif not (kind.is_numeric() or kind.is_temporal()):
        values = values.cast(pl.String)
    return np.asarray(present[values.arg_sort().to_numpy()])


def _parents(data: Dataset, column: str, codes: ColumnCodes, used: Ints) -> tuple[Ints, ...]:
    """Number the labels of the values at each level; a missing value is a branch of its own below the top."""
    if data.schema[column].hierarchy is None:
        return ()
    texts = [canonical(codes.values[code]) for code in used.tolist() if code != codes.missing]
    levels = data.hierarchy(column)
    if any(text not in levels.leaf_index for text in texts):
        return ()
    found = []
    for level in range(1, levels.height + 1):
        labels = np.unique(np.array(levels.labels(texts, level)), return_inverse=True)[1].astype(np.int64)
        if codes.missing >= 0:
            top = level == levels.height and labels.max(initial=0) == 0
            labels = np.append(labels, 0 if top else labels.max(initial=-1) + 1)
        found.append(labels)
    return tuple(found)


def sensitive_counts(data: Dataset, column: str, classes: Classes, rows: Ints | None = None) -> SensitiveCounts:
    """Count the values of a sensitive column in each class of some rows. Time O(n), or O(n log n) with many values."""
    domain, records = sensitive_domain(data, column)
    weights = data.counts
    if rows is not None:
        records, weights = records[rows], None if weights is None else weights[rows]
    keys = classes.ids * domain.size + records
    possible = len(classes) * domain.size
    if possible <= max(4 * len(keys), 1 << 16):
        everything = add_counts(keys, weights, possible)
        found = np.flatnonzero(everything)
        counts = everything[found]
    else:
        found, places = np.unique(keys, return_inverse=True)
        counts = add_counts(places, weights, len(found))
    owner, value = np.divmod(found, domain.size)
    starts = np.searchsorted(owner, np.arange(len(classes) + 1)).astype(np.int64)
    return SensitiveCounts(domain, starts, value, counts)


def list_failing(data: Dataset, columns: tuple[str, ...], classes: Classes, failing: Bools) -> tuple[FailingClass, ...]:
    """List failing classes by key and size, smallest first."""
    chosen = np.flatnonzero(failing)
    chosen = chosen[np.argsort(classes.counts[chosen], kind="stable")[:SHOWN]]
    return tuple(FailingClass(data.class_key(columns, classes.first_rows[i]), float(classes.counts[i])) for i in chosen)


_EXACT = 2**62
_WORK = 1_000_000
"""Values × sizes that are tried to find the smallest class that can stand."""


def make_test(
    kind: int,
    domain: SensitiveDomain,
    *,
    levels: Sequence[Ints] = (),
    totals: Sequence[Ints] = (),
    shares: Floats | None = None,
    high: ArrayLike = np.inf,
    low: ArrayLike = 0.0,
    bound: float = 0.0,
    part: float = 1.0,
    need: int = 0,
) -> ClassTest | None:
    """Put a test together: items are the values, and the labels of further levels with their totals.

    None where the counts are too large for whole numbers in 64 bits.
    """
    n, m = domain.records, domain.size
    groups, records = [np.arange(m)], [domain.totals]
    for level, own in zip(levels, totals, strict=True):
        groups.append(level + sum(map(len, records)))
        records.append(own)
    if kind == ORDERED:
        records = [np.cumsum(domain.totals)]
        groups = [np.cumsum(records[0])]
    if n * n * max(len(groups), m if kind == ORDERED else 1) >= _EXACT:
        return None
    everybody = np.concatenate(records)
    of_items = everybody / n if shares is None else shares
    above, below = (np.ascontiguousarray(np.broadcast_to(np.asarray(x, float), m)) for x in (high, low))
    return ClassTest(kind, np.array(groups, np.int64), everybody, of_items, above, below, n, bound, part, need)


def smallest_standing(test: ClassTest) -> int:
    """Give a size below which no class can stand: the shares asked for cannot be met by so few whole records."""
    size, m = max(test.need, 1), test.groups.shape[1]
    if test.kind not in (TRANSPORT, ORDERED, SHARES):
        return size
    while size * m <= _WORK and size < test.records and not _possible(test, size):
        size += 1
    return size


def _possible(test: ClassTest, size: int) -> bool:
    if test.kind == SHARES:
        caps = test.high * test.shares * size
        return bool(np.floor(np.minimum(caps, size) + 1e-9).sum() >= size)
    if test.kind == ORDERED:
        caps = test.totals[:-1] / test.records * size
        away = np.abs(caps - np.round(caps)).sum()
        return bool(len(caps) * size - away >= test.part * size - 1e-9)
    met = 0.0
    for level in test.groups:
        caps = test.totals[np.unique(level)] / test.records * size
        whole = np.floor(caps + 1e-9)
        rest = size - int(whole.sum())
        met += whole.sum() + np.maximum(np.sort(caps - whole)[::-1][:rest], 0.0).sum()
    return bool(met >= test.part * size - 1e-9)
