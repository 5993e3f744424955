"""What generators share: which columns and rows are drawn, copies, strata, rules, records at risk."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import find_households, find_units
from discretion.data.rules import LevelRule, read_edit_rules, read_rules
from discretion.data.schema import Schema
from discretion.engines.scan import LEARNED, Scan, drawn_places
from discretion.errors import DataError, Infeasible, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.measure import Measure
from discretion.method import Decision, StratifiedMethod
from discretion.part import Columns, Scale, confidential
from discretion.protect.edit_rules import with_sums
from discretion.protect.suppress import RecordRisk
from discretion.protect.synthetic.variables import (
    ColumnKind,
    Variable,
    by_key,
    count_values,
    describe,
    not_drawn,
    profile_of,
    reread,
    too_many_levels,
    without_few,
)

if TYPE_CHECKING:
    import polars as pl

FEWEST_ROWS = 10
"""Fewer rows are nearly published when they are learned."""
_PILOT = 1000
_ROUNDS = 60
_LEFT_OUT: tuple[Any, ...] = ("identifier", "unit")

Values = MutableMapping[str, Floats]
Conditions = Annotated[tuple[str, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)]
"""Conditions as texts; a single one may stand without a list."""


class Sampler(Protocol):
    """A model that was learned: draws the variables of its columns, given those that are kept."""

    def draw(self, values: Values, rows: int, rng: np.random.Generator, rules: DrawnRules) -> None:
        """Draw every target into `values`, which has the given columns."""


@dataclass(frozen=True)
class DrawnRules:
    """The rules of a run, with what is needed to judge drawn numbers, and how often each was broken."""

    rules: tuple[LevelRule, ...]
    kinds: Mapping[str, ColumnKind]
    dtypes: Mapping[str, Any]
    counts: dict[str, int] = field(default_factory=dict)

    def at(self, key: str, values: Mapping[str, Floats]) -> Bools | None:
        """Tell which rows break a rule that can be judged once this variable is drawn; None where there is none."""
        column = next((kind.column for kind in self.kinds.values() if key in kind.keys), key)
        ready = [rule for rule in self.rules if column in rule.columns and self._drawn(rule, values)]
        return self._broken(ready, values) if ready else None

    def rows(self, values: Mapping[str, Floats]) -> Bools:
        """Tell which rows break any rule."""
        return self._broken(self.rules, values)

    def _drawn(self, rule: LevelRule, values: Mapping[str, Floats]) -> bool:
        return all(key in values for column in rule.columns for key in self.kinds[column].keys)

    def _broken(self, rules: Sequence[LevelRule], values: Mapping[str, Floats]) -> Bools:
        import polars as pl

        names = sorted({column for rule in rules for column in rule.columns})
        frame = pl.DataFrame([self.kinds[name].series(values, self.dtypes[name]) for name in names])
        bad = np.zeros(frame.height, np.bool_)
        for rule in rules:
            one = rule.broken(frame)
            self.counts[rule.text] = self.counts.get(rule.text, 0) + int(one.sum())
            bad |= one
        return bad

    def hopeless(self, who: str, rows: int) -> Infeasible:
        """Word that rows fulfilling the rules cannot be drawn; the rule most often broken is named."""
        worst = max(self.counts, key=lambda text: self.counts[text], default="")
        return Infeasible(
            f"{who}: {rows} rows that fulfil the rules could not be drawn; most often broken was the rule {worst!r} "
            f"(columns {', '.join(sorted(next(r.columns for r in self.rules if r.text == worst)))})"
        )


def _drawn_edit_rules(data: Dataset, columns: Collection[str]) -> list[LevelRule]:
    """Give the edit rules of the schema that drawn rows are held to; sums are added up afterwards."""
    rules = read_edit_rules(data.schema.edit_rules)
    return [rule for rule in rules if rule.identity is None and rule.columns <= {*columns}]


class Generator(StratifiedMethod):
    """A method that draws values, or whole rows, from a model of the data."""

    columns: Columns = ()
    """columns to draw anew: rows and all other columns are kept (partly synthetic data). Without it, all columns and
    new rows that belong to nobody (fully synthetic data); identifiers are left out"""
    rows: int | None = Field(None, ge=1)
    """rows of each copy of fully synthetic data; without it, as many as the data has"""
    copies: int = Field(1, ge=1, le=100)
    """synthetic copies, numbered in a new column `copy`; a release writes each to a file of its own"""
    constants: Literal["refuse", "keep"] = "refuse"
    """a column to draw that has one value only, or none: refused by name (it is often a slip of reading the file), or
    kept as it is: it says nothing about anybody"""

    random: ClassVar[bool] = True
    makes_values: ClassVar[bool] = True
    keeps_households: ClassVar[bool] = False

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.columns and self.rows is not None:
            raise ValueError("`rows`: with `columns` the rows of the data are kept; leave one of the two out")
        return self

    @property
    def makes_rows(self) -> bool:
        """Whether the rows are new and belong to nobody."""
        return not self.columns

    @property
    def fewest(self) -> int:
        """The fewest rows to learn from."""
        return max(FEWEST_ROWS, int(getattr(self, "min_leaf", 0)))

    def removes(self, schema: Schema) -> tuple[str, ...]:
        """Name the columns that fully synthetic data does not have."""
        return schema.having(*_LEFT_OUT) if self.makes_rows else ()

    def check(self, data: Dataset) -> None:
        """Refuse data that cannot be learned."""
        fewest = self.fewest
        if len(data) < fewest:
            told = " (`min_leaf`)" if fewest > FEWEST_ROWS else ""
            raise DataError(f"{self.kind}: {len(data)} rows are too few to learn from; at least {fewest}{told}")
        if self.makes_rows and data.having("household") and not self.keeps_households:
            raise DataError(
                f"{self.kind}: column {data.having('household')[0]!r} tells who lives together, which only "
                "`sequential-trees` draws; drop the column first, or name the `columns` to draw"
            )

    def names(self, data: Dataset) -> tuple[str, ...]:
        """Name the columns that are drawn."""
        if self.columns:
            return data.choose(self.columns, "compare")
        left_out = {*data.having(*_LEFT_OUT), *data.having("household")}
        return tuple(name for name in data.columns if name not in left_out)

    def decide(self, data: Dataset, ctx: Context) -> Decision:
        """Learn one model, or one in each stratum."""
        self._refuse_households()
        if self.constants == "refuse":
            self._refuse_constants(data)
        if self.by and self.makes_rows and data.having("household"):
            homes = find_households(data)
            if split := [name for name in self.by if homes.count_varying(data, name)]:
                raise DataError(
                    f"{self.kind}: by: column {split[0]!r} differs within households, which strata would tear apart; "
                    f"form strata by a column of households, or drop the column {homes.column!r}"
                )
        return super().decide(data, ctx)

    def perform(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Draw every copy."""
        self._refuse_households()
        if self.copies == 1:
            return self._one(data, decision, ctx)
        parts = [self._one(data, decision, ctx.within(f"copy {i + 1}")) for i in range(self.copies)]
        if self.makes_rows:
            frames = told_apart([part.frame for part in parts], data.having("household"))
            parts = [data.with_new_rows(frame) for frame in frames]
        return Dataset.of_copies(parts)

    def on_part(self) -> Self:
        """Give the generator for some of the people, among whom a column may have one value: no more rows than fit."""
        rows = None if self.rows is None else min(self.rows, LEARNED)
        return self.model_copy(update={"constants": "keep", "rows": rows})

    def _refuse_constants(self, data: Dataset) -> None:
        """Refuse columns that have one value, or none, in all the data; in a stratum they may."""
        if len(data) < FEWEST_ROWS:
            return
        for name in self.names(data):
            if (values := count_values(data, name)) < 2:
                raise DataError(
                    f"{self.kind}: column {name!r} has {('no value', 'one value only')[values]}: there is nothing to "
                    "draw; drop the column, or say `constants: keep` to have it in the file as it is"
                )

    def _refuse_households(self) -> None:
        if self.by == ("household",):
            raise PlanError(
                f"{self.kind}: by: households are drawn as such when a column has that role; leave `by` out"
            )

    def _one(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        if self.makes_rows:
            return self._strata_of_new_rows(data, decision, ctx) if self.by else self.rewrite(data, decision, ctx)
        return super().perform(data, decision, ctx)

    def _strata_of_new_rows(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        import polars as pl

        groups: Mapping[str, Mapping[str, Any]] = decision["groups"]
        names = sorted(groups)
        shares = np.array([float(groups[name]["records"]) for name in names])
        sizes = ctx.within("strata").rng.multinomial(self.rows or len(data), shares / shares.sum())
        frames = []
        for number, (name, size) in enumerate(zip(names, sizes.tolist(), strict=True)):
            ctx.progress(number, len(names), ctx.step)
            if size:
                known = Decision(MappingProxyType(groups[name]))
                frames.append(self.new_rows(data, known, size, ctx.within(name)))
        homes = data.having("household")
        whole = pl.concat(told_apart(frames, homes))
        if (
            not homes
        ):  # rows sorted by stratum would agree with sorted data row by row, and be taken for the same people
            whole = whole[ctx.within("order").rng.permutation(whole.height)]
        return data.with_new_rows(whole)

    @abstractmethod
    def new_rows(self, data: Dataset, decision: Decision, rows: int, ctx: Context) -> pl.DataFrame:
        """Draw rows that belong to nobody, from a model of all the data or of one stratum."""


class ModelGenerator(Generator):
    """A generator that draws row by row from a model, under rules, for all records or those at risk."""

    extremes: Literal["code", "keep"] = "code"
    """numbers beyond the median of the `smoothing` people with the largest (or smallest) values: drawn before it, or
    kept, which shows about what the richest has"""
    rules: Conditions = ()
    """conditions that every drawn row fulfils, as in a WHERE of SQL: `age >= 16 OR job IS NULL`"""
    records: Literal["all", "risky"] = "all"
    """with `columns`: draw them for all records, or only for those whose risk is above `at_most`, and some others"""
    measure: RecordRisk = Field(default="sample-uniqueness", validate_default=True)
    """with `records: risky`: a measure of risk that gives a figure for each record"""
    at_most: float | None = confidential(None, ge=0)
    """with `records: risky`: largest risk of a record that keeps its values"""
    others: float = Field(1.0, ge=0)
    """with `records: risky`: for each such record so many others are drawn anew too, so that nobody sees which were at
    risk"""

    scale: ClassVar[Scale] = "sampled"

    @model_validator(mode="after")
    def _at_risk_of_what(self) -> Self:
        if self.records == "risky" and (not self.columns or self.at_most is None):
            raise ValueError("`records: risky` needs `columns` to draw anew and `at_most`, the largest risk that stays")
        if self.records == "all" and self.at_most is not None:
            raise ValueError("`at_most` belongs to `records: risky`")
        return self

    @abstractmethod
    def learn(self, targets: Sequence[Variable], given: Sequence[Variable], ctx: Context) -> dict[str, Any]:
        """Learn a model of the targets given the columns that are kept, as plain data."""

    @abstractmethod
    def sampler(self, model: Mapping[str, Any]) -> Sampler:
        """Read a model that was learned."""

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Learn the model, and try the rules."""
        self.check(data)
        kinds, targets = self.targets(data)
        kept, given = self._given(data)
        model = self.learn(targets, given, ctx)
        known: dict[str, Any] = {
            "records": len(data),
            "columns": [kind.to_plain() for kind in kinds],
            "given": [kind.to_plain() for kind in kept],
            "model": model,
        }
        if few := not_drawn(data, targets):
            known["not_drawn"] = few
        if self.rules or _drawn_edit_rules(data, [kind.column for kind in (*kinds, *kept)]):
            known["rules"] = self._pilot(data, known, ctx.within("pilot"))
        return Decision(MappingProxyType(known))

    def refuse_scan(self, remote: bool = False) -> None:
        """Raise if rows that stay in their files cannot be synthesized with these settings."""
        if remote:
            raise PlanError(
                f"{self.kind} learns from records drawn at random, which do not come to the driver of a Spark cluster "
                "for it; use the engine `duckdb`"
            )
        given = {"by": self.by, "copies": self.copies > 1, "records: risky": self.records == "risky"}
        if asked := [name for name, used in given.items() if used]:
            raise PlanError(
                f"{self.kind} with `{'`, `'.join(asked)}` needs all rows in memory: synthesize rows that stay in their "
                "files without (one run with a seed of its own for each copy, or for each stratum)"
            )

    def decide_on(self, data: Dataset, ctx: Context) -> Decision:
        """Learn; of rows that stay in their files from some, drawn at random: all, if they are no more than these."""
        if not isinstance(data, Scan):
            return self.decide(data, ctx)
        self._refuse_after(data)
        places = learned_places(len(data), ctx.seed)
        sample = data.in_memory(data.rows_at(places, ctx.progress))
        if len(sample) == len(data):
            return self.decide(sample, ctx)
        try:
            known = self.decide(sample, ctx).values
        except (DataError, Infeasible) as error:
            raise type(error)(f"in a random sample of {len(sample):,} of {len(data):,} records: {error}") from None
        return Decision(MappingProxyType({**known, "sample_of": len(data)}))

    def _refuse_after(self, data: Scan) -> None:
        if named := data.having("household", "unit"):
            raise PlanError(
                f"{self.kind}: households and people with several records ({', '.join(named)}) need all rows in memory"
            )
        if data.changed or data.lost_records:
            raise PlanError(
                f"{self.kind}: of rows that stay in their files it learns as they were read; put it first, and "
                "generalize or perturb what it drew"
            )

    def perform_on(self, data: Scan, decision: Decision, ctx: Context) -> tuple[Scan, Decision]:
        """Draw new rows in batches into a private file, or new values of the rows as they pass by."""
        self._refuse_after(data)
        if not self.makes_rows:
            reads = [kind.column for kind in _kinds(decision["given"])]
            return data.advance(self, decision, ctx, reads=reads), decision
        hand = data.at_hand()
        kinds = {kind.column: kind for kind in _kinds(decision["columns"])}
        order = [name for name in data.columns if name in kinds]
        drawn = self._drawn_batches(hand, decision, self.rows or len(data), ctx)
        frames = (_frame([kinds[name] for name in order], values, hand) for values in drawn)
        return data.with_rows_made_up(self, frames), decision

    def facts(self, decision: Decision) -> dict[str, Any]:
        """Give what was learned without the model itself, which holds values of people."""
        return _figures(decision.values)

    def targets(self, data: Dataset) -> tuple[list[ColumnKind], list[Variable]]:
        """Read the columns that are drawn."""
        kinds: list[ColumnKind] = []
        variables: list[Variable] = []
        for name in self.names(data):
            kind, found = describe(data, name, self.kind)
            if kind.kind == "level" and (why := too_many_levels(data, name)):
                raise DataError(
                    f"{self.kind}: column {name!r} {why}; its values would be copied from people: give it the role "
                    "identifier, group its values, or drop it"
                )
            self._accept(data, kind, found)
            open_ = kind.kind == "level" and find_units(data) is None and "geography" not in data.schema[name].roles
            if open_ and (same := profile_of(data, name)):
                raise DataError(
                    f"{self.kind}: column {name!r} looks like numbers of people: all rows with one of its values agree "
                    f"in {', '.join(same)}, which tell its values apart; give it the role unit (its rows then count as "
                    "one person) or identifier, a place the role geography, or drop it"
                )
            found = tuple(without_few(replace(variable, units=find_units(data))) for variable in found)
            kinds.append(kind)
            variables += found
        if not variables:
            raise DataError(f"{self.kind}: there are no columns to draw")
        keys = [key for kind in kinds for key in kind.keys]
        if twice := next((kind.column for kind in kinds if kind.kind != "set" and keys.count(kind.column) > 1), None):
            raise DataError(
                f"{self.kind}: column {twice!r} is named like an item of a column of sets (its name, / and a number); "
                "rename it"
            )
        return kinds, variables

    def _accept(self, data: Dataset, kind: ColumnKind, variables: Sequence[Variable]) -> None:
        """Refuse a column that the model cannot draw."""

    def _given(self, data: Dataset) -> tuple[list[ColumnKind], list[Variable]]:
        """Read the columns that are kept and that the others are drawn from."""
        kinds: list[ColumnKind] = []
        variables: list[Variable] = []
        if self.makes_rows:
            return kinds, variables
        left_out = {*data.having(*_LEFT_OUT, "household"), *self.columns}
        for name in data.columns:
            if name in left_out or not isinstance(data.levels.get(name, 0), int):
                continue
            try:
                kind, found = describe(data, name, self.kind)
            except DataError:  # sets of very many items, types that cannot be compared: no predictors
                continue
            if kind.kind != "level" or not too_many_levels(data, name):
                kinds.append(kind)
                variables += found
        return kinds, variables

    def _one(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        drawn = super()._one(data, decision, ctx)
        if self.records == "all":
            return drawn
        import polars as pl

        chosen = pl.Series(self._at_risk(data, ctx))
        new = {name: drawn.frame[name].zip_with(chosen, data.frame[name]) for name in self.columns}
        return data.with_columns(new)

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Draw new rows, or new values in the rows there are."""
        if self.makes_rows:
            return with_sums(
                read_edit_rules(data.schema.edit_rules),
                data.with_new_rows(self.new_rows(data, decision, self.rows or len(data), ctx)),
            )
        kinds, given = (_kinds(decision[name]) for name in ("columns", "given"))
        data.require([kind.column for kind in (*kinds, *given)])
        variables = [variable for kind in given for variable in reread(data, kind)]
        model, rules = self.sampler(decision["model"]), self.rules_of(data, (*kinds, *given))
        before = by_key(variables)
        parts: list[Values] = []
        for batch in ctx.batches(len(data)):
            values: Values = {key: column[batch.start : batch.stop] for key, column in before.items()}
            model.draw(values, batch.stop - batch.start, batch.rng, rules)
            self._repair(model, values, batch.rng, rules)
            parts.append({key: values[key] for kind in kinds for key in kind.keys})
        drawn = _joined(parts)
        new = {kind.column: kind.series(drawn, data.frame.schema[kind.column]) for kind in kinds}
        return with_sums(read_edit_rules(data.schema.edit_rules), data.with_columns(new))

    def new_rows(self, data: Dataset, decision: Decision, rows: int, ctx: Context) -> pl.DataFrame:
        """Draw rows that belong to nobody."""
        import polars as pl

        parts = list(self._drawn_batches(data, decision, rows, ctx))
        by_name = {}
        for kind in _kinds(decision["columns"]):
            drawn = {key: np.concatenate([part.pop(key) for part in parts]) for key in kind.keys}
            by_name[kind.column] = kind.series(drawn, data.frame.schema[kind.column])
        return pl.DataFrame([by_name[name] for name in data.columns if name in by_name])

    def _drawn_batches(self, data: Dataset, decision: Decision, rows: int, ctx: Context) -> Iterator[Values]:
        """Draw rows that belong to nobody, 65,536 at a time; the model is gone with the last."""
        kinds = _kinds(decision["columns"])
        data.require([kind.column for kind in kinds])
        model, rules = self.sampler(decision["model"]), self.rules_of(data, kinds)
        draw = self._fulfilling if rules.rules else _drawn
        for batch in ctx.batches(rows):
            yield draw(model, batch.stop - batch.start, batch.rng, rules)

    def rules_of(self, data: Dataset, kinds: Sequence[ColumnKind]) -> DrawnRules:
        """Read the rules for columns that are drawn or kept."""
        known = {kind.column: kind for kind in kinds}
        found = read_rules(self.rules, list(known), self.kind)
        return DrawnRules((*found, *_drawn_edit_rules(data, known)), known, data.frame.schema)

    def _fulfilling(self, model: Sampler, rows: int, rng: np.random.Generator, rules: DrawnRules) -> Values:
        """Draw rows until so many fulfil the rules; the others are dropped."""
        parts: list[Values] = []
        have = drawn = 0
        for _ in range(_ROUNDS):
            size = int((rows - have) * min(drawn / max(have, 1), 20.0) * 1.1) + 10 if drawn else rows
            values = _drawn(model, size, rng, rules)
            good = np.flatnonzero(~rules.rows(values))[: rows - have]
            parts.append({key: column[good] for key, column in values.items()})
            have, drawn = have + len(good), drawn + size
            if have == rows:
                return _joined(parts)
            if not have and drawn > _ROUNDS * 100:
                break
        raise rules.hopeless(self.kind, rows)

    def _repair(self, model: Sampler, values: Values, rng: np.random.Generator, rules: DrawnRules) -> None:
        """Draw the columns of rows that break a rule again, all of them; the kept columns stay."""
        if not rules.rules:
            return
        for _ in range(_ROUNDS):
            bad = np.flatnonzero(rules.rows(values))
            if not len(bad):
                return
            again: Values = {key: column[bad] for key, column in values.items()}
            model.draw(again, len(bad), rng, rules)
            for key, column in again.items():
                values[key][bad] = column
        raise rules.hopeless(self.kind, len(bad))

    def _pilot(self, data: Dataset, known: Mapping[str, Any], ctx: Context) -> dict[str, Any]:
        """Draw some rows, to find out how often the rules are broken, and that they can be fulfilled."""
        kinds, given = (_kinds(known[name]) for name in ("columns", "given"))
        rules = self.rules_of(data, (*kinds, *given))
        broken = self.broken_in(data, rules)
        model, rng = self.sampler(known["model"]), ctx.rng
        size = min(_PILOT, len(data))
        if self.makes_rows:
            self._fulfilling(model, size, rng, rules)
        else:
            part = data.take(np.sort(rng.choice(len(data), size, replace=False)))
            values: Values = by_key([variable for kind in given for variable in reread(part, kind)])
            model.draw(values, size, rng, rules)
            self._repair(model, values, rng, rules)
        return {"pilot_rows": size, "broken_draws": dict(rules.counts), "broken_in_original": broken}

    def broken_in(self, data: Dataset, rules: DrawnRules) -> dict[str, int]:
        """Count the rows of the data that break each rule; refuse rules that only a few rows fulfil."""
        import polars as pl

        frame = pl.DataFrame([data.frame[name] for name in {name for rule in rules.rules for name in rule.columns}])
        found = {rule.text: rule.broken(frame) for rule in rules.rules}
        if 0 < int((~np.any(list(found.values()), axis=0)).sum()) < FEWEST_ROWS:
            raise DataError(
                f"{self.kind}: fewer than {FEWEST_ROWS} rows of the data fulfil the rules: the file would be about "
                "these few; state what is impossible, not whom to draw"
            )
        return {text: int(one.sum()) for text, one in found.items()}

    def _at_risk(self, data: Dataset, ctx: Context) -> Bools:
        """Choose the records at risk, and as many others for each as `others` says."""
        measure: Measure = self.measure
        before = data if measure.needs == "released" else data.origin
        found = measure.run(before, data, ctx.within(measure.kind)).per_record
        if found is None:
            raise PlanError(f"{self.kind}: {measure.kind!r} gives no figure for each record")
        risky = np.nan_to_num(np.asarray(found, np.float64)) > float(self.at_most or 0.0)
        rest = np.flatnonzero(~risky)
        extra = min(len(rest), int(np.ceil(self.others * risky.sum())))
        risky[ctx.within("others").rng.choice(rest, extra, replace=False)] = True
        return risky


def told_apart(frames: Sequence[pl.DataFrame], columns: Sequence[str]) -> list[pl.DataFrame]:
    """Give frames whose households were numbered 1, 2, … in each numbers that no two of them share."""
    import polars as pl

    sizes = [max((frame[name].n_unique() for name in columns), default=0) for frame in frames]
    found, start = [], 0
    for frame, size in zip(frames, sizes, strict=True):
        shifted = [
            (pl.col(name).cast(pl.Int64) + start).cast(number_type(frame.schema[name], sum(sizes))).alias(name)
            for name in columns
        ]
        found.append(frame.with_columns(shifted))
        start += size
    return found


def number_type(dtype: pl.DataType, most: int) -> Any:
    """Give the type in which new numbers of households are written: that of the data, if they all fit into it."""
    import polars as pl

    if not dtype.is_numeric():
        return pl.String
    narrow = dtype.is_integer() and most > pl.select(dtype.max()).item()  # type: ignore[attr-defined]
    return pl.Int64 if narrow else dtype


def _kinds(known: Sequence[Mapping[str, Any]]) -> list[ColumnKind]:
    return [ColumnKind.from_plain(one) for one in known]


def _drawn(model: Sampler, rows: int, rng: np.random.Generator, rules: DrawnRules) -> Values:
    values: Values = {}
    model.draw(values, rows, rng, rules)
    return values


def learned_places(height: int, seed: int) -> Ints:
    """Draw the places of the records from which a model is learned where rows stay in their files."""
    return drawn_places(height, LEARNED, Context(seed, "learned"))


def _frame(kinds: Sequence[ColumnKind], values: Values, like: Dataset) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame([kind.series(values, like.frame.schema[kind.column]) for kind in kinds])


def _joined(parts: Sequence[Mapping[str, Floats]]) -> Values:
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def _figures(values: Mapping[str, Any]) -> dict[str, Any]:
    if "groups" in values:
        return {"groups": {key: _figures(inner) for key, inner in values["groups"].items()}}
    kept = {name: values[name] for name in ("records", "sample_of", "rules", "not_drawn") if name in values}
    return kept | {"columns": [known["column"] for known in values["columns"]]} | dict(values["model"].get("facts", {}))
