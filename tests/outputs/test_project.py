"""Results of a research project: judged by their kind, remembered, signed; and attacked by somebody who keeps them."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.cli.app import run
from discretion.data.read import read
from discretion.errors import DataError, PlanError, RequirementNotMet
from discretion.outputs import OutputLimits, Request, ResearchProject
from discretion.outputs.judge import PrintedCells, given_back, printed_counts, trained_model, worst
from discretion.policy.policy import Policy

pd = pytest.importorskip("pandas")
pytest.importorskip("statsmodels")
pytest.importorskip("matplotlib")
CHECKER = "A. Checker, output checker"


def people(n: int = 600, seed: int = 1) -> Any:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(list("ABC"), n),
            "age": rng.integers(20, 90, n),
            "income": np.round(np.exp(rng.normal(10, 0.5, n)), 2),
            "ill": rng.integers(0, 2, n),
            "time": rng.integers(1, 40, n),
        }
    )


@pytest.fixture
def data() -> Any:
    return people()


@pytest.fixture
def project(tmp_path: Path, data: Any) -> ResearchProject:
    return ResearchProject(tmp_path / "project", data)


def verdicts(project: ResearchProject) -> list[str]:
    return [one.verdict for one in project.outputs.values()]


def rules(project: ResearchProject) -> set[str]:
    return {finding.rule for finding in list(project.outputs.values())[-1].findings}


# --- what is computed is what pandas and statsmodels compute ------------------------------------------------------


@pytest.mark.parametrize("margins", [False, True])
@pytest.mark.parametrize("normalize", [False, "index", "columns", "all"])
def test_crosstab_is_that_of_pandas(project: ResearchProject, data: Any, margins: bool, normalize: Any) -> None:
    if margins and normalize:
        pytest.skip("pandas leaves a margin out of normalized tables")
    ours = project.crosstab(data.sex, data.region, margins=margins, normalize=normalize)
    theirs = pd.crosstab(data.sex, data.region, margins=margins, normalize=normalize)
    assert np.allclose(ours.to_numpy(dtype=float), theirs.to_numpy(dtype=float))
    assert [str(name) for name in ours.columns] == [str(name) for name in theirs.columns]
    assert verdicts(project) == ["pass"]


@pytest.mark.parametrize("function", ["mean", "sum", "std", "median", "count"])
def test_pivot_table_is_that_of_pandas(project: ResearchProject, data: Any, function: str) -> None:
    ours = project.pivot_table(data, values="income", index="region", columns="sex", aggfunc=function, margins=True)
    theirs = pd.pivot_table(data, values="income", index="region", columns="sex", aggfunc=function, margins=True)
    assert np.allclose(ours.to_numpy(dtype=float), theirs.to_numpy(dtype=float))
    assert verdicts(project) == ["pass"]


def test_regressions_are_those_of_statsmodels(project: ResearchProject, data: Any) -> None:
    import statsmodels.api as sm

    design = sm.add_constant(data[["age"]])
    assert np.allclose(project.ols(data.income, design).params, sm.OLS(data.income, design).fit().params)
    assert np.allclose(project.logit(data.ill, design).params, project.logitr("ill ~ age", data).params, atol=1e-6)
    assert np.allclose(project.probit(data.ill, design).params, project.probitr("ill ~ age", data).params, atol=1e-6)
    assert np.allclose(project.olsr("income ~ age", data).params, sm.OLS(data.income, design).fit().params)
    assert verdicts(project) == ["pass"] * 6


# --- rules by kind ------------------------------------------------------------------------------------------------


def test_small_counts_fail_also_as_shares_and_weighted(tmp_path: Path, data: Any) -> None:
    data.loc[:4, "region"] = "D"
    weight = pd.Series(100.0, index=data.index, name="w")
    for options in ({}, {"normalize": "index"}, {"values": weight, "aggfunc": "sum"}):
        project = ResearchProject(tmp_path / str(len(options)) / str(options.get("normalize")), data)
        project.crosstab(data.sex, data.region, **options)
        assert verdicts(project) == ["fail"] and "threshold" in rules(project)


def test_people_are_counted_not_rows(tmp_path: Path) -> None:
    rows = pd.DataFrame({"person": np.repeat(np.arange(30), 10), "group": np.repeat(["a", "b"], [250, 50])})
    project = ResearchProject(tmp_path, rows, unit="person")
    project.crosstab(rows.group, rows.group)
    assert "threshold" in rules(project)  # fifty rows of five people


def test_class_disclosure_and_zeros(project: ResearchProject, data: Any) -> None:
    data["job"] = np.where(data.region == "A", "x", np.where(data.sex == "f", "x", "y"))
    project.crosstab(data.region, data.job)
    assert {"class disclosure", "zeros"} <= rules(project) and verdicts(project) == ["fail"]


def test_dominance_p_percent_and_same_values(project: ResearchProject, data: Any) -> None:
    data["sales"] = 1.0
    project.pivot_table(data, values="sales", index="region", aggfunc="mean")
    assert rules(project) == {"class disclosure"}
    data.loc[0, "sales"] = 1e6
    project.pivot_table(data, values="sales", index="region", aggfunc="sum")
    assert {"dominance", "p-percent"} <= rules(project)
    data["loss"] = -data.income
    project.pivot_table(data, values="loss", index="region", aggfunc="sum")
    assert rules(project) == {"negative values"} and verdicts(project)[-1] == "review"


def test_a_mean_of_zeros_and_ones_is_a_count(project: ResearchProject, data: Any) -> None:
    import statsmodels.api as sm

    data["rare"] = 0
    data.loc[:4, "rare"] = 1
    for function in ("mean", "sum", "std"):
        project.pivot_table(data, values="rare", index="sex", aggfunc=function)
        assert verdicts(project)[-1] == "fail" and "threshold" in rules(project)
    data["offset"] = 1000 + data.income * (data.index == 7)  # all have one value but one person
    project.pivot_table(data, values="offset", index="ill", aggfunc="mean")
    assert "threshold" in rules(project)
    project.ols(data.offset, sm.add_constant(data[["age"]]))
    assert rules(project) == {"threshold"}


def test_means_of_zeros_and_ones_are_compared_as_counts(project: ResearchProject, data: Any) -> None:
    project.pivot_table(data, values="ill", index="region", aggfunc="mean")
    other = data.ill.copy()
    other[data.index[data.ill == 1][:3]] = 0
    data["other"] = other
    project.pivot_table(data, values="other", index="region", aggfunc="mean")
    assert verdicts(project) == ["pass", "fail"] and rules(project) == {"differencing"}


def test_extremes_and_percentiles(project: ResearchProject, data: Any) -> None:
    project.pivot_table(data, values="income", index="region", aggfunc="max")
    project.pivot_table(data, values="ill", index="region", aggfunc="max")  # a value that many have
    project.describe(data, ["income"], by="region")
    project.pivot_table(data, values="income", index="region", aggfunc=[0.99])
    assert verdicts(project) == ["fail", "pass", "pass", "fail"] and rules(project) == {"extremes"}


def test_models_that_follow_a_few_people_fail(project: ResearchProject, data: Any) -> None:
    import statsmodels.api as sm

    few = data.head(12)
    project.ols(few.income, sm.add_constant(few[["age", "ill", "time"]]))
    assert "degrees of freedom" in rules(project)
    data["one"] = (data.index == 7).astype(float)
    fitted = project.ols(data.income, sm.add_constant(data[["age", "one"]]))
    told = fitted.params["const"] + fitted.params["age"] * data.age[7] + fitted.params["one"]
    assert told == pytest.approx(data.income[7]) and "threshold" in rules(project)
    project.olsr("income ~ C(region) * sex", data)
    assert rules(project) == {"saturated"} and verdicts(project)[-1] == "review"
    project.olsr("income ~ C(age)", data)
    assert "saturated" in rules(project) and verdicts(project)[-1] == "fail"
    data["sick"] = np.where(data.region == "A", 1, data.ill)
    data["in_a"] = (data.region == "A").astype(float)
    data.loc[data.index[:1], "in_a"] = 0.0
    from discretion.outputs.judge import regression

    design = np.column_stack([np.ones(len(data)), data.in_a, data.age])
    limits = project.limits
    found = regression(design, data.sick.to_numpy(float), np.arange(len(data)), limits, binary=True)
    assert [one.rule for one in found] == ["class disclosure"]


def test_odds_ratio(project: ResearchProject, data: Any) -> None:
    (a, b), (c, d) = pd.crosstab(data.sex, data.ill).to_numpy()
    assert project.odds_ratio(data.sex, data.ill) == pytest.approx(a * d / (b * c))
    with pytest.raises(DataError, match="two values"):
        project.odds_ratio(data.region, data.ill)
    assert len(project.outputs) == 1


def test_survival_steps(project: ResearchProject, data: Any) -> None:
    project.survival_table(data.time, data.ill)
    assert "threshold" in rules(project)
    project.remove_output("output_1")
    project.enable_suppression()
    table = project.survival_table(data.time, data.ill)
    assert verdicts(project) == ["pass"] and (table["num events"] >= 10).all() and (table["num at risk"] >= 10).all()
    at_risk = table["num at risk"].to_numpy()
    left = at_risk[:-1] - at_risk[1:] - table["num events"].to_numpy()[:-1]
    assert ((left == 0) | (left >= 10)).all()
    assert project.survival_plot(data.time, data.ill).is_file()


def test_pictures(project: ResearchProject, data: Any) -> None:
    from matplotlib.figure import Figure

    project.hist(data, "income", bins=[data.income.min(), 20000, data.income.max()])
    assert "extremes" in rules(project)
    project.enable_suppression()
    project.hist(data, "income")
    shown = project.outputs["output_2"].tables[0]
    assert verdicts(project)[-1] == "pass" and (shown["count"] >= 10).all()
    assert not set(shown["from"]) & set(data.income) and not set(shown["to"]) & set(data.income)
    for draw in ("scatter", "plot"):
        figure = Figure()
        getattr(figure.add_subplot(), draw)(data.age, data.income)
        project.figure(figure, data)
        assert rules(project) == {"single people"}
    with pytest.raises(PlanError, match="png"):
        project.hist(data, "age", filename="age.svg")


def test_trained_models(data: Any) -> None:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    limits = OutputLimits.of(dc.Policy.load("research-output"))
    x, y = data[["age", "income"]].to_numpy(), data.ill.to_numpy()
    found = {}
    for model in (
        SVC(), KNeighborsClassifier(), DecisionTreeClassifier(), DecisionTreeClassifier(min_samples_leaf=60),
        RandomForestClassifier(n_estimators=3), LogisticRegression(max_iter=1000),
    ):  # fmt: skip
        found[str(model)] = [(one.rule, one.outcome) for one in trained_model(model.fit(x, y), len(x), limits)]
    stored = [("stored records", "fail")]
    assert found["SVC()"] == stored and found["KNeighborsClassifier()"] == stored
    assert ("threshold", "fail") in found["DecisionTreeClassifier()"]
    assert found["DecisionTreeClassifier(min_samples_leaf=60)"] == [("trained model", "review")]
    assert ("threshold", "fail") in found["RandomForestClassifier(n_estimators=3)"]
    assert found["LogisticRegression(max_iter=1000)"] == [("trained model", "review")]


# --- differencing -------------------------------------------------------------------------------------------------


def test_a_mean_of_all_and_of_all_but_one(project: ResearchProject, data: Any) -> None:
    project.pivot_table(data, values="income", index="sex", aggfunc="mean")
    rest = data.drop(index=5)
    project.pivot_table(rest, values="income", index="sex", aggfunc="mean")
    assert verdicts(project) == ["pass", "fail"] and rules(project) == {"differencing"}
    first, second = (one.tables[0]["value"] for one in project.outputs.values())
    sex = data.sex[5]
    n = int((data.sex == sex).sum())
    assert first[sex] * n - second[sex] * (n - 1) == pytest.approx(data.income[5])  # what it would have told


def test_overlapping_age_groups_and_regression_samples(project: ResearchProject, data: Any) -> None:
    import statsmodels.api as sm

    for limit in (65, 66):
        part = data[data.age < limit]
        project.crosstab(part.sex, part.region)
    assert verdicts(project) == ["pass", "fail"]
    project.remove_output("output_2")
    part = data[(data.age < 65) | (data.index == data[data.age >= 65].index[0])]
    project.ols(part.income, sm.add_constant(part[["age"]]))
    assert verdicts(project) == ["pass", "fail"] and rules(project) == {"differencing"}


def test_a_group_that_one_person_dominates_follows_from_two_sums(project: ResearchProject, data: Any) -> None:
    old = data.index[data.age >= 65]
    data["sales"] = data.income
    data.loc[old[0], "sales"] = 1e5 * 60
    young, more = data[data.age < 65], data[(data.age < 65) | data.index.isin(old[:15])]
    assert project.pivot_table(young, values="sales", index="sex", aggfunc="sum") is not None
    sales = {"sales": data.sales.to_numpy()}
    groups = [
        project._groups(np.zeros(len(one), dtype=np.int64), project._places(one), ("all",), sales)
        for one in (young, more)
    ]
    from discretion.outputs.judge import differences

    told = differences([groups[1]], [groups[0]], project.unit, project.limits)
    assert [one.rule for one in told] == ["differencing"] and "dominates" in told[0].text
    seen: dict[bytes, Any] = {}
    for _ in range(2):  # the second time it is remembered, under the names that the results have then
        groups = [replace(one, output=f"{one.output}+") for one in groups]
        again = differences([groups[1]], [groups[0]], project.unit, project.limits, seen)
        assert [one.text for one in again] == [
            one.text for one in differences([groups[1]], [groups[0]], project.unit, project.limits)
        ]
    asked = len(seen)
    other = replace(project.limits, p_percent=project.limits.p_percent / 2)
    differences([groups[1]], [groups[0]], project.unit, other, seen)
    assert len(seen) > asked > 0  # other limits are another question


def test_the_same_variable_under_another_name_and_unit(project: ResearchProject, data: Any) -> None:
    old = data.index[data.age >= 65]
    data["sales"] = data.income
    data.loc[old[0], "sales"] = 1e5 * 60
    data["thousands"] = data.sales / 1000
    young, more = data[data.age < 65], data[(data.age < 65) | data.index.isin(old[:15])]
    for frame, name in ((young, "sales"), (more, "thousands")):
        project.pivot_table(frame, values=name, index="ill", aggfunc="mean")
    assert verdicts(project) == ["pass", "fail"]


CHANGED = {
    "one person": (lambda d: d.income.where(d.index != 5, d.income + 1000), "sex", True),
    "in another unit and level": (lambda d: (2 * d.income + 3).where(d.index != 5, 7.0), "sex", True),
    "by other groups": (lambda d: d.income.where(d.index != 5, 1e4), ["sex", "region"], True),
    "in one group": (
        lambda d: d.income * np.where(d.sex == "f", 1, 1.3) + 500 * (d.index == d.index[d.sex == "f"][0]), "sex", True,
    ),
    "one person makes most of it": (
        lambda d: d.income + np.where(d.index < 30, 1, 0) + np.where(d.index == 7, 900, 0), "sex", True,
    ),
    "sixty people": (lambda d: d.income + np.where(d.index < 60, d.age, 0), "sex", False),
    "another variable": (lambda d: d.age * 100.0, "sex", False),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGED)
def test_a_variable_that_differs_for_few_people_is_subtracted(case: str, project: ResearchProject, data: Any) -> None:
    change, by, fails = CHANGED[case]
    data["second"] = change(data)
    project.pivot_table(data, values="income", index="sex", aggfunc="mean")
    project.pivot_table(data, values="second", index=by, aggfunc="mean")
    assert verdicts(project) == ["pass", "fail" if fails else "pass"], project.print_outputs()
    if case == "one person":  # what it would have told
        first, second = (one.tables[0]["value"] for one in project.outputs.values())
        sex = data.sex[5]
        assert (second[sex] - first[sex]) * (data.sex == sex).sum() == pytest.approx(1000)


def test_somebody_with_missing_values_is_not_less_protected(project: ResearchProject, data: Any) -> None:
    data.loc[:99, "region"] = None  # a hundred people without a region: one more or less of them is still one person
    project.crosstab(data.sex, data.region)
    project.pivot_table(data, values="age", index="sex", aggfunc="count")
    rest = data.drop(index=5)
    project.pivot_table(rest, values="age", index="sex", aggfunc="count")
    assert verdicts(project) == ["pass", "pass", "fail"]


def test_missing_values_are_for_review(project: ResearchProject, data: Any) -> None:
    data.loc[:3, "region"] = None
    project.crosstab(data.sex, data.region)
    assert verdicts(project) == ["review"] and rules(project) == {"differencing"}


def test_the_project_remembers_over_sessions_and_forgets_what_was_refused(tmp_path: Path, data: Any) -> None:
    first = ResearchProject(tmp_path / "p", data)
    first.crosstab(data.sex, data.region)
    request = first.finalise(tmp_path / "request")
    part = data[data.index != 7]
    again = ResearchProject(tmp_path / "p", data)
    again.crosstab(part.sex, part.region)
    assert verdicts(again) == ["fail"]
    Request.open(request.folder).sign(tmp_path / "p", CHECKER, {"output_1": "refuse"})
    third = ResearchProject(tmp_path / "p", data.sample(frac=1, random_state=1))  # another order of the rows
    third.crosstab(part.sex, part.region)
    assert verdicts(third) == ["fail"] and "left out" in third.outputs["output_1"].reasons[0]  # of all: one is left out
    third.remove_output("output_1")
    even = data[data.index % 2 == 0]
    third.crosstab(even.sex, even.region)
    assert verdicts(third) == ["pass"]


def test_suppressed_cells_do_not_come_back_by_another_table(tmp_path: Path, data: Any) -> None:
    data.loc[data.index[(data.region == "A") & (data.sex == "f")][4:], "region"] = "B"  # four women in A
    data.loc[data.index[(data.region == "A") & (data.sex == "m")][30:], "region"] = "B"
    project = ResearchProject(tmp_path, data, suppress=True)
    table = project.crosstab(data.region, data.sex, margins=True)
    assert verdicts(project) == ["pass"] and pd.isna(table.loc["A", "f"]) and table.isna().sum().sum() == 3
    assert table.loc["All", "All"] == table.iloc[:-1, :-1].sum().sum()
    project.pivot_table(data, values="age", index="region", aggfunc="count")
    project.pivot_table(data, values="age", index="sex", aggfunc="count")
    assert verdicts(project) == ["pass", "pass", "fail"]  # all women minus those shown: the four


def naive_attack(tables: list[np.ndarray], n: int, least: int) -> bool:
    """Tell whether somebody who keeps all counts finds a group of 1 to least − 1 people: each piece by linear programs.

    The pieces are the groups of people who are in the same cells of all tables; unknown are their sizes, known the
    counts of all cells and the number of people.
    """
    from scipy.optimize import linprog

    pieces, of = np.unique(np.column_stack(tables), axis=0, return_inverse=True)
    truth = np.bincount(of.ravel())
    rows = [np.ones(len(pieces))]
    for place in range(len(tables)):
        rows += [(pieces[:, place] == code).astype(float) for code in np.unique(pieces[:, place]) if code >= 0]
    a = np.array(rows)
    b = a @ truth
    for piece in np.flatnonzero(truth < least):
        cost = np.zeros(len(pieces))
        cost[piece] = 1
        low = linprog(cost, A_eq=a, b_eq=b).fun
        high = -linprog(-cost, A_eq=a, b_eq=b).fun
        if high - low < 0.5:
            return True
    return False


def test_no_small_group_follows_from_results_that_passed() -> None:
    """Random sequences of filtered tables: where a naive attacker finds a small group, not all of them passed."""
    from discretion.outputs.judge import OutputGroups, differences

    limits = OutputLimits.of(dc.Policy.load("research-output"))
    attacked = stopped = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n = 120
        passed: list[OutputGroups] = []
        for number in range(4):
            group = rng.integers(0, rng.integers(1, 4), n)
            if passed and rng.random() < 0.6:  # nearly the same groups as before: a few people moved or left
                group = passed[-1].group.copy()
                few = rng.choice(n, rng.integers(1, 15), replace=False)
                group[few] = rng.integers(-1, 3, len(few))
            one = OutputGroups(f"o{number}", group, tuple("abc"), {})
            counts = np.unique(group, return_counts=True)[1]
            told = [
                finding for finding in differences([one], passed, np.arange(n), limits) if finding.outcome == "fail"
            ]
            if told or counts.min() < limits.min_count:
                stopped += 1
                continue
            passed.append(one)
        if passed:
            attacked += 1
            assert not naive_attack([one.group for one in passed], n, limits.min_count)
    assert attacked >= 20 and stopped >= 20


# --- rows, outputs, requests ----------------------------------------------------------------------------------------


def test_rows_must_be_known(tmp_path: Path, data: Any) -> None:
    project = ResearchProject(tmp_path / "a", data)
    part = data[data.age > 40].reset_index(drop=True)
    with pytest.raises(DataError, match="numbered anew"):
        project.crosstab(part.sex, part.region)
    with pytest.raises(DataError, match="600 rows"):
        project.crosstab([1, 2], data.sex)
    with pytest.raises(DataError, match="does not have"):
        project.crosstab(data.sex.set_axis(range(1000, 1600)), data.region.set_axis(range(1000, 1600)))
    project.crosstab(data.sex.to_list(), data.region.to_numpy())
    frame = pl.from_pandas(data).with_row_index("id")
    keyed = ResearchProject(tmp_path / "b", frame, id="id")
    assert keyed.pivot_table(frame.filter(pl.col("age") > 40), values="income", index="sex").shape == (2, 1)
    with pytest.raises(DataError, match="missing"):
        keyed.pivot_table(frame.drop("id"), values="income", index="sex")


def test_a_request_is_signed_and_changes_are_noticed(tmp_path: Path, project: ResearchProject, data: Any) -> None:
    project.crosstab(data.sex, data.region)
    project.rename_output("output_1", "by_region")
    project.add_comments("by_region", "table 1 of the paper")
    project.crosstab(data.region, data.age)
    with pytest.raises(PlanError, match="output_2"):
        project.finalise(tmp_path / "request")
    project.add_exception("output_2", "the ages are public")
    note = tmp_path / "note.txt"
    note.write_text("n")
    project.custom_output(note, "a note")
    request = project.finalise(tmp_path / "request")
    assert request.verdicts == {"by_region": "pass", "output_2": "fail", "output_3": "review"}
    text = (request.folder / "review.md").read_text()
    assert "the ages are public" in text and "table 1 of the paper" in text
    with pytest.raises(RequirementNotMet, match="nobody has signed"):
        request.export(tmp_path / "export")
    with pytest.raises(RequirementNotMet, match="may not waive"):
        request.sign(project.memory.folder, "Somebody, researcher", {"output_2": "release"})
    place = request.folder / "by_region.csv"
    before = place.read_bytes()
    place.write_bytes(before + b" ")
    with pytest.raises(DataError, match=r"by_region\.csv was changed"):
        request.sign(project.memory.folder, CHECKER)
    place.write_bytes(before)
    signed = request.sign(project.memory.folder, CHECKER, {"output_2": "release"})
    assert signed["decisions"] == {"by_region": "release", "output_2": "release", "output_3": "refuse"}
    with pytest.raises(DataError, match="signed already"):
        request.sign(project.memory.folder, CHECKER)
    assert [path.name for path in request.export(tmp_path / "export")] == ["by_region.csv", "output_2.csv"]
    (request.folder / "manifest.json").write_text((request.folder / "manifest.json").read_text() + "\n")
    assert request.changes() == ["manifest.json was changed after it was signed"]


def test_on_the_command_line(
    tmp_path: Path, project: ResearchProject, data: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    project.crosstab(data.sex, data.region)
    project.crosstab(data.region, data.age)
    project.add_exception("output_2", "the ages are public")
    folder = str(project.finalise(tmp_path / "request").folder)
    assert run(["check-output", folder, "--quiet"]) == 4
    home = str(project.memory.folder)
    assert run(["check-output", folder, "--sign", CHECKER]) == 2
    done = run(
        ["check-output", folder, "--project", home, "--sign", CHECKER, "--export", str(tmp_path / "x"), "--json"]
    )
    capsys_text = capsys.readouterr().out
    content = json.loads(capsys_text[capsys_text.index("{\n") :])
    assert done == 0 and content["signature"]["decisions"] == {"output_1": "release", "output_2": "refuse"}
    table = tmp_path / "table.csv"
    table.write_text("sex,A,B\nf,12,3\nm,20,0\n")
    assert run(["check-output", str(table), "--quiet"]) == 4
    table.write_text("sex,A,B\nf,12,30\nm,20,11\n")
    assert run(["check-output", str(table), "--quiet"]) == 4  # a table made elsewhere is never passed by itself
    (tmp_path / "request" / "more.txt").write_text("x")
    assert run(["check-output", folder]) == 3


def test_rounding_is_not_taken_for_safe(project: ResearchProject, data: Any) -> None:
    project.enable_rounding(5)
    table = project.crosstab(data.region, data.age)
    assert (table.to_numpy(dtype=float) % 5 == 0).all() and verdicts(project) == ["review"]
    project.disable_rounding()


def test_the_policy_sets_the_numbers(tmp_path: Path, data: Any) -> None:
    text = "scenario: research-output\nextends: research-output\noutputs: {min_count: 150, why: {min_count: small}}\n"
    (tmp_path / "strict.yaml").write_text(text)
    project = ResearchProject(tmp_path / "p", data, policy=tmp_path / "strict.yaml")
    project.crosstab(data.sex, data.region)
    assert verdicts(project) == ["fail"] and project.limits.dominance_percent == 50


def test_every_combination_of_small_tables_is_hidden_or_large() -> None:
    from discretion.outputs.judge import complementary

    for counts in itertools.product(range(5), repeat=4):
        people = np.array(counts)
        hidden = complementary(people, 3, (people > 0) & (people < 3))
        shown = people[~hidden]
        assert all(one == 0 or one >= 3 for one in shown)


PRINTED = {
    "one hidden cell": ("town,f,m,Total\nA,x,40,43\nB,30,50,80\n", "fail", "A / f"),
    "two hidden cells of few people": ("town,f,m,d,All\nA,,,40,47\nB,30,50,20,100\n", "fail", "A / f; A / m"),
    "protected": ("town,f,m,Total\nA,x,x,90\nB,x,x,80\nTotal,70,100,170\n", "review", ""),
    "told by two lines": ("town,f,m,d,Total\nA,x,x,20,60\nB,x,30,25,x\nTotal,21,65,45,131\n", "fail", ""),
    "a total without a name": ("town,f,m,both\nA,*,40,44\nB,30,50,80\nC,20,21,41\n", "fail", "A / f"),
    "in one column": ("town,sex,people\nA,f,\nA,m,40\nA,total,43\nB,f,20\nB,m,30\nB,total,50\n", "fail", "A / f"),
    "a large one": ("town,f,m,Total\nA,x,40,90\nB,30,50,80\n", "review", ""),
    "below ten as text": ("town,f,m,Total\nA,<10,40,43\nB,30,50,80\n", "fail", "A / f"),
    "no totals": ("town,f,m\nA,x,40\nB,30,50\n", "review", ""),
}


@pytest.mark.parametrize("case", PRINTED)
def test_hidden_counts_that_a_printed_table_gives_back(case: str, tmp_path: Path) -> None:
    text, outcome, named = PRINTED[case]
    file = tmp_path / "table.csv"
    file.write_text(text)
    found = printed_counts(read(str(file)).frame, OutputLimits.of(Policy.load("research-output")))
    assert worst(found) == outcome, found
    told = [one.text for one in found if one.rule == "differencing"]
    assert len(told) == (outcome == "fail") and all(named in one for one in told), told
    assert run(["check-output", str(file), "--quiet"]) == 4


def test_what_margins_give_back_agrees_with_an_enumeration() -> None:
    limits = OutputLimits(3, 1, 50, 10, 10, 90)
    rng = np.random.default_rng(8)
    seen = set()
    for _ in range(60):
        counts = rng.integers(0, 5, (2, 3))
        hidden = rng.random((2, 3)) < 0.5
        shown = {
            f"c{j}": [None if hidden[i, j] else int(counts[i, j]) for i in (0, 1)] + [int(counts[:, j].sum())]
            for j in range(3)
        }
        totals = [*counts.sum(axis=1).tolist(), int(counts.sum())]
        frame = pl.DataFrame({"town": ["A", "B", "Total"], **shown, "Total": totals})
        possible = []
        for values in itertools.product(range(9), repeat=int(hidden.sum())):
            tried = counts.copy()
            tried[hidden] = values
            if (tried.sum(axis=0) == counts.sum(axis=0)).all() and (tried.sum(axis=1) == counts.sum(axis=1)).all():
                possible.append(values)
            if hidden.sum() > 5:
                break
        if hidden.sum() > 5:
            continue
        table = np.array(possible)
        alone = any(0 < column[0] < 3 and (column == column[0]).all() for column in table.T) if hidden.any() else False
        lines = [(counts * hidden).sum(axis=axis) for axis in (0, 1)]
        together = any(0 < total < 3 for line in lines for total in line)
        told = bool(given_back(PrintedCells.of(frame), limits))
        assert told == (alone or together)
        seen.add(told)
    assert seen == {True, False}
