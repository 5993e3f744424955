"""V-MDAV, individual ranking and projection: what each promises."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.kernels.order import keyed_mix
from discretion.risk.identity.transparency.steps import center_window

NAMES = ["a", "b", "c"]
TOGETHER = (dc.Mdav, dc.VariableMdav, dc.ProjectionMicroaggregation)


def clustered(clusters: int, size: int, spread: float, seed: int) -> pl.DataFrame:
    """Clusters of more than k and fewer than 2k records, far from each other."""
    rng = np.random.default_rng(seed)
    centers = rng.uniform(0, 100, (clusters, 3))
    sizes = rng.integers(size, 2 * size, clusters)
    return pl.DataFrame(np.repeat(centers, sizes, axis=0) + rng.normal(0, spread, (sizes.sum(), 3)), schema=NAMES)


def lost(data: pl.DataFrame, method: dc.Method) -> float:
    return float(dc.Sse(columns=NAMES)(data, method(data, seed=1)).detail["share_of_total"])


@pytest.mark.parametrize("seed", range(5))
def test_vmdav_loses_less_than_mdav_on_clusters(seed: int) -> None:
    data = clustered(60, 4, 0.5, seed)
    variable = lost(data, dc.VariableMdav(columns=NAMES, k=4, gamma=1.1))
    assert variable < 0.7 * lost(data, dc.Mdav(columns=NAMES, k=4))


def test_vmdav_loses_about_as_much_on_scattered_data() -> None:
    data = pl.DataFrame(np.random.default_rng(1).normal(size=(2000, 3)), schema=NAMES)
    assert lost(data, dc.VariableMdav(columns=NAMES, k=4)) < 1.1 * lost(data, dc.Mdav(columns=NAMES, k=4))


@pytest.mark.parametrize("method", TOGETHER)
@pytest.mark.parametrize("k", [2, 7])
def test_groups_have_k_to_2k_minus_1(method: type[dc.Method], k: int) -> None:
    for n in (k, 2 * k - 1, 2 * k, 3 * k - 1, 3 * k, 500):
        data = pl.DataFrame(np.random.default_rng(n).normal(size=(n, 3)), schema=NAMES)
        sizes = method(columns=NAMES, k=k)(data, seed=1).group_by(NAMES).len()["len"]
        assert sizes.min() >= k and sizes.max() < 2 * k  # type: ignore[operator]


@pytest.mark.parametrize("method", TOGETHER)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), k=st.integers(2, 4))
def test_k_anonymity_holds_with_missing_values(method: type[dc.Method], data: st.DataObject, k: int) -> None:
    cell = st.one_of(st.integers(-3, 3).map(float), st.none())
    rows = data.draw(st.lists(st.tuples(cell, cell), min_size=k, max_size=25))
    frame = pl.DataFrame(rows, schema={"a": pl.Float64, "b": pl.Float64}, orient="row")
    try:
        released = method(columns=["a", "b"], k=k)(dc.Dataset(frame))
    except dc.DataError as error:
        assert "k = " in str(error)
        return
    assert dc.KAnonymity(k=k, columns=["a", "b"])(released).holds
    for name in ("a", "b"):
        gone = (released.frame[name].is_null() & frame[name].is_not_null()).to_numpy()
        assert np.array_equal(gone, released.suppressed(name))


@pytest.mark.parametrize("method", [*TOGETHER, dc.IndividualRanking, dc.OptimalMicroaggregation])
def test_means_are_kept_and_variances_shrink(method: type[dc.Method]) -> None:
    x = np.random.default_rng(2).lognormal(size=(500, 3))
    released = method(columns=NAMES, k=5)(pl.DataFrame(x, schema=NAMES), seed=1).to_numpy()
    assert np.allclose(released.mean(axis=0), x.mean(axis=0), rtol=1e-12)
    assert (released.var(axis=0) < x.var(axis=0)).all()


@pytest.mark.parametrize("aggregate", ["median", "mode"])
@pytest.mark.parametrize("method", TOGETHER)
def test_median_and_mode_stand_for_the_same_groups(method: type[dc.Method], aggregate: str) -> None:
    data = pl.DataFrame(np.random.default_rng(3).integers(0, 30, (200, 3)), schema=NAMES).with_row_index("row")
    groups = method(columns=NAMES, k=5)(data).group_by(NAMES).agg("row")["row"]
    other = method(columns=NAMES, k=5, aggregate=aggregate)(data)
    for rows in groups:
        inside, got = data[rows.to_list()]["a"].to_list(), other[rows.to_list()]["a"].unique().to_list()
        mode = min(inside, key=lambda value: (-inside.count(value), value))
        assert got == [float(np.median(inside)) if aggregate == "median" else mode]
    assert other["a"].dtype == (pl.Float64 if aggregate == "median" else pl.Int64)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("method", [dc.IndividualRanking, dc.OptimalMicroaggregation])
def test_every_aggregate_stands_for_the_same_groups_of_one_column(method: type[dc.Method], missing: bool) -> None:
    x: list[int | None] = np.random.default_rng(3).integers(0, 30, 200).tolist()
    x = [None if missing and row % 7 == 0 else value for row, value in enumerate(x)]
    data = pl.DataFrame({"a": x}, schema={"a": pl.Int64}).with_row_index("row")
    fields = {"columns": ["a"], "k": 5}
    same = dc.Context(0, "1")  # the same order of equal values
    means = method(**fields).apply(dc.Dataset(data), same).frame
    for aggregate in ("median", "mode"):
        other = method(**fields, aggregate=aggregate).apply(dc.Dataset(data), same).frame
        assert other["a"].dtype == (pl.Float64 if aggregate == "median" else pl.Int64)
        for rows in means.drop_nulls().group_by("a").agg("row")["row"]:
            inside = [value for value in data[rows.to_list()]["a"].to_list() if value is not None]
            mode = min(inside, key=lambda value: (-inside.count(value), value))
            assert set(other[rows.to_list()]["a"]) == {float(np.median(inside)) if aggregate == "median" else mode}
        assert other["a"].null_count() == data["a"].null_count()


@pytest.mark.parametrize("aggregate", ["mean", "median", "mode"])
@pytest.mark.parametrize("method", [dc.IndividualRanking, dc.OptimalMicroaggregation])
def test_one_value_of_each_group_of_a_column_may_be_replaced(method: type[dc.Method], aggregate: str) -> None:
    """Values 0, 1, 2, … 5 and so on in blocks: where the groups lie is plain, and which value is drawn is not."""
    x = np.concatenate([1000.0 * block + np.array([0, 1, 2, 2, 9]) for block in range(40)])
    data = pl.DataFrame({"a": np.random.default_rng(0).permutation(x), "b": x})
    fields = {"columns": ["a", "b"], "k": 5, "aggregate": aggregate, "replace": "one"}
    released = method(**fields)(data, seed=1)
    stands = {"mean": 2.8, "median": 2.0, "mode": 2.0}[aggregate]
    places = []
    for name in ("a", "b"):
        changed = (released[name] != data[name]).to_numpy()
        assert np.allclose(released[name].to_numpy()[changed] % 1000, stands)
        per_block = np.bincount((data[name].to_numpy()[changed] // 1000).astype(int), minlength=40)
        assert per_block.max() == 1 and per_block.sum() == (40 if aggregate == "mean" else changed.sum()) > 10
        places.append(changed)
    assert released.equals(method(**fields)(data, seed=1)) and not released.equals(method(**fields)(data, seed=2))
    chosen = (data["b"].to_numpy() % 1000)[places[1]]
    assert len(set(chosen)) > 2, "the value is drawn"


@pytest.mark.parametrize("method", [dc.OptimalMicroaggregation, dc.IndividualRanking, dc.Mdav])
def test_values_that_are_not_replaced_stay_exactly_as_they_are(method: type[dc.Method]) -> None:
    values = [2**60 + 1, 2**60 + 3, 2**60 + 5, 7, 8, 9]
    chosen = method(columns=["x"], k=3, aggregate="mode", replace="one")
    released = chosen(pl.DataFrame({"x": values}), seed=3)["x"]
    assert released.dtype == pl.Int64 and sum(a == b for a, b in zip(released, values, strict=True)) >= 4


@pytest.mark.parametrize("method", [dc.VariableMdav, dc.ProjectionMicroaggregation])
def test_blurring(method: type[dc.Method]) -> None:
    data = pl.DataFrame(np.random.default_rng(4).normal(size=(100, 3)), schema=NAMES)
    blurred = method(columns=NAMES, k=5, replace="one")(data, seed=1)
    groups = method(columns=NAMES, k=5)(data, seed=1).select(NAMES).n_unique()
    for name in NAMES:
        assert (blurred[name] != data[name]).sum() == groups


@pytest.mark.parametrize("aggregate", ["mean", "median"])
def test_individual_ranking_by_its_definition(aggregate: str) -> None:
    values = np.random.default_rng(5).integers(0, 40, 103).astype(float)
    ctx = dc.Context(0, "1")
    method = dc.IndividualRanking(columns=["x"], k=4, aggregate=aggregate)
    got = method.apply(dc.Dataset(pl.DataFrame({"x": values})), ctx).number("x")
    order = np.lexsort((keyed_mix(np.arange(103), ctx.within("x").key("ties")), values))
    for start in range(0, 100, 4):
        rows = order[start : start + 4] if start < 96 else order[96:] if start == 96 else order[:0]
        if len(rows):
            want = np.mean(values[rows]) if aggregate == "mean" else np.median(values[rows])
            assert np.allclose(got[rows], want, rtol=1e-14)


def test_individual_ranking_is_not_k_anonymous() -> None:
    data = pl.DataFrame(np.random.default_rng(6).normal(size=(300, 3)), schema=NAMES)
    released = dc.IndividualRanking(columns=NAMES, k=5)(data)
    assert all(dc.KAnonymity(k=5, columns=[name])(released).holds for name in NAMES)
    assert dc.KAnonymity(k=5, columns=NAMES)(released).value == 1


def test_individual_ranking_keeps_missing_values_and_whole_numbers() -> None:
    data = pl.DataFrame({"x": [5, None, 1, 2, 9, None, 8]})
    released = dc.IndividualRanking(columns=["x"], k=2, integers=True)(data)["x"]
    assert released.to_list() == [7, None, 2, 2, 7, None, 7] and released.dtype == pl.Int64
    with pytest.raises(dc.DataError, match="k = 6 is larger than the 5 records with values in x"):
        dc.IndividualRanking(columns=["x"], k=6)(data)


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.none() | st.integers(-40, 40), min_size=8, max_size=60),
    digits=st.integers(0, 3), k=st.integers(2, 4),
    method=st.sampled_from([dc.IndividualRanking, dc.OptimalMicroaggregation, dc.Mdav]),
)  # fmt: skip
def test_means_of_the_columns_precision_stay_next_to_the_value(
    values: list[int | None], digits: int, k: int, method: type[dc.IndividualRanking]
) -> None:
    """Published numbers have no more decimals than the values, and an informed intruder's window holds the own one."""
    x = np.array([np.nan if v is None else v / 10**digits for v in values])
    if np.isfinite(x).sum() < 4 * k:
        return
    data = pl.DataFrame({"x": x}, nan_to_null=True)
    exact, rounded = (method(columns=["x"], k=k, precision=how)(data, seed=1)["x"] for how in ("full", "original"))
    own = rounded.to_numpy()
    # sorted: other settings draw other places for equal values
    np.testing.assert_allclose(np.sort(own), np.sort(exact.to_numpy()), atol=0.5000001 / 10**digits)
    np.testing.assert_array_equal(own, np.round(own, digits))
    low, high = center_window(x, own)
    there = ~np.isnan(x)
    assert ((low <= own) & (own <= high))[there].all()


