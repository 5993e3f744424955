"""A declared column: who may see what of it, and how its values become integers for private sums."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from discretion.data.conditions import Scalar
from discretion.errors import QueryRefused
from discretion.online.declared import Declared

if TYPE_CHECKING:
    import polars as pl

Visibility = Literal["public", "sensitive", "hidden"]
ColumnType = Literal["number", "integer", "category", "truth", "date"]

FEWEST_VALUES = 12
"""columns of fewer different values are asked about under differential privacy only"""
_STEPS = 2**16
_MOST_STEPS = 2**32
_MOST_CODE = 2**52


class ColumnSpec(Declared):
    """One column: who may see what of it.

    Examples
    --------
    >>> income = ColumnSpec(role="sensitive", type="integer", bounds=(0, 200_000))
    >>> income.unit, income.codes
    (1.0, (0, 200000))
    """

    role: Visibility
    """public: anybody may know it, it may choose records; sensitive: only aggregates of it; hidden: does not exist"""
    type: ColumnType
    """number, integer, category (text), truth (yes or no), date"""
    bounds: tuple[float, float] | None = None
    """smallest and largest value of a number; differential privacy moves values outside to the nearer bound"""
    whole: bool | None = None
    """whether a number is a whole one; none: looked up in the data, where it matters how many values there can be.
    True sums are told by base groups, unless `false` is said of a number without bounds. That confirms that its values
    are whole in no unit that anybody knows and that no two people have the same: sums of any sets are then told under
    the linear audit, and whoever knows such a unit, or two people with one value, computes everybody's value"""
    resolution: float | None = Field(None, gt=0)
    """unit of fixed-point sums; default: 1 for integers, else the power of two that gives 65,536 steps or more"""
    grid: int = Field(256, ge=2, le=65_536)
    """number of equal steps between the bounds on which quantiles, minimum and maximum are sought under privacy"""
    categories: tuple[Scalar, ...] = ()
    """public keys of groups; without them the groups of a differentially private answer must pass a threshold"""
    description: str = ""
    """what the column means, for analysts"""

    @model_validator(mode="after")
    def _fits(self) -> ColumnSpec:
        problems = [*self._bound_problems(), *self._category_problems()]
        if self.whole is not None and self.type != "number":
            problems.append(f"`whole` belongs to numbers, not to type {self.type}")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _bound_problems(self) -> list[str]:
        if self.bounds is None:
            return ["`resolution` needs `bounds`"] if self.resolution is not None else []
        if self.type not in ("number", "integer"):
            return [f"`bounds` belong to numbers and integers, not to type {self.type}"]
        lower, upper = self.bounds
        if not lower < upper:
            return ["the lower bound must be below the upper bound"]
        if max(abs(lower), abs(upper)) / self.unit > _MOST_CODE or (upper - lower) / self.unit > _MOST_STEPS:
            return [f"bounds and resolution give more than {_MOST_STEPS:,} steps; choose a coarser `resolution`"]
        return []

    def _category_problems(self) -> list[str]:
        wanted: tuple[type, ...]
        wanted = {"integer": (int,), "number": (int, float), "truth": (bool,)}.get(self.type, (str,))
        wrong = [v for v in self.categories if not isinstance(v, wanted) or isinstance(v, bool) != (bool in wanted)]
        problems = (
            [f"the categories of type {self.type} are {' or '.join(t.__name__ for t in wanted)}"] if wrong else []
        )
        return [*problems, *(["a category is named twice"] if len(set(self.categories)) < len(self.categories) else [])]

    @property
    def keys(self) -> tuple[Scalar, ...]:
        """The declared categories; of a truth no and yes."""
        return self.categories or ((False, True) if self.type == "truth" else ())

    @property
    def is_numeric(self) -> bool:
        """Whether sums of the column mean something (yes counts 1, no counts 0)."""
        return self.type in ("number", "integer", "truth")

    @property
    def is_yes_or_no(self) -> bool:
        """Whether a value is one of two: a truth, or an integer between bounds one apart."""
        return self.type == "truth" or (self.type == "integer" and self.bounds is not None and self.whole_values <= 2)

    @property
    def whole_values(self) -> int:
        """How many whole numbers lie between the bounds."""
        lower, upper = self.required_limits()
        return math.floor(upper) - math.ceil(lower) + 1

    def is_whole(self, values: pl.Series) -> bool:
        """Say whether values are whole: integers, and numbers as the owner says, or as they are."""
        if self.type == "number":
            return bool((values == values.floor()).all()) if self.whole is None else self.whole
        return self.type == "integer"

    def has_few_values(self, values: pl.Series) -> bool:
        """Say whether a column has so few different values that sums tell single ones: yes or no, fewer than 12.

        In a table of fewer than 24 people: fewer than half as many as people.
        """
        if self.is_yes_or_no:
            return True
        if self.bounds is not None and self.is_whole(values) and self.whole_values < FEWEST_VALUES:
            return True
        present = values.drop_nulls()
        different = present.n_unique()
        return different < min(FEWEST_VALUES, -(-len(present) // 2)) or different <= 2 < len(present)

    @property
    def limits(self) -> tuple[float, float] | None:
        """The declared bounds; of a truth 0 and 1."""
        return (0.0, 1.0) if self.type == "truth" else self.bounds

    @property
    def unit(self) -> float:
        """The unit of fixed-point figures: a value x has the code floor(x / unit + 1/2)."""
        if self.resolution is not None:
            return self.resolution
        if self.type != "number" or self.bounds is None:
            return 1.0
        width = (self.bounds[1] - self.bounds[0]) / _STEPS
        return 2.0 ** math.floor(math.log2(width)) if width > 0 else 1.0

    @property
    def codes(self) -> tuple[int, int]:
        """The codes of the bounds: every clamped value's code lies between them, both included."""
        lower, upper = self.required_limits()
        return self.code(lower), self.code(upper)

    def code(self, value: float) -> int:
        """Give the fixed-point code of a number."""
        return math.floor(value / self.unit + 0.5)

    def required_limits(self) -> tuple[float, float]:
        """Give the bounds, or refuse: without bounds no noise is enough."""
        limits = self.limits
        if limits is None:
            raise QueryRefused("the column has no declared bounds, so no amount of noise would protect an answer")
        return limits

    def candidates(self) -> tuple[float, ...]:
        """Give the `grid` + 1 borders of equal steps between the bounds."""
        lower, upper = self.required_limits()
        if self.type == "truth":
            return (0.0, 1.0)
        return (*(lower + (upper - lower) * i / self.grid for i in range(self.grid)), upper)
