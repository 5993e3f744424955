"""Which columns the attacks of a report know: sets, places, strata and weights count as quasi-identifiers do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.measure import Score
from discretion.release.attack_set import attack_set, report_set, unlinked
from discretion.release.gate import judge
from discretion.release.journal import in_journal_order
from discretion.release.plan import Plan, Requirement
from discretion.release.published import together
from discretion.release.ranking import attacker_cards

ITEMS = {"tree": {"*": {f"G{g}": [f"d{3 * g + i}" for i in range(3)] for g in range(6)}}}


def people(rows: int = 300, **more: str) -> dc.Dataset:
    rng = np.random.default_rng(4)
    drugs = [sorted({f"d{i}" for i in rng.integers(0, 18, rng.integers(1, 4))}) for _ in range(rows)]
    frame = pl.DataFrame(
        {
            "sex": rng.choice(["f", "m"], rows),
            "income": np.round(np.exp(rng.normal(10, 0.6, rows)), 2),
            "drugs": drugs,
            "place": rng.choice([f"p{i}" for i in range(40)], rows),
            "w": np.round(rng.uniform(1, 9, rows), 2),
        }
    )
    roles = {"sex": "quasi", "income": "sensitive", **more}
    return dc.Dataset(frame.select(list(roles)), roles=roles)


def expected(known: list[tuple[object, ...]], published: list[tuple[object, ...]]) -> float:
    """Give the share found by somebody who picks among the records that agree in everything."""
    sizes = Counter(published)
    return float(np.mean([1 / sizes[key] if sizes[key] else 0.0 for key in known]))


def linked(original: dc.Dataset, released: dc.Dataset) -> dict[frozenset[str], Score]:
    chosen = [m for m in report_set(original, released) if m.kind == "distance-linkage"]
    scores = [m.run(original, released, dc.Context(0, "t")) for m in chosen]
    return {frozenset(score.detail["columns"]): score for score in scores}


def run(step: dc.Method, data: dc.Dataset) -> dc.Dataset:
    return step.run(data, dc.Context(3, "step")).data


def test_a_published_set_is_linked_by_in_the_joint_attack() -> None:
    data = people(drugs="sensitive")
    released = run(dc.RankSwap(columns=["income"], percent=15), data)
    found = linked(data, released)
    rows = [(s, tuple(d)) for s, d in zip(data.frame["sex"], data.frame["drugs"].to_list(), strict=True)]
    everything = found[frozenset({"sex", "income", "drugs"})]
    assert everything.value >= expected(rows, rows) > 0.5
    assert frozenset({"income", "drugs"}) in found
    assert not unlinked(released, found.values())


def test_sets_as_quasi_identifiers_are_compared_by_every_linkage_of_the_set() -> None:
    data = people(drugs="quasi")
    rows = [(s, tuple(d)) for s, d in zip(data.frame["sex"], data.frame["drugs"].to_list(), strict=True)]
    for kind in ("attacker-risk", "probabilistic-linkage"):
        attack = next(m for m in attack_set(data, data) if m.kind == kind)
        score = attack.run(data, data, dc.Context(0, "t"))
        assert score.value == pytest.approx(expected(rows, rows)), kind


def test_items_that_were_generalized_are_coded_alike() -> None:
    data = people(2_000, drugs="sensitive")
    step = dc.KmGeneralization(columns=["drugs"], k=8, m=2, item_hierarchy=ITEMS)
    released = run(step, data)
    score = dc.DistanceLinkage(columns=["sex", "drugs"]).run(data, released, dc.Context(0, "t"))
    shown = [(s, tuple(d)) for s, d in zip(released.frame["sex"], released.frame["drugs"].to_list(), strict=True)]
    assert any(item.startswith("G") for _, items in shown for item in items)
    assert score.detail["informed"] == pytest.approx(expected(shown, shown), rel=1e-6)
    assert score.value == score.detail["informed"] > score.detail["plain"]
    assert score.detail["known_of"]["drugs"] == "km-generalization: the items coded alike"


def test_suppressed_items_and_a_step_that_names_no_column() -> None:
    data = people(600, drugs="sensitive")
    step = dc.KmGeneralization(k=25, m=2, item_hierarchy=ITEMS, suppression_limit=0.3)
    released = run(step, data)
    score = dc.DistanceLinkage(columns=["sex", "drugs"]).run(data, released, dc.Context(0, "t"))
    lists = [None if d is None else tuple(d) for d in released.frame["drugs"].to_list()]
    shown = list(zip(released.frame["sex"].to_list(), lists, strict=True))
    there = [row for row in shown if row[1] is not None]
    assert score.detail["informed"] >= expected(there, there) * len(there) / len(shown)


@pytest.mark.parametrize(("column", "role"), [("place", "geography"), ("place", "stratum"), ("w", "weight")])
def test_places_strata_and_weights_are_known_and_not_in_k(column: str, role: str) -> None:
    data = people(**{column: role})
    released = run(dc.RankSwap(columns=["income"], percent=15), data)
    found = linked(data, released)
    rows = list(zip(data.frame["sex"], data.frame[column], strict=True))
    assert found[frozenset({"sex", column})].value == pytest.approx(expected(rows, rows))
    assert found[frozenset({"sex", "income", column})].value > expected(rows, rows)
    risks = [m for m in report_set(data, released) if m.kind == "attacker-risk"]
    assert {frozenset(m.columns) for m in risks} == {frozenset({"sex"}), frozenset({"sex", column})}  # type: ignore[attr-defined]
    assert f"who knows {column} as well as the quasi-identifiers" in together(released)
    finding = judge(Requirement(dc.KAnonymity(k=5)), data, released, dc.Context(0, "t"))
    assert finding.holds and finding.explain().endswith(f"not counted, although published: {column}")
    design = next(c for c in attacker_cards(found.values()) if c.attacker == "one who knows the design")
    best = max(score.value for score in found.values())
    assert design.success == (best if role == "weight" else None)


def test_what_no_linkage_compared_is_named_on_the_card() -> None:
    data = people(drugs="sensitive", place="geography")
    scores = [dc.DistanceLinkage(columns=["sex"]).run(data, data, dc.Context(0, "t"))]
    left = unlinked(data, scores)
    assert set(left) == {"income", "drugs", "place"}
    marketer = next(card for card in attacker_cards(scores, unlinked=left) if card.attacker == "marketer")
    assert f"a linkage by {', '.join(left)}" in marketer.not_tried
    assert not any("a linkage by" in name for card in attacker_cards(scores) for name in card.not_tried)


def test_with_its_journal_a_release_is_attacked_as_by_the_run_that_made_it(tmp_path: Path) -> None:
    frame = people(400, place="quasi").frame.with_columns(age=np.random.default_rng(1).integers(18, 80, 400))
    frame.write_csv(tmp_path / "data.csv")
    (tmp_path / "plan.yaml").write_text(
        """\
