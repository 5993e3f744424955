"""Edit rules: a release contradicts itself no more than its original did."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field

from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.data.rules import LevelRule, broken_rows, edit_rules_of, judge_rule
from discretion.errors import DataError
from discretion.measure import align
from discretion.model import FailingClass, PrivacyModel, Verdict

RuleTexts = Annotated[tuple[str, ...], BeforeValidator(lambda given: (given,) if isinstance(given, str) else given)]
"""Rules as texts; a single one may stand without a list."""


class EditRules(PrivacyModel, kind="edit-rules"):
    """No record breaks an edit rule that it did not break in the original.

    The rules are those of the schema (`edit_rules:` in a plan) or those named here: ranges, conditions (`age < 15 ->
    marital == 'single'`), sums (`income == wage + rent`), skip patterns (`age < 15 -> job IS NULL`). A record with a
    missing or suppressed value in a rule's columns cannot be judged and breaks nothing. A generalized value breaks a
    rule if every value that it stands for does; records whose ranges leave it open are counted (`undecided`), and a
    rule whose column is not published, or shows nothing that can be compared, is named (`not_judged`). Records that
    broke a rule before may go on doing so; rows that belong to nobody (synthetic ones) may not break any. Says nothing
    about privacy: a file that contradicts itself tells everybody which values were changed. Messages name rules and
    counts, never values. Time linear.

    References
    ----------
    Fellegi & Holt (1976), JASA 71; Willenborg & de Waal (2001), Elements of statistical disclosure control, on the
    consistency of perturbed files; catalogue, what institutions need.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> before = pl.DataFrame({"income": [5, 7], "wage": [2, 7], "rent": [3, 0]})
    >>> after = before.with_columns(wage=pl.Series([2, 6]))
    >>> dc.EditRules(rules="income == wage + rent")(after, original=before).value
    1.0
    """

    rules: RuleTexts = ()
    """rules as in a WHERE of SQL, sums of columns and `condition -> condition` too; without it, those of the schema"""
    at_most: int = Field(0, ge=0)
    """largest number of records that may break a rule anew"""

    attacker: ClassVar[str] = "nobody: this is about data that contradicts itself"

    def check(self, released: Dataset, ctx: Context, *, original: Dataset | None = None) -> Verdict:  # noqa: ARG002
        """Count the records that break a rule now and did not before."""
        rules = edit_rules_of(released if original is None else original, self.rules, self.kind)
        before = _before(original, released)
        new: dict[str, np.ndarray] = {}
        unjudged, undecided = [], {}
        for rule in rules:
            found = judge_rule(rule, released)
            if found is None:
                unjudged.append(rule.text)
                continue
            was = None if before is None else broken_rows(rule, before)
            new[rule.text] = found.broken if was is None else found.broken & ~was
            if found.undecided.any():
                undecided[rule.text] = int(found.undecided.sum())
        records = np.logical_or.reduce(list(new.values())) if new else np.zeros(len(released), np.bool_)
        value = int(records.sum())
        counts = {text: int(rows.sum()) for text, rows in new.items()}
        failing = {text: count for text, count in counts.items() if count} if value > self.at_most else {}
        return Verdict(
            model=self.kind,
            holds=not failing,
            value=float(value),
            required=self.at_most,
            meaning=_meaning(value, len(new), unjudged, undecided),
            failing_count=len(failing),
            failing_records=value if failing else 0,
            detail={
                "rules": counts,
                "not_judged": unjudged,
                "undecided": undecided,
                "columns": sorted(_columns(rules)),
            },
            find_failing=lambda: tuple(FailingClass({"rule": text}, float(count)) for text, count in failing.items()),
        )


def _columns(rules: tuple[LevelRule, ...]) -> set[str]:
    return {name for rule in rules for name in rule.columns}


def _before(original: Dataset | None, released: Dataset) -> Dataset | None:
    """Give the original records of the released ones; None where nobody knows them."""
    if original is None or released.has_new_rows:
        return None
    try:
        return align(original, released, "edit-rules")[0]
    except DataError:
        return None


def _meaning(records: int, judged: int, unjudged: list[str], undecided: dict[str, int]) -> str:
    left = f"; {len(unjudged)} cannot be judged in what is published" if unjudged else ""
    left += f"; of {len(undecided)} the published ranges leave some records open" if undecided else ""
    return f"{records} records break one of {judged} edit rules that they did not break before{left}."
