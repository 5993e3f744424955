"""Probabilistic record linkage: how much agreement on each column says that two records are the same person (R13)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family
from discretion.risk.identity.distance_columns import unused
from discretion.risk.identity.intruder import Intruder, View, columns_to_link, view
from discretion.risk.identity.probabilistic_columns import NumberPair, Pair, compare_columns
from discretion.risk.identity.probabilistic_model import Thresholds, thresholds
from discretion.risk.identity.probabilistic_pairs import (
    DENSE_PATTERNS,
    Comparison,
    Linked,
    link_all,
    link_candidates,
    prepare,
    true_levels,
)

Floats = NDArray[np.float64]


class ProbabilisticLinkage(Measure, kind="probabilistic-linkage"):
    """Share of people an intruder finds by weighing, column by column, agreement against coincidence.

    Fellegi and Sunter's linkage. Each pair of an intruder's record and a published record has an agreement level in
    every column: equal, within a tolerance, different. m is the probability of a level when both are the same person, u
    when they are not; the weight of a pair is Σ log2(m/u), so that agreeing on what seldom agrees counts most. u is
    counted over all pairs, the share of true pairs is known, m is found by EM. For each of the intruder's records the
    published records with the highest weight form an anonymity set A; the record counts 1/|A| when the right one is
    among them. The value is the mean (Reid_k); `reid_d` takes the first of the set, `known_reid` counts the right links
    without a tie above the upper threshold. Two thresholds sort all pairs into linked, clerical and not linked.

    Numbers, dates and ordered categories agree within tolerances, other categories when they are equal; generalized
    values are compared on the level published. A comparison with a missing value is no evidence: its weight is 0.

    It does not see dependence between columns (their weights are added), values that are rarer than others of the same
    column, or one-to-one assignment. Where true pairs hardly stand out, EM settles on chance resemblance and the value
    is too low: compare `m` with `true_m` in the detail, or take the worst case with `knows_m`. Time O(pairs·columns)
    with equal records merged, memory linear; above `max_pairs`, or with very many patterns, only the `candidates`
    nearest are compared: a lower bound.

    References
    ----------
    Fellegi & Sunter (1969), JASA 64; Torra & Domingo-Ferrer (2003); Herzog, Scheuren & Winkler (2007); catalogue R13.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> released = dc.AdditiveNoise(columns=["age", "income"], sd_share=0.1)(people, seed=7)
    >>> score = dc.ProbabilisticLinkage(columns=["age", "income", "sex", "region"])(people, released)
    >>> 0.3 < score.value < 0.9
    True
    >>> score.detail["per_column"]["sex"]["levels"]
    ['differs', 'agrees']
    """

    columns: Columns = ()
    """columns the intruder knows; without it, the quasi-identifiers that can be compared"""
    tolerance_sd: tuple[float, ...] = (0.0, 0.1, 0.2, 0.4)
    """differences, in standard deviations, up to which numbers agree: one level for each; 0 is exact equality"""
    text_similarity: tuple[float, ...] = ()
    """similarities (Jaro–Winkler, 0 to 1) from which unequal texts agree in part: one level for each; none: not used"""
    false_link_share: float = Field(0.1, gt=0, le=1)
    """wrong links the intruder accepts for each of its records; sets the upper threshold"""
    false_nonlink_share: float = Field(0.05, gt=0, le=1)
    """share of the true pairs the intruder accepts to miss; sets the lower threshold"""
    knows_m: bool = False
    """the intruder was told how often true pairs agree (worst case); otherwise it is estimated from the pairs by EM"""
    max_pairs: int = Field(1_000_000_000, ge=1)
    """pairs of distinct records up to which all are compared; above, only candidates are"""
    candidates: int = Field(50, ge=1)
    """nearest published records each record is compared with when there are too many pairs"""
    intruder: Intruder = Field(default_factory=Intruder)
    """who attacks: whose records, which columns, with what error; default: the worst case, all original values"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    @field_validator("tolerance_sd")
    @classmethod
    def _check_tolerances(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if not given or len(given) > 8 or min(given) < 0 or len(set(given)) < len(given):
            raise ValueError("expected one to eight different tolerances of at least 0")
        return tuple(sorted(given))

    @model_validator(mode="after")
    def _check_intruder(self) -> Self:
        if self.intruder.knows_method:
            raise ValueError("probabilistic-linkage makes no use of the method; `knows_method` is for distance-linkage")
        return self

    @field_validator("text_similarity")
    @classmethod
    def _check_similarities(cls, given: tuple[float, ...]) -> tuple[float, ...]:
        if len(given) > 8 or any(not 0 < value < 1 for value in given) or len(set(given)) < len(given):
            raise ValueError("expected up to eight different similarities between 0 and 1")
        return tuple(sorted(given))

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Compare the intruder's records with the release and link each to the best."""
        columns = columns_to_link(self.intruder, self.columns, original, released)
        seen = view(self.intruder, original, released, columns, ctx)
        compared = compare_columns(
            seen.known, seen.released, seen.columns, bool(self.columns), self.kind, self.text_similarity
        )
        comparison = prepare(compared.pairs, self.tolerance_sd)
        linked = self._link(comparison, seen, ctx)
        per_record = np.where(linked.right, 1.0 / linked.size, 0.0)
        value = float(per_record.mean())
        names = [pair.name for pair in compared.pairs]
        limits = thresholds(linked.model, self.false_link_share / len(released), self.false_nonlink_share)
        upper = np.inf if limits.upper is None else limits.upper
        known = linked.right & (linked.size == 1) & (linked.best_weight >= upper - 1e-9)
        return self.score(
            value,
            f"An intruder who {self.intruder.describe(names)} and weighs agreement against coincidence finds "
            f"{as_percent(value)} of these people (guessing finds {as_percent(1 / len(released))})."
            + unused(compared.left_out),
            per_record=seen.spread(per_record),
            reid_k=value,
            reid_d=float((linked.first == seen.rows).mean()),
            known_reid=float(known.mean()),
            chance=1.0 / len(released),
            columns=names,
            not_compared=list(compared.left_out),
            records=len(seen.rows),
            intruder=self.intruder.describe(names),
            per_column=self._per_column(comparison, linked, true_levels(comparison, seen.rows)),
            thresholds=_thresholds(limits),
            classes=_classes(comparison, linked, limits),
            model=_model(comparison, linked),
        )

    def _link(self, comparison: Comparison, seen: View, ctx: Context) -> Linked:
        few = comparison.distinct_pairs <= self.max_pairs and comparison.radix.patterns <= DENSE_PATTERNS
        if few:
            return link_all(comparison, seen.rows, self.knows_m, ctx)
        return link_candidates(comparison, seen.rows, self.knows_m, self.candidates, ctx)

    def _per_column(self, comparison: Comparison, linked: Linked, true_m: list[Floats]) -> dict[str, dict[str, Any]]:
        described = {}
        for pair, column, truth in zip(comparison.pairs, linked.model.columns, true_m, strict=True):
            described[pair.name] = {
                "levels": self._levels(pair, column.u.size),
                "m": column.m.tolist(),
                "true_m": truth.tolist(),
                "u": column.u.tolist(),
                "weight": column.weight[int(column.has_missing) :].tolist(),
                "missing_share": column.missing_share,
            }
        return described

    def _levels(self, pair: Pair, levels: int) -> list[str]:
        """Name the levels of a column, from disagreement to the closest agreement."""
        if isinstance(pair, NumberPair):
            return ["differs", *(f"within {t:g} sd" if t else "equal" for t in reversed(self.tolerance_sd))]
        if levels == 2 or not self.text_similarity:
            return ["differs", "agrees"][:levels]
        return ["differs", *(f"similar by {t:g}" for t in self.text_similarity), "agrees"][:levels]


def _thresholds(limits: Thresholds) -> dict[str, float | None]:
    return {
        "upper": limits.upper,
        "lower": limits.lower,
        "false_link_rate": limits.false_link_rate,
        "false_nonlink_rate": limits.false_nonlink_rate,
    }


def _classes(comparison: Comparison, linked: Linked, limits: Thresholds) -> dict[str, dict[str, int]]:
    """Count pairs, and the right ones among them, in each of the three classes."""
    upper = np.inf if limits.upper is None else limits.upper
    lower = upper if limits.lower is None else limits.lower

    def sort(weights: Floats, times: NDArray[np.int64]) -> list[int]:
        high, middle = weights >= upper - 1e-9, weights >= lower - 1e-9
        return [int(times[high].sum()), int(times[middle & ~high].sum())]

    pairs = sort(linked.model.weights(linked.patterns), linked.counts)
    own = linked.own_weight[~np.isnan(linked.own_weight)]
    right = sort(own, np.ones(own.size, np.int64))
    pairs.append(comparison.all_pairs - sum(pairs))
    right.append(own.size - sum(right))
    names = ("linked", "clerical", "not_linked")
    return {name: {"pairs": a, "right": b} for name, a, b in zip(names, pairs, right, strict=True)}


def _model(comparison: Comparison, linked: Linked) -> dict[str, Any]:
    return {
        "match_share": linked.model.match_share,
        "iterations": linked.model.iterations,
        "converged": linked.model.converged,
        "pairs": comparison.all_pairs,
        "compared": "all pairs" if linked.candidates is None else f"{linked.candidates} candidates for each record",
    }
