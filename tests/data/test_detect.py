from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

from discretion.data.dataset import Dataset
from discretion.data.detect import (
    _AGES,
    Proposal,
    looks_like_identifier,
    propose,
    propose_hierarchy,
    propose_importance,
)
from discretion.data.hierarchy import Hierarchy
from discretion.data.words import role_in_name
from discretion.errors import DataError

N = 2000
RNG = np.random.default_rng(7)
DAYS = [dt.date(1950, 1, 1) + dt.timedelta(int(d)) for d in RNG.integers(0, 20_000, N)]
FRAME = pl.DataFrame(
    {
        "row": np.arange(1, N + 1),
        "contact": [f"person{i}@example.org" for i in range(N)],
        "line": [f"+49 30 {i:07d}" for i in range(N)],
        "bank": [f"DE{i % 90 + 10}{i:018d}" for i in range(N)],
        "papers": [f"{i:08d}K" for i in range(N)],
        "server": [f"10.0.{i // 250}.{i % 250}" for i in range(N)],
        "page": [f"https://example.org/{i}" for i in range(N)],
        "remark": [f"free text number {i}" for i in range(N)],
        "Apellido": [f"Name{i % 700}" for i in range(N)],
        "edad": RNG.integers(0, 99, N),
        "Geschlecht": RNG.choice(["m", "w"], N),
        "place": [f"{i:05d}" for i in RNG.integers(1000, 99_999, N)],
        "income": RNG.normal(30_000, 9_000, N),
        "x1": RNG.normal(size=N),
        "hh_id": np.arange(N) // 3,
        "wgt": RNG.random(N),
        "stratum": RNG.integers(0, 4, N),
        "region": RNG.choice(["north", "south"], N),
        "when": DAYS,
        "written": [f"{d.day}.{d.month}.{d.year}" for d in DAYS],
        "choices": RNG.choice(["red|blue", "green", "red|green|blue"], N),
        "diagnosis": RNG.choice(["I10", "E11"], N),
        "q7": RNG.integers(1, 6, N),
        "void": pl.Series([None] * N, dtype=pl.String),
        "weight_kg": RNG.normal(70, 9, N),
        "constant": ["Berlin"] * N,
    }
)
ROLES = {
    "identifier": ["row", "contact", "line", "bank", "papers", "server", "page", "remark", "Apellido"],
    "quasi": ["edad", "Geschlecht", "place", "when", "written", "q7"],
    "sensitive": ["income", "x1", "choices", "diagnosis", "weight_kg"],
    "household": ["hh_id"],
    "weight": ["wgt"],
    "stratum": ["stratum"],
    "geography": ["region"],
    "other": ["void", "constant"],
}
SURE = set(ROLES["identifier"])


@pytest.fixture(scope="module")
def proposals() -> dict[str, Proposal]:
    return {proposal.column: proposal for proposal in propose(FRAME)}


@pytest.mark.parametrize(("role", "column"), [(role, name) for role, names in ROLES.items() for name in names])
def test_roles(proposals: dict[str, Proposal], role: str, column: str) -> None:
    assert proposals[column].role == role, proposals[column]


def test_types_and_counts(proposals: dict[str, Proposal]) -> None:
    assert proposals["choices"].type == "set"
    assert proposals["when"].type == proposals["written"].type == "date"
    assert proposals["income"].type == proposals["edad"].type == "continuous"
    assert proposals["Geschlecht"].type == proposals["region"].type == "nominal"
    assert proposals["q7"].type == "ordinal"
    assert proposals["contact"].distinct == N and proposals["void"].missing == N
    assert proposals["x1"].confidence == proposals["q7"].confidence == "low"
    assert proposals["edad"].confidence == proposals["contact"].confidence == "high"


def test_reasons_quote_no_cells(proposals: dict[str, Proposal]) -> None:
    for proposal in proposals.values():
        assert proposal.reason
        cells = {str(cell) for cell in FRAME[proposal.column].drop_nulls().unique()}
        for cell in cells:
            assert len(cell) < 4 or cell not in proposal.reason


@pytest.mark.parametrize("column", FRAME.columns)
def test_sure_identifiers_only(column: str) -> None:
    assert (looks_like_identifier(FRAME, column) is not None) == (column in SURE)


