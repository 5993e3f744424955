"""The record linkage of sdcMicro on its own data: one to one by Gower's distance."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import discretion as dc
from tests.shared import reference

pytestmark = pytest.mark.peers

NUMBERS = ["expend", "income", "savings"]


def table(name: str) -> pl.DataFrame:
    read = pl.read_csv(reference("golden", "sdcmicro", name), null_values="NA", infer_schema_length=None)
    return read.select(pl.col(NUMBERS).cast(pl.Float64)).head(200)


def test_the_least_total_distance_agrees() -> None:
    """Two optima with the same total exist: they report 127 right links, another optimum has 128."""
    theirs = json.loads(reference("golden", "sdcmicro", "09_recordLinkage_gower_first200.json").read_text())
    score = dc.AssignmentLinkage(columns=NUMBERS, distance="gower")(
        table("in_testdata.csv"), table("in_testdata_num_noise20.csv")
    )
    assert score.detail["total_distance"] == pytest.approx(theirs["total_distance"], rel=1e-12)
    assert score.detail["mean_distance"] == pytest.approx(theirs["mean_distance"], rel=1e-12)
    assert abs(score.value - theirs["correct_match_rate"]) <= 0.005 + 1e-12


def test_every_distance_of_their_links_agrees() -> None:
    from discretion.context import Context
    from discretion.risk.identity.assignment import _all_distances
    from discretion.risk.identity.distances import make_space
    from discretion.risk.identity.intruder import Intruder, view

    links = pl.read_csv(reference("golden", "sdcmicro", "09_recordLinkage_matches.csv"))
    x, y = dc.Dataset(table("in_testdata.csv")), dc.Dataset(table("in_testdata_num_noise20.csv"))
    space = make_space(view(Intruder(), x, y, NUMBERS, Context(0)), "gower", "average", True, Context(0))
    ours = _all_distances(space)[links["x_row"].to_numpy() - 1, links["y_row"].to_numpy() - 1]
    np.testing.assert_allclose(ours, links["distance"].to_numpy(), rtol=1e-12)
