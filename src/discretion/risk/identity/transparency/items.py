"""Items of set-valued columns that were replaced by broader ones: the intruder replaces the known items alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import Levels, canonical
from discretion.errors import DiscretionError
from discretion.risk.identity.intruder import View

Sets = tuple[list[frozenset[str] | None], NDArray[Any]]


def with_items_coded(view: View, step: Any, name: str) -> Dataset | None:
    """Give the known records with the items of a set-valued column as the step published them; None without hierarchy.

    Each item has one label for all records: the finest label above it (or itself) that every published set shows whose
    person has the item; an item that no label stands for was suppressed. Whoever has the hierarchy, which is published,
    sees the labels in the release.
    """
    source = step.item_hierarchy or view.original.schema[name].hierarchy
    if source is None or name not in view.original.columns:
        return None
    before, after, mine = (_sets(data, name) for data in (view.original, view.released, view.known))
    items = sorted({item for sets, _ in (before, mine) for found in sets if found for item in found})
    try:
        labels = _labels(source.bind(items, name), items, before, after)
    except DiscretionError:
        return None
    import polars as pl

    sets, codes = mine
    made = pl.Series(name, [_coded(found, labels) for found in sets], pl.List(pl.String)).gather(codes)
    is_text = view.known.frame.schema[name] == pl.String
    return view.known.with_columns({name: made.list.join("|") if is_text else made})


def _coded(found: frozenset[str] | None, labels: dict[str, str | None]) -> list[str] | None:
    """Give the labels of a set; nothing for one that lost all its items, which is published as missing."""
    if found is None:
        return None
    new = sorted({label for item in found if (label := labels[item]) is not None})
    return new if new or not found else None


def _sets(data: Dataset, name: str) -> Sets:
    """Give the items of each different set, None for a missing one, and which of them each row has."""
    codes = data.codes(name)
    return [_items(value) for value in codes.values], codes.codes


def _items(value: Any) -> frozenset[str] | None:
    if value is None:
        return None
    parts = value if isinstance(value, list) else str(value).split("|")
    return frozenset(text for part in parts if part is not None and (text := canonical(part).strip()))


def _labels(levels: Levels, items: Sequence[str], before: Sets, after: Sets) -> dict[str, str | None]:
    """Read off the label of each item, from fine to coarse."""
    shown = {label for found in after[0] if found for label in found}
    above = {item: dict.fromkeys(level[levels.leaf_index[item]] for level in levels.table) for item in items}
    possible = {item: [label for label in labels if label in shown] for item, labels in above.items()}
    for one, other in np.unique(np.column_stack([before[1], after[1]]), axis=0):
        mine, theirs = before[0][one], after[0][other]
        if mine and theirs is not None:
            for item in mine:
                possible[item] = [label for label in possible[item] if label in theirs]
    return {item: labels[0] if labels else None for item, labels in possible.items()}
