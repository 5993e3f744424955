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
from discretion.release.earlier import best_mean
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
    assert found.told == told >= 1 and not found.diverse
    asked = Requirement(parse_model({"distinct-l-diversity": {"l": 2, "sensitive": "illness"}}))
    with pytest.raises(RequirementNotMet, match=f"diversity together with first: the classes of {told} people"):
        replace(made, requirements=(*made.requirements, asked)).run(seed=2**70 + 9)


NUMBERS = ["x", "y", "z"]
NOISY_ROLES = {"id": "identifier", "age": "quasi", "town": "quasi", **dict.fromkeys(NUMBERS, "sensitive")}


def noisy_people(rows: int = 400) -> pl.DataFrame:
    rng = np.random.default_rng(6)
    frame = people(rows).select("id", "age", "town")
    return frame.with_columns(pl.DataFrame(rng.lognormal(8, 0.7, (rows, 3)), schema=NUMBERS))


def noisy(tmp: Path, name: str, seed: int, *, sd: float = 0.2, write: bool = True, **more: Any) -> Any:
    steps = [
        {"recode": {"column": "age", "width": 20, "origin": 0}},
        {"additive-noise": {"columns": NUMBERS, "sd_share": sd}},
    ]
    asked = [{"k-anonymity": {"k": 3}}, *more.pop("asked", [])]
    made = Plan.from_dict(
        {"data": str(tmp / "noisy.csv"), "roles": NOISY_ROLES, "steps": steps, "requirements": asked, **more}
    )
    places = {"out": tmp / name, "journal": tmp / f"{name}-journal"} if write else {}
    return made.run(seed=seed, **places)


def test_records_with_noise_are_matched_as_a_stranger_matches_them(tmp_path: Path) -> None:
    frame = noisy_people()
    frame.write_csv(tmp_path / "noisy.csv")
    noisy(tmp_path, "first", 2**70)
    noisy(tmp_path, "second", 2**71, previous=[str(tmp_path / "first-journal")])
    first, second = (pl.read_csv(tmp_path / name / "data.csv") for name in ("first", "second"))
    owner, other = (np.load(tmp_path / f"{name}-journal" / "order.npy") for name in ("first", "second"))
    spread = first.select(NUMBERS).to_numpy().std(axis=0)
    right = 0
    for place, row in enumerate(first.iter_rows(named=True)):
        alike = np.flatnonzero(((second["age"] == row["age"]) & (second["town"] == row["town"])).to_numpy())
        gap = (second.select(NUMBERS).to_numpy()[alike] - [row[name] for name in NUMBERS]) / spread
        right += owner[place] == other[alike[np.argmin((gap**2).sum(axis=1))]]
    kept = json.loads((tmp_path / "second-journal" / "journal.json").read_text())["previous"][0]
    assert kept["both"] == 400 and right > 100
    assert kept["matched"] >= right - 2  # ties and equal records apart, no stranger finds more


def test_a_linkage_limit_must_hold_for_the_average_of_two_releases(tmp_path: Path) -> None:
    frame = noisy_people()
    frame.write_csv(tmp_path / "noisy.csv")
    noisy(tmp_path, "first", 2**70)
    noisy(tmp_path, "second", 2**71)
    true = frame.select(NUMBERS).to_numpy()
    copies = []
    for name in ("first", "second"):
        copy = np.empty_like(true)
        copy[np.load(tmp_path / f"{name}-journal" / "order.npy")] = (
            pl.read_csv(tmp_path / name / "data.csv").select(NUMBERS).to_numpy()
        )
        copies.append(copy)

    def found(seen: np.ndarray) -> float:
        gap = ((seen[None] - true[:, None]) / true.std(axis=0, ddof=1)) ** 2
        return float((gap.sum(axis=2).argmin(axis=1) == np.arange(len(true))).mean())

    alone, both = found(copies[1]), found(np.mean(copies, axis=0))
    assert both > alone + 0.03
    limit = {
        "distance-linkage": {"columns": NUMBERS, "at_most": (alone + both) / 2, "intruder": {"knows_method": False}}
    }
    noisy(tmp_path, "alone", 2**71, asked=[limit])  # as it stands alone, it may go out
    journal = str(tmp_path / "first-journal")
    with pytest.raises(
        RequirementNotMet, match="together with the earlier releases, numbers averaged, distance-link"
    ) as e:
        noisy(tmp_path, "third", 2**71, asked=[limit], previous=[journal])
    assert not (tmp_path / "third").exists()
    reached = float(str(e.value).partition("reached ")[2].partition(" ")[0].rstrip(","))
    assert reached == pytest.approx(both, abs=0.02)
    accepted = {"journal": journal, "accepted": "withdrawn"}
    assert noisy(tmp_path, "third", 2**71, asked=[limit], previous=[accepted]).averaging


