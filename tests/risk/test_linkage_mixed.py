from __future__ import annotations

from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.context import Context
from discretion.kernels.linkage import (
    ABSOLUTE,
    NOMINAL,
    SQUARED,
    SWAPPED,
    Terms,
    Tree,
    build_tree,
    count_allowed,
    nearest_mixed,
    pair_costs,
)
from discretion.kernels.swap import Laws, swap_costs, swap_law
from discretion.risk.identity.distances import make_space, with_gaps
from discretion.risk.identity.intruder import view
from discretion.risk.identity.transparency.attack import inform

INF = np.inf


def naive_costs(q: np.ndarray, p: np.ndarray, terms: Terms) -> np.ndarray:
    """Every distance, column by column."""
    costs = np.zeros((len(q), len(p)))
    for j, kind in enumerate(terms.kinds):
        x, y, scale = q[:, j, None], p[None, :, j], terms.scale[:, j, None]
        if kind == NOMINAL:
            rows = terms.alike[terms.offsets[j] + np.nan_to_num(q[:, j]).astype(int)]
            term = np.where((rows[:, None, :] == y[..., None]).any(axis=2), 0.0, scale)
        else:
            with np.errstate(invalid="ignore"):
                term = np.abs(x - y) * scale
            if kind == SWAPPED:
                term = swap_costs(j, np.repeat(q[:, j], len(p)), np.tile(p[:, j], len(q)), terms.laws).reshape(
                    costs.shape
                )
            term = term * term if kind == SQUARED else term
            if len(terms.low):
                term = np.where((y < terms.low[:, j, None]) | (y > terms.high[:, j, None]), INF, term)
        costs += np.where(np.isnan(x), 0.0, np.where(np.isnan(y), terms.gap[j], term))
    return costs


def check_against_all_pairs(q: np.ndarray, p: np.ndarray, terms: Terms, tree: Tree, own: np.ndarray) -> None:
    """Least distances, how many have them, whether the own one does and the first of them are those of all pairs."""
    got = nearest_mixed(q, tree, terms, p[own])
    costs = naive_costs(q, p, terms)
    least = costs.min(axis=1)
    tied = (costs <= (least * (1 + 1e-9))[:, None]) & np.isfinite(costs)
    np.testing.assert_allclose(got.distance, least)
    assert got.size.tolist() == tied.sum(axis=1).tolist()
    assert got.has_own.tolist() == tied[np.arange(len(q)), own].tolist()
    assert got.lowest.tolist() == [int(row.argmax()) if row.any() else -1 for row in tied]


