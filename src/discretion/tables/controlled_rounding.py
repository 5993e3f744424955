"""Controlled rounding: multiples of a base that still add up, as near to the truth as possible."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from discretion.context import Progress, ignore_progress
from discretion.errors import Infeasible, PlanError
from discretion.kernels.arrays import Floats
from discretion.tables.integer_program import Program, ProgramSolution, solve
from discretion.tables.rounding import Rounded, check_base, parts, rounding_reach

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

PREFERENCE = 1000.0
"""How many bases of change elsewhere are accepted so that a sensitive cell goes to the neighbor that protects it."""

LARGEST = 2.0**50
"""Largest multiple of a base that is still exact."""


def round_controlled(
    cells: Cells,
    base: float,
    *,
    max_steps: int = 3,
    seconds: float = 60.0,
    gap: float = 0.0,
    progress: Progress = ignore_progress,
) -> Rounded:
    """Round every cell to a multiple of a base so that totals stay the sums of their parts, changing least.

    First every value may go only to one of its two neighboring multiples, and multiples stay (zero-restricted).
    In tables of two variables the linear program has a whole solution; in others whole numbers are asked for, and it
    may be proven that there is none: `impossible` says so, and values may then move one step further, and so on up to
    `max_steps`. Empty cells stay empty, nothing becomes negative. Sensitive cells go, where they can, to a neighbor
    whose interval protects them; then the sum of absolute changes is the smallest, to within the share `gap`. When
    `seconds` have passed the best table found is given with its gap.

    Gives an attacker who knows the base an interval of two bases (more with steps) around each value, narrowed by what
    the table adds up to. The nearest table is chosen, not a random one: repeated publication tells nothing new.
    Does not hide that a cell is empty. Fast for two variables (2,600 cells: a tenth of a second); a program of whole
    numbers may take exponential time.

    References
    ----------
    Cox & Ernst (1982), INFOR 20(4); Salazar-González (2006), Computers & OR 33(12); Hundepool et al. (2012), section
    5.4.3; catalogue T5.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> given = pl.DataFrame({"row": list("aabb"), "col": list("xyxy"), "n": [3, 4, 6, 9]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n")
    >>> rounded = cells.round_controlled(5)
    >>> rounded.steps, float(abs(cells.relations().dot(rounded.cells.status.released)).max())
    (0, 0.0)
    """
    check_base(cells, base)
    if max_steps < 0 or seconds <= 0 or not 0 <= gap < 1:
        raise PlanError("expected max_steps of at least 0, seconds above 0, and a gap of at least 0 and below 1")
    low, above = parts(cells.value, base)
    if np.abs(low).max(initial=0.0) > LARGEST:
        raise PlanError(f"base: {base:g} is too small for values of this size")
    end = time.monotonic() + seconds
    impossible: list[int] = []
    for steps in range(max_steps + 1):
        left = max(end - time.monotonic(), 0.0)
        found = _solved(cells, base, low, above, steps, left, gap, progress)
        if found.found:
            return _result(cells, base, low, found, steps, impossible)
        if found.state == "unknown":
            raise Infeasible(_undecided(base, steps, seconds))
        impossible.append(steps)
    raise Infeasible(
        f"it is proven that no table of multiples of {base:g} adds up when values move at most {max_steps} steps "
        "beyond their neighbors; allow more with `max_steps`, or use another base"
    )


def _undecided(base: float, steps: int, seconds: float) -> str:
    return (
        f"no rounding to base {base:g} with {steps} steps was found in {seconds:g} seconds, and it is not proven "
        "that there is none; allow more `seconds`, or use another base"
    )


def _solved(
    cells: Cells, base: float, low: Floats, above: Floats, steps: int, seconds: float, gap: float, progress: Progress
) -> ProgramSolution:
    """Choose a move for each cell: the linear program first, whole numbers only where it is not whole already."""
    program = _program(cells, base, low, above, steps)
    label = f"controlled rounding, {steps} steps"
    relaxed = solve(program, seconds=max(seconds, 1e-3), progress=progress, label=label)
    if relaxed.state == "infeasible" or (relaxed.state == "optimal" and relaxed.is_whole()):
        return relaxed
    whole = Program(**{**vars(program), "whole": np.ones(len(program.cost), np.bool_)})
    return solve(whole, seconds=max(seconds, 1e-3), gap=gap, progress=progress, label=label)


def _program(cells: Cells, base: float, low: Floats, above: Floats, steps: int) -> Program:
    """Give the moves in units of the base: up to the upper neighbor (0 or 1), and with steps further up and down.

    Going up from r above a multiple changes the error from r to base − r; every further step costs a base.
    """
    from scipy.sparse import hstack

    sums = cells.relations().to_scipy()
    rest = -(sums @ low)
    m = len(low)
    free = (above > 0).astype(np.float64)
    cost = (base - 2 * above) / base + PREFERENCE * _preference(cells, base, low, steps) * free
    columns, lows, highs, costs = [sums], [np.zeros(m)], [free], [cost]
    if steps:
        filled = cells.value != 0
        up = np.where(filled, float(steps), 0.0)
        down = np.where(cells.value > 0, np.minimum(low, steps), up)
        columns += [sums, -sums]
        lows += [np.zeros(m), np.zeros(m)]
        highs += [np.where(cells.value < 0, np.minimum(-low - free, steps), up), down]
        costs += [np.ones(m), np.ones(m)]
    A = hstack(columns, format="csr") if steps else sums
    return Program(A, np.concatenate(lows), np.concatenate(highs), np.concatenate(costs), rest, rest)


def _preference(cells: Cells, base: float, low: Floats, steps: int) -> Floats:
    """Give 1 for sensitive cells that only the lower neighbor protects, −1 for those that only the upper one does.

    A neighbor protects when the interval around it, which everybody knows the true value to be in, is wide enough.
    """
    reach = rounding_reach(cells, base, steps)
    floor = -np.inf if (cells.value < 0).any() else 0.0
    need_low = np.maximum(cells.value - cells.lower_required, floor)
    need_high = cells.value + cells.upper_required
    down, up = (
        (np.maximum(shown - reach, floor) <= need_low) & (shown + reach >= need_high)
        for shown in (low * base, (low + 1) * base)
    )
    wanted: Floats = np.where(cells.primary, 1.0 * (down & ~up) - 1.0 * (up & ~down), 0.0)
    return wanted


def _result(
    cells: Cells, base: float, low: Floats, found: ProgramSolution, steps: int, impossible: list[int]
) -> Rounded:
    m = len(cells)
    moves = np.round(found.x)
    place = low + moves[:m]
    if steps:
        place += moves[m : 2 * m] - moves[2 * m :]
    released = place * base
    if np.abs(cells.relations().dot(place)).max(initial=0.0) > 0:
        raise Infeasible("the rounded table does not add up: the solver's accuracy does not suffice; use a larger base")
    moved = float(np.abs(released - cells.value).sum())
    unit = base * (found.objective - found.bound)
    share = max(unit, 0.0) / moved if moved else 0.0
    return Rounded(cells.with_released(released), base, steps, True, tuple(impossible), moved, share)
