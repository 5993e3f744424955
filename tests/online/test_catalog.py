"""What an owner declares: checked, frozen, every fault at once and with its place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from discretion.data.documents import parse_yaml
from discretion.errors import PlanError, QueryRefused
from discretion.online.backends import open_backend
from discretion.online.declare import (
    ColumnSpec,
    DpPolicy,
    ExactPolicy,
    ServiceSpec,
    TableSpec,
    load_service,
    parse_service,
)
from discretion.online.question.query import parse_sql
from tests.online import samples

DOCS = Path(__file__).parents[2] / "docs" / "online.md"


# --- columns -------------------------------------------------------------------------------------------------------


@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-2, 1e9),
    st.floats(0, 1),
    st.sampled_from(["number", "integer"]),
)
def test_codes_of_values_within_bounds_lie_within_the_codes_of_the_bounds(
    lower: float, width: float, share: float, kind: Any
) -> None:
    spec = ColumnSpec(role="sensitive", type=kind, bounds=(lower, lower + width))
    low, high = spec.codes
    value = min(lower + width * share, lower + width)
    assert low <= spec.code(value) <= high
    assert abs(spec.code(value) * spec.unit - value) <= spec.unit * (0.5 + 1e-6)
    if kind == "number":
        assert (1 - 1e-6) * 2**16 <= width / spec.unit < 2**17 * (1 + 1e-6)


def test_the_grid_spans_the_bounds() -> None:
    grid = ColumnSpec(role="sensitive", type="number", bounds=(-1, 3), grid=8).candidates()
    assert grid == (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
    truth = ColumnSpec(role="sensitive", type="truth")
    assert truth.candidates() == (0.0, 1.0) and truth.codes == (0, 1)
    with pytest.raises(QueryRefused, match="bounds"):
        ColumnSpec(role="sensitive", type="number").candidates()


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"type": "number", "bounds": (2, 1)}, "below the upper"),
        ({"type": "number", "bounds": (0, float("inf"))}, "finite"),
        ({"type": "category", "bounds": (0, 1)}, "belong to numbers"),
        ({"type": "number", "resolution": 0.1}, "needs `bounds`"),
        ({"type": "number", "bounds": (0, 1e9), "resolution": 1e-9}, "coarser"),
        ({"type": "integer", "categories": ["a"]}, "categories of type integer are int"),
        ({"type": "category", "categories": [True]}, "are str"),
        ({"type": "category", "categories": ["a", "a"]}, "named twice"),
        ({"type": "text"}, "input should be"),
    ],
)
def test_columns_that_make_no_sense(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(PlanError, match=says):
        ColumnSpec(role="public", **fields)


# --- tables --------------------------------------------------------------------------------------------------------


def test_all_faults_of_a_table_at_once() -> None:
    columns = {"a": {"role": "publik", "type": "number"}, "b": {"role": "public", "type": "number", "bounds": [3, 2]}}
    with pytest.raises(PlanError) as caught:
        TableSpec(name="", columns=columns, policy={"mode": "dp", "epsilon": -1}, adjacency="swap", nonsense=1)
    said = "\n".join(caught.value.problems)
    for part in ("name", "columns.a.role", "columns.b", "policy.dp.epsilon", "adjacency", "nonsense"):
        assert part in said
    with pytest.raises(PlanError, match="needs `person`"):
        samples.table(rows_per_person=2)
    with pytest.raises(PlanError, match="upper and lower case"):
        samples.table(columns={"a": samples.COLUMNS["age"], "A": samples.COLUMNS["age"]})
    with pytest.raises(PlanError, match="hidden"):
        samples.table(columns={"secret": samples.COLUMNS["secret"]})


def test_declarations_are_frozen() -> None:
    spec = samples.table()
    with pytest.raises(ValidationError):
        spec.name = "other"
    with pytest.raises(TypeError):
        spec.columns["age"] = spec.columns["sex"]  # type: ignore[index]


def test_hidden_columns_are_as_unknown_as_others() -> None:
    spec = samples.table()
    assert "secret" not in spec.visible
    with pytest.raises(QueryRefused, match="unknown column") as hidden:
        spec.column("secret")
    with pytest.raises(QueryRefused) as absent:
        spec.column("zzz")
    assert str(hidden.value) == str(absent.value)


def test_declared_groups() -> None:
    spec = samples.table()
    assert spec.declared_groups(()) == ((),)
    assert spec.declared_groups(("married", "sex")) == ((False, "F"), (False, "M"), (True, "F"), (True, "M"))
    assert spec.declared_groups(("sex", "region")) is None
    assert spec.count_declared_groups(("married", "sex")) == 4 and spec.count_declared_groups(("region",)) == 0


# --- services ------------------------------------------------------------------------------------------------------

COLUMNS = "columns: {sex: {role: public, type: category}}"


def test_who_is_answered_how() -> None:
    spec = parse_service(f"""
policies:
  careful: {{mode: dp, epsilon: 1}}
tables:
  a: {{{COLUMNS}, policy: careful}}
  b: {{{COLUMNS}}}
groups:
  guests: {{tables: [b], policy: {{mode: perturbed}}}}