def some_laws(rng: np.random.Generator, kinds: np.ndarray, size: int) -> Laws:
    """Laws of swapped columns whose values 0 to size − 1 have one to three ranks; some shuffled in blocks."""
    parts: list[list[np.ndarray]] = [[], [], []]
    ranks, places = [np.empty((0, 2), np.int64)], np.zeros((len(kinds), 5), np.int64)
    for j in np.flatnonzero(kinds == SWAPPED):
        counts = rng.integers(1, 4, size)
        last, n = np.cumsum(counts) - 1, int(counts.sum())
        reach = int(rng.integers(1, n + 1))
        low = int(rng.integers(0, max(n // 4, 1)))
        places[j] = sum(map(len, parts[0])), sum(map(len, ranks)), reach, low, n
        for store, part in zip(parts, swap_law(n - low, reach), strict=True):
            store.append(part)
        if rng.random() < 0.2:
            places[j, 2] = -reach
        ranks.append(np.column_stack([last - counts + 1, last]))
    return Laws(*(np.concatenate([np.empty(0), *part]) for part in parts), np.concatenate(ranks), places)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 120),
    m=st.integers(1, 30),
    gaps=st.sampled_from([0.0, 0.2, 0.9]),
    windows=st.sampled_from(["none", "narrow", "mixed"]),
    gap=st.sampled_from([0.0, 0.7, INF]),
    swapped=st.booleans(),
)
def test_tree_against_all_pairs(
    seed: int, n: int, m: int, gaps: float, windows: str, gap: float, swapped: bool
) -> None:
    """Gaps, duplicates, constants, narrow, wide and infinite windows, costs that exclude, and the law of swapping.

    Only columns of categories have rows in `alike`: the offsets of the others, before, between and after, say nothing.
    """
    rng = np.random.default_rng(seed)
    kinds = rng.choice([ABSOLUTE, SQUARED, NOMINAL, *([SWAPPED] if swapped else [])], rng.integers(1, 6)).astype(
        np.int64
    )
    d, size = len(kinds), int(rng.choice([1, 2, 5, 200]))
    q, p = (rng.integers(0, size, (rows, d)).astype(float) for rows in (m, n))
    p = p[rng.integers(0, n, n)] if rng.random() < 0.5 else p
    q[rng.random(q.shape) < gaps], p[rng.random(p.shape) < gaps] = np.nan, np.nan
    nominal = np.flatnonzero(kinds == NOMINAL)
    tables = [np.column_stack([np.arange(size), rng.integers(-1, size, size)]) for _ in nominal]
    alike = np.concatenate([np.empty((0, 2), np.int64), *tables])
    offsets = rng.integers(0, max(len(alike), 1), d) * rng.integers(0, 2)
    offsets[nominal] = rng.permutation(len(nominal)) * size
    scale = rng.choice([0.5, 1.0, 2.0], (1 if windows == "none" else m, d))
    scale[:, nominal] = np.where(rng.random((len(scale), len(nominal))) < 0.3, INF, scale[:, nominal])
    low = high = np.empty((0, d))
    if windows != "none":
        reach = np.array([0.0, 1.0, 2.0, 50.0, INF][: 3 if windows == "narrow" else 5])
        low, high = q - rng.choice(reach, (m, d)), q + rng.choice(reach, (m, d))
    terms = Terms(kinds, scale, np.full(d, gap), alike, offsets, low, high, some_laws(rng, kinds, size))
    spread = np.where(np.isfinite(scale), scale, 1.0).mean(axis=0)
    queries = [None, 1, m][rng.integers(0, 3)]
    check_against_all_pairs(q, p, terms, build_tree(p, kinds, spread, queries), rng.integers(0, n, m))


def test_codes_of_other_columns_do_not_end_the_table_of_a_column() -> None:
    """Columns behind the last one of categories have no rows in the table of those that agree, whatever they say."""
    q = np.array([[0.0, 1.0], [1.0, 2.0]])
    alike, none = np.array([[0], [1]]), np.empty((0, 2))
    terms = Terms(
        np.array([NOMINAL, SQUARED]), np.array([[INF, 1.0]]), np.zeros(2), alike, np.zeros(2, int), none, none
    )
    assert pair_costs(q, q, terms).tolist() == [0.0, 0.0]


KNOWN = ("income", "savings", "age", "sex", "region", "education")
CODED = dc.Generalize(levels={"age": 1, "education": 1})
DEALT = dc.Shuffle(columns=["income", "savings"], predictors=["age", "sex", "region"])
THINNED = dc.LocalSuppression(columns=["age", "sex", "region", "education"], k=3)


@pytest.mark.parametrize(
    "steps",
    [
        (),
        (CODED, DEALT, THINNED),
        (dc.RankSwap(columns=["income", "age"], percent=15), dc.AdditiveNoise(columns=["savings"], sd_share=0.2)),
        (dc.IndividualRanking(columns=["income"], k=4), dc.Pram(columns=["region"], keep_share=0.8), CODED, THINNED),
    ],
    ids=["plain", "dealt", "swapped", "moved"],
)
def test_what_attacks_compare_against_all_pairs(steps: tuple[dc.Method, ...]) -> None:
    """The distances that attacks on releases make themselves, plain and informed, in a tree and pair by pair."""
    people = dc.datasets.census(160, seed=2)
    study = dc.Study(people, seed=3)
    for step in (*steps, dc.TopCode(column="savings", quantile=0.9)):
        study = study.apply(step)
    intruder, ctx = dc.Intruder(), Context(seed=5)
    seen = view(intruder, people, study.current, KNOWN, ctx)
    plain, _ = with_gaps(seen, intruder, make_space(seen, None, "average", True, ctx))
    informed = inform(seen, intruder, study.current.steps, ctx, made=True)
    assert informed is not None
    for space in (plain, informed.space):
        check_against_all_pairs(space.known, space.published, space.terms, space.tree, seen.rows)
        ours = naive_costs(space.known, space.published, space.terms).diagonal()
        np.testing.assert_allclose(pair_costs(space.known, space.published, space.terms), ours)
        assert np.isfinite(ours).all()  # nobody's own record is excluded


def test_a_tree_is_not_cut_by_values_that_are_all_missing() -> None:
    """Most of a column suppressed: the records without it are told apart by the other column, down to the leaves."""
    rng = np.random.default_rng(1)
    p = np.column_stack([np.where(rng.random(4000) < 0.94, np.nan, rng.integers(0, 20, 4000)), np.arange(4000.0)])
    boxes = build_tree(p, np.array([NOMINAL, ABSOLUTE]), np.array([1.0, 1 / 4000])).boxes
    leaves = np.arange(len(boxes.start) // 2, len(boxes.start))
    empty = leaves[boxes.low[leaves, 0] == np.inf]
    assert len(empty) > 0.8 * len(leaves)
    assert (boxes.high[empty, 1] - boxes.low[empty, 1]).mean() < 4000 / len(leaves) * 2


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 200), d=st.integers(1, 3))
def test_counts_inside_bounds(seed: int, n: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 20, (n, d)).astype(float)
    p[rng.random(p.shape) < 0.1] = np.nan
    q = rng.integers(0, 20, (15, d)).astype(float)
    low, high = q - rng.integers(0, 8, q.shape), q + rng.integers(0, 8, q.shape)
    kinds = np.full(d, SQUARED)
    terms = Terms(kinds, np.ones((1, d)), np.zeros(d), np.empty((0, 1), int), np.zeros(d, int), low, high)
    inside = ~((p[None] < low[:, None]) | (p[None] > high[:, None])).any(axis=2)
    assert count_allowed(q, build_tree(p, kinds, np.ones(d)), terms).tolist() == inside.sum(axis=1).tolist()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 120), size=st.sampled_from([3, 100]))
