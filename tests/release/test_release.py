"""A release folder: what is in it, who may read it, and that the same plan and seed give the same bytes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError, PlanError, RequirementNotMet
from tests.release.survey import PLAN, ROLES, files_of, put_survey, survey, without

CODEBOOK = ["codebook.html", "codebook.md", "codebook.xml"]
SEED = 271_828_182_845_904_523_536


def published(folder: Path, plan: str = PLAN, **options: object) -> dc.Release:
    return dc.Plan.load(put_survey(folder, plan)).run(seed=SEED, **options)  # type: ignore[arg-type]


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_public_folder_and_private_journal(tmp_path: Path) -> None:
    release = published(tmp_path)
    public, private = tmp_path / "out", tmp_path / "secret"
    assert sorted(files_of(public)) == [*CODEBOOK, "data.csv", "report.html", "report.json"]
    names = ["decisions.json", "journal.json", "order.npy", "plan.yaml", "report.html", "seed"]
    assert sorted(files_of(private)) == names
    assert sorted(f.name for f in tmp_path.iterdir()) == ["out", "plan.yaml", "region.csv", "secret", "survey.csv"]
    data = pl.read_csv(public / "data.csv")
    assert data.columns == ["age", "sex", "region", "income", "savings"] and len(data) == 240
    assert data["income"].to_list() == release.data.frame["income"].to_list()
    report = json.loads((public / "report.json").read_text())
    assert report["data"] == {
        "file": "data.csv",
        "sha256": sha256(public / "data.csv"),
    }
    assert report["title"] == "A small survey" and report["records"] == 240
    assert [step["kind"] for step in report["steps"]] == ["generalize", "rank-swap", "additive-noise"]
    assert [found["holds"] for found in report["requirements"]] == [True, True]
    assert {c["name"]: c["published"] for c in report["columns"]}["person_id"] is False


def test_what_is_let_go_of_between_measures_changes_no_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for name in ("kept", "let-go"):
        (tmp_path / name).mkdir()
        published(tmp_path / name, without(PLAN, "measures", "- sample-uniqueness", "- il1s"))
        made.append(files_of(tmp_path / name / "out"))
        monkeypatch.setattr("discretion.data.dataset._LARGE", 0)
    assert made[0] == made[1]


def test_only_the_owner_reads_the_journal(tmp_path: Path) -> None:
    published(tmp_path)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o700
    assert {f.stat().st_mode & 0o777 for f in (tmp_path / "secret").iterdir()} == {0o600}
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o755
    assert all(f.stat().st_mode & 0o444 == 0o444 for f in (tmp_path / "out").iterdir())


def test_the_journal_is_enough_to_audit_and_to_repeat(tmp_path: Path) -> None:
    published(tmp_path)
    private = tmp_path / "secret"
    journal = json.loads((private / "journal.json").read_text())
    assert int(journal["seed"], 16) == SEED == int((private / "seed").read_text().split()[0], 16)
    assert journal["input"]["sha256"] == sha256(tmp_path / "survey.csv")
    assert journal["output"]["sha256"] == sha256(tmp_path / "out" / "data.csv")
    assert journal["steps"][1]["rank-swap"]["percent"] == 10
    assert journal["requirements"][1]["required"]["distance-linkage"]["at_most"] == 1.0
    assert {"discretion", "python", "numpy", "polars"} <= set(journal["versions"])
    again = dc.Plan.load(private / "plan.yaml")
    again.run(seed=int(journal["seed"], 16), out=tmp_path / "again", journal=tmp_path / "again-secret")
    assert files_of(tmp_path / "again") == files_of(tmp_path / "out")


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "xlsx", "dta", "sav", "xpt", "jsonl"])
def test_same_plan_and_seed_give_the_same_bytes(tmp_path: Path, kind: str) -> None:
    plan = PLAN.replace("output: {", f"output: {{format: {kind}, ")
    published(tmp_path / "one", plan)
    published(tmp_path / "two", plan)
    public = files_of(tmp_path / "one" / "out")
    assert public == files_of(tmp_path / "two" / "out") and f"data.{kind}" in public


def test_another_seed_gives_other_data(tmp_path: Path) -> None:
    one = dc.Plan.load(put_survey(tmp_path / "one"))
    assert one.run(seed=1, out=tmp_path / "a").data.frame["income"].to_list() != (
        one.run(seed=2, out=tmp_path / "b", journal=tmp_path / "c").data.frame["income"].to_list()
    )


def test_the_seed_file_is_used_and_a_seed_is_drawn_without_one(tmp_path: Path) -> None:
    path = put_survey(tmp_path, PLAN + "seed_file: my-seed\n")
    (tmp_path / "my-seed").write_text(f"{2**127 + 0xABC:#x}\n")
    assert dc.Plan.load(path).run().study.seed == 2**127 + 0xABC
    drawn = {dc.Plan.load(put_survey(tmp_path / name)).run().study.seed for name in ("a", "b")}
    assert len(drawn) == 2 and min(drawn) > 2**64
    for wrong in ("", "seven", "-3", "1 2"):
        (tmp_path / "my-seed").write_text(wrong)
        with pytest.raises(PlanError, match="must hold one whole number"):
            dc.Plan.load(path).run(overwrite=True)


class Fresh(dc.Round):
    """A method without a seed, as differential privacy is."""

    seeded: ClassVar[bool] = False


def test_the_journal_marks_steps_that_cannot_be_repeated(tmp_path: Path) -> None:
    study = dc.Study(dc.Dataset(survey(), roles=ROLES), seed=SEED)
    rounded = study.apply(Fresh(columns=["income"], base=5)).apply(dc.Round(columns=["savings"], base=5))
    rounded.release(tmp_path / "o", no_requirements=True)
    steps = json.loads((tmp_path / "o-private" / "journal.json").read_text())["steps"]
    assert ["fresh_noise" in step for step in steps] == [True, False]


def test_identifiers_are_never_published(tmp_path: Path) -> None:
    assert "drop-identifiers" not in PLAN
    release = published(tmp_path)
    assert "person_id" not in release.data.columns
    assert "person_id" not in release.to_native().columns
    for name, content in files_of(tmp_path / "out").items():
        assert b"P-000" not in content, name


def test_the_input_is_hashed_not_the_file_that_was_not_read(tmp_path: Path) -> None:
    path = put_survey(tmp_path)
    other = survey(seed=9)
    other.write_csv(tmp_path / "other.csv")
    journals = []
    for number, data in enumerate((str(tmp_path / "other.csv"), other)):
        dc.Plan.load(path).run(data, seed=1, out=tmp_path / f"o{number}", journal=tmp_path / f"j{number}")
        journals.append(json.loads((tmp_path / f"j{number}" / "journal.json").read_text())["input"])
    assert journals[0]["sha256"] == sha256(tmp_path / "other.csv")
    assert "sha256" not in journals[1] and len(journals[1]["rows_sha256"]) == 64


# --- refusals ----------------------------------------------------------------------------------------------------


def test_an_unmet_requirement_publishes_nothing_and_says_by_how_much(tmp_path: Path) -> None:
    plan = PLAN.replace("k: 3", "k: 500").replace("at_most: 1.0", "at_most: 0.00001")
    with pytest.raises(RequirementNotMet) as caught:
        published(tmp_path, plan)
    message = str(caught.value)
    value = dc.Plan.load(put_survey(tmp_path / "x", without(plan, "requirements", "- k-", "- dist", "output"))).run(
        seed=SEED
    )
    (verdict,) = value.study.check(dc.KAnonymity(k=500))
    reached = int(verdict.value)
    assert f"k-anonymity: reached {reached}, required 500 (short by {500 - reached};" in message
    assert "distance-linkage: reached 0." in message and "required at most 1e-05 (missed by 0." in message
    assert not (tmp_path / "out").exists() and not (tmp_path / "secret").exists()


def test_existing_folders_stay_unless_they_may_be_overwritten(tmp_path: Path) -> None:
    published(tmp_path)
    before = files_of(tmp_path)
    with pytest.raises(DataError, match="out' exists"):
        published(tmp_path)
    assert files_of(tmp_path) == before
    plan = dc.Plan.load(tmp_path / "plan.yaml").with_output(format="parquet")
    plan.run(seed=1, overwrite=True)
    assert sorted(files_of(tmp_path / "out")) == [*CODEBOOK, "data.parquet", "report.html", "report.json"]
    assert not [f for f in tmp_path.iterdir() if f.name.startswith(".")]


@pytest.mark.parametrize("place", [".", "..", "work"])
def test_overwriting_never_deletes_what_is_no_release(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "home" / "work"
    path = put_survey(folder)
    (folder / "thesis.txt").write_text("three years of work")
    before = files_of(tmp_path)
    monkeypatch.chdir(folder if place.startswith(".") else tmp_path / "home")
    with pytest.raises(DataError, match="holds more than an earlier release"):
        dc.Plan.load(path).run(seed=1, out=place, journal=tmp_path / "j", overwrite=True)
    with pytest.raises(DataError, match="holds more than an earlier release"):
        dc.Plan.load(path).run(seed=1, out=tmp_path / "o", journal=place, overwrite=True)
    assert files_of(tmp_path) == before


def test_a_file_in_the_way(tmp_path: Path) -> None:
    path = put_survey(tmp_path)
    (tmp_path / "out").write_text("a file")
    with pytest.raises(DataError, match="out' is a file; a release is a folder"):
        dc.Plan.load(path).run(seed=1, overwrite=True)
    assert (tmp_path / "out").read_text() == "a file"


@pytest.mark.parametrize(
    ("out", "journal"), [("out", "out"), ("out", "out/secret"), ("a/../out", "out/x/y"), ("secret/out", "secret")]
)
def test_the_journal_and_the_public_folder_do_not_lie_in_each_other(tmp_path: Path, out: str, journal: str) -> None:
    path = put_survey(tmp_path)
    with pytest.raises(PlanError, match="cannot lie in each other"):
        dc.Plan.load(path).run(seed=1, out=tmp_path / out, journal=tmp_path / journal)
    assert not (tmp_path / "out").exists() and not (tmp_path / "secret").exists()


def test_the_seed_file_does_not_lie_where_the_release_goes(tmp_path: Path) -> None:
    path = put_survey(tmp_path, PLAN + "seed_file: keep/seed\n")
    with pytest.raises(PlanError, match="seed is a secret"):
        dc.Plan.load(path).run(seed=1, out=tmp_path / "keep")


def test_parent_folders_are_made(tmp_path: Path) -> None:
    path = put_survey(tmp_path)
    dc.Plan.load(path).run(seed=1, out=tmp_path / "a" / "b" / "out", journal=tmp_path / "c" / "d")
    assert (tmp_path / "a" / "b" / "out" / "data.csv").is_file() and (tmp_path / "c" / "d" / "seed").is_file()
