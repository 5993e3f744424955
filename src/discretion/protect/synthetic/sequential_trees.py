"""Synthesis by a tree for each column given those before it (P23, P24)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import find_households
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.kernels.trees import descend
from discretion.method import Decision, Purpose
from discretion.part import Columns
from discretion.protect.synthetic.generator import ModelGenerator, Sampler, number_type
from discretion.protect.synthetic.variables import (
    SHARED,
    ColumnKind,
    NumberMargin,
    Variable,
    codes_of,
    fewest_rows,
    not_drawn,
    pack,
    unpack,
)

if TYPE_CHECKING:
    import polars as pl

    from discretion.protect.synthetic.generator import DrawnRules

# Columns drawn independently of each other: the baseline every synthesis must beat (P23).


class IndependentMargins(ModelGenerator, kind="independent-margins"):
    """Draw every column from its own distribution, independently of all others.

    The honest baseline: what a file tells when it tells nothing about how columns hang together. Each column's
    distribution is kept (numbers are smoothed by up to `smoothing` people in the sorted column, values that ten
    people share and missing ones are drawn as such), every relation is lost.
    With `by`, relations with these columns are
    kept. Guarantees that no combination of values stems from a person, unless chance makes it. Does not hide that a
    rare category exists in the data, except below `min_support`. Time linear.

    References
    ----------
    Nowok, Raab & Dibben (2016), synthpop, JSS 74(11), method "sample"; catalogue P23, P24.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> len(dc.IndependentMargins(rows=500)(people.drop(["household"]), seed=7))
    500
    """

    smoothing: float = Field(10.0, gt=0)
    """people in the sorted column by which a number is moved at most"""
    min_support: int = Field(3, ge=1)
    """fewest people that have a category for it to be drawn at all"""

    purpose: ClassVar[Purpose] = "make up"
    effect: ClassVar[str] = (
        "The distribution of each column can be estimated; every relation between columns is gone: correlations and "
        "slopes are zero."
    )
    guarantee: ClassVar[str] = (
        "Columns were drawn independently of each other: their distributions are kept, relations between them are not."
    )

    def learn(self, targets: Sequence[Variable], given: Sequence[Variable], ctx: Context) -> dict[str, Any]:
        """Learn each column's distribution."""
        how = Learning(TreeGrowth(1, 0.0), self.smoothing, self.min_support, self.kind, self.extremes == "keep")
        return {"models": [model.to_plain() for model in learn(targets, given, False, how, ctx)]}

    def sampler(self, model: Mapping[str, Any]) -> Sampler:
        """Read the distributions."""
        return InTurn.of(model["models"])


# One tree: where a column's donors lie, given the columns before it.
#
# A tree is grown by scikit-learn and pruned to the smallest one that minimizes loss + c·(root impurity / n) · leaves:
# a split that only follows noise gains about one such unit, so that c is free of scale. A split also pays what one
# person could gain by it, so that none is kept for a single one. Pruning, not the size of leaves, is what keeps people
# from being copied: small leaves in the thick of the data hold people alike, and those in its thin parts would hold
# one person's neighbors.

_MOST_CLASSES = 64
"""Responses with more levels are fitted by what their levels have in common: thousands of classes take ages."""
_AXES = 3
_SHRINK = 5.0
_AGAIN = 2
"""Times that a tree for numbers is pruned again, by the noise that it leaves."""
_FOLLOWED = 3.0
"""Gain of a split, in multiples of its cost, that may be owed to noise: the best of many splits was taken."""


@dataclass(frozen=True)
class TreeGrowth:
    """How trees grow: smallest leaf, pruning in units of one noise split, most rows to fit on."""

    min_leaf: int
    pruning: float
    fit_rows: int = 100_000
    rows_each: float = 1.0
    """rows of a person"""

    def of_units(self, rows: float) -> TreeGrowth:
        """Count people instead of rows, where each has so many: a split that follows one of them gains that much."""
        return TreeGrowth(math.ceil(self.min_leaf * rows), self.pruning * rows, self.fit_rows, rows)


