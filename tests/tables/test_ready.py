from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError
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


LINKS = [[["a", "b"], ["a", "c"]], [["a", "b"], ["b", "c"], ["a", "c"]], [["a"], ["b", "c"]]]


def linked_records(seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {name: rng.choice(list(codes), 30) for name, codes in (("a", "pqrs"), ("b", "xyz"), ("c", "uv"))}
    )


@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("gaps", [True, False])
def test_linked_tables_come_back_as_one_system(links: list[list[str]], gaps: bool) -> None:
    for seed in range(4):
        told = dc.tabulate(linked_records(seed), links, weight=False)
        frame = (
            told.frame().select(*(dim.name for dim in told.dims), "count").sample(fraction=1, shuffle=True, seed=seed)
        )
        if gaps:  # variables that a table does not use may be missing
            frame = frame.with_columns(pl.col("a", "b", "c").replace("Total", None))
        cells = dc.tables.from_cells(frame, links, count="count")
        assert [cells.label(i) for i in range(len(cells))] == [told.label(i) for i in range(len(told))]
        assert cells.value.tolist() == told.value.tolist()
        assert cells.in_table.tolist() == told.in_table.tolist() and cells.tables == told.tables
        assert cells.x.transposed.dot(cells.inner_value) == pytest.approx(cells.value, abs=1e-5)
        assert not abs(cells.relations().dot(cells.value)).max()


def test_linked_tables_are_attacked_together() -> None:
    """Three margins of two values each leave little room: the bounds are those of all records that can lie behind.

    Whatever is listed has somebody.
    """
    from scipy.optimize import linprog

    told = dc.tabulate(linked_records(1), LINKS[1], weight=False)
    frame = told.frame().select("a", "b", "c", "count")
    cells = dc.tables.from_cells(frame, LINKS[1], count="count").apply_rules([dc.Threshold(minimum=2)])
    done = cells.suppress("elimination")
    hidden, members = done.cells.suppressed, cells.x.transposed.dense().astype(float)
    found = done.cells.audit(exact=True)
    for cell, low, high in zip(found.cell, found.low, found.high, strict=True):
        for sign, bound in ((1.0, low), (-1.0, high)):
            told_apart = {"A_eq": members[~hidden], "b_eq": cells.value[~hidden]}
            best = linprog(sign * members[cell], **told_apart, A_ub=-members, b_ub=-np.ones(len(cells)))
            assert sign * best.fun == pytest.approx(bound, abs=1e-5)


def test_linked_tables_that_contradict_each_other_are_refused() -> None:
    rows = [("p", "x", None, 4), ("q", "x", None, 6), ("p", None, "u", 5), ("q", None, "u", 5)]
    frame = pl.DataFrame(rows, schema=["a", "b", "c", "n"], orient="row")
    with pytest.raises(dc.DataError, match="not the sums of their parts"):
        dc.tables.from_cells(frame, LINKS[0], count="n")
    with pytest.raises(dc.DataError, match="contradict each other"):
        dc.tables.from_cells(frame, LINKS[0], count="n", additivity="recompute")
    with pytest.raises(dc.DataError, match=r"nothing below them in another one.*a=q"):
        dc.tables.from_cells(frame.filter(pl.col("c").is_null() | (pl.col("a") == "p")).with_columns(
            n=pl.when(pl.col("c").is_null()).then("n").otherwise(4)), LINKS[0], count="n")  # fmt: skip
    pairs = [("a", "b"), ("b", "c"), ("a", "c")]  # each of three differs from the others, but there are two values
    rows = [(*({one: i, other: 1 - i}.get(name) for name in "abc"), 1) for one, other in pairs for i in (0, 1)]
    odd = pl.DataFrame(rows, schema=["a", "b", "c", "n"], orient="row")
    with pytest.raises(dc.DataError, match=r"nothing below them|no records can lie behind"):
        dc.tables.from_cells(odd, LINKS[1], count="n")
    with pytest.raises(dc.DataError, match="of the table b × c"):
        dc.tables.from_cells(frame, [["a", "b"], ["b", "c"]], count="n")


