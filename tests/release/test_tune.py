"""Tuning finds what is known to be best, says what it did not try, repeats itself, and computes nothing twice."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.release import tune as tuning
from discretion.release.plan import Requirement
from discretion.release.report.risk_utility_map import NARROW, draw, map_of
from discretion.release.study import Study
from discretion.release.tune import Screening, halving
from discretion.release.tune_result import Point
from discretion.release.tune_scales import Figure, Scale, data_digest, default_utility, gain_of, loss_of
from discretion.release.tune_space import Setting, settings_of, tolerance_bound
from tests.release.survey import ROLES, survey

RISK = dc.RankInterval(columns=["income"], percent=5)
LOSS = dc.VariableChange(columns=["income"])
PERCENTS = [1, 4, 10, 25, 60]
MANY = {"range": [0.1, 1.0], "steps": 200}


def swaps(values: list[int] | None = None) -> dc.Vary:
    return dc.Vary(dc.RankSwap, columns=["income"], percent=dc.Grid(values or PERCENTS))


@pytest.fixture
def people() -> dc.Dataset:
    return dc.Dataset(survey(300), roles=ROLES)


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Note every step that is carried out."""
    seen: list[str] = []
    plain = Study.apply

    def noting(self: Study, method: Any, **options: Any) -> Study:
        seen.append(method.kind)
        return plain(self, method, **options)

    monkeypatch.setattr(Study, "apply", noting)
    yield seen


# --- known truth --------------------------------------------------------------------------------------------


def test_more_swapping_is_safer_and_worse_and_the_weakest_allowed_is_chosen(people: dc.Dataset) -> None:
    found = dc.tune(people, [swaps()], risk=RISK, utility=LOSS, max_risk=0.5, seed=4)
    risks, losses = [p.risk for p in found.points], [p.utility for p in found.points]
    assert risks == sorted(risks, reverse=True) and losses == sorted(losses)
    allowed = [p for p in found.points if p.worst_risk <= 0.5]
    assert found.best is allowed[0] and 0 < len(allowed) < len(PERCENTS)
    assert list(reversed(found.front)) == [p for p in found.points if p is found.points[0] or p.risk < 1]


def test_least_risk_under_a_loss_is_the_strongest_allowed(people: dc.Dataset) -> None:
    found = dc.tune(people, [swaps()], risk=RISK, utility=LOSS, min_utility=0.12, seed=3)
    allowed = [p for p in found.points if p.worst_utility <= 0.12]
    assert found.best is allowed[-1] and 0 < len(allowed) < len(PERCENTS)
    overlap = dc.IntervalOverlap(columns=["income"])
    higher = dc.tune(people, [swaps()], risk=RISK, utility=overlap, min_utility=0.0, seed=3)
    assert higher.utility.better == "higher" and higher.best.risk == min(p.risk for p in higher.points)


def test_figures_are_those_of_the_measures_themselves(people: dc.Dataset) -> None:
    found = dc.tune(people, [swaps([10])], risk=RISK, utility=LOSS, max_risk=1, seed=5, runs=4)
    (point,) = found.points
    swap = dc.RankSwap(columns=["income"], percent=10)
    values = [RISK(people, swap.run(people, dc.Context(seed, "1-rank-swap")).data).value for seed in found.seeds]
    assert point.risk == pytest.approx(np.mean(values)) and point.worst_risk == pytest.approx(max(values))
    assert point.risk_spread == pytest.approx(np.std(values, ddof=1)) and point.runs == 4
    again = found.study()
    assert RISK(people, again.current).value == pytest.approx(values[0])


def test_nothing_drawn_runs_once(people: dc.Dataset, applied: list[str]) -> None:
    fixed = dc.tune(people, [dc.Vary(dc.Mdav, columns=["income"], k=dc.Grid([3, 9]))], risk=RISK, utility=LOSS, seed=1)
    assert [p.runs for p in fixed.points] == [1, 1] and all(p.risk_spread == 0 for p in fixed.points)
    assert applied == ["mdav"] * 4  # the second run shows that nothing was drawn


