"""Generalization hierarchies: what each value becomes at each level.

A `Hierarchy` is a recipe (a table, intervals, masking, dates). Bound to the values of a column it becomes
`Levels`, the validated table of every value at every level. Level 0 is the value itself.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.errors import DataError, PlanError, unknown

# Hierarchies as files: one row per value, the value first, then its label at each level (the layout of ARX).

Rows = list[list[str]]


def decode_hierarchy(content: bytes) -> str:
    """Give the text of a hierarchy file: UTF-8 with or without a mark, or the old encoding of Western Europe."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def hierarchy_rows(path: str | Path, delimiter: str | None = None) -> Rows:
    """Read the rows of a hierarchy file, blank lines left out; nothing else is checked."""
    path = Path(path)
    if not path.is_file():
        raise PlanError(f"no hierarchy file {str(path)!r}")
    return split_rows(decode_hierarchy(path.read_bytes()), repr(str(path)), delimiter)


def split_rows(text: str, name: str, delimiter: str | None = None) -> Rows:
    """Split the text of a hierarchy file at the delimiter given, or at the one that fits: `;`, then a comma."""
    if delimiter is not None and len(delimiter) != 1:
        raise PlanError("delimiter: one character is needed, such as ';'")
    try:
        rows = _split(text, delimiter or _delimiter(text))
    except csv.Error:
        raise PlanError(f"the hierarchy file {name} is not delimited text") from None
    if not rows:
        raise PlanError(f"the hierarchy file {name} is empty")
    return rows


def _delimiter(text: str) -> str:
    """Choose `;` where it gives every row the same number of levels; otherwise the more frequent in the first line."""
    for one in (";", ","):
        widths = {len(row) for row in _split(text, one)}
        if len(widths) == 1 and widths != {1}:
            return one
    first = text.partition("\n")[0]
    return ";" if first.count(";") >= first.count(",") else ","


def _split(text: str, delimiter: str) -> Rows:
    return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]


