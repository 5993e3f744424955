"""`previous:` in table plans: earlier tables and released records, with and without their private journals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discretion as dc
from discretion.release.table_plan import TablePlan
from discretion.release.table_run import TableRelease

SUPPRESS = {"suppress": {"engine": "levels"}}


def people() -> pl.DataFrame:
    """Give eight areas in two towns and two squares of a grid that agree but for one area, where one person lives."""
    area = np.repeat(np.arange(8), [20, 20, 20, 1, 20, 20, 20, 20])
    ill = ["yes" if a == 3 or i % 2 else "no" for i, a in enumerate(area)]
    town = np.where(area < 4, "Ash", "Elm")
    grid = np.where(area < 3, "west", "east")
    return pl.DataFrame({"id": np.arange(len(area)), "town": town, "grid": grid, "ill": ill})


def plan(folder: Path, by: list[str], data: str = "people.csv", protect: Any = SUPPRESS, **more: Any) -> TablePlan:
    content = {
        "data": data,
        "roles": {"id": "identifier"},
        "confirmed": True,
        "table": {"by": by, "rules": [{"threshold": {"minimum": 3}}], "protect": protect},
        **more,
    }
    return TablePlan.from_dict(content, folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    people().write_csv(tmp_path / "people.csv")
    plan(tmp_path, ["town", "ill"]).run().write(tmp_path / "first", tmp_path / "private")
    return tmp_path


def second(folder: Path, place: Any, **options: Any) -> TableRelease:
    return plan(folder, options.pop("by", ["grid", "ill"]), previous=[place], **options).run()


def test_the_public_folder_is_enough_for_the_same_records(folder: Path) -> None:
    assert plan(folder, ["grid", "ill"], protect="none").run().holds
    assert not second(folder, "first", protect="none").holds
    release = second(folder, "first")
    assert release.holds
    text = release.verdicts[0].text
    assert "readers of this table and of 1 earlier release" in text
    assert "only its public files were used" in text
    release.write(folder / "second", folder / "second-private")
    facts = json.loads((folder / "second" / "report.json").read_text())
    assert facts["attackers"][0] == "readers of this table and of 1 earlier release"
    journal = json.loads((folder / "second-private" / "journal.json").read_text())
    assert journal["differences"] == [
        {"who": "grid=east, ill=yes, town=Ash earlier, ill=yes earlier", "status": "protected"}
    ]
    page = (folder / "second-private" / "report.html").read_text()
    assert "Sums that no table shows" in page
    assert "Sums that no table shows" not in (folder / "second" / "report.html").read_text()


def test_a_third_table_beside_two(folder: Path) -> None:
    second(folder, "first").write(folder / "second", folder / "second-private")
    third = plan(folder, ["town", "grid"], protect="none", previous=["first", "second"]).run()
    assert not third.holds
    assert "2 earlier releases" in third.verdicts[0].text


def test_the_journal_is_used_and_says_which_cells_are_sensitive(folder: Path) -> None:
    release = second(folder, {"folder": "first", "journal": "private"})
    assert release.holds
    assert "its journal was used; it was made of the same data" in release.verdicts[0].text
    alone = second(folder, {"journal": "private"})  # the journal knows where its release went
    assert np.array_equal(alone.cells.suppressed, release.cells.suppressed)


def test_another_delivery_is_matched_by_its_people(folder: Path) -> None:
    arrived = pl.DataFrame({"id": [900], "town": ["Elm"], "grid": ["east"], "ill": ["yes"]})
    people().filter(pl.col("id") != 5).vstack(arrived).write_csv(folder / "next.csv")
    options = {"data": "next.csv", "by": ["town", "ill"]}
    with pytest.raises(dc.DataError, match=r"the release 'first' is of other records: \d of its 9 published cells"):
        second(folder, "first", **options)
    place = {"folder": "first", "journal": "private"}
    assert not second(folder, place, protect="none", **options).holds
    release = second(folder, place, **options)
    assert release.holds
    assert "another delivery, whose people were found again" in release.verdicts[0].text
    people().filter(pl.col("id") != 5).vstack(arrived).with_columns(id=pl.col("id") + 5000).write_csv(
        folder / "new.csv"
    )
    with pytest.raises(dc.DataError, match="column 'id' finds nobody of it in this data"):
        second(folder, place, data="new.csv", by=["town", "ill"])
    people().drop("id").write_csv(folder / "nameless.csv")
    with pytest.raises(dc.PlanError, match="its people cannot be found in this one"):
        plan(folder, ["town", "ill"], "nameless.csv", previous=[place], roles={"town": "quasi"}).run()


def test_who_left_after_two_deliveries_is_one_person(folder: Path) -> None:
    place = {"folder": "first", "journal": "private"}
    for number, gone in (("2", [5]), ("3", [5, 9])):
        people().filter(~pl.col("id").is_in(gone)).write_csv(folder / f"{number}.csv")
    beside = plan(folder, ["town", "ill"], "2.csv", previous=[place]).run()
    beside.write(folder / "second", folder / "second-private")
    places = [place, {"folder": "second", "journal": "second-private"}]
    last = plan(folder, ["town", "ill"], "3.csv", previous=places).run()
    assert last.cells.beside is not None
    own = last.cells.beside.own.tolist()
    assert own.count(-1) == 2 and last.cells.beside.source.inner.size == people().height  # 9 was in both deliveries


def test_notes_are_told_where_nothing_is_sensitive(folder: Path) -> None:
    release = second(folder, "first", by=["ill"], protect="none")
    assert release.holds and release.verdicts[0].text.startswith("audit: no cell is sensitive")
    assert "The release 'first': only its public files were used" in release.verdicts[0].text


def test_what_was_changed_is_refused(folder: Path) -> None:
    journal = folder / "private" / "journal.json"
    before = journal.read_text()
    journal.write_text(before.replace("threshold", "threshold "))
    with pytest.raises(dc.DataError, match=r"is not the one of .* or it was changed"):
        second(folder, {"folder": "first", "journal": "private"})
    journal.write_text(before)
    table = folder / "first" / "table.json"
    table.write_text(table.read_text().replace("61", "62"))
    with pytest.raises(dc.DataError, match="is not what was released: its hash is another one"):
        second(folder, "first")


def test_other_divisions_need_the_journal(folder: Path) -> None:
    coarse = people().with_columns(town=pl.lit("both towns"))
    coarse.write_csv(folder / "coarse.csv")
    with pytest.raises(dc.DataError, match="has other divisions than this data"):
        second(folder, "first", data="coarse.csv")


def test_places_that_are_no_release_of_true_values(folder: Path) -> None:
    plan(folder, ["town"], protect={"round-random": {"base": 5}}).run().write(folder / "r", folder / "r-private")
    for place, message in (
        ("nowhere", "is no release of a table: it has no report.json"),
        ({"journal": "nowhere"}, "is no private journal"),
        ("r", r"were changed \(round-random\)"),
    ):
        with pytest.raises(dc.PlanError, match=message):
            second(folder, place)
    with pytest.raises(dc.PlanError, match="not taken into account by round-random: suppress"):
        second(folder, "first", protect={"round-random": {"base": 5}})


def test_released_records_are_a_table_that_anybody_can_make(folder: Path) -> None:
    content = {
        "data": str(folder / "people.csv"),
        "roles": {"id": "identifier", "grid": "identifier", "town": "quasi", "ill": "sensitive"},
        "steps": [{"drop-identifiers": {}}],
        "requirements": "none",
    }
    dc.Plan.from_dict(content).run().write(folder / "records", folder / "records-private")
    assert plan(folder, ["grid", "ill"], protect="none").run().holds
    place = {"journal": "records-private"}
    release = second(folder, place, protect="none")
    assert not release.holds
    assert "everybody can count its records by town, ill" in release.verdicts[0].text
    assert second(folder, place).holds
    with pytest.raises(dc.PlanError, match="of a release of records give the private journal"):
        second(folder, "records")


def test_every_private_file_that_is_used_must_be_the_released_one(folder: Path) -> None:
    (folder / "towns.csv").write_text("Ash,North,all\nElm,South,all\n")
    whole = TablePlan.from_dict(
        {
            "data": "people.csv",
            "confirmed": True,
            "roles": {"id": "identifier"},
            "table": {
                "by": ["town", "ill"],
                "hierarchies": {"town": "towns.csv"},
                "rules": [{"threshold": {"minimum": 3}}],
                "protect": SUPPRESS,
            },
        },
        folder,
    )
    whole.run().write(folder / "tree", folder / "tree-private")
    place = {"folder": "tree", "journal": "tree-private"}
    assert second(folder, place).holds
    journal = json.loads((folder / "tree-private" / "journal.json").read_text())
    assert set(journal["private"]) == {"plan.yaml", "report.html", "seed", "table.csv"} and list(journal["read"]) == [
        "towns.csv"
    ]
    for name, message in (
        ("tree-private/plan.yaml", "is not the plan of this release"),
        ("towns.csv", "hierarchies was changed"),
        ("people.csv", "its data was changed"),
    ):
        file = folder / name
        kept = file.read_text()
        file.write_text(kept.replace("minimum: 3", "minimum: 1") if "plan" in name else kept + "\n")
        with pytest.raises(dc.DataError, match=message):
            second(folder, place)
        file.write_text(kept)
    assert second(folder, place).holds
