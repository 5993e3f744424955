"""Limits on detail before release: number of columns, size of categories, detail of geography (P7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discretion.context import Context
from discretion.data.codes import Missing
from discretion.data.dataset import Dataset
from discretion.data.hierarchy import canonical
from discretion.errors import DataError, PlanError
from discretion.model import FailingClass, PrivacyModel, Verdict
from discretion.part import Columns, confidential
from discretion.privacy.class_table import SHOWN


class DetailLimits(PrivacyModel, kind="detail-limits"):
    """The release has few enough columns, large enough categories, and coarse enough geography.

    The checks that a release policy asks for before anything else: at most `max_columns` columns, at least
    `min_category_size` records in each category of each categorical quasi-identifier, at most `max_areas` areas in
    each geographic column, and a population of at least `min_area_population` in each area (the sum of the weights;
    without a weight column, the number of records). Guarantees these figures and nothing more: does not look at
    combinations of columns; ask for k-anonymity too.

    The value is the number of limits that are broken: each category, area and column that breaks one counts. The
    failing classes name column, category and count. A missing value counts as a category of its own (`category`), as
    any of them (`wildcard`: each category may have that many records more), or not at all (`ignore`); areas never
    count it. Time linear in the number of cells.

    References
    ----------
    Hundepool et al. (2012), Statistical disclosure control, 3.2; catalogue P7.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> jobs = pl.DataFrame({"job": ["nurse"] * 20 + ["mayor"]})
    >>> verdict = dc.DetailLimits(min_category_size=5, columns=["job"])(jobs)
    >>> verdict.holds, verdict.failing[0].key, verdict.failing[0].size
    (False, {'job': 'mayor'}, 1)
    """

    max_columns: int | None = Field(None, ge=1)
    """largest number of columns of the release"""
    min_category_size: int | None = confidential(None, ge=1)
    """smallest number of records in a category"""
    max_areas: int | None = Field(None, ge=1)
    """largest number of areas in a geographic column"""
    min_area_population: float | None = confidential(None, gt=0)
    """smallest population of an area: the sum of its weights, or without weights the number of its records"""
    columns: Columns = ()
    """columns whose categories are counted; without it, the quasi-identifiers that are not continuous"""
    geography: Columns = ()
    """geographic columns; without it, those whose role is `geography`"""
    weight: str | None = None
    """weight column; without it, the column whose role is `weight`, if there is one"""
    missing: Missing = "category"
    """how a missing value counts: as a category of its own, as matching anything, or not at all"""

    attacker: ClassVar[str] = "nobody in particular: these are limits of detail, not a defense against an attack"

    @model_validator(mode="after")
    def _some_limit(self) -> Self:
        limits = ("max_columns", "min_category_size", "max_areas", "min_area_population")
        if all(getattr(self, name) is None for name in limits):
            raise ValueError("give at least one of " + ", ".join(f"`{name}`" for name in limits))
        return self

    def check(self, released: Dataset, ctx: Context, *, original: Dataset | None = None) -> Verdict:  # noqa: ARG002
        """Count columns, categories and areas."""
        found = _Breaches(np.zeros(len(released), dtype=np.bool_))
        if self.max_columns is not None:
            found.detail["columns"] = len(released.columns)
            if len(released.columns) > self.max_columns:
                found.classes.append(FailingClass({"(columns)": "(all)"}, float(len(released.columns))))
        if self.min_category_size is not None:
            self._categories(released, found, self.min_category_size)
        if self.max_areas is not None or self.min_area_population is not None:
            self._areas(released, found)
        broken = len(found.classes)
        listed = tuple(sorted(found.classes, key=lambda item: (item.size, str(item.key)))[:SHOWN])
        return Verdict(
            model=self.kind,
            holds=broken == 0,
            value=float(broken),
            required=0,
            meaning="All limits on detail are kept." if not broken else _meaning(broken),
            failing_count=broken,
            failing_records=int(found.records.sum()),
            detail={**found.detail, "missing": self.missing},
            find_failing=lambda: listed,
        )

    def _categories(self, data: Dataset, found: _Breaches, least: int) -> None:
        chosen = data.choose(self.columns, "classes")
        if not self.columns:
            chosen = tuple(name for name in chosen if data.type_of(name) != "continuous" or data.is_category(name))
        if not chosen:
            raise PlanError(f"{self.kind}: no quasi-identifier has categories; give `columns`")
        smallest: dict[str, dict[str, float]] = {}
        for name in chosen:
            readings = {reading: _sizes(data, name, reading) for reading in ("category", "wildcard", "ignore")}
            found.add(data, name, readings[self.missing], least)
            smallest[name] = {key: float(np.nanmin(s)) for key, s in readings.items() if not np.isnan(s).all()}
        found.detail["smallest_category"] = smallest

    def _areas(self, data: Dataset, found: _Breaches) -> None:
        data.require(self.geography)
        chosen = self.geography or data.having("geography")
        if not chosen:
            raise PlanError(f"{self.kind}: no column has the role `geography`; give `geography`")
        weights = self._weights(data)
        areas: dict[str, dict[str, float]] = {}
        for name in chosen:
            codes = data.codes(name)
            population = np.bincount(codes.codes, weights, codes.size).astype(np.float64)
            population[codes.first_rows < 0] = np.nan
            if codes.missing >= 0:
                population[codes.missing] = np.nan
            count = int((~np.isnan(population)).sum())
            if not count:
                raise DataError(f"{self.kind}: column {name!r} has no values")
            areas[name] = {"areas": count, "smallest_population": float(np.nanmin(population))}
            if self.max_areas is not None and count > self.max_areas:
                found.classes.append(FailingClass({name: "(all areas)"}, float(count)))
            if self.min_area_population is not None:
                found.add(data, name, population, self.min_area_population)
        found.detail["areas"] = areas

    def _weights(self, data: Dataset) -> NDArray[np.float64]:
        named = (self.weight,) if self.weight is not None else data.having("weight")
        if len(named) > 1:
            raise PlanError(f"{self.kind}: {len(named)} columns have the role `weight`; name one in `weight`")
        return data.numbers(named, missing="error")[:, 0] if named else np.ones(len(data))


@dataclass
class _Breaches:
    """What breaks a limit, collected over the columns."""

    records: NDArray[np.bool_]
    classes: list[FailingClass] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)

    def add(self, data: Dataset, column: str, sizes: NDArray[np.float64], least: float) -> None:
        """Note the categories of a column whose size (by code) is too small; NaN does not count."""
        codes = data.codes(column)
        small = sizes < least
        self.records |= small[codes.codes]
        self.classes += [
            FailingClass({column: _text(codes.values, code)}, float(sizes[code]))
            for code in np.flatnonzero(small).tolist()
        ]


def _sizes(data: Dataset, column: str, missing: str) -> NDArray[np.float64]:
    """Give the records of each code; NaN for codes that do not occur or do not count."""
    codes = data.codes(column)
    sizes = np.bincount(codes.codes, minlength=codes.size).astype(np.float64)
    sizes[codes.first_rows < 0] = np.nan
    if codes.missing >= 0 and missing != "category":
        lost = sizes[codes.missing]
        sizes[codes.missing] = np.nan
        sizes += lost if missing == "wildcard" else 0.0
    return sizes


def _text(values: Sequence[object], code: int) -> str | None:
    value = values[code]
    return None if value is None else canonical(value)


def _meaning(broken: int) -> str:
    return f"{broken} limit on detail is broken." if broken == 1 else f"{broken} limits on detail are broken."
