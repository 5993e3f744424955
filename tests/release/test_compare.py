"""Two releases side by side: the figures are those of the measures, and the verdict follows from them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import discretion as dc
from discretion.release.compare import (
    ComparedRelease,
    Comparison,
    comparable_measures,
    data_file,
    match,
    plan_beside,
    read_releases,
    short_names,
)
from discretion.release.report.wording import percent
from discretion.release.tune_scales import Figure
from tests.release.survey import PLAN, ROLES, put_survey, survey, without

FEW = {name: role for name, role in ROLES.items() if name not in ("person_id", "savings")}
"""Roles of a release in which nothing tells the rows."""

RISK, OTHER = dc.RankInterval(columns=["income"], percent=5), dc.IntervalRisk(columns=["income"])
LOSS = dc.VariableChange(columns=["income"])


@pytest.fixture
def people() -> dc.Dataset:
    return dc.Dataset(survey(200), roles=ROLES)


def swapped(people: dc.Dataset, percent: float, seed: int = 1) -> dc.Dataset:
    data: dc.Dataset = dc.RankSwap(columns=["income"], percent=percent)(people, seed=seed)
    return data


def made(**figures: tuple[float, float]) -> Comparison:
    """A comparison with given gains and losses."""
    risk = ComparedRelease(RISK, 1.0, {name: Figure(pair[0], 0.0) for name, pair in figures.items()}, {})
    loss = ComparedRelease(LOSS, None, {name: Figure(pair[1]) for name, pair in figures.items()}, {})
    return Comparison((risk, loss), tuple(figures), dict.fromkeys(figures, 10), dict.fromkeys(figures, ()))


def test_figures_are_those_of_the_measures(people: dc.Dataset) -> None:
    a, b = swapped(people, 3), swapped(people, 15)
    found = dc.compare(people, {"A": a, "B": b}, measures=[RISK, LOSS, dc.Il1s(columns=["income"])])
    risk, loss, sums = found.rows
    assert risk.figures["A"].value == RISK(people, a).value and risk.before == RISK(people, people).value
    assert loss.figures["B"].value == LOSS(people, b).value and loss.before is None
    assert (risk.winner, loss.winner, sums.winner) == ("B", "A", "A")
    chance = risk.figures["B"].chance or 0.0
    gain = (RISK(people, b).value - chance) / (1 - chance)
    assert found.overall("B").gain == pytest.approx(gain) and found.overall("B").loss == loss.figures["B"].value
    assert found.scaled == (loss,)  # a sum has no largest value
    assert (
        found.better is None
        and "Neither dominates: B is safer" in found.verdict
        and "A is more useful" in found.verdict
    )


@pytest.mark.parametrize(
    ("figures", "better", "words"),
    [
        ({"A": (0.2, 0.1), "B": (0.3, 0.2)}, "A", "A is better"),
        ({"A": (0.2, 0.1), "B": (0.2, 0.2)}, "A", "A is better"),
        ({"A": (0.2, 0.1), "B": (0.2, 0.1)}, None, "equally good"),
        ({"A": (0.2, 0.3), "B": (0.4, 0.1)}, None, "Neither dominates: A is safer"),
        ({"A": (0.2, 0.3), "B": (0.4, 0.1), "C": (0.9, 0.9)}, None, "None dominates: A is safer"),
        ({"A": (0.2, 0.3), "B": (0.1, 0.1), "C": (0.9, 0.9)}, "B", "B is better"),
        ({"A": (0.2, 0.1), "B": (0.2, 0.1), "C": (0.9, 0.9)}, None, "another is equally good"),
    ],
)
def test_the_verdict_follows_dominance(figures: dict[str, Any], better: str | None, words: str) -> None:
    found = made(**figures)
    assert found.better == better and words in found.verdict


def test_two_draws_of_one_generator_do_not_differ_clearly() -> None:
    columns = ["region", "age", "sex", "education", "income"]
    people = dc.Dataset(dc.datasets.census(600, seed=1).frame.select(columns), roles={"age": "quasi"})
    named = {"columns": columns}
    measures = [dc.ReplicatedUniques(**named), dc.Marginals(**named), dc.Contingency(**named)]
    draws = [dc.SequentialTrees(copies=2)(people, seed=seed) for seed in range(4)]
    found = [
        dc.compare(people, {"A": a, "B": b}, measures=measures) for a, b in zip(draws[::2], draws[1::2], strict=True)
    ]
    assert sum(one.better is not None for one in found) == 0
    assert all(one.verdict.startswith("No clear difference: the best attack gains") for one in found)
    assert sum(row.winner is not None for one in found for row in one.rows) <= 1  # six at 5 %
    margins = dc.IndependentMargins()(people, seed=1)
    clear = dc.compare(people, {"trees": draws[0], "margins": margins}, measures=measures)
    assert clear.rows[2].winner == "trees" and clear.rows[1].winner is None  # both keep margins


@pytest.mark.parametrize(
    ("apart", "clear"), [((0.05, 0.055, 0.05, 0.045, 0.05), True), ((0.07, 0.03, 0.05, 0.06, 0.04), False)]
)
def test_a_lead_must_be_beyond_chance(apart: tuple[float, ...], clear: bool) -> None:
    error = 0.02 if clear else 0.05
    risk = ComparedRelease(RISK, 1.0, {"A": Figure(0.2), "B": Figure(0.3)}, {}, errors={"A": error, "B": error})
    parts = {"A": (0.2,) * 5, "B": tuple(0.2 + one for one in apart)}
    loss = ComparedRelease(LOSS, None, {"A": Figure(0.2), "B": Figure(0.25)}, {}, parts=parts)
    assert (risk.winner, loss.winner) == (("A", "A") if clear else (None, None))
    found = Comparison((risk, loss), ("A", "B"), {"A": 9, "B": 9}, {"A": (), "B": ()})
    assert found.better == ("A" if clear else None) and found.verdict.startswith("A is" if clear else "No clear diff")
    assert found.safer("A", "B") is clear and not found.safer("B", "A")
    half = Comparison((replace(risk, errors={"A": 0.02}), loss), ("A", "B"), {"A": 9, "B": 9}, {"A": (), "B": ()})
    assert half.better == "A" and ("losses may be chance" in half.verdict) is not clear


def test_a_measure_that_fails_on_one_release_counts_for_none(people: dc.Dataset) -> None:
    few = dc.Dataset(swapped(people, 40).frame.head(50).drop("person_id", "savings"), roles=FEW)
    measures = [RISK, dc.AttackerRisk(columns=["age"]), LOSS, dc.Marginals(columns=["age"])]
    found = dc.compare(people, {"A": swapped(people, 3), "B": few}, measures=measures)
    assert "B" in found.rows[0].reasons and found.rows[0].winner is None
    assert found.overall("A").attack == "attacker-risk" and [row.kind for row in found.scaled] == ["marginals"]
    assert found.records == {"A": 200, "B": 50}
    nothing = dc.compare(people, {"A": few, "B": few}, measures=[RISK, LOSS])
    assert nothing.overall("A").gain is None and nothing.better is None and "cannot be compared" in nothing.verdict


def test_attacks_that_take_perturbed_values_as_true_decide_nothing() -> None:
    rows = (
        ComparedRelease(RISK, 1.0, {"A": Figure(0.9, doubtful=True), "B": Figure(0.3)}, {}),
        ComparedRelease(OTHER, 1.0, {"A": Figure(0.2), "B": Figure(0.1)}, {}),
        ComparedRelease(LOSS, None, {"A": Figure(0.5), "B": Figure(0.5)}, {}),
    )
    found = Comparison(rows, ("A", "B"), {"A": 1, "B": 1}, {"A": (), "B": ()})
    assert (found.overall("A").gain, found.overall("B").gain) == (0.2, 0.3)
    assert rows[0].winner is None and rows[1].winner == "B" and found.better == "A"


def test_rows_are_matched_by_position_by_id_or_not_at_all(people: dc.Dataset) -> None:
    mixed = swapped(people, 3).frame.sample(fraction=1, shuffle=True, seed=1)
    by_id = match(people, dc.Dataset(mixed), "person_id")
    assert LOSS(people, by_id).value == pytest.approx(LOSS(people, swapped(people, 3)).value)
    assert (
        match(people, dc.Dataset(mixed)).origin is people
        and match(people, dc.Dataset(mixed.head(5).drop("person_id"))).origin is not people
    )


def test_default_measures_are_those_that_fit_any_release(people: dc.Dataset) -> None:
    few = dc.Dataset(people.frame.head(50).drop("savings", "person_id"), roles=FEW)
    chosen = comparable_measures(people, [swapped(people, 5), few])
    kinds = [measure.kind for measure in chosen]
    assert {"distance-linkage", "replicated-uniques", "propensity", "variable-change"} <= set(kinds)
    assert "average-divergence" not in kinds and len({str(m.to_plan()) for m in chosen}) == len(chosen)
    assert all("savings" not in m.columns for m in chosen if m.kind == "variable-change")  # type: ignore[attr-defined]


def test_calls_that_make_no_sense_are_refused(people: dc.Dataset) -> None:
    with pytest.raises(dc.PlanError, match="two releases"):
        dc.compare(people, {"A": people})
    with pytest.raises(dc.PlanError, match="average-divergence"):
        dc.compare(people, {"A": people, "B": people}, measures=[dc.AverageDivergence()])
    bare = pl.DataFrame({"word": ["x", "y"]})
    with pytest.raises(dc.PlanError, match="roles"):
        dc.compare(bare, {"A": bare, "B": bare})


def test_pages_show_all_and_escape(people: dc.Dataset) -> None:
    found = dc.compare(people, {"<A>": swapped(people, 3), "B": swapped(people, 40)}, measures=[RISK, LOSS])
    page = found.page("T & T")
    assert "&lt;A&gt;" in page and "<A>" not in page and "T &amp; T" in page and "http" not in page
    assert found.verdict.split(":")[0] in page and "Rank interval" in page
    assert "<html" not in found._repr_html_() and "Rank interval" in found._repr_html_()
    assert found.to_dict()["overall"]["B"]["attack"] == "rank-interval"


def test_the_page_draws_every_column_and_all_pairs_of_every_release(people: dc.Dataset) -> None:
    trees, margins = dc.SequentialTrees(copies=2)(people, seed=1), dc.IndependentMargins()(people, seed=1)
    page = dc.compare(people, {"trees": trees, "margins": margins}, measures=[dc.Marginals()]).page()
    titles = re.findall(r"<h3>(.*?)</h3>", page)
    columns = [name for name in people.columns if name != "person_id"]
    wanted = [f"{column}: {name}" for column in columns for name in ("trees", "margins")]
    assert titles == [*wanted, "All pairs: trees", "All pairs: margins"]
    assert page.count('<svg class="plot"') >= len(titles)
    only = dc.compare(people, {"A": people.drop(["age"]), "B": people}, measures=[dc.Marginals(columns=["sex"])]).page()
    assert "<h3>age: B</h3>" in only and "<h3>age: A</h3>" not in only


def test_the_page_draws_attacks_and_losses_of_every_release(people: dc.Dataset) -> None:
    found = dc.compare(people, {"A": swapped(people, 3), "B": swapped(people, 40)}, measures=[RISK, LOSS])
    page = found.page()
    assert page.index("<svg") < page.index("<table")
    (risk, loss) = re.findall(r"<desc>(.*?)</desc>", page)[:4:2]  # each picture is drawn wide and narrow
    attack, lost = found.rows
    for name in ("A", "B"):
        one = attack.figures[name]
        assert f"{name} {percent(one.value)} (guessing {percent(one.chance)})" in risk
        assert f"{name} {percent(lost.loss(name))}" in loss and "guessing" not in loss
    assert f"the original {percent(attack.before)}" in risk and "the original" not in loss


def test_group_attacks_of_members_and_strangers_are_told_apart(people: dc.Dataset) -> None:
    fields = {"columns": ["age"], "sensitive": ["income"]}
    attacks = [dc.GroupAttack(**fields), dc.GroupAttack(**fields, coalition=1)]
    found = dc.compare(people, {"A": people, "B": people}, measures=attacks)
    assert [row.title for row in found.rows] == ["group-attack", "group-attack (by members of the group)"]


def test_release_folders_know_their_data_and_plan(tmp_path: Path) -> None:
    plan = put_survey(tmp_path, without(PLAN, "output"))
    dc.Plan.load(plan).run(seed=1, out=tmp_path / "out")
    assert data_file(tmp_path / "out").name == "data.csv"
    beside = plan_beside(tmp_path / "out")
    assert beside is not None and len(beside.read()) == 240
    assert plan_beside(tmp_path / "out" / "data.csv") is None
    for broken in ("{", '{"data": {}}'):
        (tmp_path / "out" / "report.json").write_text(broken)
        with pytest.raises(dc.DataError, match="not the report"):
            data_file(tmp_path / "out")
    (tmp_path / "out" / "report.json").write_text('{"data": {"file": "../survey.csv"}}')
    with pytest.raises(dc.DataError, match="lacks its data file"):
        data_file(tmp_path / "out")
    with pytest.raises(dc.DataError, match=r"no report\.json"):
        data_file(tmp_path)


@pytest.mark.parametrize("fields", [{"columns": ["income"]}, {}], ids=["partly", "fully"])
def test_all_copies_of_a_folder_are_read_with_the_rows_of_each(tmp_path: Path, fields: dict[str, Any]) -> None:
    original = dc.Dataset(survey(240), roles=ROLES)
    steps = [{"sequential-trees": {"copies": 3, **fields}}]
    plan = dc.Plan.from_dict({"roles": ROLES, "steps": steps, "measures": ["marginals"], "requirements": "none"})
    plan.run(original, out=tmp_path / "out")
    (found,) = read_releases(original, [str(tmp_path / "out")], lambda file: dc.Dataset(pl.read_csv(file))).values()
    copies = found.copies()
    assert [len(copy) for copy in copies] == [240] * 3 and found.has_new_rows is not bool(fields)
    assert len({tuple(copy.frame["income"].to_list()) for copy in copies}) == 3
    for copy in copies if fields else ():
        assert copy.frame["age"].equals(original.frame["age"][copy.row_ids])
    alone = read_releases(original, [str(tmp_path / "out" / "data-2.csv")], lambda file: dc.Dataset(pl.read_csv(file)))
    assert len(alone["data-2.csv"]) == 240


def test_names_are_short_where_they_can_be() -> None:
    assert short_names(["x/a", "y/b"]) == ["a", "b"] and short_names(["x/a", "y/a"]) == ["x/a", "y/a"]


@pytest.mark.parametrize("documented", [dc.tune, dc.compare, dc.Vary], ids=lambda one: str(one.__name__))
def test_the_examples_in_the_docstrings_hold(documented: Any) -> None:
    import doctest

    (found,) = doctest.DocTestFinder(recurse=False).find(documented, documented.__name__, globs={})
    assert found.examples and doctest.DocTestRunner().run(found).failed == 0


def test_what_is_not_published_is_lost(people: dc.Dataset) -> None:
    whole = swapped(people, 10)
    half, narrow = whole.take(whole.row_ids < 100), whole.drop(["savings"])
    measures = [RISK, LOSS, dc.Marginals(columns=["age"]), dc.ChangedShare()]
    found = dc.compare(people, {"whole": whole, "half": half, "narrow": narrow}, measures=measures)
    own, age, cells = found.scaled
    assert own.loss("half") == pytest.approx(1 - 0.5 * (1 - LOSS(people, half).value))  # half of the records
    assert age.loss("half") == dc.Marginals(columns=["age"])(people, half).value  # distributions of those that are left
    assert own.loss("narrow") == own.loss("whole")  # it names its columns
    assert cells.loss("narrow") == pytest.approx(1 - 4 / 5 * (1 - dc.ChangedShare()(people, narrow).value))
    assert cells.to_dict()["published"] == {"whole": 1.0, "half": 0.5, "narrow": 0.8}
    assert found.overall("half").loss > found.overall("whole").loss < found.overall("narrow").loss  # type: ignore[operator]


def test_a_dropped_column_does_not_make_a_release_more_useful(people: dc.Dataset) -> None:
    found = dc.compare(people, {"swapped": swapped(people, 5), "dropped": people.drop(["income"])})
    loss = {name: found.overall(name).loss or 0.0 for name in found.names}
    assert loss["dropped"] > loss["swapped"] > 0


def test_fewer_records_do_not_win_by_a_smaller_sum(people: dc.Dataset) -> None:
    whole = swapped(people, 10)
    half = whole.take(whole.row_ids < 100)
    found = dc.compare(people, {"whole": whole, "half": half}, measures=[RISK, dc.Il1s(columns=["income"]), LOSS])
    sums, loss = found.rows[1:]
    assert sums.figures["half"].value < sums.figures["whole"].value and sums.winner is None
    assert loss.winner == "whole"


def test_measures_of_one_kind_are_told_apart(people: dc.Dataset) -> None:
    measures = [dc.Marginals(columns=["age"]), dc.Marginals(columns=["age", "income"]), LOSS]
    found = dc.compare(people, {"A": swapped(people, 3), "B": swapped(people, 9)}, measures=measures)
    assert [row.title for row in found.rows] == ["marginals (1 columns)", "marginals (2 columns)", "variable-change"]
