"""The solution and its space: looking at nodes, choosing another, drawing, re-using on other data."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.anonymize import anonymize
from discretion.method import Decision
from discretion.part import parse

from .small import COLUMNS, TABLES, dataset, frame

MODELS = [dc.KAnonymity(k=3)]


def test_the_release_satisfies_the_models() -> None:
    found = anonymize(dataset(frame(1, 200)), [*MODELS, dc.DistinctLDiversity(l=2)], suppression_limit=0.05)
    assert dc.KAnonymity(k=3)(found.dataset).holds
    assert dc.DistinctLDiversity(l=2)(found.dataset).holds
    assert found.dataset.levels == {name: level for name, level in found.levels.items() if level}
    assert found.suppressed == found.dataset.lost_records
    assert "optimal" in found.words


def test_levels_are_reported_by_the_measures() -> None:
    found = anonymize(dataset(frame(1, 200)), MODELS, loss="precision-loss", suppression_limit=0.05)
    assert dc.Precision(columns=COLUMNS)(found.dataset).value == pytest.approx(1 - found.score)
    classes = anonymize(dataset(frame(1, 200)), MODELS, loss="discernibility", suppression_limit=0.05)
    assert dc.Discernibility()(classes.dataset).value == pytest.approx(classes.score)


def test_another_node_can_be_chosen() -> None:
    found = anonymize(dataset(frame(1, 200)), MODELS, suppression_limit=0.1)
    top = found.space.choose({"age": 3, "town": 2, "sex": 1})
    assert top.score >= found.score and not top.proven and top.classes.number == 1
    assert dc.KAnonymity(k=3)(top.dataset).holds
    with pytest.raises(dc.Infeasible, match=r"suppress \d+ records .* k-anonymity: reached 1, required 3"):
        found.space.choose({"age": 0, "town": 0, "sex": 0})
    looked = found.space.solution({"age": 0})
    assert not looked.holds and looked.suppressed > 0
    with pytest.raises(dc.PlanError, match="can have the levels 0 to 3"):
        found.space.choose({"age": 9})
    with pytest.raises(dc.PlanError, match="'aeg' is not among the columns"):
        found.space.choose({"aeg": 0})


def test_table_of_nodes() -> None:
    found = anonymize(dataset(frame(2, 200)), MODELS, suppression_limit=0.02)
    table = found.space.table()
    assert table.columns == [*COLUMNS, "score", "bound", "k", "classes", "suppressed_share", "status"]
    assert table.filter(pl.col("status") == "optimal").select(COLUMNS).row(0, named=True) == found.levels
    assert table.height == len(found.space)
    whole = found.space.table(everything=True)
    assert whole.height == found.space.nodes == 24
    assert set(whole["status"]) <= {"optimal", "feasible", "infeasible", "excluded", "dominated"}
    assert (whole.filter(pl.col("status") == "dominated")["bound"] >= found.score - 1e-12).all()


def test_picture_is_readable_svg() -> None:
    found = anonymize(dataset(frame(2, 200)), MODELS, suppression_limit=0.1)
    picture = found.space.picture()
    root = ET.fromstring(picture)
    dots = [item for item in root.iter() if item.tag.endswith("circle") and len(item)]
    assert 1 <= len(dots) <= len(found.space)
    places = {(float(dot.get("cx", "nan")), dot[0].text or "") for dot in dots}
    share = {text: float(text.split(" suppressed")[0].rsplit(" ", 1)[1].rstrip("%")) / 100 for _, text in places}
    most = max(place for place, _ in places)
    ends = [(place - 74) / (most - 74) for place, _ in places]  # from the axis, in proportion to what is suppressed
    assert ends == pytest.approx([share[text] / max(share.values()) for _, text in places], abs=0.01)
    words = " ".join(item.text or "" for item in root.iter())
    assert "limit" in words and "optimal" in words and "age" in words
    flat = anonymize(dataset(frame(2, 200)), [dc.KAnonymity(k=1)])
    ET.fromstring(flat.space.picture())


def test_solution_is_a_plan_step_for_new_data() -> None:
    found = anonymize(dataset(frame(1, 300)), MODELS, suppression_limit=0.1)
    step = parse(found.plan_step(), "method")
    again: Any = step(dataset(frame(1, 300)))  # type: ignore[operator]
    assert again.frame.equals(found.dataset.frame)
    other: Any = step(dataset(frame(9, 300)))  # type: ignore[operator]
    assert dc.KAnonymity(k=3)(other).holds
    assert {name: other.levels.get(name, 0) for name in COLUMNS} == found.levels


def test_decision_refuses_data_that_it_does_not_fit() -> None:
    method = dc.OptimalGeneralization(models=[{"k-anonymity": {"k": 3}}], suppression_limit=0.05)
    ctx = dc.Context(1, "1")
    decision = Decision.from_json(method.fit(dataset(frame(1, 300)), ctx).to_json())
    assert decision["proven"] and json.loads(decision.to_json())["levels"]
    with pytest.raises(dc.Infeasible, match=r"more than the limit of 0\.05 allows; search anew"):
        method.rewrite(dataset(frame(4, 12)), decision, ctx)


def test_data_that_is_generalized_already() -> None:
    data = dataset(frame(1, 200))
    raised = dc.Generalize(levels={"age": 1})(data)
    found = anonymize(raised, MODELS)
    assert found.levels["age"] >= 1
    assert found.score == pytest.approx(anonymize(data, MODELS, levels={"age": [1, 3]}).score)
    assert dc.KAnonymity(k=3)(found.dataset).holds


def test_bounds_of_levels() -> None:
    data = dataset(frame(1, 200))
    for bounds, want in (({"age": 2}, {2}), ({"age": [1, 2]}, {1, 2}), ({"age": {"max": 2}}, {0, 1, 2})):
        assert anonymize(data, MODELS, levels=bounds, suppression_limit=0.5).levels["age"] in want
    with pytest.raises(dc.PlanError, match="has the levels 0 to 3"):
        anonymize(data, MODELS, levels={"age": [2, 7]})
    with pytest.raises(dc.PlanError, match="'illness' is not among the columns"):
        anonymize(data, MODELS, levels={"illness": 0})


def test_missing_values_stay_missing_and_are_a_category() -> None:
    table = frame(1, 200).with_columns(
        pl.when(pl.int_range(pl.len()) % 9 == 0).then(None).otherwise(pl.col("town")).alias("town")
    )
    found = anonymize(dataset(table), MODELS, suppression_limit=0.05)
    assert dc.KAnonymity(k=3)(found.dataset).holds
    kept = found.dataset
    assert kept.frame["town"].null_count() == table[kept.row_ids]["town"].null_count()


def test_column_without_hierarchy_stays_as_it_is() -> None:
    table = frame(1, 400)
    roles = {"age": "quasi", "sex": "quasi"}
    found = anonymize(dc.Dataset(table, roles=roles, hierarchies={"age": TABLES["age"]}), [dc.KAnonymity(k=5)])
    assert found.levels["sex"] == 0
    with pytest.raises(dc.PlanError, match="'sex' has no hierarchy"):
        anonymize(dc.Dataset(table, roles=roles), MODELS, levels={"sex": 1})


def test_order_of_rows_does_not_matter() -> None:
    table = frame(3, 200)
    order = np.random.default_rng(0).permutation(len(table))
    one = anonymize(dataset(table), MODELS, suppression_limit=0.1)
    other = anonymize(dataset(table[order]), MODELS, suppression_limit=0.1)
    assert one.levels == other.levels and one.score == other.score


def test_progress_and_cancel() -> None:
    seen: list[tuple[int, int, str]] = []
    anonymize(dataset(frame(1, 200)), MODELS, progress=lambda *told: seen.append(told))
    assert seen and seen[0][1] == 24

    def stop(done: int, total: int, label: str) -> None:
        raise dc.Cancelled("stopped")

    with pytest.raises(dc.Cancelled):
        anonymize(dataset(frame(1, 200)), MODELS, progress=stop)


def test_written_rows_stand_in_a_random_order(tmp_path: Path) -> None:
    data = dataset(frame(1, 300))
    found = anonymize(data, MODELS, suppression_limit=0.1)
    found.write(tmp_path / "release.csv")
    new, old = dc.read(tmp_path / "release.csv").frame, found.dataset.frame
    assert new.columns == old.columns and len(new) == len(old)
    kept = [str(value) for value in old["illness"]]
    moved = [str(value) for value in new["illness"]]
    assert sorted(kept) == sorted(moved) and kept != moved


def test_written_people_are_numbered_anew(tmp_path: Path) -> None:
    table = frame(1, 300)
    table = table.with_columns(person=pl.Series([f"P{900 + row // 2}" for row in range(len(table))]))
    data = dc.Dataset(table, schema=dataset(frame(1, 300)).schema.with_column("person", roles=("unit",)))
    found = anonymize(data, MODELS, suppression_limit=0.1)
    found.write(tmp_path / "release.csv")
    people, before = dc.read(tmp_path / "release.csv").frame["person"], found.dataset.frame["person"]
    assert set(people) == set(range(1, before.n_unique() + 1))
    assert sorted(people.value_counts()["count"]) == sorted(before.value_counts()["count"])


def test_a_plan_step_drops_the_same_records_of_classes_that_the_model_does_not_tell_apart() -> None:
    """Which of the equally small classes go depends on what each column weighs, and on how columns are put together."""
    other = 0
    low, weights = {"age": 2, "town": 1, "sex": 0}, {"town": 0.01}
    for seed in range(30):
        people = dataset(frame(seed, 60))
        got = anonymize(people, [dc.AverageRisk(risk=0.09)], suppression_limit=0.5, importance=weights, levels=low)
        (fields,) = got.plan_step().values()
        assert fields["importance"] == weights
        assert dc.OptimalGeneralization(**fields)(people).row_ids.tolist() == got.dataset.row_ids.tolist()
        plain = dc.OptimalGeneralization(**{**fields, "importance": {}})(people)
        other += plain.row_ids.tolist() != got.dataset.row_ids.tolist()
    assert other