def hierarchy_text(table: Sequence[Sequence[str]]) -> str:
    """Write `table[level][value]` as a hierarchy file that is read back the same."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=";", lineterminator="\n")
    writer.writerows(zip(*table, strict=True))
    return out.getvalue()


TOP = "*"
"""The label of the highest level of built hierarchies."""

_ROUNDING = 1e-9
"""Share of an interval by which division may miss its bound: 0.3 / 0.1 is a little less than 3."""


@dataclass(frozen=True)
class HierarchyLevels:
    """A hierarchy bound to a domain: `table[level][leaf]` is the label of a leaf at a level."""

    table: tuple[tuple[str, ...], ...]
    column: str = ""
    written: bool = False
    """whether somebody wrote the values down, as rows or as a tree, so that an error may name those it lacks; where a
    rule makes the levels from the data, its values are people's"""

    def __post_init__(self) -> None:
        if not self.table or not self.table[0]:
            raise DataError(f"{self._where}the hierarchy has no values")
        self._check_leaves()
        self._check_nesting()

    @property
    def _where(self) -> str:
        return f"column {self.column!r}: " if self.column else ""

    def _check_leaves(self) -> None:
        leaves = self.table[0]
        if len(set(leaves)) < len(leaves):
            seen: set[str] = set()
            twice = list(dict.fromkeys(leaf for leaf in leaves if leaf in seen or seen.add(leaf)))  # type: ignore[func-returns-value]
            listed = _some(twice) if self.written else f"{len(twice)} values"
            raise DataError(f"{self._where}the hierarchy lists {listed} more than once")

    def _check_nesting(self) -> None:
        for level, (lower, upper) in enumerate(pairwise(self.table)):
            if len(lower) != len(upper):
                raise DataError(
                    f"{self._where}the hierarchy has {len(lower)} values at level {level} "
                    f"and {len(upper)} at level {level + 1}"
                )
            parent: dict[str, str] = {}
            for child, above in zip(lower, upper, strict=True):
                if parent.setdefault(child, above) != above:
                    what = f"{child!r} has the parents {parent[child]!r} and {above!r}"
                    raise DataError(
                        f"{self._where}the hierarchy does not nest: at level {level} "
                        f"{what if self.written else 'a value has two parents'} at level {level + 1}"
                    )

    @property
    def height(self) -> int:
        """The highest level."""
        return len(self.table) - 1

    @property
    def size(self) -> int:
        """The number of leaves of the domain."""
        return len(self.table[0])

    @cached_property
    def leaf_index(self) -> Mapping[str, int]:
        """Row of each leaf in the table."""
        return {leaf: row for row, leaf in enumerate(self.table[0])}

    def rows(self, values: Sequence[str]) -> NDArray[np.int64]:
        """Find the row of each value; an error names the values that a hierarchy somebody wrote down lacks."""
        index = self.leaf_index
        lacking = [value for value in values if value not in index]
        if lacking:
            listed = f": {_some(lacking)}; add a row for each" if self.written else ""
            raise DataError(
                f"{self._where}the hierarchy has no parent for {len(lacking)} of {len(values)} values{listed}"
            )
        return np.fromiter((index[value] for value in values), dtype=np.int64, count=len(values))

    def labels(self, values: Sequence[str], level: int) -> list[str]:
        """Give the label of each value at a level."""
        if not 0 <= level <= self.height:
            raise DataError(f"{self._where}level {level} does not exist; the hierarchy has levels 0 to {self.height}")
        column = self.table[level]
        return [column[row] for row in self.rows(values)]

    def leaves_under(self, level: int) -> Mapping[str, int]:
        """Count the leaves below each label of a level."""
        counts: dict[str, int] = {}
        for label in self.table[level]:
            counts[label] = counts.get(label, 0) + 1
        return counts

    def level_of(self, labels: Sequence[str]) -> NDArray[np.int64]:
        """Infer the level of each label: the lowest one that has them all, or else the only one that has the label.

        A column is usually recoded to one level, and a label may stand at several (`>= 80` at the last two). Where no
        level has all labels the records were recoded one by one, and a label that stands at two cannot be told apart.
        """
        where: dict[str, list[int]] = {}
        for level, column in enumerate(self.table):
            for label in set(column):
                where.setdefault(label, []).append(level)
        absent = [label for label in labels if label not in where]
        if absent:
            raise DataError(f"{self._where}{len(absent)} different values stand at no level of the hierarchy")
        if labels and (common := set.intersection(*(set(where[label]) for label in labels))):
            return np.full(len(labels), min(common), dtype=np.int64)
        unclear = [label for label in labels if len(where[label]) > 1]
        if unclear:
            raise DataError(
                f"{self._where}{len(unclear)} different values stand at two levels of the hierarchy; give the levels "
                "applied"
            )
        return np.array([where[label][0] for label in labels], dtype=np.int64)


def _some(values: Sequence[str], most: int = 10) -> str:
    listed = ", ".join(repr(value) for value in values[:most])
    return listed + (f" … ({len(values)} in all)" if len(values) > most else "")


