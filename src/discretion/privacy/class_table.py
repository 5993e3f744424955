"""What privacy models look at: equivalence classes with the counts of sensitive values in each.

The same table is built from a data set (`class_table`) and from a node of a generalization lattice, so that a model is
written once and serves as a check, as a requirement and inside a search.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.codes import Classes
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, PlanError
from discretion.model import FailingClass, PrivacyModel, Verdict
from discretion.part import Columns

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

SHOWN = 100
"""Failing classes that a verdict lists."""


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

    @property
    def distribution(self) -> Floats:
        """The share of each value in the whole table."""
        return np.asarray(self.totals / self.totals.sum())


@dataclass(frozen=True)
class SensitiveCounts:
    """How often each value occurs in each class, as triples sorted by class, then value; zero counts are left out."""

    domain: SensitiveDomain
    starts: Ints
    """triples of class i stand at starts[i] … starts[i+1]−1"""
    values: Ints
    counts: Ints

    @property
    def class_of(self) -> Ints:
        """The class of each triple."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


@dataclass(frozen=True)
class ClassTable:
    """Equivalence classes: their sizes, sensitive values, and sizes in the population where one is given."""

    sizes: Ints
    sensitive: Mapping[str, SensitiveCounts] = field(default_factory=lambda: MappingProxyType({}))
    population: Mapping[str, Ints] = field(default_factory=lambda: MappingProxyType({}))
    """records of each population (by its name, see `ClassModel.population_name`) in each class"""

    def __len__(self) -> int:
        return len(self.sizes)


class ClassModel(PrivacyModel):
    """A privacy model that looks at equivalence classes only."""

    columns: Columns = ()
    """columns an intruder may know; without it, the quasi-identifiers"""
    missing: Literal["category", "ignore"] = "category"
    """how a missing quasi-identifier counts: as a category of its own, or by leaving its record out"""

    monotone: ClassVar[bool] = False
    """Further generalization never makes a record fail that did not fail before, whatever the others do."""

    @abstractmethod
    def failing(self, table: ClassTable) -> Bools:
        """Tell which classes break the model."""

    @abstractmethod
    def reached(self, table: ClassTable) -> float:
        """Give the value reached by the classes of the table (the worst class decides)."""

    @property
    @abstractmethod
    def required(self) -> float:
        """The value that must be reached."""

    @property
    def smallest_class(self) -> int:
        """The size below which a class certainly fails; guides searches."""
        return 1

    def sensitive_columns(self, data: Dataset) -> tuple[str, ...]:  # noqa: ARG002
        """Name the sensitive columns the model looks at."""
        return ()

    def suppress(self, table: ClassTable, gone: Bools) -> Bools:
        """Give the classes that a search suppresses so that the rest satisfies the model; `gone` are out already."""
        return gone | self.failing(table)

    def check(self, released: Dataset, ctx: Context, *, original: Dataset | None = None) -> Verdict:  # noqa: ARG002
        """Count the classes and judge each."""
        columns = released.choose(self.columns, "classes")
        sensitive = self.sensitive_columns(released)
        _refuse_overlap(self.kind, columns, sensitive)
        rows = complete_rows(released, columns) if self.missing == "ignore" else None
        data = released if rows is None else released.take(rows)
        if not len(data):
            raise DataError(f"{self.kind}: every record has a missing quasi-identifier; nothing is left to count")
        classes = data.classes(columns)
        table = self.table(data, columns, classes, sensitive)
        failing = self.failing(table)
        return Verdict(
            model=self.kind,
            holds=not failing.any(),
            value=self.reached(table),
            required=self.required,
            meaning=self.meaning(table),
            failing_count=int(failing.sum()),
            failing_records=int(table.sizes[failing].sum()),
            detail={"columns": list(columns), "sensitive": list(sensitive), "missing": self.missing},
            find_failing=lambda: list_failing(data, columns, classes, failing),
        )

    def table(
        self,
        data: Dataset,
        columns: tuple[str, ...],  # noqa: ARG002 - models with a population need them
        classes: Classes,
        sensitive: tuple[str, ...],
    ) -> ClassTable:
        """Build the table of a data set; models with a population add it here."""
        counts = {name: sensitive_counts(data, name, classes) for name in sensitive}
        return ClassTable(classes.counts, MappingProxyType(counts))

    def meaning(self, table: ClassTable) -> str:
        """Say what was reached in one sentence."""
        return f"{self.summary().rstrip('.')}: reached {self.reached(table):.4g}, required {self.required:g}."


