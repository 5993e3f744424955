"""The order of rows on the command line: permuted by default, kept when told, known to the journal."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import PlanError
from discretion.release.journal import read_order
from tests.cli.conftest import Cli
from tests.release.test_order import SEED, people


def test_order_is_kept_where_the_plan_says_so_and_the_report_tells(tmp_path: Path, cli: Cli) -> None:
    people().write_csv(tmp_path / "people.csv")
    plan = tmp_path / "plan.yaml"
    text = "data: people.csv\nroles: {region: quasi, age: quasi, income: sensitive}\nmeasures: [row-order]\n"
    text += "steps: none\nrequirements: none\n"
    figures = {}
    for order, words in (("keep", "the order of the original file"), ("permute", "a random order")):
        plan.write_text(text + f"order: {order}\n")
        assert dc.Plan.load(plan).order == order
        done = cli("run", plan, "--out", tmp_path / order)
        assert done.code == 0 and words in " ".join(done.err.split())
        report = json.loads((tmp_path / order / "report.json").read_text())
        assert report["row_order"]["order"] == order and words in report["row_order"]["meaning"]
        assert words in (tmp_path / order / "report.html").read_text()
        figures[order] = report["risk"][0]
        data = pl.read_csv(tmp_path / order / "data.csv")
        assert data["age"].equals(people()["age"]) is (order == "keep")
    assert figures["keep"]["after"] > 0.8 > 0.4 > figures["permute"]["after"]
    assert dc.Plan.from_dict({**dc.Plan.load(plan).to_dict(), "order": "keep"}).to_dict()["order"] == "keep"
    assert "order" not in dc.Plan.load(plan).to_dict()
    plan.write_text(text + "order: sorted\n")
    with pytest.raises(PlanError, match=r"line 6 \(order\): unknown order 'sorted'"):
        dc.Plan.load(plan)


def test_files_are_permuted_unless_the_order_is_to_be_kept(tmp_path: Path, cli: Cli) -> None:
    source, seed = tmp_path / "people.csv", tmp_path / "seed"
    people().write_csv(source)
    seed.write_text(hex(SEED))
    k = ["--quasi", "region,age", "--hierarchy", "age={intervals: {width: 10, levels: 4}}", "--k", "3"]
    k += ["--hierarchy", "region={intervals: {width: 2, levels: 3}}"]
    commands = {
        "apply": ["apply", "round", source, "OUT", "--columns", "income", "--base", "0.001"],
        "optimal": ["anonymize", source, "OUT", *k, "--suppression-limit", "0.1"],
        "mondrian": ["anonymize", source, "OUT", *k, "--search", "mondrian"],
    }
    for name, command in commands.items():
        outs = {option: tmp_path / f"{name}{option}.csv" for option in ("", "again", "--keep-order")}
        for option, out in outs.items():
            more = ["--keep-order"] if option == "--keep-order" else ["--order-file", out.with_suffix(".npy")]
            done = cli(*(out if word == "OUT" else word for word in command), "--seed-file", seed, *more)
            assert done.code == 0, done.err
            assert ("order of the original file" in done.err) is (option == "--keep-order")
            assert ("random order" in done.err) is (option != "--keep-order")
        new, again, kept = (pl.read_csv(out, infer_schema_length=None) for out in outs.values())
        assert new.equals(again) and not new.equals(kept) and new.sort(new.columns).equals(kept.sort(new.columns))
        rows = read_order(outs[""].with_suffix(".npy"))
        assert np.allclose(new["income"].to_numpy(), people()["income"].to_numpy()[rows], atol=0.001)
        assert outs[""].with_suffix(".npy").stat().st_mode & 0o777 == 0o600


def test_a_finished_release_is_assessed_and_checked_with_its_journal(tmp_path: Path, cli: Cli) -> None:
    people().write_csv(tmp_path / "people.csv")
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "data: people.csv\nroles: {region: quasi, age: quasi, income: sensitive}\n"
        "steps: [additive-noise: {columns: [income], sd_share: 0.01}]\n"
        "requirements: [interval-risk: {columns: [income], at_least: 0.3}]\n"
    )
    assert cli("run", plan, "--out", tmp_path / "out").code == 0
    pair = (tmp_path / "people.csv", tmp_path / "out" / "data.csv")
    measure = ["--measure", "rank-interval:{columns: [income]}", "--json"]
    done = cli("assess", *pair, *measure)
    assert done.code == 3 and "--id" in done.err and "--journal" in done.err and "--by-position" in done.err
    done = cli("assess", *pair, *measure, "--journal", tmp_path / "out-private")
    assert done.code == 0 and done.json()["aligned_by"] == "journal"
    assert done.json()["scores"][0]["value"] > 0.9
    shuffled = cli("assess", *pair, *measure, "--by-position").json()
    assert shuffled["aligned_by"] == "position" and shuffled["scores"][0]["value"] < 0.5
    assert cli("assess", *pair, *measure, "--by-position", "--journal", "x").code == 2
    assert cli("check", plan, "--released", pair[1]).code == 3
    assert cli("check", plan, "--released", pair[1], "--journal", tmp_path / "out-private").code == 0
    both = cli("compare", tmp_path / "out", tmp_path / "out-private" / ".." / "out", *measure)
    assert both.code == 0, both.err
