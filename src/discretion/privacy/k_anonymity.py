"""k-anonymity: nobody is alone with the values an intruder may know, and no household with its members (M1)."""

from __future__ import annotations

from typing import Any, ClassVar, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.codes import Missing, wildcard_sizes
from discretion.data.dataset import Dataset
from discretion.data.households import count_units, find_households, unit_codes
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools
from discretion.model import FailingClass, PrivacyModel, Verdict, whole
from discretion.part import Columns, confidential
from discretion.privacy.class_table import SHOWN, ClassModel, ClassTable, Count, complete_rows


class KAnonymity(ClassModel, kind="k-anonymity"):
    """Every combination of quasi-identifier values that occurs, occurs in at least k records.

    Then nobody who knows only these values can tell a person's record from k−1 others. Does not protect against
    attribute disclosure: if all k records share the same secret, it is known without finding the record. Assumes
    that the quasi-identifiers are all that an intruder may know.

    Where the schema declares a household or another unit (roles `household`, `unit`: a panel person, an employer), k
    counts different units: k members of one household are k = 1, because whoever knows that household knows that the
    record is one of its members'. It does so also where the unit's column itself is not published. With several kinds
    of units the fewest count; records whose unit is missing are one unit together. `count: records` counts records.

    How a missing value counts is explicit: `category` (as a value of its own, the strict reading), `wildcard` (it may
    be anything, so it matches every value; with `alpha` below 1 a matching record that has missing values, also the
    record itself, counts only that much) or `ignore` (records with a missing quasi-identifier are left out). The
    verdict's detail holds the figure under the other readings too. Time O(n·columns), memory linear; several
    readings only where something is missing; units under `wildcard` take the number of different rows times that of
    those with missing values.

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

    count: Count = "units"
    """what k counts: different households (or other units) where the schema declares them, or records"""

    bound: ClassVar[str] = "k"
    attacker: ClassVar[str] = (
        "somebody who knows a person's quasi-identifiers, and nothing else about the person or the method"
    )
    monotone: ClassVar[bool] = True  # a class only grows, and so does the number of its units
    monotone_without_suppression: ClassVar[bool] = True

    @model_validator(mode="after")
    def _alpha_for_wildcards(self) -> Self:
        if self.alpha < 1 and self.missing != "wildcard":
            raise ValueError("`alpha` has a meaning only with `missing: wildcard`")
        return self

    @property
    def smallest_class(self) -> int:
        """Smaller classes fail."""
        return self.k

    def failing(self, table: ClassTable) -> Bools:
        """Tell which classes have too few records, or too few units."""
        return np.asarray(table.counted(self.count) < self.k)

    def reached(self, table: ClassTable) -> float:
        """Give the size of the smallest class."""
        return float(table.counted(self.count).min())

    def check(self, released: Dataset, ctx: Context, *, original: Dataset | None = None) -> Verdict:  # noqa: ARG002
        """Count the classes and compare the smallest with k."""
        columns = released.choose(self.columns, "classes")
        units = unit_codes(released) if self.count == "units" else ()
        what = "units" if units else "records"
        detail: dict[str, Any] = {"columns": list(columns), "missing": self.missing, "counted": what}
        if not units and not any(released.count_missing(name) for name in columns):
            counts = released.class_counts(columns)
            small = counts[counts < self.k]
            return self._verdict(released, columns, int(counts.min()), len(small), int(small.sum()), detail)
        for reading in get_args(Missing) if any(released.count_missing(name) for name in columns) else ():
            sizes = self._sizes(released, columns, reading)
            if not np.isnan(sizes).all():
                detail[f"k_{reading}"] = whole(np.nanmin(sizes))
                detail[f"records_below_k_{reading}"] = released.tally(sizes < self.k)
        sizes = self._sizes(released, columns, self.missing)
        if np.isnan(sizes).all():
            raise DataError("k-anonymity: every record has a missing quasi-identifier; nothing is left to count")
        if units:
            detail["k_records"] = int(released.class_counts(columns).min())
        rows = np.flatnonzero(sizes < self.k)
        classes = len(np.unique(released.classes(columns).ids[rows]))
        below = released.tally(sizes < self.k)
        return self._verdict(released, columns, float(np.nanmin(sizes)), classes, below, detail)

    def _sizes(self, data: Dataset, columns: tuple[str, ...], reading: Missing) -> NDArray[np.float64]:
        """Give each record the records, or the units, that it may be confused with."""
        from discretion.kernels.classes import wildcard_units

        units = unit_codes(data) if self.count == "units" else ()
        if units and self.alpha < 1:
            raise PlanError(
                "k-anonymity: `alpha` weighs records; where k counts units, say `count: records` or alpha 1"
            )
        coded = [data.codes(name) for name in columns]
        codes, cardinalities = [c.codes for c in coded], [c.size for c in coded]
        missing = [c.missing if c.missing >= 0 else None for c in coded]
        if reading == "wildcard" and units and any(c.missing >= 0 for c in coded):
            return np.asarray(np.minimum.reduce([wildcard_units(codes, missing, cardinalities, of) for of in units]))
        if units:
            classes = data.classes(columns)
            counts = count_units(units, classes.ids, len(classes))
            sizes = np.asarray(classes.counts if counts is None else counts, np.float64)[classes.ids]
            return np.where(complete_rows(data, columns), sizes, np.nan) if reading == "ignore" else sizes
        if reading != "wildcard" or self.alpha == 1:
            return data.class_sizes(columns, reading)
        return wildcard_sizes(coded, data.counts, self.alpha)

    def _verdict(
        self,
        data: Dataset,
        columns: tuple[str, ...],
        value: float,
        classes: int,
        records: int,
        detail: dict[str, Any],
    ) -> Verdict:
        of = f"records of {value:g} different units" if detail["counted"] == "units" else f"{value:g} records"
        return Verdict(
            model=self.kind,
            holds=value >= self.k,
            value=whole(value),
            required=self.k,
            meaning=f"The smallest group of records that agree on the quasi-identifiers has {of}.",
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


class HouseholdKAnonymity(PrivacyModel, kind="household-k-anonymity"):
    """Every composition of a household that occurs, occurs in at least k households.

    The composition is the number of members together with the quasi-identifier values of each, whatever their order.
    Then nobody who knows all members of a household can tell it from k−1 others. Persons may be k-anonymous while their
    household is not: a mother of five is one of many women of her age, and the only one with five children. Asks for
    more than `KAnonymity`, and holds for persons too: each stands in k different households. Does not protect against
    attribute disclosure, nor against what is published of the household as a whole (size of the dwelling, weight)
    unless these columns are quasi-identifiers. A missing value is a value of its own; a release that does not publish
    whose records belong together cannot be checked by it. Time O(n log n), memory linear.

    References
    ----------
    Hundepool et al. (2012), Statistical disclosure control, 3.3 (household files); catalogue M1.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> homes = pl.DataFrame({"home": [1, 1, 2, 2, 3, 3], "age": ["30s", "0s", "0s", "30s", "30s", "30s"]})
    >>> verdict = dc.HouseholdKAnonymity(k=2, columns=["age"], household="home")(homes)
    >>> dc.KAnonymity(k=2, columns=["age"])(homes).holds, verdict.holds, verdict.failing_count
    (True, False, 1)
    """

    k: int = confidential(ge=1)
    """smallest allowed number of households with the same composition"""
    columns: Columns = ()
    """columns of the members an intruder may know; without it, the quasi-identifiers"""
    household: str = ""
    """column with the number of the household; without it, the one with that role"""

    attacker: ClassVar[str] = "somebody who knows the quasi-identifiers of all the members of a household"

    def check(self, released: Dataset, ctx: Context, *, original: Dataset | None = None) -> Verdict:  # noqa: ARG002
        """Count the households of each composition."""
        columns = released.choose(self.columns, "classes")
        if not self.household and not released.having("household"):
            raise PlanError(
                f"{self.kind}: the release has no column with the role household, so that nothing tells whose records "
                "belong together; name one as `household`"
            )
        homes = find_households(released, self.household)
        kinds, first, counts = np.unique(homes.kinds(released, columns), return_index=True, return_counts=True)
        small = counts < self.k
        records = int((homes.sizes[first] * counts)[small].sum())
        value = int(counts.min())

        def failing() -> tuple[FailingClass, ...]:
            rarest = np.flatnonzero(small)[np.argsort(counts[small], kind="stable")[:SHOWN]]
            order = np.argsort(homes.of, kind="stable")
            starts = np.searchsorted(homes.of[order], first[rarest])
            found = []
            for place, start in zip(rarest.tolist(), starts.tolist(), strict=True):
                members = order[start : start + int(homes.sizes[first[place]])]
                keys = sorted(
                    ", ".join("missing" if text is None else text for text in released.class_key(columns, row).values())
                    for row in members
                )
                found.append(FailingClass({f"member {n + 1}": key for n, key in enumerate(keys)}, float(counts[place])))
            return tuple(found)

        return Verdict(
            model=self.kind,
            holds=value >= self.k,
            value=value,
            required=self.k,
            meaning=f"The rarest composition of a household (size and members' values) occurs in {value} households.",
            failing_count=int(small.sum()),
            failing_records=records,
            detail={
                "columns": list(columns),
                "household": homes.column,
                "households": len(homes),
                "compositions": len(kinds),
                "failing_households": int(counts[small].sum()),
            },
            find_failing=failing,
        )
