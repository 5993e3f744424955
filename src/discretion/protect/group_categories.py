"""Categories are put together (P2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator, model_validator

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, unknown
from discretion.method import Decision, Method
from discretion.part import FrozenMapping, confidential
from discretion.protect.ordered import category_order


def _listed(given: object) -> object:
    """Take one member without a list, or several between bars (as on the command line); numbers as text."""
    if isinstance(given, str):
        return tuple(given.split("|"))
    if isinstance(given, bool | int | float):
        return (canonical(given),)
    if isinstance(given, list | tuple):
        return tuple(canonical(item) if isinstance(item, bool | int | float) else item for item in given)
    return given


Members = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class GroupCategories(Method, kind="group-categories"):
    """Put categories together under one label.

    Either `groups` name the members of each new category, and the others stay as they are; or every category with fewer
    records than `smaller_than` is pooled under `label`. If the pool itself is too small, the next smallest category
    joins it: guarantees then that every category that is left has at least that many records. Nothing false is said,
    only less. Does not by itself give k-anonymity: *combinations* of categories may still be rare. A label that is
    already a category (in small or large letters) is joined with it. Missing values stay missing and do not count as a
    category; the column becomes text. On a column with an order the label takes the place of its lowest member.

    The grouping can be re-used on the next delivery; there, a category that was not seen when it was fitted counts as
    small and is pooled. Time linear.

    References
    ----------
    Willenborg & de Waal (2001), Elements of statistical disclosure control (global recoding); catalogue P2.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> jobs = pl.DataFrame({"job": ["nurse", "nurse", "doctor", "mayor", "judge"]})
    >>> dc.GroupCategories(column="job", groups={"health": ["nurse", "doctor"]})(jobs)["job"].to_list()
    ['health', 'health', 'health', 'mayor', 'judge']
    >>> dc.GroupCategories(column="job", smaller_than=2)(jobs)["job"].to_list()
    ['nurse', 'nurse', 'other', 'other', 'other']
    """

    column: str
    """column whose categories are grouped"""
    groups: FrozenMapping[str, Members] | None = None
    """new label and its members, for example {health: [nurse, doctor]}; on the command line health=nurse|doctor"""
    smaller_than: int | None = confidential(None, ge=2)
    """pool the categories with fewer records than this"""
    label: str = "other"
    """name of the pool, for `smaller_than`"""

    perturbs: ClassVar[bool] = False
    guarantee: ClassVar[str] = "Categories were put together; what is said is true, but less detailed."

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.groups is None) == (self.smaller_than is None):
            raise ValueError("give exactly one of `groups` and `smaller_than`")
        if self.groups is not None and (not self.groups or not all(self.groups.values())):
            raise ValueError("`groups` needs at least one label, each with at least one member")
        seen: dict[str, str] = {}
        for label, members in (self.groups or {}).items():
            for member in members:
                if seen.setdefault(member, label) != label:
                    raise ValueError(f"{member!r} is in two groups, {seen[member]!r} and {label!r}")
        return self

    def fit(self, data: Dataset, ctx: Context) -> Decision:  # noqa: ARG002
        """Check the members, or find the categories that are large enough."""
        counts = _counts(data, self.column)
        if self.groups is not None:
            order, names = category_order(data, self.column), data.schema[self.column].value_labels
            known = {*counts, *order, *(canonical(value) for value in names)}
            members = {member: label for label, listed in self.groups.items() for member in listed}
            lacking = [name for name in members if name not in known]
            if lacking:
                faults = [f"column {self.column!r}: {unknown('category', name, known)}" for name in lacking]
                raise DataError("\n".join(faults))
            return Decision(MappingProxyType({"members": members}))
        label = next((name for name in counts if name.casefold() == self.label.casefold()), self.label)
        label = self.label if self.label in counts else label
        return Decision(MappingProxyType({"kept": self._large(counts), "label": label}))

    def _large(self, counts: Mapping[str, int]) -> list[str]:
        """Name the categories that stay; the pool takes the smallest ones until it is large enough itself."""
        least = self.smaller_than or 0
        if sum(counts.values()) < least:
            raise DataError(f"column {self.column!r} has fewer values than a category needs; nothing can be pooled")
        ranked = sorted(counts, key=lambda name: (counts[name], name))
        pooled = {name for name in ranked if counts[name] < least or name.casefold() == self.label.casefold()}
        size = sum(counts[name] for name in pooled)
        for name in ranked:
            if not pooled or size >= least:
                break
            if name not in pooled:
                pooled.add(name)
                size += counts[name]
        return sorted(set(counts) - pooled)

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Map each category once, then the rows."""
        import polars as pl

        data.require([self.column])
        codes = data.codes(self.column)
        rename = _renaming(decision.values)
        texts = [None if value is None else rename(canonical(value)) for value in codes.values]
        labels = pl.Series(self.column, texts, dtype=pl.String)
        result = data.with_columns({self.column: labels.gather(codes.codes.astype(np.uint32))})
        order = category_order(data, self.column)
        if not order:
            return result
        new = tuple(dict.fromkeys(rename(level) for level in order))
        return result.with_schema(result.schema.with_column(self.column, order=new, type="ordinal"))


def _renaming(decision: Mapping[str, Any]) -> Callable[[str], str]:
    """Give the function from an old category to its new name."""
    if "members" in decision:
        members: Mapping[str, str] = decision["members"]
        return lambda category: members.get(category, category)
    kept, pool = frozenset(decision["kept"]), str(decision["label"])
    return lambda category: category if category in kept else pool


def _counts(data: Dataset, column: str) -> dict[str, int]:
    """Count the records of each category, missing left out."""
    data.require([column])
    if data.type_of(column) == "set" or data.frame.schema[column].is_nested():
        raise DataError(f"column {column!r} holds sets; a column of categories is needed")
    codes = data.codes(column)
    totals = np.bincount(codes.codes, minlength=codes.size)
    counts = {canonical(v): int(n) for v, n in zip(codes.values, totals, strict=True) if v is not None}
    if not counts:
        raise DataError(f"column {column!r} has no values")
    return counts
