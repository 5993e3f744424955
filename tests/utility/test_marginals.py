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
from scipy.stats import ks_2samp, wasserstein_distance

import discretion as dc
from tests.shared import reference


def figures(x: pl.DataFrame, y: pl.DataFrame, column: str = "a", **more: object) -> dict[str, float]:
    found: dict[str, float] = dc.Marginals(columns=[column], **more)(x, y).detail["per_column"][column]
    return found


def test_categories_by_their_definitions() -> None:
    x, y = pl.DataFrame({"a": list("uuvvw")}), pl.DataFrame({"a": [*"uvvvv", None, *"uvvv"]})
    p, q = np.array([0.4, 0.4, 0.2, 0]), np.array([0.2, 0.7, 0, 0.1])
    found = figures(x, y)
    assert found["hellinger"] == pytest.approx(np.sqrt(1 - np.sqrt(p * q).sum()))
    assert found["total-variation"] == pytest.approx(np.abs(p - q).sum() / 2)
    assert found["kolmogorov"] == found["wasserstein"] == found["total-variation"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-5, 5), min_size=2, max_size=40),
    st.lists(st.integers(-5, 5), min_size=2, max_size=40),
)
def test_numbers_as_scipy_compares_them(a: list[int], b: list[int]) -> None:
    found = figures(pl.DataFrame({"a": a}), pl.DataFrame({"a": b}))
    span = max(*a, *b) - min(*a, *b)
    assert found["kolmogorov"] == pytest.approx(ks_2samp(a, b, method="asymp").statistic, abs=1e-12)
    assert found["wasserstein"] == pytest.approx(wasserstein_distance(a, b) / span if span else 0.0, abs=1e-12)
    assert 0 <= found["total-variation"] <= found["hellinger"] * np.sqrt(2) + 1e-12 <= np.sqrt(2) + 1e-9
    assert found["hellinger"] ** 2 <= found["total-variation"] + 1e-12


def test_weights_are_repetitions() -> None:
    rng = np.random.default_rng(0)
    x = pl.DataFrame(
        {"a": rng.integers(0, 9, 40).astype(float), "b": rng.choice(list("xyz"), 40), "w": rng.integers(1, 5, 40)}
    )
    y = x.with_columns(pl.Series("a", rng.integers(0, 9, 40).astype(float)), pl.Series("w", rng.integers(1, 4, 40)))
    weighted = [dc.Dataset(frame, roles={"w": "weight", "a": "quasi", "b": "quasi"}) for frame in (x, y)]
    repeated = [frame.select(pl.exclude("w").repeat_by("w").explode()) for frame in (x, y)]
    for distance in ("hellinger", "total-variation", "kolmogorov", "wasserstein"):
        one = dc.Marginals(distance=distance)(*weighted).value
        assert one == pytest.approx(dc.Marginals(columns=["a", "b"], distance=distance)(*repeated).value, abs=1e-12)


def test_missing_counts() -> None:
    x, y = pl.DataFrame({"a": [1.0, 2, 3, 4]}), pl.DataFrame({"a": [1.0, None, None, 4]})
    found = figures(x, y)
    assert found["total-variation"] == pytest.approx(0.5)
    assert found["kolmogorov"] == pytest.approx(0.5)
    assert found["wasserstein"] == pytest.approx(0.5 * (1 / 4) * (2 / 3) + 0.5)
    both = figures(pl.DataFrame({"a": [1.0, 2, 4, None]}), y)
    assert both["wasserstein"] == pytest.approx(0.5 * (1 / 6 * 1 / 3 + 1 / 6 * 2 / 3) + 0.25)
    gone = figures(x, pl.DataFrame({"a": [None] * 3}, schema={"a": pl.Float64}))
    assert [gone[name] for name in ("hellinger", "total-variation", "kolmogorov", "wasserstein")] == [1, 1, 1, 1]


def test_sizes_compare_and_a_generalized_column_has_nothing_in_common() -> None:
    rng = np.random.default_rng(0)
    for n in (300, 3000):
        x, y = pl.DataFrame({"a": rng.normal(size=n)}), pl.DataFrame({"a": rng.normal(0.5, 1, size=4 * n)})
        assert figures(x, y)["kolmogorov"] == pytest.approx(0.197, abs=0.06)
    cut = pl.DataFrame({"a": ["low", "high"] * 150})
    assert figures(pl.DataFrame({"a": rng.normal(size=300)}), cut)["hellinger"] == pytest.approx(1.0)


