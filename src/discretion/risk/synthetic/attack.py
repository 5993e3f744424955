"""What attacks with a control group share: fields, and the score that compares the two groups."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import NDArray
from pydantic import Field

from discretion.data.population_classes import Population
from discretion.measure import Better, Measure, Score, as_percent
from discretion.part import Family, path_field
from discretion.risk.synthetic.success_rates import Rate, excess_risk, rates_detail


class UnalignedRisk(Measure):
    """A risk of a release whose rows need not belong to anybody, with people outside the data beside it."""

    holdout: Population | None = path_field(None)
    """file (or Dataset) with the same columns about people who are not in the original: the control group"""
    confidence: float = Field(0.95, gt=0, lt=1)
    """coverage of the intervals"""

    family: ClassVar[Family] = "risk"
    better: ClassVar[Better] = "lower"
    aligned: ClassVar[bool] = False
    limits: ClassVar[tuple[float | None, float | None]] = (0.0, 1.0)


class ControlledAttack(UnalignedRisk):
    """An attack that succeeds or fails, on people in the data and on people outside it."""

    attacks: int = Field(2000, ge=1)
    """most attacks on each group; fewer when there are fewer records"""

    def compare(
        self,
        attack: Rate,
        control: Rate,
        baseline: float,
        what: str,
        per_record: NDArray[Any] | None = None,
        **detail: Any,
    ) -> Score:
        """Give the risk of being in the data; `what` completes "The attack …"."""
        risk = excess_risk(attack, control, self.confidence)
        value = min(max(risk.value, 0.0), 1.0)
        meaning = (
            f"The attack {what} for {as_percent(attack.share)} of the people in the data and for "
            f"{as_percent(control.share)} of people outside it (guessing: {as_percent(baseline)}): being in the data "
            f"gives {as_percent(value)} away ({self.confidence:.0%} interval {risk.low:.3f} to {risk.high:.3f})."
        )
        figures = rates_detail(attack, control, baseline, risk, self.confidence)
        return self.score(value, meaning, per_record, chance=0.0, **figures, **detail)  # people outside are deducted
