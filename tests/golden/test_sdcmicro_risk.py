"""Risk figures of sdcMicro on its own data, where it is right; where it gives none, an independent computation."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.integrate import quad

import discretion as dc
from tests.shared import reference

pytestmark = pytest.mark.peers

KEYS = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"]
FRANC = ["Key1", "Key2", "Key3", "Key4"]


def table(name: str) -> pl.DataFrame:
    return pl.read_csv(reference("golden", "sdcmicro", name), null_values="NA", infer_schema_length=None)


def figures(name: str) -> Any:
    return json.loads(reference("golden", "sdcmicro", name).read_text())


def risks(measure: dc.Measure, frame: pl.DataFrame) -> np.ndarray:
    found = measure(frame).per_record
    assert found is not None
    return found


def test_small_example_of_the_literature() -> None:
    want = table("01_freqCalc_indivRisk_francdat.csv")
    frame = table("in_francdat.csv")
    for approximate, column in ((True, "rk_approx"), (False, "rk_exact")):
        got = risks(dc.IndividualRisk(columns=FRANC, weight="w", approximate=approximate), frame)
        assert got == pytest.approx(want[column].to_numpy(), rel=1e-9)


def test_small_example_with_missing_values() -> None:
    want = table("01_freqCalc_francdat_NA_alpha1.csv")
    frame = table("in_francdat_NA.csv")
    measure = dc.IndividualRisk(columns=FRANC, weight="w", missing="wildcard")
    assert risks(measure, frame) == pytest.approx(want["rk"].to_numpy(), rel=1e-9)
    for shown in measure(frame).detail["classes"]:
        f, people, _ = want.row(shown["row"])
        assert (shown["records"], shown["people"]) == pytest.approx((f, people), rel=1e-12)


def test_approximate_individual_risk() -> None:
    want = table("01_freqCalc_indivRisk_testdata_w.csv")
    got = risks(dc.IndividualRisk(columns=KEYS, weight="w", approximate=True), table("in_testdata_w.csv"))
    assert got == pytest.approx(want["rk_approx"].to_numpy(), rel=1e-9)


def test_exact_individual_risk_also_where_sdcmicro_has_none() -> None:
    want = table("01_freqCalc_indivRisk_testdata_w.csv")
    got = risks(dc.IndividualRisk(columns=KEYS, weight="w"), table("in_testdata_w.csv"))
    exact = want["rk_exact"].to_numpy()
    known = ~np.isnan(exact)
    assert got[known] == pytest.approx(exact[known], rel=1e-9)
    assert (~known).sum() == 176, "sdcMicro's sum overflows for the largest class"
    row = int(np.flatnonzero(~known)[0])
    f, people = (float(want[name][row]) for name in ("fk", "Fk"))
    z = people / f - 1
    by_integral = quad(lambda u: u ** (f - 1) / (1 + z * u), 0.5, 1, epsabs=0, epsrel=1e-12)[0]  # below ½: 2^−176
    assert got[~known] == pytest.approx(by_integral, rel=1e-9)


def test_individual_risk_with_missing_values_as_wildcard() -> None:
    want = table("01_freqCalc_testdata_w_NA_alpha1.csv")
    measure = dc.IndividualRisk(columns=KEYS, weight="w", approximate=True, missing="wildcard")
    assert risks(measure, table("in_testdata_w_NA.csv")) == pytest.approx(want["rk"].to_numpy(), rel=1e-9)


@pytest.mark.parametrize("name", ["02_measure_risk_testdata_w_hid", "02_measure_hierarchical_cpp_testdata_w"])
def test_global_and_household_risk(name: str) -> None:
    frame, per_record, overall = table("in_testdata_w.csv"), table(f"{name}.csv"), figures(f"{name}.json")
    single = dc.IndividualRisk(columns=KEYS, weight="w", approximate=True)(frame)
    assert single.per_record == pytest.approx(per_record["risk"].to_numpy(), rel=1e-9)
    assert single.value == pytest.approx(overall["global_risk"], rel=1e-9)
    assert single.detail["expected_reidentifications"] == pytest.approx(overall["global_risk_ER"], rel=1e-9)
    home = dc.HouseholdRisk(columns=KEYS, weight="w", household="ori_hid", approximate=True)(frame)
    assert home.per_record == pytest.approx(per_record["hier_risk"].to_numpy(), rel=1e-9)
    assert home.value == pytest.approx(overall["hier_risk"], rel=1e-9)
    assert home.detail["expected_records"] == pytest.approx(overall["hier_risk_ER"], rel=1e-9)


def test_threshold_on_the_global_risk() -> None:
    score = dc.IndividualRisk(columns=KEYS, weight="w", approximate=True)(table("in_testdata_w.csv"))
    for wanted, overall in figures("02_measure_risk_thresholds.json").items():
        assert score.value == pytest.approx(overall["global_risk"], rel=1e-9)
        assert (score.value <= float(wanted)) == (overall["global_threshold"] == "NA")


def test_l_diversity_of_each_class() -> None:
    frame = table("in_testdata2.csv")
    keys = ["urbrur", "roof", "walls", "sex"]
    want = table("03_ldiversity_testdata2_keys_urbrur_roof_walls_sex__sens_water.csv")["water_Distinct_Ldiversity"]
    per_class = frame.with_columns(want=want).group_by(keys).agg(pl.col("want").first(), pl.len())
    for needed in (2, 3, 4):
        verdict = dc.DistinctLDiversity(l=needed, columns=keys, sensitive=["water"])(frame)
        short = per_class.filter(pl.col("want") < needed)
        assert (verdict.failing_count, verdict.failing_records) == (short.height, int(short["len"].sum()))
    assert dc.DistinctLDiversity(l=2, columns=keys, sensitive=["water"])(frame).value == want.min()


def test_risky_cells() -> None:
    want = {
        tuple(name for name in names if name): (threshold, cells)
        for *names, threshold, cells in table("09_riskyCells_testdata_maxDim3_thr5.csv").rows()
    }
    ((threshold,),) = {(found[0],) for found in want.values()}
    mine = dc.QuasiIdentifiers(columns=KEYS, max_size=3, known=3).table(
        table("in_testdata.csv"), smaller_than=threshold + 1
    )  # it counts cells up to the threshold
    got = dict(zip(map(frozenset, mine["columns"]), mine["small_cells"], strict=True))
    assert got == {frozenset(names): cells for names, (_, cells) in want.items()}


def test_violations_of_k_anonymity() -> None:
    want = figures("09_kAnon_violations.json")["unw"]
    score = dc.SampleUniqueness(columns=KEYS)(table("in_testdata.csv"))
    assert score.per_record is not None
    assert [int((score.per_record > 1 / k + 1e-12).sum()) for k in (2, 3)] == want[:2]


def test_log_linear_means_and_risk() -> None:
    """The fitted means agree with R's model; modRisk takes them for λ and overflows: the risk is computed here."""
    frame = table("in_testdata_w.csv")
    golden = figures("08_modRisk_fitted.json")
    columns = ["urbrur", "roof", "walls", "relat", "sex"]
    margins = [np.bincount(frame[name].rank("dense").to_numpy())[1:] / len(frame) for name in columns]
    mean = len(frame) * np.einsum("a,b,c,d,e->abcde", *margins)
    assert mean.size == golden["n_cells"]
    assert mean.ravel()[:10] == pytest.approx(golden["fitted_first10"], rel=1e-6)  # as far as R's iteration goes
    place = [frame[name].rank("dense").to_numpy().astype(int) - 1 for name in columns]
    cells = np.zeros(mean.shape)
    np.add.at(cells, tuple(place), 1)
    pi = len(frame) / float(frame["w"].sum())
    others = mean[cells == 1] / pi * (1 - pi)
    score = dc.LogLinearRisk(columns=columns, share=pi)(frame)
    assert score.detail["sample_uniques"] == len(others)
    assert score.detail["tau1"] == pytest.approx(np.exp(-others).sum(), rel=1e-9)
    assert score.detail["tau2"] == pytest.approx(((1 - np.exp(-others)) / others).sum(), rel=1e-9)


def test_intervals_that_grow_with_the_robust_distance() -> None:
    """`dRiskRMD`; its weighted figure is the share times the sum of a twentieth of the distances of who counts."""
    golden = figures("06_dRisk_dUtility.json")["noise20"]["dRiskRMD_seed1"]
    numbers = ["expend", "income", "savings"]
    original, released = table("in_testdata.csv").select(numbers), table("in_testdata_num_noise20.csv").select(numbers)
    got = dc.OutlierInterval(columns=numbers, sd_share=0.0005)(original, released, align="position")
    one_record = 1.01 / len(original)  # the bulk is found from random subsets, there as here
    assert [got.value, got.detail["isolated"]] == pytest.approx([golden["risk1"], golden["risk2"]], abs=one_record)
    x = original.to_numpy().astype(float)
    x = (x - x.mean(0)) / x.std(0, ddof=1)
    distance = np.sqrt(np.einsum("ij,jk,ik->i", x, np.linalg.inv(np.cov(x.T)), x))
    found = got.per_record
    assert found is not None
    assert got.value * distance[found].sum() / 20 == pytest.approx(golden["wrisk1"], rel=0.05)
    assert got.detail["weighted"] == pytest.approx(distance[found].sum() / distance.sum(), rel=0.02)
