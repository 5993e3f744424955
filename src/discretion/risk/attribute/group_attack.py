"""What a group gives away about its members, to strangers and to members, and an exact weight about its record (R8)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.codes import add_counts
from discretion.data.dataset import Dataset
from discretion.engines.scan import Scan
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.kernels.classes import class_ids
from discretion.kernels.order import count_between
from discretion.learning.columns import code_together, exact_numbers, text_of
from discretion.measure import RiskShare, Score, align, as_percent, source_of
from discretion.part import Columns, Scale
from discretion.risk.identity.uniqueness import said, warning


class WeightDisclosure(RiskShare, kind="weight-disclosure"):
    """Share of records of which the published weight tells a stratum, an area or another quasi-identifier.

    Weights come from the sampling design: everybody of one stratum has the same. Whoever knows which weight belongs to
    which area (from the design's documentation, or from one acquaintance) reads the original area from a record whose
    published area was generalized. The attack guesses, for each record, the most frequent original value among the
    *other* records with the same published weight and the same published value of the column, where it is published
    (ties at random; where nobody else has both: the most frequent value of those with the same published value), which
    is what somebody with an example of each weight can do. The chance level is the most frequent original value of
    those with the same published value: what everybody can do without the weight. The value belongs to the column that
    gains most; the detail has every column. A column published as it is has nothing left to tell: share and chance 1.

    Does not see weights in combination with other columns. Rounded or grouped weights tell less: run it after. Where
    rows cannot be matched, the original's own weights are used without the published values, as long as the published
    weights are among them. Missing values are values of their own. Time O(n log n), memory linear.

    References
    ----------
    de Waal & Willenborg (1997), Statistical disclosure control and sampling weights, JOS 13(4); catalogue R8.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> people = pl.DataFrame({"area": ["n", "n", "n", "s", "s", "s"], "w": [10.5, 10.5, 10.5, 7.25, 7.25, 7.25]})
    >>> published = people.with_columns(pl.lit("*").alias("area"))
    >>> dc.WeightDisclosure(weight="w", columns=["area"])(people, published).value
    1.0
    """

    weight: str = ""
    """column of published weights; without it, the one whose role is `weight`"""
    columns: Columns = ()
    """original columns to guess; without it, those with the roles quasi, geography and stratum"""

    aligned: ClassVar[bool] = False

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Guess each column from the weight."""
        weight = self.weight or _only(original.having("weight"), self.kind)
        released.require([weight])
        known, matched, published = self._tables(original, released, weight)
        columns = self.columns or known.having("quasi", "geography", "stratum")
        if not columns:
            raise PlanError(f"{self.kind}: no column to guess; name `columns`, or give roles")
        known.require(columns)
        coded = published.codes(weight)
        found: dict[str, tuple[Floats, float]] = {}
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), f"{self.kind}: {name}")
            shown = published.codes(name).codes if matched and name in published.columns else np.zeros(len(known))
            found[name] = _right(coded.codes, shown, known.codes(name).codes)
        best = max(found, key=lambda name: _gain(float(found[name][0].mean()), found[name][1]))
        right, chance = found[best]
        value = float(right.mean())
        detail: dict[str, Any] = {
            "target": best,
            "columns": list(columns),
            "weight": weight,
            "chance": chance,
            "records": len(right),
            "different_weights": len(np.unique(coded.codes)),
            "per_column": {
                name: {"share": float(one.mean()), "chance": guessed} for name, (one, guessed) in found.items()
            },
        }
        meaning = (
            f"The published weight tells {best!r} of {as_percent(value)} of the records (guessing: "
            f"{as_percent(chance)})."
            if value > chance
            else "The published weight tells no column better than guessing does."
        )
        return self.score(
            value,
            meaning,
            per_record=right if matched else None,
            **detail,
        )

    def _tables(self, original: Dataset, released: Dataset, weight: str) -> tuple[Dataset, bool, Dataset]:
        """Give the data that has the true values and the data that has the weights, row by row the same people."""
        source = original if original is released else source_of(original, released)
        if source is not None:
            return source, True, released
        original.require([weight])
        if not set(released.frame[weight].drop_nulls()) <= set(original.frame[weight].drop_nulls()):
            raise DataError(
                f"{self.kind}: the weights were changed and nothing tells which rows belong together; name an id column"
            )
        return original, False, original


def _only(found: tuple[str, ...], kind: str) -> str:
    if len(found) != 1:
        raise PlanError(f"{kind}: {len(found)} columns have the role weight; name one as `weight`")
    return found[0]


