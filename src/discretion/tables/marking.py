"""Decisions of people about cells: safe, unsafe, must be published, preferred for suppression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from discretion.errors import PlanError, unknown
from discretion.kernels.arrays import Bools
from discretion.tables.status import Mark, Status

if TYPE_CHECKING:
    from discretion.tables.cells import Cells

MANUAL = "manual"
"""The reason of cells that a person declared unsafe."""


def chosen(cells: Cells, where: Any) -> Bools:
    """Give a mask of cells from labels (`{"region": "A"}`, or a list of such), a mask, or cell numbers."""
    if isinstance(where, Mapping):
        return cells.where(where)
    if isinstance(where, list | tuple) and where and all(isinstance(item, Mapping) for item in where):
        hit = np.zeros(len(cells), np.bool_)
        for item in where:
            hit |= cells.where(item)
        return hit
    array = np.asarray(where)
    if array.dtype == np.bool_ and array.shape == (len(cells),):
        return array
    mask = np.zeros(len(cells), np.bool_)
    if array.size == 0:
        return mask
    if array.dtype.kind not in "iu" or array.min() < 0 or array.max() >= len(cells):
        raise PlanError(f"expected labels, a mask of {len(cells)} cells, or cell numbers below {len(cells)}")
    mask[array] = True
    return mask


def mark(cells: Cells, where: Any, decision: Mark) -> Cells:
    """Record a decision about some cells.

    `safe` takes them out of the sensitive ones and keeps rules off them; `unsafe` makes them sensitive (they need no
    more than not to be found exactly, unless required levels are given with `with_status`); `must-publish` forbids
    suppressing them; `preferred` has them suppressed first; `plain` takes these decisions back.
    """
    if decision not in get_args(Mark):
        raise PlanError(unknown("mark", str(decision), get_args(Mark)))
    hit = chosen(cells, where)
    if not hit.any():
        raise PlanError("no cell of the table is meant: the codes exist, but the cells are empty or not published")
    status = cells.status
    if decision == "unsafe":
        return cells.with_status(**_unsafe(status, hit))
    if decision in ("must-publish", "preferred"):
        name = decision.replace("-", "_")
        return cells.with_status(**{name: getattr(status, name) | hit})
    changes: dict[str, Any] = {"safe": status.safe | hit, **_cleared(status, hit)}
    if decision == "plain":
        changes = _taken_back(status, hit)
    return cells.with_status(**changes)


def _unsafe(status: Status, hit: Bools) -> dict[str, Any]:
    reasons = status.reasons if MANUAL in status.reasons else (*status.reasons, MANUAL)
    bit = np.uint32(1 << reasons.index(MANUAL))
    return {
        "primary": status.primary | hit,
        "safe": status.safe & ~hit,
        "reason": np.where(hit, status.reason | bit, status.reason),
        "reasons": reasons,
    }


def unsafe_by_hand(status: Status) -> Bools:
    """Tell which cells a person declared unsafe (rules may find them sensitive as well)."""
    if MANUAL not in status.reasons:
        return np.zeros(len(status.primary), np.bool_)
    told: Bools = (status.reason & np.uint32(1 << status.reasons.index(MANUAL))) > 0
    return told


def _taken_back(status: Status, hit: Bools) -> dict[str, Any]:
    by_hand = hit & unsafe_by_hand(status)
    bit = np.uint32(1 << status.reasons.index(MANUAL)) if by_hand.any() else np.uint32(0)
    reason = np.where(by_hand, status.reason & ~bit, status.reason)
    return {
        **_cleared(status, by_hand & (reason == 0)),
        "reason": reason,
        "safe": status.safe & ~hit,
        "must_publish": status.must_publish & ~hit,
        "preferred": status.preferred & ~hit,
    }


def _cleared(status: Status, hit: Bools) -> dict[str, Any]:
    return {
        "primary": status.primary & ~hit,
        "reason": np.where(hit, np.uint32(0), status.reason),
        "lower_required": np.where(hit, 0.0, status.lower_required),
        "upper_required": np.where(hit, 0.0, status.upper_required),
    }
