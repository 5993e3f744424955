"""Local recoding: each small class of records gets its own levels of the hierarchies."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.judge import GroupJudge, GroupsRecords
from discretion.anonymize.mondrian import divide
from discretion.anonymize.value_trees import CellLoss, ValueTree, value_tree
from discretion.context import Context, Progress
from discretion.data.dataset import Dataset
from discretion.errors import Infeasible
from discretion.kernels.arrays import Floats, Ints, Ints32
from discretion.kernels.classes import class_ids
from discretion.kernels.local import (
    Clusters,
    Trees,
    classes_of_node,
    dissolve_clusters,
    hide_piece,
    make_clusters,
    merge_clusters,
    move_pieces,
    ripe_classes,
    spare_gains,
)
from discretion.kernels.mondrian import SplitColumn, mondrian_groups
from discretion.method import Decision, Purpose
from discretion.protect.recode import require_true

_BATCH = 64
"""Nodes of the lattice between two reports of progress."""
_VISITS = 400
"""How often, on average, a piece may be looked at while the lattice is walked."""
_NODES = 50_000
"""Nodes of the lattice that are walked at most."""
_JUDGED_NODES = 20_000
"""Nodes that models other than k-anonymity are asked about."""
_BLOCK = 1024
"""Least number of clusters among which a record looks for a better place; blocks keep the time linear."""
_PAIRS = 150_000_000
"""Pairs of pieces and clusters up to which all clusters are one block."""
_PASSES = 4
_WORTHWHILE = 0.005
"""Share of the loss that a pass of improvement must gain for another one to follow."""


@dataclass(frozen=True)
class Pieces:
    """The distinct combinations of values, in an order that does not depend on that of the records."""

    leaves: Ints32
    """the leaf of each piece in each column"""
    counts: Ints
    of: Ints32
    """the piece of each record"""


@dataclass(frozen=True)
class Clustering:
    """What the search found: the cluster of each record (−1 for suppressed) and the node of each cluster's columns."""

    of: Ints32
    boxes: Ints32
    loss: float
    """mean loss of a cell, suppressed records counted as lost"""


def find_pieces(trees: Sequence[ValueTree]) -> Pieces:
    """Compress the records to distinct combinations. Time O(n·columns)."""
    n = len(trees[0].records)
    found = class_ids([tree.records for tree in trees], [len(tree.parents) for tree in trees], n)
    leaves = np.column_stack([tree.records[found.first_row] for tree in trees]).astype(np.int32)
    order = np.lexsort(leaves.T[::-1])
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return Pieces(np.ascontiguousarray(leaves[order]), found.counts[order], place[found.ids])


