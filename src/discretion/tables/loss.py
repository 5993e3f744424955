"""Information loss of a protected table: what was suppressed, and how far the values that go out are from the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from discretion.tables.audit_report import Audit
    from discretion.tables.cells import Cells


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
