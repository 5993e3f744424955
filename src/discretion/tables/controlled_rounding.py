"""Controlled rounding: multiples of a base that still add up, as near to the truth as possible."""

from __future__ import annotations

import time
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Literal

import numpy as np

from discretion.context import Context, Progress, ignore_progress, new_seed
from discretion.errors import DataError, Infeasible, PlanError
from discretion.kernels.arrays import Floats
from discretion.solve import Program, ProgramSolution, solve

if TYPE_CHECKING:
    from discretion.tables.cells import Cells


# Random rounding: every cell up or down to a multiple of a base, right on average.


EXACT = 1e-9
"""Share of a base by which a value may miss a multiple of it through floating-point rounding."""


@dataclass(frozen=True, eq=False, repr=False)
class Rounded:
    """A rounded table and how it came about."""

    cells: Cells
    """the table; `cells.status.released` are the values to go out"""
    base: float
    """all values that go out are multiples of it"""
    steps: int
    """how many multiples beyond the two neighbors a value may have been moved; 0: it is one of the neighbors"""
    additive: bool
    """whether totals are the sums of their parts"""
    impossible: tuple[int, ...] = ()
    """numbers of steps for which it is proven that no additive rounding exists"""
    moved: float = 0.0
    """sum of the absolute changes"""
    gap: float = 0.0
    """how much smaller, as a share, that sum could be at most"""
    inner: bool = False
    """whether only inner cells were rounded, each to a neighbor, and all others are their sums"""

    def __repr__(self) -> str:
        kind = "additive" if self.additive else "not additive"
        beyond = f", up to {self.steps} steps beyond the neighbors" if self.steps else ""
        return f"Rounded({len(self.cells):,} cells to base {self.base:g}; {kind}{beyond})"


def round_random(
    cells: Cells,
    base: float,
    *,
    totals: Literal["independent", "added"] = "independent",
    keys: bool = False,
    seed: int | None = None,
) -> Rounded:
    """Round every cell to a neighboring multiple of a base by chance, so that it is right on average.

    A value r above a multiple goes up with probability r/base; multiples stay. Draws are independent: with
    `totals="independent"` totals are rounded like all cells and are not the sums of their parts (each is within one
    base of the truth); with `totals="added"` only inner cells are rounded and totals are their sums, additive but
    further from the truth (the error grows with the root of the number of parts). With `keys` the cell keys of the
    table decide instead of new draws, so that a cell that several tables show is rounded the same way in all of them.
    With the same `seed` the same table is rounded alike again; another base or another table draws independently.

    Gives an attacker an interval of two bases around each value. Somebody who sees the same cell rounded several times
    independently learns more: use `keys`, or publish once. Does not see that a total and its parts narrow each other
    (not additive tables do): see `round_controlled` for tables that add up. O(cells).

    References
    ----------
    Nargundkar & Saveland (1972), Proc. Social Statistics Section, ASA; Hundepool et al. (2012), section 5.4.1;
    catalogue T5.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> given = pl.DataFrame({"town": ["A", "B", "C"], "people": [2, 7, 10]})
    >>> rounded = dc.tables.from_cells(given, ["town"], count="people").round_random(5, seed=1)
    >>> sorted(set((rounded.cells.status.released % 5).tolist())), rounded.additive
    ([0.0], False)
    """
    check_base(cells, base)
    if totals not in ("independent", "added"):
        raise PlanError("totals: expected 'independent' or 'added'")
    if keys and totals == "added":
        raise PlanError("keys: cell keys round every cell by itself; use totals='independent'")
    if totals == "added":
        inner = _rounded(cells.inner_value, base, _draws(cells, len(cells.inner_codes), seed, base, totals))
        released = np.round(cells.x.transposed.dot(inner / base)) * base
    else:
        released = _rounded(cells.value, base, _keys(cells) if keys else _draws(cells, len(cells), seed, base, totals))
    moved = float(np.abs(released - cells.value).sum())
    steps = _steps(cells, released, base) if totals == "added" else 0
    return Rounded(cells.with_released(released), base, steps, totals == "added", moved=moved, inner=totals == "added")


def _steps(cells: Cells, released: Floats, base: float) -> int:
    low, above = parts(cells.value, base)
    place = np.round(released / base)
    return int(np.maximum(low - place, place - low - (above > 0)).max(initial=0))


def check_base(cells: Cells, base: float) -> None:
    """Refuse a base that is not positive, and tables with unknown values."""
    if not isinstance(base, Real) or not np.isfinite(base) or base <= 0:
        raise PlanError(f"base: expected a number above 0, got {base!r}")
    gaps = int(np.isnan(cells.value).sum())
    if gaps:
        raise DataError(f"{gaps} cells have no value; a table that is partly suppressed cannot be rounded")


def rounding_reach(cells: Cells, base: float, steps: int) -> float:
    """Tell how far from the value shown the true one can be: less than (1 + steps) bases, for whole numbers 1 less."""
    counts = cells.response.frequency and bool((cells.value == np.round(cells.value)).all())
    return (1 + steps) * base - (1.0 if counts and base == np.round(base) else 0.0)


def parts(value: Floats, base: float) -> tuple[Floats, Floats]:
    """Give the multiple of the base at or below each value (as a whole number), and what is above it."""
    scaled = value / base
    near = np.round(scaled)
    exact = np.abs(scaled - near) <= EXACT * np.maximum(1.0, np.abs(scaled))
    low = np.where(exact, near, np.floor(scaled))
    above: Floats = np.where(exact, 0.0, value - low * base)
    return low, above


def _rounded(value: Floats, base: float, draws: Floats) -> Floats:
    low, above = parts(value, base)
    up = draws < above / base
    released: Floats = (low + up) * base
    return released


def _draws(cells: Cells, n: int, seed: int | None, *settings: object) -> Floats:
    ctx = cells.drawing(Context(new_seed() if seed is None else seed, "round-random"), *settings)
    draws: Floats = ctx.rng.random(n)
    return draws


def _keys(cells: Cells) -> Floats:
    if cells.key is None:
        raise PlanError("keys: the table has no cell keys; tabulate with `record_key`")
    return cells.key


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
