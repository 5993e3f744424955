"""What noise leaves as it is: the number of decimals and, when told to, zeros, signs, bounds; for all its methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset, Piece
from discretion.data.households import PersonDraws
from discretion.engines.memory import RowKernel
from discretion.errors import DataError, PlanError, unknown
from discretion.kernels.arrays import Bools, Floats
from discretion.method import Decision, StratifiedMethod
from discretion.part import Columns, FrozenMapping

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

Precision = Literal["original", "full"]

_MOST_DECIMALS, _NO_DECIMALS = 12, 99
_ULPS = 4
"""Rounding errors that a decimal number may carry: 0.1 + 0.2 has one decimal."""
_EPS = float(np.finfo(np.float64).eps)
_FIRST, _BLOCK = 256, 32_768
"""Values that are looked at first (most columns of full precision are known by then), and at a time."""


class NoiseMethod(StratifiedMethod):
    """What all noise methods share: their columns, and what the noise must leave as it is."""

    columns: Columns = ()
    """numeric columns to change; without it, the numeric quasi-identifiers and sensitive columns"""
    precision: Precision = "original"
    """`original`: round to the number of decimals of the column (whole numbers stay whole), so that digits do not tell
    which values were changed; `full`: publish all digits"""
    keep_zeros: bool = False
    """leave zeros as they are (they are then not protected)"""
    keep_sign: bool = False
    """let positive values stay positive and negative ones negative: what would pass zero is reflected at zero"""
    lower: Bounds | None = None
    """smallest allowed value, for every column or by column; what would fall below is reflected at the bound"""
    upper: Bounds | None = None
    """largest allowed value, for every column or by column; what would lie above is reflected at the bound"""

    random: ClassVar[bool] = True

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

    def decide(self, data: Dataset, ctx: Context) -> Decision:
        """Fit, group by group; a column has the same number of decimals in every group."""
        decision = super().decide(data, ctx)
        if groups := decision.values.get("groups"):
            found = [inner["decimals"] for inner in groups.values()]
            common = set(found[0]).intersection(*found)
            most = {name: max(one[name] for one in found) for name in found[0] if name in common}
            same = {key: {**inner, "decimals": most} for key, inner in groups.items()}
            return Decision(MappingProxyType({**decision.values, "groups": same}))
        return decision

    def decimals(self, data: Dataset, columns: Sequence[str]) -> dict[str, int]:
        """Give the number of decimals of the columns that are to be rounded."""
        return decimals_of(data, columns) if self.precision == "original" else {}

    def change(self, data: Dataset, decision: Decision, ctx: Context, noisy: RowKernel) -> Dataset:
        """Rewrite the columns of a decision batch by batch, and put right what must be kept."""
        columns = decision["columns"]
        keep = self.keeper(data, columns, decision["decimals"])

        def kernel(block: Floats, rng: np.random.Generator) -> Floats:
            return keep(block, noisy(block, rng))

        return ctx.engine.map_rows(data, columns, kernel, integers=self.precision == "original")

    def change_people(self, data: Dataset, decision: Decision, draws: PersonDraws, noisy: PersonKernel) -> Dataset:
        """Rewrite the columns of a decision by draws that belong to people, and put right what must be kept."""
        columns = decision["columns"]
        keep, x = self.keeper(data, columns, decision["decimals"]), data.numbers(columns)
        u = np.column_stack([draws.of_numbers(name, data.number(name)) for name in columns])
        new = keep(x, noisy(x, u))
        return data.with_columns(dict(zip(columns, new.T, strict=True)), integers=self.precision == "original")

    def keeper(self, data: Dataset, columns: Sequence[str], decimals: Mapping[str, int]) -> Keeper:
        """Bind the options to the columns of a data set; original values beyond a bound are refused."""
        low = np.array([_bound(self.lower, name, -np.inf) for name in columns])
        high = np.array([_bound(self.upper, name, np.inf) for name in columns])
        for name, bottom, top in zip(columns, low, high, strict=True):
            _require_inside(data, name, bottom, top)
        for place, name in enumerate(columns):
            if name in decimals:
                least, most = _type_limits(data, name)
                low[place] = _next_decimal(max(low[place], least), decimals[name])
                high[place] = -_next_decimal(-min(high[place], most), decimals[name])
        return Keeper(self.keep_zeros, self.keep_sign, tuple(decimals.get(name) for name in columns), low, high)


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
    decimals: tuple[int | None, ...]
    """of each column; none where all digits are published"""
    low: Floats
    high: Floats

    def __call__(self, before: Floats, after: Floats) -> Floats:
        """Give the noisy block with everything kept that was asked for; missing values stay missing."""
        if self.sign:
            nearest = np.array([0.0 if d is None else 10.0**-d for d in self.decimals])  # a whole number is at least 1
            low = np.where(before > 0, np.maximum(self.low, nearest), self.low)
            high = np.where(before < 0, np.minimum(self.high, -nearest), self.high)
            after = reflect(after, low, high)
        elif np.isfinite(self.low).any() or np.isfinite(self.high).any():
            after = reflect(after, self.low, self.high)
        round_columns(after, self.decimals)
        if self.zeros:
            after = np.where(before == 0, before, after)
        return after


def decimals_of(data: Dataset, columns: Sequence[str]) -> dict[str, int]:
    """Give the number of decimals of each column; one whose values have no common number of decimals is left out."""
    import polars as pl

    found = {}
    for name in columns:
        kind = data.kinds[name]
        eps = float(np.finfo(np.float32).eps) if kind == pl.Float32 else _EPS
        count = 0 if kind.is_integer() else _common_decimals(data, name, eps)
        if count is not None:
            found[name] = count
    return found


def _common_decimals(data: Dataset, column: str, eps: float) -> int | None:
    size = min(1.0, max((abs(end) for end in data.extremes(column) if not np.isnan(end)), default=0.0))

    def look(piece: Piece) -> int:
        found = count_decimals(piece.number(column), eps, size)
        return _NO_DECIMALS if found is None else found

    most = max(data.each_batch([column], look, max), default=0)
    return None if most == _NO_DECIMALS else most


def count_decimals(x: Floats, eps: float = _EPS, size: float | None = None) -> int | None:
    """Give the smallest number of decimals that all values have, up to rounding errors of a few `eps`; NaN is left out.

    `size`: of the largest value of the column where these are not all, at most 1: errors near zero are those of such.

    None where there is none up to twelve, or where the last decimal would lie among the rounding errors. Linear in the
    number of values; one of full precision ends it.
    """
    most = 0
    if size is None:
        size = min(1.0, float(np.fmax.reduce(np.abs(x), initial=0.0)))
    starts = [0, *range(_FIRST, len(x), _BLOCK)]
    for start, stop in zip(starts, [*starts[1:], len(x)], strict=True):
        left = x[start:stop]
        left = left[_beyond(left, most, size, eps)]
        for decimals in range(_MOST_DECIMALS + 1 if len(left) else 0):
            left = left[_beyond(left, decimals, size, eps)]
            most = max(most, decimals)
            if not len(left):
                break
        if len(left):
            return None
    return most


def _beyond(x: Floats, decimals: int, size: float, eps: float) -> Bools:
    """Tell which values have more decimals, or so many that their last one is lost in rounding errors.

    The errors are those of the value, and near zero those of values of this `size`: 0.1 + 0.2 − 0.3 is zero.
    """
    scaled = x * 10.0**decimals
    off = np.rint(scaled)
    off -= scaled
    np.abs(off, out=off)
    slack = np.maximum(np.abs(scaled, out=scaled), size * 10.0**decimals, out=scaled)
    slack *= _ULPS * eps
    more = off > slack
    if decimals:
        more |= slack > 0.125  # a whole number however large is whole; decimals must be there to be seen
    return np.asarray(more)


def round_columns(x: Floats, decimals: Sequence[int | None]) -> None:
    """Round the columns of a matrix in place; no zero keeps a sign."""
    for place, count in enumerate(decimals):
        if count is not None:
            column = x[:, place]
            np.round(column, count, out=column)
            column += 0.0


def _next_decimal(bound: float, decimals: int) -> float:
    """Give the smallest number of so many decimals that is not below the bound (rounding errors apart)."""
    if not np.isfinite(bound):
        return bound
    scaled = bound * 10.0**decimals
    close = abs(scaled - np.rint(scaled)) <= _ULPS * _EPS * abs(scaled)
    return float(np.rint(scaled) if close else np.ceil(scaled)) / 10.0**decimals


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


def _type_limits(data: Dataset, column: str) -> tuple[float, float]:
    kind: Any = data.series(column).head(0).to_numpy().dtype
    if kind.kind not in "iu":
        return -np.inf, np.inf
    limits = np.iinfo(kind)
    most = float(limits.max)
    return float(limits.min), most if int(most) <= limits.max else float(np.nextafter(most, 0.0))


def _require_inside(data: Dataset, column: str, low: float, high: float) -> None:
    least, most = data.extremes(column)
    if least >= low and most <= high:
        return
    x = data.number(column)
    below, above = int((x < low).sum()), int((x > high).sum())
    if below or above:
        raise DataError(f"column {column!r}: {below} values lie below the lower bound and {above} above the upper one")