def test_the_best_keeps_the_limit_in_every_run(people: dc.Dataset) -> None:
    swap = Setting((dc.RankSwap(columns=["income"], percent=5),), 0)
    lucky = Point(swap, 0.3, 0.1, 0.2, 0.0, 0.6, 0.1, 3, 300, True, "x")
    steady = Point(swap, 0.4, 0.2, 0.0, 0.0, 0.4, 0.2, 3, 300, True, "x")
    unsure = Point(swap, 0.1, 0.0, 0.0, 0.0, 0.1, 0.0, 3, 100, False, "x")
    result = tuning.TuneResult(people, Scale((RISK,), "risk"), Scale((LOSS,), "utility"), (lucky, steady, unsure),
                               max_risk=0.5)  # fmt: skip
    assert result.best is steady and unsure not in result.front
    assert result.table()["keeps_limit"].to_list() == [None, False, True]


def test_fresh_draws_of_the_choice_keep_the_limit(people: dc.Dataset) -> None:
    """Of the settings that every run allowed, the best breaks the limit often; what was drawn anew hardly ever."""
    lucky, chosen = [], []
    for seed in range(6):
        found = dc.tune(people, [swaps(list(range(6, 40, 2)))], risk=RISK, utility=LOSS, max_risk=0.4, seed=seed)
        allowed = [point for point in found.points if point.worst_risk <= 0.4]
        first = min(allowed, key=lambda one: one.utility)
        for fresh in range(25):
            for point, into in ((first, lucky), (found.best, chosen)):
                into.append(RISK(people, found.study(point, seed=10_000 + fresh).current).value > 0.4)
    assert np.mean(chosen) <= 0.05 and np.mean(lucky) > 0.06
    assert found.best.draws == 10 and (found.best.risk_bound or 1) <= 0.4


def test_the_tolerance_bound_covers_as_often_as_it_says() -> None:
    """Tables of the normal law: k = 2.911 for ten values; 95 % of the bounds lie above the 95 % quantile."""
    values = [0.0, 1.0] * 5
    want = 0.5 + 2.911 * np.std(values, ddof=1)
    assert tolerance_bound(values) == pytest.approx(want, abs=1e-3)
    rng = np.random.default_rng(1)
    bounds = np.array([tolerance_bound(rng.normal(size=10).tolist()) for _ in range(1000)])
    assert (bounds > 1.6449).mean() == pytest.approx(0.95, abs=0.025)
    assert tolerance_bound([0.3]) == tolerance_bound([0.3, 0.3]) == 0.3


def test_the_choice_meets_the_requirements_and_others_are_marked(people: dc.Dataset) -> None:
    strict = Requirement(dc.SdInterval(columns=["income"], percent=10), at_most=0.25)
    options: dict[str, Any] = {"risk": RISK, "utility": LOSS, "max_risk": 0.5, "seed": 3}
    free, bound = (dc.tune(people, [swaps()], requirements=wanted, **options) for wanted in ((), (strict,)))
    assert bound.best.utility > free.best.utility and not bound.best.unmet
    marked = [point for point in bound.points if point.unmet]
    assert free.best.label in [point.label for point in marked] and {p.unmet for p in marked} == {("sd-interval",)}
    row = bound.table().filter(pl.col("setting") == free.best.label)
    assert row["unmet"].item() == "sd-interval" and "does not meet" in bound.page() and "not met" in bound.page()
    for seed in range(20):
        assert strict.part(people, bound.study(seed=seed).current).value <= 0.25  # type: ignore[operator]
    impossible = Requirement(dc.KAnonymity(k=299, columns=["income"]))
    with pytest.raises(dc.Infeasible, match=r"meets the requirements.*k-anonymity"):
        _ = dc.tune(people, [swaps()], requirements=[impossible], **options).best


def test_columns_that_no_method_changes_are_named(people: dc.Dataset) -> None:
    both = dc.VariableChange(columns=["income", "savings"])
    before = [dc.DropIdentifiers()]
    found = dc.tune(people, [swaps([10])], risk=RISK, utility=both, before=before, max_risk=1, seed=1)
    assert found.untouched == ("savings",) and found.to_dict()["untouched"] == ["savings"]
    assert "No method changes savings" in found.page()
    assert dc.tune(people, [swaps([10])], risk=RISK, utility=LOSS, seed=1).untouched == ()


