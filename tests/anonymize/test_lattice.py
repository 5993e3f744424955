"""Compressed records and roll-ups give the classes that a group-by gives; bounds never exceed the truth."""

from __future__ import annotations

from itertools import product
from typing import get_args

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.anonymize import explorer as projections_module
from discretion.anonymize.explorer import Projections
from discretion.anonymize.losses import LossName
from discretion.anonymize.problem import SearchProblem, Settings
from discretion.anonymize.records import RollUp, compress

from .small import COLUMNS, TABLES, dataset, frame, naive, smaller_than


def group_sizes(table: pl.DataFrame, levels: tuple[int, ...]) -> list[int]:
    up = {name: {row[0]: row[level] for row in TABLES[name]} for name, level in zip(COLUMNS, levels, strict=True)}
    raised = table.with_columns(pl.col(name).replace_strict(up[name]) for name in COLUMNS)
    return sorted(raised.group_by(COLUMNS).len()["len"].to_list())


def test_every_node_has_the_classes_of_a_group_by() -> None:
    table = frame(5, 300)
    records = compress(dataset(table), COLUMNS, {})
    roll = RollUp(records)
    for steps in product(*map(range, records.shape)):
        want = group_sizes(table, steps)
        assert sorted(roll.classes(steps).counts.tolist()) == want
        classes, numbers = roll.numbered(steps)
        assert sorted(classes.counts.tolist()) == want
        again = np.bincount(numbers, weights=records.counts, minlength=len(classes))
        assert again.tolist() == classes.counts.tolist()


def test_keys_of_several_words() -> None:
    rng = np.random.default_rng(2)
    wide = pl.DataFrame({f"c{j}": rng.integers(0, 900, 500).astype(str) for j in range(9)})
    tables = {name: [[str(v), str(v % 7), "*"] for v in range(900)] for name in wide.columns}
    data = dc.Dataset(wide, roles=dict.fromkeys(wide.columns, "quasi"), hierarchies=tables)
    records = compress(data, wide.columns, {})
    roll = RollUp(records)
    assert roll.base.keys.shape[1] == 2
    for steps in ((0,) * 9, (1,) * 9, (2, 1, 2, 1, 2, 2, 2, 1, 2), (2,) * 9, (2, 2, 2, 2, 2, 2, 2, 2, 0)):
        raised = wide.with_columns(
            pl.col(name) if step == 0 else (pl.col(name).cast(pl.Int64) % 7 if step == 1 else pl.lit("*").alias(name))
            for name, step in zip(wide.columns, steps, strict=True)
        )
        want = sorted(raised.group_by(wide.columns).len()["len"].to_list())
        assert sorted(roll.classes(steps).counts.tolist()) == want


@pytest.mark.parametrize("loss", [name for name in get_args(LossName) if name != "payout"])  # see test_profitability
@pytest.mark.parametrize("factor", [0.2, 0.5, 0.9])
def test_bounds_hold_for_every_node(loss: LossName, factor: float) -> None:
    for seed in range(3):
        table = frame(seed, 60)
        problem = naive(table, [smaller_than(3)(table)], factor=factor)
        settings = Settings((dc.KAnonymity(k=3),), loss=loss, suppression_limit=1.0, suppression_factor=factor)
        explorer = SearchProblem(dataset(table), settings).explore()
        shape = explorer.records.shape
        steps = np.array(list(product(*map(range, shape))))
        floors, bounds = explorer.loss.floor_everywhere(), explorer.bounds(steps)
        least = explorer.least_suppressed(steps)
        for row, bound, needed in zip(map(tuple, steps.tolist()), bounds, least, strict=True):
            node = problem.evaluate(row, loss)
            assert needed <= node.suppressed
            if node.kept:
                slack = 1e-9 * max(1.0, abs(node.score))
                assert floors[row] <= node.score + slack
                assert bound <= node.score + slack
                knowing = explorer.bounds_given(np.array([row]), np.array([node.suppressed]))
                assert knowing[0] <= node.score + slack


@pytest.mark.parametrize("values", [2, 5, 512])
def test_columns_with_many_values_are_counted_from_a_higher_level(values: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projections_module, "_VALUES", values)
    test_classes_that_can_be_kept_are_bounded()
    table = frame(6, 80)
    problem = naive(table, [smaller_than(3)(table)])
    records = compress(dataset(table), COLUMNS, {})
    steps = np.array(list(product(*map(range, records.shape))))
    projections = Projections(records, 3)
    least = projections.least(steps)
    assert least.tolist() == projections.least_everywhere().ravel().tolist()
    for row, needed in zip(map(tuple, steps.tolist()), least, strict=True):
        assert needed <= problem.evaluate(row, "height").suppressed


def test_classes_that_can_be_kept_are_bounded() -> None:
    table = frame(1, 200)
    problem = naive(table, [smaller_than(4)(table)])
    records = compress(dataset(table), COLUMNS, {})
    projections = Projections(records, 4)
    steps = np.array(list(product(*map(range, records.shape))))
    most = projections.most(steps, projections.least(steps))
    for row, bound in zip(map(tuple, steps.tolist()), most, strict=True):
        assert len(problem.evaluate(row, "aecs").kept) <= bound


def test_one_and_two_columns() -> None:
    table = frame(3, 50)
    for columns in (["age"], ["sex"], ["age", "town"]):
        got = dc.anonymize(dataset(table), [dc.KAnonymity(k=4)], columns=columns)
        assert dc.KAnonymity(k=4, columns=columns)(got.dataset).holds
