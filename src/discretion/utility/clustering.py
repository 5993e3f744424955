"""Does clustering the release find the groups of the original? (U11)"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.kernels.arrays import Ints
from discretion.learning.designs import Design, choose_features, encode, weights_of
from discretion.learning.estimators import Model, ModelField
from discretion.learning.fitting import run_quietly, seeds, weight_keyword
from discretion.learning.values import Floats, Numbers, Values, content_order, numbers_of_both, read_column
from discretion.measure import Better, Measure, Score
from discretion.part import Columns
from discretion.utility.partitions import (
    adjusted_rand_index,
    jaccard_index,
    largest_variation,
    rand_index,
    variation_of_information,
)


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
