"""Minimal sample uniques against their definition, scores and DIS by hand."""

from __future__ import annotations

from itertools import combinations
from math import factorial

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from discretion.errors import Cancelled
from discretion.risk.identity.suda import match_probabilities, set_scores

Row = tuple[object, ...]


def matches(one: Row, other: Row, columns: tuple[int, ...], wildcard: bool) -> bool:
    return all(
        one[j] == other[j] or (wildcard and (one[j] is None or other[j] is None)) for j in columns
    )  # fmt: skip


def naive(rows: list[Row], max_size: int, missing: str = "category") -> list[list[tuple[int, ...]]]:
    """Every set of columns on which a record is alone and on no subset: all subsets, all pairs of records."""
    result: list[list[tuple[int, ...]]] = []
    for i, row in enumerate(rows):
        found: list[tuple[int, ...]] = []
        for size in range(1, max_size + 1):
            for chosen in combinations(range(len(row)), size):
                if missing == "skip" and any(row[j] is None for j in chosen):
                    continue
                others = (r for k, r in enumerate(rows) if k != i)
                alone = not any(matches(row, other, chosen, missing == "wildcard") for other in others)
                if alone and not any(set(small) <= set(chosen) for small in found):
                    found.append(chosen)
        result.append(found)
    return result


def as_frame(rows: list[Row]) -> pl.DataFrame:
    names = [f"c{j}" for j in range(len(rows[0]))]
    return pl.DataFrame({name: pl.Series([row[j] for row in rows], dtype=pl.Int64) for j, name in enumerate(names)})


