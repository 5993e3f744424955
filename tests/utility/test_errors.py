from __future__ import annotations

import json
import math

import numpy as np
import polars as pl
import pytest

import discretion as dc
from tests.shared import reference

X = pl.DataFrame({"a": [1.0, 2.0, 4.0, 0.0], "b": [3.0, 1.0, None, 5.0]})
Y = pl.DataFrame({"a": [1.0, 3.0, 2.0, 1.0], "b": [3.0, None, 7.0, 4.0]})


def test_missing_values_are_left_out_and_counted() -> None:
    score = dc.Mae(columns=["a", "b"])(X, Y)
    assert score.value == pytest.approx((0 + 1 + 2 + 1 + 0 + 1) / 6)
    assert score.detail["values_missing"] == 2


def test_relative_error_leaves_out_zeros_and_says_how_many() -> None:
    score = dc.Mre(columns=["a"])(X, Y)
    assert score.value == pytest.approx((0 + 1 / 2 + 2 / 4) / 3)
    assert score.detail["zeros_left_out"] == 1
    with pytest.raises(dc.DataError, match="every original value is zero"):
        dc.Mre(columns=["a"])(pl.DataFrame({"a": [0.0, 0.0]}), pl.DataFrame({"a": [0.0, 1.0]}))


def test_il1s_is_a_sum_over_records_and_columns() -> None:
    x = np.random.default_rng(1).normal(size=(50, 2))
    y = x + 0.3
    want = sum((np.abs(x[:, j] - y[:, j]) / (math.sqrt(2) * x[:, j].std(ddof=1))).sum() for j in (0, 1))
    frames = [pl.DataFrame(z, schema=["a", "b"]) for z in (x, y)]
    score = dc.Il1s(columns=["a", "b"])(*frames)
    assert score.value == pytest.approx(want)
    assert score.detail["mean"] == pytest.approx(want / 100)


def test_constant_columns_are_named() -> None:
    flat = pl.DataFrame({"a": [1.0, 1.0], "b": [1.0, 2.0]})
    with pytest.raises(dc.DataError, match="column 'a' is constant"):
        dc.Il1s(columns=["a", "b"])(flat, flat)
    with pytest.raises(dc.DataError, match="column 'a' is constant; it has no correlation"):
        dc.Mse(columns=["a", "b"], on="correlation")(flat, flat)


def people() -> dc.Dataset:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "id": range(60),
            "w": [2.0] * 60,
            "age": rng.integers(18, 90, 60),
            "a": rng.normal(size=60),
            "b": rng.random(60),
        }
    )
    roles = {"id": "identifier", "w": "weight", "age": "quasi", "a": "sensitive", "b": "sensitive"}
    return dc.Dataset(frame, roles=roles, hierarchies={"age": dc.Hierarchy.intervals(width=5, levels=4)})


NUMERIC = [
    dc.Mse, dc.Mae, dc.Mre, dc.Il1s, dc.AverageDivergence, dc.Sse,
    dc.EigenDifference, dc.RobustEigenDifference, dc.CorrelationChange,
]  # fmt: skip


def test_default_columns_are_the_numbers_without_identifiers_and_weights() -> None:
    data = people()
    moved = data.with_columns({name: data.number(name) + 1 for name in ("id", "w", "age")})
    assert dc.Mae()(data, moved).value == pytest.approx(1 / 3)
    assert dc.Mae()(data, moved).detail["values_compared"] == 180


@pytest.mark.parametrize("kind", NUMERIC)
@pytest.mark.parametrize("columns", [(), ("age", "a", "b")])
def test_a_generalized_column_is_an_error_named_or_not(kind: type[dc.Measure], columns: tuple[str, ...]) -> None:
    data = people()
    for level in (1, 4):
        coarse = dc.Generalize(levels={"age": level})(data)
        with pytest.raises(dc.DataError, match=r"not in the release \(generalized or recoded\): 'age'; .*`precision`"):
            kind(columns=columns)(data, coarse)
        assert kind(columns=["a", "b"])(data, coarse).value is not None
    recoded = dc.Recode(column="age", width=5)(data)
    with pytest.raises(dc.DataError, match=f"^{kind.kind}: .*'age'"):
        kind(columns=columns)(data, recoded)


