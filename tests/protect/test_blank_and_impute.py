"""The confidentiality edit of samples: who is drawn, who gives, and what stays as it was."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.context import Context

PLACES = ["region", "municipality"]
COLUMNS = ["income", "occupation", "hours"]
SMALL = 25


@pytest.fixture(scope="module")
def people() -> dc.Dataset:
    return dc.Sample(share=0.3, household=True)(dc.datasets.census(6000, seed=1), seed=2)


def edit(**fields: object) -> dc.BlankAndImpute:
    return dc.BlankAndImpute(**{"columns": COLUMNS, "match_on": ["sex"], "small_block": SMALL, **fields})


def block_sizes(data: dc.Dataset) -> dict[tuple[object, ...], int]:
    homes = data.frame.unique("household", maintain_order=True)
    return {tuple(row[:2]): row[2] for row in homes.group_by(PLACES).len().iter_rows()}


def touched(data: dc.Dataset, decision: dc.Decision) -> np.ndarray:
    """Give the households that got new values, by their number in order of first appearance."""
    rows = sorted({row for to, _ in decision["rows"].values() for row in to})
    return data.frame["household"].gather(rows).unique().to_numpy()


def test_one_household_of_each_small_block_gets_new_values(people: dc.Dataset) -> None:
    ctx = Context(3, "1")
    decision = edit().decide(people, ctx)
    sizes = block_sizes(people)
    small = {block for block, size in sizes.items() if size < SMALL}
    assert 0 < len(small) < len(sizes)
    assert decision["small_blocks"] == decision["drawn"] == len(small)
    homes = people.frame.filter(pl.col("household").is_in(touched(people, decision))).unique("household")
    assert homes.group_by(PLACES).len()["len"].max() == 1
    assert {tuple(row) for row in homes.select(PLACES).iter_rows()} <= small
    assert len(homes) == decision["drawn"] - decision["unmatched"] > 0


def test_everything_else_is_intact(people: dc.Dataset) -> None:
    ctx = Context(3, "1")
    method = edit()
    decision = method.decide(people, ctx)
    new = method.perform(people, decision, ctx)
    assert new.frame.drop(COLUMNS).equals(people.frame.drop(COLUMNS))
    moved = pl.Series(touched(people, decision))
    untouched = ~people.frame["household"].is_in(moved.implode())
    assert new.frame.filter(untouched).equals(people.frame.filter(untouched))
    for name in COLUMNS:
        assert (new.frame[name].is_null() == people.frame[name].is_null()).all()
    assert not new.frame["income"].equals(people.frame["income"])


def test_the_values_come_from_a_like_household_of_another_block(people: dc.Dataset) -> None:
    ctx = Context(5, "1")
    method = edit(match_on=["sex", "marital_status"])
    decision = method.decide(people, ctx)
    new, frame = method.perform(people, decision, ctx).frame, people.frame
    drawn = set(touched(people, decision).tolist())
    sizes = dict(frame["household"].value_counts().iter_rows())
    for name, (to, source) in decision["rows"].items():
        got, given = frame[to], frame[source]
        assert new[name].gather(to).equals(frame[name].gather(source))
        assert got["sex"].equals(given["sex"]) and got["marital_status"].equals(given["marital_status"])
        assert not given["household"].is_in(list(drawn)).any()
        assert ((got["municipality"] != given["municipality"]) | (got["region"] != given["region"])).all()
        pairs = set(zip(got["household"], given["household"], strict=True))
        assert len({one for one, _ in pairs}) == len(pairs)  # one donor for all members
        assert all(sizes[one] == sizes[other] for one, other in pairs)


def test_every_donor_has_the_same_chance() -> None:
    """One small block with one person, donors in a large block and one in another small block (which is drawn too)."""
    n = 12
    frame = pl.DataFrame({"town": ["a"] + ["b"] * n, "x": np.arange(n + 1)})
    method = dc.BlankAndImpute(columns=["x"], geography=["town"], small_block=3)
    hits = np.zeros(n + 1)
    for seed in range(1200):
        hits[method(frame, seed=seed)["x"][0]] += 1
    assert hits[0] == 0 and hits[1:].sum() == 1200
    assert ((hits[1:] - 100) ** 2 / 100).sum() < 31.3  # χ² with 11 degrees of freedom, p = 0.001


def test_more_households_and_fewer_columns(people: dc.Dataset) -> None:
    ctx = Context(3, "1")
    three = edit(per_block=3).decide(people, ctx)
    wanted = sum(min(size, 3) for size in block_sizes(people).values() if size < SMALL)
    assert three["drawn"] == wanted
    one = edit(column_share=0.34).decide(people, ctx)
    filled: dict[int, set[str]] = {}
    for name, (to, _) in one["rows"].items():
        for row in to:
            filled.setdefault(people.frame["household"][row], set()).add(name)
    assert all(len(names) == 1 for names in filled.values())
    assert len({name for names in filled.values() for name in names}) == len(COLUMNS)


def test_without_small_blocks_nothing_happens(people: dc.Dataset) -> None:
    new = edit(small_block=2, geography=["region"])(people, seed=1)
    assert new.frame.equals(people.frame)


def test_single_records_and_missing_values() -> None:
    frame = pl.DataFrame(
        {
            "town": ["a", "a", "b", "b", "b", "b", None],
            "sex": ["f", "m", "f", "m", "f", "m", "f"],
            "x": [1.0, None, 3.0, 4.0, None, 6.0, 7.0],
        }
    )
    method = dc.BlankAndImpute(columns=["x"], geography=["town"], match_on=["sex"], small_block=3, per_block=2)
    for seed in range(20):
        new = method(frame, seed=seed)
        # the only complete woman elsewhere gives 3; a blank stays blank; who has no place neither gives nor gets
        assert new["x"].to_list() == [3.0, None, 3.0, 4.0, None, 6.0, 7.0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"columns": []}, "columns"),
        ({"columns": ["sex"]}, "'sex' is imputed and cannot be geography or matched on"),
        ({"columns": ["region"]}, "'region' is geography and cannot be imputed"),
        ({"small_block": 1}, "greater than or equal to 2"),
        ({"per_block": 0}, "greater than or equal to 1"),
        ({"column_share": 0}, "greater than 0"),
        ({"column_share": 1.1}, "less than or equal to 1"),
    ],
)
def test_wrong_parameters(people: dc.Dataset, fields: dict[str, object], words: str) -> None:
    with pytest.raises(dc.PlanError, match=words):
        edit(**fields)(people)


def test_data_that_cannot_be_edited(people: dc.Dataset) -> None:
    with pytest.raises(dc.DataError, match="'age' is not constant"):
        edit(geography=["age"])(people)
    with pytest.raises(dc.DataError, match="all records lie in one area"):
        edit()(
            people.take(np.flatnonzero((people.frame["municipality"] == people.frame["municipality"][0]).to_numpy()))
        )
    with pytest.raises(dc.DataError, match=r"none of the .* has a donor in another block .*'name'"):
        edit(match_on=["name"])(people)
    with pytest.raises(dc.DataError, match="did you mean 'income'"):
        edit(columns=["incme"])(people)