@dataclass(frozen=True)
class Encoder:
    """How one predictor becomes a column of a tree's matrix: scaled numbers, or a rank for each code."""

    key: str
    low: float = 0.0
    scale: float = 0.0
    ranks: Ints | None = None

    def encode(self, values: Floats) -> NDArray[np.float32]:
        """Give the column; missing numbers lie below all others."""
        if self.ranks is not None:
            return self.ranks[np.minimum(codes_of(values), len(self.ranks) - 1)].astype(np.float32)
        scaled = (values - self.low) * self.scale
        return np.where(np.isnan(scaled), -1.0, scaled).astype(np.float32)

    def to_plain(self) -> dict[str, Any]:
        """Give it as plain data."""
        ranks = None if self.ranks is None else pack(self.ranks)
        return {"key": self.key, "low": self.low, "scale": self.scale, "ranks": ranks}

    @classmethod
    def from_plain(cls, known: Mapping[str, Any]) -> Encoder:
        """Read what was saved."""
        ranks = None if known["ranks"] is None else unpack(known["ranks"])
        return cls(known["key"], float(known["low"]), float(known["scale"]), ranks)


@dataclass(frozen=True)
class DonorTree:
    """A pruned tree with its donors: those of node v are `donors[low[v]:high[v]]`."""

    encoders: tuple[Encoder, ...]
    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    low: Ints
    high: Ints
    donors: Ints

    def draw(self, values: Mapping[str, Floats], rows: int, rng: np.random.Generator) -> Ints:
        """Draw a donor for each row, from the leaf it comes to."""
        leaf = self._leaves(values, rows)
        low = self.low[leaf]
        return self.donors[low + (rng.random(rows) * (self.high[leaf] - low)).astype(np.int64)].astype(np.int64)

    def _leaves(self, values: Mapping[str, Floats], rows: int) -> Ints:
        if not self.encoders:
            return np.zeros(rows, np.int64)
        matrix = np.column_stack([encoder.encode(values[encoder.key]) for encoder in self.encoders])
        return descend(matrix, self.feature, self.threshold, self.left, self.right)

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        return int((self.left < 0).sum())

    def to_plain(self) -> dict[str, Any]:
        """Give the tree as plain data."""
        arrays = ("feature", "threshold", "left", "right", "low", "high", "donors")
        return {"encoders": [e.to_plain() for e in self.encoders]} | {
            name: pack(getattr(self, name)) for name in arrays
        }

    @classmethod
    def from_plain(cls, known: Mapping[str, Any]) -> DonorTree:
        """Read a tree that was saved."""
        arrays = ("feature", "threshold", "left", "right", "low", "high", "donors")
        found = (unpack(known[name], narrowed=name == "donors") for name in arrays)
        return cls(tuple(map(Encoder.from_plain, known["encoders"])), *found)


def grow(
    predictors: Sequence[Variable],
    response: Floats,
    size: int,
    donors: Ints,
    usable: Bools,
    growth: TreeGrowth,
    rows: Ints,
) -> DonorTree:
    """Fit a tree to the response (codes below `size`, or numbers where it is 0) and put every row into its leaf.

    `rows` are those to fit on (a sample of large data); the donors come from all rows that are `usable`.
    """
    vary = [variable for variable in predictors if _varies(variable.values[rows])]
    fitted = _response(vary, response, size)
    if not vary or _impurity(fitted, size, rows) == 0:
        kept = np.sort(donors[usable])
        leaf = np.zeros(1, np.int64)
        return DonorTree((), leaf, np.zeros(1), leaf - 1, leaf - 1, leaf, leaf + len(kept), kept)
    encoders = [_encoder(variable, fitted, size) for variable in vary]
    matrix = np.column_stack([e.encode(v.values) for e, v in zip(encoders, vary, strict=True)])
    feature, threshold, left, right = _pruned(
        _fit(matrix[rows], fitted[rows], size, growth), growth, _alone(fitted, size, growth), not size
    )
    used = np.unique(feature[left >= 0])
    place = np.zeros(len(vary), np.int64)
    place[used] = np.arange(len(used))
    feature = np.where(left >= 0, place[feature], 0)
    matrix = matrix[:, used]
    leaf = descend(matrix, feature, threshold, left, right)[usable]
    low, high, ordered = _ranges(leaf, donors[usable], left, right)
    return DonorTree(tuple(encoders[j] for j in used), feature, threshold, left, right, low, high, ordered)