def _right(weights: NDArray[Any], shown: NDArray[Any], values: NDArray[Any]) -> tuple[Floats, float]:
    """Give each record the probability that the guess from weight and published value is its own; and the chance level.

    Guessed is the most frequent value among the others of the same weight and published value.
    """
    weights, shown, values = (
        np.unique(codes, return_inverse=True)[1].astype(np.int64) for codes in (weights, shown, values)
    )
    size, published = int(values.max()) + 1, int(shown.max()) + 1
    pairs = class_ids([shown, values], [published, size])
    of_pair, most = shown[pairs.first_row], np.zeros(published, np.int64)
    np.maximum.at(most, of_pair, pairs.counts)
    is_usual = pairs.counts == most[of_pair]
    usual = is_usual / np.bincount(of_pair, is_usual)[of_pair]
    together = class_ids([weights, shown], [int(weights.max()) + 1, published])
    cells = class_ids([together.ids, values], [len(together.counts), size])
    group, counts = together.ids[cells.first_row].astype(np.int64), cells.counts
    order = np.lexsort((-counts, group))
    ranked, first = counts[order], np.searchsorted(group[order], np.arange(len(together.counts)))
    largest = ranked[first]
    at_top = np.bincount(group, counts == largest[group]).astype(np.int64)
    several = np.bincount(group) > 1
    second = np.where(several, np.append(ranked, 0)[first + 1], 0)
    at_second = np.bincount(group, counts == second[group]).astype(np.int64)
    is_top = counts == largest[group]
    leads = is_top & (at_top[group] == 1)  # without this record the others of its value meet the second of the group
    rival = np.where(leads, second[group], largest[group])
    rivals = np.where(leads, at_second[group], at_top[group] - is_top)
    others = counts - 1
    right = np.where(others > rival, 1.0, np.where((others == rival) & (others > 0), 1.0 / (1 + rivals), 0.0))
    alone = together.counts[group] == 1
    right = np.where(alone, usual[pairs.ids[cells.first_row]], right)
    return right[cells.ids], float(most.sum() / len(values))


def _gain(share: float, chance: float) -> float:
    return 0.0 if chance >= 1 else (share - chance) / (1 - chance)


# What somebody learns about a member of a group from what is published about the group.

ROUNDING = 1e-9
"""What counts as equal, as a part of the sum of a group."""


class Near(NamedTuple):
    """The published values of a record's group that lie near its true value."""

    members: Ints
    own: Bools
    """the record's own published value is among them"""


def near_categories(groups: Ints, true: Ints, published: Ints, records: Ints | None = None) -> Near:
    """Count the members whose published category is a record's true one; −1 is missing and near nothing.

    `records`: how many records each row stands for.
    """
    wanted = np.where(true < 0, np.nan, true)
    count = count_between(groups, np.where(published < 0, np.nan, published), wanted, wanted, records)
    return Near(count, (true == published) & (true >= 0))


def near_numbers(groups: Ints, true: Floats, published: Floats, percent: float, records: Ints | None = None) -> Near:
    """Count the members whose published number lies within `percent` of a record's true one. Time O(n log n).

    Where values lie far from zero and close together, as years do, it is `percent` of how far they lie apart.
    `records`: how many records each row stands for.
    """
    half = percent / 100 * _scale(true, records)
    low, high = true - half, true + half
    count = count_between(groups, published, low, high, records)
    return Near(count, (published >= low) & (published <= high))


_FAR = 10
"""Numbers whose median lies more than so many times as far from zero as they lie apart are no amounts."""


def _scale(values: Floats, records: Ints | None) -> Floats:
    """Return what a percentage of each value refers to: the value, or how far values lie apart if that is far less."""
    if np.isnan(values).all():
        return values
    low, median, high = _quantiles(values, records, [0.05, 0.5, 0.95])
    if abs(median) <= _FAR * (high - low) or low == high:
        return np.abs(values)
    return np.asarray(np.maximum(high - low, np.abs(values - median)))


def _quantiles(values: Floats, records: Ints | None, shares: list[float]) -> Floats:
    """Give quantiles of the values present, each of which counts for so many records."""
    if records is None:
        return np.asarray(np.nanquantile(values, shares))
    order = np.argsort(values)[: int((~np.isnan(values)).sum())]
    upto = np.cumsum(records[order])
    found = []
    for share in shares:
        place = (upto[-1] - 1) * share
        ends = np.minimum([math.floor(place), math.floor(place) + 1], upto[-1] - 1)
        pair = values[order[np.searchsorted(upto, ends, side="right")]]
        found.append(float(np.quantile(pair, place - math.floor(place))))
    return np.array(found)


def certainty(near: Near, sizes: Ints, coalition: int) -> Floats:
    """Give the share of values near the true one, after a coalition has taken its own values out of the group.

    The coalition is the worst one: members, other than the victim, whose values are not near.
    """
    removable = sizes - near.members - ~near.own
    return np.asarray(near.members / (sizes - np.minimum(coalition, removable)))


class GroupBounds(NamedTuple):
    """What follows from the total of a group for each member's contribution, when the worst coalition helps."""

    rest: Ints
    """members that are neither the victim nor in the coalition"""
    below: Floats
    """lowest possible contribution minus the true one; −inf where nothing bounds it"""
    above: Floats
    """highest possible contribution minus the true one; inf where nothing bounds it"""


