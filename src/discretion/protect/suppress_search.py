"""The search for few cells to suppress: rules about classes of records, tried one after the other until all hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema, model_validator

from discretion.context import Context, Progress
from discretion.data.codes import Classes
from discretion.data.dataset import Dataset
from discretion.data.households import unit_codes
from discretion.errors import DataError, DiscretionError, Infeasible
from discretion.kernels.arrays import Bools, Codes, Floats, Ints
from discretion.kernels.classes import class_ids
from discretion.kernels.suppress import (
    column_sets,
    hidden,
    missing_bits,
    suppress_category,
    suppress_discounted,
    suppress_wildcard,
)
from discretion.method import Method
from discretion.model import PrivacyModel
from discretion.part import HOLDS_PARTS, Columns, confidential, parse
from discretion.privacy.class_table import ClassModel, SensitiveModel
from discretion.privacy.k_anonymity import KAnonymity

# What methods share that make privacy models hold: which columns, which class size, which models.


def _models(given: object) -> tuple[ClassModel, ...]:
    """Take models as objects or as a plan writes them; one may stand without a list."""
    if isinstance(given, PrivacyModel | str | Mapping):
        given = [given]
    if not isinstance(given, list | tuple):
        raise ValueError("expected privacy models, for example [{k-anonymity: {k: 5}}]")
    models = []
    for item in given:
        try:
            made = item if isinstance(item, PrivacyModel) else parse(item, "model")
        except DiscretionError as error:
            raise ValueError(str(error)) from None
        if not isinstance(made, ClassModel):
            raise ValueError(f"{made.kind!r} does not look at equivalence classes; a model that does is needed here")
        models.append(made)
    return tuple(models)


ClassModels = Annotated[
    tuple[Any, ...],
    BeforeValidator(_models),
    PlainSerializer(lambda models: [model.to_plan() for model in models]),
    WithJsonSchema({"type": "array", "items": {"type": "object"}}),
    HOLDS_PARTS,
]
"""Privacy models that look at classes of records; a plan writes each as `{kind: {fields}}`."""


class ReachesModels(Method):
    """A method that changes the data until privacy models hold for classes of records."""

    columns: Columns = ()
    """columns that an intruder may know; without it, those that the models name, or the quasi-identifiers"""
    k: int | None = confidential(None, ge=1)
    """smallest number of records that share their values; short for the model k-anonymity"""
    models: ClassModels = confidential(())
    """privacy models about classes of records that must hold, instead of `k` or with it"""

    goals: ClassVar[tuple[str, ...]] = ("k", "models")
    """Fields that say what is to be reached; at least one is given."""

    @model_validator(mode="after")
    def _something_to_reach(self) -> Self:
        if not any(getattr(self, name) not in (None, ()) for name in self.goals):
            *first, last = (f"`{name}`" for name in self.goals)
            raise ValueError(f"give {', '.join(first)} or {last}")
        return self


Reading = Literal["category", "wildcard"]


@dataclass(frozen=True)
class SuppressionRule:
    """A model that must hold for some columns."""

    columns: tuple[str, ...]
    model: ClassModel
    units: bool = False
    """whether different households or other units count, and not records"""

    @property
    def k(self) -> int | None:
        """The smallest class size, where the rule is k-anonymity."""
        return self.model.k if isinstance(self.model, KAnonymity) else None


@dataclass(frozen=True)
class SuppressionSearch:
    """The data as codes (the last code of a column stands for missing), and what a cell of each column costs."""

    data: Dataset
    columns: tuple[str, ...]
    costs: Floats
    missing: Reading
    codes: tuple[Codes, ...]
    sizes: tuple[int, ...]
    progress: Progress
    alpha: float = 1.0
    """how much a record with missing values counts as a match (wildcard)"""

    @classmethod
    def of(
        cls,
        data: Dataset,
        columns: tuple[str, ...],
        costs: Floats,
        missing: Reading,
        progress: Progress,
        alpha: float = 1.0,
    ) -> SuppressionSearch:
        """Read the columns' codes; a column without missing values gets a code for them."""
        coded = [data.codes(name) for name in columns]
        sizes = tuple(c.size + (c.missing < 0) for c in coded)
        codes = tuple(c.codes.astype(np.int64) for c in coded)
        return cls(data, columns, costs, missing, codes, sizes, progress, alpha)

    def run(self, rules: Sequence[SuppressionRule]) -> Ints:
        """Give for each record the cells to suppress (bits in the order of `columns`)."""
        for rule in rules:
            self._refuse_impossible(rule)
        cells = np.zeros(len(self.data), np.int64)
        while True:
            before = cells
            for rule in sorted(rules, key=lambda rule: len(rule.columns)):
                cells = cells | self._apply(rule, cells)
            if np.array_equal(cells, before):  # also a last check: the kernels look at hashes
                return cells

    def _places(self, rule: SuppressionRule) -> list[int]:
        return [self.columns.index(name) for name in rule.columns]

    def _refuse_impossible(self, rule: SuppressionRule) -> None:
        """Raise if even suppressing all that may be suppressed would not be enough."""
        if rule.k is None:
            return
        if len(self.data) < rule.k:
            raise DataError(
                f"local-suppression: the data has {len(self.data)} records; classes of {rule.k} records need more"
            )
        kept = tuple(name for name, j in zip(rule.columns, self._places(rule), strict=True) if self.costs[j] == np.inf)
        if not kept:
            return
        lacking = int((self.data.class_sizes(kept, self.missing) < rule.k).sum())
        if lacking:
            raise Infeasible(
                f"local-suppression: {lacking} records agree with too few others on the columns that are never "
                f"suppressed ({', '.join(kept)}); give one of them a finite importance, or generalize it first"
            )

    def _apply(self, rule: SuppressionRule, cells: Ints) -> Ints:
        """Find the further cells that one rule needs."""
        places = self._places(rule)
        sizes = [self.sizes[j] for j in places]
        codes = [hidden([self.codes[j]], [self.sizes[j]], cells >> j & 1)[0] for j in places]
        costs = self.costs[places]

        def tick(done: int, total: int) -> None:
            self.progress(done, total, f"suppressing for {rule.model.kind}")

        if rule.k is None:
            found = _ModelSearch(self.data, rule, codes, sizes, costs, tick).run()
        elif self.missing == "wildcard" and self.alpha < 1:
            found, lost = suppress_discounted(codes, sizes, rule.k, self.alpha, costs, tick)
            if lost:
                raise Infeasible(
                    f"local-suppression: {lost} records found too few complete records that match them, however many "
                    "of their cells are suppressed; take a smaller k or a larger alpha, or generalize first"
                )
        elif self.missing == "wildcard":
            for more in range(2 * rule.k if rule.units else 1):  # in records more is asked, until it is enough in units
                found = suppress_wildcard(codes, sizes, min(rule.k + more, len(cells)), costs, tick)
                if not (rule.units and self._lacks_units(rule.k, hidden(codes, sizes, found), sizes)):
                    break
        else:
            found = suppress_category(codes, sizes, rule.k, costs, tick)
        if rule.k is not None and rule.units:  # what is enough in records need not be in units
            codes = hidden(codes, sizes, found)
            if self.missing == "category" or self._lacks_units(rule.k, codes, sizes):
                found = found | _ModelSearch(self.data, rule, codes, sizes, costs, tick).run()
        spread = np.zeros(len(cells), np.int64)
        for place, j in enumerate(places):
            spread |= (found >> place & 1) << j
        return spread

    def _lacks_units(self, k: int, codes: Sequence[Codes], sizes: Sequence[int]) -> bool:
        """Tell whether a record matches records of fewer than k units, a missing value being anything."""
        from discretion.kernels.classes import wildcard_units

        missing = [size - 1 for size in sizes]
        return any((wildcard_units(codes, missing, sizes, of) < k).any() for of in unit_codes(self.data))


