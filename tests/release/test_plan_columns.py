"""Columns that a plan names and the data does not have: all at once, with their line, before any work is done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import polars as pl
import pytest

import discretion as dc
from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.errors import PlanError
from discretion.method import Decision, Method
from discretion.part import Columns, all_parts
from discretion.release.plan import Plan, Step
from discretion.release.plan_columns import BY_COLUMN, ONE_COLUMN, column_faults, named_columns
from tests.release.survey import PLAN, line_of, put_survey, survey

WRONG = """\
data: survey.csv
roles: {person_id: identifier, age: quasi, sex: quasi, region: [quasi, stratum], income: sensitive, savings: sensitive}
hierarchies:
  age: {intervals: {width: 10, levels: 4}}
steps:
  - drop-identifiers
  - rank-swap: {columns: [incom], percent: 10}
  - generalize:
      levels:
        age: 1
        regoin: 1
  - mdav:
      k: 3
      columns:
        - income
        - saving
  - top-code: {column: incme, quantile: 0.9}
  - additive-noise: {columns: income, sd_share: 0.1, by: sexx, lower: {savigs: 0}}
  - local-suppression:
      k: 3
      models:
        - distinct-l-diversity: {l: 2, sensitive: incomes}
      subsets:
        - {columns: [age, sx], k: 2}
measures:
  - il1s: {columns: [inc]}
  - distance-linkage: {columns: [income], intruder: {columns: [imcome]}}
  - regression-utility: {target: svings}
requirements:
  - distance-linkage: {columns: [qqq], at_most: 0.1}
  - k-anonymity: {k: 2, columns: [age, sexe]}
output: out
"""

EXPECTED = [
    ("- rank-swap", "steps.2.rank-swap.columns.1", "'incom'; did you mean 'income'?"),
    ("regoin:", "steps.3.generalize.levels.regoin", "'regoin'; did you mean 'region'?"),
    ("- saving", "steps.4.mdav.columns.2", "'saving'; did you mean 'savings'?"),
    ("- top-code", "steps.5.top-code.column", "'incme'; did you mean 'income'?"),
    ("- additive-noise", "steps.6.additive-noise.by", "'sexx'; did you mean 'sex'?"),
    ("- additive-noise", "steps.6.additive-noise.lower.savigs", "'savigs'; did you mean 'savings'?"),
    ("- distinct-l", "steps.7.local-suppression.models.1.distinct-l-diversity.sensitive", "'incomes'"),
    ("- {columns: [age, sx]", "steps.7.local-suppression.subsets.1.columns.2", "'sx'; did you mean 'sex'?"),
    ("- il1s", "measures.1.il1s.columns.1", "'inc'; did you mean 'income'?"),
    ("- distance-linkage: {columns: [income]", "measures.2.distance-linkage.intruder.columns.1", "'imcome'"),
    ("- regression", "measures.3.regression-utility.target", "'svings'; did you mean 'savings'?"),
    ("- distance-linkage: {columns: [qqq]", "requirements.1.distance-linkage.columns.1", "'qqq'; known: age"),
    ("- k-anonymity", "requirements.2.k-anonymity.columns.2", "'sexe'; did you mean 'sex'?"),
]


def put(tmp_path: Path, plan: str) -> Plan:
    return dc.Plan.load(put_survey(tmp_path, plan))


def faults(plan: Plan) -> tuple[str, ...]:
    with pytest.raises(PlanError) as caught:
        plan.run(seed=1)
    return caught.value.problems


def test_every_unknown_column_at_once_with_line_step_and_hint(tmp_path: Path) -> None:
    problems = list(faults(put(tmp_path, WRONG)))
    for start, place, words in EXPECTED:
        begin = f"plan.yaml, line {line_of(WRONG, start)} ({place}): unknown column {words}"
        found = [problem for problem in problems if problem.startswith(begin)]
        assert found, (begin, problems)
        problems.remove(found[0])
    assert problems == []


def test_roles_and_parts_are_reported_together(tmp_path: Path) -> None:
    text = PLAN.replace("  income: sens", "  incme: sens").replace("  region: region.csv", "  regoin: region.csv")
    text = text.replace("columns: savings", "columns: svings")
    problems = faults(put(tmp_path, text))
    assert [problem.partition(": ")[0] for problem in problems] == [
        f"plan.yaml, line {line_of(text, 'incme')} (roles.incme)",
        f"plan.yaml, line {line_of(text, 'regoin')} (hierarchies.regoin)",
        f"plan.yaml, line {line_of(text, '- additive-noise')} (steps.3.additive-noise.columns)",
    ]
    assert "did you mean 'income'" in problems[0]


def test_a_frame_is_checked_as_a_file_is(tmp_path: Path) -> None:
    plan = put(tmp_path, WRONG)
    for data in (survey(), survey().to_pandas(), survey().to_arrow()):
        with pytest.raises(PlanError) as caught:
            plan.run(data)
        assert len(caught.value.problems) == len(EXPECTED)
    with pytest.raises(PlanError) as caught:
        plan.run(survey().rename({"age": "years"}))
    assert "roles.age" in caught.value.problems[0] and len(caught.value.problems) > len(EXPECTED)


def test_a_good_plan_has_no_faults(tmp_path: Path) -> None:
    assert column_faults(put(tmp_path, PLAN), survey().columns) == []


def test_a_plan_built_in_python_names_its_steps() -> None:
    data = Dataset(survey(), roles={"person_id": "identifier", "income": "sensitive"})
    plan = dc.Study(data, seed=1).apply(dc.DropIdentifiers()).apply(dc.RankSwap(columns=["income"], percent=5)).plan()
    wrong = replace(plan.steps[1], method=dc.RankSwap(columns=["incom"], percent=5))
    with pytest.raises(PlanError) as caught:
        replace(plan, steps=(plan.steps[0], wrong)).run(data)
    assert caught.value.problems == (
        "plan (steps.2.rank-swap.columns): unknown column 'incom'; did you mean 'income'?",
    )


# --- steps that take columns out ------------------------------------------------------------------------------------


def test_a_column_that_a_step_took_out_is_not_there_later(tmp_path: Path) -> None:
    text = """\