def test_small_frames_are_judged_by_names_and_patterns() -> None:
    frame = pl.DataFrame({"name": ["a", "b"], "salary": [1, 2], "mail_to": ["a@b.org", None], "t": ["x", "y"]})
    data = Dataset(frame)
    assert looks_like_identifier(data, "name") and looks_like_identifier(data, "mail_to")
    assert looks_like_identifier(data, "salary") is None and looks_like_identifier(data, "t") is None
    with pytest.raises(DataError, match="unknown column"):
        looks_like_identifier(data, "nam")


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("FirstName", "identifier"),
        ("código postal", "quasi"),
        ("Staatsangehörigkeit", "quasi"),
        ("prénom", "identifier"),
        ("patient_age", "quasi"),
        ("country_name", "quasi"),
        ("household.id", "household"),
        ("PESO", "weight"),
        ("data_di_nascita", "quasi"),
        ("estat civil", "quasi"),
        ("Einkommen2019", "sensitive"),
        ("doença", "sensitive"),
        ("Patientenname", "identifier"),
        ("Hauptdiagnose", "sensitive"),
        ("Aufnahmedatum", "quasi"),
        ("Körpergewicht", None),  # at the end of a longer word only a body's, not a survey's
        ("percentage", None),
        ("capacity", None),
        ("xyz", None),
    ],
)
def test_words(name: str, role: str | None) -> None:
    found = role_in_name(name)
    assert (found and found[0]) == role


def test_large_data() -> None:
    n = 1_000_000
    frame = pl.DataFrame({"t": pl.arange(n, eager=True).cast(pl.String), "x": pl.arange(n, eager=True) * 0.5})
    found = propose(frame)
    assert [proposal.role for proposal in found] == ["identifier", "sensitive"]


