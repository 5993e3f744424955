"""Does a model or a clustering of the release classify, predict and group like one of the original? (U11)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Floats, Ints
from discretion.learning.columns import Numbers, Values, numbers_of_both, read_column
from discretion.learning.fitting import (
    Design,
    Model,
    ModelField,
    agreement,
    choose_features,
    content_order,
    encode,
    precision_recall,
    run_quietly,
    run_trial,
    seeds,
    target_array,
    weight_keyword,
    weights_of,
)
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns

# How alike are two partitions of the same records? Pair counting and information, in O(n log n) (U11).
#
# Pairs of records are together in both partitions (a), in one only (b, c) or in neither (d): Rand = (a + d) / all,
# Jaccard = a / (a + b + c), adjusted Rand = (a − E) / (M − E), where E is the expected a of random partitions with
# these sizes and M the mean of the two partitions' pairs. Variation of information = H(P|Q) + H(Q|P).


@dataclass(frozen=True)
class PairCounts:
    """Pairs of records: together in both partitions, in the first only, in the second only, in neither.

    With weights a pair counts the product of its records' weights.
    """

    both: float
    first: float
    second: float
    neither: float

    @property
    def total(self) -> float:
        """All pairs."""
        return self.both + self.first + self.second + self.neither


def _parts(first: NDArray[Any], second: NDArray[Any], weights: Floats | None) -> tuple[tuple[Ints, Ints, Ints], Floats]:
    """Number the groups of both partitions and of their crossing; records of weight 0 are left out."""
    if len(first) != len(second) or not len(first):
        raise DataError(f"two partitions of the same records are compared, not of {len(first)} and {len(second)}")
    w = np.ones(len(first)) if weights is None else weights
    if len(w) != len(first) or not w.sum() > 0:
        raise DataError("two partitions are compared with one weight per record, not all 0")
    counted = w > 0
    _, one = np.unique(first[counted], return_inverse=True)
    _, two = np.unique(second[counted], return_inverse=True)
    _, cells = np.unique(one.astype(np.int64) * (int(two.max()) + 1) + two, return_inverse=True)
    return (cells, one, two), w[counted]


def _pairs(groups: Ints, weights: Floats) -> float:
    """Sum over the groups the products of the weights of each two of their records."""
    sums, squares = np.bincount(groups, weights), np.bincount(groups, weights**2)
    single = np.bincount(groups) == 1
    return float(np.where(single, 0.0, sums**2 - squares).sum() / 2)


def pair_counts(first: NDArray[Any], second: NDArray[Any], weights: Floats | None = None) -> PairCounts:
    """Count pairs of records by whether the partitions put them together."""
    groups, w = _parts(first, second, weights)
    both, in_one, in_two = (_pairs(part, w) for part in groups)
    everything = _pairs(np.zeros(len(w), np.int64), w)
    return PairCounts(both, in_one - both, in_two - both, everything - in_one - in_two + both)


def rand_index(first: NDArray[Any], second: NDArray[Any], weights: Floats | None = None) -> float:
    """Give the share of pairs that both partitions treat alike; 1 for a single record."""
    pairs = pair_counts(first, second, weights)
    return (pairs.both + pairs.neither) / pairs.total if pairs.total else 1.0


def jaccard_index(first: NDArray[Any], second: NDArray[Any], weights: Floats | None = None) -> float:
    """Give the pairs together in both among those together in either; 1 where no pair is."""
    pairs = pair_counts(first, second, weights)
    either = pairs.both + pairs.first + pairs.second
    return pairs.both / either if either else 1.0


def adjusted_rand_index(first: NDArray[Any], second: NDArray[Any], weights: Floats | None = None) -> float:
    """Give Hubert and Arabie's index: 0 expected for unrelated partitions, 1 for equal ones."""
    pairs = pair_counts(first, second, weights)
    in_one, in_two = pairs.both + pairs.first, pairs.both + pairs.second
    if not pairs.total:
        return 1.0
    expected, largest = in_one * in_two / pairs.total, (in_one + in_two) / 2
    return (pairs.both - expected) / (largest - expected) if largest - expected > 1e-12 * largest else 1.0


