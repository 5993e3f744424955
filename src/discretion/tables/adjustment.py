"""Controlled tabular adjustment: sensitive cells get safe values, the others change as little as possible."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discretion.context import Context, Progress, ignore_progress, new_seed
from discretion.errors import DataError, Infeasible, PlanError
from discretion.kernels.arrays import Bools, Floats
from discretion.solve import Program, ProgramSolution, power_above, solve

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

Weight = Literal["relative", "equal"]

SMALLEST = 1e-9
"""Share of the largest value below which values count as this much when changes are divided by them."""

_TRIES = 8
_SHARE_OF_TIME = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class Adjusted:
    """An adjusted table: additive, with every sensitive cell at least its required level away from the truth."""

    cells: Cells
    """the table; `cells.status.released` are the values to go out"""
    cost: float
    """weighted sum of the absolute changes"""
    gap: float
    """how much smaller, as a share, the cost could be at most; inf when no bound is known"""
    changed: int
    """cells whose value is not the true one"""

    def __repr__(self) -> str:
        known = f", within {100 * self.gap:.3g} % of the best" if np.isfinite(self.gap) else ""
        return f"Adjusted({len(self.cells):,} cells, {self.changed:,} changed{known})"


def adjust(
    cells: Cells,
    *,
    weight: Weight = "relative",
    least_percent: float = 1.0,
    limit_percent: float | None = None,
    spread_percent: float = 100.0,
    whole: bool | None = None,
    seconds: float = 20.0,
    gap: float = 0.05,
    seed: int | None = None,
    progress: Progress = ignore_progress,
) -> Adjusted:
    """Move every sensitive cell up or down beyond its protection level and adjust the others so that all adds up.

    Nothing is suppressed: every cell is shown, with a value near the truth. A sensitive cell goes up by at least its
    upper or down by at least its lower required level (at least `least_percent` of its value; counts at least 1). All
    sums hold, nothing becomes negative, empty cells stay empty (cells of 0 that somebody is in may grow, and do where
    they are sensitive), cells that must be published keep their value, and others change by at most `limit_percent` of
    theirs. The sum of changes is made small: each divided by the value (`weight="relative"`) or as it is (`"equal"`);
    costs given to the table take the place of both. Counts stay whole.

    By how much and in which direction a sensitive cell moves is drawn from `seed`, a secret: uniformly between its
    level and `spread_percent` more, up or down with equal chance; `Adjusted.gap` refers to what was drawn. Were it the
    least change, the truth could be computed from the value shown (0.7 or 1.3 of it, with a level of 30 percent). Where
    no table adds up with the directions drawn, the program chooses them. `spread_percent=0` makes the least change:
    directions are fixed by a relaxed program and then by chance; the best starts a mixed program over all directions
    that ends when it is within the share `gap` of the best or when `seconds` are over: `Adjusted.gap` says how far it
    came.

    Does not protect cells that no rule found sensitive, nor against a reader who knows the method: a sensitive cell is
    never shown with its true value nor with one near it, and how many people must be near which value can tell the
    truth (a count of 1 that is shown is not 1). `audit_adjusted` says so and does not hold. Time of a few linear
    programs, and at most `seconds`.

    References
    ----------
    Dandekar & Cox (2002), Synthetic tabular data; Castro (2006), European J. Oper. Res. 171(1); Hundepool et al.
    (2012), section 4.8; catalogue T6.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> firms = pl.DataFrame({"region": list("AAABBB"), "sector": list("xyyxxy"), "turnover": [90, 20, 30, 25, 20, 40]})
    >>> cells = dc.tabulate(firms, ["region", "sector"], "turnover").apply_rules([dc.Dominance(n=1, percent=80)])
    >>> adjusted = cells.adjust(seed=1)
    >>> released = adjusted.cells.status.released
    >>> bool((abs(released - cells.value)[cells.primary] >= cells.upper_required[cells.primary]).all())
    True
    """
    problem = _problem(cells, weight, least_percent, limit_percent, whole)
    if not 0 <= gap < 1 or seconds <= 0 or not 0 <= spread_percent < float("inf"):
        raise PlanError("expected a gap of at least 0 and below 1, seconds above 0 and a spread of at least 0")
    end = time.monotonic() + seconds
    ctx = Context(new_seed() if seed is None else seed, "adjust", progress)
    ctx = cells.drawing(ctx, weight, least_percent, limit_percent, whole, spread_percent)
    if spread_percent > 0 and problem.sensitive.any():
        problem, drawn = _drawn(problem, ctx, spread_percent / 100, end)
        if drawn is not None:
            return _result(cells, problem, drawn, drawn.bound)
    best, bound = _fixed_senses(problem, ctx.within("directions"), seconds)
    if bound < float("inf") and (best is None or _gap(best, bound) > gap):
        mixed = _all_senses(problem, best, end - time.monotonic(), gap, progress)
        bound = max(bound, mixed.bound)
        if mixed.found and (best is None or mixed.objective < best.objective):
            best = mixed
        if best is None and mixed.state == "unknown":
            raise Infeasible(f"no adjusted table was found in {seconds:g} seconds; allow more `seconds`")
    if best is None:
        raise _why_not(cells, problem)
    return _result(cells, problem, best, bound)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Changes z = up − down of m cells: sums·z = 0, bounds, and the least change of sensitive cells on each side.

    Amounts are in units in which the solver's tolerances mean something.
    """

    unit: float
    sums: Any
    value: Floats
    cost: Floats
    most_up: Floats
    most_down: Floats
    sensitive: Bools
    need_up: Floats
    need_down: Floats
    whole: bool

    @property
    def m(self) -> int:
        return len(self.value)


