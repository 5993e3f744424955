"""Local suppression: few cells become missing, so that nobody stands out (P5)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from discretion.context import Context, Progress
from discretion.data.codes import Classes, add_counts
from discretion.data.dataset import Dataset
from discretion.data.households import unit_codes
from discretion.engines.lookup import CellLookup
from discretion.engines.scan import Scan, without_classes
from discretion.errors import DataError, DiscretionError, Infeasible, PlanError
from discretion.kernels.arrays import Bools, Codes, Floats, Ints
from discretion.kernels.classes import class_ids
from discretion.kernels.suppress import (
    DividedRows,
    column_sets,
    hidden,
    missing_bits,
    suppress_category,
    suppress_counted,
    suppress_discounted,
    suppress_wildcard,
)
from discretion.measure import Measure, as_percent
from discretion.method import Decision, Method, Purpose, StratifiedMethod
from discretion.model import PrivacyModel
from discretion.part import HOLDS_PARTS, Columns, FrozenMapping, Scale, confidential, parse
from discretion.privacy.class_table import ClassModel, Count, SensitiveModel
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
    origin: Ints | None = None
    """where rows that stand for several records were divided: of which row each is a part"""

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

    def run(self, rules: Sequence[SuppressionRule]) -> tuple[SuppressionSearch, Ints]:
        """Give for each record the cells to suppress (bits in the order of `columns`).

        Rows that stand for several records may be divided, then they are those of the search that comes back.
        """
        for rule in rules:
            self._refuse_impossible(rule)
        search, cells = self, np.zeros(len(self.data), np.int64)
        while True:
            before = cells
            for rule in sorted(rules, key=lambda rule: len(rule.columns)):
                search, cells = search._apply(rule, cells)
            if np.array_equal(cells, before):  # also a last check: the kernels look at hashes
                return search, cells

    def _divided(self, rows: DividedRows) -> SuppressionSearch:
        """Give the search on rows of which some were divided."""
        if len(rows.origin) == len(self.data):
            return self
        return replace(
            self,
            data=self.data.divided(rows.origin, rows.counts),
            codes=tuple(column[rows.origin] for column in self.codes),
            origin=rows.origin if self.origin is None else self.origin[rows.origin],
        )

    def _places(self, rule: SuppressionRule) -> list[int]:
        return [self.columns.index(name) for name in rule.columns]

    def _refuse_impossible(self, rule: SuppressionRule) -> None:
        """Raise if even suppressing all that may be suppressed would not be enough."""
        if rule.k is None:
            return
        if self.data.records < rule.k:
            raise DataError(
                f"local-suppression: the data has {self.data.records} records; classes of {rule.k} records need more"
            )
        kept = tuple(name for name, j in zip(rule.columns, self._places(rule), strict=True) if self.costs[j] == np.inf)
        if not kept:
            return
        lacking = self.data.tally(self.data.class_sizes(kept, self.missing) < rule.k)
        if lacking:
            raise Infeasible(
                f"local-suppression: {lacking} records agree with too few others on the columns that are never "
                f"suppressed ({', '.join(kept)}); give one of them a finite importance, or generalize it first"
            )

    def _apply(self, rule: SuppressionRule, cells: Ints) -> tuple[SuppressionSearch, Ints]:
        """Find the cells that one rule needs, and add them."""
        places = self._places(rule)
        sizes = [self.sizes[j] for j in places]
        codes = [hidden([self.codes[j]], [self.sizes[j]], cells >> j & 1)[0] for j in places]
        costs = self.costs[places]

        def tick(done: int, total: int) -> None:
            self.progress(done, total, f"suppressing for {rule.model.kind}")

        counts = self.data.counts
        if counts is not None and rule.k is not None:
            rows = suppress_counted(codes, sizes, counts, rule.k, costs, tick)
            return self._divided(rows), cells[rows.origin] | self._spread(rows.cells, places)
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
        return self, cells | self._spread(found, places)

    def _spread(self, found: Ints, places: Sequence[int]) -> Ints:
        """Give cells of the columns of a rule as cells of all columns."""
        spread = np.zeros(len(found), np.int64)
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
                f"local-suppression: {self.data.tally(failing)} records cannot be brought to satisfy "
                f"{self.rule.model.kind} by suppressing cells of the columns that may be suppressed"
            )
        return cells & ~missing

    def _classes(self, cells: Ints, left_out: int = 0) -> Classes:
        return self._of_rows(hidden(self.codes, self.sizes, cells | left_out), self.data.counts)

    def _of_rows(self, codes: Sequence[Codes], records: Ints | None) -> Classes:
        found = class_ids(codes, self.sizes)
        sizes = found.counts if records is None else add_counts(found.ids, records, len(found.counts))
        return Classes(found.ids.astype(np.int64), sizes, found.first_row)

    def _failing(self, cells: Ints, among: Bools | None = None) -> Bools:
        """Tell which records fail; with `among`, which hold whole classes, of these alone (the others: False)."""
        model = self.rule.model
        if among is None or not self.by_class:
            classes = self._classes(cells)
            table = model.table(self.data, self.rule.columns, classes, self.sensitive)
            model.refuse_impossible(table)
            return np.asarray(model.failing(table)[classes.ids])
        rows = np.flatnonzero(among)
        records = None if self.data.counts is None else self.data.counts[rows]
        classes = self._of_rows(hidden([column[rows] for column in self.codes], self.sizes, cells[rows]), records)
        fails = np.zeros(len(cells), np.bool_)
        fails[rows] = model.failing(model.table_of_rows(self.data, rows, classes, self.sensitive))[classes.ids]
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


def _risk(given: object) -> Measure:
    try:
        part = given if isinstance(given, Measure) else parse(given, "risk")
    except DiscretionError as error:
        raise ValueError(str(error)) from None
    if not isinstance(part, Measure) or part.family != "risk":
        raise ValueError("expected a measure of risk")
    return part


RecordRisk = Annotated[
    Any,
    PlainValidator(_risk),
    PlainSerializer(lambda measure: measure.to_plan()),
    WithJsonSchema({"description": "a measure of risk: its kind, or {kind: {fields}}"}),
    HOLDS_PARTS,
]
"""A measure of risk as a field: a Measure, its kind, or `{kind: {fields}}`."""


class SuppressByRisk(Method, kind="suppress-by-risk"):
    """Make cells of the records missing whose risk is above a bound, or drop these records.

    The risk of a record is what the measure says of each record: without a measure, 1/(size of its class), the
    probability of picking the right record among those that share its quasi-identifier values. Guarantees that every
    record whose risk was above the bound has lost these cells (or is gone). Does not guarantee that no record is above
    the bound afterwards: the decision says how many still are; `local-suppression` reaches a bound on class sizes. If
    more than `limit` of the records are above the bound, nothing is suppressed: it is an error that says how many. A
    record without a risk (left out by the measure) is kept. Missing values stay missing. Time as the measure's.

    References
    ----------
    Templ, Kowarik & Meindl (2015), JSS 67(4); catalogue P5, R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = dc.Dataset(pl.DataFrame({"zip": [8, 8, 9], "job": ["x", "x", "y"]}), roles={"zip": "quasi"})
    >>> dc.SuppressByRisk(at_most=0.5, columns=["job"])(people).frame["job"].to_list()
    ['x', 'x', None]
    """

    at_most: float = confidential(ge=0)
    """largest risk of a record that keeps its cells"""
    measure: RecordRisk = Field(default_factory=lambda: _risk("sample-uniqueness"))
    """a measure of risk that gives a figure for each record: its kind, with its fields"""
    columns: Columns = ()
    """columns whose cells are suppressed; without it, the quasi-identifier with the most different values"""
    drop: bool = False
    """drop the records instead of suppressing cells"""
    limit: float = Field(1.0, ge=0, le=1)
    """largest share of the records that may lose cells or be dropped"""

    by_group: ClassVar[bool] = True
    perturbs: ClassVar[bool] = False
    purpose: ClassVar[Purpose] = "take out"
    effect: ClassVar[str] = (
        "Cells are missing for a reason that depends on the values: rare combinations are under-represented among "
        "complete cases; treat them as missing and do not drop the records."
    )
    guarantee: ClassVar[str] = (
        "Records whose risk of being found was above a bound lost cells or were left out; others may still be rare."
    )

    @model_validator(mode="after")
    def _cells_or_records(self) -> Self:
        if self.drop and self.columns:
            raise ValueError("`columns` names cells to suppress; with `drop` whole records go")
        return self

    def _risks(self, data: Dataset, ctx: Context) -> Any:
        measure: Measure = self.measure
        before = data if measure.needs == "released" else data.origin
        found = measure.run(before, data, ctx.within(measure.kind)).per_record
        if found is None:
            raise PlanError(f"suppress-by-risk: {measure.kind!r} gives no figure for each record")
        return np.asarray(found, dtype=np.float64)

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find the records above the bound, and how many still are afterwards."""
        columns = self._cells(data)
        risky = self._above(data, ctx)
        rows = np.flatnonzero(risky).tolist()
        _check_limit(self.kind, len(rows), len(data), self.limit, "suppressed")
        known: dict[str, Any] = {"rows": rows, "columns": list(columns), "records_above": len(rows)}
        after = self.rewrite(data, Decision(MappingProxyType(known)), ctx)
        known["records_above_afterwards"] = int(self._above(after, ctx).sum()) if len(rows) else 0
        return Decision(MappingProxyType(known))

    def _above(self, data: Dataset, ctx: Context) -> Bools:
        if not len(data):
            return np.zeros(0, np.bool_)
        return np.asarray(self._risks(data, ctx) > self.at_most + 1e-12)

    def _cells(self, data: Dataset) -> tuple[str, ...]:
        if self.drop:
            return ()
        if self.columns:
            return data.choose(self.columns, "classes")
        keys = data.choose(getattr(self.measure, "columns", ()), "classes")
        return (max(keys, key=lambda name: data.frame[name].n_unique()),)

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Suppress the cells, or drop the records."""
        risky = np.zeros(len(data), np.bool_)
        risky[decision["rows"]] = True
        if self.drop:
            return data.take(~risky, suppressed=True)
        present = {name: risky & has_value(data, name) for name in decision["columns"]}
        return data.with_columns({}, suppressed={name: mask for name, mask in present.items() if mask.any()})


class SuppressRecords(ReachesModels, kind="suppress-records"):
    """Drop the records of classes that break privacy models, up to a limit.

    Guarantees that the models hold for the records that stay, checked before they are returned. If more than `limit`
    of the records had to go, nothing is dropped: it is an error that says how many would have to. Does not protect
    against anything the models do not cover; who is missing from the file may tell something. Missing values count as a
    category of their own and stay missing. Time linear (for models about sensitive values: a few passes).

    References
    ----------
    Samarati & Sweeney (1998); catalogue P6.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"zip": [8, 8, 8, 9], "sex": ["F", "F", "F", "M"]})
    >>> len(dc.SuppressRecords(columns=["zip", "sex"], k=2, limit=0.25)(people))
    3
    """

    columns: Columns = ()
    """columns an intruder may know, for models that name none; without it, the quasi-identifiers"""
    limit: float = Field(0.05, ge=0, le=1)
    """largest share of the records that may be dropped"""

    scale: ClassVar[Scale] = "classes"
    by_group: ClassVar[bool] = True
    perturbs: ClassVar[bool] = False
    purpose: ClassVar[Purpose] = "take out"
    effect: ClassVar[str] = (
        "Records with rare combinations are left out: totals are too low, and groups with many rare people have "
        "too small a share."
    )
    guarantee: ClassVar[str] = (
        "Records that shared their identifying values with too few others were left out; the remaining values are true."
    )

    @model_validator(mode="after")
    def _missing_is_a_category(self) -> Self:
        for model in self.models:
            if model.missing != "category":
                raise ValueError(f"models: {model.kind!r} must count missing as a category here")
        return self

    def _models(self, data: Dataset) -> list[ClassModel]:
        wanted: list[ClassModel] = [*self.models, *([KAnonymity(k=self.k)] if self.k is not None else [])]
        return [
            model.model_copy(update={"columns": data.choose(model.columns or self.columns, "classes")})
            for model in wanted
        ]

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find the records to drop: dropping some may make others fail, so it is repeated until all models hold."""
        models, scan = self._models(data), isinstance(data, Scan)
        if isinstance(data, Scan):
            tables = [model.classes_of(data) for model in models]
            data = data.table(list(dict.fromkeys(name for table in tables for name in table.columns)))
        keep = np.arange(len(data))
        left = data
        while len(left):
            gone = np.zeros(len(left), np.bool_)
            for number, model in enumerate(models):
                ctx.progress(number, len(models), f"suppressing for {model.kind}")
                gone |= _to_drop(model, left)
            if not gone.any():
                break
            keep = keep[~gone]
            left = data.take(keep)
        if len(data) and not len(keep):
            raise DataError(
                f"suppress-records: none of the {data.records} records satisfies the models; nothing would be left"
            )
        lost = data.records - left.records
        _check_limit(self.kind, lost, data.records, self.limit, "dropped")
        dropped = np.setdiff1d(np.arange(len(data)), keep)
        reached: list[Mapping[str, Any]] = []
        for model in models if len(left) else []:
            verdict = model.check(left, ctx)
            if not verdict.holds:
                raise Infeasible(f"suppress-records: {model.kind} was not reached by dropping records")
            reached.append({"model": model.kind, "value": verdict.value})
        known = {"share": lost / max(data.records, 1), "reached": reached}
        if scan:
            return Decision(MappingProxyType({"rows": [], **known}), data.frame[dropped])
        return Decision(MappingProxyType({"rows": dropped.tolist(), **known}))

    def for_rows(self, data: Scan, decision: Decision) -> tuple[Decision, int]:
        """Give the decision, and the records that it drops."""
        if decision.dropped is None:
            raise PlanError(f"{self.kind}: a saved decision names rows of other data; let the step decide anew")
        return decision, round(decision["share"] * len(data))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Drop the records."""
        if decision.dropped is not None:
            return without_classes(data, decision.dropped)
        keep = np.ones(len(data), np.bool_)
        keep[decision["rows"]] = False
        return data.take(keep, suppressed=True) if decision["rows"] else data


def _check_limit(kind: str, lost: int, records: int, limit: float, done: str) -> None:
    """Raise if more than the allowed share of the records would be lost."""
    if lost > limit * records + 1e-9:
        enough = math.ceil(lost / records * 1e4) / 1e4
        raise Infeasible(
            f"{kind}: {lost} of {records} records ({as_percent(lost / records)}) would have to be {done}, more than "
            f"the limit of {as_percent(limit)}; generalize first, or raise `limit` to {enough:g}"
        )


def _to_drop(model: ClassModel, data: Dataset) -> Bools:
    """Tell which records a model wants out."""
    classes = data.classes(model.columns)
    table = model.table(data, model.columns, classes, model.sensitive_columns(data))
    model.refuse_impossible(table)
    return np.asarray(model.suppress(table, np.zeros(len(table), np.bool_))[classes.ids])


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
    values stay missing. Takes classes with counts, of which some are then divided, and rows that stay in their files,
    with `missing: category`. Works on classes, not on pairs of records: time and memory near linear.

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
    names_rows: ClassVar[tuple[str, ...]] = ("rows", "parts")
    by_group: ClassVar[bool] = True
    scale: ClassVar[Scale] = "classes"
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
        scan = data if isinstance(data, Scan) else None
        table = data if scan is None else self._table(scan, columns)
        rules = self.rules(table)
        if table.counts is not None and (self.missing == "wildcard" or any(rule.units for rule in rules)):
            table.require_rows(f"{self.kind} with `missing: wildcard`, or with units of several records,")
        weights = [self.importance.get(name, 1.0) for name in columns]
        costs = np.array([np.inf if weight == "never" else float(weight) for weight in weights])
        search = SuppressionSearch.of(table, columns, costs, self.missing, ctx.progress, self.alpha)
        search, cells = search.run(rules)
        rows = self._rows(search.data, columns, cells)
        left = _suppressed(search.data, rows)
        known = {
            "cells": {name: search.data.tally(left.suppressed(name)) for name in rows},
            "missing": self.missing,
            "reached": verify(left, rules, self.missing, ctx, self.alpha),
        }
        if scan is not None:
            lookup, known["cells"] = self._lookup(scan, table, search, cells)
            return Decision(MappingProxyType({"rows": {}, **known}), lookup=lookup)
        if search.origin is not None:
            known = {"parts": [search.origin.tolist(), np.asarray(search.data.counts).tolist()], **known}
        return Decision(MappingProxyType({"rows": rows, **known}))

    def _lookup(
        self, data: Scan, table: Dataset, search: SuppressionSearch, cells: Ints
    ) -> tuple[CellLookup, dict[str, int]]:
        """Give what rows that pass by lose, and the number of cells in each column."""
        names: dict[str, int] = {}
        for j, name in enumerate(search.columns):
            for column in (name, *self.linked.get(name, ())):
                names[column] = names.get(column, 0) | 1 << j
        origin = np.arange(len(table)) if search.origin is None else search.origin
        lookup = CellLookup.of(data, table, origin, np.asarray(search.data.counts), cells, names)
        counts: Counter[str] = Counter()
        for found in data.each_batch(list(dict.fromkeys([*table.columns, *names])), lookup.count):
            counts.update(found)
        lost = {name: counts[name] for name in names if counts[name]}
        return replace(lookup, names={name: names[name] for name in lost}), lost

    def _table(self, data: Scan, columns: tuple[str, ...]) -> Dataset:
        """Count the classes of rows that stay in their files, with the sensitive values that models look at."""
        if any(step.drops for step in data.pending):
            raise PlanError(f"{self.kind} tells rows apart by their place; put it before the step that drops records")
        units = any(count == "units" for _, _, count in self._wanted_k(columns))
        if units and data.original.having("household", "unit"):
            raise PlanError(
                f"{self.kind}: the schema declares households or people, and data that stays in its files is counted "
                "by records; say `models: [{k-anonymity: {k: …, count: records}}]`"
            )
        return data.table([*columns, *(name for model in self.models for name in model.sensitive_columns(data))])

    def refuse_scan(self, remote: bool = False) -> None:
        """Raise where more than classes of equal records count."""
        super().refuse_scan(remote)
        for field, given in (("by", self.by), ("missing: wildcard", self.missing == "wildcard")):
            if given:
                raise PlanError(f"{self.kind} with `{field}` needs all rows in memory; leave it out")

    def for_rows(self, data: Scan, decision: Decision) -> tuple[Decision, int]:  # noqa: ARG002
        """Give the decision, which must be one on these rows."""
        if decision.lookup is None:
            raise PlanError(f"{self.kind}: a saved decision names rows of other data; let the step decide anew")
        return decision, 0

    def _rows(self, data: Dataset, columns: tuple[str, ...], cells: Ints) -> dict[str, list[int]]:
        """List the rows to suppress in each column and in the columns linked with it."""
        masks: dict[str, Any] = {}
        for j, name in enumerate(columns):
            mask = cells >> j & 1 == 1
            for column in (name, *self.linked.get(name, ())):
                masks[column] = masks.get(column, False) | mask
        present = {name: mask & has_value(data, name) for name, mask in masks.items() if name in data.columns}
        return {name: np.flatnonzero(mask).tolist() for name, mask in present.items() if mask.any()}

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Make the cells missing and mark them."""
        if decision.lookup is not None:
            lookup: CellLookup = decision.lookup
            return lookup.rewrite(data, ctx.first_batch)
        if "parts" in decision.values and data.counts is not None:
            origin, counts = (np.array(each, np.int64) for each in decision["parts"])
            data = data.divided(origin, counts)
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
