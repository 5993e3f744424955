"""Local recoding: each small class of records gets its own levels of the hierarchies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.group_fields import GroupsRecords
from discretion.anonymize.group_judge import GroupJudge
from discretion.anonymize.value_trees import CellLoss, ValueTree, value_tree
from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.method import Decision, Purpose
from discretion.protect.recode import require_true

if TYPE_CHECKING:
    from discretion.anonymize.local_search import Clustering


class LocalRecoding(GroupsRecords, kind="local-recoding"):
    """Generalize each record only as far as the few records most like it require, by the hierarchies.

    Records are gathered in clusters of at least k (and such that every other model holds); each cluster is published
    with the lowest labels that its members have in common, so that the same value may stand at different levels in
    different records. This loses much less than one level per column for all (`optimal-generalization`). Nothing false
    is said, only less.

    Guarantees k-anonymity over `columns`, missing as a category of its own, and the other models in every cluster. Does
    not protect against attribute disclosure unless a model asks for it. A column without a hierarchy keeps its value or
    has the cell suppressed. Missing values stay missing; a value that must share a cluster with missing ones, or with
    values under no common label, is suppressed. With `suppression_limit`, records are dropped that cost the others more
    than they are worth (the loss of a dropped record is that of the highest labels in every column); none is where
    the models would not hold for the rest by itself.

    The search walks the lattice of levels from the least loss upwards, makes a cluster of every class that is large
    enough, divides what is left top-down, and then dissolves clusters and moves records between them as long as
    that loses less. Equal records stay together, and the order of the records does not matter. Time about linear in the
    distinct records, with a few hundred visits each; memory linear. `Dataset.levels` holds the level of each cell.

    What a cell loses, times the importance of its column, is added up: `loss`: (leaves below its label − 1) /
    (leaves − 1); `precision-loss`: level / height; `height`: the level; `entropy`: log2(records below its label /
    records with its value) bits. The other losses of `optimal-generalization` look at whole classes, which all have
    about k records here. A suppressed cell counts as the highest label.

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

    loss: CellLoss = "loss"
    """what is made small, of the losses that add up over the cells"""

    by_group: ClassVar[bool] = True
    perturbs: ClassVar[bool] = False
    purpose: ClassVar[Purpose] = "blur groups"
    effect: ClassVar[str] = (
        "Estimates for the broader categories are exact; finer ones cannot be made, and category midpoints in place "
        "of numbers bias variances and slopes."
    )
    guarantee: ClassVar[str] = (
        "Values were replaced by broader categories, in each record only as far as a small group of similar records "
        "requires, so that no record can be told from the others of its group by these columns."
    )

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Search the clusters, and publish what each has in common."""
        data.require(self.columns)
        judge = GroupJudge(data, self.columns, self.k, self.models, self.kind)
        judge.refuse_impossible()
        weights = self._weights(judge.columns)
        for name in judge.columns:
            if data.schema[name].hierarchy is not None:  # any record may be published at any level
                require_true(data, name, range(1, data.hierarchy(name).height + 1), self.kind)
        trees = [value_tree(data, name, self.loss) for name in judge.columns]
        order = np.argsort(
            [-weight * tree.first_loss for weight, tree in zip(weights, trees, strict=True)], kind="stable"
        )
        trees, weights = [trees[j] for j in order], weights[order]  # the costliest rules most out
        found, kept = self._search(data, trees, weights, judge, ctx)
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

    def _search(
        self,
        data: Dataset,
        trees: list[ValueTree],
        weights: NDArray[np.float64],
        judge: GroupJudge,
        ctx: Context,
    ) -> tuple[Clustering, NDArray[np.int64]]:
        """Find the clusters and the records kept; all are, where the models do not hold for the rest by itself."""
        from discretion.anonymize.local_search import LocalSearch

        for allowed in (self._allowed(len(data)), 0):
            found = LocalSearch(trees, weights, judge, allowed, ctx.progress).run()
            kept = np.flatnonzero(found.of >= 0)
            if judge.stands_alone(data, found.of, kept):
                break
        judge.confirm(found.of[kept], len(found.boxes), kept)
        return found, kept


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
