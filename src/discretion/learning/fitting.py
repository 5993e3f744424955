"""Fit models and ask them about other rows; folds, comparison of two models, shadow models."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module, metadata
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DataError, PlanError, did_you_mean
from discretion.kernels.arrays import Bools, Floats, Ints
from discretion.learning.columns import Labels, Numbers, Purpose, Values, merge, outside_view, read_column, sd_of
from discretion.measure import align

Task = Literal["classification", "regression", "clustering"]

ENTRY_POINTS = "discretion.estimators"
IN_MEMORY = "(estimator in memory)"
"""What a journal writes in place of an estimator that a plan cannot name; such a plan cannot be run."""

REFUSED = ("memory", "input")
"""Parameters that read or write files."""

_NAMED: Mapping[str, Mapping[Task, tuple[str, Mapping[str, Any]]]] = {
    "tree": {
        "classification": ("sklearn.tree:DecisionTreeClassifier", {"min_samples_leaf": 5}),
        "regression": ("sklearn.tree:DecisionTreeRegressor", {"min_samples_leaf": 5}),
    },
    "forest": {
        "classification": ("sklearn.ensemble:RandomForestClassifier", {}),
        "regression": ("sklearn.ensemble:RandomForestRegressor", {}),
    },
    "boosting": {
        "classification": ("sklearn.ensemble:HistGradientBoostingClassifier", {}),
        "regression": ("sklearn.ensemble:HistGradientBoostingRegressor", {}),
    },
    "nearest": {
        "classification": ("sklearn.neighbors:KNeighborsClassifier", {}),
        "regression": ("sklearn.neighbors:KNeighborsRegressor", {}),
    },
    "logit": {"classification": ("sklearn.linear_model:LogisticRegression", {"max_iter": 1000})},
    "linear": {"regression": ("sklearn.linear_model:LinearRegression", {})},
    "kmeans": {"clustering": ("sklearn.cluster:KMeans", {"n_init": 10})},
}
"""Short names; `tree` stops at five records a leaf, so that it does not learn people by heart."""

_STANDARDIZED = ("logit", "nearest")
"""Named models that see columns divided by their spread: units must not decide."""

_NEEDS: Mapping[Task, str] = {"classification": "predict", "regression": "predict", "clustering": "fit_predict"}


@dataclass(frozen=True, repr=False)
class Model:
    """A model to fit, before it is fitted; equal when it would be written alike."""

    plain: str | tuple[str, tuple[tuple[str, Any], ...]]
    """a name, or an import path with parameters"""
    instance: Any = field(default=None, compare=False)
    """an estimator that a plan cannot name"""

    def __repr__(self) -> str:
        return repr(self.to_plan())

    def to_plan(self) -> object:
        """Give the model as a plan writes it."""
        if isinstance(self.plain, str):
            return self.plain
        path, parameters = self.plain
        return {path: {name: _thaw(value) for name, value in parameters}}

    @property
    def title(self) -> str:
        """A short name for reports."""
        if self.instance is not None:
            return type(self.instance).__name__
        path = self.plain if isinstance(self.plain, str) else self.plain[0]
        return path.rpartition(":")[2]

    def supports(self, task: Task) -> bool:
        """Tell whether this model can do the task."""
        try:
            self.build(task)
        except PlanError:
            return False
        return True

    def build(self, task: Task, random_state: int = 0) -> Any:
        """Give a fresh estimator for a task, its randomness fixed."""
        made = self._made(task)
        if not hasattr(made, _NEEDS[task]) or _contradicts(made, task):
            raise PlanError(f"model: {self.title} is not a model for {task}; named ones: {', '.join(names_for(task))}")
        states = {n: random_state for n in made.get_params() if n == "random_state" or n.endswith("__random_state")}
        return made.set_params(**states) if states else made

    def _made(self, task: Task) -> Any:
        if self.instance is not None:
            from sklearn.base import clone

            return clone(self.instance)
        if not isinstance(self.plain, str):
            return _construct(*self.plain)
        if self.plain not in _NAMED:
            return _construct(self.plain, ())
        if task not in _NAMED[self.plain]:
            raise PlanError(
                f"model: {self.plain!r} is not a model for {task}; named ones: {', '.join(names_for(task))}"
            )
        path, parameters = _NAMED[self.plain][task]
        made = _construct(path, tuple(parameters.items()))
        if self.plain not in _STANDARDIZED:
            return made
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), made)


def names_for(task: Task) -> tuple[str, ...]:
    """List the short names of the models for a task."""
    return tuple(name for name, tasks in _NAMED.items() if task in tasks)


def _contradicts(made: Any, task: Task) -> bool:
    from sklearn.base import is_classifier, is_regressor

    if task == "clustering":
        return False
    return bool(is_regressor(made) if task == "classification" else is_classifier(made))


def _load(path: str) -> Any:
    """Import a class of scikit-learn, or one that an installed package offers."""
    module, _, name = path.partition(":")
    if module == "sklearn" or module.startswith("sklearn."):
        from sklearn.base import BaseEstimator

        try:
            found = getattr(import_module(module), name)
        except (ImportError, AttributeError):
            raise ValueError(
                f"there is no class {path!r} in scikit-learn; expected for example sklearn.svm:SVC"
            ) from None
        if not (isinstance(found, type) and issubclass(found, BaseEstimator)):
            raise ValueError(f"{path!r} is not an estimator of scikit-learn")
        return found
    offered = {point.name: point for point in metadata.entry_points(group=ENTRY_POINTS)}
    if path in offered:
        return offered[path].load()
    hint = did_you_mean(path, [*_NAMED, *offered])
    raise ValueError(f"unknown model {path!r}{hint}; or a class of scikit-learn such as sklearn.svm:SVC")


def _construct(path: str, parameters: tuple[tuple[str, Any], ...]) -> Any:
    return _load(path)(**{name: _build_value(value) for name, value in parameters})


def _check(path: str, parameters: tuple[tuple[str, Any], ...]) -> None:
    """Refuse parameters that the class does not have or that touch files."""
    known = _load(path)._get_param_names()
    for name, _ in parameters:
        if name in REFUSED:
            raise ValueError(f"the parameter {name!r} of {path} reads or writes files and cannot be set")
        if name not in known:
            raise ValueError(f"{path} has no parameter {name!r}{did_you_mean(name, known)}")


def _freeze(value: Any) -> Any:
    """Make a plain value that cannot change; nested models as (path, parameters) marked by a leading None."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return tuple(_freeze(item) for item in value)
    if isinstance(value, Mapping) and len(value) == 1 and ":" in str(next(iter(value))):
        return _Nested(*_parse_path(value))
    if hasattr(value, "get_params") and not isinstance(value, type):
        return _Nested(*_describe(value))
    raise ValueError(f"a parameter of type {type(value).__name__} cannot stand in a plan")


