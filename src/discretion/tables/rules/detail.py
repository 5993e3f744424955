"""Cells that are too detailed to go out, or that say something about everybody in a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import field_validator

from discretion.errors import DataError, PlanError, unknown
from discretion.part import Columns, FrozenMapping, confidential
from discretion.tables.rules.rule import Judgement, Rule, need_counts, ranged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from discretion.tables.cells import Cells


class SpecialRule(Rule, kind="special-rule"):
    """Cells at a level of detail that may not go out are sensitive, however many respondents they have.

    `detail` says from which depth on: `{"region": 2, "nationality": 1}` forbids cells that break regions down two steps
    or more below their total and show nationalities at the same time. A sensitive cell needs `range_percent` of its
    value on both sides, counts at least 1. When a whole level may not go out, rolling it up (`restructure`) loses less
    than suppressing it. O(cells).

    References
    ----------
    Hundepool et al. (2012), Statistical Disclosure Control, section 5.2; catalogue T2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"town": ["A", "B"] * 9, "origin": ["here", "there", "here"] * 6})
    >>> cells = dc.tabulate(people, ["town", "origin"])
    >>> int(dc.SpecialRule(detail={"town": 1, "origin": 1})(cells).sum())
    4
    """

    detail: FrozenMapping[str, int]
    """variable → steps below its total; cells that are at least so deep in all of them are sensitive"""
    range_percent: float = confidential(30, ge=0, le=100)
    """protection a sensitive cell needs on each side, in percent of its value"""

    @field_validator("detail")
    @classmethod
    def _positive(cls, detail: Mapping[str, int]) -> Mapping[str, int]:
        if not detail or min(detail.values()) < 1:
            raise ValueError("name at least one variable, with a depth of at least 1")
        return detail

    def judge(self, cells: Cells) -> Judgement:
        """Compare the depth of each cell with the depths that may not go out."""
        found = np.ones(len(cells), np.bool_)
        for name, depth in self.detail.items():
            j = cells.dim(name)
            if depth > cells.dims[j].height:
                raise PlanError(
                    f"special-rule: {name!r} has {cells.dims[j].height} levels below its total, not {depth}"
                )
            found &= np.maximum.reduce(cells.dims[j].depths)[cells.codes[:, j]] >= depth
        wide = ranged(cells, found, self.range_percent)
        return Judgement(found, wide, wide)


class GroupDisclosure(Rule, kind="group-disclosure"):
    """Cells that hold everybody of a group are sensitive: who is in the group is known to be in the cell.

    A cell is sensitive when it has as many respondents as the total it belongs to along one of `columns`, and the total
    could be split: all ten men of a village have the same illness. The lower bound of the cell must lie at least 1
    below it. Suppressing such a cell protects only if empty cells beside it can be suppressed too
    (`tabulate(empty="keep")`). Groups of one respondent are always disclosed in this way: use `Threshold` as well.
    O(cells·variables).

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
        need_counts(self, cells)
        names = [dim.name for dim in cells.dims]
        found = np.zeros(len(cells), np.bool_)
        for name in self.columns or names:
            if name not in names:
                raise DataError(f"group-disclosure: {unknown('variable', name, names)}")
            dim = cells.dims[names.index(name)]
            for tree, parents in enumerate(dim.parents):
                above = cells.parent(name, tree)
                several = np.bincount(parents[parents >= 0], minlength=len(dim)) > 1
                split = several[np.maximum(parents[cells.codes[:, names.index(name)]], 0)]
                found |= (above >= 0) & (cells.count > 0) & split & (cells.count == cells.count[above])
        lower = np.where(found, np.minimum(1.0, np.abs(cells.value)), 0.0)
        return Judgement(found, lower, np.zeros(len(cells)))
