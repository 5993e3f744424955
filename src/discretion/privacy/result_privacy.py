"""Result privacy: given rules cannot be mined from the release (M7)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from discretion.context import Context
from discretion.data.codes import Missing
from discretion.data.dataset import Dataset
from discretion.learning.associations import RuleField, RuleThresholds, items_of
from discretion.model import FailingClass, PrivacyModel, Verdict
from discretion.part import Columns, confidential


class ResultPrivacy(PrivacyModel, kind="result-privacy"):
    """Given association rules are not found by whoever mines the release at the stated thresholds.

    A rule `flu|cough -> asthma` is found if the share of records with all its items (support) is at least `min_support`
    and the share of those with the given items that have the others too (confidence) is at least `min_confidence`; a
    set of items without an arrow is found if it is frequent. Items are the members of a column of sets ("flu|cough", or
    lists); with several columns, or columns of categories, an item is written `column=value`.

    Guarantees that a miner with these thresholds, or higher ones, does not find the rules. Does not protect against
    lower thresholds: a rule just below them is still there to be counted, so choose thresholds at which nobody would
    take it for a rule. Says nothing about people. Missing cells could be what was taken out: the default reading fills
    them so that each rule is as strong as it can be (`wildcard`); the other readings stand in the detail. The value is
    the number of rules that are found. Time linear in the records for each rule.

    References
    ----------
    Verykios, Elmagarmid, Bertino, Saygin & Dasseni (2004), IEEE TKDE 16(4); Bonchi & Ferrari (2010),
    Privacy-Aware Knowledge Discovery; catalogue M7.

    Examples
    --------
    >>> import polars as pl, discretion as dc
    >>> baskets = pl.DataFrame({"ills": ["flu|cough", "flu|cough", "flu", "cough|asthma"]})
    >>> verdict = dc.ResultPrivacy(rules=["flu -> cough"], min_support=0.5, min_confidence=0.6)(baskets)
    >>> verdict.holds, verdict.failing[0].key  # two of four records have both, two of three with flu have cough
    (False, {'rule': 'flu -> cough'})
    """

    rules: tuple[RuleField, ...] = confidential(min_length=1)
    """rules that must not be found, such as `flu|cough -> asthma`; without an arrow, sets that must not be frequent"""
    min_support: float = confidential(ge=0, le=1)
    """share of the records that must have all items of a rule for a miner to see it"""
    min_confidence: float = confidential(0.0, ge=0, le=1)
    """share of the records with the given items that must have the others for a miner to call it a rule"""
    columns: Columns = ()
    """columns whose values are items; without it, all that hold sets or categories, identifiers aside"""
    missing: Missing = Field("wildcard")
    """how a missing cell counts: as whatever makes the rule strongest (wildcard), as no item, or not at all (ignore)"""

    attacker: ClassVar[str] = "somebody who mines the release for rules at the stated thresholds or higher ones"

    def check(self, released: Dataset, ctx: Context, *, original: Dataset | None = None) -> Verdict:  # noqa: ARG002
        """Count each rule under every reading of missing cells."""
        before = items_of(released if original is None else original, self.columns, self.kind)
        before.check(self.rules, self.kind)
        items = before.of(released)
        thresholds = RuleThresholds(self.min_support, self.min_confidence)
        readings: tuple[Missing, ...] = ("category", "wildcard", "ignore")
        counted = {rule: {reading: items.strength(rule, reading) for reading in readings} for rule in self.rules}
        found = [rule for rule in self.rules if thresholds.found(rule, counted[rule][self.missing])]
        failing = tuple(FailingClass({"rule": str(rule)}, counted[rule][self.missing].both) for rule in found)
        return Verdict(
            model=self.kind,
            holds=not found,
            value=float(len(found)),
            required=0.0,
            meaning=f"{len(found)} of {len(self.rules)} rules are found at the stated thresholds.",
            failing_count=len(found),
            failing_records=max((int(item.size) for item in failing), default=0),
            detail={
                "columns": list(items.columns),
                "rules": {
                    str(rule): {
                        reading: {"support": one.support, "confidence": one.confidence} for reading, one in each.items()
                    }
                    for rule, each in counted.items()
                },
            },
            find_failing=lambda: tuple(sorted(failing, key=lambda item: item.size)),
        )
