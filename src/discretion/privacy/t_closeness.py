"""t-closeness: the secrets of a class are distributed as those of everybody (M3)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import PlanError
from discretion.kernels.class_tests import ORDERED, TRANSPORT, ClassTest
from discretion.part import confidential
from discretion.privacy.class_table import TOLERANCE, Ints, SensitiveCounts, SensitiveDomain, SensitiveModel
from discretion.privacy.class_tests import make_test

Distance = Literal["ordered", "equal", "hierarchical"]


class TCloseness(SensitiveModel, kind="t-closeness"):
    """The sensitive values of every class are distributed almost as in the whole table.

    The earth mover's distance between the distribution of a class and that of everybody must be at most t. `ordered`:
    the values of the whole table stand in their order at equal distances (numbers, dates, a declared order); `equal`:
    any two values differ as much; `hierarchical`: two values differ by the level of their lowest common label in the
    column's hierarchy, over its height. All distances lie between 0 and 1.

    Guarantees that finding somebody's class tells little more about the secret than the table as a whole does. Does
    not protect against what the whole table tells, nor against identification: the class may be a single record when
    t is large (ask for k-anonymity too). A class can be close and still let a rare value be ruled out.

    A missing sensitive value counts as a value of its own, after all others and, in a hierarchy, right below the top.
    Exact in 64-bit whole numbers. Time O(n) or O(n log n), memory linear.

    References
    ----------
    Li, Li & Venkatasubramanian (2007), ICDE; catalogue M3.

    Examples
    --------
    >>> import discretion as dc
    >>> table = dc.datasets.diverse_classes()
    >>> round(dc.TCloseness(t=0.2, distance="ordered")(table).value, 4)
    0.3333
    >>> dc.TCloseness(t=0.5, distance="equal")(table).holds
    True
    """

    t: float = confidential(ge=0, le=1)
    """largest allowed distance between a class and the whole table"""
    distance: Distance = "ordered"
    """how far values are from each other: by their order, all the same, or by the column's hierarchy"""

    better: ClassVar[Literal["higher", "lower"]] = "lower"
    monotone: ClassVar[bool] = False  # merging with a distant class can carry a close one beyond t
    monotone_without_suppression: ClassVar[bool] = True  # the distance is convex: a mixture is at most as far as both

    @property
    def required(self) -> float:
        """The largest allowed distance."""
        return self.t

    def values_for(self, counts: SensitiveCounts, sizes: Ints) -> NDArray[Any]:
        """Give the distance of each class."""
        from discretion.privacy import transport

        if self.distance == "ordered":
            return transport.ordered_distance(counts, sizes)
        if self.distance == "equal":
            return transport.equal_distance(counts, sizes)
        self._require_tree(counts.domain)
        return transport.hierarchical_distance(counts, sizes)

    def class_test(self, domain: SensitiveDomain) -> ClassTest | None:
        """All labels below the top (the distance is what is above its share, over the levels), or all cuts."""
        bound = self.t + TOLERANCE
        if self.distance == "ordered":
            return make_test(ORDERED, domain, bound=bound, part=(domain.size - 1) * (1 - bound))
        levels: list[Ints] = []
        if self.distance == "hierarchical":
            self._require_tree(domain)
            levels = [np.unique(labels, return_inverse=True)[1] for labels in domain.parents[:-1]]
        totals = [np.bincount(level, domain.totals).astype(np.int64) for level in levels]
        part = (1 + len(levels)) * (1 - bound)
        return make_test(TRANSPORT, domain, levels=levels, totals=totals, bound=bound, part=part)

    def sensitive_columns(self, data: Dataset) -> tuple[str, ...]:
        """Give the sensitive columns, and refuse those that have no such distance."""
        columns = super().sensitive_columns(data)
        for name in columns:
            if self.distance == "ordered" and not _has_order(data, name):
                raise PlanError(
                    f"{self.kind}: the values of column {name!r} have no order; declare their `order`, "
                    "or use the distance `equal` or `hierarchical`"
                )
            if self.distance == "hierarchical":
                values = [canonical(value) for value in data.codes(name).values if value is not None]
                data.hierarchy(name).rows(values)  # names the values that the hierarchy lacks
        return columns

    def _require_tree(self, domain: SensitiveDomain) -> None:
        if not domain.parents:
            raise PlanError(f"{self.kind}: column {domain.column!r} has no hierarchy for all of its values")
        tops = len(np.unique(domain.parents[-1]))
        if tops > 1:
            raise PlanError(
                f"{self.kind}: the hierarchy of column {domain.column!r} ends in {tops} labels; "
                "the hierarchical distance needs a top level with one label for all values"
            )


def _has_order(data: Dataset, column: str) -> bool:
    return bool(data.schema[column].order) or data.type_of(column) in ("continuous", "ordinal", "date")
