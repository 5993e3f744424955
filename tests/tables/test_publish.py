"""Publishing: what may be known and nothing else, in every format."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.errors import DataError, PlanError, RequirementNotMet

P, K, LEVEL = 7.31, 73.19, 61.87
WHY = "for a test"


def suppressed() -> dc.Cells:
    firms = pl.DataFrame(
        {
            "region": ["N1", "N1", "N1", "N2", "N2", "S1", "S1", "S1", "S1"],
            "sector": ["food", "food", "steel", "food", "food", "food", "steel", "steel", "steel"],
            "turnover": [120.5, 80.25, 15.0, 60.0, 55.0, 40.0, 300.0, 20.0, 35.0],
        }
    )
    tree = {"Total": {"North": ["N1", "N2"], "South": ["S1"]}}
    cells = dc.tabulate(firms, ["region", "sector"], "turnover", hierarchies={"region": tree})
    cells = cells.apply_rules([dc.Threshold(minimum=2), dc.PPercent(percent=P), dc.Dominance(n=1, percent=K)])
    hidden = cells.suppressed | cells.where({"region": ["N1", "S1", "North", "South"]})
    return cells.with_status(secondary=hidden & ~cells.primary)


def long(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


def test_long_csv_has_every_cell_and_its_status(tmp_path: Path) -> None:
    cells = suppressed()
    cells.publish(tmp_path / "t.csv", override=WHY)
    lines = long(tmp_path / "t.csv")
    assert len(lines) == len(cells) and list(lines[0]) == ["region", "sector", "turnover", "status"]
    for line in lines:
        cell = cells.index({"region": line["region"], "sector": line["sector"]})
        if cells.suppressed[cell]:
            assert (line["turnover"], line["status"]) == ("", "c")
        else:
            assert float(line["turnover"]) == cells.value[cell] and line["status"] == ""


def test_pivoted_csv_puts_every_cell_in_its_place(tmp_path: Path) -> None:
    cells = suppressed()
    for rows in (None, "sector"):
        path = tmp_path / f"{rows}.csv"
        cells.publish(path, override=WHY, layout="pivot", rows=rows)
        down, across = ("region", "sector") if rows is None else ("sector", "region")
        for line in long(path):
            for code, text in line.items():
                if code == down:
                    continue
                hit = cells.where({down: line[down], across: code})
                if not hit.any():
                    assert text == ""
                elif cells.suppressed[hit][0]:
                    assert text == "c"
                else:
                    assert float(text) == cells.value[hit][0]


def test_json_and_excel(tmp_path: Path) -> None:
    cells = suppressed()
    cells.publish(tmp_path / "t.json", override=WHY)
    content = json.loads((tmp_path / "t.json").read_text())
    assert content["version"] == 1 and len(content["cells"]) == len(cells)
    assert (
        content["variables"][0]["codes"][:2] == ["Total", "North"]
        and content["variables"][0]["parents"][0][1] == "Total"
    )
    shown = {tuple(c["codes"]): (c["value"], c["status"]) for c in content["cells"]}
    for cell in range(len(cells)):
        value, status = shown[tuple(cells.label(cell).values())]
        assert (
            (value is None and status == "c")
            if cells.suppressed[cell]
            else (value == cells.value[cell] and status is None)
        )
    for layout in ("long", "pivot"):
        file = tmp_path / f"{layout}.xlsx"
        cells.publish(file, override=WHY, layout=layout)
        frame = pl.read_excel(file, sheet_name="table", infer_schema_length=None)
        assert frame.columns[:2] == (["region", "sector"] if layout == "long" else ["region", "Total"])
        again = tmp_path / f"{layout}-2.xlsx"
        cells.publish(again, override=WHY, layout=layout)
        assert file.read_bytes() == again.read_bytes()


def everything(path: Path) -> str:
    """All the text of a file, also inside a workbook."""
    if path.suffix != ".xlsx":
        return path.read_text()
    with zipfile.ZipFile(path) as book:
        return "\n".join(book.read(name).decode() for name in book.namelist())


def test_public_files_tell_no_parameter_no_level_and_no_reason(tmp_path: Path) -> None:
    cells = suppressed().with_status(upper_required=np.full(len(suppressed()), LEVEL))
    hidden = {f"{v:g}" for v in cells.value[cells.suppressed]} - {f"{v:g}" for v in cells.value[~cells.suppressed]}
    for name, options in (("a.csv", {}), ("b.csv", {"layout": "pivot"}), ("c.json", {}), ("d.xlsx", {}),
                          ("e.xlsx", {"layout": "pivot"})):  # fmt: skip
        cells.publish(tmp_path / name, override=WHY, **options)
        text = everything(tmp_path / name)
        for secret in (
            str(P),
            str(K),
            str(LEVEL),
            "percent",
            "threshold",
            "dominance",
            "primary",
            "secondary",
            "required",
            *hidden,
        ):
            found = re.search(rf"(?<![\d.]){re.escape(secret)}(?![\d.])", text)
            assert not found or (name.endswith("xlsx") and len(secret) < 4), (name, secret)
        cells.publish(tmp_path / ("i" + name), internal=True) if "pivot" not in options.values() else None
    inside = (tmp_path / "ia.csv").read_text()
    assert str(LEVEL) in inside and "p-percent" in inside and "secondary" in inside
    assert (tmp_path / "ia.csv").stat().st_mode & 0o077 == 0


def test_values_changed_to_zero_look_like_empty_cells(tmp_path: Path) -> None:
    people = pl.DataFrame({"a": ["x"] * 9 + ["y"] * 6 + ["z"], "b": ["1"] * 8 + ["2"] + ["1"] * 6 + ["2"]})
    cells = dc.tabulate(people, ["a", "b"])
    done = cells.round_controlled(5).cells
    zero = [cells.label(c) for c in np.flatnonzero(done.status.released == 0)]  # type: ignore[arg-type]
    assert zero
    done.publish(tmp_path / "t.csv")
    assert all({k: v for k, v in line.items() if k in "ab"} not in zero for line in long(tmp_path / "t.csv"))
    done.publish(tmp_path / "p.csv", layout="pivot")
    shown = long(tmp_path / "p.csv")
    assert all(text != "" for line in shown for text in line.values())  # y/2 has nobody, x/2 one: both 0 or gone
    done.publish(tmp_path / "t.json")
    codes = json.loads((tmp_path / "t.json").read_text())["variables"]
    assert "z" not in codes[0]["codes"] or done.status.released[cells.index({"a": "z"})] > 0  # type: ignore[index]


def test_linked_tables_are_chosen(tmp_path: Path) -> None:
    people = dc.datasets.census(500, seed=1)
    cells = dc.tabulate(people, [["region", "sex"], ["sex", "education"]], weight=False)
    with pytest.raises(PlanError, match="linked"):
        cells.publish(tmp_path / "p.csv", layout="pivot")
    cells.publish(tmp_path / "p.csv", layout="pivot", table=1)
    assert next(iter(long(tmp_path / "p.csv")[0])) == "sex"
    cells.publish(tmp_path / "l.csv", table=0)
    assert len(long(tmp_path / "l.csv")) == int(cells.in_table[:, 0].sum())


def test_a_table_goes_out_only_if_its_audit_holds(tmp_path: Path) -> None:
    cells, file = suppressed(), tmp_path / "t.csv"
    with pytest.raises(
        RequirementNotMet, match=r"nothing was published\. Against an outsider and .* respondents.*override"
    ):
        cells.publish(file)
    for reason in ("", "  "):
        with pytest.raises(RequirementNotMet):
            cells.publish(file, override=reason)
    done = cells.suppress("levels")
    with pytest.raises(RequirementNotMet, match="audit given is of another table"):
        cells.publish(file, audit=done.audit)
    assert not list(tmp_path.iterdir())
    assert done.holds
    done.cells.publish(file, audit=done.audit)
    done.cells.publish(tmp_path / "again.csv")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["again.csv", "t.csv"]
    cells.publish(tmp_path / "o.csv", override="decided by the board")
    kept = tmp_path / "o.csv.override.json"
    assert json.loads(kept.read_text())["reason"] == "decided by the board" and kept.stat().st_mode & 0o077 == 0
    last_year = done.cells.with_status(lower_required=0 * cells.lower_required, upper_required=0 * cells.upper_required)
    with pytest.raises(RequirementNotMet, match="audit given is of another table"):  # same gaps, other levels
        done.cells.publish(tmp_path / "other.csv", audit=last_year.audit())
    rounded = cells.with_status(secondary=np.zeros(len(cells), np.bool_)).round_controlled(50)
    with pytest.raises(RequirementNotMet, match="no audit was given"):
        rounded.cells.publish(tmp_path / "r.csv")


def test_nothing_is_overwritten_or_half_written(tmp_path: Path) -> None:
    cells = suppressed()
    (tmp_path / "t.csv").write_text("mine")
    with pytest.raises(DataError, match="exists"):
        cells.publish(tmp_path / "t.csv", override=WHY)
    assert (tmp_path / "t.csv").read_text() == "mine"
    cells.publish(tmp_path / "t.csv", override=WHY, overwrite=True)
    for bad in ({"layout": "wide"}, {"table": 3}, {"layout": "pivot", "rows": ["sector", "region"]}):
        with pytest.raises(PlanError):
            cells.publish(tmp_path / "n.csv", override=WHY, **bad)
    with pytest.raises(PlanError, match="format"):
        cells.publish(tmp_path / "t.docx")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["t.csv", "t.csv.override.json"]


def test_codes_are_no_formulas_and_no_other_totals(tmp_path: Path) -> None:
    given = pl.DataFrame({"r": ["=1+1", "@x", "-2", "-y", "a"], "s": ["+z", "b", "b", "b", "+z"], "n": [9] * 5})
    cells = dc.tables.from_cells(given, ["r", "s"], count="n")
    cells.publish(tmp_path / "long.csv")
    assert {line["r"] for line in long(tmp_path / "long.csv")} == {"Total", "'=1+1", "'@x", "-2", "'-y", "a"}
    cells.publish(tmp_path / "pivot.csv", layout="pivot")
    assert list(long(tmp_path / "pivot.csv")[0]) == ["r", "Total", "'+z", "b"]
    cells.publish(tmp_path / "sdmx.csv", layout="sdmx")
    clash = dc.tables.from_cells(given.with_columns(r=pl.Series(["_T", *"abcd"])), ["r", "s"], count="n")
    with pytest.raises(PlanError, match="'r' has a code '_T'"):
        clash.publish(tmp_path / "clash.csv", layout="sdmx")
    assert not (tmp_path / "clash.csv").exists()


def test_an_audit_is_an_audit(tmp_path: Path) -> None:
    cells = suppressed()
    with pytest.raises(PlanError, match="got dict"):
        cells.publish(tmp_path / "t.csv", audit=cells.audit().to_dict())