class Hierarchy(ABC):
    """How a column's values are generalized, level by level."""

    rule: str = ""

    @abstractmethod
    def bind(self, values: Sequence[Any], column: str = "") -> HierarchyLevels:
        """Work out the table of levels for the distinct values of a column."""

    @abstractmethod
    def to_plan(self) -> object:
        """Give the hierarchy as a plan file writes it."""

    @staticmethod
    def of(spec: object) -> Hierarchy:
        """Take a Hierarchy, the path of a CSV file, rows of levels, or `{rule: {parameters}}`."""
        if isinstance(spec, Hierarchy):
            return spec
        if isinstance(spec, str | Path):
            return Hierarchy.read(spec)
        if isinstance(spec, list | tuple):
            return TableHierarchy.from_rows(spec)
        if isinstance(spec, Mapping) and len(spec) == 1:
            ((rule, fields),) = spec.items()
            if rule not in _RULES:
                raise PlanError(unknown("hierarchy rule", str(rule), _RULES))
            return _build(rule, fields)
        raise PlanError("expected a file, rows of levels, or one rule such as `intervals: {width: 5, levels: 4}`")

    @staticmethod
    def read(path: str | Path, delimiter: str | None = None) -> Hierarchy:
        """Read a CSV of levels: one row per value, the value first, then its label at each level (ARX layout)."""
        return TableHierarchy.from_rows(hierarchy_rows(path, delimiter), source=str(path))

    @staticmethod
    def intervals(
        width: float | None = None,
        levels: int | None = None,
        origin: float = 0,
        cuts: Sequence[Sequence[float | str]] | None = None,
    ) -> Hierarchy:
        """Build intervals: level 1 has the width, each further level doubles it, the last is `*`; or cuts per level.

        Cuts may begin with -inf and end with inf: the outermost intervals are open then, `< 20` and `>= 90`.
        """
        return IntervalHierarchy(
            width=width,
            levels=levels,
            origin=origin,
            cuts=None if cuts is None else tuple(tuple(float(c) for c in row) for row in cuts),
        )

    @staticmethod
    def masking(character: str = "*", keep: int = 0, side: Literal["right", "left"] = "right") -> Hierarchy:
        """Mask one more character per level: 80222 → 8022* → 802** …; the first `keep` stay until the top."""
        return MaskingHierarchy(character=character, keep=keep, side=side)

    @staticmethod
    def groups(*levels: Mapping[str, Sequence[object]], top: bool = True) -> Hierarchy:
        """Group categories: each mapping gives a level, `{label: [members at the level below]}`; others stay."""
        return GroupHierarchy(
            levels=tuple({canonical(k): _members(vs) for k, vs in level.items()} for level in levels),
            top=top,
        )

    @staticmethod
    def tree(tree: Mapping[str, Any]) -> Hierarchy:
        """Take an ontology: nested mappings with lists of values at the bottom; the root is the highest level."""
        return TableHierarchy.from_tree(tree)

    @staticmethod
    def dates(*levels: str) -> Hierarchy:
        """Coarsen dates: any of `month`, `quarter`, `year`, `decade`, from fine to coarse; the top is `*`.

        Values are dates, or texts such as 1987-08-03, 3.8.1987 (the day first) and 3/8/1987 (the day or the month
        first, whichever all the values of the column fit; an error where they fit both).
        """
        return DateHierarchy(levels=levels or ("month", "year", "decade"))


@dataclass(frozen=True)
class TableHierarchy(Hierarchy):
    """Levels given explicitly, one row per value."""

    columns: tuple[tuple[str, ...], ...]
    source: str = ""
    rule = "table"

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[object]], source: str = "") -> TableHierarchy:
        """Take rows `(value, label at level 1, label at level 2, …)`; all must have the same length."""
        if not rows or not all(isinstance(row, list | tuple) and row for row in rows):
            raise PlanError("expected rows of levels, each a list `[value, label at level 1, …]`")
        width = len(rows[0])
        ragged = [number for number, row in enumerate(rows, 1) if len(row) != width]
        if ragged:
            raise PlanError(
                f"{source or 'hierarchy'}: {len(ragged)} rows do not have {width} levels as the first row has, "
                f"first in row {ragged[0]}"
            )
        columns = tuple(tuple(canonical(row[level]).strip() for row in rows) for level in range(width))
        try:
            HierarchyLevels(columns, written=True)
        except DataError as error:
            raise PlanError(f"{source + ': ' if source else ''}{error}") from None
        return cls(columns, source)

    @classmethod
    def from_tree(cls, tree: Mapping[str, Any]) -> TableHierarchy:
        """Flatten a nested mapping; branches of different depth repeat their lowest value."""
        paths: list[list[str]] = []

        def walk(node: object, above: list[str]) -> None:
            if isinstance(node, Mapping):
                for name, below in node.items():
                    walk(below, [*above, canonical(name)])
            elif isinstance(node, list | tuple):
                paths.extend([*above, canonical(leaf)] for leaf in node)
            elif node is None:
                paths.append(above)
            else:
                paths.append([*above, canonical(node)])

        walk(tree, [])
        if not paths:
            raise PlanError("tree: expected nested mappings with lists of values at the bottom")
        depth = max(len(path) for path in paths)
        rows = [[path[-1]] * (depth - len(path)) + path[::-1] for path in paths]
        if len(tree) > 1:
            rows = [[*row, TOP] for row in rows]
        return cls.from_rows(rows)

    def bind(self, values: Sequence[Any], column: str = "") -> HierarchyLevels:  # noqa: ARG002 - the table is the domain
        """Give the table; values without a row are found when they are looked up."""
        return HierarchyLevels(self.columns, column, written=True)

    def to_plan(self) -> object:
        """Give the path of the file, or the rows."""
        return self.source or [list(row) for row in zip(*self.columns, strict=True)]


