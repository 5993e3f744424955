from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.data.dataset import Dataset
from discretion.release.plan import Requirement
from discretion.release.report.page import render
from tests.release.report.build import people, release
from tests.release.report.html import assert_sound

BOTH = pytest.mark.parametrize("internal", [False, True])


def text_of(html: str) -> str:
    return " ".join(" ".join(assert_sound(html).text).split())


@BOTH
def test_a_census_release_is_a_sound_page(internal: bool) -> None:
    steps = [
        dc.DropIdentifiers(),
        dc.Generalize(levels={"age": 2, "municipality": 1}),
        dc.RankSwap(columns=["income", "savings"], percent=10),
    ]
    required = [Requirement(dc.KAnonymity(k=3, columns=["region", "sex"]))]
    done = release(steps, dc.datasets.census(3000, seed=1), required, title="Census <2024> & “friends”")
    html = render(done, internal=internal)
    words = text_of(html)
    assert "Census <2024> & “friends”" in words
    assert "3,000 records with 14 of 16 columns." in words
    assert "3 protection steps were applied" in words
    assert "The one requirement holds." in words
    assert "Exchange each value with a value whose rank" in words
    assert html.count('<svg class="plot"') >= 6
    assert len(html.encode()) < 300_000
    assert ("INTERNAL – NOT FOR PUBLICATION" in html) == internal


def test_the_same_release_gives_the_same_bytes() -> None:
    for internal in (False, True):
        assert render(release(), internal=internal) == render(release(), internal=internal)


def test_bytes_do_not_depend_on_the_process() -> None:
    code = (
        "import hashlib; from tests.release.report.build import release; "
        "from discretion.release.report.page import render; r = release(); "
        "print([hashlib.sha256(render(r, internal=i).encode()).hexdigest() for i in (False, True)])"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]


@BOTH
def test_names_and_labels_are_escaped(internal: bool) -> None:
    rng = np.random.default_rng(1)
    nasty = ["<script>alert(1)</script>", "\"quoted\" & 'single'", "Größe", "{{ 7*7 }}"]
    frame = pl.DataFrame({name: rng.normal(size=300) for name in nasty})
    frame = frame.with_columns(pl.Series("<b>kind</b>", rng.choice(["<i>", "a&b"], 300)))
    hierarchies = {"<b>kind</b>": [("<i>", "<em>up</em>"), ("a&b", "<em>up</em>")]}
    data = Dataset(frame, roles={"<b>kind</b>": "quasi", **dict.fromkeys(nasty, "sensitive")}, hierarchies=hierarchies)
    data = data.with_schema(data.schema.with_column("Größe", label="</td><h1>label"))
    steps = [dc.RankSwap(columns=nasty, percent=30), dc.Generalize(levels={"<b>kind</b>": 1})]
    html = render(release(steps, data, title="</title><script>x</script>"), internal=internal)
    words = text_of(html)
    for found in ("<script>alert(1)</script>", "<em>up</em>", "Größe", "{{ 7*7 }}", "</td><h1>label"):
        assert found in words
    for tag in ("<script", "<em>", "<b>", "<i>"):
        assert tag not in html


@BOTH
def test_five_rows_make_a_page_without_histograms(internal: bool) -> None:
    html = render(
        release([dc.DropIdentifiers(), dc.RankSwap(columns=["hours"], percent=50)], people(5)), internal=internal
    )
    words = text_of(html)
    assert "hours: no histogram, because too few records would stand behind its bars." in words
    assert "Histogram of" not in words
    assert internal or "sorted ascending" not in words


@BOTH
def test_one_row_and_no_steps(internal: bool) -> None:
    data = Dataset(pl.DataFrame({"a": ["x"], "b": [1]}), roles={"a": "quasi"})
    words = text_of(render(release([], data), internal=internal))
    assert "1 record with all 2 columns." in words
    assert "No protection step was applied" in words
    assert "No step was applied" in words


@BOTH
def test_without_numbers_and_requirements(internal: bool) -> None:
    rng = np.random.default_rng(2)
    frame = pl.DataFrame({"town": rng.choice(["a", "b", "c"], 200), "sex": rng.choice(["f", "m"], 200)})
    data = Dataset(frame, roles={"town": "quasi", "sex": "quasi"}, hierarchies={"town": [(t, "*") for t in "abc"]})
    words = text_of(render(release([dc.Generalize(levels={"town": 1})], data), internal=internal))
    assert "No requirements were set for this release." in words
    assert "* (any value)" in words
    assert "Numbers that were changed" not in words


@BOTH
def test_forty_columns(internal: bool) -> None:
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({f"value_{i}": rng.normal(size=400) for i in range(40)})
    data = Dataset(frame, roles=dict.fromkeys(frame.columns, "sensitive"))
    html = render(release([dc.RankSwap(percent=20)], data), internal=internal)
    words = text_of(html)
    assert "32 more changed numeric columns are not drawn." in words
    assert len(html.encode()) < 300_000


@BOTH
def test_missing_values_everywhere(internal: bool) -> None:
    frame = people(300).frame.with_columns(
        pl.lit(None, dtype=pl.Float64).alias("empty"),
        pl.when(pl.int_range(300) % 3 == 0).then(None).otherwise(pl.col("town")).alias("town"),
    )
    data = Dataset(
        frame,
        roles={"name": "identifier", "town": "quasi", "income": "sensitive"},
        hierarchies={"town": [("Ödenburg", "A"), ("Dunmere", "A"), ("Port Ash", "B")]},
    )
    steps = [dc.Generalize(levels={"town": 1}), dc.AdditiveNoise(columns=["income", "savings"], sd_share=0.5)]
    words = text_of(render(release(steps, data), internal=internal))
    assert "missing or suppressed" in words


@BOTH
def test_unmet_requirements_are_said_in_color_and_words(internal: bool) -> None:
    html = render(release(requirements=[Requirement(dc.KAnonymity(k=500, columns=["age"]))]), internal=internal)
    words = text_of(html)
    assert "Requirements are not met" in words
    assert "✗ does not hold" in words
    assert 'class="badge bad"' in html
    assert ("Failing classes" in words) == internal


def test_identifiers_without_a_step_are_left_out() -> None:
    words = text_of(render(release([]), internal=False))
    assert "600 records with 5 of 6 columns." in words
    assert "left out" in words


def test_colors_have_contrast() -> None:
    from importlib import resources

    style = resources.files("discretion.release.report").joinpath("style.css").read_text(encoding="utf-8")
    named = dict(
        part.strip().split(": ") for part in style.split("{", 1)[1].split("}", 1)[0].split(";") if part.strip()
    )

    def light(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    pairs = [("--ink", "#ffffff"), ("--muted", "#ffffff"), ("--muted", "--soft"), ("--accent", "#ffffff")]
    pairs += [("--good", "--good-soft"), ("--bad", "--bad-soft"), ("--warn", "--warn-soft"), ("--deep", "--soft")]
    for ink, paper in pairs:
        one, other = (light(named.get(name, name)) for name in (ink, paper))
        assert (max(one, other) + 0.05) / (min(one, other) + 0.05) >= 4.5, (ink, paper)
