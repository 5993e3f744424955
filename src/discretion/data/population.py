"""A population as a field of a part: the path of a file, or a Dataset in memory."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from discretion.data.dataset import Dataset

IN_MEMORY = "(data in memory)"
"""What a report or journal writes in place of a Dataset; a plan with it cannot be run."""


def _accept(value: Any) -> Any:
    value = str(value) if isinstance(value, PurePath) else value
    if isinstance(value, str) and value == IN_MEMORY:
        raise ValueError("this plan was made with data in memory; save that data and give the path")
    if isinstance(value, str | Dataset):
        return value
    if hasattr(value, "columns"):
        return Dataset(value)
    raise ValueError("expected the path of a file, a frame or a Dataset")


def _write(value: Any) -> str:
    return value if isinstance(value, str) else IN_MEMORY


Population = Annotated[
    Any,
    PlainValidator(_accept),
    PlainSerializer(_write),
    WithJsonSchema({"type": "string", "description": "path of a file"}),
]
"""A path or a Dataset; only a path can be read back from a plan."""


def load_population(value: Any) -> Dataset:
    """Give the population as a Dataset, reading the file where a path was given."""
    if isinstance(value, Dataset):
        return value
    from discretion.data.read import read

    return read(value)
