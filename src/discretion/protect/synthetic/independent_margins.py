"""Columns drawn independently of each other: the baseline every synthesis must beat (P23)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from discretion.context import Context
from discretion.protect.synthetic.generator import ModelGenerator, Sampler
from discretion.protect.synthetic.sequence import InTurn, Learning, learn
from discretion.protect.synthetic.trees import Growth
from discretion.protect.synthetic.variables import Variable


class IndependentMargins(ModelGenerator, kind="independent-margins"):
    """Draw every column from its own distribution, independently of all others.

    The honest baseline: what a file tells when it tells nothing about how columns hang together. Each column's
    distribution is kept (numbers are smoothed by up to `smoothing` people in the sorted column, values that ten
    people share and missing ones are drawn as such), every relation is lost.
    With `by`, relations with these columns are
    kept. Guarantees that no combination of values stems from a person, unless chance makes it. Does not hide that a
    rare category exists in the data, except below `min_support`. Time linear.

    References
    ----------
    Nowok, Raab & Dibben (2016), synthpop, JSS 74(11), method "sample"; catalogue P23, P24.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> len(dc.IndependentMargins(rows=500)(people.drop(["household"]), seed=7))
    500
    """

    smoothing: float = Field(10.0, gt=0)
    """people in the sorted column by which a number is moved at most"""
    min_support: int = Field(3, ge=1)
    """fewest people that have a category for it to be drawn at all"""

    guarantee: ClassVar[str] = (
        "Columns were drawn independently of each other: their distributions are kept, relations between them are not."
    )

    def learn(self, targets: Sequence[Variable], given: Sequence[Variable], ctx: Context) -> dict[str, Any]:
        """Learn each column's distribution."""
        how = Learning(Growth(1, 0.0), self.smoothing, self.min_support, self.kind, self.extremes == "keep")
        return {"models": [model.to_plain() for model in learn(targets, given, False, how, ctx)]}

    def sampler(self, model: Mapping[str, Any]) -> Sampler:
        """Read the distributions."""
        return InTurn.of(model["models"])
