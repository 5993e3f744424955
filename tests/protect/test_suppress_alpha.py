"""Local suppression when records with missing values count less than complete ones (`alpha`)."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discretion as dc
from tests.shared import reference

KEYS = ["urbrur", "roof", "walls", "water", "electcon", "relat", "sex"]
Record = tuple[int | None, ...]


def counts(records: list[Record], alpha: float) -> list[float]:
    """Compare every record with every other: complete and identical matches count 1, others alpha."""

    def matches(one: Record, other: Record) -> bool:
        return all(a is None or b is None or a == b for a, b in zip(one, other, strict=True))

    return [
        sum(alpha if None in other and other != one else 1.0 for other in records if matches(one, other))
        for one in records
    ]


def table(records: list[Record]) -> pl.DataFrame:
    return pl.DataFrame(records, schema={f"c{j}": pl.Int64 for j in range(len(records[0]))}, orient="row")


RECORDS = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.tuples(*[st.none() | st.integers(0, 2)] * width), min_size=3, max_size=25)
)


@settings(max_examples=120, deadline=None)
@given(RECORDS, st.integers(2, 4), st.sampled_from([0.0, 0.3, 0.5, 0.9]))
def test_reaches_k_or_says_that_it_cannot(records: list[Record], k: int, alpha: float) -> None:
    data = table(records)
    method = dc.LocalSuppression(columns=data.columns, k=k, missing="wildcard", alpha=alpha)
    model = dc.KAnonymity(columns=data.columns, k=k, missing="wildcard", alpha=alpha)
    before = counts(records, alpha)
    assert model(data).value == pytest.approx(min(before))
    assert model(data).failing_records == sum(count < k - 1e-9 for count in before)
    try:
        after = method(data)
    except dc.DataError:
        assert len(records) < k
        return
    assert min(counts(after.rows(), alpha)) >= k - 1e-9
    assert model(after).holds
    for old, new in zip(records, after.rows(), strict=True):
        assert all(b is None or a == b for a, b in zip(old, new, strict=True))


def test_records_that_suffice_are_not_touched_and_each_gets_the_fewest_cells() -> None:
    rng = np.random.default_rng(3)
    records: list[Record] = [tuple(row) for row in rng.choice(4, (300, 3), p=[0.5, 0.3, 0.15, 0.05]).tolist()]
    after = dc.LocalSuppression(columns=["c0", "c1", "c2"], k=4, missing="wildcard", alpha=0)(table(records)).rows()
    kept = [record for record, count in zip(records, counts(records, 0), strict=True) if count >= 4]
    for old, new, count in zip(records, after, counts(records, 0), strict=True):
        if count >= 4:
            assert new == old
            continue
        fewest = min(size for size in (bin(bits).count("1") for bits in range(1, 8) if _enough(old, bits, kept)))
        assert sum(value is None for value in new) == fewest


def _enough(record: Record, bits: int, kept: list[Record]) -> bool:
    return sum(all(bits >> j & 1 or other[j] == record[j] for j in range(3)) for other in kept) >= 4


def test_alpha_of_one_is_the_plain_reading_and_less_never_takes_fewer_cells() -> None:
    rng = np.random.default_rng(4)
    data = dc.Dataset(table([tuple(row) for row in rng.integers(0, 5, (400, 4)).tolist()]))
    plain = dc.LocalSuppression(columns=data.columns, k=3, missing="wildcard")
    full = dc.LocalSuppression(columns=data.columns, k=3, missing="wildcard", alpha=1)
    assert full(data).frame.equals(plain(data).frame)
    assert full == plain and full.settings() == plain.settings()
    cells = [
        sum(plain.model_copy(update={"alpha": alpha})(data).suppressed_cells.values()) for alpha in (1.0, 0.9, 0.5, 0.0)
    ]
    assert cells == sorted(cells)


def test_importance_strata_and_linked_columns_hold() -> None:
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({f"c{j}": rng.choice(3, 400, p=[0.7, 0.2, 0.1]) for j in range(4)})
    frame = frame.with_columns(s=pl.Series(rng.choice(["u", "v"], 400)), g=pl.Series(np.arange(400)))
    keys = ["c0", "c1", "c2", "c3"]
    method = dc.LocalSuppression(
        columns=keys, k=3, missing="wildcard", alpha=0, by="s", importance={"c0": "never"}, linked={"c1": ["g"]}
    )
    result = method(frame)
    assert result["c0"].equals(frame["c0"])
    assert result["g"].is_null().equals(result["c1"].is_null())
    for part in result.partition_by("s"):
        assert min(counts(part.select(keys).rows(), 0)) >= 3


def test_what_is_wrong_is_said() -> None:
    for kind in (dc.LocalSuppression, dc.KAnonymity):
        with pytest.raises(dc.PlanError, match="`alpha` has a meaning only with `missing: wildcard`"):
            kind(k=2, alpha=0.5)
        with pytest.raises(dc.PlanError, match="alpha"):
            kind(k=2, alpha=1.5, missing="wildcard")
    method = dc.LocalSuppression(columns=["c0", "c1"], k=2, missing="wildcard", alpha=0, importance={"c0": "never"})
    with pytest.raises(dc.Infeasible, match="records found too few complete records"):
        method(table([(None, 0), (0, 1), (1, 2)]))


@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
def test_identical_incomplete_records_count_fully(alpha: float) -> None:
    six = pl.DataFrame({"a": [None] * 6, "b": ["x"] * 6}, schema={"a": pl.String, "b": pl.String})
    model = dc.KAnonymity(k=6, columns=["a", "b"], missing="wildcard", alpha=alpha)
    assert model(six).value == 6 and model(six).holds
    mixed = pl.concat([six, pl.DataFrame({"a": ["1", "1"], "b": ["x", None]})])
    # (1, x): itself, and α for each incomplete match; (1, missing): itself, (1, x), and α for the six others
    assert model(mixed).value == pytest.approx(min(1 + 7 * alpha, 2 + 6 * alpha))


def test_records_without_a_match_are_made_the_same() -> None:
    result = dc.LocalSuppression(columns=["c0"], k=2, missing="wildcard", alpha=0)(table([(0,), (1,), (2,)]))
    assert result.rows() == [(None,)] * 3


@pytest.mark.peers
def test_fewer_cells_than_sdcmicro_with_its_alpha_of_zero() -> None:
    golden = json.loads(reference("golden", "sdcmicro", "07_kAnon3_testdata_alpha0.json").read_text())
    data = dc.Dataset(pl.read_csv(reference("golden", "sdcmicro", "in_testdata.csv"), null_values="NA"))
    result = dc.LocalSuppression(columns=KEYS, k=3, missing="wildcard", alpha=0)(data)
    assert sum(result.suppressed_cells.values()) <= golden["total"]
    assert dc.KAnonymity(columns=KEYS, k=3, missing="wildcard", alpha=0)(result).holds
