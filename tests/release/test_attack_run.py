"""Measures side by side: the same figures in the same order, progress from one thread at a time, cancel stops all."""

from __future__ import annotations

import threading

import pytest

import discretion as dc
from discretion.errors import Cancelled
from discretion.release.attack_run import default_jobs, run_measures
from discretion.release.attack_set import attack_set


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
