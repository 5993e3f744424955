"""`discretion assess` on a release from elsewhere: methods that fit the rows are scanned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

import discretion as dc
from tests.cli.conftest import Cli

NAMES = ["a", "b", "c", "d"]


def test_assess_scans_what_nobody_tells(tmp_path: Path, cli: Cli) -> None:
    data = pl.DataFrame(np.random.default_rng(1).normal(size=(200, 4)), schema=NAMES)
    data.write_csv(tmp_path / "original.csv")
    dc.RankSwap(columns=NAMES, percent=20)(data, seed=5).write_csv(tmp_path / "released.csv")
    asked = ["assess", tmp_path / "original.csv", tmp_path / "released.csv", "--json", "--quiet"]
    (score,) = cli(*asked, "--measure", "distance-linkage:{columns: [a, b, c, d]}").json()["scores"]
    assert score["value"] > 0.9 and score["detail"]["plain"] < 0.3
    by_roles = cli(*asked, "--quasi", ",".join(NAMES)).json()
    linked = next(one for one in by_roles["scores"] if one["measure"] == "distance-linkage")
    assert linked["value"] > 0.9 and len(linked["detail"]["scanned"]) == 3
    assert any(one["measure"] == "distance-linkage" and one["success"] > 0.9 for one in by_roles["ranked"])
