"""Can a model tell released records from original ones, and do confidence intervals overlap? (U12)"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Floats
from discretion.kernels.distributions import normal_quantile
from discretion.learning.columns import Numbers
from discretion.learning.fitting import encode, filled, medians_of
from discretion.measure import Better, Measure, Score
from discretion.method import Method
from discretion.part import Columns
from discretion.utility.errors import Pair, choose_columns, read_pair, shares_of

_SHOWN = 60


@dataclass(frozen=True)
class _Estimates:
    """Figures with their standard errors."""

    names: tuple[str, ...]
    values: Floats
    errors: Floats


class IntervalOverlap(Measure, kind="interval-overlap"):
    """Mean overlap of the confidence intervals that the original and the release give, between 0 and 1.

    Without `target`: the weighted means of numbers and the shares of categories. With `target` (a number): the
    coefficients of its weighted least-squares regression on `columns`. Intervals are normal, with standard errors
    by linearization (for regression: the sandwich estimator), which respects weights and unequal variances. The
    overlap of two intervals is the mean of the shares of each that lies in the other; intervals that do not meet count
    0. 1: the same intervals. A release of n records from the same population overlaps by about 0.7 on average (at
    0.95). Values missing are left out (for regression: filled by the median and marked). Intervals shrink with the size
    of the file, so that the same shift costs more in a large one, as it does in the conclusions; the detail has the
    differences in standard errors. Figures other than these means or coefficients are not seen. Time O(n·m²).

    References
    ----------
    Karr, Kohnen, Oganian, Reiter & Sanil (2006), The American Statistician 60(3); catalogue U12.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> x = pl.DataFrame({"a": [1.0, 2, 3, 4]})
    >>> measure = dc.IntervalOverlap(columns=["a"])
    >>> measure(x, x).value, measure(x, x.select(pl.col("a") + 9)).value
    (1.0, 0.0)
    """

    columns: Columns = ()
    """columns to estimate, or the explaining ones; without it, all but identifiers and weights"""
    target: str = ""
    """the explained column of a regression; without it, means and shares are compared"""
    confidence: float = Field(0.95, gt=0, lt=1)
    """coverage of the intervals"""

    better: ClassVar[Better] = "higher"
    aligned: ClassVar[bool] = False
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Compare interval by interval."""
        if self.target in self.columns:
            raise PlanError(f"{self.kind}: {self.target!r} is the target and cannot explain itself")
        columns = choose_columns(original, released, self.columns, self.kind)
        pairs = [read_pair(original, released, name) for name in columns if name != self.target]
        shares = shares_of(original, self.kind), shares_of(released, self.kind)
        if self.target:
            original.require([self.target])
            released.require([self.target])
            first, second = _regressions(pairs, read_pair(original, released, self.target), *shares, self.kind)
        else:
            first, second = _means(pairs, *shares, self.kind)
        overlap, low_high = _overlaps(first, second, self.confidence)
        value = float(overlap.mean())
        what = f"coefficients of {self.target}" if self.target else "means and shares"
        scale = np.where(first.errors > 0, first.errors, np.nan)
        shift = np.abs(first.values - second.values) / scale
        entries = {
            name: {
                "original": low_high[0][i],
                "released": low_high[1][i],
                "overlap": float(overlap[i]),
                "shift_in_standard_errors": None if np.isnan(shift[i]) else float(shift[i]),
            }
            for i, name in enumerate(first.names)
        }
        worst = sorted(entries, key=lambda name: (entries[name]["overlap"], name))[:_SHOWN]
        return self.score(
            value,
            f"Confidence intervals of {len(overlap)} {what} overlap by {value:.1%} on average; "
            f"{int((overlap == 0).sum())} do not meet.",
            intervals=len(overlap),
            disjoint=int((overlap == 0).sum()),
            estimates={name: entries[name] for name in worst},
        )