class LocalSearch:
    """One search: trees, pieces and judge."""

    def __init__(
        self, trees: Sequence[ValueTree], weights: Floats, judge: GroupJudge, allowed: int, progress: Progress
    ) -> None:
        self.trees, self.weights, self.judge = trees, weights, judge
        self.allowed, self.progress = allowed, progress
        self.pieces = find_pieces(trees)
        self.packed = _pack(trees, weights)
        self.price = float(sum(tree.losses[tree.hidden] * weight for tree, weight in zip(trees, weights, strict=True)))
        self._rows_in_order = np.argsort(self.pieces.of, kind="stable")
        self._row_starts = np.concatenate([[0], np.cumsum(self.pieces.counts)])

    def run(self) -> Clustering:
        """Search, and give the clusters."""
        owner, count = self._walk_lattice()
        owner, count = self._divide_rest(owner, count)
        state = make_clusters(self.packed, self.pieces.leaves, self.pieces.counts, owner, count)
        hidden = self._repair(state, self.allowed)
        if self.judge.by_size:
            state = self._improve(state)
            self._hide_costly(state, self.allowed - hidden)
            return self._result(state)
        found = self._result(state)
        state = self._improve(state)
        self._repair(state, self.allowed - hidden)  # the improvement looks at sizes only
        return min(found, self._result(state), key=lambda clustering: clustering.loss)

    # --- from the bottom up -----------------------------------------------------------------------------------

    def _walk_lattice(self) -> tuple[Ints32, int]:
        """Make clusters of the classes that satisfy the models, at the nodes with the least loss first."""
        pieces = self.pieces
        tables, places, losses = _step_tables(self.trees, self.weights, pieces)
        owner = np.full(len(pieces.counts), -1, np.int32)
        left = np.arange(len(pieces.counts), dtype=np.int32)
        count, visits, asked = 0, _VISITS * len(left) + 10_000_000, _JUDGED_NODES
        walked = 0
        for batch in _nodes_by_loss(losses, _BATCH if self.judge.by_size else 1):
            self.progress(len(owner) - len(left), len(owner), "local recoding: classes")
            visits -= len(left) * len(batch)
            walked += len(batch)
            if not len(left) or visits < 0 or asked == 0 or walked > _NODES:
                break
            if self.judge.by_size:
                remaining, count = ripe_classes(
                    pieces.leaves, pieces.counts, tables, places, batch, self.judge.k, left, owner, count
                )
                left = left[:remaining]
                continue
            number, sizes = classes_of_node(pieces.leaves, pieces.counts, tables, places, batch[0], left)
            if (large := sizes >= self.judge.k).any():
                asked -= 1
                left, count = self._take_ripe(left, number, large, owner, count)
        return owner, count

    def _take_ripe(
        self, left: Ints32, number: Ints32, large: NDArray[np.bool_], owner: Ints32, count: int
    ) -> tuple[Ints32, int]:
        """Ask the models about the classes that are large enough; those that satisfy them become clusters."""
        asked = large[number]
        dense = np.cumsum(large) - 1
        rows, of_piece = self._rows_of(left[asked])
        groups = dense[number[asked]][of_piece]
        failing = self.judge.failing(self.judge.table(groups, int(large.sum()), rows))
        ripe = np.zeros(len(large), np.bool_)
        ripe[large] = ~failing
        named = np.where(ripe, np.cumsum(ripe) - 1 + count, -1)
        owner[left] = named[number]
        return left[~ripe[number]], count + int(ripe.sum())

    def _rows_of(self, chosen: Ints32) -> tuple[Ints, Ints]:
        """Give the records of some pieces, and for each the place of its piece among them."""
        counts = self.pieces.counts[chosen]
        of_piece = np.repeat(np.arange(len(chosen)), counts)
        offset = np.arange(len(of_piece)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self._rows_in_order[self._row_starts[chosen][of_piece] + offset], of_piece

    # --- what is left -----------------------------------------------------------------------------------------

    def _divide_rest(self, owner: Ints32, count: int) -> tuple[Ints32, int]:
        """Divide the pieces that no class took: by Mondrian if they are many, else each on its own."""
        left = np.flatnonzero(owner < 0).astype(np.int32)
        if not len(left):
            return owner, count
        rows, of_piece = self._rows_of(left)
        if len(rows) >= 2 * self.judge.k:
            columns = [_split_column(tree, tree.records[rows]) for tree in self.trees]
            groups = divide(columns, self.judge, True, self.progress, rows)
            owner[left[of_piece]] = count + groups.of
            return owner, count + groups.count
        owner[left] = count + np.arange(len(left), dtype=np.int32)
        return owner, count + len(left)

    def _repair(self, state: Clusters, allowed: int) -> int:
        """Merge clusters that fail with their nearest, until none fails; give the number of records suppressed."""
        hidden = 0
        while True:
            groups = state.owner[self.pieces.of]
            kept = np.flatnonzero(groups >= 0)
            alive = state.sizes > 0
            number = np.cumsum(alive) - 1
            table = self.judge.table(number[groups[kept]], int(alive.sum()), kept)
            failing = np.zeros(len(alive), np.bool_)
            failing[alive] = self.judge.failing(table)
            if not failing.any():
                return hidden
            self.progress(int((alive & ~failing).sum()), int(alive.sum()), "local recoding: leftovers")
            before = int((state.sizes > 0).sum())
            hidden += merge_clusters(self.packed, state, failing, self.price, allowed - hidden)
            if int((state.sizes > 0).sum()) == before:
                raise Infeasible(
                    f"local-recoding: {int(state.sizes[failing].sum())} records satisfy the models with no others; "
                    "a larger suppression limit or weaker models would help"
                )

    # --- improvement ------------------------------------------------------------------------------------------

    def _improve(self, state: Clusters) -> Clusters:
        """Dissolve clusters and move pieces, within blocks of similar clusters, as long as it pays."""
        state, bounds = self._in_blocks(state)
        total = float((state.costs * state.sizes).sum())
        jobs = len(bounds) - 1
        by_block = np.argsort(np.searchsorted(bounds, state.owner, side="right"), kind="stable")
        ends = np.searchsorted(np.sort(state.owner), bounds)
        for number, (begin, end) in enumerate(pairwise(bounds)):
            pieces = by_block[ends[number] : ends[number + 1]]
            for turn in range(_PASSES):
                self.progress(number * _PASSES + turn, jobs * _PASSES, "local recoding: improvement")
                gained = dissolve_clusters(self.packed, state, begin, end)
                self.progress(number * _PASSES + turn, jobs * _PASSES, "local recoding: improvement")
                gained += move_pieces(self.packed, state, pieces, self.judge.k, begin, end)
                if gained <= _WORTHWHILE * total / jobs:
                    break
        return state

    def _in_blocks(self, state: Clusters) -> tuple[Clusters, list[int]]:
        """Number the clusters anew so that similar ones stand together; give the bounds of the blocks."""
        alive = np.flatnonzero(state.sizes > 0)
        if len(alive) < 2 * _BLOCK or len(alive) * len(self.pieces.counts) <= _PAIRS:
            return state, [0, len(state.sizes)]
        first = [_split_column(tree, self.pieces.leaves[state.heads[alive], j]) for j, tree in enumerate(self.trees)]
        blocks = mondrian_groups(first, _BLOCK, True)
        order = alive[np.lexsort((alive, blocks))]
        place = np.full(len(state.sizes), -1, np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        owner = np.where(state.owner >= 0, place[state.owner], -1).astype(np.int32)
        new = make_clusters(self.packed, self.pieces.leaves, self.pieces.counts, owner, len(alive))
        return new, [0, *np.cumsum(np.bincount(blocks)).tolist()]

    def _hide_costly(self, state: Clusters, allowed: int) -> None:
        """Suppress the records that cost their cluster more than they are worth, the costliest first."""
        counts = self.pieces.counts
        while allowed > 0:
            self.progress(self.allowed - allowed, self.allowed, "local recoding: suppression")
            gains = spare_gains(self.packed, state, self.judge.k, self.price)
            order = np.argsort(-gains, kind="stable")
            order = order[gains[order] > 1e-9]
            _, first = np.unique(state.owner[order], return_index=True)  # the others of a cluster gain less after it
            fitting = [piece for piece in order[np.sort(first)].tolist() if counts[piece] <= allowed]
            if not fitting:
                return
            for piece in fitting:
                if counts[piece] <= allowed:
                    hide_piece(self.packed, state, piece)
                    allowed -= int(counts[piece])

    def _result(self, state: Clusters) -> Clustering:
        alive = np.flatnonzero(state.sizes > 0)
        place = np.full(len(state.sizes) + 1, -1, np.int32)
        place[alive] = np.arange(len(alive), dtype=np.int32)
        owner = place[state.owner]
        exact = make_clusters(self.packed, self.pieces.leaves, self.pieces.counts, owner, len(alive))
        n = len(self.pieces.of)
        lost = float((exact.costs * exact.sizes).sum()) + self.price * (n - int(exact.sizes.sum()))
        return Clustering(owner[self.pieces.of], exact.boxes, lost / (n * self.price))


def _pack(trees: Sequence[ValueTree], weights: Floats) -> Trees:
    """Put the trees one after another, with the leaves below each node and the weighted losses."""
    starts = np.cumsum([0, *(len(tree.parents) for tree in trees[:-1])])
    first, last = [], []
    for tree in trees:
        low, high = np.arange(len(tree.parents)), np.arange(len(tree.parents))
        for node in range(tree.missing):  # children have lower numbers than their parents
            if node >= tree.leaves and low[node] == node:
                continue
            above = tree.parents[node]
            low[above] = min(low[above], low[node])
            high[above] = low[above] if high[above] == above else high[above]
            high[above] = max(high[above], high[node])
        low[tree.hidden], high[tree.hidden] = 0, tree.hidden
        first.append(low)
        last.append(high)
    return Trees(
        starts.astype(np.int64),
        np.concatenate([tree.parents for tree in trees]).astype(np.int32),
        np.concatenate(first).astype(np.int32),
        np.concatenate(last).astype(np.int32),
        np.concatenate([tree.losses * weight for tree, weight in zip(trees, weights, strict=True)]),
    )


def _step_tables(
    trees: Sequence[ValueTree], weights: Floats, pieces: Pieces
) -> tuple[NDArray[np.uint64], Ints, list[Floats]]:
    """For each column and step a random number for the label of each leaf, where it stands, and the mean loss."""
    rng = np.random.default_rng(0)  # only tells labels apart
    tables, losses = [], []
    steps = [tree.ancestors() for tree in trees]
    places = np.zeros((len(trees), max(len(one) for one in steps)), np.int64)
    used = 0
    for j, (tree, above) in enumerate(zip(trees, steps, strict=True)):
        random = rng.integers(0, 2**64, len(tree.parents), dtype=np.uint64)
        means = []
        leaf = np.where(pieces.leaves[:, j] == tree.missing, tree.leaves, pieces.leaves[:, j])
        for step, nodes in enumerate(above):
            table = np.zeros(tree.missing + 1, np.uint64)
            table[: tree.leaves] = random[nodes[:-1]]
            table[tree.missing] = random[nodes[-1]]
            places[j, step] = used
            used += len(table)
            tables.append(table)
            means.append(float(np.average(tree.losses[nodes[leaf]], weights=pieces.counts)) * weights[j])
        losses.append(np.maximum.accumulate(means))
    return np.concatenate(tables), places, losses


def _nodes_by_loss(losses: Sequence[Floats], batch: int) -> Iterator[Ints32]:
    """Yield the nodes of the lattice in order of their loss (the sum over the columns), a batch at a time."""
    d = len(losses)
    start = (0,) * d
    waiting = [(float(sum(loss[0] for loss in losses)), start, 0)]
    ready: list[tuple[int, ...]] = []
    while waiting:
        total, node, from_column = heapq.heappop(waiting)
        ready.append(node)
        for j in range(from_column, d):
            step = node[j] + 1
            if step < len(losses[j]):
                above = (*node[:j], step, *node[j + 1 :])
                heapq.heappush(waiting, (total + float(losses[j][step] - losses[j][step - 1]), above, j))
        if len(ready) == batch or not waiting:
            yield np.array(ready, np.int32)
            ready = []


def _split_column(tree: ValueTree, records: Ints32) -> SplitColumn:
    """Let Mondrian divide records along a tree; missing values come first."""
    shift = int(tree.has_missing)
    codes = np.where(records == tree.missing, 0, records + shift)
    places = np.linspace(0, 1, tree.leaves)
    boundary = None
    if tree.missing > tree.leaves:
        boundary = np.concatenate([np.zeros(shift, np.uint8), tree.boundary])
    return SplitColumn(codes, np.concatenate([np.zeros(shift), places]), boundary, tree.has_missing)


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
