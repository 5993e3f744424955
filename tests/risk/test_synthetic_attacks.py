from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.context import Context
from discretion.risk.synthetic.attacks import _descriptions
from discretion.risk.synthetic.records import encode_together

from .synthetic_people import EVERY, people


def attacks(holdout: Any, **more: Any) -> list[dc.Measure]:
    return [
        dc.SinglingOut(columns=EVERY, holdout=holdout, **more),
        dc.Linkability(first=["body size", "region"], second=["age", "income"], holdout=holdout, **more),
        dc.InferenceRisk(columns=["body size", "age"], targets=["income"], holdout=holdout, **more),
        dc.InferenceRisk(columns=["body size", "age"], targets=["ill"], holdout=holdout, **more),
    ]


NAMES = ["singling-out", "linkability", "inference-number", "inference-category"]


@pytest.mark.parametrize("number", range(4), ids=NAMES)
def test_a_copy_gives_everybody_away(number: int) -> None:
    original, others = people(700, 1), people(700, 2)
    score = attacks(others)[number](original, original.sample(fraction=1, shuffle=True, seed=4))
    assert score.value > 0.95
    assert score.detail["risk_interval"][0] > 0.9
    assert score.detail["attack_rate"] > score.detail["control_rate"]


@pytest.mark.parametrize("number", range(4), ids=NAMES)
def test_a_release_drawn_from_the_population_gives_nobody_away(number: int) -> None:
    original, others, released = people(700, 1), people(700, 2), people(700, 3)
    score = attacks(others)[number](original, released)
    low, high = score.detail["risk_interval"]
    assert low <= 0 <= high
    assert score.value < 0.15


@pytest.mark.parametrize("number", range(1, 4), ids=NAMES[1:])
def test_half_a_copy_gives_half_away(number: int) -> None:
    original, others = people(800, 1), people(800, 2)
    released = pl.concat([original[:400], people(400, 3)])
    low, high = attacks(others)[number](original, released).detail["risk_interval"]
    assert low < 0.5 < high


def test_half_a_copy_singles_out_fewer_than_a_copy() -> None:
    original, others = people(500, 1), people(500, 2)
    released = pl.concat([original[:250], people(250, 3)])
    half = attacks(others)[0](original, released)
    # descriptions of the copied half are wide, and may fit somebody of the other half of the data too
    assert half.detail["risk_interval"][0] > 0.15
    assert half.value < 0.6


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4), ids=NAMES)
def test_intervals_of_honest_releases_cover_zero(number: int) -> None:
    runs, covered = 30, 0
    for seed in range(runs):
        original, others, released = (people(200, 3 * seed + i) for i in range(3))
        low, high = attacks(others)[number](original, released).detail["risk_interval"]
        covered += low <= 0 <= high
    assert covered >= 25


@pytest.mark.parametrize("number", range(4), ids=NAMES)
def test_names_with_spaces_do_not_matter(number: int) -> None:
    original, others, released = people(300, 1), people(300, 2), people(300, 1).with_columns(pl.col("income") + 0.01)
    plain = {"body size": "size"}
    measure = attacks(others)[number]
    fields = {
        name: tuple(plain.get(c, c) for c in getattr(measure, name))
        for name in ("columns", "first", "second", "targets")
        if name in type(measure).model_fields
    }
    other = type(measure)(**fields, holdout=others.rename(plain))
    assert measure(original, released).value == other(original.rename(plain), released.rename(plain)).value


@pytest.mark.parametrize("number", range(4), ids=NAMES)
def test_missing_values_files_and_row_order(number: int, tmp_path: Path) -> None:
    original, others, released = people(300, 1, True), people(200, 2, True), people(250, 3, True)
    others.write_csv(tmp_path / "others.csv")
    in_memory = attacks(others)[number](original, released)
    from_file = attacks(str(tmp_path / "others.csv"))[number](original, released)
    shuffled = attacks(others.reverse())[number](original.reverse(), released.reverse())
    assert in_memory.value == from_file.value == shuffled.value
    assert in_memory.detail["attack_rate"] == shuffled.detail["attack_rate"]


@pytest.mark.parametrize("number", range(4), ids=NAMES)
def test_without_a_control_group_it_cannot_run(number: int) -> None:
    with pytest.raises(dc.PlanError, match="give `holdout`"):
        attacks(None)[number](people(50, 1), people(50, 2))


