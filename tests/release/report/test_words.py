from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.data.dataset import Dataset
from discretion.release.plan import Requirement
from discretion.release.release import Release
from discretion.release.report import wording
from discretion.release.report.page import columns_of, details_of, exposed_of, render, requirements_of, steps_of
from discretion.release.report.summary import Summary, scores_of, summary_of
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
            "how strong the noise is: its usual size as a share of the column's usual spread (the sd, with N−1)",
        ),
        (
            "variance_share",
            "how strong the noise is: its variance as a share of the column's variance (computed with 1/N)",
        ),
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
    assert re.search(
        r"single values? \([\d.]+% of all\) (was|were) taken out; most of [xy]: ", told(summary_of(done, *rows), 2)
    )


def test_lost_records_are_counted() -> None:
    done = release()
    smaller = replace(done, data=done.data.take(np.arange(len(done.data)) > 1, suppressed=True))
    summary = summary_of(smaller, (), ())
    assert "2 records were taken out." in told(summary, 2)
    assert "No risk was measured." in told(summary, 1)


def told(summary: Summary, question: int) -> str:
    answer = summary.answers[question]
    return " ".join([answer.short, *answer.more])


JARGON = ("quasi-identifier", "√2", "standard deviation", "anonym", "linkage", "perturb", "suppress", "uniqueness")


def asked(done: Release, *, internal: bool = False) -> Summary:
    rows = (scores_of(done, family, internal=internal) for family in ("risk", "utility"))
    return summary_of(done, *rows, internal=internal)


def test_three_questions_are_answered_without_jargon() -> None:
    summary = asked(release())
    assert [answer.question for answer in summary.answers] == [
        "What goes out?", "Could anyone be found?", "What was lost?",
    ]  # fmt: skip
    assert summary.title == "Release report" and summary.verdict == "Published without requirements"
    words = " ".join(told(summary, number) for number in range(3)).lower()
    assert not [word for word in JARGON if word in words]


def test_what_goes_out_says_what_happened_to_each_column() -> None:
    words = told(asked(release()), 0)
    assert words.startswith("600 records with 5 of 6 columns.")
    assert "As in the original: town, savings and hours." in words
    assert "With less detail, or values taken out: age." in words
    assert "which may be true for one person and wrong for another: income." in words
    assert "Left out: name." in words and "The rows stand in a random order" in words


def test_relations_that_a_model_did_not_look_at_are_said_to_be_lost() -> None:
    done = release([dc.Shuffle(columns=["income", "savings"], predictors=["age"])])
    assert "What income and savings had to do with town and hours is lost." in told(asked(done), 2)
    every = release([dc.Shuffle(columns=["income"], predictors=["age", "town", "savings", "hours"])])
    assert "had to do with" not in told(asked(every), 2)


def test_could_anyone_be_found_counts_what_anybody_can_count() -> None:
    alone = release([], Dataset(pl.DataFrame({"x": ["a", "b", "b", "c", "c"]}), roles={"x": "quasi"}))
    assert "20 of 100 records look like no other" in told(asked(alone), 1)
    assert alone.facts()["smallest_class"] == {"columns": ("x",), "size": 1, "alone": 1}
    hidden = release([], Dataset(pl.DataFrame({"x": ["a"] * 3 + ["b"] * 4}), roles={"x": "quasi"}))
    words = told(asked(hidden), 1)
    assert "at least 3 records fit" in words and "Whoever knows x of somebody has a chance of 1 in 3 at best" in words
    required = release(requirements=[Requirement(dc.KAnonymity(k=2, columns=["town"]))])
    least = required.data.frame["town"].value_counts()["count"].min()
    (row,) = requirements_of(required, internal=False)
    assert row.text == "Holds." and f"at least {least} times: anybody can count it" in row.meaning


def test_could_anyone_be_found_gives_the_strongest_attacks_before_after_and_by_guessing() -> None:
    done = release(measures=[dc.DistanceLinkage(columns=["income", "savings"]), dc.RankInterval(columns=["income"])])
    linkage, interval, *_ = scores_of(done, "risk", internal=False)
    words = told(asked(done), 1)
    assert linkage.values is not None and linkage.values[0] is not None and linkage.guessing is not None
    assert linkage.rounded
    assert "finds nearly everybody, nearly everybody for certain (guessing: 2 of 1,000 people)" in words
    assert f"With the unprotected data it would be {wording.of_people(linkage.values[0])}." in words
    assert f"{interval.after} (income; guessing: {interval.chance}; unprotected data: {interval.before})" in words
    assert "Assumed to attack: somebody who knows a file with the original values of many people" in words


