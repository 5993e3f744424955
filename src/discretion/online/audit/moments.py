"""Which sums of sensitive values an answer tells, and which questions have no true answer at all."""

from __future__ import annotations

from collections.abc import Mapping

from discretion.errors import QueryRefused
from discretion.online.audit.linear import SQUARES, SUM
from discretion.online.catalog import TableSpec
from discretion.online.query import Query

Moments = Mapping[str, tuple[int, ...]]
"""Sensitive columns, and which powers of their values are added up."""


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
    found: dict[str, set[int]] = {}
    for aggregate in query.aggregates:
        if aggregate.column is None or table.column(aggregate.column).role == "public":
            continue
        if aggregate.function not in ("sum", "mean", "variance"):
            what = f"{aggregate.function!r} of the sensitive column {aggregate.column!r}"
            raise QueryRefused(f"{what} would tell a value of somebody; there is no true answer to it")
        powers = {SUM, SQUARES} if aggregate.function == "variance" else {SUM}
        found.setdefault(aggregate.column, set()).update(powers)
    return {column: tuple(sorted(powers)) for column, powers in sorted(found.items())}
