from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

from discretion.data.dataset import Dataset
from discretion.data.detect import Proposal, looks_like_identifier, propose, propose_hierarchy
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
        ("age", {"intervals": {"width": 5, "levels": 5}}),
        ("height", {"intervals": {"width": 0.02, "levels": 6}}),
        ("zip", {"masking": {}}),
        ("sex", {"groups": {"levels": []}}),
        ("born", {"dates": {"levels": ["month", "year", "decade"]}}),
    ],
)
def test_hierarchies_fit_the_values(column: str, rule: dict[str, object]) -> None:
    frame = pl.DataFrame(
        {
            "age": [18 + i % 73 for i in range(200)],
            "height": [1.5 + 0.4 * (i % 97) / 96 for i in range(200)],
            "zip": [f"{10000 + 37 * i}" for i in range(200)],
            "sex": ["f", "m"] * 100,
            "born": [dt.date(1950, 1, 1) + dt.timedelta(days=31 * i) for i in range(200)],
        }
    )
    proposal = next(p for p in propose(frame) if p.column == column)
    assert propose_hierarchy(frame, proposal) == rule
    bound = Hierarchy.of(rule).bind(frame[column].unique().to_list(), column)
    assert set(bound.table[-1]) in ({"*"}, {"*****"})  # the top hides every value, so that a search can end
