"""Commands on a Spark cluster (here, one of this machine): what duckdb gives, and nothing half published."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import polars as pl
import pytest
import yaml

import discretion as dc
from discretion.cli.app import run
from discretion.engines.spark import _answer
from discretion.errors import DataError, PlanError
from discretion.release.large import run_large, scan_data
from discretion.tables.rules.magnitude import Threshold
from tests.engines.test_commands import MORE, PLAN, fail_to_write, folder, people, spoil_pages  # noqa: F401 - fixtures

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]
STEPS: dict[str, Any] = {"steps": PLAN["steps"][:1]}
ENGINES = ("duckdb", "spark")


def test_run_and_check_on_text(folder: Path, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "text").mkdir()
    for part in folder.iterdir():
        pl.read_parquet(part).write_csv(tmp_path / "text" / f"{part.stem}.csv")
    (tmp_path / "seed").write_text(str(2**100 + 7))
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump({**PLAN, **STEPS, "data": {"path": "text"}}))
    for engine in ENGINES:
        asked = [str(tmp_path / "plan.yaml"), "--seed-file", str(tmp_path / "seed"), "--quiet", "--engine", engine]
        assert run(["run", *asked, "--out", str(tmp_path / engine)]) == 0
    one, two = (tmp_path / engine / "data-00001.parquet" for engine in ENGINES)
    assert one.read_bytes() == two.read_bytes()
    assert run(["check", *asked]) == 0


def test_anonymize(folder: Path, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "seed").write_text(str(2**100 + 5))
    asked = ["--k", "5", "--suppression-limit", "0.02", "--seed-file", str(tmp_path / "seed"), *MORE]
    for engine in ENGINES:
        order = ["--order-file", str(tmp_path / f"{engine}.npy")]
        assert run(["anonymize", str(folder), str(tmp_path / engine), *asked, *order, "--engine", engine]) == 0
    one, two = (tmp_path / engine / "data-00001.parquet" for engine in ENGINES)
    assert one.read_bytes() == two.read_bytes()
    assert np.array_equal(*(np.load(tmp_path / f"{engine}.npy") for engine in ENGINES))


def test_assess(folder: Path, people: pl.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    released = dc.AdditiveNoise(columns=["income", "savings"], sd_share=0.2)(people, seed=1)
    released.write_parquet(tmp_path / "released.parquet")
    asked = [str(folder), str(tmp_path / "released.parquet"), *MORE, "--json"]
    asked += ["--measure", "sample-uniqueness", "--measure", "mse:{columns: [income]}"]
    found = []
    for engine in ENGINES:
        assert run(["assess", *asked, "--engine", engine]) == 0
        found.append([one["value"] for one in json.loads(capsys.readouterr().out)["scores"]])
    assert found[1] == pytest.approx(found[0], rel=1e-12)


TABLE: dict[str, Any] = {
    "by": ["age", "sex", "region"],
    "rules": [{"threshold": {"minimum": 4}}],
    "protect": "suppress",
    "empty": "keep",
    "hierarchies": {"region": [[f"R{number:02d}", "north" if number < 7 else "south"] for number in range(1, 14)]},
}


def test_a_table_of_counts_is_that_of_memory(
    folder: Path,  # noqa: F811
    people: pl.DataFrame,  # noqa: F811
    spark: Any,
) -> None:
    options = {name: value for name, value in TABLE.items() if name in ("by", "empty")}
    rows = people.with_columns(pl.when(pl.col("age") > 80).then(None).otherwise("age").alias("age"))
    rows[:700].write_parquet(folder / "a.parquet")
    rows[700:].write_parquet(folder / "b.parquet")
    scan = dc.scan(folder, engine="spark", session=spark, hierarchies=PLAN["hierarchies"])
    whole = dc.Dataset(rows, hierarchies=PLAN["hierarchies"])
    for missing in ("category", "ignore"):
        one, two = (dc.tabulate(data, **options, missing=missing).apply_rules([Threshold(minimum=4)])
                    for data in (whole, scan))  # fmt: skip
        for name in ("codes", "value", "count", "top", "primary", "inner_codes"):
            assert np.array_equal(getattr(one, name), getattr(two, name)), name
        assert np.array_equal(one.response.inner_value, two.response.inner_value) and one.notes == two.notes
        assert np.array_equal(one.suppress().cells.suppressed, two.suppress().cells.suppressed)


def test_tables_of_single_contributions_are_refused(folder: Path, tmp_path: Path, spark: Any) -> None:  # noqa: F811
    content = {"data": {"path": str(folder)}, "roles": PLAN["roles"], "table": {**TABLE, "value": "income"}}
    (tmp_path / "table.yaml").write_text(yaml.safe_dump(content))
    assert run(["table", str(tmp_path / "table.yaml"), "--out", str(tmp_path / "out"), "--engine", "spark"]) == 2
    assert not (tmp_path / "out").exists()
    scan = dc.scan(folder, engine="spark", session=spark)
    with pytest.raises(PlanError, match=r"value: on a Spark cluster a table counts records.*engine `duckdb`"):
        dc.tabulate(scan, ["sex"], "income")


def made(folder: Path, **more: Any) -> dc.Plan:  # noqa: F811
    return dc.Plan.from_dict({**PLAN, **STEPS, "data": {"path": str(folder)}, **more})


@pytest.mark.parametrize("spoil", [spoil_pages, Path.unlink])
def test_a_part_that_can_no_longer_be_read(spoil: Any, folder: Path) -> None:  # noqa: F811
    plan = made(folder)
    scan = scan_data(plan, engine="spark")
    spoil(folder / "b.parquet")
    with pytest.raises(DataError, match="a part cannot be read as Parquet"):
        run_large(plan, scan, seed=2**100)


def test_parts_that_differ(folder: Path, people: pl.DataFrame) -> None:  # noqa: F811
    people[:5].with_columns(pl.col("age").cast(pl.String)).write_parquet(folder / "c.parquet")
    with pytest.raises(DataError, match=r"c\.parquet: its columns differ from those of a\.parquet in age"):
        scan_data(made(folder), engine="spark")
    people[:5].rename({"age": "years"}).write_parquet(folder / "c.parquet")
    with pytest.raises(DataError, match=r"c\.parquet: its columns differ from those of a\.parquet in age, years"):
        scan_data(made(folder), engine="spark")


def test_a_release_that_cannot_be_written_appears_nowhere(folder: Path, tmp_path: Path) -> None:  # noqa: F811
    plan = made(folder)
    release = run_large(plan, scan_data(plan, engine="spark"), seed=2**100)
    parts = [part.rename(part.with_suffix(".gone")) for part in release.rows.parts]
    with pytest.raises(DataError, match=r"Spark gave a task up after 4 tries \(\w+Error\); the logs"):
        release.write(tmp_path / "out")
    for part in parts:
        part.rename(part.with_suffix(".parquet"))
    assert not (tmp_path / "out").exists()
    release.write(tmp_path / "out")
    assert (tmp_path / "out" / "data-00001.parquet").is_file()


def test_a_full_disk_of_a_machine_is_said() -> None:
    assert _answer(lambda _: fail_to_write(), None) == ("DataError", ANY)
    assert "disk is full" in _answer(lambda _: fail_to_write(), None)[1]


@pytest.mark.slow
def test_a_killed_driver_publishes_nothing_and_the_next_run_cleans_up(folder: Path, tmp_path: Path) -> None:  # noqa: F811
    spilled = tmp_path / "tmp"
    spilled.mkdir()
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump({**PLAN, **STEPS, "data": {"path": str(folder)}}))
    command = [sys.executable, "-m", "discretion", "run", str(tmp_path / "plan.yaml"), "--out", str(tmp_path / "out")]
    command += ["--engine", "spark", "--quiet"]
    environment = {**os.environ, "TMPDIR": str(spilled)}
    with subprocess.Popen(command, env=environment) as process:
        while process.poll() is None and not list(spilled.glob("discretion-spill-*/rows-*.parquet")):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "out").exists() and list(spilled.glob("discretion-spill-*"))
    assert subprocess.run(command, env=environment, check=False).returncode == 0
    assert (tmp_path / "out").exists() and not list(spilled.glob("discretion-spill-*"))
