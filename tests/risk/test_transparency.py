from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

import discretion as dc
from discretion.context import Context
from discretion.kernels.linkage import pair_costs
from discretion.risk.identity.intruder import view
from discretion.risk.identity.transparency.attack import Register, inform
from discretion.risk.identity.transparency.steps import center_window, swap_window

NAMES = ["a", "b", "c"]
INFORMED = {"knows_method": True}


def numbers(n: int = 600, seed: int = 1) -> dc.Dataset:
    return dc.Dataset(pl.DataFrame(np.random.default_rng(seed).normal(size=(n, 3)), schema=NAMES))


def attacked(data: dc.Dataset, released: dc.Dataset, **fields: object) -> dc.Score:
    return dc.DistanceLinkage(columns=NAMES, intruder={**INFORMED, **fields})(data, released)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(25, 80),
    values=st.sampled_from([3, 10, 10**6]),
    percent=st.sampled_from([10.0, 25.0, 60.0]),
    shares=st.sampled_from([(0.0, 0.0), (0.2, 0.1), (0.0, 0.4)]),
    kind=st.sampled_from([dc.RankSwap, dc.BlockRankSwap]),
    gaps=st.sampled_from([0.0, 0.15]),
    hidden=st.sampled_from([0.0, 0.1]),
)
def test_the_true_value_lies_in_the_swapping_window(
    seed: int, n: int, values: int, percent: float, shares: tuple[float, float], kind: type, gaps: float, hidden: float
) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, values, n).astype(float)
    x[:2] = 0, values  # it varies
    x[2:][rng.random(n - 2) < gaps] = np.nan
    assume(percent * np.isfinite(x).sum() >= 200)  # swapping that reaches nobody else is refused
    step = kind(columns=["x"], percent=percent, bottom_share=shares[0], top_share=shares[1])
    y = step(pl.DataFrame({"x": x}, nan_to_null=True), seed=seed)["x"].cast(pl.Float64).to_numpy().copy()
    y[rng.random(n) < hidden] = np.nan
    low, high = swap_window(x, y, step)
    there = ~np.isnan(x) & ~np.isnan(y)
    assert ((low <= y) & (y <= high))[there].all()


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(6, 60), values=st.sampled_from([3, 8, 10**6]), k=st.integers(2, 3))
def test_the_true_center_is_next_to_the_value(seed: int, n: int, values: int, k: int) -> None:
    x = np.random.default_rng(seed).integers(0, values, n).astype(float)
    for method in (dc.IndividualRanking, dc.OptimalMicroaggregation):
        y = method(columns=["x"], k=k)(pl.DataFrame({"x": x}))["x"].to_numpy()
        low, high = center_window(x, y)
        assert (low <= y).all() and (y <= high).all()


@pytest.mark.parametrize(
    ("step", "gain"),
    [
        (dc.RankSwap(columns=NAMES, percent=10), 2),
        (dc.BlockRankSwap(columns=NAMES, percent=10), 1.5),
        (dc.Mdav(columns=NAMES, k=5), 1.05),
        (dc.IndividualRanking(columns=NAMES, k=60), 1.05),
    ],
    ids=lambda item: item.kind if isinstance(item, dc.Method) else "",
)
def test_knowing_the_method_finds_more(step: dc.Method, gain: float) -> None:
    data = numbers()
    released = step(data, seed=5)
    score = attacked(data, released)
    plain = dc.DistanceLinkage(columns=NAMES, intruder={"knows_method": False})(data, released)
    assert score.detail["plain"] == plain.value
    assert score.detail["informed"] > gain * plain.value
    assert score.value == max(score.detail["informed"], score.detail.get("eliminated", 0.0))
    assert score.per_record is not None and score.per_record.mean() == pytest.approx(score.value)
    assert score.detail["without_candidate"] == 0


def test_windows_are_intersected_over_the_columns() -> None:
    """Rows in each window are about a fifth of the records, in all three about 1/125 (independent columns)."""
    data = numbers(2000)
    released = dc.RankSwap(columns=NAMES, percent=10)(data, seed=5)
    candidates = {
        d: dc.DistanceLinkage(columns=NAMES[:d], intruder=INFORMED)(data, released).detail["candidates"]
        for d in (1, 2, 3)
    }
    share = 0.2 - 0.1**2  # windows at the ends are cut
    for d, count in candidates.items():
        assert count == pytest.approx(2000 * share**d, rel=0.12)


