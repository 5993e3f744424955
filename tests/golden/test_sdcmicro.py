"""Figures of sdcMicro on its own data, where it is right."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import discretion as dc
from tests.shared import reference

pytestmark = pytest.mark.peers

NUMBERS = ["expend", "income", "savings"]
KEYS = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"]


def table(name: str) -> pl.DataFrame:
    return pl.read_csv(reference("golden", "sdcmicro", name), null_values="NA", infer_schema_length=None)


@pytest.mark.parametrize("k", [3, 5, 10])
def test_mdav(k: int) -> None:
    data = table("in_testdata.csv").select(pl.col(NUMBERS).cast(pl.Float64))
    want = table(f"05_mdav_testdata_aggr{k}.csv").to_numpy()
    got = dc.Mdav(columns=NUMBERS, k=k)(data).to_numpy()
    different = ~np.isclose(got, want, rtol=1e-9).all(axis=1)
    assert different.sum() <= 2 * (2 * k - 1), "more than one exact tie was decided in another way"


@pytest.mark.parametrize("release", ["noise20", "mdav3"])
def test_interval_risk_and_il1s(release: str) -> None:
    golden = json.loads(reference("golden", "sdcmicro", "06_dRisk_dUtility.json").read_text())[release]
    original = table("in_testdata.csv").select(pl.col(NUMBERS).cast(pl.Float64))
    name = "in_testdata_num_noise20.csv" if release == "noise20" else "05_mdav_testdata_aggr3.csv"
    released = table(name).select(pl.col(NUMBERS).cast(pl.Float64))
    for share in (0.05, 0.01):
        got = dc.IntervalRisk(columns=NUMBERS, sd_share=share)(original, released).value
        assert got == pytest.approx(golden[f"dRisk_k{share}"], abs=1e-12)
    assert dc.Il1s(columns=NUMBERS)(original, released).value == pytest.approx(golden["IL1s"], rel=1e-9)


def test_class_counts() -> None:
    data = dc.Dataset(table("in_testdata_w.csv"))
    want = table("01_freqCalc_indivRisk_testdata_w.csv")["fk"].to_numpy()
    assert np.array_equal(data.class_sizes(KEYS), want)


def test_class_counts_with_missing_as_wildcard() -> None:
    data = dc.Dataset(table("in_testdata_w_NA.csv"))
    want = table("01_freqCalc_testdata_w_NA_alpha1.csv")["fk"].to_numpy()
    assert np.allclose(data.class_sizes(KEYS, "wildcard"), want)


def test_k_anonymity_violations() -> None:
    golden = json.loads(reference("golden", "sdcmicro", "09_kAnon_violations.json").read_text())["unw"]
    sizes = dc.Dataset(table("in_testdata.csv")).class_sizes(KEYS)
    counts = [int((sizes < k).sum()) for k in (2, 3, 5, 10)]
    for k, count in zip((2, 3, 5, 10), counts, strict=True):
        verdict = dc.KAnonymity(k=k, columns=KEYS)(table("in_testdata.csv"))
        assert verdict.failing_records == count
    assert counts[:2] == golden[:2]


def test_global_recoding_has_the_same_intervals() -> None:
    """R's intervals are open below and closed above: for whole numbers each break is our cut less one."""
    want = table("09_globalRecode_testdata_age.csv").drop_nulls()
    breaks = [-1, 9, 19, 29, 39, 49, 59, 69, 100]
    recode = dc.Recode(column="age", cuts=[cut + 1 for cut in breaks], labels=[str(i + 1) for i in range(8)])
    assert recode(want.select("age"))["age"].cast(pl.Int64).equals(want["rec"])


def test_top_and_bottom_coding() -> None:
    """`topBotCoding` puts a number where ours puts a label: the same records, the others untouched."""
    expend = table("in_testdata.csv").select(pl.col("expend").cast(pl.Float64))
    golden = table("09_topBotCoding_testdata_expend.csv")
    for method, want in (
        (dc.TopCode(column="expend", at=9e7, replace="flag", label="91000000"), golden["top"]),
        (dc.BottomCode(column="expend", at=1e6, replace="flag", label="500000"), golden["bottom"]),
    ):
        assert method(expend)["expend"].cast(pl.Float64).to_list() == want.cast(pl.Float64).to_list()
