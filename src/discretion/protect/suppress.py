"""Local suppression: few cells become missing, so that nobody stands out (P5)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import combinations
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import unit_codes
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Ints
from discretion.method import Decision, Purpose, StratifiedMethod
from discretion.part import Columns, FrozenMapping, confidential
from discretion.privacy.class_table import ClassModel, Count
from discretion.privacy.k_anonymity import KAnonymity
from discretion.protect.suppress_search import (
    ReachesModels,
    Reading,
    SuppressionRule,
    SuppressionSearch,
    has_value,
    verify,
)

# Fields of local suppression: what a cell costs, and subsets of columns with their own k.


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


_MOST_COLUMNS = 62


class LocalSuppression(ReachesModels, StratifiedMethod, kind="local-suppression"):
    """Make a few cells missing, so that every record shares its quasi-identifier values with at least k − 1 others.

    Guarantees k-anonymity (or the given class models) of the result, checked before it is returned, under the stated
    meaning of a missing value. Does not protect against attribute disclosure, unless a model among `models` does; does
    not find the least number of cells that exists (a hard problem), but few.

    `missing: category` (the default) is the strict meaning: a record must *equal* k records, missing cells included.
    What it reaches holds under every other reading too, and satisfies a requirement `k-anonymity` as it stands. Records
    of small classes are brought to a common form, if need be together with a few records of larger ones.
    `missing: wildcard` is the usual meaning in official statistics: a missing cell may be anything, so that a record
    must *match* k records. It needs far fewer cells, because one suppressed record also protects the records near it;
    an intruder who believes that complete records are the likelier match gains more than 1/k. Formally, k − 1 blank
    records would do for a whole file; so that this does not happen, a record loses no set of cells of which a part
    would do for itself (among the sets that are tried: not all if there are more than eight columns), and cells that
    nobody needs in the end are put back. `alpha` below 1 lies between the two (as in sdcMicro): a matching record with
    missing values counts only that much unless it is the same in all columns, so that suppressed records protect others
    less or, with 0, not at all; each failing record then needs k records that are complete and match it, or the same.
    The decision holds what was reached under all readings.

    A cell of a column costs what `importance` says (1 without it): columns of little weight are suppressed first, a
    column that weighs `never` is not suppressed. `subsets` asks for a k of their own for some columns that an intruder
    may know without the others. Models other than k-anonymity need `missing: category` and merge whole classes. Missing
    values stay missing. Works on classes, not on pairs of records: time and memory near linear.

    References
    ----------
    Samarati & Sweeney (1998); Meyerson & Williams (2004), PODS (finding the least number of cells is NP-hard); Templ,
    Kowarik & Meindl (2015), JSS 67(4); catalogue P5.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"zip": [8, 8, 8, 9, 9, 9], "sex": ["F", "F", "F", "M", "M", "F"]})
    >>> method = dc.LocalSuppression(columns=["zip", "sex"], k=2, missing="wildcard")
    >>> method(people).null_count().row(0)
    (1, 0)
    """

    columns: Columns = ()
    """columns an intruder may know, in which cells may be suppressed; without it, the quasi-identifiers"""
    subsets: tuple[Subset, ...] = confidential(())
    """subsets of the columns with their own k, for example [{columns: [age, region], k: 10}, {size: 2, k: 20}]"""
    importance: Importance = Field(default_factory=lambda: MappingProxyType({}))
    """what a suppressed cell of each column costs; columns not named cost 1; `never`: it is not suppressed"""
    missing: Reading = "category"
    """how a missing value counts: as a category of its own (strict), or as matching anything"""
    alpha: float = Field(1.0, ge=0, le=1)
    """with `missing: wildcard`, how much a matching record with missing values counts: 1 fully, 0 not at all (one that
    is the same in all columns, missing ones included, always counts fully)"""
    linked: FrozenMapping[str, Columns] = Field(default_factory=lambda: MappingProxyType({}))
    """columns that are suppressed wherever a key column is, for example {region: [postcode, distance]}"""

    goals: ClassVar[tuple[str, ...]] = ("k", "models", "subsets")
    by_group: ClassVar[bool] = True
    perturbs: ClassVar[bool] = False
    purpose: ClassVar[Purpose] = "blur groups"
    effect: ClassVar[str] = (
        "Cells are missing for a reason that depends on the values: rare combinations are under-represented among "
        "complete cases; treat them as missing and do not drop the records."
    )
    guarantee: ClassVar[str] = (
        "Some cells were made missing so that every record shares its identifying values with several others; the "
        "values that remain are true, and a secret that all of them share is not protected."
    )

    @model_validator(mode="after")
    def _models_for_cells(self) -> Self:
        if self.alpha < 1 and self.missing != "wildcard":
            raise ValueError("`alpha` has a meaning only with `missing: wildcard`")
        for model in self.models:
            if model.population_name is not None:
                raise ValueError(f"models: {model.kind!r} needs a population; cells cannot be suppressed for it")
            if self.missing == "wildcard" and not isinstance(model, KAnonymity):
                raise ValueError(f"models: {model.kind!r} looks at classes; it needs `missing: category`")
        return self

    def rules(self, data: Dataset) -> list[SuppressionRule]:
        """List what must hold, k-anonymity as the largest k for each choice of columns."""
        columns = data.choose(self.columns, "classes")
        sizes: dict[tuple[tuple[str, ...], Count], int] = {}
        has_units = bool(unit_codes(data))
        for chosen, k, count in self._wanted_k(columns):
            self._check_inside(chosen, columns)
            key = tuple(name for name in columns if name in chosen), count if has_units else "records"
            sizes[key] = max(k, sizes.get(key, 1))
        found = [SuppressionRule(key[0], KAnonymity(k=k, count=key[1]), key[1] == "units") for key, k in sizes.items()]
        for model in self.models:
            if not isinstance(model, KAnonymity):
                chosen = tuple(model.columns or columns)
                self._check_inside(chosen, columns)
                found.append(SuppressionRule(chosen, _prepared(model, data, chosen)))
        return found

    def _wanted_k(self, columns: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int, Count]]:
        if self.k is not None:
            yield columns, self.k, "units"
        for model in self.models:
            if isinstance(model, KAnonymity):
                yield tuple(model.columns or columns), model.k, model.count
        for subset in self.subsets:
            if subset.size is None:
                yield subset.columns, subset.k, "units"
                continue
            if subset.size > len(columns):
                raise PlanError(f"local-suppression: subsets of {subset.size} columns, but there are {len(columns)}")
            for chosen in combinations(columns, subset.size):
                yield chosen, subset.k, "units"

    def _check_inside(self, chosen: tuple[str, ...], columns: tuple[str, ...]) -> None:
        if outside := [name for name in chosen if name not in columns]:
            raise PlanError(f"local-suppression: {outside[0]!r} stands in a model or subset, but not in the columns")

    def _check_names(self, data: Dataset, columns: tuple[str, ...]) -> None:
        if len(columns) > _MOST_COLUMNS:
            raise PlanError(f"local-suppression: at most {_MOST_COLUMNS} columns, got {len(columns)}")
        for field, names in (("importance", self.importance), ("linked", self.linked)):
            if other := [name for name in names if name not in columns]:
                raise PlanError(f"local-suppression: {field}: {other[0]!r} is not among the columns")
        linked = [name for names in self.linked.values() for name in names]
        data.require(linked)
        if both := [name for name in linked if name in columns]:
            raise PlanError(f"local-suppression: linked: {both[0]!r} is itself among the columns")

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find the cells, and check what they reach under every reading of missing values."""
        columns = data.choose(self.columns, "classes")
        self._check_names(data, columns)
        if not len(data):
            return Decision(MappingProxyType({"rows": {}, "cells": {}, "reached": []}))
        rules = self.rules(data)
        weights = [self.importance.get(name, 1.0) for name in columns]
        costs = np.array([np.inf if weight == "never" else float(weight) for weight in weights])
        cells = SuppressionSearch.of(data, columns, costs, self.missing, ctx.progress, self.alpha).run(rules)
        rows = self._rows(data, columns, cells)
        reached = verify(_suppressed(data, rows), rules, self.missing, ctx, self.alpha)
        counts = {name: len(places) for name, places in rows.items()}
        return Decision(MappingProxyType({"rows": rows, "cells": counts, "missing": self.missing, "reached": reached}))

    def _rows(self, data: Dataset, columns: tuple[str, ...], cells: Ints) -> dict[str, list[int]]:
        """List the rows to suppress in each column and in the columns linked with it."""
        masks: dict[str, Any] = {}
        for j, name in enumerate(columns):
            mask = cells >> j & 1 == 1
            for column in (name, *self.linked.get(name, ())):
                masks[column] = masks.get(column, False) | mask
        present = {name: mask & has_value(data, name) for name, mask in masks.items()}
        return {name: np.flatnonzero(mask).tolist() for name, mask in present.items() if mask.any()}

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Make the cells missing and mark them."""
        if any(rows and rows[-1] >= len(data) for rows in decision["rows"].values()):
            raise DataError("local-suppression: the decision belongs to other data; fit the step anew")
        return _suppressed(data, decision["rows"])


def _prepared(model: ClassModel, data: Dataset, columns: tuple[str, ...]) -> ClassModel:
    """Refuse a model whose sensitive column is among the columns: a class would know its own secret."""
    if both := sorted(set(columns) & set(model.sensitive_columns(data))):
        raise PlanError(f"local-suppression: {both[0]!r} is sensitive in {model.kind!r} and among the columns too")
    return model


def _suppressed(data: Dataset, rows: dict[str, list[int]]) -> Dataset:
    masks = {name: np.zeros(len(data), np.bool_) for name in rows}
    for name, places in rows.items():
        masks[name][places] = True
    return data.with_columns({}, suppressed=masks)
