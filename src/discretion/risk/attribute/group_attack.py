"""Attacks on groups: what does the group give away about its members, to strangers and to members? (R8)"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.measure import Better, Measure, Score, align, as_percent
from discretion.part import Columns, Family
from discretion.risk.attribute.agreement import common_codes
from discretion.risk.attribute.group_inference import (
    ROUNDING,
    Near,
    bounds_from_total,
    certainty,
    near_categories,
    near_numbers,
)
from discretion.risk.identity.truthful import said, warning

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class _Learnt(NamedTuple):
    """One sensitive column attacked: for each record, whether it is learnt and whether it counts."""

    learnt: Bools
    counted: Bools
    by_chance: Bools
    """learnt with the whole table as the only group, or right by naming the most frequent value for everybody"""
    detail: dict[str, Any]
    almost: Bools | None = None
    """almost certain: `ALMOST` of the values of the group are the true one; None where that is no other question"""


ALMOST = 0.95
"""Share of a group's values that is told beside what is certain: whoever names it is hardly ever wrong."""


class _CannotLearn(DataError):
    """A sensitive column that cannot be attacked, while others may."""


class GroupAttack(Measure, kind="group-attack"):
    """Share of people whose sensitive value is learnt from the group they are known to be in.

    A group is the records that agree on `columns` in the release: an equivalence class, a microaggregated cluster, a
    cell of a table. `coalition=0` is the external attack by a stranger who knows which group the victim is in;
    `coalition=c` the internal one, in which c other members of the group put together what they know of themselves and
    subtract it. The coalition is the worst one for each victim; where a group has fewer others, all of them.

    With `published="values"` the sensitive values of a group's members are published, but not whose is whose (classes).
    A value is learnt when, after the coalition has taken its own values out, at least `share` of those left are the
    true one: with share 1 and no coalition these are the homogeneous classes. Numbers also count when they lie within
    `percent` of the true one. With `published="total"` only the sum of a group is published, or its mean and size
    (clusters, cells of magnitude tables). Everybody's value lies between `lower` and `upper`, so the total less what
    the coalition knows bounds the victim's value; it is learnt when a bound lies within `percent` of the true value:
    exactly, when nobody else is left. With a coalition of one and `lower=0` this is the p percent rule, for every
    contributor.

    The detail has the share for each column, what guessing reaches (`chance`: the most frequent value named for
    everybody, and what the whole table as the only group tells), the share of the most frequent value (`majority`), the
    number of groups and of those in which everybody is learnt, with share 1 who is learnt almost for certain
    (`almost_certain`: 95% of the values left are the true one, and not of the whole table anyway), and for totals the
    number of records that nobody else is left beside and the mean width of the intervals. `per_record` tells who is
    learnt in any column. Values missing in the original are left out; a value missing in the release, or generalized,
    is never near another, and a record without it takes no part in totals. A sensitive column of which no value is left
    as it was, or that has no values, is not attacked and named (`left_out`); where there is no other, the attack is
    refused.

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

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    @model_validator(mode="after")
    def _consistent(self) -> GroupAttack:
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise ValueError("`lower` must be less than `upper`")
        if self.weight is not None and self.published == "values":
            raise ValueError('`weight` is for `published="total"` only')
        return self

    def run(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Attack the release; with `truth: released` it needs nothing else."""
        score = super().run(released if self.truth == "released" else original, released, ctx)
        if self.coalition or self.published == "total" or self.truth == "released" or released.copy_column is not None:
            return score
        told = _told_by_dropping(original, released, score.detail["columns"], tuple(score.detail["per_column"]))
        return score if told is None else _with_dropped(score, told, len(original) - len(released))

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
        value = float(learnt[counted].mean())
        chance = float(np.logical_or.reduce([one.by_chance & one.counted for one in found.values()])[counted].mean())
        members = "one other member" if self.coalition == 1 else f"{self.coalition} other members"
        who = "a stranger learns" if self.coalition == 0 else f"{members} can learn"
        warned = warning(original, released, columns) if self.published == "values" else {}
        meaning = (
            f"For {as_percent(value)} of the records {who} a sensitive value from the group "
            f"(guessing the most frequent value is right for {as_percent(chance)})."
        )
        almost = [one.almost for one in found.values() if one.almost is not None]
        nearly = float(np.logical_or.reduce([learnt, *almost])[counted].mean()) if almost else value
        if nearly > value:
            meaning += (
                f" Almost certain (at least {ALMOST:.0%} of the group's values are the true one, of the whole "
                f"table fewer): {as_percent(nearly)}."
            )
        if left_out:
            meaning += f" Not attacked: {'; '.join(left_out.values())}."
        if self.truth == "released":
            meaning += " Published values are taken as true."
        return self.score(
            value,
            said(meaning, warned),
            per_record=learnt,
            columns=list(columns),
            coalition=self.coalition,
            chance=chance,
            **({"almost_certain": nearly} if almost else {}),
            per_column={name: float(one.learnt[one.counted].mean()) for name, one in found.items()},
            attacks={name: one.detail for name, one in found.items()},
            groups=int(groups[kept].max()) + 1,
            groups_learnt=_full_groups(groups, counted, learnt),
            smallest_group=int(np.bincount(groups[kept]).min()),
            records=int(counted.sum()),
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
        numbers = original.is_numeric(name) and released.is_numeric(name)
        numbers = numbers and not (original.is_category(name) and released.is_category(name))
        if numbers:
            x, y = original.number(name), released.number(name)
            counted, shown = ~np.isnan(x) & kept, ~np.isnan(y)
        else:
            true, published, _ = common_codes(original.codes(name), released.codes(name))
            counted, shown = (true >= 0) & kept, published >= 0
            if shown.any() and not np.isin(published[shown], true).any():
                raise _CannotLearn(
                    f"no value of {name!r} in the release occurs in the original (it was generalized or "
                    "coded anew), so that learning it cannot be told; do the same to the original first"
                )

        _require_values(name, counted)

        def near(of: Ints) -> Near:
            if numbers:
                return near_numbers(of, x[kept], y[kept], self.percent)
            return near_categories(of, true[kept], published[kept])

        def sure(of: Ints) -> Floats:
            """Give how sure everybody's value is; nothing for records that are left out."""
            shares = np.zeros(len(original))
            shares[kept] = certainty(near(of), np.bincount(of)[of], self.coalition)
            return shares + ROUNDING

        inside = groups[kept]
        shares, everywhere = sure(inside), sure(np.zeros_like(inside))
        by_chance = kept & (everywhere >= self.share)
        almost = kept & counted & (shares >= ALMOST) & (everywhere < ALMOST) if self.share > ALMOST else None
        by_chance |= _is_most_frequent(original, name, counted)
        codes = np.where(shown, released.codes(name).codes.astype(np.int64), -1)
        detail = {
            "chance": _mean(by_chance[counted]),
            "majority": _mean(_is_most_frequent(original, name, counted)[counted]),
            "homogeneous_groups": _homogeneous(inside, codes[kept]),
        }
        return _Learnt(kept & counted & (shares >= self.share), counted, by_chance, detail, almost)

    def _attack_total(self, original: Dataset, released: Dataset, name: str, groups: Ints, kept: Bools) -> _Learnt:
        if original.is_numeric(name) and not released.is_numeric(name):
            raise _CannotLearn(f"column {name!r} has no numbers in the release, of which totals could be made")
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
        by_chance = np.zeros(len(original), np.bool_)
        by_chance[counted] = learnt(np.zeros_like(groups[counted]))[0]
        by_chance |= _is_most_frequent(original, name, counted)
        detail = {
            "chance": _mean(by_chance[counted]),
            "majority": _mean(_is_most_frequent(original, name, counted)[counted]),
            "nobody_else_left": int((rest == 0).sum()),
            "mean_interval_share": _mean_share(width, w * x),
        }
        return _Learnt(result, counted, by_chance, detail)

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
    return np.asarray(counted & (codes == np.bincount(codes[counted]).argmax())) if counted.any() else counted


def _homogeneous(groups: Ints, published: Ints) -> int:
    """Count the groups in which all members show the same value; −1 shows none."""
    least, most = np.full((2, int(groups.max()) + 1), -1, np.int64)
    np.maximum.at(most, groups, published)
    least[:] = most
    np.minimum.at(least, groups, published)
    return int(((least == most) & (most >= 0)).sum())


def _told_by_dropping(
    original: Dataset, released: Dataset, columns: list[str], secrets: tuple[str, ...]
) -> dict[str, int] | None:
    """Count the people in classes that are missing as a whole although they are large enough, and who share a value.

    None where nothing was dropped, or not by a search that looks at sensitive values; nor where the classes of those
    who are missing cannot be told.
    """
    models = [model for step in released.steps for model in getattr(step, "models", ())]
    searched = any(getattr(model, "sensitive", None) for model in models)
    if not searched or len(released) >= len(original) or warning(original, released, columns):
        return None
    sizes_asked = [model.k for model in models if model.kind == "k-anonymity"]
    enough = min([int(released.class_counts(columns).min()), *sizes_asked])
    part, released = align(original, released, "group-attack")
    coded = [_coded_alike(original, part, released, name) for name in columns]
    if any(codes is None for codes in coded):
        return None
    keys = np.column_stack([codes for codes in coded if codes is not None])
    known = (keys >= 0).all(axis=1)
    _, numbers = np.unique(keys[known], axis=0, return_inverse=True)
    ids = np.full(len(original), -1, np.int64)
    ids[known] = numbers.reshape(-1)
    there = np.isin(original.row_ids, released.row_ids)
    sizes = np.bincount(ids[known])
    shown = np.bincount(ids[known & there], minlength=len(sizes))
    missing = known & (shown[ids] == 0) & (sizes[ids] >= enough)
    told = np.zeros(len(original), np.bool_)
    for name in secrets:
        codes = original.codes(name).codes.astype(np.int64)
        low, high = np.full(len(sizes), np.iinfo(np.int64).max), np.full(len(sizes), -1)
        np.minimum.at(low, ids[known], codes[known])
        np.maximum.at(high, ids[known], codes[known])
        told |= missing & (low == high)[ids]
    return {"people": int(missing.sum()), "classes": len(np.unique(ids[missing])), "told": int(told.sum())}


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