data: survey.csv
roles: {person_id: identifier, age: quasi, income: sensitive}
steps:
  - drop-identifiers
  - drop-identifiers: {columns: savings}
  - rank-swap: {columns: [income, savings], percent: 10}
measures:
  - il1s: {columns: [savings]}
  - sample-uniqueness: {columns: [person_id]}
requirements:
  - k-anonymity: {k: 1, columns: [savings]}
"""
    problems = faults(put(tmp_path, text))
    where = [f"plan.yaml, line {line_of(text, start)}" for start in ("- rank-swap", "- il1s", "- samp", "- k-a")]
    assert [problem.partition(" (")[0] for problem in problems] == where
    assert "column 'savings' was taken out by step 2 (drop-identifiers)" in problems[0]
    assert "column 'person_id' was taken out by step 1 (drop-identifiers)" in problems[2]


def test_what_may_look_at_the_original_may_name_a_column_taken_out(tmp_path: Path) -> None:
    survey().write_csv(tmp_path / "known.csv")
    text = PLAN.replace("steps:\n", "steps:\n  - drop-identifiers\n").replace(
        "  - sample-uniqueness\n",
        "  - distance-linkage: {columns: [income], intruder: {data: known.csv, id: person_id}}\n",
    )
    assert "distance-linkage" in {item.measure.kind for item in put(tmp_path, text).run(seed=1).measured}


def test_pseudonymized_columns_stay(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("a secret of at least sixteen bytes")
    text = PLAN.replace("steps:\n", "steps:\n  - pseudonymize: {key_file: key}\n")
    text = text.replace("  - sample-uniqueness\n", "  - sample-uniqueness: {columns: [person_id]}\n")
    assert put(tmp_path, text).run(seed=1).measured[0].after.value == 1.0


def test_the_household_role_may_stand_in_by() -> None:
    frame = pl.DataFrame({"home": [1, 1, 2, 3], "income": [1.0, 1.0, 3.0, 4.0]})
    content = {
        "roles": {"home": "household", "income": "sensitive"},
        "steps": [{"rank-swap": {"columns": ["income"], "percent": 50, "by": "household"}}],
    }
    assert column_faults(dc.Plan.from_dict(content), frame.columns) == []
    content["roles"] = {"income": "sensitive"}
    assert len(column_faults(dc.Plan.from_dict(content), frame.columns)) == 1


class Widen(Method):
    """Add a column."""

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        """Add it."""
        return data.with_columns({"extra": data.number("income") + 1})


def test_after_a_method_of_another_package_only_the_run_can_tell() -> None:
    plan = dc.Plan.from_dict(
        {
            "roles": {"person_id": "identifier", "income": "sensitive"},
            "steps": [{"rank-swap": {"columns": ["extra"], "percent": 10}}],
            "requirements": [{"k-anonymity": {"k": 1, "columns": ["extra"]}}],
        }
    )
    assert len(column_faults(plan, survey().columns)) == 2
    wider = replace(plan, steps=(Step(Widen(), "1-widen"), *plan.steps))
    assert column_faults(wider, survey().columns) == []
    assert wider.run(survey(), seed=1).findings[0].holds


# --- tuning ----------------------------------------------------------------------------------------------------------


def test_the_tune_section_is_checked(tmp_path: Path) -> None:
    text = (
        PLAN[: PLAN.index("steps:")]
        + """\
steps:
  - drop-identifiers
