"""`discretion table`: makes, gates and publishes tables, and audits those of others."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import discretion as dc
from discretion.release.table_plan import TablePlan
from discretion.tables import formats
from tests.cli.conftest import Cli

PLAN = """
title: People by region
data: people.csv
table:
  by: [region, education]
  rules:
    - threshold: {minimum: 4, range_percent: 30.731}
  protect:
    round-controlled: {base: 5, seconds: 59.0731}
  requirements:
    - mean_change: {at_most: 3.0731}
  output: out
"""
PUBLIC = ["report.html", "report.json", "table-pivot.csv", "table.csv", "table.json", "table.xlsx"]
PRIVATE = ["journal.json", "plan.yaml", "report.html", "seed", "table.csv"]


def put(folder: Path, plan: str = PLAN) -> Path:
    folder.mkdir(exist_ok=True)
    people = dc.datasets.census(700, seed=1).frame.select("person_id", "region", "education", "sex", "income")
    dc.write(people, folder / "people.csv")
    path = folder / "plan.yaml"
    path.write_text(plan, encoding="utf-8")
    return path


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def protect(text: str) -> str:
    return PLAN.replace("round-controlled: {base: 5, seconds: 59.0731}", text)


def test_a_table_is_published_whole_with_its_journal(tmp_path: Path, cli: Cli) -> None:
    done = cli("table", put(tmp_path))
    assert done.code == 0, done.err
    assert names(tmp_path / "out") == PUBLIC and names(tmp_path / "out-private") == PRIVATE
    assert "Information loss" in done.out and "published in" in done.err
    journal = json.loads((tmp_path / "out-private" / "journal.json").read_text())
    assert (
        journal["override"] is None and journal["audit"]["holds"] and journal["rules"][0]["threshold"]["minimum"] == 4
    )
    assert all(file.stat().st_mode & 0o077 == 0 for file in (tmp_path / "out-private").iterdir())
    table = pl.read_csv(tmp_path / "out" / "table.csv")
    assert table["count"].is_in(range(0, 10_000, 5)).all()


def test_public_files_tell_no_parameter(tmp_path: Path, cli: Cli) -> None:
    assert cli("table", put(tmp_path)).code == 0
    for file in (tmp_path / "out").iterdir():
        text = file.read_bytes().decode("utf-8", "replace")
        for secret in ("0731", "threshold", "minimum", "range_percent", "lower_required", "upper_required"):
            assert secret not in text, (file.name, secret)
    inside = (tmp_path / "out-private" / "report.html").read_text()
    assert (
        "30.731" in inside
        and "59.0731" in inside
        and "NOT FOR PUBLICATION" in inside
        and "sensitive: threshold" in inside
    )
    outside = (tmp_path / "out" / "report.html").read_text()
    assert "NOT FOR PUBLICATION" not in outside and "<caption>" in outside and 'scope="row"' in outside
    assert "http://" not in outside and "https://" not in outside and "<script" not in outside


def test_json_is_all_of_stdout(tmp_path: Path, cli: Cli) -> None:
    content = cli("table", put(tmp_path), "--json", "--quiet").json()
    assert content["version"] == 1 and content["protection"] == "round-controlled" and content["suppressed"] == 0
    assert {v["name"] for v in content["verdicts"]} == {"audit", "mean_change"} and content["folder"].endswith("out")


def test_the_same_seed_gives_the_same_table(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "seed").write_text("12345\n")
    path = put(tmp_path, protect("round-random: {base: 10}").replace("minimum: 4, range_percent: 30.731", "minimum: 1"))
    refused = cli("table", path, "--seed-file", tmp_path / "seed", "--override", "a test")
    assert refused.code == 2 and "small seed" in refused.err and not (tmp_path / "out").exists()
    (tmp_path / "seed").write_text("0x" + "0123456789abcdef" * 2 + "\n")
    for out in ("one", "two"):
        assert (
            cli("table", path, "--seed-file", tmp_path / "seed", "--out", tmp_path / out, "--override", "a test").code
            == 0
        )
    assert (tmp_path / "one" / "table.csv").read_bytes() == (tmp_path / "two" / "table.csv").read_bytes()


def test_a_table_that_fails_its_audit_is_not_published(tmp_path: Path, cli: Cli) -> None:
    path = put(tmp_path, protect("none").replace("- mean_change: {at_most: 3.0731}", "- suppressed: {at_most: 100}"))
    before = names(tmp_path)
    done = cli("table", path, "--json")
    assert done.code == 4 and done.json()["error"]["kind"] == "RequirementNotMet" and names(tmp_path) == before
    assert "audit" in done.err and "--override" in done.err
    assert cli("table", path, "--override", "  ").code == 2 and names(tmp_path) == before


def test_an_override_publishes_and_is_recorded(tmp_path: Path, cli: Cli) -> None:
    path = put(tmp_path, protect("none").replace("- mean_change: {at_most: 3.0731}", "- suppressed: {at_most: 100}"))
    done = cli("table", path, "--override", "the director decided on 3 May")
    assert done.code == 0
    journal = json.loads((tmp_path / "out-private" / "journal.json").read_text())
    assert journal["override"] == {"reason": "the director decided on 3 May"} and not journal["audit"]["holds"]
    for file in (tmp_path / "out").iterdir():
        assert b"director" not in file.read_bytes()
    assert "verdict" not in json.loads((tmp_path / "out" / "report.json").read_text())


def test_a_requirement_can_stop_a_table(tmp_path: Path, cli: Cli) -> None:
    done = cli("table", put(tmp_path, PLAN.replace("3.0731", "0.0731")))
    assert done.code == 4 and "mean_change: reached" in done.err and not (tmp_path / "out").exists()


def test_force_dry_run_and_existing_folders(tmp_path: Path, cli: Cli) -> None:
    path = put(tmp_path)
    assert cli("table", path, "--dry-run").code == 0 and not (tmp_path / "out").exists()
    assert cli("table", path).code == 0
    assert cli("table", path).code == 3
    assert cli("table", path, "--force").code == 0
    (tmp_path / "out" / "thesis.doc").write_text("mine")
    assert cli("table", path, "--force").code == 3 and (tmp_path / "out" / "thesis.doc").exists()


def test_every_fault_of_a_plan_is_told_at_once(tmp_path: Path, cli: Cli) -> None:
    plan = (
        PLAN.replace("threshold: {minimum: 4", "threshold: {minimum: -4")
        .replace("base: 5", "bass: 5")
        .replace("at_most", "at_moist")
        .replace("by: [region, education]", "buy: [region, education]")
    )
    done = cli("table", put(tmp_path, plan))
    assert done.code == 2
    for words in ("minimum", "did you mean 'base'", "'base' is required", "at_most", "did you mean 'by'", "line"):
        assert words in done.err, words


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  rules:", "  top: many\n  rules:", "table.top): input should be a valid integer"),
        ("  rules:", "  missing: drop\n  rules:", "table.missing)"),
        ("  rules:", "  contributor: 5\n  rules:", "table.contributor)"),
        ("by: [region, education]", "by: [[region, 5]]", "table.by): expected names of columns"),
        ("base: 5,", "base: five,", "round-controlled.base): base: input should be a valid number"),
        ("  output: out", "  audit: {seconds: soon}\n  output: out", "table.audit.seconds)"),
        ("  output: out", "  marks: [{saif: {region: A}}]\n  output: out", "did you mean 'safe'"),
        ("mean_change", "mean_chance", "did you mean 'mean_change'"),
        ("  output: out", "  output: {folder: out, formats: 5}", "table.output.formats)"),
    ],
)
def test_wrong_values_in_a_plan_are_told_before_anything_is_read(
    tmp_path: Path, cli: Cli, old: str, new: str, message: str
) -> None:
    path = put(tmp_path, PLAN.replace(old, new))
    (tmp_path / "people.csv").unlink()
    done = cli("table", path)
    assert done.code == 2 and message in done.err


def test_a_figure_that_the_protection_does_not_have(tmp_path: Path, cli: Cli) -> None:
    done = cli("table", put(tmp_path, PLAN.replace("mean_change", "mean_interval")))
    assert done.code == 2 and "has no figure 'mean_interval'" in done.err and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "how", ["adjust: {seconds: 5}", "perturb: {variance: 4, maximum: 6, forbidden: 2}",
            "perturb: {variance: 4, maximum: 6, forbidden: 2, key_file: key, key_by: [person_id]}",
            "round-random: {base: 12}", "restructure: {}"]
)  # fmt: skip
def test_other_protections(tmp_path: Path, cli: Cli, how: str) -> None:
    (tmp_path / "key").write_bytes(bytes(range(40)))
    plan = protect(how).replace("- mean_change: {at_most: 3.0731}", "- suppressed: {at_most: 0}")
    plan = plan.replace("range_percent: 30.731", "range_percent: 0")
    if how.startswith("perturb"):  # the seed is a new one every time, and so is what may be believed
        plan = plan.replace("  output: out", "  audit: {chance_percent: 100}\n  output: out")
        if "key_file" not in how:
            assert cli("seed", "new", tmp_path / "kept").code == 0
            plan = "seed_file: kept\n" + plan
    done = cli("table", put(tmp_path, plan), "--out", tmp_path / "o")
    assert done.code in (0, 4), done.err
    if how.startswith(("perturb", "restructure")):
        assert done.code == 0, done.err
    if how.startswith("adjust"):  # nothing is proved against readers who know the method: a person must decide
        assert done.code == 4 and "who know how values are adjusted" in done.err and not (tmp_path / "o").exists()
        done = cli("table", tmp_path / "plan.yaml", "--out", tmp_path / "o", "--override", "only an illustration")
        report = json.loads((tmp_path / "o" / "report.json").read_text())
        assert done.code == 0 and "verdict" not in report
        assert report["attackers"] == ["readers who take the values as they are"]


def test_keys_that_nobody_keeps_are_refused(tmp_path: Path, cli: Cli) -> None:
    """Every run would draw other noise for the same cells; the mean of some releases is the truth."""
    path = put(tmp_path, protect("perturb: {variance: 4, maximum: 6, forbidden: 2}"))
    done = cli("table", path)
    assert done.code == 2 and "discretion seed new" in done.err and not (tmp_path / "out").exists()
    plan = TablePlan.load(path)
    with pytest.raises(dc.PlanError, match="mean of several releases"):
        plan.run(seed=5)
    assert cli("seed", "new", tmp_path / "kept").code == 0
    kept = TablePlan.from_dict({**plan.source.content, "seed_file": "kept"}, tmp_path)
    one, two = (kept.run().cells.status.released for _ in range(2))
    assert one is not None and two is not None and (one == two).all()


def test_noise_that_changes_next_to_nothing_is_not_published(tmp_path: Path, cli: Cli) -> None:
    plan = protect("perturb: {variance: 0.01, maximum: 5}").replace(
        "mean_change: {at_most: 3.0731}", "cells: {at_least: 9}"
    )
    assert cli("seed", "new", tmp_path / "kept").code == 0
    plan = "seed_file: kept\n" + plan
    done = cli("table", put(tmp_path, plan))
    assert done.code == 4 and "law of the noise" in done.err and not (tmp_path / "out").exists()
    for chance, code in ((100, 0), (0, 2)):
        said = plan.replace("  output: out", f"  audit: {{chance_percent: {chance}}}\n  output: out")
        (tmp_path / "plan.yaml").write_text(said, encoding="utf-8")
        done = cli("table", tmp_path / "plan.yaml")
        assert done.code == code and ("chance_percent" in done.err) == (code == 2), done.err


def test_records_can_be_edited_before_they_are_counted(tmp_path: Path, cli: Cli) -> None:
    steps = (
        "roles: {person_id: identifier, region: geography, education: quasi}\nsteps:\n  - sample: {share: 0.5}\ntable:"
    )
    edited = put(tmp_path, PLAN.replace("table:", steps))
    done = cli("table", edited, "--json", "--quiet", "--override", "only the count of records is looked at")
    assert done.code == 0, done.err
    table = pl.read_csv(tmp_path / "out" / "table.csv")
    assert table["count"][0] == 350


def test_audit_of_a_table_from_elsewhere(tmp_path: Path, cli: Cli) -> None:
    given = pl.DataFrame(
        {
            "row": ["a", "a", "b", "b", "Total", "Total", "a", "b", "Total"],
            "col": ["x", "y", "x", "y", "x", "y", "Total", "Total", "Total"],
            "n": [None, 4, 5, 9, 8, 13, 7, 14, 21],
            "s": ["u", "", "", "", "", "", "", "", ""],
        }
    )
    given.write_csv(tmp_path / "t.csv")
    done = cli("table", "audit", tmp_path / "t.csv", "--by", "row,col", "--value", "n", "--status", "s", "--json")
    assert done.code == 4 and done.json()["cells"]["disclosed"] == 1 and done.json()["holds"] is False
    safe = given.with_columns(
        n=pl.when((pl.col("row") != "Total") & (pl.col("col") != "Total")).then(None).otherwise(pl.col("n")),
        s=pl.when((pl.col("row") != "Total") & (pl.col("col") != "Total")).then(pl.lit("x")).otherwise(pl.lit("")),
    ).with_columns(s=pl.when((pl.col("row") == "a") & (pl.col("col") == "x")).then(pl.lit("u")).otherwise(pl.col("s")))
    safe.write_csv(tmp_path / "u.csv")
    done = cli("table", "audit", tmp_path / "u.csv", "--by", "row,col", "--value", "n", "--status", "s")
    assert done.code == 0 and "holds" in done.err
    assert cli("table", "audit", tmp_path / "u.csv").code == 2
    published = safe.with_columns(s=pl.col("s").replace({"u": "c", "x": "c"}))
    published.write_csv(tmp_path / "c.csv")
    done = cli("table", "audit", tmp_path / "c.csv", "--by", "row,col", "--value", "n", "--status", "s", "--json")
    assert done.code == 0 and sum(done.json()["cells"].values()) == 4
    published.with_columns(s=pl.col("s").replace("c", "x")).write_csv(tmp_path / "x.csv")
    done = cli("table", "audit", tmp_path / "x.csv", "--by", "row,col", "--value", "n", "--status", "s")
    assert done.code == 2 and "nothing can be audited" in done.err
    done = cli("table", "audit", tmp_path / "u.csv", "--by", "row,col", "--value", "n", "--hierarchy", "row")
    assert done.code == 2 and "NAME=FILE" in done.err


def test_audit_of_linked_tables_from_elsewhere(tmp_path: Path, cli: Cli) -> None:
    """All of r × c is hidden, but nobody of a is in q and nobody of x is in p: nobody is in a and x."""
    inner = [("a", "x", None, None, "u"), ("a", "y", None, None, "x")]
    inner += [("b", "x", None, None, "x"), ("b", "y", None, None, "x")]
    totals = [("a", None, None, 7, ""), ("b", None, None, 14, ""), (None, "x", None, 8, ""), (None, "y", None, 13, "")]
    others = [(None, None, None, 21, ""), (None, None, "p", 13, ""), (None, None, "q", 8, "")]
    by_rs = [("a", None, "p", 7, ""), ("a", None, "q", 0, ""), ("b", None, "p", 6, ""), ("b", None, "q", 8, "")]
    by_cs = [(None, "x", "p", 0, ""), (None, "x", "q", 8, ""), (None, "y", "p", 13, ""), (None, "y", "q", 0, "")]
    options = ("--value", "n", "--status", "status", "--json", "--quiet", "--by", "r,c", "--by", "r,s")
    names = {"r": pl.String, "c": pl.String, "s": pl.String, "n": pl.Int64, "status": pl.String}
    for more, by, code, status in (([], (), 0, "protected"), (by_cs, ("--by", "c,s"), 4, "disclosed")):
        rows = [*inner, *totals, *others, *by_rs, *more]
        pl.DataFrame(rows, schema=names, orient="row").write_csv(tmp_path / f"{status}.csv")
        done = cli("table", "audit", tmp_path / f"{status}.csv", *options, *by)
        assert done.code == code and done.json()["cells"][status] == 1, done.err


def test_audit_of_a_tau_argus_table(tmp_path: Path, cli: Cli) -> None:
    people = dc.datasets.census(300, seed=1)
    cells = dc.tabulate(people, ["region", "sex"], weight=False).apply_rules([dc.Threshold(minimum=5)])
    formats.write_argus_table(cells, tmp_path / "t.tab")
    done = cli("table", "audit", tmp_path / "t.rda", "--json", "--quiet")
    assert done.code in (0, 4) and sum(done.json()["cells"].values()) == int(cells.primary.sum())
    ruled = cli("table", "audit", tmp_path / "t.rda", "--rule", "threshold:{minimum: 6}", "--json", "--quiet")
    assert sum(ruled.json()["cells"].values()) >= int(cells.primary.sum())


def test_suppression_in_a_plan(tmp_path: Path, cli: Cli) -> None:
    plan = protect("suppress: {engine: levels}").replace(
        "- mean_change: {at_most: 3.0731}", "- suppressed_percent: {at_most: 90}"
    )
    done = cli("table", put(tmp_path, plan), "--json", "--quiet")
    assert done.code == 0, done.err
    table = pl.read_csv(tmp_path / "out" / "table.csv")
    assert (table["status"] == "c").sum() == done.json()["suppressed"] > 0
    assert table.filter(pl.col("status") == "c")["count"].null_count() == done.json()["suppressed"]
    wrong = cli("table", put(tmp_path / "x", plan.replace("engine: levels", "engine: lavels")))
    assert wrong.code == 2 and "levels" in wrong.err


READY = """
data: cells.csv
table:
  by: [row, col]
  value: v
  cells: {count: n}
  rules:
    - threshold: {minimum: 3}
    - p-percent: {percent: 10, negatives: refuse}
  protect: {suppress: {engine: levels}}
  audit: {attacker: outsider}
  output: {folder: out, formats: [csv, sdmx, html]}
