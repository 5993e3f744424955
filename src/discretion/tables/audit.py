"""The audit: is every sensitive cell of a table with gaps protected against those who can add and subtract?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context, Progress, ignore_progress
from discretion.errors import PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.solve import RAY, Matrix
from discretion.tables.attacker import Attacker, Found, Prior, System, blocks
from discretion.tables.controlled_rounding import rounding_reach
from discretion.tables.engines import at_least_ruled
from discretion.tables.previous import Forms, told_apart, widened, widened_prior

if TYPE_CHECKING:
    import polars as pl

    from discretion.tables.audit_insiders import Proof
    from discretion.tables.cell_key import Perturbed
    from discretion.tables.cells import Cells
    from discretion.tables.controlled_rounding import Rounded
    from discretion.tables.rules.rule import Rule

STATES = ("protected", "under-protected", "disclosed", "undecided")
"""What a sensitive cell can be; only the first is good."""


@dataclass(frozen=True, eq=False, repr=False)
class Bounds:
    """What the attacker finds out about each of several cells or sums."""

    low: Floats
    """smallest value the attacker must hold possible"""
    high: Floats
    """largest value"""
    low_exact: Bools
    """whether `low` was computed to the end (otherwise the true bound may lie lower)"""
    high_exact: Bools
    """whether `high` was"""
    status: NDArray[np.str_]
    """protected, under-protected, disclosed, undecided; complementary for cells that need no protection themselves"""
    short: Floats
    """by how much the protection falls short, on the worse side"""

    def count(self, status: str) -> int:
        """Count the entries with a status."""
        return int((self.status == status).sum())

    def chosen(self, which: Bools) -> Bounds:
        """Give some of them."""
        return Bounds(*(values[which] for values in vars(self).values()))

    def __repr__(self) -> str:
        return f"Bounds({len(self.status)} intervals)"


@dataclass(frozen=True, eq=False, repr=False)
class Sums:
    """Sums of suppressed cells that are sensitive by the rules themselves."""

    members: tuple[tuple[int, ...], ...]
    """the numbers of the cells that are added up"""
    value: Floats
    bounds: Bounds
    examined: int
    """sums the rules were tried on"""


@dataclass(frozen=True, eq=False, repr=False)
class Unpublished:
    """Sums that no table shows: differences of published cells, and what earlier releases suppressed."""

    labels: tuple[str, ...]
    """who they are, by codes; for the office"""
    value: Floats
    bounds: Bounds
    judged: int
    """small differences that the rules looked at"""
    complete: bool
    """whether these were all"""
    earlier: tuple[str, ...]
    """releases that the attacker has besides"""
    notes: tuple[str, ...] = ()
    """what is known of them"""
    tried: bool = True
    """whether all combinations of three and more tables were tried"""

    @property
    def holds(self) -> bool:
        """Whether all are proved to be protected, and none was left out."""
        return self.complete and self.tried and bool((self.bounds.status == "protected").all())

    @property
    def summary(self) -> str:
        """What was found, in a sentence, without values."""
        number = len(self.labels)
        bad = number - self.bounds.count("protected")
        text = f" Differences of published cells that were judged: {self.judged:,}." if self.judged else ""
        text += "" if self.complete else " There are more than can be listed."
        if not self.tried:
            text += (
                " Of combinations of three and more tables only some were tried, and the smallest groups in them: it "
                "is not known whether larger ones hold; publish fewer tables together, or let rules ask for less."
            )
        if number:
            text += f" Sensitive sums that no table shows: {number:,}, not protected: {bad:,}."
        return "".join((text, *(f" {note[:1].upper()}{note[1:]}." for note in self.notes)))


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The result of an audit: bounds and status of every suppressed cell. The repr shows counts only."""

    cells: Cells
    cell: Ints
    """(k,) the numbers of the suppressed cells"""
    bounds: Bounds
    """(k,) what the attacker finds out about them; of several attackers, the worst"""
    sums: Sums | None
    """sums of suppressed cells, where rules were given to judge them"""
    attacker: str
    """who attacked, in words"""
    programs: int
    """linear programs solved"""
    seconds_more: float | None = None
    """where time was over before every cell was decided: about how many seconds more it would take at the same pace"""
    worst: tuple[Any, ...] = ()
    """(k,) with contributors as attackers: one of those for whom a cell fails worse than for an outsider (labels)"""
    unpublished: Unpublished | None = None
    """sums that no table shows, where there are several tables or earlier releases"""

    @property
    def status(self) -> NDArray[np.str_]:
        """(k,) protected, under-protected, disclosed, undecided or complementary."""
        return self.bounds.status

    @property
    def low(self) -> Floats:
        """(k,) lower bounds."""
        return self.bounds.low

    @property
    def high(self) -> Floats:
        """(k,) upper bounds."""
        return self.bounds.high

    @property
    def exact(self) -> Bools:
        """(k,) whether both bounds were computed to the end; otherwise the true interval may be wider."""
        return self.bounds.low_exact & self.bounds.high_exact

    @property
    def counts(self) -> dict[str, int]:
        """How many sensitive cells have each status."""
        return {state: self.bounds.count(state) for state in STATES}

    @property
    def failing(self) -> Ints:
        """The numbers of the cells that are not proved to be protected."""
        return self.cell[np.isin(self.status, STATES[1:])]

    @property
    def holds(self) -> bool:
        """Whether every sensitive cell, and every sensitive sum, is proved to be protected."""
        sums = self.sums is None or bool((self.sums.bounds.status == "protected").all())
        return not len(self.failing) and sums and (self.unpublished is None or self.unpublished.holds)

    def of(self, cell: int) -> tuple[float, float]:
        """Give the bounds of one cell; both are its value when it is published."""
        found = np.flatnonzero(self.cell == cell)
        if not len(found):
            return float(self.cells.value[cell]), float(self.cells.value[cell])
        return float(self.low[found[0]]), float(self.high[found[0]])

    @property
    def loss(self) -> dict[str, float]:
        """Information loss (T9): cells and value suppressed, their shares, mean width of the intervals."""
        cells, hidden = self.cells, self.cells.suppressed
        size = np.abs(np.nan_to_num(cells.value))
        width = self.high - self.low
        finite = np.isfinite(width)
        return {
            "cells": len(cells),
            "primary": int(cells.primary.sum()),
            "secondary": int((hidden & ~cells.primary).sum()),
            "primary_value": float(np.nan_to_num(cells.value)[cells.primary].sum()),
            "secondary_value": float(np.nan_to_num(cells.value)[hidden & ~cells.primary].sum()),
            "suppressed_share": float(hidden.mean()) if len(cells) else 0.0,
            "suppressed_value_share": float(size[hidden].sum() / size.sum()) if size.sum() > 0 else 0.0,
            "mean_width": float(width[finite].mean()) if finite.any() else 0.0,
            "unbounded": int((~finite).sum()),
            "widths_exact": bool(self.exact.all()),
        }

    @property
    def summary(self) -> str:
        """What was found, in one or two sentences, without values."""
        judged = sum(self.counts.values())
        found = ", ".join(f"{number:,} {state}" for state, number in self.counts.items() if number) or "none"
        text = f"Against {self.attacker}: {judged:,} sensitive {_cells(judged)}: {found}."
        if self.sums is None:
            judges = any(rule.few() for rule in self.cells.rules) and len(self.cell)
            text += " Sums of suppressed cells were not judged." if judges else ""
        elif self.sums.examined:
            bad = len(self.sums.members) - self.sums.bounds.count("protected")
            text += (
                f" Of {self.sums.examined:,} sums of suppressed cells {len(self.sums.members):,} are sensitive "
                f"themselves, {bad:,} of them not protected."
            )
            if bad:
                text += " Remedy: suppress again with an engine, which adds a gap to their rows, or let more cells go."
        if self.unpublished is not None:
            text += self.unpublished.summary
        elif self.cells.source is None and (self.cells.inner_cell < 0).any():
            text += " Differences between the linked tables were not judged: that takes the records."
        if self.seconds_more is not None:
            text += f" Time was over: at the same pace the rest would take about {self.seconds_more:,.0f} seconds more."
        return text + (" The table holds." if self.holds else " The table must not go out like this.")

    def __repr__(self) -> str:
        judged = sum(self.counts.values())
        found = ", ".join(f"{number:,} {state}" for state, number in self.counts.items() if number) or "none"
        return f"Audit({judged:,} sensitive {_cells(judged)}: {found}; {'holds' if self.holds else 'fails'})"

    def to_dict(self) -> dict[str, Any]:
        """Give counts and figures as plain data: no bounds, no levels, nothing about one cell."""
        return {
            "holds": self.holds,
            "attacker": self.attacker,
            "status": self.counts,
            "sums": None if self.sums is None else {s: self.sums.bounds.count(s) for s in STATES},
            "differences": None if self.unpublished is None else self._differences(),
            "programs": self.programs,
            "seconds_more": self.seconds_more,
            "loss": self.loss,
            "summary": self.summary,
        }

    def _differences(self) -> dict[str, Any]:
        beside = self.unpublished
        assert beside is not None
        return {"judged": beside.judged, "complete": beside.complete, "earlier": len(beside.earlier)} | {
            state: beside.bounds.count(state) for state in STATES
        }

    def frame(self) -> pl.DataFrame:
        """Give one row for each suppressed cell: codes, value, bounds, status. Not for publication."""
        import polars as pl

        cells = self.cells
        labels = {
            dim.name: np.array(dim.codes, dtype=object)[cells.codes[self.cell, j]].tolist()
            for j, dim in enumerate(cells.dims)
        }
        frame = pl.DataFrame(
            {
                **labels,
                "value": cells.value[self.cell],
                "low": self.low,
                "high": self.high,
                "exact": self.exact,
                "status": self.status.tolist(),
                "short": self.bounds.short,
            },
            schema_overrides=dict.fromkeys(labels, pl.String) | {"status": pl.String},
        )
        if self.worst:
            frame = frame.with_columns(pl.Series("attacker", [_text(who) for who in self.worst], dtype=pl.String))
        return frame

    def sums_frame(self) -> pl.DataFrame:
        """Give one row for each sensitive sum of suppressed cells. Not for publication."""
        sums = self.sums
        labels = [
            " + ".join("/".join(self.cells.label(i).values()) for i in members)
            for members in (sums.members if sums else ())
        ]
        return _bounds_frame("sum", labels, sums)

    def differences_frame(self) -> pl.DataFrame:
        """Give one row for each sum that no table shows and that must be protected. Not for publication."""
        beside = self.unpublished
        return _bounds_frame("difference", list(beside.labels) if beside else [], beside)

    def with_bounds(self, bounds: Bounds, **changes: Any) -> Audit:
        """Give the audit with other bounds."""
        return replace(self, bounds=bounds, **changes)


