"""Complementary suppression, always followed by the audit."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.context import Context
from discretion.errors import Infeasible, PlanError
from discretion.tables.audit import sums_to_protect
from discretion.tables.engines import Choice, Engine, Optimal, engine_of
from discretion.tables.levels import first_equal
from discretion.tables.optimal import Optimum
from discretion.tables.previous import widened, with_sums

if TYPE_CHECKING:
    from discretion.tables.audit import Audit
    from discretion.tables.cells import Cells

LARGEST = 64.0
"""Multiple of the required levels beyond which no more is asked for."""
NEAR = 0.005
"""Share by which the multiple found may be below the largest one possible."""


def most_protection(cells: Cells, budget: float, cheapest: Callable[[Cells], Optimum]) -> tuple[Optimum, float]:
    """Find the largest multiple of all required levels that costs no more than a budget; give the pattern and it.

    The least cost grows with the levels, so that halving finds the multiple; below 1 the levels are missed by that
    share, which the audit says. Raises `Infeasible` when not even exact disclosure can be prevented for the budget.

    References
    ----------
    Hundepool et al. (2012), Statistical Disclosure Control, chapter 4; catalogue T4.
    """
    if not max(cells.lower_required.max(initial=0.0), cells.upper_required.max(initial=0.0)) > 0:
        raise PlanError("budget: no sensitive cell has a required level that could be multiplied")

    def within(multiple: float) -> Optimum | None:
        scaled = cells.with_status(
            lower_required=multiple * cells.lower_required, upper_required=multiple * cells.upper_required
        )
        try:
            found = cheapest(scaled)
        except Infeasible:
            return None
        return found if found.cost <= budget else None

    best = within(0.0)
    if best is None:
        raise Infeasible(f"budget: {budget:g} is too little to prevent that sensitive cells are computed exactly")
    low, high = 0.0, 1.0
    while high <= LARGEST and (found := within(high)) is not None:
        best, low, high = found, high, 2 * high
    while high <= LARGEST and high - low > NEAR * high:
        middle = (low + high) / 2
        found = within(middle)
        if found is None:
            high = middle
        else:
            best, low = found, middle
    return best, low


FIGURES = (
    "cells", "suppressed", "suppressed_primary", "suppressed_secondary", "suppressed_percent", "suppressed_value",
    "suppressed_value_percent", "mean_interval", "intervals_without_end", "changed", "mean_change",
    "root_mean_square_change", "largest_change", "mean_relative_change_percent", "largest_misfit",
)  # fmt: skip
"""The names of all figures; which of them a table has depends on its protection."""


def loss_of(cells: Cells, audit: Audit | None = None) -> dict[str, float]:
    """Give the information loss of a protected table as figures, each lower when less was lost.

    Suppression: number and value of suppressed cells and their shares, primary and secondary; with an audit the mean
    width of the intervals a reader can compute, and how many have no end. Rounding, adjustment and perturbation: how
    many cells changed, mean, root mean square and largest absolute change, mean change relative to the value (cells of
    0 left out), and by how much totals miss the sums of their parts at most. All are internal: they tell of the truth.

    References
    ----------
    Hundepool et al. (2012), Statistical Disclosure Control, section 4.9; catalogue T9.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> given = pl.DataFrame({"row": list("aabb"), "col": list("xyxy"), "n": [3, 4, 6, 9]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n")
    >>> loss = cells.round_controlled(5).cells.loss()
    >>> loss["largest_change"], loss["suppressed"]
    (3.0, 0)
    """
    hidden = cells.suppressed
    truth = np.nan_to_num(cells.value)
    size = np.abs(truth)
    primary = cells.primary & hidden
    figures: dict[str, float] = {
        "cells": len(cells),
        "suppressed": int(hidden.sum()),
        "suppressed_primary": int(primary.sum()),
        "suppressed_secondary": int((hidden & ~primary).sum()),
        "suppressed_percent": 100 * float(hidden.mean()) if len(cells) else 0.0,
        "suppressed_value": float(size[hidden].sum()),
        "suppressed_value_percent": 100 * float(size[hidden].sum() / size.sum()) if size.any() else 0.0,
    }
    if audit is not None:
        width = audit.high - audit.low
        ended = np.isfinite(width)
        figures["mean_interval"] = float(width[ended].mean()) if ended.any() else 0.0
        figures["intervals_without_end"] = int((~ended).sum())
    if cells.status.released is not None:
        figures.update(_deviations(cells))
    return figures


def _deviations(cells: Cells) -> dict[str, float]:
    released = np.asarray(cells.status.released)
    shown = ~np.isnan(released) & ~np.isnan(cells.value)
    change = np.abs(released - cells.value)[shown]
    size = np.abs(cells.value)[shown]
    changed = change > 1e-9 * np.maximum(size, 1.0)
    filled = size > 0
    misfit = np.abs(cells.relations().dot(released))
    return {
        "changed": int(changed.sum()),
        "mean_change": float(change.mean()) if len(change) else 0.0,
        "root_mean_square_change": float(np.sqrt(np.mean(change**2))) if len(change) else 0.0,
        "largest_change": float(change.max(initial=0.0)),
        "mean_relative_change_percent": 100 * float((change[filled] / size[filled]).mean()) if filled.any() else 0.0,
        "largest_misfit": float(np.nanmax(misfit, initial=0.0)),
    }


ROUNDS = 12
"""How often cells are chosen again because the gaps of a total add up to a sensitive sum."""

AUDIT_SHARE = 0.2
"""Share of an engine's `seconds` that is kept for the audit."""
SHORTEST = 0.01
"""Seconds that an engine or an audit gets at least."""


@dataclass(frozen=True, eq=False, repr=False)
class Protected:
    """A table with its complementary cells suppressed, and what an attacker can still find out."""

    cells: Cells
    """the table, with complementary cells in its status"""
    audit: Audit
    """bounds and status of every suppressed cell"""
    engine: Engine | None
    """the algorithm and its settings; None where the cells were chosen by hand"""
    facts: Mapping[str, Any]
    """what the algorithm says: for `optimal` the cost and the gap to the least cost possible"""

    @property
    def holds(self) -> bool:
        """Whether every sensitive cell is proved to be protected."""
        return self.audit.holds

    def __repr__(self) -> str:
        chosen = self.engine.kind if self.engine else "by hand"
        return f"Protected({chosen}: {int(self.cells.secondary.sum()):,} complementary cells; {self.audit})"


def suppress(
    cells: Cells,
    engine: str | Mapping[str, Any] | Engine = "elimination",
    *,
    cost: Any = None,
    audit: Mapping[str, Any] | None = None,
    ctx: Context | None = None,
    **options: Any,
) -> Protected:
    """Suppress complementary cells so that sensitive cells cannot be computed from others, and audit the result.

    `engine` is `"elimination"` (fast, against exact disclosure), `"levels"` (against bounds too), `"optimal"` (at the
    least cost; small tables), with its fields as options (`singletons=False`, `coalition=2`, `seconds=60`), or an
    engine object. `cost` is what suppressing a cell costs: `"value"`, `"frequency"`, `"unit"` or a number per cell.
    Cells marked must-publish stay (`Infeasible` names those that make protection impossible), preferred ones go first.
    Where the gaps of a published total would add up to a sum that the rules find sensitive (one firm in both gaps of a
    row), cells are chosen again until they do not; with `audit={"rules": ()}` nobody looks at sums. `audit` holds
    options of the audit; where it is known who the respondents are, they attack too. Earlier complementary cells are
    replaced.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> given = pl.DataFrame({"row": list("aaabbb"), "col": list("xyzxyz"), "n": [1, 20, 30, 25, 9, 40]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    >>> cells.suppress("levels")
    Protected(levels: 3 complementary cells; Audit(1 sensitive cell: 1 protected; holds))
    """
    made = engine_of(engine, options)
    ctx = ctx or Context(seed=0, step="suppress")
    _check_values(cells)
    whole = widened(cells.with_status(secondary=np.zeros(len(cells), np.bool_)))
    _check_untold(cells, whole)
    together = made.together(cells)
    made = made if together == (made.coalition or 1) else made.model_copy(update={"coalition": together})
    sums = (audit or {}).get("rules", True)
    clock = _Time(made)
    choice = _with_sums(cells, cost, ctx, clock) if sums is None or sums else _chosen(whole, clock.engine, cost, ctx)
    done = cells.with_status(secondary=choice.secondary[: len(cells)])
    default = {"ctx": ctx.within("audit"), "seconds": clock.for_audit, "coalition": together, "proofs": choice.proofs}
    return Protected(done, done.audit(**{**default, **(audit or {})}), made, choice.facts)


class _Time:
    """What is left of an engine's `seconds`, which hold for all choices together and the audit."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seconds = engine.seconds if isinstance(engine, Optimal) else None
        self._end = np.inf if self._seconds is None else time.monotonic() + self._seconds

    @property
    def over(self) -> bool:
        """Whether there is no time for another choice."""
        return self._seconds is not None and self._left <= 0

    @property
    def _left(self) -> float:
        return float(self._end - AUDIT_SHARE * (self._seconds or 0.0) - time.monotonic())

    @property
    def engine(self) -> Engine:
        """The engine, with the time that is left for it."""
        if self._seconds is None:
            return self._engine
        return self._engine.model_copy(update={"seconds": max(self._left, SHORTEST)})

    @property
    def for_audit(self) -> float | None:
        """The seconds left for the audit."""
        return None if self._seconds is None else max(float(self._end - time.monotonic()), SHORTEST)


def _chosen(whole: Cells, engine: Engine, cost: Any, ctx: Context, last: Choice | None = None) -> Choice:
    if not whole.primary.any():
        return Choice(np.zeros(len(whole), np.bool_))
    price, ctx = _costs(whole, engine.cost if cost is None else cost), ctx.within(engine.kind)
    return engine.choose(whole, price, ctx) if last is None else engine.again(whole, price, ctx, last)


def _with_sums(cells: Cells, cost: Any, ctx: Context, clock: _Time) -> Choice:
    """Choose again, with sums that the last choice would give away as further sensitive cells, until there is none.

    Where that cannot be done, or time is over, the last choice stays, and the audit says what is wrong with it.
    """
    bare = cells.with_status(secondary=np.zeros(len(cells), np.bool_))
    choice = _chosen(widened(bare), clock.engine, cost, ctx)
    for _ in range(ROUNDS):
        found = sums_to_protect(cells, choice.secondary[: len(cells)])
        if found is None or clock.over:
            break
        bare = with_sums(bare, found)
        try:
            choice = _chosen(widened(bare), clock.engine, cost, ctx, choice)
        except Infeasible:
            break
    return choice


def suppress_by_hand(
    cells: Cells, where: Any, *, audit: Mapping[str, Any] | None = None, ctx: Context | None = None
) -> Protected:
    """Suppress complementary cells that a person chose, and audit the result.

    `where` is what `Cells.mark` takes: codes, several of them, a mask, or numbers of cells.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> given = pl.DataFrame({"row": list("aaabbb"), "col": list("xyzxyz"), "n": [1, 20, 30, 25, 9, 40]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    >>> cells.suppress_by_hand({"row": "a", "col": "y"})
    Protected(by hand: 1 complementary cells; Audit(1 sensitive cell: 1 disclosed; fails))
    """
    from discretion.tables.cells import chosen

    ctx = ctx or Context(seed=0, step="suppress")
    done = cells.with_status(secondary=chosen(cells, where) & ~cells.primary)
    return Protected(done, done.audit(**{"ctx": ctx.within("audit"), **(audit or {})}), None, {})


def _costs(whole: Cells, cost: Any) -> Any:
    """Give the costs of a table's cells for the widened one; what is beside it costs nothing."""
    if isinstance(cost, str) or whole.wide is None:
        return cost
    given, m = np.asarray(cost, np.float64), whole.wide.cells
    if given.shape != (m,):
        raise PlanError(f"cost: expected {m} numbers of at least 0, one per cell")
    return np.r_[given, np.zeros(len(whole) - m)]


def _check_untold(cells: Cells, whole: Cells) -> None:
    """Refuse sensitive cells that an earlier release shows: nothing that is done here can protect them."""
    if cells.beside is None:
        return
    first = first_equal(whole)
    out = np.isin(first, first[whole.status.must_publish & (np.arange(len(whole)) >= len(cells))])
    told = np.flatnonzero(cells.primary & out[: len(cells)])
    if len(told):
        where = ", ".join(f"{name}={code}" for name, code in cells.label(int(told[0])).items())
        raise Infeasible(
            f"{len(told)} sensitive cells were published by an earlier release, first ({where}): nothing that is "
            "suppressed here takes that back; mark them safe if it was right to publish them, or leave these codes out"
        )


def _check_values(cells: Cells) -> None:
    if cells.status.released is not None:
        raise PlanError("this table publishes other values than the true ones; suppress first, or do not")
    gaps = int(np.isnan(cells.value).sum())
    if gaps:
        raise PlanError(f"{gaps} cells have no value; complementary cells cannot be chosen, only audited")
