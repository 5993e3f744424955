from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc

from .synthetic_people import EVERY, people
from .test_synthetic_attacks import gower, ranges_of


def test_closest_record_of_a_copy_and_of_an_honest_release() -> None:
    original, others, honest = people(800, 1), people(800, 2), people(800, 3)
    measure = dc.ClosestRecord(columns=EVERY, holdout=others)
    copy = measure(original, original)
    assert copy.value == 1.0
    assert copy.detail["to_data"]["dcr_median"] == 0
    assert copy.detail["to_data"]["share_identical"] == 1
    assert copy.detail["to_data"]["nndr_median"] == 0
    fair = measure(original, honest)
    low, high = fair.detail["interval"]
    assert low <= 0.5 <= high
    assert fair.detail["to_data"]["dcr_median"] == pytest.approx(fair.detail["to_control"]["dcr_median"], rel=0.15)


def test_closest_record_against_a_full_comparison() -> None:
    original, others, released = people(40, 1), people(40, 2), people(50, 3)
    released = pl.concat([released, original[:5], others[:3]])
    score = dc.ClosestRecord(columns=EVERY, holdout=others)(original, released)
    ranges = ranges_of([original, released, others], EVERY)
    closer, first, second = [], [], []
    for record in released.iter_rows(named=True):
        to = [
            sorted(gower(record, r, ranges) / 5 for r in group.iter_rows(named=True))[:2]
            for group in (original, others)
        ]
        closer.append(1.0 if to[0][0] < to[1][0] else 0.5 if to[0][0] == to[1][0] else 0.0)
        first.append(to[0][0])
        second.append(to[0][1])
    assert score.value == pytest.approx(np.mean(closer))
    assert score.per_record is not None
    assert score.per_record.tolist() == closer
    assert score.detail["to_data"]["dcr_median"] == pytest.approx(np.median(first))
    assert score.detail["to_data"]["dcr_5th_percentile"] == pytest.approx(np.quantile(first, 0.05), abs=1e-12)
    assert score.detail["to_data"]["nndr_median"] == pytest.approx(np.median(np.array(first) / np.array(second)))


def test_closest_record_counts_people_and_sees_a_copy_of_any_of_their_rows() -> None:
    """A panel: rows of one person lie anywhere, so that one of them says nothing about the others."""

    def panel(n: int, seed: int, waves: int = 4) -> dc.Dataset:
        rng = np.random.default_rng(seed)
        frame = pl.DataFrame(
            {"id": np.repeat(np.arange(n), waves), "x": rng.random(n * waves), "y": rng.random(n * waves)}
        )
        return dc.Dataset(frame, roles={"id": "unit"})

    original, others = panel(300, 1), panel(100, 2)
    measure = dc.ClosestRecord(columns=["x", "y"], holdout=others)
    rows = np.arange(len(original))
    for wave in range(4):
        copied = original.take(rows % 4 == wave).frame.drop("id")
        score = measure(original, copied)
        assert score.detail["group_size"] == 100
        assert score.value > 0.6  # a third is in the group and found, of the others one half by chance: 2/3
    fair = measure(original, panel(500, 3).frame.drop("id"))
    assert fair.value == pytest.approx(0.5, abs=0.03)


def test_missing_dates_and_orders_in_the_distance() -> None:
    grades = ["low", "mid", "high"]
    original = dc.Dataset(
        pl.DataFrame({"day": [date(2020, 1, 1), date(2020, 1, 11)], "grade": ["low", "high"], "x": [None, 4.0]}),
        orders={"grade": grades},
    )
    others = pl.DataFrame({"day": [date(2020, 1, 1)] * 2, "grade": ["mid"] * 2, "x": [0.0, 4.0]})
    released = pl.DataFrame(
        {"day": [date(2020, 1, 6)], "grade": ["low"], "x": [None]}, schema_overrides={"x": pl.Float64}
    )
    score = dc.ClosestRecord(columns=["day", "grade", "x"], holdout=others)(original, released)
    # half the range of days, equal grades, both missing; to the others one rank of two, and missing against a value
    assert score.detail["to_data"]["dcr_median"] == pytest.approx((0.5 + 0 + 0) / 3)
    assert score.detail["to_control"]["dcr_median"] == pytest.approx((0.5 + 0.5 + 1) / 3)


