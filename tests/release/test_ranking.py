"""Attacks are ranked by what they gain over guessing, and the page shows figures and pictures, never values."""

from __future__ import annotations

import numpy as np
import pytest

import discretion as dc
from discretion.measure import Score
from discretion.release.attack_set import attack_set
from discretion.release.ranking import best_attack, rank_attacks
from discretion.release.report.assessment import assessment_page
from discretion.release.report.record_risk import record_risk_of


def score(kind: str, value: float, **detail: object) -> Score:
    return Score(kind, value, "lower", "risk", f"{kind} sentence", detail)


def test_gain_is_the_part_of_the_way_from_chance_to_certainty() -> None:
    ranked = rank_attacks([score("value-agreement", 0.6, chance=0.5), score("distance-linkage", 0.3, chance=0.0)])
    assert [attack.measure for attack in ranked] == ["distance-linkage", "value-agreement"]
    assert [attack.gain for attack in ranked] == pytest.approx([0.3, 0.2])


def test_an_attack_below_chance_gains_nothing() -> None:
    ranked = rank_attacks([score("value-agreement", 0.2, chance=0.5)])
    assert ranked[0].gain == 0
    assert best_attack(ranked) == "No attack that was run does better than guessing."


def test_attacks_that_take_perturbed_values_as_true_come_last() -> None:
    ranked = rank_attacks([score("suda", 1.0, warning="perturbed"), score("distance-linkage", 0.1, chance=0.0)])
    assert [attack.measure for attack in ranked] == ["distance-linkage", "suda"]
    assert "distance-linkage" in best_attack(ranked)


def test_utility_is_not_an_attack() -> None:
    loss = Score("il1s", 3.0, "lower", "utility")
    assert rank_attacks([loss]) == ()
    assert "No attack" in best_attack(())


def test_record_risk_counts_records_at_or_above_each_level() -> None:
    risk = np.array([0.0, 0.5, 0.5, 1.0])
    found = record_risk_of(Score("suda", 0.5, "lower", "risk", per_record=risk))
    assert found is not None
    at = dict(zip(np.round(found.levels, 6).tolist(), found.shares, strict=True))
    assert at[0.05] == at[0.5] == 0.75 and at[0.55] == at[1.0] == 0.25


def test_every_attack_of_the_set_runs_and_the_page_shows_them() -> None:
    people = dc.datasets.census(400)
    released = dc.RankSwap(columns=["income"], percent=5)(people, seed=1)
    measures = attack_set(people, released)
    kinds = {measure.kind for measure in measures}
    assert {"distance-linkage", "probabilistic-linkage", "individual-risk", "household-risk", "suda"} <= kinds
    assert {"value-agreement", "model-disclosure", "sample-uniqueness", "attacker-risk"} <= kinds
    scores = [measure(people, released) for measure in measures]
    page = assessment_page(scores, [{"measure": "disco", "reason": "no reason"}], "a & b")
    assert "a &amp; b" in page and "NOT FOR PUBLICATION" in page and "no reason" in page
    assert page.count("<svg") == sum(record_risk_of(item) is not None for item in scores) > 3
