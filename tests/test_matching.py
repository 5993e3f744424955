"""Which rows of data from outside belong together: told by an id, an index, the values; never taken for granted."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.measure import _column_score, _equality_score, match_rows

N = 800
LINKAGE = dc.DistanceLinkage(columns=["age", "income"])


def people(rows: int = N, seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "number": rng.permutation(rows) + 1000,
            "age": rng.integers(18, 90, rows),
            "sex": rng.choice(["m", "f"], rows),
            "income": rng.lognormal(8, 1, rows),
        }
    )


def released(frame: pl.DataFrame, sd_share: float = 0.05) -> pl.DataFrame:
    return dc.AdditiveNoise(columns=["income"], sd_share=sd_share)(frame, seed=3)


def shuffled(frame: pl.DataFrame, seed: int = 9) -> pl.DataFrame:
    return frame[np.random.default_rng(seed).permutation(len(frame))]


def test_a_shuffled_release_gives_the_figure_of_the_ordered_one_by_its_id() -> None:
    before, after = people(), released(people())
    want = LINKAGE(before, after).value
    assert want > 0.5
    # by a column whose values differ, by one with the role identifier, and as the user says
    found = LINKAGE(before, shuffled(after))
    assert found.value == pytest.approx(want) and found.detail["aligned_by"] == "column 'number'"
    roles = dc.Dataset(before, roles={"number": "identifier", "age": "quasi", "income": "quasi"})
    found = LINKAGE(roles, shuffled(after))
    assert found.value == pytest.approx(want) and found.detail["aligned_by"] == "column 'number'"
    found = LINKAGE(before, shuffled(after), id="number")
    assert found.value == pytest.approx(want) and found.detail["aligned_by"] == "column 'number'"
    # a part of the rows, too
    part = LINKAGE(roles, shuffled(after).head(500))
    assert (
        part.detail["aligned_by"] == "column 'number'" and part.per_record is not None and len(part.per_record) == 500
    )


def test_without_an_id_a_shuffled_release_is_refused() -> None:
    before, after = people().drop("number"), shuffled(released(people())).drop("number")
    with pytest.raises(dc.DataError, match=r"--id COLUMN.*--journal FOLDER.*--by-position"):
        LINKAGE(before, after)
    with pytest.raises(dc.DataError, match=r"800 rows and the release 700.*id="):
        LINKAGE(before, after.head(700))
    insisted = LINKAGE(before, after, align="position")
    assert insisted.detail["aligned_by"] == "position" and insisted.value < 0.02
    ordered = LINKAGE(before, released(people()).drop("number"))
    assert ordered.detail["aligned_by"] == "position" and ordered.value > 0.5


def test_the_index_of_pandas_frames_tells_the_rows() -> None:
    before = people().drop("number").to_pandas()
    after = released(people()).drop("number").to_pandas()
    want = LINKAGE(before, after)
    assert want.detail["aligned_by"] == "position"
    for index in (None, [f"p{number}" for number in range(N)]):
        one, other = before.copy(), after.copy()
        if index is not None:
            one.index, other.index = index, index
        found = LINKAGE(one, other.sample(frac=1, random_state=1))
        assert found.detail["aligned_by"] == "index" and found.value == pytest.approx(want.value)
    # numbers given anew after sorting are no index of the original
    with pytest.raises(dc.DataError, match="nothing tells"):
        LINKAGE(before, after.sample(frac=1, random_state=1).reset_index(drop=True))


def test_a_swapped_column_of_different_values_is_no_id() -> None:
    before = people(1500).rename({"number": "wealth"})
    after = dc.RankSwap(columns=["wealth"], percent=30)(before, seed=1)
    assert set(before["wealth"]) == set(after["wealth"]) and not before["wealth"].equals(after["wealth"])
    assert match_rows(dc.Dataset(before), dc.Dataset(after)).by == "position"


def test_columns_swapped_together_are_no_id_of_the_rest() -> None:
    before = people(1500).rename({"number": "wealth"})
    other = shuffled(before.select("wealth", "income", "sex"))
    after = before.with_columns(other)  # age stays, the rest moved to other people
    assert match_rows(dc.Dataset(before), dc.Dataset(after)).by == "position"


def test_numbers_given_anew_are_no_id() -> None:
    before = people().with_columns(id=pl.Series(np.arange(N)))
    after = released(before).with_columns(id=pl.Series(np.random.default_rng(0).permutation(N)))
    assert match_rows(dc.Dataset(before), dc.Dataset(after)).by == "position"
    roles = dc.Dataset(before, roles={"id": "identifier"})
    assert match_rows(roles, dc.Dataset(after)).by == "position"
    made = people(500, seed=7).with_columns(id=pl.Series(np.arange(500)))  # other people under the same numbers
    with pytest.raises(dc.DataError, match="nothing tells"):
        match_rows(dc.Dataset(before), dc.Dataset(made))


def test_rows_whose_id_is_not_in_the_original_are_left_out_up_to_one_percent() -> None:
    before = dc.Dataset(people(), roles={"number": "identifier"})
    for strangers, fits in ((8, True), (9, False)):
        ids = people()["number"].to_numpy().copy()
        ids[:strangers] += 10**6
        after = shuffled(released(people()).with_columns(number=pl.Series(ids)))
        if fits:
            found = match_rows(before, dc.Dataset(after))
            assert (found.rows < 0).sum() == strangers and len(found.give(before, dc.Dataset(after))) == N - strangers
        else:
            with pytest.raises(dc.DataError, match="nothing tells"):
                match_rows(before, dc.Dataset(after))


@pytest.mark.parametrize(
    "change",
    [
        dc.AdditiveNoise(columns=["income", "age"], sd_share=1.0),
        dc.RankSwap(columns=["income", "age"], percent=30),
        dc.Mdav(columns=["income", "age"], k=25),
        dc.Recode(column="age", width=20),
        dc.Pram(columns=["sex"], keep_share=0.7),
    ],
    ids=lambda method: method.kind,
)
def test_a_protected_column_alone_tells_that_the_order_is_the_same(change: dc.Method) -> None:
    before = people(2000)
    name = getattr(change, "column", None) or change.columns[0]  # type: ignore[attr-defined]
    after = change(before, seed=5).select(name)
    assert match_rows(dc.Dataset(before), dc.Dataset(after)).by == "position"
    with pytest.raises(dc.DataError, match="nothing tells"):
        match_rows(dc.Dataset(before), dc.Dataset(shuffled(after)))


def test_other_people_are_refused_in_nearly_every_draw() -> None:
    for rows in (20, 50, 100, 400):
        accepted = 0
        for seed in range(60):
            one, other = (people(rows, seed=2 * seed + which).drop("number") for which in (0, 1))
            try:
                match_rows(dc.Dataset(one), dc.Dataset(other))
                accepted += 1
            except dc.DataError:
                pass
        assert accepted <= (3 if rows < 100 else 0), rows


def test_few_rows_and_constant_columns_stand_as_they_are() -> None:
    small = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0]})
    assert (
        match_rows(dc.Dataset(small), dc.Dataset(small.with_columns(x=pl.Series([1.5, 1.5, 3.5, 3.5])))).by
        == "position"
    )
    with pytest.raises(dc.DataError, match="nothing tells"):
        match_rows(dc.Dataset(small), dc.Dataset(small.reverse()))
    constant = people().with_columns(pl.lit(1.0).alias("income")).select("income")
    assert match_rows(dc.Dataset(people()), dc.Dataset(constant)).by == "position"  # every order gives the same figures
    rare = pl.DataFrame({"ill": ["no"] * 199 + ["yes"]})
    assert match_rows(dc.Dataset(rare), dc.Dataset(rare.clone())).by == "position"


def test_scores_are_standard_under_random_matching() -> None:
    rng = np.random.default_rng(2)
    one, other = pl.Series(rng.choice(list("aaabbcd"), 60)), pl.Series(rng.choice(list("aabbbce"), 60))
    draws = [_equality_score(one.to_numpy()[rng.permutation(60)], other.to_numpy())[0] for _ in range(4000)]
    assert np.mean(draws) == pytest.approx(0, abs=0.06) and np.std(draws) == pytest.approx(1, abs=0.05)
    numbers = pl.Series(rng.normal(size=300))
    for column, beside in (
        (numbers, pl.Series(rng.normal(size=300))),
        (numbers, pl.Series(rng.choice(list("abc"), 300))),
    ):
        draws = [_column_score(column.gather(rng.permutation(300)), beside) or 0.0 for _ in range(600)]
        assert np.mean(draws) < 0.8 and np.std(draws) < 1.1 and max(draws) < 5  # the larger of two scores


def test_a_shuffled_microaggregated_file_with_ids_is_linked_as_the_ordered_one() -> None:
    frame = people(1000).rename({"number": "id"})
    after = dc.Mdav(columns=["age", "income"], k=3)(frame)
    for columns in (["age", "income"], ["income"]):
        measure = dc.DistanceLinkage(columns=columns)
        want, got = measure(frame, after), measure(frame, shuffled(after))
        assert want.value > 0.03 and got.value == pytest.approx(want.value)
        assert (want.detail["aligned_by"], got.detail["aligned_by"]) == ("position", "column 'id'")
