"""Differentially private generalization: a random sample, declared classes, and only those with enough records."""

from __future__ import annotations

import datetime as dt
import math
import os
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import product
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.schema import Role, Schema
from discretion.errors import Infeasible, PlanError
from discretion.kernels.classes import class_ids
from discretion.method import Decision, Method, Purpose
from discretion.part import Columns, FrozenMapping
from discretion.privacy.accounting import Cost, choose_best, cost
from discretion.protect.synthetic.private_marginals import ColumnDomain, Domain, Value

_LEFT_OUT: tuple[Role, ...] = ("identifier", "weight", "household", "unit")
_BLOCK = 4096
_LARGEST_K = 1 << 24
_MARGIN = 1 + 1e-9
_MOST_NODES = 4096
_DETAIL = 1000
"""Units in which the detail of a record is counted."""
_STEEP = 4
"""Records that a score gains at most by one more person."""
Grouping = FrozenMapping[str, tuple[Value, ...]]
Cuts = tuple[int, ...] | tuple[float, ...] | tuple[dt.date, ...]


class PrivateGeneralization(Method, kind="private-generalization"):
    """Publish a random sample of the records in broad, declared classes, and only classes with enough records.

    Guarantees (ε, δ)-differential privacy for persons, whatever an attacker knows: the file would have been written
    with nearly the same probability had any one person been absent (neighbors: add or remove one person). Every
    published row is a true, generalized record of somebody, unlike synthetic rows. What it does not protect: what is
    true of many people together, people who stand behind several rows where `person` does not say so, and figures that
    compare this file with the original. What it does not keep: rare combinations, and most of the records where ε is
    small.

    Each person is drawn with probability β (`share`; at most 1 − e^−ε, the default). Classes are those that `domain`
    and `groups` declare, never looked up in the data: a number or date becomes its class between two cut points,
    categories can be merged under a label. A row with a value that is not declared is left out, as is every column that
    is not. Of the sample, classes with fewer than k records are dropped; k is the smallest with which the promise
    holds. A class of n people shows j of them with a probability that changes, if one is absent, by the factor
    n(1 − β)/(n − j); it is at most e^ε for j ≤ γn, γ = (e^ε − 1 + β)/e^ε. So δ(k) is the largest probability, over all
    n from ⌈k/γ − 1⌉ on, that more than γn of n are drawn.

    The classes are chosen by you, without looking at this data, or among the levels of `coarser` by the exponential
    mechanism, which spends `search_epsilon` of ε; what is left then pays for the file. The score of a choice of levels
    adds up, over its classes, the detail that a record keeps (the mean over the columns of 1 − log(values under its
    label)/log(all values)) times f(n) for a class of n people: n where k of them are likely drawn (n ≥ m = ⌈k/β⌉), and
    falling to 0 in steps of 4 below. One more person raises every score by at most 4 and lowers none, so that noise of
    4/ε′ on each suffices. It looks at all the people, not at the sample: nothing is gained by sampling here. Time
    linear, times the choices of levels.

    References
    ----------
    Li, Qardaji & Su (2012), On sampling, anonymization, and differential privacy, ASIACCS; Bild, Kuhn & Prasser
    (2018), SafePub, PoPETs 2018(1); catalogue P23.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(3000, seed=1)
    >>> step = dc.PrivateGeneralization(
    ...     epsilon=1, delta=1e-6, person="person_id",
    ...     domain={"sex": ["female", "male"], "age": {"cuts": [0, 40, 100]}},
    ...     drop=[name for name in people.columns if name not in ("person_id", "sex", "age")],
    ... )
    >>> made = step(people)
    >>> step.k, sorted(made.frame["age"].unique()), 1600 < len(made) < 2200
    (74, ['< 40', '>= 40'], True)
    """

    epsilon: float = Field(gt=0, le=100)
    """ε: the largest factor, as a logarithm, by which one person can change the probability of any file"""
    delta: float = Field(1e-9, gt=0, lt=1)
    """δ: probability that the factor is exceeded; far below one over the number of people"""
    domain: Domain
    """column → its values: a list of categories, or {cuts: […]}, or {categories: […], other: …, missing: true}"""
    groups: FrozenMapping[str, FrozenMapping[str, tuple[Value, ...]]] = Field(
        default_factory=lambda: MappingProxyType({})
    )
    """column → label → the categories that are published under it; those not named stay what they are"""
    person: str = ""
    """column that says which person a row belongs to: the first row of each counts; without it the one with the role
    unit, then household; without these one row is one person"""
    coarser: FrozenMapping[str, tuple[Grouping | Cuts, ...]] = Field(default_factory=lambda: MappingProxyType({}))
    """column → coarser levels to choose among: cut points (some of those of the domain), or label → categories"""
    search_epsilon: float = Field(0.0, ge=0)
    """the part of ε that pays for the choice among the levels of `coarser`"""
    share: float | None = Field(None, gt=0, lt=1)
    """probability with which a person is drawn; without it the largest that ε allows, 1 − e^−ε"""
    drop: Columns = ()
    """columns that are not published and therefore need no domain"""

    seeded: ClassVar[bool] = False
    private: ClassVar[bool] = True
    perturbs: ClassVar[bool] = False
    names_rows: ClassVar[tuple[str, ...]] = ("classes",)
    purpose: ClassVar[Purpose] = "blur groups"
    effect: ClassVar[str] = (
        "Estimates for the broader categories are exact; finer ones cannot be made, and category midpoints in place "
        "of numbers bias variances and slopes."
    )
    guarantee: ClassVar[str] = (
        "A random part of the records was published, in broad classes and only where there are many alike, so that no "
        "single person changed much what was likely to be written (differential privacy)."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if twice := sorted(set(self.domain) & set(self.drop)):
            raise ValueError(f"column {twice[0]!r} stands both in `domain` and in `drop`")
        if bool(self.coarser) != (self.search_epsilon > 0) or self.search_epsilon >= self.epsilon:
            raise ValueError("`coarser` and `search_epsilon` (above 0, below `epsilon`) go together")
        if self.share is not None and self.share > -math.expm1(-self.epsilon_of_file):
            raise ValueError(f"`share` may be at most 1 − e^−ε = {-math.expm1(-self.epsilon_of_file):.6g}")
        for name, labels in self.groups.items():
            self._check_grouping("groups", name, labels)
        for name, levels in self.coarser.items():
            for level in levels:
                if isinstance(level, Mapping):
                    self._check_grouping("coarser", name, level)
                    continue
                cuts = self.domain[name].cuts if name in self.domain else ()
                if len(level) < 2 or not set(level) <= set(cuts) or (level[0], level[-1]) != (cuts[0], cuts[-1]):
                    raise ValueError(f"coarser: the cuts of {name!r} are some of its domain, with the first and last")
        if math.prod(map(len, self._choices)) > _MOST_NODES:
            raise ValueError(f"coarser: at most {_MOST_NODES:,} combinations of levels can be compared")
        return self

    def _check_grouping(self, where: str, name: str, labels: Mapping[str, Sequence[Value]]) -> None:
        known = self.domain[name].categories if name in self.domain else ()
        merged = [canonical(value) for values in labels.values() for value in values]
        if len(set(merged)) < len(merged) or not set(merged) <= {canonical(value) for value in known}:
            raise ValueError(f"{where}: each category of {name!r} must be declared in `domain`, and stand once")

    @property
    def epsilon_of_file(self) -> float:
        """What of ε pays for the file: all that the choice of levels does not."""
        return (self.epsilon - self.search_epsilon) * (1 - 2.0**-50) if self.search_epsilon else self.epsilon

    @property
    def _choices(self) -> list[range]:
        """For each column the levels to choose among."""
        return [range(1 + len(self.coarser.get(name, ()))) for name in self.domain]

    @property
    def _threshold(self) -> int:
        """Of 2⁶⁴ draws, those that take a person; rounded down."""
        wanted = -math.expm1(-self.epsilon_of_file) if self.share is None else self.share
        return int(wanted * (1 - 2.0**-40) * 2.0**64)

    @property
    def k(self) -> int:
        """The smallest class that is published."""
        return smallest_k(self.epsilon_of_file, self.delta, self._threshold / 2.0**64)

    @property
    def draws(self) -> bool:
        """The sample has its own, secure source."""
        return False

    @property
    def makes_rows(self) -> bool:
        """No row can be matched with the data."""
        return True

    @property
    def cost(self) -> Cost:
        """What the file spends."""
        return cost(epsilon=self.epsilon, delta=self.delta)

    def removes(self, schema: Schema) -> tuple[str, ...]:
        """Name the columns that are not published."""
        named = (self.person,) if self.person and self.person not in self.domain else ()
        return tuple(dict.fromkeys((*schema.having(*_LEFT_OUT), *self.drop, *named)))

    def ready(self, data: Dataset) -> None:
        """Refuse a column without declared values, by its name; reads no values."""
        named = [self.person] if self.person else []
        data.require([*self.domain, *self.drop, *named])
        aside = {*data.having(*_LEFT_OUT), *self.drop, *named}
        if lacking := [name for name in data.columns if name not in self.domain and name not in aside]:
            raise PlanError(
                [
                    f"{self.kind}: column {name!r} has no declared values; declare them in `domain` (they are never "
                    "read from the data), or name the column in `drop`"
                    for name in lacking
                ]
            )

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Choose the levels, draw the sample and count its classes: the only place that reads values."""
        self.ready(data)
        codes = [self.domain[name].encode(data, name) for name in self.domain]
        people = self._first_rows(data)
        for code in codes:
            people &= code >= 0
        levels = (0,) * len(codes)
        if self.coarser:
            nodes = list(product(*self._choices))
            scores = self.scores([code[people] for code in codes], ctx)
            levels = nodes[choose_best(scores, _STEEP * _DETAIL, self.search_epsilon)]
        kept = people & (self._draw(len(data)) < np.uint64(self._threshold))
        found, codes = self._counted([code[kept] for code in codes], levels)
        enough = np.flatnonzero(found.counts >= self.k)
        if not len(enough):
            raise Infeasible(
                f"{self.kind}: no class of the sample has the {self.k} records that ε {self.epsilon_of_file:g} and δ "
                f"{self.delta:g} ask for; declare broader classes (the budget is spent)"
            )
        rows = [[*(int(code[found.first_row[i]]) for code in codes), int(found.counts[i])] for i in enough.tolist()]
        told = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "share": self._threshold / 2.0**64,
            "k": self.k,
            "adjacency": "add or remove one person",
            "levels": list(levels),
            "classes": sorted(rows),
        }
        return Decision(MappingProxyType(told))

    def scores(self, codes: Sequence[NDArray[np.int64]], ctx: Context) -> list[int]:
        """Give the score of every choice of levels, in thousandths of a record; a secret until noise is added."""
        base = class_ids(codes, [self.domain[name].size for name in self.domain], len(codes[0]))
        combinations = [code[base.first_row] for code in codes]
        full = math.ceil(self.k / (self._threshold / 2.0**64))
        total = math.prod(map(len, self._choices))
        result = []
        for number, levels in enumerate(product(*self._choices)):
            ctx.progress(number, total, f"{self.kind}: comparing levels")
            found, labels = self._counted(combinations, levels)
            sizes = np.bincount(found.ids, base.counts, len(found.counts)).astype(np.int64)
            worth = np.clip(_STEEP * (sizes - full) + full, 0, sizes)
            detail = sum(
                (
                    self._levels[name][level][2][label[found.first_row]]
                    for name, level, label in zip(self.domain, levels, labels, strict=True)
                ),
                np.zeros(len(sizes)),
            )
            result.append(int(worth @ np.floor(_DETAIL * detail / len(labels)).astype(np.int64)))
        return result

    def _counted(
        self, codes: Sequence[NDArray[np.int64]], levels: Sequence[int]
    ) -> tuple[Any, list[NDArray[np.int64]]]:
        """Count the classes of some records at some levels; also gives the label of each record's values."""
        chosen = [self._levels[name][level] for name, level in zip(self.domain, levels, strict=True)]
        labels = [places[code] for (_, places, _), code in zip(chosen, codes, strict=True)]
        return class_ids(labels, [len(names) for names, _, _ in chosen], len(codes[0])), labels

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Write the classes out; of the data only the names of its columns are read."""
        import polars as pl

        table = np.array(decision["classes"], np.int64).reshape(-1, len(self.domain) + 1)
        made = {}
        for place, (name, level) in enumerate(zip(self.domain, decision["levels"], strict=True)):
            labels = self._levels[name][level][0]
            made[name] = pl.Series(name, [labels[code] for code in np.repeat(table[:, place], table[:, -1])], pl.String)
        return data.with_new_rows(pl.DataFrame([made[name] for name in data.columns if name in made]), forget=True)

    def _draw(self, rows: int) -> NDArray[np.uint64]:
        """Draw a number for each row from the operating system's secure source."""
        return np.frombuffer(os.urandom(8 * rows), np.uint64)

    def _first_rows(self, data: Dataset) -> NDArray[np.bool_]:
        """Choose one row of every person: which one depends on that person alone."""
        column = self.person or next(iter((*data.having("unit"), *data.having("household"))), "")
        if not column:
            return np.ones(len(data), np.bool_)
        series = data.frame[column]
        return np.asarray((series.is_first_distinct() & series.is_not_null()).to_numpy())

    @cached_property
    def _levels(self) -> dict[str, list[tuple[list[str | None], NDArray[np.int64], NDArray[np.float64]]]]:
        """For each column and level: the labels (None, the last, for missing), the label of each declared value, and
        the detail that is kept under each label."""
        result = {}
        for name, domain in self.domain.items():
            own = []
            for level in (self.groups.get(name, {}), *self.coarser.get(name, ())):
                texts = [self._label(domain, level, place) for place in range(domain.size - domain.missing)]
                labels: list[str | None] = [*dict.fromkeys(texts), *([None] if domain.missing else [])]
                places = np.array([labels.index(text) for text in (*texts, *labels[len(set(texts)) :])], np.int64)
                under = np.bincount(places, minlength=len(labels))
                own.append((labels, places, 1 - np.log(under) / max(math.log(domain.size), 1e-9)))
            result[name] = own
        return result

    @staticmethod
    def _label(domain: ColumnDomain, level: Mapping[str, Sequence[Value]] | Cuts, place: int) -> str:
        """Give what a declared value becomes at a level."""
        if domain.cuts:
            cuts: Any = domain.cuts if isinstance(level, Mapping) else level
            start: Any = domain.cuts[place]
            place, last = max(j for j in range(len(cuts) - 1) if cuts[j] <= start), len(cuts) - 2
            if last == 0:
                return "*"
            return (
                f"< {cuts[1]}"
                if place == 0
                else f">= {cuts[-2]}"
                if place == last
                else f"[{cuts[place]}, {cuts[place + 1]})"
            )
        value = domain.categories[place] if place < len(domain.categories) else domain.other
        text = canonical(value)
        for label, values in level.items() if isinstance(level, Mapping) else ():
            if text in {canonical(one) for one in values}:
                return label
        return text


@lru_cache
def smallest_k(epsilon: float, delta: float, share: float) -> int:
    """Give the smallest k with δ(k) ≤ δ; δ(k) does not grow with k."""
    low, high = 0, 1
    while delta_of(high, epsilon, share) > delta:
        low, high = high, 2 * high
        if high > _LARGEST_K:
            raise PlanError(f"with ε {epsilon:g} and δ {delta:g} only classes of millions could be published")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if delta_of(middle, epsilon, share) <= delta else (middle, high)
    return high


def delta_of(k: int, epsilon: float, share: float) -> float:
    """Give δ(k) = max over n ≥ ⌈k/γ − 1⌉ of P(Binomial(n, β) > γn), never too small.

    Beyond some n Chernoff's bound exp(−n·D(γ‖β)) is below what was found.
    """
    from scipy.stats import binom

    gamma = 1 - (1 - share) * math.exp(-epsilon)
    divergence = gamma * math.log(gamma / share) + (1 - gamma) * math.log((1 - gamma) / (1 - share))
    largest, start = 0.0, max(math.ceil(k / gamma - 1 - 1e-9), 1)
    while math.exp(-start * divergence) > largest:
        n = np.arange(start, start + _BLOCK)
        beyond = np.floor(gamma * n * (1 - 1e-12))  # more than this many; rounding may only make it more likely
        largest = max(largest, float(np.max(binom.sf(beyond, n, share))))
        start += _BLOCK
    return largest * _MARGIN