def _bounds_frame(name: str, labels: list[str], found: Sums | Unpublished | None) -> pl.DataFrame:
    import polars as pl

    empty = Bounds(*(np.zeros(0),) * 2, *(np.zeros(0, np.bool_),) * 2, np.zeros(0, np.str_), np.zeros(0))
    bounds = found.bounds if found else empty
    return pl.DataFrame(
        {
            name: pl.Series(labels, dtype=pl.String),
            "value": found.value if found else np.zeros(0),
            "low": bounds.low,
            "high": bounds.high,
            "status": pl.Series(bounds.status.tolist(), dtype=pl.String),
            "short": bounds.short,
        }
    )


def _cells(number: int) -> str:
    return "cell" if number == 1 else "cells"


def _text(who: Any) -> str | None:
    return None if who is None else ", ".join(map(str, who))


SLACK = 1e-9
"""Share of a cell (at least of 1) by which floating-point sums may miss; nothing beyond it is overlooked."""
EXACT = 1e-6
"""An interval narrower than this share of the cell (at least of 1) gives the cell away."""
STALL = 3
"""Bulk programs in a row that decide few cells before cells are taken one by one."""
FEW = 0.01
"""Share of the open sides that a bulk program should decide."""


@dataclass(eq=False)
class Targets:
    """Cells, or sums of cells, and how far from their values they must be able to lie."""

    rows: Matrix
    """(targets × unknowns) how each deviates"""
    value: Floats
    """(targets,) what each is at deviation 0"""
    lower: Floats
    """(targets,) how far below it must reach"""
    upper: Floats
    """(targets,) how far above"""
    idle: Bools
    """(targets,) which need nothing; their bounds are noted on the way"""
    whole: bool = False
    """whether values are whole numbers, so that an interval with only one of them gives it away"""
    below: Floats = field(init=False)
    """(targets,) how far below it was seen to reach"""
    above: Floats = field(init=False)
    below_exact: Bools = field(init=False)
    """(targets,) whether it reaches no farther"""
    above_exact: Bools = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.value)
        self.below, self.above = np.zeros(n), np.zeros(n)
        self.below_exact, self.above_exact = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        self._weight = np.asarray(abs(self.rows).sum(axis=1)).ravel()
        still = self._weight == 0
        self.below_exact[still] = self.above_exact[still] = True

    @cached_property
    def scale(self) -> Floats:
        """What counts as large for each target."""
        return np.maximum(np.abs(np.nan_to_num(self.value)), 1.0)

    @cached_property
    def room(self) -> Floats:
        """How far a target with no level required must reach on one side, so as not to be found exactly."""
        return np.ones(len(self.value)) if self.whole else EXACT * self.scale

    @cached_property
    def either(self) -> Bools:
        """Targets that must only not be found exactly."""
        return (self.lower <= 0) & (self.upper <= 0)

    def open_at(self, at: int | slice) -> tuple[Any, Any]:
        """Tell for one target or several whether the lower and the upper bound are not decided yet."""
        slack = SLACK * self.scale[at]
        narrow = (np.maximum(self.below[at], self.above[at]) < self.room[at] - slack) & ~self.idle[at]
        low = np.where(self.either[at], narrow, self.below[at] < self.lower[at] - slack) & ~self.below_exact[at]
        high = np.where(self.either[at], narrow, self.above[at] < self.upper[at] - slack) & ~self.above_exact[at]
        return low, high

    @property
    def met(self) -> Bools:
        """Targets seen to reach what they must, and to have room enough that they are not found exactly."""
        slack = SLACK * self.scale
        wide = np.maximum(self.below, self.above) >= self.room - slack
        reached = (self.below >= self.lower - slack) & (self.above >= self.upper - slack)
        return wide & (self.either | reached)

    def see(self, found: Found) -> None:
        """Note how far every target deviates in one possible table, or without end along a direction."""
        off, loss = self.rows @ found.z, found.missed * self._weight
        grown = self.rows @ found.ray
        np.maximum(self.above, np.where(grown > RAY, np.inf, off - loss), out=self.above)
        np.maximum(self.below, np.where(grown < -RAY, np.inf, -off - loss), out=self.below)