def random_rows(rng: np.random.Generator, n: int, columns: int, values: int, missing: float = 0.0) -> list[Row]:
    table = rng.integers(0, values, (n, columns))
    table[rng.integers(0, n, n // 3)] = table[rng.integers(0, n, n // 3)]  # exact duplicates
    lost = rng.random((n, columns)) < missing
    return [
        tuple(None if gone else int(v) for v, gone in zip(row, holes, strict=True))
        for row, holes in zip(table, lost, strict=True)
    ]


@pytest.mark.parametrize("missing", ["category", "wildcard", "ignore", "skip"])
@pytest.mark.parametrize("max_size", [None, 1, 2, 3])
def test_against_the_definition(missing: str, max_size: int | None) -> None:
    rng = np.random.default_rng(5)
    for _ in range(12):
        columns = int(rng.integers(1, 6))
        rows = random_rows(rng, int(rng.integers(2, 40)), columns, int(rng.integers(2, 7)), 0.1)
        kept = [i for i, row in enumerate(rows) if missing != "ignore" or None not in row]
        if not kept:
            continue
        size = min(max_size or columns, columns)
        want = naive([rows[i] for i in kept], size, missing)
        measure = dc.Suda(columns=[f"c{j}" for j in range(columns)], max_size=max_size, missing=missing)
        found = measure.records(dc.Dataset(as_frame(rows)))
        scores = [sum(factorial(columns - len(s)) for s in sets) for sets in want]
        assert found.scores[kept].tolist() == scores
        assert np.isnan(np.delete(found.scores, kept)).all()
        by_size = {s: sum(len(one) == s for sets in want for one in sets) for s in range(1, size + 1)}
        assert found.by_size == {s: count for s, count in by_size.items() if count}
        place = {int(row): i for i, row in enumerate(found.rows)}
        assert set(place) == {kept[i] for i, sets in enumerate(want) if sets}
        for i, sets in enumerate(want):
            for j in range(columns if sets else 0):
                part = sum(factorial(columns - len(s)) for s in sets if j in s) / scores[i]
                assert found.contributions[place[kept[i]], j] == pytest.approx(part, abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(*[st.integers(0, 3)] * 4), min_size=1, max_size=25), st.permutations(range(4)))
def test_order_of_rows_and_columns_does_not_matter(rows: list[Row], order: list[int]) -> None:
    names = [f"c{j}" for j in range(4)]
    one = dc.Suda(columns=names).records(dc.Dataset(as_frame(rows)))
    two = dc.Suda(columns=[names[j] for j in order]).records(dc.Dataset(as_frame(rows[::-1])))
    assert np.array_equal(one.scores, two.scores[::-1])
    assert np.allclose(one.dis, two.dis[::-1])
    assert one.by_size == two.by_size


def test_dis_formula_by_hand() -> None:
    scores, pairs, share, columns = np.array([6.0, 2.0, 1.0, 0.0]), 4, 0.05, 5
    power = 1 + (8 - columns) / 20
    inverse = sum(s**-power for s in (6.0, 2.0, 1.0))
    want = [1 / (1 + pairs * (1 - share) / share / (s**power * inverse)) for s in (6.0, 2.0, 1.0)]
    assert match_probabilities(scores, pairs, share, columns) == pytest.approx([*want, 0.0], rel=1e-12)


def test_equal_scores_give_the_file_level_probability() -> None:
    """With equal scores DIS is π·S1/(π·S1 + 2(1−π)·S2): what `SampleUniqueness` estimates."""
    table = pl.DataFrame({"a": [1, 2, 3, 4, 4, 5, 5, 6, 6, 6]})
    dis = dc.Suda(columns=["a"], share=0.2)(table).per_record
    level = dc.SampleUniqueness(columns=["a"], share=0.2)(table).value
    assert dis is not None
    assert dis.tolist() == pytest.approx([level] * 3 + [0.0] * 7)


@pytest.mark.parametrize("columns", [3, 5, 8])
def test_set_scores(columns: int) -> None:
    for size in range(1, columns + 1):
        assert set_scores("product", columns)[size] == np.prod([columns - i for i in range(size, columns)])
        want = (2 ** (columns - size) - 1) * factorial(size) * factorial(columns - size) / factorial(columns)
        assert set_scores("supersets", columns)[size] == pytest.approx(want)


def test_many_columns_do_not_overflow() -> None:
    rng = np.random.default_rng(1)
    table = pl.DataFrame({f"c{j}": rng.integers(0, 3, 40) for j in range(60)})
    score = dc.Suda(columns=table.columns, max_size=2, share=0.1)(table)
    assert np.isfinite(score.value) and score.detail["highest_dis"] <= 1


def test_planted_special_person() -> None:
    """A widow of 16 among many people: rare in two columns, so riskier than somebody rare in four."""
    rng = np.random.default_rng(2)
    crowd = pl.DataFrame({f"c{j}": rng.integers(0, 2, 4000) for j in range(6)})
    table = pl.concat([crowd, pl.DataFrame({f"c{j}": [9 if j < 2 else 0] for j in range(6)})])
    found = dc.Suda(columns=table.columns, share=0.1).records(dc.Dataset(table))
    assert found.rows.tolist() == [4000]
    assert found.by_size == {1: 2}
    assert found.scores[4000] == 2 * factorial(5)
    assert found.contributions.tolist() == [[0.5, 0.5, 0, 0, 0, 0]]


def test_value_is_the_share_above_the_threshold() -> None:
    rng = np.random.default_rng(3)
    table = pl.DataFrame({f"c{j}": rng.integers(0, 6, 300) for j in range(4)})
    names = table.columns
    dis = dc.Suda(columns=names, share=0.3).records(dc.Dataset(table)).dis
    for threshold in (0.0, 0.2, 0.5):
        score = dc.Suda(columns=names, share=0.3, threshold=threshold)(table)
        assert score.value == np.mean(dis > threshold)
        assert score.detail["mean_dis"] == pytest.approx(dis.mean())
    sizes = dc.Dataset(table).class_sizes(names)
    assert dc.Suda(columns=names, threshold=0)(table).value == np.mean(sizes == 1)


def test_value_contributions_add_up_and_stay_out_of_the_sentence() -> None:
    table = pl.DataFrame({"town": ["Xanadu", "Ys", "Ys", "Ys", None], "sex": ["f", "f", "m", "m", "m"]})
    score = dc.Suda(columns=["town", "sex"])(table)
    values = score.detail["value_contributions"]
    for name in ("town", "sex"):
        assert sum(v["share"] for v in values[name]) == pytest.approx(1.0)
    assert {v["value"] for v in values["town"]} == {"Xanadu", "Ys", None}
    assert "Xanadu" not in score.meaning and "Ys" not in score.meaning


def test_nobody_is_unique() -> None:
    table = pl.DataFrame({"a": [1, 1, 2, 2], "b": [3, 3, 3, 3]})
    score = dc.Suda(columns=["a", "b"])(table)
    assert score.value == 0 and score.detail["special_records"] == 0
    assert score.detail["contributions"] == {"a": 0.0, "b": 0.0}
    assert score.detail["records_in_pairs"] == 4


def test_a_set_of_all_columns_has_no_supersets() -> None:
    table = pl.DataFrame({"a": [1, 1, 2, 2], "b": [1, 2, 1, 2]})
    score = dc.Suda(columns=["a", "b"], scoring="supersets")(table)
    assert score.detail["minimal_uniques"] == {2: 4}
    assert score.value == 0 and score.detail["special_records"] == 4


def test_too_many_subsets_are_refused_with_a_way_out() -> None:
    table = pl.DataFrame({f"c{j}": [0, 1] for j in range(24)})
    with pytest.raises(dc.PlanError, match=r"16,777,215 subsets.*max_size. to at most 5 \(55,454"):
        dc.Suda(columns=table.columns)(table)
    assert dc.Suda(columns=table.columns, max_size=4)(table).value == 1
    wide = pl.DataFrame({f"c{j}": [0, 1] for j in range(63)})
    with pytest.raises(dc.PlanError, match="at most 62"):
        dc.Suda(columns=wide.columns, max_size=1)(wide)


@pytest.mark.parametrize("duplicates", [0, 150])
def test_little_memory_gives_the_same_in_parts(monkeypatch: pytest.MonkeyPatch, duplicates: int) -> None:
    rng = np.random.default_rng(6)
    table = pl.DataFrame({f"c{j}": rng.integers(0, 5, 700) for j in range(6)})
    table = pl.concat([table, table[:duplicates]])
    data, measure = dc.Dataset(table), dc.Suda(columns=table.columns)
    whole = measure.records(data)
    monkeypatch.setattr("discretion.kernels.subsets.MOST_BYTES", 8)
    seen: list[tuple[int, int]] = []
    score = measure(table, progress=lambda done, total, label: seen.append((done, total)))
    parts = measure.records(data)
    assert len(seen) > 63 and seen == sorted(seen) and seen[-1] == (63, 63)
    assert np.array_equal(parts.scores, whole.scores) and parts.by_size == whole.by_size
    assert np.array_equal(parts.rows, whole.rows) and np.allclose(parts.contributions, whole.contributions)
    assert score.detail["minimal_uniques"] == whole.by_size


@pytest.mark.parametrize("values", [3, 40, 300])
def test_many_rows_against_group_sizes(values: int) -> None:
    """Groups of every size, codes that share bits: a record is alone on a set where its class has one member."""
    rng = np.random.default_rng(values)
    sizes = (values, 2, max(2, values // 3), 7)
    table = pl.DataFrame({f"c{j}": np.minimum(rng.geometric(2 / (v + 1), 3000), v) for j, v in enumerate(sizes)})
    names, data = table.columns, dc.Dataset(table)
    found = dc.Suda(columns=names).records(data)
    alone: dict[tuple[str, ...], np.ndarray] = {(): np.zeros(3000, bool)}
    scores, by_size = np.zeros(3000), dict.fromkeys(range(1, 5), 0)
    for size in range(1, 5):
        for chosen in combinations(names, size):
            count = table.select(pl.len().over(chosen)).to_series().to_numpy()
            alone[chosen] = count == 1
            smaller = np.logical_or.reduce([alone[part] for part in combinations(chosen, size - 1)])
            scores += factorial(4 - size) * (alone[chosen] & ~smaller)
            by_size[size] += int((alone[chosen] & ~smaller).sum())
    assert np.array_equal(found.scores, scores)
    assert found.by_size == {size: count for size, count in by_size.items() if count}


def test_all_records_incomplete() -> None:
    table = pl.DataFrame({"a": [None, 1], "b": [1, None]})
    with pytest.raises(dc.DataError, match="every record has a missing value in a, b"):
        dc.Suda(columns=["a", "b"], missing="ignore")(table)


def test_progress_and_cancel() -> None:
    rng = np.random.default_rng(4)
    table = pl.DataFrame({f"c{j}": rng.integers(0, 4, 200) for j in range(5)})
    seen: list[tuple[int, int]] = []
    dc.Suda(columns=table.columns)(table, progress=lambda done, total, label: seen.append((done, total)))
    assert seen[-1] == (31, 31) and [done for done, _ in seen] == sorted(done for done, _ in seen)

    def stop(done: int, total: int, label: str) -> None:
        if done >= 3:
            raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        dc.Suda(columns=table.columns)(table, progress=stop)


def test_perturbed_columns_are_named() -> None:
    people = dc.datasets.census(300, seed=1)
    swapped = dc.RankSwap(columns=["age"], percent=20)(people, seed=1)
    for measure in (dc.Suda(columns=["age", "sex"]), dc.QuasiIdentifiers(columns=["age", "sex"])):
        score = measure(people, swapped)
        assert score.detail["perturbed"] == ["age"] and "Warning" in score.meaning
        assert "perturbed" not in measure(people).detail


@pytest.mark.parametrize("missing", ["category", "wildcard", "ignore"])
def test_the_scores_of_the_records_are_in_the_result(missing: str) -> None:
    table = pl.DataFrame(
        {"a": [16, 40, 40, 41, 41, None], "b": ["w", "s", "w", "s", "s", "w"], "c": [1, 1, 1, 2, 2, 2]}
    )
    measure = dc.Suda(columns=["a", "b", "c"], share=0.1, missing=missing)
    score = measure(table)
    assert list(score.more_per_record) == ["scores"]
    np.testing.assert_array_equal(score.more_per_record["scores"], measure.records(dc.Dataset(table)).scores)
    assert np.array_equal(np.isnan(score.more_per_record["scores"]), np.isnan(score.per_record))
    assert "scores" not in score.to_dict()["detail"], "figures of single records stay out of what is written"


def test_a_score_by_hand() -> None:
    """Of three columns a set of one scores 2·1, of two 1: age 16 alone, and nothing smaller for the others."""
    table = pl.DataFrame({"age": [16, 40, 40, 41], "b": ["x", "x", "y", "y"], "c": [1, 1, 1, 1]})
    scores = dc.Suda(columns=["age", "b", "c"])(table).more_per_record["scores"]
    assert scores.tolist() == [2.0, 1.0, 1.0, 2.0]
