"""Base groups: how they are made, what their sums tell at most, and attackers who know bounds and whole numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import discretion as dc
from discretion.data.sql_filter import Filter
from discretion.online.audit import LinearAudit
from discretion.online.audit.exact import OTHERS, BaseGroups, base_groups, rule_of
from discretion.online.declare import ColumnSpec, ServiceSpec
from discretion.online.question.query import Aggregate, Query
from tests.online import attackers, samples

Ints = NDArray[np.int64]
TOP = 100
AGE: dict[str, Any] = {"role": "sensitive", "type": "integer", "bounds": (0, TOP)}
PUBLIC: dict[str, Any] = {
    "id": {"role": "public", "type": "integer"},
    "sex": {"role": "public", "type": "category"},
    "region": {"role": "public", "type": "category"},
}


def counted(size: Ints) -> Any:
    def people(number: Ints) -> Ints:
        return np.bincount(number[number >= 0], size[number >= 0]).astype(np.int64)

    return people


def naive_groups(codes: Ints, size: Ints, others: int) -> list[frozenset[int]]:
    """Make groups by the rule in words: fewer columns step by step, the set that places most people first."""
    left, groups = set(range(len(codes))), []
    for fewer in range(codes.shape[1] + 1):
        waiting = list(combinations(range(codes.shape[1]), codes.shape[1] - fewer))
        while waiting:
            found = []
            for columns in waiting:
                cells: dict[tuple[int, ...], set[int]] = {}
                for profile in sorted(left):
                    cells.setdefault(tuple(codes[profile, list(columns)]), set()).add(profile)
                good = [cell for cell in cells.values() if sum(size[list(cell)]) > others]
                found.append((-sum(size[p] for cell in good for p in cell), columns, good))
            gain, columns, good = min(found, key=lambda f: f[:2])
            waiting.remove(columns)
            if gain == 0:
                break
            groups += [frozenset(cell) for cell in good]
            left -= {p for cell in good for p in cell}
    return groups


def test_groups_follow_the_rule() -> None:
    rng = np.random.default_rng(4)
    for _ in range(60):
        codes = rng.integers(0, rng.integers(1, 5), (rng.integers(1, 30), rng.integers(0, 4)))
        codes = np.unique(codes, axis=0).astype(np.int64)
        size, others = rng.integers(1, 8, len(codes)), int(rng.integers(1, 12))
        made = base_groups(codes, counted(size), others)
        found = [frozenset(np.flatnonzero(made == g).tolist()) for g in range(made.max(initial=-1) + 1)]
        assert set(found) == set(naive_groups(codes, size, others)) and len(found) == len(set(found))


def naive_told(group: Ints, label: Ints, cells: int) -> list[set[int]]:
    """List for each cell the groups that lie in it as a whole."""
    found: list[set[int]] = [set() for _ in range(cells)]
    for g in set(group[group >= 0].tolist()):
        inside = set(label[group == g].tolist())
        if len(inside) == 1 and min(inside) >= 0:
            found[inside.pop()].add(g)
    return found


def test_what_is_told_of_a_question() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        people = int(rng.integers(1, 60))
        group, cells = rng.integers(-1, 4, people), int(rng.integers(1, 4))
        label = np.where(rng.random(people) < 0.8, group % cells, rng.integers(-1, cells, people))
        reach = BaseGroups(group, np.arange(people), others=0).told(label, cells)
        expected = naive_told(group, label, cells)
        assert [set(g.tolist()) for g in reach.groups] == expected
        assert reach.covered.tolist() == [int(np.isin(group, list(g)).sum()) for g in expected]
        assert reach.asked.tolist() == [int((label == c).sum()) for c in range(cells)]


def test_groups_of_few_people_and_groups_that_reach_further_are_not_told() -> None:
    """Ten records of nine people, ten people of whom one is known, and a group whose last record is not here yet."""
    group = np.repeat([0, 1, 2, 3], 10)
    owner = np.concatenate([[0], np.arange(9), 10 + np.arange(30)])
    groups = BaseGroups(group, owner, known=np.array([25]), records=39)
    assert groups.usable.tolist() == [False, True, False, False]
    everybody = groups.told(np.zeros(39, np.int64), 1)
    assert everybody.groups[0].tolist() == [1] and everybody.covered.tolist() == [10]


# --- what an intruder knows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_the_promised_interval_is_what_integer_programs_find(seed: int) -> None:
    """Whoever heard every answer and knows everybody outside a group knows no more than the docstring says."""
    rng = np.random.default_rng(seed)
    people, top = int(rng.integers(20, 36)), int(rng.integers(12, 40))
    values = rng.integers(0, top + 1, people)
    values[rng.random(people) < 0.3] = 0
    codes = np.column_stack([rng.integers(0, 2, people), rng.integers(0, 3, people)])
    group = base_groups(codes, lambda number: np.bincount(number[number >= 0]))
    groups = BaseGroups(group, np.arange(people))
    sets = []
    for _ in range(25):  # random questions: by columns, by id, and both
        label = np.where(codes[:, 0] == rng.integers(2), codes[:, 1], 0)
        label = np.where(rng.random(people) < rng.choice([0.0, 0.02, 0.3]), -1, label)
        reach = groups.told(label, 3)
        sets += [np.isin(group, found).astype(np.int64) for found in reach.groups if len(found)]
    assert sets
    asked = np.array(sets)
    for person in rng.choice(people, 6, replace=False):
        outside = (group != group[person]) | (group < 0)
        outside[person] = False
        found = attackers.interval(asked, values, top, person, known=outside)
        if group[person] < 0:
            assert found == (0, top)
            continue
        size, total = int((group == group[person]).sum()), int(values[group == group[person]].sum())
        promised = (max(0, total - (size - 1) * top), min(top, total))
        assert size > OTHERS
        told = asked[:, person].any()
        assert found == promised if told else found == (0, top)


def history(group: Ints, people: int, rng: np.random.Generator) -> Ints:
    """All sets that are told when every attacker asks: focus, modular, random, ranges of ids, the groups by name."""
    groups = BaseGroups(group, np.arange(people))
    asked = [*islice(attackers.focus(people, rng), 60), *(mask for _, mask in attackers.modular(people, rng))]
    asked += list(islice(attackers.random_sets(people, rng), 60))
    asked += [np.arange(people) < k for k in range(people + 1)]
    asked += [group == g for g in range(group.max() + 1)]
    asked += [mask | (group == g) for mask, g in zip(asked[:60], rng.integers(0, group.max() + 1, 60), strict=True)]
    told = {groups.told(np.where(mask, 0, -1), 1).groups[0].tobytes() for mask in asked}
    listed = [np.frombuffer(found, np.int64) for found in told]
    return np.array([np.isin(group, found) for found in listed if len(found)], np.int64)


def test_nobody_is_determined_without_a_group_at_a_bound() -> None:
    """200 tables of 40 people with whole numbers 0 … 100; tables with a group at a bound are counted."""
    at_a_bound = 0
    for seed in range(200):
        rng = np.random.default_rng(1000 + seed)
        values = rng.integers(0, TOP + 1, 40)
        if seed % 4 == 3:
            values[rng.random(40) < 0.3] = 0
        codes = np.column_stack([rng.choice(2, 40, p=[0.35, 0.65]), rng.integers(0, 2, 40)])
        group = base_groups(codes, lambda number: np.bincount(number[number >= 0]))
        sums = [int(values[group == g].sum()) for g in range(group.max() + 1)]
        if any(total in (0, TOP * int((group == g).sum())) for g, total in enumerate(sums)):
            at_a_bound += 1
            continue
        told = history(group, 40, rng)
        assert len(told)
        assert attackers.determined(told, values, TOP) == 0
        for prime in attackers.PRIMES:
            assert not attackers.residues(told.copy(), prime).any()
    assert at_a_bound == 0


@pytest.mark.parametrize(("share", "expected"), [(0.3, (0, 0)), (0.7, (0, 60))])
def test_groups_at_a_bound_are_as_many_as_expected(share: float, expected: tuple[int, int]) -> None:
    """Of 1,200 people with a share of values at 0, those in a group entirely at 0: Σ s·p^s, the figure of the docs."""
    rng = np.random.default_rng(11)
    codes = np.column_stack([rng.integers(0, 5, 1200), rng.integers(0, 4, 1200), rng.integers(0, 5, 1200)])
    group = base_groups(codes, lambda number: np.bincount(number[number >= 0]))
    size = np.bincount(group[group >= 0])
    found = []
    for _ in range(20):
        zero = rng.random(1200) < share
        whole = np.bincount(group[group >= 0], zero[group >= 0]) == size
        found.append(int(size[whole].sum()))
    assert expected[0] <= np.mean(found) <= expected[1]
    assert np.mean(found) == pytest.approx((size * share**size).sum(), abs=5)


def test_the_attackers_break_the_linear_audit_of_bounded_whole_numbers() -> None:
    """What the rule is against: 39 sums that determine nobody over the reals tell 40 values, and 18 sums one."""
    rng = np.random.default_rng(2)
    values = rng.integers(0, TOP + 1, 40)
    audit, told = LinearAudit(40), []
    for mask in islice(attackers.random_sets(40, rng), 80):
        if audit.judge([np.flatnonzero(mask)]).safe:
            audit.commit([np.flatnonzero(mask)])
            told.append(mask)
    asked = np.array(told, np.int64)
    assert np.linalg.matrix_rank(asked) == 39
    assert attackers.determined(asked, values, TOP) == 40
    rows = np.array([mask for m, mask in attackers.modular(72, rng) if m in (3, 5, 7)], np.int64)
    assert len(rows) == 18
    assert all(
        attackers.residues(rows[at].copy(), p)[0] for p, at in ((3, slice(4)), (5, slice(4, 10)), (7, slice(10, 18)))
    )


# --- through the service --------------------------------------------------------------------------------------------


def people_frame(people: int, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "id": np.arange(people),
            "sex": rng.choice(["f", "m"], people),
            "region": rng.choice(["a", "b", "c"], people, p=[0.5, 0.3, 0.2]),
            "age": rng.integers(0, TOP + 1, people),
        }
    )


def opened(frame: pl.DataFrame, age: dict[str, Any] = AGE, **how: Any) -> dc.StatisticalDatabase:
    return dc.StatisticalDatabase(frame, columns={**PUBLIC, "age": age}, **how)


def test_figures_counts_and_shares_against_the_plain_table() -> None:
    frame = people_frame(300).with_columns(pl.when(pl.col("id") % 7 > 0).then(pl.col("age")).alias("age"))
    with opened(frame) as database:
        answer = database.ask("SELECT region, count(*) AS n, sum(age) AS s, avg(age) AS m FROM data GROUP BY region")
        again = database.ask("SELECT region, avg(age) AS m, count(*) AS n, sum(age) AS s FROM data GROUP BY region")
    assert answer.covered is not None and answer.share is not None
    plain = frame.group_by("region").agg(n=pl.len(), s=pl.sum("age"), with_value=pl.count("age")).sort("region")
    assert answer.share["s"].to_list() == [1.0] * 3  # 257 people in 6 profiles of more than nine: everybody is covered
    assert answer.covered["s"].to_list() == plain["with_value"].to_list()
    assert answer.frame["n"].to_list() == plain["n"].to_list() and answer.frame["s"].to_list() == plain["s"].to_list()
    assert answer.frame["m"].to_list() == [s / c for s, c in zip(plain["s"], plain["with_value"], strict=True)]
    assert again.cached and again.covered is not None and again.covered["m"].to_list() == answer.covered["m"].to_list()
    assert "100 %" in answer.notes[0]


def test_profiles_and_records_choose_the_same_groups() -> None:
    """A condition on the id lists records; `id >= 0` is everybody, so that both ways must give the same figures."""
    frame = people_frame(30_000, seed=3)
    rng = np.random.default_rng(4)
    values = pl.Series("age", rng.normal(50, 10, len(frame)))
    number = {"role": "sensitive", "type": "number", "bounds": (-1000, 1000)}
    with opened(frame.with_columns(values), number) as database:
        by_profile = database.ask("SELECT sex, sum(age) AS s FROM data WHERE region != 'b' GROUP BY sex")
        by_record = database.ask("SELECT sex, sum(age) AS s FROM data WHERE region != 'b' AND id >= 0 GROUP BY sex")
        some = database.ask("SELECT sum(age) AS s FROM data WHERE id < 29990")
    assert by_profile.frame.equals(by_record.frame) and by_profile.covered is not None
    assert by_profile.covered.equals(by_record.covered)  # type: ignore[arg-type]
    assert some.share is not None and 0 <= some.share.item() < 1


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ({"type": "truth"}, [True, False] * 50),
        ({"type": "number", "bounds": (0, 1)}, [0.0, 1.0] * 50),
        ({"type": "number", "whole": False}, [0.0, 1.0] * 50),
        ({"type": "number"}, [0.25, 0.5, 0.75, 1.25] * 25),
        ({"type": "integer", "bounds": (0, 10)}, list(range(10)) * 10),
        ({"type": "integer"}, list(range(11)) * 9 + [3]),
        ({"type": "integer", "bounds": (0, 100)}, [0] * 31 + list(range(1, 70))),
        ({"type": "integer", "bounds": (0, 69)}, list(range(1, 69)) + [69] * 32),
        ({"type": "number"}, [0.0] * 40 + [x + 0.5 for x in range(60)]),
    ],
    ids=["truth", "number (0,1)", "0 and 1", "four", "ten possible", "eleven", "at zero", "at the top", "many zeros"],
)
def test_yes_or_no_few_values_and_values_at_a_bound_have_no_true_sums(column: Any, values: list[Any]) -> None:
    spec = {"role": "sensitive", **column}
    assert rule_of(ColumnSpec(**spec), pl.Series(values)).rule == "none"
    frame = people_frame(100).with_columns(pl.Series("age", values))
    for policy in ({"mode": "exact+audit"}, {"mode": "exact+audit", "interval_audit": True}):
        with opened(frame, spec, policy=policy) as database:
            for figure in ("sum(age)", "avg(age)"):
                with pytest.raises(dc.QueryRefused, match="differential privacy"):
                    database.ask(f"SELECT {figure} FROM data")


def test_whole_numbers_need_a_confirmation_for_the_linear_audit() -> None:
    ages = people_frame(100)["age"]
    kinds: list[tuple[dict[str, Any], str]] = [
        ({"type": "integer"}, "groups"),
        ({"type": "number"}, "groups"),
        ({"type": "number", "whole": False}, "audit"),
        ({"type": "number", "whole": False, "bounds": (0, 100)}, "groups"),
        ({"type": "number", "whole": True}, "groups"),
    ]
    for declared, rule in kinds:
        assert rule_of(ColumnSpec(role="sensitive", **declared), ages).rule == rule
    for values in (ages + 0.5, ages * 1.37, ages / 7, ages * 1e12 / 7):
        assert rule_of(ColumnSpec(role="sensitive", type="number"), values).rule == "groups", "whatever the decimals"
        assert rule_of(ColumnSpec(role="sensitive", type="number", whole=True), values).rule == "groups"
        assert rule_of(ColumnSpec(role="sensitive", type="number", whole=False), values).rule == "audit"
    assert rule_of(ColumnSpec(role="sensitive", type="number", bounds=(0, 101)), ages + 0.5).rule == "groups"
    with pytest.raises(ValueError, match="`whole` belongs to numbers"):
        ColumnSpec(role="sensitive", type="integer", whole=False)


def test_variance_and_pairs_of_id_ranges_are_refused() -> None:
    frame = people_frame(200)
    columns = {"id": PUBLIC["id"], "age": AGE}
    with dc.StatisticalDatabase(frame, columns=columns, policy={"mode": "exact+audit", "variance": True}) as database:
        with pytest.raises(dc.QueryRefused, match="variances"):
            database.ask("SELECT variance(age) FROM data")
        for where in ("id <= 100", "id <= 101", "id BETWEEN 20 AND 150", "id != 7"):
            with pytest.raises(dc.QueryRefused, match="base group"):
                database.ask(f"SELECT sum(age) FROM data WHERE {where}")
        assert database.ask("SELECT sum(age) AS s FROM data").frame.item() == frame["age"].sum()


def test_sets_without_one_person_are_told_without_the_whole_group() -> None:
    with opened(people_frame(200)) as database:
        told = [database.ask(f"SELECT sum(age) AS s FROM data WHERE id != {person}") for person in (3, 4, 5)]
        for answer in told:
            assert answer.share is not None and answer.share.item() is None  # all but one: their number is not told
            assert answer.covered is not None and answer.covered.item() <= 190
        total = database.ask("SELECT sum(age) AS s FROM data").frame.item()
        assert all(total - answer.frame.item() > TOP for answer in told)  # a whole group is missing, not one person


def test_the_interval_audit_stands_on_base_groups() -> None:
    """Sums are over whole groups with it as without it; those at the ends are told as bounds."""
    asked = "SELECT sum(age) AS s, avg(age) AS m, count(*) AS n FROM data WHERE id != 3"
    told = []
    for audited in (False, True):
        with opened(people_frame(200), policy={"mode": "exact+audit", "interval_audit": audited}) as database:
            answer = database.ask(asked)
            assert answer.covered is not None
            told.append((answer.frame.rows(), answer.covered.rows()))
    assert told[0] == told[1] and told[0][0][0][2] is None  # a count of all but one is not told
    low = people_frame(200).with_columns(
        age=pl.Series([i % 15 for i in range(200)]), sex=pl.lit("f"), region=pl.lit("a")
    )
    with opened(
        low, {**AGE, "bounds": (0, 10_000)}, policy={"mode": "exact+audit", "interval_audit": True}
    ) as database:
        answer = database.ask("SELECT sum(age) AS s FROM data")
        assert answer.frame.item() == low["age"].sum()  # far from the ends for so many people
    few = low.head(10)
    with opened(
        few, {**AGE, "bounds": (0, 10_000)}, policy={"mode": "exact+audit", "interval_audit": True}
    ) as database:
        answer = database.ask("SELECT sum(age) AS s FROM data")
        assert answer.frame.item() is None and answer.high is not None and answer.high.item() >= 1000


def test_decisions_do_not_depend_on_values_or_order() -> None:
    asked = [
        "SELECT region, sum(age) FROM data GROUP BY region",
        "SELECT sum(age) FROM data WHERE id < 150",
        "SELECT sex, region, avg(age) FROM data GROUP BY sex, region",
        "SELECT sum(age) FROM data WHERE id IN (1, 2, 3)",
        "SELECT sum(age) FROM data WHERE sex = 'f' AND region != 'c'",
    ]

    def said(seed: int, order: list[int]) -> list[Any]:
        frame = people_frame(200).with_columns(people_frame(200, seed)["age"])
        found: dict[int, Any] = {}
        with opened(frame) as database:
            for i in order:
                try:
                    answer = database.ask(asked[i])
                    found[i] = answer.covered.rows() if answer.covered is not None else None
                except dc.QueryRefused as refusal:
                    found[i] = str(refusal)
        return [found[i] for i in sorted(found)]

    assert said(0, [0, 1, 2, 3, 4]) == said(9, [4, 2, 0, 1, 3])


def test_what_insiders_know_does_not_count_towards_ten() -> None:
    """Eleven women, of whom Ann knows two: their sum would leave nine."""
    frame = people_frame(60).with_columns(sex=pl.Series(["f"] * 11 + ["m"] * 49), region=pl.lit("a"))
    asked = "SELECT sum(age) FROM data WHERE sex = 'f'"
    with opened(frame) as database:
        database.ask(asked)
    with opened(frame, users={"ann": {"knows": {"data": [0, 1]}}, "bob": {}}) as database:
        for user in ("ann", "bob"):
            with pytest.raises(dc.QueryRefused):
                database.ask(asked, user=user)


def test_groups_stay_when_the_table_grows_and_when_the_service_starts_again(tmp_path: Path) -> None:
    """New people come into groups of their own: no sum before and after differs by fewer than ten."""
    frame = people_frame(300)
    extra = people_frame(340, seed=8).tail(40)
    longer = pl.concat([frame.head(200), frame.slice(200, 3)])
    asked = "SELECT region, sum(age) AS s FROM data GROUP BY region"
    how: dict[str, Any] = {"ledger": tmp_path / "ledger.db"}
    with opened(frame.head(200), **how) as database:
        first = database.ask(asked)
        database.refresh("data", longer)  # three people: in no group
        second = database.ask(asked)
        assert not second.cached and second.frame.equals(first.frame)
        assert second.share is not None and min(second.share["s"]) < 1
    with opened(pl.concat([longer, extra]), **how) as database:
        third = database.ask(asked)
    assert third.covered is not None and first.covered is not None
    for now, before in zip(third.covered["s"], first.covered["s"], strict=True):
        assert now == before or now - before > OTHERS
    columns = {**PUBLIC, "age": AGE}
    with dc.StatisticalDatabase(
        pl.concat([longer, extra]), columns=columns, base_columns=["sex"], **how
    ) as database:  # other base columns do not move anybody
        assert database.ask(asked).frame.equals(third.frame)


@pytest.mark.parametrize("seed", range(3))
def test_sets_that_were_told_of_a_growing_table_never_leave_fewer_than_ten_people(tmp_path: Path, seed: int) -> None:
    """An intruder asks by columns, ids and complements while rows come and the service starts again.

    Whoever intersects all sets that were told, of all times, finds none of fewer than ten people; and every figure is
    the sum of its set.
    """
    rng = np.random.default_rng(seed)
    frame, rows = people_frame(300, seed), 110
    missing = pl.Series(rng.random(300) < 0.03)
    frame = frame.with_columns(pl.when(~missing).then(pl.col("age")).alias("age"))
    told: list[Ints] = []
    database = opened(frame.head(rows), ledger=tmp_path / "ledger.db")
    for number in range(60):
        if number % 8 == 7:
            rows += int(rng.choice([1, 3, 11, 25]))
            if rng.random() < 0.5:
                database.refresh("data", frame.head(rows))
            else:
                database.close()
                database = opened(frame.head(rows), ledger=tmp_path / "ledger.db")
        chosen = [name for name in ("sex", "region") if rng.random() < 0.5]
        conditions = [f"region != '{rng.choice(list('abc'))}'", f"id <> {rng.integers(rows)}", "sex = 'f'"]
        where = [text for text in conditions if rng.random() < 0.4]
        text = f"NOT ({' AND '.join(where)})" if where and rng.random() < 0.3 else " AND ".join(where)
        groups = f" GROUP BY {', '.join(chosen)}" if chosen else ""
        asked = f"SELECT {', '.join([*chosen, 'sum(age) AS s'])} FROM data{f' WHERE {text}' if text else ''}{groups}"
        try:
            answer = database.ask(asked)
        except dc.QueryRefused:
            continue
        protection = database._desks["data"]._protection
        assert protection is not None and answer.covered is not None
        query = database.read(asked).canonical()
        cells = protection.cells(query)
        records = [protection.records("age", groups) for groups in protection.told("age", cells).groups]
        sums = {int(frame["age"].gather(found).sum()) for found in records if len(found)}
        assert sums == set(answer.frame["s"].drop_nulls())
        told += [found for found in records if len(found)]
    database.close()
    signs = np.array([np.isin(np.arange(300), found) for found in told]).T
    _, sizes = np.unique(signs[signs.any(axis=1)], axis=0, return_counts=True)
    assert len(told) > 10 and sizes.min() > OTHERS


@pytest.fixture(scope="module")
def all_types() -> Iterator[dc.StatisticalDatabase]:
    """A table with public columns of every type, and a number under the linear audit."""
    rng = np.random.default_rng(1)
    values = {
        name: pl.Series(rng.choice(np.array(found, object), 400).tolist()) for name, found in samples.VALUES.items()
    }
    frame = pl.DataFrame(values).with_columns(pl.col("born").str.to_date(), pay=pl.Series(rng.normal(0, 1, 400)))
    columns = {name: {**spec, "role": "public"} for name, spec in samples.COLUMNS.items()}
    columns["pay"] = {"role": "sensitive", "type": "number"}
    with dc.StatisticalDatabase(frame, table="people", columns=columns) as database:
        yield database


@given(samples.filters(), st.sampled_from([(), ("sex",), ("born", "age"), ("married", samples.INCOME, "region")]))
@settings(max_examples=300)
def test_query_sets_by_profiles_are_those_of_the_database(
    all_types: dc.StatisticalDatabase, where: Filter, group_by: tuple[str, ...]
) -> None:
    """Who is in a set comes from profiles, without the database: the same records, whatever the condition."""
    protection = all_types._desks["people"]._protection
    assert protection is not None
    query = all_types.read(Query("people", (Aggregate("count"),), where, group_by))
    assert protection._fits(query) and protection._fits(query.canonical())
    naive = all_types._backend.members("people", query.where, group_by, unit="row")
    found = protection.row_sets(query)
    assert found.keys() == naive.keys()
    assert all(np.array_equal(found[key], naive[key]) for key in naive)
    again = protection.row_sets(replace(query.canonical(), group_by=group_by))
    assert all(np.array_equal(found[key], again[key]) for key in found)


def test_a_column_has_one_rule_for_ever(tmp_path: Path) -> None:
    frame = people_frame(100)
    any_number = {"role": "sensitive", "type": "number", "whole": False}
    bounded = {"role": "sensitive", "type": "number", "bounds": (0, TOP)}
    for first, second, where in ((bounded, any_number, "region = 'a'"), (any_number, bounded, "id < 50")):
        place = tmp_path / f"{len(where)}.db"
        with opened(frame, first, ledger=place) as database:
            database.ask(f"SELECT sum(age) FROM data WHERE {where}")
        with opened(frame, second, ledger=place) as database, pytest.raises(dc.QueryRefused, match="not told"):
            database.ask("SELECT sum(age) FROM data")
        with opened(frame, first, ledger=place) as database:
            database.ask("SELECT sum(age) FROM data")


def test_several_rows_of_a_person() -> None:
    """Groups count people, not rows: twelve rows of nine people are no group."""
    frame = pl.DataFrame(
        {
            "who": [*range(9), 0, 1, 2, *range(20, 40)],
            "year": [2020] * 12 + [2021] * 20,
            "age": list(range(10, 42)),
        }
    )
    columns = {"year": {"role": "public", "type": "integer"}, "age": AGE}
    with dc.StatisticalDatabase(frame, columns=columns, person="who") as database:
        with pytest.raises(dc.QueryRefused):
            database.ask("SELECT sum(age) FROM data WHERE year = 2020")
        assert database.ask("SELECT sum(age) AS s FROM data WHERE year = 2021").frame.item() == sum(range(22, 42))


def test_sums_are_exact_however_large_and_rounded_once() -> None:
    large = 2**62 - 1
    frame = people_frame(40).with_columns(age=pl.Series([large - i for i in range(40)]))
    with opened(frame, {"role": "sensitive", "type": "integer"}) as database:
        assert database.ask("SELECT avg(age) AS m FROM data").frame.item() == sum(large - i for i in range(40)) / 40
        assert database.ask("SELECT sum(age) AS s FROM data").frame.item() == float(sum(large - i for i in range(40)))
        assert database.dry_run("SELECT sum(age) AS s, count(*) AS n FROM data").errors == {"s": None, "n": 0.0}
    tenths = [0.1 * i for i in range(1, 41)]
    rng = np.random.default_rng(1)
    found = set()
    for _ in range(5):  # in whatever order they are added
        shuffled = people_frame(40).with_columns(
            age=pl.Series(rng.permutation(tenths)), sex=pl.lit("f"), region=pl.lit("a")
        )
        with opened(shuffled, {"role": "sensitive", "type": "number", "bounds": (0, 10)}) as database:
            found.add(database.ask("SELECT sum(age) AS s FROM data").frame.item())
    assert len(found) == 1


def test_min_query_size_counts_people_in_whole_groups() -> None:
    frame = people_frame(200)
    with opened(frame, policy={"mode": "exact+audit", "min_query_size": 60}) as database:
        answer = database.ask("SELECT region, sum(age) AS s FROM data GROUP BY region")
        sizes = frame.group_by("region").len().sort("region")["len"].to_list()
        assert answer.covered is not None
        large = [n for n in sizes if n >= 60]  # the others are left out, as they are of counts
        assert answer.covered["s"].to_list() == [n if n <= 140 else 0 for n in large]
        assert [s is None for s in answer.frame["s"]] == [n > 140 for n in large]


def test_a_table_in_postgresql_tells_the_same(postgres_url: str) -> None:
    import psycopg

    frame = people_frame(300)
    with psycopg.connect(postgres_url) as base:
        base.execute("DROP TABLE IF EXISTS grouped")
        base.execute("CREATE TABLE grouped (n bigserial, id bigint, sex text, region text, age bigint)")
        for row in frame.rows():
            base.execute("INSERT INTO grouped (id, sex, region, age) VALUES (%s, %s, %s, %s)", row)
    spec = {"columns": {**PUBLIC, "age": AGE}, "source": f"{postgres_url}?table=grouped", "row_key": "n"}
    service = ServiceSpec(tables={"data": spec}, users={"ann": {}}, ledger=":memory:")
    with dc.StatisticalDatabase(service) as remote, opened(frame) as local:
        for asked in ("region, avg(age) FROM data GROUP BY region", "sum(age) FROM data WHERE id < 290"):
            answers = [database.ask(f"SELECT {asked}") for database in (remote, local)]
            assert answers[0].frame.equals(answers[1].frame)
            assert answers[0].covered is not None and answers[0].covered.equals(answers[1].covered)  # type: ignore[arg-type]


def test_a_column_that_loses_its_rule_leaves_no_old_profiles() -> None:
    """A table grows so that its only column has too many values at a bound: counts are those of all rows."""
    first = pl.DataFrame({"region": ["a", "b"] * 30, "age": [*range(1, 61)]})
    more = pl.DataFrame({"region": ["c"] * 60, "age": [0] * 60})
    columns = {"region": {"role": "public", "type": "category"}, "age": AGE}
    with dc.StatisticalDatabase(first, columns=columns) as database:
        assert database.ask("SELECT sum(age) AS s FROM data").frame.item() == 1830
        database.refresh("data", pl.concat([first, more]))
        with pytest.raises(dc.QueryRefused, match="not told"):
            database.ask("SELECT sum(age) AS s FROM data")
        counts = database.ask("SELECT region, count(*) AS n FROM data GROUP BY region").frame
        assert dict(counts.rows()) == {"a": 30, "b": 30, "c": 60}
