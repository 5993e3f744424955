"""The gate: requirements a release must meet before anything is published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.measure import Measure, Score
from discretion.model import Verdict
from discretion.release.plan import Requirement
from discretion.risk.identity.intruder import knowing_method


@dataclass(frozen=True)
class Finding:
    """A requirement, whether it holds, and the figure behind it."""

    requirement: Requirement
    holds: bool
    value: float
    result: Score | Verdict

    @property
    def kind(self) -> str:
        """The kind of the measure or model."""
        return self.requirement.part.kind

    def explain(self) -> str:
        """Say what was required, what was reached and by how much it is missed (for the internal side)."""
        if isinstance(self.result, Verdict):
            verdict = self.result
            text = f"{self.kind}: reached {verdict.value:g}, required {verdict.required:g}"
            if not self.holds:
                text += f" (short by {abs(verdict.required - verdict.value):g}; {verdict.failing_count} classes"
                text += f" with {verdict.failing_records} records fail)"
            return text
        parts = []
        for name, bound, gap in (
            ("at most", self.requirement.at_most, self.value - (self.requirement.at_most or 0)),
            ("at least", self.requirement.at_least, (self.requirement.at_least or 0) - self.value),
        ):
            if bound is not None:
                parts.append(f"required {name} {bound:g}" + (f" (missed by {gap:.4g})" if gap > 0 else ""))
        return f"{self.kind}: reached {self.value:.6g}{_by_method(self.result)}, {' and '.join(parts)}"

    def explain_publicly(self) -> str:
        """Say that the requirement holds, without the figures unless the plan publishes them."""
        if self.requirement.publish:
            return self.explain()
        return f"{self.kind}: {'holds' if self.holds else 'does not hold'}"

    def to_dict(self) -> dict[str, Any]:
        """Give the finding as plain data (for the internal side)."""
        return {
            "holds": self.holds,
            "text": self.explain(),
            "required": self.requirement.to_plan(),
            **self.result.to_dict(),
        }


def _by_method(score: Score) -> str:
    """Say where the figure is that of an intruder who knows the method, and what it is without."""
    plain, informed = score.detail.get("plain"), score.detail.get("informed")
    if plain is None or informed is None or informed <= plain:
        return ""
    return f" by an intruder who knows the method ({plain:.6g} without)"


def judge(
    requirement: Requirement, original: Dataset, released: Dataset, ctx: Context, *, knows_method: bool = True
) -> Finding:
    """Measure a release against one requirement; an attack counts with the larger figure, the method known or not."""
    part = requirement.part if knows_method else knowing_method(requirement.part, False)
    inner = ctx.within(f"require/{part.kind}")
    if isinstance(part, Measure):
        score = part.run(original, released, inner)
        low = requirement.at_least is None or score.value >= requirement.at_least
        high = requirement.at_most is None or score.value <= requirement.at_most
        return Finding(requirement, low and high, score.value, score)
    verdict = part.run(released, inner, original=original)
    return Finding(requirement, verdict.holds, verdict.value, verdict)
