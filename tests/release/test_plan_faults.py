"""Faults of a plan: all at once, each with its line, what is allowed, and the nearest right word."""

from __future__ import annotations

from pathlib import Path

import pytest

import discretion as dc
from discretion.errors import DataError, PlanError
from tests.release.survey import PLAN, line_of, put_survey, survey, without


def faults(tmp_path: Path, plan: str, name: str = "plan.yaml") -> tuple[str, ...]:
    put_survey(tmp_path)
    (tmp_path / name).write_text(plan, encoding="utf-8")
    with pytest.raises(PlanError) as caught:
        dc.Plan.load(tmp_path / name)
    return caught.value.problems


WRONG = """\
titel: A survey
data: {path: survey.csv, delimeter: ;}
roles:
  person_id: identifer
  age: [identifier, quasi]
types:
  age: continous
hierarchies:
  region: regions.csv
  sex: {maskng: {}}
orders: {age: 5}
steps:
  - rank-swp: {percent: 10}
  - rank-swap: {percnt: 10}
  - rank-swap: {columns: [income], percent: 0}
  - k-anonymity: {k: 3}
  - generalize: {levels: {age: 1}, publish: perhaps}
measures:
  - il1z
requirements:
  - il1s: {columns: [income]}
  - k-anonymity: {k: 3, at_most: 5}
  - distance-linkage: {at_most: low}
  - k-anonymity: {k: 0}
output: {folder: out, format: cvs, jornal: x}
confirmed: maybe
"""

EXPECTED = [
    ("titel", "did you mean 'title'"),
    ("data:", "did you mean 'delimiter'"),
    ("person_id:", "did you mean 'identifier'"),
    ("age: [", "'identifier' and 'quasi' contradict"),
    ("age: cont", "did you mean 'continuous'"),
    ("region:", "no hierarchy file"),
    ("sex:", "did you mean 'masking'"),
    ("orders:", "from low to high"),
    ("- rank-swp", "did you mean 'rank-swap'"),
    ("- rank-swap: {percnt", "did you mean 'percent'"),
    ("- rank-swap: {percnt", "'percent' is required"),
    ("- rank-swap: {columns", "greater than 0, got 0"),
    ("- k-anonymity: {k: 3}", "'k-anonymity' is a model; a method is needed"),
    ("- generalize", "expected true or false"),
    ("- il1z", "did you mean 'il1s'"),
    ("- il1s", "needs `at_most` or `at_least`"),
    ("- k-anonymity: {k: 3, at_most", "takes no `at_most`"),
    ("- distance-linkage", "at_most must be a number"),
    ("- k-anonymity: {k: 0}", "greater than or equal to 1"),
    ("output:", "did you mean 'csv'"),
    ("output:", "did you mean 'journal'"),
    ("confirmed:", "expected true or false"),
]


def test_every_fault_at_once_with_its_line_and_a_hint(tmp_path: Path) -> None:
    problems = list(faults(tmp_path, WRONG))
    for start, hint in EXPECTED:
        place = f"plan.yaml, line {line_of(WRONG, start)} ("
        found = [p for p in problems if p.startswith(place) and hint in p]
        assert found, (place, hint, problems)
        problems.remove(found[0])
    assert problems == []


def test_json_faults_have_lines_too(tmp_path: Path) -> None:
    text = '{\n\t"roles": {\n\t\t"age": "quasy"\n\t},\n\t"steps": [{"mdaw": {}}]\n}\n'
    first, second = faults(tmp_path, text, "plan.json")
    assert first.startswith("plan.json, line 3 (roles.age)") and second.startswith("plan.json, line 5 (steps.1")