def _varies(values: Floats) -> bool:
    missing = np.isnan(values)
    return not missing.all() and (bool(missing.any()) or bool(values.min() < values.max()))


def _impurity(response: Floats, size: int, rows: Ints) -> float:
    chosen = response[rows]
    if chosen.ndim == 1 and size:
        return float(1 - ((np.bincount(codes_of(chosen)) / len(chosen)) ** 2).sum())
    return float(chosen.var(axis=0).mean())


def _alone(response: Floats, size: int, growth: TreeGrowth) -> float:
    """Give what one person gains at most, times the size of the part: 2 for Gini's index, the squared range else."""
    gained = 2.0 if size and response.ndim == 1 else float((np.ptp(response, axis=0) ** 2).mean())
    return gained * growth.rows_each**2 if growth.pruning else 0.0


def _response(predictors: Sequence[Variable], response: Floats, size: int) -> Floats:
    """Give what a tree is fitted to: classes, numbers, or for many levels a few axes along which the levels differ.

    A row's axes are the mean of the predictors over the *other* rows of its level, so that a level of one person does
    not point at that person.
    """
    if size <= _MOST_CLASSES or not predictors:
        return response
    code = codes_of(response)
    features = np.column_stack([_features(variable) for variable in predictors])
    spread = features.std(axis=0)
    features = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    sums = np.column_stack([np.bincount(code, column, size) for column in features.T])
    counts = np.bincount(code, minlength=size)[:, None]
    means = sums / (counts + _SHRINK)
    axes = np.linalg.eigh((means * counts).T @ means)[1][:, : -_AXES - 1 : -1]
    others = (sums[code] - features) / (counts[code] - 1 + _SHRINK)
    found = others @ axes
    spread = found.std(axis=0)
    return np.asarray(found[:, spread > 1e-12], np.float64) if (spread > 1e-12).any() else np.zeros((len(code), 1))


def _features(variable: Variable) -> Floats:
    if not variable.size:
        return _midranks(np.nan_to_num(variable.values, nan=np.nanmin(variable.values)))[:, None]
    if variable.ordered or variable.size > _MOST_CLASSES:
        return variable.values[:, None]
    return np.asarray(codes_of(variable.values)[:, None] == np.arange(variable.size)[None, :], np.float64)


def _midranks(values: Floats) -> Floats:
    """Give the share of values below each, half of those equal counted."""
    ordered = np.sort(values)
    places = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    return places / (2 * len(values))


def _encoder(variable: Variable, response: Floats, size: int) -> Encoder:
    if not variable.size:
        low, high = float(np.nanmin(variable.values)), float(np.nanmax(variable.values))
        return Encoder(variable.key, low, 1 / (high - low) if high > low else 1.0)
    if variable.ordered:
        return Encoder(variable.key, 0.0, 1.0)
    return Encoder(variable.key, ranks=_order_levels(variable, response, size))


