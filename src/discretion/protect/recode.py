"""Less detail: hierarchies and intervals (P2, P3), grouped categories, top and bottom coding (P4), rounding (P22)."""

from __future__ import annotations

import datetime as dt
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, field_validator, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset, Piece
from discretion.data.hierarchy import TOP, canonical, interval_bounds, interval_label
from discretion.errors import DataError, PlanError, unknown
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.method import Decision, Method, Purpose, StratifiedMethod
from discretion.part import Columns, FrozenMapping, Scale, confidential
from discretion.protect.noise_keep import decimals_of
from discretion.protect.ordered import Ordered, category_order, ordered

if TYPE_CHECKING:
    import polars as pl

# Rounding to a base (P22).

_INEXACT = 1e-9
"""Share of the base by which division may miss a multiple: 0.3 / 0.1 is a little less than 3."""
_LAST_DIGITS = 4
"""Of large counts, as many units of the last binary place: there the numbers themselves are no more exact."""


class Round(Method, kind="round"):
    """Round each value to a multiple of a base.

    `nearest` takes the nearer multiple (halves go to the even one, so that sums are not pushed up), `up` and `down`
    the next one in that direction; `random` goes up with a probability equal to the share of the base that the value
    has gone beyond the lower multiple, so that every value, and every sum, is right in expectation. Guarantees that
    values between the same two multiples cannot be told apart (nearest, up, down), or only by chance (random). Does
    not give k-anonymity, and each column is rounded on its own, so that published totals need not add up. Multiples
    stay as they are; missing values stay missing. Columns of whole numbers stay whole when the base is whole. Time
    and memory linear.

    References
    ----------
    Willenborg & de Waal (2001), Elements of statistical disclosure control, 3.6; catalogue P22.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> dc.Round(columns=["x"], base=5)(pl.DataFrame({"x": [1, 13, 15]}))["x"].to_list()
    [0, 15, 15]
    """

    columns: Columns = ()
    """numeric columns to round; without it, the numeric quasi-identifiers and sensitive columns"""
    base: float = Field(gt=0)
    """what values become multiples of"""
    how: Literal["nearest", "random", "up", "down"] = "nearest"
    """to which of the two multiples around a value"""

    purpose: ClassVar[Purpose] = "hide exact numbers"
    effect: ClassVar[str] = (
        "Means are nearly unbiased; differences smaller than the rounding base are gone and values heap at its "
        "multiples."
    )
    scale: ClassVar[Scale] = "rows"
    guarantee: ClassVar[str] = (
        "Values were rounded, so that close values cannot be told apart; sums of rounded values need not add up."
    )

    @property
    def draws(self) -> bool:
        """Only random rounding draws."""
        return self.how == "random"

    def reads(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns to round."""
        return data.choose(self.columns, "perturb")

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Round, batch by batch."""
        columns = data.choose(self.columns, "perturb")
        for name in columns:
            data.number(name)
            if len(data) and data.count_missing(name) == len(data):
                raise DataError(f"column {name!r} has no values")
        kinds = data.frame.schema
        whole = [name for name in columns if float(self.base).is_integer() and kinds[name].is_integer()]
        if rest := [name for name in columns if name not in whole]:
            data = ctx.engine.map_rows(data, rest, self._multiples)
        return self._round_whole(data, whole, ctx.within("whole")) if whole else data

    def _round_whole(self, data: Dataset, columns: Sequence[str], ctx: Context) -> Dataset:
        """Round columns of whole numbers to a whole base without fractions: every digit counts, however large."""
        base = int(self.base)
        old = [_as_integers(data.series(name), base) for name in columns]
        new = [np.empty_like(x) for x in old]
        for batch in ctx.batches(len(data)):
            rows = slice(batch.start, batch.stop)
            for x, out in zip(old, new, strict=True):
                count, beyond = np.divmod(x[rows], base)
                out[rows] = (count + self._goes_up(count, beyond, base, batch.rng)) * base
        return data.with_columns(
            {name: _in_type(x, data.series(name)) for name, x in zip(columns, new, strict=True)}, integers=True
        )

    def _goes_up(self, count: Ints, beyond: Ints, base: int, rng: np.random.Generator) -> Bools:
        if self.how == "down":
            return np.zeros(len(count), np.bool_)
        if self.how == "up":
            return np.asarray(beyond > 0)
        if self.how == "random":
            return np.asarray(rng.random(len(count)) < beyond / base)
        return np.asarray((beyond > base - beyond) | ((beyond == base - beyond) & (count % 2 != 0)))

    def _multiples(self, block: Floats, rng: np.random.Generator) -> Floats:
        count = block / self.base
        near = np.round(count)
        exact = np.abs(count - near) <= np.maximum(_INEXACT, _LAST_DIGITS * np.spacing(np.abs(count)))
        if self.how == "down":
            chosen = np.floor(count)
        elif self.how == "up":
            chosen = np.ceil(count)
        elif self.how == "random":
            chosen = np.floor(count + rng.random(block.shape))
        else:
            chosen = near
        multiples = np.where(exact, near, chosen) * self.base
        return np.asarray(np.round(multiples, _decimals(self.base))) + 0.0  # no −0.0


def _decimals(base: float) -> int:
    """Count the decimals of the base: its multiples have no more."""
    exponent = Decimal(str(base)).as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _as_integers(series: pl.Series, base: int) -> Ints:
    """Give whole numbers in 64 bits, missing ones as 0; refuse those whose multiple might not fit."""
    import polars as pl

    most = max((abs(end) for end in (series.min(), series.max()) if isinstance(end, int)), default=0)
    if most + base >= 2**63:
        raise DataError(f"column {series.name!r}: its numbers are too large to be rounded to multiples of {base}")
    return series.fill_null(0).cast(pl.Int64).to_numpy()


def _in_type(values: Ints, before: pl.Series) -> pl.Series:
    """Give whole numbers in their old type, or in a wider one where the multiples do not fit; missing ones as null."""
    import polars as pl

    whole = pl.Series(before.name, values)
    if before.null_count():
        whole = pl.select(pl.when(before.is_not_null()).then(whole)).to_series().alias(before.name)
    try:
        return whole.cast(before.dtype)
    except pl.exceptions.InvalidOperationError:
        return whole


# Top and bottom coding: extreme values are not told apart (P4).

Bound = Annotated[float | str, BeforeValidator(lambda at: at.isoformat() if isinstance(at, dt.date) else at)]
"""A number, a date (as ISO text) or a category."""


class _TailCode(StratifiedMethod):
    """What top and bottom coding share."""

    column: str
    """column to code: numbers, dates, or categories with an order"""
    at: Bound | None = None
    """the bound: values beyond it are replaced; a number, a date (YYYY-MM-DD) or a category"""
    quantile: float | None = confidential(None, gt=0, lt=1)
    """the bound as a quantile of the data, for example 0.99; of dates and categories the one that reaches the share"""
    replace: Literal["cut", "flag", "mean"] = "cut"
    """what stands for a value beyond the bound: the bound, a label, or the mean of all values beyond it"""
    label: str | None = None
    """the label for `replace: flag`; without it, for example "> 100000"; the column becomes text"""

    perturbs: ClassVar[bool] = False
    effect: ClassVar[str] = (
        "The tail that was coded is one value: percentiles inside the other values are exact; means and variances are "
        "biased by what the tail lost, slopes are flattened there."
    )
    scale: ClassVar[Scale] = "rows"
    guarantee: ClassVar[str] = "Extreme values were replaced by one value, so that they cannot be told apart."
    _sign: ClassVar[str] = ">"

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if (self.at is None) == (self.quantile is None):
            raise ValueError("give exactly one of `at` and `quantile`")
        if self.label is not None and self.replace != "flag":
            raise ValueError("`label` goes with `replace: flag`")
        return self

    def _beyond(self, x: Floats, bound: float) -> Bools:
        return x > bound if self._sign == ">" else x < bound

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find the bound and what replaces the values beyond it."""
        found = ordered(data.at_hand(), self.column)
        if data.count_missing(self.column) == len(data):
            raise DataError(f"column {self.column!r} has no values")
        if found.scale == "order" and self.replace == "mean":
            raise DataError(f"column {self.column!r} has categories, and categories have no mean; use cut or flag")
        bound = self._bound(found, data, ctx)
        value: float | str = bound
        if self.replace == "mean":
            count, total = self._sum_beyond(data, found.place(bound))
            value = self._mean(found, data, total / count) if count else bound
        elif self.replace == "flag":
            shown = (canonical(bound) if bound.is_integer() else f"{bound:.12g}") if isinstance(bound, float) else bound
            value = self.label if self.label is not None else f"{self._sign} {shown}"
        return Decision(MappingProxyType({"bound": bound, "value": value}))

    def _sum_beyond(self, data: Dataset, place: float) -> tuple[int, float]:
        """Count the values beyond the bound, and add them up."""

        def look(piece: Piece) -> tuple[int, float]:
            places = ordered(piece.data, self.column).places[piece.start : piece.stop]
            beyond = places[self._beyond(places, place)]
            return len(beyond), float(beyond.sum())

        found = data.each_batch([self.column], look)
        return sum(count for count, _ in found), math.fsum(total for _, total in found)

    def _mean(self, found: Ordered, data: Dataset, mean: float) -> float | str:
        """Write the mean with the decimals of the column: with more of them it would show which values were coded."""
        if found.scale != "number":
            return found.name(mean)
        decimals = decimals_of(data, [self.column]).get(self.column)
        return round(mean, decimals) if decimals else mean

    def _bound(self, found: Ordered, data: Dataset, ctx: Context) -> float | str:
        if self.at is not None:
            return found.name(found.place(self.at))
        if found.scale == "number":
            return float(ctx.engine.quantiles(data, self.column, [self.quantile or 0.0])[0])
        return found.name(_reached(data, self.column, self.quantile or 0.0))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Replace the values beyond the bound."""
        import polars as pl

        found = ordered(data, self.column)
        beyond = pl.Series(self._beyond(found.places, found.place(decision["bound"])))
        series, value = found.series, decision["value"]
        if not beyond.any() and self.replace != "flag":
            return data.with_columns({self.column: series})
        if self.replace == "flag":
            series, other = series.cast(pl.String), pl.lit(value, dtype=pl.String)
        elif found.scale == "number":
            series, other = _room_for(series, float(value), self.replace == "mean")
        else:
            other = pl.lit(found.literal(value))
        new = pl.select(pl.when(beyond).then(other).otherwise(series)).to_series()
        result = data.with_columns({self.column: new.alias(self.column)})
        if self.replace == "flag" and found.scale == "order":
            return result.with_schema(
                result.schema.with_column(self.column, order=self._new_order(found, decision), type="ordinal")
            )
        return result

    def _new_order(self, found: Ordered, decision: Decision) -> tuple[str, ...]:
        """Put the label where the replaced categories were."""
        place = int(found.place(decision["bound"]))
        if self._sign == ">":
            return (*found.levels[: place + 1], decision["value"])
        return (decision["value"], *found.levels[place:])


def _reached(data: Dataset, column: str, share: float) -> float:
    """Give the smallest place of a date or category at or below which a share of the values present lies."""

    def look(piece: Piece) -> Counter[float]:
        places = ordered(piece.data, column).places[piece.start : piece.stop]
        return Counter(dict(zip(*(one.tolist() for one in np.unique_counts(places[~np.isnan(places)])), strict=True)))

    counts = sum(data.each_batch([column], look, operator.add), Counter[float]())
    values = sorted(counts)
    upto = np.cumsum([counts[value] for value in values])
    return float(values[int(np.searchsorted(upto, max(math.ceil(upto[-1] * share - 1), 0), side="right"))])


def _room_for(series: Any, value: float, rounded: bool) -> tuple[Any, Any]:
    """Give a numeric column in a type that can hold the value, and the value in that type."""
    import polars as pl

    if series.dtype.is_integer():
        number = round(value) if rounded else value
        if not float(number).is_integer():
            series = series.cast(pl.Float64)
        elif not _fits(number, series.dtype):
            series = series.cast(pl.Int64 if _fits(number, pl.Int64) else pl.Float64)
        value = number
    return series, pl.lit(value, dtype=series.dtype)


def _fits(number: float, kind: Any) -> bool:
    import polars as pl

    least, most = pl.select(kind.min().alias("least"), kind.max().alias("most")).row(0)
    return bool(least <= number <= most)


class TopCode(_TailCode, kind="top-code"):
    """Replace all values above a bound by one value.

    The largest incomes or ages are what people recognize first; after top coding they cannot be told apart. For
    numbers, dates, and categories whose order is known (from the schema or an Enum). The bound may be given or be a
    quantile; above it stands the bound, a label, or the mean of the tail (which keeps the column's mean, up to rounding
    in columns of whole numbers; not for categories). Whole numbers stay whole if the bound is whole. Does not protect
    values below the bound. Missing values stay missing. The bound that was found can be re-used on the next delivery.
    Time linear (a quantile: O(n log n) at most).

    References
    ----------
    Catalogue P4.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> dc.TopCode(column="age", at=60)(pl.DataFrame({"age": [12, 61, 68]}))["age"].to_list()
    [12, 60, 60]
    >>> people = dc.Dataset(pl.DataFrame({"school": ["none", "primary", "PhD"]}),
    ...                     orders={"school": ["none", "primary", "secondary", "PhD"]})
    >>> dc.TopCode(column="school", at="secondary")(people).frame["school"].to_list()
    ['none', 'primary', 'secondary']
    """

    purpose: ClassVar[Purpose] = "blur groups"
    _sign: ClassVar[str] = ">"


class BottomCode(_TailCode, kind="bottom-code"):
    """Replace all values below a bound by one value.

    The counterpart of top coding for small values: numbers, dates (everybody born before 1930), and categories whose
    order is known. Whole numbers stay whole. Does not protect values above the bound. Missing values stay missing.
    The bound that was found can be re-used on the next delivery. Time linear.

    References
    ----------
    Catalogue P4.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [12, 61]})
    >>> dc.BottomCode(column="age", at=18, replace="flag", label="minor")(ages)["age"].to_list()
    ['minor', '61']
    """

    purpose: ClassVar[Purpose] = "blur groups"
    _sign: ClassVar[str] = "<"


# Categories are put together (P2).


def _listed(given: object) -> object:
    """Take one member without a list, or several between bars (as on the command line); numbers as text."""
    if isinstance(given, str):
        return tuple(given.split("|"))
    if isinstance(given, bool | int | float):
        return (canonical(given),)
    if isinstance(given, list | tuple):
        return tuple(canonical(item) if isinstance(item, bool | int | float) else item for item in given)
    return given


Members = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class GroupCategories(Method, kind="group-categories"):
    """Put categories together under one label.

    Either `groups` name the members of each new category, and the others stay as they are; or every category with fewer
    records than `smaller_than` is pooled under `label`. If the pool itself is too small, the next smallest category
    joins it: guarantees then that every category that is left has at least that many records. Nothing false is said,
    only less. Does not by itself give k-anonymity: *combinations* of categories may still be rare. A label that is
    already a category (in small or large letters) is joined with it. Missing values stay missing and do not count as a
    category; the column becomes text. On a column with an order the label takes the place of its lowest member.

    The grouping can be re-used on the next delivery; there, a category that was not seen when it was fitted counts as
    small and is pooled. Time linear.

    References
    ----------
    Willenborg & de Waal (2001), Elements of statistical disclosure control (global recoding); catalogue P2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> jobs = pl.DataFrame({"job": ["nurse", "nurse", "doctor", "mayor", "judge"]})
    >>> dc.GroupCategories(column="job", groups={"health": ["nurse", "doctor"]})(jobs)["job"].to_list()
    ['health', 'health', 'health', 'mayor', 'judge']
    >>> dc.GroupCategories(column="job", smaller_than=2)(jobs)["job"].to_list()
    ['nurse', 'nurse', 'other', 'other', 'other']
    """

    column: str
    """column whose categories are grouped"""
    groups: FrozenMapping[str, Members] | None = None
    """new label and its members, for example {health: [nurse, doctor]}; on the command line health=nurse|doctor"""
    smaller_than: int | None = confidential(None, ge=2)
    """pool the categories with fewer records than this"""
    label: str = "other"
    """name of the pool, for `smaller_than`"""

    perturbs: ClassVar[bool] = False
    purpose: ClassVar[Purpose] = "blur groups"
    effect: ClassVar[str] = (
        "Estimates for the broader categories are exact; finer ones cannot be made, and category midpoints in place "
        "of numbers bias variances and slopes."
    )
    scale: ClassVar[Scale] = "rows"
    guarantee: ClassVar[str] = "Categories were put together; what is said is true, but less detailed."

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.groups is None) == (self.smaller_than is None):
            raise ValueError("give exactly one of `groups` and `smaller_than`")
        if self.groups is not None and (not self.groups or not all(self.groups.values())):
            raise ValueError("`groups` needs at least one label, each with at least one member")
        seen: dict[str, str] = {}
        for label, members in (self.groups or {}).items():
            for member in members:
                if seen.setdefault(member, label) != label:
                    raise ValueError(f"{member!r} is in two groups, {seen[member]!r} and {label!r}")
        return self

    def fit(self, data: Dataset, ctx: Context) -> Decision:  # noqa: ARG002
        """Check the members, or find the categories that are large enough."""
        # count the records of each category, missing left out
        data.require([self.column])
        if data.type_of(self.column) == "set" or data.kinds[self.column].is_nested():
            raise DataError(f"column {self.column!r} holds sets; a column of categories is needed")
        counts = data.value_counts(self.column)
        if not counts:
            raise DataError(f"column {self.column!r} has no values")
        if self.groups is not None:
            order, names = category_order(data, self.column), data.schema[self.column].value_labels
            known = {*counts, *order, *(canonical(value) for value in names)}
            members = {member: label for label, listed in self.groups.items() for member in listed}
            lacking = [name for name in members if name not in known]
            if lacking:
                faults = [f"column {self.column!r}: {unknown('category', name, known)}" for name in lacking]
                raise DataError("\n".join(faults))
            return Decision(MappingProxyType({"members": members}))
        label = next((name for name in counts if name.casefold() == self.label.casefold()), self.label)
        label = self.label if self.label in counts else label
        return Decision(MappingProxyType({"kept": self._large(counts), "label": label}))

    def _large(self, counts: Mapping[str, int]) -> list[str]:
        """Name the categories that stay; the pool takes the smallest ones until it is large enough itself."""
        least = self.smaller_than or 0
        if sum(counts.values()) < least:
            raise DataError(f"column {self.column!r} has fewer values than a category needs; nothing can be pooled")
        ranked = sorted(counts, key=lambda name: (counts[name], name))
        pooled = {name for name in ranked if counts[name] < least or name.casefold() == self.label.casefold()}
        size = sum(counts[name] for name in pooled)
        for name in ranked:
            if not pooled or size >= least:
                break
            if name not in pooled:
                pooled.add(name)
                size += counts[name]
        return sorted(set(counts) - pooled)

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Map each category once, then the rows."""
        import polars as pl

        data.require([self.column])
        codes = data.codes(self.column)
        rename = _renaming(decision.values)
        texts = [None if value is None else rename(canonical(value)) for value in codes.values]
        labels = pl.Series(self.column, texts, dtype=pl.String)
        result = data.with_columns({self.column: labels.gather(codes.codes.astype(np.uint32))})
        order = category_order(data, self.column)
        if not order:
            return result
        new = tuple(dict.fromkeys(rename(level) for level in order))
        return result.with_schema(result.schema.with_column(self.column, order=new, type="ordinal"))


def _renaming(decision: Mapping[str, Any]) -> Callable[[str], str]:
    """Give the function from an old category to its new name."""
    if "members" in decision:
        members: Mapping[str, str] = decision["members"]
        return lambda category: members.get(category, category)
    kept, pool = frozenset(decision["kept"]), str(decision["label"])
    return lambda category: category if category in kept else pool


_ROUNDING = 1e-9
"""Share of an interval by which division may miss its bound: 0.3 / 0.1 is a little less than 3."""

_MOVED = 0.05
"""Share of an interval's records by which rounding its quantiles may change their number."""

