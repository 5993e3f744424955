"""Seed files: how long a seed must be, and what it may be used for again."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError, PlanError
from discretion.release.journal import OTHER_STEPS, SeedFile
from tests.release.survey import PLAN, put_survey, survey, without

SEEDED = PLAN + "seed_file: keep.seed\n"
LONG = 2**127 + 12345


def run(
    folder: Path, plan: str = SEEDED, name: str = "again", data: str | None = None, **options: object
) -> dc.Release:
    path = folder / f"{name}.yaml"
    path.write_text(plan)
    return dc.Plan.load(path).run(data, out=folder / name, journal=folder / f"{name}-j", **options)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder in which a release was published from a seed file."""
    put_survey(tmp_path, SEEDED)
    SeedFile.new(tmp_path / "keep.seed")
    run(tmp_path, name="first")
    return tmp_path


def test_a_new_seed_file_is_long_secret_and_never_overwritten(tmp_path: Path) -> None:
    made = SeedFile.new(tmp_path / "seed")
    assert made.long and made.seed >= 2**96 and (tmp_path / "seed").stat().st_mode & 0o777 == 0o600
    text = (tmp_path / "seed").read_text()
    assert len(text.strip()) >= 34 and text.startswith("0x") and int(text, 16) == made.seed
    with pytest.raises(DataError, match="exists"):
        SeedFile.new(tmp_path / "seed")
    assert SeedFile.new(tmp_path / "other").seed != made.seed


@pytest.mark.parametrize("text", ["12345", "0xabc", str(2**96 - 1), hex(2**127)[:-2], "0x" + "0" * 31 + "7"])
def test_a_small_seed_is_refused_unless_it_is_a_demonstration(tmp_path: Path, text: str) -> None:
    path = put_survey(tmp_path, SEEDED)
    (tmp_path / "keep.seed").write_text(text)
    with pytest.raises(PlanError, match=r"small seed: anybody who knows one original value .* `demo: true`"):
        dc.Plan.load(path).run()
    assert not (tmp_path / "out").exists()
    path.write_text(SEEDED + "demo: true\n")
    release = dc.Plan.load(path).run()
    assert release.study.seed == int(text, 0)


@pytest.mark.parametrize("text", [str(2**96), "0x" + "f" * 32])
def test_a_long_seed_is_taken(tmp_path: Path, text: str) -> None:
    path = put_survey(tmp_path, SEEDED)
    (tmp_path / "keep.seed").write_text(text)
    assert dc.Plan.load(path).run().study.seed == int(text, 0)


def test_the_reports_tell_of_a_small_seed(tmp_path: Path) -> None:
    for seed, told in ((7, True), (LONG, False)):
        folder = tmp_path / str(seed)
        dc.Plan.load(put_survey(folder)).run(seed=seed)
        pages = [folder / "out" / "report.html", folder / "out" / "report.json", folder / "secret" / "report.html"]
        assert {"come from a small seed" in page.read_text() for page in pages} == {told}
    plain = PLAN.replace("  - rank-swap: {columns: [income], percent: 10}\n", "").replace("additive-noise", "round")
    plain = without(plain.replace("sd_share: 0.1", "base: 100"), "- distance-linkage")
    release = dc.Plan.load(put_survey(tmp_path / "plain", plain)).run(seed=7)
    assert release.study.drawn == {} and release.notes == ()


def test_the_journal_keeps_a_seed_that_can_be_used_to_repeat(folder: Path) -> None:
    again = (folder / "first-j" / "seed").read_text()
    assert again.splitlines()[0] == (folder / "keep.seed").read_text().splitlines()[0]
    release = run(folder, PLAN + "seed_file: first-j/seed\n", "repeated")
    assert (folder / "repeated" / "data.csv").read_bytes() == (folder / "first" / "data.csv").read_bytes()
    assert set(release.study.drawn) == {"2-rank-swap", "3-additive-noise", OTHER_STEPS}
    with pytest.raises(PlanError, match="was used for a release"):
        run(folder, PLAN.replace("sd_share: 0.1", "sd_share: 0.2") + "seed_file: first-j/seed\n", "stronger")


def test_a_use_is_remembered_hashed_and_once(folder: Path) -> None:
    lines = (folder / "keep.seed").read_text().splitlines()
    assert len(lines) == 2 and lines[1].startswith("used ")
    kept = json.loads(lines[1].removeprefix("used "))
    drawn = run(folder).study.drawn
    assert set(kept) == set(drawn) == {"2-rank-swap", "3-additive-noise", OTHER_STEPS}
    assert not any(key.hex() in lines[1] or key.hex()[:32] in lines[1] for key in drawn.values())
    assert (folder / "keep.seed").read_text().splitlines() == lines
    assert (folder / "keep.seed").stat().st_mode & 0o777 == 0o600


