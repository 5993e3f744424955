"""What every measure and every privacy model promises."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.measure import Measure
from discretion.model import PrivacyModel
from discretion.part import all_parts

from .samples import dataset, fields_for, frame

MEASURES = [part for part in all_parts("risk", "utility") if issubclass(part, Measure)]
MODELS = [part for part in all_parts("model") if issubclass(part, PrivacyModel)]


def released(data: dc.Dataset) -> dc.Dataset:
    """Give a release in which every kind of column has changed."""
    noisy = dc.AdditiveNoise(columns=["income", "hours"], sd_share=0.3)(data, seed=3)
    return dc.Generalize(levels={"region": 1})(noisy)


@pytest.fixture(params=MEASURES, ids=[m.kind for m in MEASURES])
def measure(request: pytest.FixtureRequest, key_file: str) -> Measure:
    return request.param(**fields_for(request.param, key_file))  # type: ignore[no-any-return]


def run(measure: Measure, data: dc.Dataset, result: dc.Dataset) -> dc.Score:
    return measure(data, result) if measure.needs == "both" else measure(result)


def test_score_is_plain_finite_and_in_its_range(measure: Measure) -> None:
    score = run(measure, dataset(), released(dataset()))
    low, high = measure.limits
    assert np.isfinite(score.value)
    assert low is None or score.value >= low
    assert high is None or score.value <= high
    assert score.better in ("lower", "higher")
    assert score.meaning.endswith(".")
    json.dumps(score.to_dict())


def test_no_change_is_the_best_score(measure: Measure) -> None:
    if measure.family != "utility" or measure.kind == "average-divergence":
        pytest.skip("not a measure of loss")
    if measure.kind in {"classification-utility", "regression-utility"}:
        pytest.skip("held-out predictions; the columns of the sample are unrelated (see tests/utility/test_trials.py)")
    data = dataset()
    same, changed = run(measure, data, data).value, run(measure, data, released(data)).value
    assert changed >= same if measure.better == "lower" else changed <= same


def test_publishing_the_original_is_the_highest_risk(measure: Measure) -> None:
    if not measure.on_original:
        pytest.skip("is about what was protected")
    if measure.family != "risk":
        pytest.skip("not a measure of risk")
    data = dataset()
    draws = 3 * np.sqrt(0.25 / len(data)) if "model" in type(measure).model_fields else 0.0  # models of 60 records
    assert run(measure, data, data).value >= run(measure, data, released(data)).value - draws


def test_inputs_are_untouched_and_the_figure_repeats(measure: Measure) -> None:
    data = dataset()
    result = released(data)
    before = result.frame.clone()
    assert run(measure, data, result).value == run(measure, data, result).value
    assert result.frame.equals(before)


def test_row_order_does_not_matter(measure: Measure) -> None:
    if measure.reads_order:
        pytest.skip("is about the order of the rows")
    data = dataset()
    result = released(data)
    order = np.random.default_rng(1).permutation(len(data))
    shuffled = dc.Dataset(data.frame[order], schema=data.schema)
    result, other = (
        dc.Dataset(frame, schema=data.schema).matched_to(before, np.arange(len(order)))  # the steps are not known
        for frame, before in ((result.frame, data), (result.frame[order], shuffled))
    )
    assert run(measure, shuffled, other).value == pytest.approx(run(measure, data, result).value, rel=1e-12)


def test_rows_are_matched_by_their_id(measure: Measure) -> None:
    if measure.needs != "both" or not measure.aligned:
        pytest.skip("does not compare records")
    data = dataset()
    result = released(data)
    part = result.take(np.arange(59, 9, -1))
    want = measure(data.take(np.arange(59, 9, -1)), part).value
    assert measure(data, part).value == pytest.approx(want, rel=1e-12)


def test_rows_that_cannot_be_matched_are_an_error(measure: Measure) -> None:
    if measure.needs != "both" or not measure.aligned:
        pytest.skip("does not compare records")
    other = dc.Dataset(frame(30, seed=9), schema=dataset().schema)  # other people under the same names
    with pytest.raises(dc.DataError, match="rows"):
        measure(dataset(), other)


def test_two_data_sets_are_asked_for(measure: Measure) -> None:
    if measure.needs != "both":
        pytest.skip("needs one data set")
    with pytest.raises(dc.PlanError, match="original, released"):
        measure(dataset())


def test_missing_values_are_handled(measure: Measure) -> None:
    data = dataset(missing=True)
    assert np.isfinite(run(measure, data, released(data)).value)


def test_no_rows_is_an_error(measure: Measure) -> None:
    with pytest.raises(dc.DataError, match="no rows"):
        run(measure, dataset(0), dataset(0))


def test_per_record_has_a_row_each(measure: Measure) -> None:
    score = run(measure, dataset(), released(dataset()))
    assert score.per_record is None or score.per_record.shape == (60,)


def test_pandas_and_polars_frames_agree(measure: Measure) -> None:
    if measure.kind in {"precision", "iloss", "granularity", "height", "non-uniform-entropy"}:
        pytest.skip("needs a hierarchy, which a bare frame does not have")
    one = frame()
    two = frame(seed=1)
    other = one.with_columns(two["income"], two["hours"])
    if measure.needs == "released":
        assert measure(one).value == measure(one.to_pandas()).value
    else:
        odd = one.to_pandas()
        odd.index = odd.index[::-1]
        assert measure(one, other).value == measure(odd, other.to_pandas()).value


def judge(model: PrivacyModel, data: Any) -> dc.Verdict:
    """Check a model; one about attacks is given the data as its own original."""
    return model(data, original=data) if getattr(model, "needs_original", False) else model(data)


@pytest.mark.parametrize("model", MODELS, ids=[m.kind for m in MODELS])
class TestEveryModel:
    def test_verdict_agrees_with_its_value(self, model: type[PrivacyModel], key_file: str) -> None:
        verdict = judge(model(**fields_for(model, key_file)), dataset())
        assert isinstance(verdict.holds, bool)
        assert not np.isnan(verdict.value)
        assert verdict.holds == (verdict.failing_count == 0) == (len(verdict.failing) == 0)
        json.dumps(verdict.to_dict(), allow_nan=False)

    def test_no_rows_is_an_error(self, model: type[PrivacyModel], key_file: str) -> None:
        with pytest.raises(dc.DataError, match="no rows"):
            model(**fields_for(model, key_file))(dataset(0))

    def test_index_and_row_order_do_not_matter(self, model: type[PrivacyModel], key_file: str) -> None:
        made = model(**fields_for(model, key_file))
        source = frame(missing=True)
        order = np.random.default_rng(2).permutation(source.height)
        odd = source[order].to_pandas()
        odd.index = odd.index * 7
        assert judge(made, source).value == judge(made, odd).value == judge(made, pl.DataFrame(source.to_arrow())).value