def _problem(cells: Cells, weight: Weight, least: float, limit: float | None, whole: bool | None) -> _Problem:
    value, status = cells.value, cells.status
    if np.isnan(value).any():
        raise DataError(f"{int(np.isnan(value).sum())} cells have no value; a table with gaps cannot be adjusted")
    if weight not in ("relative", "equal") or least < 0 or (limit is not None and limit < 0):
        raise PlanError("expected weight 'relative' or 'equal', and percentages of at least 0")
    counts = cells.response.frequency and bool((value == np.round(value)).all())
    whole = counts if whole is None else whole
    if whole and not (value == np.round(value)).all():
        raise PlanError("whole: the values of the table are not whole numbers")
    size = np.abs(value)
    filled = (size > 0) | ((cells.count > 0) & cells.response.counted)
    reach = np.where(filled, np.maximum(size.max(initial=0.0), 1.0), 0.0)
    limited = reach if limit is None else np.minimum(reach, size * limit / 100)
    typical = np.where(size > 0, size, size[size > 0].min(initial=1.0))  # a cell of 0 moves like the smallest of others
    floor = np.maximum(typical * least / 100, 1.0 if whole else 0.0)
    need_up = np.where(cells.primary, np.maximum(cells.upper_required, floor), 0.0)
    need_down = np.where(cells.primary, np.maximum(cells.lower_required, floor), 0.0)
    if whole:
        need_up, need_down, limited = np.ceil(need_up - 1e-9), np.ceil(need_down - 1e-9), np.floor(limited + 1e-9)
    limited = np.where(cells.primary, reach, limited)
    limited = np.where(status.must_publish, 0.0, limited)
    cost = status.cost if status.cost is not None else np.ones(len(value))
    if status.cost is None and weight == "relative":
        cost = 1.0 / np.maximum(typical, max(size.max(initial=0.0) * SMALLEST, 1e-300))
    unit = 1.0 if whole else power_above(value)
    return _Problem(
        unit=unit,
        sums=cells.relations().to_scipy(),
        value=value / unit,
        cost=cost * unit,
        most_up=np.where(value < 0, np.minimum(limited, size), limited) / unit,
        most_down=np.where(value >= 0, np.minimum(limited, size), limited) / unit,
        sensitive=cells.primary & filled,
        need_up=need_up / unit,
        need_down=need_down / unit,
        whole=whole,
    )


