"""What all rules for sensitive cells share, and how several are applied together."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discretion.errors import DataError, PlanError
from discretion.kernels.arrays import Bools, Floats
from discretion.part import Family, Part, parse
from discretion.tables.cells import MANUAL

if TYPE_CHECKING:
    from discretion.tables.cells import Cells
    from discretion.tables.previous import Forms

ROUNDING = 1e-10
"""Share of a cell by which sums of decimal numbers may miss: 0.1 + 0.2 is a little more than 0.3."""

MOST = 31
"""Rules that can be applied together: reasons are bits, and one is kept for decisions by hand."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """Which cells a rule finds sensitive, and how much protection they need below and above their value."""

    sensitive: Bools
    lower: Floats
    upper: Floats
    sums: Forms | None = None
    """sums of inner cells that no table shows and that must be protected too"""


class Rule(Part):
    """A condition that a cell must meet to be published: `judge(cells) -> Judgement`."""

    family: ClassVar[Family] = "rule"

    @abstractmethod
    def judge(self, cells: Cells) -> Judgement:
        """Find the sensitive cells of the active response, and the protection each needs."""

    def top_needed(self) -> int:
        """Tell how many of the largest contributions of each cell the rule looks at."""
        return 0

    def together(self) -> int:
        """Tell how many respondents the rule lets put together what they know; engines and audits do likewise."""
        return max(int(getattr(self, "coalition", 1)), 1)

    def few(self) -> int:
        """Tell below how many respondents a difference of published cells is looked at (0: never).

        Groups that are larger can be sensitive by rules on contributions too; small ones always are.
        """
        return self.top_needed() + 2 if self.top_needed() else 0

    def __call__(self, cells: Cells) -> Bools:
        """Tell which cells are sensitive."""
        self.check_top(cells)
        return self.judge(cells).sensitive

    def check_top(self, cells: Cells) -> None:
        """Raise when the table does not keep enough of the largest contributions."""
        need, have = self.top_needed(), cells.top.shape[1]
        if need > have:
            raise PlanError(
                f"{self.kind}: the rule looks at the {need} largest contributions and the table keeps {have}; "
                f"tabulate with top={need}, or give so many columns in `top` with ready-made cells"
            )


def need_counts(rule: Rule, cells: Cells) -> None:
    """Raise when the number of respondents is not known."""
    if not cells.response.counted:
        raise DataError(f"{rule.kind}: the cells came without their numbers of respondents; give the column `count`")


def ranged(cells: Cells, sensitive: Bools, percent: float) -> Floats:
    """Give sensitive cells a percentage of their value as protection; counts at least 1."""
    wide = np.abs(np.nan_to_num(cells.value)) * percent / 100
    if cells.response.frequency:
        wide = np.maximum(wide, 1.0)
    return np.where(sensitive, wide, 0.0)


def apply(
    cells: Cells, rules: Rule | Mapping[str, Any] | Sequence[Rule | Mapping[str, Any]], responses: str = "active"
) -> Cells:
    """Mark cells that any rule finds sensitive; each needs the largest protection any of the rules asks for.

    One rule may stand without a list. Cells marked safe stay safe, cells marked unsafe stay sensitive; earlier
    results of rules and suppressions are replaced. `responses="all"` makes a cell sensitive when it is so for any
    response of the table (one pattern for all). Required levels are in units of the active response: cells that are
    sensitive only through another one get 0, so that they must not be found exactly. The rules also judge what linked
    tables, and earlier releases, give away together: see `differences.with_differences`.
    """
    from discretion.tables.differences import with_differences

    listed = [rules] if isinstance(rules, Rule | Mapping) else rules
    made = parsed(listed)
    if len(made) > MOST:
        raise PlanError(f"rules: at most {MOST} can be applied to one table, got {len(made)}")
    if responses not in ("active", "all"):
        raise PlanError("responses: expected 'active' or 'all'")
    chosen = [cells.active] if responses == "active" else list(range(len(cells.responses)))
    m = len(cells)
    reason, lower, upper = np.zeros(m, np.uint32), np.zeros(m), np.zeros(m)
    sums: list[Forms] = []
    for bit, rule in enumerate(made):
        for number in chosen:
            view = cells if number == cells.active else replace(cells, active=number)
            rule.check_top(view)
            found = rule.judge(view)
            reason[found.sensitive] |= np.uint32(1 << bit)
            if found.sums is not None and number == cells.active:
                sums.append(found.sums)
            if number == cells.active:
                lower = np.maximum(lower, np.where(found.sensitive, found.lower, 0.0))
                upper = np.maximum(upper, np.where(found.sensitive, found.upper, 0.0))
    status = cells.status
    reasons = tuple(rule.kind for rule in made)
    if MANUAL in status.reasons:
        by_hand = (status.reason >> np.uint32(status.reasons.index(MANUAL))) & np.uint32(1)
        reason |= by_hand << np.uint32(len(reasons))
        reasons = (*reasons, MANUAL)
        lower = np.where(by_hand > 0, np.maximum(lower, status.lower_required), lower)
        upper = np.where(by_hand > 0, np.maximum(upper, status.upper_required), upper)
    reason[status.safe] = 0
    primary = reason > 0
    decided = cells.with_status(
        primary=primary,
        secondary=np.zeros(m, np.bool_),
        reason=reason,
        reasons=reasons,
        lower_required=np.where(primary, lower, 0.0),
        upper_required=np.where(primary, upper, 0.0),
    )
    return with_differences(replace(decided, rules=tuple(made)), made, sums)


def parsed(rules: Sequence[Rule | Mapping[str, Any]]) -> list[Rule]:
    """Give rules as objects; a mapping is a rule as a plan has it."""
    return [rule if isinstance(rule, Rule) else _parsed(rule) for rule in rules]


def _parsed(spec: Any) -> Rule:
    part = parse(spec, "rule")
    if not isinstance(part, Rule):
        raise PlanError(f"{part.kind!r} is not a rule for cells")
    return part