@dataclass(frozen=True)
class _Nested:
    """A model inside a parameter of another."""

    path: str
    parameters: tuple[tuple[str, Any], ...]


def _thaw(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_thaw(item) for item in value]
    if isinstance(value, _Nested):
        return {value.path: {name: _thaw(inner) for name, inner in value.parameters}}
    return value


def _build_value(value: Any) -> Any:
    if isinstance(value, tuple):
        built = [_build_value(item) for item in value]
        return tuple(built) if any(isinstance(item, _Nested) for item in value) else built
    return _construct(value.path, value.parameters) if isinstance(value, _Nested) else value


def _parse_path(spec: Mapping[str, Any]) -> tuple[str, tuple[tuple[str, Any], ...]]:
    ((path, given),) = spec.items()
    if given is not None and not isinstance(given, Mapping):
        raise ValueError(f"{path}: expected a mapping of parameters")
    parameters = tuple(sorted((str(name), _freeze(value)) for name, value in (given or {}).items()))
    _check(str(path), parameters)
    return str(path), parameters


def _describe(estimator: Any) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """Write an estimator of scikit-learn as its public path and the parameters that differ from the defaults."""
    from inspect import signature

    cls = type(estimator)
    module = ".".join(part for part in cls.__module__.split(".") if not part.startswith("_"))
    path = f"{module}:{cls.__name__}"
    if _load(path) is not cls:
        raise ValueError(f"{cls.__name__} is not a public class of scikit-learn")
    given = estimator.get_params(deep=False)
    defaults = {name: parameter.default for name, parameter in signature(cls).parameters.items()}
    changed = {n: v for n, v in given.items() if n != "random_state" and not _same(v, defaults.get(n, _describe))}
    parameters = tuple(sorted((name, _freeze(value)) for name, value in changed.items()))
    _check(path, parameters)
    return path, parameters


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one is other or one == other)


def accept_model(value: Any) -> Model:
    """Take a name, an import path, a path with parameters, or an estimator."""
    if isinstance(value, Model):
        return value
    if isinstance(value, str):
        if value == IN_MEMORY:
            raise ValueError("this plan was made with an estimator in memory; name a class of scikit-learn instead")
        if value not in _NAMED:
            _load(value)
        return Model(value)
    if isinstance(value, Mapping):
        if len(value) != 1:
            raise ValueError("expected one model as `path: {parameters}`")
        name = str(next(iter(value)))
        if name in _NAMED:
            raise ValueError(f"{name!r} takes no parameters; name the class, such as sklearn.svm:SVC")
        path, parameters = _parse_path(value)
        return Model((path, parameters)) if parameters else Model(path)
    if isinstance(value, type) or not all(hasattr(value, name) for name in ("fit", "get_params", "set_params")):
        raise ValueError(f"expected one of {', '.join(_NAMED)}, a class of scikit-learn, or an estimator")
    return _from_estimator(value)


