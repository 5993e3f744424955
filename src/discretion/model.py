"""Privacy models: Boolean, they hold or they do not, with the value reached."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from types import MappingProxyType
from typing import Any, ClassVar

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.display import figure, table
from discretion.engines.scan import Scan
from discretion.errors import DataError, PlanError
from discretion.part import Family, Part, instead


def whole(number: float) -> float:
    """Give a number as an int where it is whole: sizes are, unless records count less than one."""
    return int(number) if float(number).is_integer() else float(number)


@dataclass(frozen=True)
class FailingClass:
    """A class of records that breaks a model: its generalized key and its size."""

    key: Mapping[str, str | None]
    size: float
    """records; an int where it is whole"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", whole(self.size))


@dataclass(frozen=True)
class Verdict:
    """Whether a model holds, the value reached, and how many classes and records break it."""

    model: str
    holds: bool
    value: float
    required: float
    meaning: str = ""
    failing_count: int = 0
    failing_records: int = 0
    detail: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    find_failing: Callable[[], tuple[FailingClass, ...]] = field(default=tuple, repr=False, compare=False)
    attacker: str = ""
    """who is assumed to attack: what the verdict says nothing about is everybody else"""

    @cached_property
    def failing(self) -> tuple[FailingClass, ...]:
        """The failing classes by key and size, smallest first (at most 100), found when first asked for."""
        return self.find_failing()

    def __bool__(self) -> bool:
        return self.holds

    def _repr_html_(self) -> str:
        row = (self.model, "holds" if self.holds else "does not hold", figure(self.value), figure(self.required))
        broken = (
            ""
            if self.holds
            else f"{self.failing_count:,} classes with {self.failing_records:,} records break the model."
        )
        heads = ("model", "verdict", "reached", "required")
        assumed = f"Assumed attacker: {self.attacker}." if self.attacker else ""
        return table("Verdict", heads, [row], f"{self.meaning} {broken} {assumed}".strip())

    def to_dict(self) -> dict[str, Any]:
        """Give the verdict as plain data (for the internal side: it names classes)."""
        return {
            "model": self.model,
            "holds": self.holds,
            "value": self.value if isfinite(self.value) else None,
            "required": self.required,
            "meaning": self.meaning,
            "attacker": self.attacker,
            "failing_count": self.failing_count,
            "failing_records": self.failing_records,
            "failing": [{"key": dict(item.key), "size": item.size} for item in self.failing],
            "detail": dict(self.detail),
        }


class PrivacyModel(Part):
    """A condition on a release: `check(released, ctx, original=None) -> Verdict`."""

    family: ClassVar[Family] = "model"
    attacker: ClassVar[str] = "somebody who knows the quasi-identifiers of a person, and nothing else about the person"
    """Who is assumed to attack; every verdict says so."""

    @abstractmethod
    def check(self, released: Dataset, ctx: Context, *, original: Dataset | None = None) -> Verdict:
        """Tell whether the release satisfies the model."""

    def __call__(self, data: Any, original: Any = None) -> Verdict:
        """Check a frame or a Dataset."""
        before = None if original is None else Dataset.of(original)
        return self.run(Dataset.of(data), Context(0, self.kind), original=before)

    def classes_of(self, released: Scan) -> Dataset:  # noqa: ARG002
        """Give the classes that the model looks at, with their counts."""
        raise PlanError(
            f"{self.kind} needs all rows in memory{instead(self.kind)}; the data stays in its files, and models of "
            "classes of records that look alike (k-anonymity, distinct-l-diversity, t-closeness …) can be checked there"
        )

    def run(self, released: Dataset, ctx: Context, *, original: Dataset | None = None) -> Verdict:
        """Check a release that has rows."""
        if len(released) == 0:
            raise DataError(f"{self.kind}: the data has no rows; a model of nothing says nothing")
        if isinstance(released, Scan):
            released = self.classes_of(released)
        if self.scale != "classes":
            released.require_rows(self.kind)
        copies = [self.check(copy, ctx, original=original) for copy in released.copies()]
        worst = min(copies, key=lambda verdict: (verdict.holds, -verdict.failing_records))
        return replace(worst, attacker=self.attacker)
