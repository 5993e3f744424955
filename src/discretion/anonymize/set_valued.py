"""Generalization of set-valued columns: diagnoses, purchases, places visited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from discretion.anonymize.value_trees import number_labels
from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import Hierarchy, HierarchyLevels
from discretion.errors import DataError, DiscretionError, Infeasible, PlanError
from discretion.kernels.arrays import Bools, Ints
from discretion.method import Decision, Method, Purpose
from discretion.part import Columns, confidential, path_field
from discretion.privacy.km_anonymity import ItemSets, count_combinations, item_sets, set_column

if TYPE_CHECKING:
    import polars as pl

# The search for item levels under which every small combination of items is frequent (k^m-anonymity).

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

    def __init__(self, sets: ItemSets, levels: HierarchyLevels, k: int, m: int, limit: float, ctx: Context) -> None:
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


def _hierarchy(given: object) -> object:
    if given is None:
        return None
    try:
        return Hierarchy.of(given)
    except DiscretionError as error:
        raise ValueError(str(error)) from None


ItemHierarchy = Annotated[
    Any,
    BeforeValidator(_hierarchy),
    PlainSerializer(lambda hierarchy: None if hierarchy is None else hierarchy.to_plan()),
    WithJsonSchema({"description": "a file, rows of levels, or a rule such as {tree: {…}}"}),
]


class KmGeneralization(Method, kind="km-generalization"):
    """Replace the items of a set-valued column by broader ones until m known items fit at least k records.

    The column holds lists, or text with items between bars ("flu|cough"). Items are raised along a hierarchy, each to
    one label for all records, until every combination of at most m labels that occurs stands in at least k records
    (k^m-anonymity); items of a record that get the same label become one. Which labels to raise is chosen by Apriori
    anonymization: small combinations first, and those labels that free most rare combinations for the least loss.

    Guarantees k^m-anonymity of the column: whoever knows at most m items of a person is left with k records. Does not
    protect against somebody who knows more than m items, who knows other columns too, or who infers further items that
    all those records share. What cannot be fixed by generalization is suppressed within `suppression_limit`, as are
    rare items where that loses less; a record that loses all its items is marked as suppressed. Missing and empty sets
    stay. The decision holds the label and level of each item and the loss. Each round counts all combinations: time and
    memory follow their number.

    References
    ----------
    Terrovitis, Mamoulis & Kalnis (2008), Privacy-preserving anonymization of set-valued data, PVLDB 1(1); catalogue M9.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ills = pl.DataFrame({"ills": ["flu|burn", "cold|burn", "flu", "cold", "flu|cut", "cold|cut"]})
    >>> tree = {"tree": {"*": {"infection": ["flu", "cold"], "injury": ["burn", "cut"]}}}
    >>> dc.KmGeneralization(columns=["ills"], k=2, m=2, item_hierarchy=tree)(ills)["ills"].to_list()[:3]
    ['flu|injury', 'cold|injury', 'flu']
    """

    k: int = confidential(ge=1)
    """smallest allowed number of records with a combination of items"""
    m: int = Field(2, ge=1, le=8)
    """number of items that an intruder may know of a person"""
    columns: Columns = ()
    """the set-valued column; without it, the only quasi-identifier (or sensitive column) of type set"""
    item_hierarchy: ItemHierarchy = path_field(None)
    """hierarchy of the items: a file, rows of levels or a rule; without it, that of the column"""
    suppression_limit: float = Field(0.0, ge=0, le=1)
    """largest share of the items of all records that may be suppressed"""

    perturbs: ClassVar[bool] = False
    purpose: ClassVar[Purpose] = "blur groups"
    effect: ClassVar[str] = (
        "Estimates for the broader categories are exact; finer ones cannot be made, and category midpoints in place "
        "of numbers bias variances and slopes."
    )
    guarantee: ClassVar[str] = (
        "Items were replaced by broader ones, so that nobody who knows a few items of a person, and nothing else, can "
        "single out a record."
    )

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find the label of each item."""
        column = set_column(self.kind, data, self.columns)
        found = self.solve(data, ctx)
        return Decision(
            MappingProxyType(
                {
                    "column": column,
                    "labels": dict(found.labels),
                    "levels": dict(found.levels),
                    "loss": found.loss,
                    "suppressed": found.suppressed,
                }
            )
        )

    def solve(self, data: Dataset, ctx: Context | None = None) -> ItemRecoding:
        """Give the label and level chosen for each item, and the loss."""
        column = set_column(self.kind, data, self.columns)
        if not len(data):
            raise DataError(f"{self.kind}: the data has no rows; there is nothing to generalize")
        sets = item_sets(data, column)
        with_items = int((np.diff(sets.starts) > 0).sum())
        if with_items < self.k and self.suppression_limit < 1:
            raise DataError(
                f"{self.kind}: k = {self.k} is larger than the {with_items} records with items in {column!r}"
            )
        recipe = self.item_hierarchy or data.schema[column].hierarchy
        if recipe is None:
            raise PlanError(f"{self.kind}: the items of {column!r} need a hierarchy; give `item_hierarchy`")
        levels = recipe.bind(sets.items, column)
        context = ctx or Context(0, self.kind)
        return ItemSearch(sets, levels, self.k, self.m, self.suppression_limit, context).run()

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Replace the items, and merge those that became equal."""
        column = decision["column"]
        data.require([column])
        before = data.frame[column]
        made = _recoded(before, decision["labels"])
        gone = (made.is_null() & before.is_not_null()).to_numpy()
        return data.with_columns({column: made}, suppressed={column: gone} if gone.any() else None)


def _recoded(series: pl.Series, labels: dict[str, str | None]) -> pl.Series:
    """Replace the items of each set; a set that loses all its items becomes null, one that had none stays."""
    import polars as pl

    is_list = isinstance(series.dtype, pl.List | pl.Array)
    if isinstance(series.dtype, pl.Array):
        series = series.arr.to_list()
    lists = series.cast(pl.List(pl.String)) if is_list else series.cast(pl.String).str.split("|")
    table = pl.DataFrame({"record": np.arange(len(lists)), "item": lists}).explode("item").drop_nulls("item")
    table = table.with_columns(pl.col("item").str.strip_chars()).filter(pl.col("item") != "")
    items = table["item"].unique()
    if lacking := sorted(set(items.to_list()) - set(labels)):
        raise DataError(
            f"column {series.name!r}: the decision has no label for {len(lacking)} items that were not there when it "
            "was made; fit the step anew"
        )
    known = pl.DataFrame(
        {"item": list(labels), "label": list(labels.values())}, schema={"item": pl.String, "label": pl.String}
    )
    shown = table.join(known, on="item", how="left").drop_nulls("label").select("record", "label").unique()
    sets = shown.sort("record", "label").group_by("record", maintain_order=True).agg("label")
    whole = pl.DataFrame({"record": np.arange(len(lists))}).join(sets, on="record", how="left", maintain_order="left")
    had_items = np.zeros(len(lists), np.bool_)
    had_items[table["record"].to_numpy()] = True
    made = whole["label"] if is_list else whole["label"].list.join("|")
    kept = pl.DataFrame({"new": made, "old": series if not is_list else lists, "had": had_items})
    return kept.select(pl.when("had").then("new").otherwise("old")).to_series().alias(series.name)