def test_counts_of_categories_that_must_agree(seed: int, n: int, size: int) -> None:
    """Where a difference costs all or nothing, those allowed are those at distance zero."""
    rng = np.random.default_rng(seed)
    q, p = (rng.integers(0, size, (rows, 2)).astype(float) for rows in (15, n))
    q[rng.random(q.shape) < 0.1], p[rng.random(p.shape) < 0.5] = np.nan, np.nan
    kinds = np.array([NOMINAL, SQUARED])
    alike = np.column_stack([np.arange(size), rng.integers(-1, size, size)])
    low, high = q - 2, q + 2
    terms = Terms(kinds, np.array([[INF, 0.0]]), np.zeros(2), alike, np.zeros(2, int), low, high)
    allowed = count_allowed(q, build_tree(p, kinds, np.ones(2)), terms)
    assert allowed.tolist() == (naive_costs(q, p, terms) == 0).sum(axis=1).tolist()


def naive_gower(x: pl.DataFrame, y: pl.DataFrame, numbers: list[str], words: list[str]) -> float:
    total = np.zeros((len(x), len(y)))
    for name in numbers:
        a, b = x[name].to_numpy(), y[name].to_numpy()
        total += np.abs(a[:, None] - b[None]) / np.ptp(np.concatenate([a, b]))
    for name in words:
        total += x[name].to_numpy()[:, None] != y[name].to_numpy()[None]
    tied = total <= total.min(axis=1, keepdims=True) * (1 + 1e-9)
    return float((tied.diagonal() / tied.sum(axis=1)).mean())


def test_mixed_columns_by_gower() -> None:
    rng = np.random.default_rng(5)
    n = 400
    x = pl.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 9, n), "c": rng.choice(list("pqrs"), n)})
    y = x.with_columns(pl.Series("a", x["a"] + rng.normal(0, 0.2, n)), pl.Series("c", rng.choice(list("pqrs"), n)))
    score = dc.DistanceLinkage(columns=["a", "b", "c"])(x, y)
    assert score.value == pytest.approx(naive_gower(x, y, ["a", "b"], ["c"]))
    only = dc.DistanceLinkage(columns=["c"])(x, y)
    assert only.value == pytest.approx(naive_gower(x, y, [], ["c"]))


def test_ordered_categories_are_compared_by_their_place() -> None:
    order = ["low", "middle", "high", "top"]
    x = dc.Dataset(pl.DataFrame({"o": ["low", "high", "top"]}), orders={"o": order})
    y = dc.Dataset(pl.DataFrame({"o": ["middle", "high", "top"]}), schema=x.schema)
    assert dc.DistanceLinkage(columns=["o"])(x, y).value == 1.0
    unordered = dc.DistanceLinkage(columns=["o"])(x.frame, y.frame)
    assert unordered.value == pytest.approx((1 / 3 + 1 + 1) / 3)


