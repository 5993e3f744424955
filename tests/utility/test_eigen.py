from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import discretion as dc
from tests.shared import reference

NUMBERS = ["expend", "income", "savings"]


def sample(seed: int, n: int = 200) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, 3)) @ np.array([[1, 0.5, 0.2], [0, 1, 0.3], [0, 0, 1]])
    return pl.DataFrame(z, schema=["a", "b", "c"])


def test_eigenvalues_by_numpy() -> None:
    x, y = sample(0), sample(1, 300)
    before, after = (np.linalg.eigvalsh(np.corrcoef(f.to_numpy().T))[::-1] for f in (x, y))
    score = dc.EigenDifference(columns=["a", "b", "c"])(x, y)
    assert score.value == pytest.approx((np.abs(before - after) / before).mean(), rel=1e-12)
    assert score.detail["sum"] == pytest.approx(3 * score.value)


@pytest.mark.parametrize("kind", [dc.EigenDifference, dc.CorrelationChange, dc.RobustEigenDifference])
def test_units_and_shifts_do_not_matter(kind: type[dc.Measure]) -> None:
    x, y = sample(0), sample(1)
    moved = y.with_columns(pl.col("a") * 1000 + 5, pl.col("b") / 7)
    measure = kind(columns=["a", "b", "c"])
    assert measure(x, moved).value == pytest.approx(measure(x, y).value, rel=1e-6)
    assert measure(x, y).value > 0


@pytest.mark.parametrize("kind", [dc.EigenDifference, dc.CorrelationChange])
def test_weights_are_repetitions_and_incomplete_records_are_left_out(kind: type[dc.Measure]) -> None:
    rng = np.random.default_rng(3)
    x = sample(0, 60).with_columns(pl.Series("w", rng.integers(1, 5, 60)))
    y = sample(1, 60).with_columns(pl.Series("w", rng.integers(1, 5, 60)))
    roles = {"w": "weight", "a": "quasi", "b": "quasi", "c": "quasi"}
    repeated = [frame.select(pl.exclude("w").repeat_by("w").explode()) for frame in (x, y)]
    want = kind(columns=["a", "b", "c"])(*repeated).value
    holes = pl.concat([y, y[:5].with_columns(pl.lit(None, pl.Float64).alias("b"))])
    assert kind()(dc.Dataset(x, roles=roles), dc.Dataset(y, roles=roles)).value == pytest.approx(want, rel=1e-9)
    assert kind()(dc.Dataset(x, roles=roles), dc.Dataset(holes, roles=roles)).value == pytest.approx(want, rel=1e-9)


def test_outliers_decide_the_plain_figure_and_not_the_robust_one() -> None:
    x, fields = sample(0, 500), {"columns": ["a", "b", "c"]}
    far = pl.DataFrame({"a": [200.0] * 20, "b": [-200.0] * 20, "c": [200.0] * 20})
    y = pl.concat([x[:480], far])
    assert dc.EigenDifference(**fields)(x, y).value > 0.5
    assert dc.RobustEigenDifference(**fields)(x, y).value < 0.05


def test_bad_columns() -> None:
    x = sample(0)
    with pytest.raises(dc.DataError, match="'b' is constant"):
        dc.EigenDifference(columns=["a", "b"])(x, x.with_columns(pl.lit(1.0).alias("b")))
    same = x.with_columns((pl.col("a") * 2).alias("b"))
    with pytest.raises(dc.DataError, match="determined by the others"):
        dc.EigenDifference(columns=["a", "b"])(same, same)
    with pytest.raises(dc.DataError, match="determined by the others"):
        dc.CorrelationChange(columns=["a", "b"])(same, same)
    with pytest.raises(dc.DataError, match="at least two columns"):
        dc.CorrelationChange(columns=["a"])(x, x)
    with pytest.raises(dc.DataError, match="fewer than two complete"):
        dc.EigenDifference(columns=["a"])(x, x[:1])
    weighted = dc.Dataset(x.with_columns(pl.Series("w", range(200))), roles={"w": "weight", "a": "quasi", "b": "quasi"})
    with pytest.raises(dc.DataError, match="cannot use weights"):
        dc.RobustEigenDifference()(weighted, weighted)
    mostly = pl.DataFrame({"a": [0.0] * 90 + list(range(10)), "b": [0.0] * 90 + list(range(10, 20))})
    with pytest.raises(dc.DataError, match="one plane"):
        dc.RobustEigenDifference(columns=["a", "b"])(mostly, mostly)


@pytest.mark.peers
@pytest.mark.parametrize(
    ("name", "file"), [("noise20", "in_testdata_num_noise20.csv"), ("mdav3", "05_mdav_testdata_aggr3.csv")]
)
def test_figures_of_sdcmicro(name: str, file: str) -> None:
    golden = json.loads(reference("golden", "sdcmicro", "06_dRisk_dUtility.json").read_text())[name]
    x = pl.read_csv(reference("golden", "sdcmicro", "in_testdata.csv"), columns=NUMBERS)
    y = pl.read_csv(reference("golden", "sdcmicro", file), columns=NUMBERS)
    fields = {"columns": NUMBERS}
    assert dc.EigenDifference(**fields)(x, y).detail["sum"] == pytest.approx(golden["eigen"], rel=1e-9)
    assert dc.CorrelationChange(**fields)(x, y).value == pytest.approx(golden["IL_correl"], rel=1e-9)
    change = dc.VariableChange(**fields, standardize=False)(x, y)
    assert change.value == pytest.approx(golden["IL_variables"]["total"], rel=1e-9)
    assert change.detail["per_column"] == pytest.approx(golden["IL_variables"]["indiv"], rel=1e-9)


@pytest.mark.peers
def test_robust_eigenvalues_of_robustbase() -> None:
    golden = json.loads(reference("golden", "sdcmicro", "06_covMcd_testdata_scaled.json").read_text())
    x = pl.read_csv(reference("golden", "sdcmicro", "in_testdata.csv"), columns=NUMBERS)
    found = dc.RobustEigenDifference(columns=NUMBERS)(x, x[:50]).detail["original"]
    assert found == pytest.approx(np.linalg.eigvalsh(np.array(golden["cov"]))[::-1], rel=0.1)


def test_a_column_constant_among_the_records_with_weight_is_refused() -> None:
    frame = pl.DataFrame({"a": [1.0, 2.0, 2.0], "b": [1.0, 2.0, 4.0], "w": [0.0, 1.0, 2.0]})
    data = dc.Dataset(frame, roles={"w": "weight"})
    for measure in (dc.EigenDifference(columns=["a", "b"]), dc.CorrelationChange(columns=["a", "b"])):
        with pytest.raises(dc.DataError, match="constant"):
            measure(data, data)