def test_the_best_mean_is_no_worse_than_the_better_copy() -> None:
    rng = np.random.default_rng(3)
    true = rng.normal(size=5000)
    copies = true + np.array([[1.0], [0.2], [0.0]]) * rng.normal(size=(3, 5000))
    copies[1, :100] = np.nan
    mean, several = best_mean(copies[:2], true)
    assert np.sqrt(((mean - true)[100:] ** 2).mean()) == pytest.approx(1 / np.sqrt(1 + 1 / 0.04), rel=0.05)
    assert np.array_equal(mean[:100], copies[0, :100]) and not several[:100].any() and several[100:].all()
    assert np.abs(best_mean(copies, true)[0] - true).max() < 1e-6  # a release that shows it exactly
    assert np.allclose(best_mean(np.vstack([copies[0], copies[0]]), true)[0], copies[0])  # the same noise twice


def test_who_came_is_told_by_what_the_earlier_file_has_not(two: tuple[Path, Path]) -> None:
    tmp, _ = two
    later = pl.concat([people().tail(66), people(8, seed=9).with_columns(pl.col("id") + 5000)])
    later.write_csv(tmp / "later.csv")
    place = {"journal": str(tmp / "first-journal"), "person": "id"}
    with pytest.raises(RequirementNotMet, match=r"\d+ people who are in one of the releases only are told by the diff"):
        publish(tmp, "later", tmp / "later.csv", 0, previous=[place])
    release = publish(tmp, "later", tmp / "later.csv", 0, previous=[{**place, "accepted": "the first was withdrawn"}])
    first, second = (pl.read_csv(tmp / name / "data.csv") for name in ("first", "later"))

    def told(one: pl.DataFrame, other: pl.DataFrame, alone: set[int]) -> int:
        known = set(other["income"])
        new = [row for row in one.iter_rows(named=True) if row["income"] not in known]
        found = 0
        for row in new:
            same = [other for other in new if (other["age"], other["town"]) == (row["age"], row["town"])]
            found += row["income"] in alone and len(same) < 3
        return found

    old, new = people(), pl.read_csv(tmp / "later.csv")
    came = set(new["income"]) - set(old["income"])
    went = set(old["income"]) - set(new["income"])
    assert release.combined[0].came == told(second, first, came) + told(first, second, went) > 0


def test_diversity_is_asked_of_what_both_classes_share(tmp_path: Path) -> None:
    frame = people(200).with_columns(income=pl.col("id"))
    frame.write_csv(tmp_path / "p.csv")
    publish(tmp_path, "first", tmp_path / "p.csv", 0)
    publish(tmp_path, "second", tmp_path / "p.csv", 5)
    first, second = (pl.read_csv(tmp_path / name / "data.csv").to_dicts() for name in ("first", "second"))

    def told(least: int) -> int:
        known = {row["income"]: row for row in first}
        found = 0
        for row in (row for row in second if row["income"] in known):
            mine, theirs = (
                [other for other in rows if (other["age"], other["town"]) == (one["age"], one["town"])]
                for rows, one in ((second, row), (first, known[row["income"]]))
            )
            fewer = False
            for name in ("illness", "income"):
                a, b = ({other[name] for other in rows} for rows in (mine, theirs))
                fewer |= len(a & b) < least <= min(len(a), len(b))
            found += fewer
        return found

    for least in (2, 3, 4):
        asked = Requirement(parse_model({"distinct-l-diversity": {"l": least, "sensitive": "illness"}}))
        made = plan(tmp_path / "p.csv", 5, previous=[str(tmp_path / "first-journal")])
        made = replace(made, requirements=(*made.requirements, asked))
        assert run_plan(made, seed=2**70 + 5).combined[0].told == told(least), least
    assert told(2) < told(4)


