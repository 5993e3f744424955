"""Nothing confidential on the public side: unmistakable numbers are looked for in every public file."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import discretion as dc
from discretion.release.facts import public_facts
from discretion.release.plan import Shown
from discretion.release.ranking import chance_of
from discretion.release.run import conclude
from tests.release.survey import ROLES, files_of, put_survey

SEED = 0xC0FFEE_5EED_0BAD_CAFE_1234_5678
ROLE_LINES = "".join(f"  {name}: {role}\n" for name, role in ROLES.items())
PLAN = f"""\
title: Confidential
data: survey.csv
roles:
{ROLE_LINES}
hierarchies:
  age: {{intervals: {{width: 100, levels: 2}}}}
  region: region.csv
steps:
  - generalize: {{levels: {{age: 1, region: 1}}}}
  - additive-noise: {{columns: [income], sd_share: 0.0731, publish: PUBLISH}}
  - additive-noise: {{columns: [savings], variance_share: 0.08317, publish: PUBLISH}}
  - correlated-noise: {{columns: [income, savings], variance_share: 0.01973, publish: PUBLISH}}
  - rank-swap: {{columns: [savings], percent: 7.31, publish: PUBLISH}}
  - block-rank-swap: {{columns: [savings], percent: 6.173, publish: PUBLISH}}
  - multiplicative-noise: {{columns: [income], sd: 0.2173, publish: PUBLISH}}
  - top-code: {{column: income, quantile: 0.9173, publish: PUBLISH}}
  - bottom-code: {{column: income, quantile: 0.01937, publish: PUBLISH}}
measures:
  - sample-uniqueness
  - average-class-size: {{k: 59, publish: PUBLISH}}
  - il1s: {{columns: [income, savings]}}
requirements:
  - k-anonymity: {{k: 37, publish: PUBLISH}}
  - distance-linkage: {{columns: [income, savings], at_most: 0.9371, publish: PUBLISH}}
  - il1s: {{columns: [income], at_most: 999983.5, at_least: 0.000731, publish: PUBLISH}}
