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


def test_check_attacks_a_finished_release_by_the_steps_of_the_plan(tmp_path: Path, cli: Cli) -> None:
    """The plain figure is far below the limit, that of an intruder who knows the plan above it."""
    data = pl.DataFrame(np.random.default_rng(1).normal(size=(200, 4)), schema=NAMES)
    data.write_csv(tmp_path / "original.csv")
    dc.RankSwap(columns=NAMES, percent=20)(data, seed=5).write_csv(tmp_path / "released.csv")
    roles = ", ".join(f"{name}: quasi" for name in NAMES)
    plan = f"data: original.csv\nroles: {{{roles}}}\nrequirements:\n  - distance-linkage: {{at_most: 0.5}}\n"
    steps = "steps:\n  - rank-swap: {columns: [a, b, c, d], percent: 20}\n"
    codes = {}
    for name, text in (("scanned", plan), ("known", plan + steps), ("secret", plan + "knows_method: false\n")):
        (tmp_path / f"{name}.yaml").write_text(text)
        codes[name] = cli("check", tmp_path / f"{name}.yaml", "--released", tmp_path / "released.csv").code
    assert codes == {"scanned": 4, "known": 4, "secret": 0}