@pytest.mark.parametrize("number", range(4), ids=NAMES)
def test_fewer_attacks_say_less(number: int) -> None:
    original, others, released = people(400, 1), people(400, 2), people(400, 3)
    score = attacks(others, attacks=50)[number](original, released)
    assert score.detail["attacks"] <= 50
    wide = score.detail["risk_interval"]
    narrow = attacks(others)[number](original, released).detail["risk_interval"]
    assert wide[1] - wide[0] > narrow[1] - narrow[0]


def test_a_recoded_column_is_refused_not_safe() -> None:
    original = people(60, 1)
    released = original.with_columns(pl.lit("all").alias("region"))
    with pytest.raises(dc.DataError, match=r"'region'.*generalized"):
        dc.SinglingOut(columns=EVERY, holdout=people(60, 2))(original, released)


def gower(query: dict[str, Any], record: dict[str, Any], ranges: dict[str, float]) -> float:
    return sum(abs(query[n] - record[n]) / ranges[n] if n in ranges else float(query[n] != record[n]) for n in query)


def ranges_of(frames: list[pl.DataFrame], names: list[str]) -> dict[str, float]:
    both = pl.concat(frames)
    return {n: float(both[n].max() - both[n].min()) for n in names if both[n].dtype.is_numeric()}  # type: ignore[operator]


def test_linkability_against_a_full_comparison() -> None:
    original, others, released = people(60, 1), people(50, 2), people(70, 3)
    released = pl.concat([released, original[:20]])
    sides = [["body size", "ill"], ["income", "region"]]
    ranges = ranges_of([original, released, others], EVERY)
    score = dc.Linkability(first=sides[0], second=sides[1], neighbors=3, holdout=others)(original, released)
    rates = []
    for group in (original, others):
        hits = 0
        for person in group.iter_rows(named=True):
            found = []
            for side in sides:
                known = {name: person[name] for name in side}
                distance = [gower(known, r, ranges) for r in released.iter_rows(named=True)]
                found.append(set(np.argsort(distance, kind="stable")[:3].tolist()))
            hits += bool(found[0] & found[1])
        rates.append(hits / len(group))
    assert [score.detail["attack_rate"], score.detail["control_rate"]] == pytest.approx(rates)
    assert score.detail["baseline"] == pytest.approx(1 - (87 * 86 * 85) / (90 * 89 * 88))


@pytest.mark.parametrize("target", ["ill", "income"])
def test_inference_against_a_full_comparison(target: str) -> None:
    original, others, released = people(80, 1), people(50, 2), people(70, 3)
    released = pl.concat([released, original[:20]])
    known = ["body size", "region"]
    ranges = ranges_of([original, released, others], known)
    score = dc.InferenceRisk(columns=known, targets=[target], percent=30, holdout=others)(original, released)
    tolerance = 0.3 * float(original[target].std()) if target == "income" else 0.0  # type: ignore[arg-type]
    rates = []
    for group in (original, others):
        hits = 0
        for person in group.iter_rows(named=True):
            distance = [gower({n: person[n] for n in known}, r, ranges) for r in released.iter_rows(named=True)]
            guess = released[target][int(np.argmin(distance))]
            hits += guess == person[target] if target == "ill" else abs(guess - person[target]) <= tolerance
        rates.append(hits / len(group))
    assert [score.detail["attack_rate"], score.detail["control_rate"]] == pytest.approx(rates)


def test_equal_released_records_guess_by_majority_and_median() -> None:
    original = pl.DataFrame(
        {"k": ["a"] * 4 + ["b"] * 4, "s": ["x", "x", "y", "x"] + ["z"] * 4, "v": [1.0, 2, 3, 9] * 2}
    )
    others = pl.DataFrame({"k": ["a", "b"], "s": ["y", "y"], "v": [50.0, 60.0]})
    score = dc.InferenceRisk(columns=["k"], targets=["s"], holdout=others)(original, original)
    assert score.detail["attack_rate"] == 7 / 8
    assert score.detail["baseline"] == 4 / 8
    number = dc.InferenceRisk(columns=["k"], targets=["v"], percent=20, holdout=others)(original, original)
    assert number.detail["attack_rate"] == 4 / 8  # the median 2.5 is within 0.2·sd = 0.65 of 2 and 3


