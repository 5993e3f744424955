"""Local recoding: each small class of records gets its own levels of the hierarchies."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discretion.anonymize.group_judge import GroupJudge
from discretion.anonymize.value_trees import ValueTree, value_tree
from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import PlanError
from discretion.method import Decision
from discretion.part import FrozenMapping
from discretion.protect.class_models import ReachesModels


class LocalRecoding(ReachesModels, kind="local-recoding"):
    """Generalize each record only as far as the few records most like it require, by the hierarchies.

    Records are gathered in clusters of at least k (and such that every other model holds); each cluster is published
    with the lowest labels that its members have in common, so that the same value may stand at different levels in
    different records. This loses much less than one level per column for all (`optimal-generalization`). Nothing false
    is said, only less.

    Guarantees k-anonymity over `columns`, missing as a category of its own, and the other models in every cluster. Does
    not protect against attribute disclosure unless a model asks for it. A column without a hierarchy keeps its value or
    has the cell suppressed. Missing values stay missing; a value that must share a cluster with missing ones, or with
    values under no common label, is suppressed. With `suppression_limit`, records are dropped that cost the others more
    than they are worth (the loss of a dropped record is that of the highest labels in every column).

    The search walks the lattice of levels from the least loss upwards, makes a cluster of every class that is large
    enough, divides what is left top-down, and then dissolves clusters and moves records between them as long as
    that loses less. Equal records stay together, and the order of the records does not matter. The loss of a cell is
    (leaves below its label − 1) / (leaves − 1). Time about linear in the distinct records, with a few hundred visits
    each; memory linear. `Dataset.levels` holds the level of each cell.

    References
    ----------
    Xu, Wang, Pei, Wang, Shi & Fu (2006), Utility-based anonymization using local recoding, KDD; Gionis, Goldberger &
    Tassa; catalogue P3, M1.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> quasi = ["age", "sex", "region"]
    >>> released = dc.LocalRecoding(columns=quasi, k=5)(people)
    >>> dc.KAnonymity(k=5, columns=quasi)(released).holds, len(released)
    (True, 1000)
    """

    suppression_limit: float = Field(0.0, ge=0, le=1)
    """largest share of the records that may be dropped"""
    importance: FrozenMapping[str, float] = Field(default_factory=lambda: MappingProxyType({}))
    """weight of each column's loss; columns not named weigh 1"""

    by_group: ClassVar[bool] = True
    perturbs: ClassVar[bool] = False
    guarantee: ClassVar[str] = (
        "Values were replaced by broader categories, in each record only as far as a small group of similar records "
        "requires, so that no record can be told from the others of its group by these columns."
    )

    @model_validator(mode="after")
    def _weights_not_negative(self) -> Self:
        if any(weight < 0 for weight in self.importance.values()):
            raise ValueError("importance cannot be negative")
        return self

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Search the clusters, and publish what each has in common."""
        from discretion.anonymize.local_search import LocalSearch

        data.require(self.columns)
        judge = GroupJudge(data, self.columns, self.k, self.models, self.kind)
        judge.refuse_impossible()
        weights = self._weights(judge.columns)
        trees = [value_tree(data, name) for name in judge.columns]
        order = np.argsort(
            [-weight * tree.first_loss for weight, tree in zip(weights, trees, strict=True)], kind="stable"
        )
        trees, weights = [trees[j] for j in order], weights[order]  # the costliest rules most out
        allowed = math.floor(self.suppression_limit * len(data) + 1e-9)
        found = LocalSearch(trees, weights, judge, allowed, ctx.progress).run()
        kept = np.flatnonzero(found.of >= 0)
        judge.confirm(found.of[kept], len(found.boxes), kept)
        if len(kept) < len(data):
            data = data.take(kept, suppressed=True)
        values: dict[str, Any] = {}
        hidden: dict[str, NDArray[np.bool_]] = {}
        levels: dict[str, NDArray[np.int64]] = {}
        for j, tree in enumerate(trees):
            nodes = found.boxes[found.of[kept], j]
            values[tree.column], mask = _published(data, tree, nodes, tree.records[kept])
            if mask.any():
                hidden[tree.column] = mask
            if data.origin.schema[tree.column].hierarchy is not None:
                levels[tree.column] = tree.levels[nodes]
        return data.with_columns(values, levels=levels, suppressed=hidden)

    def _weights(self, columns: tuple[str, ...]) -> NDArray[np.float64]:
        if unknown := [name for name in self.importance if name not in columns]:
            raise PlanError(f"importance: {unknown[0]!r} is not among the columns")
        weights = np.array([self.importance.get(name, 1.0) for name in columns])
        if not weights.max() > 0:
            raise PlanError("importance: at least one column must have a weight above 0")
        return weights


def _published(
    data: Dataset, tree: ValueTree, nodes: NDArray[np.int32], leaves: NDArray[np.int32]
) -> tuple[Any, NDArray[np.bool_]]:
    """Give the labels of a column, and which cells are suppressed; a column that no label changes keeps its type."""
    import polars as pl

    hidden = (nodes == tree.hidden) & (leaves != tree.missing)
    if (hidden | (nodes == leaves) | (nodes == tree.hidden)).all():
        return data.frame[tree.column], hidden
    labels = pl.Series(tree.column, tree.labels, dtype=pl.String)
    return labels.gather(nodes), hidden
