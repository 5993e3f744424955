from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc


@settings(max_examples=60, deadline=None)
@given(data=st.data(), k=st.integers(2, 5), columns=st.integers(1, 3))
def test_mdav_gives_k_anonymity_with_missing_values(data: st.DataObject, k: int, columns: int) -> None:
    cell = st.one_of(st.integers(-3, 3).map(float), st.none())
    rows = data.draw(st.lists(st.tuples(*[cell] * columns), min_size=k, max_size=30))
    names = [f"x{j}" for j in range(columns)]
    frame = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.Float64), orient="row")
    try:
        released = dc.Mdav(columns=names, k=k)(dc.Dataset(frame))
    except dc.DataError as error:
        assert "k = " in str(error)
        return
    assert dc.KAnonymity(k=k, columns=names)(released).holds
    assert released.frame["x0"].len() == len(rows)
    for name in names:
        hidden = released.suppressed(name)
        lost = released.frame[name].is_null() & frame[name].is_not_null()
        assert np.array_equal(lost.to_numpy(), hidden)


def test_column_means_are_exact_and_variances_shrink() -> None:
    x = np.random.default_rng(2).lognormal(size=(500, 3))
    data = pl.DataFrame(x, schema=["a", "b", "c"])
    released = dc.Mdav(columns=["a", "b", "c"], k=5)(data).to_numpy()
    assert np.allclose(released.mean(axis=0), x.mean(axis=0))
    assert (released.std(axis=0) < x.std(axis=0)).all()


def test_per_column_grouping_is_not_k_anonymous() -> None:
    x = np.random.default_rng(3).normal(size=(300, 2))
    data = pl.DataFrame(x, schema=["a", "b"])
    apart = dc.OptimalMicroaggregation(columns=["a", "b"], k=5)(data)
    together = dc.Mdav(columns=["a", "b"], k=5)(data)
    assert dc.KAnonymity(k=5, columns=["a"])(apart).holds
    assert dc.KAnonymity(k=5, columns=["a", "b"])(apart).value == 1
    assert dc.KAnonymity(k=5, columns=["a", "b"])(together).holds


def test_units_do_not_matter() -> None:
    x = np.random.default_rng(4).normal(size=(200, 2))
    one = dc.Mdav(columns=["a", "b"], k=4)(pl.DataFrame(x, schema=["a", "b"])).to_numpy()
    scaled = dc.Mdav(columns=["a", "b"], k=4)(pl.DataFrame(x * [1, 1024.0], schema=["a", "b"])).to_numpy()
    assert np.allclose(one * [1, 1024.0], scaled)


def test_optimal_is_never_worse_than_mdav() -> None:
    for seed in range(10):
        data = pl.DataFrame({"x": np.random.default_rng(seed).lognormal(size=200)})
        loss = dc.Sse(columns=["x"])
        best = loss(data, dc.OptimalMicroaggregation(columns=["x"], k=4)(data)).value
        assert best <= loss(data, dc.Mdav(columns=["x"], k=4)(data)).value + 1e-9


def test_k_larger_than_the_data_is_an_error() -> None:
    data = pl.DataFrame({"x": [1.0, 2.0, 3.0]})
    for method in (dc.Mdav, dc.OptimalMicroaggregation):
        with pytest.raises(dc.DataError, match="k = 4 is larger than the 3 records"):
            method(columns=["x"], k=4)(data)


def test_rare_patterns_of_missing_values_are_suppressed_and_marked() -> None:
    x = np.random.default_rng(5).normal(size=(40, 2))
    x[0, 0] = np.nan
    released = dc.Mdav(columns=["a", "b"], k=3)(dc.Dataset(pl.DataFrame(x, schema=["a", "b"])))
    assert released.suppressed_cells == {"b": 3, "a": 2}
    assert dc.KAnonymity(k=3, columns=["a", "b"])(released).value == 3


def test_robust_distances_group_as_plain_ones_do_on_the_whitened_bulk() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(300, 2)) @ np.array([[1.0, 0.95], [0.0, 0.2]])
    x[:20] += rng.normal(scale=30, size=(20, 2))  # outliers that would set the scale
    names = ["a", "b"]
    released = dc.Mdav(columns=names, k=4, distance="robust-mahalanobis")(pl.DataFrame(x, schema=names))
    assert dc.KAnonymity(k=4, columns=names)(released).holds
    assert np.allclose(released.to_numpy().mean(axis=0), x.mean(axis=0))
    white = np.linalg.inv(np.linalg.cholesky(np.cov(x[20:].T))).T
    plain = dc.Mdav(columns=names, k=4)(pl.DataFrame(x, schema=names))
    spread = [np.linalg.norm((x - means.to_numpy()) @ white) for means in (released, plain)]
    assert spread[0] < spread[1]  # groups are tighter by the distance of the bulk