def _order_levels(variable: Variable, response: Floats, size: int) -> Ints:
    """Rank the levels of a nominal predictor along the direction in which their responses differ most."""
    code, levels = codes_of(variable.values), variable.size
    counts = np.bincount(code, minlength=levels)[:, None]
    if response.ndim == 1 and size:
        cells = np.bincount(code * size + codes_of(response), minlength=levels * size)
        sums = cells.reshape(levels, size).astype(np.float64)
        middle = sums.sum(axis=0) / len(code)
    else:
        columns = response.reshape(len(code), -1)
        sums = np.column_stack([np.bincount(code, column, levels) for column in columns.T])
        middle = columns.mean(axis=0)
    away = (sums + middle) / (counts + 1) - middle
    axis = np.linalg.eigh((away * counts).T @ away)[1][:, -1]
    ranks = np.empty(levels, np.int64)
    ranks[np.argsort(np.round(away @ axis, 9), kind="stable")] = np.arange(levels)
    return ranks


def _fit(x: NDArray[np.float32], y: Floats, size: int, growth: TreeGrowth) -> Any:
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    classes = size and y.ndim == 1
    model = (DecisionTreeClassifier if classes else DecisionTreeRegressor)(
        min_samples_leaf=growth.min_leaf, random_state=0
    )
    return model.fit(x, y).tree_


def _pruned(tree: Any, growth: TreeGrowth, alone: float, numbers: bool) -> tuple[Ints, Floats, Ints, Ints]:
    """Give the smallest subtree with the least loss + cost of its splits, nodes in pre-order.

    A split costs pruning · (root impurity / n), and as much as one person could gain alone in its smaller part:
    `alone` / (size · n). For numbers, what the columns before them explain is no noise: the loss of the pruned tree,
    and what its splits may owe to chance, take the place of the root's impurity, and the tree is pruned again.
    """
    left, right = tree.children_left, tree.children_right
    weight = tree.weighted_n_node_samples
    loss = tree.impurity * weight / weight[0]
    least = alone / np.where(left >= 0, np.minimum(weight[left], weight[right]), 1.0)
    cost = (growth.pruning * loss[0] + least) / weight[0]
    inner = _cheapest(left, right, loss, cost)
    for _ in range(_AGAIN if numbers else 0):
        nodes = np.array(_preorder(left, right, inner))
        split = inner[nodes]
        noise = min(loss[nodes[~split]].sum() + _FOLLOWED * cost[nodes[split]].sum(), loss[0])
        cost = (growth.pruning * noise + least) / weight[0]
        inner = _cheapest(left, right, loss, cost)
    nodes = np.array(_preorder(left, right, inner))
    place = np.full(len(left), -1, np.int64)
    place[nodes] = np.arange(len(nodes))
    split = inner[nodes]
    children = (np.where(split, place[side[nodes]], -1) for side in (left, right))
    feature = np.where(split, tree.feature[nodes], 0).astype(np.int64)
    return (feature, np.where(split, tree.threshold[nodes], 0.0), *children)  # type: ignore[return-value]


def _cheapest(left: Ints, right: Ints, loss: Floats, cost: Floats) -> Bools:
    """Tell which nodes stay split, where each split has its cost."""
    best, price, first, second = (array.tolist() for array in (loss, cost, left, right))
    inner = left >= 0
    for node in np.flatnonzero(inner)[::-1].tolist():
        below = best[first[node]] + best[second[node]] + price[node]
        if below < best[node] - 1e-15:
            best[node] = below
        else:
            inner[node] = False
    return np.asarray(inner, np.bool_)


def _preorder(left: Ints, right: Ints, inner: Bools) -> list[int]:
    found, stack = [], [0]
    while stack:
        node = stack.pop()
        found.append(node)
        if inner[node]:
            stack += [int(right[node]), int(left[node])]
    return found