def _overlaps(first: _Estimates, second: _Estimates, confidence: float) -> tuple[Floats, list[list[list[float]]]]:
    z = float(normal_quantile((1 + confidence) / 2))
    sides = [(e.values - z * e.errors, e.values + z * e.errors) for e in (first, second)]
    common_low = np.maximum(sides[0][0], sides[1][0])
    common_high = np.minimum(sides[0][1], sides[1][1])
    common = np.maximum(common_high - common_low, 0.0)
    shares = []
    for low, high in sides:
        width = high - low
        shares.append(np.where(width > 0, common / np.where(width > 0, width, 1.0), common_high >= common_low))
    overlap = np.clip((shares[0] + shares[1]) / 2, 0.0, 1.0)
    shown = [[[float(a), float(b)] for a, b in zip(low, high, strict=True)] for low, high in sides]
    return np.asarray(overlap), shown


def _means(pairs: list[Pair], before: Floats, after: Floats, who: str) -> tuple[_Estimates, _Estimates]:
    """Estimate means of numbers and shares of categories (missing is a category)."""
    names: list[str] = []
    found: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    for pair in pairs:
        sides: list[list[Floats]]
        if isinstance(pair.original, Numbers) and isinstance(pair.released, Numbers):
            names.append(pair.name)
            sides = [[pair.original.values], [pair.released.values]]
        else:
            designs = encode([{pair.name: pair.original}, {pair.name: pair.released}])
            names += designs[0].names
            sides = [list(design.x.T) for design in designs]
        for place, (columns, shares) in enumerate(zip(sides, (before, after), strict=True)):
            found[place].extend(_mean(x, shares, pair.name, who) for x in columns)
    first, second = (_Estimates(tuple(names), *np.array(side).T) for side in found)
    return first, second


def _mean(x: Floats, shares: Floats, name: str, who: str) -> tuple[float, float]:
    present = ~np.isnan(x)
    x, w = x[present], shares[present]
    if len(x) < 2 or not w.sum() > 0:
        raise DataError(f"{who}: column {name!r} has fewer than two values in a data set")
    w = w / w.sum()
    mean = float(w @ x)
    return mean, float(np.sqrt(len(x) / (len(x) - 1) * ((w * (x - mean)) ** 2).sum()))


def _regressions(
    pairs: list[Pair], target: Pair, before: Floats, after: Floats, who: str
) -> tuple[_Estimates, _Estimates]:
    """Fit the same regression to both; columns that the original's others determine are left out."""
    if not isinstance(target.original, Numbers) or not isinstance(target.released, Numbers):
        raise DataError(f"{who}: the target {target.name!r} is not a number in both data sets")
    if not pairs:
        raise PlanError(f"{who}: no column is left to explain {target.name!r}; give `columns`")
    designs = encode([{p.name: p.original for p in pairs}, {p.name: p.released for p in pairs}])
    medians = medians_of(designs[0].x)
    names = ("(constant)", *designs[0].names)
    sides: list[tuple[Floats, Floats, Floats]] = []
    for design, values, shares in zip(
        designs, (target.original.values, target.released.values), (before, after), strict=True
    ):
        known = ~np.isnan(values)
        x = np.column_stack([np.ones(int(known.sum())), filled(design.x[known], medians)])
        sides.append((x, values[known], shares[known]))
    kept = _independent(sides[0][0], sides[0][2])
    fits = []
    for (x, y, shares), name in zip(sides, ("original", "release"), strict=True):
        if len(y) <= len(kept):
            raise DataError(f"{who}: the {name} has {len(y)} records for {len(kept)} coefficients")
        fits.append(_Estimates(tuple(names[j] for j in kept), *_least_squares(x[:, kept], y, shares)))
    return fits[0], fits[1]


def _independent(x: Floats, shares: Floats) -> list[int]:
    """Give columns of which none is determined by those before it."""
    root = np.sqrt(shares)[:, None]
    scale = np.sqrt(((x * root) ** 2).sum(axis=0))
    scaled = x * root / np.where(scale > 0, scale, 1.0)
    kept: list[int] = []
    basis: list[Any] = []
    for j in range(x.shape[1]):
        rest = scaled[:, j].copy()
        for _ in range(2):
            for direction in basis:
                rest -= (direction @ rest) * direction
        length = float(np.sqrt(rest @ rest))
        if length > 1e-7:
            basis.append(rest / length)
            kept.append(j)
    return kept