def test_all_different_whole_numbers_name_people_also_as_floats() -> None:
    frame = pl.DataFrame(
        {
            "caseno": [float(i) for i in range(100, 130)],
            "v2": list(range(30)),
            "v3": [i + 0.5 for i in range(30)],
            "id": [i // 2 * 7 for i in range(30)],
        }
    )
    sure = {name for name in frame.columns if looks_like_identifier(frame, name)}
    assert sure == {"caseno", "v2"}  # `id` has 15 values: below the number from which a name alone is enough
    panel = pl.DataFrame({"id": [i // 2 for i in range(60)], "respondent": [f"r{i}" for i in range(60)]})
    assert all(looks_like_identifier(panel, name) for name in panel.columns)


def test_few_valued_and_labelled_numbers_are_categories() -> None:
    frame = pl.DataFrame({"q1": [1.0, 2.0, None, 3.0] * 10, "region": [1.0, 2.0] * 20, "x": [0.5, 1.5] * 20})
    found = {proposal.column: proposal for proposal in propose(frame)}
    assert (found["q1"].type, found["region"].type, found["x"].type) == ("ordinal", "nominal", "continuous")
    many = pl.DataFrame({"sector": [float(i % 25) for i in range(200)]})
    schema = Dataset(many).schema.with_column("sector", value_labels={float(i): f"s{i}" for i in range(25)})
    assert propose(Dataset(many, schema=schema))[0].type == "nominal"


@pytest.mark.parametrize(
    ("column", "rule"),
    [
        ("age", {"intervals": {"cuts": _AGES}}),
        ("pages", {"intervals": {"width": 5, "levels": 5}}),
        ("height", {"intervals": {"width": 0.02, "levels": 6}}),
        ("zip", {"masking": {}}),
        ("sex", {"groups": {"levels": []}}),
        ("born", {"dates": {"levels": ["month", "quarter", "year", "decade"]}}),
    ],
)
def test_hierarchies_fit_the_values(column: str, rule: dict[str, object]) -> None:
    frame = pl.DataFrame(
        {
            "age": [18 + i % 73 for i in range(200)],
            "pages": [18 + i % 73 for i in range(200)],
            "height": [1.5 + 0.4 * (i % 97) / 96 for i in range(200)],
            "zip": [f"{10000 + 37 * i}" for i in range(200)],
            "sex": ["f", "m"] * 100,
            "born": [dt.date(1950, 1, 1) + dt.timedelta(days=31 * i) for i in range(200)],
        }
    )
    proposal = next(p for p in propose(frame) if p.column == column)
    if column == "pages":  # a number that is no age, taken for a quasi-identifier
        assert proposal.role == "sensitive"
    assert propose_hierarchy(frame, proposal) == rule
    bound = Hierarchy.of(rule).bind(frame[column].unique().to_list(), column)
    assert set(bound.table[-1]) in ({"*"}, {"*****"})  # the top hides every value, so that a search can end


def test_bands_of_age_nest_and_leave_the_oldest_open() -> None:
    bound = Hierarchy.of({"intervals": {"cuts": _AGES}}).bind([0, 17, 34, 67, 88, 91, 104], "age")  # nests, or raises
    assert [row[2] for row in bound.table] == ["34", "[30, 34]", "[30, 39]", "[20, 39]", "[20, 59]", "*"]
    assert bound.table[1][-2:] == (">= 90", ">= 90") and bound.table[3][4:] == (">= 80",) * 3


def _rule(frame: pl.DataFrame | Dataset, column: str) -> dict[str, object] | None:
    return propose_hierarchy(frame, next(p for p in propose(frame) if p.column == column))


def test_rare_categories_are_put_together_level_by_level() -> None:
    counts = {"de": 700, "fr": 150, "it": 60, "pl": 50, "is": 15, "mt": 10, "other": 15}
    frame = pl.DataFrame({"country": [name for name, count in counts.items() for _ in range(count)]})
    rule = _rule(frame, "country")
    assert rule == {"groups": {"levels": [{"other": ["is", "mt"]}, {"other": ["it", "pl"]}]}}
    table = Hierarchy.of(rule).bind(list(counts), "country").table
    assert [len(set(row)) for row in table] == [7, 5, 3, 1]  # de, fr, it, pl, other; de, fr, other
    shares = {name: count / 1000 for name, count in counts.items()}
    for limit, row in zip((0.02, 0.1), table[1:], strict=False):  # what is left by its name is not rare
        assert all(shares[leaf] >= limit for leaf, label in zip(table[0], row, strict=True) if label != "other")
    even = pl.DataFrame({"country": [f"c{i % 9}" for i in range(900)]})  # nobody is rarer than the others
    assert _rule(even, "country") == {"groups": {"levels": []}}


def test_codes_with_labels_become_labels_where_rare_ones_are_put_together() -> None:
    frame = pl.DataFrame({"bland": [1.0] * 60 + [2.0] * 37 + [3.0, 4.0, 4.0]})
    labels = {1.0: "Bayern", 2.0: "Hessen", 3.0: "Bremen", 4.0: "Saarland"}
    schema = Dataset(frame).schema.with_column("bland", value_labels=labels, label="Bundesland")
    data = Dataset(frame, schema=schema)
    found = propose(data)[0]
    assert (found.role, found.confidence, found.reason) == ("quasi", "high", "the label says so ('bundesland')")
    rule = propose_hierarchy(data, found)
    assert rule == {"groups": {"levels": [{"Bayern": ["1"], "Hessen": ["2"], "other": ["3", "4"]}]}}


def test_a_sentence_as_label_says_nothing() -> None:
    frame = pl.DataFrame({"v1": [1, 2, 3] * 20})
    label = "How old was the youngest person in your household when you moved"
    data = Dataset(frame, schema=Dataset(frame).schema.with_column("v1", label=label))
    assert propose(data)[0].confidence == "low"


def test_codes_are_masked_and_not_counted() -> None:
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "PLZ": rng.choice([80331, 80333, 81541, 90402], 300),  # as numbers, as spreadsheets have them
            "zip": rng.choice([1067, 80333, 81541, 90402], 300),  # a leading zero was lost: no digits to mask
            "dx": rng.choice(["I21.4", "E11.9", "F32.1", "O80"], 300),
            "cabin": rng.choice(["C85", "B28", "E46"], 300),
        }
    )
    found = {p.column: p for p in propose(frame)}
    assert found["PLZ"].type == "nominal" and _rule(frame, "PLZ") == {"masking": {}}
    assert found["zip"].type != "nominal" and "masking" not in (_rule(frame, "zip") or {})
    assert found["dx"].role == "sensitive" and "ICD" in found["dx"].reason and _rule(frame, "dx") == {"masking": {}}
    assert found["cabin"].role == "quasi"


def test_what_is_worth_most_is_given_up_last() -> None:
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=i % 300) for i in range(600)]
    frame = pl.DataFrame(
        {
            "Alter": [18 + i % 73 for i in range(600)],
            "Geschlecht": ["m", "w"] * 300,
            "Geburtsdatum": days,
            "Aufnahmedatum": days,
            "Entlassungsdatum": days,
            "Beruf": ["a", "b", "c"] * 200,
            "v7": ["a", "b", "c"] * 200,
            "Kosten": [float(i) + 0.5 for i in range(600)],
        }
    )
    worth = propose_importance(propose(frame))
    assert worth == {
        "Alter": 1.0, "Geschlecht": 1.0, "Geburtsdatum": 0.1, "Aufnahmedatum": 0.5, "Entlassungsdatum": 0.1,
        "Beruf": 0.5, "v7": 0.2,
    }  # fmt: skip
    assert propose_importance(propose(frame.drop("Alter")))["Geburtsdatum"] == 1.0