def test_an_attacker_who_does_not_know_the_method_is_said_so() -> None:
    done = release(measures=[dc.SampleUniqueness()])
    unaware = replace(done, plan=replace(done.plan, knows_method=False))
    said = "assumed not to know how the data was protected"
    assert said in told(asked(unaware), 1) and said not in told(asked(done), 1)


def test_no_attack_better_than_guessing_is_said_so() -> None:
    alike = Dataset(pl.DataFrame({"x": ["a"] * 20}), roles={"x": "quasi"})
    done = release([], alike, measures=[dc.SampleUniqueness()])
    assert "No attack that looked for people found more than guessing does" in told(asked(done), 1)


def test_what_was_lost_is_told_from_public_figures() -> None:
    done = release(measures=[dc.Il1s(columns=["income"]), dc.Precision(columns=["age"])])
    il1s, precision = scores_of(done, "utility", internal=False)
    assert il1s.values is not None and il1s.rounded
    values = int((~done.data.frame["income"].is_null()).sum())
    moved = float(f"{math.sqrt(2) * il1s.values[1] / values:.0e}")
    summary = asked(done)
    assert summary.answers[2].short == f"Of the detail of age, {precision.after} is left."
    assert f"a value of income moved by about {wording.percent(moved)} of the usual spread" in told(summary, 2)
    assert "This was not measured." in told(summary_of(done, (), ()), 2)


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.0, "nobody"),
        (1.0, "everybody"),
        (0.7567, "76 of 100 people"),
        (0.997, "997 of 1,000 people"),
        (0.0004, "4 of 10,000 people"),
        (0.0007, "7 of 10,000 people"),
        (0.024, "24 of 1,000 people"),
        (1 / 30000, "3 of 100,000 people"),
    ],
)
def test_shares_are_people(share: float, words: str) -> None:
    assert wording.of_people(share) == words


def test_long_lists_are_cut() -> None:
    assert wording.listed(["a"]) == "a" and wording.listed(["a", "b", "c"]) == "a, b and c"
    assert wording.listed(list("abcdef"), 4) == "a, b, c, d and 2 more"


def test_the_public_page_has_no_units_that_nobody_knows() -> None:
    page = render(release(measures=[dc.IntervalRisk(columns=["income"]), dc.Il1s(columns=["income"])]), internal=False)
    assert "√2" not in page and "a few standard deviations" not in page
    assert "Close: nearer than 5% of the column&#39;s usual spread." in page


def test_requirements_in_public_and_inside() -> None:
    required = [Requirement(dc.KAnonymity(k=2, columns=["town"])), Requirement(dc.KAnonymity(k=400, columns=["town"]))]
    done = release(requirements=required)
    met, unmet = requirements_of(done, internal=False)
    assert (met.holds, met.text, met.classes, met.meaning) == (
        True, "Holds.", (), "In the file every combination of values occurs at least 187 times: anybody can count it.",
    )  # fmt: skip
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


