"""Identifiers never leave the house: they are dropped, or replaced by a keyed pseudonym (D5)."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import ClassVar

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.data.schema import Schema
from discretion.errors import PlanError
from discretion.method import Decision, Method, Purpose
from discretion.part import Columns, FileName, Scale, confidential

_SHORTEST_KEY = 16


def _identifiers(data: Dataset, columns: Columns) -> tuple[str, ...]:
    if columns:
        return data.choose(columns, "classes")
    found = data.having("identifier")
    if not found:
        raise PlanError("no column has the role `identifier`; give `columns`")
    return found


class DropIdentifiers(Method, kind="drop-identifiers"):
    """Remove the columns that name people directly.

    Guarantees that names, numbers and addresses in those columns are not published. Does not protect against
    recognition by the remaining columns: age, place and occupation together often name a person as well.

    References
    ----------
    Catalogue D5.

    Examples
    --------
    >>> import discretion as dc
    >>> people = dc.datasets.census(100, seed=1)
    >>> "name" in dc.DropIdentifiers()(people).columns
    False
    """

    columns: Columns = ()
    """columns to remove; without it, the columns whose role is `identifier`"""

    scale: ClassVar[Scale] = "rows"
    perturbs: ClassVar[bool] = False
    purpose: ClassVar[Purpose] = "take out"
    effect: ClassVar[str] = "None: the columns that are left are untouched."
    guarantee: ClassVar[str] = (
        "Direct identifiers were removed. People may still be recognized by their other characteristics."
    )

    def removes(self, schema: Schema) -> tuple[str, ...]:
        """Name the identifiers."""
        return self.columns or schema.having("identifier")

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Drop the columns."""
        return data.drop(_identifiers(data, self.columns))


class Pseudonymize(Method, kind="pseudonymize"):
    """Replace identifiers by pseudonyms that only the holder of a secret key can reproduce.

    The pseudonym is the first 128 bits of HMAC-SHA-256 of the column name and the value, so that the same person
    gets the same pseudonym in every delivery made with the same key, and different columns cannot be joined.
    Does not make the data anonymous: a pseudonym still singles a person out and links deliveries, and whoever holds
    the key can test any guess. Missing values stay missing.

    References
    ----------
    Catalogue D5; RFC 2104 (HMAC).

    Examples
    --------
    >>> import pathlib, tempfile, discretion as dc
    >>> key = pathlib.Path(tempfile.mkdtemp()) / "key"
    >>> _ = key.write_bytes(b"a secret of at least sixteen bytes")
    >>> people = dc.Pseudonymize(columns="person_id", key_file=str(key))(dc.datasets.census(100, seed=1))
    >>> people.frame["person_id"].str.len_chars().unique().to_list()
    [32]
    """

    columns: Columns = ()
    """columns to replace; without it, the columns whose role is `identifier`"""
    key_file: FileName = confidential(path=True)
    """file with the secret key (at least 16 bytes); keep it out of the release"""

    perturbs: ClassVar[bool] = False
    purpose: ClassVar[Purpose] = "take out"
    effect: ClassVar[str] = "None; the pseudonym joins records of one person and means nothing else."
    guarantee: ClassVar[str] = (
        "Direct identifiers were replaced by keyed pseudonyms. A pseudonym still tells which records belong "
        "to one person."
    )

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:  # noqa: ARG002
        """Hash each distinct value once, then map the rows."""
        path = Path(self.key_file)
        if not path.is_file():
            raise PlanError(f"pseudonymize: no key file {self.key_file!r}")
        key = path.read_bytes().strip()
        if len(key) < _SHORTEST_KEY:
            raise PlanError(f"pseudonymize: the key has {len(key)} bytes; at least {_SHORTEST_KEY} are needed")
        columns = _identifiers(data, self.columns)
        schema = data.schema
        for name in columns:
            schema = schema.with_column(name, roles=("other",), type="nominal", hierarchy=None)
        return data.with_columns({name: _pseudonyms(data, name, key) for name in columns}).with_schema(schema)


def _pseudonyms(data: Dataset, column: str, key: bytes) -> object:
    import numpy as np
    import polars as pl

    codes = data.codes(column)
    names = [
        None
        if value is None
        else hmac.new(key, f"{column}\0{canonical(value)}".encode(), hashlib.sha256).hexdigest()[:32]
        for value in codes.values
    ]
    return pl.Series(column, names, dtype=pl.String).gather(codes.codes.astype(np.uint32))
