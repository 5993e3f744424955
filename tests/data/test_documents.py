"""One loader for all documents: what does not fit a model is told with file, line and key, whatever the format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, model_validator

from discretion.data.documents import DocumentKind, Faults, Place, parse_yaml, read_document, yaml_value
from discretion.errors import PlanError

KIND = DocumentKind("order file", "an order is a mapping with entries such as `items`")


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid")
    count: int


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")
    items: dict[str, Item]
    limit: int

    @model_validator(mode="after")
    def _few(self) -> Order:
        if many := {
            ("items", name, "count"): "too many" for name, item in self.items.items() if item.count > self.limit
        }:
            raise Faults(many)
        return self


def siblings(place: Place) -> tuple[str, ...]:
    return ("count",) if len(place) > 1 else ("items", "limit")


FAULTY = {"items": {"pens": {"count": "x"}, "NO": {"cout": 2, "count": 3}}}


def faults(path: Path, text: str) -> list[str]:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlanError) as caught:
        read_document(path, KIND).validated(Order, siblings)
    return list(caught.value.problems)


def test_every_fault_has_its_line_and_key(tmp_path: Path) -> None:
    text = "items:\n  pens:\n    count: x\n  NO:\n    cout: 2\n    count: 3\n"
    number, unknown, missing = faults(tmp_path / "o.yaml", text)
    assert number.startswith("o.yaml, line 3 (items.pens.count): ")
    assert unknown == "o.yaml, line 5 (items.NO.cout): unknown entry; did you mean 'count'?"
    assert missing == "o.yaml, line 1 (limit): this entry is required"
    assert faults(tmp_path / "o.json", json.dumps(FAULTY, indent=1))[0].startswith("o.json, line 4 (items.pens.count)")
    assert faults(tmp_path / "o.json", json.dumps(FAULTY))[2] == "o.json, line 1 (limit): this entry is required"
    toml = '[items.pens]\ncount = "x"\n[items.NO]\ncout = 2\ncount = 3\n'
    assert faults(tmp_path / "o.toml", toml)[2] == "o.toml (limit): this entry is required"


def test_faults_of_a_validator_stand_where_it_says(tmp_path: Path) -> None:
    text = "limit: 2\nitems:\n  pens: {count: 3}\n  ink:\n    count: 4\n"
    assert faults(tmp_path / "o.yaml", text) == [
        "o.yaml, line 3 (items.pens.count): too many",
        "o.yaml, line 5 (items.ink.count): too many",
    ]


def test_what_the_file_does_not_say_can_be_given() -> None:
    made = parse_yaml("items: {NO: {count: 1}}", "o", KIND).validated(Order, siblings, limit=5)
    assert made.limit == 5 and list(made.items) == ["NO"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "o.txt: an order is a mapping"),
        ("- a", "o.txt: an order is a mapping"),
        ("a: 1\na: 2", "o.txt, line 2: 'a' is given twice"),
        ("a: [1", "not valid YAML"),
        ("a: &b [*b]", "nested too deeply"),
        ("[" * 5000, "nested too deeply"),
    ],
)
def test_texts_that_cannot_be_read(tmp_path: Path, text: str, says: str) -> None:
    assert any(says in problem for problem in faults(tmp_path / "o.txt", text))


def test_files_are_named_by_their_kind(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no order file"):
        read_document(tmp_path / "none.yaml", KIND)
    (tmp_path / "o.yaml").write_bytes(b"a: \xff")
    with pytest.raises(PlanError, match="an order file must be UTF-8 text"):
        read_document(tmp_path / "o.yaml", KIND)


def test_values_that_stand_alone_are_read_as_in_documents() -> None:
    assert yaml_value("{a: [NO, 1e-3, 0123]}") == {"a": ["NO", 0.001, "0123"]}
    with pytest.raises(ValueError, match="expected"):
        yaml_value("{a: [")