tune:
  methods:
    - rank-swap: {columns: [incom], percent: {grid: [1, 5]}}
    - - top-code: {column: {grid: [income, svings]}, quantile: 0.9}
      - rank-swap: {columns: [person_id], percent: 5}
  risk:
    - distance-linkage: {columns: [incme]}
  utility: {il1s: {columns: [savngs]}}
  max_risk: 0.4
"""
    )
    with pytest.raises(PlanError) as caught:
        put(tmp_path, text).read()
    found = [problem.partition(": ")[0] for problem in caught.value.problems]
    starts = ("- rank-swap: {columns: [incom]", "- - top", "- rank-swap: {columns: [pers", "- dist", "util")
    places = (
        "methods.1.rank-swap.columns.1", "methods.2.1.top-code.column", "methods.2.2.rank-swap.columns.1",
        "risk.1.distance-linkage.columns.1", "utility.il1s.columns.1",
    )  # fmt: skip
    assert found == [
        f"plan.yaml, line {line_of(text, start)} (tune.{place})" for start, place in zip(starts, places, strict=True)
    ]
    assert "'person_id' was taken out by step 1 (drop-identifiers)" in caught.value.problems[2]


# --- which fields name columns -----------------------------------------------------------------------------------

NO_COLUMN = {"key_file", "frequency", "label", "at", "labels", "groups", "result", "rules"}
"""fields with text that name no column of the data"""


def _may_hold_text(annotation: object) -> bool:
    """Tell whether text that is not of the type `Columns` (which declares itself) may stand in a field."""
    if annotation == Columns or get_origin(annotation) is Literal:
        return False
    return annotation is str or any(_may_hold_text(inner) for inner in get_args(annotation))


def test_every_field_with_text_is_known_to_name_columns_or_not() -> None:
    for part in all_parts("method", "model", "risk", "utility"):
        for name, field in part.model_fields.items():
            if _may_hold_text(field.annotation) and get_args(Columns)[1] not in field.metadata:
                assert name in {*ONE_COLUMN, *BY_COLUMN, *NO_COLUMN}, (part.kind, name, field.annotation)


@pytest.mark.parametrize(
    ("part", "names"),
    [
        (dc.Mdav(blocks=[["a", "b"], ["c"]], k=3), {"a", "b", "c"}),
        (dc.LocalSuppression(k=3, columns=["a"], importance={"b": 2}, linked={"c": ["d", "e"]}), set("abcde")),
        (dc.Pram(columns="a", matrix={"a": {"x": {"x": 1.0}}}), {"a"}),
        (dc.RandomizedResponse(columns=["a"], truth_share=0.5, answers={"b": ["x", "y"]}), {"a", "b"}),
        (dc.AtHouseholdLevel(method=dc.Sample(share=0.5, weight="w"), household="h"), {"w", "h"}),
        (dc.AdditiveNoise(columns=["a"], sd_share=0.1, lower=0), {"a"}),
        (dc.Sample(share=0.5, household=True), set()),
        (dc.Sample(share=0.5, household="h"), {"h"}),
        (dc.GroupCategories(column="a", groups={"x": ["y"]}), {"a"}),
        (dc.LogLinearRisk(columns=["a", "b"], interactions=[["a", "c"]], share=0.1), {"a", "b", "c"}),
        (dc.DistanceLinkage(columns=["a"], intruder={"schema": {"theirs": "b"}}), {"a", "b"}),
        (dc.PrivateMarginals(epsilon=1, domain={"a": ["x"], "b": ["x"]}, pairs=[["a", "b"]], drop="c"), set("abc")),
        (dc.IntegralPrivacy(result="mean", columns=["a"], grid={"*": 1, "b": 2}), {"a", "b"}),
        (dc.IntervalRisk(), set()),
    ],
)
def test_columns_named_by_a_part(part: Any, names: set[str]) -> None:
    assert {named.column for named in named_columns(part)} == names


def test_importance_outside_the_columns_of_a_search_names_the_line(tmp_path: Path) -> None:
    plan = """\
data: survey.csv
roles: {person_id: identifier, age: quasi, sex: quasi, region: quasi, income: sensitive, savings: sensitive}
steps:
  - drop-identifiers
  - optimal-generalization:
      models: [k-anonymity: {k: 3}]
      importance:
        age: 1
        income: 2
requirements: none
"""
    path = put_survey(tmp_path, plan)
    said = column_faults(Plan.load(path), survey().columns)
    place = f"line {line_of(plan, 'income: 2')} (steps.2.optimal-generalization.importance.income)"
    assert len(said) == 1 and place in said[0]
    assert "column 'income' is not among the columns of the search (age, sex, region)" in said[0]
    (tmp_path / "plan.yaml").write_text(plan.replace("models:", "columns: [age, income]\n      models:"))
    assert not column_faults(Plan.load(path), survey().columns)
