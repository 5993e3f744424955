"""Nothing confidential and nobody's values in the public page. The figures are unmistakable on purpose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.context import Context
from discretion.data.dataset import Dataset
from discretion.method import Decision, Method
from discretion.part import Columns, confidential
from discretion.privacy.k_anonymity import KAnonymity
from discretion.release.plan import Requirement
from discretion.release.release import Measured
from discretion.release.report.charts import sides_of
from discretion.release.report.figures import figures_of, strength_withheld
from discretion.release.report.page import render
from discretion.release.report.wording import settings_of
from tests.release.report.build import people, published, release

NOISE = dc.AdditiveNoise(columns=["savings"], sd_share=0.0731)
SWAP = dc.RankSwap(columns=["income"], percent=7.31)


def test_confidential_settings_are_withheld() -> None:
    page = render(release([dc.DropIdentifiers(), NOISE, SWAP]), internal=False)
    assert "0.0731" not in page
    assert "7.31" not in page
    assert page.count(">withheld<") == 2
    assert "sd_share" in page


def test_published_and_internal_settings_are_shown() -> None:
    shown = render(release([published(NOISE), published(SWAP)]), internal=False)
    inside = render(release([NOISE, SWAP]), internal=True)
    for page in (shown, inside):
        assert "0.0731" in page
        assert "7.31" in page
        assert ">withheld<" not in page


@pytest.mark.parametrize("publish", [False, True])
def test_thresholds_are_withheld_unless_published(publish: bool) -> None:
    required = [
        Requirement(dc.KAnonymity(k=7919, columns=["age"]), publish=publish),
        Requirement(dc.IntervalRisk(columns=["income"]), at_most=0.0731, publish=publish),
        Requirement(dc.Precision(columns=["age"]), at_least=0.0837, publish=publish),
    ]
    done = release(requirements=required)
    public, internal = (render(done, internal=side) for side in (False, True))
    for figure in ("7919", "0.0731", "0.0837"):
        assert (figure in public) == publish
        assert figure in internal
    assert ("The figures are confidential." in public) == (not publish)


class _Secretive(dc.IntervalRisk):
    """Share of something that depends on a secret width."""

    width: float = confidential(0.1)
    """a secret"""


def test_scores_that_depend_on_a_secret_are_withheld() -> None:
    measure = _Secretive(columns=["income"], width=0.0731)
    done = release([SWAP], measures=[measure])
    done = replace(done, measured=done.measured[:1])  # without the linkages that every report has
    assert not Measured(measure, None, done.measured[0].after).is_public
    public, internal = (render(done, internal=side) for side in (False, True))
    figure = f"{done.measured[0].after.value:.1%}"
    assert figure in internal
    assert figure not in public
    assert "would give it away" in public
    assert "The risk figures are withheld." in public
    assert "0.0731" not in public


def test_scores_that_depend_on_a_secret_are_shown_when_published() -> None:
    measure = _Secretive(columns=["income"], width=0.0731)
    done = release([SWAP], measures=[measure])
    shown = replace(done, measured=tuple(replace(item, publish=True) for item in done.measured))
    page = render(shown, internal=False)
    assert f"{done.measured[0].after.value:.1%}" in page
    assert "would give it away" not in page


class _Searching(Method):
    """Do nothing, for a model."""

    models: tuple[KAnonymity, ...] = ()
    """models to satisfy"""
    columns: Columns = ()
    """columns"""

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        return data


def test_a_part_inside_a_setting_keeps_its_secrets() -> None:
    method = _Searching(models=(KAnonymity(k=7919, columns=["age"]),))
    (public,) = settings_of(method, internal=False)
    assert public.value.startswith("k-anonymity (") and "k: withheld" in public.value and "columns: age" in public.value
    assert "7919" not in public.value
    assert "7,919" in settings_of(method, internal=True)[0].value
    assert "7,919" in settings_of(method, internal=False, publish=True)[0].value


def test_no_path_of_a_file_is_published(tmp_path: Path) -> None:
    people(50).frame.write_csv(tmp_path / "register.csv")
    measure = dc.SampleUniqueness(columns=["age"], population=str(tmp_path / "register.csv"))
    (columns, population) = settings_of(measure, internal=False)
    assert (columns.value, population.value) == ("age", "register.csv")


def test_the_seed_is_nowhere() -> None:
    study = dc.Study(people(), seed=0xDEADBEEF1234567).apply(SWAP)
    from discretion.release.run import conclude

    done = conclude(study.plan(), study)
    for internal in (False, True):
        page = render(done, internal=internal)
        assert str(0xDEADBEEF1234567) not in page
        assert "deadbeef" not in page.lower()


def test_no_value_of_a_person_is_published() -> None:
    data = people(400)
    frame = data.frame.with_columns(
        pl.when(pl.int_range(400) == 17).then(987654.3).otherwise(pl.col("income")).alias("income"),
        pl.when(pl.int_range(400) == 17).then(pl.lit("Zarquon")).otherwise(pl.col("town")).alias("town"),
    )
    hierarchies = {"town": [("Zarquon", "Fjord"), ("Ödenburg", "Plain"), ("Dunmere", "Plain"), ("Port Ash", "Plain")]}
    roles = {"name": "identifier", "age": "quasi", "town": "quasi", "income": "sensitive"}
    odd = Dataset(frame, roles=roles, hierarchies=hierarchies)
    page = render(release([dc.Generalize(levels={"town": 1}), SWAP], odd), internal=False)
    for value in ("987654", "987,654", "Zarquon", "Fjord", "Person0"):
        assert value not in page
    assert "Plain" in page


def test_the_internal_page_names_rows_and_never_values() -> None:
    page = render(release([SWAP]), internal=True)
    assert "Most exposed rows" in page
    assert "Person0" not in page


class _Hide(Method):
    """Suppress the income of the first rows."""

    rows: int = 3
    """how many"""

    def rewrite(self, data: Dataset, decision: Decision, ctx: Context) -> Dataset:
        return data.with_columns({}, suppressed={"income": np.arange(len(data)) < self.rows})


def test_suppressed_values_are_in_no_picture_of_the_original() -> None:
    frame = people(500).frame.with_columns(
        pl.when(pl.int_range(500) < 3).then(5e6).otherwise(pl.col("income")).alias("income")
    )
    data = Dataset(frame, roles={"name": "identifier", "income": "sensitive"})
    done = release([_Hide()], data)
    original, released = sides_of(done).numbers("income")
    assert original.max() < 5e6
    assert len(original) == len(released)
    page = render(done, internal=False)
    assert "3 single values (0.1% of all) were taken out; most of income: 0.6% of its values." in page


def test_the_size_of_errors_is_withheld_with_the_strength_of_a_step() -> None:
    hidden, shown = release([NOISE]), release([published(NOISE)])
    assert strength_withheld(hidden, "savings")
    assert not strength_withheld(hidden, "income")
    assert not strength_withheld(shown, "savings")
    titles = {False: "as a share of the largest error drawn", True: "error, in standard deviations"}
    for done, internal, units in ((hidden, False, False), (hidden, True, True), (shown, False, True)):
        drawn = "".join(one.svg for group in figures_of(done, internal=internal) for one in group.figures)
        assert titles[units] in drawn
        assert titles[not units] not in drawn
