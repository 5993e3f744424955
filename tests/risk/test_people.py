"""People with several records: figures of people count people, not records."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import discretion as dc


def _stays() -> dc.Dataset:
    """Eight stays of one class, four of them of one patient; two stays that only one patient has."""
    frame = pl.DataFrame(
        {
            "patient": ["a", "a", "a", "a", "b", "c", "d", "e", "f", "f"],
            "town": ["x"] * 8 + ["y"] * 2,
            "sex": ["m"] * 10,
        }
    )
    return dc.Dataset(frame, roles={"patient": "unit", "town": "quasi", "sex": "quasi"})


def test_a_person_is_found_if_any_record_is() -> None:
    data = _stays()
    score = dc.DistanceLinkage(columns=["town", "sex"])(data, data.drop(["patient"]))
    by_person = [1 - (7 / 8) ** 4, *[1 / 8] * 4, 1 - (1 / 2) ** 2]
    assert score.value == pytest.approx(np.mean(by_person))
    assert score.detail["by_record"] == pytest.approx((8 * 1 / 8 + 2 * 1 / 2) / 10)
    assert score.detail["people"] == 6
    assert score.detail["chance"] == pytest.approx(np.mean([1 - 0.9**m for m in (4, 1, 1, 1, 1, 2)]))
    assert "a person is found if any record is linked right" in score.meaning


def test_without_a_unit_records_are_people() -> None:
    data = dc.Dataset(_stays().frame, roles={"town": "quasi", "sex": "quasi"})
    score = dc.DistanceLinkage(columns=["town", "sex"])(data, data)
    assert score.value == pytest.approx((8 * 1 / 8 + 2 * 1 / 2) / 10)
    assert "people" not in score.detail


def test_any_record_of_a_person_in_a_class_is_the_right_one() -> None:
    data = _stays().drop(["patient"])  # the column is not published; what it says stays true
    score = dc.AttackerRisk()(_stays(), data)
    assert score.value == 1.0  # both records of town y are of one person
    assert score.per_record is not None
    assert list(score.per_record) == pytest.approx([4 / 8] * 4 + [1 / 8] * 4 + [1.0] * 2)


def test_one_to_one_links_count_people_too() -> None:
    rng = np.random.default_rng(3)
    patient = rng.integers(0, 30, 60)
    frame = pl.DataFrame({"patient": patient, "v": rng.normal(size=60)})
    data = dc.Dataset(frame, roles={"patient": "unit", "v": "quasi"}, types={"patient": "nominal"})
    noisy = data.with_columns({"v": pl.Series(frame["v"].to_numpy() + rng.normal(0, 0.05, 60))})
    score = dc.AssignmentLinkage(columns=["v"])(data, noisy)
    assert score.per_record is not None
    found = {who for who, share in zip(patient.tolist(), score.per_record, strict=True) if share == 1}
    assert score.value == pytest.approx(len(found) / len(set(patient.tolist())))