def test_microaggregation_formed_again_is_found_as_one_of_the_group() -> None:
    data = numbers()
    score = attacked(data, dc.Mdav(columns=NAMES, k=4)(data))
    assert score.value == pytest.approx(1 / 4)
    blocks = dc.Mdav(blocks=[["a", "b"], ["c"]], k=4)(data)
    both = attacked(data, blocks)
    sizes = blocks.frame.group_by(NAMES).len()["len"].to_numpy()
    assert both.value == pytest.approx(len(sizes) / 600)


def test_an_intruder_with_few_records_uses_the_centers() -> None:
    data = numbers()
    released = dc.IndividualRanking(columns=NAMES, k=20)(data)
    score = attacked(data, released, records=200)
    assert "centers" in score.detail["known_of"]["a"]
    assert score.detail["informed"] >= score.detail["plain"]


def test_known_noise_weighs_the_columns() -> None:
    """Little noise on one column, much on two: standardizing treats them alike."""
    data = numbers()
    quiet = dc.AdditiveNoise(columns=["a"], sd_share=0.02)(data, seed=1)
    released = dc.AdditiveNoise(columns=["b", "c"], sd_share=1.0)(quiet, seed=2)
    score = attacked(data, released)
    assert score.detail["informed"] > 2 * score.detail["plain"]
    noise = released.frame.to_numpy() - data.frame.to_numpy()
    sds = np.array([0.02, 1.0, 1.0]) * data.frame.to_numpy().std(axis=0, ddof=1)
    share, mean = np.array([0.02, 1.0, 1.0]) ** 2, data.frame.to_numpy().mean(axis=0)
    predicted = mean + (released.frame.to_numpy() - mean) / (1 + share)  # E(x | y) of normal values
    gaps = (data.frame.to_numpy()[:, None] - predicted[None]) * np.sqrt(1 + share) / sds
    nearest = (gaps**2).sum(axis=2).argmin(axis=1)
    assert noise.std(axis=0) == pytest.approx(sds, rel=0.1)
    assert score.detail["informed"] == pytest.approx((nearest == np.arange(600)).mean())


def test_equal_noise_on_all_columns_is_taken_off_before_comparing() -> None:
    """Noise pushes values outward; who predicts them back finds more, although the columns weigh alike."""
    data = numbers()
    score = attacked(data, dc.AdditiveNoise(columns=NAMES, sd_share=0.6)(data, seed=1))
    assert score.detail["informed"] > 1.1 * score.detail["plain"]


def test_correlated_noise_is_measured_along_its_directions() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(600, 1)) + rng.normal(0, 0.1, (600, 3))
    data = dc.Dataset(pl.DataFrame(x, schema=NAMES))
    score = attacked(data, dc.CorrelatedNoise(columns=NAMES, variance_share=0.2)(data, seed=1))
    assert score.detail["informed"] > 1.5 * score.detail["plain"]


def test_multiplicative_noise_keeps_zero_and_sign() -> None:
    rng = np.random.default_rng(4)
    x = rng.lognormal(0, 2, (600, 3)) * rng.choice([-1.0, 0.0, 1.0], (600, 3))
    data = dc.Dataset(pl.DataFrame(x, schema=NAMES))
    released = dc.MultiplicativeNoise(columns=NAMES, sd=0.3)(data, seed=1)
    score = attacked(data, released)
    assert score.detail["informed"] > 1.5 * score.detail["plain"]
    assert score.detail["without_candidate"] == 0


def categories(n: int = 400, seed: int = 1) -> dc.Dataset:
    rng = np.random.default_rng(seed)
    weights = {name: np.arange(size, 0, -1.0) ** 2 for name, size in zip(NAMES, (3, 20, 9), strict=True)}
    drawn = {name: rng.choice([f"v{i}" for i in range(len(w))], n, p=w / w.sum()) for name, w in weights.items()}
    return dc.Dataset(pl.DataFrame(drawn))


