"""l-diversity: the records of a class do not all share the same secret (M2)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.kernels.classes import DISTINCT, ENTROPY, RECURSIVE, ClassTest
from discretion.part import confidential
from discretion.privacy.class_table import TOLERANCE, ClassTable, SensitiveCounts, SensitiveDomain, SensitiveModel
from discretion.privacy.class_tests import make_test


class DistinctLDiversity(SensitiveModel, kind="distinct-l-diversity"):
    """Every class of records that look the same holds at least l different values of each sensitive column.

    Guarantees that an intruder who finds a person's class cannot be certain of the secret: l values remain. Does not
    protect against probable inference (one value may make up 99 % of a class), nor against values that differ in name
    only (10,000 and 10,001; two kinds of cancer): see entropy l-diversity and t-closeness. Does not bound the class
    size beyond l.

    A missing sensitive value counts as a value of its own. Several sensitive columns must all hold; the value reported
    is the smallest number of values, per column in the detail. Time linear in the records.

    References
    ----------
    Machanavajjhala, Kifer, Gehrke & Venkitasubramaniam (2007), ACM TKDD 1(1); catalogue M2.

    Examples
    --------
    >>> import discretion as dc
    >>> dc.DistinctLDiversity(l=2)(dc.datasets.diverse_classes()).holds
    True
    >>> dc.DistinctLDiversity(l=2)(dc.datasets.homogeneous_classes()).value
    1.0
    """

    l: int = confidential(ge=1)  # noqa: E741 - the letter of the literature
    """number of different sensitive values that every class must have"""

    monotone: ClassVar[bool] = True  # merging classes never takes a value away
    monotone_without_suppression: ClassVar[bool] = True

    @property
    def required(self) -> float:
        """The number of values each class must have."""
        return self.l

    @property
    def smallest_class(self) -> int:
        """A class of fewer than l records cannot have l values."""
        return self.l

    def values_for(self, counts: SensitiveCounts, sizes: Ints) -> NDArray[Any]:  # noqa: ARG002
        """Count the different values."""
        return counts.distinct

    def class_test(self, domain: SensitiveDomain) -> ClassTest | None:
        """Ask for l values."""
        return make_test(DISTINCT, domain, need=self.l)

    def refuse_impossible(self, table: ClassTable) -> None:
        """A column must have l values in all."""
        self.refuse_fewer_values(table, self.l, f"l is {self.l}")


class EntropyLDiversity(SensitiveModel, kind="entropy-l-diversity"):
    """The sensitive values of every class are as mixed as l equally frequent values would be.

    Each class must have an entropy of at least log l; the value reported is the exponential of the smallest entropy,
    the "effective number" of values, so that it compares with l directly. Stronger than l different values: a class
    where one value dominates fails. Does not protect against values that are close in meaning, nor against a class
    whose distribution differs from that of everybody (t-closeness does). No data whose whole distribution is skewed can
    satisfy it for a large l, however much it is generalized.

    Equality counts as satisfied up to rounding (1e-12). A missing sensitive value counts as a value of its own. Time
    linear in the records.

    References
    ----------
    Machanavajjhala et al. (2007), ACM TKDD 1(1); catalogue M2.

    Examples
    --------
    >>> import discretion as dc
    >>> round(dc.EntropyLDiversity(l=1.8)(dc.datasets.diverse_classes()).value, 4)
    1.8899
    """

    l: float = confidential(ge=1)  # noqa: E741
    """effective number of different sensitive values (exponential of the entropy) that every class must have"""

    monotone: ClassVar[bool] = False  # a class with one value only pulls down what it is merged with
    monotone_without_suppression: ClassVar[bool] = True  # entropy is concave: a mixture has at least the smaller one

    @property
    def required(self) -> float:
        """The effective number of values each class must have."""
        return self.l

    @property
    def smallest_class(self) -> int:
        """The entropy of n records is at most log n."""
        return math.ceil(self.l - 1e-9)

    def values_for(self, counts: SensitiveCounts, sizes: Ints) -> NDArray[Any]:
        """Give the effective number of values."""
        return np.asarray(np.exp(_entropy(counts, sizes)))

    def failing_for(self, counts: SensitiveCounts, sizes: Ints) -> Bools:
        """Compare entropies with log l."""
        return np.asarray(_entropy(counts, sizes) < math.log(self.l) - TOLERANCE)

    def class_test(self, domain: SensitiveDomain) -> ClassTest | None:
        """Compare entropies with log l."""
        return make_test(ENTROPY, domain, bound=math.log(self.l) - TOLERANCE)

    def refuse_impossible(self, table: ClassTable) -> None:
        """A column must have l values in all."""
        self.refuse_fewer_values(table, self.l, f"l is {self.l:g}")

    def details(self, table: ClassTable) -> dict[str, Any]:
        """Add the smallest entropy in bits."""
        return {**super().details(table), "entropy_bits": math.log2(self.reached(table))}


def _entropy(counts: SensitiveCounts, sizes: Ints) -> Floats:
    shares = counts.shares(sizes)
    return np.asarray(-counts.per_class(np.add, shares * np.log(shares)))


class EstimatedEntropyLDiversity(SensitiveModel, kind="estimated-entropy-l-diversity"):
    """The sensitive values of every class come from people as mixed as l equally frequent values would be.

    As entropy l-diversity, but the entropy of a class is estimated for the people its records are drawn from instead of
    computed from the shares in the class: Grassberger's estimate ln n − Σ f·G(f)/n over the counts f of n records, with
    G(f) = ψ(f) + ½(−1)^f·(ψ((f+1)/2) − ψ(f/2)). Shares of few records understate the entropy, so that this model lets
    smaller classes stand. Use it where the data is a sample and the intruder does not know who is in it; otherwise
    `EntropyLDiversity` is the safe choice: this one may call a class mixed in which only one value occurs. The value
    reported is the exponential of the smallest estimate.

    Equality counts as satisfied up to rounding (1e-12). A missing sensitive value counts as a value of its own. Time
    linear in the records.

    References
    ----------
    Grassberger (2003), Entropy estimates from insufficient samplings; Machanavajjhala et al. (2007), ACM TKDD 1(1);
    catalogue M2.

    Examples
    --------
    >>> import discretion as dc
    >>> round(dc.EstimatedEntropyLDiversity(l=1.8)(dc.datasets.diverse_classes()).value, 4) > 1.8899
    True
    """

    l: float = confidential(ge=1)  # noqa: E741
    """effective number of different sensitive values (exponential of the entropy) that every class must have"""

    monotone: ClassVar[bool] = False
    monotone_without_suppression: ClassVar[bool] = False  # an estimate may fall when classes are merged

    @property
    def required(self) -> float:
        """The effective number of values each class must have."""
        return self.l

    @property
    def smallest_class(self) -> int:
        """The estimate for n records is at most ln n − G(1), that of n different values."""
        return max(1, math.ceil(self.l * math.exp(_grassberger(np.ones(1, np.int64))[0]) - 1e-9))

    def values_for(self, counts: SensitiveCounts, sizes: Ints) -> NDArray[Any]:
        """Give the effective number of values."""
        weighed = counts.per_class(np.add, counts.counts * _grassberger(counts.counts))
        return np.asarray(sizes * np.exp(-weighed / sizes))


def _grassberger(f: Ints) -> Floats:
    """Give G(f), which stands in for ln f."""
    from scipy.special import digamma

    sign = np.where(f % 2 == 0, 0.5, -0.5)
    return np.asarray(digamma(f) + sign * (digamma((f + 1) / 2) - digamma(f / 2)))


class RecursiveLDiversity(SensitiveModel, kind="recursive-l-diversity"):
    """In every class the most frequent sensitive value is not much more frequent than the rarer ones together.

    With the counts of a class in descending order r1 ≥ r2 ≥ … ≥ rm, (c, l)-diversity asks for m ≥ l and
    r1 < c·(rl + … + rm): even an intruder who can rule out l−2 values is left in doubt. The value reported is the
    largest r1/(rl + … + rm), which must stay below c; it is infinite where a class has fewer than l values. Does not
    protect against values that are close in meaning, nor against a class that differs from everybody.

    A missing sensitive value counts as a value of its own. Time O(n log n).

    References
    ----------
    Machanavajjhala et al. (2007), ACM TKDD 1(1); catalogue M2 (with the index of the source put right).

    Examples
    --------
    >>> import discretion as dc
    >>> table = dc.datasets.diverse_classes()
    >>> dc.RecursiveLDiversity(c=3, l=2)(table).holds, dc.RecursiveLDiversity(c=2, l=2)(table).holds
    (True, False)
    """

    c: float = confidential(gt=0)
    """the most frequent value must be rarer than c times the l-th and all rarer ones together"""
    l: int = confidential(ge=1)  # noqa: E741
    """number of different sensitive values that every class must have"""

    better: ClassVar[Literal["higher", "lower"]] = "lower"
    monotone: ClassVar[bool] = False  # a class with one value only can spoil the ratio of what it is merged with
    monotone_without_suppression: ClassVar[bool] = True  # r1 grows by at most the sum of both, the tail by at least it

    @property
    def required(self) -> float:
        """The bound that the ratio must stay below."""
        return self.c

    @property
    def smallest_class(self) -> int:
        """A class of fewer than l records cannot have l values."""
        return self.l

    def values_for(self, counts: SensitiveCounts, sizes: Ints) -> NDArray[Any]:
        """Give r1 / (rl + … + rm), infinite where the class has fewer than l values."""
        first, tail = self._first_and_tail(counts, sizes)
        with np.errstate(divide="ignore"):
            return np.asarray(first / tail)

    def failing_for(self, counts: SensitiveCounts, sizes: Ints) -> Bools:
        """The inequality is strict, so that meeting it up to rounding is not enough."""
        first, tail = self._first_and_tail(counts, sizes)
        return np.asarray(first >= self.c * tail * (1 - TOLERANCE))

    def _first_and_tail(self, counts: SensitiveCounts, sizes: Ints) -> tuple[Ints, Ints]:
        first = counts.per_class(np.maximum, counts.counts)
        if self.l == 1:
            return first, sizes
        mask = (1 << int(counts.counts.max(initial=1)).bit_length()) - 1
        keys = np.sort((counts.class_of << mask.bit_length()) | (mask - counts.counts))
        running = np.concatenate([[0], np.cumsum(mask - (keys & mask))])
        ends = counts.starts[1:]
        return first, np.asarray(running[ends] - running[np.minimum(counts.starts[:-1] + self.l - 1, ends)])

    def class_test(self, domain: SensitiveDomain) -> ClassTest | None:
        """Compare the most frequent value with the tail."""
        return make_test(RECURSIVE, domain, bound=self.c, part=1 - TOLERANCE, need=self.l)

    def refuse_impossible(self, table: ClassTable) -> None:
        """A column must have l values in all."""
        self.refuse_fewer_values(table, self.l, f"l is {self.l}")
