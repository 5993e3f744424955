"""Rules say of every record what a plain evaluator of the same condition says."""

from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.data.rules import LevelRule, read_rules
from discretion.data.sql_filter import And, Condition, Filter, Not, Or

from ..online.naive import holds


def records(n: int = 60) -> pl.DataFrame:
    rng = np.random.default_rng(1)
    return pl.DataFrame(
        {
            "age": [None if rng.random() < 0.2 else int(rng.integers(0, 9)) for _ in range(n)],
            "pay": [None if rng.random() < 0.2 else float(rng.integers(0, 5)) for _ in range(n)],
            "job": [None if rng.random() < 0.2 else str(rng.choice(["a", "b", "c"])) for _ in range(n)],
        }
    )


def some_filter(rng: np.random.Generator, depth: int = 0) -> Filter:
    pick = rng.integers(0, 6) if depth < 3 else 0
    if pick == 1:
        return Not(some_filter(rng, depth + 1))
    if pick in (2, 3):
        parts = tuple(some_filter(rng, depth + 1) for _ in range(2))
        return And(parts) if pick == 2 else Or(parts)
    column = str(rng.choice(["age", "pay", "job"]))
    value = (lambda: str(rng.choice(["a", "b"]))) if column == "job" else (lambda: int(rng.integers(0, 6)))
    op = str(rng.choice(["=", "!=", "<", "<=", ">", ">=", "in", "between", "is-missing", "not-missing"]))
    count = {"in": 2, "between": 2, "is-missing": 0, "not-missing": 0}.get(op, 1)
    return Condition(column, op, tuple(value() for _ in range(count)))  # type: ignore[arg-type]


def test_rules_agree_with_a_plain_evaluator() -> None:
    rng = np.random.default_rng(2)
    frame = records()
    rows = frame.to_dicts()
    for _ in range(200):
        where = some_filter(rng)
        want = [not holds(where, row) for row in rows]
        assert LevelRule("", where).broken(frame).tolist() == want


def test_rules_are_read_as_conditions_of_sql() -> None:
    frame = records()
    (rule,) = read_rules(["age >= 3 OR job IN ('a', 'b') AND NOT (pay IS NULL)"], frame.columns, "test")
    want = [
        not ((r["age"] is not None and r["age"] >= 3) or (r["job"] in ("a", "b") and r["pay"] is not None))
        for r in frame.to_dicts()
    ]
    assert rule.columns == {"age", "job", "pay"} and rule.broken(frame).tolist() == want


def test_dates_are_compared_with_texts() -> None:
    frame = pl.DataFrame({"day": [dt.date(2020, 1, 1), dt.date(2021, 1, 1), None]})
    (rule,) = read_rules(["day >= '2020-06-01'"], ["day"], "test")
    assert rule.broken(frame).tolist() == [True, False, True]


@pytest.mark.parametrize("text", ["age > (SELECT 1)", "random() > 1", "age * age > 3", "age LIKE 'x'", "t.age > 3", ""])
def test_what_is_not_a_condition_is_refused(text: str) -> None:
    with pytest.raises(dc.PlanError, match="rule"):
        read_rules([text], ["age"], "test")
