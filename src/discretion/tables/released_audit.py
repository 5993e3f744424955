"""Is every sensitive cell of a table with changed values protected? What rounding and bounded noise leave to learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.context import Context, Progress, ignore_progress
from discretion.errors import PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.tables.attacker import Attacker
from discretion.tables.attacker_system import System, blocks
from discretion.tables.audit import bounds_of, whole_numbers
from discretion.tables.audit_certify import Clock, Targets, certify
from discretion.tables.audit_report import Bounds
from discretion.tables.controlled_rounding import rounding_reach

if TYPE_CHECKING:
    from discretion.tables.cell_key import Perturbed
    from discretion.tables.cells import Cells
    from discretion.tables.controlled_rounding import Rounded

SLACK = 1e-7
"""Share of a value by which what was found may miss what is required through the solver's accuracy."""

CHANCE_PERCENT = 50.0
"""How likely an attacker may hold a perturbed sensitive cell to be near the truth: not more likely than not."""


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedAudit:
    """What an attacker learns of the sensitive cells of a table whose values were changed."""

    cells: Cells
    cell: Ints
    """(k,) the numbers of the sensitive cells"""
    low: Floats
    """(k,) smallest true value the attacker must hold possible, at least as far from the truth as computed"""
    high: Floats
    """(k,) largest"""
    holds_each: Bools
    """(k,) whether the attacker is kept as far away as the rules require"""
    attacker: str
    """who attacked, in words"""
    unproved: str = ""
    """an attacker against whom nothing is proved, in words; then the table does not hold"""
    chance: Floats | None = None
    """(k,) of perturbed tables: how likely the attacker holds the cell to be nearer to the truth than rules require"""

    @property
    def holds(self) -> bool:
        """Whether every sensitive cell is protected, and against everybody who must be thought of."""
        return bool(self.holds_each.all()) and not (self.unproved and len(self.cell))

    @property
    def failing(self) -> Ints:
        """The numbers of the cells that are not."""
        return self.cell[~self.holds_each]

    @property
    def summary(self) -> str:
        """What was found, without values."""
        bad = len(self.failing)
        text = f"Against {self.attacker}: of {len(self.cell):,} sensitive cells {len(self.cell) - bad:,} are protected"
        text += f", {bad:,} are not."
        if self.unproved and len(self.cell):
            text += f" Against {self.unproved} nothing is proved."
        return text + (" The table holds." if self.holds else " The table must not go out like this.")

    def __repr__(self) -> str:
        open_to = f"; nothing proved against {self.unproved}" if self.unproved and len(self.cell) else ""
        return f"ReleasedAudit({len(self.cell)} sensitive cells: {len(self.failing)} not protected{open_to})"


def audit_adjusted(cells: Cells) -> ReleasedAudit:
    """Check that every sensitive cell of an adjusted table is a required level away from the truth.

    A reader who takes the table as it is errs by at least that much (`failing` names cells where it is not so; the
    interval given is the one between truth and release). That is all that is proved. A reader who knows the method
    knows that no sensitive cell shows its true value, which few values it can have instead, and that others change
    little: of small counts that often leaves one. So an adjusted table with sensitive cells never `holds`; it is
    published by a decision that is kept with its reason (`override`).

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> from discretion.tables.released_audit import audit_adjusted
    >>> given = pl.DataFrame({"row": list("aabb"), "col": list("xyxy"), "n": [1, 14, 16, 19]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    >>> audit_adjusted(cells.adjust(seed=1).cells)
    ReleasedAudit(1 sensitive cells: 0 not protected; nothing proved against readers who know how values are adjusted)
    """
    released = _released(cells)
    where = np.flatnonzero(cells.primary)
    truth, shown = cells.value[where], released[where]
    slack = SLACK * np.maximum(np.abs(truth), 1.0)
    change = shown - truth
    far = (change >= cells.upper_required[where] - slack) | (-change >= cells.lower_required[where] - slack)
    moved = np.abs(change) > slack
    low, high = np.minimum(truth, shown), np.maximum(truth, shown)
    who, wiser = "readers who take the values as they are", "readers who know how values are adjusted"
    return ReleasedAudit(cells, where, low, high, far & moved, who, wiser)


def audit_rounded(rounded: Rounded, *, progress: Progress = ignore_progress) -> ReleasedAudit:
    """Compute how closely somebody who knows base and steps can bound the sensitive cells of a rounded table.

    Every true value lies less than (1 + steps) bases from the one shown, true values add up, and none is negative where
    none is shown to be. Many cells are decided by each of a few linear programs, the rest one by one. A level required
    below 0 is cut there; a cell with no level required must only not be found exactly.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> from discretion.tables.released_audit import audit_rounded
    >>> given = pl.DataFrame({"row": list("aabb"), "col": list("xyxy"), "n": [1, 14, 16, 19]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    >>> audit_rounded(cells.round_controlled(5)).holds
    True
    """
    cells, shown = rounded.cells, _released(rounded.cells)
    reach = rounding_reach(cells, rounded.base, rounded.steps)
    bounds = _bounds(cells, shown - reach, shown + reach, progress)
    where = np.flatnonzero(cells.primary)
    holds = bounds.status == "protected"
    return ReleasedAudit(cells, where, bounds.low, bounds.high, holds, "an outsider who knows base and steps")


