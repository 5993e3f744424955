from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from tests.shared import reference

rows = st.lists(st.tuples(*[st.sampled_from([*"xyz", None])] * 3), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(rows, rows, st.integers(1, 3))
def test_every_table_by_its_definition(a: list[Any], b: list[Any], ways: int) -> None:
    schema = dict.fromkeys("ijk", pl.String)
    x, y = (pl.DataFrame(each, schema=schema, orient="row") for each in (a, b))
    wanted: dict[str, list[float]] = {"absolute": [], "relative": [], "root": []}
    for table in combinations(range(3), ways):
        first = Counter(tuple(row[j] for j in table) for row in a)
        second = Counter(tuple(row[j] for j in table) for row in b)
        cells = set(first) | set(second)
        p = {cell: first[cell] / len(a) for cell in cells}
        q = {cell: second[cell] / len(b) for cell in cells}
        wanted["absolute"].append(sum(abs(p[c] - q[c]) for c in cells) / 2)
        wanted["relative"].append(np.mean([abs(p[c] - q[c]) / p[c] for c in first]))  # type: ignore[arg-type]
        wanted["root"].append(np.sqrt(sum((np.sqrt(p[c]) - np.sqrt(q[c])) ** 2 for c in cells) / 2))
    for difference, figures in wanted.items():
        score = dc.Contingency(columns=["i", "j", "k"], ways=ways, difference=difference)(x, y)
        assert score.value == pytest.approx(np.mean(figures), abs=1e-12)
        assert score.detail["tables"] == len(figures)


def test_dependence_is_seen_from_two_ways_on() -> None:
    rng = np.random.default_rng(0)
    a = rng.choice(list("uv"), 2000)
    x = pl.DataFrame({"a": a, "b": a})
    y = pl.DataFrame({"a": a, "b": rng.permutation(a)})
    assert dc.Contingency(columns=["a", "b"], ways=1)(x, y).value == 0
    assert dc.Contingency(columns=["a", "b"], ways=2)(x, y).value == pytest.approx(0.5, abs=0.03)


def test_chance_level_is_the_one_the_docstring_gives() -> None:
    rng = np.random.default_rng(0)
    n, cells = 1000, 16
    found = []
    for _ in range(60):
        x, y = (pl.DataFrame({"a": rng.integers(0, cells, n)}).cast(pl.String) for _ in range(2))
        found.append(dc.Contingency(columns=["a"], ways=1)(x, y).value)
    assert np.mean(found) == pytest.approx(np.sqrt((cells - 1) / (np.pi * n)), rel=0.06)


def test_bins_are_those_of_the_original_and_weights_are_repetitions() -> None:
    rng = np.random.default_rng(1)
    x = pl.DataFrame({"a": rng.normal(size=100), "b": rng.integers(0, 3, 100), "w": rng.integers(1, 5, 100)})
    y = x.with_columns(pl.col("a") + 0.3)
    weighted = [dc.Dataset(frame, roles={"w": "weight", "a": "quasi", "b": "quasi"}) for frame in (x, y)]
    repeated = [frame.select(pl.exclude("w").repeat_by("w").explode()) for frame in (x, y)]
    one = dc.Contingency(bins=4)(*weighted)
    assert one.value == pytest.approx(dc.Contingency(columns=["a", "b"], bins=4)(*repeated).value, abs=1e-12)
    quarters = dc.Contingency(columns=["a"], ways=1, bins=4)(x, x.with_columns(pl.lit(1e9).alias("a")))
    assert quarters.value == pytest.approx(0.75)


def test_too_few_columns() -> None:
    x = pl.DataFrame({"a": [1, 2]})
    with pytest.raises(dc.DataError, match="too few for tables of 3"):
        dc.Contingency(columns=["a"], ways=3)(x, x)


@pytest.mark.peers
def test_cell_differences_of_sdcmicro() -> None:
    golden = json.loads(reference("golden", "sdcmicro", "09_infoLoss_roof_water.json").read_text())
    inner = [cell for cell in golden["cellvalues"] if "NA" not in (cell["roof"], cell["water"])]

    def rebuild(which: str) -> pl.DataFrame:
        pairs = [(str(cell["roof"]), str(cell["water"])) for cell in inner for _ in range(cell[which])]
        return pl.DataFrame(pairs, schema=["roof", "water"], orient="row")

    x, y = rebuild("count_o"), rebuild("count_s")
    tables: dict[str, Any] = {}
    for ways in (1, 2):
        tables |= dc.Contingency(columns=["roof", "water"], ways=ways)(x, y).detail["worst_tables"]
    total = sum(table["cells"] for table in tables.values())
    assert total == len(golden["cellvalues"])
    mean = next(row for row in golden["measures"] if row["what"] == "Mean")
    for ours, theirs in (("mean_absolute_count", "absD"), ("mean_root_count", "abssqrtD"), ("relative", "relabsD")):
        found = sum(table[ours] * table["cells"] for table in tables.values()) / total
        assert found == pytest.approx(mean[theirs], rel=1e-9)
