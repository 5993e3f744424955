"""What an audit found, in words, figures and frames."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discretion.kernels.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    import polars as pl

    from discretion.tables.cells import Cells

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

    @property
    def holds(self) -> bool:
        """Whether all are proved to be protected, and none was left out."""
        return self.complete and bool((self.bounds.status == "protected").all())

    @property
    def summary(self) -> str:
        """What was found, in a sentence, without values."""
        number = len(self.labels)
        bad = number - self.bounds.count("protected")
        text = f" Differences of published cells that were judged: {self.judged:,}." if self.judged else ""
        text += "" if self.complete else " There are more than can be listed."
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