MOST_INTERVALS = 1_000_000
"""More intervals of a width are refused: they would say as much as the numbers."""


class Generalize(Method, kind="generalize"):
    """Replace each value by a broader one, by the column's hierarchy.

    The same level is used for every record of a column (global recoding). Nothing false is said, only less: a column
    whose top or bottom was coded before is refused where the label of the bound does not hold for those who lie beyond
    it (`[60, 79]` for somebody of 90); a hierarchy with open ends (`cuts` up to inf) needs no coding. What it
    guarantees depends on the level: check k-anonymity afterwards. Does not protect against attribute disclosure.
    Missing values stay missing. Time linear in the number of cells.

    References
    ----------
    Samarati & Sweeney (1998); catalogue P3.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.Generalize(levels={"region": 1})(dc.datasets.census(1000, seed=1))
    >>> people.levels["region"]
    1
    """

    levels: FrozenMapping[str, int]
    """level of each column, 0 being the value itself; for example {age: 2, zip: 3}"""

    perturbs: ClassVar[bool] = False
    purpose: ClassVar[Purpose] = "blur groups"
    effect: ClassVar[str] = (
        "Estimates for the broader categories are exact; finer ones cannot be made, and category midpoints in place "
        "of numbers bias variances and slopes."
    )
    scale: ClassVar[Scale] = "rows"
    guarantee: ClassVar[str] = "Values were replaced by broader categories; what is said is true, but less detailed."

    @field_validator("levels", mode="after")
    @classmethod
    def _not_negative(cls, levels: Mapping[str, int]) -> Mapping[str, int]:
        if not levels or any(level < 0 for level in levels.values()):
            raise ValueError("expected at least one column with a level of 0 or more")
        return levels

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Map each distinct value once, then the rows."""
        data.require(self.levels)
        problems = [_level_problem(data, name, level) for name, level in self.levels.items()]
        if found := [text for text in problems if text]:
            raise PlanError(found)
        raised = {name: level for name, level in self.levels.items() if level > 0}
        for name, level in raised.items():
            require_true(data, name, [level], self.kind)
        new = {name: _generalized(data, name, level) for name, level in raised.items()}
        return data.with_columns(new, levels=raised)


def _level_problem(data: Dataset, column: str, level: int) -> str | None:
    if data.schema[column].hierarchy is None:
        return f"generalize: column {column!r} has no hierarchy"
    height = data.hierarchy(column).height
    if level > height:
        return f"generalize: level {level} of {column!r} does not exist; its hierarchy has levels 0 to {height}"
    current = data.levels.get(column, 0)
    if not isinstance(current, int):
        return f"generalize: column {column!r} was generalized record by record"
    if level < current:
        return f"generalize: column {column!r} stands at level {current}; detail cannot be put back (level {level})"
    return None


def require_true(data: Dataset, name: str, levels: Iterable[int], kind: str) -> None:
    """Refuse labels that are false for records whose values lie beyond a bound that top or bottom coding put there."""
    coded = {step.column for step in data.steps if step.kind in ("top-code", "bottom-code") and hasattr(step, "column")}
    if name not in coded or data.levels.get(name, 0) != 0 or not data.is_numeric(name):
        return
    hierarchy, x, true = data.hierarchy(name), data.number(name), data.origin.number(name)[data.row_ids]
    ends = ((x == np.nanmax(x)) & (true > x)) | ((x == np.nanmin(x)) & (true < x))
    if not ends.any():
        return
    pairs, counts = np.unique(np.column_stack([x[ends], true[ends]]), axis=0, return_counts=True)
    for level in levels:
        said, meant = (hierarchy.labels([canonical(float(value)) for value in side], level) for side in pairs.T)
        if false := int(counts[[one != other for one, other in zip(said, meant, strict=True)]].sum()):
            raise PlanError(
                f"{kind}: {name!r} was top- or bottom-coded before, and its label at level {level} would be false "
                f"for {false} records that lie beyond the bound; leave the coding out and give the column a hierarchy "
                f"with open ends, for example `{name}: {{intervals: {{cuts: [[0, 20, 40, 60, 80, inf]]}}}}`"
            )


def _generalized(data: Dataset, column: str, level: int) -> Any:
    import polars as pl

    hierarchy = data.hierarchy(column)
    codes = data.codes(column)
    current = data.levels.get(column, 0)
    if current == 0:
        texts = [None if value is None else canonical(value) for value in codes.values]
        known = [text for text in texts if text is not None]
        upper = dict(zip(known, hierarchy.labels(known, level), strict=True))
    else:
        texts = [None if value is None else str(value) for value in codes.values]
        upper = dict(zip(hierarchy.table[int(current)], hierarchy.table[level], strict=True))
    labels = pl.Series(column, [None if text is None else upper[text] for text in texts], dtype=pl.String)
    return labels.gather(codes.codes.astype(np.uint32))


def _rounded(cuts: Floats, data: Dataset, column: str) -> Floats:
    """Round cuts to the fewest significant digits, at least three, that leave each interval nearly its records."""
    shorter = [np.array([float(f"{cut:.{digits}g}") for cut in cuts]) for digits in range(3, 13)]
    every = np.unique(np.concatenate([cuts, *shorter]))

    def look(piece: Piece) -> Ints:
        return np.asarray(np.searchsorted(np.sort(piece.number(column)), every))

    below = np.sum(data.each_batch([column], look, np.add), axis=0)
    records = len(data) - data.count_missing(column)

    def counts(chosen: Floats) -> Ints:
        return np.asarray(np.diff(below[np.searchsorted(every, chosen)], prepend=0, append=records))

    sizes = counts(cuts)
    for short in shorter:
        moved = np.abs(counts(short) - sizes)
        if (np.diff(short) > 0).all() and (moved <= _MOVED * sizes).all():
            return short
    return cuts


def _bound(cut: float) -> str:
    return canonical(cut) if cut.is_integer() else f"{cut:.12g}"


class Recode(Method, kind="recode"):
    """Replace the numbers of a column by labeled intervals.

    The intervals come from given cuts, from a width, or from quantiles of the data (about equally many records in
    each). Intervals are closed below and open above; the last one of given cuts is closed. Quantiles are rounded to
    three significant digits, or to as many as keep the number of records in every interval within a twentieth, and the
    outermost intervals are open ("< 2310", ">= 3950"): the smallest and the largest value are somebody's. Nothing false
    is said, only less. Does not by itself give k-anonymity. Missing values stay missing; a value outside the cuts is an
    error. The cuts that were found can be re-used on the next delivery (intervals of a width go on beyond them). Time
    O(n log c) for c cuts.

    References
    ----------
    Catalogue P2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> ages = pl.DataFrame({"age": [12, 23, 42, 68]})
    >>> dc.Recode(column="age", cuts=[0, 18, 65, 120], labels=["child", "adult", "senior"])(ages)["age"].to_list()
    ['child', 'adult', 'adult', 'senior']
    """

    column: str
    """numeric column to recode"""
    cuts: tuple[float, ...] | None = None
    """ascending bounds of the intervals, the first and the last included"""
    width: float | None = Field(None, gt=0)
    """width of equal intervals, counted from `origin`"""
    origin: float = 0.0
    """where the intervals of `width` start to count"""
    quantiles: int | None = Field(None, ge=2)
    """number of intervals with about equally many records"""
    labels: tuple[str, ...] | None = None
    """names of the intervals, from low to high; without it, the bounds"""

    perturbs: ClassVar[bool] = False
    purpose: ClassVar[Purpose] = "blur groups"
    effect: ClassVar[str] = (
        "Estimates for the broader categories are exact; finer ones cannot be made, and category midpoints in place "
        "of numbers bias variances and slopes."
    )
    scale: ClassVar[Scale] = "rows"
    guarantee: ClassVar[str] = "Numbers were replaced by intervals; what is said is true, but less detailed."

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        given = [name for name in ("cuts", "width", "quantiles") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of `cuts`, `width` and `quantiles`")
        if self.cuts is not None and (len(self.cuts) < 2 or any(b <= a for a, b in pairwise(self.cuts))):
            raise ValueError("`cuts` must be at least two ascending numbers")
        if self.labels is not None and self.cuts is not None and len(self.labels) != len(self.cuts) - 1:
            raise ValueError(f"{len(self.cuts) - 1} intervals need as many labels, got {len(self.labels)}")
        if self.labels is not None and self.width is not None:
            raise ValueError("`labels` go with `cuts` or `quantiles`")
        read = [interval_bounds(label) for label in self.labels or ()]
        if any(one is not None and other is not None and one[2] > other[1] for one, other in pairwise(read)):
            raise ValueError("`labels` that are ranges overlap, or do not ascend: each number has one range")
        return self

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find the cuts."""
        data.require([self.column])
        least, most = data.extremes(self.column)
        if math.isnan(least):
            raise DataError(f"column {self.column!r} has no values")
        whole = all(data.each_batch([self.column], self._whole, operator.and_))
        if self.cuts is not None:
            cuts = list(self.cuts)
        elif self.width is not None:
            cuts = self._equal(least, most)
        else:
            shares = np.linspace(0, 1, int(self.quantiles or 2) + 1)
            found = np.unique(ctx.engine.quantiles(data, self.column, shares.tolist()))
            if len(found) < 2:
                raise DataError(f"column {self.column!r} is constant; it has no quantile intervals")
            inner = _rounded(np.unique(np.ceil(found[1:-1])) if whole else found[1:-1], data, self.column)
            cuts = [-math.inf, *inner.tolist(), math.inf]
        bounds = [cut if math.isfinite(cut) else None for cut in cuts]
        return Decision(MappingProxyType({"cuts": bounds, "labels": self._names(cuts, whole), "whole": whole}))

    def _whole(self, piece: Piece) -> bool:
        x = piece.number(self.column)
        return bool(np.all((x == np.floor(x)) | np.isnan(x)))

    def _equal(self, least: float, most: float) -> list[float]:
        """Give the bounds of equal intervals that hold the values; rounded to 15 digits, so that 0.3 is 3 × 0.1."""
        width = self.width or 1.0
        first = math.floor((least - self.origin) / width + _ROUNDING)
        last = math.floor((most - self.origin) / width + _ROUNDING) + 1
        if last - first > MOST_INTERVALS:
            raise DataError(
                f"column {self.column!r}: a width of {width:g} gives {last - first} intervals; at most "
                f"{MOST_INTERVALS} are made: take a larger width"
            )
        exact = (self.origin + width * step for step in range(first, last + 1))
        cuts = [cut if cut.is_integer() else float(f"{cut:.15g}") for cut in exact]
        if any(high <= low for low, high in pairwise(cuts)):
            raise DataError(f"column {self.column!r}: its numbers are too large for intervals of width {width:g}")
        return cuts

    def _names(self, cuts: list[float], whole: bool) -> list[str]:
        if self.labels is not None:
            if len(self.labels) != len(cuts) - 1:
                raise DataError(f"the data gives {len(cuts) - 1} distinct intervals for {len(self.labels)} labels")
            return list(self.labels)
        names = [interval_label(low, high, whole) for low, high in pairwise(cuts)]
        if self.quantiles is not None:
            names[0], names[-1] = (f"< {_bound(cuts[1])}", f">= {_bound(cuts[-2])}") if cuts[1:-1] else (TOP, TOP)
        elif self.width is None:
            names[-1] = f"[{_bound(cuts[-2])}, {_bound(cuts[-1])}]"
        if len(set(names)) < len(names):  # bounds that differ in their last digits only
            names = [f"[{canonical(low)}, {canonical(high)})" for low, high in pairwise(cuts)]
        return names

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Find each value's interval."""
        import polars as pl

        data.require([self.column])
        x = data.number(self.column)
        given, names = self._for(x, decision)
        cuts = np.array(given, dtype=float)
        place = np.searchsorted(cuts, x, side="right") - 1
        place[x == cuts[-1]] = len(cuts) - 2
        missing = np.isnan(x)
        outside = int((((place < 0) | (place > len(cuts) - 2)) & ~missing).sum())
        if outside:
            raise DataError(
                f"column {self.column!r}: {outside} values lie outside the cuts {_bound(given[0])} to "
                f"{_bound(given[-1])}; widen them"
            )
        place[missing] = len(cuts) - 1
        labels = pl.Series(self.column, [*names, None], dtype=pl.String)
        return data.with_columns({self.column: labels.gather(place.astype(np.uint32))})

    def _for(self, x: Floats, decision: Decision) -> tuple[list[float], list[str]]:
        """Give cuts and labels for these values: intervals of a width go on beyond the data they were fitted on."""
        cuts, names = list(decision["cuts"]), decision["labels"]
        cuts[0], cuts[-1] = (
            open_ if cut is None else cut for cut, open_ in ((cuts[0], -math.inf), (cuts[-1], math.inf))
        )
        fractions = int((x != np.floor(x)).sum() - np.isnan(x).sum()) if decision["whole"] else 0
        if fractions and self._names(cuts, True) != self._names(cuts, False):
            raise DataError(
                f"column {self.column!r}: {fractions} values are not whole, and the intervals were named for whole "
                "numbers; fit the step anew"
            )
        if self.width is None or np.isnan(x).all():
            return cuts, names
        least, most = float(np.nanmin(x)), float(np.nanmax(x))
        if least >= cuts[0] and most < cuts[-1]:
            return cuts, names
        cuts = self._equal(min(least, cuts[0]), max(most, cuts[-2]))
        return cuts, self._names(cuts, decision["whole"])
