"""What noise may be told to leave as it is: zeros, signs, whole numbers, bounds. One place for every noise method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.persons import PersonDraws
from discretion.engines.memory import RowKernel
from discretion.errors import DataError, PlanError, unknown
from discretion.method import Decision, StratifiedMethod
from discretion.part import Columns, FrozenMapping

Floats = NDArray[np.float64]

PersonKernel = Callable[[Floats, Floats], Floats]
"""From values and numbers between 0 and 1, which belong to their people, to the values that replace them."""

EVERY = "*"
"""Stands for every column that has no bound of its own."""


def _per_column(given: object) -> object:
    """Take one number for every column; the command line gives it as the name of a pair without a value."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        return {EVERY: given}
    if isinstance(given, Mapping) and list(given.values()) == [""]:
        return {EVERY: next(iter(given))}
    return given


Bounds = Annotated[FrozenMapping[str, float], BeforeValidator(_per_column)]
"""A number for every column, or a mapping from column to number."""


class NoiseMethod(StratifiedMethod):
    """What all noise methods share: their columns, and what the noise must leave as it is."""

    columns: Columns = ()
    """numeric columns to change; without it, the numeric quasi-identifiers and sensitive columns"""
    integers: bool = False
    """round columns of whole numbers back to whole numbers"""
    keep_zeros: bool = False
    """leave zeros as they are (they are then not protected)"""
    keep_sign: bool = False
    """let positive values stay positive and negative ones negative: what would pass zero is reflected at zero"""
    lower: Bounds | None = None
    """smallest allowed value, for every column or by column; what would fall below is reflected at the bound"""
    upper: Bounds | None = None
    """largest allowed value, for every column or by column; what would lie above is reflected at the bound"""

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Self:
        for name in {*(self.lower or {}), *(self.upper or {})}:
            low, high = _bound(self.lower, name, -np.inf), _bound(self.upper, name, np.inf)
            if low >= high:
                raise ValueError(f"`lower` must be less than `upper`, got {low:g} and {high:g}")
        return self

    def choose(self, data: Dataset) -> tuple[str, ...]:
        """Give the columns to change, each with at least two values, and check that bounds name such columns."""
        columns = data.choose(self.columns, "perturb")
        data.require_spread(columns)
        named = {*(self.lower or {}), *(self.upper or {})} - {EVERY}
        if wrong := sorted(named - set(columns)):
            raise PlanError([f"{self.kind}: a bound for an {unknown('column', name, columns)}" for name in wrong])
        return columns

    def reads(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to change and those that form groups."""
        return self._reads_also(data, data.choose(self.columns, "perturb"))

    def whole(self, data: Dataset, columns: Sequence[str]) -> list[str]:
        """Name the columns that are to be rounded: those without fractions, where `integers` asks for it."""
        return [name for name in columns if self.integers and _is_whole(data, name)]

    def change(self, data: Dataset, decision: Decision, ctx: Context, noisy: RowKernel) -> Dataset:
        """Rewrite the columns of a decision batch by batch, and put right what must be kept."""
        columns = decision["columns"]
        keep = self.keeper(data, columns, decision["whole"])

        def kernel(block: Floats, rng: np.random.Generator) -> Floats:
            return keep(block, noisy(block, rng))

        return ctx.engine.map_rows(data, columns, kernel, integers=self.integers)

    def change_people(self, data: Dataset, decision: Decision, draws: PersonDraws, noisy: PersonKernel) -> Dataset:
        """Rewrite the columns of a decision by draws that belong to people, and put right what must be kept."""
        columns = decision["columns"]
        keep, x = self.keeper(data, columns, decision["whole"]), data.numbers(columns)
        u = np.column_stack([draws.of_numbers(name, data.number(name)) for name in columns])
        new = keep(x, noisy(x, u))
        return data.with_columns(dict(zip(columns, new.T, strict=True)), integers=self.integers)

    def keeper(self, data: Dataset, columns: Sequence[str], whole: Sequence[str]) -> Keeper:
        """Bind the options to the columns of a data set; original values beyond a bound are refused."""
        low = np.array([_bound(self.lower, name, -np.inf) for name in columns])
        high = np.array([_bound(self.upper, name, np.inf) for name in columns])
        for name, bottom, top in zip(columns, low, high, strict=True):
            _require_inside(data, name, bottom, top)
        rounded = np.array([name in whole for name in columns], dtype=np.bool_)
        for place in np.flatnonzero(rounded).tolist():
            least, most = _type_limits(data, columns[place])
            low[place], high[place] = np.ceil(max(low[place], least)), np.floor(min(high[place], most))
        return Keeper(self.keep_zeros, self.keep_sign, rounded, low, high)


class PersonalNoise(NoiseMethod):
    """A noise method whose draws can belong to people instead of to rows."""

    by_person: bool = False
    """draw by person and value: in the next delivery (with the decision of the first, `--reuse`, and its seed file) an
    unchanged value of the same person gets the same noise, a changed one fresh noise"""
    person: str = ""
    """column that says who a row is about, for `by_person`; without it, the one with the role identifier"""


@dataclass(frozen=True)
class Keeper:
    """Puts noisy values right: reflected into their bounds, rounded, zeros restored."""

    zeros: bool
    sign: bool
    whole: NDArray[np.bool_]
    low: Floats
    high: Floats

    def __call__(self, before: Floats, after: Floats) -> Floats:
        """Give the noisy block with everything kept that was asked for; missing values stay missing."""
        if self.sign:
            nearest = np.where(self.whole, 1.0, 0.0)  # a positive whole number is at least one
            low = np.where(before > 0, np.maximum(self.low, nearest), self.low)
            high = np.where(before < 0, np.minimum(self.high, -nearest), self.high)
            after = reflect(after, low, high)
        elif np.isfinite(self.low).any() or np.isfinite(self.high).any():
            after = reflect(after, self.low, self.high)
        if self.whole.any():
            after = np.where(self.whole, np.round(after), after)
        if self.zeros:
            after = np.where(before == 0, before, after)
        return after


def reflect(y: Floats, low: Floats, high: Floats) -> Floats:
    """Mirror values at the bounds, as often as it takes, until they lie between them; infinite bounds do nothing."""
    outside = (y < low) | (y > high)
    if not outside.any():
        return y
    v = y[outside]
    a, b = (np.broadcast_to(bound, y.shape)[outside] for bound in (low, high))
    two = np.isfinite(a) & np.isfinite(b)
    once = np.where(v < a, 2 * a - v, 2 * b - v)
    width = np.where(two & (b > a), b - a, 1.0)
    start = np.where(two, a, 0.0)
    turn = np.mod(np.where(two, v, 0.0) - start, 2 * width)
    folded = start + np.minimum(turn, 2 * width - turn)
    result = y.copy()
    result[outside] = np.clip(np.where(two, folded, once), a, b)
    return result


def factor_of(covariance: Floats) -> Floats:
    """Give F with F·Fᵀ = covariance, also where the covariance is singular."""
    roots, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(roots, 0.0)))


def normals(shape: tuple[int, ...], factor: Floats, rng: np.random.Generator) -> Floats:
    """Draw normal noise with the covariance F·Fᵀ; in one thread, since many for so small a product only wait."""
    return np.asarray(np.einsum("ij,kj->ik", rng.standard_normal(shape), factor))


def _bound(bounds: Mapping[str, float] | None, column: str, default: float) -> float:
    found = bounds or {}
    return float(found.get(column, found.get(EVERY, default)))


def _is_whole(data: Dataset, column: str) -> bool:
    if data.frame.schema[column].is_integer():
        return True
    x = data.number(column)
    return bool(np.all((x == np.floor(x)) | np.isnan(x)))


def _type_limits(data: Dataset, column: str) -> tuple[float, float]:
    kind: Any = data.frame[column].head(0).to_numpy().dtype
    if kind.kind not in "iu":
        return -np.inf, np.inf
    limits = np.iinfo(kind)
    return float(limits.min), float(limits.max)


def _require_inside(data: Dataset, column: str, low: float, high: float) -> None:
    least, most = data.extremes(column)
    if least >= low and most <= high:
        return
    x = data.number(column)
    below, above = int((x < low).sum()), int((x > high).sum())
    if below or above:
        raise DataError(f"column {column!r}: {below} values lie below the lower bound and {above} above the upper one")