output: {{folder: out, journal: secret, format: FORMAT}}
"""
SECRETS = {
    "sd_share": "0.0731",
    "variance_share": "0.08317",
    "correlated": "0.01973",
    "percent": "7.31",
    "block percent": "6.173",
    "sd": "0.2173",
    "quantile": "0.9173",
    "low quantile": "0.01937",
    "at_most": "0.9371",
    "far at_most": "999983.5",
    "far at_most, short": "999984",
    "at_least": "0.000731",
}
"""Figures that a public file of data cannot hold by chance (the noisy numbers are searched as whole words)."""


def public_texts(folder: Path) -> dict[str, str]:
    """Give every public file as text, packed ones unpacked."""
    texts = {}
    for name, content in files_of(folder).items():
        texts[name] = content.decode("utf-8", errors="replace")
        if content[:2] == b"PK":
            with zipfile.ZipFile(io.BytesIO(content)) as packed:
                texts |= {f"{name}/{part}": packed.read(part).decode("utf-8") for part in packed.namelist()}
    return texts


def publish(folder: Path, *, openly: bool, kind: str = "csv") -> dict[str, str]:
    text = PLAN.replace("PUBLISH", str(openly).lower()).replace("FORMAT", kind)
    dc.Plan.load(put_survey(folder, text)).run(seed=SEED)
    return public_texts(folder / "out")


def holders(texts: dict[str, str], secret: str) -> list[str]:
    return [name for name, text in texts.items() if secret in text]


@pytest.mark.parametrize("kind", ["csv", "xlsx", "dta", "parquet"])
def test_nothing_confidential_is_public(tmp_path: Path, kind: str) -> None:
    texts = publish(tmp_path, openly=False, kind=kind)
    reports = {name: text for name, text in texts.items() if name.startswith("report")}
    assert len(reports) == 2
    for what, secret in SECRETS.items():
        assert holders(reports, secret) == [], what
    for seed in (str(SEED), f"{SEED:x}", f"{SEED:X}", f"{SEED:b}"):
        assert holders(texts, seed) == []


def test_small_thresholds_are_not_public(tmp_path: Path) -> None:
    """37 and 59 are too short to be looked for everywhere; they are looked for beside the words that would tell."""
    texts = publish(tmp_path, openly=False)
    for words in ("required 37", '"k": 37', "k: 37", "k = 37", ">37<", '"k": 59', "k: 59", ">59<", "k=37", "37-anonym"):
        assert holders(texts, words) == [], words
    report = dc.Plan.load(tmp_path / "plan.yaml").run(seed=SEED, overwrite=True).facts()
    assert "k" not in str(report["requirements"][0]).replace("kind", "").replace("k-anonymity", "")
    (hidden,) = [score for score in report["utility"] if score["kind"] == "average-class-size"]
    assert hidden["withheld"] and "after" not in hidden and hidden["settings"] == {}


def test_the_kinds_of_steps_and_that_requirements_hold_are_public(tmp_path: Path) -> None:
    texts = publish(tmp_path, openly=False)
    assert '"text": "k-anonymity: holds"' in texts["report.json"]
    assert '"withheld": [\n        "sd_share"\n      ]' in texts["report.json"]
    assert "multiplicative-noise" in texts["report.json"]


def test_what_the_plan_publishes_is_public(tmp_path: Path) -> None:
    texts = publish(tmp_path, openly=True)
    for what, secret in SECRETS.items():
        if "short" not in what:
            assert "report.json" in holders(texts, secret) or what == "far at_most", what
    assert "required 37" in texts["report.json"] and '"k": 59' in texts["report.json"]
    assert "required at most 999984" in texts["report.json"]
    assert holders(texts, str(SEED)) == holders(texts, f"{SEED:x}") == []  # the seed, never


def test_the_journal_has_them_all(tmp_path: Path) -> None:
    publish(tmp_path, openly=False)
    journal = public_texts(tmp_path / "secret")["journal.json"]
    for what, secret in SECRETS.items():
        assert "short" in what or secret in journal, what
    assert f"{SEED:x}" in journal


def test_paths_of_the_computer_are_not_public(tmp_path: Path) -> None:
    texts = publish(tmp_path / "home-of-the-statistician", openly=False)
    assert holders(texts, "home-of-the-statistician") == []


def test_figures_that_tell_a_withheld_strength_are_rounded_and_others_are_exact() -> None:
    people = dc.datasets.census(2000, seed=1)
    noise = {"additive-noise": {"columns": ["income"], "sd_share": 0.0731}}
    base = {
        "roles": {
            "name": "identifier",
            "person_id": "identifier",
            "age": "quasi",
            "sex": "quasi",
            "income": "sensitive",
        },
        "measures": [{"il1s": {"columns": ["income"]}}, "sample-uniqueness", {"il1s": {"columns": ["savings"]}}],
    }
    for publish in (False, True):
        step = {"additive-noise": {**noise["additive-noise"], "publish": publish}}
        plan = dc.Plan.from_dict({**base, "steps": [step]})
        study = dc.Study(dc.Dataset(people.frame, schema=plan.schema), seed=1).apply(plan.steps[0])
        release = conclude(plan, study)
        facts = public_facts(release)
        loss, other = facts["utility"]
        exact = release.measured[0].after.value
        assert loss["rounded"] is not publish
        assert loss["after"] == (exact if publish else float(f"{exact:.0e}"))
        assert str(exact) in str(facts) or not publish
        assert other["rounded"] is False and facts["risk"][0]["rounded"] is False


def test_the_chance_level_is_rounded_with_its_figure() -> None:
    people = dc.datasets.census(700, seed=1)
    swap = dc.RankSwap(columns=["income"], percent=7.31)
    plan = dc.Study(people, seed=1).apply(swap).plan()
    plan = replace(plan, measures=(Shown(dc.RankInterval(columns=["income"], percent=13)),))
    release = conclude(plan, dc.Study(people, seed=1).apply(swap))
    risk, *_ = public_facts(release)["risk"]
    exact = chance_of(release.measured[0].after)  # the better of a random guess and one guess for everybody
    assert exact is not None and exact > release.measured[0].after.detail["chance"]
    assert risk["rounded"] and risk["chance"] == float(f"{exact:.0e}") != exact
