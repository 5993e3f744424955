"""Differences of published cells: judged by the rules, protected and audited like cells."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.tables.differences import combinations_of, groups_of

RULE = dc.Threshold(minimum=3)


def towns_and_squares() -> pl.DataFrame:
    """Give eight areas in two towns and two squares of a grid that agree but for one area, where one person lives."""
    area = np.repeat(np.arange(8), [20, 20, 20, 1, 20, 20, 20, 20])
    ill = ["yes" if a == 3 or i % 2 else "no" for i, a in enumerate(area)]
    return pl.DataFrame({"town": area // 4, "grid": np.where(area < 3, "west", "east"), "ill": ill})


def three_divisions() -> pl.DataFrame:
    """Give pieces 100, 010, 001 of many people and 111 of two."""
    rows = [(1, 0, 0)] * 40 + [(0, 1, 0)] * 50 + [(0, 0, 1)] * 60 + [(1, 1, 1)] * 2
    return pl.DataFrame(rows, schema=["a", "b", "c"], orient="row")


@pytest.mark.parametrize("engine", ["elimination", "levels", "optimal"])
def test_a_town_less_a_square_is_one_ill_person(engine: str) -> None:
    cells = dc.tabulate(towns_and_squares(), [["town", "ill"], ["grid", "ill"]]).apply_rules([RULE])
    assert not cells.primary.any()
    found = cells.audit()
    assert not found.holds
    assert found.unpublished is not None
    assert found.unpublished.bounds.status.tolist() == ["disclosed"]
    assert found.differences_frame()["difference"].to_list() == ["town=0, ill=yes, grid=east"]
    assert found.to_dict()["differences"]["disclosed"] == 1
    with pytest.raises(dc.RequirementNotMet, match="Sensitive sums that no table shows: 1, not protected: 1"):
        cells.publish("nowhere.csv")
    done = cells.suppress(engine)
    assert done.holds
    low, high = done.audit.differences_frame().select("low", "high").row(0)
    assert low <= 0 and high >= 2


def test_tables_in_which_everything_is_published_have_no_such_differences() -> None:
    cells = dc.tabulate(towns_and_squares(), ["town", "grid", "ill"]).apply_rules([RULE])
    assert cells.differences is None
    assert cells.audit().unpublished is None


def test_three_divisions_tell_what_no_two_of_them_tell() -> None:
    data = three_divisions()
    for pair in combinations("abc", 2):
        assert dc.tabulate(data, [[name] for name in pair]).apply_rules([RULE]).differences is None
    cells = dc.tabulate(data, [["a"], ["b"], ["c"]]).apply_rules([RULE])
    assert not cells.audit().holds
    assert cells.audit().differences_frame().select("value", "low", "high").row(0) == (2, 2, 2)
    assert cells.suppress("levels").holds


def inside(a: np.ndarray, places: np.ndarray) -> int:
    """Give the dimension of the combinations of rows that are 0 outside some places."""
    rest = np.delete(a, places, axis=1)
    return int(np.linalg.matrix_rank(a)) - (int(np.linalg.matrix_rank(rest)) if rest.size else 0)


def test_elimination_finds_every_combination_of_small_places() -> None:
    some = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        a = (rng.random((int(rng.integers(2, 7)), int(rng.integers(3, 9)))) < 0.4).astype(np.int64)
        small = rng.random(a.shape[1]) < 0.5
        places = np.flatnonzero(small)
        found = combinations_of(a, small)
        assert len(found) == inside(a, places)
        for one in found:
            at, even = places[list(one)], len(set(one.values())) == 1
            assert inside(a, at) == 1
            assert all(inside(a, np.delete(at, i)) == 0 for i in range(len(at)))  # none is smaller
            unit = np.isin(np.arange(a.shape[1]), at).astype(float)
            assert even == (np.linalg.matrix_rank(np.vstack((a, unit))) == np.linalg.matrix_rank(a))
        some += len(found)
    assert some > 20


def told(a: np.ndarray, places: Any) -> bool:
    """Tell whether a sum of places is a combination of rows."""
    unit = np.isin(np.arange(a.shape[1]), places).astype(float)
    return bool(np.linalg.matrix_rank(np.vstack((a, unit))) == np.linalg.matrix_rank(a))


def test_groups_that_follow_from_several_combinations_are_found() -> None:
    """Every group below the limit that is told and in which no smaller one is told; more than a basis shows."""
    beyond = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        a = (rng.random((6, 12)) < 0.35).astype(np.int64)
        small, weight = rng.random(12) < 0.7, rng.integers(1, 4, 12)
        places = np.flatnonzero(small)
        basis, limit = combinations_of(a, small), int(rng.integers(3, 9))
        groups, tried = groups_of(basis, weight[small], limit)
        assert tried
        found = {frozenset(places[group].tolist()) for group in groups}
        every = [
            set(c) for r in range(1, limit) for c in combinations(places.tolist(), r) if weight[list(c)].sum() < limit
        ]
        wanted = [group for group in every if told(a, list(group))]
        least = {frozenset(one) for one in wanted if not any(other < one for other in wanted)}
        assert least <= found <= set(map(frozenset, wanted))
        beyond += len(least - {frozenset(places[list(one)].tolist()) for one in basis})
    assert beyond > 5
    star = [{i: 1, 9: 1} for i in range(6)]
    assert (
        groups_of(star, np.ones(10, np.int64), 5, most=1)[1]
        and not groups_of(star, np.ones(10, np.int64), 6, most=1)[1]
    )


def test_a_respondent_in_several_pieces_counts_once() -> None:
    firms = pl.DataFrame(
        {
            "town": ["a"] * 6 + ["a"] * 4 + ["b"] * 6,
            "grid": ["g"] * 6 + ["h"] * 4 + ["h"] * 6,
            "firm": [*range(6), 90, 90, 91, 91, *range(10, 16)],
        }
    )
    cells = dc.tabulate(firms, [["town"], ["grid"]], contributor="firm").apply_rules([RULE])
    assert not cells.audit().holds  # four records, two firms
    alone = dc.tabulate(firms, [["town"], ["grid"]]).apply_rules([RULE])
    assert alone.audit().holds


def test_a_piece_of_many_that_one_dominates() -> None:
    rows = [("a", "g", 50.0)] * 12 + [("a", "h", 1000.0)] + [("a", "h", 1.0)] * 9 + [("b", "h", 60.0)] * 15
    firms = pl.DataFrame(rows, schema=["town", "grid", "x"], orient="row")
    cells = dc.tabulate(firms, [["town"], ["grid"]], "x").apply_rules([dc.PPercent(percent=10)])
    assert not cells.primary.any()
    assert cells.audit().differences_frame()["value"].to_list() == [1009.0]
    protected = cells.suppress("levels")
    assert protected.holds
    need = 0.1 * 1000 - 8
    low, high = protected.audit.differences_frame().select("low", "high").row(0)
    assert low <= 1009 - need and high >= 1009 + need


def test_ready_made_linked_tables_say_that_differences_were_not_judged() -> None:
    given = pl.DataFrame(
        {"town": ["a", "b", None, None], "grid": [None, None, "g", "h"], "n": [61, 80, 60, 81]},
    )
    cells = dc.tables.from_cells(given, [["town"], ["grid"]], count="n").mark({"town": "a"}, "unsafe")
    assert "Differences between the linked tables were not judged" in cells.audit().summary


def test_costs_are_those_of_the_cells() -> None:
    cells = dc.tabulate(towns_and_squares(), [["town", "ill"], ["grid", "ill"]]).apply_rules([RULE])
    towns = np.array([cells.label(i)["town"] != "Total" for i in range(len(cells))])
    assert not cells.suppress("levels", cost=np.where(towns, 1000.0, 1.0)).cells.suppressed[towns].any()
    assert cells.suppress("levels", cost=np.where(towns, 1.0, 1000.0)).cells.suppressed[towns].any()
    with pytest.raises(dc.PlanError, match=f"expected {len(cells)} numbers"):
        cells.suppress("levels", cost=np.ones(3))


# --- earlier tables ---


def protected(data: Any, by: list[str], **options: Any) -> dc.tables.Protected:
    return dc.tabulate(data, by, **options).apply_rules([RULE]).suppress("levels")


def test_a_second_table_does_not_undo_the_first() -> None:
    data = towns_and_squares()
    first = protected(data, ["town", "ill"]).cells
    alone = dc.tabulate(data, ["grid", "ill"]).apply_rules([RULE])
    assert alone.audit().holds
    second = dc.tabulate(data, ["grid", "ill"], previous=[first]).apply_rules([RULE])
    assert not second.audit().holds
    assert "readers of this table and of 1 earlier release" in second.audit().summary
    done = second.suppress("levels")
    assert done.holds
    assert len(done.cells) == len(alone)
    assert done.cells.frame().columns == alone.frame().columns


def test_what_the_first_table_suppressed_stays_out_of_reach() -> None:
    people = pl.DataFrame(
        {"town": ["a"] * 12 + ["b"] * 12, "ill": (["y"] * 2 + ["n"] * 10) * 2, "sex": ["f", "m"] * 12}
    )
    first = protected(people, ["town", "ill"]).cells
    assert first.primary.sum() == 2
    rule = dc.Threshold(minimum=2)  # a laxer one
    free = dc.tabulate(people, ["town", "ill"]).apply_rules([rule])
    assert free.audit().holds
    beside = dc.tabulate(people, ["town", "ill"], previous=[first]).apply_rules([rule])
    assert not beside.audit().holds
    done = beside.suppress("levels")
    assert done.holds
    assert done.cells.suppressed[first.primary].all()


def test_the_next_delivery_does_not_show_who_came() -> None:
    then = pl.DataFrame({"id": range(200), "town": ["a"] * 100 + ["b"] * 100, "ill": ["y", "n"] * 100})
    now = then.filter(pl.col("id") != 151).vstack(pl.DataFrame({"id": [500], "town": ["a"], "ill": ["y"]}))
    first = protected(then, ["town", "ill"]).cells
    with pytest.raises(dc.DataError, match="is of other records: 6 of its 9 published cells"):
        dc.tabulate(now, ["town", "ill"], previous=[first])
    before = dc.tables.Previous.matched(first, then, then["id"].to_list(), now["id"].to_list(), name="last year")
    cells = dc.tabulate(now, ["town", "ill"], previous=[before]).apply_rules([RULE])
    found = cells.audit()
    assert sorted(found.differences_frame()["difference"].to_list()) == [
        "town=a, ill=y",
        "town=b earlier, ill=n earlier",
    ]
    assert not found.holds
    assert cells.suppress("levels").holds


def test_somebody_who_left_after_two_deliveries_is_one_person() -> None:
    """Somebody in the first two of three deliveries is one unknown, not two."""
    years = [
        {**dict.fromkeys(range(20), "a"), **dict.fromkeys(range(20, 40), "b"), 50: "a"},
        {**dict.fromkeys(range(20), "a"), **dict.fromkeys(range(20, 40), "b"), 50: "a", 60: "b"},
        {**dict.fromkeys(range(20), "a"), **dict.fromkeys(range(20, 40), "b")},
    ]
    people = [pl.DataFrame({"id": list(year), "town": list(year.values())}) for year in years]
    tables = [dc.tabulate(one, ["town"]) for one in people]

    def earlier(number: int, **options: Any) -> dc.tables.Previous:
        then, now = (one["id"].to_list() for one in (people[number], people[2]))
        return dc.tables.Previous.matched(tables[number], people[number], then, now, **options)

    last = dc.tabulate(people[2], ["town"], previous=[earlier(0), earlier(1)])
    assert last.beside is not None
    assert len(last.beside.own) == 4  # a, b, the one of both years, the one of the second
    called = [["x", *range(1, 41)], ["y", *range(1, 42)]]  # other names: nobody knows that it is the same person
    renamed = dc.tabulate(
        people[2], ["town"], previous=[earlier(i, names=[f"{i}:{n}" for n in called[i]]) for i in (0, 1)]
    )
    assert renamed.beside is not None
    assert len(renamed.beside.own) == 5


def test_people_whom_the_new_table_leaves_out_are_still_in_the_earlier_one() -> None:
    sexes = [None] * 3 + ["f", "m"] * 20
    data = pl.DataFrame({"town": ["a"] * 20 + ["b"] * 23, "sex": sexes, "household": range(43)})
    first = dc.tabulate(data, ["town"])
    second = dc.tabulate(data, ["sex"], missing="ignore", previous=[first]).apply_rules([RULE])
    assert "3 records without a classifying value were left out" in second.notes
    assert second.audit().holds  # three people
    four = dc.tabulate(data, ["sex"], missing="ignore", previous=[first]).apply_rules([dc.Threshold(minimum=4)])
    assert not four.audit().holds
    with pytest.raises(dc.PlanError, match="3 people counted there are not in this table"):
        dc.tabulate(data, ["sex"], missing="ignore", contributor="household", previous=[first])


def test_a_sensitive_cell_that_is_out_cannot_be_protected() -> None:
    people = pl.DataFrame({"town": ["a"] * 2 + ["b"] * 9})
    first = dc.tabulate(people, ["town"])
    second = dc.tabulate(people, ["town"], previous=[first]).apply_rules([RULE])
    assert second.audit().counts["disclosed"] == 1
    with pytest.raises(dc.Infeasible, match=r"published by an earlier release, first \(town=a\)"):
        second.suppress("levels")


def test_earlier_tables_that_cannot_be_taken_into_account() -> None:
    data = towns_and_squares().with_columns(x=pl.lit(2.0))
    counts = dc.tabulate(data, ["town"])
    money = dc.tabulate(data, ["grid"], "x", previous=[counts]).apply_rules([dc.PPercent()])
    assert money.beside is not None
    assert "shows another figure" in money.beside.notes[0]
    rounded = counts.round_random(5, seed=1).cells
    with pytest.raises(dc.PlanError, match="rounded or perturbed"):
        dc.tabulate(data, ["grid"], previous=[rounded])
    with pytest.raises(dc.PlanError, match="got str"):
        dc.tabulate(data, ["grid"], previous=["last year"])  # type: ignore[list-item]
    with pytest.raises(dc.PlanError, match="suppression only"):
        dc.tabulate(data, ["grid"], previous=[counts]).round_random(5, seed=1)
    coarse = data.with_columns(town=pl.lit("all towns"))
    with pytest.raises(dc.DataError, match="other divisions: 1 values of column 'town'"):
        dc.tabulate(coarse, ["grid"], previous=[counts])
