"""Household risk: who finds one member has found the household, and a family may be rare as a whole. (R10)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.codes import ColumnCodes, Missing
from discretion.data.dataset import Dataset
from discretion.data.households import Households, find_households
from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats
from discretion.measure import RiskShare, Score, as_percent, source_of
from discretion.part import Columns, Scale, confidential
from discretion.risk.identity.uniqueness import having_column, said, warning

# Individual risk: how likely is each record found, given what it stands for in the population? (R10)

# The mean of 1/F for a class of F people of whom f were sampled: the individual risk of Benedetti & Franconi (R10).
#
# Given f, the people of the class who were not sampled follow a negative binomial distribution with parameters f and
# p, p = f/F̂ the estimated sampling fraction of the class. Then, with z = (1−p)/p,
#
# E(1/F | f) = (p^f / f)·₂F₁(f, f; f+1; 1−p) = ∫₀¹ u^(f−1) / (1 + z·u) du.
#
# The textbook sums lose all digits for large f and for p near 0 or 1. Every way taken below adds positive terms only,
# or shrinks its errors from step to step.

_LARGE = 10.0
"""class size from which the series ends soon for every p"""
_STEEP = 9.0
"""z up to which the series ends soon for every class size, and above which the recursion shrinks errors"""
_NODES = 16
_PANEL = 2.0
_BLOCK = 4096


def mean_inverse_size(sampled: ArrayLike, people: ArrayLike) -> Floats:
    """Give E(1/F | f) for classes of `sampled` records (at least 1, fractions allowed) that stand for `people` people.

    Exact to about 1e-14 for all sizes and sampling fractions; 1/f where nobody else is thought to be in the population.
    """
    f, total = np.broadcast_arrays(np.asarray(sampled, np.float64), np.asarray(people, np.float64))
    total = np.maximum(total, f)
    z = (total - f) / f
    found = np.empty(f.shape)
    one = (f == 1) & (z > 0)
    series = ~one & ((f >= _LARGE) | (z <= _STEEP))
    whole = ~one & ~series & (f % 1 == 0)
    rest = ~(one | series | whole)
    found[one] = np.log1p(z[one]) / z[one]
    found[series] = _series(f[series], total[series])
    found[whole] = _recursion(f[whole], z[whole])
    found[rest] = _quadrature(f[rest], z[rest])
    return found


def approximate_inverse_size(sampled: ArrayLike, people: ArrayLike) -> Floats:
    """Give p/(f−(1−p)) for classes of more than two records, the exact figure for the others (as sdcMicro does)."""
    f, total = np.broadcast_arrays(np.asarray(sampled, np.float64), np.asarray(people, np.float64))
    total = np.maximum(total, f)
    p = f / total
    small = f <= 2
    found = p / np.where(small, 1.0, f - (1 - p))
    found[small] = mean_inverse_size(f[small], total[small])
    return np.where(total == f, 1 / f, found)


def _series(f: Floats, people: Floats) -> Floats:
    """Sum (p/f)·Σ_j q^j·j!/((f+1)…(f+j)), all terms positive, dropping the classes that have enough terms; q = 1−p."""
    q = (people - f) / people
    total = np.ones_like(f)
    active = np.arange(f.size)
    term, j = np.ones_like(f), 0
    while active.size:
        fs, qs = f[active], q[active]
        term = term * ((j + 1) * qs / (fs + 1 + j))
        total[active] += term
        j += 1
        # what is left is below term·(geometric series in q), and below term·(j+f)/(f−1) for every q
        left = term * np.minimum(qs / np.maximum(1 - qs, 1e-300), (j + fs) / np.maximum(fs - 1, 1e-300))
        going = left > 1e-17 * total[active]
        active, term = active[going], term[going]
    return np.asarray(total / people)


def _recursion(f: Floats, z: Floats) -> Floats:
    """Go from r(1) = ln(1+z)/z by r(f+1) = (1/f − r(f))/z, which divides errors by z at each step."""
    found = np.log1p(z) / z
    for step in range(1, int(f.max(initial=1))):
        go_on = f > step
        found[go_on] = (1 / step - found[go_on]) / z[go_on]
    return found


def _quadrature(f: Floats, z: Floats) -> Floats:
    """Integrate e^(−f·t) / (1 + z·e^(−t)) over t ≥ 0 by Gauss–Legendre rules on short panels."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    found = np.empty_like(f)
    for start in range(0, f.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        end = 40 + np.log1p(z[part].max())
        panels = int(np.ceil(end / _PANEL))
        t = (((nodes + 1) / 2)[None, :] + np.arange(panels)[:, None]).ravel() * _PANEL
        w = np.tile(weights, panels) * (_PANEL / 2)
        found[part] = (np.exp(-np.outer(f[part], t)) / (1 + np.outer(z[part], np.exp(-t)))) @ w
    return found


_SHOWN = 20
"""classes listed in the detail"""


class Sizes(NamedTuple):
    """The sizes of classes in the sample, and estimated in the population; the class of each record."""

    sample: Floats
    """records of each class; NaN where its records are left out"""
    people: Floats
    of_record: NDArray[np.int64]
    total: float
    """people that the records stand for"""

    @property
    def below(self) -> Bools:
        """Tell which records are in classes whose weights sum to less than their records."""
        return np.asarray((self.people < self.sample)[self.of_record])


class WeightedRisk(RiskShare):
    """What measures share that estimate the people behind a class from sampling weights."""

    columns: Columns = ()
    """columns an intruder may know; without it, the quasi-identifiers"""
    weight: str = ""
    """column with the sampling weights (how many people a record stands for); without it, the one with that role"""
    share: float | None = Field(None, gt=0, le=1)
    """sampling fraction, where there are no weights: each record stands for 1/share people; 1 for a whole population"""
    missing: Missing = "category"
    """how a missing value counts: as a category of its own, as matching anything, or by leaving its record out"""
    alpha: float = Field(1.0, ge=0, le=1)
    """with `missing: wildcard`, how much a matching record with missing values counts (fully if it is the same in all
    columns)"""
    estimator: Literal["exact", "approximate"] = "exact"
    """the exact formula, or for classes of more than two records the approximation p/(f−(1−p)) of other tools"""
    approximate: bool = False
    """short for `estimator: approximate`"""

    needs: ClassVar[Literal["both", "released"]] = "released"

    @model_validator(mode="after")
    def _weights_or_share(self) -> WeightedRisk:
        if self.weight and self.share is not None:
            raise ValueError("give either `weight` or `share`")
        if self.approximate and self.estimator == "exact" and "estimator" in self.model_fields_set:
            raise ValueError("`estimator: exact` and `approximate` contradict each other; give one of them")
        if self.alpha != 1 and self.missing != "wildcard":
            raise ValueError("`alpha` has a meaning only with `missing: wildcard`")
        return self

    def risks(self, sizes: Sizes) -> Floats:
        """Give each record's risk, NaN where it is left out."""
        found = np.full(len(sizes.sample), np.nan)
        counted = ~np.isnan(sizes.sample)
        approximate = self.approximate or self.estimator == "approximate"
        formula = approximate_inverse_size if approximate else mean_inverse_size
        found[counted] = formula(sizes.sample[counted], sizes.people[counted])
        return found[sizes.of_record]

    def sizes(self, original: Dataset, released: Dataset, columns: tuple[str, ...]) -> Sizes:
        """Count the records and sum the weights of each class."""
        weights = self._weights(original, released)
        coded = [released.codes(name) for name in columns]
        if self.missing == "wildcard" and any(c.missing >= 0 for c in coded):
            released.require_rows(f"{self.kind} with `missing: wildcard`")
            return self._wildcard_sizes(coded, weights)
        classes = released.classes(columns)
        sample = classes.counts.astype(np.float64)
        each = weights if released.counts is None else weights * released.counts
        people = np.bincount(classes.ids, each, len(classes)).astype(np.float64)
        if self.missing == "ignore":
            for c in coded:
                sample[c.codes[classes.first_rows] == c.missing] = np.nan
        counted = ~np.isnan(sample)
        if not counted.any():
            raise DataError(
                f"{self.kind}: every record has a missing value in {', '.join(columns)}; nothing is counted"
            )
        return Sizes(sample, people, classes.ids, float(people[counted].sum()))

    def _wildcard_sizes(self, coded: Sequence[ColumnCodes], weights: Floats) -> Sizes:
        """Let each record have its own class: all those it may equal."""
        from discretion.kernels.classes import wildcard_counts

        empty = [c.missing if c.missing >= 0 else None for c in coded]
        counts, sums = wildcard_counts([c.codes for c in coded], empty, [c.size for c in coded], weights, self.alpha)
        return Sizes(counts, np.asarray(sums, dtype=np.float64), np.arange(len(weights)), float(weights.sum()))

    def _weights(self, original: Dataset, released: Dataset) -> Floats:
        if self.share is not None:
            return np.full(len(released), 1.0 / self.share)
        column = self.weight or self._by_role(original, released)
        weights = having_column(original, released, column).number(column)
        wrong = int((np.isnan(weights) | (weights < 0)).sum())
        if wrong:
            raise DataError(f"{self.kind}: {wrong} weights in column {column!r} are missing or negative")
        return weights

    def _by_role(self, original: Dataset, released: Dataset) -> str:
        source = source_of(original, released)
        found = released.having("weight") or (source.having("weight") if source is not None else ())
        if len(found) == 1:
            return found[0]
        listed = f" ({', '.join(found)})" if found else ""
        raise PlanError(
            f"{self.kind}: {len(found) or 'no'} columns have the role weight{listed}; name one as `weight`, "
            "or give `share`, the sampling fraction (1 where the data is the whole population)"
        )


class IndividualRisk(WeightedRisk, kind="individual-risk"):
    """Probability that each record is found, estimated from the sampling weights of its class.

    A record in a class of f records whose weights sum to F̂ stands among an unknown number F of people in the
    population; an intruder who finds the class picks one of them. The risk of the record is the mean of 1/F given f
    (negative binomial with p = f/F̂): (p^f/f)·₂F₁(f, f; f+1; 1−p), computed without loss of digits for every f and p.
    The value is the mean over the records, Σ r/n; the expected number of re-identifications Σ r is in the detail, with
    the number of records above each threshold and the classes at highest risk by row number. `per_record` is r.

    Assumes that weights are those of the design, unperturbed quasi-identifiers, and an intruder who does not know who
    is in the sample (who does finds a unique record for certain: see `SampleUniqueness`). Weights alone do not tell how
    rare a combination is: where rare ones are many and the fraction is small, the figure is too low (compare
    `LogLinearRisk`). Does not see attribute disclosure. A class whose weights sum to less than its records counts as
    complete: risk 1/f. Time linear.

    References
    ----------
    Benedetti & Franconi (1998); Franconi & Polettini (2004), LNCS 3050; Rinott (2003); catalogue R10.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> table = pl.DataFrame({"zip": ["40831", "40831", "97206"], "w": [18.0, 92.0, 17.0]})
    >>> dc.IndividualRisk(columns=["zip"], weight="w")(table).per_record.round(6).tolist()
    [0.017144, 0.017144, 0.177076]
    """

    thresholds: tuple[float, ...] = confidential((0.01, 0.05, 0.1, 0.2, 0.5))
    """levels of risk; the records above each are counted"""

    scale: ClassVar[Scale] = "classes"

    def counts_with(self, released: Dataset) -> tuple[str, ...]:
        """Name the column of the weights: classes are counted with each of its values."""
        return () if self.share is not None else (self.weight or self._by_role(released, released),)

    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:  # noqa: ARG002
        """Estimate every class."""
        columns = released.choose(self.columns, "classes")
        sizes = self.sizes(original, released, columns)
        risk = self.risks(sizes)
        counted = ~np.isnan(risk)
        records = released.tally(counted)
        expected = float(risk[counted].sum()) if released.counts is None else released.average(risk, counted) * records
        warned = warning(original, released, columns)
        meaning = (
            f"An intruder who looks everybody up is expected to find {as_percent(expected / records)} of the records, "
            f"{expected:.3g} of {records}."
        )
        return self.score(
            expected / records,
            said(meaning, warned),
            per_record=risk,
            columns=list(columns),
            records=records,
            expected_reidentifications=expected,
            highest=float(risk[counted].max()),
            chance=1.0 / max(sizes.total, 1.0),
            above={f"{level:g}": released.tally(risk > level) for level in self.thresholds},
            records_in_classes_below_sample=released.tally(sizes.below),
            classes=_riskiest(released, columns, sizes, risk),
            **warned,
        )


def _riskiest(data: Dataset, columns: tuple[str, ...], sizes: Sizes, risk: Floats) -> list[dict[str, Any]]:
    """List the classes at highest risk, by one of their rows and never by their values."""
    rows = data.classes(columns).first_rows
    ids = np.arange(len(data)) if data.counts is None else data.row_ids
    rows = rows[~np.isnan(risk[rows])]
    top = rows[np.lexsort((rows, -risk[rows]))[:_SHOWN]]
    sample, people = sizes.sample[sizes.of_record[top]], sizes.people[sizes.of_record[top]]
    return [
        {
            "row": int(ids[row]),
            "records": float(f),
            "people": float(total),
            "risk": float(risk[row]),
        }
        for row, f, total in zip(top, sample, people, strict=True)
    ]


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


class HouseholdUniqueness(RiskShare, kind="household-uniqueness"):
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

    needs: ClassVar[Literal["both", "released"]] = "released"

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
