"""What a class may tell about secrets: l-diversity (M2), (α, k), p-sensitive, β-likeness and δ-disclosure (M9)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.kernels.classes import DISTINCT, ENTROPY, RECURSIVE, SHARES, ClassTest
from discretion.part import confidential
from discretion.privacy.class_table import (
    TOLERANCE,
    ClassTable,
    Count,
    SensitiveCounts,
    SensitiveDomain,
    SensitiveModel,
    make_test,
)


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

    bound: ClassVar[str] = "alpha"
    better: ClassVar[Literal["higher", "lower"]] = "lower"
    monotone: ClassVar[bool] = False  # merging with a class full of a value raises that value's share
    monotone_without_suppression: ClassVar[bool] = True  # each share of a mixture lies between those of its parts

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

    bound: ClassVar[str] = "p"
    monotone: ClassVar[bool] = True  # merging classes takes away neither records nor values
    monotone_without_suppression: ClassVar[bool] = True

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


def _ratios(counts: SensitiveCounts, sizes: Ints) -> Floats:
    """Give Q/P of each triple: the share of its value in its class over the share in the whole table."""
    return np.asarray(counts.shares(sizes) / counts.domain.distribution[counts.values])


class BetaLikeness(SensitiveModel, kind="beta-likeness"):
    """No sensitive value is much more frequent in a class than in the whole table, relative to its frequency there.

    With P the share of a value in the table and Q its share in a class, (Q−P)/P must be at most β. With `enhanced` it
    must also be at most −ln P, so that frequent values, for which a relative bound says nothing, are bounded too.
    Unlike t-closeness it protects rare values. Guarantees a bound on how much the probability of each secret grows.
    Does not bound how much it falls (a value may be ruled out: δ-disclosure), nor identification.

    The value reported is the largest gain (Q−P)/P; with `enhanced`, the largest share of its own bound that a gain
    takes up, times β, so that it compares with β. A missing sensitive value counts as a value of its own. Time linear.

    References
    ----------
    Cao & Karras (2012), PVLDB 5(11); catalogue M9.

    Examples
    --------
    >>> import discretion as dc
    >>> dc.BetaLikeness(beta=1, enhanced=False)(dc.datasets.diverse_classes()).value
    1.0
    """

    beta: float = confidential(gt=0)
    """largest allowed relative gain of a value's share"""
    enhanced: bool = True
    """bound the gain also by −ln of the value's share in the table"""

    bound: ClassVar[str] = "beta"
    better: ClassVar[Literal["higher", "lower"]] = "lower"
    monotone: ClassVar[bool] = False  # merging with a class full of a value raises that value's share
    monotone_without_suppression: ClassVar[bool] = True  # each share of a mixture lies between those of its parts

    def values_for(self, counts: SensitiveCounts, sizes: Ints) -> NDArray[Any]:
        """Give the largest gain of each class."""
        gains = _ratios(counts, sizes) - 1
        if self.enhanced:
            surprise = -np.log(counts.domain.distribution)
            scale = self.beta / np.minimum(self.beta, np.maximum(surprise, np.finfo(np.float64).tiny))
            gains = np.where(surprise[counts.values] > 0, gains * scale[counts.values], 0.0)
        return np.asarray(np.maximum(counts.per_class(np.maximum, gains), 0.0))

    def class_test(self, domain: SensitiveDomain) -> ClassTest | None:
        """Bound the multiple of each share."""
        gain = np.full(domain.size, self.beta + TOLERANCE)
        if self.enhanced:
            surprise = -np.log(domain.distribution)
            gain *= np.where(surprise > 0, np.minimum(surprise / self.beta, 1.0), np.inf)
        return make_test(SHARES, domain, high=1 + gain)


class DeltaDisclosure(SensitiveModel, kind="delta-disclosure"):
    """No sensitive value is much more or much less frequent in a class than in the whole table.

    With P the share of a value in the table and Q its share in a class, |log2(Q/P)| must be below δ for every value of
    the table. A value that does not occur in a class can be ruled out for its members: by the definition that is a
    violation, and the value reported is infinite. ARX looks only at the values that occur; `absent="ignore"` does so
    too. Guarantees that knowing the class changes the odds of every secret by a bounded factor. It is very strict: with
    many values few data sets can satisfy it. Does not protect against identification.

    A missing sensitive value counts as a value of its own. Time linear.

    References
    ----------
    Brickell & Shmatikov (2008), KDD; catalogue M9.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> table = pl.DataFrame({"zip": ["1"] * 3 + ["2"] * 3, "ill": ["y", "y", "n", "y", "n", "n"]})
    >>> round(dc.DeltaDisclosure(delta=1, columns=["zip"], sensitive=["ill"])(table).value, 4)
    0.585
    """

    delta: float = confidential(gt=0)
    """bound that the absolute binary logarithm of the ratio of shares must stay below"""
    absent: Literal["fail", "ignore"] = "fail"
    """whether a value of the table that does not occur in a class breaks the model"""

    bound: ClassVar[str] = "delta"
    better: ClassVar[Literal["higher", "lower"]] = "lower"
    monotone: ClassVar[bool] = False  # merging with a class full of a value moves all shares

    @property
    def monotone_without_suppression(self) -> bool:  # type: ignore[override]
        """The shares of a mixture lie between those of its parts, unless a part may lack the value."""
        return self.absent == "fail"

    def values_for(self, counts: SensitiveCounts, sizes: Ints) -> NDArray[Any]:
        """Give the largest logarithm of each class; infinite where a value does not occur."""
        largest = counts.per_class(np.maximum, np.abs(np.log2(_ratios(counts, sizes))))
        if self.absent == "ignore":
            return largest
        return np.where((counts.distinct < counts.domain.size) & (sizes > 0), np.inf, largest)

    def failing_for(self, counts: SensitiveCounts, sizes: Ints) -> Bools:
        """The inequality is strict, so that meeting it up to rounding is not enough."""
        return np.asarray(self.values_for(counts, sizes) >= self.delta - TOLERANCE)

    def class_test(self, domain: SensitiveDomain) -> ClassTest | None:
        """Bound the multiple of each share from above and below."""
        most = 2.0 ** (self.delta - TOLERANCE)
        return make_test(SHARES, domain, high=most, low=1 / most, need=domain.size if self.absent == "fail" else 0)

    def details(self, table: ClassTable) -> dict[str, Any]:
        """Count the classes in which a value of the table does not occur."""
        lacking = {
            name: int((table.sensitive[name].distinct < table.sensitive[name].domain.size).sum())
            for name in self._looked_at(table)
        }
        return {**super().details(table), "classes_without_some_value": lacking}


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

    bound: ClassVar[str] = "l"
    monotone: ClassVar[bool] = True  # merging classes never takes a value away
    monotone_without_suppression: ClassVar[bool] = True

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

    bound: ClassVar[str] = "l"
    monotone: ClassVar[bool] = False  # a class with one value only pulls down what it is merged with
    monotone_without_suppression: ClassVar[bool] = True  # entropy is concave: a mixture has at least the smaller one

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

    bound: ClassVar[str] = "l"
    monotone: ClassVar[bool] = False
    monotone_without_suppression: ClassVar[bool] = False  # an estimate may fall when classes are merged

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

    bound: ClassVar[str] = "c"
    better: ClassVar[Literal["higher", "lower"]] = "lower"
    monotone: ClassVar[bool] = False  # a class with one value only can spoil the ratio of what it is merged with
    monotone_without_suppression: ClassVar[bool] = True  # r1 grows by at most the sum of both, the tail by at least it

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