def homes() -> Dataset:
    """Give 40 households of two, one of which is like no other."""
    ages = [age for home in range(40) for age in (("old", "old") if home == 0 else ("old", "young"))]
    frame = pl.DataFrame({"hh": [100 + row // 2 for row in range(80)], "age": ages, "income": list(range(80))})
    return Dataset(frame, roles={"hh": "household", "age": "quasi", "income": "sensitive"})


def test_households_that_are_published_are_told_on_the_first_screen() -> None:
    done = release([dc.RankSwap(columns=["income"], percent=10)], homes())
    out, found = told(asked(done), 0), told(asked(done), 1)
    assert "Renumbered: hh." in out and "As in the original: age." in out
    assert done.facts()["households_alone"] == 2 / 80
    assert "Nobody stands alone" not in asked(done).answers[1].short
    assert "Whoever knows all members of a family finds it for 25 of 1,000 records." in found
    hidden = release([dc.DropIdentifiers(columns=["hh"]), dc.RankSwap(columns=["income"], percent=10)], homes())
    assert hidden.facts()["households_alone"] is None and "household" not in told(asked(hidden), 1)


def test_sets_are_told_on_the_first_screen_whatever_their_role() -> None:
    sets = [["a"], ["a"], ["b", "c"], ["c", "b"], ["a", "d"], ["d"], ["a"], ["a"], [], None]
    for role in ("sensitive", "other"):
        data = Dataset(pl.DataFrame({"x": ["u", "v"] * 5, "ills": sets}), roles={"x": "quasi", "ills": role})
        done = release([], data)
        words = told(asked(done), 1)
        assert done.facts()["sets_alone"] == {"ills": 0.4}, "two sets, the empty one and the missing one"
        assert "By all items of ills together, 40 of 100 records stand alone. No requirement limits what a few" in words
    kept = release([], data, [Requirement(dc.KmAnonymity(k=1, m=1, columns=["ills"]))])
    assert "40 of 100 records stand alone." in told(asked(kept), 1)
    assert "No requirement limits what a few items tell" not in told(asked(kept), 1)


def test_the_weight_of_dropped_records_is_told() -> None:
    frame = pl.DataFrame({"x": ["u", "v"] * 100, "w": [3.0] * 20 + [1.0] * 180})
    done = release([], Dataset(frame, roles={"x": "quasi", "w": "weight"}))
    kept = replace(done, data=done.study.original.take(np.arange(200) >= 12, suppressed=True))
    assert "The weights in w add up to 15.0% less than in the original" in told(summary_of(kept, (), ()), 2), (
        "36 of 240"
    )
    few = replace(done, data=done.study.original.take(np.arange(200) >= 5, suppressed=True))
    assert "add up to a little less" in told(summary_of(few, (), ()), 2), "fewer than ten people are behind it"
    assert "add up" not in told(summary_of(done, (), ()), 2)
    assert "not made up for" in dc.ReissueWeights.guarantee


def test_dropped_records_that_are_unlike_the_others_are_told() -> None:
    frame = pl.DataFrame({"x": ["u", "v"] * 100, "ill": ["yes"] * 40 + ["no"] * 160})
    done = release([], Dataset(frame, roles={"x": "quasi", "ill": "sensitive"}))
    kept = replace(done, data=done.study.original.take(np.arange(200) >= 20, suppressed=True))
    words = told(summary_of(kept, (), ()), 2)
    assert "unlike the others, most in ill: one of its values had 20% of all records, and has 11%." in words
    assert "As in the original, in the records that are left: x and ill." in told(summary_of(kept, (), ()), 0)
    few = replace(done, data=done.study.original.take(np.arange(200) >= 5, suppressed=True))
    assert "unlike" not in told(summary_of(few, (), ()), 2), "fewer than ten people are behind it"
    alike = replace(done, data=done.study.original.take(np.arange(200) % 5 > 0, suppressed=True))
    assert "unlike" not in told(summary_of(alike, (), ()), 2)
    rare = pl.DataFrame({"x": ["u", "v"] * 100, "ill": ["yes"] * 14 + ["no", "off"] * 93})
    done = release([], Dataset(rare, roles={"x": "quasi", "ill": "sensitive"}))
    for gone in (14, 12, 10):
        kept = replace(done, data=done.study.original.take(np.arange(200) >= gone, suppressed=True))
        words = told(summary_of(kept, (), ()), 2)
        assert "one of its values had 5% of all records, and has hardly any." in words, "neither 14 nor what is left"


def test_only_columns_that_moved_are_said_to_have_moved() -> None:
    done = release([dc.RankSwap(columns=["income"], percent=20)], measures=[dc.Il1s(columns=["income", "savings"])])
    both = told(asked(done), 2)
    alone = told(asked(replace(done, measured=release(measures=[dc.Il1s(columns=["income"])]).measured)), 2)
    assert "a value of income moved by about" in both and "savings" not in both
    (row,) = scores_of(done, "utility", internal=False)
    values = int((~done.data.frame["income"].is_null()).sum())
    assert row.values is not None
    moved = wording.percent(float(f"{math.sqrt(2) * row.values[1] / values:.0e}"))
    assert f"moved by about {moved} of" in both and "a value of income moved" in alone


def test_a_column_that_tells_only_who_had_a_value_is_among_those_of_which_nothing_is_left() -> None:
    frame = pl.DataFrame({"x": ["a", "b", None, "a"] * 5, "y": ["u", "v"] * 10, "z": ["a", "b"] * 10})
    star = [("a", "*"), ("b", "*")]
    data = Dataset(frame, roles={"x": "quasi", "y": "quasi", "z": "quasi"}, hierarchies={"x": star, "z": star})
    words = told(asked(release([dc.Generalize(levels={"x": 1, "z": 1})], data)), 0)
    assert "Nothing is left of: x and z (but of x it is still told who had a value)." in words
    assert "With less detail" not in words


def test_the_short_answer_does_not_say_what_the_next_lines_deny() -> None:
    done = release(
        [dc.DropIdentifiers(), dc.Generalize(levels={"age": 3, "town": 1})],
        measures=[dc.DistanceLinkage(columns=["income"])],
    )
    answer = asked(done).answers[1]
    assert re.fullmatch(r"Yes: an attack that was tried finds [\w ,]+\.", answer.short)
    assert "by somebody who knows income of everybody," in answer.more[0]
    assert "Nobody stands alone" not in told(asked(done), 1)
    assert "Whoever knows age and town and nothing else of somebody has a chance of 1 in 600 at best" in answer.more[1]
    assert len(answer.more) <= 6


def test_the_report_says_which_file_how_many_records_and_which_day() -> None:
    done = release()
    named = replace(done, plan=replace(done.plan, data={"path": "folder/census_2020.csv"}))
    assert "census" not in render(named, internal=False).lower()
    summary = summary_of(named, (), (), internal=True)
    assert summary.title == "Census 2020: release report"
    assert re.fullmatch(r"data\.csv \(made from census_2020\.csv\) · 600 records · \d+ \w+ \d{4}", summary.about)
    secret = replace(done, plan=replace(done.plan, data={"path": "postgresql://me:hunter2@host/base"}))
    assert "hunter2" not in render(secret, internal=False) and summary_of(secret, (), ()).title == "Release report"


def test_attacks_no_better_than_guessing_are_no_items_of_the_first_screen() -> None:
    frame = pl.DataFrame({"sex": ["m", "f"] * 50, "w": [1.0, 2.0] * 50})
    data = Dataset(frame, roles={"sex": "quasi", "w": "weight"})
    done = release([], data, measures=[dc.WeightDisclosure()])
    assert "Learning a value" not in told(asked(done), 1)
    assert done.measured[0].after.meaning == "The published weight tells no column better than guessing does."


def test_hierarchies_among_the_settings_are_named() -> None:
    assert wording.setting_text(dc.Hierarchy.intervals(width=5, levels=2), reveal=False) == "hierarchy (intervals)"
    table = [["a", "*"], ["b", "*"]]
    assert wording.setting_text(dc.Hierarchy.of(table), reveal=False) == "hierarchy (table)"


def _grouped(values: list[str]) -> Release:
    """Ninety people of town A with two values, ten of B with the given ones, and three of C; B and C are dropped."""
    rng = np.random.default_rng(1)
    town = ["A"] * 90 + ["B"] * 10 + ["C"] * 3
    frame = pl.DataFrame({"town": town, "ill": [*rng.choice(["yes", "no"], 90).tolist(), *values, "yes", "no", "no"]})
    data = Dataset(frame, roles={"town": "quasi", "ill": "sensitive"}, hierarchies={"town": {"groups": {"levels": []}}})
    models = [{"k-anonymity": {"k": 5}}, {"distinct-l-diversity": {"l": 2, "sensitive": "ill"}}]
    bounds = {"town": 0}
    return release([dc.OptimalGeneralization(models=models, suppression_limit=0.2, levels=bounds)], data)


def test_groups_dropped_for_their_values_are_told_and_small_ones_are_not() -> None:
    alike = _grouped(["yes"] * 10)
    assert len(alike.data) == 90
    assert any("left out although they are large enough" in note and "ill" in note for note in alike.notes)
    mixed = _grouped(["yes", "no"] * 5)
    assert len(mixed.data) == 100  # the three of C were simply too few
    assert not any("left out" in note or "dropped" in note for note in mixed.notes)


def test_the_best_chance_is_the_largest_share_of_one_person() -> None:
    patients = ["a"] * 4 + list("bcdefghijklm")
    frame = pl.DataFrame({"patient": patients, "town": ["x"] * 8 + ["y"] * 8, "ill": ["yes", "no"] * 8})

    def asked(role: str) -> str:
        data = Dataset(frame, roles={"patient": role, "town": "quasi", "ill": "sensitive"})
        return told(summary_of(release([dc.DropIdentifiers(columns=["patient"])], data), (), ()), 1)

    words = asked("unit")
    assert "records of at least 5 people fit" in words
    assert "a chance of 1 in 2 at best to pick a record of that person" in words
    assert "a chance of 1 in 8 at best" in asked("identifier")


def test_the_column_whose_values_are_told_is_named() -> None:
    rng = np.random.default_rng(4)
    pay = rng.permutation(400).astype(float)
    frame = pl.DataFrame({"pay": pay, "tax": np.floor(pay / 100), "town": rng.choice(["a", "b"], 400)})
    data = Dataset(frame, roles={"town": "quasi", "tax": "sensitive", "pay": "sensitive"})
    done = release([dc.RankSwap(columns=["tax"], percent=40)], data, measures=[dc.ColumnDependence()])
    assert "(tax, read off pay; guessing:" in told(asked(done), 1)


def _ill(ill: list[str]) -> str:
    """Tell what is learnt of illness and pay in four towns of ten people; the pay is dealt out anew."""
    pay = np.arange(40.0)
    frame = pl.DataFrame({"town": np.repeat(list("abcd"), 10), "ill": ill, "pay": pay, "tax": pay[::-1]})
    data = Dataset(frame, roles={"town": "quasi", "ill": "sensitive", "pay": "sensitive", "tax": "sensitive"})
    steps = [dc.RankSwap(columns=["pay", "tax"], percent=50)]
    measures = [dc.ValueAgreement(), dc.GroupAttack(sensitive=["ill"]), dc.GroupAttack(sensitive=["ill"], coalition=9)]
    return told(asked(release(steps, data, measures=measures), internal=True), 1)


def test_a_column_that_is_published_as_it_is_does_not_hide_behind_a_mean() -> None:
    words = _ill(["yes", "no", "no", "no", "no"] * 8)  # Σ p² = 0.68
    assert "as they are in the original is 100% for ill (guessing: 68%), and" in words
    assert "on average over ill, pay and tax (guessing:" in words


def test_what_a_group_tells_for_certain_stands_on_the_first_screen() -> None:
    words = _ill(["no"] * 20 + ["yes"] + ["no"] * 9 + ["yes"] * 4 + ["no"] * 6)
    assert words.count("Without finding the record") == 1  # the coalition of nine learns everything anyway
    assert "for 50% of the records, all who share what others may know have the same value of ill" in words
    assert "naming the most frequent value for everybody is right for 87.5%" in words
    assert "Without finding the record" not in _ill(["yes", "no"] * 20)
    assert "Without finding the record" not in _ill(["no"] * 40)


def test_records_are_no_people_where_every_identifier_recurs() -> None:
    def words(patient: list[int], role: str = "identifier") -> str:
        frame = pl.DataFrame({"patient": patient, "name": ["x", "y"] * 20, "age": list(range(40))})
        data = Dataset(frame, roles={"patient": role, "name": "identifier", "age": "quasi"})
        steps = [dc.DropIdentifiers(columns=["patient", "name"])]
        return told(asked(release(steps, data, measures=[dc.DistanceLinkage(columns=["age"])])), 1)

    recurring = words([number // 2 for number in range(40)])
    assert "finds all records, all records for certain (guessing: 25 of 1,000 records)" in recurring
    assert "the values of patient and name recur in the original" in recurring
    for once in (words(list(range(40))), words([number // 2 for number in range(40)], "unit")):
        assert "finds everybody, everybody for certain" in once and "recur in the original" not in once


def test_the_first_screen_says_what_dealt_and_joined_columns_tell() -> None:
    rng = np.random.default_rng(1)
    age, n = rng.integers(18, 70, 400), 400
    frame = pl.DataFrame({"age": age, "since": 2020 - np.maximum(age - 18 - rng.gamma(2, 3, n), 0).round(1)})
    cuts = {"age": {"intervals": {"cuts": [[0, 30, 50, 100]]}}}
    data = Dataset(frame, roles={"age": "quasi", "since": "sensitive"}, hierarchies=cuts)
    shuffle, linkage = dc.Shuffle(columns=["since"], predictors=["age"]), dc.DistanceLinkage(columns=["age"])
    words = asked(release([shuffle, dc.Generalize(levels={"age": 1})], data, measures=[linkage]))
    assert "but since, dealt out by a model of such columns, tells more" in told(words, 1)
    assert "at best" not in told(words, 1)
    before = asked(release([dc.Generalize(levels={"age": 1}), shuffle], data, measures=[linkage]))
    assert "at best" in told(before, 1) and "dealt out" not in told(before, 1)
    emptied = asked(
        release([shuffle, dc.Generalize(levels={"age": 2})], data, measures=[dc.DistanceLinkage(columns=["since"])])
    )
    assert "Nothing is left of: age (but since still tells much of age)." in told(emptied, 0)


def test_the_short_answer_says_who_is_found_for_certain() -> None:
    frame = pl.DataFrame({"x": ["a", "b"] * 50, "y": [*range(40), *[7] * 60]})
    data = Dataset(frame, roles={"x": "quasi", "y": "sensitive"})
    words = asked(release([], data, measures=[dc.DistanceLinkage(columns=["x", "y"])])).answers[1]
    assert "for certain" in words.short and not words.short.startswith("Nobody")


def test_who_did_not_answer_is_said_to_stay_visible() -> None:
    words = told(asked(release()), 0)
    assert "Who had no value of income and savings (did not answer) has none here either" in words