class SensitiveModel(ClassModel):
    """A class model about the values of sensitive columns in each class."""

    sensitive: Columns = ()
    """sensitive columns; without it, the columns whose role is `sensitive`"""

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

    def _looked_at(self, table: ClassTable) -> Sequence[str]:
        return [name for name in table.sensitive if not self.sensitive or name in self.sensitive]

    @abstractmethod
    def failing_for(self, counts: SensitiveCounts, sizes: Ints) -> Bools:
        """Tell which classes fail for one sensitive column."""


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
        values = codes.values
        order = _in_order(data, column, values)
        used = [code for code in order if codes.first_rows[code] >= 0]
        if codes.missing >= 0:
            used.append(codes.missing)
        number = np.zeros(codes.size, dtype=np.int64)
        number[used] = np.arange(len(used))
        records = number[codes.codes]
        totals = np.bincount(records, minlength=len(used)).astype(np.int64)
        texts = [None if code == codes.missing else canonical(values[code]) for code in used]
        return SensitiveDomain(column, totals, _parents(data, column, texts)), records

    return data.cached(("sensitive-domain", column), make)


def _in_order(data: Dataset, column: str, values: list[Any]) -> list[int]:
    present = [code for code, value in enumerate(values) if value is not None]
    declared = {text: place for place, text in enumerate(data.schema[column].order)}
    if declared:
        return sorted(
            present, key=lambda code: (declared.get(canonical(values[code]), len(declared)), str(values[code]))
        )
    if data.is_numeric(column) or data.type_of(column) == "date":
        return sorted(present, key=lambda code: values[code])
    return sorted(present, key=lambda code: str(values[code]))


def _parents(data: Dataset, column: str, texts: list[str | None]) -> tuple[Ints, ...]:
    if data.schema[column].hierarchy is None or any(text is None for text in texts):
        return ()
    known = [text for text in texts if text is not None]
    levels = data.hierarchy(column)
    if any(text not in levels.leaf_index for text in known):
        return ()
    return tuple(
        np.unique(np.array(levels.labels(known, level)), return_inverse=True)[1].astype(np.int64)
        for level in range(1, levels.height + 1)
    )


def sensitive_counts(data: Dataset, column: str, classes: Classes) -> SensitiveCounts:
    """Count the values of a sensitive column in each class. Time O(n)."""
    from discretion.kernels.classes import class_ids

    domain, records = sensitive_domain(data, column)
    pairs = class_ids([classes.ids, records], [len(classes), domain.size], len(data))
    owner, value = classes.ids[pairs.first_row], records[pairs.first_row]
    order = np.lexsort((value, owner))
    starts = np.searchsorted(owner[order], np.arange(len(classes) + 1))
    return SensitiveCounts(domain, starts.astype(np.int64), value[order], pairs.counts[order])


def list_failing(data: Dataset, columns: tuple[str, ...], classes: Classes, failing: Bools) -> tuple[FailingClass, ...]:
    """List failing classes by key and size, smallest first."""
    chosen = np.flatnonzero(failing)
    chosen = chosen[np.argsort(classes.counts[chosen], kind="stable")[:SHOWN]]
    return tuple(FailingClass(data.class_key(columns, classes.first_rows[i]), float(classes.counts[i])) for i in chosen)