@dataclass(eq=False)
class Clock:
    """Time left, and progress."""

    seconds: float | None
    ctx: Context
    label: str = "audit"
    silent: bool = False
    """whether progress is reported elsewhere"""
    start: float = field(default_factory=time.monotonic)

    @property
    def over(self) -> bool:
        """Whether the time is used up."""
        return self.seconds is not None and self.spent > self.seconds

    @property
    def end(self) -> float:
        """What `time.monotonic` says when the time is used up."""
        return np.inf if self.seconds is None else self.start + self.seconds

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def tell(self, done: int, total: int) -> None:
        """Report progress; may raise `Cancelled`."""
        if not self.silent:
            self.ctx.progress(done, total, self.label)


def certify(attacker: Attacker, targets: Targets, clock: Clock, *, exact: Bools | None = None) -> None:
    """Decide every target, first many per program with random objectives, then one by one; `exact` ones to the end.

    A table that agrees with everything published and in which a cell deviates by what it needs proves that side of the
    cell; a random combination of all undecided sides pushes many at once. What is left when time is over stays open.
    """
    push_many(attacker, targets, clock)
    undecided = np.flatnonzero(np.logical_or(*targets.open_at(slice(None))))
    _singly(attacker, targets, clock, undecided, lambda i, side: bool(targets.open_at(i)[side]))
    narrow = np.flatnonzero(~targets.met & ~targets.idle)
    _singly(attacker, targets, clock, narrow, None)
    if exact is not None:
        _limits(attacker, targets)
        _singly(attacker, targets, clock, np.flatnonzero(exact), None)


