"""`discretion party` and `discretion demo --parties`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from discretion.cli.app import run
from discretion.cli.party import print_statistic
from discretion.parties.agreement import fingerprint
from tests.cli.conftest import Cli

ADDRESSES = [part for k, name in enumerate("abc") for part in ("--party", f"hospital-{name}", f"127.0.0.1:{7100 + k}")]


@pytest.fixture
def hospitals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        assert run(["party", "key", f"hospital-{name}", "--quiet"]) == 0
    assert run(["party", "new", "parties.yaml", *ADDRESSES, "--quiet"]) == 0
    return tmp_path


def test_an_agreement_is_shown_and_signed(hospitals: Path, cli: Cli) -> None:
    shown = cli("party", "agree", "parties.yaml")
    assert shown.code == 0
    for text in ("the mean of age, rounded to 2 decimals", "more than 1 of 3 parties", "at least 100 of each party"):
        assert text in " ".join(shown.out.split())
    text = "".join(shown.out.split())
    for name in "abc":
        assert fingerprint((hospitals / f"hospital-{name}.crt").read_text()) in text
    assert not list(hospitals.glob("*.signature"))
    signed = cli("party", "agree", "parties.yaml", "--as", "hospital-a", "--yes", "--json")
    content = json.loads(signed.out)
    assert signed.code == 0 and content["signed"] == "hospital-a" and content["agreement"]["coalitions"] == 1
    assert (hospitals / "parties.yaml.hospital-a.signature").is_file()
    assert "other agreements" not in signed.err
    counted = {"0" * 64: 1, "1" * 64: 2, content["agreement"]["digest"]: 1}
    (hospitals / "hospital-a.key.runs").write_text(json.dumps(counted))
    assert "used under 2 other agreements" in cli("party", "agree", "parties.yaml", "--as", "hospital-a", "--yes").err


def test_two_parties_get_an_intersection(hospitals: Path, cli: Cli) -> None:
    assert cli("party", "new", "two.yaml", *ADDRESSES[:6]).code == 0
    shown = cli("party", "agree", "two.yaml", "--json")
    assert "intersection" in json.loads(shown.out)["agreement"]["revealed"][0]


def test_a_new_key_over_an_old_one(hospitals: Path, cli: Cli) -> None:
    before = (hospitals / "hospital-a.key").read_text()
    refused = cli("party", "key", "hospital-a")
    assert refused.code == 3 and "--force" in refused.err
    assert cli("party", "key", "hospital-a", "--force").code == 0
    assert (hospitals / "hospital-a.key").read_text() != before


def test_what_is_refused(hospitals: Path, cli: Cli) -> None:
    unsigned = cli("party", "run", "parties.yaml", "--as", "hospital-a", "--data", "a.csv")
    assert unsigned.code == 2 and "has not signed" in unsigned.err
    wrong = cli("party", "agree", "parties.yaml", "--as", "hospital-x", "--yes")
    assert wrong.code == 2 and "unknown party 'hospital-x'; did you mean" in wrong.err
    name = cli("party", "key", "Hospital A")
    assert name.code == 2 and "lower-case letters" in name.err
    twice = cli("party", "new", "parties.yaml", *ADDRESSES)
    assert twice.code == 3 and "exists" in twice.err
    nobody = cli("party", "new", "other.yaml", "--party", "z", "127.0.0.1:7000")
    assert nobody.code == 3 and "party key z" in nobody.err
    data = cli("party", "agree", "parties.yaml", "--as", "hospital-a", "--yes", "--data", "a.csv")
    assert data.code == 2 and "of an intersection only" in data.err


def test_the_demo_of_three_hospitals(tmp_path: Path, cli: Cli) -> None:
    done = cli("demo", "--parties", "--out", str(tmp_path / "demo"), "--json")
    assert done.code == 0, done.err
    content = json.loads(done.out)
    assert len(set(content["mean"].values())) == 1
    assert content["mean"]["hospital-a"] == pytest.approx(content["pooled"], abs=0.005)
    for one in content["parties"].values():
        assert [item["label"] for item in one["opened"]] == ["sizes and rules hold", "mean"]
    again = cli("demo", "--parties", "--out", str(tmp_path / "demo"))
    assert again.code == 3 and "--force" in again.err
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("")
    other = cli("demo", "--parties", "--out", str(tmp_path / "mine"), "--force")
    assert other.code == 3 and (tmp_path / "mine" / "thesis.txt").exists()


def test_results_as_tables(capsys: pytest.CaptureFixture[str]) -> None:
    results = [
        ({"kind": "mean", "mean": {"age": 36.26}}, "36.26"),
        ({"kind": "covariance", "columns": ["a", "b"], "covariance": [[1.0, 0.25], [0.25, 2.0]]}, "0.25"),
        ({"kind": "table", "by": ["sex"], "cells": [["f"], ["m"]], "people": [1200, None]}, "1,200"),
        ({"kind": "histogram", "by": ["age"], "cells": [[0.0, 18.5]], "people": [7]}, "18.5"),
        ({"kind": "quantile", "column": "age", "share": 0.5, "quantile": 41.0}, "age, 0.5"),
        ({"kind": "linear-regression", "target": "y", "coefficients": {"intercept": 2.5}}, "linear-regression of y"),
        ({"kind": "count", "people": 4350}, "4,350"),
    ]
    for found, text in results:
        print_statistic(found)
        assert text in " ".join(capsys.readouterr().out.split())
