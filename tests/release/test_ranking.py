"""Attacks are ranked by what they gain over guessing, and the page shows figures and pictures, never values."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.context import Context
from discretion.measure import Score
from discretion.release.assess import run_measures
from discretion.release.attack_set import attack_set, too_large
from discretion.release.ranking import best_attack, chance_of, rank_attacks, success_of, why_no_baseline
from discretion.release.report import svg
from discretion.release.report.attack_lines import WIDTH, Line, draw
from discretion.release.report.charts import draw_record_risk, record_risk_of
from discretion.release.report.page import assessment_page
from discretion.release.report.wording import percent, title_of
from tests.release.report.html import assert_sound


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
    assert page.count("<svg") == 2 + sum(record_risk_of(item) is not None for item in scores) > 5
    titles = re.findall(r'<th scope="row">(.*?)<span class="what">(?:find|learn)', page)
    assert len(titles) == len(set(titles)) == len(rank_attacks(scores)), "each attack once, told apart from others"
    assert {"Distance linkage (8 columns known)", "Distance linkage (11 columns known)"} <= set(titles)
    assert {"Model disclosure (income)", "Group attack", "Group attack (by members of the group)"} <= set(titles)
    assert_sound(page)


def test_an_attack_that_was_given_twice_is_one_row() -> None:
    twice = [score("distance-linkage", 0.3, chance=0.1)] * 2
    assert len(rank_attacks(twice)) == 1
    page = assessment_page(twice, [], "t")
    assert page.count("distance-linkage sentence") == 1


def test_the_page_opens_with_every_attack_from_guessing_to_success_before_and_after() -> None:
    people = dc.datasets.census(300)
    released = dc.RankSwap(columns=["income", "savings"], percent=20)(people, seed=1)
    measures = [dc.DistanceLinkage(columns=["income", "savings"]), dc.RankInterval(columns=["income"]), dc.Il1s()]
    scores, _ = run_measures(measures, people, released, unprotected=True)
    assert [item.detail.get("unprotected") for item in scores[:2]] == [
        success_of(measure.run(people, people, Context(0, measure.kind))) for measure in measures[:2]
    ]
    assert "unprotected" not in scores[2].detail, "a loss is no attack"
    page = assessment_page(scores, [], "t")
    assert page.index("<svg") < page.index("<table"), "the picture comes first"
    ranked = rank_attacks(scores)
    told = re.findall(r"<desc>(.*?)</desc>", page)[0].split("; ")
    assert told == [
        f"{title_of(one.measure)}: before: the original {percent(one.unprotected)} "
        f"(guessing {percent(one.unprotected_chance)}), "
        f"after: the release {percent(one.success)} (guessing {percent(one.chance)})"
        for one in ranked
    ]
    alone, _ = run_measures(measures[:1], people, released)
    assert "before: the original" not in assessment_page(alone, [], "t")


def test_lines_begin_at_guessing_and_end_at_success() -> None:
    line = Line("attack", "", (0.5, 0.25), (1.0, 0.75))
    across = svg.ChartAxis(0.0, 1.0, 300, WIDTH - 62)
    drawn = draw([line], ("before", "after"), "title")
    for chance, success in zip(line.chances, line.values, strict=True):
        ends = f'x1="{svg._short(across(chance))}"', f'x2="{svg._short(across(success))}"'
        assert re.search(rf"<line {ends[0]} y1=\"[\d.]+\" {ends[1]} [^>]*stroke-width=\"2.2\"", drawn)
        assert re.search(rf"<line {ends[0]} [^>]*stroke=\"{svg.CHANCE}\"", drawn), "guessing has its mark"
    assert "not run" in draw([Line("attack", "", (None,), (None,))], ("only",), "title", original=False)


@pytest.mark.parametrize("certain", [False, True])
def test_risk_per_record_shows_guessing(certain: bool) -> None:
    risk = np.array([0.0, 1.0, 1.0, 1.0]) if certain else np.array([0.0, 0.5, 0.5, 1.0])
    found = record_risk_of(Score("distance-linkage", 0.5, "lower", "risk", "", {"chance": 0.25}, risk))
    assert found is not None and found.chance == 0.25 and found.certain is certain
    picture = draw_record_risk(found)
    assert "guessing: 25%" in picture and "Guessing reaches 25%." in picture
    (dashed,) = re.findall(r"<line ([^>]*)stroke-dasharray", picture)
    x1, y1, x2, y2 = (re.search(rf'{name}="([\d.]+)"', dashed)[1] for name in ("x1", "y1", "x2", "y2"))  # type: ignore[index]
    assert (y1 == y2) is certain and (x1 == x2) is not certain


def test_one_unique_record_does_not_outweigh_everybody() -> None:
    """99 records share a class and one is alone: the prosecutor's highest risk is 1, the expected share 2%."""
    frame = pl.DataFrame({"q": ["a"] * 99 + ["b"], "s": list(range(100))})
    data = dc.Dataset(frame, roles={"q": "quasi", "s": "sensitive"})
    ranked = rank_attacks([dc.AttackerRisk()(data), score("distance-linkage", 0.3, chance=0.01)])
    assert [attack.measure for attack in ranked] == ["distance-linkage", "attacker-risk"]
    assert ranked[1].success == pytest.approx(0.02) and ranked[1].highest == 1.0
    assert ranked[1].gain == pytest.approx(0.01 / 0.99)
    assert "The most exposed person: 100.0% (attacker-risk)" in best_attack(ranked)
    for measure in attack_set(data, data):
        if measure.kind == "attacker-risk":
            assert measure(data, data).value == pytest.approx(0.02)