def bounds_from_total(
    groups: Ints,
    values: Floats,
    totals: Floats,
    weights: Floats,
    coalition: int,
    limits: tuple[float | None, float | None],
) -> GroupBounds:
    """Bound each member's contribution (weight times value) from above and below.

    `totals` is the published total of each group. The victim's contribution is the total less what the coalition
    knows to be its own less what the others have; each of these has at least limits[0] and at most limits[1] times
    its weight. The worst coalition for the upper bound are those with the most above the lower limit, for the lower
    bound those with the most below the upper limit. Time O(n log n + groups · coalition).
    """
    sizes = np.bincount(groups, minlength=totals.size)
    error = (totals - np.bincount(groups, weights * values, totals.size))[groups]
    rest = np.maximum(sizes[groups] - 1 - coalition, 0)
    low, high = limits
    above = np.full(values.size, np.inf) if low is None else _left_over(groups, weights * (values - low), coalition)
    below = np.full(values.size, np.inf) if high is None else _left_over(groups, weights * (high - values), coalition)
    none = rest == 0
    return GroupBounds(rest, error - np.where(none, 0.0, below), error + np.where(none, 0.0, above))


def _left_over(groups: Ints, amounts: Floats, coalition: int) -> Floats:
    """Sum the amounts of the other members of a record's group, without the `coalition` largest of them."""
    order = np.lexsort((-amounts, groups))
    ranked = amounts[order]
    sizes = np.bincount(groups)
    starts = np.cumsum(sizes) - sizes
    place = np.empty(groups.size, np.int64)
    place[order] = np.arange(groups.size) - starts[groups[order]]
    largest = np.zeros(sizes.size)
    taken = min(coalition, int(sizes.max(initial=0)))
    for number in range(taken):
        has = sizes > number
        largest[has] += ranked[starts[has] + number]
    following = np.zeros(sizes.size)
    has = sizes > taken
    following[has] = ranked[starts[has] + taken]
    inside = place < taken
    known = np.where(inside, (largest + following)[groups] - amounts, largest[groups])
    return np.asarray(np.maximum(np.bincount(groups, amounts, sizes.size)[groups] - amounts - known, 0.0))


# Value agreement: how often is the published value simply the true one? (R4)


class AgreementCounts(NamedTuple):
    """One column of a release compared with the original."""

    agree: Bools
    counted: Bools
    chance: float
    """probability that two people drawn from the original agree: Σ p²"""
    chance_released: float
    """probability that the true value of one person agrees with the published one of another: Σ p·p'"""


class ValueAgreement(RiskShare, kind="value-agreement"):
    """Share of values that the release shows as they are in the original.

    For each column the share of records x with V(x) = V'(x) stands beside its chance level Σ p², the probability that
    two people drawn from the original agree: a column in which nearly everybody has the same value agrees often and
    tells nothing. Several columns are averaged; `per_record` is the share of a record's values that agree. The detail
    has for each column the share, the chance level, the same for a value drawn from the release (Σ p·p'), and the
    excess (share − chance)/(1 − chance): 0 is no better than chance, 1 is full agreement.

    A value missing in the release counts as different, one missing in the original is left out. A generalized value
    counts as different, though it may tell as much: `GroupAttack` and `ModelDisclosure` look at what can be inferred.
    Time O(n log n).

    References
    ----------
    Standard attribute disclosure rate; catalogue R4.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> true, released = pl.DataFrame({"job": list("aabb")}), pl.DataFrame({"job": list("aaba")})
    >>> score = dc.ValueAgreement(columns=["job"])(true, released)
    >>> score.value, score.detail["chance"]
    (0.75, 0.5)
    """

    columns: Columns = ()
    """columns to compare; without it, the sensitive columns, or all but identifiers where there are none"""
    tolerance: float = Field(0.0, ge=0)
    """numbers agree when they differ by at most this"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Compare every value with its own record's."""
        columns = original.choose(self.columns or original.having("sensitive"), "compare")
        released.require(columns)
        found: dict[str, AgreementCounts] = {}
        for number, name in enumerate(columns):
            ctx.progress(number, len(columns), f"{self.kind}: {name}")
            found[name] = compare_column(original, released, name, self.tolerance)
            if not found[name].counted.any():
                raise DataError(f"{self.kind}: column {name!r} has no values in the original; nothing can agree")
        per_column = {name: float(one.agree[one.counted].mean()) for name, one in found.items()}
        chances = {name: one.chance for name, one in found.items()}
        value, chance = float(np.mean(list(per_column.values()))), float(np.mean(list(chances.values())))
        counted = np.sum([one.counted for one in found.values()], axis=0)
        agreed = np.sum([one.agree & one.counted for one in found.values()], axis=0)
        return self.score(
            value,
            f"{as_percent(value)} of the values are published as they are ({as_percent(chance)} would be by chance).",
            per_record=np.where(counted > 0, agreed / np.maximum(counted, 1), np.nan),
            chance=chance,
            per_column=per_column,
            chance_per_column=chances,
            chance_released={name: one.chance_released for name, one in found.items()},
            excess={name: _excess(per_column[name], chances[name]) for name in columns},
            values_compared=int(counted.sum()),
            values_hidden={name: _hidden(released, name, one.counted) for name, one in found.items()},
        )