def test_a_generalized_value_agrees_with_what_is_below_it() -> None:
    tree = dc.Hierarchy.tree({"*": {"north": ["a", "b"], "south": ["c", "d"]}})
    data = dc.Dataset(pl.DataFrame({"r": list("abcdd"), "s": list("fmfmm")}), hierarchies={"r": tree})
    released = dc.Generalize(levels={"r": 1})(data)
    score = dc.DistanceLinkage(columns=["r", "s"])(data, released)
    assert score.per_record is not None and score.per_record.tolist() == [1, 1, 1, 0.5, 0.5]
    local = data.with_columns({"r": ["north", "north", "*", "d", "d"]})
    assert dc.DistanceLinkage(columns=["r"])(data, local).per_record.tolist() == pytest.approx(  # type: ignore[union-attr]
        [1 / 3, 1 / 3, 1, 1 / 3, 1 / 3]
    )


def test_text_without_a_hierarchy_is_refused_in_words() -> None:
    data = pl.DataFrame({"age": [20, 30, 40]})
    with pytest.raises(dc.DataError, match="column 'age' is text in the release"):
        dc.DistanceLinkage(columns=["age"])(data, pl.DataFrame({"age": ["20-29", "30-39", "40-49"]}))


def test_columns_that_can_be_compared() -> None:
    from discretion.learning.columns import comparable

    tree = dc.Hierarchy.tree({"*": {"north": ["1", "2"]}})
    data = dc.Dataset(pl.DataFrame({"a": [1, 2], "b": [1, 2], "c": ["x", "y"]}), hierarchies={"b": tree})
    released = dc.Dataset(pl.DataFrame({"a": ["1-9", "1-9"], "b": ["north", "north"], "c": ["y", "x"]}))
    assert comparable(data, released, ["a", "b", "c"]) == ("b", "c")
    assert comparable(data, data, ["a", "b", "c"]) == ("a", "b", "c")


def test_suppressed_cells() -> None:
    """The first record lost b: passed over it cannot be found, as a match or on average it can."""
    x = pl.DataFrame({"a": [1.0, 2.0, 3.0, 9.0], "b": [1.0, 2.0, 3.0, 9.0]})
    y = pl.DataFrame({"a": [1.0, 2.0, 3.0, 9.0], "b": [None, 2.0, 3.0, 9.0]})
    found = {
        gaps: dc.DistanceLinkage(columns=["a", "b"], missing=gaps, standardize=False)(x, y).per_record
        for gaps in ("average", "match", "exclude")
    }
    assert found["match"].tolist() == [1, 1, 1, 1]  # type: ignore[union-attr]
    assert found["exclude"].tolist() == [0, 1, 1, 1]  # type: ignore[union-attr]
    average = np.mean([(b - v) ** 2 for b in (1, 2, 3, 9) for v in (2, 3, 9)])
    assert found["average"].tolist() == [float(average < 2), 1, 1, 1]  # type: ignore[union-attr]


def test_mahalanobis_is_euclid_on_decorrelated_columns() -> None:
    rng = np.random.default_rng(8)
    base = rng.normal(size=(300, 3))
    x = base @ np.array([[1, 0.9, 0], [0, 0.3, 0], [0, 0, 5.0]])
    y = x + rng.normal(0, 0.2, x.shape)
    names = ["a", "b", "c"]
    frames = pl.DataFrame(x, schema=names), pl.DataFrame(y, schema=names)
    inverse = np.linalg.inv(np.cov(x.T))
    gaps = x[:, None] - y[None]
    nearest = np.einsum("ijk,kl,ijl->ij", gaps, inverse, gaps).argmin(axis=1)
    score = dc.DistanceLinkage(columns=names, distance="mahalanobis")(*frames)
    assert score.value == pytest.approx((nearest == np.arange(300)).mean())
    turned = [pl.DataFrame(z @ np.array([[1, 2, 0], [0, 1, 0], [3, 0, 1.0]]), schema=names) for z in (x, y)]
    assert dc.DistanceLinkage(columns=names, distance="mahalanobis")(*turned).value == pytest.approx(score.value)


def test_robust_mahalanobis_is_not_misled_by_outliers() -> None:
    rng = np.random.default_rng(9)
    x = rng.normal(size=(400, 1)) @ np.ones((1, 2)) + rng.normal(0, 0.1, (400, 2))
    y = x + rng.normal(size=(400, 1)) * 0.5 * np.ones((1, 2)) + rng.normal(0, 0.01, (400, 2))
    x[:40] += rng.normal(0, 40, (40, 2)) * [1, -1]
    y[:40] = x[:40]
    frames = pl.DataFrame(x, schema=["a", "b"]), pl.DataFrame(y, schema=["a", "b"])
    found = {
        name: dc.DistanceLinkage(columns=["a", "b"], distance=name)(*frames).value
        for name in ("mahalanobis", "robust-mahalanobis")
    }
    assert found["robust-mahalanobis"] > found["mahalanobis"] + 0.05