def test_a_requirement_on_default_columns_does_not_hold_for_a_generalized_column() -> None:
    data = people()
    plan = dc.Plan.from_dict(
        {
            "roles": {"id": "identifier", "w": "weight", "age": "quasi", "a": "sensitive", "b": "sensitive"},
            "hierarchies": {"age": {"intervals": {"width": 5, "levels": 4}}},
            "steps": [{"generalize": {"levels": {"age": 4}}}],
            "requirements": [{"il1s": {"at_most": 0.1}}],
        }
    )
    with pytest.raises(dc.DataError, match=r"il1s: .*'age'"):
        plan.run(data.frame)


@pytest.mark.parametrize("kind", NUMERIC)
def test_suppressed_records_and_columns_not_released_are_said(kind: type[dc.Measure]) -> None:
    data = people().drop(["w"])
    whole = kind()(data, data)
    assert "lost_records" not in whole.detail and "columns_not_released" not in whole.detail
    assert "Not in this figure" not in whole.meaning
    fewer = kind()(data, data.take(np.arange(57), suppressed=True))
    assert fewer.detail["lost_records"] == 3
    assert fewer.meaning.endswith(" Not in this figure: 3 suppressed records.")
    assert "lost_records" not in kind()(data, data.take(np.arange(57))).detail  # a sample loses nobody
    narrow = kind()(data, data.take(np.arange(59), suppressed=True).drop(["age"]))
    assert narrow.detail["columns_not_released"] == ["age"] and narrow.detail["lost_records"] == 1
    assert narrow.meaning.endswith(" Not in this figure: 1 suppressed record; columns not released (age).")
    with pytest.raises(dc.DataError, match="unknown column 'age'"):
        kind(columns=["age", "a", "b"])(data, data.drop(["age"]))
    with pytest.raises(dc.DataError, match="none of the numeric columns"):
        kind()(data, data.drop(["age", "a", "b"]))


def test_weights_are_ignored() -> None:
    plain, heavy = (
        dc.Dataset(
            pl.DataFrame({"x": [1.0, 2.0, 4.0], "w": weights}), roles={"x": "sensitive", "w": "weight"}
        ).with_columns({"w": weights})
        for weights in ([1.0, 1.0, 1.0], [1.0, 50.0, 2.0])
    )
    for measure in (dc.Mse(), dc.Mae(), dc.Mre(), dc.Il1s(), dc.AverageDivergence(), dc.Sse()):
        moved = [measure(data, data.with_columns({"x": [1.0, 3.0, 6.0]})).value for data in (plain, heavy)]
        assert moved[0] == moved[1] > 0


def test_sse_share_of_total() -> None:
    x = pl.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]})
    mean = pl.DataFrame({"a": [2.5] * 4})
    score = dc.Sse(columns=["a"])(x, mean)
    assert score.value == pytest.approx(5.0)
    assert score.detail["share_of_total"] == pytest.approx(1.0)


def test_suppressed_and_changed_cells() -> None:
    x = pl.DataFrame({"a": [1.0, 2, 3, None], "b": ["u", "v", None, "w"]})
    y = pl.DataFrame({"a": [1.0, 5, None, None], "b": ["u", None, "v", "w"]})
    score = dc.ChangedShare(columns=["a", "b"])(x, y)
    assert score.value == 4 / 8
    assert score.detail["per_column"] == {
        "a": {"suppressed": 0.25, "changed": 0.25},
        "b": {"suppressed": 0.25, "changed": 0.25},
    }
    assert score.detail["records_touched"] == 0.5
    assert score.per_record is not None
    assert score.per_record.tolist() == [0, 1, 1, 0]