def _drawn(problem: _Problem, ctx: Context, spread: float, end: float) -> tuple[_Problem, ProgramSolution | None]:
    """Draw how far and in which direction sensitive cells move; give the first draw that a table adds up with.

    Draws that fail are repeated, then with half the spread; the last amounts drawn are given where none succeeds.
    """
    rng, wider = ctx.rng, problem
    can_up, can_down = problem.need_up <= problem.most_up, problem.need_down <= problem.most_down
    for number in range(_TRIES):
        ctx.progress(number, _TRIES, "adjusting: amounts and directions of sensitive cells")
        share = spread / (1 << (number // 2))
        up = rng.random(problem.m) < 0.5
        wider = replace(
            problem,
            need_up=_amounts(problem.need_up, problem.most_up, share, problem, rng),
            need_down=_amounts(problem.need_down, problem.most_down, share, problem, rng),
        )
        found = solve(
            _with_senses(wider, (up | ~can_down) & can_up), seconds=max(end - time.monotonic(), 0.5), gap=0.01
        )
        if found.found:
            return wider, found
        if time.monotonic() > end:
            break
    return wider, None


def _amounts(need: Floats, most: Floats, share: float, problem: _Problem, rng: np.random.Generator) -> Floats:
    """Draw amounts between what is needed and so much more, as far as cells can move; whole where values are."""
    u = rng.random(len(need))
    if problem.whole:
        room = np.maximum(np.floor(need * share), 1.0)
        drawn = need + np.floor(u * (room + 1))
    else:
        drawn = need * (1 + share * u)
    return np.where(problem.sensitive & (need <= most), np.minimum(drawn, most), need)


def _all_senses(
    problem: _Problem, best: ProgramSolution | None, seconds: float, gap: float, progress: Progress
) -> ProgramSolution:
    """Let the program choose the directions too, starting from the best that was found."""
    start = None if best is None else _start(problem, best)
    program = _directions(problem, whole=True)
    return solve(program, seconds=max(seconds, 0.1), gap=gap, start=start, progress=progress, label="adjusting")


def _fixed_senses(problem: _Problem, ctx: Context, seconds: float) -> tuple[ProgramSolution | None, float]:
    """Try several choices of directions, each a linear program; give the best found and a bound on the cost.

    The bound is infinite when it is proven that no directions will do.
    """
    end = time.monotonic() + _SHARE_OF_TIME * seconds
    can_up, can_down = problem.need_up <= problem.most_up, problem.need_down <= problem.most_down
    if (problem.sensitive & ~can_up & ~can_down).any():
        return None, float("inf")
    relaxed = solve(_directions(problem, whole=False), seconds=seconds, progress=ctx.progress, label="adjusting")
    if relaxed.state == "infeasible":
        return None, float("inf")
    leaning = relaxed.x[2 * problem.m :] if relaxed.found else np.full(int(problem.sensitive.sum()), 0.5)
    best, rng = None, ctx.rng
    for number in range(_TRIES):
        ctx.progress(number, _TRIES, "adjusting: directions of sensitive cells")
        up = np.zeros(problem.m, np.bool_)
        up[problem.sensitive] = leaning >= 0.5 if number == 0 else rng.random(len(leaning)) < 0.25 + 0.5 * leaning
        program = _with_senses(problem, (up | ~can_down) & can_up)
        found = solve(program, seconds=max(end - time.monotonic(), 0.5), gap=0.01)
        if found.found and (best is None or found.objective < best.objective):
            best = found
        if time.monotonic() > end:
            break
    return best, relaxed.bound if relaxed.found else -float("inf")


def _gap(found: ProgramSolution, bound: float) -> float:
    """Give how much smaller, as a share, the cost could be."""
    if found.objective <= 0:
        return 0.0
    return max(found.objective - bound, 0.0) / found.objective


def _start(problem: _Problem, found: ProgramSolution) -> Floats:
    """Give a solution with fixed directions as one of the program over all directions."""
    m = problem.m
    up = found.x[:m][problem.sensitive] > 0
    return np.concatenate((found.x[: 2 * m], up.astype(np.float64)))


def _with_senses(problem: _Problem, up: Bools) -> Program:
    """Minimize the changes when the direction of every sensitive cell is given."""
    from scipy.sparse import hstack

    s = problem.sensitive
    low_up, low_down = np.where(s & up, problem.need_up, 0.0), np.where(s & ~up, problem.need_down, 0.0)
    high_up, high_down = np.where(s & ~up, 0.0, problem.most_up), np.where(s & up, 0.0, problem.most_down)
    none = np.zeros(problem.sums.shape[0])
    whole = np.ones(2 * problem.m, np.bool_) if problem.whole else None
    return Program(
        hstack([problem.sums, -problem.sums], format="csr"),
        np.concatenate((low_up, low_down)),
        np.concatenate((high_up, high_down)),
        np.concatenate((problem.cost, problem.cost)),
        none,
        none,
        whole,
    )


def _directions(problem: _Problem, *, whole: bool) -> Program:
    """Minimize the changes over all directions: b = 1 is up. need·b ≤ up ≤ most·b and the same for down and 1 − b."""
    from scipy.sparse import block_array, csr_array, diags_array

    cells = np.flatnonzero(problem.sensitive)
    k, m = len(cells), problem.m
    pick = csr_array((np.ones(k), (np.arange(k), cells)), shape=(k, m))
    up, down = problem.need_up[cells], problem.need_down[cells]
    far_up, far_down = problem.most_up[cells], problem.most_down[cells]
    A = block_array(
        [
            [problem.sums, -problem.sums, None],
            [pick, None, -diags_array(up)],
            [pick, None, -diags_array(far_up)],
            [None, pick, diags_array(down)],
            [None, pick, diags_array(far_down)],
        ],
        format="csr",
    )
    none, open_end = np.zeros(problem.sums.shape[0]), np.full(k, np.inf)
    integer = np.concatenate((np.full(2 * m, problem.whole), np.ones(k, np.bool_))) if whole else None
    return Program(
        A,
        np.concatenate((np.zeros(2 * m), np.where(down > far_down, 1.0, 0.0))),
        np.concatenate((problem.most_up, problem.most_down, np.where(up > far_up, 0.0, 1.0))),
        np.concatenate((problem.cost, problem.cost, np.zeros(k))),
        np.concatenate((none, np.zeros(k), -open_end, down, -open_end)),
        np.concatenate((none, open_end, np.zeros(k), open_end, far_down)),
        integer,
    )


def _why_not(cells: Cells, problem: _Problem) -> Infeasible:
    """Say what forbids an adjustment: cells that must be published, limits, or the table itself."""
    fixed = int((cells.status.must_publish & (problem.value != 0)).sum())
    if fixed:
        free = _problem(cells.with_status(must_publish=np.zeros(len(cells), np.bool_)), "relative", 0.0, None, None)
        relaxed = solve(_directions(free, whole=False), seconds=10.0)
        if relaxed.found:
            return Infeasible(
                f"sensitive cells cannot move while {fixed} cells that must be published keep their values; "
                "let some of them change"
            )
    return Infeasible(
        "no table adds up in which every sensitive cell moves far enough; raise `limit_percent`, let cells change that "
        "must be published, or use suppression"
    )


def _result(cells: Cells, problem: _Problem, best: ProgramSolution, bound: float) -> Adjusted:
    m = problem.m
    change = best.x[:m] - best.x[m : 2 * m]
    if problem.whole:
        change = np.round(change)
    released = (problem.value + change) * problem.unit
    published = cells.inner_cell
    if (published >= 0).all():  # totals as sums of the inner cells: exact, whatever the solver's accuracy
        released = np.where(cells.status.must_publish, released, cells.x.transposed.dot(released[published]))
    value = problem.value * problem.unit
    released = np.clip(released, np.where(value >= 0, 0.0, -np.inf), np.where(value < 0, 0.0, np.inf))
    changed = int((np.abs(released - value) > 1e-9 * np.maximum(np.abs(value), problem.unit)).sum())
    return Adjusted(cells.with_released(released), best.objective, _gap(best, bound), changed)
