"""Synthesis by a tree for each column given those before it (P23, P24)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import PlanError
from discretion.method import Decision
from discretion.part import Columns
from discretion.protect.synthetic.generator import ModelGenerator, Sampler
from discretion.protect.synthetic.sequence import InTurn, Learning, Model, learn
from discretion.protect.synthetic.trees import Growth
from discretion.protect.synthetic.variables import Variable

if TYPE_CHECKING:
    import polars as pl


class SequentialTrees(ModelGenerator, kind="sequential-trees"):
    """Draw rows column by column, each from a tree that was fitted on the columns before it.

    A row goes down the tree of a column to a leaf and gets the value of one of the people there. Trees are pruned: a
    branch must gain `pruning` times what a split on pure noise gains. This keeps relations that hold for many and loses
    those of a few, which are the people; the size of leaves alone does not protect (with 5 and no pruning every fifth
    person of a census stands in the file). Numbers are never somebody's own: they are moved by up to `smoothing` people
    in the sorted column and interpolated between different values; only a value that ten people share is drawn as such
    (people, not rows, where a unit, household or repeated identifier tells them). Extremes are coded (`extremes`).
    Missing values, and which
    there are, are drawn first; dates are days; sets are drawn item by item. A column with one value, or with none,
    is reproduced: it says nothing about anybody. Where a column has the role household, heads are drawn first, then
    the members given the head; who is no head depends on the head only.

    Guarantees that nobody's row or number is copied on purpose; a row that many share may appear, as it would for
    people outside the data. Does not give anonymity: whether people can be found or recognized as members is measured
    by attacks with people outside the data (`replicated-uniques`, `closest-record`, `disco`, `inference-risk`,
    `linkability`, `singling-out`). Relations the trees do not see (high interactions, totals that must add up, order
    in time) are lost. Time O(p²·n·log n), fitted on at most 100,000 rows.

    References
    ----------
    Reiter (2005), Using CART to generate partially synthetic public use microdata, JOS 21(3); Nowok, Raab & Dibben
    (2016), synthpop, JSS 74(11); catalogue P23, P24.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1).drop(["household"])
    >>> synthetic = dc.SequentialTrees()(people, seed=7)
    >>> len(synthetic), synthetic.has_new_rows
    (1000, True)
    >>> partly = dc.SequentialTrees(columns=["income"])(people, seed=7)
    >>> bool((partly.frame["age"] == people.frame["age"]).all())
    True
    """

    order: Columns = ()
    """columns to draw first, in this order; the others follow: numbers early, nominal columns of many levels last"""
    min_leaf: int = Field(5, ge=1)
    """smallest number of people in a leaf"""
    pruning: float = Field(3.0, ge=0)
    """what a branch must gain, in units of a split on noise; 0: unpruned, which copies people"""
    smoothing: float = Field(10.0, gt=0)
    """people in the sorted column by which a number is moved at most; up to 0.5 % of all hardly changes moments"""
    min_support: int = Field(3, ge=1)
    """fewest people that have a category for it to be drawn at all: a rule of detail, not of protection"""

    keeps_households: ClassVar[bool] = True
    guarantee: ClassVar[str] = (
        "Values were drawn from a model of the data, column by column; no number is anybody's own. Synthetic data is "
        "not anonymous by itself: what attacks find is reported."
    )

    def learn(self, targets: Sequence[Variable], given: Sequence[Variable], ctx: Context) -> dict[str, Any]:
        """Fit a tree for each column given the kept ones and those before it."""
        models = list(learn(self.in_order(targets), given, True, self.how, ctx))
        return {"models": [model.to_plain() for model in models], "facts": {"leaves": _leaves(models)}}

    def sampler(self, model: Mapping[str, Any]) -> Sampler:
        """Read the trees."""
        return InTurn.of(model["models"])

    @property
    def how(self) -> Learning:
        """How columns are learned."""
        return Learning(
            Growth(self.min_leaf, self.pruning), self.smoothing, self.min_support, self.kind, self.extremes == "keep"
        )

    def in_order(self, targets: Sequence[Variable]) -> list[Variable]:
        """Put the variables into the order in which they are drawn."""
        names = {variable.column for variable in targets}
        if strange := [name for name in self.order if name not in names]:
            raise PlanError(f"{self.kind}: order: {strange[0]!r} is not among the columns that are drawn")
        first = {name: place for place, name in enumerate(self.order)}
        return sorted(targets, key=lambda v: (first.get(v.column, len(first)), 0 if v.column in first else v.weight))

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Learn the columns, or households: heads first, then members given the head."""
        if self.makes_rows and data.having("household"):
            from discretion.protect.synthetic.households import fit_households

            return fit_households(self, data, ctx)
        return super().fit(data, ctx)

    def new_rows(self, data: Dataset, decision: Decision, rows: int, ctx: Context) -> pl.DataFrame:
        """Draw rows, or households."""
        if "households" in decision["model"]:
            from discretion.protect.synthetic.households import draw_households

            return draw_households(self, data, decision, rows, ctx)
        return super().new_rows(data, decision, rows, ctx)


def _leaves(models: Sequence[Model]) -> dict[str, int]:
    trees = {model.key: getattr(model, "tree", None) or getattr(model, "rest", None) for model in models}
    return {key: 1 if tree is None else tree.leaves for key, tree in trees.items()}