def test_other_measures_requirements_and_words_are_free(folder: Path) -> None:
    plan = SEEDED.replace("  - sample-uniqueness\n", "").replace("k: 3", "k: 2").replace("small survey", "tiny survey")
    run(folder, plan)
    assert (folder / "again" / "data.csv").read_bytes() == (folder / "first" / "data.csv").read_bytes()


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("sd_share: 0.1", "sd_share: 0.2", "3-additive-noise"),
        ("percent: 10", "percent: 11", "2-rank-swap"),
        ("steps:\n", "steps:\n  - drop-identifiers\n", "3-rank-swap, 4-additive-noise"),
        ("  - additive-noise: {columns: savings, sd_share: 0.1}\n", "", OTHER_STEPS),
        ("levels: {age: 3, region: 1}", "levels: {age: 4, region: 1}", OTHER_STEPS),
    ],
)
def test_other_steps_need_another_seed_file(folder: Path, before: str, after: str, named: str) -> None:
    kept = (folder / "keep.seed").read_bytes()
    with pytest.raises(PlanError) as caught:
        run(folder, SEEDED.replace(before, after))
    message = str(caught.value)
    assert f"different here: {named})" in message
    for word in ("averaged", "0.71", "discretion seed new", "`previous:`", "`from:`", "by_person"):
        assert word in message
    assert not (folder / "again").exists() and (folder / "keep.seed").read_bytes() == kept


def test_another_delivery_needs_another_seed_file(folder: Path) -> None:
    later = survey().with_columns(pl.col("income") * 1.02)
    later.write_csv(folder / "later.csv")
    with pytest.raises(PlanError, match="different here: 2-rank-swap"):
        run(folder, data=str(folder / "later.csv"))
    SeedFile.new(folder / "new.seed")
    run(folder, PLAN + "seed_file: new.seed\n", data=str(folder / "later.csv"))


def test_a_given_seed_leaves_the_seed_file_alone(folder: Path) -> None:
    kept = (folder / "keep.seed").read_bytes()
    run(folder, SEEDED.replace("sd_share: 0.1", "sd_share: 0.2"), seed=5)
    assert (folder / "keep.seed").read_bytes() == kept


def test_what_is_not_published_is_not_remembered(tmp_path: Path) -> None:
    path = put_survey(tmp_path, SEEDED.replace("k: 3", "k: 500"))
    SeedFile.new(tmp_path / "keep.seed")
    with pytest.raises(dc.RequirementNotMet):
        dc.Plan.load(path).run()
    from discretion.release.run import run_plan

    run_plan(dc.Plan.load(path))
    assert SeedFile.read(tmp_path / "keep.seed").uses == ()


def test_draws_by_person_allow_the_next_delivery(tmp_path: Path) -> None:
    plan = SEEDED.replace("  - rank-swap: {columns: [income], percent: 10}\n", "")
    plan = plan.replace("sd_share: 0.1}", "sd_share: 0.1, by_person: true}").replace("at_most: 1.0", "at_most: 1")
    put_survey(tmp_path)
    SeedFile.new(tmp_path / "keep.seed")
    first = run(tmp_path, plan, "first")
    later = survey()[::-1].with_columns(pl.when(pl.col("age") < 40).then(pl.col("savings") + 1).otherwise("savings"))
    later.write_csv(tmp_path / "later.csv")
    with pytest.raises(PlanError, match="different here: 2-additive-noise"):
        run(tmp_path, plan, data=str(tmp_path / "later.csv"))  # fitted anew: the scale of the noise is another
    from discretion.release.journal import read_decisions

    second = run(tmp_path, plan, data=str(tmp_path / "later.csv"), reuse=read_decisions(tmp_path / "first-j"))
    joined = survey().with_columns(new=_by_row(first)).join(later.with_columns(new=_by_row(second)), on="person_id")
    same = joined["savings"] == joined["savings_right"]
    assert 20 < same.sum() < 220
    assert (joined["new"] == joined["new_right"]).to_list() == same.to_list()


def _by_row(release: dc.Release) -> pl.Series:
    values = dict(zip(release.data.row_ids.tolist(), release.data.number("savings").tolist(), strict=True))
    return pl.Series([values[row] for row in range(len(values))])


@pytest.mark.parametrize("text", ["", "seven", "-3", "1 2", "5\n6", "0x1f\nused {", "0x1f\nused"])
def test_a_damaged_seed_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "seed").write_text(text)
    with pytest.raises(PlanError, match=r"must hold one whole number|is damaged"):
        SeedFile.read(tmp_path / "seed")
    with pytest.raises(PlanError, match="no seed file"):
        SeedFile.read(tmp_path / "nothing")
