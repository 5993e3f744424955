"""Notebook displays: roles, figures and verdicts, escaped, never a value of a person."""

from __future__ import annotations

import polars as pl
import pytest

import discretion as dc
from discretion.errors import PlanError

PEOPLE = dc.Dataset(
    pl.DataFrame({"<age>": [31, 31, 77], "secret": ["flu", "flu", "gout"]}),
    roles={"<age>": "quasi", "secret": "sensitive"},
)
MEASURES = (dc.SampleUniqueness(),)


def test_a_data_set_shows_columns_and_roles_only() -> None:
    page = PEOPLE._repr_html_()
    assert "&lt;age&gt;" in page and "sensitive" in page and "3 rows" in page
    assert "77" not in page and "gout" not in page


def test_a_score_shows_value_direction_and_chance() -> None:
    page = dc.DistanceLinkage()(PEOPLE, PEOPLE)._repr_html_()
    assert "distance-linkage" in page and "lower is better" in page and "Guessing: 0.3333" in page


def test_a_verdict_shows_what_was_reached() -> None:
    page = dc.KAnonymity(k=2)(PEOPLE)._repr_html_()
    assert "does not hold" in page and "1 classes with 1 records" in page


def test_a_study_and_a_release_show_steps_and_figures() -> None:
    study = dc.Study(dc.datasets.census(300, seed=1), seed=1).apply(dc.DropIdentifiers())
    assert "drop-identifiers" in study._repr_html_() and "300" in study._repr_html_()
    release = study.plan().run(study.original)
    page = release._repr_html_()
    assert "sample-uniqueness" in page and "before" in page


def test_a_solution_shows_the_level_of_each_column() -> None:
    found = dc.anonymize(
        dc.Dataset(
            pl.DataFrame({"age": [31, 32, 33, 71, 72, 73], "secret": ["a", "b", "c", "gout", "b", "a"]}),
            roles={"age": "quasi", "secret": "sensitive"},
            hierarchies={"age": dc.Hierarchy.intervals(width=10, levels=3)},
        ),
        dc.KAnonymity(k=3),
    )
    page = found._repr_html_()
    assert "<table" in page and ">age<" in page and f">{found.levels['age']}<" in page
    assert found.words in page.replace("&#x27;", "'") and "gout" not in page


def test_a_plan_shows_roles_steps_and_requirements() -> None:
    study = dc.Study(dc.datasets.census(300, seed=1), seed=1).apply(dc.RankSwap(columns=["income"], percent=7.31))
    page = study.plan(requirements=[dc.KAnonymity(k=4)], title="<Census>")._repr_html_()
    for words in ("&lt;Census&gt;", "identifier", "rank-swap", "percent: 7.31", "requirement", "k: 4"):
        assert words in page


def test_several_scores_are_one_table() -> None:
    study = dc.Study(dc.datasets.census(300, seed=1), seed=1)
    scores = study.scores(dc.SampleUniqueness(columns=["sex"]), dc.DistanceLinkage(columns=["age"]))
    page = scores._repr_html_()
    assert page.count("<table>") == 1 and page.count("<tr>") == 3
    assert "sample-uniqueness" in page and "distance-linkage" in page and "guessing" in page
    assert dc.assess(PEOPLE, PEOPLE, measures=list(MEASURES)).scores._repr_html_().count("<tr>") == 2


def test_the_head_of_a_data_set_shows_values_to_its_owner() -> None:
    frame = pl.DataFrame({"age": [31, 32, 77], "secret": ["flu", "flu", "gout"]})
    data = dc.Dataset(frame, roles={"age": "quasi"})
    assert data.head(2).equals(frame.head(2)) and data.head().equals(frame)
    assert data.head(0).height == 0
    pandas = frame.to_pandas()
    assert dc.Dataset(pandas).head(1).equals(pandas.head(1))
    assert "private" in (dc.Dataset.head.__doc__ or "")
    with pytest.raises(PlanError, match="at least 0"):
        data.head(-1)


def test_wide_data_is_cut_and_names_are_escaped() -> None:
    names = [f"<img src=x onerror=alert({i})>" for i in range(130)]
    wide = dc.Dataset(pl.DataFrame({name: [1, 2] for name in names}), roles=dict.fromkeys(names, "quasi"))
    page = wide._repr_html_()
    assert page.count("<tr>") == 101 and "30 more rows" in page and "<img" not in page


def test_a_map_has_its_own_background() -> None:
    swap = dc.Vary(dc.RankSwap, columns=["income"], percent=dc.Grid([2, 20]))
    risk, loss = dc.RankInterval(columns=["income"]), dc.VariableChange(columns=["income"])
    found = dc.tune(dc.datasets.census(200, seed=1), [swap], risk=risk, utility=loss, seed=1, runs=1)
    assert found._repr_html_().startswith('<svg style="background:#fff"')
