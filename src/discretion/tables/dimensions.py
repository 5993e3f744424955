"""Classifying variables of a table: trees of codes with a total at the top."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from discretion.data.hierarchy import TOP, Hierarchy, HierarchyLevels, canonical
from discretion.data.write import write_text
from discretion.errors import DataError, PlanError, unknown
from discretion.kernels.arrays import Bools, Ints32

TOTAL = "Total"
"""The label of the total of a variable whose hierarchy does not name one."""

OUTSIDE = -2
"""The parent of a code that a tree does not have."""


@dataclass(frozen=True, eq=False, repr=False)
class Dimension:
    """The codes of one classifying variable: leaves, groups of them, and the total (code 0).

    The codes of the first tree stand in depth-first order, parents before their children. Several trees may stand over
    the same leaves (regions grouped by county and by type of economy): each says which parent a code has in it, and the
    codes they share are one code. `parents[tree][code]` is the parent, −1 for the total, −2 for a code that is not in
    that tree.

    Examples
    --------
    >>> from discretion.tables import Dimension
    >>> region = Dimension.tree("region", {"Total": {"North": ["A", "B"], "South": ["C"]}})
    >>> region.codes
    ('Total', 'North', 'A', 'B', 'South', 'C')
    >>> region.parents[0].tolist(), region.depths[0].tolist()
    ([-1, 0, 1, 1, 0, 4], [0, 1, 2, 2, 1, 2])
    """

    name: str
    codes: tuple[str, ...]
    parents: tuple[Ints32, ...]

    def __post_init__(self) -> None:
        if len(set(self.codes)) < len(self.codes):
            seen: set[str] = set()
            twice = sorted({code for code in self.codes if code in seen or seen.add(code)})  # type: ignore[func-returns-value]
            raise DataError(
                f"variable {self.name!r}: {len(twice)} codes stand at two places of the hierarchy, first {twice[0]!r}; "
                "give each place its own code"
            )
        for parent in self.parents:
            parent.flags.writeable = False

    def __repr__(self) -> str:
        trees = f", {len(self.parents)} trees" if len(self.parents) > 1 else ""
        return (
            f"Dimension({self.name!r}: {len(self)} codes, {int(self.leaves.sum())} leaves, height {self.height}{trees})"
        )

    def __len__(self) -> int:
        return len(self.codes)

    # --- the trees -----------------------------------------------------------------------------------------------

    @property
    def total(self) -> str:
        """The code of the total."""
        return self.codes[0]

    @cached_property
    def index(self) -> Mapping[str, int]:
        """The number of each code."""
        return {code: number for number, code in enumerate(self.codes)}

    @cached_property
    def depths(self) -> tuple[Ints32, ...]:
        """For each tree the steps from the total down to each code; −1 for a code that is not in the tree."""
        return tuple(_depths(parent) for parent in self.parents)

    @cached_property
    def leaves(self) -> Bools:
        """Which codes have no children: those the records carry."""
        inner = np.zeros(len(self), np.bool_)
        for parent in self.parents:
            inner[parent[parent >= 0]] = True
        return ~inner

    @property
    def height(self) -> int:
        """The steps from the total to the deepest leaf."""
        return int(max(depth.max(initial=0) for depth in self.depths))

    @cached_property
    def ancestors(self) -> Ints32:
        """For each code itself and every code above it in any tree, each once; rows are filled up with −1."""
        found = [
            list(dict.fromkeys(above for parent in self.parents for above in _path(parent, code)))
            for code in range(len(self))
        ]
        table = np.full((len(self), max(map(len, found))), -1, np.int32)
        for code, above in enumerate(found):
            table[code, : len(above)] = above
        return table

    def children(self, code: int, tree: int = 0) -> Ints32:
        """Give the codes right below a code."""
        return np.flatnonzero(self.parents[tree] == code).astype(np.int32)

    def leaves_under(self, code: int) -> Ints32:
        """Give the leaves a code stands for."""
        return np.flatnonzero(self.leaves & (self.ancestors == code).any(axis=1)).astype(np.int32)

    def find(self, labels: Iterable[Any]) -> Ints32:
        """Give the numbers of codes; an error names those the variable does not have."""
        texts = [canonical(label) for label in labels]
        for text in texts:
            if text not in self.index:
                raise DataError(f"variable {self.name!r}: {unknown('code', text, self.codes)}")
        return np.array([self.index[text] for text in texts], np.int32)

    # --- making one ------------------------------------------------------------------------------------------------

    @classmethod
    def flat(cls, name: str, values: Iterable[Any], total: str = TOTAL) -> Dimension:
        """Put all values right below a total."""
        return cls.from_edges(name, [(total, canonical(value)) for value in values], total)

    @classmethod
    def tree(cls, name: str, tree: Mapping[str, Any] | Sequence[Any], total: str = TOTAL) -> Dimension:
        """Take nested mappings with lists of codes at the bottom; several roots get a total above them."""
        edges: list[tuple[str, str]] = []

        def walk(node: Any, above: str) -> None:
            if isinstance(node, Mapping):
                for code, below in node.items():
                    edges.append((above, canonical(code)))
                    walk(below, canonical(code))
            elif isinstance(node, list | tuple):
                for item in node:
                    walk(item, above) if isinstance(item, Mapping) else edges.append((above, canonical(item)))
            elif node is not None:
                edges.append((above, canonical(node)))

        if isinstance(tree, Mapping) and len(tree) == 1:
            ((root, below),) = tree.items()
            walk(below, canonical(root))
            return cls.from_edges(name, edges, canonical(root))
        walk(tree, total)
        return cls.from_edges(name, edges, total)

    @classmethod
    def from_edges(cls, name: str, edges: Sequence[tuple[str, str]], total: str = TOTAL) -> Dimension:
        """Take (parent, child) pairs; children keep their order.

        Where no pair names the total, the one code that is nobody's child is it; several such codes get it above them.
        """
        below: dict[str, list[str]] = {}
        above: dict[str, str] = {}
        children = {child for _, child in edges}
        roots = list(dict.fromkeys(parent for parent, _ in edges if parent not in children))
        if total in children:
            raise DataError(
                f"variable {name!r}: {total!r} is the code of the total and stands below another code; leave rows of "
                "totals out of the data, or give a hierarchy whose total has another code"
            )
        if total not in roots and len(roots) == 1:
            total = roots[0]
        elif total not in roots:
            edges = [*((total, root) for root in roots), *edges]
        elif len(roots) > 1:
            others = [root for root in roots if root != total]
            raise DataError(
                f"variable {name!r}: the hierarchy has {len(roots)} codes that stand below no other, among them the "
                f"total {total!r}; put {', '.join(map(repr, others[:5]))}{' …' if len(others) > 5 else ''} below it"
            )
        for parent, child in edges:
            if above.setdefault(child, parent) != parent:
                raise DataError(
                    f"variable {name!r}: the code {child!r} has the parents {above[child]!r} and {parent!r}"
                )
            if child not in below.setdefault(parent, []):
                below[parent].append(child)
        codes, parents, stack = [], [], [(total, -1)]
        while stack:
            code, parent_number = stack.pop()
            codes.append(code)
            parents.append(parent_number)
            if len(codes) > len(above) + 1:
                raise DataError(f"variable {name!r}: the hierarchy has a circle through {code!r}")
            stack.extend((child, len(codes) - 1) for child in reversed(below.get(code, ())))
        lost = sorted(set(above) - set(codes))
        if lost:
            raise DataError(f"variable {name!r}: the hierarchy has a circle through {lost[0]!r}: it is below itself")
        if len(codes) == 1:
            raise DataError(f"variable {name!r}: the hierarchy has no codes below its total")
        return cls(name, tuple(codes), (np.array(parents, np.int32),))

    @classmethod
    def from_levels(cls, name: str, levels: HierarchyLevels, level: int = 0, total: str = TOTAL) -> Dimension:
        """Take a bound hierarchy from one of its levels upward; a label that repeats its only child is one code."""
        columns = levels.table[level:]
        top = set(columns[-1])
        single = len(top) == 1 and len(columns) > 1
        root = next(iter(top)) if single and top != {TOP} else total
        edges: dict[tuple[str, str], None] = {}
        for labels in zip(*columns, strict=True):
            below = labels[-2::-1] if single else labels[::-1]
            steps = [root, *(label for label, _ in groupby(below))]
            edges |= dict.fromkeys(pairwise(steps[1:] if steps[1:2] == [root] else steps))
        return cls.from_edges(name, list(edges), root)

    @classmethod
    def read(cls, name: str, path: str | Path, total: str = TOTAL) -> Dimension:
        """Read a hierarchy file: levels or (parent, child) pairs as CSV, sdcTable's "@" lines, τ-ARGUS .hrc."""

        return read_dimension(name, Path(path), total)

    @classmethod
    def join(cls, trees: Sequence[Dimension]) -> Dimension:
        """Put several hierarchies over the same variable; codes with the same label must mean the same leaves."""
        first = trees[0]
        codes = list(first.codes)
        number = dict(first.index)
        for tree in trees[1:]:
            _check_same_domain(first, tree)
            for code in tree.codes[1:]:
                if code not in number:
                    number[code] = len(codes)
                    codes.append(code)
        parents = []
        for tree in trees:
            place = np.array([0, *(number[code] for code in tree.codes[1:])], np.int32)
            parent = np.full(len(codes), OUTSIDE, np.int32)
            parent[place] = np.where(tree.parents[0] < 0, -1, place[tree.parents[0]])
            parents.append(parent)
        return cls(first.name, tuple(codes), tuple(parents))

    @classmethod
    def of(cls, name: str, spec: Any, values: Sequence[Any] = ()) -> Dimension:
        """Take a Dimension, a Hierarchy, its Levels, a file, nested mappings, rows of levels, or several of them."""
        if isinstance(spec, Dimension):
            return cls(name, spec.codes, spec.parents)
        if isinstance(spec, HierarchyLevels):
            return cls.from_levels(name, spec)
        if isinstance(spec, str | Path):
            return cls.read(name, spec)
        if isinstance(spec, Hierarchy):
            return cls.from_levels(name, spec.bind(values, name))
        if isinstance(spec, list | tuple) and spec and not all(isinstance(item, list | tuple) for item in spec):
            if all(isinstance(item, str) and not Path(item).is_file() for item in spec):
                return cls.flat(name, spec)
            return cls.join([cls.of(name, item, values) for item in spec])
        if isinstance(spec, list | tuple):
            return cls.from_levels(name, Hierarchy.of(list(spec)).bind(values, name))
        if isinstance(spec, Mapping):
            if len(spec) == 1 and set(spec) <= {"intervals", "masking", "groups", "dates", "table", "file"}:
                return cls.from_levels(name, Hierarchy.of(spec).bind(values, name))
            return cls.tree(name, spec["tree"] if set(spec) == {"tree"} else spec)
        raise PlanError(f"hierarchies.{name}: expected a file, nested codes, rows of levels or a rule")

    def with_leaf(self, code: str) -> Dimension:
        """Add a leaf right below the total (for records whose value is missing)."""
        parents = tuple(np.append(parent, np.int32(0)) for parent in self.parents)
        return Dimension(self.name, (*self.codes, code), parents)


