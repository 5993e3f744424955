"""`discretion check`: a verdict for a pipeline, nothing published."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import discretion as dc
from discretion.release.journal import read_order
from tests.cli.conftest import Cli
from tests.release.survey import PLAN, files_of, put_survey, survey


def test_check_tells_and_writes_nothing(tmp_path: Path, cli: Cli) -> None:
    path = put_survey(tmp_path)
    before = files_of(tmp_path)
    done = cli("check", path)
    assert done.code == 0 and "all requirements hold" in done.err and "k-anonymity" in done.out
    assert files_of(tmp_path) == before


def test_unmet_requirements_exit_4_with_one_json_document(tmp_path: Path, cli: Cli) -> None:
    path = put_survey(tmp_path, PLAN.replace("at_most: 1.0", "at_most: 0.000001"))
    done = cli("check", path, "--json")
    assert done.code == 4
    found = {item["kind"]: item["holds"] for item in done.json()["requirements"]}
    assert found == {"k-anonymity": True, "distance-linkage": False}
    assert "distance-linkage: reached" in done.err and "missed by" in done.err
    assert cli("check", path, "--quiet").err.count("error: ") == 1


def test_a_plan_without_requirements(tmp_path: Path, cli: Cli) -> None:
    plan = PLAN[: PLAN.index("requirements:")]
    done = cli("check", put_survey(tmp_path, plan))
    assert done.code == 2 and "`requirements: none`" in done.err
    done = cli("check", put_survey(tmp_path, plan + "requirements: none\n"))
    assert done.code == 0 and "nothing is required: the plan says so" in done.err


# --- a finished file -------------------------------------------------------------------------------------------------


def released(tmp_path: Path, cli: Cli) -> Path:
    assert cli("run", put_survey(tmp_path)).code == 0
    return tmp_path / "out" / "data.csv"


def test_a_finished_file_is_judged_as_it_is(tmp_path: Path, cli: Cli) -> None:
    file = released(tmp_path, cli)
    journal = ["--journal", tmp_path / "secret"]
    done = cli("check", tmp_path / "plan.yaml", "--released", file, *journal, "--json")
    assert done.code == 0, done.err
    scores = {item["measure"]: item["after"] for item in done.json()["scores"]}
    release = pl.read_csv(file)
    original = survey()[read_order(tmp_path / "secret")]
    by_place = dc.Il1s(columns=["income", "savings"])(original, release, align="position")
    assert scores["il1s"] == pytest.approx(by_place.value)
    verdict = dc.KAnonymity(k=1, columns=["age", "sex", "region"])(release)
    assert done.json()["requirements"][0]["value"] == verdict.value


def test_the_raw_file_is_not_good_enough(tmp_path: Path, cli: Cli) -> None:
    path = put_survey(tmp_path)
    survey().drop("person_id").write_csv(tmp_path / "raw.csv")
    done = cli("check", path, "--released", tmp_path / "raw.csv")
    assert done.code == 4 and "k-anonymity: reached 1, required 3" in done.err


def test_a_finished_file_with_identifiers_fails(tmp_path: Path, cli: Cli) -> None:
    file = released(tmp_path, cli)
    named = pl.read_csv(file).with_columns(person_id=survey()["person_id"][read_order(tmp_path / "secret")])
    named.write_csv(tmp_path / "named.csv")
    done = cli("check", tmp_path / "plan.yaml", "--released", tmp_path / "named.csv", "--json")
    assert done.code == 4 and "holds identifiers: person_id" in done.err and done.json()["error"]["exit_code"] == 4


def test_rows_are_matched_by_an_id_column(tmp_path: Path, cli: Cli) -> None:
    file = released(tmp_path, cli)
    named = pl.read_csv(file).with_columns(person_id=survey()["person_id"][read_order(tmp_path / "secret")])
    named.write_csv(tmp_path / "named.csv")
    named.sample(fraction=0.9, shuffle=True, seed=1).write_csv(tmp_path / "shuffled.csv")
    whole, part = (
        cli("check", tmp_path / "plan.yaml", "--released", tmp_path / name, "--id", "person_id", "--json").json()
        for name in ("named.csv", "shuffled.csv")
    )
    full, less = ({s["measure"]: s["after"] for s in content["scores"]}["il1s"] for content in (whole, part))
    assert 0.7 * full < less < full  # wrongly matched rows would lose far more
    done = cli("check", tmp_path / "plan.yaml", "--released", tmp_path / "shuffled.csv")
    assert done.code in (3, 4) and "person_id" in done.err


def test_proposed_roles_are_refused_here_too(tmp_path: Path, cli: Cli) -> None:
    file = released(tmp_path, cli)
    (tmp_path / "plan.yaml").write_text(PLAN + "confirmed: false\n")
    done = cli("check", tmp_path / "plan.yaml", "--released", file)
    assert done.code == 2 and "confirmed: true" in done.err