def other_columns(tmp: Path, change: Any, name: str = "income") -> Any:
    """Publish age and income first, then region and job with the income in another form, of another file."""
    rng = np.random.default_rng(5)
    base = people(300).with_columns(pl.Series("region", rng.choice(list("KLMN"), 300)))
    base.select("id", "age", "income").write_csv(tmp / "one.csv")
    base.with_columns(change.alias(name)).select("id", "region", name).write_csv(tmp / "two.csv")
    roles = {"id": "identifier", "age": "quasi", "income": "sensitive", "region": "quasi", name: "sensitive"}
    recode = {"recode": {"column": "age", "width": 10, "origin": 0}}
    for file, columns, steps, previous in (
        ("one", ("id", "age", "income"), [recode], []),
        ("two", ("id", "region", name), ["drop-identifiers"], [{"journal": str(tmp / "one-journal"), "person": "id"}]),
    ):
        made = Plan.from_dict({
            "data": str(tmp / f"{file}.csv"), "roles": {one: roles[one] for one in columns}, "steps": steps,
            "requirements": [{"k-anonymity": {"k": 18}}], "previous": previous,
        })  # fmt: skip
        if file == "two":
            return run_plan(made, seed=2**71)
        made.run(out=tmp / file, journal=tmp / f"{file}-journal", seed=2**70)
    raise AssertionError


