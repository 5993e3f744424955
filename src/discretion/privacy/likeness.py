"""β-likeness and δ-disclosure privacy: no secret becomes much more probable by knowing the class (M9)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.kernels.classes import SHARES, ClassTest
from discretion.part import confidential
from discretion.privacy.class_table import TOLERANCE, ClassTable, SensitiveCounts, SensitiveDomain, SensitiveModel
from discretion.privacy.class_tests import make_test


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

    better: ClassVar[Literal["higher", "lower"]] = "lower"
    monotone: ClassVar[bool] = False  # merging with a class full of a value raises that value's share
    monotone_without_suppression: ClassVar[bool] = True  # each share of a mixture lies between those of its parts

    @property
    def required(self) -> float:
        """The largest allowed gain."""
        return self.beta

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

    better: ClassVar[Literal["higher", "lower"]] = "lower"
    monotone: ClassVar[bool] = False  # merging with a class full of a value moves all shares

    @property
    def monotone_without_suppression(self) -> bool:  # type: ignore[override]
        """The shares of a mixture lie between those of its parts, unless a part may lack the value."""
        return self.absent == "fail"

    @property
    def required(self) -> float:
        """The bound that the logarithm must stay below."""
        return self.delta

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