def audit_perturbed(
    perturbed: Perturbed, *, chance_percent: float = CHANCE_PERCENT, progress: Progress = ignore_progress
) -> ReleasedAudit:
    """Judge noise by what is still learned by somebody who knows its law, but not the keys.

    Two things must hold for every sensitive cell. Noise is bounded, and true values add up: the interval that follows
    by linear programs must be as wide as the rules require (noise at its limit leaves room on one side only: that it is
    at its limit is not known). And the attacker weighs what is likely, beginning with no
    opinion: from the value shown and the law of the noise, and from every sum the cell stands in (parts and total have
    noise of their own, and by how much they miss each other tells of it) follows how likely each value is; for counts
    exactly, for sums with normal noise of the same variance. That the cell lies nearer to the truth than the rules
    require (for counts with the least level: that it is the truth) may seem likely to at most `chance_percent`.

    Does not put together what several sums say about the noise of cells in other sums, nor respondents who know their
    own part. Speaks of this one table: the same cells with other keys, or differences to other tables, tell more.

    References
    ----------
    Giessing & Tent (2019), UNECE/Eurostat work session; Asghar & Kaafar (2020), PoPETs 2020(2); catalogue T6, T8.

    Examples
    --------
    >>> import discretion as dc
    >>> from discretion.tables.released_audit import audit_perturbed
    >>> people = dc.tables.with_record_keys(dc.datasets.census(2000, seed=1), seed=7)
    >>> cells = dc.tabulate(people, ["region", "education"], weight=False, record_key="record_key")
    >>> cells = cells.mark({"region": "north", "education": "basic"}, "unsafe")
    >>> [audit_perturbed(cells.perturb(variance=v, maximum=5)).holds for v in (0.01, 2)]
    [False, True]
    """
    if not 0 < chance_percent <= 100:
        raise PlanError("chance_percent: expected a number above 0 and at most 100")
    cells = perturbed.cells
    where = np.flatnonzero(cells.primary)
    shown = _released(cells)
    low, high = perturbed.possible(shown)
    bounds = _bounds(cells, low, high, progress)
    chance = perturbed.chances(where, cells.lower_required[where], cells.upper_required[where])
    need = cells.lower_required[where] + cells.upper_required[where]
    wide = (bounds.high - bounds.low >= need * (1 - SLACK)) & (bounds.status == "under-protected")
    holds = ((bounds.status == "protected") | wide) & (chance <= chance_percent / 100 + 1e-12)
    who = "an outsider who knows the law of the noise"
    return ReleasedAudit(cells, where, bounds.low, bounds.high, holds, who, chance=chance)


def _released(cells: Cells) -> Floats:
    if cells.status.released is None:
        raise PlanError("the table publishes its true values; there is nothing to compare")
    return cells.status.released


def _bounds(cells: Cells, low: Floats, high: Floats, progress: Progress) -> Bounds:
    """Give what additivity leaves of the sensitive cells when every cell is known to lie between bounds."""
    where = np.flatnonzero(cells.primary)
    floor = -np.inf if (cells.value < 0).any() else 0.0
    attacker = Attacker.on(_system(cells, np.maximum(low, floor) - cells.value, high - cells.value, floor))
    value, lower, upper = cells.value[where], cells.lower_required[where], cells.upper_required[where]
    targets = Targets(
        attacker.system.members[where],
        value,
        np.minimum(lower, value - floor),
        upper,
        idle=np.zeros(len(where), np.bool_),
        whole=whole_numbers(cells),
    )
    certify(attacker, targets, Clock(None, Context(seed=0, step="audit-released", progress=progress)))
    return bounds_of(targets, np.ones(len(where), np.bool_), value, lower, upper)


def _system(cells: Cells, low: Floats, high: Floats, floor: float) -> System:
    """Write down all true tables that bounds of the cells (as deviations from the truth) leave possible."""
    from scipy.sparse import eye_array

    members: Any = cells.x.transposed.to_scipy().tocsr()
    own, n = cells.inner_cell, len(cells.inner_codes)
    below, above = np.full(n, floor) - cells.inner_value, np.full(n, np.inf)
    shown = own >= 0
    below[shown] = np.maximum(below[shown], low[own[shown]])
    above[shown] = high[own[shown]]
    sums = np.setdiff1d(np.arange(len(cells)), own[shown])
    A = members[sums]
    return System(
        A=A,
        row_low=np.minimum(low[sums], 0.0),
        row_high=np.maximum(high[sums], 0.0),
        low=np.minimum(below, 0.0),
        high=np.maximum(above, 0.0),
        spread=eye_array(n, format="csr"),
        block=blocks(A),
        center=cells.value,
        members=members,
    )