def test_means_of_whole_numbers_and_of_numbers_without_precision() -> None:
    data = pl.DataFrame({"whole": [1, 2, 4, 5], "cents": [0.1, 0.2, 0.4, 0.55], "free": [1 / 3, 2 / 3, 0.1, 0.2]})
    released = dc.Mdav(blocks=[["whole"], ["cents"], ["free"]], k=2, precision="original")(data)
    assert released["whole"].to_list() == [2, 2, 4, 4] and released["whole"].dtype == pl.Int64
    assert released["cents"].to_list() == [0.15, 0.15, 0.48, 0.48]
    assert released["free"].to_list() == pytest.approx([0.5, 0.5, 0.15, 0.15])


def test_projection_follows_the_axis() -> None:
    rng = np.random.default_rng(7)
    line = rng.normal(size=400)
    x = np.column_stack([line, 100 * line + rng.normal(size=400), -line + 0.1 * rng.normal(size=400)])
    data = pl.DataFrame(x, schema=NAMES)
    assert lost(data, dc.ProjectionMicroaggregation(columns=NAMES, k=4)) < 0.02
    scaled = data.with_columns(pl.col("b") * 1024.0)
    one = dc.ProjectionMicroaggregation(columns=NAMES, k=4)
    assert np.allclose(one(scaled)["a"], one(data)["a"])
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    by_sum = np.argsort(z.sum(axis=1), kind="stable")[:4]
    got = dc.ProjectionMicroaggregation(columns=NAMES, k=4, axis="z-scores")(data)["a"].to_numpy()
    assert np.allclose(got[by_sum], line[by_sum].mean())