def _check_same_domain(one: Dimension, other: Dimension) -> None:
    leaves = {one.codes[i] for i in np.flatnonzero(one.leaves)} ^ {other.codes[i] for i in np.flatnonzero(other.leaves)}
    if leaves:
        raise DataError(f"variable {one.name!r}: {len(leaves)} codes are leaves of one hierarchy and not of the other")
    for code in set(one.codes[1:]) & set(other.codes[1:]):
        mine = {one.codes[i] for i in one.leaves_under(one.index[code])}
        if mine != {other.codes[i] for i in other.leaves_under(other.index[code])}:
            raise DataError(f"variable {one.name!r}: the code {code!r} stands for different leaves in two hierarchies")


def _path(parent: Ints32, code: int) -> list[int]:
    path = []
    while code >= 0 and (parent[code] != OUTSIDE):
        path.append(code)
        code = int(parent[code])
    return path


def _depths(parent: Ints32) -> Ints32:
    depth = np.where(parent == -1, 0, -1).astype(np.int32)
    while True:
        known = (depth < 0) & (parent >= 0) & (depth[parent] >= 0)
        if not known.any():
            return depth
        depth[known] = depth[parent[known]] + 1


LEAD = "@"
"""What stands before a code once per level, in "@" lines and by default in .hrc files."""


