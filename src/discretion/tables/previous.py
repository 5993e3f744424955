"""Earlier releases beside a new table: what their readers have of the same people, as columns of the same matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Ints
from discretion.tables.attacker_system import Matrix
from discretion.tables.contributions import Contributions, build
from discretion.tables.packing import Packer
from discretion.tables.widened import Beside, Division, Forms

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

CLOSE = 1e-9
"""Share of a figure by which sums of the same records may differ through rounding."""


@dataclass(frozen=True, eq=False, repr=False)
class Previous:
    """An earlier table, and which of its inner cells each record of the new one was counted in.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"town": ["A"] * 9 + ["B"] * 9, "ill": ["no", "no", "yes"] * 6, "sex": ["f", "m"] * 9})
    >>> first = dc.tabulate(people, ["town", "sex"])
    >>> dc.tables.Previous.of(first, people)
    Previous(an earlier table: 9 cells, 0 of them suppressed)
    """

    cells: Cells
    """the earlier table as it went out: its true values, and in its status what is suppressed and what is sensitive"""
    inner: Ints
    """(records of the new table,) the inner cell of the earlier one, −1 for people whom it does not count"""
    gone: Ints
    """inner cells of people whom only the earlier table counts, one entry each"""
    name: str = "an earlier table"
    judged: bool = True
    """whether the status says which suppressed cells are sensitive; otherwise the rules of the new table decide"""
    note: str = ""
    """what is known of it, for the report"""

    def __repr__(self) -> str:
        return (
            f"Previous({self.name}: {len(self.cells):,} cells, {int(self.cells.suppressed.sum()):,} of them suppressed)"
        )

    @classmethod
    def of(cls, cells: Cells, data: Any, **options: Any) -> Previous:
        """Take a table of the same records: the data must have its variables, with its codes."""
        return cls(cells, inner_of(cells, Dataset.of(data)), np.zeros(0, np.int64), **options)

    @classmethod
    def matched(
        cls, cells: Cells, then: Any, who_then: Sequence[Any], who_now: Sequence[Any], **options: Any
    ) -> Previous:
        """Take a table of another delivery: `who_then` and `who_now` say whom each record is about (each once)."""
        inner = inner_of(cells, Dataset.of(then))
        place = {person: int(number) for person, number in zip(who_then, inner, strict=True)}
        if len(place) < len(inner):
            raise DataError(f"an earlier table has {len(inner) - len(place)} records of people who have one already")
        now = np.array([place.pop(person, -1) for person in who_now], np.int64)
        return cls(cells, now, np.array(sorted(place.values()), np.int64), **options)


def inner_of(cells: Cells, data: Dataset) -> Ints:
    """Give for each record the inner cell of a table that its codes make, −1 where the table has none."""
    data.require([dim.name for dim in cells.dims])
    codes = []
    for dim in cells.dims:
        column = data.codes(dim.name)
        lookup = np.full(column.size, -1, np.int64)
        missing = 0
        for code, value in enumerate(column.values):
            found = dim.index.get("(missing)" if value is None else canonical(value), -1)
            if found >= 0 and dim.leaves[found]:
                lookup[code] = found
            else:
                missing += 1
        if missing:
            raise DataError(
                f"previous: an earlier table has other divisions: {missing} values of column {dim.name!r} are none of "
                "its finest codes; give its private journal, which says how they were made"
            )
        codes.append(lookup[column.codes])
    finder = Packer.fit(cells.inner_codes, [len(dim) for dim in cells.dims])
    return finder.find(np.column_stack(codes))


def beside(
    cells: Cells, entries: Contributions, codes: Ints, rows: Ints, data: Dataset, previous: Sequence[Cells | Previous]
) -> Beside | None:
    """Put the inner cells of a new table and of earlier ones together; tables that show another figure are left out.

    `entries` has one entry per record, `codes` its leaves, `rows` its place in the data.
    """
    given = [one if isinstance(one, Previous) else Previous.of(one, data) for one in previous]
    notes = [f"{one.name}: {one.note}" for one in given if one.note]
    used = []
    for one in given:
        if len(one.inner) != len(data):
            raise PlanError(f"previous: {one.name} was matched to {len(one.inner)} records, the data has {len(data)}")
        if one.cells.status.released is not None:
            raise PlanError(
                f"previous: {one.name} shows rounded or perturbed values; only tables of true values can be taken "
                "into account"
            )
        if _same_figure(cells, one.cells):
            used.append(one)
        else:
            notes.append(f"{one.name}: shows another figure; what it tells of this one is not used")
    if not used:
        n = len(cells.inner_codes)
        assert cells.source is not None
        return Beside(cells.source, np.arange(n), Forms.none(n), (), (), tuple(notes)) if notes else None
    return _joined(cells, entries, codes, rows, len(data), used, notes)


def _same_figure(cells: Cells, other: Cells) -> bool:
    counts = cells.response.frequency, other.response.frequency
    return counts == (True, True) or (counts == (False, False) and cells.response.name == other.response.name)


def _joined(
    cells: Cells,
    entries: Contributions,
    codes: Ints,
    rows: Ints,
    records: int,
    used: Sequence[Previous],
    notes: Sequence[str],
) -> Beside:
    own = Packer.fit(cells.inner_codes, [len(dim) for dim in cells.dims]).find(codes)
    places = np.column_stack([own, *(one.inner[rows] for one in used)])
    for number, one in enumerate(used, 1):
        if len(one.gone):
            if not cells.response.frequency or (entries.weight != 1).any():
                raise PlanError(
                    f"previous: {one.name} is of another delivery; only counts without weights can be linked"
                )
            more = np.full((len(one.gone), places.shape[1]), -1, np.int64)
            more[:, number] = one.gone
            places = np.vstack((places, more))
    first = max(records, len(cells.contributors))
    everybody = _with_gone(entries, len(places) - len(rows), first)
    sizes = (len(cells.inner_codes) + 1, *(len(one.cells.inner_codes) + 1 for one in used))
    source = build(everybody, (places + 1).astype(np.int32), sizes)
    at = source.inner_codes.astype(np.int64) - 1
    value = np.bincount(source.inner, np.nan_to_num(source.x[:, cells.active]), len(at))
    parts, hidden, divisions = [], [], []
    for number, one in enumerate(used, 1):
        members = _members(one.cells, at[:, number])
        _check_same(one, members @ value)
        parts.append(_forms(one, members))
        if not one.judged:
            rest = members[np.flatnonzero(one.cells.suppressed)]
            hidden += [row for row in np.split(rest.indices.astype(np.int64), rest.indptr[1:-1]) if len(row)]
        divisions += [_division(one.cells, table, at[:, number]) for table in one.cells.tables]
    names = tuple(one.name for one in used)
    return Beside(source, at[:, 0], Forms.stack(parts), tuple(divisions), names, tuple(notes), tuple(hidden))


def _with_gone(entries: Contributions, more: int, first: int) -> Contributions:
    """Add people whom only earlier tables count; their numbers come after all others."""
    if not more:
        return entries
    no = np.zeros(more, np.bool_)
    return replace(
        entries,
        inner=np.r_[entries.inner, np.zeros(more, np.int64)],
        contributor=np.r_[entries.contributor, first + np.arange(more)].astype(np.int32),
        x=np.vstack((entries.x, np.ones((more, entries.x.shape[1])))),
        weight=np.r_[entries.weight, np.ones(more)],
        waived=np.r_[entries.waived, no],
        requested=np.r_[entries.requested, no],
        key=None,
    )


def _members(cells: Cells, at: Ints) -> Matrix:
    """Give the cells of an earlier table as sums of the inner cells of all tables (−1: not in it)."""
    members = cells.x.transposed.to_scipy().tocsc()[:, np.maximum(at, 0)].tocsc()
    members.data[np.repeat(at < 0, np.diff(members.indptr))] = 0.0
    found = members.tocsr()
    found.eliminate_zeros()
    found.sort_indices()
    return found


def _check_same(one: Previous, value: Any) -> None:
    """Refuse a table whose published cells are not the sums of the records they are said to be of."""
    shown = ~one.cells.suppressed
    off = np.abs(value - one.cells.value)[shown] > CLOSE * np.maximum(np.abs(one.cells.value[shown]), 1.0)
    if off.any():
        raise DataError(
            f"previous: {one.name} is of other records: {int(off.sum())} of its {int(shown.sum())} published cells are "
            "not what this data gives; give its private journal and the column that tells who a record is about"
        )


def _forms(one: Previous, members: Matrix) -> Forms:
    """Give what the earlier table shows, and its suppressed cells that are sensitive."""
    cells = one.cells
    kept = np.flatnonzero(~cells.suppressed | (cells.primary & one.judged))
    names = ["/".join(cells.label(int(cell)).values()) for cell in kept]
    return Forms(
        members[kept],
        np.where(cells.suppressed, cells.lower_required, 0.0)[kept],
        np.where(cells.suppressed, cells.upper_required, 0.0)[kept],
        ~cells.suppressed[kept],
        tuple(f"{one.name}: {name}" for name in names),
    )


def _division(cells: Cells, table: Sequence[str], at: Ints) -> Division:
    places = [cells.dim(name) for name in table]
    codes = np.where((at >= 0)[:, None], cells.inner_codes[at][:, places], -1)
    return Division(tuple(cells.dims[j] for j in places), codes.astype(np.int64))


def published_table(content: Mapping[str, Any]) -> tuple[dict[str, Any], list[list[str]], list[tuple[Any, ...]]]:
    """Read a table published as JSON: its hierarchies, its tables, and codes, value and status of its cells."""
    from discretion.tables.dimensions import OUTSIDE, Dimension

    dims = {}
    for entry in content["variables"]:
        index = {code: number for number, code in enumerate(entry["codes"])}
        trees = []
        for tree in entry["parents"]:
            parent = np.array([OUTSIDE if above is None else index[above] for above in tree], np.int32)
            parent[0] = -1
            trees.append(parent)
        dims[entry["name"]] = Dimension(entry["name"], tuple(entry["codes"]), tuple(trees))
    cells = [(tuple(cell["codes"]), cell["value"], cell["status"]) for cell in content["cells"]]
    return dims, [list(table) for table in content["tables"]], cells
