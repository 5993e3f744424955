"""Synthetic files of a table: a private generator of the registry, its values declared by the owner of the table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.finite import bounding_numbers
from discretion.errors import PlanError, QueryRefused
from discretion.method import Decision, Method
from discretion.online.backend import Backend
from discretion.online.catalog import TableSpec
from discretion.online.column import ColumnSpec
from discretion.part import find, parse

_STEPS = 16
"""classes of a bounded number, where the owner declares none"""
_OWN = ("person", "rows_per_person", "delta")
"""fields that follow from the table and the policy"""
NOTE = (
    "all rows are synthetic; asking for the same file again costs nothing and gives the same one. Intervals computed "
    "from it do not know its noise"
)


@dataclass(frozen=True)
class SyntheticFile:
    """One file that a user may have: the generator with everything it needs, and its name in the ledger."""

    table: TableSpec
    generator: Method

    @classmethod
    def of(cls, table: TableSpec, epsilon: float | None, delta: float) -> SyntheticFile:
        """Build the generator that the owner named, with the values the table declares; reads no data."""
        if table.synthetic is None:
            raise QueryRefused("the owner of this table hands out no synthetic file")
        ((kind, given),) = table.synthetic.items()
        fields = dict(given or {})
        if not getattr(find(kind), "private", False):
            raise PlanError(f"table {table.name!r}: synthetic: {kind} gives no differential privacy")
        wrong = [name for name in _OWN if name in fields]
        if wrong:
            raise PlanError(f"table {table.name!r}: synthetic: `{wrong[0]}` follows from the table and the policy")
        if table.adjacency != "add-remove":
            raise PlanError(f"table {table.name!r}: synthetic files protect the presence of people (`add-remove`)")
        dropped = fields.get("drop", ())
        wanted = [name for name in table.visible if name not in dropped]
        declared = {name: _values(name, table.columns[name]) for name in wanted if name not in fields.get("domain", {})}
        fields["domain"] = {**declared, **fields.get("domain", {})}
        fields |= {} if epsilon is None else {"epsilon": epsilon}
        fields.setdefault("epsilon", 1.0)
        person = {} if table.person is None else {"person": _person(table), "rows_per_person": table.rows_per_person}
        made = parse({kind: {**fields, "delta": delta, **person}}, "method")
        if not isinstance(made, Method):
            raise PlanError(f"table {table.name!r}: synthetic: {kind} is not a method")
        made.ready(Dataset(_frame(table, {name: [] for name in table.visible}, [])))
        return cls(table, made)

    @property
    def text(self) -> str:
        """The question for the ledger."""
        return json.dumps({"synthetic": self.generator.to_plan()}, sort_keys=True, ensure_ascii=False)

    @property
    def digest(self) -> str:
        """The name of the question: equal files have equal ones."""
        return hashlib.sha256(f"{self.table.name}\n{self.text}".encode()).hexdigest()

    def learn(self, backend: Backend) -> str:
        """Read the data once and give what the generator learned, with its noise, for the ledger."""
        columns = {name: backend.column(self.table.name, name) for name in self.table.visible}
        with bounding_numbers(True):  # an error about one number would tell of its person
            data = Dataset(_frame(self.table, columns, backend.person_of_rows(self.table.name)))
            return self.generator.fit(data, Context(0, "synthetic")).to_json()

    def write(self, learned: str) -> Any:
        """Give the rows, dates as text; the same noisy tables give the same rows. Reads no data."""
        import polars as pl

        seed = int.from_bytes(hashlib.sha256(learned.encode()).digest()[:16], "big")
        empty = Dataset(_frame(self.table, {name: [] for name in self.table.visible}, []))
        made = self.generator.rewrite(empty, Decision.from_json(learned), Context(seed, "synthetic")).frame
        return made.with_columns(made[name].cast(pl.String) for name in made.columns if made[name].dtype.is_temporal())


def _values(name: str, column: ColumnSpec) -> dict[str, Any]:
    """Give the declared values of a column: categories, truth, or equal steps between the bounds."""
    if column.keys:
        return {"categories": list(column.keys), "missing": True}
    if column.bounds is None:
        raise PlanError(
            f"synthetic: column {name!r} has no declared `categories` or `bounds`; declare them, its values in the "
            "generator's `domain`, or name it in `drop`"
        )
    low, high = column.bounds
    cuts: list[Any] = [low + (high - low) * i / _STEPS for i in range(_STEPS + 1)]
    if column.type == "integer":
        cuts = sorted({round(cut) for cut in cuts})
    return {"cuts": cuts, "missing": True}


def _person(table: TableSpec) -> str:
    name = "person of the row"
    while name in table.columns:
        name += "_"
    return name


def _frame(table: TableSpec, columns: Mapping[str, Any], person: Any) -> Any:
    import polars as pl

    known = {} if table.person is None else {_person(table): person}
    return pl.DataFrame({**columns, **known})
