"""Which sums of sensitive values an answer tells, and which questions have no true answer at all."""

from __future__ import annotations

from collections.abc import Mapping

from discretion.errors import QueryRefused
from discretion.online.audit.linear import SQUARES, SUM
from discretion.online.catalog import TableSpec
from discretion.online.query import Query

Moments = Mapping[str, tuple[int, ...]]
"""Sensitive columns, and which powers of their values are added up."""
_POWERS = {"sum": (SUM,), "mean": (SUM,), "variance": (SUM, SQUARES)}


def moments_of(query: Query, table: TableSpec) -> Moments:
    """Give what a question adds up of sensitive columns, or refuse it.

    - Counts over public properties add nothing: anybody could make them. Figures of public columns neither.
    - A sum or a mean is Σx (the number of people is public); a variance is Σx and Σx².
    - A minimum, maximum, quantile, number of different values or a histogram of a sensitive column is not linear: the
      value told belongs to somebody. It is refused; ask under differential privacy.
    - A condition or a group on a sensitive column would make the query set itself depend on values, and so a refusal.
    """
    for name in sorted(query.columns_in_where() | set(query.group_by)):
        if table.column(name).role != "public":
            raise QueryRefused(f"true answers cannot be chosen by the sensitive column {name!r}")
    for aggregate in query.aggregates:
        if aggregate.function == "mode":
            raise QueryRefused("the most frequent category is told under differential privacy only")
        if aggregate.column is None or table.column(aggregate.column).role == "public":
            continue
        if aggregate.function not in _POWERS:
            what = f"{aggregate.function!r} of the sensitive column {aggregate.column!r}"
            raise QueryRefused(f"{what} would tell a value of somebody; there is no true answer to it")
    return told_moments(query, table)


def told_moments(query: Query, table: TableSpec) -> Moments:
    """Give what an answered question added up, also when the declaration has changed since.

    Who was in its query sets stands in the ledger, so it does not matter whether its conditions could be asked today.
    A column that is hidden today, or not declared, keeps what was told about it.
    """
    found: dict[str, set[int]] = {}
    for aggregate in query.aggregates:
        if aggregate.column is not None and aggregate.column not in table.public and aggregate.function in _POWERS:
            found.setdefault(aggregate.column, set()).update(_POWERS[aggregate.function])
    return {column: tuple(sorted(powers)) for column, powers in sorted(found.items())}