def test_value_is_the_mean_of_the_chosen_distance() -> None:
    x = pl.DataFrame({"a": list("uuvv"), "b": list("kkll")})
    y = pl.DataFrame({"a": list("uuvv"), "b": list("kkkk")})
    score = dc.Marginals(columns=["a", "b"], distance="total-variation")(x, y)
    assert score.value == 0.25
    assert "most for b" in score.meaning


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


def draw(n: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame({"a": rng.normal(size=n), "b": rng.uniform(size=n), "c": rng.choice(list("pqrstuvw"), n)})


FIELDS = {"columns": ["a", "b", "c"]}


def test_same_data_answers_the_same() -> None:
    x = draw(300, 0)
    assert dc.RangeQueries(**FIELDS)(x, x.sample(fraction=1, shuffle=True, seed=1)).value == 0


def test_queries_select_what_was_asked_for() -> None:
    x = draw(4000, 0)
    for size, share in ((1, 0.1), (2, 0.1), (3, 0.3)):
        score = dc.RangeQueries(**FIELDS, size=size, selectivity=share)(x, x)
        assert score.detail["mean_share"] == pytest.approx(share, rel=0.15)


def test_error_of_a_known_change() -> None:
    x = pl.DataFrame({"c": ["u"] * 50 + ["v"] * 50})
    y = pl.DataFrame({"c": ["u"] * 80 + ["v"] * 20})
    score = dc.RangeQueries(columns=["c"], selectivity=0.5)(x, y)
    assert score.value == pytest.approx(0.6)  # whichever category is asked for: |50 − 80|/50
    assert score.detail["percentile_95"] == pytest.approx(0.6)


def test_counts_do_not_depend_on_size_and_weights_are_repetitions() -> None:
    rng = np.random.default_rng(1)
    x = draw(200, 0).with_columns(pl.Series("w", rng.integers(1, 5, 200)))
    y = draw(200, 1).with_columns(pl.Series("w", rng.integers(1, 5, 200)))
    roles = {"w": "weight", "a": "quasi", "b": "quasi", "c": "quasi"}
    ones = [dc.Dataset(f.drop("w"), roles={k: v for k, v in roles.items() if k != "w"}) for f in (x, y)]
    twice = pl.concat([y.drop("w")] * 2)
    assert dc.RangeQueries()(ones[0], twice).value == pytest.approx(dc.RangeQueries()(*ones).value, rel=1e-9)
    weighted = [dc.Dataset(f, roles=roles) for f in (x, y)]
    answers = dc.RangeQueries(columns=["c"])(*weighted).value
    repeated = [f.select(pl.exclude("w").repeat_by("w").explode()) for f in (x, y)]
    assert answers == pytest.approx(dc.RangeQueries(columns=["c"])(*repeated).value, rel=1e-9)


def test_the_floor_bounds_small_counts() -> None:
    x = pl.DataFrame({"a": np.arange(1000.0)})
    gone = pl.DataFrame({"a": np.full(1000, -1.0)})
    assert dc.RangeQueries(columns=["a"], selectivity=0.01)(x, gone).value == pytest.approx(1)
    low = dc.RangeQueries(columns=["a"], selectivity=0.01, floor_share=0.5)(x, gone)
    assert low.value == pytest.approx(low.detail["mean_share"] / 0.5)
    assert low.detail["below_floor"] == 500


def test_noise_costs_more_the_more_of_it() -> None:
    x = draw(1000, 0)
    found = [
        dc.RangeQueries(columns=["a", "b"])(x, dc.AdditiveNoise(columns=["a", "b"], sd_share=sd)(x, seed=1)).value
        for sd in (0.01, 0.3, 3)
    ]
    assert found == sorted(found)
    assert found[2] > 3 * found[0]


def test_seed_decides_and_nothing_to_ask_is_an_error() -> None:
    x, y = draw(200, 0), draw(200, 1)
    measure = dc.RangeQueries(**FIELDS)
    assert measure(x, y, seed=1).value == measure(x, y, seed=1).value != measure(x, y, seed=2).value
    empty = pl.DataFrame({"a": [None, None]}, schema={"a": pl.Float64})
    with pytest.raises(dc.DataError, match="no column of the original has a value"):
        dc.RangeQueries(columns=["a"])(empty, empty)
