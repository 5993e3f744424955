"""k-anonymity together with a condition on the secrets of each class: (α, k) and p-sensitive (M9)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Bools, Ints
from discretion.kernels.classes import DISTINCT, SHARES, ClassTest
from discretion.part import confidential
from discretion.privacy.class_table import (
    TOLERANCE,
    ClassTable,
    Count,
    SensitiveCounts,
    SensitiveDomain,
    SensitiveModel,
)
from discretion.privacy.class_tests import make_test


class _WithClassSize(SensitiveModel):
    """A model about sensitive values that also asks for classes of at least k records."""

    k: int = confidential(ge=1)
    """smallest allowed class size"""
    count: Count = "units"
    """what k counts: different households (or other units) where the schema declares them, or records"""

    def failing(self, table: ClassTable) -> Bools:
        """A class fails when it is too small or fails for a sensitive column."""
        return super().failing(table) | (table.counted(self.count) < self.k)

    def details(self, table: ClassTable) -> dict[str, Any]:
        """Add the size of the smallest class."""
        return {**super().details(table), "k": int(table.counted(self.count).min())}

    def meaning(self, table: ClassTable) -> str:
        """Say what was reached in one sentence, the class size included."""
        smallest = int(table.counted(self.count).min())
        return f"{super().meaning(table).removesuffix('.')}; smallest class {smallest}, required {self.k}."


class AlphaK(_WithClassSize, kind="alpha-k"):
    """Every class has at least k records, and no sensitive value makes up more than a share α of it.

    Guarantees k-anonymity, and that whoever finds a person's class infers the secret with probability at most α. All
    values of the sensitive columns are bounded (the general form of the model). Does not protect against values that
    are close in meaning, nor against a class that differs from everybody. Data in which one value has a share above α
    in all cannot satisfy it, however much it is generalized.

    The value reported is the largest share; the smallest class stands in the detail. A missing sensitive value counts
    as a value of its own. Time linear.

    References
    ----------
    Wong, Li, Fu & Wang (2006), KDD; catalogue M9.

    Examples
    --------
    >>> import discretion as dc
    >>> round(dc.AlphaK(alpha=0.7, k=3)(dc.datasets.diverse_classes()).value, 4)
    0.6667
    """

    alpha: float = confidential(gt=0, le=1)
    """largest allowed share of a sensitive value in a class"""

    better: ClassVar[Literal["higher", "lower"]] = "lower"
    monotone: ClassVar[bool] = False  # merging with a class full of a value raises that value's share
    monotone_without_suppression: ClassVar[bool] = True  # each share of a mixture lies between those of its parts

    @property
    def required(self) -> float:
        """The largest allowed share."""
        return self.alpha

    @property
    def smallest_class(self) -> int:
        """In a class of fewer than 1/α records a single one has a share above α."""
        return max(self.k, math.ceil(1 / self.alpha - 1e-9))

    def values_for(self, counts: SensitiveCounts, sizes: Ints) -> NDArray[Any]:
        """Give the share of the most frequent value."""
        return np.asarray(counts.per_class(np.maximum, counts.counts) / np.maximum(sizes, 1))

    def class_test(self, domain: SensitiveDomain) -> ClassTest | None:
        """Bound every share."""
        return make_test(SHARES, domain, shares=np.ones(domain.size), high=self.alpha + TOLERANCE)

    def refuse_impossible(self, table: ClassTable) -> None:
        """With few values one of them has a large share."""
        self.refuse_fewer_values(table, 1 / self.alpha, f"a share of at most {self.alpha:g} needs {1 / self.alpha:.4g}")


class PSensitive(_WithClassSize, kind="p-sensitive"):
    """Every class has at least k records and at least p different values of each sensitive column.

    Guarantees k-anonymity and distinct diversity together. Does not protect against probable inference (one value may
    dominate a class), nor against values that are close in meaning.

    The value reported is the smallest number of different values; the smallest class stands in the detail. A missing
    sensitive value counts as a value of its own. Time linear.

    References
    ----------
    Truta & Vinay (2006), ICDE Workshops; catalogue M9.

    Examples
    --------
    >>> import discretion as dc
    >>> dc.PSensitive(p=2, k=3)(dc.datasets.diverse_classes()).holds
    True
    """

    p: int = confidential(ge=1)
    """number of different sensitive values that every class must have"""

    monotone: ClassVar[bool] = True  # merging classes takes away neither records nor values
    monotone_without_suppression: ClassVar[bool] = True

    @property
    def required(self) -> float:
        """The number of values each class must have."""
        return self.p

    @property
    def smallest_class(self) -> int:
        """A class needs k records, and p for p values."""
        return max(self.k, self.p)

    def values_for(self, counts: SensitiveCounts, sizes: Ints) -> NDArray[Any]:  # noqa: ARG002
        """Count the different values."""
        return counts.distinct

    def class_test(self, domain: SensitiveDomain) -> ClassTest | None:
        """Ask for p values."""
        return make_test(DISTINCT, domain, need=self.p)

    def refuse_impossible(self, table: ClassTable) -> None:
        """A column must have p values in all."""
        self.refuse_fewer_values(table, self.p, f"p is {self.p}")
