"""Edit rules before, after every step, and in what is published: counts of records, never values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discretion.data.rules import broken_rows, judge_rule, read_edit_rules

if TYPE_CHECKING:
    from discretion.data.dataset import Dataset
    from discretion.release.release import Release


@dataclass(frozen=True)
class EditCheck:
    """One rule: how many records break it in the original, after each step, and in the release; None: not judged."""

    rule: str
    original: int | None
    after: tuple[tuple[str, int | None], ...]
    released: int | None
    undecided: int = 0
    """records of the release whose published ranges do not say whether they break it"""

    def to_dict(self) -> dict[str, Any]:
        """Give the check as plain data, with what each step added or mended."""
        return {
            "rule": self.rule,
            "original": self.original,
            "after": dict(self.after),
            "released": self.released,
            "undecided": self.undecided,
        }

    def explain(self) -> str:
        """Say it in words, for the internal side."""
        moves, before = [], self.original
        for step, count in self.after:
            if count != before:
                moves.append(f"{'not judged' if count is None else count} after {step}")
            before = count
        told = "; ".join([*moves, f"{'not judged' if self.released is None else self.released} in the release"])
        if self.undecided:
            told += f"; open: of {self.undecided} records the published ranges do not say it"
        elif self.released is None:
            told += " (open: its columns are not published, or show nothing that decides it)"
        return f"edit rule {self.rule}: {self.original} records break it in the original; {told}"


def edit_checks(release: Release) -> tuple[EditCheck, ...]:
    """Count the records that break each rule of the schema, state by state."""
    found = []
    for rule in read_edit_rules(release.study.original.schema.edit_rules):

        def count(data: Dataset, rule: Any = rule) -> int | None:
            rows = [broken_rows(rule, copy) for copy in data.copies()]
            return None if any(one is None for one in rows) else sum(int(one.sum()) for one in rows if one is not None)

        after = tuple((item.step.id, count(item.data)) for item in release.study.done)
        left = [judged for copy in release.data.copies() if (judged := judge_rule(rule, copy)) is not None]
        open_ = sum(int(one.undecided.sum()) for one in left)
        found.append(EditCheck(rule.text, count(release.study.original), after, count(release.data), open_))
    return tuple(found)


def public_words(checks: tuple[EditCheck, ...]) -> list[str]:
    """Say what anybody can count in the published file."""
    if not checks:
        return []
    judged = [one.released for one in checks if one.released is not None]
    broken = sum(count > 0 for count in judged)
    left = f"; open: {len(checks) - len(judged)} cannot be judged in it" if len(judged) < len(checks) else ""
    ranged = sum(one.undecided > 0 for one in checks)
    left += f"; open: in {ranged} the published ranges do not decide every record" if ranged else ""
    all_ = "no record breaks one" if left else "all hold in every record"
    kept = all_ if not broken else f"{broken} do not hold in every record"
    return [f"Of {len(checks)} edit rules {len(judged)} were checked in the published file; {kept}{left}."]
