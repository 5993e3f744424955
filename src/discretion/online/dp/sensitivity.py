"""How much one person can change a figure: the only place where noise gets its size from.

Two data sets are neighbors when they differ in one person: that person is there or not (`add-remove`), or has other
rows (`replace`; the number of people is then no secret). Before anything is counted, the backend keeps at most `rows`
rows of each person (the first ones, so that a person's kept rows depend on nobody else), moves numbers to the declared
bounds and turns them into integer codes. Here stands, for each figure, how far it can move from one neighbor to the
other, and why.

A figure is a vector: one entry per cell, where the cells (groups × bins) are disjoint, so that a row lies in at most
one of them. A condition, an undeclared group or a missing value may leave a row in no cell at all. With m rows per
person, from one neighbor to the other

- `add-remove`: at most m rows appear, or at most m rows disappear;
- `replace`: at most m rows disappear and at most m appear, in the same cells or in others.

Mean and variance have no entry of their own: they are computed from a private number of values and private centered
sums (`totals`), each paid for with its own part of the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from discretion.online.declare import Adjacency, TableSpec
from discretion.privacy.accounting import root_above

MANY = 2**31
"""stands for a number of cells that is not known beforehand"""


@dataclass(frozen=True)
class Unit:
    """Whom the answers protect: how many rows one person may have, and what neighboring data sets are."""

    rows: int = 1
    adjacency: Adjacency = "add-remove"

    @classmethod
    def of(cls, table: TableSpec) -> Unit:
        """Take the declaration of a table."""
        return cls(table.rows_per_person, table.adjacency)


@dataclass(frozen=True)
class Sensitivity:
    """The largest change of a vector of integers between neighbors, in several norms."""

    l0: int
    """entries that change"""
    l1: int
    """sum of the absolute changes"""
    l2_squared: int
    """sum of the squared changes"""
    linf: int
    """largest single change"""
    why: str
    """the argument"""

    @property
    def l2(self) -> float:
        """The Euclidean norm, never rounded down."""
        return root_above(self.l2_squared)

    def coarsened(self, step: int) -> Sensitivity:
        """Return the sensitivity of the entries divided by `step` and rounded down.

        |⌊a/s⌋ − ⌊b/s⌋| < |a − b|/s + 1 in each of the at most l0 entries that change, and 0 in the others.
        """
        if step == 1:
            return self
        linf = -(-self.linf // step)
        l1 = min(-(-self.l1 // step) + self.l0, self.l0 * linf)
        root = -(-(math.isqrt(self.l2_squared) + 1) // step) + math.isqrt(self.l0) + 1
        why = f"{self.why}; in steps of {step:,}"
        return Sensitivity(self.l0, l1, min(root * root, l1 * l1, self.l0 * linf * linf), linf, why)


def counts(unit: Unit, cells: int = 1) -> Sensitivity:
    """Rows per cell: count, group-by count, histogram, number of values that are not missing.

    Each row that appears or disappears changes its cell by one. `add-remove`: m rows change the counts by m in all, at
    worst m in one cell. `replace`: in a single cell the rows that disappear and those that appear cancel, so it moves
    by at most m; with two cells or more, m rows may leave one and m enter another: 2m in all, and √2·m in the
    Euclidean norm. A plain count of persons with one row each has global sensitivity 1.
    """
    m = unit.rows
    if unit.adjacency == "add-remove":
        return Sensitivity(min(m, cells), m, m * m, m, f"a person has at most {m} rows, each counted in one cell")
    if cells == 1:
        return Sensitivity(1, m, m * m, m, f"at most {m} rows leave or enter the only cell")
    why = f"at most {m} rows leave their cells and {m} enter others"
    return Sensitivity(min(2 * m, cells), 2 * m, 2 * m * m, m, why)


def distinct(unit: Unit, cells: int = 1) -> Sensitivity:
    """Different values per cell.

    A row that appears or disappears adds or takes away at most one value in its cell, so the change is bounded by that
    of the counts. A value that others share does not even move.
    """
    found = counts(unit, cells)
    return replace(found, why=f"{found.why}; a row changes the number of different values of its cell by at most one")


def totals(unit: Unit, low: int, high: int, cells: int = 1) -> Sensitivity:
    """Sums of codes, each clamped between `low` and `high`: sum, group-by sum, centered sums of mean and variance.

    One row moves its cell by at most M = max(|low|, |high|). `add-remove`: m rows, so m·M in all norms (at worst all
    in one cell). `replace`: the m rows that disappear and the m that appear move at most 2·m·M in all. In one cell
    they move it by at most m·W, W = max(high, 0) − min(low, 0): a row may go from the lower to the upper bound, or be
    chosen or missing on one side only, which counts 0. The Euclidean norm is convex, so its largest value is at an
    extreme: everything in one cell (m·W) or in two (√2·m·M).
    """
    m = unit.rows
    most = max(abs(low), abs(high), 1)
    if unit.adjacency == "add-remove":
        step = m * most
        return Sensitivity(min(m, cells), step, step * step, step, f"at most {m} rows of at most {most:,} units each")
    width = m * max(max(high, 0) - min(low, 0), 1)
    if cells == 1:
        return Sensitivity(1, width, width * width, width, f"{m} rows move by at most {width // m:,} units each")
    why = f"{m} rows of at most {most:,} units leave their cells and {m} enter others"
    return Sensitivity(min(2 * m, cells), 2 * m * most, max(width * width, 2 * (m * most) ** 2), width, why)


def people(unit: Unit, cells: int = MANY) -> Sensitivity:
    """People per group, where a person counts once in each group in which it has a row.

    A person with m rows is in at most m groups and counts one in each. `replace`: it leaves at most m groups and enters
    at most m others. These counts decide whether the key of a group that nobody declared may be told.
    """
    groups = min(unit.rows * (1 if unit.adjacency == "add-remove" or cells == 1 else 2), cells)
    return Sensitivity(groups, groups, groups, 1, f"a person changes at most {groups} groups, each by one")


def quantile_scores(unit: Unit, part: int, whole: int, groups: int = 1) -> Sensitivity:
    """Score of each step of a grid for the quantile of share part/whole (see `quantiles.scores`), in one group.

    A score is a distance to g(c) = (whole − part)·below(c) − part·above(c) at the borders c of the step. A row below a
    border moves g by whole − part, one above by part. `add-remove`: m rows, m·max(part, whole − part). `replace`: a row
    that goes from above to below moves g by whole, so m·whole. Scores may move at once and in different directions:
    only the largest change (linf) counts.

    One choice is made per group, each with the same noise. A group in which a person has r rows costs r/m of the loss,
    and the rows of a person in all groups are at most m (`replace`: m that leave and m that enter): linf here is the
    sum over the groups, so that the loss covers all groups together.
    """
    side = max(part, whole - part)
    each = side if unit.adjacency == "add-remove" else (whole if groups == 1 else 2 * side)
    return _scores(unit.rows * each, f"one row moves the scores by at most {each} in all groups together")


def extreme_scores(unit: Unit, groups: int = 1) -> Sensitivity:
    """Score of each step of a grid for a minimum or maximum: distance of the number of records beyond it to a target.

    The number of records beyond a border moves by at most m, whether rows come, go or change sides; over several groups
    (see `quantile_scores`) by m in all, and by 2m when m rows leave one group and m enter another.
    """
    each = 2 if unit.adjacency == "replace" and groups > 1 else 1
    return _scores(unit.rows * each, f"one row changes the numbers of records beyond a border by at most {each}")


def mode_scores(unit: Unit) -> Sensitivity:
    """Score of each declared category for the most frequent one: its count, in one group or in each of several.

    What a choice costs depends on the range of the changes of its scores: raising all scores by the same amount changes
    no choice, so that changes between −r and +s cost no more than changes between 0 and r + s, (r + s)/scale in all
    (ρ: the square of it, over 8). `add-remove`: a person's m rows come or go, in each group all counts that move do so
    in one direction (`is_monotonic`), and the ranges of all groups add up to at most m. `replace`: at most m rows
    disappear and at most m appear, wherever they are, so that the ranges of all groups add up to at most 2m, which is
    what a choice pays whose scores move by m in both directions. The sum of squares is at most the square of the sum.
    Records of other values and missing ones are in no score.
    """
    return _scores(unit.rows, "a category's count moves by at most the rows of one person")


def is_monotonic(unit: Unit) -> bool:
    """Tell whether counts of categories all move in the same direction between neighbors."""
    return unit.adjacency == "add-remove"


def _scores(linf: int, why: str) -> Sensitivity:
    return Sensitivity(MANY, MANY * linf, MANY * linf * linf, linf, why)