def _ranges(leaf: Ints, donors: Ints, left: Ints, right: Ints) -> tuple[Ints, Ints, Ints]:
    """Order donors by leaf, so that those of every node are a run; a node without donors takes those above it."""
    most = int(donors.max(initial=0)) + 1
    placed, ordered = np.divmod(np.sort(leaf * most + donors), most)
    last = np.arange(len(left))
    for node in range(len(left) - 1, -1, -1):
        if left[node] >= 0:
            last[node] = last[right[node]]
    low = np.searchsorted(placed, np.arange(len(left)), "left")
    high = np.searchsorted(placed, last, "right")
    for node in range(len(left)):
        if left[node] >= 0:
            for child in (left[node], right[node]):
                if high[child] == low[child]:
                    low[child], high[child] = low[node], high[node]
    return low, high, ordered


_TRIES = 20
"""Draws of one column, given those before it, until a rule holds; then the row is dropped."""


class Breaks(Protocol):
    """What a sequence needs of the rules."""

    @property
    def rules(self) -> tuple[Any, ...]:
        """The rules; none, and nothing is looked at."""

    def at(self, key: str, values: Mapping[str, Floats]) -> Bools | None:
        """Tell which rows break a rule that can be judged once this variable is drawn."""


@dataclass(frozen=True)
class LevelModel:
    """A column of levels: a tree whose donors are codes."""

    key: str
    tree: DonorTree

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        return self.tree.leaves

    def draw(self, values: Mapping[str, Floats], rows: int, rng: np.random.Generator) -> Floats:
        """Draw codes."""
        return self.tree.draw(values, rows, rng).astype(np.float64)

    def to_plain(self) -> dict[str, Any]:
        """Give the model as plain data."""
        return {"key": self.key, "tree": self.tree.to_plain()}


@dataclass(frozen=True)
class NumberModel:
    """A column of numbers: first whether it is a spike or missing, then a smoothed value."""

    key: str
    margin: NumberMargin
    smoothing: float
    state: DonorTree | None
    """donors: 0 for a value, 1 … for the spikes, then missing"""
    rest: DonorTree | None
    """donors: places among the different values"""
    keep_extremes: bool = False

    @property
    def leaves(self) -> int:
        """The number of leaves of the tree for values."""
        return 1 if self.rest is None else self.rest.leaves

    def draw(self, values: Mapping[str, Floats], rows: int, rng: np.random.Generator) -> Floats:
        """Draw the state, and values where there is one."""
        state = np.zeros(rows, np.int64) if self.state is None else self.state.draw(values, rows, rng)
        points = np.array([0.0, *self.margin.spikes, np.nan])
        drawn = points[state]
        free = np.flatnonzero(state == 0)
        if len(free) and self.rest is not None:
            inside = {encoder.key: values[encoder.key][free] for encoder in self.rest.encoders}
            places = self.rest.draw(inside, len(free), rng)
            drawn[free] = self.margin.smooth(places, self.smoothing, rng, self.keep_extremes)
        return drawn

    def to_plain(self) -> dict[str, Any]:
        """Give the model as plain data."""
        trees = {name: None if tree is None else tree.to_plain() for name, tree in self._trees}
        how = {"smoothing": self.smoothing, "keep_extremes": self.keep_extremes}
        return {"key": self.key, "margin": self.margin.to_plain(), **how, **trees}

    @property
    def _trees(self) -> tuple[tuple[str, DonorTree | None], ...]:
        return ("state", self.state), ("rest", self.rest)


Model = LevelModel | NumberModel


def read_model(known: Mapping[str, Any]) -> Model:
    """Read a model of one column that was saved."""
    if "tree" in known:
        return LevelModel(known["key"], DonorTree.from_plain(known["tree"]))
    state, rest = (None if known[name] is None else DonorTree.from_plain(known[name]) for name in ("state", "rest"))
    margin, smoothing = NumberMargin.from_plain(known["margin"]), float(known["smoothing"])
    return NumberModel(known["key"], margin, smoothing, state, rest, bool(known["keep_extremes"]))


@dataclass(frozen=True)
class Learning:
    """What decides how columns are learned."""

    growth: TreeGrowth
    smoothing: float
    min_support: int
    who: str
    keep_extremes: bool = False


