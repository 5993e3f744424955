"""Households by trees: heads first, then the members given the head; sizes as in the data, numbers new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import find_households
from discretion.errors import DataError
from discretion.kernels.arrays import Floats, Ints
from discretion.method import Decision
from discretion.protect.synthetic.margins import not_drawn
from discretion.protect.synthetic.sequence import InTurn, learn
from discretion.protect.synthetic.variables import ColumnKind, Variable

if TYPE_CHECKING:
    import polars as pl

    from discretion.protect.synthetic.generator import Rules
    from discretion.protect.synthetic.sequential_trees import SequentialTrees

_SIZE, _PLACE, _HEAD = "household size", "place in the household", "head: "
_MOST_TIMES = 60


def fit_households(method: SequentialTrees, data: Dataset, ctx: Context) -> Decision:
    """Learn the first record of each household with the number of members, then the others given the first."""
    method.check(data)
    homes = find_households(data)
    kinds, variables = method.targets(data)
    place = _places(homes.of, homes.first_rows)
    sizes = np.unique(homes.sizes)
    code = np.searchsorted(sizes, homes.sizes).astype(np.float64)
    heads = [variable.part(homes.first_rows) for variable in variables]
    size = Variable(_SIZE, code, len(sizes))
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
        *(replace(v, column=_HEAD + v.column) for v in of_head),
        Variable(_SIZE, code[homes.of[others]], len(sizes)),
        Variable(_PLACE, np.minimum(place[others], _MOST_TIMES).astype(np.float64), _MOST_TIMES + 1),
    ]
    own = [v.part(others) for v in variables if v.key not in shared]
    second = [model.to_plain() for model in learn(method.in_order(own), given, True, method.how, ctx.within("members"))]
    model = {
        "heads": first,
        "members": second,
        "sizes": sizes.tolist(),
        "shared": shared,
        "households": len(homes),
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
    if method.rules:
        rules = method.rules_of(data, kinds)
        batch = _Households(model, kinds)
        batch.fulfilling(min(500, len(homes)), ctx.within("pilot").rng, rules, method.kind)
        known["rules"] = {"pilot_households": min(500, len(homes)), "broken_draws": dict(rules.counts)}
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
    kind = data.frame.schema[column]
    ids = pl.Series(column, np.concatenate(numbers))
    by_name[column] = ids.cast(kind) if kind.is_numeric() else ids.cast(pl.String)
    return pl.DataFrame([by_name[name] for name in data.columns if name in by_name])


class _Households:
    """A model of heads and members that was learned."""

    def __init__(self, model: Mapping[str, Any], kinds: Sequence[ColumnKind]) -> None:
        self.heads, self.members = InTurn.of(model["heads"]), InTurn.of(model["members"])
        self.sizes = np.asarray(model["sizes"], np.int64)
        self.shared: list[str] = list(model["shared"])
        self.keys = [key for kind in kinds for key in kind.keys]

    def draw(self, count: int, rng: np.random.Generator, rules: Rules) -> tuple[dict[str, Floats], Ints]:
        """Draw households: the rows, and the household of each, numbered from 0."""
        values: dict[str, Floats] = {}
        self.heads.draw(values, count, rng, rules)
        size = self.sizes[values[_SIZE].astype(np.int64)]
        home = np.repeat(np.arange(count), size - 1)
        inside: dict[str, Floats] = {_HEAD + key: values[key][home] for key in self.keys}
        inside |= {key: values[key][home] for key in (*self.shared, _SIZE)}
        inside[_PLACE] = np.minimum(_places(home, None) + 1, _MOST_TIMES).astype(np.float64)
        self.members.draw(inside, len(home), rng, rules)
        everybody = np.concatenate([np.arange(count), home])
        order = np.argsort(everybody, kind="stable")
        rows = {key: np.concatenate([values[key], inside[key]])[order] for key in self.keys}
        return rows, everybody[order]

    def fulfilling(
        self, count: int, rng: np.random.Generator, rules: Rules, who: str
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
