"""What a plan must say before it publishes: steps, requirements, and columns that look as if others knew them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.cli.app import run
from discretion.cli.run import report
from discretion.context import Context
from discretion.errors import PlanError, RequirementNotMet
from discretion.release.gate import judge, unsaid
from discretion.release.plan import Requirement
from discretion.release.release import Release
from discretion.release.report.summary import scores_of, summary_of
from tests.cli.conftest import Cli, cli  # noqa: F401
from tests.release.report.build import release
from tests.release.survey import PLAN, ROLES, files_of, put_survey, survey

REQUIRED = PLAN[PLAN.index("requirements:") : PLAN.index("output:")]
STEPS = PLAN[PLAN.index("steps:") : PLAN.index("measures:")]
NO_REQUIREMENTS = PLAN.replace(REQUIRED, "")
NO_STEPS = PLAN.replace(STEPS, "").replace("k: 3", "k: 1").replace("0.9", "1.0")


@pytest.mark.parametrize("command", ["run", "check", "dry"])
def test_a_plan_that_requires_nothing_stops_and_names_what_fits_the_data(
    tmp_path: Path,
    cli: Cli,  # noqa: F811
    command: str,
) -> None:
    path = put_survey(tmp_path, NO_REQUIREMENTS)
    before = files_of(tmp_path)
    done = cli("run", path, "--dry-run") if command == "dry" else cli(command, path)
    assert done.code == 2 and files_of(tmp_path) == before
    advised = "requirements: [{k-anonymity: {k: 5}}, {distinct-l-diversity: {l: 2, sensitive: income}}"
    assert advised in done.err and "`requirements: none` (or --no-requirements)" in done.err
    assert "no_requirements" not in done.err
    advice = done.err[done.err.index("`requirements: [") + 1 : done.err.index("]`") + 1]
    (tmp_path / "plan.yaml").write_text(NO_REQUIREMENTS + advice + "\n")  # what is advised can be pasted
    assert len(dc.Plan.load(path).requirements) == 3


@pytest.mark.parametrize("said", ["requirements: none\n", "--no-requirements"])
def test_a_plan_that_says_so_publishes_and_everything_tells(tmp_path: Path, cli: Cli, said: str) -> None:  # noqa: F811
    option = [said] if said.startswith("--") else []
    done = cli("run", put_survey(tmp_path, NO_REQUIREMENTS + ("" if option else said)), *option)
    assert done.code == 0, done.err
    assert "published without requirements in " in " ".join(done.err.split())
    note = "Published without requirements: nothing had to hold before publication."
    assert json.loads((tmp_path / "out" / "report.json").read_text())["notes"] == [note]
    for folder in ("out", "secret"):
        page = (tmp_path / folder / "report.html").read_text()
        lead = page[page.index('<p class="lead">') + 16 :]
        assert lead.startswith(note) and page.index("Published without requirements") < page.index(note)
    again = dc.Plan.load(tmp_path / "secret" / "plan.yaml")
    assert again.no_requirements and again.to_dict()["requirements"] == "none"


def test_no_requirements_is_refused_where_there_are_some(tmp_path: Path, cli: Cli) -> None:  # noqa: F811
    done = cli("run", put_survey(tmp_path), "--no-requirements")
    assert done.code == 2 and "the plan has requirements" in done.err and not (tmp_path / "out").exists()


def test_a_plan_without_steps_says_so(tmp_path: Path, cli: Cli) -> None:  # noqa: F811
    done = cli("run", put_survey(tmp_path, NO_STEPS))
    assert done.code == 2 and "`steps: none`" in done.err and "no_steps" not in done.err
    done = cli("run", put_survey(tmp_path, NO_STEPS + "steps: none\n"))
    assert done.code == 0 and "published without steps in " in " ".join(done.err.split())
    assert "Published without steps" in json.loads((tmp_path / "out" / "report.json").read_text())["notes"][0]
    assert dc.Plan.load(tmp_path / "secret" / "plan.yaml").no_steps


@pytest.mark.parametrize("word", ["nothing", "None", "{}"])
def test_only_the_word_none_says_none(word: str) -> None:
    with pytest.raises(PlanError, match="or the word `none`"):
        dc.Plan.from_dict({"requirements": word if word != "{}" else {}})
    with pytest.raises(PlanError, match=r"measures.*expected a list, each entry on a line that starts with `- `$"):
        dc.Plan.from_dict({"measures": "none"})


@pytest.mark.parametrize("suffix", ["yaml", "toml", "json"])
def test_what_is_said_survives_the_file(tmp_path: Path, suffix: str) -> None:
    content = {"roles": {"age": "quasi"}, "steps": "none", "requirements": "none", "confirmed_other": ["x"]}
    plan = dc.Plan.from_dict(content)
    plan.save(tmp_path / f"plan.{suffix}")
    again = dc.Plan.load(tmp_path / f"plan.{suffix}")
    assert again.to_dict() == plan.to_dict() == content


# --- in Python ---------------------------------------------------------------------------------------------------


def test_looking_needs_no_requirements_and_writing_does(tmp_path: Path) -> None:
    study = dc.Study(dc.Dataset(survey(), roles=ROLES), seed=7).apply(dc.RankSwap(columns=["income"], percent=10))
    release = study.release()
    assert not release.may_publish
    assert "may not be published: has no requirements and does not say so" in repr(release)
    for write in (
        lambda: release.write(tmp_path / "out"),
        lambda: study.release(tmp_path / "out"),
        lambda: study.plan().run(survey(), seed=7, out=tmp_path / "out"),
    ):
        with pytest.raises(PlanError, match=r"write `requirements: none` \(in Python `no_requirements=True`\)"):
            write()
    assert not list(tmp_path.iterdir())
    release = study.release(tmp_path / "out", no_requirements=True)
    assert release.may_publish and "may be published without requirements" in repr(release)
    assert "without requirements" in release._repr_html_()
    held = study.release(tmp_path / "held", requirements=[dc.KAnonymity(k=1)])
    assert "; may be published, but distance-linkage by " in repr(held)  # and no requirement limits it


def test_a_study_without_steps_says_so(tmp_path: Path) -> None:
    study = dc.Study(dc.Dataset(survey(), roles=ROLES), seed=7)
    with pytest.raises(PlanError, match=r"`steps: none` \(in Python `no_steps=True`\)"):
        study.release(tmp_path / "out", requirements=[dc.KAnonymity(k=1)])
    release = study.release(tmp_path / "out", no_steps=True, no_requirements=True)
    assert "may be published without steps and requirements" in repr(release)


def test_without_quasi_identifiers_the_advice_is_another() -> None:
    numbers = dc.Dataset(survey().select("income"), roles={"income": "sensitive"})
    plan = dc.Plan(schema=numbers.schema)
    (told,) = unsaid(plan, numbers, made=True)
    assert "requirements: [{distance-linkage: {columns: [income], at_most: 0.05}}]" in told
    words = dc.Dataset(survey().select("sex"), roles={"sex": "sensitive"})
    (told,) = unsaid(replace(plan, schema=words.schema), words, made=True)
    assert "the role `quasi`, then require k-anonymity" in told


# --- columns of the role other -----------------------------------------------------------------------------------

OTHER = PLAN.replace("  sex: quasi\n", "  sex: other\n")


def test_a_column_that_looks_known_stops_a_run_until_it_is_confirmed(tmp_path: Path, cli: Cli) -> None:  # noqa: F811
    done = cli("run", put_survey(tmp_path, OTHER))
    assert done.code == 2 and "column 'sex' has the role `other` and looks like quasi" in done.err
    assert "`confirmed_other: [sex]`" in done.err and not (tmp_path / "out").exists()
    assert cli("check", tmp_path / "plan.yaml").code == 2
    done = cli("run", put_survey(tmp_path, OTHER + "confirmed_other: [sex]\n"), "--json")
    assert done.code == 0, done.err
    found = {column["name"]: column["notes"] for column in done.json()["columns"]}
    assert found["sex"][-1] == "the plan confirms the role other"
    assert json.loads((tmp_path / "out" / "report.json").read_text())["confirmed_other"] == ["sex"]
    assert "other (confirmed)" in (tmp_path / "out" / "report.html").read_text()
    assert "the plan confirms the role other" in (tmp_path / "secret" / "report.html").read_text()


def test_a_column_without_a_role_stops_it_too_and_a_dropped_one_does_not(tmp_path: Path, cli: Cli) -> None:  # noqa: F811
    bare = PLAN.replace("  sex: quasi\n", "")
    done = cli("run", put_survey(tmp_path, bare))
    assert done.code == 2 and "column 'sex' has no role and looks like quasi" in done.err
    dropped = bare.replace("steps:\n", "steps:\n  - drop-identifiers: {columns: [person_id, sex]}\n")
    assert cli("run", put_survey(tmp_path, dropped)).code == 0
    assert "sex" not in pl.read_csv(tmp_path / "out" / "data.csv").columns


def test_it_holds_for_studies(tmp_path: Path) -> None:
    data = dc.Dataset(survey(), roles=ROLES | {"sex": "other"})
    study = dc.Study(data, seed=7).apply(dc.RankSwap(columns=["income"], percent=10))
    held = {"requirements": [dc.KAnonymity(k=1)]}
    with pytest.raises(PlanError, match="column 'sex' has the role `other`"):
        study.release(tmp_path / "out", **held)
    assert "has columns that nobody confirmed" in repr(study.release(**held))
    release = study.release(tmp_path / "out", **held, confirmed_other=["sex"])
    assert release.plan.to_dict()["confirmed_other"] == ["sex"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("[sx]", r"line 24 \(confirmed_other\.1\): unknown column 'sx'.*'sex'"),
        ("[sex, age]", r"line 24 \(confirmed_other\.2\): column 'age' has the role quasi; only the role `other`"),
        ("[4]", "expected the name of a column"),
        ("sex", "expected a list"),
    ],
)
def test_wrong_confirmations(tmp_path: Path, given: str, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        dc.Plan.load(put_survey(tmp_path, OTHER + f"confirmed_other: {given}\n")).run(seed=1)


def test_a_coarser_copy_keeps_what_was_confirmed(tmp_path: Path) -> None:
    dc.Plan.load(put_survey(tmp_path, OTHER + "confirmed_other: [sex]\n")).run(seed=1)
    (tmp_path / "coarse.yaml").write_text(
        "from: secret\nsteps: [round: {columns: [income], base: 100}]\n"
        "requirements: [k-anonymity: {k: 3}]\noutput: coarse\n"
    )
    plan = dc.Plan.load(tmp_path / "coarse.yaml")
    assert plan.run(seed=2).plan.confirmed_other == ("sex",)
    assert run(["run", str(tmp_path / "coarse.yaml"), "--dry-run", "--force", "-q"]) == 0
    kept = replace(plan, steps=(), requirements=(), no_requirements=True)
    assert kept.run(seed=2, overwrite=True).without == ("requirements",)  # the steps of the finer release count


# --- columns that tell what was protected in another ----------------------------------------------------------------


def taxed(by: str = "") -> dc.Plan:
    content = {
        "roles": {"age": "quasi", "income": "sensitive", "tax": "sensitive"},
        "steps": [{"additive-noise": {"columns": ["income"], "sd_share": 0.5}}],
        "requirements": [{"il1s": {"columns": ["income"], "at_most": 1e9}}],
        **({"confirmed_telling": [by]} if by else {}),
    }
    return dc.Plan.from_dict(content)


def test_a_column_that_tells_a_protected_one_stops_a_publication(tmp_path: Path) -> None:
    people = dc.datasets.census(600, seed=1).frame.select("age", "income").drop_nulls()
    people = people.with_columns(tax=0.31 * pl.col("income"))
    told = r"column 'tax' tells 'income', which was protected.*\n.*`confirmed_telling: \[tax\]`"
    release = taxed().run(people, seed=1)  # looking is free
    assert not release.may_publish and "columns that nobody confirmed" in repr(release)
    for write in (lambda: taxed().run(people, seed=1, out=tmp_path / "a"), lambda: release.write(tmp_path / "a")):
        with pytest.raises(PlanError, match=told):
            write()
    study = dc.Study(dc.Dataset(people, roles={"age": "quasi", "income": "sensitive", "tax": "sensitive"}), seed=1)
    with pytest.raises(PlanError, match=told):
        study.apply(dc.AdditiveNoise(columns=["income"], sd_share=0.5)).release(tmp_path / "a", no_requirements=True)
    assert not list(tmp_path.iterdir())
    confirmed = taxed("tax").run(people, seed=1, out=tmp_path / "a")
    assert confirmed.may_publish and confirmed.plan.to_dict()["confirmed_telling"] == ["tax"]
    assert taxed().run(people.drop("tax").with_columns(tax=pl.lit(1.0)), seed=1).may_publish
    with pytest.raises(PlanError, match=r"confirmed_telling.*unknown column 'tx'"):
        taxed("tx").run(people, seed=1, out=tmp_path / "b")


# --- which figure a limit is compared with ----------------------------------------------------------------------------


def test_a_limit_on_a_linkage_holds_for_fewer_columns_too() -> None:
    """More knowledge can find fewer: columns of noise blur an untouched one."""
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"size": rng.normal(size=400), **{f"x{j}": rng.normal(size=400) for j in range(6)}})
    data = dc.Dataset(frame, roles={"size": "quasi", **{f"x{j}": "sensitive" for j in range(6)}})
    released = dc.Dataset(
        frame.with_columns(pl.Series(f"x{j}", rng.normal(size=400)) for j in range(6)), schema=data.schema
    ).matched_to(data, np.arange(400))
    measure = dc.DistanceLinkage(intruder={"knows_method": False}, columns=frame.columns)
    whole = measure(data, released).value
    assert whole < 0.5
    found = judge(Requirement(measure, at_most=0.5), data, released, Context(0, "test"))
    assert found.value == 1.0 and not found.holds and "linking by size alone" in found.explain()
    few = judge(
        Requirement(measure.model_copy(update={"columns": ("x0", "x1")}), at_most=0.5), data, released, Context(0)
    )
    assert few.holds and not few.by


@pytest.mark.parametrize("kind", [dc.RankInterval, dc.SdInterval, dc.IntervalRisk])
def test_a_limit_on_intervals_without_columns_holds_in_the_worst_one(kind: type[dc.Measure]) -> None:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({name: rng.normal(size=500) for name in "abc"})
    data = dc.Dataset(frame, roles=dict.fromkeys("abc", "sensitive"))
    released = dc.AdditiveNoise(columns=["a", "b"], sd_share=2.0)(data, seed=1)
    score = kind()(data, released)
    assert score.value < 0.6 and score.detail["worst_column"] == "c" and score.detail["worst"] == 1.0
    assert "The worst column is c: 100.0%." in score.meaning
    found = judge(Requirement(kind(), at_most=0.6), data, released, Context(0, "test"))
    assert not found.holds and found.value == 1.0 and "in the worst column, c" in found.explain()
    named = judge(Requirement(kind(columns=["a", "b", "c"]), at_most=0.6), data, released, Context(0, "test"))
    assert named.holds and named.value == score.value  # as it was asked for


def _exposed() -> dc.Dataset:
    rng = np.random.default_rng(2)
    n = 300
    frame = pl.DataFrame(
        {
            "town": rng.choice(list("ABCD"), n),
            "job": rng.choice([f"j{i}" for i in range(60)], n),
            "pay": rng.permutation(n),
        }
    )
    return dc.Dataset(frame, roles={"town": "quasi", "job": "sensitive", "pay": "sensitive"})


def _required(at_most: float, columns: tuple[str, ...] = ("pay", "job", "town")) -> Requirement:
    return Requirement(dc.DistanceLinkage(columns=columns), at_most=at_most)


def test_a_linkage_that_finds_too_many_names_columns_and_what_would_help() -> None:
    made = release([dc.Shuffle(columns=["pay"], predictors=["town"])], _exposed(), [_required(0.3)])
    with pytest.raises(RequirementNotMet) as refused:
        made.require()
    said = str(refused.value)
    assert "it links by pay, job, town; published as in the original: job, town; without job" in said
    without = dc.DistanceLinkage(columns=["pay", "town"])(made.study.original, made.data).value
    assert f"without job it would reach {without:.4g}" in said
    assert "`pram`" in said and "`shuffle`" not in said and "`drop-identifiers`" in said


def test_columns_are_named_until_what_is_required_would_hold() -> None:
    """One column is not enough: who leaves out job alone is refused again, who follows the advice is not."""
    rng = np.random.default_rng(2)
    exposed = _exposed()
    more = exposed.frame.with_columns(car=pl.Series(rng.choice([f"c{i}" for i in range(50)], exposed.records)))
    data = dc.Dataset(more, schema=exposed.schema.with_column("car", roles=("sensitive",)))
    steps = [dc.Shuffle(columns=["pay"], predictors=["town"])]
    required = _required(0.1, ("pay", "job", "car", "town"))
    with pytest.raises(RequirementNotMet) as refused:
        release(steps, data, [required]).require()
    said = str(refused.value)
    first, second = ("job", "car") if "without job it" in said else ("car", "job")
    assert f"without {first} it would reach" in said and f"without {first}, {second} it would reach 0.0" in said
    assert "Give job less detail" in said and "Give car less detail" in said and "leave them out" in said
    helped = [*steps, dc.DropIdentifiers(columns=["job", "car"])]
    release(helped, data, [_required(0.1, ("pay", "town"))]).require()


_TRIED = {
    "recode": lambda name: dc.Recode(column=name, quantiles=4),
    "round": lambda name: dc.Round(columns=[name], base=10),
    "generalize": lambda name: dc.Generalize(levels={name: 1}),
    "group-categories": lambda name: dc.GroupCategories(column=name, smaller_than=5),
    "shuffle": lambda name: dc.Shuffle(columns=[name], predictors=["other"]),
    "rank-swap": lambda name: dc.RankSwap(columns=[name], percent=10),
    "pram": lambda name: dc.Pram(columns=[name], keep_share=0.8),
}


@pytest.mark.parametrize("name", ["pay", "points", "code", "job", "icd", "rank", "grade", "born"])
def test_what_would_help_are_methods_that_take_the_column(name: str) -> None:
    rng = np.random.default_rng(3)
    n = 200
    days = pl.Series(rng.integers(0, 9000, n)).cast(pl.Int32).cast(pl.Date)
    frame = pl.DataFrame(
        {
            "pay": rng.normal(size=n), "points": rng.permutation(n), "code": rng.permutation(n), "born": days,
            "job": [f"j{i}" for i in rng.permutation(n) % 90], "icd": [f"E{10 + i % 80}" for i in rng.permutation(n)],
            "rank": [f"r{i}" for i in rng.permutation(n) % 90], "grade": [f"g{i}" for i in rng.permutation(n) % 90],
            "other": rng.normal(size=n),
        }
    )  # fmt: skip
    types = {"code": "nominal", "rank": "ordinal", "grade": "ordinal"}
    data = dc.Dataset(frame, types=types, hierarchies={"icd": dc.Hierarchy.masking()})
    data = dc.Dataset(frame, schema=data.schema.with_column("rank", order=tuple(f"r{i}" for i in range(90))))
    made = release([], data, [Requirement(dc.DistanceLinkage(columns=(name,)), at_most=0.0)])
    with pytest.raises(RequirementNotMet) as refused:
        made.require()
    said = str(refused.value).partition("less detail")[2].partition("leave it out")[0]
    named = {kind for kind in _TRIED if f"`{kind}`" in said}
    assert named > {"generalize"} and ("after writing a hierarchy" in said) == (name != "icd")
    for kind in named - ({"generalize"} if name != "icd" else set()):
        _TRIED[kind](name)(data, seed=1)


def test_a_plan_that_names_measures_hides_no_linkage(capsys: pytest.CaptureFixture[str]) -> None:
    """By the town hardly anybody is found, by all that is published many: the plan asked for neither."""
    made = release(
        [dc.AdditiveNoise(columns=["pay"], sd_share=0.01)], _exposed(), [_required(0.9, ("town",))], [dc.Mse()]
    )
    linked = {item.measure.columns: item for item in made.measured if isinstance(item.measure, dc.DistanceLinkage)}
    assert {"town", "job", "pay"} in map(set, linked) and not any(item.chosen for item in linked.values())
    assert [item.measure.kind for item in made.measured if item.chosen] == ["mse"]
    report(made, False, {})
    assert "no requirement limits it" in " ".join("".join(capsys.readouterr()).split())
    assert "none of them limits" in _badge(made)


def test_what_a_requirement_limits_is_not_called_unlimited(capsys: pytest.CaptureFixture[str]) -> None:
    """The columns of the requirement stand in another order than those of the measure."""
    steps = [dc.Shuffle(columns=["pay"], predictors=["town"])]
    measures = [dc.DistanceLinkage(columns=["town", "job", "pay"])]
    held = release(steps, _exposed(), [_required(0.9)], measures)
    assert held.measured[0].after.value > 0.3
    report(held, False, {})
    assert "no requirement limits it" not in capsys.readouterr().out
    assert "none of them limits" not in _badge(held)
    other = release(steps, _exposed(), [_required(0.9, ("town",))], measures)
    report(other, False, {})
    printed = capsys.readouterr()
    assert "warning: distance-linkage by town, job, pay finds" in printed.out + printed.err
    assert "none of them limits" in _badge(other)


def _badge(made: Release) -> str:
    return summary_of(made, *(scores_of(made, family, internal=True) for family in ("risk", "utility"))).verdict


@pytest.mark.parametrize("role", ["sensitive", "quasi"])
def test_numbers_of_people_under_another_role_stop_until_they_are_confirmed(tmp_path: Path, role: str) -> None:
    frame = pl.DataFrame({"PatNr": [70_000 + 13 * (i // 2) for i in range(200)], "sex": ["f", "m"] * 100})
    data = dc.Dataset(frame, roles={"PatNr": role, "sex": "quasi"})
    done = dc.Study(data, 2**127 + 5).apply(dc.Pram(columns=["sex"], keep_share=0.9))
    with pytest.raises(PlanError) as refused:
        done.release(tmp_path / "out", no_requirements=True)
    assert f"column 'PatNr' has the role {role} and looks like numbers of people" in str(refused.value)
    assert "confirmed_telling: [PatNr]" in str(refused.value) and not (tmp_path / "out").exists()
    done.release(tmp_path / "out", no_requirements=True, confirmed_telling=["PatNr"])
    unit = dc.Dataset(frame, roles={"PatNr": "unit", "sex": "quasi"})
    done = dc.Study(unit, 2**127 + 5).apply(dc.Pram(columns=["sex"], keep_share=0.9))
    done.release(tmp_path / "unit", no_requirements=True)
    assert set(dc.read(tmp_path / "unit" / "data.csv").frame["PatNr"]) == set(range(1, 101))


def test_numbers_of_people_without_a_role_stop_too() -> None:
    frame = pl.DataFrame({"PatNr": [70_000 + 13 * (i // 2) for i in range(200)], "sex": ["f", "m"] * 100})
    data = dc.Dataset(frame, roles={"PatNr": "other", "sex": "quasi"})
    said = unsaid(dc.Plan(schema=data.schema), data, made=True)
    assert any("column 'PatNr' has the role `other` and looks like unit" in one for one in said)