def test_a_robust_axis_is_not_turned_by_outliers() -> None:
    rng = np.random.default_rng(8)
    line = rng.normal(size=600)
    x = np.column_stack([line, line + 0.05 * rng.normal(size=600)])
    x[:60] = rng.normal([40.0, -20.0], 1.0, size=(60, 2))
    data = pl.DataFrame(x, schema=["a", "b"])

    def inside(axis: str) -> float:
        released = dc.ProjectionMicroaggregation(columns=["a", "b"], k=5, axis=axis)(data, seed=3).to_numpy()
        return float(((released - x)[60:] ** 2).sum())

    assert inside("robust") < 0.5 * inside("component")
    assert inside("pursuit") < 0.5 * inside("component")


def test_pursuit_finds_the_widest_direction_through_a_record() -> None:
    """By definition, direction by direction; also with a constant column, and whatever the order of the rows."""
    rng = np.random.default_rng(11)
    for _ in range(5):
        x = rng.normal(size=(41, 3)) @ rng.normal(size=(3, 3)) * [1.0, 1000.0, 0.01] + rng.normal(size=3)
        away = x - np.median(x, axis=0)
        z = away / np.median(np.abs(away), axis=0)
        widths = {}
        for row in z:
            along = z @ (row / np.linalg.norm(row))
            widths[np.median(np.abs(along - np.median(along)))] = along
        widest = np.argsort(widths[max(widths)])
        groups = [set(widest[at : at + 4].tolist()) for at in range(0, 36, 4)] + [set(widest[36:].tolist())]
        mirrored = [set(widest[::-1][at : at + 4].tolist()) for at in range(0, 36, 4)] + [set(widest[:5].tolist())]
        data = pl.DataFrame(x, schema=NAMES).with_columns(d=pl.lit(7.0), row=pl.int_range(41))
        for table in (data, data.sample(41, shuffle=True, seed=1)):
            got = dc.ProjectionMicroaggregation(columns=[*NAMES, "d"], k=4, axis="pursuit")(table, seed=1)
            found = {frozenset(part["row"].to_list()) for part in got.partition_by("a")}
            assert found in ({frozenset(one) for one in order} for order in (groups, mirrored))
    same = pl.DataFrame({"a": [1.0] * 30 + [*map(float, range(20))], "b": [2.0] * 30 + [*map(float, range(20))]})
    with pytest.raises(dc.DataError, match="more than half of the records agree"):
        dc.ProjectionMicroaggregation(columns=["a", "b"], k=2, axis="pursuit")(same)