def test_the_intruder_of_tuning_knows_the_method(people: dc.Dataset) -> None:
    risk = dc.DistanceLinkage(columns=["income", "savings", "age"])
    swap = dc.RankSwap(columns=["income", "savings", "age"], percent=20)
    known, secret = (
        dc.tune(people, [swap], risk=risk, utility=LOSS, seed=1, runs=2, knows_method=knows) for knows in (True, False)
    )
    assert known.points[0].risk > 5 * secret.points[0].risk


# --- several measures ---------------------------------------------------------------------------------------


def test_several_risks_give_the_largest_gain_of_the_credible_attacks() -> None:
    scale = Scale((dc.SampleUniqueness(), RISK, dc.ValueAgreement()), "risk")
    figures = [Figure(1.0, None, doubtful=True), Figure(0.4, 0.1), Figure(0.5, 0.4)]
    assert scale.value(figures) == pytest.approx(0.3 / 0.9) and scale.leading(figures) == "rank-interval"
    assert scale.value([Figure(0.9, doubtful=True)] * 3) == 0.9
    assert gain_of(Figure(0.1, 0.5)) == 0.0 and gain_of(Figure(1.0, 1.0)) == 0.0


def test_several_utilities_give_one_minus_the_mean_loss() -> None:
    scale = Scale((LOSS, dc.IntervalOverlap(), dc.Marginals()), "utility")
    assert scale.better == "higher"
    assert scale.value([Figure(0.2), Figure(0.7), Figure(0.1)]) == pytest.approx(1 - (0.2 + 0.3 + 0.1) / 3)
    clustering = dc.ClusteringUtility()
    assert (loss_of(clustering, 1.0), loss_of(clustering, -0.5)) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"utility": dc.AverageDivergence()}, "average-divergence"),
        ({"utility": [LOSS, dc.AverageDivergence()]}, "average-divergence"),
        ({"utility": RISK}, "measure of risk"),
        ({"risk": LOSS}, "measure of utility"),
        ({"utility": [LOSS, dc.Il1s()]}, "stand alone"),
        ({"max_risk": 0.1, "min_utility": 0.1}, "one of them"),
        ({"runs": 0}, "runs"),
        ({"sample": 1}, "sample"),
        ({"seconds": -1}, "seconds"),
        ({"max_risk": "low"}, "max_risk"),
        ({"before": [swaps()]}, "grids under `methods`"),
        ({"risk": "no-such-attack"}, "no-such-attack"),
    ],
)
def test_wrong_options_are_refused(people: dc.Dataset, options: dict[str, Any], words: str) -> None:
    with pytest.raises(dc.PlanError, match=words):
        dc.tune(people, [swaps()], **{"risk": RISK, "utility": LOSS, **options})


# --- the space ----------------------------------------------------------------------------------------------


def test_grids_ranges_pipelines_and_inner_fields_expand() -> None:
    kinds = settings_of([
        dc.DropIdentifiers(),
        {"rank-swap": {"columns": ["a"], "percent": {"range": [1, 20], "steps": 5}}},
        [swaps([1, 2]), {"additive-noise": {"columns": "b", "sd_share": {"grid": [0.1, 0.2, 0.3]}}}],
        {"generalize": {"levels": {"age": {"grid": [1, 2]}, "sex": 1}}},
    ])  # fmt: skip
    assert [s.entry for s in kinds] == [0] + [1] * 5 + [2] * 6 + [3] * 2
    assert [s.methods[0].percent for s in kinds[1:6]] == [1, 6, 10, 15, 20]  # type: ignore[attr-defined]
    assert dict(kinds[6].varied) == {"rank-swap.percent": 1, "additive-noise.sd_share": 0.1}
    assert kinds[7].label == "rank-swap + additive-noise (rank-swap.percent=1, additive-noise.sd_share=0.2)"
    assert [dict(s.varied) for s in kinds[-2:]] == [{"levels.age": 1}, {"levels.age": 2}]


