"""From contributions to cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints, Ints32
from discretion.tables.cells import Cells
from discretion.tables.contributions import Contributions
from discretion.tables.dimensions import Dimension
from discretion.tables.packing import Packer, row_keys
from discretion.tables.response import Response
from discretion.tables.roll_up import Figures, table_figures
from discretion.tables.status import Status

MOST_EMPTY = 5_000_000
"""Cells that may be listed when empty ones are kept."""


def cells_of(
    entries: Contributions,
    dims: tuple[Dimension, ...],
    tables: tuple[tuple[str, ...], ...],
    top: int,
    empty: str,
    contributors: Sequence[Any],
    notes: tuple[str, ...] = (),
) -> Cells:
    """Roll contributions up to all cells of all tables."""
    place = {dim.name: j for j, dim in enumerate(dims)}
    variables = [[place[name] for name in table] for table in tables]
    parts = [table_figures(entries, dims, columns, top) for columns in variables]
    if empty == "keep":
        parts = [_with_empty(part, dims, columns) for part, columns in zip(parts, variables, strict=True)]
        entries = _with_empty_inner(entries, dims)
    figures, in_table = united(parts, dims)
    inner_values = [
        np.bincount(entries.inner, np.nan_to_num(entries.x[:, r]), len(entries.inner_codes)).astype(np.float64)
        for r in range(len(entries.names))
    ]
    return Cells(
        dims=dims,
        codes=figures.codes,
        responses=responses_of(figures, entries, inner_values),
        tables=tables,
        in_table=in_table,
        inner_codes=entries.inner_codes,
        weighted_count=np.ascontiguousarray(figures.sums[:, -2]),
        status=Status.empty(len(figures)),
        key=None if entries.key is None else figures.sums[:, -1] % 1.0,
        contributors=contributors,
        source=entries,
        notes=notes,
    )


def responses_of(figures: Figures, entries: Contributions, inner_values: Sequence[Floats]) -> tuple[Response, ...]:
    """Take the figures apart by response."""
    r = len(entries.names)

    def column(array: Any, number: int) -> Any:
        return np.ascontiguousarray(array[:, number])

    return tuple(
        Response(
            name=name,
            value=column(figures.sums, k),
            count=column(figures.counts, k),
            gross=column(figures.sums, r + k),
            top=column(figures.top, k),
            top_ids=column(figures.ids, k),
            negative=column(figures.counts, 2 * r + k),
            open_count=column(figures.counts, r + k),
            open_top=column(figures.maxima, k),
            requested=column(figures.maxima, r + k) if entries.knows_requests else None,
            inner_value=inner_values[k],
            frequency=entries.frequency,
        )
        for k, name in enumerate(entries.names)
    )


def united(parts: Sequence[Figures], dims: Sequence[Dimension]) -> tuple[Figures, Bools]:
    """Put the cells of linked tables together in order of their codes, each once, and tell where each occurs."""
    stacked = Figures.stack(parts)
    source = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    keys = row_keys(stacked.codes, [len(dim) for dim in dims])
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    in_table = np.zeros((len(first), len(parts)), np.bool_)
    in_table[number, source] = True
    return stacked.take(first), in_table


def _with_empty(cells: Figures, dims: Sequence[Dimension], variables: Sequence[int]) -> Figures:
    """Add the cells of a table that have no records."""
    choices = [np.arange(len(dim)) if j in variables else np.zeros(1, np.int64) for j, dim in enumerate(dims)]
    every = _combinations(choices)
    known = Packer.fit(cells.codes, [len(dim) for dim in dims]).find(every)
    new = every[known < 0]
    shapes = {name: (len(new), *array.shape[1:]) for name, array in vars(cells).items()}
    blank = Figures(
        new,
        np.zeros(shapes["sums"]),
        np.zeros(shapes["counts"], np.int64),
        np.zeros(shapes["maxima"]),
        np.zeros(shapes["top"]),
        np.full(shapes["ids"], -1, np.int32),
    )
    return Figures.stack([cells, blank])


def _with_empty_inner(entries: Contributions, dims: Sequence[Dimension]) -> Contributions:
    every = _combinations([np.flatnonzero(dim.leaves) for dim in dims])
    number: Ints = Packer.fit(every, [len(dim) for dim in dims]).find(entries.inner_codes)
    return replace(entries, inner_codes=every, inner=number[entries.inner])


def _combinations(choices: Sequence[Any]) -> Ints32:
    total = prod(len(choice) for choice in choices)
    if total > MOST_EMPTY:
        raise DataError(
            f"with its empty cells the table would have {total:,} cells, more than {MOST_EMPTY:,}; "
            "use `empty='drop'` or fewer variables"
        )
    grid = np.meshgrid(*choices, indexing="ij")
    return np.column_stack([axis.ravel() for axis in grid]).astype(np.int32)
