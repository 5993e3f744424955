"""Small tables as blocks of text: a line of column names, then a line for each record, cells between bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from discretion.data.dataset import Dataset, Level

TEXTS = frozenset({"zip"})
"""Columns that stay text although they look like numbers."""


def frame(block: str) -> pl.DataFrame:
    """Read a block; a column whose cells are all numbers becomes numeric, except the codes in `TEXTS`."""
    import polars as pl

    head, *rows = [[cell.strip() for cell in line.split("|")] for line in block.strip().splitlines()]
    cells = dict(zip(head, zip(*rows, strict=True), strict=True))
    return pl.DataFrame({name: list(found) if name in TEXTS else _numbers(found) for name, found in cells.items()})


def _numbers(cells: tuple[str, ...]) -> list[int] | list[float] | list[str]:
    try:
        return [int(cell) for cell in cells]
    except ValueError:
        pass
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        return list(cells)


def dataset(block: str, roles: Mapping[str, object] | None = None, **more: Any) -> Dataset:
    """Read a block as a Dataset; columns without a role given are quasi-identifiers."""
    from discretion.data.dataset import Dataset

    found = frame(block)
    return Dataset(found, roles={**dict.fromkeys(found.columns, "quasi"), **(roles or {})}, **more)


def released(original: Dataset, block: str, levels: Mapping[str, Level] | None = None) -> Dataset:
    """Read a block as a release of the original, record by record; the levels applied are recorded."""
    from discretion.data.dataset import Dataset

    new = Dataset(frame(block), roles={name: original.schema[name].roles for name in original.columns})
    aligned = new.matched_to(original, original.row_ids)
    return aligned.with_levels(levels) if levels else aligned


def versions(block: str) -> list[str]:
    """Split a block of versions that stand side by side, with double bars between them."""
    rows = [line.split("||") for line in block.strip().splitlines()]
    return ["\n".join(part) for part in zip(*rows, strict=True)]