def _hidden(released: Dataset, name: str, counted: Bools) -> int:
    """Count the values that are missing in the release and not in the original."""
    codes = released.codes(name)
    return int(((codes.codes == codes.missing) & counted).sum()) if codes.missing >= 0 else 0


def _excess(share: float, chance: float) -> float:
    """Give the part of the way from chance to full agreement; 0 for a constant column, which tells nothing."""
    return (share - chance) / (1 - chance) if chance < 1 else 0.0


def compare_column(original: Dataset, released: Dataset, name: str, tolerance: float = 0.0) -> AgreementCounts:
    """Compare one column of the release with the original, record by record."""
    if original.is_numeric(name) and released.is_numeric(name):
        true, published = exact_numbers([original, released], name)
        return _compare_numbers(true, published, tolerance)
    (true_codes, published_codes), labels = code_together([original, released], name, by_text=False)
    counted = true_codes >= 0
    p = np.bincount(true_codes[counted], minlength=len(labels)) / max(int(counted.sum()), 1)
    q = np.bincount(published_codes[published_codes >= 0], minlength=len(labels)) / published_codes.size
    return AgreementCounts((true_codes == published_codes) & counted, counted, float(p @ p), float(p @ q))


def _compare_numbers(true: Floats, published: Floats, tolerance: float) -> AgreementCounts:
    agree = np.abs(true - published) <= tolerance
    counted = ~np.isnan(true)
    ranked = np.sort(true[counted])
    total = max(ranked.size, 1)

    def within(values: Floats) -> int:
        """Count the pairs of a true value and one of `values` that agree."""
        last = np.searchsorted(ranked, values + tolerance, side="right")
        return int((last - np.searchsorted(ranked, values - tolerance, side="left")).sum())

    shown = np.sort(published[~np.isnan(published)])
    return AgreementCounts(agree, counted, within(ranked) / total**2, within(shown) / (total * published.size))


class _Learnt(NamedTuple):
    """One sensitive column attacked: for each record, whether it is learnt and whether it counts."""

    learnt: Bools
    counted: Bools
    by_chance: Bools
    """learnt with the whole table as the only group, or right by naming the most frequent value for everybody"""
    detail: dict[str, Any]
    anyway: Bools
    """learnt with the whole table as the only group: what is certain without the groups"""
    almost: Bools | None = None
    """almost certain: `ALMOST` of the values of the group are the true one; None where that is no other question"""


_WORK = 4
"""How many times the columns that it reads the attack needs of memory, where it looks at rows."""
ALMOST = 0.95
"""Share of a group's values that is told beside what is certain: whoever names it is hardly ever wrong."""


class _CannotLearn(DataError):
    """A sensitive column that cannot be attacked, while others may."""


