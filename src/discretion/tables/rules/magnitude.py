"""Cells from which a respondent's contribution could be estimated too closely."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from discretion.errors import DataError, PlanError, unknown
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.part import Columns, FrozenMapping, confidential
from discretion.tables.previous import Forms
from discretion.tables.rules.rule import ROUNDING, Judgement, Rule, need_counts, ranged

if TYPE_CHECKING:
    from collections.abc import Mapping

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
