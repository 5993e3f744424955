"""Hiding association rules: the fewest items are taken out until no miner finds them (M7)."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import ceil
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import Infeasible, PlanError
from discretion.kernels.arrays import Ints
from discretion.learning.associations import AssociationRule, Items, RuleField, RuleThresholds, as_lists, items_of, mine
from discretion.method import Decision, Method, Purpose
from discretion.part import Columns, confidential

MOST_ITEMS = 12
"""Items of hidden rules in one record; with more, the ways to take some out are not all listed."""
MOST_OPTIONS = 20_000
"""Ways to change records of one kind, over all kinds; with more, items are taken out one after the other."""
MOST_NODES = 5_000
"""Nodes of the integer program, after which its best answer so far is taken (a number, not seconds: it repeats)."""
_MARGIN = 1e-6
"""Distance from a threshold that counts as below it in the program."""


class HideRules(Method, kind="hide-rules"):
    """Take the fewest items out of records so that given association rules are no longer found.

    A rule is hidden when its support or its confidence lies below the threshold (see `ResultPrivacy`). So that nobody
    reads rule and threshold off a file in which just one record is lacking, the thresholds aimed at are drawn below the
    given ones, by up to the share `margin`. Items are taken out of sets; in columns of categories the value is replaced
    by that of a random record that agrees in the other columns, among values that no hidden rule names (an emptied cell
    would show where a rule was hidden, and a value that does not fit its record too). Which records of one kind are
    changed is drawn.

    Records with the same items of the rules are one kind, so that the smallest number of changes (for the thresholds
    aimed at) is an integer program over kinds, whatever the number of records; with very many kinds items are taken
    out greedily (`proven` in the decision says which). Guarantees `ResultPrivacy` with the same fields. Does not
    protect people, nor against miners with lower thresholds. Other rules suffer: the decision counts rules over at
    most `max_items` items that are lost and those that appear only now (ghost rules). Missing cells stay missing and
    count as whatever keeps a rule strong; where they alone do, the rule cannot be hidden, which is an error. Time
    linear in the records, plus the program.

    References
    ----------
    Menon, Sarkar & Mukherjee (2005), Information Systems Research 16(3); Verykios et al. (2004), IEEE TKDE 16(4);
    catalogue M7.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> baskets = pl.DataFrame({"ills": ["flu|cough", "flu|cough", "flu|cough", "flu", "cough"]})
    >>> hide = dc.HideRules(rules=["flu -> cough"], min_support=0.2, min_confidence=0.6, margin=0)
    >>> hidden = hide(baskets, seed=1)["ills"]
    >>> sum(a != b for a, b in zip(hidden, baskets["ills"]))  # three of four: one item less makes it two of four
    1
    """

    rules: tuple[RuleField, ...] = confidential(min_length=1)
    """rules to hide, such as `flu|cough -> asthma`; without an arrow, sets of items that must not be frequent"""
    min_support: float = confidential(ge=0, le=1)
    """share of the records that must have all items of a rule for a miner to see it"""
    min_confidence: float = confidential(0.0, ge=0, le=1)
    """share of the records with the given items that must have the others for a miner to call it a rule"""
    margin: float = confidential(0.3, ge=0, lt=1)
    """share by which the thresholds aimed at may lie below the given ones, drawn anew for each file; with 0 the fewest
    changes show the rule and its threshold to whoever looks for rules that just fail"""
    columns: Columns = ()
    """columns whose values are items; without it, all that hold sets or categories, identifiers aside"""
    missing: Literal["wildcard", "category"] = "wildcard"
    """how a missing cell counts: as whatever makes a rule strongest, or as no item"""
    max_items: int = Field(3, ge=2, le=6)
    """size of the rules whose loss or appearance is counted"""

    random: ClassVar[bool] = True
    by_group: ClassVar[bool] = True
    purpose: ClassVar[Purpose] = "blur groups"
    effect: ClassVar[str] = (
        "The relations that were hidden cannot be found any more; shares of the items concerned are too small."
    )
    guarantee: ClassVar[str] = (
        "Some items were taken out or replaced so that certain relations between items cannot be found by mining; "
        "people are not protected by this step."
    )

    def fit(self, data: Dataset, ctx: Context) -> Decision:
        """Find the fewest changes, and draw the records that get them."""
        items = items_of(data, self.columns, self.kind)
        items.check(self.rules, self.kind)
        thresholds = RuleThresholds(self.min_support, self.min_confidence)
        ctx.progress(0, 3, f"{ctx.step}: fewest changes")
        lower = 1 - self.margin * ctx.within("margin").rng.random(2)
        aimed = RuleThresholds(self.min_support * lower[0], self.min_confidence * lower[1])
        kinds = _Kinds.of(items, self.rules, aimed, wild=self.missing == "wildcard")
        changes, proven = kinds.fewest_changes()
        rows = kinds.draw_rows(changes, ctx.rng)
        ctx.progress(1, 3, f"{ctx.step}: other rules")
        after = items.of(self._without(data, items, rows, ctx))
        found = [set(mine(one, thresholds, self.max_items, ctx.progress)) for one in (items, after)]
        ctx.progress(3, 3, ctx.step)
        told = {
            "changed_items": sum(map(len, rows.values())),
            "proven": proven,
            "lost_rules": len(found[0] - found[1] - set(self.rules)),
            "ghost_rules": len(found[1] - found[0]),
            "hidden": {str(rule): _told(items, after, rule) for rule in self.rules},
        }
        return Decision(MappingProxyType({**told, "rows": rows}))

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Take the items out."""
        return self._without(data, items_of(data, self.columns, self.kind), decision["rows"], ctx)

    def _without(self, data: Dataset, items: Items, rows: Mapping[str, Sequence[int]], ctx: Context) -> Dataset:
        """Take items out of sets and replace values; records that are not named stay to the letter."""
        import polars as pl

        rng = ctx.within("values").rng
        named = {item for rule in self.rules for item in rule.items}
        changes: dict[str, dict[str, Sequence[int]]] = {}
        for item in sorted(rows):
            changes.setdefault(items.column_of(item), {})[item] = rows[item]
        made: dict[str, Any] = {}
        for column, of_column in changes.items():
            series = data.frame[column]
            values = series.to_list()
            if column in items.sets:
                touched = sorted({row for places in of_column.values() for row in places})
                sets = {row: list(one) for row, one in zip(touched, as_lists(series[touched]).to_list(), strict=True)}
                for item, places in of_column.items():
                    for row in places:
                        sets[row] = [one for one in sets[row] if one != items.value_of(item)]
                for row, one in sets.items():
                    values[row] = "|".join(one) if series.dtype == pl.String else one
            else:
                donors = _donors(items, column, named)
                for places in of_column.values():
                    for row in places:
                        values[row] = series[int(rng.choice(donors(row)))]
            made[column] = pl.Series(column, values, dtype=series.dtype)
        return data.with_columns(made)


