"""Suppression by risk and suppression of records."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc


def people() -> dc.Dataset:
    frame = pl.DataFrame(
        {
            "zip": [8, 8, 8, 9, 9, 7, None],
            "sex": ["F", "F", "F", "M", "M", "M", "M"],
            "ill": ["a", "b", "c", "a", "a", "b", "c"],
        }
    )
    return dc.Dataset(frame, roles={"zip": "quasi", "sex": "quasi", "ill": "sensitive"})


def test_by_risk_hides_the_cells_of_risky_records() -> None:
    result = dc.SuppressByRisk(at_most=0.5, columns=["sex"])(people())
    assert result.suppressed("sex").tolist() == [False] * 5 + [True, True]
    assert result.frame["sex"].null_count() == 2
    assert result.suppressed_cells == {"sex": 2}


def test_by_risk_hides_the_most_telling_column_by_default() -> None:
    result = dc.SuppressByRisk(at_most=0.5)(people())
    assert result.suppressed_cells == {"zip": 1}  # the other risky cell was missing already


def test_by_risk_drops_records() -> None:
    result = dc.SuppressByRisk(at_most=0.4, drop=True)(people())
    assert result.row_ids.tolist() == [0, 1, 2]
    assert result.lost_records == 4


def test_by_risk_says_how_many_are_left() -> None:
    method = dc.SuppressByRisk(at_most=0.5, columns=["zip"])
    decision = method.decide(people(), dc.Context(1, "1"))
    assert decision["records_above"] == 2
    assert decision["records_above_afterwards"] == 0  # both are now alike: missing, M
    other = dc.SuppressByRisk(at_most=0.5, columns=["ill"]).decide(people(), dc.Context(1, "1"))
    assert other["records_above_afterwards"] == 2


def test_by_risk_takes_any_measure_with_a_figure_for_each_record() -> None:
    measure = {"sample-uniqueness": {"columns": ["sex"]}}
    result = dc.SuppressByRisk(at_most=0.3, measure=measure, columns=["sex"])(people())
    assert result.suppressed("sex").tolist() == [True] * 3 + [False] * 4


@pytest.mark.parametrize(
    "fields",
    [
        {"at_most": -1},
        {"at_most": 0.5, "measure": "il1s"},
        {"at_most": 0.5, "measure": "nonsense"},
        {"at_most": 0.5, "columns": ["zip"], "drop": True},
    ],
)
def test_by_risk_refuses_wrong_fields(fields: dict[str, object]) -> None:
    with pytest.raises(dc.PlanError, match="suppress-by-risk"):
        dc.SuppressByRisk(**fields)


def test_records_of_small_classes_are_dropped() -> None:
    result = dc.SuppressRecords(k=2, limit=0.3)(people())
    assert result.row_ids.tolist() == [0, 1, 2, 3, 4]
    assert result.lost_records == 2
    assert dc.KAnonymity(k=2)(result).holds


def test_more_than_the_limit_is_an_error_that_says_how_many() -> None:
    with pytest.raises(dc.Infeasible, match=r"2 of 7 records \(28\.6%\).*`limit` to 0\.2858"):
        dc.SuppressRecords(k=2, limit=0.1)(people())
    assert len(dc.SuppressRecords(k=2, limit=0.2858)(people())) == 5, "the advice helps"


def test_records_that_break_any_model_go() -> None:
    models = [{"k-anonymity": {"k": 2}}, {"distinct-l-diversity": {"l": 2}}]
    result = dc.SuppressRecords(models=models, limit=1)(people())
    assert result.row_ids.tolist() == [0, 1, 2]


def test_models_about_the_whole_table_hold_for_what_stays() -> None:
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"zip": rng.integers(0, 40, 2_000), "ill": rng.choice(3, 2_000, p=[0.6, 0.3, 0.1])})
    result = dc.SuppressRecords(
        columns=["zip"], models=[{"t-closeness": {"t": 0.08, "sensitive": ["ill"]}}], limit=0.9
    )(frame)
    assert 0 < len(result) < 2_000
    assert dc.TCloseness(t=0.08, columns=["zip"], sensitive=["ill"])(result).holds


def test_nothing_left_is_an_error() -> None:
    with pytest.raises(dc.DataError, match="nothing would be left"):
        dc.SuppressRecords(k=8, limit=1)(people())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "give `k` or `models`"),
        ({"models": [{"k-anonymity": {"k": 2, "missing": "wildcard"}}]}, "as a category"),
        ({"k": 2, "limit": 1.5}, "limit"),
    ],
)
def test_records_refuses_wrong_fields(fields: dict[str, object], words: str) -> None:
    with pytest.raises(dc.PlanError, match=words):
        dc.SuppressRecords(**fields)


@pytest.mark.parametrize("drop", [False, True])
def test_suppression_by_risk_has_a_limit_too(drop: bool) -> None:
    data = dc.Dataset(pl.DataFrame({"zip": [8, 8, 8, 8, 9, 7]}), roles={"zip": "quasi"})
    with pytest.raises(dc.Infeasible, match=r"suppress-by-risk: 2 of 6 records \(33\.3%\) .*`limit` to 0\.3334"):
        dc.SuppressByRisk(at_most=0.5, drop=drop, limit=0.3)(data)
    for limit in (0.3334, 1.0):
        released = dc.SuppressByRisk(at_most=0.5, drop=drop, limit=limit)(data)
        assert len(released) == (4 if drop else 6) and released.suppressed_cells == ({} if drop else {"zip": 2})
    with pytest.raises(dc.PlanError, match="limit"):
        dc.SuppressByRisk(at_most=0.5, limit=30)