@dataclass(frozen=True)
class GroupHierarchy(Hierarchy):
    """Levels built by grouping categories of the level below."""

    levels: tuple[Mapping[str, tuple[str, ...]], ...]
    top: bool = True
    rule = "groups"

    def bind(self, values: Sequence[Any], column: str = "") -> HierarchyLevels:
        """Map each value through the groupings; values in no group stay as they are."""
        table = [tuple(sorted({canonical(value) for value in values}))]
        for number, groups in enumerate(self.levels, 1):
            parent: dict[str, str] = {}
            for label, members in groups.items():
                for member in members:
                    if parent.setdefault(member, label) != label:
                        raise DataError(f"column {column!r}: {member!r} is in two groups at level {number}")
            table.append(tuple(parent.get(child, child) for child in table[-1]))
        if self.top and len(set(table[-1])) > 1:
            table.append((TOP,) * len(table[0]))
        return HierarchyLevels(tuple(table), column)

    def to_plan(self) -> object:
        """Give `{groups: {levels: […]}}`."""
        levels = [{label: list(members) for label, members in level.items()} for level in self.levels]
        return {"groups": {"levels": levels, "top": self.top}}


@dataclass(frozen=True)
class IntervalHierarchy(Hierarchy):
    """Intervals of growing width for numbers."""

    width: float | None = None
    levels: int | None = None
    origin: float = 0
    cuts: tuple[tuple[float, ...], ...] | None = None
    rule = "intervals"

    def __post_init__(self) -> None:
        if (self.width is None) == (self.cuts is None):
            raise PlanError("intervals: give either `width` and `levels`, or `cuts`")
        if self.width is not None and (not self.width > 0 or self.levels is None or self.levels < 1):
            raise PlanError("intervals: `width` must be positive and `levels` at least 1")
        for row in self.cuts or ():
            if len(row) < 2 or not all(a < b for a, b in pairwise(row)) or not any(map(math.isfinite, row)):
                raise PlanError(
                    "intervals: each level's `cuts` must be at least two ascending numbers, one of them finite"
                )
        self._check_cuts()

    def _check_cuts(self) -> None:
        """Refuse a cut that splits an interval of the level below."""
        for level, (fine, coarse) in enumerate(pairwise(self.cuts or ()), 1):
            inside = [cut for cut in coarse if fine[0] < cut < fine[-1] and cut not in fine]
            if inside:
                listed = ", ".join(f"{cut:g}" for cut in inside)
                raise PlanError(
                    f"intervals: the `cuts` do not nest: level {level + 1} cuts at {listed}, where level {level} has "
                    "no cut; each level may only leave out cuts of the level below"
                )

    def bind(self, values: Sequence[Any], column: str = "") -> HierarchyLevels:
        """Label every value with its interval at each level."""
        try:
            numbers = np.array(sorted({float(value) for value in values}), dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError(f"column {column!r}: an intervals hierarchy needs numbers") from None
        whole = bool(np.all(numbers == np.round(numbers)))
        table = [tuple(canonical(value) for value in numbers)]
        if self.cuts is not None:
            table += [self._by_cuts(numbers, row, whole, column) for row in self.cuts]
        else:
            table += [self._by_width(numbers, 2**step, whole) for step in range(int(self.levels or 1) - 1)]
        if len(set(table[-1])) > 1 or len(table) == 1 or self.cuts is None:
            table.append((TOP,) * len(numbers))
        return HierarchyLevels(tuple(table), column)

    def _by_width(self, numbers: NDArray[np.float64], times: int, whole: bool) -> tuple[str, ...]:
        """Label with intervals of `times` the width; counted in whole widths, so that levels nest exactly."""
        width = float(self.width or 1)
        rounding = np.spacing(np.maximum(np.abs(numbers), abs(self.origin))) / width + _ROUNDING
        steps = np.floor((numbers - self.origin) / width + rounding) // times * times
        bounds = [(self.origin + step * width, self.origin + (step + times) * width) for step in steps.tolist()]
        return tuple(interval_label(low, high, whole) for low, high in bounds)

    def _by_cuts(
        self, numbers: NDArray[np.float64], cuts: Sequence[float], whole: bool, column: str
    ) -> tuple[str, ...]:
        place = np.searchsorted(np.array(cuts), numbers, side="right")
        outside = int(np.sum((place == 0) | (place == len(cuts))))
        if outside:
            raise DataError(f"column {column!r}: {outside} values lie outside the cuts {cuts[0]:g} to {cuts[-1]:g}")
        return tuple(interval_label(cuts[p - 1], cuts[p], whole) for p in place.tolist())

    def to_plan(self) -> object:
        """Give `{intervals: {…}}`."""
        if self.cuts is not None:
            rows = [[cut if math.isfinite(cut) else str(cut) for cut in row] for row in self.cuts]  # JSON has no inf
            return {"intervals": {"cuts": rows}}
        return {"intervals": {"width": self.width, "levels": self.levels, "origin": self.origin}}


@dataclass(frozen=True)
class MaskingHierarchy(Hierarchy):
    """One more character masked per level."""

    character: str = "*"
    keep: int = 0
    side: Literal["right", "left"] = "right"
    rule = "masking"

    def __post_init__(self) -> None:
        if len(self.character) != 1 or self.keep < 0 or self.side not in ("right", "left"):
            raise PlanError("masking: `character` is one character, `keep` at least 0, `side` right or left")

    def bind(self, values: Sequence[Any], column: str = "") -> HierarchyLevels:
        """Mask from one side; shorter values are padded so that all have the same length."""
        texts = sorted({canonical(value) for value in values})
        length = max((len(text) for text in texts), default=0)
        table = [tuple(texts)]
        steps = range(1, max(length - self.keep, 1) + 1)
        table += [tuple(self._mask(text, masked, length) for text in texts) for masked in steps]
        if len(set(table[-1])) > 1:
            table.append((self.character * length,) * len(texts))
        return HierarchyLevels(tuple(table), column)

    def _mask(self, text: str, masked: int, length: int) -> str:
        if self.side == "right":
            return text.ljust(length, self.character)[: length - masked] + self.character * masked
        return self.character * masked + text.rjust(length, self.character)[masked:]

    def to_plan(self) -> object:
        """Give `{masking: {…}}`."""
        return {"masking": {"character": self.character, "keep": self.keep, "side": self.side}}


_DATE_LABELS = {
    "month": lambda d: f"{d.year:04d}-{d.month:02d}",
    "quarter": lambda d: f"{d.year:04d}-Q{(d.month + 2) // 3}",
    "year": lambda d: f"{d.year:04d}",
    "decade": lambda d: f"{d.year // 10 * 10:04d}s",
}


@dataclass(frozen=True)
class DateHierarchy(Hierarchy):
    """Dates coarsened to months, quarters, years, decades."""

    levels: tuple[str, ...] = ("month", "year", "decade")
    rule = "dates"

    def __post_init__(self) -> None:
        order = list(_DATE_LABELS)
        wrong = [level for level in self.levels if level not in order]
        if wrong:
            raise PlanError(f"dates: {unknown('level', wrong[0], order)}")
        if sorted(self.levels, key=order.index) != list(self.levels):
            raise PlanError(f"dates: levels go from fine to coarse, in the order {', '.join(order)}")

    def bind(self, values: Sequence[Any], column: str = "") -> HierarchyLevels:
        """Label every date, or text that is one, at each level."""
        days = _as_dates(values, column)
        leaves = tuple(sorted(days))
        table = [leaves]
        table += [tuple(_DATE_LABELS[level](days[leaf]) for leaf in leaves) for level in self.levels]
        table.append((TOP,) * len(leaves))
        return HierarchyLevels(tuple(table), column)

    def to_plan(self) -> object:
        """Give `{dates: {levels: […]}}`."""
        return {"dates": {"levels": list(self.levels)}}


_WRITTEN_DATE = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})(?:[ T].*)?")


