"""`dc.assess`: the attacks of the command line, in Python."""

from __future__ import annotations

import pytest

import discretion as dc
from discretion.release.attack_set import attack_set


def test_the_same_attacks_as_the_set_with_cards_and_what_did_not_run() -> None:
    people = dc.datasets.census(300, seed=1)
    released = dc.DropIdentifiers()(dc.Generalize(levels={"age": 2, "region": 1})(people))
    found = dc.assess(people, released)
    ran = [score.measure for score in found.scores]
    wanted = [measure.kind for measure in attack_set(people, released)]
    assert sorted([*ran, *(one.measure for one in found.not_run)]) == sorted(wanted)
    content = found.to_dict()
    assert content["best_attack"] == found.best_attack and len(content["attackers"]) == len(found.attackers) > 3
    assert "Assessment" in found._repr_html_()


def test_measures_that_were_asked_for_must_run() -> None:
    people = dc.datasets.census(300, seed=1)
    noisy = dc.AdditiveNoise(columns=["income"], sd_share=0.1)(people, seed=1)
    score = dc.assess(people, noisy, measures=[dc.DistanceLinkage(columns=["income"])])["distance-linkage"]
    assert score.value == dc.DistanceLinkage(columns=["income"], intruder={"knows_method": True})(people, noisy).value
    with pytest.raises(dc.DataError, match="unknown column"):
        dc.assess(people, noisy, measures=[dc.DistanceLinkage(columns=["incme"])])
