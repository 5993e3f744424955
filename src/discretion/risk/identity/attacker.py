"""Three attackers: one who knows that a person is in the file, one who does not, one who wants many. (R10)"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import model_validator

from discretion.context import Context
from discretion.data.codes import Missing
from discretion.data.dataset import Dataset
from discretion.data.households import people_of
from discretion.data.population_classes import Population, count_population, load_population
from discretion.errors import DataError
from discretion.kernels.arrays import Bools, Floats
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Columns, Family, Scale, confidential, path_field
from discretion.risk.identity.truthful import said, warning

LEVELS = (
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 0.001, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.125, 0.143, 0.167,
    0.2, 0.25, 0.334, 0.5, 1.0,
)  # fmt: skip
"""Upper ends of the intervals of risk in which records are counted (those of ARX, so that figures compare)."""

_MEANING = {
    "prosecutor": "Somebody who knows that a person is in the file finds the person with probability up to {highest}, "
    "on average {average}",
    "journalist": "Somebody with a register of the population says whose record it is with probability up to "
    "{highest}, on average {average}",
    "marketer": "Somebody who links all records is right for {average} of them, and finds the most exposed with "
    "probability {highest}",
}


class AttackerRisk(Measure, kind="attacker-risk"):
    """Probability that an intruder who knows the quasi-identifiers picks the right person.

    The `prosecutor` knows that the person is in the file and picks one of the f records of the class: 1/f. The
    `journalist` wants to show that anybody can be found and picks one of the F people of the population who fit a
    record: 1/F. For these two the value is the highest risk. The `marketer` links all records and accepts errors: the
    value is the mean risk. `per_record` has the risks; the detail has the share of records above `threshold`, the
    highest, the lowest and the mean risk, how many records have them, and the distribution of the risks. Where a column
    with the role `unit` tells that a person has m of the f records, any of them is the right one: m/f.

    Without a `population` the file stands for it, which overstates the risk of the journalist and the marketer for a
    sample. A population must contain the data; its values are generalized to the levels of the release. Does not see
    what somebody learns from a class without finding the record, and assumes unperturbed quasi-identifiers. Time
    linear.

    References
    ----------
    El Emam (2013), Guide to the de-identification of personal health information; catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> table = pl.DataFrame({"zip": ["40831", "40831", "97206"]})
    >>> town = pl.DataFrame({"zip": ["40831"] * 4 + ["97206"] * 4})
    >>> dc.AttackerRisk(columns=["zip"])(table).value
    1.0
    >>> dc.AttackerRisk(attacker="journalist", columns=["zip"], population=town)(table).value
    0.25
    """

    columns: Columns = ()
    """columns the attacker knows; without it, the quasi-identifiers"""
    attacker: Literal["prosecutor", "journalist", "marketer"] = "prosecutor"
    """who attacks: one who knows that a person is in the file, one who does not, one who wants many"""
    threshold: float = confidential(0.2, ge=0, le=1)
    """risk above which a record counts as at risk"""
    population: Population | None = path_field(None)
    """file (or Dataset) with the same columns for the whole population, for the journalist and the marketer"""
    frequency: str = ""
    """column of the population with the number of people each row stands for; without it, one"""
    missing: Missing = "category"
    """how a missing value counts: as a category of its own, as matching anything, or by leaving its record out"""

    family: ClassVar[Family] = "risk"
    scale: ClassVar[Scale] = "classes"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Literal["both", "released"]] = "released"
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)

    @model_validator(mode="after")
    def _who_needs_what(self) -> AttackerRisk:
        if self.population is not None and self.attacker == "prosecutor":
            raise ValueError(
                "the prosecutor looks at the file alone; a `population` is for the journalist and marketer"
            )
        if self.population is not None and self.missing == "wildcard":
            raise ValueError("with a `population` a missing value is a category or its record is left out")
        if self.frequency and self.population is None:
            raise ValueError("`frequency` names a column of the population: give `population`")
        return self

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Count each record's class, in the file or in the population."""
        columns = released.choose(self.columns, "classes")
        sizes, people = self._sizes(released, columns)
        risk = self._own(released, columns) / sizes
        rows = ~np.isnan(risk)
        counted = risk[rows]
        if not len(counted):
            raise DataError(
                f"{self.kind}: every record has a missing value in {', '.join(columns)}; nothing is counted"
            )
        average, highest, lowest = released.average(risk, rows), float(counted.max()), float(counted.min())
        at_risk = released.average(risk > self.threshold, rows)
        warned = warning(original, released, columns)
        wording = _MEANING[self.attacker].format(highest=as_percent(highest), average=as_percent(average))
        return self.score(
            average if self.attacker == "marketer" else highest,
            said(
                f"{wording} (guessing: {as_percent(1.0 / people)}); {as_percent(at_risk)} of the records are above the "
                "threshold.",
                warned,
            ),
            per_record=risk,
            columns=list(columns),
            attacker=self.attacker,
            records=released.tally(rows),
            records_at_risk=at_risk,
            highest=highest,
            success_rate=average,
            lowest=lowest,
            share_at_highest=released.average(risk == highest, rows),
            share_at_lowest=released.average(risk == lowest, rows),
            chance=1.0 / people,
            distribution=_distribution(released, risk, rows),
            **warned,
        )

    def _sizes(self, released: Dataset, columns: tuple[str, ...]) -> tuple[Floats, int]:
        """Give for each record how many may be meant, and how many people there are in all."""
        sizes = released.class_sizes(columns, self.missing)
        if self.population is None:
            return sizes, max(released.tally(~np.isnan(sizes)), 1)
        classes = released.classes(columns)
        found = count_population(released, columns, classes, load_population(self.population), self.frequency)
        fit = np.where(np.isnan(sizes), np.nan, found.counts[classes.ids])
        if short := released.tally(fit < sizes):
            raise DataError(
                f"{self.kind}: {short} records are in classes with more records than people of the population; the "
                "population must contain the data, with the same labels and not perturbed"
            )
        return fit, int(found.counts.sum() + found.others.sum())

    def _own(self, released: Dataset, columns: tuple[str, ...]) -> Floats:
        """Count the records of each record's person in its class: any of them is the right one."""
        people = people_of(released) if self.population is None else None
        if people is None:
            return np.ones(len(released))
        pairs = released.classes(columns).ids.astype(np.int64) * (int(people.max()) + 1) + people
        _, number, counts = np.unique(pairs, return_inverse=True, return_counts=True)
        return np.asarray(counts[number], np.float64)


def _distribution(released: Dataset, risk: Floats, rows: Bools) -> dict[str, Any]:
    """Give the share of records in each interval of risk, the upper end included, and up to it."""
    up_to = np.array([released.average(risk <= level, rows) for level in LEVELS])
    return {
        "up_to": list(LEVELS),
        "share": np.diff(up_to, prepend=0.0).tolist(),
        "cumulative": up_to.tolist(),
    }
