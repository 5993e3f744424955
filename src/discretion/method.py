"""Methods: ρ, from a Dataset to a protected Dataset."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from discretion.context import Context, Progress, ignore_progress, new_seed
from discretion.data.dataset import Dataset
from discretion.errors import DataError, Infeasible, PlanError
from discretion.part import Columns, Family, Part


@dataclass(frozen=True)
class Decision:
    """What a method learned from the data and needs to rewrite it: small, plain, can be saved and re-used."""

    values: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    EMPTY: ClassVar[Decision]

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def to_json(self) -> str:
        """Write the decision as JSON."""
        return json.dumps(dict(self.values))

    @classmethod
    def from_json(cls, text: str) -> Decision:
        """Read a decision that was saved."""
        return cls(MappingProxyType(json.loads(text)))


Decision.EMPTY = Decision()


class Method(Part):
    """A protection method: `fit` summarises and decides, `rewrite` changes the rows by the decision."""

    family: ClassVar[Family] = "method"
    by_group: ClassVar[bool] = False
    """Works on rows together; its decision cannot be re-used on new rows."""
    seeded: ClassVar[bool] = True
    """The same seed gives the same result (false for differential privacy)."""
    perturbs: ClassVar[bool] = True
    """Publishes values that are not true (as opposed to less detailed ones)."""
    guarantee: ClassVar[str] = ""
    """One sentence for the public report: what holds after this step, and what does not."""

    def fit(self, data: Dataset, ctx: Context) -> Decision:  # noqa: ARG002
        """Summarise the data and decide; a method with nothing to learn returns the empty decision."""
        return Decision.EMPTY

    @abstractmethod
    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Change the rows by the decision."""

    def decide(self, data: Dataset, ctx: Context) -> Decision:
        """Fit, group by group where the method is applied within groups."""
        return self.fit(data, ctx)

    def perform(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Rewrite, group by group where the method is applied within groups."""
        return self.rewrite(data, decision, ctx)

    def apply(self, data: Dataset, ctx: Context) -> Dataset:
        """Protect the data: fit, then rewrite."""
        return self.perform(data, self.decide(data, ctx), ctx)

    def __call__(self, data: Any, *, seed: int | None = None, progress: Progress = ignore_progress) -> Any:
        """Protect a frame or a Dataset; the same kind comes back. Without a seed the draws cannot be repeated."""
        ctx = Context(new_seed() if seed is None else seed, self.kind, progress)
        if isinstance(data, Dataset):
            return self.apply(data, ctx)
        return self.apply(Dataset(data), ctx).to_native()


class StratifiedMethod(Method):
    """A method that can be applied separately within groups of records."""

    by: Columns = ()
    """columns whose combinations of values form groups (strata, households); the method runs within each group"""

    def decide(self, data: Dataset, ctx: Context) -> Decision:
        """Fit each group on its own."""
        if not self.by:
            return self.fit(data, ctx)
        groups: dict[str, dict[str, Any]] = {}
        for key, rows in ctx.engine.groups(data, self._strata(data)):
            _check_new(key, groups)
            with _naming_group(key):
                groups[key] = dict(self.fit(data.take(rows), ctx.within(key)).values)
        return Decision(MappingProxyType({"groups": groups}))

    def perform(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Rewrite each group by its own decision."""
        if not self.by:
            return self.rewrite(data, decision, ctx)

        seen: set[str] = set()

        def rewrite(key: str, part: Dataset, inner: Context) -> Dataset:
            _check_new(key, seen)
            seen.add(key)
            if key not in decision["groups"]:
                raise DataError(f"{self.kind}: the saved decision has no group {key!r}; fit the step anew")
            known = Decision(MappingProxyType(decision["groups"][key]))
            with _naming_group(key):
                return self.rewrite(part, known, inner)

        return ctx.engine.map_groups(data, self._strata(data), rewrite)

    def _strata(self, data: Dataset) -> tuple[str, ...]:
        data.require(self.by)
        if named := set(self.by) & set(getattr(self, "columns", None) or ()):
            raise PlanError(f"{self.kind}: {min(named)!r} stands both in `columns` and in `by`")
        return self.by


def _check_new(key: str, known: Container[str]) -> None:
    """Refuse two groups of one name (missing, and the text "None"): one would get the decision of the other."""
    if key in known:
        raise DataError(f"two groups have the name {key!r}; rename the values of one of them")


@contextmanager
def _naming_group(key: str) -> Iterator[None]:
    try:
        yield
    except (DataError, Infeasible) as error:
        raise type(error)(f"in group {key}: {error}") from None