class _ModelSearch:
    """Suppression for any model that judges classes: small failing classes are merged until they satisfy it."""

    def __init__(
        self,
        data: Dataset,
        rule: SuppressionRule,
        codes: Sequence[Codes],
        sizes: Sequence[int],
        costs: Floats,
        tick: Callable[[int, int], None],
    ) -> None:
        self.data, self.rule, self.codes, self.sizes, self.costs, self.tick = data, rule, codes, sizes, costs, tick
        self.sensitive = rule.model.sensitive_columns(data)
        by_class = isinstance(rule.model, KAnonymity | SensitiveModel)
        self.by_class = by_class and type(rule.model).table is ClassModel.table
        """whether each class is judged by itself, so that the others need not be counted"""

    def run(self) -> Ints:
        """Try the sets of columns from the cheapest on: first on failing records alone, then with their neighbors."""
        n = len(self.data)
        everyone = np.arange(n)
        allowed = np.flatnonzero(np.isfinite(self.costs))
        spread = np.array([len(np.unique(column)) for column in self.codes])
        missing = missing_bits(self.codes, self.sizes, everyone)
        cells, failing = np.zeros(n, np.int64), self._failing(np.zeros(n, np.int64))
        sets = column_sets(self.costs, allowed, spread)[0] if len(allowed) else np.zeros(0, np.int64)
        for number, (neighbors, columns) in enumerate((wide, chosen) for wide in (False, True) for chosen in sets):
            if not failing.any():
                break
            self.tick(number, 2 * len(sets))
            joined = self._near(cells, failing, int(columns)) if neighbors else failing
            trial = np.where(joined, cells | columns, cells)
            # only a record that lacks all these columns can share a class with one that loses them
            good = joined & ~self._failing(trial, (trial | missing) & columns == columns)
            cells = np.where(good, trial, cells)
            failing = self._failing(cells) if neighbors else failing & ~good
        if failing.any():
            raise Infeasible(
                f"local-suppression: {int(failing.sum())} records cannot be brought to satisfy {self.rule.model.kind} "
                "by suppressing cells of the columns that may be suppressed"
            )
        return cells & ~missing

    def _classes(self, cells: Ints, left_out: int = 0) -> Classes:
        found = class_ids(hidden(self.codes, self.sizes, cells | left_out), self.sizes)
        return Classes(found.ids.astype(np.int64), found.counts, found.first_row)

    def _failing(self, cells: Ints, among: Bools | None = None) -> Bools:
        """Tell which records fail; with `among`, which hold whole classes, of these alone (the others: False)."""
        model = self.rule.model
        if among is None or not self.by_class:
            classes = self._classes(cells)
            table = model.table(self.data, self.rule.columns, classes, self.sensitive)
            model.refuse_impossible(table)
            return np.asarray(model.failing(table)[classes.ids])
        rows = np.flatnonzero(among)
        found = class_ids(hidden([column[rows] for column in self.codes], self.sizes, cells[rows]), self.sizes)
        classes = Classes(found.ids.astype(np.int64), found.counts, found.first_row)
        fails = np.zeros(len(cells), np.bool_)
        fails[rows] = model.failing(model.table_of_rows(self.data, rows, classes, self.sensitive))[found.ids]
        return fails

    def _near(self, cells: Ints, failing: Bools, columns: int) -> Bools:
        """Tell which records agree with a failing one outside some columns."""
        classes = self._classes(cells, columns)
        return np.isin(classes.ids, classes.ids[failing])


def has_value(data: Dataset, column: str) -> Bools:
    """Tell which cells of a column are not missing."""
    coded = data.codes(column)
    return np.asarray(coded.codes != coded.missing)


def verify(
    data: Dataset, rules: Sequence[SuppressionRule], missing: Reading, ctx: Context, alpha: float = 1.0
) -> list[dict[str, Any]]:
    """Check the rules on the finished data, and give what each reached under every reading of missing values."""
    figures = []
    for rule in rules:
        changed: dict[str, Any] = {"columns": rule.columns}
        if rule.k is not None:
            changed |= {"missing": missing, "alpha": alpha}
        verdict = rule.model.model_copy(update=changed).check(data, ctx)
        if not verdict.holds:
            raise Infeasible(f"local-suppression: {rule.model.kind} over {', '.join(rule.columns)} was not reached")
        reached = {name: figure for name, figure in verdict.detail.items() if name not in {"columns", "sensitive"}}
        figures.append({"model": rule.model.kind, "columns": list(rule.columns), "value": verdict.value, **reached})
    return figures
