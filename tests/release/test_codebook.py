"""The codebook: counts that tell no small one, what was done to each variable, and DDI in its order."""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.release.criteria import Codebook, shown_counts
from tests.release.survey import PLAN, put_survey, survey

DDI = "{ddi:codebook:2_5}"
ORDER = {
    "codeBook": "docDscr stdyDscr fileDscr dataDscr otherMat",
    "docDscr": "citation guide docStatus docSrc controlledVocabUsed notes",
    "citation": "titlStmt rspStmt prodStmt distStmt serStmt verStmt biblCit holdings notes",
    "titlStmt": "titl subTitl altTitl parTitl IDNo",
    "prodStmt": "producer copyright prodDate prodPlac software fundAg grantNo",
    "stdyDscr": "citation studyAuthorization stdyInfo studyDevelopment method dataAccs othrStdyMat notes",
    "method": "dataColl notes anlyInfo stdyClas dataProcessing codingInstructions",
    "dataColl": "weight cleanOps",
    "fileDscr": "fileTxt locMap notes",
    "fileTxt": "fileName fileCitation fileCont fileStrc dimensns fileType format",
    "dimensns": "caseQnty varQnty logRecL recPrCas recNumTot",
    "dataDscr": "varGrp nCubeGrp var nCube notes",
    "var": "location labl imputation security embargo respUnit anlysUnit qstn valrng invalrng undocCod universe "
    "TotlResp sumStat txt stdCatgry catgryGrp catgry codInstr verStmt concept derivation varFormat geoMap catLevel "
    "notes",
    "invalrng": "item range key notes",
    "catgry": "catValu labl txt catStat mrow",
}
"""Elements in the order that the documentation of DDI-Codebook 2.5 gives for the ones we write."""


def codebook(study: dc.Study) -> Codebook:
    release = dc.Release(study.plan(), study, study.current, (), ())
    return release.codebook([{"file": "data.csv", "sha256": "0f"}])


@pytest.mark.parametrize("size", [2, 3, 4])
def test_somebody_who_knows_the_rule_and_the_total_computes_no_small_count(size: int) -> None:
    """Enumerate every table that would be shown the same way: each hidden small count has several possible values."""
    least, most = 3, 11
    alike: dict[tuple[Any, ...], list[tuple[int, ...]]] = defaultdict(list)
    for counts in itertools.product(range(1, most + 1), repeat=size):
        array = np.array(counts)
        alike[sum(counts), shown_counts(array, array, least)].append(counts)
    for (total, shown), tables in alike.items():
        if total < 3 * least or max(map(max, tables)) > most - least:  # alternatives beyond what is enumerated
            continue
        for place, count in enumerate(shown):
            values = {table[place] for table in tables}
            assert count is not None or len(values) > 1 or min(values) >= least


def test_what_is_hidden_has_many_people_and_what_is_shown_is_rounded() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        counts = rng.integers(0, 60, rng.integers(2, 9))
        shown = shown_counts(counts, counts, 10)
        hidden = [int(count) for count, one in zip(counts, shown, strict=True) if one is None]
        assert all(one % 10 == 0 for one in shown if one is not None)
        assert all(one is None for count, one in zip(counts, shown, strict=True) if 0 < count < 10)
        assert not hidden or sum(hidden) >= 20 or len(hidden) == np.count_nonzero(counts)
        assert len(hidden) != 1 or np.count_nonzero(counts) == 1


def test_counts_people_not_records(tmp_path: Path) -> None:
    rows = {"firm": np.repeat(np.arange(60), 10), "sector": np.repeat(["a", "b", "c"], [30, 285, 285])}
    data = dc.Dataset(pl.DataFrame(rows), roles={"firm": "unit", "sector": "quasi"})
    book = codebook(dc.Study(data, seed=1))
    sector = {one.value: one.count for one in book.variables[1].categories}
    assert "a" not in sector  # thirty records of three firms


def book_of(**options: Any) -> Codebook:
    frame = survey(400).with_columns(pl.Series("code", [-9, 1, 2, 2] * 100), pl.Series("w", [1.5] * 400))
    roles = {"age": "quasi", "sex": "quasi", "region": "quasi", "income": "sensitive", "w": "weight"}
    data = dc.Dataset(frame.drop("person_id"), roles=roles, missing_codes={"code": [-9]}, **options)
    study = dc.Study(data, seed=1).apply(dc.RankSwap(columns=["income"], percent=7.31))
    return codebook(study.apply(dc.Sample(share=0.9)))