def test_python_and_plan_say_the_same() -> None:
    one = settings_of([dc.Vary(dc.RankSwap, columns=["a"], percent=dc.Range(1.0, 16.0, 5, log=True))])
    other = settings_of([{"rank-swap": {"columns": ["a"], "percent": {"range": [1.0, 16.0], "steps": 5, "log": True}}}])
    assert one == other and [s.varied["percent"] for s in one] == [1, 2, 4, 8, 16]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ([], "at least one"),
        ({"rank-swap": {}}, "expected a list"),
        ([[]], "no steps"),
        ([{"rank-swap": {"percent": {"grid": []}}}], "methods.1.rank-swap: percent: grid"),
        ([{"rank-swap": {"percent": {"grid": [1, 1]}}}], "twice"),
        ([{"rank-swap": {"percent": {"range": [5, 1]}}}], "smaller one first"),
        ([{"rank-swap": {"percent": {"range": [0, 1], "log": True}}}], "above 0"),
        ([{"rank-swap": {"percent": {"range": [0, 1], "steps": 1}}}], "steps"),
        ([{"rank-swap": {"percent": {"range": [1, 2], "log": "yes"}}}], "log"),
        ([{"rank-swap": {"percent": {"grid": [5, 500]}}}], "percent"),
        ([{"rank-swop": {}}], "rank-swap"),
        (["k-anonymity"], "model"),
        ([{"additive-noise": {"sd_share": MANY, "lower": MANY}}], "coarser"),
        ([[{"rank-swap": {"percent": MANY}}, {"additive-noise": {"sd_share": MANY}}]], "40,000 settings"),
    ],
)  # fmt: skip
def test_faults_of_the_space_have_a_place(spec: Any, words: str) -> None:
    with pytest.raises(dc.PlanError, match=words):
        settings_of(spec)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(dc.PlanError) as caught:
        settings_of(["rank-swop", [dc.DropIdentifiers(), {"mdav": {"k": {"grid": []}}}]])
    assert len(caught.value.problems) == 2 and "methods.2.2.mdav" in caught.value.problems[1]


# --- shared work, caches, seeds -----------------------------------------------------------------------------


def test_the_beginning_of_pipelines_is_carried_out_once(people: dc.Dataset, applied: list[str]) -> None:
    pipeline = [dc.Mdav(columns=["savings"], k=3), swaps([1, 5, 10])]
    dc.tune(people, [pipeline], risk=RISK, utility=LOSS, before=[dc.DropIdentifiers()], runs=2, seed=1)
    assert applied.count("drop-identifiers") == 2 and applied.count("mdav") == 2 and applied.count("rank-swap") == 6


def test_a_second_call_carries_out_nothing(people: dc.Dataset, applied: list[str]) -> None:
    dc.tune(people, [swaps()], risk=RISK, utility=LOSS, seed=1)
    steps = len(applied)
    first = dc.tune(people, [swaps()], risk=RISK, utility=LOSS, max_risk=0.5, seed=1)
    assert len(applied) == steps + first.best.draws  # the best was drawn anew
    second = dc.tune(people, [swaps()], risk=RISK, utility=LOSS, max_risk=0.5, seed=1)
    assert len(applied) == steps + first.best.draws and second.points == first.points
    applied.clear()
    dc.tune(people, [swaps()], risk=RISK, utility=dc.Mae(columns=["income"]), seed=1)
    assert len(applied) == steps  # another measure: the releases are made again
    dc.tune(people, [swaps()], risk=RISK, utility=LOSS, seed=2)
    assert len(applied) == 2 * steps  # other draws


def test_other_data_of_the_same_shape_does_not_hit(people: dc.Dataset, applied: list[str]) -> None:
    dc.tune(people, [swaps([5])], risk=RISK, utility=LOSS, seed=1)
    changed = people.with_columns({"income": people.frame["income"] * 2})
    dc.tune(changed, [swaps([5])], risk=RISK, utility=LOSS, seed=1)
    assert len(applied) == 6 and data_digest(people) != data_digest(changed)
    assert data_digest(people) == data_digest(dc.Dataset(survey(300), roles=ROLES))
    assert data_digest(people) != data_digest(dc.Dataset(survey(300), roles={**ROLES, "age": "sensitive"}))


