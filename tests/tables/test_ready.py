from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.tables.ready import misfits

from . import naive

BY = ["region", "sector"]


def ready(cells: dc.Cells) -> pl.DataFrame:
    return cells.frame(internal=True).rename({"respondents": "k"})


def made(**options: object) -> dc.Cells:
    frame = naive.records(np.random.default_rng(5), 80)
    return dc.tabulate(frame, BY, "money", hierarchies={"region": naive.REGION}, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("only_inner", [True, False])
def test_a_table_comes_back_from_its_cells(only_inner: bool) -> None:
    cells = made()
    given = ready(cells)
    if only_inner:
        given = given[np.sort(cells.inner_cell)]
    back = dc.tables.from_cells(
        given.sample(fraction=1, shuffle=True, seed=1), BY, "true_value", count="k", top=["top_1", "top_2", "top_3"],
        hierarchies={"region": naive.REGION},
    )  # fmt: skip
    assert naive.labels(back) == naive.labels(cells)
    for name in ("value", "count", "top"):
        assert getattr(back, name) == pytest.approx(getattr(cells, name))
    assert back.x.transposed.dot(back.inner_value) == pytest.approx(back.value)
    for rule in (dc.PPercent(percent=20), dc.Threshold(minimum=4), dc.Dominance(n=3, percent=60)):
        assert rule(back).tolist() == rule(cells).tolist()


def test_given_counts_of_totals_are_kept() -> None:
    frame = pl.DataFrame({"a": ["x", "y", "Total"], "v": [5.0, 6.0, 11.0], "k": [2, 2, 3]})
    assert dc.tables.from_cells(frame, ["a"], "v", count="k").count.tolist() == [3, 2, 2]


def test_totals_that_do_not_add_up_are_reported_and_can_be_recomputed() -> None:
    given = ready(made()).with_columns(
        true_value=pl.when(pl.col("region") == "N").then(pl.col("true_value") + 2.5).otherwise("true_value")
    )
    with pytest.raises(dc.DataError, match=r"totals are not the sums of their parts") as caught:
        dc.tables.from_cells(given, BY, "true_value", hierarchies={"region": naive.REGION})
    text = str(caught.value)
    assert "region=N, sector=x: misses its parts along 'region' by 2.5" in text
    assert "region=Total, sector=Total: misses its parts along 'region' by -2.5" in text
    again = dc.tables.from_cells(given, BY, "true_value", hierarchies={"region": naive.REGION}, additivity="recompute")
    assert again.value == pytest.approx(made().value) and "computed anew" in again.notes[0]
    loose = dc.tables.from_cells(given, BY, "true_value", hierarchies={"region": naive.REGION}, tolerance=6)
    assert misfits(loose, 6) == [] and len(misfits(loose, 1)) > 0


def test_the_report_is_limited() -> None:
    given = pl.DataFrame(
        {"a": [f"g{i}" for i in range(30)] * 2, "b": ["x"] * 30 + ["Total"] * 30, "v": [1.0] * 30 + [2.0] * 30}
    )
    with pytest.raises(dc.DataError, match="and 21 more"):
        dc.tables.from_cells(given, ["a", "b"], "v")


def test_suppressed_cells_may_come_without_values() -> None:
    frame = pl.DataFrame(
        {
            "a": ["Total", "Total", "Total", "x", "x", "x", "y", "y", "y"],
            "b": ["Total", "p", "q"] * 3,
            "v": [10, 6, 4, 5, None, None, 5, None, None],
            "s": ["z", "s", "s", "s", "u", "x", "s", "x", "x"],
        }
    )
    cells = dc.tables.from_cells(frame, ["a", "b"], "v", status="s")
    assert cells.primary.sum() == 1 and cells.secondary.sum() == 3 and cells.status.must_publish.sum() == 1
    assert np.isnan(cells.value).sum() == 4
    assert cells.frame()["v"].null_count() == 4
    with pytest.raises(dc.DataError, match="4 cells have no value"):
        dc.tables.from_cells(frame, ["a", "b"], "v")
    with pytest.raises(dc.DataError, match="unknown status 'q'"):
        dc.tables.from_cells(frame.with_columns(s=pl.lit("q")), ["a", "b"], "v", status="s")
    with pytest.raises(dc.DataError, match="are not suppressed"):
        dc.tables.from_cells(frame.with_columns(s=pl.lit("s")), ["a", "b"], "v", status="s")


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda f: pl.concat([f, f]), {}, "repeat a cell"),
        (lambda f: f.filter(pl.col("a") == "Total"), {}, "no row is an inner cell"),
        (lambda f: f.head(0), {}, "no rows"),
        (lambda f: f.with_columns(a=None), {}, "missing codes"),
        (lambda f: f, {"hierarchies": {"a": {"Total": ["x"]}}}, "unknown code 'y'"),
        (lambda f: f, {"value": None}, "give `value`, `count`"),
        (lambda f: f, {"count": "half"}, "whole and not negative"),
        (lambda f: f, {"top": ["half", "v"]}, "from the largest"),
        (lambda f: f, {"additivity": "guess"}, "'check' or 'recompute'"),
        (lambda f: f, {"count": "vv"}, "unknown column"),
    ],
)
def test_bad_cells_are_refused(change: object, options: dict[str, object], message: str) -> None:
    frame = pl.DataFrame({"a": ["x", "y", "Total"], "v": [5.0, 6.0, 11.0], "half": [0.5, 0.5, 1.0]})
    with pytest.raises((dc.DataError, dc.PlanError), match=message):
        dc.tables.from_cells(change(frame), ["a"], **{"value": "v", **options})  # type: ignore[operator, arg-type]


def test_rules_say_what_they_lack() -> None:
    cells = dc.tables.from_cells(pl.DataFrame({"a": ["x", "y"], "v": [5.0, 6.0]}), ["a"], "v")
    with pytest.raises(dc.DataError, match="column `count`"):
        cells.apply_rules([dc.Threshold()])
    with pytest.raises(dc.PlanError, match="columns in `top`"):
        cells.apply_rules([dc.PPercent()])