def read_dimension(name: str, path: Path, total: str) -> Dimension:
    """Read a hierarchy; the layout is found from the file: "@" lines, .hrc, pairs (header parent,child), levels."""
    if not path.is_file():
        raise PlanError(f"variable {name!r}: no hierarchy file {str(path)!r}")
    lines = text_lines(path)
    filled = [line for line in lines if line.strip()]
    if not filled:
        raise PlanError(f"variable {name!r}: the hierarchy file {str(path)!r} is empty")
    marked = [line.startswith(LEAD) for line in filled]
    if path.suffix.lower() == ".hrc" or all(marked) or (any(marked) and path.suffix.lower() != ".csv"):
        return from_lines(name, lines, total, file=path.name)
    first = re.split(r"[;,\t]", filled[0])
    if [word.strip().strip('"').lower() for word in first[:2]] == ["parent", "child"]:
        return Dimension.from_edges(name, _pairs(lines, path.name), total)
    return Dimension.from_levels(name, Hierarchy.read(path).bind((), name), total=total)


def text_lines(path: Path) -> list[str]:
    """Read the lines of a text file in UTF-8, or in the Western code page that Windows programs write.

    Lines end where every program ends them; other signs that Unicode calls line breaks may stand in codes.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        text = path.read_bytes().decode("cp1252", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _pairs(lines: Sequence[str], file: str) -> list[tuple[str, str]]:
    """Read the lines below the header parent,child."""
    head = next(number for number, line in enumerate(lines) if line.strip())
    delimiter = lines[head].strip().strip('"')[len("parent") :].lstrip('" ')[0]
    pairs = []
    for number, line in enumerate(lines[head + 1 :], head + 2):
        row = [word.strip() for word in next(csv.reader([line], delimiter=delimiter), [])]
        if line.strip() and (len(row) < 2 or not row[0] or not row[1]):
            raise DataError(f"{file}, line {number}: expected a parent and a child")
        pairs += [(row[0], row[1])] if line.strip() else []
    if not pairs:
        raise DataError(f"{file}: there are no pairs below the header")
    return pairs


def from_lines(name: str, lines: Sequence[str], total: str, lead: str = LEAD, file: str = "") -> Dimension:
    """Read one code per line, set in by `lead` once per level, children below their parent.

    When the first line is set in ("@Total", also "@;Total"), it is the total, as sdcTable writes it; otherwise the
    total is above all codes and not written, as in τ-ARGUS.
    """
    where = file or f"variable {name!r}"
    if not lead:
        raise DataError(f"{where}: what stands before a code once per level must not be empty")
    rows = [(number, *_depth_and_code(line, lead)) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise DataError(f"{where}: the hierarchy has no lines")
    base = rows[0][1]
    path = [] if base else [total]
    edges: list[tuple[str, str]] = []
    for number, depth, code in rows:
        if not code:
            raise DataError(f"{where}, line {number}: the line has no code")
        level = depth - base + (0 if base else 1)
        if not (0 if number == rows[0][0] and base else 1) <= level <= len(path):
            raise DataError(f"{where}, line {number}: the code is set in too far or too little")
        del path[level:]
        edges += [(path[-1], code)] if path else []
        path.append(code)
    return Dimension.from_edges(name, edges, rows[0][2] if base else total)


def _depth_and_code(line: str, lead: str) -> tuple[int, str]:
    depth = 0
    while line.startswith(lead):
        depth += 1
        line = line.removeprefix(lead)
    return depth, line.strip().lstrip(";,").strip().strip('"')


def to_lines(dimension: Dimension, tree: int = 0, *, total: bool, lead: str = LEAD) -> list[str]:
    """Write a tree one code per line; with `total` as sdcTable reads it, without as τ-ARGUS does.

    Codes that would be read as something else (blanks at their ends, a leading "@") are refused.
    """
    lines = []
    for depth, code in _in_order(dimension, tree):
        label = dimension.codes[code]
        if re.search(r"[\r\n]", label) or _depth_and_code(label, lead) != (0, label):
            raise PlanError(f"variable {dimension.name!r}: the code {label!r} cannot be written in a hierarchy file")
        if total or depth:
            lines.append(lead * (depth + 1 if total else depth - 1) + label)
    return lines


def _in_order(dimension: Dimension, tree: int) -> Iterator[tuple[int, int]]:
    stack = [(0, 0)]
    while stack:
        depth, code = stack.pop()
        yield depth, code
        stack.extend((depth + 1, int(child)) for child in dimension.children(code, tree)[::-1])


def write_dimension(dimension: Dimension, path: str | Path, tree: int = 0, *, overwrite: bool = False) -> None:
    """Write a hierarchy: τ-ARGUS layout when the name ends in .hrc, levels when in .csv, otherwise "@" lines."""
    path = Path(path)
    if path.suffix.lower() == ".csv":
        for code in dimension.codes:
            if code != code.strip() or code.startswith(LEAD) or re.search(r"[\r\n]", code):
                raise PlanError(f"variable {dimension.name!r}: the code {code!r} cannot be written in a hierarchy file")
        buffer = io.StringIO()
        csv.writer(buffer, delimiter=";", lineterminator="\n").writerows(level_rows(dimension, tree))
        text = buffer.getvalue()
    else:
        text = "\n".join(to_lines(dimension, tree, total=path.suffix.lower() != ".hrc")) + "\n"
    write_text(path, text, overwrite=overwrite)


def level_rows(dimension: Dimension, tree: int = 0) -> list[list[str]]:
    """Give one row per leaf: the leaf, its group at each level, the total; short branches repeat their leaf."""
    rows = []
    height = int(dimension.depths[tree].max())
    for depth, code in _in_order(dimension, tree):
        if dimension.leaves[code]:
            path, above = [], code
            while above >= 0:
                path.append(dimension.codes[above])
                above = int(dimension.parents[tree][above])
            rows.append([path[0]] * (height - depth) + path)
    return rows
