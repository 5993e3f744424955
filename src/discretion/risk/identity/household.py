"""Household risk: who finds one member has found the household, and a family may be rare as a whole. (R10)"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import Households, find_households
from discretion.errors import PlanError
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family
from discretion.risk.identity.individual import WeightedRisk
from discretion.risk.identity.truthful import having_column, said, source_of, warning

Floats = NDArray[np.float64]


class HouseholdRisk(WeightedRisk, kind="household-risk"):
    """Probability that at least one member of each record's household is found.

    Whoever finds one member of a household in a file with household numbers has found all of them. The risk of a
    household is 1 − Π(1−r) over its members, r their individual risks (see `IndividualRisk`), as if members were found
    independently of each other. The value is the mean over the records; `per_record` is the risk of the record's
    household. Does not see households that are conspicuous as a whole: by their size, or by a combination of members
    that nobody else has (see `HouseholdUniqueness`). Assumes unperturbed quasi-identifiers. Time linear.

    References
    ----------
    Templ, Kowarik & Meindl (2015), J. Stat. Softw. 67(4); Franconi & Polettini (2004); catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> table = pl.DataFrame({"zip": ["40831", "40831", "97206"], "w": [18.0, 92.0, 17.0], "home": [1, 2, 2]})
    >>> dc.HouseholdRisk(columns=["zip"], weight="w", household="home")(table).per_record.round(6).tolist()
    [0.017144, 0.191184, 0.191184]
    """

    household: str = ""
    """column with the number of the household; without it, the one with that role"""

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Estimate every class, then multiply within households."""
        columns = released.choose(self.columns, "classes")
        homes = _households(self.kind, self.household, original, released)
        sizes = self.sizes(original, released, columns)
        risk = self.risks(sizes)
        counted = ~np.isnan(risk)
        per_home = _at_least_one(risk[counted], homes.of[counted], len(homes))
        per_record = np.where(counted, per_home[homes.of], np.nan)
        value = float(per_record[counted].mean())
        there = np.bincount(homes.of[counted], minlength=len(homes)) > 0
        warned = warning(original, released, columns)
        meaning = (
            f"{as_percent(value)} of the records are expected to belong to a household of which a member is found "
            f"(of single records: {as_percent(float(risk[counted].mean()))})."
        )
        return self.score(
            value,
            said(meaning, warned),
            per_record=per_record,
            columns=list(columns),
            household=homes.column,
            records=int(counted.sum()),
            households=int(there.sum()),
            expected_records=float(per_record[counted].sum()),
            expected_households=float(per_home[there].sum()),
            highest=float(per_home[there].max()),
            individual_risk=float(risk[counted].mean()),
            chance=1.0 / max(sizes.total, 1.0),
            **warned,
        )


class HouseholdUniqueness(Measure, kind="household-uniqueness"):
    """Share of records that live in a household whose composition nobody else has.

    The composition is the number of members together with the quasi-identifier values of each, whatever their order.
    Such a household is found, with all its members, by anybody who knows the family; persons may be k-anonymous at the
    same time. `per_record` is 1/(households with the same composition): the probability of picking the right one.
    Where the release has no household column, the households of the original are taken: equal weights, equal addresses
    or neighboring rows may tell them. A missing value is a value of its own. Assumes unperturbed quasi-identifiers, and
    warns where they were perturbed. Time O(n log n), memory linear.

    References
    ----------
    Hundepool et al. (2012), Statistical disclosure control, 3.3 (household files); catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> homes = pl.DataFrame({"home": [1, 1, 2, 2, 3, 3], "age": ["30s", "0s", "0s", "30s", "30s", "30s"]})
    >>> dc.HouseholdUniqueness(columns=["age"], household="home")(homes).value
    0.3333333333333333
    """

    columns: Columns = ()
    """columns of the members an intruder may know; without it, the quasi-identifiers"""
    household: str = ""
    """column with the number of the household; without it, the one with that role"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Literal["both", "released"]] = "released"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Count the households of each composition."""
        columns = released.choose(self.columns, "classes")
        homes = _households(self.kind, self.household, original, released)
        kinds, number, counts = np.unique(homes.kinds(released, columns), return_inverse=True, return_counts=True)
        of_home = counts[number]
        unique = of_home == 1
        value = float(unique[homes.of].mean())
        warned = warning(original, released, columns)
        chance = 1.0 / len(homes)
        meaning = (
            f"{as_percent(value)} of the records live in a household whose composition nobody else has "
            f"(guessing finds {as_percent(chance)} of the households)."
        )
        return self.score(
            value,
            said(meaning, warned),
            per_record=1.0 / of_home[homes.of],
            columns=list(columns),
            household=homes.column,
            published=homes.column in released.columns,
            records=len(homes.of),
            households=len(homes),
            compositions=len(kinds),
            unique_households=int(unique.sum()),
            mean_risk=float((1.0 / of_home[homes.of]).mean()),
            chance=chance,
            **warned,
        )


def _households(kind: str, named: str, original: Dataset, released: Dataset) -> Households:
    """Find the households of the released records: in the release, or in the data it came from."""
    if named:
        return find_households(having_column(original, released, named), named)
    for data in (released, source_of(original, released)):
        if data is not None and data.having("household"):
            return find_households(data)
    raise PlanError(f"{kind}: no column has the role household; name one as `household`")


def _at_least_one(risk: Floats, home: NDArray[np.int64], homes: int) -> Floats:
    """Give 1 − Π(1−r) for each household."""
    with np.errstate(divide="ignore"):
        nobody = np.bincount(home, np.log1p(-risk), homes)
    return np.asarray(-np.expm1(nobody))
