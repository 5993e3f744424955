"""What the algorithms for complementary suppression share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from discretion.context import Context
from discretion.errors import PlanError
from discretion.kernels.arrays import Bools
from discretion.part import Family, Part, confidential

if TYPE_CHECKING:
    from discretion.tables.audit_insiders import Proof
    from discretion.tables.cells import Cells

Cost = Literal["value", "frequency", "unit"]


@dataclass(frozen=True, eq=False)
class Choice:
    """The complementary cells an engine chose, and what it has to say about them."""

    secondary: Bools
    facts: Mapping[str, Any] = field(default_factory=dict)
    proofs: Sequence[Proof] = ()
    """tables that show the room of cells against respondents, for the audit to check"""


def at_least_ruled(cells: Cells, coalition: int | None) -> int:
    """Give the size of coalitions that attack: that of the rules applied, or a given one that is not smaller."""
    if coalition is None:
        return cells.coalition
    if coalition < 1:
        raise PlanError("coalition: at least 1 respondent")
    if coalition < cells.coalition:
        raise PlanError(
            "coalition: a rule of this table looks at more respondents together than that, and the table would be "
            "called protected against fewer; leave `coalition` out, or give the rule's own"
        )
    return coalition


class Engine(Part):
    """An algorithm for complementary suppression: `choose(cells, cost, ctx) -> Choice`."""

    family: ClassVar[Family] = "table-engine"

    cost: Cost = "value"
    """what suppressing a cell costs: its value, its respondents, or 1; costs in the table's status come first"""

    coalition: int | None = confidential(None, ge=1)
    """respondents who put together what they know; none given: as many as the rules of the table say"""

    def together(self, cells: Cells) -> int:
        """Give how many respondents attack together: as given, but not fewer than the rules of the table say."""
        return at_least_ruled(cells, self.coalition)

    @abstractmethod
    def choose(self, cells: Cells, cost: Any, ctx: Context) -> Choice:
        """Choose complementary cells; `cost` is one of the words, or a number per cell."""

    def again(self, cells: Cells, cost: Any, ctx: Context, last: Choice) -> Choice:  # noqa: ARG002 - for those who go on
        """Choose again, for a table with more sensitive sums beside it (the last cells) than at the last choice."""
        return self.choose(cells, cost, ctx)
