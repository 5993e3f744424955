"""What every method promises."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import discretion as dc
from discretion.method import Decision, Method, StratifiedMethod
from discretion.part import all_parts

from .samples import MISSPELLED, dataset, fields_for, frame

METHODS = [part for part in all_parts("method") if issubclass(part, Method)]


@pytest.fixture(params=METHODS, ids=[m.kind for m in METHODS])
def method(request: pytest.FixtureRequest, key_file: str) -> Method:
    return request.param(**fields_for(request.param, key_file))  # type: ignore[no-any-return]


def needs_schema(method: Method) -> bool:
    return method.kind == "generalize"


def needs_seed(method: Method) -> None:
    if not method.seeded:
        pytest.skip("draws from a secure source: no two runs agree")


def test_says_what_it_guarantees(method: Method) -> None:
    assert method.guarantee.endswith(".")


def test_says_how_it_biases_estimates(method: Method) -> None:
    assert method.effect.endswith(".")


def test_same_seed_same_result(method: Method) -> None:
    needs_seed(method)
    assert_frame_equal(method(dataset(), seed=5).frame, method(dataset(), seed=5).frame)


def test_input_is_untouched(method: Method) -> None:
    data = dataset(missing=True)
    before = data.frame.clone()
    method(data, seed=1)
    assert_frame_equal(data.frame, before)
    assert data.levels == {} and data.suppressed_cells == {}


def test_draws_follow_the_seed(method: Method) -> None:
    needs_seed(method)
    one, other = method(dataset(), seed=1).frame, method(dataset(), seed=2).frame
    told = f"{type(method).__name__} says `random = {method.random}`"
    assert one.equals(other) != (method.random and method.draws), told


def test_three_frame_libraries_agree(method: Method) -> None:
    if needs_schema(method):
        pytest.skip("needs a hierarchy, which a bare frame does not have")
    source = frame()
    want = method(source, seed=1)
    if not method.seeded:
        for given in (source.to_pandas(), source.to_arrow()):
            got = method(given, seed=1)
            assert type(got) is type(given) and list(pl.DataFrame(got).columns) == want.columns
            numeric = [kind.is_numeric() for kind in pl.DataFrame(got).dtypes]
            assert numeric == [kind.is_numeric() for kind in want.dtypes]
        return
    from_pandas = method(source.to_pandas(), seed=1)
    from_arrow = method(source.to_arrow(), seed=1)
    assert isinstance(from_pandas, pd.DataFrame)
    assert type(from_arrow).__module__.startswith("pyarrow")
    for got in (pl.from_pandas(from_pandas), pl.DataFrame(from_arrow)):
        assert got.columns == want.columns
        assert_frame_equal(got, want, check_dtypes=False, categorical_as_str=True)


def test_the_index_never_matters(method: Method) -> None:
    if needs_schema(method):
        pytest.skip("needs a hierarchy, which a bare frame does not have")
    needs_seed(method)
    plain = frame().to_pandas()
    odd = plain.copy()
    odd.index = pd.Index(np.random.default_rng(3).permutation(len(plain)) * 10, name="who")
    got = method(odd, seed=1)
    pd.testing.assert_frame_equal(got.reset_index(drop=True), method(plain, seed=1).reset_index(drop=True))
    assert got.index.equals(odd.index)


def test_row_order_matters_only_for_draws(method: Method) -> None:
    needs_seed(method)
    if method.random and method.draws:
        pytest.skip("draws follow the rows")
    data = dataset()
    order = np.random.default_rng(4).permutation(len(data))
    want = method(data, seed=1).frame[order]
    got = method(dc.Dataset(data.frame[order], schema=data.schema), seed=1).frame
    assert_frame_equal(got, want)


def test_rows_and_ids_are_kept(method: Method) -> None:
    data = dataset(missing=True)
    result = method(data, seed=1)
    assert result.origin is data
    if result.has_new_rows:
        assert (result.row_ids == -1).all()
        return
    assert np.array_equal(result.row_ids, data.row_ids)


def test_missing_stays_missing_or_is_refused_in_words(method: Method) -> None:
    if method.makes_values:
        pytest.skip("draws which values are missing, as it draws the others")
    data = dataset(missing=True)
    result = method(data, seed=1)
    if result.has_new_rows:
        assert all(set(result.frame[name].drop_nulls()) for name in result.columns), "a column lost all its values"
        return
    for name in set(result.columns) & set(data.columns):
        lost = data.frame[name].is_null() & result.frame[name].is_not_null()
        assert not lost.any(), f"{method.kind} filled in a missing value of {name}"
        new = (result.frame[name].is_null() & data.frame[name].is_not_null()).to_numpy()
        assert np.array_equal(new, result.suppressed(name)), f"{method.kind} hid values of {name} without marking them"


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_tiny_data_works_or_is_refused_in_words(method: Method, rows: int) -> None:
    data = dataset(rows)
    try:
        result = method(data, seed=1)
    except (dc.DataError, dc.Infeasible) as error:
        assert str(error)
    else:
        assert len(result) == rows or result.has_new_rows


def test_unknown_column_is_named(method: Method) -> None:
    fields = dict(method.settings())
    if method.kind in MISSPELLED:
        fields |= MISSPELLED[method.kind]
    elif "columns" in fields:
        fields["columns"] = ["incme"]
    elif "column" in fields:
        fields["column"] = "incme"
    else:
        fields["levels"] = {"incme": 1}
    with pytest.raises(dc.DiscretionError, match="unknown column 'incme'"):
        type(method)(**fields)(dataset(), seed=1)


def test_decision_can_be_saved_and_reused(method: Method) -> None:
    if method.by_group:
        pytest.skip("works on rows together; its decision cannot be re-used")
    data = dataset()
    ctx = dc.Context(9, "1")
    decision = Decision.from_json(method.decide(data, ctx).to_json())
    want = method.apply(data, ctx) if method.seeded else method.perform(data, decision, ctx)
    assert_frame_equal(method.perform(data, decision, ctx).frame, want.frame)


def test_strata_equal_running_each_group_alone(method: Method) -> None:
    if not isinstance(method, StratifiedMethod):
        pytest.skip("is not applied within groups")
    data = dataset()
    stratified = type(method)(**method.settings(), by=["sex"])
    ctx = dc.Context(9, "1")
    got = stratified.apply(data, ctx)
    assert got.columns == method.apply(data, ctx).columns
    for sex in ("f", "m"):
        rows = np.flatnonzero((data.frame["sex"] == sex).to_numpy())
        alone = method.apply(data.take(rows), ctx.within(f"sex={sex}")).frame
        assert_frame_equal(got.frame[rows], alone, check_dtypes=False)


def test_constant_and_empty_columns_are_refused_or_kept(method: Method) -> None:
    constant = dataset().with_columns({"income": np.full(60, 7.0), "hours": np.full(60, 7)})
    plain = dc.Dataset(constant.frame, schema=constant.schema)
    try:
        result = method(plain, seed=1)
    except (dc.DataError, dc.Infeasible) as error:
        assert "'income'" in str(error) or "'hours'" in str(error)
    else:
        if "income" in result.columns and result.is_numeric("income") and not result.has_new_rows:
            (value,) = result.frame["income"].unique()
            assert value == 7 or not (method.random or method.by_group), "nothing to draw or to group, and yet changed"
    nothing = plain.frame.with_columns(pl.lit(None, dtype=pl.Float64).alias("income"))
    try:
        method(dc.Dataset(nothing, schema=plain.schema), seed=1)
    except (dc.DataError, dc.Infeasible) as error:
        assert str(error)
