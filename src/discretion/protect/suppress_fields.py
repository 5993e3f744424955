"""Fields of local suppression: what a cell costs, and subsets of columns with their own k."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

from discretion.part import Columns


def _weight(given: object) -> object:
    """Read an infinite weight as "never", and text from the command line as a number."""
    if isinstance(given, str) and given != "never":
        try:
            given = float(given)
        except ValueError:
            raise ValueError(f"expected a number above 0 or `never`, got {given!r}") from None
    return "never" if isinstance(given, float) and given == math.inf else given


def _weights(given: object) -> object:
    return {name: _weight(weight) for name, weight in given.items()} if isinstance(given, Mapping) else given


def _positive(given: Mapping[str, Any]) -> Mapping[str, Any]:
    if any(weight != "never" and not weight > 0 for weight in given.values()):
        raise ValueError("a weight must be above 0, or `never`")
    return MappingProxyType(dict(given))


Importance = Annotated[
    Mapping[str, float | str], BeforeValidator(_weights), AfterValidator(_positive), PlainSerializer(dict)
]
"""What a suppressed cell of each column costs; `never` (or infinity): the column is not suppressed."""


class Subset(BaseModel):
    """Columns that an intruder may know without the others, with their own k."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    columns: Columns = ()
    """the columns; or give `size`"""
    size: int | None = Field(None, ge=1)
    """every choice of this many columns"""
    k: int = Field(ge=1)
    """smallest allowed class size for these columns"""

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        if bool(self.columns) == (self.size is not None):
            raise ValueError("give exactly one of `columns` and `size`")
        return self