users:
  ann: {{}}
  bob: {{group: guests}}
  eve: {{group: guests, policy: careful, tables: [a, b]}}
""")
    assert isinstance(spec.policy_for("ann", "a"), DpPolicy) and isinstance(spec.policy_for("ann", "b"), ExactPolicy)
    assert spec.policy_for("bob", "b").mode == "perturbed" and spec.policy_for("eve", "b") == spec.policies["careful"]
    assert spec.tables_for("ann") == ("a", "b") == spec.tables_for("eve") and spec.tables_for("bob") == ("b",)
    assert spec.table_for("bob", "b").name == "b"
    with pytest.raises(QueryRefused, match="unknown table; known: b"):
        spec.table_for("bob", "a")
    with pytest.raises(QueryRefused, match="unknown user"):
        spec.tables_for("mallory")


def test_every_fault_of_a_file_with_its_line() -> None:
    text = """tables:
  students:
    sorce: x.csv
    columns:
      sex: {role: publik, type: category}
      income: {role: sensitive, type: number, bounds: [3, 2]}
    policy: {mode: dp, epsilon: -1, epsilonn: 3}
users:
  ann: {polcy: x, policy: {mode: exakt}}
ledgr: sqlite:///x
"""
    with pytest.raises(PlanError) as caught:
        parse_service(text, "service.yaml")
    said = {re.search(r"line (\d+)", problem)[1]: problem for problem in caught.value.problems}  # type: ignore[index]
    assert set(said) == {"3", "5", "6", "7", "9", "10"} and len(caught.value.problems) == 8
    assert "did you mean 'source'" in said["3"] and "did you mean 'ledger'" in said["10"]


def test_names_that_lead_nowhere() -> None:
    text = f"""tables:
  a: {{{COLUMNS}, policy: gone}}
users:
  ann: {{group: gone, tables: [gone], knows: {{gone: [1]}}}}
policy: gone
"""
    with pytest.raises(PlanError) as caught:
        parse_service(text)
    lines = [re.search(r"line (\d+)", problem)[1] for problem in caught.value.problems]  # type: ignore[index]
    assert sorted(lines) == ["2", "4", "4", "4", "5"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tables: [", "not valid YAML"),
        ("- a", "is a mapping"),
        ("", "is a mapping"),
        ("tables: {a: {}}\ntables: {b: {}}", "given twice"),
        ("[" * 500 + "]" * 500, "nested"),
        ("tables: !!python/object:os.system {}", "required|valid|mapping|read"),
        ("ledger: x", "tables.*required"),
        (f"tables: {{a: {{{COLUMNS}}}}}\nserver: {{tls_key: x}}", "belong together"),
    ],
)
def test_files_that_cannot_be_read(text: str, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        parse_service(text)


def test_bare_words_are_read_as_in_plans() -> None:
    words = "[NO, off, y, 0123, 1:30, 2024-01-31]"
    spec = parse_service(f"tables: {{a: {{{COLUMNS}}}}}\nusers: {{NO: {{knows: {{a: {words}}}}}}}\n")
    ((name, user),) = spec.users.items()
    assert name == "NO" and [str(value) for value in user.knows["a"]] == parse_yaml(f"x: {words}").content["x"]
    assert parse_yaml(f"x: {words}").content["x"] == ["NO", "off", "y", "0123", "1:30", "2024-01-31"]


def test_paths_start_at_the_file(tmp_path: Path) -> None:
    file = tmp_path / "service.yaml"
    file.write_text(f"tables: {{a: {{source: data/a.csv, {COLUMNS}}}}}\nserver: {{log: x.log}}\nsecret_file: key\n")
    spec = ServiceSpec.load(file)
    assert spec.tables["a"].source == str(tmp_path / "data/a.csv") and spec.server.log == str(tmp_path / "x.log")
    assert spec.ledger == f"sqlite:///{tmp_path}/ledger.db" and spec.secret_file == str(tmp_path / "key")
    file.write_text(f"tables: {{a: {{source: 'postgresql://h/b?table=t', {COLUMNS}}}}}\nledger: postgresql://h/l\n")
    spec = load_service(file)
    assert spec.tables["a"].source == "postgresql://h/b?table=t" and spec.ledger == "postgresql://h/l"
    with pytest.raises(PlanError, match="no service file"):
        load_service(tmp_path / "gone.yaml")
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match="UTF-8"):
        load_service(file)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)


def test_the_service_file_of_the_documentation_works(tmp_path: Path) -> None:
    (tmp_path / "service.yaml").write_text(blocks("yaml")[0])
    (tmp_path / "students.csv").write_text("id,sex,faculty,born,scholarship,income\n1,F,EE,1999-01-31,true,250.5\n")
    spec = ServiceSpec.load(tmp_path / "service.yaml")
    backend = open_backend(spec.tables.values())
    statements = [text for block in blocks("sql") for text in block.split(";") if text.strip()]
    assert len(statements) >= 5
    for text in (one for one in statements if "mode(" not in one):  # a mode has no true answer
        assert backend.exact(parse_sql(text, spec)).height <= 1
    backend.close()
