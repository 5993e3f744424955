"""Synthesis by a tree for each column given those before it (P23, P24)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import find_households
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats, Ints
from discretion.method import Decision, Purpose
from discretion.part import Columns
from discretion.protect.synthetic.generator import ModelGenerator, Sampler, number_type
from discretion.protect.synthetic.sequence import InTurn, Learning, TreeGrowth, learn
from discretion.protect.synthetic.variables import ColumnKind, Variable, not_drawn

if TYPE_CHECKING:
    import polars as pl

    from discretion.protect.synthetic.generator import DrawnRules

# Households by trees: heads first, then the members given the head; sizes as in the data, numbers new.

_MOST_TIMES = 60


def _names(mark: str) -> tuple[str, str, str]:
    """Name what is drawn beside the columns: sizes, places, and what stands before the columns of the head."""
    return f"{mark}household size", f"{mark}place in the household", f"{mark}head: "


def _mark(columns: Sequence[str]) -> str:
    """Give what sets these names off from those of the columns."""
    mark = ""
    while any(name.startswith(_names(mark)) for name in columns):
        mark += "~"
    return mark


def fit_households(method: SequentialTrees, data: Dataset, ctx: Context) -> Decision:
    """Learn the first record of each household with the number of members, then the others given the first."""
    method.check(data)
    homes = find_households(data)
    kinds, variables = method.targets(data)
    place = _places(homes.of, homes.first_rows)
    sizes = np.unique(homes.sizes)
    code = np.searchsorted(sizes, homes.sizes).astype(np.float64)
    heads = [variable.part(homes.first_rows) for variable in variables]
    mark = _mark(data.columns)
    size_key, place_key, of_their_head = _names(mark)
    size = Variable(size_key, code, len(sizes))
    first = [model.to_plain() for model in learn([size, *method.in_order(heads)], [], True, method.how, ctx)]
    others = np.flatnonzero(place > 0)
    if len(others) < method.fewest:
        raise DataError(
            f"{method.kind}: {len(others)} people live with the head of a household, too few to learn from (at least "
            f"{method.fewest}); drop the column {homes.column!r}"
        )
    shared = [v.key for v in variables if not homes.count_varying(data, v.column)]
    of_head = [v.part(homes.first_rows[homes.of[others]]) for v in variables]
    given = [
        *(replace(v, column=of_their_head + v.column) for v in of_head),
        Variable(size_key, code[homes.of[others]], len(sizes)),
        Variable(place_key, np.minimum(place[others], _MOST_TIMES).astype(np.float64), _MOST_TIMES + 1),
    ]
    own = [v.part(others) for v in variables if v.key not in shared]
    second = [model.to_plain() for model in learn(method.in_order(own), given, True, method.how, ctx.within("members"))]
    model = {
        "heads": first,
        "members": second,
        "sizes": sizes.tolist(),
        "shared": shared,
        "households": len(homes),
        "mark": mark,
        "facts": {"households": len(homes)},
    }
    known: dict[str, Any] = {
        "records": len(data),
        "columns": [kind.to_plain() for kind in kinds],
        "given": [],
        "model": model,
    }
    if few := not_drawn(data, variables):
        known["not_drawn"] = few
    rules = method.rules_of(data, kinds)
    if rules.rules:
        broken, tried = method.broken_in(data, rules), min(500, len(homes))
        _Households(model, kinds).fulfilling(tried, ctx.within("pilot").rng, rules, method.kind)
        known["rules"] = {
            "pilot_households": tried, "broken_draws": dict(rules.counts), "broken_in_original": broken,
        }  # fmt: skip
    return Decision(MappingProxyType(known))


def draw_households(
    method: SequentialTrees, data: Dataset, decision: Decision, rows: int, ctx: Context
) -> pl.DataFrame:
    """Draw households: as many as give about so many rows."""
    import polars as pl

    kinds = [ColumnKind.from_plain(one) for one in decision["columns"]]
    data.require([kind.column for kind in kinds])
    model: Mapping[str, Any] = decision["model"]
    total = max(1, round(rows * int(model["households"]) / int(decision["records"])))
    generator, rules = _Households(model, kinds), method.rules_of(data, kinds)
    parts, numbers, start = [], [], 1
    for batch in ctx.batches(total):
        values, home = generator.fulfilling(batch.stop - batch.start, batch.rng, rules, method.kind)
        parts.append(values)
        numbers.append(home + start)
        start += batch.stop - batch.start
    drawn = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    by_name = {kind.column: kind.series(drawn, data.frame.schema[kind.column]) for kind in kinds}
    column = data.having("household")[0]
    by_name[column] = pl.Series(column, np.concatenate(numbers)).cast(number_type(data.frame.schema[column], total))
    return pl.DataFrame([by_name[name] for name in data.columns if name in by_name])


class _Households:
    """A model of heads and members that was learned."""

    def __init__(self, model: Mapping[str, Any], kinds: Sequence[ColumnKind]) -> None:
        self.heads, self.members = InTurn.of(model["heads"]), InTurn.of(model["members"])
        self.sizes = np.asarray(model["sizes"], np.int64)
        self.shared: list[str] = list(model["shared"])
        self.keys = [key for kind in kinds for key in kind.keys]
        self.names = _names(str(model.get("mark", "")))

    def draw(self, count: int, rng: np.random.Generator, rules: DrawnRules) -> tuple[dict[str, Floats], Ints]:
        """Draw households: the rows, and the household of each, numbered from 0."""
        values: dict[str, Floats] = {}
        size_key, place_key, of_their_head = self.names
        self.heads.draw(values, count, rng, rules)
        size = self.sizes[values[size_key].astype(np.int64)]
        home = np.repeat(np.arange(count), size - 1)
        inside: dict[str, Floats] = {of_their_head + key: values[key][home] for key in self.keys}
        inside |= {key: values[key][home] for key in (*self.shared, size_key)}
        inside[place_key] = np.minimum(_places(home, None) + 1, _MOST_TIMES).astype(np.float64)
        self.members.draw(inside, len(home), rng, rules)
        everybody = np.concatenate([np.arange(count), home])
        order = np.argsort(everybody, kind="stable")
        rows = {key: np.concatenate([values[key], inside[key]])[order] for key in self.keys}
        return rows, everybody[order]

    def fulfilling(
        self, count: int, rng: np.random.Generator, rules: DrawnRules, who: str
    ) -> tuple[dict[str, Floats], Ints]:
        """Draw households until so many have no member that breaks a rule; the others are dropped whole."""
        if not rules.rules:
            return self.draw(count, rng, rules)
        parts: list[dict[str, Floats]] = []
        homes: list[Ints] = []
        have = 0
        for _ in range(_MOST_TIMES):
            values, home = self.draw(count - have + 10, rng, rules)
            bad = np.zeros(count - have + 10, np.bool_)
            bad[home[rules.rows(values)]] = True
            kept = np.flatnonzero(~bad)[: count - have]
            number = np.full(len(bad), -1)
            number[kept] = np.arange(have, have + len(kept))
            rows = np.flatnonzero(number[home] >= 0)
            parts.append({key: column[rows] for key, column in values.items()})
            homes.append(number[home[rows]])
            have += len(kept)
            if have == count:
                return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}, np.concatenate(homes)
        raise rules.hopeless(who, count)


def _places(home: Ints, first_rows: Ints | None) -> Ints:
    """Number the members of each household 0, 1, … in the order they stand, the first record with 0."""
    order = np.argsort(home, kind="stable")
    starts = np.searchsorted(home[order], home[order], "left")
    place = np.empty(len(home), np.int64)
    place[order] = np.arange(len(home)) - starts
    if first_rows is not None:
        place[first_rows] = 0
    return place


class SequentialTrees(ModelGenerator, kind="sequential-trees"):
    """Draw rows column by column, each from a tree that was fitted on the columns before it.

    A row goes down the tree of a column to a leaf and gets the value of one of the people there. Trees are pruned: a
    branch must gain `pruning` times what a split on pure noise gains. This keeps relations that hold for many and loses
    those of a few, which are the people; the size of leaves alone does not protect (with 5 and no pruning every fifth
    person of a census stands in the file). Numbers are never somebody's own: they are moved by up to `smoothing` people
    in the sorted column and interpolated between different values; only a value that ten people share is drawn as such
    (people, not rows, where a unit, household or repeated identifier tells them). Extremes are coded (`extremes`).
    Missing values, and which there are, are drawn first; dates are days; sets are drawn item by item. Where a column
    has the role household, heads are drawn first, then the members given the head; who is no head depends on the head
    only.

    Guarantees that nobody's row or number is copied on purpose; a row that many share may appear, as it would for
    people outside the data. Does not give anonymity: whether people can be found or recognized as members is measured
    by attacks with people outside the data (`replicated-uniques`, `closest-record`, `disco`, `inference-risk`,
    `linkability`, `singling-out`). Relations the trees do not see (high interactions, totals that must add up, order
    in time) are lost. Time O(p²·n·log n), fitted on at most 100,000 rows.

    References
    ----------
    Reiter (2005), Using CART to generate partially synthetic public use microdata, JOS 21(3); Nowok, Raab & Dibben
    (2016), synthpop, JSS 74(11); catalogue P23, P24.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1).drop(["household"])
    >>> synthetic = dc.SequentialTrees()(people, seed=7)
    >>> len(synthetic), synthetic.has_new_rows
    (1000, True)
    >>> partly = dc.SequentialTrees(columns=["income"])(people, seed=7)
    >>> bool((partly.frame["age"] == people.frame["age"]).all())
    True
    """

    order: Columns = ()
    """columns to draw first, in this order; the others follow: numbers early, nominal columns of many levels last"""
    min_leaf: int = Field(5, ge=1)
    """smallest number of people in a leaf"""
    pruning: float = Field(3.0, ge=0)
    """what a branch must gain, in units of a split on noise; 0: unpruned, which copies people"""
    smoothing: float = Field(10.0, gt=0)
    """people in the sorted column by which a number is moved at most; up to 0.5 % of all hardly changes moments"""
    min_support: int = Field(3, ge=1)
    """fewest people that have a category for it to be drawn at all: a rule of detail, not of protection"""

    keeps_households: ClassVar[bool] = True
    purpose: ClassVar[Purpose] = "make up"
    effect: ClassVar[str] = (
        "Estimates are those of the model that drew the values: relations that it lacks are not in the data. Standard "
        "errors must be combined over the copies."
    )
    guarantee: ClassVar[str] = (
        "Values were drawn from a model of the data, column by column; no number is anybody's own. Synthetic data is "
        "not anonymous by itself: what attacks find is reported."
    )

    def learn(self, targets: Sequence[Variable], given: Sequence[Variable], ctx: Context) -> dict[str, Any]:
        """Fit a tree for each column given the kept ones and those before it."""
        models, leaves = [], {}
        for model in learn(self.in_order(targets), given, True, self.how, ctx):
            models.append(model.to_plain())  # at once: as arrays, all models together are larger than the data
            leaves[model.key] = model.leaves
        return {"models": models, "facts": {"leaves": leaves}}

    def sampler(self, model: Mapping[str, Any]) -> Sampler:
        """Read the trees."""
        return InTurn.of(model["models"])

    @property
    def how(self) -> Learning:
        """How columns are learned."""
        return Learning(
            TreeGrowth(self.min_leaf, self.pruning),
            self.smoothing,
            self.min_support,
            self.kind,
            self.extremes == "keep",
        )

    def in_order(self, targets: Sequence[Variable]) -> list[Variable]:
        """Put the variables into the order in which they are drawn."""
        names = {variable.column for variable in targets}
        if strange := [name for name in self.order if name not in names]:
            raise PlanError(f"{self.kind}: order: {strange[0]!r} is not among the columns that are drawn")
        first = {name: place for place, name in enumerate(self.order)}
        return sorted(targets, key=lambda v: (first.get(v.column, len(first)), 0 if v.column in first else v.weight))

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Learn the columns, or households: heads first, then members given the head."""
        if self.makes_rows and data.having("household"):
            return fit_households(self, data, ctx)
        return super().fit(data, ctx)

    def new_rows(self, data: Dataset, decision: Decision, rows: int, ctx: Context) -> pl.DataFrame:
        """Draw rows, or households."""
        if "households" in decision["model"]:
            return draw_households(self, data, decision, rows, ctx)
        return super().new_rows(data, decision, rows, ctx)