def test_the_most_exposed_person_is_not_named_with_less_than_the_best_attack_finds() -> None:
    frame = pl.DataFrame({"q": ["a"] * 5 + ["b"] * 5, "s": list(range(10))})
    classes = dc.AttackerRisk()(dc.Dataset(frame, roles={"q": "quasi", "s": "sensitive"}))
    found = best_attack(rank_attacks([classes, score("distance-linkage", 1.0, chance=0.01)]))
    assert "100.0%" in found and "most exposed" not in found
    assert "The most exposed person: 20.0%" in best_attack(
        rank_attacks([classes, score("distance-linkage", 0.2, chance=0.01)])
    )


def test_special_uniques_count_with_the_mean_probability_of_a_right_match() -> None:
    ranked = rank_attacks([score("suda", 1.0, mean_dis=0.3, highest_dis=0.9, records=10)])
    assert ranked[0].success == 0.3 and ranked[0].chance == 0.1 and ranked[0].highest == 0.9
    assert ranked[0].gain == pytest.approx(0.2 / 0.9)


def test_every_risk_of_the_set_has_a_baseline_or_says_why_not() -> None:
    people = dc.datasets.census(300)
    for released in (people, dc.Dataset(people.frame.head(200), schema=people.schema)):
        for measure in attack_set(people, released):
            try:
                found = measure(people, released)
            except dc.DataError:
                continue
            if found.family == "risk":
                assert (chance_of(found) is None) == bool(why_no_baseline(found))
                assert why_no_baseline(found) != "none is defined for this measure"


def test_risks_come_before_utilities() -> None:
    people = dc.datasets.census(200)
    families = [measure.family for measure in attack_set(people, people)]
    assert families == sorted(families) and set(families) == {"risk", "utility"}


def test_a_holdout_is_the_baseline_of_replicated_uniques_and_disco() -> None:
    people = dc.datasets.census(400)
    frame = people.frame.select("age", "sex", "occupation")
    for measure in (dc.ReplicatedUniques, dc.Disco):
        fields = {"columns": ["age", "sex"], **({"targets": ["occupation"]} if measure is dc.Disco else {})}
        bare = measure(**fields)(frame.head(200), frame.head(200))
        assert "no baseline" in bare.meaning and chance_of(bare) is None
        held = measure(**fields, holdout=frame.tail(200))(frame.head(200), frame.head(200))
        assert chance_of(held) is not None and not why_no_baseline(held)


def test_attacks_that_take_long_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    people = dc.datasets.census(200)
    assert too_large(people, people) == {}
    monkeypatch.setattr("discretion.release.attack_set._MOST_LINKED", 100)
    monkeypatch.setattr("discretion.release.attack_set._MOST_KEYS", 2)
    named = set(too_large(people, people))
    assert named == {"probabilistic-linkage", "suda"}
    assert not named & {measure.kind for measure in attack_set(people, people)}


def test_models_attack_a_sample_of_large_data(monkeypatch: pytest.MonkeyPatch) -> None:
    people = dc.datasets.census(300)
    monkeypatch.setattr("discretion.release.attack_set._MOST_MODELED", 200)
    models = [measure for measure in attack_set(people, people) if measure.kind == "model-disclosure"]
    assert models and all(getattr(measure, "sample") == 200 for measure in models)  # noqa: B009 - a field of one part
