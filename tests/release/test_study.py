"""A study: step by step, undo, the same draws from the same seed, groups on their own, decisions used again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.context import Context
from discretion.errors import DataError, PlanError
from discretion.method import Decision
from tests.release.survey import ROLES, put_survey, survey


def people(rows: int = 240, seed: int = 1) -> dc.Dataset:
    return dc.Dataset(survey(rows, seed), roles=ROLES)


NOISE = dc.AdditiveNoise(columns=["income"], sd_share=0.3)
SWAP = dc.RankSwap(columns=["savings"], percent=10)


def income(study: dc.Study) -> list[float]:
    return study.current.frame["income"].to_list()


def test_apply_and_undo_give_new_studies() -> None:
    start = dc.Study(people(), seed=7)
    noisy = start.apply(NOISE)
    both = noisy.apply(SWAP).apply(dc.DropIdentifiers())
    assert start.steps == () and noisy.steps == (NOISE,)
    assert both.undo(2).current.frame.equals(noisy.current.frame)
    assert both.undo(3).current is start.original
    assert income(start) == survey()["income"].to_list() != income(noisy)
    for wrong in (0, 4):
        with pytest.raises(PlanError, match=f"there are 3 steps to undo, {wrong} were asked for"):
            both.undo(wrong)


def test_a_study_takes_frames_and_methods_only() -> None:
    assert len(dc.Study(survey()).original) == 240
    with pytest.raises(PlanError, match="expected a method, got KAnonymity"):
        dc.Study(people()).apply(dc.KAnonymity(k=2))


def test_seeds_and_steps_decide_the_draws() -> None:
    one, again, other = (dc.Study(people(), seed=seed).apply(NOISE) for seed in (7, 7, 8))
    assert income(one) == income(again) != income(other)
    noise = np.array(income(one)) - survey()["income"].to_numpy()
    second = np.array(income(one.apply(NOISE))) - np.array(income(one))
    assert abs(np.corrcoef(noise, second)[0, 1]) < 0.3  # a second step of the same kind draws anew
    assert income(dc.Study(people()).apply(NOISE)) != income(dc.Study(people()).apply(NOISE))


def test_the_seed_is_not_shown() -> None:
    seed = 123456789123456789
    study = dc.Study(people(), seed=seed).apply(NOISE)
    assert str(seed) not in repr(study) and str(seed) not in repr(study.context()) and hex(seed) not in repr(study)


@pytest.mark.parametrize("seed", [-1, "7", 1.5])
def test_wrong_seeds(seed: object) -> None:
    with pytest.raises(PlanError, match="a seed is a whole number"):
        dc.Study(people(), seed=seed).apply(NOISE)  # type: ignore[arg-type]


def test_scores_and_checks_look_at_the_current_data() -> None:
    study = dc.Study(people(), seed=7)
    loss = dc.Il1s(columns=["income"])
    (before,), (after,) = study.scores(loss), study.apply(NOISE).scores(loss)
    assert before.value == 0 < after.value
    assert after.value == loss(study.original, study.apply(NOISE).current).value
    (verdict,) = study.apply(dc.Recode(column="age", width=100)).check(dc.KAnonymity(k=10))
    assert verdict.holds and not study.check(dc.KAnonymity(k=10))[0].holds
    chosen = {score.measure for score in study.scores()}
    assert {"sample-uniqueness", "il1s", "interval-risk"} <= chosen


def test_the_plan_of_a_study_repeats_it(tmp_path: Path) -> None:
    study = dc.Study(people(), seed=7).apply(NOISE).apply(SWAP).apply(NOISE)
    study.plan(measures=[dc.Il1s()], requirements=[dc.KAnonymity(k=1)], title="again").save(tmp_path / "plan.yaml")
    plan = dc.Plan.load(tmp_path / "plan.yaml")
    assert plan.title == "again" and len(plan.measures) == len(plan.requirements) == 1
    release = plan.run(survey(), seed=7)
    assert release.data.frame.equals(study.current.drop(["person_id"]).frame[release.data.row_ids])
    with pytest.raises(PlanError, match="bounds on measures are written in the plan"):
        study.plan(requirements=[dc.Il1s()])


# --- groups ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    [
        dc.AdditiveNoise(columns=["income"], sd_share=0.3, by=["region", "sex"]),
        dc.Mdav(columns=["income", "savings"], k=4, by=["region", "sex"]),
        dc.RankSwap(columns=["income"], percent=30, by=["region", "sex"]),
        dc.TopCode(column="income", quantile=0.9, replace="mean", by=["region", "sex"]),
    ],
    ids=lambda m: m.kind,
)
def test_by_runs_each_group_on_its_own(method: dc.Method) -> None:
    data = people()
    ctx = Context(7, "1-step")
    whole = method.apply(data, ctx)
    alone = method.model_copy(update={"by": ()})
    seen = 0
    for name, rows in ctx.engine.groups(data, ["region", "sex"]):
        part = alone.apply(data.take(rows), ctx.within(name))
        assert part.frame.equals(whole.take(rows).frame)
        seen += len(rows)
    assert seen == len(data) == len(whole)
    assert not whole.frame.equals(alone.apply(data, ctx).frame)
    assert whole.row_ids.tolist() == list(range(len(data)))


def test_two_steps_by_group_draw_anew_in_each_group() -> None:
    noise = dc.AdditiveNoise(columns=["income"], sd_share=0.3, by=["sex"])
    once = dc.Study(people(), seed=7).apply(noise)
    twice = once.apply(noise)
    values = [np.array(income(study)) for study in (once.undo(), once, twice)]
    assert abs(np.corrcoef(values[1] - values[0], values[2] - values[1])[0, 1]) < 0.3


def test_by_keeps_the_order_of_rows_taken_before() -> None:
    data = people().take(np.random.default_rng(2).permutation(240)[:100])
    new = dc.Mdav(columns=["income"], k=3, by=["sex"]).apply(data, Context(1, "x"))
    assert new.frame["person_id"].equals(data.frame["person_id"])
    assert new.row_ids.tolist() == data.row_ids.tolist()


def test_a_fault_in_a_group_names_the_group() -> None:
    data = dc.Dataset(pl.DataFrame({"g": ["a", "a", "a", "b"], "x": [1.0, 2.0, 3.0, 4.0]}))
    with pytest.raises(DataError, match=r"in a group of 1 rows \(by g\): k = 3 is larger than the 1 records"):
        dc.Mdav(columns=["x"], k=3, by=["g"])(data)
    with pytest.raises(PlanError, match="'x' stands both in `columns` and in `by`"):
        dc.Mdav(columns=["x"], k=3, by=["x"])(data)


def test_groups_that_cannot_be_told_apart_by_name_do_not_share_a_decision() -> None:
    frame = pl.DataFrame({"g": ["None", "None", None, None], "x": [1.0, 2.0, 100.0, 200.0]})
    method = dc.TopCode(column="x", quantile=0.5, by=["g"])
    try:
        new = method(frame)["x"].to_list()
    except DataError as error:
        assert "two groups have the name 'g=None'" in str(error)
    else:
        assert new == [1.0, 1.5, 100.0, 150.0]


# --- decisions ---------------------------------------------------------------------------------------------------


def test_decisions_are_used_again_on_the_next_delivery() -> None:
    first = dc.Study(people(), seed=7).apply(dc.TopCode(column="income", quantile=0.8)).apply(SWAP)
    bound = first.decisions["1-top-code"]["bound"]
    assert list(first.decisions) == ["1-top-code"]  # swapping works on rows together and has none
    second = dc.Study(people(seed=2), seed=8)
    reused = second.apply(first.done[0].step, decision=first.decisions["1-top-code"])
    anew = second.apply(first.done[0].step)
    assert max(income(reused)) == bound != max(income(anew))


def test_a_group_method_ignores_a_decision() -> None:
    study = dc.Study(people(), seed=7)
    assert study.apply(SWAP, decision=Decision.EMPTY).current.frame.equals(study.apply(SWAP).current.frame)


def test_plans_run_again_with_the_decisions_of_a_journal(tmp_path: Path) -> None:
    from discretion.release.journal import read_decisions

    steps = "[{top-code: {column: income, quantile: 0.8, by: sex}}, {rank-swap: {columns: savings, percent: 9}}]"
    roles = "roles:\n" + "".join(f"  {name}: {role}\n" for name, role in ROLES.items())
    plan = dc.Plan.load(
        put_survey(tmp_path, f"data: survey.csv\n{roles}steps: {steps}\nrequirements: none\noutput: out\n")
    )
    first = plan.run(seed=1)
    decisions = read_decisions(tmp_path / "out-private")
    assert decisions == dict(first.study.decisions)
    second = plan.run(survey(seed=5), seed=2, reuse=decisions, out=tmp_path / "next")
    bounds = {key.removeprefix("sex="): values["bound"] for key, values in decisions["1-top-code"]["groups"].items()}
    tops = second.data.frame.group_by("sex").agg(pl.col("income").max())
    assert dict(tops.iter_rows()) == bounds
    with pytest.raises(PlanError, match="belong to another plan: they have none for 1-top-code"):
        plan.run(survey(), seed=2, reuse={}, out=tmp_path / "third")
    strange = survey(seed=5).with_columns(sex=pl.lit("x"))
    with pytest.raises(DataError, match="saved decision has no group 'sex=x'"):
        plan.run(strange, seed=2, reuse=decisions, out=tmp_path / "third")
    assert not (tmp_path / "third").exists()


@pytest.mark.parametrize("content", ["{", "[]", '{"1-top-code": 5}'])
def test_broken_decisions(tmp_path: Path, content: str) -> None:
    from discretion.release.journal import read_decisions

    (tmp_path / "decisions.json").write_text(content)
    with pytest.raises(PlanError, match=r"decisions\.json"):
        read_decisions(tmp_path)
    with pytest.raises(PlanError, match="no saved decisions"):
        read_decisions(tmp_path / "elsewhere")


def test_a_decision_survives_json() -> None:
    decision = dc.Study(people(), seed=7).apply(NOISE).decisions["1-additive-noise"]
    assert Decision.from_json(decision.to_json()) == decision


# --- publishing ----------------------------------------------------------------------------------------------------


def test_release_of_a_study(tmp_path: Path) -> None:
    study = dc.Study(people(), seed=7).apply(NOISE)
    release = study.release(tmp_path / "out", format="parquet", no_requirements=True)
    published = pl.read_parquet(tmp_path / "out" / "data.parquet")
    assert published.equals(release.data.frame) and "person_id" not in published.columns
    assert (tmp_path / "out-private" / "seed").read_text().split()[0] == "0x" + "7".zfill(32)
    with pytest.raises(dc.RequirementNotMet, match="k-anonymity: reached 1, required 9"):
        study.release(tmp_path / "more", requirements=[dc.KAnonymity(k=9)])
    assert not (tmp_path / "more").exists()


def test_release_of_a_study_without_roles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="gives no roles"):
        dc.Study(survey(), seed=7).apply(NOISE).release(tmp_path / "out")
    half = dc.Dataset(survey(), roles={"age": "quasi"})
    with pytest.raises(PlanError, match="'person_id' has no role and looks like an identifier"):
        dc.Study(half, seed=7).apply(NOISE).release(tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_the_plan_of_a_study_on_a_file_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    people = dc.datasets.census(500, seed=1).frame.select("name", "age", "region", "income")
    people.write_csv("census.csv", separator=";")
    regions = people["region"].unique().sort().to_list()
    (tmp_path / "region.csv").write_text("".join(f"{name};somewhere\n" for name in regions))
    roles = {"name": "identifier", "age": "quasi", "region": "quasi", "income": "sensitive"}
    data = dc.read("census.csv", roles=roles, hierarchies={"region": "region.csv"}, delimiter=";")
    study = dc.Study(data, seed=7).apply(dc.DropIdentifiers()).apply(dc.Generalize(levels={"region": 1}))
    study.plan().save("plan.yaml")
    assert "data:\n  path: census.csv\n  delimiter: ;" in Path("plan.yaml").read_text()
    monkeypatch.chdir("/")
    again = dc.Plan.load(tmp_path / "plan.yaml").run(seed=7)
    assert again.data.frame.equals(study.current.frame[again.data.row_ids])


@pytest.mark.parametrize(
    "method", [dc.Mdav(columns=["age", "income"], k=5), dc.AdditiveNoise(columns=["age"], sd_share=0.2)]
)
def test_values_moved_out_of_their_hierarchy_can_be_released(method: dc.Method, tmp_path: Path) -> None:
    frame = survey().with_columns(age=pl.int_range(pl.len()) % 60 + 18)
    data = dc.Dataset(
        frame, roles=ROLES | {"age": "quasi"}, hierarchies={"age": dc.Hierarchy.intervals(width=5, levels=4)}
    )
    study = dc.Study(data, seed=7).apply(dc.RankSwap(columns=["income"], percent=10)).apply(method)
    assert not study.current.stands_in_hierarchy("age")
    assert "precision" not in {score.measure for score in study.scores()}
    study.release(tmp_path / "out", tmp_path / "private", no_requirements=True)
    with pytest.raises(DataError, match=r"'age': .* values stand at no level") as told:
        dc.Precision(columns=["age"])(study.current)
    assert not any(str(age) in str(told.value) for age in study.current.frame["age"].head(20))


def test_a_report_says_what_was_done_and_what_came_of_it(tmp_path: Path) -> None:
    study = dc.Study(dc.datasets.census(400, seed=1), seed=7)
    assert "No step so far" in str(study.report(dc.Il1s(columns=["income"])))
    study = study.apply(dc.DropIdentifiers()).apply(dc.LocalSuppression(k=2, columns=["region", "sex", "age"]))
    uniqueness, moved = dc.SampleUniqueness(columns=["region", "sex", "age"]), dc.Il1s(columns=["income"])
    report = study.report(
        uniqueness, moved, dc.KAnonymity(k=2, columns=["region", "sex", "age"]), path=tmp_path / "r.html"
    )
    text = str(report)
    before, after = uniqueness(study.original).value, uniqueness(study.current).value
    assert before > after == 0
    assert f"sample-uniqueness: {100 * before:.3g}% before, 0% now" in text
    assert "2. local-suppression (" in text and "without person_id, name" in text
    lost = study.current.suppressed_cells
    assert f"age: Local suppression, {lost['age']} values suppressed" in text
    assert "il1s: 0 now" in text and "k-anonymity: holds" in text
    page = tmp_path / "r.html"
    assert "not for publication" in page.read_text().lower() and page.stat().st_mode & 0o077 == 0
    assert "<iframe" in report._repr_html_()
    with pytest.raises(dc.DiscretionError):
        report.write(page)
    report.write(tmp_path / "r.txt")
    assert (tmp_path / "r.txt").read_text() == f"{text}\n"
    with pytest.raises(dc.PlanError):
        study.report("k-anonymity")  # type: ignore[arg-type]