data: data.csv
roles: {sex: quasi, age: quasi, place: other, income: sensitive}
confirmed_other: [place]
hierarchies: {age: {intervals: {width: 10, levels: 3}}}
steps:
  - rank-swap: {columns: [income], percent: 5}
  - optimal-generalization: {suppression_limit: 0.1, models: [{k-anonymity: {k: 8}}]}
requirements: none
demo: true
output: {folder: out, journal: secret}
""",
        encoding="utf-8",
    )
    plan = Plan.load(tmp_path / "plan.yaml")
    made = plan.run()
    original = plan.read()
    file = tmp_path / "out" / "data.csv"
    from discretion.data.read import read_as

    read = read_as(str(file), original.schema, partial=True)
    released = in_journal_order(original, read, tmp_path / "secret", file)
    assert [step.kind for step in released.steps] == ["rank-swap", "optimal-generalization"]
    found = dc.assess(original, released)
    for kind in ("distance-linkage", "interval-risk"):
        stated = [item.after for item in made.measured if item.measure.kind == kind]
        seen = {frozenset(score.detail.get("columns", ())): score for score in found.scores if score.measure == kind}
        for score in stated:
            other = seen[frozenset(score.detail.get("columns", ()))]
            assert other.value == pytest.approx(score.value, abs=1e-9)
            assert other.detail["assumed" if kind == "distance-linkage" else "plain"] == pytest.approx(
                score.detail["assumed" if kind == "distance-linkage" else "plain"]
            )
