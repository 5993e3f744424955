"""What was done: each step in words, with its guarantee and settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from discretion.release.report.settings import ShownSetting, settings_of
from discretion.release.report.wording import caveats, title_of

if TYPE_CHECKING:
    from discretion.release.release import Release


@dataclass(frozen=True)
class StepRow:
    """One step of the release."""

    number: int
    title: str
    kind: str
    what: str
    guarantee: str
    untrue: bool
    """whether values were published that are not the true ones"""
    settings: tuple[ShownSetting, ...]
    caveats: tuple[str, ...]


def steps_of(release: Release, *, internal: bool) -> tuple[StepRow, ...]:
    """Describe the steps in their order."""
    rows = []
    for position, done in enumerate(release.study.done, start=1):
        method = done.step.method
        rows.append(
            StepRow(
                number=position,
                title=title_of(method.kind),
                kind=method.kind,
                what=method.summary(),
                guarantee=method.guarantee,
                untrue=method.perturbs,
                settings=settings_of(method, internal=internal, publish=done.step.publish),
                caveats=caveats(type(method)),
            )
        )
    return tuple(rows)
