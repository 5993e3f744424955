"""Columns drawn one after the other, each from a tree on those before it: what trees and margins share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from discretion.context import Context
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.protect.synthetic.margins import NumberMargin
from discretion.protect.synthetic.trees import Growth, Tree, grow
from discretion.protect.synthetic.variables import Variable, codes_of

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
    tree: Tree

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
    state: Tree | None
    """donors: 0 for a value, 1 … for the spikes, then missing"""
    rest: Tree | None
    """donors: places among the different values"""
    keep_extremes: bool = False

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
    def _trees(self) -> tuple[tuple[str, Tree | None], ...]:
        return ("state", self.state), ("rest", self.rest)


Model = LevelModel | NumberModel


def read_model(known: Mapping[str, Any]) -> Model:
    """Read a model of one column that was saved."""
    if "tree" in known:
        return LevelModel(known["key"], Tree.from_plain(known["tree"]))
    state, rest = (None if known[name] is None else Tree.from_plain(known[name]) for name in ("state", "rest"))
    margin, smoothing = NumberMargin.from_plain(known["margin"]), float(known["smoothing"])
    return NumberModel(known["key"], margin, smoothing, state, rest, bool(known["keep_extremes"]))


@dataclass(frozen=True)
class Learning:
    """What decides how columns are learned."""

    growth: Growth
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
    usable = target.level_counts()[code] >= how.min_support
    if not usable.any():
        raise DataError(
            f"{how.who}: column {target.column!r}: no value is that of {how.min_support} people or more "
            "(`min_support`), so that nothing can be drawn; recode the column or drop it"
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
    middle = margin.middles[places] / margin.ends[-1]
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