def test_says_what_was_done_and_how_it_biases() -> None:
    book = book_of()
    variables = {one.name: one for one in book.variables}
    income = variables["income"]
    assert [one.step for one in income.done] == ["rank-swap"] and "pulled toward zero" in income.done[0].effect
    assert not variables["age"].done and variables["code"].missing_codes == ("-9",)
    assert any(words.startswith("sample: ") and "sampling error" in words for words in book.notes)
    assert "svydesign(ids = ~1, weights = ~w, data = data)" in book.weights[0]
    text = book.to_markdown() + book.to_html() + book.to_ddi()
    assert "7.31" not in text


def test_figures_of_numbers_have_three_digits_and_nobody_dominates() -> None:
    roles = {"x": "sensitive", "y": "sensitive"}
    frame = pl.DataFrame({"x": [*np.arange(99.0), 1e9], "y": np.arange(100) + 0.123456})
    x, y = codebook(dc.Study(dc.Dataset(frame, roles=roles), seed=1)).variables
    assert "mean" not in x.statistics and x.statistics["90th percentile"] == 89.1
    assert y.statistics["mean"] == 49.6 and y.statistics["median"] == 49.6


def test_ddi_has_its_namespace_order_and_required_parts() -> None:
    root = Xml.fromstring(book_of().to_ddi())
    assert root.tag == f"{DDI}codeBook" and root.get("version") == "2.5"
    assert root.find(f"{DDI}stdyDscr/{DDI}citation/{DDI}titlStmt/{DDI}titl") is not None
    for element in root.iter():
        children = [child.tag.removeprefix(DDI) for child in element]
        allowed = ORDER.get(element.tag.removeprefix(DDI), "").split()
        places = [allowed.index(name) for name in children]
        assert places == sorted(places)
    ids = [element.get("ID") for element in root.iter() if element.get("ID")]
    assert len(ids) == len(set(ids))
    variables = root.findall(f".//{DDI}var")
    assert all(one.get("name") and set((one.get("files") or "").split()) <= set(ids) for one in variables)
    assert {one.get("wgt-var") for one in variables if one.get("wgt") != "wgt"} == {variables[-1].get("ID")}
    facts = {one.get("type"): one.text for one in root.findall(f"{DDI}fileDscr/{DDI}notes")}
    assert facts == {"SHA-256": "0f"} and root.find(f".//{DDI}caseQnty").text == "360"  # type: ignore[union-attr]
    codes = [item.get("VALUE") for item in root.findall(f".//{DDI}invalrng/{DDI}item")]
    assert codes == ["-9"]


def test_values_cannot_break_the_pages() -> None:
    nasty = ["a|b", "<script>x</script>", "c\x01d"]
    frame = pl.DataFrame({"x": nasty * 40, "_y_": ["*"] * 120})
    data = dc.Dataset(frame, roles={"x": "quasi"})
    book = codebook(dc.Study(data, seed=1))
    assert "<script>" not in book.to_html().replace("</script>", "") and "<script>" not in book.to_markdown()
    assert "| a\\|b |" in book.to_markdown()
    values = [one.text for one in Xml.fromstring(book.to_ddi()).iter(f"{DDI}catValu")]
    assert sorted(filter(None, values)) == ["*", "<script>x</script>", "a|b", "c\ufffdd"]


def test_lies_beside_the_data_with_the_hash_of_the_file(tmp_path: Path) -> None:
    dc.Plan.load(put_survey(tmp_path, PLAN)).run(seed=5 * 10**20)
    public = tmp_path / "out"
    names = {"codebook.md", "codebook.html", "codebook.xml"}
    assert names < {file.name for file in public.iterdir()}
    import hashlib

    digest = hashlib.sha256((public / "data.csv").read_bytes()).hexdigest()
    assert all(digest in (public / name).read_text(encoding="utf-8") for name in names)


def test_labels_stay_in_the_data_and_stand_in_the_codebook(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = survey().with_columns(pl.col("sex").replace_strict({"f": 1, "m": 2}).alias("sex"))
    pyreadstat.write_sav(
        frame, str(tmp_path / "survey.sav"),
        column_labels={"sex": "Sex of the person"}, variable_value_labels={"sex": {1: "woman", 2: "man", 3: "other"}},
    )  # fmt: skip
    plan = PLAN.replace("survey.csv", "survey.sav").replace("output: {", "output: {format: sav, ")
    put_survey(tmp_path, plan)
    dc.Plan.load(tmp_path / "plan.yaml").run(seed=5 * 10**20)
    _, found = pyreadstat.read_sav(str(tmp_path / "out" / "data.sav"))
    assert found.column_names_to_labels["sex"] == "Sex of the person"
    assert found.variable_value_labels["sex"] == {1: "woman", 2: "man", 3: "other"}
    text = (tmp_path / "out" / "codebook.md").read_text(encoding="utf-8")
    assert "Sex of the person" in text and "| 1 | woman |" in text
    assert "| 3 | other | not shown" in text  # whether it does not occur or is rare, nobody can tell
