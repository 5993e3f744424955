"""`discretion roles IN`: proposals with reasons, and a plan that does not run before it was confirmed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

import discretion as dc
from discretion.data.write import write
from tests.cli.conftest import Cli
from tests.release.survey import survey


def test_roles_are_proposed_with_reasons(tmp_path: Path, cli: Cli) -> None:
    survey().write_csv(tmp_path / "survey.csv")
    done = cli("roles", tmp_path / "survey.csv", "--json")
    proposals = {item["column"]: item for item in done.json()["roles"]}
    assert list(proposals) == survey().columns
    assert proposals["person_id"]["role"] == "identifier" and proposals["age"]["role"] == "quasi"
    assert proposals["income"]["role"] == "sensitive" and proposals["income"]["distinct"] == 240
    assert all(item["reason"] for item in proposals.values())
    assert "P-0" not in done.out + done.err  # no reason quotes a cell
    table = cli("roles", tmp_path / "survey.csv").out
    assert "person_id" in table and "identifier" in table and "240 rows" in table


@pytest.mark.parametrize("folder", ["", "plans", "plans/deep"])
def test_the_plan_runs_only_after_it_was_confirmed(
    tmp_path: Path, cli: Cli, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / folder).mkdir(exist_ok=True, parents=True)
    survey().rename({"sex": "no", "region": "a: b #c"}).write_csv(tmp_path / "raw" / "survey.csv", separator=";")
    monkeypatch.chdir(tmp_path)
    plan = Path(folder) / "plan.yaml"
    assert cli("roles", "raw/survey.csv", "--out", plan, "--delimiter", ";").code == 0
    done = cli("run", plan)
    assert done.code == 2 and "confirmed: true" in done.err and not (plan.parent / "release").exists()
    plan.write_text(plan.read_text().replace("confirmed: false", "confirmed: true"))
    done = cli("run", plan)
    assert done.code == 0, done.err
    header = (plan.parent / "release" / "data.csv").read_text().partition("\n")[0]
    assert header == "age;no;a: b #c;income;savings"
    assert "k-anonymity: reached" in done.out and "FAILS" not in done.out


def test_a_labelled_file_runs_after_confirmation(tmp_path: Path, cli: Cli) -> None:
    number, woman = pl.int_range(pl.len()).cast(pl.Float64), (pl.col("sex") == "f").cast(pl.Float64)
    frame = survey().select("age", "income", respondent=number, gender=woman + 1)
    schema = dc.Dataset(frame).schema.with_column("gender", value_labels={1.0: "man", 2.0: "woman"})
    write(dc.Dataset(frame, schema=schema), tmp_path / "survey.sav")
    plan = tmp_path / "plan.yaml"
    assert cli("roles", tmp_path / "survey.sav", "--out", plan).code == 0
    text = plan.read_text()
    assert "respondent: identifier" in text and "gender: nominal" in text and "drop-identifiers" in text
    plan.write_text(text.replace("confirmed: false", "confirmed: true"))
    assert cli("run", plan).code == 0
    left = text.replace("confirmed: false", "confirmed: true").replace("  respondent: identifier", "  # respondent")
    plan.write_text(left.replace("  - drop-identifiers\n", "").replace("folder: release", "folder: other"))
    done = cli("run", plan)
    assert done.code == 2 and "'respondent' has no role and looks like an identifier" in done.err


def test_a_file_with_nothing_to_protect_by_gets_a_plan_that_says_so(tmp_path: Path, cli: Cli) -> None:
    pl.DataFrame({"income": [1000, 2000, 3000] * 80}).write_csv(tmp_path / "survey.csv")
    plan = tmp_path / "plan.yaml"
    assert cli("roles", tmp_path / "survey.csv", "--out", plan).code == 0
    assert "\nsteps: none\n" in plan.read_text() and "\nrequirements: none\n" in plan.read_text()
    assert cli("run", plan).code == 2
    plan.write_text(plan.read_text().replace("confirmed: false", "confirmed: true"))
    done = cli("run", plan)
    assert done.code == 0 and "published without steps and requirements in" in " ".join(done.err.split())


def test_a_file_of_amounts_alone_gets_groups_that_nobody_can_tell_apart(tmp_path: Path, cli: Cli) -> None:
    """Firms: whoever knows an amount finds the record, though no column is a quasi-identifier."""
    rng = np.random.default_rng(5)
    amounts = np.exp(9 + rng.normal(size=(300, 1)) + 0.4 * rng.normal(size=(300, 3))).round()
    frame = pl.DataFrame(amounts, schema=["turnover", "profit", "wages"]).cast(pl.Int64)
    text = _proposed(frame, tmp_path, cli)
    assert "mdav: {columns: [turnover, profit, wages], k: 5, precision: original}" in text
    done = cli("run", tmp_path / "plan.yaml")
    assert done.code == 0, done.err
    released = pl.read_csv(tmp_path / "release" / "data.csv")
    assert released.group_by(released.columns).len()["len"].min() >= 5
    known = dc.DistanceLinkage(columns=frame.columns, intruder={"knows_method": True})
    assert known(frame, dc.Mdav(columns=frame.columns, k=5, precision="original")(frame, seed=1)).value <= 0.2


def test_a_second_file_gets_a_folder_of_its_own(tmp_path: Path, cli: Cli) -> None:
    """Else the advice to overwrite would take the journal of the first release with it."""
    for name, folder in (("first", "release"), ("second", "second-release")):
        survey().write_csv(tmp_path / f"{name}.csv")
        plan = tmp_path / f"{name}.yaml"
        assert cli("roles", tmp_path / f"{name}.csv", "--out", plan).code == 0
        assert yaml.safe_load(plan.read_text())["output"] == folder
        plan.write_text(plan.read_text().replace("confirmed: false", "confirmed: true"))
        done = cli("run", plan)
        assert done.code == 0 and (tmp_path / folder / "data.csv").exists(), done.err
    assert (tmp_path / "release-private").is_dir() and (tmp_path / "second-release-private").is_dir()


def test_a_file_without_identifiers_gets_no_step_that_needs_them(tmp_path: Path, cli: Cli) -> None:
    survey().select("age", "sex", "income").write_csv(tmp_path / "survey.csv")
    plan = tmp_path / "plan.yaml"
    assert cli("roles", tmp_path / "survey.csv", "--out", plan).code == 0
    assert "drop-identifiers" not in plan.read_text()
    plan.write_text(plan.read_text().replace("confirmed: false", "confirmed: true"))
    assert cli("run", plan).code == 0


def test_an_existing_plan_is_kept_unless_forced(tmp_path: Path, cli: Cli) -> None:
    survey().write_csv(tmp_path / "survey.csv")
    plan = tmp_path / "plan.yaml"
    plan.write_text("mine")
    done = cli("roles", tmp_path / "survey.csv", "--out", plan)
    assert done.code == 3 and "--force" in done.err and plan.read_text() == "mine"
    assert cli("roles", tmp_path / "survey.csv", "--out", plan, "--force").code == 0
    assert "confirmed: false" in plan.read_text()


def _confirmed(plan: Path) -> str:
    text = plan.read_text(encoding="utf-8").replace("confirmed: false", "confirmed: true")
    plan.write_text(text, encoding="utf-8")
    return text


def _hospital(n: int = 1500) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    age = np.clip(rng.normal(55, 20, n), 0, 101).astype(int)
    admitted = [dt.date(2024, 1, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 366, n)]
    born = [day - dt.timedelta(days=int(years * 365.25) + 90) for day, years in zip(admitted, age, strict=True)]
    return pl.DataFrame(
        {
            "Fallnummer": np.arange(n) * 7 + 100_000,
            "Patientenname": [f"Müller, Käthe {i}" for i in range(n)],
            "Geburtsdatum": [day.strftime("%d.%m.%Y") for day in born],
            "Alter": age,
            "Geschlecht": rng.choice(["m", "w"], n),
            "PLZ": rng.choice(["80331", "80469", "81541", "86150", "01067"], n, p=[0.4, 0.3, 0.2, 0.09, 0.01]),
            "Aufnahmedatum": [day.strftime("%d.%m.%Y") for day in admitted],
            "Hauptdiagnose": rng.choice(["I21.4", "E11.9", "J44.1", "C50.9"], n),
            "HIV": rng.choice(["nein", "ja"], n, p=[0.99, 0.01]),
            "Kosten_EUR": [f"{x:.2f}".replace(".", ",") for x in rng.lognormal(8, 0.7, n)],
        }
    )


def test_a_hospital_file_becomes_a_release_with_what_matters_left(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "fälle.csv").write_bytes(_hospital().write_csv(separator=";").encode("cp1252"))
    plan = tmp_path / "plan.yaml"
    assert cli("roles", tmp_path / "fälle.csv", "--out", plan).code == 0
    text = _confirmed(plan)
    assert "HIV" in text.partition("requirements:")[0].rpartition("# Nearly all")[2]  # a second value is not asked for
    assert "sensitive: HIV}" not in text and "sensitive: Hauptdiagnose}" in text
    levels = "# codes: level 2 leaves three characters, level 4 the first"
    assert f'  Hauptdiagnose: {{"masking": {{}}}}  {levels}' in text, "`generalize` can be put in without writing one"
    assert "shuffle: {columns: [Kosten_EUR], predictors: [Alter, Geschlecht, PLZ, Hauptdiagnose, HIV]}" in text
    assert (
        "top-code: {column: Kosten_EUR" in text and "levels: {PLZ: [2, null]}" in text and "Geburtsdatum: 0.1" in text
    )
    done = cli("run", plan)
    assert done.code == 0, done.err
    assert "nothing is left of Geburtsdatum" in " ".join(done.err.split())
    data = dc.read(tmp_path / "release" / "data.csv").frame
    assert data.columns == _hospital().columns[2:]  # no number, no name
    assert data["Alter"].n_unique() >= 3 and data["Geschlecht"].n_unique() == 2  # what tables are made by is left
    quasi = ["Geburtsdatum", "Alter", "Geschlecht", "PLZ", "Aufnahmedatum"]
    assert data.group_by(quasi).len()["len"].min() >= 5
    assert set(data["PLZ"].str.tail(2)) == {"**"} and len(data) >= 0.95 * 1500
    cost = _hospital()["Kosten_EUR"].str.replace(",", ".").cast(float)
    new = set(data["Kosten_EUR"]) - set(cost)
    assert len(new) == 2 and max(new) == data["Kosten_EUR"].max() < cost.max()  # the means of the tails


def test_weights_are_issued_anew_and_labels_kept(tmp_path: Path, cli: Cli) -> None:
    rng = np.random.default_rng(2)
    n = 900
    frame = pl.DataFrame(
        {
            "alter": rng.integers(18, 95, n).astype(float),
            "v2": rng.integers(1, 3, n).astype(float),
            "gewicht": rng.uniform(0.5, 2, n).round(4),
        }
    )
    schema = dc.Dataset(frame).schema.with_column("v2", value_labels={1.0: "männlich", 2.0: "weiblich"})
    data = dc.Dataset(frame, schema=schema.with_column("v2", label="Geschlecht"))
    write(data, tmp_path / "in.sav")
    plan = tmp_path / "plan.yaml"
    assert cli("roles", tmp_path / "in.sav", "--out", plan).code == 0
    assert 'reissue-weights: {by: [alter, "v2"], smallest: 5}' in _confirmed(plan)
    assert cli("run", plan).code == 0
    released = dc.read(tmp_path / "release" / "data.sav")
    assert released.schema["v2"].value_labels == {1.0: "männlich", 2.0: "weiblich"}
    classes = released.frame.group_by("alter", "v2").agg(pl.col("gewicht").n_unique(), pl.len())
    assert classes["gewicht"].max() == 1 and classes["len"].min() >= 5


def test_many_columns_known_to_an_intruder_are_remarked(tmp_path: Path, cli: Cli) -> None:
    rng = np.random.default_rng(1)
    pl.DataFrame({f"q{i}": rng.integers(1, 6, 50) for i in range(12)}).write_csv(tmp_path / "in.csv")
    done = cli("roles", tmp_path / "in.csv", "--out", tmp_path / "plan.yaml")
    assert "12 columns count as known to an intruder" in " ".join(done.err.split())
    assert "# 12 columns count as known" in (tmp_path / "plan.yaml").read_text()


def _proposed(frame: pl.DataFrame, folder: Path, cli: Cli) -> str:
    frame.write_csv(folder / "in.csv")
    assert cli("roles", folder / "in.csv", "--out", folder / "plan.yaml", "--force").code == 0
    return _confirmed(folder / "plan.yaml")


def test_sets_of_codes_are_generalized_and_other_sets_left_out(tmp_path: Path, cli: Cli) -> None:
    rng = np.random.default_rng(3)
    n = 600
    chosen = [rng.choice(6, 2, replace=False) for _ in range(n)]
    frame = pl.DataFrame(
        {
            "age": rng.integers(20, 80, n),
            "diagnoses": ["|".join(f"{'AB'[i % 2]}{i}" for i in sorted(pair)) for pair in chosen],
            "visited": ["|".join(["the lake", "a hill", "some town"][i % 3] for i in pair) for pair in chosen],
        }
    )
    text = _proposed(frame, tmp_path, cli)
    assert "km-generalization: {columns: [diagnoses], k: 5, m: 2, item_hierarchy: {masking: {}}" in text
    assert "  - km-anonymity: {k: 5, m: 2, columns: [diagnoses]}" in text.partition("requirements:")[2]
    assert "distance-linkage: {columns: [age, diagnoses]" in text.partition("requirements:")[2]
    assert "drop-identifiers: {columns: [visited]}" in text and "# visited: sets of items" in text
    done = cli("run", tmp_path / "plan.yaml")
    assert done.code == 0, done.err
    assert dc.read(tmp_path / "release" / "data.csv").columns == ("age", "diagnoses")


def test_a_stratum_that_tells_what_gets_less_detail_is_left_out(tmp_path: Path, cli: Cli) -> None:
    rng = np.random.default_rng(4)
    frame = (
        survey()
        .drop("person_id")
        .with_columns(
            stratum=pl.concat_str("region", pl.Series(rng.choice(["-u", "-r"], survey().height))),
            psu=pl.Series(rng.choice(["a", "b", "c"], survey().height)),
            familiennummer=pl.Series(10_000 + 7 * (np.arange(survey().height) // 2)),
        )
    )
    frame.write_csv(tmp_path / "survey.csv")
    assert cli("roles", tmp_path / "survey.csv", "--out", tmp_path / "plan.yaml").code == 0
    text = (tmp_path / "plan.yaml").read_text()
    assert "stratum: it tells region of nearly everybody" in text
    assert "drop-identifiers: {columns: [stratum, familiennummer]}" in text  # psu tells nothing and stays
    (tmp_path / "plan.yaml").write_text(text.replace("confirmed: false", "confirmed: true"))
    done = cli("run", tmp_path / "plan.yaml")
    assert "which was protected" not in done.err and done.code in (0, 4), done.err


def test_numbers_of_a_household_are_moved_and_its_number_left_out(tmp_path: Path, cli: Cli) -> None:
    rng = np.random.default_rng(4)
    homes = np.repeat(np.arange(300), 4)
    frame = pl.DataFrame(
        {
            "hhid": homes + 5000,
            "age": rng.integers(0, 90, 1200),
            "sex": rng.choice(["f", "m"], 1200),
            "hhincome": rng.integers(10_000, 99_000, 300)[homes],
        }
    )
    text = _proposed(frame, tmp_path, cli)
    assert "drop-identifiers: {columns: [hhid]}" in text and "household-k-anonymity" in text
    assert "shuffle: {columns: [hhincome], predictors: [age, sex]}" in text
    done = cli("run", tmp_path / "plan.yaml")
    assert done.code == 0, done.err
    assert "distance-linkage: {columns: [age, sex, hhincome], at_most: 0.2}" in text  # and it was met
    assert "# at_most: every sensitive column is dealt out anew, so that 0.2 can be asked for" in text
    assert "hhid" not in dc.read(tmp_path / "release" / "data.csv").columns


def test_what_no_step_protects_is_left_out_and_rare_categories_are_pooled(tmp_path: Path, cli: Cli) -> None:
    rng = np.random.default_rng(6)
    n = 800
    frame = pl.DataFrame(
        {
            "age": rng.integers(20, 80, n),
            "uhrzeit": [
                f"{h:02d}:{m:02d}" for h, m in zip(rng.integers(0, 24, n), rng.integers(0, 60, n), strict=True)
            ],
            "diagnose": ["Lepra"] * 2 + ["Pest"] * 3 + rng.choice(["Grippe", "Husten"], n - 5).tolist(),
        }
    )
    text = _proposed(frame, tmp_path, cli)
    assert "drop-identifiers: {columns: [uhrzeit]}" in text and "published exactly as it is" in " ".join(text.split())
    assert "group-categories: {column: diagnose, smaller_than: 10}" in text
    assert "distance-linkage: {columns: [age, diagnose], at_most: 0.5}" in text
    assert "# at_most: values of diagnose stay with their records" in text and "0.5 stops what finds most" in text
    assert cli("run", tmp_path / "plan.yaml").code == 0
    released = dc.read(tmp_path / "release" / "data.csv").frame
    counts = released["diagnose"].value_counts()
    assert released.columns == ["age", "diagnose"] and "Lepra" not in set(released["diagnose"])
    assert counts["count"].min() >= 9  # pooled with the smallest of the others, less what the search drops


def test_numbers_without_predictors_are_averaged_in_groups(tmp_path: Path, cli: Cli) -> None:
    rng = np.random.default_rng(7)
    frame = pl.DataFrame({"ort": rng.choice(list("abcdefghij"), 60), "einkommen": rng.lognormal(8, 1, 60).round(2)})
    text = _proposed(frame, tmp_path, cli)
    assert "mdav: {columns: [einkommen], k: 5, precision: original}" in text and "shuffle" not in text
    assert "  # - distance-linkage: {columns: [ort, einkommen], at_most: 0.2}" in text  # too few records to promise it
    assert cli("run", tmp_path / "plan.yaml").code == 0


def test_recurring_numbers_of_people_are_left_out_and_people_counted(tmp_path: Path, cli: Cli) -> None:
    rng = np.random.default_rng(3)
    numbers = np.sort(rng.choice(np.arange(400_000, 999_999), 300, replace=False))
    person = np.repeat(np.arange(300), 1 + rng.poisson(1.0, 300))
    frame = pl.DataFrame(
        {
            "Patientennummer": numbers[person],
            "Geschlecht": rng.choice(["m", "w"], 300)[person],
            "Alter": rng.integers(18, 95, 300)[person],
            "Diagnose": rng.choice(["I10", "J18", "E11"], len(person)),
        }
    )
    text = _proposed(frame, tmp_path, cli)
    assert "  Patientennummer: unit" in text and "drop-identifiers: {columns: [Patientennummer]}" in text
    done = cli("run", tmp_path / "plan.yaml")
    assert done.code == 0, done.err
    new = dc.read(tmp_path / "release" / "data.csv").frame
    assert new.columns == ["Geschlecht", "Alter", "Diagnose"]
    rows = np.load(tmp_path / "release-private" / "order.npy")
    people = new.with_columns(person=pl.Series(person[rows])).group_by("Geschlecht", "Alter")
    assert people.agg(pl.col("person").n_unique())["person"].min() >= 5  # people, not records


def test_codes_for_missing_values_are_proposed_and_make_no_levels(tmp_path: Path, cli: Cli) -> None:
    rng = np.random.default_rng(2)
    age = np.where(rng.random(800) < 0.03, -9, rng.integers(18, 95, 800))
    frame = pl.DataFrame(
        {
            "alter": age,
            "gesch": rng.choice([1, 2, 9], 800, p=[0.48, 0.48, 0.04]),
            "geburtsjahr": np.where(age > 0, 2023 - age, -9),
            "einkommen": np.where(rng.random(800) < 0.05, 99_999_998, rng.integers(900, 4000, 800)),
        }
    )
    text = _proposed(frame, tmp_path, cli)
    wanted = "missing_codes:\n  alter: [-9]\n  gesch: [9]\n  geburtsjahr: [-9]\n  einkommen: [99999998]\n"
    assert wanted in text and 'geburtsjahr: {"intervals": {"width": 5, "levels": 5}}' in text
    said = " ".join(cli("roles", tmp_path / "in.csv").err.split())
    assert "codes of missing values" in said and "alter: -9; gesch: 9; geburtsjahr: -9; einkommen: 99999998" in said
    done = cli("run", tmp_path / "plan.yaml")
    assert done.code == 0, done.err
    new = pl.read_csv(tmp_path / "release" / "data.csv", infer_schema=False)
    assert not new["alter"].drop_nulls().str.contains("-").any() and new["einkommen"].cast(pl.Int64).max() < 4000
    own = cli("roles", tmp_path / "in.csv", "-o", tmp_path / "own.yaml", "--missing-codes", "alter=-9|94")
    assert own.code == 0 and '  alter: ["-9", "94"]' in (tmp_path / "own.yaml").read_text()
    assert dc.Plan.load(tmp_path / "own.yaml").schema["alter"].missing_codes == ("-9", "94")


def test_many_diagnoses_do_not_fail_the_limit_that_the_plan_proposes(tmp_path: Path, cli: Cli) -> None:
    rng = np.random.default_rng(3)
    n, codes = 900, [f"{letter}{number}.{digit}" for letter in "EFGHIJ" for number in (10, 21, 35) for digit in (0, 1)]
    columns = {
        "patient": [f"P{100000 + i}" for i in range(n)],
        "age": rng.integers(18, 90, n),
        "sex": rng.choice(["f", "m"], n),
        "town": rng.choice(["Graz", "Linz", "Wels", "Enns"], n),
        "diagnosis": rng.choice(codes, n),
        "days": rng.integers(1, 30, n),
        "cost": rng.lognormal(7, 1, n).round(2),
    }
    pl.DataFrame(columns).write_csv(tmp_path / "clinic.csv")
    plan = tmp_path / "plan.yaml"
    assert cli("roles", tmp_path / "clinic.csv", "-o", plan).code == 0
    text = plan.read_text()
    assert "shuffle: {columns: [days, cost]" in text and "k: 3, importance: {diagnosis: 2}}" in text
    assert "Tried on this file" in text
    plan.write_text(text.replace("confirmed: false", "confirmed: true"))
    assert cli("run", plan, "--out", tmp_path / "release").code == 0
    assert pl.read_csv(tmp_path / "release" / "data.csv")["diagnosis"].is_not_null().mean() > 0.5
