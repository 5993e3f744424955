"""The search for item levels under which every small combination of items is frequent (k^m-anonymity)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discretion.anonymize.value_trees import number_labels
from discretion.context import Context
from discretion.data.hierarchy import Levels
from discretion.errors import Infeasible
from discretion.privacy.km_anonymity import ItemSets, count_combinations

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_GONE = -1


@dataclass(frozen=True)
class ItemRecoding:
    """What the search found: the label and level of each item (None: suppressed), and what is lost."""

    labels: Mapping[str, str | None]
    levels: Mapping[str, int | None]
    loss: float
    """mean over all items of all records of (leaves below the label − 1) / (leaves − 1); 1 for a suppressed item"""
    suppressed: int
    """items of records that are suppressed"""


class ItemSearch:
    """Raises items along their hierarchy until every combination of at most m items stands in k records.

    Combinations are looked at by size, the small ones first (Apriori). In each round the rare combinations are counted,
    and labels are raised that free most of them for the least loss, until each has been touched; where the labels of
    all that are left may be suppressed and lose less, they are. Then the combinations are counted anew. A label is
    raised with everything below its parent, so that an item has one label in all records.
    """

    def __init__(self, sets: ItemSets, levels: Levels, k: int, m: int, limit: float, ctx: Context) -> None:
        self.sets, self.k, self.m, self.ctx = sets, k, m, ctx
        table = number_labels([list(level) for level in levels.table], 0)
        self.labels, self.levels = table.labels, np.array(table.levels)
        self.parents = np.array(table.parents)
        below = np.array(
            [levels.leaves_under(level)[label] for level, label in zip(table.levels, table.labels, strict=True)]
        )
        self.losses = (below - 1) / max(levels.size - 1, 1)
        leaf = {label: number for number, label in enumerate(table.labels[: table.counts[0]])}
        levels.rows(sets.items)  # names the items that it lacks
        self.nodes = np.array([leaf[item] for item in sets.items], np.int64)
        self.occurrences = np.bincount(sets.numbers, minlength=len(sets.items)).astype(np.int64)
        self.allowed = int(limit * len(sets.numbers) + 1e-9)
        self._record = np.repeat(np.arange(len(sets.starts) - 1), np.diff(sets.starts))

    def run(self) -> ItemRecoding:
        """Search, and give the label of each item."""
        for size in range(1, self.m + 1):
            while len(rare := self._rare(size)):
                self.ctx.progress(size - 1, self.m, f"{self.ctx.step}: combinations of {size}")
                self._free(rare)
        self.ctx.progress(self.m, self.m, self.ctx.step)
        names = self.sets.items
        gone = self.nodes == _GONE
        loss = np.where(gone, 1.0, self.losses[self.nodes])
        return ItemRecoding(
            {name: None if node == _GONE else self.labels[node] for name, node in zip(names, self.nodes, strict=True)},
            {
                name: None if node == _GONE else int(self.levels[node])
                for name, node in zip(names, self.nodes, strict=True)
            },
            float(np.average(loss, weights=self.occurrences)),
            int(self.occurrences[gone].sum()),
        )

    def _rare(self, size: int) -> Ints:
        """Give the rare combinations of at most a size: a row of nodes each, −1 where it is shorter."""
        nodes = self.nodes[self.sets.numbers]
        kept = nodes != _GONE
        if not kept.any():
            return np.empty((0, size), np.int64)
        pairs = np.unique(np.column_stack([self._record[kept], nodes[kept]]), axis=0)
        starts = np.searchsorted(pairs[:, 0], np.arange(len(self.sets.starts)))
        now = ItemSets(starts.astype(np.int64), np.ascontiguousarray(pairs[:, 1]), self.labels)
        rows = []
        for found in count_combinations(now, size, Context(0, self.ctx.step, self.ctx.progress)):
            few = found.items[found.support < self.k]
            rows.append(np.pad(few, ((0, 0), (0, size - few.shape[1])), constant_values=_GONE))
        return np.concatenate(rows)

    def _free(self, rare: Ints) -> None:
        """Raise labels until every rare combination has been touched; suppress them all where that loses less."""
        while len(rare):
            raised, cost = self._best_raise(rare)
            dropped, other = self._suppression(rare)
            if raised < 0 and not dropped:
                raise Infeasible(self._reason(rare))
            if dropped and other < cost:
                for node in dropped:
                    below = self.nodes == node
                    self.allowed -= int(self.occurrences[below].sum())
                    self.nodes[below] = _GONE
                return
            below = self._below(raised)
            touched = np.isin(rare, np.append(self.nodes[below], raised))
            self.nodes[below] = raised
            rare = rare[~(touched & (rare != _GONE)).any(axis=1)]

    def _best_raise(self, rare: Ints) -> tuple[int, float]:
        """Find the label to raise to that frees most combinations per loss, and its loss."""
        above = np.where(rare == _GONE, _GONE, self.parents[rare])
        best, ratio, least = -1, 0.0, np.inf
        for node in np.unique(above[above >= 0]).tolist():
            below = self._below(node)
            cost = float((self.occurrences[below] * (self.losses[node] - self.losses[self.nodes[below]])).sum())
            gain = float((above == node).any(axis=1).sum()) / max(cost, 1e-12)
            if gain > ratio:
                best, ratio, least = node, gain, cost
        return best, least

    def _suppression(self, rare: Ints) -> tuple[list[int], float]:
        """Choose labels whose suppression frees all the combinations, and give its loss; none if it is not allowed."""
        chosen: list[int] = []
        cost, allowed = 0.0, self.allowed
        counts = {node: int(self.occurrences[self.nodes == node].sum()) for node in np.unique(rare[rare >= 0]).tolist()}
        while len(rare):
            named, frees = np.unique(rare[rare >= 0], return_counts=True)
            ratios = [free / counts[node] for node, free in zip(named.tolist(), frees.tolist(), strict=True)]
            node = int(named[int(np.argmax(ratios))])
            allowed -= counts[node]
            if allowed < 0:
                return [], np.inf
            cost += counts[node] * (1.0 - float(self.losses[node]))
            chosen.append(node)
            rare = rare[~(rare == node).any(axis=1)]
        return chosen, cost

    def _below(self, node: int) -> Bools:
        """Tell which items would be raised to a node."""
        at = self.nodes.copy()
        result = at == node
        for _ in range(int(self.levels.max())):
            at = np.where(at == _GONE, _GONE, self.parents[at])
            result |= at == node
        return np.asarray(result & (self.nodes != _GONE))

    def _reason(self, rare: Ints) -> str:
        needed = int(self.occurrences[np.isin(self.nodes, rare[rare >= 0])].sum())
        share = needed / len(self.sets.numbers)
        return (
            f"{self.ctx.step}: {len(rare)} combinations of the highest labels stand in fewer than k = {self.k} "
            f"records; a hierarchy with a common top, or a suppression limit of about {share:.2g}, would allow it"
        )