@pytest.mark.parametrize("spread", ["proportional", "uniform"])
def test_moved_categories_are_weighed_by_their_likelihood(spread: str) -> None:
    """All pairs by the definition: log of p/t where they agree, of (1−p)/(1−t) where they do not."""
    data, released = categories(), categories()
    keep = dict(zip(NAMES, (0.95, 0.7, 0.3), strict=True))
    for name, share in keep.items():
        released = dc.Pram(columns=[name], keep_share=share, spread=spread)(released, seed=1)
    score = attacked(data, released)
    assert set(score.detail["known_of"]) == set(NAMES)
    total = np.zeros((400, 400))
    for name, p in keep.items():
        x, y = data.frame[name].to_numpy(), released.frame[name].to_numpy()
        t = np.array([(y == value).mean() for value in x])[:, None]
        weight = np.maximum(np.log(p / t) - np.log((1 - p) / (1 - t)), 0)
        total += np.where(x[:, None] == y[None], 0, weight)
    tied = total <= total.min(axis=1, keepdims=True) * (1 + 1e-9) + 1e-12
    want = np.where(np.diag(tied), 1 / tied.sum(axis=1), 0).mean()
    assert score.detail["informed"] == pytest.approx(want, abs=1e-12)
    assert score.value == score.detail["informed"] > score.detail["plain"]


def test_a_category_that_never_moves_must_agree_and_one_drawn_anew_tells_nothing() -> None:
    data = categories()
    stays = {f"v{i}": {f"v{i}": 1.0} for i in range(3)}
    anew = {f"v{i}": {f"v{j}": 1 / 20 for j in range(20)} for i in range(20)}
    released = dc.Pram(matrix={"a": stays, "b": anew})(data, seed=1)
    score = dc.DistanceLinkage(columns=["a", "b"], intruder=INFORMED)(data, released)
    sizes = data.class_sizes(["a"])
    assert score.detail["known_of"]["b"].startswith("pram")
    assert score.detail["informed"] == pytest.approx((1 / sizes).mean(), rel=0.25)


def test_randomized_answers_are_weighed_too() -> None:
    data = categories()
    released = dc.RandomizedResponse(columns=["c"], truth_share=0.2)(data, seed=1)
    released = dc.RandomizedResponse(columns=["b"], truth_share=0.9)(released, seed=2)
    score = dc.DistanceLinkage(columns=["b", "c"], intruder=INFORMED)(data, released)
    assert score.detail["known_of"]["b"].startswith("randomized-response")
    assert score.detail["informed"] > score.detail["plain"]


def test_what_no_step_changed_must_be_equal() -> None:
    rng = np.random.default_rng(5)
    frame = numbers().frame.with_columns(pl.Series("job", rng.choice([f"j{i}" for i in range(30)], 600)))
    data = dc.Dataset(frame)
    released = dc.AdditiveNoise(columns=NAMES, sd_share=2.0)(data, seed=1)
    score = dc.DistanceLinkage(columns=[*NAMES, "job"], intruder=INFORMED)(data, released)
    assert score.detail["known_of"]["job"] == "not changed"
    job = frame["job"].to_numpy()
    x, y = (side.frame[NAMES].to_numpy() for side in (data, released))
    gaps = x[:, None] - (x.mean(axis=0) + (y - x.mean(axis=0)) / (1 + 2.0**2))[None]
    costs = ((gaps / x.std(axis=0)) ** 2).sum(axis=2)
    nearest = np.where(job[:, None] == job[None], costs, np.inf).argmin(axis=1)
    assert score.detail["informed"] == pytest.approx((nearest == np.arange(600)).mean())
    assert score.value == max(score.detail["plain"], score.detail["informed"])


def test_a_column_changed_twice_is_attacked_as_if_the_method_were_unknown() -> None:
    data = numbers()
    twice = dc.AdditiveNoise(columns=NAMES, sd_share=0.2)(dc.RankSwap(columns=NAMES, percent=5)(data, seed=1), seed=2)
    score = attacked(data, twice)
    assert score.detail["known_of"] == {} and score.detail["informed"] == score.detail["plain"]


def test_the_same_seed_gives_the_same_figures() -> None:
    data = numbers()
    released = dc.RankSwap(columns=NAMES, percent=10)(data, seed=5)
    assert attacked(data, released, records=50).detail == attacked(data, released, records=50).detail


