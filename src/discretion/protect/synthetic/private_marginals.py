"""Synthetic rows under differential privacy: noisy tables of all columns and pairs, and rows that fit them (P23)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, combinations, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StrictInt,
    model_validator,
)

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.rules import LevelRule, read_edit_rules
from discretion.data.schema import Role, Schema
from discretion.errors import PlanError, unknown
from discretion.kernels.arrays import Bools, Ints
from discretion.kernels.pair_tables import draw, estimate
from discretion.method import Decision, Method, Purpose
from discretion.part import Columns
from discretion.privacy.accounting import NANO, Cost, DiscreteGaussian, nano_rho_within
from discretion.protect.edit_rules import restored

if TYPE_CHECKING:
    import polars as pl

# The values a column may have, as the owner declares them: nothing is looked up in the data.

Value = bool | int | float | str
_MOST = 10_000
_DRAWN_AGAIN = 20
_FIRST_DAY = dt.date(1970, 1, 1)


class ColumnDomain(BaseModel):
    """Categories, or cut points of a number or date, with what becomes of values that are not among them.

    Examples
    --------
    >>> age = ColumnDomain(cuts=(0, 18, 65, 100))
    >>> age.size, age.whole
    (3, True)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    categories: tuple[Value, ...] = ()
    """the values of a category"""
    cuts: tuple[StrictInt, ...] | tuple[float, ...] | tuple[dt.date, ...] = ()
    """borders of classes of a number or a date, ascending; values beyond the first and the last count in these"""
    other: Value | None = None
    """one more category, for all values that are not declared; without it a row with such a value is left out"""
    missing: bool = False
    """whether missing is one more value; without it a row with a missing value is left out (or counted in `other`)"""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if bool(self.categories) == bool(self.cuts):
            raise ValueError("declare `categories`, or `cuts` of a number or date: one of the two")
        texts = [canonical(value) for value in (*self.categories, *(() if self.other is None else (self.other,)))]
        if len(set(texts)) < len(texts):
            raise ValueError("a category is named twice")
        if self.cuts and self.other is not None:
            raise ValueError("`other` belongs to categories; numbers beyond the cuts count in the first or last class")
        if self.cuts and (len(self.cuts) < 2 or any(a >= b for a, b in zip(self.cuts, self.cuts[1:], strict=False))):  # type: ignore[operator]
            raise ValueError("cut points are at least two and ascending")
        if self.size > _MOST:
            raise ValueError(f"a column may have at most {_MOST:,} values; take coarser classes")
        return self

    @property
    def size(self) -> int:
        """The number of values it may have."""
        known = len(self.cuts) - 1 if self.cuts else len(self.categories) + (self.other is not None)
        return known + self.missing

    @property
    def whole(self) -> bool:
        """Whether the numbers are whole ones: all cut points are."""
        return bool(self.cuts) and all(isinstance(cut, int) for cut in self.cuts)

    @property
    def _dates(self) -> bool:
        return bool(self.cuts) and isinstance(self.cuts[0], dt.date)

    @property
    def _borders(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        days = [(cut - _FIRST_DAY).days if isinstance(cut, dt.date) else cut for cut in self.cuts]
        return np.array(days, np.float64)

    def encode(self, data: Dataset, column: str) -> Ints:
        """Give the place of each row's value among those declared, −1 where it has none; raises for no value."""
        absent = self.size - 1 if self.missing else -1
        if not self.cuts:
            other = -1 if self.other is None else len(self.categories)
            places = {canonical(value): place for place, value in enumerate(self.categories)}
            coded = data.codes(column)
            lost = absent if self.missing else other
            found = [lost if v is None else places.get(canonical(v), other) for v in coded.values]
            return np.asarray(np.array([*found, lost], np.int64)[coded.codes])
        numbers = self._numbers(data.frame[column])
        place = np.clip(np.searchsorted(self._borders, numbers, side="right") - 1, 0, len(self.cuts) - 2)
        return np.where(np.isnan(numbers), absent, place).astype(np.int64)

    def _numbers(self, series: pl.Series) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Read a column as numbers (of dates the day); what is none is missing, so that no value raises an error."""
        import polars as pl

        if series.dtype in (pl.Categorical, pl.Enum):
            series = series.cast(pl.String)
        if self._dates and series.dtype == pl.String:
            series = series.str.to_date(strict=False)
        if series.dtype.is_nested() or series.dtype.is_temporal() != self._dates:
            return np.full(len(series), np.nan)
        plain = series.cast(pl.Date, strict=False).to_physical() if self._dates else series
        return plain.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()

    def decode(self, name: str, codes: Ints, rng: np.random.Generator) -> pl.Series:
        """Give values for places: the category; of a class of numbers or dates an even draw between its borders."""
        import polars as pl

        if not self.cuts:
            values = [*self.categories, *(() if self.other is None else (self.other,)), None]
            mixed = len(kinds := {type(value) for value in values[:-1]}) > 1 and kinds != {int, float}
            listed = pl.Series(name, [canonical(v) if mixed and v is not None else v for v in values], strict=False)
            return listed.gather(codes)
        absent = codes >= len(self.cuts) - 1
        low, high = (self._borders[np.where(absent, 0, codes) + side] for side in (0, 1))
        if self.whole or self._dates:
            top = high - (codes < len(self.cuts) - 2)  # the last class holds its upper border, the others do not
            drawn = low + np.floor(rng.random(len(codes)) * (top - low + 1))
            made = pl.Series(name, np.minimum(drawn, top).astype(np.int64))
            made = made.cast(pl.Int32).cast(pl.Date) if self._dates else made
        else:
            made = pl.Series(name, low + rng.random(len(codes)) * (high - low))
        return pl.select(pl.when(pl.Series(absent)).then(None).otherwise(made).alias(name)).to_series()

    def short(self) -> Any:
        """Write the domain as a plan does: a plain list of categories where nothing else is declared."""
        told = self.model_dump(mode="json", exclude_defaults=True)
        return told["categories"] if list(told) == ["categories"] else told


def _column(given: Any) -> Any:
    return {"categories": given} if isinstance(given, list | tuple) else given


def _readable(given: Any) -> Any:
    return {str(name): _column(one) for name, one in given.items()} if isinstance(given, Mapping) else given


def _frozen(given: Mapping[str, ColumnDomain]) -> Mapping[str, ColumnDomain]:
    from types import MappingProxyType

    if not given:
        raise ValueError("declare the values of at least one column")
    return MappingProxyType(dict(given))


Domain = Annotated[
    Mapping[str, ColumnDomain],
    BeforeValidator(_readable),
    AfterValidator(_frozen),
    PlainSerializer(lambda given: {name: one.short() for name, one in given.items()}),
]
"""Column → its declared values; a list is short for its categories."""


ADJACENCY = "add or remove one person"
_LEFT_OUT: tuple[Role, ...] = ("identifier", "weight", "household", "unit")
_MARGIN_SHARE = Fraction(1, 10)
_ALL_PAIRS = 25
"""Up to so many columns every pair has its table; with more, as many pairs as these have."""
_MOST_CELLS = 5_000_000


class PrivateMarginals(Method, kind="private-marginals"):
    """Replace all rows by new ones drawn from noisy tables of each column and each pair of columns.

    Guarantees (ε, δ)-differential privacy for persons, whatever an attacker knows: the file would have been written
    with nearly the same probability had any one person been absent (neighbors: add or remove one person with at most
    `rows_per_person` rows). Holds for the number of rows, too, and for everything that is computed from the file.
    Exact account: the discrete Gaussian noise that is drawn has ρ-zCDP, and ρ is the largest that implies (ε, δ).

    What it does not protect: what is true of many people together; people who stand behind more rows than the bound
    knows of (give `person`); and figures that compare this file with the original, which no budget covers. What it does
    not keep: relations of three and more columns beyond those that pairs imply, people's own combinations, households.
    Intervals from such a file do not know the noise: combining rules for synthetic copies do not hold.

    Values are declared (`domain`) and never looked up. A number or date becomes its class between two cut points and is
    drawn evenly from it; values beyond the cuts count in the first or last class. A category that is not declared
    counts as `other` if the column declares one, and missing as missing if it declares that; otherwise the row is left
    out. Columns with the roles identifier, weight, household and unit are not published.

    Tables: each column with 10 % of ρ, each pair with the rest (with more than 25 columns the 300 pairs nearest in the
    order of `domain`, or those of `pairs`: nothing is chosen by looking at the data). A person with r rows moves each
    of t tables by at most r, all of them by r·√t. Time linear in rows × tables, memory linear; needs the extra
    `online`.

    References
    ----------
    Canonne, Kamath & Steinke (2020); Bun & Steinke (2016); McKenna, Miklau & Sheldon (2021); Gavish & Donoho (2017);
    Chow & Liu (1968); catalogue P23.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(2000, seed=1)
    >>> step = dc.PrivateMarginals(
    ...     epsilon=2, delta=1e-6, person="person_id",
    ...     domain={"sex": ["female", "male"], "age": {"cuts": [0, 20, 40, 60, 80, 100]}},
    ...     drop=[name for name in people.columns if name not in ("person_id", "sex", "age")],
    ... )
    >>> made = step(people)
    >>> made.columns, abs(len(made) - 2000) < 200, bool(made.frame["age"].is_between(0, 100).all())
    (('age', 'sex'), True, True)
    """

    epsilon: float = Field(gt=0, le=100)
    """ε: the largest factor, as a logarithm, by which one person can change the probability of any file"""
    delta: float = Field(1e-9, gt=0, lt=1)
    """δ: probability that the factor is exceeded; far below one over the number of people"""
    domain: Domain
    """column → its values: a list of categories, or {cuts: […]}, or {categories: […], other: …, missing: true}"""
    person: str = ""
    """column that says which person a row belongs to; without it the one with the role unit, then household; without
    these one row is one person. Rows without a value in it are left out"""
    rows_per_person: int = Field(1, ge=1, le=1000)
    """rows of a person that count: the first ones; the noise grows with it"""
    rows: int | None = Field(None, ge=0)
    """number of rows to write, if you want a fixed one; without it the noisy number of rows"""
    pairs: tuple[Columns, ...] = ()
    """pairs of columns that get a table, chosen without looking at the data; without it all, see above"""
    drop: Columns = ()
    """columns that are not published and therefore need no domain"""

    seeded: ClassVar[bool] = False
    private: ClassVar[bool] = True
    makes_values: ClassVar[bool] = True
    names_rows: ClassVar[tuple[str, ...]] = ("margins", "tables")
    purpose: ClassVar[Purpose] = "make up"
    effect: ClassVar[str] = (
        "Shares and pairs of columns carry noise that standard errors of the rows do not contain; relations of three "
        "and more columns are only those that pairs imply."
    )
    guarantee: ClassVar[str] = (
        "All rows are synthetic and differentially private: no single person changed much what was likely to be "
        "written. They belong to nobody; relations of more than two columns are kept only where pairs imply them."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if twice := sorted(set(self.domain) & set(self.drop)):
            raise ValueError(f"column {twice[0]!r} stands both in `domain` and in `drop`")
        known = [*self.domain]
        for pair in self.pairs:
            if lacking := [name for name in pair if name not in known]:
                raise ValueError(f"pairs: {unknown('column', lacking[0], known)}")
        different = {frozenset(pair) for pair in self.pairs}
        if any(len(pair) != 2 for pair in (*self.pairs, *different)) or len(different) < len(self.pairs):
            raise ValueError("pairs: each pair is two different columns, and stands once")
        cells = sum(self.domain[a].size * self.domain[b].size for a, b in self._pairs)
        if cells > _MOST_CELLS:
            raise ValueError(
                f"the tables of pairs have {cells:,} cells, at most {_MOST_CELLS:,} can be; take coarser classes or "
                "fewer `pairs`"
            )
        return self

    @property
    def draws(self) -> bool:
        """The noise has its own source; rows are drawn from noisy tables only, by draws that no value decides."""
        return False

    @property
    def cost(self) -> Cost:
        """What the file spends, in billionths of ρ: the most that implies (ε, δ)."""
        units = _nano_rho(self.epsilon, self.delta)
        if units < 10:
            raise PlanError(f"{self.kind}: ε {self.epsilon:g} with δ {self.delta:g} is too small for any noise")
        return Cost(nano_rho=units)

    @property
    def _pairs(self) -> tuple[tuple[str, str], ...]:
        if self.pairs:
            return tuple((a, b) for a, b in self.pairs)
        names = [*self.domain]
        found = list(combinations(range(len(names)), 2))
        if len(names) > _ALL_PAIRS:
            found = sorted(found, key=lambda pair: (pair[1] - pair[0], pair))[: _ALL_PAIRS * (_ALL_PAIRS - 1) // 2]
        return tuple((names[i], names[j]) for i, j in found)

    def _noise(self) -> tuple[DiscreteGaussian, DiscreteGaussian | None]:
        """Give the noise on the tables of single columns and on those of pairs.

        One person adds or takes away at most r = `rows_per_person` rows, each in one cell of each table: a table moves
        by at most r in the Euclidean norm (all rows in one cell), t tables together by r·√t.
        """
        rho, bound = Fraction(self.cost.nano_rho, NANO), self.rows_per_person**2
        pairs = len(self._pairs)
        share = _MARGIN_SHARE if pairs else Fraction(1)
        margins = DiscreteGaussian(bound * len(self.domain), rho * share)
        return margins, DiscreteGaussian(bound * pairs, rho * (1 - share)) if pairs else None

    def removes(self, schema: Schema) -> tuple[str, ...]:
        """Name the columns that are not published."""
        named = (self.person,) if self.person and self.person not in self.domain else ()
        return tuple(dict.fromkeys((*schema.having(*_LEFT_OUT), *self.drop, *named)))

    @property
    def makes_rows(self) -> bool:
        """All rows are new."""
        return True

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Count, and give the counts with noise: the only place that reads values."""
        self.ready(data)
        margin_noise, pair_noise = self._noise()
        codes = {name: domain.encode(data, name) for name, domain in self.domain.items()}
        kept = self._bounded(data)
        for place in codes.values():
            kept = kept & (place >= 0)
        codes = {name: place[kept] for name, place in codes.items()}
        sizes = {name: domain.size for name, domain in self.domain.items()}
        ones = [np.bincount(codes[name], minlength=sizes[name]) for name in codes]
        twos: list[Ints] = []
        for number, (a, b) in enumerate(self._pairs):
            ctx.progress(number, len(self._pairs), self.kind)
            twos.append(np.bincount(codes[a] * sizes[b] + codes[b], minlength=sizes[a] * sizes[b]))
        margins = _split(margin_noise.release(np.concatenate(ones).tolist()), [len(one) for one in ones])
        tables: list[list[int]] = []
        if pair_noise is not None:
            tables = _split(pair_noise.release(np.concatenate(twos).tolist()), [len(two) for two in twos])
        told: dict[str, Any] = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.cost.nano_rho / NANO,
            "sigma": {"columns": margin_noise.scale, "pairs": None if pair_noise is None else pair_noise.scale},
            "adjacency": ADJACENCY,
            "rows_per_person": self.rows_per_person,
            "margins": dict(zip(codes, margins, strict=True)),
            "tables": [[a, b, table] for (a, b), table in zip(self._pairs, tables, strict=True)],
        }
        return Decision(MappingProxyType(told))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Write rows that fit the noisy tables; of the data only the names of its columns are read."""
        import polars as pl

        names = [*self.domain]
        place = {name: j for j, name in enumerate(names)}
        sizes = [self.domain[name].size for name in names]
        sd = decision["sigma"]
        margins = [np.array(decision["margins"][name], np.float64) for name in names]
        tables = {
            (place[a], place[b]): np.array(table, np.float64).reshape(sizes[place[a]], sizes[place[b]])
            for a, b, table in decision["tables"]
        }
        model = estimate(margins, tables, sd["columns"], sd["pairs"] or 1.0)
        rng = ctx.rng
        rows = round(model.size) if self.rows is None else self.rows

        def drawn(count: int) -> pl.DataFrame:
            codes = draw(model, count, rng)
            shown = [name for name in data.columns if name in place]
            return pl.DataFrame([self.domain[name].decode(name, codes[:, place[name]], rng) for name in shown])

        made = drawn(rows)
        rules = tuple(rule for rule in read_edit_rules(data.schema.edit_rules) if rule.columns <= {*made.columns})
        made = _fulfilling([rule for rule in rules if rule.identity is None], made, drawn)
        return restored(rules, data.with_new_rows(made, forget=True))

    def ready(self, data: Dataset) -> None:
        """Refuse a column without declared values, by its name, and noise that cannot be had; reads no values."""
        named = [self.person] if self.person else []
        data.require([*self.domain, *self.drop, *named])
        aside = {*data.having(*_LEFT_OUT), *self.drop, *named}
        lacking = [name for name in data.columns if name not in self.domain and name not in aside]
        if lacking:
            raise PlanError(
                [
                    f"{self.kind}: column {name!r} has no declared values; declare them in `domain` (they are never "
                    "read from the data), or name the column in `drop`"
                    for name in lacking
                ]
            )
        for noise in self._noise():
            if noise is not None:
                noise.prepare()

    def _bounded(self, data: Dataset) -> Bools:
        """Choose the first rows of every person, as many as may count: which ones depends on that person alone."""
        import polars as pl

        column = self.person or next(iter((*data.having("unit"), *data.having("household"))), "")
        if not column:
            return np.ones(len(data), np.bool_)
        earlier = data.frame.select(pl.int_range(pl.len()).over(column)).to_series().to_numpy()
        return np.asarray((earlier < self.rows_per_person) & data.frame[column].is_not_null().to_numpy())


@lru_cache
def _nano_rho(epsilon: float, delta: float) -> int:
    return nano_rho_within(epsilon, delta)


def _split(values: list[int], lengths: list[int]) -> list[list[int]]:
    return [values[a:b] for a, b in pairwise(accumulate(lengths, initial=0))]


def _fulfilling(rules: Sequence[LevelRule], made: pl.DataFrame, drawn: Callable[[int], pl.DataFrame]) -> pl.DataFrame:
    """Draw rows that break a rule again, a few times; only noisy tables and the rules are looked at, never the data."""
    import polars as pl

    for _ in range(_DRAWN_AGAIN if rules else 0):
        broken = np.logical_or.reduce([rule.broken(made) for rule in rules])
        if not broken.any():
            break
        made = pl.concat([made.filter(pl.Series(~broken)), drawn(int(broken.sum()))])
    return made