def _as_dates(values: Sequence[Any], column: str) -> dict[str, dt.date]:
    """Read dates, as a calendar has them or as text of one of the usual layouts."""
    import datetime as dt

    days: dict[str, dt.date] = {}
    written: dict[str, re.Match[str]] = {}
    wrong = 0
    for value in values:
        text = canonical(value)
        if isinstance(value, dt.datetime):
            days[text] = value.date()
        elif isinstance(value, dt.date):
            days[text] = value
        elif (found := _WRITTEN_DATE.fullmatch(text.strip())) is not None:
            written[text] = found
        else:
            try:
                days[text] = dt.date.fromisoformat(text.strip()[:10])
            except ValueError:
                wrong += 1
    month = _month_group(list(written.values()), column)
    for text, found in written.items():
        try:
            days[text] = dt.date(int(found[4]), int(found[month]), int(found[4 - month]))
        except ValueError:
            wrong += 1
    if wrong:
        raise DataError(
            f"column {column!r}: a dates hierarchy needs dates (2001-12-31, 31.12.2001 or 31/12/2001), and {wrong} of "
            f"{len(values)} different values are none"
        )
    return days


def _month_group(written: Sequence[re.Match[str]], column: str) -> int:
    """Tell whether the month stands first (1) or second (3) in all dates of a column."""
    if any(found[2] == "." for found in written) or not written:
        return 3
    first, second = (max(int(found[group]) for found in written) for group in (1, 3))
    if first <= 12 and second <= 12:
        raise DataError(
            f"column {column!r}: the days and months of its dates cannot be told apart, because both are at most 12 in "
            "every value; write the dates as YYYY-MM-DD"
        )
    return 3 if first > 12 else 1


