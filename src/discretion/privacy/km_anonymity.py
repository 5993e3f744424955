"""k^m-anonymity for set-valued columns: whoever knows m items of a person finds k records (M9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Ints
from discretion.learning.associations import as_lists
from discretion.model import FailingClass, PrivacyModel, Verdict
from discretion.part import Columns, confidential
from discretion.privacy.class_table import SHOWN

_CHUNK = 1 << 23
"""Combinations that are counted at once; those that begin with different items are counted apart."""


class KmAnonymity(PrivacyModel, kind="km-anonymity"):
    """Every combination of up to m items that occurs in somebody's set occurs in at least k people's sets.

    For a column of sets: diagnoses, purchases, places visited. Guarantees that an intruder who knows at most m items of
    a person is left with at least k records. Does not protect against somebody who knows more than m items, nor against
    the inference of further items that all those records share.

    The column holds lists, or text with items between bars ("flu|cough"); an item counts once per record. An empty or
    missing set has nothing to be known by and fails nothing. The value reported is the least support of a combination;
    the failing "classes" are the combinations with their support. Exact, level by level: each level extends the
    combinations of the level below by the later items of the record. Time and memory follow the number of combinations
    in the records (5 items and m = 3: 25 for each record).

    References
    ----------
    Terrovitis, Mamoulis & Kalnis (2008), PVLDB 1(1); catalogue M9.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> table = pl.DataFrame({"ills": ["flu|cough", "flu|cough", "flu", "cough"]})
    >>> verdict = dc.KmAnonymity(k=3, m=2, columns=["ills"])(table)
    >>> verdict.value, verdict.failing[0].key
    (2.0, {'ills': 'cough|flu'})
    """

    k: int = confidential(ge=1)
    """smallest allowed number of records with a combination of items"""
    m: int = Field(2, ge=1, le=8)
    """number of items that an intruder may know of a person"""
    columns: Columns = ()
    """the set-valued column; without it, the only quasi-identifier (or sensitive column) of type set"""

    attacker: ClassVar[str] = "somebody who knows up to m items of a person's set, and nothing else"

    def check(self, released: Dataset, ctx: Context, *, original: Dataset | None = None) -> Verdict:  # noqa: ARG002
        """Count every combination."""
        column = set_column(self.kind, released, self.columns)
        sets = item_sets(released, column)
        value, failing, total = len(released), 0, 0
        touched = np.zeros(len(released), dtype=np.bool_)
        listed: list[tuple[int, int, tuple[int, ...]]] = []
        for found in count_combinations(sets, self.m, ctx):
            rare = found.support < self.k
            value = min(value, int(found.support.min()))
            failing, total = failing + int(rare.sum()), total + len(found.support)
            touched[found.record[rare[found.number]]] = True
            listed = _rarest(listed, found, rare)
        names = sets.items
        return Verdict(
            model=self.kind,
            holds=failing == 0,
            value=float(value),
            required=self.k,
            meaning=f"The rarest combination of up to {self.m} items stands in {value} records.",
            failing_count=failing,
            failing_records=int(touched.sum()),
            detail={
                "columns": [column],
                "items": len(names),
                "combinations": total,
                "records_without_items": int((np.diff(sets.starts) == 0).sum()),
            },
            find_failing=lambda: tuple(
                FailingClass({column: "|".join(names[item] for item in items)}, float(support))
                for support, _, items in listed
            ),
        )


def set_column(kind: str, data: Dataset, named: tuple[str, ...]) -> str:
    """Give the one set-valued column that is named, or that its role and type make the default."""
    if named:
        data.require(named)
        found = named
    else:
        found = tuple(name for name in data.having("quasi", "sensitive") if data.type_of(name) == "set")
    if len(found) != 1:
        listed = f" ({', '.join(found)})" if found else ""
        raise PlanError(f"{kind}: one set-valued column is needed, found {len(found)}{listed}; name it")
    return found[0]


@dataclass(frozen=True)
class ItemSets:
    """The items of each record as numbers in ascending order, one record after the other."""

    starts: Ints
    """the items of record i stand at starts[i] … starts[i+1]−1"""
    numbers: Ints
    items: list[str]
    """the items by number, in order of their text"""


def item_sets(data: Dataset, column: str) -> ItemSets:
    """Read a column of lists, or of text with items between bars; items are numbered in order of their text."""
    import polars as pl

    lists = as_lists(data.frame[column])
    table = pl.DataFrame({"record": np.arange(len(lists)), "item": lists}).explode("item").drop_nulls("item")
    table = table.filter(pl.col("item") != "").unique()
    if not len(table):
        raise DataError(f"km-anonymity: the sets of column {column!r} have no items")
    items = table["item"].unique().sort()
    numbered = pl.DataFrame({"item": items, "number": np.arange(len(items))})
    found = table.join(numbered, on="item", how="left").sort("record", "number")
    starts = np.searchsorted(found["record"].to_numpy(), np.arange(len(lists) + 1))
    return ItemSets(starts.astype(np.int64), found["number"].to_numpy().astype(np.int64), items.to_list())


@dataclass(frozen=True)
class Combinations:
    """The combinations of one size (and range of first items): each with its support, and where they occur."""

    support: Ints
    items: NDArray[np.int64]
    """the items of each combination, a row each"""
    number: Ints
    """the combination of each occurrence"""
    record: Ints
    """the record of each occurrence"""


def count_combinations(sets: ItemSets, most: int, ctx: Context) -> Iterator[Combinations]:
    """Count all combinations of 1 … `most` items that occur together, those of a range of first items at a time."""
    record = np.repeat(np.arange(len(sets.starts) - 1), np.diff(sets.starts))
    end = sets.starts[1:][record]
    order = np.argsort(sets.numbers, kind="stable")  # occurrences of the same first item stand together
    bounds = _chunks(sets.numbers[order], (end - np.arange(len(record)))[order], most)
    for low, high in bounds:
        ctx.progress(low, len(order), "km-anonymity: combinations")
        yield from _extend(sets.numbers, record, end, order[low:high], most)
    ctx.progress(len(order), len(order), "km-anonymity: combinations")


def _chunks(first: Ints, left: Ints, most: int) -> list[tuple[int, int]]:
    """Split occurrences, sorted by first item, between items so that no chunk grows beyond the memory meant for it."""
    combinations = np.ones(len(left))  # of `chosen` items among those that follow; scipy would take longer to import
    chosen = min(most - 1, 7)
    for i in range(chosen):
        combinations *= (left - 1 - i) / (i + 1)
    grown = np.cumsum(combinations + 1)
    ends = np.append(np.flatnonzero(first[1:] != first[:-1]) + 1, len(first))
    bounds, low = [], 0
    for high, following in zip(ends, [*ends[1:], None], strict=True):
        before = grown[low - 1] if low else 0.0
        if following is None or grown[following - 1] - before > _CHUNK:
            bounds.append((low, int(high)))
            low = int(high)
    return bounds


def _extend(numbers: Ints, record: Ints, end: Ints, places: Ints, most: int) -> Iterator[Combinations]:
    """Count the combinations that begin at these places, level by level."""
    from discretion.kernels.classes import class_ids

    last, items = places, [numbers[places]]
    prefix, prefixes = np.zeros(len(places), dtype=np.int64), 1
    width = int(numbers.max()) + 1
    for level in range(1, most + 1):
        found = class_ids([prefix, items[-1]], [prefixes, width], len(last))
        chosen = np.column_stack([column[found.first_row] for column in items])
        ids = found.ids.astype(np.int64)
        yield Combinations(found.counts, chosen, ids, record[last])
        if level == most:
            return
        more = end[last] - last - 1
        parent = np.repeat(np.arange(len(last)), more)
        if not len(parent):
            return
        step = np.arange(len(parent)) - np.repeat(np.cumsum(more) - more, more)
        last = last[parent] + 1 + step
        items = [column[parent] for column in items] + [numbers[last]]
        prefix, prefixes = ids[parent], len(found.counts)


def _rarest(
    listed: list[tuple[int, int, tuple[int, ...]]], found: Combinations, rare: Bools
) -> list[tuple[int, int, tuple[int, ...]]]:
    """Keep the combinations that a verdict lists: rarest first, then shortest, then in order of their items."""
    chosen = np.flatnonzero(rare)
    width = found.items.shape[1]
    order = np.lexsort([*(found.items[chosen, j] for j in reversed(range(width))), found.support[chosen]])
    new = [(int(found.support[i]), width, tuple(found.items[i].tolist())) for i in chosen[order[:SHOWN]]]
    return sorted([*listed, *new])[:SHOWN]
