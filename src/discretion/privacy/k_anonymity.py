"""k-anonymity: nobody is alone with the values an intruder may know (M1)."""

from __future__ import annotations

from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.codes import Missing
from discretion.data.dataset import Dataset
from discretion.errors import DataError
from discretion.model import FailingClass, Verdict, whole
from discretion.part import confidential
from discretion.privacy.class_table import SHOWN, Bools, ClassModel, ClassTable


class KAnonymity(ClassModel, kind="k-anonymity"):
    """Every combination of quasi-identifier values that occurs, occurs in at least k records.

    Then nobody who knows only these values can tell a person's record from k−1 others. Does not protect against
    attribute disclosure: if all k records share the same secret, it is known without finding the record. Assumes
    that the quasi-identifiers are all that an intruder may know.

    How a missing value counts is explicit: `category` (as a value of its own, the strict reading), `wildcard` (it may
    be anything, so it matches every value; with `alpha` below 1 a matching record that has missing values, also the
    record itself, counts only that much) or `ignore` (records with a missing quasi-identifier are left out). The
    verdict's detail holds the figure under the other readings too. Time O(n·columns), memory linear; several
    readings only where something is missing.

    References
    ----------
    Samarati (2001), IEEE TKDE 13(6); Sweeney (2002); catalogue M1.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> table = pl.DataFrame({"zip": ["80122"] * 3 + ["97234"] * 3, "sex": ["M"] * 3 + ["F"] * 3})
    >>> dc.KAnonymity(k=3, columns=["zip", "sex"])(table).holds
    True
    """

    k: int = confidential(ge=1)
    """smallest allowed class size"""
    missing: Missing = "category"  # type: ignore[assignment]
    """how a missing value counts: as a category of its own, as matching anything, or by leaving its record out"""
    alpha: float = Field(1.0, ge=0, le=1)
    """with `missing: wildcard`, how much a matching record with missing values counts: 1 fully, 0 not at all (one that
    is the same in all columns, missing ones included, always counts fully)"""

    monotone: ClassVar[bool] = True  # a class only grows
    monotone_without_suppression: ClassVar[bool] = True

    @model_validator(mode="after")
    def _alpha_for_wildcards(self) -> Self:
        if self.alpha < 1 and self.missing != "wildcard":
            raise ValueError("`alpha` has a meaning only with `missing: wildcard`")
        return self

    @property
    def required(self) -> float:
        """The smallest allowed class size."""
        return self.k

    @property
    def smallest_class(self) -> int:
        """Smaller classes fail."""
        return self.k

    def failing(self, table: ClassTable) -> Bools:
        """Tell which classes are too small."""
        return np.asarray(table.sizes < self.k)

    def reached(self, table: ClassTable) -> float:
        """Give the size of the smallest class."""
        return float(table.sizes.min())

    def check(self, released: Dataset, ctx: Context, *, original: Dataset | None = None) -> Verdict:  # noqa: ARG002
        """Count the classes and compare the smallest with k."""
        columns = released.choose(self.columns, "classes")
        detail: dict[str, Any] = {"columns": list(columns), "missing": self.missing}
        if not any(released.count_missing(name) for name in columns):
            counts = released.class_counts(columns)
            small = counts[counts < self.k]
            return self._verdict(released, columns, int(counts.min()), len(small), int(small.sum()), detail)
        for reading in get_args(Missing):
            sizes = self._sizes(released, columns, reading)
            if not np.isnan(sizes).all():
                detail[f"k_{reading}"] = whole(np.nanmin(sizes))
                detail[f"records_below_k_{reading}"] = int((sizes < self.k).sum())
        sizes = self._sizes(released, columns, self.missing)
        if np.isnan(sizes).all():
            raise DataError("k-anonymity: every record has a missing quasi-identifier; nothing is left to count")
        rows = np.flatnonzero(sizes < self.k)
        classes = len(np.unique(released.classes(columns).ids[rows]))
        return self._verdict(released, columns, float(np.nanmin(sizes)), classes, len(rows), detail)

    def _sizes(self, data: Dataset, columns: tuple[str, ...], reading: Missing) -> NDArray[np.float64]:
        if reading != "wildcard" or self.alpha == 1:
            return data.class_sizes(columns, reading)
        from discretion.kernels.wildcard import wildcard_counts

        coded = [data.codes(name) for name in columns]
        missing = [c.missing if c.missing >= 0 else None for c in coded]
        return wildcard_counts([c.codes for c in coded], missing, [c.size for c in coded], alpha=self.alpha)[0]

    def _verdict(
        self,
        data: Dataset,
        columns: tuple[str, ...],
        value: float,
        classes: int,
        records: int,
        detail: dict[str, Any],
    ) -> Verdict:
        return Verdict(
            model=self.kind,
            holds=value >= self.k,
            value=whole(value),
            required=self.k,
            meaning=f"The smallest group of records that agree on the quasi-identifiers has {value:g} records.",
            failing_count=classes,
            failing_records=records,
            detail=detail,
            find_failing=lambda: self._failing(data, columns) if classes else (),
        )

    def _failing(self, data: Dataset, columns: tuple[str, ...]) -> tuple[FailingClass, ...]:
        sizes = self._sizes(data, columns, self.missing)
        classes = data.classes(columns)
        rows = classes.first_rows[np.unique(classes.ids[sizes < self.k])]
        rows = rows[np.argsort(sizes[rows], kind="stable")[:SHOWN]]
        return tuple(FailingClass(data.class_key(columns, row), float(sizes[row])) for row in rows)