def _members(values: object) -> tuple[str, ...]:
    """Give the members of a group; a single one may stand without a list."""
    if isinstance(values, Mapping) or (
        isinstance(values, list | tuple) and any(isinstance(v, Mapping) for v in values)
    ):
        raise PlanError(f"groups: the members of a group are values, not mappings; for example {_GROUPS}")
    return tuple(canonical(v) for v in values) if isinstance(values, list | tuple | set) else (canonical(values),)


_RULES = ("intervals", "masking", "groups", "tree", "dates", "table", "file")


def _build(rule: str, fields: Any) -> Hierarchy:
    fields = {} if fields is None else fields
    try:
        if rule == "table":
            return TableHierarchy.from_rows(fields)
        if rule == "tree":
            return Hierarchy.tree(fields)
        if rule == "file":
            return Hierarchy.read(**fields) if isinstance(fields, Mapping) else Hierarchy.read(fields)
        if rule == "groups":
            return _groups(fields)
        if rule == "dates":
            return Hierarchy.dates(*(fields.get("levels", ()) if isinstance(fields, Mapping) else fields))
        build = Hierarchy.intervals if rule == "intervals" else Hierarchy.masking
        return build(**fields)
    except PlanError:
        raise
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        hint = f"; for example {_GROUPS}" if rule == "groups" else ""
        raise PlanError(f"{rule}: wrong parameters ({error}){hint}") from None


_GROUPS = "{groups: {north: [a, b], south: [c]}}, or level by level {groups: {levels: [{north: [a, b], south: [c]}]}}"


