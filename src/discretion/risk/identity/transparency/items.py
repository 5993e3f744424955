"""Items of set-valued columns that were replaced by broader ones: the intruder replaces the known items alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import Levels, canonical
from discretion.errors import DiscretionError
from discretion.risk.identity.intruder import View


def with_items_coded(view: View, step: Any, name: str) -> Dataset | None:
    """Give the known records with the items of a set-valued column as the step published them; None without hierarchy.

    Each item has one label for all records: the finest label above it (or itself) that every published set shows whose
    person has the item; an item that no label stands for was suppressed. Whoever has the hierarchy, which is published,
    sees the labels in the release.
    """
    source = step.item_hierarchy or view.original.schema[name].hierarchy
    if source is None or name not in view.original.columns:
        return None
    before, after = _sets(view.original, name), _sets(view.released, name)
    mine = _sets(view.known, name)
    items = sorted({item for sets in (before, mine) for found in sets if found for item in found})
    try:
        labels = _labels(source.bind(items, name), items, before, after)
    except DiscretionError:
        return None
    import polars as pl

    made = pl.Series(name, [_coded(found, labels) for found in mine], pl.List(pl.String))
    is_text = view.known.frame.schema[name] == pl.String
    return view.known.with_columns({name: made.list.join("|") if is_text else made})


def _coded(found: frozenset[str] | None, labels: dict[str, str | None]) -> list[str] | None:
    """Give the labels of a set; nothing for one that lost all its items, which is published as missing."""
    if found is None:
        return None
    new = sorted({label for item in found if (label := labels[item]) is not None})
    return new if new or not found else None


def _sets(data: Dataset, name: str) -> list[frozenset[str] | None]:
    """Give the items of each row; None where the set is missing."""
    codes = data.codes(name)
    values = [_items(value) for value in codes.values]
    return [values[code] for code in codes.codes]


def _items(value: Any) -> frozenset[str] | None:
    if value is None:
        return None
    parts = value if isinstance(value, list) else str(value).split("|")
    return frozenset(text for part in parts if part is not None and (text := canonical(part).strip()))


def _labels(
    levels: Levels,
    items: Sequence[str],
    before: Sequence[frozenset[str] | None],
    after: Sequence[frozenset[str] | None],
) -> dict[str, str | None]:
    """Read off the label of each item, from fine to coarse."""
    shown = {label for found in after if found for label in found}
    above = {item: dict.fromkeys(level[levels.leaf_index[item]] for level in levels.table) for item in items}
    possible = {item: [label for label in labels if label in shown] for item, labels in above.items()}
    for mine, theirs in zip(before, after, strict=True):
        if mine and theirs is not None:
            for item in mine:
                possible[item] = [label for label in possible[item] if label in theirs]
    return {item: labels[0] if labels else None for item, labels in possible.items()}
