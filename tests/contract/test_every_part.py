"""One contract for every registered part: a newcomer's class is tested before they write a test."""

from __future__ import annotations

import pydoc

import pytest
import yaml
from pydantic import ValidationError

import discretion as dc
from discretion import part as registry
from discretion.part import Part, all_parts, find, index, parse

from .samples import fields_for

EVERY = all_parts()
IDS = [part.kind for part in EVERY]


@pytest.fixture(params=EVERY, ids=IDS)
def part(request: pytest.FixtureRequest) -> type[Part]:
    return request.param  # type: ignore[no-any-return]


def test_the_index_finds_every_class_that_registers() -> None:
    ours = {kind for kind, cls in registry._REGISTERED.items() if cls.__module__.startswith("discretion.")}
    assert ours == set(index())
    assert len({entry.name for entry in index().values()}) == len(index())


def test_public_name_and_kind_are_the_same_part(part: type[Part]) -> None:
    assert getattr(dc, part.__name__) is part is find(part.kind)
    words = part.kind.replace("-", "")
    assert part.__name__.lower() == words


def test_index_knows_family_and_summary_without_importing(part: type[Part]) -> None:
    assert index()[part.kind].family == part.family
    assert index()[part.kind].summary == part.summary()


def test_every_field_is_documented(part: type[Part]) -> None:
    shown = pydoc.getdoc(part)  # what `help` shows
    for name in part.model_fields:
        assert part.about(name), f"{part.kind}.{name} has no docstring"
        assert part.about(name)[0].islower() or not part.about(name)[0].isalpha()
        assert f"{name} : " in shown


def test_docstring_says_what_it_does_where_it_comes_from_and_how_to_use_it(part: type[Part]) -> None:
    text = part.__doc__ or ""
    assert text.strip().partition("\n")[0].endswith(".")
    for section in ("References", "Catalogue", "Examples", ">>> "):
        assert section.lower() in text.lower(), f"{part.kind}: no {section}"


def test_frozen(part: type[Part], key_file: str) -> None:
    made = part(**fields_for(part, key_file))
    for name in part.model_fields:
        with pytest.raises(ValidationError):
            setattr(made, name, None)
    hash(repr(made))


def test_mappings_in_fields_cannot_change(part: type[Part], key_file: str) -> None:
    made = part(**fields_for(part, key_file))
    for name in part.model_fields:
        value = getattr(made, name)
        assert not isinstance(value, dict | list | set), f"{part.kind}.{name} can be changed in place"


def test_survives_yaml(part: type[Part], key_file: str) -> None:
    made = part(**fields_for(part, key_file))
    assert parse(yaml.safe_load(yaml.safe_dump(made.to_plan()))) == made


def test_unknown_field_is_refused_with_a_hint(part: type[Part], key_file: str) -> None:
    with pytest.raises(dc.PlanError, match="unknown field 'nonsense'"):
        part(**fields_for(part, key_file), nonsense=1)


def test_wrong_type_is_a_plan_error(part: type[Part], key_file: str) -> None:
    for name in part.model_fields:
        if name == "population":
            continue
        with pytest.raises(dc.PlanError, match=name):
            part(**{**fields_for(part, key_file), name: object()})


def test_json_schema_has_every_field(part: type[Part]) -> None:
    properties = part.model_json_schema()["properties"]
    assert set(properties) == set(part.model_fields)
    assert all(about["description"] == part.about(name) for name, about in properties.items())