def _from_estimator(estimator: Any) -> Model:
    try:
        path, parameters = _describe(estimator)
    except ValueError:
        from sklearn.base import clone

        return Model(IN_MEMORY, clone(estimator))
    return Model((path, parameters)) if parameters else Model(path)


ModelField = Annotated[
    Model,
    PlainValidator(accept_model),
    PlainSerializer(lambda model: None if model is None else model.to_plan()),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}], "description": "name or path of a model"}),
]
"""A model as a field of a part."""


# Numbers stay as they are; missing ones are filled by the median of the training rows when a model is fitted and are
# marked in a column of their own. Categories become one 0/1 column each, missing among them; ordered categories, and
# categories of more than `MOST_LEVELS` values, become one column of ranks.

MOST_LEVELS = 64
"""Categories of a column that get a 0/1 column each; with more, the matrix would outgrow the data."""


@dataclass(frozen=True)
class Design:
    """Rows as numbers: `names` of the matrix columns, the data column each comes from, and which are 0/1."""

    x: Floats
    names: tuple[str, ...]
    sources: tuple[str, ...]
    indicators: Bools

    def __len__(self) -> int:
        return len(self.x)

    def take(self, rows: NDArray[np.integer]) -> Design:
        """Give some rows."""
        return Design(self.x[rows], self.names, self.sources, self.indicators)

    def only(self, columns: Sequence[str]) -> Design:
        """Give the design of some of the data columns."""
        kept = np.array([source in columns for source in self.sources], dtype=np.bool_)
        places = np.flatnonzero(kept)
        return Design(
            self.x[:, kept],
            tuple(self.names[place] for place in places),
            tuple(self.sources[place] for place in places),
            self.indicators[kept],
        )

    def scaled(self, like: Design) -> Floats:
        """Give complete rows in which columns count alike: numbers by the spread of `like`, categories as 1."""
        medians = medians_of(like.x)
        sd = np.array([sd_of(column) for column in like.x.T]) if len(like.names) else np.ones(0)
        scale = np.where(self.indicators, np.sqrt(2.0), sd)
        return (filled(self.x, medians) - medians) / scale


def medians_of(x: Floats) -> Floats:
    """Give the median of each column's values, 0 for a column without any."""
    return np.array([float(np.median(c[~np.isnan(c)])) if (~np.isnan(c)).any() else 0.0 for c in x.T])


def filled(x: Floats, medians: Floats) -> Floats:
    """Put medians in place of missing values."""
    absent = np.isnan(x)
    return np.where(absent, medians, x) if absent.any() else x


def encode(readings: Sequence[Mapping[str, Values]]) -> list[Design]:
    """Encode several readings of the same columns alike, so that a model fitted to one can be asked about another."""
    blocks: list[list[Floats]] = [[] for _ in readings]
    names: list[str] = []
    sources: list[str] = []
    indicators: list[bool] = []
    for column in readings[0]:
        parts, titles, flags = _encode_column(column, [reading[column] for reading in readings])
        for place, part in enumerate(parts):
            blocks[place].append(part)
        names += titles
        sources += [column] * len(titles)
        indicators += flags
    flags_array = np.array(indicators, dtype=np.bool_)
    return [Design(np.hstack(block), tuple(names), tuple(sources), flags_array) for block in blocks]


def _encode_column(column: str, parts: Sequence[Values]) -> tuple[list[Floats], list[str], list[bool]]:
    labels = [part for part in parts if isinstance(part, Labels)]
    if labels and len(labels) < len(parts):
        raise DataError(f"column {column!r} is a number in one data set and a category in the other")
    if labels:
        labels = merge(labels)
        if not labels[0].ordered and len(labels[0].names) <= MOST_LEVELS:
            levels = [*range(len(labels[0].names)), *([-1] if any((part.codes < 0).any() for part in labels) else [])]
            titles = [f"{column} = {'(missing)' if level < 0 else labels[0].names[level]}" for level in levels]
            return (
                [np.asarray(part.codes[:, None] == np.array(levels)[None, :], dtype=np.float64) for part in labels],
                titles,
                [True] * len(levels),
            )
        return _ranks(column, [np.where(part.codes < 0, np.nan, part.codes.astype(np.float64)) for part in labels])
    return _ranks(column, [part.values for part in parts if isinstance(part, Numbers)])