def test_recoded_and_top_coded_columns_are_compared() -> None:
    """A codebook tells what labels hold: an intruder who knows exact hours is not thrown off by "20 to 34"."""
    people = dc.datasets.census(2000, seed=1).drop(["household"])
    columns = ["age", "sex", "region", "hours"]
    released = people
    for step in (
        dc.TopCode(column="age", at=60),
        dc.Recode(column="hours", cuts=[0, 1, 20, 35, 45, 200], labels=["none", "few", "some", "usual", "many"]),
    ):
        released = step(released)
    score = dc.DistanceLinkage(columns=columns)(people, released)
    assert score.detail["known_of"]["hours"] == "recode: coded alike"
    assert score.detail["known_of"]["age"] == "top-code: coded alike"
    assert score.detail["without_candidate"] == 0 and not score.detail["left_out"]
    shown = [*columns[1:3], "hours", "age"]
    coded = people.frame.with_columns(
        pl.col("age").clip(upper_bound=60),
        hours=pl.Series(np.digitize(people.frame["hours"].to_numpy(), [1, 20, 35, 45])),
    )
    sizes = coded.select(pl.len().over(shown).alias("size"))["size"].to_numpy()
    assert score.detail["informed"] == pytest.approx((1 / sizes).mean())
    # a file from elsewhere says nothing about its making: the labels are read off the rows
    outside = dc.DistanceLinkage(columns=columns)(people, released.frame, align="position")
    without = dc.DistanceLinkage(columns=columns[:3])(people, released.frame, align="position")
    assert outside.value > 1.2 * without.value and not outside.detail["left_out"]


def test_a_column_coded_and_then_swapped_is_attacked_by_its_window() -> None:
    people = dc.datasets.census(1500, seed=2)
    coded = dc.TopCode(column="income", quantile=0.97, replace="mean")(people)
    released = dc.RankSwap(columns=["income", "savings"], percent=5)(coded, seed=1)
    score = dc.DistanceLinkage(columns=["income", "savings"])(people, released)
    assert set(score.detail["known_of"]) == {"income", "savings"}
    assert score.detail["without_candidate"] == 0
    assert score.value > 2 * score.detail["plain"]


def possible(space: Any) -> NDArray[np.bool_]:
    n = len(space.known)
    terms = space.terms._replace(low=np.repeat(space.terms.low, n, axis=0), high=np.repeat(space.terms.high, n, axis=0))
    costs = pair_costs(np.repeat(space.known, n, axis=0), np.tile(space.published, (n, 1)), terms)
    return np.isfinite(costs).reshape(n, n)


@pytest.mark.parametrize("seed", range(12))
def test_elimination_leaves_the_records_of_some_assignment(seed: int) -> None:
    """Against all assignments of six people to six records, enumerated."""
    rng = np.random.default_rng(seed)
    data = dc.Dataset(
        pl.DataFrame({"a": rng.integers(0, 8, 6), "b": rng.normal(size=6), "c": rng.choice(["x", "y"], 6).tolist()})
    )
    released = dc.RankSwap(columns=["a", "b"], percent=40)(data, seed=seed)
    released = released.with_columns({"c": pl.Series("c", [None, *released.frame["c"][1:]])}).after(
        dc.LocalSuppression(columns=["c"], k=2), released
    )
    ctx = Context(seed, "test")
    seen = view(dc.Intruder(), data, released, ("a", "b", "c"), ctx)
    informed = inform(seen, dc.Intruder(), released.steps, ctx, made=True)
    assert informed is not None
    found = Register(informed.space, ctx).eliminate(seen.rows, ctx)
    allowed = possible(informed.space)
    kept = np.zeros_like(allowed)
    for order in permutations(range(6)):
        if allowed[np.arange(6), order].all():
            kept[np.arange(6), order] = True
    assert found is not None and found.size.tolist() == kept.sum(axis=1).tolist()
    assert np.mean(found.size == 1) == np.mean(kept.sum(axis=1) == 1)


