"""Declarations from the data at hand: for one table in Python, and as a first draft of a service file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discretion.errors import PlanError
from discretion.online.catalog import ServiceSpec

if TYPE_CHECKING:
    import polars as pl

    from discretion.data.dataset import Dataset

_ROLES = {"identifier": "hidden", "weight": "hidden", "household": "hidden", "sensitive": "sensitive"}
_KNOWN = ("quasi", "stratum", "geography")
_YES_OR_NO = ({"yes", "no"}, {"true", "false"}, {"0", "1"})
_LETTERS = ({"y", "n"}, {"t", "f"})


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
    """Propose what to declare: what intruders know by its role is public, identifiers and weights hidden, all else not.

    A column without a role is sensitive: nothing is public unless the owner said so.
    """
    return {name: {"role": _role(data.schema[name].roles), "type": type_of(data, name)} for name in data.columns}


def _role(roles: Collection[str]) -> str:
    listed = [_ROLES[role] for role in _ROLES if role in roles]
    return listed[0] if listed else "public" if any(role in roles for role in _KNOWN) else "sensitive"


def type_of(data: Dataset, name: str) -> str:
    """Give the type of a column as a service declares it; numbers 0 and 1, and the texts yes and no, are truths."""
    kind = data.frame.schema[name]
    if _is_yes_or_no(data.frame[name]):
        return "truth"
    if kind.is_integer():
        return "integer"
    if kind.is_numeric():
        return "number"
    return "date" if str(kind) == "Date" else "category"


def _is_yes_or_no(values: pl.Series) -> bool:
    import polars as pl

    if values.dtype == pl.Boolean:
        return True
    if values.dtype.is_numeric():
        present = (values.fill_nan(None) if values.dtype.is_float() else values).drop_nulls()
        return len(present) > 0 and bool(((present == 0) | (present == 1)).all())
    if values.dtype not in (pl.String, pl.Categorical, pl.Enum):
        return False
    texts = set(values.cast(pl.String).drop_nulls().unique().str.strip_chars().str.to_lowercase().to_list())
    return texts in _LETTERS or (bool(texts) and any(texts <= words for words in _YES_OR_NO))
