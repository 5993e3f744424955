"""The order of published rows: secret, the same for the same release, kept in the journal, kept out of measures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import spearmanr

import discretion as dc
from discretion.errors import PlanError
from discretion.release.journal import in_journal_order, read_order
from discretion.release.order import permuted
from discretion.release.report.summary import summary_of

SEED = 2**127 + 12345
ROLES = {"region": "quasi", "age": "quasi", "income": "sensitive"}


def people(rows: int = 600, seed: int = 3) -> pl.DataFrame:
    """A file sorted by region and age."""
    rng = np.random.default_rng(seed)
    drawn = {"region": rng.integers(1, 9, rows), "age": rng.integers(18, 90, rows), "income": rng.lognormal(8, 1, rows)}
    return pl.DataFrame(drawn).sort("region", "age")


def study(frame: pl.DataFrame | None = None, **roles: str) -> dc.Study:
    data = dc.Dataset(people() if frame is None else frame, roles={**ROLES, **roles})
    return dc.Study(data, SEED).apply(dc.AdditiveNoise(columns=["income"], sd_share=0.1))


def test_published_rows_are_permuted_and_study_and_methods_keep_them() -> None:
    done = study()
    release = done.release()
    assert sorted(release.data.row_ids) == list(range(600)) and not np.array_equal(release.data.row_ids, np.arange(600))
    assert abs(spearmanr(release.data.row_ids, np.arange(600)).statistic) < 4 / np.sqrt(600)
    assert np.array_equal(done.current.row_ids, np.arange(600))
    assert done.current.frame["age"].equals(people()["age"])
    assert release.data.frame.equals(done.current.frame[release.data.row_ids])
    swapped = dc.RankSwap(columns=["income"], percent=5)(people(), seed=1)
    assert swapped["age"].equals(people()["age"])


def test_the_same_seed_and_data_give_the_same_order_and_anything_else_an_independent_one() -> None:
    rows = study().release().data.row_ids
    assert np.array_equal(rows, study().release().data.row_ids)
    same_size = study(people(seed=4)).release().data.row_ids
    stronger = dc.Study(study().original, SEED).apply(dc.AdditiveNoise(columns=["income"], sd_share=0.2)).release()
    one_cell = people().with_columns(income=pl.col("income") + pl.int_range(600).eq(17).cast(float))
    plain = permuted(dc.Dataset(people()), SEED).row_ids
    pairs = [(rows, same_size), (rows, stronger.data.row_ids), (plain, permuted(dc.Dataset(one_cell), SEED).row_ids)]
    for one, other in [*pairs, (plain, permuted(dc.Dataset(people()), SEED + 1).row_ids)]:
        assert abs(spearmanr(np.argsort(one), np.argsort(other)).statistic) < 4 / np.sqrt(600)
        assert (one == other).sum() < 10  # one on average


def test_the_journal_knows_the_order_and_gives_the_same_figures(tmp_path: Path) -> None:
    release = study().release(tmp_path / "out", no_requirements=True)
    private = tmp_path / "out-private"
    assert json.loads((private / "journal.json").read_text())["order"] == "order.npy"
    assert (private / "order.npy").stat().st_mode & 0o777 == 0o600
    rows = read_order(private)
    assert rows.dtype == np.int64 and np.array_equal(rows, release.data.row_ids)
    data = dc.read(tmp_path / "out" / "data.csv", roles=ROLES)
    assert data.frame["age"].to_list() == people()["age"][rows].to_list()
    original = release.study.original
    back = in_journal_order(original, data, private, tmp_path / "out" / "data.csv")
    measure = dc.IntervalRisk(columns=["income"])
    assert measure(original, back).value == pytest.approx(measure(original, release.study.current).value)
    with pytest.raises(dc.DataError, match="does not belong"):
        in_journal_order(original, data.take(np.arange(5)), private, "data.csv")
    with pytest.raises(dc.DataError, match="does not belong"):
        in_journal_order(original.take(np.arange(5)), data, private, "data.csv")
    other = tmp_path / "sorted.csv"
    data.frame.sort("age").write_csv(other)
    with pytest.raises(dc.DataError, match="does not belong"):
        in_journal_order(original, data, private, other)
    with pytest.raises(PlanError, match="no order"):
        read_order(tmp_path)
    (tmp_path / "bad.npy").write_bytes(b"not numpy")
    with pytest.raises(PlanError, match="not a file of NumPy"):
        read_order(tmp_path / "bad.npy")
    np.save(tmp_path / "float.npy", np.ones(3))
    with pytest.raises(PlanError, match="expected one row number"):
        read_order(tmp_path / "float.npy")


def test_rows_of_a_sample_are_named_by_their_place_in_the_original(tmp_path: Path) -> None:
    release = (
        dc.Study(study().original.take(np.arange(100, 500)), SEED)
        .apply(dc.Sample(share=0.5))
        .release(tmp_path / "out", no_requirements=True)
    )
    rows = read_order(tmp_path / "out-private")
    assert len(rows) == len(release.data) == 200 and rows.max() < 400
    assert release.data.frame["age"].to_list() == people()["age"][rows + 100].to_list()


def test_figures_per_record_follow_the_published_rows() -> None:
    done = study()
    measure = dc.IntervalRisk(columns=["income"])
    release = done.release(measures=[measure])
    assert np.array_equal(
        release.measured[0].after.per_record, measure(release.study.original, release.data).per_record
    )
    plain = done.scores(measure)[0]
    assert plain.per_record is not None and release.measured[0].after.value == plain.value
    assert np.array_equal(release.measured[0].after.per_record, plain.per_record[release.data.row_ids])


def test_study_release_keeps_the_order_only_when_told() -> None:
    kept = study().release(order="keep")
    assert np.array_equal(kept.data.row_ids, np.arange(600)) and kept.plan.order == "keep"
    with pytest.raises(PlanError, match="order"):
        study().release(order="random")  # type: ignore[arg-type]


def test_the_index_of_a_pandas_frame_does_not_give_the_order_back() -> None:
    frame = people().to_pandas()
    frame.index = pd.Index([f"p{number}" for number in range(600)])
    done = dc.Study(dc.Dataset(frame, roles=ROLES), SEED).apply(dc.AdditiveNoise(columns=["income"], sd_share=0.1))
    assert done.release().to_native().index.equals(pd.RangeIndex(600))
    assert done.release(order="keep").to_native().index.equals(frame.index)


@pytest.mark.parametrize("kind", [pl.Int32, pl.String, pl.Int8, pl.Float64])
def test_households_stay_together_under_new_numbers(kind: type[pl.DataType]) -> None:
    rng = np.random.default_rng(1)
    home = pl.Series("home", np.repeat(np.arange(-50, 70), 5)).cast(kind)
    frame = people().with_columns(home, member=pl.Series(rng.normal(size=600)))
    done = dc.Study(dc.Dataset(frame, roles={**ROLES, "home": "household"}), SEED)
    release = done.apply(dc.AdditiveNoise(columns=["income"], sd_share=0.1)).release()
    data, rows = release.data.frame, release.data.row_ids
    assert data.schema["home"] == kind
    numbers = data["home"].cast(pl.Int64).to_list()
    assert numbers == sorted(numbers) and set(numbers) == set(range(1, 121))  # together, in the order of the release
    old = home.to_list()
    pairs = set(zip(numbers, (old[row] for row in rows), strict=True))
    assert len(pairs) == 120  # one old number for each new one
    firsts = rows.reshape(120, 5)
    assert (np.ptp(firsts // 5, axis=1) == 0).all()
    assert abs(spearmanr(firsts[:, 0] // 5, np.arange(120)).statistic) < 4 / np.sqrt(120)
    assert len({tuple(row % 5 for row in home_rows) for home_rows in firsts}) > 40  # members in orders of their own
    assert "numbers of households" in release.facts()["row_order"]["meaning"]


def test_households_that_are_not_published_do_not_keep_members_together() -> None:
    frame = people().with_columns(home=pl.Series(np.repeat(np.arange(120), 5)))
    data = dc.Dataset(frame, roles={**ROLES, "home": "household"})
    rows = dc.Study(data, SEED).apply(dc.DropIdentifiers(columns=["home"])).release().data.row_ids
    assert (np.diff(rows // 5) == 0).sum() < 20  # by chance 4 of 599


def test_households_without_a_number_stand_alone_and_missing_codes_are_not_given_out() -> None:
    frame = pl.DataFrame({"home": [1, 1, 99, 99, 2, 3, 3, 4], "x": range(8)})
    data = dc.Dataset(frame, roles={"home": "household", "x": "other"}, missing_codes={"home": [99, 2]})
    new = permuted(data, SEED)
    assert new.frame["home"].null_count() == 3
    assert sorted(new.frame["home"].drop_nulls().unique()) == [1, 3, 4]


def test_the_public_words_say_that_members_of_a_household_stand_together() -> None:
    homes = people().with_columns(home=pl.int_range(600) // 3)
    with_numbers = study(homes, home="household").release()
    words = with_numbers.facts()["row_order"]["meaning"]
    assert "the members of a household stand together" in words and "given anew" in words
    assert with_numbers.data.frame["home"].rle().struct.field("len").to_list() == [3] * 200
    for release in (
        study().release(),
        study(homes, home="household").apply(dc.DropIdentifiers(columns=["home"])).release(),
    ):
        words = release.facts()["row_order"]["meaning"]
        assert "household" not in words and "the place of a row tells nothing about it" in words


@pytest.mark.parametrize("order", ["permute", "keep"])
@pytest.mark.parametrize("kind", [pl.Int64, pl.String])
def test_numbers_of_people_are_given_anew_also_in_the_old_order(order: str, kind: type[pl.DataType]) -> None:
    person = pl.Series("person", 700_000 + 13 * (np.arange(600) // 3)).cast(kind)
    done = study(people().with_columns(person), person="unit")
    release = done.release(order=order)  # type: ignore[arg-type]
    data, rows = release.data.frame, release.data.row_ids
    assert data.schema["person"] == kind
    assert set(data["person"].cast(pl.Int64)) == set(range(1, 201))  # none of the true numbers, which are all larger
    old = person.to_list()
    assert len(set(zip(data["person"], (old[row] for row in rows), strict=True))) == 200  # who belongs together stays
    words = release.facts()["row_order"]["meaning"]
    assert "The numbers of people in person were given anew" in words
    told = summary_of(release, (), (), internal=False).answers[0].more
    assert any(line.startswith("Renumbered: person") for line in told)
    assert not any("person" in line for line in told if line.startswith("As in the original"))


def test_the_number_of_a_person_tells_whose_records_are_like_no_others() -> None:
    frame = pl.DataFrame({"person": [901, 901, 902, 902, 903, 903], "area": ["a", "b", "b", "a", "a", "a"]})
    data = dc.Dataset(frame, roles={"person": "unit", "area": "quasi"})
    facts = dc.Study(data, SEED).release().facts()
    assert facts["people_alone"] == 2 / 6  # only 903 has the records {a, a}
    assert facts["households_alone"] is None
