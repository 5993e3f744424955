"""Cells from which a respondent's contribution could be estimated too closely."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import model_validator

from discretion.errors import DataError
from discretion.kernels.arrays import Floats
from discretion.part import confidential
from discretion.tables.rules.rule import ROUNDING, Judgement, Rule

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

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
