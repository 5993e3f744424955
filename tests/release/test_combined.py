"""Two releases of the same people: what both tell, against a naive count, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discretion.errors import DataError, PlanError, RequirementNotMet
from discretion.part import parse as parse_model
from discretion.release.plan import Plan, Requirement
from discretion.release.run import run_plan

ROLES = {"id": "identifier", "age": "quasi", "town": "quasi", "illness": "sensitive", "income": "sensitive"}


def people(rows: int = 70, seed: int = 4) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": np.arange(rows) + 1000,
            "age": rng.integers(20, 60, rows),
            "town": rng.choice(list("ABCD"), rows),
            "illness": rng.choice(["flu", "none", "measles", "gout"], rows),
            "income": rng.integers(100, 10**6, rows),
        }
    )


def plan(source: Path, origin: int, k: int = 3, **more: Any) -> Plan:
    steps = [
        {"recode": {"column": "age", "width": 10, "origin": origin}},
        {"suppress-records": {"columns": ["age", "town"], "k": k, "limit": 0.5}},
    ]
    return Plan.from_dict({"data": str(source), "roles": ROLES, "steps": steps,
                           "requirements": [{"k-anonymity": {"k": k}}], **more})  # fmt: skip


def publish(tmp: Path, name: str, source: Path, origin: int, **more: Any) -> Any:
    made = plan(source, origin, **more)
    return made.run(out=tmp / name, journal=tmp / f"{name}-journal", seed=2**70 + origin)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    people().write_csv(tmp_path / "people.csv")
    publish(tmp_path, "first", tmp_path / "people.csv", 0)
    return tmp_path, tmp_path / "people.csv"


def naive(tmp: Path, first: pl.DataFrame, second: pl.DataFrame, k: int) -> dict[str, int]:
    """Intersect two files as a stranger would who matches records by illness and income."""
    before = {(row["illness"], row["income"]): (row["age"], row["town"]) for row in first.iter_rows(named=True)}
    pairs = []
    for row in second.iter_rows(named=True):
        other = before.get((row["illness"], row["income"]))
        if other is not None:
            pairs.append(((row["age"], row["town"]), other))
    sizes = Counter(pairs)
    own = Counter((row["age"], row["town"]) for row in second.iter_rows(named=True))
    small = [pair for pair in pairs if sizes[pair] < k and own[pair[0]] >= k]
    return {"both": len(pairs), "exposed": len(small), "smallest": min(sizes.values()), "alone": min(own.values())}


def test_two_files_that_are_k_anonymous_alone_are_intersected(two: tuple[Path, Path]) -> None:
    tmp, source = two
    journal = str(tmp / "first-journal")
    with pytest.raises(RequirementNotMet, match=r"k-anonymity together with first: \d+ people whose records"):
        publish(tmp, "second", source, 5, previous=[journal])
    assert not (tmp / "second").exists()
    accepted = {"journal": journal, "accepted": "the first was withdrawn"}
    release = publish(tmp, "second", source, 5, previous=[accepted])
    (found,) = release.combined
    expected = naive(tmp, pl.read_csv(tmp / "first" / "data.csv"), pl.read_csv(tmp / "second" / "data.csv"), 3)
    assert {name: getattr(found, name) for name in expected} == expected and found.exposed > 10
    assert found.matched == found.both and found.below == found.exposed
    facts = json.loads((tmp / "second" / "report.json").read_text())
    assert any("together with the earlier release first, knowing whose records" in note for note in facts["notes"])
    assert "withdrawn" not in json.dumps(facts)
    kept = json.loads((tmp / "second-journal" / "journal.json").read_text())["previous"]
    assert kept[0]["exposed"] == found.exposed and kept[0]["accepted"] == "the first was withdrawn"


def test_the_same_coding_again_breaks_nothing(two: tuple[Path, Path]) -> None:
    tmp, source = two
    release = publish(tmp, "again", source, 0, previous=[str(tmp / "first-journal")])
    (found,) = release.combined
    assert (found.exposed, found.below, found.small_differences) == (0, 0, 0) and found.smallest == found.alone


def test_people_who_came_show_as_small_differences(two: tuple[Path, Path]) -> None:
    tmp, _ = two
    later = pl.concat([people(), people(8, seed=9).with_columns(pl.col("id") + 5000)])
    later.write_csv(tmp / "later.csv")
    place = {"journal": str(tmp / "first-journal"), "person": "id", "accepted": "the first was withdrawn"}
    release = publish(tmp, "later", tmp / "later.csv", 0, previous=[place])
    (found,) = release.combined
    first, second = (pl.read_csv(tmp / name / "data.csv") for name in ("first", "later"))
    before, after = (Counter(zip(one["age"], one["town"], strict=True)) for one in (first, second))
    assert found.small_differences == sum(0 < abs(after[key] - before[key]) < 3 for key in before.keys() & after.keys())
    assert found.joined >= 1 and found.small_differences >= 1


def test_by_its_public_file_alone(two: tuple[Path, Path]) -> None:
    tmp, source = two
    release = publish(tmp, "second", source, 5, previous=[{"folder": str(tmp / "first")}])
    (found,) = release.combined
    assert found.knowledge == "public" and found.exposed == 0 and "its journal was not given" in found.explain()
    assert Plan.from_dict(release.plan.to_dict()).previous == release.plan.previous
    changed = tmp / "first" / "data.csv"
    changed.write_text(changed.read_text() + "20,A,flu,1\n")
    with pytest.raises(DataError, match="not what was released: its hash is another one"):
        publish(tmp, "third", source, 5, previous=[{"folder": str(tmp / "first")}])
    with pytest.raises(PlanError, match="it has no report"):
        publish(tmp, "third", source, 5, previous=[{"folder": str(tmp)}])


@pytest.mark.parametrize("name", ["journal.json", "plan.yaml", "order.npy"])
def test_a_journal_that_was_changed_is_an_error(two: tuple[Path, Path], name: str) -> None:
    tmp, source = two
    file = tmp / "first-journal" / name
    if name == "journal.json":
        file.write_text(file.read_text().replace('"reused": false', '"reused": true', 1))
    else:
        file.write_bytes(file.read_bytes() + b"\n")
    with pytest.raises(DataError, match=r"changed.*: its hash is another one"):
        publish(tmp, "second", source, 0, previous=[str(tmp / "first-journal")])


def test_composition_tells_a_sensitive_value_that_neither_tells_alone(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"id": [1, 2, 3, 4, 5, 6], "age": [21, 27, 33, 38, 26, 24], "town": ["A"] * 6,
         "illness": ["flu", "gout", "flu", "none", "measles", "none"], "income": [1] * 6}
    )  # fmt: skip
    frame.write_csv(tmp_path / "few.csv")
    publish(tmp_path, "first", tmp_path / "few.csv", 0, k=2)
    first = {1: "20", 2: "20", 5: "20", 6: "20", 3: "30", 4: "30"}
    second = {1: "15", 6: "15", 2: "25", 3: "25", 5: "25", 4: "35"}
    ill = dict(zip(frame["id"], frame["illness"], strict=True))
    kept = [one for one in second if list(second.values()).count(second[one]) > 1]
    told = 0
    for one in kept:
        a = {ill[other] for other in first if first[other] == first[one]}
        b = {ill[other] for other in kept if second[other] == second[one]}
        told += len(a & b) == 1 and len(a) > 1 and len(b) > 1
    made = replace(plan(tmp_path / "few.csv", 5, k=2), previous=({"journal": str(tmp_path / "first-journal")},))
    (found,) = run_plan(made, seed=2**70 + 9).combined
    assert found.told == told >= 1 and found.exposed == 0 and found.holds
    asked = Requirement(parse_model({"distinct-l-diversity": {"l": 2, "sensitive": "illness"}}))
    with pytest.raises(RequirementNotMet, match=f"diversity together with first: the classes of {told} people"):
        replace(made, requirements=(*made.requirements, asked)).run(seed=2**70 + 9)