def _ranks(column: str, parts: Sequence[Floats]) -> tuple[list[Floats], list[str], list[bool]]:
    if not any(np.isnan(part).any() for part in parts):
        return [part.reshape(-1, 1) for part in parts], [column], [False]
    stacked = [np.column_stack([part, np.isnan(part).astype(np.float64)]) for part in parts]
    return stacked, [column, f"{column} = (missing)"], [False, True]


def choose_target(data: Dataset, named: str, who: str) -> str:
    """Give the column to predict: the named one, or the only sensitive one."""
    if named:
        data.require([named])
        return named
    sensitive = data.having("sensitive")
    if len(sensitive) == 1:
        return sensitive[0]
    listed = f" (sensitive: {', '.join(sensitive)})" if sensitive else ""
    raise PlanError(f"{who}: give `target`, the column to predict{listed}")


def choose_features(
    original: Dataset, released: Dataset, named: Sequence[str], target: str, *, who: str, quasi: bool
) -> tuple[str, ...]:
    """Give the columns to predict from: the named ones, or those of the roles that both data sets have."""
    if target in named:
        raise PlanError(f"{who}: {target!r} is the target and cannot be a feature")
    if named:
        original.require(named)
        released.require(named)
        if len(set(named)) < len(named):
            raise PlanError(f"{who}: a feature is named twice")
        return tuple(named)
    chosen = original.choose((), "classes" if quasi else "compare")
    single = [name for name in chosen if name in released.columns and name != target and not _is_set(original, name)]
    if not single:
        raise PlanError(f"{who}: no column is left to predict from; give `features`")
    return tuple(single)


def _is_set(data: Dataset, column: str) -> bool:
    import polars as pl

    return isinstance(data.frame.schema[column], pl.List | pl.Array)


def weights_of(data: Dataset, who: str) -> Floats | None:
    """Give the weights of the rows, where a column has that role."""
    named = data.having("weight")
    if not named:
        return None
    if len(named) > 1:
        raise DataError(f"{who}: several weight columns ({', '.join(named)})")
    weights = data.number(named[0])
    if np.isnan(weights).any() or (weights < 0).any() or not weights.sum() > 0:
        raise DataError(
            f"{who}: the weights in column {named[0]!r} must be numbers of at least 0, not all 0, none missing"
        )
    return weights


def content_order(columns: Sequence[Values]) -> Ints:
    """Order rows by what they hold: the same records give the same order however the file is sorted."""
    keys = [column.values if isinstance(column, Numbers) else column.codes for column in columns]
    return np.lexsort(keys[::-1]).astype(np.int64)


# Compare two models: by what they predict, and by how they are built.


def agreement(one: NDArray[Any], other: NDArray[Any], weights: Floats | None = None) -> float:
    """Give the share of rows on which two predictions are the same."""
    return float(np.average(one == other, weights=weights))


