"""Earlier releases: coarser copies made from them, and what averaging with them tells."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError, PlanError
from discretion.release.journal import SeedFile

PLAN = """\
title: Finer
data: people.csv
roles: {id: identifier, x: sensitive, y: quasi}
steps:
  - additive-noise: {columns: x, sd_share: 0.25}
measures:
  - il1s: {columns: [x]}
requirements: none
"""
COARSER = """\
from: fine-j
steps:
  - additive-noise: {columns: x, sd_share: 0.5}
measures:
  - il1s: {columns: [x]}
requirements: none
"""
N = 3000


def put(folder: Path, name: str, plan: str) -> dc.Plan:
    (folder / f"{name}.yaml").write_text(plan)
    return dc.Plan.load(folder / f"{name}.yaml")


def people() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    return pl.DataFrame({"id": rng.permutation(N), "x": rng.normal(100, 20, N), "y": rng.integers(0, 9, N)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with a published release in `fine` and its journal in `fine-j`."""
    people().write_csv(tmp_path / "people.csv")
    put(tmp_path, "fine", PLAN).run(seed=2**100 + 1, out=tmp_path / "fine", journal=tmp_path / "fine-j")
    return tmp_path


def yaml_of(plan: dc.Plan) -> str:
    plan.save(plan.base / "saved.yaml")
    return (plan.base / "saved.yaml").read_text()


def by_row(release: dc.Release) -> np.ndarray:
    values = np.empty(len(release.data))
    values[release.data.row_ids] = release.data.number("x")
    return values


def left_of(x: np.ndarray, *known: np.ndarray) -> float:
    """Give the standard deviation that the best linear guess of x from some columns leaves."""
    design = np.column_stack([np.ones(len(x)), *known])
    return float(np.std(x - design @ np.linalg.lstsq(design, x, rcond=None)[0]))


def test_holding_the_coarser_copy_beside_the_finer_tells_no_more(folder: Path) -> None:
    fine = by_row(put(folder, "fine", PLAN).run(seed=2**100 + 1))
    coarse = put(folder, "coarse", COARSER).run(seed=2**100 + 2, out=folder / "coarse", journal=folder / "coarse-j")
    rough, x = by_row(coarse), people()["x"].to_numpy()
    assert np.std(rough - x) > 1.9 * np.std(fine - x)
    assert left_of(x, fine, rough) == pytest.approx(left_of(x, fine), rel=0.002)
    independent = by_row(put(folder, "other", PLAN.replace("0.25", "0.5")).run(seed=2**100 + 3))
    assert left_of(x, fine, independent) < 0.93 * left_of(x, fine)  # what a second copy would give
    moved = coarse.measured[0].after.detail["mean"]  # measured against the original, not against the finer copy
    assert moved == pytest.approx(np.mean(np.abs(rough - x)) / (np.sqrt(2) * np.std(x, ddof=1)))


def test_the_reports_and_the_journal_tell_of_it(folder: Path) -> None:
    release = put(folder, "coarse", COARSER).run(seed=3, out=folder / "coarse", journal=folder / "coarse-j")
    facts = json.loads((folder / "coarse" / "report.json").read_text())
    assert [step["kind"] for step in facts["steps"]] == ["additive-noise", "additive-noise"]
    assert any("made from an earlier release" in note for note in facts["notes"])
    assert {column["name"]: column["published"] for column in facts["columns"]} == {"id": False, "x": True, "y": True}
    assert "0.25" not in (folder / "coarse" / "report.json").read_text()
    journal = json.loads((folder / "coarse-j" / "journal.json").read_text())
    assert [step["id"] for step in journal["steps"]] == ["earlier/1-additive-noise", "1-additive-noise"]
    assert journal["input"]["sha256"] == json.loads((folder / "fine-j" / "journal.json").read_text())["input"]["sha256"]
    assert list(release.study.decisions) == ["1-additive-noise"]
    assert [step.kind for step in release.data.steps] == ["additive-noise", "additive-noise"]
    again = dc.Plan.load(folder / "coarse-j" / "plan.yaml").run(seed=3, out=folder / "b", journal=folder / "bj")
    assert (folder / "b" / "data.csv").read_bytes() == (folder / "coarse" / "data.csv").read_bytes()
    assert len(again.study.done) == 2