def test_who_has_everybody_finds_more_by_elimination() -> None:
    """Cells are suppressed: many records fit a person, but they are needed for others."""
    rng = np.random.default_rng(3)
    n = 300
    data = dc.Dataset(pl.DataFrame({f"c{j}": rng.integers(0, 6, n).astype(str).tolist() for j in range(4)}))
    hidden = rng.random((n, 4)) < 0.15
    masked = {
        name: pl.Series(name, [None if h else v for h, v in zip(hidden[:, j], data.frame[name], strict=True)])
        for j, name in enumerate(data.columns)
    }
    released = data.with_columns(masked).after(dc.LocalSuppression(columns=data.columns, k=2), data)
    score = dc.DistanceLinkage(columns=data.columns)(data, released)
    assert score.value == score.detail["eliminated"] > max(score.detail["plain"], score.detail["informed"])
    assert score.detail["known_reid"] >= score.detail["eliminated_certain"] > 0
    assert "crosses out" in score.meaning
    assert score.detail["interval"][0] < score.value < score.detail["interval"][1]
    alone = dc.DistanceLinkage(columns=data.columns, intruder={"records": 0.5})(data, released)
    assert "eliminated" not in alone.detail  # who has some of the people cannot tell whose record it must be


def test_people_are_assigned_to_noisy_records_within_their_classes() -> None:
    rng = np.random.default_rng(5)
    n = 600
    data = dc.Dataset(pl.DataFrame({"zip": rng.integers(0, 60, n).astype(str).tolist(), "x": rng.normal(size=n)}))
    data = dc.Dataset(data.frame.with_columns(y=pl.Series(rng.normal(size=n))))
    released = dc.AdditiveNoise(columns=["x", "y"], sd_share=0.3)(data, seed=1)
    score = dc.DistanceLinkage(columns=["zip", "x", "y"])(data, released)
    assert score.value == score.detail["eliminated"] > score.detail["informed"]
    linked = 0
    for _, part in data.frame.with_row_index().group_by("zip"):
        rows = part["index"].to_numpy()
        before, after = (side.frame.select("x", "y").to_numpy()[rows] for side in (data, released))
        _, order = linear_sum_assignment(((before[:, None] - after[None]) ** 2).sum(axis=2))
        linked += int((order == np.arange(len(rows))).sum())
    assert score.value == pytest.approx(linked / n, abs=0.03)  # the noise is known, so that distances are shrunk


def test_a_release_from_elsewhere_is_attacked_through_coded_extremes_and_labels() -> None:
    """Nobody says how it was made: extremes coded by their mean, then swapped; hours under names of their own."""
    people = dc.datasets.census(1200, seed=4)
    released = dc.TopCode(column="income", quantile=0.97, replace="mean")(people)
    released = dc.BottomCode(column="savings", quantile=0.03, replace="cut")(released)
    released = dc.RankSwap(columns=["income", "savings"], percent=5)(released, seed=1)
    released = dc.Recode(column="hours", cuts=[0, 1, 20, 35, 45, 200], labels=list("abcde"))(released)
    columns = ["sex", "hours", "income", "savings"]
    made = dc.DistanceLinkage(columns=columns)(people, released)
    frame = dc.Dataset(released.frame, schema=people.schema.only(released.columns))
    outside = dc.DistanceLinkage(columns=columns, intruder=INFORMED)(people, frame, align="position")
    assert outside.detail["assumed"].startswith("guessed from the rows: top-code, bottom-code, rank-swap")
    assert outside.detail["without_candidate"] == 0
    assert outside.value > 0.9 * made.value > 1.5 * made.detail["plain"]


@pytest.mark.parametrize("seed", range(20))
def test_links_one_to_one_do_not_depend_on_the_order_of_the_file(seed: int) -> None:
    from discretion.risk.identity.transparency.attack import _linked

    rng = np.random.default_rng(seed)
    n = 12
    known, published = rng.integers(0, 3, (n, 2)).astype(float), rng.integers(0, 3, (n, 2)).astype(float)
    published[rng.random((n, 2)) < 0.1] = np.nan
    costs = np.abs(known[:, None] - np.nan_to_num(published)[None]).sum(axis=2)
    mixed = rng.permutation(n)
    both = np.stack([costs, costs[np.ix_(mixed, mixed)]]), np.stack([published, published[mixed]])
    found, other = _linked(*both)
    assert other == pytest.approx(found[mixed])
    assert found.min() >= 0 and found.max() <= 1
    expected = _linked(np.zeros((1, n, n)), np.arange(n, dtype=float).reshape(1, n, 1))[0]
    assert expected == pytest.approx(np.full(n, 1 / n))  # nobody is told apart: each of the records is as likely
