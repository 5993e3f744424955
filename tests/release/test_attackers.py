"""What is attacked: the release alone where rows do not match, every published column, a card for each attacker."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError
from discretion.measure import Score
from discretion.release.assess import run_measures
from discretion.release.attack_set import attack_set
from discretion.release.published import published_columns, to_look_at
from discretion.release.ranking import attacker_cards, best_attack, rank_attacks
from discretion.release.report.page import assessment_page
from discretion.risk.synthetic.records import wilson

ROLES = {"zip": "quasi", "sex": "quasi", "ill": "sensitive"}


def table(rows: int = 600) -> dc.Dataset:
    rng = np.random.default_rng(3)
    zips, sex = rng.integers(0, 30, rows), rng.choice(["f", "m"], rows)
    ill = ((zips < 4) | (rng.random(rows) < 0.3)).astype(int)
    frame = pl.DataFrame({"zip": zips.astype(str), "sex": sex, "ill": ill, "job": rng.choice(list("abcd"), rows)})
    return dc.Dataset(frame, roles=ROLES)


def homogeneous(data: dc.Dataset) -> float:
    """The share of records in classes whose members all have one value, counted by hand."""
    groups = data.frame.group_by("zip", "sex").agg(pl.len(), pl.col("ill").n_unique().alias("values"))
    return float(groups.filter(pl.col("values") == 1)["len"].sum() / len(data))


@pytest.mark.parametrize("lost", [0, 5])
def test_attacks_on_the_release_alone_run_whether_or_not_rows_match(lost: int) -> None:
    data = table()
    kept = np.random.default_rng(1).permutation(len(data))[lost:]
    released = dc.Dataset(data.frame[np.sort(kept)] if lost == 0 else data.frame[kept], roles=ROLES)
    measures = attack_set(data, released)
    scores, failed = run_measures(measures, data, released, strict=False)
    found = {score.measure: score for score in scores if not score.detail.get("coalition")}
    assert found["group-attack"].value == pytest.approx(homogeneous(released))
    assert found["group-attack"].value > 0.1
    assert {"sample-uniqueness", "attacker-risk", "suda", "model-disclosure", "rare-values"} <= set(found)
    reasons = {one.measure: one.reason for one in failed}
    assert ("distance-linkage" in reasons) == (lost > 0)
    said = best_attack(rank_attacks(scores), reasons)
    assert all(kind in said for kind in reasons if kind not in ("il1s", "mre", "mae"))


def test_zero_and_one_are_categories_in_the_set() -> None:
    data = table()
    models = [measure for measure in attack_set(data, data) if measure.kind == "model-disclosure"]
    score = models[0](data, data)
    assert score.detail["chance"] == pytest.approx(max(data.frame["ill"].mean(), 1 - data.frame["ill"].mean()))
    assert not any(measure.kind == "interval-risk" for measure in attack_set(data, data))


def test_a_column_that_looks_like_a_quasi_identifier_is_named_with_what_it_adds() -> None:
    data = table()
    found = {one.name: one for one in published_columns(data)}
    both = data.frame.group_by("zip", "sex", "job").len()["len"]
    assert found["job"].looks_like == "quasi" and found["zip"].looks_like == ""
    assert found["job"].unique == pytest.approx(float((both == 1).sum()) / len(data))
    assert [one.name for one in to_look_at(found.values())] == ["job"]
    score = dc.RareValues(k=400)(data)
    assert any("rare category" in note for note in {c.name: c for c in published_columns(data, [score])}["sex"].notes)


def test_census_columns_weights_households_and_keys_are_judged() -> None:
    people = dc.datasets.census(1500, seed=1).drop(["person_id", "name", "birth_date", "municipality"])
    quasi = ["region", "age", "sex", "education"]
    scores = [
        dc.WeightDisclosure()(people, dc.Generalize(levels={"region": 1})(people)),
        dc.HouseholdUniqueness(columns=quasi)(people),
        dc.QuasiIdentifiers(columns=quasi)(people),
        dc.RareValues()(people),
    ]
    notes = {one.name: "; ".join(one.notes) for one in published_columns(people, scores)}
    assert "tells region of" in notes["weight"]
    assert "composition of their own" in notes["household"]
    assert "extreme value" in notes["income"]


def test_a_report_without_measures_of_its_own_plays_every_attacker() -> None:
    people = dc.datasets.census(1500, seed=1).drop(["birth_date", "municipality", "diagnoses"])
    study = dc.Study(people, seed=2).apply(dc.RankSwap(columns=["income", "savings"], percent=8))
    release = study.release()
    cards = {card.attacker: card for card in release.attackers()}
    assert {name for name, card in cards.items() if not card.tried} == {"reader of an earlier release"}
    notes = {one.name: "; ".join(one.notes) for one in published_columns(release.data, release.attacks())}
    assert "composition of their own" in notes["household"] and "extreme value" in notes["income"]
    assert not release.not_run and len({str(one.measure) for one in release.measured}) == len(release.measured)
    named = study.release(measures=[dc.SampleUniqueness()])
    assert {"not among the measures of the plan"} == {
        card.not_tried[name] for card in named.attackers() for name in card.not_tried if name == "row-order"
    }


def test_an_attack_nobody_asked_for_says_why_it_cannot_run_and_one_that_was_asked_for_raises() -> None:
    few = dc.Study(table(7), seed=2).apply(dc.RandomizedResponse(columns=["sex"], truth_share=0.9))
    release = few.release()
    assert "row-order" in release.not_run and "7 rows" in release.not_run["row-order"]
    card = next(card for card in release.attackers() if card.attacker == "one who knows the order")
    assert card.success is None and "7 rows" in card.not_tried["row-order"]
    with pytest.raises(DataError, match="7 rows"):
        few.release(measures=[dc.RowOrder()])


def test_what_is_learnt_for_certain_is_no_worse_than_a_guess_that_is_often_right() -> None:
    data = table()
    alone = dc.GroupAttack()(data, data)
    assert 0 < alone.value < alone.detail["chance"], "most have the more frequent value"
    assert alone.detail["certain_by_chance"] == 0
    (ranked,) = rank_attacks([alone])
    assert (ranked.chance, ranked.gain) == (0.0, pytest.approx(homogeneous(data)))
    assert ranked.aim == "learn a value about a person for certain" and "never certain" in ranked.meaning
    card = next(one for one in attacker_cards([alone]) if one.attacker == "one who wants a secret")
    assert (card.can, card.success) == (ranked.aim, alone.value)
    guessed = dc.GroupAttack(share=0.6)(data, data)
    assert "certain_by_chance" not in guessed.detail and rank_attacks([guessed])[0].chance == guessed.detail["chance"]
    same = dc.Dataset(data.frame.with_columns(ill=pl.lit(1)), roles=ROLES)
    assert rank_attacks([dc.GroupAttack()(same, same)])[0].gain == 0, "one value for everybody tells nothing"


def score(kind: str, value: float, **detail: object) -> Score:
    return Score(kind, value, "lower", "risk", "", detail)


def test_each_attacker_has_the_best_of_his_attacks_with_interval_and_chance() -> None:
    scores = [
        score("sample-uniqueness", 0.2, chance=0.001, records=1000),
        score("suda", 0.9, warning="perturbed", records=1000),
        score("group-attack", 0.3, chance=0.1, records=1000, coalition=0),
        score("group-attack", 0.5, chance=0.1, records=1000, coalition=1),
        score("distance-linkage", 0.4, chance=0.0, records=500, plain=0.1, informed=0.4),
    ]
    cards = {card.attacker: card for card in attacker_cards(scores, {"disco": "disco: no categories"})}
    first = cards["prosecutor"]
    assert (first.measure, first.success, first.chance) == ("sample-uniqueness", 0.2, 0.001)
    assert (first.low, first.high) == pytest.approx(wilson(200, 1000))
    assert first.gain == pytest.approx((0.2 - 0.001) / 0.999) and first.tried == ("sample-uniqueness", "suda")
    assert cards["one who wants a secret"].success == 0.3 and cards["member"].success == 0.5
    assert cards["one who wants a secret"].not_tried["disco"] == "no categories"
    assert cards["one who knows the method"].success == 0.4
    none = cards["neighbor"]
    assert none.success is None and none.can == "not tried" and "household-uniqueness" in none.not_tried
    assert cards["reader of an earlier release"].not_tried
    assert all(card.success is not None or card.not_tried for card in cards.values())
    plain = attacker_cards([score("distance-linkage", 0.4, chance=0.0)])
    assert {card.attacker: card.success for card in plain}["one who knows the method"] is None


def test_the_page_shows_attackers_columns_and_what_was_not_run() -> None:
    data = table()
    scores = [dc.SampleUniqueness()(data), dc.RareValues()(data)]
    failed = [{"measure": "distance-linkage", "reason": "no rows match"}]
    page = assessment_page(scores, failed, "t", published_columns(data, scores), {"suda": "takes long"})
    for words in ("prosecutor", "no rows match", "takes long", "Every published column", "looks like quasi"):
        assert words in page
    assert "Not run, so that nothing is known of them" in page


def test_reports_name_attackers_and_only_the_internal_one_their_figures() -> None:
    from discretion.release.report.page import render

    plan = dc.Plan.from_dict(
        {
            "roles": {**ROLES, "job": "other"},
            "measures": ["sample-uniqueness"],
            "requirements": [{"k-anonymity": {"k": 2}}],
        }
    )
    release = plan.run(table().frame, seed=1)
    public, private = (render(release, internal=internal) for internal in (False, True))
    for page in (public, private):
        assert "prosecutor" in page and "Assumed attacker: somebody who knows" in page
    assert "Every published column" in private and "Every published column" not in public
    assert "group-attack (not among" in private and "group-attack (not among" not in public
