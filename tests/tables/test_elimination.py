"""Complementary suppression by elimination: against fractions, planted attacks, and other tools' counts."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.errors import Infeasible
from discretion.kernels.elimination import PRIME, Relations, inverse, invert_all, minus, plus, publishable, times
from discretion.tables import elimination
from discretion.tables.elimination import eliminate, known_combinations, known_rows
from tests.shared import reference
from tests.tables import naive
from tests.tables.exact import Span, columns, learned

NACE = ("nace", "region", "size")


def linked(seed: int, n: int = 14, **options: Any) -> dc.Cells:
    frame = naive.records(np.random.default_rng(seed), n, **options)
    by = [["region", "sector"], ["region", "size"]] if seed % 3 == 0 else ["region", "sector"]
    return dc.tabulate(frame, by, "money", hierarchies={"region": naive.REGION}, contributor="firm")


def by_fractions(cells: dc.Cells, known: list[list[int]]) -> set[int]:
    """Go through the cells with rational numbers; the reference of the kernel."""
    column = columns(cells.x.dense())
    primary = np.flatnonzero(cells.primary).tolist()
    order = sorted(np.flatnonzero(~cells.primary).tolist(), key=lambda j: -max(cells.value[j], 1e-9))
    span, hidden = Span(), set()
    for j in order:
        trial = span.copy()
        trial.add(column[j])
        clash = any(trial.holds(column[p]) for p in primary)
        clash = clash or any(learned(trial, column[p], own) for p in primary for own in known)
        if clash:
            hidden.add(j)
        else:
            span = trial
    return hidden


def published(cells: dc.Cells, hidden: Any) -> Span:
    span = Span()
    for j, column in enumerate(columns(cells.x.dense())):
        if not cells.primary[j] and not hidden[j]:
            span.add(column)
    return span


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(6, 20))
def test_agrees_with_fractions(seed: int, n: int) -> None:
    cells = linked(seed, n)
    cells = cells.apply_rules([dc.Threshold(minimum=2)])
    mask = eliminate(cells, cost=np.maximum(cells.value, 1e-9), singletons=False)
    assert set(np.flatnonzero(mask).tolist()) == by_fractions(cells, [])


def test_candidates_of_one_stage_agree_with_fractions() -> None:
    """Few sensitive cells in a larger table: most candidates are published without a look at them."""
    rng = np.random.default_rng(1)
    row, col = np.indices((9, 9)).reshape(2, -1)
    frame = pl.DataFrame({"row": row, "col": col, "v": rng.integers(1, 60, 81).astype(float)})
    cells = dc.tabulate(frame.filter(pl.Series(rng.random(81) < 0.9)), ["row", "col"], "v")
    inner = np.flatnonzero(np.diff(cells.x.transposed.indptr) == 1)
    cells = cells.mark(rng.choice(inner, 2, replace=False), "unsafe")
    mask = eliminate(cells, cost=np.maximum(cells.value, 1e-9), singletons=False)
    assert mask.any() and set(np.flatnonzero(mask).tolist()) == by_fractions(cells, [])


@pytest.mark.parametrize("seed", range(4))
def test_stages_of_any_size_publish_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All candidates at once, and each in a stage of its own, which is going through them one by one."""
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame({name: rng.integers(0, size, 2_000) for name, size in (("a", 12), ("b", 11), ("c", 6))})
    cells = dc.tabulate(frame.with_columns(v=np.ceil(rng.lognormal(3, 1, 2_000))), ["a", "b", "c"], "v")
    inner = np.flatnonzero(np.diff(cells.x.transposed.indptr) == 1)
    cells = cells.mark(rng.choice(inner, (3, 10, 40, 120)[seed], replace=False), "unsafe")
    usual = eliminate(cells, singletons=False)
    assert usual.sum() >= 9
    for parts in (1, 10**9):
        for name, value in (("PARTS", parts), ("MOST_PARTS", parts), ("FEWEST", 1)):
            monkeypatch.setattr(f"discretion.kernels.elimination.{name}", value)
        assert (usual == eliminate(cells, singletons=False)).all()


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000), st.integers(6, 16), st.sampled_from([0, 6]))
def test_nobody_computes_a_sensitive_cell(seed: int, n: int, firms: int) -> None:
    cells = linked(seed, n, firms=firms).apply_rules([dc.Threshold(minimum=3)])
    hidden = eliminate(cells)
    span, column = published(cells, hidden), columns(cells.x.dense())
    own = np.flatnonzero(known_rows(cells)).tolist()
    for p in np.flatnonzero(cells.primary).tolist():
        assert not span.holds(column[p])
        for row in own:
            assert not learned(span, column[p], [row])
    assert not (hidden & cells.primary).any()