def push_many(attacker: Attacker, targets: Targets, clock: Clock, patience: int = STALL) -> None:
    """Push all undecided sides at once with random weights, until programs decide few more."""
    rng = clock.ctx.rng
    total = len(targets.value)
    stalled, turned = 0, targets.rows.T.tocsr()
    while stalled < patience and not clock.over:
        down, up = targets.open_at(slice(None))
        left = int(down.sum() + up.sum())
        if not left:
            return
        clock.tell(total - int((down | up).sum()), total)
        rise = rng.random(total) / np.maximum(targets.upper, EXACT * targets.scale) * up
        fall = rng.random(total) / np.maximum(targets.lower, EXACT * targets.scale) * down
        both = targets.either & (rng.random(total) < 0.5)
        weights = np.where(both, 0.0, rise) - np.where(targets.either & ~both, 0.0, fall)
        targets.see(attacker.push(turned @ weights, clock.end))
        decided = left - int(sum(side.sum() for side in targets.open_at(slice(None))))
        stalled = stalled + 1 if decided <= FEW * left else 0


def _singly(
    attacker: Attacker, targets: Targets, clock: Clock, chosen: Ints, wanted: Callable[[int, int], bool] | None
) -> None:
    """Find the bounds of chosen targets that are wanted and not exact yet, one program each."""
    sides = ((targets.below, targets.below_exact, -1.0), (targets.above, targets.above_exact, 1.0))
    for number, i in enumerate(chosen.tolist()):
        clock.tell(number, len(chosen))
        for side, (reached, done, sign) in enumerate(sides):
            if clock.over:
                return
            if not done[i] and (wanted is None or wanted(i, side)):
                far, found = attacker.reach(sign * targets.rows[[i]])
                targets.see(found)
                reached[i], done[i] = max(far, reached[i]), True


def _limits(attacker: Attacker, targets: Targets) -> None:
    """Mark bounds that are exact because they reach what the a-priori bounds and single sums allow."""
    low, high = attacker.limits
    for reached, done, limit in (
        (targets.below, targets.below_exact, -_dot(targets.rows, low)),
        (targets.above, targets.above_exact, _dot(targets.rows, high)),
    ):
        done[:] |= reached >= limit - SLACK * targets.scale


def _dot(rows: Matrix, bounds: Floats) -> Floats:
    """Add up bounds that may be infinite."""
    finite = rows @ np.where(np.isfinite(bounds), bounds, 0.0)
    endless = rows @ (~np.isfinite(bounds)).astype(np.float64) > 0
    sums: Floats = np.where(endless, np.inf if (bounds > 0).any() else -np.inf, finite)
    return sums


EXACT_WORK = 2_000_000
"""Suppressed cells × unknowns up to which all bounds are computed to the end unless the caller decides."""