def learn(
    targets: Sequence[Variable], given: Sequence[Variable], dependent: bool, how: Learning, ctx: Context
) -> Iterator[Model]:
    """Learn each target given the columns before it (or nothing, where columns are to be independent)."""
    total = len(targets[0].values) if targets else 0
    rows = np.arange(total)
    if total > how.growth.fit_rows:
        rows = np.sort(ctx.within("fit").rng.choice(total, how.growth.fit_rows, replace=False))
    before = [*given] if dependent else []
    for number, target in enumerate(targets):
        ctx.progress(number, len(targets), f"{ctx.step}: learning")
        learned = replace(how, growth=how.growth.of_units(target.rows_per_unit))
        yield (
            _learn_levels(target, before, learned, rows)
            if target.size
            else _learn_numbers(target, before, learned, rows)
        )
        if dependent:
            before.append(target)


def _learn_levels(target: Variable, before: Sequence[Variable], how: Learning, rows: Ints) -> Model:
    code = codes_of(target.values)
    fewest = fewest_rows(target, how.min_support)
    usable = target.level_counts()[code] >= fewest
    if not usable.any():
        raise DataError(
            f"{how.who}: column {target.column!r}: no value is that of {fewest} people or more (`min_support`; at "
            f"least {SHARED} rows where most of many values have fewer and no role tells whose rows they are), so that "
            "nothing can be drawn; recode the column, drop it, or give it the role unit or identifier"
        )
    return LevelModel(target.key, grow(before, target.values, target.size, code, usable, how.growth, rows))


def _learn_numbers(target: Variable, before: Sequence[Variable], how: Learning, rows: Ints) -> Model:
    values = target.values
    present = ~np.isnan(values)
    margin = NumberMargin.of(values[present], None if target.units is None else target.units[present])
    state = np.full(len(values), len(margin.spikes) + 1)
    state[present] = margin.spike_of(values[present]) + 1
    everybody = np.ones(len(values), np.bool_)
    first = None
    if state.any():
        size = len(margin.spikes) + 2
        first = grow(before, state.astype(np.float64), size, state, everybody, how.growth, rows)
    free = np.flatnonzero(state == 0)
    if not len(free):
        return NumberModel(target.key, margin, how.smoothing, first, None, how.keep_extremes)
    places = margin.places(values[free])
    middle = margin.middles[places] / margin.total
    inside = before if len(free) == len(values) else [variable.part(free) for variable in before]
    fit_on = rows if len(free) == len(values) else np.flatnonzero(np.isin(free, rows))
    if len(fit_on) < 2:
        fit_on = np.arange(len(free))
    rest = grow(inside, middle, 0, places, everybody[: len(free)], how.growth, fit_on)
    return NumberModel(target.key, margin, how.smoothing, first, rest, how.keep_extremes)


@dataclass(frozen=True)
class InTurn:
    """Columns drawn one after the other; a draw that breaks a rule is repeated, given the columns before it."""

    models: tuple[Model, ...]

    @classmethod
    def of(cls, known: Sequence[Mapping[str, Any]]) -> InTurn:
        """Read the models of the columns."""
        return cls(tuple(map(read_model, known)))

    def draw(self, values: MutableMapping[str, Floats], rows: int, rng: np.random.Generator, rules: Breaks) -> None:
        """Draw every column into `values`."""
        for model in self.models:
            values[model.key] = drawn = model.draw(values, rows, rng)
            for _ in range(_TRIES if rules.rules else 0):
                bad = rules.at(model.key, values)
                if bad is None or not bad.any():
                    break
                at = np.flatnonzero(bad)
                drawn[at] = model.draw({key: column[at] for key, column in values.items()}, len(at), rng)


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
    in time) are lost. Time O(p²·n·log n), fitted on at most 100,000 rows; of rows that stay in their files it learns
    from 100,000 drawn at random, and draws batch by batch.

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
