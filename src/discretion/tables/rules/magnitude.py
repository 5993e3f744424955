"""Cells from which a respondent's contribution could be estimated too closely."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import field_validator, model_validator

from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats
from discretion.part import FrozenMapping, confidential
from discretion.tables.rules.rule import ROUNDING, Judgement, Rule, need_counts, ranged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from discretion.tables.cells import Cells


# Cells with too few respondents.


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


# Cells that are too detailed to go out.


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


Negatives = Literal["refuse", "absolute"]


class _ContributionRule(Rule):
    """A rule on the largest contributions."""

    negatives: Negatives = "refuse"
    """what to do with negative contributions: refuse the table, or take their absolute values"""

    def checked(self, cells: Cells) -> None:
        """Refuse negative contributions where they are not allowed for."""
        bad = int((cells.response.negative > 0).sum())
        if bad and self.negatives == "refuse":
            raise DataError(
                f"{self.kind}: {bad} cells of {cells.response.name!r} have negative contributions; "
                "say `negatives: absolute` to judge them by absolute values"
            )


def remainder(cells: Cells, coalition: int) -> Floats:
    """Give what is left of each cell without the respondent to protect and the c largest others.

    The respondent to protect is the largest that has not waived protection: for nobody smaller is the estimate closer.
    """
    response = cells.response
    victim = response.open_top
    largest = response.top[:, : coalition + 1].sum(axis=1)
    others = response.top[:, :coalition].sum(axis=1) + victim
    known = np.where(victim >= response.top[:, coalition], largest, others)
    left: Floats = np.maximum(response.gross - known, 0.0)
    left[left <= ROUNDING * response.gross] = 0.0
    return left


def _ratio_judgement(cells: Cells, left: Floats, share: float) -> Judgement:
    """Cells whose remainder is smaller than a share of the respondent to protect."""
    need = share * cells.response.open_top - left
    found = need > ROUNDING * np.maximum(cells.response.gross, 0.0)
    wide = np.where(found, need, 0.0)
    return Judgement(found, wide, wide)


class PPercent(_ContributionRule, kind="p-percent"):
    """Cells from which a contribution could be estimated to within p percent are sensitive.

    The strongest estimate is that of the second largest respondent (with c of them in a coalition, the c largest after
    the first), who subtract what they know from the cell: sensitive when what the others contribute,
    Σ over i ≥ c+2 of x_i, is less than p percent of the largest contribution x_1. The cell then needs p/100·x_1 −
    Σ x_i on each side. Contributions are weighted; those of a respondent with several records are added up first; where
    the largest respondent waived protection, the largest that did not takes its place. Assumes that nothing is known
    of the other respondents beforehand: see `PQ`. O(cells).

    References
    ----------
    Hundepool et al. (2012), Statistical Disclosure Control, section 4.2; Federal Committee on Statistical Methodology
    (2005), Working Paper 22; catalogue T2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> firms = pl.DataFrame({"sector": ["x", "x", "x", "y", "y", "y"], "turnover": [100, 60, 9, 40, 40, 40]})
    >>> dc.PPercent(percent=10)(dc.tabulate(firms, ["sector"], "turnover")).tolist()
    [False, True, False]
    """

    percent: float = confidential(10, gt=0, le=100)
    """p: how closely, in percent, nobody may be able to estimate a contribution"""
    coalition: int = confidential(1, ge=1)
    """c: respondents that may put together what they know"""

    def top_needed(self) -> int:
        """The largest and the coalition."""
        return self.coalition + 1

    def judge(self, cells: Cells) -> Judgement:
        """Compare what the others contribute with p percent of the largest."""
        self.checked(cells)
        return _ratio_judgement(cells, remainder(cells, self.coalition), self.percent / 100)


class PQ(_ContributionRule, kind="pq"):
    """Cells that bring an estimate of a contribution from q percent to within p percent are sensitive.

    As `PPercent`, for attackers who can estimate every contribution to within q percent before the table appears:
    sensitive when q/100·Σ over i ≥ c+2 of x_i < p/100·x_1. With q = 100 it is the p-percent rule. The cell needs
    p/q·x_1 − Σ x_i on each side. O(cells).

    References
    ----------
    Federal Committee on Statistical Methodology (2005), Working Paper 22; Hundepool et al. (2012), section 4.2;
    catalogue T2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> firms = pl.DataFrame({"sector": ["x", "x", "x", "y", "y", "y"], "turnover": [100, 60, 15, 40, 40, 40]})
    >>> cells = dc.tabulate(firms, ["sector"], "turnover")
    >>> dc.PPercent(percent=10)(cells).tolist(), dc.PQ(p_percent=10, q_percent=50)(cells).tolist()
    ([False, False, False], [False, True, False])
    """

    p_percent: float = confidential(10, gt=0, le=100)
    """p: how closely, in percent, nobody may be able to estimate a contribution"""
    q_percent: float = confidential(100, gt=0, le=100)
    """q: how closely, in percent, anybody can estimate one beforehand; more than p"""
    coalition: int = confidential(1, ge=1)
    """c: respondents that may put together what they know"""

    @model_validator(mode="after")
    def _in_order(self) -> PQ:
        if self.p_percent >= self.q_percent:
            raise ValueError("p_percent must be smaller than q_percent: otherwise the table adds nothing")
        return self

    def top_needed(self) -> int:
        """The largest and the coalition."""
        return self.coalition + 1

    def judge(self, cells: Cells) -> Judgement:
        """Compare what the others contribute with p/q of the largest."""
        self.checked(cells)
        return _ratio_judgement(cells, remainder(cells, self.coalition), self.p_percent / self.q_percent)


class Dominance(_ContributionRule, kind="dominance"):
    """Cells of which the n largest contributions make k percent or more are sensitive.

    The cell needs (100/k)·(x_1 + … + x_n) − X on each side: then an attacker cannot tell that it is dominated. Cells
    whose value is 0 are not sensitive. A cell is left alone only when all of its n largest respondents waived
    protection. The p-percent rule follows more closely what an attacker can compute; with n = 1 two respondents of
    equal size can estimate each other exactly and the cell counts as safe. O(cells).

    References
    ----------
    Hundepool et al. (2012), Statistical Disclosure Control, section 4.2; catalogue T2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> firms = pl.DataFrame({"sector": ["x", "x", "x", "y", "y", "y"], "turnover": [50, 20, 30, 40, 40, 40]})
    >>> dc.Dominance(n=2, percent=80)(dc.tabulate(firms, ["sector"], "turnover")).tolist()
    [False, True, False]
    """

    n: int = confidential(2, ge=1)
    """how many of the largest contributions are taken together"""
    percent: float = confidential(70, gt=0, le=100)
    """k: the percentage of the cell they must not reach"""
    boundary: Literal["sensitive", "safe"] = "sensitive"
    """what a cell is of which they make exactly k percent"""

    def top_needed(self) -> int:
        """The n largest."""
        return self.n

    def judge(self, cells: Cells) -> Judgement:
        """Compare the n largest contributions with k percent of the cell."""
        self.checked(cells)
        response = cells.response
        need = 100 / self.percent * response.top[:, : self.n].sum(axis=1) - response.gross
        slack = ROUNDING * response.gross
        found = need >= -slack if self.boundary == "sensitive" else need > slack
        exposed = (response.open_top > 0) & (response.open_top >= response.top[:, self.n - 1])
        found &= exposed & (response.gross > 0)
        wide = np.where(found, np.maximum(need, 0.0), 0.0)
        return Judgement(found, wide, wide)


class RequestRule(_ContributionRule, kind="request-rule"):
    """Cells that show much of a respondent who asked for protection are sensitive.

    As in foreign trade statistics: cells are protected only when a respondent asks for it and makes `percent` or more
    of the cell. Who asked is given to `tabulate(requests=…)`. The cell needs (100/percent)·x − X on each side. Nobody
    else is protected. O(cells).

    References
    ----------
    Hundepool et al. (2014), τ-ARGUS user's manual, section 4.3; catalogue T2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> firms = pl.DataFrame({"sector": list("xxxy"), "firm": list("abcd"), "exports": [80, 10, 10, 50]})
    >>> cells = dc.tabulate(firms, ["sector"], "exports", contributor="firm", requests=["a"])
    >>> dc.RequestRule(percent=70)(cells).tolist()
    [False, True, False]
    """

    percent: float = confidential(70, gt=0, le=100)
    """the percentage of a cell from which on a respondent's request counts"""

    def judge(self, cells: Cells) -> Judgement:
        """Compare the largest contribution of those who asked with the cell."""
        self.checked(cells)
        response = cells.response
        if response.requested is None:
            raise DataError("request-rule: it is not known who requested protection; tabulate with `requests`")
        need = 100 / self.percent * response.requested - response.gross
        found = (need >= -ROUNDING * response.gross) & (response.requested > 0)
        wide = np.where(found, np.maximum(need, 0.0), 0.0)
        return Judgement(found, wide, wide)
