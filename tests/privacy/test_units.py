"""k counts different households or other units; compositions of households; against counts by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import Infeasible, PlanError

COLUMNS = ["a", "b"]
HIERARCHIES = {name: dc.Hierarchy.tree({"*": {"x": ["0", "1"], "y": ["2", "3"]}}) for name in COLUMNS}


def homes(seed: int, rows: int = 60, missing: bool = False) -> dc.Dataset:
    """Members of a household mostly share their values: classes are larger in records than in households."""
    rng = np.random.default_rng(seed)
    home = np.sort(rng.integers(0, rows // 3, rows))
    own = rng.integers(0, 4, (rows, 2))
    shared = rng.integers(0, 4, (rows // 3, 2))[home]
    values = np.where(rng.random((rows, 1)) < 0.7, shared, own)
    frame = pl.DataFrame({"home": home, "a": values[:, 0].astype(str), "b": values[:, 1].astype(str)})
    if missing:
        gaps = rng.random((rows, 2)) < 0.1
        frame = frame.with_columns(
            pl.when(pl.Series(gaps[:, j])).then(None).otherwise(pl.col(name)).alias(name)
            for j, name in enumerate(COLUMNS)
        )
    roles = {"home": "household", "a": "quasi", "b": "quasi"}
    return dc.Dataset(frame, roles=roles, hierarchies=HIERARCHIES)


def fewest_homes(data: dc.Dataset, reading: str = "category") -> int:
    """Count by hand: for each record the different households of the records it may be confused with."""
    rows = [tuple(row) for row in data.frame.select(COLUMNS).rows()]
    home = data.origin.frame["home"].gather(data.row_ids).to_list()

    def alike(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
        if reading == "wildcard":
            return all(x is None or y is None or x == y for x, y in zip(one, other, strict=True))
        return one == other

    chosen = [row for row in rows if reading != "ignore" or None not in row]
    return min(len({home[j] for j, other in enumerate(rows) if alike(one, other)}) for one in chosen)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("reading", ["category", "wildcard", "ignore"])
def test_k_is_the_fewest_households_under_every_reading(seed: int, reading: str) -> None:
    data = homes(seed, missing=True)
    verdict = dc.KAnonymity(k=2, missing=reading)(data)
    assert verdict.value == fewest_homes(data, reading)
    assert dc.KAnonymity(k=2, missing=reading, count="records")(data).value >= verdict.value


def test_k_members_of_one_household_are_k_1() -> None:
    frame = pl.DataFrame({"home": [7, 7, 7, 1, 2, 3], "a": ["0"] * 3 + ["1"] * 3})
    roles = {"home": "household", "a": "quasi"}
    verdict = dc.KAnonymity(k=3)(dc.Dataset(frame, roles=roles))
    assert (verdict.holds, verdict.value, verdict.failing_records) == (False, 1, 3)
    assert verdict.failing[0].key == {"a": "0"}
    assert dc.KAnonymity(k=3, count="records")(dc.Dataset(frame, roles=roles)).holds
    assert not dc.AlphaK(k=3, alpha=1, sensitive=["home"])(dc.Dataset(frame, roles=roles)).holds
    panel = dc.Dataset(frame, roles={"home": "unit", "a": "quasi"})
    assert dc.KAnonymity(k=3)(panel).value == 1


def test_the_fewest_of_several_kinds_of_units_count_also_when_they_are_not_published() -> None:
    frame = pl.DataFrame({"home": [1, 1, 2, 3], "boss": [1, 1, 1, 1], "a": ["0"] * 4})
    data = dc.Dataset(frame, roles={"home": "household", "boss": "unit", "a": "quasi"})
    assert dc.KAnonymity(k=2)(data).value == 1
    assert dc.KAnonymity(k=2)(data.drop(["boss"])).value == 1
    assert dc.KAnonymity(k=2)(data.drop(["boss", "home"])).value == 1
    assert dc.KAnonymity(k=2)(dc.Dataset(frame, roles={"home": "household", "a": "quasi"})).value == 3


def test_records_without_a_unit_are_one_unit() -> None:
    frame = pl.DataFrame({"home": [None, None, None, 1], "a": ["0"] * 4})
    assert dc.KAnonymity(k=2)(dc.Dataset(frame, roles={"home": "household", "a": "quasi"})).value == 2


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "search",
    [
        dc.OptimalGeneralization(models=[dc.KAnonymity(k=3)], columns=COLUMNS, suppression_limit=0.2),
        dc.Mondrian(columns=COLUMNS, k=3, suppression_limit=0.1),
        dc.LocalRecoding(columns=COLUMNS, k=3),
        dc.LocalSuppression(columns=COLUMNS, k=3),
        dc.LocalSuppression(columns=COLUMNS, k=3, missing="wildcard"),
        dc.SuppressRecords(columns=COLUMNS, k=3, limit=1),
    ],
    ids=lambda search: f"{search.kind}-{getattr(search, 'missing', '')}",
)
def test_every_search_ends_with_k_different_households(search: dc.Method, seed: int) -> None:
    data = homes(seed)
    assert fewest_homes(data) < 3
    result = search(data)
    assert fewest_homes(result, getattr(search, "missing", "category")) >= 3


def test_the_optimum_over_all_levels_counts_households() -> None:
    data = homes(3, rows=90)
    best = dc.OptimalGeneralization(models=[dc.KAnonymity(k=4)], columns=COLUMNS, loss="height")(data)
    reached = best.cell_levels("a"), best.cell_levels("b")
    heights = {}
    for a in range(3):
        for b in range(3):
            levels = {name: level for name, level in (("a", a), ("b", b)) if level}
            made = dc.Generalize(levels=levels)(data) if levels else data
            if fewest_homes(made) >= 4:
                heights[a, b] = a + b
    assert sum(int(np.max(level)) for level in reached) == min(heights.values())


def test_a_search_that_cannot_reach_k_households_says_so() -> None:
    frame = pl.DataFrame({"home": [1, 1, 1, 2, 2, 2], "a": list("001122")})
    data = dc.Dataset(frame, roles={"home": "household", "a": "quasi"})
    for search in (dc.Mondrian(columns=["a"], k=3), dc.LocalSuppression(columns=["a"], k=3)):
        with pytest.raises(Infeasible):
            search(data)


def compositions(data: dc.Dataset, columns: list[str]) -> Counter[tuple[object, ...]]:
    found: dict[object, list[tuple[object, ...]]] = {}
    for home, *values in data.frame.select("home", *columns).rows():
        found.setdefault(home, []).append(tuple("" if value is None else value for value in values))
    return Counter(tuple(sorted(members)) for members in found.values())


@pytest.mark.parametrize("seed", range(6))
def test_household_k_anonymity_counts_compositions(seed: int) -> None:
    data = homes(seed, rows=40, missing=True)
    for columns in (["a"], COLUMNS):
        counted = compositions(data, columns)
        verdict = dc.HouseholdKAnonymity(k=3, columns=columns)(data)
        assert verdict.value == min(counted.values())
        assert verdict.failing_count == sum(size < 3 for size in counted.values())
        assert verdict.failing_records == sum(len(key) * size for key, size in counted.items() if size < 3)
        assert sorted(item.size for item in verdict.failing) == sorted(s for s in counted.values() if s < 3)
        alone = sum(len(key) for key, size in counted.items() if size == 1) / 40
        assert dc.HouseholdUniqueness(columns=columns)(data).value == pytest.approx(alone)


def test_household_k_anonymity_holds_for_persons_too_and_needs_households() -> None:
    for seed in range(8):
        data = homes(seed, rows=24)
        made = dc.Generalize(levels={"a": 2, "b": 2})(data)
        k = dc.HouseholdKAnonymity(k=1)(made).value
        assert dc.KAnonymity(k=k)(made).holds
    with pytest.raises(PlanError, match="household"):
        dc.HouseholdKAnonymity(k=2, columns=COLUMNS)(homes(1).drop(["home"]))


def test_models_that_count_records_say_how_many_of_them_are_one_person() -> None:
    """Three stays of one patient look like a class of three to a model that counts records."""
    frame = pl.DataFrame({"who": [1, 1, 1, 2, 3, 3, 4], "a": [*"0000", *"112"], "b": [*"1110231"], "s": [*"xyzxxyz"]})
    roles = {"who": "unit", "a": "quasi", "b": "quasi", "s": "sensitive"}
    models = [
        dc.AverageRisk(risk=0.9),
        dc.SampleUniquenessBound(share=0.9),
        dc.DistinctLDiversity(l=1),
        dc.KMap(k=1, population=frame),
    ]
    people, homes = dc.Dataset(frame, roles=roles), dc.Dataset(frame, roles={**roles, "who": "household"})
    for model in models:
        verdict = model(people)
        assert verdict.detail["records_of_one_person"] == 3  # those of the first; the third person's two differ in b
        assert "Records are counted, not people: 3 of them stand in classes of several records" in verdict.meaning
        assert model(people.drop(["who"])).detail["records_of_one_person"] == 3  # also when the number is not published
        assert "records_of_one_person" not in model(homes).detail  # members of a household are different people
    assert "records_of_one_person" not in dc.AlphaK(alpha=1, k=1)(people).detail  # k counts people here


def test_every_verdict_says_who_is_assumed_to_attack() -> None:
    verdict = dc.KAnonymity(k=2)(homes(1))
    assert "quasi-identifiers" in verdict.attacker
    assert verdict.to_dict()["attacker"] == verdict.attacker
    assert "household" in dc.HouseholdKAnonymity(k=2)(homes(1)).attacker
