"""Measures: what a release risks and what it has lost."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from discretion.context import Context, Progress, ignore_progress
from discretion.data.dataset import Dataset
from discretion.display import figure, table
from discretion.errors import DataError, PlanError
from discretion.part import Family, Part

Better = Literal["lower", "higher"]


@dataclass(frozen=True)
class Score:
    """The result of a measure. `detail` is plain data for the internal report; `per_record` follows the rows."""

    measure: str
    value: float
    better: Better
    family: Family
    meaning: str = ""
    detail: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    per_record: NDArray[Any] | None = field(default=None, repr=False)
    more_per_record: Mapping[str, NDArray[Any]] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    """further figures of each record, by name"""

    def _repr_html_(self) -> str:
        chance = self.detail.get("chance")
        row = (self.measure, figure(self.value), f"{self.better} is better", self.family)
        beside = f"Guessing: {figure(float(chance))}." if isinstance(chance, int | float) else ""
        return table("Score", ("measure", "value", "direction", "family"), [row], f"{self.meaning} {beside}".strip())

    def to_dict(self) -> dict[str, Any]:
        """Give the score as plain data, without the per-record arrays."""
        return {
            "measure": self.measure,
            "value": self.value,
            "better": self.better,
            "family": self.family,
            "meaning": self.meaning,
            "detail": dict(self.detail),
        }


class Measure(Part):
    """A measure of risk or utility: `assess(original, released, ctx) -> Score`."""

    family: ClassVar[Family] = "utility"
    better: ClassVar[Better] = "lower"
    needs: ClassVar[Literal["both", "released"]] = "both"
    """`released`: computed on one data set; the report runs it on the original and on the release."""
    aligned: ClassVar[bool] = True
    """Compares each record with itself; meaningless when the rows cannot be matched."""
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, None)
    """The smallest and the largest possible value."""

    @abstractmethod
    def assess(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Compare a release with the original."""

    def __call__(
        self,
        original: Any,
        released: Any = None,
        *,
        seed: int | None = 0,
        progress: Progress = ignore_progress,
    ) -> Score:
        """Assess frames or Datasets: `measure(original, released)`, or `measure(data)` where one is enough."""
        first = Dataset.of(original)
        if released is None and self.needs == "both":
            raise PlanError(f"{self.kind} compares two data sets: call it with (original, released)")
        second = first if released is None else Dataset.of(released)
        if second.schema.columns == {} and first.schema.columns:
            second = _with_schema_of(first, second)
        return self.run(first, second, Context(0 if seed is None else seed, self.kind, progress))

    def run(self, original: Dataset, released: Dataset, ctx: Context) -> Score:
        """Match the rows where the measure needs it, then assess."""
        if len(released) == 0 or len(original) == 0:
            raise DataError(f"{self.kind}: the data has no rows; a measure of nothing says nothing")
        if self.needs == "both" and self.aligned:
            original, released = align(original, released, self.kind)
        return self.assess(original, released, ctx)

    def score(self, value: float, meaning: str, per_record: NDArray[Any] | None = None, **detail: Any) -> Score:
        """Wrap a figure with the direction and family of this measure."""
        return Score(self.kind, float(value), self.better, self.family, meaning, detail, per_record)


def as_percent(share: float) -> str:
    """Write a share as a percentage with two digits that say something: 12.3%, 0.026%."""
    return f"{share:.1%}" if share == 0 or share >= 0.0995 else f"{share * 100:.2g}%"


def align(original: Dataset, released: Dataset, who: str = "measure") -> tuple[Dataset, Dataset]:
    """Restrict the original to the records of the release, in its order."""
    if released is original:
        return original, released
    if released.origin is original.origin:
        wanted = released.row_ids
        if len(wanted) == len(original) and np.array_equal(wanted, original.row_ids):
            return original, released
        order = np.argsort(original.row_ids, kind="stable")
        place = np.searchsorted(original.row_ids[order], wanted)
        if len(wanted) and (place.max() >= len(order) or (original.row_ids[order][place] != wanted).any()):
            raise DataError(f"{who}: the release has rows that the original does not have")
        rows = order[place]
        # kept with the release, so that several measures share it; the original is kept too: its id stays its own
        kept = released.cached((f"part of {id(original)}",), lambda: (original, original.take(rows)))
        return kept[1], released
    if len(original) != len(released):
        raise DataError(
            f"{who}: the original has {len(original)} rows and the release {len(released)}, "
            "and nothing tells which belong together; name an id column"
        )
    return original, released


def match_by(original: Dataset, released: Dataset, column: str) -> Dataset:
    """Give the release with row ids found through an id column that both have."""
    import polars as pl

    for data in (original, released):
        data.require([column])
        if data.frame[column].n_unique() < len(data) or data.count_missing(column):
            raise DataError(f"the id column {column!r} has missing or repeated values")
    index = pl.DataFrame({"key": original.frame[column].cast(pl.String), "row": np.arange(len(original))})
    keys = pl.DataFrame({"key": released.frame[column].cast(pl.String)})
    rows = keys.join(index, on="key", how="left", maintain_order="left")["row"]
    if rows.null_count():
        raise DataError(f"{rows.null_count()} ids of the release do not stand in the original's {column!r}")
    return released.matched_to(original, rows.to_numpy().astype(np.int64))


def _with_schema_of(original: Dataset, released: Dataset) -> Dataset:
    new = Dataset(released.frame, schema=original.schema.only(released.columns))
    rows = np.arange(len(new))
    return new.matched_to(original, rows) if len(new) == len(original) else new
