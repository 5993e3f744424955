"""The most protection that a given loss of information can buy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from discretion.errors import Infeasible, PlanError
from discretion.tables.optimal import Optimum

if TYPE_CHECKING:
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