def test_the_folder_is_private_outlives_the_data_and_damage_is_no_harm(
    people: dc.Dataset, applied: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "cache"
    first = dc.tune(people, [swaps([5, 9])], risk=RISK, utility=LOSS, seed=1, cache=folder)
    steps = len(applied)
    fresh = dc.Dataset(survey(300), roles=ROLES)
    assert dc.tune(fresh, [swaps([5, 9])], risk=RISK, utility=LOSS, seed=1, cache=folder).points == first.points
    assert len(applied) == steps
    files = sorted(folder.iterdir())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and {stat.S_IMODE(f.stat().st_mode) for f in files} == {0o600}
    for file in files:
        file.write_text("{", encoding="utf-8")
    another = dc.Dataset(survey(300), roles=ROLES)
    assert dc.tune(another, [swaps([5, 9])], risk=RISK, utility=LOSS, seed=1, cache=folder).points == first.points
    assert len(applied) == 2 * steps


def test_a_cancelled_search_goes_on_where_it_stopped(applied: list[str], tmp_path: Path) -> None:
    def stop(done: int, total: int, label: str) -> None:
        if done >= 2:
            raise dc.Cancelled("enough")

    people = dc.Dataset(survey(300), roles=ROLES)
    with pytest.raises(dc.Cancelled):
        dc.tune(people, [swaps()], risk=RISK, utility=LOSS, seed=1, cache=tmp_path / "c", progress=stop)
    assert applied == ["rank-swap"] * 6
    assert not [f for f in (tmp_path / "c").iterdir() if f.suffix != ".json"]
    dc.tune(dc.Dataset(survey(300), roles=ROLES), [swaps()], risk=RISK, utility=LOSS, seed=1, cache=tmp_path / "c")
    assert len(applied) == 3 * len(PERCENTS)


def test_the_same_seed_gives_the_same_result() -> None:
    results = [
        dc.tune(
            dc.Dataset(survey(300), roles=ROLES), [swaps()], risk=RISK, utility=LOSS, max_risk=0.5, seed=s, sample=100
        )
        for s in (1, 1, 2)
    ]
    assert results[0].points == results[1].points and results[0].points != results[2].points


# --- sampling and time --------------------------------------------------------------------------------------


def test_a_sample_screens_and_all_rows_confirm(people: dc.Dataset) -> None:
    beside = dc.Vary(
        dc.AdditiveNoise, columns=["savings"], sd_share=dc.Grid([1.0, 5.0])
    )  # protects what nobody attacks
    methods, loss = [swaps(), beside], dc.VariableChange(columns=["income", "savings"])
    found = dc.tune(people, methods, risk=RISK, utility=loss, max_risk=0.6, seed=1, sample=100)
    left = [p.label for p in found.points if not p.confirmed]
    assert left == ["additive-noise (sd_share=5)"]  # one setting of each method is repeated, the nearest to the front
    assert {p.rows for p in found.points} == {100, 300}
    assert all(p.confirmed == (p.rows == 300) for p in found.points)
    assert found.best.confirmed and all(p.confirmed for p in found.front) and not found.not_confirmed
    whole = dc.tune(people, methods, risk=RISK, utility=loss, max_risk=0.6, seed=1, sample=None)
    assert all(p.confirmed for p in whole.points) and found.best.label == whole.best.label
    by_label = {p.label: p for p in whole.points}
    assert all(by_label[p.label] == p for p in found.points if p.confirmed)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_sample_loses_nothing_of_the_front(seed: int) -> None:
    """Linkage falls with the number of rows, for noise more than for groups; so do the errors of small groups."""
    people, columns = dc.datasets.census(2000, seed=1), ["age", "income", "savings"]
    methods = [
        dc.Vary(dc.AdditiveNoise, columns=columns, sd_share=dc.Grid([0.02, 0.1, 0.4])),
        dc.Vary(dc.RankSwap, columns=columns, percent=dc.Grid([1, 5, 10, 40])),
        dc.Vary(dc.Mdav, columns=columns, k=dc.Grid([3, 10, 30])),
        dc.Vary(dc.IndividualRanking, columns=columns, k=dc.Grid([3, 10, 30, 100])),
    ]
    figures: dict[str, Any] = {
        "risk": dc.DistanceLinkage(columns=columns, intruder={"knows_method": False}),
        "utility": dc.VariableChange(columns=columns),
    }
    found, whole = (dc.tune(people, methods, **figures, runs=2, sample=size, seed=seed) for size in (200, None))
    assert [p.label for p in found.front] == [p.label for p in whole.front]


def test_linkage_screens_by_people_drawn_and_the_choice_is_attacked_in_full() -> None:
    """Every setting on all rows, some people looked for; the best stands with the figures of everybody."""
    people, columns = dc.datasets.census(6000, seed=1).drop(["household"]), ["age", "income", "savings"]
    noises = dc.Vary(dc.AdditiveNoise, columns=columns, sd_share=dc.Grid([0.02, 0.1, 0.3, 0.8]))
    risk = dc.DistanceLinkage(columns=columns, intruder={"knows_method": False})
    loss = dc.VariableChange(columns=columns)
    found = dc.tune(people, [noises], risk=risk, utility=loss, max_risk=0.1, seed=1, draws=2, runs=2)
    whole = dc.tune(people, [noises], risk=risk, utility=loss, max_risk=0.1, seed=1, draws=2, runs=2, sample=None)
    assert found.best == whole.best and found.best.risk_interval is None
    full = {point.label: point for point in whole.points}
    drawn = [point for point in found.points if point.risk_interval is not None]
    assert drawn and all(point.rows == 6000 and point.confirmed for point in found.points)
    for point in drawn:
        low, high = point.risk_interval or (0.0, 0.0)
        assert low - 0.02 <= full[point.label].risk <= high + 0.02 and low <= point.risk <= high
        assert found.kept(point) is (None if low <= 0.1 else False)
    assert [p.label for p in found.front] == [p.label for p in whole.front]
    assert "by people drawn at random" in found.page() and "by people drawn at random" not in whole.page()


def _figures(entry: int, risk: float, loss: float) -> Point:
    swap = Setting((dc.RankSwap(columns=["income"], percent=5),), entry)
    return Point(swap, risk, loss, 0.0, 0.0, risk, loss, 1, 100, False, "x")


def test_what_was_repeated_says_what_else_to_repeat() -> None:
    points = {0: _figures(0, 0.4, 0.1), 1: _figures(0, 0.5, 0.2), 2: _figures(0, 0.9, 0.9), 3: _figures(1, 0.6, 0.6)}
    screened = Screening(points, Scale((LOSS,), "utility"))
    assert screened.first() == [0, 3]  # the front, and of the second method the only setting
    same = {0: _figures(0, 0.4, 0.1), 3: _figures(1, 0.6, 0.6)}
    assert screened.further(same, [1, 2]) == []
    halved = {0: _figures(0, 0.4, 0.04), 3: _figures(1, 0.6, 0.6)}  # losses fall to 0.4 of what they were
    assert screened.further(halved, [1, 2]) == []  # 0.2 becomes 0.08 at best, the risk stays at 0.5
    third = {0: _figures(0, 0.3, 0.1), 3: _figures(1, 0.6, 0.6)}
    assert screened.further(third, [1, 2]) == []
    fallen = {0: _figures(0, 0.39, 0.1), 3: _figures(1, 0.1, 0.6)}
    other = Screening({**points, 4: _figures(1, 0.7, 0.3)}, Scale((LOSS,), "utility"))
    assert other.further(fallen, [1, 2, 4]) == [4]  # its method's risk fell to a sixth: 0.12 with a loss of 0.3


def test_a_limit_keeps_what_only_an_unsteady_point_dominates() -> None:
    unsteady = Point(Setting((), 0), 0.3, 0.1, 0.0, 0.0, 0.6, 0.1, 3, 300, True, "x")
    points = {0: _figures(0, 0.3, 0.1), 1: _figures(0, 0.35, 0.2)}
    assert Screening(points, Scale((LOSS,), "utility")).further({0: unsteady}, [1]) == []
    assert Screening(points, Scale((LOSS,), "utility"), max_risk=0.5).further({0: unsteady}, [1]) == [1]


def test_households_are_sampled_as_wholes() -> None:
    people = dc.datasets.census(800, seed=2)
    work = tuning._Work(people, (), Scale((RISK,), "risk"), Scale((LOSS,), "utility"), 1, 1, lambda *_: None)
    rows = work.sampled(200).data
    sizes = people.frame.group_by("household").len().rename({"len": "all"})
    kept = rows.frame.group_by("household").len().join(sizes, on="household")
    assert 200 <= len(rows) <= 210 and kept["len"].equals(kept["all"])


@pytest.mark.parametrize("ticks", [1, 3, 7])
def test_a_time_budget_counts_settings(people: dc.Dataset, monkeypatch: pytest.MonkeyPatch, ticks: int) -> None:
    """The clock moves by one second each time it is read: once at the start, then before every further setting."""
    now = iter(range(10_000))
    monkeypatch.setattr(tuning, "clock", lambda: float(next(now)))
    methods = [swaps(), dc.Vary(dc.AdditiveNoise, columns=["income"], sd_share=dc.Grid([0.1, 0.2, 0.3, 0.4]))]
    found = dc.tune(people, methods, risk=RISK, utility=LOSS, max_risk=1.0, seconds=ticks, seed=1, runs=1)
    assert len(found.points) == ticks and len(found.not_tried) == 9 - ticks
    labels = {s.label for s in found.not_tried} | {p.label for p in found.points}
    assert len(labels) == 9
    if ticks >= 3:  # ends of both grids come first
        assert {"rank-swap (percent=60)", "rank-swap (percent=1)", "additive-noise (sd_share=0.4)"} <= {
            p.label for p in found.points
        }


def test_time_that_ends_before_all_rows_says_so(people: dc.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(10_000))
    monkeypatch.setattr(tuning, "clock", lambda: float(next(now)))
    options: dict[str, Any] = {"max_risk": 1.0, "seconds": 8, "seed": 1, "runs": 1, "sample": 100}
    found = dc.tune(people, [swaps()], risk=RISK, utility=LOSS, knows_method=False, **options)
    # start 0, screening ends at 4.8 (reads 1 to 4: five settings), confirmation at 8 (reads 5 to 8: four settings)
    assert len(found.points) == 5 and not found.not_tried
    assert len(found.not_confirmed) == 1 and sum(p.confirmed for p in found.points) == 4


def test_halving_visits_every_place_once() -> None:
    for size in range(1, 40):
        order = halving(size)
        assert sorted(order) == list(range(size)) and order[0] == size - 1


# --- what comes out -----------------------------------------------------------------------------------------


def test_no_solution_names_the_nearest(people: dc.Dataset) -> None:
    found = dc.tune(people, [swaps()], risk=RISK, utility=LOSS, max_risk=0.001, seed=1)
    with pytest.raises(dc.Infeasible, match=r"nearest: rank-swap \(percent=60\)"):
        found.plan()
    assert found.to_dict()["best"] is None and len(found.front) > 0


def test_a_risk_that_no_method_changes_is_named(people: dc.Dataset) -> None:
    risks = [dc.DistanceLinkage(columns=["age"]), RISK]
    found = dc.tune(people, [swaps([30, 60])], risk=[dc.SampleUniqueness(columns=["age", "income"]), *risks],
                    utility=LOSS, max_risk=0.0, seed=1)  # fmt: skip
    assert {p.leading for p in found.points} <= {"distance-linkage", "rank-interval"}
    alone = dc.tune(people, [swaps([30, 60])], risk=risks[0], utility=LOSS, max_risk=0.0001, seed=1)
    with pytest.raises(dc.Infeasible, match="the same for all: no method changes"):
        _ = alone.best


def test_settings_that_cannot_run_are_told_and_none_at_all_is_an_error(people: dc.Dataset) -> None:
    found = dc.tune(people, [swaps([5]), dc.Mdav(columns=["income"], k=999)], risk=RISK, utility=LOSS, seed=1)
    assert [one.setting.family for one in found.failed] == ["mdav"] and "300" in found.failed[0].reason
    with pytest.raises(dc.Infeasible, match="no setting could be carried out"):
        dc.tune(people, [dc.Mdav(columns=["income"], k=999)], risk=RISK, utility=LOSS, seed=1)


def test_the_plan_repeats_the_best_and_gates_it(people: dc.Dataset) -> None:
    found = dc.tune(people, [swaps()], risk=RISK, utility=LOSS, max_risk=0.5, seed=1, before=[dc.DropIdentifiers()])
    plan = found.plan(title="Best")
    assert [step.method.kind for step in plan.steps] == ["drop-identifiers", "rank-swap"]
    assert plan.requirements[0].at_most == 0.5 and not plan.tune
    release = plan.run(people, seed=found.seeds[0])
    assert release.data.frame.equals(found.study().current.frame[release.data.row_ids])
    assert dc.Plan.from_dict(plan.to_dict()).steps == plan.steps
    least = dc.tune(people, [swaps()], risk=RISK, utility=LOSS, min_utility=0.1, seed=1).plan()
    assert least.requirements[0].part == LOSS and least.requirements[0].at_most == 0.1


def test_without_a_limit_there_is_a_front_and_no_best(people: dc.Dataset) -> None:
    found = dc.tune(people, [swaps([5, 50])], risk=RISK, utility=LOSS, seed=1)
    assert len(found.front) == 2 and found.limit == "none"
    with pytest.raises(dc.PlanError, match="no limit"):
        _ = found.best
    assert found.plan(found.front[0]).steps[0].method == found.front[0].setting.methods[0]


def test_default_measures_fit_the_data(people: dc.Dataset) -> None:
    found = dc.tune(people, [swaps([5])], seed=1, runs=1)
    assert {m.kind for m in found.risk.measures} >= {"distance-linkage", "rank-interval"}
    assert [m.kind for m in found.utility.measures] == ["variable-change"]
    census = dc.datasets.census(300, seed=1)
    coarse = dc.tune(census, [dc.Vary(dc.Generalize, levels={"age": dc.Grid([1, 3])})], seed=1)
    assert [m.kind for m in coarse.utility.measures] == ["variable-change", "precision"]
    assert coarse.points[0].utility > coarse.points[1].utility
    with pytest.raises(dc.PlanError, match="roles"):
        dc.tune(pl.DataFrame({"a": [1.0, 2.0]}), [dc.RankSwap(columns=["a"], percent=5)])


def test_default_utility_measures_what_each_method_does() -> None:
    """A column that one candidate generalizes and another swaps is measured both ways."""
    census = dc.datasets.census(100, seed=1)
    coarse = [dc.Generalize(levels={"age": 1, "region": 1}), dc.RankSwap(columns=["income"], percent=5)]
    swap = dc.RankSwap(columns=["age"], percent=5)
    moved, detail = default_utility(census, settings_of([coarse, swap]))
    assert detail.columns == ("region", "age")  # type: ignore[attr-defined]
    assert {"age", "income"} <= set(moved.columns) and "region" not in moved.columns  # type: ignore[attr-defined]
    (only,) = default_utility(census, settings_of([[dc.DropIdentifiers(), swap]]))
    assert {"age", "region"} <= set(only.columns)  # type: ignore[attr-defined]


def test_the_map_shows_every_point_and_asks_nobody(people: dc.Dataset) -> None:
    found = dc.tune(people, [swaps(), dc.Mdav(columns=["income"], k=3)], risk=RISK, utility=LOSS, max_risk=0.5, seed=1)
    picture, page = found.svg(), found.page("A <b>title</b>")
    assert (
        picture.count('class="mark"') == 6
        and "best under the limit" in picture
        and 'xmlns="http://www.w3.org/2000/svg"' in picture
    )
    assert page.count('tabindex="0"') == 12 and "A &lt;b&gt;title&lt;/b&gt;" in page and "NOT FOR PUBLICATION" in page
    assert "http" not in page and "src=" not in page and "@import" not in page
    assert found._repr_html_() == picture


def test_the_marks_of_the_map_say_what_they_are(people: dc.Dataset) -> None:
    found = dc.tune(people, [swaps()], risk=RISK, utility=LOSS, max_risk=0.5, seed=1)
    shown = map_of(found)
    signs = {
        "filled: nothing tried is better in both": any(mark.on_front for mark in shown.marks),
        "hollow: another setting is better in both": any(not mark.on_front for mark in shown.marks),
        "ring: the best under the limit": any(mark.best for mark in shown.marks),
        "pale: breaks the limit or a requirement": any(mark.refused for mark in shown.marks),
        "dashed: tried on a sample only": any(not mark.confirmed for mark in shown.marks),
    }
    for picture in (draw(shown), draw(shown, width=NARROW)):
        assert {words for words in signs if words in picture} == {words for words, there in signs.items() if there}
        best = next(mark for mark in shown.marks if mark.best)
        assert best.short.startswith("percent=") and f'font-weight="600">{best.short}</text>' in picture
    refused = sum(mark.refused for mark in shown.marks)
    assert draw(shown).count('class="mark" opacity="0.45"') == refused > 0