@pytest.mark.parametrize("distance", ["mahalanobis", "robust-mahalanobis"])
def test_mahalanobis_refuses_what_it_cannot_compare(distance: str) -> None:
    words = pl.DataFrame({"a": [1.0, 2, 3], "w": ["x", "y", "z"]})
    with pytest.raises(dc.PlanError, match="'w' holds categories"):
        dc.DistanceLinkage(columns=["a", "w"], distance=distance)(words, words)
    holes = pl.DataFrame({"a": [1.0, None, 3]})
    with pytest.raises(dc.DataError, match="'a' has missing values"):
        dc.DistanceLinkage(columns=["a"], distance=distance)(holes, holes)


def test_a_million_distances_are_not_kept() -> None:
    """Cancelling works, and progress is told."""
    calls: list[tuple[int, int]] = []
    rng = np.random.default_rng(1)
    x = pl.DataFrame({"a": rng.normal(size=20_000), "c": rng.choice(list("ab"), 20_000)})

    def cancel(done: int, total: int, label: str) -> None:
        calls.append((done, total))
        raise dc.Cancelled("stop")

    with pytest.raises(dc.Cancelled):
        dc.DistanceLinkage(columns=["a", "c"])(x, x, progress=cancel)
    assert len(calls) == 1
    assert dc.DistanceLinkage(columns=["a", "c"])(x, x).value == 1.0


class TestAssignment:
    def test_finds_all_of_a_shifted_release(self) -> None:
        x = pl.DataFrame({"v": np.arange(50.0)})
        y = pl.DataFrame({"v": np.arange(50.0) + 0.9})
        assert dc.DistanceLinkage(columns=["v"])(x, y).value == pytest.approx(1 / 50)
        assert dc.AssignmentLinkage(columns=["v"])(x, y).value == 1.0

    def test_is_the_best_of_all_permutations(self) -> None:
        from itertools import permutations

        rng = np.random.default_rng(3)
        x, y = rng.integers(0, 9, (6, 2)).astype(float), rng.integers(0, 9, (6, 2)).astype(float)
        sd = x.std(axis=0, ddof=1)
        distances = np.sqrt((((x[:, None] - y[None]) / sd) ** 2).sum(axis=2))
        best = min(sum(distances[i, j] for i, j in enumerate(order)) for order in permutations(range(6)))
        names = ["a", "b"]
        score = dc.AssignmentLinkage(columns=names)(pl.DataFrame(x, schema=names), pl.DataFrame(y, schema=names))
        assert score.detail["total_distance"] == pytest.approx(best)

    def test_equal_published_records_count_as_one_part_each(self) -> None:
        x = np.random.default_rng(1).normal(size=(60, 2))
        data = pl.DataFrame(x, schema=["a", "b"])
        score = dc.AssignmentLinkage(columns=["a", "b"])(data, dc.Mdav(columns=["a", "b"], k=4)(data))
        assert 0 < score.value <= 1 / 4

    def test_limits(self) -> None:
        big = pl.DataFrame({"v": np.arange(5001.0)})
        with pytest.raises(dc.DataError, match="use distance-linkage"):
            dc.AssignmentLinkage(columns=["v"])(big, big)
        with pytest.raises(dc.PlanError, match="distance-linkage"):
            dc.AssignmentLinkage(columns=["v"], intruder={"knows_method": True})

    def test_fewer_records_than_the_release(self) -> None:
        x = pl.DataFrame({"v": np.arange(50.0)})
        score = dc.AssignmentLinkage(columns=["v"], intruder={"records": 10})(x, x)
        assert score.value == 1.0 and score.detail["records"] == 10


def test_published_ranges_agree_with_what_is_inside() -> None:
    """Groups of Mondrian stand in no hierarchy; the anonymity set of a person is the group."""
    people = dc.datasets.census(200, seed=4)
    columns = ["age", "education", "marital_status"]
    plain = dc.Dataset(people.frame.select(columns).drop_nulls())
    released = dc.Mondrian(columns=columns, k=4, strict=True)(plain, seed=1)
    score = dc.DistanceLinkage(columns=columns)(plain, released)
    assert score.per_record is not None
    np.testing.assert_allclose(score.per_record, 1 / released.class_sizes(columns))
    assert score.detail["left_out"] == []


