"""`discretion parts`: every part, by family, with its fields."""

from __future__ import annotations

import discretion as dc
from discretion.part import all_parts
from tests.cli.conftest import Cli


def test_every_part_is_listed_once(cli: Cli) -> None:
    done = cli("parts", "--json")
    listed = done.json()["parts"]
    assert [part["kind"] for part in listed] == sorted(dc.parts()) and done.err == ""
    by_kind = {part["kind"]: part for part in listed}
    for part in all_parts():
        if part.kind in by_kind:
            assert by_kind[part.kind] == {
                "kind": part.kind,
                "name": part.__name__,
                "family": part.family,
                "summary": part.summary(),
            }
    assert {part["family"] for part in listed} == {
        "method",
        "model",
        "risk",
        "utility",
        "rule",
        "table-engine",
        "table-protection",
    }


def test_the_table_has_a_section_for_each_family(cli: Cli) -> None:
    out = cli("parts").out
    places = [out.index(title) for title in ("Methods", "Privacy models", "Measures of risk", "Measures of utility")]
    assert places == sorted(places)
    assert places[0] < out.index("mdav") < places[1] < out.index("k-anonymity") < places[2]


def test_a_part_is_described_with_its_fields(cli: Cli) -> None:
    out = cli("parts", "rank-swap").out
    assert "rank-swap (RankSwap)" in out and "Exchange each value" in out
    assert "percent" in out and "required" in out and "(confidential)" in out
    schema = cli("parts", "rank-swap", "--json").json()["schema"]
    assert schema["properties"]["percent"]["exclusiveMinimum"] == 0 and schema["required"] == ["percent"]


def test_an_unknown_part_is_suggested(cli: Cli) -> None:
    done = cli("parts", "rank-swop", "--json")
    assert done.code == 2 and "did you mean 'rank-swap'" in done.err and done.json()["error"]["kind"] == "PlanError"
