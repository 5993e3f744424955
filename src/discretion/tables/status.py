"""What is decided about each cell of a table: sensitive, suppressed, must stay, how much protection it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.errors import PlanError, unknown
from discretion.kernels.arrays import Bools, Floats

Mark = Literal["safe", "unsafe", "must-publish", "preferred", "plain"]
"""What a person can decide about a cell: never sensitive, sensitive, never suppressed, suppressed before others when
complementary cells are chosen; `plain` takes such decisions back."""

_FLAGS = ("primary", "secondary", "safe", "must_publish", "preferred")
_NUMBERS = ("lower_required", "upper_required", "cost", "released")


@dataclass(frozen=True, eq=False)
class Status:
    """One entry per cell in every array; arrays are read-only, `changed` gives new ones."""

    primary: Bools
    """sensitive by a rule or by decision"""
    secondary: Bools
    """suppressed to protect others"""
    safe: Bools
    """declared not sensitive; rules leave it alone, it may still be suppressed for others"""
    must_publish: Bools
    """may not be suppressed"""
    preferred: Bools
    """taken first when complementary cells are chosen"""
    reason: NDArray[np.uint32]
    """bit i is set where `reasons[i]` made the cell sensitive"""
    reasons: tuple[str, ...]
    """the kinds of the rules applied, and `manual`"""
    lower_required: Floats
    """how far below its value the lower bound an attacker finds must lie (0 for cells that are not sensitive)"""
    upper_required: Floats
    """how far above its value the upper bound must lie"""
    cost: Floats | None = None
    """what suppressing a cell costs, where the user gives it; otherwise the engine decides"""
    released: Floats | None = None
    """the values that go out, where they are not the true ones (rounding, adjustment, perturbation)"""

    @classmethod
    def empty(cls, m: int) -> Status:
        """Give the status of a table about which nothing was decided."""
        no = np.zeros(m, np.bool_)
        zero = np.zeros(m)
        for array in (no, zero):
            array.flags.writeable = False
        return cls(no, no, no, no, no, np.zeros(m, np.uint32), (), zero, zero)

    def changed(self, **changes: Any) -> Status:
        """Give a status with some arrays replaced; shapes, types and contradictions are checked."""
        m = len(self.primary)
        checked: dict[str, Any] = {}
        for name, given in changes.items():
            if name == "reasons":
                checked[name] = tuple(given)
                continue
            if name not in (*_FLAGS, *_NUMBERS, "reason"):
                raise PlanError(unknown("status", name, (*_FLAGS, *_NUMBERS, "reason", "reasons")))
            if given is None and name in ("cost", "released"):
                checked[name] = None
                continue
            kind = np.bool_ if name in _FLAGS else np.uint32 if name == "reason" else np.float64
            array = np.array(given, dtype=kind)
            if array.shape != (m,):
                raise PlanError(f"{name}: expected {m} entries, one per cell, got the shape {array.shape}")
            if name in ("lower_required", "upper_required", "cost") and not np.all(np.greater_equal(array, 0)):
                raise PlanError(f"{name}: must not be negative or missing")
            array.flags.writeable = False
            checked[name] = array
        new = replace(self, **checked)
        new._check()
        return new

    def _check(self) -> None:
        if len(self.reasons) > 32:
            raise PlanError("at most 32 rules can be applied to one table")
        clash = int((self.primary & self.must_publish).sum())
        if clash:
            raise PlanError(
                f"{clash} cells are sensitive and must be published; mark them safe if they may go out "
                "(a waiver, a decision), or let them be suppressed"
            )
        clash = int((self.secondary & self.must_publish).sum())
        if clash:
            raise PlanError(f"{clash} cells are suppressed and must be published")
        clash = int((self.primary & self.safe).sum())
        if clash:
            raise PlanError(f"{clash} cells are both sensitive and safe")

    @property
    def suppressed(self) -> Bools:
        """Which cells do not go out: primary and secondary; with other values to go out, those that have none."""
        if self.released is not None:
            return np.isnan(self.released)
        return self.primary | self.secondary
