"""Sensitive cells as sdcTable and GaussSuppression find them on their example data."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

import discretion as dc
from tests.shared import reference

pytestmark = pytest.mark.peers

NACE = ("nace", "region", "size")


def golden(*parts: str) -> Any:
    return reference("golden", "tables", *parts)


def primary(cells: dc.Cells, by: list[str]) -> set[tuple[str, ...]]:
    found = cells.frame(internal=True).filter(pl.col("status") == "primary")
    return set(found.select(by).iter_rows())


def wanted(name: str, by: list[str]) -> set[tuple[str, ...]]:
    given = pl.read_csv(golden("gauss", f"{name}.csv"), schema_overrides=dict.fromkeys(by, pl.String))
    return set(given.filter("primary").select(by).iter_rows())


def magnitude(**options: Any) -> dc.Cells:
    frame = pl.read_csv(golden("gauss", "in_magnitude1.csv"))
    by = options.pop("by", ["sector4", "geo"])
    return dc.tabulate(frame, by, "value", contributor="company", **options)


CASES = {
    **{f"magnitude1_sector4_geo_p{p}": [dc.PPercent(percent=p)] for p in (5, 10, 25, 50)},
    **{f"magnitude1_sector4_geo_n1k{k}": [dc.Dominance(n=1, percent=k)] for k in (70, 80, 90)},
    "magnitude1_sector4_geo_n12_k80_99": [dc.Dominance(n=1, percent=80), dc.Dominance(n=2, percent=99)],
    **{f"magnitude1_few_contrib_{n}": [dc.Threshold(minimum=n + 1)] for n in (1, 2, 3)},
}


@pytest.mark.parametrize("name", CASES)
def test_gauss_suppression_magnitudes(name: str) -> None:
    cells = magnitude().apply_rules(CASES[name])
    assert primary(cells, ["sector4", "geo"]) == wanted(name, ["sector4", "geo"])
    summary = json.loads(golden("gauss_summary.json").read_text())[name]
    assert cells.value[cells.primary].sum() == pytest.approx(summary["primary_value_sum"])


def test_gauss_suppression_shares_of_the_largest() -> None:
    given = pl.read_csv(golden("gauss", "magnitude1_sector4_geo_n12_k80_99.csv")).filter(pl.col("freq") > 0)
    cells = magnitude()
    for row in given.iter_rows(named=True):
        i = cells.index({"sector4": row["sector4"], "geo": row["geo"]})
        assert cells.value[i] == pytest.approx(row["value"])
        assert cells.weighted_count[i] == row["freq"] and cells.count[i] == row["n_contr"]
        assert cells.top[i, 0] / cells.value[i] == pytest.approx(row["dominant1"])
        assert cells.top[i, :2].sum() / cells.value[i] == pytest.approx(row["dominant2"])
        assert cells.contributors[cells.top_ids[i, 0]] == row["max1contributor"]


LINKED = {
    "magnitude1_formula_k80_99": (
        [["sector2", "geo"], ["sector4", "eu"]],
        [dc.Dominance(n=1, percent=80), dc.Dominance(n=2, percent=99)],
    ),
    "magnitude1_linked3_p10": ([["geo", "sector2"], ["eu", "sector2"], ["eu", "sector4"]], [dc.PPercent(percent=10)]),
}


@pytest.mark.parametrize("name", LINKED)
def test_gauss_suppression_linked_tables(name: str) -> None:
    by, rules = LINKED[name]
    given = pl.read_csv(golden("gauss", f"{name}.csv"))
    cells = magnitude(by=by).apply_rules(rules)
    assert len(cells) == given.height
    places = dict.fromkeys(("Iceland", "Portugal", "Spain"), "geo") | {"EU": "eu", "nonEU": "eu"}
    sectors = {"private": "sector2", "public": "sector2"}
    for row in given.iter_rows(named=True):
        codes = {}
        if row["geo"] != "Total":
            codes[places[row["geo"]]] = row["geo"]
        if row["sector4"] != "Total":
            codes[sectors.get(row["sector4"], "sector4")] = row["sector4"]
        i = cells.index(codes)
        assert cells.value[i] == pytest.approx(row["value"])
        assert cells.primary[i] == row["primary"], codes


@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("most", [1, 3, 5])
def test_gauss_suppression_counts(most: int, zeros: bool) -> None:
    frame = pl.read_csv(golden("gauss", "in_z1.csv"))
    cells = dc.tables.from_cells(frame, ["region", "hovedint"], count="ant")
    name = f"z1_maxN{most}_zeros{str(zeros).upper()}"
    found = primary(cells.apply_rules([dc.Threshold(minimum=most + 1)]), ["region", "hovedint"])
    assert len(cells) == 45 and found == wanted(name, ["region", "hovedint"])


@pytest.mark.parametrize("most", [1, 2, 3])
def test_gauss_suppression_two_hierarchies_over_one_variable(most: int) -> None:
    frame = pl.read_csv(golden("gauss", "in_d2f.csv"))
    spec = [
        dc.tables.from_columns(frame, ["region", "county"]),
        dc.tables.from_columns(frame, ["region", "k_group"]),
    ]
    inner = frame.group_by("region").agg(pl.col("f").sum())
    cells = dc.tables.from_cells(inner, ["region"], count="f", hierarchies={"region": spec})
    assert len(cells) == 20
    found = primary(cells.apply_rules([dc.Threshold(minimum=most + 1)]), ["region"])
    assert found == wanted(f"d2f_region_county_kgroup_maxN{most}_zerosFALSE", ["region"])


def sdctable_rule(name: str) -> Any:
    if name.startswith("freq"):
        return dc.Threshold(minimum=int(name[4:].partition("_")[0]) + 1)
    if name.startswith("pq"):
        p, q = map(int, name[2:].split("_"))
        return dc.PQ(p_percent=p, q_percent=q)
    if name.startswith("p"):
        return dc.PPercent(percent=int(name[1:]))
    n, k = map(int, name[1:].split("k"))
    return dc.Dominance(n=n, percent=k)


SDCTABLE = (
    *(f"m1_freq{n}_z{z}" for n in (2, 3, 5, 10) for z in ("FALSE", "TRUE")),
    *(f"m1_p{p}" for p in (5, 10, 15, 30, 50)),
    *(f"m1_pq{pq}" for pq in ("30_50", "30_80", "10_50")),
    *(f"m1_n{nk}" for nk in ("1k60", "2k40", "2k60", "2k75", "3k80")),
    *(f"m2_{rule}" for rule in ("freq2", "freq3", "freq5", "freq10", "p5", "p10", "p20")),
)


@pytest.mark.parametrize("case", SDCTABLE)
def test_sdctable(case: str) -> None:
    which, _, rule = case.partition("_")
    frame = pl.read_csv(golden("sdctable", f"in_microdata{which[1]}.csv"))
    value = None if rule.startswith("freq") else {"m1": "val", "m2": "numVal"}[which]
    cells = dc.tabulate(frame, ["region", "gender"], value).apply_rules([sdctable_rule(rule)])
    listed = pl.read_csv(golden("sdctable", f"p_microdata{which[1]}_cells.csv"))
    status = json.loads(golden("sdctable_summary.json").read_text())["primary"][case]["status"]
    for row, state in zip(listed.iter_rows(named=True), status, strict=True):
        codes = {name: row[f"{name}_o"] for name in ("region", "gender") if row[f"{name}_o"].lower() != "total"}
        i = cells.index(codes)
        assert cells.count[i] == row["freq"]
        assert cells.primary[i] == (state == "u"), row


def test_every_primary_set_of_sdctable_is_compared() -> None:
    assert set(json.loads(golden("sdctable_summary.json").read_text())["primary"]) == set(SDCTABLE)


@pytest.mark.parametrize(("name", "cells"), [("s", 1552), ("b", 21530)])
def test_benchmark_instances(name: str, cells: int) -> None:
    frame = pl.read_csv(golden({"s": "s_micro.csv", "b": "b_micro.csv.gz"}[name]))
    hierarchies = {column: golden(f"hier_{column}.csv") for column in NACE}
    table = dc.tabulate(frame, NACE, "value", hierarchies=hierarchies)
    want = json.loads(golden("bench_tables.json").read_text())[name]
    assert len(table) == cells == want["nonzero"] and table.value[0] == want["total"]
    for p in (5, 10, 15, 20):
        assert dc.PPercent(percent=p)(table).sum() == want[f"p{p}"]
    found = table.apply_rules([dc.PPercent(percent=10)])
    assert found.value[found.primary].sum() == want["primary_value"]
    assert dc.Threshold(minimum=3)(table).sum() == want["freq_le_2"]


def test_square_of_frequencies() -> None:
    cells = dc.tables.from_cells(pl.read_csv(golden("a_50x50.csv")), ["row", "col"], count="freq")
    want = json.loads(golden("bench_tables.json").read_text())["a"]
    found = cells.apply_rules([dc.Threshold(minimum=3)])
    assert (len(cells), int((cells.value > 0).sum()), cells.value[0]) == (want["cells"], want["nonzero"], want["total"])
    assert (int(found.primary.sum()), found.value[found.primary].sum()) == (want["primary"], want["primary_value"])