def _told(before: Items, after: Items, rule: AssociationRule) -> dict[str, list[float]]:
    """Give support and confidence of a rule, before and after."""
    strengths = [items.strength(rule, "category") for items in (before, after)]
    return {"support": [one.support for one in strengths], "confidence": [one.confidence for one in strengths]}


def _donors(items: Items, column: str, named: Container[str]) -> Callable[[int], Ints]:
    """Give, for a record, those whose value of a column can replace its own: no rule names it, and the rest agrees.

    The records that agree in all the other columns of items, or else in as many of the first ones as possible.
    """
    coded = items.data.codes(column)
    free = np.array([value is not None and items.name(column, canonical(value)) not in named for value in coded.values])
    giving = np.flatnonzero(free[coded.codes]) if len(free) else np.zeros(0, np.int64)
    if not len(giving):
        raise Infeasible(
            f"hide-rules: every value of {column!r} stands in a rule to hide, so none can replace another; "
            "leave rules out, or generalize the column"
        )
    others = [name for name in items.columns if name != column and name not in items.sets]
    tried = [items.data.classes(others[:size]).ids for size in range(len(others), 0, -1)]
    sorted_by = [(ids, giving[np.argsort(ids[giving], kind="stable")]) for ids in tried]

    def find(row: int) -> Ints:
        for ids, order in sorted_by:
            low, high = np.searchsorted(ids[order], [ids[row], ids[row] + 1])
            if high > low:
                return order[low:high]
        return giving

    return find


