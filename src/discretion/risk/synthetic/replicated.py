"""Replicated uniques and disclosive keys: what a synthetic file says about those who are alone, or all alike."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.measure import Score, as_percent
from discretion.part import Columns
from discretion.risk.synthetic.records import (
    Rate,
    UnalignedRisk,
    common_columns,
    control_group,
    draw,
    encode_together,
    excess_risk,
)


class _Keys(NamedTuple):
    """The same classes over several data sets."""

    ids: tuple[Ints, ...]
    counts: tuple[Ints, ...]


def _keys(tables: tuple[Floats, ...]) -> _Keys:
    """Number the combinations of values over all data sets and count them in each; missing is a value."""
    from discretion.kernels.classes import distinct_rows

    stacked = np.concatenate(tables)
    for j in np.flatnonzero(np.isnan(stacked).any(axis=0)):
        stacked[np.isnan(stacked[:, j]), j] = np.finfo(np.float64).max
    found = distinct_rows(stacked)
    ids = tuple(np.split(found.ids.astype(np.int64), np.cumsum([len(table) for table in tables])[:-1]))
    return _Keys(ids, tuple(np.bincount(each, minlength=len(found.counts)) for each in ids))


def _advantage(keys: _Keys) -> dict[str, float]:
    """Give the replication advantage: keys of people found in the release minus those of people outside the data.

    Also for people whose key nobody else has, in the data or outside it.
    """
    found = [keys.counts[1][keys.ids[side]] > 0 for side in (0, 2)]
    alone = keys.counts[0] + keys.counts[2] == 1
    rare = [hit[alone[keys.ids[side]]] for hit, side in zip(found, (0, 2), strict=True)]
    shares = [float(hit.mean()) for hit in found]
    figures = {"found": shares[0], "control_found": shares[1], "advantage": shares[0] - shares[1]}
    if all(len(hit) for hit in rare):
        figures["advantage_of_uniques"] = float(rare[0].mean() - rare[1].mean())
    return figures


NO_HOLDOUT = "only a holdout, people outside the data, tells what chance gives"


class ReplicatedUniques(UnalignedRisk, kind="replicated-uniques"):
    """Share of the original records that are alone with their key values, in the data and in the release (repU).

    Somebody who knows the key of a person who is alone with it finds exactly one released record, and may take it for
    that person. The value is a share of all original records, as published; the share of the uniques is in the detail,
    with those of the release (`unique_in_release`), and Wilson's interval. With `holdout`, the detail compares with
    the same figure for people outside the data (alone if nobody in the data has their key, as they would be there: a
    smaller group has more uniques among themselves): what chance replicates; and has the replication advantage, the
    share of people whose key the release has minus that of people outside (`advantage`, for keys of one person
    `advantage_of_uniques`): 0 for a generator that copies nobody. `per_record`: is the record a replicated unique?

    Missing is a value like others. Continuous columns are unique anyway and hardly replicated: recode them first. It
    does not see records that are nearly the same. Time linear.

    References
    ----------
    Raab, Nowok & Dibben (2024), Practical privacy metrics for synthetic data; catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> original = pl.DataFrame({"zip": ["1", "2", "3", "3"]})
    >>> dc.ReplicatedUniques(columns=["zip"])(original, pl.DataFrame({"zip": ["1", "2", "2", "3"]})).value
    0.25
    """

    columns: Columns = ()
    """the key: columns an intruder may know; without it, the quasi-identifiers"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Count keys that occur once in both."""
        tables = [original, released]
        if self.holdout is not None:
            tables.append(control_group(self.holdout, original, self.kind))
        columns = common_columns(self.columns, "classes", tables, self.kind)
        coded = list(encode_together(tables, columns, self.kind).tables)
        if self.holdout is not None:
            coded[2] = coded[2][draw(coded[2], len(original), ctx.rng)]
        keys = _keys(tuple(coded))
        unique = [count[ids] == 1 for ids, count in zip(keys.ids, keys.counts, strict=True)]
        alone = keys.counts[1][keys.ids[0]] == 1
        replicated = unique[0] & alone
        rate = Rate(int(replicated.sum()), len(original))
        detail: dict[str, Any] = {
            "unique_in_original": float(unique[0].mean()),
            "unique_in_release": float(unique[1].mean()),
            "share_of_uniques": float(replicated.sum() / max(int(unique[0].sum()), 1)),
            "interval": list(rate.interval(self.confidence)),
            "columns": list(columns),
        }
        meaning = (
            f"{as_percent(rate.share)} of the people are alone with their key values and alone with them in the "
            f"release ({as_percent(detail['share_of_uniques'])} of those who are alone)"
        )
        if self.holdout is not None:
            outside = (keys.counts[0][keys.ids[2]] == 0) & (keys.counts[1][keys.ids[2]] == 1)
            control = Rate(int(outside.sum()), len(outside))
            detail |= _against(rate, control, self.confidence) | {"chance": control.share} | _advantage(keys)
            meaning += (
                f"; outside the data {as_percent(control.share)}. The release has the key of "
                f"{as_percent(detail['found'])} of the people and of {as_percent(detail['control_found'])} of others"
            )
        else:
            detail["baseline"] = NO_HOLDOUT
            meaning += f"; no baseline: {NO_HOLDOUT}"
        return self.score(rate.share, f"{meaning}.", replicated.astype(np.float64), **detail)


