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
from discretion.tables.contributions import Contributions, as_rules_read
from discretion.tables.dimensions import Dimension
from discretion.tables.packing import Packer, row_keys
from discretion.tables.response import Response
from discretion.tables.roll_up import Figures, blank, table_figures
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
    if entries.weights != "contributions" and (entries.weight != 1).any():
        parts = [_as_read(part, entries, dims, columns, top) for part, columns in zip(parts, variables, strict=True)]
    if empty == "keep":
        parts = [_with_empty(part, dims, columns) for part, columns in zip(parts, variables, strict=True)]
        entries = _with_empty_inner(entries, dims)
    figures, in_table = united(parts, dims, empty == "keep")
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
        weighted_count=figures.weight,
        status=Status.empty(len(figures)),
        key=None if figures.key is None else figures.key % 1.0,
        contributors=contributors,
        source=entries,
        notes=notes,
    )


def _as_read(
    part: Figures, entries: Contributions, dims: Sequence[Dimension], variables: Sequence[int], top: int
) -> Figures:
    """Put the largest contributions, as the rules are to read weights, in the place of weighted ones."""
    others, origin = as_rules_read(entries, top)
    number = np.zeros(int(others.contributor.max(initial=-1)) + 1, np.int32)
    number[others.contributor] = entries.contributor[origin]
    read = table_figures(others, dims, variables, top).amounts
    amounts = tuple(
        replace(
            one,
            top=new.top,
            ids=np.where(new.ids >= 0, number[new.ids], -1).astype(np.int32),
            open_top=new.open_top,
            requested=new.requested,
        )
        for one, new in zip(part.amounts, read, strict=True)
    )
    return replace(part, amounts=amounts)


def responses_of(figures: Figures, entries: Contributions, inner_values: Sequence[Floats]) -> tuple[Response, ...]:
    """Take the figures apart by response; figures that are the same are one array."""
    return tuple(
        Response(
            name=name,
            value=one.value,
            count=one.count,
            gross=one.value if one.gross is None else one.gross,
            top=one.top,
            top_ids=one.ids,
            negative=np.zeros(len(figures), np.int64) if one.negative is None else one.negative,
            open_count=one.count if one.open_count is None else one.open_count,
            open_top=one.top[:, 0] if one.open_top is None else one.open_top,
            requested=one.requested,
            inner_value=inner_value,
            frequency=entries.frequency,
        )
        for name, one, inner_value in zip(entries.names, figures.amounts, inner_values, strict=True)
    )


def united(parts: Sequence[Figures], dims: Sequence[Dimension], unordered: bool = False) -> tuple[Figures, Bools]:
    """Put the cells of linked tables together in order of their codes, each once, and tell where each occurs."""
    if len(parts) == 1 and not unordered:
        return parts[0], np.ones((len(parts[0]), 1), np.bool_)
    source = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    keys = row_keys(np.concatenate([part.codes for part in parts]), [len(dim) for dim in dims])
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    in_table = np.zeros((len(first), len(parts)), np.bool_)
    in_table[number, source] = True
    return Figures.stack(parts, first), in_table


def _with_empty(cells: Figures, dims: Sequence[Dimension], variables: Sequence[int]) -> Figures:
    """Add the cells of a table that have no records."""
    choices = [np.arange(len(dim)) if j in variables else np.zeros(1, np.int64) for j, dim in enumerate(dims)]
    every = _combinations(choices)
    known = Packer.fit(cells.codes, [len(dim) for dim in dims]).find(every)
    new = every[known < 0]
    return Figures.stack([cells, blank(new, cells)])


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
