from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.data.dataset import Dataset
from discretion.release.plan import Requirement
from discretion.release.report import wording
from discretion.release.report.columns import columns_of
from discretion.release.report.exposure import details_of, exposed_of
from discretion.release.report.requirements import requirements_of
from discretion.release.report.scores import scores_of
from discretion.release.report.steps import steps_of
from discretion.release.report.summary import summary_of
from tests.release.report.build import people, release


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"),
        (0.0123456, "0.0123"),
        (12.3456, "12.3"),
        (161.17, "161"),
        (1592.4, "1,592"),
        (123456.0, "123,500"),
        (-2.5, "−2.5"),
        (9.9999, "10"),
        (0.00002, "0.00002"),
        (math.nan, "–"),
        (None, "–"),
    ],
)
def test_numbers_have_three_or_four_digits(value: float | None, words: str) -> None:
    assert wording.number(value) == words


def test_shares_are_percentages() -> None:
    assert wording.figure(0.6047, (0.0, 1.0)) == "60.5%"
    assert wording.figure(0.6047, (0.0, None)) == "0.605"
    assert wording.percent(1 / 5000) == "0.02%"


@pytest.mark.parametrize(
    ("kind", "title"), [("rank-swap", "Rank swap"), ("k-anonymity", "k-anonymity"), ("il1s", "IL1s"), ("mdav", "MDAV")]
)
def test_kinds_become_titles(kind: str, title: str) -> None:
    assert wording.title_of(kind) == title


def test_caveats_are_the_sentences_that_say_does_not() -> None:
    assert wording.caveats(dc.Generalize) == ("It does not protect against attribute disclosure.",)
    assert any("k-anonymity" in words for words in wording.caveats(dc.OptimalMicroaggregation))


def test_settings_in_words() -> None:
    for value, words in [
        (None, "not set"),
        (True, "yes"),
        (0.5, "0.5"),
        ((), "not set"),
        (("a", "b"), "a, b"),
        ({"age": 2, "zip": 3}, "age: 2, zip: 3"),
        (frozenset({"b", "a"}), "a, b"),
        (object(), "(object)"),
    ]:
        assert wording.setting_text(value, reveal=False) == words


def test_steps_show_changed_settings_in_public_and_all_inside() -> None:
    done = release([dc.AdditiveNoise(columns=["income"], sd_share=0.2)])
    (public,) = steps_of(done, internal=False)
    (inside,) = steps_of(done, internal=True)
    assert [(s.name, s.value) for s in public.settings] == [("columns", "income"), ("sd_share", "withheld")]
    assert {"by", "distribution", "precision", "variance_share"} <= {s.name for s in inside.settings}
    assert public.untrue
    assert public.guarantee


@pytest.mark.parametrize(
    ("strength", "meaning"),
    [
        (
            "sd_share",
            "standard deviation of the noise as a share of the column's standard deviation (computed with N−1)",
        ),
        ("variance_share", "variance of the noise as a share of the column's variance (computed with 1/N)"),
    ],
)
def test_the_strength_of_noise_is_named_and_explained_as_given(strength: str, meaning: str) -> None:
    (step,) = steps_of(release([dc.AdditiveNoise(columns=["income"], **{strength: 0.2})]), internal=False)
    assert [(s.name, s.meaning) for s in step.settings][1:] == [(strength, meaning)]
    assert "can be taken as exact, though some are by chance" in step.guarantee, "rounded noise may be nought"


def test_columns_say_what_was_done() -> None:
    rows = {row.name: row for row in columns_of(release())}
    assert not rows["name"].published
    assert rows["name"].steps == ((1, "Drop identifiers"),)
    assert rows["age"].steps == ((2, "Generalize"),)
    assert rows["age"].level == "level 2 of 3"
    assert rows["income"].steps == ((3, "Rank swap"),)
    assert rows["town"].steps == ()
    assert rows["town"].roles == "quasi-identifier"
    assert rows["income"].type == "number"


def test_suppressed_cells_are_counted() -> None:
    frame = pl.DataFrame(
        {"x": np.r_[np.arange(200.0), [np.nan]], "y": np.r_[np.arange(200.0), [1.0]]}, nan_to_null=True
    )
    done = release([dc.Mdav(columns=["x", "y"], k=3)], Dataset(frame, roles={"x": "sensitive", "y": "sensitive"}))
    assert sum(int(row.suppressed) for row in columns_of(done)) == sum(done.data.suppressed_cells.values()) > 0
    rows = scores_of(done, "risk", internal=False), scores_of(done, "utility", internal=False)
    assert any("suppressed." in sentence for sentence in summary_of(done, *rows).sentences)


def test_lost_records_are_counted() -> None:
    done = release()
    smaller = replace(done, data=done.data.take(np.arange(len(done.data)) > 1, suppressed=True))
    words = " ".join(summary_of(smaller, (), ()).sentences)
    assert "2 records were suppressed." in words
    assert "No risk was measured." in words


def test_the_summary_names_the_largest_remaining_risk() -> None:
    done = release()
    risk, utility = (scores_of(done, family, internal=False) for family in ("risk", "utility"))
    summary = summary_of(done, risk, utility)
    worst = max(risk, key=lambda row: row.values[1] if row.values else 0)
    assert any(worst.after in sentence for sentence in summary.sentences if "largest remaining risk" in sentence)
    assert any(sentence.startswith("The price in detail and accuracy:") for sentence in summary.sentences)
    assert summary.title == "Release report"
    assert summary.verdict == "Published without requirements"
    assert ("requirements met", "none set") in summary.tiles


def test_requirements_in_public_and_inside() -> None:
    required = [Requirement(dc.KAnonymity(k=2, columns=["town"])), Requirement(dc.KAnonymity(k=400, columns=["town"]))]
    done = release(requirements=required)
    met, unmet = requirements_of(done, internal=False)
    assert (met.holds, met.text, met.classes, met.meaning) == (True, "Holds.", (), "")
    assert (unmet.holds, unmet.text, unmet.classes) == (False, "Does not hold.", ())
    _, inside = requirements_of(done, internal=True)
    assert "required 400" in inside.text
    assert len(inside.classes) == 3
    assert inside.classes[0].key.startswith("town = ")


def test_at_most_twenty_failing_classes() -> None:
    done = release([], people(300), [Requirement(dc.KAnonymity(k=300, columns=["age"]))])
    (row,) = requirements_of(done, internal=True)
    assert len(row.classes) == 20
    assert int(row.classes_left_out) > 0


def test_exposed_rows_count_from_one_in_both_data_sets() -> None:
    frame = pl.DataFrame({"x": ["a", "b", "b", "c", "c"]})
    done = release([], Dataset(frame, roles={"x": "quasi"}))
    found, *_ = exposed_of(done)
    assert found.rows[0] == ("1", "1", "1")
    assert found.ties == "1"
    later = replace(done, data=done.data.take(np.array([3, 4])))
    assert exposed_of(later) == ()


def test_details_are_flat() -> None:
    done = release()
    entries = dict(entry for detail in details_of(done) for entry in detail.entries)
    assert "per_column · income" in entries
    assert all(isinstance(value, str) for value in entries.values())