def _least_squares(x: Floats, y: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Give weighted least-squares coefficients and their sandwich standard errors."""
    scale = np.sqrt(shares @ x**2)
    scale = np.where(scale > 0, scale, 1.0)
    z = x / scale
    bread = np.linalg.pinv((z * shares[:, None]).T @ z, rcond=1e-12, hermitian=True)
    beta = bread @ (z.T @ (shares * y))
    scores = z * (shares * (y - z @ beta))[:, None]
    n, k = x.shape
    variance = bread @ (scores.T @ scores) @ bread * (n / (n - k))
    return beta / scale, np.sqrt(np.maximum(np.diag(variance), 0.0)) / scale


_STEPS = 30

_SCORES_ONE = {
    "samples": "another sample of the same population",
    "synthpop": "a resample of the original's own records",
    "refit": "a synthesis by the right model",
}
"""What has s_pmse = 1 under each null."""


@dataclass(frozen=True)
class _Stack:
    """Both data sets on top of each other, in an order that depends on the values only."""

    x: Floats
    label: Floats
    """1 for released records"""
    weights: Floats
    """each data set sums to its number of records"""
    weighted: bool

    @property
    def share(self) -> float:
        """The share of released records."""
        return float(self.label.mean())


class Propensity(Measure, kind="propensity"):
    """How well a model tells released records from original ones, between 0 (not at all) and 1 (always).

    Both files are stacked and a model predicts the probability p that a record is a released one; with c the share of
    released records, pMSE = mean (p − c)², at most c·(1 − c). Even for two samples from one population a model finds
    something by chance: E₀ is the pMSE expected under `null`. The value is the excess (pMSE − E₀)/(c·(1 − c) − E₀), at
    least 0, which compares between data of different size. The detail has `pmse`, `expected` (E₀), the standardized
    `s_pmse` = pMSE/E₀ (for given differences it grows with the number of records) and `z` = (pMSE − E₀)/sd₀.

    What `s_pmse` = 1 means depends on the null, and its name is part of the result. `samples` (the default): labels are
    permuted, E₀ is their mean pMSE; another sample of the same population scores 1, and so does a correct synthesis
    under trees; the same people drawn again (a bootstrap copy) score ½, a perfect copy 0. `synthpop`: that mean times
    1 − c (half for files of equal size), which S_pMSE in synthpop divides by; a bootstrap copy scores 1, another sample
    and, under trees, a correct synthesis score 2. The logit sees only what a good synthesis takes over from the
    original, its margins: a synthesis with the right model scores ½ by `samples` and 1 by `synthpop`. Without weights
    its E₀ has a formula: (k − 1)·(1 − c)·c/N for k parameters, times 1 − c for `synthpop`.

    `refit` is for synthetic rows: the generator that made the release S learns from S and makes S₂, and E₀ is the mean
    pMSE between S and S₂, with any model of this measure. If the generator is right for the original, S comes from
    the original as S₂ comes from S, and the score is 1 on average; above 1, the generator misses something.

    `tree` also sees dependence between columns. `logit` uses main effects only and cannot see dependence: data with the
    right margins and no dependence at all pass. Weights of each file count; missing is a value. A generalized column
    gives every record away: compare with the original generalized alike. Records of weight 0 are left out. Says nothing
    about risk: a copy scores best. Time: one fit, and one for each permutation.

    References
    ----------
    Snoke, Raab, Nowok, Dibben & Slavkovic (2018), JRSS A 181(3); Woo et al. (2009); catalogue U12.

    Examples
    --------
    >>> import numpy as np, polars as pl, discretion as dc
    >>> x = pl.DataFrame({"a": np.arange(100.0)})
    >>> measure = dc.Propensity(columns=["a"])
    >>> measure(x, x).value, round(measure(x, x.with_columns(pl.col("a") + 200)).value, 6)
    (0.0, 1.0)
    """

    columns: Columns = ()
    """columns the model sees; without it, all but identifiers and weights"""
    model: Literal["tree", "logit"] = "tree"
    """classification tree, or logistic regression on main effects"""
    permutations: int = Field(20, ge=2)
    """permutations of the labels for the chance level of trees, and of the logit with weights; refits of `refit`"""
    null: Literal["samples", "synthpop", "refit"] = "samples"
    """what scores 1: another sample of the same population, the original's own records drawn again, or a synthesis by
    the right model (only for data that a generator made here)"""
    smallest_leaf: int = Field(20, ge=1)
    """smallest number of records in a leaf of the tree"""
    leaf_share: float = Field(0.002, ge=0, lt=0.5)
    """smallest share of all records in a leaf: larger trees see finer differences and more chance"""

    aligned: ClassVar[bool] = False
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Fit the model, and the chance level."""
        columns = choose_columns(original, released, self.columns, self.kind)
        stack = _stacked(original, released, columns, self.kind)
        top = stack.share * (1 - stack.share)
        seed = int(ctx.rng.integers(2**31 - 1))
        pmse, parameters = self._pmse(stack, stack.label, seed)
        if self.null == "refit":
            expected, sd = self._refitted(released, columns, seed, ctx)
        else:
            expected, sd = self._chance(stack, parameters, seed, ctx)
        value = float(np.clip((pmse - expected) / (top - expected), 0.0, 1.0)) if top > expected else 0.0
        ratio = pmse / expected if expected > 0 else 0.0
        return self.score(
            value,
            f"A {self.model} tells released records from original ones {value:.1%} of the way from chance to certainty "
            f"(S_pMSE {ratio:.3g} by the null `{self.null}`: 1 is what {_SCORES_ONE[self.null]} gets)"
            f"{'; main effects only, so dependence between columns is not seen' if self.model == 'logit' else ''}.",
            pmse=pmse,
            s_pmse=ratio,
            z=(pmse - expected) / sd if sd > 0 else 0.0,
            expected=expected,
            sd=sd,
            largest=top,
            model=self.model,
            null=self.null,
            parameters=parameters,
            columns=list(columns),
        )

    def _pmse(self, stack: _Stack, label: Floats, seed: int) -> tuple[float, int]:
        """Give the pMSE and the number of parameters (leaves)."""
        weights = _balanced(stack.weights, label) if stack.weighted else stack.weights
        if self.model == "logit":
            fitted, parameters = _logit(stack.x, label, weights)
        else:
            from sklearn.tree import DecisionTreeClassifier

            given: Any = weights if stack.weighted else None
            leaf = max(self.smallest_leaf, math.ceil(self.leaf_share * len(label)))
            tree = DecisionTreeClassifier(min_samples_leaf=leaf, random_state=seed)
            tree.fit(stack.x, label, sample_weight=given)
            fitted = tree.predict_proba(stack.x)[:, -1]
            parameters = int(tree.get_n_leaves())
        return float(weights / weights.sum() @ (fitted - stack.share) ** 2), parameters

    def _refitted(self, released: Dataset, columns: tuple[str, ...], seed: int, ctx: Context) -> tuple[float, float]:
        """Give mean and standard deviation of the pMSE between the release and what its generator makes of it."""
        steps = [step for step in released.steps if isinstance(step, Method)]
        made = [place for place, step in enumerate(steps) if step.makes_rows]
        if not made:
            raise DataError(f"{self.kind}: null `refit`: the generator that made the release is not known")
        whole = Dataset(released.frame, schema=released.schema)
        found = np.empty(self.permutations)
        for number in range(self.permutations):
            ctx.progress(number, self.permutations, ctx.step)
            again = whole
            for step in steps[made[-1] :]:
                again = step.on_part().run(again, ctx.within(f"refit {number}")).data
            stack = _stacked(whole, again, columns, self.kind)
            found[number] = self._pmse(stack, stack.label, seed)[0]
        return float(found.mean()), float(found.std(ddof=1))

    def _chance(self, stack: _Stack, parameters: int, seed: int, ctx: Context) -> tuple[float, float]:
        """Give mean and standard deviation of the pMSE under the null."""
        c = stack.share
        factor = 1 - c if self.null == "synthpop" else 1.0
        if self.model == "logit" and not stack.weighted:
            unit = factor * (1 - c) * c / len(stack.label)
            return (parameters - 1) * unit, float(np.sqrt(2 * (parameters - 1))) * unit
        rng = ctx.within("permutations").rng
        found = np.empty(self.permutations)
        for number in range(self.permutations):
            ctx.progress(number, self.permutations, ctx.step)
            found[number] = self._pmse(stack, rng.permutation(stack.label), seed)[0]
        return float(found.mean() * factor), float(found.std(ddof=1) * factor)


def _stacked(original: Dataset, released: Dataset, columns: tuple[str, ...], who: str) -> _Stack:
    pairs = [read_pair(original, released, name) for name in columns]
    designs = encode([{p.name: p.original for p in pairs}, {p.name: p.released for p in pairs}])
    x = np.concatenate([design.x for design in designs])
    if not x.shape[1]:
        raise DataError(f"{who}: the columns have no values")
    x = filled(x, medians_of(x))
    label = np.repeat([0.0, 1.0], [len(original), len(released)])
    weights = np.concatenate([shares_of(data, who) * len(data) for data in (original, released)])
    counted = weights > 0
    x, label, weights = x[counted], label[counted], _balanced(weights[counted], label[counted])
    order = np.lexsort([label, weights, *x.T[::-1]])
    return _Stack(x[order], label[order], weights[order], not np.allclose(weights, 1.0, rtol=1e-9))


def _balanced(weights: Floats, label: Floats) -> Floats:
    """Scale weights such that those of each label sum to its number of records, as the two files' do."""
    own = label.astype(np.int64)
    return np.asarray(weights * (np.bincount(own) / np.bincount(own, weights))[own])


def _logit(x: Floats, label: Floats, weights: Floats) -> tuple[Floats, int]:
    """Fit a logistic regression by Newton's steps; give the probabilities and the number of independent parameters.

    Directions that do not vary are left out. Where the files can be separated exactly, probabilities go to 0 and 1 and
    the steps end at a bound.
    """
    # a constant and uncorrelated directions of unit variance that span the columns
    shares = weights / weights.sum()
    away = x - shares @ x
    sd = np.sqrt(shares @ away**2)
    varies = sd > 1e-12 * np.maximum(np.abs(x).max(axis=0), 1e-300)
    scaled = away[:, varies] / sd[varies]
    values, axes = (
        np.linalg.eigh((scaled * shares[:, None]).T @ scaled) if varies.any() else (np.empty(0), np.empty((0, 0)))
    )
    kept = values > 1e-9 * max(float(values.max(initial=0.0)), 1e-300)
    z = np.column_stack([np.ones(len(x)), scaled @ (axes[:, kept] / np.sqrt(values[kept]))])
    beta = np.zeros(z.shape[1])
    share = float(weights @ label / weights.sum())
    beta[0] = np.log(share / (1 - share))
    for _ in range(_STEPS):
        fitted = 1 / (1 + np.exp(-np.clip(z @ beta, -30, 30)))
        slope = z.T @ (weights * (label - fitted))
        curve = (z * (weights * np.maximum(fitted * (1 - fitted), 1e-10))[:, None]).T @ z
        step = np.linalg.solve(curve, slope)
        longest = float(np.abs(step).max())
        beta += step * min(1.0, 5.0 / longest if longest > 0 else 1.0)
        if longest < 1e-10:
            break
    return 1 / (1 + np.exp(-np.clip(z @ beta, -30, 30))), z.shape[1]
