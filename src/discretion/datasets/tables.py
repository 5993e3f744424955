"""The worked tables by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from discretion.datasets import anonymity, answers, losses, perturbation
from discretion.errors import PlanError, unknown

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset

_FUNCTIONS: tuple[Callable[[], Dataset | tuple[Dataset, ...]], ...] = (
    anonymity.identified_people,
    anonymity.people_without_names,
    anonymity.three_anonymous,
    anonymity.homogeneous_classes,
    anonymity.diverse_classes,
    anonymity.generalization_example,
    anonymity.generalized_release,
    anonymity.teachers_list,
    answers.adjacent_ages,
    answers.coin_answers,
    answers.schizophrenia_counts,
    answers.students,
    perturbation.linkage_example,
    perturbation.divergence_example,
    perturbation.error_example,
    perturbation.noise_example,
    perturbation.rank_swap_example,
    perturbation.microaggregation_example,
    losses.precision_example,
    losses.class_sizes,
    losses.entropy_example,
    losses.tree_predictions,
)

_TABLES: Mapping[str, Callable[[], Dataset | tuple[Dataset, ...]]] = MappingProxyType(
    {function.__name__.replace("_", "-"): function for function in _FUNCTIONS}
)


def names() -> tuple[str, ...]:
    """Name the worked tables."""
    return tuple(_TABLES)


def table(name: str) -> Dataset | tuple[Dataset, ...]:
    """Give a worked table by name; several versions (the original first) come as a tuple.

    Examples
    --------
    >>> from discretion.datasets import table
    >>> table("three-anonymous")
    Dataset(6 rows × 4 columns: occupation [quasi], zip [quasi], sex [quasi], income [sensitive])
    """
    if name not in _TABLES:
        raise PlanError(unknown("table", name, _TABLES))
    return _TABLES[name]()


def describe(name: str) -> str:
    """Say in one line what a worked table shows."""
    if name not in _TABLES:
        raise PlanError(unknown("table", name, _TABLES))
    return (_TABLES[name].__doc__ or "").partition("\n")[0]
