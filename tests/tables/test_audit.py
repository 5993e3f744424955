"""The audit agrees with brute force, and nobody beats a protection it claims."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.context import Context
from discretion.errors import Cancelled, PlanError
from discretion.tables import audit_insiders
from discretion.tables.elimination import eliminate
from discretion.tables.levels import levels
from tests.tables import brute
from tests.tables.test_elimination import instance

KINDS = ("flat", "tree", "three", "linked")


def verdict(low: float, high: float, value: float, lower: float, upper: float) -> str:
    """Say by definition what bounds mean for a cell."""
    if high - low < 1e-6 * max(abs(value), 1):
        return "disclosed"
    enough = value - low >= min(lower, value) - 1e-7 and high - value >= upper - 1e-7
    return "protected" if enough else "under-protected"


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_every_status_is_that_of_brute_force(kind: str, seed: int, exact: bool) -> None:
    rng = np.random.default_rng(seed)
    cells = brute.random_gaps(rng, brute.table(rng, kind), (0.05, 0.2, 0.5)[seed % 3])
    found = cells.audit(attacker="outsider", exact=exact, ctx=Context(seed=seed))
    assert found.cell.tolist() == np.flatnonzero(cells.suppressed).tolist()
    for i, cell in enumerate(found.cell.tolist()):
        low, high = brute.one(cells, cell)
        if exact:
            assert found.exact[i]
            assert found.of(cell) == pytest.approx((low, high), abs=1e-6)
        assert low - 1e-6 <= found.low[i] and found.high[i] <= high + 1e-6
        if not cells.primary[cell]:
            assert found.status[i] == "complementary"
            continue
        need = cells.lower_required[cell], cells.upper_required[cell]
        assert found.status[i] == verdict(low, high, cells.value[cell], *need)
        if found.status[i] != "protected":
            short = max(
                min(need[0], cells.value[cell]) - (cells.value[cell] - low), need[1] - (high - cells.value[cell])
            )
            assert found.bounds.short[i] == pytest.approx(short, abs=1e-6)
    assert found.holds == (not len(found.failing))


@pytest.mark.parametrize("seed", range(8))
def test_sums_of_suppressed_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = brute.random_gaps(rng, brute.table(rng, ("flat", "tree")[seed % 2]), 0.4)
    rule = dc.PPercent(percent=15)
    found = cells.audit(rules=[rule])
    source, x = cells.source, cells.x.dense()
    assert found.sums is not None and source is not None
    judged = dict(zip(found.sums.members, zip(found.sums.value, found.sums.bounds.status, strict=True), strict=True))
    unions = set()
    relations = cells.relations().dense()
    for row in relations:
        parts = [j for j in np.flatnonzero(row < 0).tolist() if cells.suppressed[j]]
        pairs = [pair for pair in combinations(parts, 2) if cells.primary[list(pair)].any()]
        unions |= {*pairs, *([tuple(parts)] if len(parts) > 1 and cells.primary[parts].any() else [])}
    assert found.sums.examined == len(unions)
    for union in unions:
        inside = x[:, list(union)].any(axis=1)
        by: dict[int, float] = {}
        for inner, who, amount in zip(source.inner, source.contributor, source.x[:, 0], strict=True):
            if inside[inner]:
                by[int(who)] = by.get(int(who), 0.0) + float(amount)
        given = sorted(by.values(), reverse=True)
        need = 0.15 * given[0] - sum(given[2:])
        assert (union in judged) == (need > 1e-9)
        if union in judged:
            value, status = judged[union]
            low, high = brute.interval(cells, np.isin(np.arange(len(cells)), union))
            assert value == pytest.approx(sum(given))
            assert status == verdict(low, high, value, need, need)
    assert found.sums_frame().height == len(judged)


def contributions(cells: dc.Cells, group: set[int]) -> tuple[Any, Any]:
    source = cells.source
    assert source is not None
    n = len(cells.inner_codes)
    theirs, floor, every = np.zeros(n), np.zeros(n), np.zeros(n)
    for inner, who, amount in zip(source.inner, source.contributor, source.x[:, 0], strict=True):
        every[inner] += 1
        if int(who) in group:
            theirs[inner] += 1
            floor[inner] += amount
    return (theirs == every), floor


def inside_verdicts(cells: dc.Cells, group: set[int]) -> dict[int, str]:
    """Say what a group of respondents finds out about each sensitive cell in which others have a part."""
    known, floor = contributions(cells, group)
    x = cells.x.dense().astype(bool)
    found = {}
    for cell in np.flatnonzero(cells.primary).tolist():
        if (x[:, cell] & ~known).any():
            low, high = brute.one(cells, cell, low=floor, fixed=known)
            lower = min(cells.lower_required[cell], cells.value[cell] - floor[x[:, cell]].sum())
            found[cell] = verdict(low, high, cells.value[cell], lower, cells.upper_required[cell])
    return found


@pytest.mark.parametrize("seed", range(5))
def test_named_respondents(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cells = brute.random_gaps(rng, brute.table(rng, ("tree", "linked")[seed % 2]), 0.4)
    group = set(rng.choice(len(cells.contributors), 2, replace=False).tolist())
    found = cells.audit(attacker=[cells.contributors[i] for i in group])
    want = inside_verdicts(cells, group)
    for i, cell in enumerate(found.cell.tolist()):
        assert found.status[i] == want.get(cell, "complementary")


@pytest.mark.parametrize("coalition", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("seed", "kind"), [(0, "flat"), (1, "flat"), (2, "flat"), (3, "linked")])
def test_every_coalition_of_respondents(seed: int, kind: str, coalition: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_insiders, "MANY", 0)
    rng = np.random.default_rng(seed)
    cells = few_respondents(rng, kind)
    source = cells.source
    assert source is not None
    own = cells.inner_cell
    hidden = (own < 0) | cells.suppressed[own]
    people = np.unique(source.contributor[hidden[source.inner]]).tolist()
    found, alone = cells.audit(attacker="contributors", coalition=coalition), cells.audit()
    worst = {cell: RANK.get(str(alone.status[i]), 0) for i, cell in enumerate(alone.cell.tolist())}
    for size in range(1, coalition + 1):
        for group in combinations(people, size):
            for cell, status in inside_verdicts(cells, set(group)).items():
                worst[cell] = max(worst[cell], RANK[status])
    for i, cell in enumerate(found.cell.tolist()):
        if not cells.primary[cell]:
            continue
        assert RANK[str(found.status[i])] == worst[cell]
        if worst[cell] > RANK[str(alone.status[i])]:
            assert found.worst[i] and len(found.worst[i]) <= coalition


@pytest.mark.parametrize("coalition", [1, 2])
@pytest.mark.parametrize("kind", ["tree", "three", "linked"])
def test_circuits_prove_nothing_that_programs_do_not(
    kind: str, coalition: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    proved = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        cells = brute.random_gaps(rng, brute.table(rng, kind), (0.5, 0.8)[seed % 2])
        found = []
        for many in (0, 10**9):
            monkeypatch.setattr(audit_insiders, "MANY", many)
            found.append(cells.audit(attacker="contributors", coalition=coalition, exact=False))
        assert found[0].status.tolist() == found[1].status.tolist()
        proved += found[1].programs > found[0].programs
    assert proved or coalition > 1


def few_respondents(rng: np.random.Generator, kind: str) -> dc.Cells:
    """Give a table of few respondents, some in several cells, with gaps."""
    n = 14
    frame = pl.DataFrame(
        {
            "region": rng.choice(list("abc"), n),
            "sector": rng.choice(list("xyz"), n),
            "size": rng.choice(list("12"), n),
            "money": np.ceil(rng.lognormal(2, 1, n)),
            "firm": rng.integers(0, 9, n),
        }
    )
    by: Any = ["region", "sector"] if kind == "flat" else [["region", "sector"], ["sector", "size"]]
    cells = dc.tabulate(frame, by, "money", contributor="firm").apply_rules([dc.PPercent(percent=20)])
    return brute.random_gaps(rng, cells, 0.6)


def test_respondents_alone_in_different_cells_together() -> None:
    given = pl.DataFrame({"r": list("aaabbb"), "c": list("xyzxyz"), "v": [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]})
    frame = pl.concat([given, given.filter(pl.col("r") == "b")]).with_row_index("firm")
    cells = dc.tabulate(frame, ["r", "c"], "v", contributor="firm").mark({"r": "a", "c": "x"}, "unsafe")
    cells = cells.with_status(secondary=cells.where({"r": ["a", "b"], "c": list("xyz")}) & ~cells.primary)
    one, two = (cells.audit(attacker="contributors", coalition=c) for c in (1, 2))
    assert one.holds and two.counts["disclosed"] == 1
    assert two.worst[two.cell.tolist().index(cells.index({"r": "a", "c": "x"}))] == (1, 2)


def test_pairs_are_known_from_the_number_of_respondents_alone() -> None:
    given = pl.DataFrame({"r": list("aabb"), "c": list("xyxy"), "n": [1, 2, 5, 9]})
    cells = dc.tables.from_cells(given, ["r", "c"], count="n").mark({"r": "a", "c": "x"}, "unsafe")
    cells = cells.with_status(secondary=cells.where({"r": ["a", "b"], "c": ["x", "y"]}) & ~cells.primary)
    assert cells.audit(attacker="contributors").holds
    assert cells.audit(attacker="contributors", coalition=2).counts["disclosed"] == 1


def test_a_large_part_of_a_cell_is_knowledge_too() -> None:
    frame = pl.DataFrame({"r": list("aaabbbb"), "c": list("xyyxxyy"), "v": [5.0, 95, 5, 50, 50, 50, 50], "f": range(7)})
    cells = dc.tabulate(frame, ["r", "c"], "v", contributor="f").mark({"r": "a", "c": "x"}, "unsafe")
    cells = cells.with_status(
        secondary=cells.where({"r": ["a", "b"], "c": ["x", "y"]}) & ~cells.primary, upper_required=20.0 * cells.primary
    )
    assert cells.audit(attacker="outsider").holds
    found = cells.audit()  # nobody said who attacks: respondents too
    assert found.counts["under-protected"] == 1 and found.of(cells.index({"r": "a", "c": "x"}))[1] == 10
    assert (1,) in found.worst


def audited_one_by_one(cells: dc.Cells, who: list[Any]) -> dict[int, int]:
    """Give for each sensitive cell the worst rank over single respondents, each audited on its own."""
    worst: dict[int, int] = {}
    for label in who:
        found = cells.audit(attacker=[label], exact=False)
        for cell, status in zip(found.cell.tolist(), found.status.tolist(), strict=True):
            worst[cell] = max(worst.get(cell, 0), RANK.get(status, 0))
    return worst


RANK = {"protected": 0, "undecided": 1, "under-protected": 2, "disclosed": 3}


@pytest.mark.parametrize("kind", ["tree", "three", "linked"])
def test_programs_for_many_respondents_say_what_single_ones_say(kind: str) -> None:
    rng = np.random.default_rng(11)
    cells = brute.random_gaps(rng, brute.table(rng, kind), 0.5)
    source = cells.source
    assert source is not None
    own = cells.inner_cell
    hidden = (own < 0) | cells.suppressed[own]
    who = np.unique(source.contributor[hidden[source.inner]])
    assert len(who) > 3
    found, outside = cells.audit(attacker="contributors"), cells.audit()
    want = audited_one_by_one(cells, [cells.contributors[i] for i in who.tolist()])
    for i, cell in enumerate(found.cell.tolist()):
        if cells.primary[cell]:
            assert RANK[str(found.status[i])] == max(want[cell], RANK[str(outside.status[i])])


def test_a_respondent_alone_in_a_cell_finds_its_neighbor() -> None:
    frame = pl.DataFrame({"r": list("aabbbb"), "c": list("xyxxyy"), "v": [5.0, 9.0, 4.0, 7.0, 8.0, 6.0], "f": range(6)})
    cells = dc.tabulate(frame, ["r", "c"], "v", contributor="f")
    cells = cells.mark([{"r": "a", "c": "x"}, {"r": "a", "c": "y"}], "unsafe")
    cells = cells.with_status(secondary=cells.where({"r": "b", "c": ["x", "y"]}))
    assert cells.audit(attacker="outsider").holds
    found = cells.audit()  # nobody said who attacks: respondents too
    assert found.counts["disclosed"] == 2
    assert {found.worst[found.cell.tolist().index(cells.index({"r": "a", "c": c}))] for c in "xy"} == {(0,), (1,)}
    assert "attacker" in found.frame().columns


def test_what_is_not_decided_in_time_is_not_protected() -> None:
    rng = np.random.default_rng(0)
    cells = brute.random_gaps(rng, brute.table(rng, "three"), 0.6)
    found = cells.audit(seconds=0)
    assert not found.holds and found.counts["protected"] == 0
    assert found.counts["undecided"] > 0 and len(found.failing) == cells.primary.sum()
    late = cells.audit(attacker="contributors", seconds=0)
    assert late.counts["protected"] == 0 and not late.holds


def test_cancel_and_progress() -> None:
    rng = np.random.default_rng(0)
    cells = brute.random_gaps(rng, brute.table(rng, "three"), 0.6)

    def stop(done: int, total: int, label: str) -> None:
        raise Cancelled("stop")

    with pytest.raises(Cancelled):
        cells.audit(ctx=Context(seed=0, progress=stop))


def test_whole_numbers_are_found_when_only_one_fits() -> None:
    frame = pl.DataFrame({"r": list("aabb"), "c": list("xyxy"), "n": [3, 0, 2, 9]})
    cells = dc.tables.from_cells(frame, ["r", "c"], count="n")
    inner = cells.where({"r": ["a", "b"], "c": ["x", "y"]})
    cells = cells.with_status(primary=inner)
    prior = {"lower": np.maximum(cells.value - 0.9, 0), "upper": cells.value + 0.9}
    assert set(cells.audit(prior=prior).status) == {"disclosed"}
    assert set(cells.audit().status) == {"protected"}


def test_nothing_of_the_values_leaks_into_words() -> None:
    frame = pl.DataFrame({"r": list("aabb"), "c": list("xyxy"), "v": [731.0, 420.0, 913.0, 517.0]})
    cells = dc.tables.from_cells(frame, ["r", "c"], "v").mark({"r": "a", "c": "x"}, "unsafe")
    found = cells.audit()
    assert found.counts == {"protected": 0, "under-protected": 0, "disclosed": 1, "undecided": 0}
    text = repr(found) + found.summary + repr(found.bounds)
    assert not any(number in text for number in ("731", "420", "913", "517"))
    assert found.to_dict()["holds"] is False and found.loss["primary_value"] == 731.0
    assert found.frame().select("low", "high").row(0) == (731.0, 731.0)


def test_tables_protected_elsewhere() -> None:
    frame = pl.DataFrame(
        {"r": list("aaabbb"), "c": list("xyzxyz"), "v": [3.0, 4, 5, 6, 7, 8], "s": ["u", "x", "", "x", "x", ""]}
    )
    cells = dc.tables.from_cells(frame, ["r", "c"], "v", status="s")
    found = cells.audit(exact=True)
    assert found.holds and found.of(cells.index({"r": "a", "c": "x"})) == (0.0, 7.0)
    assert found.loss["secondary"] == 3 and found.loss["secondary_value"] == 17.0
    assert found.loss["mean_width"] == pytest.approx(7.0) and found.loss["unbounded"] == 0
    assert cells.audit(which="suppressed").counts["protected"] == 4
    assert cells.audit(attacker="contributors").holds if cells.response.counted else True


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"attacker": "spy"}, "attacker"),
        ({"which": "all"}, "which"),
        ({"coalition": 0}, "coalition"),
        ({"attacker": ["nobody"]}, "respondent"),
        ({"seconds": -1}, "seconds"),
    ],
)
def test_bad_input(options: dict[str, Any], text: str) -> None:
    cells = brute.table(np.random.default_rng(0), "flat")
    with pytest.raises(PlanError, match=text):
        cells.audit(**options)
    given = dc.tables.from_cells(pl.DataFrame({"r": ["a", "b"], "v": [1.0, 2.0]}), ["r"], "v")
    with pytest.raises(PlanError, match="respondent"):
        given.audit(attacker="contributors")


@pytest.mark.slow
@pytest.mark.peers
def test_contributors_of_a_benchmark_instance() -> None:
    cells = instance("s")
    cells = cells.with_status(secondary=levels(cells, start=eliminate(cells)))
    found = cells.audit(attacker="contributors")
    assert found.counts["undecided"] == found.counts["disclosed"] == 0
    assert found.counts["under-protected"] > 0
    place = {cell: i for i, cell in enumerate(found.cell.tolist())}
    failing = [i for i in range(len(found.cell)) if found.worst[i]]
    for i in failing[:2]:
        single = cells.audit(attacker=list(found.worst[i]), exact=False)
        assert single.status[i] == found.status[i]
    some = sorted({who for i in failing for who in found.worst[i]})[::20]
    for cell, rank in audited_one_by_one(cells, some).items():
        if cells.primary[cell]:
            assert RANK[str(found.status[place[cell]])] >= rank


@pytest.mark.peers
def test_contributors_of_a_square_of_frequencies() -> None:
    square = instance("a")
    square = square.with_status(secondary=eliminate(square))
    assert square.audit(attacker="contributors").holds


def test_an_audit_that_time_was_too_short_for_says_what_it_would_take() -> None:
    rng = np.random.default_rng(2)
    frame = pl.DataFrame({"r": np.repeat(np.arange(8), 9), "c": np.tile(np.arange(9), 8), "n": rng.integers(1, 9, 72)})
    cells = dc.tables.from_cells(frame, ["r", "c"], count="n").apply_rules([dc.Threshold(minimum=4)])
    hasty = cells.audit(seconds=1e-9)
    assert hasty.counts["undecided"] > 0 and not hasty.holds
    assert hasty.seconds_more is not None and hasty.seconds_more > 0 and "Time was over" in hasty.summary
    patient = cells.audit()
    assert patient.seconds_more is None and not patient.counts["undecided"]