def test_a_robust_axis_needs_records_that_differ() -> None:
    few = pl.DataFrame(np.random.default_rng(9).normal(size=(5, 2)), schema=["a", "b"])
    with pytest.raises(dc.DataError, match="5 records are too few for a robust covariance"):
        dc.ProjectionMicroaggregation(columns=["a", "b"], k=2, axis="robust")(few)
    constant = pl.DataFrame({"a": np.arange(20.0), "b": [1.0] * 20})
    robust = dc.ProjectionMicroaggregation(columns=["a", "b"], k=2, axis="robust")(constant)
    assert robust["a"].to_list()[:2] == [0.5, 0.5]
    flat = pl.DataFrame({"a": np.arange(40.0), "b": [*np.arange(19.0), *[1.5] * 21]})
    with pytest.raises(dc.DataError, match="more than half of the records agree"):
        dc.ProjectionMicroaggregation(columns=["a", "b"], k=2, axis="robust")(flat)


def test_sorting_by_a_column_instead() -> None:
    data = pl.DataFrame({"a": [5.0, 1.0, 3.0, 7.0], "when": [1, 2, 3, 4]})
    assert dc.ProjectionMicroaggregation(columns=["a"], sort_by="when", k=2)(data)["a"].to_list() == [3, 3, 5, 5]
    with pytest.raises(dc.PlanError, match="give `axis` or `sort_by`, not both"):
        dc.ProjectionMicroaggregation(sort_by="when", axis="robust")
    with pytest.raises(dc.DataError, match="'when' has missing values"):
        gaps = data.with_columns(pl.Series("when", [1, None, 2, 3]))
        dc.ProjectionMicroaggregation(columns=["a"], sort_by="when", k=2)(gaps)
    with pytest.raises(dc.DataError, match="unknown column 'whem'; did you mean 'when'"):
        dc.ProjectionMicroaggregation(columns=["a"], sort_by="whem", k=2)(data)