def audit(
    cells: Cells,
    *,
    prior: Prior | Mapping[str, Any] | None = None,
    rules: Sequence[Rule | Mapping[str, Any]] | None = None,
    attacker: Literal["outsider", "contributors"] | Sequence[Any] | None = None,
    coalition: int | None = None,
    which: Literal["sensitive", "suppressed"] = "sensitive",
    exact: bool | None = None,
    seconds: float | None = None,
    proofs: Sequence[Proof] = (),
    ctx: Context | None = None,
) -> Audit:
    """Compute how closely an attacker can bound every suppressed cell, and whether that is close enough to harm.

    Takes the table as it is marked (`cells.suppressed`), wherever it was protected. Each sensitive cell is
    *protected* (its bounds are at least as far away as its rule requires), *under-protected* (by how much),
    *disclosed* (it can be computed exactly, whole numbers included) or, when `seconds` are over, *undecided*, which
    counts as not protected (`seconds_more` says about what it would take to decide the rest). A cell with no level
    required must only not be found exactly. A lower level beyond the cell's value is cut there: less than 0 cannot be
    believed unless cells may be negative.

    Sums of suppressed cells are judged too. All gaps of a published total add up to what everybody gets by subtracting
    the other parts: if the rules that were applied find that sum sensitive, the table fails. `rules` given here also
    judge pairs of gaps with a common total, which then need their own intervals; `rules=()` judges no sums, and the
    summary says so.

    `attacker` is `"contributors"` (without it, where respondents are known): besides the outsider every respondent with
    a part in a suppressed inner cell (with `coalition=c`: all coalitions of up to c, in one cell or in different ones;
    by default as many as the rules applied look at, and never fewer; of ready-made cells, what their numbers of
    respondents and largest contributions tell). Or `"outsider"` alone, or the labels of respondents who put together
    what they know. Respondents know what they contributed: inner cells that are all theirs, and a lower bound of the
    others. Cells to which nobody else contributes are not judged.

    Bounds are computed to the end (`exact`) for tables of moderate size; otherwise only as far as needed to decide, and
    then the true interval may be wider than the one shown, never narrower. Does not cover what an attacker knows beyond
    `prior` (nothing given: no cell is negative, unless contributions are), nor tables over the same records that are
    neither part of `cells` nor given as `previous` when it was made. Differences of published cells that the rules
    found sensitive (`apply_rules`), and what earlier releases suppressed, are judged like suppressed cells:
    `Audit.unpublished`.

    Many cells are proved by each linear program; one more for each that fails, several where respondents attack.
    `proofs` are tables that an engine found on its way: what each shows is checked by adding up, and saves programs.

    References
    ----------
    Hundepool et al. (2012), Statistical Disclosure Control, 4.3–4.4; Fischetti & Salazar (2000); catalogue T8, T9.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> firms = pl.DataFrame({"region": list("AABBB"), "sector": list("xyxyy"), "turnover": [10, 20, 5, 7, 9]})
    >>> cells = dc.tabulate(firms, ["region", "sector"], "turnover").mark({"region": "A", "sector": "x"}, "unsafe")
    >>> cells.audit()
    Audit(1 sensitive cell: 1 disclosed; fails)
    """
    if attacker is None:
        attacker = "contributors" if cells.respondents_known else "outsider"
    if seconds is not None and not seconds >= 0:
        raise PlanError(f"seconds: expected a number of at least 0, got {seconds!r}")
    wanted = _wanted(cells, which)
    clock = Clock(seconds, ctx or Context(seed=0, step="audit"))
    belief = Prior.of(cells, prior)
    coalition = _together(cells, attacker, coalition)
    whole = widened(cells)
    if whole is not cells:
        belief = widened_prior(belief, len(whole) - len(cells))
        found = audit(
            whole,
            prior=belief,
            rules=rules,
            attacker=attacker,
            coalition=coalition,
            which=which,
            exact=exact,
            seconds=seconds,
            proofs=proofs,
            ctx=ctx,
        )
        return told_apart(found, cells)
    if not isinstance(attacker, str):
        from discretion.tables.audit_insiders import one_coalition

        return one_coalition(cells, attacker, wanted, belief, rules, exact, clock)
    found = outsider(cells, Attacker(cells, prior=belief), wanted, belief, rules, exact, clock)
    if attacker == "contributors":
        from discretion.tables.audit_insiders import every_contributor

        found = every_contributor(found, coalition, wanted, belief, clock, proofs)
    left, judged = found.counts["undecided"], sum(found.counts.values())
    if not left or not clock.over:
        return found
    return replace(found, seconds_more=clock.spent * left / max(judged - left, 1))


def _together(cells: Cells, attacker: str | Sequence[Any], coalition: int | None) -> int:
    """Give how many respondents attack together."""
    if isinstance(attacker, str) and attacker not in ("outsider", "contributors"):
        raise PlanError("attacker: expected 'outsider', 'contributors', or the labels of respondents")
    return at_least_ruled(cells, coalition)


def _wanted(cells: Cells, which: str) -> Bools:
    if which not in ("sensitive", "suppressed"):
        raise PlanError("which: expected 'sensitive' or 'suppressed'")
    return cells.primary if which == "sensitive" else cells.suppressed


