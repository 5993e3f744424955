"""Cells that are too detailed to go out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pydantic import field_validator

from discretion.errors import PlanError
from discretion.part import FrozenMapping, confidential
from discretion.tables.rules.rule import Judgement, Rule, ranged

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