def test_ranges_of_dates_sets_and_open_ends() -> None:
    known = pl.DataFrame({"born": [date(1960, 1, 1), date(1970, 1, 1), date(1980, 5, 5)], "x": [1.0, 2.0, 3.0]})
    labels = pl.DataFrame({"born": ["[1960-01-01, 1970-01-01]"] * 2 + ["1980-05-05"], "x": ["[1, 2)", "[2, 3)", "3"]})
    assert dc.DistanceLinkage(columns=["born"])(known, labels).value == pytest.approx(2 / 3)
    assert dc.DistanceLinkage(columns=["x"])(known, labels).value == 1.0
    zips = pl.DataFrame({"zip": [40831, 40832, 97206, 11111]})
    masked = pl.DataFrame({"zip": ["4083*", "4083*", "97206", "*"]})
    score = dc.DistanceLinkage(columns=["zip"])(zips, masked)
    assert score.per_record is not None
    np.testing.assert_allclose(score.per_record, [1 / 3, 1 / 3, 1 / 2, 1])
    assert dc.ProbabilisticLinkage(columns=["zip"])(zips, masked).value == pytest.approx(score.value)


def test_a_column_in_which_nothing_agrees_is_named_or_refused() -> None:
    known = pl.DataFrame({"job": ["a", "b", "c"], "zip": ["1", "2", "3"]})
    coded = pl.DataFrame({"job": ["x", "y", "z"], "zip": ["1", "2", "3"]})
    score = dc.DistanceLinkage(columns=["job", "zip"])(known, coded)
    assert score.value == 1.0
    assert score.detail["left_out"] == ["job"]
    assert "job" in score.meaning
    with pytest.raises(dc.DataError, match="nothing can be compared"):
        dc.DistanceLinkage(columns=["job"])(known, coded)


def test_large_whole_numbers_keep_their_last_digits() -> None:
    frame = pl.DataFrame({"number": [2**60 + i for i in range(20)], "sex": ["f", "m"] * 10})
    assert dc.DistanceLinkage(columns=["number"])(frame, frame).value == 1.0
    assert dc.DistanceLinkage(columns=["number", "sex"])(frame, frame).value == 1.0


def test_one_to_one_links_do_not_follow_the_rows() -> None:
    """Where everything is suppressed all one-to-one links are equally good; the row number is not a clue."""
    known = pl.DataFrame({"a": list(range(30)), "b": list(range(30))})
    empty = known.with_columns(pl.lit(None, dtype=pl.Int64).alias("a"), pl.lit(None, dtype=pl.Int64).alias("b"))
    assert dc.AssignmentLinkage(columns=["a", "b"])(known, empty).value == pytest.approx(1 / 30)
    half = known.with_columns(pl.when(pl.col("a") < 20).then(None).otherwise(pl.col("a")).alias("a"))
    score = dc.AssignmentLinkage(columns=["a"])(known, half)
    assert score.value == pytest.approx((10 + 20 / 20) / 30)


def test_one_record_has_no_covariance() -> None:
    one = pl.DataFrame({"a": [1.0], "b": [2.0]})
    with pytest.raises(dc.DataError, match="two records"):
        dc.DistanceLinkage(columns=["a", "b"], distance="mahalanobis")(one, one)


def test_a_label_at_several_levels_counts_once() -> None:
    """The average difference of a missing cell is taken over the published categories, each of them once."""
    frame = pl.DataFrame({"a": ["x", "y", "z", "x", "y", "z"], "b": ["p", "p", "q", "q", "r", "r"]})
    twice = dc.Hierarchy.of([["x", "g", "g", "*"], ["y", "g", "g", "*"], ["z", "h", "h", "*"]])
    once = dc.Hierarchy.of([["x", "g", "*"], ["y", "g", "*"], ["z", "h", "*"]])
    shown = pl.DataFrame({"a": ["g", "g", None, "g", None, "h"], "b": ["p", "p", "q", None, "r", "r"]})
    figures = [
        dc.DistanceLinkage()(
            dc.Dataset(frame, roles={"a": "quasi", "b": "quasi"}, hierarchies={"a": hierarchy}), shown
        ).per_record
        for hierarchy in (twice, once)
    ]
    np.testing.assert_allclose(*figures)
