"""Differentially private generalization: a random sample, declared classes, and only those with enough records."""

from __future__ import annotations

import math
import os
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar, Self

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
from discretion.privacy.accounting import Cost, cost
from discretion.protect.synthetic.private_marginals import ColumnDomain, Domain, Value

_LEFT_OUT: tuple[Role, ...] = ("identifier", "weight", "household", "unit")
_BLOCK = 4096
_LARGEST_K = 1 << 24
_MARGIN = 1 + 1e-9


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
    n from ⌈k/γ − 1⌉ on, that more than γn of n are drawn. Levels are chosen by you, without looking at this data. Time
    linear.

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
        if self.share is not None and self.share > -math.expm1(-self.epsilon):
            raise ValueError(f"`share` may be at most 1 − e^−ε = {-math.expm1(-self.epsilon):.6g}")
        for name, labels in self.groups.items():
            known = self.domain[name].categories if name in self.domain else ()
            merged = [canonical(value) for values in labels.values() for value in values]
            if len(set(merged)) < len(merged) or not set(merged) <= {canonical(value) for value in known}:
                raise ValueError(f"groups: each category of {name!r} must be declared in `domain`, and stand once")
        return self

    @property
    def _threshold(self) -> int:
        """Of 2⁶⁴ draws, those that take a person; rounded down."""
        wanted = -math.expm1(-self.epsilon) if self.share is None else self.share
        return int(wanted * (1 - 2.0**-40) * 2.0**64)

    @property
    def k(self) -> int:
        """The smallest class that is published."""
        return smallest_k(self.epsilon, self.delta, self._threshold / 2.0**64)

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

    def fit(self, data: Dataset, ctx: Context) -> Decision:  # noqa: ARG002
        """Draw the sample and count its classes: the only place that reads values."""
        self.ready(data)
        columns, labels = [*self.domain], [self._labels(name) for name in self.domain]
        codes = [self._coded(data, name, known) for name, known in zip(columns, labels, strict=True)]
        kept = self._first_rows(data) & (self._draw(len(data)) < np.uint64(self._threshold))
        for code in codes:
            kept &= code >= 0
        codes = [code[kept] for code in codes]
        found = class_ids(codes, [len(known) for known in labels], int(kept.sum()))
        enough = np.flatnonzero(found.counts >= self.k)
        if not len(enough):
            raise Infeasible(
                f"{self.kind}: no class of the sample has the {self.k} records that ε {self.epsilon:g} and δ "
                f"{self.delta:g} ask for; declare broader classes (the budget is spent)"
            )
        rows = [[*(int(code[found.first_row[i]]) for code in codes), int(found.counts[i])] for i in enough.tolist()]
        told = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "share": self._threshold / 2.0**64,
            "k": self.k,
            "adjacency": "add or remove one person",
            "classes": sorted(rows),
        }
        return Decision(MappingProxyType(told))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Write the classes out; of the data only the names of its columns are read."""
        import polars as pl

        table = np.array(decision["classes"], np.int64).reshape(-1, len(self.domain) + 1)
        made = {
            name: pl.Series(name, [labels[code] for code in np.repeat(table[:, place], table[:, -1])], pl.String)
            for place, (name, labels) in enumerate((name, self._labels(name)) for name in self.domain)
        }
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

    def _labels(self, name: str) -> list[str | None]:
        """List what a column's values become; None for a missing one, which is the last."""
        domain = self.domain[name]
        found = dict.fromkeys(self._label(name, place) for place in range(domain.size - domain.missing))
        return [*found, *([None] if domain.missing else [])]

    def _label(self, name: str, place: int) -> str:
        domain: ColumnDomain = self.domain[name]
        if domain.cuts:
            low, high, last = domain.cuts[place], domain.cuts[place + 1], len(domain.cuts) - 2
            if last == 0:
                return "*"
            return f"< {high}" if place == 0 else f">= {low}" if place == last else f"[{low}, {high})"
        value = domain.categories[place] if place < len(domain.categories) else domain.other
        text = canonical(value)
        for label, values in self.groups.get(name, {}).items():
            if text in {canonical(one) for one in values}:
                return label
        return text

    def _coded(self, data: Dataset, name: str, labels: list[str | None]) -> NDArray[np.int64]:
        """Give the label of each row's value, −1 where it is not declared."""
        domain = self.domain[name]
        number = {label: place for place, label in enumerate(labels)}
        places = [number[self._label(name, place)] for place in range(domain.size - domain.missing)]
        return np.array([*places, *([len(labels) - 1] if domain.missing else []), -1], np.int64)[
            domain.encode(data, name)
        ]


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
