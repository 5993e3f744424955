"""Mondrian: which column divides a group (importance, loss), and which records are dropped."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import discretion as dc
from tests.anonymize.test_mondrian import COLUMNS, covers, people

Row = tuple[int, ...]
Group = list[int]


def numbers(seed: int, rows: int, columns: int = 2, high: int = 12) -> list[Row]:
    rng = np.random.default_rng(seed)
    found = np.minimum(rng.integers(0, high, (rows, columns)), rng.integers(0, high, (rows, columns)))
    return [tuple(int(x) ** 2 for x in row) for row in found]


def frame(rows: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=[f"x{j}" for j in range(len(rows[0]))], orient="row")


def span(rows: list[Row], j: int) -> int:
    column = [row[j] for row in rows]
    return max(column) - min(column) or 1


def lost(rows: list[Row], group: Group, j: int, loss: str) -> float:
    """What column j loses in a group on average: the width of its range, or the bits of its values."""
    own = [rows[i][j] for i in group]
    if loss == "loss":
        return (max(own) - min(own)) / span(rows, j)
    inside = sum(min(own) <= row[j] <= max(own) for row in rows)
    counts = Counter(row[j] for row in rows)
    return sum(math.log2(inside / counts[x]) for x in own) / len(own)


def divide(rows: list[Row], group: Group, k: int, weights: list[float], loss: str) -> list[Group]:
    """Mondrian by its definition: the column that loses most, at the cut nearest to the median that leaves k."""
    price = {j: round(weights[j] * lost(rows, group, j, loss), 9) for j in range(len(rows[0]))}
    for j in sorted((j for j in price if price[j] > 0), key=lambda j: (-price[j], j)):
        cuts = sorted({rows[i][j] for i in group})[:-1]
        left = {cut: [i for i in group if rows[i][j] <= cut] for cut in cuts}
        below = [cut for cut in cuts if len(left[cut]) <= len(group) // 2]
        above = [cut for cut in cuts if len(left[cut]) > len(group) // 2]
        near = sorted(below[-1:] + above[:1], key=lambda cut: abs(2 * len(left[cut]) - len(group)))
        for cut in near:
            right = [i for i in group if rows[i][j] > cut]
            if len(left[cut]) >= k and len(right) >= k:
                return divide(rows, left[cut], k, weights, loss) + divide(rows, right, k, weights, loss)
    return [group]


def cost(rows: list[Row], group: Group, weights: list[float], loss: str) -> float:
    """The loss of a group; the bits of its own values, which no release can change, left out."""
    total = 0.0
    for j, weight in enumerate(weights):
        own = [rows[i][j] for i in group]
        inside = sum(min(own) <= row[j] <= max(own) for row in rows)
        wide = lost(rows, group, j, loss) if loss == "loss" else math.log2(inside) / math.log2(len(rows))
        total += weight * wide
    return total * len(group)


def trim(rows: list[Row], groups: list[Group], k: int, weights: list[float], loss: str, allowed: int) -> set[int]:
    """Drop, as long as it gains and is allowed, the end of a column that gains most for each record, in rounds.

    Where two choices gain the same, either may be taken: such a table is no example.
    """
    gone: set[int] = set()
    while True:
        proposals = []
        for number, group in enumerate(groups):
            best: tuple[float, Group] | None = None
            for j in range(len(weights)):
                for end in (min, max):
                    out = [i for i in group if rows[i][j] == end(rows[m][j] for m in group)]
                    rest = [i for i in group if i not in out]
                    if len(rest) < k or len(out) > allowed:
                        continue
                    gain = cost(rows, group, weights, loss) - cost(rows, rest, weights, loss)
                    gain = gain / len(out) - sum(weights)
                    assume(best is None or best[1] == out or abs(gain - best[0]) > 1e-9)
                    if gain > (best[0] if best else 0) + 1e-9:
                        best = gain, out
            if best:
                proposals.append((-best[0], number, best[1]))
        assume(len({round(one[0], 9) for one in proposals}) == len(proposals))
        taken = 0
        for _, number, out in sorted(proposals, key=lambda one: (round(one[0], 9), one[1])):
            if len(out) <= allowed:
                allowed -= len(out)
                gone |= set(out)
                groups[number] = [i for i in groups[number] if i not in out]
                taken += 1
        if not taken:
            return gone


def labels(rows: list[Row], groups: list[Group]) -> set[tuple[str, ...]]:
    def label(own: list[int]) -> str:
        return str(own[0]) if min(own) == max(own) else f"[{min(own)}, {max(own)}]"

    return {tuple(label([rows[i][j] for i in group]) for j in range(len(rows[0]))) for group in groups}


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(4, 60),
    columns=st.integers(1, 3),
    k=st.integers(1, 4),
    loss=st.sampled_from(["loss", "entropy"]),
    weights=st.sampled_from([(1.0, 1.0, 1.0), (1.0, 0.25, 0.5), (0.0, 1.0, 1.0)]),
)
def test_groups_equal_the_definition(
    seed: int, rows: int, columns: int, k: int, loss: str, weights: tuple[float, ...]
) -> None:
    chosen = list(weights[:columns])
    if k > rows or not max(chosen):
        return
    table = numbers(seed, rows, columns)
    importance = {f"x{j}": weight for j, weight in enumerate(chosen)}
    names = list(importance)
    released = dc.Mondrian(columns=names, k=k, loss=loss, importance=importance)(frame(table))
    expected = divide(table, list(range(rows)), k, chosen, loss)
    assert {tuple(map(str, row)) for row in released.rows()} == labels(table, expected)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(6, 40),
    k=st.integers(1, 4),
    loss=st.sampled_from(["loss", "entropy"]),
    share=st.sampled_from([0.1, 0.3]),
)
def test_dropped_records_equal_the_definition(seed: int, rows: int, k: int, loss: str, share: float) -> None:
    rng = np.random.default_rng(seed)
    table = [tuple(int(x) for x in row) for row in rng.lognormal(1, 1.5, (rows, 2)) * 10]  # few ties of gains
    method = dc.Mondrian(columns=["x0", "x1"], k=k, loss=loss, suppression_limit=share, importance={"x1": 0.7})
    released = method(dc.Dataset(frame(table)))
    weights = [1.0, 0.7]
    groups = divide(table, list(range(rows)), k, weights, loss)
    gone = trim(table, groups, k, weights, loss, math.floor(share * rows + 1e-9))
    assert set(range(rows)) - set(released.row_ids.tolist()) == gone
    assert {tuple(map(str, row)) for row in released.frame.rows()} == labels(table, groups)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 5000),
    rows=st.integers(8, 100),
    k=st.integers(1, 5),
    strict=st.booleans(),
    loss=st.sampled_from(["loss", "entropy"]),
    missing=st.sampled_from([0.0, 0.1]),
    limit=st.sampled_from([0.05, 0.4, 1.0]),
)
def test_what_holds_without_dropping_holds_with_it(
    seed: int, rows: int, k: int, strict: bool, loss: str, missing: float, limit: float
) -> None:
    data = people(seed, rows, missing)
    released = dc.Mondrian(k=k, strict=strict, loss=loss, suppression_limit=limit)(data)
    assert rows - len(released) == released.lost_records <= limit * rows
    assert dc.KAnonymity(k=k)(released).holds
    before = data.frame[released.row_ids]
    for name in COLUMNS:
        pairs = zip(released.frame[name].to_list(), before[name].to_list(), strict=True)
        assert all(covers(label, value, name) for label, value in pairs)
        hidden = (released.frame[name].is_null() & before[name].is_not_null()).to_numpy()
        assert np.array_equal(hidden, released.suppressed(name))


def mean_width(released: pl.DataFrame, column: str, whole: float) -> float:
    total = 0.0
    for label in released[column].to_list():
        ends = re.fullmatch(r"\[(.+), (.+)\]", str(label))
        total += (float(ends[2]) - float(ends[1])) / whole if ends else 0.0
    return total / released.height


def test_importance_makes_the_ranges_of_a_column_narrow() -> None:
    table = frame(numbers(1, 300, 3, 40))
    widths = {}
    for name in table.columns:
        released = dc.Mondrian(columns=table.columns, k=5, importance={name: 10})(table)
        widths[name] = [mean_width(released, column, 39**2) for column in table.columns]
    for j, name in enumerate(table.columns):
        assert all(widths[name][j] < 0.5 * widths[other][j] for other in table.columns if other != name)


def test_a_column_without_importance_divides_nothing() -> None:
    table = frame(numbers(2, 100))
    released = dc.Mondrian(columns=["x0", "x1"], k=5, importance={"x1": 0})(table)
    alone = dc.Mondrian(columns=["x0"], k=5)(table)
    assert released["x0"].equals(alone["x0"]) and alone["x0"].n_unique() > 2
    assert released.n_unique() == alone["x0"].n_unique()


def test_an_outlier_hides_the_other_values_from_widths_and_not_from_bits() -> None:
    """x: 0 … 98 and a million; y: 0 or 1. Of its range, x has one ten thousandth left, but log2(99) bits."""
    table = pl.DataFrame({"x": [*range(99), 1_000_000], "y": [i % 2 for i in range(100)]})
    by_width = dc.Mondrian(columns=["y", "x"], k=25)(table)
    by_bits = dc.Mondrian(columns=["y", "x"], k=25, loss="entropy")(table)
    assert by_width["y"].n_unique() == 2 and "[0, 1]" not in by_width["y"].to_list()
    assert by_bits["y"].unique().to_list() == ["[0, 1]"]
    assert set(by_bits["x"].unique()) == {"[0, 24]", "[25, 49]", "[50, 74]", "[75, 1000000]"}


def test_an_outlier_is_dropped_where_it_may_be() -> None:
    table = pl.DataFrame({"x": [1, 2, 3, 4, 5, 6, 7, 1000], "y": [1, 1, 1, 1, 2, 2, 2, 2]})
    kept = dc.Mondrian(columns=["x"], k=3)(dc.Dataset(table))
    assert len(kept) == 8 and kept.frame["x"].to_list() == ["[1, 4]"] * 4 + ["[5, 1000]"] * 4
    for limit in (0.125, 1.0):
        dropped = dc.Mondrian(columns=["x"], k=3, suppression_limit=limit)(dc.Dataset(table))
        assert dropped.frame["x"].to_list() == ["[1, 4]"] * 4 + ["[5, 7]"] * 3
        assert dropped.lost_records == 1 and 7 not in dropped.row_ids
    assert len(dc.Mondrian(columns=["x"], k=4, suppression_limit=0.2)(dc.Dataset(table))) == 8, "k must stay"
    assert len(dc.Mondrian(columns=["x"], k=3, suppression_limit=0.12)(dc.Dataset(table))) == 8, "not one is allowed"
    means = dc.Mondrian(columns=["x"], k=3, suppression_limit=0.2, representation="mean")(dc.Dataset(table))
    assert means.frame["x"].to_list() == [2.5] * 4 + [6.0] * 3


@pytest.mark.parametrize("loss", ["loss", "entropy"])
def test_the_order_of_rows_does_not_matter(loss: str) -> None:
    data = people(3, 200, 0.1, 8)
    method = dc.Mondrian(k=4, loss=loss, importance={"age": 2}, suppression_limit=0.1)
    order = np.random.default_rng(0).permutation(len(data))
    one, other = method(data), method(dc.Dataset(data.frame[order], schema=data.schema))
    assert one.lost_records > 0
    assert one.frame.equals(other.frame[np.argsort(order[other.row_ids])])


@pytest.mark.parametrize(
    "spec",
    [
        {"distinct-l-diversity": {"l": 3}},
        {"entropy-l-diversity": {"l": 2.4}},
        {"t-closeness": {"t": 0.2, "distance": "equal"}},
        {"beta-likeness": {"beta": 0.8}},
    ],
)
def test_the_models_hold_for_what_is_left(spec: dict[str, object]) -> None:
    from discretion.part import parse

    dropped = 0
    for seed in range(6):
        for method in (dc.Mondrian, dc.LocalRecoding):
            data = people(seed, 150, 0.02, 20)
            columns = COLUMNS if method is dc.Mondrian else ["job", "town"]
            released = method(columns=columns, k=3, models=[spec], suppression_limit=0.2)(data)
            kind, fields = next(iter(spec.items()))
            assert parse({kind: {**fields, "columns": columns}}, "model")(released).holds  # type: ignore[dict-item, operator]
            dropped += released.lost_records
    assert dropped > 0


def test_what_cannot_be() -> None:
    data = people(1, 30)
    with pytest.raises(dc.PlanError, match="loss: input should be 'loss' or 'entropy'"):
        dc.Mondrian(k=2, loss="aecs")
    with pytest.raises(dc.PlanError, match="suppression_limit"):
        dc.Mondrian(k=2, suppression_limit=5)
    with pytest.raises(dc.PlanError, match="weights cannot be negative"):
        dc.Mondrian(k=2, importance={"age": -1})
    with pytest.raises(dc.PlanError, match="'illness' is not among the columns"):
        dc.Mondrian(k=2, importance={"illness": 2})(data)
    with pytest.raises(dc.PlanError, match="a weight above 0"):
        dc.Mondrian(k=2, columns=["age"], importance={"age": 0})(data)


def test_cancel_while_records_are_dropped() -> None:
    def stop(done: int, total: int, label: str) -> None:
        if label == "suppression":
            raise dc.Cancelled("stopped")

    with pytest.raises(dc.Cancelled):
        dc.Mondrian(k=2, suppression_limit=0.1)(people(1), progress=stop)
