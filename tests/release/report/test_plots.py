from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.data.dataset import Dataset
from discretion.release.report import charts, figures, page, svg
from discretion.release.report.charts import Sides, sides_of
from discretion.release.report.figures import figures_of
from discretion.release.report.summary import scores_of
from tests.release.report.build import people, release
from tests.release.report.html import read

RNG = np.random.default_rng(11)


def both(original: dict[str, object], released: dict[str, object]) -> Sides:
    return Sides(Dataset(pl.DataFrame(original)), Dataset(pl.DataFrame(released)), aligned=True)


def test_error_curve_needs_a_hundred_records_in_public() -> None:
    x = RNG.normal(size=99)
    assert charts.error_curve_of("x", x, x + 1, internal=False, withhold_scale=False) is None
    assert charts.error_curve_of("x", x, x + 1, internal=True, withhold_scale=False) is not None


def test_error_curve_in_standard_deviations() -> None:
    x = RNG.normal(0, 5, 2000)
    curve = charts.error_curve_of("x", x, x + 10, internal=False, withhold_scale=False)
    assert curve is not None
    assert curve.percentiles == tuple(range(1, 100))
    assert set(curve.errors) == {float(f"{10 / x.std(ddof=1):.2g}")}


def test_error_curve_leaves_ten_records_beyond() -> None:
    x = RNG.normal(size=200)
    y = x.copy()
    y[:9] += 1000
    curve = charts.error_curve_of("x", x, y + 0.1, internal=False, withhold_scale=False)
    assert curve is not None
    assert curve.percentiles[-1] == 95
    assert max(curve.errors) < 1


@pytest.mark.parametrize("strength", [0.0731, 5.0])
def test_scaled_error_curve_hides_the_strength(strength: float) -> None:
    x = RNG.normal(size=500)
    noise = np.random.default_rng(3).normal(size=500)
    curve = charts.error_curve_of("x", x, x + strength * noise, internal=False, withhold_scale=True)
    plain = charts.error_curve_of("x", x, x + noise, internal=False, withhold_scale=True)
    assert curve == plain
    assert curve is not None
    assert curve.errors[-1] == 1.0


@pytest.mark.parametrize("y", [np.zeros(300), np.arange(300.0)])
def test_no_error_curve_without_spread_or_error(y: np.ndarray) -> None:
    assert charts.error_curve_of("x", y, y, internal=True, withhold_scale=False) is None


def test_class_sizes_are_shares_of_records() -> None:
    labels = ["a"] + ["b"] * 2 + ["c"] * 4 + ["d"] * 9 + ["e"] * 19 + ["f"] * 49 + ["g"] * 50
    data = Dataset(pl.DataFrame({"x": labels}), roles={"x": "quasi"})
    shares = charts.shares_of(data, ("x",))
    assert shares == tuple(round(size / len(labels), 3) for size in (1, 2, 4, 9, 19, 49, 50))
    drawn = charts.draw_class_sizes(charts.ClassSizes(("x",), shares, shares))
    assert "classes of 50+: 37.3% before, 37.3% after" in drawn


def test_no_class_sizes_without_quasi_identifiers() -> None:
    data = Dataset(pl.DataFrame({"x": [1.0, 2.0]}), roles={"x": "sensitive"})
    assert charts.class_sizes_of(release([], data)) is None


def test_correlation_differences_have_two_decimals() -> None:
    x = RNG.normal(size=(500, 3))
    x[:, 1] += x[:, 0]
    before = {name: x[:, j] for j, name in enumerate("abc")}
    after = {**before, "a": x[::-1, 0].copy()}
    found = charts.correlations_of(both(before, after), list("abc"), internal=False)
    assert found is not None
    change = np.corrcoef(after["a"], x[:, 1])[0, 1] - np.corrcoef(x[:, 0], x[:, 1])[0, 1]
    assert found.differences[1][0] == pytest.approx(change, abs=0.00501)
    assert found.differences[2][1] == 0
    assert all(value is not None and round(value, 2) == value for row in found.differences for value in row)
    assert read(charts.draw_correlations(found)).faults == []


