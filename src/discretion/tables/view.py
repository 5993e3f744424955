"""A table as a long frame, for the outside or for the office."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import polars as pl

    from discretion.tables.cells import Cells


def frame(cells: Cells, internal: bool) -> pl.DataFrame:
    """Give codes, the values that go out, and whether a cell is suppressed; `internal` adds the secrets."""
    import polars as pl

    hidden = cells.suppressed
    columns: dict[str, object] = {
        dim.name: np.array(dim.codes, dtype=object)[cells.codes[:, j]].tolist() for j, dim in enumerate(cells.dims)
    }
    released = cells.value if cells.status.released is None else cells.status.released
    columns[cells.response.name] = pl.Series(np.where(hidden, np.nan, released)).fill_nan(None)
    columns["suppressed"] = hidden
    shown = pl.DataFrame(columns)
    return shown.with_columns(_secrets(cells)) if internal else shown


def _secrets(cells: Cells) -> list[pl.Series]:
    import polars as pl

    status = cells.status
    reasons = [
        ", ".join(name for bit, name in enumerate(status.reasons) if mask >> bit & 1) for mask in status.reason.tolist()
    ]
    labels = np.select(
        [status.primary, status.secondary, status.must_publish, status.safe],
        ["primary", "secondary", "must-publish", "safe"],
        "published",
    )
    top = [pl.Series(f"top_{k + 1}", cells.top[:, k]) for k in range(cells.top.shape[1])]
    return [
        pl.Series("true_value", cells.value),
        pl.Series("respondents", cells.count),
        pl.Series("weighted_count", cells.weighted_count),
        *top,
        pl.Series("status", labels.tolist(), dtype=pl.String),
        pl.Series("reason", reasons, dtype=pl.String),
        pl.Series("lower_required", status.lower_required),
        pl.Series("upper_required", status.upper_required),
    ]
