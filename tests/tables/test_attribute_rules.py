"""Counts that say something about a whole group: hand-worked 3 × 3 tables."""

from __future__ import annotations

import polars as pl
import pytest

import discretion as dc
from discretion.tables.rules.rule import Rule


def table(rows: dict[str, tuple[int, ...]]) -> dc.Cells:
    """Give towns (rows) by classes 1, 2, 3 … (columns)."""
    given = [(town, str(c), n) for town, counts in rows.items() for c, n in enumerate(counts, 1)]
    frame = pl.DataFrame(given, schema=["town", "class", "people"], orient="row")
    return dc.tables.from_cells(frame, ["town", "class"], count="people")


def found(cells: dc.Cells) -> dict[tuple[str, str], tuple[float, float]]:
    """Give the sensitive cells with the room they need below and above."""
    return {
        (cells.label(int(i))["town"], cells.label(int(i))["class"]): (
            float(cells.lower_required[i]),
            float(cells.upper_required[i]),
        )
        for i in cells.primary.nonzero()[0]
    }


def needs(cells: dc.Cells) -> list[tuple[str, float]]:
    assert cells.differences is not None
    forms = cells.differences.forms
    return list(zip(forms.labels, forms.upper.tolist(), strict=True))


# town B: all six people are in class 2
ONE_CLASS = {"A": (5, 8, 7), "B": (0, 6, 0), "C": (9, 4, 6)}
# town B: nine of ten are in class 2; the tenth knows it of all others
ALL_BUT_ONE = {"A": (5, 8, 7), "B": (1, 9, 0), "C": (9, 4, 6)}
# town B: all twelve are in classes 1 and 2
TWO_CLASSES = {"A": (5, 8, 7), "B": (3, 9, 0), "C": (9, 4, 6)}


def test_everybody_of_a_town_in_one_class() -> None:
    cells = table(ONE_CLASS).apply_rules([dc.GroupDisclosure(columns="class")])
    assert found(cells) == {("B", "1"): (0, 0), ("B", "2"): (1, 0), ("B", "3"): (0, 0)}
    assert needs(cells) == [("others of B/Total than B/2", 1.0)]


def test_everybody_but_one() -> None:
    assert not dc.GroupDisclosure(columns="class")(table(ALL_BUT_ONE)).any()
    cells = table(ALL_BUT_ONE).apply_rules([dc.KDisclosure(columns="class", coalition=1)])
    assert found(cells) == {("B", "2"): (1, 0), ("B", "3"): (0, 0)}
    assert needs(cells) == [("others of B/Total than B/2", 1.0)]
    wider = table(ALL_BUT_ONE).apply_rules([dc.KDisclosure(columns="class", coalition=2)])
    assert found(wider)["B", "2"] == (2, 0)  # 3 others must be possible, 1 is there
    assert needs(wider) == [("others of B/Total than B/2", 2.0)]


def test_everybody_in_two_neighboring_classes() -> None:
    cells = table(TWO_CLASSES).apply_rules([dc.NarrowRange(column="class", categories=2)])
    assert found(cells) == {("B", "3"): (0, 0)}
    assert needs(cells) == [("outside a narrow range: B/Total", 1.0)]
    assert not dc.NarrowRange(column="class", categories=1)(table(TWO_CLASSES)).any()
    assert not dc.NarrowRange(column="class", categories=3)(table(TWO_CLASSES)).any()  # all classes there are
    assert not dc.NarrowRange(column="class", smallest=13)(table(TWO_CLASSES)).any()
    apart = {**TWO_CLASSES, "B": (3, 0, 9)}
    assert not dc.NarrowRange(column="class", categories=2)(table(apart)).any()


@pytest.mark.parametrize("engine", ["elimination", "levels", "optimal"])
@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        (ONE_CLASS, dc.GroupDisclosure(columns="class")),
        (ALL_BUT_ONE, dc.KDisclosure(columns="class", coalition=1)),
        (TWO_CLASSES, dc.NarrowRange(column="class", categories=2)),
    ],
)
def test_protected_tables_leave_others_possible(rows: dict[str, tuple[int, ...]], rule: Rule, engine: str) -> None:
    cells = table(rows).apply_rules([rule])
    assert not cells.audit().holds
    done = cells.suppress(engine)
    assert done.holds
    assert done.audit.unpublished is not None
    value, need = done.audit.unpublished.value[0], cells.differences.forms.upper[0]  # type: ignore[union-attr]
    assert done.audit.unpublished.bounds.high[0] >= value + need


def test_suppressing_a_cell_and_its_total_does_not_help_where_nobody_else_can_be() -> None:
    """All of town B are in class 2, and the empty cells are not listed: everybody knows that nobody is there."""
    people = pl.DataFrame({"town": ["A"] * 6 + ["B"] * 4, "class": ["1", "2", "3"] * 2 + ["2"] * 4})
    cells = dc.tabulate(people, ["town", "class"]).apply_rules([dc.GroupDisclosure(columns="class")])
    by_hand = cells.suppress_by_hand([{"town": "A"}, {"town": "A", "class": "2"}, {"town": "B"}])
    assert not by_hand.holds
    listed = dc.tabulate(people, ["town", "class"], empty="keep").apply_rules([dc.GroupDisclosure(columns="class")])
    assert listed.suppress("levels").holds


def test_rules_of_counts_refuse_amounts() -> None:
    money = dc.tabulate(pl.DataFrame({"a": ["x", "y"], "n": [1.0, 2.0]}), ["a"], "n")
    for rule in (dc.KDisclosure(), dc.NarrowRange(column="a")):
        with pytest.raises(dc.DataError, match="for tables of counts"):
            money.apply_rules([rule])
    with pytest.raises(dc.DataError, match="variable 'b'"):
        table(ONE_CLASS).apply_rules([dc.NarrowRange(column="b")])