def test_closest_record_needs_a_control_group() -> None:
    with pytest.raises(dc.PlanError, match="give `holdout`"):
        dc.ClosestRecord(columns=EVERY)(people(30, 1), people(30, 2))
    with pytest.raises(dc.DataError, match="at least two"):
        dc.ClosestRecord(columns=EVERY, holdout=people(1, 2))(people(30, 1), people(30, 2))


tables = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from([1, 2, 3]), st.sampled_from("xyz")),
    min_size=1,
    max_size=30,
)


def frame(rows: list[tuple[Any, Any, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"the zip": pl.String, "age": pl.Int64, "ill": pl.String}, orient="row")


@settings(max_examples=80, deadline=None)
@given(tables, tables, tables)
def test_replicated_uniques_and_disco_by_their_definitions(a: list[Any], b: list[Any], c: list[Any]) -> None:
    if not {r[0] for r in a if r[0]} & {r[0] for r in b if r[0]} or not {r[2] for r in a} & {r[2] for r in b}:
        return
    original, released, others = frame(a), frame(b), frame(c)
    keys, in_release = Counter(r[:2] for r in a), Counter(r[:2] for r in b)
    wanted = [keys[r[:2]] == 1 and in_release[r[:2]] == 1 for r in a]
    score = dc.ReplicatedUniques(columns=["the zip", "age"])(original, released)
    assert score.value == pytest.approx(sum(wanted) / len(a))
    assert score.per_record is not None
    assert score.per_record.tolist() == wanted
    assert score.detail["unique_in_original"] == pytest.approx(sum(n == 1 for n in keys.values()) / len(a))

    secrets: dict[Any, set[Any]] = {}
    for row in b:
        secrets.setdefault(row[:2], set()).add(row[2])
    disclosed = [secrets.get(r[:2]) == {r[2]} for r in a]
    disco = dc.Disco(columns=["the zip", "age"], targets=["ill"], holdout=others)(original, released)
    assert disco.value == pytest.approx(sum(disclosed) / len(a))
    assert disco.per_record is not None
    assert disco.per_record.tolist() == disclosed
    figures = disco.detail["per_target"]["ill"]
    assert figures["key_in_release"] == pytest.approx(sum(r[:2] in in_release for r in a) / len(a))
    assert figures["disclosive"] == pytest.approx(sum(len(secrets.get(r[:2], ())) == 1 for r in a) / len(a))
    assert figures["control_rate"] == pytest.approx(sum(secrets.get(r[:2]) == {r[2]} for r in c) / len(c))


def keyed(rows: int, rng: np.random.Generator) -> pl.DataFrame:
    keys = pl.Series(rng.integers(0, 3000, rows)).cast(pl.String)
    return pl.DataFrame({"k": keys, "s": rng.choice(list("abcd"), rows)})


def test_a_copy_tells_all_keys() -> None:
    rng = np.random.default_rng(0)
    original, others = keyed(1000, rng), keyed(1000, rng)
    copied = dc.ReplicatedUniques(columns=["k"], holdout=others)(original, original)
    assert copied.detail["share_of_uniques"] == 1.0
    assert copied.value == copied.detail["unique_in_original"]
    assert copied.detail["risk_interval"][0] > 0.2
    told = dc.Disco(columns=["k"], targets=["s"], holdout=others)(original, original).detail["per_target"]["s"]
    assert told["disco"] == told["in_original"]
    assert told["risk_interval"][0] > 0.5


def test_intervals_of_honest_releases_cover_zero() -> None:
    rng = np.random.default_rng(1)
    runs, covered = 60, Counter[str]()
    for _ in range(runs):
        original, others, honest = (keyed(600, rng) for _ in range(3))
        uniques = dc.ReplicatedUniques(columns=["k"], holdout=others)(original, honest).detail
        secrets = dc.Disco(columns=["k"], targets=["s"], holdout=others)(original, honest).detail["per_target"]["s"]
        for name, figures in (("repU", uniques), ("disco", secrets)):
            covered[name] += figures["risk_interval"][0] <= 0 <= figures["risk_interval"][1]
    assert min(covered.values()) >= 53


def test_disco_takes_roles_and_refuses_nothing_to_know() -> None:
    data = dc.Dataset(people(80, 1), roles={"region": "quasi", "age": "quasi", "ill": "sensitive"})
    score = dc.Disco()(data, data)
    assert score.detail["target"] == "ill"
    assert score.detail["columns"] == ["age", "region"]
    with pytest.raises(dc.PlanError, match="give `targets`"):
        dc.Disco(columns=["age"])(people(20, 1), people(20, 2))


def test_large_whole_numbers_keep_their_last_digits() -> None:
    frame = pl.DataFrame({"number": [2**60 + i for i in range(20)], "ill": ["a", "b"] * 10})
    assert dc.ReplicatedUniques(columns=["number"])(frame, frame).value == 1.0
    assert dc.Disco(columns=["number"], targets=["ill"])(frame, frame).value == 1.0


def test_sets_are_one_category_each_and_people_count_once() -> None:
    rng = np.random.default_rng(2)
    items = [sorted(set(rng.choice(list("abcdefgh"), 3).tolist())) for _ in range(200)]
    frame = pl.DataFrame({"x": rng.normal(size=200), "s": items})
    turned = frame.with_columns(pl.col("s").list.reverse())
    inside, outside = dc.Dataset(frame[:100]), dc.Dataset(frame[100:])
    assert dc.ClosestRecord(columns=["x", "s"], holdout=outside)(inside, dc.Dataset(turned[:100])).value == 1.0
    who = np.repeat(np.arange(300), 10)
    panel = pl.DataFrame(
        {"who": who, "x": np.repeat(rng.normal(size=300), 10), "y": np.repeat(rng.normal(size=300), 10)}
    )
    data, others = (dc.Dataset(part, roles={"who": "unit"}) for part in (panel[:2000], panel[2000:2500]))
    fresh = dc.Dataset(pl.DataFrame(rng.normal(size=(2000, 2)), schema=["x", "y"]))
    # 200 people in the data and 50 outside: rows drawn at random would come from three times as many people inside
    score = dc.ClosestRecord(columns=["x", "y"], holdout=others)(data, fresh)
    assert score.value == pytest.approx(0.5, abs=0.12)


def test_people_outside_are_alone_by_the_data_and_not_among_themselves() -> None:
    """Real people as the release: a small control group must not look as if being in the data protected."""
    rng = np.random.default_rng(1)
    keys = pl.DataFrame({"a": rng.integers(0, 40, 9000), "b": rng.integers(0, 40, 9000)})
    inside, file, few, many = keys[:3000], keys[3000:6000], keys[6000:6300], keys[6000:]
    for outside in (few, many):
        detail = dc.ReplicatedUniques(columns=["a", "b"], holdout=outside)(inside, file).detail
        assert detail["control_rate"] == pytest.approx(detail["interval"][0], abs=0.04)
        both = outside.join(inside.unique(), on=["a", "b"], how="anti").join(
            file.group_by("a", "b").len().filter(pl.col("len") == 1), on=["a", "b"], how="semi"
        )
        assert detail["control_rate"] == both.height / outside.height


def test_membership_is_attacked_once_for_all_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    data = dc.Dataset(dc.datasets.census(200, seed=1).frame.select("age", "sex", "income"))
    made = dc.SequentialTrees(copies=3)(data, seed=1)
    calls, fit = [], dc.SequentialTrees.fit
    monkeypatch.setattr(dc.SequentialTrees, "fit", lambda *given: calls.append(given) or fit(*given))
    dc.GeneratorMembership(shadows=8, columns=["age", "sex", "income"])(data, made, seed=1)
    assert len(calls) == 8
