"""Counts that say something about everybody in a group: all in one category, all but a few, all in a narrow range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from discretion.errors import DataError, unknown
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.part import Columns, confidential
from discretion.tables.previous import Forms
from discretion.tables.rules.rule import Judgement, Rule, need_counts

if TYPE_CHECKING:
    from discretion.tables.cells import Cells


class GroupDisclosure(Rule, kind="group-disclosure"):
    """Cells that hold everybody of a group are sensitive: who is in the group is known to be in the cell.

    A cell is sensitive when it has as many respondents as the total it belongs to along one of `columns`, and the total
    could be split: all ten men of a village have the same illness. The lower bound of the cell must lie at least 1
    below it, and somebody must be possible in the other categories: empty cells beside it are sensitive too, if they
    are listed (`tabulate(empty="keep")`; otherwise nobody can be there, and nothing protects). Groups of one respondent
    are always disclosed in this way: use `Threshold` as well. `KDisclosure` also looks at cells that lack a few of the
    group. O(cells·variables).

    References
    ----------
    Hundepool et al. (2012), Statistical Disclosure Control, section 5.2 (group disclosure); catalogue T2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"town": ["A"] * 4 + ["B"] * 4, "ill": ["no", "yes", "no", "yes"] + ["yes"] * 4})
    >>> cells = dc.tabulate(people, ["town", "ill"])
    >>> [cells.label(i) for i in dc.GroupDisclosure(columns="ill")(cells).nonzero()[0]]
    [{'town': 'B', 'ill': 'yes'}]
    """

    columns: Columns | None = None
    """variables whose values must not be the same for a whole group (default: all of the table)"""

    def judge(self, cells: Cells) -> Judgement:
        """Compare the respondents of each cell with those of the totals above it."""
        return _all_but_few(self, cells, self.columns, 0)


class KDisclosure(Rule, kind="k-disclosure"):
    """Cells that hold all but a few of a group are sensitive: those few know where everybody else of the group is.

    A cell is sensitive when the total it belongs to along one of `columns` has at most `coalition` respondents more:
    of ten men of a village nine have the illness; the tenth knows it of all the others. Readers must hold it possible
    that more than `coalition` people are in the other categories: the cell needs `coalition` + 1 − difference below its
    value, the rest of the group the same above. Empty cells beside it are sensitive too, if they are listed
    (`tabulate(empty="keep")`). With `coalition=0` it is `GroupDisclosure`. For tables of counts. O(cells·variables).

    References
    ----------
    Langsrud & others, R package GaussSuppression (k-disclosure); Hundepool et al. (2012), section 5.2; catalogue T2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"town": ["A"] * 6 + ["B"] * 5, "ill": ["no", "yes"] * 3 + ["yes"] * 4 + ["no"]})
    >>> cells = dc.tabulate(people, ["town", "ill"])
    >>> [cells.label(i) for i in dc.KDisclosure(columns="ill", coalition=1)(cells).nonzero()[0]]
    [{'town': 'B', 'ill': 'yes'}]
    """

    columns: Columns | None = None
    """variables whose values the few must not learn (default: all of the table)"""
    coalition: int = confidential(1, ge=0)
    """how many of the group may put together what they know of themselves"""

    def judge(self, cells: Cells) -> Judgement:
        """Compare the respondents of each cell with those of the totals above it."""
        if not cells.response.frequency:
            raise DataError("k-disclosure: the rule is for tables of counts")
        return _all_but_few(self, cells, self.columns, self.coalition)


class NarrowRange(Rule, kind="narrow-range"):
    """Groups whose members all lie within a few neighboring categories are sensitive: their range gives them away.

    `column` is a variable whose codes are in order (classes of income or age). When all respondents of a group lie
    within `categories` neighboring codes of the more that there are, readers must hold it possible that somebody lies
    outside: the sum of the other categories needs 1 above its value of 0, and its empty cells are sensitive. They must
    be listed (`tabulate(empty="keep")`; otherwise nobody can be there, and nothing protects). For tables of counts.
    O(cells).

    References
    ----------
    Hundepool et al. (2012), Statistical Disclosure Control, section 5.2 (attribute disclosure); catalogue T2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"town": ["A"] * 5 + ["B"] * 4, "income": [1, 2, 3, 4, 5, 2, 2, 3, 3]})
    >>> cells = dc.tabulate(people, ["town", "income"], empty="keep")
    >>> [cells.label(i)["income"] for i in dc.NarrowRange(column="income", categories=2)(cells).nonzero()[0]]
    ['1', '4', '5']
    """

    column: str
    """the variable whose codes are in order"""
    categories: int = confidential(2, ge=1)
    """neighboring categories that a group must not lie within"""
    smallest: int = Field(1, ge=1)
    """groups of fewer respondents are left to other rules"""

    def judge(self, cells: Cells) -> Judgement:
        """Look at the codes below each total along the variable."""
        need_counts(self, cells)
        if not cells.response.frequency:
            raise DataError("narrow-range: the rule is for tables of counts")
        j = _place(self.kind, cells, self.column)
        found = np.zeros(len(cells), np.bool_)
        groups: list[tuple[Ints, float, str]] = []
        for tree, parents in enumerate(cells.dims[j].parents):
            above = cells.parent(j, tree)
            rank = _ranks(parents.astype(np.int64))
            for total, parts in _families(above):
                full = parts[cells.count[parts] > 0]
                if cells.count[total] < self.smallest or not len(full):
                    continue
                places = rank[cells.codes[full, j]]
                low, high = int(places.min()), int(places.max())
                size = int((parents == parents[cells.codes[full[0], j]]).sum())
                if high - low + 1 > self.categories or size <= self.categories:
                    continue
                outside = parts[(rank[cells.codes[parts, j]] < low) | (rank[cells.codes[parts, j]] > high)]
                found[outside] = True
                groups.append((_inner(cells, outside), 1.0, f"outside a narrow range: {_text(cells, total)}"))
        zero = np.zeros(len(cells))
        return Judgement(found, zero, zero, _forms(cells, groups))


def _all_but_few(rule: Rule, cells: Cells, columns: Sequence[str] | None, few: int) -> Judgement:
    """Find cells with all but a few of their group, and ask for room in the rest of it."""
    need_counts(rule, cells)
    names = [dim.name for dim in cells.dims]
    found, beside = np.zeros(len(cells), np.bool_), np.zeros(len(cells), np.bool_)
    lower: Floats = np.zeros(len(cells))
    groups: list[tuple[Ints, float, str]] = []
    for name in columns or names:
        j = _place(rule.kind, cells, name)
        for tree, parents in enumerate(cells.dims[j].parents):
            above = cells.parent(j, tree)
            several = np.bincount(parents[parents >= 0], minlength=len(parents)) > 1
            split = several[np.maximum(parents[cells.codes[:, j]], 0)]
            lacking = cells.count[above] - cells.count
            hit = (above >= 0) & (cells.count > 0) & split & (lacking <= few)
            found |= hit
            lower = np.maximum(lower, np.where(hit, few + 1 - lacking, 0.0))
            beside |= (cells.count == 0) & (above >= 0) & np.isin(above, above[hit])
            if cells.response.frequency:
                for cell in np.flatnonzero(hit).tolist():
                    rest = np.setdiff1d(_inner(cells, above[[cell]]), _inner(cells, np.array([cell])))
                    need = float(few + 1 - lacking[cell])
                    groups.append((rest, need, f"others of {_text(cells, int(above[cell]))} than {_text(cells, cell)}"))
    lower = np.where(found, np.minimum(lower, np.abs(cells.value)), 0.0)
    return Judgement(found | beside, lower, np.zeros(len(cells)), _forms(cells, groups))


def _place(kind: str, cells: Cells, name: str) -> int:
    names = [dim.name for dim in cells.dims]
    if name not in names:
        raise DataError(f"{kind}: {unknown('variable', name, names)}")
    return names.index(name)


def _ranks(parents: Ints) -> Ints:
    """Number the codes below each total in their order."""
    rank = np.zeros(len(parents), np.int64)
    for parent in np.unique(parents[parents >= 0]).tolist():
        below = np.flatnonzero(parents == parent)
        rank[below] = np.arange(len(below))
    return rank


def _families(above: Ints) -> Iterator[tuple[int, Ints]]:
    """Give each total and the cells right below it."""
    parts = np.flatnonzero(above >= 0)
    order = parts[np.argsort(above[parts], kind="stable")]
    totals, start = np.unique(above[order], return_index=True)
    yield from zip(totals.tolist(), np.split(order, start[1:]), strict=False)


def _inner(cells: Cells, chosen: Ints) -> Ints:
    """Give the inner cells of some cells."""
    members = cells.x.transposed
    rows = [members.row(int(cell)) for cell in chosen]
    return np.unique(np.concatenate(rows)).astype(np.int64) if rows else np.zeros(0, np.int64)


def _forms(cells: Cells, groups: Sequence[tuple[Ints, float, str]]) -> Forms | None:
    """Give sums that need room above; the same sum is one, with the larger need."""
    from scipy.sparse import csr_array

    kept: dict[bytes, tuple[Ints, float, str]] = {}
    for rows, need, label in groups:
        before = kept.get(rows.tobytes())
        kept[rows.tobytes()] = (rows, max(need, before[1]) if before else need, label)
    if not kept:
        return None
    listed = list(kept.values())
    columns = np.concatenate([rows for rows, _, _ in listed])
    start = np.r_[0, np.cumsum([len(rows) for rows, _, _ in listed])]
    members = csr_array((np.ones(len(columns)), columns, start), shape=(len(listed), len(cells.inner_codes)))
    none: Bools = np.zeros(len(listed), np.bool_)
    upper = np.array([need for _, need, _ in listed])
    return Forms(members, np.zeros(len(listed)), upper, none, tuple(label for _, _, label in listed))


def _text(cells: Cells, cell: int) -> str:
    return "/".join(cells.label(cell).values())