def outsider(
    cells: Cells,
    attacker: Attacker,
    wanted: Bools,
    prior: Prior,
    rules: Sequence[Any] | None,
    exact: bool | None,
    clock: Clock,
    who: str = "an outsider",
) -> Audit:
    """Audit all suppressed cells, and sums of them, against one attacker."""
    shown = np.flatnonzero(cells.suppressed)
    judged = wanted[shown]
    targets = targets_of(cells, attacker, shown, wanted, prior)
    everything = exact if exact is not None else len(shown) * attacker.system.size <= EXACT_WORK
    certify(attacker, targets, clock, exact=np.full(len(shown), everything) | (judged & np.isnan(cells.value[shown])))
    sums = None
    if rules is None or len(rules):
        sums = isolated_sums(cells) if rules is None else audited_sums(cells, attacker, rules, prior, clock)
    return Audit(
        cells=cells,
        cell=shown,
        bounds=bounds_of(targets, judged, cells.value[shown], cells.lower_required[shown], cells.upper_required[shown]),
        sums=sums,
        attacker=who,
        programs=attacker.solved,
    )


def targets_of(cells: Cells, attacker: Attacker, shown: Ints, wanted: Bools, prior: Prior) -> Targets:
    """Give suppressed cells as targets; those not judged, or without a known value, need nothing yet."""
    value = cells.value[shown]
    needy = wanted[shown] & ~np.isnan(value)
    lower, upper = cells.lower_required[shown], cells.upper_required[shown]
    lower = np.minimum(lower, prior.room(cells)[shown])
    return Targets(
        attacker.system.members[shown],
        attacker.system.center[shown],
        np.where(needy, lower, 0.0),
        np.where(needy, upper, 0.0),
        idle=~needy,
        whole=whole_numbers(cells),
    )


def whole_numbers(cells: Cells) -> bool:
    """Tell whether the table counts, without weights that are not whole."""
    value = cells.value[~np.isnan(cells.value)]
    return bool(cells.response.frequency and (value == np.round(value)).all())


def bounds_of(targets: Targets, judged: Bools, value: Floats, lower: Floats, upper: Floats) -> Bounds:
    """Say what the bounds found mean for each target."""
    slack = SLACK * targets.scale
    low, high = targets.value - targets.below, targets.value + targets.above
    final = targets.below_exact & targets.above_exact
    single = high - low < EXACT * targets.scale
    if targets.whole:
        single |= np.floor(high + slack) - np.ceil(low - slack) < 1
    blind = np.isnan(value) & (np.maximum(lower, upper) > 0)
    short = np.maximum(np.maximum(targets.lower - targets.below, targets.upper - targets.above), 0.0)
    short = np.where(blind & final, np.maximum(lower + upper - (high - low), 0.0), short)
    failing = (short > slack) & np.where(blind, final, _decided(targets))
    status = np.select(
        [~judged, final & single, failing, targets.met & ~blind & ~(single & ~final)],
        ["complementary", "disclosed", "under-protected", "protected"],
        "undecided",
    )
    lacking = np.isin(status, ("under-protected", "disclosed"))
    return Bounds(low, high, targets.below_exact, targets.above_exact, status, np.where(lacking, short, 0.0))


def _decided(targets: Targets) -> Bools:
    """Tell which targets fall short on a side whose bound is exact."""
    slack = SLACK * targets.scale
    decided: Bools = (targets.below_exact & (targets.below < targets.lower - slack)) | (
        targets.above_exact & (targets.above < targets.upper - slack)
    )
    return decided


CHUNK = 2_000
"""Sums the rules look at together."""


def audited_sums(cells: Cells, attacker: Attacker, rules: Sequence[Any], prior: Prior, clock: Clock) -> Sums:
    """Judge sums of suppressed cells with a common total by the rules, and bound those that are sensitive."""
    from discretion.tables.rules.rule import parsed

    unions = list(dict.fromkeys((*isolated(cells), *candidates(cells))))
    members, values, low, high = _sensitive(cells, unions, parsed(rules), clock)
    chosen = _selection(members, len(cells))
    rows = chosen @ attacker.system.members
    low = np.minimum(low, chosen @ prior.room(cells))
    none = np.zeros(len(members), np.bool_)
    targets = Targets(rows.tocsr(), values, low, high, none, whole_numbers(cells))
    certify(attacker, targets, clock)
    return Sums(tuple(members), values, bounds_of(targets, ~none, values, low, high), len(unions))


def isolated_sums(cells: Cells) -> Sums | None:
    """Judge the sums that one subtraction gives, by the rules that were applied; nothing where none was.

    Each is known exactly, so that a sensitive one is disclosed. One sum for every total of the table at most.
    """
    if not any(rule.few() for rule in cells.rules):
        return None
    unions = list(dict.fromkeys(isolated(cells)))
    members, values, low, high = _sensitive(cells, unions, cells.rules)
    sure = np.ones(len(members), np.bool_)
    status = np.full(len(members), "disclosed")
    bounds = Bounds(values, values, sure, sure, status, np.maximum(low, high))
    return Sums(tuple(members), values, bounds, len(unions))


