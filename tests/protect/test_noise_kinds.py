"""The noise methods that keep moments, and the one for outliers; their moments are tested in tests/statistical."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.protect.noise import rotate

RNG = np.random.default_rng(2)
N = 500
A = RNG.normal(size=N)
FRAME = pl.DataFrame({"a": A, "b": 2 * A + RNG.normal(size=N), "c": RNG.lognormal(size=N), "t": ["x"] * N})
NAMES = ["a", "b", "c"]


def cov(frame: pl.DataFrame) -> np.ndarray:
    return np.cov(frame.select(NAMES).to_numpy(), rowvar=False)


class TestOrthogonal:
    @pytest.mark.parametrize("rows", [3, 4, 5, 7, 500])
    @pytest.mark.parametrize("rounds", [1, 3, 8])
    def test_means_and_covariances_are_exact(self, rows: int, rounds: int) -> None:
        data = FRAME.head(rows)
        noisy = dc.OrthogonalNoise(columns=NAMES, variance_share=0.5, rounds=rounds)(data, seed=1)
        assert noisy.select(NAMES).mean().row(0) == pytest.approx(data.select(NAMES).mean().row(0), rel=1e-12)
        assert cov(noisy) == pytest.approx(cov(data), rel=1e-11)
        assert (noisy.select(NAMES).to_numpy() != data.select(NAMES).to_numpy()).all()

    def test_it_is_one_orthogonal_matrix_that_keeps_the_mean(self) -> None:
        """Rotating the unit vectors gives the matrix itself."""
        matrix = np.eye(11)
        rotate(matrix, 0.7, 4, np.random.default_rng(1), dc.Context(1, "1"))
        assert matrix @ matrix.T == pytest.approx(np.eye(11), abs=1e-13)
        assert matrix.sum(axis=1) == pytest.approx(np.ones(11))
        assert matrix.sum(axis=0) == pytest.approx(np.ones(11))
        assert (np.abs(matrix) > 1e-12).sum() > 60, "records are mixed with many others"

    def test_large_means_do_not_cost_digits(self) -> None:
        data = FRAME.with_columns(pl.col("a") + 1e9)
        noisy = dc.OrthogonalNoise(columns=NAMES, variance_share=0.3)(data, seed=1)
        assert cov(noisy) == pytest.approx(cov(data), rel=1e-5)

    def test_incomplete_records_are_changed_too(self) -> None:
        holes = FRAME.with_columns(
            pl.when(pl.int_range(pl.len()) % 4 == 0).then(None).otherwise(pl.col("c")).alias("c")
        )
        noisy = dc.OrthogonalNoise(columns=NAMES, variance_share=0.5)(holes, seed=1)
        full = holes["c"].is_not_null()
        assert noisy["c"].is_null().equals(holes["c"].is_null())
        assert cov(noisy.filter(full)) == pytest.approx(cov(holes.filter(full)), rel=1e-11)
        assert (noisy["a"] != holes["a"]).all()

    def test_too_few_complete_records(self) -> None:
        with pytest.raises(dc.DataError, match="2 complete records; a rotation needs three"):
            dc.OrthogonalNoise(columns=NAMES, variance_share=0.5)(FRAME.head(2))

    def test_strata_are_rotated_on_their_own(self) -> None:
        data = FRAME.with_columns(g=pl.int_range(pl.len()) % 3)
        noisy = dc.OrthogonalNoise(columns=NAMES, variance_share=0.5, by=["g"])(data, seed=1)
        for g in range(3):
            assert cov(noisy.filter(pl.col("g") == g)) == pytest.approx(cov(data.filter(pl.col("g") == g)), rel=1e-11)

    def test_it_can_be_cancelled(self) -> None:
        def stop(done: int, total: int, label: str) -> None:
            raise dc.Cancelled("enough")

        with pytest.raises(dc.Cancelled):
            dc.OrthogonalNoise(columns=NAMES, variance_share=0.5)(FRAME, progress=stop)

    @pytest.mark.parametrize("fields", [{"variance_share": 0}, {"variance_share": 1.1}, {"rounds": 0}])
    def test_wrong_parameters(self, fields: dict[str, float]) -> None:
        with pytest.raises(dc.PlanError, match=next(iter(fields))):
            dc.OrthogonalNoise(columns=NAMES, **({"variance_share": 0.5} | fields))


class TestOutliers:
    @pytest.fixture
    def data(self) -> pl.DataFrame:
        """Two clear outliers: row 0 in one column, row 1 only against the correlation."""
        x = np.random.default_rng(5).normal(size=400)
        y = x + 0.1 * np.random.default_rng(6).normal(size=400)
        x[0], x[1], y[1] = 50.0, 1.9, -1.9
        return pl.DataFrame({"x": x, "y": y})

    def test_column_by_column_only_the_outlying_value_changes(self, data: pl.DataFrame) -> None:
        noisy = dc.OutlierNoise(columns=["x", "y"], variance_share=0.1, quantile=0.9999)(data, seed=1)
        assert np.flatnonzero(noisy["x"] != data["x"]).tolist() == [0]
        assert (noisy["y"] == data["y"]).all()

    def test_jointly_the_whole_record_changes(self, data: pl.DataFrame) -> None:
        noisy = dc.OutlierNoise(columns=["x", "y"], variance_share=0.1, quantile=0.9999, joint=True)(data, seed=1)
        for name in ("x", "y"):
            assert np.flatnonzero(noisy[name] != data[name]).tolist() == [0, 1]

    def test_of_normal_data_the_quantile_stays(self) -> None:
        z = pl.DataFrame({"z": np.random.default_rng(1).normal(size=100_000)})
        noisy = dc.OutlierNoise(columns=["z"], variance_share=0.1, quantile=0.95)(z, seed=1)
        assert (noisy["z"] == z["z"]).mean() == pytest.approx(0.95, abs=0.004)

    def test_a_column_that_is_mostly_zero(self) -> None:
        data = pl.DataFrame({"z": np.r_[np.zeros(80), np.arange(1.0, 21)]})
        noisy = dc.OutlierNoise(columns=["z"], variance_share=0.1)(data, seed=1)
        assert (noisy["z"][:80] == 0).all() and noisy["z"][99] != 20

    def test_columns_on_one_plane(self) -> None:
        data = FRAME.with_columns(b=pl.col("a") * 2)
        with pytest.raises(dc.DataError, match="columns a, b: at least half of the records lie on one plane"):
            dc.OutlierNoise(columns=["a", "b"], variance_share=0.1, joint=True)(data)


@pytest.mark.parametrize("kind", [dc.VariancePreservingNoise, dc.OrthogonalNoise, dc.OutlierNoise])
class TestBadInput:
    def test_text(self, kind: type[dc.Method]) -> None:
        with pytest.raises(dc.DataError, match="column 't' is text; a numeric column is needed"):
            kind(columns=["a", "t"], variance_share=0.5)(FRAME)

    def test_constant(self, kind: type[dc.Method]) -> None:
        with pytest.raises(dc.DataError, match="column 'a' is constant"):
            kind(columns=["a", "b"], variance_share=0.5)(FRAME.with_columns(a=pl.lit(1.0)))

    def test_all_missing(self, kind: type[dc.Method]) -> None:
        with pytest.raises(dc.DataError, match="column 'a' has no values"):
            kind(columns=["a", "b"], variance_share=0.5)(FRAME.with_columns(a=pl.lit(None, dtype=pl.Float64)))


def test_variance_share_of_one_would_publish_only_noise() -> None:
    with pytest.raises(dc.PlanError, match="variance_share"):
        dc.VariancePreservingNoise(columns=["a"], variance_share=1)