class GroupAttack(RiskShare, kind="group-attack"):
    """Share of people whose sensitive value is learnt from the group they are known to be in.

    A group is the records that agree on `columns` in the release: an equivalence class, a microaggregated cluster, a
    cell of a table. `coalition=0` is the external attack by a stranger who knows which group the victim is in;
    `coalition=c` the internal one, in which c other members of the group put together what they know of themselves and
    subtract it. The coalition is the worst one for each victim; where a group has fewer others, all of them.

    With `published="values"` the sensitive values of a group's members are published, but not whose is whose (classes).
    A value is learnt when, after the coalition has taken its own values out, at least `share` of those left are the
    true one: with share 1 and no coalition these are the homogeneous classes. Numbers also count when they lie within
    `percent` of the true one; of years and other numbers far from zero, within `percent` of how far the column's values
    lie apart (nine tenths of all, or the value and the median if that is more). With `published="total"` only the sum
    of a group is published, or its mean and size (clusters, cells of magnitude tables). Everybody's value lies between
    `lower` and `upper`, so the total less what the coalition knows bounds the victim's value; it is learnt when a bound
    lies within `percent` of the true value: exactly, when nobody else is left. With a coalition of one and `lower=0`
    this is the p percent rule, for every contributor.

    The detail has the share for each column, what guessing reaches (`chance`: the most frequent value named for
    everybody, and what the whole table as the only group tells; `certain_by_chance`: the latter alone, since a guess is
    never certain), the share of the most frequent value (`majority`), the
    number of groups and of those in which everybody is learnt, with share 1 who is learnt almost for certain
    (`almost_certain`: 95% of the values left are the true one, and not of the whole table anyway), and for totals the
    number of records that nobody else is left beside and the mean width of the intervals. `per_record` tells who is
    learnt in any column. Values missing in the original are left out; a value missing in the release is never near
    another, and a record without it takes no part in totals. A column that was generalized to one level of its
    hierarchy is learnt at that level; without the hierarchy, or at several levels, a generalized value is never near
    another. A sensitive column of which no value is left as it was otherwise, or that has no values, is not attacked
    and named (`left_out`); where there is no other, the attack is refused.

    Where a step that searched for classes dropped those that break a model of the sensitive column (l-diversity,
    t-closeness), the gap tells: a class of k people or more (or as many as the smallest published one), whom a register
    shows and the release does not, can only have broken that model. Its people count as learnt where they all have one
    value; the detail has them as `dropped`.

    With `truth: released` the published values are taken as true, so that the release alone is enough: it tells what
    somebody believes to have learnt, also where rows cannot be matched or records were suppressed.

    Does not see inference across groups or tables, from several releases, or by models (`ModelDisclosure`). Time
    O(n log n), and for totals the number of groups times the coalition; memory linear.

    References
    ----------
    Machanavajjhala et al. (2007), l-Diversity, TKDD 1(1); Hundepool et al. (2012), Statistical Disclosure Control,
    ch. 4; catalogue R8.

    Examples
    --------
    >>> import discretion as dc
    >>> table = dc.datasets.diverse_classes()
    >>> outside, inside = dc.GroupAttack(coalition=0), dc.GroupAttack(coalition=1)
    >>> outside(table, table).value, round(inside(table, table).value, 4)
    (0.0, 0.3333)
    """

    columns: Columns = ()
    """columns whose values make the groups; without it, the quasi-identifiers"""
    sensitive: Columns = ()
    """columns to learn; without it, the sensitive ones"""
    coalition: int = Field(0, ge=0)
    """members of a group who attack another one together; 0 is an attack from outside"""
    published: Literal["values", "total"] = "values"
    """what is published of a group: the members' values without their names, or only their total (or mean)"""
    percent: float = Field(0.0, ge=0)
    """a number is learnt when it is estimated within this percentage of its true value"""
    share: float = Field(1.0, gt=0, le=1)
    """certainty that counts as learning: share of the values left that must be near the true one (values)"""
    lower: float | None = 0.0
    """smallest value that everybody knows to be possible (total); none when empty"""
    upper: float | None = None
    """largest value that everybody knows to be possible (total); none when empty"""
    weight: str | None = None
    """column of weights with which values enter the total"""
    missing: Literal["category", "ignore"] = "category"
    """how a missing value in `columns` counts: as a category of its own, or by leaving its record out"""
    truth: Literal["original", "released"] = "original"
    """whose values count as true: the original's (rows must match), or the published ones (the release is enough)"""

    scale: ClassVar[Scale] = "classes"

    @model_validator(mode="after")
    def _consistent(self) -> GroupAttack:
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise ValueError("`lower` must be less than `upper`")
        if self.weight is not None and self.published == "values":
            raise ValueError('`weight` is for `published="total"` only')
        return self

    def run(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Attack the release; with `truth: released` it needs nothing else."""
        if isinstance(released, Scan):
            first = original if isinstance(original, Scan) else released.original
            by_classes = len(released) and self._by_classes(first, released)
            return self._over_classes(released, ctx) if by_classes else self._over_rows(original, released, ctx)
        score = super().run(released if self.truth == "released" else original, released, ctx)
        if self.coalition or self.published == "total" or self.truth == "released" or released.copy_column is not None:
            return score
        told = _told_by_dropping(original, released, score.detail["columns"], tuple(score.detail["per_column"]))
        return score if told is None else _with_dropped(score, told, original.records - released.records)

    def refuse_scan(self, original: Scan, released: Scan) -> str:
        """Say why all records that stay in their files cannot be attacked; empty where they can."""
        if self._by_classes(original, released):
            return ""
        short = original.too_large(released, self.reads(original, released), _WORK)
        return f"{self.kind}: {short}" if short else ""

    def _by_classes(self, original: Scan, released: Scan) -> bool:
        """Tell whether classes with their values are enough: these are true, and no class tells by its gap."""
        if self.published == "total" or self.truth == "released":
            return self.published == "values"
        if released.lost_records and not self.coalition and _dropped_by_values(released):
            return False
        secrets = set(self.sensitive or original.having("sensitive"))
        return released.original is original.original and not any(step.touched & secrets for step in released.pending)

    def counts_with(self, released: Dataset) -> tuple[str, ...]:
        """Name the columns to learn."""
        return self._secrets(released, released, released.choose(self.columns, "classes"))

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Attack every member of every group."""
        columns = released.choose(self.columns, "classes")
        secrets = self._secrets(original, released, columns)
        groups, kept = self._groups(released, columns)
        found: dict[str, _Learnt] = {}
        left_out: dict[str, str] = {}
        for number, name in enumerate(secrets):
            ctx.progress(number, len(secrets), f"{self.kind}: {name}")
            attack = self._attack_total if self.published == "total" else self._attack_values
            try:
                found[name] = attack(original, released, name, groups, kept)
            except _CannotLearn as why:
                left_out[name] = str(why)
        if not found:
            raise DataError(f"{self.kind}: {'; '.join(left_out.values())}")
        learnt = np.logical_or.reduce([one.learnt & one.counted for one in found.values()])
        counted = np.logical_or.reduce([one.counted for one in found.values()])
        by_chance = np.logical_or.reduce([one.by_chance & one.counted for one in found.values()])
        known_anyway = np.logical_or.reduce([one.anyway & one.counted for one in found.values()])
        value, chance = released.average(learnt, counted), released.average(by_chance, counted)
        anyway = released.average(known_anyway, counted)
        members = "one other member" if self.coalition == 1 else f"{self.coalition} other members"
        who = "a stranger learns" if self.coalition == 0 else f"{members} can learn"
        warned = warning(original, released, columns) if self.published == "values" else {}
        if self.truth == "released":
            warned = {"warning": "published values are taken as true; of values that were drawn nobody learns so much"}
        certain = self.share == 1 or self.published == "total"
        meaning = (
            f"For {as_percent(value)} of the records {who} a sensitive value from the group{', for certain' * certain} "
            f"(naming the most frequent value for everybody is right for {as_percent(chance)}"
            f"{', and never certain' * (certain and anyway == 0)})."
        )
        almost = [one.almost for one in found.values() if one.almost is not None]
        nearly = released.average(np.logical_or.reduce([learnt, *almost]), counted) if almost else value
        if nearly > value:
            meaning += (
                f" Almost certain (at least {ALMOST:.0%} of the group's values are the true one, of the whole "
                f"table fewer): {as_percent(nearly)}."
            )
        if left_out:
            meaning += f" Not attacked: {'; '.join(left_out.values())}."
        return self.score(
            value,
            said(meaning, warned),
            per_record=learnt,
            columns=list(columns),
            coalition=self.coalition,
            chance=chance,
            **({"certain_by_chance": anyway} if certain else {}),
            **({"almost_certain": nearly} if almost else {}),
            per_column={name: released.average(one.learnt, one.counted) for name, one in found.items()},
            attacks={name: one.detail for name, one in found.items()},
            groups=int(groups[kept].max()) + 1,
            groups_learnt=_full_groups(groups, counted, learnt),
            smallest_group=int(add_counts(groups[kept], _of(released.counts, kept), 0).min()),
            records=released.tally(counted),
            left_out=list(left_out),
            **warned,
        )

    def _secrets(self, original: Dataset, released: Dataset, columns: tuple[str, ...]) -> tuple[str, ...]:
        named = self.sensitive or original.having("sensitive")
        if not named:
            raise PlanError(f"{self.kind}: no column to learn; name `sensitive` or give a column that role")
        original.require(named)
        released.require(named)
        if twice := sorted(set(named) & set(columns)):
            raise PlanError(f"{self.kind}: {', '.join(twice)} cannot be both in `columns` and `sensitive`")
        return tuple(named)

    def _groups(self, released: Dataset, columns: tuple[str, ...]) -> tuple[Ints, Bools]:
        """Number the groups 0, 1, … ; records left out have −1."""
        groups = released.classes(columns).ids
        if self.missing == "category":
            return groups, np.ones(len(released), np.bool_)
        coded = [released.codes(name) for name in columns]
        kept = np.logical_and.reduce([c.codes != c.missing for c in coded])
        if not kept.any():
            raise DataError(f"{self.kind}: every record has a missing value in {', '.join(columns)}; none is left")
        dense = np.full(len(released), -1, np.int64)
        dense[kept] = np.unique(groups[kept], return_inverse=True)[1]
        return dense, kept

    def _attack_values(self, original: Dataset, released: Dataset, name: str, groups: Ints, kept: Bools) -> _Learnt:
        original = _at_published_level(original, released, name)
        numbers = original.is_numeric(name) and released.is_numeric(name)
        numbers = numbers and not (original.is_category(name) and released.is_category(name))
        if numbers:
            x, y = original.number(name), released.number(name)
            counted, shown = ~np.isnan(x) & kept, ~np.isnan(y)
        else:
            (true, published), _ = code_together([original, released], name)
            counted, shown = (true >= 0) & kept, published >= 0
            if shown.any() and not np.isin(published[shown], true).any():
                raise _CannotLearn(
                    f"no value of {name!r} in the release occurs in the original (it was generalized or "
                    "coded anew), so that learning it cannot be told; do the same to the original first"
                )

        _require_values(name, counted)
        records = _of(released.counts, kept)

        def near(of: Ints) -> Near:
            if numbers:
                return near_numbers(of, x[kept], y[kept], self.percent, records)
            return near_categories(of, true[kept], published[kept], records)

        def sure(of: Ints) -> Floats:
            """Give how sure everybody's value is; nothing for records that are left out."""
            shares = np.zeros(len(original))
            shares[kept] = certainty(near(of), add_counts(of, records, 0)[of], self.coalition)
            return shares + ROUNDING

        inside = groups[kept]
        shares, everywhere = sure(inside), sure(np.zeros_like(inside))
        anyway = kept & (everywhere >= self.share)
        almost = kept & counted & (shares >= ALMOST) & (everywhere < ALMOST) if self.share > ALMOST else None
        by_chance = anyway | _is_most_frequent(original, name, counted)
        codes = np.where(shown, released.codes(name).codes.astype(np.int64), -1)
        detail = {
            "chance": released.average(by_chance, counted),
            "majority": released.average(_is_most_frequent(original, name, counted), counted),
            "homogeneous_groups": _homogeneous(inside, codes[kept]),
        }
        return _Learnt(kept & counted & (shares >= self.share), counted, by_chance, detail, anyway, almost)

    def _attack_total(self, original: Dataset, released: Dataset, name: str, groups: Ints, kept: Bools) -> _Learnt:
        if original.is_numeric(name) and not released.is_numeric(name):
            raise _CannotLearn(f"column {name!r} has no numbers in the release, of which totals could be made")
        released.require_rows(f'{self.kind} with `published: "total"`')
        x, y = original.number(name), released.number(name)
        counted = kept & ~np.isnan(x) & ~np.isnan(y)
        _require_values(name, counted)
        weights = np.ones(len(x)) if self.weight is None else original.number(self.weight)
        self._check_limits(name, x[counted], weights[counted])
        x, y, w = x[counted], y[counted], weights[counted]

        def learnt(of: Ints) -> tuple[Bools, Floats, Ints]:
            dense = np.unique(of, return_inverse=True)[1] if of.size else of
            sums: Floats = np.bincount(dense, w * y).astype(np.float64, copy=False)
            bounds = bounds_from_total(dense, x, sums, w, self.coalition, (self.lower, self.upper))
            slack = self.percent / 100 * np.abs(w * x) + ROUNDING * np.bincount(dense, np.abs(w * x))[dense]
            close = (np.abs(bounds.below) <= slack) | (np.abs(bounds.above) <= slack)
            low = -np.inf if self.lower is None else w * (self.lower - x)
            high = np.inf if self.upper is None else w * (self.upper - x)
            width = np.minimum(bounds.above, high) - np.maximum(bounds.below, low)
            return close, width, bounds.rest

        found, width, rest = learnt(groups[counted])
        result = np.zeros(len(original), np.bool_)
        result[counted] = found
        anyway = np.zeros(len(original), np.bool_)
        anyway[counted] = learnt(np.zeros_like(groups[counted]))[0]
        by_chance = anyway | _is_most_frequent(original, name, counted)
        detail = {
            "chance": _mean(by_chance[counted]),
            "majority": _mean(_is_most_frequent(original, name, counted)[counted]),
            "nobody_else_left": int((rest == 0).sum()),
            "mean_interval_share": _mean_share(width, w * x),
        }
        return _Learnt(result, counted, by_chance, detail, anyway)

    def _check_limits(self, name: str, x: Floats, weights: Floats) -> None:
        if np.isnan(weights).any() or (weights < 0).any():
            raise DataError(f"{self.kind}: the weights {self.weight!r} have missing or negative values")
        for limit, beyond, side in (
            (self.lower, x < (self.lower or 0.0), "lower"),
            (self.upper, x > (self.upper or 0.0), "upper"),
        ):
            if limit is not None and beyond.any():
                raise DataError(
                    f"{self.kind}: {int(beyond.sum())} values of {name!r} lie beyond `{side}`, which everybody is "
                    "supposed to know; give another limit, or none"
                )


def _at_published_level(original: Dataset, released: Dataset, name: str) -> Dataset:
    """Give the original with a column at the level of its hierarchy at which the release shows it: that is learnt.

    As it is where the release shows values, labels of several levels or none of the hierarchy's, or one for everybody.
    """
    if original is released or original.schema[name].hierarchy is None:
        return original
    try:
        levels = original.hierarchy(name)
    except DataError:
        return original
    shown = {text_of(value) for value in released.codes(name).values if value is not None}
    level = next((number for number, labels in enumerate(levels.table) if shown <= set(labels)), 0)
    if not level or len(shown) < 2:
        return original
    import polars as pl

    coded = original.codes(name)
    rows = [None if value is None else levels.leaf_index.get(text_of(value)) for value in coded.values]
    labels = [None if row is None else levels.table[level][row] for row in rows]
    return original.with_columns({name: pl.Series(name, labels, pl.String).gather(coded.codes)})


def _require_values(name: str, counted: Bools) -> None:
    if not counted.any():
        raise _CannotLearn(f"column {name!r} has no values to learn")


def _mean(flags: Bools) -> float:
    return float(flags.mean()) if flags.size else 0.0


def _mean_share(width: Floats, contributions: Floats) -> float | None:
    """Give the mean width of the intervals as a share of the range of the contributions; None if it has no bound."""
    span = float(np.ptp(contributions)) if contributions.size else 0.0
    if span == 0 or not np.isfinite(width).all():
        return None
    return float(np.maximum(width, 0.0).mean() / span)


def _is_most_frequent(original: Dataset, name: str, counted: Bools) -> Bools:
    """Tell which records that count have the most frequent true value."""
    codes = original.codes(name).codes
    most = add_counts(codes[counted], _of(original.counts, counted), 0).argmax() if counted.any() else -1
    return np.asarray(counted & (codes == most))


def _of(counts: Ints | None, rows: Bools) -> Ints | None:
    return None if counts is None else counts[rows]


def _homogeneous(groups: Ints, published: Ints) -> int:
    """Count the groups in which all members show the same value; −1 shows none."""
    least, most = np.full((2, int(groups.max()) + 1), -1, np.int64)
    np.maximum.at(most, groups, published)
    least[:] = most
    np.minimum.at(least, groups, published)
    return int(((least == most) & (most >= 0)).sum())


def _dropped_by_values(released: Dataset) -> bool:
    """Tell whether a step that may drop records looked at sensitive columns."""
    models = [model for step in released.steps for model in getattr(step, "models", ())]
    return any(getattr(model, "sensitive", None) for model in models)


def _told_by_dropping(
    original: Dataset, released: Dataset, columns: list[str], secrets: tuple[str, ...]
) -> dict[str, int] | None:
    """Count the people in classes that are missing as a whole although they are large enough, and who share a value.

    None where nothing was dropped, or not by a search that looks at sensitive values; nor where the classes of those
    who are missing cannot be told.
    """
    models = [model for step in released.steps for model in getattr(step, "models", ())]
    if not _dropped_by_values(released) or released.records >= original.records or warning(original, released, columns):
        return None
    sizes_asked = [model.k for model in models if model.kind == "k-anonymity"]
    enough = min([int(released.class_counts(columns).min()), *sizes_asked])
    part, released = align(original, released, "group-attack")
    coded = [_coded_alike(original, part, released, name) for name in columns]
    if any(codes is None for codes in coded):
        return None
    keys = np.column_stack([codes for codes in coded if codes is not None])
    known = np.asarray((keys >= 0).all(axis=1), np.bool_)
    _, numbers = np.unique(keys[known], axis=0, return_inverse=True)
    ids = np.full(len(original), -1, np.int64)
    ids[known] = numbers.reshape(-1)
    kept = known & np.isin(original.row_ids, released.row_ids)
    sizes = add_counts(ids[known], _of(original.counts, known), 0)
    shown = add_counts(ids[kept], _of(original.counts, kept), len(sizes))
    missing = known & (shown[ids] == 0) & (sizes[ids] >= enough)
    told = np.zeros(len(original), np.bool_)
    for name in secrets:
        codes = original.codes(name).codes.astype(np.int64)
        low, high = np.full(len(sizes), np.iinfo(np.int64).max), np.full(len(sizes), -1)
        np.minimum.at(low, ids[known], codes[known])
        np.maximum.at(high, ids[known], codes[known])
        told |= missing & (low == high)[ids]
    return {"people": original.tally(missing), "classes": len(np.unique(ids[missing])), "told": original.tally(told)}


def _coded_alike(original: Dataset, part: Dataset, released: Dataset, name: str) -> Ints | None:
    """Give each record of the original the published label of its value, as a code (−1: it cannot be told).

    Read off the rows that belong together; None where one value has several labels, so that no rule coded it. A value
    that only dropped records have is its own label where all the others are.
    """
    if name not in original.columns:
        return None
    before, after = original.codes(name), released.codes(name)
    index = {value if not isinstance(value, list) else tuple(value): code for code, value in enumerate(before.values)}
    own = part.codes(name)
    keys = [tuple(value) if isinstance(value, list) else value for value in own.values]
    of_value = np.array([index.get(key, -1) for key in keys])  # a code that does not occur stands for nothing
    label = np.full(before.size, -1, np.int64)
    pairs = np.unique(np.column_stack([of_value[own.codes], after.codes]), axis=0)
    if len(np.unique(pairs[:, 0])) < len(pairs):
        return None
    if all(before.values[value] == after.values[code] for value, code in pairs.tolist()):
        label = after.size + np.arange(before.size, dtype=np.int64)
    label[pairs[:, 0]] = pairs[:, 1]
    return np.asarray(label[before.codes])


def _with_dropped(score: Score, told: dict[str, int], gone: int) -> Score:
    """Count the people whose class is missing among those who are learnt."""
    detail = {**score.detail, "dropped": {**told, "records": gone}}
    if not told["told"]:
        return replace(score, detail=detail)
    records = int(score.detail["records"])
    value = (score.value * records + told["told"]) / (records + gone)
    meaning = (
        f"{score.meaning} Of the {gone:,} people who were dropped, {told['told']:,} are in classes that are missing as "
        f"a whole although they are large enough, and share one value: a register tells it. With them the share is "
        f"{as_percent(value)}."
    )
    return replace(score, value=value, meaning=meaning, detail=detail)


def _full_groups(groups: Ints, counted: Bools, learnt: Bools) -> int:
    """Count the groups of which every member that counts is learnt."""
    members = np.bincount(groups[counted])
    return int(((members > 0) & (members == np.bincount(groups[counted & learnt], minlength=members.size))).sum())
