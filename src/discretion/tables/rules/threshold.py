"""Cells with too few respondents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from discretion.errors import PlanError
from discretion.part import confidential
from discretion.tables.rules.rule import Judgement, Rule, need_counts, ranged

if TYPE_CHECKING:
    from discretion.tables.cells import Cells


class Threshold(Rule, kind="threshold"):
    """Cells with fewer than a minimum of respondents are sensitive.

    Respondents are counted without weights, and several records of one respondent count once. A sensitive cell needs
    protection of `range_percent` of its value on both sides, counts at least 1: whole numbers with a smaller interval
    would be known. A cell whose respondents all waived protection is not sensitive. Does not see a cell that one
    respondent dominates: see `PPercent` and `Dominance`. O(cells).

    References
    ----------
    Hundepool et al. (2012), Statistical Disclosure Control, ch. 4–5; catalogue T2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"town": ["A"] * 5 + ["B"], "ill": ["no", "no", "no", "yes", "yes", "no"]})
    >>> cells = dc.tabulate(people, ["town", "ill"]).apply_rules([dc.Threshold(minimum=3)])
    >>> cells.frame(internal=True).filter("suppressed")["town"].to_list()
    ['Total', 'A', 'B', 'B']
    """

    minimum: int = confidential(3, ge=1)
    """smallest number of respondents a cell may show"""
    zeros: Literal["safe", "sensitive"] = "safe"
    """whether cells without respondents may be shown; they must be listed to be protected (`empty="keep"`)"""
    range_percent: float = confidential(30, ge=0, le=100)
    """protection a sensitive cell needs on each side, in percent of its value"""

    def few(self) -> int:
        """Fewer respondents than may be shown."""
        return self.minimum

    def judge(self, cells: Cells) -> Judgement:
        """Compare the number of respondents with the minimum."""
        need_counts(self, cells)
        count = cells.count
        found = (count > 0) & (count < self.minimum) & (cells.response.open_count > 0)
        if self.zeros == "sensitive":
            found |= count == 0
            _check_listed(cells)
        wide = ranged(cells, found, self.range_percent)
        return Judgement(found, wide * (count > 0), wide)


def _check_listed(cells: Cells) -> None:
    sizes = {dim.name: len(dim) for dim in cells.dims}
    for number, table in enumerate(cells.tables):
        every = 1
        for name in table:
            every *= sizes[name]
        listed = cells.in_table[:, number]
        if int(listed.sum()) < every and not (cells.count[listed] == 0).any():
            raise PlanError(
                "threshold: zeros are sensitive, but the table lists no empty cells; tabulate with empty='keep'"
            )