def test_classes_are_crossed_with_what_only_the_earlier_file_shows(tmp_path: Path) -> None:
    release = other_columns(tmp_path, pl.col("income"))
    frame = pl.read_csv(tmp_path / "one.csv").join(pl.read_csv(tmp_path / "two.csv"), on="id")
    sizes = Counter(zip(frame["age"] // 10, frame["region"], strict=True))
    small = sum(count for count in sizes.values() if count < 18)
    (found,) = release.combined
    assert found.below == small > 0 and found.matched > 290 and found.exposed > 0 and not found.holds


FORMS = {
    "another name": (pl.col("income"), "inc"),
    "indexed": (pl.col("income") * 1.02, "income"),
    "by the month": (pl.col("income") / 12, "income"),
    "in ranges": (
        pl.format("[{}, {}]", pl.col("income") // 100 * 100, pl.col("income") // 100 * 100 + 99), "income",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_column_is_known_again_in_another_form(form: str, tmp_path: Path) -> None:
    change, name = FORMS[form]
    (found,) = other_columns(tmp_path, change, name).combined
    assert found.matched > 0.9 * found.both and not found.holds


def test_earlier_releases_are_followed_back_to_the_first(two: tuple[Path, Path]) -> None:
    tmp, source = two
    publish(tmp, "second", source, 5, previous=[{"journal": str(tmp / "first-journal"), "accepted": "withdrawn"}])
    second = {"journal": str(tmp / "second-journal"), "accepted": "withdrawn"}
    with pytest.raises(RequirementNotMet, match=r"together with first \(which .*second-journal names\)"):
        publish(tmp, "third", source, 2, previous=[second])
    both = run_plan(plan(source, 2, previous=[second]), seed=2**72)
    asked = run_plan(plan(source, 2, previous=[second, str(tmp / "first-journal")]), seed=2**72)
    assert [(one.earlier, one.exposed) for one in both.combined] == [
        (one.earlier, one.exposed) for one in asked.combined
    ]
    assert both.combined[1].through and not asked.combined[1].through and not both.combined[1].holds

    (tmp / "first-journal").rename(tmp / "hidden")  # then by its public folder, which the second journal names
    found = run_plan(plan(source, 2, previous=[second]), seed=2**72)
    assert [one.knowledge for one in found.combined] == ["private", "public"]
    (tmp / "first").rename(tmp / "gone")
    release = publish(tmp, "third", source, 2, previous=[second])
    assert release.lineage.lost == ("first",) and len(release.combined) == 1
    facts = json.loads((tmp / "third" / "report.json").read_text())
    assert any("first, which another one names, was not found" in note for note in facts["notes"])
    assert facts["previous"] == ["second", "first"]
    public = run_plan(plan(source, 2, previous=[{"folder": str(tmp / "third")}]), seed=2**72)
    assert public.lineage.lost == ("second", "first")


RENAMED = {"another name": ("income", "pay", 1.0), "another unit": ("income", "income", 0.001),
           "both": ("income", "thousands", 0.001)}  # fmt: skip


@pytest.mark.parametrize("case", RENAMED)
def test_a_column_of_another_name_or_unit_is_averaged(case: str, tmp_path: Path) -> None:
    name, other, factor = RENAMED[case]
    rng = np.random.default_rng(8)
    true = rng.lognormal(8, 0.6, 1500)
    base = pl.DataFrame({"id": np.arange(1500), "age": rng.integers(2, 6, 1500), "hours": rng.integers(5, 60, 1500)})
    base.with_columns(pl.Series(name, true)).write_csv(tmp_path / "now.csv")
    base.with_columns(pl.Series(other, true * factor)).sample(1500, shuffle=True, seed=1).write_csv(
        tmp_path / "was.csv"
    )

    def made(file: str, column: str, **more: Any) -> Plan:
        return Plan.from_dict({
            "data": str(tmp_path / file), "steps": [{"additive-noise": {"columns": [column], "sd_share": 0.5}}],
            "roles": {"id": "identifier", "age": "quasi", "hours": "sensitive", column: "sensitive"},
            "measures": [{"il1s": {"columns": [column]}}], "requirements": "none", **more,
        })  # fmt: skip

    made("was.csv", other).run(out=tmp_path / "was", journal=tmp_path / "was-journal", seed=2**70)
    release = run_plan(made("now.csv", name, previous=[str(tmp_path / "was-journal")]), seed=2**71)
    (found,) = release.averaging
    assert found.records == 1500 and found.alone == pytest.approx(0.5, rel=0.05)
    assert found.averaged == pytest.approx(0.5 / np.sqrt(2), rel=0.06)


def test_paths_of_a_plan_in_python_start_at_its_base(
    two: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp, source = two
    monkeypatch.chdir(tmp)
    content = plan(source, 0).to_dict() | {"data": "people.csv"}
    Plan.from_dict(content).run(out="a", journal="a-journal", seed=2**70)
    later = pl.concat([people(), people(30, seed=9).with_columns(pl.col("id") + 5000)])
    later.write_csv(tmp / "later.csv")
    previous = [{"journal": "a-journal", "person": "id", "accepted": "withdrawn"}]
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    made = Plan.from_dict({**content, "data": "later.csv", "previous": previous}, base=tmp)
    assert run_plan(made, seed=2**71).combined[0].both > 30  # the people of a file that only its own plan names
    (tmp / "people.csv").write_text((tmp / "later.csv").read_text())  # the same place, another delivery
    with pytest.raises(PlanError, match="the file that it was made of was changed since"):
        run_plan(made, seed=2**71).combined  # noqa: B018


def test_values_that_were_dealt_out_are_told_only_beyond_chance(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n = 900
    frame = pl.DataFrame({"id": np.arange(n), "age": rng.integers(20, 60, n), "town": rng.integers(0, n // 25, n),
                          "illness": rng.integers(0, 14, n)})  # fmt: skip
    frame.write_csv(tmp_path / "p.csv")
    roles = {"id": "identifier", "age": "quasi", "town": "quasi", "illness": "sensitive"}

    def made(origin: int, keep: float | None, **more: Any) -> Plan:
        dealt = [] if keep is None else [{"pram": {"columns": ["illness"], "keep_share": keep}}]
        steps = [{"recode": {"column": "age", "width": 10, "origin": origin}}, *dealt,
                 {"suppress-records": {"columns": ["age", "town"], "k": 3, "limit": 0.5}}]  # fmt: skip
        return Plan.from_dict({"data": str(tmp_path / "p.csv"), "roles": roles, "steps": steps,
                               "measures": [{"il1s": {"columns": ["illness"]}}],
                               "requirements": [{"k-anonymity": {"k": 3}}], **more})  # fmt: skip

    made(0, None).run(out=tmp_path / "first", journal=tmp_path / "first-journal", seed=2**70)
    told = [
        run_plan(made(5, keep, previous=[str(tmp_path / "first-journal")]), seed=2**71).combined[0].told
        for keep in (None, 0.95, 0.05)
    ]
    assert told[0] > 5 and told[1] > 5 and told[2] == 0