def variation_of_information(first: NDArray[Any], second: NDArray[Any], weights: Floats | None = None) -> float:
    """Give H(P|Q) + H(Q|P) in nats: 0 for equal partitions, at most `largest_variation` (log n without weights)."""
    groups, w = _parts(first, second, weights)
    crossing, one, two = (_entropy(np.asarray(np.bincount(part, w), np.float64)) for part in groups)
    return max(0.0, 2 * crossing - one - two)


def largest_variation(records: int, weights: Floats | None = None) -> float:
    """Give the variation of information between one group and all records alone: the largest there is."""
    return _entropy(np.ones(records) if weights is None else weights[weights > 0])


def _entropy(sizes: Floats) -> float:
    shares: Floats = sizes / sizes.sum()
    return float(-(shares * np.log(shares)).sum())


class ClusteringUtility(Measure, kind="clustering-utility"):
    """Agreement of the groups found in the release with the groups found in the original.

    The same clustering (k-means from ten starts, unless `model` says otherwise) runs on the original and on the
    release; the two partitions of the records are compared. The value is the adjusted Rand index: 1 when the groups
    are the same, 0 when they agree no better than at random. The detail has the Rand and Jaccard indices, the
    variation of information (in nats, and divided by its largest value: log n without weights), and `stability`: the
    adjusted Rand index of the original with itself, clustered from other random starts. A value near the stability
    means that the release has lost nothing that could be relied on.

    Numbers are divided by their standard deviation in the original, categories count 1 when they differ; a column
    that was generalized enters as its published labels. Weights (role `weight`) count in the clustering, and in the
    indices: a pair of records counts the product of their weights in the original. Time: three clusterings.

    References
    ----------
    Hubert & Arabie (1985), J. Classification 2; Meilă (2007), J. Multivariate Analysis 98; catalogue U11.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> measure = dc.ClusteringUtility(features=["age", "hours", "income"], clusters=4)
    >>> noisy = dc.AdditiveNoise(columns=["age", "hours", "income"], sd_share=0.5)(people, seed=7)
    >>> measure(people, people).value, 0 < measure(people, noisy).value < 1
    (1.0, True)
    """

    features: Columns = ()
    """columns to cluster by; without it, all but identifiers, weights and households"""
    clusters: int = Field(3, ge=2)
    """number of groups; for a `model` without such a parameter it is not used"""
    model: ModelField = Model("kmeans")
    """kmeans, or a scikit-learn class with `fit_predict` such as sklearn.cluster:AgglomerativeClustering"""

    better: ClassVar[Better] = "higher"
    limits: ClassVar[tuple[float | None, float | None]] = (-0.5, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Cluster both and compare the partitions."""
        features = choose_features(original, released, self.features, "", who=self.kind, quasi=False)
        if len(original) < self.clusters:
            raise DataError(f"{self.kind}: {len(original)} rows cannot form {self.clusters} clusters")
        ours, theirs, our_weights, their_weights = self._matrices(original, released, features)
        first, second = (seed for seed, _ in zip(seeds(ctx.rng), range(2), strict=False))
        ctx.progress(0, 3, f"{self.kind}: original")
        one = self._cluster(ours, our_weights, first)
        ctx.progress(1, 3, f"{self.kind}: release")
        two = self._cluster(theirs, their_weights, first)
        ctx.progress(2, 3, f"{self.kind}: stability")
        stability = adjusted_rand_index(one, self._cluster(ours, our_weights, second), our_weights)
        ctx.progress(3, 3, self.kind)
        w = our_weights
        value, information = adjusted_rand_index(one, two, w), variation_of_information(one, two, w)
        largest = largest_variation(len(one), w)
        return self.score(
            value,
            f"The groups found in the release agree with those of the original with an adjusted Rand index of "
            f"{value:.3g} (1: the same, 0: as at random; the original with itself, from other starts: "
            f"{stability:.3g}).",
            rand=rand_index(one, two, w),
            adjusted_rand=value,
            jaccard=jaccard_index(one, two, w),
            variation_of_information=information,
            variation_share=information / largest if largest > 0 else 0.0,
            stability=stability,
            sizes={"original": _sizes(one), "released": _sizes(two)},
            features=list(features),
            model=self.model.title,
        )

    def _matrices(
        self, original: Dataset, released: Dataset, features: tuple[str, ...]
    ) -> tuple[Floats, Floats, Floats | None, Floats | None]:
        """Give both data sets as matrices in which columns count alike, rows ordered by what they hold."""
        before: dict[str, Values] = {}
        after: dict[str, Values] = {}
        for name in features:
            numbers = numbers_of_both(original, released, name)
            before[name], after[name] = numbers or (read_column(original, name), read_column(released, name))
        weights = weights_of(original, self.kind), weights_of(released, self.kind)
        given = [Numbers(w) for w in weights if w is not None]
        order = content_order([*before.values(), *after.values(), *given])
        blocks: list[tuple[Design, Design]] = []
        for name in features:
            one, two = {name: before[name].take(order)}, {name: after[name].take(order)}
            if type(before[name]) is type(after[name]):
                blocks.append(tuple(encode([one, two])))  # type: ignore[arg-type]
            else:
                blocks.append((encode([one])[0], encode([two])[0]))
        alike = [(one, two, one if one.names == two.names else two) for one, two in blocks]
        ours, theirs = (w if w is None else w[order] for w in weights)
        return (
            np.hstack([one.scaled(one) for one, _, _ in alike]),
            np.hstack([two.scaled(like) for _, two, like in alike]),
            ours,
            theirs,
        )

    def _cluster(self, x: Floats, weights: Floats | None, seed: int) -> Ints:
        """Give the group of each row."""
        estimator = self.model.build("clustering", seed)
        for name in ("n_clusters", "n_components"):
            if name in estimator.get_params(deep=False):
                estimator.set_params(**{name: self.clusters})
        keyword = None if weights is None else weight_keyword(estimator)
        found: dict[str, Any] = {}

        def work() -> None:
            found["groups"] = estimator.fit_predict(x, **({} if keyword is None else {keyword: weights}))

        run_quietly(self.model, work)
        return np.asarray(found["groups"], dtype=np.int64)


def _sizes(groups: Ints) -> list[int]:
    return sorted((int(n) for n in np.unique(groups, return_counts=True)[1]), reverse=True)


# Does a regression fitted to the release predict like one fitted to the original? (U11)


class RegressionUtility(Measure, kind="regression-utility"):
    """Share of the variance that a regression fitted to the release explains in people it has not seen.

    The same model is fitted to the original and to the release, and both are tested on the same held-out original
    rows: people are divided into folds, and neither model sees the records of the fold it is tested on. The value is
    R² = 1 − Σ(y − ŷ)² / Σ(y − ȳ)² of the model fitted to the release: 1 is perfect, 0 no better than the mean,
    negative worse than it. The detail has that of the original's model (`original`), the `difference`, the root mean
    square errors, how the two predictions agree (`correlation`, and `gap`: root mean square difference in standard
    deviations of the target), and the two models compared (coefficients, trees, importances) where their kind allows.

    Weights (role `weight`) count in fitting and testing. Features that were generalized are generalized for the
    tested rows too. Rows without a target are left out. Where rows cannot be matched (synthetic data) the model is
    fitted to the whole release. Time: 2 · `folds` + 2 fits.

    References
    ----------
    Torra (2022), A guide to data privacy; catalogue U11.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> noisy = dc.AdditiveNoise(columns=["age", "hours"], sd_share=1)(people, seed=7)
    >>> measure = dc.RegressionUtility(target="income", features=["age", "hours", "education"])
    >>> score = measure(people, noisy)
    >>> 0 < score.value < score.detail["original"]
    True
    """

    target: str = ""
    """numeric column to explain; without it, the only sensitive column"""
    features: Columns = ()
    """columns to predict from; without it, all but identifiers, weights and households"""
    model: ModelField = Model("linear")
    """linear, tree, forest, boosting, nearest, or a scikit-learn class such as sklearn.svm:SVR"""
    folds: int = Field(5, ge=2)
    """parts into which people are divided; each is predicted by models fitted to the others"""

    better: ClassVar[Better] = "higher"
    aligned: ClassVar[bool] = False
    limits: ClassVar[tuple[float | None, float | None]] = (None, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Fit to both, test on the original."""
        trial = run_trial(
            original, released, self.target, self.features, self.model, self.folds, "regression", self.kind, ctx
        )
        truth = target_array(trial.case.truth)[trial.tested]
        w = np.ones(len(truth)) if trial.weights is None else trial.weights
        variance = float(np.average((truth - np.average(truth, weights=w)) ** 2, weights=w))
        if variance == 0:
            raise DataError(f"{self.kind}: the target {trial.case.target!r} is constant; there is nothing to explain")
        ours, theirs = _mse(truth, trial.ours, w), _mse(truth, trial.theirs, w)
        value = 1 - theirs / variance
        return self.score(
            value,
            f"A regression fitted to the release explains {value:.1%} of the variance in people it has not seen, one "
            f"fitted to the original {1 - ours / variance:.1%}.",
            original=1 - ours / variance,
            difference=(theirs - ours) / variance,
            rmse={"original": float(np.sqrt(ours)), "released": float(np.sqrt(theirs))},
            correlation=_correlation(trial.ours, trial.theirs, w),
            gap=float(np.sqrt(_mse(trial.ours, trial.theirs, w) / variance)),
            structure=trial.structure,
            **trial.facts(),
        )


def _mse(one: Floats, other: Floats, weights: Floats) -> float:
    return float(np.average((one - other) ** 2, weights=weights))


def _correlation(one: Floats, other: Floats, weights: Floats) -> float | None:
    """Give the weighted correlation of two predictions; None where one of them is constant."""
    a, b = one - np.average(one, weights=weights), other - np.average(other, weights=weights)
    size = float(np.sqrt(np.average(a * a, weights=weights) * np.average(b * b, weights=weights)))
    return float(np.average(a * b, weights=weights)) / size if size > 0 else None


class ClassificationUtility(Measure, kind="classification-utility"):
    """Share of people that a classifier trained on the release classifies right.

    The same model is trained on the original and on the release, and both are tested on the same held-out original
    rows: people are divided into folds, and neither model sees the records of the fold it is tested on. The value is
    the accuracy of the model trained on the release; the detail has that of the original's (`original`), the
    `difference`, the `agreement` of the two predictions (the loss in the sense of the source: not how good the model
    is, but how much it matters which data it was trained on), the `majority` baseline, precision and recall of each
    class, and the two models compared (leaves and depth, columns they split on, importances, coefficients) where
    their kind allows.

    Weights (role `weight`) count in training and testing. Features that were generalized are generalized for the
    tested rows too. Rows without a target are left out. Where rows cannot be matched (synthetic data) the model is
    trained on the whole release. Time: 2 · `folds` + 2 fits.

    References
    ----------
    Torra (2022), A guide to data privacy; catalogue U11.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(1000, seed=1)
    >>> noisy = dc.AdditiveNoise(columns=["age", "income"], sd_share=0.5)(people, seed=7)
    >>> score = dc.ClassificationUtility(target="marital_status", features=["age", "income", "sex"])(people, noisy)
    >>> score.detail["majority"] < score.value < score.detail["original"]
    True
    """

    target: str = ""
    """column with the classes; without it, the only sensitive column"""
    features: Columns = ()
    """columns to predict from; without it, all but identifiers, weights and households"""
    model: ModelField = Model("tree")
    """tree, forest, boosting, nearest, logit, or a scikit-learn class such as sklearn.svm:SVC"""
    folds: int = Field(5, ge=2)
    """parts into which people are divided; each is classified by models trained on the others"""

    better: ClassVar[Better] = "higher"
    aligned: ClassVar[bool] = False
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Train on both, test on the original."""
        trial = run_trial(
            original, released, self.target, self.features, self.model, self.folds, "classification", self.kind, ctx
        )
        truth, w = target_array(trial.case.truth)[trial.tested], trial.weights
        value, ours = agreement(trial.theirs, truth, w), agreement(trial.ours, truth, w)
        counts, names = np.bincount(truth, weights=w), trial.case.names
        return self.score(
            value,
            f"A classifier trained on the release is right for {as_percent(value)} of people it has not seen, one "
            f"trained on the original for {as_percent(ours)}; they agree on "
            f"{as_percent(agreement(trial.ours, trial.theirs, w))}.",
            original=ours,
            difference=ours - value,
            agreement=agreement(trial.ours, trial.theirs, w),
            majority=float(counts.max() / counts.sum()),
            per_class={
                "original": precision_recall(truth, trial.ours, names, w),
                "released": precision_recall(truth, trial.theirs, names, w),
            },
            structure=trial.structure,
            **trial.facts(),
        )
