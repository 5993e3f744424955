"""Commands on rows that stay in their files, and what goes wrong with these: nothing is half published."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.cli.app import run
from discretion.errors import DataError
from discretion.release.large import run_large, scan_data

ROLES = ["--quasi", "age,sex,region", "--sensitive", "income,savings"]
HIERARCHY = ["--hierarchy", "age={intervals: {width: 10, levels: 3}}"]
MORE = [*ROLES, *HIERARCHY, "--hierarchy", "sex={masking: {}}", "--hierarchy", "region={masking: {}}", "--quiet"]
PLAN: dict[str, Any] = {
    "roles": {"age": "quasi", "sex": "quasi", "region": "quasi", "income": "sensitive", "savings": "sensitive"},
    "hierarchies": {"age": {"intervals": {"width": 10, "levels": 3}}},
    "steps": [
        {"additive-noise": {"columns": ["income", "savings"], "sd_share": 0.1}},
        {"rank-swap": {"columns": ["savings"], "percent": 3}},
    ],
    "requirements": [{"k-anonymity": {"k": 1}}],
    "measures": ["sample-uniqueness"],
    "output": {"format": "parquet"},
}


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    return dc.datasets.census(2_000, seed=1).frame.select("age", "sex", "region", "income", "savings")


@pytest.fixture
def folder(tmp_path: Path, people: pl.DataFrame) -> Path:
    place = tmp_path / "register"
    place.mkdir()
    people[:700].write_parquet(place / "a.parquet")
    people[700:].write_parquet(place / "b.parquet")
    people.write_parquet(tmp_path / "all.parquet")
    return place


@pytest.mark.parametrize("search", ["optimal-generalization", "mondrian"])
def test_anonymize_gives_the_rows_of_memory(search: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "seed").write_text(str(2**100 + 5))
    asked = ["--k", "5", "--suppression-limit", "0.02", "--seed-file", str(tmp_path / "seed"), *MORE]
    asked += ["--search", search]
    for name, source, more in (("one.parquet", tmp_path / "all.parquet", []), ("two", folder, ["--engine", "duckdb"])):
        order = ["--order-file", str(tmp_path / f"{name}.npy")]
        assert run(["anonymize", str(source), str(tmp_path / name), *asked, *order, *more]) == 0
    one, two = pl.read_parquet(tmp_path / "one.parquet"), pl.read_parquet(tmp_path / "two" / "*.parquet")
    assert two.equals(one)
    assert np.array_equal(*(np.load(tmp_path / f"{name}.npy") for name in ("one.parquet", "two")))
    assert run(["anonymize", str(folder), str(tmp_path / "two"), "--k", "5", *MORE, "--engine", "duckdb"]) == 2
    local = ["--search", "local-recoding", "--engine", "duckdb"]
    assert run(["anonymize", str(folder), str(tmp_path / "three"), "--k", "5", *MORE, *local]) == 2
    assert not (tmp_path / "three").exists()


def test_assess_gives_the_figures_of_memory(
    folder: Path, people: pl.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    noisy = dc.AdditiveNoise(columns=["income", "savings"], sd_share=0.2)(people, seed=1)
    order = np.random.default_rng(1).permutation(len(people))
    (tmp_path / "out").mkdir()
    noisy[order].write_parquet(tmp_path / "out" / "data.parquet")
    np.save(tmp_path / "order.npy", order)
    measures = ["distance-linkage:{columns: [age, income]}", "mse:{columns: [income]}", "sample-uniqueness"]
    options = [*ROLES, *HIERARCHY, "--journal", str(tmp_path / "order.npy"), "--quiet", "--json"]
    options += [word for measure in measures for word in ("--measure", measure)]
    found = []
    for original, more in ((tmp_path / "all.parquet", []), (folder, ["--engine", "duckdb"])):
        released = tmp_path / "out" / "data.parquet"
        assert run(["assess", str(original), str(released), *options, *more]) == 0
        found.append(json.loads(capsys.readouterr().out)["scores"])
    for one, other in zip(*found, strict=True):
        assert other["value"] == pytest.approx(one["value"], rel=1e-12) and other["meaning"] == one["meaning"]


def test_assess_asks_where_rows_do_not_belong_together(
    folder: Path, people: pl.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people[:1000].write_parquet(tmp_path / "some.parquet")
    people.sample(fraction=1.0, shuffle=True, seed=1).write_parquet(tmp_path / "mixed.parquet")
    for name, said in (("some", "the release 1,000"), ("mixed", "nothing tells which rows belong together")):
        assert run(["assess", str(folder), str(tmp_path / f"{name}.parquet"), *MORE, "--engine", "duckdb"]) == 3
        assert said in capsys.readouterr().err
    asked = ["--unrelated", "--measure", "sample-uniqueness", "--engine", "duckdb"]
    assert run(["assess", str(folder), str(tmp_path / "mixed.parquet"), *MORE, *asked]) == 0


def made(folder: Path, **more: Any) -> dc.Plan:
    return dc.Plan.from_dict({**PLAN, "data": {"path": str(folder)}, **more})


def fail_to_write(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fail_in_polars(*_: object, **__: object) -> None:
    raise pl.exceptions.ComputeError(f"underlying IO error: {os.strerror(errno.ENOSPC)} (os error {errno.ENOSPC})")


@pytest.mark.parametrize(
    ("what", "fail", "order"),
    [
        ("pyarrow.parquet.ParquetWriter.write_table", fail_to_write, "keep"),
        ("pyarrow.RecordBatchFileWriter.write_table", fail_to_write, "permute"),
        ("polars.DataFrame.write_ipc_stream", fail_in_polars, "keep"),
    ],
)
def test_a_full_disk_is_said(what: str, fail: Any, order: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = made(folder, order=order)
    scan = scan_data(plan)
    monkeypatch.setattr(what, fail, raising=False)
    with pytest.raises(DataError, match="disk is full"):
        run_large(plan, scan, seed=2**100)


def test_a_disk_that_fills_while_parts_are_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = made(folder)
    release = run_large(plan, scan_data(plan), seed=2**100)
    monkeypatch.setattr("pyarrow.RecordBatchStreamWriter.write_table", fail_to_write, raising=False)
    monkeypatch.setattr("polars.DataFrame.write_parquet", fail_to_write)
    with pytest.raises(DataError, match="disk is full"):
        release.write(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.parquet", "register"]


def spoil_pages(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    file.write_bytes(content)


@pytest.mark.parametrize("spoil", [spoil_pages, Path.unlink])
def test_a_part_that_can_no_longer_be_read(spoil: Any, folder: Path) -> None:
    plan = made(folder)
    scan = scan_data(plan)
    spoil(folder / "b.parquet")
    with pytest.raises(DataError, match="cannot be read"):
        run_large(plan, scan, seed=2**100)


def test_a_column_that_changes_its_type(folder: Path, people: pl.DataFrame) -> None:
    people[:5].with_columns(pl.col("age").cast(pl.String)).write_parquet(folder / "c.parquet")
    with pytest.raises(DataError, match=r"c\.parquet: its columns differ from those of a\.parquet in age"):
        scan_data(made(folder))


@pytest.mark.slow
def test_a_killed_run_publishes_nothing_and_is_cleaned_by_the_next(folder: Path, tmp_path: Path) -> None:
    import yaml

    spilled = tmp_path / "tmp"
    spilled.mkdir()
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump({**PLAN, "data": {"path": str(folder)}}))
    command = [sys.executable, "-m", "discretion", "run", str(tmp_path / "plan.yaml"), "--out", str(tmp_path / "out")]
    command += ["--engine", "duckdb", "--quiet"]
    environment = {**os.environ, "TMPDIR": str(spilled)}
    with subprocess.Popen(command, env=environment) as process:
        while process.poll() is None and not list(spilled.glob("discretion-spill-*/data-*")):
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert not (tmp_path / "out").exists() and list(spilled.glob("discretion-spill-*"))
    assert subprocess.run(command, env=environment, check=False).returncode == 0
    assert (tmp_path / "out").exists() and not list(spilled.glob("discretion-spill-*"))


def test_a_used_seed_is_refused_before_rows_are_rewritten(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "keep.seed").write_text(hex(2**127 + 9))
    seeded = {"seed_file": str(tmp_path / "keep.seed")}
    plan = made(folder, **seeded)
    run_large(plan, scan_data(plan)).write(tmp_path / "out", tmp_path / "private")
    other = [{"additive-noise": {"columns": ["income"], "sd_share": 0.3}}]
    monkeypatch.setattr("discretion.release.large._carry_out", None)
    with pytest.raises(dc.PlanError, match="was used for a release"):
        run_large(made(folder, **seeded, steps=other), scan_data(plan))


def test_a_dry_run_looks_at_parts_and_refuses_what_cannot_be_done(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import yaml

    monkeypatch.setattr("discretion.release.large._carry_out", None)
    asked = ["--out", str(tmp_path / "out"), "--dry-run", "--engine", "duckdb"]
    for steps, code, said in ((PLAN["steps"], 0, "2,000 rows"), ([{"local-recoding": {"k": 3}}], 2, "local-recoding")):
        text = yaml.safe_dump({**PLAN, "steps": steps, "data": {"path": str(folder)}})
        (tmp_path / "plan.yaml").write_text(text)
        assert run(["run", str(tmp_path / "plan.yaml"), *asked]) == code
        assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_a_killed_run_left_beside_the_public_folder_is_removed(folder: Path, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    names = [f".out-{process.pid}-ab_cd123", f".out-private-{process.pid}-ab_cd123"]
    others = [f".out-{os.getpid()}-ab_cd123", f".out-{process.pid}-{os.getpid()}-ab_cd123", ".out-notes"]
    for name in (*names, *others):
        (tmp_path / name).mkdir()
    plan = made(folder)
    run_large(plan, scan_data(plan), seed=2**100).write(tmp_path / "out")
    assert [(tmp_path / name).exists() for name in (*names, *others)] == [False, False, True, True, True]
