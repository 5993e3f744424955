"""Household risk: who finds one member has found the household. (R10)"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.households import Households, find_households
from discretion.errors import PlanError
from discretion.measure import Score, as_percent
from discretion.risk.identity.individual import WeightedRisk
from discretion.risk.identity.truthful import having_column, said, source_of, warning

Floats = NDArray[np.float64]


class HouseholdRisk(WeightedRisk, kind="household-risk"):
    """Probability that at least one member of each record's household is found.

    Whoever finds one member of a household in a file with household numbers has found all of them. The risk of a
    household is 1 − Π(1−r) over its members, r their individual risks (see `IndividualRisk`), as if members were found
    independently of each other. The value is the mean over the records; `per_record` is the risk of the record's
    household. Does not see households that are conspicuous as a whole: by their size, or by a combination of members
    that nobody else has. Assumes unperturbed quasi-identifiers. Time linear.

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
        homes = self._households(original, released)
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

    def _households(self, original: Dataset, released: Dataset) -> Households:
        if self.household:
            return find_households(having_column(original, released, self.household), self.household)
        for data in (released, source_of(original, released)):
            if data is not None and data.having("household"):
                return find_households(data)
        raise PlanError("household-risk: no column has the role household; name one as `household`")


def _at_least_one(risk: Floats, home: NDArray[np.int64], homes: int) -> Floats:
    """Give 1 − Π(1−r) for each household."""
    with np.errstate(divide="ignore"):
        nobody = np.bincount(home, np.log1p(-risk), homes)
    return np.asarray(-np.expm1(nobody))