@pytest.mark.parametrize("method", [dc.VariableMdav, dc.ProjectionMicroaggregation, dc.IndividualRanking])
def test_text_is_refused_and_cancel_works(method: type[dc.Method]) -> None:
    with pytest.raises(dc.DataError, match="'t' is text; a numeric column is needed"):
        method(columns=["t"])(pl.DataFrame({"t": ["a", "b", "c"]}))

    def cancel(done: int, total: int, label: str) -> None:
        raise dc.Cancelled("stop")

    with pytest.raises(dc.Cancelled):
        method(columns=NAMES)(clustered(5, 4, 1.0, 1), progress=cancel)


def test_wrong_gamma() -> None:
    with pytest.raises(dc.PlanError, match="gamma"):
        dc.VariableMdav(gamma=-0.1)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(*[st.none() | st.integers(0, 3)] * 3), min_size=4, max_size=40),
    k=st.integers(2, 4),
    method=st.sampled_from([dc.Mdav, dc.VariableMdav, dc.ProjectionMicroaggregation]),
)
def test_k_anonymity_beside_missing_values(rows: list[tuple[int | None, ...]], k: int, method: type) -> None:
    data = pl.DataFrame(rows, schema=dict.fromkeys("abc", pl.Int64), orient="row")
    try:
        released = method(columns=list("abc"), k=k)(data)
    except dc.DataError:
        return
    assert released.with_columns(pl.all().round(9)).group_by("a", "b", "c").len()["len"].min() >= k
    assert all((released[name].is_null() | data[name].is_not_null()).all() for name in "abc")
