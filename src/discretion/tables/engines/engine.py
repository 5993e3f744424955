"""What the algorithms for complementary suppression share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from discretion.context import Context
from discretion.kernels.arrays import Bools
from discretion.part import Family, Part, confidential

if TYPE_CHECKING:
    from discretion.tables.audit_report import Audit
    from discretion.tables.cells import Cells

Cost = Literal["value", "frequency", "unit"]


@dataclass(frozen=True, eq=False)
class Choice:
    """The complementary cells an engine chose, and what it has to say about them."""

    secondary: Bools
    facts: Mapping[str, Any] = field(default_factory=dict)
    audit: Audit | None = None
    """what the algorithm's own audit of this choice found, where it made one that decides"""


class Engine(Part):
    """An algorithm for complementary suppression: `choose(cells, cost, ctx) -> Choice`."""

    family: ClassVar[Family] = "table-engine"

    cost: Cost = "value"
    """what suppressing a cell costs: its value, its respondents, or 1; costs in the table's status come first"""

    coalition: int = confidential(1, ge=1)
    """respondents who put together what they know"""

    @abstractmethod
    def choose(self, cells: Cells, cost: Any, ctx: Context) -> Choice:
        """Choose complementary cells; `cost` is one of the words, or a number per cell."""
