"""`dc.assess`: the attacks of the command line, in Python."""

from __future__ import annotations

import threading

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import Cancelled
from discretion.release.assess import default_jobs, run_measures
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


def test_attacks_that_take_long_are_named_as_not_run() -> None:
    people = dc.datasets.census(120, seed=1)
    quasi = [name for name in people.columns if name not in ("person_id", "name", "diagnoses", "weight", "income")]
    known = dc.Dataset(people.frame, roles={**dict.fromkeys(quasi[:9], "quasi"), "income": "sensitive"})
    found = dc.assess(known, dc.RankSwap(columns=["income"], percent=10)(known, seed=1))
    assert [one.measure for one in found.left_to_ask] == ["quasi-identifiers"]
    assert "quasi-identifiers was not run: takes long (more than 8 quasi-identifiers)" in " ".join(found.notes)
    assert "quasi-identifiers" in found.best_attack


def test_rows_that_nothing_matches_are_an_error_unless_it_is_said() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 200))
    roles = {"x": "sensitive"}
    before, other = dc.Dataset(pl.DataFrame({"x": x}), roles=roles), pl.DataFrame({"x": y})
    with pytest.raises(dc.DataError, match="as in synthetic data: align='none'"):
        dc.assess(before, other)
    by_place = dc.assess(before, other, align="position", measures=[dc.Il1s()])["il1s"].value
    assert by_place == pytest.approx(np.abs(x - y).sum() / (np.sqrt(2) * x.std(ddof=1)))
    unrelated = dc.assess(before, other, align="none")
    assert "il1s" in {one.measure for one in unrelated.not_run}
    with pytest.raises(dc.DataError, match="200 rows and the release 100"):
        dc.assess(before, other.head(100), align="position")


def test_without_a_known_column_it_is_said_that_no_attack_ran() -> None:
    people = dc.Dataset(pl.DataFrame({"x": np.arange(100.0)}))
    found = dc.assess(people, people)
    assert found.no_attack is not None and "give the original roles" in found.no_attack
    assert "--" not in found.no_attack


def test_an_assessment_prints_what_was_found() -> None:
    people = dc.datasets.census(300, seed=1)
    noisy = dc.AdditiveNoise(columns=["income"], sd_share=0.1)(people, seed=1)
    found = dc.assess(people, noisy, measures=[dc.DistanceLinkage(columns=["income"]), dc.Il1s(columns=["income"])])
    text = repr(found)
    assert found.best_attack in text and found["distance-linkage"].meaning in text and "1 more in `scores`" in text


def release() -> tuple[dc.Dataset, dc.Dataset]:
    people = dc.datasets.census(300)
    return people, dc.RankSwap(columns=["income"], percent=5)(people, seed=1)


def test_figures_and_their_order_do_not_depend_on_the_jobs() -> None:
    people, released = release()
    measures = attack_set(people, released)
    alone, _ = run_measures(measures, people, released, jobs=1)
    together, _ = run_measures(measures, *release(), jobs=4)
    assert [score.measure for score in alone] == [measure.kind for measure in measures]
    assert [score.to_dict() for score in together] == [score.to_dict() for score in alone]


def test_progress_grows_to_the_end_and_is_reported_by_one_thread_at_a_time() -> None:
    people, released = release()
    seen: list[tuple[int, int, str]] = []
    inside = threading.Lock()

    def progress(done: int, total: int, label: str) -> None:
        assert inside.acquire(blocking=False)
        seen.append((done, total, label))
        inside.release()

    measures = attack_set(people, released)
    run_measures(measures, people, released, jobs=3, progress=progress)
    assert seen[-1][0] == seen[-1][1] == 1000 * len(measures)
    assert {total for _, total, _ in seen} == {1000 * len(measures)}
    assert any("suda" in label for _, _, label in seen)


@pytest.mark.parametrize("jobs", [1, 3])
def test_cancel_stops_all(jobs: int) -> None:
    people, released = release()
    calls = 0

    def stop(done: int, total: int, label: str) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise Cancelled("enough")

    with pytest.raises(Cancelled):
        run_measures(attack_set(people, released), people, released, jobs=jobs, progress=stop)
    assert calls == 4


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_cannot_run_raises_or_is_told(jobs: int) -> None:
    people, released = release()
    measures = [dc.SampleUniqueness(columns=["nobody"]), dc.SampleUniqueness(columns=["sex"])]
    with pytest.raises(dc.DiscretionError, match="nobody"):
        run_measures(measures, people, released, jobs=jobs)
    scores, failed = run_measures(measures, people, released, jobs=jobs, strict=False)
    assert [score.detail["columns"] for score in scores] == [["sex"]]
    assert failed[0].measure == "sample-uniqueness" and "nobody" in failed[0].reason


def test_wrong_number_of_jobs() -> None:
    people, released = release()
    with pytest.raises(dc.PlanError, match="jobs"):
        run_measures([dc.Suda()], people, released, jobs=0)
    assert 1 <= default_jobs() <= 4
