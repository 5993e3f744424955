"""Declarations from the data at hand: for one table in Python, and as a first draft of a service file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.errors import PlanError
from discretion.online.catalog import ServiceSpec

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset

_ROLES = (("identifier", "hidden"), ("weight", "hidden"), ("sensitive", "sensitive"))


def declare(
    source: Any,
    *,
    table: str,
    ledger: str,
    columns: Mapping[str, Any] | None = None,
    policy: Any = None,
    users: Mapping[str, Any] | None = None,
    **options: Any,
) -> ServiceSpec:
    """Declare a service for one table; columns that are not given come from the roles of a Dataset's schema."""
    from discretion.data.dataset import Dataset

    if columns is None:
        if not isinstance(source, Dataset):
            raise PlanError("declare the `columns` of the table, or give a Dataset with roles")
        columns = columns_of(source)
    path = str(source) if isinstance(source, str | Path) else None
    content: dict[str, Any] = {
        "tables": {table: {"columns": columns, "source": path, **options}},
        "users": {"analyst": {}} if users is None else users,
        "ledger": ledger,
    }
    return ServiceSpec(**(content if policy is None else {**content, "policy": policy}))


def columns_of(data: Dataset) -> dict[str, dict[str, Any]]:
    """Propose what to declare: sensitive columns as sensitive, identifiers and weights hidden, all others public."""
    return {name: {"role": _role(data.schema[name].roles), "type": type_of(data, name)} for name in data.columns}


def _role(roles: Collection[str]) -> str:
    return next((declared for role, declared in _ROLES if role in roles), "public")


def type_of(data: Dataset, name: str) -> str:
    """Give the type of a column as a service declares it."""
    kind = data.frame.schema[name]
    if kind.is_integer():
        return "integer"
    if kind.is_numeric():
        return "number"
    text = str(kind)
    return {"Boolean": "truth", "Date": "date"}.get(text, "category")