def test_the_seed_file_of_the_finer_release_may_be_used_again(folder: Path) -> None:
    SeedFile.new(folder / "seed")
    put(folder, "a", PLAN + "seed_file: seed\n").run(out=folder / "a", journal=folder / "a-j")
    kept = (folder / "seed").read_bytes()
    coarse = COARSER.replace("fine-j", "a-j") + "seed_file: seed\n"
    put(folder, "b", coarse).run(out=folder / "b", journal=folder / "b-j")
    assert (folder / "seed").read_bytes() == kept
    with pytest.raises(PlanError, match="can be averaged"):
        put(folder, "c", PLAN.replace("0.25", "0.5") + "seed_file: seed\n").run()


def test_a_copy_of_a_copy(folder: Path) -> None:
    put(folder, "coarse", COARSER).run(seed=3, out=folder / "coarse", journal=folder / "coarse-j")
    third = put(folder, "third", COARSER.replace("fine-j", "coarse-j").replace("0.5", "1.0")).run(seed=4)
    assert [item.step.id for item in third.study.done] == [
        "earlier/1-additive-noise",
        "earlier/1-additive-noise",
        "1-additive-noise",
    ]
    fine, rough = by_row(put(folder, "coarse", COARSER).run(seed=3)), by_row(third)
    x = people()["x"].to_numpy()
    assert left_of(x, fine, rough) == pytest.approx(left_of(x, fine), rel=0.002)


def test_the_same_in_python(folder: Path) -> None:
    study = dc.Study.from_release(folder / "fine-j", seed=2**100 + 9).apply(dc.Round(columns=["x"], base=10))
    assert len(study.current) == N and study.original.columns == ("id", "x", "y")
    release = study.release(folder / "rounded", folder / "rounded-j", no_requirements=True)
    fine = pl.read_csv(folder / "fine" / "data.csv")["x"].to_numpy()
    assert np.array_equal(np.sort(np.round(fine / 10) * 10), np.sort(release.data.number("x")))
    assert release.plan.made_from == {"journal": str(folder / "fine-j")}


def test_an_order_in_the_journal_is_followed(folder: Path) -> None:
    """Rows that were published in another order are found by the journal."""
    file, journal = folder / "fine" / "data.csv", folder / "fine-j" / "journal.json"
    content = json.loads(journal.read_text())
    if "order" not in content:
        order = np.random.default_rng(4).permutation(N)
        pl.read_csv(file)[order].write_csv(file)
        np.save(folder / "fine-j" / "order.npy", order)
        from discretion.release.journal import sha256_of

        content["order"], content["output"]["sha256"] = "order.npy", sha256_of(file)
        journal.write_text(json.dumps(content))
    coarse = put(folder, "coarse", COARSER).run(seed=3)
    x = people()["x"].to_numpy()
    assert np.std(by_row(coarse) - x) < 0.7 * np.std(x)
    assert coarse.measured[0].after.detail["mean"] < 0.5


def test_what_changed_or_is_gone_is_refused(folder: Path) -> None:
    data = folder / "fine" / "data.csv"
    kept = data.read_bytes()
    data.write_bytes(kept[:-3])
    with pytest.raises(DataError, match="is not what was released"):
        put(folder, "coarse", COARSER).run(seed=3)
    (folder / "fine").rename(folder / "moved")
    with pytest.raises(DataError, match="is not there; say where under `folder`"):
        put(folder, "coarse", COARSER).run(seed=3)
    (folder / "moved" / "data.csv").write_bytes(kept)
    put(folder, "coarse", COARSER.replace("fine-j", "{journal: fine-j, folder: moved}")).run(seed=3)
    people()[::-1].write_csv(folder / "people.csv")
    with pytest.raises(DataError, match="not what the release of"):
        put(folder, "coarse", COARSER.replace("fine-j", "{journal: fine-j, folder: moved}")).run(seed=3)
    with pytest.raises(PlanError, match="is no private journal"):
        put(folder, "coarse", COARSER.replace("fine-j", "nowhere")).run(seed=3)


@pytest.mark.parametrize("entry", ["from: 3", "from: {folder: a}", "previous: [[1]]", "previous: [{journal: a, x: b}]"])
def test_faults_name_their_line(tmp_path: Path, entry: str) -> None:
    with pytest.raises(PlanError, match=r"line 1 \((from|previous)"):
        put(tmp_path, "plan", f"{entry}\nroles: {{x: sensitive}}\n")