"""


def test_cells_from_elsewhere_stand_in_a_plan(tmp_path: Path, cli: Cli) -> None:
    given = pl.DataFrame(
        {"row": list("aaabbb"), "col": list("xyzxyz"), "v": [10, 200, 300, 250, 90, 400], "n": [1, 20, 30, 25, 9, 40]}
    )
    given.write_csv(tmp_path / "cells.csv")
    (tmp_path / "plan.yaml").write_text(READY.replace("    - p-percent: {percent: 10, negatives: refuse}\n", ""))
    done = cli("table", tmp_path / "plan.yaml")
    assert done.code == 0, done.err
    wanted = dc.tables.from_cells(given, ["row", "col"], "v", count="n").apply_rules([dc.Threshold(minimum=3)])
    wanted = wanted.suppress("levels", audit={"attacker": "outsider"}).cells
    out = pl.read_csv(tmp_path / "out" / "table.csv")
    assert out["status"].fill_null("").to_list() == ["c" if hidden else "" for hidden in wanted.suppressed]
    sdmx = pl.read_csv(tmp_path / "out" / "table-sdmx.csv", infer_schema=False)
    assert sdmx.columns == [
        "STRUCTURE", "STRUCTURE_ID", "ACTION", "ROW", "COL", "OBS_VALUE", "OBS_STATUS", "CONF_STATUS",
    ]  # fmt: skip
    assert sdmx.row(0) == ("dataflow", "LOCAL:V(1.0)", "I", "_T", "_T", "1250", "A", "F")
    hidden = sdmx.filter(pl.col("CONF_STATUS") == "C")
    assert len(hidden) == wanted.suppressed.sum() and hidden["OBS_VALUE"].null_count() == len(hidden)
    assert set(hidden["OBS_STATUS"]) == {"Q"} and set(sdmx["CONF_STATUS"]) == {"C", "F"}
    journal = json.loads((tmp_path / "out-private" / "journal.json").read_text())
    assert journal["rules"] == [{"threshold": {"minimum": 3, "zeros": "safe", "range_percent": 30}}]
    assert journal["reached"]["engine"]["levels"]["singletons"] is True


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("cells: {count: n}", "cells: {counts: n}", "did you mean 'count'"),
        ("cells: {count: n}", "cells: {count: n}\n  weight: w", "is for records"),
        ("  value: v\n  cells: {count: n}", "  cells: true", "`count` is required"),
        ("cells: {count: n}", "cells: 3", "expected true"),
        ("data: cells.csv", "data: cells.csv\nsteps:\n  - sample: {share: 0.5}", "steps change records"),
        ("formats: [csv, sdmx, html]", "formats: [sdmx-csv]", "format"),
    ],
)
def test_faults_of_plans_for_cells_are_told(old: str, new: str, message: str, tmp_path: Path, cli: Cli) -> None:
    pl.DataFrame({"row": ["a"], "col": ["x"], "v": [1], "n": [1]}).write_csv(tmp_path / "cells.csv")
    (tmp_path / "plan.yaml").write_text(READY.replace(old, new))
    done = cli("table", tmp_path / "plan.yaml")
    assert done.code == 2 and message in done.err


def test_the_page_folds_and_tells_reasons_to_the_owner_only(tmp_path: Path, cli: Cli) -> None:
    rows = [(f"{g}{k}", c, 40, 20) for g in "abcdefgh" for k in range(5) for c in "xyz"]
    rows[0] = ("a0", "x", 10, 1)
    pl.DataFrame(rows, ["row", "col", "v", "n"], orient="row").write_csv(tmp_path / "cells.csv")
    tree = "{" + ", ".join(f"{g}: [{', '.join(f'{g}{k}' for k in range(5))}]" for g in "abcdefgh") + "}"
    plan = READY.replace("    - p-percent: {percent: 10, negatives: refuse}\n", "")
    (tmp_path / "plan.yaml").write_text(plan.replace("  rules:", f"  hierarchies: {{row: {tree}}}\n  rules:"))
    done = cli("table", tmp_path / "plan.yaml")
    assert done.code == 0, done.err
    public, private = ((tmp_path / f / "report.html").read_text() for f in ("out", "out-private"))
    for page in (public, private):
        assert page.count('class="fold" aria-label') == 8 and page.count('data-level="2"') == 40
        assert page.count("<tbody>\n<tr data-level=") == 9 and 'class="all"' in page and "<script" not in page
        assert "level by level" in page and "row, level 2: " in page
    assert "sensitive: threshold" in private and "for others" in private
    assert "threshold" not in public and "for others" not in public


def test_a_table_is_written_as_its_data_and_without_rounding_errors(tmp_path: Path, cli: Cli) -> None:
    sectors = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]
    lines = [f"{r};{s};0,{cents}" for r, s in sectors for cents in (1, 2, 7) for _ in range(7)]
    (tmp_path / "data.csv").write_text("\n".join(["region;sector;pay", *lines]) + "\n")
    plan = "data: data.csv\ntable:\n  by: [region, sector]\n  value: pay\n  rules:\n    - threshold: {minimum: 3}\n"
    plan += "  protect: {suppress: {engine: levels}}\n  output: {folder: out, formats: [csv, pivot, sdmx, json]}\n"
    (tmp_path / "plan.yaml").write_text(plan)
    assert cli("table", tmp_path / "plan.yaml").code == 0
    assert (tmp_path / "out" / "table.csv").read_text().splitlines()[:3] == [
        "region;sector;pay;status", "Total;Total;28;", "Total;x;14;",
    ]  # fmt: skip
    (tmp_path / "data.csv").write_text("\n".join(["region;sector;pay", *lines, "a;x;0,01"]) + "\n")
    assert cli("table", tmp_path / "plan.yaml", "--force").code == 0
    assert (tmp_path / "out" / "table.csv").read_text().splitlines()[1] == "Total;Total;28,01;"
    assert (tmp_path / "out" / "table-pivot.csv").read_text().splitlines()[1].startswith("Total;28,01;")
    assert ",28.01," in (tmp_path / "out" / "table-sdmx.csv").read_text()  # SDMX has a dialect of its own
