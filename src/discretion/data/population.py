"""A population as a field of a part: the path of a file, or a Dataset in memory."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from discretion.data.dataset import Dataset
from discretion.errors import PlanError


def _accept(value: Any) -> Any:
    if isinstance(value, str | Dataset):
        return value
    if hasattr(value, "columns"):
        return Dataset(value)
    raise ValueError("expected the path of a file, a frame or a Dataset")


def _write(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise PlanError("a population in memory cannot be written to a plan; save it and give the path")


Population = Annotated[
    Any,
    PlainValidator(_accept),
    PlainSerializer(_write),
    WithJsonSchema({"type": "string", "description": "path of a file"}),
]
"""A path or a Dataset; only a path can be written to a plan."""


def load_population(value: Any) -> Dataset:
    """Give the population as a Dataset, reading the file where a path was given."""
    if isinstance(value, Dataset):
        return value
    from discretion.data.read import read

    return read(value)