def test_a_name_inside_a_longer_word_needs_values_to_match() -> None:
    names = [f"person {i % 400}" for i in range(2000)]
    wards = [f"ward {i % 9}" for i in range(2000)]
    found = {p.column: p.role for p in propose(pl.DataFrame({"Patientenname": names, "Stationsname": wards}))}
    assert found == {"Patientenname": "identifier", "Stationsname": "quasi"}


def test_labels_of_refusals_make_no_categories() -> None:
    frame = pl.DataFrame({"einkommen": [float(x) for x in range(1000, 1100)], "sex": [1.0, 2.0] * 50})
    schema = Dataset(frame).schema.with_column("einkommen", value_labels={-9.0: "verweigert"})
    schema = schema.with_column("sex", value_labels={1.0: "m", 2.0: "f", -9.0: "keine Angabe"})
    data = Dataset(frame, schema=schema)
    assert [p.type for p in propose(data)] == ["continuous", "nominal"]
    assert not data.is_category("einkommen") and data.is_category("sex")


def test_health_and_numbers_of_insurance_are_known_by_name() -> None:
    health = "diabetes krebs schwanger Pflegegrad Suizidversuch abortion Todesursache Behinderung disabled depression"
    assert {role_in_name(name)[0] for name in health.split()} == {"sensitive"}  # type: ignore[index]
    assert {role_in_name(name)[0] for name in ("Sick days", "Krankentage", "fehltage")} == {"sensitive"}  # type: ignore[index]
    assert {role_in_name(name)[0] for name in ("female", "is_male")} == {"quasi"}  # type: ignore[index]
    assert {role_in_name(name)[0] for name in ("svnr", "Versichertennummer", "Hausarzt")} == {"identifier"}  # type: ignore[index]


def test_dates_with_a_time_are_dates() -> None:
    frame = pl.DataFrame({"aufnahme": [f"{day:02d}.05.2023 14:{day:02d}" for day in range(1, 29)]})
    found = propose(frame)[0]
    assert found.type == "date" and found.role == "quasi"


PERSON_NUMBERS = (
    "Patienten-ID", "PatientenID", "patient_id", "PatientID", "PatNr", "Pat.-Nr.", "Patientennummer", "pid",
    "person_id", "Versichertennummer", "KVNR", "case_no", "Fallnummer", "customer_id", "pseudonym", "Pseudonym_ID",
    "N° patient", "N°patient", "Patient n°", "Nº paciente", "Identifiant patient", "identifiant du patient",
    "Identificativo paziente", "identificador_paciente",
    "id", "ID_Person", "idnr", "respid", "numéro du patient", "código_paciente", "Personenkennung", "study_patient_id",
)  # fmt: skip


@pytest.mark.parametrize("name", PERSON_NUMBERS)
@pytest.mark.parametrize("form", ["text", "number"])
def test_numbers_of_people_are_units_where_they_recur_and_identifiers_where_not(name: str, form: str) -> None:
    rng = np.random.default_rng(0)
    drawn = [int(number) for number in rng.integers(0, 900, 1443)]
    every = list(range(1443))
    for numbers, role in ((drawn, "unit"), (every, "identifier")):
        values = [f"P{n:05d}" for n in numbers] if form == "text" else [50_000 + n for n in numbers]
        frame = pl.DataFrame({name: values, "x": rng.normal(size=1443)})
        found = propose(frame)[0]
        assert (found.role, found.confidence, found.type) == (role, "high", "nominal")
        assert looks_like_identifier(frame, name)


