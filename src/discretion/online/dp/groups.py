"""Groups of private answers: declared keys are all answered, others only when enough people stand behind them."""

from __future__ import annotations

from collections.abc import Mapping

from discretion.errors import DataError, PlanError
from discretion.online.backend import Bounded, GroupKey
from discretion.online.catalog import TableSpec
from discretion.online.dp.mechanisms import Threshold
from discretion.online.dp.sensitivity import MANY
from discretion.online.query import Query


def number_of_groups(query: Query, table: TableSpec) -> int:
    """Count the groups of an answer as far as they are declared; `MANY` when their keys are not."""
    return table.count_declared_groups(query.group_by) or MANY


def in_order(key: GroupKey) -> tuple[tuple[bool, str, str], ...]:
    """Give what keys are sorted by: nothing but the key itself, so that the order tells nothing."""
    return tuple((value is None, type(value).__name__, str(value)) for value in key)


def declared(query: Query, table: TableSpec, found: Mapping[GroupKey, Bounded]) -> dict[GroupKey, Bounded]:
    """Give the figures of every declared group, in the declared order, the empty ones too, and of no other."""
    keys = table.declared_groups(query.group_by)
    if keys is None:
        raise PlanError("the keys of these groups are not declared; they must pass a threshold")
    missing = sum(key not in found for key in keys)
    if missing:
        raise DataError(f"the database gave no figures for {missing} of {len(keys)} declared groups")
    return {key: found[key] for key in keys}


def passing(found: Mapping[GroupKey, Bounded], threshold: Threshold) -> dict[GroupKey, int]:
    """Give the keys that enough people stand behind, with their noisy numbers of people."""
    keys = sorted((key for key, group in found.items() if (group.people or 0) > 0), key=in_order)
    released = threshold.release({number: found[key].people or 0 for number, key in enumerate(keys)})
    return {keys[number]: count for number, count in released.items()}
