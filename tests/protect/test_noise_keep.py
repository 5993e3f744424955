"""What noise leaves as it is when it is told to: the same for every noise method."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.context import Context
from discretion.part import parse
from discretion.protect.noise_keep import NoiseMethod, count_decimals, reflect

RNG = np.random.default_rng(3)
X = np.round(RNG.normal(0, 30, 400), 3)
X[:60] = 0.0
FRAME = pl.DataFrame({"x": X, "n": np.r_[np.zeros(40, int), RNG.integers(-4, 9, 360)], "m": RNG.permutation(400)})

KINDS: list[tuple[type[NoiseMethod], dict[str, object]]] = [
    (dc.AdditiveNoise, {"sd_share": 1.5}),
    (dc.AdditiveNoise, {"sd_share": 1.5, "distribution": "laplace"}),
    (dc.CorrelatedNoise, {"variance_share": 1.5}),
    (dc.MultiplicativeNoise, {"sd": 0.9}),
    (dc.MultiplicativeNoise, {"sd": 0.9, "distribution": "lognormal"}),
    (dc.VariancePreservingNoise, {"variance_share": 0.8}),
    (dc.OrthogonalNoise, {"variance_share": 1.0}),
    (dc.OutlierNoise, {"variance_share": 2.0, "quantile": 0.6}),
    (dc.OutlierNoise, {"variance_share": 2.0, "quantile": 0.6, "joint": True}),
]


@pytest.fixture(params=KINDS, ids=[f"{kind.kind}-{number}" for number, (kind, _) in enumerate(KINDS)])
def make(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    kind, fields = request.param
    return lambda **more: kind(columns=["x", "n"], **{**fields, **more})


def run(method: NoiseMethod) -> tuple[np.ndarray, np.ndarray]:
    noisy = method(FRAME, seed=4)
    return noisy["x"].to_numpy(), noisy["n"].to_numpy()


def test_without_options_nothing_is_kept() -> None:
    x, _ = run(dc.AdditiveNoise(columns=["x", "n"], sd_share=1.5))
    assert (x[X == 0] != 0).all()
    assert (np.sign(x) != np.sign(X)).any()


def test_zeros(make) -> None:  # type: ignore[no-untyped-def]
    x, n = run(make(keep_zeros=True))
    assert (x[X == 0] == 0).all() and (n[FRAME["n"].to_numpy() == 0] == 0).all()
    assert (x[X != 0] != X[X != 0]).any()


def test_signs(make) -> None:  # type: ignore[no-untyped-def]
    x, n = run(make(keep_sign=True, precision="original"))
    before = FRAME["n"].to_numpy()
    assert (x[X > 0] > 0).all() and (x[X < 0] < 0).all()
    assert (n[before > 0] >= 1).all() and (n[before < 0] <= -1).all()


def naive_decimals(x: np.ndarray) -> int:
    """Count the decimals of the numbers as Python writes them."""
    from decimal import Decimal

    return max((max(-int(Decimal(repr(float(v))).normalize().as_tuple().exponent), 0) for v in x if v == v), default=0)


def test_noise_has_the_decimals_of_the_column(make) -> None:  # type: ignore[no-untyped-def]
    """Every published value has them, changed or not: digits must not tell who was an outlier."""
    noisy, full = (make(precision=p).apply(dc.Dataset(FRAME), Context(4, "same")).frame for p in ("original", "full"))
    assert noisy.schema == {"x": pl.Float64, "n": pl.Int64, "m": pl.Int64}
    assert naive_decimals(noisy["x"].to_numpy()) == naive_decimals(X) == 3
    assert full.schema["n"] == pl.Float64 and naive_decimals(full["x"].to_numpy()) > 12
    assert np.abs(full["x"] - noisy["x"]).max() <= 0.0005 + 1e-9
    assert np.abs(full["n"] - noisy["n"]).max() <= 0.5 + 1e-9, "the draws are the same, only digits differ"


def test_rounding_is_the_default_except_where_moments_are_exact(make) -> None:  # type: ignore[no-untyped-def]
    exact = make().kind == "orthogonal-noise"
    assert make().precision == ("full" if exact else "original")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 6)), min_size=1, max_size=30), st.randoms())
def test_decimals_are_those_that_python_writes(numbers: list[tuple[int, int]], random) -> None:  # type: ignore[no-untyped-def]
    x = np.array([whole / 10.0**places for whole, places in numbers] + [np.nan])
    expected = naive_decimals(x)
    assert count_decimals(x) == expected
    dust = np.array([np.nextafter(v, v + random.choice([-1, 0, 1])) if v else v for v in x])  # 0.1 + 0.2
    assert count_decimals(dust) == expected
    assert count_decimals(np.repeat(x, 40_000 // len(x))) == expected, "in blocks"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1 + 0.2, 1.0], 1),
        (np.cumsum([0.1] * 10), 1),
        ([0.1 + 0.2 - 0.3, 1.5], 1),
        ([1e-17, 3e-17], None),
        ([1e17, 0.5], 1),
        ([2.0**60, 2.0**70], 0),
        ([1e-12, 3.0], 12),
        ([1e-13], None),
        ([1 / 3], None),
        (np.random.default_rng(1).lognormal(10, 1, 30), None),
        (np.r_[np.zeros(10**5), 1 / 3], None),
        (np.r_[np.zeros(10**5), 0.25], 2),
        ([np.nan], 0),
        ([], 0),
    ],
)
def test_decimals_of_awkward_numbers(values: object, expected: int | None) -> None:
    assert count_decimals(np.array(values, dtype=float)) == expected


def test_decimals_of_single_precision() -> None:
    data = pl.DataFrame({"x": pl.Series(X, dtype=pl.Float32)})
    noisy = dc.AdditiveNoise(columns=["x"], sd_share=0.5)(data, seed=1)["x"]
    assert noisy.dtype == pl.Float32 and count_decimals(noisy.to_numpy().astype(float), 1.2e-7) == 3


def test_full_precision_stays_full() -> None:
    data = pl.DataFrame({"x": RNG.normal(size=50)})
    methods = [dc.AdditiveNoise(columns=["x"], sd_share=0.5, precision=p) for p in ("original", "full")]
    both = [method.apply(dc.Dataset(data), Context(1, "same")).frame for method in methods]
    assert both[0].equals(both[1])


def test_no_zero_is_published_with_a_sign() -> None:
    noisy = dc.AdditiveNoise(columns=["x"], sd_share=0.3)(pl.DataFrame({"x": [-1.0, 0.0, 1.0] * 50}), seed=1)["x"]
    assert (noisy == 0).any() and not np.signbit(noisy.filter(noisy == 0).to_numpy()).any()


def test_bounds_and_signs_go_by_the_last_decimal() -> None:
    data = pl.DataFrame({"x": [0.1, 0.2, 1.1, 1.9] * 100})
    noisy = dc.AdditiveNoise(columns=["x"], sd_share=1, lower=0.04, upper=1.98)(data, seed=1)["x"]
    assert noisy.min() == 0.1 and noisy.max() == 1.9
    assert dc.AdditiveNoise(columns=["x"], sd_share=1, lower=-1, keep_sign=True)(data, seed=1)["x"].min() == 0.1


def test_the_largest_whole_numbers_do_not_overflow() -> None:
    data = pl.DataFrame({"n": pl.Series([2**63 - 1, -(2**63), 2**62, 0] * 30, dtype=pl.Int64)})
    noisy = dc.AdditiveNoise(columns=["n"], sd_share=0.5)(data, seed=1)["n"]
    assert noisy.dtype == pl.Int64 and noisy.n_unique() > 50


def test_groups_share_the_decimals_of_their_column() -> None:
    data = pl.DataFrame({"g": ["a"] * 30 + ["b"] * 30, "x": [float(i) for i in range(30)] + [i / 4 for i in range(30)]})
    noisy = dc.AdditiveNoise(columns=["x"], sd_share=0.5, by=["g"])(data, seed=1)
    for key in "ab":
        assert naive_decimals(noisy.filter(pl.col("g") == key)["x"].to_numpy()) == 2


def test_rounding_a_rotation_is_off_as_documented() -> None:
    x = np.random.default_rng(5).normal(40, 12, (4000, 2)).round()
    data = pl.DataFrame(x, schema=["a", "b"])
    y = dc.OrthogonalNoise(columns=["a", "b"], variance_share=0.5, precision="original")(data, seed=1).to_numpy()
    off = 1 / np.sqrt(12 * len(x))
    assert np.abs(y.mean(axis=0) - x.mean(axis=0)).max() < 4 * off
    assert np.abs(np.cov(y.T) - np.cov(x.T) - np.eye(2) / 12).max() < 4 * 2 * 12 * off


def test_the_share_that_rounding_leaves_as_it_was() -> None:
    """erf(u/(√8·sd)): 38 % at sd = u, 95 % at sd = u/4."""
    data = pl.DataFrame({"n": np.random.default_rng(6).integers(20, 60, 20_000)})
    spread = float(data["n"].std())  # type: ignore[arg-type]
    for sd, share in ((1.0, 0.3829), (0.25, 0.9545)):
        noisy = dc.AdditiveNoise(columns=["n"], sd_share=sd / spread)(data, seed=1)
        assert (noisy["n"] == data["n"]).mean() == pytest.approx(share, abs=0.015)


def test_bounds_for_every_column_and_by_column(make) -> None:  # type: ignore[no-untyped-def]
    low, high = float(X.min()), float(X.max())
    x, n = run(make(lower={"*": low, "n": -4}, upper={"x": high, "n": 8.5}))
    assert x.min() >= low and x.max() <= high
    assert n.min() >= -4 and n.max() <= 8.5
    x, n = run(make(lower=low, upper=high))
    assert min(x.min(), n.min()) >= low and max(x.max(), n.max()) <= high


def test_everything_at_once(make) -> None:  # type: ignore[no-untyped-def]
    method = make(keep_zeros=True, keep_sign=True, lower={"n": -4}, upper={"n": 8})
    _, n = run(method)
    before = FRAME["n"].to_numpy()
    assert (np.sign(n) == np.sign(before)).all()
    assert n.min() >= -4 and n.max() <= 8
    assert parse(yaml.safe_load(yaml.safe_dump(method.to_plan()))) == method


def test_values_inside_the_bounds_are_not_touched() -> None:
    data, same = dc.Dataset(FRAME), dc.Context(4, "1")  # the same draws
    free = dc.AdditiveNoise(columns=["x"], sd_share=0.5).apply(data, same).number("x")
    low, high = float(X.min()), float(X.max())
    bound = dc.AdditiveNoise(columns=["x"], sd_share=0.5, lower=low, upper=high).apply(data, same).number("x")
    inside = (free >= low) & (free <= high)
    assert inside.any() and not inside.all()
    assert np.array_equal(bound[inside], free[inside])
    above = free > high
    assert np.allclose(bound[above], 2 * high - free[above])


@settings(max_examples=200, deadline=None)
@given(
    y=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20),
    low=st.one_of(st.floats(-100, 100), st.just(-np.inf)),
    width=st.one_of(st.floats(0, 50), st.just(np.inf)),
)
def test_reflection_ends_between_the_bounds_and_keeps_distances(y: list[float], low: float, width: float) -> None:
    a, b = np.array([low]), np.array([low + width if np.isfinite(low) else width])
    got = reflect(np.array(y)[:, None], a, b)[:, 0]
    assert (got >= a).all() and (got <= b).all()
    for before, after in zip(y, got, strict=True):
        if a[0] <= before <= b[0]:
            assert after == before
        elif np.isfinite(a[0]) and not np.isfinite(b[0]):
            assert after == pytest.approx(2 * a[0] - before)


def test_reflection_more_than_once() -> None:
    y = np.array([[-0.25, 1.25, 2.25, -3.5, np.nan]]).T
    got = reflect(y, np.array([0.0]), np.array([1.0]))[:, 0]
    assert got[:4] == pytest.approx([0.25, 0.75, 0.25, 0.5])
    assert np.isnan(got[4])


def test_small_integer_types_do_not_overflow() -> None:
    data = pl.DataFrame({"n": pl.Series(np.r_[np.zeros(50), np.full(50, 255)], dtype=pl.UInt8)})
    noisy = dc.AdditiveNoise(columns=["n"], sd_share=0.5)(data, seed=1)["n"]
    assert noisy.dtype == pl.UInt8 and noisy.n_unique() > 10


def test_whole_floats_are_rounded_too() -> None:
    data = pl.DataFrame({"n": [1.0, 2.0, None, 9.0]})
    noisy = dc.AdditiveNoise(columns=["n"], sd_share=0.5)(data, seed=1)["n"].drop_nulls()
    assert noisy.dtype == pl.Float64 and (noisy == noisy.round()).all()


def test_missing_values_stay_missing(make) -> None:  # type: ignore[no-untyped-def]
    holes = FRAME.with_columns(pl.when(pl.col("m") < 100).then(None).otherwise(pl.col("x")).alias("x"))
    noisy = make(keep_zeros=True, keep_sign=True, lower=-1e6, upper=1e6)(holes, seed=1)
    assert noisy["x"].is_null().equals(holes["x"].is_null()) and noisy["n"].null_count() == 0
    assert (noisy["n"] != holes["n"]).any()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lower": 3, "upper": 3}, "`lower` must be less than `upper`"),
        ({"lower": {"x": 5}, "upper": 1}, "`lower` must be less than `upper`"),
        ({"lower": float("nan")}, "lower"),
        ({"upper": "many"}, "upper"),
        ({"keep_zeros": "perhaps"}, "keep_zeros"),
    ],
)
def test_wrong_parameters(fields: dict[str, object], message: str) -> None:
    with pytest.raises(dc.PlanError, match=message):
        dc.AdditiveNoise(columns=["x"], sd_share=0.1, **fields)


def test_a_bound_for_another_column_is_refused() -> None:
    with pytest.raises(dc.PlanError, match="unknown column 'y'"):
        dc.AdditiveNoise(columns=["x"], sd_share=0.1, lower={"y": 0})(FRAME)


def test_original_values_beyond_a_bound_are_counted_not_shown() -> None:
    with pytest.raises(dc.DataError, match=r"column 'x': \d+ values lie below the lower bound and 0 above") as error:
        dc.AdditiveNoise(columns=["x"], sd_share=0.1, lower=0)(FRAME)
    assert f"{X.min():g}" not in str(error.value)


def test_the_command_line_takes_both_forms() -> None:
    from discretion.cli.apply import build_part

    def built(lower: str) -> dc.Method:
        fields = {f"field_{name}": None for name in dc.AdditiveNoise.model_fields}
        return build_part(  # type: ignore[return-value]
            "additive-noise", fields | {"field_sd_share": "0.1", "field_columns": "x,n", "field_lower": lower}
        )

    assert built("0") == dc.AdditiveNoise(columns=["x", "n"], sd_share=0.1, lower=0)
    assert built("x=0,n=-4") == dc.AdditiveNoise(columns=["x", "n"], sd_share=0.1, lower={"x": 0, "n": -4})


def test_decisions_are_reused_on_the_next_delivery(make) -> None:  # type: ignore[no-untyped-def]
    method = make(precision="original")
    if method.by_group:
        pytest.skip("works on rows together")
    from discretion.method import Decision

    ctx = dc.Context(1, "1")
    decision = Decision.from_json(method.decide(dc.Dataset(FRAME), ctx).to_json())
    again = method.perform(dc.Dataset(FRAME.head(5)), decision, ctx).frame
    assert again.height == 5 and again.schema["n"] == pl.Int64