@pytest.mark.parametrize("name", ["hh_id", "zip_code", "country code", "patient_age", "product_id", "ward_no", "pcode"])
def test_other_numbers_are_not_those_of_people(name: str) -> None:
    assert propose(pl.DataFrame({name: [30 + i % 60 for i in range(1200)]}))[0].role not in ("unit", "identifier")


@pytest.mark.parametrize("visits", [1.5, 2.7, 12])
def test_recurring_codes_under_a_word_for_a_person_are_units_and_names_identifiers(visits: float) -> None:
    drawn = [i % round(1600 / visits) for i in range(1600)]
    letters = ["".join(chr(97 + n // 26**power % 26) for power in range(4)) for n in drawn]
    frame = pl.DataFrame({
        "patient central": [f"C{n:04d}" for n in drawn], "ref patient": [7 * n for n in drawn], "patient alias": letters
    })  # fmt: skip
    assert [one.role for one in propose(frame)] == ["unit", "unit", "identifier"]


def test_the_number_within_a_household_is_no_number_of_people() -> None:
    assert propose(pl.DataFrame({"pnr": [1 + i % 6 for i in range(900)]}))[0].role == "quasi"


def test_numbers_that_recur_are_told_from_measured_ones_by_their_values() -> None:
    rng = np.random.default_rng(5)
    n = 1500
    people = np.sort(rng.choice(np.arange(400_000, 999_999), 900, replace=False))
    frame = pl.DataFrame(
        {
            "v1": rng.choice(people, n),
            "v2": [f"K-{p % 10_000:04d}" for p in rng.choice(people, n)],
            "m1": np.clip(rng.normal(5000, 900, n), 1000, 9999).astype(int),  # measured, four digits
            "m2": 1000 + rng.integers(0, 900, n) * 10,  # rounded
            "m3": rng.integers(1000, 3000, n),  # even, recurs by chance
            "m4": rng.choice(["AB12 low", "AB13 high"], n),
        }
    )
    found = {p.column: (p.role, p.confidence) for p in propose(frame)}
    assert found["v1"] == found["v2"] == ("unit", "low")
    assert {found[name][0] for name in ("m1", "m2", "m3")} == {"sensitive"} and found["m4"][0] == "quasi"
    assert looks_like_identifier(frame, "v1") is None  # by values alone nobody is stopped


def test_long_labels_that_ask_for_an_age_are_understood() -> None:
    labels = [
        "Age of respondent in years", "Age of respondent", "Age in years", "Respondent's age", "How old are you?",
        "Alter in Jahren", "Wie alt sind Sie?",
    ]  # fmt: skip
    frame = pl.DataFrame({f"v{i}": [16.0 + (7 * row) % 79 for row in range(800)] for i in range(len(labels))})
    schema = Dataset(frame).schema
    for number, label in enumerate(labels):
        schema = schema.with_column(f"v{number}", label=label)
    data = Dataset(frame, schema=schema)
    for found in propose(data):
        assert (found.role, found.confidence) == ("quasi", "high")
        assert propose_hierarchy(data, found) == {"intervals": {"cuts": _AGES}}
    points = Dataset(frame.select(v0=pl.col("v0") * 900), schema=schema.only(["v0"]))
    assert propose(points)[0].role != "quasi"  # no ages


@pytest.mark.parametrize(
    ("name", "role"), [("hhgew", "weight"), ("eink_erwerb", "sensitive"), ("erwerb", "quasi"), ("notiz", "identifier")]
)
def test_short_german_names(name: str, role: str) -> None:
    found = role_in_name(name)
    assert found is not None and found[0] == role


def test_text_of_many_words_is_free_text() -> None:
    said = [f"called on day {i} and asked for a new appointment" for i in range(40)]
    kinds = ["never married and living alone", "married and living together", "widowed or divorced by now"]
    frame = pl.DataFrame({"v1": [said[i % 40] for i in range(400)], "v2": [kinds[i % 3] for i in range(400)]})
    found = propose(frame)
    assert [p.role for p in found] == ["identifier", "quasi"] and "free text" in found[0].reason


def test_rare_categories_join_one_that_is_called_other() -> None:
    counts = {"de": 700, "fr": 200, "Other": 85, "is": 10, "mt": 5}
    frame = pl.DataFrame({"country": [name for name, count in counts.items() for _ in range(count)]})
    rule = _rule(frame, "country")
    assert rule == {"groups": {"levels": [{"Other": ["is", "mt"]}]}}
    assert set(Hierarchy.of(rule).bind(list(counts), "country").table[1]) == {"de", "fr", "Other"}


def _column(values: list[float], codes: dict[float, int]) -> list[float]:
    return [*values, *(code for code, count in codes.items() for _ in range(count))]


AGES = [float(18 + i % 76) for i in range(760)]
FOUR = [float(1 + i % 4) for i in range(400)]
PAY = [float(900 + (i * 7919) % 8000) for i in range(900)]


@pytest.mark.parametrize(
    ("name", "values", "codes"),
    [
        ("alter", AGES, {-9: 30}),
        ("alter", AGES, {99: 40}),  # far commoner than 94 … 98
        ("alter", AGES, {98: 40, 99: 40}),
        ("alter", AGES, {999: 1}),
        ("born", [1930.0 + x for x in AGES], {-9: 20}),
        ("born", [1930.0 + x for x in AGES], {9999: 20}),
        ("school", FOUR, {-9: 20, -8: 15}),
        ("school", FOUR, {9: 20}),
        ("school", FOUR, {98: 1, 99: 1}),
        ("school", FOUR, {-1: 20}),
        ("pay", PAY, {99_999_998: 9}),
        ("pay", PAY, {99_998: 9, 99_999: 9}),
        ("pay", PAY, {-9: 9}),
        ("pay", PAY, {-1: 9, -2: 9}),
        ("pay", [*PAY, -120.0, -311.0], {-9: 60}),
    ],
)
def test_codes_for_missing_values_are_found(name: str, values: list[float], codes: dict[float, int]) -> None:
    frame = pl.DataFrame({name: _column(values, codes)})
    for table in (frame, frame.cast(pl.Int64)):
        found = propose(table)[0]
        assert found.missing_codes == tuple(sorted(codes))
        assert found.missing == sum(codes.values()) and found.distinct == len(set(values))
    plain = propose(frame.head(len(values)))[0]
    assert not plain.missing_codes and propose_hierarchy(frame, found) == propose_hierarchy(frame[: len(values)], plain)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("alter", [*AGES, 97.0, 98.0, 99.0, 99.0]),  # some people are that old
        ("alter", [*AGES, *[90.0] * 60]),  # top-coded
        ("alter", [*AGES, *[94.0, 95.0, 96.0, 97.0, 98.0], *[99.0] * 60]),  # and at the usual codes
        ("alter", [*AGES, *[94.0, 95.0, 96.0], *[97.0] * 60]),
        ("members", [1.0, 2.0, 3.0, 4.0, 5.0, 8.0] * 50),
        ("children", [0.0, 1.0, 2.0, 3.0] * 99 + [7.0]),
        ("scale", [-2.0, -1.0, 0.0, 1.0, 2.0] * 50),
        ("degrees", [float(x) for x in range(-9, 35)] * 5),
        ("balance", [*PAY, *[-float(x) for x in range(1, 10)]]),
        ("gain", [*[0.0] * 900, *[float(x) for x in range(100, 41_310, 371)], *[99_999.0] * 20]),
        ("percent", [float(x) for x in range(101)] * 4),
    ],
)
def test_ordinary_values_are_no_codes(name: str, values: list[float]) -> None:
    assert propose(pl.DataFrame({name: values}))[0].missing_codes == ()


def test_labels_of_codes_must_say_so_and_declared_codes_are_enough() -> None:
    frame = pl.DataFrame({"q": _column(FOUR, {9.0: 20})})
    labels = {1.0: "a", 2.0: "b", 3.0: "c", 4.0: "d"}
    for label, codes in (("Refused", (9,)), ("Another party", ())):
        schema = Dataset(frame).schema.with_column("q", value_labels={**labels, 9.0: label})
        assert propose(Dataset(frame, schema=schema))[0].missing_codes == codes
    assert propose(Dataset(frame, missing_codes={"q": [4]}))[0].missing_codes == ()


# The eighteen kinds of identifiers of the HIPAA Safe Harbor rule (45 CFR 164.514(b)(2)), one line for each.

SAFE_HARBOR_NAMES: dict[str, tuple[str, ...]] = {
    "names": ("name", "patient_name", "FirstName", "last name", "next_of_kin", "employer"),
    "places smaller than a state": ("street_address", "city", "county", "precinct", "zip_code", "geocode", "parish"),
    "dates": ("date_of_birth", "AdmissionDate", "discharge_date", "date of death"),
    "telephone": ("phone", "telephone_number", "mobile"),
    "fax": ("fax", "fax_number"),
    "e-mail": ("email", "e_mail", "email_address"),
    "social security": ("ssn", "social_security_number"),
    "medical record": ("mrn", "medical_record_number", "chart_number", "encounter_id"),
    "health plan": ("health_plan_number", "beneficiary_id", "member_id", "medicare_number", "subscriber_id", "mbi"),
    "account": ("account_number", "bank_account", "credit_card"),
    "certificate or license": ("license_number", "certificate_number", "birth_certificate", "drivers_license", "npi"),
    "vehicle": ("license_plate", "vin", "vehicle_id", "vehicle_registration"),
    "device": ("device_id", "serial_number", "implant_serial_number", "udi", "mac_address"),
    "web address": ("url", "web_page", "homepage", "website"),
    "IP address": ("ip", "ip_address"),
    "biometric": ("fingerprint", "voiceprint", "retina_scan", "biometric_id"),
    "photograph": ("photo", "photograph", "face_image", "image_file"),
    "other unique": ("patient_id", "uuid", "barcode", "specimen_id", "employee_number"),
}


@pytest.mark.parametrize(
    ("kind", "column"), [(kind, name) for kind, names in SAFE_HARBOR_NAMES.items() for name in names]
)
def test_safe_harbor_identifiers_by_name(kind: str, column: str) -> None:
    """The values say nothing: codes that some records share, too many to be categories."""
    rng = np.random.default_rng(1)
    codes = [f"{'abcdefgh'[i % 8]}{i * 37 % 1000}{'xyz'[i % 3] * (i % 4)}" for i in rng.integers(0, 350, 400)]
    (proposal,) = propose(pl.DataFrame({column: codes}))
    roles = ("quasi", "identifier") if kind in ("places smaller than a state", "dates") else ("identifier", "unit")
    assert proposal.role in roles and proposal.confidence == "high", proposal
    assert "name says" in proposal.reason


def _digits(count: int) -> list[str]:
    return ["".join(map(str, row)) for row in np.random.default_rng(count).integers(0, 10, (400, count))]


def _hex(count: int) -> list[str]:
    return [row.tobytes().hex() for row in np.random.default_rng(count).integers(0, 256, (400, count), dtype=np.uint8)]


_FAMILY = ["Miller", "Ng", "O'Hara", "Young", "de Groot", "Wright", "Lopez", "Hill", "Scott", "Okafor"]
_FIRST = ["Anna", "Ben", "Clara", "Xiu", "Eva", "Frank", "Oluwaseun", "Hugo", "Tamsin"]
SAFE_HARBOR_VALUES: dict[str, tuple[str, list[str]]] = {
    "names": ("identifier", [f"{_FIRST[i % 9]} {_FAMILY[i % 10]}" for i in range(400)]),
    "names, family first": ("identifier", [f"{_FAMILY[i % 10]}, {_FIRST[i % 9]}" for i in range(400)]),
    "street addresses": ("identifier", [f"{d} {_FAMILY[i % 10]} St." for i, d in enumerate(_digits(2))]),
    "streets": ("identifier", [f"{_FAMILY[i % 10]}str. {i % 40 + 1}" for i in range(400)]),
    "ZIP": ("quasi", [f"{d[:5]}-{d[5:]}" for d in _digits(9)]),
    "coordinates": ("quasi", [f"47.{d[:4]}, -122.{d[4:]}" for d in _digits(8)]),
    "dates": ("quasi", [f"{i % 12 + 1}/{i % 28 + 1}/{i % 90 + 10}" for i in range(400)]),
    "dates in words": ("quasi", [f"March {i % 28 + 1}, {1950 + i % 60}" for i in range(400)]),
    "dates with a month between": ("quasi", [f"{i % 28 + 1:02d}-Jan-{1950 + i % 60}" for i in range(400)]),
    "dates as text of digits": ("quasi", [f"{1950 + i % 60}{i % 12 + 1:02d}{i % 28 + 1:02d}" for i in range(400)]),
    "telephone": ("identifier", [f"({d[:3]}) {d[3:6]}-{d[6:]}" for d in _digits(10)]),
    "fax": ("identifier", [f"1-{d[:3]}-{d[3:6]}-{d[6:]} x12" for d in _digits(10)]),
    "e-mail": ("identifier", [f"p{d}@example.org" for d in _digits(2)]),
    "social security": ("identifier", [f"{d[:3]}-{d[3:5]}-{d[5:]}" for d in _digits(9)]),
    "medical record": ("identifier", [f"MRN-{d}" for d in _digits(4)]),
    "health plan": ("identifier", [f"1EG{d[0]}-TE{d[1]}-MK{d[2:]}" for d in _digits(4)]),
    "account": ("identifier", [f"{d[:4]} {d[4:8]} {d[8:12]} {d[12:]}" for d in _digits(16)]),
    "vehicle": ("identifier", [f"1HGCM{d[:4]}X{d[4:]}" for d in _digits(11)]),
    "device": ("identifier", [":".join(h[i : i + 2] for i in range(0, 12, 2)) for h in _hex(6)]),
    "device number": ("identifier", [f"(01){d}(21)AB{d[:4]}" for d in _digits(14)]),
    "page of a person": ("identifier", [f"example.org/people/{d}" for d in _digits(2)]),
    "name on a network": ("identifier", [f"@{_FIRST[i % 9].lower()}{i % 90}" for i in range(400)]),
    "biometric": ("identifier", _hex(16)),
    "web address": ("identifier", [f"https://example.org/{d}" for d in _digits(2)]),
    "IP address": ("identifier", [f"10.0.0.{i % 200}" for i in range(400)]),
    "photograph": ("identifier", [f"faces/{d}.JPG" for d in _digits(2)]),
    "other unique": ("identifier", [f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}" for h in _hex(16)]),
}


@pytest.mark.parametrize("kind", SAFE_HARBOR_VALUES)
def test_safe_harbor_identifiers_by_value(kind: str) -> None:
    role, cells = SAFE_HARBOR_VALUES[kind]
    (proposal,) = propose(pl.DataFrame({"v17": [*cells, *cells[:200]]}))
    assert (proposal.role, proposal.confidence) == (role, "high"), proposal
    assert "of the values" in proposal.reason and proposal.column == "v17"


@pytest.mark.parametrize("kind", [int, float])
def test_dates_written_as_numbers(kind: type) -> None:
    dates = [kind(f"{1950 + i % 60}{i % 12 + 1:02d}{i % 28 + 1:02d}") for i in range(400)]
    (proposal,) = propose(pl.DataFrame({"v17": dates}))
    assert (proposal.role, proposal.type, proposal.confidence) == ("quasi", "nominal", "high"), proposal
    amounts = np.random.default_rng(1).integers(18_000_000, 21_000_000, 400).astype(kind)
    assert "dates" not in propose(pl.DataFrame({"v17": amounts}))[0].reason


@pytest.mark.parametrize("kind", [pl.Int8, pl.UInt8, pl.Int16, pl.Int64, pl.UInt64, pl.Int128, pl.Float64])
def test_numbers_of_every_width_are_looked_at_for_dates(kind: type[pl.DataType]) -> None:
    numbers = pl.Series("v17", [int(i) % 100 for i in RNG.integers(0, 100, 400)]).cast(kind)
    assert "dates" not in propose(numbers.to_frame())[0].reason
    huge = pl.Series("v17", [20_010_101.0 + i % 28 for i in range(400)] + [1e149])
    assert propose(huge.to_frame())[0].reason


@pytest.mark.parametrize(
    ("column", "cells"),
    [
        ("destination", [f"{a} {b}" for a in ("New", "Old", "East", "Port", "Fort") for b in _FAMILY[:6]]),
        ("photo_consent", ["yes", "no"] * 30),
        ("vote", ["Anna Lopez", "Hugo Hill", "none"] * 20),
        ("highest_certificate", ["school", "college"] * 30),
        ("size", ["10-20", "20-30", "30-40"] * 20),
    ],
)
def test_what_only_resembles_identifiers_is_none(column: str, cells: list[str]) -> None:
    (proposal,) = propose(pl.DataFrame({column: cells * 3}))
    assert proposal.role not in ("identifier", "unit"), proposal