def test_a_study_counts_what_its_steps_did() -> None:
    people = dc.Dataset(
        pl.DataFrame({"region": list("aabbc"), "income": [1, 2, 3, 4, 5], "name": list("vwxyz")}),
        roles={"region": "quasi", "income": "sensitive", "name": "identifier"},
    )
    released = dc.LocalSuppression(columns=["region"], k=2)(people)
    score = dc.ChangedShare()(people, released)
    hidden = released.suppressed_cells["region"]
    assert hidden > 0
    assert [score.value, score.detail["suppressed"]] == pytest.approx([hidden / 10] * 2)
    assert dc.ChangedShare()(people, released.drop(["region"])).detail["columns_not_released"] == ["region"]


def test_weights_count() -> None:
    roles = {"w": "weight", "a": "quasi"}
    x = dc.Dataset(pl.DataFrame({"a": [1, 2], "w": [1.0, 3.0]}), roles=roles)
    y = dc.Dataset(pl.DataFrame({"a": [1, 3], "w": [1.0, 3.0]}), roles=roles)
    assert dc.ChangedShare()(x, y).value == 0.75
    assert dc.VariableChange(standardize=False)(x, y).value == pytest.approx(0.75 * 0.5)


def test_variable_change_by_its_definition() -> None:
    x = dc.Dataset(
        pl.DataFrame({"n": [1.0, 2, 3, None], "g": ["low", "mid", "high", "low"], "c": ["u", "v", "v", None]}),
        orders={"g": ["low", "mid", "high"]},
    )
    y = pl.DataFrame({"n": [1.0, 4, None, 7], "g": ["low", "high", "low", None], "c": ["u", "u", None, None]})
    score = dc.VariableChange(columns=["n", "g", "c"])(x, y)
    wanted = {"n": (0 + 2 / np.pi * np.arctan(2) + 1 + 1) / 4, "g": (0 + 0.5 + 1 + 1) / 4, "c": (0 + 1 + 1 + 0) / 4}
    assert score.detail["per_column"] == pytest.approx(wanted)
    assert score.value == pytest.approx(np.mean(list(wanted.values())))


def test_units_matter_only_when_asked() -> None:
    rng = np.random.default_rng(0)
    x = pl.DataFrame({"a": rng.normal(size=50)})
    y = x + 0.1
    plain, own = dc.VariableChange(columns=["a"]), dc.VariableChange(columns=["a"], standardize=False)
    assert plain(x * 1000, y * 1000).value == pytest.approx(plain(x, y).value)
    assert own(x * 1000, y * 1000).value > 0.9 > own(x, y).value


@pytest.mark.peers
def test_categories_of_sdcmicro() -> None:
    golden = json.loads(reference("golden", "sdcmicro", "06_IL_variables_cat.json").read_text())
    keys = list(golden["indiv"])
    read = {"columns": keys, "null_values": ["NA"], "schema_overrides": dict.fromkeys(keys, pl.String)}
    x = pl.read_csv(reference("golden", "sdcmicro", "in_testdata.csv"), **read)
    y = pl.read_csv(reference("golden", "sdcmicro", "in_testdata_keys_somesupp.csv"), **read)
    score = dc.VariableChange(columns=keys)(x, y)
    assert score.detail["per_column"] == pytest.approx(golden["indiv"], abs=1e-12)
    assert score.value == pytest.approx(golden["total"], rel=1e-9)


def test_large_whole_numbers_are_compared_to_the_last() -> None:
    x = pl.DataFrame({"a": [2**60, 2**60 + 1, None, 5]})
    y = pl.DataFrame({"a": [2**60 + 1, 2**60 + 1, None, 5]})
    assert dc.ChangedShare(columns=["a"])(x, y).value == 0.25


@pytest.mark.parametrize("measure", [dc.ChangedShare, dc.VariableChange, dc.Marginals, dc.RangeQueries])
def test_the_unit_of_a_date_is_no_change(measure: type[dc.Measure]) -> None:
    x = pl.DataFrame({"a": pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 3, 1), eager=True)})
    for unit in (pl.Datetime("us"), pl.Datetime("ms")):
        y = x.cast(unit)
        assert measure(columns=["a"])(x, y).value == 0
        moved = y.with_columns(pl.col("a") + pl.duration(days=20))
        assert measure(columns=["a"])(x, moved).value == pytest.approx(
            measure(columns=["a"])(x, x.with_columns(pl.col("a") + pl.duration(days=20))).value
        )