def chance_agreement(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Give the share on which unrelated predictions with these frequencies would agree."""
    first, second = Counter(one.tolist()), Counter(other.tolist())
    return sum(count * second[value] for value, count in first.items()) / (len(one) * len(other))


def precision_recall(
    truth: Ints, predicted: NDArray[Any], names: tuple[str, ...], weights: Floats | None = None
) -> dict[str, dict[str, float | None]]:
    """Give precision and recall of each class, None where nothing was predicted or nothing is there."""
    w = np.ones(len(truth)) if weights is None else weights
    found: dict[str, dict[str, float | None]] = {}
    for code, name in enumerate(names):
        right = float(w[(truth == code) & (predicted == code)].sum())
        said, there = float(w[predicted == code].sum()), float(w[truth == code].sum())
        found[name] = {
            "precision": right / said if said > 0 else None,
            "recall": right / there if there > 0 else None,
        }
    return found


def describe(fitted: Fitted, design: Design) -> dict[str, Any]:
    """Say how a model is built, as far as its kind allows: tree, importance of the columns, coefficients."""
    core = fitted.estimator
    if core is not None and getattr(core, "steps", None):
        core = core.steps[-1][1]
    found: dict[str, Any] = {}
    if (tree := getattr(core, "tree_", None)) is not None:
        splits = [design.sources[int(place)] for place in tree.feature if place >= 0]
        found |= {"leaves": int(tree.n_leaves), "depth": int(tree.max_depth), "split_columns": splits}
    if (weights := getattr(core, "feature_importances_", None)) is not None and len(weights) == len(design.names):
        found["importance"] = _per_source(np.asarray(weights), design)
    coefficients = getattr(core, "coef_", None)
    if coefficients is not None and np.shape(coefficients)[-1] == len(design.names):
        rows = np.atleast_2d(np.asarray(coefficients, dtype=np.float64))
        found["coefficients"] = {name: [float(v) for v in rows[:, j]] for j, name in enumerate(design.names)}
    return found


def _per_source(weights: Floats, design: Design) -> dict[str, float]:
    found = dict.fromkeys(dict.fromkeys(design.sources), 0.0)
    for source, weight in zip(design.sources, weights, strict=True):
        found[source] += float(weight)
    return found


def compare_structure(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Compare two descriptions: shared splits, distance of importances (0 to 1), distance of coefficients."""
    found: dict[str, Any] = {"original": one, "released": other}
    if "split_columns" in one and "split_columns" in other:
        first, second = Counter(one["split_columns"]), Counter(other["split_columns"])
        union = sum((first | second).values())
        found["same_first_split"] = one["split_columns"][:1] == other["split_columns"][:1]
        found["shared_splits"] = sum((first & second).values()) / union if union else 1.0
    if "importance" in one and "importance" in other:
        gaps = [abs(weight - other["importance"].get(name, 0.0)) for name, weight in one["importance"].items()]
        found["importance_distance"] = float(sum(gaps) / 2)
    if "coefficients" in one and "coefficients" in other:
        found["coefficient_distance"] = _coefficient_distance(one["coefficients"], other["coefficients"])
    return found


def _coefficient_distance(one: dict[str, list[float]], other: dict[str, list[float]]) -> float | None:
    """Give ‖difference‖ / ‖original's‖ over the coefficients that both have; None where they cannot be compared."""
    shared = [name for name in one if name in other and len(one[name]) == len(other[name])]
    first, second = (np.array([v for name in shared for v in side[name]]) for side in (one, other))
    size = float(np.linalg.norm(first))
    return float(np.linalg.norm(first - second)) / size if size > 0 else None


# Shadow models: learn from models of one's own how a model treats the records it was trained on (R7).
#
# The intruder has records like those of the training data and knows the algorithm. They train shadow models on random
# halves, note how each shadow treats records it has and has not seen, learn from that a classifier "seen or not", and
# apply it to the model under attack. The signals are the confidence in the true value (as a logit; for numbers minus
# the absolute error in standard deviations), the same compared with what shadows say that have not seen the record,
# and whether the prediction is right.

SURE = 1e-6
"""Probabilities are kept this far from 0 and 1, so that their logits are finite."""


@dataclass(frozen=True)
class Pool:
    """Records that an intruder asks models about, and the same records as they would be trained on."""

    task: Task
    asked: Design
    truth: Values
    trained: Design
    trained_truth: Values

    def __len__(self) -> int:
        return len(self.asked)


def confidence(fitted: Fitted, pool: Pool) -> Floats:
    """Give how sure a model is of the true value of each record."""
    if isinstance(pool.truth, Numbers):
        truth = pool.truth.values
        return -np.abs(np.asarray(fitted.predict(pool.asked)) - truth) / max(float(truth.std()), 1e-300)
    shares = fitted.probabilities(pool.asked, len(pool.truth.names))
    true_share = np.clip(shares[np.arange(len(pool)), pool.truth.codes], SURE, 1 - SURE)
    return np.asarray(np.log(true_share / (1 - true_share)), dtype=np.float64)


def _right(fitted: Fitted, pool: Pool) -> Floats:
    if not isinstance(pool.truth, Labels):
        return np.zeros(len(pool))
    return np.asarray(fitted.predict(pool.asked) == target_array(pool.truth), dtype=np.float64)


@dataclass(frozen=True)
class Shadows:
    """What the shadow models say of every record, and which had seen it."""

    seen: Bools
    confidence: Floats
    right: Floats
    weights: Floats
    """of the attack's classifier: for each standardized signal, and the constant"""
    center: Floats
    scale: Floats

    def score(self, confidence: Floats, right: Floats) -> Floats:
        """Give the log-odds that a model with these signals has seen each record."""
        signals = _signals(confidence, right, _unseen_mean(self.seen, self.confidence))
        return np.asarray((signals - self.center) / self.scale @ self.weights[:-1] + self.weights[-1])


def _unseen_mean(seen: Bools, confidence: Floats, leave_out: int = -1) -> Floats:
    """Give the mean confidence in each record of the shadows that have not seen it (of all, where each has)."""
    use = ~seen
    if leave_out >= 0:
        use = use.copy()
        use[leave_out] = False
    count = use.sum(axis=0)
    mean = (confidence * use).sum(axis=0) / np.maximum(count, 1)
    return np.asarray(np.where(count > 0, mean, confidence.mean(axis=0)))


def _signals(confidence: Floats, right: Floats, unseen: Floats) -> Floats:
    return np.column_stack([confidence, confidence - unseen, right])


def train_shadows(pool: Pool, model: Model, number: int, size: int, rng: np.random.Generator, ctx: Context) -> Shadows:
    """Train shadow models on random sets of records and learn what gives away a record that was seen."""
    draws = seeds(rng)
    seen = np.zeros((number, len(pool)), dtype=np.bool_)
    sure, right = np.zeros((number, len(pool))), np.zeros((number, len(pool)))
    for shadow in range(number):
        ctx.progress(shadow, number, "membership-inference: shadows")
        rows = np.sort(rng.permutation(len(pool))[:size])
        seen[shadow, rows] = True
        fitted = train(pool, model, rows, next(draws))
        sure[shadow], right[shadow] = confidence(fitted, pool), _right(fitted, pool)
    ctx.progress(number, number, "membership-inference: shadows")
    signals = np.vstack([_signals(sure[i], right[i], _unseen_mean(seen, sure, i)) for i in range(number)])
    center, scale = signals.mean(axis=0), signals.std(axis=0)
    scale[scale == 0] = 1.0
    return Shadows(seen, sure, right, _learn((signals - center) / scale, seen.ravel()), center, scale)


def train(pool: Pool, model: Model, rows: Ints, seed: int) -> Fitted:
    """Train a model on some records of a pool."""
    return fit(model, pool.task, pool.trained, pool.trained_truth, rows, seed)


def attack(shadows: Shadows, pool: Pool, fitted: Fitted) -> Floats:
    """Give each record the log-odds that this model was trained on it."""
    return shadows.score(confidence(fitted, pool), _right(fitted, pool))


def _learn(signals: Floats, seen: Bools) -> Floats:
    """Fit the attack's classifier: a logistic regression of "seen" on the signals."""
    from sklearn.linear_model import LogisticRegression

    classifier = LogisticRegression(max_iter=1000).fit(signals, seen)
    return np.append(classifier.coef_[0], classifier.intercept_[0])


LARGEST_SEED = 2**32
"""scikit-learn takes seeds below this."""


@dataclass(frozen=True)
class Fitted:
    """A fitted model; classes are codes of the target's names."""

    estimator: Any
    """None where the training rows had one class only: it is always predicted"""
    medians: Floats
    classes: Ints
    weighted: bool
    converged: bool

    def predict(self, design: Design) -> NDArray[Any]:
        """Predict the target of each row: a code or a number."""
        if not len(design):
            return np.zeros(0)
        if self.estimator is None:
            return np.full(len(design), self.classes[0])
        return np.asarray(self.estimator.predict(filled(design.x, self.medians)))

    def probabilities(self, design: Design, classes: int) -> Floats:
        """Give the probability of each class; a model without probabilities is sure of what it predicts."""
        shares = np.zeros((len(design), classes))
        if self.estimator is None or not hasattr(self.estimator, "predict_proba"):
            shares[np.arange(len(design)), self.predict(design).astype(np.int64)] = 1.0
        else:
            shares[:, self.classes] = self.estimator.predict_proba(filled(design.x, self.medians))
        return shares


def target_array(values: Values) -> NDArray[Any]:
    """Give a target as models take it: codes or numbers."""
    return values.values if isinstance(values, Numbers) else values.codes


def fit(
    model: Model, task: Task, design: Design, target: Values, rows: Ints, seed: int, weights: Floats | None = None
) -> Fitted:
    """Fit a model to the given rows that have a target."""
    rows = rows[~target.missing[rows]]
    if not len(rows):
        raise DataError("no row to train the model on has a value of the target")
    x, y = design.x[rows], target_array(target)[rows]
    medians = medians_of(x)
    classes = np.unique(y).astype(np.int64) if task == "classification" else np.zeros(0, dtype=np.int64)
    if len(classes) == 1:
        return Fitted(None, medians, classes, True, True)
    estimator = model.build(task, seed)
    keyword = None if weights is None else weight_keyword(estimator)
    given = {} if keyword is None or weights is None else {keyword: weights[rows]}
    converged = run_quietly(model, lambda: estimator.fit(filled(x, medians), y, **given))
    return Fitted(estimator, medians, classes, weights is None or keyword is not None, converged)


@cache
def _threads() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def run_quietly(model: Model, work: Any) -> bool:
    """Fit in one thread, turning refusals into a PlanError; tell whether the model converged.

    Sums over several threads are rounded differently from run to run; the same seed must give the same figure. An
    estimator with `n_jobs` of its own may still work in parallel.
    """
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught, _threads().limit(limits=1):
        warnings.simplefilter("always")
        try:
            work()
        except (ValueError, TypeError) as error:
            raise PlanError(f"model: {model.title} cannot be fitted to this data: {error}") from None
    return not any(issubclass(item.category, ConvergenceWarning) for item in caught)


def weight_keyword(estimator: Any) -> str | None:
    """Give the keyword by which an estimator (or the last step of a pipeline) takes weights, if it does."""
    from sklearn.utils.validation import has_fit_parameter

    steps = getattr(estimator, "steps", None)
    if steps:
        name, last = steps[-1]
        return f"{name}__sample_weight" if has_fit_parameter(last, "sample_weight") else None
    return "sample_weight" if has_fit_parameter(estimator, "sample_weight") else None


def seeds(rng: np.random.Generator) -> Iterator[int]:
    """Draw seeds for estimators."""
    while True:
        yield int(rng.integers(LARGEST_SEED))


def folds(target: Values, number: int, rng: np.random.Generator) -> Ints:
    """Divide people into folds at random, each class evenly; gives the fold of each."""
    n = len(target.missing)
    if n < number:
        raise DataError(f"{n} rows cannot be divided into {number} folds; give fewer `folds` or more rows")
    shuffled = rng.permutation(n)
    if isinstance(target, Labels):
        shuffled = shuffled[np.argsort(target.codes[shuffled], kind="stable")]
    fold = np.empty(n, dtype=np.int64)
    fold[shuffled] = np.arange(n) % number
    return fold


# The same model trained on the original and on the release, both tested on the same held-out original rows.


@dataclass(frozen=True)
class Trial:
    """What both models say about the tested people; `weights` are theirs."""

    case: Case
    model: Model
    tested: Ints
    ours: NDArray[Any]
    """predictions of the model trained on the original"""
    theirs: NDArray[Any]
    """predictions of the model trained on the release"""
    weights: Floats | None
    structure: dict[str, Any]
    weighted: bool
    not_converged: int

    def facts(self) -> dict[str, Any]:
        """Give what every report of a trial says."""
        return {
            "target": self.case.target,
            "features": list(self.case.features),
            "model": self.model.title,
            "people_tested": len(self.tested),
            "held_out_by_person": self.case.aligned,
            "weights": "none"
            if self.weights is None
            else "in training and test"
            if self.weighted
            else "in the test only",
            "fits_not_converged": self.not_converged,
        }


def run_trial(
    original: Dataset,
    released: Dataset,
    target: str,
    features: Sequence[str],
    model: Model,
    parts: int,
    task: Task,
    who: str,
    ctx: Context,
) -> Trial:
    """Train and test fold by fold, then compare the models trained on everybody."""
    model.build(task)
    target = choose_target(original, target, who)
    chosen = choose_features(original, released, features, target, who=who, quasi=False)
    original, released, aligned = match_rows(original, released, who)
    case = build_case(original, released, chosen, target, who=who, task=task, aligned=aligned, weighted=True)
    rng = ctx.rng
    fold, seed = folds(case.truth, parts, rng), next(seeds(rng))
    ours, theirs = np.zeros(len(case.known)), np.zeros(len(case.known))
    fits: list[Fitted] = []
    for part in range(parts):
        ctx.progress(part, parts + 1, who)
        people = np.flatnonzero((fold == part) & case.tested)
        one, other = _fit_both(case, model, np.flatnonzero(fold != part), case.training_rows(fold, part), seed)
        ours[people] = one.predict(case.original.take(people))
        theirs[people] = other.predict(case.known.take(people))
        fits += [one, other]
    ctx.progress(parts, parts + 1, who)
    whole = _fit_both(case, model, np.arange(len(case.known)), np.arange(len(case.published)), seed)
    ctx.progress(parts + 1, parts + 1, who)
    tested = np.flatnonzero(case.tested)
    return Trial(
        case,
        model,
        tested,
        ours[tested],
        theirs[tested],
        None if case.weights is None else case.weights[tested],
        compare_structure(describe(whole[0], case.original), describe(whole[1], case.published)),
        all(fitted.weighted for fitted in fits),
        sum(not fitted.converged for fitted in fits),
    )


def _fit_both(case: Case, model: Model, ours: Ints, theirs: Ints, seed: int) -> tuple[Fitted, Fitted]:
    return (
        fit(model, case.task, case.original, case.truth, ours, seed, case.weights),
        fit(model, case.task, case.published, case.published_target, theirs, seed, case.published_weights),
    )


@dataclass(frozen=True)
class Case:
    """Rows are ordered by what they hold, so that the order of the file does not matter; `order` leads back to it."""

    task: Task
    features: tuple[str, ...]
    target: str
    original: Design
    """the original's features in their own detail"""
    known: Design
    """the original's features in the detail of the release"""
    published: Design
    truth: Values
    """the original's target, in the detail of the release"""
    published_target: Values
    weights: Floats | None
    published_weights: Floats | None
    order: Ints
    """the row of the original at each place"""
    aligned: bool
    """place i of the original and of the release is the same person"""

    @property
    def names(self) -> tuple[str, ...]:
        """The classes of the target."""
        return self.truth.names if isinstance(self.truth, Labels) else ()

    @property
    def tested(self) -> Bools:
        """Tell who can be tested: people whose true value is known."""
        return ~self.truth.missing

    def training_rows(self, fold: Ints, left_out: int) -> Ints:
        """Give the published rows that do not belong to the people of a fold; all, where rows are not matched."""
        if not self.aligned:
            return np.arange(len(self.published))
        return np.flatnonzero(fold != left_out)

    def back(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Put values in the order of the original's rows."""
        out = np.empty(len(values))
        out[self.order] = values
        return out


def match_rows(original: Dataset, released: Dataset, who: str) -> tuple[Dataset, Dataset, bool]:
    """Match rows where they can be matched; otherwise say that they are not."""
    try:
        return (*align(original, released, who), True)
    except DataError:
        if released.origin is original.origin and not released.has_new_rows:
            raise
        return original, released, False


def build_case(
    original: Dataset,
    released: Dataset,
    features: Sequence[str],
    target: str,
    *,
    who: str,
    task: Task | None = None,
    aligned: bool = True,
    weighted: bool = False,
) -> Case:
    """Read features and target from both data sets; without a task, the type of the target decides."""
    released.require([target])
    purpose: Purpose = "utility" if task == "regression" else "model"
    truth, published_target = outside_view(
        original, released, target, aligned=aligned, categories=task == "classification", purpose=purpose
    )
    task, truth, published_target = _settle(task, truth, published_target, target, who)
    views = {name: outside_view(original, released, name, aligned=aligned) for name in features}
    weights = weights_of(original, who) if weighted else None
    published_weights = weights_of(released, who) if weighted else None
    ours = [view[0] for view in views.values()] + [truth] + _numbers(weights)
    theirs = [view[1] for view in views.values()] + [published_target] + _numbers(published_weights)
    own = {name: read_column(original, name) for name in features}
    ours += list(own.values())
    order = content_order([*ours, *theirs] if aligned else ours)
    published_order = order if aligned else content_order(theirs)
    known, published = encode(
        [
            {name: view[0].take(order) for name, view in views.items()},
            {name: view[1].take(published_order) for name, view in views.items()},
        ]
    )
    coarse = any(_differ(own[name], views[name][0]) for name in features)
    return Case(
        task,
        tuple(features),
        target,
        encode([{name: values.take(order) for name, values in own.items()}])[0] if coarse else known,
        known,
        published,
        truth.take(order),
        published_target.take(published_order),
        None if weights is None else weights[order],
        None if published_weights is None else published_weights[published_order],
        order,
        aligned,
    )


def _differ(own: Values, known: Values) -> bool:
    """Tell whether a column is known in less detail than it has."""
    if isinstance(own, Labels) and isinstance(known, Labels):
        return own.names != known.names
    return type(own) is not type(known)


def _numbers(weights: Floats | None) -> list[Values]:
    return [] if weights is None else [Numbers(weights)]


def _settle(task: Task | None, truth: Values, published: Values, target: str, who: str) -> tuple[Task, Values, Values]:
    """Check that the target suits the task and give both readings the same names."""
    if truth.missing.all() or published.missing.all():
        where = "original" if truth.missing.all() else "release"
        raise DataError(f"{who}: the target {target!r} has no values in the {where}")
    if isinstance(truth, Numbers) and isinstance(published, Numbers):
        return "regression", truth, published
    if not (isinstance(truth, Labels) and isinstance(published, Labels)):
        raise DataError(f"{who}: the target {target!r} is a number in one data set and a category in the other")
    if task == "regression":
        raise DataError(f"{who}: the target {target!r} is not a number in both data sets")
    truth, published = merge([truth, published])
    tested = int((~truth.missing).sum())
    if len(np.unique(truth.codes[truth.codes >= 0])) > max(2, tested / 2):
        raise DataError(
            f"{who}: the target {target!r} has a value of its own in most of {tested} rows; a class needs several rows"
        )
    return "classification", truth, published
