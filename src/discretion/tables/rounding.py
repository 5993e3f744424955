"""Random rounding: every cell up or down to a multiple of a base, right on average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from discretion.context import Context, new_seed
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

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
    return Rounded(cells.with_released(released), base, steps, totals == "added", moved=moved)


def _steps(cells: Cells, released: Floats, base: float) -> int:
    low, above = parts(cells.value, base)
    place = np.round(released / base)
    return int(np.maximum(low - place, place - low - (above > 0)).max(initial=0))


def check_base(cells: Cells, base: float) -> None:
    """Refuse a base that is not positive, and tables with unknown values."""
    if not np.isfinite(base) or base <= 0:
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
