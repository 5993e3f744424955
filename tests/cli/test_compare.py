"""`discretion compare A B`: release folders and data files."""

from __future__ import annotations

from pathlib import Path

import pytest

import discretion as dc
from tests.cli.conftest import Cli
from tests.release.survey import PLAN, put_survey, survey, without

MEASURES = [
    "--measure",
    "rank-interval:{columns: [income], percent: 5}",
    "--measure",
    "variable-change:{columns: income}",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    plan = without(PLAN, "output", "- distance-linkage")
    for name, percent in (("light", 3), ("heavy", 40)):
        path = put_survey(tmp_path, plan.replace("percent: 10", f"percent: {percent}"))
        dc.Plan.load(path).run(seed=1, out=tmp_path / name)
    return tmp_path


def test_release_folders_need_nothing_else(folder: Path, cli: Cli) -> None:
    done = cli("compare", folder / "light", folder / "heavy", *MEASURES, "--json")
    content = done.json()
    assert done.code == 0 and content["releases"] == ["light", "heavy"]
    values = content["measures"][0]["values"]
    assert values["heavy"] < values["light"] and content["measures"][0]["winner"] == "heavy"
    assert content["better"] is None and content["verdict"].startswith("Neither dominates: heavy is safer")


def test_all_measures_and_the_page(folder: Path, cli: Cli) -> None:
    done = cli("compare", folder / "light", folder / "heavy", "--page", folder / "page.html", "--quiet")
    assert done.code == 0 and done.err == "" and "best attack's gain" in done.out and "propensity" in done.out
    assert "Releases side by side" in (folder / "page.html").read_text()
    assert cli("compare", folder / "light", folder / "heavy", *MEASURES, "--page", folder / "page.html").code == 3


def test_data_files_take_the_original_and_roles(folder: Path, cli: Cli) -> None:
    files = [folder / "a.csv", folder / "b.csv"]
    for file, percent in zip(files, (3, 40), strict=True):
        dc.RankSwap(columns=["income"], percent=percent)(survey(), seed=1).sample(
            fraction=1, shuffle=True, seed=1).write_csv(file)  # fmt: skip
    call = ["compare", *files, "--original", folder / "survey.csv", "--id", "person_id", *MEASURES, "--json"]
    content = cli(*call).json()
    expected = dc.RankSwap(columns=["income"], percent=40)(survey(), seed=1)
    value = dc.RankInterval(columns=["income"], percent=5)(survey(), expected).value
    assert content["measures"][0]["values"]["b.csv"] == pytest.approx(value)


def test_what_is_missing_is_said(folder: Path, cli: Cli) -> None:
    assert "two releases" in cli("compare", folder / "light").err
    done = cli("compare", folder / "light" / "data.csv", folder / "heavy" / "data.csv")
    assert done.code == 2 and "--original" in done.err
    assert cli("compare", folder / "light", folder / "light").code == 2
    assert cli("compare", folder / "light", folder, *MEASURES).code == 3
    done = cli("compare", folder / "light", folder / "heavy", "--measure", "average-divergence")
    assert done.code == 2 and "says nothing about loss" in done.err


def test_releases_of_different_originals_are_refused(folder: Path, cli: Cli) -> None:
    other = folder / "other"
    other.mkdir()
    path = put_survey(other, without(PLAN, "output", "- distance-linkage"))
    survey(seed=2).write_csv(other / "survey.csv")  # as many records with the same columns: other people
    dc.Plan.load(path).run(seed=1, out=other / "light")
    done = cli("compare", folder / "heavy", other / "light", *MEASURES)
    assert done.code == 3 and "were made of different originals" in " ".join(done.err.split())
    survey(rows=200).write_csv(other / "few.csv")
    done = cli("compare", folder / "light", folder / "heavy", "--original", other / "few.csv", *MEASURES)
    assert done.code == 3 and "was not made of this original" in " ".join(done.err.split())
    survey().select(town="region").write_csv(other / "towns.csv")
    done = cli("compare", folder / "light", other / "towns.csv", *MEASURES)
    assert done.code == 3 and "has no column of the original" in " ".join(done.err.split())


def test_the_same_original_in_another_file_may_be_named(folder: Path, cli: Cli) -> None:
    survey().write_parquet(folder / "again.parquet")
    done = cli("compare", folder / "light", folder / "heavy", "--original", folder / "again.parquet", *MEASURES)
    assert done.code == 0, done.err