# --- averaging ---------------------------------------------------------------------------------------------------


def test_the_averaging_error_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release = put(folder, "second", PLAN + "previous: [fine-j]\n").run(
        seed=2**100 + 7, out=folder / "second", journal=folder / "second-j"
    )
    (found,) = release.averaging
    assert (found.column, found.records) == ("x", N)
    assert found.alone == pytest.approx(0.25, rel=0.05) and found.averaged == pytest.approx(0.25 / np.sqrt(2), rel=0.05)
    journal = json.loads((folder / "second-j" / "journal.json").read_text())
    assert journal["averaging"][0]["averaged"] == found.averaged
    assert "this release alone by 0.2" in (folder / "second-j" / "report.html").read_text()
    for page in ("report.html", "report.json"):
        public = (folder / "second" / page).read_text()
        assert "An earlier release of the same people exists" in public and "release alone by" not in public
    from discretion.cli.run import report

    report(release, False, {})
    assert "the best mean of this and 1 earlier release misses the original by 0.17" in capsys.readouterr().err


def test_another_delivery_is_matched_by_the_people(folder: Path) -> None:
    later = people().sample(fraction=0.8, shuffle=True, seed=5)
    later.write_csv(folder / "later.csv")
    plan = PLAN.replace("people.csv", "later.csv") + "previous: [{journal: fine-j}]\n"
    (found,) = put(folder, "later", plan).run(seed=8).averaging
    assert found.records == 2400 and found.averaged == pytest.approx(0.25 / np.sqrt(2), rel=0.06)
    several = plan.replace("y: quasi", "y: identifier")
    with pytest.raises(PlanError, match=r"several columns have the role identifier.*person: COLUMN"):
        put(folder, "later", several).run(seed=8).averaging  # noqa: B018
    named = put(folder, "later", several.replace("fine-j}", "fine-j, person: id}"))
    assert named.run(seed=8).averaging[0].records == 2400 and "person: id" in yaml_of(named)
    unknown = plan.replace("id: identifier", "id: other")
    with pytest.raises(PlanError, match="made of another delivery, and its people cannot be found"):
        put(folder, "later", unknown).run(seed=8).averaging  # noqa: B018


def test_a_coarser_copy_generalizes_further_and_assess_knows_of_earlier_releases(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from discretion.cli.app import run

    frame = people().with_columns(y=np.random.default_rng(2).integers(0, 80, N))
    frame.write_csv(tmp_path / "people.csv")
    rule = "hierarchies: {y: {intervals: {cuts: [[0, 10, 20, 30, 40, 50, 60, 70, inf], [0, 40, inf]]}}}"
    fine = PLAN.replace("steps:", f"{rule}\nsteps:\n  - generalize: {{levels: {{y: 1}}}}")
    put(tmp_path, "fine", fine).run(seed=2**100 + 1, out=tmp_path / "fine", journal=tmp_path / "fine-j")
    further = "from: fine-j\nsteps:\n  - generalize: {levels: {y: 2}}\nrequirements: none\n"
    made = put(tmp_path, "coarse", further).run(seed=2**100 + 1, out=tmp_path / "coarse", journal=tmp_path / "c-j")
    truth = frame["y"].to_numpy()[made.data.row_ids]
    assert (np.array([label.startswith(("[0", "< 40")) for label in made.data.frame["y"]]) == (truth < 40)).all()
    again = fine + "previous: [{journal: fine-j}]\n"
    put(tmp_path, "again", again).run(seed=2**100 + 2, out=tmp_path / "again", journal=tmp_path / "again-j")
    for name in ("fine", "again"):
        given = [tmp_path / "people.csv", tmp_path / name / "data.csv", "--journal", tmp_path / f"{name}-j"]
        asked = ["--measure", "sample-uniqueness", "--json", "--quiet", "--plan", tmp_path / "fine.yaml"]
        capsys.readouterr()
        assert run(["assess", *map(str, given), *map(str, asked)]) == 0
        cards = {card["attacker"]: card for card in json.loads(capsys.readouterr().out)["attackers"]}
        why = cards["reader of an earlier release"]["not_tried"]["the comparison of releases"]
        assert ("no earlier release was named" in why) == (name == "fine")