@dataclass(frozen=True)
class _Kinds:
    """Records that have, and may have, the same items of the rules, as bits; mining sees only their numbers."""

    names: tuple[str, ...]
    held: tuple[int, ...]
    unknown: tuple[int, ...]
    """items whose cell is missing"""
    counts: Ints
    kind_of: Ints
    """the kind of each record"""
    whole: tuple[int, ...]
    """the items of each rule as bits"""
    given: tuple[int, ...]
    least: int
    """records that a frequent set needs"""
    confidence: float

    @classmethod
    def of(cls, items: Items, rules: Sequence[AssociationRule], thresholds: RuleThresholds, *, wild: bool) -> Self:
        """Sort the records into kinds."""
        names = tuple(sorted({item for rule in rules for item in rule.items}))
        if len(names) > 62:
            raise PlanError(f"hide-rules: the rules name {len(names)} items; hide rules of at most 62 items at once")
        bit = {item: 1 << place for place, item in enumerate(names)}
        packed = np.zeros((len(items.data), 2), dtype=np.int64)
        for item in names:
            packed[:, 0] |= items.has(item) * np.int64(bit[item])
            if wild:
                packed[:, 1] |= items.lacks_value(item) * np.int64(bit[item])
        masks, kind_of, counts = np.unique(packed, axis=0, return_inverse=True, return_counts=True)
        return cls(
            names,
            tuple(masks[:, 0].tolist()),
            tuple(masks[:, 1].tolist()),
            counts.astype(np.int64),
            kind_of.reshape(-1).astype(np.int64),
            tuple(sum(bit[item] for item in rule.items) for rule in rules),
            tuple(sum(bit[item] for item in rule.given) for rule in rules),
            thresholds.least(len(items.data)),
            thresholds.confidence,
        )

    def _outcome(self, kind: int, gone: int) -> tuple[int, int]:
        """Tell, as bits over the rules, which a record may have wholly and of which it counts among the given."""
        left = self.held[kind] & ~gone
        possible = left | self.unknown[kind]
        both = sum(1 << rule for rule, whole in enumerate(self.whole) if whole & ~possible == 0)
        return both, both | sum(1 << rule for rule, given in enumerate(self.given) if given & ~left == 0)

    def fewest_changes(self) -> tuple[Changes, bool]:
        """Give how many records of each kind lose which items, and whether no way needs fewer."""
        quick = self._greedily()
        if not quick:
            return quick, True
        options = [self._options(kind) for kind in range(len(self.held))]
        listed = [(kind, gone) for kind, ways in enumerate(options) if ways is not None for gone in ways]
        if None in options or len(listed) > MOST_OPTIONS:
            return quick, False
        best, proven = self._program(listed)
        return (best, proven) if best is not None and _cost(best) <= _cost(quick) else (quick, False)

    def _excess(self, state: Changes) -> dict[int, int]:
        """Give the rules that are found, with the number of records that must lose them (what is given untouched)."""
        found: dict[int, int] = {}
        outcomes = {key: self._outcome(*key) for key in state}
        for rule, given in enumerate(self.given):
            both, having = (
                sum(count for key, count in state.items() if outcomes[key][side] >> rule & 1) for side in (0, 1)
            )
            most = max(self.least - 1, ceil(self.confidence * having - _MARGIN) - 1 if given else 0)
            if both > most:
                found[rule] = both - most
        return found

    def _greedily(self) -> Changes:
        """Take out one item after the other, always the one that weakens most rules and strengthens fewest."""
        state: Changes = {(kind, 0): int(count) for kind, count in enumerate(self.counts)}
        while excess := self._excess(state):
            rule = next(iter(excess))
            ways = [
                (self._benefit(key, bit, excess), -(self.given[rule] & bit), -key[0], -key[1], -bit)
                for key in state
                if self._outcome(*key)[0] >> rule & 1
                for bit in _bits(self.whole[rule] & self.held[key[0]] & ~key[1])
            ]
            if not ways:
                raise Infeasible(
                    "hide-rules: missing cells alone may make a rule to hide strong; fill or suppress nothing in its "
                    "columns before this step, or count missing cells as no item (`missing: category`)"
                )
            *_, kind, gone, bit = (-part for part in max(ways))
            moved = min(state[kind, gone], excess[rule])
            state[kind, gone | bit] = state.get((kind, gone | bit), 0) + moved
            state[kind, gone] -= moved
            if not state[kind, gone]:
                del state[kind, gone]
        return {key: count for key, count in state.items() if key[1]}

    def _benefit(self, key: tuple[int, int], bit: int, rules: Iterable[int]) -> int:
        before, after = self._outcome(*key), self._outcome(key[0], key[1] | bit)
        weaker, stronger = before[0] & ~after[0], (before[1] & ~before[0]) & ~after[1]
        return sum((weaker >> rule & 1) - (stronger >> rule & 1) for rule in rules)

    def _options(self, kind: int) -> list[int] | None:
        """List the sets of items worth taking out of a kind, nothing first; None where they are too many."""
        useful = 0
        for rule, whole in enumerate(self.whole):
            useful |= whole & self.held[kind] if self._outcome(kind, 0)[0] >> rule & 1 else 0
        bits = _bits(useful)
        if len(bits) > MOST_ITEMS:
            return None
        ways: list[tuple[int, int, int]] = []
        for gone in map(sum, chain.from_iterable(combinations(bits, size) for size in range(len(bits) + 1))):
            both, having = self._outcome(kind, gone)
            if not any(b & ~both == 0 and having & ~h == 0 for b, h, _ in ways):
                ways.append((both, having, gone))
        return [gone for *_, gone in ways]

    def _program(self, listed: Sequence[tuple[int, int]]) -> tuple[Changes | None, bool]:
        """Choose by integer program how many records of each kind lose which items."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        n, rules = len(listed), len(self.whole)
        outcomes = [self._outcome(*key) for key in listed]
        kinds = csr_array((np.ones(n), ([kind for kind, _ in listed], np.arange(n))), shape=(len(self.held), n + rules))
        upper, rows = [], []
        for rule, given in enumerate(self.given):
            both, having = (np.array([one[side] >> rule & 1 for one in outcomes], dtype=np.float64) for side in (0, 1))
            loose = float(self.counts.sum()) + 1
            by_confidence = loose * (np.arange(rules) == rule)
            rows.append(np.concatenate([both, -by_confidence if given else 0 * by_confidence]))
            upper.append(self.least - 1.0)
            if given:
                rows.append(np.concatenate([both - self.confidence * having, by_confidence]))
                upper.append(loose - _MARGIN)
        found = milp(
            np.array([gone.bit_count() for _, gone in listed] + [0] * rules, dtype=np.float64),
            integrality=np.ones(n + rules, dtype=np.int64),
            bounds=Bounds(np.zeros(n + rules), np.concatenate([self.counts[[k for k, _ in listed]], np.ones(rules)])),
            constraints=[
                LinearConstraint(kinds, self.counts, self.counts),
                LinearConstraint(csr_array(np.array(rows)), -np.inf, np.array(upper)),
            ],
            options={"node_limit": MOST_NODES, "mip_rel_gap": 0.0},
        )
        if found.x is None:
            return None, False
        state = dict(zip(listed, np.round(found.x[:n]).astype(int).tolist(), strict=True))
        return (
            (None, False) if self._excess(state) else ({k: c for k, c in state.items() if k[1] and c}, not found.status)
        )

    def draw_rows(self, changes: Changes, rng: np.random.Generator) -> dict[str, list[int]]:
        """Draw the records of each kind that lose items; gives the rows of each item."""
        rows: dict[str, list[int]] = {}
        for kind in sorted({kind for kind, _ in changes}):
            drawn = rng.permutation(np.flatnonzero(self.kind_of == kind))
            start = 0
            for gone in sorted(gone for one, gone in changes if one == kind):
                stop = start + changes[kind, gone]
                for bit in _bits(gone):
                    rows.setdefault(self.names[bit.bit_length() - 1], []).extend(drawn[start:stop].tolist())
                start = stop
        return {item: sorted(rows[item]) for item in sorted(rows)}


Changes = dict[tuple[int, int], int]
"""How many records of a kind lose the items of a set of bits."""


def _cost(changes: Changes) -> int:
    return sum(gone.bit_count() * count for (_, gone), count in changes.items())


def _bits(mask: int) -> list[int]:
    return [1 << place for place in range(mask.bit_length()) if mask >> place & 1]