def test_worst_target_is_the_value() -> None:
    original, others = people(400, 1), people(400, 2)
    released = people(400, 3).with_columns(original["body size"], original["age"], original["ill"])
    data = dc.Dataset(original, roles={"body size": "quasi", "age": "quasi", "ill": "sensitive", "income": "sensitive"})
    score = dc.InferenceRisk(holdout=others)(data, released)
    assert score.detail["target"] == "ill"
    assert score.detail["per_target"]["ill"]["risk"] == score.value > 0.9
    assert score.detail["per_target"]["income"]["risk"] < 0.2


def test_descriptions_fit_one_released_record_and_hits_are_counted() -> None:
    original, others, released = people(90, 1, True), people(90, 2, True), people(90, 3, True)
    tables = [dc.Dataset(frame) for frame in (original, released, others)]
    records = encode_together(tables, EVERY, "test")
    ctx = Context(0, "singling-out")
    found = list(_descriptions(records, 3, 2000, ctx))
    assert 40 < len(found) <= 90
    hits = Counter[str]()
    for one in found:
        counts = []
        for table in records.tables:
            rows = [
                all(
                    np.isnan(row[j]) if np.isnan(low) else low <= row[j] <= high
                    for j, low, high in zip(one.columns, one.low, one.high, strict=True)
                )
                for row in table
            ]
            counts.append(sum(rows))
        assert counts[1] == 1
        hits["people"] += counts[0] == 1
        hits["others"] += counts[2] == 1
    score = dc.SinglingOut(columns=EVERY, holdout=others)(original, released)
    assert score.detail["attack_rate"] == hits["people"] / len(found)
    assert score.detail["control_rate"] == hits["others"] / len(found)


def test_groups_of_different_size_are_made_equal() -> None:
    original, released = people(900, 1), people(900, 3)
    small = dc.SinglingOut(columns=EVERY, holdout=people(150, 2))(original, released)
    assert small.detail["group_size"] == 150
    low, high = small.detail["risk_interval"]
    assert low <= 0 <= high
    assert small.per_record is not None
    assert small.per_record.shape == (900,)


def test_nobody_alone_in_the_release_is_an_error() -> None:
    same = pl.DataFrame({"a": ["x"] * 10})
    with pytest.raises(dc.DataError, match="larger `size`"):
        dc.SinglingOut(columns=["a"], holdout=same)(same, same)


def test_bad_parameters() -> None:
    data, others = people(30, 1), people(30, 2)
    with pytest.raises(dc.PlanError, match="both `first` and `second`"):
        dc.Linkability(first=["age"], holdout=others)(data, data)
    with pytest.raises(dc.PlanError, match="'age' stands in"):
        dc.Linkability(first=["age"], second=["age", "ill"], holdout=others)(data, data)
    with pytest.raises(dc.DataError, match="fewer than `neighbors`"):
        dc.Linkability(first=["age"], second=["ill"], neighbors=99, holdout=others)(data, data)
    with pytest.raises(dc.PlanError, match="give `targets`"):
        dc.InferenceRisk(columns=["age"], holdout=others)(data, data)
    with pytest.raises(dc.PlanError, match="knows nothing"):
        dc.InferenceRisk(columns=["ill"], targets=["ill"], holdout=others)(data, data)
    with pytest.raises(dc.DataError, match="unknown column 'wage'"):
        dc.SinglingOut(columns=["wage"], holdout=others)(data, data)
    with pytest.raises(dc.DataError, match="unknown column 'income'"):
        dc.SinglingOut(columns=["income"], holdout=others.drop("income"))(data, data)
    with pytest.raises(dc.DataError, match="no rows"):
        dc.SinglingOut(columns=["income"], holdout=others[:0])(data, data)
    with pytest.raises(dc.DataError, match="no value of 'income'"):
        empty = others.with_columns(pl.lit(None, pl.Float64).alias("income"))
        dc.InferenceRisk(columns=["age"], targets=["income"], holdout=empty)(data, data)


def test_default_columns_of_linkability_are_the_halves_of_the_quasi_identifiers() -> None:
    roles = dict.fromkeys(("body size", "age", "region"), "quasi")
    data = dc.Dataset(people(100, 1), roles=roles)
    score = dc.Linkability(holdout=people(100, 2))(data, people(100, 3))
    assert (score.detail["first"], score.detail["second"]) == (["body size"], ["age", "region"])
