"""Scores, DIS and contributions of sdcMicro's suda2 on its own data."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import discretion as dc
from tests.shared import reference

pytestmark = pytest.mark.peers

KEYS = ["urbrur", "roof", "walls", "water", "sex"]


def table(name: str) -> pl.DataFrame:
    return pl.read_csv(reference("golden", "sdcmicro", name), null_values="NA", infer_schema_length=None)


def test_scores_of_records() -> None:
    want = table("04_suda2_testdata2.csv")
    found = dc.Suda(columns=KEYS).records(dc.Dataset(table("in_testdata2.csv")))
    assert np.allclose(found.scores, want["score"].to_numpy(), rtol=1e-9, atol=0)
    assert np.allclose(found.dis, want["dis"].to_numpy(), rtol=1e-9, atol=0)
    assert found.rows.size == want.height
    parts = np.empty_like(found.contributions)
    parts[found.rows] = found.contributions
    assert np.allclose(parts, want.select(f"{name}_contribution" for name in KEYS).to_numpy(), atol=1e-9)


def test_contributions_of_columns_and_values() -> None:
    golden = json.loads(reference("golden", "sdcmicro", "04_suda2_testdata2.json").read_text())
    detail = dc.Suda(columns=KEYS)(table("in_testdata2.csv")).detail
    for item in golden["attr"]:
        assert detail["contributions"][item["variable"]] == pytest.approx(item["contribution"] / 100, rel=1e-9)
    found = {(name, v["value"]): v["share"] for name, values in detail["value_contributions"].items() for v in values}
    want = {(v["variable"], str(v["attribute"])): v["contribution"] / 100 for v in golden["level"]}
    assert found == pytest.approx(want, rel=1e-9)
