"""The search for releases that satisfy privacy models and lose as little as possible.

The package has the name of its main function and can be called like it: `dc.anonymize(people, models=[…])`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discretion.anonymize.solutions import Solution
    from discretion.context import Progress


def anonymize(
    data: Any,
    models: Sequence[Any],
    loss: str = "loss",
    suppression_limit: float = 0.0,
    columns: Sequence[str] | None = None,
    importance: Mapping[str, float] | None = None,
    levels: Mapping[str, object] | None = None,
    suppression_factor: float = 0.5,
    aggregate: str | None = None,
    summarize: Mapping[str, str] | None = None,
    cluster: Sequence[str] | None = None,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Find the least lossy generalization of the quasi-identifiers that satisfies all the models.

    The parameters are those of `OptimalGeneralization`, which is the same search as a step of a plan. `models` are
    privacy models or what a plan writes for them (`{"k-anonymity": {"k": 5}}`). The result has `levels`, `score`,
    `suppressed`, `classes`, `dataset`, `proven`, `bound`, `space` and `plan_step()`.

    Examples
    --------
    >>> import discretion as dc
    >>> from discretion.anonymize import anonymize
    >>> people = dc.datasets.census(1000, seed=1)
    >>> found = anonymize(people, [dc.KAnonymity(k=5)], columns=["age", "sex", "region"], suppression_limit=0.02)
    >>> dc.KAnonymity(k=5, columns=["age", "sex", "region"])(found.dataset).holds, found.proven
    (True, True)
    """
    from discretion.anonymize.optimal import OptimalGeneralization
    from discretion.data.dataset import Dataset

    fields: dict[str, Any] = {
        "columns": columns,
        "importance": importance,
        "levels": levels,
        "aggregate": aggregate,
        "summarize": summarize,
        "cluster": cluster,
        "seconds": seconds,
    }
    method = OptimalGeneralization(
        models=models,
        loss=loss,
        suppression_limit=suppression_limit,
        suppression_factor=suppression_factor,
        **{name: value for name, value in fields.items() if value is not None},
    )
    return method.solve(Dataset.of(data), progress)


class _Callable(ModuleType):
    """A module that can be called: once it is imported, it takes the place of the function in its parent package."""

    def __call__(self, *args: Any, **fields: Any) -> Solution:
        return anonymize(*args, **fields)


sys.modules[__name__].__class__ = _Callable
