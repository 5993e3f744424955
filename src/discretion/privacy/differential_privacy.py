"""Differential privacy as a budget: ε, δ and what neighboring data sets are (M4)."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from pydantic import Field

from discretion.errors import PlanError
from discretion.part import Part

Adjacency = Literal["add-remove", "replace"]


class DifferentialPrivacy(Part):
    """What all answers together may tell about any one person, at most.

    Guarantees, for an answer that is drawn under it: whatever is said, it would have been said with nearly the same
    probability (a factor of at most e^ε, but for δ) had any one person been absent (`add-remove`) or had other values
    (`replace`). It is a property of how an answer is drawn, not of the answer: no file can be checked for it, so this
    is a budget and not a model with a verdict. Does not protect what is true of many people together, nor people who
    share more rows than the contribution bound. Budgets of several answers add up: `a + b`; of answers about disjoint
    people the larger one counts: `a | b`.

    References
    ----------
    Dwork, McSherry, Nissim & Smith (2006); Dwork & Roth (2014); catalogue M4.

    Examples
    --------
    >>> import discretion as dc
    >>> count, mean = dc.DifferentialPrivacy(epsilon=0.1), dc.DifferentialPrivacy(epsilon=0.2, delta=1e-6)
    >>> (count + mean).epsilon, (count | mean).epsilon
    (0.3, 0.2)
    """

    epsilon: float = Field(gt=0)
    """largest factor, as a logarithm, by which one person can change the probability of any answer"""
    delta: float = Field(0.0, ge=0, lt=1)
    """probability that the factor is exceeded; far below one over the number of people"""
    adjacency: Adjacency = "add-remove"
    """neighboring data sets differ by one person's presence, or by one person's values"""

    def __add__(self, other: DifferentialPrivacy) -> DifferentialPrivacy:
        """Put answers about the same people one after the other: ε and δ add (sequential composition)."""
        self._same(other)
        return self._of(_exact(self.epsilon) + _exact(other.epsilon), _exact(self.delta) + _exact(other.delta))

    def __or__(self, other: DifferentialPrivacy) -> DifferentialPrivacy:
        """Put answers about disjoint people side by side: the larger ε and δ count (parallel composition).

        For `replace` they add: a person whose values change may leave one part and enter the other.
        """
        self._same(other)
        if self.adjacency == "replace":
            return self + other
        return self._of(max(_exact(self.epsilon), _exact(other.epsilon)), max(_exact(self.delta), _exact(other.delta)))

    def covers(self, other: DifferentialPrivacy) -> bool:
        """Tell whether what the other promises is enough for this."""
        self._same(other)
        return other.epsilon <= self.epsilon and other.delta <= self.delta

    def laplace_scale(self, sensitivity: float) -> float:
        """Give the scale of Laplace noise for a figure of this global sensitivity: GS/ε."""
        if not sensitivity > 0:
            raise PlanError("a global sensitivity is positive")
        return sensitivity / self.epsilon

    def _same(self, other: DifferentialPrivacy) -> None:
        if not isinstance(other, DifferentialPrivacy):
            raise PlanError("a privacy budget is put together with another one")
        if self.adjacency != other.adjacency:
            raise PlanError(f"budgets for {self.adjacency} and {other.adjacency} cannot be put together")

    def _of(self, epsilon: Fraction, delta: Fraction) -> DifferentialPrivacy:
        if delta >= 1:
            raise PlanError("together δ reaches 1: nothing is promised any more")
        return DifferentialPrivacy(epsilon=float(epsilon), delta=float(delta), adjacency=self.adjacency)


def _exact(value: float) -> Fraction:
    return Fraction(repr(value))