def test_toml_faults_name_the_place(tmp_path: Path) -> None:
    (problem,) = faults(tmp_path, 'steps = ["mdav", "mdaw"]\n', "plan.toml")
    assert problem == "plan.toml (steps.2): unknown part 'mdaw'; did you mean 'mdav'?"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("roles:\n  age: quasi\n  age: sensitive\n", "line 3: 'age' is given twice"),
        ("data: a.csv\nsteps: []\ndata: b.csv\n", "line 3: 'data' is given twice"),
        ("roles:\n\tage: quasi\n", "line 2: not valid YAML"),
        ("steps: [mdav\n", "not valid YAML"),
        ("title: !secret x\n", "line 1: could not determine a constructor"),
        ("steps: &again [*again]\n", "nested too deeply"),
        ("- mdav\n", "a plan is a mapping"),
        ("", "the plan is empty"),
        ("steps: mdav\n", "line 1 (steps): expected a list"),
        ("steps:\n  - {mdav: {k: 3}, rank-swap: {percent: 1}}\n", "a mapping of 2 keys (mdav, rank-swap)"),
        ("steps:\n  - mdav: 3\n", "expected a mapping of fields, got int 3"),
        ("roles: [age]\n", "expected a mapping of column names"),
        ("data: [a.csv]\n", "expected a path"),
        ("output: 7\n", "expected a folder"),
        ("seed_file: 12345\n", "line 1 (seed_file): expected text"),
    ],
)
def test_files_that_are_no_plans(tmp_path: Path, text: str, words: str) -> None:
    assert any(words in problem for problem in faults(tmp_path, text)), faults(tmp_path, text)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("plan.json", '{"steps": [}', "plan.json, line 1: not valid JSON"),
        ("plan.json", '{"a": 1,\n "a": 2}', "plan.json, line 2: 'a' is given twice"),
        ("plan.json", "steps: [mdav]", "not valid JSON"),
        ("plan.toml", "a = \n", "plan.toml: not valid TOML"),
        ("plan.txt", "a: 1\n", "ends in .yaml, .yml, .toml or .json"),
    ],
)
def test_other_formats(tmp_path: Path, name: str, text: str, words: str) -> None:
    assert any(words in problem for problem in faults(tmp_path, text, name))


def test_missing_and_unreadable_plan_files(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no plan file"):
        dc.Plan.load(tmp_path / "none.yaml")
    (tmp_path / "plan.yaml").write_bytes(b"title: caf\xe9\n")
    with pytest.raises(PlanError, match="must be UTF-8"):
        dc.Plan.load(tmp_path / "plan.yaml")


@pytest.mark.parametrize("seed_file", ["out/seed", "out/deep/seed", "x/../out/seed"])
def test_a_seed_in_the_public_folder_is_refused(tmp_path: Path, seed_file: str) -> None:
    (problem,) = faults(tmp_path, PLAN + f"seed_file: {seed_file}\n")
    assert "seed is a secret" in problem and f"line {line_of(PLAN + 'seed_file', 'seed_file')}" in problem


# --- faults that show when the plan meets its data -------------------------------------------------------------


def run(tmp_path: Path, plan: str) -> dc.Release:
    return dc.Plan.load(put_survey(tmp_path, plan)).run(seed=1)


def test_roles_must_be_given_and_confirmed(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="confirmed: false"):
        run(tmp_path, PLAN + "confirmed: false\n")
    with pytest.raises(PlanError, match="gives no roles"):
        run(tmp_path, "data: survey.csv\nsteps: [drop-identifiers]\n")
    assert not (tmp_path / "out").exists()


def test_a_column_that_does_not_exist_is_suggested(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="unknown column 'incom'; did you mean 'income'"):
        run(tmp_path, PLAN.replace("  income: sens", "  incom: sens"))
    with pytest.raises(PlanError, match="unknown column 'saving'; did you mean 'savings'"):
        run(tmp_path, PLAN.replace("columns: savings", "columns: saving"))


def test_a_text_column_given_to_a_numeric_method(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column 'sex' is text; a numeric column is needed"):
        run(tmp_path, PLAN.replace("columns: savings", "columns: sex"))


@pytest.mark.parametrize("listed", ["", "types: {person_id: nominal}\n"], ids=["nowhere", "under types only"])
def test_an_identifier_without_a_role_is_refused(tmp_path: Path, listed: str) -> None:
    plan = without(PLAN, "person_id:") + listed
    with pytest.raises(PlanError, match="column 'person_id' has no role and looks like an identifier"):
        run(tmp_path, plan)
    assert not (tmp_path / "out").exists()


def test_a_value_the_hierarchy_lacks_is_named_before_any_step(tmp_path: Path) -> None:
    path = put_survey(tmp_path)
    (tmp_path / "region.csv").write_text("coast;land\nplain;land\n")
    with pytest.raises(DataError, match=r"column 'region'.*no parent for 1 of 3 values: 'hills'"):
        dc.Plan.load(path).run(seed=1)


def test_no_data_and_no_such_data(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="the plan names no data"):
        run(tmp_path, without(PLAN, "data:"))
    with pytest.raises(DataError, match=r"servey\.csv"):
        run(tmp_path, PLAN.replace("data: survey", "data: servey"))


def test_the_label_of_a_column_is_no_role(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    path = put_survey(tmp_path, without(PLAN.replace("survey.csv", "survey.sav"), "person_id:"))
    labels = {"person_id": "Number of the person", "age": "Age in years"}
    pyreadstat.write_sav(survey().to_pandas(), str(tmp_path / "survey.sav"), column_labels=labels)
    with pytest.raises(PlanError, match="column 'person_id' has no role and looks like an identifier"):
        dc.Plan.load(path).run(seed=1)