def _groups(fields: Mapping[str, Any]) -> Hierarchy:
    """Read groups level by level, or those of a single level without `levels`."""
    if "levels" in fields:
        return Hierarchy.groups(*fields["levels"], top=fields.get("top", True))
    options = {"top": fields["top"]} if isinstance(fields.get("top"), bool) else {}
    level = {label: members for label, members in fields.items() if label not in options}
    if not level:
        raise ValueError("no group is given")
    return Hierarchy.groups(level, **options)


def canonical(value: object) -> str:
    """Write a value as hierarchies and codebooks do: whole numbers without a decimal point."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def interval_label(low: float, high: float, whole: bool) -> str:
    """Name the interval from `low` (in) to `high` (out); whole numbers get closed bounds: [20, 24]; open: >= 90."""
    if math.isinf(high):
        return f">= {low:.12g}"
    if math.isinf(low):
        return f"< {high:.12g}"
    if whole and float(low).is_integer() and float(high).is_integer():
        return f"[{int(low)}, {int(high) - 1}]"
    return f"[{low:.12g}, {high:.12g})"


_INTERVAL = re.compile(r"([\[(])\s*([^,\[\]()]+?)\s*,\s*([^,\[\]()]+?)\s*([\])])")
_OPEN = re.compile(r"([<>])(=?)\s*([^<>=]+?)\s*")

ReadEnd = Callable[[str], float]


def _day(text: str) -> float:
    return dt.datetime.fromisoformat(text).replace(tzinfo=None).timestamp()


ENDS: tuple[ReadEnd, ...] = (float, _day)
"""How the ends of an interval are read: as numbers, or as dates."""


def end_or_nan(read: ReadEnd, text: str) -> float:
    """Read the end of an interval; NaN where it is none."""
    try:
        return read(text)
    except (ValueError, OverflowError):
        return float("nan")


def interval_bounds(label: str) -> tuple[ReadEnd, float, float, tuple[bool, bool]] | None:
    """Read an interval: how its ends are read, the ends, and whether they belong to it."""
    if (side := _OPEN.fullmatch(label)) is not None:
        ends = ((read, end_or_nan(read, side[3])) for read in ENDS)
        read, end = next((one for one in ends if math.isfinite(one[1])), (float, math.nan))
        within = (bool(side[2]), bool(side[2]))
        if math.isnan(end):
            return None
        return (read, -math.inf, end, within) if side[1] == "<" else (read, end, math.inf, within)
    match = _INTERVAL.fullmatch(label)
    if match is None:
        return None
    for read in ENDS:
        low, high = end_or_nan(read, match[2]), end_or_nan(read, match[3])
        if low <= high:
            return read, low, high, (match[1] == "[", match[4] == "]")
    return None


Kind = Literal["ragged", "twice", "not-nested", "two-levels", "no-row", "repeated", "many-tops", "unused"]
FAULTS: Mapping[Kind, type[DataError | PlanError]] = {
    "ragged": PlanError,
    "twice": PlanError,
    "not-nested": PlanError,
    "two-levels": PlanError,
    "no-row": DataError,
}
"""Findings that are faults, and the error each stands for; the others are worth knowing."""

_SHOWN = 10


@dataclass(frozen=True)
class HierarchyFinding:
    """One kind of finding: how often, a sentence, and the first values or labels of the domain that show it."""

    kind: Kind
    count: int
    text: str
    examples: tuple[str, ...] = ()

    @property
    def error(self) -> type[DataError | PlanError] | None:
        """The error that this is, or none."""
        return FAULTS.get(self.kind)


@dataclass(frozen=True)
class CheckedHierarchy:
    """The rows of a hierarchy file and what was found; without `table` the rows have no common length."""

    findings: tuple[HierarchyFinding, ...]
    table: tuple[tuple[str, ...], ...] = ()

    @property
    def faults(self) -> tuple[HierarchyFinding, ...]:
        """The findings because of which the hierarchy cannot be used."""
        return tuple(finding for finding in self.findings if finding.error is not None)


def check_hierarchy(rows: Sequence[Sequence[object]], values: Sequence[object] | None = None) -> CheckedHierarchy:
    """Look for every fault of the rows of a hierarchy file, and of the file for the values of a column.

    Time and memory linear in the cells of the file and in the values.
    """
    width = len(rows[0])
    ragged = [str(number) for number, row in enumerate(rows, 1) if len(row) != width]
    if ragged:
        text = f"rows without {width} levels, as the first row has them ({len(ragged):,}), by number: {_few(ragged)}"
        return CheckedHierarchy((HierarchyFinding("ragged", len(ragged), text, tuple(ragged[:_SHOWN])),))
    table = tuple(tuple(canonical(row[level]).strip() for row in rows) for level in range(width))
    found = [_twice(table), *_not_nested(table), *_ambiguous(table), _tops(table)]
    if values is not None:
        found += _against(table, values)
    return CheckedHierarchy(tuple(finding for finding in found if finding is not None), table)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")


def _finding(kind: Kind, names: Sequence[str], text: str) -> HierarchyFinding | None:
    if not names:
        return None
    listed = _few([repr(name) for name in names])
    return HierarchyFinding(kind, len(names), f"{text} ({len(names):,}): {listed}", tuple(names[:_SHOWN]))


def _twice(table: Sequence[Sequence[str]]) -> HierarchyFinding | None:
    counts: dict[str, int] = {}
    for leaf in table[0]:
        counts[leaf] = counts.get(leaf, 0) + 1
    twice = [leaf for leaf, count in counts.items() if count > 1]
    return _finding("twice", twice, "values with more than one row")


def _not_nested(table: Sequence[Sequence[str]]) -> list[HierarchyFinding | None]:
    found = []
    for level, (lower, upper) in enumerate(pairwise(table)):
        if level == 0:
            continue  # a value with two parents has two rows
        parents: dict[str, set[str]] = {}
        for child, parent in zip(lower, upper, strict=True):
            parents.setdefault(child, set()).add(parent)
        torn = [child for child, above in parents.items() if len(above) > 1]
        text = f"levels that do not nest: labels of level {level} with several parents at level {level + 1}"
        found.append(_finding("not-nested", torn, text))
    return found


def _ambiguous(table: Sequence[Sequence[str]]) -> list[HierarchyFinding | None]:
    """Find labels at two levels: with different values below they say two things, with the same they are repeated."""
    meanings: dict[str, dict[frozenset[int], int]] = {}
    for column in table:
        below: dict[str, list[int]] = {}
        for row, label in enumerate(column):
            below.setdefault(label, []).append(row)
        for label, members in below.items():
            held = meanings.setdefault(label, {})
            key = frozenset(members)
            held[key] = held.get(key, 0) + 1
    unclear = [label for label, held in meanings.items() if len(held) > 1]
    repeated = [label for label, held in meanings.items() if len(held) == 1 and sum(held.values()) > 1]
    return [
        _finding("two-levels", unclear, "labels that stand at two levels for different sets of values"),
        _finding(
            "repeated", repeated,
            "labels that stay the same over several levels: their level in a file from elsewhere cannot be told",
        ),
    ]  # fmt: skip


def _tops(table: Sequence[Sequence[str]]) -> HierarchyFinding | None:
    labels = list(dict.fromkeys(table[-1]))
    if len(labels) == 1:
        return None
    return _finding("many-tops", labels, "labels of the highest level, which has not one for all values")


def _against(table: Sequence[Sequence[str]], values: Sequence[object]) -> list[HierarchyFinding | None]:
    known = set(table[0])
    used = list(dict.fromkeys(canonical(value) for value in values))
    lacking = [value for value in used if value not in known]
    unused = known - set(used)
    return [
        _finding("no-row", lacking, f"values of the column without a row, of {len(used):,}"),
        None
        if not unused
        else HierarchyFinding("unused", len(unused), f"rows of values that do not occur ({len(unused):,})"),
    ]
