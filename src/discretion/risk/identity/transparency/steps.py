"""Which steps changed which columns of a release, as an intruder who knows the method sees it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import DiscretionError
from discretion.part import Part

SWAPPING = frozenset({"rank-swap", "block-rank-swap"})
ONE_COLUMN = frozenset({"individual-ranking", "optimal-microaggregation"})
GROUPING = frozenset({"mdav", "variable-mdav", "projection-microaggregation"}) | ONE_COLUMN
NOISE = frozenset({"additive-noise", "multiplicative-noise", "outlier-noise"})
MIXING = frozenset({"correlated-noise", "variance-preserving-noise", "orthogonal-noise"})
"""Noise whose columns belong together."""
MOVING = frozenset({"pram", "randomized-response"})
GENERALIZING = frozenset({"generalize", "optimal-generalization", "local-recoding"})
CODING = frozenset({"recode", "top-code", "bottom-code", "group-categories"})
"""Give equal values equal values, by a rule that a codebook tells: whoever has the values can code them alike."""
CODING_ITEMS = "km-generalization"
"""Gives every item of a set one label for all records, along a hierarchy that is published."""

_KEEPS_VALUES = frozenset(
    {"drop-identifiers", "pseudonymize", "sample", "suppress-records", "local-suppression", "suppress-by-risk"}
)
_SEARCHING = frozenset({"optimal-generalization", "local-recoding", "mondrian"})
"""Without columns they work on the quasi-identifiers."""
_DROPS_RECORDS = frozenset({"sample", "suppress-records"})
_NAMES_COLUMNS = frozenset(
    CODING | {"pram", "randomized-response", "winsorize-outliers", "km-generalization", "blank-and-impute"}
)


class History:
    """The steps an intruder knows, by the columns they changed; of the columns `unknown` nothing is known."""

    def __init__(self, original: Dataset, steps: Sequence[Part], unknown: Collection[str] = ()) -> None:
        self.steps, self._unknown = tuple(steps), frozenset(unknown)
        self._touched = [_touched(original, step) for step in steps]

    def only_step(self, column: str) -> Part | None:
        """Give the one step that changed a column; None where there is none or more than one."""
        found = self._of(column)
        return found[0] if len(found) == 1 else None

    def is_untouched(self, column: str) -> bool:
        """Tell whether no step changed the values of a column (some may be suppressed)."""
        return column not in self._unknown and not self._of(column)

    def is_generalized(self, column: str) -> bool:
        """Tell whether a column was made less detailed along its hierarchy or by ranges, and nothing else."""
        return column not in self._unknown and all(map(_is_coarser, self._of(column)))

    def codings(self) -> tuple[Part, ...]:
        """Give the steps that coded the values of a column before anything else happened to it, in their order."""
        found: list[Part] = []
        moved = set(self._unknown)
        for step, names in zip(self.steps, self._touched, strict=True):
            if step.kind in {*CODING, CODING_ITEMS} and not moved & set(names or ()) and not getattr(step, "by", ()):
                found.append(step)
            elif names is None:
                break
            else:
                moved |= set(names)
        return tuple(found)

    def without(self, steps: Collection[Part]) -> History:
        """Give the history of values that some steps were carried out on already."""
        new = object.__new__(History)
        kept = [not any(step is other for other in steps) for step in self.steps]
        new.steps, new._unknown = tuple(s for s, k in zip(self.steps, kept, strict=True) if k), self._unknown
        new._touched = [names for names, k in zip(self._touched, kept, strict=True) if k]
        return new

    def keeps_records_after(self, step: Part) -> bool:
        """Tell whether all the records that a step saw are in the release."""
        return not any(other.kind in _DROPS_RECORDS for other in self.steps[self._place(step) + 1 :])

    def keeps_records_before(self, step: Part) -> bool:
        """Tell whether a step saw all the records of the original."""
        return not any(other.kind in _DROPS_RECORDS for other in self.steps[: self._place(step)])

    def before(self, step: Part) -> tuple[tuple[Part, tuple[str, ...] | None], ...]:
        """Give the steps before one with the columns they changed, None where that may be any."""
        return tuple(zip(self.steps, self._touched, strict=True))[: self._place(step)]

    def stays_after(self, step: Part, column: str, *, itself: bool = False) -> bool:
        """Tell whether no later step (nor the step `itself`) changed the values of a column; some may be suppressed."""
        later = self._touched[self._place(step) + (not itself) :]
        return column not in self._unknown and all(names is not None and column not in names for names in later)

    def _place(self, step: Part) -> int:
        return next(place for place, other in enumerate(self.steps) if other is step)

    def columns_of(self, step: Part) -> tuple[str, ...]:
        """Name the columns a step changed, as far as it is known."""
        return next(names or () for s, names in zip(self.steps, self._touched, strict=True) if s is step)

    def _of(self, column: str) -> list[Part]:
        return [step for step, names in zip(self.steps, self._touched, strict=True) if names is None or column in names]


def _is_coarser(step: Any) -> bool:
    """Tell whether a step publishes labels or ranges that hold the true value."""
    return step.kind in GENERALIZING or (step.kind == "mondrian" and step.representation == "interval")


def _touched(original: Dataset, step: Any) -> tuple[str, ...] | None:
    """Name the columns a step changed; None where it may have changed any."""
    if step.kind in _KEEPS_VALUES:
        return ()
    if step.kind == "generalize":
        return tuple(step.levels)
    if step.kind in SWAPPING | GROUPING | NOISE | MIXING | {"round", "shuffle"}:
        blocks = [name for block in getattr(step, "blocks", None) or () for name in block]
        try:
            return original.choose(tuple(step.columns) or tuple(blocks), "perturb")
        except DiscretionError:
            return tuple(step.columns) or None
    if step.kind == "reissue-weights":
        return (step.weight,) if step.weight else original.having("weight")
    if step.kind in MOVING and not step.columns:
        try:
            return tuple(step.fit(original, Context(0, step.kind))["columns"])
        except DiscretionError:
            return None
    if step.kind == CODING_ITEMS and not step.columns:
        return tuple(name for name in original.having("quasi", "sensitive") if original.type_of(name) == "set")
    if step.kind in _NAMES_COLUMNS | _SEARCHING:
        named = getattr(step, "columns", None) or getattr(step, "column", None)
        if not named and step.kind in _SEARCHING:
            return original.having("quasi")
        return ((named,) if isinstance(named, str) else tuple(named)) if named else None
    return None