def test_first_try_with_singletons_agrees_with_fractions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discretion.tables.elimination.RETRIES", 0)
    for seed in range(7):
        cells = linked(seed, 11).apply_rules([dc.Threshold(minimum=2)])
        own = [[row] for row in np.flatnonzero(known_rows(cells)).tolist()]
        mask = eliminate(cells, cost=np.maximum(cells.value, 1e-9))
        assert set(np.flatnonzero(mask).tolist()) == by_fractions(cells, own), seed


def test_another_order_never_costs_more(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(10):
        cells = linked(seed, 25).apply_rules([dc.Threshold(minimum=2)])
        found = cells.value[eliminate(cells)].sum()
        monkeypatch.setattr("discretion.tables.elimination.RETRIES", 0)
        assert found <= cells.value[eliminate(cells)].sum()
        monkeypatch.undo()


def test_other_orders_that_begin_alike_give_what_they_give_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0
    original = elimination.publishable

    def both(*given: Any) -> Any:
        nonlocal compared
        found = original(*given)
        if given[-1] is not None:
            compared += 1
            assert (found == original(*given[:-1], None)).all()
        return found

    monkeypatch.setattr(elimination, "publishable", both)
    for seed in range(6):
        eliminate(linked(seed, 30).apply_rules([dc.Threshold(minimum=2)]))
    assert compared > 10


def firms_in_a_row() -> dc.Cells:
    """Two firms, each alone in a cell of row a; the classical pattern hides a rectangle with both."""
    frame = pl.DataFrame(
        {
            "row": list("aaabbbbbbccc"),
            "col": list("xyzxxyyzzxyz"),
            "turnover": [10, 12, 500, 40, 45, 50, 55, 60, 65, 700, 800, 900],
        }
    )
    cells = dc.tabulate(frame, ["row", "col"], "turnover")
    return cells.mark([{"row": "a", "col": "x"}, {"row": "a", "col": "y"}], "unsafe")


def test_a_singleton_undoes_the_classical_pattern_and_is_prevented() -> None:
    cells = firms_in_a_row()
    x, y = cells.index({"row": "a", "col": "x"}), cells.index({"row": "a", "col": "y"})
    column = columns(cells.x.dense())
    (row,) = cells.x.transposed.row(x).tolist()
    classical = published(cells, eliminate(cells, singletons=False))
    assert not classical.holds(column[y]) and learned(classical, column[y], [row])
    careful = published(cells, eliminate(cells))
    assert not careful.holds(column[y]) and not learned(careful, column[y], [row])


def test_two_in_one_cell_are_a_coalition() -> None:
    frame = pl.DataFrame(
        {"row": list("aaaabbbbbb"), "col": list("xxyzxxyyzz"), "turnover": [10, 11, 12, 500, 40, 45, 50, 55, 60, 65]}
    )
    cells = dc.tabulate(frame, ["row", "col"], "turnover")
    assert known_rows(cells, 2).sum() > known_rows(cells, 1).sum()
    with pytest.raises(dc.PlanError, match="coalition"):
        known_rows(cells, 0)


def test_holdings_know_the_sum_of_their_cells() -> None:
    frame = pl.DataFrame({"row": list("aab"), "col": list("xyx"), "firm": [1, 1, 2], "turnover": [1.0, 2.0, 3.0]})
    cells = dc.tabulate(frame, ["row", "col"], "turnover", contributor="firm")
    known = {tuple(rows.tolist()) for rows in known_combinations(cells)}
    assert known == {(0,), (1,), (2,), (0, 1)}


def test_respondents_must_be_known_to_be_looked_at() -> None:
    frame = pl.DataFrame({"row": list("ab"), "turnover": [1.0, 2.0]})
    cells = dc.tables.from_cells(frame, ["row"], "turnover").mark({"row": "a"}, "unsafe")
    with pytest.raises(dc.DataError, match="singletons=False"):
        eliminate(cells)
    assert eliminate(cells, singletons=False).sum() == 1


def test_must_publish_and_preferred() -> None:
    given = pl.DataFrame({"row": list("aaabbb"), "col": list("xyzxyz"), "n": [1, 20, 30, 25, 9, 40]})
    cells = dc.tables.from_cells(given, ["row", "col"], count="n").apply_rules([dc.Threshold(minimum=3)])
    kept = cells.mark({"row": "a", "col": "y"}, "must-publish")
    assert not eliminate(kept)[kept.index({"row": "a", "col": "y"})]
    liked = cells.mark([{"row": "a", "col": "z"}, {"row": "b", "col": "z"}], "preferred")
    assert eliminate(liked)[liked.index({"row": "a", "col": "z"})]
    stuck = cells.mark([{"row": "a", "col": ["Total", "y", "z"]}], "must-publish")
    with pytest.raises(dc.Infeasible, match=r"row=a, col=[yz]"):
        eliminate(stuck)


def test_cells_equal_to_a_sensitive_one_are_suppressed() -> None:
    frame = pl.DataFrame({"row": list("abbb"), "col": list("xxyy"), "turnover": [5, 7, 8, 9]})
    cells = dc.tabulate(frame, ["row", "col"], "turnover").mark({"row": "a", "col": "x"}, "unsafe")
    assert eliminate(cells)[cells.index({"row": "a"})]


def test_nothing_sensitive_nothing_suppressed() -> None:
    assert not eliminate(linked(1)).any()


def test_progress_may_stop_it() -> None:
    def stop(done: int, total: int, label: str) -> None:
        raise dc.Cancelled

    cells = linked(2, 20).apply_rules([dc.Threshold(minimum=3)])
    with pytest.raises(dc.Cancelled):
        eliminate(cells, ctx=dc.Context(seed=0, progress=stop))


@given(st.integers(1, PRIME - 1), st.integers(0, PRIME - 1))
@settings(deadline=None, max_examples=50)
def test_arithmetic(a: int, b: int) -> None:
    assert times(a, b) == a * b % PRIME and plus(a, b) == (a + b) % PRIME and minus(a, b) == (a - b) % PRIME
    assert a * int(inverse(a)) % PRIME == 1
    values = np.array([a, b or 1, a], np.int64)
    want = [pow(int(v), -1, PRIME) for v in values]
    invert_all(values, 3, np.zeros(3, np.int64))
    assert values.tolist() == want


def test_room_for_entries_grows() -> None:
    rng = np.random.default_rng(0)
    n, m = 120, 200
    dense = rng.random((n, m)) < 0.2
    parts = [np.r_[n + j, np.flatnonzero(dense[:, j])] for j in range(m)]
    start = np.r_[0, np.cumsum([len(part) for part in parts])]
    sign = np.concatenate([np.r_[1, np.full(len(part) - 1, -1)] for part in parts]).astype(np.int8)
    tied = Relations(start, np.concatenate(parts).astype(np.int32), sign)
    none = np.zeros(n + m, np.int64)
    found = publishable(
        tied,
        n + np.arange(m),
        np.arange(n + m) == 0,
        none > 0,
        (np.r_[none, 0], none[:0].astype(np.int32)),
        none.astype(np.int32),
    )
    assert found.sum() >= n - 1 and not found.all()


def instance(name: str) -> dc.Cells:
    folder = reference("golden", "tables")
    if name == "a":
        cells = dc.tables.from_cells(pl.read_csv(folder / "a_50x50.csv"), ["row", "col"], count="freq")
        return cells.apply_rules([dc.Threshold(minimum=3)])
    frame = pl.read_csv(folder / {"s": "s_micro.csv", "b": "b_micro.csv.gz"}[name])
    hierarchies = {column: folder / f"hier_{column}.csv" for column in NACE}
    return dc.tabulate(frame, NACE, "value", hierarchies=hierarchies).apply_rules([dc.PPercent(percent=10)])


@pytest.mark.peers
@pytest.mark.parametrize("name", ["a", "s", "b"])
def test_counts_and_sums_of_gauss_suppression(name: str) -> None:
    want = json.loads(reference("golden", "tables", "bench_tables.json").read_text())[name]
    cells = instance(name)
    mask = eliminate(cells, singletons=False)
    assert mask.sum() == want["gauss_nosingleton_secondary"]
    assert cells.value[mask].sum() == want["gauss_secondary_value"]


@pytest.mark.peers
def test_with_singletons_no_more_than_gauss_suppression() -> None:
    cells = instance("s")
    mask = eliminate(cells)
    assert mask.sum() <= 397 and cells.value[mask].sum() <= 1_136_386


def test_what_stands_in_the_way_is_said_with_whom() -> None:
    frame = pl.DataFrame(
        {"row": list("aabbbcc"), "col": list("xyxyyxy"), "turnover": [5, 7, 8, 9, 4, 6, 3]},
    )
    cells = dc.tabulate(frame, ["row", "col"], "turnover")
    cells = cells.mark([{"row": "a", "col": "x"}, {"row": "c", "col": "x"}], "unsafe")
    cells = cells.mark([{"row": "b"}, {"row": "Total"}], "must-publish")
    assert not eliminate(cells, singletons=False)[cells.index({"row": "b", "col": "x"})]
    with pytest.raises(Infeasible, match=r"row=b, col=x.*respondents who know.*singletons=False"):
        eliminate(cells)
    cells = cells.mark([{"row": "c"}], "plain").mark({"row": "c", "col": "x"}, "must-publish")
    with pytest.raises(Infeasible) as told:
        eliminate(cells)
    assert "singletons" not in str(told.value)


def test_ready_made_linked_tables_know_who_is_alone_in_a_cell() -> None:
    rows = [("a", "x", None, 5.0, 1), ("a", "y", None, 7.0, 1), ("b", "x", None, 8.0, 3), ("b", "y", None, 9.0, 3)]
    rows += [(None, "x", "1", 6.0, 2), (None, "x", "2", 7.0, 2), (None, "y", "1", 7.0, 2), (None, "y", "2", 9.0, 2)]
    frame = pl.DataFrame(rows, ["r", "s", "t", "v", "n"], orient="row").fill_null("Total")
    cells = dc.tables.from_cells(frame, [["r", "s"], ["s", "t"]], "v", count="n")
    assert (cells.inner_cell < 0).any()
    cells = cells.mark([{"r": "a", "s": "x", "t": "Total"}], "unsafe")
    alone = cells.index({"r": "a", "s": "y"})
    members = cells.x.transposed.row(alone).tolist()
    assert members in [known.tolist() for known in known_combinations(cells)]
    assert eliminate(cells, singletons=False).sum() < eliminate(cells).sum() or not eliminate(cells)[alone]
    with pytest.raises(dc.PlanError, match="linked"):
        cells.audit(attacker="contributors")
