"""Synthetic data in releases: copies, notes, attacks with people put aside, judged copy by copy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.release.attack_set import _split, run_with_holdout
from discretion.release.journal import read_order
from discretion.release.release import synthetic_notes

ROLES = {
    "person_id": "identifier", "name": "identifier", "region": "quasi", "age": "quasi", "sex": "quasi",
    "education": "quasi", "income": "sensitive", "marital_status": "sensitive",
}  # fmt: skip


@pytest.fixture(scope="module")
def people() -> dc.Dataset:
    return dc.Dataset(dc.datasets.census(800, seed=3).frame.select(list(ROLES)), roles=ROLES)


@pytest.fixture(scope="module")
def written(people: dc.Dataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dc.Release]:
    public, private = tmp_path_factory.mktemp("r") / "out", tmp_path_factory.mktemp("j") / "priv"
    plan_file = public.with_name("plan.yaml")
    plan_file.write_text(
        json.dumps(
            {
                "roles": ROLES,
                "confirmed": True,
                "steps": [{"sequential-trees": {"copies": 2, "rules": ["age >= 18 OR marital_status = 'single'"]}}],
                "requirements": [{"replicated-uniques": {"at_most": 0.5}}, {"closest-record": {"at_most": 0.9}}],
            }
        )
    )
    release = dc.Plan.load(plan_file).run(people)
    release.write(public, private)
    return public, private, release


def test_each_copy_goes_to_a_file_of_its_own(written: tuple[Path, Path, dc.Release], people: dc.Dataset) -> None:
    public, private, _ = written
    frames = [pl.read_csv(public / f"data-{number}.csv") for number in (1, 2)]
    assert not (public / "data.csv").exists()
    for frame in frames:
        assert frame.columns == [name for name in people.columns if name not in ("person_id", "name")]
        assert frame.height == len(people)
        assert frame.filter(pl.col("age") < 18)["marital_status"].unique().to_list() == ["single"]
    facts = json.loads((public / "report.json").read_text())
    assert [one["file"] for one in facts["copies"]] == ["data-1.csv", "data-2.csv"]
    journal = json.loads((private / "journal.json").read_text())
    assert len(journal["output"]["copies"]) == 2
    assert journal["steps"][0]["facts"]["rules"]["broken_in_original"]


def test_the_journal_says_that_no_row_belongs_to_anybody(written: tuple[Path, Path, dc.Release]) -> None:
    assert (read_order(written[1]) == -1).all()


def test_everybody_is_told_what_is_synthetic_and_that_it_is_not_anonymous(
    written: tuple[Path, Path, dc.Release],
) -> None:
    page = (written[0] / "report.html").read_text()
    for words in ("All rows are synthetic", "2 synthetic copies", "not anonymous by itself", "people outside"):
        assert words in page
    assert "Relations between all columns" in page


def test_the_number_of_a_copy_is_no_column_of_the_release(
    written: tuple[Path, Path, dc.Release], people: dc.Dataset
) -> None:
    public, _, release = written
    page = (public / "report.html").read_text()
    assert f"2 copies of {len(people):,} records with" in page and "data-1.csv … data-2.csv" in page
    assert "As in the original" not in page
    missed = [note for note in release.notes if "no attack compared" in note]
    assert not any("copy" in note for note in missed)


def test_a_saved_model_is_used_again(written: tuple[Path, Path, dc.Release], people: dc.Dataset) -> None:
    from discretion.release.journal import read_decisions

    plan = written[2].plan
    again = plan.run(people, reuse=read_decisions(written[1]))
    assert again.study.done[0].reused and again.data.has_new_rows


def test_models_are_judged_copy_by_copy() -> None:
    frame = pl.DataFrame({"a": ["x"] * 30 + ["y"] * 30, "b": np.arange(60.0)})
    data = dc.Dataset(frame, roles={"a": "quasi"})
    copies = dc.SequentialTrees(columns=["b"], copies=3)(data, seed=1)
    assert dc.KAnonymity(k=30)(copies).value == 30  # not 90
    assert (
        dc.SampleUniqueness(columns=["b"])(copies).value
        == dc.SampleUniqueness(columns=["b"])(
            max(copies.copies(), key=lambda one: dc.SampleUniqueness(columns=["b"])(one).value)
        ).value
    )


def test_losses_are_means_over_the_copies(people: dc.Dataset) -> None:
    made = dc.IndependentMargins(copies=2)(people, seed=1)
    measure = dc.Contingency(columns=["sex", "education"])
    each = [measure(people, copy).value for copy in made.copies()]
    assert measure(people, made).value == pytest.approx(np.mean(each))


def test_people_are_put_aside_before_the_generator_learns(people: dc.Dataset) -> None:
    made = dc.SequentialTrees()(people, seed=1)
    score = run_with_holdout(dc.ClosestRecord(columns=["age", "income"]), people, made, dc.Context(1, "m"))
    refitted = score.detail["refitted"]
    assert (
        refitted["put_aside"] == round(0.2 * len(people)) and refitted["people"] == len(people) - refitted["put_aside"]
    )
    own = people.take(np.arange(100))
    given = dc.ClosestRecord(columns=["age", "income"], holdout=own)
    assert "refitted" not in run_with_holdout(given, people, made, dc.Context(1, "m")).detail


@pytest.mark.parametrize("role", ["unit", "identifier", "household"])
def test_people_are_put_aside_with_all_their_rows(role: str) -> None:
    rng = np.random.default_rng(5)
    who = rng.permutation(np.repeat(np.arange(300), 4))
    frame = pl.DataFrame({"who": who, "age": rng.integers(0, 90, 300)[who], "pay": rng.lognormal(10, 1, 300)[who]})
    data = dc.Dataset(frame, roles={"who": role})
    made = dc.SequentialTrees()(data, seed=1)
    measure = dc.ClosestRecord(columns=["age", "pay"])
    found = _split(data, made, dc.Context(1, "holdout"))
    assert not set(found.trained.frame["who"]) & set(found.aside.frame["who"])
    refitted = run_with_holdout(measure, data, made, dc.Context(1, "m")).detail["refitted"]
    each = 4 if role == "household" else 1  # the members of a household are people, the rows of a person are not
    assert refitted == {"people": 240 * each, "put_aside": 60 * each}


def test_an_assessment_runs_every_attack_that_needs_no_matching(people: dc.Dataset) -> None:
    found = dc.assess(people, dc.SequentialTrees()(people, seed=1), jobs=1)
    run = {score.measure for score in found.scores}
    attacks = {"replicated-uniques", "disco", "closest-record", "singling-out", "linkability", "inference-risk"}
    assert attacks <= run
    assert {"marginals", "contingency", "propensity", "interval-overlap", "classification-utility"} <= run
    assert not found.not_run
    assert "advantage" in found["replicated-uniques"].detail


def test_steps_after_a_generator_keep_the_rows_new(people: dc.Dataset) -> None:
    study = dc.Study(people, seed=1).apply(dc.SequentialTrees()).apply(dc.Round(columns=["income"], base=100))
    assert study.current.has_new_rows and (study.current.frame["income"] % 100 == 0).all()
    release = study.apply(dc.Sample(share=0.5)).release()
    assert len(release.data) == len(people) // 2 and release.data.has_new_rows
    assert release.changes[0] == set(people.columns)


def test_generators_can_be_tuned_and_compared(people: dc.Dataset) -> None:
    found = dc.tune(
        people,
        methods=[dc.Vary(dc.SequentialTrees, pruning=dc.Grid([0.0, 30.0]))],
        before=[dc.DropIdentifiers()],
        risk=dc.ClosestRecord(),
        utility=dc.Contingency(columns=["sex", "education", "marital_status"]),
        max_risk=1.0,
        seed=1,
    )
    assert len(found.points) == 2 and found.original_risk is not None
    assert all(0.4 < point.risk < 0.6 < found.original_risk and point.risk_spread > 0 for point in found.points)
    both = {"trees": dc.SequentialTrees()(people, seed=1), "margins": dc.IndependentMargins()(people, seed=1)}
    compared = dc.compare(people, both)
    rows = {row.kind: row for row in compared.rows}
    assert rows["contingency"].figures["trees"].value < rows["contingency"].figures["margins"].value
    assert "closest-record" in rows


def test_a_coarser_copy_of_a_synthetic_release_stays_synthetic(people: dc.Dataset, tmp_path: Path) -> None:
    study = dc.Study(people, seed=2**100).apply(dc.SequentialTrees())
    study.release(tmp_path / "out", tmp_path / "priv", no_requirements=True)
    again = dc.Study.from_release(tmp_path / "priv", people)
    assert again.current.has_new_rows and len(again.current) == len(people)
    assert again.apply(dc.Round(columns=["income"], base=1000)).current.has_new_rows


def test_frames_drawn_in_strata_are_not_taken_for_the_same_people(people: dc.Dataset) -> None:
    frame = people.frame.drop("person_id", "name").sort("region", "sex")
    made = dc.SequentialTrees(by=["region"])(frame, seed=1)
    with pytest.raises(dc.DataError, match="nothing tells which rows belong together"):
        dc.DistanceLinkage(columns=["age", "income"])(frame, made)


def test_a_written_copy_is_attacked_with_the_steps_of_its_journal(
    written: tuple[Path, Path, dc.Release], people: dc.Dataset
) -> None:
    from discretion.release.journal import in_journal_order

    file = written[0] / "data-2.csv"
    read = dc.Dataset(pl.read_csv(file), schema=people.schema.only(written[2].data.copies()[0].columns))
    found = in_journal_order(people, read, written[1], file)
    assert found.has_new_rows and [step.kind for step in found.steps] == ["sequential-trees"]
    score = run_with_holdout(dc.ClosestRecord(columns=["age", "income"]), people, found, dc.Context(1, "m"))
    assert score.detail["refitted"]["people"] == 640
    with pytest.raises(dc.DataError, match="not the file it wrote"):
        in_journal_order(people, read, written[1], written[0] / "report.json")


def test_columns_that_no_attack_compared_are_named() -> None:
    rng = np.random.default_rng(8)
    sets = [["a"], ["b"], ["a", "b"]]
    frame = pl.DataFrame(
        {"age": rng.integers(0, 90, 400), "sex": rng.choice(["f", "m"], 400), "ill": [sets[i % 3] for i in range(400)]}
    )
    plan = {
        "roles": {"age": "quasi", "sex": "quasi", "ill": "sensitive"},
        "steps": [{"sequential-trees": {}}],
        "requirements": [{"closest-record": {"columns": ["age", "sex"], "at_most": 0.9}}],
        "measures": [],
    }
    named = [note for note in synthetic_notes(dc.Plan.from_dict(plan).run(frame)) if "no attack compared" in note]
    assert named == ["Columns that no attack compared: ill."]
    del plan["requirements"][0]["closest-record"]["columns"]  # all columns then, sets too
    assert not [note for note in synthetic_notes(dc.Plan.from_dict(plan).run(frame)) if "no attack compared" in note]


def test_the_report_calls_no_row_a_persons_and_says_who_attacks(
    written: tuple[Path, Path, dc.Release],
) -> None:
    public, _, release = written
    page = (public / "report.html").read_text()
    assert "No record is a person" in page and "all rows are synthetic" in page
    assert "look like no other" not in page and "Class sizes" not in page
    facts = json.loads((public / "report.json").read_text())
    assert facts["smallest_class"] is None and facts["sets_alone"] == {}
    assert all(finding.attacker for finding in release.findings)
    assert any(re.search(r"generator-membership .*by chance 1%", words) for words in release.notes)


def test_a_requirement_reaches_what_the_same_measure_shows(people: dc.Dataset) -> None:
    content = {"measures": ["closest-record"], "requirements": [{"closest-record": {"at_most": 0.9}}]}
    plan = dc.Plan.from_dict({"roles": ROLES, "steps": ["sequential-trees"], **content})
    release = plan.run(people)
    assert release.findings[0].value == release.measured[0].after.value
    assert any("who was in the data was not tried" in words for words in release.notes)


def test_attacks_compare_every_column_of_single_values() -> None:
    """A column that nobody gave a role may have been copied, too; keys that nobody shares replicate nobody."""
    from discretion.release.attack_set import report_set

    frame = dc.datasets.census(600, seed=3).frame.select("age", "sex", "income", "birth_date", "hours", "diagnoses")
    data = dc.Dataset(frame, roles={"age": "quasi", "sex": "quasi", "birth_date": "quasi", "income": "sensitive"})
    found = report_set(data, dc.SequentialTrees()(data, seed=1))
    by = {(measure.kind, tuple(getattr(measure, "columns", ()))) for measure in found}
    whole = ("age", "sex", "income", "birth_date", "hours")
    assert {("closest-record", whole), ("singling-out", whole)} <= by
    assert {("replicated-uniques", ("age", "sex", "birth_date")), ("replicated-uniques", ("age", "sex"))} <= by
    unnamed = dc.Dataset(frame.select("age", "income"), roles={"income": "sensitive"})
    assert "closest-record" in {m.kind for m in report_set(unnamed, dc.SequentialTrees()(unnamed, seed=1))}


def test_the_public_side_of_a_private_release_does_not_depend_on_one_person() -> None:
    """Which measures can be run follows from the original: a column without variation has no distribution."""
    from discretion.release.facts import public_facts

    rng = np.random.default_rng(1)
    frame = pl.DataFrame(
        {
            "pid": np.arange(300),
            "age": rng.integers(18, 90, 300),
            "sex": rng.choice(["f", "m"], 300),
            "hiv": ["neg"] * 300,
        }
    )
    one = pl.DataFrame({"pid": [999], "age": [40], "sex": ["f"], "hiv": ["pos"]})
    roles = {"pid": "identifier", "age": "quasi", "sex": "quasi", "hiv": "sensitive"}
    domain = {"age": {"cuts": [0, 40, 60, 110]}, "sex": ["f", "m"], "hiv": ["neg", "pos"]}
    step = {"private-marginals": {"epsilon": 1, "person": "pid", "domain": domain}}
    told = []
    for data in (frame, pl.concat([frame, one])):
        known = dc.Dataset(data, roles=roles)
        facts = public_facts(dc.Plan.from_dict({"roles": roles, "steps": [step], "requirements": "none"}).run(known))
        told.append({name: value for name, value in facts.items() if name not in ("records", "data")})
    assert told[0] == told[1]
    assert told[0]["risk"] == told[0]["utility"] == []
    assert any("withheld: no privacy budget covers it" in words for words in told[0]["notes"])


def test_a_plan_without_requirements_is_told_those_for_synthetic_rows(people: dc.Dataset, tmp_path: Path) -> None:
    release = dc.Plan.from_dict({"roles": ROLES, "steps": ["sequential-trees"]}).run(people)
    with pytest.raises(dc.PlanError, match=r"for synthetic rows, for example, .*closest-record"):
        release.write(tmp_path / "out")
