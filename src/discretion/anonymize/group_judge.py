"""Which groups of records the privacy models let stand, for searches that build groups rather than choose levels."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.judge import common_columns, sensitive_columns
from discretion.data.dataset import Dataset
from discretion.data.households import count_units, unit_codes
from discretion.errors import DataError, Infeasible, PlanError
from discretion.kernels.arrays import Bools, Ints
from discretion.privacy.class_table import ClassModel, ClassTable, SensitiveCounts, sensitive_domain
from discretion.privacy.k_anonymity import KAnonymity


class GroupJudge:
    """Models, made ready to judge any grouping of the records of a data set.

    A missing value counts as a category of its own. Models about the whole table (average risk) cannot guide the
    building of single groups; they are checked when the groups are there.
    """

    def __init__(
        self, data: Dataset, columns: Sequence[str], k: int | None, models: Sequence[ClassModel], kind: str
    ) -> None:
        found = [*models, *([KAnonymity(k=k)] if k else [])]
        if outside := [model for model in found if model.population_name is not None]:
            raise PlanError(
                f"{kind}: {outside[0].kind!r} compares with a population, which groups of records do not divide; "
                "use optimal-generalization"
            )
        self.kind = kind
        self.columns = data.choose(common_columns(found, columns), "classes")
        self.k = max([1, *(model.smallest_class for model in found)])
        self._found = found
        self._units = unit_codes(data) if any(model.counts_units for model in found) else ()
        by_class = [model for model in found if type(model).suppress is ClassModel.suppress]
        self._local = [model for model in by_class if self._units or type(model) is not KAnonymity]
        self._whole = [m for m in found if type(m).suppress is not ClassModel.suppress]
        self._n = len(data)
        self._sensitive = {name: sensitive_domain(data, name) for name in sensitive_columns(found, data, self.columns)}
        if self.k > len(data):
            raise DataError(f"{kind}: groups of k = {self.k} cannot be made of {len(data)} records")

    @property
    def by_size(self) -> bool:
        """Whether the size of a group is all that counts while groups are built."""
        return not self._local

    def table(self, groups: NDArray[np.integer[Any]], count: int, rows: Ints | None = None) -> ClassTable:
        """Build what the models look at, from the group of each record (or of some rows)."""
        from discretion.kernels.rollup import sensitive_triples

        ids = groups.astype(np.int32)
        sizes = np.bincount(ids, minlength=count).astype(np.int64)
        ones = np.ones(len(ids), np.int64)
        sensitive = {}
        for name, (domain, values) in self._sensitive.items():
            own = values if rows is None else values[rows]
            sensitive[name] = SensitiveCounts(domain, *sensitive_triples(ids, own, ones, count, domain.size))
        units = count_units([of if rows is None else of[rows] for of in self._units], ids, count)
        return ClassTable(sizes, MappingProxyType(sensitive), units=units)

    def failing(self, table: ClassTable) -> Bools:
        """Tell which groups are too small or break a model."""
        result = np.asarray(table.sizes < self.k)
        for model in self._local:
            result = result | model.failing(table)
        return result

    def refuse_impossible(self) -> None:
        """Raise if the models do not even hold when all records are one group."""
        table = self.table(np.zeros(self._n, np.int32), 1)
        for model in self._found:
            model.refuse_impossible(table)
            if model.suppress(table, np.zeros(1, np.bool_)).any():
                raise Infeasible(
                    f"{self.kind}: {model.kind} does not hold even when all {self._n} records are one group "
                    f"(reached {model.reached(table):.4g}, required {model.required:g}); relax it"
                )

    def stands_alone(self, data: Dataset, groups: NDArray[np.integer[Any]], kept: Ints) -> bool:
        """Tell whether the models hold for the records kept by themselves, without what the others add to the totals.

        Some models compare a group with the whole table, which is another one when records were dropped.
        """
        if len(kept) == len(data) or self.by_size:
            return True
        rest = GroupJudge(data.take(kept), self.columns, None, self._found, self.kind)
        _, number = np.unique(groups[kept], return_inverse=True)
        return not rest.failing(rest.table(number, int(number.max()) + 1)).any()

    def confirm(self, groups: NDArray[np.integer[Any]], count: int, rows: Ints | None = None) -> None:
        """Check all models once more on the groups that were built, also those about the whole table."""
        table = self.table(groups, count, rows)
        if self.failing(table).any():
            raise Infeasible(f"{self.kind}: no grouping was found in which every group satisfies the models")
        for model in self._whole:
            if model.failing(table).any():
                raise Infeasible(
                    f"{self.kind}: {model.kind} is about all groups together and does not hold for those found "
                    f"(reached {model.reached(table):.4g}, required {model.required:g}); ask for a larger k"
                )