def sums_to_protect(cells: Cells, hidden: Bools) -> Forms | None:
    """Give the sums that a choice of gaps would give away, as sums of inner cells an engine can protect."""
    if not any(rule.few() for rule in cells.rules):
        return None
    open_to_all = cells.with_status(secondary=hidden & ~cells.primary)
    unions = list(dict.fromkeys(isolated(open_to_all)))
    members, _, low, high = _sensitive(open_to_all, unions, cells.rules)
    if not members:
        return None
    rows = _selection(members, len(cells)) @ cells.x.transposed.to_scipy()
    labels = tuple(" + ".join("/".join(cells.label(i).values()) for i in union) for union in members)
    return Forms(rows.tocsr(), low, high, np.zeros(len(members), np.bool_), labels)


def _sensitive(
    cells: Cells, unions: Sequence[tuple[int, ...]], rules: Sequence[Any], clock: Clock | None = None
) -> tuple[list[tuple[int, ...]], Floats, Floats, Floats]:
    """Give the sums that rules find sensitive, with their values and required levels."""
    members: list[tuple[int, ...]] = []
    value, lower, upper = [], [], []
    for first in range(0, len(unions), CHUNK):
        if clock is not None:
            clock.tell(first, len(unions))
        part = unions[first : first + CHUNK]
        found = as_cells(cells, part).apply_rules([rule for rule in rules if rule.few()])
        numbers = found.find(found.dims[0].find([str(i) for i in range(len(part))]).reshape(-1, 1))
        for i in np.flatnonzero((numbers >= 0) & found.primary[numbers]).tolist():
            members.append(part[i])
            value.append(float(cells.value[list(part[i])].sum()))
            lower.append(float(found.lower_required[numbers[i]]))
            upper.append(float(found.upper_required[numbers[i]]))
    return members, np.array(value), np.array(lower), np.array(upper)


def isolated(cells: Cells) -> Iterator[tuple[int, ...]]:
    """Give the gaps of every published total that has some parts left, where one of the gaps is sensitive."""
    sums = cells.relations()
    gap = cells.suppressed[sums.indices]
    part = sums.data < 0
    hidden_total = np.bincount(sums.rows, gap & ~part, sums.shape[0]) > 0
    gaps = np.bincount(sums.rows, gap & part, sums.shape[0])
    parts = np.bincount(sums.rows, part, sums.shape[0])
    unknown = np.bincount(sums.rows, gap & part & np.isnan(cells.value[sums.indices]), sums.shape[0]) > 0
    for row in np.flatnonzero(~hidden_total & (gaps >= 2) & (gaps < parts) & ~unknown).tolist():
        place = slice(sums.indptr[row], sums.indptr[row + 1])
        found = sums.indices[place][gap[place] & part[place]].tolist()
        if cells.primary[found].any():
            yield tuple(sorted(found))


def candidates(cells: Cells) -> Iterator[tuple[int, ...]]:
    """Give the sums to look at: all suppressed parts of a total, and pairs of them with a sensitive one.

    A sum of cells that are all not sensitive is not sensitive by rules like p-percent and dominance.
    """
    sums = cells.relations()
    gap = cells.suppressed[sums.indices] & (sums.data < 0) & ~np.isnan(cells.value[sums.indices])
    for row in np.flatnonzero(np.bincount(sums.rows, gap, sums.shape[0]) >= 2).tolist():
        place = slice(sums.indptr[row], sums.indptr[row + 1])
        parts = sums.indices[place][gap[place]].tolist()
        sensitive = cells.primary[parts]
        if sensitive.any():
            yield tuple(sorted(parts))
        for one, other in combinations(range(len(parts)), 2):
            if sensitive[one] or sensitive[other]:
                yield tuple(sorted((parts[one], parts[other])))


def as_cells(cells: Cells, unions: Sequence[tuple[int, ...]]) -> Cells:
    """Give a table whose inner cells are the sums, with the contributions of every respondent added up."""
    if cells.source is None:
        return _from_figures(cells, unions)
    return added_up(cells, _selection(unions, len(cells)) @ cells.x.transposed.to_scipy())


def added_up(cells: Cells, members: Matrix) -> Cells:
    """Give a table of sums of inner cells (one row of `members` each) from the contributions of a table."""
    from discretion.tables.cells import build
    from discretion.tables.dimensions import Dimension
    from discretion.tables.tabulate import cells_of

    entries = cells.source
    assert entries is not None
    inside = members.tocsc()
    counts = np.diff(inside.indptr)[entries.inner]
    which = np.repeat(np.arange(len(entries)), counts)
    starts = np.repeat(inside.indptr[:-1][entries.inner] - np.r_[0, np.cumsum(counts)[:-1]], counts)
    union = inside.indices[starts + np.arange(len(which))]
    dim = Dimension.flat("sum", range(members.shape[0]))
    code = dim.find([str(i) for i in range(members.shape[0])])[union].astype(np.int32).reshape(-1, 1)
    repeated = replace(
        entries,
        inner=entries.inner[which],
        contributor=entries.contributor[which],
        x=entries.x[which],
        weight=entries.weight[which],
        waived=entries.waived[which],
        requested=entries.requested[which],
        key=None,
    )
    made = build(repeated, code, (len(dim),))
    found = cells_of(made, (dim,), (("sum",),), cells.top.shape[1], "drop", cells.contributors)
    return replace(found, active=cells.active)