def test_correlations_of_few_records_stay_inside() -> None:
    columns = {name: RNG.normal(size=60) for name in "abc"}
    sides = both(columns, columns)
    assert charts.correlations_of(sides, list("abc"), internal=False) is None
    assert charts.correlations_of(sides, list("abc"), internal=True) is not None


def test_constant_and_too_few_columns_have_no_correlations() -> None:
    columns = {"a": RNG.normal(size=200), "b": RNG.normal(size=200), "c": np.ones(200)}
    assert charts.correlations_of(both(columns, columns), list("abc"), internal=True) is None


def test_categories_name_only_frequent_values() -> None:
    labels = ["common"] * 40 + ["rare"] * 9 + [None] * 1
    found = figures.categories_of(Dataset(pl.DataFrame({"x": labels})), "x")
    assert found is not None
    assert found.labels == ("common",)
    assert found.rest == ("1 other", 0.18)
    assert found.missing == 0.02
    assert "rare" not in figures.draw(found)


def test_categories_show_twelve_and_sort_intervals() -> None:
    labels = [f"[{10 * k}, {10 * k + 9}]" for k in range(20) for _ in range(12 + k)]
    found = figures.categories_of(Dataset(pl.DataFrame({"x": labels})), "x")
    assert found is not None
    assert len(found.labels) == 12
    assert found.labels[0] == "[80, 89]"
    assert found.labels[-1] == "[190, 199]"
    assert found.rest is not None
    assert found.rest[0] == "8 others"


def test_no_categories_where_all_are_rare() -> None:
    assert figures.categories_of(Dataset(pl.DataFrame({"x": [str(i) for i in range(100)]})), "x") is None


def test_sets_are_categories_too() -> None:
    found = figures.categories_of(Dataset(pl.DataFrame({"x": [["b", "a"], []] * 20})), "x")
    assert found is not None
    assert set(found.labels) == {"a, b", "(empty set)"}


def test_rows_that_cannot_be_matched_have_no_errors() -> None:
    done = release([dc.RankSwap(columns=["income"], percent=10)])
    stranger = Dataset(done.data.frame.head(300), schema=done.data.schema)
    from dataclasses import replace

    other = replace(done, data=stranger)
    assert not sides_of(other).aligned
    notes = [note for group in figures_of(other, internal=False) for note in group.notes]
    assert "income: no errors, because released records do not belong to original ones." in notes


def test_range_bars_lie_within_the_range() -> None:
    rows = scores_of(release([dc.RankSwap(columns=["income"], percent=10)]), "risk", internal=False)
    assert rows
    for row in rows:
        assert row.range is not None
        assert 0 <= row.range.after <= 1
        assert f"after {row.after}" in page.draw(row)


def test_open_ranges_have_no_bar() -> None:
    rows = scores_of(release(measures=[dc.Mse(columns=["income"])]), "utility", internal=False)
    assert [page.draw(row) for row in rows] == [""]


def test_ticks_are_round_numbers() -> None:
    assert svg.ticks(0, 1, 5) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert svg.ticks(-30, 130, 4) == [0, 50, 100]
    assert svg.nice_step(0.0, 5) == 1.0
    assert svg.nice_step(7.0, 20, whole=True) == 1.0


def test_elements_are_escaped_and_short() -> None:
    assert svg.text(1.04, -0.01, "<&>", data_x='"') == (
        '<text x="1" y="0" fill="#1b2733" font-size="12" data-x="&quot;">&lt;&amp;&gt;</text>'
    )


def test_people_have_pictures_of_every_kind() -> None:
    steps = [dc.Generalize(levels={"age": 2}), dc.RankSwap(columns=["income", "savings"], percent=10)]
    groups = {group.key: group for group in figures_of(release(steps, people(800)), internal=False)}
    assert list(groups) == ["class-sizes", "numbers", "categories", "correlations"]
    assert [one.title for one in groups["numbers"].figures] == [
        "income: values",
        "income: errors",
        "savings: values",
        "savings: errors",
    ]
