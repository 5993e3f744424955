"""An intruder who knows the method: the larger figure counts, what nobody tells is scanned, certainty is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.release.gate import judge
from discretion.release.plan import Requirement
from discretion.risk.identity import linkage
from discretion.risk.identity.transparency.attack import guesses
from tests.release.survey import PLAN, put_survey

NAMES = ["a", "b", "c", "d"]


def table(n: int = 400, d: int = 4, seed: int = 1, shape: str = "normal") -> dc.Dataset:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    if shape == "related":
        x = x[:, :1] + rng.normal(0, 0.15, (n, d))
    elif shape == "skewed":
        x = np.exp(1.5 * x)
    return dc.Dataset(pl.DataFrame(x, schema=NAMES[:d]))


def swapped(data: dc.Dataset, percent: float = 20, seed: int = 5) -> dc.Dataset:
    return dc.RankSwap(columns=data.columns, percent=percent)(data, seed=seed)


# --- the larger figure counts -----------------------------------------------------------------------------------


def test_the_larger_figure_counts_and_stands_beside_the_plain_one() -> None:
    data = table()
    released = swapped(data)
    score = dc.DistanceLinkage(columns=NAMES)(data, released)
    assert score.value == score.detail["informed"] > 0.95 and score.detail["plain"] < 0.1
    assert "knows" in score.meaning and "methods applied" in score.meaning and "Without the method" in score.meaning
    blind = dc.DistanceLinkage(columns=NAMES, intruder={"knows_method": False})(data, released)
    assert blind.value == score.detail["plain"] == blind.detail["plain"] and "informed" not in blind.detail
    assert "assumed not to know" in blind.meaning
    wrong = dc.RankSwap(columns=NAMES, percent=25)
    assert dc.DistanceLinkage(columns=NAMES, intruder={"method": [wrong]})(data, released).value > 0.95


def test_a_limit_is_compared_with_the_larger_figure() -> None:
    data = table()
    released, wanted = swapped(data), Requirement(dc.DistanceLinkage(columns=NAMES), at_most=0.5)
    found = judge(wanted, data, released, dc.Context(1))
    assert not found.holds and "by an intruder who knows the method" in found.explain()
    assert judge(wanted, data, released, dc.Context(1), knows_method=False).holds


def test_a_release_that_says_nothing_is_linked_plainly_unless_methods_are_scanned() -> None:
    data = table()
    outside = swapped(data).frame
    plain = dc.DistanceLinkage(columns=NAMES)(data, outside)
    assert plain.value == plain.detail["plain"] < 0.1
    scanned = dc.DistanceLinkage(columns=NAMES, intruder={"knows_method": True})(data, outside)
    assert scanned.value > 0.95 and len(scanned.detail["scanned"]) == 3
    assert scanned.detail["assumed"].startswith("guessed from the rows: rank-swap")
    assert "guessed" in scanned.meaning


def test_some_targets_stand_for_all_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    data = table(600, 2)
    released = dc.AdditiveNoise(columns=["a", "b"], sd_share=0.1)(data, seed=1)
    whole = dc.DistanceLinkage(columns=["a", "b"])(data, released)
    assert "interval" not in whole.detail
    monkeypatch.setattr(linkage, "_ALL", 100)
    monkeypatch.setattr(linkage, "_TARGETS", (50, 150))
    again = dc.AdditiveNoise(columns=["a", "b"], sd_share=0.1)(data, seed=1)
    some = dc.DistanceLinkage(columns=["a", "b"])(data, again)
    low, high = some.detail["interval"]
    assert some.detail["targets"] == 150 and low < whole.detail["informed"] < high
    assert some.per_record is not None and np.isfinite(some.per_record).sum() in (150, 600)
    swaps = swapped(data)
    monkeypatch.setattr("discretion.risk.identity.transparency.attack._WALKED", 10)  # everybody at once: see swaps
    followed = dc.DistanceLinkage(columns=["a", "b"], intruder={"knows_method": True})(data, swaps)
    part = dc.DistanceLinkage(columns=["a", "b"])(data, swapped(data))
    assert part.detail["targets"] == 150 and part.detail["partners_followed"]
    assert part.per_record is not None and followed.per_record is not None
    drawn = np.isfinite(part.per_record)
    assert drawn.sum() == 150 and np.array_equal(part.per_record[drawn], followed.per_record[drawn])
    assert part.value == pytest.approx(part.per_record[drawn].mean())


# --- every method that has a formula ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "shape", "gain"),
    [
        (dc.AdditiveNoise(columns=NAMES[:3], sd_share=0.6), "normal", 1.2),
        (dc.AdditiveNoise(columns=NAMES[:3], sd_share=0.4, distribution="laplace"), "normal", 1.0),
        (dc.CorrelatedNoise(columns=NAMES[:3], variance_share=0.3), "normal", 1.1),
        (dc.CorrelatedNoise(columns=NAMES[:3], variance_share=0.3), "related", 2.0),
        (dc.VariancePreservingNoise(columns=NAMES[:3], variance_share=0.3), "normal", 1.0),
        (dc.VariancePreservingNoise(columns=NAMES[:3], variance_share=0.3), "related", 1.5),
        (dc.OrthogonalNoise(columns=NAMES[:3], variance_share=0.3), "related", 1.5),
        (dc.MultiplicativeNoise(columns=NAMES[:3], sd=0.4), "skewed", 1.5),
        (dc.MultiplicativeNoise(columns=NAMES[:3], sd=0.4, distribution="lognormal"), "skewed", 1.5),
        (dc.OutlierNoise(columns=NAMES[:3], variance_share=0.5), "skewed", 1.2),
        (dc.Round(columns=NAMES[:3], base=1, how="up"), "normal", 2.0),
        (dc.Round(columns=NAMES[:3], base=1), "normal", 1.0),
        (dc.Round(columns=NAMES[:3], base=1, how="random"), "normal", 1.0),
    ],
    ids=lambda item: item.kind if isinstance(item, dc.Method) else str(item),
)
def test_knowing_the_method_never_finds_less(step: dc.Method, shape: str, gain: float) -> None:
    """The mean over fixed draws: what a formula promises holds on average, not in each draw."""
    plain, informed = np.mean(
        [
            [score.detail["plain"], score.detail["informed"]]
            for seed in range(6)
            for data in [table(250, 3, seed, shape)]
            for score in [dc.DistanceLinkage(columns=NAMES[:3])(data, step(data, seed=seed))]
        ],
        axis=0,
    )
    assert informed >= gain * plain


@pytest.mark.parametrize("how", ["nearest", "up", "down"])
def test_rounded_values_are_found_among_those_rounded_alike(how: str) -> None:
    data = table(300, 3)
    step = dc.Round(columns=NAMES[:3], base=0.5, how=how)
    released = step(data, seed=1)
    x, y = step(data, seed=9).frame.to_numpy(), released.frame.to_numpy()
    want = (1 / (x[:, None] == y[None]).all(axis=2).sum(axis=1)).mean()
    assert dc.DistanceLinkage(columns=NAMES[:3])(data, released).detail["informed"] == pytest.approx(want)


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (dc.RankSwap(columns=NAMES, percent=15), "rank-swap"),
        (dc.AdditiveNoise(columns=NAMES, sd_share=0.3), "additive-noise"),
        (dc.Mdav(columns=NAMES, k=4), "mdav"),
        (dc.IndividualRanking(columns=NAMES, k=4), "individual-ranking"),
        (dc.Round(columns=NAMES, base=0.2), "round"),
    ],
    ids=lambda item: item.kind if isinstance(item, dc.Method) else "",
)
def test_guesses_fit_what_made_the_release(step: dc.Method, kind: str) -> None:
    data = table(300)
    released = step(data, seed=1)
    seen = linkage.view(dc.Intruder(), data, dc.Dataset(released.frame), NAMES, dc.Context(0))
    found = guesses(seen)
    first: Any = found[0].steps[0]
    assert first.kind == kind and not found[0].unknown
    if kind == "rank-swap":
        assert 13 < first.percent <= 15
    if kind == "additive-noise":
        assert first.sd_share == pytest.approx(0.3, rel=0.1)
        assert {guess.label.split("(")[1] for guess in found} >= {"normal)", "laplace)", "correlated)"}
    if kind in ("mdav", "individual-ranking"):
        assert first.k == 4
    if kind == "round":
        assert (first.base, first.how) == (0.2, "nearest")
    told = dc.DistanceLinkage(columns=NAMES, intruder={"knows_method": True})(data, released.frame)
    inside = dc.DistanceLinkage(columns=NAMES)(data, released)
    assert told.value >= 0.9 * inside.value


def test_what_was_not_changed_needs_no_guess() -> None:
    data = table(100)
    score = dc.DistanceLinkage(columns=NAMES, intruder={"knows_method": True})(data, data.frame)
    assert score.value == score.detail["informed"] == 1.0


# --- links the intruder knows are right -------------------------------------------------------------------------


def possible_pairs(data: dc.Dataset, released: dc.Dataset, percent: float, partners: bool) -> np.ndarray:
    """All pairs by the definition: inside all the windows, and so are the partners that the exchange implies."""
    before, after = (np.argsort(np.argsort(side.frame.to_numpy(), axis=0), axis=0) for side in (data, released))
    n, d = before.shape
    reach = int(n * percent / 100)
    inside = np.abs(before[:, None] - after[None]) <= reach
    allowed = inside.all(axis=2)
    for q, c in np.argwhere(allowed) if partners else ():
        for j in range(d):
            r = int(np.flatnonzero(before[:, j] == after[c, j])[0])
            s = int(np.flatnonzero(after[:, j] == before[q, j])[0])
            if r != q and not np.delete(inside[r, s], j).all():
                allowed[q, c] = False
    return allowed


@pytest.mark.parametrize(("d", "percent"), [(2, 10), (2, 30), (3, 20)])
def test_known_links_are_those_with_one_possible_candidate(d: int, percent: float) -> None:
    data = table(60, d, seed=3)
    released = swapped(data, percent)
    score = dc.DistanceLinkage(columns=data.columns)(data, released)
    allowed = possible_pairs(data, released, percent, partners=True)
    assert np.diag(allowed).all()
    known = (allowed.sum(axis=1) == 1).mean()
    assert score.detail["known_reid"] == pytest.approx(known)
    assert score.detail["known_reid"] <= score.value
    only = dc.DistanceLinkage(columns=data.columns, intruder={"records": 59})(data, released)  # partners unknown
    windows = possible_pairs(data, released, percent, partners=False)
    assert only.detail["known_reid"] == pytest.approx((windows.sum(axis=1) == 1).mean(), abs=1 / 59)


def test_noise_leaves_nobody_impossible() -> None:
    data = table(100, 2)
    noisy = dc.AdditiveNoise(columns=["a", "b"], sd_share=0.001)(data, seed=1)
    score = dc.DistanceLinkage(columns=["a", "b"])(data, noisy)
    assert score.value > 0.95 and score.detail["known_reid"] == 0.0


# --- intervals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "measure", "gain"),
    [
        (dc.RankSwap(columns=["a"], percent=20), dc.RankInterval(columns=["a"], percent=4), 1.4),
        (dc.RankSwap(columns=["a"], percent=20), dc.SdInterval(columns=["a"], percent=5), 1.2),
        (dc.AdditiveNoise(columns=["a"], sd_share=1.0), dc.SdInterval(columns=["a"], percent=10), 1.1),
        (dc.AdditiveNoise(columns=["a"], sd_share=1.0), dc.IntervalRisk(columns=["a"], sd_share=0.1), 1.1),
        (dc.VariancePreservingNoise(columns=["a"], variance_share=0.6), dc.SdInterval(columns=["a"]), 1.0),
        (dc.Round(columns=["a"], base=1, how="down"), dc.SdInterval(columns=["a"], percent=20), 1.5),
    ],
    ids=lambda item: getattr(item, "kind", ""),
)
def test_intervals_are_put_where_the_method_says(step: dc.Method, measure: dc.Measure, gain: float) -> None:
    data = table(3000, 1)
    releases = [step(data, seed=seed) for seed in range(2, 8)]
    scores = [measure(data, released) for released in releases]
    informed, plain = (np.mean([score.detail[name] for score in scores]) for name in ("informed", "plain"))
    assert informed > gain * plain
    released, score = max(zip(releases, scores, strict=True), key=lambda pair: pair[1].value)
    assert score.value == score.detail["informed"] > score.detail["plain"] and "knows the method" in score.meaning
    blind = measure.model_copy(update={"knows_method": False})(data, released)
    assert blind.value == score.detail["plain"] and "informed" not in blind.detail
    assert measure(data, released.frame).value == score.detail["plain"]


# --- plan and report --------------------------------------------------------------------------------------------


def test_a_plan_may_say_that_the_method_is_secret_and_both_reports_say_so(tmp_path: Path) -> None:
    plan = dc.Plan.load(put_survey(tmp_path, PLAN + "\nknows_method: false\n"))
    assert dc.Plan.from_dict(plan.to_dict()).knows_method is False
    plan.run(seed=2**127 + 1)
    for page in (tmp_path / "out" / "report.html", tmp_path / "secret" / "report.html"):
        assert "knows_method: false" in page.read_text(encoding="utf-8")
    assert json.loads((tmp_path / "out" / "report.json").read_text())["intruder_knows_method"] is False


def test_without_a_word_the_intruder_knows_the_method(tmp_path: Path) -> None:
    plan = dc.Plan.load(put_survey(tmp_path, PLAN))
    assert plan.knows_method and "knows_method" not in plan.to_dict()
    plan.run(seed=2**127 + 1)
    assert "larger figure counts" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    with pytest.raises(dc.PlanError, match="true or false"):
        dc.Plan.from_dict({"knows_method": "perhaps"})


def test_a_search_that_finds_its_levels_hides_no_more_than_the_levels_themselves() -> None:
    people = dc.datasets.census(800, seed=2)
    linkage = dc.DistanceLinkage(columns=["income", "education", "sex", "age"])
    swap = dc.RankSwap(columns=["income"], percent=10)
    search = dc.OptimalGeneralization(models=[dc.KAnonymity(k=2)], suppression_limit=0.5)
    chosen = search(people, seed=1)
    found = {name: int(level) for name, level in search.solve(people).levels.items() if level}
    kept = dc.Generalize(levels=found)(people, seed=1).frame.height - chosen.frame.height
    known = linkage(people, swap(chosen, seed=3)).detail
    assert kept >= 0 and known["informed"] > 2 * known["plain"]


@pytest.mark.parametrize("kind", ["nominal", "ordinal", "continuous", "ordered"])
@pytest.mark.parametrize("search", ["optimal-generalization", "local-recoding", "generalize"])
def test_what_a_search_left_as_it_is_must_agree_for_every_type(kind: str, search: str) -> None:
    rng = np.random.default_rng(8)
    n, scores = 120, ["s0", "s1", "s2", "s3", "s4"]
    ages = rng.integers(1, 5, n)
    score = np.where(rng.random((n, 5)) < 0.3, np.nan, rng.normal(500, 90, (n, 5)).round())
    frame = pl.DataFrame({"age": ages, **dict(zip(scores, score.T, strict=True))}).with_columns(
        pl.col(r"^s\d$").fill_nan(None)
    )
    # of the scores the gaps alone stay; in the ordered column a group has the name of one of its values
    groups = {"1": ["1", "2"], "3": ["3", "4"]}
    data = dc.Dataset(
        frame,
        roles={"age": "quasi"},
        types={"age": "ordinal" if kind == "ordered" else kind},
        hierarchies={"age": {"groups": {"levels": [groups]}}},
        orders={"age": [1, 2, 3, 4]} if kind == "ordered" else None,
    )
    shuffled = dc.Shuffle(columns=scores)(data, seed=3)
    models = [dc.KAnonymity(k=2)]
    step: dc.Method = (
        dc.Generalize(levels={"age": 1})
        if search == "generalize"
        else dc.OptimalGeneralization(models=models)
        if search == "optimal-generalization"
        else dc.LocalRecoding(models=models)
    )
    released = step(shuffled, seed=4)
    coarse = (ages + 1) // 2 if search == "generalize" else ages
    keys = [(int(a), *gap) for a, gap in zip(coarse, np.isnan(score).tolist(), strict=True)]
    alone = sum(keys.count(key) == 1 for key in set(keys)) / n
    found = dc.DistanceLinkage(columns=["age", *scores])(data, released).detail
    assert found["known_of"]["age"] == "generalized: the levels"
    assert alone > 0 and found["eliminated_certain"] == pytest.approx(alone)
    assert found["eliminated"] >= len(set(keys)) / n - 1e-9


def test_groups_of_one_value_are_exact_though_published_as_text() -> None:
    rng = np.random.default_rng(8)
    n, scores = 200, ["s0", "s1", "s2", "s3"]
    ages = rng.integers(1, 5, n)
    score = np.where(rng.random((n, 4)) < 0.3, np.nan, rng.normal(500, 90, (n, 4)).round())
    frame = pl.DataFrame({"age": ages, **dict(zip(scores, score.T, strict=True))}).with_columns(
        pl.col(scores).fill_nan(None)
    )
    data = dc.Dataset(frame, roles={"age": "quasi"})
    released = dc.Mondrian(k=5)(dc.Shuffle(columns=scores)(data, seed=3), seed=4)
    assert set(released.frame["age"]) == {"1", "2", "3", "4"}
    keys = [(int(a), *gap) for a, gap in zip(ages, np.isnan(score).tolist(), strict=True)]
    alone = sum(keys.count(key) == 1 for key in set(keys)) / n
    found = dc.DistanceLinkage(columns=["age", *scores])(data, released).detail
    assert alone > 0 and found["eliminated_certain"] == pytest.approx(alone)