def _from_figures(cells: Cells, unions: Sequence[tuple[int, ...]]) -> Cells:
    """Add up ready-made cells; no respondent is taken to be in two of them."""
    import polars as pl

    from discretion.tables.ready import from_cells

    response, t = cells.response, cells.top.shape[1]
    top = np.zeros((len(unions), t))
    for i, union in enumerate(unions):
        top[i] = np.sort(cells.top[list(union)].ravel())[::-1][:t]
    sums = _selection(unions, len(cells))
    columns = {"sum": [str(i) for i in range(len(unions))], "value": sums @ np.nan_to_num(cells.value)}
    named = [f"top_{k}" for k in range(t)]
    columns |= {name: top[:, k] for k, name in enumerate(named)}
    columns["count"] = (sums @ cells.count).astype(np.int64)
    made = from_cells(pl.DataFrame(columns), ["sum"], None if response.frequency else "value", count="count", top=named)
    return replace(made, responses=(replace(made.response, counted=response.counted),))


def _selection(unions: Sequence[tuple[int, ...]], m: int) -> Matrix:
    from scipy.sparse import csr_array

    sizes = np.array([len(union) for union in unions], np.int64)
    columns: Ints = np.array([cell for union in unions for cell in union], np.int64)
    rows: Floats = np.ones(len(columns))
    return csr_array((rows, columns, np.r_[0, np.cumsum(sizes)]), shape=(len(unions), m))


RELEASED_SLACK = 1e-7
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
    >>> from discretion.tables.audit import audit_adjusted
    >>> given = pl.DataFrame({"row": list("aabb"), "col": list("xyxy"), "n": [1, 14, 16, 19]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    >>> audit_adjusted(cells.adjust(seed=1).cells)
    ReleasedAudit(1 sensitive cells: 0 not protected; nothing proved against readers who know how values are adjusted)
    """
    released = _released(cells)
    where = np.flatnonzero(cells.primary)
    truth, shown = cells.value[where], released[where]
    slack = RELEASED_SLACK * np.maximum(np.abs(truth), 1.0)
    change = shown - truth
    far = (change >= cells.upper_required[where] - slack) | (-change >= cells.lower_required[where] - slack)
    moved = np.abs(change) > slack
    low, high = np.minimum(truth, shown), np.maximum(truth, shown)
    who, wiser = "readers who take the values as they are", "readers who know how values are adjusted"
    return ReleasedAudit(cells, where, low, high, far & moved, who, wiser)


def audit_rounded(rounded: Rounded, *, progress: Progress = ignore_progress) -> ReleasedAudit:
    """Compute how closely somebody who knows base and steps can bound the sensitive cells of a rounded table.

    Every true value lies less than (1 + steps) bases from the one shown, true values add up, and none is negative where
    none is shown to be. Where only inner cells were rounded, each lies less than a base from the one shown. Many cells
    are decided by each of a few linear programs, the rest one by one. A level required below 0 is cut there; a cell
    with no level required must only not be found exactly.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> from discretion.tables.audit import audit_rounded
    >>> given = pl.DataFrame({"row": list("aabb"), "col": list("xyxy"), "n": [1, 14, 16, 19]})
    >>> cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    >>> audit_rounded(cells.round_controlled(5)).holds
    True
    """
    cells, shown = rounded.cells, _released(rounded.cells)
    reach: Any = rounding_reach(cells, rounded.base, 0 if rounded.inner else rounded.steps)
    if rounded.inner:
        reach = reach * np.bincount(cells.x.indices, minlength=len(cells))
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
    >>> from discretion.tables.audit import audit_perturbed
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
    wide = (bounds.high - bounds.low >= need * (1 - RELEASED_SLACK)) & (bounds.status == "under-protected")
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
    prior = Prior(negative=bool((cells.value < 0).any()))
    room = prior.room(cells)
    least = cells.value - room
    attacker = Attacker.on(_system(cells, np.maximum(low, least) - cells.value, high - cells.value, prior.least(cells)))
    value, lower, upper = cells.value[where], cells.lower_required[where], cells.upper_required[where]
    targets = Targets(
        attacker.system.members[where],
        value,
        np.minimum(lower, room[where]),
        upper,
        idle=np.zeros(len(where), np.bool_),
        whole=whole_numbers(cells),
    )
    certify(attacker, targets, Clock(None, Context(seed=0, step="audit-released", progress=progress)))
    return bounds_of(targets, np.ones(len(where), np.bool_), value, lower, upper)


def _system(cells: Cells, low: Floats, high: Floats, least: Floats) -> System:
    """Write down all true tables that bounds of the cells (as deviations from the truth) leave possible."""
    from scipy.sparse import eye_array

    members: Any = cells.x.transposed.to_scipy().tocsr()
    own, n = cells.inner_cell, len(cells.inner_codes)
    below, above = least - cells.inner_value, np.full(n, np.inf)
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
