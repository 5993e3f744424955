"""The role and the type of each column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from types import MappingProxyType
from typing import Any, Literal, get_args

from discretion.data.hierarchy import Hierarchy
from discretion.errors import PlanError, unknown

Role = Literal["identifier", "quasi", "sensitive", "weight", "household", "unit", "stratum", "geography", "other"]
Type = Literal["continuous", "ordinal", "nominal", "set", "date"]

ROLES: tuple[Role, ...] = get_args(Role)
TYPES: tuple[Type, ...] = get_args(Type)

_TOGETHER = {
    frozenset(pair)
    for pair in (
        ("quasi", "sensitive"),
        ("quasi", "geography"),
        ("quasi", "stratum"),
        ("geography", "stratum"),
        ("household", "geography"),
    )
}
"""Pairs of roles one column may have; every other pair contradicts itself."""


@dataclass(frozen=True)
class Column:
    """What is known about one column."""

    roles: tuple[Role, ...] = ("other",)
    has_role: bool = False
    """whether somebody gave the roles, or nobody thought about this column"""
    type: Type | None = None
    hierarchy: Hierarchy | None = None
    missing_codes: tuple[str | float, ...] = ()
    missing_ranges: tuple[tuple[str | float, str | float], ...] = ()
    """ranges of such values (from, to) as an SPSS file defines them"""
    order: tuple[str, ...] = ()
    label: str = ""
    value_labels: Mapping[str | float, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class Schema:
    """Column → role, type, hierarchy, missing codes and labels. Columns that are not listed have the role `other`."""

    columns: Mapping[str, Column] = field(default_factory=lambda: MappingProxyType({}))
    edit_rules: tuple[str, ...] = ()
    """what every record fulfils: ranges, conditions, sums, skip patterns (`discretion.data.rules`)"""

    @classmethod
    def build(
        cls,
        roles: Mapping[str, object] | None = None,
        types: Mapping[str, object] | None = None,
        hierarchies: Mapping[str, object] | None = None,
        missing_codes: Mapping[str, object] | None = None,
        orders: Mapping[str, Sequence[object]] | None = None,
        edit_rules: Sequence[str] = (),
    ) -> Schema:
        """Put a schema together from one mapping per property; all faults are reported at once."""
        problems: list[str] = []
        columns: dict[str, Column] = {}

        def update(name: str, **changes: Any) -> None:
            columns[name] = replace(columns.get(name, Column()), **changes)

        for name, value in (roles or {}).items():
            update(name, roles=_parse_roles(name, value, problems), has_role=True)
        for name, value in (types or {}).items():
            if value not in TYPES:
                problems.append(f"types.{name}: {unknown('type', str(value), TYPES)}")
            else:
                update(name, type=value)
        for name, value in (hierarchies or {}).items():
            try:
                update(name, hierarchy=Hierarchy.of(value))
            except PlanError as error:
                problems += [f"hierarchies.{name}: {text}" for text in error.problems]
        for name, value in (missing_codes or {}).items():
            update(name, missing_codes=tuple(value) if isinstance(value, list | tuple) else (value,))
        for name, order in (orders or {}).items():
            if not isinstance(order, list | tuple):
                problems.append(f"orders.{name}: expected the list of values from low to high")
            else:
                update(name, order=tuple(str(item) for item in order), type="ordinal")
        problems += _rule_faults(edit_rules)
        if problems:
            raise PlanError(problems)
        return cls(MappingProxyType(columns), tuple(edit_rules))

    def __getitem__(self, column: str) -> Column:
        return self.columns.get(column, _UNKNOWN)

    def having(self, *roles: Role) -> tuple[str, ...]:
        """Name the columns that have any of these roles, in the order of the schema."""
        return tuple(name for name, column in self.columns.items() if set(roles) & set(column.roles))

    @property
    def has_roles(self) -> bool:
        """Tell whether any column was given a role."""
        return any(column.roles != ("other",) for column in self.columns.values())

    def with_column(self, name: str, **changes: Any) -> Schema:
        """Give the schema with some properties of one column replaced."""
        columns = dict(self.columns)
        columns[name] = replace(self[name], **changes)
        return replace(self, columns=MappingProxyType(columns))

    def overlaid(self, given: Schema) -> Schema:
        """Give the schema with what another one says of each column; what it does not say stays."""
        schema = replace(self, edit_rules=given.edit_rules or self.edit_rules)
        for name, column in given.columns.items():
            said = {key: value for key, value in vars(column).items() if value != getattr(_UNKNOWN, key)}
            schema = schema.with_column(name, **said)
        return schema

    def only(self, names: Iterable[str]) -> Schema:
        """Give the schema of some columns."""
        kept = {name: self.columns[name] for name in names if name in self.columns}
        return replace(self, columns=MappingProxyType(kept))


_UNKNOWN = Column()


def _rule_faults(texts: Sequence[str]) -> list[str]:
    """Word what is wrong with edit rules."""
    if not texts:
        return []
    from discretion.data.rules import read_edit_rules

    try:
        read_edit_rules(tuple(texts))
    except PlanError as error:
        return list(error.problems)
    return []


def _parse_roles(name: str, value: object, problems: list[str]) -> tuple[Role, ...]:
    given = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else None
    if not given:
        problems.append(f"roles.{name}: expected a role or a list of roles, one of {', '.join(ROLES)}")
        return ("other",)
    known: list[Role] = []
    for role in given:
        if role in ROLES:
            known.append(role)
        else:
            problems.append(f"roles.{name}: {unknown('role', str(role), ROLES)}")
    problems += [
        f"roles.{name}: the roles {one!r} and {other!r} contradict each other"
        for one, other in combinations(dict.fromkeys(known), 2)
        if frozenset((one, other)) not in _TOGETHER
    ]
    return tuple(dict.fromkeys(known)) or ("other",)
