from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2

import discretion as dc
from discretion.method import Decision
from discretion.protect.outliers import Ellipse, fit_ellipse
from tests.shared import reference

NAMES = ["a", "b", "c"]
MIX = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.5, 0.2, 2.0]])


def sample(rows: int = 1000, outliers: int = 0, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(rows, 3)) @ MIX.T
    x[:outliers] += 25.0
    return x


def ellipse(x: np.ndarray, quantile: float = 0.975) -> Ellipse:
    return fit_ellipse(x, quantile, NAMES, dc.Context(1, "1"))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.45])
def test_the_ellipse_is_that_of_the_bulk(share: float) -> None:
    found = ellipse(sample(2000, int(2000 * share)))
    assert found.center == pytest.approx(np.zeros(3), abs=0.2)
    assert found.covariance == pytest.approx(MIX @ MIX.T, abs=0.25)


def test_the_ellipse_follows_the_data_and_not_the_row_order() -> None:
    """Affine equivariance, and independence of seed and order."""
    x = sample(300, 30)
    one = ellipse(x)
    order = np.random.default_rng(4).permutation(300)
    other = fit_ellipse(x[order], 0.975, NAMES, dc.Context(99, "2"))
    assert other.center == pytest.approx(one.center) and other.covariance == pytest.approx(one.covariance)
    scaled = ellipse(x * [1e6, 1e-3, 1] + [5, 0, 1e4])
    assert scaled.center == pytest.approx(one.center * [1e6, 1e-3, 1] + [5, 0, 1e4])


def test_large_data_starts_on_a_sample_and_ends_on_all() -> None:
    x = sample(30_000, 6_000)
    found = ellipse(x)
    assert found.covariance == pytest.approx(MIX @ MIX.T, rel=0.08, abs=0.1)
    again = fit_ellipse(x, 0.975, NAMES, dc.Context(2, "1"))
    assert again.covariance == pytest.approx(found.covariance, rel=0.01)


def test_outliers_end_on_the_ellipse_and_others_stay() -> None:
    x = sample(500, 20)
    data = pl.DataFrame(x, schema=NAMES)
    method = dc.WinsorizeOutliers(columns=NAMES, quantile=0.99)
    found = Ellipse.from_plain(method.decide(dc.Dataset(data), dc.Context(0, "1")).values)
    y = method(data, seed=1).to_numpy()
    inverse = np.linalg.inv(found.covariance)
    before, after = (np.einsum("ij,jk,ik->i", z - found.center, inverse, z - found.center) for z in (x, y))
    limit = chi2.ppf(0.99, 3)
    far = before > limit
    assert far[:20].all()
    assert np.array_equal(y[~far], x[~far])
    assert after[far] == pytest.approx(np.full(far.sum(), limit))
    direction = (y - found.center)[far] / (x - found.center)[far]
    assert (direction > 0).all() and np.allclose(direction, direction[:, :1]), "on the line to the center"


def test_incomplete_records_are_judged_by_what_they_have() -> None:
    x = sample(500, 20)
    x[:5, 0] = np.nan
    x[300:305, 1:] = np.nan
    x[400] = np.nan
    y = dc.WinsorizeOutliers(columns=NAMES)(pl.DataFrame(x, schema=NAMES, nan_to_null=True), seed=1).to_numpy()
    assert np.array_equal(np.isnan(y), np.isnan(x))
    assert (y[:5, 1:] < x[:5, 1:]).all()


def test_a_saved_ellipse_serves_the_next_delivery() -> None:
    method = dc.WinsorizeOutliers(columns=NAMES)
    ctx = dc.Context(0, "1")
    decision = Decision.from_json(method.decide(dc.Dataset(pl.DataFrame(sample(), schema=NAMES)), ctx).to_json())
    new = method.perform(
        dc.Dataset(pl.DataFrame([[0.0, 0, 0], [40.0, 40, 40]], schema=NAMES, orient="row")), decision, ctx
    )
    assert new.frame.row(0) == (0, 0, 0) and max(new.frame.row(1)) < 10


def test_digits_do_not_tell_which_records_were_pulled() -> None:
    data = pl.DataFrame(np.round(sample(300, 5) * 100).astype(int), schema=NAMES)
    assert dc.WinsorizeOutliers(columns=NAMES)(data, seed=1).schema == data.schema
    assert dc.WinsorizeOutliers(columns=NAMES, precision="full")(data, seed=1).schema != data.schema
    cents = pl.DataFrame(np.round(sample(300, 5), 2), schema=NAMES)
    pulled = dc.WinsorizeOutliers(columns=NAMES)(cents, seed=1).to_numpy()
    assert (pulled != cents.to_numpy()).any() and np.array_equal(pulled, np.round(pulled, 2))


def test_refused_in_words() -> None:
    data = pl.DataFrame(sample(50), schema=NAMES).with_columns(
        zero=pl.when(pl.int_range(pl.len()) < 5).then(pl.int_range(pl.len())).otherwise(0), t=pl.lit("x")
    )
    with pytest.raises(dc.DataError, match="7 complete records; the ellipse needs at least 8"):
        dc.WinsorizeOutliers(columns=NAMES)(data.head(7))
    with pytest.raises(dc.DataError, match="columns a, zero: at least half of the records lie on one plane"):
        dc.WinsorizeOutliers(columns=["a", "zero"])(data)
    with pytest.raises(dc.DataError, match="column 't' is text"):
        dc.WinsorizeOutliers(columns=["a", "t"])(data)
    with pytest.raises(dc.DataError, match="column 'a' is constant"):
        dc.WinsorizeOutliers(columns=["a", "b"])(data.with_columns(a=pl.lit(1.0)))
    with pytest.raises(dc.PlanError, match="quantile"):
        dc.WinsorizeOutliers(columns=["a", "b"], quantile=0.4)


def test_the_search_can_be_cancelled() -> None:
    def stop(done: int, total: int, label: str) -> None:
        raise dc.Cancelled("enough")

    with pytest.raises(dc.Cancelled):
        dc.WinsorizeOutliers(columns=NAMES)(pl.DataFrame(sample(), schema=NAMES), progress=stop)


@pytest.mark.peers
def test_as_sdcmicro_nothing_stands_out_in_its_test_data() -> None:
    names = ["expend", "income", "savings"]
    data = pl.read_csv(reference("golden", "sdcmicro", "in_testdata.csv")).select(pl.col(names).cast(pl.Float64))
    theirs = pl.read_csv(reference("golden", "sdcmicro", "09_mvTopCoding_testdata_seed1.csv"), infer_schema_length=None)
    ours = dc.WinsorizeOutliers(columns=names)(data, seed=1)
    assert ours.equals(theirs.select(pl.col(names).cast(pl.Float64)))
