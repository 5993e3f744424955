from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc

ROWS = [("a", "x", "*"), ("b", "x", "*"), ("c", "y", "*"), ("d", "y", "*")]
DATA = dc.Dataset(pl.DataFrame({"v": ["a", "b", "c", None]}), roles={"v": "quasi"}, hierarchies={"v": ROWS})


def test_suppressed_cells_and_records_count_as_the_top() -> None:
    hidden = DATA.with_columns({}, suppressed={"v": np.array([True, False, False, False])})
    assert dc.Precision()(hidden).value == pytest.approx(1 - 1 / 4)
    assert dc.ILoss()(hidden).value == pytest.approx((3 / 4) / 4)
    dropped = DATA.take(np.arange(2), suppressed=True)
    assert dc.Precision()(dropped).value == pytest.approx(1 - 2 / 4)
    assert dc.ILoss()(dropped).value == pytest.approx(2 * (3 / 4) / 4)


def test_levels_are_inferred_for_a_file_from_outside() -> None:
    outside = dc.Dataset(pl.DataFrame({"v": ["x", "x", "c", None]}), hierarchies={"v": ROWS})
    assert dc.Precision()(outside).value == pytest.approx(1 - 2 * 0.5 / 4)
    assert dc.Height()(outside).value == 1


def test_a_label_at_two_levels_is_an_error_in_a_release_from_outside() -> None:
    rows = [("a", "x", "*"), ("x", "x", "*")]
    outside = dc.Dataset(pl.DataFrame({"v": ["x", "*"]}), hierarchies={"v": rows})
    with pytest.raises(dc.DataError, match="stand at two levels"):
        dc.Precision()(outside)
    original = dc.Dataset(pl.DataFrame({"v": ["x", "a"]}), hierarchies={"v": rows})
    assert dc.Precision()(original).value == 1


def test_entropy_of_suppression_is_relative_to_everybody() -> None:
    hidden = DATA.with_columns({}, suppressed={"v": np.array([True, False, False, False])})
    assert dc.NonUniformEntropy()(DATA, hidden).value == pytest.approx(np.log2(3))


def test_no_hierarchy_is_an_error() -> None:
    with pytest.raises(dc.DataError, match="no column has a hierarchy"):
        dc.Precision()(pl.DataFrame({"v": [1]}))
    with pytest.raises(dc.DataError, match="a weight for 'w'"):
        dc.ILoss(weights={"w": 1.0})(DATA)
