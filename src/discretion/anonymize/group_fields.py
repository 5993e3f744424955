"""What searches share that put records into groups: the records they may drop, and what each column weighs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discretion.errors import PlanError
from discretion.part import ColumnWeights
from discretion.protect.suppress_search import ReachesModels


class GroupsRecords(ReachesModels):
    """A search that puts records into groups, and drops some where that loses less."""

    suppression_limit: float = Field(0.0, ge=0, le=1)
    """largest share of the records that may be dropped"""
    importance: ColumnWeights = Field(default_factory=lambda: MappingProxyType({}))
    """weight of each column's loss; columns not named weigh 1"""

    def _allowed(self, records: int) -> int:
        """Count the records that may be dropped."""
        return math.floor(self.suppression_limit * records + 1e-9)

    def _weights(self, columns: Sequence[str]) -> NDArray[np.float64]:
        """Give the weight of each column, the largest as 1."""
        if unknown := [name for name in self.importance if name not in columns]:
            raise PlanError(f"importance: {unknown[0]!r} is not among the columns")
        weights = np.array([self.importance.get(name, 1.0) for name in columns])
        if not weights.max() > 0:
            raise PlanError("importance: at least one column must have a weight above 0")
        return np.asarray(weights / weights.max())
