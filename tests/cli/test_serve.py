"""`discretion serve` and `discretion key`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import discretion as dc
from discretion.cli.app import run
from discretion.online.declare import ServiceSpec
from discretion.online.server.access import KeyRing
from tests.online.services import Process


@pytest.fixture
def service(tmp_path: Path) -> Path:
    dc.datasets.students().frame.write_csv(tmp_path / "students.csv")
    path = tmp_path / "service.yaml"
    assert run(["serve", str(path), "--draft", str(tmp_path / "students.csv"), "--quiet"]) == 0
    return path


def test_a_draft_hides_names_and_is_valid(service: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = service.read_text()
    assert "name: {role: hidden" in text
    assert "income: {role: sensitive" in text
    assert "role: public," not in text, "nothing is public unless the owner says so"
    assert "policy: noise" in text
    assert "person 1" not in text
    assert "68000" not in text
    assert run(["serve", str(service), "--check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["people"] == {"students": 9}
    assert not (service.parent / "ledger.db").exists(), "a check writes nothing"
    assert run(["serve", str(service), "--draft", str(service.parent / "students.csv")]) == 3, "exists already"


def test_a_wrong_service_tells_every_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.yaml").write_text("tables: {t: {colums: {}}}\nuser: {}\n")
    assert run(["serve", str(tmp_path / "s.yaml"), "--check"]) == 2
    error = capsys.readouterr().err
    assert "did you mean 'columns'" in error
    assert "did you mean 'users'" in error


def test_keys_are_made_listed_and_taken_back(service: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["key", "add", str(service), "analyst"]) == 0
    key = capsys.readouterr().out.strip()
    ring = KeyRing(path=service.with_name("service.keys.json"))
    assert ring.user_of(key) == "analyst"
    assert run(["key", "list", str(service), "--json"]) == 0
    listed = capsys.readouterr().out
    assert key not in listed
    (one,) = json.loads(listed)["keys"]
    assert run(["key", "revoke", str(service), one["id"]]) == 0
    assert ring.user_of(key) is None
    assert run(["key", "revoke", str(service), one["id"]]) == 2
    assert run(["key", "add", str(service), "nobody"]) == 2


def test_from_a_file_to_a_first_answer(service: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["key", "add", str(service), "analyst", "--quiet"]) == 0
    key = capsys.readouterr().out.strip()
    process = Process(service)
    url = process.start()
    try:
        with dc.connect(url, key) as connection:
            answer = connection.ask("SELECT count(*) AS n FROM students", epsilon=0.5)
            assert answer.mode == "dp"
            assert abs(answer.frame.item() - 9) < 100
            with pytest.raises(dc.QueryRefused, match="bounds"):
                connection.ask("SELECT sum(income) FROM students")
    finally:
        process.stop()
    assert (service.parent / "ledger.db").is_file()
    assert run(["serve", str(service), "--check", "--quiet"]) == 0


def test_a_draft_answers_first_questions_or_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Yes and no are recognized, no key and no bound comes from the data, and a check names what is missing."""
    import polars as pl

    n = 4000
    frame = pl.DataFrame(
        {
            "sex": ["F", "M"] * (n // 2),
            "age": [20 + i % 50 for i in range(n)],
            "hiv": [1] * 17 + [0] * (n - 17),
            "alive": ["yes", "no", None, "yes"] * (n // 4),
            "country": ["A"] * (n - 1) + ["Z"],
            "fare": [i / 7 for i in range(n)],
        }
    )
    frame.write_csv(tmp_path / "people.csv")
    path = tmp_path / "service.yaml"
    assert run(["serve", str(path), "--draft", str(tmp_path / "people.csv"), "--quiet"]) == 0
    capsys.readouterr()
    spec = ServiceSpec.load(path)
    columns = spec.tables["people"].columns
    assert {name: column.type for name, column in columns.items()} == {
        "sex": "category", "age": "integer", "hiv": "truth", "alive": "truth", "country": "category", "fare": "number",
    }  # fmt: skip
    assert {column.role for column in columns.values()} == {"sensitive"}
    assert not any(column.categories for column in columns.values())
    assert run(["serve", str(path), "--check", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["undeclared"]["people"]) == ["fare"]
    with dc.StatisticalDatabase(spec) as database:
        by_sex = database.ask("SELECT sex, count(*) AS n FROM people GROUP BY sex", user="analyst")
        assert by_sex.frame["sex"].to_list() == ["F", "M"]
        assert "not declared" in by_sex.notes[-1]
        assert abs(database.ask("SELECT avg(age) AS a FROM people", user="analyst").frame.item() - 44.5) < 5
        assert database.ask("SELECT sum(hiv) AS yes FROM people", user="analyst").mode == "dp"
        country = database.ask("SELECT country, count(*) FROM people GROUP BY country", user="analyst")
        assert country.frame["country"].to_list() == ["A"], "a country of one person is not told"
        with pytest.raises(dc.QueryRefused, match="bounds"):
            database.ask("SELECT avg(fare) FROM people", user="analyst")
    pure = path.read_text().replace("delta: 1.0e-06, accountant: approximate, ", "")
    path.write_text(pure.replace("# colleague", "colleague"))
    assert run(["serve", str(path), "--check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["undeclared"]["people"]
    assert "categories" in found["sex"][0]
    assert "role: public" in found["sex"][1]
    assert "ask under dp" in found["hiv"][0]


def test_a_draft_protects_people_with_several_rows_as_one(tmp_path: Path) -> None:
    """An identifier that repeats names the person of a row; one that does not leaves a row a person."""
    import polars as pl

    frame = pl.DataFrame(
        {"patient_id": [1000 + i // 3 for i in range(60)], "visit_id": range(60), "age": [40, 50, 60] * 20}
    )
    for name, columns, person in (("visits", frame.columns, "patient_id"), ("people", ["visit_id", "age"], None)):
        frame.select(columns).write_csv(tmp_path / f"{name}.csv")
        path = tmp_path / f"{name}.yaml"
        assert run(["serve", str(path), "--draft", str(tmp_path / f"{name}.csv"), "--quiet"]) == 0
        spec = ServiceSpec.load(path)
        assert (spec.tables[name].person, spec.tables[name].rows_per_person) == (person, 1)
        with dc.StatisticalDatabase(spec, ledger=tmp_path / f"{name}.db") as database:
            assert database.people(name) == (20 if person else 60)


def test_a_draft_of_odd_columns_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import polars as pl

    names = ["yes", "a: #b", '2nd "name"', "<b>", "line\nbreak", "Income", "income", "x" * 70, "sum'd"]
    frame = pl.DataFrame({name: range(i, i + 30) for i, name in enumerate(names)})
    frame.write_parquet(tmp_path / "2020 odd.parquet")
    path = tmp_path / "service.yaml"
    assert run(["serve", str(path), "--draft", str(tmp_path / "2020 odd.parquet"), "--quiet"]) == 0
    assert path.read_text().count("left out") == 3
    assert run(["serve", str(path), "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["people"] == {"2020_odd": 30}


def test_a_check_before_the_first_start(service: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The ledger is made by the first start, wherever it is."""
    folder = service.parent / "postgres"
    folder.mkdir()
    text = service.read_text()
    service.write_text(text.replace("sqlite:///ledger.db", "sqlite:///postgres/ledger.db"))
    assert run(["serve", str(service), "--check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ledger_entries"] == 0
    assert list(folder.iterdir()) == []
    changed = text.replace("mode: exact+audit", "mode: perturbed").replace("policy: noise", "policy: truth")
    service.write_text(changed.replace("sqlite:///ledger.db", "postgresql://127.0.0.1:1/base"))
    assert run(["serve", str(service), "--check"]) == 2
    assert "secret_file" in capsys.readouterr().err


def test_keys_with_an_end_are_listed(service: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["key", "add", str(service), "analyst", "--days", "30", "--quiet"]) == 0
    assert run(["key", "add", str(service), "analyst", "--days", "0"]) == 2
    capsys.readouterr()
    assert run(["key", "list", str(service), "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["keys"]
    assert one["expires"] > one["made"]


def test_a_check_says_by_which_rule_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import polars as pl

    pl.DataFrame({"town": ["a", "b"] * 20, "pay": [i / 7 for i in range(40)], "ill": [0, 1] * 20}).write_csv(
        tmp_path / "t.csv"
    )
    for whole, rule in (("", "base groups"), (", whole: false", "linear audit")):
        columns = f"town: {{role: public, type: category}}, pay: {{role: sensitive, type: number{whole}}}"
        columns += ", ill: {role: sensitive, type: truth}"
        (tmp_path / "s.yaml").write_text(
            f"tables: {{t: {{source: {tmp_path}/t.csv, columns: {{{columns}}}}}}}\n"
            f"users: {{ann: {{policy: {{mode: exact+audit}}}}}}\nledger: sqlite:///{tmp_path}/ledger.db\n"
        )
        assert run(["serve", str(tmp_path / "s.yaml"), "--check", "--json"]) == 0
        rules = json.loads(capsys.readouterr().out)["rules"]["t"]
        assert rules["pay"]["rule"] == rule and rules["ill"] == {"rule": "dp only", "why": "yes or no"}
        assert ("a unit in which the values are whole" in rules["pay"]["why"]) == bool(whole)
        assert run(["serve", str(tmp_path / "s.yaml"), "--check"]) == 0
        assert rule in capsys.readouterr().out


def test_a_draft_beside_other_data_names_people(tmp_path: Path) -> None:
    import polars as pl

    for name in ("first", "second"):
        pl.DataFrame({"town": ["a", "b"] * 20}).write_csv(tmp_path / f"{name}.csv")
        path = tmp_path / f"{name}.yaml"
        assert run(["serve", str(path), "--draft", str(tmp_path / f"{name}.csv"), "--quiet"]) == 0
        assert ("# people: NAME" in path.read_text()) == (name == "second")
        ServiceSpec.load(path)
