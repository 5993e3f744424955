"""`discretion assess ORIGINAL RELEASED`: the same figures as in Python, rows matched as told."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import discretion as dc
from tests.cli.conftest import Cli
from tests.release.survey import survey

MEASURES = ["--measure", "il1s:{columns: [income]}", "--measure", "interval-risk:{columns: income, sd_share: 0.2}"]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    survey().write_csv(tmp_path / "before.csv")
    noisy().write_csv(tmp_path / "after.csv")
    return tmp_path / "before.csv", tmp_path / "after.csv"


def noisy() -> pl.DataFrame:
    return dc.AdditiveNoise(columns=["income"], sd_share=0.2)(survey(), seed=1)


def test_measures_agree_with_python(files: tuple[Path, Path], cli: Cli) -> None:
    done = cli("assess", *files, *MEASURES, "--json")
    assert done.code == 0 and "aligned by position" in done.err
    content = done.json()
    assert content["aligned_by"] == "position"
    loss, risk = content["scores"]
    assert loss["value"] == pytest.approx(dc.Il1s(columns=["income"])(survey(), noisy()).value)
    expected = dc.IntervalRisk(columns=["income"], sd_share=0.2)(survey(), noisy()).value
    assert risk["value"] == pytest.approx(expected) and risk["better"] == "lower" and risk["family"] == "risk"


def test_roles_choose_the_measures(files: tuple[Path, Path], cli: Cli) -> None:
    done = cli("assess", *files, "--quasi", "age,sex", "--sensitive", "income", "--quiet")
    assert done.code == 0 and done.err == ""
    for kind in ("sample-uniqueness", "distance-linkage", "interval-risk", "il1s"):
        assert kind in done.out


def test_a_plan_that_reads_some_columns_reads_all_of_the_release(
    files: tuple[Path, Path], tmp_path: Path, cli: Cli
) -> None:
    pl.read_csv(files[1]).drop("person_id").write_csv(tmp_path / "released.csv")
    (tmp_path / "plan.yaml").write_text(
        "data: {path: before.csv, columns: [person_id, age, income]}\n"
        "roles: {person_id: identifier, age: quasi, income: sensitive}\n"
    )
    done = cli("assess", files[0], tmp_path / "released.csv", "--plan", tmp_path / "plan.yaml", "--json", *MEASURES)
    assert done.code == 0, done.err
    assert {"sex", "savings"} <= {column["name"] for column in done.json()["columns"]}


def test_without_roles_and_measures_there_is_nothing_to_do(tmp_path: Path, cli: Cli) -> None:
    for name in ("a", "b"):
        pl.DataFrame({"word": ["x", "y"]}).write_csv(tmp_path / f"{name}.csv")
    done = cli("assess", tmp_path / "a.csv", tmp_path / "b.csv")
    assert done.code == 2 and "--quasi" in done.err


def test_rows_are_matched_by_an_id_column(files: tuple[Path, Path], tmp_path: Path, cli: Cli) -> None:
    before, _ = files
    noisy().sample(fraction=1, shuffle=True, seed=1).write_csv(tmp_path / "shuffled.csv")
    by_id = cli("assess", before, tmp_path / "shuffled.csv", *MEASURES, "--id", "person_id", "--json").json()
    assert by_id["aligned_by"] == "column 'person_id'"
    assert by_id["scores"][0]["value"] == pytest.approx(dc.Il1s(columns=["income"])(survey(), noisy()).value)
    found = cli("assess", before, tmp_path / "shuffled.csv", *MEASURES, "--json").json()
    assert (found["aligned_by"], found["scores"][0]["value"]) == (by_id["aligned_by"], by_id["scores"][0]["value"])
    by_place = cli("assess", before, tmp_path / "shuffled.csv", *MEASURES, "--by-position", "--json").json()
    assert by_place["scores"][0]["value"] > 3 * by_id["scores"][0]["value"]


def test_rows_that_cannot_be_matched(files: tuple[Path, Path], tmp_path: Path, cli: Cli) -> None:
    before, _ = files
    noisy().head(100).write_csv(tmp_path / "fewer.csv")
    noisy().head(100).drop("person_id", "savings").write_csv(tmp_path / "nameless.csv")
    done = cli("assess", before, tmp_path / "nameless.csv", *MEASURES, "--json")
    assert done.code == 3 and "240 rows and the release 100" in done.err and done.json()["error"]["exit_code"] == 3
    done = cli("assess", before, tmp_path / "fewer.csv", *MEASURES, "--id", "region")
    assert done.code == 3 and "'region' has missing or repeated values" in done.err
    assert cli("assess", before, tmp_path / "fewer.csv", *MEASURES, "--id", "person_id").code == 0


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        ("il1z", "did you mean 'il1s'"),
        ("mdav", "'mdav' is a method; a risk or utility is needed here"),
        ("il1s:{columns: [", "expected KIND or KIND:{field: value}"),
        ("il1s:{colums: [income]}", "did you mean 'columns'"),
        ("il1s:7", "expected a mapping of fields"),
    ],
)
def test_wrong_measures(files: tuple[Path, Path], cli: Cli, measure: str, words: str) -> None:
    done = cli("assess", *files, "--measure", measure)
    assert done.code == 2 and words in done.err


def test_a_column_coded_anew_is_said_not_to_be_compared(files: tuple[Path, Path], tmp_path: Path, cli: Cli) -> None:
    before, _ = files
    coded = survey().with_columns(pl.format("area {}", pl.col("region")).alias("region"))
    coded.write_csv(tmp_path / "coded.csv")
    done = cli("assess", before, tmp_path / "coded.csv", "--quasi", "age,region", "--json").json()
    linkage = next(score for score in done["scores"] if score["measure"] == "distance-linkage")
    assert linkage["detail"]["columns"] == ["age"] and linkage["detail"]["left_out"] == ["region"]
    assert "Not compared: region" in linkage["meaning"] and "values of age for" in linkage["meaning"]
    assert any("distance-linkage did not compare region" in note for note in done["notes"])
    shown = cli("assess", before, tmp_path / "coded.csv", "--quasi", "age,region")
    assert "Note: distance-linkage did not compare region" in shown.out


def test_risks_come_first_with_their_baselines(files: tuple[Path, Path], cli: Cli) -> None:
    fields = ("--quasi", "age,sex", "--sensitive", "income", "--quiet")
    one, three = (cli("assess", *files, *fields, "--jobs", jobs, "--json") for jobs in ("1", "3"))
    assert one.out == three.out
    families = [score["family"] for score in one.json()["scores"]]
    assert families == sorted(families)
    shown = cli("assess", *files, *fields).out
    assert "guessing" in shown and "most exposed" in shown and "suda has no baseline" in shown
    assert cli("assess", *files, *fields, "--jobs", "0").code == 2


def test_that_no_attack_ran_is_said(files: tuple[Path, Path], cli: Cli) -> None:
    original, released = files
    done = cli("assess", original, released, "--json")
    assert done.code == 0 and not any(score["family"] == "risk" for score in done.json()["scores"])
    for text in (done.err, done.json()["no_attack"]):
        assert "no attack ran: no quasi-identifier or sensitive column is known; give --quasi" in text
    done = cli("assess", original, released, "--json", "--sensitive", "income")
    assert done.json()["no_attack"] is None and "no attack ran" not in done.err


def test_the_command_says_what_python_says(files: tuple[Path, Path], cli: Cli) -> None:
    original, released = files
    content = cli("assess", original, released, "--quasi", "age,sex,region", "--sensitive", "income", "--json").json()
    roles = {"age": "quasi", "sex": "quasi", "region": "quasi", "income": "sensitive"}
    found = dc.assess(dc.read(original, roles=roles), dc.read(released))
    assert content.pop("aligned_by") == "position"
    assert {name: content[name] for name in found.to_dict()} == json.loads(json.dumps(found.to_dict()))


def test_the_command_speaks_of_its_options(files: tuple[Path, Path], tmp_path: Path, cli: Cli) -> None:
    quasi = [f"q{i}" for i in range(9)]
    frame = survey().with_columns(*(pl.col("age").alias(name) for name in quasi))
    frame.write_csv(tmp_path / "wide.csv")
    wide = tmp_path / "wide.csv"
    notes = cli("assess", wide, wide, "--quasi", ",".join(quasi), "--json").json()["notes"]
    assert any("ask for it by --measure" in note for note in notes)
    assert "`measures`" not in " ".join(notes)
