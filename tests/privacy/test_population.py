"""k-map and δ-presence: how many people of the population fit each class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc

PAIRS = st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.sampled_from("xy"))), min_size=1, max_size=12)


def frame(rows: list[tuple[int, str | None]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"a": pl.Int64, "b": pl.String}, orient="row")


@given(sample=PAIRS, more=PAIRS)
@settings(max_examples=60, deadline=None)
def test_against_counting(sample: list, more: list) -> None:
    people = sample + more
    want = min(people.count(row) for row in sample)
    verdict = dc.KMap(k=3, population=frame(people), columns=["a", "b"])(frame(sample))
    assert (verdict.value, verdict.holds) == (want, want >= 3)
    assert verdict.failing_records == sum(people.count(row) < 3 for row in sample)
    shares = [sample.count(row) / people.count(row) for row in people]
    both = dc.DeltaPresence(delta_min=0.3, delta_max=0.6, population=frame(people), columns=["a", "b"])(frame(sample))
    assert both.value == max(shares)
    assert both.detail["smallest_share"] == min(shares)
    assert both.holds == (min(shares) >= 0.3 and max(shares) <= 0.6)
    above = dc.DeltaPresence(delta_max=0.6, population=frame(people), columns=["a", "b"])(frame(sample))
    assert above.holds == (max(shares) <= 0.6)


def test_population_file_and_frequencies(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    pl.DataFrame({"a": [1, 2], "b": ["x", "y"], "people": [10, 3]}).write_csv(path)
    model = dc.KMap(k=5, population=str(path), frequency="people", columns=["a", "b"])
    verdict = model(frame([(1, "x"), (2, "y")]))
    assert verdict.value == 3 and [item.key for item in verdict.failing] == [{"a": "2", "b": "y"}]
    assert model.population_name == str(path)
    pl.DataFrame({"a": [1], "b": ["x"], "people": [0.5]}).write_csv(path)
    with pytest.raises(dc.DataError, match="whole numbers"):
        model(frame([(1, "x")]))


def test_numbers_agree_whatever_their_type() -> None:
    people = pl.DataFrame({"a": [1.0, 1.0, 2.0]})
    assert dc.KMap(k=2, population=people, columns=["a"])(pl.DataFrame({"a": [1]})).value == 2
    assert dc.KMap(k=2, population=people, columns=["a"])(pl.DataFrame({"a": ["1"]})).value == 2


@pytest.mark.parametrize(
    "hierarchy",
    [
        dc.Hierarchy.intervals(width=10, levels=3),
        [[str(v), f"{v // 10}x", "*"] for v in range(100)],
    ],
)
def test_raw_population_is_generalized_as_the_release_is(hierarchy: object) -> None:
    sample = dc.Dataset(pl.DataFrame({"a": [21, 35]}), roles={"a": "quasi"}, hierarchies={"a": hierarchy})
    released = dc.Generalize(levels={"a": 1})(sample)
    people = pl.DataFrame({"a": [21, 35, 22, 29, 36, 77]})
    verdict = dc.KMap(k=3, population=people)(released)
    assert verdict.value == 2 and verdict.failing_count == 1
    presence = dc.DeltaPresence(delta_min=0.1, delta_max=0.5, population=people)(released)
    assert presence.failing_count == 1 and presence.failing[0].size == 0
    assert presence.failing[0].key["a"] in ("7x", "[70, 79]")
    labels = [label for label in released.frame["a"].to_list() for _ in range(4)]
    assert dc.KMap(k=3, population=pl.DataFrame({"a": labels}))(released).value == 4


def test_population_with_values_the_hierarchy_lacks() -> None:
    rows = [[str(v), f"{v // 10}x", "*"] for v in range(50)]
    sample = dc.Dataset(pl.DataFrame({"a": [21, 35]}), roles={"a": "quasi"}, hierarchies={"a": rows})
    released = dc.Generalize(levels={"a": 1})(sample)
    with pytest.raises(dc.DataError, match="'77'"):
        dc.KMap(k=3, population=pl.DataFrame({"a": [21, 35, 77]}))(released)


def test_one_level_for_each_column() -> None:
    rows = [[str(v), f"{v // 10}x", "*"] for v in range(50)]
    data = dc.Dataset(pl.DataFrame({"a": ["21", "3x"]}), roles={"a": "quasi"}, hierarchies={"a": rows})
    with pytest.raises(dc.DataError, match="2 levels in different records"):
        dc.KMap(k=1, population=pl.DataFrame({"a": [21, 35]}))(data)


def test_population_must_contain_the_data() -> None:
    people = pl.DataFrame({"a": [1, 2]})
    with pytest.raises(dc.DataError, match="in 1 of 2 classes the population has fewer"):
        dc.DeltaPresence(delta_max=1, population=people, columns=["a"])(pl.DataFrame({"a": [1, 1, 2]}))
    assert dc.KMap(k=1, population=people, columns=["a"])(pl.DataFrame({"a": [3]})).value == 0
    with pytest.raises(dc.DataError, match="unknown column 'b'"):
        dc.KMap(k=1, population=people, columns=["b"])(pl.DataFrame({"b": [3]}))


def test_either_a_population_or_its_size() -> None:
    for fields in ({}, {"population": "x.csv", "population_size": 10}):
        with pytest.raises(dc.PlanError, match="either `population` or `population_size`"):
            dc.KMap(k=2, **fields)
    with pytest.raises(dc.PlanError, match="`delta_min` is larger"):
        dc.DeltaPresence(delta_min=0.5, delta_max=0.2, population="x.csv")


def test_estimated_map_controls_its_error() -> None:
    """Of classes that fit just k people, the given share passes the test in a sample."""
    rng = np.random.default_rng(5)
    sizes = rng.binomial(200, 0.02, 10_000)
    model = dc.KMap(k=200, population_size=200 * 10_000, columns=["a"], significance=0.1)
    needed = model.records_needed(int(sizes.sum()))
    seen = sizes[sizes > 0]
    assert (seen >= needed).mean() <= 0.1 < (seen >= needed - 1).mean()
    verdict = model(pl.DataFrame({"a": np.repeat(np.arange(len(sizes)), sizes)}))
    assert verdict.failing_count == (seen < needed).sum()


def test_estimated_map_value_is_the_largest_k_that_holds() -> None:
    data = pl.DataFrame({"a": np.repeat(np.arange(50), 6)})
    for size in (300, 600, 3000, 100_000):
        value = int(dc.KMap(k=2, population_size=size, columns=["a"])(data).value)
        assert dc.KMap(k=value, population_size=size, columns=["a"])(data).holds
        assert not dc.KMap(k=value + 1, population_size=size, columns=["a"])(data).holds
        assert value >= 6
    with pytest.raises(dc.DataError, match="smaller than the data of 300"):
        dc.KMap(k=2, population_size=200, columns=["a"])(data)
