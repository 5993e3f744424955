"""Which model to fit: a short name, the import path of a scikit-learn class, or an estimator object.

A plan names a model as `tree`, as `sklearn.svm:SVC`, or with parameters as `{"sklearn.svm:SVC": {"C": 10}}`. Only
classes of scikit-learn, and those that installed packages offer under the entry point group `discretion.estimators`,
can be named: a plan never runs code of its choice. Parameters are plain values or further models; those that read or
write files are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module, metadata
from typing import Annotated, Any, Literal

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from discretion.errors import PlanError, did_you_mean

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
