"""Association rules: the items of records, how often a rule holds, and the rules that mining finds.

An item is a member of a set ("flu"), or a column with its value ("region=north"). A rule is written as
`flu|cough -> asthma`; without an arrow it is a set of items that should not be frequent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from discretion.data.codes import Missing
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Ints

MOST_SETS = 200_000
"""Frequent sets of items of one size; with more the thresholds are too low to say anything."""
_SLACK = 1e-9
"""A rule that reaches a threshold up to rounding reaches it."""


@dataclass(frozen=True, order=True)
class AssociationRule:
    """Whoever has all items of `given` has those of `then`; with nothing given, a set of items."""

    given: tuple[str, ...]
    then: tuple[str, ...]

    @classmethod
    def parse(cls, value: object) -> AssociationRule:
        """Read `a|b -> c`, or `a|b`."""
        if isinstance(value, AssociationRule):
            return value
        if not isinstance(value, str):
            raise ValueError("expected a rule as text, such as `flu|cough -> asthma`")
        left, arrow, right = value.partition("->")
        given, then = (_parts(left), _parts(right)) if arrow else ((), _parts(left))
        if not then or (arrow and not given):
            raise ValueError("a rule needs items on both sides of the arrow, such as `flu|cough -> asthma`")
        if both := set(given) & set(then):
            raise ValueError(f"{min(both)!r} stands on both sides of the arrow")
        return cls(given, then)

    @property
    def items(self) -> tuple[str, ...]:
        """All items of the rule."""
        return tuple(sorted({*self.given, *self.then}))

    def __str__(self) -> str:
        then = "|".join(self.then)
        return f"{'|'.join(self.given)} -> {then}" if self.given else then


def _parts(text: str) -> tuple[str, ...]:
    return tuple(sorted({item.strip() for item in text.split("|")} - {""}))


RuleField = Annotated[
    AssociationRule,
    PlainValidator(AssociationRule.parse),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": ".*"}),
]
"""A rule as a field of a part."""


@dataclass(frozen=True)
class Strength:
    """How often a rule holds: records that have all of it, those that have what is given, and all that count."""

    both: int
    given: int
    records: int

    @property
    def support(self) -> float:
        """The share of records that have all items of the rule."""
        return self.both / self.records if self.records else 0.0

    @property
    def confidence(self) -> float:
        """The share of those with the given items that have the others too."""
        return self.both / self.given if self.given else 0.0


@dataclass(frozen=True)
class RuleThresholds:
    """What a miner calls a rule."""

    support: float
    confidence: float

    def least(self, records: int) -> int:
        """Give the number of records that a frequent set needs: never none."""
        return max(1, int(np.ceil(self.support * records - _SLACK * max(records, 1))))

    def found(self, rule: AssociationRule, strength: Strength) -> bool:
        """Tell whether a miner finds the rule."""
        frequent = strength.both >= self.least(strength.records)
        return frequent and (not rule.given or strength.both >= self.confidence * strength.given - _SLACK)


@dataclass(frozen=True)
class Items:
    """The items of a data set: each with its column and the records that have it."""

    data: Dataset
    columns: tuple[str, ...]
    sets: frozenset[str]
    """the columns that hold sets"""

    def of(self, data: Dataset) -> Items:
        """Give the items of the same columns, read alike, of another state of the data; a dropped column has none."""
        return Items(data, self.columns, self.sets)

    @cached_property
    def plain(self) -> bool:
        """Whether items go without the name of their column: there is one column, and it holds sets."""
        return len(self.columns) == 1 and bool(self.sets)

    @cached_property
    def rows(self) -> Mapping[str, Ints]:
        """The records that have each item, items in order of their text."""
        import polars as pl

        found: dict[str, Ints] = {}
        for column in (column for column in self.columns if column in self.data.columns):
            series = self.data.frame[column]
            if column in self.sets:
                lists = as_lists(series)
                table = pl.DataFrame({"row": np.arange(len(lists)), "item": lists}).explode("item")
                table = table.filter(pl.col("item").is_not_null() & (pl.col("item") != "")).unique()
                groups = [(str(key), np.sort(part["row"].to_numpy())) for (key,), part in table.group_by("item")]
            else:
                coded = self.data.codes(column)
                order = np.argsort(coded.codes, kind="stable")
                ends = np.cumsum(np.bincount(coded.codes, minlength=coded.size))
                parts = np.split(order.astype(np.int64), ends[:-1]) if coded.size else []
                groups = [
                    (canonical(value), part)
                    for value, part in zip(coded.values, parts, strict=True)
                    if value is not None
                ]
            found |= {self.name(column, item): part for item, part in groups if len(part)}
        return dict(sorted(found.items()))

    def name(self, column: str, item: str) -> str:
        """Write an item."""
        return item if self.plain else f"{column}={item}"

    def column_of(self, item: str) -> str:
        """Give the column of an item; the longest name that fits, since names may hold the sign `=`."""
        if self.plain:
            return self.columns[0]
        fitting = [column for column in self.columns if item.startswith(f"{column}=")]
        if not fitting:
            raise PlanError(
                f"the item {item!r} names none of the columns {', '.join(self.columns)}; write column=value"
            )
        return max(fitting, key=len)

    def value_of(self, item: str) -> str:
        """Give the value or member that an item stands for."""
        return item if self.plain else item[len(self.column_of(item)) + 1 :]

    def has(self, item: str) -> Bools:
        """Tell which records have an item."""
        mask = np.zeros(len(self.data), dtype=np.bool_)
        mask[self.rows.get(item, np.zeros(0, dtype=np.int64))] = True
        return mask

    def lacks_value(self, item: str) -> Bools:
        """Tell in which records the cell of an item is missing: they might have it."""
        column = self.column_of(item)
        if column not in self.data.columns:
            return np.zeros(len(self.data), dtype=np.bool_)
        return np.asarray(self.data.frame[column].is_null().to_numpy(), dtype=np.bool_)

    def strength(self, rule: AssociationRule, missing: Missing) -> Strength:
        """Count a rule under a reading of missing cells; `wildcard`: filled so that the rule is strongest."""
        n = len(self.data)
        given, then = ([self.has(item) for item in side] for side in (rule.given, rule.then))
        sure_given, sure_then = _all(given, n), _all(then, n)
        if missing == "category":
            return Strength(int((sure_given & sure_then).sum()), int(sure_given.sum()), n)
        absent = [self.lacks_value(item) for item in (*rule.given, *rule.then)]
        if missing == "ignore":
            whole = ~np.any(absent, axis=0)
            both = int((sure_given & sure_then & whole).sum())
            return Strength(both, int((sure_given & whole).sum()), int(whole.sum()))
        possible = [one | gone for one, gone in zip([*given, *then], absent, strict=True)]
        maybe_then = _all(possible[len(given) :], n)
        both = int((_all(possible[: len(given)], n) & maybe_then).sum())
        return Strength(both, both + int((sure_given & ~maybe_then).sum()), n)

    def check(self, rules: Sequence[AssociationRule], who: str) -> None:
        """Refuse rules over items that do not occur: a misspelled rule would be hidden by being misspelled."""
        for item in dict.fromkeys(item for rule in rules for item in rule.items):
            if item not in self.rows:
                raise DataError(f"{who}: no record has the item {item!r} (column {self.column_of(item)!r})")


def _all(masks: Sequence[Bools], n: int) -> Bools:
    return np.logical_and.reduce(masks) if masks else np.ones(n, dtype=np.bool_)


def as_lists(series: Any) -> Any:
    """Read a column of sets as lists of text: lists, or text with items between bars."""
    import polars as pl

    if isinstance(series.dtype, pl.Array):
        series = series.arr.to_list()
    if isinstance(series.dtype, pl.List):
        return series.cast(pl.List(pl.String))
    return series.cast(pl.String).str.split("|").list.eval(pl.element().str.strip_chars())


def items_of(data: Dataset, columns: Sequence[str], who: str) -> Items:
    """Give the items of the named columns, or of all that hold sets or categories and are not identifiers."""
    import polars as pl

    if columns:
        data.require(columns)
    chosen = tuple(columns) or tuple(
        name
        for name in data.columns
        if not {"identifier", "weight", "household", "unit"} & set(data.schema[name].roles)
        and (not data.frame.schema[name].is_numeric() or data.is_category(name))
        and not data.frame.schema[name].is_temporal()
    )
    if not chosen:
        raise PlanError(f"{who}: no column holds sets or categories; give `columns`")

    def holds_sets(name: str) -> bool:
        kind = data.frame.schema[name]
        if isinstance(kind, pl.List | pl.Array) or data.type_of(name) == "set":
            return True
        return kind == pl.String and bool(data.frame[name].str.contains("|", literal=True).any())

    return Items(data, chosen, frozenset(name for name in chosen if holds_sets(name)))


def mine(
    items: Items, thresholds: RuleThresholds, most_items: int, progress: Callable[[int, int, str], None]
) -> dict[AssociationRule, Strength]:
    """Find every rule over at most `most_items` items, level by level; time follows the number of frequent sets."""
    n = len(items.data)
    least = thresholds.least(n)
    names = [item for item, rows in items.rows.items() if len(rows) >= least]
    bits = {item: np.packbits(items.has(item)) for item in names}
    counted: dict[tuple[str, ...], int] = {(item,): len(items.rows[item]) for item in names}
    level: dict[tuple[str, ...], NDArray[np.uint8]] = {(item,): bits[item] for item in names}
    for size in range(2, most_items + 1):
        progress(size - 2, most_items - 1, f"sets of {size} items")
        level = dict(_extend(level, bits, least, counted))
        if len(level) > MOST_SETS:
            raise DataError(
                f"more than {MOST_SETS:,} sets of {size} items are frequent; raise `min_support` or lower `max_items`"
            )
    found: dict[AssociationRule, Strength] = {}
    for members, both in counted.items():
        for size in range(1, len(members)):
            for given in combinations(members, size):
                rule = AssociationRule(given, tuple(item for item in members if item not in given))
                strength = Strength(both, counted[given], n)
                if thresholds.found(rule, strength):
                    found[rule] = strength
    return found


def _extend(
    level: Mapping[tuple[str, ...], NDArray[np.uint8]],
    bits: Mapping[str, NDArray[np.uint8]],
    least: int,
    counted: dict[tuple[str, ...], int],
) -> Iterator[tuple[tuple[str, ...], NDArray[np.uint8]]]:
    """Extend frequent sets by one later item; every subset of a frequent set is frequent."""
    names = list(bits)
    place = {item: number for number, item in enumerate(names)}
    for members, rows in level.items():
        for item in names[place[members[-1]] + 1 :]:
            larger = (*members, item)
            if any(smaller not in counted for smaller in combinations(larger, len(members))):
                continue
            common = rows & bits[item]
            count = int(np.bitwise_count(common).sum())
            if count >= least:
                counted[larger] = count
                yield larger, common