def test_a_published_table_is_read_with_its_own_signs() -> None:
    rows = [("A", "x", None, "c"), ("A", "y", None, "c"), ("B", "x", None, "c"), ("B", "y", None, "c")]
    rows += [
        ("Total", "Total", 20, ""),
        ("A", "Total", 9, ""),
        ("Total", "x", 12, ""),
        ("B", "Total", 11, ""),
        ("Total", "y", 8, ""),
    ]  # type: ignore[list-item]
    frame = pl.DataFrame(rows, schema=["r", "s", "n", "status"], orient="row")
    for options in ({"value": "n"}, {"count": "n"}):
        cells = dc.tables.from_cells(frame, ["r", "s"], status="status", **options)  # type: ignore[arg-type]
        assert int(cells.primary.sum()) == 4
        assert cells.value[cells.index({"r": "A"})] == 9


def test_hierarchies_of_unknown_variables_are_refused() -> None:
    with pytest.raises(dc.PlanError, match="did you mean 'region'"):
        dc.tables.from_cells(ready(made()), BY, "money", hierarchies={"regio": naive.REGION})


@pytest.mark.parametrize("seed", range(6))
def test_the_largest_of_ready_made_cells_attack(seed: int) -> None:
    """Each with the part that is known of it, by one program for each bound: of two firms both, of counts one."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(seed)
    firms = rng.integers(1, 5, 12)
    parts = [np.sort(rng.integers(1, 60, n).astype(float))[::-1] for n in firms]
    keys = [{"r": f"r{i // 4}", "c": f"c{i % 4}"} for i in range(12)]
    frame = pl.DataFrame(keys).with_columns(
        v=pl.Series([part.sum() for part in parts]),
        n=pl.Series(firms),
        t1=pl.Series([part[0] for part in parts]),
        t2=pl.Series([part[1] if len(part) > 1 else 0.0 for part in parts]),
    )
    cells = dc.tables.from_cells(frame, ["r", "c"], "v", count="n", top=["t1", "t2"])
    cell = [cells.index(key) for key in keys]
    target, hidden = cell[0], np.isin(np.arange(len(cells)), [cell[i] for i in (0, 1, 4, 5)])
    cells = cells.mark(np.arange(len(cells)) == target, "unsafe")
    cells = cells.with_status(
        secondary=hidden & ~cells.primary, upper_required=12.0 * cells.primary, lower_required=6.0 * cells.primary
    )
    members = cells.x.transposed.dense().astype(float)
    place = [cells.inner_cell.tolist().index(one) for one in cell]

    def holds(who: int | None, part: float) -> bool:
        bounds: list[tuple[float, float | None]] = [(0.0, None)] * 12
        lowest = 0.0
        if who is not None:
            bounds[place[who]] = (part, part if firms[who] == 1 else None)
            lowest = part if who == 0 else 0.0
        reached = [
            abs(linprog(-sign * members[target], A_eq=members[~hidden], b_eq=cells.value[~hidden], bounds=bounds).fun)
            for sign in (1.0, -1.0)
        ]
        value = cells.value[target]
        return reached[0] >= value + 12 - 1e-6 and reached[1] <= max(value - 6, lowest) + 1e-6

    alone = firms[0] == 1  # nobody else is in the cell: its owner is not judged
    attackers = [(i, part) for i in range(12) for part in parts[i][:2].tolist() if i or not alone]
    assert cells.audit(rules=(), exact=True).holds == (holds(None, 0) and all(holds(*one) for one in attackers))
    assert cells.audit(attacker="outsider", rules=()).holds == holds(None, 0)


def test_largest_contributions_do_not_add_up_to_more_than_the_cell() -> None:
    given = pl.DataFrame(
        {
            "r": list("aabb"),
            "v": [10.0, 20.0, 30.0, 5.0],
            "n": [3, 4, 9, 5],
            "one": [9.0, 9, 5, 3],
            "two": [1.0, 5, 5, 2],
        }
    ).with_columns(c=pl.Series(list("xyxy")))
    tops = ["one", "two"]
    assert dc.tables.from_cells(given, ["r", "c"], "v", count="n", top=tops).top.max() == 9
    over = given.with_columns(two=pl.Series([1.01, 5, 5, 2]))
    with pytest.raises(DataError, match="in 1 cells the largest contributions add up to more"):
        dc.tables.from_cells(over, ["r", "c"], "v", count="n", top=tops)
    dc.tables.from_cells(over, ["r", "c"], "v", count="n", top=tops, tolerance=0.01)  # rounded figures
    negative = over.with_columns(v=pl.Series([-1.0, 20, 30, 5]))  # contributions may be negative
    dc.tables.from_cells(negative, ["r", "c"], "v", count="n", top=tops)