class Disco(UnalignedRisk, kind="disco"):
    """Share of the people whose secret the release states with certainty, and rightly (DiSCO).

    The intruder knows the key of a person. When all released records with this key have the same value of the target,
    the release seems to disclose it (disclosive in synthetic); the record counts when this is its true value (correct
    in original). The value is a share of all original records, for the target where it is largest; the detail has for
    each target also the share whose key occurs in the release at all (`key_in_release`), whose key is disclosive there
    (`disclosive`), and who would be disclosed by the original itself (`in_original`), and Wilson's interval. With
    `holdout`, the detail compares with the same figure for people outside the data: a target that the key determines
    for everybody is disclosed without anybody being in the data. `per_record`: is some target disclosed?

    Missing is a value like others. A target with very many values is seldom homogeneous: recode it first. Probable
    but not certain values are not seen (`InferenceRisk`). Time linear.

    References
    ----------
    Raab, Nowok & Dibben (2024), Practical privacy metrics for synthetic data; catalogue R8.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> original = pl.DataFrame({"zip": ["1", "2", "3", "3"], "ill": ["yes", "no", "yes", "no"]})
    >>> release = pl.DataFrame({"zip": ["1", "1", "2", "3"], "ill": ["yes", "yes", "yes", "no"]})
    >>> dc.Disco(columns=["zip"], targets=["ill"])(original, release).value
    0.5
    """

    columns: Columns = ()
    """the key: columns an intruder may know; without it, the quasi-identifiers"""
    targets: Columns = ()
    """columns the intruder wants to know; without it, the sensitive ones"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Look for keys with one value of the target in the release."""
        tables = [original, released]
        if self.holdout is not None:
            tables.append(control_group(self.holdout, original, self.kind))
        targets = self._targets(original, tables)
        known = tuple(n for n in common_columns(self.columns, "classes", tables, self.kind) if n not in targets)
        if not known:
            raise PlanError(f"{self.kind}: the intruder knows nothing besides the targets; give `columns`")
        records = encode_together(tables, (*known, *targets), self.kind)
        keys = _keys(tuple(records.part(known)[0]))
        disclosed = np.zeros(len(original), np.bool_)
        per_target: dict[str, dict[str, Any]] = {}
        for name in targets:
            hits, figures = self._one(keys, tuple(records.part([name])[0]))
            disclosed |= hits
            per_target[name] = figures
        worst = max(per_target, key=lambda name: per_target[name]["disco"])
        value = float(per_target[worst]["disco"])
        meaning = f"For {as_percent(value)} of the people the release states {worst} with certainty, and rightly"
        against: dict[str, Any]
        if self.holdout is not None:
            against = {"chance": per_target[worst]["control_rate"]}
            meaning += f"; outside the data for {as_percent(per_target[worst]['control_rate'])}"
        else:
            against = {"baseline": NO_HOLDOUT}
            meaning += f"; no baseline: {NO_HOLDOUT}"
        return self.score(
            value,
            f"{meaning}.",
            disclosed.astype(np.float64),
            target=worst,
            columns=list(known),
            per_target=per_target,
            **against,
        )

    def _targets(self, original: Dataset, tables: list[Dataset]) -> tuple[str, ...]:
        if not self.targets and not original.having("sensitive"):
            raise PlanError(f"{self.kind}: no column is sensitive; give `targets`")
        named = self.targets or tuple(n for n in original.having("sensitive") if n in tables[1].columns)
        if not named:
            raise DataError(f"{self.kind}: the release has none of the sensitive columns; give `targets`")
        return common_columns(named, "compare", tables, self.kind)

    def _one(self, keys: _Keys, target: tuple[Floats, ...]) -> tuple[Bools, dict[str, Any]]:
        values = _keys(target).ids
        certain = _certain(keys.ids[1], values[1], len(keys.counts[0]))
        hits = certain[keys.ids[0]] == values[0]
        rate = Rate(int(hits.sum()), len(hits))
        figures: dict[str, Any] = {
            "disco": rate.share,
            "interval": list(rate.interval(self.confidence)),
            "key_in_release": float((keys.counts[1][keys.ids[0]] > 0).mean()),
            "disclosive": float((certain[keys.ids[0]] >= 0).mean()),
            "in_original": float((_certain(keys.ids[0], values[0], len(keys.counts[0]))[keys.ids[0]] >= 0).mean()),
        }
        if len(values) > 2:
            outside = certain[keys.ids[2]] == values[2]
            figures |= _against(rate, Rate(int(outside.sum()), len(outside)), self.confidence)
        return np.asarray(hits), figures


def _certain(ids: Ints, values: Ints, classes: int) -> Ints:
    """Give for each class the value that all its records have, −1 where they differ or there are none."""
    low, high = np.full(classes, np.iinfo(np.int64).max), np.full(classes, -1)
    np.minimum.at(low, ids, values)
    np.maximum.at(high, ids, values)
    return np.where(low == high, high, -1)


def _against(rate: Rate, control: Rate, confidence: float) -> dict[str, Any]:
    """Give the figures of the control group, and the risk of being in the data where it is defined."""
    figures: dict[str, Any] = {"control_rate": control.share, "control_interval": list(control.interval(confidence))}
    if control.successes < control.trials:
        risk = excess_risk(rate, control, confidence)
        figures |= {"risk": risk.value, "risk_interval": [risk.low, risk.high]}
    return figures
